# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimates the inertial parameters of all links, and the joint friction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from osc_ros.identification.fit.base import BaseParameters
from osc_ros.identification.fit.consistent import consistent_parameters
from osc_ros.identification.fit.friction_fit import friction_of, FrictionEstimate
from osc_ros.identification.fit.inertial import inertial_parameters, spatial_inertia
from osc_ros.identification.fit.least_squares import Fit, fit
from osc_ros.identification.fit.plausibility import NotDeterminedError
from osc_ros.identification.fit.regression import Motion
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

PRIOR = 0.3  # expected relative error of the description; see `consistent_parameters`
ILL_CONDITIONED = 2000.0


@dataclass(frozen=True, eq=False)
class ArmEstimate:
    """Physically consistent inertial parameters of an arm, and its joint friction."""

    robot: Robot  # with the estimated inertias
    parameters: Array  # (b, 10) estimated inertial parameters
    given: Array  # (b, 10) those of the description
    base: BaseParameters
    corrections: Array  # (r,) of the base parameters, from the data alone
    deviations: Array  # (r,) standard deviations of these
    consistent_corrections: Array  # (r,) that result from the consistent parameters
    friction: FrictionEstimate
    fit: Fit  # regression of the base parameters, then of the friction parameters
    friction_values: Array  # (4 n,) of the friction columns

    @property
    def is_determined(self) -> NDArray[np.bool_]:
        """Whether (r,) each correction exceeds its standard deviation."""
        return np.asarray(self.deviations < np.abs(self.corrections))

    def predicted_torque(self, motion: Motion, robot: Robot) -> Array:
        """Return the torques (k, n) of the arm and its friction for a motion [N m]."""
        return motion.rigid_torque(self.robot) + motion.friction @ self.friction_values


def arm_estimate(motion: Motion, robot: Robot, prior: float = PRIOR) -> ArmEstimate:
    """Return corrected inertial parameters of an arm, and its friction, from a motion."""
    # A payload of the robot is kept unchanged. `prior`: expected relative error of the
    # description. NotDeterminedError if the motion does not determine the base parameters.
    bare = robot.without_payload()
    given = inertial_parameters(bare.inertia)
    carried = motion.rigid_torque(robot) - motion.rigid_torque(bare)
    torque = motion.torque - motion.rotor - carried
    base = BaseParameters.of(bare)
    r = len(base.independent)
    columns = np.concatenate([motion.inertial[:, :, base.independent], motion.friction], axis=2)
    found = fit(columns, torque, motion.sliding)
    if found.condition > ILL_CONDITIONED or not np.isfinite(found.deviations[:r]).all():
        raise NotDeterminedError(
            'the motion does not tell the inertial parameters of the arm: condition number '
            f'{found.condition:.0f}, must be at most {ILL_CONDITIONED:.0f}; move all joints, '
            'farther and faster')
    bodies = np.flatnonzero(given[:, 0] > 0.0)
    everything = np.concatenate([motion.body_columns(bodies), motion.friction], axis=2)
    whole = replace(found, A=(everything / found.sigma[:, None])[motion.sliding])
    consistent, friction_values = consistent_parameters(whole, given[bodies], prior)
    parameters = given.copy()
    parameters[bodies] = consistent
    changed = replace(bare, inertia=spatial_inertia(parameters))
    extra = robot.inertia - bare.inertia
    loaded = changed if robot is bare else replace(
        changed, inertia=changed.inertia + extra, described_inertia=changed.inertia)
    friction = friction_of(replace(found, values=np.concatenate(
        [found.values[:r], friction_values])), r, motion.samples)
    return ArmEstimate(
        loaded, parameters, given, base, found.values[:r] - base.values(given),
        found.deviations[:r], base.values(parameters) - base.values(given), friction, found,
        friction_values)


def relative_mass_changes(estimate: ArmEstimate) -> Array:
    """Return the relative changes (b,) of the bodies' masses; 0 for bodies without mass."""
    given = estimate.given[:, 0]
    return np.where(given > 0.0, estimate.parameters[:, 0] / np.where(given > 0.0, given, 1.0)
                    - 1.0, 0.0)

