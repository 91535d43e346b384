# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Gripper over ROS: topics for commands, for the answers to commands, and for states."""

from __future__ import annotations

from functools import partial
import os
from threading import Condition
from time import monotonic
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from osc_ros.client.services import ANSWERED, AnswerTopic
from osc_ros.errors import ArmTimeoutError, InputError
from osc_ros.model.gripper_state import GripperState
from osc_ros.ros.messages import messages


class GripperTopics:
    """Client of `osc_ros.ros.gripper_commands.GripperTopics`; another thread spins the node."""

    def __init__(self, node: Any, prefix: str, news: Condition) -> None:
        self._prefix, self._news = prefix, news  # each message notifies news
        self._state: JointState | None = None
        self._number, self._since = 0, -1.0
        self._commands = node.create_publisher(Float64MultiArray, f'{prefix}/command', 10)
        node.create_subscription(JointState, f'{prefix}/state', self._on_state, 10)
        self._answers = AnswerTopic(node, f'{prefix}/answers', news)

    def _on_state(self, message: JointState) -> None:
        with self._news:
            before, self._state = self._state, message
            if before is not None and (messages.seconds(message.header.stamp)
                                       < messages.seconds(before.header.stamp)):
                self._since = -1.0  # the clock was reset
            self._news.notify_all()

    def move(self, command: list[float]) -> None:
        """Send a command, and wait until the gripper has accepted it."""
        self.state()
        self._number += 1
        label = f'{os.getpid()} {id(self)} {self._number}'
        message = Float64MultiArray(data=command)
        message.layout.dim = [MultiArrayDimension(label=label, size=len(command))]
        with self._news:
            found = self._answers.to(partial(self._commands.publish, message), 'label', label)
            if found is None:
                raise ArmTimeoutError(f"the gripper did not answer on '{self._prefix}/answers'"
                                      f' within {ANSWERED:g} s')
            answer, time = found
            if answer.level == DiagnosticStatus.ERROR:
                raise InputError(answer.message)
            self._since = time

    def state(self) -> GripperState:
        """Wait for a state after the last command, and return it."""
        deadline = monotonic() + ANSWERED
        with self._news:
            while self._state is None or messages.seconds(self._state.header.stamp) <= self._since:
                if monotonic() > deadline:
                    raise InputError(
                        f"no gripper: no message on '{self._prefix}/state' within {ANSWERED:g} s; "
                        "osc_simulator has a gripper with its parameter 'gripper.joints', "
                        'Arm.ros(gripper=…) names another prefix')
                self._news.wait(0.05)
            found = self._state
        return GripperState(found.position[0], found.velocity[0], found.effort[0],
                            found.position[1], found.effort[1])
