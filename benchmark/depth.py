# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Number of sequential steps of block cyclic reduction and block LDLᵀ."""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np

from osc_ros.dynamics.papers.block_tridiagonal import BlockCyclicReduction, BlockLDL
from race import difference

SIZES = (*(2 ** k for k in range(1, 15)), 3, 5, 7, 9, 33, 63, 65, 999, 4097, 10_001, 16_383)
BLOCK = 5  # rows of a block: the constraints of a joint with one degree of freedom


@dataclass(frozen=True)
class Depth:
    """Numbers of sequential steps for n blocks; the residual is |a x - b|, relative to b."""

    n: int
    reduction: int
    expected: int
    ldl: int
    residual: float


def depths() -> list[Depth]:
    """Return the longest chains of dependent operations of both factorizations, for every size."""
    return [_depth(n) for n in sorted(SIZES)]


def _depth(n: int) -> Depth:
    rng = np.random.default_rng(n)
    upper = rng.normal(size=(n - 1, BLOCK, BLOCK))
    # diagonally dominant, so positive definite
    diagonal = np.tile(6.0 * BLOCK * np.eye(BLOCK), (n, 1, 1))
    b = rng.normal(size=(n, BLOCK, 1))
    factor = BlockCyclicReduction(diagonal, upper)
    x = factor.solve(b)
    product = diagonal @ x
    product[:-1] += upper @ x[1:]
    product[1:] += upper.transpose(0, 2, 1) @ x[:-1]
    return Depth(n, factor.depth, math.ceil(math.log2(n)), BlockLDL(diagonal, upper).depth,
                 difference(product, b))
