# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_teach: a hand guides the simulated arm over ROS, its path is recorded and played back."""

from contextlib import closing
import json
import re
from threading import Thread
from time import sleep

import numpy as np
import pytest
import yaml

from arm import READY
from osc_ros import Robot, shipped_urdf
from osc_ros.errors import InputError
from osc_ros.tools.teach.taught import load, require_robot, save, taught_path, taught_poses
from osc_ros.tools.teach.taught_bag import write_mcap
from osc_ros.tools.teach.teach_command import _options, EXAMPLE, main

PANDA = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')


def swing(robot=PANDA, q=READY, amplitude=0.2):
    """Return a path: the first joint turns after 1 s of standing."""
    times = np.arange(0.0, 4.0, 0.002)
    rows = np.tile(q, (len(times), 1))
    rows[:, 0] += amplitude * np.sin(np.clip(times - 1.0, 0.0, 2.0))
    return taught_path(robot, times, rows)


@pytest.fixture
def file(tmp_path):
    """Return a file of a path."""
    save(swing(), tmp_path / 'swing.yaml')
    return tmp_path / 'swing.yaml'


def test_path_is_trimmed_and_survives_its_file(file):
    path, found = swing(), load(file)
    assert path.times[-1] == pytest.approx(2.0 + 2 * 0.2, abs=0.05)  # without the standing
    assert 1.0 / np.diff(path.times).mean() == pytest.approx(20.0, rel=0.05)
    assert np.ptp(path.q[:, 0]) == pytest.approx(0.2, abs=1e-3)
    for name in ('times', 'q', 'poses'):
        np.testing.assert_allclose(getattr(found, name), getattr(path, name), atol=3e-9)
    require_robot(found, PANDA)
    with pytest.raises(InputError, match='not move'):
        taught_path(PANDA, np.arange(10.0), np.tile(READY, (10, 1)))
    with pytest.raises(InputError, match='no pose'):
        taught_poses(PANDA, np.empty(0), np.empty((0, 7)))


def test_file_has_the_layout_of_the_ros_messages(file):
    messages = pytest.importorskip('trajectory_msgs.msg')
    geometry = pytest.importorskip('geometry_msgs.msg')
    content = yaml.safe_load(file.read_text())

    def fill(message, values):
        """Set every field as `ros2 topic pub` would; a name that no field has raises."""
        for name, value in values.items():
            field = getattr(message, name)
            if isinstance(value, dict):
                fill(field, value)
            elif name in ('points', 'transforms'):
                kind = (geometry.Transform if name == 'transforms' else
                        getattr(messages, type(message).__name__ + 'Point'))
                setattr(message, name, [fill(kind(), one) for one in value])
            else:
                setattr(message, name, value)
        return message

    joints = fill(messages.JointTrajectory(), content['joint_trajectory'])
    tips = fill(messages.MultiDOFJointTrajectory(), content['multi_dof_joint_trajectory'])
    assert len(joints.points) == len(tips.points) == content['osc_teach']['points']
    assert tips.header.frame_id == 'panda_link0' and tips.joint_names == ['panda_hand_tcp']
    np.testing.assert_allclose(joints.points[3].positions, swing().q[3], atol=1e-8)


def test_mcap_file_has_both_trajectories_and_the_states(tmp_path):
    reader = pytest.importorskip('mcap_ros2.reader')
    path = swing()
    write_mcap(path, tmp_path / 'swing.mcap')
    found = list(reader.read_ros2_messages(str(tmp_path / 'swing.mcap')))
    by_topic = {topic: [one.ros_msg for one in found if one.channel.topic == topic]
                for topic in {one.channel.topic for one in found}}
    assert {topic: len(all_) for topic, all_ in by_topic.items()} == {
        '/taught/joint_trajectory': 1, '/taught/trajectory': 1,
        '/joint_states': len(path.times), '/taught/pose': len(path.times)}
    last = by_topic['/taught/trajectory'][0].points[-1].transforms[0].translation
    np.testing.assert_allclose([last.x, last.y, last.z], path.poses[-1, :3, 3], atol=1e-8)
    np.testing.assert_allclose(by_topic['/joint_states'][5].position, path.q[5], atol=1e-8)


def edited(text, change):
    content = yaml.safe_load(text)
    change(content)
    return yaml.safe_dump(content)


