"""Kinematics and inverse dynamics as the textbooks write them, readable, in numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Placement(NamedTuple):
    """
    Where the bodies are.

    Attributes
    ----------
    R : (n, 3, 3)
        Axes of every body, in base axes.
    p : (n, 3)
        Origin of every body, in the base frame [m].
    T_tip : (4, 4)
        Pose of the tip in the base frame.

    """

    R: Array
    p: Array
    T_tip: Array


def skew(a: Array) -> Array:
    """a×: the (3, 3) matrix with a× b = a × b."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def placement(robot: Robot, q: Array) -> Placement:
    """Every body and the tip at joint positions q (n,)."""
    R, p = np.empty((robot.n, 3, 3)), np.empty((robot.n, 3))
    T = np.eye(4)
    for i in range(robot.n):
        T_joint = np.eye(4)
        if robot.prismatic[i]:
            T_joint[2, 3] = q[i]
        else:
            c, s = np.cos(q[i]), np.sin(q[i])
            T_joint[:2, :2] = [[c, -s], [s, c]]
        T = T @ robot.T_parent_body[i] @ T_joint
        R[i], p[i] = T[:3, :3], T[:3, 3]
    return Placement(R, p, T @ robot.T_body_tip)


def jacobian(robot: Robot, at: Placement) -> Array:
    """Natural Jacobian J (6, n) of the tip, base axes, [angular; linear] (000, eq. 4)."""
    z = at.R[:, :, 2]
    lever = np.cross(z, at.T_tip[:3, 3] - at.p)
    turning = ~robot.prismatic[:, None]
    return np.hstack([np.where(turning, z, 0.0), np.where(turning, lever, z)]).T


def motion(robot: Robot, at: Placement, qd: Array, qdd: Array, gravity: Array
           ) -> tuple[Array, Array, Array, Array, Array]:
    """
    Velocities and accelerations from the base outward, for k motions at once.

    Parameters
    ----------
    qd : (n,)
    qdd : (n, k)
    gravity : (3,)
        The base accelerates by -gravity instead.

    Returns
    -------
    omega, alpha, a : (n, 3), (n, 3, k), (n, 3, k)
        Of every body and its origin, base axes.
    twist, acceleration : (6,), (6, k)
        Of the tip, with the gravity taken out again, [angular; linear], classical.

    """
    k = qdd.shape[1]
    omega, alpha, a = np.zeros((robot.n, 3)), np.zeros((robot.n, 3, k)), np.zeros((robot.n, 3, k))
    w, v, dw = np.zeros(3), np.zeros(3), np.zeros((3, k))
    dv = np.repeat(-gravity[:, None], k, axis=1)
    origin = np.zeros(3)
    for i in range(robot.n):
        z, r = at.R[i, :, 2], at.p[i] - origin
        v = v + np.cross(w, r)
        dv = dv + skew(r).T @ dw + np.cross(w, np.cross(w, r))[:, None]
        if robot.prismatic[i]:
            v = v + z * qd[i]
            dv = dv + np.outer(z, qdd[i]) + 2.0 * np.cross(w, z * qd[i])[:, None]
        else:
            dw = dw + np.outer(z, qdd[i]) + np.cross(w, z * qd[i])[:, None]
            w = w + z * qd[i]
        origin = at.p[i]
        omega[i], alpha[i], a[i] = w, dw, dv
    r = at.T_tip[:3, 3] - origin
    twist = np.concatenate([w, v + np.cross(w, r)])
    dv = dv + skew(r).T @ dw + np.cross(w, np.cross(w, r))[:, None] + gravity[:, None]
    return omega, alpha, a, twist, np.vstack([dw, dv])


def inverse_dynamics(robot: Robot, q: Array, qd: Array, qdd: Array, gravity: Array) -> Array:
    """
    Joint torques M q̈ + C + G by Newton and Euler, for k accelerations at once.

    Parameters
    ----------
    q, qd : (n,)
    qdd : (n, k)
    gravity : (3,)
        Base frame [m/s²].

    Returns
    -------
    (n, k) [N·m; N for prismatic]

    """
    at = placement(robot, q)
    omega, alpha, a, _, _ = motion(robot, at, qd, qdd, gravity)
    k = qdd.shape[1]
    tau = np.empty((robot.n, k))
    moment, force = np.zeros((3, k)), np.zeros((3, k))
    outer = at.T_tip[:3, 3]
    for i in reversed(range(robot.n)):
        I = robot.inertia[i]
        R, mass = at.R[i], I[5, 5]
        mc = R @ np.array([I[2, 4], I[0, 5], I[1, 3]])
        I_o = R @ I[:3, :3] @ R.T
        # the moment about this origin of what the next body passes on
        moment = moment + skew(outer - at.p[i]) @ force
        own = (mass * a[i] + skew(mc).T @ alpha[i]
               + np.cross(omega[i], np.cross(omega[i], mc))[:, None])
        force = force + own
        moment = (moment + I_o @ alpha[i] + skew(mc) @ a[i]
                  + np.cross(omega[i], I_o @ omega[i])[:, None])
        z = R[:, 2]
        tau[i] = z @ (force if robot.prismatic[i] else moment)
        outer = at.p[i]
    return tau + robot.rotor_inertia[:, None] * qdd


def mass_matrix(robot: Robot, q: Array) -> Array:
    """Joint-space inertia M (n, n): its columns are the torques of unit accelerations."""
    M = inverse_dynamics(robot, q, np.zeros(robot.n), np.eye(robot.n), np.zeros(3))
    return 0.5 * (M + M.T)


def link_pose(robot: Robot, q: Array, link: str) -> Array:
    """
    Pose (4, 4) of any link of the description in the base frame, at joint positions q (n,).

    Raises
    ------
    InputError
        If the robot has no such link; the message lists those that it has.

    """
    if link not in robot.frames:
        raise InputError(f"frame '{link}' is not a link of robot '{robot.name}' "
                         f"(links: {', '.join(sorted(robot.frames))})")
    body, T_body_link = robot.frames[link]
    if body < 0:
        return np.array(T_body_link)
    at = placement(robot, q)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = at.R[body], at.p[body]
    return T @ T_body_link
