# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_viewer: what its page shows, and what it asks of a controller; slow: in a real browser."""

import json
import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import browser as chromium
from common import CHECKOUT

pytest.importorskip('viser', reason="viser is not installed: pip install '.[viewer]'")

from browser import free_port, needs_browser
from osc_ros.collision.link_shapes import LinkShape, ShapeModel
from osc_ros.model.visuals import fingers, visuals
from osc_ros.viewer.banner import banner
from osc_ros.viewer.panel import messages_html, newest_distinct, state_html
from osc_ros.viewer.scene.push_handle import BESIDE
from osc_ros.viewer.scene.reading import ControlReport, ERROR, Follower, OK, Reading, Solid
from osc_ros.viewer.scene.shapes import body_shapes, capsules, collision_meshes
from osc_ros.viewer.scene.view_frames import displaced_pose
from osc_ros.viewer.viewer_page import Page, PageError
from viewer_readings import PANDA, reading_of, READY
from viewer_rig import Arm, drag, Film, open_page, pixel, READY_TEXT, wait_for_text

DOC = CHECKOUT / 'doc'
STAND_IN = CHECKOUT / 'test' / 'support' / 'viewer_stand_in.py'
# The banner has no warning, as of late updates on a busy machine.
IS_GREEN = ("getComputedStyle(document.querySelector('#osc-state')).backgroundColor === "
            "'rgb(47, 133, 90)'")
def test_arm_is_drawn_from_the_visual_elements_of_its_urdf(panda):
    text, robot = panda
    found = visuals(text)
    assert {one.link for one in found} >= {'panda_link0', 'panda_link4', 'panda_hand'}
    shapes, missing = body_shapes(robot, text, lambda uri: None)
    assert not missing
    assert shapes.keys() == set(range(-1, robot.n))


def test_arm_without_visual_elements_or_without_their_meshes_is_drawn_by_capsules(panda):
    _, robot = panda
    text = '<robot name="a"><link name="panda_link3"><visual><geometry><mesh filename="x.stl"/>' \
        '</geometry></visual></link></robot>'
    shapes, missing = body_shapes(robot, text, lambda uri: None)
    assert missing == ['x.stl']
    drawn = capsules(robot)
    assert {body: len(shape.faces) for body, shape in shapes.items()} == {
        body: len(shape.faces) for body, shape in drawn.items()}
    # the capsule of a body reaches the origin of the next one
    for body, T in enumerate(robot.T_parent_body[1:]):
        near = np.linalg.norm(drawn[body].vertices - T[:3, 3], axis=1).min()
        assert near < 0.07


def test_mesh_that_is_found_is_drawn_at_its_scale(panda, tmp_path):
    import trimesh
    _, robot = panda
    trimesh.creation.box(extents=(1.0, 1.0, 1.0)).export(tmp_path / 'x.stl')
    text = '<robot name="a"><link name="panda_link3"><visual><origin xyz="0 0 1"/><geometry>' \
        '<mesh filename="package://a/x.stl" scale="0.1 0.1 0.2"/></geometry></visual></link>' \
        '</robot>'
    shapes, missing = body_shapes(robot, text, lambda uri: tmp_path / 'x.stl')
    assert not missing
    assert shapes[2].bounds == pytest.approx(np.array([[-.05, -.05, .9], [.05, .05, 1.1]]))


def test_visual_elements_with_bad_numbers_are_left_out():
    text = '<robot name="a"><link name="l"><visual><geometry><box size="1 nan 1"/></geometry>' \
        '</visual><visual><geometry><sphere radius="0.1"/></geometry></visual></link></robot>'
    assert [one.kind for one in visuals(text)] == ['sphere']
    assert visuals('no XML') == []


def test_goal_is_at_the_distance_that_the_controller_reports():
    pose = np.eye(4)
    goal = displaced_pose(pose, np.array([0.0, 0.0, np.pi / 2, 0.1, 0.0, 0.0]))
    assert goal[:3, 3] == pytest.approx([0.1, 0.0, 0.0])
    assert goal[:3, :3] @ [1.0, 0.0, 0.0] == pytest.approx([0.0, 1.0, 0.0])


