# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Estimates a payload and the joint friction of an arm with known link inertias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.identification.fit.consistent import consistent_parameters
from osc_ros.identification.fit.friction_fit import friction_of, FrictionEstimate
from osc_ros.identification.fit.inertial import (
    center_and_inertia,
    of_point_and_inertia,
    SIZE,
    transformed,
)
from osc_ros.identification.fit.least_squares import Fit, fit
from osc_ros.identification.fit.plausibility import NotDeterminedError
from osc_ros.identification.fit.regression import Motion
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Density of the sphere that is the prior of the payload [kg/m³], and the expected relative
# deviation from this sphere (see `consistent_parameters`).
DENSITY, PRIOR = 2000.0, 3.0
LIGHT = 3.0  # a mass below this number of standard deviations counts as zero
UNSURE = 0.1  # largest accepted relative standard deviation of a mass
LIGHTEST = 0.05  # accepted standard deviation of a mass, whatever its relative value [kg]
ILL_CONDITIONED = 300.0


@dataclass(frozen=True, eq=False)
class PayloadEstimate:
    """A payload at a link, and the joint friction."""

    link: str
    mass: float  # [kg]
    mass_deviation: float  # [kg]
    center: Array  # (3,) centre of mass in the link's frame [m]
    center_deviation: Array  # (3,) [m]
    # (3, 3) about the centre of mass, in the link's axes [kg m²]; zero if not `has_inertia`
    inertia: Array
    inertia_deviation: Array  # (6,) standard deviations of xx xy xz yy yz zz [kg m²]
    has_inertia: bool  # whether the data determine the inertia
    friction: FrictionEstimate
    fit: Fit  # regression of ten parameters of the payload, then of the friction parameters
    values: Array  # (p,) consistent values of these parameters

    def predicted_torque(self, motion: Motion, robot: Robot) -> Array:
        """Return the torques (k, n) of robot, payload and friction for a motion [N m]."""
        columns = payload_columns(motion, robot, self.link)
        return motion.rigid_torque(robot) + columns @ self.values


def payload_estimate(motion: Motion, robot: Robot, link: str | None = None) -> PayloadEstimate:
    """Return the payload at a link (default: the first tip), and the friction, from a motion."""
    # The robot must have no payload. Errors of the parameters of its links add to the estimate.
    # InputError if the robot has no such moving link, NotDeterminedError if the motion does not
    # determine the mass, or the mass is negative.
    link = robot.tip if link is None else link
    columns = payload_columns(motion, robot, link)
    found = fit(columns, motion.torque - motion.rigid_torque(robot), motion.sliding)
    mass, deviation = float(found.values[0]), float(found.deviations[0])
    if found.condition > ILL_CONDITIONED or not np.isfinite(deviation) or (
            deviation > max(LIGHTEST, UNSURE * abs(mass))):
        raise NotDeterminedError(
            f'the motion does not tell the payload: mass {mass:.3g} kg with a standard deviation '
            f'of {deviation:.2g} kg, condition number {found.condition:.0f} (must be at most '
            f'{ILL_CONDITIONED:.0f}); move more joints, farther or faster')
    if mass < -LIGHT * deviation - LIGHTEST:
        raise NotDeterminedError(
            f'the payload has a negative mass ({mass:.3f} ± {deviation:.3f} kg): the description '
            'of the arm is heavier than the arm, or contains the payload; identify the arm first')
    friction = friction_of(found, SIZE, motion.samples)
    if mass < max(LIGHT * deviation, 1e-3):
        return _nothing(found, link, deviation, friction)
    return _payload(found, link, friction)


def payload_columns(motion: Motion, robot: Robot, link: str) -> Array:
    """Return the columns (k, n, 10 + 4 n) of a payload at a link, and of the friction."""
    if link not in robot.frames or robot.frames[link][0] < 0:
        links = ', '.join(name for name, (body, _) in robot.frames.items() if body >= 0)
        raise InputError(f"'{link}' is no moving link of robot '{robot.name}': must be one of "
                         + links)
    body, T = robot.frames[link]
    to_body = np.column_stack([transformed(unit, T) for unit in np.eye(SIZE)])
    return np.concatenate([motion.body_columns(np.array([body])) @ to_body, motion.friction],
                          axis=2)


def _payload(found: Fit, link: str, friction: FrictionEstimate) -> PayloadEstimate:
    mass = found.values[0]
    center = found.values[1:4] / mass
    radius = (3.0 * mass / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
    sphere = of_point_and_inertia(mass, center, 0.4 * mass * radius ** 2 * np.eye(3))
    bodies, others = consistent_parameters(found, sphere[None], PRIOR)
    mass, (center, inertia) = float(bodies[0, 0]), center_and_inertia(bodies[0])
    covariance = found.covariance[:SIZE, :SIZE]
    by_center = np.column_stack([-center / mass, np.eye(3) / mass])
    center_deviation = np.sqrt(np.diagonal(by_center @ covariance[:4, :4] @ by_center.T))
    inertia_deviation = _inertia_deviation(mass, center, covariance)
    size = float(np.trace(inertia)) / 3.0
    has_inertia = bool(np.median(inertia_deviation[[0, 3, 5]]) < 0.5 * size)
    return PayloadEstimate(
        link, mass, float(found.deviations[0]), center, center_deviation,
        inertia if has_inertia else np.zeros((3, 3)), inertia_deviation, has_inertia, friction,
        found, np.concatenate([bodies[0], others]))


def _nothing(found: Fit, link: str, deviation: float, friction: FrictionEstimate
             ) -> PayloadEstimate:
    values = found.values.copy()
    values[:SIZE] = 0.0
    return PayloadEstimate(link, 0.0, deviation, np.zeros(3), np.full(3, np.inf),
                           np.zeros((3, 3)), np.full(6, np.inf), False, friction, found, values)


def _inertia_deviation(mass: float, center: Array, covariance: Array) -> Array:
    """Return the standard deviations (6,), xx xy xz yy yz zz, of the inertia about the centre."""
    at = np.concatenate([[mass], mass * center, np.zeros(6)])

    def central(parameters: Array) -> Array:
        inertia = center_and_inertia(parameters)[1]
        return np.asarray(inertia[np.triu_indices(3)])

    steps = 1e-6 * np.eye(SIZE)
    J = np.column_stack([(central(at + step) - central(at - step)) / 2e-6 for step in steps])
    return np.sqrt(np.maximum(np.diagonal(J @ covariance @ J.T), 0.0))
