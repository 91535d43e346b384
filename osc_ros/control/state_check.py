# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plausibility of joint states: impossible steps, frozen positions, speeds above the limits."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.angles import ShortWay
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

JUMP_FACTOR = 2.0  # a change faster than this many times the velocity limit is a jump
JUMP_FLOOR = 2e-3  # smallest step that can be a jump, for noise [rad, m]
CLOCK_STEPS = -1.0, 10.0  # range of stamp steps; outside it the clock was changed [s]
CLOCK_STATES = 10  # so many states in a row show that the clock was changed for good
# A joint is too fast if its speed exceeds OVERSPEED_TWICE times its limit in two consecutive
# states, or OVERSPEED_ONCE times its limit in one, each plus OVERSPEED_FLOOR for noise
# [rad/s, m/s].
OVERSPEED_TWICE, OVERSPEED_ONCE, OVERSPEED_FLOOR = 1.2, 1.5, 0.05

# Positions are frozen if all are exactly the same although some joint should have moved by FROZEN
# [rad, m], and by FROZEN_COUNTS of its encoder's counts, at the speed that it had at the last
# change, for at most FROZEN_TIME [s]. This speed is the reported one, and at most the mean one of
# the last FROZEN_TIME: the reported one is wrong by a multiple if a driver differentiates encoder
# counts. Repeated positions are reported only after FROZEN_LONG [s], because a driver may publish
# more often than its hardware measures.
FROZEN, FROZEN_COUNTS, FROZEN_TIME, FROZEN_LONG = 2e-3, 3.0, 0.05, 0.025
ROUNDING = 1e-9  # smaller differences of positions are due to rounding [rad, m]
CHANGES = 64  # last changes of the positions that `FreezeCheck` knows


class State(NamedTuple):
    """Stamp [s], positions (n,) and velocities (n,) of the joints."""

    time: float
    q: Array
    qd: Array


class StateCheck:
    """
    Compares each joint state with the previous joint state.

    Parameters
    ----------
    robot : Robot
        Provides the velocity limits and the continuous joints.

    """

    def __init__(self, robot: Robot) -> None:
        self._names = robot.joint_names
        self._fastest = np.asarray(robot.velocity_limits)
        self._short_way = ShortWay(robot)

    def jump(self, before: State, state: State, period: float) -> str:
        """Reason why a state cannot follow another one; empty if it can."""
        dt = state.time - before.time
        if not CLOCK_STEPS[0] <= dt <= CLOCK_STEPS[1]:
            return (f'the time of the states went from {before.time:.3f} s to {state.time:.3f} s: '
                    'a simulation was reset, or two nodes publish the states')
        speed = JUMP_FACTOR * self._fastest
        for kind, step, allowed in (
                ('', self._short_way.of(state.q - before.q), JUMP_FLOOR + speed * max(dt, period)),
                ('the speed of ', state.qd - before.qd, speed)):
            over = np.abs(step) - allowed
            if (over > 0.0).any():
                i = int(np.argmax(over))
                return (f"{kind}'{self._names[i]}' went {abs(step[i]):.4g} in {dt:.4g} s: "
                        f'accepted is {allowed[i]:.4g}')
        return ''

    def contradicts(self, before: State, state: State, period: float) -> bool:
        """
        Whether two states contradict: their positions do not differ by the mean velocity times dt.

        Any speed is accepted, so that an arm far beyond its velocity limits is braked; but the
        position step must agree with the velocities, and the velocities with each other.

        """
        dt = state.time - before.time
        if not CLOCK_STEPS[0] <= dt <= CLOCK_STEPS[1]:
            return True
        moving = np.minimum(np.abs(state.qd), np.abs(before.qd))
        step = self._short_way.of(state.q - before.q - 0.5 * dt * (state.qd + before.qd))
        slack = JUMP_FLOOR + JUMP_FACTOR * self._fastest * max(dt, period)
        return bool((np.abs(step) > slack).any() or (
            np.abs(state.qd - before.qd)
            > JUMP_FACTOR * np.maximum(self._fastest, moving)).any())


