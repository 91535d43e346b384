# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands of an arm whose control loop takes requests, in this thread or in another process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
import logging
from threading import active_count, Condition
from time import sleep
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.client.backend import ArmState, CLOSED, distance_text, warn
from osc_ros.client.robots import JOINT_TOLERANCE, TOLERANCE, TWIST_TIMEOUT
from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.obstacles import changed_obstacles, Obstacle
from osc_ros.compile.compiled import on_demand
from osc_ros.control.accepted import (
    bounded_stiffness,
    bounded_twist,
    checked_override,
    duration_text,
    joint_duration_text,
    OUTSIDE,
    require_reach,
)
from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.law import Law
from osc_ros.control.limits.attached import thing_shapes, with_attached
from osc_ros.control.reasons import Reason, reasons, watchdog_reason
from osc_ros.control.safety.supervision import HARMLESS, Supervision
from osc_ros.control.setpoint.arrival import Arrival, NO_GOAL, REACHED
from osc_ros.control.setpoint.chunks import chunk_entry, LEAD
from osc_ros.control.setpoint.set_point_generator import Motion, TwistGoal
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.settings import Settings, with_first_task
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.task import Stiffness, Target, Task
from osc_ros.dynamics.algebra.kinematics import LinkAxes
from osc_ros.errors import ArmError, InputError, OscError
from osc_ros.loop import requests
from osc_ros.loop.cycle import ACTIVE
from osc_ros.loop.process.hardware_engine import HardwareEngine
from osc_ros.model.gripper_state import GripperState
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

REPORTS = 50.0  # rate of the errors of the tip, and of the checks of the distance to the goal [Hz]
ROUNDING = 1e-6  # tolerance of times [s]
LOGGER = logging.getLogger('osc_ros')


