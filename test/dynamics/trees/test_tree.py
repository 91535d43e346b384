# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Trees with several tips, floating robots, and Λ⁻¹ by three algorithms."""

from functools import cache

import numpy as np
import pinocchio as pin
import pytest

from common import naming
from feedback import task_acceleration
from judge import held_configuration, SHIPPED_PANDA
from osc_ros import OperationalSpace, Robot
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import Gains, Target
from osc_ros.dynamics.methods import METHODS, ONE_TIP
from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.errors import InputError, ModelError
from osc_ros.sim.plant import Plant
from survey import urdf_texts
from tolerances import (
    AGREEMENT,
    COMMAND_MET,
    DUAL_ARM_TRACKING,
    LANES_AGREEMENT,
    NO_EFFECT,
)

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
SWAP = [3, 4, 5, 0, 1, 2]  # osc_ros has [angular; linear], Pinocchio has [linear; angular]
TREE_METHODS = [name for name in METHODS if name not in ONE_TIP]
TALOS = 'talos_data/robots/talos_full_v2.urdf'
LIMBS = ('gripper_left_base_link', 'gripper_right_base_link', 'left_sole_link', 'right_sole_link')
CASES = {
    # URDF, base, tips, options
    'panda and its elbow': ('panda', 'panda_link0', ('panda_hand_tcp', 'panda_link4'), {}),
    'tips in one body': ('panda', 'panda_link0', ('panda_hand_tcp', 'panda_link7'), {}),
    'panda with its fingers': ('panda', 'panda_link0', ('panda_leftfinger', 'panda_link8'),
                               {'free': ['panda_finger_joint1']}),
    'baxter, both arms': ('baxter_description/urdf/baxter.urdf', 'torso',
                          ('left_gripper', 'right_gripper'), {}),
    'tiago, hand and camera': ('tiago_description/robots/tiago_no_hand.urdf', 'base_link',
                               ('arm_tool_link', 'head_2_link'), {}),
    'talos, floating': (TALOS, 'base_link', LIMBS, {'floating_base': True}),
    'talos, both hands, legs free': (TALOS, 'base_link', LIMBS[:2],
                                     {'floating_base': True, 'free': ['leg_left_6_joint']}),
    'anymal, floating': ('anymal_b_simple_description/robots/anymal.urdf', 'base',
                         ('LF_FOOT', 'RF_FOOT', 'LH_FOOT', 'RH_FOOT'), {'floating_base': True}),
}


@cache
def tree(name):
    urdf, base, tips, options = CASES[name]
    text = SHIPPED_PANDA.read_text() if urdf == 'panda' else urdf_texts()[urdf]
    return Robot.from_urdf(text, base, tips, **options), Judge(text, *CASES[name][1:])


