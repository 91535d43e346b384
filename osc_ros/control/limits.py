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
from functools import cached_property

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
# last task feels about the least of these shares, unless there is no other way. It grows with the
# square of what is to be changed over what the joint can brake with, up to the greatest, for a
# joint that the posture can hardly move would else be held by wild motions of the others.
LEAST_YIELDING, YIELDING_RISE, GREATEST_YIELDING = 1e-3, 1e-2, 0.1
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
HARDEST = 50.0  # deceleration that nobody needs more of [rad/s², m/s²]
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
    def rate(self) -> Array:
        """How fast braking sets in (n,) [1/s]: a torque may have to turn from full to full."""
        turning = np.where(np.isinf(self.effort_rate), 0.0, 2.0 * self.effort / self.effort_rate)
        return np.asarray(1.0 / np.maximum(self.reaction_time, turning))

    @cached_property
    def inner(self) -> Array:
        """Positions (n, 2) at which joints are stopped [rad, m]."""
        margin = np.minimum(MARGIN, 0.25 * (self.position[:, 1] - self.position[:, 0]))
        return self.position + np.multiply.outer(margin, [1.0, -1.0])

    @cached_property
    def fastest(self) -> Array:
        """Speeds (n,) that joints are held to [rad/s, m/s]."""
        return FASTEST * self.velocity

    @cached_property
    def zone(self) -> Array:
        """Depth (n,) of the soft zones [rad, m]; 0 where a joint has no range."""
        span = self.position[:, 1] - self.position[:, 0]
        return np.where(np.isfinite(span), self.soft_zone * np.where(np.isfinite(span), span, 0.0),
                        0.0)

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
    dynamics, rng = Articulated(robot), np.random.default_rng(0)
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    rest, M_inv = np.zeros(robot.n), np.zeros((robot.n, robot.n))
    no_force, least = np.zeros(6 * len(robot.tips)), np.full(robot.n, np.inf)
    for _ in range(_STATES):
        q = rng.uniform(np.minimum(lower, upper), upper)
        M = np.linalg.inv(dynamics.M_inv(q, M_inv))
        gravity = M @ dynamics.forward_dynamics(q, rest, rest, no_force)
        # at least a tenth: an arm that cannot hold itself is not helped by braking for ever
        room = np.maximum(effort - np.abs(gravity), 0.1 * effort)
        least = np.minimum(least, room / np.diag(M))
    return np.asarray(BRAKING_SHARE * least)


@inlined
def _approached(gap, hasty, rate, quickest):
    """
    Largest acceleration towards a speed that is `gap` away.

    It goes to zero with the gap, at the rate; where the gap is wide it grows faster, up to
    EAGERNESS times, so that a tool which is pressed against something, and does not move, may be
    pressed with what the model takes for a great acceleration.

    """
    wide = gap / hasty
    return gap * min(rate * min(1.0 + wide * wide, EAGERNESS), max(rate, quickest))


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
    ahead = _approached(allowed - speed, hasty, rate, quickest) - slope * speed
    free = _approached(fastest - speed, hasty, rate, quickest)
    return max(min(ahead, free), -2.0 * deceleration)


@kernel
def acceleration_bounds(q, qd, position, velocity, deceleration, rate, quickest, lower, upper):
    """
    Accelerations (n,) that keep every joint within its position and velocity.

    Parameters
    ----------
    q, qd : (n,)
    position : (n, 2)
    velocity, deceleration, rate : (n,)
        As in `Limits`; rate is how fast braking sets in [1/s].
    quickest : float
        Rate that a tick is short enough for [1/s].
    lower, upper : (n,), written; lower ≤ upper

    """
    for i in range(len(q)):
        upper[i] = _ceiling(position[i, 1] - q[i], qd[i], velocity[i], deceleration[i], rate[i],
                            quickest)
        lower[i] = -_ceiling(q[i] - position[i, 0], -qd[i], velocity[i], deceleration[i], rate[i],
                             quickest)
        # where both cannot be, the limit that it moves towards
        if qd[i] > 0.0:
            lower[i] = min(lower[i], upper[i])
        else:
            upper[i] = max(lower[i], upper[i])


