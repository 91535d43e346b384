# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Prediction of the joint state while no states arrive, by integration of the forward dynamics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.complementarity import nearest_within
from osc_ros.control.response import Answer, dynamics_at
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

TRUST = 1.0  # longest prediction after the last state [s]
STEP = 0.002  # integration step; longer if one call would need more than MOST_STEPS [s]
MOST_STEPS = 25
REMEMBERED = 24  # last states, with their torques, that estimate the unmodelled torque
SENT = 512  # last torques, with the times at which they were sent
LEAST = 4  # least number of pairs of these states for an estimate
LONGEST_PAIR = 0.05  # longest time between the two states of a pair [s]
NEGLIGIBLE = 0.01  # of the effort limit: a smaller unmodelled torque counts as noise
FRICTION = 0.05  # of the effort limit: a smaller torque along the motion counts as friction
LARGEST = 0.3  # of the effort limit: largest estimate of the unmodelled torque
FASTEST = 2.0  # times the velocity limit: highest predicted speed
# A slower joint counts as at rest when friction is estimated: of its velocity limit, if that is
# less than 1 rad/s (m/s), otherwise in rad/s (m/s).
RESTING = 0.01
STILL = 1e-3  # a lower predicted speed counts as rest [rad/s, m/s]


class Prediction:
    """
    Open-loop state of an arm, predicted from the torques sent since its last state.

    The forward dynamics of the model are integrated by the midpoint method, with dry friction that
    stops joints and keeps them at rest. The unmodelled torque (payload, friction) is estimated
    from the last states as the mean of the torque sent minus the inverse dynamics of the measured
    motion. It is reduced by NEGLIGIBLE of the effort limit, for noise, and assumed constant. If it
    acts along the motion, its first FRICTION of the limit counts as dry friction, which is
    predicted but not compensated: it brings the arm to rest. The friction of a joint at rest is
    not observable: its share of the effort limit is taken to be the median of those of the joints
    that move.

    Attributes
    ----------
    q, qd : (n,)
        Predicted state [rad, m; rad/s, m/s].
    answered : deque of (float, (n,), (n,), (n,))
        Last states, each with its stamp and the torque that was sent in response, oldest first.
    unmodelled : (n,)
        Torque that the joints need in addition to the model's [N·m; N].
    is_over : bool
        Whether the prediction has ended: at rest, TRUST after the last state, or because the
        model returned a number that is not finite. `q` is then constant.

    Parameters
    ----------
    robot : Robot
        Provides the limits.
    inverse_dynamics : callable
        Torque (n,) for q, q̇, q̈ (n,) each.

    """

    def __init__(self, robot: Robot,
                 inverse_dynamics: Callable[[Array, Array, Array], Array]) -> None:
        n = robot.n
        self._inverse_dynamics = inverse_dynamics
        self._lower, self._upper = robot.position_limits.T
        limits = np.asarray(robot.velocity_limits)
        self._fastest, self._resting = FASTEST * limits, RESTING * np.minimum(limits, 1.0)
        self._rest = np.zeros(n)
        # buffers of `nearest_within`
        self._sides, self._chosen = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self._factor, self._impulses = np.zeros((n, n)), np.zeros(n)
        self._sent: deque[tuple[float, Array]] = deque(maxlen=SENT)
        self.forget()
        self._solve(np.eye(n), self._rest, self._rest)  # compiles it now, and not when blind

    def forget(self) -> None:
        """Clear all that is recorded and estimated."""
        self._sent.clear()
        self.answered: deque[Answer] = deque(maxlen=REMEMBERED)
        self.q = self.qd = self.unmodelled = self._friction = self._rest
        self.is_over = True
        self._began = self._now = -math.inf

    def forget_states_after(self, time: float) -> None:
        """Clear the recorded states with a stamp after a time [s]: they were wrong."""
        while self.answered and self.answered[-1][0] > time:
            self.answered.pop()

    def record(self, time: float, q: Array, qd: Array, tau: Array) -> None:
        """Record a state (n,), (n,), its stamp [s], and the torque (n,) sent in response."""
        self.answered.append((time, q, qd, tau))

    def record_torque(self, now: float, tau: Array) -> None:
        """Record a torque (n,) [N·m] that is sent now [s], on the clock of `advance`."""
        self._sent.append((now, tau))

    def begin(self, now: float, q: Array, qd: Array, effort_limits: Array) -> None:
        """
        Start the prediction at the last state.

        Parameters
        ----------
        now : float
            Arrival time of that state, on the clock of `advance` [s].
        q, qd : (n,)
        effort_limits : (n,)
            Limits of the joints [N·m]; if infinite, the joint's unmodelled torque is 0.

        """
        self.q, self.qd, self._began, self._now = q.copy(), qd.copy(), now, now
        self.is_over, self._friction = False, self._rest
        try:
            self._estimate(effort_limits)
        except Exception:  # raised by the model at an absurd state
            self.unmodelled = self._friction = self._rest
        self.answered.clear()

    def _estimate(self, limits: Array) -> None:
        """Estimate the unmodelled torque; with too few states, keep the last estimate."""
        total, duration, count = self._rest, 0.0, 0
        states = list(self.answered)
        for (time, q, qd, tau), (after, q_after, qd_after, _) in zip(states, states[1:]):
            dt = after - time
            if 0.0 < dt <= LONGEST_PAIR:
                tau_model = self._inverse_dynamics(
                    0.5 * (q + q_after), 0.5 * (qd + qd_after), (qd_after - qd) / dt)
                total = total + dt * (tau - tau_model)
                duration, count = duration + dt, count + 1
        if count < LEAST:
            return
        bounds = np.where(np.isfinite(limits), limits, 0.0)
        mean = np.where(bounds > 0.0, total / duration, 0.0)
        if not np.isfinite(mean).all():
            self.unmodelled = self._rest
            return
        moves = np.abs(self.qd) > self._resting
        rubs = moves & (mean * self.qd > 0.0)
        rubbing = np.where(rubs, np.minimum(np.abs(mean), FRICTION * bounds), 0.0)
        known = moves & (bounds > 0.0)
        share = np.median(rubbing[known] / bounds[known]) if known.any() else 0.0
        self._friction = np.where(moves, rubbing, share * bounds)
        least = np.where(rubs, FRICTION, NEGLIGIBLE) * bounds
        size = np.clip(np.abs(mean) - least, 0.0, LARGEST * bounds)
        self.unmodelled = np.sign(mean) * size

    def advance(self, now: float) -> None:
        """Predict the state at time now [s], from the torques recorded as sent until then."""
        before, self._now = self._now, now
        if self.is_over or not now > before:
            return
        before = max(before, now - TRUST)
        count = min(max(1, math.ceil((now - before) / STEP - 1e-6)), MOST_STEPS)
        times = np.linspace(before, now, count + 1)
        try:
            for tau in self._mean_torques(times):
                self._step((now - before) / count, tau - self.unmodelled)
        except Exception:  # LinAlgError, an absurd state
            self.is_over = True
        if now - self._began >= TRUST or not (np.abs(self.qd) > STILL).any():
            self.is_over = True
        if self.is_over:
            self.qd = self._rest

    def _mean_torques(self, times: Array) -> Array:
        """Mean (m, n) of the torques sent, between each of several times (m+1,) and the next."""
        if not self._sent:
            return np.zeros((len(times) - 1, len(self._rest)))
        if self._sent[-1][0] <= times[0]:
            return np.repeat(self._sent[-1][1][None], len(times) - 1, axis=0)
        at = np.array([time for time, _ in self._sent])
        tau = np.array([torque for _, torque in self._sent])
        total = np.zeros_like(tau)  # integral from the first time to each
        np.cumsum(tau[:-1] * np.diff(at)[:, None], axis=0, out=total[1:])
        k = np.maximum(np.searchsorted(at, times, 'right') - 1, 0)
        totals = total[k] + tau[k] * (times - at[k])[:, None]
        return np.asarray(np.diff(totals, axis=0) / np.diff(times)[:, None])

    def _step(self, dt: float, tau: Array) -> None:
        half = self._velocity_after(0.5 * dt, self.q, self.qd, tau)
        qd = self._velocity_after(dt, self.q + 0.5 * dt * self.qd, half, tau)
        q, qd = self.q + dt * half, np.clip(qd, -self._fastest, self._fastest)
        if not (np.isfinite(q).all() and np.isfinite(qd).all()):
            raise ArithmeticError
        # a joint at its position limit is stopped by its end stop
        self.q = np.clip(q, np.minimum(self._lower, self.q), np.maximum(self._upper, self.q))
        self.qd = np.where(self.q == q, qd, 0.0)

    def _velocity_after(self, dt: float, q: Array, qd: Array, tau: Array) -> Array:
        """
        Velocities (n,) dt [s] after `self.qd`, with M, C and G as they are at q, qd (n,).

        Dry friction stops a joint, and keeps it at rest as long as it is large enough. Its
        impulses p, at most friction · dt, and the velocities q̇ satisfy
        M q̇ = M q̇_before + (τ - C - G) dt + p, with p opposite to q̇, and smaller only where q̇ = 0:
        a linear complementarity problem (Moreau, "Unilateral contact and dry friction in finite
        freedom dynamics", 1988).

        """
        M, h = dynamics_at(self._inverse_dynamics, q, qd)
        return self._solve(M, M @ self.qd + dt * (tau - h), dt * self._friction)

    def _solve(self, M: Array, momentum: Array, most: Array) -> Array:
        """Velocities (n,): M q̇ = momentum + p, with impulses p of friction, at most `most`."""
        qd = np.zeros(len(most))
        if not nearest_within(M, -momentum, -most, most, self._sides, self._chosen, self._factor,
                              qd, self._impulses):
            raise ArithmeticError
        return qd
