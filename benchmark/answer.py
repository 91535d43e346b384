# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Runs the node whose commands `metronome` times: a node of osc_ros, or one without computation.

`python benchmark/answer.py NODE EXECUTOR`, with keys of NODES and EXECUTORS. Each line of its
standard input has the arguments of one run as JSON. SIGINT ends a run; then the process prints
'ended'.

"""

from __future__ import annotations

from array import array
import json
from struct import unpack_from
import sys
from threading import Thread

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from osc_ros.loop.process import realtime
from osc_ros.ros.controller.controller import Controller
from osc_ros.ros.messages import commands, messages
from osc_ros.ros.messages.qos import COMMAND_QOS
from osc_ros.ros.process.node_process import EventsExecutor, run
from osc_ros.ros.relay import Relay

JOINTS = 7  # of the Panda
EXECUTORS = {'events': EventsExecutor, 'single-threaded': SingleThreadedExecutor}


class Echo(Node):
    """Answers every joint state like the controller, but computes nothing: message objects."""

    IS_RAW = False

    def __init__(self) -> None:
        super().__init__('osc_controller')
        self._commands = self.create_publisher(Float64MultiArray, '~/commands', COMMAND_QOS)
        self._command = Float64MultiArray()
        self._command.layout.dim = [MultiArrayDimension(size=JOINTS, stride=JOINTS)]
        self.create_subscription(JointState, 'joint_states', self._on_joint_states,
                                 qos_profile_sensor_data, raw=self.IS_RAW)
        realtime.keep_garbage_out(self)

    def _on_joint_states(self, message: JointState) -> None:
        self._command.data = array('d', bytes(8 * JOINTS))
        self._command.layout.dim[0].label = messages.label_of(message.header.stamp)
        self._commands.publish(self._command)

    def stop(self) -> None:
        """Do nothing: this node moves no arm."""


class RawEcho(Echo):
    """The same with serialized messages, of which only the stamp is read."""

    IS_RAW = True

    def __init__(self) -> None:
        super().__init__()
        self._filled, self._rest = commands.Command(JOINTS), np.zeros(JOINTS)

    def _on_joint_states(self, data: bytes) -> None:
        self._commands.publish(self._filled.fill(
            self._rest, messages.stamp_label(unpack_from('<iI', data, 4))))


NODES = {'echo': Echo, 'raw echo': RawEcho, 'controller': Controller, 'relay': Relay}


def _work() -> None:
    """Run Python without an end: the thread wants the interpreter's lock all the time."""
    number = 0
    while True:
        number = (number + 1) % 1000


if __name__ == '__main__':
    node, executor = sys.argv[1:]
    if node != (node := node.removeprefix('busy ')):
        Thread(target=_work, daemon=True).start()
    for line in sys.stdin:
        run(NODES[node], json.loads(line), EXECUTORS[executor])
        print('ended', flush=True)
