# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
A simulated arm and its controller, which holds the arm until the first command.

With robot:=dual_panda, two arms and one controller; dual_arm.launch.py starts one per arm.

ros2 launch osc_ros simulation.launch.py rviz:=true
ros2 launch osc_ros simulation.launch.py robot_description_file:=my.urdf base:=base tip:=tool0
"""

from importlib.util import find_spec
from pathlib import Path

from ament_index_python.packages import (
    get_package_prefix,
    get_package_share_directory,
    PackageNotFoundError,
)
from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
)
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import Node, SetRemap
from launch_ros.parameter_descriptions import ParameterValue
import yaml

from osc_ros.ros.process.launching import (
    AUTO,
    END_TEXT,
    node_environment,
    NONE,
    note_failure,
    profile_path,
    PROFILE_TEXT,
)

# The folder of the package, without an import of it, which would take a second.
[PACKAGE] = find_spec('osc_ros').submodule_search_locations
ROBOTS = ', '.join(sorted(urdf.stem for urdf in Path(PACKAGE, 'robots').glob('*.urdf')))
TRUTH = ['true', 'false', 'True', 'False']
ARGUMENTS = [
    DeclareLaunchArgument('robot', default_value='panda', description=(
        f'A robot that comes with the package, {ROBOTS}, or dual_panda, two Pandas with one '
        'controller: its config names the URDF, base and tip.')),
    DeclareLaunchArgument('robot_description', default_value='', description=(
        'URDF text of a robot of your own, instead of robot.')),
    DeclareLaunchArgument('robot_description_file', default_value='', description=(
        'URDF file of a robot of your own, instead of robot.')),
    DeclareLaunchArgument('base', default_value='', description=(
        'Link that is fixed to the ground. Empty: from the config.')),
    DeclareLaunchArgument('tip', default_value='', description=(
        'Link whose pose is controlled. Empty: from the config.')),
    DeclareLaunchArgument('config', default_value='', description=(
        'Parameter file (YAML). Empty: the config of robot; with a robot of your own, the '
        'defaults of the nodes.')),
    DeclareLaunchArgument('relay', default_value='false', choices=TRUTH, description=(
        'Send the torques through osc_relay, which stops the arm if the controller ends, hangs '
        'or sends invalid commands.')),
    DeclareLaunchArgument('lockstep', default_value='false', choices=TRUTH, description=(
        'Step as soon as the command for the last state has come; false: in real time.')),
    DeclareLaunchArgument('use_sim_time', default_value='true', choices=TRUTH, description=(
        'The controller uses the time of /clock, which the simulator publishes.')),
    DeclareLaunchArgument('namespace', default_value='', description=(
        'Namespace of all nodes and topics, /clock and /tf included, so that several simulations '
        'do not disturb each other.')),
    DeclareLaunchArgument('rviz', default_value='false', choices=TRUTH, description=(
        'Show the arm in RViz. The simulator publishes the transforms of its links.')),
    DeclareLaunchArgument('profile', default_value=AUTO, description=PROFILE_TEXT),
    DeclareLaunchArgument('end_with_launch', default_value='true', choices=TRUTH,
                          description=END_TEXT),
    DeclareLaunchArgument('log_level', default_value='info', choices=[
        'debug', 'info', 'warn', 'error', 'fatal'], description='Lowest severity that is logged.'),
]


def simulation(context):
    share = Path(get_package_share_directory('osc_ros'))
    argument = dict(context.launch_configurations)
    config = argument['config']
    if not (config or argument['robot_description'] or argument['robot_description_file']):
        config = str(share / 'config' / f'{argument["robot"]}.yaml')
        if not Path(config).is_file():
            raise ValueError(f"robot '{argument['robot']}' does not come with osc_ros ({config} "
                             'does not exist); for a URDF of your own, set robot_description_file')
    # Always text, even if it looks like a number. Empty arguments must not override the config.
    parameters = {
        name: ParameterValue(argument[name], value_type=str)
        for name in ('robot_description', 'robot_description_file', 'base', 'tip')
        if argument[name]
    }
    parameters['lockstep'] = argument['lockstep'].lower() == 'true'
    if argument['relay'].lower() == 'true':
        parameters['command_topic'] = 'osc_relay/commands'
    profile = profile_path(argument['profile'])
    names = [name for name in argument['namespace'].split('/') if name]
    logger = '.'.join([*names, 'osc_simulator'])
    controller_arguments = {
        **{name: argument[name] for name in (
            'robot_description', 'robot_description_file', 'base', 'tip', 'relay',
            'use_sim_time', 'namespace', 'end_with_launch', 'log_level')},
        'config': config,
        'profile': profile or NONE,
        'command_topic': '',
        'autostart': 'true',
    }
    return [
        RegisterEventHandler(OnProcessExit(on_exit=_end_of_all)),
        GroupAction([
            # These topics of ROS have a leading slash.
            *(SetRemap(f'/{topic}', '/'.join(['', *names, topic]))
              for topic in ('clock', 'tf', 'tf_static') if names),
            # before the nodes, because controller.launch.py refuses a config that does not exist
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(share / 'launch' / 'controller.launch.py')),
                launch_arguments=controller_arguments.items()),
            Node(
                package='osc_ros',
                executable='osc_simulator',
                name='osc_simulator',
                namespace=argument['namespace'],
                parameters=[*([config] if config else []), parameters],
                arguments=['--ros-args', '--log-level', f'{logger}:={argument["log_level"]}'],
                additional_env=node_environment(
                    profile, argument['end_with_launch'].lower() == 'true'),
                on_exit=note_failure,
                output='screen',
            ),
            *(_rviz(share, argument, config) if argument['rviz'].lower() == 'true' else ()),
        ]),
    ]


def _end_of_all(event, context):
    """If a node ends, end all nodes; RViz alone may be closed."""
    if event.process_name.startswith('rviz2'):
        return []
    return [Shutdown(reason='a node ended')]


def _rviz(share, argument, config):
    try:
        get_package_prefix('rviz2')
    except PackageNotFoundError:
        raise RuntimeError(
            'rviz:=true needs the package rviz2, which is not installed here '
            '(apt install ros-$ROS_DISTRO-rviz2)') from None
    base = argument['base'] or _base_of(config)
    return [Node(
        package='rviz2',
        executable='rviz2',
        namespace=argument['namespace'],
        parameters=[{'use_sim_time': True}],
        arguments=['-d', str(share / 'config' / 'simulation.rviz'),
                   *(['-f', base] if base else [])],
        output='screen',
    )]


def _base_of(config):
    """Return the parameter base that a file gives to all nodes or to the simulator, or ''."""
    content = (yaml.safe_load(Path(config).read_text(encoding='utf-8')) or {}) if config else {}
    for node in ('/**/osc_simulator', '/osc_simulator', 'osc_simulator', '/**'):
        found = ((content.get(node) or {}).get('ros__parameters') or {}).get('base')
        if found:
            return found
    return ''


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=simulation)])
