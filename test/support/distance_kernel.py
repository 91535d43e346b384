# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A kernel that writes distances of segments to solids, for tests."""

from osc_ros.collision.distance import near_points
from osc_ros.compile.compiled import kernel
from osc_ros.dynamics.algebra.spatial import sub, vector_at


@kernel
def put_distances(kinds, sizes, segments, found):
    """
    Write distances of segments (k, 6) to solids, each in the axes of the solid.

    `found` (k, 3): distance [m], and the two values of s, see `near_points`.
    """
    for i in range(len(kinds)):
        row = sizes[i]
        size = (row[0], row[1], row[2], row[3], row[4], row[5])
        a = vector_at(segments[i], 0)
        u = sub(vector_at(segments[i], 3), a)
        found[i, 0], found[i, 1], found[i, 2] = near_points(kinds[i], size, a, u)
