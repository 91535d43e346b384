# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""URDF 1.1 and 1.2: quaternions, capsules, further limits; what is not understood is named."""

import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from judge import configuration, pinocchio_model, robot_cases
from osc_ros import Robot
from osc_ros.control.data import LAW_D, LAW_M
from osc_ros.control.limits.bounds import exceeds
from osc_ros.control.limits.limits import Limits
from osc_ros.errors import ModelError, ModelWarning
from osc_ros.identification.corrected_urdf import _read
from osc_ros.model.ends import ends_of_chains
from osc_ros.model.visuals import visuals
from osc_ros.sim import Plant
import tolerances

ARM = """<robot name="r">
  <link name="base"/>
  <link name="a"><inertial>{inertial}<mass value="2"/>
    <inertia ixx="0.03" iyy="0.025" izz="0.02" ixy="0.002" ixz="0"
    iyz="0.001"/></inertial>
    <visual>{visual}<geometry><capsule radius="0.1" length="0.3"/></geometry></visual></link>
  <link name="b"><inertial><origin xyz="0 0.1 0.1"/><mass value="1"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0"
    iyz="0"/></inertial></link>
  <joint name="j1" type="revolute"><parent link="base"/><child link="a"/>{joint}
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="3" effort="50"{limit}/></joint>
  <joint name="j2" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0 0 0.3"/>
    <axis xyz="1 0 0"/><limit lower="-2" upper="2" velocity="3" effort="50"/></joint>{more}
</robot>"""
RPY = (0.4, -0.7, 1.9)


def with_origins(rotation, **given):
    """Return the URDF with one rotation, as text of an attribute, in three of its origins."""
    origin = f'<origin xyz="0.1 0.2 0.3" {rotation}/>'
    return ARM.format(**{'inertial': origin, 'visual': origin, 'joint': origin, 'limit': '',
                         'more': '', **given})


def quaternion(scale=1.0, rpy=RPY):
    found = scale * Rotation.from_euler('xyz', rpy).as_quat()
    return 'quat_xyzw="{:.17g} {:.17g} {:.17g} {:.17g}"'.format(*found)


def robot_of(text):
    with warnings.catch_warnings():
        warnings.simplefilter('error', ModelWarning)
        return Robot.from_urdf(text, 'base', 'b')


@pytest.mark.parametrize('rpy', (RPY, (0.3, np.pi / 2, 0.0), (0.0, -np.pi / 2, 1.0), (0, 0, 0),
                                 (np.pi, 0.0, np.pi)))
def test_quaternion_is_the_same_rotation_everywhere(rpy):
    known = with_origins('rpy="{:.17g} {:.17g} {:.17g}"'.format(*rpy))
    for scale in (1.0, -1.0, 1.0 + 1e-6):
        text = with_origins(quaternion(scale, rpy))
        one, other = robot_of(text), robot_of(known)
        for name in ('T_parent_body', 'inertia'):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-14)
        np.testing.assert_allclose(visuals(text)[0].pose, visuals(known)[0].pose, atol=1e-14)
        links = [ElementTree.fromstring(one)[1] for one in (text, known)]
        np.testing.assert_allclose(*map(_read, links), atol=1e-14)
        plants = [Plant(one, 'base', ('j1', 'j2')) for one in (text, known)]
        np.testing.assert_allclose(plants[0].pose('b'), plants[1].pose('b'), atol=1e-12)
        np.testing.assert_allclose(plants[0].weight, plants[1].weight, atol=1e-12)


@pytest.mark.parametrize('rotation, text', (
    (quaternion(1.1), "'a', <inertial>: <origin quat_xyzw=.* 1.1, (give|must be)"),
    ('quat_xyzw="0 0 0 0"', 'length 0, (give|must be)'),
    ('quat_xyzw="0 0 1"', '4 finite'), ('quat_xyzw="nan 0 0 1"', '4 finite'),
    ('quat_xyzw="0 0 0 1" rpy="0 0 0"', 'rpy .*quat_xyzw: give'),
    ('quat="0 0 0 1"', "'quat' .*<origin> .*give one of xyz, rpy, quat_xyzw"),
    ('RPY="0 0 1"', "'RPY'.*<origin>")))
def test_bad_rotations_are_refused(rotation, text):
    with pytest.raises(ModelError, match=text):
        Robot.from_urdf(with_origins(rotation), 'base', 'b')


@pytest.mark.parametrize('old, new, text', (
    ('<mass value="1"/>', '<mass value="1" unit="g"/>', "'unit' .*<mass>"),
    ('<mass value="1"/>', '<mass value="1"/><rotor/>', '<rotor> .*<inertial>'),
    ('izz="0.01" ixy="0"', 'izz="0.01" Ixy="0"', "'Ixy'")))
def test_what_may_change_the_dynamics_is_refused(old, new, text):
    with pytest.raises(ModelError, match=text):
        Robot.from_urdf(with_origins('').replace(old, new), 'base', 'b')


