# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The robots that come with the package: compared with data sheets, and driven in MuJoCo."""

import ast
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from matplotlib.image import imsave
import numpy as np
import pinocchio as pin
import pytest
from scipy.optimize import minimize

from arm import settings
from common import CHECKOUT
from judge import configuration, pinocchio_model, robot_cases
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.errors import InputError
from osc_ros.sim import Plant
from osc_ros.tools.check import scenario
from shipped import ends, parameters, urdf
import tolerances
from variants import first_quick

NAMES = sorted(path.stem for path in (CHECKOUT / 'osc_ros' / 'robots').glob('*.urdf'))
START, DURATION, STEPS = 0.2, 6.0, 2


@dataclass(frozen=True)
class Sheet:
    """
    Values of an arm from the manufacturer's data sheet.

    Attributes
    ----------
    weight : mass of the arm without a hand [kg]
    slack : accepted difference between the sum of the link masses and `weight`, relative
    shoulder : height above the base at which axes 1 and 2 cross [m]
    flange : name of the link of the flange
    reach : accepted range of the greatest distance from the shoulder to the flange [m]

    """

    weight: float
    slack: float
    shoulder: float
    flange: str
    reach: tuple


SHEETS = {
    # Data sheet of Franka Emika, Robot's Arm & Control, 2020: 18 kg, reach 855 mm. The masses in
    # the URDF were identified from torques, which do not determine them uniquely, hence the slack.
    'panda': Sheet(18.0, 0.1, 0.333, 'panda_link8', (0.85, 0.86)),
    # Data sheet of Franka Research 3, 2022: 17.8 kg, reach 855 mm.
    'fr3': Sheet(17.8, 0.01, 0.333, 'fr3_link8', (0.85, 0.86)),
    # Technical details of UR5e and UR10e, 2023: 20.6 and 33.5 kg with cable. The reaches of 850
    # and 1300 mm are measured to the wrist; the flange is up to 0.12 and 0.14 m farther out.
    'ur5e': Sheet(20.6, 0.01, 0.1625, 'tool0', (0.85, 0.85 + 0.12)),
    'ur10e': Sheet(33.5, 0.01, 0.1807, 'tool0', (1.3, 1.3 + 0.14)),
    # Data sheet of KUKA LBR iiwa 14 R820: 29.9 kg; 820 mm from shoulder to wrist, 126 mm from
    # wrist to flange.
    'iiwa14': Sheet(29.9, 0.001, 0.36, 'tool0', (0.945, 0.947)),
    # Data sheet of Kinova Gen3, 7 joints, with vision module: 8.2 kg, reach 902 mm.
    'gen3': Sheet(8.2, 0.01, 0.15643 + 0.12838, 'end_effector_link', (0.9, 0.905)),
}


def on_a_rail(name):
    """Return (URDF, base, tip) of a shipped robot on a rail of 1.5 m along y."""
    base, tip = ends(name)
    rail = f"""
      <link name="rail"/>
      <joint name="rail_joint" type="prismatic">
        <parent link="rail"/><child link="carriage"/><axis xyz="0 1 0"/>
        <limit lower="-0.75" upper="0.75" velocity="1" effort="400"/>
      </joint>
      <link name="carriage">
        <inertial>
          <mass value="15"/>
          <inertia ixx="0.3" ixy="0" ixz="0" iyy="0.3" iyz="0" izz="0.3"/>
        </inertial>
      </link>
      <joint name="carriage_mount" type="fixed">
        <parent link="carriage"/><child link="{base}"/>
      </joint>
    </robot>"""
    return urdf(name).replace('</robot>', rail), 'rail', tip


