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

from osc_ros.control.disturbance import SETTLED
from osc_ros.control.observer import ExternalForce

Array = NDArray[np.float64]

# Resistance begins at the first of these speeds, relative to the limit, and is complete at the
# second.
RESISTED = 0.8, 1.0


class Resistance(NamedTuple):
    """
    Torques (n,) [N·m, N] while a joint is near its speed limit.

    Attributes
    ----------
    torque : (n,)
        Torque against the external torques that drive fast joints: it never acts along the motion
        of a joint.
    external : (n,)
        External torques that the limits take into account.

    """

    torque: Array
    external: Array


def resistance(external: ExternalForce, qd: Array, fastest: Array) -> Resistance | None:
    """
    Resistance of joints with velocities qd (n,); None if no joint is near its speed limit.

    Parameters
    ----------
    external : ExternalForce
    qd, fastest : (n,) [rad/s, m/s]
        Velocities and their limits, which may be infinite.

    """
    share = (np.abs(qd) / fastest - RESISTED[0]) / (RESISTED[1] - RESISTED[0])
    if not share.max() > 0.0 or external.settled < SETTLED:
        return None
    share, way = np.clip(share, 0.0, 1.0), np.sign(qd)
    driving = np.maximum(way * external.torque, 0.0)
    return Resistance(-way * share * driving, share.max() * external.torque)
