# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Settings of the joint limits: position, velocity, torque, rate of the torque, deceleration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, InitVar
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.methods import default_method
from osc_ros.errors import InputError, require_type
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

# Share of the torque that remains beside gravity with which a joint may brake; the rest is a
# reserve for errors of the model and for the motion of the other joints.
BRAKING_SHARE = 0.7
# A joint stops MARGIN before its limit [rad, m] and stays below the share FASTEST of its velocity
# limit, as a reserve for the tick length and for errors of the model.
MARGIN, FASTEST = 1e-3, 0.99
ROUNDING = 1e-9
# least and largest deceleration that `Limits.of` assumes [rad/s², m/s²]
WEAKEST, HARDEST = 1e-3, 50.0
# Rows of `Limits.table`, one column per joint: lowest and highest position, speed, deceleration,
# 1 / reaction time [1/s], torque, rate of the torque, depth of the soft zone.
LOWER, UPPER, SPEED, DECELERATION, RATE, EFFORT, EFFORT_RATE, ZONE = range(8)
# Longest reaction time, and longest time in which a torque turns from one limit to the other: the
# arm could not be braked in time with slower torques [s].
LONGEST_REACTION = 0.5
_STATES = 64  # number of sampled configurations for the least deceleration


@dataclass(frozen=True, eq=False)
class Limits(Group, group='limits'):
    """
    Limits of all joints; `Limits.of` takes them from a robot.

    The limits of positions, `position` (n, 2) [rad, m], are infinite for joints without limits.
    The push in the soft zone is an acceleration of 0 at its edge, and of repulsion² times the
    depth of the zone at the limit.

    Raises
    ------
    InputError
        A shape that does not fit, a lower limit that is not below the upper one, a number that is
        not accepted, an effort_rate below 2 effort / LONGEST_REACTION.

    """

    position: Array
    velocity: Array = setting(text='Largest speed of every joint [rad/s]; empty: those of the '
                              'robot description', lower=1e-6, upper=60.0, infinite=True)
    effort: Array = setting(text='Largest torque of every joint, base first [N m]; empty: those '
                            'of the robot description, which these may exceed', lower=1e-9,
                            infinite=True)
    effort_rate: Array = setting(
        text='Largest rate of change of every joint torque, also when a watchdog takes over '
        '[N m/s]; at least twice the effort limit in 0.5 s; empty: twice the effort limit in '
        'limits.reaction_time', lower=1e-6, infinite=True)
    deceleration: Array = setting(
        text='Deceleration that every joint can reach in any pose [rad/s²]; empty: computed from '
        'the effort limits in the worst pose, and at most that of the robot description (URDF '
        '1.2)', lower=WEAKEST)
    reaction_time: float = setting(
        0.04, 'Time in which braking before a limit builds up [s]; longer is earlier and softer; '
        'at least 4 periods of `rate`', lower=1e-3, upper=LONGEST_REACTION)
    soft_zone: float = setting(0.05, 'Share of the range of a joint, at both ends, in which the '
                               'posture pushes it back', lower=0.0, upper=0.5)
    repulsion: float = setting(10.0, 'Natural frequency of the push in the soft zone [rad/s]',
                               lower=0.0, upper=1e3)

    names: InitVar[Sequence[str]] = ()  # of the joints, for errors

    def __post_init__(self, names: Sequence[str]) -> None:
        super().__post_init__()
        named = [f"'{name}'" for name in names] or range(len(self.position))
        position = np.array(self.position, dtype=np.float64)
        if position.ndim != 2 or position.shape[1] != 2:
            raise InputError(f'position limits have shape {position.shape}, must be (n, 2)')
        for i in np.flatnonzero(~(position[:, 0] < position[:, 1])).tolist():
            raise InputError(f'position limits {position[i].tolist()} of joint {named[i]}: must '
                             'be lower < upper')
        object.__setattr__(self, 'position', position)
        for name in ('velocity', 'effort', 'effort_rate', 'deceleration'):
            if getattr(self, name).shape != (len(position),):
                raise InputError(f'limits.{name} has shape {getattr(self, name).shape}, must be '
                                 f'({len(position)},)')
        least = 2.0 * np.where(np.isfinite(self.effort), self.effort, 0.0) / LONGEST_REACTION
        for i in np.flatnonzero(self.effort_rate < (1.0 - ROUNDING) * least).tolist():
            raise InputError(
                f'limits.effort_rate {self.effort_rate[i]:g} of joint {named[i]}, in a second: '
                f'must be at least {least[i]:g}, with which its torque turns from one limit to '
                f'the other in {LONGEST_REACTION:g} s; slower torques cannot brake the arm')

    @cached_property
    def table(self) -> Array:
        """The limits as an array (8, n) for the kernels, rows LOWER to ZONE."""
        lower, upper = self.position.T
        margin = np.minimum(MARGIN, 0.25 * (upper - lower))
        # time that a torque takes from one effort limit to the opposite one, as braking may need
        turning = 2.0 * np.where(np.isfinite(self.effort), self.effort, 0.0) / self.effort_rate
        span = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
        return np.array([
            lower + margin, upper - margin, FASTEST * self.velocity, self.deceleration,
            1.0 / np.maximum(self.reaction_time, turning), self.effort, self.effort_rate,
            self.soft_zone * span])

    @classmethod
    def of(cls, robot: Robot, **given: ArrayLike | float | None) -> Limits:
        """
        Limits of a robot; values given by name, and not None, take precedence.

        By default, effort_rate is twice the effort divided by the reaction time, so that a torque
        can change from one limit to the opposite one within the reaction time.

        The default deceleration of a joint is BRAKING_SHARE of (effort limit - gravity torque) /
        (inertia with the other joints fixed), the smallest value in _STATES sampled
        configurations. It is at most HARDEST, at most (velocity limit) / (2 reaction_time), and at
        most that of the robot description, but at least WEAKEST.

        """
        found = {name: value for name, value in given.items() if value is not None}
        require_type('robot', robot, Robot, 'a Robot, as of Robot.from_urdf')
        taken = {'names': robot.joint_names, 'position': robot.position_limits,
                 'velocity': robot.velocity_limits, 'effort': robot.effort_limits, **found}
        if 'effort_rate' not in found:
            reaction_time = np.asarray(taken.get('reaction_time', cls.reaction_time))
            taken['effort_rate'] = 2.0 * np.asarray(taken['effort']) / reaction_time
        if 'deceleration' not in found:
            wanted = cls(deceleration=np.ones(robot.n), **taken)  # type: ignore[arg-type]
            hardest = np.minimum(0.5 * wanted.velocity / wanted.reaction_time, HARDEST)
            taken['deceleration'] = np.maximum(WEAKEST, np.minimum(np.minimum(
                _deceleration(robot, wanted.effort), hardest), robot.deceleration_limits))
        return cls(**taken)  # type: ignore[arg-type]


