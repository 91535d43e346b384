# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Layout of the memory block of a team."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.chain_bodies import ENDS_WIDTH, LINK_WIDTH, WORK_WIDTH
from osc_ros.dynamics.segments.signals import LINE, words
from osc_ros.dynamics.segments.slots import SLOT_WIDTH

Array = NDArray[np.float64]
Words = NDArray[np.int64]


class Shared(NamedTuple):
    """The arrays that all processes of a team share."""

    links: Array
    ends: Array
    state: Array
    work: Array
    slots: Array
    force: Array
    flags: Words


def shared_arrays(buffer: Any, n: int, members: int) -> Shared:
    """Arrays in a buffer of `size_in_bytes`; no two of them share a cache line."""
    arrays, offset = [], 0
    for shape, kind in zip(_shapes(n, members), [np.float64] * 6 + [np.int64]):
        arrays.append(np.ndarray(shape, kind, buffer, offset))
        offset += _padded(shape)
    return Shared(*arrays)


def size_in_bytes(n: int, members: int) -> int:
    """Length of the buffer of `shared_arrays` [bytes], for n bodies."""
    return sum(map(_padded, _shapes(n, members)))


def _shapes(n: int, members: int) -> list[tuple[int, ...]]:
    return [(n, LINK_WIDTH), (ENDS_WIDTH,), (5, n), (n, WORK_WIDTH), (members, SLOT_WIDTH), (6,),
            (words(members),)]


def _padded(shape: tuple[int, ...]) -> int:
    line = 8 * LINE
    return -(-8 * int(np.prod(shape)) // line) * line
