# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Where the arrays of a law are in memory, and copies of their numbers."""

from __future__ import annotations

from bisect import bisect_right
from ctypes import memmove
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.addresses import address_of, Integers

NUMBER = 8  # bytes


class Places:
    """
    Where the arrays of a law stand in a row of numbers, one after the other.

    The arrays must live at least as long.

    Attributes
    ----------
    size : int
        Length of a row.

    Parameters
    ----------
    spans : sequence of (int, int)
        Address and number of items of each array; arrays may overlap.

    """

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        ends: list[int] = []
        for start, size in sorted(span for span in spans if span[1]):
            end = start + NUMBER * size
            if ends and start < ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                self._starts.append(start)
                ends.append(end)
        self._sizes = [end - start for start, end in zip(self._starts, ends)]  # bytes
        *self._at, self.size = accumulate((size // NUMBER for size in self._sizes), initial=0)

    def of(self, address: int) -> int:
        """Return the index of a number in the row."""
        k = bisect_right(self._starts, address) - 1
        return int(self._at[k] + (address - self._starts[k]) // NUMBER)

    def load(self, row: Integers) -> None:
        """Copy a contiguous row to the arrays."""
        first = address_of(row)
        for start, at, size in zip(self._starts, self._at, self._sizes):
            memmove(start, first + NUMBER * at, size)

    def store(self, row: Integers) -> None:
        """Copy the arrays to a contiguous row."""
        first = address_of(row)
        for start, at, size in zip(self._starts, self._at, self._sizes):
            memmove(first + NUMBER * at, start, size)

    def filled(self, row: Integers, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array, or a copy of it with the numbers of a row where the row has them."""
        start, end = address_of(array), address_of(array) + array.nbytes
        k = max(bisect_right(self._starts, start) - 1, 0)
        found, numbers = array, row.view(np.uint8)
        for at, first, size in zip(self._at[k:], self._starts[k:], self._sizes[k:]):
            if first >= end:
                break
            left, right = max(first, start), min(first + size, end)
            if left < right:
                found = array.copy(order='K') if found is array else found
                shift = NUMBER * at - first  # from an address to its byte in the row
                found.ravel(order='K').view(np.uint8)[left - start:right - start] = numbers[
                    left + shift:right + shift]
        return found
