"""osc_demo: a simulated arm follows targets over ROS 2, and is judged."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
import importlib.util
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
from time import perf_counter
from typing import Any
import warnings

import numpy as np
import yaml

from osc_ros.errors import OscError
from osc_ros.model.robot import Robot
from osc_ros.nodes import description, report, scenario
from osc_ros.nodes.parameters import Entry
from osc_ros.nodes.share import share_directory
from osc_ros.nodes.simulator import PARAMETERS

# Simulated times: at which the first motion begins, and by which it was sent, so that the
# controller has it, whatever else the machine does, and every run is the same [s].
START, SENT = 3.0, 2.0
THRESHOLDS = (
    Entry('tracking_position', 0.001, 'RMS while the eight is traced [m]', lower=0.0),
    Entry('tracking_orientation', 0.0035, 'The same [rad]', lower=0.0),
    Entry('settled_position', 0.001, 'Largest at the end of a step [m]', lower=0.0),
    Entry('settled_orientation', 0.0035, 'The same [rad]', lower=0.0),
)
LOST = 20.0  # wall time after which an answer is thought to be lost [s]
STALLED = 20.0  # wall time without any progress after which the run is given up [s]


class DemoError(OscError, RuntimeError):
    """The demonstration could not be run: says what did not come."""


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
        'under osc_controller over ROS 2. The tip is judged by what the physics engine says.')
    robot = parser.add_mutually_exclusive_group()
    robot.add_argument('--robot', default='panda',
                       help=f"a robot of this package, {', '.join(description.shipped_robots())} "
                       '(panda)')
    robot.add_argument('--urdf', type=Path, help='your own robot, with --base and --tip')
    parser.add_argument('--base', help='link that is fixed to the ground')
    parser.add_argument('--tip', help='link that follows the targets')
    parser.add_argument('--config', type=Path, help='YAML file of parameters that go before those '
                        'of the robot')
    parser.add_argument('--duration', type=float, default=20.0,
                        help='of the motion, simulated time [s] (20)')
    parser.add_argument('--real-time', action='store_true',
                        help='let the simulator follow the wall clock, not the commands')
    parser.add_argument('--headless', action='store_true', help='open no window')
    parser.add_argument('--output', type=Path, default=Path('osc_demo'),
                        help='folder of plots and logs (osc_demo)')
    parser.add_argument('--json', type=Path, help='write the figures to this file too')
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
    _prepare_output(options)
    configs = [share_directory() / 'config' / f"{'own' if options.urdf else options.robot}.yaml"]
    configs += [options.config] if options.config else []
    own = _own_parameters(options)
    thresholds = _checked(THRESHOLDS, _section(configs, 'osc_demo'))
    values = _checked(description.ENTRIES, {
        **_section(configs, ''), **_section(configs, 'osc_controller'), **own})
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the nodes say it too, in their logs
        robot = description.robot(values, description.description(values))
    simulator = {**_section(configs, ''), **_section(configs, 'osc_simulator'), **own,
                 'lockstep': not options.real_time}
    if 'initial_positions' not in simulator:
        simulator['initial_positions'] = scenario.initial_positions(robot).tolist()
    if not options.headless and _has_display():
        simulator['viewer'] = True

    [begin] = (entry for entry in PARAMETERS if entry.name == 'initial_positions')
    q = np.array(begin.checked(simulator['initial_positions']))
    if q.shape != (robot.n,):
        raise DemoError(f'initial_positions has {len(q)} entries: accepted is one for each of '
                        + ', '.join(robot.joint_names))
    controller = {**own, 'autostart': False}
    if not options.real_time:  # states wait for commands: the wall clock says nothing of them
        controller['state_timeout'] = STALLED
    plan = scenario.phases(robot, q, START, options.duration)
    recording = report.Recording()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _isolate(work)
        processes = {
            name: stack.enter_context(_Process(name, configs, parameters, work, options.output))
            for name, parameters in (('osc_simulator', simulator),
                                     ('osc_controller', controller))}
        _run(robot, plan, processes, recording)
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


def _prepare_output(options: argparse.Namespace) -> None:
    """Find out now, and not after the run, that its results cannot be written."""
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
    """Keep to this machine, and out of the way of other robots, unless told otherwise."""
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
    """Parameters that files give to a node, or to all nodes where the name is empty."""
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


def _checked(table: Sequence[Entry], given: dict[str, Any]) -> dict[str, Any]:
    return {entry.name: entry.checked(given.get(entry.name, entry.default)) for entry in table}


def _has_display() -> bool:
    return bool(os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY'))


class _Process:
    """A node in a process of its own, ended with the demonstration."""

    def __init__(self, name: str, configs: list[Path], parameters: dict[str, Any], work: Path,
                 output: Path) -> None:
        self.name = name
        self._log = output / f'{name}.log'
        # more specific than the wildcards of the config, so it goes before them
        own = work / f'{name}.yaml'
        own.write_text(yaml.safe_dump({f'/{name}': {'ros__parameters': parameters}}))
        module = f'osc_ros.nodes.{name.removeprefix("osc_")}'
        self._command = [sys.executable, '-m', module, '--ros-args']
        for file in (*configs, own):
            self._command += ['--params-file', str(file)]

    def __enter__(self) -> _Process:
        with self._log.open('w') as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT,
                                             stdin=subprocess.DEVNULL, start_new_session=True)
        return self

    def require_running(self) -> None:
        """Raise DemoError with the end of the log if the process has ended."""
        if self._process.poll() is not None:
            raise DemoError(f'{self.name} ended (exit status {self._process.returncode}):\n'
                            + self.tail())

    def tail(self) -> str:
        """The end of what it said."""
        return '\n'.join(self._log.read_text(errors='replace').splitlines()[-12:])

    def stop(self) -> None:
        """Tell it to end, and wait."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _run(robot: Robot, plan: list[scenario.Phase], processes: dict[str, _Process],
         recording: report.Recording) -> None:
    from lifecycle_msgs.msg import Transition
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    from osc_ros.nodes.witness import Witness

    # an exception out of a signal handler would be lost, or worse, inside the executor
    told: list[int] = []
    handlers = {number: signal.signal(number, lambda which, frame: told.append(which))
                for number in (signal.SIGINT, signal.SIGTERM)}
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    witness = Witness(recording, robot.base)
    try:
        def wait_for(what: str, happened: Any, patience: float) -> None:
            deadline = perf_counter() + patience
            while True:
                witness.spin_once(0.05)
                if told:
                    sys.exit(128 + told[0])
                for process in processes.values():
                    process.require_running()
                if perf_counter() > deadline:
                    raise DemoError(f'{what} did not come in time\n' + said())
                if happened():
                    return

        def require(what: str, transition: int, patience: float, refusable: bool) -> None:
            """
            Ask for a transition, again where no answer comes or a refusal may be early.

            One that is refused for good after an unanswered one: that was made, or what follows
            does not come.

            """
            deadline, asked, answers = perf_counter() + patience, -np.inf, []
            while not any(answer.done() and answer.result().success for answer in answers):
                refused = any(answer.done() for answer in answers)
                if refused and not refusable:
                    if len(answers) > 1:
                        return
                    raise DemoError(f'osc_controller refused its {what}\n' + said())
                if perf_counter() - asked > (0.2 if refused else LOST):
                    asked = perf_counter()
                    answers.append(witness.change(transition))
                wait_for(f'the {what} of osc_controller', lambda: True,
                         deadline - perf_counter())

        def said() -> str:
            return '\n'.join(f'{process.name}:\n{process.tail()}'
                             for process in processes.values())

        print(f"starting osc_simulator and osc_controller for '{robot.name}' ...", flush=True)
        wait_for('osc_controller', witness.sees_controller, 30.0)
        print('configuring; the first time, the kernels are compiled: about a minute ...',
              flush=True)
        require('configuration', Transition.TRANSITION_CONFIGURE, 180.0, refusable=False)
        wait_for('joint states, and ears for targets', witness.is_heard, 30.0)
        # refused until it has heard a joint state
        require('activation', Transition.TRANSITION_ACTIVATE, 30.0, refusable=True)
        for phase in plan:
            witness.send(phase.motion, phase.start, robot.tip)
        if witness.time > SENT:
            raise DemoError(f'the targets were sent at {witness.time} s, later than {SENT} s, '
                            f'for {START} s: this machine is too busy')
        end = plan[-1].end
        shown = -np.inf
        schedule = scenario.reference(plan, recording.poses[0])
        begun, first = perf_counter(), len(recording.state_times)
        while witness.time < end:
            wait_for('the next joint state', partial(witness.is_past, witness.time), STALLED)
            if perf_counter() - shown > (0.2 if sys.stdout.isatty() else 2.0):
                shown = perf_counter()
                away, turn = scenario.error(recording.poses[-1],
                                            schedule.at(recording.pose_times[-1]))
                _progress(f't = {witness.time:6.2f} of {end:.2f} s   error {1e3 * away:8.3f} mm '
                          f'{np.degrees(turn):8.3f} deg')
        recording.wall_time = perf_counter() - begun
        recording.state_times[:first], recording.torques[:first] = [], []
        _progress('', last=True)
        before = witness.diagnoses
        processes['osc_controller'].stop()
        deadline = perf_counter() + 2.0  # its last word is in the table, but not worth a failure
        while perf_counter() < deadline and witness.diagnoses < before + 2:
            witness.spin_once(0.05)
    finally:
        witness.destroy()
        rclpy.try_shutdown()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _progress(text: str, last: bool = False) -> None:
    if sys.stdout.isatty():
        print(f'\r{text:78}', end='\r' if last else '', flush=True)
    elif text:
        print(text, flush=True)


if __name__ == '__main__':
    main()
