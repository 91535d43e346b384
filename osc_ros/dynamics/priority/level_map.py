# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Priority levels whose velocity is a matrix S times the twist of their link.

S (6 × 6, base axes) is `level_map`; where `is_mapped` is 0, S is the identity.
"""

from __future__ import annotations

from osc_ros.compile.compiled import inlined


@inlined
def map_level(S, i, a0, J, W, r, x):
    """Convert J, W and r = u - a⁰ of level i from the twist of its link to S times the twist."""
    own = 6 * i
    for a in range(6):
        r[own + a] += a0[a]
        for c in range(6):
            r[own + a] -= S[6 * a + c] * a0[c]
    for k in range(J.shape[1]):
        _multiply(S, J[own:own + 6, k], x)
    for k in range(W.shape[1]):
        _multiply(S, W[own:own + 6, k], x)
    for k in range(len(W)):
        _multiply(S, W[k, own:own + 6], x)


@inlined
def _multiply(S, y, x):
    """Replace y (6,) by S y; overwrites x."""
    for a in range(6):
        x[a] = y[a]
    for a in range(6):
        y[a] = 0.0
        for c in range(6):
            y[a] += S[6 * a + c] * x[c]


@inlined
def put_link_force(S, force, x):
    """Replace a level's force f (6,) by the wrench Sᵀ f on its link, in place; overwrites x."""
    for a in range(6):
        x[a] = force[a]
    for a in range(6):
        force[a] = 0.0
        for c in range(6):
            force[a] += S[6 * c + a] * x[c]


@inlined
def subtract_velocity(d, i, twist, y):
    """Subtract a level's velocity, S times the twist of its link, from y[6 i:6 i + 6]."""
    for a in range(6):
        if d.is_mapped[i] != 0:
            for c in range(6):
                y[6 * i + a] -= d.level_map[i, 6 * a + c] * twist[c]
        else:
            y[6 * i + a] -= twist[a]


@inlined
def add_link_force(d, i, force, total):
    """Add the wrench Sᵀ f on a level's link to `total`; f (6,) is in the level's coordinates."""
    for a in range(6):
        if d.is_mapped[i] != 0:
            for c in range(6):
                total[a] += d.level_map[i, 6 * c + a] * force[c]
        else:
            total[a] += force[a]
