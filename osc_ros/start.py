# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Entry points of all commands; Ctrl-C during the import ends them quietly.

The command osc_<name> calls the attribute <name> of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
import os
import signal
import sys
from typing import NoReturn, TYPE_CHECKING

from osc_ros.interrupts import end_quietly

if TYPE_CHECKING:
    from osc_ros.commandline import Parser

STATUS = """Exit status: 0 after Ctrl-C or SIGTERM, also while it starts; 1 if it cannot start, for
example for a wrong parameter, which it names; 2 for wrong arguments."""
# Modules of the commands; the modules after 'replay' need ROS.
MODULES = {
    'check': 'tools.check.check_command', 'shapes': 'tools.shapes.shapes_command',
    'replay': 'tools.record.replay_command', 'controller': 'ros.controller.controller',
    'arm': 'ros.arm_node', 'crisp': 'ros.crisp.crisp_node', 'relay': 'ros.relay',
    'simulator': 'ros.simulator.simulator',
    'demo': 'tools.demo.demo', 'viewer': 'ros.viewer.viewer_node',
    'identify': 'tools.identify.identify', 'record': 'tools.record.record_node',
    'tune': 'tools.tune.tune'}
PRINTING = 'check', 'replay', 'shapes'  # these only print and write files
# Nodes whose only arguments are those of ROS: what they do, and examples.
NODES = {
    'controller': ('Controls an arm: joint states in, joint torques out, over ROS.', """examples:
  osc_controller --robot panda
  osc_controller --ros-args --params-file my_arm.yaml -p autostart:=false -r __ns:=/left"""),
    'arm': ('Controls an arm as osc_controller does, with the arm in the process of the control '
            'loop.', """example:
  osc_arm --ros-args --params-file config/fr3_arm.yaml"""),
    'crisp': ('Has the services, parameters and target topics of crisp_controllers, and commands '
              'osc_controller.', """example:
  osc_crisp --ros-args -p osc_controller:=osc_controller"""),
    'relay': ('Forwards the torques of a controller, and holds the arm if they end.', """example:
  osc_relay --ros-args --params-file config/panda.yaml"""),
    'simulator': ('Simulates an arm in MuJoCo: joint torques in, joint states out, over ROS.',
                  """example:
  osc_simulator --ros-args --params-file config/panda.yaml -p viewer:=true"""),
}


def __getattr__(name: str) -> Callable[[], NoReturn]:
    """Return the function that runs a command."""
    if name not in MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return partial(_print if name in PRINTING else _run, name)


def _print(name: str) -> NoReturn:
    """Run a command; it ends quietly when the reader of its output has ended (`| head`)."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        try:
            _run(name)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the parent blocks the signal, or a library ignores it
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPIPE])
        os.kill(os.getpid(), signal.SIGPIPE)
        raise


def _run(name: str) -> NoReturn:
    # before the import of NumPy, rclpy and Numba, which takes seconds
    end_quietly(0 if name in NODES or name == 'viewer' else None)
    if name in NODES:
        from osc_ros.commandline import node_parser, parsed_node, ROS_ARGUMENTS
        description, example = NODES[name]
        parser = node_parser(f'osc_{name}', description=description,
                             epilog=f'{example}\n\n{STATUS}')
        if name != 'crisp':
            parser.add_argument('--robot', metavar='NAME', help='parameter file of this package, '
                                'such as panda; later arguments take precedence')
        options, rest = parsed_node(parser, None)
        if name != 'crisp' and options.robot is not None:
            sys.argv[1:] = [ROS_ARGUMENTS, '--params-file', _file_of(parser, options.robot), *rest]
    import_module(f'osc_ros.{MODULES[name]}').main()
    sys.exit(0)


def _file_of(parser: Parser, robot: str) -> str:
    """Return the path of the shipped parameter file of a robot; exit with 2 if there is none."""
    share = import_module('osc_ros.ros.process.share').share_directory()
    files = {file.stem: file for file in (share / 'config').glob('*.yaml')}
    if robot not in files:
        parser.error(f"argument --robot: '{robot}' is no shipped robot: give one of "
                     + ', '.join(sorted(files)))
    return str(files[robot])


if __name__ == '__main__':  # python -m osc_ros.start controller ...
    __getattr__(sys.argv.pop(1))()
