# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The spatial-operator recursions compared with Pinocchio, the textbook and the sweep."""

from dataclasses import replace
from functools import cache

import numpy as np
import pinocchio as pin
import pytest

from judge import configuration, pinocchio_model, random_urdf, robot_cases, SHIPPED_PANDA
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.papers.spatial_operators import (
    SpatialOperators,
    task_bias,
    task_coriolis,
    task_gravity,
)
from osc_ros.errors import InputError
from tolerances import AGREEMENT, COMMAND_MET

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

STATES = 3
REGULAR = 1e4  # condition number of Λ⁻¹: not near a singularity
ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]
TILTED = np.array([3.0, -7.0, 5.0])


@pytest.fixture(params=robot_cases())
def name(request):
    return request.param


@cache
def arm(name):
    """Return a robot of robot_cases() with rotors and tilted gravity, and its Pinocchio model."""
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked,
                            gravity=TILTED)
    rotors = np.random.default_rng(5).uniform(0.05, 0.8, robot.n)
    rotors[robot.n // 2] = 0.0
    robot = replace(robot, rotor_inertia=rotors)
    judge = pinocchio_model(case.urdf_text, case.base, case.tip, robot.joint_names, case.locked)
    judge[0].armature = rotors.copy()
    judge[0].gravity.linear = TILTED
    return robot, judge


def terms(judge, q, qd):
    """Return Pinocchio's M, C, G, J and J̇q̇, [angular; linear]."""
    model, data, frame = judge
    q, world = configuration(model, q), pin.LOCAL_WORLD_ALIGNED
    M = np.triu(pin.crba(model, data, q).reshape(model.nv, model.nv))
    G = pin.computeGeneralizedGravity(model, data, q).copy()
    C = pin.nonLinearEffects(model, data, q, qd) - G
    J = pin.computeFrameJacobian(model, data, q, frame, world).reshape(6, model.nv)
    pin.forwardKinematics(model, data, q, qd, np.zeros(model.nv))
    Jdot_qd = pin.getFrameClassicalAcceleration(model, data, frame, world).vector
    return M + np.triu(M, 1).T, C, G, J[ANGULAR_FIRST], Jdot_qd[ANGULAR_FIRST]


@cache
def regular_states(name):
    """Return states that are not near a singularity."""
    robot, judge = arm(name)
    rng, found = np.random.default_rng(13), []
    while len(found) < STATES:
        q, qd = rng.uniform(-2.5, 2.5, robot.n), rng.normal(size=robot.n)
        M, _, _, J, _ = terms(judge, q, qd)
        if np.linalg.cond(J @ np.linalg.solve(M, J.T)) < REGULAR:
            found.append((q, qd))
    return found


def far(found, expected, scale=None):
    """Return the largest difference, divided by `scale` (default: the largest expected entry)."""
    scale = np.abs(expected).max() if scale is None else scale
    return np.abs(found - expected).max() / scale


def long_chain(n):
    """Return a chain of n equal bodies: a quarter of the joints prismatic, half with rotors."""
    rng = np.random.default_rng(0)
    T = np.tile(np.eye(4), (n, 1, 1))
    T[:, :3, :3] = [pin.exp3(x) for x in rng.normal(size=(n, 3))]
    T[:, :3, 3] = rng.uniform(-0.2, 0.2, (n, 3))
    body = pin.Inertia(1.3, np.array([0.05, -0.1, 0.02]), np.diag([0.004, 0.003, 0.002])).matrix()
    free = np.full(n, np.inf)
    return Robot(
        name='long', base='base', tips=('tip',), joints=tuple(f'joint_{i}' for i in range(n)),
        parent=np.arange(-1, n - 1), prismatic=rng.random(n) < 0.25, spherical=np.zeros(n, bool),
        T_parent_body=T,
        inertia=np.tile(np.roll(body, 3, axis=(0, 1)), (n, 1, 1)),  # Pinocchio: [linear; angular]
        rotor_inertia=rng.uniform(0, 0.5, n) * (rng.random(n) < 0.5),
        position_limits=np.stack([-free, free], axis=1), velocity_limits=free,
        effort_limits=free, gravity=TILTED, frames={'tip': (n - 1, T[0])})


# Coriolis and gravity terms of the paper

def test_task_coriolis_and_gravity_are_pinocchios(name):
    robot, judge = arm(name)
    for q, qd in regular_states(name):
        M, C, G, J, Jdot_qd = terms(judge, q, qd)
        to_tip = np.linalg.solve(M, J.T).T
        Lambda = np.linalg.inv(to_tip @ J.T)
        c, g = Lambda @ (to_tip @ C - Jdot_qd), Lambda @ to_tip @ G
        scale = np.abs(c + g).max()
        assert far(task_coriolis(robot, q, qd), c, scale) < AGREEMENT
        assert far(task_gravity(robot, q), g, scale) < AGREEMENT
        assert far(task_bias(robot, q, qd), c + g) < AGREEMENT


def test_task_coriolis_and_gravity_are_those_of_the_textbook(name):
    robot, _ = arm(name)
    textbook = OperationalSpace(robot, 'dense')
    for q, qd in regular_states(name):
        expected = textbook.evaluate(q, qd)
        scale = np.abs(expected.coriolis + expected.gravity).max()
        assert far(task_coriolis(robot, q, qd), expected.coriolis, scale) < AGREEMENT
        assert far(task_gravity(robot, q), expected.gravity, scale) < AGREEMENT


def test_both_terms_together_are_their_sum(name):
    robot, _ = arm(name)
    for q, qd in regular_states(name):
        bias = task_bias(robot, q, qd)
        assert far(task_coriolis(robot, q, qd) + task_gravity(robot, q), bias) < AGREEMENT
        at_rest = task_bias(robot, q, np.zeros(robot.n))
        assert far(at_rest, task_gravity(robot, q)) < AGREEMENT


def test_law_of_the_paper_is_torque_and_meets_the_command(name):
    robot, judge = arm(name)
    model, data, _ = judge
    osc, u = OperationalSpace(robot, 'recursive'), np.array([1.0, -2.0, 0.5, 3.0, 1.0, -1.0])
    for q, qd in regular_states(name):
        F = osc.apply_Lambda(q, u) + task_bias(robot, q, qd)
        osc.outward(q, qd)
        T = osc.inward(F)
        assert far(T, osc.torque(q, qd, u)) < AGREEMENT
        *_, J, Jdot_qd = terms(judge, q, qd)
        qdd = pin.aba(model, data, configuration(model, q), qd, T)
        assert far(J @ qdd + Jdot_qd, u) < COMMAND_MET


def test_coriolis_force_is_quadratic_in_the_velocity_and_independent_of_gravity():
    robot, _ = arm('random')
    weightless = replace(robot, gravity=np.zeros(3))
    for q, qd in regular_states('random'):
        c = task_coriolis(robot, q, qd)
        assert far(task_coriolis(robot, q, -3.0 * qd), 9.0 * c) < AGREEMENT
        assert far(task_coriolis(weightless, q, qd), c) < AGREEMENT
        assert (task_gravity(weightless, q) == 0.0).all()
        assert far(task_gravity(replace(robot, gravity=-2.0 * TILTED), q),
                   -2.0 * task_gravity(robot, q)) < AGREEMENT


# Short and long chains, small and large rotor inertias

@pytest.mark.parametrize('prismatic', [False, True])
@pytest.mark.parametrize('rotor', [0.0, 0.3])
def test_one_joint_is_as_in_the_textbook(prismatic, rotor):
    robot = replace(Robot.from_urdf(random_urdf(2, 1), 'link_0', 'tool', gravity=TILTED),
                    prismatic=np.array([prismatic]), rotor_inertia=np.array([rotor]))
    one, textbook = (OperationalSpace(robot, method) for method in ('recursive', 'dense'))
    q, qd, u = np.array([0.4]), np.array([-1.3]), np.arange(6.0)
    found, expected = one.evaluate(q, qd), textbook.evaluate(q, qd)
    for term in ('Lambda_inv', 'Lambda', 'Jdot_qd', 'J', 'h', 'M_inv'):
        assert np.abs(getattr(found, term) - getattr(expected, term)).max() < AGREEMENT, term
    assert far(one.torque(q, qd, u), textbook.torque(q, qd, u)) < AGREEMENT
    scale = np.abs(expected.gravity).max()
    assert far(task_bias(robot, q, qd), expected.coriolis + expected.gravity, scale) < AGREEMENT
    assert far(task_gravity(robot, q), expected.gravity) < AGREEMENT


def test_two_thousand_links_move_as_by_the_sweep():
    n, rng = 2000, np.random.default_rng(1)
    robot = long_chain(n)
    one, other = OperationalSpace(robot, 'recursive'), OperationalSpace(robot, 'sweep')
    q, qd, tau, u = (rng.uniform(-2, 2, n), 0.1 * rng.normal(size=n), rng.normal(size=n),
                     rng.normal(size=6))
    found, expected = one.outward(q, qd, tau), other.outward(q, qd, tau)
    for term in ('Lambda_inv', 'a0', 'pose', 'twist'):
        assert far(getattr(found, term), getattr(expected, term)) < AGREEMENT, term
    assert far(one.torque(q, qd, u), other.torque(q, qd, u)) < AGREEMENT
    assert far(one.forward_dynamics(q, qd, tau, u),
               other.forward_dynamics(q, qd, tau, u)) < AGREEMENT
    bias = other.apply_Lambda(q, -other.outward(q, qd).a0.copy())
    assert far(task_bias(robot, q, qd), bias) < AGREEMENT


@pytest.mark.parametrize('rotor', [1e-6, 1e-3, 1.0, 1e3])
def test_rotors_of_any_size_are_as_in_the_textbook(rotor):
    robot = replace(arm('panda')[0], rotor_inertia=np.full(7, rotor))
    one, textbook = (OperationalSpace(robot, method) for method in ('recursive', 'dense'))
    for q, qd in regular_states('panda'):
        found, expected = one.evaluate(q, qd), textbook.evaluate(q, qd)
        assert far(found.Lambda_inv, expected.Lambda_inv) < AGREEMENT
        assert far(found.M_inv, expected.M_inv) < AGREEMENT
        assert far(one.forward_dynamics(q, qd, qd), textbook.forward_dynamics(q, qd, qd)
                   ) < AGREEMENT
        scale = np.abs(expected.coriolis + expected.gravity).max()
        assert far(task_bias(robot, q, qd), expected.coriolis + expected.gravity,
                   scale) < AGREEMENT


# Refused arguments

@pytest.mark.parametrize(('q', 'qd', 'message'), [
    (np.zeros(6), np.zeros(7), r'^q .*\(6,\), (give|must be).*\(7,\)'),
    (np.zeros(7), np.zeros((7, 1)), r'^qd .*\(7, 1\), (give|must be).*\(7,\)'),
    (np.zeros(7), [0, 0, np.nan, 0, 0, 0, 0], r'^qd .*qd\[2\] = nan'),
    (np.zeros(7), ['fast'] * 7, '^qd .*numbers'),
    (np.ones(7), np.full(7, 1e200), 'force .*too large'),
])
def test_invalid_states_are_refused(q, qd, message):
    for force in (task_coriolis, task_bias):
        with pytest.raises(InputError, match=message):
            force(arm('panda')[0], q, qd)


def test_recursions_as_published_give_the_law_of_the_textbook(name):
    robot, _ = arm(name)
    published, textbook = SpatialOperators(robot), OperationalSpace(robot, 'dense')
    tau, u = np.empty(robot.n), np.array([1.0, -2.0, 0.5, 3.0, 1.0, -1.0])
    for q, qd in regular_states(name):
        for options in ((None, None), (qd, None), (None, qd), (q, qd)):
            assert published.torque(q, qd, u, *options, tau) == 0
            assert far(tau, textbook.torque(q, qd, u, *options)) < AGREEMENT
        tip = textbook.outward(q, qd)
        assert published.outward(q, qd, None, None) == 0
        assert far(published.Lambda_inv, tip.Lambda_inv) < AGREEMENT
        assert far(published.a0, tip.a0) < AGREEMENT


def test_error_for_a_robot_that_is_no_chain_names_the_functions_for_it():
    text = SHIPPED_PANDA.read_text()
    for options in ({'tip': ['panda_link8', 'panda_link4']},
                    {'tip': 'panda_link8', 'free': ['panda_finger_joint1']},
                    {'tip': 'panda_link8', 'floating_base': True}):
        robot = Robot.from_urdf(text, 'panda_link0', **options)
        for refused in (lambda r: task_gravity(r, r.neutral),
                        lambda r: task_coriolis(r, r.neutral, np.zeros(r.n)),
                        lambda r: task_bias(r, r.neutral, np.zeros(r.n)), SpatialOperators):
            with pytest.raises(InputError, match='OperationalSpace.robot'):
                refused(robot)
