"""When to take the torque away from a law, what to send instead, and when to give it back."""

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

REACTIONS = ('report', 'hold', 'damp', 'gravity', 'zero', 'deactivate')  # the last one wins

# What a supervisor finds by itself, where it is asked to watch for it.
STALE_STATE, JUMP, NOT_FINITE, DEADLINE = 'stale_state', 'jump', 'not_finite', 'deadline'
OVERSPEED = 'overspeed'

JUMP_FACTOR = 2.0  # times the velocity limit is a jump: limits are kept by a law, roughly
JUMP_FLOOR = 2e-3  # [rad, m] and no less than that: noise
CLOCK_STEPS = -1.0, 10.0  # from one state to the next: beyond it is another clock [s]
# A joint is too fast where it exceeds its limit by these factors, in two states that follow each
# other, or in one, and by more than noise in either case [rad/s, m/s].
OVERSPEED_TWICE, OVERSPEED_ONCE, OVERSPEED_FLOOR = 1.2, 1.5, 0.05
HARDEST = 5.0  # times the stop rate a joint may be braked before its position limit
AT_REST = 0.01  # [rad/s, m/s]
LATE_PERIODS = 4.0  # mean intervals between states: one that is later than that is missing
LATE_SHARE = 0.05  # of the time-out of stale states: before it, none is missing
INTERVAL_SHARE = 0.125  # of the last interval in the mean
BLIND_RATE = 10.0  # the least rate of braking by prediction: it must end before its trust [1/s]
LONGEST_TICK = 0.05  # that limits move on by at once [s]
LONGEST_GAP = 2.0  # mean intervals that torques move on by at once
PATIENCE = 2.0  # for the arm to come to rest before it is given up [s]


@dataclass(frozen=True)
class Watchdog:
    """
    What is done about one cause.

    Attributes
    ----------
    reaction : str
        One of REACTIONS. 'report' counts it and changes nothing; 'hold' stops and stays there,
        'damp' stops and can be pushed, 'gravity' carries only the weight, 'zero' sends no torque;
        'deactivate' holds until the arm rests, then leaves it with what `Supervision.idle` says,
        and says so by `Supervisor.finished`.
    latched : bool
        Whether it lasts until `release`, and not only until the cause is gone; 'deactivate'
        always does.
    timeout : float [s]
        A silence of more than that is the cause; infinite: only `Supervisor.trip` tells of it.

    Raises
    ------
    InputError
        An unknown reaction, a time-out that is not positive.

    """

    reaction: str
    latched: bool = False
    timeout: float = np.inf

    def __post_init__(self) -> None:
        """Refuse what is unknown or not positive."""
        if self.reaction not in REACTIONS:
            raise InputError(f"reaction '{self.reaction}': accepted is one of "
                             + ', '.join(REACTIONS))
        if not self.timeout > 0.0:
            raise InputError(f'time-out of {self.timeout} s: accepted is more than 0')


@dataclass(frozen=True, eq=False)
class Supervision:
    """
    All that may change while a supervisor runs, but for the names of the watchdogs.

    Attributes
    ----------
    watchdogs : mapping of str to Watchdog
        By the name of the cause.
    effort_limits : (n,)
        Largest torque of each joint [N·m]; may be infinite.
    stop_rate : float [1/s]
        Of the exponential in which speed is braked.
    fade_time : float [s]
        In which the difference between two sources of torque fades, with a torque a period.
    blend_time : float [s]
        In which other effort limits come into force, those of a law as well as these.
    settle_time : float [s]
        How long a cause has to be gone before the law goes on.
    deadline : float [s]
        A law that takes longer has missed it.
    period : float [s]
        Expected from one state to the next.
    idle : str
        What an arm that was stopped for good is left with: 'gravity' or 'zero'.
    bridges : bool
        Whether a gap between the states is braked in before STALE_STATE is a cause: as soon as
        a state is missing, that is after LATE_PERIODS mean intervals, or LATE_SHARE of the
        time-out of STALE_STATE if that is longer.
    velocity_limits : (n,), optional
        Beyond which a measured speed is 'overspeed' [rad/s, m/s]; those of the robot if not given.
        Lower ones come into force with the time constant `blend_time`.
    effort_rates : (n,), optional
        Most that any torque changes, whatever its source [N·m/s, N/s]; unlimited if not given.

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
        """Refuse what is not positive."""
        for name in ('stop_rate', 'fade_time', 'blend_time', 'settle_time', 'deadline', 'period'):
            if not getattr(self, name) > 0.0:
                raise InputError(f'{name} {getattr(self, name)}: accepted is more than 0')

    @cached_property
    def hardest(self) -> float:
        """Damping rate of a joint before its limit, as far as the period carries it [1/s]."""
        carried = largest_damping_rate(self.period) - self.stop_rate  # 'hold' damps by both
        return min(HARDEST * self.stop_rate, max(self.stop_rate, carried))


@dataclass
class _Watch:
    """How it stands with one cause, on the supervisor's clock [s]."""

    fed: float
    seen: float = -np.inf
    active: bool = False
    reason: str = ''


