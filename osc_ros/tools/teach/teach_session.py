# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Connection to a running controller, to record and play poses and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.client.backend import ArmState, timeout_error
from osc_ros.client.motions import SLOWEST
from osc_ros.client.topics import TopicBackend
from osc_ros.control.safety.sample import continuous_joints
from osc_ros.control.setpoint.trajectory import Path
from osc_ros.control.setpoint.waypoints import excess, path_through, path_within
from osc_ros.errors import InputError
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.node_settings import target_limits
from osc_ros.tools.teach.taught import (
    distance,
    PATH,
    require_robot,
    Taught,
    taught_path,
    taught_poses,
    tip_poses,
)

Array = NDArray[np.float64]

CHANGED = 0.5  # time for the transition to a changed mode [s]
LEAD = 0.3  # time from the command of a path to its first point [s]
PATIENCE = 30.0  # timeout for a goal, added to the planned duration of a path [s]
POSTURE_PERIOD = 0.05  # [s]
SAMPLED = 0.01  # sampling period of a path, to measure the distance from it [s]
START_SPEED = 0.3  # largest speed of a joint on the way to the start [rad/s, m/s]
AT_LIMIT = 1e-3  # accepted excess over a position limit, by the push of the hand [rad, m]
FOREVER = 1e9  # [s]
LIMITS = (*(f'target.{part}.{name}' for part in ('rotation', 'translation')
            for name in ('speed', 'acceleration', 'jerk', 'leash')),
          'target.too_fast', 'workspace.lower', 'workspace.upper')
ROBOT = tuple(entry.name for entry in (*robot_parameters.ENTRIES, *robot_parameters.LOAD_ENTRIES))


@dataclass(frozen=True, eq=False)
class Plan:
    """Planned motion that plays a recording back."""

    taught: Taught
    times: Array  # (m,) of the recorded points at the chosen speed [s]
    path: Path | None  # of the tip, begins at time 0; None if single poses were recorded
    duration: float  # of the path [s]; 0 for poses
    way: Array  # (n,) of each joint to the start [rad, m]