@pytest.mark.parametrize(('damage', 'message'), [
    (lambda text: text[:len(text) // 3], 'is cut short'),
    (lambda text: text[:-400], 'is cut short'),
    (lambda text: text[:text.rindex('  - transforms')], 'the file is cut short'),
    (lambda text: 'kitchen: 1', 'is cut short or not of osc_teach'),
    (lambda text: edited(text, lambda c: c['osc_teach'].update(version=2)), 'version 2'),
    (lambda text: edited(text, lambda c: c['joint_trajectory']['points'][3]['positions'].pop()),
     'is cut short or not of osc_teach'),
    (lambda text: edited(text, lambda c: c['joint_trajectory']['points'][3].update(
        positions=[float('nan')] * 7)), '7 finite numbers'),
    (lambda text: edited(text, lambda c: c['joint_trajectory']['points'][3][
        'time_from_start'].update(sec=9)), 'increase from 0'),
], ids=('third', 'end', 'line', 'other', 'version', 'joint', 'nan', 'times'))
def test_file_that_is_damaged_is_refused(file, damage, message, capsys):
    file.write_text(damage(file.read_text()))
    with pytest.raises(SystemExit) as caught:
        main(['show', str(file)])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_file_that_is_cut_anywhere_is_refused(file):
    text = file.read_text()
    for end in {*range(0, len(text), 211), *range(len(text) - 150, len(text) - 1)}:
        file.write_text(text[:end])
        with pytest.raises(InputError):
            load(file)


def test_path_of_another_arm_or_tool_is_refused(file):
    path = load(file)
    other = Robot.from_urdf(shipped_urdf('ur5e'), 'base_link', 'tool0')
    with pytest.raises(InputError, match='panda_link0.*(give|must be).*base_link.*ur5e'):
        require_robot(path, other)
    longer = shipped_urdf('panda').read_text().replace('0 0 0.1034', '0 0 0.1434')
    tool = Robot.from_urdf(longer, 'panda_link0', 'panda_hand_tcp')
    with pytest.raises(InputError, match=r'tool.*40\.0 mm'):
        require_robot(path, tool)


@pytest.mark.parametrize('bad', [['--speed', '0'], ['--speed', 'nan'], ['--pause', '-1']])
def test_numbers_that_make_no_sense_are_refused(bad, capsys):
    with pytest.raises(SystemExit) as caught:
        main(['play', 'swing.yaml', *bad])
    assert caught.value.code == 2 and f'{bad[0]}' in capsys.readouterr().err


@pytest.mark.parametrize(
    'line', re.findall(r'^  osc_teach (.*?)(?:   .*)?$', EXAMPLE, re.MULTILINE))
def test_every_example_of_the_help_is_understood(line):
    options = _options(line.split())
    assert options.file.suffix == '.yaml'
    assert options.poses == ('--poses' in line)


rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import WrenchStamped  # noqa: E402
from rclpy.node import Node  # noqa: E402

from ros_arm import RosArm  # noqa: E402


class Guided:
    """A simulated arm and its controller in lockstep, and a hand that pushes by messages."""

    def __init__(self, ros):
        """Start nodes and threads; the commands have another order than the recorded joints."""
        joints = list(reversed(PANDA.joint_names))
        self.arm = RosArm(ros, {'joint_order': joints}, rate=500.0, joint_order=joints)
        self.plant = self.arm.nodes[0]._plant
        self.node, self.begin, self.goes_on = Node('hand'), np.inf, True
        self.is_ready = False  # to push as soon as the arm is in free drive
        self.pushes = self.node.create_publisher(WrenchStamped, 'osc_simulator/push', 10)
        self.way = []
        self.thread = Thread(target=self._push, daemon=True)
        self.thread.start()

    def _push(self):
        """Push along y, then up, from the time `begin` on; note where the tip is."""
        controller = self.arm.nodes[1]
        while self.goes_on:
            if self.is_ready and controller.get_parameter('mode').value == 'free':
                self.is_ready, self.begin = False, self.plant.time + 1.0
            since = self.plant.time - self.begin
            message = WrenchStamped()
            message.header.frame_id = 'panda_link0'
            if 0.0 < since < 0.6:
                message.wrench.force.y = 10.0
            elif 0.6 < since < 1.2:
                message.wrench.force.z = 10.0
            if 0.0 < since < 1.5:
                self.way.append(self.tip())
                self.pushes.publish(message)
            sleep(0.01)

    def tip(self):
        T = self.arm.nodes[0]._plant.in_base(np.eye(4))
        body = self.plant.data.body('panda_hand_tcp').xpos
        return T[:3, :3] @ body + T[:3, 3]

    def close(self):
        self.goes_on = False
        self.thread.join()
        self.node.destroy_node()
        self.arm.close()


@pytest.fixture(scope='module')
def hand(ros):
    hand = Guided(ros)
    yield hand
    hand.close()


def run(*arguments):
    """Run osc_teach; return its exit status."""
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments), '--yes', '--timeout', '120'])
    return caught.value.code


