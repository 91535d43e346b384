# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
A Numba type for SIMD lanes (several float64 numbers computed at once), and its arithmetic.

Lane i of a result depends only on lane i of the arguments. An operation on a number and lanes
returns lanes. Comparisons return a mask, for `either.select`; a mask cannot be the condition of an
`if`. The number of lanes is `WIDTH`: 8 with AVX-512, 4 with AVX2, else 1; then lanes are float64.
"""

from __future__ import annotations

from collections.abc import Callable
import math
import operator
from typing import Any

from llvmlite import ir
import numba
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.registry import cpu_target
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import register_model
import numpy as np

_CONTRACT = ('contract',)  # as in all kernels: multiply-add may be rounded once


def processor_width() -> int:
    """Number of float64 lanes of the processor for which Numba compiles."""
    if numba.config.DISABLE_JIT:
        return 1
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(',')
    return 8 if '+avx512f' in features else 4 if '+avx2' in features else 1


class Lanes(types.Type):  # type: ignore[misc]
    """Numba type of `width` float64 lanes."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f'lanes({width})')

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """A number is converted to lanes that all have its value."""
        return Conversion.safe if isinstance(other, (types.Float, types.Integer)) else None

    def unify(self, typingctx: Any, other: Any) -> Any:
        """A variable that is assigned a number and lanes has the type lanes."""
        return self if isinstance(other, (types.Float, types.Integer)) else None


class Mask(types.Type):  # type: ignore[misc]
    """Numba type of a truth value for each of `width` lanes."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f'mask({width})')

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """A truth value is converted to a mask that has it in all lanes."""
        return Conversion.safe if isinstance(other, types.Boolean) else None

    def unify(self, typingctx: Any, other: Any) -> Any:
        """
        A variable that is assigned a truth value and a mask has the type mask.

        During type inference, a comparison of numbers may become a comparison of lanes.

        """
        return self if isinstance(other, types.Boolean) else None


def lanes(width: int) -> Any:
    """The type `Lanes` of this width, or float64 for width 1."""
    return types.float64 if width == 1 else Lanes(width)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, vector(fe_type))


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(ir.IntType(1), fe_type.width))


def vector(of: Any) -> Any:
    """The LLVM type of `Lanes`."""
    return ir.VectorType(ir.DoubleType(), of.width)


def splat(builder: Any, width: int, number: Any) -> Any:
    """LLVM vector of this width with the LLVM value `number` in all lanes."""
    zero = ir.Constant(ir.IntType(32), 0)
    undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
    return builder.shuffle_vector(
        builder.insert_element(undefined, number, zero), undefined,
        ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


def as_lanes(context: Any, builder: Any, of: Any, given: Any, value: Any) -> Any:
    """Convert a value of type `given`, a number or lanes, to lanes of type `of`."""
    if given == of:
        return value
    return splat(builder, of.width, context.cast(builder, value, given, types.float64))


@lower_cast(types.Float, Lanes)
@lower_cast(types.Integer, Lanes)
def _cast(context: Any, builder: Any, given: Any, of: Any, value: Any) -> Any:
    return as_lanes(context, builder, of, given, value)


@lower_cast(types.Boolean, Mask)
def _cast_truth(context: Any, builder: Any, given: Any, of: Any, value: Any) -> Any:
    return splat(builder, of.width, value)


def common_lanes(*arguments: Any) -> Any:
    """The common `Lanes` type of arguments that are lanes or numbers; None if there is none."""
    found = {one for one in arguments if isinstance(one, Lanes)}
    fits = all(isinstance(one, (Lanes, types.Float, types.Integer)) for one in arguments)
    return found.pop() if fits and len(found) == 1 else None


def _define(function: Any, count: int, result: Callable[[Any], Any],
            build: Callable[[Any, Any], Any]) -> None:
    """Define a function of `count` arguments: lanes or numbers, at least one of them lanes."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            of = common_lanes(*args) if len(args) == count and not kws else None
            if of is None:
                return None
            return signature(result(of), *(one if one == of else types.float64 for one in args))

    # As a decorator, infer_global reads __module__, which a ufunc has from NumPy 2.2 on.
    infer_global(function, types.Function(Template))

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        of = common_lanes(*sig.args)
        return build(builder, [as_lanes(context, builder, of, given, value)
                               for given, value in zip(sig.args, args)])

    kinds = ((Lanes,),) if count == 1 else (
        (Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes))
    for kind in kinds:
        lower_builtin(function, *kind)(lower)


def _called(name: str) -> Callable[[Any, Any], Any]:
    """Return a function that builds the call of an LLVM function on lanes."""

    def build(builder: Any, values: Any) -> Any:
        of = values[0].type
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(of, len(values) * [of]), f'{name}.v{of.count}f64')
        return builder.call(function, values)

    return build


def _instruction(name: str) -> Callable[[Any, Any], Any]:
    return lambda builder, values: getattr(builder, name)(*values, flags=_CONTRACT)


def _comparison(sign: str) -> Callable[[Any, Any], Any]:
    ordered = 'fcmp_unordered' if sign == '!=' else 'fcmp_ordered'
    return lambda builder, values: getattr(builder, ordered)(sign, *values)


for _name, _functions in {'fadd': (operator.add, operator.iadd),
                          'fsub': (operator.sub, operator.isub),
                          'fmul': (operator.mul, operator.imul),
                          'fdiv': (operator.truediv, operator.itruediv)}.items():
    for _function in _functions:
        _define(_function, 2, lambda of: of, _instruction(_name))
for _sign, _function in {'>': operator.gt, '>=': operator.ge, '<': operator.lt,
                         '<=': operator.le, '==': operator.eq, '!=': operator.ne}.items():
    _define(_function, 2, lambda of: Mask(of.width), _comparison(_sign))
_define(operator.neg, 1, lambda of: of, lambda builder, values: builder.fneg(*values))
for _name, _unary in (('llvm.sqrt', np.sqrt), ('llvm.sqrt', math.sqrt), ('llvm.fabs', np.abs),
                      ('llvm.fabs', abs), ('llvm.floor', np.floor), ('llvm.rint', np.rint)):
    _define(_unary, 1, lambda of: of, _called(_name))
_define(np.copysign, 2, lambda of: of, _called('llvm.copysign'))


def _define_on_masks(function: Any, count: int, build: Callable[[Any, Any], Any]) -> None:
    """Define a function of `count` masks of one width."""

    @infer_global(function)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == count and isinstance(args[0], Mask) and len(set(args)) == 1:
                return signature(args[0], *args)
            return None

    lower_builtin(function, *(count * (Mask,)))(
        lambda context, builder, sig, args: build(builder, args))


_define_on_masks(operator.and_, 2, lambda builder, values: builder.and_(*values))
_define_on_masks(operator.or_, 2, lambda builder, values: builder.or_(*values))
_define_on_masks(operator.invert, 1, lambda builder, values: builder.not_(*values))
