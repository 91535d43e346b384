# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Reads from a bag the journals of controllers, and the joint states of an arm."""

from __future__ import annotations

from dataclasses import dataclass, field
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.loop.journal import loaded_piece
from osc_ros.recording.bag import BagReader, required_module
from osc_ros.recording.cdr import BYTES, bytes_of, STATES
from osc_ros.recording.export import JOURNAL
from osc_ros.recording.tape import runs_of, Segment, segments_of

Array = NDArray[np.float64]


@dataclass(eq=False)
class Loaded:
    """The journals of a bag."""

    # for each controller, the parts of its journal without a gap
    runs: dict[str, list[list[Segment]]] = field(default_factory=dict)
    # place of each part of the data that is not used (cut-off end, damage, gap), and the reason
    notes: list[str] = field(default_factory=list)

    def run_of(self, controller: str = '') -> list[Segment]:
        """Return the longest part of the journal of a controller, by default of the only one."""
        # InputError: there is no such journal, or there are several and `controller` is empty
        names = list(self.runs)
        if not names:
            raise InputError('the recording has no journal of a controller, so the run cannot be '
                             'computed again: give recordings of osc_record, of the '
                             'black box, and of ros2 bag with ~/journal from its beginning'
                             + ''.join(f' ({note})' for note in self.notes))
        if controller and '/' + controller.strip('/') not in names or (
                not controller and len(names) > 1):
            raise InputError(f"--controller '{controller}': the recording has "
                             + ', '.join(names))
        runs = self.runs['/' + controller.strip('/') if controller else names[0]]
        return _longest(runs)


def loaded_bag(path: str | os.PathLike[str]) -> Loaded:
    """Return the journals of a bag."""
    # InputError: it cannot be read, mcap is not installed, or it is from another version
    reader, pieces = BagReader(path), dict[str, list[Any]]()
    times = dict[str, list[int]]()
    for message in reader.messages(
            lambda topic, kind: kind == BYTES and topic.endswith(f'/{JOURNAL}')):
        name = message.topic.removesuffix(f'/{JOURNAL}')
        pieces.setdefault(name, []).append(loaded_piece(bytes_of(message.data)))
        times.setdefault(name, []).append(message.time)
    found = Loaded(notes=reader.left_out)
    for name, all_pieces in pieces.items():
        runs = runs_of(segments_of(all_pieces))
        if runs:
            found.runs[name] = runs
            found.notes += _left_out(name, times[name], _longest(runs))
    return found


def _longest(runs: list[list[Segment]]) -> list[Segment]:
    return max(runs, key=lambda run: sum(one.length for one in run))


def _left_out(name: str, times: list[int], run: list[Segment]) -> list[str]:
    """Return a text on the messages of a journal that are not in a run; [] if there are none."""
    used = [times[k] for one in run for k in one.pieces]
    if len(used) == len(times):
        return []
    first, last, end = (1e-9 * (time - times[0]) for time in (used[0], used[-1], times[-1]))
    return [f'the journal of {name} has gaps: only its longest part without a gap is computed, '
            f'{first:.2f} to {last:.2f} s of {end:.2f} s; left out are {len(times) - len(used)} '
            f'of its {len(times)} messages (after a gap a part begins at the next saved state of '
            'the controller, by default after 15 s at most)']


def joint_recording(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], Array, Array, Array]:
    """Joints (n), times (k,) [s], positions and efforts (k, n) of the joint states of a bag."""
    # Only messages with the joints of the first message with efforts count. InputError: the bag
    # cannot be read, or has no joint states with efforts.
    factory = required_module('mcap_ros2.decoder').DecoderFactory()
    schema = required_module('mcap.records').Schema
    from osc_ros.recording.cdr import DEFINITIONS
    decode = factory.decoder_for('cdr', schema(
        id=1, name=STATES, encoding='ros2msg', data=DEFINITIONS[STATES].encode()))
    rows: list[tuple[float, Any, Any]] = []
    joints: tuple[str, ...] = ()
    for one in BagReader(path).messages(lambda topic, kind: kind == STATES
                                        and topic.rpartition('/')[2] == 'joint_states'):
        message = decode(one.data)
        joints = joints or (tuple(message.name) if len(message.effort) else ())
        if joints and tuple(message.name) == joints and len(message.effort) == len(joints):
            stamp = message.header.stamp
            rows.append((stamp.sec + 1e-9 * stamp.nanosec, message.position, message.effort))
    if not rows:
        raise InputError(f"recording '{path}' has no joint_states with efforts")
    time, position, effort = zip(*rows)
    return joints, np.array(time), np.array(position), np.array(effort)
