# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_record: records a running controller in a bag that osc_replay can replay."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
import re
from shutil import disk_usage
import sys
from time import perf_counter, strftime, time_ns
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from osc_ros.commandline import (
    add_json,
    output_folder,
    Parser,
    ros_name,
    stdout_for_json,
    write_json,
)
from osc_ros.errors import InputError, OscError
from osc_ros.interrupts import end_quietly, recorded_signals
from osc_ros.loop.journal import loaded_piece, piece_places
from osc_ros.recording.bag import BagWriter
from osc_ros.recording.cdr import bytes_of, RULE
from osc_ros.recording.export import JOURNAL
from osc_ros.ros.process.node_process import EventsExecutor

EXAMPLE = """examples:
  osc_record                                    osc_controller, until Ctrl-C, in osc_record_DATE
  osc_record --controller left/osc_controller --duration 20 --output run1
  osc_record --topic /camera/image_raw --all    another topic; and ~/terms, …

Replay: osc_replay run1. The format is that of ros2 bag and Foxglove.

exit status: 0 written; 1 no such controller runs; 2 bad arguments, or nothing can be written;
3 ended because the file cannot grow (disk full, ulimit -f): what was written before is kept; or
because it was removed"""
SHARED = ('joint_states', 'robot_description', '/diagnostics', '/tf', '/tf_static', '/clock',
          '/parameter_events', '/rosout')
COSTLY = 'terms', 'inertia', 'commands_stamped'  # published only while they have a subscriber
LOOK = 0.5  # time between two searches for new topics [s]
PATIENCE = 10.0  # timeout for finding the controller [s]
JOURNAL_PATIENCE = 2.0  # timeout for the first journal message [s]
TRANSPORT = 0.2  # usual time from the publication of the journal to its reception, or more [s]
REPEATED = 5.0  # within this time DDS sends a lost message again [s]
MAX_LISTED = 10  # largest number of reported journal gaps
DEPTH = 1000
RESERVE = 1e9  # free space of the disk at which the recording ends [bytes]
MOST_TOPICS = 1000  # limit, because any participant can create topics
MESSAGE_TYPE = re.compile('([a-z][a-z0-9_]*)/msg/([A-Z][A-Za-z0-9]*)')
BUILTIN = {'bool', 'byte', 'char', 'float32', 'float64', 'int8', 'uint8', 'int16', 'uint16',
           'int32', 'uint32', 'int64', 'uint64', 'string', 'wstring'}


def definition(kind: str) -> str:
    """Return the definition of a message type with its parts, in the text format of MCAP."""
    # InputError if the package of the type is not installed.
    texts, wanted = dict[str, str](), [kind]
    while wanted:
        name = wanted.pop(0)
        if name in texts:
            continue
        texts[name] = _own_definition(name)
        for line in texts[name].splitlines():
            field = line.partition('#')[0].split()
            if len(field) < 2:
                continue
            part = field[0].partition('[')[0].partition('<')[0]
            if part not in BUILTIN:
                package = name.partition('/')[0]
                wanted.append(f"{part.replace('/msg/', '/')}" if '/' in part
                              else 'std_msgs/Header' if part == 'Header' else f'{package}/{part}')
    own, *parts = texts.items()
    return own[1] + ''.join(f'\n{RULE}\nMSG: {name}\n{text}' for name, text in parts)


def message_type(kind: str) -> Any:
    """Return the class of an installed message type; InputError if it is not installed."""
    # Anyone can announce any name, so a package is imported only if it has such a message.
    found = MESSAGE_TYPE.fullmatch(kind)
    if found is None:
        raise InputError(f"type '{kind}': give messages, as std_msgs/msg/String")
    _own_definition(kind)
    try:
        return getattr(import_module(f'{found[1]}.msg'), found[2])
    except (ImportError, AttributeError) as error:
        raise InputError(f'{kind} cannot be imported: {error}') from None


def _own_definition(kind: str) -> str:
    from ament_index_python.packages import get_package_share_directory
    package, name = kind.partition('/')[0], kind.rpartition('/')[2]
    try:
        folder = Path(get_package_share_directory(package))
        return (folder / 'msg' / f'{name}.msg').read_text(encoding='utf-8')
    except (LookupError, OSError, ValueError) as error:
        raise InputError(f'the definition of {kind} is not installed: {error}') from None


