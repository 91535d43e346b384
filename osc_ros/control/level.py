# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""State of one task from tick to tick: target, wrench, activation, and the gains in force."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control import task_numbers
from osc_ros.control.arrival import Approach
from osc_ros.control.bandwidth import (
    largest_damping_rate,
    largest_integral_rate,
    largest_natural_frequency,
)
from osc_ros.control.fade import settling, smoother_step
from osc_ros.control.guide import Guide
from osc_ros.control.impedance import CARRIED, Impedance, VariableImpedance
from osc_ros.control.kinds.table import number_of
from osc_ros.control.task import Gains, Stiffness, Target, Task
from osc_ros.dynamics import level_row
from osc_ros.errors import InputError

Array = NDArray[np.float64]

FORGETTING = 0.3  # time constant with which an old measured wrench loses its weight [s]
COASTING = 5.0, 100.0  # range of the rate at which a target comes to rest, see `coast` [1/s]
SLOWEST = 1e-6  # least square of a speed that a rate is computed from
FRESH = 0.1  # greatest age at which a measured wrench counts as present [s]


class Level:
    """
    A task with its state from tick to tick.

    Attributes describe the last tick, in base axes unless stated otherwise.

    Attributes
    ----------
    task : Task
    target : Target
    pose, twist : (4, 4), (6,)
        Pose and twist of the link.
    error, u : (6,)
        Error as the kind of the task defines it (see `osc_ros.control.kinds`); commanded
        acceleration [rad/s², m/s²].
    activation : (6,)
        Activation of each axis of the task's frame, 0 to 1.
    wanted_wrench, wrench : (6,) [N·m, N]
        Wrenches by the robot on the environment along the axes of force, in the task's axes: the
        commanded wrench, and the wrench in force, which approaches the commanded one.
    longest_period : float [s]
        Longest period of the states for which the set gains are stable.
    moves : (6,)
        1 for the axes of motion, 0 for the others.
    rate : float [1/s]
        Highest rate of the velocity feedback, without the damping of springs.
    axes : (3, 3)
        Rotation of the task's frame in the base frame.
    has_force : bool
        Whether the task has an axis of force.
    impedance : VariableImpedance, optional
        Stiffness and damping ratio in force, if they were commanded by `set_impedance`.

    Parameters
    ----------
    task : Task
    blend_time : float
        Duration of changes of activation and wrench [s].
    pose : (4, 4)
        Pose of the link: the first target.
    rows : (TASK_WIDTH,), (WIDTH,)
        The task's row of numbers (see `osc_ros.control.task_numbers`), and its row of
        `Priorities.rows`.
    before : Level, optional
        State of the task that this one replaces.
    is_new : bool
        Whether the task is added to others that are active: its activation then starts from 0.

    """

    def __init__(self, task: Task, blend_time: float, pose: Array, rows: tuple[Array, Array],
                 before: Level | None = None, is_new: bool = False) -> None:
        self.task = task
        self._blend_time = blend_time
        self._force = task.along('force')
        self.moves = task.along('motion')
        self.rate = task.force.damping * float(self._force.max())
        self.has_force = bool(self._force.any())
        gains = task.gains
        self._yields = not isinstance(gains, Gains)
        self._row = rows[1]
        self._create_views(rows[0])
        if isinstance(gains, Gains):
            pace, bounds = gains.natural_frequency, (*gains.speed, *gains.acceleration)
            self.rate = max(self.rate, float((2.0 * gains.damping_ratio * pace).max()))
        else:
            pace, bounds = gains.stiffness, (*gains.force, *gains.force)
        self._shape[:] = np.array([self.moves, task.force.damping * self._force, pace,
                                   gains.damping_ratio, (*bounds, 0.0, 0.0), np.zeros(6)])
        self._find_bandwidth(task)
        self._integral_rate = task.force.integral_rate
        self._filter_rate = largest_integral_rate(task.force.damping)
        self._wanted_activation = task.activation * task.along('motion', 'force')
        self.activation[:] = (0.0 if is_new else 1.0) * self._wanted_activation
        self._since = -math.inf
        self.impedance: VariableImpedance | None = None
        self.latch(pose)
        if before is not None and (before.task.link, before.task.kind) == (task.link, task.kind):
            self._go_on_as(before)
        self._from = self.activation.copy()
        if not np.array_equal(self._from, self._wanted_activation):
            self._since = math.inf  # until the first tick

    def _create_views(self, memory: Array) -> None:
        """Create views of the parts of the task's row of numbers (TASK_WIDTH,)."""
        memory[:] = 0.0
        memory[task_numbers.IS_SPRING] = self._yields
        memory[task_numbers.KIND] = number_of(self.task.kind)
        memory[task_numbers.OWN:] = self.task.kind.numbers()
        self._memory = memory
        self._target_pose = memory[:task_numbers.TWIST].reshape(4, 4)
        self._target_rates = (memory[task_numbers.TWIST:task_numbers.ACCELERATION],
                              memory[task_numbers.ACCELERATION:task_numbers.AXES])
        self.axes: Array = memory[task_numbers.AXES:task_numbers.SHAPE].reshape(3, 3)
        self._shape = memory[task_numbers.SHAPE:task_numbers.ERROR].reshape(6, 6)
        self.activation: Array = self._shape[task_numbers.ACTIVATION]
        self._found = memory[task_numbers.ERROR:task_numbers.SEEN]
        self.error: Array = memory[task_numbers.ERROR:task_numbers.LAG]
        # lag of the link behind the last target, which `Guide` compares with `TargetLimits.leash`
        self._lag = memory[task_numbers.LAG:task_numbers.COMMANDED]
        self.u: Array = memory[task_numbers.COMMANDED:task_numbers.SEEN]
        self._seen = memory[task_numbers.SEEN:task_numbers.SEEN_TWIST].reshape(4, 4)
        self._seen_twist = memory[task_numbers.SEEN_TWIST:task_numbers.IS_SPRING]
        self._written: Target | None = None

    @property
    def pose(self) -> Array:
        """Pose (4, 4) of the link at the last tick."""
        return self._seen.copy()

    @property
    def twist(self) -> Array:
        """Twist (6,) of the link at the last tick, base axes [rad/s, m/s]."""
        return self._seen_twist.copy()

    def _find_bandwidth(self, task: Task) -> None:
        """Compute the largest stable gains times the period; they do not depend on the period."""
        moves, ratios = task.along('motion'), task.gains.damping_ratio
        self._set = self._shape[1:3].copy()
        self._largest = np.array([
            [largest_damping_rate(1.0)] * 6,
            [largest_natural_frequency(ratio, 1.0) for ratio in ratios.tolist()]])
        self._fastest = math.inf
        used = np.array([self._force, moves * (not self._yields)]) * self._set
        self.longest_period = float(np.min(self._largest[used > 0.0] / used[used > 0.0],
                                           initial=math.inf))
        self._largest_of_spring = float(np.min(self._largest[1][moves > 0.0], initial=math.inf))
        if self._yields and moves.any():
            self.longest_period = 0.0  # the frequency of a spring depends on the pose

    def soften(self, period: float) -> None:
        """Reduce the gains to the largest stable ones for this period of the states [s]."""
        most = self._largest / period
        if self._yields:
            self._fastest = (self._largest_of_spring / period) ** 2
            self._row[level_row.FASTEST] = self._fastest
            most[1] = math.inf
        np.minimum(self._set, most, out=self._shape[1:3])
        control = self.task.force
        damping = min(control.damping, float(most[0, 0]))
        self._filter_rate = largest_integral_rate(damping)
        self._integral_rate = min(control.integral_rate,
                                  largest_integral_rate(damping, control.gain))

    def gain_share(self, mobility: Array) -> float:
        """Least ratio of a reduced gain to its parameter, given Λ⁻¹ (6, 6) in base axes."""
        axes = self._set > 0.0
        if self.impedance is not None:
            return math.sqrt(self.impedance.energy[CARRIED])
        share = float(np.min(self._shape[1:3][axes] / self._set[axes], initial=1.0))
        if not self._yields or math.isinf(self._fastest):
            return share
        row = self._row
        T = np.kron(np.eye(2), row[level_row.FRAME:level_row.FRAME + 9].reshape(3, 3))
        S = np.diag(row[level_row.ROOT:level_row.ROOT + 6])
        highest = float(np.linalg.eigvalsh(S @ T.T @ mobility @ T @ S)[-1])
        return min(share, math.sqrt(self._fastest / highest) if highest > 0.0 else 1.0)

    def latch(self, pose: Array) -> None:
        """Set the target to a pose (4, 4) and the wrench to zero, and drop all motions."""
        self._seen[:] = pose
        self.target: Target = Target(self.task.kind.set_point(pose))
        self.guide: Guide = Guide(self.target.pose)
        self.wanted_wrench: Array = np.zeros(6)
        self.wrench: Array = np.zeros(6)
        self._rate: Array = np.zeros(6)
        self._integral: Array = np.zeros(6)
        self._filtered: Array = np.zeros(6)
        self._measured: Array = np.zeros(6)
        self._measured_at = -math.inf
        self._time: float = math.nan
        if self.impedance is not None:
            self.impedance = None
            self._shape[task_numbers.GAIN] = self._set[1]
            self._shape[task_numbers.RATIO] = self.task.gains.damping_ratio
            self._row[level_row.FASTEST] = self._fastest
            self._row[level_row.WRENCH:level_row.WRENCH + 6] = 0.0

    def rejoin(self, pose: Array) -> None:
        """Let the target go on with its motion from the pose (4, 4) of the link, at rest."""
        self._seen[:] = pose
        self.guide.rejoin(self.task.kind.set_point(pose))

    def coast(self, twist: Array, acceleration: Array) -> None:
        """
        Drop all motions; the target comes to rest from the pose of the link.

        Parameters
        ----------
        twist, acceleration : (6,), (6,)
            Of the link [rad/s, m/s], [rad/s², m/s²]; the target decelerates about as much.

        """
        kind, before = self.task.kind, self.guide
        v, a = twist.reshape(2, 3), acceleration.reshape(2, 3)
        rates = np.clip(-(v * a).sum(axis=1) / np.maximum((v * v).sum(axis=1), SLOWEST), *COASTING)
        moves = float('pose' in kind.goals)
        self.guide = Guide.coasting(kind.set_point(self.pose), moves * twist, rates, before)
        self.target = self.guide.target
        # activated at once: the target is where the link is, so this changes the torque little
        rises = self._wanted_activation > self.activation
        self._from[rises] = self.activation[rises] = self._wanted_activation[rises]

    def carry(self, T: Array) -> None:
        """Move the link's frame on its body by T (4, 4); set the target that the kind returns."""
        self._seen[:] = self._seen @ T
        self.target = Target(self.task.kind.set_point_with_link(self.target.pose, T))
        self.guide = Guide(self.target.pose)

    def _go_on_as(self, before: Level) -> None:
        """Copy the state of the previous task on the same link."""
        self._seen[:], self.target, self.guide = before._seen, before.target, before.guide
        self._found[:] = before._found
        self.activation[:] = before.activation
        self.wanted_wrench, self.wrench = self._force * before.wanted_wrench, before.wrench
        self._rate = before._rate
        self._integral = self._force * self.task.force.is_closed * before._integral
        self._filtered = self._force * self.task.force.is_closed * before._filtered
        self._measured, self._measured_at = before._measured, before._measured_at
        self._time = before._time
        own, old = self.task.gains, before.task.gains
        if (before.impedance is not None and isinstance(own, Stiffness)
                and isinstance(old, Stiffness) and np.array_equal(own.stiffness, old.stiffness)
                and np.array_equal(own.damping_ratio, old.damping_ratio)
                and np.array_equal(self.moves, before.moves)):
            self.impedance = before.impedance
            self.impedance.use(own.change_time, own.tank)

    def set_impedance(self, wanted: Impedance) -> None:
        """
        Approach another stiffness, damping ratio and feedforward wrench from the next tick on.

        Raises
        ------
        InputError
            The task is no spring; a wrench along axes that are not controlled in motion, or
            larger than the limits of the spring.

        """
        gains, name = self.task.gains, self.task.name
        if not isinstance(gains, Stiffness):
            raise InputError(f"task '{name}' has Gains, and no stiffness: accepted with a "
                             "Stiffness (parameter mode 'impedance')")
        if wanted.wrench is not None:
            for k in np.flatnonzero(wanted.wrench * (1.0 - self.moves)).tolist():
                raise InputError(f"wrench {wanted.wrench.tolist()} of task '{name}': axis {k} is "
                                 f'one of {self.task.axes[k]}, accepted there is 0')
            for half, what in enumerate(('moment', 'force')):
                size = float(np.linalg.norm(wanted.wrench[3 * half:3 * half + 3]))
                if size > gains.force[half]:
                    raise InputError(f"{what} {size:g} of task '{name}': accepted is at most "
                                     f'{gains.force[half]:g}, the largest {what} of the spring')
        if self.impedance is None:
            self.impedance = VariableImpedance(gains.stiffness, gains.damping_ratio,
                                               gains.change_time, gains.tank)
        self.impedance.command(wanted)

    def advance_impedance(self, time: float, period: float, mobility: Array) -> Array:
        """
        Advance the commanded impedance to a time [s]; return the damping rates of the springs.

        Parameters
        ----------
        time : float
        period : float
            Period that bounds the gains [s].
        mobility : (6, 6)
            Λ⁻¹ of the link, base axes.

        Returns
        -------
        (6,)
            2 ζ √stiffness, see `osc_ros.control.reference.Reference`.

        """
        assert self.impedance is not None
        self.impedance.advance(time, period, mobility, self._memory, self._row)
        stiffness, ratio, _ = self.impedance.now
        return np.asarray(2.0 * ratio * np.sqrt(stiffness))

    @property
    def goal(self) -> Array | None:
        """Pose (4, 4) at which the newest motion ends; None if it is a twist or a stop."""
        return self.guide.goal(self.task.limits)

    def approach(self) -> Approach:
        """The task, the pose of its link at the last tick, its newest goal, and its axes."""
        return Approach(self.task, self.pose, self.goal, self.axes.copy())

    def set_measured_wrench(self, wrench: Array, time: float) -> None:
        """Set the measured wrench (6,) of the link [N·m, N], base axes, and its stamp [s]."""
        self._measured, self._measured_at = wrench, time

    def set_target(self, time: float) -> None:
        """Compute target and activation at a time [s], and write them to the task's row."""
        self.target = target = self.guide.at(time, self.task.limits, self._lag)
        if target is not self._written:
            self._target_pose[:] = target.pose
            self._target_rates[0][:], self._target_rates[1][:] = target.twist, target.acceleration
            self._written = target
        if self._since > -math.inf:
            self._advance_activation(time)

    @property
    def rests(self) -> bool:
        """Whether `set_target` will write at the next tick what is there already."""
        return (self._written is not None and self.guide.rest is self._written
                and self._since == -math.inf and self.impedance is None)

    def set_wrench(self, time: float, axes: Array, is_saturated: bool) -> None:
        """
        Compute the wrench along the axes of force at a time [s]; write it to WRENCH of the row.

        Parameters
        ----------
        time : float
        axes : (3, 3)
            Rotation of the task's frame in the base frame.
        is_saturated : bool
            Whether the limits changed the torque: then the integral of the force error pauses.

        """
        wrench = self._row[level_row.WRENCH:level_row.WRENCH + 6]
        wrench[:] = self._wrench_at(time, axes, is_saturated)
        if self.impedance is not None:
            wrench += self.moves * self.impedance.now[2]
        self._time = time

    def _advance_activation(self, time: float) -> None:
        """Advance the change of the activation to a time [s], C²."""
        self._since = min(self._since, time)
        x = (time - self._since) / self._blend_time
        if x >= 1.0:
            self._since = -math.inf
            self.activation[:] = self._wanted_activation
        else:
            self.activation[:] = self._from + smoother_step(x) * (
                self._wanted_activation - self._from)

    def _wrench_at(self, time: float, R: Array, is_saturated: bool) -> Array:
        """Wrench (6,) to apply along the axes of force, in the task's axes [N·m, N]."""
        control = self.task.force
        dt = time - self._time if time > self._time else 0.0
        away, self._rate = settling(self.wrench - self.wanted_wrench, self._rate,
                                    self._blend_time, dt)
        self.wrench = self.wanted_wrench + away
        if not control.is_closed:
            return np.asarray(self._force * self.wrench)
        measured = np.concatenate([self._measured[:3] @ R, self._measured[3:] @ R])
        age = time - self._measured_at
        trust = math.exp(min(0.0, FRESH - age) / FORGETTING)
        missing = self._force * (self.wrench - measured)
        most = np.repeat(control.correction, 3)
        if age <= FRESH and not is_saturated:
            self._integral = np.clip(self._integral + self._integral_rate * dt * missing,
                                     -most, most)
        self._filtered = missing + math.exp(-self._filter_rate * dt) * (self._filtered - missing)
        return np.asarray(self._force * self.wrench + self._integral
                          + np.clip(trust * control.gain * self._filtered, -most, most))
