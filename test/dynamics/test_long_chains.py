# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Chains of 100,000 links: memory is proportional to length, the tip follows the command."""

from functools import cache
import tracemalloc

import numpy as np
import pytest

from osc_ros import OperationalSpace
from osc_ros.dynamics.papers.spatial_operators import SpatialOperators
from rods import rods
from tolerances import LONGEST_CHAIN_COMMAND

LINKS = 100_000
# 'dense' and 'sfa' have an n × n matrix.
LINEAR = ('sweep', 'ldl', 'bcr', 'recursive', 'efpa')


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
