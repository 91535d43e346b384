# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A controller in the process of the tests, and a node in place of its hardware."""

import time

import numpy as np
import pinocchio
import pytest

from foreign import ForeignPlant
from judge import configuration, pinocchio_model, robot_cases

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')
from geometry_msgs.msg import (  # noqa: E402
    PoseStamped,
    TwistStamped,
    WrenchStamped,
)
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402
from trajectory_msgs.msg import MultiDOFJointTrajectory  # noqa: E402

from osc_ros.loop import requests  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.messages import commands, messages  # noqa: E402

PANDA = robot_cases()['panda']
JOINTS = tuple(f'panda_joint{i}' for i in range(1, 8))
READY = np.array([0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4])
ROBOT = {'robot_description_file': 'panda', 'base': 'panda_link0', 'tip': 'panda_hand_tcp'}
PERIOD = 0.002  # of the states of `Hardware` [s]
LOST = 0.1  # a state without an answer for this time is sent again [s]
BRAKED = 0.1  # tolerance of the hold torque, because the predicted pose may drift a little [N·m]
FAILURE, SUCCESS = TransitionCallbackReturn.FAILURE, TransitionCallbackReturn.SUCCESS


def given(**values):
    """Return ROS parameters; `__` in a name becomes a dot."""
    return [Parameter(name.replace('__', '.'), value=value) for name, value in values.items()]


def gravity(q):
    """Return the torques that hold the shipped Panda at q, by Pinocchio."""
    model, data, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip, JOINTS, {})
    return pinocchio.computeGeneralizedGravity(model, data, configuration(model, np.array(q)))


class Hardware(Node):
    """Takes the place of a robot's driver: sends states, records the controller's topics."""

    def __init__(self):
        """Subscribe to the controller and create the publishers."""
        super().__init__('hardware')
        self.commands, self._answers, self.errors, self.tick = [], {}, [], 0
        listen, tell = self.create_subscription, self.create_publisher
        listen(Float64MultiArray, 'osc_controller/commands', self._on_command, 100)
        listen(TwistStamped, 'osc_controller/pose_error', self.errors.append, 100)
        self.states = tell(JointState, 'joint_states', 10)
        self.poses = tell(PoseStamped, 'osc_controller/target_pose', 10)
        self.paths = tell(MultiDOFJointTrajectory, 'osc_controller/target_trajectory', 10)

    def state(self, q=READY, names=JOINTS, velocity=None, effort=()):
        """Publish a joint state with the next time stamp; return the label of its command."""
        self.tick += 1
        message = JointState(name=list(names), position=list(map(float, q)))
        message.velocity = [0.0] * len(names) if velocity is None else velocity
        message.effort = list(map(float, effort))
        message.header.stamp = messages.stamp(self.tick * PERIOD)
        self.states.publish(message)
        return messages.label_of(message.header.stamp)

    def _on_command(self, message):
        self.commands.append(message)
        self._answers[commands.label(message)] = np.array(message.data)

    def answer(self, label):
        """Return the torques of the command for the state of this label, or None."""
        return self._answers.get(label)


