# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Spatial algebra on tuples, for the compiled kernels.

The compiler keeps numbers of tuples in registers: no arrays, no allocation, no aliasing.

    vector    (x, y, z)
    rotation  (r00, r01, r02, r10, …, r22), by rows; also any 3 × 3 matrix
    symmetric (s00, s01, s02, s11, s12, s22)
    spatial   (angular, linear), a pair of vectors
    mobility  (A, B, C) is [[A, B], [Bᵀ, C]]: A, C symmetric, B a matrix; times a force
              [moment; force] it gives an acceleration [angular; linear]
    coupling  (T, U, V, W) is [[T, U], [V, W]], four 3 × 3 matrices

A placement (R, p) is the pose of a body's frame in its parent's: x_parent = R x_body + p.

Rotation vectors: logarithm, exponential and derivatives on SO(3).

Arrays of numbers: copies, and steps towards a value that is wanted.

Sine and cosine of numbers and of SIMD lanes by polynomials, within 1 ulp.

The result in a lane equals the result for a single number. The method and the polynomials are
those of fdlibm (Sun Microsystems, 1993: `__kernel_sin`, `__kernel_cos`, `__ieee754_rem_pio2`): π/2
is the sum of three parts. The first two have 33 bits, so that their first 2²⁰ multiples are exact.
Angles above 10⁶ rad, and infinite ones, go to the scalar functions of the system.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined
from osc_ros.compile.either import any_lane, lane_count, lane_number, select, with_number
from osc_ros.compile.either import put as put

# Largest rate of a torque that changes from one source to another, relative to the joint's
# effort limit [1/s].
CHANGE_RATE = 1.0
LONGEST_TICK = 0.02  # longest time by which a change advances in one tick [s]
SETTLED = 6.64  # ω t after which 1 % of a critically damped step remains


@inlined
def smoothed(x: float) -> float:
    """Smooth step (C¹): 0 for x ≤ 0, 1 for x ≥ 1."""
    x = min(max(x, 0.0), 1.0)
    return x * x * (3.0 - 2.0 * x)


@inlined
def step_share(age, dt, duration, is_smoother):
    """Share of the rest of a smooth step that passes in dt [s] after an age [s]; 1 at its end."""
    # C¹, or C² if `is_smoother`: for what drives joints, as the activation of a task.
    if age + dt >= duration:
        return 1.0
    x, y = age / duration, (age + dt) / duration
    if is_smoother:
        return 1.0 - (1.0 - y * y * y * (10.0 - 15.0 * y + 6.0 * y * y)) / (
            1.0 - x * x * x * (10.0 - 15.0 * x + 6.0 * x * x))
    return 1.0 - (1.0 - smoothed(y)) / (1.0 - smoothed(x))


@inlined
def move_towards(values, wanted, share):
    """Move values (n,) by a share of the way to others (n,); infinite ones change at once."""
    for i in range(len(values)):
        now, end = values[i], wanted[i]
        is_gradual = share < 1.0 and np.isfinite(now) and np.isfinite(end)
        values[i] = now + share * (end - now) if is_gradual else end


@inlined
def damped(now, slope, wanted, time, dt):
    """Value and slope after dt [s] of an approach, critically damped, by a time constant [s]."""
    decay, push = np.exp(-dt / time), slope + (now - wanted) / time
    return wanted + (now - wanted + push * dt) * decay, (slope - push * dt / time) * decay


@inlined
def assign(out, values):
    """Write values (n,) to out (n,); in a kernel, `out[:] = values` would allocate memory."""
    for i in range(len(out)):
        out[i] = values[i]


@inlined
def any_beyond(values, limits, share):
    """Whether any |values[i]| exceeds share × limits[i]."""
    found = False
    for i in range(len(values)):
        found = found or np.abs(values[i]) > share * limits[i]
    return found


@inlined
def interval_of(knots, x):
    """Index k with knots[k] ≤ x < knots[k + 1]; the first or last interval if x is outside."""
    low, high = 0, len(knots) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle
        else:
            high = middle
    return low


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


