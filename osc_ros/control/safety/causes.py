# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compiled watchdogs: find the active causes, and the reaction that replaces the law's torque."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.control.safety.sample import LATE_PERIODS
from osc_ros.control.safety.supervision import REACTIONS
from osc_ros.control.safety.tables import (
    CAUSES,
    CAUSES_PLAN,
    COUNT,
    FED,
    GATE,
    GATE_PLAN,
    IS_ACTIVE,
    LATCHED,
    REACTION,
    SEEN,
    SILENT,
    TIMEOUT,
)

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

_plan_views, _views = CAUSES_PLAN.views, CAUSES.views
_gate_plan_views, _gate_views = GATE_PLAN.only('period'), GATE.only('is_open', 'came', 'interval')


@inlined
def report_fault(causes, watchdog, now):
    """Record that the cause of a watchdog is present now; `watchdog` < 0 is ignored."""
    if watchdog >= 0:
        causes.watches[watchdog, SEEN], causes.watches[watchdog, SILENT] = now, 0.0


@inlined
def abandon(causes, code, joint, speed):
    """
    Give the arm up, and record the reason, unless the arm is given up already.

    `code` is the reason, DISOBEYS or SPEEDS_UP; `joint` is the joint concerned, `speed` its speed.

    """
    if causes.given_up[0] == 0.0:
        causes.times_given_up[0] += 1.0
        causes.given_up[0], causes.given_up[1], causes.given_up[2] = code, joint, speed


@inlined
def replaces_law(causes):
    """Return whether a reaction, or the age of the last state, replaces the law's torque."""
    return causes.reaction[0] > REPORT or causes.is_blind[0] > 0.0


@inlined
def _find_reaction(plan, causes, now):
    gravest, causes.cause[0] = NO_REACTION, NO_CAUSE
    for i in range(int(plan.count[0])):
        watch, dog = causes.watches[i], plan.watchdogs[i]
        is_silent, was = now - watch[FED] > dog[TIMEOUT], watch[IS_ACTIVE] > 0.0
        if is_silent:
            watch[SEEN], watch[SILENT] = now, now - watch[FED]
        is_present = now - watch[SEEN] <= plan.settle_time[0]
        is_active = is_present or was and (
            dog[LATCHED] > 0.0 and dog[REACTION] != REPORT or dog[REACTION] == DEACTIVATE)
        watch[IS_ACTIVE] = is_active
        watch[COUNT] += is_active and not was
        if is_active and dog[REACTION] > gravest:
            gravest, causes.cause[0] = int(dog[REACTION]), i
    if causes.stops[0] > 0.0:
        gravest, causes.cause[0] = DEACTIVATE, IS_STOP
    if causes.given_up[0] > 0.0:
        gravest, causes.cause[0] = ABANDONS, IS_RUNAWAY
    causes.reaction[0] = gravest


@inlined
def _is_blind(plan, period, causes, gate, now):
    """Return whether the last state is too old for control."""
    timeout, is_stale, stale = np.inf, False, int(plan.stale[0])
    if stale >= 0:
        timeout = plan.watchdogs[stale, TIMEOUT]
        is_stale = now - causes.watches[stale, FED] > timeout
    late = LATE_PERIODS * max(gate.interval[0], period)
    if timeout < np.inf:
        late = max(late, LATE_SHARE * timeout)
    return is_stale or ((plan.bridges[0] > 0.0 or causes.reaction[0] > REPORT)
                        and gate.is_open[0] > 0.0 and now - gate.came[0] > late)


@inlined
def update_causes(plan, state, now):
    """
    Find the reaction at a time [s], and whether the last state is too old for control.

    Return whether the cause or the reaction has changed.

    """
    n = int(plan[0])
    settings, causes = _plan_views(plan, n), _views(state, n)
    cause, reaction = causes.cause[0], causes.reaction[0]
    _find_reaction(settings, causes, now)
    causes.is_blind[0] = _is_blind(settings, _gate_plan_views(plan, n).period[0], causes,
                                   _gate_views(state, n), now)
    if causes.reaction[0] != reaction:
        causes.began[0], causes.rests[0] = now, 0.0
    return causes.cause[0] != cause or causes.reaction[0] != reaction


class Acting(NamedTuple):
    """
    The cause and the reaction in force.

    Attributes
    ----------
    cause : str
        The active cause whose reaction has the highest priority; empty if none is active.
    reaction : str
        Reaction to this cause; empty if there is none.
    reason : str
        Description of the fault.

    """

    cause: str
    reaction: str
    reason: str

    def text(self, normal: str, remedy: str = '~/release accepts activation') -> str:
        """
        Return a status message.

        `normal` is the message if there is no reaction; `remedy` tells the user how to continue
        after `ABANDON`.

        """
        if self.reaction == ABANDON:
            return f'{self.cause}: {self.reason}: no more commands; {remedy} again'
        if self.reaction == 'report':
            return f'{self.cause}: {self.reason}; this is only reported'
        return f'{self.cause}: {self.reason}: {self.reaction}' if self.reaction else normal
