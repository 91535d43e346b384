# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Payload, tool and gravity of a robot, compared with Pinocchio's model with the same body."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from judge import configuration, pinocchio_model, random_tree, robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.control.data import LAW_D, LAW_M
from osc_ros.control.limits.bodies import put_bodies
from osc_ros.control.limits.load import (
    bounded_loads,
    FULL,
    PACE,
    Weight,
)
from osc_ros.dynamics.methods import METHODS
from osc_ros.errors import InputError, ModelError
from tolerances import AGREEMENT, INERTIA_TOLERANCE

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
SAME_EVERY_TIME = settings(derandomize=True, deadline=None, database=None, max_examples=25)


def load(rng):
    """Return the mass, centre of mass and inertia of a random body."""
    mass, moments = rng.uniform(0.1, 5.0), rng.uniform(0.001, 0.05, 3)
    R = Rotation.random(random_state=rng).as_matrix()
    return mass, rng.uniform(-0.3, 0.3, 3), R @ np.diag(moments.sum() - moments) @ R.T


def random_pose(rng):
    T = np.eye(4)
    T[:3, :3] = Rotation.random(random_state=rng).as_matrix()
    T[:3, 3] = rng.uniform(-0.3, 0.3, 3)
    return T


def judged(case, robot):
    return pinocchio_model(case.urdf_text, case.base, case.tip, robot.joint_names, case.locked)


def state(robot, rng):
    """Return random q (n,), q̇ (n,)."""
    return rng.uniform(-1.5, 1.5, robot.n), rng.normal(size=robot.n)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0,
                               atol=AGREEMENT * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize('name', robot_cases())
@pytest.mark.parametrize('seed', range(3))
def test_payload_on_any_link_is_a_body_more_to_pinocchio(name, seed):
    case, rng = robot_cases()[name], np.random.default_rng(seed)
    bare = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    moving = [link for link, (body, _) in bare.frames.items() if body >= 0]
    link = case.tip if seed == 0 else moving[rng.integers(len(moving))]
    mass, centre, inertia = load(rng)
    robot = bare.with_payload(mass, centre, inertia, link)
    model, _, tip = judged(case, robot)
    frame = model.frames[model.getFrameId(link, pin.FrameType.BODY)]
    model.appendBodyToJoint(frame.parentJoint, pin.Inertia(mass, centre, inertia),
                            frame.placement)
    data = model.createData()
    q, qd = state(robot, rng)
    full = configuration(model, q)
    found = OperationalSpace(robot).evaluate(q, qd)
    close(found.h, pin.nonLinearEffects(model, data, full, qd))
    M = pin.crba(model, data, full)
    J = pin.computeFrameJacobian(model, data, full, tip, pin.LOCAL_WORLD_ALIGNED)[
        [3, 4, 5, 0, 1, 2]]
    close(found.Lambda_inv, J @ np.linalg.solve(np.triu(M) + np.triu(M, 1).T, J.T))


@SAME_EVERY_TIME
@given(st.lists(st.sampled_from(['revolute', 'prismatic', 'spherical', 'floating',
                                 'point revolute', 'bare revolute']), min_size=1, max_size=6),
       st.integers(0, 999))
def test_payload_on_a_tree_with_massless_and_point_bodies_is_pinocchios(kinds, seed):
    rng = np.random.default_rng(seed)
    # the last body has no mass: its joint has only the inertia of the rotor
    kinds = [*kinds, 'bare revolute']
    tree = random_tree(seed, ['revolute', *kinds], branches=[(0, ('revolute',))])
    rotors = rng.uniform(0.05, 0.8, tree.model.nv)
    mass, centre, inertia = load(rng)
    bare = Robot(**{**tree.description, 'rotor_inertia': rotors})
    assert not bare.definite.all()
    robot = bare.with_payload(mass, centre, inertia)
    # add the payload to tree.model, in place
    model = tree.model
    frame = model.frames[model.getFrameId('tip_0')]
    model.appendBodyToJoint(frame.parentJoint, pin.Inertia(mass, centre, inertia),
                            frame.placement)
    body, _ = robot.frames['tip_0']
    assert robot.definite[body]
    tree = replace(tree, model=model, rotors=dict(zip(
        tree.names, np.split(rotors, np.cumsum([len(tree.rotors[x]) for x in tree.names])[:-1]))))
    q, qd = tree.state(rng)
    expected = tree.terms(q, qd)
    for method in ('sweep', 'efpa', 'dense'):
        found = OperationalSpace(robot, method).evaluate(q, qd)
        close(found.h, expected.h)
        close(found.Lambda_inv, expected.Lambda_inv)


