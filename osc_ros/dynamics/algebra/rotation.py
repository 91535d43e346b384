# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Rotation vectors, compiled: logarithm, exponential and derivatives on SO(3)."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.spatial import add, along, cross, dot, ZERO


@inlined
def rotation_of(T):
    """Rotation of a pose T (4, 4), as nine numbers by rows."""
    return (T[0, 0], T[0, 1], T[0, 2], T[1, 0], T[1, 1], T[1, 2], T[2, 0], T[2, 1], T[2, 2])


@inlined
def rotation_vector(R):
    """log R: axis times angle [rad] of a rotation (nine numbers by rows), the angle in [0, π]."""
    # From the quaternion with w ≥ 0, its largest component first (Shepperd): no cancellation at 0
    # and at π. At exactly π the axis has two possible signs; its largest entry is positive.
    trace = R[0] + R[4] + R[8]
    if trace > R[0] and trace > R[4] and trace > R[8]:
        w, x, y, z = 1.0 + trace, R[7] - R[5], R[2] - R[6], R[3] - R[1]
    elif R[0] >= R[4] and R[0] >= R[8]:
        w, x, y, z = R[7] - R[5], 1.0 + 2.0 * R[0] - trace, R[1] + R[3], R[2] + R[6]
    elif R[4] >= R[8]:
        w, x, y, z = R[2] - R[6], R[1] + R[3], 1.0 + 2.0 * R[4] - trace, R[5] + R[7]
    else:
        w, x, y, z = R[3] - R[1], R[2] + R[6], R[5] + R[7], 1.0 + 2.0 * R[8] - trace
    if w < 0.0:
        w, x, y, z = -w, -x, -y, -z
    sine = np.sqrt(x * x + y * y + z * z)
    scale = 2.0 * np.arctan2(sine, w) / sine if sine > 0.0 else 0.0
    return (scale * x, scale * y, scale * z)


@inlined
def _coefficients(angle2):
    """sin(a)/a, (1 - cos a)/a², (a - sin a)/a³ at a² = angle2, by series near 0."""
    if angle2 < 1e-4:
        return (1.0 - angle2 / 6.0 * (1.0 - angle2 / 20.0 * (1.0 - angle2 / 42.0)),
                0.5 - angle2 / 24.0 * (1.0 - angle2 / 30.0 * (1.0 - angle2 / 56.0)),
                1.0 / 6.0 - angle2 / 120.0 * (1.0 - angle2 / 42.0 * (1.0 - angle2 / 72.0)))
    angle = np.sqrt(angle2)
    s, half = np.sin(angle), np.sin(0.5 * angle)
    return s / angle, 2.0 * half * half / angle2, (angle - s) / (angle2 * angle)


@inlined
def exponential(phi):
    """exp(φ×): the rotation (nine numbers by rows) of a rotation vector φ [rad]."""
    x, y, z = phi
    a, b, _ = _coefficients(dot(phi, phi))
    return (1.0 - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y,
            b * x * y + a * z, 1.0 - b * (x * x + z * z), b * y * z - a * x,
            b * x * z - a * y, b * y * z + a * x, 1.0 - b * (x * x + y * y))


@inlined
def body_rate(phi, dphi):
    """Angular velocity of R = exp(φ×) in axes of R: the right Jacobian of φ, times φ̇."""
    _, b, c = _coefficients(dot(phi, phi))
    once = cross(phi, dphi)
    return along(-b, once, along(c, cross(phi, once), dphi))


@inlined
def body_acceleration(phi, dphi, ddphi):
    """Angular acceleration of R = exp(φ×) in axes of R: the time derivative of `body_rate`."""
    angle2 = dot(phi, phi)
    a, b, c = _coefficients(angle2)
    radial = dot(phi, dphi)
    if angle2 < 1e-4:
        db, dc = -radial / 12.0 * (1.0 - angle2 / 15.0), -radial / 60.0 * (1.0 - angle2 / 21.0)
    else:
        db = (a - 2.0 * b) * radial / angle2
        dc = (b - 3.0 * c) * radial / angle2
    once = cross(phi, dphi)
    twice = cross(phi, once)
    # d/dt of -b φ×φ̇ + c φ×(φ×φ̇) with φ̈ left out; φ̇×φ̇ = 0
    own = along(-db, once, along(dc, twice, along(c, cross(dphi, once), ZERO)))
    return add(body_rate(phi, ddphi), own)


@inlined
def solved_rate(phi, w):
    """Rate φ̇ at which R = exp(φ×) has the angular velocity w (axes of R), by Cramer's rule."""
    x = body_rate(phi, (1.0, 0.0, 0.0))
    y = body_rate(phi, (0.0, 1.0, 0.0))
    z = body_rate(phi, (0.0, 0.0, 1.0))
    yz, zx, xy = cross(y, z), cross(z, x), cross(x, y)
    scale = 1.0 / dot(x, yz)
    return (scale * dot(yz, w), scale * dot(zx, w), scale * dot(xy, w))
