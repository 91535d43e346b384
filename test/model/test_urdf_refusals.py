# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Every unusable URDF is refused; the error names the element and says what is accepted."""

import re
import warnings

import numpy as np
import pytest

from judge import SHIPPED_PANDA
from osc_ros.errors import ModelError, ModelWarning, similar, UnitWarning
from osc_ros.model import Robot
from osc_ros.sim import Plant

BODY = ("<inertial><origin xyz='0 0 0.1'/><mass value='2'/>"
        "<inertia ixx='0.03' ixy='0' ixz='0' iyy='0.03' iyz='0' izz='0.01'/></inertial>")
LIMIT = "<limit lower='-1' upper='1' velocity='2' effort='3'/>"


def link(name, inside=BODY):
    return f"<link name='{name}'>{inside}</link>"


def joint(name, parent, child, kind='revolute', inside=LIMIT):
    return (f"<joint name='{name}' type='{kind}'><parent link='{parent}'/>"
            f"<child link='{child}'/>{inside}</joint>")


LINKS = [link('base'), link('upper'), link('lower'), link('tool', '')]
SHOULDER = joint('shoulder', 'base', 'upper')
ELBOW = joint('elbow', 'upper', 'lower')
JOINTS = [SHOULDER, ELBOW, joint('wrist', 'lower', 'tool', 'fixed', '')]
FINGER = link('finger') + joint('grip', 'lower', 'finger')


def urdf(*parts):
    return f"<robot name='arm'>{''.join(parts or [*LINKS, *JOINTS])}</robot>"


def arm(shoulder=SHOULDER, elbow=ELBOW, upper=LINKS[1], lower=LINKS[2], more=''):
    return urdf(LINKS[0], upper, lower, LINKS[3], shoulder, elbow, JOINTS[2], more)


def load(text, base='base', tip='tool', **options):
    return Robot.from_urdf(text, base, tip, **options)


def refusal(text, base='base', tip='tool', **options):
    with pytest.raises(ModelError) as caught:
        load(text, base, tip, **options)
    return str(caught.value)


