# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Acceptance of joint states: what is plausible passes, what is wrong with the rest is named."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.state_check import (
    CLOCK_STATES,
    CLOCK_STEPS,
    FreezeCheck,
    FROZEN,
    FROZEN_LONG,
    FROZEN_TIME,
    JUMP_FACTOR,
    JUMP_FLOOR,
    SpeedCheck,
    State,
    StateCheck,
)
from osc_ros.control.supervision import JUMP, NOT_FINITE, OVERSPEED, Supervision
from osc_ros.dynamics.compiled import kernel
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

STANDING = 0.025  # time without an advancing stamp, after which it is a fault [s]
LATE_PERIODS = 4.0  # mean intervals between states, after which a state is missing
INTERVAL_SHARE = 0.125  # weight of the last interval in the mean
# What `doubts` finds: bits.
_NUMBERS, _STEP, _SPEED, REPEATED, _STUCK = 1, 2, 4, 8, 16


@kernel
def doubts(q, qd, before_q, before_qd, changed_q, changed_qd, fastest, slack, dt, period, lasted):
    """
    Return what needs a closer look in a state, as bits; 0 for a state of normal motion.

    Parameters
    ----------
    q, qd, before_q, before_qd, changed_q, changed_qd : (n,)
        The state, the last accepted state, and the last one whose positions had changed.
    fastest, slack : (n,)
        Velocity limits; speeds above which a joint is too fast.
    dt, period, lasted : float
        Time since the last accepted state, and the expected one; time since the last one whose
        positions had changed [s].

    """
    found, is_repeated, is_stuck = 0, True, False
    dt, lasted = max(dt, period), min(lasted, FROZEN_TIME)
    for i in range(len(q)):
        if not (np.isfinite(q[i]) and np.isfinite(qd[i])):
            return _NUMBERS
        jump = JUMP_FACTOR * fastest[i]
        if not (np.abs(q[i] - before_q[i]) <= JUMP_FLOOR + jump * dt
                and np.abs(qd[i] - before_qd[i]) <= jump):
            found |= _STEP
        if not np.abs(qd[i]) <= slack[i]:
            found |= _SPEED
        is_repeated = is_repeated and q[i] == changed_q[i]
        is_stuck = is_stuck or np.abs(changed_qd[i]) * lasted > FROZEN
    if is_repeated:
        found |= REPEATED | (_STUCK if is_stuck else 0)
    return found


