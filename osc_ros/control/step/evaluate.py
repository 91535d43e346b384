# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Evaluate and approach: period, targets, set-points and gravity at a state; references follow."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, kernel, stage, view
from osc_ros.control.setpoint.motion import put_targets
from osc_ros.control.setpoint.posture import advance_posture, lag_of, posture_acceleration
from osc_ros.control.step import blend
from osc_ros.control.step.limit import begin_limits
from osc_ros.control.tasks.bandwidth import COUNTED_DELAY, DELAY, PERIOD_CHANGE, PERIOD_SHARE
from osc_ros.control.tasks.feedback import mobility_of, put_references
from osc_ros.control.tasks.free import put_damping
from osc_ros.dynamics.algebra.kinematics import put_link_axes
from osc_ros.dynamics.algebra.spatial import dot, move_towards, sub, vector_at


@stage
def approach(law):
    """Advance limits and references; write acceleration of the posture, torques of springs."""
    # This runs before the dynamics of the tick.
    m, d = law.m, law.d
    begin_limits(m, d)
    put_references(m, d, mobility_of(law))
    if m.is_guided:
        put_damping(m, d)
    posture_acceleration(m, d, law.posture, d.qd, d.qdd_posture)
    for i in range(d.n):
        away = lag_of(d.q[i], law.posture.now[i], law.posture.wraps[i])
        d.tau_springs[i] = (d.joint_stiffness[i] * away
                            + d.joint_damping[i] * (law.posture.velocity[i] - d.qd[i]))


# Longest interval between two states that counts as a tick [s]. After a longer one, gravity takes
# its wanted value at once, and the reference motion is not integrated.
PAUSE = 0.1
# Largest rate of change of gravity in the model [m/s³]; a base that rotates at 2 rad/s causes it.
GRAVITY_RATE = 20.0
DELAY_TIME = 0.3  # time constant of a change of the delay: gains that step would step torques [s]
NEAR = 0.01  # difference of the delay that counts as none [periods]


@inlined
def period_for_gains(run):
    """Period that bounds the gains [s]; a long delay counts as a longer period."""
    # The phase lag of the loop grows with the sum of half a period, for the sample and hold, and
    # the delay.
    return run.mean_period * max(1.0, (0.5 + run.delay) / (0.5 + DELAY))


@kernel
def note_period(run, time):
    """Update period and delay with a state at a time [s]; return the period for the gains [s]."""
    # An interval counts as two mean periods at most; another call for the same state changes
    # nothing.
    dt = time - run.tick_time
    if 0.0 < dt <= PAUSE and run.noted_time != time:
        if run.mean_period > 0.0:
            run.mean_period += PERIOD_SHARE * (min(dt, 2.0 * run.mean_period) - run.mean_period)
        else:
            run.mean_period = dt
        far = run.wanted_delay - run.delay
        run.delay += far if np.abs(far) < NEAR else min(dt / DELAY_TIME, 1.0) * far
    run.noted_time = time
    return period_for_gains(run)


@inlined
def put_gravity(law, gravity):
    """Write gravity (3,) to all models of a law."""
    for i in range(3):
        law.gravity[i] = law.model.gravity[i] = law.model.driver_gravity[i] = gravity[i]
        law.bare.gravity[i] = law.bare.driver_gravity[i] = gravity[i]
        if law.m.observes:
            law.observer.gravity[i] = gravity[i]


@inlined
def _is_slow(law, counts_unexplained, period):
    """Write `counts_unexplained`; return whether Python must reduce gains for this period [s]."""
    m, d = law.m, law.d
    d.counts_unexplained = counts_unexplained
    return (max(period, d.gain_period) > m.longest_period
            and abs(period - d.gain_period) > PERIOD_CHANGE * period)


@kernel
def put_axes(m, d):
    """Write the axes of the tasks whose frames turn with links that have no task."""
    for i in range(d.k):
        count = m.frame_count[i]
        if count > 0:
            put_link_axes(view(m.frame_rotations[i], 0, (count, 3, 3)), m.frame_turns[i],
                          m.frame_places[i], d.q, view(d.task_axes[i], 0, (3, 3)))


@stage
def evaluate(law):
    """Update period, targets, set-points, gravity and blend weight, before the torques."""
    # Return whether Python must reduce gains for the period of the states.
    m, d, run, time, q = law.m, law.d, law.run, law.d.time, law.d.q
    counts_unexplained = run.delay <= COUNTED_DELAY
    period = note_period(run, time)
    is_slow = _is_slow(law, counts_unexplained, period)
    put_targets(m, d, run.speed_override)
    put_axes(m, d)
    dt = time - run.tick_time
    advance_posture(law.posture, q, dt if dt <= PAUSE else 0.0, run.speed_override)
    away = sub(vector_at(run.wanted_gravity, 0), vector_at(run.gravity, 0))
    far, step = np.sqrt(dot(away, away)), GRAVITY_RATE * max(dt, 0.0)
    is_there = far <= step or dt > PAUSE
    move_towards(run.gravity, run.wanted_gravity, 1.0 if is_there else step / far)
    put_gravity(law, run.gravity)
    if law.replaces:
        old = law.other
        blend.begin_tick(law)
        is_slow = _is_slow(old, counts_unexplained, period) or is_slow
        put_targets(old.m, old.d, run.speed_override)
        put_axes(old.m, old.d)
        if old.posture.address != law.posture.address:
            advance_posture(old.posture, q, dt if dt <= PAUSE else 0.0, run.speed_override)
        put_gravity(old, run.gravity)
        blend.count_weight(law, blend.advance(run, time))
    return is_slow
