# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Distance of a straight segment to a convex solid, its witness points, and its second derivative.

A capsule is the set of points within a radius of a segment, so the distance of a capsule to a
solid is that of its segment, minus the radius. For a point x, `nearest_point` returns the point
of the solid nearest to x in closed form. Along the segment x(s) = a + s u the distance is convex,
so (x - nearest point) · u increases with s; its root is the nearest point of the segment.

If segment and face are parallel, many points of the segment are nearest, and the one that is
found jumps as the segment tilts. So `near_points` returns the two ends of the part of the segment
that is at most TOLERANCE farther than the nearest point: they move continuously.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from osc_ros.compile.compiled import inlined, stage
from osc_ros.dynamics.algebra.spatial import add, along, cross, dot, sub, Vector, ZERO

Size: TypeAlias = tuple[float, float, float, float, float, float]

# Kinds of solids, with their size, in axes of their own:
# POINT (x, y, z); SEGMENT from one end (x, y, z) to the other; BOX about the origin: half of each
# edge; CYLINDER about the origin and the z axis: radius, half of the length; HALF_SPACE z ≤ 0.
KINDS = POINT, SEGMENT, BOX, CYLINDER, HALF_SPACE = range(5)
TOLERANCE = 1e-3  # see the docstring of the module [m]
_EXACT = 1e-12  # tolerance of a root, relative to the length of the segment or the distance
_MOST = 100  # largest number of steps of a search
_INSIDE = 1e-9  # a point is in a solid if it is nearer than this [m]


@inlined
def nearest_point(kind: int, size: Size, x: Vector) -> Vector:
    """Return the point of a solid nearest to x; x itself within a box or cylinder."""
    if kind == POINT:
        return (size[0], size[1], size[2])
    if kind == SEGMENT:
        a, b = (size[0], size[1], size[2]), (size[3], size[4], size[5])
        u = sub(b, a)
        length2 = dot(u, u)
        t = dot(sub(x, a), u) / length2 if length2 > 0.0 else 0.0
        return along(min(max(t, 0.0), 1.0), u, a)
    if kind == BOX:
        return (min(max(x[0], -size[0]), size[0]), min(max(x[1], -size[1]), size[1]),
                min(max(x[2], -size[2]), size[2]))
    if kind == CYLINDER:
        r = np.sqrt(x[0] * x[0] + x[1] * x[1])
        share = size[0] / r if r > size[0] else 1.0
        return (share * x[0], share * x[1], min(max(x[2], -size[1]), size[1]))
    return (x[0], x[1], 0.0)


@inlined
def _stretched(kind: int, size: Size, x: Vector, c: Vector, v: Vector) -> Vector:
    """Return v, the velocity of x, minus that of its nearest point c: (1 - P) v, P = ∂c / ∂x."""
    if kind == POINT:
        return v
    if kind == SEGMENT:
        a, b = (size[0], size[1], size[2]), (size[3], size[4], size[5])
        u = sub(b, a)
        length2 = dot(u, u)
        t = dot(sub(x, a), u) / length2 if length2 > 0.0 else 0.0
        if not 0.0 < t < 1.0:
            return v
        return along(-dot(v, u) / length2, u, v)
    if kind == BOX:
        return (v[0] if np.abs(x[0]) > size[0] else 0.0, v[1] if np.abs(x[1]) > size[1] else 0.0,
                v[2] if np.abs(x[2]) > size[2] else 0.0)
    if kind == CYLINDER:
        r2, z = x[0] * x[0] + x[1] * x[1], v[2] if np.abs(x[2]) > size[1] else 0.0
        if r2 <= size[0] * size[0]:
            return (0.0, 0.0, z)
        share, radial = size[0] / np.sqrt(r2), (x[0] * v[0] + x[1] * v[1]) / r2
        return (v[0] - share * (v[0] - radial * x[0]), v[1] - share * (v[1] - radial * x[1]), z)
    return (0.0, 0.0, v[2])


@inlined
def _height(kind: int, x: Vector, c: Vector) -> float:
    """Distance of x to its nearest point c; negative within a half-space."""
    if kind == HALF_SPACE:
        return x[2]
    e = sub(x, c)
    return float(np.sqrt(dot(e, e)))


@stage
def _lowest(kind: int, size: Size, a: Vector, u: Vector) -> float:
    """Return s, 0 to 1, of the point a + s u nearest to a solid; Newton's method in a bracket."""
    # Half the derivative of the squared distance increases with s; it is piecewise linear unless
    # the solid is a cylinder.
    if kind == HALF_SPACE:
        return 0.0 if u[2] > 0.0 else 1.0
    low, high, s = 0.0, 1.0, 0.0
    for k in range(_MOST):
        x = along(s, u, a)
        c = nearest_point(kind, size, x)
        e = sub(x, c)
        climb = dot(e, u)
        if np.abs(climb) <= _EXACT * dot(e, e) or (s == 0.0 and climb > 0.0) or (
                s == 1.0 and climb < 0.0):
            return s
        low, high = (s, high) if climb < 0.0 else (low, s)
        slope = dot(_stretched(kind, size, x, c, u), u)
        following = min(s - climb / slope, 1.0) if slope > 0.0 else 1.0
        if k > 1 and (k % 8 == 7 or not low < following < high):
            following = 0.5 * (low + high)
        if np.abs(following - s) < _EXACT:
            return following
        s = following
    return s


@inlined
def _height_at(kind: int, size: Size, x: Vector) -> float:
    return _height(kind, x, nearest_point(kind, size, x))