@dataclass(eq=False)
class _Fade:
    """A difference that vanishes within a time, with no step in its rate."""

    duration: float
    start: Array
    age: float = field(default=0.0)

    def left(self, dt: float) -> Array:
        """What is left of it (n,) after dt [s] more."""
        self.age = min(self.age + dt, self.duration)
        s = self.age / self.duration
        return (1.0 - s * s * (3.0 - 2.0 * s)) * self.start


class Supervisor:
    """
    Stands between a law and the joints, and replaces the law's torque where something is wrong.

    It sees every state (`see`), is told of signs of life (`feed`) and of what went wrong
    (`trip`), and gives the torque to send (`torque`): finite, within the limits, and without a
    step where its source changes. It never raises for what the law or the sensors do.

    Attributes
    ----------
    cause, reaction, reason : str
        The gravest cause at present, and what is done about it; empty if there is none.
    blind : bool
        Whether the state is too old to act on: then the arm is braked along a state that is
        predicted (`osc_ros.control.prediction`), and at its end the weight is held there.
    counts : Counter of str
        How often each cause began.

    Parameters
    ----------
    robot : Robot
        For its limits.
    inverse_dynamics : callable
        Torque (n,) for q, q̇, q̈ (n,) each.
    settings : Supervision
    tell : callable, optional
        Called when cause or reaction have changed.
    clock : callable
        A steady clock [s].

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
        Forget all that was, latched causes too; the counts stay.

        Parameters
        ----------
        tau : (n,), optional
            What the joints have now [N·m], for the first torque to go on from.

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
        # mean interval of the states, on our clock and on theirs: a simulation may be slower
        self._came, self._interval = now, self.settings.period
        self._spacing = self.settings.period
        self._is_predicting = self._was_blind = False
        self._prediction.forget()

    def release(self) -> None:
        """Let latched causes go that are gone."""
        now = self._clock()
        for watch in self._watches.values():
            watch.active = self._is_there(watch, now)
        self._judge()

    def stop(self) -> None:
        """Bring the arm to rest for good: `finished` tells when."""
        self._stopping = True
        self._judge()

    @property
    def sent(self) -> Array | None:
        """Torque (n,) that was given last [N·m]."""
        return self._tau

    @property
    def finished(self) -> bool:
        """Whether the arm was stopped for good and is left alone, or does not rest within 2 s."""
        return self.reaction == 'deactivate' and (
            self.blind and (self._tau is None or self._is_predicting and self._prediction.is_over)
            or self._rests and self._fade is None
            or self._clock() - self._began > PATIENCE)

    def last(self) -> Array:
        """Torque (n,) to leave behind, for the arm where it was seen last [N·m]."""
        limits = self.settings.effort_limits
        self._predict(self._clock())
        return np.clip(self._stop_if_possible(self.settings.idle), -limits, limits)

    def feed(self, name: str, lasting: float = 0.0) -> None:
        """Take a sign of life; the time-out begins when it has lasted [s]."""
        self._watches[name].fed = self._clock() + lasting

    def trip(self, name: str, reason: str) -> None:
        """Take note of a cause that is there now, whether or not it is watched for."""
        if name in self._watches:
            watch = self._watches[name]
            watch.seen, watch.reason = self._clock(), reason

    def see(self, time: float, q: Array, qd: Array) -> bool:
        """
        Take a state in, if it can be believed.

        One that lies farther from the one before than the joints can go is taken only if the next
        one confirms it; one that is older than the one before is late, and of no use.

        Parameters
        ----------
        time : float
            Of the state, on its own clock [s].
        q, qd : (n,)

        Returns
        -------
        bool
            Whether it was taken.

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
                self._source = ''  # whatever follows, begins anew from the torque sent last
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
        """Trip where a joint is faster than its limit by the margins of OVERSPEED."""
        wanted, now = self._wanted_speeds(), self._clock()
        if self._speeds is not wanted:
            # a joint that was within the limits of a moment ago has time to slow down
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
        """Whether the law's torque must not be sent now; to be asked now and then."""
        self._judge()
        return self.reaction not in ('', 'report') or self.blind

    def torque(self, law: Callable[[], Array] | None = None) -> Array:
        """
        Return the torque to send now (n,) [N·m].

        Parameters
        ----------
        law : callable, optional
            Gives its torque (n,) for the state seen last; not called while the arm is stopped.

        Raises
        ------
        InputError
            No state was ever seen.

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
        # a law that was not asked for a while answers once as for a long tick: fade from there too
        return self._sent('law' if self._source in ('', 'law', 'resumed') else 'resumed', tau)

    def _asked(self, law: Callable[[], Array]) -> Array | None:
        began = self._clock()
        try:
            tau = law()
        except Exception as error:  # whatever it is, the arm needs a torque
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
        """Let torque come from a source, with no step where that is another one."""
        now = self._clock()
        dt = self._new_time - self._time
        if not 0.0 < dt < PATIENCE:  # no new state, or its clock was set
            dt = 0.0 if dt else now - self._at
        if source == 'hold' and source != self._source:
            self._anchor = np.clip(
                self._q + self._qd / self.settings.stop_rate, self._lower, self._upper)
        limits = self._bounds(min(dt, LONGEST_TICK))
        wanted = self._stop_if_possible(source) if tau is None else tau
        # a prediction that was not asked for a while has gone on without a torque to show for it
        is_late = self.blind and dt > LATE_PERIODS * self.settings.period
        if self._tau is not None and (
                source != self._source or self.blind != self._was_blind or is_late):
            self._fade = _Fade(self.settings.fade_time, self._tau - wanted)
        self._was_blind = self.blind
        is_answer = self._new_time != self._time and not self.blind
        self._source, self._time, self._at = source, self._new_time, now
        if self._fade is not None:
            # however long nothing was sent: the joints had the last torque
            wanted = wanted + self._fade.left(min(dt, self.settings.period))
            if self._fade.age >= self._fade.duration:
                self._fade = None
        self._tau = self._within_rate(np.minimum(np.maximum(wanted, -limits), limits), dt)
        if is_answer:
            self._prediction.record(self._new_time, self._q, self._qd, self._tau)
        return self._tau

    def _within_rate(self, wanted: Array, dt: float) -> Array:
        """
        Torques (n,) as near to the wanted ones as their rates allow after dt [s].

        A gap counts as LONGEST_GAP mean intervals of the states' stamps, since no torque was there
        meanwhile.

        """
        rates = self.settings.effort_rates
        if rates is None or self._tau is None:
            return wanted
        step = rates * min(dt, LONGEST_GAP * max(self._spacing, self.settings.period))
        return np.minimum(np.maximum(wanted, self._tau - step), self._tau + step)

    def _predict(self, now: float) -> None:
        """Bring the prediction to now [s], if there are no states."""
        if not self.blind or self._tau is None:
            return
        if not self._is_predicting:
            self._is_predicting = True
            self._prediction.begin(self._came, self._q, self._qd, self.settings.effort_limits)
        self._prediction.advance(now, self._tau)

    def _state(self) -> tuple[Array, Array]:
        """State (n,), (n,) to stop from: the one seen last, or predicted."""
        if self.blind and self._is_predicting:
            return self._prediction.q, self._prediction.qd
        return self._q, self._qd

    def _bounds(self, dt: float) -> Array:
        """Effort limits (n,) after dt [s] more; what was or will be infinite changes at once."""
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
        except Exception:  # a state of 1e200, whatever it is: nothing is better than what was
            return np.zeros_like(self._qd) if self._tau is None else self._tau

    def _stop(self, source: str) -> Array:
        """Torque (n,) that stops the arm, or carries it."""
        (q, qd), rest = self._state(), np.zeros_like(self._qd)
        if source == 'zero':
            return rest
        # a payload has weight, known or not: while there are states, they tell of it
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
        """How much harder than by the stop rate a joint is to be braked before its limit [1/s]."""
        rate, speed = self.settings.stop_rate, np.abs(qd)
        room = np.where(qd > 0.0, self._upper - q, q - self._lower)
        # a steady q̈ = q̇²/(2 room) stops just there
        needed = speed / np.maximum(2.0 * room, speed / self.settings.hardest + 1e-12)
        return np.asarray(np.clip(needed - rate, 0.0, None))

    def _way(self, step: Array) -> Array:
        """Angles of joints without limits the short way round (n,)."""
        if not self._may_turn:
            return step
        return np.where(self._turns, np.remainder(step + np.pi, 2.0 * np.pi) - np.pi, step)

    def _jump(self, before: float, q_before: Array, qd_before: Array, time: float, q: Array,
              qd: Array) -> str:
        """Why a state cannot follow another one; empty if it can."""
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
        Whether a state does not go on from another one as the velocities of both say.

        Any speed is accepted: an arm that is far beyond its limits has to be seen, and braked. But
        the positions must have moved by it.

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
        """Find the gravest cause, and what is to be done."""
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
    """Whether all numbers are: for few of them in a tenth of the time of numpy's."""
    return all(all(map(isfinite, x.tolist())) for x in arrays)
