# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Chains of 100,000 links: memory is proportional to length, the tip follows the command."""

from functools import cache
import tracemalloc

import numpy as np
import pytest

from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.papers.spatial_operators import SpatialOperators
from tolerances import LONGEST_CHAIN_COMMAND

LINKS = 100_000
# 'dense' and 'sfa' have an n × n matrix.
LINEAR = ('sweep', 'ldl', 'bcr', 'recursive', 'efpa')


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


@cache
def longest():
    """Return a robot, random q, qd and u, and the reference dynamics of the robot."""
    rng = np.random.default_rng(0)
    robot = rods(LINKS)
    q, qd = rng.uniform(-0.6, 0.6, LINKS), rng.normal(size=LINKS) / LINKS
    return robot, q, qd, rng.normal(size=6), SpatialOperators(robot)


# quick: test_memory_grows_as_the_chain, and test_tip_of_5000_links_gets_the_commanded_acceleration
# of test_schur.py
@pytest.mark.slow
@pytest.mark.parametrize('method', LINEAR)
def test_tip_of_100000_links_gets_the_commanded_acceleration(method):
    robot, q, qd, u, judge = longest()
    # reference: recursions of SpatialOperators in numpy, in base axes, under these torques alone
    assert judge.outward(q, qd, OperationalSpace(robot, method).torque(q, qd, u), None) == 0
    assert np.abs(judge.a0 - u).max() < LONGEST_CHAIN_COMMAND * np.abs(u).max()


@pytest.mark.parametrize('method', LINEAR)
def test_memory_grows_as_the_chain(method):
    def used(n):
        robot, q = rods(n), np.linspace(-0.5, 0.5, n)
        tracemalloc.start()
        OperationalSpace(robot, method).torque(q, q, np.ones(6))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    used(10)  # warm-up: the first call also allocates memory that does not depend on the length
    assert used(4000) < 2.2 * used(2000)
