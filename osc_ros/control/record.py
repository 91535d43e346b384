# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Flat arrays of numbers with names: a table gives kernels and Python the same views.

Plan, state and result of a controller are records. A copy of the array is a copy of the record.
"""

from __future__ import annotations

from collections import namedtuple
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import inlined, plain, view
from osc_ros.errors import InputError

Array = NDArray[np.float64]


class Slot(NamedTuple):
    """
    One entry of a record.

    Attributes
    ----------
    name : str
    shape : tuple of int or str
        'n' is the number of joints. A single number has the shape (1,): its view is `name[0]`.
    unit : str
        Empty for numbers without a unit.
    meaning : str

    """

    name: str
    shape: tuple[int | str, ...]
    unit: str
    meaning: str


class Table:
    """
    The slots of a record, in their order in memory.

    Attributes
    ----------
    name : str
    slots : tuple of Slot
    views : callable
        Kernels call it with the array and the number of joints; it returns the views of all slots
        as a named tuple. Offsets depend on the number of joints at run time.

    """

    def __init__(self, name: str, *slots: Slot) -> None:
        self.name, self.slots = name, slots
        names = [slot.name for slot in slots]
        lines, start = [], '0'
        for slot in slots:
            shape = ''.join(f'{length}, ' for length in slot.shape)
            lines.append(f'    {slot.name} = view(numbers, {start}, ({shape}))')
            start = f'({start} + {" * ".join(map(str, slot.shape))})'
        text = '\n'.join(('def views(numbers, n):', *lines,
                          f'    return Views({", ".join(names)})'))
        found: dict[str, Any] = {
            'view': view, 'Views': namedtuple(name, names), '__name__': __name__}
        exec(compile(text, f'<table {name}>', 'exec'), found)
        self.views: Any = inlined(found['views'])

    def size(self, n: int) -> int:
        """Length of the array for n joints."""
        return sum(math.prod(n if length == 'n' else int(length) for length in slot.shape)
                   for slot in self.slots)

    def zeros(self, n: int) -> Array:
        """Return the array of a record for n joints."""
        return np.zeros(self.size(n))

    def of(self, numbers: Array, n: int) -> Any:
        """Return the views of a record for n joints, as `views` does in kernels."""
        return plain(self.views)(numbers, n)

    def page(self) -> str:
        """Return the table as Markdown."""
        rows = ('| {} | {} | {} | {} |'.format(
            slot.name, ' × '.join(map(str, slot.shape)), slot.unit or '–', slot.meaning)
            for slot in self.slots)
        return '\n'.join(('| slot | shape | unit | meaning |', '| - | - | - | - |', *rows))


class Recorded:
    """
    An object whose memory is records, one for each of its tables.

    Attributes
    ----------
    records : tuple of arrays
        What the kernels of the class take.
    views : tuple of named tuples
        Their slots.
    CONNECTED : tuple of str
        Attributes that `_connect` sets: they are not in a checkpoint.

    Parameters
    ----------
    n : int
        Number of joints.

    """

    TABLES: ClassVar[tuple[Table, ...]]
    CONNECTED: ClassVar[tuple[str, ...]] = ('views',)

    def __init__(self, n: int) -> None:
        self._n, self.records = n, tuple(table.zeros(n) for table in self.TABLES)
        self._connect()

    def _connect(self) -> None:
        self.views: tuple[Any, ...] = tuple(
            table.of(numbers, self._n) for table, numbers in zip(self.TABLES, self.records))

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes but those that are connected."""
        return {name: value for name, value in self.__dict__.items()
                if name not in self.CONNECTED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state; InputError if a record has another size than its table says."""
        self.__dict__.update(state)
        for table, numbers in zip(self.TABLES, self.records, strict=True):
            size = table.size(self._n)
            if numbers.dtype != float or numbers.shape != (size,):
                raise InputError(f'{table.name}: {numbers.dtype} of shape {numbers.shape}, '
                                 f'accepted are {size} numbers')
        self._connect()
