# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The papers' factorization compared with Pinocchio, dense matrices and momentum balances."""

from dataclasses import replace
from functools import cache, partial

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest

from common import naming
from judge import configuration, pinocchio_model, random_urdf, robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.chain.ldl import LDL
from osc_ros.dynamics.contract.method import DONE
from osc_ros.dynamics.papers import newton_euler
from osc_ros.dynamics.papers.block_tridiagonal import BlockCyclicReduction, BlockLDL
from osc_ros.dynamics.papers.blocks import Tridiagonal
from osc_ros.dynamics.papers.schur import constrained_motion, Schur, schur_blocks
from osc_ros.errors import InputError
from tolerances import (
    AGREEMENT,
    CONDITION_ROUNDING,
    FACTORS_AGREE,
    LONG_CHAIN_COMMAND,
    MOMENTUM_RATE,
    ROTOR_LIMIT,
)
from variants import first_quick

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

STATES = 5
REGULAR = 1e4  # condition number of Λ⁻¹: not near a singularity
ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]


@pytest.fixture(params=[BlockLDL, BlockCyclicReduction])
def factorization(request):
    return request.param


@pytest.fixture(params=robot_cases())
def name(request):
    return request.param


@cache
def arm(name, rotors=True):
    """Return a robot of robot_cases(), and its Pinocchio model, data and tip frame."""
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    if rotors:
        d = np.random.default_rng(5).uniform(0.05, 0.8, robot.n)
        d[robot.n // 2] = 0.0
        robot = replace(robot, rotor_inertia=d)
    judge = pinocchio_model(case.urdf_text, case.base, case.tip, robot.joint_names, case.locked)
    judge[0].armature = robot.rotor_inertia.copy()
    return robot, judge


def states(n, count=STATES):
    """Return random states: positions, velocities, torques, and a wrench on the tip."""
    rng = np.random.default_rng(17)
    return [(rng.uniform(-2.5, 2.5, n), rng.normal(size=n), 10 * rng.normal(size=n),
             10 * rng.normal(size=6)) for _ in range(count)]


def mass_matrix(judge, q):
    model, data, _ = judge
    M = np.triu(pin.crba(model, data, configuration(model, q)).reshape(model.nv, model.nv))
    return M + np.triu(M, 1).T


def jacobian(judge, q):
    model, data, frame = judge
    J = pin.computeFrameJacobian(
        model, data, configuration(model, q), frame, pin.LOCAL_WORLD_ALIGNED)
    return J.reshape(6, model.nv)[ANGULAR_FIRST]


@cache
def regular_positions(name):
    """Return positions that are not near a singularity, each with its Λ⁻¹ by Pinocchio."""
    robot, judge = arm(name)
    rng, found = np.random.default_rng(13), []
    while len(found) < STATES:
        q = rng.uniform(-2.5, 2.5, robot.n)
        J = jacobian(judge, q)
        Lambda_inv = J @ np.linalg.solve(mass_matrix(judge, q), J.T)
        if np.linalg.cond(Lambda_inv) < REGULAR:
            found.append((q, Lambda_inv))
    return found


def error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def dense(matrix):
    """Return a block-tridiagonal matrix as one dense array."""
    n, a, b = matrix.diagonal.shape
    whole = np.zeros((n, n, a, b))
    whole[range(n), range(n)] = matrix.diagonal
    whole[range(n - 1), range(1, n)] = matrix.upper
    whole[range(1, n), range(n - 1)] = matrix.lower
    return whole.swapaxes(1, 2).reshape(n * a, n * b)


def in_last_block(block, n):
    return np.vstack([np.zeros(((n - 1) * len(block), 6)), block])


# Schur complements and their factors

@pytest.mark.parametrize('rotors', first_quick([True, False]))
def test_schur_complements_are_the_inverse_inertias(name, rotors):
    robot, judge = arm(name, rotors)
    for q, *_ in states(robot.n):
        blocks = schur_blocks(robot, q)
        A, B, C = dense(blocks.A), dense(blocks.B), dense(blocks.C)
        E = in_last_block(blocks.E, robot.n)
        assert A.shape[0] == robot.n * (6 if rotors else 5)
        assert error(A, A.T) < AGREEMENT
        assert np.linalg.eigvalsh(A).min() > 0
        M_inv = np.linalg.inv(mass_matrix(judge, q))
        J = jacobian(judge, q)
        # rows have different units, so numpy's LU loses more digits than our factorizations
        assert error(C - B.T @ np.linalg.solve(A, B), M_inv) < AGREEMENT
        assert error(blocks.D - E.T @ np.linalg.solve(A, E), J @ M_inv @ J.T) < AGREEMENT


def test_factors_of_the_task_inertia_are_those_of_its_inverse(name):
    robot, _ = arm(name)
    for q, *_ in states(robot.n):
        blocks = schur_blocks(robot, q)
        assert error(blocks.G @ blocks.D, np.eye(6)) < AGREEMENT
        assert error(blocks.R, blocks.E @ blocks.G) < AGREEMENT
        E, R = in_last_block(blocks.E, robot.n), in_last_block(blocks.R, robot.n)
        assert error(dense(blocks.S), E @ R.T - dense(blocks.A)) < AGREEMENT


def test_transpose_and_product_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    matrix = Tridiagonal(*(rng.normal(size=(n, 5, 2)) for n in (4, 3, 3)))
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(4, 5))
    assert error(matrix.times(x).ravel(), dense(matrix) @ x.ravel()) < AGREEMENT
    assert error(matrix.T.times(y).ravel(), dense(matrix).T @ y.ravel()) < AGREEMENT


