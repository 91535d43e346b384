# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimation of joint velocities from stamped positions, for drivers without velocities."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.angles import ShortWay
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Sample: TypeAlias = tuple[float, Array]  # time [s], values (n,)

SOURCES = ('measured', 'estimated', 'auto')

WINDOW = 0.03  # duration of the positions of a fit [s]
LEAST, MOST = 5, 48  # least and largest number of positions of a fit
LONGEST_GAP = 0.1  # longest time between two positions of one window [s]
JUMP_FACTOR = 2.0  # times the velocity limit: a faster change of a position is a jump
JUMP_FLOOR = 2e-3  # added to the largest step without a jump, for noise [rad, m]
BACK = -1.0  # a stamp that goes back further means that the clock was changed [s]
BLEND_TIME = 0.05  # duration of the change from one source of velocities to the other [s]
REPEATED = 10  # if this many states in a row have one stamp but new positions, stamps are unusable
# Measured velocities of zero are wrong if a position changes by more than MOVED [rad, m] within
# SOON [s].
MOVED = 0.01
SOON = 1.0


class VelocityEstimator:
    """
    Estimates velocities from a parabola fitted to the last positions by least squares.

    The estimate is the slope of the parabola at the newest position. The fit uses the positions of
    the last WINDOW seconds, at least LEAST of them, with their actual stamps: a Savitzky-Golay
    filter for irregular times. For a constant acceleration it has no delay.
    Noise of positions of standard deviation σ becomes noise of velocities of about
    14 σ / (WINDOW √N) for N positions: 0.013 rad/s at 500 Hz for 2^14 counts a turn, 0.009 rad/s
    at 1 kHz. A position that the joints cannot have reached is left out; after a gap or a lasting
    jump there is no estimate until LEAST positions have arrived. A repeated stamp is ignored.

    Parameters
    ----------
    robot : Robot
        Provides the velocity limits and the continuous joints.

    """

    def __init__(self, robot: Robot) -> None:
        self._fastest = JUMP_FACTOR * np.asarray(robot.velocity_limits)
        self._short_way = ShortWay(robot)
        self._window: deque[Sample] = deque(maxlen=MOST)
        self._repeated = 0

    def add(self, time: float, q: Array) -> None:
        """
        Add positions q (n,) with their stamp [s].

        Raises
        ------
        InputError
            If REPEATED positions differ but have the same stamp.

        """
        dt = time - self._window[-1][0] if self._window else 1.0
        if dt > 0.0:
            self._window.append((time, q))
            self._repeated = 0
        elif dt < BACK:
            self._window.clear()
            self._window.append((time, q))
        elif dt == 0.0 and not np.array_equal(q, self._window[-1][1]):
            self._repeated += 1
            if self._repeated >= REPEATED:
                raise InputError(f'{self._repeated} joint states with different positions have '
                                 f'the stamp {time:.3f} s: velocities can be estimated only from '
                                 'stamps that advance')

    def velocity(self) -> Array | None:
        """Velocity (n,) at the newest position [rad/s, m/s]; None with fewer than LEAST."""
        if len(self._window) < LEAST:
            return None
        times = np.array([time for time, _ in self._window])
        first = min(int(np.searchsorted(times, times[-1] - WINDOW - 1e-9)), len(times) - LEAST)
        t, q = times[first:] - times[-1], np.array([q for _, q in self._window])[first:]
        steps, gaps = self._steps(q), np.diff(t)
        if (gaps > LONGEST_GAP).any() or self._are_jumps(steps, gaps).any():
            found = self._without_jumps()
            if found is None:
                return None
            t, steps = found
        # displacements relative to the newest position; continuous joints take the shorter way
        way = np.zeros((len(t), steps.shape[1]))
        way[:-1] = -np.cumsum(steps[::-1], axis=0)[::-1]
        scale = -t[0]
        x = t / scale
        # the least-squares weights of the slope at x = 0 of a parabola
        powers = np.array([np.ones_like(x), x, x * x])
        weights = np.linalg.solve(powers @ powers.T, np.array([0.0, 1.0 / scale, 0.0])) @ powers
        return np.asarray(weights @ way)

    def _steps(self, q: Array) -> Array:
        """Steps (k-1, n) between positions (k, n); for a continuous joint the shorter way."""
        return self._short_way.of(np.diff(q, axis=0))

    def _are_jumps(self, steps: Array, gaps: Array) -> NDArray[np.bool_]:
        return np.asarray((np.abs(steps) > JUMP_FLOOR + np.outer(
            np.maximum(gaps, 1e-3), self._fastest)).any(axis=1))

    def _without_jumps(self) -> tuple[Array, Array] | None:
        """Times (k,), 0 at the last [s], and steps (k-1, n) of positions without jumps."""
        kept = [self._window[-1]]
        out_of_line = 0
        for time, q in list(self._window)[-2::-1]:
            gap = kept[0][0] - time
            if (gap > LONGEST_GAP or out_of_line > 1
                    or len(kept) >= LEAST and time < kept[-1][0] - WINDOW - 1e-9):
                break
            step = self._steps(np.array([q, kept[0][1]]))
            if self._are_jumps(step, np.array([gap])).any():
                out_of_line += 1
            else:
                kept.insert(0, (time, q))
                out_of_line = 0
        if len(kept) < LEAST:
            return None
        return (np.array([time for time, _ in kept]) - kept[-1][0],
                self._steps(np.array([q for _, q in kept])))


