"""Supervision of a control law: detects faults and replaces the law's torque until they end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bandwidth import largest_damping_rate
from osc_ros.control.prediction import Prediction
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

REACTIONS = ('report', 'hold', 'damp', 'gravity', 'zero', 'deactivate')  # by increasing priority

# Causes that a supervisor detects itself, if they have a watchdog.
STALE_STATE, JUMP, NOT_FINITE, DEADLINE = 'stale_state', 'jump', 'not_finite', 'deadline'
OVERSPEED = 'overspeed'

JUMP_FACTOR = 2.0  # times the velocity limit is a jump; a law may exceed limits slightly
JUMP_FLOOR = 2e-3  # smallest step that can be a jump, for noise [rad, m]
CLOCK_STEPS = -1.0, 10.0  # range of stamp steps; outside it the clock was changed [s]
# A joint is too fast if its speed exceeds OVERSPEED_TWICE times its limit in two consecutive
# states, or OVERSPEED_ONCE times its limit in one, each plus OVERSPEED_FLOOR for noise
# [rad/s, m/s].
OVERSPEED_TWICE, OVERSPEED_ONCE, OVERSPEED_FLOOR = 1.2, 1.5, 0.05
HARDEST = 5.0  # times the stop rate: highest braking rate before a position limit
AT_REST = 0.01  # [rad/s, m/s]
LATE_PERIODS = 4.0  # mean intervals between states, after which a state is missing
LATE_SHARE = 0.05  # of the time-out of stale states: least age of a missing state
INTERVAL_SHARE = 0.125  # weight of the last interval in the mean
BLIND_RATE = 10.0  # least braking rate during prediction, to stop within its TRUST [1/s]
LONGEST_TICK = 0.05  # longest time step of a change of limits [s]
LONGEST_GAP = 2.0  # mean intervals: longest time step of the torque rate limit
PATIENCE = 2.0  # time for the arm to come to rest, after which it is left alone [s]


@dataclass(frozen=True)
class Watchdog:
    """
    Reaction to one cause.

    Attributes
    ----------
    reaction : str
        One of REACTIONS. 'report' counts the cause and changes nothing. 'hold' stops the arm and
        holds its position. 'damp' stops the arm, which can then be pushed. 'gravity' compensates
        only gravity. 'zero' sends zero torque. 'deactivate' holds until the arm is at rest, then
        applies `Supervision.idle` and sets `Supervisor.finished`.
    latched : bool
        Whether the reaction lasts until `release`, rather than until the cause ends; 'deactivate'
        is always latched.
    timeout : float [s]
        Longest time between two calls of `Supervisor.feed`; the cause begins when it is exceeded.
        If infinite, only `Supervisor.trip` reports the cause.

    Raises
    ------
    InputError
        An unknown reaction, a time-out that is not positive.

    """

    reaction: str
    latched: bool = False
    timeout: float = np.inf

    def __post_init__(self) -> None:
        """Raise for an unknown reaction or a time-out that is not positive."""
        if self.reaction not in REACTIONS:
            raise InputError(f"reaction '{self.reaction}': accepted is one of "
                             + ', '.join(REACTIONS))
        if not self.timeout > 0.0:
            raise InputError(f'time-out of {self.timeout} s: accepted is more than 0')


@dataclass(frozen=True, eq=False)
class Supervision:
    """
    Settings of a supervisor; all may change while it runs, except the names of the watchdogs.

    Attributes
    ----------
    watchdogs : mapping of str to Watchdog
        By the name of the cause.
    effort_limits : (n,)
        Largest torque of each joint [N·m]; may be infinite.
    stop_rate : float [1/s]
        Rate of the exponential decay of the speed while braking.
    fade_time : float [s]
        Duration of the fade from one source of torque to another, at one torque per period.
    blend_time : float [s]
        Duration over which new effort limits come into force, for the law and the supervisor.
    settle_time : float [s]
        Time without the cause before the law resumes.
    deadline : float [s]
        Longest computation time of the law; a longer one is a missed deadline.
    period : float [s]
        Expected interval between two states.
    idle : str
        Torque after the final stop: 'gravity' or 'zero'.
    bridges : bool
        Whether the arm is braked by prediction as soon as a state is missing, before STALE_STATE
        is a cause. A state is missing after LATE_PERIODS mean intervals, or after LATE_SHARE of
        the time-out of STALE_STATE if that is longer.
    velocity_limits : (n,), optional
        Limits of the measured speeds for 'overspeed' [rad/s, m/s]; the robot's if not given.
        Lower limits come into force with the time constant `blend_time`.
    effort_rates : (n,), optional
        Largest rate of change of the torques of any source [N·m/s, N/s]; unlimited if not given.

    Raises
    ------
    InputError
        A number that is not positive.

    """

    watchdogs: Mapping[str, Watchdog]
    effort_limits: Array
    stop_rate: float = 10.0
    fade_time: float = 0.05
    blend_time: float = 0.3
    settle_time: float = 0.1
    deadline: float = np.inf
    period: float = 0.002
    idle: str = 'gravity'
    bridges: bool = False
    velocity_limits: Array | None = None
    effort_rates: Array | None = None

    def __post_init__(self) -> None:
        """Raise for a number that is not positive."""
        for name in ('stop_rate', 'fade_time', 'blend_time', 'settle_time', 'deadline', 'period'):
            if not getattr(self, name) > 0.0:
                raise InputError(f'{name} {getattr(self, name)}: accepted is more than 0')

    @cached_property
    def hardest(self) -> float:
        """Highest damping rate before a joint limit that is stable at this period [1/s]."""
        carried = largest_damping_rate(self.period) - self.stop_rate  # 'hold' damps by both
        return min(HARDEST * self.stop_rate, max(self.stop_rate, carried))


@dataclass
class _Watch:
    """State of one cause; times on the supervisor's clock [s]."""

    fed: float
    seen: float = -np.inf
    active: bool = False
    reason: str = ''


