# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_arm and its client in the process of the tests."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState

from node_rig import given, PANDA, READY, ROBOT, SUCCESS
from osc_ros.ros.arm_node import ArmNode

ARM = {**ROBOT, 'rate': 1000.0, 'autostart': False, 'startup_check': 'off',
       'hardware__base': PANDA.base, 'hardware__initial_positions': np.array(READY).tolist(),
       'watchdog__deadline__reaction': 'report'}


class Client(Node):
    """Receives what a user of the node sees, and sends targets."""

    def __init__(self):
        """Subscribe."""
        super().__init__('client')
        self.states, self.reached, self.statuses = [], [], []
        listen = self.create_subscription
        listen(JointState, 'joint_states', self.states.append, 1000)
        listen(PoseStamped, 'osc_controller/goal_reached', self.reached.append, 10)
        listen(DiagnosticArray, '/diagnostics',
               lambda message: self.statuses.append(message.status[0]), 100)
        self.poses = self.create_publisher(PoseStamped, 'osc_controller/target_pose', 10)

    def aim(self, T):
        """Send a goal: the pose (4, 4) with the present orientation of the READY configuration."""
        message = PoseStamped()
        p, r = message.pose.position, message.pose.orientation
        p.x, p.y, p.z = T[:3, 3].tolist()
        r.x, r.y, r.z, r.w = 1.0, 0.0, 0.0, 0.0
        self.poses.publish(message)


class Rig:
    """An osc_arm and its client in this process; the loop is a process of its own."""

    def __init__(self, spin, **parameters):
        """Make both nodes."""
        self.spin, self.client = spin, Client()
        self.node = ArmNode(parameter_overrides=given(**(ARM | parameters)))
        spin(lambda: True, self.client, self.node)

    def activate(self):
        """Configure and activate; wait until the client is connected."""
        assert self.node.trigger_configure() == SUCCESS
        self.spin(lambda: self.node._loop.time > 0.0)
        assert self.node.trigger_activate() == SUCCESS
        self.spin(lambda: self.client.poses.get_subscription_count() and self.client.states)
        return self

    @property
    def process(self):
        """Number of the loop's process."""
        return self.node._loop._process.pid
