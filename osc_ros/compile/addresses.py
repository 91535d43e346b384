# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Memory addresses by which compiled code finds arrays and functions.

A kernel that calls a function by its address is compiled without the code of that function.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
import numba
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array, populate_array
import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import is_recording, of_python

types: Any = numba.types

Integers = NDArray[np.int64]

VECTOR = types.Array(types.float64, 1, 'C')
KINDS = {float: types.float64, int: types.int64}


def address_of(array: NDArray[Any]) -> int:
    """Address of the first item of a contiguous array."""
    address: int = array.__array_interface__['data'][0]
    return address


def numbers_at(address: int, size: int) -> NDArray[np.float64]:
    """
    Array (size,) of the float64 numbers in memory from an address on.

    The caller guarantees that such an array exists there as long as the result is used.

    """
    return np.ctypeslib.as_array((ctypes.c_double * int(size)).from_address(int(address)))


def integers_at(address: int, size: int) -> Integers:
    """Array (size,) of the int64 numbers in memory from an address on; see `numbers_at`."""
    return np.ctypeslib.as_array((ctypes.c_int64 * int(size)).from_address(int(address)))


def bytes_at(address: int, size: int) -> NDArray[np.uint8]:
    """Array (size,) of the bytes in memory from an address on; see `numbers_at`."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * int(size)).from_address(int(address)))


def _array_at(of_python: Any, item_type: Any) -> None:
    """Define for kernels a function such as `numbers_at`, for items of this type."""
    found = types.Array(item_type, 1, 'C')

    @intrinsic
    def array_at(typing: Any, address: Any, size: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            start, count = arguments
            number = context.get_data_type(item_type)
            item = context.get_constant(types.intp, context.get_abi_sizeof(number))
            result = make_array(found)(context, builder)
            populate_array(result, data=builder.inttoptr(start, number.as_pointer()),
                           shape=[count], strides=[item], itemsize=item, meminfo=None)
            return result._getvalue()

        return found(types.intp, types.intp), build

    @overload(of_python, jit_options={'_nrt': True})
    def compiled(address: Any, size: Any) -> Any:
        def implementation(address: Any, size: Any) -> Any:
            return array_at(address, size)

        return implementation


_array_at(numbers_at, types.float64)
_array_at(integers_at, types.int64)
_array_at(bytes_at, types.uint8)


def entry_of(kernel: Any) -> int:
    """Address of the machine code of a kernel that is compiled for one signature only."""
    if is_recording():  # the kernel runs as a Python function
        return of_python(kernel)
    (found,) = kernel.overloads.values()
    address: int = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
    return address


def _call_of(given: Any) -> tuple[Any, Any]:
    """Signature and code that call a kernel with this tuple of arguments by its address."""
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, values = arguments
        convention = context.call_conv
        kind = convention.get_function_type(types.int64, given)
        _, found = convention.call_function(
            builder, builder.inttoptr(start, kind.as_pointer()), types.int64, given,
            [builder.extract_value(values, i) for i in range(len(given))])
        return found

    return types.int64(types.int64, given), build


def calling(*kinds: Any) -> Any:
    """
    Return a function (address, arguments) that calls a kernel that returns an integer.

    `kinds` are those of the arguments: float, int, tables of records, or Numba's types.

    """
    found = types.Tuple([getattr(one, 'numba_type', KINDS.get(one, one)) for one in kinds])

    @intrinsic
    def call_at(typing: Any, address: Any, given: Any) -> Any:
        return _call_of(found)

    return call_at


@intrinsic
def c_at(typing: Any, address: Any, given: Any) -> Any:
    """Call a C function by its address with a tuple of int64 arguments; return its int result."""
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, values = arguments
        count, integer = len(given), ir.IntType(64)
        kind = ir.FunctionType(ir.IntType(32), [integer] * count)
        found = builder.call(builder.inttoptr(start, kind.as_pointer()),
                             [builder.extract_value(values, i) for i in range(count)])
        return builder.sext(found, integer)

    return types.int64(types.int64, types.UniTuple(types.int64, len(given))), build
