# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The panel: state and messages of the controller, buttons, and state of the tip."""

from __future__ import annotations

from collections.abc import Callable, Iterable
import re
from typing import Any

import numpy as np

from osc_ros.viewer.banner import Banner, is_led, prompt, RECOVER, START
from osc_ros.viewer.mirror import Mirror
from osc_ros.viewer.scene.actions import Actions
from osc_ros.viewer.scene.obstacle_scene import is_own
from osc_ros.viewer.scene.reading import MARGIN, Reading, SPEED, WORST
from osc_ros.viewer.text import block, line

MOST_WORDS = 4  # number of shown log lines
SETTLED = 2.0  # `settled` of a check box and of the clearance, see `Mirror` [s]
NO_MESSAGE = 'no messages'
ONE_LINE = 42  # longest label of the messages [characters]
MANY_JOINTS = 4  # number of named joints near a limit


class Panel:
    """Shows the state of the controller, and turns clicks into requests."""

    def __init__(self, server: Any, actions: Actions) -> None:
        gui = server.gui
        # above the banner, whose height changes
        self._stop = gui.add_button('stop', color='red', disabled=True,
                                    hint='brings the arm to rest, and deactivates the controller')
        self._stop.on_click(lambda _: actions.call('stop'))
        self._banner = Banner(server)
        self._start = gui.add_button(START, disabled=True, hint='activates the controller')
        self._start.on_click(lambda _: actions.call('start'))
        self._recover = gui.add_button(RECOVER, disabled=True, hint='releases latched watchdogs, '
                                       'or activates the controller again; the arm holds')
        self._recover.on_click(lambda _: actions.call('recover'))
        self._hold = gui.add_button('hold', disabled=True, hint='stops motions; holds the pose')
        self._hold.on_click(lambda _: actions.call('hold'))
        self._speed = Mirror(
            gui.add_slider('speed [%]', 0.0, 100.0, 1.0, 100.0, disabled=True, hint=f'{SPEED}: '
                           'speed of all motions relative to their own; 0: the arm holds'),
            lambda value: actions.set_parameter(SPEED, value), SETTLED)
        self._home = gui.add_button('home', disabled=True)
        self._home.on_click(lambda _: actions.call('home'))
        self._free_drive = Mirror(
            gui.add_checkbox('free drive', False, disabled=True),
            lambda is_on: actions.call('free_drive on' if is_on else 'free_drive off'), SETTLED)
        self._folder = gui.add_folder(NO_MESSAGE, expand_by_default=False)
        with self._folder:
            self._words = gui.add_html('')

    def update(self, reading: Reading) -> None:
        """Show the latest data of the controller."""
        self._banner.update(reading)
        self._folder.label = headline(reading)
        self._words.content = messages_html(reading)
        offers, is_active = reading.offers, reading.lifecycle == 'active'
        self._stop.disabled = not (is_active and 'lifecycle' in offers)
        self._start.disabled = prompt(reading) != START or 'lifecycle' not in offers
        self._recover.disabled = prompt(reading) != RECOVER or 'release' not in offers
        self._hold.disabled = not (is_active and 'hold' in offers)
        speed = reading.parameters.get(SPEED)
        self._speed.handle.disabled = speed is None
        if speed is not None:
            self._speed.update(speed)
        self._home.disabled = not is_led(reading) or 'joints' not in offers or (
            reading.home is None)
        self._home.hint = home_hint(reading)
        self._free_drive.handle.disabled = not is_led(reading) or 'free_drive' not in offers
        self._free_drive.update(reading.control.status.get('free drive', 'off') != 'off')


class Tip:
    """A folder with the state of the tip: singularity, forces, and joints near their limits."""

    def __init__(self, server: Any) -> None:
        with server.gui.add_folder('Tip'):
            server.gui.add_html(block(['distance from a singularity (least controlled share)']))
            self._meter = server.gui.add_progress_bar(0.0, color='gray')
            self._facts = server.gui.add_html('')

    def update(self, reading: Reading) -> None:
        """Show the latest data of the controller."""
        self._facts.content = state_html(reading)
        share = reading.least_share
        self._meter.value = 0.0 if share is None else float(np.clip(100.0 * share, 0.0, 100.0))
        self._meter.color = ('gray' if share is None else 'red' if share < 0.3
                             else 'yellow' if share < WORST else 'green')


