# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Records: one table of slots gives the same attributes to Python and to compiled code.

A record is an array of words of 8 bytes: a header (digest of the table, sizes, number of words),
then the slots. Compiled code gets a pointer and the sizes: `d.time` reads or writes a scalar,
`d.q[i]` an item of an array. A slot that a kernel does not use costs it nothing. A slot may also
refer to another record, or to an array that is not part of the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
import ctypes
from functools import lru_cache, partial
import hashlib
from math import prod
from operator import index, methodcaller
import re
from typing import Any, NamedTuple

from llvmlite import ir
import numba
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_builtin, lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, NativeValue, register_model, type_callable, unbox
import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import address_of, integers_at, numbers_at

types: Any = numba.types

SIZES = 'n', 'k', 'm'  # numbers of joints, of tasks, of links with tasks
HEADER = 8  # words before the first slot; the first five have digest, sizes and length
LENGTH = 1 + len(SIZES)  # index of the word with the number of words
INTEGER, ADDRESS = ir.IntType(64), ir.IntType(64)
TABLES: dict[str, Table] = {}
ITSELF, FLOATS, INTEGERS = 'itself', 'floats', 'integers'  # kinds of slots that refer to something
# A number that depends on the sizes: the factor of each product of sizes, such as ('k', 'n').
Extent = Counter[tuple[str, ...]]


class Slot(NamedTuple):
    """
    One entry of a record.

    Attributes
    ----------
    name : str
        An attribute of the record; no other slot of the table has it.
    shape : tuple of int or str
        () for a scalar; otherwise lengths such as 3, 'n', '3n + 16'.
    unit : str
        Empty for numbers without a unit.
    meaning : str
    kind : type or Table
        float, int or bool; an item of an array of flags is 0 or 1. A `Table`, or ITSELF: the slot
        refers to a record. FLOATS, INTEGERS: to a contiguous array of one dimension elsewhere.
    row : (str, int), optional
        Name of another slot and number of a row: this slot is a view of that row.

    """

    name: str
    shape: tuple[int | str, ...]
    unit: str
    meaning: str
    kind: Any = float
    row: tuple[str, int] | None = None


def _extent(length: int | str) -> Extent:
    found: Extent = Counter()
    for term in str(length).split(' + '):
        [(factor, sizes)] = re.findall(rf'^(\d*)([{"".join(SIZES)}]*)$', term)
        found[tuple(sorted(sizes))] += int(factor or 1)
    return found


def _product(*factors: Extent) -> Extent:
    found: Extent = Counter({(): 1})
    for one in factors:
        after: Extent = Counter()
        for term, x in found.items():
            for other, y in one.items():
                after[tuple(sorted(term + other))] += x * y
        found = after
    return found


def _evaluated(extent: Extent, sizes: dict[str, int]) -> int:
    return sum(factor * prod(sizes[one] for one in term) for term, factor in extent.items())


