# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The state of an engine as bytes, and the engine back from them, equal to the last bit.

The control loop writes a checkpoint by pickle, which is fast, with one rule: an array that is a
view stays a view of the same memory, because compiled kernels write to buffers that several
objects share. A checkpoint is not unpickled: `_Reader` knows only the opcodes that `_Writer`
uses, makes objects of the package's own classes without calling them, and calls no function but
those in `_MAKERS`. Bytes that somebody else has sent cannot run code.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
import io
import math
import pickle
import pickletools
from time import perf_counter
from types import MemberDescriptorType, MethodType
from typing import Any, NamedTuple

import numpy as np

from osc_ros.control.settings import Settings
from osc_ros.control.supervision import Supervision
from osc_ros.dynamics.addresses import address_of
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

# A checkpoint may have objects of all classes that are defined below CLASSES; not of parts that
# start processes, or compile for lanes and GPUs.
CLASSES = 'osc_ros.control.', 'osc_ros.dynamics.', 'osc_ros.model.robot.'
EXCLUDED = 'osc_ros.control.checkpoint.', *(
    f'osc_ros.dynamics.{name}.' for name in ('teams', 'papers', 'cuda', 'lanes'))
METHODS = '_on_change',  # accepted if bound to such an object
NUMBERS = 'b1', 'u1', 'i4', 'u4', 'i8', 'u8', 'f4', 'f8'  # types of arrays
SCALARS = bool, int, float, str, type(None)  # accepted in keys, whose hashes then take no time
EXPANSION, LEAST = 16, 10 ** 6  # size of all copies: at most EXPANSION times the data + LEAST
CONSTANT = Robot, Settings, Supervision  # types whose objects never change after they were made
_FROM_BUFFER = np.zeros(1).__reduce_ex__(5)[0]  # NumPy's function for an array from its bytes

Filled = Callable[[np.ndarray], np.ndarray]  # from an array to what is written in its place


