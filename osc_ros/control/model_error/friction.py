# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Friction compensation of the joints that does not amplify the motion that it causes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.dynamics.algebra.spatial import CHANGE_RATE
from osc_ros.dynamics.methods import default_method
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

# Look-ahead of the reference velocity for the sign of dry friction [s]. The compensation must
# change its sign shortly before the joint reverses.
LOOK_AHEAD = 0.01
# FEEDBACK: largest gain of the compensation's feedback, relative to that of the law's feedback.
# FASTEST_LOOP: largest product of the tick [s] and the sum of the rates [1/s] of both feedbacks. A
# sampled velocity loop with one tick of delay is stable below 1.
FEEDBACK, FASTEST_LOOP = 4.0, 0.4
# Share of the model's torque for the reference motion. Feedback up to this share counts as an
# error of the model and is not amplified.
MODEL_ERROR = 0.1
# Width of the range below the velocity limit in which the compensation fades out, as a share of
# the limit.
FADE = 0.2
# Bound of the compensation: on its own it needs at least (reaction time of the limits) / PUSH to
# accelerate a joint with the model's least inertia to its velocity limit. So the law can correct
# it, and a torque that lasts some ticks too long on a busy computer drives no joint too fast.
PUSH = 2.0
_STATES = 16  # number of configurations sampled for the least inertia
VELOCITY = 0.02  # default width of the transition from one direction to the other [rad/s, m/s]


def feedback_gain(rate: float, tick: float) -> float:
    """Gain κ of the compensation's feedback, at most FEEDBACK."""
    # `rate`: highest rate of the tasks' velocity feedback [1/s]; `tick`: between torques [s].
    loop = rate * tick
    return FEEDBACK if loop <= 0.0 else min(max(FASTEST_LOOP / loop - 1.0, 0.0), FEEDBACK)


gain_of = inlined(feedback_gain)  # for kernels


@kernel
def put_compensation(m, d, gain):
    """Write the torques (n,) [N·m; N] that compensate friction; formulas are in `Friction`."""
    # Their sum with `tau_limited` satisfies the effort limits if `tau_limited` does. τₑ is
    # `tau_limited` minus the model's torque for the reference motion, see `step.reference`;
    # `gain` is κ.
    torque, model, q, qd, tau = d.tau_friction, d.reference_tau, d.q, d.qd, d.tau_limited
    coulomb, viscous = m.friction[0], m.friction[1]
    # one factor for all joints, because the torque of each joint accelerates the others too
    common = 1.0
    for i in range(len(torque)):
        if d.most_speed[i] < np.inf:
            x = 1.0 - np.abs(qd[i]) / d.most_speed[i]
            common = min(common, max(x / FADE, 0.0))
    common *= common * (3.0 - 2.0 * common)
    for i in range(len(torque)):
        reference, acceleration = d.reference_qd[i], d.reference_qdd[i]
        fastest, rate, deceleration = d.most_speed[i], d.reaction_rate[i], d.deceleration[i]
        most = PUSH * d.least_inertia[i] * fastest * rate
        sliding = np.tanh((reference + LOOK_AHEAD * acceleration) / m.sliding)
        wanted = coulomb[i] * sliding + viscous[i] * reference
        free = coulomb[i] * (1.0 - np.abs(sliding))
        lower, upper = min(wanted, 0.0) - free, max(wanted, 0.0) + free
        unsure = MODEL_ERROR * np.abs(sliding * model[i])
        demand = tau[i] - model[i]
        feedback = gain * (demand - min(max(demand, -unsure), unsure))
        wanted = min(max(min(max(wanted, -most), most) + feedback, lower), upper)
        wanted = min(max(wanted, -most), most)  # see PUSH
        x = 1.0
        if fastest < np.inf:
            distance = d.most_q[i] - q[i] if wanted > 0.0 else q[i] - d.least_q[i]
            hasty = deceleration / rate
            allowed = min(fastest, np.sqrt(hasty * hasty + 2.0 * deceleration
                                           * max(distance, 0.0)) - hasty)
            x = min(max((allowed - np.abs(qd[i])) / (FADE * fastest), 0.0), 1.0)
        effort = d.most_effort[i]
        least, most = min(tau[i], -effort) - tau[i], max(tau[i], effort) - tau[i]
        torque[i] = min(max(min(common, x * x * (3.0 - 2.0 * x)) * wanted, least), most)


