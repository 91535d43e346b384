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
   part of rule 1, exceeds its threshold, this is a contact: c does not grow until all joints are
   below half of their thresholds. It still returns towards 0 as far as -τ_ext does: a load that is
   put down, or a hand that lets go, is sudden, too, and c would drive the arm on. For the time
   `free` after the start no contact is assumed, so that a load that is there from the start is
   compensated.
3. c and its rate are bounded by the torques that the model errors of `Disturbance` can cause. This
   bounds the force on an obstacle that is touched too slowly for rule 2.
4. c does not grow while the caller requests it (a target waits for the arm), and is held while a
   load is blended, while the observer has not settled, and over gaps of the states.
5. The sum with the law's torque satisfies the effort limits; c does not wind up beyond them.

If c is switched on or off, it changes at the rate of rule 3, too.
"""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import inlined, kernel
from osc_ros.compile.record_type import Slot, Table
from osc_ros.control.model_error.friction import least_inertia
from osc_ros.control.model_error.observer import (
    bandwidth_in_force,
    beyond_noise,
    LONGEST_STEP,
    low_pass,
    share,
)
from osc_ros.control.tasks.task import Stiffness, Task
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.dynamics.trees.momentum import Momentum
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

SETTLED = 0.95  # the observer's estimate is used when at least this share of it has settled
# Largest product of the filter gains per tick of observer and compensation. With a delay of one
# more tick, and true inertias of half the model's, the loop through both is then stable at 200 Hz
# and above.
QUICKEST = 0.06
FOLLOWS, FALLS, HELD = range(3)  # what the compensation may do, see `compensate`
LEAST = 1e-12  # a smaller compensation is set to 0, because denormal numbers are slow [N·m]
# A joint slower than RESTS [rad/s, m/s] rests. ACCELERATED: accelerations that the law would cause
# [rad/s², m/s²], between which the least rate for a stuck joint rises from 0 to `stuck_rate`. With
# the default gains they are errors of 0.05° and 0.25°. Lower ones cause hunting.
RESTS, ACCELERATED = 0.01, (0.35, 1.75)

STATE = (
    Slot('time', (), 's', 'time of the last state'),
    Slot('free', (), 's', 'what is left of the time in which every torque counts as load'),
    Slot('in_contact', (), '', 'whether the arm touches something', bool),
    Slot('torque', ('n',), 'N·m, N', 'compensation that is added to the torques of the law'),
    Slot('delayed', ('n',), 'N·m, N', '`torque` behind the filter of the observer'),
    Slot('friction', ('n',), 'N·m, N', 'friction compensation in the last torque'),
    Slot('filtered', ('n',), 'N·m, N', '`friction` behind the filter of the observer'))
COMPENSATION = Table(
    'Compensation',
    Slot('is_active', (), '', 'whether it compensates; otherwise `torque` returns to 0 at its '
         'largest rate', bool),
    Slot('bandwidth', (), 'rad/s', 'bandwidth of the filter behind the observer'),
    Slot('stuck_rate', (), 'N·m/s, N/s', 'largest rate for a joint that is stuck'),
    Slot('free_time', (), 's', 'time after the start in which every torque counts as load'),
    Slot('knows_friction', (), '', 'whether the law compensates friction, too', bool),
    Slot('yields', (6,), '', '1 for the axes of the first task along which it gives way'),
    Slot('limits', (5, 'n'), '', 'the five slots below, see `Disturbance.limits`'),
    *(Slot(name, ('n',), unit, meaning, row=('limits', i))
      for i, (name, unit, meaning) in enumerate((
          ('effort', 'N·m, N', 'limits of the torques'),
          ('bound', 'N·m, N', 'largest compensation'),
          ('rate', 'N·m/s, N/s', 'largest rate of the compensation'),
          ('threshold', 'N·m, N', 'larger external torques are a contact'),
          ('inertia', 'kg·m², kg', 'least inertia')))),
    *STATE,
    room=(
        Slot('external', ('n',), 'N·m, N', 'external torques but for those along axes that yield'),
        Slot('least', ('n',), 'N·m, N', 'least change of `torque`: of joints that are stuck')))


@inlined
def _elapsed(c, time):
    """Time since the last state [s]; 0 for the first one, after a gap, and if time goes back."""
    dt = time - c.time
    if np.isfinite(time):
        c.time = time
    return dt if 0.0 < dt <= LONGEST_STEP else 0.0


@inlined
def _yielded(yields, axes, wrench, first, i):
    """Component i, base axes, of a force or moment projected on the axes that yield."""
    # The force or moment is `wrench` from index `first` on; `yields` (6,): see `yielding_axes`.
    part = 0.0
    for j in range(3):
        along = 0.0
        for k in range(3):
            along += axes[k, j] * wrench[first + k]
        part += axes[i, j] * yields[first + j] * along
    return part


@inlined
def _leave_out(c, o, axes):
    """Subtract from the external torques the part that a wrench along yielding axes explains."""
    # This is the observer's wrench (6,) [N·m, N], of which only the components along the axes
    # count along which the first task yields; `axes` (3, 3): axes of the task in the base frame.
    for first in (0, 3):
        for i in range(3):
            part = _yielded(c.yields, axes, o.wrench, first, i)
            if part != 0.0:
                for k in range(c.n):
                    c.external[k] -= o.columns[k, first + i] * part


@inlined
def _put_friction(c, o, friction, made_up):
    """In the external torques, replace the friction of the observer's model by `friction` (n,)."""
    # This is the friction compensation of the law, behind a low-pass filter like the observer's.
    for k in range(len(friction)):
        c.filtered[k] = low_pass(c.filtered[k], c.friction[k], made_up)
        c.friction[k] = friction[k]
        c.external[k] += c.filtered[k] - o.friction[k]


