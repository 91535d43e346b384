# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Causes for which the law is replaced: which are active, and the reaction to them."""

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

STOP = 'stop'  # cause of a stop on request, which is no fault
RUNAWAY, ABANDON = 'runaway', 'abandon'  # the controller does not control the arm: its reaction

# Reactions as numbers: the index in REACTIONS, or one of these.
NO_REACTION, ABANDONS = -1, len(REACTIONS)
REPORT, DEACTIVATE = REACTIONS.index('report'), REACTIONS.index('deactivate')
# Causes as numbers: the index of the watchdog, or one of these.
NO_CAUSE, IS_STOP, IS_RUNAWAY = -1, -2, -3
# Why an arm is given up.
DISOBEYS, SPEEDS_UP = 1, 2

LATE_SHARE = 0.05  # of the time-out of stale states: least age of a missing state

_plan_views, _views = CAUSES_PLAN.views, CAUSES.views
_gate_plan_views, _gate_views = GATE_PLAN.only('period'), GATE.only('is_open', 'came', 'interval')


@inlined
def report_fault(causes, watchdog, now):
    """Record that the cause with this number is present now; ignored if it is negative."""
    if watchdog >= 0:
        causes.watches[watchdog, SEEN], causes.watches[watchdog, SILENT] = now, 0.0


@inlined
def abandon(causes, code, joint, speed):
    """Record that the controller does not control the arm."""
    if causes.given_up[0] == 0.0:
        causes.times_given_up[0] += 1.0
        causes.given_up[0], causes.given_up[1], causes.given_up[2] = code, joint, speed


@inlined
def replaces_law(causes):
    """Whether the reaction, or a state that is too old, replaces the law's torque."""
    return causes.reaction[0] > REPORT or causes.is_blind[0] > 0.0


@inlined
def _find_reaction(plan, causes, now):
    """Find the active causes, and the reaction of highest priority."""
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
    """Whether the last state is too old for control."""
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
    Find the reaction at a time [s], and whether the last state is too old.

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
    What a supervisor does, and why.

    Attributes
    ----------
    cause : str
        Of the causes in force, the one whose reaction has the highest priority; empty: none.
    reaction : str
        Its reaction; empty if there is none.
    reason : str
        Why the cause is in force.

    """

    cause: str
    reaction: str
    reason: str

    def text(self, normal: str, remedy: str = '~/release accepts activation') -> str:
        """
        Return this in words.

        `normal` is the text if the supervisor does nothing; `remedy` says how to go on if the arm
        was given up.

        """
        if self.reaction == ABANDON:
            return f'{self.cause}: {self.reason}: no more commands; {remedy} again'
        if self.reaction == 'report':
            return f'{self.cause}: {self.reason}; this is only reported, and changes nothing'
        return f'{self.cause}: {self.reason}: {self.reaction}' if self.reaction else normal