@kernel
def are_bounds_kept(qdd, q, qd, position, velocity, deceleration, rate, quickest, lower, upper):
    """Whether q̈ (n,) keeps the bounds, which are found as by `acceleration_bounds`."""
    acceleration_bounds(q, qd, position, velocity, deceleration, rate, quickest, lower, upper)
    for i in range(len(q)):
        if not lower[i] <= qdd[i] <= upper[i]:
            return False
    return True


@kernel
def posture_acceleration(q, qd, posture, wraps, frequency, rate, fastest, position, zone, push,
                         qdd):
    """
    Accelerations (n,) towards a posture, and out of the soft zones of the joints.

    Parameters
    ----------
    q, qd, posture : (n,)
    wraps : (n,) bool
        Angles that have no limits: the short way round.
    frequency, rate : float [rad/s], [1/s]
        Natural frequency, and twice the damping ratio times it.
    fastest : (n,) [rad/s, m/s]
        At most so fast is a far posture approached.
    position, zone : (n, 2), (n,)
        As in `Limits`.
    push : float [rad/s]
        Natural frequency of what pushes joints out of their zones.
    qdd : (n,), written

    """
    for i in range(len(q)):
        away = posture[i] - q[i]
        if wraps[i]:
            away = (away + np.pi) % (2.0 * np.pi) - np.pi
        if rate == 0.0:
            qdd[i] = frequency * frequency * away
        else:
            approach = min(max(frequency * frequency / rate * away, -fastest[i]), fastest[i])
            qdd[i] = rate * (approach - qd[i])
        if zone[i] > 0.0:
            for side in range(2):
                distance = position[i, 1] - q[i] if side else q[i] - position[i, 0]
                depth = min(max(1.0 - distance / zone[i], 0.0), 1.0)
                pushed = push * push * zone[i] * depth * depth
                qdd[i] += -pushed if side else pushed


