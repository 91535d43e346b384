# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Rejects recordings with too little motion, or with torques that do not fit the robot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.identification.fit.friction_fit import FAST_ENOUGH
from osc_ros.identification.fit.inertial import inertial_parameters
from osc_ros.identification.fit.least_squares import fit
from osc_ros.identification.fit.regression import Motion
from osc_ros.identification.fit.regressor import regressor
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# For each joint, an unknown factor multiplies the torque of the weight. Only a factor with a
# standard deviation below KNOWN is checked: LEAST to GREATEST are accepted, because masses of a
# description may be wrong; below NONE the torques do not contain the weight.
KNOWN, NONE, LEAST, GREATEST = 0.1, 0.05, 0.5, 2.0


class NotDeterminedError(InputError):
    """The recording does not determine the parameters."""


def require_motion(motion: Motion, robot: Robot) -> None:
    """Raise NotDeterminedError if the recording has too little motion."""
    # At least half of the joints must exceed FAST_ENOUGH, and some sample must be usable.
    fastest = np.abs(motion.samples.qd).max(axis=0)
    if not (fastest > FAST_ENOUGH).any() or not motion.sliding.any():
        raise NotDeterminedError(
            'the arm hardly moves: the fastest joint reaches '
            f'{fastest.max():.3f} rad/s, give a motion above {FAST_ENOUGH:g} rad/s')
    joints = np.flatnonzero(fastest <= FAST_ENOUGH).tolist()
    if len(joints) > robot.n // 2:
        raise NotDeterminedError(
            f'{len(joints)} of {robot.n} joints hardly move '
            f"({', '.join(robot.joint_names[i] for i in joints)}): give a motion in which "
            f'at least half of them move at more than {FAST_ENOUGH:g} rad/s')


def require_plausible(motion: Motion, robot: Robot) -> None:
    """Raise InputError for torques of another sign or scale, or without the robot's weight."""
    # The error names joints and possible reasons: motor currents, another sign, a driver that
    # compensates gravity. A payload and the friction are estimated too, so that they do not appear
    # as a wrong scale.
    factors, deviations = weight_factors(motion, robot)
    known = deviations < KNOWN * np.maximum(np.abs(factors), 1.0)
    if not known.any():
        return  # the weight does not load the joints
    names = np.array(robot.joint_names)
    if (np.abs(factors[known]) < NONE + 2.0 * deviations[known]).all():
        raise InputError(
            "the torques do not contain the arm's weight (factors "
            f'{_listed(names[known], factors[known])}): the driver compensates gravity; tell it '
            'by driver_compensates, or record torques that contain the weight')
    for i in np.flatnonzero(known & (factors + 2.0 * deviations < 0.0)).tolist():
        raise InputError(
            f"the torque of joint '{names[i]}' has the opposite sign of its weight: give "
            'torques of the motor, positive in the direction of the joint')
    wrong = known & ((factors < LEAST) | (factors > GREATEST))
    if int(wrong.sum()) > max(1, int(known.sum()) // 4):
        raise InputError(
            f'the torques are not those of this robot (measured by weight: '
            f'{_listed(names[known], factors[known])}): they may be motor currents, or torques '
            f'before the gear; give N m, with factors of {LEAST:g} to {GREATEST:g}')


def weight_factors(motion: Motion, robot: Robot) -> tuple[Array, Array]:
    """Ratio of measured to modelled weight of each joint (n,), and its standard deviation (n,)."""
    # The weight is the torque due to gravity. One more factor, common to all joints, scales the
    # torques due to velocities and accelerations. A payload is estimated too, unless its mass
    # would be negative.
    n, body = motion.n, robot.frames[robot.tip][0]
    q, rest = motion.samples.q, np.zeros_like(motion.samples.q)
    weight = motion.samples.filtered(
        regressor(robot, q, rest, rest) @ inertial_parameters(robot.inertia).ravel())
    dynamic = motion.rigid_torque(robot) - weight
    columns = np.concatenate([weight[:, :, None] * np.eye(n), dynamic[:, :, None],
                              motion.friction, motion.body_columns(np.array([body]))], axis=2)
    found = fit(columns, motion.torque, motion.sliding)
    if float(found.values[-10]) < 0.0:
        found = fit(columns[:, :, :-10], motion.torque, motion.sliding)
    return found.values[:n], found.deviations[:n]


def _listed(names: NDArray[np.str_], factors: Array) -> str:
    return ', '.join(f'{name} {factor:.2f}' for name, factor in zip(names, factors, strict=True))
