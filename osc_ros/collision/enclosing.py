# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Encloses a body by few capsules.

A body is given by cells, small convex pieces whose union has its surface, such as triangles. A
capsule is convex, so it contains a cell if it contains the cell's points. Each cell lies in one
capsule as a whole; so the union of the capsules contains the surface.

Capsules are to be small, and above all where other links come near: there they hold links off
that could go on. So a cost has two parts: the volume, and how closely the capsules come to points
where other links have been (`Visits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial import cKDTree, ConvexHull, QhullError

Array = NDArray[np.float64]
Capsule = tuple[Array, float]  # ends (2, 3), radius [m]
Cover = tuple[NDArray[np.bool_], Array]  # of a capsule: points of the grid within REACH; gaps [m]

MOST = 4  # capsules around a body
GAIN, LEAST_GAIN = 0.85, 0.003  # another capsule must lower `beyond` to this share, by this [m]
VOLUME = 0.2  # cost of a volume as large as that of a capsule around the body
REACH = 0.05  # the volume that counts is that of all points nearer than this to the capsules [m]
AVOIDED = 0.04  # distance from the capsules at which a visit begins to cost [m]
CUTS = 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95  # of the length of a part, to divide it
TRIED = 8  # divisions that are optimized, of all
EXCHANGES = 8  # largest number of times that the parts exchange cells
BETTER = 2e-3  # least relative gain of an exchange
ROUNDS, ADDED = 12, 12  # of the fit: rounds, and points added in each
GRID, RANKED = 10_000, 2_000  # points of the grid; of a part, to rank divisions
SURFACE = 400  # points on the surface of a capsule
CELL = 0.012  # largest edge of a divided triangle [m]


class Visits(NamedTuple):
    """Points of other links that came near a body."""

    points: Array  # (n, 3) in the frame of the body [m]
    weight: float  # cost of a capsule that reaches a point


NO_VISITS = Visits(np.zeros((0, 3)), 0.0)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Capsules around a body."""

    capsules: tuple[Capsule, ...]
    beyond: float  # largest distance of a point of the capsules from the body [m]
    ratio: float  # volume of the capsules' union, relative to the convex hull of the body


def number_by_distance(beyonds: Sequence[float]) -> int:
    """Return a number of capsules, given `beyond` [m] with 1, 2, … capsules: see GAIN."""
    best = 1
    for number, distance in enumerate(beyonds, 1):
        more, far = number - best, beyonds[best - 1]
        if distance <= min(GAIN**more * far, far - more * LEAST_GAIN):
            best = number
    return best


def enclosures(cells: Array, most: int = MOST, visits: Visits = NO_VISITS) -> list[Enclosure]:
    """Return capsules around cells (m, k, 3) [m]: one, two, … at most `most` in number."""
    # The first capsule has about the least cost. Each further one replaces the capsule of a part
    # by two, and then the parts exchange cells.
    body = _Body(cells, visits)
    of_cell = np.zeros(len(cells), dtype=np.intp)
    capsules = [body.capsule(of_cell == 0)]
    found: list[Enclosure] = []
    while True:
        found.append(Enclosure(tuple(capsules), beyond(capsules, body.tree),
                               _volume_ratio(capsules, body.points)))
        if len(found) == most:
            return found
        tried = [_exchanged(body, *one) for one in _divided(body, of_cell, capsules)]
        if not tried:
            return found
        of_cell, capsules, _ = min(tried, key=lambda one: one[2])


class _Body:
    """Cells as indices of points, visits, and a grid of points that measures volumes."""

    def __init__(self, cells: Array, visits: Visits) -> None:
        self.points, index = np.unique(cells.reshape(-1, 3), axis=0, return_inverse=True)
        self.cells = index.reshape(cells.shape[:2])
        self.centers = cells.mean(axis=1)
        self.visits = visits
        self.volume = max(volume(_around(self.points)), 1e-12)
        low, high = (self.points.min(axis=0) - 2.0 * REACH, self.points.max(axis=0) + 2.0 * REACH)
        step = float(np.prod(high - low) / GRID) ** (1 / 3)
        self._grid = np.stack(np.meshgrid(*(np.arange(a, b, step)
                                            for a, b in zip(low, high))), axis=-1).reshape(-1, 3)
        self.tree = cKDTree(np.concatenate([self.points, self.centers]))
        self._weight = VOLUME / self.volume * step**3

    def cover(self, capsule: Capsule) -> Cover:
        """Return what a capsule adds to the cost: see `Cover`."""
        (ends, r), points = capsule, self.visits.points
        return (distances(self._grid, ends)[0] <= r + REACH, distances(points, ends)[0] - r)

    def cost(self, covers: list[Cover]) -> float:
        """Return the cost of capsules with these covers."""
        inside = np.any([one[0] for one in covers], axis=0).sum()
        gap = np.min([one[1] for one in covers], axis=0)
        near = np.maximum(1.0 - gap / AVOIDED, 0.0)
        return float(self._weight * inside + self.visits.weight * (near * near).sum())

    def capsule(self, chosen: NDArray[np.bool_], start: Capsule | None = None) -> Capsule:
        """Return a capsule of about the least cost around the chosen cells."""
        hull = _hull(self.points[np.unique(self.cells[chosen])])
        ends, _ = start or _fitted(hull, _around(hull))
        return _fitted(hull, (ends, float(distances(hull, ends)[0].max())), self)

    def excess(self, capsules: list[Capsule]) -> Array:
        """Return the largest distances of the cells from capsules, (k, m); negative: inside."""
        return np.stack([distances(self.points, ends)[0][self.cells].max(axis=1) - r
                         for ends, r in capsules])


def _divided(body: _Body, of_cell: NDArray[np.intp], capsules: list[Capsule]
             ) -> list[tuple[NDArray[np.intp], list[Capsule]]]:
    """Return the most promising divisions of a part: of each cell its part; the capsules."""
    tried, covers = [], [body.cover(one) for one in capsules]
    for i in range(len(capsules)):
        own = np.flatnonzero(of_cell == i)
        few = own[::max(len(own) // RANKED, 1)]
        centers = body.centers[few]
        for axis, cut in product((*_axes(centers).T, *np.eye(3)), CUTS):
            along = centers @ axis
            at = along.min() + cut * np.ptp(along)
            halves = [centers[along < at], centers[along >= at]]
            if min(map(len, halves)) == 0:
                continue
            new = [body.cover(_around(half)) for half in halves]
            tried.append((body.cost([*covers[:i], *new, *covers[i + 1:]]), i, axis, at))
    found = []
    for _, i, axis, at in sorted(tried, key=lambda one: one[0])[:TRIED]:
        parts = of_cell.copy()
        parts[(of_cell == i) & (body.centers @ axis >= at)] = len(capsules)
        new_capsules = [*capsules, capsules[i]]
        for part in (i, len(capsules)):
            new_capsules[part] = body.capsule(parts == part)
        found.append((parts, new_capsules))
    return found


def _exchanged(body: _Body, of_cell: NDArray[np.intp], capsules: list[Capsule]
               ) -> tuple[NDArray[np.intp], list[Capsule], float]:
    """Return parts and capsules after the parts have exchanged cells, and their cost."""
    cost, number = body.cost([body.cover(one) for one in capsules]), len(capsules)
    for _ in range(EXCHANGES):
        excess = body.excess(capsules)
        # all cells to the capsule in which they are deepest; or those of one capsule, the largest
        # first, that another contains, too
        choices = [(excess.argmin(axis=0), list(range(number)))]
        for i in np.argsort([-volume(one) for one in capsules]):
            others = excess.copy()
            others[i] = np.inf
            leave = (of_cell == i) & (others.min(axis=0) <= 0.0)
            choices.append((np.where(leave, others.argmin(axis=0), of_cell), [int(i)]))
        for parts, fitted in choices:
            if len(np.unique(parts)) < number or (parts == of_cell).all():
                continue
            new = [body.capsule(parts == i, one) if i in fitted else one
                   for i, one in enumerate(capsules)]
            new_cost = body.cost([body.cover(one) for one in new])
            if new_cost < (1.0 - BETTER) * cost:
                of_cell, capsules, cost = parts, new, new_cost
                break
        else:
            break
    return of_cell, capsules, cost


def capsule_around(points: Array) -> Capsule:
    """Return a capsule of about the least volume that contains points (m, 3) [m]."""
    return _fitted(_hull(points), _around(points))


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
    d = np.sqrt(np.einsum('ij,ij->i', away, away))
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


def _around(points: Array) -> Capsule:
    """Return a capsule around the points along a principal axis: that of the least volume."""
    axes, found = _axes(points), []
    for i in range(3):
        frame = np.roll(axes, -i, axis=1)
        x = points @ frame
        middle = 0.5 * (x.min(axis=0) + x.max(axis=0))
        r = np.linalg.norm(x[:, 1:] - middle[1:], axis=1).max()
        half = max(0.5 * np.ptp(x[:, 0]) - r, 0.0)
        ends = np.array([middle - (half, 0, 0), middle + (half, 0, 0)]) @ frame.T
        found.append((ends, float(distances(points, ends)[0].max())))
    return min(found, key=volume)


def _fitted(points: Array, start: Capsule, body: _Body | None = None) -> Capsule:
    """Return a capsule around the points that costs less than the start, or the start."""
    origin, scale = points.mean(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    points = (points - origin) / scale
    share, visits = 1.0, NO_VISITS
    if body is not None:
        share, visits = VOLUME * scale**3 / body.volume, body.visits
    cost = ((visits.points - origin) / scale, visits.weight, share, AVOIDED / scale)
    ends = (start[0] - origin) / scale
    x = np.append(ends.ravel(), start[1] / scale)
    best = _cost_and_slope(x, *cost)[0], start
    if np.ptp(ends, axis=0).max() < 1e-3:  # a direction of the length for the solver
        x[:6] += 0.02 * np.outer([-1.0, 1.0], _axes(points)[:, 0]).ravel()
    used = np.zeros(len(points), dtype=bool)
    for _ in range(ROUNDS):
        gap = distances(points, x[:6].reshape(2, 3))[0] - x[6]
        used[np.argsort(gap)[-ADDED:]] = True
        chosen = points[used]
        x = minimize(_cost_and_slope, x, cost, jac=True, method='SLSQP', constraints={
            'type': 'ineq', 'fun': _room, 'jac': _room_slope, 'args': (chosen,)},
            options={'maxiter': 50, 'ftol': 1e-7}).x
        if not np.isfinite(x).all():
            break
        ends = x[:6].reshape(2, 3)
        farthest = float(distances(points, ends)[0].max())
        found = ends * scale + origin, farthest * scale
        best = min(best, (_cost_and_slope(np.append(x[:6], farthest), *cost)[0], found),
                   key=lambda one: one[0])
        if farthest < x[6] + 1e-4:
            break
    return best[1]


def _cost_and_slope(x: Array, visits: Array, weight: float, share: float, avoided: float
                    ) -> tuple[float, Array]:
    """Return the cost of the capsule x, its ends and radius, and the derivative (7,)."""
    u, r = x[3:6] - x[:3], x[6]
    length = float(np.linalg.norm(u)) or 1e-9
    n = np.pi * r * r * u / length
    cost = share * np.pi * r * r * (length + 4.0 / 3.0 * r)
    slope = share * np.array([*-n, *n, 2.0 * np.pi * r * (length + 2.0 * r)])
    near = 1.0 + _room(x, visits) / avoided
    if (close := near > 0.0).any():
        cost += weight * float(near[close] @ near[close])
        slope += 2.0 * weight / avoided * (near[close] @ _room_slope(x, visits[close]))
    return float(cost), slope


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
