# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""MuJoCo arm for osc_identify --simulate: payload, friction, wrong link inertias, noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.law import Law
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.settings import Settings
from osc_ros.identification.corrected_urdf import corrected_urdf
from osc_ros.identification.drive import (
    BLEND,
    compensated_errors,
    DAMPING,
    FREQUENCY,
    Guard,
    posture_goal,
    SETTLE,
    StoppedError,
)
from osc_ros.identification.excitation import Trajectory
from osc_ros.identification.fit.consistent import Bodies
from osc_ros.identification.fit.inertial import inertial_parameters
from osc_ros.identification.fit.joint_recording import Recording
from osc_ros.loop.rest_check import weights
from osc_ros.model.robot import Robot
from osc_ros.sim.plant import Plant
from osc_ros.sim.plant_payload import with_payload

Array = NDArray[np.float64]

PERIOD = 2e-3  # control period [s]
GUARDED = 10  # control periods between two checks of the guard
# If the description has no rotor inertias: acceleration of the rotor alone under the torque limit
# of its joint [rad/s²], which defines the rotor inertia. Without a rotor, friction would
# stop a light joint at once.
MOTOR_ACCELERATION = 1000.0
# Smallest distance of the start from a joint limit, as a share of the joint's range; larger than
# SPARE, below which `MotionLimits` refuses a start.
INSIDE = 0.15
RIPPLES = 100.0  # periods of the torque ripple per turn of a joint: one per motor turn


@dataclass(frozen=True, eq=False)
class Truth:
    """Difference of the simulated arm from its description."""

    mass: float = 1.2  # of the payload [kg]
    center: tuple[float, float, float] = (0.02, -0.015, 0.06)  # payload's centre of mass [m]
    # payload, about its centre of mass [kg m²]: xx xy xz yy yz zz
    inertia: tuple[float, ...] = (0.004, 0.0, 0.0, 0.003, 0.0, 0.002)
    # Standard deviation of the log-Cholesky parameters of the links' inertias, about half of the
    # relative error of the masses.
    links: float = 0.0
    coulomb: float = 0.012  # share of the effort limit; each joint has 0.6 to 1.4 times this
    viscous: float = 0.012  # share of the effort limit, likewise [s/rad]
    encoder: float = 2e-5  # standard deviation of the positions [rad]
    # Share of the effort limit: amplitude of an unmeasured torque, sinusoidal in the joint angle
    # (RIPPLES periods per revolution), and standard deviation of the measured torques.
    ripple: float = 0.003


class SimulatedMover:
    """An arm in MuJoCo under the control of a law."""

    # Both use `robot` with rotor inertias, see MOTOR_ACCELERATION. The start q (n,) [rad, m] is
    # moved away from joint limits, see INSIDE.

    def __init__(self, text: str, robot: Robot, q: Array, truth: Truth, seed: int = 1) -> None:
        effort = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, 100.0)
        if not robot.rotor_inertia.any():
            robot = replace(robot, rotor_inertia=effort / MOTOR_ACCELERATION)
        self.robot, self.text, self._truth = robot, text, truth
        self._rng = np.random.default_rng(seed)
        given = inertial_parameters(robot.inertia)
        bodies = np.flatnonzero(given[:, 0] > 0.0)
        self._parameters = given.copy()
        if truth.links:
            changes = truth.links * self._rng.standard_normal((len(bodies), 10))
            self._parameters[bodies] = Bodies(given[bodies]).parameters(changes)
            text = corrected_urdf(text, robot, self._parameters)
        self._coulomb, self._viscous = (
            share * effort * self._rng.uniform(0.6, 1.4, robot.n)
            for share in (truth.coulomb, truth.viscous))
        self._ripple = truth.ripple * effort
        self._plant = Plant(
            with_payload(text, robot.tip, {
                'payload.mass': truth.mass, 'payload.center_of_mass': truth.center,
                'payload.inertia': truth.inertia}),
            robot.base, robot.joint_names, rotor_inertia=robot.rotor_inertia,
            gravity=robot.gravity, damping=self._viscous, friction=self._coulomb)
        lower, upper = robot.position_limits.T
        spare = np.where(np.isfinite(upper - lower), INSIDE * (upper - lower), 0.0)
        q = np.clip(q, lower + spare, upper - spare)
        self._plant.reset(q)
        settings = Settings.of(robot, posture=Posture(FREQUENCY, DAMPING), blend_time=BLEND,
                               disturbance=compensated_errors(robot))
        self._law = Law(robot, replace(settings, tasks=tuple(
            replace(task, activation=0.0) for task in settings.tasks)))
        self._law.hold(q)
        # as at the activation of a controller whose arm reports its efforts at rest
        self._law.begin_with(self._plant.weight - weights(robot, q[None])[0])
        self._start = np.array(q)

    def positions(self) -> Array:
        """Return the present joint positions (n,) [rad, m]."""
        return self._plant.q

    def perform(self, trajectory: Trajectory, guard: Guard) -> Recording:
        """Execute a trajectory and return its recording; StoppedError if the guard stops it."""
        rows, begin = [], self._plant.time + SETTLE
        while self._plant.time < begin + trajectory.duration + SETTLE:
            since = self._plant.time - begin
            q, qd = self._plant.q, self._plant.qd
            stop_reason = '' if len(rows) % GUARDED else guard.stop_reason(since, q, qd)
            if stop_reason:
                raise StoppedError(f'stopped at {since:.2f} s: {stop_reason}')
            self._law.set_posture(posture_goal(trajectory, since, self.robot))
            tau = self._law.torque(self._plant.time, q, qd)
            rows.append((self._plant.time, q, tau))
            self._plant.step(tau + self._ripple * np.sin(RIPPLES * q), round(PERIOD / 1e-3))
            self._law.plan()
        time, q, tau = (np.array(column) for column in zip(*rows))
        return Recording(self.robot.joint_names, time,
                         q + self._truth.encoder * self._rng.standard_normal(q.shape),
                         tau + self._ripple * self._rng.standard_normal(tau.shape))

    def close(self) -> None:
        """Do nothing, because there is no connection."""

    def true_parameters(self) -> dict[str, Any]:
        """Return the true payload, friction and inertial parameters of the links."""
        return {'payload.mass': self._truth.mass,
                'payload.center_of_mass': list(self._truth.center),
                'payload.inertia': list(self._truth.inertia),
                'friction.coulomb': self._coulomb.tolist(),
                'friction.viscous': self._viscous.tolist(),
                'parameters': self._parameters.tolist()}
