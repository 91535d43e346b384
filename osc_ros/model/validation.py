# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Checks of a robot's arrays; a ModelError names the joint or link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.errors import ModelError
from osc_ros.model import urdf
from osc_ros.model.assembly import NO_MOMENT, SEMIDEFINITE_TOLERANCE

if TYPE_CHECKING:
    from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

WIDEST_PAYLOAD = 0.5  # largest radius of gyration of a payload: a bar of 1.7 m [m]
RIGID_TOLERANCE = 1e-9
SYMMETRY_TOLERANCE = 1e-12
# Smallest eigenvalue of an inertia, relative to its trace; a wire of 1 m length and 10 µm radius
# has 1e-10.
DEFINITE_TOLERANCE = 1e-12
FRICTION = ('coulomb_friction', 'viscous_friction')


def require_structure(robot: Robot) -> None:
    """Check that parents come first, that a joint has one type, and that names are unique."""
    late = robot.parent >= np.arange(len(robot.parent))
    _refuse(robot, late | (robot.parent < -1),
            'its parent does not come before it (-1 is the base)')
    _refuse(robot, robot.prismatic & robot.spherical, 'is both prismatic and spherical')
    left: set[str] = set()
    for i in range(1, len(robot.joints)):
        if robot.joints[i] != robot.joints[i - 1]:
            left.add(robot.joints[i - 1])
        elif robot.parent[i] != i - 1:
            left.add(robot.joints[i])
        if robot.joints[i] in left:
            raise ModelError(f"robot '{robot.name}': its joint names are not unique: "
                             + urdf.quoted(robot.joints))


def require_tips(robot: Robot) -> None:
    """Check that there is a tip, and that all tips are known, different and moving links."""
    if not robot.tips or len(set(robot.tips)) < len(robot.tips):
        raise ModelError(f"robot '{robot.name}': its tips are {urdf.quoted(robot.tips)}; "
                         'give one or more links, each once')
    for tip in robot.tips:
        if tip not in robot.frames:
            raise ModelError(f"tip '{tip}' is not a link of robot '{robot.name}'; "
                             + urdf.near(tip, robot.frames))
        if robot.frames[tip][0] < 0:
            raise ModelError(f"tip '{tip}' does not move: no joint is between it and base "
                             f"'{robot.base}'")


def require_numbers(robot: Robot) -> None:
    """Check that numbers are finite, poses rigid, limits positive and ordered."""
    if not np.isfinite(robot.gravity).all():
        raise ModelError(f"robot '{robot.name}': gravity is not finite")
    for link, (_, pose) in robot.frames.items():
        if not np.isfinite(pose).all():
            raise ModelError(f"robot '{robot.name}': the pose of link '{link}' is not finite")
    for name in ('T_parent_body', 'inertia'):
        finite = np.isfinite(getattr(robot, name)).all(axis=(1, 2))
        _refuse(robot, ~finite, f'{name} is not finite')
    _refuse(robot, ~are_rigid(robot.T_parent_body), 'T_parent_body is not a rigid transform')
    rotor = (robot.rotor_inertia >= 0) & np.isfinite(robot.rotor_inertia)
    _refuse_freedoms(robot, ~rotor, 'rotor_inertia must be finite and not negative')
    lower, upper = robot.position_limits.T
    _refuse_freedoms(robot, ~(lower <= upper),
                     'position_limits must be a lower and an upper bound')
    for place in lower[lower == upper][:1].tolist():
        _refuse_freedoms(robot, lower == upper, (
            f"its lower limit equals its upper, {place:g}, so it cannot move: give its range, "
            f"make it type 'fixed', or 'continuous' if it has no limits, or lock it at {place:g} "
            '(locked, parameters locked_joints and locked_positions)'))
    for name in ('velocity_limits', 'effort_limits', 'deceleration_limits'):
        _refuse_freedoms(robot, ~(getattr(robot, name) > 0),
                         f'{name} must be positive (inf: unlimited)')
    for name in FRICTION:
        value = getattr(robot, name)
        _refuse_freedoms(robot, ~((value >= 0) & np.isfinite(value)),
                         f'{name} must be finite and not negative')


def require_inertias(robot: Robot) -> None:
    """Check that inertias are physically possible, and that every joint moves inertia."""
    inertia = robot.inertia
    scale = np.abs(inertia).max(axis=(1, 2))
    skew = np.abs(inertia - inertia.transpose(0, 2, 1)).max(axis=(1, 2))
    _refuse(robot, skew > SYMMETRY_TOLERANCE * scale, 'its inertia is not symmetric')
    smallest = np.linalg.eigvalsh(inertia)[:, 0]
    _refuse(robot, smallest < -SEMIDEFINITE_TOLERANCE * scale - NO_MOMENT,
            'its inertia is not positive semi-definite')
    if not robot.definite.all():
        _require_joint_inertias(robot)


def _refuse(robot: Robot, bad: NDArray[np.bool_], what: str) -> None:
    """Raise ModelError for the joint of the first body whose entry in `bad` (b,) is true."""
    for i in np.flatnonzero(bad)[:1]:
        raise ModelError(f"joint '{robot.joints[i]}': {what}")


def _refuse_freedoms(robot: Robot, bad: NDArray[np.bool_], what: str) -> None:
    """Raise ModelError for the joint of the first degree of freedom with a true entry in `bad`."""
    for k in np.flatnonzero(bad)[:1]:
        joint = robot.joints[int(np.searchsorted(robot.v_index, k, side='right')) - 1]
        raise ModelError(f"joint '{joint}': {what}")


