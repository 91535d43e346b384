# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""Supervision of a control law: detects faults and replaces the law's torque until they end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.causes import Causes
from osc_ros.control.prediction import Prediction
from osc_ros.control.state_check import (
    CLOCK_STEPS,
    FreezeCheck,
    FROZEN_LONG,
    SpeedCheck,
    State,
    StateCheck,
)
from osc_ros.control.stopping import Stopping
from osc_ros.control.supervision import (
    DEADLINE,
    HARMLESS,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    STALE_STATE,
    Supervision,
)
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

AT_REST = 0.01  # a lower speed counts as rest [rad/s, m/s]
LATE_PERIODS = 4.0  # mean intervals between states, after which a state is missing
LATE_SHARE = 0.05  # of the time-out of stale states: least age of a missing state
INTERVAL_SHARE = 0.125  # weight of the last interval in the mean
LONGEST_TICK = 0.05  # longest time step of a change of limits [s]
LONGEST_GAP = 2.0  # mean intervals: longest time step of the torque rate limit
PATIENCE = 2.0  # time for the arm to come to rest, after which commands end [s]


@dataclass(eq=False)
class _Fade:
    """Difference of two vectors that decays to zero in a given time, C¹."""

    duration: float
    start: Array
    age: float = field(default=0.0)

    def remaining(self, dt: float) -> Array:
        """Remaining difference (n,), dt [s] after the previous call."""
        self.age = min(self.age + dt, self.duration)
        s = self.age / self.duration
        return (1.0 - s * s * (3.0 - 2.0 * s)) * self.start


