# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
A bounded record in memory of all inputs of an engine, in order, for a replay.

The outputs of an engine depend only on its state, on the calls of its methods with their
arguments, and on its clock readings. Each segment of a journal begins with a checkpoint of the
state, followed by these calls, arguments and readings, and by the torques that were sent.
`osc_ros.recording.replay` computes the same torques again from them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, wraps
import math
from struct import Struct
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.checkpoint import Checkpoint
from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.safety.answered import (
    Answered,
    Answers,
    is_sent,
    stamp_of,
    UNASKED,
    WATCH_PERIOD,
)
from osc_ros.errors import InputError
from osc_ros.loop.packing import packed, unpacked

Array = NDArray[np.float64]
Method = TypeVar('Method', bound=Callable[..., Any])
R = TypeVar('R')

# Kinds of rows of the tape. A row: kind, number of clock readings k, size of the payload m, the
# readings (k) [s], the payload (m).
WATCH, CALL, SENT, FAILED, RESPOND, PLAN = range(1, 7)
HEAD = 3
_NO_STAMP = math.nan, math.nan
SEGMENTS = 2  # number of segments, and so of checkpoints, within the kept duration
NUMBER = 8  # bytes of a number of the tape
PART = 2 ** 16  # bytes of a part of the tape: a longer array would be copied each time it grows
_PACKED = tuple(Struct(f'={k}d').pack for k in range(64))  # numbers as bytes
MAGIC = b'OSC6'  # beginning of a piece of this version
BEGINNING = -1  # start index that stands for the checkpoint of a segment
FACTS = 'facts'  # name of the entry that changes `Journal.facts`; not a method of the engine


class Piece(NamedTuple):
    """A part of a journal that is read or stored at once."""

    segment: int  # number of the segment, from 0
    start: int  # index of the first of `numbers` in the tape of the segment
    first_call: int  # number of calls of the segment before this piece
    before: int  # length of the tape of the previous segment [numbers]
    checkpoint: Checkpoint | None  # at the beginning of the segment; None if not its first piece
    facts: dict[str, Any]  # `Journal.facts` there; empty if not the first piece
    numbers: bytes  # the part of the tape
    calls: list[tuple[str, tuple[Any, ...]]]  # names and arguments of the calls of kind CALL
    is_last: bool  # whether the journal ended here when the piece was made

    @property
    def following(self) -> tuple[int, int, int]:
        """Position of the next piece of the same segment, for `Journal.piece`."""
        return (self.segment, self.start + len(self.numbers) // NUMBER,
                self.first_call + len(self.calls))

    def dumped(self) -> bytes:
        """Return bytes for `loaded_piece`: a header with the positions, then the content."""
        return (_HEAD.pack(MAGIC, self.segment, self.start, self.first_call, *self.following[1:])
                + packed(tuple(self)))