class Table:
    """
    The slots of a kind of record; those of `room`, and references, are no state.

    Scalars come first in memory, then the arrays of constant size, then all others, then room.

    Attributes
    ----------
    slots : dict of str to Slot
    numba_type : RecordType
    at : callable
        Returns the record at an address, in Python and in kernels; it does not own its memory.

    """

    def __init__(self, name: str, *slots: Slot, room: tuple[Slot, ...] = ()) -> None:
        self.room, slots = {one.name for one in room}, slots + room
        self.slots = {one.name: one for one in slots}
        if len(self.slots) < len(slots):
            twice = [one for one, count in Counter(slot.name for slot in slots).items()
                     if count > 1]
            raise ValueError(f"slots of {name} with the same name: {', '.join(twice)}")
        if taken := sorted({*dir(Record)} & {*self.slots} - {*SIZES}):
            raise ValueError(f"slots of {name} with names of a record's own: {', '.join(taken)}")
        self.lengths = {one.name: [_extent(2)] if one.kind in (FLOATS, INTEGERS) else
                        [*map(_extent, one.shape)] for one in slots}
        self.starts: dict[str, Extent] = {}
        self.size: Extent = Counter({(): HEADER})
        self.end_of_state: Extent = Counter()
        for one in sorted(slots, key=self._place):
            if self._place(one)[0] == 3 and not self.end_of_state:
                self.end_of_state = Counter(self.size)
            if one.row is None:
                self.starts[one.name] = Counter(self.size)
                self.size.update(_product(*self.lengths[one.name]))
                continue
            of, i = one.row
            self.starts[one.name] = Counter(self.starts[of])
            self.starts[one.name].update(
                _product(Counter({(): i}), *self.lengths[one.name]) if i else {})
        self.end_of_state = self.end_of_state or self.size
        text = repr([(one.name, one.shape, getattr(one.kind, '__name__', one.kind), one.row)
                     for one in slots])
        self.digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], 'little')
        self.name = self.__name__ = f'{name}_{self.digest:014x}'
        TABLES[self.name] = self
        self.numba_type = RecordType(self.name)
        self.python_type = type(name, (Record,), {
            '__slots__': (), '_table': self, '_numba_type_': self.numba_type,
            **{one.name: self._attribute(one) for one in slots}})
        self.at = _record_at(self)

    def _place(self, slot: Slot) -> tuple[int, int]:
        terms = _product(*self.lengths[slot.name])
        is_state = slot.name not in self.room and isinstance(slot.kind, type)
        return (4 if slot.row else 3 if not is_state else 0 if not slot.shape else
                1 if set(terms) == {()} else 2, max(map(len, terms)))

    def of_kind(self, slot: Slot) -> Table | None:
        """The table of the record that a slot refers to; None if it refers to none."""
        found = self if slot.kind is ITSELF else slot.kind
        return found if isinstance(found, Table) else None

    def _reference(self, slot: Slot) -> property:
        """Attribute of a slot that refers to a record or an array; the record keeps the object."""
        name, table = slot.name, self.of_kind(slot)
        array_at = numbers_at if slot.kind is FLOATS else integers_at
        start = self.starts[name]
        first = start[()] if set(start) == {()} else None  # else it depends on the sizes

        def read(record: Any) -> Any:
            at = self.shape_of(name, record.sizes)[0] if first is None else first
            address = int(record.integers[at])
            found = record.kept.get(name)
            if found is not None and (not table or found.address == address):
                return found
            if table:  # a kernel has written it, or the record came from its address
                return table.at(address) if address else None
            return array_at(address, int(record.integers[at + 1]))

        def write(record: Any, value: Any) -> None:
            at = self.shape_of(name, record.sizes)[0] if first is None else first
            if table:
                if value._table is not table:
                    raise TypeError(f'{name} is a record {value._table.name}: give {table.name}')
                record.integers[at] = value.address
            else:
                item = np.float64 if slot.kind is FLOATS else np.int64
                if value.dtype != item or not value.flags.c_contiguous:
                    raise TypeError(f'{name} has items {value.dtype}: give contiguous {item}')
                record.integers[at:at + 2] = address_of(value), value.size
            record.kept[name] = value

        return property(read, write, doc=slot.meaning)

    def _attribute(self, slot: Slot) -> property:
        name, kind = slot.name, slot.kind
        if not isinstance(kind, type):
            return self._reference(slot)
        # no float is cut to an integer
        numbers: dict[type, Callable[[Any], Any]] = {float: float, int: index, bool: bool}
        number = numbers[kind]
        meaning = f'{slot.meaning} [{slot.unit}]' if slot.unit else slot.meaning
        if slot.shape:
            return property(methodcaller('array', name), doc=meaning)
        at = self.starts[name][()]

        def read(record: Any) -> Any:
            if kind is float:  # NumPy's number: a kernel that runs as Python divides by zero
                return record.words[at]
            return kind(record.integers[at])

        def write(record: Any, value: Any) -> None:
            (record.words if kind is float else record.integers)[at] = number(value)

        return property(read, write, doc=meaning)

    def new(self, **sizes: int) -> Any:
        """Return a record of zeros, with sizes such as n=7."""
        every = {one: sizes.get(one, 0) for one in SIZES}
        words = np.zeros(_evaluated(self.size, every))
        words.view(np.int64)[:LENGTH + 1] = self.digest, *every.values(), len(words)
        return self.python_type(words)

    def of(self, words: NDArray[np.float64]) -> Any:
        """Return the record in these words; ValueError if they are of another table."""
        head = words.view(np.int64)[:LENGTH + 1].tolist() if len(words) > LENGTH else []
        if not head or head[0] != self.digest or head[LENGTH] != len(words):
            raise ValueError(f'these {len(words)} words are not a record {self.name}')
        return self.python_type(words)

    def shape_of(self, name: str, sizes: dict[str, int]) -> tuple[int, tuple[int, ...]]:
        """Index of the first word of a slot, and its shape."""
        return _layout(self, *(sizes.get(one, 0) for one in SIZES))[1][name]

    def place_of(self, name: str, **sizes: int) -> tuple[int, int]:
        """Index of a slot's first word in `Record.slots`, and the number of its words."""
        start, shape = self.shape_of(name, sizes)
        return start - HEADER, prod(shape)