@inlined
def rotation_of(T):
    """Rotation of a pose T (4, 4), as nine numbers by rows."""
    return (T[0, 0], T[0, 1], T[0, 2], T[1, 0], T[1, 1], T[1, 2], T[2, 0], T[2, 1], T[2, 2])


@inlined
def rotation_vector(R):
    """log R: axis times angle [rad] of a rotation (nine numbers by rows), the angle in [0, π]."""
    # From the quaternion with w ≥ 0, its largest component first (Shepperd): no cancellation at 0
    # and at π. At exactly π the axis has two possible signs; its largest entry is positive.
    trace = R[0] + R[4] + R[8]
    if trace > R[0] and trace > R[4] and trace > R[8]:
        w, x, y, z = 1.0 + trace, R[7] - R[5], R[2] - R[6], R[3] - R[1]
    elif R[0] >= R[4] and R[0] >= R[8]:
        w, x, y, z = R[7] - R[5], 1.0 + 2.0 * R[0] - trace, R[1] + R[3], R[2] + R[6]
    elif R[4] >= R[8]:
        w, x, y, z = R[2] - R[6], R[1] + R[3], 1.0 + 2.0 * R[4] - trace, R[5] + R[7]
    else:
        w, x, y, z = R[3] - R[1], R[2] + R[6], R[5] + R[7], 1.0 + 2.0 * R[8] - trace
    if w < 0.0:
        w, x, y, z = -w, -x, -y, -z
    sine = np.sqrt(x * x + y * y + z * z)
    scale = 2.0 * np.arctan2(sine, w) / sine if sine > 0.0 else 0.0
    return (scale * x, scale * y, scale * z)


@inlined
def _coefficients(angle2):
    """sin(a)/a, (1 - cos a)/a², (a - sin a)/a³ at a² = angle2, by series near 0."""
    if angle2 < 1e-4:
        return (1.0 - angle2 / 6.0 * (1.0 - angle2 / 20.0 * (1.0 - angle2 / 42.0)),
                0.5 - angle2 / 24.0 * (1.0 - angle2 / 30.0 * (1.0 - angle2 / 56.0)),
                1.0 / 6.0 - angle2 / 120.0 * (1.0 - angle2 / 42.0 * (1.0 - angle2 / 72.0)))
    angle = np.sqrt(angle2)
    s, half = np.sin(angle), np.sin(0.5 * angle)
    return s / angle, 2.0 * half * half / angle2, (angle - s) / (angle2 * angle)


@inlined
def exponential(phi):
    """exp(φ×): the rotation (nine numbers by rows) of a rotation vector φ [rad]."""
    x, y, z = phi
    a, b, _ = _coefficients(dot(phi, phi))
    return (1.0 - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y,
            b * x * y + a * z, 1.0 - b * (x * x + z * z), b * y * z - a * x,
            b * x * z - a * y, b * y * z + a * x, 1.0 - b * (x * x + y * y))


@inlined
def body_rate(phi, dphi):
    """Angular velocity of R = exp(φ×) in axes of R: the right Jacobian of φ, times φ̇."""
    _, b, c = _coefficients(dot(phi, phi))
    once = cross(phi, dphi)
    return along(-b, once, along(c, cross(phi, once), dphi))


@inlined
def body_acceleration(phi, dphi, ddphi):
    """Angular acceleration of R = exp(φ×) in axes of R: the time derivative of `body_rate`."""
    angle2 = dot(phi, phi)
    a, b, c = _coefficients(angle2)
    radial = dot(phi, dphi)
    if angle2 < 1e-4:
        db, dc = -radial / 12.0 * (1.0 - angle2 / 15.0), -radial / 60.0 * (1.0 - angle2 / 21.0)
    else:
        db = (a - 2.0 * b) * radial / angle2
        dc = (b - 3.0 * c) * radial / angle2
    once = cross(phi, dphi)
    twice = cross(phi, once)
    # d/dt of -b φ×φ̇ + c φ×(φ×φ̇) with φ̈ left out; φ̇×φ̇ = 0
    own = along(-db, once, along(dc, twice, along(c, cross(dphi, once), ZERO)))
    return add(body_rate(phi, ddphi), own)


