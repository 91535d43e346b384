# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shapes of links: capsules and spheres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkShape:
    """A capsule on a link."""

    link: str
    ends: Array
    radius: float


@dataclass(frozen=True, eq=False)
class ShapeModel:
    """Shapes of an arm."""

    shapes: tuple[LinkShape, ...]
    ignored: frozenset[frozenset[str]]
