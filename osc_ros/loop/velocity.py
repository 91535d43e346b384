# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimation of joint velocities from stamped positions, for drivers without velocities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import types, VECTOR
from osc_ros.compile.compiled import entry, inlined, kernel
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.data import ESTIMATE
from osc_ros.control.safety.sample import continuous_joints, JUMP_FACTOR
from osc_ros.control.safety.velocity_check import (
    forget_positions,
    put_estimate,
    put_position,
)
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SOURCES = ('measured', 'estimated', 'auto')

BACK = -1.0  # a stamp that goes back further means that the clock was changed [s]
BLEND_TIME = 0.05  # duration of the change from one source of velocities to the other [s]
REPEATED = 10  # with this many new positions in a row but the same stamp, the stamps are unusable

_MEASURED, _ESTIMATED, _AUTO = range(3)  # the modes, in the order of SOURCES
# Results of `find_velocity`: velocities were written; too few positions; measured velocities are
# missing; stamps do not advance; the source would change although `may_change` is False.
FOUND, TOO_FEW, MISSING, STANDING, CHANGES = range(5)

VELOCITY = Table(
    'Velocity',
    Slot('mode', (), '', 'index of the mode in `SOURCES`', int),
    Slot('fastest', ('n',), 'rad/s, m/s', 'velocity limits of the joints'),
    Slot('turns', ('n',), '', 'whether the joint is continuous', bool),
    *ESTIMATE,
    Slot('repeated', (), '', 'number of different positions in a row with the newest stamp', int),
    Slot('used', (2,), '', 'source of the velocities: index in `SOURCES`; here and below, the '
         'first row is of the last state, the second one of the state before', int),
    Slot('is_known', (2,), '', 'whether there are velocities', bool),
    Slot('qd', (2, 'n'), 'rad/s, m/s', 'the velocities'),
    Slot('fades', (2,), '', 'whether the difference of the sources fades', bool),
    Slot('began', (2,), 's', 'stamp of the last change of the source'),
    Slot('away', (2, 'n'), 'rad/s, m/s', 'velocities of the source before, less those of '
         'the new one, at that change'))


@inlined
def _add(d, time, q):
    """Store positions with their stamp; return False if the arm moves but stamps stand still."""
    row, dt = d.fit_newest, 1.0
    if d.fit_count > 0:
        dt = time - d.fit_times[row]
    if dt == 0.0:
        is_same = True
        for i in range(d.n):
            is_same = is_same and q[i] == d.fit_q[row, i]
        if not is_same:
            d.repeated += 1
        return is_same or d.repeated < REPEATED
    if dt < BACK:
        forget_positions(d)
    elif dt > 0.0:
        d.repeated = 0
    else:
        return True
    put_position(d, d, time, q, d.fit_qd[d.fit_newest])  # zeros: no velocity is known
    return True


@inlined
def _takes_measured(d, measured):
    """Whether to use the measured velocities (n,) of a state; they are (0,) if there are none."""
    return len(measured) > 0 and d.mode != _ESTIMATED


@inlined
def _left(d, time):
    """Remaining fraction, 1 to 0, of the velocity difference at the last change of the source."""
    x = (time - d.began[0]) / BLEND_TIME
    if d.fades[0] == 0 or not 0.0 <= x < 1.0:
        d.fades[0] = 0
        return 0.0
    return 1.0 - x * x * (3.0 - 2.0 * x)


@inlined
def _begin_fade(d, time, away, is_known):
    """Begin to fade out a difference (n,) of two sources, unless it is implausibly large."""
    # fading an implausible velocity would hide it from the supervisor
    for i in range(d.n):
        is_known = is_known and np.abs(away[i]) <= JUMP_FACTOR * d.fastest[i]
    d.fades[0], d.began[0] = 1 if is_known else 0, time
    assign(d.away[0], away)


@inlined
def _change(d, time, measured):
    is_known, left = d.is_known[0] != 0 and put_estimate(d, d), _left(d, time)
    for i in range(d.n):
        d.estimate[i] += left * d.away[0, i] - measured[i]
    _begin_fade(d, time, d.estimate, is_known)


@inlined
def _copy_row(d, to, of):
    """Copy row `of` to row `to`, in the slots that have two rows."""
    d.used[to], d.is_known[to] = d.used[of], d.is_known[of]
    d.fades[to], d.began[to] = d.fades[of], d.began[of]
    assign(d.qd[to], d.qd[of])
    assign(d.away[to], d.away[of])