def piece_places(data: bytes) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the positions of a piece and of the next one of its segment, from its header."""
    # InputError: the bytes are no piece of a journal, or of another version
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise InputError(f'a journal that begins with {data[:4]!r} is of another version of '
                         f"osc_ros: give recordings that begin with '{MAGIC.decode()}'")
    _, segment, start, call, next_start, next_call = _HEAD.unpack_from(data)
    return (segment, start, call), (segment, next_start, next_call)


def loaded_piece(data: bytes) -> Piece:
    """Return the piece from the bytes of `Piece.dumped`; InputError if they are no such bytes."""
    piece_places(data)
    values = unpacked(memoryview(data)[_HEAD.size:].tobytes())
    if (type(values) is not tuple or len(values) != len(_PIECE)
            or not all(map(isinstance, values, _PIECE)) or len(values[6]) % NUMBER or not all(
                type(call) is tuple and tuple(map(type, call)) == (str, tuple)
                for call in values[7])):
        raise InputError('this is no piece of a journal')
    return Piece(*values)


_HEAD = Struct('<4s5q')
_PIECE = int, int, int, int, Checkpoint | None, dict, bytes, list, bool  # types of its fields


class ReplayClock:
    """A clock that returns recorded readings in order, then the last one again and again."""

    def __init__(self) -> None:
        self._readings: list[float] = []
        self._next, self._last = 0, 0.0

    def put(self, readings: list[float]) -> None:
        """Set the readings of the next call [s]."""
        self._readings, self._next = readings, 0

    def __call__(self) -> float:
        """Return the next reading [s]."""
        if self._next < len(self._readings):
            self._last = self._readings[self._next]
            self._next += 1
        return self._last


class RecordedClock:
    """Reads `time.perf_counter`, and stores the readings for the journal."""

    def __init__(self) -> None:
        self.readings: list[float] = []
        self._append = self.readings.append

    def __call__(self) -> float:
        """Return the time [s]."""
        now = perf_counter()
        self._append(now)
        return now


@dataclass(eq=False)
class _Segment:
    number: int
    began: float
    before: int
    checkpoint: Checkpoint
    facts: dict[str, Any]
    parts: list[bytearray] = field(default_factory=lambda: [bytearray()])
    starts: list[int] = field(default_factory=lambda: [0])  # start of each part [numbers]
    first_calls: list[int] = field(default_factory=lambda: [0])  # before each part
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return NUMBER * self.length + self.checkpoint.size

    @property
    def length(self) -> int:
        return self.starts[-1] + len(self.parts[-1]) // NUMBER

    def extend(self) -> bytearray:
        """Append an empty part to the tape; return it."""
        self.starts.append(self.length)
        self.first_calls.append(len(self.calls))
        self.parts.append(bytearray())
        return self.parts[-1]


class Journal:
    """Keeps the inputs of one engine of the last `duration` seconds, or a little more."""

    # All calls come from the thread of the engine, or under its lock. An error within the journal
    # ends the journal, but not the engine.

    def __init__(self, duration: float, most: int) -> None:
        # failure: why the journal has ended; facts: plain data for readers of the journal, such as
        # versions, robot description, parameters, order of the joints
        self.clock, self.failure = RecordedClock(), ''
        self.facts: dict[str, Any] = {}
        self._robot: Any = None  # robot of the last setup
        self._duration, self._most = duration, most  # [s]; [bytes]: drops the oldest segments
        self._share, self._longest = duration / SEGMENTS, most // (SEGMENTS + 1)
        self._segments: deque[_Segment] = deque()
        self._engine: Any = None
        self._tape = bytearray()
        self.is_open = False  # while a call is recorded
        self._count = 0

    @property
    def size(self) -> int:
        """Total size of the segments [bytes]."""
        return sum(segment.size for segment in self._segments)

    def begin(self, engine: Any) -> None:
        """Record an engine from now on."""
        self._engine = engine
        self._try(self._begin_segment)

    def update_facts(self, facts: Mapping[str, Any]) -> None:
        """Replace or add these entries of `facts`, and record the change in the journal."""
        facts = dict(facts)
        self.clock.readings.clear()
        self.facts = {**self.facts, **facts}
        self._try(self._add_call, FACTS, (facts,))

    def end(self, reason: str) -> None:
        """End the journal, and drop its content."""
        self.failure, self._engine = reason, None
        self._segments.clear()

    # during a call of the engine

    def record_torque(self, tau: Array, stamp: tuple[int, int] | None) -> None:
        """Record torques (n,) that are sent."""
        if self._engine is None:
            return
        try:
            tape = self._tape
            tape += _PACKED[5](SENT, 0.0, 2 + len(tau), *(_NO_STAMP if stamp is None else stamp))
            tape += tau.tobytes()
        except Exception as error:  # of any kind: the engine must go on
            self.end(f'{type(error).__name__}: {error}')

    def record_answers(self, done: Answers) -> None:
        """Record calls of 'respond' answered by compiled code, and the torques it sent."""
        if self._engine is None:
            return
        try:
            k, n = done.tau.shape
            sent = np.tile([SENT, 0.0, 2.0 + n], (k, 1))
            head = np.tile([RESPOND, 2.0, 4.0 + 3.0 * n], (k, 1))
            stamp = np.column_stack((done.sec, done.nanosec))
            self._tape += np.hstack((
                sent, stamp, done.tau, head, np.column_stack((done.now, done.done, done.time)),
                stamp, done.arrived[:, None], done.q, done.qd, done.effort)).tobytes()
            if len(self._tape) > PART:
                self._tape = self._segments[-1].extend()
        except Exception as error:  # of any kind: the engine must go on
            self.end(f'{type(error).__name__}: {error}')

    def record_answer(self, done: Answered, call: Callable[[], R]) -> R:
        """Finish a `respond` or `watch` by `call`, record it, and return the result."""
        # `done` is the record of the part of the call that compiled code has made
        arguments: tuple[Any, ...] = (WATCH_PERIOD,)
        name, readings = 'watch', [done.now]
        if done.code != UNASKED:
            name, arguments = 'respond', (
                done.time, done.q, done.qd, stamp_of(done), done.arrived, done.effort)
        if is_sent(done):
            readings.append(done.done)
        return self.record(name, arguments, call, readings, renews=False)

    def record(self, name: str, arguments: tuple[Any, ...], call: Callable[[], R],
               readings: Sequence[float] = (), renews: bool = True) -> R:
        """Make a call, record it with its name and arguments, and return its result."""
        # `readings`: clock readings that compiled code has made for it [s]; `renews`: a new
        # segment may begin after the call
        self.is_open, has_failed = True, True
        self.clock.readings[:] = readings
        try:
            result = call()
            has_failed = False
            return result
        finally:
            self._close(name, arguments, has_failed, renews)

    def _close(self, name: str, arguments: tuple[Any, ...], has_failed: bool, renews: bool
               ) -> None:
        self.is_open = False
        if self._engine is None:
            return
        try:
            self._add(name, arguments)
            if has_failed:
                self._tape += _PACKED[HEAD](FAILED, 0.0, 0.0)
            if len(self._tape) > PART:
                self._tape = self._segments[-1].extend()
            # after `respond` nothing is being computed that a checkpoint would delay
            if renews and name == 'respond':
                self.renew_if_due()
        except Exception as error:  # of any kind: the engine must go on
            self.end(f'{type(error).__name__}: {error}')

    def _try(self, what: Callable[..., None], *arguments: Any) -> None:
        if self._engine is None:
            return
        try:
            what(*arguments)
        except Exception as error:  # of any kind: the engine must go on
            self.end(f'{type(error).__name__}: {error}')

    def _add(self, name: str, arguments: tuple[Any, ...]) -> None:
        readings = self.clock.readings
        count = len(readings)
        if name == 'respond':
            time, q, qd, stamp, arrived = arguments[:5]
            effort = arguments[5] if len(arguments) > 5 else None
            tape = self._tape
            tape += _PACKED[7 + count](
                RESPOND, count, 4 + (2 if effort is None else 3) * len(q), *readings, time,
                *stamp, arrived)
            tape += q.tobytes()
            tape += qd.tobytes()
            if effort is not None:
                tape += effort.tobytes()
        elif name == 'watch':
            self._tape += _PACKED[4 + count](WATCH, count, 1.0, *readings, arguments[0])
        elif name == 'plan':
            self._tape += _PACKED[HEAD + count](PLAN, count, 0.0, *readings)
        else:
            self._add_call(name, arguments)

    def _add_call(self, name: str, arguments: tuple[Any, ...]) -> None:
        segment, readings = self._segments[-1], self.clock.readings
        self._tape += _PACKED[4 + len(readings)](
            CALL, len(readings), 1.0, *readings, len(segment.calls))
        segment.calls.append((name, tuple(
            self._recipe(one) if isinstance(one, CompiledLaw) else one for one in arguments)))

    def _recipe(self, setup: CompiledLaw) -> tuple[Any, ...]:
        """Data of a `CompiledLaw`: settings, robot (None: unchanged), precomputed data."""
        is_new = setup.robot is not self._robot
        self._robot = setup.robot
        return setup.settings, setup.robot if is_new else None, setup.precomputed

    # segments

    def _begin_segment(self) -> None:
        self._engine.drop_plans()  # which a replay from here lacks
        self._robot = self._engine.law.robot
        before = self._segments[-1].length if self._segments else 0
        self._segments.append(_Segment(
            self._count, perf_counter(), before, self._engine.checkpoint(), self.facts))
        self._tape = self._segments[-1].parts[-1]
        self._count += 1

    @property
    def is_due(self) -> bool:
        """Whether the next segment is to begin."""
        if self._engine is None:
            return False
        last = self._segments[-1]
        return (perf_counter() - last.began >= self._share
                or NUMBER * last.starts[-1] >= self._longest)

    def prepare(self) -> None:
        """Take a checkpoint and discard it, so that the next one takes less time."""
        with suppress(Exception):  # the step may be changing the numbers that it reads
            self._engine.checkpoint()

    def renew_if_due(self) -> object:
        """Begin a new segment if due; return dropped segments, whose deletion takes a while."""
        dropped: list[_Segment] = []
        if self.is_due:
            self._try(self._renew, dropped)
        return dropped

    def _renew(self, dropped: list[_Segment]) -> None:
        now = perf_counter()
        self._begin_segment()
        segments = self._segments
        while len(segments) > 1 and (now - segments[1].began >= self._duration
                                     or self.size > self._most):
            dropped.append(segments.popleft())

    # reading, while the engine goes on

    def piece(self, at: tuple[int, int, int] | None) -> Piece | None:
        """Return the piece, of about PART bytes at most, at a position; None if there is none."""
        # `at`: `Piece.following` of the last piece; None or in a dropped segment: the oldest
        # segment
        segment, start, call = at or (-1, BEGINNING, 0)
        for one in self._segments:
            if one.number < segment:
                continue
            if one.number > segment:
                start, call = BEGINNING, 0
            is_first, start = start == BEGINNING, max(start, 0)
            k = bisect_right(one.starts, start) - 1
            numbers = bytes(one.parts[k][NUMBER * (start - one.starts[k]):])
            if numbers or is_first:
                is_last = k == len(one.parts) - 1
                # only the calls of this part: osc_arm serializes a piece between two joint states
                calls = one.calls[call:None if is_last else one.first_calls[k + 1]]
                return Piece(one.number, start, call, one.before,
                             one.checkpoint if is_first else None, one.facts if is_first else {},
                             numbers, calls, is_last and one is self._segments[-1])
        return None

    @property
    def newest(self) -> tuple[int, int, int]:
        """Position of the beginning of the newest segment."""
        return (self._segments[-1].number if self._segments else -1, BEGINNING, 0)

    def renew(self) -> None:
        """Begin a new segment now."""
        self._try(self._begin_segment)


def journaled(method: Method) -> Method:
    """Decorate a function whose first argument is an engine: the journal records its calls."""
    name = method.__name__

    @wraps(method)
    def call(engine: Any, *arguments: Any) -> Any:
        journal = engine.journal
        if journal is None or journal.is_open:  # a call within a recorded call
            return method(engine, *arguments)
        return journal.record(name, arguments, partial(method, engine, *arguments))

    return call  # type: ignore[return-value]
