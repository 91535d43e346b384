# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_demo: a simulated arm follows targets over ROS 2, and its errors are checked."""

from __future__ import annotations

import argparse
from contextlib import closing, ExitStack
import importlib.util
import os
from pathlib import Path
import shutil
import sys
import tempfile
from textwrap import fill
from typing import Any

from osc_ros.commandline import (
    add_json,
    colored_text,
    make_folder,
    output_folder,
    Parser,
    ProgressBar,
    run_command,
)
from osc_ros.errors import installation
from osc_ros.interrupts import recorded_signals
from osc_ros.ros.process.domains import reserved_domain
from osc_ros.ros.process.profile import profile_environment, profile_variable
from osc_ros.ros.process.share import share_directory
from osc_ros.tools.check import scenario
from osc_ros.tools.check.cause_search import Cause, follow_check
from osc_ros.tools.check.demonstration import Demonstration, demonstration
from osc_ros.tools.check.following import tell_cause
from osc_ros.tools.check.judgement import lacks_poses, Recording, Result, result
from osc_ros.tools.check.parameter_files import NODES, text_of
from osc_ros.tools.check.robot_options import (
    add_robot_options,
    given_parameters,
    own_parameters,
    require_robot,
    write_new,
)
from osc_ros.tools.demo import demo_page, demo_report
from osc_ros.tools.demo.demo_loops import arm_parameters, DDS, FRANKA, FRANKA_SIM, LOOPS, TipPose
from osc_ros.tools.demo.demo_run import (
    ARM_START,
    ArmError,
    DemoError,
    initialized,
    NodeProcess,
    Progress,
    require_free_domain,
    Run,
    say,
    show,
    STALLED,
    START,
)

EXAMPLE = """examples:
  osc_demo                                       a Panda, with a page in the browser
  osc_demo --robot ur5e --headless --duration 5 --json out.json
  osc_demo --urdf arm.urdf --base base_link --tip tool0

An arm that does not follow, without --config, makes a second run with what it needs, which the
last line names: first another controller, then assumed rotor inertias of the simulated arm.

Exit status: 0 the arm followed, in the first or in the second run; 1 it did not, and the cause is
printed; 2 wrong arguments, or the demo could not run; 3 an arm in the loop (--loop) ended its
control, for the reason of the last line; 130 Ctrl-C. It writes plots, logs and parameters to
osc_demo/."""
TOO_SLOW = ('With the same parameters the arm follows in this process, without ROS and in '
            'lockstep: the nodes were too slow for the wall clock, or lost messages.')