def test_reading_has_shares_near_limits_and_mobility(panda):
    robot = panda[1]
    q = READY.copy()
    q[3] = robot.position_limits[3, 1] - 0.01
    reading = reading_of(panda, q=q, terms={'bias': np.full(7, 10.0), 'tip': np.full(7, 2.0)},
                         Lambda=np.diag([2.0, 4.0, 5.0, 0.1, 0.1, 0.1]),
                         status={'least controlled share': '0.25',
                                 'weakest direction': 'shift x +1.00'})
    assert reading.torque_shares == pytest.approx(12.0 / robot.effort_limits)
    assert reading.near_limits() == {3: ('panda_joint4', pytest.approx(0.01))}
    assert sorted(reading.mobility[0]) == pytest.approx([0.2, 0.25, 0.5])
    text = state_html(reading)
    assert 'panda_joint4 (0.01 to go)' in text
    assert 'weakest direction: shift x' in text
    given = reading_of(panda, terms={'bias': np.full(7, 5.0)})
    given.parameters['limits.effort'] = [10.0] * 7
    assert given.torque_shares == pytest.approx(0.5)


def test_words_of_the_watchdogs_are_shown_and_repetitions_once():
    reading = Reading(lifecycle='active', control=ControlReport(
        level=ERROR, text='hold <b>', status={'watchdog overspeed': '2', 'watchdog jump': '0'}))
    reading.words.extend([('warning', 'took 0.1 s', '12:00:01'), ('error', 'jump', '12:00:02'),
                          ('warning', 'took 2 s', '12:00:03')])
    assert 'overspeed 2' in messages_html(reading)
    assert 'jump 0' not in messages_html(reading)
    assert '12:00:02 error:' in messages_html(reading)
    assert [one[:2] for one in newest_distinct(reading.words)] == [
        ('warning', 'took 2 s'), ('error', 'jump')]
    assert 'hold &lt;b&gt;' in banner(reading)
    reading.say('error', 'a < b and *c*')
    assert 'a &lt; b and *c*' in messages_html(reading)


def test_page_takes_the_next_port_and_refuses_an_address_of_another_machine(page, asked):
    second = Page('127.0.0.1', page.port, asked, lambda uri: None)
    try:
        assert second.port > page.port
    finally:
        second.close()
    with pytest.raises(PageError, match='(give|must be).*address'):
        Page('192.0.2.1', 8080, asked, lambda uri: None)


def test_controls_show_what_the_controller_has_and_request_what_a_user_asks(page, asked, panda):
    reading = reading_of(panda, followers=(
        Follower('elbow', 'panda_link4', False, (0.0, 0.0, 1.0)),))
    reading.refusals['task.activation'] = 'too much'
    page.update(reading)
    sliders = {name: one.handle for name, one in page._parts[1]._sliders.items()}
    assert sliders['translation.natural_frequency'].value == pytest.approx(50.0 / 3.0)
    assert sliders['translation.stiffness'].disabled
    assert '20 20 10' in page._parts[1]._note.content
    assert 'too much' in page._parts[1]._note.content
    for reading.parameters['mode'] in ('free', 'joints', 'acceleration'):
        page.update(reading)
        assert page._parts[1]._mode.handle.value == reading.parameters['mode']
    assert asked.calls == []  # showing a value sets none
    # as viser does for a user, long before it calls back
    sliders['translation.natural_frequency']._impl.value = 30.0
    page.update(reading)
    page.update(reading)
    assert sliders['translation.natural_frequency'].value == 30.0  # until it has settled
    assert asked.calls == [('set_parameter', 'translation.natural_frequency', 30.0)]
    reading.followers = ()
    page.update(reading)
    assert set(page._scene._handles) == {''}


def test_handle_stays_at_the_goal(page, panda):
    pose = np.eye(4)
    pose[:3, 3] = 0.3, 0.0, 0.5
    reading = reading_of(panda, pose=pose, error=np.zeros(6),
                         goal_errors={'': np.array([0.0, 0.0, 0.0, 0.0, 0.1, 0.0])})
    page.update(reading)
    assert page._scene._handles['']._controls.position == pytest.approx([0.3, 0.1, 0.5])
    del reading.control.goal_errors['']
    page.update(reading)
    assert page._scene._handles['']._controls.position == pytest.approx([0.3, 0.0, 0.5])