class FreezeCheck:
    """
    Detects a driver that repeats its last positions with new stamps, whatever velocities it sends.

    Parameters
    ----------
    robot : Robot
        Provides the names of the joints, and which of them are continuous.

    Attributes
    ----------
    changed : State
        The last accepted state whose positions differed from the previous ones; set by `record`.
    came : float [s]
        Arrival time of that state.

    """

    def __init__(self, robot: Robot) -> None:
        self._names, self._short_way = robot.joint_names, ShortWay(robot)
        self._changes: deque[tuple[float, Array]] = deque(maxlen=CHANGES)
        self._is_at_rest = False
        self.changed: State
        self.came = 0.0

    def record(self, state: State, now: float) -> None:
        """Record an accepted state with new positions, and its arrival time `now` [s]."""
        self.changed, self.came, self._is_at_rest = state, now, False
        self._changes.append((state.time, state.q))

    def believe(self) -> None:
        """Take repeated positions for those of an arm at rest, until they change."""
        self._is_at_rest = True

    def is_repeated(self, state: State) -> bool:
        """Whether a state has the positions of `changed`, and is not older."""
        return state.time >= self.changed.time and state.q.tolist() == self.changed.q.tolist()

    def reason(self, state: State) -> str:
        """Explain why repeated positions are frozen; return an empty string if the arm rests."""
        changed = self.changed
        lasted = min(state.time - changed.time, FROZEN_TIME)
        if self._is_at_rest or not (np.abs(changed.qd) * lasted > FROZEN).any():
            return ''
        speed = np.minimum(np.abs(changed.qd), self._mean_speed())
        travel = speed * lasted
        moved = np.where(travel > np.maximum(FROZEN, FROZEN_COUNTS * self._resolution()),
                         travel, 0.0)
        i = int(np.argmax(moved))
        if moved[i] == 0.0:
            self._is_at_rest = lasted == FROZEN_TIME  # the answer stays the same from now on
            return ''
        return (f"the positions are frozen: none has changed for {state.time - changed.time:.4g} "
                f"s, although '{self._names[i]}' moved at {speed[i]:.4g}")

    def _mean_speed(self) -> Array:
        """Mean speeds (n,) of the last FROZEN_TIME before the last change [rad/s, m/s]."""
        changed, (begin, q) = self.changed, self._changes[0]
        for time, position in self._changes:
            if time > changed.time - FROZEN_TIME and time > begin:
                break
            begin, q = time, position
        duration = min(changed.time - begin, FROZEN_TIME)
        if duration <= 0.0:
            return np.zeros(len(q))
        return np.asarray(np.abs(self._short_way.of(changed.q - q)) / duration)

    def _resolution(self) -> Array:
        """
        Resolution (n,) of the last positions, such as an encoder count; infinite if unknown.

        It is the least of all steps, and of all differences between a step and the next.

        """
        q = np.array([position for _, position in self._changes])
        steps = self._short_way.of(np.diff(q, axis=0))
        sizes = np.abs(np.concatenate([steps, np.diff(steps, axis=0)]))
        return np.asarray(np.min(np.where(sizes > ROUNDING, sizes, np.inf), axis=0,
                                 initial=np.inf))


class SpeedCheck:
    """
    Compares measured speeds with limits; lower limits come into force gradually.

    Attributes
    ----------
    limits : (n,)
        The limits in force [rad/s, m/s].
    slack : (n,)
        Speeds above which joints are too fast for the limits in force [rad/s, m/s].

    Parameters
    ----------
    names : sequence of str
        The joints.
    limits : (n,)
        [rad/s, m/s]; may be infinite.
    now : float [s]

    """

    def __init__(self, names: tuple[str, ...], limits: Array, now: float) -> None:
        self._names, self._time, self._was_fast = names, now, False
        self._use(limits)

    def _use(self, limits: Array) -> None:
        self.limits: Array = limits
        self.slack: Array = OVERSPEED_TWICE * limits + OVERSPEED_FLOOR

    def pass_slow(self, now: float) -> None:
        """Record at a time [s] that no speed is above `slack`."""
        self._time, self._was_fast = now, False

    def reason(self, qd: Array, limits: Array, blend_time: float, now: float) -> str:
        """
        Explain which joint is too fast; return an empty string if none is.

        Parameters
        ----------
        qd, limits : (n,)
            Lower limits come into force with the time constant `blend_time`, so that a joint
            within the previous ones can slow down.
        blend_time, now : float [s]

        """
        if self.limits is not limits:
            kept = self.limits * np.exp(-(now - self._time) / blend_time)
            found = np.where(np.isfinite(kept) & (kept > limits), kept, limits)
            self._use(limits if np.array_equal(found, limits) else found)
        speed = np.abs(qd)
        fast = speed > self.slack
        was_fast = self._was_fast
        self._time, self._was_fast = now, bool(fast.any())
        if self._was_fast:
            i = int(np.argmax(np.where(fast, speed / self.limits, 0.0)))
            if was_fast or speed[i] > OVERSPEED_ONCE * self.limits[i] + OVERSPEED_FLOOR:
                return (f"'{self._names[i]}' moves at {speed[i]:.4g}: its limit is "
                        f'{self.limits[i]:.4g}')
        return ''
