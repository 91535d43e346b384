# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The banner: state of the controller, distance of the tip, and what keeps it away."""

from __future__ import annotations

from html import escape
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.viewer.scene.reading import ABSENT, ERROR, HARMLESS, Reading, STALE, WARN

Array = NDArray[np.float64]

GREEN, BLUE, AMBER, RED, GREY = '#2f855a', '#2b6cb0', '#b7791f', '#c53030', '#4a5568'
HELD_AFTER = 1.0  # a tip that is away from a standing set-point for this time is held away [s]
WAITING = 'waits for the arm'  # a state of the target in the diagnostics
START, RECOVER = 'start', 'recover'  # buttons that lead on
GIVEN_UP = 'runaway'  # beginning of the state of a controller that has given up the arm


class Condition(NamedTuple):
    """Colour of the banner, and lines of text below the state of the controller."""

    color: str
    lines: tuple[str, ...]


class Banner:
    """Shows the condition of the controller in a colour."""

    # Green: within the tolerance of the goal, else of the set-point. Blue: on the way, or guided.
    # Amber: held away, or a warning. Red: a watchdog reacts. Grey: not active, or no reports.

    def __init__(self, server: Any) -> None:
        self._html = server.gui.add_html('')
        self._away_since = np.inf

    def update(self, reading: Reading) -> None:
        """Show the latest data of the controller."""
        now = monotonic()
        self._away_since = min(self._away_since, now) if is_away(reading) else np.inf
        self._html.content = banner(reading, now - self._away_since)


def banner(reading: Reading, away: float = 0.0) -> str:
    """Return the state of the controller in HTML; for `away` see `condition`."""
    color, lines = condition(reading, away)
    return (f'<div id="osc-state" style="background:{color};color:white;'
            'padding:8px 12px;margin:6px 10px;border-radius:6px;font-size:14px;line-height:1.35;'
            f'overflow-wrap:anywhere"><b>{escape(reading.lifecycle)}</b>'
            + ''.join(f'<br>{escape(text)}' for text in lines if text) + '</div>')


def condition(reading: Reading, away: float) -> Condition:
    """Return the condition; `away` is the time for which `is_away` has been true [s]."""
    control = reading.control
    text = control.text
    if control.level == WARN:  # a missed deadline changes nothing, also beside another warning
        text = text.partition(f'; {HARMLESS}')[0] if not text.startswith(HARMLESS) else ''
    is_warning = control.level == WARN and text != ''
    text = text if text != reading.lifecycle else ''
    button = prompt(reading)
    press = f'press {button}' if button else ''
    if reading.lifecycle != ABSENT and control.level == ERROR:
        return Condition(RED, (text, press))
    if reading.lifecycle == ABSENT:
        return Condition(GREY, ('waiting for the controller',))
    if reading.lifecycle != 'active' or control.level == STALE:
        return Condition(GREY, (text, press))
    error, name = _error(reading)
    if error is None:
        return Condition(AMBER if is_warning else GREY, (text or 'no report of the error yet',))
    distance = f'{_distance(error)} away from its {name}'
    if reading.is_within_tolerance(error):
        return Condition(AMBER if is_warning else GREEN,
                         (f'at its {name}: {_distance(error)}', text))
    if control.status.get('free drive') == 'on':
        return Condition(AMBER if is_warning else BLUE, (text, distance))
    if away >= HELD_AFTER or control.status.get('target') == WAITING:
        cause, *_ = control.reasons or [text or 'the controller reports none']
        return Condition(AMBER, (f'held {distance}', f'reason: {cause}',
                                 '' if cause.startswith(text) else text))
    return Condition(AMBER if is_warning else BLUE, (f'on the way: {distance}', text))


def prompt(reading: Reading) -> str:
    """Return the button that leads to an active controller: START, RECOVER, or '' for none."""
    is_error = reading.lifecycle != ABSENT and reading.control.level == ERROR
    if is_error or reading.control.text.startswith(GIVEN_UP):
        return RECOVER
    return START if reading.lifecycle in ('inactive', 'unconfigured') else ''


def is_led(reading: Reading) -> bool:
    """Whether the controller accepts motions."""
    return reading.lifecycle == 'active' and reading.control.level not in (ERROR, STALE)


def is_away(reading: Reading) -> bool:
    """Whether the set-point has reached its goal, and the tip is outside of the tolerance."""
    control, goal = reading.control, reading.control.goal_errors.get('')
    if control.error is None or reading.is_within_tolerance(control.error):
        return False
    return goal is None or reading.is_within_tolerance(goal - control.error)


def _error(reading: Reading) -> tuple[Array | None, str]:
    """Return the error (6,) from the tip to its goal, or else to its set-point, and which."""
    goal = reading.control.goal_errors.get('')
    return (reading.control.error, 'set-point') if goal is None else (goal, 'goal')


def _distance(error: Array) -> str:
    return (f'{1e3 * np.linalg.norm(error[3:]):.1f} mm, '
            f'{np.degrees(np.linalg.norm(error[:3])):.2f}°')
