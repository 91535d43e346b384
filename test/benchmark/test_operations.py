# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The operation counts of the report: the counter, the humanoid, and counts found by hand."""

from collections import Counter
from math import comb

import numpy as np
import pytest

import operations
from operations import BASE, CASES, CROSS, EFPA, FACTORS, LIMBS, SFA, SOLVED, SQUARED
from osc_ros.dynamics.trees.factor import square_factor
from osc_ros.dynamics.trees.tree_bodies import locate
from tolerances import INERTIA_TOLERANCE

# The humanoid, counted by hand: for each freedom, the number of its ancestors.
BASE_AND_HIP, LEG, HEAD, ARM, FINGER = range(7), range(7, 13), range(6, 9), range(6, 13), [13]
DEPTHS = [*BASE_AND_HIP, *LEG, *LEG, *HEAD, *ARM, *ARM, *FINGER * 4]
HAND_PATH, FOOT_PATH = [*range(6), *ARM], [*BASE_AND_HIP, *LEG]


@pytest.fixture(scope='module')
def base():
    locate._can_compile = False  # as after a law in the same process
    return operations.counted([BASE])[BASE]


def test_counter_counts_what_is_done_and_knows_what_literals_make_idle():
    a, b = operations.numbers(np.array([3.0, 4.0]))
    with operations.counting() as tally:
        result = np.sqrt(a * a + b * b) / 2.0 - 1.0 * a + (0.0 * b + 0.0) - -b
    assert float(result) == 3.5
    by_operation = Counter()
    for (_, operation, idle), times in tally.items():
        by_operation[operation, idle] += times
    assert by_operation == {
        ('product', False): 2, ('product', True): 2, ('sum', False): 3, ('sum', True): 2,
        ('root', False): 1, ('quotient', False): 1}


def test_what_is_stored_is_no_literal_any_more():
    store = operations.numbers(np.ones(2))
    store[0] = 0.0
    with operations.counting() as tally:
        store[1] += store[0]
    assert [idle for _, _, idle in tally] == [False]


def test_six_freedoms_take_216_operations_to_invert_and_396_to_multiply():
    A = np.random.default_rng(1).normal(size=(6, 6))
    A = A @ A.T
    with operations.counting() as inverted:
        found = operations.inverse_by_factors(operations.numbers(A))
    assert np.abs(found.astype(float) @ A - np.eye(6)).max() < INERTIA_TOLERANCE
    with operations.counting() as multiplied:
        operations.product(found, found)
    assert (sum(inverted.values()), sum(multiplied.values())) == (216, 216 + 180)


def test_missing_line_of_a_part_is_an_error(monkeypatch):
    monkeypatch.setitem(operations.PARTS, square_factor, {'no such line': SQUARED})
    with pytest.raises(LookupError, match="'no such line'.* 0 lines .*square_factor"):
        with operations.counting():
            pass


def test_humanoid_has_the_zeros_of_the_paper():
    J, M = operations.zeros(CASES[BASE])
    assert (M, J) == (pytest.approx(0.56, abs=0.005), pytest.approx(0.67, abs=0.0051))
    assert operations.zeros(CASES[LIMBS])[1] == pytest.approx(0.73, abs=0.005)
    assert len(CASES[operations.FOOT].robot().parent) == 34


def test_sparse_parts_take_what_the_depths_of_the_freedoms_say(base):
    # a freedom of depth d: one root, d quotients, d (d + 1) / 2 products, and as many differences
    assert base.written[SFA][FACTORS] == sum(1 + d + d * (d + 1) for d in DEPTHS)
    paths = [HAND_PATH, HAND_PATH, FOOT_PATH, FOOT_PATH]
    assert base.written[SFA][SOLVED] == 6 * sum(1 + 2 * d for path in paths for d in path)
    # two hands, or a hand and a foot, share the 6 freedoms of the base; two feet share the hip too
    in_common = 5 * 36 * 6 + 36 * 7
    assert base.written[SFA][SQUARED] == 2 * (21 * sum(map(len, paths)) + in_common)


def test_a_cross_term_of_efpa_is_one_dense_product(base):
    assert base.written[EFPA][CROSS] == base.one_joint[EFPA][CROSS] == comb(4, 2) * (216 + 180)


@pytest.mark.slow  # quick: the other tests of the counts
def test_counts_are_the_same_every_time(base):
    again = operations.counted([BASE])[BASE]
    assert (again.written, again.idle, again.one_joint) == (
        base.written, base.idle, base.one_joint)
