# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Encloses a body by few capsules.

A body is given by cells, small convex pieces whose union has its surface, such as triangles. A
capsule is convex, so it contains a cell if it contains the cell's points. Each cell lies in one
capsule as a whole; so the union of the capsules contains the surface.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree, ConvexHull, QhullError

Array = NDArray[np.float64]
Capsule = tuple[Array, float]  # ends (2, 3), radius [m]

MOST = 3  # capsules around a body
GAIN, LEAST_GAIN = 0.85, 0.003  # another capsule must lower `beyond` to this share, by this [m]
CUTS = tuple(i / 10.0 for i in range(2, 9))  # of the length of a part, where it may be divided
TRIED = 8  # divisions that are optimized, of all
ROUNDS, ADDED = 12, 12  # of the fit: rounds, and points added in each
SURFACE = 400  # points on the surface of a capsule
CELL = 0.012  # largest edge of a divided triangle [m]


@dataclass(frozen=True, eq=False)
class Enclosure:
    """
    Capsules around a body.

    Attributes
    ----------
    capsules : tuple of ((2, 3), float)
        Ends and radius [m].
    beyond : float [m]
        Largest distance of a point of the capsules from the body.
    ratio : float
        Volume of the capsules' union, relative to the convex hull of the body.

    """

    capsules: tuple[Capsule, ...]
    beyond: float
    ratio: float


def enclosure(cells: Array, most: int = MOST) -> Enclosure:
    """
    Return at most `most` capsules around cells (m, k, 3) [m].

    The first capsule has about the least volume. Each further one replaces the capsule of a part
    by two. Of these results, one with more capsules is returned if `beyond` is noticeably smaller:
    see GAIN.

    """
    tree = cKDTree(np.concatenate([cells.reshape(-1, 3), cells.mean(axis=1)]))
    parts, capsules = [cells], [capsule_around(cells.reshape(-1, 3))]
    best, far = capsules, beyond(capsules, tree)
    while len(parts) < most and (found := _divided(parts, capsules, tree)) is not None:
        parts, capsules, nearer = found
        more = len(capsules) - len(best)
        if nearer <= min(GAIN**more * far, far - more * LEAST_GAIN):
            best, far = capsules, nearer
    return Enclosure(tuple(best), far, _volume_ratio(best, cells.reshape(-1, 3)))


def _divided(parts: list[Array], capsules: list[Capsule], tree: Any
             ) -> tuple[list[Array], list[Capsule], float] | None:
    """Return parts, capsules and `beyond` after the best division of one part into two."""
    tried = []
    for i, axis, cut in product(range(len(parts)), range(3), CUTS):
        centers = parts[i].mean(axis=1)
        along = centers @ _axes(centers)[:, axis]
        low = along < np.quantile(along, 0) + cut * np.ptp(along)
        if low.all() or not low.any():
            continue
        halves = [parts[i][low], parts[i][~low]]
        new = [_starts(_hull(half.reshape(-1, 3)))[0] for half in halves]
        tried.append((beyond([*capsules[:i], *new, *capsules[i + 1:]], tree), i, halves))
    best = None
    for _, i, halves in sorted(tried, key=lambda one: one[0])[:TRIED]:
        new = [capsule_around(half.reshape(-1, 3)) for half in halves]
        found = [*capsules[:i], *new, *capsules[i + 1:]]
        far = beyond(found, tree)
        if best is None or far < best[2]:
            best = [*parts[:i], *halves, *parts[i + 1:]], found, far
    return best


def capsule_around(points: Array) -> Capsule:
    """Return a capsule of about the least volume that contains points (m, 3) [m]."""
    hull = _hull(points)
    return min((_fitted(hull, start) for start in _starts(hull)), key=volume)


def volume(capsule: Capsule) -> float:
    """Return the volume of a capsule [m³]."""
    (a, b), r = capsule
    return float(np.pi * r * r * (np.linalg.norm(b - a) + 4.0 / 3.0 * r))


