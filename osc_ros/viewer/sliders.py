# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Sliders that show and set parameters of the controller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from osc_ros.viewer.mirror import Mirror
from osc_ros.viewer.scene.actions import Actions
from osc_ros.viewer.scene.reading import Follower, MARGIN, Reading, SPEED
from osc_ros.viewer.text import block, line

SETTLED = 1.0  # `settled` of a slider, see `Mirror` [s]
ACCELERATION, IMPEDANCE = 'acceleration', 'impedance'
MODES = ACCELERATION, IMPEDANCE, 'free', 'joints'  # values of parameter mode


@dataclass(frozen=True)
class Range:
    """One slider: parameter, label, range and step, and the modes that use the parameter."""

    name: str  # of the parameter; every entry of an array gets the value of the slider
    label: str
    low: float
    high: float
    step: float
    modes: tuple[str, ...] = (ACCELERATION, IMPEDANCE)
    is_advanced: bool = False  # in a folder of its own, which is closed at first


RANGES = (
    Range('translation.natural_frequency', 'ω position [rad/s]', 1.0, 60.0, 0.5, (ACCELERATION,)),
    Range('rotation.natural_frequency', 'ω rotation [rad/s]', 1.0, 60.0, 0.5, (ACCELERATION,)),
    Range('translation.stiffness', 'k position [N/m]', 10.0, 2000.0, 10.0, (IMPEDANCE,)),
    Range('rotation.stiffness', 'k rotation [N m/rad]', 1.0, 200.0, 1.0, (IMPEDANCE,)),
    Range('target.translation.speed', 'speed of the set-point [m/s]', 0.01, 1.0, 0.01),
    *(Range(name, label, low, high, step, is_advanced=True) for name, label, low, high, step in (
        ('translation.damping_ratio', 'damping ratio position', 0.1, 2.0, 0.05),
        ('rotation.damping_ratio', 'damping ratio rotation', 0.1, 2.0, 0.05),
        ('task.activation', 'activation tip', 0.0, 1.0, 0.05),
        ('posture.natural_frequency', 'ω posture [rad/s]', 0.0, 20.0, 0.5),
        ('posture.damping_ratio', 'damping ratio posture', 0.0, 2.0, 0.05))),
)


def ranges(followers: tuple[Follower, ...]) -> Iterator[Range]:
    """Yield the sliders of a controller with these additional tasks."""
    yield from RANGES
    for one in followers:
        yield Range(f'{one.name}.activation', f'activation {one.name}', 0.0, 1.0, 0.05,
                    is_advanced=True)


def shown_parameters(followers: tuple[str, ...]) -> list[str]:
    """Return the names of all parameters that the page shows; `followers` are task names."""
    return ['mode', 'limits.effort', 'goal.rotation.tolerance', 'goal.translation.tolerance',
            MARGIN, SPEED, *(one.name for one in RANGES),
            *(f'{name}.activation' for name in followers)]


def numbers(value: Any) -> list[float]:
    """Return the value of a parameter as a list of numbers; [] if it contains no numbers."""
    if value is None or isinstance(value, str):
        return []
    return [float(x) for x in value] if hasattr(value, '__len__') else [float(value)]


class Sliders:
    """A folder with sliders and the choice of the mode, and a closed one with advanced ones."""

    def __init__(self, server: Any, actions: Actions) -> None:
        self._server, self._actions = server, actions
        self._folder = server.gui.add_folder('Gains')
        self._followers: tuple[Follower, ...] | None = None
        self._sliders: dict[str, Mirror] = {}
        self._ranges: dict[str, Range] = {}
        self._mode: Mirror | None = None
        with self._folder:
            self._advanced = server.gui.add_folder('advanced', order=1e5, expand_by_default=False)
            self._note = server.gui.add_html('', order=1e6)

    def update(self, reading: Reading) -> None:
        """Show the parameters in the latest data of the controller."""
        if not reading.parameters:
            return
        if self._followers != reading.followers:
            self._rebuild(reading)
        mode = reading.parameters.get('mode', ACCELERATION)
        if self._mode is not None:
            self._mode.update(mode)
        notes = []
        for name, mirror in self._sliders.items():
            slider, has = mirror.handle, numbers(reading.parameters.get(name))
            slider.disabled = not has or mode not in self._ranges[name].modes
            if not has:
                continue
            mean = sum(has) / len(has)
            if len(set(has)) > 1:
                notes.append(line(f'{name} is {" ".join(f"{x:g}" for x in has)}'))
            slider.max = max(self._ranges[name].high, mean)
            slider.min = min(self._ranges[name].low, mean)
            mirror.update(mean)
        notes += [line(f'{name}: {text}', '⚠ refused:')
                  for name, text in reading.refusals.items()]
        self._note.content = block(notes)

    def _rebuild(self, reading: Reading) -> None:
        for old in (*self._sliders.values(), *([self._mode] if self._mode else [])):
            old.handle.remove()
        self._followers, self._sliders = reading.followers, {}
        self._ranges = {one.name: one for one in ranges(reading.followers)}
        with self._folder:
            self._mode = self._mirror('mode', self._server.gui.add_dropdown(
                'mode', MODES))
        for one in self._ranges.values():
            with self._advanced if one.is_advanced else self._folder:
                self._sliders[one.name] = self._mirror(one.name, self._server.gui.add_slider(
                    one.label, one.low, one.high, one.step, one.low, hint=one.name))

    def _mirror(self, name: str, handle: Any) -> Mirror:
        return Mirror(handle, lambda value: self._actions.set_parameter(name, value), SETTLED)
