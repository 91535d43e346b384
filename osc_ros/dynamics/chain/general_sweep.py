"""
The law in one outward and one inward sweep, for any robot with one tip, compiled.

As in `osc_ros.dynamics.chain.sweep`, what survives going outward is

    K  inverse operational-space inertia of the chain cut after body i, at its origin
    b  acceleration of body i under the joint torques τ⁰, with nothing touching it

but a chain is cut only after bodies of definite inertia. What lies between two cuts is a group:
bodies without mass, point masses, and in the end one that has all the inertia that a body can
have; with their joints they make one joint of k freedoms, and with what hangs on them beside the
path, one link. Inside a group articulated bodies do, which need no inverse inertia. Seen from the
body before it a group is, at rest or not, an inertia and a force,

    f = I a + p

and seen from its last body 𝒳, which takes a motion of the body before to it across joints that
give way, and Ω, its mobility while that one is held. Eliminating the force f through the group's
first joint, for which the body before answers a = b - K f, is

    P = (1 + K I)⁻¹ K = Z (1 + Zᵀ I Z)⁻¹ Zᵀ  for  K = Z Zᵀ,     a = b - P (I b + p)
    K' = Ω + 𝒳 P 𝒳ᵀ,     b' = what a becomes across the group

P being the mobility of the body before with the group hanging on it. For groups of one body that
moves by one joint, of motion subspace S and rotor inertia d, this is K' of DESIGN in another form:
with N = SᵀIS + d, Ω = S N⁻¹Sᵀ and 𝒳 = (1 - S N⁻¹SᵀI) X. Nothing but N is divided by, and no
difference is taken of K, so masses may be zero or differ by much.

M⁻¹ and forward dynamics are left to articulated bodies over the whole tree. The forces between the
groups are what keeps a cut chain from accelerating as b says, which with light bodies is a lot:
found inward from there, they lose four digits more than those (masses 1e-3 to 1e3, 20 joints).

Notation and memory are those of `osc_ros.dynamics.trees.tree`, Ω standing for K, and P, in turn.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.dynamics.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.spatial import (
    add_mobility,
    all_finite,
    force_to_parent,
    inertia_to_parent,
    minus,
    mobility_at,
    mobility_shifted,
    mobility_times,
    mobility_unrotated,
    plus,
    put,
    spatial_at,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.task_inertia import applied_pseudo_inverse, EXACT_HIGH, solved
from osc_ros.dynamics.trees.tree import (
    accelerated,
    ACCELERATION,
    add_response,
    ARTICULATED,
    beyond_joint,
    force_passed,
    GATHERED,
    inertia_passed,
    inward,
    located,
    moved,
    OMEGA,
    PARENT,
    pendulum,
    placed,
    PROPAGATED,
    put_own_inertia,
    put_tip_mobility,
    read_tips,
    Tree,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# A pivot of a positive semi-definite matrix that is zero, relative to its diagonal entry.
_NOTHING = 1e-15
_NO_MOBILITY = (ZERO + ZERO, ZERO + ZERO + ZERO, ZERO + ZERO)


@inlined
def _put_mobility(matrix, K):
    A, B, C = K
    rows = ((A[0], A[1], A[2]), (A[1], A[3], A[4]), (A[2], A[4], A[5]))
    last = ((C[0], C[1], C[2]), (C[1], C[3], C[4]), (C[2], C[4], C[5]))
    for i in range(3):
        for j in range(3):
            matrix[i, j], matrix[i + 3, j + 3] = rows[i][j], last[i][j]
            matrix[i, j + 3] = matrix[j + 3, i] = B[3 * i + j]


@inlined
def _semidefinite_factored(A):
    """Z in place of A = Z Zᵀ (6, 6): lower triangular, with zero columns where A has no more."""
    for k in range(6):
        own, pivot = A[k, k], A[k, k]
        for j in range(k):
            pivot -= A[k, j] * A[k, j]
        if not pivot > _NOTHING * own:
            for i in range(k, 6):
                A[i, k] = 0.0
            continue
        root = np.sqrt(pivot)
        A[k, k] = root
        for i in range(k + 1, 6):
            entry = A[i, k]
            for j in range(k):
                entry -= A[i, j] * A[k, j]
            A[i, k] = entry / root


@inlined
def _loaded(K, I, scratch):
    """P = (1 + K I)⁻¹ K: the mobility of a body with a further inertia hanging on it."""
    Z, N, Y = scratch[0], scratch[1], scratch[2]
    _put_mobility(Z, K)
    _put_mobility(N, I)
    _semidefinite_factored(Z)
    for i in range(6):  # Y = I Z
        for j in range(6):
            total = 0.0
            for k in range(j, 6):
                total += N[i, k] * Z[k, j]
            Y[i, j] = total
    for i in range(6):  # the lower half of N = 1 + Zᵀ I Z, then its factor
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for k in range(i, 6):
                total += Z[k, i] * Y[k, j]
            N[i, j] = total
    for k in range(6):
        for j in range(k):
            N[k, k] -= N[k, j] * N[k, j]
        N[k, k] = np.sqrt(N[k, k])
        for i in range(k + 1, 6):
            for j in range(k):
                N[i, k] -= N[i, j] * N[k, j]
            N[i, k] /= N[k, k]
    for c in range(6):  # Y = N⁻¹ Zᵀ
        for i in range(6):
            entry = Z[c, i] if c >= i else 0.0
            for j in range(i):
                entry -= N[i, j] * Y[j, c]
            Y[i, c] = entry / N[i, i]
    for i in range(6):  # P = Yᵀ Y
        for j in range(i, 6):
            total = 0.0
            for k in range(6):
                total += Y[k, i] * Y[k, j]
            Z[i, j] = total
    return ((Z[0, 0], Z[0, 1], Z[0, 2], Z[1, 1], Z[1, 2], Z[2, 2]),
            (Z[0, 3], Z[0, 4], Z[0, 5], Z[1, 3], Z[1, 4], Z[1, 5], Z[2, 3], Z[2, 4], Z[2, 5]),
            (Z[3, 3], Z[3, 4], Z[3, 5], Z[4, 4], Z[4, 5], Z[5, 5]))


@kernel
def grouped(tree, bodies, rotors, first, work):
    """
    Articulated inertias of all bodies, each of nothing beyond its group.

    What is felt of a group waits in its first body, about the parent's origin, in place of Ω.

    Parameters
    ----------
    first : (b,) bool
        Where on the path to the tip a group begins.

    """
    for i in range(len(tree)):
        put_own_inertia(bodies[i], work[i])
    for i in range(len(tree) - 1, -1, -1):
        store, parent = work[i], tree[i, PARENT]
        R, p = placed(store)
        passed = inertia_to_parent(R, p, inertia_passed(tree, rotors, store, i))
        if first[i]:
            put(store, OMEGA, passed[0] + passed[1] + passed[2])
        elif parent >= 0:
            total = add_mobility(mobility_at(work[parent], ARTICULATED), passed)
            put(work[parent], ARTICULATED, total[0] + total[1] + total[2])


@kernel
def driven(tree, first, tau, still, work):
    """
    Drives of all joints, while the bodies before the groups do not move, after `grouped`.

    The force p of a group waits in its first body, about the parent's origin.

    """
    for i in range(len(tree)):
        put(work[i], GATHERED, ZERO + ZERO)
    for i in range(len(tree) - 1, -1, -1):
        store, parent = work[i], tree[i, PARENT]
        R, p = placed(store)
        passed = force_to_parent(R, p, force_passed(tree, tau, still, store, i))
        if first[i]:
            put(store, GATHERED, passed[0] + passed[1])
        elif parent >= 0:
            total = plus(spatial_at(work[parent], GATHERED), passed)
            put(work[parent], GATHERED, total[0] + total[1])


@kernel
def eliminated(tree, gravity, first, path, responding, still, work, scratch, qdd):
    """
    K of the path's last body, and with `responding` its acceleration b, from the base outward.

    After `grouped`, and, with `responding`, `driven`.

    Parameters
    ----------
    path : (d,) int
        The bodies from the base to the tip.
    scratch : (3, 6, 6), qdd : (n,), overwritten

    """
    for at in range(len(path)):
        i = path[at]
        store, parent = work[i], tree[i, PARENT]
        carried = _NO_MOBILITY
        if parent >= 0:
            outer = work[parent]
            carried = mobility_at(outer, OMEGA)
            if first[i]:
                I = mobility_at(store, OMEGA)
                carried = _loaded(carried, I, scratch)
                put(outer, OMEGA, carried[0] + carried[1] + carried[2])
                if responding:
                    b = spatial_at(outer, ACCELERATION)
                    f = plus(mobility_times(I, b), spatial_at(store, GATHERED))
                    a = minus(b, mobility_times(carried, f))
                    put(outer, ACCELERATION, a[0] + a[1])
            R, p = placed(store)
            carried = mobility_unrotated(R, mobility_shifted(p, carried))
        K = beyond_joint(tree, store, i, carried)
        put(store, OMEGA, K[0] + K[1] + K[2])
        if responding:
            moved(tree, gravity, still, work, i, qdd)


@kernel
def outward(robot, memory, results, q, qd, tau, qdd):
    """
    Everything that the tip needs to know, from the base outward.

    Parameters
    ----------
    robot, memory, results : tuples of arrays
        As `GeneralSweep` makes them.
    q, qd : (nq,), (n,)
    tau, qdd : (n,) or (0,)
        Joint torques τ⁰ [N·m]; posture acceleration [rad/s²], whose inverse dynamics is then τ⁰,
        beside tau. Of no length: none.

    Returns
    -------
    DONE, or WRONG_SHAPE (nothing written), or NOT_FINITE

    """
    tree, bodies, tips, ends, gravity, rotors, path, first = robot
    work, scratch, rest, found = memory
    Lambda_inv, a0, poses, twists, _ = results
    n = len(rotors)
    width = len(tree) + 3 * (n - len(tree)) // 2
    if (len(q) != width or len(qd) != n or not (len(tau) == n or len(tau) == 0)
            or not (len(qdd) == n or len(qdd) == 0)):
        return WRONG_SHAPE
    weight, posed = vector_at(gravity, 0), len(qdd) > 0
    located(tree, bodies, q, qd, work)
    grouped(tree, bodies, rotors, first, work)
    if posed:
        accelerated(tree, bodies, gravity, qdd, work)
        read_tips(tips, ends, weight, work, a0, poses, twists)
    responding = not posed or len(tau) > 0
    if responding:
        driven(tree, first, tau if len(tau) > 0 else rest, posed, work)
    eliminated(tree, gravity, first, path, responding, posed, work, scratch, found)
    if not posed:
        read_tips(tips, ends, weight, work, a0, poses, twists)
    elif responding:
        add_response(tips, ends, work, a0)
    put_tip_mobility(work[tips[0]], ends[0], 0, Lambda_inv)
    finite = all_finite(a0) and all_finite(Lambda_inv.ravel()) and all_finite(twists)
    # what is off the path need not show at the tip
    given = all_finite(q) and all_finite(qd) and all_finite(tau) and all_finite(qdd)
    return DONE if finite and given and all_finite(poses.ravel()) else NOT_FINITE


@kernel
def law(robot, memory, results, q, qd, u, tau, qdd, out):
    """
    Joint torques τ = τ⁰ + JᵀΛ(u - a⁰): `outward`, the task force and `inward` in one call.

    Parameters
    ----------
    u : (6,)
        Commanded acceleration of the tip, base axes, [angular; linear] [rad/s², m/s²].
    out : (n,), written [N·m]

    Returns
    -------
    DONE, or WRONG_SHAPE (nothing written), or NOT_FINITE

    """
    tree, _, tips, ends, _, rotors, _, _ = robot
    work, scratch, _, _ = memory
    Lambda_inv, a0, _, _, F = results
    if len(u) != 6 or len(out) != len(rotors):
        return WRONG_SHAPE
    status = outward(robot, memory, results, q, qd, tau, qdd)
    if status != DONE:
        return status
    room, flat = scratch.ravel(), Lambda_inv.ravel()
    A, r = room[:36], room[72:78]
    for k in range(36):
        A[k] = flat[k]
    for k in range(6):
        F[k] = r[k] = u[k] - a0[k]
    if not solved(A, F, 6) > EXACT_HIGH:
        applied_pseudo_inverse(flat, r, room, F, 6)
    inward(tree, tips, ends, rotors, tau, qdd, F, work, out)
    return DONE if all_finite(out) else NOT_FINITE


class GeneralSweep(Tree):
    """
    The kernels on one robot, with the memory that they work in.

    The contract is that of `osc_ros.dynamics.chain.sweep.Sweep`; batches of states are evaluated
    as `Tree` does. Not to be shared between threads.

    """

    def __init__(self, robot: Robot) -> None:
        _compile()
        super().__init__(robot, PROPAGATED)
        self._grouped = _grouped(self._constants, robot.definite)
        self._own = _own(self._memory)

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Joint torques of the law into out; DONE, WRONG_SHAPE or NOT_FINITE."""
        if not self._fit(tau, qdd):
            return WRONG_SHAPE
        return int(law(self._grouped, self._own, self._results, q, qd, u, self._tau, self._qdd,
                       out))

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Λ⁻¹, a⁰, pose and twist under τ⁰; DONE, WRONG_SHAPE or NOT_FINITE."""
        if not self._fit(tau, qdd):
            return WRONG_SHAPE
        return int(outward(self._grouped, self._own, self._results, q, qd, self._tau, self._qdd))


def _grouped(constants: tuple[Any, ...], definite: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Constants of the robot, and where on its path groups begin."""
    path = constants[6]
    first = np.zeros(len(definite), dtype=np.bool_)
    first[path[0]] = True
    first[path[1:]] = definite[path[:-1]]
    return *constants[:7], first


def _own(memory: tuple[Array, ...]) -> tuple[Array, ...]:
    """What the kernels work in, of what `Tree` has and more."""
    work, _, _, _, rest, moved, _, _ = memory
    return work, np.zeros((3, 6, 6)), rest, moved


@cache
def _compile() -> None:
    """Compile or load the kernels, once a process, and let no other use in."""
    few = Tree(pendulum(), PROPAGATED)
    grouped = _grouped(few._constants, few.robot.definite)
    own, x = _own(few._memory), np.zeros(1)
    law(grouped, own, few._results, x, x, np.zeros(6), x, x, x)
    outward(grouped, own, few._results, x, x, x, x)
    for one in (law, outward):
        one.disable_compile()