@inlined
def solved_rate(phi, w):
    """Rate φ̇ at which R = exp(φ×) has the angular velocity w (axes of R), by Cramer's rule."""
    x = body_rate(phi, (1.0, 0.0, 0.0))
    y = body_rate(phi, (0.0, 1.0, 0.0))
    z = body_rate(phi, (0.0, 0.0, 1.0))
    yz, zx, xy = cross(y, z), cross(z, x), cross(x, y)
    scale = 1.0 / dot(x, yz)
    return (scale * dot(yz, w), scale * dot(zx, w), scale * dot(xy, w))


Vector: TypeAlias = tuple[float, float, float]
Matrix: TypeAlias = tuple[float, float, float, float, float, float, float, float, float]
Symmetric: TypeAlias = tuple[float, float, float, float, float, float]
Spatial: TypeAlias = tuple[Vector, Vector]
Mobility: TypeAlias = tuple[Symmetric, Matrix, Symmetric]
Coupling: TypeAlias = tuple[Matrix, Matrix, Matrix, Matrix]

Row: TypeAlias = NDArray[np.float64]

ZERO: Vector = (0.0, 0.0, 0.0)


@inlined
def add(a: Vector, b: Vector) -> Vector:
    """The sum a + b of two vectors."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@inlined
def sub(a: Vector, b: Vector) -> Vector:
    """The difference a - b of two vectors."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@inlined
def along(s: float, a: Vector, b: Vector) -> Vector:
    """The vector s a + b, for a number s."""
    return (s * a[0] + b[0], s * a[1] + b[1], s * a[2] + b[2])


@inlined
def dot(a: Vector, b: Vector) -> float:
    """The scalar product aᵀ b of two vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inlined
def at_most(most: float, a: Vector) -> Vector:
    """The vector a, shortened to the length `most` if it is longer."""
    length = np.sqrt(dot(a, a))
    return along(most / length, a, ZERO) if length > most else a


@inlined
def cross(a: Vector, b: Vector) -> Vector:
    """The cross product a × b of two vectors."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@inlined
def rotate(R: Matrix, a: Vector) -> Vector:
    """The vector R a, for any 3 × 3 matrix R."""
    return (R[0] * a[0] + R[1] * a[1] + R[2] * a[2],
            R[3] * a[0] + R[4] * a[1] + R[5] * a[2],
            R[6] * a[0] + R[7] * a[1] + R[8] * a[2])


@inlined
def unrotate(R: Matrix, a: Vector) -> Vector:
    """The vector Rᵀ a, for any 3 × 3 matrix R."""
    return (R[0] * a[0] + R[3] * a[1] + R[6] * a[2],
            R[1] * a[0] + R[4] * a[1] + R[7] * a[2],
            R[2] * a[0] + R[5] * a[1] + R[8] * a[2])


@inlined
def compose(R: Matrix, S: Matrix) -> Matrix:
    """The product R S of two 3 × 3 matrices."""
    return (R[0] * S[0] + R[1] * S[3] + R[2] * S[6],
            R[0] * S[1] + R[1] * S[4] + R[2] * S[7],
            R[0] * S[2] + R[1] * S[5] + R[2] * S[8],
            R[3] * S[0] + R[4] * S[3] + R[5] * S[6],
            R[3] * S[1] + R[4] * S[4] + R[5] * S[7],
            R[3] * S[2] + R[4] * S[5] + R[5] * S[8],
            R[6] * S[0] + R[7] * S[3] + R[8] * S[6],
            R[6] * S[1] + R[7] * S[4] + R[8] * S[7],
            R[6] * S[2] + R[7] * S[5] + R[8] * S[8])


@inlined
def transpose(R: Matrix) -> Matrix:
    """The transpose Rᵀ of a 3 × 3 matrix."""
    return (R[0], R[3], R[6], R[1], R[4], R[7], R[2], R[5], R[8])


