# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""
The state of an engine as bytes, and the engine back from them, equal to the last bit.

A checkpoint is a pickle with three rules of its own. An array that is a view stays a view of the
same memory, because compiled kernels write to buffers that several objects share. A kernel is
stored by its name. And reading creates only objects of the control law: a file that somebody else
sent cannot run other code.
"""

from __future__ import annotations

from collections import deque
import io
import pickle
from sys import modules
from types import MappingProxyType, MethodType
from typing import Any

import numpy as np

from osc_ros.dynamics.compiled import KERNELS
from osc_ros.errors import InputError

LONG = 16  # a deque with more items is stored column by column, which is faster
PACKAGES = 'osc_ros.control.', 'osc_ros.dynamics.', 'osc_ros.model.'
SPAWNING = 'osc_ros.dynamics.teams.', 'osc_ros.dynamics.papers.'  # never part of a checkpoint
OTHERS = {
    ('builtins', 'set'), ('builtins', 'frozenset'), ('builtins', 'bytearray'),
    ('builtins', 'slice'), ('builtins', 'range'), ('builtins', 'complex'),
    ('collections', 'deque'), ('collections', 'Counter'), ('collections', 'OrderedDict'),
    ('collections', 'defaultdict'), ('copyreg', '_reconstructor'), ('builtins', 'object'),
    ('types', 'MappingProxyType'), ('time', 'perf_counter'),
    *((module, name) for module in ('numpy', 'numpy.core.multiarray', 'numpy._core.multiarray',
                                    'numpy.core.numeric', 'numpy._core.numeric')
      for name in ('ndarray', 'dtype', '_reconstruct', 'scalar', '_frombuffer'))}

MAKERS = {  # functions that make objects
    *(('osc_ros.control.checkpoint', name)
      for name in ('deque_of', 'array_view', 'bound_method', 'named_kernel')),
    ('osc_ros.control.engine', '_bare_engine'), ('osc_ros.control.engine', '_ignore')}


class _Writer(pickle.Pickler):
    """Pickles with the rules of this module."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to make an object again; NotImplemented for the usual way."""
        kind = type(obj)
        if kind is np.ndarray:
            return _array_reduction(obj)
        if kind is deque and len(obj) > LONG:
            return _columns(obj)
        if kind is MethodType:
            return bound_method, (obj.__self__, obj.__func__.__name__)
        if KERNELS and kind is type(KERNELS[0]):
            return named_kernel, (obj.py_func.__module__, obj.py_func.__qualname__)
        if kind is MappingProxyType:
            return MappingProxyType, (dict(obj),)
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Reads such a pickle."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of the control law, or one of OTHERS."""
        own = module.startswith(PACKAGES) and not module.startswith(SPAWNING)
        if (module, name) in OTHERS or own and '.' not in name:
            found = super().find_class(module, name)
            if not own or isinstance(found, type) or (module, name) in MAKERS:
                return found
        raise InputError(f"a checkpoint with '{module}.{name}' is not read: accepted are classes "
                         'of the control law')


def dumped(state: object) -> bytes:
    """Return objects of the control law as bytes."""
    buffer = io.BytesIO()
    _Writer(buffer, protocol=5).dump(state)
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
        return _Reader(io.BytesIO(data)).load()
    except InputError:
        raise
    except Exception as error:  # of any kind: a class has changed, bytes are missing
        raise InputError('the state of the controller cannot be read, accepted are recordings of '
                         f'this version ({type(error).__name__}: {error})') from None


def _array_reduction(array: Any) -> Any:
    base = array.base
    if not isinstance(base, np.ndarray) or array.dtype != base.dtype:
        return NotImplemented
    offset = array.__array_interface__['data'][0] - base.__array_interface__['data'][0]
    return array_view, (base, offset, array.shape, array.strides, array.flags.writeable)


def _columns(items: deque[Any]) -> Any:
    """Return the reduction of a deque of arrays, or of tuples of numbers and arrays."""
    first = items[0]
    rows = items if isinstance(first, tuple) else [(one,) for one in items]
    columns: list[Any] = []
    for column in zip(*rows):
        if not all(type(one) is np.ndarray and one.dtype == float and one.ndim == 1
                   and len(one) == len(column[0]) for one in column):
            columns.append(list(column))
        else:
            columns.append((len(column[0]), b''.join([one.tobytes() for one in column])))
    return deque_of, (columns, isinstance(first, tuple), items.maxlen)


def deque_of(columns: list[Any], has_tuples: bool, longest: int | None) -> deque[Any]:
    """Return the deque whose columns these are."""
    parts = []
    for column in columns:
        if isinstance(column, tuple):
            size, data = column
            table = np.frombuffer(bytearray(data)).reshape(-1, size)
            parts.append([row.copy() for row in table])
        else:
            parts.append(column)
    return deque(zip(*parts) if has_tuples else parts[0], longest)


def array_view(base: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...],
               is_writeable: bool) -> Any:
    """Return a view of the memory of an array."""
    memory = base if base.flags.c_contiguous else base.T
    found = np.ndarray(shape, base.dtype, memory, offset, strides)
    found.flags.writeable = is_writeable
    return found


def bound_method(owner: Any, name: str) -> Any:
    """Return a method of an object of the control law."""
    if not type(owner).__module__.startswith(PACKAGES):
        raise InputError(f"a checkpoint with a method of '{type(owner).__module__}' is not read")
    return MethodType(getattr(type(owner), name), owner)


def named_kernel(module: str, name: str) -> Any:
    """Return a kernel of the package."""
    if not module.startswith(PACKAGES) or '.' in name:
        raise InputError(f"a checkpoint with '{module}.{name}' is not read: accepted are kernels")
    __import__(module)
    return getattr(modules[module], name)
