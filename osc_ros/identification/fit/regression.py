# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A recorded motion with its filtered regressor, and torque errors of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.identification.fit.friction_fit import friction_columns, sliding_samples
from osc_ros.identification.fit.inertial import inertial_parameters, SIZE
from osc_ros.identification.fit.joint_recording import Recording
from osc_ros.identification.fit.regressor import regressor
from osc_ros.identification.fit.samples import Samples, samples
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Motion:
    """A recorded motion of one robot, prepared for regressions."""

    samples: Samples
    inertial: Array  # (k, n, 10 b) filtered regressor of the inertial parameters
    friction: Array  # (k, n, 4 n) filtered columns of the friction
    rotor: Array  # (k, n) filtered torque of the rotor inertias [N m]
    torque: Array  # (k, n) filtered measured torque [N m]
    sliding: NDArray[np.bool_]  # (k, n) whether the joint slides: the friction model applies

    @classmethod
    def of(cls, robot: Robot, recording: Recording) -> Motion:
        """Return the motion of a recording."""
        # InputError: the recording cannot be used or lacks a joint, or a joint is spherical
        if robot.spherical.any():
            raise InputError(f"joint '{robot.joints[int(np.argmax(robot.spherical))]}' is "
                             'spherical: must be revolute or prismatic')
        found = samples(recording.of_joints(robot.joint_names))
        Y = regressor(robot, found.q, found.qd, found.qdd)
        near = found.filtered(sliding_samples(found).astype(np.float64))
        return cls(found, found.filtered(Y), found.filtered(friction_columns(found)),
                   found.filtered(robot.rotor_inertia * found.qdd),
                   found.filtered(found.torque), near > 0.9)

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.torque.shape[1])

    def body_columns(self, bodies: NDArray[np.intp]) -> Array:
        """Return the columns (k, n, 10 m) of m bodies."""
        k, n = self.torque.shape
        blocks = self.inertial.reshape(k, n, -1, SIZE)[:, :, bodies]
        return blocks.reshape(k, n, -1)

    def rigid_torque(self, robot: Robot) -> Array:
        """Return the torques (k, n) of a robot's bodies and rotors, without friction [N m]."""
        return self.inertial @ inertial_parameters(robot.inertia).ravel() + self.rotor

    def error(self, predicted: Array) -> Array:
        """Return the RMS error (n,) of predicted torques (k, n) in sliding samples [N m]."""
        error = np.where(self.sliding, self.torque - predicted, np.nan)
        with np.errstate(invalid='ignore'):
            moved = np.asarray(self.sliding.any(axis=0))
            return np.asarray(np.sqrt([np.nanmean(column ** 2) if known else np.nan
                                     for column, known in zip(error.T, moved.tolist())]))


def described_friction(robot: Robot) -> Array:
    """Return the values (4 n,) of the friction columns for the friction of the description."""
    values = np.zeros((robot.n, 4))
    values[:, 0], values[:, 2] = robot.coulomb_friction, robot.viscous_friction
    return values.ravel()


def total_error(error: Array) -> float:
    """Return the RMS of errors (n,) over all joints that moved [N m]."""
    return float(np.sqrt(np.nanmean(error ** 2)))