@inlined
def times(S: Symmetric, a: Vector) -> Vector:
    """The product S a of a symmetric 3 × 3 matrix and a vector."""
    return (S[0] * a[0] + S[1] * a[1] + S[2] * a[2],
            S[1] * a[0] + S[3] * a[1] + S[4] * a[2],
            S[2] * a[0] + S[4] * a[1] + S[5] * a[2])


@inlined
def add_symmetric(S: Symmetric, T: Symmetric) -> Symmetric:
    """The sum S + T of two symmetric 3 × 3 matrices."""
    return (S[0] + T[0], S[1] + T[1], S[2] + T[2], S[3] + T[3], S[4] + T[4], S[5] + T[5])


@inlined
def add_matrix(R: Matrix, S: Matrix) -> Matrix:
    """The sum R + S of two 3 × 3 matrices."""
    return (R[0] + S[0], R[1] + S[1], R[2] + S[2],
            R[3] + S[3], R[4] + S[4], R[5] + S[5],
            R[6] + S[6], R[7] + S[7], R[8] + S[8])


@inlined
def full(S: Symmetric) -> Matrix:
    """The symmetric matrix as nine numbers."""
    return (S[0], S[1], S[2], S[1], S[3], S[4], S[2], S[4], S[5])


@inlined
def upper(R: Matrix) -> Symmetric:
    """The upper triangle (six numbers, by rows) of a symmetric 3 × 3 matrix."""
    return (R[0], R[1], R[2], R[4], R[5], R[8])


@inlined
def add_outer(a: Vector, b: Vector, R: Matrix) -> Matrix:
    """The sum R + a bᵀ, for a 3 × 3 matrix R."""
    return (R[0] + a[0] * b[0], R[1] + a[0] * b[1], R[2] + a[0] * b[2],
            R[3] + a[1] * b[0], R[4] + a[1] * b[1], R[5] + a[1] * b[2],
            R[6] + a[2] * b[0], R[7] + a[2] * b[1], R[8] + a[2] * b[2])


@inlined
def cross_rows(R: Matrix, p: Vector) -> Matrix:
    """The 3 × 3 matrix R p×: each row is the cross product of that row of R with p."""
    a = cross((R[0], R[1], R[2]), p)
    b = cross((R[3], R[4], R[5]), p)
    c = cross((R[6], R[7], R[8]), p)
    return (a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2])


@inlined
def unrotate_symmetric(R: Matrix, S: Symmetric) -> Symmetric:
    """The product Rᵀ S R, for a symmetric 3 × 3 matrix S."""
    T = compose(full(S), R)
    return (R[0] * T[0] + R[3] * T[3] + R[6] * T[6],
            R[0] * T[1] + R[3] * T[4] + R[6] * T[7],
            R[0] * T[2] + R[3] * T[5] + R[6] * T[8],
            R[1] * T[1] + R[4] * T[4] + R[7] * T[7],
            R[1] * T[2] + R[4] * T[5] + R[7] * T[8],
            R[2] * T[2] + R[5] * T[5] + R[8] * T[8])


@inlined
def unrotate_matrix(R: Matrix, B: Matrix) -> Matrix:
    """The product Rᵀ B R, for any 3 × 3 matrix B."""
    return compose(transpose(R), compose(B, R))


@inlined
def motion_to_body(R: Matrix, p: Vector, v: Spatial) -> Spatial:
    """X v: transform a motion vector from the parent's frame to the body's frame."""
    return unrotate(R, v[0]), unrotate(R, add(v[1], cross(v[0], p)))


@inlined
def force_to_parent(R: Matrix, p: Vector, f: Spatial) -> Spatial:
    """Xᵀ f: transform a force vector from the body's frame to the parent's frame."""
    linear = rotate(R, f[1])
    return add(rotate(R, f[0]), cross(p, linear)), linear