def test_guided_path_is_recorded_and_played_back(hand, tmp_path, capsys):
    file = tmp_path / 'guided.yaml'
    while hand.plant.time < 0.2:
        sleep(0.01)
    start = hand.tip()
    hand.is_ready = True
    assert run('record', file, '--duration', '2.5', '--mcap') == 0, capsys.readouterr().err
    assert file.with_suffix('.mcap').exists()
    path = load(file)
    moved = path.poses[-1, :3, 3] - start
    assert moved[1] > 0.03 and moved[2] > 0.03
    # the file has the way of the tip in MuJoCo
    for place in hand.way[::5]:
        assert np.linalg.norm(path.poses[:, :3, 3] - place, axis=1).min() < 8e-3
    said = capsys.readouterr().out
    assert 'free drive is off: the arm holds' in said and 'written' in said
    assert run('play', file) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert re.search(r"first move to the start, 'panda_joint\d' by -?\d\.\d\d rad", said)
    away = float(said.split('the tip was at most ')[1].split(' mm')[0])
    assert away < 3.0
    np.testing.assert_allclose(hand.tip(), path.poses[-1, :3, 3], atol=2e-3)

    # refused before anything moves: too fast, another arm, a file that is there
    there = hand.tip()
    assert run('play', file, '--speed', '10') == 2
    assert '--speed' in capsys.readouterr().err
    file.write_text(file.read_text().replace('panda_joint7', 'kitchen_joint'))
    assert run('play', file) == 2
    assert 'it was recorded with another arm' in capsys.readouterr().err
    assert run('record', file) == 2
    assert 'exists: give the name of a new file' in capsys.readouterr().err
    np.testing.assert_allclose(hand.tip(), there, atol=1e-3)


def test_playback_starts_at_the_recorded_joints_from_a_folded_posture_at_limits(hand, file):
    import osc_ros
    from osc_ros.tools.teach.teach_session import Session
    lower, upper = PANDA.position_limits.T
    folded = np.array([1.5, lower[1], -1.0, lower[3], 1.5, upper[5], -1.0])
    with osc_ros.Arm.ros(timeout=120.0) as arm:
        arm.move_joints(dict(zip(PANDA.joint_names, folded)))
    taught = load(file)
    with closing(Session('osc_controller', 120.0)) as session:
        np.testing.assert_allclose(session.state()[1], folded, atol=3e-3)
        plan = session.plan(taught, 1.0)
        session.go_to_start(plan)
        np.testing.assert_allclose(session.state()[1], taught.q[0], atol=2e-3)
        away, turn = session.play_path(plan)
        assert away < 3e-3 and turn < 0.02
        np.testing.assert_allclose(session.state()[1], taught.q[-1], atol=0.02)


@pytest.mark.slow
def test_poses_are_recorded_by_lines_and_by_the_service_and_played(hand, tmp_path, capsys,
                                                                   monkeypatch):
    import sys

    from std_srvs.srv import Trigger
    file, node = tmp_path / 'poses.yaml', hand.node
    client = node.create_client(Trigger, '/osc_teach/mark')

    def lines():
        """Two Enters, an undo, a wrong line, a mark by the service, the end."""
        def wait(seconds):
            until = hand.plant.time + seconds
            while hand.plant.time < until:
                sleep(0.01)

        for line in ('\n', '\n', 'u\n', 'x\n'):
            yield line
            wait(0.1)
        hand.begin = hand.plant.time
        wait(1.5)
        while not client.service_is_ready():
            sleep(0.01)
        client.call_async(Trigger.Request())
        wait(1.0)
        yield 'q\n'

    monkeypatch.setattr(sys, 'stdin', lines())
    assert run('record', file, '--poses') == 0
    said = capsys.readouterr().out
    assert said.count('pose 2: ') == 2 and "'x': give Enter, u or q" in said
    found = load(file)
    assert found.kind == 'poses' and len(found.times) == 2
    assert run('play', file, '--pause', '0.1') == 0
    assert 'from a pose when it rested there' in capsys.readouterr().out
    np.testing.assert_allclose(hand.tip(), found.poses[-1, :3, 3], atol=3e-3)


def test_without_a_controller_it_says_what_to_start(ros, file, capsys, tmp_path):
    figures = tmp_path / 'figures.json'
    with pytest.raises(SystemExit) as caught:
        main(['play', str(file), '--controller', 'kitchen', '--timeout', '0.3', '--json',
              str(figures)])
    assert caught.value.code == 1
    said = capsys.readouterr().err
    assert "no controller '/kitchen' answers; start one" in said
    assert json.loads(figures.read_text())['problem'] in said