def warned(text, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        robot = load(text, **options)
    assert all(w.category is ModelWarning for w in caught)
    assert all(w.filename == __file__ for w in caught)
    return robot, [str(w.message) for w in caught]


def test_sound_arm_loads_without_a_warning():
    robot, messages = warned(arm(more=FINGER))
    assert robot.joint_names == ('shoulder', 'elbow')
    assert messages == []


@pytest.mark.parametrize(('text', 'message'), [
    ('', 'the URDF text is empty'),
    (' \n\t', 'the URDF text is empty'),
    (None, 'the URDF must be a str of XML, not NoneType'),
    ("<robot name='arm'>\n  <link name='a'>\n</robot>",
     'the URDF does not parse as XML: mismatched tag (line 3, column 3)'),
    ("\n\n<?xml version='1.0'?>\n<robot><link></robot>", '(line 4, column 16)'),
    ('robots/arm', "it begins 'robots/arm': give the text of a URDF, or the path"),
    ('robots/arm.urdf', "the URDF 'robots/arm.urdf' cannot be read"),
    ('<mujoco/>', "the root element is <mujoco>, a URDF's is <robot>"),
    ("<robot xmlns:xacro='http://www.ros.org/wiki/xacro'><xacro:macro name='m'/></robot>",
     'the URDF holds <xacro:macro>: this is xacro, not URDF; expand it: xacro FILE'),
    ('<robot><xacro:arm/></robot>', 'it holds xacro elements: this is xacro, not URDF'),
    ("<robot name='arm'/>", 'the URDF has no <link>'),
    (urdf('<link/>'), '<link> number 1 has no name'),
    (arm(more=link('upper')), "two links have the name 'upper': names must be unique"),
    (arm(more=link('finger') + joint('elbow', 'lower', 'finger')),
     "two joints have the name 'elbow'"),
    (arm(elbow=joint('elbow', 'uper', 'lower')),
     "joint 'elbow': its parent link 'uper' is not in the URDF; did you mean 'upper'"),
    (arm(elbow=joint('elbow', 'upper', 'x')),
     "joint 'elbow': its child link 'x' is not in the URDF; "
     "known: 'base', 'upper', 'lower', 'tool'"),
    (arm(elbow="<joint name='elbow' type='revolute'><child link='lower'/></joint>"),
     "joint 'elbow' has no <parent link="),
    (arm(elbow=joint('elbow', 'upper', 'lower', 'ball')),
     "joint 'elbow': type 'ball' is unknown (revolute, continuous, prismatic, fixed, planar, "
     'floating)'),
    (arm(more=joint('loop', 'base', 'lower')),
     "link 'lower' is the child of two joints, 'elbow' and 'loop'"),
    (arm(more=link('island')), "the URDF has 2 root links, 'base', 'island'"),
    (urdf(*LINKS, *JOINTS, joint('back', 'tool', 'base')),
     "the joints 'shoulder', 'elbow', 'wrist', 'back' form a cycle"),
    (arm(more=link('p') + link('q') + joint('pq', 'p', 'q') + joint('qp', 'q', 'p')),
     'form a cycle: the links must form a tree'),
    (arm(more=link('p') + joint('self', 'p', 'p')), "the joints 'self' form a cycle"),
    (arm(lower=link('lower', "<inertial><mass value='-2'/><inertia ixx='1' iyy='1' izz='1'/>"
                             '</inertial>')), "link 'lower': its mass of -2 kg is negative"),
    (arm(lower=link('lower', "<inertial><inertia ixx='1' iyy='1' izz='1'/></inertial>")),
     "link 'lower', <inertial> has no <mass>"),
    (arm(lower=link('lower', "<inertial><mass value='1'/></inertial>")),
     "link 'lower', <inertial> has no <inertia>"),
    (arm(lower=link('lower', "<inertial><mass value='1'/><inertia ixx='1' iyy='1'/></inertial>")),
     "link 'lower', <inertial>: <inertia> has no attribute 'izz'"),
    (arm(lower=link('lower', BODY.replace("'2'", "'heavy'"))),
     "link 'lower', <inertial>: <mass value='heavy'> is not a finite number"),
    (arm(lower=link('lower', BODY.replace("'2'", "'${m}'"))),
     "link 'lower': <mass value='${m}'>: this is xacro, not URDF; expand it: xacro FILE"),
    (arm(lower=link('lower', BODY.replace("'0.01'", "'inf'"))),
     "<inertia izz='inf'> is not a finite number"),
    (arm(lower=link('lower', BODY.replace("ixy='0'", "ixy='0.1'"))),
     "link 'lower': its inertia tensor is not positive semi-definite (principal moments -0.07, "),
    (arm(elbow=joint('elbow', 'upper', 'lower', inside=LIMIT + "<origin xyz='0 nan 0'/>")),
     "joint 'elbow': <origin xyz='0 nan 0'> is not 3 finite numbers"),
    (arm(elbow=joint('elbow', 'upper', 'lower', inside=LIMIT + "<origin rpy='0 0'/>")),
     "joint 'elbow': <origin rpy='0 0'> is not 3 finite numbers"),
    (arm(elbow=joint('elbow', 'upper', 'lower', inside=LIMIT + "<axis xyz='0 0 0'/>")),
     "joint 'elbow': its axis '0 0 0' has length zero"),
    (arm(elbow=joint('elbow', 'upper', 'lower',
                     inside="<limit lower='2' upper='1' velocity='1' effort='1'/>")),
     "joint 'elbow': its lower limit 2 is above its upper 1"),
    (arm(elbow=joint('elbow', 'upper', 'lower',
                     inside="<limit lower='2' upper='2' velocity='1' effort='1'/>")),
     "joint 'elbow': its lower limit equals its upper, 2, so it cannot move: give its range, "),
    (arm(elbow=joint('elbow', 'upper', 'lower',
                     inside="<limit lower='0' upper='1' velocity='-1' effort='1'/>")),
     "joint 'elbow': its limits of velocity -1, effort 1 and deceleration 0 must not be negative"),
    (arm(lower=link('lower', '')),
     "joint 'elbow': the bodies that it moves have no inertia about its axis (links 'lower', "
     "'tool'): give one of them an <inertial>, give the joint a rotor inertia or lock it"),
    (arm(lower=link('lower', "<inertial><mass value='2'/><inertia ixx='0' iyy='0' izz='0'/>"
                             '</inertial>')),
     "joint 'elbow': the bodies that it moves have no inertia about its axis (links 'lower', "
     "'tool')"),
    (arm(elbow=joint('elbow', 'upper', 'lower', inside=LIMIT + "<mimic joint='shoulder'/>")),
     "joint 'elbow' mimics 'shoulder': a moving joint cannot mimic another; lock it with "
     "locked={'elbow': value}"),
    (arm(more=link('finger') + joint('grip', 'lower', 'finger',
                                     inside=LIMIT + "<mimic joint='sholder'/>")),
     "joint 'grip' mimics 'sholder', which is not a joint of the URDF; did you mean 'shoulder'?"),
    (arm(more=link('f') + joint('f', 'lower', 'f', inside=LIMIT + "<mimic joint='g'/>")
         + link('g') + joint('g', 'lower', 'g', inside=LIMIT + "<mimic joint='f'/>")),
     "joint 'f' mimics itself through 'f', 'g'"),
])
def test_unusable_description_is_refused_by_name(text, message):
    assert message in refusal(text)


@pytest.mark.parametrize(('options', 'message'), [
    ({'base': 'bas'}, "base 'bas' is not a link of robot 'arm'; did you mean 'base'?"),
    ({'tip': 'hand_9'},
     "tip 'hand_9' is not a link of robot 'arm'; known: 'base', 'upper', 'lower', 'tool', "
     "'finger'"),
    ({'base': 'finger'},
     "tip 'tool' does not descend from base 'finger'; give as base one of 'lower', "
     "'upper', 'base'"),
    ({'base': 'tool', 'tip': 'base'},
     "base 'tool' and tip 'base' are swapped: the tip must descend from the base, and here the "
     "base descends from the tip; give base 'base', tip 'tool'"),
    ({'base': 'lower'}, "no joint moves between base 'lower' and tip 'tool': at least one must"),
    ({'tip': 'base'}, "no joint moves between base 'base' and tip 'base'"),
    ({'locked': {'shoulder': 0, 'elbow': 0}}, "no joint moves between base 'base' and tip 'tool'"),
    ({'locked': {'gripp': 0.1}},
     "locked: 'gripp' is not a joint of robot 'arm'; did you mean 'grip'?"),
    ({'locked': {'wrist': 0.1}}, "locked: joint 'wrist' is fixed and takes no value"),
    ({'locked': {'grip': np.inf}},
     "locked: the value of joint 'grip' must be a finite number, not inf"),
    ({'locked': {'grip': 'open'}}, "must be a finite number, not 'open'"),
    ({'rotor_inertia': {'grip': 0.1}},
     "rotor_inertia: 'grip' is not a moving joint; known: 'shoulder', 'elbow'"),
    ({'rotor_inertia': [0.1]}, 'rotor_inertia has shape (1,), not (2,)'),
    ({'rotor_inertia': [0.1, -0.1]},
     "joint 'elbow': rotor_inertia must be finite and not negative"),
    ({'rotor_inertia': {'elbow': None}},
     "rotor_inertia: the value of joint 'elbow' must be a finite number, not None"),
    ({'gravity': (0, 0)}, 'gravity has shape (2,), not (3,)'),
    ({'gravity': (0, 0, 'g')}, 'gravity is not an array of numbers'),
])
def test_unusable_choice_is_refused_by_name(options, message):
    assert message in refusal(arm(more=FINGER), **options)


def test_long_lists_of_names_are_cut():
    links = ''.join(link(f'{k}') for k in range(30))
    joints = ''.join(joint(f'j{k}', 'base', f'{k}') for k in range(30))
    message = refusal(urdf(*LINKS, *JOINTS, links, joints), tip='zzz')
    assert message.endswith("'15' and 14 more")


def test_unknown_tip_is_refused_with_the_similar_names():
    message = refusal(SHIPPED_PANDA.read_text(), 'panda_link0', 'panda_tcp')
    assert re.search("did you mean .*'panda_hand_tcp'", message)


def test_every_refusal_is_a_value_error():
    with pytest.raises(ValueError, match='empty'):
        load('')


@pytest.mark.parametrize('kind', ['planar', 'floating'])
def test_planar_or_floating_joint_off_the_path_is_held_at_its_origin(kind):
    robot, messages = warned(arm(
        more=link('tail') + joint('tail', 'lower', 'tail', kind, "<origin xyz='0.1 0.2 0.3'/>")))
    body, T_body_tail = robot.frames['tail']
    np.testing.assert_array_equal((np.linalg.inv(robot.frames['lower'][1]) @ T_body_tail)[:3, 3],
                                  [0.1, 0.2, 0.3])
    assert body == 1
    assert messages == []


def test_inertia_that_breaks_the_triangle_inequality_is_warned_of():
    lower = link('lower', BODY.replace("iyy='0.03'", "iyy='0.05'"))
    robot, messages = warned(arm(lower=lower))
    assert robot.n == 2
    assert len(messages) == 1
    assert "inertia of links 'lower' breaks the triangle inequality" in messages[0]


def lower_with(old, new):
    return arm(lower=link('lower', BODY.replace(old, new)))


def elbow_with(inside):
    return arm(elbow=joint('elbow', 'upper', 'lower', inside=inside))


POINT = ("<inertial><origin xyz='0.1 0 0.1'/><mass value='2'/><inertia ixx='0' iyy='0' izz='0'/>"
         '</inertial>')
BOX = "<visual><geometry><box size='1 1 1'/></geometry></visual>"
DOUBTFUL = {
    'kg mm²': (lower_with("'0.03'", "'30000'"), UnitWarning, ("'lower'", 'kg mm²')),
    'grams': (lower_with("'2'", "'2000'"), UnitWarning, ("'lower'", 'grams')),
    'centre of mass in mm': (lower_with('0 0 0.1', '0 0 100'), UnitWarning,
                             ("'lower'", '100 m', 'millimetres')),
    'lengths in mm': (elbow_with(LIMIT + "<origin xyz='0 0 333'/>"), UnitWarning,
                      ("'elbow'", '333 m', 'millimetres')),
    'rpy in degrees': (elbow_with(LIMIT + "<origin rpy='0 0 90'/>"), UnitWarning,
                       ("'elbow'", '0 0 90', 'degrees')),
    'rpy of a centre of mass in degrees': (
        lower_with("xyz='0 0 0.1'", "xyz='0 0 0.1' rpy='90 0 0'"), UnitWarning,
        ("'lower'", '90 0 0', 'degrees')),
    'limits in degrees': (
        elbow_with("<limit lower='-170' upper='170' velocity='2' effort='3'/>"), ModelWarning,
        ("'elbow'", '-170 to 170', 'degrees')),
    'mass without rotational inertia': (arm(lower=link('lower', POINT)), ModelWarning,
                                        ("'lower'", 'ixx')),
    'shape without mass': (arm(lower=link('lower', BOX)), ModelWarning,
                           ("'lower'", 'shape', '<inertial>')),
    'soft limits': (elbow_with(LIMIT + "<safety_controller soft_lower_limit='-0.5' "
                               "soft_upper_limit='0.5' k_velocity='1'/>"), ModelWarning,
                    ("'elbow'", '-0.5 to 0.5', '<limit>')),
    'effort and velocity 0': (elbow_with("<limit lower='-1' upper='1' velocity='0' effort='0'/>"),
                              ModelWarning, ("'elbow'", 'effort', 'velocity', '0 or missing')),
    'friction above effort': (elbow_with(LIMIT + "<dynamics friction='30'/>"), ModelWarning,
                              ("'elbow'", '30', '3', 'effort')),
    'triangle inequality': (lower_with("iyy='0.03'", "iyy='0.05'"), ModelWarning,
                            ("'lower'", 'triangle')),
}


@pytest.mark.parametrize('case', DOUBTFUL)
def test_doubtful_description_is_warned_of_by_name_and_the_simulation_starts(case):
    text, kind, said = DOUBTFUL[case]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        robot = load(text, rotor_inertia=[0.1, 0.1])
        Plant(text, 'base', robot.joint_names, rotor_inertia=robot.rotor_inertia).step([0.0, 0.0])
    assert all(issubclass(one.category, ModelWarning) for one in caught)
    of_load = [one for one in caught if one.category is kind and one.filename == __file__]
    assert any(all(part in str(one.message) for part in said) for one in of_load)


@pytest.mark.parametrize('tag', ['axis xyz="1 0 0"', 'origin xyz="0 0 0"', 'limit effort="1"'])
def test_doubled_element_of_a_joint_is_refused(tag):
    message = refusal(elbow_with(f'<{tag}/><{tag}/>'))
    assert "'elbow'" in message and f'2 <{tag.split()[0]}>' in message


@pytest.mark.parametrize('inside, tag', [
    (BODY + BODY, 'inertial'), (BODY.replace('<mass', "<mass value='1'/><mass"), 'mass'),
    (BODY.replace('<origin', "<origin xyz='0 0 1'/><origin"), 'origin')])
def test_doubled_inertia_of_a_link_is_refused(inside, tag):
    message = refusal(arm(lower=link('lower', inside)))
    assert "'lower'" in message and f'2 <{tag}>' in message


def test_inertia_read_by_the_rows_of_a_matrix_is_refused_with_that_hint():
    text = lower_with("iyy='0.03' iyz='0' izz='0.01'", "iyy='0' iyz='0.03' izz='0'")
    assert 'rows of a matrix' in refusal(text)


@pytest.mark.parametrize('encoding', ['iso-8859-1', 'windows-1252', 'utf-16', 'gb2312', 'utf-8'])
def test_declared_encoding_of_a_file_is_read(tmp_path, encoding):
    name = '手臂' if encoding == 'gb2312' else 'Gelenkarm süß'
    text = f"<?xml version='1.0' encoding='{encoding}'?>\n" + arm().replace("'arm'", f"'{name}'")
    file = tmp_path / 'arm.urdf'
    file.write_bytes(text.encode(encoding))
    robot = load(str(file))
    assert robot.name == name
    Plant(file, 'base', robot.joint_names)


def test_undeclared_or_unknown_encoding_is_refused_with_what_to_declare(tmp_path):
    file = tmp_path / 'arm.urdf'
    file.write_bytes(arm().replace("'arm'", "'süß'").encode('iso-8859-1'))
    assert 'encoding=' in refusal(str(file))
    file.write_bytes(b"<?xml version='1.0' encoding='klingon'?>" + arm().encode())
    assert "'klingon'" in refusal(str(file))


def test_finger_as_tip_is_warned_of_with_the_link_of_the_gripper():
    text = arm(more=link('f') + joint('f', 'lower', 'f', 'prismatic')
               + link('g') + joint('g', 'lower', 'g', 'prismatic'))
    with pytest.warns(ModelWarning, match="tip 'f'.*finger.*'lower'"):
        load(text, tip='f')


@pytest.mark.parametrize('change, said', [
    (lambda T: T.T, 'transposed'), (lambda T: T + 0.1 * (np.arange(4)[:, None] == 3), 'last row'),
    (lambda T: T @ np.diag([1.0, 1.0, -1.0, 1.0]), 'mirrors'),
    (lambda T: 2.0 * T - np.diag([0.0, 0.0, 0.0, 1.0]), 'orthogonal'),
    (lambda T: T * np.nan, 'finite')])
def test_matrix_that_is_no_pose_is_refused_with_the_reason(change, said):
    T = np.eye(4)
    T[:3, 3] = 0.1, 0.2, 0.3
    with pytest.raises(ModelError, match=said):
        load(arm()).with_tool(change(T))


def test_flat_plate_keeps_the_triangle_inequality():
    plate = BODY.replace("ixx='0.03'", "ixx='0.0333'").replace("'0.03'", "'0.0667'").replace(
        "'0.01'", "'0.1'")
    assert warned(arm(lower=link('lower', plate)))[1] == []


def test_inertia_tensor_of_a_link_that_never_moves_is_not_checked():
    antenna = link('antenna', BODY.replace("ixy='0'", "ixy='0.1'"))
    assert warned(arm(more=antenna + joint('mast', 'base', 'antenna', 'fixed', '')))[1] == []


def test_missing_limits_are_unlimited_and_warned_of_once():
    robot, messages = warned(arm(
        shoulder=joint('shoulder', 'base', 'upper', inside=''),
        elbow=joint('elbow', 'upper', 'lower', inside="<limit lower='-1' upper='1' effort='0'/>"),
        more=link('finger') + joint('grip', 'lower', 'finger', inside='')))
    np.testing.assert_array_equal(robot.position_limits, [[-np.inf, np.inf], [-1, 1]])
    assert np.isinf(robot.velocity_limits).all()
    assert np.isinf(robot.effort_limits).all()
    assert messages == [
        "robot 'arm': no position limit for 'shoulder'; "
        "no velocity limit for 'shoulder', 'elbow'; "
        "no effort limit for 'shoulder', 'elbow': 0 or missing, taken as unlimited"]


def test_position_limits_of_a_continuous_joint_are_infinite():
    robot, messages = warned(arm(elbow=joint('elbow', 'upper', 'lower', 'continuous')))
    np.testing.assert_array_equal(robot.position_limits[1], [-np.inf, np.inf])
    np.testing.assert_array_equal(robot.effort_limits, [3, 3])
    assert messages == []


def test_massless_link_on_a_fixed_joint_is_lumped():
    assert load(arm()).frames['tool'][0] == 1


def test_byte_order_mark_and_blank_lines_before_the_declaration_are_taken():
    assert load("\ufeff\n <?xml version='1.0' encoding='utf-8'?>\n" + arm()).n == 2


def test_xacro_namespace_without_its_elements_is_taken():
    text = arm().replace('<robot', "<robot xmlns:xacro='http://www.ros.org/wiki/xacro'", 1)
    assert load(text).n == 2


def test_locked_position_outside_of_the_limits_is_a_warning_that_says_what_is_accepted():
    with pytest.warns(ModelWarning, match="'elbow'.* 9 .*-1 to 1"):
        load(arm(), locked={'elbow': 9.0})


def test_only_names_about_as_near_as_the_nearest_are_suggested():
    joints = [f'panda_joint{k}' for k in range(1, 9)]
    assert similar('panda_jnt1', joints) == ['panda_joint1']
    assert len(similar('panda_jnt', joints)) == 3  # all are as near
    assert similar('zebra', joints) == []


def test_mimic_joint_on_the_path_may_be_locked():
    mimic = joint('elbow', 'upper', 'lower', inside=LIMIT + "<mimic joint='shoulder'/>")
    assert load(arm(elbow=mimic), locked={'elbow': 0.3}).joint_names == ('shoulder',)