@inlined
def force_to_body(R: Matrix, p: Vector, f: Spatial) -> Spatial:
    """X⁻ᵀ f: transform a force vector from the parent's frame to the body's frame."""
    return unrotate(R, add(f[0], cross(f[1], p))), unrotate(R, f[1])


@inlined
def mobility_shifted(p: Vector, K: Mobility) -> Mobility:
    """Mobility K at the point p of the same body, in the same axes."""
    A, B, C = K
    Ap = cross_rows(full(A), p)
    B_p = add_matrix(B, Ap)
    # C + Bᵀ p× + (Bᵀ p×)ᵀ - p× A p×, with the last term taken from B_p
    half = cross_rows(transpose(B), p)
    rest = cross_rows(transpose(B_p), p)
    return A, B_p, (C[0] + half[0] + rest[0],
                    C[1] + half[3] + rest[1],
                    C[2] + half[6] + rest[2],
                    C[3] + half[4] + rest[4],
                    C[4] + half[7] + rest[5],
                    C[5] + half[8] + rest[8])


@inlined
def mobility_unrotated(R: Matrix, K: Mobility) -> Mobility:
    """Mobility in axes rotated by R: Rᵀ (·) R of every block."""
    A, B, C = K
    return unrotate_symmetric(R, A), unrotate_matrix(R, B), unrotate_symmetric(R, C)


@inlined
def add_mobility(K: Mobility, L: Mobility) -> Mobility:
    """The sum K + L of two mobilities."""
    return add_symmetric(K[0], L[0]), add_matrix(K[1], L[1]), add_symmetric(K[2], L[2])


@inlined
def mobility_times(K: Mobility, f: Spatial) -> Spatial:
    """Acceleration K f that the spatial force f causes at a mobility K."""
    A, B, C = K
    return add(times(A, f[0]), rotate(B, f[1])), add(unrotate(B, f[0]), times(C, f[1]))


@inlined
def linear_first(K: Mobility) -> Mobility:
    """Mobility K in the order [linear; angular]."""
    return K[2], transpose(K[1]), K[0]


@inlined
def rank_one_downdate(K: Mobility, w: float, a: Vector, c: Vector) -> Mobility:
    """The mobility K - w [a; c][a; c]ᵀ, for a number w."""
    A, B, C = K
    wa, wc = (w * a[0], w * a[1], w * a[2]), (w * c[0], w * c[1], w * c[2])
    return ((A[0] - wa[0] * a[0], A[1] - wa[0] * a[1], A[2] - wa[0] * a[2],
             A[3] - wa[1] * a[1], A[4] - wa[1] * a[2], A[5] - wa[2] * a[2]),
            (B[0] - wa[0] * c[0], B[1] - wa[0] * c[1], B[2] - wa[0] * c[2],
             B[3] - wa[1] * c[0], B[4] - wa[1] * c[1], B[5] - wa[1] * c[2],
             B[6] - wa[2] * c[0], B[7] - wa[2] * c[1], B[8] - wa[2] * c[2]),
            (C[0] - wc[0] * c[0], C[1] - wc[0] * c[1], C[2] - wc[0] * c[2],
             C[3] - wc[1] * c[1], C[4] - wc[1] * c[2], C[5] - wc[2] * c[2]))


@inlined
def inertia_to_parent(R: Matrix, p: Vector, I: Mobility) -> Mobility:
    """Xᵀ I X: transform an inertia [[A, B], [Bᵀ, C]] from the body's to the parent's frame."""
    turned = mobility_unrotated(transpose(R), I)
    return linear_first(mobility_shifted((-p[0], -p[1], -p[2]), linear_first(turned)))


@inlined
def inverse(S: Symmetric) -> Symmetric:
    """The inverse S⁻¹ of a symmetric 3 × 3 matrix."""
    c0, c1 = S[3] * S[5] - S[4] * S[4], S[2] * S[4] - S[1] * S[5]
    c2 = S[1] * S[4] - S[2] * S[3]
    d = 1.0 / (S[0] * c0 + S[1] * c1 + S[2] * c2)
    return (d * c0, d * c1, d * c2, d * (S[0] * S[5] - S[2] * S[2]),
            d * (S[1] * S[2] - S[0] * S[4]), d * (S[0] * S[3] - S[1] * S[1]))


