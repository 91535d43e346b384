# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Blend of the torques of two setups while one replaces the other.

A setup is a law compiled for one robot and one choice of settings, see
`osc_ros.control.compiled_law.CompiledLaw`.

All limits of a state are linear in the torques, and during a blend both setups have the limits in
force, so a blend of torques that satisfy the limits satisfies them, too. Therefore the torques are
blended after the limits. If the setups have different robots, each satisfies the limits according
to its own robot, but the other one's torques cause other accelerations then: each setup counts
those of the last tick in its bounds (slot `beside`), if they drive a joint towards the bound.
"""

from __future__ import annotations

from osc_ros.compile.compiled import kernel, stage
from osc_ros.control.limits.limiter import add
from osc_ros.control.step.law_record import torque_at
from osc_ros.dynamics.algebra.fade import LONGEST_TICK, smoothed
from osc_ros.dynamics.algebra.vectors import assign


@kernel
def advance(run, time):
    """Advance a blend to a time [s]."""
    if run.blend_weight > 0.0:
        run.blend_age += min(max(time - run.blend_time, 0.0), LONGEST_TICK)
        run.blend_time = time
        run.blend_weight = 1.0 - smoothed(run.blend_age / run.blend_duration)


@stage
def put_limits(old, new):
    """Let the limits in force hold for the replaced setup, too; both are records D."""
    for row in range(len(new.limits)):
        assign(old.limits[row], new.limits[row])
    old.limits_change = False


@stage
def mix(run, old, new, tau):
    """
    Overwrite the torques tau (n,) of the setup in force with the blended ones.

    `old` and `new` are the records LAW_D of both setups, whose limits record the difference to the
    blended torques, because they compare the measured motion with the torques that were sent.

    """
    weight = run.blend_weight
    for i in range(run.n):
        run.blended_driver[i] = new.tau_driver[i] - weight * (new.tau_driver[i]
                                                              - old.tau_driver[i])
        run.tau_difference[i] = weight * (run.tau_replaced[i] + run.tau_carried[i] - tau[i])
        tau[i] += run.tau_difference[i]
        # from now on: torques that are sent in addition to those of the replaced setup
        run.tau_replaced[i] = tau[i] - run.tau_replaced[i] - run.tau_carried[i]
    for law, torques in ((new, run.tau_difference), (old, run.tau_replaced)):
        assign(law.beside, law.commanded[0])
        add(law, torques)
        for i in range(run.n):
            law.beside[i] = law.commanded[0, i] - law.beside[i] if run.blends_load else 0.0


@stage
def blended_torque(law, time, q, qd, tau):
    """Write the torques for the settings in force, blended with those for the replaced ones."""
    old, d, run = law.other, law.d, law.run
    put_limits(old.d, d)
    count = torque_at(old.setup_torque, (old, time, q, qd, run.tau_replaced))
    if count < 0:
        return count
    count = torque_at(law.setup_torque, (law, time, q, qd, tau))
    mix(run, old.d, d, tau)
    if old.d.plans:
        d.plans = True
    return count
