# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Makes the messages of ros2_control that are not on PyPI, for the tests.

`python test/support/interfaces.py FOLDER` generates them from the fields below with the generators
of ROS, compiles them, and puts the packages control_msgs and controller_manager_msgs there.
Names and fields are those of ROS 2 Jazzy and Kilted, so that the types are the same on the wire.
It needs a C++ compiler and the header of Python.
"""

from itertools import chain
from pathlib import Path
import shutil
import subprocess
import sys
import sysconfig
import tempfile

STATE = """float64 position
float64 effort
bool stalled
bool reached_goal
"""
TOLERANCES = """JointTolerance[] {0}_tolerance
JointComponentTolerance[] component_{0}_tolerance
"""
ON_THE_WAY = ''.join(
    f'string[] {prefix}joint_names\n'
    + ''.join(f'trajectory_msgs/{kind} {prefix}{name}\n'
              for name in ('desired', 'actual', 'error'))
    + f'int32 {prefix}index\n'
    for prefix, kind in (('', 'JointTrajectoryPoint'),
                         ('multi_dof_', 'MultiDOFJointTrajectoryPoint')))
CODES = 'SUCCESSFUL', 'INVALID_GOAL', 'INVALID_JOINTS', 'OLD_HEADER_TIMESTAMP', \
    'PATH_TOLERANCE_VIOLATED', 'GOAL_TOLERANCE_VIOLATED'
ERRORS = 'int32 error_code\n' + ''.join(
    f'int32 {code} = {-k}\n' for k, code in enumerate(CODES)) + 'string error_string\n'
KINEMATIC = 'float64 position\nfloat64 velocity\nfloat64 acceleration\n'
FIELDS = {
    'control_msgs': {
        'msg/JointTolerance.msg': f'string name\n{KINEMATIC}',
        'msg/JointComponentTolerance.msg': ''.join(
            f'uint16 {name}={k}\n' for k, name in enumerate(
                ('X_AXIS', 'Y_AXIS', 'Z_AXIS', 'TRANSLATION', 'ROTATION'), 1))
        + f'string joint_name\nuint16 component\n{KINEMATIC}',
        'msg/GripperCommand.msg': 'float64 position\nfloat64 max_effort\n',
        'action/GripperCommand.action': f'GripperCommand command\n---\n{STATE}---\n{STATE}',
        'action/ParallelGripperCommand.action': 'sensor_msgs/JointState command\n---\n'
        'sensor_msgs/JointState state\nbool stalled\nbool reached_goal\n---\n'
        'sensor_msgs/JointState state\n',
        'action/FollowJointTrajectory.action': 'trajectory_msgs/JointTrajectory trajectory\n'
        'trajectory_msgs/MultiDOFJointTrajectory multi_dof_trajectory\n'
        + TOLERANCES.format('path') + TOLERANCES.format('goal')
        + 'builtin_interfaces/Duration goal_time_tolerance\n'
        f'---\n{ERRORS}---\nstd_msgs/Header header\n{ON_THE_WAY}'},
    'controller_manager_msgs': {
        'msg/ChainConnection.msg': 'string name\nstring[] reference_interfaces\n',
        'msg/ControllerState.msg': 'string name\nstring state\nstring type\nbool is_async\n'
        'uint16 update_rate\nstring[] claimed_interfaces\nstring[] required_command_interfaces\n'
        'string[] required_state_interfaces\nbool is_chainable\nbool is_chained\n'
        'string[] exported_state_interfaces\nstring[] reference_interfaces\n'
        'ChainConnection[] chain_connections\n',
        'srv/ListControllers.srv': '---\ncontroller_manager_msgs/ControllerState[] controller\n',
        'srv/LoadController.srv': 'string name\n---\nbool ok\n',
        'srv/ConfigureController.srv': 'string name\n---\nbool ok\n',
        'srv/SwitchController.srv': 'string[] activate_controllers\n'
        'string[] deactivate_controllers\nint32 strictness\nint32 BEST_EFFORT=1\nint32 STRICT=2\n'
        'bool activate_asap\nbuiltin_interfaces/Duration timeout\n---\nbool ok\nstring message\n'}}
# Packages whose messages these contain, or that generated services and actions use.
NEEDED = ('trajectory_msgs', 'sensor_msgs', 'geometry_msgs', 'std_msgs', 'builtin_interfaces',
          'action_msgs', 'unique_identifier_msgs', 'service_msgs')
OF_PACKAGE = ('rosidl_generator_c', 'rosidl_generator_py', 'rosidl_typesupport_c',
              'rosidl_typesupport_introspection_c', 'rosidl_typesupport_fastrtps_c',
              'rosidl_typesupport_fastrtps_cpp')
LIBRARIES = ('rosidl_runtime_c', 'rosidl_typesupport_c', 'rosidl_typesupport_introspection_c',
             'rosidl_typesupport_fastrtps_c',
             'rosidl_typesupport_fastrtps_cpp', 'fastcdr', 'rmw', 'rcutils')
SUPPORTS = 'rosidl_typesupport_fastrtps_c', 'rosidl_typesupport_introspection_c'


def generate(package, build, out):
    """Write the C, C++ and Python code of a package."""
    from rosidl_adapter.action import convert_action_to_idl
    from rosidl_adapter.msg import convert_msg_to_idl
    from rosidl_adapter.srv import convert_srv_to_idl
    from rosidl_cli.command.hash.api import generate_type_hashes
    from rosidl_generator_c.cli import GenerateC
    from rosidl_generator_py.cli import GeneratePython
    from rosidl_typesupport_c.cli import GenerateCTypesupport
    from rosidl_typesupport_fastrtps_c.cli import GenerateFastRTPSCTypesupport
    from rosidl_typesupport_introspection_c.cli import GenerateIntrospectionCTypesupport
    convert = {'msg': convert_msg_to_idl, 'srv': convert_srv_to_idl,
               'action': convert_action_to_idl}
    share, code = build / 'share' / package, build / 'c' / package
    for name, text in FIELDS[package].items():
        file = share / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        convert[file.parent.name](share, package, Path(name), file.parent)
    files = [f"{share}:{Path(name).with_suffix('.idl')}" for name in FIELDS[package]]
    include = [str(Path(sys.prefix, 'share')), str(build / 'share')]
    found = generate_type_hashes(package_name=package, interface_files=files,
                                 include_paths=include, output_path=share)
    for kind in convert:  # apart, because the generator finds descriptions by the names of files
        GenerateC('c').generate(
            package, [one for one in files if f':{kind}/' in one], include, code,
            [one for one in found if Path(one).parent.name == kind])
    for k, support in enumerate((
            GenerateCTypesupport('c', typesupport_implementations=list(SUPPORTS)),
            GenerateFastRTPSCTypesupport('fastrtps_c'),
            GenerateIntrospectionCTypesupport('introspection_c'))):  # same names of files
        support.generate(package, files, include, build / f'c{k}' / package)
    GeneratePython('py', typesupport_implementations=['rosidl_typesupport_c']).generate(
        package, files, include, out / package)
    (out / package / '__init__.py').touch()


def compile_package(package, build, out):
    """Compile a library with the messages of a package, and the extension module of Python."""
    import numpy
    headers, libraries = Path(sys.prefix, 'include'), Path(sys.prefix, 'lib')
    flags = ['-w', '-O0', '-fPIC', *(f'-I{one}' for one in build.glob('c*')),
             f"-I{sysconfig.get_paths()['include']}", f'-I{numpy.get_include()}', f'-I{headers}',
             *(f'-I{one}' for one in headers.iterdir() if one.is_dir())]
    names = [*(f'{one}__{kind}' for one in NEEDED for kind in OF_PACKAGE), *LIBRARIES]
    needed = [f'-l{name}' for name in names if (libraries / f'lib{name}.so').exists()]
    place = out / package

    def link(target, objects, *more):
        subprocess.run(['g++', '-shared', '-Wl,--no-as-needed', '-o', place / target, *objects,
                        f'-L{libraries}', f'-L{place}', '-Wl,-rpath,$ORIGIN',
                        f'-Wl,-rpath,{libraries}', f'-Wl,-soname,{target}', *more], check=True)

    def compiled(folder):
        for file in sorted([*folder.rglob('*.c'), *folder.rglob('*.cpp')]):
            compiler = ['g++', '-std=c++17'] if file.suffix == '.cpp' else ['gcc']
            target = file.with_suffix(file.suffix + '.o')
            subprocess.run([*compiler, *flags, '-c', file, '-o', target], check=True)
            yield target

    folders = [one / package for one in build.glob('c*')]
    link(f'lib{package}__messages.so', chain(*map(compiled, folders)), *needed)
    # The middleware loads libraries of these names; their symbols are those of the first one.
    for kind in SUPPORTS:
        link(f'lib{package}__{kind}.so', [], f'-l{package}__messages')
    link(f"{package}_s__rosidl_typesupport_c{sysconfig.get_config_var('EXT_SUFFIX')}",
         compiled(place), *(f'-l{package}__{kind}' for kind in SUPPORTS),
         f'-l{package}__messages', *needed)
    for pattern in '*.c', '*.o':
        for file in place.rglob(pattern):
            file.unlink()


def make(folder):
    """Put the packages in a folder."""
    with tempfile.TemporaryDirectory() as place:
        build, out = Path(place), Path(place, 'out')
        for package in FIELDS:
            generate(package, build, out)
            compile_package(package, build, out)
        shutil.copytree(out, folder, dirs_exist_ok=True)


if __name__ == '__main__':
    make(Path(sys.argv[1]).resolve())
