# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Copies (twins) of kernels for another type of number or a GPU, so that there is one source.

A twin has the byte code of the kernel's function, but its constants have another type. The
operations that it calls are twins too, or replacements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from osc_ros.compile import either
from osc_ros.compile.compiled import KERNELS, OPERATIONS, plain

# Constants of modules that depend on the rounding of numbers, for float32: π/2 in three parts of
# which the first 8192 multiples are exact (Cephes, S. L. Moshier: sinf.c), and the thresholds of
# `task_inertia`. With lower thresholds the torques near singularities of shipped arms are up to
# 500 times too large; with higher ones more states are damped than the rounding requires.
_OF_FLOAT32: dict[str, dict[str, float]] = {
    'osc_ros.dynamics.algebra.spatial': {
        'LARGEST': 8192.0, '_PART_1': 1.5703125, '_PART_2': 4.837512969970703125e-4,
        '_PART_3': 7.54978995489188216e-8},
    'osc_ros.dynamics.algebra.task_inertia': {
        'EXACT_LOW': 1e-9, 'EXACT_HIGH': 1e-8, 'NEGLIGIBLE': 1e-14}}
_PLAIN = (either.select, either.any_lane, either.lane_count, either.lane_number,
          either.with_number, either.lane_array, either.put)


class Twins:
    """Twins of kernels and operations, made at their first use."""

    # `number` (np.float64 or np.float32): type of the constants and of the kernels' arrays;
    # `compiled` compiles a function; `replaced`: values that replace global variables, by name.

    def __init__(self, number: type[np.floating[Any]], compiled: Callable[[Any], Any],
                 replaced: Mapping[Any, Any]) -> None:
        self._number, self._compiled, self._replaced = number, compiled, replaced
        self._operations = {id(one) for one in (*KERNELS, *OPERATIONS, *_PLAIN)}
        self._made: dict[Any, Any] = {}

    def of(self, operation: Any) -> Any:
        """Return the twin of a kernel, or of an operation."""
        function = plain(operation)
        if function not in self._made:
            code, outer = function.__code__, function.__globals__
            namespace = {name: self._value(outer, name) for name in code.co_names if name in outer}
            twin = FunctionType(self._converted(code), namespace, function.__name__,
                                function.__defaults__)
            self._made[function] = self._compiled(twin)
        return self._made[function]

    def _value(self, outer: Mapping[str, Any], name: str) -> Any:
        value = outer[name]
        if name in self._replaced:
            return self._replaced[name]
        if id(value) in self._operations:
            return self.of(value)
        if self._number is np.float32:
            value = _OF_FLOAT32.get(outer['__name__'], {}).get(name, value)
        return self._constant(value)

    def _converted(self, code: CodeType) -> CodeType:
        return code.replace(co_consts=tuple(map(self._constant, code.co_consts)))

    def _constant(self, value: Any) -> Any:
        if isinstance(value, float):
            return self._number(value)
        if type(value) is tuple:
            return tuple(map(self._constant, value))
        return value