class Judge:
    """
    Pinocchio model of a whole robot; all joints that do not move in the Robot are locked.

    Pinocchio expresses the velocity of a floating joint in the axes of the body; osc_ros expresses
    its linear part in the axes of the parent.

    """

    def __init__(self, text, base, tips, options):
        robot = Robot.from_urdf(text, base, tips, **options)
        self.floats = options.get('floating_base', False)
        model = (pin.buildModelFromXML(text, pin.JointModelFreeFlyer()) if self.floats
                 else pin.buildModelFromXML(text))
        moving = set(robot.joint_names)
        held = [i for i in range(1, model.njoints)
                if model.names[i] not in moving and model.names[i] != 'root_joint']
        model = pin.buildReducedModel(
            model, held, held_configuration(model, text, moving, {}))
        T = model.frames[model.getFrameId(base, pin.FrameType.BODY)]
        self.T_base_world = (pin.SE3.Identity() if self.floats else T.placement.inverse())
        self.model, self.data = model, model.createData()
        self.frames = [model.getFrameId(tip, pin.FrameType.BODY) for tip in tips]
        joint_of = dict(zip(robot.joints, range(len(robot.joints))))  # last body of each joint
        ids = [joint_of['floating_base' if name == 'root_joint' else name]
               for name in list(model.names)[1:]]
        self.v, self.q = [], []
        for i in ids:
            wide = robot.spherical[i]  # floating: three prismatic freedoms before the ball joint
            self.v += range(robot.v_index[i] - 3 * wide, robot.v_index[i] + 1 + 2 * wide)
            self.q += range(robot.q_index[i] - 3 * wide, robot.q_index[i] + 1 + 3 * wide)
        assert sorted(self.v) == list(range(robot.n))

    def position(self, q):
        full, at = np.empty(self.model.nq), 0
        for joint in self.model.joints[1:]:
            if joint.nq == 2:
                angle = q[self.q[at]]
                full[joint.idx_q:joint.idx_q + 2] = np.cos(angle), np.sin(angle)
                at += 1
            else:
                full[joint.idx_q:joint.idx_q + joint.nq] = q[self.q[at:at + joint.nq]]
                at += joint.nq
        if self.floats:
            full[3:7] /= np.linalg.norm(full[3:7])
        return full

    def change(self, q, qd):
        """Return E and Ė q̇; E q̇ is Pinocchio's velocity v."""
        E, more = np.eye(self.model.nv)[:, np.argsort(self.v)], np.zeros(self.model.nv)
        if self.floats:
            R = pin.XYZQUATToSE3(self.position(q)[:7]).rotation
            E[:3] = R.T @ E[:3]
            v = E @ qd
            more[:3] = -np.cross(v[3:6], v[:3])
        return E, more

    def terms(self, q, qd):
        """Return M, h, J, J̇q̇, poses and twists, in the coordinates of osc_ros."""
        model, data, full = self.model, self.data, self.position(q)
        E, more = self.change(q, qd)
        model.gravity.linear = self.T_base_world.rotation.T @ [0.0, 0.0, -9.81]
        M = np.triu(pin.crba(model, data, full))
        M += np.triu(M, 1).T
        h = pin.rnea(model, data, full, E @ qd, more)
        J = [self.turned(pin.computeFrameJacobian(
            model, data, full, frame, pin.LOCAL_WORLD_ALIGNED)) for frame in self.frames]
        pin.forwardKinematics(model, data, full, E @ qd, more)
        pin.updateFramePlacements(model, data)
        Jdot_qd = [self.turned(pin.getFrameClassicalAcceleration(
            model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector) for frame in self.frames]
        poses = [(self.T_base_world * data.oMf[frame]).homogeneous for frame in self.frames]
        return (E.T @ M @ E, E.T @ h, np.vstack(J) @ E, np.concatenate(Jdot_qd),
                np.array(poses))

    def turned(self, x):
        """Return [linear; angular] in world axes as [angular; linear] in base axes."""
        R = self.T_base_world.rotation
        return np.kron(np.eye(2), R) @ np.asarray(x)[SWAP]


def states(robot, count=5):
    rng = np.random.default_rng(robot.n)
    for _ in range(count):
        yield rng.uniform(-1.0, 1.0, robot.nq), rng.normal(size=robot.n)


def far(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize('method', TREE_METHODS)
@pytest.mark.parametrize('name', CASES)
def test_every_term_of_a_tree_is_pinocchios(name, method):
    robot, judge = tree(name)
    osc = OperationalSpace(robot, method)
    for q, qd in states(robot):
        M, h, J, Jdot_qd, poses = judge.terms(q, qd)
        found = osc.evaluate(q, qd)
        Lambda_inv = J @ np.linalg.solve(M, J.T)
        assert far(found.Lambda_inv, Lambda_inv) < AGREEMENT
        assert far(found.J, J) < AGREEMENT
        assert far(found.Jdot_qd, Jdot_qd) < AGREEMENT
        assert far(found.h, h) < AGREEMENT
        assert far(found.pose, poses) < AGREEMENT
        assert far(found.twist, J @ qd) < AGREEMENT
        np.testing.assert_array_equal(found.Lambda_inv, found.Lambda_inv.T)


@pytest.mark.parametrize('method', TREE_METHODS)
@pytest.mark.parametrize('name', CASES)
def test_accelerations_of_all_tips_are_met(name, method):
    robot, judge = tree(name)
    osc = OperationalSpace(robot, method)
    rng = np.random.default_rng(1)
    for q, qd in states(robot):
        M, h, J, Jdot_qd, _ = judge.terms(q, qd)
        # an acceleration that the tips can reach, although they share joints or have too few
        u = J @ rng.normal(size=robot.n) + Jdot_qd
        for given in ({}, {'tau_null': rng.normal(size=robot.n)},
                      {'posture_acceleration': rng.normal(size=robot.n)},
                      {'tau_null': rng.normal(size=robot.n),
                       'posture_acceleration': rng.normal(size=robot.n)}):
            qdd = np.linalg.solve(M, osc.torque(q, qd, u, **given) - h)
            a0 = Jdot_qd - J @ np.linalg.solve(M, h)
            scale = max(np.abs(u).max(), np.abs(a0).max())
            values, directions = np.linalg.eigh(J @ np.linalg.solve(M, J.T))
            moved = directions[:, values > 1e-6 * values[-1]]
            scale *= max(1.0, 1e-4 * values[-1] / values[values > 1e-6 * values[-1]][0])
            assert np.abs(moved.T @ (J @ qdd + Jdot_qd - u)).max() < COMMAND_MET * scale
        tau, F = rng.normal(size=robot.n), rng.normal(size=len(u))
        qdd = np.linalg.solve(M, tau + J.T @ F - h)
        assert far(osc.forward_dynamics(q, qd, tau, F), qdd) < COMMAND_MET
        assert far(osc.apply_M_inv(q, tau), np.linalg.solve(M, tau)) < COMMAND_MET


@pytest.mark.parametrize('name', CASES)
def test_inverse_dynamics_and_the_response_to_forces_at_the_tips_are_pinocchios(name):
    robot, judge = tree(name)
    dynamics, rng = Articulated(robot), np.random.default_rng(2)
    for q, qd in states(robot):
        M, h, J, _, _ = judge.terms(q, qd)
        qdd, tau, F = *rng.normal(size=(2, robot.n)), rng.normal(size=len(J))
        assert far(dynamics.inverse_dynamics(q, qd, qdd), M @ qdd + h) < AGREEMENT
        assert far(dynamics.response(q, tau, F), np.linalg.solve(M, tau + J.T @ F)) < COMMAND_MET


@pytest.mark.parametrize('method', TREE_METHODS)
def test_null_space_torque_moves_no_tip(method):
    robot, judge = tree('baxter, both arms')
    osc = OperationalSpace(robot, method)
    for q, qd in states(robot):
        M, h, J, Jdot_qd, _ = judge.terms(q, qd)
        state, tau = osc.evaluate(q, qd), np.arange(robot.n) - 6.5
        a = J @ np.linalg.solve(M, state.N.T @ tau)
        assert np.abs(a).max() < NO_EFFECT * np.abs(J @ np.linalg.solve(M, tau)).max()


@pytest.mark.parametrize('method', TREE_METHODS)
def test_order_of_the_tips_is_the_order_of_the_blocks(method):
    robot, _ = tree('talos, floating')
    order = [2, 0, 3, 1]
    blocks = np.concatenate([np.arange(6) + 6 * k for k in order])
    one = OperationalSpace(robot, method)
    other = OperationalSpace(robot, method, tips=[robot.tips[k] for k in order])
    for q, qd in states(robot, 2):
        expected, found = one.evaluate(q, qd), other.evaluate(q, qd)
        assert far(found.Lambda_inv, expected.Lambda_inv[np.ix_(blocks, blocks)]) < AGREEMENT
        assert far(found.J, expected.J[blocks]) < AGREEMENT
        assert far(found.pose, expected.pose[order]) < AGREEMENT


@pytest.mark.parametrize('method', TREE_METHODS)
def test_arms_on_a_fixed_base_do_not_affect_each_other_and_on_a_floating_base_they_do(method):
    both, _ = tree('baxter, both arms')
    q, qd = next(states(both))
    cross = OperationalSpace(both, method).evaluate(q, qd).Lambda_inv[:6, 6:]
    np.testing.assert_array_equal(cross, np.zeros((6, 6)))
    floating, _ = tree('talos, floating')
    q, qd = next(states(floating))
    cross = OperationalSpace(floating, method).evaluate(q, qd).Lambda_inv[:6, 6:12]
    assert np.abs(cross).max() > 1e-4


@pytest.mark.parametrize('method', TREE_METHODS)
def test_one_tip_of_a_tree_is_a_chain(method):
    both, _ = tree('baxter, both arms')
    text = urdf_texts()['baxter_description/urdf/baxter.urdf']
    chain = Robot.from_urdf(text, 'torso', 'right_gripper')
    own = [both.joint_names.index(joint) for joint in chain.joint_names]
    q, qd = next(states(both))
    osc = OperationalSpace(both, method, tips=['right_gripper'])
    found, expected = osc.evaluate(q, qd), OperationalSpace(chain).evaluate(q[own], qd[own])
    assert found.pose.shape == (4, 4)
    assert far(found.Lambda, expected.Lambda) < AGREEMENT
    assert far(found.h[own], expected.h) < AGREEMENT


@pytest.mark.slow  # quick: test_batch_is_every_state_by_itself of test_contract.py
@pytest.mark.parametrize('method', TREE_METHODS)
def test_a_batch_of_states_of_a_tree_is_what_one_by_one_gives(method):
    robot, _ = tree('anymal, floating')
    osc = OperationalSpace(robot, method)
    q, qd = (np.array(x) for x in zip(*states(robot, 5)))
    batch = osc.evaluate_batch(q, qd)
    assert batch.pose.shape == (5, 4, 4, 4)
    for k in range(5):
        one = osc.evaluate(q[k], qd[k])
        for term in ('pose', 'twist', 'J', 'Jdot_qd', 'h', 'Lambda_inv', 'Lambda'):
            assert far(getattr(batch, term)[k], getattr(one, term)) < LANES_AGREEMENT


def test_length_of_a_quaternion_does_not_change_the_terms():
    robot, _ = tree('anymal, floating')
    osc = OperationalSpace(robot)
    q, qd = next(states(robot))
    expected = osc.evaluate(q, qd).Lambda_inv
    q[3:7] *= -2.5
    assert far(osc.evaluate(q, qd).Lambda_inv, expected) < AGREEMENT
    q[3:7] = 0.0
    zero = naming('q[3:7]', "'floating_base'", [0.0] * 4)
    for refused in (lambda: osc.evaluate(q, qd), lambda: osc.torque(q, qd, np.zeros(24)),
                    lambda: osc.outward(q, qd), lambda: osc.apply_M_inv(q, qd),
                    lambda: osc.forward_dynamics(q, qd, qd)):
        with pytest.raises(InputError, match=zero):
            refused()
    with pytest.raises(InputError, match='state 1.*quaternion'):
        osc.evaluate_batch([robot.neutral, q], [qd, qd])


def test_several_tips_go_with_the_methods_that_take_them():
    robot, _ = tree('baxter, both arms')
    assert OperationalSpace(robot).method == 'efpa'
    assert OperationalSpace(robot, tips=['left_gripper']).method == 'recursive'
    for method in ONE_TIP:
        with pytest.raises(InputError, match=f"'{method}' .* 2 .*recursive, efpa"):
            OperationalSpace(robot, method)
    with pytest.raises(ModelError, match="tip 'left_griper'.*'left_g"):
        OperationalSpace(robot, tips=['left_griper', 'right_gripper'])
    with pytest.raises(InputError, match=r'u .*\(6,\).*(give|must be).*\(12,\)'):
        OperationalSpace(robot).torque(np.zeros(14), np.zeros(14), np.zeros(6))


@pytest.mark.parametrize('method', METHODS)
def test_halves_of_the_law_are_refused_without_the_first_and_into_other_arrays(method):
    robot, _ = tree('baxter, both arms')
    osc = OperationalSpace(robot, method, tips=['left_gripper'])
    q = np.full(14, 0.3)
    for call in (lambda: None, lambda: osc.torque(q, q, np.zeros(6)),
                 lambda: osc.apply_M_inv(q, q), lambda: osc.forward_dynamics(q, q, q)):
        call()
        for half in (lambda: osc.inward(np.zeros(6)), osc.jacobian):
            with pytest.raises(InputError, match='outward'):
                half()
    osc.outward(q, q)
    for out in (np.zeros((1, 1)), np.zeros((14, 6)), np.zeros((6, 14), order='F'),
                np.zeros((6, 14), dtype=np.float32)):
        with pytest.raises(InputError, match=r'out .*\(6, 14\)'):
            osc.jacobian(out=out)
    huge = np.full(14, 1e308)
    for result in (lambda: osc.apply_M_inv(q, huge), lambda: osc.apply_Lambda_inv(q, huge[:6]),
                   lambda: osc.apply_Lambda(q, huge[:6])):
        with pytest.raises(InputError, match='not finite'):
            result()


def test_arguments_that_are_no_names_are_refused():
    text = SHIPPED_PANDA.read_text()
    for tip in (None, 3, [3], []):
        with pytest.raises(ModelError, match='tip .*(give|must be)'):
            Robot.from_urdf(text, 'panda_link0', tip)
    for free in (1, None, [['x']], 'panda_finger_joint1'):
        with pytest.raises(ModelError, match='free .*(give|must be).*True.*Fal'):
            Robot.from_urdf(text, 'panda_link0', 'panda_link8', free=free)
    with pytest.raises(ModelError, match="floating_base .*'no'.*(give|must be).*True.*False"):
        Robot.from_urdf(text, 'panda_link0', 'panda_link8', floating_base='no')
    with pytest.raises(ModelError, match="'floating_base'.*URDF"):
        Robot.from_urdf(text.replace('panda_joint1', 'floating_base'), 'panda_link0',
                        'panda_link8', floating_base=True)
    with pytest.raises(InputError, match='robot .*str.*(give|must be).*Robot'):
        OperationalSpace(text)
    with pytest.raises(InputError, match='known: sweep, '):
        OperationalSpace(tree('baxter, both arms')[0], method=['efpa'])


def test_rotors_of_a_joint_with_several_freedoms_are_told_one_by_one():
    text = SHIPPED_PANDA.read_text()

    def floating(inertia):
        return Robot.from_urdf(text, 'panda_link0', 'panda_link8', floating_base=True,
                               rotor_inertia={'floating_base': inertia})

    np.testing.assert_array_equal(floating([1, 2, 3, 4, 5, 6]).rotor_inertia[:7],
                                  [1, 2, 3, 4, 5, 6, 0])
    with pytest.raises(ModelError, match=r"'floating_base'.*\(\).*\(6,\)"):
        floating(0.5)


def test_two_hands_follow_two_targets_in_mujoco():
    urdf, base, tips, _ = CASES['baxter, both arms']
    robot, _ = tree('baxter, both arms')
    osc = OperationalSpace(robot)
    plant = Plant(urdf_texts()[urdf], base, robot.joint_names, effort_limits=[1e3] * 14,
                  damping=[0.0] * 14, friction=[0.0] * 14)
    bent = {'s0': 0.2, 's1': -0.5, 'e0': 0.3, 'e1': 1.4, 'w0': 0.1, 'w1': 0.9, 'w2': 0.2}
    q = np.array([bent[joint.split('_')[1]] for joint in robot.joint_names])
    plant.reset(q)
    gains = Gains([20.0] * 6, [1.0] * 6, [2.5, 1.0], [60.0, 20.0])
    targets = [Target(pose.copy()) for pose in osc.evaluate(q, np.zeros(14)).pose]
    targets[0].pose[:3, 3] += [0.05, 0.02, 0.05]
    targets[1].pose[:3, 3] += [-0.05, 0.05, -0.03]
    rest = np.zeros(14)
    for _ in range(1000):
        q, qd = plant.q, plant.qd
        at = osc.outward(q, qd, posture_acceleration=rest)
        u = np.concatenate([
            task_acceleration(pose_error(pose, target.pose), twist, target, gains)
            for pose, twist, target in zip(at.pose, at.twist.reshape(2, 6), targets)])
        plant.step(osc.torque(q, qd, u, posture_acceleration=-4.0 * qd))
    for tip, target in zip(tips, targets):
        assert np.abs(pose_error(plant.pose(tip), target.pose)).max() < DUAL_ARM_TRACKING