@lru_cache(256)
def _layout(table: Table, *sizes: int) -> tuple[int, dict[str, tuple[int, tuple[int, ...]]]]:
    """Index of the first word after the state; first word and shape of each slot."""
    at = dict(zip(SIZES, sizes))
    return _evaluated(table.end_of_state, at), {
        name: (_evaluated(start, at), tuple(_evaluated(one, at) for one in table.lengths[name]))
        for name, start in table.starts.items()}


def _size(record: Record, name: str) -> int:
    return record.sizes[name]


class Record:
    """
    A record in Python: scalars are numbers, arrays are views of the words.

    Attributes
    ----------
    words : (length,)
    integers : (length,) int
        The same memory as integers.
    slots : (…,) int
        The part without header and room: what a checkpoint stores.
    references : (…,) int
        The part after it: room, and what refers to other records and arrays.
    address : int
    sizes : dict
        The sizes by name.
    kept : dict
        Records and arrays that slots refer to, by name.

    """

    __slots__ = 'words', 'integers', 'slots', 'references', 'address', 'sizes', 'kept', '_arrays'
    _table: Table
    n, k, m = (property(partial(_size, name=name)) for name in SIZES)

    def __init__(self, words: NDArray[np.float64]) -> None:
        self.words, self.integers = words, words.view(np.int64)
        self.address: int = words.__array_interface__['data'][0]
        sizes = self.integers[1:LENGTH].tolist()
        self.sizes: dict[str, int] = dict(zip(SIZES, sizes))
        self.kept: dict[str, Any] = {}
        self._arrays: dict[str, Any] = {}
        end = _layout(self._table, *sizes)[0]
        self.slots, self.references = self.integers[HEADER:end], self.integers[end:]

    def __index__(self) -> int:
        return self.address

    def __dir__(self) -> list[str]:
        return [*SIZES, *self._table.slots]

    def array(self, name: str) -> Any:
        """View of a slot that is an array."""
        if (found := self._arrays.get(name)) is None:
            slot = self._table.slots[name]
            start, shape = self._table.shape_of(name, self.sizes)
            words = self.words if slot.kind is float else self.integers
            found = self._arrays[name] = words[start:start + prod(shape)].reshape(shape)
        return found

    def clear(self, names: Iterable[str] | None = None) -> None:
        """Set the slots with these names to zero, or all that a checkpoint stores."""
        if names is None:
            self.slots[:] = 0
            return
        for name in names:
            self.put(name, 0)

    def copy(self) -> Any:
        """Return a copy with memory of its own."""
        found = type(self)(self.words.copy())
        found.kept.update(self.kept)
        return found

    def take(self, other: Any, names: Iterable[str]) -> None:
        """Copy the slots with these names from another record of the table."""
        for name in names:
            self.put(name, getattr(other, name))

    def put(self, name: str, value: Any) -> None:
        """Write a slot, a scalar or all items of an array."""
        if self._table.slots[name].shape:
            self.array(name)[:] = value
        else:
            setattr(self, name, value)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the value of each slot."""
        for name in self._table.slots:
            yield name, getattr(self, name)


class RecordType(types.Type):  # type: ignore[misc]
    """Numba type of the records of a table; equal tables have equal types in all processes."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(name=table)


