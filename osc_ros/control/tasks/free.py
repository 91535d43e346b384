# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Free drive: the user guides the arm by hand; the arm carries its own weight and payload.

The tip feels a damper, a bounded speed, and soft walls at the workspace box. Every joint is damped
with a rate, and the soft zones push it away from its limits. Single axes of the tip can be locked.

With the Jacobian J of the tip, its velocity v and the inertia M, the torques are

    τ = C + G - c M q̇ + push of the soft zones + Jᵀ (-D v + walls),

plus friction compensation. The rate c rises above the speed limit. All parts except the
compensation of friction dissipate or store energy, so the arm is passive at the hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import inlined, stage
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.tasks.bandwidth import largest_damping_rate, largest_natural_frequency
from osc_ros.control.tasks.task import Gains, Task
from osc_ros.control.tasks.task_numbers import axes_of
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

if TYPE_CHECKING:
    from osc_ros.control.settings import Settings

Array = NDArray[np.float64]

FREE, LOCKED = LOCKS = 'free', 'locked'
# Fractions of the largest stable damping rate of the sampled loop: for the damper of the tip (half
# for rotation, half for translation), and for the rate c above the speed limit.
DAMPER, BRAKE = 0.4, 0.6
# Friction is compensated in proportion to tanh(q̇ / SLIDING), wider than `Friction.velocity`: the
# measured velocity is the only sign of the direction in which a hand pushes [rad/s, m/s].
SLIDING = 0.1

PLAN = Table(
    'FreeDrivePlan',
    Slot('is_active', (1,), '', '1 if the settings have a free drive'),
    Slot('damping', (2,), 'N·m·s/rad, N·s/m', 'damper between tip and base'),
    Slot('rate', (1,), '1/s', 'rate at which the velocities of the joints decay'),
    Slot('speed', (2,), 'rad/s, m/s', 'speed of the tip above which this rate rises'),
    Slot('slow', ('n',), 's/rad, s/m', 'inverse of the speed of each joint above which it rises'),
    Slot('wall', (1,), 'N/m', 'stiffness of the walls'),
    Slot('depth', (1,), 'm', 'distance before the walls at which they begin to push'),
    Slot('box', (2, 3), 'm', 'the walls: lowest and highest position of the tip'),
    Slot('is_free', (6,), '', '1 for free axes, in the frame of the first task'),
    Slot('friction', (1,), '', 'share of the friction that is compensated'))

STATE = Table(
    'FreeDriveState',
    Slot('largest_rate', (1,), '1/s', 'largest stable damping rate'),
    Slot('largest_damper', (1,), '1/s', 'largest rate of each damper of the tip'),
    Slot('stiffest_wall', (1,), 'rad²/s²', 'largest square of the natural frequency of a wall'),
    Slot('edges', (2, 3), 'm', 'positions where the walls begin: `depth` before the box, or where '
         'the tip was if it began behind them; they only move inward, to that place'),
    Slot('wrench', (6,), 'N·m, N', 'wrench of damper and walls on the tip, base axes'),
    Slot('rate', (1,), '1/s', 'damping rate of the joints'),
    Slot('acceleration', (6,), 'rad/s², m/s²', 'acceleration of the tip if no hand pushes'))

_plan_views, _state_views = PLAN.views, STATE.views
PLAN_WITHOUT = PLAN.size(0)  # length of a plan without joints
REFUSAL = ('the arm is in free drive and follows the hand: accepted again after ~/free_drive with '
           'data: false (without ROS: `Law.change` to settings without `free`)')


