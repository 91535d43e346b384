# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Diagnosis of a tick: the parts of its torque, and predicted and measured accelerations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.setup import Setup

Array = NDArray[np.float64]


class Tick(NamedTuple):
    """Stamp [s] of a state, the state q, qd (n,), and the torque (n,) commanded for it [N·m]."""

    time: float
    q: Array
    qd: Array
    tau: Array


def terms(setup: Setup, tick: Tick, to_posture: Array, friction_torque: Array | None,
          fading: Array) -> dict[str, Array]:
    """
    Parts (n,) of the torque of a tick, by name [N·m]; see `osc_ros.control.law.Law.terms`.

    Parameters
    ----------
    setup : Setup
        Setup that computed the tick.
    tick : Tick
    to_posture : (n,) [rad/s²]
        Acceleration of the posture.
    friction_torque : (n,), optional [N·m]
    fading : (n,) [N·m]
        Part of the torque after a change that is not of this setup.

    """
    rest = np.zeros_like(tick.q)
    bias = setup.inverse_dynamics(tick.q, tick.qd, rest)
    posture = setup.inverse_dynamics(tick.q, tick.qd, to_posture) - bias
    found = {'bias': bias, 'posture': posture}
    for k, (level, i) in enumerate(zip(setup.levels, setup.at)):
        F = setup.solver.forces[6 * k:6 * k + 6]
        found[level.task.name] = setup.J[6 * i:6 * i + 6].T @ F
    if setup.guidance is not None:
        i = setup.at[0]
        found['free_drive'] = setup.guidance.wrench @ setup.J[6 * i:6 * i + 6]
    if setup.settings.driver is not None:
        found['driver'] = -setup.command_model.driver_torque(tick.q, tick.qd)
    if friction_torque is not None:
        found['friction'] = friction_torque
    found['fading'] = fading
    found['limits'] = tick.tau - sum(found.values())
    return found


def predicted_and_measured(setup: Setup, before: Tick, last: Tick) -> tuple[Array, Array]:
    """
    Mean accelerations between two ticks, predicted and measured (n,), (n,) [rad/s²].

    Parameters
    ----------
    setup : Setup
    before, last : Tick
        Two ticks with different stamps.

    """
    measured = (last.qd - before.qd) / (last.time - before.time)
    tau = before.tau
    if setup.settings.driver is not None:
        tau = tau + setup.command_model.driver_torque(before.q, before.qd)
    # by kernels of the tick: forward dynamics would have to be compiled for this purpose only
    dynamics, rest, no_force = setup.dynamics, np.zeros_like(tau), np.zeros(len(setup.J))
    h, predicted = np.empty_like(tau), np.empty_like(tau)
    dynamics.outward(before.q, before.qd, None, rest)
    dynamics.inward(no_force, h)
    dynamics.acceleration_response(tau - h, no_force, predicted)
    return predicted, measured
