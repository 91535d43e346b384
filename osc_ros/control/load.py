"""
The joints' loads as limits of where the arm may go: no joint is led to where it cannot hold it.

The load of a joint, its torque against gravity, depends on the posture. Near its effort limit a
joint has nothing left to brake with, and beyond it the arm falls, whatever the controller does
then. So the load is bounded beforehand, as a position is: its second derivative in time,
∇gᵢ q̈ + q̇ᵀ∇²gᵢ q̇, may be no more than brings it smoothly to FULL of the limit.

"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import kernel
from osc_ros.dynamics.trees.articulated import Articulated, inverse_dynamics

Array = NDArray[np.float64]

# Shares of a joint's effort limit: from HEAVY on its load is bounded, fully from BOUNDED on, to
# FULL of it.
HEAVY, BOUNDED, FULL = 0.75, 0.85, 0.97
PACE = 10.0  # of a load that goes to its bound, critically damped [1/s]
IDLE = 10  # ticks between two looks at loads that were all below NEAR of their limits
NEAR = 0.6
_STEP, _WAY = 1e-5, 1e-3  # of the derivatives [rad, m], [s]


@kernel
def bounded_loads(integers, numbers, room, q, qd, effort, near, work, rows, most, joints):
    """
    Bounds of acceleration, rows · q̈ ≤ most, that keep the loads of the joints within limits.

    Parameters
    ----------
    integers, numbers, room
        Of `Articulated`.
    q, qd, effort : (n,)
        Effort limits may be infinite.
    near : float
        A share of the limits.
    work : (4, n), overwritten
    rows, most : (n, n), (n,), written
        Of the joints that are bounded.
    joints : (n, 2), written
        Which joint each row belongs to, and how firmly it is bounded, 0 to 1.

    Returns
    -------
    How many rows there are, or -1 if no load is at `near` of its limit.

    """
    n = len(q)
    at, rest, load, other = work[0], work[1], work[2], work[3]
    for i in range(n):
        at[i], rest[i] = q[i], 0.0
    inverse_dynamics(integers, numbers, room, at, rest, rest, load)
    count, is_near = 0, False
    for i in range(n):
        size = np.abs(load[i])
        is_near = is_near or size > near * effort[i]
        if size > HEAVY * effort[i]:
            joints[count, 0] = i
            joints[count, 1] = min((size / effort[i] - HEAVY) / (BOUNDED - HEAVY), 1.0)
            most[count] = 0.0
            count += 1
    if count == 0:
        return 0 if is_near else -1
    for j in range(n):
        at[j] = q[j] + _STEP
        inverse_dynamics(integers, numbers, room, at, rest, rest, other)
        at[j] = q[j]
        for k in range(count):
            i = int(joints[k, 0])
            rows[k, j] = np.copysign(1.0, load[i]) * (other[i] - load[i]) / _STEP
    for side in (-1.0, 1.0):
        for j in range(n):
            at[j] = q[j] + side * _WAY * qd[j]
        inverse_dynamics(integers, numbers, room, at, rest, rest, other)
        for k in range(count):
            i = int(joints[k, 0])
            most[k] -= np.copysign(1.0, load[i]) * (other[i] - load[i]) / (_WAY * _WAY)
    for k in range(count):
        i = int(joints[k, 0])
        pace = 0.0
        for j in range(n):
            pace += rows[k, j] * qd[j]
        most[k] += PACE * (PACE * (FULL * effort[i] - np.abs(load[i])) - 2.0 * pace)
    return count


class Loads:
    """
    Looks after the loads of a robot's joints.

    Attributes
    ----------
    rows, most, joints
        Of `bounded_loads`, from the last look.
    count : int
        Of rows.

    Parameters
    ----------
    dynamics : Articulated

    """

    def __init__(self, dynamics: Articulated) -> None:
        n = dynamics.robot.n
        self._dynamics = dynamics.arrays
        self._work = np.zeros((4, n))
        self.rows, self.most, self.joints = np.zeros((n, n)), np.zeros(n), np.zeros((n, 2))
        self.count, self._idle = 0, 0

    def look(self, q: Array, qd: Array, effort: Array) -> int:
        """How many loads are bounded at a state; looks seldom while all are low."""
        if self._idle > 0:
            self._idle -= 1
            return 0
        count = bounded_loads(*self._dynamics, q, qd, effort, NEAR, self._work, self.rows,
                              self.most, self.joints)
        self._idle, self.count = (IDLE, 0) if count < 0 else (0, count)
        return self.count

    def forget(self) -> None:
        """Look again at the next tick."""
        self._idle = 0