def test_payload_makes_a_plain_chain_of_one_with_a_massless_tip():
    tree = random_tree(0, ['revolute', 'prismatic', 'bare revolute'])
    bare = Robot(**{**tree.description, 'rotor_inertia': np.full(3, 0.1)})
    assert bare.chain and not bare.serial
    assert bare.with_payload(1.0, inertia=0.01 * np.eye(3)).serial
    assert not bare.with_payload(1.0).serial  # the inertia of a point mass is singular


def test_payloads_add_up_to_the_body_that_they_are_together():
    case, rng = robot_cases()['panda'], np.random.default_rng(1)
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    bodies = [pin.Inertia(*load(rng)) for _ in range(2)]
    whole = bodies[0] + bodies[1]
    one_by_one = robot
    for body in bodies:
        one_by_one = one_by_one.with_payload(body.mass, body.lever, body.inertia)
    at_once = robot.with_payload(whole.mass, whole.lever, whole.inertia)
    np.testing.assert_allclose(one_by_one.inertia, at_once.inertia, rtol=0,
                               atol=INERTIA_TOLERANCE * np.abs(at_once.inertia).max())
    np.testing.assert_array_equal(robot.with_payload(0.0).inertia, robot.inertia)


@pytest.mark.parametrize('name', robot_cases())
def test_tool_is_a_frame_more_to_pinocchio(name):
    case, rng = robot_cases()[name], np.random.default_rng(2)
    T = random_pose(rng)
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked).with_tool(T)
    assert robot.tip == f'{case.tip}_tool'
    model, _, tip = judged(case, robot)
    frame = model.addFrame(pin.Frame(
        'tool of the test', model.frames[tip].parentJoint, model.frames[tip].placement
        * pin.SE3(T), pin.FrameType.OP_FRAME))
    data = model.createData()
    q, qd = state(robot, rng)
    found = OperationalSpace(robot).evaluate(q, qd)
    full = configuration(model, q)
    J = pin.computeFrameJacobian(model, data, full, frame, pin.LOCAL_WORLD_ALIGNED)
    pin.framesForwardKinematics(model, data, full)
    close(found.pose, data.oMf[frame].homogeneous)
    close(found.J, J[[3, 4, 5, 0, 1, 2]])


DOWN_THE_WALL = (-9.0, 1.0, 2.0)


@pytest.mark.parametrize('method', METHODS)
def test_gravity_is_that_of_the_robot_or_the_one_that_is_set(method):
    case, rng = robot_cases()['panda'], np.random.default_rng(3)
    bare = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    model, data, _ = judged(case, bare)
    model.gravity.linear = np.array(DOWN_THE_WALL)
    q, qd = state(bare, rng)
    full = configuration(model, q)
    changed = OperationalSpace(bare, method)
    changed.evaluate(q, qd)  # results for the old gravity must not be used again
    changed.gravity = DOWN_THE_WALL
    tau = rng.normal(size=7)
    for osc in (changed, OperationalSpace(bare.with_gravity(DOWN_THE_WALL), method)):
        np.testing.assert_array_equal(osc.gravity, DOWN_THE_WALL)
        found = osc.evaluate(q, qd)
        close(found.h, pin.nonLinearEffects(model, data, full, qd))
        close(osc.forward_dynamics(q, qd, tau), pin.aba(model, data, full, qd, tau))
        u = rng.normal(size=6)
        qdd = pin.aba(model, data, full, qd, osc.torque(q, qd, u))
        close(found.J @ qdd + found.Jdot_qd, u)
    np.testing.assert_array_equal(changed.robot.gravity, bare.gravity)


# quick: the test above, and test_team_gives_the_results_of_one_process of test_parallel.py
@pytest.mark.slow
def test_gravity_reaches_a_team():
    case, rng = robot_cases()['random_long'], np.random.default_rng(4)
    bare = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    q, qd = state(bare, rng)
    alone = OperationalSpace(bare)
    with OperationalSpace(bare, workers=2) as team:
        for osc in (alone, team):
            osc.gravity = DOWN_THE_WALL
        close(team.torque(q, qd, np.ones(6)), alone.torque(q, qd, np.ones(6)))


def test_other_arrays_stay_the_robots_own():
    case = robot_cases()['panda']
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    changed = robot.with_payload(1.0).with_tool(np.eye(4), 'cup').with_gravity((0.0, 0.0, 9.81))
    assert (robot.tip, changed.tip) == ('panda_hand_tcp', 'cup')
    assert changed.joint_names == robot.joint_names
    np.testing.assert_array_equal(robot.gravity, (0.0, 0.0, -9.81))
    np.testing.assert_array_equal(changed.effort_limits, robot.effort_limits)
    with pytest.raises(ValueError, match='read-only'):
        changed.inertia[0] = 0.0


