# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Velocities, Jacobian and inverse dynamics by textbook formulas, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.algebra.kinematics import Placement, placement, tip_frames
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


def skew(a: Array) -> Array:
    """a×: the matrix (3, 3) with (a×) b = a × b."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def _freedoms(robot: Robot, at: Placement, i: int) -> tuple[slice, Array]:
    """Indices in q̇ of the degrees of freedom of body i, and their axes (3, k), base axes."""
    first = int(robot.v_index[i])
    axes = at.R[i] if robot.spherical[i] else at.R[i, :, 2:]
    return slice(first, first + axes.shape[1]), axes


def jacobian(robot: Robot, at: Placement) -> Array:
    """Natural Jacobian J (6 m, n) of the tips, base axes, [angular; linear] (paper 000, eq. 4)."""
    J = np.zeros((len(robot.tips), 6, robot.n))
    parents = robot.parent.tolist()
    for of_tip, (body, _), T_tip in zip(J, tip_frames(robot), at.T_tips):
        path = [body]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        on_path = np.array(path)
        reach = T_tip[:3, 3] - at.p[on_path]
        columns, z = robot.v_index[on_path], at.R[on_path, :, 2]
        slides = robot.prismatic[on_path]
        of_tip[:3, columns] = np.where(slides, 0.0, z.T)
        of_tip[3:, columns] = np.where(slides, z.T, np.cross(z, reach).T)
        for k in np.flatnonzero(robot.spherical[on_path]):
            own, axes = _freedoms(robot, at, path[k])
            of_tip[:3, own], of_tip[3:, own] = axes, skew(reach[k]).T @ axes
    return J.reshape(-1, robot.n)


def motion(robot: Robot, at: Placement, qd: Array, qdd: Array, gravity: Array
           ) -> tuple[Array, Array, Array, Array, Array]:
    """Motions of bodies and tips, for k joint accelerations qdd (n, k) at once; base axes."""
    # Gravity (3,) [m/s²] acts as an acceleration -gravity of the base. Returns ω (b, 3), α (b, 3,
    # k) and accelerations of the origins (b, 3, k) of the bodies; twists (6 m,) and classical
    # accelerations (6 m, k) of the tips, without gravity.
    b, k = len(robot.parent), qdd.shape[1]
    # the last row is the base: index -1, the parent of the first bodies
    p = np.vstack([at.p, np.zeros(3)])
    omega, speed = np.zeros((b + 1, 3)), np.zeros((b + 1, 3))
    alpha, a = np.zeros((b + 1, 3, k)), np.zeros((b + 1, 3, k))
    a[-1] = -gravity[:, None]
    for i, parent in enumerate(robot.parent.tolist()):
        own, axes = _freedoms(robot, at, i)
        r, w = p[i] - p[parent], omega[parent]
        rate, more = axes @ qd[own], axes @ qdd[own]
        omega[i], alpha[i] = w, alpha[parent]
        turn = skew(w)
        speed[i] = speed[parent] + turn @ r
        a[i] = a[parent] + skew(r).T @ alpha[parent] + (turn @ turn @ r)[:, None]
        if robot.prismatic[i]:
            speed[i] += rate
            a[i] += more + 2.0 * (turn @ rate)[:, None]
        else:
            omega[i] = w + rate
            alpha[i] += more + (turn @ rate)[:, None]
    twists, accelerations = [], []
    for (i, _), T_tip in zip(tip_frames(robot), at.T_tips):
        r, turn = T_tip[:3, 3] - p[i], skew(omega[i])
        twists += [omega[i], speed[i] + turn @ r]
        accelerations += [alpha[i], a[i] + skew(r).T @ alpha[i]
                          + (turn @ turn @ r + gravity)[:, None]]
    return omega[:b], alpha[:b], a[:b], np.concatenate(twists), np.vstack(accelerations)


def inverse_dynamics(robot: Robot, q: Array, qd: Array, qdd: Array, gravity: Array) -> Array:
    """Joint torques M q̈ + C + G (n, k) [N·m; N for prismatic], by the Newton-Euler equations."""
    # q (nq,), qd (n,); qdd (n, k): k accelerations; gravity (3,), base frame [m/s²].
    at = placement(robot, q)
    omega, alpha, a, _, _ = motion(robot, at, qd, qdd, gravity)
    b, k = len(robot.parent), qdd.shape[1]
    tau = np.empty((robot.n, k))
    moment, force = np.zeros((b + 1, 3, k)), np.zeros((b + 1, 3, k))
    p = np.vstack([at.p, np.zeros(3)])
    for i in reversed(range(b)):
        I, turn = robot.inertia[i], skew(omega[i])
        R, mass = at.R[i], I[5, 5]
        mc = R @ np.array([I[2, 4], I[0, 5], I[1, 3]])
        I_o = R @ I[:3, :3] @ R.T
        force[i] += (mass * a[i] + skew(mc).T @ alpha[i]
                     + (turn @ turn @ mc)[:, None])
        moment[i] += (I_o @ alpha[i] + skew(mc) @ a[i]
                      + (turn @ I_o @ omega[i])[:, None])
        own, axes = _freedoms(robot, at, i)
        tau[own] = axes.T @ (force[i] if robot.prismatic[i] else moment[i])
        parent = int(robot.parent[i])
        force[parent] += force[i]
        moment[parent] += moment[i] + skew(p[i] - p[parent]) @ force[i]
    return tau + robot.rotor_inertia[:, None] * qdd


def mass_matrix(robot: Robot, q: Array) -> Array:
    """Joint-space inertia M (n, n); its columns are the torques for unit accelerations."""
    M = inverse_dynamics(robot, q, np.zeros(robot.n), np.eye(robot.n), np.zeros(3))
    return 0.5 * (M + M.T)
