# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Poses and motions of the bodies of a robot in base axes, for bounds of loads and distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined
from osc_ros.control.data import BODY_WIDTH
from osc_ros.dynamics.algebra.spatial import (
    add,
    along,
    compose,
    cross,
    matrix_at,
    put,
    rotate,
    sub,
    vector_at,
    ZERO,
)
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Columns of `bodies`, one row per body: parent, index of its joint in q, whether the joint is
# prismatic, pose in the parent (rotation, position), mass, first moment.
PARENT, AT, SLIDES, R_PARENT, P_PARENT, MASS, MC = 0, 1, 2, 3, 12, 15, 16
# Columns of `work`, one row per body, base axes: rotation and origin of the body; angular velocity
# and acceleration of the body, velocity and acceleration of its origin, both for q̈ = 0. The
# remaining columns belong to `load`.
TURN, ORIGIN, OMEGA, ALPHA, VELOCITY, ACCELERATION, MOTION_WIDTH = 0, 9, 12, 15, 18, 21, 24


@inlined
def axis_of(store):
    """Unit vector along the axis of the joint of a body (row of `work`), base axes."""
    return store[TURN + 2], store[TURN + 5], store[TURN + 8]


@inlined
def put_poses(bodies, q, work):
    """Write rotations and origins of the bodies at q (n,) to `work` (n, at least MOTION_WIDTH)."""
    for i in range(len(bodies)):
        body, store = bodies[i], work[i]
        R, p, x = matrix_at(body, R_PARENT), vector_at(body, P_PARENT), q[int(body[AT])]
        if body[SLIDES] != 0.0:
            p = add(p, (x * R[2], x * R[5], x * R[8]))
        else:
            c, s = np.cos(x), np.sin(x)
            R = (c * R[0] + s * R[1], c * R[1] - s * R[0], R[2],
                 c * R[3] + s * R[4], c * R[4] - s * R[3], R[5],
                 c * R[6] + s * R[7], c * R[7] - s * R[6], R[8])
        parent = int(body[PARENT])
        if parent >= 0:
            R_parent = matrix_at(work[parent], TURN)
            p = add(vector_at(work[parent], ORIGIN), rotate(R_parent, p))
            R = compose(R_parent, R)
        put(store, TURN, R)
        put(store, ORIGIN, p)


@inlined
def put_motions(bodies, qd, work):
    """Write the motions of the bodies for q̈ = 0 to `work`, after `put_poses`; qd is (n,)."""
    for i in range(len(bodies)):
        body, store, parent = bodies[i], work[i], int(bodies[i, PARENT])
        omega, alpha, v, a = ZERO, ZERO, ZERO, ZERO
        slides, rate = body[SLIDES] != 0.0, along(qd[int(body[AT])], axis_of(store), ZERO)
        if parent >= 0:
            outer = work[parent]
            omega, alpha = vector_at(outer, OMEGA), vector_at(outer, ALPHA)
            d = sub(vector_at(store, ORIGIN), vector_at(outer, ORIGIN))
            v = add(vector_at(outer, VELOCITY), cross(omega, d))
            a = add(vector_at(outer, ACCELERATION),
                    add(cross(alpha, d), cross(omega, cross(omega, d))))
        if slides:
            v, a = add(v, rate), along(2.0, cross(omega, rate), a)
        else:
            omega, alpha = add(omega, rate), add(alpha, cross(omega, rate))
        put(store, OMEGA, omega + alpha + v + a)


def bodies_of(robot: Robot) -> Array:
    """Mass properties (n, BODY_WIDTH) of a robot whose joints have one degree of freedom each."""
    bodies = np.zeros((robot.n, BODY_WIDTH))
    bodies[:, PARENT], bodies[:, AT] = robot.parent, robot.v_index
    bodies[:, SLIDES] = robot.prismatic
    bodies[:, R_PARENT:P_PARENT] = robot.T_parent_body[:, :3, :3].reshape(-1, 9)
    bodies[:, P_PARENT:MASS] = robot.T_parent_body[:, :3, 3]
    bodies[:, MASS] = robot.inertia[:, 5, 5]
    bodies[:, MC:] = robot.inertia[:, [2, 0, 1], [4, 5, 3]]
    return bodies
