# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Poses and motions of the bodies of a robot in base axes, for bounds of loads and distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from osc_ros.compile.compiled import inlined
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


@inlined
def axis_of(d, i):
    """Unit vector along the axis of the joint of body i, base axes."""
    return d.body_axes[i, 2], d.body_axes[i, 5], d.body_axes[i, 8]


@inlined
def put_poses(m, d):
    """Write rotations and origins of the bodies."""
    for i in range(d.n):
        R, p, x = (matrix_at(m.body_turn[i], 0), vector_at(m.body_place[i], 0),
                   d.q[m.body_joint[i]])
        if m.body_slides[i]:
            p = add(p, (x * R[2], x * R[5], x * R[8]))
        else:
            c, s = np.cos(x), np.sin(x)
            R = (c * R[0] + s * R[1], c * R[1] - s * R[0], R[2],
                 c * R[3] + s * R[4], c * R[4] - s * R[3], R[5],
                 c * R[6] + s * R[7], c * R[7] - s * R[6], R[8])
        parent = m.body_parent[i]
        if parent >= 0:
            R_parent = matrix_at(d.body_axes[parent], 0)
            p = add(vector_at(d.body_origin[parent], 0), rotate(R_parent, p))
            R = compose(R_parent, R)
        put(d.body_axes[i], 0, R)
        put(d.body_origin[i], 0, p)


@inlined
def put_motions(m, d):
    """Write the motions of the bodies for q̈ = 0, after `put_poses`."""
    for i in range(d.n):
        omega, alpha, v, a, parent = ZERO, ZERO, ZERO, ZERO, m.body_parent[i]
        rate = along(d.qd[m.body_joint[i]], axis_of(d, i), ZERO)
        if parent >= 0:
            omega, alpha = vector_at(d.body_omega[parent], 0), vector_at(d.body_alpha[parent], 0)
            away = sub(vector_at(d.body_origin[i], 0), vector_at(d.body_origin[parent], 0))
            v = add(vector_at(d.body_velocity[parent], 0), cross(omega, away))
            a = add(vector_at(d.body_acceleration[parent], 0),
                    add(cross(alpha, away), cross(omega, cross(omega, away))))
        if m.body_slides[i]:
            v, a = add(v, rate), along(2.0, cross(omega, rate), a)
        else:
            omega, alpha = add(omega, rate), add(alpha, cross(omega, rate))
        put(d.body_omega[i], 0, omega)
        put(d.body_alpha[i], 0, alpha)
        put(d.body_velocity[i], 0, v)
        put(d.body_acceleration[i], 0, a)


def put_bodies(m: Any, robot: Robot) -> None:
    """Write the bodies of a robot whose joints have one degree of freedom each to LAW_M."""
    m.body_parent[:], m.body_joint[:], m.body_slides[:] = (
        robot.parent, robot.v_index, robot.prismatic)
    m.body_turn[:] = robot.T_parent_body[:, :3, :3].reshape(-1, 9)
    m.body_place[:], m.body_mass[:] = robot.T_parent_body[:, :3, 3], robot.inertia[:, 5, 5]
    m.body_moment[:] = robot.inertia[:, [2, 0, 1], [4, 5, 3]]
