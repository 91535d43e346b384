"""Torques that the joints can give, without bending the motion that was asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def scaled_to_limits(tau: Array, h: Array, limits: Array) -> Array:
    """
    Torques within the limits that keep the direction of the joint acceleration.

    Since q̈ = M⁻¹(τ - h), scaling τ - h scales every acceleration, of the joints and of the tip,
    by one factor. A joint whose gravity and Coriolis torque alone is beyond its limit is left out
    of the choice, since no factor helps it, and clipped.

    Parameters
    ----------
    tau, h : (n,)
        Torque of the law, and C + G [N·m].
    limits : (n,)
        Largest magnitudes [N·m]; may be infinite.

    Returns
    -------
    (n,) [N·m], a fresh array

    """
    motion = tau - h
    room = np.where(motion > 0.0, limits - h, limits + h)
    moving = (np.abs(motion) > 0.0) & (room > 0.0)
    factor = np.clip(np.min(room[moving] / np.abs(motion[moving]), initial=1.0), 0.0, 1.0)
    return np.clip(h + factor * motion, -limits, limits)
