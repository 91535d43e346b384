# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""State of one task between ticks: target, wrench, activation, and the gains in force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.control.setpoint.arrival import Approach
from osc_ros.control.setpoint.motion import LENGTH, TETHER
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator
from osc_ros.control.tasks.bandwidth import (
    largest_damping_rate,
    largest_integral_rate,
    largest_natural_frequency,
)
from osc_ros.control.tasks.feedback import number_of, pose_error
from osc_ros.control.tasks.impedance import Impedance, VariableImpedance
from osc_ros.control.tasks.task import Gains, Stiffness, Target, Task
from osc_ros.errors import InputError

Array = NDArray[np.float64]

COASTING = 5.0, 100.0  # least and highest decay rate of the speed in `coast` [1/s]
SLOWEST = 1e-6  # least squared speed in the denominator of a decay rate


class Level:
    """A task with its state, which lasts from tick to tick."""

    # `m`, `d` are records LAW_M, LAW_D of `osc_ros.control.data`; `i` is the index of the task.

    def __init__(self, task: Task, m: Any, d: Any, i: int) -> None:
        self.task, self._m, self._d, self._i = task, m, d, i
        self.moves, force = task.along('motion'), task.along('force')  # (6,) 1 along these axes
        # highest rate of the velocity feedback, without the damping of springs [1/s]
        self.rate = task.force.damping * float(force.max())
        gains = task.gains
        self._yields = not isinstance(gains, Gains)
        self.axes: Array = d.task_axes[i].reshape(3, 3)  # of the task's frame, in the base frame
        self.activation: Array = d.activation[i]  # (6,) in the task's frame, 0 to 1
        self.error: Array = d.task_error[i]  # (6,) as the kind of the task defines it, base axes
        self.u: Array = d.task_u[i]  # (6,) commanded acceleration, base axes [rad/s², m/s²]
        self.pose: Array = d.task_pose[i]  # (4, 4) of the link at the last tick
        self.twist: Array = d.task_twist[i]  # (6,) of the link, base axes [rad/s, m/s]
        self.wanted_wrench: Array = d.wanted_wrench[i]  # (6,) commanded, task's axes [N·m, N]
        control = task.force
        m.task_kind[i], m.kind_numbers[i] = number_of(task.kind), task.kind.numbers()
        m.is_spring[i], m.forces[i], m.closes_force[i] = self._yields, force, control.is_closed
        m.force_gain[i], m.force_correction[i] = control.gain, control.correction
        d.force_integral_rate[i], d.task_fastest[i] = control.integral_rate, math.inf
        d.force_filter_rate[i] = largest_integral_rate(control.damping)
        if isinstance(gains, Gains):
            pace, bounds = gains.natural_frequency, (*gains.speed, *gains.acceleration)
            self.rate = max(self.rate, float((2.0 * gains.damping_ratio * pace).max()))
        else:
            pace, bounds = gains.stiffness, (*gains.force, *gains.force)
        m.moves[i], m.feedback_bounds[i] = self.moves, bounds
        d.task_drag[i], d.task_gain[i], d.task_ratio[i] = (
            task.force.damping * force, pace, gains.damping_ratio)
        self._find_bandwidth(task)
        self._wanted = m.wanted_activation[i]
        self._wanted[:] = task.activation * task.along('motion', 'force')
        self.axes[:] = np.eye(3)

    def start(self, pose: Array, before: Level | None = None, is_new: bool = False,
              coasts: bool = False) -> None:
        """Begin at the pose (4, 4) of the link, or continue the state of another task."""
        # `before` is the task replaced: its state is taken over if link and kind are the same.
        # `is_new`: added to active tasks, so the activation starts from 0. `coasts`: the caller
        # then calls `coast`.
        task = self.task
        self._end_impedance()
        self.activation[:] = (0.0 if is_new else 1.0) * self._wanted
        if before is not None and (before.task.link, before.task.kind) == (task.link, task.kind):
            self._go_on_as(before)
            if not coasts:
                self._begin_to_lead(before)
        else:
            self.hold(pose)
        self._d.activation_age[self._i] = 0.0

    @property
    def generator(self) -> SetPointGenerator:
        """Generator of the targets."""
        return self._generator

    @generator.setter
    def generator(self, generator: SetPointGenerator) -> None:
        self._generator = generator
        self._m.target_records[self._i] = [one.address for one in generator.records]
        generator.keep_within(self.task.limits)

    @property
    def impedance(self) -> VariableImpedance | None:
        """Stiffness and damping ratio in force, if they were commanded by `set_impedance`."""
        d, i = self._d, self._i
        return VariableImpedance(d, i) if d.is_commanded[i] else None

    @property
    def target(self) -> Target:
        """Target of the last tick."""
        return self.generator.target

    def _find_bandwidth(self, task: Task) -> None:
        """Compute for each gain its largest stable value times the control period, a constant."""
        moves, ratios = task.along('motion'), task.gains.damping_ratio
        d, i = self._d, self._i
        self._set = np.array([d.task_drag[i], d.task_gain[i]])
        self._largest = np.array([
            [largest_damping_rate(1.0)] * 6,
            [largest_natural_frequency(ratio, 1.0) for ratio in ratios.tolist()]])
        used = np.array([self._m.forces[i], moves * (not self._yields)]) * self._set
        # longest period of the states at which the gains of the settings are stable [s]
        self.longest_period = float(np.min(self._largest[used > 0.0] / used[used > 0.0],
                                           initial=math.inf))
        if self._yields and moves.any():
            self.longest_period = 0.0  # the frequency of a spring depends on the pose

    def limit_gains(self, period: float) -> None:
        """Reduce the gains to the largest stable ones for this period of the states [s]."""
        d, i, most = self._d, self._i, self._largest / period
        if self._yields:
            largest = float(np.min(self._largest[1][self.moves > 0.0], initial=math.inf))
            d.task_fastest[i] = d.level_fastest[i] = (largest / period) ** 2
            most[1] = math.inf
        d.task_drag[i], d.task_gain[i] = np.minimum(self._set, most)
        control = self.task.force
        damping = min(control.damping, float(most[0, 0]))
        d.force_filter_rate[i] = largest_integral_rate(damping)
        d.force_integral_rate[i] = min(control.integral_rate,
                                       largest_integral_rate(damping, control.gain))

    def gain_share(self, mobility: Array) -> float:
        """Least ratio of a gain in force to its setting, given Λ⁻¹ (6, 6) in base axes."""
        d, i = self._d, self._i
        axes, fastest = self._set > 0.0, float(d.task_fastest[i])
        if self.impedance is not None:
            return math.sqrt(d.carried_share[i])
        now = np.array([d.task_drag[i], d.task_gain[i]])
        share = float(np.min(now[axes] / self._set[axes], initial=1.0))
        if not self._yields or math.isinf(fastest):
            return share
        T, S = np.kron(np.eye(2), d.level_frame[i].reshape(3, 3)), np.diag(d.level_root[i])
        highest = float(np.linalg.eigvalsh(S @ T.T @ mobility @ T @ S)[-1])
        return min(share, math.sqrt(fastest / highest) if highest > 0.0 else 1.0)

    def hold(self, pose: Array) -> None:
        """Set the target to a pose (4, 4) and the wrench to zero, and drop all motions."""
        self.pose[:] = pose
        self.generator = SetPointGenerator(self.task.kind.set_point(pose))
        d, i = self._d, self._i
        for wrench in (d.wanted_wrench, d.wrench, d.wrench_rate, d.wrench_integral,
                       d.wrench_filtered, d.measured_wrench):
            wrench[i] = 0.0
        d.measured_time[i], d.wrench_time[i] = -math.inf, math.nan
        self._end_impedance()

    def _end_impedance(self) -> None:
        """Return to the stiffness of the settings after a commanded one."""
        if self.impedance is not None:
            d, i = self._d, self._i
            d.is_commanded[i] = False
            d.task_gain[i], d.task_ratio[i] = self._set[1], self.task.gains.damping_ratio
            d.level_fastest[i], d.level_wrench[i] = d.task_fastest[i], 0.0

    def rejoin(self, pose: Array) -> None:
        """Continue the target's motion from the pose (4, 4) of the link, at rest."""
        self.pose[:] = pose
        self.generator.rejoin(self.task.kind.set_point(pose))

    def coast(self, twist: Array, acceleration: Array, before: SetPointGenerator) -> None:
        """Drop all motions; the target decelerates to rest from the pose of the link."""
        # `twist`, `acceleration` (6,) are those of the link [rad/s, m/s], [rad/s², m/s²]; the
        # target decelerates at about the same rate. The clock of `before`, a generator of the
        # replaced settings, goes on.
        kind, pose = self.task.kind, self.pose
        # only for a fast link: if somebody pushes a slow one, its target must stay where it is
        is_fast = bool((np.linalg.norm(twist.reshape(2, 3), axis=1) > TETHER[1]).any())
        self.twist[:] = twist
        twist = kind.set_point_twist(pose, twist)
        v, a = (np.repeat([LENGTH, 1.0], 3) * kind.set_point_twist(pose, x)
                for x in (twist, acceleration))
        rate = float(np.clip(-(v @ a) / max(float(v @ v), SLOWEST), *COASTING))
        self.generator = SetPointGenerator.coasting(
            kind.set_point(pose), twist, rate, before, is_fast)
        # activated at once: the target is where the link is, so this changes the torque little
        rises = self._wanted > self.activation
        self.activation[rises] = self._wanted[rises]

    def carry(self, T: Array) -> None:
        """Move the link's frame by T (4, 4) on the body; move the target as the kind defines."""
        self.pose[:] = self.pose @ T
        self.generator = SetPointGenerator(self.task.kind.set_point_with_link(self.target.pose, T))

    def _go_on_as(self, before: Level) -> None:
        """Copy the state of the previous task on the same link."""
        self.pose[:], self.generator = before.pose, before.generator
        d, i, old, k = self._d, self._i, before._d, before._i
        for name in ('task_error', 'task_lag', 'task_u'):
            getattr(d, name)[i] = getattr(old, name)[k]
        self.activation[:] = before.activation
        self.wanted_wrench[:] = self._m.forces[i] * before.wanted_wrench
        is_used = self._m.forces[i] * self.task.force.is_closed
        for name, share in (('wrench', 1.0), ('wrench_rate', 1.0), ('wrench_integral', is_used),
                            ('wrench_filtered', is_used), ('measured_wrench', 1.0),
                            ('measured_time', 1.0), ('wrench_time', 1.0)):
            getattr(d, name)[i] = share * getattr(old, name)[k]
        gains, others = self.task.gains, before.task.gains
        if (before.impedance is not None and isinstance(gains, Stiffness)
                and isinstance(others, Stiffness)
                and np.array_equal(gains.stiffness, others.stiffness)
                and np.array_equal(gains.damping_ratio, others.damping_ratio)
                and np.array_equal(self.moves, before.moves)):
            VariableImpedance(d, i).go_on_as(before.impedance, gains.change_time, gains.tank)

    def require_impedance(self, wanted: Impedance) -> None:
        """Raise InputError for Gains, or a wrench beyond the axes or limits of the spring."""
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
        """Begin the set-point's motion at the link, along axes that a push has moved until now."""
        springs, task = before._yields > self._yields, self.task
        rises = self.moves * (1.0 - before.moves * (not springs))
        if not rises.any() or 'pose' not in task.kind.goals:
            return
        if task.frame != before.task.frame:
            rises = np.ones(6)
        old, axes, there = before.generator, before.axes, before.target.pose
        along = axes * rises.reshape(2, 1, 3) @ axes.T  # projections (2, 3, 3) onto these axes
        way = (along @ pose_error(self.pose, there).reshape(2, 3, 1)).ravel()
        pose = self.pose.copy()
        pose[:3, 3] = there[:3, 3] - way[3:]
        pose[:3, :3] = Rotation.from_rotvec(-way[:3]).as_matrix() @ there[:3, :3]
        # a motion in progress, or the goal of a spring, leads on; otherwise come to rest here
        if springs or old.moves:
            self.generator = old.copied()
            self.generator.rejoin(pose)
        else:
            twist = (along @ before.twist.reshape(2, 3, 1)).ravel()
            self.generator = SetPointGenerator.coasting(pose, twist, COASTING[0], old)
        self.activation[:] = np.maximum(self.activation, rises * self._wanted)

    def set_impedance(self, wanted: Impedance) -> None:
        """From the next tick on, approach another stiffness, damping ratio and wrench."""
        self.require_impedance(wanted)
        gains = self.task.gains
        assert isinstance(gains, Stiffness)
        found = VariableImpedance(self._d, self._i)
        if self.impedance is None:
            found.begin(gains.stiffness, gains.damping_ratio, gains.change_time, gains.tank)
        found.command(wanted)

    @property
    def goal(self) -> Array | None:
        """Pose (4, 4) at which the newest motion ends; None if it is a twist or a stop."""
        return self.generator.goal

    def approach(self) -> Approach:
        """Data for `Arrival`: task, pose of its link at the last tick, newest goal, and axes."""
        return Approach(self.task, self.pose.copy(), self.goal, self.axes.copy())

    def set_measured_wrench(self, wrench: Array, time: float) -> None:
        """Set the measured wrench (6,) of the link in base axes [N·m, N], and its stamp [s]."""
        self._d.measured_wrench[self._i], self._d.measured_time[self._i] = wrench, time