class Constants:
    """
    The bytes of the objects of CONSTANT in the last checkpoint, for use in the next one.

    To make them again would take half of the time of a checkpoint. They never become outdated: a
    changed robot is another object, and so are changed settings.

    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[object, bytes]] = {}
        self._now: dict[int, tuple[object, bytes]] = {}

    def begin(self) -> None:
        """Begin a checkpoint. Bytes that the last checkpoint did not use are dropped."""
        self._last, self._now = self._now, {}

    def dumped(self, value: object) -> bytes:
        """Return the bytes of an object of CONSTANT."""
        # `_last` holds the object, so no other object can have the same id
        found = self._last.get(id(value)) or (value, dumped(value))
        self._now[id(value)] = found
        return found[1]


class _Writer(pickle.Pickler):
    """Pickles with the rules of this module; the other parameters are those of `dumped`."""

    def __init__(self, buffer: io.BytesIO, filled: Filled | None, constants: Constants | None
                 ) -> None:
        super().__init__(buffer, protocol=5)
        self._filled, self._constants = filled, constants
        self._starts: dict[int, int] = {}  # addresses of the arrays that have views

    def reducer_override(self, obj: Any) -> Any:
        """Return how to make an object again; NotImplemented for the usual way."""
        kind = type(obj)
        if kind is np.ndarray:
            return self._array(obj)
        if kind in CONSTANT and self._constants is not None:
            return constant, (self._constants.dumped(obj),)
        if kind is MethodType:
            return bound_method, (obj.__self__, obj.__func__.__name__)
        return NotImplemented

    def _array(self, array: Any) -> Any:
        base = array.base
        if isinstance(base, np.ndarray) and array.dtype == base.dtype:
            start = self._starts.get(id(base))
            if start is None:
                start = self._starts[id(base)] = address_of(base)
            return array_view, (base, address_of(array) - start, array.shape, array.strides,
                                array.flags.writeable)
        found: Any = array if self._filled is None else self._filled(array)
        if found.flags.c_contiguous:  # as NumPy does it, in a third of the time
            return _FROM_BUFFER, (pickle.PickleBuffer(found), found.dtype, found.shape, 'C')
        return found.__reduce_ex__(5)


class _Maker(NamedTuple):
    """A name in `_MAKERS`; the function behind it is not the one that the bytes name."""

    name: str


class _Reader:
    """Reads what `_Writer` writes; refuses any other opcode."""

    def __init__(self, data: bytes, least: int = LEAST) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: list[Any] = []
        self._left = EXPANSION * len(data) + least

    def read(self) -> Any:
        """Return the value that the bytes describe."""
        for opcode, argument, _ in pickletools.genops(self._data):
            if opcode.name in _LITERALS:
                self._stack.append(argument)
            elif opcode.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[opcode.name]())
            elif opcode.name in _STEPS:
                _STEPS[opcode.name](self, argument)
            elif opcode.name == 'STOP':
                [value] = self._stack
                return value
            elif opcode.name not in ('PROTO', 'FRAME'):
                raise InputError(f'opcode {opcode.name}')
        raise InputError('no end')

    def spend(self, size: int) -> None:
        """Count bytes that are copied; raise if the data describes too much."""
        self._left -= size
        if self._left < 0:
            raise InputError('more is described than the bytes have')

    def _mark(self, argument: Any) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _items(self) -> list[Any]:
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _last(self, count: int) -> list[Any]:
        if len(self._stack) < count:
            raise InputError('an empty stack')
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def _memoize(self, argument: Any) -> None:
        self._memo.append(self._stack[-1])

    def _get(self, argument: int) -> None:
        self._stack.append(self._memo[argument])

    def _tuple(self, argument: Any) -> None:
        items = tuple(self._items())
        self._stack.append(items)

    def _extend(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise InputError(f'items for a {type(self._stack[-1]).__name__}')
        self._stack[-1].extend(items)

    def _update(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not dict:
            raise InputError(f'keys for a {type(self._stack[-1]).__name__}')
        self._stack[-1].update(zip(map(_key, items[::2]), items[1::2]))

    def _global(self, argument: Any) -> None:
        module, name = self._last(2)
        self._stack.append(_global(module, name))

    def _reduce(self, argument: Any) -> None:
        maker, given = self._last(2)
        if type(maker) is not _Maker or type(given) is not tuple:
            raise InputError(f'a call of {maker!r}')
        self._stack.append(_MAKERS[maker.name](self, *given))

    def _new(self, argument: Any) -> None:
        kind, given = self._last(2)
        if not _is_own(kind) or type(given) is not tuple:
            raise InputError(f'an object of {kind!r}')
        if issubclass(kind, tuple) and len(given) == len(kind._fields):
            self._stack.append(tuple.__new__(kind, given))
        elif not given:
            self._stack.append(object.__new__(kind))
        else:
            raise InputError(f'{kind.__name__} with {len(given)} values')

    def _build(self, argument: Any) -> None:
        [state] = self._last(1)
        made = self._stack[-1]
        if isinstance(made, np.dtype):
            return  # a type of numbers has no state besides its name
        if not _is_own(type(made)):
            raise InputError(f'a state for a {type(made).__name__}')
        attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
        for values in (attributes, slots):
            if values is not None and (type(values) is not dict
                                       or any(type(name) is not str for name in values)):
                raise InputError(f'a {type(values).__name__} as state')
        if hasattr(made, '__setstate__'):
            made.__setstate__(attributes or {})
        elif attributes is not None:
            made.__dict__.update(attributes)
        for name, value in (slots or {}).items():
            member = vars(type(made)).get(name)
            if type(member) is not MemberDescriptorType:
                raise InputError(f"{type(made).__name__} with '{name}'")
            member.__set__(made, value)


_LITERALS = {'BININT', 'BININT1', 'BININT2', 'LONG1', 'BINFLOAT', 'SHORT_BINUNICODE',
             'BINUNICODE', 'SHORT_BINBYTES', 'BINBYTES', 'BYTEARRAY8'}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    'NONE': lambda: None, 'NEWTRUE': lambda: True, 'NEWFALSE': lambda: False,
    'EMPTY_TUPLE': tuple, 'EMPTY_LIST': list, 'EMPTY_DICT': dict}
_STEPS: dict[str, Callable[[_Reader, Any], None]] = {
    'MARK': _Reader._mark, 'MEMOIZE': _Reader._memoize, 'BINGET': _Reader._get,
    'LONG_BINGET': _Reader._get, 'TUPLE': _Reader._tuple,
    **{f'TUPLE{k}': lambda self, _, k=k: self._stack.append(  # type: ignore[misc]
        tuple(self._last(k))) for k in (1, 2, 3)},
    'APPEND': lambda self, _: self._extend(self._last(1)),
    'APPENDS': lambda self, _: self._extend(self._items()),
    'SETITEM': lambda self, _: self._update(self._last(2)),
    'SETITEMS': lambda self, _: self._update(self._items()),
    'STACK_GLOBAL': _Reader._global, 'REDUCE': _Reader._reduce, 'NEWOBJ': _Reader._new,
    'BUILD': _Reader._build}


def dumped(state: object, filled: Filled | None = None, constants: Constants | None = None
           ) -> bytes:
    """
    Return objects of the control law as bytes.

    `filled` returns what is written in place of an array, see `osc_ros.control.places`;
    `constants` are those of the last call.

    """
    buffer = io.BytesIO()
    if constants is not None:
        constants.begin()
    _Writer(buffer, filled, constants).dump(state)
    return buffer.getvalue()


def loaded(data: bytes) -> Any:
    """
    Return the objects of `dumped`.

    Raises
    ------
    InputError
        Not such bytes, or of another version of osc_ros.

    """
    try:
        return _Reader(data).read()
    except Exception as error:  # of any kind: a class has changed, bytes are missing
        raise InputError('the state of the controller cannot be read, accepted are recordings of '
                         f'this version ({type(error).__name__}: {error})') from None


# names


def _is_inside(module: str) -> bool:
    return f'{module}.'.startswith(CLASSES) and not f'{module}.'.startswith(EXCLUDED)


def _is_own(value: Any) -> bool:
    """Return whether a value is a class of which a checkpoint may have objects."""
    return (isinstance(value, type) and _is_inside(value.__module__)
            and not issubclass(value, BaseException))


def _global(module: Any, name: Any) -> Any:
    """Return a class by its name, or what stands for a function of `_MAKERS`."""
    if type(module) is str and type(name) is str:
        if f'{module}.{name}' in _MAKERS:
            return _Maker(f'{module}.{name}')
        if (module, name) == ('time', 'perf_counter'):
            return perf_counter
        found = getattr(import_module(module), name, None) if _is_inside(module) else None
        if _is_own(found) and found.__module__ == module:  # and not one that it has imported
            return found
    raise InputError(f"'{module}.{name}', accepted are classes of the control law")


def _key(value: Any) -> Any:
    for one in value if type(value) is tuple else (value,):
        if type(one) not in SCALARS:
            raise InputError(f'a {type(one).__name__} in a key')
    return value


# what is stored as the call of a function: how it is stored, and what a reader makes


def array_view(reader: _Reader, base: Any, offset: int, shape: tuple[int, ...],
               strides: tuple[int, ...], is_writeable: bool) -> Any:
    """Return a view of the memory of an array."""
    if math.prod(shape) > base.size or is_writeable and not base.flags.writeable:
        raise InputError(f'a view of {shape} of {base.size} numbers')
    memory = base if base.flags.c_contiguous else base.T
    found = np.ndarray(shape, base.dtype, memory, offset, strides)
    found.flags.writeable = is_writeable
    return found


def constant(reader: _Reader, data: bytes) -> Any:
    """Return a robot, settings or supervision from its bytes."""
    reader.spend(EXPANSION * len(data))
    found = _Reader(data, 0).read()
    if type(found) not in CONSTANT:
        raise InputError(f'a {type(found).__name__} as a constant')
    return found


def bound_method(reader: _Reader, owner: Any, name: str) -> Any:
    """Return a method of an object of the control law."""
    if not _is_own(type(owner)) or name not in METHODS:
        raise InputError(f"method '{name}' of a {type(owner).__name__}")
    return MethodType(getattr(type(owner), name), owner)


def _numbers(reader: _Reader, name: str, *flags: bool) -> Any:
    if name not in NUMBERS:
        raise InputError(f"an array of '{name}'")
    return np.dtype(name)


def _array(reader: _Reader, data: bytes | bytearray, dtype: Any, shape: tuple[int, ...],
           order: str, axes: tuple[int, ...] | None = None) -> Any:
    if math.prod(shape) * dtype.itemsize != len(data):
        raise InputError(f'{len(data)} bytes for an array of {shape}')
    array = np.ndarray(shape, dtype, data, order='F' if order == 'F' else 'C')
    return array if axes is None else array.transpose(axes)


def _number(reader: _Reader, dtype: Any, data: bytes) -> Any:
    return np.frombuffer(data, dtype, 1)[0]


def _own(module: str, name: str) -> Callable[..., Any]:
    """Return a maker that calls a class or function of the package."""
    def made(reader: _Reader, *given: Any) -> Any:
        return getattr(import_module(module), name)(*given)
    return made


_MAKERS: dict[str, Callable[..., Any]] = {
    **{f'{__name__}.{one.__name__}': one for one in (array_view, constant, bound_method)},
    **{f'{module}.{name}': _own(module, name) for module, name in (
        ('osc_ros.control.engine', '_bare_engine'), ('osc_ros.control.journal', 'ReplayClock'),
        ('osc_ros.model.robot', 'Robot'))},
    **{f'numpy.{core}.numeric._frombuffer': _array for core in ('core', '_core')},
    **{f'numpy.{core}.multiarray.scalar': _number for core in ('core', '_core')},
    'numpy.dtype': _numbers}
