# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The momentum observer: torques of external forces on the joints, and the wrench that they show.

With the momentum p = M q̇, the model's rate β = Cᵀq̇ - g of it, the motor torque τ and the bandwidth
K, the residual r of De Luca and Mattone is

    r = K (p - p(0) - ∫(τ + β + r) dt),    so that ṙ = K (τ_ext - r):

the external torque behind a first-order filter; neither q̈ nor M⁻¹ is needed. Sources: De Luca and
Mattone, "Actuator failure detection and isolation using generalized momenta", ICRA 2003, and
"Sensorless robot collision detection and hybrid force/motion control", ICRA 2005; Haddadin, De
Luca and Albu-Schäffer, "Robot collisions: a survey on detection, isolation, and identification",
IEEE Trans. Robotics 33 (2017).

The discrete form needs no integral. Between two states, dt apart, the mean external torque is

    m = (p₁ - p₀)/dt - τ - (β₀ + β₁)/2,    r ← r + (1 - exp(-K dt)) (m - r).

This is the exact solution for a constant external torque, for any sequence of time steps. At rest
m has no discretization error; in motion its error is of second order in dt. The delay is the time
constant 1/K. White noise of q̇ with the standard deviation σ gives r a standard deviation of about
K σ ‖rows of M‖.

Friction that the model has is subtracted: f_c tanh(q̇/v_s) + f_v q̇. The dry friction of a joint at
rest is unknown, and is part of the estimate, up to f_c.
"""

from __future__ import annotations

import numpy as np

from osc_ros.control.record import Slot, Table
from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.dynamics.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.spatial import all_finite
from osc_ros.dynamics.trees.layout import constants_in
from osc_ros.dynamics.trees.momentum import put_link_jacobian, put_momentum, WORK_WIDTH
from osc_ros.dynamics.vectors import assign
from osc_ros.dynamics.wrench_fit import put_wrench

LONGEST_STEP = 0.1  # longest time between two states over which a torque counts as constant [s]

PLAN = Table(
    'ObserverPlan',
    Slot('bandwidth', (1,), 'rad/s', 'bandwidth K of the estimate'),
    Slot('uses_efforts', (1,), '', '1 if measured efforts count'),
    Slot('adds_driver', (1,), '', '1 if measured efforts lack the torques of the driver'),
    Slot('length', (1,), 'm', 'characteristic length of the fit of the wrench'),
    Slot('low', (1,), '', 'threshold of the singular values of the fit'),
    Slot('weights', ('n',), '1, m²', 'weights of the squared errors of the fit'),
    Slot('coulomb', ('n',), 'N·m, N', 'Coulomb friction of the model'),
    Slot('viscous', ('n',), 'N·m·s/rad, N·s/m', 'viscous friction of the model'),
    Slot('velocity', (1,), 'rad/s, m/s', 'width of the transition of the Coulomb friction'),
    Slot('bounds', ('n',), 'N·m, N', 'largest estimates'))

STATE = Table(
    'ObserverState',
    Slot('time', (1,), 's', 'time of the last state'),
    Slot('is_known', (1,), '', '1 if momentum and rate are those of the last state'),
    Slot('momentum', ('n',), 'kg·m²/s, kg·m/s', 'momentum at the last state'),
    Slot('rate', ('n',), 'N·m, N', 'rate of this momentum by the model'),
    Slot('has_driver', (1,), '', '1 if the next slot is valid'),
    Slot('driver', ('n',), 'N·m, N', 'torques of the driver at the last state'),
    Slot('missing', (1,), '', 'share of the estimate that is missing since the start'),
    Slot('torque', ('n',), 'N·m, N', 'estimated torques of external forces'),
    Slot('friction', ('n',), 'N·m, N', 'part of `torque` due to the friction of the model'))

RESULT = Table(
    'ObserverResult',
    Slot('wrench', (6,), 'N·m, N', 'wrench on the link, base axes, [moment; force]'),
    Slot('residual', ('n',), 'N·m, N', 'torques that the wrench does not explain'),
    Slot('quality', (1,), '', 'how far to trust the wrench, 0 to 1'),
    Slot('columns', ('n', 6), '1, m', "columns of the link's Jacobian, base axes"),
    Slot('momentum', ('n',), 'kg·m²/s, kg·m/s', 'momentum at this state'),
    Slot('rate', ('n',), 'N·m, N', 'rate of this momentum by the model'),
    Slot('friction', ('n',), 'N·m, N', 'friction of the model'),
    Slot('driver', ('n',), 'N·m, N', 'mean torques of the driver since the last state'),
    Slot('work', ('n', WORK_WIDTH), '', 'memory of the pass over the bodies'))

plan_views, state_views, result_views = (table.views for table in (PLAN, STATE, RESULT))


@inlined
def share(bandwidth, dt):
    """Share of a difference that a low-pass filter makes up in dt [s]."""
    return -np.expm1(-bandwidth * dt)


@inlined
def low_pass(value, target, made_up):
    """Return the value of a low-pass filter that makes up a share of its distance to a target."""
    return value + made_up * (target - value)


@inlined
def _put_driver(state, result, driver):
    """Put the mean torques of the driver since the last state."""
    for k in range(len(driver)):
        last = state.driver[k] if state.has_driver[0] > 0.0 else driver[k]
        state.driver[k], result.driver[k] = driver[k], 0.5 * (last + driver[k])
    state.has_driver[0] = 1.0 if len(driver) > 0 else 0.0


@inlined
def _put_model(robot, plan, result, q, qd):
    """Write momentum, its rate and the Jacobian at a state; return whether all are finite."""
    put_momentum(robot, q, qd, result.work, result.momentum, result.rate)
    for k in range(len(qd)):
        result.friction[k] = plan.viscous[k] * qd[k]
        if plan.coulomb[k] > 0.0:
            result.friction[k] += plan.coulomb[k] * np.tanh(qd[k] / plan.velocity[0])
        result.rate[k] -= result.friction[k]
    put_link_jacobian(robot, result.work, result.columns)
    return all_finite(result.momentum) and all_finite(result.rate)


@inlined
def _acting(plan, result, tau, effort, k):
    """Torque of a motor since the last state: measured or commanded; NaN if unknown."""
    measured = effort[k] + (result.driver[k] if plan.adds_driver[0] > 0.0 else 0.0)
    if plan.uses_efforts[0] > 0.0 and np.isfinite(measured):
        return measured
    return tau[k] + result.driver[k]


@inlined
def _advance(plan, state, result, dt, tau, effort):
    """Advance the estimate by dt, if the torques that acted are known."""
    for k in range(len(tau)):
        if not np.isfinite(_acting(plan, result, tau, effort, k)):
            return
    made_up = share(plan.bandwidth[0], dt)
    for k in range(len(tau)):
        mean = ((result.momentum[k] - state.momentum[k]) / dt
                - _acting(plan, result, tau, effort, k) - 0.5 * (result.rate[k] + state.rate[k]))
        torque = low_pass(state.torque[k], mean, made_up)
        if np.isfinite(torque):  # else dt is almost zero
            state.torque[k] = min(max(torque, -plan.bounds[k]), plan.bounds[k])
        state.friction[k] = low_pass(state.friction[k], result.friction[k], made_up)
    state.missing[0] *= np.exp(-plan.bandwidth[0] * dt)


@inlined
def _estimate(robot, plan, state, result, time, q, qd, tau, effort):
    """Advance the estimate to a state, and fit the wrench; return DONE or NOT_FINITE."""
    dt = time - state.time[0]
    if -LONGEST_STEP <= dt <= 0.0:
        return DONE  # repeated, or too late
    if not (_put_model(robot, plan, result, q, qd) and np.isfinite(time)):
        state.is_known[0] = 0.0
        return NOT_FINITE
    if dt < -LONGEST_STEP:  # the clock has been set back
        state.missing[0] = 1.0
        state.torque[:] = 0.0
        state.friction[:] = 0.0
    elif state.is_known[0] > 0.0 and dt <= LONGEST_STEP:
        _advance(plan, state, result, dt, tau, effort)
    assign(state.momentum, result.momentum)
    assign(state.rate, result.rate)
    state.time[0], state.is_known[0] = time, 1.0
    result.quality[0] = (1.0 - state.missing[0]) * put_wrench(
        result.columns, plan.weights, state.torque, plan.length[0], plan.low[0], result.wrench,
        result.residual)
    return DONE


@kernel
def observe(integers, numbers, plan, state, result, time, q, qd, tau, effort, driver):
    """
    Advance the estimate to a joint state; see `MomentumObserver.update`.

    Parameters
    ----------
    integers, numbers : flat arrays
        The robot, see `osc_ros.dynamics.trees.layout`.
    plan, state, result : flat arrays
        Records of PLAN, STATE and RESULT.
    time : float [s]
    q, qd : (nq,), (n,)
    tau, effort : (n,), (n,) [N·m, N]
        Commanded and measured torques; an effort that is not finite is unknown.
    driver : (n,) or (0,) [N·m, N]
        Torques that the driver adds to the commanded ones; empty without a driver.

    Returns
    -------
    DONE; WRONG_SHAPE, before anything is computed; NOT_FINITE: the state is not used

    """
    robot = constants_in(integers, numbers)
    b, n = len(robot.tree), len(robot.rotors)
    if (len(q) != b + 3 * (n - b) // 2 or not len(qd) == len(tau) == len(effort) == n
            or len(driver) > 0 and len(driver) != n):
        return WRONG_SHAPE
    at, found = state_views(state, n), result_views(result, n)
    _put_driver(at, found, driver)
    return _estimate(robot, plan_views(plan, n), at, found, time, q, qd, tau, effort)