@inlined
def _touches(c, o):
    """Return whether an external torque exceeds its threshold, or half of it during a contact."""
    worst = 0.0
    for k in range(c.n):
        worst = max(worst, beyond_noise(
            c.external[k] + c.torque[k], o.noise[k]) / c.threshold[k])
    return worst > (0.5 if c.in_contact else 1.0)


@inlined
def _gain(c, o, dt):
    """Filter gain of the compensation for a time step dt [s], limited by QUICKEST."""
    gain = share(c.bandwidth, dt)
    observed = share(bandwidth_in_force(o), dt)
    return min(gain, QUICKEST / max(observed, QUICKEST)) if gain > 0.0 else gain


@inlined
def _stuck_share(external, law, qd, inertia):
    """Share of `stuck_rate` for a joint, with the sign of the law's torque; 0 if it can move."""
    # The joint is stuck if it rests and `external` cancels at least half of the law's torque.
    if not (np.abs(qd) < RESTS and -external * law > 0.0
            and np.abs(external) >= 0.5 * np.abs(law)):
        return 0.0
    low, high = ACCELERATED
    part = min(max((np.abs(law) / inertia - low) / (high - low), 0.0), 1.0)
    return np.copysign(part * (1.0 - np.abs(qd) / RESTS), law)


@inlined
def _follow(c, gain, dt, falls):
    """Move the compensation towards the negative external torque, at least by `least`."""
    # If it only `falls`, it moves no farther from 0 than it is.
    for k in range(c.n):
        now, bound, most = c.torque[k], c.bound[k], dt * c.rate[k]
        wanted = min(max(-c.external[k], -bound), bound)
        if falls:
            wanted, c.least[k] = min(max(wanted, min(now, 0.0)), max(now, 0.0)), 0.0
        change = min(max(gain * (wanted - now), -most), most)
        least = min(max(now + c.least[k], -bound), bound) - now
        if least > 0.0:
            change = max(change, least)
        elif least < 0.0:
            change = min(change, least)
        c.torque[k] += change


@inlined
def _limit(c, tau):
    """Limit the compensation so that its sum with tau is within the effort limits."""
    for k in range(c.n):
        now, effort = c.torque[k], c.effort[k]
        if np.isfinite(tau[k]):
            now = min(max(now, min(-effort - tau[k], 0.0)), max(effort - tau[k], 0.0))
        c.torque[k] = 0.0 if np.abs(now) < LEAST else now


@inlined
def _advance(c, o, dt, tau, qd, axes, hold, friction):
    c.free -= dt
    assign(c.external, o.torque)
    if len(friction) > 0:
        _put_friction(c, o, friction, share(bandwidth_in_force(o), dt))
    _leave_out(c, o, axes)
    for k in range(c.n):
        law = tau[k] + o.rate[k] - (friction[k] if len(friction) > 0 else 0.0)
        c.least[k] = dt * c.stuck_rate * _stuck_share(
            c.external[k] + c.delayed[k], law, qd[k], c.inertia[k])
    c.in_contact = c.free <= 0.0 and _touches(c, o)
    if hold != HELD and 1.0 - o.missing >= SETTLED:
        _follow(c, _gain(c, o, dt), dt, hold == FALLS or c.in_contact)


@kernel
def compensate(c, o, time, tau, qd, axes, hold, friction):
    """Advance the compensation `c` to a state; `o` is an OBSERVER after `observer.observe`."""
    # `tau`: torques of the law (n,) [N·m, N]; `axes` (3, 3): of the first task, in base axes;
    # `hold`: FOLLOWS; FALLS: must not grow, as a target waits for the arm, or in contact; HELD.
    # `friction` (n,) or (0,): compensation in `tau`, replaces the friction model of the observer.
    dt = _elapsed(c, time)
    made_up = share(bandwidth_in_force(o), dt)
    for k in range(c.n):
        c.delayed[k] = low_pass(c.delayed[k], c.torque[k], made_up)
    if c.is_active:
        _advance(c, o, dt, tau, qd, axes, hold, friction)
    else:
        c.free, c.in_contact = c.free_time, False
        c.external[:] = c.least[:] = 0.0
        _follow(c, _gain(c, o, dt), dt, False)
    _limit(c, tau)


# Multiple of the friction above which a sudden torque is a contact. It is above 2, because the
# friction torque changes by twice the friction when a joint reverses.
REVERSAL = 2.5
MARGIN = 1.25  # factor on the bound; the excess overcomes the friction
SLOWER = 4.0  # factor by which the compensation follows loads more slowly than friction
LEVER = 0.1  # largest distance of the unknown payload's centre of mass from the tip [m]
_POSITIONS = 64  # number of positions that are sampled for the bounds


