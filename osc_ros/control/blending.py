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
from osc_ros.control.data import OF_BLEND
from osc_ros.control.model_error.friction import duration_of_change
from osc_ros.control.step.limit import count_fading
from osc_ros.dynamics.algebra.spatial import CHANGE_RATE

Array = NDArray[np.float64]

HURRIED = 0.1  # least duration of a blend for whose end another change of settings waits [s]
LOADING = 0.5  # least time for a change of the payload [s/kg]
SETTLING = 1.0  # time after a blend in which bounds still change the torques slowly [s]


class SetupBlending:
    """The setup (`CompiledLaw`) that is being replaced, and the weight of its torques."""

    def __init__(self, run: Any) -> None:
        self._run = run  # RUN of `osc_ros.control.data`
        self.replaced: CompiledLaw | None = None  # None if no change is in progress

    def replace(self, old: CompiledLaw, posture: Any, new: CompiledLaw) -> None:
        """Let `new` replace `old`, which keeps its set-point of the posture."""
        self.replaced, old.record.posture, new.record.other = old, posture, old.record
        new.record.replaces = True

    def end(self, setup: CompiledLaw) -> None:
        """End the blend at once; from now on only `setup` computes torques."""
        setup.set_blended(False)
        setup.record.replaces = False
        if self.replaced is not None and self.replaced.space is not setup.space:
            self.replaced.space.close()
        self.replaced = None
        self._run.clear(one.name for one in OF_BLEND)

    def end_if_over(self, setup: CompiledLaw) -> None:
        """End the blend if the old settings have weight 0; then only `setup` computes torques."""
        if self.replaced is not None and self._run.blend_weight == 0.0:
            self.end(setup)

    @property
    def left(self) -> float:
        """Time until the end of the blend [s]."""
        return float(self._run.blend_duration - self._run.blend_age)

    def hurry(self, setup: CompiledLaw) -> None:
        """Shorten the blend to `setup`, because another change waits; a load stays gradual."""
        # It lasts HURRIED, or as long as the present difference of the torques needs.
        run = self._run
        if run.blends_load or run.blend_weight == 0.0:
            return
        found = _duration(setup.d.tau_fading / run.blend_weight, setup.settings.limits.effort,
                          HURRIED)
        if found < run.blend_duration:
            run.blend_age *= found / run.blend_duration
            run.blend_duration = found

    def begin(self, old: CompiledLaw, posture: Any, new: CompiledLaw, time: float,
              q: Array, qd: Array, tau: Array, carried: Array) -> None:
        """Start to blend from tau (n,), torques of this tick [N·m], to those for new settings."""
        # tau excludes the compensation of model errors that continues with the next setup;
        # `carried` (n,) is the rest of it [N·m]. `posture` is the set-point of the old setup from
        # now on; `time` is the stamp of the state [s].
        settings, d = new.settings, new.d
        for setup in old, new:
            setup.set_blended(True)
        if new.torque(time, q, qd) < 0:
            self.end(old)
            new.refuse(q, qd)
        self.replace(old, posture, new)
        added = d.tau_friction - d.tau_driver
        d.tau_fading[:] = difference = tau - (d.tau_limited + added)
        d.last_limited[:] = d.last_tau - (added + difference)
        count_fading(d, False)
        effort, run = settings.limits.effort, self._run
        least = max(settings.blend_time,
                    LOADING * abs(new.robot.payload_mass - old.robot.payload_mass),
                    duration_of_change(old.settings.friction, settings.friction, effort,
                                       np.asarray(new.robot.velocity_limits)))
        begin_blend(run, time, difference, effort, least)
        run.tau_carried[:] = carried
        run.blends_load = new.robot is not old.robot
        if run.blends_load:  # another load counts as carried when the motion shows it
            run.has_other_load = new.added_weight(old, q).any()
            run.residuals[:] = run.scatter[:] = 0.0
        for setup in old, new:
            setup.limiter.change_gently(self.left + SETTLING)


def begin_blend(run: Any, time: float, difference: Array, limits: Array, least: float) -> None:
    """Give the replaced setup the weight 1 at a time [s]; for the duration see `_duration`."""
    run.blend_duration = _duration(difference, limits, least)
    run.blend_time, run.blend_age, run.blend_weight = time, 0.0, 1.0


def _duration(difference: Array, limits: Array, least: float) -> float:
    """Duration of a blend [s]: `least`, or longer for a large difference (n,) of the torques."""
    # A constant difference then changes by at most 3/4 CHANGE_RATE · limit per second. Limits may
    # be infinite.
    return max(least, 2.0 * float((np.abs(difference) / limits).max()) / CHANGE_RATE)
