# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Experiments with a simulated arm: step and frequency responses, noise, motion within limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Settings, with_first_task
from osc_ros.control.tasks.task import Gains, TargetLimits, Task
from osc_ros.dynamics.algebra.kinematics import LinkAxes
from osc_ros.model.robot import Robot
from osc_ros.tools.tune.rig import Record, Rig
from osc_ros.tools.tune.step_response import settling_time, Shape, shape, Wanted
from osc_ros.tools.tune.subject import NOMINAL, Subject, Variant

Array = NDArray[np.float64]

LARGEST = 0.03, 0.01  # largest step of the set-point [rad], [m]
LINEAR = 0.4  # share of the feedback's speed and acceleration limits for a step
SETTLE = 0.3  # shortest time before the first step [s]
STEP = 0.3, 3.0  # shortest and longest time of a step [s]
RISES = 2.0  # added duration of a step, in multiples of `Disturbance.rise`
SINES = 8  # frequencies per axis
HOLD = 0.6  # duration of the noise test [s]; the first third is ignored
DISTANCE, ANGLE = 0.1, 0.5  # size of the motion [m], [rad]
MOTION = 0.6, 6.0  # shortest and longest time of its way out, and of its way back [s]
FEWEST = 8  # smallest number of states for the figures of a response
NONE = Shape(np.nan, np.nan, np.inf, np.inf, np.nan)  # for a response that diverges


@dataclass(frozen=True, eq=False)
class AxisResponse:
    """Response of one axis to a step of its set-point."""

    axis: int  # index in [angular; linear], in the axes of the task's frame
    amplitude: float  # size of the step [rad, m]
    time: Array  # (k,) since the step [s]
    met: Array  # (k,) response in the simulation, relative to the amplitude
    wanted: Array  # (k,) response of the linear system that the gains define, likewise
    shape: Shape  # overshoot, settling time and second-order fit of `met`
    wanted_shape: Shape  # of `wanted`
    error: float  # at the end: mean over the last tenth of the response [rad, m]
    coupling: tuple[float, float]  # largest rotation, translation along other axes [rad, m]
    torque: float  # largest torque of a joint, as a share of this joint's torque limit


@dataclass(frozen=True, eq=False)
class Steps:
    """Step responses of all axes."""

    # In the order of the steps. If the simulation fails in a step, the response to this step is
    # the last one, and the later axes are missing.
    axes: tuple[AxisResponse, ...]
    failure: str  # why the simulation failed; otherwise empty
    gain_share: float  # see `Law.gain_share`
    update: tuple[float, float]  # median and 99th percentile of the update time [s]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Frequency response of an axis: complex gain from set-point to position."""

    axis: int
    frequency: Array  # (k,) [rad/s]
    met: Array  # (k,) in the simulation
    wanted: Array  # (k,) of the linear system, as in `AxisResponse`


@dataclass(frozen=True, eq=False)
class Noise:
    """Standard deviation of the joint torques at rest."""

    by_position: Array  # (n,) caused by noise of the positions [N m, N]
    by_velocity: Array  # (n,) caused by noise of the velocities [N m, N]
    share: Array  # (n,) caused by both, as a share of the torque limits


@dataclass(frozen=True, eq=False)
class Motion:
    """Results of a motion to a goal and back, within the limits of the target."""

    record: Record
    torque: Array  # (n,) largest of each joint, as a share of its limit
    speed: Array  # (n,) largest of each joint, as a share of its limit
    limited: float  # share of the time in which joint limits reduce the task accelerations
    error: tuple[float, float]  # largest angle and distance, tip to set-point [rad, m]
    distance: float  # of the goal [m]


