# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""All that the next torques of a controller depend on, as data from which another one goes on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.places import Places
from osc_ros.control.settings import Settings
from osc_ros.control.setup import Precomputed
from osc_ros.control.supervision import Supervision
from osc_ros.dynamics.addresses import Integers
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot


class LawRecipe(NamedTuple):
    """
    How to make a law; its state is that before the first state of an arm.

    Attributes
    ----------
    method, workers
        See `Law`.
    setups : tuple of (Settings, Robot, Precomputed)
        The setup that is being replaced, if there is one, and the setup in force.
    guides : tuple of tuple of int
        For each of these setups, and each of its tasks, the index of the guide of the target: two
        setups may share guides.

    """

    method: str
    workers: int
    setups: tuple[tuple[Settings, Robot, Precomputed], ...]
    guides: tuple[tuple[int, ...], ...]


class Checkpoint(NamedTuple):
    """
    The state of an engine at one moment; nothing changes it.

    Attributes
    ----------
    law : LawRecipe
    guard : (Supervision, tuple, float)
        Settings; `Supervisor.words`; `ContactSense.until`.
    values : dict
        Attributes of the engine, see `osc_ros.control.engine.VALUES`.
    remembered : tuple
        See `ControlCycle.remembered`.
    sizes : (k,) int
        Sizes of the arrays of `Engine.kept`.
    row : (m,) int
        Their contents, one after the other, as integers of 8 bytes.

    """

    law: LawRecipe
    guard: tuple[Supervision, tuple[Any, ...], float]
    values: dict[str, Any]
    remembered: tuple[Any, ...]
    sizes: Integers
    row: Integers

    @property
    def size(self) -> int:
        """Size in memory, about [bytes]; most of it is the row."""
        return self.row.nbytes + 20_000

    def load(self, arrays: tuple[NDArray[Any], ...]) -> None:
        """Copy the row to arrays; InputError for arrays of other sizes, or another row."""
        places = Places(arrays)
        sizes = np.array([one.size for one in arrays])
        if not (np.array_equal(sizes, self.sizes) and self.row.shape == (places.size,)
                and self.row.dtype == np.int64):
            raise InputError(f'arrays of the sizes {np.asarray(self.sizes).tolist()}: accepted '
                             f'are {sizes.tolist()}')
        places.load(self.row)