def test_what_is_not_used_is_named():
    robot = with_origins('', limit=' acceleration="10" jerk="100" soft_upper="1"').replace(
        '<link name="b">', '<link name="b" colour="red"><sensor/>')
    with pytest.warns(ModelWarning) as caught:
        Robot.from_urdf(robot, 'base', 'b')
    [told] = [str(one.message) for one in caught if 'not used' in str(one.message)]
    for text in ("joint 'j1': its limits of acceleration and jerk are not used; the parameters "
                 'target.… limit the motion of the tip',
                 "joint 'j1': attribute 'soft_upper' of <limit> is unknown and has no effect",
                 "link 'b': attribute 'colour' is unknown", "link 'b': <sensor> is unknown"):
        assert text in told
    # names of other programs, and comments, are not told
    robot_of(with_origins('', more='<!-- text -->').replace(
        '<robot name="r">', '<robot name="r" xmlns:drake="http://drake">').replace(
        '<link name="b">', '<link name="b"><drake:proximity/><!-- text -->'))


def hardest_braking(limits, period=1e-3):
    """Return the hardest braking of joint 1 that is driven to its upper limit [rad/s²]."""
    q, qd, hardest = np.zeros(2), np.zeros(2), 0.0
    m, d = LAW_M.new(n=2), LAW_D.new(n=2)
    d.limits[:], d.unexplained_before[:], m.payload_ratio = limits.table, np.nan, 1.0
    upper = d.highest
    for _ in range(5000):
        d.q[:], d.qd[:], d.tick = q, qd, period
        exceeds(m, d)
        hardest = max(hardest, -upper[0])
        q[0] += period * qd[0] + 0.5 * period ** 2 * upper[0]
        qd[0] += period * upper[0]
    assert 1.95 < q[0] < 2.0
    return hardest


def test_joint_brakes_before_its_limit_with_the_deceleration_of_its_description():
    usual = hardest_braking(Limits.of(robot_of(with_origins(''))))
    robot = robot_of(with_origins('', limit=' deceleration="1.5"'))
    np.testing.assert_array_equal(robot.deceleration_limits, [1.5, np.inf])
    assert usual > 5.0
    assert 1.0 < hardest_braking(Limits.of(robot)) <= 1.5
    given = Limits.of(robot, deceleration=[4.0, 4.0])  # the user's takes precedence
    assert 1.5 < hardest_braking(given) <= 4.0
    # it only makes the joint brake earlier: one that it cannot reach is not believed
    assert hardest_braking(Limits.of(robot_of(with_origins('', limit=' deceleration="1e6"')))
                           ) == usual
    assert robot_of(with_origins('', limit=' deceleration="0"')).deceleration_limits[0] == np.inf
    for wrong in ('-1', 'fast', 'nan'):
        with pytest.raises(ModelError, match='deceleration'):
            robot_of(with_origins('', limit=f' deceleration="{wrong}"'))


def test_capsule_is_drawn():
    [shape] = visuals(with_origins(''))
    assert (shape.kind, shape.size) == ('capsule', (0.1, 0.3))
    shapes = pytest.importorskip('osc_ros.viewer.scene.shapes')
    made = shapes._shape(shape, lambda uri: None)
    np.testing.assert_allclose(made.extents, [0.2, 0.2, 0.5], atol=1e-2)


def test_no_known_robot_is_refused():
    for name, case in robot_cases().items():
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', ModelWarning)
            robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=dict(case.locked))
        assert robot.n > 0, name


def test_quaternions_are_what_pinocchio_computes_with_rpy():
    text, known = with_origins(quaternion()), with_origins(
        'rpy="{:.17g} {:.17g} {:.17g}"'.format(*RPY))
    import pinocchio as pin
    model, data, _ = pinocchio_model(known.replace('<capsule', '<cylinder'), 'base', 'b',
                                     ('j1', 'j2'))
    from osc_ros import OperationalSpace
    q, qd = np.array([0.3, -0.8]), np.array([0.5, 0.7])
    h = pin.nonLinearEffects(model, data, configuration(model, q), qd)
    found = OperationalSpace(robot_of(text)).evaluate(q, qd)
    np.testing.assert_allclose(found.h, h, atol=tolerances.AGREEMENT)


def moving(link, parent, kind='revolute'):
    """Return URDF text: a link without mass, and the joint between it and its parent link."""
    return (f'<link name="{link}"/><joint name="to_{link}" type="{kind}">'
            f'<parent link="{parent}"/><child link="{link}"/>'
            '<limit lower="0" upper="0.1" velocity="1" effort="5"/></joint>')


def test_no_finger_is_taken_for_the_tip_of_an_arm():
    jaws = moving('left', 'b', 'prismatic') + moving('right', 'b', 'prismatic')
    hand = ''.join(moving(f'f{k}', 'b') + moving(f't{k}', f'f{k}') for k in range(3))
    tcp = moving('tcp', 'b', 'fixed')
    for more, ends in (('', [('b', 2)]), (jaws, [('b', 2)]), (jaws + tcp, [('tcp', 2)]),
                       (hand, [('b', 2)]), (hand + tcp, [('tcp', 2)])):
        assert ends_of_chains(with_origins('', more=more)) == ('base', ends)
    arms = ''.join(moving(f'{side}{k}', f'{side}{k - 1}' if k else 'b')
                   for side in 'lr' for k in range(6))
    assert ends_of_chains(with_origins('', more=arms))[1] == [('l5', 8), ('r5', 8)]
