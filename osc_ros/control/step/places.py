# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Copies the numbers of a controller's arrays to one row of memory, and back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import address_of, Integers, integers_at
from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.errors import InputError

NUMBER = 8  # size of a number [bytes]


@inlined
def copy_row(spans, row, is_stored):
    """Copy the numbers of a controller from its row to its arrays, or back if `is_stored`."""
    # For `spans` see `Places`.
    for k in range(len(spans)):
        at, size = spans[k, 1], spans[k, 2]
        numbers, kept = integers_at(spans[k, 0], size), view(row, at, (size,))
        if is_stored:
            assign(kept, numbers)
        else:
            assign(numbers, kept)


@kernel
def _copied(spans, row, is_stored):
    copy_row(spans, row, is_stored)


class Places:
    """Positions of arrays in a row of numbers, one array after the other."""

    def __init__(self, arrays: Iterable[NDArray[Any]]) -> None:
        self.arrays = tuple(arrays)  # contiguous, items of NUMBER bytes; no two share memory
        found = [one for one in self.arrays if one.size]
        *at, self.size = accumulate((one.size for one in found), initial=0)
        # (k, 3) for each array its address, the index of its first number in the row, its size
        self.spans = np.array([[address_of(one), k, one.size] for one, k in zip(found, at)],
                              dtype=np.int64)
        self._sorted = sorted(self.spans.tolist())
        self._starts = [start for start, _, _ in self._sorted]

    def are_of(self, arrays: tuple[NDArray[Any], ...]) -> bool:
        """Return whether the object was made for these arrays."""
        return len(arrays) == len(self.arrays) and all(map(is_, arrays, self.arrays))

    def of(self, address: int) -> int:
        """Return the index in the row of the number at an address."""
        start, at, _ = self._sorted[bisect_right(self._starts, address) - 1]
        return int(at + (address - start) // NUMBER)

    def load(self, row: Integers) -> None:
        """Copy a contiguous row to the arrays."""
        _copied(self.spans, row, False)

    def store(self, row: Integers) -> None:
        """Copy the arrays to a contiguous row."""
        _copied(self.spans, row, True)


class Copies:
    """Copies the elements of arrays to a row; repeated copies of the same arrays are quick."""

    def __init__(self) -> None:
        self._places = Places(())

    def of(self, arrays: tuple[NDArray[Any], ...]) -> tuple[Integers, Integers]:
        """Return the sizes of arrays, and the bits of all their elements in a row of integers."""
        if not self._places.are_of(arrays):
            self._places = Places(arrays)
        row = np.empty(self._places.size, dtype=np.int64)
        self._places.store(row)
        return np.array([one.size for one in arrays]), row


def load(arrays: tuple[NDArray[Any], ...], sizes: Integers, row: Integers) -> None:
    """Copy the result of `Copies.of` to arrays; raise InputError for arrays of other sizes."""
    places, own = Places(arrays), [one.size for one in arrays]
    if not (np.array_equal(own, sizes) and row.shape == (places.size,) and row.dtype == np.int64):
        raise InputError(f'arrays of the sizes {np.asarray(sizes).tolist()}: give {own}')
    places.load(row)