@dataclass(frozen=True, eq=False)
class FreeDrive:
    """
    Settings of hand guiding (free drive).

    Attributes
    ----------
    damping : (2,) [N·m·s/rad, N·s/m]
        Damper between the tip and the base, for rotation and translation. The law reduces it if it
        would be unstable at the loop's period and the present inertia of the tip.
    rate : float [1/s]
        Additional decay rate c of the velocity of every joint.
    speed : (2,) [rad/s, m/s]
        Speed of the tip, and of each joint, above which the damping rate rises steeply.
    axes : tuple of 6 str
        'free' or 'locked', [angular; linear], in the frame of the first task.
    lock : float [rad/s]
        Natural frequency of the critically damped hold of a locked axis. It must be higher than
        for a motion, because the inertia that resists a hand is small.
    wall : float [N/m]
        Stiffness of the walls of the workspace box (`TargetLimits.box` of the first task).
    depth : float [m]
        Distance before the walls at which they begin to push back.
    friction : float
        Fraction of the friction in `Settings.friction` that is compensated, 0 to 1.

    Raises
    ------
    InputError
        A number out of its range, or axes that are not six of 'free' and 'locked'.

    """

    damping: Array = (0.5, 50.0)  # type: ignore[assignment]
    rate: float = 8.0
    speed: Array = (1.0, 0.3)  # type: ignore[assignment]
    axes: tuple[str, ...] = (FREE,) * 6
    lock: float = 60.0
    wall: float = 1000.0
    depth: float = 0.05
    friction: float = 0.7

    if TYPE_CHECKING:  # sequences are accepted; they become arrays
        def __init__(self, damping: ArrayLike = ..., rate: float = ..., speed: ArrayLike = ...,
                     axes: tuple[str, ...] = ..., lock: float = ..., wall: float = ...,
                     depth: float = ..., friction: float = ...) -> None: ...

    def __post_init__(self) -> None:
        """Convert to arrays; refuse wrong shapes, numbers and axes."""
        for name, least in (('damping', 0.0), ('speed', 1e-3)):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != (2,) or not (np.isfinite(value) & (value >= least)).all():
                raise InputError(f'free drive: {name} {value.tolist()}: give two finite '
                                 f'numbers, for rotation and translation, of {least:g} or more')
            object.__setattr__(self, name, value)
        for name, least, most in (('rate', 0.5, np.inf), ('lock', 1e-3, np.inf),
                                  ('wall', 0.0, np.inf), ('depth', 1e-3, np.inf),
                                  ('friction', 0.0, 1.0)):
            value = getattr(self, name)
            if not (np.isfinite(value) and least <= value <= most):
                raise InputError(f'free drive: {name} {value}: must be {least:g} '
                                 + (f'to {most:g}' if np.isfinite(most) else 'or more'))
        object.__setattr__(self, 'axes', tuple(self.axes))
        if len(self.axes) != 6 or any(axis not in LOCKS for axis in self.axes):
            raise InputError(f"free drive: axes {', '.join(self.axes)}: give six, "
                             f"[angular; linear], each one of {', '.join(LOCKS)}")

    def applied_to(self, settings: Settings) -> Settings:
        """
        Return settings for guiding the arm by hand: `law.change(drive.applied_to(…))`.

        The first task holds only the locked axes, all other tasks are off, and the posture only
        damps. `Settings.disturbance` is off, because it would compensate the force of the hand.

        """
        first, *others = settings.tasks
        held = tuple('motion' if axis == LOCKED else 'free' for axis in self.axes)
        gains = Gains([self.lock] * 6, speed=(np.inf,) * 2, acceleration=(np.inf,) * 2)
        tasks: tuple[Task, ...] = (
            replace(first, axes=held, gains=gains, activation=1.0),
            *(replace(task, activation=0.0) for task in others))
        posture = replace(settings.posture, natural_frequency=0.0, damping=self.rate)
        return replace(settings, tasks=tasks, posture=posture, disturbance=None, free=self)


@inlined
def guides(plan):
    """Whether a record of PLAN belongs to a free drive."""
    return plan[0] > 0.0


@inlined
def _put_force(plan, at, pose, twist, mobility, axes):
    """Write the wrench of damper and walls; move `edges`, where the walls begin, see STATE."""
    F = at.wrench
    for half in range(2):
        total = 0.0
        for i in range(3 * half, 3 * half + 3):
            total += mobility[i, i]
        damper, stiff = plan.damping[half], plan.wall[0]
        if total * damper > at.largest_damper[0]:
            damper = at.largest_damper[0] / total
        for i in range(3 * half, 3 * half + 3):
            F[i] = -damper * twist[i]
        if total * stiff > at.stiffest_wall[0]:
            stiff = at.stiffest_wall[0] / total
    for i in range(3):
        p, depth = pose[i, 3], plan.depth[0]
        at.edges[0, i] = max(at.edges[0, i], min(plan.box[0, i] + depth, p))
        at.edges[1, i] = min(at.edges[1, i], max(plan.box[1, i] - depth, p))
        F[3 + i] += stiff * (min(max(at.edges[0, i] - p, 0.0), 2.0 * depth)
                             - min(max(p - at.edges[1, i], 0.0), 2.0 * depth))
    for half in range(0, 6, 3):
        x, y, z = F[half], F[half + 1], F[half + 2]
        F[half] = F[half + 1] = F[half + 2] = 0.0
        for k in range(3):
            along = plan.is_free[half + k] * (axes[k] * x + axes[3 + k] * y + axes[6 + k] * z)
            for i in range(3):
                F[half + i] += axes[3 * i + k] * along