class StateGate:
    """
    Accepts the joint states that are plausible after the last accepted one.

    A state farther from the last one than the joints can move is rejected, unless the next state
    confirms it: then that next state is accepted. A change of the clock must be confirmed by
    CLOCK_STATES states in a row, because the states of two arms may come by turns. A state with
    an earlier stamp than the last one is rejected. Frozen positions of a moving arm are rejected
    until one changes. A state with the stamp of the last one, but other values, gets the
    time of its arrival; if stamps do not advance for STANDING, this is a fault, and states with
    earlier stamps get the time of their arrival, too.

    Attributes
    ----------
    state : State
        The last accepted state; zeros before the first. Its time is not its stamp while the stamps
        do not advance.
    came : float [s]
        When it arrived.
    is_open : bool
        Whether a state was accepted.
    interval, spacing : float [s]
        Mean intervals of the states, by their arrival and by their stamps: a simulation may run
        slow.
    faults : tuple of (str, str)
        What is wrong with the state of the last `accept`: causes for a watchdog, and reasons.
    has_jumped : bool
        Whether that state was accepted although it is far from the state before.
    has_frozen : bool
        Whether that state began the rejection of frozen positions: `state` is now the last one
        whose positions had changed.

    Parameters
    ----------
    robot : Robot
        Provides names, limits and continuous joints.
    period : float [s]
        Expected interval of the states.
    limits : (n,)
        Limits of the speeds [rad/s, m/s].
    now : float [s]

    """

    def __init__(self, robot: Robot, period: float, limits: Array, now: float) -> None:
        rest = np.zeros(robot.n)
        self._fastest = np.array(robot.velocity_limits)  # writable, as all arrays of kernels
        self._check, self._freeze = StateCheck(robot), FreezeCheck(robot)
        self._speeds = SpeedCheck(robot.joint_names, limits, now)
        self._doubted: State | None = None
        self._agreed = 0  # number of states in a row that agree with the one doubted first
        self.state, self.came, self.is_open = State(0.0, rest, rest), now, False
        self.interval = self.spacing = period
        self._stamp, self._advanced, self._offset = -np.inf, now, 0.0
        self.faults: tuple[tuple[str, str], ...] = ()
        self.has_jumped = self.has_frozen = False
        self._find(0.0, rest, rest, period)  # compiles the kernel now, and not in the loop

    def accept(self, state: State, now: float, settings: Supervision, limits: Array) -> bool:
        """
        Return whether a state is plausible; store it if it is.

        Parameters
        ----------
        state : State
        now : float [s]
            Time of its arrival, on the caller's clock.
        settings : Supervision
            Provides period and blend time.
        limits : (n,)
            Limits of the speeds [rad/s, m/s]; lower ones come into force gradually.

        """
        self.has_jumped = self.has_frozen = False
        standing, timed = self._timed(state, now)
        self.faults = ((JUMP, standing),) if standing else ()
        if timed is None:
            return False
        state = timed
        found = self._find(*state, settings.period)
        if found & _NUMBERS:
            self.faults = (*self.faults, (
                NOT_FINITE, f'joint state {state.q.tolist()}, {state.qd.tolist()}'),)
            return False
        is_regular = CLOCK_STEPS[0] <= state.time - self.state.time <= CLOCK_STEPS[1]
        if self.is_open and (found & (_STEP | _STUCK) or not is_regular
                             ) and not self._withstands(state, found, settings.period):
            return False
        self._doubted = None
        if not (found & REPEATED and self.is_open and state.time >= self._freeze.changed.time):
            self._freeze.record(state, now)
        if self.is_open:
            self._average(now - self.came, state.time - self.state.time)
        self.state, self.came, self.is_open = state, now, True
        if found & _SPEED or self._speeds.limits is not limits:
            too_fast = self._speeds.reason(state.qd, limits, settings.blend_time, now)
            if too_fast:
                self.faults = (*self.faults, (OVERSPEED, too_fast))
        else:
            self._speeds.pass_slow(now)
        return True

    def _timed(self, state: State, now: float) -> tuple[str, State | None]:
        """
        Return a state with a time that advances, or None, and what is wrong with its stamp.

        Parameters
        ----------
        state : State
        now : float [s]
            Time of its arrival.

        """
        before, stamp = self.state.time, state.time
        if not self.is_open or not CLOCK_STEPS[0] <= stamp - before <= 0.0:
            self._stamp, self._advanced, self._offset = stamp, now, 0.0
            return '', state
        if stamp == self._stamp and all(map(np.array_equal, state[1:], self.state[1:])):
            self._advanced = now  # the same state again, as of a simulation that waits
            return '', state._replace(time=before)
        is_older, has_advanced = stamp < self._stamp, stamp > self._stamp
        lasted = now - self._advanced
        if is_older and lasted <= STANDING:
            return '', None
        self._stamp = stamp
        if stamp + self._offset <= before:
            self._offset = before - stamp + now - self.came
        if has_advanced:
            self._advanced = now
        text = '' if has_advanced or lasted <= STANDING else (
            f'the stamps of the states do not advance: for {lasted:.3f} s they '
            + ('have gone back' if is_older else f'are {stamp:.3f} s') + ', while states come')
        return text, state._replace(time=stamp + self._offset)

    @property
    def changed(self) -> State:
        """The last accepted state with new positions, or the first state; if `is_open`."""
        return self._freeze.changed

    def slack(self, limits: Array) -> Array | None:
        """
        Speeds (n,) up to which a joint is not too fast [rad/s, m/s].

        None if the next state needs a closer look: before the first state, after one in doubt,
        and if these limits (n,) are not in force.

        """
        is_settled = self.is_open and self._doubted is None and self._speeds.limits is limits
        return self._speeds.slack if is_settled else None

    def is_clear(self, time: float, q: Array, qd: Array, period: float, limits: Array) -> bool:
        """
        Whether `accept` will accept a state without a fault; this changes nothing.

        False where the answer takes longer. Parameters as of `accept`.

        """
        return (self.is_open and self._doubted is None
                and 0.0 < time - self.state.time <= CLOCK_STEPS[1]
                and self._speeds.limits is limits
                and not self._find(time, q, qd, period) & ~REPEATED)

    def believe(self) -> None:
        """Take repeated positions for those of an arm at rest, until they change."""
        self._freeze.believe()

    def _find(self, time: float, q: Array, qd: Array, period: float) -> int:
        """Return the bits of `doubts`."""
        before = self.state
        changed = self._freeze.changed if self.is_open else before
        found: int = doubts(q, qd, before.q, before.qd, changed.q, changed.qd, self._fastest,
                             self._speeds.slack, time - before.time, period, time - changed.time)
        return found

    def _withstands(self, state: State, found: int, period: float) -> bool:
        """Whether a state is plausible after a closer look; set `faults` and the attributes."""
        freeze, before = self._freeze, self.state
        doubted, self._doubted = self._doubted, None
        if found & REPEATED and state.time >= freeze.changed.time and (
                frozen := freeze.reason(state)):
            if state.time - freeze.changed.time > FROZEN_LONG:
                self.faults = (*self.faults, (JUMP, frozen))
            if before is not freeze.changed:
                # the frozen states held no information
                self.state, self.came, self.has_frozen = freeze.changed, freeze.came, True
            return False
        if reason := self._check.jump(before, state, period):
            self.faults = (*self.faults, (JUMP, reason))
            agrees = doubted is not None and not self._check.contradicts(doubted, state, period)
            self._agreed = self._agreed + 1 if agrees else 0
            is_regular = CLOCK_STEPS[0] <= state.time - before.time <= CLOCK_STEPS[1]
            if self._agreed < (1 if is_regular else CLOCK_STATES):
                self._doubted = state
                return False
            self.has_jumped = True
        return True

    def _average(self, interval: float, spacing: float) -> None:
        """Average the intervals of the states, by arrival and by stamp [s]."""
        if spacing > 0.0:
            interval = min(interval, LATE_PERIODS * self.interval)
            self.interval += INTERVAL_SHARE * (interval - self.interval)
            spacing = min(spacing, LATE_PERIODS * self.spacing)
            self.spacing += INTERVAL_SHARE * (spacing - self.spacing)
