# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compensation of what the model lacks, by `osc_ros.control.compensation`: its settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.compensation import BOUND, CONTACT, PLAN, RESULT, STATE
from osc_ros.control.record import Recorded
from osc_ros.control.task import Stiffness, Task
from osc_ros.dynamics.trees.momentum import Momentum
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

MODES = 'observer', 'integral'
# Sudden torque that counts as contact, relative to the friction: the reversal of a joint is twice
# its friction.
REVERSAL = 2.5
MARGIN = 1.25  # of the bound: what is left over overcomes the friction
SLOWER = 4.0  # loads may be followed so many times slower than friction, relative to their size
LEVER = 0.1  # largest distance of the unknown payload's centre of mass from the tip [m]
_POSITIONS = 64  # sampled for the bounds


@dataclass(frozen=True)
class Disturbance:
    """
    Settings of the compensation: its mode, and how wrong the model may be.

    The bound of a joint's compensation is MARGIN times the sum of three torques: of the payload at
    the tip and of the share of the arm's own weight, the largest of many positions, and of the
    friction. A sudden torque is a contact if it exceeds REVERSAL times the friction plus the share
    of the weight.

    Attributes
    ----------
    mode : str
        'observer': it follows the estimate of the external torques; 'integral': see
        `osc_ros.control.compensation`.
    payload : float [kg]
        Largest unknown payload; its centre of mass is at most LEVER away from the tip.
    masses : float
        Largest relative error of the masses of the links.
    friction : float [N·m; N for prismatic]
        Largest unknown dry friction of a joint.
    bandwidth : float [rad/s]
        Bandwidth of the low-pass filter behind the observer; less at low rates of the states.
    rise : float [s]
        Least time in which the compensation rises by `friction`; by the load, SLOWER times that.
    free : float [s]
        Time after the start during which every torque counts as load.
    integral_rate : float [1/s]
        Rate of the integral action; keep it below a quarter of the lowest natural frequency.

    Raises
    ------
    InputError
        Another mode; a number that is not finite, or negative; a bandwidth, friction, rise or
        rate of 0.

    """

    mode: str = 'observer'
    payload: float = 1.0
    masses: float = 0.1
    friction: float = 1.0
    bandwidth: float = 200.0
    rise: float = 0.3
    free: float = 1.0
    integral_rate: float = 2.0

    def __post_init__(self) -> None:
        """Validate the mode and the numbers."""
        if self.mode not in MODES:
            raise InputError(f"disturbance mode '{self.mode}': accepted is one of "
                             + ', '.join(MODES))
        for name in (field.name for field in fields(self) if field.name != 'mode'):
            value, may_be_zero = getattr(self, name), name in ('payload', 'masses', 'free')
            if not (math.isfinite(value) and (value > 0.0 or value == 0.0 and may_be_zero)):
                raise InputError(f'disturbance {name} {value}: accepted is a finite number '
                                 + ('of 0 or more' if may_be_zero else 'above 0'))

    def limits(self, robot: Robot) -> Array:
        """Effort limit, bound, rate and threshold of contact of each joint, (4, n)."""
        model = Momentum(robot)
        centred, *shifted = (Momentum(robot.with_payload(self.payload, centre))
                             for centre in np.vstack([np.zeros(3), LEVER * np.eye(3)]))
        rng, rest = np.random.default_rng(0), np.zeros(robot.n)
        weight, load = rest, rest
        for _ in range(_POSITIONS):
            q = random_position(robot, rng)
            own = model.at(q, rest)[1]
            weight = np.maximum(weight, np.abs(own))
            at_tip = centred.at(q, rest)[1]
            turned = np.linalg.norm([one.at(q, rest)[1] - at_tip for one in shifted], axis=0)
            load = np.maximum(load, np.abs(at_tip - own) + turned)
        load = load + self.masses * weight
        return np.array([robot.effort_limits, MARGIN * (load + self.friction),
                         (self.friction + load / SLOWER) / self.rise,
                         REVERSAL * self.friction + self.masses * weight])

    def sudden_torques(self, robot: Robot, with_load: bool) -> Array:
        """
        Torques (n,) above which a sudden external torque is a contact [N·m; N].

        Parameters
        ----------
        robot : Robot
        with_load : bool
            Whether the torque of the load counts as sudden, too.

        """
        limits = self.limits(robot)
        load = limits[BOUND] / MARGIN - self.friction
        return np.asarray(limits[CONTACT] + (load if with_load else 0.0))


