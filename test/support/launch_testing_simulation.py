# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A test of the simulation for `launch_test` (launch_testing); test_launch.py runs it."""

from pathlib import Path
import unittest

from ament_index_python.packages import get_package_share_directory
from geometry_msgs.msg import PoseStamped
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_testing import post_shutdown_test
from launch_testing.actions import ReadyToTest
from launch_testing.asserts import assertExitCodes
from launch_testing_ros import WaitForTopics
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

STARTED = 180.0  # [s] the first start compiles the kernels


def generate_test_description():
    """Start the simulation."""
    file = Path(get_package_share_directory('osc_ros'), 'launch', 'simulation.launch.py')
    return LaunchDescription([
        IncludeLaunchDescription(PythonLaunchDescriptionSource(str(file)),
                                 launch_arguments=[('lockstep', 'true')]),
        ReadyToTest()])


class TestWhileItRuns(unittest.TestCase):

    def test_state_command_and_pose_come(self):
        topics = [('/joint_states', JointState), ('/osc_controller/commands', Float64MultiArray),
                  ('/osc_controller/pose', PoseStamped)]
        with WaitForTopics(topics, timeout=STARTED) as waited:
            self.assertEqual(waited.topics_not_received(), set())


@post_shutdown_test()
class TestAfterwards(unittest.TestCase):

    def test_nodes_end_well(self, proc_info):
        assertExitCodes(proc_info)
