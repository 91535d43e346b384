# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Gaps in a stream of joint states and commands while short-lived participants join.

A process publishes joint states at 500 Hz, a second one answers each with a command, and the first
one records when the commands arrive. Beside them a process starts again and again that asks for a
parameter and ends, as `ros2 param get` does: once for each profile of Fast DDS.

`traffic` has these processes.

"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
import json
from pathlib import Path
import tempfile
from time import sleep

import nodes
from osc_ros.ros.process.profile import profile_variable
from osc_ros.ros.process.share import share_directory

PERIOD = 0.002  # of the joint states [s]
LONG = 0.25  # longer gaps are counted [s]; one of Fast DDS's shared memory is 0.333 s
SECONDS = 60.0  # default duration for each profile [s]
PAUSE = 0.4  # between two participants [s]
TRAFFIC = nodes.HERE / 'traffic.py'
PROFILES = {'UDP on the loopback: config/fastdds.xml': 'fastdds.xml',
            'shared memory: config/fastdds_shared_memory.xml': 'fastdds_shared_memory.xml',
            'the default of Fast DDS: no profile': ''}


@dataclass(frozen=True)
class Row:
    """
    The measurement with one profile.

    Attributes
    ----------
    profile : str
    seconds : float
        Duration [s].
    joined : int
        Number of participants that joined and left.
    answered : int
        Number of commands that arrived.
    longest, own : float
        Longest gap between two commands, and between two publications of states, which is the
        delay of the sender itself [s].
    long : int
        Number of gaps between two commands longer than LONG.
    p50, p99 : float
        Time from the publication of a state to the arrival of its command [µs].

    """

    profile: str
    seconds: float
    joined: int
    answered: int
    longest: float
    own: float
    long: int
    p50: float
    p99: float


def section(seconds: float = SECONDS, profiles: Sequence[str] = tuple(PROFILES),
            done: Callable[[str], None] = lambda what: None) -> list[Row] | None:
    """Return a row for each of these keys of PROFILES; None without rclpy."""
    if find_spec('rclpy') is None:
        return None
    rows = []
    for profile in profiles:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_row(profile, seconds, Path(folder)))
        done(profile)
    return rows


def _row(profile: str, seconds: float, work: Path) -> Row:
    name = profile_variable()
    environment = nodes.environment_of(work)
    environment.pop(name, None)
    environment.pop('FASTDDS_BUILTIN_TRANSPORTS', None)
    if file := PROFILES[profile]:
        environment[name] = str(share_directory() / 'config' / file)
    joined = 0
    with nodes.running([TRAFFIC, 'echo'], work, environment), \
            nodes.running([TRAFFIC, 'measure', seconds, PERIOD, LONG], work, environment
                          ) as (measure, log):
        while measure.poll() is None:
            with nodes.running([TRAFFIC, 'join'], work, environment) as (visitor, _):
                visitor.wait()
            joined += 1
            sleep(PAUSE)
        if measure.returncode:
            raise nodes.NodesError(log.read_text())
        return Row(profile, seconds, joined, **json.loads(measure.stdout.read()))


def page(rows: Sequence[Row] | None) -> list[str]:
    """Return the section as lines of Markdown."""
    lines = ['## Gaps when participants join', '']
    if rows is None:
        return [*lines, 'rclpy is not installed here: not measured.', '']
    return [
        *lines, f'Joint states at {1.0 / PERIOD:g} Hz and their commands, for {rows[0].seconds:g} '
        's per row, while a participant joins, asks for a parameter and leaves, again and again '
        f'("joined"). "Long": gaps between two commands of more than {1e3 * LONG:g} ms; "sender": '
        'the longest gap between two states, which is the delay of the sender itself. Times are '
        'from a state to its command, through an empty callback.', '',
        '| Fast DDS | joined | longest gap ms | sender ms | long | p50 µs | p99 µs |',
        '|---|---|---|---|---|---|---|',
        *(f'| {row.profile} | {row.joined} | {1e3 * row.longest:.0f} | {1e3 * row.own:.0f} | '
          f'{row.long} | {row.p50:.0f} | {row.p99:.0f} |' for row in rows), '']
