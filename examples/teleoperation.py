# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Teleoperation by keyboard, gamepad or SpaceMouse: `python examples/teleoperation.py keyboard`.

Each device gives a velocity in the device's axes, from -1 to 1, and whether its dead-man switch is
held. The arm moves only while the switch is held, which is also the clutch: let go, move your hand
back, go on. If the switch or the device goes, the arm stops and holds its pose.

gamepad and spacemouse read /dev/input by evdev: `pip install evdev`.
"""

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import json
import os
from pathlib import Path
import select
import sys
from typing import NamedTuple, Protocol

from matplotlib import pyplot
import numpy as np

import osc_ros

PERIOD = 0.05  # between two commands [s]
SPEED = np.array([0.5] * 3 + [0.1] * 3)  # at full deflection [rad/s], [m/s]
HELD = 0.15  # time for which a key counts as held [s]
KEYS = {'w': (3, 1.0), 's': (3, -1.0), 'a': (4, 1.0), 'd': (4, -1.0), 'r': (5, 1.0),
        'f': (5, -1.0), 'i': (1, 1.0), 'k': (1, -1.0), 'j': (0, -1.0), 'l': (0, 1.0),
        'u': (2, 1.0), 'o': (2, -1.0)}
# axis of the device: place in the twist, sign
GAMEPAD = {'ABS_Y': (3, -1.0), 'ABS_X': (4, -1.0), 'ABS_RY': (5, -1.0), 'ABS_RX': (2, -1.0)}
SPACEMOUSE = {'REL_Y': (3, -1.0), 'REL_X': (4, -1.0), 'REL_Z': (5, -1.0),
              'REL_RY': (0, -1.0), 'REL_RX': (1, -1.0), 'REL_RZ': (2, -1.0)}
SPACEMOUSE |= {name.replace('REL', 'ABS'): axis for name, axis in SPACEMOUSE.items()}
REACH = 350.0  # largest value of a SpaceMouse's axis that does not tell it
IDLE = 0.05  # deflections below this are zero


class Reading(NamedTuple):
    """What a device says: deflections (6,), [angular; linear], and its dead-man switch."""

    deflection: np.ndarray
    is_held: bool


class Device(Protocol):
    """A source of readings."""

    def read(self, time: float) -> Reading | None:
        """Return the present reading; None at the end."""


class DeviceError(RuntimeError):
    """A device that is not there, or has gone."""


class Keyboard:
    """Keys of a terminal: the arm moves while a key repeats."""

    def __init__(self) -> None:
        if not sys.stdin.isatty():
            raise DeviceError('the keyboard needs a terminal: start this program in one')
        self._key, self._until = '', 0.0

    def read(self, time: float) -> Reading | None:
        """Return the reading; None after q."""
        while select.select([sys.stdin], [], [], 0.0)[0]:
            keys = os.read(sys.stdin.fileno(), 1024).decode(errors='replace')  # the last counts
            if not keys:
                raise DeviceError('the terminal has gone')
            if 'q' in keys:
                return None
            self._key, self._until = keys[-1], time + HELD
        return reading_of_key(self._key if time <= self._until else '')


def reading_of_key(key: str) -> Reading:
    """Return the reading while a key is held; a key is its own dead-man switch."""
    deflection = np.zeros(6)
    if key in KEYS:
        place, sign = KEYS[key]
        deflection[place] = sign
    return Reading(deflection, key in KEYS)


class Evdev:
    """A gamepad or a SpaceMouse of Linux, by evdev; a button is the dead-man switch."""

    def __init__(self, word: str, axes: dict[str, tuple[int, float]]) -> None:
        try:
            import evdev
        except ImportError as error:
            raise DeviceError(f'{word} needs evdev ({error}): pip install evdev') from None
        found = [evdev.InputDevice(path) for path in evdev.list_devices()]
        named = [device for device in found if word.lower() in device.name.lower()
                 or (word == 'gamepad' and evdev.ecodes.BTN_SOUTH in device.capabilities().get(
                     evdev.ecodes.EV_KEY, []))]
        if not named:
            raise DeviceError(f'no {word} is plugged in (there are: '
                              f"{', '.join(device.name for device in found) or 'no devices'}); "
                              'is your user in the group input?')
        self._device, self._axes, self._ecodes = named[0], axes, evdev.ecodes
        self._deflection, self._is_held = np.zeros(6), False

    def read(self, time: float) -> Reading | None:
        """Return the reading."""
        codes = self._ecodes
        try:
            while (event := self._device.read_one()) is not None:
                if event.type == codes.EV_KEY:
                    self._is_held = bool(event.value)
                elif event.type == codes.EV_SYN and event.code == codes.SYN_DROPPED:
                    self._is_held = False  # events were lost, perhaps that of the switch
                for kind, names in ((codes.EV_ABS, codes.ABS), (codes.EV_REL, codes.REL)):
                    name = names.get(event.code) if event.type == kind else None
                    if name in self._axes:
                        place, sign = self._axes[name]
                        low, high = -REACH, REACH
                        if kind == codes.EV_ABS:  # 0 to 255, -32768 to 32767, …
                            axis = self._device.absinfo(event.code)
                            low, high = axis.min, axis.max
                        middle, half = (low + high) / 2.0, (high - low) / 2.0
                        self._deflection[place] = sign * np.clip(
                            (event.value - middle) / half, -1.0, 1.0)
        except OSError as error:
            raise DeviceError(f'{self._device.name} has gone: {error}') from None
        return Reading(self._deflection.copy(), self._is_held)


class Recorded:
    """Readings from a file with lines {"time": …, "deflection": […], "is_held": …}."""

    def __init__(self, path: Path) -> None:
        self._lines = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            try:
                found = json.loads(line)
                self._lines.append((float(found['time']), Reading(
                    np.array(found.get('deflection', [0.0] * 6), dtype=float).reshape(6),
                    bool(found.get('is_held', False))), bool(found.get('gone', False))))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise DeviceError(f'{path}, line {number}: {error!r}; give {{"time": …, '
                                  '"deflection": [six numbers], "is_held": true}') from None
        self._begin: float | None = None

    def read(self, time: float) -> Reading | None:
        """Return the last reading that is not later than the time since the start."""
        self._begin = time if self._begin is None else self._begin
        past = [line for line in self._lines if line[0] <= time - self._begin + 1e-9]
        if len(past) == len(self._lines):
            return None
        _, reading, is_gone = past[-1] if past else (0.0, Reading(np.zeros(6), False), False)
        if is_gone:
            raise DeviceError('the recorded device has gone')
        return reading


def device_of(name: str) -> Device:
    """Return the device with a name, or the recording in a file."""
    if name == 'keyboard':
        return Keyboard()
    if name == 'gamepad':
        return Evdev('gamepad', GAMEPAD)
    if name == 'spacemouse':
        return Evdev('SpaceMouse', SPACEMOUSE)
    path = Path(name)
    if not path.is_file():
        raise DeviceError(f"device '{name}': give keyboard, gamepad, spacemouse, or the "
                          'file of a recording')
    return Recorded(path)


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Read single keys without echo."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def teleoperate(arm: osc_ros.Arm, device: Device, scale: float) -> np.ndarray:
    """
    Move an arm by a device, until the device ends; hold the pose whenever the switch is off.

    Return the times and the positions of the tip at the commands (k, 4).

    """
    moves, way = False, [[arm.state().time, *arm.pose()[:3, 3]]]
    try:
        while (reading := device.read(arm.state().time)) is not None:
            deflection = np.where(np.abs(reading.deflection) > IDLE, reading.deflection, 0.0)
            if reading.is_held:
                arm.jog(scale * SPEED * deflection)
            elif moves:
                arm.hold()
            moves = reading.is_held
            state = arm.sleep(PERIOD)
            way.append([state.time, *state.pose[:3, 3]])
    finally:
        arm.hold()
        arm.sleep(0.5)
    return np.array(way)


def draw(way: np.ndarray) -> None:
    """Draw the way of the tip in teleoperation.png."""
    pyplot.plot(way[:, 0], way[:, 1:], label=['x', 'y', 'z'])
    pyplot.xlabel('time [s]')
    pyplot.ylabel('position of the tip [m]')
    pyplot.legend()
    pyplot.savefig('teleoperation.png')


def main(arguments: Sequence[str] | None = None) -> None:
    """Move an arm by a device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('device', help='keyboard (w s a d r f, i k j l u o; q ends), gamepad, '
                        'spacemouse, or the file of a recording')
    parser.add_argument('--ros', action='store_true', help='command a running controller')
    parser.add_argument('--scale', type=float, default=1.0, help='of the speed')
    given = parser.parse_args(arguments)
    try:
        device = device_of(given.device)
        with osc_ros.Arm.ros() if given.ros else osc_ros.Arm.simulated(
                'panda', show=given.device in ('keyboard', 'gamepad', 'spacemouse')) as arm:
            with raw_terminal():
                way = teleoperate(arm, device, given.scale)
            print('holding', arm.pose()[:3, 3].round(3))
        draw(way)
    except DeviceError as error:
        raise SystemExit(f'{error}') from None
    except KeyboardInterrupt:
        raise SystemExit('ended by Ctrl-C: the arm holds its pose') from None


if __name__ == '__main__':
    main()