class LawBackend(ABC):
    """Sends requests to a control loop; a command returns when the loop has accepted it."""

    # If the loop refuses a command, this raises InputError with the reason; if a command has to be
    # changed, it warns by InputWarning. Poses are (4, 4) in the base frame.

    _loop: Any  # LoopProcess or LockstepEngine

    def __init__(self, law: Law, loop: Any, guard: Supervision) -> None:
        self._law, self._loop, self._guard = law, loop, guard  # law has the settings in force
        self._original = law.settings
        self.joint_names: tuple[str, ...] = law.robot.joint_names
        self._is_open, self._news = True, Condition()
        self._arrival, self._checked = Arrival(), -np.inf
        self._goal: Array | None = None  # of the last command
        self._trouble, self._dropped = '', ''  # why the arm has failed; why a motion has ended
        self._led: Settings | None = None  # settings before free drive
        self._is_in_doubt = False  # whether Ctrl-C may have kept a change from the law or the loop
        # what links hold, and its shapes
        self._things: Mapping[str, tuple[Obstacle, tuple[LinkShape, ...]]] = MappingProxyType({})
        self._listener: Callable[[ArmState], None] | None = None

    @abstractmethod
    def state(self) -> ArmState:
        """Return the newest state; ArmError if the arm was closed."""

    @abstractmethod
    def recover(self) -> str:
        """Release latched watchdogs, or clear an error of the arm; return a text on the action."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the backend."""

    @abstractmethod
    def _await_state(self) -> None:
        """Wait until something has happened, at most 0.1 s; called with the lock of `_news`."""

    @property
    def robot(self) -> Robot:
        """Model of the arm."""
        return self._law.robot

    @property
    def _time(self) -> float:
        """Time of the newest state [s]."""
        return float(self._loop.time)

    # requests

    def _require_open(self) -> None:
        if not self._is_open:
            raise ArmError(CLOSED)

    def _require_control(self) -> None:
        """Raise ArmError if the arm has failed or was stopped."""
        if self._trouble and self._loop.mode != ACTIVE:
            raise ArmError(f'{self._trouble}; see Arm.recover')

    def _request(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Call `what(engine, *arguments)` between two states; raise ArmError if that failed."""
        self._require_open()
        self._require_control()
        with self._news:
            return self._loop.request(what, *arguments)

    def _command(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Request a motion, and record that a motion was commanded."""
        with self._news:  # so that the old goal is not checked in between
            answer = self._request(what, *arguments)
            self._dropped, self._goal = '', None
            self._arrival.begin()
            self._goal = self._check()
        return answer

    def _check(self) -> Array | None:
        """Compare the tip or the joints with their goal; return the goal of the tip, if any."""
        with self._news:
            found = self._loop.request(requests.progress)
            if found is None:
                return None
            self._checked = found.time
            if found.joints is not None:
                self._arrival.update(found.time, found.joints.error(), JOINT_TOLERANCE,
                                     found.joints.moves)
            elif found.approaches:
                approach = next(iter(found.approaches.values()))
                self._arrival.update(found.time, approach.error(), TOLERANCE)
                goal: Array | None = approach.goal
                return goal
            else:
                self._arrival.clear()
            return None

    def _handle(self, event: str, *arguments: Any) -> None:
        """Handle an event of the loop, see `osc_ros.loop.engine.Engine`."""
        if event == 'lost':
            text = f'the arm has failed: {arguments[0]}'
            if self._trouble:
                LOGGER.error(text)  # a consequence of `_trouble`
            else:
                self._fail(text)
        elif event == 'stopped':
            self._fail('the arm was stopped')
        elif event in ('error', 'warning', 'refusal', 'dropped'):
            LOGGER.warning('%s', arguments[0])
            if event == 'dropped':
                self._dropped = arguments[0]

    def _fail(self, text: str) -> None:
        if text != self._trouble:
            LOGGER.error(text)
        self._trouble = text

    def _require_motion(self) -> None:
        """Raise ArmError if the arm was closed or has failed, or its motion has ended early."""
        self._require_open()
        if self._trouble:
            raise ArmError(self._trouble)
        if self._dropped:
            raise ArmError(f'the motion has ended before its goal: {self._dropped}')

    def _use(self, settings: Settings | None = None, robot: Robot | None = None) -> None:
        """Use other settings or another robot."""
        self.require_active()
        self._plan(settings, robot)

    def _plan(self, settings: Settings | None = None, robot: Robot | None = None) -> None:
        setup = self._law.new_setup(settings, robot, self._loop.q)
        self._is_in_doubt = True
        self._take_setup(setup)
        self._is_in_doubt = False

    def _take_setup(self, setup: CompiledLaw) -> None:
        """Use a `CompiledLaw` in the loop and in the law."""
        self._loop.use_setup(setup, self._guard)

    @property
    def _first(self) -> Task:
        return self._law.settings.tasks[0]

    def _lead(self, joints: JointDrive | None) -> None:
        """Let the joints follow motions of their own, or, with None, the tip its targets."""
        self._require_led()
        settings = self._law.settings
        if self._is_in_doubt or (settings.joints is None) != (joints is None):
            self._use(replace(settings, joints=joints))
            self._forget_goal()

    def _require_led(self) -> None:
        """Raise InputError in free drive, in which the settings are those of guiding."""
        if self._led is not None:
            raise InputError('the arm is in free drive and follows the hand: call '
                             'free_drive(False) first')

    # motions

    def _follow(self, motion: Motion, start: float = 0.0) -> bool:
        """Command a motion of the tip that starts at a time [s]; 0: now. See `requests.follow`."""
        self._lead(None)
        return bool(self._command(requests.follow, motion, start, self._first.name))

    def _set_point(self, time: float) -> Target:
        """Return the set-point of the tip at a time [s]."""
        found: Target = self._request(requests.predicted_target, self._first.name, time)
        return found

    @property
    def fastest(self) -> float:
        """Largest speed of the set-point of the tip [m/s]."""
        return float(self._first.limits.speed[1])

    def go_to(self, pose: Array, duration: float | None) -> None:
        """Set a goal, to be reached after `duration` [s], or as early as the limits allow."""
        limits, arrival = self._first.limits, -np.inf
        require_reach(self._law.robot, self._first, pose[None, :3, 3])
        if duration is not None:
            now = self._time
            arrival = now + duration
            warn(duration_text(duration, self._set_point(now), limits.inside(pose), limits))
        if not self._follow(PoseGoal(pose, arrival)):
            warn(OUTSIDE)

    def jog(self, twist: Array) -> None:
        """Move the tip with a twist (6,) until the time-out of twists."""
        bounded, text = bounded_twist(twist, self._first.limits)
        warn(text)
        self._follow(TwistGoal(bounded, self._time + TWIST_TIMEOUT))

    def follow_chunk(self, times: Array, poses: Array, observed_at: float) -> str:
        """Follow poses (m, 4, 4) at times (m,) after the observation [s]; return a report."""
        require_reach(self._law.robot, self._first, poses[:, :3, 3])
        self._lead(None)
        start = self._time + LEAD
        entry = chunk_entry(observed_at + times, poses, observed_at, self._set_point(start),
                            start, self._first.limits, speed=0.01 * self.speed_override)
        self._follow(entry.path, start)
        warn(entry.warning)
        return str(entry)

    def move_joints(self, goal: Array, duration: float | None, speed: float | None) -> None:
        """Move the joints to a goal (n,); NaN: a joint keeps its goal; see `Law.move_joints`."""
        law = self._law  # refuses before anything has changed
        law.require_joint_goal(goal, speed, np.clip(self.state().q, *law.robot.position_limits.T))
        self._lead(JointDrive())
        wait = 0.0 if duration is None else self._request(requests.status).wait
        found = self._command(requests.move_joints, goal, duration, speed)
        warn(joint_duration_text(duration, found - wait, self.speed_override))

    def follow_joints(self, times: Array, positions: Array) -> None:
        """Move the joints through positions (m, n) at times (m,) from now on [s]."""
        if len(times) == 1:
            self._lead(JointDrive())
            self._command(requests.reach_joints, float(times[0]), positions[0])
            return
        state, held = self._request(requests.joint_set_point)
        motion = self._law.joint_path(state, held, times, positions)
        self._lead(JointDrive())
        self._command(requests.follow_joints, motion)

    def hold(self) -> None:
        """Stop as fast as the limits allow, and hold the pose; this also ends free drive."""
        self.set_free_drive(False)
        self._command(requests.hold)

    def set_free_drive(self, is_on: bool) -> None:
        """Let a hand guide the arm, or hold it again where it is; return the answer of a node."""
        settings = self._law.settings
        if is_on and self._led is None:
            led = self._led = replace(settings, joints=None)
            try:
                self._use(FreeDrive().applied_to(led))
            except OscError:
                self._led = None
                raise
        elif not is_on and self._led is not None:
            self._use(replace(self._led, clearance=settings.clearance))
            self._led = None
        self._forget_goal()

    def _forget_goal(self) -> None:
        self._goal = None
        self._arrival.clear()

    def require_active(self) -> None:
        """Raise an error if the arm was closed or is not active; see `LawBackend`."""
        self._request(requests.progress)

    # forces, gains and load

    def set_wrench(self, wrench: Array) -> None:
        """Apply a wrench (6,) along the force-controlled axes."""
        self._lead(None)
        self._request(requests.set_wrench, wrench, self._first.name)

    def use_axes(self, axes: tuple[str, ...]) -> None:
        """Control 'motion' or 'force' along six axes of the task, or leave them 'free'."""
        self._require_led()
        settings = self._law.settings
        self._use(with_first_task(replace(settings, joints=None), axes=axes))
        if settings.joints is not None:
            self._forget_goal()

    def use_gains(self, spring: Stiffness | None) -> None:
        """Give the tip the stiffness of `spring`, or, with None, its original gains again."""
        self._require_led()
        if spring is not None:
            inertia = self._request(requests.inertia)
            axes = LinkAxes(self.robot, self._first.frame).at(self._loop.q)[:3, :3] if (
                self._first.frame) else np.eye(3)
            spring, text = bounded_stiffness(spring, np.linalg.inv(inertia), axes,
                                             self._request(requests.period))
            warn(text)
        self._use(with_first_task(
            self._law.settings, gains=self._original.tasks[0].gains if spring is None else spring))

    def use_payload(self, mass: float, center_of_mass: Array, inertia: Array) -> None:
        """Set the payload at the tip: mass [kg], centre of mass [m], inertia [kg m²]."""
        # In the frame of the tip: the centre (3,), and the inertia (3, 3) about it.
        self._use(robot=self._law.robot.without_payload().with_payload(
            mass, center_of_mass, inertia))

    @property
    def speed_override(self) -> float:
        """Speed of all motions relative to their own [%]; see `Law.speed_override`."""
        self._require_open()
        return float(self._loop.request(requests.speed_override))

    def set_speed_override(self, percent: float) -> None:
        """Set `speed_override`."""
        self._require_open()
        self._loop.request(requests.set_speed_override, checked_override(percent))

    # obstacles and gripper

    def keeps_clear(self) -> bool:
        """Whether the arm keeps clear of obstacles."""
        return self._law.settings.clearance is not None

    @property
    def obstacles(self) -> Mapping[str, Obstacle]:
        """Present obstacles, and things on links, by name; over ROS those of this client."""
        self._require_open()
        return {**self._law.obstacles, **{name: one for name, (one, _) in self._things.items()}}

    def change_obstacles(self, changes: Mapping[str, Obstacle | None]) -> None:
        """Add or move the named obstacles, remove those that are None; all of them or none."""
        # An obstacle that names a link is held by this link, until it is set again without a link.
        # For errors see `changed_obstacles`, `thing_shapes` and `with_attached`.
        changed_obstacles(self.obstacles, changes)
        law, before = self._law, self._things
        things = {name: one for name, one in before.items() if name not in changes} | {
            name: (one, thing_shapes(name, one, law.robot))
            for name, one in changes.items() if one is not None and one.link}
        settings, is_other = law.settings, things != before
        if is_other and settings.clearance is not None:
            settings = replace(settings, clearance=with_attached(settings.clearance, [
                shape for _, shapes in things.values() for shape in shapes], law.robot,
                self.state().q))
        if settings is not law.settings:
            self._use(settings)
        self._things = things
        changes = {name: None if name in things else one for name, one in changes.items()}
        self._update_obstacles({name: changes[name] for name in changes.keys() - before.keys()})
        # while the torques blend, the replaced settings have the thing on its link, too
        self._update_obstacles({name: changes[name] for name in changes.keys() & before.keys()},
                               settings.blend_time)

    def _update_obstacles(self, changes: Mapping[str, Obstacle | None], delay: float = 0.0
                          ) -> None:
        """Change obstacles without links; new ones come into force after a delay [s]."""
        self._request(requests.set_obstacles, changes, False, True, delay)

    def move_gripper(self, command: list[float]) -> None:
        """Move the gripper: width [m], largest force [N], speed [m/s]; NaN or missing: default."""
        self._request(HardwareEngine.move_gripper, command)

    def gripper_state(self) -> GripperState:
        """Return the newest state of the gripper."""
        state: GripperState = self._request(HardwareEngine.gripper_state)
        return state

    # goal

    def has_goal(self) -> bool:
        """Whether the last motion has a goal, also if it has ended before."""
        return self._arrival.state != NO_GOAL or bool(self._trouble or self._dropped)

    def is_at_goal(self) -> bool:
        """Whether the arm has reached the goal of the last command."""
        return self._arrival.state == REACHED

    def distance(self) -> str:
        """Return a text on the distance to the goal; empty without a goal."""
        return distance_text(self._arrival.angle, self._arrival.distance)

    def reasons(self) -> list[Reason]:
        """Return the reasons why the arm is not at its goal."""
        with self._news:
            status = self._loop.request(requests.status)
        if status.reaction not in HARMLESS:
            return [watchdog_reason(status.text)]
        with on_demand():
            return reasons(self.robot, self._first, status.figures, self._goal)

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Wait until a condition holds; return False after the time-out [s] on the arm's clock."""
        # ArmError if the controller has stopped the arm, ArmTimeoutError if states no longer come.
        self._require_open()
        end = self._time + timeout - ROUNDING
        while True:
            with self._news:
                if until():
                    return True
                self._require_motion()
                if self._time >= end:
                    return False
                self._await_state()
            if active_count() > 1:
                sleep(0)  # another thread may command now

    def listen(self, listener: Callable[[ArmState], None] | None) -> None:
        """Call a function with every new state; None ends this."""
        self._listener = listener
