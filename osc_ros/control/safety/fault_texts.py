# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Messages for the faults of joint states, and for an arm that does not obey."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.safety import sample, velocity_check
from osc_ros.control.safety.causes import DISOBEYS
from osc_ros.control.safety.response import ESCALATION

Array = NDArray[np.float64]


def runaway_text(code: float, joint: str, speed: float) -> str:
    """Return the message for an arm given up; `code`: DISOBEYS or SPEEDS_UP of `safety.causes`."""
    if code == DISOBEYS:
        return f"'{joint}' moves against its torques"
    return (f'the arm speeds up for {ESCALATION} s or longer although a reaction brakes it: '
            f"'{joint}' moves at {speed:.3g}")


def velocity_text(names: tuple[str, ...], joint: int, kind: float, figure: float, said: float
                  ) -> str:
    """Return the message for a joint whose velocities do not fit; see `velocity_check`."""
    if kind == velocity_check.JUMPED:
        return (f"the speed of '{names[joint]}' jumped by {figure:.4g}, at most {said:.4g} is "
                'plausible, and its position did not: its velocity is bounded')
    other = names[int(figure) % len(names)] if math.isfinite(figure) else 'another joint'
    ratio = f'its velocity is {figure:.3g} times the speed of its positions'
    return f"'{names[joint]}' " + {
        velocity_check.DEGREES: f'in degrees per second? ({ratio})',
        velocity_check.SIGN: f'with the sign turned? ({ratio})',
        velocity_check.ZERO: 'always zero, or late?',
        velocity_check.SCALED: f'in another unit, or filtered? ({ratio})',
        velocity_check.EXCHANGED: f"exchanged with '{other}'?",
        velocity_check.LATE: f'{1e3 * figure:.0f} ms late?',
    }.get(int(kind) if math.isfinite(kind) else velocity_check.UNKNOWN,
          f'not explained (its integral is {said:.3g})') + (
        ': velocity does not fit the positions and is corrected by them')


def silence_text(what: str, silent: float, limit: float, why: str) -> str:
    """Return the message for a time without joint states or commands [s]; `why`: with remedy."""
    return f'no {what} for {silent:.3f} s (limit {limit:g} s)' + (f': {why}' if why else '')


def fault_text(code: int, joint: str, state: tuple[Array, Array], one: float, two: float,
               three: float) -> str:
    """Return the message for a fault of a state (q, qd); code and numbers are from `sample`."""
    name = f"'{joint}'"
    if code in (sample.STANDS, sample.RUNS_BACK):
        return (f'the stamps of the states do not advance: for {one:.3f} s they '
                + ('have gone back' if code == sample.RUNS_BACK else f'are {two:.3f} s')
                + ', while states come')
    if code == sample.NUMBERS:
        q, qd = state
        return f'joint state {q.tolist()}, {qd.tolist()}'
    if code == sample.CLOCK:
        return (f'the time of the states went from {one:.3f} s to {two:.3f} s: a simulation '
                "was reset, or the driver's clock was set")
    if code == sample.IS_FROZEN:
        return (f'the positions are frozen: none has changed for {one:.4g} s, although '
                f'{name} moved at {two:.4g}')
    if code == sample.TOO_FAST:
        return f'{name} moves at {one:.4g}: its limit is {two:.4g}'
    kind = 'the speed of ' if code == sample.SPEED_STEP else ''
    return f'{kind}{name} went {one:.4g} in {two:.4g} s, at most {three:.4g} is plausible'