class Session:
    """Connection to the running controller with the node name `controller`."""

    # `timeout`: longest wait for an answer [s]. InputError or ModelError if the robot description
    # cannot be used; ArmTimeoutError if the controller does not answer or is not active.

    def __init__(self, controller: str, timeout: float) -> None:
        self.backend = TopicBackend(controller, timeout)
        try:
            values = self.backend.services.parameters(ROBOT)
            self.robot = robot_parameters.robot(values, robot_parameters.description(
                values, self.backend.description()))
            if self.robot.nq != self.robot.n:
                raise InputError(f"'{self.robot.name}' has spherical joints: give "
                                 'revolute and prismatic ones')
            self.limits = target_limits(self.backend.services.parameters(LIMITS))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the controller continues."""
        self.backend.close()

    # record

    @contextmanager
    def guided(self) -> Iterator[None]:
        """Enable free drive within this context; afterwards restore the mode."""
        was_free = self.is_free()
        if not was_free:
            self.backend.set_free_drive(True)
        try:
            self._sleep(CHANGED)
            yield
        finally:
            if not was_free:
                self.backend.set_free_drive(False)

    def is_free(self) -> bool:
        """Whether the arm is in free drive."""
        return bool(self.backend.services.parameters(('mode',))['mode'] == 'free')

    def state(self) -> tuple[float, Array]:
        """Return time [s] and joint positions (n,) of the newest state."""
        found = self.backend.state()
        return found.time, self._in_order(found.q)

    def _in_order(self, q: Array) -> Array:
        names = self.backend.joint_names
        return q[[names.index(name) for name in self.robot.joint_names]]

    def _commanded(self, q: Array) -> Array:
        """Return recorded positions (n,) in the order of the commands, within the limits."""
        names = self.robot.joint_names
        return np.clip(q, *self.robot.position_limits.T)[
            [names.index(name) for name in self.backend.joint_names]]

    @contextmanager
    def recorded(self) -> Iterator[list[ArmState]]:
        """Yield a list to which all states within this context are appended."""
        states: list[ArmState] = []
        self.backend.listen(states.append)
        try:
            yield states
        finally:
            self.backend.listen(None)

    def path_of(self, states: list[ArmState]) -> Taught:
        """Return the recording of the path through these states."""
        return taught_path(self.robot, np.array([state.time for state in states]),
                           np.array([self._in_order(state.q) for state in states]))

    def poses_of(self, rows: list[tuple[float, Array]]) -> Taught:
        """Return the recording of the poses at these times [s] and joint positions (n,)."""
        return taught_poses(self.robot, np.array([time for time, _ in rows]),
                            np.array([q for _, q in rows]))

    def wait(self, until: Callable[[], bool], seconds: float = FOREVER) -> bool:
        """Wait for a condition, at most `seconds` of the arm's time; see `LawBackend.wait`."""
        return self.backend.wait(until, seconds)

    def _sleep(self, seconds: float) -> None:
        self.backend.wait(lambda: False, seconds)

    # play

    def plan(self, taught: Taught, speed: float) -> Plan:
        """Return the planned motion; `speed` multiplies the speed of a path."""
        # InputError if the recording is of another arm, exceeds a limit of the joints or the
        # target, or leaves the workspace, or if the arm is in free drive.
        require_robot(taught, self.robot)
        self._require_joints(taught, speed)
        for k, T in enumerate(taught.poses):
            if (T[:3, 3] < self.limits.box[0]).any() or (T[:3, 3] > self.limits.box[1]).any():
                raise InputError(f'point {k} at {np.round(T[:3, 3], 3).tolist()} m is outside of '
                                 f'the workspace box {self.limits.box.tolist()}')
        path, times = None, taught.times / speed
        if taught.kind == PATH:
            path = path_through(times, taught.poses, self.limits)
            factor = excess(path, self.limits)
            try:
                path = path_within(path, self.limits)
            except InputError as error:
                hint = f'; --speed {0.99 * speed / factor:.2g} is slow enough' * (factor > 1.0)
                raise InputError(f'{error}{hint}') from None
        if self.is_free():
            raise InputError('the arm is in free drive: accepted after '
                             '`ros2 service call …/free_drive std_srvs/srv/SetBool '
                             "'{data: false}'`")
        way = taught.q[0] - self.state()[1]
        way -= continuous_joints(self.robot) * np.round(way / (2.0 * np.pi)) * (2.0 * np.pi)
        return Plan(taught, times, path, 0.0 if path is None else float(path.times[-1]), way)

    def _require_joints(self, taught: Taught, speed: float) -> None:
        """Raise InputError for positions or velocities beyond the joint limits."""
        robot = self.robot
        lower, upper = robot.position_limits.T + np.array([[-AT_LIMIT], [AT_LIMIT]])
        for k, i in np.argwhere((taught.q < lower) | (taught.q > upper))[:1].tolist():
            raise InputError(
                f"joint '{robot.joint_names[i]}' is at {taught.q[k, i]:.4g} at point {k}: "
                f'give {robot.position_limits[i, 0]:.4g} to '
                f'{robot.position_limits[i, 1]:.4g}')
        if taught.kind != PATH:
            return
        rates = speed * np.abs(np.diff(taught.q, axis=0)) / np.diff(taught.times)[:, None]
        shares = (rates / robot.velocity_limits).max(axis=0)
        i = int(np.argmax(shares))
        if shares[i] > 1.0:
            raise InputError(
                f"joint '{robot.joint_names[i]}' moves with {rates[:, i].max():.3g} rad/s: "
                f'must be at most {robot.velocity_limits[i]:.3g}; --speed '
                f'{0.99 * speed / shares[i]:.2g} is slow enough')

    def go_to_start(self, plan: Plan) -> None:
        """Move the joints to the first recorded positions at START_SPEED; wait for arrival."""
        self.backend.move_joints(self._commanded(plan.taught.q[0]), None, START_SPEED)
        self._arrive('start', PATIENCE + float(np.abs(plan.way).max()) / START_SPEED)

    def _arrive(self, what: str, patience: float = PATIENCE) -> None:
        """Wait for arrival at the goal, at most `patience` [s]; `what` names it in the error."""
        patience *= 100.0 / max(self.backend.speed_override, SLOWEST)
        if not self.wait(self.backend.is_at_goal, patience):
            raise timeout_error(f'the {what} was not reached in {patience:.0f} s', self.backend)

    def play_path(self, plan: Plan) -> tuple[float, float]:
        """Move along the path; return the largest distance [m] and angle [rad] from it."""
        # InputError or ArmError if the controller refuses the path or stops the arm;
        # ArmTimeoutError if the arm did not reach the end.
        path, taught = plan.path, plan.taught
        if path is None:
            raise InputError('poses: play them by play_poses')
        speed = 0.01 * max(self.backend.speed_override, SLOWEST)
        now, due = self.state()[0], [-np.inf]

        def is_over() -> bool:
            time = self.state()[0]
            if time >= due[0]:
                due[0] = time + POSTURE_PERIOD
                at = speed * (time - now) - LEAD
                self.backend.set_posture(self._commanded(np.array([
                    np.interp(at, plan.times, column) for column in taught.q.T])))
            return self.backend.is_at_goal()

        with self.recorded() as states:
            self.backend.follow_path(LEAD + plan.times, taught.poses)
            if not self.wait(is_over, (plan.duration + LEAD) / speed + PATIENCE):
                raise timeout_error('the end of the path was not reached', self.backend)
        return self._largest_distance(path, states)

    def _largest_distance(self, path: Path, states: list[ArmState]) -> tuple[float, float]:
        """Return the largest distance [m] and angle [rad] of the tip from a path."""
        at = np.arange(path.times[0], path.times[-1] + SAMPLED, SAMPLED)
        wanted = np.array([path.at(float(time)).pose for time in at])
        apart = [0.0], [0.0]
        for T in tip_poses(self.robot, np.array([self._in_order(state.q)
                                                 for state in states[::5]])):
            nearest = np.argmin(np.linalg.norm(wanted[:, :3, 3] - T[:3, 3], axis=1))
            for list_, found in zip(apart, distance(T, wanted[nearest])):
                list_.append(found)
        return max(apart[0]), max(apart[1])

    def play_poses(self, plan: Plan, pause: float) -> tuple[float, float]:
        """Move to each pose and wait `pause` [s] there."""
        # Returns the largest distance [m] and angle [rad] between the tip and a pose after the
        # pause.
        apart = []
        for k, (q, pose) in enumerate(zip(plan.taught.q, plan.taught.poses), 1):
            self.backend.go_to(pose, None)
            self.backend.set_posture(self._commanded(q))
            self._arrive(f'pose {k} of {len(plan.taught.poses)}')
            self._sleep(pause)
            apart.append(distance(tip_poses(self.robot, self.state()[1][None])[0], pose))
        away, turn = np.max(apart, axis=0).tolist()
        return away, turn
