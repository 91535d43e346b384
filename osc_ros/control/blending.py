# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Blend of the torques for the old settings with the torques for the new ones, after a change.

A setup is a law compiled for one robot and one choice of settings: see `CompiledLaw`. After a
change of robot or settings, the replaced setup and the new one both compute torques for a while,
and these are blended, see `osc_ros.control.step.blend`. There is one blend at a time: a change
that comes within it waits for its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.model_error.friction import FrictionInForce
from osc_ros.control.setpoint.posture import PostureSetPoint
from osc_ros.control.step.blend import Blend

Array = NDArray[np.float64]

LOADING = 0.5  # least time for a change of the payload [s/kg]
SETTLING = 1.0  # time after a blend in which bounds still change the torques slowly [s]


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
    run : record
        RUN of `osc_ros.control.data`.

    """

    def __init__(self, run: Any) -> None:
        self._run, self.friction, self._blend = run, FrictionInForce(run), Blend(run)
        self.replaced: CompiledLaw | None = None
        self.posture: PostureSetPoint

    @property
    def difference(self) -> Array:
        """Torques (n,) of the last tick, minus the torques for the new settings alone [N·m]."""
        return np.array(self._run.tau_difference)

    def replace(self, old: CompiledLaw, posture: PostureSetPoint, new: CompiledLaw) -> None:
        """Let `new` replace `old`, which keeps its set-point of the posture."""
        self.replaced, self.posture = old, posture
        old.record.posture, new.record.other = posture.record, old.record
        new.record.replaces = True

    def end(self, setup: CompiledLaw) -> None:
        """End the blend at once; from now on only `setup` computes torques."""
        setup.set_blended(False)
        setup.record.replaces = False
        if self.replaced is not None and self.replaced.space is not setup.space:
            self.replaced.space.close()
        self.replaced = None
        self._blend.end()

    def end_if_over(self, setup: CompiledLaw) -> None:
        """End the blend if the old settings have weight 0; then only `setup` computes torques."""
        if self.replaced is not None and self._blend.weight == 0.0:
            self.end(setup)

    @property
    def left(self) -> float:
        """Time until the end of the blend [s]."""
        return float(self._run.blend_duration - self._run.blend_age)

    def hurry(self, setup: CompiledLaw) -> None:
        """Shorten the blend to `setup`, because another change waits; a load stays gradual."""
        if not self._run.blends_load:
            self._blend.hurry(setup.settings.limits.effort)

    def begin(self, old: CompiledLaw, posture: PostureSetPoint, new: CompiledLaw, time: float,
              q: Array, qd: Array, tau: Array, carried: Array) -> None:
        """
        Start to blend from tau (n,), the torques of this tick, to the torques for new settings.

        `posture` is the set-point of the old setup from now on; `time` is the stamp of the state
        [s]. tau excludes the compensation of model errors that continues with the next setup;
        `carried` (n,) is the rest of it [N·m].

        """
        difference, settings = np.empty(len(tau)), new.settings
        old.take_least_inertia(new)  # a new friction compensation acts on both setups
        self.friction.begin(time, settings.friction, settings.limits.effort,
                            np.asarray(new.robot.velocity_limits), settings.blend_time)
        for setup in old, new:
            setup.set_blended(True)
        if new.torque(time, q, qd, difference) < 0:
            self.end(old)
            new.refuse(q, qd)
        self.replace(old, posture, new)
        difference = tau - difference
        new.limiter.add(difference)
        loads = LOADING * abs(new.robot.payload_mass - old.robot.payload_mass)
        self._blend.begin(time, difference, settings.limits.effort,
                          max(settings.blend_time, loads))
        run = self._run
        run.tau_carried[:], run.blended_driver[:] = carried, new.driver_torque
        run.blends_load = new.robot is not old.robot
        for setup in old, new:
            setup.limiter.change_gently(self.left + SETTLING)