@kernel
def mobility_against(M_inv, J, inertias, levels, yielding, there, force, K):
    """
    K = M⁻¹ - Σ (1 - yieldingᵢ) M⁻¹JᵢᵀΛᵢJᵢM⁻¹: how joints move when all tasks resist.

    Parameters
    ----------
    M_inv : (n, n)
    J, inertias : (6 k, n), (k, 6, 6)
        Of the tasks, see `osc_ros.dynamics.priority.Priorities.resistance`.
    levels : int
        Of priority, of which k is a multiple.
    yielding : float
        Of the last level; of those above it its powers.
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
        resists = 1.0 - yielding ** (levels - level % levels)
        for j in range(n):
            total = 0.0
            for i in range(6):
                total += inertias[level, row, i] * there[6 * level + i, j]
            force[k, j] = resists * total
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
def exceeds(tau, limits, where):
    """Whether any torque (n,) is beyond its limit; and which ones, into where (n,) bool."""
    found = False
    for i in range(len(tau)):
        where[i] = np.abs(tau[i]) > limits[i]
        found = found or where[i]
    return found


@kernel
def slowed(last, wanted, rate, duration):
    """Largest share of the way from the last torques (n,) to the wanted ones that rates allow."""
    share = 1.0
    for i in range(len(last)):
        step = np.abs(wanted[i] - last[i])
        if step > 0.0 and rate[i] < np.inf:
            share = min(share, rate[i] * duration / step)
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
    dynamics : Articulated
        Of the robot.

    Parameters
    ----------
    robot : Robot
    limits : Limits
    before : Limiter, optional
        Whose place it takes.

    """

    def __init__(self, robot: Robot, limits: Limits, before: Limiter | None = None) -> None:
        n = robot.n
        if limits.velocity.shape != (n,):
            raise InputError(f'limits are for {len(limits.velocity)} joints: accepted are {n}')
        self.limits = limits
        self.dynamics = Articulated(robot)
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
        self.is_at_work: bool = False if before is None else before.is_at_work
        self.unlimited: Array = np.zeros(n)
        self._last: Array | None = None
        self._time = 0.0
        if before is not None:
            self.sides[:] = before.sides
            self.saturated[:] = before.saturated
            self._last, self._time = before._last, before._time

    def forget(self) -> None:
        """Begin anew: the next torque may be any."""
        self.sides[:], self.shares[:], self.saturated[:] = 0, 1.0, False
        self.slowed, self.is_at_work = 1.0, False
        self._last, self._time = None, 0.0

    def kept(self, time: float, q: Array, qd: Array, qdd: Array, tau: Array, acts: Array,
             solver: Priorities, parts: Callable[[], tuple[Array, Array]]) -> Array:
        """
        Torques (n,) [N·m] nearest to those of the law that keep all limits.

        Parameters
        ----------
        time : float
            Of the state [s].
        q, qd : (n,)
        qdd, acts : (n,)
            What the joints would do: the posture's acceleration, and that of torques on top.
        tau : (n,) [N·m]
            Of the law: what gives the posture's acceleration, and acts.
        solver : Priorities
            With what the tasks resist.
        parts : callable
            What gives C + G (n,), and the part of tau (n,) that the tasks take [N·m].

        """
        limits = self.limits
        self.unlimited = qdd = qdd + self.dynamics.apply_M_inv(q, acts)
        is_next = self._last is not None and time > self._time
        quickest = 0.5 / (time - self._time) if is_next else 0.0
        is_kept = are_bounds_kept(qdd, q, qd, limits.inner, limits.fastest, limits.deceleration,
                                  limits.rate, quickest, self._lower, self._upper)
        if is_kept:
            self.sides[:] = 0
        else:
            self._prepare(q, qdd, solver)
            tau = tau + self._push_against(qdd, self.sides)
        self.shares[:] = 1.0
        is_strong = exceeds(tau, limits.effort, self.saturated)
        if is_strong:
            h, task = parts()
            if is_kept:
                self._prepare(q, qdd, solver)
            # Nothing but the load and what the limits take, then the tasks with it, then all:
            # each keeps the bounds of acceleration, and so does all that is between the three.
            base = h + self._push_alone(np.zeros_like(q), np.zeros_like(self.sides))
            bare = h + task + self._push_against(
                self._M_inv @ task, np.zeros_like(self.sides))
            shares_within(base, bare - base, tau - bare, limits.effort, self._rows, self.shares)
            tau = base + self.shares[0] * (bare - base) + self.shares[1] * (tau - bare)
            tau = np.clip(tau, -limits.effort, limits.effort)
        self.slowed = 1.0
        if self._last is not None and time >= self._time:
            # all by one share: between two motions that were wanted there is no third
            self.slowed = slowed(self._last, tau, limits.effort_rate, time - self._time)
            if self.slowed < 1.0:
                tau = self._last + self.slowed * (tau - self._last)
        self.is_at_work = is_strong or self.slowed < 1.0 or not is_kept and bool(self.sides.any())
        self._last, self._time = tau, time
        return tau

    def _prepare(self, q: Array, qdd: Array, solver: Priorities) -> None:
        """M⁻¹, and how joints move against the tasks."""
        beyond = np.maximum(qdd - self._upper, self._lower - qdd) / self.limits.deceleration
        yielding = min(LEAST_YIELDING + YIELDING_RISE * max(float(beyond.max()), 0.0) ** 2,
                       GREATEST_YIELDING)
        J, inertias = solver.resistance()
        self._J = J
        if self._there.shape != J.shape:
            self._there, self._force = np.zeros(J.shape), np.zeros(J.shape)
        self.dynamics.M_inv(q, self._M_inv)
        mobility_against(self._M_inv, J, inertias, len(solver.rows), yielding, self._there,
                         self._force, self._K)

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
        self.dynamics.M_inv(rest, self._M_inv)
        mobility_against(self._M_inv, np.zeros((6, n)), np.zeros((1, 6, 6)), 1, 1.0,
                         np.zeros((6, n)), np.zeros((6, n)), self._K)
        limits = self.limits
        are_bounds_kept(rest, rest, rest, limits.inner, limits.fastest, limits.deceleration,
                        limits.rate, 1.0, self._lower, self._upper)
        nearest_within(self._K, rest, self._lower, self._upper, self.sides, self._chosen,
                       self._factor, self._push, self._change)
        shares_within(rest, rest, rest, rest + 1.0, self._rows, self.shares)
        slowed(rest, rest, rest + 1.0, 0.0)
        exceeds(rest, rest, self.saturated)
        self.forget()
