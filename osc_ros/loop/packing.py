# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Serialization of values of the control law; reading the bytes runs no code of the sender.

The bytes are a text in JSON, which describes everything except the elements of arrays, followed by
these elements. Accepted are numbers, texts, sequences, dictionaries, arrays, and objects of
CLASSES, which are built by their constructors (a path from arrays of the right shapes), so
untrusted bytes can call only these. Consistency between several objects, such as the number of
joints, is checked by `Law.of_recipe` and `Engine.restored`.
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

from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.obstacles import Obstacle
from osc_ros.control.checkpoint import Checkpoint, LawRecipe
from osc_ros.control.compiled_law import Precomputed
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.contact import Contact
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.safety.supervision import Supervision, Watchdog
from osc_ros.control.setpoint.joining import Drift
from osc_ros.control.setpoint.pieces import Pieces
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.settings import Observation, Settings
from osc_ros.control.tasks.feedback import KINDS
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, TargetLimits, Task
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

CLASSES: dict[str, type] = {one.__name__: one for one in (
    Checkpoint, Clearance, Contact, Disturbance, Drift, Driver, ForceControl, FreeDrive, Friction,
    Gains, PoseGoal, Impedance, JointDrive, TwistGoal, *KINDS.values(), LawRecipe, Limits,
    LinkShape, Observation, Obstacle, Path, Pieces, Posture, Precomputed, Robot, Settings,
    SingularityDamping, Stiffness, Supervision, TargetLimits, Task, Watchdog)}
_ARGUMENTS: dict[type, tuple[str, ...]] = {  # constructor arguments
    **{one: getattr(one, '_fields', None) or tuple(
        field.name for field in fields(one) if field.init)
       for one in CLASSES.values() if one not in (Driver, Path, Pieces)},
    Driver: ('robot', 'compensates'), Pieces: ('times', 'coefficients'),
    Path: ('times', 'poses', 'twists', 'accelerations', 'points')}
_MAKERS: dict[type, Callable[..., Any]] = {
    Drift: lambda pose, twist, since: Drift(
        finite_array('pose', pose, (4, 4)), finite_array('twist', twist, (6,)), float(since))}
NUMBERS = '|b1', '|u1', '<i4', '<u4', '<i8', '<u8', '<f4', '<f8'  # types of arrays
# An object of the classes SHARED is described once; later occurrences are references by number.
# References are accepted only in the arguments _REFERRING: otherwise nested references would let
# a few bytes describe a value of exponential size, which takes hours to print.
SHARED = Driver, Path, Robot, Settings
_REFERRING = {(Driver, 'robot'), (Settings, 'driver'), (LawRecipe, 'setups'),
              *((Checkpoint, name) for name in ('law', 'guard', 'remembered'))}
_SCALARS = bool, int, float, str, type(None)  # also the types of keys
# names for values that are not of CLASSES; AGAIN is a reference to an object described before
ARRAY, BYTES, DICT, TUPLE, AGAIN = 'array', 'bytes', 'dict', 'tuple', 'again'
_LENGTH = Struct('<I')


def packed(value: Any) -> bytes:
    """Return a value as bytes; InputError if the type of a value is not accepted."""
    # an object of SHARED that occurs twice is one object after `unpacked`
    parts: list[bytes] = []
    text = json.dumps(_described(value, parts, {})).encode()
    return b''.join((_LENGTH.pack(len(text)), text, *parts))


def unpacked(data: bytes) -> Any:
    """Return the value from bytes of `packed`; InputError for other bytes, or another version."""
    try:
        return _Reader(data).value
    except Exception as error:  # of any kind: a class has changed, bytes are missing
        raise InputError('the state of the controller cannot be read, give recordings of '
                         f'this version ({type(error).__name__}: {error})') from None


def _described(value: Any, parts: list[bytes], known: dict[int, int] | None) -> Any:
    """Return the JSON value of a value; append the numbers of its arrays to `parts`."""
    # `known`: numbers of the SHARED objects described before, by identity; None: no references
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is np.ndarray and value.dtype.str in NUMBERS:
        parts.append(value.tobytes())
        return {ARRAY: [value.dtype.str, *value.shape]}
    if kind is list:
        return [_described(one, parts, known) for one in value]
    if kind is tuple:
        return {TUPLE: [_described(one, parts, known) for one in value]}
    if kind is bytes:
        parts.append(value)
        return {BYTES: len(value)}
    if kind in _ARGUMENTS:
        if known is not None and id(value) in known:
            return {AGAIN: known[id(value)]}
        found = {kind.__name__: [_described(
            getattr(value, name), parts, known if (kind, name) in _REFERRING else None)
            for name in _ARGUMENTS[kind]]}
        if known is not None and kind in SHARED:
            known[id(value)] = len(known)
        return found
    if isinstance(value, Mapping):
        return {DICT: [[_key(key), _described(one, parts, known)] for key, one in value.items()]}
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f'a {kind.__name__} in the state of a controller: give numbers, '
                     f"texts, sequences, arrays, and {', '.join(CLASSES)}")


def _key(key: Any) -> Any:
    if type(key) not in _SCALARS:
        raise InputError(f'a {type(key).__name__} as a key')
    return key


class _Reader:
    """Builds the attribute `value` from the bytes of `packed`."""

    def __init__(self, data: bytes) -> None:
        [length] = _LENGTH.unpack_from(data)
        self._data, self._at = memoryview(data), _LENGTH.size + length
        self._known: list[Any] = []
        text = self._data[_LENGTH.size:self._at].tobytes()
        self.value = self._value_of(json.loads(text), True)
        if self._at != len(data):
            raise InputError(f'{len(data) - self._at} bytes too many')

    def _value_of(self, found: Any, refers: bool) -> Any:
        """Return the value of a description; `refers`: whether references are allowed in it."""
        if type(found) is list:
            return [self._value_of(one, refers) for one in found]
        if type(found) is not dict:
            return found
        [(name, content)] = found.items()
        if name == TUPLE:
            return tuple([self._value_of(one, refers) for one in content])
        if name == ARRAY:
            return self._array(*content)
        if name == BYTES:
            return self._take_bytes(content).tobytes()
        if name == DICT:
            return {_key(key): self._value_of(one, refers) for key, one in content}
        if name == AGAIN and refers and content >= 0:
            return self._known[content]
        kind = CLASSES[name]
        given = {argument: self._value_of(one, refers and (kind, argument) in _REFERRING)
                 for argument, one in zip(_ARGUMENTS[kind], content, strict=True)}
        made = _MAKERS.get(kind, kind)(**given)
        if refers and kind in SHARED:
            self._known.append(made)
        return made

    def _array(self, name: str, *shape: int) -> NDArray[Any]:
        if name not in NUMBERS or min(shape, default=0) < 0:
            raise InputError(f"an array of '{name}' of shape {shape}")
        kind = np.dtype(name)
        return np.frombuffer(self._take_bytes(math.prod(shape) * kind.itemsize), kind
                             ).reshape(shape).copy()

    def _take_bytes(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data) - self._at:
            raise InputError(f'{size} bytes are missing')
        self._at += size
        return self._data[self._at - size:self._at]
