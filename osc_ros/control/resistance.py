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

"""
Resistance of fast joints against external torques, so that a contact drives none beyond its limit.

The limits of a joint's speed bound the acceleration that the model predicts. A wall, a hand or an
unknown load accelerates the joint in addition: without this module a light wrist that folds in a
contact becomes several times faster than its limit, although its motor could hold it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.limits import EFFORT, SPEED

Array = NDArray[np.float64]

# Resistance begins at the first of these speeds, relative to the limit, and is complete at the
# second.
RESISTED = 0.7, 0.9


# Number of states for which an external torque must last: a hit on a hard wall is over before the
# observer, which is slower, knows its torque; a resistance against that would only come too late.
LASTING = 10
STEP = 0.02  # largest change of a torque from state to state, relative to its limit


class Resistance(NamedTuple):
    """
    Torques (n,) [N·m, N] while a joint is near its speed limit.

    Attributes
    ----------
    torque : (n,)
        Torque against the external torques that drive fast joints.
    external : (n,)
        External torques that the limits take into account.

    """

    torque: Array
    external: Array


def lasting(past: Array) -> Array:
    """Largest torques (n,) that all of the torques `past` (k, n) reach with the same sign."""
    return np.asarray(np.maximum(past.min(axis=0), 0.0) + np.minimum(past.max(axis=0), 0.0))


def resistance(past: Array, qd: Array, table: Array, before: Resistance | None
               ) -> Resistance | None:
    """
    Resistance of joints with velocities qd (n,); None if no joint is near its speed limit.

    Parameters
    ----------
    past : (LASTING, n) [N·m, N]
        External torques at the last states.
    qd : (n,) [rad/s, m/s]
    table : (8, n)
        See `Limits.table`.
    before : Resistance, optional
        That of the last state, from which the torque changes by at most STEP.

    """
    share = (np.abs(qd) / table[SPEED] - RESISTED[0]) / (RESISTED[1] - RESISTED[0])
    if not share.max() > 0.0 and before is None:
        return None
    share, way, external = np.clip(share, 0.0, 1.0), np.sign(qd), lasting(past)
    torque = -way * share * np.maximum(way * external, 0.0)
    last, step = 0.0 if before is None else before.torque, STEP * table[EFFORT]
    torque = np.minimum(np.maximum(torque, last - step), last + step)
    if not share.any() and not torque.any():
        return None
    return Resistance(torque, share.max() * external)