def demonstrated(text, base, tip, q, seconds=DURATION):
    """Run the motions of osc_demo in MuJoCo; return robot, phases, times, errors and torques."""
    robot = Robot.from_urdf(text, base, tip)
    plant = Plant(text, base, robot.joint_names)
    law = Law(robot, settings(robot))
    plant.reset(q)
    law.hold(q)
    plan = scenario.phases(robot, q, START, seconds)
    target_at = scenario.reference(plan, plant.pose(tip))
    for phase in plan:
        law.follow(phase.motion, phase.start)
    times, errors, torques = [], [], []
    while plant.time < plan[-1].end - 1e-9:
        times.append(plant.time)
        errors.extend(scenario.errors(plant.pose(tip)[None], target_at(plant.time).pose[None],
                                      scenario.ALL, np.eye(3)[None]))
        torques.append(law.torque(plant.time, plant.q, plant.qd))
        plant.step(torques[-1], STEPS)
    return robot, plan, np.array(times), np.array(errors), np.array(torques)


def require_followed(run, wanted):
    """Require that the errors of a run are within the thresholds of a configuration."""
    robot, plan, times, errors, torques = run
    eight = errors[(times >= plan[0].start) & (times <= plan[0].end)]
    rms = np.sqrt((eight ** 2).mean(axis=0))
    assert rms[0] < wanted['tracking_position']
    assert rms[1] < wanted['tracking_orientation']
    for phase in plan[1:]:
        distance, angle = errors[times < phase.end][-1]
        assert distance < wanted['settled_position'], phase.name
        assert angle < wanted['settled_orientation'], phase.name
    assert (np.abs(torques) <= robot.effort_limits).all()


def test_every_robot_has_a_data_sheet_and_a_configuration():
    assert NAMES == sorted(SHEETS)
    assert {'panda', 'fr3', 'ur5e', 'ur10e', 'iiwa14', 'gen3'} <= set(NAMES)
    for name in NAMES:
        assert parameters(name)['robot_description_file'] == name


def test_every_robot_is_named_in_the_readme():
    text = (CHECKOUT / 'README.md').read_text(encoding='utf-8')
    assert [name for name in NAMES if name not in text] == []


@pytest.mark.parametrize('file', ['simulation.launch.py', 'controller.launch.py'])
def test_launch_file_names_every_robot_in_the_description_of_its_argument(file):
    tree = ast.parse((CHECKOUT / 'launch' / file).read_text(encoding='utf-8'))
    assigned = {ast.unparse(node.targets[0]): ast.unparse(node) for node in tree.body
                if isinstance(node, ast.Assign)}
    found = {'find_spec': find_spec, 'Path': Path}
    for target in ('[PACKAGE]', 'ROBOTS'):
        exec(assigned[target], found)
    assert found['ROBOTS'].split(', ') == NAMES
    assert '{ROBOTS}' in ast.unparse(next(
        node for node in ast.walk(tree) if isinstance(node, ast.Call)
        and ast.unparse(node).startswith("DeclareLaunchArgument('robot',")))


@pytest.mark.parametrize('name', NAMES)
def test_links_weigh_what_the_data_sheet_says(name):
    sheet = SHEETS[name]
    links = ElementTree.fromstring(urdf(name)).iterfind('link[inertial]')
    weight = sum(float(link.find('inertial/mass').get('value')) for link in links
                 if 'hand' not in link.get('name') and 'finger' not in link.get('name'))
    assert weight == pytest.approx(sheet.weight, rel=sheet.slack)


@pytest.mark.parametrize('name', first_quick(NAMES, 2))
def test_flange_reaches_as_far_as_the_data_sheet_says(name):
    sheet, (base, tip) = SHEETS[name], ends(name)
    robot = Robot.from_urdf(urdf(name), base, tip)
    model, data, flange = pinocchio_model(urdf(name), base, sheet.flange, robot.joint_names)
    bounds = np.clip(robot.position_limits, -np.pi, np.pi)
    shoulder = np.array([0.0, 0.0, sheet.shoulder])

    def nearness(q):
        pin.framesForwardKinematics(model, data, configuration(model, q))
        return -np.linalg.norm(data.oMf[flange].translation - shoulder)

    rng = np.random.default_rng(0)
    starts = bounds[:, 0] + np.ptp(bounds, axis=1) * rng.uniform(0.3, 0.7, size=(6, robot.n))
    reach = -min(minimize(nearness, q, bounds=bounds).fun for q in starts)
    least, greatest = sheet.reach
    assert least < reach < greatest


