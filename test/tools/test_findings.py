# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_check --static: dynamics against Pinocchio, findings, and what it says of bad models."""

from contextlib import suppress
import json
from pathlib import Path
import re
import subprocess
import sys
import warnings

import numpy as np
import pinocchio
import pytest
import yaml

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros import Robot, shipped_urdf
from osc_ros.client.robots import SHIPPED
from osc_ros.dynamics.algebra.kinematics import tip_jacobian
from osc_ros.errors import ModelError, ModelWarning, UnitWarning
from osc_ros.tools.check import description_rules
from osc_ros.tools.check.arm_dynamics import mass_matrix, weight
from osc_ros.tools.check.check_command import main
from osc_ros.tools.check.description_rules import Description
from osc_ros.tools.check.findings import findings
from survey import chains, urdf_texts

TOLERANCE = 1e-9  # of quantities of the order of 1 to 100, by two sets of formulas
PANDA = 'panda_link0', 'panda_hand_tcp'

ARM = """<robot name="two">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.25 0 0"/><mass value="{mass}"/>
    <inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.2 0 0"/><mass value="1"/>
    <inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tip"/>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="{effort}" velocity="{speed}"/></joint>
  <joint name="elbow" type="{kind}"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-2.5" upper="2.5" effort="50" velocity="2"/></joint>
  <joint name="end" type="fixed"><parent link="lower"/><child link="tip"/>
    <origin xyz="0.4 0 0"/></joint>
</robot>"""


@pytest.fixture
def arm(tmp_path):
    """Return a function that writes the URDF of an arm with two joints."""
    def write(**changes):
        path = tmp_path / 'arm.urdf'
        path.write_text(ARM.format(**{'mass': 2, 'effort': 100, 'speed': 2, 'kind': 'revolute',
                                      **changes}))
        return str(path)
    return write


def shipped_robot(name):
    return Robot.from_urdf(shipped_urdf(name).read_text(), SHIPPED[name].base, SHIPPED[name].tip)


def unit_problems(load):
    """Return the problems of a description with its units."""
    robot, warned = description_rules.loaded(load)
    return [one for one in description_rules.problems(
        Description(robot, robot.neutral, warned=warned)) if 'moment of inertia' in one]


@pytest.fixture
def output(capsys, tmp_path):
    """Return a function that runs osc_check --static; it returns the exit status and output."""
    def run(*arguments, **parameters):  # parameters: by node
        if parameters:
            config = tmp_path / 'my.yaml'
            config.write_text(yaml.safe_dump({
                f'/**/{node}': {'ros__parameters': given} for node, given in parameters.items()}))
            arguments += '--config', config
        with pytest.raises(SystemExit) as ended:
            main(['--static', *map(str, arguments)])
        return ended.value.code, ''.join(capsys.readouterr())
    return run


def test_dynamics_are_those_of_pinocchio():
    text = shipped_urdf('panda').read_text()
    robot = Robot.from_urdf(text, *PANDA)
    whole = pinocchio.buildModelFromXML(text)
    fingers = [whole.getJointId(name) for name in whole.names if 'finger' in name]
    model = pinocchio.buildReducedModel(whole, fingers, pinocchio.neutral(whole))
    data, q = model.createData(), np.array([0.3, -0.7, 0.2, -2.0, 0.4, 1.5, 0.8])
    assert mass_matrix(robot, q) == pytest.approx(pinocchio.crba(model, data, q), abs=TOLERANCE)
    assert weight(robot, q) == pytest.approx(
        pinocchio.computeGeneralizedGravity(model, data, q), abs=TOLERANCE)
    J = pinocchio.computeFrameJacobian(model, data, q, model.getFrameId(PANDA[1]),
                                       pinocchio.LOCAL_WORLD_ALIGNED)
    assert tip_jacobian(robot, q) == pytest.approx(J[[3, 4, 5, 0, 1, 2]], abs=TOLERANCE)


