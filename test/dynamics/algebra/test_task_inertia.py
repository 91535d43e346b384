# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The task force near singularities, and its 6 × 6 linear algebra, compared with numpy."""

from functools import cache

from numba import njit
import numpy as np
import pytest

from common import naming
from judge import robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.algebra import task_inertia as operations
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping, task_inertia
from osc_ros.dynamics.priority.priority import Priorities
from osc_ros.errors import InputError
from tolerances import CONDITION_ROUNDING, SINGULAR_VALUE, TASK_FORCE
from variants import first_quick

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

LENGTH, LOW, HIGH = 0.3, 0.01, 0.04


# Compiled wrappers, because Python cannot call the functions under test


@njit
def diagonalize(A, V, size):
    operations.diagonalize(A, V, size)


@njit
def solve_in_place(A, b, size):
    return operations.solve_in_place(A, b, size)


def definite(rng, spread=3.0, size=6):
    """Return a symmetric positive definite matrix with eigenvalues over `spread` decades."""
    Q, _ = np.linalg.qr(rng.normal(size=(size, size)))
    A = Q @ np.diag(10 ** rng.uniform(-spread, 0, size)) @ Q.T
    return 0.5 * (A + A.T)


def jacobian_with(values, rng, n=7, length=LENGTH):
    """Return J (6, n) with scaled singular values `values`, and its left singular vectors."""
    U, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    V, _ = np.linalg.qr(rng.normal(size=(n, n)))
    J = U @ np.eye(6, n) * 1.0
    J = (U * values) @ V[:, :6].T if n >= 6 else (U[:, :n] * values[:n]) @ V.T
    J[3:] *= length
    return J, U


def scaling(length):
    return np.diag([1.0, 1.0, 1.0, 1 / length, 1 / length, 1 / length])


def force(damping, J, Lambda_inv, a0, u):
    solver = Priorities([0], 1, J.shape[1])
    solver.d.level_activation[0], solver.d.level_u[0] = 1.0, u
    F = solver.solve(J, Lambda_inv, a0, damping)
    [damping.ratios[:]], [damping.shares[:]] = solver.ratios, solver.shares
    return F


@cache
def arm(name='panda'):
    case = robot_cases()[name]
    return Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)


def tip(space, q):
    """Return J, Λ⁻¹ and a⁰ at joint positions q, at rest, with gravity compensated."""
    found = space.outward(q, np.zeros(len(q)), posture_acceleration=np.zeros(len(q)))
    return space.jacobian(), found.Lambda_inv.copy(), found.a0.copy()


@pytest.mark.parametrize('seed', first_quick(range(10), 3))
def test_eigenvalues_and_vectors_are_numpys(seed):
    A = definite(np.random.default_rng(seed))
    D, V = A.ravel().copy(), np.empty(36)
    diagonalize(D, V, 6)
    V = V.reshape(6, 6)
    values = D.reshape(6, 6).diagonal()
    expected = np.linalg.eigvalsh(A)
    assert np.abs(np.sort(values) - expected).max() < SINGULAR_VALUE
    assert np.abs(V.T @ V - np.eye(6)).max() < SINGULAR_VALUE
    assert np.abs(A @ V - V * values).max() < SINGULAR_VALUE


def test_small_eigenvalues_of_a_graded_matrix_keep_their_digits():
    rng = np.random.default_rng(4)
    scale = 10.0 ** -np.arange(0, 18, 3)
    inner = definite(rng, spread=0.5)
    graded = scale[:, None] * inner * scale
    D, V = graded.ravel().copy(), np.empty(36)
    diagonalize(D, V, 6)
    # a relative error of any eigenvalue, also of the smallest, changes the log of the determinant
    log_det = np.log(D.reshape(6, 6).diagonal()).sum()
    assert abs(log_det - np.linalg.slogdet(inner)[1] - 2 * np.log(scale).sum()) < 1e-11


@pytest.mark.parametrize('matrix', [
    np.zeros((6, 6)), np.eye(6), np.diag([1.0, 0, 0, 0, 0, 0]), np.ones((6, 6)),
    np.diag([1.0, 1, 1, 2, 2, 2]), np.kron(np.eye(3), [[0.0, 1], [1, 0]])])
def test_eigenvalues_of_known_bad_matrices_are_numpys(matrix):
    D, V = matrix.ravel().copy(), np.empty(36)
    diagonalize(D, V, 6)
    assert np.abs(np.sort(D.reshape(6, 6).diagonal()) - np.linalg.eigvalsh(matrix)).max() < (
        SINGULAR_VALUE)


@pytest.mark.parametrize('spread', [0.0, 3.0, 6.0, 12.0])
def test_definite_systems_are_solved_and_the_bound_holds(spread):
    rng = np.random.default_rng(int(spread))
    for _ in range(20):
        A, b = definite(rng, spread), rng.normal(size=6)
        x = b.copy()
        bound = solve_in_place(A.ravel().copy(), x, 6)
        values = np.linalg.eigvalsh(A)
        ratio = values[0] / values[-1]
        assert ratio / 36 * (1 - 1e-3) < bound < ratio * (1 + 1e-3)
        assert np.abs(A @ x - b).max() < CONDITION_ROUNDING / ratio


