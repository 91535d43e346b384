# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimation of joint velocities from stamped positions, for drivers without velocities."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.safety.estimate import forget_positions, put_estimate, put_position, WINDOW
from osc_ros.control.safety.sample import continuous_joints, JUMP_FACTOR
from osc_ros.control.safety.tables import ESTIMATE
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SOURCES = ('measured', 'estimated', 'auto')

BACK = -1.0  # a stamp that goes back further means that the clock was changed [s]
BLEND_TIME = 0.05  # duration of the change from one source of velocities to the other [s]
REPEATED = 10  # with this many new positions in a row but the same stamp, the stamps are unusable

_MEASURED, _ESTIMATED, _AUTO = map(float, range(3))  # the modes, in the order of SOURCES
# Results of `find_velocity`: velocities were written; too few positions; measured velocities are
# missing; stamps do not advance; the source would change although `may_change` is False.
FOUND, TOO_FEW, MISSING, STANDING, CHANGES = range(5)

VELOCITY = Table(
    'Velocity',
    Slot('mode', (1,), '', 'index of the mode in `SOURCES`'),
    Slot('fastest', ('n',), 'rad/s, m/s', 'velocity limits of the joints'),
    Slot('turns', ('n',), '', '1 for a continuous joint'),
    *ESTIMATE,
    Slot('repeated', (1,), '', 'number of different positions in a row with the newest stamp'),
    Slot('used', (2,), '', 'source of the velocities: index in `SOURCES`; here and below, the '
         'first row is of the last state, the second one of the state before'),
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
        forget_positions(at)
    elif dt > 0.0:
        at.repeated[0] = 0.0
    else:
        return True
    put_position(at, at, time, q)
    return True


@inlined
def _takes_measured(at, measured):
    """Whether to use the measured velocities (n,) of a state; they are (0,) if there are none."""
    return len(measured) > 0 and at.mode[0] != _ESTIMATED


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
        is_known = is_known and np.abs(away[i]) <= JUMP_FACTOR * at.fastest[i]
    at.fades[0], at.began[0] = 1.0 if is_known else 0.0, time
    assign(at.away[0], away)


@inlined
def _change(at, time, measured):
    is_known, left = at.is_known[0] > 0.0 and put_estimate(at, at, WINDOW), _left(at, time)
    for i in range(len(measured)):
        at.estimate[i] += left * at.away[0, i] - measured[i]
    _begin_fade(at, time, at.estimate, is_known)


@inlined
def _copy_row(at, to, of):
    """Copy row `of` to row `to`, in the slots that have two rows."""
    at.used[to], at.is_known[to] = at.used[of], at.is_known[of]
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
    is_measured = _takes_measured(at, measured)
    is_other = is_measured != (at.used[0] == _MEASURED)
    if is_other and not may_change:
        return CHANGES
    _copy_row(at, 1, 0)
    # difference of the sources at the last state with measured velocities
    is_known = (is_other and not is_measured and put_estimate(at, at, WINDOW)
                and at.is_known[0] > 0.0)
    if is_known:
        for i in range(len(q)):
            qd[i] = at.qd[0, i] - at.estimate[i]
    if not _add(at, time, q) and not is_measured:
        return STANDING
    if is_measured:
        if is_other:
            _change(at, time, measured)
        at.used[0] = _MEASURED
        assign(qd, measured)
    else:
        if not put_estimate(at, at, WINDOW):
            return TOO_FEW
        if is_other and at.is_known[0] > 0.0:
            _begin_fade(at, time, qd, is_known)
        at.used[0] = _ESTIMATED
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
    velocities if they are present and finite, and estimates otherwise. A change of source is
    blended over BLEND_TIME, starting from the velocities of the last accepted state; a caller that
    rejects a state must therefore call `reject`. Whether measured velocities fit the positions is
    checked later, by `osc_ros.control.safety.velocity_check`.

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
        at.fastest[:], at.turns[:] = robot.velocity_limits, continuous_joints(robot)
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
        return self._missing if self.used == 'estimated' and self.mode != 'estimated' else ''

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
