# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Joint limits, compared with scipy's solvers and with numerical integration."""

from numba import njit
import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

from osc_ros import Robot, shipped_urdf
from osc_ros.control.data import LAW_D, LAW_M
from osc_ros.control.limits import limits
from osc_ros.control.limits.bounds import exceeds
from osc_ros.control.limits.complementarity import nearest_within
from osc_ros.control.limits.nearest import YIELDING
from osc_ros.control.step.limit import limit
import tolerances
from variants import first_quick

LENGTH = 0.3  # that weights a rotation of 1 rad like a translation [m]
TICK = 0.002  # [s]


def bounds(q, qd, position, velocity, deceleration, rate):
    """Return the lowest and highest acceleration of one joint."""
    m, d = LAW_M.new(n=1), LAW_D.new(n=1)
    d.unexplained_before[:], m.payload_ratio = np.nan, 1.0  # no acceleration is unexplained
    d.limits[:limits.EFFORT, 0] = *position, velocity, deceleration, rate
    d.q[0], d.qd[0], d.tick = q, qd, TICK
    exceeds(m, d)
    return d.lowest[0], d.highest[0]


def test_arm_that_can_hardly_brake_has_limits_too():
    """The node refused `limits.effort` by the name of another parameter, limits.deceleration."""
    robot = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
    assert (limits.Limits.of(robot, effort=np.full(7, 1e-3)).deceleration >= limits.WEAKEST).all()


@pytest.mark.parametrize('seed', first_quick(range(8), 2))
def test_joint_driven_into_its_limits_by_the_bounds_alone_passes_none(seed):
    rng = np.random.default_rng(seed)
    position, velocity = rng.uniform(-3.0, 3.0) + np.array([0.0, 1.0]), rng.uniform(0.5, 3.0)
    deceleration, rate, period = rng.uniform(3.0, 40.0), rng.uniform(5.0, 40.0), 0.002
    q, qd, sign = position.mean(), 0.0, 1.0
    reached = []
    for k in range(6000):
        if k % 2000 == 0:
            sign = -sign
        lower, upper = bounds(q, qd, position, velocity, deceleration, rate)
        assert lower <= upper
        qdd = np.clip(sign * 200.0, lower, upper)
        q, qd = q + period * qd + 0.5 * period ** 2 * qdd, qd + period * qdd
        assert position[0] <= q <= position[1]
        assert abs(qd) <= velocity * (1.0 + 1e-12)
        reached.append(q)
    assert max(reached) > position[1] - 0.02
    assert min(reached) < position[0] + 0.02


def test_braking_for_a_limit_takes_no_more_than_the_deceleration():
    for rate in (10.0, 25.0):
        q, qd, period, hardest = 0.0, 0.0, 1e-3, 0.0
        while q < 0.999:
            qdd = bounds(q, qd, (-1.0, 1.0), 2.0, 5.0, rate)[1]
            hardest = max(hardest, -qdd)
            q, qd = q + period * qd + 0.5 * period ** 2 * qdd, qd + period * qdd
        assert 3.0 < hardest <= 5.0


def test_bounds_are_continuous_in_position_and_velocity():
    given = ((-1.0, 1.0), 2.0, 5.0, 25.0)
    for q0, qd0, q1, qd1 in ((0.9, 0.2, 1.1, 0.2), (0.5, -1.0, 0.5, 3.0), (0.99, 0.3, 1.01, -0.3)):
        steps = 20001
        found = np.array([bounds(q, qd, *given) for q, qd in zip(
            np.linspace(q0, q1, steps), np.linspace(qd0, qd1, steps))])
        assert np.abs(np.diff(found, axis=0)).max() < 5000.0 * max(
            abs(q1 - q0), abs(qd1 - qd0)) / steps


def test_joint_beyond_its_limit_is_brought_back_without_haste():
    q, qd, period = 1.3, 0.5, 1e-3
    for _ in range(4000):
        qdd = bounds(q, qd, (-1.0, 1.0), 2.0, 5.0, 25.0)[1]
        assert qdd >= -10.0
        q, qd = q + period * qd + 0.5 * period ** 2 * qdd, qd + period * qdd
    assert 1.0 - 1e-3 < q < 1.0 + 1e-3


