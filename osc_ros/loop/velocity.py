# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimation of joint velocities from stamped positions, for drivers without velocities."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, stage
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.safety.sample import continuous_joints, JUMP_FACTOR, JUMP_FLOOR, short_step
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SOURCES = ('measured', 'estimated', 'auto')

WINDOW = 0.03  # duration of the positions of a fit [s]
LEAST, MOST = 5, 48  # least and largest number of positions of a fit
LONGEST_GAP = 0.1  # longest time between two positions of one window [s]
BACK = -1.0  # a stamp that goes back further means that the clock was changed [s]
BLEND_TIME = 0.05  # duration of the change from one source of velocities to the other [s]
REPEATED = 10  # with this many new positions in a row but the same stamp, the stamps are unusable
# Measured velocities of zero are wrong if a position changes by more than MOVED [rad, m] within
# SOON [s].
MOVED = 0.01
SOON = 1.0

_MEASURED, _ESTIMATED, _AUTO = map(float, range(3))  # the modes, in the order of SOURCES
_NO_REASON, _LACKING, _ZERO = map(float, range(3))  # reasons of an estimate
# Results of `find_velocity`: velocities were written; too few positions; measured velocities are
# missing; stamps do not advance; the source would change although `may_change` is False.
FOUND, TOO_FEW, MISSING, STANDING, CHANGES = range(5)

VELOCITY = Table(
    'Velocity',
    Slot('mode', (1,), '', 'index of the mode in `SOURCES`'),
    Slot('limits', ('n',), 'rad/s, m/s', 'velocity limits of the joints'),
    Slot('turns', ('n',), '', '1 for a continuous joint'),
    Slot('kept', (1,), '', 'number of positions that are kept'),
    Slot('newest', (1,), '', 'row of the newest of them'),
    Slot('times', (MOST,), 's', 'their stamps; the row after the last one is the first one'),
    Slot('positions', (MOST, 'n'), 'rad, m', 'the positions'),
    Slot('repeated', (1,), '', 'number of different positions in a row with the newest stamp'),
    Slot('is_still', (1,), '', '1 if measured velocities are exactly 0'),
    Slot('still_time', (1,), 's', 'stamp of the first state of a series of these'),
    Slot('still_q', ('n',), 'rad, m', 'positions of that state'),
    Slot('is_wrong', (1,), '', '1 if they are 0 although the arm moves'),
    Slot('estimate', ('n',), 'rad/s, m/s', 'room for an estimate'),
    Slot('sums', (3, 'n'), '', 'room for the sums of a fit'),
    Slot('used', (2,), '', 'source of the velocities: index in `SOURCES`; here and below, the '
         'first row is of the last state, the second one of the state before'),
    Slot('reason', (2,), '', 'why they are estimated: 1 none are measured; 2 they are 0'),
    Slot('is_known', (2,), '', '1 if there are velocities'),
    Slot('qd', (2, 'n'), 'rad/s, m/s', 'the velocities'),
    Slot('fades', (2,), '', '1 while the difference of the sources fades'),
    Slot('began', (2,), 's', 'stamp of the last change of the source'),
    Slot('away', (2, 'n'), 'rad/s, m/s', 'velocities of the source before, less those of '
         'the new one, at that change'))

_views = VELOCITY.views


@inlined
def _add(at, time, q):
    """Store positions with their stamp; return False if the arm moves but stamps stand still."""
    row, dt = int(at.newest[0]), 1.0
    if at.kept[0] > 0.0:
        dt = time - at.times[row]
    if dt == 0.0:
        is_same = True
        for i in range(len(q)):
            is_same = is_same and q[i] == at.positions[row, i]
        if not is_same:
            at.repeated[0] += 1.0
        return is_same or at.repeated[0] < REPEATED
    if dt < BACK:
        at.kept[0] = 0.0
    elif dt > 0.0:
        at.repeated[0] = 0.0
    else:
        return True
    row = (row + 1) % MOST
    at.newest[0], at.kept[0], at.times[row] = row, min(at.kept[0] + 1.0, MOST), time
    assign(at.positions[row], q)
    return True


@inlined
def _is_jump(at, row, last, gap):
    """Whether the joints cannot have moved from one stored position to the other in `gap` [s]."""
    for i in range(len(at.limits)):
        step = short_step(at, i, at.positions[last, i] - at.positions[row, i])
        if not np.abs(step) <= JUMP_FLOOR + JUMP_FACTOR * at.limits[i] * max(gap, 1e-3):
            return True
    return False


