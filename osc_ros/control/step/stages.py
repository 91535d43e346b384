# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Stages of a dynamics method, which compiled code calls by an address."""

from __future__ import annotations

from collections.abc import Callable
import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import c_at, entry_of, integers_at, numbers_at, Pointers
from osc_ros.compile.compiled import ahead, kernel, view, viewing
from osc_ros.dynamics.chain import chain_bodies, chain_layout, passes
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.contract.method import DONE, Method, NOT_FINITE
from osc_ros.dynamics.trees import tree
from osc_ros.dynamics.trees.tree_bodies import put_motion_torques
from osc_ros.dynamics.trees.tree_layout import EXTENDED, parts_of, pendulum

Array = NDArray[np.float64]
Arrays = tuple[NDArray[Any], ...]

# Indices of the stages. Each takes up to three arrays, and writes those that are marked (w).
# Outward pass: q, q̇, q̈. Jacobian: J (w). Inward pass: q̈ of the outward pass, F, τ (w). Response:
# τ, F, M⁻¹(τ + JᵀF) (w). Inverse mass matrix: memory (n,), M⁻¹ (w). Torques of a motion at the
# same state: q̇, q̈, τ (w).
STAGES = OUTWARD, JACOBIAN, INWARD, RESPONSE, INVERSE_MASS, MOTION = range(6)


class OfMethod(NamedTuple):
    """
    Arrays of a dynamics method that compiled code reads by a table of their addresses.

    The table begins with OWN rows of arrays that only the functions of the method read. Then come
    the arrays of this class, in this order.

    Attributes
    ----------
    entry : (1,) int
        Address of a kernel with the arguments (table, stage, three arrays (…)), which returns DONE
        or another status.
    pose, twist, Lambda_inv, a0, gravity : arrays
        Arrays of `Method`, flat.

    """

    entry: NDArray[np.int64]
    pose: Array
    twist: Array
    Lambda_inv: Array
    a0: Array
    gravity: Array


OWN = 3  # number of rows for arrays that only the method reads
OF_DYNAMICS = OWN + len(OfMethod._fields)  # number of rows for the dynamics in a table


@viewing
def numbers_of(table, k):
    """View of the array of floats at the address in row k of a table."""
    return numbers_at(table[k, 0], table[k, 1])


@viewing
def integers_of(table, k):
    """View of the array of integers at the address in row k of a table."""
    return integers_at(table[k, 0], table[k, 1])


@viewing
def method_in(table):
    """Return the `OfMethod` whose arrays are in a table of addresses."""
    return OfMethod(integers_of(table, OWN), numbers_of(table, OWN + 1),
                    numbers_of(table, OWN + 2), numbers_of(table, OWN + 3),
                    numbers_of(table, OWN + 4), numbers_of(table, OWN + 5))


@kernel
def chain_stage(table, stage, one, two, three):
    """Compute one of STAGES for a plain chain; the table begins with `Sweep.arrays`."""
    chain = numbers_of(table, 0)
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
        links, ends, work, factor, _ = chain_layout.parts_of(chain)
        chain_bodies.put_motion_torques(links, ends, one, two, work, factor, three)
    return DONE


@kernel
def tree_stage(table, stage, one, two, three):
    """Compute one of STAGES with the kernels for trees; the table begins with `Tree.arrays`."""
    arrays = integers_of(table, 0), numbers_of(table, 1), numbers_of(table, 2)
    none = one[:0]
    if stage == OUTWARD:
        return tree.outward(arrays, one, two, none, three)
    if stage == JACOBIAN:
        rows = len(parts_of(arrays)[2].a0)
        tree.motions(arrays, view(one, 0, (rows, len(one) // rows)))
    elif stage == INWARD:
        tree.torques(arrays, none, one, two, three)
    elif stage == RESPONSE:
        tree.acceleration_response(arrays, one, two, three)
    elif stage == INVERSE_MASS:
        tree.inverse_mass_matrix(arrays, view(two, 0, (len(one), len(one))))
    else:
        robot, memory, _ = parts_of(arrays)
        put_motion_torques(robot, two, memory.work, three)
    return DONE


@kernel
def python_stage(table, stage, one, two, three):
    """Compute one of STAGES with a C function, whose address is the first number of the table."""
    return c_at(integers_of(table, 0)[0], (
        np.int64(stage), np.int64(one.ctypes.data), np.int64(two.ctypes.data),
        np.int64(three.ctypes.data)))


class PythonStages:
    """
    Stages of a method without a compiled step: compiled code calls its Python functions.

    Attributes
    ----------
    address : int
        Address of the C function that `python_stage` calls; valid as long as this object exists.
    failure : BaseException, optional
        Exception of the method; the stage then returned NOT_FINITE.

    """

    def __init__(self, dynamics: Method) -> None:
        self._dynamics, self.failure = dynamics, None
        self._n, self._rows = dynamics.robot.n, len(dynamics.a0)
        self._q = np.zeros(dynamics.robot.nq)
        integer = ctypes.c_int64
        self._function = ctypes.CFUNCTYPE(ctypes.c_int, *[integer] * 4)(self._call)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    failure: BaseException | None

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


class Stages(NamedTuple):
    """
    The part of a table with which compiled code calls the dynamics.

    `rows` has the OF_DYNAMICS arrays for the first rows of a table. `of_python` calls a method
    without a compiled step; None for a method with one.

    """

    rows: Arrays
    of_python: PythonStages | None


def stages_of(dynamics: Method) -> Stages:
    """Return the stages of a method; compile their kernels on the first call."""
    _compile_all()
    arrays, of_python = getattr(dynamics, 'arrays', ()), None
    if type(dynamics) is tree.Tree:
        entry = _tree_entry()
    elif isinstance(dynamics, Sweep) and type(dynamics).outward is Sweep.outward:
        entry = _chain_entry()
    else:
        of_python = PythonStages(dynamics)
        entry, arrays = _python_entry(), (np.array([of_python.address]),)
    none = (np.zeros(0),) * (OWN - len(arrays))
    results = dynamics.pose, dynamics.twist, dynamics.Lambda_inv, dynamics.a0, dynamics.gravity
    return Stages((*arrays, *none, np.array([entry]), *results), of_python)


def _compiled(stage: Callable[..., int], *arrays: NDArray[Any]) -> int:
    """Compile a kernel for the arrays of a pendulum, or load it; return its address."""
    x = np.ones(1)
    stage(Pointers().to(*arrays), OUTWARD, x, x, x.copy())
    return entry_of(stage)


@cache
def _chain_entry() -> int:
    return _compiled(chain_stage, *Sweep(pendulum()).arrays)


@cache
def _tree_entry() -> int:
    return _compiled(tree_stage, *tree.Tree(pendulum(), EXTENDED).arrays)


@ahead
def _compile_all() -> None:
    """Compile both kinds of stages: a chain with tasks on two links needs those of trees."""
    _chain_entry(), _tree_entry()


@cache
def _python_entry() -> int:
    ends = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 4)(lambda *_: DONE)
    return _compiled(python_stage, np.array([ctypes.cast(ends, ctypes.c_void_p).value]))