@stage
def guide(plan, state, link, links, task, F):
    """
    Write the wrench of damper and walls on the tip, and add it to the forces F.

    Parameters
    ----------
    plan, state : (…), (…)
        Records of PLAN and STATE.
    link : int
        Index of the tip among the links.
    links : osc_ros.control.tasks.feedback.Links
    task : (TASK_WIDTH,)
        Row of the first task, see `osc_ros.control.tasks.task_numbers`.
    F : (6 m,), changed
        Forces of the tasks.

    """
    n, own, mobility = len(plan) - PLAN_WITHOUT, 6 * link, links.Lambda_inv
    settings, at = _plan_views(plan, n), _state_views(state, n)
    _put_force(settings, at, links.poses[link], links.twists[own:own + 6],
               mobility[own:own + 6, own:own + 6], axes_of(task))
    for i in range(6):
        F[own + i] += at.wrench[i]
    for i in range(6):
        at.acceleration[i] = links.a0[own + i]
        for j in range(len(F)):
            at.acceleration[i] += mobility[own + i, j] * F[j]


@inlined
def damping_rate(plan, state, qd, J):
    """
    Damping rate c of the joints [1/s], which rises above the speed limit.

    Above the limit c v = rate · v + brake · (v - speed), so a force F on a mass m moves it no
    faster than speed + F / (m · brake). `plan` and `state` are records of PLAN and STATE, J (6, n)
    is the Jacobian of the tip.

    """
    n, fastest = len(qd), 0.0
    settings, at = _plan_views(plan, n), _state_views(state, n)
    for k in range(n):
        fastest = max(fastest, np.abs(qd[k] * settings.slow[k]))
    for half in range(2):
        square = 0.0
        for i in range(3 * half, 3 * half + 3):
            along = 0.0
            for k in range(n):
                along += J[i, k] * qd[k]
            square += along * along
        fastest = max(fastest, np.sqrt(square) / settings.speed[half])
    least, most = min(settings.rate[0], at.largest_rate[0]), BRAKE * at.largest_rate[0]
    at.rate[0] = least if fastest <= 1.0 else (
        least + max(most - least, 0.0) * (1.0 - 1.0 / fastest))
    return at.rate[0]


@inlined
def put_friction(plan, qd, friction, torque):
    """Write the torques that compensate a fraction of the friction (2, n) at qd (n,) [N·m]."""
    settings = _plan_views(plan, len(qd))
    for i in range(len(qd)):
        torque[i] = settings.friction[0] * (
            friction[0, i] * np.tanh(qd[i] / SLIDING) + friction[1, i] * qd[i])


class Guidance(Recorded):
    """
    The records from which kernels compute a free drive at every tick.

    `box` (2, 3) is the workspace of the tip, base frame [m]; for `records` see `Recorded`.

    """

    TABLES = PLAN, STATE

    def __init__(self, drive: FreeDrive, robot: Robot, box: Array,
                 records: tuple[Array, ...] | None = None) -> None:
        super().__init__(robot.n, records)
        plan, state = self.views
        plan.is_active[0], plan.damping[:], plan.wall[0], plan.depth[0] = (
            1.0, drive.damping, drive.wall, drive.depth)
        plan.box[:], plan.is_free[:] = box, [axis == FREE for axis in drive.axes]
        plan.rate[0], plan.speed[:], plan.friction[0] = drive.rate, drive.speed, drive.friction
        plan.slow[:] = 1.0 / np.where(robot.prismatic, drive.speed[1], drive.speed[0])
        state.rate[0] = drive.rate
        self.limit_gains(1e-3)
        self.forget()

    @property
    def wrench(self) -> Array:
        """Wrench (6,) of damper and walls on the tip at the last tick, base axes [N·m, N]."""
        return np.asarray(self.views[1].wrench)

    @property
    def acceleration(self) -> Array:
        """Acceleration (6,) of the tip at the last tick without a hand's force [rad/s², m/s²]."""
        return np.asarray(self.views[1].acceleration)

    def limit_gains(self, period: float) -> None:
        """Set the largest stable gains for this period of the states [s]."""
        state = self.views[1]
        state.largest_rate[0] = largest_damping_rate(period)
        state.largest_damper[0] = 0.5 * DAMPER * state.largest_rate[0]
        state.stiffest_wall[0] = largest_natural_frequency(1.0, period) ** 2

    def forget(self) -> None:
        """Reset the walls; the next tick places them again."""
        self.views[1].edges[:] = [[-np.inf], [np.inf]]