@register_model(RecordType)
class _Model(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, of: Any) -> None:
        super().__init__(manager, of, [('address', types.int64),
                                       *((one, types.int64) for one in SIZES)])


def _loaded(context: Any, builder: Any, of: RecordType, address: Any) -> Any:
    """Build the struct of the record at an address: its sizes are in its header."""
    found = cgutils.create_struct_proxy(of)(context, builder)
    found.address = address
    head = builder.inttoptr(address, INTEGER.as_pointer())
    for i, one in enumerate(SIZES):
        setattr(found, one, builder.load(builder.gep(head, [INTEGER(1 + i)], inbounds=True)))
    return found._getvalue()


def _record_at(table: Table) -> Callable[[int], Any]:
    def at(address: int) -> Any:
        start = int(address)  # a kernel that runs as Python has NumPy's integers
        count = (ctypes.c_int64 * HEADER).from_address(start)[LENGTH]
        return table.of(np.ctypeslib.as_array((ctypes.c_double * count).from_address(start)))

    type_callable(at)(lambda context: lambda address: table.numba_type)
    lower_builtin(at, types.Integer)(
        lambda context, builder, signature, given: _loaded(
            context, builder, table.numba_type,
            context.cast(builder, given[0], signature.args[0], types.int64)))
    return at


class _Code:
    """Builds machine code for the slots of one record."""

    def __init__(self, context: Any, builder: Any, of: RecordType, value: Any) -> None:
        self.context, self.builder, self.table = context, builder, TABLES[of.table]
        self.record = cgutils.create_struct_proxy(of)(context, builder, value=value)

    def number(self, extent: Extent) -> Any:
        """Value of an extent at run time."""
        total = INTEGER(extent[()])
        for term, factor in extent.items():
            if term:
                value = INTEGER(factor)
                for one in term:
                    value = self.builder.mul(value, getattr(self.record, one), flags=('nsw',))
                total = self.builder.add(total, value, flags=('nsw',))
        return total

    def pointer(self, name: str) -> Any:
        """Pointer to the first item of a slot."""
        item = (ir.DoubleType() if self.table.slots[name].kind is float else INTEGER).as_pointer()
        first = self.builder.inttoptr(self.record.address, item)
        return self.builder.gep(first, [self.number(self.table.starts[name])], inbounds=True)

    def array(self, name: str, of: Any) -> Any:
        """The struct of a contiguous array without owner, as a value."""
        start, count = self.pointer(name), self.number(_product(*self.table.lengths[name]))
        lengths = [self.number(one) for one in self.table.lengths[name]]
        if self.table.slots[name].kind in (FLOATS, INTEGERS):
            start, count = self.builder.load(start), self.builder.load(
                self.builder.gep(start, [INTEGER(1)], inbounds=True))
            item = ir.DoubleType() if of.dtype == types.float64 else INTEGER
            start, lengths = self.builder.inttoptr(start, item.as_pointer()), [count]
        strides: list[Any] = []
        step = INTEGER(8)
        for length in reversed(lengths):
            strides.insert(0, step)
            step = self.builder.mul(step, length, flags=('nsw',))
        model = self.context.data_model_manager[of]
        found = ir.Constant(model.get_value_type(), None)
        for field, value in (('nitems', count), ('itemsize', INTEGER(8)),
                             ('data', start)):
            found = self.builder.insert_value(found, value, model.get_field_position(field))
        for field, values in ('shape', lengths), ('strides', strides):
            for i, value in enumerate(values):
                found = self.builder.insert_value(
                    found, value, (model.get_field_position(field), i))
        return found


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = RecordType

    def generic_resolve(self, of: RecordType, name: str) -> Any:
        slot = TABLES[of.table].slots.get(name)
        if slot is None:
            return types.int64 if name in (*SIZES, 'address') else None
        if (table := TABLES[of.table].of_kind(slot)) is not None:
            return table.numba_type
        if not slot.shape and isinstance(slot.kind, type):
            return {float: types.float64, int: types.int64, bool: types.boolean}[slot.kind]
        return types.Array(types.float64 if slot.kind in (float, FLOATS) else types.int64,
                           max(len(slot.shape), 1), 'C')