LATE = 'communication_constraints_violation'  # of an FR3 that received no torque for 20 ms


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; EXAMPLE lists the exit statuses."""
    run_command('osc_demo', _options(arguments), _demonstrate, {ArmError: 3})


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_demo', epilog=EXAMPLE,
        description='A simulated arm traces a figure of eight, steps and turns, under\n'
        'osc_controller over ROS 2. The physics engine measures the errors of the tip.')
    add_robot_options(parser, f'panda; {FRANKA} for franka-sim')
    parser.add_argument('--duration', type=float, default=20.0,
                        help='of the motion, simulated time [s] (20); before it, at t < 0, the '
                        f'arm stands still for {START:g} s')
    parser.add_argument('--loop', choices=LOOPS, default=DDS,
                        help='dds: osc_simulator and osc_controller; mujoco: osc_arm at 1 kHz on '
                        'the wall clock, with MuJoCo in its loop; franka-sim: osc_arm with '
                        'libfranka, and franka-sim in place of an FR3 (dds)')
    parser.add_argument('--real-time', action='store_true',
                        help='the simulator follows the wall clock, not the commands')
    parser.add_argument('--headless', action='store_true',
                        help='no window, no page in the browser; end after the figures')
    parser.add_argument('--output', type=output_folder, default=Path('osc_demo'),
                        help='folder of plots and logs (osc_demo)')
    add_json(parser)
    options = parser.parse_args(arguments)
    if options.loop == FRANKA_SIM and (options.urdf or options.robot not in (None, FRANKA)):
        parser.error(f'--loop {FRANKA_SIM}: give --robot {FRANKA}, the default')
    if options.loop == FRANKA_SIM:
        options.robot = FRANKA
    require_robot(parser, options)
    if not 3.0 <= options.duration <= 3600.0:
        parser.error(f'--duration {options.duration}: must be 3 to 3600 s')
    return options


def _demonstrate(options: argparse.Namespace) -> int:
    """Run the demonstration, write the results; return the exit status."""
    _prepare_output(options)
    with ExitStack() as stack:
        stack.callback(show, '', last=True)
        wanted = demonstration(given_parameters(options), own_parameters(options),
                               options.duration, Progress())
        show('', last=True)
        for note in wanted.notes:
            say(f'note: {note}')
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(_keep_black_boxes, work / 'osc_black_box', options.output)
        _isolate(work)
        address = '' if options.headless else stack.enter_context(
            demo_page.page(work, options.output))
        found = first = _reported_run(options, wanted, work)
        why = (_explain(options, wanted) if first.failures and options.loop != FRANKA_SIM
               else Cause(''))
        if why.changes and not options.config:
            say(f'\nonce more, with {why.remedy} ...')
            as_it_came, wanted = wanted, wanted.with_changes(why.changes)
            found = _reported_run(options, wanted, work, wanted.differences(as_it_came))
        _conclude(options, wanted, (first, found), why)
        if address and demo_page.has_terminal():
            demo_page.play(options.loop, wanted, work, options.output, address)
    return 1 if found.failures else 0


def _keep_black_boxes(folder: Path, output: Path) -> None:
    """Move the black-box files to the output folder."""
    for one in sorted(folder.iterdir()) if folder.is_dir() else ():
        (output / folder.name).mkdir(exist_ok=True)
        shutil.move(one, output / folder.name / one.name)
        say(f'black box: {output / folder.name / one.name}')


def _reported_run(options: argparse.Namespace, wanted: Demonstration, work: Path,
                  changed: dict[str, Any] | None = None) -> Result:
    """Make a run; write its parameters and plots; print its results, and `changed` parameters."""
    used = write_new(options.output / 'parameters.yaml',
                     text_of({node: wanted.given(node) for node in NODES}))
    plan = wanted.phases(START if options.loop == DDS else ARM_START)
    recording = _recording_of(options, wanted, plan, work)
    found = result(recording, plan, wanted)
    if changed:
        found.figures[demo_report.CHANGED] = changed
    print(demo_report.table(found, plan), flush=True)
    written = demo_report.write_plots(options.output, recording, plan, found, wanted)
    print(f"\nparameters: {used}\nplots: {' '.join(str(path) for path in written)}", flush=True)
    for failure in found.failures:
        print(colored_text(f'NOT FOLLOWED: {failure}', 'bad'), flush=True)
    return found


def _conclude(options: argparse.Namespace, wanted: Demonstration,
              runs: tuple[Result, Result], why: Cause) -> None:
    """Print the verdict on the last run, and with --json write the results to a file."""
    # Verdict: the arm followed, or follows only with the parameters of `why`; none if it did not
    # follow in the last run. `runs`: first and last run, the same object if there was only one.
    first, last = runs
    if options.json:
        demo_report.write_json(options.json, last, {
            'robot': wanted.robot.name, 'joints': wanted.robot.n,
            'duration [s]': options.duration, 'loop': options.loop,
            'lockstep': options.loop == DDS and not options.real_time,
            'notes': list(wanted.notes), 'cause': why.text,
            'follows only with': '' if last is first or last.failures else why.remedy,
            'first run': {'failures': first.failures, **first.figures}})
    if not last.failures:
        text = ('the arm followed' if last is first
                else fill(f'the arm follows only with {why.remedy}', 96))
        print(colored_text(text, 'good'), flush=True)


def _explain(options: argparse.Namespace, wanted: Demonstration) -> Cause:
    """Print and return the cause for which the arm does not follow, with parameters that help."""
    print('looking for the cause ...', flush=True)
    with ProgressBar('looking for the cause') as bar:
        why = follow_check(wanted, bar.show).cause or Cause(TOO_SLOW)
    tell_cause(why, options)
    return why


def _recording_of(options: argparse.Namespace, wanted: Demonstration,
                  plan: list[scenario.Phase], work: Path) -> Recording:
    """Return the recording of one run of the nodes."""
    # The run is repeated once, from its start, if the arm ended it because torques were late, or
    # if this machine has lost poses of the tip.
    has_window = not options.headless and _has_display()
    if not options.headless and not has_window:
        print('note: no display was found (DISPLAY, WAYLAND_DISPLAY), so no window shows the '
              'arm; the plots show the run', flush=True)
    try:
        recording = _recorded_run(options, wanted, plan, work, has_window)
        if not lacks_poses(recording, plan):
            return recording
        say('poses of the tip were lost: this machine is too busy; the run is made again ...')
    except ArmError as error:
        if LATE not in str(error):
            raise
        say(f'{error}\nthe arm is started again, for another run from its start ...')
    recording = _recorded_run(options, wanted, plan, work, has_window)
    recording.repetitions = 1
    return recording


def _recorded_run(options: argparse.Namespace, wanted: Demonstration, plan: list[scenario.Phase],
                  work: Path, has_window: bool) -> Recording:
    """Start the nodes, make the motions, and stop the nodes; return the recording."""
    recording, tip_pose = Recording(), None
    with recorded_signals() as signals, ExitStack() as stack:
        if options.loop == DDS:
            given = _parameters_over_dds(options, wanted, has_window)
        else:
            tip_pose = stack.enter_context(closing(TipPose(wanted, has_window)))
            given = {'osc_arm': stack.enter_context(
                arm_parameters(options.loop, wanted, options.output))}
        processes = {process.node: stack.enter_context(process) for process in (
            NodeProcess(name, values, work, options.output) for name, values in given.items())}
        stack.enter_context(initialized())
        Run(wanted.robot, processes, recording, wanted.freedoms, signals,
            tip_pose and tip_pose.pose).make(plan)
    if signals:
        sys.exit(128 + signals[0])
    for line in recording.warnings:
        print(line)
    return recording


def _parameters_over_dds(options: argparse.Namespace, wanted: Demonstration, has_window: bool
                         ) -> dict[str, dict[str, Any]]:
    simulator = {**wanted.given('osc_simulator'), 'lockstep': not options.real_time}
    controller = {**wanted.given('osc_controller'), 'autostart': False}
    if not options.real_time:  # in lockstep, a state that is late on the wall clock is not stale
        controller['state_timeout'] = STALLED
    if not options.headless:
        simulator['viewer'] = has_window
    return {'osc_simulator': simulator, 'osc_controller': controller}


def _prepare_output(options: argparse.Namespace) -> None:
    """Create the output folder; raise OscError if it or matplotlib is unavailable."""
    if importlib.util.find_spec('matplotlib') is None:
        raise DemoError(f"the plots need matplotlib: {installation('demo')}")
    make_folder(options.output)


def _isolate(work: Path) -> None:
    """Use loopback and a separate ROS domain, unless environment variables choose others."""
    # DemoError if the chosen domain has nodes of the same names.
    os.environ.setdefault('ROS_LOG_DIR', str(work))
    if not os.environ.get(profile_variable()):
        os.environ.update(profile_environment(share_directory() / 'config' / 'fastdds.xml'))
    if 'ROS_DOMAIN_ID' in os.environ:
        require_free_domain()
    else:
        os.environ['ROS_DOMAIN_ID'] = str(reserved_domain())


def _has_display() -> bool:
    return bool(os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY'))


if __name__ == '__main__':
    main()
