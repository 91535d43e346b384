# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques that stop an arm, hold it, or compensate its gravity, independently of the law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.angles import ShortWay
from osc_ros.control.response import dynamics_at
from osc_ros.control.retreat import Retreat
from osc_ros.control.supervision import Supervision
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

BLIND_RATE = 10.0  # least braking rate of 'brake', to stop within TRUST of the prediction [1/s]
TOO_FAST = 1.3, 1.6  # shares of the speed limit between which braking gets harder
EXACT = 0.3  # least share of the wanted braking at which the motion keeps its direction


class Stopping:
    """
    Computes torques that stop an arm, by the inverse dynamics.

    Attributes
    ----------
    anchor : (n,)
        Position that 'hold', 'comply' and 'retract' converge to.
    retreat : Retreat
        The way that the arm came, for 'retract'.

    Parameters
    ----------
    robot : Robot
        Provides the position limits.
    inverse_dynamics : callable
        Torque (n,) for q, q̇, q̈ (n,) each.

    """

    def __init__(self, robot: Robot, inverse_dynamics: Callable[[Array, Array, Array], Array]
                 ) -> None:
        self._inverse_dynamics = inverse_dynamics
        self._lower, self._upper = robot.position_limits.T
        self._fastest = np.asarray(robot.velocity_limits)
        self._short_way = ShortWay(robot)
        self._rest = np.zeros(robot.n)
        self.anchor: Array = self._rest
        self.retreat = Retreat()

    def begin(self, source: str, q: Array, qd: Array, settings: Supervision) -> None:
        """Set the anchor for a source of torques that begins at a state q, qd (n,)."""
        if source == 'hold':  # where the arm stops
            self.anchor = np.clip(q + qd / settings.stop_rate, self._lower, self._upper)
        elif source in ('comply', 'retract'):
            self.anchor = q
            self.retreat.begin(q, settings.retreat)

    def move_anchor(self, dt: float, settings: Supervision) -> None:
        """Move the anchor of 'retract' by a time dt [s]."""
        self.anchor = np.clip(self.retreat.advance(dt * settings.retreat_speed), self._lower,
                              self._upper)

    def torque(self, source: str, q: Array, qd: Array, settings: Supervision, limits: Array,
               unmodelled: Array) -> Array:
        """
        Torques (n,) [N·m].

        Parameters
        ----------
        source : str
            'zero': none. 'gravity', 'weight': compensate gravity; 'gravity' also damps joints
            that are faster than their limits. 'damp', 'brake': brake the
            speed with the stop rate, or for 'brake' at least BLIND_RATE. 'hold', 'retract': move
            to the anchor and hold it. 'comply': brake, and move to the anchor slowly.
        q, qd : (n,)
        settings : Supervision
        limits : (n,)
            Effort limits in force [N·m]; may be infinite.
        unmodelled : (n,)
            Torque that the joints need in addition to the model's [N·m].
        """
        rest = self._rest
        if source == 'zero':
            return rest.copy()
        if source in ('gravity', 'weight'):
            # damping of joints beyond their speed limit only
            beyond = qd - np.clip(qd, -self._fastest, self._fastest)
            braking = -settings.hardest * beyond if source == 'gravity' else rest
            return self._inverse_dynamics(q, rest, braking) + unmodelled
        rate = settings.stop_rate
        if source == 'brake':
            rate = max(rate, BLIND_RATE)
        if source in ('hold', 'retract'):
            # with the anchor at q + q̇/ω this is q̈ = -ω q̇: an exponential, without overshoot
            qdd = rate * (rate * self._short_way.of(self.anchor - q) - 2.0 * qd)
        elif source == 'comply':
            qdd = settings.comply_frequency**2 * self._short_way.of(self.anchor - q) - rate * qd
        else:
            qdd = -rate * qd
        qdd -= self._extra_rate(q, qd, settings) * qd
        tau = self._inverse_dynamics(q, qd, qdd) + unmodelled
        if (np.abs(tau) > limits).any():
            tau, share = self._within(q, qd, tau, limits, unmodelled, settings.hardest)
            if share < EXACT and source == 'hold':  # the arm stops elsewhere
                self.begin(source, q, qd, settings)
        return tau

    def _within(self, q: Array, qd: Array, tau: Array, limits: Array, unmodelled: Array,
                rate: float) -> tuple[Array, float]:
        """
        Torques (n,) within limits (n,) that brake, and the share of the wanted braking.

        The change of the motion that tau (n,) causes is reduced by one factor for all joints, the
        share, so that the kinetic energy falls. If the share of a joint that is faster than its
        speed limit is below EXACT, since Coriolis torques take up the torque limits, each joint is
        braked by itself more and more, with a rate [1/s]: such torques take energy from the arm at
        any speed, as long as the limits carry its weight.

        """
        h = self._inverse_dynamics(q, qd, self._rest) + unmodelled
        room = np.where(tau > h, limits - h, limits + h)
        moving = (tau != h) & (room > 0.0)
        share = min(1.0, float(np.min(room[moving] / np.abs(tau - h)[moving], initial=1.0)))
        tau = h + share * (tau - h)
        if not (np.abs(qd) > self._fastest).any():
            return tau, 1.0
        if (np.abs(h) > limits).any():
            share = 0.0
        if share < EXACT:
            M, _ = dynamics_at(self._inverse_dynamics, q, qd)
            weight = self._inverse_dynamics(q, self._rest, self._rest) + unmodelled
            alone = (weight - rate * qd / np.diag(np.linalg.inv(M))).clip(-limits, limits)
            tau = alone + share / EXACT * (tau - alone)
        return tau, share

    def _extra_rate(self, q: Array, qd: Array, settings: Supervision) -> Array:
        """
        Damping rate (n,) beyond the stop rate [1/s].

        It stops a joint before its position limit, and is the hardest for a joint that is far
        beyond its speed limit, see TOO_FAST.

        """
        speed = np.abs(qd)
        room = np.where(qd > 0.0, self._upper - q, q - self._lower)
        # a constant deceleration of q̇²/(2 room) stops at the limit
        needed = speed / np.maximum(2.0 * room, speed / settings.hardest + 1e-12)
        beyond = np.clip((speed / self._fastest - TOO_FAST[0]) / (TOO_FAST[1] - TOO_FAST[0]),
                         0.0, 1.0)
        needed = np.maximum(needed, beyond * settings.hardest)
        return np.asarray(np.clip(needed - settings.stop_rate, 0.0, None))
