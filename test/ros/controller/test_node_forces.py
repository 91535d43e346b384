# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""External forces over ROS: topics, compensation, contacts, learned thresholds; in lockstep."""

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from geometry_msgs.msg import WrenchStamped  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from node_rig import given, READY, Rig, ROBOT, set_live, SUCCESS  # noqa: E402
from osc_ros.control.reasons import KEY  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402

TIP = 'panda_hand_tcp'
RATE = 250.0  # as few messages in lockstep as the gains allow [Hz]


class Pushed(Rig):
    """A controller and a simulated Panda without friction, in lockstep, in this process."""

    def __init__(self, spin, simulated=None, **parameters):
        super().__init__(spin, rate=RATE, **parameters)
        assert self.controller.trigger_configure() == SUCCESS
        self.simulator = Simulator(parameter_overrides=given(
            **ROBOT, rate=RATE, initial_positions=READY.tolist(), lockstep=True,
            lockstep_timeout=3600.0, friction=[0.0] * 7, damping=[0.0] * 7, **(simulated or {})))
        self.hardware.destroy_publisher(self.hardware.states)
        spin(lambda: self.controller._state_age() < 1.0, self.simulator, why='for a state')
        assert self.controller.trigger_activate() == SUCCESS
        spin(lambda: self.simulator._tick > 20, why='for the loop to run')

    @property
    def engine(self):
        return self.controller._loop.engine

    def last(self, kind, topic):
        """Return a list that holds the newest message of a topic."""
        found = []
        self.hardware.create_subscription(
            kind, topic, lambda message: found.__setitem__(slice(None), [message]), 10)
        return found

    def wait(self, seconds):
        """Let simulated time pass."""
        end = self.engine.time + seconds
        self.spin(lambda: self.engine.time > end, why=f'for {seconds} s')

    def push(self, *force):
        self.simulator._plant.push(TIP, force)

    def call(self, service):
        """Call a service of the controller; return its response."""
        client = self.hardware.create_client(Trigger, f'osc_controller/{service}')
        self.spin(client.service_is_ready)
        answer = client.call_async(Trigger.Request())
        self.spin(answer.done)
        return answer.result()


def test_user_sees_the_force_on_the_tip_and_how_far_to_trust_it(spin):
    rig = Pushed(spin)
    wrench, torque, quality = (
        rig.last(kind, f'osc_controller/external_{name}') for kind, name in (
            (WrenchStamped, 'wrench'), (JointState, 'torque'), (Float64MultiArray, 'quality')))
    rig.push(0.0, 10.0, -5.0)
    rig.wait(1.0)
    force = wrench[0].wrench.force
    np.testing.assert_allclose([force.x, force.y, force.z], [0.0, 10.0, -5.0], atol=0.5)
    assert wrench[0].header.frame_id == 'panda_link0'
    assert torque[0].name == list(rig.controller._law.robot.joint_names)
    assert np.abs(torque[0].effort).max() > 1.0
    assert quality[0].layout.dim[0].label == 'quality lever settled contact'
    assert quality[0].data[0] > 0.9 and quality[0].data[1] < 0.05


def test_reasons_are_reported_while_the_arm_is_held_away_from_the_pose_that_it_holds(spin):
    rig = Pushed(spin)
    found = rig.last(DiagnosticArray, '/diagnostics')

    def reported():
        return {one.key: one.value for status in (found[0].status if found else ())
                for one in status.values if one.key.startswith(KEY)}

    spin(lambda: found, why='for diagnostics')
    assert not reported()
    rig.push(0.0, 30.0, 0.0)
    spin(lambda: KEY + 'contact' in reported(), why='for the contact')
    assert '30.0 N push the link' in reported()[KEY + 'contact']
    rig.push(0.0, 0.0, 0.0)
    spin(lambda: not reported(), why='for the end of the reasons')


def test_user_switches_the_compensation_on_and_the_unknown_load_is_carried(spin):
    rig = Pushed(spin, {'payload__mass': 0.5})
    rig.wait(1.0)
    assert np.linalg.norm(rig.engine.law.error[3:]) > 3e-3
    assert set_live(rig, disturbance__mode='observer') == ''
    rig.wait(2.0)
    assert np.linalg.norm(rig.engine.law.error[3:]) < 3e-4
    assert set_live(rig, disturbance__mode='none') == ''
    rig.wait(2.0)
    assert np.linalg.norm(rig.engine.law.error[3:]) > 3e-3
    assert 'must be one of' in set_live(rig, disturbance__mode='on')
    assert 'contact.torque' in set_live(rig, contact__torque=[1.0, 2.0])


def test_user_learns_what_a_contact_is_and_the_arm_retracts_from_one(spin):
    rig = Pushed(spin, watchdog__contact__reaction='retract', contact__learn_time=0.5)
    answer = rig.call('learn_contact')
    assert answer.success and 'learning for 0.5 s' in answer.message
    spin(lambda: rig.controller.get_parameter('contact.torque').value, why='for thresholds')
    learned = rig.controller.get_parameter('contact.torque').value
    assert 0.0 < min(learned) <= max(learned) < 2.0
    assert rig.controller.get_parameter('contact.force').value < 3.0
    rig.wait(0.2)
    assert rig.engine.guard.cause in ('', 'deadline')  # which is only reported
    rig.push(0.0, 20.0, 0.0)
    spin(lambda: rig.engine.guard.cause == 'contact', why='for a reaction')
    assert (rig.engine.guard.cause, rig.engine.guard.reaction) == ('contact', 'retract')
    rig.push(0.0, 0.0, 0.0)
    rig.wait(0.5)
    assert rig.engine.guard.reaction == 'retract'  # latched
    # the estimate of the external torque falls below the small learned thresholds late
    spin(lambda: rig.call('release').success, why='for the release')
    rig.wait(0.5)
    assert rig.engine.guard.cause in ('', 'deadline')
    assert np.abs(rig.engine.qd).max() < 1e-2


def test_learning_is_refused_while_the_controller_is_not_active(spin):
    rig = Rig(spin)
    assert rig.controller.trigger_configure() == SUCCESS
    answer = Pushed.call(rig, 'learn_contact')
    assert not answer.success and answer.message == 'the controller is not active'


def test_user_is_told_that_efforts_do_not_come_or_do_not_fit(spin, capfd):
    rig = Rig(spin, external_force__efforts='measured').activate()
    assert ("external_force.efforts is 'measured', but joint_states have no effort of every joint"
            in capfd.readouterr().err)
    rig.deactivate()
    # efforts in A
    def hears():
        rig.hardware.state(effort=[-0.5, 1.2, -0.3, -2.0, 0.8, -0.9, 0.4])
        return rig.controller._loop.engine.rest.is_enough and (
            rig.controller._loop.engine.effort is not None
            and np.isfinite(rig.controller._loop.engine.effort).all())
    for _ in range(20):
        spin(hears, why='for states with efforts')
    assert rig.controller.trigger_activate() != SUCCESS
    assert "external_force.efforts 'commanded'" in capfd.readouterr().err