@stage
def _estimate(at):
    """
    Estimate the velocities at the newest position; return whether there are enough positions.

    A parabola is fitted to the last positions by its normal equations; times are relative to
    WINDOW, positions to the newest one. The loop goes back in time. It skips a position from which
    the joints cannot have reached the next one; after two such positions in a row it ends, because
    the jump is permanent.

    """
    n, newest, last, count, out = len(at.limits), int(at.newest[0]), int(at.newest[0]), 1, 0
    way, sums, s1, s2, s3, s4 = at.estimate, at.sums, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        way[i] = sums[0, i] = sums[1, i] = sums[2, i] = 0.0
    for k in range(1, int(at.kept[0])):
        row = (newest - k) % MOST
        gap, x = at.times[last] - at.times[row], (at.times[row] - at.times[newest]) / WINDOW
        if gap > LONGEST_GAP or count >= LEAST and x < -1.0 - 1e-9 / WINDOW:
            break
        if _is_jump(at, row, last, gap):
            out += 1
            if out > 1:
                break
            continue
        for i in range(n):
            way[i] -= short_step(at, i, at.positions[last, i] - at.positions[row, i])
            sums[0, i] += way[i]
            sums[1, i] += x * way[i]
            sums[2, i] += x * x * way[i]
        s1, s2, s3, s4 = s1 + x, s2 + x**2, s3 + x**3, s4 + x**4
        last, out, count = row, 0, count + 1
    if count < LEAST:
        return False
    weights = s2 * s3 - s1 * s4, count * s4 - s2**2, s1 * s2 - count * s3
    scale = WINDOW * (s1 * weights[0] + s2 * weights[1] + s3 * weights[2])
    for i in range(n):
        way[i] = (weights[0] * sums[0, i] + weights[1] * sums[1, i] + weights[2] * sums[2, i]
                  ) / scale
    return True


@inlined
def _check_zeros(at, time, q):
    """Detect a driver that reports zero for velocities that it does not measure."""
    is_old = at.is_still[0] == 0.0 or not 0.0 <= time - at.still_time[0] <= SOON
    if not is_old:
        has_moved = False
        for i in range(len(q)):
            has_moved = has_moved or np.abs(q[i] - at.still_q[i]) > MOVED
        if at.is_wrong[0] > 0.0 or not has_moved:
            return
        if _estimate(at):  # a jump of the position is not a motion
            for i in range(len(q)):
                if np.abs(at.estimate[i]) > MOVED / SOON:
                    at.is_wrong[0] = 1.0
    at.is_still[0], at.still_time[0] = 1.0, time
    assign(at.still_q, q)


@inlined
def _takes_measured(at, time, q, measured):
    """Whether to use the measured velocities (n,) of a state; they are (0,) if there are none."""
    if len(measured) == 0 or at.mode[0] == _ESTIMATED:
        return False
    if at.mode[0] == _MEASURED:
        return True
    for value in measured:
        if value != 0.0:
            at.is_still[0] = at.is_wrong[0] = 0.0
            return True
    _check_zeros(at, time, q)
    return at.is_wrong[0] == 0.0


@inlined
def _left(at, time):
    """Remaining fraction, 1 to 0, of the velocity difference at the last change of the source."""
    x = (time - at.began[0]) / BLEND_TIME
    if at.fades[0] == 0.0 or not 0.0 <= x < 1.0:
        at.fades[0] = 0.0
        return 0.0
    return 1.0 - x * x * (3.0 - 2.0 * x)


@inlined
def _begin_fade(at, time, away, is_known):
    """
    Begin to fade out a difference (n,) of two sources, unless it is implausibly large.

    Fading an implausible velocity would hide it from the supervisor.

    """
    for i in range(len(away)):
        is_known = is_known and np.abs(away[i]) <= JUMP_FACTOR * at.limits[i]
    at.fades[0], at.began[0] = 1.0 if is_known else 0.0, time
    assign(at.away[0], away)


@inlined
def _change(at, time, measured):
    is_known, left = at.is_known[0] > 0.0 and _estimate(at), _left(at, time)
    for i in range(len(measured)):
        at.estimate[i] += left * at.away[0, i] - measured[i]
    _begin_fade(at, time, at.estimate, is_known)


@inlined
def _copy_row(at, to, of):
    """Copy row `of` to row `to`, in the slots that have two rows."""
    at.used[to], at.reason[to], at.is_known[to] = at.used[of], at.reason[of], at.is_known[of]
    at.fades[to], at.began[to] = at.fades[of], at.began[of]
    assign(at.qd[to], at.qd[of])
    assign(at.away[to], at.away[of])