class Supervisor:
    """
    Checks states and torques, and replaces the law's torque while a cause is active.

    The caller passes every state to `accept_state`, signs of life to `feed` and faults to `trip`.
    `torque` returns the torque to send: finite, within the limits, and continuous when its source
    changes. Errors of the law or the sensors never raise.

    Attributes
    ----------
    blind : bool
        Whether the last state is too old for control. The arm is then braked along a predicted
        state (`osc_ros.control.prediction`); when the prediction ends, gravity is compensated at
        the predicted position.
    clock : callable
        Monotonic clock [s].
    load : (n,) [N·m]
        Torque that the joints need in addition to the model's, where that is known; may be set.

    Parameters
    ----------
    robot : Robot
        Provides the limits.
    inverse_dynamics : callable
        Torque (n,) for q, q̇, q̈ (n,) each.
    settings : Supervision
    on_change, clock : callable, optional
        Called when the cause or the reaction has changed; see the attribute.

    """

    def __init__(self, robot: Robot, inverse_dynamics: Callable[[Array, Array, Array], Array],
                 settings: Supervision, on_change: Callable[[], None] = lambda: None,
                 clock: Callable[[], float] = perf_counter) -> None:
        self.settings = settings
        self._on_change, self.clock = on_change, clock
        self._prediction = Prediction(robot, inverse_dynamics)
        self._stopping = Stopping(robot, inverse_dynamics)
        self._check = StateCheck(robot)
        self._causes = Causes()
        self._robot = robot
        self._fastest = np.asarray(robot.velocity_limits)
        self._rest = self.load = np.zeros_like(self._fastest)
        self.begin()

    def begin(self, tau: Array | None = None) -> None:
        """
        Reset the supervisor, including latched causes but not the counts.

        Parameters
        ----------
        tau : (n,), optional
            Present torque of the joints [N·m], from which the first torque continues.

        """
        now = self.clock()
        self._causes.reset(self.settings, now)
        self.blind = False
        self._tau, self._source, self._at = tau, '', now
        self._fade: _Fade | None = None
        self._limits = self._wanted = self.settings.effort_limits
        self._speeds = SpeedCheck(self._robot.joint_names, self._wanted_speeds(), now)
        self._limit_change: _Fade | None = None
        self._began, self._rests = now, False
        self._seen, self._freeze = False, FreezeCheck(self._robot)
        self._doubted: State | None = None
        self._state = State(0.0, self._rest, self._rest)
        self._time = 0.0  # stamp of the state of the last torque
        # mean interval of the states, on this clock and by their stamps: a simulation may run slow
        self._came, self._interval = now, self.settings.period
        self._spacing = self.settings.period
        self._is_predicting = self._was_blind = False
        self._stopping.retreat.forget()
        self._prediction.forget()
        if tau is not None:
            self._prediction.record_torque(now, tau)

    @property
    def cause(self) -> str:
        """Active cause whose reaction has the highest priority; empty if there is none."""
        return self._causes.cause

    @property
    def reaction(self) -> str:
        """Reaction to `cause`; empty if there is none."""
        return self._causes.reaction

    @property
    def reason(self) -> str:
        """Explanation of `cause`."""
        return self._causes.reason

    @property
    def counts(self) -> Counter[str]:
        """Number of times that each cause began."""
        return self._causes.counts

    @property
    def last_torque(self) -> Array | None:
        """Last torque (n,) that was returned [N·m]."""
        return self._tau

    @property
    def finished(self) -> bool:
        """Whether deactivation is complete, or the arm did not come to rest within 2 s."""
        return self.reaction == 'deactivate' and (
            self.blind and (self._tau is None or self._is_predicting and self._prediction.is_over)
            or self._rests and self._fade is None
            or self.clock() - self._began > PATIENCE)

    def release(self) -> None:
        """
        Release latched causes that are no longer present.

        Positions that are frozen count as those of an arm at rest from now on, until they change:
        an arm that was stopped abruptly looks the same.

        """
        self._freeze.believe()
        self._causes.release(self.settings, self.clock())
        self._update()

    def stop(self) -> None:
        """Bring the arm to rest and deactivate; `finished` becomes true at the end."""
        self._causes.stops = True
        self._update()

    def feed(self, name: str, lasting: float = 0.0) -> None:
        """Record a sign of life; the time-out starts `lasting` seconds from now."""
        self._causes.feed(name, self.clock() + lasting)

    def trip(self, name: str, reason: str) -> None:
        """Record that a cause is present now; ignored if it has no watchdog."""
        self._causes.trip(name, reason, self.clock())

    def accept_state(self, time: float, q: Array, qd: Array) -> bool:
        """
        Accept a state if it is plausible.

        A state farther from the last one than the joints can move is rejected, unless the next
        state confirms it: then that next state is accepted. A state with an earlier stamp than
        the last one is ignored. Frozen positions of a moving arm are rejected until one changes:
        the arm is braked as without states.

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
        state, before, period = State(time, q, qd), self._state, self.settings.period
        freeze, is_repeated = self._freeze, False
        if self._seen:
            if CLOCK_STEPS[0] <= time - before.time < 0.0:
                return False
            doubted, self._doubted = self._doubted, None
            is_repeated = freeze.is_repeated(state)
            if is_repeated and (frozen := freeze.reason(state)):
                if time - freeze.changed.time > FROZEN_LONG:
                    self.trip(JUMP, frozen)
                if self._state is not freeze.changed:
                    # the frozen states held no information: predict from the last changed one
                    self._state, self._came = freeze.changed, freeze.came
                    self._prediction.forget_states_after(freeze.changed.time)
                return False
            reason = self._check.jump(before, state, period)
            if reason:
                self.trip(JUMP, reason)
                if doubted is None or self._check.contradicts(doubted, state, period):
                    self._doubted = state
                    return False
                self._source = ''  # the next source fades in from the torque sent last
        now = self.clock()
        if not is_repeated:
            freeze.record(state, now)
        if self._seen:
            self._average_intervals(now - self._came, time - before.time)
        self._seen, self._state, self._came = True, state, now
        if self._source != 'retract':
            self._stopping.retreat.record(q)
        self.blind, self._is_predicting = False, False
        too_fast = self._speeds.reason(qd, self._wanted_speeds(), self.settings.blend_time,
                                       self.clock())
        if too_fast:
            self.trip(OVERSPEED, too_fast)
        if self._causes.last_feed(STALE_STATE) is not None:
            self.feed(STALE_STATE)
        return True

    def _average_intervals(self, interval: float, spacing: float) -> None:
        """Average the intervals of the states, by arrival and by stamp [s]."""
        if spacing > 0.0:
            interval = min(interval, LATE_PERIODS * self._interval)
            self._interval += INTERVAL_SHARE * (interval - self._interval)
            spacing = min(spacing, LATE_PERIODS * self._spacing)
            self._spacing += INTERVAL_SHARE * (spacing - self._spacing)

    def _wanted_speeds(self) -> Array:
        return self._fastest if (wanted := self.settings.velocity_limits) is None else wanted

    def watch(self) -> bool:
        """Whether the law's torque must not be sent now; call this regularly."""
        self._update()
        return self.reaction not in HARMLESS or self.blind

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
            raise InputError('no joint state was seen: call accept_state(time, q, qd) first')
        tau = None
        if not self.watch() and law is not None:
            tau = self._law_torque(law)
            if not self._causes.is_calm:  # it was too late, or not finite
                self.watch()
        if tau is None or self.reaction not in HARMLESS or self.blind:
            self._predict(self.clock())
            return self._continuous_torque(self._source_of_stop(), None)
        # after an interruption the law computes its first torque for a long time step, so the
        # second torque may differ much from the first: 'resumed' and 'law' are two sources
        return self._continuous_torque(
            'law' if self._source in ('', 'law', 'resumed') else 'resumed', tau)

    def idle_torque(self) -> Array:
        """Idle torque (n,) to leave after deactivation, for the last or predicted state [N·m]."""
        limits = self.settings.effort_limits
        self._predict(self.clock())
        return np.clip(self._stop_torque(self.settings.idle), -limits, limits)

    def _law_torque(self, law: Callable[[], Array]) -> Array | None:
        """Torque (n,) of the law; None if it fails or is not finite."""
        began = self.clock()
        try:
            tau = law()
        except Exception as error:  # of any kind: the arm needs a torque
            self.trip(NOT_FINITE, f'{type(error).__name__}: {error}')
            return None
        took = self.clock() - began
        if took > self.settings.deadline:
            self.trip(DEADLINE, f'an update took {took:.4f} s')
        if tau.shape != self._fastest.shape or not _is_finite(tau):
            self.trip(NOT_FINITE, f'torque {tau.tolist()}')
            return None
        return tau

    def _source_of_stop(self) -> str:
        """Source of the torque while the law is replaced: see `Stopping.torque`."""
        if self.reaction == 'zero':
            return 'zero'
        if self.reaction == 'deactivate':
            _, qd = self._stop_state()
            self._rests = self._rests or float(np.abs(qd).max()) < AT_REST
            if self._rests:
                return self.settings.idle
        if self.reaction == 'gravity':
            return 'gravity'
        if self.blind:
            return 'weight' if self._prediction.is_over else 'brake'
        return self.reaction if self.reaction in ('damp', 'comply', 'retract') else 'hold'

    def _continuous_torque(self, source: str, tau: Array | None) -> Array:
        """Torque (n,) of a source, faded from the last torque if the source has changed."""
        now, state = self.clock(), self._state
        dt = state.time - self._time
        if not 0.0 < dt < PATIENCE:  # no new state, or its clock was set
            dt = 0.0 if dt else now - self._at
        if source != self._source:
            self._stopping.begin(source, state.q, state.qd, self.settings)
        elif source == 'retract':
            self._stopping.move_anchor(min(dt, LONGEST_TICK), self.settings)
        limits = self._effort_limits(min(dt, LONGEST_TICK))
        wanted = self._stop_torque(source) if tau is None else tau
        # after a gap between calls the predicted state has changed much: fade the torque
        is_late = self.blind and dt > LATE_PERIODS * self.settings.period
        if self._tau is not None and (
                source != self._source or self.blind != self._was_blind or is_late):
            self._fade = _Fade(self.settings.fade_time, self._tau - wanted)
        self._was_blind = self.blind
        is_answer = state.time != self._time and not self.blind
        self._source, self._time, self._at = source, state.time, now
        if self._fade is not None:
            # by at most one period after a gap, during which the joints had the last torque
            wanted = wanted + self._fade.remaining(min(dt, self.settings.period))
            if self._fade.age >= self._fade.duration:
                self._fade = None
        self._tau = self._within_rate(np.minimum(np.maximum(wanted, -limits), limits), dt)
        self._prediction.record_torque(now, self._tau)
        if is_answer:
            self._prediction.record(*state, self._tau)
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
            self._prediction.begin(self._came, self._state.q, self._state.qd,
                                   self.settings.effort_limits)
        self._prediction.advance(now)

    def _stop_state(self) -> tuple[Array, Array]:
        """Positions and velocities (n,) for stopping: the last accepted or the predicted state."""
        if self.blind and self._is_predicting:
            return self._prediction.q, self._prediction.qd
        return self._state.q, self._state.qd

    def _effort_limits(self, dt: float) -> Array:
        """Effort limits (n,) dt [s] after the last call; infinite limits change at once."""
        wanted = self.settings.effort_limits
        if wanted is not self._wanted:
            both = np.isfinite(self._limits) & np.isfinite(wanted)
            away = np.subtract(self._limits, wanted, out=np.zeros(len(wanted)), where=both)
            self._wanted, self._limit_change = wanted, _Fade(self.settings.blend_time, away)
        if self._limit_change is not None:
            self._limits = wanted + self._limit_change.remaining(dt)
            if self._limit_change.age >= self._limit_change.duration:
                self._limit_change, self._limits = None, wanted
        return self._limits

    def _stop_torque(self, source: str) -> Array:
        """Torque (n,) of a source of `Stopping`; the last torque if it cannot be computed."""
        # without states, add the unmodelled torque that the prediction has estimated
        unmodelled = self._prediction.unmodelled if self.blind else self.load
        try:
            return self._stopping.torque(source, *self._stop_state(), self.settings, self._limits,
                                         unmodelled)
        except Exception:  # an absurd state, such as 1e200
            return np.zeros_like(self._rest) if self._tau is None else self._tau

    def _lateness(self, timeout: float) -> float:
        """Age [s] at which a state is missing, for a time-out of stale states [s]."""
        share = LATE_SHARE * timeout if timeout < np.inf else 0.0
        return max(LATE_PERIODS * max(self._interval, self.settings.period), share)

    def _update(self) -> None:
        """Update the causes and `blind`; notify of a change of the cause or the reaction."""
        now, before = self.clock(), (self.cause, self.reaction)
        self._causes.update(self.settings, now)
        fed = self._causes.last_feed(STALE_STATE)
        timeout = np.inf if fed is None else self.settings.watchdogs[STALE_STATE].timeout
        self.blind = (fed is not None and now - fed > timeout
                      or self.settings.bridges and self._seen
                      and now - self._came > self._lateness(timeout))
        if (self.cause, self.reaction) != before:
            if self.reaction != before[1]:
                self._began, self._rests = now, False
            self._on_change()


def _is_finite(*arrays: Array) -> bool:
    """Whether all numbers are finite; for short arrays ten times faster than numpy."""
    return all(all(map(isfinite, x.tolist())) for x in arrays)