def random_position(robot: Robot, rng: np.random.Generator) -> Array:
    """Random joint positions (nq,) within the limits, and within half a turn [rad, m]."""
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    found, q = rng.uniform(np.minimum(lower, upper), upper), rng.normal(size=robot.nq)
    single = ~robot.spherical
    q[robot.q_index[single]] = found[robot.v_index[single]]
    return q


class Compensation(Recorded):
    """
    The torque that makes up for what the model lacks.

    Attributes
    ----------
    torque : (n,) [N·m; N for prismatic]
        The compensation in force; the array stays the same object.
    limits : (4, n)
        See `Disturbance.limits`.

    Parameters
    ----------
    robot : Robot
    settings : Disturbance, optional
    limits : (4, n), optional
        `settings.limits(robot)`, if it is known: it takes as long as many ticks.
    yields : (6,), optional
        See `yielding_axes`; default: zeros.

    """

    TABLES = PLAN, STATE, RESULT
    CONNECTED = 'views', 'limits', 'torque'

    def __init__(self, robot: Robot, settings: Disturbance | None = None,
                 limits: Array | None = None, yields: ArrayLike = 0.0) -> None:
        super().__init__(robot.n)
        self.settings = settings = Disturbance() if settings is None else settings
        plan = self.views[0]
        plan.is_active[0], plan.yields[:] = 1.0, yields
        plan.bandwidth[0], plan.integral_rate[0], plan.free[0] = (
            settings.bandwidth, settings.integral_rate, settings.free)
        plan.limits[:] = settings.limits(robot) if limits is None else limits
        self.forget()

    def _connect(self) -> None:
        super()._connect()
        self.limits: Array = self.views[0].limits
        self.torque: Array = self.views[1].torque

    @property
    def is_active(self) -> bool:
        """If set to False, the compensation returns to zero at its largest rate."""
        return bool(self.views[0].is_active[0])

    @is_active.setter
    def is_active(self, value: bool) -> None:
        self.views[0].is_active[0] = value

    @property
    def knows_friction(self) -> bool:
        """Whether the law compensates friction, too."""
        return bool(self.views[0].knows_friction[0])

    @knows_friction.setter
    def knows_friction(self, value: bool) -> None:
        self.views[0].knows_friction[0] = value

    @property
    def in_contact(self) -> bool:
        """Whether the arm touches something, by the rules of the compensation."""
        return bool(self.views[1].in_contact[0])

    def forget(self) -> None:
        """Set the compensation to zero at once, for an arm that does not move; start anew."""
        self.records[1][:] = 0.0
        self.views[1].time[0], self.views[1].free[0] = -math.inf, self.settings.free

    def begin_with(self, torque: Array) -> None:
        """Set the compensation to a torque (n,) that holds the arm at rest, within the bound."""
        self.forget()
        self.torque[:] = np.clip(torque, -self.limits[BOUND], self.limits[BOUND])

    def go_on_from(self, other: Compensation) -> None:
        """Take over the state of another compensation of the same joints."""
        self.records[1][:] = other.records[1]
        if not other.is_active:
            self.views[1].free[0] = self.settings.free


def yielding_axes(task: Task) -> Array:
    """Array (6,): 1 for the axes along which a task gives way, in its frame; else 0."""
    return task.along(*('force', 'motion') if isinstance(task.gains, Stiffness) else ('force',))
