# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Block tridiagonal matrices, and products of many blocks with vectors, in numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Tridiagonal(NamedTuple):
    """Block tridiagonal matrix: diagonal blocks (n, a, b), upper and lower blocks (n-1, a, b)."""

    diagonal: Array
    upper: Array
    lower: Array

    @property
    def T(self) -> Tridiagonal:
        """The transposed matrix."""
        return Tridiagonal(*(blocks.transpose(0, 2, 1)
                             for blocks in (self.diagonal, self.lower, self.upper)))

    def times(self, x: Array) -> Array:
        """The product (n, a) of this matrix and a vector x (n, b), both in blocks."""
        y = product(self.diagonal, x)
        y[:-1] += product(self.upper, x[1:])
        y[1:] += product(self.lower, x[:-1])
        return y


def inverse(blocks: Array) -> Array:
    """The inverse of every block (n, a, a)."""
    return np.asarray(np.linalg.inv(blocks), dtype=np.float64)


def spread(x: Array, places: NDArray[np.intp]) -> Array:
    """Entries of x (n,) at the indices `places` (g, k); zero where an index is n."""
    return np.asarray(np.append(x, 0.0)[places], dtype=np.float64)


def gather(x: Array, places: NDArray[np.intp], n: int) -> Array:
    """Array (n,) with x (g, k) at the indices `places`, else 0: the inverse of `spread`."""
    whole = np.zeros(n + 1)
    whole[places] = x
    return whole[:n]


def product(blocks: Array, x: Array) -> Array:
    """Products (n, a) of block i of `blocks` (n, a, b) and row i of x (n, b)."""
    return np.asarray((blocks @ x[:, :, None])[:, :, 0])


def product_T(blocks: Array, x: Array) -> Array:
    """Products (n, b) of block i of `blocks` (n, a, b), transposed, and row i of x (n, a)."""
    return np.asarray((x[:, None, :] @ blocks)[:, 0])