def test_findings_of_a_planar_arm_are_those_of_paper_and_pencil(arm):
    text = open(arm()).read()
    found = findings(Robot.from_urdf(text, 'base', 'tip'), text, home=np.array([0.0, np.pi / 2]))
    assert found.freedoms == 2
    # at rest the shoulder carries 2 kg at 0.25 m and 1 kg at 0.5 m, both horizontally
    assert abs(found.weight[0]) == pytest.approx(9.81 * (2 * 0.25 + 1 * 0.5))
    assert np.isinf(found.effective_mass[4])  # it cannot move along y
    assert found.reach[1] == pytest.approx(0.9, abs=0.02)
    assert found.lumped['elbow'] == ['lower', 'tip']
    assert any('2 of 6 axes' in note for note in found.notes)
    assert not found.problems


def test_singular_postures_of_an_arm_with_a_wrist_are_elbow_and_wrist_stretched():
    text = shipped_urdf('ur5e').read_text()
    found = findings(Robot.from_urdf(text, 'base_link', 'tool0'), text,
                     home=np.array([0.0, -1.2, 1.5, -1.9, -1.57, 0.0]))
    singular = {one.joint: one.position for one in found.singularities}
    assert singular['elbow_joint'] == pytest.approx(0.0, abs=0.04)
    assert singular['wrist_2_joint'] == pytest.approx(0.0, abs=0.04)
    assert 'shoulder_pan_joint' not in singular  # the whole arm turns


def test_report_of_a_shipped_robot(output):
    code, text = output('--robot', 'panda')
    assert code == 0
    for part in ('panda_joint4', 'moving mass', "joint 'panda_finger_joint2': mimics",
                 'kg m²', 'singular postures', 'rad/s at 500 Hz', 'can be controlled'):
        assert part in text


def test_json_has_everything_and_no_infinite_numbers(output, arm, tmp_path):
    code, _ = output(arm(), '--json', tmp_path / 'found.json')
    found = json.loads((tmp_path / 'found.json').read_text(),
                       parse_constant=lambda name: pytest.fail(name))
    assert code == 0
    assert [joint['name'] for joint in found['joints']] == ['shoulder', 'elbow']
    assert found['effective inertia']['y'] is None
    assert found['controllable'] is True


@pytest.mark.parametrize('changes, said', [
    ({'effort': 5}, "joint 'shoulder': the weight takes"),
    ({'mass': -2}, "link 'upper'"),
    ({'kind': 'hinge'}, "joint 'elbow': type 'hinge' is unknown"),
    ({'kind': 'floating'}, 'of one freedom'),
])
def test_command_ends_with_1_and_says_what_to_mend(output, arm, changes, said):
    code, text = output(arm(**changes))
    assert code == 1, text
    assert said in text
    assert 'CANNOT BE CONTROLLED' in text


def test_command_ends_with_0_on_an_arm_without_meshes_and_notes_missing_limits(output, arm):
    code, text = output('--urdf', arm(effort=0))
    assert code == 0
    assert "no effort limit for 'shoulder': 0 or missing" in text
    assert 'can be controlled' in text


