# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Both factorizations of block tridiagonal matrices, compared with dense numpy."""

import doctest
import math

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from common import naming
from osc_ros.dynamics.papers import block_tridiagonal
from osc_ros.dynamics.papers.block_tridiagonal import BlockCyclicReduction, BlockLDL
from osc_ros.errors import InputError
from tolerances import BLOCK_ROUNDING, FACTORS_AGREE
from variants import first_quick

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33]


@pytest.fixture(params=[BlockLDL, BlockCyclicReduction])
def factorization(request):
    return request.param


def blocks(n, m, seed=0, spread=0.0):
    """Return diagonal blocks, upper blocks and dense S (L Lᵀ + 1) S, S = diag(10^±spread)."""
    rng = np.random.default_rng(seed)
    L = np.zeros((n, m, n, m))
    for i in range(n):
        L[i, :, i] = rng.normal(size=(m, m))
        if i:
            L[i, :, i - 1] = rng.normal(size=(m, m))
    L = L.reshape(n * m, n * m)
    scale = 10 ** rng.uniform(-spread, spread, n * m)
    dense = scale[:, None] * (L @ L.T + np.eye(n * m)) * scale
    by_block = dense.reshape(n, m, n, m).swapaxes(1, 2)
    return by_block[range(n), range(n)], by_block[range(n - 1), range(1, n)], dense


@pytest.mark.parametrize('m', first_quick([6, 1, 2, 5], 2))
@pytest.mark.parametrize('n', LENGTHS)
def test_solution_gives_back_the_right_hand_side(n, m, factorization):
    diagonal, upper, dense = blocks(n, m)
    factor = factorization(diagonal, upper)
    rhs = np.random.default_rng(1).normal(size=(n, m, 7))
    limit = BLOCK_ROUNDING * np.linalg.cond(dense)
    x = factor.solve(rhs)
    assert np.abs(dense @ x.reshape(n * m, 7) - rhs.reshape(n * m, 7)).max() < limit
    expected = np.linalg.solve(dense, rhs.reshape(n * m, 7)).reshape(n, m, 7)
    assert np.abs(x - expected).max() < limit * np.abs(expected).max()
    one = factor.solve(rhs[:, :, 3])
    assert one.shape == (n, m)
    assert np.abs(one - expected[:, :, 3]).max() < limit * np.abs(expected).max()


@pytest.mark.parametrize('m', first_quick([6, 1, 2, 5], 2))
@pytest.mark.parametrize('n', LENGTHS)
def test_last_inverse_block_is_that_of_the_inverse(n, m, factorization):
    diagonal, upper, dense = blocks(n, m)
    expected = np.linalg.inv(dense)[-m:, -m:]
    found = factorization(diagonal, upper).last_inverse_block()
    limit = BLOCK_ROUNDING * np.linalg.cond(dense)
    assert np.abs(found - expected).max() < limit * np.abs(expected).max()
    assert (found == found.T).all()


@pytest.mark.parametrize('n', [*LENGTHS, 1000, 1023, 1024, 1025])
def test_depth_of_cyclic_reduction_is_the_logarithm(n):
    diagonal, upper = np.tile(4 * np.eye(2), (n, 1, 1)), np.tile(np.eye(2), (n - 1, 1, 1))
    assert BlockCyclicReduction(diagonal, upper).depth == math.ceil(math.log2(n))
    assert BlockLDL(diagonal, upper).depth == n - 1


@settings(derandomize=True, deadline=None, max_examples=60)
@given(n=st.integers(1, 40), m=st.integers(1, 8), seed=st.integers(0, 10**6),
       spread=st.floats(0, 3))
def test_factorizations_agree_whatever_the_scale_of_rows(n, m, seed, spread):
    diagonal, upper, dense = blocks(n, m, seed, spread)
    rhs = np.random.default_rng(seed).normal(size=(n, m))
    one, other = (factorization(diagonal, upper).solve(rhs)
                  for factorization in (BlockLDL, BlockCyclicReduction))
    limit = FACTORS_AGREE * np.linalg.cond(dense)
    assert np.abs(one - other).max() < limit * np.abs(one).max()


