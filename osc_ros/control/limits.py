"""
Limits of the joints, kept without bending the motion that was asked for more than they must.

Position and velocity are limits of acceleration: towards a limit a joint may be as fast as it can
still brake from. These, the limits of torque, and the loads that joints can hold
(`osc_ros.control.load`) are kept together: of all accelerations within the bounds, the one nearest
to that of the law is commanded, where a task's count more than the posture's
(`osc_ros.control.nearest`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.load import Loads
from osc_ros.control.nearest import room_for, torques_within
from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.dynamics.priority import Priorities, WIDTH
from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Sides = NDArray[np.int64]

# Of the torque that is there when nothing moves, for what is not counted: the motion of the other
# joints, and a model that is not exact.
BRAKING_SHARE = 0.7
# A joint is stopped so far from its limit [rad, m], and is not faster than this share of what it
# may be: what a tick's length and a model that is not exact take.
MARGIN, FASTEST = 1e-3, 0.99
EAGERNESS = 10.0
HASTE = 4.0  # times the rate: how a joint is brought back that is too fast
HARDEST = 50.0  # deceleration that nobody needs more of [rad/s², m/s²]
# Rows of `Limits.table`, a column a joint: where it is stopped, how fast it may be, with what and
# how soon it can brake, torque and its rate, depth of the soft zone.
LOWER, UPPER, SPEED, DECELERATION, RATE, EFFORT, EFFORT_RATE, ZONE = range(8)
_STATES = 64  # to look for the least deceleration in


@dataclass(frozen=True, eq=False)
class Limits:
    """
    What the joints are held to; `Limits.of` takes it from a robot.

    Attributes
    ----------
    position : (n, 2) [rad, m]
        Lower and upper; infinite where there is none.
    velocity, effort : (n,) [rad/s, m/s], [N·m, N]
        Largest magnitudes; may be infinite.
    effort_rate : (n,) [N·m/s, N/s]
        Most that a torque changes; may be infinite.
    deceleration : (n,) [rad/s², m/s²]
        With which a joint can brake wherever the arm is.
    reaction_time : float [s]
        That braking takes to set in: the longer, the earlier and the softer.
    soft_zone : float
        Share of a joint's range, at both ends, that the posture is pushed out of; 0 is none.
    repulsion : float [rad/s]
        Natural frequency of that push: a joint at its limit is pushed with its square times the
        zone, one at the zone's edge not at all.

    Raises
    ------
    InputError
        A shape that does not fit, a range that is none, a number that is not positive.

    """

    position: Array
    velocity: Array
    effort: Array
    effort_rate: Array
    deceleration: Array
    reaction_time: float = 0.04
    soft_zone: float = 0.05
    repulsion: float = 10.0

    def __post_init__(self) -> None:
        """Take anything that is an array of the right shape, and refuse the rest."""
        position = np.array(self.position, dtype=np.float64)
        if position.ndim != 2 or position.shape[1] != 2:
            raise InputError(f'position limits have shape {position.shape}, accepted is (n, 2)')
        for i in np.flatnonzero(~(position[:, 0] < position[:, 1])).tolist():
            raise InputError(f'position limits {position[i].tolist()} of joint {i}: accepted is '
                             'lower < upper')
        object.__setattr__(self, 'position', position)
        for name in ('velocity', 'effort', 'effort_rate', 'deceleration'):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != (len(position),):
                raise InputError(f'limits: {name} has shape {value.shape}, accepted is '
                                 f'({len(position)},)')
            if not (value > 0.0).all():
                raise InputError(f'limits: {name} {value.tolist()}: every entry must be positive')
            object.__setattr__(self, name, value)
        if not (np.isfinite(self.reaction_time) and self.reaction_time > 0.0):
            raise InputError(f'reaction time {self.reaction_time} s is not positive and finite')
        if not 0.0 <= self.soft_zone <= 0.5:
            raise InputError(f'soft zone {self.soft_zone}: accepted is 0 to 0.5 of the range')
        if not (np.isfinite(self.repulsion) and self.repulsion >= 0.0):
            raise InputError(f'repulsion {self.repulsion} rad/s: accepted is 0 or more')
        if not np.isfinite(self.deceleration).all():
            raise InputError(f'limits: deceleration {self.deceleration.tolist()} is not finite')

    @cached_property
    def table(self) -> Array:
        """What is kept (8, n), as rows LOWER to ZONE."""
        lower, upper = self.position.T
        margin = np.minimum(MARGIN, 0.25 * (upper - lower))
        # a torque may have to turn from full to full
        turning = 2.0 * np.where(np.isfinite(self.effort), self.effort, 0.0) / self.effort_rate
        span = np.where(np.isfinite(upper - lower), upper - lower, 0.0)
        return np.array([
            lower + margin, upper - margin, FASTEST * self.velocity, self.deceleration,
            1.0 / np.maximum(self.reaction_time, turning), self.effort, self.effort_rate,
            self.soft_zone * span])

    @classmethod
    def of(cls, robot: Robot, **given: ArrayLike | float | None) -> Limits:
        """
        Limits of a robot; what is given by name, and not None, is taken instead.

        The deceleration is what the torque gives, beside gravity, where that is least: of many
        configurations, BRAKING_SHARE of it, the other joints being held. It is at most what stops
        the joint from its full speed in twice the reaction time, and at most HARDEST.

        """
        found = {name: value for name, value in given.items() if value is not None}
        taken = {'position': robot.position_limits, 'velocity': robot.velocity_limits,
                 'effort': robot.effort_limits, 'effort_rate': np.full(robot.n, np.inf),
                 **found}
        if 'deceleration' not in found:
            wanted = cls(deceleration=np.ones(robot.n), **taken)  # type: ignore[arg-type]
            hardest = np.minimum(0.5 * wanted.velocity / wanted.reaction_time, HARDEST)
            taken['deceleration'] = np.minimum(_deceleration(robot, wanted.effort), hardest)
        return cls(**taken)  # type: ignore[arg-type]


def _deceleration(robot: Robot, effort: Array) -> Array:
    """Least (n,) that the torques beside gravity give each joint while the others are held."""
    inertia, weight = _loads(robot)
    # at least a tenth: an arm that cannot hold itself is not helped by braking for ever
    room = np.maximum(effort - np.abs(weight), 0.1 * effort)
    return np.asarray(BRAKING_SHARE * (room / inertia).min(axis=0))


@lru_cache(maxsize=4)  # of the last robots: other limits are wanted more often than another robot
def _loads(robot: Robot) -> tuple[Array, Array]:
    """Diagonal of M, and weight, (_STATES, n) each, at configurations within the limits."""
    dynamics, rng = Articulated(robot), np.random.default_rng(0)
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    rest, weight = np.zeros(robot.n), np.empty((_STATES, robot.n))
    M_inv = np.empty((_STATES, robot.n, robot.n))
    for k in range(_STATES):
        q = rng.uniform(np.minimum(lower, upper), upper)
        dynamics.M_inv(q, M_inv[k])
        weight[k] = dynamics.inverse_dynamics(q, rest, rest)
    return np.diagonal(np.linalg.inv(M_inv), axis1=1, axis2=2).copy(), weight


@inlined
def _approached(gap, fastest, rate, quickest):
    """
    Largest acceleration towards a speed that is `gap` away.

    It goes to zero with the gap, at the rate. Far from it, which is slow, it grows EAGERNESS
    times, so that a tool which is pressed against something, and does not move, may be pressed
    with what the model takes for a great acceleration. Beyond it the rate is higher: there the
    model is not exact, and what it lacks is held with so much speed too much.

    """
    if gap < 0.0:
        eager = HASTE
    else:
        slow = gap / fastest if gap < fastest else 1.0
        eager = 1.0 + (EAGERNESS - 1.0) * (slow * slow) ** 4
    return gap * min(rate * eager, max(rate, quickest))


@inlined
def _ceiling(distance, speed, fastest, deceleration, rate, quickest):
    """
    Largest acceleration of a joint towards a limit that is `distance` ahead of it.

    The speed v that is allowed there is the one whose way to stop, v²/2D by braking and v/rate
    by reacting, is just the distance; it is approached with the rate. Both are smooth, and from
    within no limit is passed. Beyond a limit, or too fast for it, the joint is brought back with
    at most twice the deceleration.

    """
    hasty = deceleration / rate
    if distance > 0.0:
        allowed = np.sqrt(hasty * hasty + 2.0 * deceleration * distance) - hasty
        slope = deceleration / (allowed + hasty)
    else:
        allowed, slope = rate * distance, rate
    ahead = _approached(allowed - speed, fastest, rate, quickest) - slope * speed
    free = _approached(fastest - speed, fastest, rate, quickest)
    return max(min(ahead, free), -2.0 * deceleration)


@inlined
def _put_bounds(q, qd, table, quickest, lower, upper):
    for i in range(len(q)):
        fastest, deceleration, rate = table[SPEED, i], table[DECELERATION, i], table[RATE, i]
        upper[i] = _ceiling(table[UPPER, i] - q[i], qd[i], fastest, deceleration, rate, quickest)
        lower[i] = -_ceiling(q[i] - table[LOWER, i], -qd[i], fastest, deceleration, rate, quickest)
        # where both cannot be, the limit that it moves towards
        if qd[i] > 0.0:
            lower[i] = min(lower[i], upper[i])
        else:
            upper[i] = max(lower[i], upper[i])


@kernel
def acceleration_bounds(q, qd, table, quickest, lower, upper):
    """
    Accelerations (n,) that keep every joint within its position and velocity.

    Parameters
    ----------
    q, qd : (n,)
    table : (8, n)
        Of `Limits`.
    quickest : float
        Rate that a tick is short enough for [1/s].
    lower, upper : (n,), written; lower ≤ upper

    """
    _put_bounds(q, qd, table, quickest, lower, upper)


@inlined
def _exceeds(tau, table, where):
    found = False
    for i in range(len(tau)):
        where[i] = np.abs(tau[i]) > table[EFFORT, i]
        found = found or where[i]
    return found


@kernel
def judged(qdd, more, q, qd, tau, table, quickest, lower, upper, where):
    """
    Whether an acceleration keeps its bounds, and whether the torque is too large.

    Parameters
    ----------
    qdd, more : (n,)
        It is their sum, left in qdd.
    q, qd, table, quickest, lower, upper
        See `acceleration_bounds`.
    tau, where : (n,), (n,)
        Of the law; and, written, which of them are beyond their limits.

    """
    _put_bounds(q, qd, table, quickest, lower, upper)
    is_kept = True
    for i in range(len(q)):
        qdd[i] += more[i]
        is_kept = is_kept and lower[i] <= qdd[i] <= upper[i]
    return is_kept, _exceeds(tau, table, where)


@kernel
def posture_acceleration(q, qd, posture, wraps, table, frequency, rate, push, qdd):
    """
    Accelerations (n,) towards a posture, and out of the soft zones of the joints.

    Parameters
    ----------
    q, qd, posture : (n,)
    wraps : (n,) bool
        Angles that have no limits: the short way round.
    table : (8, n)
        Of `Limits`. A far posture is approached at a speed that the joints have.
    frequency, rate : float [rad/s], [1/s]
        Natural frequency, and twice the damping ratio times it.
    push : float [rad/s]
        Natural frequency of what pushes joints out of their zones.
    qdd : (n,), written

    """
    for i in range(len(q)):
        away, fastest, zone = posture[i] - q[i], table[SPEED, i], table[ZONE, i]
        if wraps[i]:
            away = (away + np.pi) % (2.0 * np.pi) - np.pi
        if rate == 0.0:
            qdd[i] = frequency * frequency * away
        else:
            approach = min(max(frequency * frequency / rate * away, -fastest), fastest)
            qdd[i] = rate * (approach - qd[i])
        if zone > 0.0:
            for side in range(2):
                distance = table[UPPER, i] - q[i] if side else q[i] - table[LOWER, i]
                depth = min(max(1.0 - distance / zone, 0.0), 1.0)
                pushed = push * push * zone * depth * depth
                qdd[i] += -pushed if side else pushed


@kernel
def slowed(last, wanted, table, duration):
    """Largest share of the way from the last torques (n,) to the wanted ones that rates allow."""
    share = 1.0
    for i in range(len(last)):
        step, rate = np.abs(wanted[i] - last[i]), table[EFFORT_RATE, i]
        if step > 0.0 and rate < np.inf:
            share = min(share, rate * duration / step)
    return share


class Limiter:
    """
    Keeps the torques of a law within limits.

    It remembers the torque that was put out last, for its rate, when its limits changed, and how
    far the posture is given up for a damping, for 0.1 s. The attributes describe the last tick.

    Attributes
    ----------
    sides : (n,) int
        -1 or 1 for joints that a limit below or above holds to an acceleration, else 0.
    saturated : (n,) bool
        Whether a torque is at its limit.
    shares : (2,)
        How much of the accelerations of tasks and posture the limits left, 0 to 1.
    slowed : float
        Share of the change of the torques that their rates let through.
    is_at_work : bool
        Whether the joints were given less than they were asked for.
    unlimited : (n,)
        The accelerations that the law asked for.
    table : (8, n)
        What is kept now: `Limits.table`, or what is on the way to it.

    Parameters
    ----------
    dynamics : Articulated
        Of the robot; its tips are the links of the tasks.
    limits : Limits
    blend_time : float
        In which limits come into force [s].

    """

    def __init__(self, dynamics: Articulated, limits: Limits, blend_time: float) -> None:
        n = dynamics.robot.n
        if limits.velocity.shape != (n,):
            raise InputError(f'limits are for {len(limits.velocity)} joints: accepted are {n}')
        self._dynamics, self._wanted, self._blend_time = dynamics, limits.table, blend_time
        self.table: Array = self._wanted.copy()
        self._from: Array | None = None
        self._since = np.inf
        self._lower, self._upper = np.zeros(n), np.zeros(n)
        self._M_inv, self._room = np.zeros((n, n)), room_for(n)
        self._chosen: Sides = np.zeros(6 * n + 6, dtype=np.int64)
        self._sides: Sides = np.zeros(3 * n, dtype=np.int64)
        self._calm = np.zeros(1)
        self.loads: Loads = Loads(dynamics)
        self.sides: Sides = self._sides[:n]
        self.shares: Array = np.ones(2)
        self.saturated: NDArray[np.bool_] = np.zeros(n, dtype=bool)
        self.slowed = 1.0
        self.is_at_work: bool = False
        self.unlimited: Array = np.zeros(n)
        self._last: Array | None = None
        self._time = 0.0

    def go_on_from(self, before: Limiter) -> None:
        """Take the place of another one, from its limits to the own in `blend_time`."""
        self._sides[:], self._calm[:] = before._sides, before._calm
        self.saturated[:] = before.saturated
        self.is_at_work = before.is_at_work
        self._last, self._time = before._last, before._time
        if not np.array_equal(before.table, self._wanted):
            self._from = before.table.copy()
            self.table[:] = self._between(0.0)

    def forget(self) -> None:
        """Begin anew: the next torque may be any."""
        self._sides[:], self.shares[:], self.saturated[:], self._calm[:] = 0, 1.0, False, 0.0
        self.loads.forget()
        self.slowed, self.is_at_work = 1.0, False
        self._last, self._time = None, 0.0
        self.table[:], self._from = self._wanted, None

    def _between(self, share: float) -> Array:
        """The limits (8, n) on their way; what was or will be infinite changes at once."""
        if self._from is None:
            return self._wanted
        both = np.isfinite(self._from) & np.isfinite(self._wanted)
        start = np.where(both, self._from, 0.0)
        way = np.where(both, self._wanted, 0.0) - start
        return np.where(both, start + share * way, self._wanted)

    def _blend(self, time: float) -> None:
        """Bring the limits to where they are wanted, C¹."""
        self._since = min(self._since, time)
        x = min((time - self._since) / self._blend_time, 1.0)
        self.table[:] = self._between(x * x * (3.0 - 2.0 * x))
        if x == 1.0:
            self._from = None

    def kept(self, time: float, q: Array, qd: Array, qdd: Array, tau: Array, more: Array,
             solver: Priorities, length: float) -> Array:
        """
        Torques (n,) [N·m] nearest to those of the law that keep the limits, but for their rate.

        Parameters
        ----------
        time : float
            Of the state [s].
        q, qd : (n,)
        qdd : (n,) [rad/s²]
            Acceleration of the posture.
        tau : (n,) [N·m]
            Of the law: what gives the posture's acceleration, the forces of the tasks, and more.
        more : (n,) [N·m]
        solver : Priorities
            The forces of the tasks, and with what these resist.
        length : float
            That a turn of 1 rad of a task counts as [m].

        """
        if self._from is not None:
            self._blend(time)
        table = self.table
        self.unlimited = self._dynamics.response(q, more, solver.F)
        dt = time - self._time if self._last is not None and time > self._time else 0.0
        is_kept, is_strong = judged(self.unlimited, qdd, q, qd, tau, table,
                                    0.5 / dt if dt > 0.0 else 0.0, self._lower, self._upper,
                                    self.saturated)
        self.shares[:] = 1.0
        loads = self.loads
        count = loads.look(q, qd, table[EFFORT])
        if is_kept and not is_strong and self._calm[0] == 0.0 and not (
                count and (loads.rows[:count] @ self.unlimited > loads.most[:count]).any()):
            self._sides[:], self.is_at_work = 0, False
            return tau
        self._dynamics.M_inv(q, self._M_inv)
        J, inertias = solver.resistance()
        tau = tau.copy()
        self.is_at_work = torques_within(
            self._M_inv, J, inertias, solver.rows, length, qd, self.unlimited, self._lower,
            self._upper, table[EFFORT], table[DECELERATION], loads.rows, loads.most, loads.joints,
            count, dt, self._calm, self._sides, self._chosen, self._room, tau, self.shares)
        self.saturated[:] = self._sides[len(q):2 * len(q)] != 0
        return tau

    def paced(self, time: float, tau: Array) -> Array:
        """
        Torques (n,) [N·m] towards those that are wanted, no faster than they may change.

        All by one share: between two motions that were wanted there is no third.

        """
        self.slowed = 1.0
        if self._last is not None and time >= self._time:
            self.slowed = slowed(self._last, tau, self.table, time - self._time)
            if self.slowed < 1.0:
                tau = self._last + self.slowed * (tau - self._last)
                self.is_at_work = True
        self._last, self._time = tau, time
        return tau

    def rehearse(self) -> None:
        """Use everything once, for it to be compiled; then forget it."""
        n = len(self.sides)
        rest = np.zeros(n)
        self._lower[:], self._upper[:] = -1.0, 1.0
        self._dynamics.M_inv(rest, self._M_inv)
        judged(rest, rest, rest, rest, rest, self.table, 1.0, self._lower, self._upper,
               self.saturated)
        loads = self.loads
        loads.look(rest, rest, self.table[EFFORT])
        torques_within(self._M_inv, np.zeros((6, n)), np.zeros((1, 6, 6)), np.zeros((1, WIDTH)),
                       1.0, rest, rest, self._lower, self._upper, self.table[EFFORT],
                       self.table[DECELERATION], loads.rows, loads.most, loads.joints, 0, 0.0,
                       self._calm, self._sides, self._chosen, self._room, rest.copy(), self.shares)
        slowed(rest, rest, self.table, 0.0)
        self.forget()
