# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques of the setup in force, blended with those of the setup that it replaces.

After a change of robot or settings, the old setup goes on beside the new one for a while. Their
torques are blended after the limits: all limits of a state are linear in the torques, so a blend
of torques that satisfy them satisfies them, too. A difference that fades before the limits would
become a step, because the norm of the limits changes at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.fade import Blend
from osc_ros.control.friction import FrictionInForce
from osc_ros.control.posture import PostureSetPoint
from osc_ros.control.setup import Setup, UNBLENDED

Array = NDArray[np.float64]


class SetupBlending:
    """
    Computes the torques of setups, within their limits, and the way from one setup to the next.

    Attributes
    ----------
    replaced : Setup, optional
        The setup that goes on beside the one in force; None if no change is in progress.
    friction : FrictionInForce
    driver_torque : (n,) [N·m]
        Torques that the driver added at the last tick.
    difference : (n,) [N·m]
        Torques of the last tick minus those of the setup in force alone.

    Parameters
    ----------
    n : int
        Number of joints.

    """

    def __init__(self, n: int) -> None:
        self._rest = np.zeros(n)
        self.friction, self._blend = FrictionInForce(n), Blend()
        self.replaced: Setup | None = None
        self._posture: PostureSetPoint  # of the replaced setup
        # what is added to the torques of the replaced setup, which was not yet alone in force
        self._added = self.difference = self.driver_torque = self._rest

    def end(self, setup: Setup) -> None:
        """End the blend at once, with a setup in force."""
        if self.replaced is not None and self.replaced.space is not setup.space:
            self.replaced.space.close()
        self.replaced, self.difference = None, self._rest
        self._blend.end()

    def torque(self, setup: Setup, posture: PostureSetPoint, time: float, q: Array, qd: Array
               ) -> Array:
        """
        Torques (n,) [N·m] to be commanded, within all limits except rates.

        Parameters
        ----------
        setup : Setup
            The one in force.
        posture : PostureSetPoint
        time : float
            Stamp of the state [s].
        q, qd : (n,)

        """
        if (old := self.replaced) is None:
            tau = setup.torque(time, q, qd, posture, self.friction)
            self.driver_torque = setup.driver_torque
            return tau
        weight = self._blend.advance(time)
        own = old.torque(time, q, qd, self._posture, self.friction)
        before = own + self._added
        # the old robot's limits are not those of the new one, which limits the blend itself
        is_other = old.robot is not setup.robot
        tau = setup.torque(time, q, qd, posture, self.friction,
                           (weight, old.within + self._added) if is_other else UNBLENDED)
        driver = weight * (setup.driver_torque - old.driver_torque)
        self.driver_torque = setup.driver_torque - driver
        self.difference = driver if is_other else weight * (before - tau)
        # the limits of both setups compare the motion with the torques that are really sent
        setup.limiter.add(self.difference)
        old.limiter.add(tau + self.difference - own)
        if weight == 0.0:
            self.end(setup)
        return tau + self.difference

    def begin(self, before: tuple[Setup, PostureSetPoint], after: tuple[Setup, PostureSetPoint],
              time: float, q: Array, qd: Array, tau: Array) -> None:
        """
        Begin to blend from the torques tau (n,) of this tick to those of another setup.

        Parameters
        ----------
        before, after : (Setup, PostureSetPoint)
            The setup in force until now, and the following one.
        time : float
            Stamp of the state [s].
        q, qd, tau : (n,)

        """
        (old, posture), (new, following), added = before, after, self._rest
        if self.replaced is not None:
            added = tau - old.torque(time, q, qd, posture, self.friction)
            self.end(old)
        self.replaced, self._posture, self._added = old, posture, added
        if old.least_inertia is None:  # a friction that begins acts on both
            old.least_inertia = new.least_inertia
        settings = new.settings
        self.friction.begin(time, settings.friction, settings.limits.effort,
                            np.asarray(new.robot.velocity_limits), settings.blend_time)
        self.difference = tau - new.torque(time, q, qd, following, self.friction)
        new.limiter.add(self.difference)
        self._blend.begin(time, self.difference, settings.limits.effort, settings.blend_time)
