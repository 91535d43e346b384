# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""Prediction of the joint state while no states arrive, by integration of the forward dynamics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

TRUST = 1.0  # longest prediction after the last state [s]
STEP = 0.002  # integration step; longer if one call would need more than MOST_STEPS [s]
MOST_STEPS = 25
REMEMBERED = 24  # last states, with their torques, that estimate the unmodelled torque
LEAST = 4  # least number of pairs of these states for an estimate
LONGEST_PAIR = 0.05  # longest time between the two states of a pair [s]
NEGLIGIBLE = 0.01  # of the effort limit: a smaller unmodelled torque counts as noise
FRICTION = 0.05  # of the effort limit: a smaller torque along the motion counts as friction
LARGEST = 0.3  # of the effort limit: largest estimate of the unmodelled torque
FASTEST = 2.0  # times the velocity limit: highest predicted speed
STILL = 1e-3  # a lower predicted speed counts as rest [rad/s, m/s]


class Prediction:
    """
    Open-loop state of an arm, predicted from the torques sent since its last state.

    The forward dynamics of the model are integrated by the midpoint method. The unmodelled torque
    (payload, friction) is estimated from the last states as the mean of the torque sent minus the
    inverse dynamics of the measured motion. It is reduced by NEGLIGIBLE of the effort limit, for
    noise, and assumed constant. If it acts along the motion, its first FRICTION of the limit
    counts as dry friction, which is predicted but not compensated: it brings the arm to rest.

    Attributes
    ----------
    q, qd : (n,)
        Predicted state [rad, m; rad/s, m/s].
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
        self._inverse_dynamics = inverse_dynamics
        self._lower, self._upper = robot.position_limits.T
        self._fastest = FASTEST * np.asarray(robot.velocity_limits)
        self._eye, self._rest = np.eye(robot.n), np.zeros(robot.n)
        self.forget()

    def forget(self) -> None:
        """Clear the recorded states and the estimated torques."""
        self._answered: deque[tuple[float, Array, Array, Array]] = deque(maxlen=REMEMBERED)
        self.q = self.qd = self.unmodelled = self._friction = self._rest
        self.is_over = True
        self._began = self._now = -math.inf

    def record(self, time: float, q: Array, qd: Array, tau: Array) -> None:
        """Record a state (n,), (n,), its stamp [s], and the torque (n,) sent in response."""
        self._answered.append((time, q, qd, tau))

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
        self._answered.clear()

    def _estimate(self, limits: Array) -> None:
        """Estimate the unmodelled torque; with too few states, keep the last estimate."""
        total, duration, count = self._rest, 0.0, 0
        states = list(self._answered)
        for (time, q, qd, tau), (after, q_after, qd_after, _) in zip(states, states[1:]):
            dt = after - time
            if 0.0 < dt <= LONGEST_PAIR:
                tau_model = self._inverse_dynamics(
                    0.5 * (q + q_after), 0.5 * (qd + qd_after), (qd_after - qd) / dt)
                total = total + dt * (tau - tau_model)
                duration, count = duration + dt, count + 1
        if count >= LEAST:
            mean = np.where(np.isfinite(limits), total / duration, 0.0)
            bounds = np.where(np.isfinite(limits), limits, 0.0)
            rubs = mean * self.qd > 0.0
            least = np.where(rubs, FRICTION, NEGLIGIBLE) * bounds
            self._friction = np.where(rubs, np.minimum(np.abs(mean), least), 0.0)
            size = np.clip(np.abs(mean) - least, 0.0, LARGEST * bounds)
            self.unmodelled = np.sign(mean) * size if np.isfinite(mean).all() else self._rest

    def advance(self, now: float, tau: Array) -> None:
        """Predict the state at time now [s], with the torque tau (n,) applied until then."""
        elapsed, self._now = now - self._now, now
        if self.is_over or not elapsed > 0.0:
            return
        elapsed = min(elapsed, TRUST)
        count = min(max(1, math.ceil(elapsed / STEP - 1e-6)), MOST_STEPS)
        dt = elapsed / count
        try:
            for _ in range(count):
                self._step(dt, tau - self.unmodelled)
        except Exception:  # LinAlgError, an absurd state
            self.is_over = True
        if now - self._began >= TRUST or not (np.abs(self.qd) > STILL).any():
            self.is_over = True
        if self.is_over:
            self.qd = self._rest

    def _step(self, dt: float, tau: Array) -> None:
        half = self.qd + 0.5 * dt * self._acceleration(self.q, self.qd, tau)
        qdd = self._acceleration(self.q + 0.5 * dt * self.qd, half, tau)
        q = self.q + dt * half
        qd = np.clip(self.qd + dt * qdd, -self._fastest, self._fastest)
        if not (np.isfinite(q).all() and np.isfinite(qd).all()):
            raise ArithmeticError
        # a joint at its position limit is stopped by its end stop
        self.q = np.clip(q, np.minimum(self._lower, self.q), np.maximum(self._upper, self.q))
        # friction stops a joint but does not reverse it
        turns = (self._friction > 0.0) & (qd * self.qd < 0.0)
        self.qd = np.where((self.q == q) & ~turns, qd, 0.0)

    def _acceleration(self, q: Array, qd: Array, tau: Array) -> Array:
        """Joint accelerations (n,); M is built column by column from the inverse dynamics."""
        h = self._inverse_dynamics(q, qd, self._rest)
        weight = self._inverse_dynamics(q, self._rest, self._rest)
        M = np.array([self._inverse_dynamics(q, self._rest, one) for one in self._eye]) - weight
        return np.asarray(np.linalg.solve(M, tau - self._friction * np.sign(qd) - h),
                          dtype=np.float64)
