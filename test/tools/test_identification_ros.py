# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_identify moves the arm of a running controller and finds its payload, over ROS."""

from contextlib import contextmanager
import json
import re
import subprocess
import sys
from time import monotonic, sleep

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros import Robot
from osc_ros.client.robots import SHIPPED
from osc_ros.model.files import shipped_urdf
from osc_ros.ros.parameters.controller_parameters import with_tasks
from osc_ros.ros.process.share import share_directory
from osc_ros.tools.identify.identify_arm import parameters_of_motion

pytestmark = pytest.mark.ros

MASS, CENTRE = 1.2, [0.02, -0.015, 0.06]
FRICTION = [0.6, 0.5, 0.5, 0.4, 0.3, 0.3, 0.2]
PATIENCE = 240.0


# osc_identify that waits for a controller for 1 s in place of 5 s.
IMPATIENT = ('from osc_ros.tools.identify import identify, identify_arm; '
             'identify_arm.PATIENCE = 1.0; identify.main()')


def identify(folder, *arguments, program=('-m', 'osc_ros.tools.identify.identify')):
    """Run osc_identify with its results in a folder; return exit status and output."""
    done = subprocess.run(
        [sys.executable, *program, '--output', str(folder), *arguments],
        capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def other_states():
    """Publish joint states of an arm that stands elsewhere, which the controller ignores."""
    program = ("import rclpy; from sensor_msgs.msg import JointState; rclpy.init(); "
               "node = rclpy.create_node('other'); names = [f'panda_joint{i + 1}' for i in "
               "range(7)]; states = node.create_publisher(JointState, 'joint_states', 10); "
               "node.create_timer(0.01, lambda: states.publish(JointState(name=names, "
               "position=[0.1] * 7, velocity=[0.0] * 7, effort=[1.0] * 7))); rclpy.spin(node)")
    process = subprocess.Popen([sys.executable, '-c', program])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_controller_that_is_not_there_is_named(tmp_path):
    status, output = identify(tmp_path, '--controller', 'nobody', program=('-c', IMPATIENT))
    assert status == 2 and "no controller 'nobody' is running: give" in output


def test_parameters_of_the_motion_are_parameters_of_the_controller():
    known = {one.name for one in with_tasks(())}
    robot = Robot.from_urdf(shipped_urdf('panda'), *SHIPPED['panda'][:2])
    assert set(parameters_of_motion(robot)) <= known


@pytest.mark.slow
@pytest.mark.parametrize('torques', ['efforts', 'commands'])
def test_payload_and_friction_of_a_running_arm_are_found(start, tmp_path, torques):
    arguments = ('--ros-args', '--params-file', share_directory() / 'config' / 'panda.yaml')
    start('simulator', *arguments, '-p', f'payload.mass:={MASS}',
          '-p', f'payload.center_of_mass:={CENTRE}', '-p', f'friction:={FRICTION}',
          '-p', f'damping:={[0.0] * 7}')
    controller = start('controller', *arguments, '-p', 'state_timeout:=20.0',
                       '-p', 'watchdog.deadline.reaction:=report',
                       '-p', 'joint_states_from:=["/osc_simulator"]',
                       '-p', 'startup_check:=warn')
    deadline = monotonic() + PATIENCE
    while 'active: holding' not in controller.log.read_text():
        assert monotonic() < deadline and controller.poll() is None, controller.log.read_text()
        sleep(0.1)
    with other_states():
        status, output = identify(tmp_path / 'found', '--yes', '--torques', torques,
                                  '--json', str(tmp_path / 'found.json'))
    assert status == 0, output + controller.log.read_text()
    found = json.loads((tmp_path / 'found.json').read_text())
    given = found['parameters']
    assert given['payload.mass'] == pytest.approx(MASS, rel=0.02)
    assert np.linalg.norm(np.subtract(given['payload.center_of_mass'], CENTRE)) < 5e-3
    np.testing.assert_allclose(given['friction.coulomb'], FRICTION, rtol=0.1)
    assert found['error_cut_by'][1] > 5.0
    assert re.search(r'motion 2 of 2', output)
    # parameters of the motion are restored: the controller accepts a second identification
    log = controller.log.read_text()
    assert 'Traceback' not in log, log