def test_a_system_that_is_not_definite_is_told():
    for bad in (np.zeros((6, 6)), -np.eye(6), np.diag([1.0, 1, 1, 1, 1, -1e-9]),
                np.full((6, 6), np.nan)):
        assert solve_in_place(bad.ravel().copy(), np.ones(6), 6) == 0.0


@pytest.mark.parametrize('seed', range(5))
def test_task_inertia_is_the_inverse(seed):
    Lambda_inv = definite(np.random.default_rng(seed))
    Lambda = task_inertia(Lambda_inv)
    assert np.abs(Lambda @ Lambda_inv - np.eye(6)).max() < TASK_FORCE
    assert (Lambda == Lambda.T).all()


@pytest.mark.parametrize('rank', range(7))
def test_task_inertia_of_a_singular_arm_is_the_pseudo_inverse(rank):
    rng = np.random.default_rng(rank)
    half = rng.normal(size=(6, rank))
    expected = np.linalg.pinv(half @ half.T, rcond=1e-9, hermitian=True)
    assert np.abs(task_inertia(half @ half.T) - expected).max() <= TASK_FORCE * max(
        np.abs(expected).max(), 1)


@pytest.mark.parametrize('n', [6, 7, 12])
def test_force_is_exact_where_every_direction_is_above_high(n):
    rng = np.random.default_rng(n)
    damping = SingularityDamping(LENGTH, LOW, HIGH)
    for _ in range(20):
        J, _ = jacobian_with(rng.uniform(1.01 * HIGH, 1.0, 6), rng, n)
        Lambda_inv, a0, u = definite(rng), *rng.normal(size=(2, 6))
        expected = np.linalg.solve(Lambda_inv, u - a0)
        F = force(damping, J, Lambda_inv, a0, u)
        assert np.abs(F - expected).max() < TASK_FORCE * np.abs(expected).max()
        assert (damping.shares == 1).all()


@pytest.mark.parametrize('lost', [1, 2, 3, 6])
def test_directions_below_low_get_no_force_and_the_others_their_acceleration(lost):
    rng = np.random.default_rng(lost)
    damping = SingularityDamping(LENGTH, LOW, HIGH)
    S = scaling(LENGTH)
    for _ in range(20):
        values = np.concatenate([rng.uniform(0.5, 1.0, 6 - lost), rng.uniform(0, 0.004, lost)])
        if lost == 6:
            values = np.zeros(6)
        J, U = jacobian_with(values, rng)
        half = rng.normal(size=(6, 6))
        Lambda_inv, a0, u = half @ half.T, *rng.normal(size=(2, 6))
        F = force(damping, J, Lambda_inv, a0, u)
        assert np.abs(U[:, 6 - lost:].T @ np.linalg.inv(S) @ F).max() < TASK_FORCE * max(
            np.abs(F).max(), 1)
        missed = U[:, :6 - lost].T @ S @ (Lambda_inv @ F + a0 - u)
        assert lost == 6 or np.abs(missed).max() < 1e-9
        assert sorted(damping.shares) == [0] * lost + [1] * (6 - lost)


def test_fewer_than_six_joints_lose_the_rest():
    rng = np.random.default_rng(8)
    damping = SingularityDamping(LENGTH, LOW, HIGH)
    for n in range(1, 6):
        J, _ = jacobian_with(rng.uniform(0.5, 1.0, 6), rng, n)
        Lambda_inv = J @ definite(rng, size=n) @ J.T
        F = force(damping, J, Lambda_inv, np.zeros(6), rng.normal(size=6))
        assert np.isfinite(F).all()
        assert damping.shares.sum() == n
        assert damping.conditioning(J) < 1e-7


def test_no_joint_moves_the_tip_and_nothing_is_pushed():
    damping = SingularityDamping(LENGTH, LOW, HIGH)
    F = force(damping, np.zeros((6, 3)), np.zeros((6, 6)), np.zeros(6), np.ones(6))
    assert (F == 0).all()
    assert damping.conditioning(np.zeros((6, 3))) == 0


@pytest.mark.parametrize('name', ['panda', 'ur5', 'kinova'])
def test_conditioning_is_numpys_ratio_of_singular_values(name):
    robot = arm(name)
    space, damping = OperationalSpace(robot), SingularityDamping(LENGTH, LOW, HIGH)
    for q in np.random.default_rng(1).uniform(-2, 2, (20, robot.n)):
        J, _, _ = tip(space, q)
        values = np.linalg.svd(scaling(LENGTH) @ J, compute_uv=False)
        assert abs(damping.conditioning(J) - values[5] / values[0]) < SINGULAR_VALUE
        assert np.abs(np.sort(damping.ratios) - values[::-1] / values[0]).max() < SINGULAR_VALUE


