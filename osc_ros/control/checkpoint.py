# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""State of a controller as data, from which another controller computes the next torques."""

from __future__ import annotations

from typing import Any, NamedTuple

from osc_ros.compile.addresses import Integers
from osc_ros.control.compiled_law import Precomputed
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Settings
from osc_ros.model.robot import Robot


class LawRecipe(NamedTuple):
    """Arguments to construct an equal law; the numbers of its state are copied afterwards."""

    method: str  # see `Law`
    workers: int
    # Arguments of each `CompiledLaw`: first the one that is being replaced, if a change is in
    # progress, then the one in force, then the one that waits, if any.
    setups: tuple[tuple[Settings, Robot, Precomputed], ...]
    # For the first two, and each of their tasks, the index of its `SetPointGenerator`, because the
    # old and the new settings may share it.
    guides: tuple[tuple[int, ...], ...]


class Checkpoint(NamedTuple):
    """Immutable copy of the state of an engine at one moment."""

    law: LawRecipe
    # arguments of the supervisor; `Supervisor.texts`
    guard: tuple[Robot, Supervision, tuple[Any, ...]]
    values: dict[str, Any]  # attributes of the engine, see `osc_ros.loop.engine.VALUES`
    remembered: tuple[Any, ...]  # see `Law.remembered`
    sizes: Integers  # (k,) sizes of the arrays of `Engine.state_arrays`
    row: Integers  # (m,) contents of these arrays, one after the other; floats by their 8 bytes

    @property
    def size(self) -> int:
        """Approximate size in memory [bytes], mostly that of `row`."""
        return self.row.nbytes + 20_000
