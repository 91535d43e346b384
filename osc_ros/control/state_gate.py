# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The check of the joint states by `osc_ros.control.sample`, and its faults in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control import sample
from osc_ros.control.angles import ShortWay
from osc_ros.control.record import Recorded
from osc_ros.control.sample import (
    check_sample,
    CLOCK_STEPS,
    doubts,
    PLAN,
    REPEATED,
    RESULT,
    SAMPLE,
    STATE,
)
from osc_ros.control.supervision import JUMP, NOT_FINITE, OVERSPEED, Supervision
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class State(NamedTuple):
    """Time [s], positions (n,) and velocities (n,) of the joints."""

    time: float
    q: Array
    qd: Array


class StateGate(Recorded):
    """
    Accepts the joint states that are plausible after the last accepted one.

    Attributes
    ----------
    state : State
        The last accepted state; zeros before the first. Its time is not its stamp while the stamps
        do not advance.
    faults : tuple of (str, str)
        What is wrong with the state of the last `accept`: causes for a watchdog, and reasons.

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

    TABLES = PLAN, STATE, SAMPLE, RESULT
    CONNECTED = 'views', '_plan', '_at', '_given', '_result', '_settings', '_limits'

    def __init__(self, robot: Robot, period: float, limits: Array, now: float) -> None:
        n = robot.n
        super().__init__(n)
        self._names = robot.joint_names
        self._plan.fastest[:], self._plan.turns[:] = (
            robot.velocity_limits, ShortWay(robot).continuous)
        self._limits: Array | None = limits
        self._plan.limits[:], self._plan.period[0] = limits, period
        sample.begin(*self.records[:2], now)
        self.state = State(0.0, np.zeros(n), np.zeros(n))
        self.faults: tuple[tuple[str, str], ...] = ()
        self._find(*self.state, period)  # compiles the kernels now, and not in the loop
        check_sample(*(one.copy() for one in self.records))

    def _connect(self) -> None:
        super()._connect()
        self._plan, self._at, self._given, self._result = self.views
        self._settings: Supervision | None = None  # those that the plan has
        self._limits = None

    @property
    def came(self) -> float:
        """When the last accepted state arrived [s]."""
        return float(self._at.came[0])

    @property
    def is_open(self) -> bool:
        """Whether a state was accepted."""
        return bool(self._at.is_open[0])

    @property
    def interval(self) -> float:
        """Mean interval of the states by their arrival: a simulation may run slow [s]."""
        return float(self._at.interval[0])

    @property
    def spacing(self) -> float:
        """Mean interval of the states by their stamps [s]."""
        return float(self._at.spacing[0])

    @property
    def has_jumped(self) -> bool:
        """Whether the last state was accepted although it is far from the state before."""
        return bool(self._result.has_jumped[0])

    @property
    def has_frozen(self) -> bool:
        """Whether the rejection of frozen positions began: `state` is now the last new one."""
        return bool(self._result.has_frozen[0])

    @property
    def changed(self) -> State:
        """The last accepted state with new positions, or the first state; if `is_open`."""
        at = self._at
        return State(float(at.changed_time[0]), at.changed_q.copy(), at.changed_qd.copy())

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
        if settings is not self._settings or limits is not self._limits:
            self._settings, self._limits, plan = settings, limits, self._plan
            plan.period[0], plan.blend_time[0] = settings.period, settings.blend_time
            plan.limits[:] = limits
        given = self._given
        given.time[0], given.now[0] = state.time, now
        given.q[:], given.qd[:] = state.q, state.qd
        accepted = bool(check_sample(*self.records))
        at, result = self._at, self._result
        self.faults = self._words() if result.count[0] else ()
        if accepted:
            self.state = State(at.time.item(), state.q, state.qd)
        elif result.has_frozen[0]:
            self.state = self.changed
        return accepted

    def _words(self) -> tuple[tuple[str, str], ...]:
        """Return causes and reasons of the faults of the last state."""
        return tuple(self._word(int(code), int(joint), *map(float, numbers)) for
                     code, joint, *numbers in self._result.faults[:int(self._result.count[0])])

    def _word(self, code: int, joint: int, one: float, two: float, three: float
              ) -> tuple[str, str]:
        """Return cause and reason of a fault, see `osc_ros.control.sample.RESULT`."""
        name = f"'{self._names[joint]}'"
        if code in (sample.STANDS, sample.RUNS_BACK):
            return JUMP, (f'the stamps of the states do not advance: for {one:.3f} s they '
                          + ('have gone back' if code == sample.RUNS_BACK else f'are {two:.3f} s')
                          + ', while states come')
        if code == sample.NUMBERS:
            given = self._given
            return NOT_FINITE, f'joint state {given.q.tolist()}, {given.qd.tolist()}'
        if code == sample.CLOCK:
            return JUMP, (f'the time of the states went from {one:.3f} s to {two:.3f} s: a '
                          'simulation was reset, or two nodes publish the states')
        if code == sample.IS_FROZEN:
            return JUMP, (f'the positions are frozen: none has changed for {one:.4g} s, although '
                          f'{name} moved at {two:.4g}')
        if code == sample.TOO_FAST:
            return OVERSPEED, f'{name} moves at {one:.4g}: its limit is {two:.4g}'
        kind = 'the speed of ' if code == sample.SPEED_STEP else ''
        return JUMP, f'{kind}{name} went {one:.4g} in {two:.4g} s: accepted is {three:.4g}'

    def slack(self, limits: Array) -> Array | None:
        """
        Speeds (n,) up to which a joint is not too fast [rad/s, m/s].

        None if the next state needs a closer look: before the first state, after one in doubt,
        and if these limits (n,) are not in force.

        """
        is_settled = self.is_open and not self._at.is_doubted[0] and self._is_in_force(limits)
        return self._at.slack if is_settled else None

    def _is_in_force(self, limits: Array) -> bool:
        return limits is self._limits and self._at.limits.tobytes() == self._plan.limits.tobytes()

    def is_clear(self, time: float, q: Array, qd: Array, period: float, limits: Array) -> bool:
        """
        Whether `accept` will accept a state without a fault; this changes nothing.

        False where the answer takes longer. Parameters as of `accept`.

        """
        return (self.slack(limits) is not None
                and 0.0 < time - self.state.time <= CLOCK_STEPS[1]
                and not self._find(time, q, qd, period) & ~REPEATED)

    def believe(self) -> None:
        """Take repeated positions for those of an arm at rest, until they change."""
        self._at.is_at_rest[0] = 1.0

    def _find(self, time: float, q: Array, qd: Array, period: float) -> int:
        """Return the bits of `doubts`."""
        at = self._at
        found: int = doubts(q, qd, at.q, at.qd, at.changed_q, at.changed_qd, self._plan.fastest,
                            at.slack, time - at.time[0], period, time - at.changed_time[0])
        return found
