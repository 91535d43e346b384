"""osc_demo: a simulated arm follows targets over ROS 2, and its errors are checked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
import importlib.util
import os
from pathlib import Path
import signal
import sys
import tempfile
from typing import Any
import warnings

import numpy as np
import yaml

from osc_ros.dynamics.compilation import shared
from osc_ros.dynamics.compiled import on_demand
from osc_ros.errors import OscError
from osc_ros.model.robot import Robot
from osc_ros.nodes import description, report, scenario
from osc_ros.nodes.demo_run import DemoError, make_run, NodeProcess, show, STALLED, START
from osc_ros.nodes.parameters import Entry
from osc_ros.nodes.share import share_directory
from osc_ros.nodes.simulator import PARAMETERS

THRESHOLDS = (
    Entry('tracking_position', 0.001, 'Largest RMS position error on the figure of eight [m]',
          lower=0.0),
    Entry('tracking_orientation', 0.0035, 'Largest RMS orientation error on the figure of eight '
          '[rad]', lower=0.0),
    Entry('settled_position', 0.001, 'Largest position error at the end of a step [m]', lower=0.0),
    Entry('settled_orientation', 0.0035, 'Largest orientation error at the end of a step [rad]',
          lower=0.0),
)


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration; exit with 0 if the arm followed, 1 if not, 2 if it could not run."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(_demonstrate(options))
    except KeyboardInterrupt:
        sys.exit(130)
    except OscError as error:
        print(f'osc_demo: {error}', file=sys.stderr)
        sys.exit(2)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='osc_demo', description='A simulated arm traces a figure of eight, steps and turns, '
        'under osc_controller over ROS 2. The physics engine measures the errors of the tip.')
    robot = parser.add_mutually_exclusive_group()
    robot.add_argument('--robot', default='panda',
                       help=f"a robot of this package, {', '.join(description.shipped_robots())} "
                       '(panda)')
    robot.add_argument('--urdf', type=Path, help='your own robot, with --base and --tip')
    parser.add_argument('--base', help='link that is fixed to the ground')
    parser.add_argument('--tip', help='link that follows the targets')
    parser.add_argument('--config', type=Path, help='YAML file of parameters that override those '
                        'of the robot')
    parser.add_argument('--duration', type=float, default=20.0,
                        help='of the motion, simulated time [s] (20)')
    parser.add_argument('--real-time', action='store_true',
                        help='the simulator follows the wall clock, not the commands')
    parser.add_argument('--headless', action='store_true', help='open no window')
    parser.add_argument('--output', type=Path, default=Path('osc_demo'),
                        help='folder of plots and logs (osc_demo)')
    parser.add_argument('--json', type=Path, help='also write the figures to this file')
    options = parser.parse_args(arguments)
    if options.urdf and not (options.base and options.tip):
        parser.error('--urdf needs --base and --tip')
    elif not options.urdf and options.robot not in description.shipped_robots():
        parser.error(f'--robot {options.robot}: accepted is one of '
                     f"{', '.join(description.shipped_robots())}; --urdf takes any other")
    if not 3.0 <= options.duration <= 3600.0:
        parser.error(f'--duration {options.duration}: accepted is 3 to 3600 s')
    return options


def _demonstrate(options: argparse.Namespace) -> int:
    """Make one run, print and write its results; return the exit status."""
    _prepare_output(options)
    configs = [share_directory() / 'config' / f"{'own' if options.urdf else options.robot}.yaml"]
    configs += [options.config] if options.config else []
    own = _own_parameters(options)
    thresholds = _checked_values(THRESHOLDS, _section(configs, 'osc_demo'))
    robot = _robot(configs, own)
    simulator = {**_section(configs, ''), **_section(configs, 'osc_simulator'), **own,
                 'lockstep': not options.real_time}
    if not options.headless and _has_display():
        simulator['viewer'] = True
    with on_demand(), shared(scenario.use_kernels, robot,
                             tell=lambda progress: show(str(progress))):
        simulator['initial_positions'] = _initial_positions(robot, simulator).tolist()
        plan = scenario.phases(robot, np.array(simulator['initial_positions']), START,
                               options.duration)
    recording = _recording_of(options, configs, robot, plan, {
        'osc_simulator': simulator, 'osc_controller': _controller_parameters(options, own)})
    limits = np.array(simulator.get('effort_limits') or robot.effort_limits)
    limits = np.where(limits > 0.0, limits, np.inf)
    found = report.result(recording, plan, limits, thresholds)
    print(report.table(found, plan))
    written = report.write_plots(options.output, robot.name, recording, plan, found,
                                 robot.joint_names, limits)
    print('\nplots: ' + ' '.join(str(path) for path in written))
    if options.json:
        report.write_json(options.json, found, {
            'robot': robot.name, 'joints': robot.n, 'duration [s]': options.duration,
            'lockstep': not options.real_time})
    for failure in found.failures:
        print(f'NOT FOLLOWED: {failure}')
    print('(friction in the joints is not compensated: <dynamics> of the URDF, and damping and '
          'friction of osc_simulator)' if found.failures else 'the arm followed')
    return 1 if found.failures else 0


def _robot(configs: list[Path], own: dict[str, Any]) -> Robot:
    values = _checked_values(description.ENTRIES, {
        **_section(configs, ''), **_section(configs, 'osc_controller'), **own})
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the nodes log the same warnings
        return description.robot(values, description.description(values))


def _initial_positions(robot: Robot, simulator: dict[str, Any]) -> Any:
    """Joint positions (n,) at the start: those of the parameters, or ones that are found."""
    if 'initial_positions' not in simulator:
        return scenario.initial_positions(robot)
    [entry] = (entry for entry in PARAMETERS if entry.name == 'initial_positions')
    q = np.array(entry.checked_value(simulator['initial_positions']))
    if q.shape != (robot.n,):
        raise DemoError(f'initial_positions has {len(q)} entries: accepted is one for each of '
                        + ', '.join(robot.joint_names))
    return q


def _controller_parameters(options: argparse.Namespace, own: dict[str, Any]) -> dict[str, Any]:
    parameters = {**own, 'autostart': False}
    if not options.real_time:  # in lockstep, a late state on the wall clock is not stale
        parameters['state_timeout'] = STALLED
    return parameters


def _recording_of(options: argparse.Namespace, configs: list[Path], robot: Robot,
              plan: list[scenario.Phase], parameters: dict[str, dict[str, Any]]
              ) -> report.Recording:
    """Return the recording of one run of nodes with these parameters."""
    recording = report.Recording()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _isolate(work)
        make_run(robot, plan, {
            name: stack.enter_context(NodeProcess(name, configs, given, work, options.output))
            for name, given in parameters.items()}, recording)
    return recording


def _prepare_output(options: argparse.Namespace) -> None:
    """Create the output folder; raise DemoError now, not after the run, if that fails."""
    if importlib.util.find_spec('matplotlib') is None:
        raise DemoError("the plots need matplotlib: pip install 'osc_ros[demo]'")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        for file in (options.output / 'osc_simulator.log', options.json):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                existed = file.exists()
                file.open('a').close()
                if not existed:
                    file.unlink()
    except OSError as error:
        raise DemoError(f'the results cannot be written: {error}') from None


def _isolate(work: Path) -> None:
    """Use loopback and a ROS domain of its own, unless the environment says otherwise."""
    os.environ.setdefault('ROS_LOG_DIR', str(work))
    os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    profile = str(share_directory() / 'config' / 'fastdds.xml')
    for name in ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE'):
        os.environ.setdefault(name, profile)


def _own_parameters(options: argparse.Namespace) -> dict[str, Any]:
    if options.urdf:
        return {'robot_description_file': str(options.urdf.absolute()), 'base': options.base,
                'tip': options.tip}
    chosen = {'robot_description_file': options.robot, 'base': options.base, 'tip': options.tip}
    return {key: value for key, value in chosen.items() if value}


def _section(configs: list[Path], node: str) -> dict[str, Any]:
    """Return the parameters that files give to a node; to all nodes if the name is empty."""
    found: dict[str, Any] = {}
    for config in configs:
        try:
            content = yaml.safe_load(config.read_text(encoding='utf-8')) or {}
            for key in ('/**',) if not node else (f'/**/{node}', f'/{node}', node):
                found.update((content.get(key) or {}).get('ros__parameters') or {})
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise DemoError(f'config {config} cannot be read: {error}') from None
        except (AttributeError, TypeError, ValueError):
            raise DemoError(f'config {config} is no parameter file: accepted is, for each node, '
                            "'/**/osc_controller: {ros__parameters: {name: value}}'") from None
    return found


def _checked_values(table: Sequence[Entry], given: dict[str, Any]) -> dict[str, Any]:
    return {entry.name: entry.checked_value(given.get(entry.name, entry.default))
            for entry in table}


def _has_display() -> bool:
    return bool(os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY'))

if __name__ == '__main__':
    main()
