# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Symmetric positive definite block tridiagonal systems, factored once and solved often.

Both factorizations take n ≥ 1 diagonal blocks (n, m, m) and the blocks above them (n-1, m, m) of
a matrix a whose block row i is a[i m:(i+1) m]:

    diagonal[i, r, c] == a[i m + r,     i m + c]      for r ≥ c; entries with r < c are not read
    upper[i, r, c]    == a[i m + r, (i+1) m + c] == a[(i+1) m + c, i m + r]

        ┌ diagonal[0]  upper[0]                     ┐
        │ upper[0]ᵀ    diagonal[1]  upper[1]        │
        │              upper[1]ᵀ    diagonal[2]  …  │
        └                                …       …  ┘

and have the same methods: `solve(rhs)`, `last_inverse_block()`, and `depth`, the number of
sequential elimination steps.

>>> diagonal, upper = [[[2.0]], [[2.0]], [[2.0]]], [[[-1.0]], [[-1.0]]]
>>> for factorization in (BlockLDL, BlockCyclicReduction):
...     factor = factorization(diagonal, upper)
...     print(factor.solve([[1.0], [0.0], [1.0]]).ravel().round(12).tolist(),
...           factor.last_inverse_block().round(12).tolist(), factor.depth)
[1.0, 1.0, 1.0] [[0.75]] 2
[1.0, 1.0, 1.0] [[0.75]] 2

"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpbtrf, dpbtrs

from osc_ros.errors import InputError

Array = NDArray[np.float64]


class Factor(Protocol):
    """A factored block tridiagonal matrix a, with n block rows of m rows."""

    @property
    def depth(self) -> int:
        """Number of sequential elimination steps."""

    def solve(self, rhs: ArrayLike) -> Array:
        """a⁻¹ rhs, for rhs (n, m) or (n, m, k)."""

    def last_inverse_block(self) -> Array:
        """a⁻¹[-m:, -m:], the last diagonal block (m, m) of the inverse."""


class Factorization(Protocol):
    """A class that factors a block tridiagonal matrix: `BlockLDL` or `BlockCyclicReduction`."""

    def __call__(self, diagonal: ArrayLike, upper: ArrayLike) -> Factor:
        """Factor the matrix with the blocks `diagonal` (n, m, m) and `upper` (n-1, m, m)."""


