# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Generalized momentum of any robot, and its rate by the model alone, in one pass of O(n), compiled.

    p = M(q) q̇,    β = Cᵀ(q, q̇) q̇ - g(q),    so that ṗ = τ + β + τ_ext.

Neither M nor C is computed. h is the spatial momentum of all bodies from a joint outward, f their
weight, s an axis of the joint, all about the origin and in the axes of the base; v is the velocity
of the body that the joint moves, and d the rotor inertia:

    p = sᵀh + d q̇,    β = (v × s)ᵀh + sᵀf

because ds/dt = v × s, and only the weight and the force in the joint change h. With base axes, h
and f of a subtree are plain sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import ahead, inlined, kernel, lock, plain, view
from osc_ros.dynamics.algebra.arrays import kernel_array
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
    cross,
    dot,
    matrix_at,
    motion_cross,
    plus,
    put,
    rotate,
    spatial_at,
    unrotate,
    vector_at,
    ZERO,
)
from osc_ros.dynamics.trees.tree_bodies import axis_of, freedoms_of, momentum, relative_placement
from osc_ros.dynamics.trees.tree_layout import (
    constants_in,
    FIRST_MOMENT,
    KIND,
    MASS,
    packed_robot,
    PARENT,
    pendulum,
    PRISMATIC,
    PROPAGATED,
    SPHERICAL,
    V_AT,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Columns of `work`, one row per body, base axes: rotation and origin of the body, its spatial
# velocity; momentum and weight of all bodies from this one outward, [angular; linear].
_TURN, _ORIGIN, _VELOCITY, _MOMENTUM, _WEIGHT, WORK_WIDTH = 0, 9, 12, 18, 24, 30


@inlined
def _joint_axis(store, kind, c):
    """Axis c of a joint: spatial motion about the origin of the base, in base axes."""
    angular, linear = axis_of(kind, c)
    if kind == PRISMATIC:
        return angular, rotate(matrix_at(store, _TURN), linear)
    angular = rotate(matrix_at(store, _TURN), angular)
    return angular, cross(vector_at(store, _ORIGIN), angular)


@inlined
def _put_body(robot, q, qd, work, i):
    """Write pose, velocity, own momentum and own weight of a body, after those of its parent."""
    tree, body, gravity = robot.tree, robot.bodies[i], vector_at(robot.gravity, 0)
    store, kind, first = work[i], tree[i, KIND], tree[i, V_AT]
    R, p = relative_placement(tree, body, q, i)
    v = (ZERO, ZERO)
    if tree[i, PARENT] >= 0:
        outer = work[tree[i, PARENT]]
        R_parent = matrix_at(outer, _TURN)
        R = compose(R_parent, R)
        p = add(vector_at(outer, _ORIGIN), rotate(R_parent, p))
        v = spatial_at(outer, _VELOCITY)
    put(store, _TURN, R)
    put(store, _ORIGIN, p)
    if kind == PRISMATIC:
        x = qd[first]
        v = v[0], add(v[1], (x * R[2], x * R[5], x * R[8]))
    else:
        x = qd[first]
        turning = (x * R[2], x * R[5], x * R[8])
        if kind == SPHERICAL:
            turning = rotate(R, vector_at(qd, first))
        v = plus(v, (turning, cross(p, turning)))
    put(store, _VELOCITY, v[0] + v[1])
    # velocity and momentum of the body at its own origin, in its own axes
    own = unrotate(R, v[0]), unrotate(R, add(v[1], cross(v[0], p)))
    moment, linear = momentum(body, own)
    linear = rotate(R, linear)
    put(store, _MOMENTUM, add(rotate(R, moment), cross(p, linear)) + linear)
    first_moment = along(body[MASS], p, rotate(R, vector_at(body, FIRST_MOMENT)))
    put(store, _WEIGHT, cross(first_moment, gravity) + along(body[MASS], gravity, ZERO))


@inlined
def put_momentum(robot, q, qd, work, p, beta):
    """Write p = M q̇ and β = Cᵀq̇ - g, and to `work` the poses for `put_link_jacobian`."""
    # q (nq,), qd (n,), work (b, WORK_WIDTH); p, beta (n,) [kg m²/s, N·m; prismatic: kg m/s, N].
    tree = robot.tree
    for i in range(len(tree)):
        _put_body(robot, q, qd, work, i)
    for i in range(len(tree) - 1, -1, -1):
        store, kind, parent = work[i], tree[i, KIND], tree[i, PARENT]
        v, h, f = (spatial_at(store, _VELOCITY), spatial_at(store, _MOMENTUM),
                   spatial_at(store, _WEIGHT))
        for c in range(freedoms_of(kind)):
            k, s = tree[i, V_AT] + c, _joint_axis(store, kind, c)
            change = motion_cross(v, s)
            p[k] = dot(s[0], h[0]) + dot(s[1], h[1]) + robot.rotors[k] * qd[k]
            beta[k] = (dot(change[0], h[0]) + dot(change[1], h[1])
                       + dot(s[0], f[0]) + dot(s[1], f[1]))
        if parent >= 0:
            for k in range(_MOMENTUM, WORK_WIDTH):
                work[parent, k] += store[k]


@inlined
def put_link_jacobian(robot, work, columns):
    """Write the Jacobian of the first tip, base axes, [angular; linear], after `put_momentum`."""
    # columns (n, 6): its columns; those of joints that do not move the tip are not written.
    tip = work[robot.tips[0]]
    x = add(vector_at(tip, _ORIGIN), rotate(matrix_at(tip, _TURN), vector_at(robot.ends[0], 9)))
    for at in range(robot.starts[1]):
        i = robot.paths[at]
        for c in range(freedoms_of(robot.tree[i, KIND])):
            angular, linear = _joint_axis(work[i], robot.tree[i, KIND], c)
            put(columns[robot.tree[i, V_AT] + c], 0, angular + add(linear, cross(angular, x)))


@kernel
def _momentum(integers, numbers, room, q, qd, p, beta):
    robot = constants_in(integers, numbers)
    put_momentum(robot, q, qd, view(room, 0, (len(robot.tree), WORK_WIDTH)), p, beta)


class Momentum:
    """Generalized momentum of a chain or tree, and its rate by the model alone."""

    # `gravity` (3,) is in the base frame [m/s²]; write to the array to change it.

    def __init__(self, robot: Robot) -> None:
        _compile()
        self._n = robot.n
        self._integers, self._numbers = packed_robot(robot, PROPAGATED)
        self._room = np.zeros(len(robot.parent) * WORK_WIDTH)
        self.gravity: Array = plain(constants_in)(self._integers, self._numbers).gravity

    def at(self, q: Array, qd: Array) -> tuple[Array, Array]:
        """Return p = M q̇ and β = Cᵀq̇ - g, (n,) each, at q (nq,), q̇ (n,): ṗ = τ + β + τ_ext."""
        # The velocity of a spherical joint is its angular velocity in the axes of its body; p and
        # β are then the components about these axes.
        p, beta = np.empty(self._n), np.empty(self._n)
        _momentum(self._integers, self._numbers, self._room, kernel_array(q), kernel_array(qd),
                  p, beta)
        return p, beta


@ahead
def _compile() -> None:
    integers, numbers = packed_robot(pendulum(), PROPAGATED)
    x = np.zeros(1)
    _momentum(integers, numbers, np.zeros(WORK_WIDTH), x, x, x.copy(), x.copy())
    lock(_momentum)