@pytest.mark.parametrize('change, message', [
    (lambda r: r.with_payload(-1.0), 'mass -1 kg .* 0'),
    (lambda r: r.with_payload(np.nan), 'mass nan'),
    (lambda r: r.with_payload(1.0, (0.0, np.inf, 0.0)), 'mass 1 kg at .*finite'),
    (lambda r: r.with_payload(1.0, (0.0, 0.0)), r'center_of_mass.*\(2,\),.*\(3,\)'),
    (lambda r: r.with_payload(1.0, inertia=np.ones(3)), r'inertia.*\(3,\),.*\(3, 3\)'),
    (lambda r: r.with_payload(1.0, inertia=-np.eye(3)), '(give|must be).*symmetric'),
    (lambda r: r.with_payload(1.0, inertia=np.tri(3)), '(give|must be).*symmetric'),
    (lambda r: r.with_payload(1.0, inertia=np.full((3, 3), np.nan)), '(give|must be).*symmetric'),
    (lambda r: r.with_payload(0.0, inertia=np.eye(3)), 'mass of 0 kg'),
    (lambda r: r.with_payload(1.0, link='panda_hnd'), "'panda_hnd'.*panda_hand"),
    (lambda r: r.with_payload(1.0, link='panda_link0'), "'panda_link0' .*move"),
    (lambda r: r.with_tool(np.eye(3)), r'T_tip_tool.*\(3, 3\),.*\(4, 4\)'),
    (lambda r: r.with_tool(2.0 * np.eye(4)), 'T_tip_tool .*rotation'),
    (lambda r: r.with_tool(np.eye(4), 'panda_hand'), "'panda_hand' .*'panda'"),
    (lambda r: r.with_gravity((0.0, 0.0, np.nan)), 'gravity .*finite'),
    (lambda r: r.with_gravity((0.0, 9.81)), r'gravity.*\(2,\),.*\(3,\)'),
])
def test_load_that_no_robot_has_is_refused(change, message):
    case = robot_cases()['panda']
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    with pytest.raises(ModelError, match=message):
        change(robot)


def test_gravity_that_is_none_is_refused_and_the_old_one_stays():
    case = robot_cases()['panda']
    osc = OperationalSpace(Robot.from_urdf(case.urdf_text, case.base, case.tip))
    with pytest.raises(InputError, match='gravity .*finite'):
        osc.gravity = (0.0, np.nan, 0.0)
    np.testing.assert_array_equal(osc.gravity, (0.0, 0.0, -9.81))


@pytest.mark.parametrize('name', robot_cases())
def test_bounds_of_the_loads_are_pinocchios_gravity_and_its_derivatives(name):
    case, rng = robot_cases()[name], np.random.default_rng(7)
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    model, data, _ = judged(case, robot)
    n, effort, found = robot.n, np.full(robot.n, 1e-12), Weight(robot)
    m, d = LAW_M.new(n=n), LAW_D.new(n=n)
    d.most_effort[:] = effort
    put_bodies(m, robot)
    rows, most = d.row_of_q, d.row_most
    for gravity in (np.array(robot.gravity), rng.normal(size=3)):
        model.gravity.linear = gravity
        q, qd = state(robot, rng)

        def load(t, q=q, qd=qd):
            return pin.computeGeneralizedGravity(model, data, configuration(model, q + t * qd))

        weight = found.torque(q, gravity)
        close(weight, load(0.0))
        gradient = pin.computeGeneralizedGravityDerivatives(model, data, configuration(model, q))
        d.q[:], d.qd[:] = q, qd
        count = bounded_loads(m, d, gravity)
        at = d.row_number[:count]
        sign = np.sign(weight[at])
        close(rows[:count], sign[:, None] * gradient[at])
        # `bounded_loads` omits only joints whose gravity torque does not depend on q
        free = np.setdiff1d(np.flatnonzero(np.abs(weight) > 1e-9), at)
        assert np.abs(gradient[free]).max(initial=0.0) < 1e-9 * np.abs(weight).max()
        step = 1e-3
        bend = (load(step) - 2.0 * weight + load(-step)) / step ** 2
        firm = PACE * (PACE * (FULL * effort[at] - np.abs(weight[at])) - 2.0 * rows[:count] @ qd)
        np.testing.assert_allclose(firm - most[:count], (sign * bend[at]), rtol=0,
                                   atol=1e-4 * max(1.0, np.abs(bend).max()))
