# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Sliders of the joints, and the button home: what they show, and what they publish."""

import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip('viser', reason="viser is not installed: pip install '.[viewer]'")

import browser as chromium
from browser import free_port, needs_browser
from common import CHECKOUT
from osc_ros import Robot
from osc_ros.viewer.scene.reading import OK
from osc_ros.viewer.text import short_names
from viewer_readings import reading_of, READY

STAND_IN = CHECKOUT / 'test' / 'support' / 'viewer_stand_in.py'
SLIDE = """<robot name="slide"><link name="base"/><link name="tip"><inertial><mass value="1"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="slide" type="prismatic"><parent link="base"/><child link="tip"/><axis xyz="0 0 1"/>
<limit lower="-0.1005" upper="0.4" effort="10" velocity="1"/></joint></robot>"""
OFFERS = frozenset({'joints', 'lifecycle'})


def sliders_of(page):
    return {name: one.handle for name, one in page._parts[2]._sliders.items()}


def test_sliders_show_the_joints_within_their_limits_and_request_one_joint(page, asked, panda):
    robot, reading = panda[1], reading_of(panda, offers=OFFERS)
    page.update(reading)
    sliders = sliders_of(page)
    assert list(sliders) == list(robot.joint_names)
    for (name, slider), q, (low, high) in zip(sliders.items(), READY, robot.position_limits):
        assert slider.value == pytest.approx(q, abs=0.51 * slider.step)
        assert low <= slider.min < slider.max <= high, name
        assert not slider.disabled
    reading.q = READY + 0.1
    page.update(reading)
    assert sliders['panda_joint2'].value == pytest.approx(-0.685, abs=0.51 * 0.01)
    assert asked.calls == []  # showing a position requests none
    sliders['panda_joint4']._impl.value = -2.0  # as viser does for a user
    page.update(reading)
    page.update(reading)
    assert asked.calls == [('move_joints', {'panda_joint4': -2.0})]
    assert sliders['panda_joint4'].value == -2.0  # until it has settled


def test_sliders_and_home_are_off_without_a_controller_that_moves_joints(page, panda):
    reading = reading_of(panda, home=READY, level=OK)
    page.update(reading)
    assert all(one.disabled for one in sliders_of(page).values())
    home = page._parts[0]._home
    assert home.disabled
    reading.offers = OFFERS
    page.update(reading)
    assert not home.disabled
    assert '-2.36' in home.hint
    reading.home = None
    page.update(reading)
    assert home.disabled


def test_slider_of_a_prismatic_joint_has_metres_and_one_outside_its_limits_is_widened(page):
    text = SLIDE
    robot = Robot.from_urdf(text, 'base', 'tip')
    reading = reading_of((text, robot), q=np.zeros(1), offers=OFFERS)
    page.update(reading)
    assert page._parts[2]._folder.label == 'Joints [rad, m]'
    slider = sliders_of(page)['slide']
    assert (slider.min, slider.max, slider.step) == (-0.1, 0.4, 0.001)
    reading.q = np.array([0.7])
    page.update(reading)
    assert (slider.value, slider.max) == (0.7, 0.7)


@pytest.mark.parametrize(('names', 'short'), (
    (('panda_joint1', 'panda_joint2'), ('joint1', 'joint2')),
    (('shoulder_pan_joint', 'elbow_joint'), ('shoulder_pan', 'elbow')),
    (('joint_1', 'joint_2'), ('joint_1', 'joint_2')),
    (('arm_joint', 'arm_x_joint'), ('arm_joint', 'arm_x_joint')),
    (('slide',), ('slide',)), ((), ())))
def test_names_of_joints_are_shown_without_their_common_words(names, short):
    assert short_names(names) == short


# in a browser, and over ROS


@needs_browser
def test_browser_that_shows_a_moving_arm_requests_no_motion(page, asked, panda):
    with chromium.browser() as tab:
        tab.open(f'http://127.0.0.1:{page.port}/', 1400, 850)
        reading = reading_of(panda, offers=OFFERS)
        field = chromium.FIELD_OF % '"joint2"' + '.value'

        def show(q, text):
            reading.q = q
            deadline = time.monotonic() + chromium.PATIENCE
            while not tab.value(f'document.querySelector("label") && {field} === "{text}"'):
                page.update(reading)
                assert time.monotonic() < deadline, 'the slider does not show the position'
                time.sleep(0.03)

        tab.wait_for("document.querySelector('canvas') !== null")
        page.update(reading)
        tab.wait_for("document.body.innerText.includes('joint2')")
        for k in range(40):
            reading.q = READY + 0.00731 * k
            page.update(reading)
            time.sleep(0.02)
        show(READY + np.array([0.0, 0.333, 0.0, 0.0, 0.0, 0.0, 0.0]), '-0.45')
        assert [one for one in asked.calls if one[0] != 'push'] == []
        assert tab.errors == []


