# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The simulated arm compared with Pinocchio and with closed-form physics."""

import os
from pathlib import Path
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest

from judge import robot_cases
import osc_ros
from osc_ros.errors import InputError, ModelError
from osc_ros.sim import Plant
from tolerances import PLANT_ACCELERATION, PLANT_ENERGY_DRIFT, PLANT_POSE, PLANT_STOP
from variants import first_quick

pin = pytest.importorskip('pinocchio')

PANDA_JOINTS = [f'panda_joint{i}' for i in range(1, 8)]
PANDA_FINGERS = {'panda_finger_joint1': 0.02, 'panda_finger_joint2': 0.02}
PANDA_HOME = [0.3, -0.5, 0.2, -1.8, 0.4, 1.5, 0.3]
UR5_JOINTS = ['shoulder_pan_joint', 'shoulder_lift_joint', 'elbow_joint',
              'wrist_1_joint', 'wrist_2_joint', 'wrist_3_joint']

INERTIAL = ('<inertial><origin xyz="0.02 -0.01 0.05" rpy="0.3 0.2 -0.1"/><mass value="1.5"/>'
            '<inertia ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001" ixz="-0.002" iyz="0.003"/>'
            '</inertial>')
LIMIT = '<limit lower="-1" upper="1" effort="5" velocity="1"/>'


def link(name, inertial=INERTIAL):
    return f'<link name="{name}">{inertial}</link>'