def test_joint_without_position_limits_is_held_to_its_velocity_only():
    lower, upper = bounds(50.0, 1.0, (-np.inf, np.inf), 2.0, 5.0, 25.0)
    np.testing.assert_allclose([lower, upper], [-3.0 * 250.0, 25.0 * (1.0 + 9.0 / 2.0 ** 8)])
    lower, upper = bounds(50.0, 1.0, (-np.inf, np.inf), np.inf, 5.0, 25.0)
    assert (lower, upper) == (-np.inf, np.inf)


def spd(rng, n, condition):
    """Return a symmetric positive definite matrix (n, n), condition number up to `condition`."""
    Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return (Q * condition ** -rng.uniform(size=n)) @ Q.T


def nearest(K, qdd, lower, upper, side=None):
    """
    Call `nearest_within` for accelerations qdd (n,); return three arrays (n,).

    These are the change of qdd, the multipliers of its bounds, and at which bound each entry is.

    """
    n = len(qdd)
    side = np.zeros(n, dtype=np.int64) if side is None else side
    push, change = np.full(n, np.nan), np.full(n, np.nan)
    bounds = (np.array(one, dtype=float) for one in (lower, upper))
    assert nearest_within(K, qdd, *bounds, side, np.zeros(n, dtype=np.int64), np.zeros((n, n)),
                          push, change)
    return change, push, side


@pytest.mark.parametrize('n', [1, 2, 6, 7, 12])
@pytest.mark.parametrize('condition', [1.0, 1e4])
def test_least_change_within_bounds_is_that_of_scipy(n, condition):
    rng = np.random.default_rng(n)
    for _ in range(60):
        K, qdd = spd(rng, n, condition), rng.normal(scale=3.0, size=n)
        lower, upper = -rng.uniform(0.0, 2.0, size=n), rng.uniform(0.0, 2.0, size=n)
        lower[rng.uniform(size=n) < 0.2] = -np.inf
        change, push, side = nearest(K, qdd, lower, upper,
                                     rng.integers(-1, 2, size=n) * np.isfinite(lower))
        L = np.linalg.cholesky(np.linalg.inv(K)).T
        expected = lsq_linear(L, L @ qdd, (lower, upper), method='bvls', tol=1e-14,
                              max_iter=1000).x
        np.testing.assert_allclose(qdd + change, expected, atol=tolerances.NEAREST * condition)
        assert (push * side <= 0.0).all()


