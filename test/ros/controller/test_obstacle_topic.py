# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Obstacles over ROS: topic, answers, diagnostics, parameters; an arm moves past a box."""

from dataclasses import replace
import re

import mujoco
import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')
pytest.importorskip('visualization_msgs', reason='visualization_msgs is not installed')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from geometry_msgs.msg import Point, PoseStamped  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from visualization_msgs.msg import Marker, MarkerArray  # noqa: E402

from arm import PANDA  # noqa: E402
from capsules import panda_clearance, shapes_file  # noqa: E402
from clear_rig import ClearRig  # noqa: E402
from common import naming  # noqa: E402
from node_rig import given, READY, Rig, ROBOT, set_live, SUCCESS, target  # noqa: E402
from osc_ros import Obstacle  # noqa: E402
from osc_ros.collision.obstacles import MOST_OBSTACLES  # noqa: E402
from osc_ros.control.limits.attached import MOST_THINGS, thing_shapes  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402

RATE = 250.0  # as few messages in lockstep as the gains allow [Hz]


def marker(name='box/0', position=(0.6, 0.3, 0.5), scale=(0.1, 0.1, 0.1), kind=Marker.CUBE,
           frame='panda_link0', stamp=0.0, **options):
    """Return a marker."""
    namespace, _, number = name.rpartition('/')
    found = Marker(ns=namespace, id=int(number), type=kind, **options)
    found.header.frame_id, found.header.stamp = frame, messages.stamp(stamp)
    p, s = found.pose.position, found.scale
    p.x, p.y, p.z = map(float, position)
    s.x, s.y, s.z = map(float, scale)
    return found


class Among(Rig):
    """A controller among obstacles, with records of its answers and diagnostics."""

    def __init__(self, spin, tmp_path, **parameters):
        super().__init__(spin, **{'clearance__margin': 0.02,
                                  'clearance__shapes': shapes_file(tmp_path)} | parameters)
        self.answers, self.told, self._count = [], [], 0
        listen = self.hardware.create_subscription
        listen(DiagnosticStatus, 'osc_controller/answers', self.answers.append, 100)
        listen(DiagnosticArray, '/diagnostics',
               lambda message: self.told.append(message.status[0]), 10)
        self.markers = self.hardware.create_publisher(MarkerArray, 'osc_controller/obstacles', 10)

    def find(self):
        self.spin(lambda: self.markers.get_subscription_count()
                  and self.hardware.count_publishers('osc_controller/answers'))
        return self

    @property
    def engine(self):
        return self.controller._loop.engine

    @property
    def obstacles(self):
        return self.engine.law.obstacles

    def send(self, *markers):
        """Publish markers; return level and text of the answer."""
        self._count += 1
        label = messages.stamp(1000.0 + self._count)
        markers[0].header.stamp = label
        self.markers.publish(MarkerArray(markers=list(markers)))

        def answers():
            return [one for one in self.answers if any(
                (pair.key, pair.value) == ('stamp', messages.label_of(label))
                for pair in one.values)]

        self.spin(answers, why='for an answer')
        [found] = answers()
        assert found.name == 'obstacles'
        return found.level, found.message

    def values(self, **wanted):
        """Wait for diagnostics with these values; return all values."""
        def found():
            self.controller._diagnosis.publish_status()
            return [values for one in self.told if wanted.items() <= (
                values := {pair.key.replace(' ', '_'): pair.value for pair in one.values}).items()]

        self.told.clear()
        self.spin(found, why=f'for diagnostics with {wanted}')
        return found()[-1]


def test_markers_become_obstacles_and_bad_ones_are_answered_by_name(spin, tmp_path):
    rig = Among(spin, tmp_path)
    rig.activate()
    rig.find()
    assert rig.send(marker(), marker('ball/3', kind=Marker.SPHERE, frame='panda_link7')) == (
        DiagnosticStatus.OK, '')
    assert set(rig.obstacles) == {'box/0', 'ball/3'}
    level, text = rig.send(marker('new/0'), marker('box/0', frame='moon'),
                           marker('box/1', scale=(0.0, 1.0, 1.0)))
    assert level == DiagnosticStatus.WARN
    assert re.search(naming("'box/0'", 'moon', 'give', "'box/1'", 'must be'), text)
    assert set(rig.obstacles) == {'box/0', 'ball/3', 'new/0'}
    rig.until_said("marker 'box/0' refused")
    values = rig.values(obstacles='3', obstacles_refused='2', obstacles_left_out='0')
    assert "'box/1'" in values['last_refused_obstacle']
    rig.send(marker('/0', action=Marker.DELETEALL))
    assert not rig.obstacles
    rig.ask()