class Recorder(Node):  # type: ignore[misc]
    """Subscribes to the topics of a controller, and writes their messages to a bag."""

    # `controller`: node name with namespace; `topics`: further ones; `has_all`: COSTLY ones, too.

    def __init__(self, controller: str, bag: BagWriter, topics: list[str], has_all: bool) -> None:
        super().__init__('osc_record', start_parameter_services=False, enable_rosout=False)
        self._prefix = '/' + controller.strip('/')
        self._asked, shared = (
            [name if name.startswith('/') else f"{self._prefix.rpartition('/')[0]}/{name}"
             for name in names] for names in (topics, SHARED))
        self._wanted = {*self._asked, *shared}
        self._bag, self._has_all = bag, has_all
        self._taken: dict[str, Any] = {}
        # texts for the user: topics that are not recorded and why, gaps in the journal, end or
        # restart of the controller; `printed`: those that were printed when they occurred
        self.problems, self.printed = list[str](), list[str]()
        self._is_there, self._began, self._newest = True, 0.0, 0.0
        self.failure: OSError | None = None  # of the first failed write
        self.has_ended = False  # the recording must end: the disk is nearly full
        # number of journal messages; number of gaps between them, and of invalid ones
        self.journal, self.gaps, self._following = 0, 0, None
        self._attempt(self._look)
        self.create_timer(LOOK, self._look_again)

    @property
    def is_found(self) -> bool:
        """Whether the journal of the controller was found."""
        return f'{self._prefix}/{JOURNAL}' in self._taken

    @property
    def has_begun(self) -> bool:
        """Whether the controller is found, and has sent a message or been silent for too long."""
        # After JOURNAL_PATIENCE without a message, the recording begins without one.
        return self.is_found and (any(count for name, count in self._bag.counts.items()
                                      if name.startswith(f'{self._prefix}/'))
                                  or perf_counter() > self._began + JOURNAL_PATIENCE)

    def lacks_journal(self, end: float) -> bool:
        """Whether the controller runs, but its journal up to a time [s] may not have arrived."""
        return self.is_found and self._is_there and self._newest <= end

    @property
    def missing(self) -> list[str]:
        """Requested topics that did not appear."""
        return [name for name in self._asked if name not in self._taken]

    def _look_again(self) -> None:
        self._attempt(self._look)
        self._attempt(self._bag.flush_if_due)

    def _look(self) -> None:
        """Subscribe to new topics; check the free disk space, and if the controller runs."""
        # OSError if the file was removed.
        self.has_ended = disk_usage(self._bag.file).free < RESERVE
        if self.has_ended:
            self._tell_once(f'ended: the disk has less than {RESERVE / 1e9:g} GB of free space')
            return
        if self.is_found:
            self._look_for_controller()
        for name, kinds in self.get_topic_names_and_types():
            own = name.startswith(f'{self._prefix}/') and '/_' not in name and (
                self._has_all or name.rpartition('/')[2] not in COSTLY)
            if name in self._taken or not (own or name in self._wanted):
                continue
            if len(self._taken) >= MOST_TOPICS:
                self._tell_once(f'there are more than {MOST_TOPICS} topics: the others are not '
                                'recorded')
                return
            try:
                self._subscribe(name, kinds[0])
            except OscError as error:
                self._taken[name] = None
                self.problems.append(f"topic '{name}' is not recorded: {error}")

    def _look_for_controller(self) -> None:
        """Print a note when the controller ends or starts again."""
        is_there = self.count_publishers(f'{self._prefix}/{JOURNAL}') > 0
        if is_there == self._is_there:
            return
        self._is_there = is_there
        problem = (f'the controller has started again, {perf_counter() - self._began:.1f} s after '
                   'the beginning' if is_there else
                   'the controller has ended, or was cleaned up: its last message came '
                   f'{self._newest - self._began:.1f} s after the beginning; the recording goes '
                   'on, also with a controller that starts again')
        print(f'note: {problem}', flush=True)
        self.problems.append(problem)
        self.printed.append(problem)

    def _tell_once(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _subscribe(self, name: str, kind: str) -> None:
        of = message_type(kind)
        offered = [one.qos_profile for one in self.get_publishers_info_by_topic(name)]
        if not offered and not name.startswith(self._prefix):
            return  # no publisher yet: subscribe when its QoS is known
        qos = QoSProfile(depth=DEPTH)
        if not offered or any(one.reliability != ReliabilityPolicy.RELIABLE for one in offered):
            qos.reliability = ReliabilityPolicy.BEST_EFFORT
        if offered and all(one.durability == DurabilityPolicy.TRANSIENT_LOCAL for one in offered):
            qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        self._bag.add_topic(name, kind)
        take = self._take
        if name == f'{self._prefix}/{JOURNAL}':
            take, self._began = self._take_piece, perf_counter()
            self._newest = self._began
        self._taken[name] = self.create_subscription(
            of, name, partial(take, name, kind), qos, raw=True)

    def _take(self, name: str, kind: str, data: bytes) -> None:
        self._attempt(self._bag.write, name, kind, time_ns(), data)

    def _attempt(self, write: Callable[..., None], *arguments: Any) -> None:
        """Call a function that needs the files of the bag, unless one has failed before."""
        if self.failure is None:
            try:
                write(*arguments)
            except OSError as error:
                self.failure = error

    def _take_piece(self, name: str, kind: str, data: bytes) -> None:
        piece = bytes_of(data)
        try:
            begin, following = piece_places(piece)
            if self._following is None and begin[1] > 0:  # the end of a segment of another reader
                return
            last = self._following or begin
            if begin[1] == 0 and begin[0] > last[0]:  # the next segment, of the same controller
                has_gap = (begin[0], loaded_piece(piece).before) != (last[0] + 1, last[1])
            else:
                has_gap = begin[1] > 0 and begin != last
            self._following = following
        except InputError as error:
            self.add_gap(str(error))
        else:
            late = perf_counter() - self._began
            if has_gap:
                self.add_gap('there is a gap before it')
            elif not self.journal and late > REPEATED:
                self.add_gap(f'it came {late:.1f} s after the beginning')
        self._take(name, kind, data)
        self.journal, self._newest = self.journal + 1, perf_counter()

    def add_gap(self, text: str) -> None:
        """Note that a part of the journal is missing."""
        self.gaps += 1
        if self.gaps <= MAX_LISTED:
            self.problems.append(
                f'the journal is not complete: message {self.journal + 1}: {text}')


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; EXAMPLE lists the exit statuses."""
    options = _options(arguments)
    end_quietly()
    try:
        status = _record(options)
    except (OscError, OSError) as error:
        print(f'osc_record: {error}', file=sys.stderr)
        status = 2
    sys.exit(status)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_record', epilog=EXAMPLE,
        description='Records a running controller: the inputs of its loop, joint states,\n'
        'targets, parameters, robot description, commands and reports, as a bag of rosbag2\n'
        'in MCAP.')
    parser.add_argument('--controller', default='osc_controller', metavar='NODE',
                        type=ros_name, help='name of the controller, with its namespace '
                        '(osc_controller)')
    parser.add_argument('--output', type=output_folder, metavar='FOLDER',
                        help='folder to create (osc_record_DATE_TIME)')
    parser.add_argument('--duration', type=float, default=float('inf'), metavar='S',
                        help='time to record [s], from when the controller is found '
                        '(until Ctrl-C)')
    parser.add_argument('--topic', action='append', default=[], type=ros_name,
                        help='record this topic, too; repeatable')
    parser.add_argument('--all', action='store_true', help='record ~/terms, ~/inertia and '
                        '~/commands_stamped, too: the controller makes them only then')
    add_json(parser)
    return parser.parse_args(arguments)


def _record(options: argparse.Namespace) -> int:
    if not options.duration > 0.0:
        raise InputError(f'--duration {options.duration:g}: must be more than 0 [s]')
    folder = options.output or Path(strftime('osc_record_%Y%m%d_%H%M%S'))
    bag = BagWriter(folder, definition)
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    with recorded_signals() as signals:
        recorder = Recorder(options.controller, bag, options.topic, options.all)
        try:
            with stdout_for_json(options.json):
                began = _spin(recorder, options.duration, lambda: bool(signals))
            recorder.problems += [f"topic '{name}' is not recorded: nobody publishes it"
                                  for name in recorder.missing]
        finally:
            recorder.destroy_node()
            rclpy.try_shutdown()
            failure = _close(bag, recorder)
    with stdout_for_json(options.json):
        _tell(options, bag, recorder, perf_counter() - began)
    if failure:
        print(f'osc_record: {failure}', file=sys.stderr)
        return 3
    if not recorder.is_found:
        print(f"osc_record: no node '{options.controller}' was found, or one without ~/{JOURNAL}: "
              'start the controller, or name it with --controller', file=sys.stderr)
        return 1
    return 0


def _failure_text(bag: BagWriter, failure: OSError) -> str:
    if not bag.file.exists():
        return (f"ended because '{bag.file}' was removed while it was written "
                f'({failure.strerror}): record again, and leave the folder in place')
    return (f"ended because '{bag.file}' cannot grow beyond its "
            f'{bag.file.stat().st_size} bytes ({failure.strerror}): make room, or raise the limit '
            '(ulimit -f). Kept is what was written before')


def _close(bag: BagWriter, recorder: Recorder) -> str:
    """Close the bag; return why the recording has failed, otherwise empty text."""
    # Remove the bag if it has no messages or no controller was found.
    try:
        if recorder.failure is None:
            bag.close()
    except OSError as error:
        recorder.failure = error
    text = ''
    if recorder.failure is not None:
        bag.abandon()
        text = _failure_text(bag, recorder.failure)
    if not (bag.count and recorder.is_found):
        bag.remove()
    return text


def _spin(recorder: Recorder, duration: float, is_over: Callable[[], bool]) -> float:
    """Record `duration` [s] once the controller is found; return the start (`perf_counter`)."""
    executor = EventsExecutor()
    executor.add_node(recorder)
    began, shown, was_found, end = perf_counter(), 0.0, False, float('inf')
    try:
        while not (recorder.failure or recorder.has_ended):
            now = perf_counter() - began
            if is_over() or now >= (duration if was_found else PATIENCE):
                end = min(end, now)
                if not recorder.lacks_journal(began + end + TRANSPORT):
                    break
                if now >= end + (REPEATED if recorder.journal else JOURNAL_PATIENCE):
                    recorder.add_gap('it did not come any more at the end' if recorder.journal else
                                     'none came; is black_box.duration 0?')
                    break
            executor.spin_once(timeout_sec=0.05)
            if recorder.has_begun and not was_found:  # the duration counts from here
                was_found, began = True, perf_counter()
                print('recording; Ctrl-C ends it' if duration == float('inf')
                      else f'recording for {duration:g} s', flush=True)
            if sys.stderr.isatty() and now - shown > 0.5:
                shown = now
                print(f'\r{now:6.1f} s  {recorder._bag.count} messages ', end='', file=sys.stderr)
    finally:
        if shown:
            print(file=sys.stderr)
        executor.remove_node(recorder)
        executor.shutdown()
    return began


def _tell(options: argparse.Namespace, bag: BagWriter, recorder: Recorder, took: float) -> None:
    is_exact = recorder.journal > 0 and not recorder.gaps and recorder.failure is None
    is_kept = bag.folder.exists()
    if options.json:
        write_json(options.json, {'folder': str(bag.folder) if is_kept else None,
                                  'seconds': took, 'exact': is_exact, 'messages': bag.counts,
                                  'problems': recorder.problems})
    for name, count in bag.counts.items():
        if count:
            print(f'{count:8d}  {name}')
    for problem in recorder.problems:
        if problem not in recorder.printed:
            print(f'note: {problem}')
    if not is_kept and recorder.failure is not None:
        return  # the error says it
    if not is_kept:
        print(f"{'no controller' if bag.count else 'nothing'} came in {took:.1f} s: "
              f'{bag.folder} is not kept')
        return
    print(f'{bag.folder}: {bag.count} messages in {took:.1f} s; '
          + (f'osc_replay {bag.folder} computes the run again, to the last bit' if is_exact
             else 'cut short, so osc_replay computes what can be read of it'
             if recorder.failure is not None
             else 'without a complete journal, so osc_replay computes only parts of it'
             if recorder.journal else 'without the journal of the controller, so osc_replay '
             'cannot compute it again'))


if __name__ == '__main__':
    main()
