"""Joint velocities from stamped positions, for drivers that measure none."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SOURCES = ('measured', 'estimated', 'auto')

WINDOW = 0.03  # of positions that a parabola is fitted to [s]
LEAST, MOST = 5, 48  # positions in it: at low rates the window is longer
LONGEST_GAP = 0.1  # between two positions of one window [s]
JUMP_FACTOR = 2.0  # times the velocity limit: a faster step of a position is a jump
JUMP_FLOOR = 2e-3  # [rad, m] and no less than that
BACK = -1.0  # a stamp that goes back by more is of another clock [s]
BLEND_TIME = 0.05  # from one source of velocities to the other [s]
REPEATED = 10  # different positions with one stamp: the stamps are of no use
MOVED = 0.01  # a joint that moves by more ... [rad, m]
SOON = 1.0  # ... within this, while velocities are zero, proves them wrong [s]


class VelocityEstimator:
    """
    Slope, at the newest position, of the parabola fitted to the last positions (least squares).

    The fit takes the positions of the last WINDOW, at least LEAST of them, with their stamps as
    they are: a Savitzky-Golay filter for irregular times. For a constant acceleration it has no
    delay. Noise of positions of standard deviation σ becomes noise of velocities of about
    14 σ / (WINDOW √N) for N positions: 0.013 rad/s at 500 Hz for 2^14 counts a turn, 0.009 rad/s
    at 1 kHz. A position that no joint can have reached is left out; after a gap or a jump that
    lasts there is no estimate before LEAST positions. A stamp that repeats adds nothing.

    Parameters
    ----------
    robot : Robot
        For its velocity limits, and which joints may turn for ever.

    """

    def __init__(self, robot: Robot) -> None:
        self._fastest = JUMP_FACTOR * np.asarray(robot.velocity_limits)
        self._turns = ~(np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)
        self._may_turn = bool(self._turns.any())
        self._window: deque[tuple[float, Array]] = deque(maxlen=MOST)
        self._repeated = 0

    def add(self, time: float, q: Array) -> None:
        """
        Take positions q (n,) of a stamp [s].

        Raises
        ------
        InputError
            If positions change and the stamp does not.

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
        """Velocity (n,) at the newest position [rad/s, m/s]; None with less than LEAST."""
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
        # from the newest position back, continuous joints the short way
        way = np.zeros((len(t), steps.shape[1]))
        way[:-1] = -np.cumsum(steps[::-1], axis=0)[::-1]
        scale = -t[0]
        x = t / scale
        # the least-squares weights of the slope at x = 0 of a parabola
        powers = np.array([np.ones_like(x), x, x * x])
        weights = np.linalg.solve(powers @ powers.T, np.array([0.0, 1.0 / scale, 0.0])) @ powers
        return np.asarray(weights @ way)

    def _steps(self, q: Array) -> Array:
        """Ways (k-1, n) between positions (k, n); of a continuous joint the shorter way."""
        steps = np.diff(q, axis=0)
        if self._may_turn:
            whole = 2.0 * np.pi * np.round(steps / (2.0 * np.pi))
            steps = steps - np.where(self._turns, whole, 0.0)
        return steps

    def _are_jumps(self, steps: Array, gaps: Array) -> NDArray[np.bool_]:
        return np.asarray((np.abs(steps) > JUMP_FLOOR + np.outer(
            np.maximum(gaps, 1e-3), self._fastest)).any(axis=1))

    def _without_jumps(self) -> tuple[Array, Array] | None:
        """Ages (k,) and steps (k-1, n) of the last positions that fit together, if enough do."""
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
    Velocities of the joints: those measured, or estimated from the positions.

    'measured' takes only measured velocities, 'estimated' none of them. 'auto' takes measured
    ones where they come and are finite, and else estimates. It also estimates once a joint has
    moved by MOVED within SOON while all measured velocities were exactly zero, until one is not.
    From one source to the other the velocities go without a step, in BLEND_TIME: from those of the
    last state that was believed, so a caller that does not believe a state says so by `reject`.

    Attributes
    ----------
    mode : str
        One of SOURCES; may be changed at any time.
    used : str
        'measured' or 'estimated': the source of the last velocities.
    reason : str
        Why they are estimated; empty if they are measured, or if that was asked for.

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
        self._last: tuple[float, Array] | None = None
        self._away: tuple[float, Array] | None = None  # from the source, when it changed
        self._still: tuple[float, Array] | None = None  # since when measured ones are zero
        self._is_wrong = False
        self._before = self.used, self.reason, self._last, self._away

    def reject(self) -> None:
        """Blend as if the last state had not come: its velocities were not believed."""
        self.used, self.reason, self._last, self._away = self._before

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
            Finite; None where there are none.
        missing : str
            Why there are none.

        Raises
        ------
        InputError
            Why there are none, if only measured ones are accepted; as `VelocityEstimator.add`.

        """
        before = None
        self._before = self.used, self.reason, self._last, self._away
        if self.mode == 'measured' and measured is None:
            raise InputError(missing)
        if self.mode == 'auto' and measured is not None:
            self._check(time, q, measured)
        is_measured = measured is not None and (
            self.mode == 'measured' or self.mode == 'auto' and not self._is_wrong)
        if not is_measured and self.used == 'measured':
            before = self._estimator.velocity()  # for the last state that had measured ones
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
        """Let the velocities go from the estimate to the measured ones."""
        self._begin_blend(time, None if estimate is None else
                          estimate + self._left(time) - measured)

    def _begin_blend(self, time: float, away: Array | None) -> None:
        """
        Let a difference (n,) of two sources fade; none if one of them cannot be true.

        A blend would hide such a velocity from whoever judges the states.

        """
        is_jump = away is None or (np.abs(away) > JUMP_FACTOR * self._limits).any()
        self._away = None if away is None or is_jump else (time, away)

    def _left(self, time: float) -> Array | float:
        """What is left (n,) of the difference at the last change of source."""
        if self._away is None:
            return 0.0
        began, away = self._away
        x = (time - began) / BLEND_TIME
        if not 0.0 <= x < 1.0:
            self._away = None
            return 0.0
        return np.asarray((1.0 - x * x * (3.0 - 2.0 * x)) * away)

    def _check(self, time: float, q: Array, measured: Array) -> None:
        """Find out whether measured velocities are zero only because the driver has none."""
        if any(measured.tolist()):
            self._still, self._is_wrong = None, False
        elif self._still is None or not 0.0 <= time - self._still[0] <= SOON:
            self._still = time, q
        elif not self._is_wrong and (np.abs(q - self._still[1]) > MOVED).any():
            # what was put elsewhere at once has not moved
            estimate = self._estimator.velocity()
            self._is_wrong = estimate is not None and bool(
                (np.abs(estimate) > MOVED / SOON).any())
            self._still = time, q
