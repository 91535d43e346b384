# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Lanes: arithmetic, comparisons, sine and cosine of several numbers at once, for each width."""

import math

from numba import njit
import numpy as np
import pytest

from osc_ros.compile.either import INLINED, lane_array, lane_count, lane_number, put, select
from osc_ros.compile.lane_arrays import array_of_lanes, WIDTH, zeros
from osc_ros.compile.lane_types import processor_width
from osc_ros.dynamics.algebra.spatial import cosine_and_sine

WIDTHS = (1, 2, 4, 8)
widths = pytest.mark.parametrize('width', [
    width if width == WIDTH else pytest.param(width, marks=pytest.mark.slow)
    for width in WIDTHS])
OPTIONS = {name: value for name, value in INLINED.items() if name != 'forceinline'}


def on_lanes(function, width, *arguments):
    """Return function(*arguments), an array for arrays, with each entry computed in a lane."""
    compiled = njit(**OPTIONS)(function)

    @njit(**OPTIONS)
    def loop(x, y, out):
        first, second = array_of_lanes(x, width), array_of_lanes(y, width)
        result = array_of_lanes(out, width)
        for i in range(len(result)):
            result[i] = compiled(first[i], second[i])

    x, y = (np.array(argument, dtype=float) for argument in np.broadcast_arrays(*arguments))
    out = np.empty_like(x)
    loop(x, y, out)
    return out


@widths
def test_arithmetic_on_lanes_is_that_on_numbers(width):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 16))

    def formula(x, y):
        z = 2.0 * x - y / 3.0 + 1
        z += x
        z *= 0.5
        roots = np.sqrt(abs(z)) - math.sqrt(abs(y))
        return (roots - np.floor(y)) / (-x + np.rint(3.0 * y)) + np.abs(x - 1.5)

    found = on_lanes(formula, width, x, y)
    np.testing.assert_allclose(found, [formula(*one) for one in zip(x, y)], rtol=1e-15)


@widths
def test_select_takes_each_lane_by_its_own_condition(width):
    x, y = np.array([1.0, -1.0, 0.0, np.nan, np.inf, 2.0, -np.inf, 3.0]), np.full(8, 1.0)

    def chosen(x, y):
        inside = select((x > 0.0) & (x <= y) | (x == -np.inf), 10.0, 0.0)
        return inside + select(~(x < y), 1.0, 0.0) + select(x != y, 100.0, x)

    expected = []
    for a in x:
        inside = 10.0 if (0.0 < a <= 1.0 or a == -np.inf) else 0.0
        expected.append(inside + (0.0 if a < 1.0 else 1.0) + (100.0 if a != 1.0 else a))
    np.testing.assert_array_equal(on_lanes(chosen, width, x, y), expected)


@widths
def test_variable_that_starts_with_a_number_gets_lanes(width):
    def total(x, y):
        result, pair = 0.0, (0.0, 1.0)
        for _ in range(3):
            result += x
            pair = (pair[0] + y, pair[1])
        return result + pair[0]

    x = np.arange(8.0)
    np.testing.assert_array_equal(on_lanes(total, width, x, 2.0), 3.0 * x + 6.0)


@widths
def test_sine_and_cosine_are_exact_to_one_rounding(width):
    rng = np.random.default_rng(2)
    ends = np.array([0.0, 1e-300, np.pi, np.pi / 2, -np.pi / 4, 1e6, -1e6, 1e6 + 1.0])
    x = np.concatenate([ends, *(rng.uniform(-most, most, 4000)
                                for most in (1.0, 2.0 * np.pi, 100.0, 9e5, 1e9))])
    x = np.concatenate([x, np.arange(-400, 400) * (np.pi / 2)])  # next to zeros
    for function, exact in ((lambda a, b: cosine_and_sine(a)[1], math.sin),
                            (lambda a, b: cosine_and_sine(a)[0], math.cos)):
        found = on_lanes(function, width, x, 0.0)
        expected = np.array([exact(one) for one in x])
        assert (np.abs(found - expected) <= np.spacing(np.abs(expected))).all()


@widths
def test_number_that_is_not_finite_stays_in_its_lane(width):
    x = np.array([0.1, np.nan, 0.3, np.inf, 0.5, -np.inf, 0.7, 1e300])

    def value(x, y):
        c, s = cosine_and_sine(x)
        return s / c + 0.0 * y

    found = on_lanes(value, width, x, x)
    np.testing.assert_array_equal(np.isnan(found), ~np.isfinite(x))
    np.testing.assert_allclose(found[::2], np.tan(x[::2]), rtol=1e-15)


@widths
def test_memory_of_lanes_is_read_lane_by_lane(width):
    @njit(**OPTIONS)
    def run(numbers, found):
        lanes = array_of_lanes(numbers, width)
        put(lanes, 1, (lanes[0], 7.0, 2.0 * lanes[0]))
        for lane in range(lane_count(lanes)):
            found[lane, 0] = lane_number(lanes[3], lane)
            row = lane_array(lanes, lane)
            found[lane, 1] = row[1] + row[2]
            row[0] = -1.0

    numbers, found = zeros(4, width), np.zeros((width, 2))
    assert numbers.ctypes.data % 64 == 0
    numbers[:width] = np.arange(width) + 1.0
    run(numbers, found)
    first = np.arange(width) + 1.0
    np.testing.assert_array_equal(found, np.stack([2.0 * first, first + 7.0], axis=1))
    np.testing.assert_array_equal(numbers[:width], -1.0)


def test_same_operations_take_plain_python_values():
    row = np.zeros(3)
    put(row, 1, (1.0, 2.0))
    assert row.tolist() == [0.0, 1.0, 2.0]
    assert select(True, 1.0, 2.0) == 1.0 and select(False, 1.0, 2.0) == 2.0
    assert lane_count(row) == 1 and lane_number(3.0, 0) == 3.0 and lane_array(row, 0) is row


def test_mask_is_no_condition_of_a_branch():
    def branch(x, y):
        return x if x > y else y

    with pytest.raises(Exception, match='mask'):
        on_lanes(branch, 4, np.zeros(4), np.zeros(4))


@pytest.mark.parametrize('features, width', [
    ('+avx,+avx2,+avx512f', 8), ('+avx,+avx2,-avx512f', 4), ('-avx2,-avx512f,+sse2', 1)])
def test_processor_decides_the_width(features, width, monkeypatch):
    from osc_ros.compile import lane_types

    class Codegen:
        def codegen(self):
            return self

        def magic_tuple(self):
            return 'triple', 'cpu', features

    class Target:
        target_context = Codegen()

    monkeypatch.setattr(lane_types, 'cpu_target', Target)
    assert processor_width() == width
    assert WIDTH in WIDTHS