def test_of_many_markers_the_nearest_count_and_the_log_says_so_once(spin, tmp_path):
    rig = Among(spin, tmp_path)
    rig.activate()
    rig.find()
    many = [marker(f'a/{k}', (1.0 + 0.01 * k, 0.0, 0.5), (0.01,) * 3) for k in range(2000)]
    for _ in range(2):
        assert rig.send(*many) == (DiagnosticStatus.OK, '')
    assert set(rig.obstacles) == {f'a/{k}' for k in range(MOST_OBSTACLES)}
    rig.values(obstacles=str(MOST_OBSTACLES), obstacles_left_out=str(2000 - MOST_OBSTACLES))
    assert spin.said('obstacles are left out')
    assert not spin.said('obstacles are left out', 2)
    rig.ask()


def test_near_pair_is_named_and_touch_and_margin_change_live(spin, tmp_path):
    rig = Among(spin, tmp_path)
    rig.activate()
    rig.find()
    rig.send(marker('table/0', (0.307, 0.0, 0.25), (0.2, 0.2, 0.36)))
    rig.ask()
    values = rig.values(nearest_pair='panda_hand table/0')
    assert 30.0 < float(values['nearest_distance_[mm]']) < 50.0
    assert not set_live(rig, obstacles__touch=['table'])
    assert rig.obstacles['table/0'].touch
    assert not set_live(rig, clearance__margin=0.0)
    assert rig.engine.law.settings.clearance is None
    assert not set_live(rig, clearance__margin=0.03, clearance__fence__lower=[-1.0] * 3,
                        clearance__fence__upper=[1.0] * 3,
                        clearance__fence__planes=[0.0, 1.0, 0.0, -0.5])
    assert rig.engine.law.settings.clearance.fence.shape == (7, 4)
    assert set(rig.obstacles) == {'table/0'}


def things(rig):
    """Return the names of the things that links hold, with their links."""
    clear = rig.engine.law.settings.clearance
    return {one.attached: one.link for one in clear.shapes if one.attached}


def test_marker_locked_to_a_link_is_held_and_let_go_and_live_changes_keep_it(spin, tmp_path):
    rig = Among(spin, tmp_path)
    rig.activate()
    rig.find()
    cup = ('cup/0', (0.0, 0.0, 0.13), (0.06, 0.06, 0.1))
    rig.send(marker('cup/0', (0.5, 0.3, 0.5)), marker('box/0'))
    held = marker(*cup, frame='panda_hand', frame_locked=True)
    for _ in range(2):  # a publisher repeats its markers
        assert rig.send(held) == (DiagnosticStatus.OK, '')
        assert (things(rig), set(rig.obstacles)) == ({'cup/0': 'panda_hand'}, {'box/0'})
        setup = rig.engine.law.setup
        assert rig.send(held)[0] == DiagnosticStatus.OK
        assert rig.engine.law.setup is setup
    rig.ask()
    rig.values(things_on_links='cup/0', obstacles='1')
    for parameters in ({'clearance__margin': 0.03}, {'clearance__margin': 0.0},
                       {'obstacles__touch': ['cup']}, {'clearance__margin': 0.02}):
        assert not set_live(rig, **parameters)
    assert things(rig) == {'cup/0': 'panda_hand'}
    many = [marker(f'a/{k}', *cup[1:], frame='panda_hand', frame_locked=True, kind=Marker.SPHERE)
            for k in range(MOST_THINGS)]
    level, text = rig.send(*many)
    assert level == DiagnosticStatus.WARN
    assert re.search(naming(f"'a/{MOST_THINGS - 1}'", 'give at most'), text)
    assert len(things(rig)) == MOST_THINGS
    rig.send(marker('a/0', action=Marker.DELETEALL))
    assert rig.send(marker('cup/0', (0.5, 0.3, 0.5))) == (DiagnosticStatus.OK, '')
    assert (things(rig), set(rig.obstacles)) == ({}, {'cup/0', 'box/0'})
    rig.send(held)
    rig.send(marker('cup/0', action=Marker.DELETE))
    assert (things(rig), set(rig.obstacles)) == ({}, {'box/0'})
    rig.ask()


