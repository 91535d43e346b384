# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Analyses a robot description: home, singular postures, reach, task inertia, problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.tasks.bandwidth import largest_natural_frequency
from osc_ros.dynamics.algebra.conditioning import conditioning, scaled_jacobian
from osc_ros.dynamics.algebra.kinematics import placement, tip_jacobian
from osc_ros.errors import InputError, ModelError
from osc_ros.model import urdf
from osc_ros.model.robot import Robot
from osc_ros.tools.check import description_rules
from osc_ros.tools.check.arm_dynamics import mass_matrix
from osc_ros.tools.check.description_rules import Description, links_by_joint

Array = NDArray[np.float64]

SAMPLES = 1000  # random postures, for home and reach
SINGULAR = 0.02  # smallest singular value, relative to the largest, of a singular posture
RANK = 1e-6  # relative singular values below this are freedoms that the tip does not have
STEPS = 181  # postures of a scan of one joint
RATES = (100.0, 250.0, 500.0, 1000.0)  # of joint states [Hz]
AXES = ('rotation x', 'rotation y', 'rotation z', 'x', 'y', 'z')


@dataclass(frozen=True)
class Singularity:
    """A singular posture near home."""

    joint: str  # the only joint that differs from home
    position: float  # of this joint [rad, m]
    distance: float  # of this joint from home [rad, m]
    direction: str  # axis along which the tip cannot move, one of AXES


@dataclass(frozen=True)
class Findings:
    """Results of the analysis of an arm."""

    robot: Robot
    # links that move with each body, by its joint; '': fixed to the base
    lumped: dict[str, list[str]]
    locked: dict[str, str]  # joints of the description that do not move here, and the reason
    home: Array  # (n,) [rad, m]
    weight: Array  # (n,) torques that hold the arm at home [N m, N]
    # (6,) 1 / (Λ⁻¹)ᵢᵢ: inertia of the tip along each axis alone [kg m², kg]; infinite along axes
    # in which the tip cannot move
    effective_mass: Array
    Lambda: Array  # (6, 6) pseudo-inverse of J M⁻¹ Jᵀ at home, [angular; linear]
    freedoms: int  # of the tip: rank of its Jacobian away from singular postures
    conditioning: float  # smallest / largest singular value of the scaled Jacobian at home
    singularities: list[Singularity]  # nearest first
    # smallest and largest distance of the tip from the first joint in random postures [m]
    reach: tuple[float, float]
    frequencies: dict[float, float]  # largest natural frequency [rad/s] by state rate [Hz]
    notes: list[str]  # doubtful or missing data of the model, with the remedy
    problems: list[str]  # reasons why the arm cannot be controlled, with the remedy


def findings(robot: Robot, text: str, warned: tuple[Warning, ...] = (),
             home: Array | None = None, locked: dict[str, float] | None = None) -> Findings:
    """Return the findings about an arm of a URDF (`text`)."""
    # `warned`: the warnings of its description; `home` (n,) [rad, m] is by default the best
    # conditioned of random postures within the limits; `locked`: positions [rad, m] of joints that
    # do not move. ModelError or InputError if the robot or `home` cannot be used.
    _require_usable(robot, home)
    postures = _postures(robot)
    scaled = [_scaled(robot, q) for q in postures]
    freedoms = max(_rank(one) for one in scaled)
    if home is None:
        home = postures[int(np.argmax([conditioning(one, freedoms) for one in scaled]))]
    M, J = mass_matrix(robot, home), tip_jacobian(robot, home)
    mobility = J @ np.linalg.solve(M, J.T)
    with np.errstate(divide='ignore'):
        # motion within rounding errors counts as none
        effective = np.where(np.diag(mobility) > 1e-12 * np.trace(mobility),
                             1.0 / np.diag(mobility), np.inf)
    about = Description(robot, home, freedoms, warned)
    distances = [float(np.linalg.norm(at.T_tip[:3, 3] - at.p[0]))
                 for at in (placement(robot, q) for q in postures)]
    return Findings(
        robot=robot, lumped=links_by_joint(robot), locked=_locked(text, robot, locked or {}),
        home=home,
        weight=about.weight, effective_mass=effective, Lambda=np.linalg.pinv(mobility, RANK, True),
        freedoms=freedoms, conditioning=conditioning(_scaled(robot, home), freedoms),
        singularities=_singularities(robot, home, freedoms),
        reach=(min(distances), max(distances)),
        frequencies={rate: largest_natural_frequency(1.0, 1.0 / rate) for rate in RATES},
        notes=description_rules.notes(about),
        problems=description_rules.problems(about))