@kernel
def find_velocity(d, time, q, measured, may_change, qd):
    """Write the velocities of a state to `qd` (n,); return FOUND, or why there are none."""
    # `time`: stamp [s]; `measured`: finite, (0,) if there are none. CHANGES: the source would
    # change although `may_change` is False. A repeated call for the same state changes nothing.
    if d.mode == _MEASURED and len(measured) == 0:
        return MISSING
    is_measured = _takes_measured(d, measured)
    is_other = is_measured != (d.used[0] == _MEASURED)
    if is_other and not may_change:
        return CHANGES
    _copy_row(d, 1, 0)
    # difference of the sources at the last state with measured velocities
    is_known = (is_other and not is_measured and put_estimate(d, d)
                and d.is_known[0] != 0)
    if is_known:
        for i in range(d.n):
            qd[i] = d.qd[0, i] - d.estimate[i]
    if not _add(d, time, q) and not is_measured:
        return STANDING
    if is_measured:
        if is_other:
            _change(d, time, measured)
        d.used[0] = _MEASURED
        assign(qd, measured)
    else:
        if not put_estimate(d, d):
            return TOO_FEW
        if is_other and d.is_known[0] != 0:
            _begin_fade(d, time, qd, is_known)
        d.used[0] = _ESTIMATED
        assign(qd, d.estimate)
    left = _left(d, time)
    if left > 0.0:
        for i in range(d.n):
            qd[i] += left * d.away[0, i]
    d.is_known[0] = 1
    assign(d.qd[0], qd)
    return FOUND


@kernel
def undo_velocity(d):
    """Undo the effect of the last state on the fade, because the supervisor rejected the state."""
    _copy_row(d, 0, 1)


class VelocitySource:
    """Selects measured joint velocities, or velocities estimated from the positions."""

    # 'auto': measured velocities if they are present and finite, otherwise estimates. A change of
    # source is blended over BLEND_TIME from the velocities of the last accepted state, so a caller
    # that rejects a state must call `reject`. `osc_ros.control.safety.velocity_check` checks later
    # whether measured velocities fit the positions. An estimate is the slope, at the newest
    # position, of a parabola fitted by least squares to the positions of the last WINDOW seconds
    # (at least to the last LEAST) with their stamps: a Savitzky-Golay filter for irregular times,
    # without delay for a constant acceleration. Noise of positions of standard deviation σ causes
    # about 14 σ / (WINDOW √N) for N positions: 0.013 rad/s at 500 Hz for 2^14 counts a turn, 0.009
    # rad/s at 1 kHz. A position that the joints cannot have reached is skipped; after a gap or a
    # permanent jump there is no estimate until LEAST positions have arrived. A repeated stamp is
    # ignored.

    def __init__(self, robot: Robot, mode: str = 'auto') -> None:
        d = self.record = VELOCITY.new(n=robot.n)
        d.fastest[:], d.turns[:] = robot.velocity_limits, continuous_joints(robot)
        self.mode, self._missing = mode, ''
        of = VELOCITY.numba_type  # compiled now, because that would delay the first state
        self._find = entry(find_velocity, of, types.float64, VECTOR, VECTOR, types.boolean, VECTOR)
        self._undo = entry(undo_velocity, of)

    @property
    def mode(self) -> str:
        """One of SOURCES; may be changed at any time."""
        return SOURCES[self.record.mode]

    @mode.setter
    def mode(self, mode: str) -> None:
        self.record.mode = SOURCES.index(mode)

    @property
    def used(self) -> str:
        """'measured' or 'estimated': the source of the last velocities."""
        return SOURCES[self.record.used[0]]

    @property
    def reason(self) -> str:
        """Reason why velocities are estimated; empty if measured, or in mode 'estimated'."""
        return self._missing if self.used == 'estimated' and self.mode != 'estimated' else ''

    def reject(self) -> None:
        """Undo the effect of the last state on the blend, because the caller rejected it."""
        self._undo(self.record)

    def velocity(self, time: float, q: Array, measured: Array | None, missing: str = ''
                 ) -> Array | None:
        """Return velocities (n,) [rad/s, m/s], or None while there are too few positions."""
        # `measured`: (n,), finite, or None for the reason `missing`. InputError: 'measured'
        # without them, or REPEATED different positions with one stamp when they must be estimated
        self._missing, qd = missing, np.empty(self.record.n)
        code = self._find(self.record, time, q, qd[:0] if measured is None else measured, True, qd)
        if code == MISSING:
            raise InputError(missing)
        if code == STANDING:
            raise InputError(
                f'{self.record.repeated} joint states with different positions have the '
                f'stamp {time:.3f} s: velocities can be estimated only from stamps that advance')
        return qd if code == FOUND else None
