# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Excitation trajectories: Fourier series of the joints, optimized within limits.

Every joint follows q(t) = q₀ + Σ a_k (cos kωt - 1) + b_k sin kωt with ω = 2π/duration and Σ k b_k
= Σ k² a_k = 0, so that the motion starts and ends at q₀ with zero velocity and acceleration
(Swevers et al., "Optimal robot excitation and identification", IEEE Trans. Robotics and Automation
13 (1997)). A random search improves the coefficients; it scales each candidate to the limits, so
that the arm can execute every candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.errors import InputError
from osc_ros.identification.fit.base import BaseParameters
from osc_ros.identification.fit.inertial import inertial_parameters, SIZE, transformed
from osc_ros.identification.fit.regressor import link_positions, regressor_of, Sweep, sweep
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

HARMONICS = 5
SPARE = 0.12  # share of a joint's range that stays free at both ends
CHECKED = 80  # samples of a candidate for the check of the limits
LEAST_AMPLITUDE = 0.4  # smallest amplitude of a joint, relative to that within its limits
SHRINK, SMALLEST = 0.8, 0.05  # factor of a candidate beyond the limits; smallest total factor
STARTS, STEPS = 60, 800  # random candidates, and improvements of the best one
# Expected sizes of a body's parameters: mass, first moments, inertias [kg, kg m, kg m²].
SIZES = np.array([1.0, *[0.1] * 3, *[0.01] * 6])
DRY = 0.05  # expected friction, as a share of the effort limit
PAYLOAD, ARM = 'payload', 'arm'


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Limits of an excitation trajectory."""

    lower: Array  # (n,) joint positions [rad, m]
    upper: Array  # (n,) [rad, m]
    velocity: Array  # (n,) [rad/s]
    acceleration: Array  # (n,) [rad/s²]
    torque: Array  # (n,) of the model, with gravity [N m]
    box: Array  # (2, 3) corners of the box in which the tips stay, base frame [m]

    @classmethod
    def of(cls, robot: Robot, q: Array, share: float, excursion: float, box: Array
           ) -> MotionLimits:
        """Return limits, with a share, 0 to 0.9, of the robot's velocity and effort limits."""
        # `q` (n,): start and end of the trajectory [rad, m]; `excursion`: largest distance of a
        # joint from it [rad, m]. InputError if `share`, `excursion` or `box` is out of range, or q
        # is too close to a joint limit.
        if not 0.0 < share <= 0.9:
            raise InputError(f'share {share}: must be more than 0, at most 0.9')
        if not 0.0 < excursion <= 3.2:
            raise InputError(f'excursion {excursion}: must be more than 0, at most 3.2 rad')
        box = finite_array('box', box, (2, 3))
        lower, upper = robot.position_limits.T
        spare = np.where(np.isfinite(upper - lower), SPARE * (upper - lower), 0.0)
        velocity = np.minimum(share * robot.velocity_limits, 2.0)
        found = cls(np.maximum(q - excursion, lower + spare),
                    np.minimum(q + excursion, upper - spare), velocity, 5.0 * velocity,
                    share * robot.effort_limits, box)
        for i in np.flatnonzero((q < found.lower) | (q > found.upper)).tolist():
            raise InputError(f"joint '{robot.joint_names[i]}' is at {q[i]:.3f}, within 12 % of "
                             f'its range of a limit ({lower[i]:g} to {upper[i]:g}): give a '
                             'start farther inside')
        return found


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A periodic motion of the joints."""

    start: Array  # (n,) position at the start and the end [rad, m]
    cosine: Array  # (n, h) coefficients of the harmonics [rad, m]
    sine: Array  # (n, h) [rad, m]
    duration: float  # [s]
    condition: float = np.inf  # condition number of the scaled regressor

    def at(self, time: float | Array) -> tuple[Array, Array, Array]:
        """Return positions, velocities, accelerations (k, n) at times (k,) [s]."""
        # At times outside of the trajectory the joints are at rest.
        t = np.clip(np.atleast_1d(time), 0.0, self.duration)
        rate = 2.0 * np.pi / self.duration * np.arange(1, self.cosine.shape[1] + 1)
        c, s = np.cos(np.outer(t, rate)), np.sin(np.outer(t, rate))
        a, b = self.cosine.T, self.sine.T
        rates = rate[:, None]
        return (self.start + (c - 1.0) @ a + s @ b, c @ (rates * b) - s @ (rates * a),
                -c @ (rates ** 2 * a) - s @ (rates ** 2 * b))


@dataclass(frozen=True, eq=False)
class Extent:
    """Extremes of a trajectory."""

    lower: Array  # (n,) joint positions [rad, m]
    upper: Array  # (n,) [rad, m]
    speed: Array  # (n,) largest [rad/s, m/s]
    torque: Array  # (n,) largest of the model, as a share of the effort limit
    box: Array  # (2, 3) bounding box of the tips' paths [m]
    bodies: Array  # (2, 3) bounding box of the paths of the tips and of all body origins [m]
    tip_speed: float  # [m/s]


class Planner:
    """Finds excitation trajectories that start and end at q (n,) [rad, m]."""

    # `wanted`: the parameters to identify, 'payload' or 'arm'; `link` carries the payload,
    # default: the first tip. InputError if, at q, the weight exceeds the torque limits, or a tip
    # is outside of its box.

    def __init__(self, robot: Robot, q: Array, limits: MotionLimits, wanted: str = PAYLOAD,
                 link: str | None = None) -> None:
        self.robot, self.limits, self._q = robot, limits, finite_array('q', q, (robot.n,))
        self._parameters = inertial_parameters(robot.inertia).ravel()
        body, T = robot.frames[link or robot.tip]
        self._body = slice(SIZE * body, SIZE * (body + 1))
        self._to_body = np.column_stack([transformed(unit, T) for unit in np.eye(SIZE)])
        self._base = BaseParameters.of(robot) if wanted == ARM else None
        effort = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, 100.0)
        self._row, self._dry = 1.0 / (0.01 * effort), DRY * effort
        self._basis = _basis()
        rest = np.zeros((2, robot.n))
        self._require_start(rest)

    def _require_start(self, rest: Array) -> None:
        motion, torque, _ = self._motion(*np.stack([self._q[None], rest[:1], rest[:1]]))
        for i in np.flatnonzero(np.abs(torque[0]) > self.limits.torque).tolist():
            raise InputError(
                f"joint '{self.robot.joint_names[i]}' needs {abs(torque[0, i]):.1f} N m for its "
                f'weight here, at most {self.limits.torque[i]:.1f} (a share of its limit): '
                'start in another pose, or raise the share')
        tips = self._tips(motion)
        if (tips < self.limits.box[0]).any() or (tips > self.limits.box[1]).any():
            raise InputError(f'the tip is at {np.round(tips[0], 3).tolist()} m, outside of the '
                             f'box {self.limits.box.tolist()}: give a box around it')

    def trajectory(self, duration: float = 10.0, seed: int = 0,
                   shown: Callable[[float], object] = lambda share: None) -> Trajectory:
        """Return a trajectory with a low condition number; another `seed` gives another one."""
        # `shown` receives the completed share of the search. InputError if `duration` is not 4 to
        # 120 s, or no motion within the limits determines the parameters.
        if not 4.0 <= duration <= 120.0:
            raise InputError(f'duration {duration} s: must be 4 to 120 s')
        rng = np.random.default_rng(seed)
        shape = (self.robot.n, self._basis.shape[0] + 1)
        scored = []
        for k in range(STARTS):
            draw = rng.standard_normal(shape)
            scored.append((self._candidate(draw, duration), draw))
            shown(k / (STARTS + STEPS))
        best, x = min(scored, key=lambda pair: pair[0].condition)
        size = 0.5
        for k in range(STEPS):
            shown((STARTS + k) / (STARTS + STEPS))
            joints = rng.random(self.robot.n) < 0.4
            draw = x + size * rng.standard_normal(shape) * joints[:, None]
            candidate = self._candidate(draw, duration)
            if candidate.condition < best.condition:
                best, x, size = candidate, draw, min(1.5 * size, 1.0)
            else:
                size = max(0.97 * size, 0.05)
        if not np.isfinite(best.condition):
            raise InputError('no motion within these limits tells the parameters: give a '
                             'larger box, a larger excursion or a larger share')
        return best

    def _candidate(self, draw: Array, duration: float) -> Trajectory:
        """Return the trajectory of random numbers, scaled to the limits, with its `condition`."""
        coefficients = draw[:, :-1] @ self._basis
        unit = Trajectory(self._q, coefficients[:, :HARMONICS], coefficients[:, HARMONICS:],
                          duration)
        times = np.linspace(0.0, duration, CHECKED)
        q, qd, qdd = unit.at(times)
        away = q - self._q
        limits = self.limits
        with np.errstate(divide='ignore', invalid='ignore'):
            least = np.nanmin([
                (limits.upper - self._q) / np.maximum(away.max(axis=0), 1e-12),
                (self._q - limits.lower) / np.maximum(-away.min(axis=0), 1e-12),
                limits.velocity / np.abs(qd).max(axis=0),
                limits.acceleration / np.abs(qdd).max(axis=0)], axis=0)
        # the last number of a draw reduces a joint's amplitude, at most to LEAST_AMPLITUDE
        share = 1.0 / (1.0 + np.exp(np.minimum(draw[:, -1], 50.0) - 2.0))
        scale = 0.97 * least * (LEAST_AMPLITUDE + (1.0 - LEAST_AMPLITUDE) * share)
        factor = 1.0
        while factor > SMALLEST:
            by = factor * scale
            motion, torque, Y = self._motion(self._q + by * away, by * qd, by * qdd)
            tips = self._tips(motion)
            if ((np.abs(torque) <= self.limits.torque).all() and (tips >= limits.box[0]).all()
                    and (tips <= limits.box[1]).all()):
                condition = self._condition(Y, by * qd)
                return Trajectory(self._q, by[:, None] * unit.cosine, by[:, None] * unit.sine,
                                  duration, condition)
            factor *= SHRINK
        return unit

    def _motion(self, q: Array, qd: Array, qdd: Array) -> tuple[Sweep, Array, Array]:
        motion = sweep(self.robot, q, qd, qdd)
        Y = regressor_of(self.robot, motion)
        return motion, Y @ self._parameters + self.robot.rotor_inertia * qdd, Y

    def _tips(self, motion: Sweep) -> Array:
        return np.concatenate([link_positions(self.robot, motion, tip)
                               for tip in self.robot.tips])

    def _condition(self, Y: Array, qd: Array) -> float:
        """Condition number of the scaled regressor; infinite if it has not full rank."""
        # Columns: inertial parameters to identify; dry friction, offset and damping of each joint;
        # scaled by the expected sizes of these unknowns, rows (torques at k samples) by the effort
        # limits. `Y` is from `regressor_of`; `qd` (k, n) [rad/s, m/s].
        k, n = qd.shape
        if self._base is None:
            inertial = Y[:, :, self._body] @ self._to_body * SIZES
        else:
            inertial = Y[:, :, self._base.independent] * SIZES[self._base.independent % SIZE]
        friction = np.zeros((k, n, 3 * n))
        for i in range(n):
            friction[:, i, 3 * i:3 * i + 3] = self._dry[i] * np.column_stack(
                [np.tanh(qd[:, i] / 0.02), np.ones(k), qd[:, i]])
        A = np.concatenate([inertial, friction], axis=2) * self._row[:, None]
        values = np.linalg.eigvalsh(np.einsum('kip,kiq->pq', A, A, optimize=True))
        return float(np.sqrt(values[-1] / values[0])) if values[0] > 0.0 else np.inf

    def extent(self, trajectory: Trajectory) -> Extent:
        """Return the extremes of a trajectory."""
        q, qd, qdd = trajectory.at(np.linspace(0.0, trajectory.duration, 400))
        motion, torque, _ = self._motion(q, qd, qdd)
        tips = self._tips(motion)
        points = np.concatenate([motion.p_base.reshape(-1, 3), tips])
        steps = np.diff(tips.reshape(len(self.robot.tips), -1, 3), axis=1)
        return Extent(q.min(axis=0), q.max(axis=0), np.abs(qd).max(axis=0),
                      np.abs(torque).max(axis=0) / self.robot.effort_limits,
                      np.array([tips.min(axis=0), tips.max(axis=0)]),
                      np.array([points.min(axis=0), points.max(axis=0)]),
                      float(np.linalg.norm(steps, axis=2).max() * 399 / trajectory.duration))


def _basis() -> Array:
    """Basis of the Fourier coefficients with zero velocity and acceleration at both ends."""
    # Each row of the basis (2 h - 2, 2 h) has the coefficients of one joint: of h = HARMONICS
    # cosines, then of h sines. Every admissible trajectory is a linear combination of the rows.
    k = np.arange(1, HARMONICS + 1)
    conditions = np.zeros((2, 2 * HARMONICS))
    conditions[0, :HARMONICS], conditions[1, HARMONICS:] = k ** 2, k
    return np.asarray(null_space(conditions).T)