@lower_getattr_generic(RecordType)
def _get(context: Any, builder: Any, of: RecordType, value: Any, name: str) -> Any:
    code = _Code(context, builder, of, value)
    slot = code.table.slots.get(name)
    if slot is None:  # a size, or the address
        return getattr(code.record, name)
    if (table := code.table.of_kind(slot)) is not None:
        return _loaded(context, builder, table.numba_type, builder.load(code.pointer(name)))
    if slot.shape or slot.kind in (FLOATS, INTEGERS):
        return code.array(name, context.typing_context.resolve_getattr(of, name))
    found = builder.load(code.pointer(name))
    return builder.icmp_signed('!=', found, INTEGER(0)) if slot.kind is bool else found


@lower_setattr_generic(RecordType)
def _set(context: Any, builder: Any, signature: Any, given: Any, name: str) -> None:
    of, kind = signature.args
    code = _Code(context, builder, of, given[0])
    slot = code.table.slots.get(name)
    if slot is None or slot.shape or slot.kind in (FLOATS, INTEGERS):
        raise TypeError(f'{name} is not a scalar of {of.table}')
    value = given[1]
    if (table := code.table.of_kind(slot)) is not None:
        if kind != table.numba_type:
            raise TypeError(f'{name} is a record {table.name}: not {kind}')
        value = cgutils.create_struct_proxy(kind)(context, builder, value=value).address
    elif slot.kind is bool:
        value = builder.zext(context.cast(builder, value, kind, types.boolean), INTEGER)
    else:
        value = context.cast(builder, value, kind,
                             types.float64 if slot.kind is float else types.int64)
    builder.store(value, code.pointer(name))


@unbox(RecordType)
def _unbox(of: RecordType, given: Any, c: Any) -> Any:
    """From Python: a record, or its address; TypeError if it is of another table."""
    builder, table = c.builder, TABLES[of.table]
    address = c.pyapi.long_as_longlong(given)  # calls `Record.__index__`
    failed = cgutils.alloca_once_value(builder, c.pyapi.err_occurred())
    found = cgutils.alloca_once(builder, c.context.get_value_type(of))
    with builder.if_then(cgutils.is_null(builder, builder.load(failed)), likely=True):
        digest = builder.load(builder.inttoptr(address, INTEGER.as_pointer()))
        is_ours = builder.icmp_signed('==', digest, INTEGER(table.digest))
        with builder.if_else(is_ours, likely=True) as (then, otherwise):
            with then:
                builder.store(_loaded(c.context, builder, of, address), found)
            with otherwise:
                c.pyapi.err_set_string('PyExc_TypeError', f'this is not a record {of.table}')
                builder.store(c.pyapi.err_occurred(), failed)
    return NativeValue(builder.load(found),
                       is_error=cgutils.is_not_null(builder, builder.load(failed)))
