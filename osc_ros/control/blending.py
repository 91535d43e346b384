# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Blend of the torques for the old settings with the torques for the new ones, after a change.

A setup is a law compiled for one robot and one choice of settings: see `CompiledLaw`. After a
change of robot or settings, the replaced setup and the new one both compute torques for a while,
and these are blended, see `osc_ros.control.step.blend`. It would not suffice to fade out the
difference of the torques before the limits: the limiter finds the nearest admissible torques in a
norm that changes at once with the setup, so the torques would step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.model_error.friction import FrictionInForce
from osc_ros.control.setpoint.posture import PostureSetPoint
from osc_ros.control.step.blend import Blend
from osc_ros.control.step.tick_arrays import NO_INTEGERS

Array = NDArray[np.float64]


class SetupBlending:
    """
    The setup (`CompiledLaw`) that is being replaced, and the weight of its torques.

    Attributes
    ----------
    replaced : CompiledLaw, optional
        The setup that the setup in force replaces; None if no change is in progress.
    posture : PostureSetPoint
        Set-point of the replaced setup.
    friction : FrictionInForce

    Parameters
    ----------
    n : int
        Number of joints.

    """

    def __init__(self, n: int) -> None:
        self.friction, self._blend = FrictionInForce(n), Blend(n)
        self.replaced: CompiledLaw | None = None
        self.posture: PostureSetPoint

    @property
    def difference(self) -> Array:
        """Torques (n,) of the last tick, minus the torques for the new settings alone [N·m]."""
        return np.array(self._blend.views[0].difference)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays `blend` and `other` of `osc_ros.control.step.tick_arrays.LawArrays`."""
        return self._blend.record, (NO_INTEGERS if self.replaced is None else
                                    self.replaced.tick.alone(self.friction, self.posture))

    def end(self, setup: CompiledLaw) -> None:
        """End the blend at once; from now on only `setup` computes torques."""
        setup.set_blended(False)
        if self.replaced is not None and self.replaced.space is not setup.space:
            self.replaced.space.close()
        self.replaced = None
        self._blend.end()

    def end_if_over(self, setup: CompiledLaw) -> None:
        """End the blend if the old settings have weight 0; then only `setup` computes torques."""
        if self.replaced is not None and self._blend.weight == 0.0:
            self.end(setup)

    def begin(self, before: tuple[CompiledLaw, PostureSetPoint],
              after: tuple[CompiledLaw, PostureSetPoint], time: float, q: Array, qd: Array,
              tau: Array) -> None:
        """
        Start to blend from tau (n,), the torques of this tick, to the torques for new settings.

        `before` and `after` are the `CompiledLaw` in force until now, and the next one, each with
        its set-point of the posture; `time` is the stamp of the state [s]. tau excludes the
        compensation of model errors that continues with the next setup [N·m].

        """
        (old, posture), (new, following) = before, after
        added, difference = np.zeros(len(tau)), np.empty(len(tau))
        # otherwise tau is the torque of the old setup
        if self.replaced is not None or old.robot is not new.robot:
            if old.torque(time, q, qd, posture, self.friction, added) < 0:
                old.refuse(q, qd)
            added = tau - added
            self.end(old)
        self.replaced, self.posture = old, posture
        old.take_least_inertia(new)  # a new friction compensation acts on both setups
        settings = new.settings
        self.friction.begin(time, settings.friction, settings.limits.effort,
                            np.asarray(new.robot.velocity_limits), settings.blend_time)
        for setup in old, new:
            setup.set_blended(True)
        if new.torque(time, q, qd, following, self.friction, difference) < 0:
            self.end(old)
            new.refuse(q, qd)
        difference = tau - difference
        new.limiter.add(difference)
        self._blend.begin(time, difference, settings.limits.effort, settings.blend_time)
        at = self._blend.views[0]
        at.added[:], at.is_other[0] = added, old.robot is not new.robot
        at.driver[:] = new.driver_torque
