# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Sequentially consistent loads and stores of int64 words in shared memory, in compiled code.

The order holds for the compiler and the processor: data written before a word is stored are
visible to a process that loads the word; and if each of two processes stores one word and loads
the other's, at least one sees the new value. LLVM emits plain loads and `xchg` on x86, `ldar` and
`stlr` on ARM.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_process_triple
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic as _intrinsic

# numba has no type annotations for these names.
cgutils: Any = _cgutils
intrinsic: Any = _intrinsic

_ORDERING, _ALIGNED = 'seq_cst', 8
# The instruction of a spin-wait loop, which frees the core for its second hardware thread.
_PAUSE = {'x86_64': ('llvm.x86.sse2.pause', []), 'aarch64': ('llvm.aarch64.hint', [1]),
          'arm64': ('llvm.aarch64.hint', [1])}


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Pointer to words[i], for the arguments (words, i, …)."""
    kind = signature.args[0]
    words = context.make_array(kind)(context, builder, arguments[0])
    return cgutils.get_item_pointer(context, builder, kind, words, [arguments[1]],
                                    wraparound=False)


@intrinsic
def load(typing: Any, words: Any, i: Any) -> Any:
    """Load words[i] atomically."""
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature, arguments), _ORDERING,
                                   _ALIGNED)
    return types.int64(words, types.intp), code


@intrinsic
def store(typing: Any, words: Any, i: Any, value: Any) -> Any:
    """Store a value (int64) in words[i] atomically."""
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[2], _place(context, builder, signature, arguments),
                             _ORDERING, _ALIGNED)
        return context.get_dummy_value()
    return types.void(words, types.intp, types.int64), code


@intrinsic
def exchange(typing: Any, words: Any, i: Any, value: Any) -> Any:
    """Set words[i] to the value atomically; return the previous value of words[i]."""
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw('xchg', _place(context, builder, signature, arguments),
                                  arguments[2], _ORDERING)
    return types.int64(words, types.intp, types.int64), code


@intrinsic
def pause(typing: Any) -> Any:
    """Emit the processor's instruction for spin-wait loops, if it has one."""
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name, hints = _PAUSE.get(get_process_triple().split('-')[0], (None, []))
        if name:
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(ir.VoidType(), [ir.IntType(32)] * len(hints)),
                name)
            builder.call(function, [ir.Constant(ir.IntType(32), hint) for hint in hints])
        return context.get_dummy_value()
    return types.void(), code
