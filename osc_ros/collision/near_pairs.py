# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Which links come near each other, found at random postures.

So it is known which pairs need no comparison, as in MoveIt's assistant; where links come near
others, and so have to be enclosed closely; and how many capsules are worth their comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from osc_ros.collision.enclosing import Visits
from osc_ros.collision.link_shapes import LinkShape, Pair, ShapeModel
from osc_ros.dynamics.algebra.kinematics import are_adjacent, link_frame, placement
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

ALWAYS = 0.95  # share of the postures in which a pair is close, as in MoveIt's assistant
CLOSE = 0.02  # distance below which a pair is close: the default margin of `Clearance` [m]
FREE_RANGE = np.pi  # of a joint without limits: ± this [rad, m]
AT_ONCE = 500  # postures in one array
VISITED = 0.05  # distance below which links visit each other [m]
SLOWS, SLOWED = 0.04, 0.05  # a nearer pair is slowed down [m]; its cost relative to CLOSE
VISITS, POINTS, BODY = 300, 400, 3000  # postures; points of the visiting link, of the visited one
NEAREST, MOST_VISITS = 3, 800  # points of a visit; of all visits of a body
PRICE = 5e-4  # share of the postures in which a pair of capsules must avoid to hold off its links
PARALLEL = 1e-12  # of det / (a e): segments with a smaller one count as parallel


def segment_distances(first: Array, second: Array) -> Array:
    """Return the distances (…) of pairs of segments, (…, 2, 3) each: ends [m]."""
    # Source: C. Ericson, Real-Time Collision Detection, 2005, section 5.1.9.
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
    """Return the distances (S,) [m] of all pairs of links, at positions (S, nq)."""
    # Negative where shapes overlap. InputError for a link that the robot lacks.
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
    R, p = _frames(robot, [shape.link for shape in model.shapes], positions)
    local = np.array([shape.ends for shape in model.shapes])
    return np.asarray(np.einsum('nsij,sej->nsei', R, local) + p[:, :, None])


def _frames(robot: Robot, links: Sequence[str], positions: Array) -> tuple[Array, Array]:
    """Return the axes (S, links, 3, 3) and origins (S, links, 3) of links in the base frame."""
    frames = [link_frame(robot, link) for link in links]
    body, T = np.array([body for body, _ in frames]), np.array([T for _, T in frames])
    R = np.tile(np.eye(3), (len(positions), len(robot.parent) + 1, 1, 1))
    p = np.zeros((len(positions), len(robot.parent) + 1, 3))
    for n, q in enumerate(positions):
        at = placement(robot, q)
        R[n, :-1], p[n, :-1] = at.R, at.p  # the last row is the base, body -1
    R, p = R[:, body], p[:, body]
    return R @ T[:, :3, :3], np.einsum('nlij,lj->nli', R, T[:, :3, 3]) + p


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


