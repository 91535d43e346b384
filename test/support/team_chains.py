# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Long chains for the tests of teams, their states, and comparisons."""

import numpy as np

from judge import random_urdf
from osc_ros import Robot


def chain(seed, n):
    """Return a random chain of revolute and prismatic joints, half of them with rotors."""
    rng = np.random.default_rng(seed)
    rotors = np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0.0, 0.2, n))
    return Robot.from_urdf(random_urdf(seed, n), 'link_0', 'tool', rotor_inertia=rotors)


def state(robot, seed=0):
    """Return random q and q̇, a fixed u, and random τ⁰ and q̈ₚ."""
    q, qd, tau, qdd = np.random.default_rng(seed).normal(size=(4, robot.n))
    return q, qd / robot.n, np.arange(6.0) - 2.5, tau, qdd


def variants(tau, qdd):
    """Return the four combinations of τ⁰ and q̈ₚ that a call accepts."""
    return [(None, None), (tau, None), (None, qdd), (tau, qdd)]


def difference(found, expected):
    """Return the largest difference, relative to the largest entry."""
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300)