@pytest.mark.parametrize('name', NAMES)
def test_inertia_of_every_body_is_physically_possible(name):
    model = pin.buildModelFromXML(urdf(name))
    for body in model.inertias[1:]:
        moments = np.linalg.eigvalsh(body.inertia)
        assert body.mass > 0.0
        assert moments[0] > 0.0
        assert moments[2] <= (moments[0] + moments[1]) * (1.0 + tolerances.AGREEMENT)


@pytest.mark.parametrize('name', first_quick(NAMES, 2))
def test_every_shipped_robot_follows_in_mujoco_as_its_configuration_promises(name):
    q = np.array(parameters(name, '/**/osc_simulator')['initial_positions'])
    require_followed(demonstrated(urdf(name), *ends(name), q),
                     parameters(name, '/**/osc_demo'))


# quick: test_every_shipped_robot_follows_in_mujoco_as_its_configuration_promises
@pytest.mark.slow
def test_eight_joints_follow_too():
    text, base, tip = on_a_rail('fr3')
    q = np.array([0.1, *parameters('fr3', '/**/osc_simulator')['initial_positions']])
    run = demonstrated(text, base, tip, q)
    assert run[0].n == 8
    require_followed(run, parameters('fr3', '/**/osc_demo'))


@pytest.mark.parametrize('name, other, apart, weight', [
    # panda_of_erd: the Panda of example-robot-data. The FR3 is the Panda's successor.
    ('panda', 'panda_of_erd', 1e-9, 1e-9),
    ('fr3', 'panda_of_erd', 1e-9, 0.05),
    # UR5 and UR10 precede UR5e and UR10e: the same upper arms, other wrists.
    ('ur5e', 'ur5', 0.1, 0.15),
    ('ur10e', 'ur10', 0.1, 0.15),
])
def test_poses_and_weight_agree_with_another_packages_description(name, other, apart, weight):
    case, rng = robot_cases()[other], np.random.default_rng(0)
    ours, theirs = ((text, base, tip, Robot.from_urdf(text, base, tip).joint_names)
                    for text, base, tip in ((urdf(name), *ends(name)),
                                            (case.urdf_text, case.base, case.tip)))
    bounds = np.clip(Robot.from_urdf(*ours[:3]).position_limits, -3.0, 3.0)
    states = [rng.uniform(*bounds.T) for _ in range(50)]
    tips, torques = zip(*(_pose_and_gravity(states, *arm) for arm in (ours, theirs)))
    assert np.linalg.norm(tips[0] - tips[1], axis=1).max() < apart
    assert np.linalg.norm(torques[0] - torques[1]) < weight * np.linalg.norm(torques[1])


def _pose_and_gravity(states, text, base, tip, names):
    """Return the tip's positions and the torques of gravity at joint positions, by Pinocchio."""
    model, data, frame = pinocchio_model(text, base, tip, names)
    tips, torques = [], []
    for q in states:
        full = configuration(model, q)
        pin.framesForwardKinematics(model, data, full)
        tips.append(data.oMf[frame].translation.copy())
        torques.append(pin.computeGeneralizedGravity(model, data, full).copy())
    return np.array(tips), np.array(torques)


def test_every_robot_can_be_drawn(request):
    """With --write-tables, write doc/arms.png."""
    pictures = []
    for name in NAMES:
        base, tip = ends(name)
        plant = Plant(urdf(name), base, Robot.from_urdf(urdf(name), base, tip).joint_names)
        plant.reset(parameters(name, '/**/osc_simulator')['initial_positions'])
        try:
            pictures.append(plant.picture(width=300, height=360))
        except InputError as error:
            pytest.skip(str(error))
        assert np.ptp(pictures[-1][60:300, 60:240].astype(int)) > 100
    if request.config.getoption('--write-tables'):
        imsave(CHECKOUT / 'doc' / 'arms.png', np.hstack(pictures))