# Products with M⁻¹, Λ⁻¹ and Λ

def test_joint_inertia_and_its_inverse_cancel(name, factorization):
    robot, judge = arm(name)
    for q, *_ in states(robot.n):
        blocks = schur_blocks(robot, q, factorization)
        M = newton_euler.mass_matrix(robot, q)
        product = np.array([blocks.M_inv_times(column) for column in M.T])
        limit = max(AGREEMENT, CONDITION_ROUNDING * np.linalg.cond(M))
        assert np.abs(product - np.eye(robot.n)).max() < limit
        M_inv = np.array([blocks.M_inv_times(e) for e in np.eye(robot.n)])
        assert error(M_inv, np.linalg.inv(mass_matrix(judge, q))) < AGREEMENT


def test_task_inertia_is_the_same_three_ways_and_pinocchios(name, factorization):
    robot, _ = arm(name)
    for q, Lambda_inv in regular_positions(name):
        blocks = schur_blocks(robot, q, factorization)
        expected = np.linalg.inv(Lambda_inv)
        limit = max(AGREEMENT, CONDITION_ROUNDING * np.linalg.cond(Lambda_inv))
        assert error(blocks.Lambda_inv, Lambda_inv) < AGREEMENT
        assert error(blocks.Lambda, expected) < limit
        assert error(np.linalg.inv(blocks.Lambda_inv), expected) < limit
        by_columns = np.array([blocks.Lambda_times(e) for e in np.eye(6)])
        assert error(by_columns, expected) < limit
        by_columns = np.array([blocks.Lambda_inv_times(e) for e in np.eye(6)])
        assert error(by_columns, Lambda_inv) < AGREEMENT
        assert error(OperationalSpace(robot).evaluate(q, np.zeros(robot.n)).Lambda,
                     blocks.Lambda) < limit


def test_one_solve_serves_both_inverses(name, factorization):
    robot, judge = arm(name)
    for q, _, x, _ in states(robot.n):
        M_inv, J = np.linalg.inv(mass_matrix(judge, q)), jacobian(judge, q)
        found, Lambda_inv = schur_blocks(robot, q, factorization).M_inv_times_and_Lambda_inv(x)
        assert error(found, M_inv @ x) < AGREEMENT
        assert error(Lambda_inv, J @ M_inv @ J.T) < AGREEMENT


