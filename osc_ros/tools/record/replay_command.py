# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_replay: computes a recorded run again, and explains its torques."""

from __future__ import annotations

import argparse
from importlib import import_module
import sys
from typing import Any

from osc_ros.commandline import (
    add_json,
    output_file,
    Parser,
    ProgressBar,
    stdout_for_json,
    write_json,
)
from osc_ros.errors import InputError, installation, OscError
from osc_ros.recording import explanation, replay_report
from osc_ros.recording.bag import required_module
from osc_ros.recording.recorded_joints import loaded_bag
from osc_ros.recording.replay import PARAMETERS, Replay, Run

EXAMPLE = """examples:
  osc_replay run1                               is it the same? which limits acted, and when?
  osc_replay run1 --at 3.2                      every term of the torque 3.2 s after the beginning
  osc_replay run1 --set translation.natural_frequency=[30.0,30.0,30.0] --html run1.html
  osc_replay ~/.ros/log/osc_black_box/osc_controller_20260101_120000_4711_jump --csv jump.csv

exit status: 0 every torque is the recorded one to the last bit; 1 some differ (of another version
or processor); 2 bad arguments, or there is nothing to compute"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; EXAMPLE lists the exit statuses."""
    options = _options(arguments)
    try:
        status = _replay(options)
    except (OscError, OSError) as error:
        print(f'osc_replay: {error}', file=sys.stderr)
        status = 2
    sys.exit(status)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_replay', epilog=EXAMPLE,
        description='Computes a recorded run of a controller again, without ROS and without the\n'
        'arm, by the same code, and explains its torques.')
    parser.add_argument('recording', help='a folder of osc_record, of the black box or of ros2 '
                        'bag, or an .mcap file')
    parser.add_argument('--controller', default='', metavar='NODE',
                        help='if the recording has several: the name of the node')
    parser.add_argument('--at', type=float, action='append', default=[], metavar='S',
                        help='explain the torque at this time since the beginning [s]; repeatable')
    parser.add_argument('--set', action='append', default=[], metavar='NAME=VALUE',
                        help='compute with another value of a parameter, too, from the beginning '
                        'on; repeatable')
    parser.add_argument('--csv', type=output_file, metavar='FILE',
                        help='write a row for each state')
    parser.add_argument('--html', type=output_file, metavar='FILE', help='write a page with plots')
    add_json(parser)
    return parser.parse_args(arguments)


def _replay(options: argparse.Namespace) -> int:
    if options.html:
        required_module('matplotlib.figure')  # fail before the computation
    found = loaded_bag(options.recording)
    segments = found.run_of(options.controller)
    values = segments[0].facts.get(PARAMETERS, {})
    changes = _changes(options.set, values)
    run, other = _computed('computing', Replay(segments)), None
    if changes:
        changed = _alternative().ChangedParameters(values, segments[0].facts['urdf'], changes)
        other = _computed('computing with --set', Replay(segments, changed))
    with stdout_for_json(options.json):
        print('\n'.join([*(f'note: {note}' for note in found.notes),
                         *_lines(run, other, changes, options.at)]))
        if options.csv:
            replay_report.write_csv(options.csv, run, other)
        if options.html:
            replay_report.write_html(options.html, run, options.at, other, changes)
        for path in filter(None, (options.csv, options.html)):
            print(f'written: {path}')
    if options.json:
        write_json(options.json, _as_json(run, other, found.notes, options.at))
    return 0 if run.is_identical else 1


def _computed(what: str, replay: Replay) -> Run:
    with ProgressBar(what) as progress:
        return replay.compute(progress.show)


def _changes(given: list[str], values: dict[str, Any]) -> dict[str, Any]:
    return dict(_alternative().changes_of(given, values)) if given else {}


def _alternative() -> Any:
    """Import the module for --set here, because only --set needs ROS."""
    try:
        return import_module('osc_ros.tools.record.alternative')
    except ImportError as error:
        raise InputError(f'--set needs ROS 2 ({error}): source its setup.bash, or '
                         + installation('jazzy')) from None


def _lines(run: Run, other: Run | None, changes: dict[str, Any], times: list[float]) -> list[str]:
    lines = explanation.summary(run)
    for seconds in times:
        lines += ['', *explanation.explanation_lines(run, run.at(seconds), other.at(seconds)
                                                     if other is not None else None)]
    if other is not None:
        lines += ['', *explanation.comparison(run, other, changes)]
    return lines


def _as_json(run: Run, other: Run | None, notes: list[str], times: list[float]) -> dict[str, Any]:
    found = {**explanation.as_json(run), 'notes': notes, 'at': [
        explanation.moment_as_json(run, run.at(seconds)) for seconds in times]}
    if other is not None:
        apart = explanation.difference(run, other)
        found['with set'] = {
            'largest difference [N m]': apart.largest.tolist(), 'rms [N m]': apart.rms.tolist(),
            'limits': explanation.limit_shares(other),
            'at': [explanation.moment_as_json(other, other.at(seconds)) for seconds in times]}
    return found


if __name__ == '__main__':
    main()
