# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Pairs of links that need no comparison, found at random postures, as MoveIt's assistant does."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.link_shapes import Pair, ShapeModel
from osc_ros.dynamics.algebra.kinematics import link_frame, placement
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

ALWAYS = 0.95  # share of the postures in which a pair is close, as in MoveIt's assistant
CLOSE = 0.02  # distance below which a pair is close: the default margin of `Clearance` [m]
FREE_RANGE = np.pi  # of a joint without limits: ± this [rad, m]
AT_ONCE = 500  # postures in one array
PARALLEL = 1e-12  # of det / (a e): segments with a smaller one count as parallel


def segment_distances(first: Array, second: Array) -> Array:
    """
    Return the distances (…) of pairs of segments, (…, 2, 3) each: ends [m].

    Source: C. Ericson, Real-Time Collision Detection, 2005, section 5.1.9.

    """
    d1, d2 = first[..., 1, :] - first[..., 0, :], second[..., 1, :] - second[..., 0, :]
    r = first[..., 0, :] - second[..., 0, :]
    a, e = (d1 * d1).sum(-1), (d2 * d2).sum(-1)
    b, c, f = (d1 * d2).sum(-1), (d1 * r).sum(-1), (d2 * r).sum(-1)
    det = a * e - b * b
    s = np.clip(_ratio(b * f - c * e, np.where(det > PARALLEL * a * e, det, 0.0)), 0.0, 1.0)
    t = np.clip(_ratio(b * s + f, e), 0.0, 1.0)
    s = np.clip(_ratio(b * t - c, a), 0.0, 1.0)
    return np.asarray(np.linalg.norm(r + s[..., None] * d1 - t[..., None] * d2, axis=-1))


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Return the ratio, and 0 where the denominator is 0."""
    usable = denominator > 0.0
    return np.where(usable, numerator / np.where(usable, denominator, 1.0), 0.0)


def link_distances(robot: Robot, model: ShapeModel, positions: Array) -> dict[Pair, Array]:
    """
    Return the distances (S,) [m] of all pairs of links, at positions (S, nq).

    The distance is negative where shapes overlap. InputError for a link that the robot lacks.

    """
    model.require_links(robot.frames, f"shapes of '{robot.name}'")
    links = model.links
    of_link = {link: [i for i, shape in enumerate(model.shapes) if shape.link == link]
               for link in links}
    rows = [(i, j, k) for k, (one, other) in enumerate(combinations(links, 2))
            for i in of_link[one] for j in of_link[other]]
    i, j, k = np.array(rows, dtype=np.intp).reshape(-1, 3).T
    radii = np.array([shape.radius for shape in model.shapes])
    pairs = [frozenset(pair) for pair in combinations(links, 2)]
    least = np.full((len(positions), len(pairs)), np.inf)
    for begin in range(0, len(positions), AT_ONCE):
        ends = _ends(robot, model, positions[begin:begin + AT_ONCE])
        gaps = segment_distances(ends[:, i], ends[:, j]) - (radii[i] + radii[j])
        np.minimum.at(least[begin:begin + AT_ONCE].T, k, gaps.T)
    return dict(zip(pairs, least.T))


def _ends(robot: Robot, model: ShapeModel, positions: Array) -> Array:
    """Return the ends of all shapes in the base frame, (S, shapes, 2, 3)."""
    frames = [link_frame(robot, shape.link) for shape in model.shapes]
    local = np.array([shape.ends @ T[:3, :3].T + T[:3, 3]
                      for shape, (_, T) in zip(model.shapes, frames)])
    body = np.array([body for body, _ in frames])
    R = np.tile(np.eye(3), (len(positions), len(robot.parent) + 1, 1, 1))
    p = np.zeros((len(positions), len(robot.parent) + 1, 3))
    for n, q in enumerate(positions):
        at = placement(robot, q)
        R[n, :-1], p[n, :-1] = at.R, at.p  # the last row is the base, body -1
    return np.asarray(np.einsum('nsij,sej->nsei', R[:, body], local) + p[:, body, None])


def random_positions(robot: Robot, samples: int, seed: int) -> Array:
    """Return random positions (samples, nq) within the limits."""
    random = np.random.default_rng(seed)
    q = np.empty((samples, robot.nq))
    for spherical, at, v in zip(robot.spherical, robot.q_index, robot.v_index):
        if spherical:
            q[:, at:at + 4] = random.normal(size=(samples, 4))
            continue
        low, high = robot.position_limits[v]
        low = low if np.isfinite(low) else min(-FREE_RANGE, high)
        high = high if np.isfinite(high) else max(FREE_RANGE, low)
        q[:, at] = random.uniform(low, high, samples)
    return q


def pairs_never_near(robot: Robot, model: ShapeModel, samples: int = 10_000, seed: int = 0,
                     margin: float = 0.05, default: Array | None = None) -> dict[Pair, str]:
    """
    Return the reason for each pair of links that need not be compared.

    Parameters
    ----------
    robot : Robot
    model : ShapeModel
    samples, seed : int
        Number of random postures within the limits, and their seed.
    margin : float [m]
        A pair is near in a posture if its distance is at most this.
    default : (nq,), optional
        Posture in which no pair may be close; default: each joint in the middle of its limits.

    Returns
    -------
    dict of frozenset of str to str
        'Adjacent': one body, or bodies that a joint connects; 'Always': the shapes are nearer than
        CLOSE in at least ALWAYS of the postures; 'Default': they are in the default posture;
        'Never': they are near in no posture.

    """
    first = _middle(robot) if default is None else np.asarray(default, dtype=np.float64)
    at = np.concatenate([first[None], random_positions(robot, samples, seed)])
    found = {}
    for pair, distances in link_distances(robot, model, at).items():
        one, other = (robot.frames[link][0] for link in pair)
        if one == other or one == _parent(robot, other) or other == _parent(robot, one):
            found[pair] = 'Adjacent'
        elif (distances[1:] < CLOSE).mean() >= ALWAYS:
            found[pair] = 'Always'
        elif distances[0] < CLOSE:
            found[pair] = 'Default'
        elif distances.min() > margin:
            found[pair] = 'Never'
    return found


def _parent(robot: Robot, body: int) -> int | None:
    """Return the body on which the joint of a body is; None for the base."""
    if body < 0:
        return None
    joint = robot.joints[body]  # several bodies in a row if it has several freedoms
    while body >= 0 and robot.joints[body] == joint:
        body = int(robot.parent[body])
    return body


def _middle(robot: Robot) -> Array:
    """Return the posture with each joint in the middle of its limits, 0 without them, (nq,)."""
    q = robot.neutral.copy()
    free = ~robot.spherical
    at, limits = robot.q_index[free], robot.position_limits[robot.v_index[free]]
    bounded = np.isfinite(limits).all(axis=1)
    q[at[bounded]] = limits[bounded].mean(axis=1)
    return q