def test_push_handle_exists_only_where_a_simulator_takes_pushes(page, asked, panda):
    reading, handle = reading_of(panda), page._scene._push
    page.update(reading)
    assert handle._controls is None
    reading.offers = frozenset({'push'})
    page.update(reading)
    rest = handle.position
    handle.hold(True)
    handle._controls.position = rest + np.array([0.0, 0.1, 0.0])
    page.update(reading)
    (name, force), = asked.calls
    assert name == 'push'
    assert force == pytest.approx([0.0, 15.0, 0.0], abs=1e-5)
    handle.hold(False)
    assert asked.calls[-1] == ('push', None)
    page.update(reading)
    assert handle.position == pytest.approx(rest)
    reading.offers = frozenset()
    page.update(reading)
    assert handle._controls is None


def test_collision_shapes_are_drawn_on_their_bodies_and_shown_by_the_switch(page, panda):
    page.update(reading_of(panda))
    shapes = page._scene.collision_shapes
    assert len(shapes._meshes) == panda[1].n + 1  # the base, too
    assert not any(one.visible for one in shapes._meshes)
    shapes.show(True)
    page.update(reading_of(panda, followers=(
        Follower('elbow', 'panda_link4', False, (0.0, 0.0, 1.0)),)))  # draws the arm anew
    assert len(shapes._meshes) == panda[1].n + 1
    assert all(one.visible and one.opacity < 1.0 for one in shapes._meshes)
    shapes.show(False)
    assert not any(one.visible for one in shapes._meshes)


def test_meshes_of_shapes_are_as_large_as_the_shapes(panda):
    robot = panda[1]
    model = ShapeModel((LinkShape('panda_link3', [[0, 0, 1], [0, 0, 2]], 0.1),
                        LinkShape('panda_link3', [[1, 0, 0], [1, 0, 0]], 0.2),
                        LinkShape('another', [[1, 0, 0], [1, 0, 0]], 0.2)))
    (body, mesh), = collision_meshes(robot, model).items()
    assert body == 2
    assert mesh.bounds == pytest.approx(np.array([[-0.1, -0.2, -0.2], [1.2, 0.2, 2.1]]), abs=5e-3)


def test_objects_of_a_simulator_are_drawn_moved_and_removed(page, panda):
    red, pose = (1.0, 0.0, 0.0, 1.0), np.eye(4)
    reading = reading_of(panda, solids={
        'ball': (Solid('sphere', (0.1, 0.1, 0.1), red), pose),
        'wall': (Solid('box', (0.1, 0.2, 0.3), (0.0, 0.0, 1.0, 0.5)), pose)})
    page.update(reading)
    drawn = page._scene._objects._drawn
    assert drawn['ball'][1].radius == 0.05
    assert drawn['wall'][1].dimensions == pytest.approx((0.1, 0.2, 0.3))
    assert drawn['wall'][1].opacity == 0.5
    ball, moved = drawn['ball'][1], pose.copy()
    moved[0, 3] = 0.2
    reading.solids = {'ball': (Solid('sphere', (0.1, 0.1, 0.1), red), moved)}
    page.update(reading)
    assert drawn.keys() == {'ball'}
    assert drawn['ball'][1] is ball
    assert ball.position == pytest.approx([0.2, 0.0, 0.0])


def test_fingers_are_drawn_at_the_width_of_the_gripper(page, panda):
    text, robot = panda
    assert fingers(text, robot.joint_names).keys() == {'panda_leftfinger', 'panda_rightfinger'}
    assert fingers(text, [*robot.joint_names, 'panda_finger_joint1']) == {}  # one is driven
    assert fingers('no XML', ()) == {}
    reading = reading_of(panda)
    page.update(reading)
    left, right = (np.array(one[0].position) for one in page._scene._fingers._fingers)
    reading.gripper = 0.06, 20.0
    page.update(reading)
    apart = [np.array(one[0].position) for one in page._scene._fingers._fingers]
    assert np.linalg.norm((apart[0] - left) - (apart[1] - right)) == pytest.approx(0.06)
    assert apart[0] - left == pytest.approx(right - apart[1])
    assert 'gripper 60.0 mm wide, 20 N' in state_html(reading)