@pytest.mark.parametrize('seed', range(5))
def test_bounds_of_many_near_pairs_that_contradict_each_other_have_a_solution(seed):
    rng, n, pairs = np.random.default_rng(seed), 7, 16
    M = spd(rng, n, 1e3)
    rows = np.repeat(rng.normal(scale=0.3, size=(pairs // 2, n)), 2, axis=0)  # nearly parallel
    C = np.vstack([np.eye(n), M, rows + rng.normal(scale=3e-3, size=(pairs, n))])
    K = C @ np.linalg.inv(M) @ C.T
    K += np.diag(np.diag(K) * np.repeat([1e-5, 1e-7, 0.1], [n, n, pairs]))
    qdd = C @ rng.normal(scale=20.0, size=n)
    upper = np.concatenate([rng.uniform(0.0, 10.0, n), rng.uniform(0.0, 0.3, n),
                            rng.uniform(-5.0, 1.0, pairs)])
    lower = np.concatenate([-upper[:2 * n], np.full(pairs, -np.inf)])
    change, push, side = nearest(K, qdd, lower, upper, rng.integers(-1, 2, size=len(K))
                                 * np.isfinite(lower))
    assert (push * side <= 0.0).all()
    np.testing.assert_array_equal(push[side == 0], 0.0)
    np.testing.assert_allclose(change, K @ push, atol=1e-6)
    np.testing.assert_allclose(np.where(side == 0, np.clip(qdd + change, lower, upper), np.where(
        side > 0, upper, lower)), qdd + change, atol=1e-6)


def test_least_change_is_continuous_where_a_bound_is_met():
    rng = np.random.default_rng(3)
    K, ones = spd(rng, 7, 1e3), np.ones(7)
    direction = rng.normal(size=7)
    found = np.array([nearest(K, s * direction, -ones, ones)[0]
                      for s in np.linspace(0.0, 5.0, 5001)])
    assert (np.abs(found[-1]) > 0.0).any()
    assert np.abs(np.diff(found, axis=0)).max() < 50.0 * 1e-3


def problem(rng, n=7):
    """Return a random problem that has a solution, and the torques of its law."""
    M = spd(rng, n, 100.0)
    M_inv, J = np.linalg.inv(M), rng.normal(size=(6, n))
    qdd, bias, inside = rng.normal(scale=8.0, size=n), rng.normal(size=n), rng.normal(size=n)
    effort = np.abs(M @ inside + bias) + rng.uniform(0.05, 1.0, size=n)
    return (M_inv, (J, np.linalg.inv(J @ M_inv @ J.T)), qdd,
            inside - rng.uniform(0.0, 4.0, size=n), inside + rng.uniform(0.0, 4.0, size=n),
            effort), M @ qdd + bias


@njit(error_model='numpy')
def put_within(m, d):
    d.solves = 1
    limit(m, d, 0)


def within(given, tau):
    """Return the torques within the limits, and whether any bound is active."""
    (M_inv, task, qdd, lower, upper, effort), n = given, len(tau)
    m, d = LAW_M.new(n=n, k=1, m=1), LAW_D.new(n=n, k=1, m=1)
    (d.level_J[0], d.level_Lambda[0, 0]), m.singular_length = task, LENGTH
    d.most_effort[:], d.deceleration[:] = effort, 1.0
    d.qdd_law[:], d.lowest[:], d.highest[:] = qdd, lower, upper
    d.M_inv[:], d.window[:] = M_inv, np.outer([-1.0, 1.0], effort)
    d.tau_limited[:] = tau
    put_within(m, d)
    return d.tau_limited, d.limits_work


def least_change(A, qdd, rows, room):
    """Return the x with rows x ≤ room that is nearest to q̈, by scipy."""
    return minimize(lambda x: (x - qdd) @ A @ (x - qdd), np.zeros(len(qdd)), method='SLSQP',
                    jac=lambda x: 2.0 * A @ (x - qdd),
                    constraints={'type': 'ineq', 'fun': lambda x: room - rows @ x,
                                 'jac': lambda x: -rows},
                    options={'maxiter': 1000, 'ftol': 1e-14}).x


def test_torques_are_those_of_the_least_change_within_all_limits():
    rng = np.random.default_rng(5)
    for _ in range(20):
        given, tau = problem(rng)
        M_inv, (J, Lambda), qdd, lower, upper, effort = given
        M = np.linalg.inv(M_inv)
        bias = tau - M @ qdd
        # relax the bounds that a joint cannot meet with its own torque alone
        lower = np.minimum(lower, (effort - bias) * np.diag(M_inv))
        upper = np.maximum(upper, (-effort - bias) * np.diag(M_inv))
        S = np.repeat([1.0, LENGTH], 3)
        mobility = np.trace(J @ M_inv @ J.T / np.outer(S, S)) / 6.0
        A = M + J.T @ np.diag(1.0 / (mobility * S * S)) @ J / YIELDING
        expected = least_change(A, qdd, np.vstack([np.eye(7), -np.eye(7), M, -M]),
                                np.r_[upper, -lower, effort - bias, effort + bias])
        found, is_at_bound = within(given, tau)
        assert is_at_bound
        assert (np.abs(found) <= effort).all()
        np.testing.assert_allclose(M_inv @ (found - bias), expected, atol=2e-2)


def test_torques_within_the_limits_stay_as_they_are():
    given, tau = problem(np.random.default_rng(6))
    wide = (*given[:3], *np.full((3, 7), 1e3) * [[-1.0], [1.0], [1.0]])
    found, is_at_bound = within(wide, tau)
    np.testing.assert_allclose(found, tau, rtol=1e-12)
    assert not is_at_bound


@pytest.mark.parametrize('seed', first_quick(range(3)))
def test_torques_change_continuously_though_limits_contradict(seed):
    rng = np.random.default_rng(seed)
    given, tau = problem(rng)
    steps = []
    for count in (1001, 10001):
        # the torque of joint 2 for the load grows by up to twice its limit
        found = [within(given, tau + share * 2.0 * np.where(np.arange(7) == 2, given[5], 0.0))[0]
                 / given[5] for share in np.linspace(0.0, 1.0, count)]
        assert np.abs(found).max() <= 1.0
        steps.append(np.abs(np.diff(found, axis=0)).max())
    assert steps[1] < 0.15 * steps[0]