def visits_of(robot: Robot, links: Sequence[str], bodies: Sequence[Array], seed: int = 1
              ) -> list[Visits]:
    """Return the visits to each body; a body is surface points (m, 3) in its link's frame [m]."""
    # A visit: two bodies are nearer than VISITED, but not than CLOSE, which is to be held off.
    # Left out: neighbours, and bodies near in almost all postures, which capsules hold off anyhow.
    R, p = _frames(robot, links, random_positions(robot, VISITS, seed))
    trees = [cKDTree(body[::max(len(body) // BODY, 1)]) for body in bodies]
    few = [body[::max(len(body) // POINTS, 1)] for body in bodies]
    found: list[list[Array]] = [[] for _ in bodies]
    for i, j in product(range(len(bodies)), repeat=2):
        if i == j or are_adjacent(robot, links[i], links[j]):
            continue
        points = few[j] @ R[:, j].swapaxes(1, 2) + (p[:, j] - p[:, i])[:, None]
        points = points @ R[:, i]  # in the frame of link i
        away = trees[i].query(points, distance_upper_bound=VISITED)[0]
        least = away.min(axis=1)
        if (least < VISITED).mean() >= ALWAYS:
            continue
        for n in np.flatnonzero((least > CLOSE) & (least < VISITED)):
            found[i].append(points[n, np.argsort(away[n], kind='stable')[:NEAREST]])
    return [_visits(one) for one in found]


def _visits(found: list[Array]) -> Visits:
    """Return at most MOST_VISITS points, which weigh as much as all of them."""
    points = np.concatenate([np.zeros((0, 3)), *found])
    few = points[np.unique(np.linspace(0, len(points) - 1, MOST_VISITS).astype(int))
                 ] if len(points) else points
    return Visits(few, len(points) / max(len(few), 1) / (NEAREST * VISITS))


def chosen_shapes(robot: Robot, choices: Sequence[Sequence[tuple[LinkShape, ...]]],
                  least: Sequence[int], seed: int = 2, samples: int = 2000) -> list[int]:
    """Return for each body the index of the choice whose shapes are worth their comparisons."""
    # `choices` has the sets of shapes for each body, `least` the least number of shapes of each.
    held = _held(robot, choices, random_positions(robot, samples, seed))
    chosen = [len(one) - 1 for one in choices]

    def cost(i: int, choice: int) -> float:
        total = 0.0
        for (a, b), (share, is_compared) in held.items():
            if i in (a, b):
                at = (choice, chosen[b]) if i == a else (chosen[a], choice)
                pairs = len(choices[a][at[0]]) * len(choices[b][at[1]])
                total += share[at] + PRICE * pairs * is_compared[at]
        return total

    for _ in range(len(choices)):
        before = list(chosen)
        for i, one in enumerate(choices):
            chosen[i] = min((k for k, shapes in enumerate(one) if len(shapes) >= least[i]),
                            key=lambda k: (cost(i, k), len(one[k]), k))
        if chosen == before:
            break
    return chosen


def _held(robot: Robot, choices: Sequence[Sequence[tuple[LinkShape, ...]]], positions: Array
          ) -> dict[tuple[int, int], tuple[Array, NDArray[np.bool_]]]:
    """Return for pairs of bodies, and pairs of their choices: cost; whether it is compared."""
    shapes = [[(k, shape) for k, choice in enumerate(one) for shape in choice] for one in choices]
    ends = [_ends(robot, ShapeModel(tuple(shape for _, shape in one)), positions)
            for one in shapes]
    radii = [np.array([shape.radius for _, shape in one]) for one in shapes]
    starts = [np.searchsorted([k for k, _ in one], np.arange(one[-1][0] + 1)) for one in shapes]
    found = {}
    for a, b in combinations(range(len(choices)), 2):
        if are_adjacent(robot, choices[a][0][0].link, choices[b][0][0].link):
            continue
        gaps = segment_distances(ends[a][:, :, None], ends[b][:, None]) - (
            radii[a][:, None] + radii[b])
        least = np.minimum.reduceat(np.minimum.reduceat(gaps, starts[a], 1), starts[b], 2)
        found[a, b] = ((least < CLOSE).mean(axis=0) + SLOWED * (least < SLOWS).mean(axis=0),
                       least.min(axis=0) < VISITED)
    return found


def pairs_never_near(robot: Robot, model: ShapeModel, samples: int = 10_000, seed: int = 0,
                     margin: float = 0.05, default: Array | None = None) -> dict[Pair, str]:
    """Return, from random postures, why pairs of links need not be compared."""
    # 'Adjacent': on one body or joined; 'Always': nearer than CLOSE in ALWAYS of the postures;
    # 'Default': so at `default` (nq,), else mid-range; 'Never': never within `margin` [m].
    first = _middle(robot) if default is None else np.asarray(default, dtype=np.float64)
    at = np.concatenate([first[None], random_positions(robot, samples, seed)])
    found = {}
    for pair, distances in link_distances(robot, model, at).items():
        if are_adjacent(robot, *pair):
            found[pair] = 'Adjacent'
        elif (distances[1:] < CLOSE).mean() >= ALWAYS:
            found[pair] = 'Always'
        elif distances[0] < CLOSE:
            found[pair] = 'Default'
        elif distances.min() > margin:
            found[pair] = 'Never'
    return found


def _middle(robot: Robot) -> Array:
    """Return the posture with each joint in the middle of its limits, 0 without them, (nq,)."""
    q = robot.neutral.copy()
    free = ~robot.spherical
    at, limits = robot.q_index[free], robot.position_limits[robot.v_index[free]]
    bounded = np.isfinite(limits).all(axis=1)
    q[at[bounded]] = limits[bounded].mean(axis=1)
    return q
