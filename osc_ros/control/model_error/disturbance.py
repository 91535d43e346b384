# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Compensation of torques that are not in the model: unknown load, wrong masses, dry friction.

The external torque τ_ext of the momentum observer contains them, and contacts too. The
compensation c is added to the torque of the law, and follows -τ_ext. A joint that dry friction
holds has τ_ext = -(law's torque + c) + gravity, so c then integrates the torque of the law until
the joint moves: no error remains at rest. For a light wrist this torque is tiny, and c would need
many seconds. Therefore c has a least rate of change, in the direction of the law's torque, while
friction holds a joint at rest. It grows with the acceleration that the law would cause, up to
`friction` / `rise`.

These rules decide which part of τ_ext is load and friction, and which is contact:

1. The part that a wrench along yielding axes (`yielding_axes`) explains is excluded, because along
   an axis of force the robot pushes on the environment, and a spring must yield to loads too.
2. Contacts are sudden; loads and friction change slowly. If |τ_ext + c| of a joint, without the
   part of rule 1, exceeds its threshold, this is a contact: c is held until all joints are below
   half of their thresholds. For the time `free` after the start no contact is assumed, so that a
   load that is there from the start is compensated.
3. c and its rate are bounded by the torques that the model errors of `Disturbance` can cause. This
   bounds the force on an obstacle that is touched too slowly for rule 2.
4. c is held while the caller requests it (a target waits for the arm), while the observer has not
   settled, and over gaps of the states.
5. The sum with the law's torque satisfies the effort limits; c does not wind up beyond them.

If c is switched on or off, it changes at the rate of rule 3, too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.compile.record import Recorded, Slot, Table
from osc_ros.control.model_error import observer
from osc_ros.control.model_error.friction import least_inertia
from osc_ros.control.model_error.observer import LONGEST_STEP, low_pass, share
from osc_ros.control.tasks.task import Stiffness, Task
from osc_ros.dynamics.algebra.vectors import assign
from osc_ros.dynamics.trees.momentum import Momentum
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SETTLED = 0.95  # the observer's estimate is used when at least this share of it has settled
# Largest product of the filter gains per tick of observer and compensation. With a delay of one
# more tick, and true inertias of half the model's, the loop through both is then stable at 200 Hz
# and above.
QUICKEST = 0.06
LEAST = 1e-12  # a smaller compensation is set to 0, because denormal numbers are slow [N·m]
# A joint slower than RESTS [rad/s, m/s] rests. ACCELERATED: accelerations that the law would cause
# [rad/s², m/s²], between which the least rate for a stuck joint rises from 0 to `stuck_rate`. With
# the default gains they are errors of 0.05° and 0.25°. Lower ones cause hunting.
RESTS, ACCELERATED = 0.01, (0.35, 1.75)
# Rows of `limits`, see `Disturbance.limits`.
EFFORT, BOUND, SPEED, CONTACT, INERTIA = range(5)

PLAN = Table(
    'CompensationPlan',
    Slot('is_active', (1,), '', '0: the compensation returns to zero at its largest rate'),
    Slot('bandwidth', (1,), 'rad/s', 'bandwidth of the filter behind the observer'),
    Slot('stuck_rate', (1,), 'N·m/s, N/s', 'largest rate for a joint that is stuck'),
    Slot('free', (1,), 's', 'time after the start in which every torque counts as load'),
    Slot('knows_friction', (1,), '', '1 if the law compensates friction, too'),
    Slot('yields', (6,), '', '1 for the axes of the first task along which it gives way'),
    Slot('limits', (5, 'n'), 'N·m, N; of the rate N·m/s, N/s; of the inertia kg·m², kg',
         'effort limit, bound, rate, threshold of a contact, and least inertia'))

STATE = Table(
    'CompensationState',
    Slot('time', (1,), 's', 'time of the last state'),
    Slot('free', (1,), 's', 'what is left of the time in which every torque counts as load'),
    Slot('in_contact', (1,), '', '1 while the arm touches something'),
    Slot('torque', ('n',), 'N·m, N', 'compensation that is added to the torques of the law'),
    Slot('delayed', ('n',), 'N·m, N', '`torque` behind the filter of the observer'),
    Slot('friction', ('n',), 'N·m, N', 'friction compensation in the last torque'),
    Slot('filtered', ('n',), 'N·m, N', '`friction` behind the filter of the observer'))

RESULT = Table(
    'CompensationResult',
    Slot('external', ('n',), 'N·m, N', 'external torques without those of yielding axes'),
    Slot('least', ('n',), 'N·m, N', 'least change of `torque`: of joints that are stuck'))

_plan_views, _state_views, _result_views = (table.views for table in (PLAN, STATE, RESULT))
plan_views, state_views = PLAN.only('knows_friction'), STATE.only('free', 'torque')


@inlined
def _elapsed(state, time):
    """Time since the last state [s]; 0 for the first one, after a gap, and if time goes back."""
    dt = time - state.time[0]
    if np.isfinite(time):
        state.time[0] = time
    return dt if 0.0 < dt <= LONGEST_STEP else 0.0


@inlined
def _yielded(yields, axes, wrench, first, i):
    """
    Component i, base axes, of a force or moment projected on the axes that yield.

    The force or moment is `wrench` from index `first` on. `yields` (6,), see `yielding_axes`, has
    1 for the axes along which the task yields: axes of force, or axes with a stiffness.

    """
    part = 0.0
    for j in range(3):
        along = 0.0
        for k in range(3):
            along += axes[k, j] * wrench[first + k]
        part += axes[i, j] * yields[first + j] * along
    return part


@inlined
def _leave_out(plan, result, fitted, axes):
    """
    Subtract from the external torques the part that a wrench along yielding axes explains.

    `fitted` is the result of the observer: its wrench (6,) on the link [N·m, N] explains the
    external torques. Of this wrench only the components along the axes count along which the first
    task yields (axes of force, or axes with a stiffness); their joint torques are subtracted from
    `result.external` (n,) [N·m, N]. `axes` (3, 3) are the axes of the task in the base frame.

    """
    for first in (0, 3):
        for i in range(3):
            part = _yielded(plan.yields, axes, fitted.wrench, first, i)
            if part != 0.0:
                for k in range(len(result.external)):
                    result.external[k] -= fitted.columns[k, first + i] * part


@inlined
def _put_friction(state, result, seen, friction, made_up):
    """
    In the external torques, replace the friction of the observer's model by `friction` (n,).

    This is the friction compensation of the law, behind a low-pass filter like the observer's.

    """
    for k in range(len(friction)):
        state.filtered[k] = low_pass(state.filtered[k], state.friction[k], made_up)
        state.friction[k] = friction[k]
        result.external[k] += state.filtered[k] - seen.friction[k]


@inlined
def _touches(limits, state, result, was_in_contact):
    """Return whether an external torque exceeds its threshold, or half of it during a contact."""
    worst = 0.0
    for k in range(len(state.torque)):
        worst = max(worst, np.abs(result.external[k] + state.torque[k]) / limits[CONTACT, k])
    return worst > (0.5 if was_in_contact else 1.0)


@inlined
def _gain(plan, observed, dt):
    """Filter gain of the compensation for a time step dt [s], limited by QUICKEST."""
    gain = share(plan.bandwidth[0], dt)
    return min(gain, QUICKEST / max(share(observed, dt), QUICKEST)) if gain > 0.0 else gain


@inlined
def _stuck_share(external, law, qd, inertia):
    """
    Share of `stuck_rate` for a joint, with the sign of the law's torque; 0 if the joint can move.

    The joint is stuck if it rests and `external` cancels at least half of the law's torque.

    """
    if not (np.abs(qd) < RESTS and -external * law > 0.0
            and np.abs(external) >= 0.5 * np.abs(law)):
        return 0.0
    low, high = ACCELERATED
    part = min(max((np.abs(law) / inertia - low) / (high - low), 0.0), 1.0)
    return np.copysign(part * (1.0 - np.abs(qd) / RESTS), law)


@inlined
def _follow(limits, state, result, gain, dt):
    """Move the compensation towards the negative external torque, at least by `result.least`."""
    for k in range(len(state.torque)):
        c, bound, most = state.torque[k], limits[BOUND, k], dt * limits[SPEED, k]
        wanted = min(max(-result.external[k], -bound), bound)
        change = min(max(gain * (wanted - c), -most), most)
        least = min(max(c + result.least[k], -bound), bound) - c
        if least > 0.0:
            change = max(change, least)
        elif least < 0.0:
            change = min(change, least)
        state.torque[k] += change


@inlined
def _limit(limits, state, tau):
    """Limit the compensation so that its sum with tau is within the effort limits."""
    for k in range(len(tau)):
        c, effort = state.torque[k], limits[EFFORT, k]
        if np.isfinite(tau[k]):
            c = min(max(c, min(-effort - tau[k], 0.0)), max(effort - tau[k], 0.0))
        state.torque[k] = 0.0 if np.abs(c) < LEAST else c


@inlined
def _advance(own, observed, dt, tau, qd, axes, is_held, friction):
    (plan, state, result), (watching, seen, fitted) = own, observed
    state.free[0] -= dt
    assign(result.external, seen.torque)
    if len(friction) > 0:
        _put_friction(state, result, seen, friction, share(watching.bandwidth[0], dt))
    _leave_out(plan, result, fitted, axes)
    for k in range(len(qd)):
        law = tau[k] + seen.rate[k] - (friction[k] if len(friction) > 0 else 0.0)
        result.least[k] = dt * plan.stuck_rate[0] * _stuck_share(
            result.external[k] + state.delayed[k], law, qd[k], plan.limits[INERTIA, k])
    touches = state.free[0] <= 0.0 and _touches(
        plan.limits, state, result, state.in_contact[0] > 0.0)
    state.in_contact[0] = 1.0 if touches else 0.0
    if is_held or touches or 1.0 - seen.missing[0] < SETTLED:
        return
    _follow(plan.limits, state, result, _gain(plan, watching.bandwidth[0], dt), dt)


@kernel
def compensate(own, observed, time, tau, qd, axes, is_held, friction):
    """
    Advance the compensation to a state.

    Parameters
    ----------
    own : tuple of 3 flat arrays
        Records of PLAN, STATE and RESULT.
    observed : tuple of 3 flat arrays
        Plan, state and result of the observer, after `observer.observe`.
    time, tau, qd
        Time [s], torques of the law (n,) [N·m, N], and velocities (n,) [rad/s, m/s].
    axes : (3, 3)
        Axes of the first task's frame, in base axes.
    is_held : bool
        Whether to hold the compensation: a target waits for the arm, or it is in contact.
    friction : (n,) or (0,) [N·m, N]
        Friction compensation in `tau`, if any: it replaces the observer's friction model.

    """
    (plan, state, result), (watching, seen, fitted) = own, observed
    n = (len(state) - 3) // 4
    settings, at, found = _plan_views(plan, n), _state_views(state, n), _result_views(result, n)
    estimate = observer.plan_views(watching, n)
    dt = _elapsed(at, time)
    for k in range(n):
        at.delayed[k] = low_pass(at.delayed[k], at.torque[k], share(estimate.bandwidth[0], dt))
    if settings.is_active[0] > 0.0:
        views = estimate, observer.state_views(seen, n), observer.result_views(fitted, n)
        _advance((settings, at, found), views, dt, tau, qd, axes, is_held, friction)
    else:
        at.free[0], at.in_contact[0] = settings.free[0], 0.0
        found.external[:] = found.least[:] = 0.0
        _follow(settings.limits, at, found, _gain(settings, estimate.bandwidth[0], dt), dt)
    _limit(settings.limits, at, tau)


# Multiple of the friction above which a sudden torque is a contact. It is above 2, because the
# friction torque changes by twice the friction when a joint reverses.
REVERSAL = 2.5
MARGIN = 1.25  # factor on the bound; the excess overcomes the friction
SLOWER = 4.0  # factor by which the compensation follows loads more slowly than friction
LEVER = 0.1  # largest distance of the unknown payload's centre of mass from the tip [m]
_POSITIONS = 64  # number of positions that are sampled for the bounds


@dataclass(frozen=True)
class Disturbance:
    """
    Settings of the compensation: the assumed errors of the model.

    The bound of a joint's compensation is MARGIN times the sum of three torques: the payload at
    the tip, the share `masses` of the arm's own weight, both the largest over many positions, and
    the friction. A sudden torque is a contact if it exceeds REVERSAL times the friction plus the
    share of the weight.

    Attributes
    ----------
    payload : float [kg]
        Largest unknown payload; its centre of mass is at most LEVER away from the tip.
    masses : float
        Largest relative error of the masses of the links.
    friction : float [N·m; N for prismatic]
        Largest unknown dry friction of a joint.
    bandwidth : float [rad/s]
        Bandwidth of the low-pass filter behind the observer; reduced at low rates of the states.
    rise : float [s]
        Least time in which the compensation rises by `friction`; for a rise by the load, the least
        time is SLOWER times as long.
    free : float [s]
        Time after the start during which every torque counts as load.

    Raises
    ------
    InputError
        A number that is not finite, or negative; a bandwidth, friction or rise of 0.

    """

    payload: float = 1.0
    masses: float = 0.1
    friction: float = 1.0
    bandwidth: float = 200.0
    rise: float = 0.3
    free: float = 1.0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value, may_be_zero = getattr(self, name), name in ('payload', 'masses', 'free')
            if not (math.isfinite(value) and (value > 0.0 or value == 0.0 and may_be_zero)):
                raise InputError(f'disturbance {name} {value}: must be a finite number '
                                 + ('of 0 or more' if may_be_zero else 'above 0'))

    def limits(self, robot: Robot) -> Array:
        """Rows of (5, n): effort limit, bound, rate, contact threshold, least inertia."""
        return np.vstack([self._limits(robot), least_inertia(robot)])

    def _limits(self, robot: Robot) -> Array:
        """All rows of `limits` but the least inertia, whose kernels only a compensation needs."""
        model = Momentum(robot)
        centred, *shifted = (Momentum(robot.with_payload(self.payload, centre))
                             for centre in np.vstack([np.zeros(3), LEVER * np.eye(3)]))
        rng, rest = np.random.default_rng(0), np.zeros(robot.n)
        weight, load = rest, rest
        for _ in range(_POSITIONS):
            q = random_position(robot, rng)
            own = model.at(q, rest)[1]
            weight = np.maximum(weight, np.abs(own))
            at_tip = centred.at(q, rest)[1]
            turned = np.linalg.norm([one.at(q, rest)[1] - at_tip for one in shifted], axis=0)
            load = np.maximum(load, np.abs(at_tip - own) + turned)
        load = load + self.masses * weight
        return np.array([robot.effort_limits, MARGIN * (load + self.friction),
                         (self.friction + load / SLOWER) / self.rise,
                         REVERSAL * self.friction + self.masses * weight])

    def sudden_torques(self, robot: Robot, with_load: bool) -> Array:
        """
        Torques (n,) above which a sudden external torque is a contact [N·m; N].

        If `with_load`, they include the load, because no compensation removes it.

        """
        limits = self._limits(robot)
        load = limits[BOUND] / MARGIN - self.friction
        return np.asarray(limits[CONTACT] + (load if with_load else 0.0))


def random_position(robot: Robot, rng: np.random.Generator) -> Array:
    """Random joint positions (nq,) within the limits, and within half a turn [rad, m]."""
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    found, q = rng.uniform(np.minimum(lower, upper), upper), rng.normal(size=robot.nq)
    single = ~robot.spherical
    q[robot.q_index[single]] = found[robot.v_index[single]]
    return q


class Compensation(Recorded):
    """
    Torque that compensates load, wrong masses and friction.

    Attributes
    ----------
    torque : (n,) [N·m; N for prismatic]
        The compensation in force; the array stays the same object.
    limits : (5, n)
        See `Disturbance.limits`.

    Parameters
    ----------
    robot : Robot
    settings : Disturbance, optional
    limits : (5, n), optional
        `settings.limits(robot)`, if already computed, because it takes as long as many ticks.
    yields : (6,), optional
        Result of `yielding_axes`; default: zeros.
    knows_friction : bool
        Whether the law compensates friction, too.

    """

    TABLES = PLAN, STATE, RESULT

    def __init__(self, robot: Robot, settings: Disturbance | None = None,
                 limits: Array | None = None, yields: ArrayLike = 0.0,
                 knows_friction: bool = False) -> None:
        super().__init__(robot.n)
        self.settings = settings = Disturbance() if settings is None else settings
        plan = self.views[0]
        plan.is_active[0], plan.yields[:], plan.knows_friction[0] = 1.0, yields, knows_friction
        plan.bandwidth[0], plan.stuck_rate[0], plan.free[0] = (
            settings.bandwidth, settings.friction / settings.rise, settings.free)
        plan.limits[:] = settings.limits(robot) if limits is None else limits
        self.forget()

    def _connect(self) -> None:
        super()._connect()
        self.limits: Array = self.views[0].limits
        self.torque: Array = self.views[1].torque

    @property
    def is_active(self) -> bool:
        """Whether the compensation acts; if False, it returns to zero at its largest rate."""
        return bool(self.views[0].is_active[0])

    @is_active.setter
    def is_active(self, value: bool) -> None:
        self.views[0].is_active[0] = value

    @property
    def in_contact(self) -> bool:
        """Whether the compensation assumes a contact, and therefore is held."""
        return bool(self.views[1].in_contact[0])

    def forget(self) -> None:
        """Reset the compensation to zero at once, for an arm at rest."""
        self.records[1][:] = 0.0
        self.views[1].time[0], self.views[1].free[0] = -math.inf, self.settings.free

    def begin_with(self, torque: Array) -> None:
        """Reset, and start from a torque (n,) that holds the arm at rest, limited to the bound."""
        self.forget()
        self.torque[:] = np.clip(torque, -self.limits[BOUND], self.limits[BOUND])
        self.views[1].delayed[:] = self.torque

    def leave_to_model(self, weight: Array) -> Array:
        """
        Subtract from the compensation the part that a new model computes, and return it (n,).

        `weight` (n,) is the gravity torque that the new model adds.

        """
        taken = np.where(self.torque * weight > 0.0, np.sign(weight) * np.minimum(
            np.abs(self.torque), np.abs(weight)), 0.0)
        self.torque[:] -= taken
        self.views[1].delayed[:] -= taken
        return taken

    def go_on_from(self, other: Compensation) -> None:
        """Copy the state of another compensation of the same joints."""
        self.records[1][:] = other.records[1]
        if not other.is_active:
            self.views[1].free[0] = self.settings.free


def yielding_axes(task: Task) -> Array:
    """
    Mask (6,): 1 for the axes of a task's frame along which the task yields to a force, else 0.

    These are the axes of force and, for a task with a `Stiffness`, the axes of motion.

    """
    return task.along(*('force', 'motion') if isinstance(task.gains, Stiffness) else ('force',))