class Bench:
    """Experiments with the arm and law of `subject`, with given settings of the law."""

    # `robot` is the controller's model of the arm.

    def __init__(self, subject: Subject, settings: Settings, supervision: Supervision,
                 robot: Robot) -> None:
        self.subject, self._settings, self._supervision = subject, settings, supervision
        self._robot = robot
        self.task: Task = settings.tasks[0]
        law = subject.law
        self.R = (LinkAxes(law.robot, self.task.frame).at(subject.q)[:3, :3].copy()
                  if self.task.frame else np.eye(3))
        self._jumping = with_first_task(
            settings, limits=TargetLimits(*(np.full(2, np.inf),) * 4))
        law.use_setup(law.new_setup(self._jumping, robot))
        law.hold(subject.q)
        law.torque(0.0, subject.q, np.zeros(len(subject.q)))
        self.wanted = Wanted.of(self.task, law.inertia(), self.R)
        limits = settings.limits
        self._effort = np.asarray(limits.effort)
        self._speed = np.asarray(limits.velocity)

    def _rig(self, variant: Variant, jumps: bool = True) -> Rig:
        return Rig(self.subject, self._jumping if jumps else self._settings, self._supervision,
                   self._robot, variant)

    def duration(self, axis: int) -> float:
        """Return the time for which the response to a step along an axis is recorded [s]."""
        of_gains = float(np.clip(settling_time(*self.wanted.guess(axis)), *STEP))
        unknown = self._settings.disturbance
        return of_gains + (0.0 if unknown is None else RISES * unknown.rise)

    @property
    def settle(self) -> float:
        """Time in which the arm comes to rest [s]."""
        unknown = self._settings.disturbance
        return max(SETTLE, *map(self.duration, self.wanted.axes.tolist())) + (
            0.0 if unknown is None else RISES * unknown.rise + 0.5)

    def amplitude(self, axis: int) -> float:
        """Return the size of a step that does not saturate the feedback [rad, m]."""
        part, gains = axis // 3, self.task.gains
        frequency, ratio = self.wanted.guess(axis)
        bounds: tuple[float, ...]
        if isinstance(gains, Gains):
            bounds = (LINEAR * gains.acceleration[part] / frequency**2,
                      LINEAR * gains.speed[part] * 2.0 * ratio / frequency)
        else:
            bounds = (LINEAR * gains.force[part] / gains.stiffness[axis],)
        return float(min(LARGEST[part], *bounds))

    def _moved_pose(self, T: Array, axis: int, size: float) -> Array:
        """Return the pose (4, 4) after a motion along or about an axis of the task's frame."""
        there, direction = T.copy(), size * self.R[:, axis % 3]
        if axis < 3:
            there[:3, :3] = Rotation.from_rotvec(direction).as_matrix() @ T[:3, :3]
        else:
            there[:3, 3] += direction
        return there

    def _displacements(self, poses: Array, since: Array) -> Array:
        """Return the displacements (k, 6) from the pose `since` (4, 4) to other poses."""
        # [angular; linear] in the axes of the task's frame.
        turns = Rotation.from_matrix(poses[:, :3, :3] @ since[:3, :3].T).as_rotvec()
        return np.hstack([turns @ self.R, (poses[:, :3, 3] - since[:3, 3]) @ self.R])

    def steps(self, variant: Variant = NOMINAL) -> Steps:
        """Return the responses to a step along each axis of motion, one after another."""
        rig, found, begins = self._rig(variant), [], []
        goal = rig.law.target.pose.copy()
        is_well = rig.run(self.settle)
        for axis in self.wanted.axes.tolist() if is_well else ():
            goal = self._moved_pose(goal, axis, self.amplitude(axis))
            rig.law.follow(goal)
            begins.append((axis, rig.time))
            if not rig.run(self.duration(axis)):
                break
        share, record = rig.law.gain_share(), rig.record()
        delay = self.subject.delay if variant.delay is None else variant.delay
        for axis, begin in begins:
            found.append(self._axis_response(record, axis, begin, delay))
        return Steps(tuple(found), record.failure, share, record.update)

    def _axis_response(self, record: Record, axis: int, begin: float, delay: float
                       ) -> AxisResponse:
        size, half = self.amplitude(axis), 0.5 * self.subject.period
        rows = np.flatnonzero((record.time > begin - half) & (
            record.time < begin + self.duration(axis) - half))
        guess = self.wanted.guess(axis)
        if len(rows) < FEWEST:  # the run ended at once
            time = np.asarray(self.subject.period * np.arange(FEWEST), dtype=np.float64)
            return AxisResponse(axis, size, time, np.full(FEWEST, np.inf),
                                self.wanted.response(axis, time), NONE,
                                shape(time, self.wanted.response(axis, time), guess, 0.0),
                                np.inf, (np.inf, np.inf), np.inf)
        time = record.time[rows] - begin
        moves = self._displacements(record.pose[rows], record.pose[max(rows[0] - 1, 0)])
        met, wanted = moves[:, axis] / size, self.wanted.response(axis, time)
        left = self._displacements(record.pose[rows], record.target[rows[0]])[:, axis]
        others = np.abs(np.delete(moves, axis, axis=1))
        split = 2 if axis < 3 else 3
        return AxisResponse(
            axis, size, time, met, wanted, shape(time, met, guess, delay),
            shape(time, wanted, guess, 0.0), abs(float(left[-(len(left) // 10 + 2):].mean())),
            (float(others[:, :split].max()), float(others[:, split:].max())),
            float((np.abs(record.torque[rows]) / self._effort).max()))

    def spectra(self, variant: Variant = NOMINAL) -> tuple[Spectrum, ...]:
        """Return the frequency responses of all axes from one run; () if the arm diverges."""
        rig, axes, period = self._rig(variant), self.wanted.axes.tolist(), self.subject.period
        paces = [self.wanted.guess(axis)[0] for axis in axes]
        span = float(np.clip(90.0 / min(paces), 3.0, 6.0))
        span = period * round(span / period)
        last = int(min(6.0 * max(paces), 0.6 * np.pi / period) * span / (2.0 * np.pi))
        bins = np.unique(np.round(np.geomspace(1.0, max(last, 2 * len(axes)),
                                               SINES * len(axes))).astype(int))
        own = {axis: bins[i::len(axes)] for i, axis in enumerate(axes)}
        phases = np.random.default_rng(1).uniform(0.0, 2.0 * np.pi, last + len(bins) + 2)
        home = rig.law.target.pose.copy()

        def wave(axis: int, time: float) -> float:
            angles = 2.0 * np.pi * own[axis] * time / span + phases[own[axis]]
            return float(0.5 * self.amplitude(axis) / np.sqrt(len(angles)) * np.sin(angles).sum())

        def excite() -> None:
            goal = home
            for axis in axes:
                goal = self._moved_pose(goal, axis, wave(axis, rig.time))
            rig.law.follow(goal)

        is_well = rig.run(max(0.5, max(map(self.duration, axes))) + span, excite)
        if not is_well:
            return ()
        record = rig.record()
        rows = slice(len(record.time) - round(span / period), None)
        moves = self._displacements(record.pose[rows], home)
        goals = self._displacements(record.target[rows], home)
        found = []
        for axis in axes:
            frequency = 2.0 * np.pi * own[axis] / span
            turn = np.exp(-1j * np.outer(frequency, record.time[rows]))
            found.append(Spectrum(axis, frequency, (turn @ moves[:, axis]) / (
                turn @ goals[:, axis]), self.wanted.gain(axis, frequency)))
        return tuple(found)

    def noise(self) -> Noise:
        """Return the noise of the torques at rest that the encoders of the subject cause."""
        position, velocity = self.subject.encoder_noise
        first, second = (self._torque_noise(variant) for variant in (
            Variant(position_noise=position), Variant(velocity_noise=velocity)))
        return Noise(first, second, np.hypot(first, second) / self._effort)

    def _torque_noise(self, variant: Variant) -> Array:
        rig = self._rig(variant)
        rig.run(HOLD)
        tau = rig.record().torque
        return np.asarray(tau[len(tau) // 3:].std(axis=0)) if len(tau) > 10 else np.full(
            rig.law.robot.n, np.inf)

    def motion(self) -> Motion:
        """Move towards the base and rotate, then back, in target limits; return the results."""
        rig = self._rig(NOMINAL, jumps=False)
        home = rig.law.target.pose.copy()
        inward = -home[:3, 3]
        reach = float(np.linalg.norm(inward))
        distance = min(DISTANCE, 0.15 * reach)
        goal = home
        for axis in self.wanted.axes.tolist():
            along = float(inward @ self.R[:, axis % 3]) / max(reach, 1e-9)
            size = distance * along if axis > 2 else ANGLE * (axis == 2)
            goal = self._moved_pose(goal, axis, size)
        for there in (goal, home):
            rig.law.follow(there)
            rig.run(self._time(distance))
        record = rig.record()
        pose, target = record.pose, record.target
        turns = Rotation.from_matrix(target[:, :3, :3] @ pose[:, :3, :3].transpose(
            0, 2, 1)).magnitude()
        distances = np.linalg.norm(target[:, :3, 3] - pose[:, :3, 3], axis=1)
        return Motion(record, np.abs(record.torque).max(axis=0) / self._effort,
                      np.abs(record.qd).max(axis=0) / self._speed,
                      float((record.task_share < 0.999).mean()),
                      (float(turns.max()), float(distances.max())), distance)

    def _time(self, distance: float) -> float:
        """Return a time in which the set-point, and after it the arm, comes to rest [s]."""
        limits, times = self.task.limits, []
        for size, speed, rate, jerk in zip((ANGLE, distance), limits.speed, limits.acceleration,
                                           limits.jerk):
            times.append(size / speed + 2.0 * np.sqrt(size / rate) + 4.0 * np.cbrt(size / jerk))
        rest = max(map(self.duration, self.wanted.axes.tolist()))
        return float(np.clip(max(times) + 0.5 * rest, *MOTION))