class VelocitySource:
    """
    Selects measured joint velocities, or velocities estimated from the positions.

    'measured' uses only measured velocities, 'estimated' only estimated ones. 'auto' uses measured
    velocities if they are present and finite, and estimates otherwise. 'auto' also estimates if a
    joint moved by MOVED within SOON while all measured velocities were exactly zero, until one of
    them is nonzero. A change of source is blended over BLEND_TIME, starting from the velocities
    of the last accepted state; a caller that rejects a state must therefore call `reject`.

    Attributes
    ----------
    mode : str
        One of SOURCES; may be changed at any time.
    used : str
        'measured' or 'estimated': the source of the last velocities.
    reason : str
        Reason why velocities are estimated; empty if measured, or if the mode is 'estimated'.

    Parameters
    ----------
    robot : Robot
    mode : str

    """

    def __init__(self, robot: Robot, mode: str = 'auto') -> None:
        self.mode = mode
        self.used, self.reason = 'measured', ''
        self._estimator = VelocityEstimator(robot)
        self._limits = np.asarray(robot.velocity_limits)
        self._last: Sample | None = None
        self._away: Sample | None = None  # difference of the sources at the last change
        self._still: Sample | None = None  # first state of a series with velocities of exactly 0
        self._is_wrong = False
        self._before: tuple[str, str, Sample | None, Sample | None]
        self._before = self.used, self.reason, self._last, self._away

    def reject(self) -> None:
        """Undo the effect of the last state on the blend, because the caller rejected it."""
        self.used, self.reason, self._last, self._away = self._before

    @property
    def takes_measured(self) -> bool:
        """Whether the next measured velocities, if they are not all zero, are used as they are."""
        return (self.mode != 'estimated' and self.used == 'measured' and self._away is None
                and not self._is_wrong)

    def velocity(self, time: float, q: Array, measured: Array | None, missing: str = ''
                 ) -> Array | None:
        """
        Return velocities (n,) [rad/s, m/s], or None while there are too few positions.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        q : (n,)
        measured : (n,), optional
            Measured velocities, finite; None if there are none.
        missing : str
            Reason why there are no measured velocities.

        Raises
        ------
        InputError
            With the text `missing`, if the mode is 'measured' and there are no measured
            velocities; and the errors of `VelocityEstimator.add`.

        """
        before = None
        self._before = self.used, self.reason, self._last, self._away
        if self.mode == 'measured' and measured is None:
            raise InputError(missing)
        if self.mode == 'auto' and measured is not None:
            if any(measured.tolist()):
                self._still, self._is_wrong = None, False
            else:
                self._check_zeros(time, q)
        is_measured = measured is not None and (
            self.mode == 'measured' or self.mode == 'auto' and not self._is_wrong)
        if not is_measured and self.used == 'measured':
            before = self._estimator.velocity()  # at the last state with measured velocities
        try:
            self._estimator.add(time, q)
        except InputError:
            if not is_measured:
                raise
        if is_measured:
            assert measured is not None
            if self.used == 'estimated':
                self._change(time, self._last and self._estimator.velocity(), measured)
            self.used, self.reason, qd = 'measured', '', measured
        else:
            estimate = self._estimator.velocity()
            if estimate is None:
                return None
            if self.used == 'measured' and self._last is not None:
                self._begin_blend(time, None if before is None else self._last[1] - before)
            self.used, qd = 'estimated', estimate
            self.reason = ('' if self.mode == 'estimated' else
                           missing if measured is None else
                           'measured velocities are zero while positions change')
        if self._away is not None:
            qd = qd + self._left(time)
        self._last = time, qd
        return qd

    def _change(self, time: float, estimate: Array | None, measured: Array) -> None:
        """Begin the blend from the estimated to the measured velocities."""
        self._begin_blend(time, None if estimate is None else
                          estimate + self._left(time) - measured)

    def _begin_blend(self, time: float, away: Array | None) -> None:
        """
        Begin the fade of a difference (n,) of two sources, unless it is implausibly large.

        A blend would hide an implausible velocity from the supervisor.

        """
        is_jump = away is None or (np.abs(away) > JUMP_FACTOR * self._limits).any()
        self._away = None if away is None or is_jump else (time, away)

    def _left(self, time: float) -> Array | float:
        """Remaining part (n,) of the difference at the last change of source."""
        if self._away is None:
            return 0.0
        began, away = self._away
        x = (time - began) / BLEND_TIME
        if not 0.0 <= x < 1.0:
            self._away = None
            return 0.0
        return np.asarray((1.0 - x * x * (3.0 - 2.0 * x)) * away)

    def _check_zeros(self, time: float, q: Array) -> None:
        """Detect measured velocities that are zero only because the driver measures none."""
        if self._still is None or not 0.0 <= time - self._still[0] <= SOON:
            self._still = time, q
        elif not self._is_wrong and (np.abs(q - self._still[1]) > MOVED).any():
            # a jump of the position is not a motion
            estimate = self._estimator.velocity()
            self._is_wrong = estimate is not None and bool(
                (np.abs(estimate) > MOVED / SOON).any())
            self._still = time, q
