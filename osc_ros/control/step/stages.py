# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Stages of a dynamics method, which compiled code calls by an address."""

from __future__ import annotations

from collections.abc import Callable
import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import c_at, entry_of, numbers_at
from osc_ros.compile.compiled import ahead, kernel, view
from osc_ros.control.step.law_record import LAW
from osc_ros.dynamics.chain import chain_bodies, passes
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.contract.method import DONE, Method, NOT_FINITE
from osc_ros.dynamics.trees import tree
from osc_ros.dynamics.trees.tree_bodies import put_motion_torques
from osc_ros.dynamics.trees.tree_layout import EXTENDED, parts_of, pendulum

Array = NDArray[np.float64]

NONE, NO_INTEGERS = np.zeros(0), np.zeros(0, dtype=np.int64)

# Indices of the stages. Each takes up to three arrays, and writes those that are marked (w).
# Outward pass: q, q̇, q̈. Jacobian: J (w). Inward pass: q̈ of the outward pass, F, τ (w). Response:
# τ, F, M⁻¹(τ + JᵀF) (w). Inverse mass matrix: any (n,), M⁻¹ (w). Torques of a motion at the
# same state: q̇, q̈, τ (w).
STAGES = OUTWARD, JACOBIAN, INWARD, RESPONSE, INVERSE_MASS, MOTION = range(6)


@kernel
def chain_stage(law, stage, one, two, three):
    """Compute one of STAGES for a plain chain; `law` is a record LAW."""
    chain = law.method_numbers
    if stage == OUTWARD:
        return passes.outward(chain, one, two, None, three)
    if stage == JACOBIAN:
        passes.jacobian(chain, view(one, 0, (6, len(one) // 6)))
    elif stage == INWARD:
        passes.inward(chain, None, one, two, three)
    elif stage == RESPONSE:
        passes.acceleration_response(chain, one, two, three)
    elif stage == INVERSE_MASS:
        passes.inverse_mass_matrix(chain, view(two, 0, (len(one), len(one))))
    else:
        chain_bodies.put_motion_torques(chain_bodies.parts_of(chain), one, two, three)
    return DONE


@kernel
def tree_stage(law, stage, one, two, three):
    """Compute one of STAGES with the kernels for trees; `law` is a record LAW."""
    arrays = law.method_integers, law.method_numbers, law.method_room
    none = one[:0]
    if stage == OUTWARD:
        return tree.outward(arrays, one, two, none, three)
    if stage == JACOBIAN:
        rows = len(parts_of(arrays)[1].a0)
        tree.motions(arrays, view(one, 0, (rows, len(one) // rows)))
    elif stage == INWARD:
        tree.torques(arrays, none, one, two, three)
    elif stage == RESPONSE:
        tree.acceleration_response(arrays, one, two, three)
    elif stage == INVERSE_MASS:
        tree.inverse_mass_matrix(arrays, view(two, 0, (len(one), len(one))))
    else:
        robot, memory = parts_of(arrays)
        put_motion_torques(robot, two, memory.work, three)
    return DONE


@kernel
def python_stage(law, stage, one, two, three):
    """Compute one of STAGES with a C function, `python_stage` of `law`, a record LAW."""
    return c_at(law.python_stage, (
        np.int64(stage), np.int64(one.ctypes.data), np.int64(two.ctypes.data),
        np.int64(three.ctypes.data)))


class PythonStages:
    """Stages of a method without a compiled step: compiled code calls its Python functions."""

    def __init__(self, dynamics: Method) -> None:
        self._dynamics, self.failure = dynamics, None
        self._n, self._rows = dynamics.robot.n, len(dynamics.a0)
        self._q = np.zeros(dynamics.robot.nq)
        integer = ctypes.c_int64
        self._function = ctypes.CFUNCTYPE(ctypes.c_int, *[integer] * 4)(self._call)
        # of the C function that `python_stage` calls; valid as long as this object exists
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    failure: BaseException | None  # of the method, after which the stage returned NOT_FINITE

    def _call(self, stage: int, *addresses: int) -> int:
        try:
            return self._do(stage, *addresses)
        except BaseException as error:  # Ctrl-C too, because compiled code has no exceptions
            self.failure = error
            return NOT_FINITE

    def _do(self, stage: int, one: int, two: int, three: int) -> int:
        dynamics, n, rows = self._dynamics, self._n, self._rows
        if stage == OUTWARD:
            self.failure = None
            self._q[:] = numbers_at(one, len(self._q))
            return dynamics.outward(self._q, numbers_at(two, n), None, numbers_at(three, n))
        if stage == JACOBIAN:
            dynamics.jacobian(numbers_at(one, rows * n).reshape(rows, n))
        elif stage == INWARD:
            dynamics.inward(numbers_at(two, rows), numbers_at(three, n))
        elif stage == RESPONSE:
            dynamics.acceleration_response(numbers_at(one, n), numbers_at(two, rows),
                                           numbers_at(three, n))
        elif stage == INVERSE_MASS:
            dynamics.inverse_mass_matrix(numbers_at(two, n * n).reshape(n, n))
        else:
            numbers_at(three, n)[:] = dynamics.inverse_dynamics(
                self._q, numbers_at(one, n), numbers_at(two, n))
        return DONE


def use_method(law: Any, dynamics: Method) -> PythonStages | None:
    """Let a record LAW compute with a method; compile the kernels on the first call."""
    # Return the stages of a method without a compiled step, which the record keeps; otherwise
    # None.
    _compile_all()
    of_python = None
    law.method_integers, law.method_numbers, law.method_room = NO_INTEGERS, NONE, NONE
    if type(dynamics) is tree.Tree:
        law.stage = _tree_entry()
        law.method_integers, law.method_numbers, law.method_room = dynamics.arrays
    elif isinstance(dynamics, Sweep) and type(dynamics).outward is Sweep.outward:
        law.stage, law.method_numbers = _chain_entry(), dynamics.arrays[0]
    else:
        of_python = law.kept['calls'] = PythonStages(dynamics)
        law.stage, law.python_stage = _python_entry(), of_python.address
    law.gravity = dynamics.gravity
    for name in 'pose', 'twist', 'Lambda_inv', 'a0':
        setattr(law, name, getattr(dynamics, name).reshape(-1))
    return of_python


def _compiled(stage: Callable[..., int], law: Any) -> int:
    """Compile a kernel for a pendulum, or load it; return its address."""
    x = np.ones(1)
    stage(law, OUTWARD, x, x, x.copy())
    return entry_of(stage)


@cache
def _chain_entry() -> int:
    law = LAW.new()
    law.method_numbers = Sweep(pendulum()).arrays[0]
    return _compiled(chain_stage, law)


@cache
def _tree_entry() -> int:
    law, found = LAW.new(), tree.Tree(pendulum(), EXTENDED)
    law.method_integers, law.method_numbers, law.method_room = found.arrays
    return _compiled(tree_stage, law)


@ahead
def _compile_all() -> None:
    """Compile both kinds of stages: a chain with tasks on two links needs those of trees."""
    _chain_entry(), _tree_entry()


@cache
def _python_entry() -> int:
    ends = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 4)(lambda *_: DONE)
    law = LAW.new()
    law.python_stage = ctypes.cast(ends, ctypes.c_void_p).value
    return _compiled(python_stage, law)