@inlined
def sub_matrix(R: Matrix, S: Matrix) -> Matrix:
    """The difference R - S of two 3 × 3 matrices."""
    return (R[0] - S[0], R[1] - S[1], R[2] - S[2],
            R[3] - S[3], R[4] - S[4], R[5] - S[5],
            R[6] - S[6], R[7] - S[7], R[8] - S[8])


@inlined
def plus(a: Spatial, b: Spatial) -> Spatial:
    """The sum a + b of two spatial vectors."""
    return add(a[0], b[0]), add(a[1], b[1])


@inlined
def minus(a: Spatial, b: Spatial) -> Spatial:
    """The difference a - b of two spatial vectors."""
    return sub(a[0], b[0]), sub(a[1], b[1])


@inlined
def motion_cross(v: Spatial, w: Spatial) -> Spatial:
    """The cross product v × w of two spatial motion vectors."""
    return cross(v[0], w[0]), add(cross(v[0], w[1]), cross(v[1], w[0]))


@inlined
def force_cross(v: Spatial, f: Spatial) -> Spatial:
    """The cross product v ×* f of a spatial motion vector and a spatial force vector."""
    return add(cross(v[0], f[0]), cross(v[1], f[1])), cross(v[0], f[1])


@inlined
def vector_at(row: Row, k: int) -> Vector:
    """The vector stored in row[k:k + 3]."""
    return (row[k], row[k + 1], row[k + 2])


@inlined
def spatial_at(row: Row, k: int) -> Spatial:
    """The spatial vector stored in row[k:k + 6]."""
    return vector_at(row, k), vector_at(row, k + 3)


@inlined
def symmetric_at(row: Row, k: int) -> Symmetric:
    """The symmetric 3 × 3 matrix stored in row[k:k + 6]."""
    return (row[k], row[k + 1], row[k + 2], row[k + 3], row[k + 4], row[k + 5])


@inlined
def matrix_at(row: Row, k: int) -> Matrix:
    """The 3 × 3 matrix stored in row[k:k + 9]."""
    return (row[k], row[k + 1], row[k + 2], row[k + 3], row[k + 4],
            row[k + 5], row[k + 6], row[k + 7], row[k + 8])


@inlined
def mobility_at(row: Row, k: int) -> Mobility:
    """The mobility stored in row[k:k + 21]."""
    return symmetric_at(row, k), matrix_at(row, k + 6), symmetric_at(row, k + 15)


@inlined
def put_mobility(row: Row, k: int, K: Mobility) -> None:
    """Write a mobility into row[k:k + 21]."""
    put(row, k, K[0])
    put(row, k + 6, K[1])
    put(row, k + 15, K[2])


@inlined
def coupling_at(row: Row, k: int) -> Coupling:
    """The coupling [[C0, C1], [C2, C3]] stored in row[k:k + 36]."""
    return (matrix_at(row, k), matrix_at(row, k + 9), matrix_at(row, k + 18),
            matrix_at(row, k + 27))


@inlined
def put_coupling(row: Row, k: int, C: Coupling) -> None:
    """Write a coupling [[C0, C1], [C2, C3]] into row[k:k + 36]."""
    put(row, k, C[0])
    put(row, k + 9, C[1])
    put(row, k + 18, C[2])
    put(row, k + 27, C[3])


@inlined
def coupling_transposed(C: Coupling) -> Coupling:
    """The transpose of a coupling [[C0, C1], [C2, C3]]."""
    return transpose(C[0]), transpose(C[2]), transpose(C[1]), transpose(C[3])


@inlined
def all_finite(x: Row) -> bool:
    """Whether every number of an array is finite."""
    total = 0.0
    for i in range(len(x)):
        total += 0.0 * x[i]  # 0, or NaN if x[i] is not finite
    return total == 0.0
