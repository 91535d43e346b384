# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
One controller for each arm of a two-armed robot, in the namespaces left and right.

ros2 launch osc_ros dual_arm.launch.py simulation:=true
ros2 launch osc_ros dual_arm.launch.py config:=my_arms.yaml relay:=true
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
)
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import Node, SetRemap
from launch_ros.parameter_descriptions import ParameterValue

from osc_ros.ros.process.launching import (
    AUTO,
    END_TEXT,
    LOOPBACK,
    node_environment,
    NONE,
    note_failure,
    profile_path,
    PROFILE_TEXT,
)

TRUTH = ['true', 'false', 'True', 'False']
SIDES = 'left', 'right'
ARGUMENTS = [
    DeclareLaunchArgument('robot_description', default_value='', description=(
        'URDF text of the whole robot. Without it and robot_description_file: from the config, '
        'else from the topic /robot_description.')),
    DeclareLaunchArgument('robot_description_file', default_value='', description=(
        'URDF file of the whole robot, or the name dual_panda.')),
    DeclareLaunchArgument('config', default_value='', description=(
        'Parameter file (YAML) with base and tip of /left/* and /right/*. Empty: dual_arm.yaml, '
        'two Pandas.')),
    *(DeclareLaunchArgument(
        f'{side}_command_topic', default_value=f'/{side}_effort_controller/commands',
        description=f'Topic of the torques of the {side} arm; not used in simulation.')
      for side in SIDES),
    DeclareLaunchArgument('relay', default_value='false', choices=TRUTH, description=(
        'Send the torques of each arm through an osc_relay of its own.')),
    DeclareLaunchArgument('autostart', default_value='true', choices=TRUTH, description=(
        'Configure and activate the controllers. An active controller moves its arm.')),
    DeclareLaunchArgument('simulation', default_value='false', choices=TRUTH, description=(
        'Simulate the whole robot: tip of /osc_simulator is the tip of the left arm, further_tips '
        'that of the right arm.')),
    DeclareLaunchArgument('lockstep', default_value='false', choices=TRUTH, description=(
        'Simulation steps as soon as both commands for the last state have come; false: in real '
        'time.')),
    DeclareLaunchArgument('use_sim_time', default_value='false', choices=TRUTH, description=(
        'Use the time of /clock; always true in simulation.')),
    DeclareLaunchArgument('profile', default_value=AUTO, description=PROFILE_TEXT),
    DeclareLaunchArgument('end_with_launch', default_value='true', choices=TRUTH,
                          description=END_TEXT),
    DeclareLaunchArgument('log_level', default_value='info', choices=[
        'debug', 'info', 'warn', 'error', 'fatal'], description='Lowest severity that is logged.'),
]


def dual_arm(context):
    share = Path(get_package_share_directory('osc_ros'))
    argument = dict(context.launch_configurations)
    argument['config'] = argument['config'] or str(share / 'config' / 'dual_arm.yaml')
    profile = profile_path(argument['profile'])
    told = [LogInfo(msg=LOOPBACK)] if profile and argument['profile'] == AUTO else []
    simulates, relays = (argument[name].lower() == 'true' for name in ('simulation', 'relay'))

    def arm(side):
        own = {
            **{name: argument[name] for name in (
                'robot_description', 'robot_description_file', 'config', 'relay', 'autostart',
                'end_with_launch', 'log_level')},
            'profile': profile or NONE,
            'use_sim_time': 'true' if simulates else argument['use_sim_time'],
            'namespace': side,
            'command_topic': '' if simulates else argument[f'{side}_command_topic'],
        }
        return GroupAction([
            # these topics belong to the whole robot, not to the namespace of an arm
            SetRemap('joint_states', '/joint_states'),
            SetRemap('robot_description', '/robot_description'),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(share / 'launch' / 'controller.launch.py')),
                launch_arguments=own.items()),
        ])

    arms = [arm(side) for side in SIDES]
    if not simulates:
        return [*told, *arms]
    left, right = (f'/{side}/{"osc_relay" if relays else "osc_controller"}/commands'
                   for side in SIDES)
    return [
        # If one node ends, end all.
        RegisterEventHandler(OnProcessExit(on_exit=[Shutdown(reason='a node ended')])),
        # before the other nodes, because controller.launch.py refuses a config that does not exist
        *arms,
        Node(
            package='osc_ros',
            executable='osc_simulator',
            name='osc_simulator',
            parameters=[argument['config'], {
                **{name: ParameterValue(argument[name], value_type=str)
                   for name in ('robot_description', 'robot_description_file') if argument[name]},
                'lockstep': argument['lockstep'].lower() == 'true',
                'command_topic': left, 'further_command_topics': [right]}],
            arguments=['--ros-args', '--log-level', f'osc_simulator:={argument["log_level"]}'],
            additional_env=node_environment(
                profile, argument['end_with_launch'].lower() == 'true'),
            on_exit=note_failure,
            output='screen',
        ),
    ]


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=dual_arm)])
