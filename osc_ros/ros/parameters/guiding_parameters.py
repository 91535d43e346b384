# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameters of free drive, of joint drive, and of the stiffness on ~/target_impedance."""

from __future__ import annotations

from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.tasks.free import FreeDrive, LOCKS
from osc_ros.control.tasks.task import Stiffness
from osc_ros.ros.parameters.parameters import Entry

_DRIVE, _JOINTS, _SPRING = FreeDrive(), JointDrive(), Stiffness()  # default values

GUIDING = (
    Entry('impedance.change_time', _SPRING.change_time, 'Time after which 1 % of a change by '
          '~/target_impedance remains, if the energy tank allows it [s]', lower=1e-3, upper=60.0,
          live=True),
    Entry('impedance.tank', _SPRING.tank, 'Energy that a rising stiffness of ~/target_impedance '
          'may add before the damper has dissipated any [J]', lower=1e-6, upper=100.0, live=True),
    Entry('joints.natural_frequency', _JOINTS.natural_frequency, 'Natural frequency of the joint '
          'errors in mode joints [rad/s]; reduced where the loop is too slow for it', lower=1e-3,
          upper=1e3, live=True),
    Entry('joints.damping_ratio', _JOINTS.damping_ratio, 'Damping ratio of the joint errors in '
          'mode joints', lower=0.1, upper=5.0, live=True),
    Entry('joints.stiffness', (), 'Stiffness of each joint as a spring in mode joints '
          '[N m/rad, N/m], one for each joint or one for all; empty: joints.natural_frequency',
          lower=0.0, upper=1e6, of=float, live=True),
    Entry('joints.damping', (), 'Damping of each spring [N m s/rad, N s/m]; empty: by '
          'joints.damping_ratio', lower=0.0, upper=1e6, of=float, live=True),
    Entry('joints.speed', _JOINTS.speed, 'Share of the velocity limits that planned motions of '
          'the joints use', lower=1e-3, upper=1.0, live=True),
    Entry('joints.ramp', _JOINTS.ramp, 'Least time in which they reach this speed [s]',
          lower=0.01, upper=60.0, live=True),
    Entry('joints.leash', _JOINTS.leash, 'Lag of a joint at which a motion of the joints pauses '
          '[rad, m]', lower=1e-3, upper=100.0, live=True),
    Entry('joints.friction', _JOINTS.friction, 'Largest unknown dry friction of a joint '
          '[N m, N], which mode joints compensates without joints.stiffness, as disturbance.mode '
          'does; 0: it compensates nothing', lower=0.0, upper=1e3, live=True),
    Entry('free.translation.damping', float(_DRIVE.damping[1]),
          'Damping of the tip in free drive [N s/m]; reduced where the loop is too slow for it',
          lower=0.0, upper=1e4, live=True),
    Entry('free.rotation.damping', float(_DRIVE.damping[0]),
          'Damping of the rotation of the tip in free drive [N m s/rad]; as translation',
          lower=0.0, upper=1e3, live=True),
    Entry('free.rate', _DRIVE.rate, 'Decay rate of the speed of every joint in free drive, in '
          'addition [1/s]; at most half of `rate`', lower=0.5, upper=1e3, live=True),
    Entry('free.translation.speed', float(_DRIVE.speed[1]),
          'Speed of the tip in free drive above which the damping rises steeply [m/s]',
          lower=1e-3, upper=10.0, live=True),
    Entry('free.rotation.speed', float(_DRIVE.speed[0]),
          'The same for the rotation of the tip and of every joint [rad/s]', lower=1e-3,
          upper=100.0, live=True),
    Entry('free.translation.axes', _DRIVE.axes[3:], 'Whether a hand can move the tip along '
          'x y z of task.frame: free, or locked', of=str, size=3, choices=LOCKS, live=True),
    Entry('free.rotation.axes', _DRIVE.axes[:3], 'Whether a hand can turn the tip about '
          'x y z of task.frame: free, or locked', of=str, size=3, choices=LOCKS, live=True),
    Entry('free.lock', _DRIVE.lock, 'Natural frequency with which locked axes are held in free '
          'drive [rad/s]; reduced where the loop is too slow for it', lower=1e-3, upper=1e3,
          live=True),
    Entry('free.wall', _DRIVE.wall, 'Stiffness of the walls of workspace.lower and '
          'workspace.upper in free drive [N/m]', lower=0.0, upper=1e6, live=True),
    Entry('free.depth', _DRIVE.depth, 'Distance before these walls at which they begin to '
          'push back [m]', lower=1e-3, upper=1.0, live=True),
    Entry('free.friction', _DRIVE.friction, 'Share of friction.* that free drive compensates, '
          'by the measured velocity', lower=0.0, upper=1.0, live=True),
)
