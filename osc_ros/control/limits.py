"""
Limits of the joints, kept without bending the motion that was asked for more than they must.

Position and velocity are limits of acceleration: towards a limit a joint may be as fast as it can
still brake from. What breaks them is changed as little as can be, the posture before the task, by
Gauss's principle: of all accelerations within the bounds, the one nearest to that of the law. Near
is measured by the joint-space inertia, in which what the tasks feel counts many times.

Torque then: the posture is given up first, and then the task scaled, its direction kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.compiled import inlined, kernel
from osc_ros.dynamics.priority import Priorities
from osc_ros.dynamics.tree import Articulated
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Sides = NDArray[np.int64]

# What the tasks give way to limits, relative to what the posture does: of the push of a limit, the
# last task feels about the least of these shares, unless there is no other way. It grows with what
# is to be changed over what the joint can brake with, up to the greatest: with its square, and at
# once for a joint of which the posture can move less than the hard share of its mobility, which
# would else be held by wild motions of the others.
LEAST_YIELDING, YIELDING_RISE, GREATEST_YIELDING, HARD = 1e-3, 1e-2, 0.1, 1e-2
# How much more a lost share of the task counts than a lost share of the posture, squared.
PRECEDENCE = 1e4
# A joint that its load overwhelms leaves so much of its torque to the choice of the others'.
LEAST_ROOM = 0.05
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
_ROUNDING = 1e-12  # relative: an acceleration at its bound


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
        eager = 1.0 + (EAGERNESS - 1.0) * slow * slow * slow * slow
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
def exceeds(tau, table, where):
    """Whether any torque (n,) is beyond its limit; and which ones, into where (n,) bool."""
    return _exceeds(tau, table, where)


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
        See `exceeds`.

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
def mobility_against(M_inv, J, inertias, levels, qdd, lower, upper, table, there, force, K):
    """
    K = M⁻¹ - Σ (1 - yieldingᵢ) M⁻¹JᵢᵀΛᵢJᵢM⁻¹: how joints move when all tasks resist.

    The last level yields as told at LEAST_YIELDING, those above it by the powers of that.

    Parameters
    ----------
    M_inv : (n, n)
    J, inertias : (6 k, n), (k, 6, 6)
        Of the tasks, see `osc_ros.dynamics.priority.Priorities.resistance`.
    levels : int
        Of priority, of which k is a multiple.
    qdd, lower, upper : (n,)
        What is to be brought within bounds.
    table : (8, n)
        Of `Limits`.
    there, force : (6 k, n), written
        JᵢM⁻¹, and (1 - yieldingᵢ) ΛᵢJᵢM⁻¹: with what the tasks resist a torque.
    K : (n, n), written

    """
    m, n = J.shape
    for k in range(m):
        for j in range(n):
            total = 0.0
            for i in range(n):
                total += J[k, i] * M_inv[i, j]
            there[k, j] = total
    for k in range(m):
        level, row = k // 6, k % 6
        for j in range(n):
            total = 0.0
            for i in range(6):
                total += inertias[level, row, i] * there[6 * level + i, j]
            force[k, j] = total
    yielding = LEAST_YIELDING
    for j in range(n):
        far = max(qdd[j] - upper[j], lower[j] - qdd[j]) / table[DECELERATION, j]
        if far > 0.0:
            left = M_inv[j, j]
            for k in range(m):
                left -= there[k, j] * force[k, j]
            held = HARD / (HARD + max(left, 0.0) / M_inv[j, j])
            yielding = max(yielding, LEAST_YIELDING + far * (held + YIELDING_RISE * far))
    yielding = min(yielding, GREATEST_YIELDING)
    for k in range(m):
        resists = 1.0 - yielding ** (levels - k // 6 % levels)
        for j in range(n):
            force[k, j] *= resists
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(m):
                total += there[k, i] * force[k, j] + there[k, j] * force[k, i]
            K[i, j] = K[j, i] = M_inv[i, j] - 0.5 * total


@inlined
def _solved(K, chosen, count, factor, x):
    """x = K⁻¹ x for the chosen rows and columns of a symmetric positive definite K."""
    for a in range(count):
        for b in range(a + 1):
            total = K[chosen[a], chosen[b]]
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            factor[a, b] = np.sqrt(total) if a == b else total / factor[b, b]
    for a in range(count):
        for c in range(a):
            x[a] -= factor[a, c] * x[c]
        x[a] /= factor[a, a]
    for a in range(count - 1, -1, -1):
        for c in range(a + 1, count):
            x[a] -= factor[c, a] * x[c]
        x[a] /= factor[a, a]


@kernel
def nearest_within(K, qdd, lower, upper, side, chosen, factor, push, change):
    """
    The least change of q̈ that brings it within bounds: of x = q̈ + Kλ the nearest in xᵀK⁻¹x.

    That is the linear complementarity problem of bounds and pushes λ. It has one solution, which
    is continuous in q̈ and the bounds, for K is positive definite. Found by principal pivoting:
    all rows that are wrong change at once as long as that makes them fewer, else the last of them
    alone, which ends (Murty; Júdice and Pires). It begins with the sides that are given, so from
    one tick to the next one solution is mostly enough.

    Parameters
    ----------
    K : (n, n)
    qdd, lower, upper : (n,)
    side : (n,) int, overwritten
        -1 at the lower bound, 1 at the upper, 0 between.
    chosen, factor : (n,) int, (n, n), overwritten
    push, change : (n,), written
        λ, not positive at an upper bound nor negative at a lower one, and Kλ.

    Returns
    -------
    Whether it was found.

    """
    n = len(qdd)
    fewest, patience = n + 1, 3
    for _ in range(100 + 10 * n):
        count = 0
        for i in range(n):
            push[i] = 0.0
        for i in range(n):
            if side[i] != 0:
                chosen[count] = i
                push[count] = (upper[i] if side[i] > 0 else lower[i]) - qdd[i]
                count += 1
        _solved(K, chosen, count, factor, push)
        for a in range(count - 1, -1, -1):  # chosen[a] ≥ a: nothing is lost
            value, push[a] = push[a], 0.0
            push[chosen[a]] = value
        for i in range(n):
            change[i] = 0.0
            for j in range(n):
                change[i] += K[i, j] * push[j]
        wrong, last = 0, -1
        for i in range(n):
            margin = _ROUNDING * (1.0 + np.abs(qdd[i]))
            if side[i] == 0:
                off = qdd[i] + change[i] > upper[i] + margin or (
                    qdd[i] + change[i] < lower[i] - margin)
            else:
                off = push[i] * side[i] > 0.0
            if off:
                wrong, last = wrong + 1, i
        if wrong == 0:
            return True
        if wrong < fewest:
            fewest, patience = wrong, 3
        else:
            patience -= 1
        for i in range(last if patience < 0 else 0, last + 1):
            if side[i] != 0:
                if push[i] * side[i] > 0.0:
                    side[i] = 0
            elif qdd[i] + change[i] > upper[i]:
                side[i] = 1
            elif qdd[i] + change[i] < lower[i]:
                side[i] = -1
    return False


@kernel
def shares_within(base, task, posture, limits, rows, shares):
    """
    Largest shares 1 ≥ α ≥ β ≥ 0 of task and posture torque within the limits, α first.

    The ones nearest to (1, 1), a share of the task counting √PRECEDENCE times one of the posture,
    so they change continuously with the torques. `base`, which is neither, is never scaled; where
    it leaves a joint less than LEAST_ROOM of its limit, that much is granted.

    Parameters
    ----------
    base, task, posture, limits : (n,) [N·m]
    rows : (2 n + 5, 3), overwritten
    shares : (2,), written

    """
    scale = 1.0 / np.sqrt(PRECEDENCE)
    # half planes a x + b y ≤ c of x = √PRECEDENCE (α - 1) and y = β - 1, to be nearest to 0
    rows[0, 0], rows[0, 1], rows[0, 2] = 1.0, 0.0, 0.0
    rows[1, 0], rows[1, 1], rows[1, 2] = 0.0, 1.0, 0.0
    rows[2, 0], rows[2, 1], rows[2, 2] = -1.0, 0.0, 1.0 / scale
    rows[3, 0], rows[3, 1], rows[3, 2] = 0.0, -1.0, 1.0
    across = np.sqrt(1.0 + scale * scale)
    rows[4, 0], rows[4, 1], rows[4, 2] = -scale / across, 1.0 / across, 0.0
    count = 5
    for i in range(len(base)):
        for sign in (1.0, -1.0):
            a, b = sign * scale * task[i], sign * posture[i]
            norm = np.sqrt(a * a + b * b)
            room = max(limits[i] - sign * base[i], LEAST_ROOM * limits[i])
            if norm > 1e-9 * room:
                rows[count, 0], rows[count, 1] = a / norm, b / norm
                rows[count, 2] = (room - sign * (task[i] + posture[i])) / norm
                count += 1
    x, y = 0.0, 0.0
    for k in range(count):
        a, b, c = rows[k, 0], rows[k, 1], rows[k, 2]
        if a * x + b * y <= c:
            continue
        # the nearest one is now on this line, (c a, c b) + t (-b, a)
        first, last = -np.inf, np.inf
        for j in range(k):
            across = rows[j, 1] * a - rows[j, 0] * b
            room = rows[j, 2] - c * (rows[j, 0] * a + rows[j, 1] * b)
            if across > 1e-12:
                last = min(last, room / across)
            elif across < -1e-12:
                first = max(first, room / across)
        t = min(max(0.0, first), last)
        x, y = c * a - t * b, c * b + t * a
    shares[0] = min(max(1.0 + scale * x, 0.0), 1.0)
    shares[1] = min(max(1.0 + y, 0.0), 1.0)


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

    It remembers the torque that was put out last, for its rate, and when its limits changed, and
    nothing else that matters. The attributes describe the last tick.

    Attributes
    ----------
    sides : (n,) int
        -1 or 1 for joints that a limit below or above holds to an acceleration, else 0.
    saturated : (n,) bool
        Whether a torque was too large.
    shares : (2,)
        Of task and posture in what was put out.
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
        self._M_inv, self._K, self._factor = (np.zeros((n, n)) for _ in range(3))
        self._J = self._there = self._force = np.zeros((0, n))
        self._chosen = np.zeros(n, dtype=np.int64)
        self._push, self._change = np.zeros(n), np.zeros(n)
        self._rows = np.zeros((2 * n + 5, 3))
        self.sides: Sides = np.zeros(n, dtype=np.int64)
        self.shares: Array = np.ones(2)
        self.saturated: NDArray[np.bool_] = np.zeros(n, dtype=bool)
        self.slowed = 1.0
        self.is_at_work: bool = False
        self.unlimited: Array = np.zeros(n)
        self._rest, self._others = np.zeros(n), np.zeros(n, dtype=np.int64)
        self._last: Array | None = None
        self._time = 0.0

    def go_on_from(self, before: Limiter) -> None:
        """Take the place of another one, from its limits to the own in `blend_time`."""
        self.sides[:] = before.sides
        self.saturated[:] = before.saturated
        self.is_at_work = before.is_at_work
        self._last, self._time = before._last, before._time
        if not np.array_equal(before.table, self._wanted):
            self._from = before.table.copy()
            self.table[:] = self._between(0.0)

    def forget(self) -> None:
        """Begin anew: the next torque may be any."""
        self.sides[:], self.shares[:], self.saturated[:] = 0, 1.0, False
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
             solver: Priorities, parts: Callable[[], tuple[Array, Array]]) -> Array:
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
        parts : callable
            What gives C + G (n,), and the part of tau (n,) that the tasks take [N·m].

        """
        if self._from is not None:
            self._blend(time)
        table = self.table
        self.unlimited = self._dynamics.response(q, more, solver.F)
        is_next = self._last is not None and time > self._time
        quickest = 0.5 / (time - self._time) if is_next else 0.0
        is_kept, is_strong = judged(self.unlimited, qdd, q, qd, tau, table, quickest, self._lower,
                                    self._upper, self.saturated)
        self.sides[:] *= not is_kept
        self.shares[:] = 1.0
        if not is_kept:
            self._prepare(q, solver)
            tau = tau + self._push_against(self.unlimited, self.sides)
            is_strong = exceeds(tau, table, self.saturated)
        if is_strong:
            h, task = parts()
            if is_kept:
                self._prepare(q, solver)
            # Nothing but the load and what the limits take, then the tasks with it, then all:
            # each keeps the bounds of acceleration, and so does all that is between the three.
            base = h + self._push_alone(self._rest, self._freed())
            bare = h + task + self._push_against(self._M_inv @ task, self._freed())
            most = table[EFFORT]
            shares_within(base, bare - base, tau - bare, most, self._rows, self.shares)
            tau = base + self.shares[0] * (bare - base) + self.shares[1] * (tau - bare)
            tau = np.minimum(np.maximum(tau, -most), most)
        self.is_at_work = is_strong or not is_kept and bool(self.sides.any())
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

    def _prepare(self, q: Array, solver: Priorities) -> None:
        """M⁻¹, and how joints move against the tasks."""
        J, inertias = solver.resistance()
        self._J = J
        if self._there.shape != J.shape:
            self._there, self._force = np.zeros(J.shape), np.zeros(J.shape)
        self._dynamics.M_inv(q, self._M_inv)
        mobility_against(self._M_inv, J, inertias, len(solver.rows), self.unlimited, self._lower,
                         self._upper, self.table, self._there, self._force, self._K)

    def _freed(self) -> Sides:
        """Sides (n,) to begin with where there were none."""
        self._others[:] = 0
        return self._others

    def _push_alone(self, qdd: Array, sides: Sides) -> Array:
        """Torques (n,) that bring q̈ within its bounds while the tasks do not resist."""
        nearest_within(self._M_inv, qdd, self._lower, self._upper, sides, self._chosen,
                       self._factor, self._push, self._change)
        return self._push

    def _push_against(self, qdd: Array, sides: Sides) -> Array:
        """Torques (n,) that bring q̈ within its bounds, and those of the tasks against it."""
        nearest_within(self._K, qdd, self._lower, self._upper, sides, self._chosen, self._factor,
                       self._push, self._change)
        return np.asarray(self._push - self._J.T @ (self._force @ self._push))

    def rehearse(self) -> None:
        """Use everything once, for it to be compiled; then forget it."""
        rest, n = np.zeros(len(self.sides)), len(self.sides)
        self._lower[:], self._upper[:] = -1.0, 1.0
        self._dynamics.M_inv(rest, self._M_inv)
        mobility_against(self._M_inv, np.zeros((6, n)), np.zeros((1, 6, 6)), 1, rest, self._lower,
                         self._upper, self.table, np.zeros((6, n)), np.zeros((6, n)), self._K)
        judged(rest, rest, rest, rest, rest, self.table, 1.0, self._lower, self._upper,
               self.saturated)
        nearest_within(self._K, rest, self._lower, self._upper, self.sides, self._chosen,
                       self._factor, self._push, self._change)
        shares_within(rest, rest, rest, rest + 1.0, self._rows, self.shares)
        slowed(rest, rest, self.table, 0.0)
        exceeds(rest, self.table, self.saturated)
        self.forget()
