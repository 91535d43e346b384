# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Reads the recorded calls of an engine from the pieces of a journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.checkpoint import Checkpoint
from osc_ros.loop.journal import CALL, FAILED, HEAD, Piece, SENT

Array = NDArray[np.float64]


@dataclass(eq=False)
class Call:
    """One call of an engine."""

    kind: int  # RESPOND, PLAN, WATCH or CALL of `osc_ros.loop.journal`
    numbers: Array  # (m,) arguments, as written by `Journal`
    readings: Array  # (k,) readings of the engine's clock during the call [s]
    sent: list[Array]  # of each command that was sent: (2 + n,) stamp [s, ns] and torques
    has_failed: bool = False  # whether the call raised an error
    name: str = ''  # name and arguments of a call of kind CALL
    arguments: tuple[Any, ...] = ()


@dataclass(eq=False)
class Segment:
    """Records of a journal from one checkpoint to the next."""

    number: int
    before: int  # length of the tape of the previous segment [numbers]
    checkpoint: Checkpoint
    facts: dict[str, Any]  # `Journal.facts` at the checkpoint
    tape: list[Array] = field(default_factory=list)  # parts (k,) of the tape, in order
    # names and arguments of the calls of kind CALL
    named: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)  # indices of the pieces that it is made of

    @property
    def length(self) -> int:
        """Length of the tape [numbers]."""
        return sum(map(len, self.tape))

    def follows(self, other: Segment) -> bool:
        """Whether this segment begins where another, complete segment ends."""
        return self.number == other.number + 1 and self.before == other.length

    def calls(self) -> Iterator[Call]:
        """Yield the calls, without an incomplete last one."""
        tape = np.concatenate(self.tape) if self.tape else np.zeros(0)
        at, sent, held = 0, list[Array](), None
        while at + HEAD <= len(tape):
            kind, k, m = (int(x) for x in tape[at:at + HEAD])
            first, last = at + HEAD + k, at + HEAD + m + k
            if last > len(tape) or min(k, m) < 0:
                break
            readings, numbers, at = tape[at + HEAD:first], tape[first:last], last
            if kind == SENT:
                sent.append(numbers)
            elif kind == FAILED and held is not None:
                held.has_failed = True
            else:
                if held is not None:
                    yield held
                held, sent = Call(kind, numbers, readings, sent), []
                if kind == CALL:
                    if int(numbers[0]) >= len(self.named):  # cut short
                        return
                    held.name, held.arguments = self.named[int(numbers[0])]
        if held is not None:
            yield held


def segments_of(pieces: Iterable[Piece]) -> list[Segment]:
    """Return the segments of pieces in order; a segment ends at a missing piece."""
    # a segment without its beginning is left out, because its initial state is unknown
    found: list[Segment] = []
    for k, piece in enumerate(pieces):
        if piece.checkpoint and not (found and found[-1].number == piece.segment):
            found.append(Segment(piece.segment, piece.before, piece.checkpoint, piece.facts))
        if found and found[-1].number == piece.segment and found[-1].length == piece.start and len(
                found[-1].named) == piece.first_call:
            found[-1].tape.append(np.frombuffer(piece.numbers))
            found[-1].named.extend(piece.calls)
            found[-1].pieces.append(k)
    return found


def runs_of(segments: list[Segment]) -> list[list[Segment]]:
    """Group segments into lists without gaps."""
    runs: list[list[Segment]] = []
    for segment in segments:
        if runs and segment.follows(runs[-1][-1]):
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return runs
