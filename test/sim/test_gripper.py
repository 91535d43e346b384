# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The simulated hand grasps, and the client's gripper never blocks the arm."""

import numpy as np
import pytest

import osc_ros
from osc_ros.errors import ArmTimeoutError, InputError, ModelError
from osc_ros.model.files import shipped_urdf
from osc_ros.sim.hand import FINGERS, Hand
from osc_ros.sim.pushed_block import Block

PLACE = np.array([0.5, 0.1, 0.02])  # of the cube [m]
HALF = (0.02, 0.02, 0.02)
DOWN = np.diag([1.0, -1.0, -1.0])


class Bench:
    """An arm over a table with a cube."""

    def __init__(self, robot='panda', mass=0.1, **options):
        """Make the arm."""
        self.cube = Block(HALF, mass, 0.5, PLACE)
        self.arm = osc_ros.Arm.simulated(robot, wall=np.eye(4), furnish=self.cube.add, **options)
        self.plant = self.arm.simulation.plant

    def slip(self, before):
        """Return how far the cube has moved in the hand since a relative pose [m]."""
        return np.linalg.norm((self.held() @ np.linalg.inv(before))[:3, 3])

    def held(self):
        """Return the pose of the cube in the hand."""
        return np.linalg.inv(self.arm.state().pose) @ self.cube.pose(self.plant)

    def grasp(self, force=40.0):
        """Grasp the cube where it lies."""
        T = self.arm.pose()
        T[:3, 3] = PLACE + [0.0, 0.0, 0.1]
        self.arm.move_to(T)
        T[:3, 3] = PLACE
        self.arm.move_to(T)
        return self.arm.gripper.grasp(force)


@pytest.fixture(scope='module')
def bench():
    with (found := Bench()).arm:
        yield found


@pytest.fixture
def holding(bench):
    """Return the bench with the cube in the hand, 0.2 m over the table."""
    bench.arm.payload(0.0)
    bench.arm.gripper.move(0.08)
    bench.cube.put(bench.plant, PLACE)
    bench.grasp()
    bench.arm.move_to(bench.arm.pose(shift=(0.0, 0.0, 0.2)))
    return bench


def test_hand_moves_to_a_width_and_says_so(bench):
    gripper = bench.arm.gripper
    for width in (0.03, 0.08):
        state = gripper.move(width)
        assert state.width == pytest.approx(width, abs=1e-3)
        assert state.is_at_goal and not (state.is_moving or state.is_holding)


def test_speed_of_the_hand_is_the_commanded_one(bench):
    arm = bench.arm
    arm.gripper.move(0.08)
    began = arm.state().time
    arm.gripper.move(0.03, speed=0.05)
    assert arm.state().time - began == pytest.approx(1.0, abs=0.1)


def test_closed_hand_holds_nothing(bench):
    state = bench.arm.gripper.grasp(40.0)
    assert state.is_at_goal and not state.is_holding
    bench.arm.sleep(0.2)
    state = bench.arm.gripper.state()
    assert state.force == pytest.approx(40.0, rel=0.05)  # of finger on finger
    assert -1e-4 < state.width < 1e-3


def test_grasped_cube_is_lifted_and_does_not_slip_at_half_a_metre_a_second(holding):
    arm, before = holding.arm, holding.held()
    assert holding.cube.position(holding.plant)[2] > 0.2
    state = arm.gripper.state()
    assert state.is_holding and state.width == pytest.approx(0.04, abs=1e-3)
    assert state.force == pytest.approx(40.0, rel=0.02)
    fastest = 0.0
    begin = arm.pose()
    for goal in (begin, arm.pose(shift=(0.0, -0.4, 0.0), turn=(0.0, 0.0, 0.5)), begin):
        arm.move_to(goal, wait=False)
        for _ in range(60):
            last = arm.state()
            now = arm.sleep(0.02)
            fastest = max(fastest, np.linalg.norm(now.pose[:3, 3] - last.pose[:3, 3]) / 0.02)
    assert fastest > 0.5
    assert holding.slip(before) < 1e-3