def _postures(robot: Robot) -> Array:
    """Return random postures (k, n) within the position limits; the first is mid-range."""
    low, high = np.clip(robot.position_limits.T, -np.pi, np.pi)
    shares = np.random.default_rng(0).uniform(0.1, 0.9, size=(SAMPLES, robot.n))
    shares[0] = 0.5
    return np.asarray(low + shares * (high - low))


def _scaled(robot: Robot, q: Array) -> Array:
    return scaled_jacobian(tip_jacobian(robot, q))


def _rank(scaled: Array) -> int:
    values = np.linalg.svd(scaled, compute_uv=False)
    return int(np.sum(values > max(RANK * values[0], 1e-300)))


def _require_usable(robot: Robot, home: Array | None) -> None:
    """Raise ModelError for spherical joints, InputError for wrong size or numbers of `home`."""
    for joint in np.array(robot.joints)[robot.spherical]:
        raise ModelError(f"joint '{joint}' has three rotations: the controller drives joints of "
                         'one freedom: lock it, or describe it by three revolute joints')
    if home is not None and (len(home) != robot.n or not np.isfinite(home).all()):
        raise InputError(f'home has {len(home)} numbers: must be a finite number for each of '
                         + ', '.join(robot.joint_names))


def _singularities(robot: Robot, home: Array, freedoms: int) -> list[Singularity]:
    """Return the nearest singular posture for each joint, if only this joint moves from home."""
    found = []
    low, high = np.clip(robot.position_limits.T, home - np.pi, home + np.pi)
    if conditioning(_scaled(robot, home), freedoms) < SINGULAR:
        return []
    for k, name in enumerate(robot.joint_names):
        positions = np.linspace(low[k], high[k], STEPS)
        ratios = []
        for position in positions:
            q = home.copy()
            q[k] = position
            ratios.append(conditioning(_scaled(robot, q), freedoms))
        ratio = np.array(ratios)
        ends = np.concatenate([[np.inf], ratio, [np.inf]])
        minima = np.flatnonzero((ratio <= ends[:-2]) & (ratio <= ends[2:]) & (ratio < SINGULAR))
        if len(minima):
            best = minima[np.argmin(np.abs(positions[minima] - home[k]))]
            q = home.copy()
            q[k] = positions[best]
            weakest = np.linalg.svd(_scaled(robot, q))[0][:, freedoms - 1]
            found.append(Singularity(name, float(positions[best]),
                                     float(abs(positions[best] - home[k])),
                                     AXES[int(np.argmax(np.abs(weakest)))]))
    return sorted(found, key=lambda one: one.distance)


def _locked(text: str, robot: Robot, given: dict[str, float]) -> dict[str, str]:
    """Return the movable joints of the description that do not move here, each with the reason."""
    tree, moving = urdf.description(text), set(robot.joint_names)
    found = {}
    for i, (joint, kind) in enumerate(zip(tree.joints, tree.kinds)):
        if kind == 'fixed' or joint in moving:
            continue
        reason = 'not between base and tip'
        if i in tree.mimics:
            reason = f"mimics '{tree.joints[tree.mimics[i].source]}'"
        found[joint] = (f'locked at {given[joint]:g}' if joint in given
                        else f'{reason}: locked at its position 0')
    return found
