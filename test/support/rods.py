# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A chain of equal rods, of any length."""

import numpy as np

from osc_ros import Robot


def rods(n):
    """Return a chain of n rods (0.1 m, 0.3 kg) with joint axes x, y and z in turn."""
    turns = np.eye(4)[:, [1, 2, 0, 3]], np.eye(4)[:, [2, 0, 1, 3]], np.eye(4)  # z to each axis
    inertia = np.diag([3e-4, 3e-4, 6e-5, 0.3, 0.3, 0.3])
    inertia[0, 0] = inertia[1, 1] = 3e-4 + 0.3 * 0.05 ** 2
    inertia[0, 4] = inertia[4, 0] = -0.3 * 0.05
    inertia[1, 3] = inertia[3, 1] = 0.3 * 0.05
    up = np.eye(4)
    up[2, 3] = 0.1
    placements, inertias = [], []
    for k in range(3):
        before, own = turns[k - 1], turns[k]
        placements.append(before.T @ up @ own)
        six = np.kron(np.eye(2), own[:3, :3])
        inertias.append(six.T @ inertia @ six)
    T = np.array(placements)[np.arange(n) % 3]
    T[0] = turns[0]
    free = np.full(n, np.inf)
    return Robot(
        name='rods', base='ground', tips=('tip',), joints=tuple(f'joint_{i}' for i in range(n)),
        parent=np.arange(-1, n - 1), prismatic=np.zeros(n, bool), spherical=np.zeros(n, bool),
        T_parent_body=T, inertia=np.array(inertias)[np.arange(n) % 3],
        rotor_inertia=np.zeros(n), position_limits=np.stack([-free, free], axis=1),
        velocity_limits=free, effort_limits=free, gravity=np.array([0.0, 0.0, -9.81]),
        frames={'tip': (n - 1, turns[(n - 1) % 3].T @ up)})
