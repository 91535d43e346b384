# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A process with the parameters, services and topics of osc_controller, for test_viewer.py."""

import signal
import sys

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TwistStamped
from rcl_interfaces.msg import SetParametersResult
import rclpy
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
PARAMETERS = {
    'robot_description_file': 'panda', 'base': 'panda_link0', 'tip': 'panda_hand_tcp',
    'gravity': [0.0, 0.0, -9.81], 'driver_compensates': 'none', 'mode': 'acceleration',
    'tasks': ['elbow'], 'elbow.link': 'panda_link4', 'elbow.kind': 'pose', 'elbow.activation': 1.0,
    'translation.natural_frequency': [20.0, 20.0, 20.0]}


class StandIn(LifecycleNode):
    """Active at once; logs as warnings what it is asked for; refuses more than 116 rad/s."""

    def __init__(self, has_free_drive):
        """Declare and publish everything that the viewer uses."""
        super().__init__('osc_controller')
        for name, value in PARAMETERS.items():
            self.declare_parameter(name, value)
        self.add_on_set_parameters_callback(self._judge)
        self.create_service(Trigger, '~/hold', self._hold)
        self.create_service(Trigger, '~/release', self._hold)
        if has_free_drive:
            self.create_service(SetBool, '~/free_drive', self._free_drive)
        for task, topic in (('tip', '~/target_pose'), ('elbow', '~/elbow/target_pose')):
            self.create_subscription(
                PoseStamped, topic, lambda message, task=task: self.get_logger().warning(
                    f'{task} in {message.header.frame_id}'), 10)
        self._states = self.create_publisher(JointState, 'joint_states', 10)
        self._commands = self.create_publisher(JointState, '~/commands_stamped', 10)
        self._poses = self.create_publisher(PoseStamped, '~/pose', 10)
        self._errors = self.create_publisher(TwistStamped, '~/elbow/goal_error', 10)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(0.05, self._publish)
        self.trigger_configure()
        self.trigger_activate()

    def on_configure(self, state):
        """Accept every transition, so do the others of rclpy."""
        return TransitionCallbackReturn.SUCCESS

    def _judge(self, parameters):
        for one in parameters:
            if one.name.endswith('natural_frequency') and max(one.value) > 116.0:
                return SetParametersResult(successful=False, reason='must be at most 116')
        return SetParametersResult(successful=True)

    def _hold(self, request, response):
        self.get_logger().warning('held')
        response.success = True
        return response

    def _free_drive(self, request, response):
        self.get_logger().warning(f'free drive {request.data}')
        response.success = True
        return response

    def _publish(self):
        names = [f'panda_joint{i}' for i in range(7, 0, -1)]
        state = JointState(name=names, position=READY[::-1], velocity=[0.0] * 7, effort=[0.0] * 7)
        self._states.publish(state)
        self._commands.publish(state)
        self._poses.publish(PoseStamped())
        self._errors.publish(TwistStamped())
        self._diagnostics.publish(DiagnosticArray(status=[DiagnosticStatus(
            level=DiagnosticStatus.OK, name='osc_controller: control', message='active')]))


rclpy.init(args=[])
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
node = StandIn('free_drive' in sys.argv)
try:
    rclpy.spin(node)
finally:
    node.destroy_node()
    rclpy.try_shutdown()
