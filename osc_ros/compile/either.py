# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Operations on numbers or SIMD lanes, so that a kernel has one source for both.

Lanes (`lane_types`) are several numbers, one of each of several states, that the processor
computes at once. A kernel is compiled for lanes if its arrays are arrays of lanes. It may branch
on values that all lanes have in common, such as the type of a joint. Where it would branch on the
numbers of a state, it uses `select`, or calls its scalar part for one lane after the other:

    for lane in range(lane_count(A)):
        if not lane_number(ratio, lane) > LEAST:
            scalar_part(lane_array(A, lane))
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numba.np import arrayobj
from numpy.typing import NDArray

INLINED: dict[str, Any] = {'forceinline': True, 'error_model': 'numpy', 'fastmath': {'contract'}}
# For operations that return an array, see `osc_ros.compile.compiled.viewing`.
ARRAYS: dict[str, Any] = {**INLINED, '_nrt': True}


def put(row: NDArray[Any], k: int, numbers: tuple[Any, ...]) -> None:
    """Write numbers into row[k:]."""
    for j in range(len(numbers)):
        row[k + j] = numbers[j]


def select(condition: Any, one: Any, other: Any) -> Any:
    """`one` where the condition is true, else `other`; both are evaluated."""
    return one if condition else other


def any_lane(condition: Any) -> bool:
    """Whether a condition is true in at least one lane."""
    return bool(condition)


def lane_count(values: Any) -> int:
    """Number of lanes of a value, or of an entry of an array: 1 for a number."""
    return 1


def lane_number(numbers: Any, lane: int) -> Any:
    """The number in one lane."""
    return numbers


def with_number(numbers: Any, lane: int, number: Any) -> Any:
    """`numbers` with another number in one lane."""
    return number


def lane_array(array: NDArray[Any], lane: int) -> NDArray[Any]:
    """View of an array's numbers in one lane."""
    return array


@overload(put, jit_options=INLINED, strict=False)
def _compiled_put(row: Any, k: Any, numbers: Any) -> Any:
    def implementation(row: Any, k: Any, numbers: Any) -> Any:
        return _put(row, k, numbers)

    return implementation


def put_intrinsic(intrinsic: Any, arrayobj: Any) -> Any:
    """Return the intrinsic of `put` for the compiler (CPU or GPU) with these array functions."""

    @intrinsic
    def put_numbers(typing: Any, row: Any, k: Any, numbers: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = arrayobj.make_array(row)(context, builder, arguments[0])
            for j, number in enumerate(numbers):
                index = builder.add(arguments[1], ir.Constant(arguments[1].type, j))
                at, *_ = arrayobj.basic_indexing(
                    context, builder, row, values, (types.intp,), (index,),
                    boundscheck=context.enable_boundscheck)
                value = context.cast(builder, builder.extract_value(arguments[2], j), number,
                                     row.dtype)
                arrayobj.store_item(context, builder, row, value, at)
            return context.get_dummy_value()

        return types.none(row, types.intp, numbers), build

    return put_numbers


_put = put_intrinsic(intrinsic, arrayobj)


@overload(select, jit_options=INLINED, strict=False)
def _compiled_select(condition: Any, one: Any, other: Any) -> Any:
    if isinstance(condition, types.Boolean):
        return lambda condition, one, other: one if condition else other
    return None


@overload(any_lane, jit_options=INLINED, strict=False)
def _compiled_any_lane(condition: Any) -> Any:
    if isinstance(condition, types.Boolean):
        return lambda condition: condition
    return None


@overload(lane_count, jit_options=INLINED, strict=False)
def _compiled_lane_count(values: Any) -> Any:
    if getattr(values, 'dtype', values) == types.float64:
        return lambda values: 1
    return None


@overload(lane_number, jit_options=INLINED, strict=False)
def _compiled_lane_number(numbers: Any, lane: Any) -> Any:
    if isinstance(numbers, types.Float):
        return lambda numbers, lane: numbers
    return None


@overload(with_number, jit_options=INLINED, strict=False)
def _compiled_with_number(numbers: Any, lane: Any, number: Any) -> Any:
    if isinstance(numbers, types.Float):
        return lambda numbers, lane, number: number
    return None


@overload(lane_array, jit_options=ARRAYS, strict=False)
def _compiled_lane_array(array: Any, lane: Any) -> Any:
    if array.dtype == types.float64:
        return lambda array, lane: array
    return None
