# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Evaluation of a plain chain at many states on a GPU: one thread for each state.

A plain chain is a row of bodies with mass and one tip on the last body. The results are the
torques of the law, or the terms of the operational-space equations (pose, Jacobian, Λ, …), see
`osc_ros.dynamics.contract.method.Terms`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.cuda.device_kernels import (
    cuda,
    device_twins,
    for_device,
    kernel_for_device,
    launch,
    number_type,
)
from osc_ros.dynamics.algebra.lane_rows import is_zero, load_rows, mark_rows, store_rows
from osc_ros.dynamics.algebra.task_inertia import put_pseudo_inverse
from osc_ros.dynamics.chain.chain_batch import put_ends, put_law, put_terms
from osc_ros.dynamics.chain.chain_bodies import (
    A0,
    ENDS_WIDTH,
    FORCE,
    Joints,
    Parts,
    POSE,
    put_jacobian,
    SCRATCH,
    TIP_WIDTH,
    TWIST,
    WORK_WIDTH,
)
from osc_ros.dynamics.contract.method import States, Terms


def _law_given(law: Any, has_tau: bool, has_qdd: bool) -> Any:
    """Return a function for the torques of state i; it passes None for τ⁰ or q̈ₚ if not given."""
    if has_tau and has_qdd:
        @for_device
        def given(at, states, i, out):
            return law(at, Joints(states.q[i], states.qd[i], states.tau[i], states.qdd[i]),
                       states.u[i], out)
    elif has_tau:
        @for_device
        def given(at, states, i, out):
            return law(at, Joints(states.q[i], states.qd[i], states.tau[i], None), states.u[i],
                       out)
    elif has_qdd:
        @for_device
        def given(at, states, i, out):
            return law(at, Joints(states.q[i], states.qd[i], None, states.qdd[i]), states.u[i],
                       out)
    else:
        @for_device
        def given(at, states, i, out):
            return law(at, Joints(states.q[i], states.qd[i], None, None), states.u[i], out)
    return given


@cache
def law_kernel(n: int, number: Any, has_tau: bool, has_qdd: bool) -> Any:
    """GPU kernel for the torques of a chain of n bodies; arguments as in `chain_batch.laws`."""
    # No argument `room`; all arrays of `states` are two-dimensional, even those that it does not
    # read, such as `payload`.
    of, real = device_twins(number).of, number_type(number)
    law, own_ends = _law_given(of(put_law), has_tau, has_qdd), of(put_ends)
    load, store, mark, good_if_zero = of(load_rows), of(store_rows), of(mark_rows), of(is_zero)

    @kernel_for_device
    def laws(links, ends, states, out, valid):
        i = cuda.grid(1)
        if i < len(valid):
            own, torques = cuda.local.array(ENDS_WIDTH, real), cuda.local.array(n, real)
            tip = cuda.local.array(TIP_WIDTH, real)
            work = cuda.local.array((n, WORK_WIDTH), real)
            own_ends(ends, own)
            if len(states.gravity) > 0:
                load(states.gravity, i, own[:3])
            good = good_if_zero(law(Parts(links, own, work, None, tip), states, i, torques))
            store(out, i, torques, good)
            mark(valid, i, good)

    return laws


@cache
def terms_kernel(n: int, number: Any) -> Any:
    """GPU kernel for the terms of a chain of n bodies; arguments as in `chain_batch.terms`."""
    # It takes zeros (n + 6,) in place of `room`; for `states` see `law_kernel`.
    of, real = device_twins(number).of, number_type(number)
    own_ends, evaluate, inertia, jacobian = map(
        of, (put_ends, put_terms, put_pseudo_inverse, put_jacobian))
    load, store, mark, good_if_zero = of(load_rows), of(store_rows), of(mark_rows), of(is_zero)

    @kernel_for_device
    def terms(links, ends, states, zeros, found):
        i = cuda.grid(1)
        if i < len(found.valid):
            own, torques = cuda.local.array(ENDS_WIDTH, real), cuda.local.array(n, real)
            tip, free = cuda.local.array(TIP_WIDTH, real), cuda.local.array(6, real)
            work = cuda.local.array((n, WORK_WIDTH), real)
            square, tall = cuda.local.array((6, 6), real), cuda.local.array((6, n), real)
            own_ends(ends, own)
            if len(states.gravity) > 0:
                load(states.gravity, i, own[:3])
            good = good_if_zero(evaluate(
                Parts(links, own, work, None, tip),
                Joints(states.q[i], states.qd[i], None, zeros[:n]), zeros[n:],
                len(found.Jdot_qd) > 0 or len(found.h) > 0,
                free[:6 if len(found.a0) > 0 else 0], torques[:n if len(found.h) > 0 else 0]))
            mark(found.valid, i, good)
            store(found.pose, i, tip[POSE:TWIST], good)
            store(found.twist, i, tip[TWIST:FORCE], good)
            store(found.Jdot_qd, i, tip[A0:POSE], good)
            store(found.h, i, torques, good)
            store(found.Lambda_inv, i, tip[:A0], good)
            store(found.a0, i, free, good)
            if len(found.Lambda) > 0:
                inertia(tip[:A0], tip[SCRATCH:], square, 6)
                for k in range(6):
                    store(found.Lambda[:, 6 * k:6 * k + 6], i, square[k], good)
            if len(found.J) > 0:
                jacobian(links, work, tip, tall)
                for k in range(6):
                    store(found.J[:, n * k:n * k + n], i, tall[k], good)

    return terms


class ChainOnGpu:
    """A plain chain on the GPU in use, in one precision (np.float64 or np.float32)."""

    # `links` and `ends`: constants in host memory; gravity, in `ends`, may change.

    def __init__(self, links: NDArray[np.float64], ends: NDArray[np.float64],
                 number: Any) -> None:
        self._n, self._number, self._host_ends = len(links), number, ends
        self._links = cuda.to_device(links.astype(number))
        self._zeros = cuda.to_device(np.zeros(self._n + 6, number))
        self._no_gravity = cuda.device_array((0, 3), number)
        self._copied: NDArray[np.float64] | None = None
        self._ends: Any = None

    def torque_batch(self, states: States, out: Any, valid: Any, stream: Any) -> None:
        """Write torques to out (k, n), and `valid` (k,); all arrays are on the GPU."""
        kernel = law_kernel(self._n, self._number, states.tau is not None, states.qdd is not None)
        launch(kernel, len(valid), stream, (
            self._links, self._ends_now(), self._filled(states), out, valid))

    def evaluate_batch(self, states: States, found: Terms, stream: Any) -> None:
        """Write `found.valid`, and those arrays of `found` that have a row for each state."""
        launch(terms_kernel(self._n, self._number), len(found.valid), stream, (
            self._links, self._ends_now(), self._filled(states), self._zeros, found.flat()))

    def _filled(self, states: States) -> States:
        """Return the states without None: q in its place, and for gravity an array of no rows."""
        gravity = self._no_gravity if states.gravity is None else states.gravity
        return States._make(states.q if values is None else values
                            for values in states._replace(gravity=gravity))

    def _ends_now(self) -> Any:
        """The constants `ends` on the GPU; if gravity was changed, copies them and waits."""
        if self._copied is None or (self._copied != self._host_ends).any():
            self._copied = self._host_ends.copy()
            self._ends = cuda.to_device(self._copied.astype(self._number))
            cuda.synchronize()
        return self._ends