@pytest.mark.parametrize(('bad', 'text'), [
    ({'clearance__fence__lower': [-1.0, -1.0, 1.0]},
     naming('the fence', "excludes the joint 'panda_joint1'")),
    ({'clearance__fence__planes': [1.0] * 3}, naming('clearance.fence.planes', 'four for each')),
    ({'clearance__margin': 0.0, 'clearance__fence__planes': [0.0, 0.0, 1.0, 0.0]},
     naming('clearance.margin', 'with a fence it must be more than 0 m')),
    ({'clearance__margin': 2.0}, naming('clearance.margin', '1'))])
def test_bad_clearance_is_refused_with_what_is_accepted(spin, tmp_path, bad, text):
    rig = Among(spin, tmp_path)
    assert rig.controller.trigger_configure() == SUCCESS
    assert re.search(text, set_live(rig, **bad))


def test_one_side_of_the_fence_may_be_set_alone(spin, tmp_path):
    rig = Among(spin, tmp_path)
    assert rig.controller.trigger_configure() == SUCCESS
    for side, value in (('lower', -1.0), ('upper', 2.0)):
        assert set_live(rig, **{f'clearance__fence__{side}': [value] * 3}) == ''
    assert len(rig.controller._law.settings.clearance.fence) == 6


class Simulated(Among):
    """A controller and a simulated Panda without friction, in lockstep, in this process."""

    def __init__(self, spin, tmp_path, simulated=None, rate=RATE, **parameters):
        super().__init__(spin, tmp_path, rate=rate, **parameters)
        assert self.controller.trigger_configure() == SUCCESS
        self.simulator = Simulator(parameter_overrides=given(
            **ROBOT, rate=rate, initial_positions=READY.tolist(), lockstep=True,
            lockstep_timeout=3600.0, friction=[0.0] * 7, damping=[0.0] * 7, **(simulated or {})))
        self.hardware.destroy_publisher(self.hardware.states)
        self.states = []
        self.hardware.create_subscription(JointState, 'joint_states', self.states.append, 1000)
        self.reached = []
        self.hardware.create_subscription(
            PoseStamped, 'osc_controller/goal_reached', self.reached.append, 10)
        spin(lambda: self.controller._state_age() < 1.0, self.simulator, why='for a state')
        assert self.controller.trigger_activate() == SUCCESS
        self.find()

    def least_distance(self, clearance, obstacles):
        """Return the smallest distance that MuJoCo finds at the joint states so far [m]."""
        judge = ClearRig(PANDA.urdf_text, self.engine.law.robot, clearance, obstacles, False)
        model, data, least = judge.simulation.plant.model, judge.simulation.plant.data, np.inf
        for state in self.states[::5]:
            assert list(state.name) == list(self.engine.law.robot.joint_names)
            data.qpos[:7] = state.position
            mujoco.mj_kinematics(model, data)
            least = min(least, *judge.distances().values())
        return least


@pytest.mark.parametrize('margin', [0.02, 0.0])
def test_arm_goes_to_a_goal_behind_a_box_without_a_contact(spin, tmp_path, margin):
    rig = Simulated(spin, tmp_path, clearance__margin=margin)
    place, size = (0.34, 0.2, 0.44), (0.1, 0.1, 0.1)
    rig.send(marker('box/0', place, size))
    rig.hardware.poses.publish(target((0.407, 0.4, 0.467)))
    rig.spin(lambda: rig.reached, why='for the goal')
    least = rig.least_distance(panda_clearance(tmp_path), {'box': Obstacle.at('box', size, place)})
    assert least > 0.8 * margin if margin else least < -0.01  # without it, the arm hits the box


