# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Free drive: a hand guides the arm, which carries its own weight and payload.

The tip feels a damper, a bounded speed, and soft walls at the workspace box; every joint is damped
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

from osc_ros.control.bandwidth import largest_damping_rate, largest_natural_frequency
from osc_ros.control.friction import Friction
from osc_ros.control.task import Gains, Task
from osc_ros.dynamics.compiled import kernel
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

if TYPE_CHECKING:
    from osc_ros.control.settings import Settings

Array = NDArray[np.float64]

FREE, LOCKED = LOCKS = 'free', 'locked'
# Shares of the largest stable damping rate of the sampled loop: for the damper of the tip (half of
# it for rotation, half for translation), and for the rate c above the speed limit.
DAMPER, BRAKE = 0.4, 0.6
# Friction is compensated in proportion to tanh(q̇ / SLIDING), wider than `Friction.velocity`: the
# measured velocity is the only sign of the direction in which a hand pushes [rad/s, m/s].
SLIDING = 0.1
REFUSAL = ('the arm is in free drive and follows the hand: accepted again after ~/free_drive with '
           'data: false (without ROS: `Law.change` to settings without `free`)')


@dataclass(frozen=True, eq=False)
class FreeDrive:
    """
    How an arm feels that is guided by hand.

    Attributes
    ----------
    damping : (2,) [N·m·s/rad, N·s/m]
        Damper between the tip and the base, for rotation and translation. If a loop is too slow
        for it at the present inertia of the tip, it is reduced.
    rate : float [1/s]
        Rate c at which the velocity of every joint decays in addition.
    speed : (2,) [rad/s, m/s]
        Speed of the tip, and of each joint, above which the damping rate rises steeply.
    axes : tuple of 6 str
        'free' or 'locked', [angular; linear], in the frame of the first task.
    lock : float [rad/s]
        Natural frequency with which the arm holds a locked axis, critically damped. The mass that
        holds against a hand is small, so this must be higher than for a motion.
    wall : float [N/m]
        Stiffness of the walls of the workspace box (`TargetLimits.box` of the first task).
    depth : float [m]
        Distance before the walls at which they begin to push back.
    friction : float
        Share of the friction in `Settings.friction` that is compensated, 0 to 1.

    Raises
    ------
    InputError
        A number out of its range, axes that are not six of 'free' and 'locked'.

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
                raise InputError(f'free drive: {name} {value.tolist()}: accepted are two finite '
                                 f'numbers, for rotation and translation, of {least:g} or more')
            object.__setattr__(self, name, value)
        for name, least, most in (('rate', 0.5, np.inf), ('lock', 1e-3, np.inf),
                                  ('wall', 0.0, np.inf), ('depth', 1e-3, np.inf),
                                  ('friction', 0.0, 1.0)):
            value = getattr(self, name)
            if not (np.isfinite(value) and least <= value <= most):
                raise InputError(f'free drive: {name} {value}: accepted is {least:g} '
                                 + (f'to {most:g}' if np.isfinite(most) else 'or more'))
        object.__setattr__(self, 'axes', tuple(self.axes))
        if len(self.axes) != 6 or any(axis not in LOCKS for axis in self.axes):
            raise InputError(f"free drive: axes {', '.join(self.axes)}: accepted are six, "
                             f"[angular; linear], each one of {', '.join(LOCKS)}")

    def applied_to(self, settings: Settings) -> Settings:
        """
        Return settings with which a hand can guide the arm: `law.change(drive.applied_to(…))`.

        The first task holds the locked axes only, all other tasks are off, and the posture only
        damps. `Settings.disturbance` is off, because to it a hand is a disturbance, too.

        """
        first, *others = settings.tasks
        held = tuple('motion' if axis == LOCKED else 'free' for axis in self.axes)
        gains = Gains([self.lock] * 6, speed=(np.inf,) * 2, acceleration=(np.inf,) * 2)
        tasks: tuple[Task, ...] = (
            replace(first, axes=held, gains=gains, activation=1.0),
            *(replace(task, activation=0.0) for task in others))
        posture = replace(settings.posture, natural_frequency=0.0, damping=self.rate)
        return replace(settings, tasks=tasks, posture=posture, disturbance=None, free=self)


@kernel
def _put_force(pose, twist, mobility, axes, given, edges, F):
    """
    Write the wrench of the damper and of the walls to F (6,), base axes, [angular; linear].

    Parameters
    ----------
    pose, twist, mobility : (4, 4), (6,), (6, 6)
        Of the tip, base axes; `mobility` is Λ⁻¹.
    axes : (3, 3)
        Rotation of the task's frame to base axes.
    given : (18,)
        Dampers (2), wall (1), depth (1), largest rate of each damper (1), largest square of the
        walls' natural frequency (1), box (6), 1 for free axes (6).
    edges : (2, 3), changed
        Positions where the walls begin. They are at `depth` before the box, or where the tip was
        if it began behind them, and only ever move inward to that place.

    """
    for half in range(2):
        total = 0.0
        for i in range(3 * half, 3 * half + 3):
            total += mobility[i, i]
        damper = given[half]
        if total * damper > given[4]:
            damper = given[4] / total
        for i in range(3 * half, 3 * half + 3):
            F[i] = -damper * twist[i]
        stiff = given[2]
        if total * stiff > given[5]:
            stiff = given[5] / total
    for i in range(3):
        p, depth = pose[i, 3], given[3]
        edges[0, i] = max(edges[0, i], min(given[6 + i] + depth, p))
        edges[1, i] = min(edges[1, i], max(given[9 + i] - depth, p))
        F[3 + i] += stiff * (min(max(edges[0, i] - p, 0.0), 2.0 * depth)
                             - min(max(p - edges[1, i], 0.0), 2.0 * depth))
    for half in range(0, 6, 3):
        x, y, z = F[half], F[half + 1], F[half + 2]
        F[half] = F[half + 1] = F[half + 2] = 0.0
        for k in range(3):
            along = given[12 + half + k] * (axes[0, k] * x + axes[1, k] * y + axes[2, k] * z)
            for i in range(3):
                F[half + i] += axes[i, k] * along


class Guidance:
    """
    Computes the wrench and the damping rate of a free drive at every tick.

    Attributes
    ----------
    wrench : (6,) [N·m, N]
        Wrench of the damper and of the walls on the tip at the last tick, base axes.
    rate : float [1/s]
        Damping rate of the joints at the last tick.
    acceleration : (6,) [rad/s², m/s²]
        Acceleration of the tip at the last tick if no hand pushes, base axes.

    Parameters
    ----------
    drive : FreeDrive
    robot : Robot
    box : (2, 3) [m]
        Workspace of the tip, base frame.

    """

    def __init__(self, drive: FreeDrive, robot: Robot, box: Array) -> None:
        self.drive, self.wrench, self.rate = drive, np.zeros(6), drive.rate
        self.acceleration: Array = np.zeros(6)
        self._given = np.concatenate([
            drive.damping, [drive.wall, drive.depth, 0.0, 0.0], box.ravel(),
            [float(axis == FREE) for axis in drive.axes]])
        self._edges = np.array([[-np.inf] * 3, [np.inf] * 3])
        self._slow = 1.0 / np.where(robot.prismatic, drive.speed[1], drive.speed[0])
        self.soften(1e-3)

    def soften(self, period: float) -> None:
        """Use the largest stable gains for this period of the states [s]."""
        self._most = largest_damping_rate(period)
        self._given[4] = 0.5 * DAMPER * self._most
        self._given[5] = largest_natural_frequency(1.0, period) ** 2

    def damping_rate(self, qd: Array, twist: Array) -> float:
        """
        Damping rate c of the joints [1/s], which rises above the speed limit.

        Above it c v = rate · v + brake · (v - speed): a force F on a mass m moves it no faster
        than speed + F / (m · brake).

        Parameters
        ----------
        qd : (n,) [rad/s, m/s]
        twist : (6,)
            Of the tip [rad/s, m/s].

        """
        turning, moving = twist[:3].dot(twist[:3]), twist[3:].dot(twist[3:])
        fastest = max(float(np.abs(qd * self._slow).max()),
                      float(turning) ** 0.5 / float(self.drive.speed[0]),
                      float(moving) ** 0.5 / float(self.drive.speed[1]))
        least = min(self.drive.rate, self._most)
        self.rate = least if fastest <= 1.0 else (
            least + max(BRAKE * self._most - least, 0.0) * (1.0 - 1.0 / fastest))
        return self.rate

    def put_wrench(self, pose: Array, twist: Array, mobility: Array, axes: Array) -> Array:
        """Return `wrench` (6,) for the tip's pose, twist, Λ⁻¹ (6, 6) and axes of the task."""
        _put_force(pose, twist, mobility, axes, self._given, self._edges, self.wrench)
        return self.wrench

    def friction(self, qd: Array, friction: Friction) -> Array:
        """Torques (n,) that compensate a share of the friction at qd (n,) [N·m]."""
        return np.asarray(self.drive.friction * (
            friction.coulomb * np.tanh(qd / SLIDING) + friction.viscous * qd))

    def forget(self) -> None:
        """Place the walls anew at the next tick."""
        self._edges[0], self._edges[1] = -np.inf, np.inf


def guidance_of(settings: Settings, robot: Robot) -> Guidance | None:
    """The guidance of a robot with these settings; None if they have no free drive."""
    if settings.free is None:
        return None
    return Guidance(settings.free, robot, settings.tasks[0].limits.box)


def rehearse(robot: Robot) -> None:
    """Do everything once, so that the first tick takes no longer than later ones."""
    guidance = Guidance(FreeDrive(), robot, np.array([[-np.inf] * 3, [np.inf] * 3]))
    guidance.put_wrench(np.eye(4), np.zeros(6), np.eye(6), np.eye(3))