def test_description_alone_is_enough_without_ros(arm, tmp_path):
    done = subprocess.run([sys.executable, '-c', """
import sys
sys.modules['rclpy'] = None
from osc_ros.tools.check.check_command import main
main(['--static', *sys.argv[1:]])
""", arm(effort=5)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and "joint 'shoulder': the weight takes" in done.stdout, done


def test_arm_without_any_mass_cannot_be_controlled(output, arm):
    path = Path(arm())
    path.write_text(re.sub('<mass value="[^"]*"/>', '<mass value="0"/>', path.read_text()))
    code, said = output(path)
    assert code == 1 and 'no link that moves has a mass' in said


@pytest.mark.parametrize('change, said', [
    (('upper="2.5"', 'upper="143"'), '-2.5 to 143 rad, 2 rad/s: degrees?'),
    (('effort="50" velocity="2"', 'effort="50" velocity="180"'),
     '-2.5 to 2.5 rad, 180 rad/s: degrees?')])
def test_limits_in_degrees_are_noted(output, arm, change, said):
    path = Path(arm())
    path.write_text(path.read_text().replace(*change))
    assert f"note: joint 'elbow': {said}" in output(path)[1]


def test_link_without_a_mass_that_moves_is_noted(output, arm):
    path = Path(arm())
    path.write_text(re.sub('(?s)<link name="upper">.*?</link>', '<link name="upper"/>',
                           path.read_text()))
    code, said = output(path)
    assert "note: 'upper', moved by 'shoulder', has no mass" in said
    assert "'lower'" not in said


@pytest.mark.parametrize('factor', [1e6, 1e7], ids=['kg mm²', 'g cm²'])
@pytest.mark.parametrize('name', SHIPPED)
def test_inertias_in_other_units_are_a_problem(name, factor):
    text = re.sub(r' (i[xyz]{2})="([^"]*)"', lambda one: f' {one[1]}="{factor * float(one[2])}"',
                  shipped_urdf(name).read_text())
    said = unit_problems(lambda: Robot.from_urdf(text, SHIPPED[name].base, SHIPPED[name].tip))
    assert said and all('kg mm²' in one for one in said)
    assert f"moved by '{shipped_robot(name).joint_names[1]}'" in ' '.join(said)


def test_no_known_robot_is_in_other_units():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', ModelWarning)
        warnings.simplefilter('error', UnitWarning)
        for name in SHIPPED:
            shipped_robot(name)
        for text in urdf_texts().values():
            for chain in chains(text):
                with suppress(ModelError):
                    Robot.from_urdf(text, chain.base, chain.tip, locked=chain.held)


@pytest.mark.parametrize('gravity, is_noted', [
    ((0.0, 0.0, -9.81), False), ((0.0, 0.01, -9.80665), False), ((0.0, 0.0, 9.81), True),
    ((0.0, 2.0, -9.6), True), ((0.0, 0.0, -1.62), True)])
def test_gravity_of_an_arm_that_does_not_stand_upright_is_noted(gravity, is_noted):
    robot = shipped_robot('panda').with_gravity(gravity)
    said = ' '.join(description_rules.notes(Description(robot, robot.neutral)))
    assert (f'gravity is {list(gravity)}' in said) == is_noted


@pytest.mark.parametrize('arguments, code, said', [
    (['--robot', 'pand'], 2, "did you mean 'panda'?"),
    (['--robot', 'panda', '--tip', 'panda_hand_tc'], 2, "did you mean 'panda_hand_tcp'"),
    ([str(Path(__file__))], 2, 'does not parse as XML'),
    (['arm.urdf', '--robot', 'panda'], 2, 'give one of FILE'),
])
def test_unknown_names_are_refused(output, arguments, code, said):
    found, text = output(*arguments)
    assert found == code, text
    assert said in text


HOME = 0.0, 0.0, 0.0, -1.5, 0.0, 1.5, 0.0


@pytest.mark.parametrize('locked, home, code, said', [
    ([], (*HOME[:3], 0.5, *HOME[4:]), 0, "home: 'panda_joint4' at 0.5 is outside of"),
    ([], HOME[:2], 2, 'must be a finite number for each of panda_joint1'),
    (['panda_joint33'], HOME, 1, "did you mean 'panda_joint3'"),
    (['panda_joint3'], HOME[1:], 0, "joint 'panda_joint3': locked at 0.5"),
])
def test_parameters_are_those_of_the_nodes(output, locked, home, code, said):
    found, text = output('--robot', 'panda', osc_simulator={'initial_positions': list(home)},
                         osc_controller={'locked_joints': locked,
                                         'locked_positions': [0.5] * len(locked)})
    assert found == code, text
    assert said in text
