# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What one torque passes through: the functions that `step` reaches, by the names they use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import inspect
from types import CodeType, FunctionType, ModuleType
from typing import Any

from osc_ros.control.step import stages, step

# `step` calls these by their addresses, so no name leads from it to them.
BEGINNINGS = (step.step, step.sense, step.law_torque, step.setup_torque,
              stages.tree_stage, stages.python_stage)


@dataclass(frozen=True)
class ReachRow:
    """A module of the package, and how many functions and lines of it a torque passes."""

    module: str
    functions: int
    lines: int


def _python(found: Any) -> FunctionType | None:
    """The function in Python behind a kernel; None if it is none of the package."""
    function = getattr(found, 'py_func', found)
    is_ours = isinstance(function, FunctionType) and function.__module__.startswith('osc_ros.')
    return function if is_ours else None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _used(function: FunctionType) -> Iterator[Any]:
    """Whatever the names in a function may stand for."""
    names = set(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value).get(other) for other in names)


def section() -> list[ReachRow]:
    """Return a row for each module, the largest first."""
    reached: set[FunctionType] = set()
    waiting = [*BEGINNINGS]
    while waiting:
        function = _python(waiting.pop())
        if function is None or function in reached:
            continue
        reached.add(function)
        waiting += _used(function)
    lines: dict[str, list[int]] = {}
    for function in reached:
        if function.__code__.co_filename.startswith('<'):
            continue  # made by a table of slots
        lines.setdefault(function.__module__, []).append(len(inspect.getsourcelines(function)[0]))
    return sorted((ReachRow(module, len(own), sum(own)) for module, own in lines.items()),
                  key=lambda row: (-row.lines, row.module))


def page(rows: list[ReachRow]) -> list[str]:
    """Return the section."""
    return ['## What one torque passes through', '',
            'The compiled functions that `osc_ros.control.step.step.step` reaches, with those of '
            f'both engines of the dynamics: {len(rows)} files, '
            f'{sum(row.functions for row in rows)} functions, '
            f'{sum(row.lines for row in rows):,} lines with their docstrings.', '',
            '| module | functions | lines |', '|---|---:|---:|',
            *(f'| {row.module} | {row.functions} | {row.lines} |' for row in rows), '']
