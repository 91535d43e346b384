# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Records: flat float64 arrays with named parts; kernels and Python use the same views.

Plan, state and result of a controller are records. A copy of the array is a copy of the record.
"""

from __future__ import annotations

from collections import namedtuple
import re
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, plain, view

Array = NDArray[np.float64]


class Slot(NamedTuple):
    """
    One entry of a record.

    Attributes
    ----------
    name : str
    shape : tuple of int or str
        'n' is the number of joints; 'n + 16' and '3n + 16' are accepted, too. A single number has
        the shape (1,): its view is `name[0]`.
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
    Slots in their order in memory: a record, or a part of a record.

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
        self.views: Any
        self.place((0, 0, 0))

    def place(self, start: tuple[int, ...]) -> tuple[int, ...]:
        """
        Place the slots in the array from an index on; return the index after them.

        An index is given by three numbers: the coefficients of 1, n and n² for n joints.

        """
        at, self._lines = list(start), {}
        for slot in self.slots:
            lengths = [_coefficients(length) for length in slot.shape]
            shape = ''.join(f'{_polynomial(one)}, ' for one in lengths)
            self._lines[slot.name] = f'view(numbers, {_polynomial(at)}, ({shape}))'
            size = [1]
            for one in lengths:
                size = np.convolve(size, one).tolist()
            for k, c in enumerate(size[:3]):
                at[k] += c
        self._end, self.views = tuple(at), self.only(*self._lines)
        return self._end

    def only(self, *names: str) -> Any:
        """
        Return a function like `views`, for the slots with these names only.

        Every view in a kernel takes compile time, even if it is not used.

        """
        text = (f'def views(numbers, n):\n    return Views('
                f'{", ".join(self._lines[name] for name in names)})')
        found: dict[str, Any] = {
            'view': view, 'Views': namedtuple(self.name, names), '__name__': __name__}
        exec(compile(text, f'<table {self.name}>', 'exec'), found)
        return inlined(found['views'])

    def size(self, n: int) -> int:
        """Index after the last slot, for n joints; for a single table, the length of its array."""
        return sum(c * n**k for k, c in enumerate(self._end))

    def zeros(self, n: int) -> Array:
        """Return the array of a record for n joints, filled with zeros."""
        return np.zeros(self.size(n))

    def of(self, numbers: Array, n: int) -> Any:
        """Return the views of a record for n joints, as `views` does in kernels."""
        return plain(self.views)(numbers, n)


class Record:
    """
    A record with several tables, one after the other, for the stages of a computation.

    A stage calls `views` of the tables that it reads or writes.

    """

    def __init__(self, name: str, *tables: Table) -> None:
        self.name, self.tables = name, tables
        at: tuple[int, ...] = (0, 0, 0)
        for table in tables:
            at = table.place(at)

    def zeros(self, n: int) -> Array:
        """Return the array of a record for n joints, filled with zeros."""
        return self.tables[-1].zeros(n)

    def of(self, numbers: Array, n: int) -> SimpleNamespace:
        """Return the views of all tables for n joints, by the names of tables and slots."""
        return SimpleNamespace(**{table.name: table.of(numbers, n) for table in self.tables})


class Recorded:
    """
    Base class of objects whose memory is records, one for each of the class's TABLES.

    `records` are the arrays that the kernels of the class take, by default new ones, and `views`
    the named tuples of their slots. Records that are passed must be zeros. `n` is the number of
    joints.

    """

    TABLES: ClassVar[tuple[Table, ...]]

    def __init__(self, n: int, records: tuple[Array, ...] | None = None) -> None:
        self._n = n
        self.records = records or tuple(table.zeros(n) for table in self.TABLES)
        self._connect()

    @property
    def record(self) -> Array:
        """The record of the first table."""
        return self.records[0]

    def _connect(self) -> None:
        self.views: tuple[Any, ...] = tuple(
            table.of(numbers, self._n) for table, numbers in zip(self.TABLES, self.records))


def _coefficients(length: int | str) -> list[int]:
    """Return the coefficients of 1 and n of an entry of `Slot.shape`."""
    if isinstance(length, int):
        return [length]
    [(factor, more)] = re.findall(r'^(\d*)n(?: \+ (\d+))?$', length)
    return [int(more or 0), int(factor or 1)]


def _polynomial(coefficients: list[int]) -> str:
    """Return the text of a polynomial in n."""
    return ' + '.join(f'{c}{" * n" * k}' for k, c in enumerate(coefficients) if c) or '0'
