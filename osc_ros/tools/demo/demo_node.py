# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The node of the demonstration: sends targets and records topics."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import MultiDOFJointTrajectory

from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.ros.controller.diagnosis import ENDED, FAILED
from osc_ros.ros.messages import compilation_report, messages
from osc_ros.ros.process.node_process import EventsExecutor
from osc_ros.tools.check.judgement import Recording

Array = NDArray[np.float64]

KEEP = QoSProfile(depth=1000)


class DemoNode:
    """Records the topics of a run in `recording`, and sends targets in the frame `base`."""

    def __init__(self, recording: Recording, base: str) -> None:
        self._recording, self._base = recording, base
        # `time` [s]: stamp of the newest joint state, after `restart` since that call; the others:
        # number of joint states, and of diagnostics of the controller, so far
        self.time, self.states, self.diagnoses = 0.0, 0, 0
        self.tip_pose_of: Callable[[Array], Array] | None = None  # from q; None: osc_simulator
        self._origin = 0.0  # stamp at which `time` is 0 [s]
        self.compilation, self.compiled_at = '', -np.inf  # progress, its `perf_counter` [s]
        self._compiled: dict[str, str] = {}
        self.failure = ''  # why osc_arm can no longer control the arm; otherwise empty
        self._node = Node('osc_demo')
        self._executor = EventsExecutor()
        self._executor.add_node(self._node)
        subscribe, publish = self._node.create_subscription, self._node.create_publisher
        subscribe(JointState, 'joint_states', self._on_state, KEEP)
        subscribe(PoseStamped, 'osc_simulator/tip_pose', self._on_pose, KEEP)
        subscribe(DiagnosticArray, '/diagnostics', self._on_diagnostics, KEEP)
        self._change = self._node.create_client(ChangeState, 'osc_controller/change_state')
        self._poses = publish(PoseStamped, 'osc_controller/target_pose', KEEP)
        self._paths = publish(MultiDOFJointTrajectory, 'osc_controller/target_trajectory', KEEP)

    def spin_once(self, timeout: float) -> None:
        """Run the next callback; wait for it at most `timeout` seconds."""
        self._executor.spin_once(timeout_sec=timeout)

    def change(self, transition: int) -> Future:
        """Request a transition of the controller; the future's result has `success`."""
        return self._change.call_async(
            ChangeState.Request(transition=Transition(id=transition)))

    def sees_controller(self) -> bool:
        """Whether the controller's lifecycle service is available."""
        return bool(self._change.service_is_ready())

    def is_heard(self) -> bool:
        """Whether a tip pose has arrived, and the controller has subscribed to targets."""
        return (bool(self._recording.poses) and self._poses.get_subscription_count() > 0
                and self._paths.get_subscription_count() > 0)

    def restart(self) -> None:
        """Set `time` to 0 at the newest joint state; remove older states from the recording."""
        self._origin, self.time = self._origin + self.time, 0.0
        self._recording.restart()

    def is_past(self, time: float) -> bool:
        """Whether a joint state with a stamp later than `time` [s] has arrived."""
        return self.time > time

    def send(self, motion: PoseGoal | Path, start: float, tip: str) -> None:
        """Send a motion that begins at `start` [s], in the time of `DemoNode.time`."""
        stamp = messages.stamp(self._origin + start)
        if isinstance(motion, Path):
            message = messages.trajectory_message(motion, self._base, tip)
            message.header.stamp = stamp
            self._paths.publish(message)
        else:
            self._poses.publish(messages.pose_message(motion.pose, self._base, stamp))

    def destroy(self) -> None:
        """Destroy the node and its executor."""
        self._executor.remove_node(self._node)
        self._node.destroy_node()
        self._executor.shutdown()

    def _on_state(self, message: JointState) -> None:
        self.states += 1
        time = messages.seconds(message.header.stamp) - self._origin
        if time > self.time or not self._recording.state_times:
            self.time, q = time, np.array(message.position)
            self._recording.add_state(time, q, np.array(message.velocity),
                                      np.array(message.effort))
            if self.tip_pose_of is not None:
                self._recording.pose_times.append(time)
                self._recording.poses.append(self.tip_pose_of(q))

    def _on_pose(self, message: PoseStamped) -> None:
        self._recording.pose_times.append(messages.seconds(message.header.stamp))
        self._recording.poses.append(messages.pose_array(message.pose))

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.message.startswith((FAILED, ENDED)):
                self.failure = status.message
            elif status.name.endswith('osc_controller: control'):
                self._recording.diagnostics = {pair.key: pair.value for pair in status.values}
                self.diagnoses += 1
            elif status.name.endswith(f'osc_controller: {compilation_report.NAME}'):
                self._see_compilation(status.message, {p.key: p.value for p in status.values})

    def _see_compilation(self, text: str, values: dict[str, str]) -> None:
        self.compilation = text
        if values != self._compiled:
            self._compiled, self.compiled_at = values, perf_counter()
