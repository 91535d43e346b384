# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_teach: records an arm that a hand guides, and plays the recording back."""

from __future__ import annotations

import argparse
from contextlib import closing, suppress
from functools import partial
import math
from pathlib import Path as File
from queue import SimpleQueue
import sys
from threading import Thread
from typing import Any

import numpy as np

from osc_ros.commandline import (
    add_json,
    is_agreed,
    Parser,
    ros_name,
    stdout_for_json,
    write_json,
)
from osc_ros.errors import ArmError, InputError, OscError
from osc_ros.interrupts import raised_signals
from osc_ros.tools.teach.taught import load, PATH, save, Taught
from osc_ros.tools.teach.taught_bag import require_writer, write_mcap

EXAMPLE = """examples:
  osc_teach record wipe.yaml              a path, from Enter to Enter, while a hand guides the arm
  osc_teach record --poses shelf.yaml     poses, one for each Enter
  osc_teach record wipe.yaml --duration 10 --mcap     10 s; wipe.mcap too
  osc_teach play wipe.yaml                goes to the start, and along the path
  osc_teach play wipe.yaml --speed 0.5
  osc_teach show wipe.yaml                what the file contains; needs no arm

`ros2 service call /osc_teach/mark std_srvs/srv/Trigger` is an Enter, for a button at the arm.

exit status: 0 done; 1 the controller stopped the arm, or it did not get there; 2 bad input,
refused before anything moved; 3 declined; 130 Ctrl-C (the arm holds; a recording is written)"""
UNDO, END = 'u', 'q'
Figures = dict[str, Any]
# Actions, each with its options that the other actions may not accept.
ACTIONS = {'record': ('poses', 'duration', 'mcap'), 'play': ('speed', 'pause'),
           'show': ('mcap',)}


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; EXAMPLE lists the exit statuses."""
    options = _options(arguments)
    try:
        with raised_signals(), stdout_for_json(options.json):
            run = {'record': _record, 'play': _play, 'show': _show}[options.action]
            try:
                status, figures = run(options)
            except ArmError as error:
                _complain(error)
                status, figures = 1, {'problem': str(error)}
            if options.json:
                write_json(options.json, figures)
        sys.exit(status)
    except OscError as error:
        _complain(error)
        sys.exit(2)
    except KeyboardInterrupt:
        print('interrupted', file=sys.stderr)
        sys.exit(130)


def _complain(error: OscError) -> None:
    sys.stdout.flush()
    print(f'osc_teach: {error}', file=sys.stderr)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_teach', epilog=EXAMPLE,
        description='Records poses and paths of an arm that a hand guides in free drive, and\n'
        'plays them back through the running controller, within its limits. Asks first.')
    parser.add_argument('action', metavar='record|play|show', help='record: free drive, and a '
                        'file of what the hand does; play: moves the arm as a file says; show: '
                        'says what a file contains')
    parser.add_argument('file', type=File, nargs='?', help='.yaml; for record not there yet')
    parser.add_argument('--poses', action='store_true', help='record: poses, not a path')
    parser.add_argument('--duration', type=float, help='record: of the path, without Enter [s]')
    parser.add_argument('--mcap', action='store_true', help='record, show: write FILE.mcap too')
    parser.add_argument('--speed', type=float, default=1.0, help='play: factor of the speed of a '
                        'path, 0.01 to 10 (1)')
    parser.add_argument('--pause', type=float, default=1.0, help='play: at each pose [s] (1)')
    parser.add_argument('--controller', default='osc_controller', type=ros_name,
                        help='name of the running controller (osc_controller)')
    parser.add_argument('--timeout', type=float, default=10.0, help='until the controller '
                        'answers [s] (10)')
    parser.add_argument('--yes', action='store_true', help='do not ask')
    add_json(parser)
    options = parser.parse_intermixed_args(arguments)  # allows options before the file
    given = vars(options)
    if options.action not in ACTIONS or options.file is None:
        parser.error(f"'{options.action}', file {options.file}: give one of "
                     f"{', '.join(ACTIONS)}, and a file")
    for name in (name for others in ACTIONS.values() for name in others):
        if name not in ACTIONS[options.action] and given[name] != parser.get_default(name):
            parser.error(f'--{name}: has no effect with {options.action}, leave it out')
    for name, most in (('duration', 3600.0), ('timeout', 3600.0), ('speed', 10.0),
                       ('pause', 3600.0)):
        least = 0.01 if name == 'speed' else 0.0
        if given[name] is not None and not least <= given[name] <= most:
            parser.error(f'--{name} {given[name]}: must be {least:g} to {most:g}')
    if options.poses and options.duration is not None:
        parser.error('--duration: give it for a path, not with --poses')
    return options


def _session(options: argparse.Namespace) -> Any:
    try:
        from osc_ros.tools.teach.teach_session import Session
    except ModuleNotFoundError as error:
        raise InputError(f'osc_teach {options.file} needs ROS 2 ({error}): source its setup.bash'
                         ) from None
    return Session(options.controller, options.timeout)


# record

def _record(options: argparse.Namespace) -> tuple[int, Figures]:
    """Record poses or a path; return the exit status and the results for JSON."""
    file = options.file
    if file.suffix not in ('.yaml', '.yml') or not file.absolute().parent.is_dir():
        raise InputError(f"'{file}': give a file with the ending .yaml in a folder that "
                         'exists')
    if options.mcap:
        require_writer()
    for one in (file, *([file.with_suffix('.mcap')] if options.mcap else [])):
        if one.exists():
            raise InputError(f"'{one}' exists: give the name of a new file")
    with closing(_session(options)) as session:
        print(f"'{session.robot.name}', tip {session.robot.tip}: free drive, the arm will follow "
              'the hand. A load that the controller does not know makes it sink or rise: set the '
              'payload first, and keep the emergency stop at hand.')
        if not options.yes and not is_agreed('Begin free drive?'):
            print('nothing was done')
            return 3, {}
        marks: SimpleQueue[str | None] = SimpleQueue()
        session.backend.offer('osc_teach/mark', partial(marks.put, ''))
        found: list[Any] = []
        status, taught_of = 0, session.poses_of if options.poses else session.path_of
        try:
            with session.guided():
                if options.duration is None:
                    Thread(target=_read_lines, args=[marks], daemon=True).start()
                (_collect_poses if options.poses else _collect_path)(session, marks, options,
                                                                      found)
        except KeyboardInterrupt:
            status = 130
        except ArmError as error:
            print(f'osc_teach: {error}', file=sys.stderr)
            status = 1
        with suppress(ArmError):  # write the recording even if the controller is gone
            print('free drive is off: the arm holds' if not session.is_free() else
                  'the arm stays in free drive, as it was before')
        try:
            taught = taught_of(found)
        except InputError as error:
            if not status:
                raise
            print(f'osc_teach: nothing is written: {error}', file=sys.stderr)
            return status, {}
        _write(taught, options)
        return status, _figures(taught)


def _read_lines(marks: SimpleQueue[str | None]) -> None:
    """Put the lines of the standard input into a queue, and None at its end."""
    with suppress(OSError, ValueError):
        for line in sys.stdin:
            marks.put(line.strip().lower())
    marks.put(None)


def _next(session: Any, marks: SimpleQueue[str | None]) -> str | None:
    """Wait for the next line, and return it; raise ArmError if the controller is gone."""
    session.wait(lambda: not marks.empty())
    return marks.get()


def _collect_path(session: Any, marks: SimpleQueue[str | None], options: argparse.Namespace,
                  found: list[Any]) -> None:
    """Record a path: append its states to `found`, even if the recording is interrupted."""
    if options.duration is None:
        print('Enter: begin the path', flush=True)
        if _next(session, marks) is None:
            raise InputError('the standard input has ended: use a terminal, or --duration')
    with session.recorded() as states:
        try:
            print('recording' + (f' for {options.duration:g} s' if options.duration else
                                 '; Enter: end the path'), flush=True)
            if options.duration is None:
                _next(session, marks)
            else:
                session.wait(lambda: False, options.duration)
        finally:
            found += states


def _collect_poses(session: Any, marks: SimpleQueue[str | None], options: argparse.Namespace,
                   found: list[Any]) -> None:
    """Record poses: append their times and joint positions to `found`."""
    print(f'Enter: record a pose; {UNDO} Enter: remove the last; {END} Enter: end', flush=True)
    while (line := _next(session, marks)) not in (None, END):
        if line == UNDO:
            if found:
                found.pop()
            print(f'{len(found)} poses', flush=True)
        elif line:
            print(f"'{line}': give Enter, {UNDO} or {END}", flush=True)
        else:
            time, q = session.state()
            if found and time <= found[-1][0]:
                continue  # a second mark within one state
            found.append((time, q))
            print(f'pose {len(found)}: {np.round(q, 3).tolist()}', flush=True)


def _write(taught: Taught, options: argparse.Namespace) -> None:
    save(taught, options.file)
    print(f'written: {options.file} ({_summary(taught)})')
    if options.mcap:
        file = options.file.with_suffix('.mcap')
        write_mcap(taught, file)
        print(f'written: {file}')


def _summary(taught: Taught) -> str:
    if taught.kind == PATH:
        return (f"a path of '{taught.robot}', {len(taught.times)} points, "
                f'{taught.times[-1]:.2f} s, {taught.length:.3f} m')
    return f"{len(taught.times)} poses of '{taught.robot}'"


def _figures(taught: Taught) -> Figures:
    return {'kind': taught.kind, 'robot': taught.robot, 'points': len(taught.times),
            'duration [s]': float(taught.times[-1]), 'length [m]': taught.length}


# play

def _play(options: argparse.Namespace) -> tuple[int, Figures]:
    """Play a recording back with the arm; return the exit status and the results for JSON."""
    taught = load(options.file)
    with closing(_session(options)) as session:
        try:
            plan = session.plan(taught, options.speed)
        except InputError as error:
            raise InputError(f"'{options.file}' is refused: {error}") from None
        far = int(np.argmax(np.abs(plan.way)))
        print(f'{_summary(taught)}; the joints first move to the start, '
              f"'{taught.joint_names[far]}' by {plan.way[far]:.2f} "
              + ('m' if session.robot.prismatic[far] else 'rad')
              + (f'; the path then takes {plan.duration:.2f} s' if plan.path else '')
              + '. Obstacles are not known: keep the emergency stop at hand.')
        if not options.yes and not is_agreed('Move the arm?'):
            print('nothing was done')
            return 3, {}
        try:
            session.go_to_start(plan)
            print('at the start', flush=True)
            away, turn = (session.play_path(plan) if plan.path else
                          session.play_poses(plan, options.pause))
        except BaseException:
            with suppress(OscError):
                session.backend.hold()
            raise
    print(f'played; the tip was at most {1e3 * away:.1f} mm and {math.degrees(turn):.2f}° '
          + ('from the path' if plan.path else 'from a pose when it rested there'))
    return 0, {**_figures(taught), 'largest distance [m]': away, 'largest angle [rad]': turn}


def _show(options: argparse.Namespace) -> tuple[int, Figures]:
    """Print the content of a file; return the exit status and the results for JSON."""
    taught = load(options.file)
    print(f'{options.file}: {_summary(taught)}; tip {taught.tip} in the frame {taught.base}')
    if options.mcap:
        file = options.file.with_suffix('.mcap')
        if file.exists():
            raise InputError(f"'{file}' exists: give a file that does not")
        write_mcap(taught, file)
        print(f'written: {file}')
    return 0, _figures(taught)


if __name__ == '__main__':
    main()