@dataclass(eq=False)
class _Fade:
    """Difference of two vectors that decays to zero in a given time, C¹."""

    duration: float
    start: Array
    age: float = field(default=0.0)

    def left(self, dt: float) -> Array:
        """Remaining difference (n,), dt [s] after the previous call."""
        self.age = min(self.age + dt, self.duration)
        s = self.age / self.duration
        return (1.0 - s * s * (3.0 - 2.0 * s)) * self.start


class Supervisor:
    """
    Checks states and torques, and replaces the law's torque while a cause is active.

    The caller passes every state to `see`, signs of life to `feed` and faults to `trip`.
    `torque` returns the torque to send: finite, within the limits, and continuous when its source
    changes. Errors of the law or the sensors never raise.

    Attributes
    ----------
    cause, reaction, reason : str
        Active cause whose reaction has the highest priority, its reaction, and an explanation;
        empty if there is none.
    blind : bool
        Whether the last state is too old for control. The arm is then braked along a predicted
        state (`osc_ros.control.prediction`); when the prediction ends, gravity is compensated at
        the predicted position.
    counts : Counter of str
        Number of times that each cause began.

    Parameters
    ----------
    robot : Robot
        Provides the limits.
    inverse_dynamics : callable
        Torque (n,) for q, q̇, q̈ (n,) each.
    settings : Supervision
    tell : callable, optional
        Called when the cause or the reaction has changed.
    clock : callable
        Monotonic clock [s].

    """

    def __init__(self, robot: Robot, inverse_dynamics: Callable[[Array, Array, Array], Array],
                 settings: Supervision, tell: Callable[[], None] = lambda: None,
                 clock: Callable[[], float] = perf_counter) -> None:
        self.settings = settings
        self._inverse_dynamics = inverse_dynamics
        self._tell, self._clock = tell, clock
        self._prediction = Prediction(robot, inverse_dynamics)
        self._names = robot.joint_names
        self._lower, self._upper = robot.position_limits.T
        self._fastest = np.asarray(robot.velocity_limits)
        self._turns = ~(np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)
        self._may_turn = bool(self._turns.any())
        self.counts: Counter[str] = Counter(dict.fromkeys(settings.watchdogs, 0))
        self.begin()

    def begin(self, tau: Array | None = None) -> None:
        """
        Reset the supervisor, including latched causes but not the counts.

        Parameters
        ----------
        tau : (n,), optional
            Present torque of the joints [N·m], from which the first torque continues.

        """
        now = self._clock()
        self._watches = {name: _Watch(now) for name in self.settings.watchdogs}
        self.cause = self.reaction = self.reason = ''
        self.blind = False
        self._tau, self._source, self._at = tau, '', now
        self._fade: _Fade | None = None
        self._limits = self._wanted = self.settings.effort_limits
        self._speeds, self._speeds_at, self._was_fast = self._wanted_speeds(), now, False
        self._moving: _Fade | None = None  # of the limits
        self._began, self._stopping, self._rests = now, False, False
        self._seen = False
        self._doubted: tuple[float, Array, Array] | None = None
        self._q = self._qd = self._anchor = np.zeros_like(self._fastest)
        self._time = self._new_time = 0.0
        # mean interval of the states, on this clock and by their stamps: a simulation may run slow
        self._came, self._interval = now, self.settings.period
        self._spacing = self.settings.period
        self._is_predicting = self._was_blind = False
        self._prediction.forget()

    def release(self) -> None:
        """Release latched causes that are no longer present."""
        now = self._clock()
        for watch in self._watches.values():
            watch.active = self._is_there(watch, now)
        self._judge()

    def stop(self) -> None:
        """Bring the arm to rest and deactivate; `finished` becomes true at the end."""
        self._stopping = True
        self._judge()

    @property
    def sent(self) -> Array | None:
        """Last torque (n,) that was returned [N·m]."""
        return self._tau

    @property
    def finished(self) -> bool:
        """Whether deactivation is complete, or the arm did not come to rest within 2 s."""
        return self.reaction == 'deactivate' and (
            self.blind and (self._tau is None or self._is_predicting and self._prediction.is_over)
            or self._rests and self._fade is None
            or self._clock() - self._began > PATIENCE)

    def last(self) -> Array:
        """Idle torque (n,) to leave after deactivation, for the last or predicted state [N·m]."""
        limits = self.settings.effort_limits
        self._predict(self._clock())
        return np.clip(self._stop_if_possible(self.settings.idle), -limits, limits)

    def feed(self, name: str, lasting: float = 0.0) -> None:
        """Record a sign of life; the time-out starts `lasting` seconds from now."""
        self._watches[name].fed = self._clock() + lasting

    def trip(self, name: str, reason: str) -> None:
        """Record that a cause is present now; ignored if it has no watchdog."""
        if name in self._watches:
            watch = self._watches[name]
            watch.seen, watch.reason = self._clock(), reason

    def see(self, time: float, q: Array, qd: Array) -> bool:
        """
        Accept a state if it is plausible.

        A state farther from the last one than the joints can move is rejected, unless the next
        state confirms it: then that next state is accepted. A state with an earlier stamp than
        the last one is ignored.

        Parameters
        ----------
        time : float
            Stamp of the state, on the clock of the states [s].
        q, qd : (n,)

        Returns
        -------
        bool
            Whether the state was accepted.

        """
        if not _is_finite(q, qd):
            self.trip(NOT_FINITE, f'joint state {q.tolist()}, {qd.tolist()}')
            return False
        if self._seen:
            if CLOCK_STEPS[0] <= time - self._new_time < 0.0:
                return False
            doubted, self._doubted = self._doubted, None
            reason = self._jump(self._new_time, self._q, self._qd, time, q, qd)
            if reason:
                self.trip(JUMP, reason)
                if doubted is None or self._contradicts(*doubted, time, q, qd):
                    self._doubted = time, q, qd
                    return False
                self._source = ''  # the next source fades in from the torque sent last
        now = self._clock()
        spacing = time - self._new_time
        if self._seen and spacing > 0.0:
            apart = min(now - self._came, LATE_PERIODS * self._interval)
            self._interval += INTERVAL_SHARE * (apart - self._interval)
            spacing = min(spacing, LATE_PERIODS * self._spacing)
            self._spacing += INTERVAL_SHARE * (spacing - self._spacing)
        self._seen, self._q, self._qd, self._new_time = True, q, qd, time
        self._came, self.blind, self._is_predicting = now, False, False
        self._look_at_speed(qd)
        if STALE_STATE in self._watches:
            self.feed(STALE_STATE)
        return True

    def _wanted_speeds(self) -> Array:
        wanted = self.settings.velocity_limits
        return self._fastest if wanted is None else wanted

    def _look_at_speed(self, qd: Array) -> None:
        """Trip OVERSPEED if a joint exceeds its velocity limit by the OVERSPEED margins."""
        wanted, now = self._wanted_speeds(), self._clock()
        if self._speeds is not wanted:
            # reduce the limits gradually, so that a joint within the previous ones can slow down
            kept = self._speeds * np.exp(-(now - self._speeds_at) / self.settings.blend_time)
            self._speeds = np.where(np.isfinite(kept) & (kept > wanted), kept, wanted)
            if np.array_equal(self._speeds, wanted):
                self._speeds = wanted
        self._speeds_at = now
        speed, limits = np.abs(qd), self._speeds
        fast = speed > OVERSPEED_TWICE * limits + OVERSPEED_FLOOR
        was_fast, self._was_fast = self._was_fast, bool(fast.any())
        if self._was_fast:
            i = int(np.argmax(np.where(fast, speed / limits, 0.0)))
            if was_fast or speed[i] > OVERSPEED_ONCE * limits[i] + OVERSPEED_FLOOR:
                self.trip(OVERSPEED, f"'{self._names[i]}' moves at {speed[i]:.4g}: its limit is "
                                     f'{limits[i]:.4g}')

    def watch(self) -> bool:
        """Whether the law's torque must not be sent now; call this regularly."""
        self._judge()
        return self.reaction not in ('', 'report') or self.blind

    def torque(self, law: Callable[[], Array] | None = None) -> Array:
        """
        Return the torque to send now (n,) [N·m].

        Parameters
        ----------
        law : callable, optional
            Returns its torque (n,) for the last state; not called while the arm is stopped.

        Raises
        ------
        InputError
            No state was ever accepted.

        """
        if not self._seen:
            raise InputError('no joint state was seen, and none can be answered')
        tau = None
        if not self.watch() and law is not None:
            tau = self._asked(law)
            self.watch()
        if tau is None or self.reaction not in ('', 'report') or self.blind:
            self._predict(self._clock())
            return self._sent(self._source_of_stop(), None)
        # after an interruption the law's first torque is that of a long tick: fade from it too
        return self._sent('law' if self._source in ('', 'law', 'resumed') else 'resumed', tau)

    def _asked(self, law: Callable[[], Array]) -> Array | None:
        began = self._clock()
        try:
            tau = law()
        except Exception as error:  # of any kind: the arm needs a torque
            self.trip(NOT_FINITE, f'{type(error).__name__}: {error}')
            return None
        took = self._clock() - began
        if took > self.settings.deadline:
            self.trip(DEADLINE, f'an update took {took:.4f} s')
        if tau.shape != self._fastest.shape or not _is_finite(tau):
            self.trip(NOT_FINITE, f'torque {tau.tolist()}')
            return None
        return tau

    def _source_of_stop(self) -> str:
        if self.reaction == 'zero':
            return 'zero'
        if self.reaction == 'deactivate':
            _, qd = self._state()
            self._rests = self._rests or float(np.abs(qd).max()) < AT_REST
            if self._rests:
                return self.settings.idle
        if self.reaction == 'gravity':
            return 'gravity'
        if self.blind:
            return 'weight' if self._prediction.is_over else 'brake'
        return 'damp' if self.reaction == 'damp' else 'hold'

    def _sent(self, source: str, tau: Array | None) -> Array:
        """Torque (n,) of a source, faded from the last torque if the source has changed."""
        now = self._clock()
        dt = self._new_time - self._time
        if not 0.0 < dt < PATIENCE:  # no new state, or its clock was set
            dt = 0.0 if dt else now - self._at
        if source == 'hold' and source != self._source:
            self._anchor = np.clip(
                self._q + self._qd / self.settings.stop_rate, self._lower, self._upper)
        limits = self._bounds(min(dt, LONGEST_TICK))
        wanted = self._stop_if_possible(source) if tau is None else tau
        # after a gap between calls the prediction has advanced without new torques: fade
        is_late = self.blind and dt > LATE_PERIODS * self.settings.period
        if self._tau is not None and (
                source != self._source or self.blind != self._was_blind or is_late):
            self._fade = _Fade(self.settings.fade_time, self._tau - wanted)
        self._was_blind = self.blind
        is_answer = self._new_time != self._time and not self.blind
        self._source, self._time, self._at = source, self._new_time, now
        if self._fade is not None:
            # at most one period, however long the gap: the joints had the last torque
            wanted = wanted + self._fade.left(min(dt, self.settings.period))
            if self._fade.age >= self._fade.duration:
                self._fade = None
        self._tau = self._within_rate(np.minimum(np.maximum(wanted, -limits), limits), dt)
        if is_answer:
            self._prediction.record(self._new_time, self._q, self._qd, self._tau)
        return self._tau

    def _within_rate(self, wanted: Array, dt: float) -> Array:
        """
        Torques (n,) nearest to the wanted ones within the rate limits after dt [s].

        dt counts as at most LONGEST_GAP mean intervals of the states' stamps, because no torque
        was sent during a gap.

        """
        rates = self.settings.effort_rates
        if rates is None or self._tau is None:
            return wanted
        step = rates * min(dt, LONGEST_GAP * max(self._spacing, self.settings.period))
        return np.minimum(np.maximum(wanted, self._tau - step), self._tau + step)

    def _predict(self, now: float) -> None:
        """Advance the prediction to now [s] if the supervisor is blind."""
        if not self.blind or self._tau is None:
            return
        if not self._is_predicting:
            self._is_predicting = True
            self._prediction.begin(self._came, self._q, self._qd, self.settings.effort_limits)
        self._prediction.advance(now, self._tau)

    def _state(self) -> tuple[Array, Array]:
        """Positions and velocities (n,) for stopping: the last accepted or the predicted state."""
        if self.blind and self._is_predicting:
            return self._prediction.q, self._prediction.qd
        return self._q, self._qd

    def _bounds(self, dt: float) -> Array:
        """Effort limits (n,) dt [s] after the last call; infinite limits change at once."""
        wanted = self.settings.effort_limits
        if wanted is not self._wanted:
            both = np.isfinite(self._limits) & np.isfinite(wanted)
            away = np.subtract(self._limits, wanted, out=np.zeros(len(wanted)), where=both)
            self._wanted, self._moving = wanted, _Fade(self.settings.blend_time, away)
        if self._moving is not None:
            self._limits = wanted + self._moving.left(dt)
            if self._moving.age >= self._moving.duration:
                self._moving, self._limits = None, wanted
        return self._limits

    def _stop_if_possible(self, source: str) -> Array:
        try:
            return self._stop(source)
        except Exception:  # an absurd state, such as 1e200: keep the last torque
            return np.zeros_like(self._qd) if self._tau is None else self._tau

    def _stop(self, source: str) -> Array:
        """Torque (n,) that brakes the arm or compensates gravity, by source."""
        (q, qd), rest = self._state(), np.zeros_like(self._qd)
        if source == 'zero':
            return rest
        # without states, add the estimated unmodelled torque, such as that of a payload
        more = self._prediction.unmodelled if self.blind else rest
        if source in ('gravity', 'weight'):
            return self._inverse_dynamics(q, rest, rest) + more
        rate = self.settings.stop_rate
        if source == 'brake':
            rate = max(rate, BLIND_RATE)
        if source == 'hold':
            # with the anchor at q + q̇/ω this is q̈ = -ω q̇: an exponential, without overshoot
            qdd = rate * (rate * self._way(self._anchor - q) - 2.0 * qd)
        else:
            qdd = -rate * qd
        qdd -= self._extra_rate(q, qd) * qd
        tau = self._inverse_dynamics(q, qd, qdd) + more
        limits = self._limits
        if (np.abs(tau) > limits).any():
            # one factor for all joints: the kinetic energy falls as long as it is not zero
            h = self._inverse_dynamics(q, qd, rest) + more
            room = np.where(tau > h, limits - h, limits + h)
            moving = (tau != h) & (room > 0.0)
            h += min(1.0, np.min(room[moving] / np.abs(tau - h)[moving], initial=1.0)) * (tau - h)
            tau = h
        return tau

    def _extra_rate(self, q: Array, qd: Array) -> Array:
        """Damping rate (n,) beyond the stop rate to stop before the position limits [1/s]."""
        rate, speed = self.settings.stop_rate, np.abs(qd)
        room = np.where(qd > 0.0, self._upper - q, q - self._lower)
        # a constant deceleration of q̇²/(2 room) stops at the limit
        needed = speed / np.maximum(2.0 * room, speed / self.settings.hardest + 1e-12)
        return np.asarray(np.clip(needed - rate, 0.0, None))

    def _way(self, step: Array) -> Array:
        """Step (n,), for joints without limits wrapped to [-π, π)."""
        if not self._may_turn:
            return step
        return np.where(self._turns, np.remainder(step + np.pi, 2.0 * np.pi) - np.pi, step)

    def _jump(self, before: float, q_before: Array, qd_before: Array, time: float, q: Array,
              qd: Array) -> str:
        """Reason why a state cannot follow another one; empty if it can."""
        dt = time - before
        if not CLOCK_STEPS[0] <= dt <= CLOCK_STEPS[1]:
            return f'the time of the states went from {before:.3f} s to {time:.3f} s'
        speed = JUMP_FACTOR * self._fastest
        for kind, step, allowed in (
                ('', self._way(q - q_before),
                 JUMP_FLOOR + speed * max(dt, self.settings.period)),
                ('the speed of ', qd - qd_before, speed)):
            over = np.abs(step) - allowed
            if (over > 0.0).any():
                i = int(np.argmax(over))
                return (f"{kind}'{self._names[i]}' went {abs(step[i]):.4g} in {dt:.4g} s: "
                        f'accepted is {allowed[i]:.4g}')
        return ''

    def _contradicts(self, before: float, q_before: Array, qd_before: Array, time: float,
                     q: Array, qd: Array) -> bool:
        """
        Whether two states contradict: their positions do not differ by the mean velocity times dt.

        Any speed is accepted, so that an arm far beyond its velocity limits is braked; but the
        position step must agree with the velocities, and the velocities with each other.

        """
        dt = time - before
        if not CLOCK_STEPS[0] <= dt <= CLOCK_STEPS[1]:
            return True
        moving = np.minimum(np.abs(qd), np.abs(qd_before))
        step = self._way(q - q_before - 0.5 * dt * (qd + qd_before))
        slack = JUMP_FLOOR + JUMP_FACTOR * self._fastest * max(dt, self.settings.period)
        return bool((np.abs(step) > slack).any() or (
            np.abs(qd - qd_before) > JUMP_FACTOR * np.maximum(self._fastest, moving)).any())

    def _lateness(self, timeout: float) -> float:
        """Age [s] at which a state is missing, for a time-out of stale states [s]."""
        share = LATE_SHARE * timeout if timeout < np.inf else 0.0
        return max(LATE_PERIODS * max(self._interval, self.settings.period), share)

    def _is_there(self, watch: _Watch, now: float) -> bool:
        return now - watch.seen <= self.settings.settle_time

    def _judge(self) -> None:
        """Update the causes; select the reaction of highest priority and notify of a change."""
        now, before = self._clock(), (self.cause, self.reaction)
        gravest, self.cause, self.reaction, self.reason = -1, '', '', ''
        dogs, settle_time = self.settings.watchdogs, self.settings.settle_time
        for name, watch in self._watches.items():
            dog = dogs[name]
            if now - watch.fed > dog.timeout:
                watch.seen, watch.reason = now, f'nothing for {now - watch.fed:.3f} s'
            elif not watch.active and now - watch.seen > settle_time:
                continue
            was = watch.active
            watch.active = self._is_there(watch, now) or was and (
                dog.latched or dog.reaction == 'deactivate')
            self.counts[name] += watch.active and not was
            if watch.active and REACTIONS.index(dog.reaction) > gravest:
                gravest = REACTIONS.index(dog.reaction)
                self.cause, self.reaction, self.reason = name, dog.reaction, watch.reason
        if self._stopping:
            self.cause, self.reaction, self.reason = 'stop', 'deactivate', 'told to stop'
        state = self._watches.get(STALE_STATE)
        timeout = np.inf if state is None else self.settings.watchdogs[STALE_STATE].timeout
        self.blind = (state is not None and now - state.fed > timeout
                      or self.settings.bridges and self._seen
                      and now - self._came > self._lateness(timeout))
        if (self.cause, self.reaction) != before:
            if self.reaction != before[1]:
                self._began, self._rests = now, False
            self._tell()


def _is_finite(*arrays: Array) -> bool:
    """Whether all numbers are finite; for short arrays ten times faster than numpy."""
    return all(all(map(isfinite, x.tolist())) for x in arrays)
