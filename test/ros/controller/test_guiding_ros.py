# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Free drive and variable impedance over ROS: service, topic, refusals, diagnostics."""

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from geometry_msgs.msg import PoseStamped  # noqa: E402
from rclpy.node import Node  # noqa: E402
from std_msgs.msg import Float64MultiArray, MultiArrayDimension  # noqa: E402
from std_srvs.srv import SetBool, Trigger  # noqa: E402

from common import PATIENCE  # noqa: E402
from node_rig import given, gravity, PANDA, READY, Rig, ROBOT  # noqa: E402
from osc_ros.loop import requests  # noqa: E402
from osc_ros.loop.process import link  # noqa: E402
from osc_ros.ros.arm_node import ArmNode  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402
from variants import first_quick  # noqa: E402

SIX = [300.0] * 3 + [20.0] * 3
EIGHTEEN = [300.0, 400.0, 500.0, 20.0, 20.0, 20.0, *[1.0] * 6, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0]


class Client(Node):
    """Calls the services, sends targets and reads the diagnostics."""

    def __init__(self, spin):
        super().__init__('client')
        self.spin, self.values, self.text = spin, {}, ''
        self.free = self.create_client(SetBool, 'osc_controller/free_drive')
        self.hold = self.create_client(Trigger, 'osc_controller/hold')
        self.poses = self.create_publisher(PoseStamped, 'osc_controller/target_pose', 10)
        self.impedances = self.create_publisher(
            Float64MultiArray, 'osc_controller/target_impedance', 10)
        self.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

    def _on_diagnostics(self, message):
        [status] = message.status
        self.values, self.text = {v.key: v.value for v in status.values}, status.message

    def call(self, client, request, *nodes):
        self.spin(client.service_is_ready, self, *nodes, why='for the service')
        answer = client.call_async(request)
        self.spin(answer.done, why='for the answer')
        return answer.result()

    def set_free(self, data):
        return self.call(self.free, SetBool.Request(data=data))


def impedance(numbers, label=''):
    message = Float64MultiArray(data=[float(x) for x in numbers])
    if label:
        message.layout.dim = [MultiArrayDimension(label=label, size=len(numbers))]
    return message


def test_hand_guides_the_simulated_arm_over_ros_and_it_holds_where_the_hand_lets_go(spin):
    none, client = [0.0] * 7, Client(spin)
    simulator = Simulator(parameter_overrides=given(
        **ROBOT, initial_positions=READY.tolist(), lockstep=True, lockstep_timeout=3600.0,
        friction=none, damping=none, command_topic='osc_controller/commands'))
    controller = Controller(parameter_overrides=given(**ROBOT, state_timeout=30.0))
    plant = simulator._plant
    spin(lambda: plant.time > 0.2, client, simulator, controller, why='for an active controller')
    assert controller.get_parameter('speed_override').value == 100.0  # the arm is simulated
    answer = client.set_free(True)
    assert answer.success and answer.message == 'free drive: the arm follows the hand'
    spin(lambda: client.text == answer.message, why='for the diagnostics')
    assert client.values['free drive'] == 'on'

    def wait(seconds):
        end = plant.time + seconds
        spin(lambda: plant.time > end)

    def place():
        return plant.pose(PANDA.tip)[:3, 3].copy()

    wait(0.5)  # until the change has blended
    start = place()
    plant.push(PANDA.tip, [0.0, 10.0, 0.0])
    wait(1.0)
    assert 0.05 < np.linalg.norm(place() - start) < 0.2
    plant.push(PANDA.tip, [0.0, 0.0, 0.0])  # before a wait whose simulated time is not known
    spin(lambda: client.poses.get_subscription_count() > 0)

    def refused():
        client.poses.publish(PoseStamped())
        return spin.said('target_pose refused, the old target stays: the arm is in free drive')

    spin(refused, why='for the refusal')
    wait(0.3)
    assert np.abs(plant.qd).max() < 0.02
    answer = client.set_free(False)
    assert answer.success and 'mode acceleration: the arm holds where it is' in answer.message
    there = place()
    plant.push(PANDA.tip, [0.0, 5.0, 0.0])
    wait(1.0)
    plant.push(PANDA.tip, [0.0, 0.0, 0.0])
    wait(1.0)
    np.testing.assert_allclose(place(), there, atol=2e-3)  # a spring, not free


@pytest.fixture
def rig(spin):
    """Return an active rig of a spring, and its client."""
    rig = Rig(spin, mode='impedance').activate()
    rig.client = Client(spin)
    spin(lambda: rig.client.impedances.get_subscription_count() > 0, rig.client)
    return rig


def in_force(rig):
    found = next(iter(rig.controller._law.levels.values())).impedance
    return None if found is None else found.now[:, [3, 4, 5, 0, 1, 2]]


