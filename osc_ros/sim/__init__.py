# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Simulation of one arm in MuJoCo, alone (`Plant`) or with a law (`Simulation`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from osc_ros.sim.plant import Plant
    from osc_ros.sim.simulation import Record, Simulation

__all__ = ['Plant', 'Record', 'Simulation']

_PLACES = {'Plant': 'plant', 'Record': 'simulation', 'Simulation': 'simulation'}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(f'{__name__}.{_PLACES[name]}'), name)
    return found
