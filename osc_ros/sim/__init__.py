# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""A simulated arm in place of a real one."""

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
