# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Converts a journal to messages of a bag: the journal itself, its joint states and commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
import platform
from typing import Any

import numpy as np

from osc_ros.compile import compiled
from osc_ros.loop.journal import Piece, RESPOND
from osc_ros.recording import cdr
from osc_ros.recording.bag import Message
from osc_ros.recording.tape import runs_of, segments_of

JOURNAL = 'journal'  # last part of the topic name of a journal
COMMANDS = 'commands_stamped'
LIBRARIES = 'numpy', 'scipy', 'numba', 'llvmlite', 'ruckig'
SECOND = 1_000_000_000


@cache
def versions() -> dict[str, str]:
    """Return the versions of software and machine that affect the last digits of a result."""
    found = {'python': platform.python_version(), 'machine': platform.machine(),
             'kernels': compiled.DIGESTS.get('', '')}
    for name in ('osc_ros', *LIBRARIES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ''
    return found


def journal_messages(pieces: Iterable[Piece], topic: str, offset: float) -> Iterator[Message]:
    """Yield the pieces as messages; `offset` is the Unix time minus the loop's clock [s]."""
    time = 0
    for piece in pieces:
        for segment in segments_of([piece] if piece.checkpoint else []):
            for call in segment.calls():
                if call.kind == RESPOND:
                    time = round(SECOND * (call.numbers[3] + offset))
                    break
        yield Message(topic, cdr.BYTES, time, cdr.byte_array(piece.dumped()))


def state_messages(pieces: list[Piece], facts: dict[str, Any]) -> Iterator[Message]:
    """Yield the joint states that the loop accepted, and the commands that it sent."""
    # `facts`: those of `Journal.facts`, with the names of topics and joints
    joints, names = facts['joints'], facts['robot joints']
    order = np.array([names.index(joint) for joint in joints], dtype=np.intp)
    states, commands, offset = facts['joint_states'], f"{facts['node']}/{COMMANDS}", facts[
        'clock offset']
    time, n = 0, len(names)
    for segment in (one for run in runs_of(segments_of(pieces)) for one in run):
        for call in segment.calls():
            if call.kind == RESPOND:
                seconds, nanoseconds, arrived = call.numbers[1:4].tolist()
                stamp = int(seconds), int(nanoseconds)
                time = round(SECOND * (arrived + offset))
                rows = call.numbers[4:].reshape(-1, n)
                yield Message(states, cdr.STATES, time, cdr.joint_state(stamp, names, *rows))
            for sent in call.sent:
                q, qd = ((), ()) if np.isnan(sent[0]) else rows[:2, order]
                yield Message(commands, cdr.STATES, time, cdr.joint_state(
                    stamp_of(sent[:2].tolist(), time), joints, q, qd, sent[2:][order]))


def stamp_of(given: list[float], time: int) -> tuple[int, int]:
    """Return the stamp of a command; if it has none, the time [ns] as a stamp."""
    return divmod(time, SECOND) if np.isnan(given[0]) else (int(given[0]), int(given[1]))