def joint(name, parent, child, kind='revolute', axis='0 0 1', rpy='0 0 0', more=LIMIT):
    return (f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="0.1 0.2 0.3" rpy="{rpy}"/><axis xyz="{axis}"/>{more}</joint>')


def robot(*parts):
    return f'<robot name="test">{"".join(parts)}</robot>'


def slider(more=LIMIT):
    """Return the URDF of a mass of 1.5 kg on a rail along x, at a right angle to gravity."""
    return robot(link('rail'), link('mass'),
                 joint('slide', 'rail', 'mass', 'prismatic', '1 0 0', more=more))


CHAIN = robot(
    link('root'), link('base'), link('a'), link('b'), link('c'), link('d'), link('e'), link('tip'),
    joint('mount', 'root', 'base', 'fixed', rpy='0.4 -0.7 1.1'),
    joint('spin', 'base', 'a', 'continuous', '1 2 -1', '0.1 0.2 0.3'),
    joint('lift', 'a', 'b', 'prismatic', '0 -3 4', '0.5 0 -0.4'),
    joint('bend', 'b', 'c', 'revolute', '-1 0 1', '-0.2 0.9 0'),
    joint('reach', 'c', 'd', 'prismatic', '1 1 1', '0 0 2'),
    joint('roll', 'd', 'e', 'revolute', '0.6 0 0.8', '1.2 0.3 0'),
    joint('flange', 'e', 'tip', 'fixed', rpy='0 1.5707963267948966 0.2'))


def example(path):
    for place in sys.path:
        found = Path(place, 'cmeel.prefix/share/example-robot-data/robots', path)
        if found.is_file():
            return found.read_text()
    pytest.skip('example-robot-data is not installed')


class Judge:
    """Pinocchio model of the same arm, with the joints in the plant's order."""

    def __init__(self, text, base, joint_names, locked=None, rotor_inertia=0.0,
                 gravity=(0.0, 0.0, -9.81)):
        full = pin.buildModelFromXML(text)
        lock = np.zeros(full.nv)
        for name, value in (locked or {}).items():
            lock[full.joints[full.getJointId(name)].idx_v] = value
        still = [i for i in range(1, full.njoints) if full.names[i] not in joint_names]
        reference = pin.integrate(full, pin.neutral(full), lock)
        self.model = pin.buildReducedModel(full, still, reference)
        self.at = [self.model.joints[self.model.getJointId(name)].idx_v for name in joint_names]
        armature = np.zeros(self.model.nv)
        armature[self.at] = rotor_inertia
        self.model.armature = armature
        self.data = self.model.createData()
        self.base = self.model.getFrameId(base, pin.FrameType.BODY)
        pin.framesForwardKinematics(self.model, self.data, pin.neutral(self.model))
        self.model.gravity.linear = self.data.oMf[self.base].rotation @ gravity

    def _state(self, *vectors):
        q, *rest = (np.zeros(self.model.nv) for _ in vectors)
        for ours, theirs in zip(vectors, (q, *rest)):
            theirs[self.at] = ours
        return pin.integrate(self.model, pin.neutral(self.model), q), *rest

    def acceleration(self, q, qd, tau):
        return pin.aba(self.model, self.data, *self._state(q, qd, tau))[self.at]

    def pose(self, q, name):
        pin.framesForwardKinematics(self.model, self.data, *self._state(q))
        frame = self.model.getFrameId(name, pin.FrameType.BODY)
        return (self.data.oMf[self.base].inverse() * self.data.oMf[frame]).homogeneous

    def links(self):
        return [frame.name for frame in self.model.frames
                if frame.type == pin.FrameType.BODY and frame.name != 'universe']

    def energy(self, q, qd):
        """Return the kinetic and the potential energy [J], rotors included."""
        q, qd = self._state(q, qd)
        M = pin.crba(self.model, self.data, q)
        M = np.triu(M) + np.triu(M, 1).T
        return 0.5 * qd @ M @ qd, pin.computePotentialEnergy(self.model, self.data, q)


ARMS = {
    'panda': ('panda_description/urdf/panda.urdf', 'panda_link0', PANDA_JOINTS, PANDA_FINGERS),
    'ur5': ('ur_description/urdf/ur5_robot.urdf', 'base_link', UR5_JOINTS, {}),
    'panda above a locked shoulder': (
        'panda_description/urdf/panda.urdf', 'panda_link2', PANDA_JOINTS[2:],
        {**PANDA_FINGERS, 'panda_joint1': 0.7, 'panda_joint2': -0.9}),
    'chain of every type, shuffled': (
        CHAIN, 'base', ['roll', 'spin', 'lift', 'bend', 'reach'], {}),
    'chain with three locked': (
        CHAIN, 'base', ['reach', 'spin'], {'lift': 0.3, 'bend': -0.8, 'roll': 0.5}),
}


@pytest.fixture(params=ARMS)
def arm(request):
    """Return a frictionless plant with rotors, its Judge, and a generator of random states."""
    source, base, names, locked = ARMS[request.param]
    text = source if source.startswith('<') else example(source)
    rng = np.random.default_rng(7)
    rotors = rng.uniform(0.0, 0.2, len(names))
    zeros = np.zeros(len(names))
    plant = Plant(text, base, names, locked, rotor_inertia=rotors, damping=zeros, friction=zeros,
                  effort_limits=zeros)
    lower, upper = np.clip(plant._position_limits, -2.0, 2.0).T

    def states(count):
        for _ in range(count):
            q = rng.uniform(lower, upper)
            qd, tau = rng.uniform(-2.0, 2.0, plant.n), rng.uniform(-20.0, 20.0, plant.n)
            plant.reset(q, qd)
            yield q, qd, tau

    return plant, Judge(text, base, names, locked, rotors), states


def panda(**options):
    text = example('panda_description/urdf/panda.urdf')
    options = {'damping': np.zeros(7), 'friction': np.zeros(7), 'locked': PANDA_FINGERS, **options}
    plant = Plant(text, 'panda_link0', PANDA_JOINTS, **options)
    plant.reset(PANDA_HOME)
    return plant


def error(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def test_free_acceleration_is_that_of_the_articulated_body_algorithm(arm):
    plant, judge, states = arm
    for q, qd, tau in states(10):
        assert error(plant.acceleration(tau), judge.acceleration(q, qd, tau)) < PLANT_ACCELERATION


def test_every_link_is_where_pinocchio_puts_it(arm):
    plant, judge, states = arm
    for q, _, _ in states(3):
        for name in judge.links():
            assert np.abs(plant.pose(name) - judge.pose(q, name)).max() < PLANT_POSE


def test_gravity_is_given_in_the_frame_of_the_base():
    names, gravity = ['spin', 'lift', 'bend', 'reach', 'roll'], np.array([1.0, -2.0, 3.0])
    plant = Plant(CHAIN, 'base', names, gravity=gravity)
    judge = Judge(CHAIN, 'base', names, gravity=gravity)
    q, zero = np.full(5, 0.4), np.zeros(5)
    plant.reset(q)
    assert error(plant.acceleration(zero), judge.acceleration(q, zero, zero)) < PLANT_ACCELERATION


def test_damping_and_dry_friction_oppose_the_motion_as_specified():
    damping, friction = np.linspace(0.1, 2.0, 7), np.linspace(0.05, 0.5, 7)
    rotors = np.full(7, 0.1)
    plant = panda(damping=damping, friction=friction, rotor_inertia=rotors)
    judge = Judge(example('panda_description/urdf/panda.urdf'), 'panda_link0', PANDA_JOINTS,
                  PANDA_FINGERS, rotors)
    qd = np.array([1.0, -0.5, 0.7, -1.2, 0.4, -0.9, 1.5])
    tau = np.linspace(-10.0, 10.0, 7)
    plant.reset(PANDA_HOME, qd)
    expected = judge.acceleration(PANDA_HOME, qd, tau - damping * qd - friction * np.sign(qd))
    assert error(plant.acceleration(tau), expected) < PLANT_ACCELERATION


def test_the_description_gives_damping_and_friction_unless_they_are_given():
    text = slider(LIMIT + '<dynamics damping="3" friction="0.5"/>')
    plant, overruled = Plant(text, 'rail', ['slide']), Plant(text, 'rail', ['slide'],
                                                             damping={'slide': 1.0}, friction=[0])
    for arm, force in ((plant, 4.0 - 3.0 * 0.2 - 0.5), (overruled, 4.0 - 1.0 * 0.2)):
        arm.reset([0.0], [0.2])
        assert arm.acceleration([4.0])[0] == pytest.approx(force / 1.5, rel=PLANT_ACCELERATION)


def test_a_damped_mass_slows_down_by_the_implicit_step():
    plant = Plant(slider(), 'rail', ['slide'], damping=[3.0], timestep=2e-3)
    plant.reset([0.0], [0.5])
    plant.step([0.0], steps=100)
    assert plant.qd[0] == pytest.approx(0.5 / (1.0 + 2e-3 * 3.0 / 1.5) ** 100, rel=1e-12)
    assert plant.time == pytest.approx(0.2)


def test_damping_too_strong_for_an_explicit_step_stays_stable():
    plant = panda(damping=np.full(7, 100.0))
    plant.step(np.zeros(7), steps=2000)
    assert np.abs(plant.qd).max() < 1.0


def test_dry_friction_holds_what_is_below_it_and_no_more():
    plant = Plant(slider(), 'rail', ['slide'], friction=[2.0])
    plant.step([1.9], steps=1000)
    assert abs(plant.q[0]) < PLANT_STOP
    plant.reset([0.0])
    plant.step([2.3], steps=1000)
    assert plant.qd[0] == pytest.approx((2.3 - 2.0) / 1.5, rel=1e-2)


def energy_drift(timestep):
    """Return largest energy change / largest kinetic energy in a free fall of 1 s."""
    rotors = np.full(7, 0.1)
    plant = panda(rotor_inertia=rotors, timestep=timestep)
    plant.model.jnt_limited[:] = False  # a stop dissipates energy
    judge = Judge(example('panda_description/urdf/panda.urdf'), 'panda_link0', PANDA_JOINTS,
                  PANDA_FINGERS, rotors)
    energies = [judge.energy(plant.q, plant.qd)]
    while plant.time < 1.0 - timestep:
        plant.step(np.zeros(7), steps=5)
        energies.append(judge.energy(plant.q, plant.qd))
    kinetic, total = np.array(energies)[:, 0], np.sum(energies, axis=1)
    return np.abs(total - total[0]).max() / kinetic.max()


def test_energy_is_kept_to_first_order_in_the_time_step():
    coarse, fine = energy_drift(1e-3), energy_drift(2.5e-4)
    assert coarse < PLANT_ENERGY_DRIFT
    assert fine < 0.3 * coarse


def test_torque_is_clipped_at_the_limits():
    plant, at_limit = panda(), panda()
    limits = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
    plant.step(10.0 * limits, steps=20)
    at_limit.step(limits, steps=20)
    np.testing.assert_array_equal(plant.q, at_limit.q)
    np.testing.assert_array_equal(plant.measured()[2], limits)


@pytest.mark.parametrize('limits', [[0.0], {'slide': 0.0}, None])
def test_a_limit_of_zero_or_none_leaves_the_torque_alone(limits):
    plant = Plant(slider('<limit lower="-1" upper="1"/>' if limits is None else LIMIT),
                  'rail', ['slide'], effort_limits=limits)
    plant.step([60.0])
    assert plant.qd[0] == pytest.approx(60.0 / 1.5 * 1e-3)


@pytest.mark.parametrize('push', [-5.0, 5.0])
def test_a_stop_is_overshot_by_one_step_at_most_and_then_holds(push):
    plant = Plant(slider(), 'rail', ['slide'])
    reached, speed = 0.0, 0.0
    for _ in range(3000):
        speed = max(speed, abs(plant.qd[0]))
        plant.step([push])
        reached = max(reached, abs(plant.q[0]))
    assert reached - 1.0 < speed * 1e-3 + PLANT_STOP
    assert abs(plant.q[0] - np.sign(push)) < PLANT_STOP
    assert abs(plant.qd[0]) < PLANT_STOP


def test_a_continuous_joint_has_no_stops():
    text = robot(link('a'), link('b'), joint('spin', 'a', 'b', 'continuous'))
    plant = Plant(text, 'a', ['spin'])
    plant.reset([100.0], [0.0])
    plant.step([5.0], steps=2000)
    assert plant.q[0] > 200.0


def test_a_mimic_joint_follows_its_locked_source():
    follow = '<mimic joint="source" multiplier="-2" offset="1"/>'
    text = robot(link('a'), link('b'), link('c'), link('d'), joint('move', 'a', 'b'),
                 joint('source', 'b', 'c'), joint('copy', 'c', 'd', more=follow))
    mimic = Plant(text, 'a', ['move'], locked={'source': 0.3})
    same = Plant(text, 'a', ['move'], locked={'source': 0.3, 'copy': 0.4})
    other = Plant(text, 'a', ['move'], locked={'source': 0.3, 'copy': 0.0})
    assert np.abs(mimic.pose('d') - same.pose('d')).max() < PLANT_POSE
    assert np.abs(mimic.pose('d') - other.pose('d')).max() > 0.1


def test_the_same_seed_gives_the_same_noise_and_another_seed_another():
    def readings(seed):
        plant = panda(position_noise=1e-3, velocity_noise=1e-2, seed=seed)
        return np.array([plant.measured()[:2] for _ in range(2000)])

    first = readings(1)
    np.testing.assert_array_equal(first, readings(1))
    assert not np.any(first == readings(2))
    deviation = (first - np.array([PANDA_HOME, np.zeros(7)])).std(axis=(0, 2))
    np.testing.assert_allclose(deviation, [1e-3, 1e-2], rtol=0.05)


def test_without_noise_the_measured_state_is_the_true_one():
    plant = panda()
    plant.step(np.ones(7), steps=3)
    q, qd, tau = plant.measured()
    np.testing.assert_array_equal([q, qd, tau], [plant.q, plant.qd, np.ones(7)])


def test_many_steps_at_once_are_many_single_steps():
    together, apart = panda(friction=np.full(7, 0.3)), panda(friction=np.full(7, 0.3))
    together.step(np.ones(7), steps=50)
    for _ in range(50):
        apart.step(np.ones(7))
    np.testing.assert_array_equal(together.q, apart.q)


def test_reading_the_plant_does_not_change_its_motion():
    asked, left_alone = panda(friction=np.full(7, 0.3)), panda(friction=np.full(7, 0.3))
    for _ in range(20):
        asked.acceleration(np.full(7, 5.0))
        asked.pose('panda_hand_tcp')
        asked.q[:] = asked.qd[:] = 9.0
        for plant in (asked, left_alone):
            plant.step(np.ones(7))
    np.testing.assert_array_equal(asked.q, left_alone.q)


def test_reset_starts_the_same_motion_again():
    plant = panda(friction=np.full(7, 0.3))
    ends = []
    for _ in range(2):
        plant.reset(PANDA_HOME, np.full(7, 0.1))
        assert plant.time == 0.0
        plant.step(np.ones(7), steps=100)
        ends.append(plant.q)
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize('tau', [np.ones(6), np.ones((7, 1)), 1.0, [np.nan] * 7, [np.inf] * 7,
                                 None, ['a'] * 7])
def test_a_refused_torque_changes_nothing(tau):
    plant, untouched = panda(), panda()
    for arm in (plant, untouched):
        arm.step(np.ones(7))
    with pytest.raises(InputError, match='^tau .*(give|must be).* 7 '):
        plant.step(tau)
    assert plant.time == untouched.time
    for found, expected in zip(plant.measured(), untouched.measured()):
        np.testing.assert_array_equal(found, expected)


def test_a_divergence_is_reported_and_reset_recovers_from_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warning to a file in the working directory
    plant = Plant(slider(), 'rail', ['slide'], effort_limits=[0.0])
    with pytest.raises(InputError, match='diverged.*reset'):
        plant.step([1e300])
    plant.reset([0.0])
    plant.step([1.5])
    assert plant.qd[0] == pytest.approx(1e-3)


@pytest.mark.parametrize('call, message', [
    (lambda p: p.reset([0, 0, 0, 0, 0, 0, 0]), "'panda_joint4' .*0.0; must be -3.07"),
    (lambda p: p.reset([9] + PANDA_HOME[1:]), "'panda_joint1' .*9.0; must be -2.89.* to 2.89"),
    (lambda p: p.reset(PANDA_HOME, [1.0]), r'qd .*\[1.0\]; must be 7'),
    (lambda p: p.pose('panda_hnd'), "'panda_hnd'; give one of panda_hand"),
    (lambda p: p.step(np.zeros(7), 0), 'steps .*0; must be 1'),
])
def test_a_call_that_cannot_be_served_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(panda())


@pytest.mark.parametrize('changes, message', [
    ({'base': 'panda_link'}, "'panda_link'; give one of panda_link"),
    ({'base': 'panda_link3'}, "'panda_joint3' .*base 'panda_link3'"),
    ({'joint_names': ['panda_joint9']}, "'panda_joint9'; give one of panda_joint"),
    ({'joint_names': []}, 'at least one'),
    ({'joint_names': ['panda_joint1'] * 2}, 'joint once'),
    ({'locked': {'panda_joint1': 0.0}}, 'joint once'),
    ({'locked': {'finger': 0.0}}, "'finger'"),
    ({'locked': {'panda_finger_joint1': np.nan}}, "'panda_finger_joint1' .*nan"),
    ({'rotor_inertia': [1.0]}, 'rotor inertia.*must be 7'),
    ({'rotor_inertia': {'joint1': 1.0}}, "'joint1'; give one of panda_joint1"),
    ({'damping': {'panda_joint3': -1.0}}, "damping .*'panda_joint3' .*-1.0; must be 0"),
    ({'friction': {'panda_joint2': np.inf}}, 'friction.*must be 7'),
    ({'effort_limits': [-1.0] * 7}, "effort .*'panda_joint1' .*-1.0; must be 0"),
    ({'velocity_noise': -1.0}, "'velocity_noise' .*-1.0"),
    ({'timestep': 0.0}, 'timestep .*0.0; must be .*> 0'),
    ({'wall': 0.4}, r'wall .*\(4, 4\)'),
    ({'wall': np.ones((4, 4))}, 'wall has the last row'),
    ({'ball': 0.05}, 'ball is 0.05: give a link and a radius'),
    ({'gravity': (0.0, 9.81)}, r'gravity .*\(0.0, 9.81\); must be 3'),
])
def test_an_argument_that_cannot_be_used_is_refused(changes, message):
    text = example('panda_description/urdf/panda.urdf')
    with pytest.raises(InputError, match=message):
        Plant(text, **{'base': 'panda_link0', 'joint_names': PANDA_JOINTS, **changes})


ARM = [link('r'), link('a'), joint('ra', 'r', 'a')]


@pytest.mark.parametrize('text, message', [
    ('<robot', 'not XML'),
    (robot(*ARM, link('b')), r"2 root.*\['b', 'r'\]; must be one"),
    (robot(*ARM, joint('ra', 'r', 'a')), "'ra' .*repeated"),
    (robot(*ARM, joint('rb', 'r', 'b')), "'rb': .*missing"),
    (robot(*ARM, link('b'), link('c'), joint('bc', 'b', 'c'), joint('cb', 'c', 'b')),
     "'cb': .*not found"),
    (robot(*ARM, joint('second', 'r', 'a')), "'second': .*multiple"),
    (robot(*ARM, link('b'), joint('ab', 'a', 'b', 'hinge')), "'ab': .*joint type"),
    (robot(*ARM[:2], joint('ra', 'r', 'a', 'fixed')), "'ra' .*fixed"),
    (robot(*ARM[:2], joint('ra', 'r', 'a', 'floating')), "'ra' .*floating"),
    (robot(*ARM[:2], joint('ra', 'r', 'a', axis='0 0 0')), "'ra': .*axis"),
    (robot(*ARM[:2], joint('ra', 'r', 'a', more='<limit lower="1" upper="-1"/>')),
     "'ra': .*1.0 to -1.0; (give|must be)"),
    (robot(*ARM[:2], joint('ra', 'r', 'a', more='<limit effort="strong"/>')),
     "'ra': .*effort .*'strong'; (give|must be)"),
    (robot(*ARM[:2], joint('ra', 'r', 'a', more='<mimic joint="ra"/>')), "'ra' mimics"),
    (robot(link('r'), link('a', ''), ARM[2]), "'ra': .*mass and"),
    (robot(link('r'), link('a', INERTIAL.replace('1.5', '-1')), ARM[2]), "'ra': .*mass and"),
])
def test_a_description_that_cannot_be_used_is_refused_by_name(text, message):
    with pytest.raises(ModelError, match=message):
        Plant(text, 'r', ['ra'])


def test_links_without_mass_that_do_not_move_by_themselves_are_fine():
    text = robot(link('r', ''), *ARM[1:], link('frame', ''), joint('f', 'a', 'frame', 'fixed'))
    Plant(text, 'r', ['ra']).pose('frame')


def test_massless_links_fixed_to_each_other_between_two_joints_are_accepted():
    text = robot(link('r'), link('a', ''), link('b', ''), link('c'),
                 joint('ra', 'r', 'a', 'revolute', '0 0 1'), joint('ab', 'a', 'b', 'fixed'),
                 joint('bc', 'b', 'c', 'revolute', '0 1 0'))
    assert Plant(text, 'r', ['ra', 'bc']).q.shape == (2,)


PANDA = Path(osc_ros.__file__).parent / 'robots' / 'panda.urdf'
BOX = '<visual><origin xyz="0 0 0.1"/><geometry><box size="0.1 0.1 {}"/></geometry>{}</visual>'
MESH = '<visual><geometry><mesh filename="package://nowhere/arm.dae"/></geometry></visual>'


def test_every_shape_is_drawn_where_pinocchio_puts_it():
    names, q = PANDA_JOINTS, np.array(PANDA_HOME)
    plant = Plant(PANDA.read_text(), 'panda_link0', names, PANDA_FINGERS)
    plant.reset(q)
    model, data = plant.scene()
    full = pin.buildModelFromXML(PANDA.read_text())
    shapes = pin.buildGeomFromUrdfString(full, PANDA.read_text(), pin.GeometryType.VISUAL)
    state = pin.neutral(full)
    for name, value in {**dict(zip(names, q)), **PANDA_FINGERS}.items():
        state[full.joints[full.getJointId(name)].idx_q] = value
    placed = shapes.createData()
    pin.updateGeometryPlacements(full, full.createData(), shapes, placed, state)
    expected = sorted(tuple(T.translation) for T in placed.oMg)
    found = sorted(map(tuple, data.geom_xpos[1:]))  # geom 0 is the floor
    np.testing.assert_allclose(found, expected, atol=1e-9)
    turned = sum(np.trace(T.rotation) for T in placed.oMg)
    assert np.sum(data.geom_xmat[1:, [0, 4, 8]]) == pytest.approx(turned)


def test_visual_shapes_have_no_mass_and_no_contact():
    red = '<material name="red"><color rgba="1 0 0 1"/></material>'
    text = robot(red, link('r', BOX.format(0.2, '<material name="red"/>') + MESH),
                 link('a', INERTIAL + BOX.format(0.3, red)), joint('ra', 'r', 'a'))
    plant = Plant(text, 'r', ['ra'])
    scene, _ = plant.scene()
    assert plant.model.ngeom == 0
    np.testing.assert_array_equal(scene.body_mass, plant.model.body_mass)
    np.testing.assert_array_equal(scene.body_inertia, plant.model.body_inertia)
    np.testing.assert_array_equal(scene.geom_rgba[1:], [[1.0, 0.0, 0.0, 1.0]] * 2)
    np.testing.assert_array_equal(scene.geom_contype[1:] | scene.geom_conaffinity[1:], 0)


def test_gravity_points_down_in_the_scene_and_nothing_is_beneath_the_floor():
    plant = Plant(PANDA.read_text(), 'panda_link0', PANDA_JOINTS, gravity=(3.0, 0.0, 9.0))
    model, data = plant.scene()
    height = -np.array([3.0, 0.0, 9.0]) / np.linalg.norm([3.0, 0.0, 9.0])
    tip = data.body('panda_hand_tcp').xpos[2] - data.body('panda_link0').xpos[2]
    assert tip == pytest.approx(height @ plant.pose('panda_hand_tcp')[:3, 3])
    assert data.geom_xpos[1:, 2].min() > data.geom_xpos[0, 2]


def test_an_arm_of_meshes_alone_is_drawn_as_rods():
    model, data = Plant(CHAIN.replace('</link>', MESH + '</link>'), 'base', ['spin']).scene()
    assert model.ngeom == 1 + 7  # the floor, and a rod for each of the 7 joints


def test_a_shape_that_cannot_be_drawn_is_refused_by_name():
    plant = Plant(robot(link('r'), link('a', INERTIAL + BOX.format(-1, '')), ARM[2]), 'r', ['ra'])
    with pytest.raises(ModelError, match="'a visual 0'.*size 2 "):
        plant.scene()


def test_a_colour_that_cannot_be_drawn_is_refused_by_name_and_only_for_looks():
    bad = '<material name="odd"><color rgba="1 0 x 1"/></material>'
    plant = Plant(robot(bad, *ARM), 'r', ['ra'])
    with pytest.raises(ModelError, match="material 'odd': .*rgba"):
        plant.scene()


def test_a_picture_without_pixels_is_refused():
    with pytest.raises(InputError, match='0 x 480.*(give|must be).*1 x 1'):
        panda().picture(width=0)


def in_a_process(script, **environment):
    """Run a script with a Panda as `plant`; an environment variable given as None is unset."""
    environment = {**os.environ, **environment}
    script = (f'from osc_ros.sim import Plant\nplant = Plant(open({str(PANDA)!r}).read(), '
              f"'panda_link0', {PANDA_JOINTS})\nplant.reset({PANDA_HOME})\n{script}")
    return subprocess.run(
        [sys.executable, '-c', script], capture_output=True, text=True, timeout=60,
        env={name: value for name, value in environment.items() if value is not None})


@pytest.mark.skipif(sys.platform != 'linux', reason='OpenGL needs no display here')
@pytest.mark.parametrize('call, message', first_quick([
    ('viewer', 'no window without OpenGL: .*DISPLAY.*; give it a display'),
    ('picture', 'no picture without OpenGL: .*DISPLAY.*; set MUJOCO_GL=egl')]))
def test_viewer_without_opengl_is_refused_and_the_arm_goes_on(call, message):
    done = in_a_process(f'try:\n    plant.{call}()\nexcept ValueError as error:\n'
                        '    print(error)\nplant.step([0.0] * 7)\nprint(plant.time)',
                        DISPLAY=None, WAYLAND_DISPLAY=None, MUJOCO_GL=None)
    assert done.returncode == 0, done.stderr
    refused, time = done.stdout.splitlines()
    assert re.search(message, refused)
    assert time == '0.001'


def test_a_picture_shows_the_arm_and_its_file_holds_the_same_pixels(tmp_path):
    probe = in_a_process('import mujoco; mujoco.GLContext(8, 8)', MUJOCO_GL='egl')
    if probe.returncode:
        pytest.skip(f'MuJoCo has no EGL here: {probe.stderr.splitlines()[-1]}')
    done = in_a_process(
        f"import numpy as np\nnp.save({str(tmp_path / 'a')!r}, plant.picture("
        f"{str(tmp_path / 'a.png')!r}, width=200, height=150))", MUJOCO_GL='egl')
    assert done.returncode == 0, done.stderr
    image = np.load(tmp_path / 'a.npy')
    assert image.shape == (150, 200, 3) and image.dtype == np.uint8
    dark = image.max(axis=2) < 60  # dark parts: the flange, the hand's mount and the pads
    assert 10 < dark.sum() < 1000
    edges = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    assert edges.min() > 60
    data = (tmp_path / 'a.png').read_bytes()
    begin = data.index(b'IDAT')
    size = int.from_bytes(data[begin - 4:begin], 'big')
    rows = np.frombuffer(zlib.decompress(data[begin + 4:begin + 4 + size]), np.uint8)
    decoded = np.cumsum(rows.reshape(150, -1)[:, 1:], axis=0, dtype=np.uint8)
    np.testing.assert_array_equal(decoded.reshape(150, 200, 3), image)


@pytest.mark.skipif(not (os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')),
                    reason='no display to open a window on')
def test_a_window_changes_nothing_and_may_be_closed_or_left_open():
    done = in_a_process(f'HOME = {PANDA_HOME}' + """
import numpy as np
view = plant.viewer()
try:
    plant.viewer()
except ValueError as error:
    assert 'one at a time' in str(error)
motion = []
for watched in (True, False):
    plant.reset(HOME)
    for _ in range(20):
        plant.step(np.ones(7), steps=5)
        if watched:
            view.sync()
    motion.append(plant.q)
assert np.array_equal(*motion) and view.is_running()
view.close()
view.close()
assert not view.is_running()
view.sync()
assert plant.viewer().is_running()
""")
    assert done.returncode == 0, done.stderr


def test_push_at_a_link_is_felt_by_the_joint_and_nothing_is_left_of_it_after_a_reset():
    plant = Plant(slider(), 'rail', ['slide'], damping=[0.0], friction=[0.0])
    plant.push('mass', [3.0, 40.0, -5.0])
    plant.step([0.0], 10)
    assert plant.qd[0] == pytest.approx(3.0 / 1.5 * plant.time, rel=PLANT_ACCELERATION)
    plant.reset([0.0])
    plant.step([0.0], 10)
    assert plant.qd[0] == pytest.approx(0.0, abs=PLANT_ACCELERATION)
    with pytest.raises(InputError, match="'mas'.*(give|must be).*mass"):
        plant.push('mas', [0.0, 0.0, 1.0])


def test_ball_on_a_wall_pushes_with_what_the_joint_gives():
    wall = np.eye(4)  # a plane perpendicular to the rail, solid where x > 0.6
    wall[:3, :3] = [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    wall[:3, 3] = [0.6, 0.3, -0.2]
    plant = Plant(slider(), 'rail', ['slide'], wall=wall, ball=('mass', 0.05),
                  damping=[0.0], friction=[0.0])
    np.testing.assert_array_equal(plant.contact_force(), np.zeros(3))
    plant.step([2.0], 3000)
    np.testing.assert_allclose(plant.contact_force(), [2.0, 0.0, 0.0], atol=PLANT_STOP)
    assert plant.pose('mass')[0, 3] == pytest.approx(0.55, abs=1e-4)


@pytest.mark.parametrize('arm', first_quick(['panda', 'kinova', 'ur5', 'xarm7'], 2))
def test_brakes_stop_a_moving_arm_within_centimetres_and_hold_it_where_it_is(arm):
    case = robot_cases()[arm]
    model = osc_ros.Robot.from_urdf(case.urdf_text, case.base, case.tip)
    plant = Plant(case.urdf_text, case.base, model.joint_names, friction=[0.0] * model.n,
                  damping=[0.0] * model.n)
    lower, upper = model.position_limits.T
    q = np.clip(0.6 * np.sin(np.arange(model.n)), lower + 0.1, upper - 0.1)
    plant.reset(q, 0.5 * np.asarray(model.velocity_limits))
    plant.brake(True)
    start = plant.pose(case.tip)[:3, 3]
    plant.step(plant.weight, 200)
    stopped = plant.pose(case.tip)
    assert 0.0 < np.linalg.norm(stopped[:3, 3] - start) < 0.05
    plant.step(plant.weight, 5000)
    np.testing.assert_array_equal(plant.pose(case.tip), stopped)
    # after the brakes open, the gravity torque holds the arm without a jump
    plant.brake(False)
    assert np.abs(plant.acceleration(plant.weight)).max() < 1e-6
    plant.step(plant.weight, 100)
    np.testing.assert_allclose(plant.pose(case.tip), stopped, atol=1e-6)


def test_brakes_of_some_joints_leave_the_others_free():
    plant = Plant(CHAIN, 'base', ['spin', 'lift', 'bend', 'reach', 'roll'],
                  gravity=[0.0, 0.0, 0.0], effort_limits=[50.0] * 5)
    plant.brake([True, False, False, True, False])
    plant.step([1.0] * 5, 50)
    assert (plant.q[[0, 3]] == 0.0).all() and (plant.q[[1, 2, 4]] != 0.0).all()
    assert (plant.measured()[2] == [0.0, 1.0, 1.0, 0.0, 1.0]).all()


def test_brake_slips_under_more_than_twice_the_effort_limit():
    plant = Plant(slider(), 'rail', ['slide'])  # effort limit: 5 N
    plant.brake(True)
    for force, slips in ((9.5, False), (12.0, True)):
        plant.push('mass', [force, 0.0, 0.0])
        plant.step([0.0], 100)
        assert (plant.q[0] > 1e-3) == slips