class Rig:
    """A controller and the hardware node in this process, connected over DDS."""

    def __init__(self, spin, arguments=None, **parameters):
        """Create the hardware node and the controller, and connect them; None: no parameter."""
        self.spin, parameters = spin, {
            'autostart': False, **ROBOT, 'state_timeout': 30.0, 'speed_override': 100.0
        } | parameters
        self.hardware = Hardware()
        self.controller = Controller(cli_args=arguments, parameter_overrides=given(
            **{name: value for name, value in parameters.items() if value is not None}))
        spin(lambda: True, self.hardware, self.controller)

    def activate(self):
        """Configure, send joint states until one arrives, and activate."""
        assert self.controller.trigger_configure() == SUCCESS
        return self.activate_configured()

    def activate_configured(self):
        """Send joint states until one arrives, and activate."""
        self.spin(lambda: self.hardware.states.get_subscription_count() > 0
                  and self.hardware.poses.get_subscription_count() > 0
                  # a node that an earlier test killed stays listed for some time
                  and self.hardware.count_publishers('osc_controller/commands') == 1)

        def hears():
            self.hardware.state()
            return self.controller._state_age() < 1.0

        self.spin(hears, why='for the controller to hear a state')
        assert self.controller.trigger_activate() == SUCCESS
        self.ask()
        return self

    def deactivate(self):
        """Deactivate, and wait until the controller has stopped the arm."""
        assert self.controller.trigger_deactivate() == SUCCESS
        self.spin(lambda: not self.controller._ending, why='for the arm to be stopped')
        return self

    def ask(self, **state):
        """
        Send a state until the controller answers it; return the commanded torques.

        It is sent again only if it seems to be lost: many states that are alike would look like
        those of a driver that repeats its last values.

        """
        labels, sent = [self.hardware.state(**state)], [time.perf_counter()]

        def answered():
            if any(self.hardware.answer(label) is not None for label in labels):
                return True
            if time.perf_counter() - sent[-1] > LOST:
                labels.append(self.hardware.state(**state))
                sent.append(time.perf_counter())
            return False

        self.spin(answered, why='for a command')
        return next(found for label in labels
                    if (found := self.hardware.answer(label)) is not None)

    def until_held(self, tau, atol=1e-8, label=commands.HOLD_LABEL):
        """Wait for a command with these torques and a label that names no state."""
        self.spin(lambda: commands.label(self.hardware.commands[-1]) == label
                  and np.allclose(self.hardware.commands[-1].data, tau, atol=atol),
                  why='for a command in the silence')

    def until_said(self, text, act=lambda: None):
        """Repeat `act` until the log contains the text."""
        def said():
            act()
            return self.spin.said(text)

        self.spin(said, why=f'for the log to say {text!r}')


def use_newest_publisher(rig, act):
    """Repeat `act`, which sends states, until the loop uses the states of their publisher."""
    loop = rig.controller._loop
    before = loop.publishers.known.used.copy()

    def is_used():
        act()
        with loop._parked():
            newest = loop.publishers.known.heard.argmax()
            loop.publishers.fix(np.full(7, newest))
        return before[newest] == 0

    rig.spin(is_used, why='for states of another publisher')


def target(position=(0.4, 0.0, 0.4), quaternion=(1.0, 0.0, 0.0, 0.0), frame='panda_link0',
           stamp=0.0):
    """Return a message with a target pose."""
    message = PoseStamped()
    message.header.stamp = messages.stamp(stamp)
    message.header.frame_id = frame
    p, r = message.pose.position, message.pose.orientation
    p.x, p.y, p.z = position
    r.x, r.y, r.z, r.w = quaternion
    return message


def set_live(rig, **parameters):
    """Set parameters; return the reason of a refusal, or '' if they are accepted."""
    result = rig.controller.set_parameters_atomically(given(**parameters))
    return '' if result.successful else result.reason


def wrench(force, frame='panda_link0', moment=(0.0, 0.0, 0.0)):
    """Return a message with a wrench."""
    message = WrenchStamped()
    message.header.frame_id = frame
    for part, values in ((message.wrench.force, force), (message.wrench.torque, moment)):
        part.x, part.y, part.z = map(float, values)
    return message


class Plant:
    """The arm of a rig, simulated in lockstep by Pinocchio; it records speed and torque steps."""

    def __init__(self, rig):
        """Put the arm at READY."""
        self.rig, self.arm = rig, ForeignPlant(PANDA, JOINTS)
        self.arm.reset(READY)
        self.speed = self.step = 0.0
        self.q, self.tau = [READY], gravity(READY)

    def run(self, duration, beside=lambda: None):
        """Simulate for a time [s]; call `beside` before each state."""
        for _ in range(round(duration / PERIOD)):
            beside()
            tau = self.rig.ask(q=self.arm.q, velocity=self.arm.qd.tolist())
            self.step = max(self.step, np.abs((tau - self.tau) / self.arm.effort).max())
            self.arm.step(tau, PERIOD)
            self.tau = tau
            self.q.append(self.arm.q)
            self.speed = max(self.speed, np.abs(self.arm.qd / self.arm.velocity).max())


def follow_joints(rig, q, speed=None):
    """Move the joints to q (n,) in mode `joints`."""
    assert rig.controller.set_parameters_atomically(given(mode='joints')).successful
    rig.controller._loop.request(requests.move_joints, q, None, speed)
