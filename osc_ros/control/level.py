"""One task at work: where its link should be, what it asks for, and how much of it is in force."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bandwidth import (
    largest_damping_rate,
    largest_integral_rate,
    largest_natural_frequency,
)
from osc_ros.control.guide import Guide
from osc_ros.control.task import asked, Gains, Target, Task
from osc_ros.dynamics import priority

Array = NDArray[np.float64]

_SETTLED = 6.64  # ω t at which a critically damped step has 1 % to go
FORGETTING = 0.3  # a wrench that is measured no more is made less of at this rate [s]
FRESH = 0.1  # until this age a measured wrench is the present one [s]


def settling(away: Array, rate: Array, blend_time: float, dt: float) -> tuple[Array, Array]:
    """
    How far from what is wanted, and how fast, a time dt later: C¹, and near it in `blend_time`.

    By a critically damped filter, solved exactly.

    """
    pace = _SETTLED / blend_time
    bend, decay = rate + pace * away, math.exp(-pace * dt)
    return decay * (away + dt * bend), decay * (rate - pace * dt * bend)


class Level:
    """
    A task with what it remembers from one tick to the next.

    Attributes describe the last tick; all but `wrench` in base axes.

    Attributes
    ----------
    task : Task
    target : Target
    pose, twist : (4, 4), (6,)
        Of the link.
    error, u : (6,)
        See `osc_ros.control.task`.
    activation : (6,)
        How much of each axis of the task's frame is in force.
    wrench : (6,)
        By the robot on the environment, wanted along the axes of force, the task's axes [N·m, N].
    longest_period : float
        Of the states, with which the loop carries the gains as they are set [s].
    moves : (6,)
        1 for the axes of motion, 0 for the others.
    rate : float [1/s]
        Highest rate of its velocity feedback, springs not counted.

    Parameters
    ----------
    task : Task
    blend_time : float
        In which activations and wanted wrenches come into force [s].
    pose : (4, 4)
        Of the link: the first target.
    before : Level, optional
        Of the task that this one takes the place of.
    is_new : bool
        Whether it comes to others that are at work: it then starts from nothing.

    """

    def __init__(self, task: Task, blend_time: float, pose: Array, before: Level | None = None,
                 is_new: bool = False) -> None:
        self.task = task
        self._blend_time = blend_time
        self._force = task.along('force')
        self.moves = task.along('motion')
        self.rate = task.force.damping * float(self._force.max())
        self._pushes = bool(self._force.any())
        gains = task.gains
        self._yields = not isinstance(gains, Gains)
        if isinstance(gains, Gains):
            pace, bounds = gains.natural_frequency, (*gains.speed, *gains.acceleration)
            self.rate = max(self.rate, float((2.0 * gains.damping_ratio * pace).max()))
        else:
            pace, bounds = gains.stiffness, (*gains.force, *gains.force)
        self._shape = np.array([self.moves, task.force.damping * self._force, pace,
                                gains.damping_ratio, (*bounds, 0.0, 0.0), np.zeros(6)])
        self._find_bandwidth(task)
        self._integral_rate = task.force.integral_rate
        self._filter_rate = largest_integral_rate(task.force.damping)
        self._wanted_activation = task.activation * task.along('motion', 'force')
        self.activation: Array = self._shape[5]
        self.activation[:] = (0.0 if is_new else 1.0) * self._wanted_activation
        self._since = -math.inf
        self.twist = np.zeros(6)
        self._found = np.zeros((3, 6))
        # the lag: behind the last target, along the axes of motion
        self.error, self._lag, self.u = self._found
        self.latch(pose)
        if before is not None and before.task.link == task.link:
            self._go_on_as(before)
        self._from = self.activation.copy()
        if not np.array_equal(self._from, self._wanted_activation):
            self._since = math.inf  # until the first tick

    def _find_bandwidth(self, task: Task) -> None:
        """Find the gains that the loop carries, times the period."""
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
        """Reduce the gains to what the loop carries when the states come in this period [s]."""
        most = self._largest / period
        if self._yields:
            self._fastest = (self._largest_of_spring / period) ** 2
            most[1] = math.inf
        np.minimum(self._set, most, out=self._shape[1:3])
        control = self.task.force
        damping = min(control.damping, float(most[0, 0]))
        self._filter_rate = largest_integral_rate(damping)
        self._integral_rate = min(control.integral_rate,
                                  largest_integral_rate(damping, control.gain))

    def gain_share(self, mobility: Array, row: Array) -> float:
        """Least share of a set gain that is in force, with the link's Λ⁻¹ (6, 6), base axes."""
        axes = self._set > 0.0
        share = float(np.min(self._shape[1:3][axes] / self._set[axes], initial=1.0))
        if not self._yields or math.isinf(self._fastest):
            return share
        T = np.kron(np.eye(2), row[priority.FRAME:priority.FRAME + 9].reshape(3, 3))
        S = np.diag(row[priority.ROOT:priority.ROOT + 6])
        highest = float(np.linalg.eigvalsh(S @ T.T @ mobility @ T @ S)[-1])
        return min(share, math.sqrt(self._fastest / highest) if highest > 0.0 else 1.0)

    def latch(self, pose: Array) -> None:
        """Make the pose (4, 4) the target, want no force, and forget what was planned."""
        self.pose: Array = pose.copy()
        self.target: Target = Target(self.pose)
        self.guide: Guide = Guide(self.pose)
        self.wanted_wrench: Array = np.zeros(6)
        self.wrench: Array = np.zeros(6)
        self._rate: Array = np.zeros(6)
        self._integral: Array = np.zeros(6)
        self._filtered: Array = np.zeros(6)
        self._measured: Array = np.zeros(6)
        self._measured_at = -math.inf
        self._time: float = math.nan

    def carry(self, T: Array) -> None:
        """Move the link's point by T (4, 4) in its own frame, and hold it where it was to be."""
        self.pose = self.pose @ T
        self.target = Target(self.target.pose @ T)
        self.guide = Guide(self.target.pose)

    def _go_on_as(self, before: Level) -> None:
        """Take over what another task on the same link remembers."""
        self.pose, self.target, self.guide = before.pose, before.target, before.guide
        self._found[:] = before._found
        self.activation[:] = before.activation
        self.wanted_wrench, self.wrench = self._force * before.wanted_wrench, before.wrench
        self._rate = before._rate
        self._integral = self._force * self.task.force.is_closed * before._integral
        self._filtered = self._force * self.task.force.is_closed * before._filtered
        self._measured, self._measured_at = before._measured, before._measured_at
        self._time = before._time

    def measure(self, wrench: Array, time: float) -> None:
        """Take what the link was measured to push with (6,), base axes, at a time [s]."""
        self._measured, self._measured_at = wrench, time

    def ask(self, time: float, pose: Array, twist: Array, axes: Array, is_saturated: bool,
            row: Array) -> None:
        """
        Fill the row of `osc_ros.dynamics.priority` for a state of the link at a time [s].

        Parameters
        ----------
        pose, twist : (4, 4), (6,)
        axes : (4, 4)
            Whose rotation is that of the task's frame, in the base frame.
        is_saturated : bool
            Whether the joints give less than they were asked for, and integrals wait.
        row : (WIDTH,)

        """
        # they are views that another look at the dynamics writes over
        self.pose, self.twist = pose.copy(), twist.copy()
        self.target = target = self.guide.at(time, self.task.limits, self._lag)
        if self._since > -math.inf:
            self._activate(time)
        asked(pose, twist, target.pose, target.twist, target.acceleration, axes, self._shape,
              self._yields, self._found, row)
        if self._yields:
            row[priority.FASTEST] = self._fastest
        if self._pushes:
            row[priority.WRENCH:priority.WRENCH + 6] = self._pushed(time, axes, is_saturated)
        self._time = time

    def _activate(self, time: float) -> None:
        """Bring the activation to where it is wanted, C²."""
        self._since = min(self._since, time)
        x = (time - self._since) / self._blend_time
        if x >= 1.0:
            self._since = -math.inf
            self.activation[:] = self._wanted_activation
        else:
            x = x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)
            self.activation[:] = self._from + x * (self._wanted_activation - self._from)

    def _pushed(self, time: float, axes: Array, is_saturated: bool) -> Array:
        """Force along the axes of force (6,), in the task's axes."""
        control = self.task.force
        dt = time - self._time if time > self._time else 0.0
        away, self._rate = settling(self.wrench - self.wanted_wrench, self._rate,
                                    self._blend_time, dt)
        self.wrench = self.wanted_wrench + away
        if not control.is_closed:
            return np.asarray(self._force * self.wrench)
        R = axes[:3, :3]
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
