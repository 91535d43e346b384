# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The compiled block LDLᵀ: factors compared with numpy, results with Pinocchio."""

from dataclasses import replace
from functools import cache

import numpy as np
import pinocchio as pin
import pytest

from judge import configuration, pinocchio_model, random_urdf, robot_cases
from osc_ros import Robot
from osc_ros.dynamics.chain.ldl import LDL
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.papers.block_tridiagonal import BlockLDL
from osc_ros.dynamics.papers.schur import schur_blocks
from tolerances import AGREEMENT, FACTORS_AGREE, ROTOR_LIMIT
from variants import first_quick

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')


@cache
def arm(name, rotors):
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    d = np.random.default_rng(5).uniform(0.05, 0.8, robot.n) * rotors
    d[robot.n // 2] = 0.0
    return replace(robot, rotor_inertia=d)


def states(n, count=5):
    """Return tuples of random q, qd, torques (n,) and force on the tip (6,)."""
    rng = np.random.default_rng(23)
    return [(rng.uniform(-2.5, 2.5, n), rng.normal(size=n), 10 * rng.normal(size=n),
             10 * rng.normal(size=6)) for _ in range(count)]


def error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def pivots(dynamics):
    """Return the pivots L D Lᵀ (n, 6, 6), from the factors of the last forward dynamics."""
    kept = dynamics._factor
    L = np.tile(np.eye(6), (len(kept), 1, 1))
    columns, rows = np.triu_indices(6, 1)  # L is stored by columns, below the diagonal
    L[:, rows, columns] = kept[:, :15]
    return L / kept[:, None, 15:21] @ L.transpose(0, 2, 1)  # kept[:, 15:21] is D⁻¹


@pytest.mark.parametrize('rotors', first_quick([True, False]))
@pytest.mark.parametrize('name', robot_cases())
def test_every_pivot_is_that_of_the_block_tridiagonal_matrix(name, rotors):
    robot = arm(name, rotors)
    dynamics = LDL(robot)
    # Both matrices have the joint axis last. For revolute joints LDL has the linear directions
    # first, schur_blocks the angular ones.
    turning, sliding = [3, 4, 0, 1, 2, 5], [0, 1, 2, 3, 4, 5]
    for q, qd, tau, F in states(robot.n):
        A = schur_blocks(robot, q).A
        width = A.diagonal.shape[1]
        dynamics.forward_dynamics(q, qd, tau, F)
        for i, pivot in enumerate(pivots(dynamics)):
            order = sliding if robot.prismatic[i] else turning
            pivot = pivot[np.ix_(order, order)]
            # Dᵢ is the Schur complement in blocks 0 to i: Dᵢ⁻¹ is the last block of their inverse
            expected = BlockLDL(A.diagonal[:i + 1], A.upper[:i]).last_inverse_block()
            scale = np.sqrt(np.diag(A.diagonal[i]))
            found = np.linalg.inv(pivot[:width, :width] / np.outer(scale, scale))
            expected = expected * np.outer(scale, scale)
            limit = FACTORS_AGREE * np.linalg.cond(expected)
            assert error(found, expected) < limit
            if width == 5:
                assert (pivot[5] == np.eye(6)[5]).all()


@pytest.mark.parametrize('name', robot_cases())
def test_inverse_task_inertia_and_inverse_inertia_are_those_of_the_blocks(name):
    robot = arm(name, rotors=True)
    dynamics = LDL(robot)
    for q, qd, x, _ in states(robot.n):
        blocks = schur_blocks(robot, q)
        assert dynamics.outward(q, qd, None, None) == DONE
        assert error(dynamics.Lambda_inv, blocks.Lambda_inv) < AGREEMENT
        assert error(dynamics.apply_M_inv(q, x), blocks.M_inv_times(x)) < AGREEMENT


@pytest.mark.parametrize('rotor', [0.0, 0.3])
@pytest.mark.parametrize('first', ['slides', 'turns'])
@pytest.mark.parametrize('n', [1, 2, 3])
def test_the_shortest_chains_move_as_pinocchio_says(n, first, rotor):
    below = 0 if first == 'slides' else 1
    urdf_text, base = random_urdf(n, n + below), f'link_{below}'
    robot = Robot.from_urdf(urdf_text, base, 'tool', rotor_inertia=np.full(n, rotor))
    assert robot.prismatic[0] == (first == 'slides')
    model, data, frame = pinocchio_model(urdf_text, base, 'tool', robot.joint_names)
    model.armature = robot.rotor_inertia.copy()
    dynamics = LDL(robot)
    for q, qd, tau, F in states(n):
        at = configuration(model, q)
        pin.framesForwardKinematics(model, data, at)
        at_tip = pin.SE3(np.eye(3), data.oMf[frame].translation)
        forces = pin.StdVec_Force()
        forces.extend([pin.Force.Zero()] * n)
        forces.append(data.oMi[n].actInv(at_tip.act(pin.Force(F[3:], F[:3]))))
        expected = pin.aba(model, data, at, qd, tau, forces)
        assert error(dynamics.forward_dynamics(q, qd, tau, F), expected) < AGREEMENT


@pytest.mark.parametrize('name', ['panda', 'tiago', 'random_long'])
def test_tiny_rotor_inertia_changes_no_pivot(name):
    robot = arm(name, rotors=False)
    none, vanishing = LDL(robot), LDL(replace(robot, rotor_inertia=np.full(robot.n, 1e-12)))
    for q, qd, tau, F in states(robot.n):
        expected = none.forward_dynamics(q, qd, tau, F)
        assert error(vanishing.forward_dynamics(q, qd, tau, F), expected) < ROTOR_LIMIT
        assert error(pivots(vanishing)[:, :5, :5], pivots(none)[:, :5, :5]) < ROTOR_LIMIT


def test_what_does_not_fit_or_is_not_finite_is_told():
    robot = arm('panda', rotors=True)
    dynamics, out = LDL(robot), np.empty(7)
    q, qd, tau, u = states(7, 1)[0]
    for bad in range(5):
        given = [q, qd, u, tau, tau]
        given[bad] = np.zeros(len(given[bad]) + 1)
        assert dynamics.torque(*given, out) == WRONG_SHAPE
        given[bad] = np.full(len(given[bad]) - 1, np.nan)
        assert dynamics.torque(*given, out) == NOT_FINITE
    assert dynamics.torque(q, qd, u, tau, tau, np.empty(6)) == WRONG_SHAPE
    assert dynamics.outward(q, qd, np.zeros(6), None) == WRONG_SHAPE
    assert dynamics.outward(q, np.full(7, np.nan), None, None) == NOT_FINITE
