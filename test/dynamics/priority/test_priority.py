# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The prioritized solve compared with the dense textbook formula in numpy."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from attacked import robot_of
from osc_ros import Law
from osc_ros.compile.compiled import on_demand
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.priority.priority import LEVELS_D, Priorities
import tolerances

DAMPING = SingularityDamping(0.3, 0.001, 0.003)


def random_case(seed, n, links):
    """Return rng, random Jacobians, mass matrix, and link accelerations without task forces."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, n))
    M = half @ half.T + np.eye(n)
    return rng, rng.normal(size=(6 * links, n)), M, rng.normal(size=6 * links)


def frame(solver, i):
    """Return the rotation of the frame of a level to base axes, for six numbers (6, 6)."""
    return np.kron(np.eye(2), solver.d.level_frame[i].reshape(3, 3))


def selection(solver, i):
    """Return the axes that a level controls, (k, 6), expressed in base axes."""
    return frame(solver, i).T[solver.d.level_activation[i] == 1.0]


def textbook(J, M, a0, solver):
    """
    Return the joint torques (n,) of nested null-space projections.

    τ = Σ Nᵢᵀ Jᵢᵀ Fᵢ; Nᵢ is the dynamically consistent null-space projector of all tasks of higher
    priority. Inverses are pseudo-inverses.

    """
    n = len(M)
    M_inv = np.linalg.inv(M)
    tau, above = np.zeros(n), np.zeros((0, n))
    for k, i in enumerate(solver.m.level_link):
        S, T = selection(solver, k), frame(solver, k)
        own = slice(6 * i, 6 * i + 6)
        Ji = S @ J[own]
        N = np.eye(n)
        if len(above):
            Lambda = np.linalg.pinv(above @ M_inv @ above.T, rcond=1e-10)
            N = N - M_inv @ above.T @ Lambda @ above
        wanted = S @ (T @ solver.d.level_u[k] - a0[own]) - Ji @ M_inv @ tau
        free = Ji @ N
        F = np.linalg.pinv(free @ M_inv @ free.T, rcond=1e-10) @ wanted
        tau = tau + free.T @ F
        above = np.vstack([above, Ji])
    return tau


def filled(solver, rng, activations):
    """Set random accelerations and frames, and the given activations, for all levels."""
    for i, activation in enumerate(activations):
        solver.d.level_u[i], solver.d.level_activation[i] = rng.normal(size=6), activation
        solver.d.level_frame[i] = Rotation.random(random_state=rng).as_matrix().ravel()


def copy_level(solver, i, to, k):
    """Copy the commands of level i to level k of another solver."""
    for one in LEVELS_D:
        if one.name.startswith('level_') and one.shape[0] == 'k':
            getattr(to.d, one.name)[k] = getattr(solver.d, one.name)[i]


def axes(rng, count):
    """Return activations (6,): 1 for `count` random axes, 0 for the others."""
    chosen = np.zeros(6)
    chosen[rng.permutation(6)[:count]] = 1.0
    return chosen


@pytest.mark.parametrize('n, at, counts', [
    (7, [0], [6]), (7, [0], [3]), (6, [0], [6]), (7, [0, 1], [6, 1]), (7, [0, 1], [3, 3]),
    (8, [0, 1], [6, 2]), (12, [0, 1], [6, 6]), (12, [0, 1, 2], [3, 6, 2]),
    (20, [0, 1, 2], [6, 6, 6]), (9, [0, 0], [3, 3]), (10, [1, 0, 1], [2, 4, 3]),
])
@pytest.mark.parametrize('seed', range(5))
def test_torque_is_that_of_nested_null_space_projections(n, at, counts, seed):
    links = max(at) + 1
    rng, J, M, a0 = random_case(seed, n, links)
    solver = Priorities(at, links, n)
    filled(solver, rng, [axes(rng, count) for count in counts])
    F = solver.solve(J, J @ np.linalg.inv(M) @ J.T, a0, DAMPING)
    expected = textbook(J, M, a0, solver)
    np.testing.assert_allclose(J.T @ F, expected, rtol=0.0,
                               atol=tolerances.PRIORITIES * np.abs(expected).max())


@pytest.mark.parametrize('seed', range(5))
def test_what_a_lower_task_asks_for_changes_no_acceleration_of_the_upper_one(seed):
    rng, J, M, a0 = random_case(seed, 8, 2)
    W = J @ np.linalg.inv(M) @ J.T
    solver = Priorities([0, 1], 2, 8)
    filled(solver, rng, [axes(rng, 4), np.ones(6)])
    accelerations = []
    for size in (0.0, 1.0, 1e3):
        solver.d.level_u[1] = size * rng.normal(size=6)
        accelerations.append(selection(solver, 0)
                             @ (a0 + W @ solver.solve(J, W, a0, DAMPING))[:6])
    assert np.abs(np.diff(accelerations, axis=0)).max() < 1e-9
    np.testing.assert_allclose(accelerations[0], solver.d.level_u[0][
        solver.d.level_activation[0] == 1.0], atol=1e-9)


def test_a_lower_task_that_is_taken_up_whole_by_the_upper_one_gets_no_force():
    rng, J, M, a0 = random_case(3, 6, 2)
    W = J @ np.linalg.inv(M) @ J.T
    alone, both = Priorities([0], 2, 6), Priorities([0, 1], 2, 6)
    filled(both, rng, [np.ones(6)] * 2)
    copy_level(both, 0, alone, 0)
    F = both.solve(J, W, a0, DAMPING)
    assert (both.shares[1] == 0.0).all()
    np.testing.assert_array_equal(F[6:], 0.0)
    np.testing.assert_allclose(F, alone.solve(J, W, a0, DAMPING),
                               rtol=tolerances.PRIORITIES)


@pytest.mark.parametrize('n', range(1, 9))
def test_with_few_joints_the_reachable_part_of_the_acceleration_is_commanded(n):
    rng, J, M, a0 = random_case(n, n, 1)
    W = J @ np.linalg.inv(M) @ J.T
    solver = Priorities([0], 1, n)
    filled(solver, rng, [np.ones(6)])
    met = a0 + W @ solver.solve(J, W, a0, DAMPING)
    T = frame(solver, 0)
    missed = T.T @ met - solver.d.level_u[0]
    S = np.diag([1.0] * 3 + [1.0 / DAMPING.length] * 3)
    reachable = S @ T.T @ J
    assert np.abs(reachable.T @ S @ missed).max() < 1e-9
    assert solver.shares[0].sum() == min(n, 6)


@pytest.mark.parametrize('free', [[0, 1, 2], [3, 4, 5], [2], [0, 5]])
def test_freed_axes_are_not_reported_as_ill_conditioned(free):
    rng, J, M, a0 = random_case(1, 7, 1)
    W = J @ np.linalg.inv(M) @ J.T
    solver = Priorities([0], 1, 7)
    filled(solver, rng, [np.array([float(k not in free) for k in range(6)])])
    solver.solve(J, W, a0, DAMPING)
    T = frame(solver, 0)
    S = np.diag([1.0] * 3 + [1.0 / DAMPING.length] * 3)
    kept = [k for k in range(6) if k not in free]
    values = np.linalg.svd((S @ T.T @ J)[kept], compute_uv=False)
    np.testing.assert_allclose(solver.ratios.min(), values[-1] / values[0],
                               rtol=tolerances.SINGULAR_VALUE)
    assert (solver.shares == 1.0).all()


@pytest.mark.parametrize('level', [0, 1])
def test_torque_is_continuous_in_the_activation_down_to_none(level):
    rng, J, M, a0 = random_case(2, 9, 2)
    W = J @ np.linalg.inv(M) @ J.T
    solver = Priorities([0, 1], 2, 9)
    filled(solver, rng, [axes(rng, 6), axes(rng, 3)])
    fully = solver.d.level_activation[level].copy()
    steps = []
    for count in (500, 2000):
        torques = []
        for activation in np.linspace(0.0, 1.0, count):
            solver.d.level_activation[level] = activation * fully
            torques.append(J.T @ solver.solve(J, W, a0, DAMPING))
        steps.append(np.abs(np.diff(torques, axis=0)).max())
        without = Priorities([1 - level], 2, 9)
        copy_level(solver, 1 - level, without, 0)
        np.testing.assert_allclose(torques[0], J.T @ without.solve(J, W, a0, DAMPING),
                                   atol=tolerances.PRIORITIES * np.abs(torques).max())
    assert steps[1] < 0.3 * steps[0]
    assert steps[1] < 0.01 * np.abs(torques).max()


@pytest.mark.parametrize('levels', [2, 3])
@pytest.mark.parametrize('seed', range(5))
def test_direction_that_a_task_fades_out_goes_over_to_the_lower_tasks_gradually(levels, seed):
    rng, J, M, a0 = random_case(seed, 5 + levels, levels)
    left, values, right = np.linalg.svd(J[:6], full_matrices=False)
    low, high = 0.02, 0.06
    solver = Priorities(list(range(levels)), levels, 5 + levels)
    filled(solver, rng, np.ones((levels, 6)))
    torques, shares = [], []
    for way in np.linspace(0.0, 1.0, 300):  # of the singular value, from high to low
        values[5] = high * (low / high) ** way * values[0]
        J[:6] = left @ np.diag(values) @ right
        F = solver.solve(J, J @ np.linalg.inv(M) @ J.T, a0, SingularityDamping(1.0, low, high))
        torques.append(J.T @ F)
        shares.append(solver.shares[0].min())
    changes = np.abs(np.diff(torques, axis=0)).sum(axis=1)
    # the first task still has 90 % of the direction in a fifth of the way
    assert changes[np.array(shares[1:]) > 0.9].sum() < 0.6 * changes.sum()


@pytest.mark.parametrize('seed', range(5))
def test_impedance_task_pushes_with_spring_and_damper_of_the_double_diagonalization(seed):
    rng, J, M, a0 = random_case(seed, 7, 1)
    W = J @ np.linalg.inv(M) @ J.T
    solver = Priorities([0], 1, 7)
    filled(solver, rng, [np.ones(6)])
    d, T = solver.d, frame(solver, 0)
    K, ratio = rng.uniform(10.0, 1000.0, size=6), 0.7
    d.level_u[0] = 0.0
    d.level_spring[0] = spring = rng.normal(size=6)
    d.level_rate[0] = rate = rng.normal(size=6)
    d.level_root[0], d.level_weight[0] = np.sqrt(K), np.sqrt(2.0 * ratio * K)
    Lambda = np.linalg.inv(T.T @ W @ T)
    # generalized eigenvectors X, with K x = ω² Λ x and XᵀΛX = 1: then XᵀDX = diag(2 ζ ω)
    from scipy.linalg import eigh
    squares, X = eigh(np.diag(K), Lambda)
    D = Lambda @ X @ np.diag(2.0 * ratio * np.sqrt(squares)) @ X.T @ Lambda
    expected = T @ (spring + D @ rate - Lambda @ T.T @ a0)
    F = solver.solve(J, W, a0, DAMPING)
    np.testing.assert_allclose(F, expected, rtol=0.0,
                               atol=tolerances.PRIORITIES * np.abs(expected).max())


def test_conditioning_is_known_beside_a_law_whose_kernels_are_locked():
    robot = robot_of('panda')
    with on_demand():
        law = Law(robot)
        law.hold(law.posture)
        law.torque(0.0, law.posture, np.zeros(robot.n))
        assert law.priorities.ratios.max() == 1.0
    rng, J, M, a0 = random_case(0, 7, 1)
    solver = Priorities([0], 1, 7)
    filled(solver, rng, [np.ones(6)])
    solver.solve(J, J @ np.linalg.inv(M) @ J.T, a0, DAMPING)
    assert solver.ratios.max() == 1.0