def _deceleration(robot: Robot, effort: Array) -> Array:
    """Least deceleration (n,) over the samples, by BRAKING_SHARE of (effort - gravity torque)."""
    inertia, weight = sampled_loads(robot)
    # at least a tenth of the limit, because a deceleration must be positive
    room = np.maximum(effort - np.abs(weight), 0.1 * effort)
    return np.asarray(BRAKING_SHARE * (room / inertia).min(axis=0))


@lru_cache(maxsize=4)  # limits change more often than the robot
def sampled_loads(robot: Robot) -> tuple[Array, Array]:
    """Diagonal of M and gravity torques, (_STATES, n) each, at random configurations."""
    M_inv, weight = _samples(robot)
    return np.diagonal(np.linalg.inv(M_inv), axis1=1, axis2=2).copy(), weight


@lru_cache(maxsize=4)
def payload_ratio(robot: Robot) -> float:
    """Largest eigenvalue of M₀⁻¹ M over the samples; M₀ is M without the payload."""
    # Without the payload on the arm, accelerations are up to this factor larger than the model's.
    if robot.payload_mass == 0.0:
        return 1.0
    M_inv, bare = _samples(robot)[0], _samples(robot.without_payload())[0]
    return max(1.0, float(np.linalg.eigvals(bare @ np.linalg.inv(M_inv)).real.max()))


@lru_cache(maxsize=4)
def _samples(robot: Robot) -> tuple[Array, Array]:
    """M⁻¹ (_STATES, n, n) and gravity torques (_STATES, n) at random configurations."""
    dynamics, rng = default_method(robot), np.random.default_rng(0)
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    rest, weight = np.zeros(robot.n), np.empty((_STATES, robot.n))
    no_force = np.zeros(6 * len(robot.tips))
    M_inv = np.empty((_STATES, robot.n, robot.n))
    q, single = np.array(robot.neutral), ~robot.spherical  # spherical joints stay at `neutral`
    for k in range(_STATES):
        q[robot.q_index[single]] = rng.uniform(np.minimum(lower, upper), upper)[
            robot.v_index[single]]
        dynamics.outward(q, rest, None, rest)
        dynamics.inverse_mass_matrix(M_inv[k])
        dynamics.inward(no_force, weight[k])
    return M_inv, weight
