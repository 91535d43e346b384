# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The contract of `Method`: every method of the dynamics, compared with Pinocchio."""

from functools import cache
from operator import itemgetter

import numpy as np
import pytest

from judge import random_tree
from osc_ros import Law, Robot, shipped_urdf
from osc_ros.compile.compiled import kernel
from osc_ros.control.step.law_record import LAW, stage_at
from osc_ros.control.step.stages import (
    INVERSE_MASS,
    INWARD,
    JACOBIAN,
    MOTION,
    OUTWARD,
    RESPONSE,
    use_method,
)
from osc_ros.dynamics.contract.method import DONE, Method, NOT_FINITE, States, Terms, WRONG_SHAPE
from osc_ros.dynamics.contract.plan import Workers
from osc_ros.dynamics.methods import method_of, METHODS, ONE_TIP
from osc_ros.dynamics.papers.spatial_operators import SpatialOperators
from osc_ros.errors import InputError, OscError
from tolerances import AGREEMENT, COMMAND_MET, NO_EFFECT

ROBOT = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
READY = np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
CHAIN = ['revolute', 'prismatic', 'revolute', 'revolute', 'revolute', 'prismatic', 'revolute',
         'revolute']
# name: joints of the path, branches (see judge.random_tree), number of tips
ROBOTS = {
    'chain': (CHAIN, [], 1),
    'tree': (['revolute', 'spherical', 'prismatic', 'revolute', 'bare revolute', 'revolute'],
             [(1, ['revolute', 'spherical']), (3, ['prismatic'])], 1),
    'tips': (['floating', *CHAIN[:3]], [(0, ['revolute'] * 4), (2, ['spherical', 'revolute'])],
             3),
}
TEAMS = {'sweep by a team': 'sweep'}
PAPERS = {'spatial operators': SpatialOperators}
EACH = [(name, robot) for robot in ROBOTS for name in (*METHODS, *TEAMS, *PAPERS)
        if robot == 'chain' or name in METHODS and (robot == 'tree' or name not in ONE_TIP)]
NAMES = [*METHODS, *TEAMS, *PAPERS]


def slow_teams(values, name=lambda value: value):
    """Return parameters; those that start worker processes are slow."""
    # quick: test_team_gives_the_results_of_one_process of test_parallel.py
    return [pytest.param(value, marks=pytest.mark.slow) if name(value) in TEAMS else value
            for value in values]


@cache
def case(robot):
    """Return a robot with rotors, and the `judge.Tree` to compare it with."""
    joints, branches, tips = ROBOTS[robot]
    tree = random_tree(5, joints, branches, tips=tips, rotors=True)
    return Robot(**tree.description), tree


@pytest.fixture(scope='module', params=slow_teams(EACH, itemgetter(0)), ids='-'.join)
def each(request):
    """Return a method, its robot, and the `judge.Tree` to compare it with."""
    name, robot = request.param
    robot, tree = case(robot)
    method = method_named(name, robot)
    yield method, robot, tree
    method.close()


def method_named(name, robot):
    """Return a method of METHODS, of TEAMS (with two workers) or of PAPERS."""
    if name in PAPERS:
        return PAPERS[name](robot)
    return method_of(robot, TEAMS.get(name, name), Workers(2 if name in TEAMS else 1))[1]