def distances(points: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Distances (m,) of points from a segment, their directions (m, 3), and places 0 … 1 (m,)."""
    u = ends[1] - ends[0]
    length2 = float(u @ u)
    t = np.clip((points - ends[0]) @ u / length2, 0.0, 1.0) if length2 > 0.0 else np.zeros(
        len(points))
    away = points - ends[0] - t[:, None] * u
    d = np.linalg.norm(away, axis=1)
    return d, away / np.where(d > 0.0, d, 1.0)[:, None], t


def beyond(capsules: list[Capsule], tree: Any) -> float:
    """Return the largest distance [m] of the surface of capsules from the points of a tree."""
    far = 0.0
    for i, capsule in enumerate(capsules):
        points = _surface(capsule)
        for ends, r in (*capsules[:i], *capsules[i + 1:]):
            points = points[distances(points, ends)[0] >= r - 1e-9]
        if len(points):
            far = max(far, float(tree.query(points)[0].max()))
    return far


def _hull(points: Array) -> Array:
    """Return the vertices of the convex hull of points; all points if they are in a plane."""
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):
        return np.unique(points, axis=0)


def _axes(points: Array) -> Array:
    """Return the principal axes of points in the columns, (3, 3), the longest first."""
    x = points - points.mean(axis=0)
    return np.asarray(np.linalg.eigh(x.T @ x)[1][:, ::-1])


def _starts(points: Array) -> list[Capsule]:
    """Return a capsule around the points along each principal axis, the longest axis first."""
    axes, found = _axes(points), []
    for i in range(3):
        frame = np.roll(axes, -i, axis=1)
        x = points @ frame
        middle = 0.5 * (x.min(axis=0) + x.max(axis=0))
        r = np.linalg.norm(x[:, 1:] - middle[1:], axis=1).max()
        half = max(0.5 * np.ptp(x[:, 0]) - r, 0.0)
        ends = np.array([middle - (half, 0, 0), middle + (half, 0, 0)]) @ frame.T
        found.append((ends, float(distances(points, ends)[0].max())))
    return found


def _fitted(points: Array, start: Capsule) -> Capsule:
    """Return a capsule around the points with less volume than the start, or the start."""
    origin, scale = points.mean(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    points = (points - origin) / scale
    ends, best = (start[0] - origin) / scale, start
    if np.ptp(ends, axis=0).max() < 1e-3:  # a direction of the length for the solver
        ends = ends + 0.02 * np.outer([-1.0, 1.0], _axes(points)[:, 0])
    x = np.append(ends.ravel(), start[1] / scale)
    used = np.zeros(len(points), dtype=bool)
    for _ in range(ROUNDS):
        gap = distances(points, x[:6].reshape(2, 3))[0] - x[6]
        used[np.argsort(gap)[-ADDED:]] = True
        chosen = points[used]
        x = minimize(_volume_and_slope, x, jac=True, method='SLSQP', constraints={
            'type': 'ineq', 'fun': _room, 'jac': _room_slope, 'args': (chosen,)},
            options={'maxiter': 50, 'ftol': 1e-8}).x
        if not np.isfinite(x).all():
            return best
        ends = x[:6].reshape(2, 3)
        farthest = float(distances(points, ends)[0].max())
        found = ends * scale + origin, farthest * scale
        best = min(best, found, key=volume)
        if farthest < x[6] + 1e-5:
            break
    return best


def _volume_and_slope(x: Array) -> tuple[float, Array]:
    u, r = x[3:6] - x[:3], x[6]
    length = float(np.linalg.norm(u)) or 1e-9
    n = np.pi * r * r * u / length
    return (float(np.pi * r * r * (length + 4.0 / 3.0 * r)),
            np.array([*-n, *n, 2.0 * np.pi * r * (length + 2.0 * r)]))


def _room(x: Array, points: Array) -> Array:
    return np.asarray(x[6] - distances(points, x[:6].reshape(2, 3))[0])


def _room_slope(x: Array, points: Array) -> Array:
    _, n, t = distances(points, x[:6].reshape(2, 3))
    return np.hstack([(1.0 - t)[:, None] * n, t[:, None] * n, np.ones((len(points), 1))])


def _surface(capsule: Capsule) -> Array:
    """Return about SURFACE points, evenly on the surface of a capsule, (m, 3) [m]."""
    (a, b), r = capsule
    length = float(np.linalg.norm(b - a))
    axis = (b - a) / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
    k = np.arange(SURFACE)
    h = (k + 0.5) / SURFACE * (length + 2.0 * r) - r  # equal areas have equal heights
    z = np.where(h < 0.0, h, np.maximum(h - length, 0.0))  # relative to the nearest end
    side = np.linalg.svd(axis[None])[2][1:]
    around = np.stack([np.cos(2.399963 * k), np.sin(2.399963 * k)], axis=1) @ side
    rho = np.sqrt(np.maximum(r * r - z * z, 0.0))
    return np.asarray(a + h[:, None] * axis + rho[:, None] * around)


def _volume_ratio(capsules: list[Capsule], points: Array) -> float:
    """Return the volume of a union of capsules relative to the hull of points; inf if it is 0."""
    try:
        hull = ConvexHull(points).volume
    except (QhullError, ValueError):
        return float('inf')
    low = np.min([ends.min(axis=0) - r for ends, r in capsules], axis=0)
    high = np.max([ends.max(axis=0) + r for ends, r in capsules], axis=0)
    grid = np.stack(np.meshgrid(*(np.linspace(0.0, 1.0, 48) for _ in range(3))), axis=-1)
    grid = low + grid.reshape(-1, 3) * (high - low)
    inside = np.any([distances(grid, ends)[0] <= r for ends, r in capsules], axis=0)
    return float(inside.mean() * np.prod(high - low) / hull)


def divided_triangles(triangles: Array, most: float = CELL) -> Array:
    """Return the triangles (m, 3, 3), divided until no edge is longer than `most` [m]."""
    done = []
    while len(triangles):
        edges = np.linalg.norm(triangles - np.roll(triangles, -1, axis=1), axis=2)
        short = edges.max(axis=1) <= most
        done.append(triangles[short])
        long, i = triangles[~short], edges[~short].argmax(axis=1)
        rows = np.arange(len(long))
        a, b, c = (long[rows, (i + shift) % 3] for shift in range(3))  # a b is the longest edge
        middle = 0.5 * (a + b)
        triangles = np.concatenate([np.stack([a, middle, c], 1), np.stack([middle, b, c], 1)])
    return np.concatenate(done)
