# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The operational-space law and its terms, compared with Pinocchio, for every method."""

from dataclasses import dataclass, replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest

from common import naming
from judge import configuration, pinocchio_model, random_urdf, robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.methods import METHODS
from osc_ros.errors import InputError
from tolerances import (
    AGREEMENT,
    COMMAND_MET,
    CONDITION_ROUNDING,
    DAMPED_AGREEMENT,
    ENERGY_RATE,
    LANES_AGREEMENT,
    NO_EFFECT,
    ROTOR_LIMIT,
    WIDE_MASS_AGREEMENT,
)
from variants import first_quick, quick_if

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

STATES = 5
ABOUT_ZERO = 1e-3
REGULAR = 1e4  # condition number of Λ⁻¹: not near a singularity
ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of the dynamics that Pinocchio computes at a state, [angular; linear]."""

    M: np.ndarray
    M_inv: np.ndarray
    h: np.ndarray
    J: np.ndarray
    Jdot_qd: np.ndarray
    pose: np.ndarray
    twist: np.ndarray

    G: np.ndarray

    @property
    def Lambda_inv(self):
        return self.J @ self.M_inv @ self.J.T

    @property
    def Lambda(self):
        return np.linalg.inv(self.Lambda_inv)

    def torque(self, u, tau_null):
        """Return JᵀΛ(u + J M⁻¹ h - J̇q̇) + Nᵀτ⁰, (n,), with every factor a dense matrix."""
        J_bar = self.M_inv @ self.J.T @ self.Lambda
        F = self.Lambda @ (u + self.J @ self.M_inv @ self.h - self.Jdot_qd)
        return self.J.T @ F + tau_null - self.J.T @ (J_bar.T @ tau_null)


class Judge:
    """Pinocchio model of one chain; its rotor inertias and masses can be changed."""

    def __init__(self, urdf_text, base, tip, robot, locked=None):
        self.model, self.data, self.frame = pinocchio_model(
            urdf_text, base, tip, robot.joint_names, locked)
        self.model.armature = robot.rotor_inertia.copy()

    def terms(self, q, qd):
        model, data, frame = self.model, self.data, self.frame
        q = configuration(model, q)
        world = pin.LOCAL_WORLD_ALIGNED
        M = np.triu(pin.crba(model, data, q).reshape(model.nv, model.nv))
        M += np.triu(M, 1).T
        h = pin.nonLinearEffects(model, data, q, qd).copy()
        J = pin.computeFrameJacobian(model, data, q, frame, world)
        J = J.reshape(6, model.nv)[ANGULAR_FIRST]  # for one joint Pinocchio returns a vector
        pin.forwardKinematics(model, data, q, qd, np.zeros(model.nv))
        pose = pin.updateFramePlacement(model, data, frame).homogeneous
        Jdot_qd = pin.getFrameClassicalAcceleration(model, data, frame, world).vector
        twist = pin.getFrameVelocity(model, data, frame, world).vector
        G = pin.computeGeneralizedGravity(model, data, q).copy()
        return Terms(M, np.linalg.inv(M), h, J, Jdot_qd[ANGULAR_FIRST], pose,
                     twist[ANGULAR_FIRST], G)

    def energy(self, q, qd):
        """Return kinetic and potential energy, rotors included [J]."""
        # not by computeKineticEnergy: for continuous joints it omits the rotors
        kinetic = 0.5 * qd @ self.terms(q, qd).M @ qd
        q = configuration(self.model, q)
        return kinetic + pin.computePotentialEnergy(self.model, self.data, q)

    def forward_dynamics(self, q, qd, tau, F_tip=None):
        """Return q̈ (n,) by the articulated-body algorithm, F_tip (6,) in base axes at the tip."""
        model, data = self.model, self.data
        q = configuration(model, q)
        if F_tip is None:
            return pin.aba(model, data, q, qd, tau)
        pin.framesForwardKinematics(model, data, q)
        joint = model.frames[self.frame].parentJoint
        at_tip = pin.SE3(np.eye(3), data.oMf[self.frame].translation)
        wrench = at_tip.act(pin.Force(F_tip[3:], F_tip[:3]))
        forces = pin.StdVec_Force()
        forces.extend(data.oMi[i].actInv(wrench) if i == joint else pin.Force.Zero()
                      for i in range(model.njoints))
        return pin.aba(model, data, q, qd, tau, forces)

    def task_acceleration(self, q, qd, tau):
        """Return the acceleration of the tip under the torques, (6,) [angular; linear]."""
        terms = self.terms(q, qd)
        return terms.J @ self.forward_dynamics(q, qd, tau) + terms.Jdot_qd


@dataclass(frozen=True, eq=False)
class State:
    """Positions, velocities and commands of a chain, all random."""

    q: np.ndarray
    qd: np.ndarray
    u: np.ndarray
    tau_null: np.ndarray
    posture: np.ndarray
    F: np.ndarray


def state(n, rng):
    return State(rng.uniform(-2.5, 2.5, n), rng.normal(size=n), rng.normal(size=6),
                 10 * rng.normal(size=n), rng.normal(size=n), 10 * rng.normal(size=6))


def states(n, count=STATES, seed=11):
    rng = np.random.default_rng(seed)
    return [state(n, rng) for _ in range(count)]


@cache
def arm(name):
    """Return a robot of robot_cases() with rotor inertias, one of them 0, and its Judge."""
    case = robot_cases()[name]
    n = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked).n
    rotors = np.random.default_rng(5).uniform(0.05, 0.8, n)
    rotors[n // 2] = 0.0
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked,
                            rotor_inertia=rotors)
    return robot, Judge(case.urdf_text, case.base, case.tip, robot, case.locked)


@cache
def regular_states(name):
    """Return states of `arm(name)` not near a singularity, each with the terms by Pinocchio."""
    robot, judge = arm(name)
    rng, found = np.random.default_rng(13), []
    while len(found) < STATES:
        at = state(robot.n, rng)
        terms = judge.terms(at.q, at.qd)
        if np.linalg.cond(terms.Lambda_inv) < REGULAR:
            found.append((at, terms))
    return found


@cache
def chain(n, seed=3):
    """Return a chain of n revolute and prismatic joints with rotors, and its Judge."""
    urdf_text = random_urdf(seed, n)
    rotors = np.random.default_rng(n).uniform(0.0, 0.5, n)
    robot = Robot.from_urdf(urdf_text, 'link_0', 'tool', rotor_inertia=rotors)
    return robot, Judge(urdf_text, 'link_0', 'tool', robot)


@cache
def space(name, method='sweep'):
    return OperationalSpace(arm(name)[0], method)


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


@pytest.fixture(params=robot_cases())
def name(request):
    return request.param


# Every method for two arms, and every arm for the default method; the other pairs are slow.
EACH = pytest.mark.parametrize('name, method', quick_if(
    lambda name, method: method == 'sweep' or name in ('panda', 'tiago'),
    [(name, method) for name in robot_cases() for method in METHODS]))


def error(found, expected):
    """Return the largest difference / max(the largest entry, ABOUT_ZERO)."""
    return np.abs(found - expected).max() / max(np.abs(expected).max(), ABOUT_ZERO)


def forms(at, terms):
    """Return the options of a null-space command, each with the τ⁰ that it is equivalent to."""
    inverse_dynamics = terms.M @ at.posture + terms.h
    return [
        ({}, np.zeros_like(at.q)),
        ({'tau_null': at.tau_null}, at.tau_null),
        ({'posture_acceleration': at.posture}, inverse_dynamics),
        ({'tau_null': at.tau_null, 'posture_acceleration': at.posture},
         inverse_dynamics + at.tau_null),
    ]


# Comparison with Pinocchio

@EACH
def test_every_term_is_pinocchios(name, method):
    robot, judge = arm(name)
    for at in states(robot.n):
        expected, found = judge.terms(at.q, at.qd), space(name, method).evaluate(at.q, at.qd)
        for term in ('Lambda_inv', 'M_inv', 'h', 'J', 'Jdot_qd', 'pose', 'twist'):
            assert error(getattr(found, term), getattr(expected, term)) < AGREEMENT, term
        rounding = CONDITION_ROUNDING * np.linalg.cond(expected.Lambda_inv)
        if rounding < 1e-5:  # else Pinocchio's inverse is too inaccurate to compare with
            assert error(found.Lambda, expected.Lambda) < max(rounding, AGREEMENT)


@EACH
def test_law_is_pinocchios(name, method):
    for at, terms in regular_states(name):
        assert error(space(name, method).evaluate(at.q, at.qd).Lambda, terms.Lambda) < AGREEMENT
        for options, tau_null in forms(at, terms):
            tau = space(name, method).torque(at.q, at.qd, at.u, **options)
            assert error(tau, terms.torque(at.u, tau_null)) < AGREEMENT, list(options)


@EACH
def test_task_space_coriolis_and_gravity_are_pinocchios(name, method):
    for at, terms in regular_states(name):
        found = space(name, method).evaluate(at.q, at.qd)
        to_task = terms.Lambda @ terms.J @ terms.M_inv
        gravity = to_task @ terms.G
        coriolis = to_task @ (terms.h - terms.G) - terms.Lambda @ terms.Jdot_qd
        scale = np.abs(gravity + coriolis).max()
        assert np.abs(found.gravity - gravity).max() < AGREEMENT * scale
        assert np.abs(found.coriolis - coriolis).max() < AGREEMENT * scale


@EACH
def test_forward_dynamics_is_that_of_articulated_bodies(name, method):
    robot, judge = arm(name)
    for at in states(robot.n):
        for F_tip in (None, at.F):
            qdd = space(name, method).forward_dynamics(at.q, at.qd, at.tau_null, F_tip)
            expected = judge.forward_dynamics(at.q, at.qd, at.tau_null, F_tip)
            assert error(qdd, expected) < AGREEMENT


@EACH
def test_commanded_acceleration_is_met(name, method):
    judge = arm(name)[1]
    for at, terms in regular_states(name):
        for options, _ in forms(at, terms):
            tau = space(name, method).torque(at.q, at.qd, at.u, **options)
            assert error(judge.task_acceleration(at.q, at.qd, tau), at.u) < COMMAND_MET


# Properties of the terms

@EACH
def test_null_space_torque_gives_no_task_acceleration(name, method):
    for at, _ in regular_states(name):
        found = space(name, method).evaluate(at.q, at.qd)
        to_task = found.J @ found.M_inv
        assert np.abs(to_task @ found.N.T).max() < NO_EFFECT * np.abs(to_task).max()
        scale = np.abs(found.J_bar).max() * np.abs(found.J).max()
        assert np.abs(found.N @ found.N - found.N).max() < NO_EFFECT * scale


@EACH
def test_task_inertia_and_its_inverse_cancel(name, method):
    for at, _ in regular_states(name):
        found = space(name, method).evaluate(at.q, at.qd)
        assert np.abs(found.Lambda_inv @ found.Lambda - np.eye(6)).max() < AGREEMENT
        assert (found.Lambda_inv == found.Lambda_inv.T).all()
        assert np.linalg.eigvalsh(found.Lambda).min() > 0
        assert np.abs(found.J @ found.J_bar - np.eye(6)).max() < COMMAND_MET


@EACH
def test_joint_inertia_is_symmetric_and_positive_definite(name, method):
    robot, _ = arm(name)
    for at in states(robot.n):
        column = np.array([space(name, method).apply_M_inv(at.q, e) for e in np.eye(robot.n)])
        assert error(column, column.T) < AGREEMENT
        assert np.linalg.eigvalsh(column).min() > 0


def test_operators_are_the_matrices(method):
    for at, terms in regular_states('panda'):
        osc = space('panda', method)
        assert error(osc.apply_M_inv(at.q, at.tau_null), terms.M_inv @ at.tau_null) < AGREEMENT
        assert error(osc.apply_Lambda_inv(at.q, at.F), terms.Lambda_inv @ at.F) < AGREEMENT
        assert error(osc.apply_Lambda(at.q, at.u), terms.Lambda @ at.u) < AGREEMENT


def test_outward_and_inward_together_give_the_torque(method):
    for at, terms in regular_states('panda'):
        for options, _ in forms(at, terms):
            osc = space('panda', method)
            whole = osc.torque(at.q, at.qd, at.u, **options)
            tip = osc.outward(at.q, at.qd, **options)
            halves = osc.inward(np.linalg.solve(tip.Lambda_inv, at.u - tip.a0))
            assert error(halves, whole) < AGREEMENT


@pytest.mark.parametrize('method', [method for method in METHODS if method != 'dense'])
@pytest.mark.parametrize('n', quick_if(lambda n: n in (1, 6, 7, 33), range(1, 34)))
def test_methods_agree_on_chains_of_any_length(n, method):
    robot, judge = chain(n)
    one_method, textbook = OperationalSpace(robot, method), OperationalSpace(robot, 'dense')
    for at in states(n, 2):
        terms = judge.terms(at.q, at.qd)
        one, other = one_method.evaluate(at.q, at.qd), textbook.evaluate(at.q, at.qd)
        for term in ('Lambda_inv', 'M_inv', 'h', 'J', 'Jdot_qd', 'pose', 'twist'):
            assert error(getattr(one, term), getattr(other, term)) < AGREEMENT, term
            assert error(getattr(one, term), getattr(terms, term)) < AGREEMENT, term
        for options, _ in forms(at, terms):
            tau = one_method.torque(at.q, at.qd, at.u, **options)
            spread = np.linalg.eigvalsh(terms.Lambda_inv)[-min(n, 6)] / np.linalg.norm(
                terms.Lambda_inv, 2)
            assert error(tau, textbook.torque(at.q, at.qd, at.u, **options)) < max(
                AGREEMENT, CONDITION_ROUNDING / spread)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(n=st.integers(1, 12), seed=st.integers(0, 10**6), turn=st.floats(-1e3, 1e3),
       rush=st.floats(0, 1e3))
def test_any_chain_moves_as_pinocchio_says(n, seed, turn, rush):
    robot, judge = chain(n, seed)
    at = states(n, 1, seed)[0]
    q, qd = at.q + turn * ~robot.prismatic, rush * at.qd
    terms, osc = judge.terms(q, qd), OperationalSpace(robot)
    found = osc.evaluate(q, qd)
    # rounding grows with the angle: at 1000 rad it is 1000 times as large as at 1 rad
    for term in ('Lambda_inv', 'h', 'J', 'Jdot_qd', 'pose'):
        assert error(getattr(found, term), getattr(terms, term)) < AGREEMENT, term
    qdd = osc.forward_dynamics(q, qd, at.tau_null, at.F)
    assert error(qdd, judge.forward_dynamics(q, qd, at.tau_null, at.F)) < AGREEMENT


@pytest.mark.parametrize('name', first_quick(['panda', 'iiwa_like', 'random']))
def test_power_of_the_torques_is_the_change_of_energy(name, method):
    robot, judge = arm(name)
    step = 1e-5
    for at in states(robot.n):
        for tau in (np.zeros(robot.n), at.tau_null):
            qdd = space(name, method).forward_dynamics(at.q, at.qd, tau)
            after, before = (judge.energy(at.q + t * at.qd + 0.5 * t * t * qdd, at.qd + t * qdd)
                             for t in (step, -step))
            scale = np.abs(at.qd * judge.terms(at.q, at.qd).h).sum() + np.abs(tau * at.qd).sum()
            assert abs((after - before) / (2 * step) - tau @ at.qd) < ENERGY_RATE * scale


def test_where_the_base_frame_is_does_not_matter(method):
    robot, _ = arm('panda')
    R = pin.exp3(np.array([0.4, -1.1, 0.7]))
    T = pin.SE3(R, np.array([1.0, -2.0, 0.5])).homogeneous
    placements = robot.T_parent_body.copy()
    placements[0] = T @ placements[0]
    moved = OperationalSpace(
        replace(robot, T_parent_body=placements, gravity=R @ robot.gravity), method)
    turned = np.kron(np.eye(2), R)
    for at, terms in regular_states('panda'):
        here, there = space('panda', method).evaluate(at.q, at.qd), moved.evaluate(at.q, at.qd)
        assert error(there.Lambda, turned @ here.Lambda @ turned.T) < AGREEMENT
        assert error(there.pose, T @ here.pose) < AGREEMENT
        assert error(there.h, here.h) < AGREEMENT
        for options, _ in forms(at, terms):
            tau = space('panda', method).torque(at.q, at.qd, at.u, **options)
            assert error(moved.torque(at.q, at.qd, turned @ at.u, **options), tau) < AGREEMENT


def test_tiny_rotor_inertia_gives_the_results_of_none(method):
    robot, _ = arm('panda')
    none = OperationalSpace(replace(robot, rotor_inertia=np.zeros(7)), method)
    for size, limit in ((1e-10, ROTOR_LIMIT), (1e-30, AGREEMENT), (5e-324, AGREEMENT)):
        some = OperationalSpace(replace(robot, rotor_inertia=np.full(7, size)), method)
        for at, terms in regular_states('panda'):
            assert error(some.evaluate(at.q, at.qd).Lambda_inv,
                         none.evaluate(at.q, at.qd).Lambda_inv) < limit
            for options, _ in forms(at, terms):
                assert error(some.torque(at.q, at.qd, at.u, **options),
                             none.torque(at.q, at.qd, at.u, **options)) < limit


@pytest.mark.parametrize('n', first_quick([7, 3, 20]))
def test_masses_may_differ_by_a_million(n, method):
    urdf_text = random_urdf(4, n)
    robot = Robot.from_urdf(urdf_text, 'link_0', 'tool')
    judge = Judge(urdf_text, 'link_0', 'tool', robot)
    scales = 10 ** np.random.default_rng(n).uniform(-3, 3, n)
    for i, scale in enumerate(scales, 1):
        body = judge.model.inertias[i]
        judge.model.inertias[i] = pin.Inertia(
            scale * body.mass, body.lever, scale * body.inertia)
    judge.data = judge.model.createData()
    osc = OperationalSpace(
        replace(robot, inertia=robot.inertia * scales[:, None, None]), method)
    for at in states(n):
        terms, found = judge.terms(at.q, at.qd), osc.evaluate(at.q, at.qd)
        for term in ('Lambda_inv', 'M_inv', 'h'):
            assert error(getattr(found, term), getattr(terms, term)) < WIDE_MASS_AGREEMENT


# Chains and states where the tip cannot move in every direction

@pytest.mark.parametrize('n', first_quick([1, 4, 2, 3, 5], 2))
@pytest.mark.parametrize('name', ['panda', 'random_long', *(
    pytest.param(name, marks=pytest.mark.slow) for name in ('ur5', 'tiago', 'random'))])
def test_fewer_than_six_joints_give_the_least_force_that_fits(name, n, method):
    case, whole = robot_cases()[name], arm(name)[0]
    tip = next(link for link, (body, _) in whole.frames.items() if body == n - 1)
    robot = Robot.from_urdf(case.urdf_text, case.base, tip, locked=case.locked)
    judge = Judge(case.urdf_text, case.base, tip, robot, case.locked)
    osc = OperationalSpace(robot, method)
    for at in states(n):
        terms = judge.terms(at.q, at.qd)
        Lambda = np.linalg.pinv(terms.Lambda_inv, rcond=1e-9, hermitian=True)
        assert error(osc.evaluate(at.q, at.qd).Lambda, Lambda) < DAMPED_AGREEMENT
        for options, tau_null in forms(at, terms):
            tau = osc.torque(at.q, at.qd, at.u, **options)
            a0 = terms.J @ terms.M_inv @ (tau_null - terms.h) + terms.Jdot_qd
            assert error(tau, tau_null + terms.J.T @ Lambda @ (at.u - a0)) < DAMPED_AGREEMENT
        # a feasible acceleration of the tip is achieved
        u = terms.J @ at.posture + terms.Jdot_qd
        tau = osc.torque(at.q, at.qd, u)
        assert error(judge.task_acceleration(at.q, at.qd, tau), u) < DAMPED_AGREEMENT


@pytest.mark.parametrize('name', first_quick(['panda', 'ur5', 'ur10', 'iiwa_like', 'kinova'], 2))
def test_a_stretched_arm_gives_up_what_it_cannot_do_and_nothing_else(name, method):
    robot, judge = arm(name)
    osc, q = space(name, method), np.zeros(robot.n)
    for at in states(robot.n):
        terms = judge.terms(q, at.qd)
        eigenvalues = np.linalg.eigvalsh(terms.Lambda_inv)
        if name != 'kinova':  # at its zero position this arm is folded, not singular
            assert eigenvalues[0] < 1e-12 * eigenvalues[-1]
        Lambda = np.linalg.pinv(terms.Lambda_inv, rcond=1e-9, hermitian=True)
        a0 = terms.Jdot_qd - terms.J @ terms.M_inv @ terms.h
        assert error(osc.torque(q, at.qd, at.u),
                     terms.J.T @ Lambda @ (at.u - a0)) < DAMPED_AGREEMENT
        u = terms.J @ at.posture + terms.Jdot_qd
        tau = osc.torque(q, at.qd, u)
        assert error(judge.task_acceleration(q, at.qd, tau), u) < DAMPED_AGREEMENT


# Arguments and results

ARGUMENTS = ('q', 'qd', 'u', 'tau_null', 'posture_acceleration')


def arguments(n=7):
    at = regular_states('panda')[0][0]
    return {'q': at.q, 'qd': at.qd, 'u': at.u, 'tau_null': at.tau_null,
            'posture_acceleration': at.posture}


@pytest.mark.parametrize('argument', ARGUMENTS)
def test_a_wrong_shape_is_refused_with_both_shapes(argument, method):
    good = arguments()
    shape = good[argument].shape
    for bad in (good[argument][:-1], np.append(good[argument], 0.0), good[argument][None],
                np.zeros(0), 0.5):
        with pytest.raises(InputError, match=naming(argument, np.shape(bad), 'must be', shape)):
            space('panda', method).torque(**good | {argument: bad})


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('argument', ARGUMENTS)
def test_a_number_that_is_not_finite_is_refused_with_its_place(argument, value, method):
    bad = arguments()[argument].copy()
    bad[2] = value
    with pytest.raises(InputError, match=naming(f'{argument}[2] = {value}')):
        space('panda', method).torque(**arguments() | {argument: bad})


@pytest.mark.parametrize('argument', ARGUMENTS)
def test_arguments_that_are_no_numbers_are_refused(argument, method):
    for bad in (['one'] * 7, [[1.0], [2.0, 3.0]], {'panda_joint1': 1.0}, object()):
        with pytest.raises(InputError, match=f'^{argument} .*of numbers'):
            space('panda', method).torque(**arguments() | {argument: bad})


@pytest.mark.parametrize('call, wrong', [
    (lambda osc, x: osc.outward(x, np.zeros(7)), 'q'),
    (lambda osc, x: osc.evaluate(np.zeros(7), x), 'qd'),
    (lambda osc, x: osc.forward_dynamics(np.zeros(7), np.zeros(7), x), 'tau'),
    (lambda osc, x: osc.forward_dynamics(*np.zeros((3, 7)), F_tip=x), 'F_tip'),
    (lambda osc, x: osc.apply_M_inv(np.zeros(7), x), 'x'),
    (lambda osc, x: osc.apply_Lambda_inv(np.zeros(7), x), 'f'),
    (lambda osc, x: osc.apply_Lambda(np.zeros(7), x), 'a'),
    (lambda osc, x: osc.inward(x), 'F'),
])
def test_every_method_refuses_wrong_shapes_and_numbers_that_are_not_finite(call, wrong, method):
    osc = space('panda', method)
    osc.outward(np.zeros(7), np.zeros(7))
    with pytest.raises(InputError, match=rf'^{wrong} .*\(5,\).*(give|must be)'):
        call(osc, np.zeros(5))
    size = 7 if wrong in ('q', 'qd', 'tau', 'x') else 6
    with pytest.raises(InputError, match=rf'^{wrong} .*{wrong}\[0\] = nan'):
        call(osc, np.full(size, np.nan))


def test_a_state_beyond_all_numbers_is_refused(method):
    huge = arguments() | {'qd': np.full(7, 1e200)}
    with pytest.raises(InputError, match='too large'):
        space('panda', method).torque(**huge)
    with pytest.raises(InputError, match='tip .*finite'):
        space('panda', method).outward(huge['q'], huge['qd'])


def test_refused_call_does_not_change_the_next_result(method):
    osc = OperationalSpace(arm('panda')[0], method)
    before = osc.torque(**arguments())
    for bad in ({'q': np.full(7, np.nan)}, {'qd': np.full(7, 1e200)}, {'u': [1.0]}):
        with pytest.raises(InputError):
            osc.torque(**arguments() | bad)
    assert (osc.torque(**arguments()) == before).all()


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def unaligned(x):
    room = np.zeros(x.nbytes + 1, dtype=np.uint8)
    room[1:] = np.frombuffer(x.tobytes(), dtype=np.uint8)
    return room[1:].view(np.float64)


@pytest.mark.parametrize('given_as', [
    np.ndarray.tolist, tuple, frozen, unaligned, lambda x: np.repeat(x, 2)[::2],
    lambda x: x[::-1].copy()[::-1], lambda x: np.asfortranarray(x),
], ids=['list', 'tuple', 'read-only', 'unaligned', 'strided', 'reversed', 'fortran'])
def test_numbers_are_taken_in_any_form(given_as, method):
    good = arguments()
    expected = space('panda', method).torque(**good)
    for argument in ARGUMENTS:
        tau = space('panda', method).torque(**good | {argument: given_as(good[argument])})
        assert (tau == expected).all()
    assert (space('panda', method).torque(
        **{argument: given_as(x) for argument, x in good.items()}) == expected).all()


@pytest.mark.parametrize('dtype', [np.float32, np.int64, np.longdouble])
def test_numbers_of_another_kind_are_taken_at_their_value(dtype, method):
    short = {argument: x.astype(dtype) for argument, x in arguments().items()}
    same = {argument: x.astype(np.float64) for argument, x in short.items()}
    osc = space('panda', method)
    assert (osc.torque(**short) == osc.torque(**same)).all()


def test_an_unknown_method_is_refused_with_those_known():
    known = ', '.join(METHODS)
    with pytest.raises(InputError, match=f"'fast'.*{known}"):
        OperationalSpace(arm('panda')[0], method='fast')


def test_out_is_written_and_returned(method):
    osc, out = space('panda', method), np.full(7, np.nan)
    assert osc.torque(**arguments(), out=out) is out
    assert (out == osc.torque(**arguments())).all()
    F = np.ones(6)
    osc.outward(arguments()['q'], arguments()['qd'])
    assert osc.inward(F, out=out) is out
    assert (out == osc.inward(F)).all()


@pytest.mark.parametrize('out', [
    np.zeros(6), np.zeros((7, 1)), np.zeros(7, np.float32), np.zeros(14)[::2],
    frozen(np.zeros(7)), [0.0] * 7,
], ids=['short', 'column', 'float32', 'strided', 'read-only', 'list'])
def test_an_out_that_cannot_be_written_is_refused(out, method):
    message = naming('out', 'writeable', 'float64', '(7,)')
    with pytest.raises(InputError, match=message):
        space('panda', method).torque(**arguments(), out=out)
    space('panda', method).outward(arguments()['q'], arguments()['qd'])
    with pytest.raises(InputError, match=message):
        space('panda', method).inward(np.zeros(6), out=out)


def test_results_are_not_overwritten_by_the_next_call(method):
    osc = space('panda', method)
    (at, _), (other, _) = regular_states('panda')[:2]
    tau, found = osc.torque(at.q, at.qd, at.u), osc.evaluate(at.q, at.qd)
    kept = {term: getattr(found, term).copy() for term in (
        'pose', 'twist', 'J', 'Jdot_qd', 'h', 'Lambda_inv', 'Lambda')}
    tau_kept = tau.copy()
    osc.torque(other.q, other.qd, other.u)
    osc.evaluate(other.q, other.qd)
    assert (tau == tau_kept).all()
    for term, value in kept.items():
        assert (getattr(found, term) == value).all(), term
    # M_inv is computed only when it is read, but at the state of `found`
    assert error(found.M_inv, regular_states('panda')[0][1].M_inv) < AGREEMENT


def test_two_instances_share_nothing(method):
    (at, _), (other, _) = regular_states('panda')[:2]
    one, two = (OperationalSpace(arm('panda')[0], method) for _ in range(2))
    tip = one.outward(at.q, at.qd)
    kept = tip.Lambda_inv.copy()
    two.outward(other.q, other.qd)
    assert (tip.Lambda_inv == kept).all()


# lanes of trees are compiled for their batches only
@pytest.mark.parametrize('method', [
    pytest.param(method, marks=pytest.mark.slow if method in ('recursive', 'efpa', 'sfa') else ())
    for method in METHODS])
@pytest.mark.parametrize('name', first_quick(['tiago', 'panda', 'random_long']))
def test_batch_is_every_state_by_itself(name, method):
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    osc = OperationalSpace(robot, method)
    rng = np.random.default_rng(0)
    q, qd = rng.normal(size=(2, 7, robot.n))
    batch = osc.evaluate_batch(q, qd)
    for k in range(7):
        state = osc.evaluate(q[k], qd[k])
        for term in ('pose', 'twist', 'J', 'Jdot_qd', 'h', 'Lambda_inv', 'Lambda'):
            assert error(getattr(batch, term)[k], getattr(state, term)) < LANES_AGREEMENT, term


@pytest.mark.parametrize('method', [
    pytest.param(method, marks=pytest.mark.slow if method in ('recursive', 'efpa', 'sfa') else ())
    for method in METHODS])
def test_batch_of_no_states_and_bad_batches(method):
    case = robot_cases()['panda']
    osc = OperationalSpace(Robot.from_urdf(case.urdf_text, case.base, case.tip), method)
    assert osc.evaluate_batch(np.zeros((0, 7)), np.zeros((0, 7))).J.shape == (0, 6, 7)
    with pytest.raises(InputError, match=r'^q .*\(3, 6\).*(give|must be).*\(3, 7\)'):
        osc.evaluate_batch(np.zeros((3, 6)), np.zeros((3, 6)))
    with pytest.raises(InputError, match=r'^qd .*\(2, 7\).*(give|must be).*\(3, 7\)'):
        osc.evaluate_batch(np.zeros((3, 7)), np.zeros((2, 7)))
    with pytest.raises(InputError, match='^q .*of numbers'):
        osc.evaluate_batch([[0.0, 0.0], [0.0]], np.zeros((2, 7)))
    with pytest.raises(InputError, match='^q .*finite'):
        osc.evaluate_batch(np.full((3, 7), np.nan), np.zeros((3, 7)))