def test_factorizations_agree(name):
    robot, _ = arm(name)
    for q, qd, tau, F in states(robot.n):
        one, other = (constrained_motion(robot, q, qd, tau, F, factorization)
                      for factorization in (BlockLDL, BlockCyclicReduction))
        A = dense(schur_blocks(robot, q).A)
        scale = np.sqrt(np.diag(A))
        limit = FACTORS_AGREE * np.linalg.cond(A / scale[:, None] / scale)
        assert error(one.qdd, other.qdd) < limit
        assert error(one.forces, other.forces) < limit


@settings(derandomize=True, deadline=None, max_examples=30)
@given(n=st.integers(1, 33), seed=st.integers(0, 10**6), decades=st.floats(0, 3))
def test_any_chain_has_its_inverse_inertias(n, seed, decades):
    robot = Robot.from_urdf(random_urdf(seed, n), 'link_0', 'tool')
    scales = 10 ** np.random.default_rng(seed).uniform(-decades, decades, n)
    robot = replace(robot, inertia=robot.inertia * scales[:, None, None])
    q, _, x, _ = states(n, 1)[0]
    M = newton_euler.mass_matrix(robot, q)
    J = newton_euler.jacobian(robot, newton_euler.placement(robot, q))
    scale = np.sqrt(np.diag(M))
    limit = max(AGREEMENT, CONDITION_ROUNDING * np.linalg.cond(M / scale[:, None] / scale))
    for factorization in (BlockLDL, BlockCyclicReduction):
        blocks = schur_blocks(robot, q, factorization)
        assert error(blocks.M_inv_times(x), np.linalg.solve(M, x)) < limit
        assert error(blocks.Lambda_inv, J @ np.linalg.solve(M, J.T)) < limit


# Forward dynamics and joint reactions

@pytest.mark.parametrize('rotors', first_quick([True, False]))
def test_joint_reactions_are_pinocchios(name, rotors, factorization):
    robot, (model, data, frame) = arm(name, rotors)
    for q, qd, tau, F in states(robot.n):
        found = constrained_motion(robot, q, qd, tau, F, factorization)
        at = configuration(model, q)
        pin.framesForwardKinematics(model, data, at)
        tip = pin.SE3(np.eye(3), data.oMf[frame].translation).act(pin.Force(F[3:], F[:3]))
        last = model.frames[frame].parentJoint
        outer = pin.StdVec_Force()
        outer.extend(data.oMi[i].actInv(tip) if i == last else pin.Force.Zero()
                     for i in range(model.njoints))
        assert error(found.qdd, pin.aba(model, data, at, qd, tau, outer)) < AGREEMENT
        pin.rnea(model, data, at, qd, found.qdd, outer)
        R = newton_euler.placement(robot, q).R
        expected = [(T.rotation @ f.angular, T.rotation @ f.linear)
                    for T, f in zip(list(data.oMi)[1:], list(data.f)[1:])]
        pairs = [(R_i @ wrench[:3], R_i @ wrench[3:]) for R_i, wrench in zip(R, found.forces)]
        assert error(np.array(pairs), np.array(expected)) < AGREEMENT


def test_wrenches_on_a_body_are_the_change_of_its_momentum(name, factorization):
    robot, (model, data, _) = arm(name)
    step = 1e-5

    def momenta(q, qd):
        pin.forwardKinematics(model, data, configuration(model, q), qd)
        return np.array([data.oMi[i].act(model.inertias[i] * data.v[i]).vector[ANGULAR_FIRST]
                         for i in range(1, model.njoints)])

    for q, qd, tau, F in states(robot.n, 2):
        found = constrained_motion(robot, q, qd, tau, F, factorization)
        after, before = (momenta(q + t * qd + 0.5 * t * t * found.qdd, qd + t * found.qdd)
                         for t in (step, -step))
        at = newton_euler.placement(robot, q)
        through = [about_base(R, p, wrench) for R, p, wrench in zip(at.R, at.p, found.forces)]
        through.append(-about_base(np.eye(3), at.T_tip[:3, 3], F))
        for i in range(robot.n):
            I = robot.inertia[i]
            centre = at.p[i] + at.R[i] @ np.array([I[2, 4], I[0, 5], I[1, 3]]) / I[5, 5]
            weight = I[5, 5] * robot.gravity
            gained = through[i] - through[i + 1] + np.hstack([np.cross(centre, weight), weight])
            scale = max(np.abs(wrench).max() for wrench in through)
            assert np.abs((after - before)[i] / (2 * step) - gained).max() < MOMENTUM_RATE * scale