def test_share_rises_from_none_to_all_between_low_and_high():
    rng = np.random.default_rng(3)
    damping = SingularityDamping(LENGTH, LOW, HIGH)
    seen = []
    for ratio in np.geomspace(0.9 * LOW, 1.1 * HIGH, 200):
        J, _ = jacobian_with(np.array([1.0, 0.9, 0.8, 0.7, 0.6, ratio]), rng)
        damping.conditioning(J)
        assert sorted(damping.shares)[1:] == [1.0] * 5
        seen.append(damping.shares.min())
    assert seen[0] == 0 and seen[-1] == 1
    assert (np.diff(seen) >= -1e-9).all()
    assert np.diff(seen).max() < 0.03


def stretching(robot, steps):
    """Return joint positions (steps, n) on a line; the elbow passes 0, where it is stretched."""
    bent = np.array([0.3, 0.4, -0.2, -0.9, 0.5, 0.8, 0.1])[:robot.n]
    other = -bent + 0.05
    return bent + np.linspace(0, 1, steps)[:, None] * (other - bent)


@pytest.mark.parametrize('name', ['panda', *(
    pytest.param(name, marks=pytest.mark.slow) for name in ('ur5', 'iiwa_like'))])
def test_force_is_continuous_through_a_singularity(name):
    robot = arm(name)
    space = OperationalSpace(robot)
    damping = SingularityDamping(LENGTH, LOW, HIGH)
    u = np.array([1.0, -2.0, 0.5, 3.0, 1.0, -1.0])
    largest = []
    for steps in (4000, 16000):
        found, conditioning = [], 1.0
        for q in stretching(robot, steps):
            J, Lambda_inv, a0 = tip(space, q)
            found.append(force(damping, J, Lambda_inv, a0, u))
            conditioning = min(conditioning, damping.ratios.min())
        assert conditioning < LOW
        largest.append(np.abs(np.diff(found, axis=0)).max())
        assert np.isfinite(found).all()
    # a jump would be equally large with four times as many steps
    assert largest[1] < 0.35 * largest[0]


def test_force_at_a_singularity_stays_of_the_size_it_has_beside_it():
    robot = arm('panda')
    space = OperationalSpace(robot)
    damping = SingularityDamping(LENGTH, LOW, HIGH)
    u = np.array([1.0, -2.0, 0.5, 3.0, 1.0, -1.0])
    sizes, undamped = [], []
    for q in stretching(robot, 2001):
        J, Lambda_inv, a0 = tip(space, q)
        sizes.append(np.linalg.norm(force(damping, J, Lambda_inv, a0, u)))
        undamped.append(np.linalg.norm(np.linalg.pinv(Lambda_inv) @ (u - a0)))
    assert max(sizes) < 30 * np.median(sizes)
    assert max(sizes) < 0.1 * max(undamped)


@pytest.mark.parametrize('mass, size', [(1e-3, 1.0), (1e3, 1.0), (1.0, 0.1), (1.0, 20.0),
                                        (50.0, 3.0)])
def test_shares_do_not_depend_on_how_heavy_or_large_the_arm_is(mass, size):
    rng = np.random.default_rng(6)
    grow = np.diag([1.0, 1.0, 1.0, size, size, size])
    small, large = (SingularityDamping(scale * LENGTH, LOW, HIGH) for scale in (1.0, size))
    for ratio in np.geomspace(0.5 * LOW, 2 * HIGH, 20):
        J, _ = jacobian_with(np.array([1.0, 0.8, 0.5, 0.4, 0.2, ratio]), rng)
        half = rng.normal(size=(6, 6))
        Lambda_inv, a0, u = half @ half.T, *rng.normal(size=(2, 6))
        F = force(small, J, Lambda_inv, a0, u)
        # inertia grows with the mass and with the square of the size
        F_large = force(large, grow @ J, grow @ Lambda_inv @ grow / (mass * size ** 2),
                        grow @ a0, grow @ u)
        assert np.abs(np.sort(large.shares) - np.sort(small.shares)).max() < 1e-9
        expected = mass * size ** 2 * np.linalg.solve(grow, F)
        assert np.abs(F_large - expected).max() < 1e-7 * np.abs(expected).max()


@pytest.mark.parametrize('length', [0.0, -0.3, np.nan, np.inf])
def test_characteristic_length_that_is_not_positive_and_finite_is_refused(length):
    with pytest.raises(InputError, match=naming('length', length, 'must be', 'at least', '[m]')):
        SingularityDamping(length, LOW, HIGH)


@pytest.mark.parametrize('low, high', [
    (0.0, 0.1), (-0.1, 0.1), (0.1, 0.1), (0.2, 0.1), (0.1, 1.0), (np.nan, 0.1), (0.1, np.nan)])
def test_thresholds_out_of_order_are_refused(low, high):
    with pytest.raises(InputError, match='low.* (0 < low < high < 1|at least)|high.* at least'):
        SingularityDamping(LENGTH, low, high)
