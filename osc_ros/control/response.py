# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""How the joints respond to the torques that are sent: what else drives them, and disobedience."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bounds import reckoning
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Answer = tuple[float, Array, Array, Array]  # stamp [s], q, qd, torque sent

BRISK = 0.5  # of the speed limit: no joint is examined while all are slower
LAGS = 4  # largest delay of the torques that is considered [periods]
LONGEST_PAIR = 0.02  # longest time between two states that are compared [s]
MIRRORED, TOLERANCE = 5, 0.25  # last torques that are opposite, and how nearly
LARGE = 0.005  # of the effort limit: least of the largest of them
HIT, HITTING = 0.1, 5  # change of an external torque, of the limit; states that it is not resisted
EXAMINED = 4.0  # no external torque is resisted while a joint is faster, relative to its limit
EXTERNAL = 2  # last states of which external torques are averaged


def dynamics_at(inverse_dynamics: Callable[[Array, Array, Array], Array], q: Array, qd: Array
                ) -> tuple[Array, Array]:
    """Return the inertia matrix (n, n) and the bias torques C + G (n,) at a state."""
    rest = np.zeros_like(qd)
    weight = inverse_dynamics(q, rest, rest)
    M = np.array([inverse_dynamics(q, rest, one) for one in np.eye(len(qd))]) - weight
    return M, inverse_dynamics(q, qd, rest)


class Response:
    """
    Compares the torques that were sent with those that move the arm.

    The latter are the inverse dynamics of the measured motion. Both are the same for a right model
    without friction and external forces. If the acting torques of a joint are the opposite of
    those sent, while these change, the joint does not obey: its motor turns the other way, or
    takes the torques of another joint.

    Attributes
    ----------
    disobedient : str
        The joint that does not obey, and the evidence; empty if all do.

    Parameters
    ----------
    robot : Robot
        Provides names and limits.
    inverse_dynamics : callable
        Torque (n,) for q, q̇, q̈ (n,) each.

    """

    def __init__(self, robot: Robot,
                 inverse_dynamics: Callable[[Array, Array, Array], Array]) -> None:
        self._names, self._inverse_dynamics = robot.joint_names, inverse_dynamics
        self._fastest = np.array(robot.velocity_limits)
        self._rest = np.zeros(robot.n)
        reckoning(0.0, 1.0)  # compiles it now
        self.forget()

    def forget(self) -> None:
        """Forget all states."""
        self._pairs: deque[tuple[Array, Array]] = deque(maxlen=MIRRORED + LAGS)  # sent, acting
        self._last, self.disobedient = -math.inf, ''
        self._hit = 0  # states for which external torques are not resisted

    @property
    def is_hit(self) -> bool:
        """Whether something hits the arm, or did so within the last states."""
        return self._hit > 0

    def is_brisk(self, qd: Array) -> bool:
        """Whether a joint with velocities qd (n,) is fast enough to be examined."""
        return bool((np.abs(qd) > BRISK * self._fastest).any())

    def examine(self, answers: Iterable[Answer], limits: Array) -> None:
        """
        Compare the states and torques that came after the last call; see `disobedient`.

        Parameters
        ----------
        answers : iterable of (float, (n,), (n,), (n,))
            Stamp, q, q̇ and the torque that was sent in response, oldest first.
        limits : (n,)
            Effort limits [N·m]; a joint without a limit is not examined.

        """
        answers = list(answers)
        for (time, q, qd, tau), (after, q_after, qd_after, _) in zip(answers, answers[1:]):
            if after <= self._last:
                continue
            self._last = after
            if not 0.0 < after - time <= LONGEST_PAIR:
                self._pairs.clear()
                continue
            acting = self._inverse_dynamics(0.5 * (q + q_after), 0.5 * (qd + qd_after),
                                            (qd_after - qd) / (after - time))
            if not np.isfinite(acting).all():
                self._pairs.clear()
                continue
            before = self._pairs[-1] if self._pairs else (tau, acting)
            is_hit = np.abs(acting - tau - before[1] + before[0]) > HIT * limits
            self._hit = HITTING if is_hit.any() else max(0, self._hit - 1)
            self._pairs.append((tau, acting))
            if (np.abs(qd_after) > self._fastest).any():
                self.disobedient = self._mirrored_joint(limits)

    def _mirrored_joint(self, limits: Array) -> str:
        """Explain which joint's last acting torques are the opposite of those sent, or ''."""
        lags = min(LAGS, len(self._pairs) - MIRRORED)
        if lags < 0:
            return ''
        sent, acting = (np.array(x) for x in zip(*self._pairs))
        acting = acting[-MIRRORED:]
        like, unlike = (np.array([
            (np.abs(acting - sign * part) < TOLERANCE * np.abs(part)).all(axis=0)
            for part in (sent[len(sent) - MIRRORED - lag:len(sent) - lag]
                         for lag in range(lags + 1))]).any(axis=0) for sign in (1.0, -1.0))
        now = sent[-MIRRORED:]
        varies = np.ptp(now, axis=0) > TOLERANCE * np.abs(now).max(axis=0)
        large = np.abs(now).max(axis=0) > LARGE * limits
        found = np.flatnonzero(unlike & ~like & varies & large)
        return f"'{self._names[found[0]]}' moves against its torques" if len(found) else ''

    def kinetic_energy(self, q: Array, qd: Array) -> float:
        """Kinetic energy of the model at a state (n,), (n,) [J]."""
        momentum = (self._inverse_dynamics(q, self._rest, qd)
                    - self._inverse_dynamics(q, self._rest, self._rest))
        return float(0.5 * qd @ momentum)

    def resistance(self, q: Array, qd: Array) -> Array:
        """
        Torques (n,) against external torques that drive a joint beyond its speed limit.

        They are zero while all joints are slow; after a hit, because a hit on a hard wall is over
        before torques can answer it; and beyond EXAMINED, where the estimate is useless. The
        external torques of all joints are cancelled together: to cancel the acceleration of one
        joint alone would need large torques of the others.

        """
        if not self._pairs or self._hit or (np.abs(qd) > EXAMINED * self._fastest).any():
            return self._rest
        recent = list(self._pairs)[-EXTERNAL:]
        external = sum(acting - sent for sent, acting in recent) / len(recent)
        M, _ = dynamics_at(self._inverse_dynamics, q, qd)
        is_driven = np.linalg.solve(M, external) * qd > 0.0
        share = max(map(reckoning, np.abs(qd)[is_driven], self._fastest[is_driven]), default=0.0)
        return np.asarray(-share * external)