@dataclass(frozen=True, eq=False)
class Friction(Group, group='friction'):
    """
    Friction of the joints, f_c sign(q̇) + f_v q̇, and its compensation.

    Compensation by the sign of the *measured* velocity adds energy to every motion, including the
    motion that it causes: if the coefficients are too high, the joint runs away. Therefore:

    - The feedforward of a joint that the targets or the posture move is
      φ = f_c tanh(q̇ᵣ/v_s) + f_v q̇ᵣ,
      with the reference velocity q̇ᵣ, which does not depend on the measured one
      (`step.reference`). This is the desired-velocity compensation of Armstrong-Hélouvry, Dupont
      and Canudas de Wit, "A survey of models, analysis tools and compensation methods for the
      control of machines with friction", Automatica 30 (1994), section 5. Kelly, Llamas and Campa,
      "A measurement procedure for viscous and Coulomb friction", IEEE Trans. Instrum. Meas. 49
      (2000), identify f_c, f_v.
    - τₑ is the law's torque in addition to the model's torque for the reference motion. The
      compensation is φ + κ τₑ, saturated between 0 and φ while the reference moves, and to [-f_c,
      f_c] while it rests. Within this saturation τₑ is amplified by 1 + κ. So the compensation
      lies in the sector [0, κ τₑ] about φ. If φ is 0, the compensation does at most κ times the
      work of the law on a joint, and it decreases as soon as the law brakes. `feedback_gain`
      bounds κ, so that the amplified law stays well damped at its rate.
    - φ and κ τₑ fade out towards the speed that the limits of position and velocity allow
      (`FADE`), and are zero above it. Near the velocity limit of one joint the compensation of all
      joints fades, because each joint accelerates the others through the inertia of the arm, most
      of all a light wrist.
    - PUSH bounds the compensation. A geared joint that needs more has rotor inertia, which belongs
      in the model.

    Raises
    ------
    InputError
        Shapes differ, or a number is not accepted.

    """

    coulomb: Array = setting(
        text='Coulomb friction of every joint, base first, compensated in the direction of the '
        'commanded motion [N m]; empty: friction.from_description', lower=0.0)
    viscous: Array = setting(text='Viscous friction of every joint, base first [N m s/rad]; '
                             'empty: friction.from_description', lower=0.0)
    velocity: float = setting(VELOCITY, 'Width v_s of the transition from one direction to the '
                              'other [rad/s; m/s]', name='', lower=1e-9)

    @classmethod
    def of(cls, robot: Robot, share: float) -> Friction | None:
        """Return a share of the friction in a robot's description; None if it has no friction."""
        coulomb, viscous = share * robot.coulomb_friction, share * robot.viscous_friction
        return cls(coulomb, viscous) if coulomb.any() or viscous.any() else None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coulomb.shape != self.viscous.shape:
            raise InputError(f'friction has {len(self.coulomb)} entries of coulomb and '
                             f'{len(self.viscous)} of viscous: give one each a joint')


def duration_of_change(before: Friction | None, after: Friction | None, effort: Array,
                       speed: Array) -> float:
    """Least time for a C¹ change between two frictions or None [s]."""
    # A torque changes by at most CHANGE_RATE of its limit per second; the limits `effort` and
    # `speed` (n,) may be infinite.
    if before is after:
        return 0.0
    none = np.zeros((2, len(effort)))
    old, new = (none if one is None else np.array([one.coulomb, one.viscous])
                for one in (before, after))
    change = np.abs(new - old) * [np.ones(len(speed)), np.where(np.isfinite(speed), speed, 1.0)]
    return 1.5 * float((change.sum(axis=0) / effort).max()) / CHANGE_RATE


def least_inertia(robot: Robot) -> Array:
    """Least inertia (n,) of each joint, the others free, over _STATES configurations [kg·m²]."""
    dynamics, rng = default_method(robot), np.random.default_rng(0)
    rest, M_inv = np.zeros(robot.n), np.zeros((robot.n, robot.n))
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    most = np.zeros(robot.n)
    for _ in range(_STATES):
        q = rng.uniform(np.minimum(lower, upper), upper)
        dynamics.outward(q, rest, None, rest)
        dynamics.inverse_mass_matrix(M_inv)
        most = np.maximum(most, np.diagonal(M_inv))
    return np.asarray(1.0 / most)
