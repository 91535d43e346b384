# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Robots that come with osc_ros, and constants of the clients without ROS."""

from __future__ import annotations

from math import isnan
import os
from typing import NamedTuple

from osc_ros.collision.link_shapes import shape_model
from osc_ros.commandline import ProgressBar
from osc_ros.compile.compilation import compile_in_parallel
from osc_ros.control.law import Law
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.setpoint.arrival import Tolerance
from osc_ros.control.settings import Settings
from osc_ros.errors import InputError, require_type
from osc_ros.loop.cycle import Answering
from osc_ros.model.files import ROBOTS, shipped_urdf, urdf_path
from osc_ros.model.robot import Robot

TWIST_TIMEOUT = 0.2  # duration of the motion by a twist [s]
TOLERANCE = Tolerance(rotation=1e-2, translation=2e-3, settle_time=0.1)
JOINT_TOLERANCE = Tolerance(rotation=1e-3, translation=1e-3, settle_time=0.1)


class Shipped(NamedTuple):
    """Base, tip and initial joint positions of a robot that comes with osc_ros."""

    base: str
    tip: str
    home: tuple[float, ...]


_FRANKA = (0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398)
_UR = (0.0, -1.6, 1.9, -1.87, -1.570796, 0.0)
SHIPPED = {
    'fr3': Shipped('fr3_link0', 'fr3_hand_tcp', _FRANKA),
    'gen3': Shipped('base_link', 'end_effector_link',
                    (0.0, 0.26, 3.141593, -2.27, 0.0, 0.96, 1.570796)),
    'iiwa14': Shipped('base_link', 'tool0', (0.0, 0.6, 0.0, -1.5, 0.0, 1.0, 0.0)),
    'panda': Shipped('panda_link0', 'panda_hand_tcp', _FRANKA),
    'ur10e': Shipped('base_link', 'tool0', _UR),
    'ur5e': Shipped('base_link', 'tool0', _UR)}


def model_of(robot: str | os.PathLike[str], base: str, tip: str
             ) -> tuple[str | os.PathLike[str], Robot]:
    """Return the URDF and the model of a robot that comes with osc_ros, or of another URDF."""
    # See `Arm.simulated`. InputError if another URDF has no `base` or `tip`, ModelError for an
    # unknown robot or an invalid URDF.
    urdf: str | os.PathLike[str] = robot
    if isinstance(robot, str) and '<' not in robot and urdf_path(robot) is None:
        urdf = shipped_urdf(robot)
        base, tip = base or SHIPPED[robot].base, tip or SHIPPED[robot].tip
    if not (base and tip):
        raise InputError('a robot of your own needs the links base and tip: '
                         "Arm.simulated(urdf, base='base_link', tip='tool0'); osc_ros brings "
                         + ', '.join(sorted(path.stem for path in ROBOTS.glob('*.urdf'))))
    return urdf, Robot.from_urdf(urdf, base, tip)


def law_in_a_loop(robot: Robot, settings: Settings | None) -> Law:
    """Return a law; if it or its loop has to be compiled, several processes do, with progress."""
    with ProgressBar('compiling kernels (first start only)') as bar, compile_in_parallel(
            _law, robot, settings, tell=lambda now: bar.show(
                0.0 if isnan(now.share) else now.share, now.left)):
        return _law(robot, settings)


def _law(robot: Robot, settings: Settings | None) -> Law:
    law = Law(robot, settings)
    Answering(robot.n)
    return law


def clearance_of(robot: str | os.PathLike[str], given: Clearance | float | bool
                 ) -> Clearance | None:
    """Return the clearance for the option `clearance` of `Arm.simulated`, and its robot."""
    # A number is the margin [m]. InputError for True or a number if this robot has no shapes.
    if given is True:
        return Clearance.of(shape_model(str(robot)))
    if isinstance(given, (int, float)) and given:
        return Clearance.of(shape_model(str(robot)), margin=float(given))
    if given is not False:
        require_type('clearance', given, Clearance, 'a margin in m such as 0.03, an '
                     'osc_ros.Clearance, True or False')
    return given if isinstance(given, Clearance) else None