@dataclass(frozen=True)
class Disturbance(Group, group='disturbance'):
    """
    Settings of the compensation: the assumed errors of the model.

    The bound of a joint's compensation is MARGIN times the sum of three torques: the payload at
    the tip, the share `masses` of the arm's own weight, both the largest over many positions, and
    the friction. A sudden torque is a contact if it exceeds REVERSAL times the friction plus the
    share of the weight. For a rise by the load, the least time is SLOWER times as long as `rise`.

    Raises
    ------
    InputError
        A number that is not accepted.

    """

    payload: float = setting(
        1.0, 'How wrong the model may be: largest unknown payload, up to 10 cm beside the tip '
        '[kg]. Bounds the compensation, and the torques that are no contact', lower=0.0,
        upper=1e3)
    masses: float = setting(0.1, 'How wrong the model may be: largest relative error of the '
                            'masses', lower=0.0, upper=1.0)
    friction: float = setting(1.0, 'How wrong the model may be: largest unknown dry friction of a '
                              'joint [N m]', lower=1e-6, upper=1e3)
    bandwidth: float = setting(200.0, 'Bandwidth of the low-pass filter behind the observer; '
                               'reduced at low rates of the states [rad/s]', name='', lower=1e-2)
    rise: float = setting(0.3, 'Least time in which the compensation rises by '
                          'disturbance.friction [s]', lower=1e-3, upper=60.0)
    free: float = setting(1.0, 'Time after the start during which every torque counts as load '
                          '[s]', name='', lower=0.0)

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
        """Torques (n,) above which a sudden external torque is a contact [N·m; N]."""
        # `with_load`: they include the load, because no compensation removes it.
        _, bound, _, threshold = self._limits(robot)
        return np.asarray(threshold + (bound / MARGIN - self.friction if with_load else 0.0))


def random_position(robot: Robot, rng: np.random.Generator) -> Array:
    """Random joint positions (nq,) within the limits, and within half a turn [rad, m]."""
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    found, q = rng.uniform(np.minimum(lower, upper), upper), rng.normal(size=robot.nq)
    single = ~robot.spherical
    q[robot.q_index[single]] = found[robot.v_index[single]]
    return q


class Compensation:
    """Torque that compensates load, wrong masses and friction."""

    # `limits`: `settings.limits(robot)` if already computed, which takes as long as many ticks.
    # `yields` (6,): of `yielding_axes`. `knows_friction`: the law compensates friction, too.

    def __init__(self, robot: Robot, settings: Disturbance | None = None,
                 limits: Array | None = None, yields: ArrayLike = 0.0,
                 knows_friction: bool = False) -> None:
        self.settings = settings = Disturbance() if settings is None else settings
        self.record = c = COMPENSATION.new(n=robot.n)
        c.is_active, c.yields[:], c.knows_friction = True, yields, knows_friction
        c.bandwidth, c.stuck_rate, c.free_time = (
            settings.bandwidth, settings.friction / settings.rise, settings.free)
        c.limits[:] = settings.limits(robot) if limits is None else limits
        self.limits: Array = c.limits  # (5, n), see `Disturbance.limits`
        self.torque: Array = c.torque  # (n,) [N·m, N], in force; always the same array
        self.forget()

    def forget(self) -> None:
        """Reset the compensation to zero at once, for an arm at rest."""
        self.record.clear(one.name for one in STATE)
        self.record.time, self.record.free = -math.inf, self.settings.free

    def begin_with(self, torque: Array) -> None:
        """Reset, and start from a torque (n,) that holds the arm at rest, limited to the bound."""
        self.forget()
        self.torque[:] = self.record.delayed[:] = np.clip(
            torque, -self.record.bound, self.record.bound)

    def leave_to_model(self, weight: Array) -> Array:
        """Subtract from the compensation the part of a new model, and return this part (n,)."""
        # `weight` (n,): gravity torque that the new model adds.
        taken = np.where(self.torque * weight > 0.0, np.sign(weight) * np.minimum(
            np.abs(self.torque), np.abs(weight)), 0.0)
        self.torque[:] -= taken
        self.record.delayed[:] -= taken
        return taken

    def go_on_from(self, other: Compensation) -> None:
        """Copy the state of another compensation of the same joints."""
        self.record.take(other.record, (one.name for one in STATE))
        if not other.record.is_active:
            self.record.free = self.settings.free


class Report(NamedTuple):
    """Copies of the estimates at one moment, see `ExternalForce` and `Compensation`."""

    torque: Array  # (n,) [N·m, N]
    compensation: Array  # (n,) [N·m, N]
    wrench: Array  # (6,) [N·m, N]
    quality: float
    settled: float
    lever: float  # [m]
    in_contact: bool


def yielding_axes(task: Task) -> Array:
    """Mask (6,) of the axes along which a task yields: force; for a `Stiffness`, motion, too."""
    return task.along(*('force', 'motion') if isinstance(task.gains, Stiffness) else ('force',))