def test_stiffness_damping_and_wrench_come_by_message(rig):
    def heard():
        rig.client.impedances.publish(impedance(EIGHTEEN, '0.010000000'))
        rig.ask()
        return in_force(rig) is not None

    rig.spin(heard, why='for the impedance')
    force = np.zeros(6)
    force[5] = 5.0
    expected = gravity(READY) + rig.controller._law.space.evaluate(READY, np.zeros(7)).J.T @ force
    for _ in range(1000):  # until the change of the stiffness is over
        tau = rig.ask()
        if np.allclose(in_force(rig).ravel(), EIGHTEEN, rtol=1e-2) and np.allclose(
                tau, expected, atol=0.01):
            break
    np.testing.assert_allclose(in_force(rig).ravel(), EIGHTEEN, rtol=1e-2)
    np.testing.assert_allclose(tau, expected, atol=0.02)
    status = rig.controller._loop.request(requests.status)
    assert status.impedance == 'commands' and 0.9 < status.tank <= 1.0
    # the parameter has this value already, but not the spring
    [result] = rig.controller.set_parameters([rig.controller.get_parameter(
        'translation.stiffness')])
    assert result.successful
    for _ in range(1000):
        rig.ask()
        if np.allclose(in_force(rig)[2], 0.0, atol=1e-3):
            break
    spring = rig.controller._law.settings.tasks[0].gains.stiffness[[3, 4, 5, 0, 1, 2]]
    np.testing.assert_allclose(in_force(rig)[0], spring, rtol=1e-2)
    assert np.abs(in_force(rig)[2]).max() < 0.01


@pytest.mark.parametrize('bad, text', first_quick((
    (impedance([1.0] * 7), '7 numbers: must be 6 of stiffness'),
    (impedance([np.nan] * 18), 'six finite numbers'),
    (impedance([1.0] * 6, 'kitchen'), "label 'kitchen': give a stamp in seconds"),
    (impedance([-1.0] * 6), 'stiffness'),
    (impedance([1.0] * 6, '1.8e9'), 'another clock'),
    (impedance([1.0] * 6, '0.001'), 'is before that of the last one'),
    (impedance([*EIGHTEEN[:12], 0.0, 0.0, 70.0, 0.0, 0.0, 0.0]), 'force 70 of task'),
    (impedance([1.0] * 6 + [0.0] * 6), 'damping_ratio')), 3),
    ids=('length', 'nan', 'label', 'negative', 'future', 'past', 'force', 'ratio'))
def test_bad_impedance_is_refused_and_the_old_one_stays(rig, bad, text):
    def heard():
        rig.client.impedances.publish(impedance(SIX, '0.010000000'))
        rig.ask()
        return in_force(rig) is not None

    rig.spin(heard, why='for the impedance')
    rig.until_said(text, lambda: (rig.client.impedances.publish(bad), rig.ask()))
    assert rig.spin.said('target_impedance refused, the old one stays')
    for _ in range(600):  # until the change of the stiffness is over
        tau = rig.ask()
        if np.allclose(in_force(rig)[0], SIX, rtol=1e-2):
            break
    np.testing.assert_allclose(in_force(rig)[0], SIX, rtol=1e-2)
    np.testing.assert_allclose(tau, gravity(READY), atol=1e-6)


def test_stiffness_that_the_law_reduces_is_answered_with_the_one_in_use(rig):
    rig.ask()
    set_all = rig.controller.set_parameters_atomically  # as `ros2 param set`
    result = set_all(given(blend_time=0.001))
    assert result.successful and not result.reason
    result = set_all(given(translation__stiffness=[90000.0] * 3))
    assert result.successful and 'is used, the largest in this posture' in result.reason


def test_impedance_without_a_spring_is_refused(spin):
    rig = Rig(spin).activate()
    client = Client(spin)
    spin(lambda: client.impedances.get_subscription_count() > 0, client)
    rig.until_said("has Gains, and no stiffness: give it a Stiffness (parameter mode "
                   "'impedance')",
                   lambda: client.impedances.publish(impedance(EIGHTEEN)))


def test_free_drive_is_refused_while_inactive_ended_by_hold_and_remembers_the_mode(rig):
    client = rig.client
    assert client.set_free(True).success
    rig.ask()
    assert rig.controller.get_parameter('mode').value == 'free'
    # an impedance that comes now is refused, in plain words
    rig.until_said('target_impedance refused, the old one stays: the arm is in free drive',
                   lambda: client.impedances.publish(impedance(EIGHTEEN)))
    assert client.call(client.hold, Trigger.Request()).message == 'stopping'
    assert rig.controller.get_parameter('mode').value == 'impedance'
    rig.ask()
    assert client.set_free(False).success  # it is off already
    rig.deactivate()
    answer = client.set_free(True)
    assert not answer.success and 'not active' in answer.message


# quick: the tests above, and test_clients_cannot_tell_the_node_from_osc_controller of test_arm.py
@pytest.mark.slow
def test_osc_arm_has_both(spin, monkeypatch):
    from arm_rig import Rig as ArmRig
    monkeypatch.setattr(link, 'ANSWERED', PATIENCE)  # a busy machine answers late
    rig, client = ArmRig(spin, hardware__pace='fast', mode='impedance'), Client(spin)
    assert isinstance(rig.activate().node, ArmNode)
    spin(lambda: client.impedances.get_subscription_count() > 0, client)
    loop = rig.node._loop

    def heard():
        client.impedances.publish(impedance(EIGHTEEN))
        return loop.request(requests.status).impedance == 'commands'

    spin(heard, why='for the impedance')
    assert client.set_free(True).success
    spin(lambda: loop.request(requests.status).figures.is_free, why='for free drive')
    assert client.set_free(False).success
    spin(lambda: not loop.request(requests.status).figures.is_free,
         why='for the end of free drive')
    assert rig.node.get_parameter('mode').value == 'impedance'
