# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Arrays of lanes as views of float64 arrays, and the operations of `either` on lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array, populate_array
import numpy as np
from numpy.typing import NDArray

from osc_ros.compile import either
from osc_ros.compile.either import ARRAYS, INLINED
from osc_ros.compile.lane_types import as_lanes, common_lanes, Lanes, lanes, Mask, processor_width

WIDTH = processor_width()
_ALIGNMENT = 64  # bytes of a cache line, and of eight lanes


def zeros(size: int, width: int = WIDTH) -> NDArray[np.float64]:
    """Zeros (size * width,) in aligned memory, for `array_of_lanes`."""
    memory = np.zeros(size * width + _ALIGNMENT // 8)
    start = -memory.ctypes.data % _ALIGNMENT // 8
    return memory[start:start + size * width]


def none_or_lanes(rows: Any, values: Any) -> Any:
    """None if `rows` is None, else `values`; decided at compile time."""
    return None if rows is None else values


@overload(none_or_lanes, jit_options=ARRAYS, strict=False)
def _compiled_none_or_lanes(rows: Any, values: Any) -> Any:
    if isinstance(rows, types.NoneType):
        return lambda rows, values: None
    return lambda rows, values: values


def own_or_lanes(rows: Any, own: Any, values: Any) -> Any:
    """`own` if `rows` is None, else `values`; decided at compile time."""
    return own if rows is None else values


@overload(own_or_lanes, jit_options=ARRAYS, strict=False)
def _compiled_own_or_lanes(rows: Any, own: Any, values: Any) -> Any:
    if isinstance(rows, types.NoneType):
        return lambda rows, own, values: own
    return lambda rows, own, values: values


@intrinsic(prefer_literal=True)
def array_of_lanes(typing: Any, numbers: Any, width: Any) -> Any:
    """In a kernel, view contiguous float64 numbers (size * width,) as an array of lanes."""
    if not isinstance(width, types.IntegerLiteral):
        return None  # Numba then tries again with a literal
    # the memory of a caller may be unaligned
    found = types.Array(lanes(width.literal_value), 1, 'C', aligned=False)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = make_array(numbers)(context, builder, arguments[0])
        item = context.get_data_type(found.dtype)
        shape = cgutils.unpack_tuple(builder, given.shape)
        size = context.get_constant(types.intp, context.get_abi_sizeof(item))
        count = builder.sdiv(shape[0], ir.Constant(shape[0].type, width.literal_value))
        return _view(context, builder, found, builder.bitcast(given.data, item.as_pointer()),
                     [count], [size])

    return found(numbers, width), build


def _view(context: Any, builder: Any, found: Any, data: Any, shape: Any, strides: Any) -> Any:
    """Build an array in the memory of another one, without a reference to it (see `view`)."""
    result = make_array(found)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(found.dtype))
    populate_array(result, data=data, shape=shape, strides=strides,
                   itemsize=context.get_constant(types.intp, size), meminfo=None)
    return result._getvalue()


@intrinsic
def _lane_array(typing: Any, array: Any, lane: Any) -> Any:
    found = types.Array(types.float64, array.ndim, 'A', aligned=False)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = make_array(array)(context, builder, arguments[0])
        numbers = builder.bitcast(given.data, ir.DoubleType().as_pointer())
        return _view(context, builder, found, builder.gep(numbers, [arguments[1]]),
                     cgutils.unpack_tuple(builder, given.shape),
                     cgutils.unpack_tuple(builder, given.strides))

    return found(array, types.intp), build


@intrinsic
def _lane_number(typing: Any, numbers: Any, lane: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(*arguments)

    return types.float64(numbers, types.intp), build


@intrinsic
def _with_number(typing: Any, numbers: Any, lane: Any, number: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.insert_element(arguments[0], arguments[2], arguments[1])

    return numbers(numbers, types.intp, types.float64), build


@intrinsic
def _any_lane(typing: Any, mask: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = ir.IntType(mask.width)
        return builder.icmp_unsigned('!=', builder.bitcast(arguments[0], bits),
                                     ir.Constant(bits, 0))

    return types.boolean(mask), build


@intrinsic
def _select(typing: Any, mask: Any, one: Any, other: Any) -> Any:
    of = common_lanes(Lanes(mask.width), one, other)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(arguments[0], *(
            as_lanes(context, builder, of, given, value)
            for given, value in zip((one, other), arguments[1:])))

    return of(mask, one, other), build


@overload(either.select, jit_options=INLINED, strict=False)
def _select_lanes(condition: Any, one: Any, other: Any) -> Any:
    if isinstance(condition, Mask):
        return lambda condition, one, other: _select(condition, one, other)
    return None


@overload(either.lane_count, jit_options=INLINED, strict=False)
def _lane_count_of_lanes(values: Any) -> Any:
    of = getattr(values, 'dtype', values)
    if isinstance(of, Lanes):
        width = of.width
        return lambda values: width
    return None


@overload(either.any_lane, jit_options=INLINED, strict=False)
def _any_lane_of_lanes(condition: Any) -> Any:
    if isinstance(condition, Mask):
        return lambda condition: _any_lane(condition)
    return None


@overload(either.with_number, jit_options=INLINED, strict=False)
def _with_number_of_lanes(numbers: Any, lane: Any, number: Any) -> Any:
    if isinstance(numbers, Lanes):
        return lambda numbers, lane, number: _with_number(numbers, lane, number)
    return None


@overload(either.lane_number, jit_options=INLINED, strict=False)
def _lane_number_of_lanes(numbers: Any, lane: Any) -> Any:
    if isinstance(numbers, Lanes):
        return lambda numbers, lane: _lane_number(numbers, lane)
    return None


@overload(either.lane_array, jit_options=ARRAYS, strict=False)
def _lane_array_of_lanes(array: Any, lane: Any) -> Any:
    if isinstance(array.dtype, Lanes):
        return lambda array, lane: _lane_array(array, lane)
    return None
