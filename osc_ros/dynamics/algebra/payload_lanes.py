# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Payloads of several states in SIMD lanes, added to the body that carries the first tip."""

from __future__ import annotations

from typing import Any

from osc_ros.compile.compiled import inlined
from osc_ros.dynamics.algebra.spatial import (
    add,
    add_symmetric,
    along,
    cross,
    dot,
    inverse,
    matrix_at,
    put,
    rotate,
    symmetric_at,
    transpose,
    unrotate_symmetric,
    upper,
    vector_at,
)

# Columns of a payload: mass, centre of mass (3), inertia about it (9), in the axes of the tip.
PAYLOAD_WIDTH = 13


@inlined
def put_loaded(own: Any, payload: Any, R: Any, p: Any, row: Any) -> None:
    """Write mass, first moment and inertia (10,) of a body with a payload to `row`."""
    # `own` (10,): the body alone. `payload` is (PAYLOAD_WIDTH,). (R, p): pose of the tip in the
    # body.
    m, c = payload[0], add(rotate(R, vector_at(payload, 1)), p)
    moment = unrotate_symmetric(transpose(R), upper(matrix_at(payload, 4)))
    put(row, 0, (own[0] + m,))
    put(row, 1, along(m, c, vector_at(own, 1)))
    put(row, 4, add_symmetric(symmetric_at(own, 4), add_symmetric(moment, _of_point(m, c))))


@inlined
def put_inverse(row: Any, out: Any) -> None:
    """Write the inverse spatial inertia (21,) of the mass, first moment and inertia in `row`."""
    w = 1.0 / row[0]
    c = (w * row[1], w * row[2], w * row[3])
    A = inverse(add_symmetric(symmetric_at(row, 4), _of_point(-row[0], c)))
    x, y, z = (A[0], A[1], A[2]), (A[1], A[3], A[4]), (A[2], A[4], A[5])
    B = cross(c, x) + cross(c, y) + cross(c, z)
    put(out, 0, A)
    put(out, 6, B)
    first = cross(c, (B[0], B[3], B[6]))
    second, third = cross(c, (B[1], B[4], B[7])), cross(c, (B[2], B[5], B[8]))
    put(out, 15, (w + first[0], second[0], third[0], w + second[1], third[1], w + third[2]))


@inlined
def _of_point(m: Any, c: Any) -> Any:
    """Inertia about the origin of a point mass m at c."""
    square = dot(c, c)
    return (m * (square - c[0] * c[0]), -m * c[0] * c[1], -m * c[0] * c[2],
            m * (square - c[1] * c[1]), -m * c[1] * c[2], m * (square - c[2] * c[2]))
