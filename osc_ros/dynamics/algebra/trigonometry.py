# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Sine and cosine of numbers and of SIMD lanes by polynomials, within 1 ulp.

The result in a lane equals the result for a single number. The method and the polynomials are
those of fdlibm (Sun Microsystems, 1993: `__kernel_sin`, `__kernel_cos`, `__ieee754_rem_pio2`): π/2
is the sum of three parts. The first two have 33 bits, so that their first 2²⁰ multiples are exact.
Angles above 10⁶ rad, and infinite ones, go to the scalar functions of the system.
"""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined
from osc_ros.compile.either import any_lane, lane_count, lane_number, select, with_number

LARGEST = 1e6  # rad
_QUARTERS = 2.0 / np.pi
_PART_1, _PART_2 = 1.57079632673412561417e+00, 6.07710050630396597660e-11
_PART_3 = 2.02226624879595063154e-21
_S1, _S2 = -1.66666666666666324348e-01, 8.33333333332248946124e-03
_S3, _S4 = -1.98412698298579493134e-04, 2.75573137070700676789e-06
_S5, _S6 = -2.50507602534068634195e-08, 1.58969099521155010221e-10
_C1, _C2 = 4.16666666666666019037e-02, -1.38888888888741095749e-03
_C3, _C4 = 2.48015872894767294178e-05, -2.75573143513906633035e-07
_C5, _C6 = 2.08757232129817482790e-09, -1.13596475577881948265e-11


@inlined
def _quarters_and_rest(x):
    """Return n modulo 4, and x - n π/2 as the sum of two numbers, for the nearest integer n."""
    n = np.rint(x * _QUARTERS)
    first = x - n * _PART_1
    rest = first - n * _PART_2
    small = ((first - rest) - n * _PART_2) - n * _PART_3
    angle = rest + small
    return n - 4.0 * np.floor(0.25 * n), angle, (rest - angle) + small


@inlined
def _sine(x, y):
    """sin(x + y) for |x| ≤ π/4, where y is below the last digit of x."""
    z = x * x
    w = z * z
    r = _S2 + z * (_S3 + z * _S4) + z * w * (_S5 + z * _S6)
    v = z * x
    return x - ((z * (0.5 * y - v * r) - y) - v * _S1)


@inlined
def _cosine(x, y):
    """cos(x + y) for |x| ≤ π/4, where y is below the last digit of x."""
    z = x * x
    w = z * z
    r = z * (_C1 + z * (_C2 + z * _C3)) + w * w * (_C4 + z * (_C5 + z * _C6))
    half = 0.5 * z
    one = 1.0 - half
    return one + (((1.0 - one) - half) + (z * r - x * y))


@inlined
def cosine_and_sine(x):
    """Return cos x and sin x, for x [rad] in a number or in lanes."""
    n, angle, rest = _quarters_and_rest(x)
    c, s = _cosine(angle, rest), _sine(angle, rest)
    odd = (n == 1.0) | (n == 3.0)
    c, s = select(odd, s, c), select(odd, c, s)
    c, s = select((n == 1.0) | (n == 2.0), -c, c), select(n >= 2.0, -s, s)
    if any_lane(~(np.abs(x) <= LARGEST)):
        for lane in range(lane_count(x)):
            number = lane_number(x, lane)
            if not np.abs(number) <= LARGEST:
                c = with_number(c, lane, np.cos(number))
                s = with_number(s, lane, np.sin(number))
    return c, s
