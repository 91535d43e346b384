# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""State of one task between ticks: target, wrench, activation, and the gains in force."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.control.setpoint.arrival import Approach
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator
from osc_ros.control.tasks import task_numbers
from osc_ros.control.tasks.bandwidth import (
    largest_damping_rate,
    largest_integral_rate,
    largest_natural_frequency,
)
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.impedance import CARRIED, Impedance, VariableImpedance
from osc_ros.control.tasks.kind_table import number_of
from osc_ros.control.tasks.task import Gains, Stiffness, Target, Task
from osc_ros.control.tasks.task_reference import PLAN, STATE
from osc_ros.dynamics.priority import level_row
from osc_ros.errors import InputError

Array = NDArray[np.float64]

COASTING = 5.0, 100.0  # least and highest decay rate of the speed in `coast` [1/s]
SLOWEST = 1e-6  # least squared speed in the denominator of a decay rate


class Level:
    """
    A task with its state, which lasts from tick to tick.

    Attributes describe the last tick, in base axes unless stated otherwise.

    Attributes
    ----------
    task : Task
    error, u : (6,)
        Error as defined by the kind of the task (see `control.tasks.kind`); commanded acceleration
        [rad/s², m/s²].
    activation : (6,)
        Activation of each axis of the task's frame, 0 to 1.
    longest_period : float [s]
        Longest period of the states at which the gains of the settings are stable.
    moves : (6,)
        1 for the axes of motion, 0 for the others.
    rate : float [1/s]
        Highest rate of the velocity feedback, without the damping of springs.
    axes : (3, 3)
        Rotation of the task's frame in the base frame.

    Parameters
    ----------
    task : Task
    blend_time : float
        Duration of changes of activation and wrench [s].
    rows : (TASK_WIDTH,), (WIDTH,), (…), (…), (2,) int
        The task's row of numbers (see `osc_ros.control.tasks.task_numbers`), its row of
        `Priorities.rows`, its records of `osc_ros.control.tasks.task_reference`, PLAN and STATE,
        and the addresses of its generator's records.

    """

    def __init__(self, task: Task, blend_time: float, rows: tuple[Array, ...]) -> None:
        self.task = task
        self.moves, force = task.along('motion'), task.along('force')
        self.rate = task.force.damping * float(force.max())
        gains = task.gains
        self._yields = not isinstance(gains, Gains)
        self._row, self._generator_addresses = rows[1], rows[4]
        self._create_views(rows[0], *rows[2:4])
        self._put_plan(blend_time, force)
        if isinstance(gains, Gains):
            pace, bounds = gains.natural_frequency, (*gains.speed, *gains.acceleration)
            self.rate = max(self.rate, float((2.0 * gains.damping_ratio * pace).max()))
        else:
            pace, bounds = gains.stiffness, (*gains.force, *gains.force)
        self._shape[:] = np.array([self.moves, task.force.damping * force, pace,
                                   gains.damping_ratio, (*bounds, 0.0, 0.0), np.zeros(6)])
        self._find_bandwidth(task)
        self._plan.activation[:] = task.activation * task.along('motion', 'force')
        self.axes[:] = np.eye(3)

    def start(self, pose: Array, before: Level | None = None, is_new: bool = False) -> None:
        """
        Begin with the pose (4, 4) of the link as target, or continue the state of another task.

        `before` is the task that this one replaces; its state is taken over if link and kind are
        the same. If the task is added to active ones (`is_new`), its activation starts from 0.

        """
        task = self.task
        self._end_impedance()
        self.activation[:] = (0.0 if is_new else 1.0) * self._plan.activation
        if before is not None and (before.task.link, before.task.kind) == (task.link, task.kind):
            self._go_on_as(before)
            self._begin_to_lead(before)
        else:
            self.hold(pose)
        self._state.activation[:] = self.activation
        self._state.since[0] = math.inf  # until the first tick
        self._state.is_changing[0] = not np.array_equal(self.activation, self._plan.activation)

    def _put_plan(self, blend_time: float, force: Array) -> None:
        plan, control = self._plan, self.task.force
        plan.blend_time[0], plan.force[:], plan.is_closed[0] = (
            blend_time, force, control.is_closed)
        plan.gain[0], plan.integral_rate[0], plan.correction[:] = (
            control.gain, control.integral_rate, control.correction)
        plan.filter_rate[0] = largest_integral_rate(control.damping)
        plan.fastest[0] = math.inf

    def _create_views(self, memory: Array, plan: Array, state: Array) -> None:
        for one in (memory, plan, state):
            one[:] = 0.0
        self._memory, self._plan, self._state = memory, PLAN.of(plan, 0), STATE.of(state, 0)
        self.axes: Array = memory[task_numbers.AXES:task_numbers.SHAPE].reshape(3, 3)
        self._shape = memory[task_numbers.SHAPE:task_numbers.ERROR].reshape(6, 6)
        self.activation: Array = self._shape[task_numbers.ACTIVATION]
        self.error: Array = memory[task_numbers.ERROR:task_numbers.LAG]
        self.u: Array = memory[task_numbers.COMMANDED:task_numbers.SEEN]
        self._seen = memory[task_numbers.SEEN:task_numbers.SEEN_TWIST].reshape(4, 4)

    def put_constants(self) -> None:
        """Write the constants of the task's kind to its row of numbers."""
        memory = self._memory
        memory[task_numbers.IS_SPRING] = self._yields
        memory[task_numbers.KIND] = number_of(self.task.kind)
        memory[task_numbers.OWN:] = self.task.kind.numbers()

    @property
    def generator(self) -> SetPointGenerator:
        """Generator of the targets."""
        return self._generator

    @generator.setter
    def generator(self, generator: SetPointGenerator) -> None:
        self._generator, self._generator_addresses[:] = generator, generator.addresses
        generator.keep_within(self.task.limits)

    @property
    def impedance(self) -> VariableImpedance | None:
        """Stiffness and damping ratio in force, if they were commanded by `set_impedance`."""
        plan = self._plan
        return VariableImpedance(plan, self._state) if plan.is_commanded[0] > 0.0 else None

    @property
    def numbers(self) -> Array:
        """The task's row (TASK_WIDTH,) of numbers, see `osc_ros.control.tasks.task_numbers`."""
        return self._memory

    @property
    def target(self) -> Target:
        """Target of the last tick."""
        return self.generator.target

    @property
    def pose(self) -> Array:
        """Pose (4, 4) of the link at the last tick."""
        return self._seen.copy()

    @property
    def twist(self) -> Array:
        """Twist (6,) of the link at the last tick, base axes [rad/s, m/s]."""
        return self._memory[task_numbers.SEEN_TWIST:task_numbers.IS_SPRING].copy()

    @property
    def wanted_wrench(self) -> Array:
        """Commanded wrench (6,) in the task's axes [N·m, N]; writable."""
        return np.asarray(self._plan.wrench)

    @property
    def wrench(self) -> Array:
        """Wrench (6,) in force in the task's axes [N·m, N]; approaches the commanded one."""
        return np.asarray(self._state.wrench)

    def _find_bandwidth(self, task: Task) -> None:
        """
        Compute for each gain the constant product of its largest stable value and the period.

        The period is the control period, the time from one joint state to the next.

        """
        moves, ratios = task.along('motion'), task.gains.damping_ratio
        self._set = self._shape[1:3].copy()
        self._largest = np.array([
            [largest_damping_rate(1.0)] * 6,
            [largest_natural_frequency(ratio, 1.0) for ratio in ratios.tolist()]])
        used = np.array([self._plan.force, moves * (not self._yields)]) * self._set
        self.longest_period = float(np.min(self._largest[used > 0.0] / used[used > 0.0],
                                           initial=math.inf))
        if self._yields and moves.any():
            self.longest_period = 0.0  # the frequency of a spring depends on the pose

    def limit_gains(self, period: float) -> None:
        """Reduce the gains to the largest stable ones for this period of the states [s]."""
        most = self._largest / period
        if self._yields:
            largest = float(np.min(self._largest[1][self.moves > 0.0], initial=math.inf))
            self._plan.fastest[0] = (largest / period) ** 2
            self._row[level_row.FASTEST] = self._plan.fastest[0]
            most[1] = math.inf
        np.minimum(self._set, most, out=self._shape[1:3])
        control = self.task.force
        damping = min(control.damping, float(most[0, 0]))
        self._plan.filter_rate[0] = largest_integral_rate(damping)
        self._plan.integral_rate[0] = min(control.integral_rate,
                                          largest_integral_rate(damping, control.gain))

    def gain_share(self, mobility: Array) -> float:
        """Least ratio of a gain in force to its setting, given Λ⁻¹ (6, 6) in base axes."""
        axes, fastest = self._set > 0.0, float(self._plan.fastest[0])
        if self.impedance is not None:
            return math.sqrt(self.impedance.energy[CARRIED])
        share = float(np.min(self._shape[1:3][axes] / self._set[axes], initial=1.0))
        if not self._yields or math.isinf(fastest):
            return share
        row = self._row
        T = np.kron(np.eye(2), row[level_row.FRAME:level_row.FRAME + 9].reshape(3, 3))
        S = np.diag(row[level_row.ROOT:level_row.ROOT + 6])
        highest = float(np.linalg.eigvalsh(S @ T.T @ mobility @ T @ S)[-1])
        return min(share, math.sqrt(fastest / highest) if highest > 0.0 else 1.0)

    def hold(self, pose: Array) -> None:
        """Set the target to a pose (4, 4) and the wrench to zero, and drop all motions."""
        self._seen[:] = pose
        self.generator = SetPointGenerator(self.task.kind.set_point(pose))
        state = self._state
        for wrench in (self.wanted_wrench, state.wrench, state.wrench_rate, state.integral,
                       state.filtered, state.measured):
            wrench[:] = 0.0
        state.measured_time[0], state.wrench_time[0] = -math.inf, math.nan
        self._end_impedance()

    def _end_impedance(self) -> None:
        """Return to the stiffness of the settings after a commanded one."""
        if self.impedance is not None:
            self.impedance.end()
            self._shape[task_numbers.GAIN] = self._set[1]
            self._shape[task_numbers.RATIO] = self.task.gains.damping_ratio
            self._row[level_row.FASTEST] = self._plan.fastest[0]
            self._row[level_row.WRENCH:level_row.WRENCH + 6] = 0.0

    def rejoin(self, pose: Array) -> None:
        """Continue the target's motion from the pose (4, 4) of the link, at rest."""
        self._seen[:] = pose
        self.generator.rejoin(self.task.kind.set_point(pose))

    def coast(self, twist: Array, acceleration: Array) -> None:
        """
        Drop all motions; the target decelerates to rest from the pose of the link.

        `twist` (6,) and `acceleration` (6,) are those of the link [rad/s, m/s], [rad/s², m/s²];
        the target decelerates at about the same rate.

        """
        kind, before = self.task.kind, self.generator
        v, a = twist.reshape(2, 3), acceleration.reshape(2, 3)
        rates = np.clip(-(v * a).sum(axis=1) / np.maximum((v * v).sum(axis=1), SLOWEST), *COASTING)
        moves = float('pose' in kind.goals)
        self.generator = SetPointGenerator.coasting(kind.set_point(self.pose), moves * twist,
                                                    rates, before)
        # activated at once: the target is where the link is, so this changes the torque little
        wanted = self._plan.activation
        rises = wanted > self.activation
        self._state.activation[rises] = self.activation[rises] = wanted[rises]

    def carry(self, T: Array) -> None:
        """Move the link's frame by T (4, 4) on the body; move the target as the kind defines."""
        self._seen[:] = self._seen @ T
        self.generator = SetPointGenerator(self.task.kind.set_point_with_link(self.target.pose, T))

    def _go_on_as(self, before: Level) -> None:
        """Copy the state of the previous task on the same link."""
        self._seen[:], self.generator = before._seen, before.generator
        found = slice(task_numbers.ERROR, task_numbers.SEEN)
        self._memory[found] = before._memory[found]
        self.activation[:] = before.activation
        self.wanted_wrench[:] = self._plan.force * before.wanted_wrench
        is_used = self._plan.force * self.task.force.is_closed
        for name, share in (('wrench', 1.0), ('wrench_rate', 1.0), ('integral', is_used),
                            ('filtered', is_used), ('measured', 1.0), ('measured_time', 1.0),
                            ('wrench_time', 1.0)):
            getattr(self._state, name)[:] = share * getattr(before._state, name)
        own, old = self.task.gains, before.task.gains
        if (before.impedance is not None and isinstance(own, Stiffness)
                and isinstance(old, Stiffness) and np.array_equal(own.stiffness, old.stiffness)
                and np.array_equal(own.damping_ratio, old.damping_ratio)
                and np.array_equal(self.moves, before.moves)):
            VariableImpedance(self._plan, self._state).go_on_as(
                before.impedance, own.change_time, own.tank)

    def require_impedance(self, wanted: Impedance) -> None:
        """
        Raise if an impedance does not fit this task.

        InputError if the task has Gains instead of a Stiffness, or if the wrench has components
        along axes without motion control, or is larger than the limits of the spring.

        """
        gains, name = self.task.gains, self.task.name
        if not isinstance(gains, Stiffness):
            raise InputError(f"task '{name}' has Gains, and no stiffness: give it a "
                             "Stiffness (parameter mode 'impedance')")
        if wanted.wrench is not None:
            for k in np.flatnonzero(wanted.wrench * (1.0 - self.moves)).tolist():
                raise InputError(f"wrench {wanted.wrench.tolist()} of task '{name}': axis {k} is "
                                 f'one of {self.task.axes[k]}, where it must be 0')
            for half, what in enumerate(('moment', 'force')):
                size = float(np.linalg.norm(wanted.wrench[3 * half:3 * half + 3]))
                if size > gains.force[half]:
                    raise InputError(f"{what} {size:g} of task '{name}': must be at most "
                                     f'{gains.force[half]:g}, the largest {what} of the spring')

    def _begin_to_lead(self, before: Level) -> None:
        """
        Begin the motion of the set-point at the link, along axes that a push has moved until now.

        Along axes that the previous task did not move, the set-point comes to rest where the link
        is; but a motion in progress, or the goal of a spring, leads on from there.

        """
        springs, task = before._yields > self._yields, self.task
        rises = self.moves * (1.0 - before.moves * (not springs))
        if not rises.any() or 'pose' not in task.kind.goals:
            return
        if task.frame != before.task.frame:
            rises = np.ones(6)
        old, axes = before.generator, np.kron(np.eye(2), before.axes)
        along = axes @ np.diag(rises) @ axes.T  # projection onto these axes
        way = along @ pose_error(self._seen, old.target.pose)
        pose = self._seen.copy()
        pose[:3, 3] = old.target.pose[:3, 3] - way[3:]
        pose[:3, :3] = Rotation.from_rotvec(-way[:3]).as_matrix() @ old.target.pose[:3, :3]
        if springs or old.moves:
            self.generator = old.copied()
            self.generator.rejoin(pose)
        else:
            self.generator = SetPointGenerator.coasting(
                pose, along @ before.twist, np.full(2, COASTING[0]), old)
        wanted = rises * self._plan.activation
        self._state.activation[:] = self.activation[:] = np.maximum(self.activation, wanted)

    def set_impedance(self, wanted: Impedance) -> None:
        """
        Approach another stiffness, damping ratio and feedforward wrench from the next tick on.

        The errors are those of `require_impedance`.

        """
        self.require_impedance(wanted)
        gains = self.task.gains
        assert isinstance(gains, Stiffness)
        found = VariableImpedance(self._plan, self._state)
        if self.impedance is None:
            found.begin(gains.stiffness, gains.damping_ratio, gains.change_time, gains.tank)
        found.command(wanted)

    @property
    def goal(self) -> Array | None:
        """Pose (4, 4) at which the newest motion ends; None if it is a twist or a stop."""
        return self.generator.goal(self.task.limits)

    def approach(self) -> Approach:
        """Data for `Arrival`: task, pose of its link at the last tick, newest goal, and axes."""
        return Approach(self.task, self.pose, self.goal, self.axes.copy())

    def set_measured_wrench(self, wrench: Array, time: float) -> None:
        """Set the measured wrench (6,) of the link in base axes [N·m, N], and its stamp [s]."""
        self._state.measured[:], self._state.measured_time[0] = wrench, time

    def plan(self) -> None:
        """Plan the target's motions, see `SetPointGenerator.plan`."""
        lag = self._memory[task_numbers.LAG:task_numbers.COMMANDED]  # of the link, for the leash
        self.generator.plan(self.task.limits, lag)

    def jump(self, time: float = -math.inf) -> None:
        """Begin the motions that are due before the next tick, see `SetPointGenerator.jump`."""
        self.generator.jump(self.task.limits, time)