def test_handle_of_a_task_that_is_off_says_so_and_tasks_are_read_again(page, panda):
    def tasks():
        return (Follower('elbow', 'panda_link4', False, (0.0, 0.0, 1.0)),)

    reading = reading_of(panda, followers=tasks())
    reading.parameters['elbow.activation'] = 0.0
    page.update(reading)
    label = page._scene._handles['elbow']._label
    assert label.text == 'target elbow (off: activation 0)'
    reading.followers = tasks()  # equal, of another answer
    reading.parameters['elbow.activation'] = 0.5
    page.update(reading)
    assert page._scene._handles['elbow']._label is label
    assert label.text == 'target elbow'


def test_free_drive_and_release_show_what_the_controller_has(page, asked, panda):
    reading = reading_of(panda, offers=frozenset({'free_drive', 'release'}), level=OK,
                         status={'free drive': 'on'})
    page.update(reading)
    assert page._parts[0]._free_drive.handle.value is True
    assert page._parts[0]._recover.disabled
    reading.control.status['free drive'], reading.control.level = 'off', ERROR
    page.update(reading)
    box = page._parts[0]._free_drive.handle
    assert box.value is False
    assert not page._parts[0]._recover.disabled
    box._impl.value = True  # a click
    page.update(reading)
    page.update(reading)
    assert box.value is True and asked.calls == [('call', 'free_drive on')]


def test_command_line(tmp_path):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    from osc_ros.ros.viewer.viewer_node import options_of
    options, rest = options_of(['--port', '9000', '--ros-args', '-r', '__ns:=/left'])
    assert (options.host, options.port) == ('127.0.0.1', 9000)
    assert rest == ['--ros-args', '-r', '__ns:=/left']
    with pytest.raises(SystemExit) as ended:
        options_of(['--port', '0'])
    assert ended.value.code == 2


def test_mesh_files_are_found_by_package_folder_and_path(tmp_path, monkeypatch):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    from osc_ros.ros.viewer.viewer_node import mesh_file
    (tmp_path / 'x y.stl').write_text('')
    assert mesh_file(f'file://{tmp_path}/x%20y.stl', None) == tmp_path / 'x y.stl'
    assert mesh_file('x%20y.stl', tmp_path) == tmp_path / 'x y.stl'
    assert mesh_file('package://no_such_package/a.stl', None) is None
    assert mesh_file('https://example.org/a.stl', None) is None


# the link to a controller: with a stand-in for the controller, without its kernels


@pytest.fixture
def stand_in(tmp_path):
    """Return a function that starts a process with the interface of a controller."""
    running = []

    def started(*arguments):
        running.append(subprocess.Popen([sys.executable, str(STAND_IN), *arguments],
                                        stdin=subprocess.DEVNULL))
        return running[-1]

    yield started
    for process in running:
        process.kill()
        process.wait()


def _check_second_publisher(node, reading, wait):
    """Positions of another publisher do not move the arm of the page."""
    from sensor_msgs.msg import JointState
    other, shown, sent = node.create_publisher(JointState, 'joint_states', 10), [], []

    def has_sent():
        other.publish(JointState(name=reading.robot.joint_names, position=[0.0] * 7))
        sent.append(other.get_subscription_count())
        shown.append(reading.q)
        return sum(sent) > 40

    wait(lambda: node.count_publishers('joint_states') == 2, 'for the second publisher')
    wait(has_sent, 'for positions of the second publisher')
    node.destroy_publisher(other)
    assert all(q == pytest.approx(READY) for q in shown)