@pytest.mark.slow
def test_grasped_cube_does_not_creep_in_half_a_minute(holding):
    before = holding.held()
    holding.arm.sleep(30.0)
    assert holding.slip(before) < 2e-3


@pytest.mark.parametrize('timestep', [pytest.param(2e-3, marks=pytest.mark.slow), 1e-3,
                                      pytest.param(2.5e-4, marks=pytest.mark.slow)])
def test_contacts_of_the_fingers_do_not_explode(timestep):
    """The strongest grasp of a light cube, and its loss: nothing gets fast, nothing diverges."""
    with (bench := Bench(mass=0.005, timestep=timestep)).arm as arm:
        fastest = 0.0

        def watch():
            nonlocal fastest
            for _ in range(40):
                arm.sleep(0.01)
                fastest = max(fastest, np.abs(bench.plant.data.joint('block').qvel[:3]).max())

        bench.grasp(70.0)
        watch()
        assert fastest < 0.01
        width = arm.gripper.state().width
        assert width == pytest.approx(0.04, abs=1e-3)  # the fingers do not sink in
        arm.gripper.move(0.08, wait=False)
        watch()
        assert fastest < 0.3
        np.testing.assert_allclose(bench.cube.position(bench.plant), PLACE, atol=2e-3)


def test_arm_moves_on_while_the_gripper_closes(bench):
    """Neither waits for the other: the motion is the same as with a gripper at rest."""
    arm, ends = bench.arm, []
    for closes in (False, True):
        arm.gripper.move(0.08)
        start = np.eye(4)
        start[:3, :3], start[:3, 3] = DOWN, [0.4, 0.0, 0.4]
        arm.move_to(start)
        arm.sleep(1.0)
        began = arm.state().time
        arm.move_to(arm.pose(shift=(0.0, 0.2, 0.0)), duration=1.0, wait=False)
        arm.sleep(0.2)
        before = arm.state()
        if closes:
            state = arm.gripper.grasp(20.0, speed=0.1, wait=False)
            assert state.is_moving and arm.state().time == before.time  # it does not wait
            assert arm.gripper.wait().is_at_goal
        else:
            arm.sleep(0.85)
        after = arm.state()
        assert after.pose[1, 3] - before.pose[1, 3] > 0.1
        arm.wait()
        ends.append((arm.state().time - began, arm.pose()))
    assert ends[0][0] == pytest.approx(ends[1][0], abs=0.15)
    np.testing.assert_allclose(ends[0][1], ends[1][1], atol=1e-3)


def test_hold_of_the_arm_does_not_open_the_gripper(holding):
    holding.arm.hold()
    holding.arm.sleep(0.5)
    assert holding.arm.gripper.state().is_holding


def test_arm_sags_under_a_load_until_it_knows_it():
    with (bench := Bench(mass=0.5)).arm as arm:
        bench.grasp(70.0)
        goal = arm.pose(shift=(0.0, 0.0, 0.2))
        arm.move_to(goal, wait=False)
        arm.sleep(3.0)
        sag = goal[2, 3] - arm.pose()[2, 3]
        arm.payload(0.5)
        arm.sleep(2.0)
        left = goal[2, 3] - arm.pose()[2, 3]
        assert sag > 2e-3
        assert abs(left) < 0.05 * sag
        arm.gripper.move(0.08, wait=False)
        arm.payload(0.0)
        arm.sleep(2.0)
        assert abs(goal[2, 3] - arm.pose()[2, 3]) < 0.05 * sag