def _require_joint_inertias(robot: Robot) -> None:
    """Raise ModelError if a joint moves no inertia along or about its axis."""
    articulated, composite = robot.inertia.copy(), robot.inertia.copy()
    # a random position, to avoid singular ones
    q = robot.neutral + np.random.default_rng(0).uniform(0.2, 0.8, robot.nq)
    for i in reversed(range(len(robot.parent))):
        # the articulated inertia is the composite inertia minus another matrix, so its rounding
        # error is proportional to the composite inertia
        I, whole = articulated[i], composite[i]
        size = np.trace(whole[3:, 3:]) if robot.prismatic[i] else np.trace(whole[:3, :3])
        axes = [0, 1, 2] if robot.spherical[i] else [5] if robot.prismatic[i] else [2]
        own = slice(robot.v_index[i], robot.v_index[i] + len(axes))
        D = I[np.ix_(axes, axes)] + np.diag(robot.rotor_inertia[own])
        if not np.linalg.eigvalsh(D)[0] > DEFINITE_TOLERANCE * size + NO_MOMENT:
            raise ModelError(f"joint '{robot.joints[i]}': the bodies that it moves have no "
                             f'inertia {"along" if robot.prismatic[i] else "about"} its axis'
                             f'{_link_list(robot, i)}: give one of them an <inertial>, give the '
                             'joint a rotor inertia or lock it')
        if robot.parent[i] >= 0:
            U = I[:, axes]
            X = _motion_transform(robot.T_parent_body[i] @ _motion(robot, i, q))
            articulated[robot.parent[i]] += X.T @ (I - U @ np.linalg.solve(D, U.T)) @ X
            composite[robot.parent[i]] += X.T @ whole @ X


def _motion(robot: Robot, i: int, q: Array) -> Array:
    """Return the transform (4, 4) of joint i at q (nq,)."""
    T, x = np.eye(4), q[robot.q_index[i]]
    if robot.spherical[i]:
        T[:3, :3] = Rotation.from_quat(q[robot.q_index[i]:robot.q_index[i] + 4]).as_matrix()
    elif robot.prismatic[i]:
        T[2, 3] = x
    else:
        T[:2, :2] = [[np.cos(x), -np.sin(x)], [np.sin(x), np.cos(x)]]
    return T


def _link_list(robot: Robot, i: int) -> str:
    """Return the text " (links 'a', 'b')" with the links of body `i`."""
    links = [link for link, (body, _) in robot.frames.items() if body == i]
    if not links:
        return ''
    return f" (links {urdf.quoted(links[:9])}{' …' if links[9:] else ''})"


def require_compact(mass: float, center: Array, inertia: Array, farthest: float = 2.0) -> None:
    """Raise ModelError for a payload with a far too large inertia, or a centre far away."""
    # Its unit is wrong then, and torques for it would throw the arm. `inertia` is (3, 3); `center`
    # (3,) may be up to `farthest` from the origin of its link [m].
    away, moment = float(np.linalg.norm(center)), float(np.abs(inertia).max(initial=0.0))
    if mass > 0.0 and away > farthest:
        raise ModelError(
            f'payload: centre of mass {center.tolist()} m is {away:.3g} m from the origin of its '
            f'link (millimetres? Then it is {away / 1e3:.3g} m): must be at most '
            f'{farthest:g} m')
    if mass > 0.0 and moment > mass * WIDEST_PAYLOAD ** 2:
        raise ModelError(
            f'payload: inertia {inertia.tolist()} kg m² with a mass of {mass:g} kg, as if the '
            f'mass were {np.sqrt(moment / mass):.3g} m from its centre: must be up to '
            f'{WIDEST_PAYLOAD:g} m (units: kg mm² is 1e-6 kg m², g cm² is 1e-7 kg m²)')


def are_rigid(T: Array) -> NDArray[np.bool_]:
    """Whether each of k transforms T (k, 4, 4) is rigid, (k,) bool."""
    R = T[:, :3, :3]
    rigid = np.abs(R @ R.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) < RIGID_TOLERANCE
    rigid &= np.linalg.det(R) > 0
    rigid &= (T[:, 3] == [0.0, 0.0, 0.0, 1.0]).all(axis=1)
    return np.asarray(rigid)


def why_not_rigid(T: Array) -> str:
    """Return how a matrix T (4, 4) that is no pose differs from one, and what must be given."""
    must = 'must be a rotation and a position, [[R, p], [0, 0, 0, 1]]'
    if not np.isfinite(T).all():
        return f'has numbers that are not finite: it {must}'
    if T[3, :3].any() and are_rigid(T.T[None])[0]:
        return f'is transposed, with the position {T[3, :3].tolist()} in its last row: it {must}'
    if np.abs(T[3] - [0.0, 0.0, 0.0, 1.0]).max() > RIGID_TOLERANCE:
        return f'has the last row {T[3].tolist()}: it {must}'
    R = T[:3, :3]
    if np.linalg.det(R) < 0.0:
        return f'mirrors (its determinant is {np.linalg.det(R):.3g}): it {must}'
    return (f'has axes that are not orthogonal unit vectors, off by '
            f'{np.abs(R @ R.T - np.eye(3)).max():.3g}: it {must}')


def _motion_transform(T: Array) -> Array:
    """Motion transform X (6, 6) from the parent to a body with the pose T (4, 4) in the parent."""
    R_t = T[:3, :3].T
    X = np.zeros((6, 6))
    X[:3, :3] = X[3:, 3:] = R_t
    X[3:, :3] = -R_t @ urdf.cross_matrices(T[None, :3, 3])[0]
    return X