def test_link_reads_a_controller_sets_parameters_and_survives_its_restart(spin, stand_in):
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
    from rclpy.node import Node

    from osc_ros.ros.viewer.viewer_link import ControllerLink
    node, states = Node('osc_viewer'), Node('_osc_viewer_states')
    link = ControllerLink(node, states, 'osc_controller', 'osc_simulator')
    reading, first = link.reading, stand_in()
    link.listen(True)

    def has_said(text):
        return ('warning', text) in [one[:2] for one in reading.words]

    def wait(happened, why):
        def check():
            link.update()
            return happened()
        spin(check, node, why=why)

    wait(lambda: reading.robot is not None and reading.lifecycle == 'active', 'for the robot')
    assert reading.robot.tip == PANDA[1]
    assert [one.link for one in reading.followers] == ['panda_link4']
    wait(lambda: reading.q is not None and reading.control.pose is not None
         and 'elbow' in reading.control.goal_errors, 'for states')
    assert reading.q == pytest.approx(READY)  # by name: they come in another order
    _check_second_publisher(node, reading, wait)
    # no free drive, nothing to push
    wait(lambda: reading.offers == {'hold', 'release', 'lifecycle'}, 'for the services')
    link.set_parameter('translation.natural_frequency', 30.0)
    wait(lambda: list(reading.parameters['translation.natural_frequency']) == [30.0] * 3,
         'for the parameter')
    link.set_parameter('translation.natural_frequency', 1000.0)
    wait(lambda: 'translation.natural_frequency' in reading.refusals, 'for the refusal')
    assert reading.refusals['translation.natural_frequency'] == 'must be at most 116'
    for name in ('', 'elbow'):
        link.target(name, np.eye(4))
        heard = f'{name or "tip"} in panda_link0'

        def is_heard(name=name, heard=heard):
            link.target(name, np.eye(4))  # again until the subscriber has been discovered
            return has_said(heard)

        wait(is_heard, heard)
    link.trigger('hold')
    wait(lambda: has_said('held'), 'for the service')
    link.stop()
    wait(lambda: reading.lifecycle == 'inactive', 'for the stop')
    # an answer that was overtaken by the end of the activation
    reading.lifecycle, reading.control.text = 'active', 'inactive'
    wait(lambda: reading.lifecycle == 'inactive', 'for the true state')
    link.start()
    wait(lambda: reading.lifecycle == 'active', 'for the start')
    first.terminate()
    first.wait()
    wait(lambda: reading.lifecycle == 'absent', 'for the end')
    assert reading.control.pose is None
    compiler = states.create_publisher(DiagnosticArray, '/diagnostics', 10)

    def shows_progress():
        compiler.publish(DiagnosticArray(status=[DiagnosticStatus(
            name='osc_controller: kernels', message='compiling: 3 of 9')]))
        return reading.control.text == 'compiling: 3 of 9'

    wait(shows_progress, 'for the progress of the compilation')
    stand_in('free_drive')
    wait(lambda: reading.lifecycle == 'active' and reading.control.pose is not None
         and 'free_drive' in reading.offers, 'for the restart')
    link.set_free_drive(True)
    wait(lambda: has_said('free drive True'), 'for free drive')
    link.listen(False)
    assert not link._heard
    states.destroy_node()


# in a browser


@needs_browser
def test_page_loads_in_a_browser_and_its_sliders_request(page, asked, panda):
    reading = reading_of(panda, text='torque at its limit', level=1)
    page.update(reading)
    with chromium.browser() as tab:
        tab.open(f'http://127.0.0.1:{page.port}/')
        tab.wait_for("document.body.innerText.includes('torque at its limit')")
        tab.wait_for("document.querySelector('canvas') !== null")
        assert page.browsers == 1
        tab.set_slider('ω position [rad/s]', 35.0)
        deadline = time.monotonic() + 30.0
        while not asked.calls:
            assert time.monotonic() < deadline, 'no request'
            time.sleep(0.05)
            page.update(reading)
        assert asked.calls[-1] == ('set_parameter', 'translation.natural_frequency', 35.0)
        assert tab.errors == []


