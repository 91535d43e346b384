"""Torques against the friction in the joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import kernel
from osc_ros.errors import InputError

Array = NDArray[np.float64]

# How far ahead of the measured velocity the sign of dry friction is taken [s]. A joint that stands
# still sticks, and only what it is about to do says which way it is to be helped.
LOOK_AHEAD = 0.02


@kernel
def _helped(qd, qdd, coulomb, viscous, velocity, tau, most, helped):
    for i in range(len(helped)):
        sliding = np.tanh((qd[i] + LOOK_AHEAD * qdd[i]) / velocity)
        total = tau[i] + coulomb[i] * sliding + viscous[i] * qd[i]
        helped[i] = min(max(total, -most[i]), most[i])


@dataclass(frozen=True, eq=False)
class Friction:
    """
    Friction of the joints: τ = f_c tanh(v / v_s) + f_v q̇, with v = q̇ + LOOK_AHEAD q̈.

    The direction is that in which the joint is commanded to go, so that it is freed where it
    sticks, at reversals above all. What is compensated too much makes the joint hunt: give
    less rather than more.

    Attributes
    ----------
    coulomb : (n,) [N·m; N for prismatic]
        Dry friction f_c.
    viscous : (n,) [N·m·s/rad; N·s/m]
        f_v.
    velocity : float [rad/s; m/s]
        Width v_s of the change from one direction to the other; against chatter, from noise in
        the velocities as well.

    Raises
    ------
    InputError
        Shapes that differ, a number that is negative or not finite, a width of 0.

    """

    coulomb: Array
    viscous: Array
    velocity: float = 0.02

    def __post_init__(self) -> None:
        """Take anything that is an array, and refuse the rest."""
        for name in ('coulomb', 'viscous'):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.ndim != 1 or not (np.isfinite(value).all() and (value >= 0.0).all()):
                raise InputError(f'friction {name} {value.tolist()}: accepted is a number for '
                                 'each joint, finite, 0 or more')
            object.__setattr__(self, name, value)
        if self.coulomb.shape != self.viscous.shape:
            raise InputError(f'friction has {len(self.coulomb)} entries of coulomb and '
                             f'{len(self.viscous)} of viscous: accepted is one each a joint')
        if not (np.isfinite(self.velocity) and self.velocity > 0.0):
            raise InputError(f'friction velocity {self.velocity}: accepted is more than 0')

    def helped(self, qd: Array, qdd: Array, tau: Array, most: Array) -> Array:
        """Torques tau (n,) and those against friction, within the most, by the commanded q̈."""
        helped = np.empty(len(tau))
        _helped(qd, qdd, self.coulomb, self.viscous, self.velocity, tau, most, helped)
        return helped