def about_base(R, p, wrench):
    """Return a wrench, given about p in axes R, about the origin and in the axes of the base."""
    moment, force = R @ wrench[:3], R @ wrench[3:]
    return np.hstack([moment + np.cross(p, force), force])


def test_the_drives_part_of_a_reaction_is_torque_less_what_turns_the_rotor(name, factorization):
    robot, _ = arm(name)
    for q, qd, tau, F in states(robot.n):
        found = constrained_motion(robot, q, qd, tau, F, factorization)
        part = found.forces[np.arange(robot.n), np.where(robot.prismatic, 5, 2)]
        expected = tau - robot.rotor_inertia * found.qdd
        assert np.abs(part - expected).max() < AGREEMENT * np.abs(tau).max()


def test_tiny_rotor_inertia_changes_no_reaction(factorization):
    robot, _ = arm('panda', rotors=False)
    for size, limit in ((1e-10, ROTOR_LIMIT), (1e-30, AGREEMENT), (5e-324, AGREEMENT)):
        some = replace(robot, rotor_inertia=np.full(7, size))
        for q, qd, tau, F in states(7):
            none, a_little = (constrained_motion(robot, q, qd, tau, F, factorization)
                              for robot in (robot, some))
            assert error(a_little.qdd, none.qdd) < limit
            assert error(a_little.forces, none.forces) < limit


def test_a_hanging_chain_at_rest_bears_its_weight(factorization):
    robot, _ = arm('random', rotors=False)
    for q, *_ in states(robot.n):
        rest = np.zeros(robot.n)
        h = newton_euler.inverse_dynamics(robot, q, rest, rest[:, None], robot.gravity)[:, 0]
        found = constrained_motion(robot, q, rest, h, factorization=factorization)
        force = newton_euler.placement(robot, q).R[0] @ found.forces[0, 3:]
        assert error(force, -robot.inertia[:, 5, 5].sum() * robot.gravity) < AGREEMENT


# Control law

def test_torques_of_the_factors_give_the_commanded_acceleration(name, factorization):
    robot, judge = arm(name)
    model, data, frame = judge
    dynamics, tau, rng = Schur(robot, factorization), np.empty(robot.n), np.random.default_rng(3)
    for q, Lambda_inv in regular_positions(name):
        qd, x, u = rng.normal(size=robot.n), rng.normal(size=robot.n), rng.normal(size=6)
        limit = max(AGREEMENT, CONDITION_ROUNDING * np.linalg.cond(Lambda_inv))
        at = configuration(model, q)
        for null, posture in ((None, None), (x, None), (None, x), (x, x)):
            assert dynamics.torque(q, qd, u, null, posture, tau) == DONE
            qdd = pin.aba(model, data, at, qd, tau)
            pin.forwardKinematics(model, data, at, qd, qdd)
            pin.updateFramePlacement(model, data, frame)
            moved = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            scale = (np.abs(jacobian(judge, q)) @ np.abs(qdd)).max()
            assert np.abs(moved.vector[ANGULAR_FIRST] - u).max() < limit * scale


# Long chains