class Obstacles:
    """A folder: the clearance, buttons that add and delete obstacles, and the collision shapes."""

    def __init__(self, server: Any, actions: Actions, show_shapes: Callable[[bool], None]) -> None:
        gui = server.gui
        with gui.add_folder('Obstacles'):
            self._margin = Mirror(
                gui.add_slider('clearance [m]', 0.0, 0.1, 0.005, 0.0, hint=f'{MARGIN}: links '
                               'come no nearer to each other, to obstacles and to the fence; '
                               '0: the arm does not keep clear'),
                lambda value: actions.set_parameter(MARGIN, value), SETTLED)
            self._add = gui.add_button('add obstacle', hint='a sphere beside the tip, with a '
                                       'handle; from which the arm keeps clear')
            self._delete = gui.add_button('delete obstacles', hint='that browsers have added')
            shapes = gui.add_checkbox('collision shapes', False,
                                      hint='capsules that stand for the links')
        self._add.on_click(lambda _: actions.call('add obstacle'))
        self._delete.on_click(lambda _: actions.call('delete obstacles'))
        shapes.on_update(lambda event: show_shapes(event.target.value))

    def update(self, reading: Reading) -> None:
        """Show the latest data of the controller."""
        margin, slider = reading.parameters.get(MARGIN), self._margin.handle
        slider.disabled = margin is None
        if margin is not None:
            slider.max = max(slider.max, margin)
            self._margin.update(margin)
        self._add.disabled = 'obstacles' not in reading.offers or reading.control.pose is None
        self._delete.disabled = not any(map(is_own, reading.obstacles))


def home_hint(reading: Reading) -> str:
    """Return the posture to which the button 'home' moves the arm."""
    if reading.home is None:
        return 'moves the joints to the posture in which the arm started'
    return ('moves the joints to the posture in which the arm started: '
            + ' '.join(f'{0.0 + round(q, 2):g}' for q in reading.home.tolist()))


def headline(reading: Reading) -> str:
    """Return the newest message, or else the tripped watchdogs, in one short line."""
    if reading.words:
        level, text, time = reading.words[-1]
        found = f'{time} {level}: {text}'
    else:
        counts = _tripped(reading)
        found = f"watchdogs tripped: {', '.join(counts)}" if counts else NO_MESSAGE
    found = ' '.join(found.split())
    return found if len(found) <= ONE_LINE else found[:ONE_LINE - 1] + '…'


def messages_html(reading: Reading) -> str:
    """Return watchdogs and log messages, newest first, in HTML."""
    status = reading.control.status
    lines = [line(', '.join(_tripped(reading)) or 'none', 'watchdogs tripped:')]
    lines += [line(f'{name}: {status[name]}') for name in ('start-up check', 'black box')
              if status.get(name)]
    return block([*lines, *(line(text, f'{time} {level}:')
                            for level, text, time in newest_distinct(reading.words))])


def _tripped(reading: Reading) -> list[str]:
    """Return names and counts of the watchdogs that have tripped."""
    return [f'{name.removeprefix("watchdog ")} {count}'
            for name, count in reading.control.status.items()
            if name.startswith('watchdog ') and count not in ('0', '')]


def newest_distinct(messages: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return up to MOST_WORDS messages, newest first, without older ones equal but for numbers."""
    found: dict[str, tuple[str, str, str]] = {}
    for one in reversed(list(messages)):
        found.setdefault(re.sub(r'[0-9.]+', '', one[1]), one)
    return list(found.values())[:MOST_WORDS]


def state_html(reading: Reading) -> str:
    """Return lines of HTML on the tip, the forces, the gripper, and the joints near limits."""
    lines = []
    weakest = reading.control.status.get('weakest direction', '')
    share = reading.least_share
    if share is not None:
        lines.append(f'least controlled share {share:.3f}'
                     + (f', weakest direction: {weakest}' if share < WORST else ''))
    if reading.mobility is not None:
        values, _ = reading.mobility
        lines.append('Λ⁻¹, position: ' + ', '.join(f'{x:.3g}' for x in values)
                     + ' 1/kg (violet)')
    if reading.control.error is not None:
        lines.append(f'error {1e3 * np.linalg.norm(reading.control.error[3:]):.2f} mm, '
                     f'{np.degrees(np.linalg.norm(reading.control.error[:3])):.2f}°')
    if reading.control.force is not None:
        lines.append(f'force of the tip task {_vector(reading.control.force[3:])} N (blue)')
    if reading.control.external is not None:
        lines.append(f'external force {_vector(reading.control.external[3:])} N (orange), quality '
                     + reading.control.status.get('external wrench quality', '?'))
    if reading.gripper is not None:
        width, grip = reading.gripper
        lines.append(f'gripper {1e3 * width:.1f} mm wide, {abs(grip):.0f} N')
    if reading.control.nearest is not None:
        lines.append(f"nearest pair {' – '.join(reading.control.nearest)}: "
                     + reading.control.status.get('nearest distance [mm]', '?') + ' mm')
        lines.append('held off by: ' + (', '.join(reading.control.held_off) or 'nothing'))
    shares = reading.torque_shares
    if shares is not None and reading.robot is not None and np.isfinite(shares).any():
        most = int(np.nanargmax(np.abs(shares)))
        lines.append(f'largest torque: {reading.robot.joint_names[most]} at '
                     f'{100.0 * abs(shares[most]):.0f} % of its limit')
    near = [f'{name} ({distance:.2f} to go)' for name, distance in reading.near_limits().values()]
    lines.append('near a limit: ' + (', '.join(near[:MANY_JOINTS]) or 'no joint')
                 + (', …' if near[MANY_JOINTS:] else ''))
    lines += [f'⚠ {text}' for text in reading.control.reasons]
    return block(map(line, lines))


def _vector(x: Any) -> str:
    return ' '.join(f'{0.0 + round(one, 1):.1f}' for one in x.tolist())