def test_only_the_lower_halves_of_the_diagonal_blocks_are_read(factorization):
    diagonal, upper, _ = blocks(5, 4)
    rhs = np.ones((5, 4))
    expected = factorization(diagonal, upper).solve(rhs)
    assert (factorization(diagonal + np.triu(np.ones((4, 4)), 1), upper).solve(rhs)
            == expected).all()


def test_nothing_that_was_given_is_changed(factorization):
    diagonal, upper, _ = blocks(8, 3)
    rhs = np.ones((8, 3, 2))
    kept = [x.copy() for x in (diagonal, upper, rhs)]
    factor = factorization(diagonal, upper)
    first, last = factor.solve(rhs), factor.last_inverse_block()
    assert all((x == y).all() for x, y in zip((diagonal, upper, rhs), kept))
    assert (factor.solve(rhs) == first).all()
    assert (factor.last_inverse_block() == last).all()


@pytest.mark.parametrize('bad', range(9))
def test_a_matrix_that_is_not_definite_is_refused_with_the_number_of_the_block(
        bad, factorization):
    diagonal, upper, _ = blocks(9, 5)
    diagonal[bad, 2, 2] = -1.0
    with pytest.raises(InputError, match=naming('definite', f'block {bad} ', '0 to 8')):
        factorization(diagonal, upper)


def test_couplings_that_are_too_strong_are_refused(factorization):
    # every diagonal block is definite, the matrix is not
    diagonal, upper = np.tile(np.eye(3), (4, 1, 1)), np.tile(2 * np.eye(3), (3, 1, 1))
    with pytest.raises(InputError, match='positive definite'):
        factorization(diagonal, upper)


@pytest.mark.parametrize('diagonal, upper, named', [
    ((3, 2, 2), (3, 2, 2), ('upper', (3, 2, 2), (2, 2, 2), 'diagonal', (3, 2, 2))),
    ((3, 2, 2), (2, 2, 3), ('upper', (2, 2, 3), (2, 2, 2), 'diagonal', (3, 2, 2))),
    ((1, 2, 2), (1, 2, 2), ('upper', (1, 2, 2), (0, 2, 2), 'diagonal', (1, 2, 2))),
    ((3, 2, 4), (2, 2, 2), ('diagonal', (3, 2, 4), 'must be', '(n, m, m)')),
    ((4, 4), (2, 2, 2), ('diagonal', (4, 4), 'must be', '(n, m, m)')),
    ((0, 2, 2), (0, 2, 2), ('diagonal', (0, 2, 2), 'must be', '(n, m, m)')),
])
def test_blocks_that_do_not_fit_are_refused_with_both_shapes(
        diagonal, upper, named, factorization):
    with pytest.raises(InputError, match=naming(*named)):
        factorization(np.ones(diagonal), np.ones(upper))


@pytest.mark.parametrize('shape', [(3, 2), (4, 3), (8,), (4, 2, 1, 1), ()])
def test_a_right_hand_side_that_does_not_fit_is_refused_with_both_shapes(shape, factorization):
    diagonal, upper, _ = blocks(4, 2)
    with pytest.raises(InputError, match=naming('rhs', shape, (4, 2), '(4, 2, k)')):
        factorization(diagonal, upper).solve(np.zeros(shape))


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_with_their_place(value, factorization):
    diagonal, upper, _ = blocks(4, 2)
    rhs = np.zeros((4, 2))
    for name, array, where in (('diagonal', diagonal, (2, 1, 0)), ('upper', upper, (0, 0, 1)),
                               ('rhs', rhs, (3, 1))):
        good, array[where] = array[where], value
        with pytest.raises(InputError, match=naming(f'{name}{list(where)} = {value}')):
            factorization(diagonal, upper).solve(rhs)
        array[where] = good


def test_the_example_of_the_storage_runs():
    result = doctest.testmod(block_tridiagonal)
    assert result.attempted > 0
    assert result.failed == 0