@pytest.mark.parametrize('command, text', [
    (lambda arm: arm.gripper.move(0.09), 'width .*0.09 m; must be 0 to 0.08'),
    (lambda arm: arm.gripper.move(-0.01), 'must be 0 to 0.08'),
    (lambda arm: arm.gripper.move(np.nan), 'width.*nan: (give|must be)'),
    (lambda arm: arm.gripper.move(None), 'width.*None: (give|must be)'),
    (lambda arm: arm.gripper.grasp(np.nan), 'force.*nan: (give|must be)'),
    (lambda arm: arm.gripper.grasp(200.0), 'force .*200.0 N; must be 0.1 to 70'),
    (lambda arm: arm.gripper.grasp(np.inf), 'force.*inf: (give|must be)'),
    (lambda arm: arm.gripper.move(0.05, speed=3.0), 'speed .*3.0 m/s; (give|must be)'),
    (lambda arm: arm.payload(-1.0), 'mass.* -1.0: (give|must be)'),
    (lambda arm: arm.payload(100.0), 'hold'),
    (lambda arm: arm.payload(1.0, [0.0, np.nan, 0.0]), 'center_of_mass')])
def test_wrong_numbers_are_refused_and_change_nothing(bench, command, text):
    bench.arm.gripper.move(0.06)
    with pytest.raises((InputError, ModelError), match=text):
        command(bench.arm)
    state = bench.arm.gripper.state()
    assert state.goal == 0.06 and state.width == pytest.approx(0.06, abs=1e-3)


def test_gripper_that_does_not_arrive_is_a_time_out_that_says_where_it_is(bench):
    bench.arm.gripper.move(0.08)
    with pytest.raises(ArmTimeoutError, match=r'0\.1 s.*[67]\d\.\d mm.* 0\.0 mm'):
        bench.arm.gripper.move(0.0, timeout=0.1)


def test_arm_without_a_gripper_says_how_to_get_one():
    with osc_ros.Arm.simulated('ur5e') as arm:
        with pytest.raises(InputError, match='panda and fr3.*hand='):
            arm.gripper.state()
        with pytest.raises(InputError, match='no gripper'):
            arm.gripper.move(0.01)


def test_fr3_grasps_too():
    with (bench := Bench('fr3')).arm as arm:
        assert bench.grasp().is_holding
        arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1)))
        assert bench.cube.position(bench.plant)[2] > 0.11


def test_hand_of_a_robot_of_your_own_is_given_by_its_joints():
    text = shipped_urdf('panda').read_text()
    own = dict(base='panda_link0', tip='panda_hand_tcp', q=[0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
    with osc_ros.Arm.simulated(text, hand=FINGERS['panda'], **own) as arm:
        assert arm.gripper.state().width == pytest.approx(0.08)
    for joints, text_of_error in ((('panda_joint1', 'panda_joint2'), 'not a prismatic joint'),
                                  (('panda_finger_joint1',), 'a hand has two finger joints'),
                                  (('panda_finger_joint1',) * 2, 'opposite directions')):
        with pytest.raises((InputError, ModelError), match=text_of_error):
            osc_ros.Arm.simulated(text, hand=joints, **own)


@pytest.mark.parametrize('old, new, text', [
    ('lower="0" upper="0.04"', 'lower="-0.01" upper="0.04"', 'must be from 0 m, closed'),
    ('<box size="0.018 0.015 0.018"/>', '<sphere radius="0.01"/>', '')])
def test_fingers_need_limits_from_zero_and_boxes(old, new, text):
    changed = shipped_urdf('panda').read_text().replace(old, new)
    if text:
        with pytest.raises(ModelError, match=text):
            Hand(changed, FINGERS['panda'])
    else:
        Hand(changed, FINGERS['panda'])  # the other box is left
        with pytest.raises(ModelError, match='no box'):
            Hand(changed.replace('<box size="0.02 0.015 0.036"/>', '<sphere radius="0.01"/>'),
                 FINGERS['panda'])


def test_reset_opens_the_hand_and_puts_the_cube_back(holding):
    simulation = holding.arm.simulation
    simulation.reset()
    holding.arm.sleep(0.1)
    assert holding.arm.gripper.state().width == pytest.approx(0.08, abs=1e-4)
    np.testing.assert_allclose(holding.cube.position(holding.plant), PLACE, atol=1e-3)
