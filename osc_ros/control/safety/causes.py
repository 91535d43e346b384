# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled watchdogs: find the active causes, and the reaction that replaces the law's torque."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.control.safety.sample import LATE_PERIODS
from osc_ros.control.safety.supervision import REACTIONS

STOP = 'stop'  # cause: a stop was requested; not a fault
RUNAWAY, ABANDON = 'runaway', 'abandon'  # cause: the arm does not obey; reaction: commands end

# A reaction as a number: its index in REACTIONS, NO_REACTION, or ABANDONS for 'abandon'.
NO_REACTION, ABANDONS = -1, len(REACTIONS)
REPORT, DEACTIVATE = REACTIONS.index('report'), REACTIONS.index('deactivate')
# A cause as a number: the index of its watchdog, or one of the following.
NO_CAUSE, IS_STOP, IS_RUNAWAY = -1, -2, -3
# Reasons of 'runaway': a joint moves against its torques; the arm speeds up in spite of a reaction
# that brakes it.
DISOBEYS, SPEEDS_UP = 1, 2

# A state counts as missing only if the last state is older than this share of the time-out of
# 'stale_state'.
LATE_SHARE = 0.05


@inlined
def report_fault(d, watchdog, now):
    """Record that the cause of a watchdog is present now; `watchdog` < 0 is ignored."""
    if watchdog >= 0:
        d.seen[watchdog], d.silent[watchdog] = now, 0.0


@inlined
def abandon(d, code, joint, speed):
    """Give the arm up and record why (DISOBEYS or SPEEDS_UP), unless it is given up already."""
    if d.given_up == 0:
        d.times_given_up += 1
        d.given_up, d.given_up_joint, d.given_up_speed = code, joint, speed


@inlined
def replaces_law(d):
    """Return whether a reaction, or the age of the last state, replaces the law's torque."""
    return d.reaction > REPORT or d.is_blind


@inlined
def _find_reaction(m, d, now):
    # written once, at the end, because other threads read it at any time
    gravest, cause = NO_REACTION, NO_CAUSE
    for i in range(m.watchdog_count):
        reaction, was_active = m.watch_reaction[i], d.is_active[i] != 0
        if now - d.fed[i] > m.timeout[i]:
            d.seen[i], d.silent[i] = now, now - d.fed[i]
        is_active = now - d.seen[i] <= m.settle_time or was_active and (
            m.is_latched[i] != 0 and reaction != REPORT or reaction == DEACTIVATE)
        d.is_active[i] = is_active
        if is_active and not was_active:
            d.begun[i] += 1
        if is_active and reaction > gravest:
            gravest, cause = reaction, i
    if d.stops:
        gravest, cause = DEACTIVATE, IS_STOP
    if d.given_up != 0:
        gravest, cause = ABANDONS, IS_RUNAWAY
    d.reaction, d.cause = gravest, cause


@inlined
def _is_blind(m, d, now):
    """Return whether the last state is too old for control."""
    timeout, is_stale, stale = np.inf, False, m.stale_watchdog
    if stale >= 0:
        timeout = m.timeout[stale]
        is_stale = now - d.fed[stale] > timeout
    late = LATE_PERIODS * max(d.interval, m.period)
    if timeout < np.inf:
        late = max(late, LATE_SHARE * timeout)
    return is_stale or (m.bridges or d.reaction > REPORT) and d.is_open and now - d.came > late


@inlined
def update_causes(m, d, now):
    """Find reaction and `is_blind` at `now` [s]; return whether cause or reaction changed."""
    cause, reaction = d.cause, d.reaction
    _find_reaction(m, d, now)
    d.is_blind = _is_blind(m, d, now)
    if d.reaction != reaction:
        d.reaction_began, d.rests = now, False
    return d.cause != cause or d.reaction != reaction


class Acting(NamedTuple):
    """The cause and the reaction in force."""

    cause: str  # active cause whose reaction has the highest priority; empty if none is active
    reaction: str  # reaction to this cause; empty if there is none
    reason: str  # description of the fault

    def text(self, normal: str, remedy: str = '~/release accepts activation') -> str:
        """Return a status message: `normal` without a reaction; with `remedy` after ABANDON."""
        if self.reaction == ABANDON:
            return f'{self.cause}: {self.reason}: no more commands; {remedy} again'
        if self.reaction == 'report':
            return f'{self.cause}: {self.reason}; this is only reported'
        return f'{self.cause}: {self.reason}: {self.reaction}' if self.reaction else normal