@cache
def long_chain(n):
    """Return a chain of n bodies, a quarter of all joints prismatic, half of all with rotors."""
    rng = np.random.default_rng(0)
    T = np.tile(np.eye(4), (n, 1, 1))
    for i in range(n):
        T[i, :3, :3] = pin.exp3(rng.normal(size=3))
    T[:, :3, 3] = rng.uniform(-0.2, 0.2, (n, 3))
    inertia = np.array([
        pin.Inertia(m, c, pin.Inertia.FromBox(m, *sides).inertia).matrix()
        for m, c, sides in zip(rng.uniform(0.5, 3, n), rng.uniform(-0.1, 0.1, (n, 3)),
                               rng.uniform(0.05, 0.2, (n, 3)))])
    inertia = np.roll(inertia, 3, axis=(1, 2))  # Pinocchio has [linear; angular]
    free = np.full(n, np.inf)
    return Robot(
        name='long', base='base', tips=('tip',), joints=tuple(f'joint_{i}' for i in range(n)),
        parent=np.arange(-1, n - 1), prismatic=rng.random(n) < 0.25, spherical=np.zeros(n, bool),
        T_parent_body=T, inertia=inertia,
        rotor_inertia=rng.uniform(0, 0.5, n) * (rng.random(n) < 0.5),
        position_limits=np.stack([-free, free], axis=1), velocity_limits=free,
        effort_limits=free, gravity=np.array([0.0, 0.0, -9.81]),
        frames={'tip': (n - 1, np.eye(4))})


@pytest.mark.parametrize('method', [
    partial(Schur, factorization=BlockLDL), partial(Schur, factorization=BlockCyclicReduction),
    LDL,
], ids=['Schur, LDL', 'Schur, cyclic reduction', 'LDL'])
def test_tip_of_5000_links_gets_the_commanded_acceleration(method):
    robot = long_chain(5000)
    found, judge, tau = method(robot), OperationalSpace(robot, 'sweep'), np.empty(5000)
    rng = np.random.default_rng(1)
    q, qd, u = rng.uniform(-2, 2, 5000), 0.1 * rng.normal(size=5000), rng.normal(size=6)
    rest = np.zeros(5000)
    assert found.torque(q, qd, u, None, None, tau) == DONE
    qdd = judge.forward_dynamics(q, qd, tau)
    Jdot_qd = judge.outward(q, qd, posture_acceleration=rest).a0.copy()
    J = judge.jacobian()
    # sum of the joints' contributions to the tip acceleration; most of them cancel
    scale = (np.abs(J) @ np.abs(qdd)).max() + np.abs(Jdot_qd).max()
    assert np.abs(J @ qdd + Jdot_qd - u).max() < LONG_CHAIN_COMMAND * scale
    other = judge.outward(q, qd)
    assert error(found.Lambda_inv, other.Lambda_inv) < AGREEMENT
    assert error(found.pose, other.pose) < AGREEMENT


# Singular task inertia, and invalid arguments

@pytest.mark.parametrize('n', range(1, 6))
def test_fewer_than_six_joints_have_no_task_inertia(n, factorization):
    robot = Robot.from_urdf(random_urdf(4, n), 'link_0', 'tool')
    for q, *_ in states(n):
        blocks = schur_blocks(robot, q, factorization)
        with pytest.raises(InputError, match='S .*singular'):
            blocks.Lambda_times(np.ones(6))
        assert np.isfinite(blocks.Lambda_inv).all()


@pytest.mark.parametrize('name', ['panda', 'ur5', 'ur10', 'iiwa_like'])
def test_a_stretched_arm_has_no_task_inertia(name, factorization):
    robot, _ = arm(name)
    with pytest.raises(InputError, match='S .*singular'):
        schur_blocks(robot, np.zeros(robot.n), factorization).Lambda_times(np.ones(6))


@pytest.mark.parametrize('argument', ['q', 'qd', 'tau', 'F_tip'])
def test_what_does_not_fit_is_refused_with_both_shapes(argument):
    good = dict(zip(('q', 'qd', 'tau', 'F_tip'), states(7, 1)[0]))
    robot, size = arm('panda')[0], len(good[argument])
    for bad in (np.zeros(size + 1), np.zeros((1, size)), 0.0):
        with pytest.raises(InputError, match=naming(argument, np.shape(bad), (size,))):
            constrained_motion(robot, **good | {argument: bad})
    bad = good[argument].copy()
    bad[3] = np.nan
    with pytest.raises(InputError, match=naming(argument, f'{argument}[3]')):
        constrained_motion(robot, **good | {argument: bad})
