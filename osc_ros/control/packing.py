# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Values of the control law as bytes, and back.

The bytes are a text in JSON, which describes everything but the numbers of arrays, and then these
numbers. Described are numbers, texts, sequences, dictionaries, and objects of CLASSES, which are
made by their constructors. So bytes that somebody else has sent run nothing, and make no object
that its class would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
import json
import math
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.checkpoint import Checkpoint, LawRecipe
from osc_ros.control.contact import Contact
from osc_ros.control.disturbance import Disturbance
from osc_ros.control.driver import Driver
from osc_ros.control.free import FreeDrive
from osc_ros.control.friction import Friction
from osc_ros.control.guide import Jog
from osc_ros.control.impedance import Impedance
from osc_ros.control.joining import Drift
from osc_ros.control.kinds.table import KINDS
from osc_ros.control.limits import Limits
from osc_ros.control.posture import Posture
from osc_ros.control.settings import Observation, Settings
from osc_ros.control.setup import Precomputed
from osc_ros.control.supervision import Supervision, Watchdog
from osc_ros.control.task import ForceControl, Gains, Stiffness, TargetLimits, Task
from osc_ros.control.trajectory import Hold, KNOTS, Path
from osc_ros.dynamics.arrays import finite_array
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

CLASSES: dict[str, type] = {one.__name__: one for one in (
    Checkpoint, Contact, Disturbance, Drift, Driver, ForceControl, FreeDrive, Friction, Gains,
    Hold, Impedance, Jog, *KINDS.values(), LawRecipe, Limits, Observation, Path, Posture,
    Precomputed, Robot, Settings, SingularityDamping, Stiffness, Supervision, TargetLimits, Task,
    Watchdog)}
_ARGUMENTS: dict[type, tuple[str, ...]] = {  # by which an object of a class is made again
    **{one: getattr(one, '_fields', None) or tuple(
        field.name for field in fields(one) if field.init)
       for one in CLASSES.values() if one not in (Driver, Path, SingularityDamping)},
    Driver: ('robot', 'compensates'), Path: tuple(KNOTS),
    SingularityDamping: ('length', 'low', 'high')}
_MAKERS: dict[type, Callable[..., Any]] = {
    Path: Path.of_knots,
    Hold: lambda pose, arrival: Hold(finite_array('pose', pose, (4, 4)), float(arrival)),
    Drift: lambda pose, twist, since: Drift(
        finite_array('pose', pose, (4, 4)), finite_array('twist', twist, (6,)), float(since))}
NUMBERS = 'b1', 'u1', 'i4', 'u4', 'i8', 'u8', 'f4', 'f8'  # types of arrays
_SCALARS = bool, int, float, str, type(None)  # a key is one of them
# names of what is no object of a class; AGAIN is an object that was described before
ARRAY, BYTES, DICT, TUPLE, AGAIN = 'array', 'bytes', 'dict', 'tuple', 'again'
_LENGTH = Struct('<I')


def packed(value: Any) -> bytes:
    """
    Return a value as bytes; an object that is found again is the same one in `unpacked`, too.

    Raises
    ------
    InputError
        A value of another type.

    """
    parts: list[bytes] = []
    text = json.dumps(_described(value, parts, {})).encode()
    return b''.join((_LENGTH.pack(len(text)), text, *parts))


def unpacked(data: bytes) -> Any:
    """
    Return the value of `packed`.

    Raises
    ------
    InputError
        Not such bytes, or of another version of osc_ros.

    """
    try:
        return _Reader(data).value
    except Exception as error:  # of any kind: a class has changed, bytes are missing
        raise InputError('the state of the controller cannot be read, accepted are recordings of '
                         f'this version ({type(error).__name__}: {error})') from None


def _described(value: Any, parts: list[bytes], known: dict[int, int]) -> Any:
    """Return what JSON has in place of a value; numbers of arrays are added to `parts`."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is np.ndarray:
        parts.append(value.tobytes())
        return {ARRAY: [value.dtype.str[1:], *value.shape]}
    if kind is list:
        return [_described(one, parts, known) for one in value]
    if kind is tuple:
        return {TUPLE: [_described(one, parts, known) for one in value]}
    if kind is bytes:
        parts.append(value)
        return {BYTES: len(value)}
    if kind in _ARGUMENTS:
        if id(value) in known:
            return {AGAIN: known[id(value)]}
        found = {kind.__name__: [_described(getattr(value, name), parts, known)
                                 for name in _ARGUMENTS[kind]]}
        known[id(value)] = len(known)
        return found
    if isinstance(value, Mapping):
        return {DICT: [[key, _described(one, parts, known)] for key, one in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f'a {kind.__name__} in the state of a controller')


class _Reader:
    """
    Makes the value that bytes describe.

    Attributes
    ----------
    value
        This value.

    """

    def __init__(self, data: bytes) -> None:
        [length] = _LENGTH.unpack_from(data)
        self._data, self._at = memoryview(data), _LENGTH.size + length
        self._known: list[Any] = []
        text = self._data[_LENGTH.size:self._at].tobytes()
        self.value = self._made(json.loads(text))
        if self._at != len(data):
            raise InputError(f'{len(data) - self._at} bytes too many')

    def _made(self, found: Any) -> Any:
        if type(found) is list:
            return [self._made(one) for one in found]
        if type(found) is not dict:
            return found
        [(name, content)] = found.items()
        if name == TUPLE:
            return tuple([self._made(one) for one in content])
        if name == ARRAY:
            return self._array(*content)
        if name == AGAIN:
            return self._known[content]
        if name == BYTES:
            return self._taken(content).tobytes()
        if name == DICT:
            return {self._key(key): self._made(one) for key, one in content}
        kind, given = CLASSES[name], [self._made(one) for one in content]
        made = _MAKERS.get(kind, kind)(**dict(zip(_ARGUMENTS[kind], given, strict=True)))
        self._known.append(made)
        return made

    def _array(self, name: str, *shape: int) -> NDArray[Any]:
        if name not in NUMBERS or min(shape, default=0) < 0:
            raise InputError(f"an array of '{name}' of shape {shape}")
        kind = np.dtype(name)
        return np.frombuffer(self._taken(math.prod(shape) * kind.itemsize), kind
                             ).reshape(shape).copy()

    def _taken(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data) - self._at:
            raise InputError(f'{size} bytes are missing')
        self._at += size
        return self._data[self._at - size:self._at]

    def _key(self, key: Any) -> Any:
        if type(key) not in _SCALARS:
            raise InputError(f'a {type(key).__name__} as a key')
        return key