@kernel
def find_velocity(record, time, q, measured, may_change, qd):
    """
    Write the velocities of a state; return FOUND, or the reason why there are none.

    A repeated call for the same state changes nothing.

    Parameters
    ----------
    record : array
        A record of VELOCITY.
    time : float
        Stamp of the state [s].
    q, measured : (n,)
        Positions; measured velocities, finite, (0,) if there are none.
    may_change : bool
        If False, and the source would change with this state, CHANGES is returned.
    qd : (n,), written [rad/s, m/s]

    """
    at = _views(record, len(q))
    if at.mode[0] == _MEASURED and len(measured) == 0:
        return MISSING
    is_measured = _takes_measured(at, time, q, measured)
    is_other = is_measured != (at.used[0] == _MEASURED)
    if is_other and not may_change:
        return CHANGES
    _copy_row(at, 1, 0)
    # difference of the sources at the last state with measured velocities
    is_known = is_other and not is_measured and _estimate(at) and at.is_known[0] > 0.0
    if is_known:
        for i in range(len(q)):
            qd[i] = at.qd[0, i] - at.estimate[i]
    if not _add(at, time, q) and not is_measured:
        return STANDING
    if is_measured:
        if is_other:
            _change(at, time, measured)
        at.used[0], at.reason[0] = _MEASURED, _NO_REASON
        assign(qd, measured)
    else:
        if not _estimate(at):
            return TOO_FEW
        if is_other and at.is_known[0] > 0.0:
            _begin_fade(at, time, qd, is_known)
        at.used[0] = _ESTIMATED
        at.reason[0] = (_NO_REASON if at.mode[0] == _ESTIMATED else
                        _LACKING if len(measured) == 0 else _ZERO)
        assign(qd, at.estimate)
    left = _left(at, time)
    if left > 0.0:
        for i in range(len(q)):
            qd[i] += left * at.away[0, i]
    at.is_known[0] = 1.0
    assign(at.qd[0], qd)
    return FOUND


@kernel
def undo_velocity(record, n):
    """Undo the effect of the last state on the fade, because the supervisor rejected the state."""
    _copy_row(_views(record, n), 0, 1)


class VelocitySource(Recorded):
    """
    Selects measured joint velocities, or velocities estimated from the positions.

    'measured' uses only measured velocities, 'estimated' only estimated ones. 'auto' uses measured
    velocities if they are present and finite, and estimates otherwise. 'auto' also estimates if a
    joint moved by MOVED within SOON while all measured velocities were exactly zero, until one of
    them is nonzero. A change of source is blended over BLEND_TIME, starting from the velocities
    of the last accepted state; a caller that rejects a state must therefore call `reject`.

    An estimate is the slope, at the newest position, of a parabola fitted by least squares to the
    positions of the last WINDOW seconds (at least to the last LEAST positions) with their actual
    stamps: a Savitzky-Golay filter for irregular times. For a constant acceleration it has no
    delay. Position noise of standard deviation σ causes velocity noise of about 14 σ / (WINDOW √N)
    for N positions: 0.013 rad/s at 500 Hz for 2^14 counts a turn, 0.009 rad/s at 1 kHz. A position
    that the joints cannot have reached is skipped; after a gap or a permanent jump there is no
    estimate until LEAST positions have arrived. A repeated stamp is ignored.

    Parameters
    ----------
    robot : Robot
        Its velocity limits and continuous joints are used.
    mode : str
        One of SOURCES.

    """

    TABLES: ClassVar[tuple[Table, ...]] = (VELOCITY,)

    def __init__(self, robot: Robot, mode: str = 'auto') -> None:
        super().__init__(robot.n)
        [at] = self.views
        at.limits[:], at.turns[:] = robot.velocity_limits, continuous_joints(robot)
        self.mode, self._missing = mode, ''
        # compile now, because compilation would delay the first state
        record, x = VELOCITY.zeros(robot.n), np.zeros(robot.n)
        find_velocity(record, 0.0, x, x[:0], True, x.copy())
        undo_velocity(record, robot.n)

    @property
    def mode(self) -> str:
        """One of SOURCES; may be changed at any time."""
        return SOURCES[int(self.views[0].mode[0])]

    @mode.setter
    def mode(self, mode: str) -> None:
        self.views[0].mode[0] = SOURCES.index(mode)

    @property
    def used(self) -> str:
        """'measured' or 'estimated': the source of the last velocities."""
        return SOURCES[int(self.views[0].used[0])]

    @property
    def reason(self) -> str:
        """Reason why velocities are estimated; empty if measured, or in mode 'estimated'."""
        return ('', self._missing, 'measured velocities are zero while positions change')[
            int(self.views[0].reason[0])]

    def reject(self) -> None:
        """Undo the effect of the last state on the blend, because the caller rejected it."""
        undo_velocity(self.record, self._n)

    def velocity(self, time: float, q: Array, measured: Array | None, missing: str = ''
                 ) -> Array | None:
        """
        Return velocities (n,) [rad/s, m/s], or None while there are too few positions.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        q, measured : (n,)
            Positions; measured velocities, finite, or None.
        missing : str
            Reason why there are no measured velocities.

        Raises
        ------
        InputError
            The mode is 'measured' and there are no measured velocities (the text is `missing`); or
            velocities must be estimated, and REPEATED different positions have the same stamp.

        """
        self._missing, qd = missing, np.empty(self._n)
        code = find_velocity(self.record, time, q, qd[:0] if measured is None else measured, True,
                             qd)
        if code == MISSING:
            raise InputError(missing)
        if code == STANDING:
            raise InputError(
                f'{int(self.views[0].repeated[0])} joint states with different positions have the '
                f'stamp {time:.3f} s: velocities can be estimated only from stamps that advance')
        return qd if code == FOUND else None