def difference(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.fixture
def at(each):
    return At(*each)


class At:
    """A random state with Pinocchio's terms, and random torques, accelerations and forces."""

    def __init__(self, method, robot, tree, seed=2):
        rng = np.random.default_rng(seed)
        self.method, self.robot, self.tree, n = method, robot, tree, robot.n
        self.q, self.qd = tree.state(rng)
        self.terms = tree.terms(self.q, self.qd)
        self.tau, self.posture, self.wanted = rng.normal(size=(3, n))
        self.F = rng.normal(size=6 * len(robot.tips))
        self.out = np.empty(n)

    def other(self):
        """Return another state of the same robot."""
        return At(self.method, self.robot, self.tree, 3)

    def null_torques(self):
        """Return (tau, qdd, τ⁰) for every combination of `tau` and `qdd`, given or None."""
        own = self.terms.M @ self.posture + self.terms.h
        return [(None, None, np.zeros_like(own)), (self.tau, None, self.tau),
                (None, self.posture, own), (self.tau, self.posture, self.tau + own)]


@kernel
def do_stage(law, stage, one, two, three):
    """Call a stage of `osc_ros.control.step.stages` as compiled code does."""
    return stage_at(law.stage, (law, stage, one, two, three))


def test_stages_that_compiled_code_calls_are_those_of_the_method(at):
    method, terms, n = at.method, at.terms, at.robot.n
    law, rows = LAW.new(), len(terms.J)
    use_method(law, method)
    J, M_inv, none = np.empty(rows * n), np.empty(n * n), np.zeros(n)
    assert do_stage(law, OUTWARD, at.q, at.qd, at.posture) == DONE
    a0 = terms.J @ at.posture + terms.Jdot_qd
    assert difference(method.a0, a0) < AGREEMENT
    assert difference(method.Lambda_inv, terms.Lambda_inv) < AGREEMENT
    assert do_stage(law, JACOBIAN, J, none, none) == DONE
    assert difference(J.reshape(rows, n), terms.J) < AGREEMENT
    assert do_stage(law, INWARD, at.posture, at.F, at.out) == DONE
    own = terms.M @ at.posture + terms.h
    assert difference(at.out, own + terms.J.T @ at.F) < AGREEMENT
    assert do_stage(law, RESPONSE, at.tau, at.F, at.out) == DONE
    assert difference(at.out, np.linalg.solve(terms.M, at.tau + terms.J.T @ at.F)) < AGREEMENT
    assert do_stage(law, INVERSE_MASS, none, M_inv, none) == DONE
    assert difference(M_inv.reshape(n, n), np.linalg.inv(terms.M)) < AGREEMENT
    assert do_stage(law, MOTION, at.qd, at.wanted, at.out) == DONE
    assert difference(at.out, terms.M @ at.wanted + terms.h) < AGREEMENT
    at.q[0] = np.nan
    assert do_stage(law, OUTWARD, at.q, at.qd, at.posture) == NOT_FINITE


def test_error_of_a_method_is_a_status_in_compiled_code_and_raised_after_it(monkeypatch):
    law = Law(ROBOT, method='dense')
    law.torque(0.0, READY, np.zeros(7))

    def fail(*_):
        raise OscError('the worker has gone')

    monkeypatch.setattr(law.setup.space.dynamics, 'inward', fail)
    with pytest.raises(OscError, match='the worker has gone'):
        law.torque(0.002, READY, np.zeros(7))
    monkeypatch.undo()
    assert np.isfinite(law.torque(0.004, READY, np.zeros(7))).all()


class TestContract:
    """The requirements of `osc_ros.dynamics.contract.method.Method`."""

    def test_outward_finds_the_tips(self, at):
        method, terms = at.method, at.terms
        for tau, qdd, null in at.null_torques():
            assert method.outward(at.q, at.qd, tau, qdd) == DONE
            a0 = terms.J @ np.linalg.solve(terms.M, null - terms.h) + terms.Jdot_qd
            assert difference(method.a0, a0) < AGREEMENT
            assert difference(method.Lambda_inv, terms.Lambda_inv) < AGREEMENT
            assert difference(method.pose, terms.poses.reshape(method.pose.shape)) < AGREEMENT
            assert difference(method.twist, terms.twist) < AGREEMENT

    def test_inward_is_the_null_torque_and_the_force(self, at):
        for tau, qdd, null in at.null_torques():
            at.method.outward(at.q, at.qd, tau, qdd)
            for F in at.F, -2.0 * at.F:
                at.method.inward(F, at.out)
                assert difference(at.out, null + at.terms.J.T @ F) < AGREEMENT

    def test_jacobian(self, at):
        at.method.outward(at.q, at.qd, None, None)
        J = np.empty(at.terms.J.shape)
        at.method.jacobian(J)
        assert difference(J, at.terms.J) < AGREEMENT

    def test_torque_gives_the_tips_what_is_commanded(self, at):
        u = at.terms.J @ at.wanted + at.terms.Jdot_qd
        for tau, qdd, _ in at.null_torques():
            assert at.method.torque(at.q, at.qd, u, tau, qdd, at.out) == DONE
            found = at.tree.forward_dynamics(at.q, at.qd, at.out)
            assert difference(at.terms.J @ found + at.terms.Jdot_qd, u) < COMMAND_MET

    def test_acceleration_response(self, at):
        method, terms, zero = at.method, at.terms, np.zeros
        at.other().method.outward(at.other().q, at.qd, None, None)
        for tau, qdd, _ in at.null_torques():
            method.outward(at.q, at.qd, tau, qdd)
            for x, F in ((at.tau, at.F), (zero(at.robot.n), at.F), (at.posture, 0.0 * at.F)):
                method.acceleration_response(x, F, at.out)
                expected = np.linalg.solve(terms.M, x + terms.J.T @ F)
                assert difference(at.out, expected) < AGREEMENT

    def test_inverse_mass_matrix(self, at):
        found = np.empty(at.terms.M.shape)
        at.other().method.outward(at.other().q, at.qd, None, None)
        for tau, qdd, _ in at.null_torques():
            at.method.outward(at.q, at.qd, tau, qdd)
            at.method.inverse_mass_matrix(found)
            assert difference(found, at.terms.M_inv) < AGREEMENT
            assert np.array_equal(found, found.T)

    def test_acceleration_response_leaves_the_rest_of_the_last_pass(self, at):
        method = at.method
        for tau, qdd, null in at.null_torques():
            method.outward(at.q, at.qd, tau, qdd)
            kept = [np.array(x) for x in (method.a0, method.Lambda_inv, method.pose, method.twist)]
            method.acceleration_response(at.wanted, at.F, at.out)
            method.inverse_mass_matrix(np.empty(at.terms.M.shape))
            for x, before in zip((method.a0, method.Lambda_inv, method.pose, method.twist), kept):
                assert np.array_equal(x, before)
            method.inward(at.F, at.out)
            assert difference(at.out, null + at.terms.J.T @ at.F) < AGREEMENT
            J = np.empty(at.terms.J.shape)
            method.jacobian(J)
            assert difference(J, at.terms.J) < AGREEMENT

    def test_inverse_dynamics(self, at):
        found = at.method.inverse_dynamics(at.q, at.qd, at.posture)
        assert difference(found, at.terms.M @ at.posture + at.terms.h) < AGREEMENT

    def test_forward_dynamics(self, at):
        found = at.method.forward_dynamics(at.q, at.qd, at.tau, at.F)
        assert difference(found, at.tree.forward_dynamics(at.q, at.qd, at.tau, at.F)) < AGREEMENT

    def test_product_with_the_inverse_mass_matrix(self, at):
        expected = np.linalg.solve(at.terms.M, at.tau)
        assert difference(at.method.apply_M_inv(at.q, at.tau), expected) < AGREEMENT

    # the lanes of 'recursive' are compiled for this test only
    @pytest.mark.parametrize('each', [
        pytest.param(one, marks=pytest.mark.slow if one[0] in ('recursive', *TEAMS) else ())
        for one in EACH], ids='-'.join, indirect=True, scope='module')
    def test_batch_is_every_state_by_itself(self, at):
        states = [at, at.other(), at]
        found = Terms.empty(at.robot, len(states))
        at.method.evaluate_batch(States(np.array([one.q for one in states]),
                                        np.array([one.qd for one in states])), found, None)
        for k, one in enumerate(states):
            for name in ('J', 'Jdot_qd', 'h', 'twist', 'Lambda_inv'):
                assert difference(getattr(found, name)[k], getattr(one.terms, name)) < AGREEMENT
            poses = one.terms.poses.reshape(found.pose[k].shape)
            assert difference(found.pose[k], poses) < AGREEMENT
            # Λ is a pseudo-inverse: the tips may have more axes than the robot has degrees of
            # freedom
            Lambda = found.Lambda[k]
            assert difference(Lambda @ one.terms.Lambda_inv @ Lambda, Lambda) < COMMAND_MET

    def test_gravity_may_be_set(self, at):
        method, before = at.method, at.method.gravity.copy()
        assert np.array_equal(before, at.robot.gravity)
        method.gravity[:] = 0.0
        method.outward(at.q, 0.0 * at.qd, None, 0.0 * at.qd)
        method.inward(0.0 * at.F, at.out)
        assert np.abs(at.out).max() < NO_EFFECT
        method.gravity[:] = before
        method.outward(at.q, at.qd, None, 0.0 * at.qd)
        method.inward(0.0 * at.F, at.out)
        assert difference(at.out, at.terms.h) < AGREEMENT

    def test_method_has_all_attributes_of_the_contract(self, at):
        assert isinstance(at.method, Method) and at.method.robot is at.robot
        assert at.method.faults == ()
        m = 6 * len(at.robot.tips)
        assert at.method.Lambda_inv.shape == (m, m)
        assert at.method.a0.shape == at.method.twist.shape == (m,)
        results = 'Lambda_inv', 'a0', 'pose', 'twist'
        before = [getattr(at.method, name) for name in results]
        at.method.outward(at.q, at.qd, None, None)
        assert all(getattr(at.method, name) is x for name, x in zip(results, before))

    def test_wrong_shapes_and_numbers_that_are_not_finite_are_reported(self, at):
        method, n = at.method, at.robot.n
        u = np.zeros(6 * len(at.robot.tips))
        for bad, status in ((np.zeros(n + 1), WRONG_SHAPE), (np.full(n, np.nan), NOT_FINITE)):
            assert method.outward(at.q, bad, None, None) == status
            assert method.outward(at.q, at.qd, bad, None) == status
            assert method.outward(at.q, at.qd, None, bad) == status
            assert method.torque(at.q, bad, u, None, None, at.out) == status
            assert method.torque(at.q, at.qd, u, bad, bad, at.out) == status
        assert method.outward(np.full(at.robot.nq, np.inf), at.qd, None, None) == NOT_FINITE
        assert method.outward(at.q[:-1].copy(), at.qd, None, None) == WRONG_SHAPE
        assert method.torque(at.q, at.qd, u[:-1].copy(), None, None, at.out) == WRONG_SHAPE
        assert method.torque(at.q, at.qd, u, None, None, np.empty(n - 1)) == WRONG_SHAPE


@pytest.mark.parametrize('name', slow_teams(NAMES))
def test_after_close_a_method_goes_on(name):
    robot, tree = case('chain')
    method = method_named(name, robot)
    at = At(method, robot, tree)
    method.outward(at.q, at.qd, at.tau, None)
    for _ in range(2):
        method.close()
        method.inward(at.F, at.out)
        assert difference(at.out, at.tau + at.terms.J.T @ at.F) < AGREEMENT
        method.acceleration_response(at.tau, at.F, at.out)
        expected = np.linalg.solve(at.terms.M, at.tau + at.terms.J.T @ at.F)
        assert difference(at.out, expected) < AGREEMENT
    assert method.outward(at.q, at.qd, None, None) == DONE
    assert method.faults == ()


@pytest.mark.parametrize('name', METHODS)
def test_the_table_says_what_a_method_takes(name):
    entry, robot = METHODS[name], case('tips')[0]
    assert (name in ONE_TIP) == entry.one_tip
    if entry.one_tip:
        with pytest.raises(InputError, match=f"'{name}' .* 3"):
            method_of(robot, name, Workers(1))
    else:
        assert isinstance(method_of(robot, name, Workers(1))[1], Method)
    for of in 'chain', 'tree':
        if of == 'chain' and entry.of_team is not None:
            continue
        with pytest.raises(InputError, match='2 workers.*(give|must be).* 1'):
            method_of(case(of)[0], name, Workers(2))