@stage
def _rise(kind: int, size: Size, a: Vector, u: Vector, s: float, end: float, most: float
          ) -> float:
    """Return where, from s to `end`, the distance reaches `most`, or `end` if it does not."""
    if _height_at(kind, size, along(end, u, a)) <= most:
        return end
    if kind == HALF_SPACE:
        return s + (most - a[2] - s * u[2]) / u[2]
    inner, outer, side = s, end, 1.0 if end > s else -1.0
    for k in range(_MOST):
        x = along(s, u, a)
        c = nearest_point(kind, size, x)
        e = sub(x, c)
        left, climb = most * most - dot(e, e), side * dot(e, u)
        if np.abs(left) <= 1e-9 * most * most:
            return s
        inner, outer = (s, outer) if left > 0.0 else (inner, s)
        if np.abs(outer - inner) < 1e-7:
            return inner
        # Newton's method: climb and slope are half of the first and the second derivative of the
        # squared distance
        slope = dot(_stretched(kind, size, x, c, u), u)
        root = climb * climb + slope * left
        reach = climb + np.sqrt(root) if root > 0.0 else 0.0
        s = s + side * left / reach if reach > 0.0 else outer
        if k % 8 == 7 or not (min(inner, outer) < s < max(inner, outer)):
            s = 0.5 * (inner + outer)
    return inner


@inlined
def bound_of(kind: int, size: Size, a: Vector, u: Vector) -> float:
    """Return a lower bound of the distance of a segment to a solid, from its middle."""
    return float(_height_at(kind, size, along(0.5, u, a)) - 0.5 * np.sqrt(dot(u, u)))


@stage
def near_points(kind: int, size: Size, a: Vector, u: Vector) -> tuple[float, float, float]:
    """Return the distance of the segment a + s u, 0 ≤ s ≤ 1, to a solid, and two values of s."""
    # Between these, points are nearer than the distance plus TOLERANCE. All in the axes of the
    # solid. The distance is 0 if the two meet; that to a half-space is then negative.
    s = _lowest(kind, size, a, u)
    least = _height_at(kind, size, along(s, u, a))
    if kind == POINT:  # the nearest point is unique
        return least, s, s
    return (least, _rise(kind, size, a, u, s, 0.0, least + TOLERANCE),
            _rise(kind, size, a, u, s, 1.0, least + TOLERANCE))


@inlined
def _way_out(kind: int, size: Size, x: Vector) -> tuple[float, Vector]:
    """Return the distance, at most 0, of a point within a box or cylinder, and the normal."""
    if kind == BOX:
        depth, normal = x[0] - size[0], (1.0, 0.0, 0.0)
        if -x[0] - size[0] > depth:
            depth, normal = -x[0] - size[0], (-1.0, 0.0, 0.0)
        if x[1] - size[1] > depth:
            depth, normal = x[1] - size[1], (0.0, 1.0, 0.0)
        if -x[1] - size[1] > depth:
            depth, normal = -x[1] - size[1], (0.0, -1.0, 0.0)
        if x[2] - size[2] > depth:
            depth, normal = x[2] - size[2], (0.0, 0.0, 1.0)
        if -x[2] - size[2] > depth:
            depth, normal = -x[2] - size[2], (0.0, 0.0, -1.0)
        return depth, normal
    if kind == CYLINDER:
        depth, normal = np.abs(x[2]) - size[1], (0.0, 0.0, 1.0 if x[2] > 0.0 else -1.0)
        r = np.sqrt(x[0] * x[0] + x[1] * x[1])
        if r - size[0] > depth and r > 0.0:
            depth, normal = r - size[0], (x[0] / r, x[1] / r, 0.0)
        return depth, normal
    return 0.0, (0.0, 0.0, 1.0)


@stage
def height_and_bend(kind: int, size: Size, x: Vector, v: Vector
                    ) -> tuple[float, Vector, Vector, float]:
    """Distance of a point x with velocity v to a solid at rest, and its derivatives."""
    # In the axes of the solid: distance; nearest point; unit normal from there to x; ṅ · v, the
    # part of the second derivative that does not depend on the acceleration of x.
    c = nearest_point(kind, size, x)
    e = sub(x, c)
    d = np.sqrt(dot(e, e))
    if kind == HALF_SPACE:
        return x[2], c, (0.0, 0.0, 1.0), 0.0
    if d < _INSIDE:
        depth, normal = _way_out(kind, size, x)
        return depth, along(-depth, normal, x), normal, 0.0
    normal = along(1.0 / d, e, ZERO)
    moved = _stretched(kind, size, x, c, v)
    speed = dot(normal, moved)
    return d, c, normal, (dot(moved, v) - speed * speed) / d


@inlined
def relative_motion(x: Vector, v: Vector, a: Vector, frame: tuple[Vector, Vector, Vector, Vector,
                                                                  Vector]
                    ) -> tuple[Vector, Vector]:
    """Velocity and acceleration of a point relative to a moving frame, axes that do not turn."""
    # x, v, a are those of the point; `frame` has its origin, angular velocity and acceleration,
    # and velocity and acceleration of the origin.
    origin, omega, alpha, velocity, acceleration = frame
    r = sub(x, origin)
    across = cross(omega, r)
    relative = sub(sub(v, velocity), across)
    turning = add(cross(alpha, r), cross(omega, across))
    return relative, sub(sub(sub(a, acceleration), turning),
                         along(2.0, cross(omega, relative), ZERO))