def test_thing_that_the_hand_holds_keeps_clear_of_a_box(spin, tmp_path):
    rig = Simulated(spin, tmp_path)
    place, size = (0.307, 0.0, 0.2), (0.2, 0.2, 0.1)
    rig.send(marker('box/0', place, size))
    rod = Obstacle.at('capsule', (0.02, 0.1), (0.0, 0.0, 0.16), link='panda_hand')
    message = marker('rod/0', (0.0, 0.0, 0.16), (0.04, 0.0, 0.0), Marker.LINE_STRIP,
                     'panda_hand', frame_locked=True)
    message.points = [Point(z=-0.05), Point(z=0.05)]
    rig.send(message)
    goal = target((0.307, 0.0, 0.32))  # the rod would be in the box
    rig.hardware.poses.publish(goal)
    rig.spin(lambda: any(one.holds and one.link == 'rod/0' for one in
                         rig.engine.law.limiter.near), why='for the box to hold the rod off')
    held = replace(panda_clearance(tmp_path), shapes=panda_clearance(tmp_path).shapes
                   + thing_shapes('rod', rod, rig.engine.law.robot))
    least = rig.least_distance(held, {'box': Obstacle.at('box', size, place)})
    assert least > 0.8 * 0.02
    rig.values(held_off_by='rod/0 box/0')


def test_goal_in_an_obstacle_has_a_reason_in_the_diagnostics(spin, tmp_path):
    rig = Simulated(spin, tmp_path)
    rig.send(marker('box/0', (0.5, 0.0, 0.487)))
    rig.hardware.poses.publish(target((0.5, 0.0, 0.487)))
    rig.spin(lambda: any(one.holds for one in rig.engine.law.limiter.near),
             why='for the box to hold the arm off')
    values = rig.values(held_off_by='panda_hand box/0')
    assert "the goal is 50 mm deep in 'box/0'" in values['reason_obstacle']


def test_simulator_publishes_its_world_as_obstacles(spin, tmp_path):
    rig = Simulated(spin, tmp_path, {
        'world.obstacles': True, 'world.table.size': [0.6, 1.0, 0.04],
        'world.table.position': [0.5, 0.0, 0.1], 'world.ball.radius': 0.05,
        'world.ball.position': [0.5, 0.3, 0.6]})
    rig.spin(lambda: {'table/0', 'ball/0'} <= set(rig.obstacles)
             and rig.obstacles['ball/0'].velocity[5] < -0.5, why='for the falling ball')
    assert rig.obstacles['table/0'].size == (0.6, 1.0, 0.04)
    assert rig.obstacles['ball/0'].size == (0.05,)


def test_three_publishers_of_obstacles_around_a_joint_motion_neither_throw_nor_shake_the_arm(
        spin, tmp_path):
    rig = Simulated(spin, tmp_path, rate=500.0)
    random, robot = np.random.default_rng(1), rig.engine.law.robot
    publishers = [rig.hardware.create_publisher(MarkerArray, 'osc_controller/obstacles', 10)
                  for _ in range(3)]
    goals = rig.hardware.create_publisher(JointState, 'osc_controller/target_joint', 10)
    spin(lambda: goals.get_subscription_count() and all(
        one.get_subscription_count() for one in publishers), why='for the controller')
    assert not set_live(rig, mode='joints')

    def publish(state):
        """Publish, 100 times a second of the simulation, boxes that appear beside the arm."""
        if len(rig.states) % 5:
            return
        for k, one in enumerate(publishers):
            one.publish(MarkerArray(markers=[marker(
                f'{k}/{i}', random.uniform((0.1, -0.5, 0.1), (0.7, 0.5, 0.9)), (0.06,) * 3,
                stamp=began + 0.002 * len(rig.states))
                for i in range(random.integers(1, 8))]))

    began = rig.hardware.get_clock().now().nanoseconds * 1e-9
    rig.hardware.create_subscription(JointState, 'joint_states', publish, 1000)
    for _ in range(4):
        goal = np.clip(READY + random.uniform(-0.8, 0.8, 7), *(robot.position_limits.T + np.outer(
            (0.1, -0.1), np.ones(7))))
        goals.publish(JointState(name=robot.joint_names, position=goal.tolist()))
        last = len(rig.states) + 500
        spin(lambda last=last: len(rig.states) > last, why='for states')
    assert len(rig.obstacles) > 3
    torques = np.array([one.data for one in rig.hardware.commands])
    steps = np.abs(np.diff(torques, axis=0) / robot.effort_limits).max(axis=1)
    fastest = max(np.abs(np.array(one.velocity) / robot.velocity_limits).max()
                  for one in rig.states)
    assert fastest <= 1.05
    assert steps.max() < 0.03