@pytest.fixture
def target(spin):
    """Return a node, and the messages on ~/target_joint of the controller."""
    from rclpy.node import Node
    from sensor_msgs.msg import JointState
    node, heard = Node('joints_of_a_test'), []
    node.create_subscription(JointState, 'osc_controller/target_joint', heard.append, 10)
    return node, heard


@pytest.fixture
def stand_in():
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    process = subprocess.Popen([sys.executable, str(STAND_IN)], stdin=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def test_link_publishes_positions_of_some_joints_and_the_posture_home(spin, stand_in, target):
    from rclpy.node import Node

    from osc_ros.ros.viewer.viewer_link import ControllerLink
    from osc_ros.ros.viewer.viewer_node import Requests
    subscriber, heard = target
    node, states = Node('osc_viewer'), Node('_osc_viewer_states')
    link, requests = ControllerLink(node, states, 'osc_controller', 'osc_simulator'), Requests()
    reading = link.reading
    link.listen(True)

    def wait(happened, why):
        def check():
            link.update()
            requests.carry_out(link)
            return happened()
        spin(check, node, subscriber, why=why)

    wait(lambda: reading.home is not None and 'joints' in reading.offers, 'for the robot')
    assert reading.home == pytest.approx(READY)  # without a simulator: the first positions
    requests.move_joints({'panda_joint4': -2.0})
    requests.move_joints({'panda_joint4': -1.9})
    requests.move_joints({'panda_joint2': 0.1})
    wait(lambda: heard, 'for the joints')
    assert dict(zip(heard[0].name, heard[0].position)) == {
        'panda_joint4': -1.9, 'panda_joint2': 0.1}  # the newest of each, in one message
    assert len(heard[0].velocity) == len(heard[0].effort) == 0
    heard.clear()
    requests.call('home')
    wait(lambda: heard, 'for home')
    assert list(heard[0].name) == list(reading.robot.joint_names)
    assert list(heard[0].position) == pytest.approx(READY)
    link.listen(False)
    states.destroy_node()


def test_home_is_where_the_simulator_started(spin, stand_in):
    from rclpy.node import Node

    from osc_ros.ros.viewer.viewer_link import ControllerLink
    node, states = Node('osc_viewer'), Node('_osc_viewer_states')
    simulator = Node('osc_simulator')
    start = (READY + 0.2).tolist()
    simulator.declare_parameter('initial_positions', start)
    link = ControllerLink(node, states, 'osc_controller', 'osc_simulator')

    def has_home():
        link.update()
        return link.reading.home is not None and list(link.reading.home) == start

    spin(has_home, node, simulator, why='for the initial positions')
    states.destroy_node()


@needs_browser
def test_slider_and_button_in_a_browser_publish_joint_states(spin, stand_in, target, start):
    subscriber, heard = target
    port = free_port()
    start('viewer', '--port', port)

    def wait(happened, why):
        spin(happened, subscriber, why=why)

    with chromium.browser() as tab:
        def is_open():
            try:
                tab.open(f'http://127.0.0.1:{port}/', 1400, 850)
            except AssertionError:
                return False
            return tab.value("document.querySelector('canvas') !== null")

        wait(is_open, 'for the page')
        home = '[...document.querySelectorAll("button")].find(e => e.textContent === "home")'
        wait(lambda: tab.value(f'{home} !== undefined && !{home}.disabled'), 'for the arm')
        tab.set_slider('joint4', -2.1)
        wait(lambda: heard, 'for the slider')
        assert (list(heard[-1].name), list(heard[-1].position)) == (['panda_joint4'], [-2.1])
        heard.clear()
        tab.press('home')
        wait(lambda: heard, 'for the button')
        assert sorted(heard[-1].name) == [f'panda_joint{i}' for i in range(1, 8)]
        assert dict(zip(heard[-1].name, heard[-1].position))['panda_joint4'] == pytest.approx(
            -2.356)
        assert tab.errors == []