class BlockLDL:
    """Block LDLᵀ: eliminates the blocks first to last, one after another, O(n m³), depth n - 1."""

    # Pivots Dᵢ = diagonalᵢ - upperᵢ₋₁ᵀ Dᵢ₋₁⁻¹ upperᵢ₋₁ = Cᵢ Cᵢᵀ; in LAPACK's band storage the
    # factor has Cᵢ on the diagonal, upperᵢᵀ Cᵢ⁻ᵀ below. InputError: wrong shapes, not finite, or
    # not positive definite (the message has the number of the first block whose pivot is not).

    def __init__(self, diagonal: ArrayLike, upper: ArrayLike) -> None:
        diagonal, upper = _blocks(diagonal, upper)
        n, m, _ = diagonal.shape
        self._shape = n, m
        self.depth = n - 1
        columns = np.zeros((n, 2 * m, m))
        columns[:, :m] = diagonal
        columns[:-1, m:] = upper.transpose(0, 2, 1)
        band = np.zeros((2 * m, n * m))  # band[i - j, j] == a[i, j]
        for c in range(m):
            band[:2 * m - c, c::m] = columns[:, c:, c].T
        self._band, failed = dpbtrf(band, lower=1, overwrite_ab=1)
        if failed:
            raise _not_definite((failed - 1) // m, n)

    def solve(self, rhs: ArrayLike) -> Array:
        """a⁻¹ rhs, for finite rhs (n, m) or (n, m, k); InputError for other rhs."""
        rhs = _right_hand_side(rhs, *self._shape)
        n, m = self._shape
        x, _ = dpbtrs(self._band, rhs.reshape(n * m, -1), lower=1)
        return np.ascontiguousarray(x).reshape(rhs.shape)

    def last_inverse_block(self) -> Array:
        """a⁻¹[-m:, -m:] (m, m): the inverse of the last pivot."""
        m = self._shape[1]
        C = np.zeros((m, m))
        for c in range(m):
            C[c:, c] = self._band[:m - c, c - m]
        return _inverse_of_product(np.asarray(np.linalg.inv(C), dtype=np.float64))


class _Level(NamedTuple):
    """Factors of the blocks that one level eliminates, and their couplings."""

    odd: int  # 1: odd number of blocks, the first one remains; 0: it is eliminated
    C_inv: Array
    left: Array  # C⁻¹ times the coupling to the left neighbour; left[0] = 0 if not odd
    right: Array  # C⁻¹ times the coupling to the right neighbour; both neighbours remain


class BlockCyclicReduction:
    """Block cyclic reduction: eliminates every other block, in ⌈log₂ n⌉ levels."""

    # Of n blocks the last, the third from the end, … remain, ⌈n/2⌉ in all, and form the next
    # level, block tridiagonal again. The pivot of the last block of all is the inverse of the last
    # block of a⁻¹. InputError as of `BlockLDL`, with the first block in the order of elimination.

    def __init__(self, diagonal: ArrayLike, upper: ArrayLike) -> None:
        diagonal, upper = _blocks(diagonal, upper)
        n, m, _ = diagonal.shape
        self._shape = n, m
        self._levels: list[_Level] = []
        number = np.arange(n)
        above = np.concatenate([np.zeros((1, m, m)), upper])  # above[i] couples i - 1 to i
        while len(diagonal) > 1:
            odd = len(diagonal) % 2
            out, kept, after = slice(odd, -1, 2), slice(1 - odd, None, 2), slice(odd + 1, None, 2)
            C_inv = _inverse_factors(diagonal[out], number[out], n)
            level = _Level(odd, C_inv, C_inv @ above[out].transpose(0, 2, 1), C_inv @ above[after])
            self._levels.append(level)
            couplings = -level.left.transpose(0, 2, 1) @ level.right
            diagonal, number = diagonal[kept].copy(), number[kept]
            _take_from_neighbours(diagonal, level, level.left, level.right)
            above = np.concatenate([np.zeros((odd, m, m)), couplings])
        self._C_inv = _inverse_factors(diagonal, number, n)[0]

    @property
    def depth(self) -> int:
        """Number of levels with an elimination: ⌈log₂ n⌉, 0 for n = 1."""
        return len(self._levels)

    def solve(self, rhs: ArrayLike) -> Array:
        """a⁻¹ rhs, for finite rhs (n, m) or (n, m, k); InputError for other rhs."""
        rhs = _right_hand_side(rhs, *self._shape)
        r = rhs.reshape(*self._shape, -1)
        eliminated = []
        for level in self._levels:
            y = level.C_inv @ r[level.odd:-1:2]
            r = r[1 - level.odd::2].copy()
            _take_from_neighbours(r, level, y, y)
            eliminated.append(y)
        x = (self._C_inv.T @ (self._C_inv @ r[0]))[None]
        for level, y in zip(reversed(self._levels), reversed(eliminated)):
            y -= level.right @ x[level.odd:]
            y[1 - level.odd:] -= level.left[1 - level.odd:] @ x[:-1]
            both = np.empty((len(x) + len(y), *x.shape[1:]))
            both[1 - level.odd::2] = x
            both[level.odd:-1:2] = level.C_inv.transpose(0, 2, 1) @ y
            x = both
        return np.asarray(x.reshape(rhs.shape), dtype=np.float64)

    def last_inverse_block(self) -> Array:
        """a⁻¹[-m:, -m:] (m, m): the inverse of the last pivot."""
        return _inverse_of_product(self._C_inv)


def _take_from_neighbours(kept: Array, level: _Level, left: Array, right: Array) -> None:
    """Subtract the effect of the eliminated blocks from the remaining blocks, or their rhs."""
    kept[level.odd:] -= level.right.transpose(0, 2, 1) @ right
    first = 1 - level.odd  # the first eliminated block has a left neighbour only if `odd` is 1
    kept[:-1] -= level.left[first:].transpose(0, 2, 1) @ left[first:]


def _inverse_factors(pivots: Array, number: NDArray[np.int_], n: int) -> Array:
    """C⁻¹ (…, m, m) of every pivot C Cᵀ; InputError if a pivot is not positive definite."""
    try:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(pivots)), dtype=np.float64)
    except np.linalg.LinAlgError:
        for block, pivot in zip(number, pivots):
            try:
                np.linalg.cholesky(pivot)
            except np.linalg.LinAlgError:
                raise _not_definite(int(block), n) from None
        raise


def _inverse_of_product(C_inv: Array) -> Array:
    """The inverse (C Cᵀ)⁻¹ (m, m) of a pivot, from C⁻¹."""
    return np.asarray(C_inv.T @ C_inv, dtype=np.float64)


def _not_definite(block: int, n: int) -> InputError:
    return InputError(f'the block tridiagonal matrix is not positive definite: the pivot of block '
                      f'{block} is not (blocks are 0 to {n - 1})')


def _blocks(diagonal: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    diagonal = np.asarray(diagonal, dtype=np.float64)
    if diagonal.ndim != 3 or 0 in diagonal.shape or diagonal.shape[1] != diagonal.shape[2]:
        raise InputError(f'diagonal has shape {diagonal.shape}, must be (n, m, m) with '
                         'n and m at least 1')
    n, m, _ = diagonal.shape
    upper = np.asarray(upper, dtype=np.float64)
    if n == 1 and upper.size == 0:
        upper = np.zeros((0, m, m))  # an empty array of any shape is accepted
    if upper.shape != (n - 1, m, m):
        raise InputError(f'upper has shape {upper.shape}, must be {(n - 1, m, m)} beside '
                         f'diagonal {diagonal.shape}')
    _refuse_not_finite('diagonal', diagonal)
    _refuse_not_finite('upper', upper)
    return diagonal, upper


def _right_hand_side(rhs: ArrayLike, n: int, m: int) -> Array:
    rhs = np.asarray(rhs, dtype=np.float64)
    if rhs.ndim not in (2, 3) or rhs.shape[:2] != (n, m):
        raise InputError(f'rhs has shape {rhs.shape}, must be {(n, m)} or ({n}, {m}, k)')
    _refuse_not_finite('rhs', rhs)
    return rhs


def _refuse_not_finite(name: str, blocks: Array) -> None:
    if not np.isfinite(blocks).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(blocks))[0])
        raise InputError(f'{name} is not finite: {name}{list(where)} = {blocks[where]}')