@needs_browser
@pytest.mark.slow
def test_arm_follows_a_drag_in_the_browser_and_a_slider_sets_its_parameter(
        spin, start, request, tmp_path):
    """With --write-tables, write the pictures of doc/viewer.md."""
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    write = request.config.getoption('--write-tables')
    port = free_port()
    arm = Arm(spin, start, port, 'world.yaml')
    with chromium.browser() as tab, chromium.browser() as other:
        open_page(arm, port, tab, other)
        film = Film(tab, write)
        if write:
            tab.wait_for(IS_GREEN, 120.0)
        before = arm.tip.copy()
        # the blue arrow of the handle is along z of the tip, down
        grip, up = np.array([0.0, 0.0, -0.2]), np.array([0.0, 0.0, 0.12])
        drag(tab, arm, before + grip, before + grip + up, each=film.take)
        arm.wait(lambda: np.linalg.norm(arm.tip - before) > 0.05, 'the arm')
        arm.rest(2.0)
        moved = arm.tip - before
        assert moved[2] > 0.05
        assert np.abs(moved[:2]).max() < 0.03
        if write:
            tab.wait_for(IS_GREEN, 120.0)
            tab.picture(DOC / 'viewer.png')
        drag(tab, arm, arm.tip + grip, arm.tip + grip - 2.0 * up, each=film.take)
        film.save(DOC / 'viewer.webp')
        arm.rest(2.0)
        tab.set_slider('ω position [rad/s]', 35.0)
        arm.wait(lambda: '35' in str(arm.parameter('translation.natural_frequency')), 'the slider')
        assert arm.parameter('translation.natural_frequency') == [35.0] * 3
        shown = chromium.FIELD_OF % json.dumps('ω position [rad/s]') + '.value'
        arm.wait(lambda: float(other.value(shown)) == 35.0, 'the other browser')
        pull_and_let_go(tab, arm)
        tab.press('stop')
        wait_for_text(arm, tab, 'inactive')
        tab.press('start')
        wait_for_text(arm, tab, READY_TEXT)
        assert tab.errors == []
        assert other.errors == []
        arm.controller.terminate()
        arm.controller.wait()
        wait_for_text(arm, tab, 'absent')
        arm.start_controller()
        wait_for_text(arm, tab, READY_TEXT)


def pull_and_let_go(tab, arm):
    """Pull the arm by its handle along y, and let it go."""
    before = arm.tip.copy()
    grip, far = pixel(tab, before + BESIDE + [0.0, 0.06, 0.0]), pixel(
        tab, before + BESIDE + [0.0, 0.26, 0.0])
    tab.mouse('mouseMoved', *grip)
    arm.rest(0.5)
    tab.mouse('mousePressed', *grip, button='left', buttons=1, clickCount=1)
    for k in range(1, 9):
        tab.mouse('mouseMoved', *(a + (b - a) * k / 8 for a, b in zip(grip, far)), button='left',
                  buttons=1)
        arm.rest(0.05)
    arm.wait(lambda: arm.tip[1] - before[1] > 5e-3, 'the pull')
    tab.mouse('mouseReleased', *far, button='left', clickCount=1)
    arm.wait(lambda: np.linalg.norm(arm.tip - before) < 3e-3, 'the end of the pull')


@pytest.mark.slow
@pytest.mark.ros
def test_demo_opens_the_page_and_ends_it(tmp_path):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    from osc_ros.tools.demo.demo_page import page as demo_page
    script = ('import sys; from pathlib import Path\n'
              'from osc_ros.tools.demo.demo_page import page\n'
              'folder = Path(sys.argv[1])\n'
              'with page(folder, folder) as address:\n'
              '    print("ADDRESS", address)\n')
    assert callable(demo_page)
    done = subprocess.run([sys.executable, '-c', script, str(tmp_path)], capture_output=True,
                          text=True, timeout=100, check=True, env={
                              **os.environ, 'SSH_CONNECTION': '192.0.2.5 1 192.0.2.6 22',
                              'USER': 'somebody'})
    port = done.stdout.rsplit(':', 1)[1].strip()
    assert f'open http://localhost:{port} in a browser' in done.stdout
    assert f'ssh -L {port}:localhost:{port} somebody@192.0.2.6' in done.stdout
    with socket.socket() as trial:
        assert trial.connect_ex(('127.0.0.1', int(port))) != 0  # the page has ended


def test_playground_is_paced_by_the_wall_clock_in_lockstep_and_activates_by_itself(tmp_path):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    from contextlib import ExitStack

    from osc_ros.tools.demo import demo_page
    wanted = SimpleNamespace(given=lambda node: {'name': node, 'lockstep': True})
    with ExitStack() as stack:
        found = demo_page._parameters('dds', wanted, tmp_path, stack)
    assert found['osc_simulator']['lockstep'] and found['osc_simulator']['paced']
    # a controller that is only slow is not taken for one that has ended
    assert found['osc_simulator']['lockstep_timeout'] >= 20.0
    assert found['osc_controller']['autostart'] is True
    # not with franka-sim, which needs a core for itself: it returns at once
    assert demo_page.play('franka-sim', wanted, tmp_path, tmp_path, '') is None
    assert not demo_page.has_terminal()  # pytest captures the output
