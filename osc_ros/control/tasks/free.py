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
from typing import Any, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, stage
from osc_ros.control.tasks.bandwidth import largest_damping_rate, largest_natural_frequency
from osc_ros.control.tasks.feedback import axes_of, mobility_of, poses_of
from osc_ros.control.tasks.task import Gains, Task
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, Numbers, setting

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

REFUSAL = ('the arm is in free drive and follows the hand: accepted again after ~/free_drive with '
           'data: false (without ROS: `Law.change` to settings without `free`)')


@dataclass(frozen=True, eq=False)
class FreeDrive(Group, group='free'):
    """
    Settings of hand guiding (free drive); of pairs, rotation and then translation.

    The law reduces damping that would be unstable at the loop's period and the present inertia of
    the tip. `lock` must be higher than a natural frequency for motions, because the inertia that
    resists a hand is small; a locked axis is damped critically.

    Raises
    ------
    InputError
        A number that is not accepted, or axes that are not six of 'free' and 'locked'.

    """

    damping: Numbers = setting(
        (0.5, 50.0), translation='Damping of the tip in free drive [N s/m]; reduced where the '
        'loop is too slow for it', rotation='Damping of the rotation of the tip in free drive '
        '[N m s/rad]; as translation', lower=0.0, upper=(1e4, 1e3))
    rate: float = setting(8.0, 'Decay rate of the speed of every joint in free drive, in addition '
                          '[1/s]; at most half of `rate`', lower=0.5, upper=1e3)
    speed: Numbers = setting(
        (1.0, 0.3), translation='Speed of the tip in free drive above which the damping rises '
        'steeply [m/s]', rotation='The same for the rotation of the tip and of every joint '
        '[rad/s]', lower=1e-3, upper=(10.0, 100.0))
    axes: tuple[str, ...] = setting(
        (FREE,) * 6, translation='Whether a hand can move the tip along x y z of task.frame: '
        'free, or locked', rotation='Whether a hand can turn the tip about x y z of task.frame: '
        'free, or locked', choices=LOCKS)
    lock: float = setting(60.0, 'Natural frequency with which locked axes are held in free drive '
                          '[rad/s]; reduced where the loop is too slow for it', lower=1e-3,
                          upper=1e3)
    wall: float = setting(1000.0, 'Stiffness of the walls of workspace.lower and workspace.upper '
                          'in free drive [N/m]', lower=0.0, upper=1e6)
    depth: float = setting(0.05, 'Distance before these walls at which they begin to push back '
                           '[m]', lower=1e-3, upper=1.0)
    friction: float = setting(0.7, 'Share of friction.* that free drive compensates, by the '
                              'measured velocity', lower=0.0, upper=1.0)

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
def _put_force(m, d, pose, twist, mobility, axes):
    """Write the wrench of damper and walls; move `wall_edges`, where the walls begin."""
    F = d.hand_wrench
    for half in range(2):
        total = 0.0
        for i in range(3 * half, 3 * half + 3):
            total += mobility[i, i]
        damper, stiff = m.hand_damping[half], m.wall_stiffness
        if total * damper > d.largest_damper:
            damper = d.largest_damper / total
        for i in range(3 * half, 3 * half + 3):
            F[i] = -damper * twist[i]
        if total * stiff > d.stiffest_wall:
            stiff = d.stiffest_wall / total
    edges = d.wall_edges
    for i in range(3):
        p, depth = pose[i, 3], m.wall_depth
        edges[0, i] = max(edges[0, i], min(m.wall_box[0, i] + depth, p))
        edges[1, i] = min(edges[1, i], max(m.wall_box[1, i] - depth, p))
        F[3 + i] += stiff * (min(max(edges[0, i] - p, 0.0), 2.0 * depth)
                             - min(max(p - edges[1, i], 0.0), 2.0 * depth))
    for half in range(0, 6, 3):
        x, y, z = F[half], F[half + 1], F[half + 2]
        F[half] = F[half + 1] = F[half + 2] = 0.0
        for k in range(3):
            along = m.hand_axes[half + k] * (axes[k] * x + axes[3 + k] * y + axes[6 + k] * z)
            for i in range(3):
                F[half + i] += axes[3 * i + k] * along


@stage
def guide(law):
    """Write the wrench of damper and walls on the tip, and add it to the forces on the links."""
    m, d, mobility, F = law.m, law.d, mobility_of(law), law.d.link_F
    link, own = m.level_link[0], 6 * m.level_link[0]
    _put_force(m, d, poses_of(law)[link], law.twist[own:own + 6],
               mobility[own:own + 6, own:own + 6], axes_of(d, 0))
    for i in range(6):
        F[own + i] += d.hand_wrench[i]
    for i in range(6):
        d.hand_acceleration[i] = law.a0[own + i]
        for j in range(len(F)):
            d.hand_acceleration[i] += mobility[own + i, j] * F[j]


@inlined
def put_damping(m, d):
    """Replace the posture by damping: its rate rises above the speed limit."""
    # There c v = rate · v + brake · (v - speed): a force F on a mass m moves it no faster than
    # speed + F / (m · brake). The brake comes into force with `guided`, so joints that are fast
    # when free drive begins are slowed gradually.
    fastest, first, qd = 0.0, 6 * m.level_link[0], d.qd
    for k in range(d.n):
        fastest = max(fastest, np.abs(qd[k] * m.hand_slow[k]))
    for half in range(2):
        square = 0.0
        for i in range(3 * half, 3 * half + 3):
            along = 0.0
            for k in range(d.n):
                along += d.J[first + i, k] * qd[k]
            square += along * along
        fastest = max(fastest, np.sqrt(square) / m.hand_speed[half])
    least, most = min(m.hand_rate, d.largest_rate), BRAKE * d.largest_rate
    d.posture_frequency = 0.0
    d.posture_rate = least if fastest <= 1.0 else (
        least + d.guided * max(most - least, 0.0) * (1.0 - 1.0 / fastest))


@inlined
def put_friction(m, d):
    """Write the torques that compensate a fraction of the friction."""
    for i in range(d.n):
        d.tau_friction[i] = m.hand_friction * (
            m.friction[0, i] * np.tanh(d.qd[i] / SLIDING) + m.friction[1, i] * d.qd[i])


def put_free_drive(drive: FreeDrive, robot: Robot, box: Array, m: Any, d: Any) -> None:
    """Write the settings of free drive to records LAW_M and LAW_D."""
    # `box` (2, 3): lowest and highest position of the tip, base frame [m].
    drive.put(m, 'hand_')
    m.wall_stiffness, m.wall_depth = drive.wall, drive.depth
    m.wall_box[:], m.hand_axes[:] = box, [axis == FREE for axis in drive.axes]
    m.hand_slow[:] = 1.0 / np.where(robot.prismatic, drive.speed[1], drive.speed[0])
    limit_dampers(d, 1e-3)
    forget_walls(d)


def limit_dampers(d: Any, period: float) -> None:
    """Write the largest stable gains for this period of the states [s]."""
    d.largest_rate = largest_damping_rate(period)
    d.largest_damper = 0.5 * DAMPER * d.largest_rate
    d.stiffest_wall = largest_natural_frequency(1.0, period) ** 2


def forget_walls(d: Any) -> None:
    """Reset the walls; the next tick of free drive places them again."""
    d.wall_edges[:] = [[-np.inf], [np.inf]]
