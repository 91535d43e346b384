# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The operational space of trees with m tips, by three algorithms of Wensing (paper 003), compiled.

    EXTENDED      EFPA: extended force propagators (`propagation.py`)
    PROPAGATED    RJKA: propagation of mobilities (`propagation.py`)
    FACTORED      SFA: branch-induced factor of the joint-space inertia (`factor.py`)

Results are at the tips, in base axes, [angular; linear], one tip after another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import ahead, inlined, kernel, lock, view
from osc_ros.compile.parallel_parts import in_parallel
from osc_ros.dynamics.algebra.spatial import (
    add,
    all_finite,
    compose,
    cross,
    matrix_at,
    put,
    rotate,
    spatial_at,
    vector_at,
)
from osc_ros.dynamics.algebra.task_inertia import replace_singular, solve_in_place
from osc_ros.dynamics.contract.method import DONE, Method, NOT_FINITE, States, Terms, WRONG_SHAPE
from osc_ros.dynamics.trees.articulated import (
    Articulated,
    put_articulated_inertias,
    put_inverse_mass_matrix,
    put_response,
)
from osc_ros.dynamics.trees.factor import (
    factorize,
    put_inverse_by_factors,
    solve_by_factors,
    square_factor,
)
from osc_ros.dynamics.trees.propagation import propagate_forces, propagate_mobilities
from osc_ros.dynamics.trees.tree_bodies import accelerate, inward, jacobian, locate
from osc_ros.dynamics.trees.tree_layout import (
    ACCELERATION,
    EXTENDED,
    FACTORED,
    IN_BASE,
    Joints,
    packed_robot,
    parts_of,
    pendulum,
    room_for,
    VELOCITY,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@inlined
def read_tips(robot, memory):
    """Write classical accelerations, poses and twists of the tips, from those of their bodies."""
    gravity, a0 = vector_at(robot.gravity, 0), memory.a0
    for k in range(len(robot.tips)):
        store, end = memory.work[robot.tips[k]], robot.ends[k]
        R, p = matrix_at(store, IN_BASE), vector_at(end, 9)
        v, a = spatial_at(store, VELOCITY), spatial_at(store, ACCELERATION)
        v = rotate(R, v[0]), rotate(R, add(v[1], cross(v[0], p)))
        a = rotate(R, a[0]), rotate(R, add(a[1], cross(a[0], p)))
        put(a0, 6 * k, a[0])
        put(a0, 6 * k + 3, add(add(a[1], cross(v[0], v[1])), gravity))
        put(memory.twists, 6 * k, v[0] + v[1])
        T = compose(R, matrix_at(end, 0))
        x = add(vector_at(store, IN_BASE + 9), rotate(R, p))
        put(memory.poses[k], 0, (T[0], T[1], T[2], x[0], T[3], T[4], T[5], x[1],
                                 T[6], T[7], T[8], x[2], 0.0, 0.0, 0.0, 1.0))


@inlined
def _put_articulated_terms(robot, memory, joints):
    """Write articulated-body inertias; from these Λ⁻¹, a⁰, poses and twists of the tips."""
    tau, qdd, work, driven, no_force = (joints.tau, joints.qdd, memory.work, memory.driven,
                                        memory.no_force)
    put_articulated_inertias(robot, work)
    if len(qdd) > 0:
        accelerate(robot, qdd, work)
        read_tips(robot, memory)
        if len(tau) > 0:
            # add the accelerations by τ⁰ of the robot at rest
            put_response(robot, tau, no_force, True, work, driven)
            for k in range(len(robot.tips)):
                store = work[robot.tips[k]]
                R, p = matrix_at(store, IN_BASE), vector_at(robot.ends[k], 9)
                a = spatial_at(store, ACCELERATION)
                more = rotate(R, a[0]) + rotate(R, add(a[1], cross(a[0], p)))
                for r in range(6):
                    memory.a0[6 * k + r] += more[r]
    else:
        put_response(robot, tau if len(tau) > 0 else memory.rest, no_force, False, work, driven)
        read_tips(robot, memory)
    if memory.algorithm == EXTENDED:
        propagate_forces(robot, memory.X, work, memory.Lambda_inv)
    else:
        propagate_mobilities(robot, work, memory.Lambda_inv)


@inlined
def _put_factored_terms(robot, memory, joints):
    """Write L of the joint-space inertia; from it Λ⁻¹, a⁰, poses and twists of the tips."""
    tau, qdd, work, driven, J, a0 = (joints.tau, joints.qdd, memory.work, memory.driven, memory.Y,
                                     memory.a0)
    accelerate(robot, qdd if len(qdd) > 0 else memory.rest, work)
    read_tips(robot, memory)
    factorize(robot, work, memory.M)
    jacobian(robot, work, J)
    if len(qdd) == 0 or len(tau) > 0:
        for k in range(len(driven)):
            driven[k] = 0.0
        if len(qdd) == 0:
            inward(robot, tau[:0], memory.rest, memory.no_force, work, driven)
        for k in range(len(driven)):
            driven[k] = (tau[k] if len(tau) > 0 else 0.0) - driven[k]
        solve_by_factors(memory.M, robot.before, driven)
        for r in range(len(a0)):
            for k in range(len(driven)):
                a0[r] += J[r, k] * driven[k]
    square_factor(robot, memory.M, J, memory.Lambda_inv)


@inlined
def put_outward(robot, memory, joints):
    """Write the results of `outward` to `memory`."""
    locate(robot, joints.q, joints.qd, memory.work)
    if memory.algorithm == FACTORED:
        _put_factored_terms(robot, memory, joints)
    else:
        _put_articulated_terms(robot, memory, joints)


@inlined
def put_law(robot, memory, joints, u, out):
    """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,), after `put_outward`."""
    a0, F, scratch, m = memory.a0, memory.F, memory.scratch, len(memory.a0)
    flat = view(memory.Lambda_inv, 0, (m * m,))
    A, r = scratch[:m * m], scratch[2 * m * m:2 * m * m + m]
    for k in range(m * m):
        A[k] = flat[k]
    for k in range(m):
        F[k] = r[k] = u[k] - a0[k]
    replace_singular(solve_in_place(A, F, m), flat, r, scratch, F, m)
    inward(robot, joints.tau, joints.qdd, F, memory.work, out)


@inlined
def _outward_pass(robot, memory, joints):
    """Check shapes, compute the results of `outward` and return its status."""
    q, qd, tau, qdd = joints
    b, n = len(robot.tree), len(robot.rotors)
    if (len(q) != b + 3 * (n - b) // 2 or len(qd) != n or not (len(tau) == n or len(tau) == 0)
            or not (len(qdd) == n or len(qdd) == 0)):
        return WRONG_SHAPE
    put_outward(robot, memory, joints)
    flat = view(memory.Lambda_inv, 0, (memory.Lambda_inv.size,))
    finite = all_finite(memory.a0) and all_finite(flat) and all_finite(memory.twists)
    # the input too: if a joint does not move a tip, its NaN is not in the results
    given = all_finite(q) and all_finite(qd) and all_finite(tau) and all_finite(qdd)
    poses = view(memory.poses, 0, (memory.poses.size,))
    return DONE if finite and given and all_finite(poses) else NOT_FINITE


@kernel
def outward(arrays, q, qd, tau, qdd):
    """Write Λ⁻¹, a⁰, poses and twists of the tips to `room`."""
    # arrays: (integers, numbers, room), see `tree_layout`. q (nq,), qd (n,). tau: τ⁰ [N·m], qdd:
    # posture acceleration [rad/s²], whose inverse dynamics is added to τ⁰; (n,), or (0,) if not
    # given. Returns DONE, WRONG_SHAPE (nothing written) or NOT_FINITE.
    robot, memory = parts_of(arrays)
    return _outward_pass(robot, memory, Joints(q, qd, tau, qdd))


@kernel
def law(arrays, q, qd, u, tau, qdd, out):
    """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,) [N·m] in one call; return the status of `outward`."""
    # u (6 m,): commanded accelerations of the tips, base axes, [angular; linear] [rad/s², m/s²].
    robot, memory = parts_of(arrays)
    if len(u) != len(memory.a0) or len(out) != len(robot.rotors):
        return WRONG_SHAPE
    joints = Joints(q, qd, tau, qdd)
    status = _outward_pass(robot, memory, joints)
    if status != DONE:
        return status
    put_law(robot, memory, joints, u, out)
    return DONE if all_finite(out) else NOT_FINITE


@kernel
def torques(arrays, tau, qdd, F, out):
    """Call `tree_bodies.inward` with the packed arrays."""
    robot, memory = parts_of(arrays)
    inward(robot, tau, qdd, F, memory.work, out)


@kernel
def motions(arrays, J):
    """Call `tree_bodies.jacobian` with the packed arrays."""
    robot, memory = parts_of(arrays)
    jacobian(robot, memory.work, J)


@kernel
def acceleration_response(arrays, tau, F, qdd):
    """Write M⁻¹(τ + JᵀF) to qdd (n,) [rad/s²], from the factors of the last `outward`."""
    # F (6 m,): forces on the tips, base axes, [moment; force] [N·m, N].
    robot, memory = parts_of(arrays)
    if memory.algorithm == FACTORED:
        inward(robot, tau, tau[:0], F, memory.work, qdd)
        solve_by_factors(memory.M, robot.before, qdd)
    else:
        put_response(robot, tau, F, True, memory.work, qdd)


@kernel
def inverse_mass_matrix(arrays, M_inv):
    """Write M⁻¹ (n, n), exactly symmetric, from the factors of the last `outward`."""
    robot, memory = parts_of(arrays)
    if memory.algorithm == FACTORED:
        put_inverse_by_factors(memory.M, robot.before, M_inv)
    else:
        put_inverse_mass_matrix(robot, memory, M_inv)


class Tree(Articulated, Method):
    """Method of any robot, by the algorithm EXTENDED, PROPAGATED or FACTORED."""

    def __init__(self, robot: Robot, algorithm: int) -> None:
        super().__init__(robot, algorithm)
        _compile()
        self._none, self._shape = np.empty(0), (robot.n,)
        found = self._memory
        self.Lambda_inv, self.a0, poses, self.twist = (found.Lambda_inv, found.a0, found.poses,
                                                       found.twists)
        self.pose: Array = poses.reshape(-1, 4, 4) if len(poses) > 1 else poses.reshape(4, 4)

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Write τ⁰ + JᵀΛ(u - a⁰) to out (n,); return DONE, WRONG_SHAPE or NOT_FINITE."""
        if not self._fit(tau, qdd):
            return WRONG_SHAPE
        status: int = law(self.arrays, q, qd, u, self._tau, self._qdd, out)
        return status

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Compute Λ⁻¹, a⁰, poses and twists under τ⁰; return DONE, WRONG_SHAPE or NOT_FINITE."""
        if not self._fit(tau, qdd):
            return WRONG_SHAPE
        status: int = outward(self.arrays, q, qd, self._tau, self._qdd)
        return status

    def _fit(self, tau: Array | None, qdd: Array | None) -> bool:
        """Store τ⁰ and q̈ₚ for the kernels (empty if None); return whether their shapes fit."""
        self._tau = self._none if tau is None else tau
        self._qdd = self._none if qdd is None else qdd
        n = self._shape
        return (tau is None or tau.shape == n) and (qdd is None or qdd.shape == n)

    def inward(self, F: Array, out: Array) -> None:
        """Write τ⁰ + JᵀF, with J and τ⁰ of the last `outward`, to out (n,)."""
        torques(self.arrays, self._tau, self._qdd, F, out)

    def jacobian(self, out: Array) -> None:
        """Write the Jacobian J of the last `outward` to out (6 m, n)."""
        motions(self.arrays, out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """Write M⁻¹(τ + JᵀF), with M and J of the last `outward`, to out (n,) [rad/s²]."""
        acceleration_response(self.arrays, tau, F, out)

    def inverse_mass_matrix(self, out: Array) -> None:
        """Write M⁻¹ of the last `outward` to out (n, n)."""
        inverse_mass_matrix(self.arrays, out)

    def torque_batch(self, states: States, out: Array, valid: NDArray[np.bool_],
                     threads: int | None) -> None:
        """Write torques to out (k, n), and `valid` (k,), in SIMD lanes and threads."""
        from osc_ros.dynamics.trees.tree_batch import batch_room, laws

        integers, numbers, _ = self.arrays
        none = np.empty((0, self.robot.n))
        given = states.with_gravity()._replace(tau=none if states.tau is None else states.tau,
                                               qdd=none if states.qdd is None else states.qdd)

        def part(first: int, last: int) -> None:
            laws(integers, numbers, given.part(first, last), batch_room(integers),
                 out[first:last], valid[first:last])

        in_parallel(len(out), part, threads, (laws, states.payload is None))

    def evaluate_batch(self, states: States, found: Terms, threads: int | None) -> None:
        """Write `found.valid` and the requested terms, in SIMD lanes and threads."""
        from osc_ros.dynamics.trees.tree_batch import batch_room, terms

        integers, numbers, _ = self.arrays
        given, flat = states.with_gravity(), found.flat()

        def part(first: int, last: int) -> None:
            terms(integers, numbers, given.part(first, last), batch_room(integers),
                  flat.part(first, last))

        in_parallel(len(found.valid), part, threads, (terms, states.payload is None))


@ahead
def _compile() -> None:
    integers, numbers = packed_robot(pendulum(), FACTORED)
    arrays, x, u = (integers, numbers, room_for(integers)), np.zeros(1), np.zeros(6)
    law(arrays, x, x, u, x, x, x)
    outward(arrays, x, x, x, x)
    torques(arrays, x, x, u, x)
    motions(arrays, np.zeros((6, 1)))
    acceleration_response(arrays, x, u, x.copy())
    inverse_mass_matrix(arrays, np.zeros((1, 1)))
    for one_kernel in (law, outward, torques, motions, acceleration_response, inverse_mass_matrix):
        lock(one_kernel)
