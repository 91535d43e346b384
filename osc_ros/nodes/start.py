# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The commands of the package: import and run a node such that Ctrl-C ends the import quietly."""

from __future__ import annotations

from importlib import import_module
import sys
from typing import NoReturn

from osc_ros.interrupts import end_quietly

STATUS = """Exit status: 0 after Ctrl-C or SIGTERM; 1 if it cannot start, for example for a wrong
parameter, which it names; 2 for wrong arguments; 130 if Ctrl-C ends it before it has started."""
# Nodes whose only arguments are those of ROS: what they do, and examples.
NODES = {
    'controller': ('Controls an arm: joint states in, joint torques out, over ROS.', """examples:
  osc_controller --ros-args --params-file config/panda.yaml
  osc_controller --ros-args --params-file my_arm.yaml -p autostart:=false -r __ns:=/left"""),
    'arm': ('Controls an arm as osc_controller does, with the arm in the process of the control '
            'loop.', """example:
  osc_arm --ros-args --params-file config/fr3_arm.yaml"""),
    'relay': ('Forwards the torques of a controller, and holds the arm if they end.', """example:
  osc_relay --ros-args --params-file config/panda.yaml"""),
    'simulator': ('Simulates an arm in MuJoCo: joint torques in, joint states out, over ROS.',
                  """example:
  osc_simulator --ros-args --params-file config/panda.yaml -p viewer:=true"""),
}


def controller() -> NoReturn:
    """Run osc_controller."""
    _run('controller')


def arm() -> NoReturn:
    """Run osc_arm."""
    _run('arm')


def relay() -> NoReturn:
    """Run osc_relay."""
    _run('relay')


def simulator() -> NoReturn:
    """Run osc_simulator."""
    _run('simulator')


def demo() -> NoReturn:
    """Run osc_demo."""
    _run('demo')


def viewer() -> NoReturn:
    """Run osc_viewer."""
    _run('viewer')


def identify() -> NoReturn:
    """Run osc_identify."""
    _run('identify')


def record() -> NoReturn:
    """Run osc_record."""
    _run('record')


def tune() -> NoReturn:
    """Run osc_tune."""
    _run('tune')


def _run(name: str) -> NoReturn:
    end_quietly()  # before the import of rclpy and Numba, which takes seconds
    if name in NODES:
        from osc_ros.commandline import node_parser, parsed_node
        description, example = NODES[name]
        parsed_node(node_parser(f'osc_{name}', description=description,
                                epilog=f'{example}\n\n{STATUS}'), None)
    import_module(f'osc_ros.nodes.{name}').main()
    sys.exit(0)


if __name__ == '__main__':  # python -m osc_ros.nodes.start controller ...
    _run(sys.argv.pop(1))
