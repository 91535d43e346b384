# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The controller alone, for a real arm or a simulator of your own.

ros2 launch osc_ros controller.launch.py config:=my_arm.yaml base:=base_link tip:=tool0
ros2 launch osc_ros controller.launch.py robot:=gen3 relay:=true spawn:=effort_controller
"""

from importlib.util import find_spec
from pathlib import Path

from ament_index_python.packages import (
    get_package_prefix,
    get_package_share_directory,
    PackageNotFoundError,
)
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, Shutdown
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from osc_ros.ros.process.launching import (
    AUTO,
    END_TEXT,
    LOOPBACK,
    node_environment,
    note_failure,
    profile_path,
    PROFILE_TEXT,
)

# The folder of the package, without an import of it, which would take a second.
[PACKAGE] = find_spec('osc_ros').submodule_search_locations
ROBOTS = ', '.join(sorted(urdf.stem for urdf in Path(PACKAGE, 'robots').glob('*.urdf')))
TRUTH = ['true', 'false', 'True', 'False']
ARGUMENTS = [
    DeclareLaunchArgument('robot', default_value='', description=(
        f'A robot that comes with the package, {ROBOTS} or dual_panda: its config names the URDF, '
        'base and tip.')),
    DeclareLaunchArgument('robot_description', default_value='', description=(
        'URDF text. Without it and robot_description_file: from the config, else from the topic '
        'robot_description.')),
    DeclareLaunchArgument('robot_description_file', default_value='', description=(
        'URDF file, or the name of a robot that comes with the package: '
        f'{ROBOTS}, dual_panda.')),
    DeclareLaunchArgument('base', default_value='', description=(
        'Link that is fixed to the ground. Empty: from the config.')),
    DeclareLaunchArgument('tip', default_value='', description=(
        'Link whose pose is controlled. Empty: from the config.')),
    DeclareLaunchArgument('config', default_value='', description=(
        'Parameter file (YAML). Empty: the config of robot, or without robot the defaults of the '
        'node.')),
    DeclareLaunchArgument(
        'command_topic', default_value='/effort_controller/commands', description=(
            'Topic of the torques. Empty: the topic ~/commands of the node.')),
    DeclareLaunchArgument('relay', default_value='false', choices=TRUTH, description=(
        'Send the torques through osc_relay, which stops the arm if the controller ends, hangs '
        'or sends invalid commands.')),
    DeclareLaunchArgument('spawn', default_value='', description=(
        'Names of ros2_control controllers to load and activate, separated by spaces: the effort '
        'controller that subscribes to command_topic. Empty: none.')),
    DeclareLaunchArgument(
        'controller_manager', default_value='/controller_manager',
        description='Controller manager of ros2_control that loads them.'),
    DeclareLaunchArgument('autostart', default_value='true', choices=TRUTH, description=(
        'Configure and activate the controller. An active controller moves the arm; with false '
        'it waits for `ros2 lifecycle set /osc_controller configure`, then `activate`.')),
    DeclareLaunchArgument('use_sim_time', default_value='false', choices=TRUTH, description=(
        'Use the time of /clock.')),
    DeclareLaunchArgument('namespace', default_value='', description=(
        'Namespace of the node, and of its topics without a leading slash.')),
    DeclareLaunchArgument('profile', default_value=AUTO, description=PROFILE_TEXT),
    DeclareLaunchArgument('end_with_launch', default_value='true', choices=TRUTH,
                          description=END_TEXT),
    DeclareLaunchArgument('log_level', default_value='info', choices=[
        'debug', 'info', 'warn', 'error', 'fatal'], description='Lowest severity that is logged.'),
]


def controller(context):
    argument = context.launch_configurations
    config = argument['config']
    if argument['robot'] and not config:
        share = Path(get_package_share_directory('osc_ros'))
        config = str(share / 'config' / f'{argument["robot"]}.yaml')
        if not Path(config).is_file():
            raise ValueError(f"robot '{argument['robot']}' does not come with osc_ros ({config} "
                             'does not exist); for a robot of your own, set config')
    if config and not Path(config).is_file():
        raise FileNotFoundError(f"config '{config}' is not a file")
    # Always text, even if it looks like a number. Empty arguments must not override the config.
    robot = {
        name: ParameterValue(argument[name], value_type=str)
        for name in ('robot_description', 'robot_description_file', 'base', 'tip')
        if argument[name]
    }
    use_sim_time = argument['use_sim_time'].lower() == 'true'
    topic = argument['command_topic']
    to_hardware = [('~/commands', topic)] if topic else []
    relays = argument['relay'].lower() == 'true'
    profile = profile_path(argument['profile'])
    environment = node_environment(profile, argument['end_with_launch'].lower() == 'true')

    def node(executable, parameters, remappings):
        names = [*argument['namespace'].strip('/').split('/'), executable]
        logger = '.'.join(names).strip('.')
        return Node(
            package='osc_ros',
            executable=executable,
            name=executable,
            namespace=argument['namespace'],
            parameters=[*([config] if config else []),
                        {**robot, 'use_sim_time': use_sim_time, **parameters}],
            remappings=remappings,
            arguments=['--ros-args', '--log-level', f'{logger}:={argument["log_level"]}'],
            additional_env=environment,
            # The relay holds the arm when the controller has failed, so it must not end.
            on_exit=note_failure if executable == 'osc_controller' and relays else _end_of_all,
            output='screen',
        )

    spawners = _spawners(argument)
    autostart = {'autostart': argument['autostart'].lower() == 'true'}
    told = [LogInfo(msg=LOOPBACK)] if profile and argument['profile'] == AUTO else []
    if relays:
        return [*told, *spawners, node('osc_controller', autostart, []),
                node('osc_relay', {}, to_hardware)]
    return [*told, *spawners, node('osc_controller', autostart, to_hardware)]


def _end_of_all(event, context):
    """If a node fails, end all, with status 1."""
    note_failure(event, context)
    has_failed = event.returncode and not context.is_shutdown
    return [Shutdown(reason='a node failed')] if has_failed else []


def _spawners(argument):
    names = argument['spawn'].split()
    if not names:
        return []
    try:
        get_package_prefix('controller_manager')
    except PackageNotFoundError:
        raise RuntimeError(
            f"spawn '{argument['spawn']}' needs the package controller_manager of ros2_control, "
            'which is not installed here (apt install ros-$ROS_DISTRO-controller-manager); '
            'without spawn, start the effort controller yourself') from None
    return [Node(
        package='controller_manager',
        executable='spawner',
        arguments=[*names, '--controller-manager', argument['controller_manager']],
        on_exit=_end_of_all,
        output='screen',
    )]


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=controller)])
