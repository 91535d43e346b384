# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Supervision of a control law: detects faults and replaces the law's torque until they end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from math import isfinite
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.causes import ABANDON, Causes
from osc_ros.control.fade import TimedFade
from osc_ros.control.prediction import Prediction
from osc_ros.control.response import Response
from osc_ros.control.sample import LATE_PERIODS, OVERSPEED_ONCE
from osc_ros.control.state_gate import State, StateGate
from osc_ros.control.stopping import Stopping
from osc_ros.control.supervision import (
    CONTACT,
    DEADLINE,
    HARMLESS,
    NOT_FINITE,
    STALE_STATE,
    Supervision,
)
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

AT_REST = 0.01  # a lower speed counts as rest [rad/s, m/s]
LATE_SHARE = 0.05  # of the time-out of stale states: least age of a missing state
LONGEST_TICK = 0.05  # longest time step of a change of limits [s]
LONGEST_GAP = 2.0  # mean intervals: longest time step of the torque rate limit
ESCALATION = 0.02  # time after which a reaction must have slowed an arm that is too fast [s]
# If the kinetic energy grows by this factor within ESCALATION, the arm still speeds up.
GROWTH = 1.1
ENERGIES = 128  # so many kinetic energies are kept at most
HASTE = 0.1  # factor of `fade_time` for an arm faster than its limits
PATIENCE = 2.0  # time for the arm to come to rest, after which commands end [s]


class Calm(NamedTuple):
    """
    What the next state and its torque are compared with, while nothing is wrong.

    Attributes
    ----------
    until : float
        Time on the supervisor's clock after which something may be wrong without a new event [s].
    before, changed : float
        Stamps of the last state, and of the last one with new positions [s].
    period, longest : float
        Expected period; longest time step of the limit of the torques' rates [s].
    states : tuple of 6 (n,)
        Positions and velocities of these two states; velocity limits, speeds that are too fast.
    bounds : tuple of 3 (n,)
        Torque sent last, limits of the next one and of its rate [N·m, N·m/s].

    """

    until: float
    before: float
    changed: float
    period: float
    longest: float
    states: tuple[Array, ...]
    bounds: tuple[Array, ...]


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
        self._response = Response(robot, inverse_dynamics)
        self._causes = Causes()
        self._robot = robot
        self._fastest = np.asarray(robot.velocity_limits)
        self._rest = self.load = np.zeros_like(self._fastest)
        self._any_rate = np.full_like(self._fastest, np.inf)
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
        self._fade: TimedFade | None = None
        self._limits = self._wanted = self.settings.effort_limits
        self._gate = StateGate(self._robot, self.settings.period, self._wanted_speeds(), now)
        self._limit_change: TimedFade | None = None
        self._began, self._rests = now, False
        self._time = 0.0  # stamp of the state of the last torque
        self._ahead: tuple[Array | None, ...] = ()  # torque of the law that `ahead` has called
        self._is_predicting = self._was_blind = False
        self._stopping.retreat.forget()
        self._prediction.forget()
        self._response.forget()
        # kinetic energies of an arm that is too fast, in the last ESCALATION of a reaction
        self._energies: deque[tuple[float, float]] = deque(maxlen=ENERGIES)
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
    def time(self) -> float:
        """Time of the last accepted state [s], see `StateGate.state`."""
        return self._gate.state.time

    @property
    def last_torque(self) -> Array | None:
        """Last torque (n,) that was returned [N·m]."""
        return self._tau

    @property
    def runaway(self) -> str:
        """Why the arm was given up, until `release`; empty if it was not."""
        return self._causes.runaway

    @property
    def finished(self) -> bool:
        """
        Whether commands are to end.

        That is when deactivation is complete, when the arm did not come to rest within 2 s, and
        when the controller does not control the arm.

        """
        return self.reaction == ABANDON or self.reaction == 'deactivate' and (
            self.blind and (self._tau is None or self._is_predicting and self._prediction.is_over)
            or self._rests and self._fade is None
            or self.clock() - self._began > PATIENCE)

    def release(self) -> None:
        """
        Release latched causes that are no longer present.

        Positions that are frozen count as those of an arm at rest from now on, until they change:
        an arm that was stopped abruptly looks the same.

        """
        self._gate.believe()
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
        Return whether a state is accepted: see `osc_ros.control.state_gate.StateGate`.

        While the positions are frozen the arm is braked as without states.

        Parameters
        ----------
        time : float
            Stamp of the state, on the clock of the states [s].
        q, qd : (n,)

        """
        gate, now = self._gate, self.clock()
        accepted = gate.accept(State(time, q, qd), now, self.settings, self._wanted_speeds())
        for cause, reason in gate.faults:
            self._causes.trip(cause, reason, now)
        if not accepted:
            if gate.has_frozen:  # predict from the last state with new positions
                self._prediction.forget_states_after(gate.state.time)
            return False
        if gate.has_jumped:
            self._source = ''  # the next source fades in from the torque sent last
        if self._source != 'retract':
            self._stopping.retreat.record(q)
        self.blind, self._is_predicting = False, False
        if self._causes.last_feed(STALE_STATE) is not None:
            self._causes.feed(STALE_STATE, now)
        return True

    def _wanted_speeds(self) -> Array:
        return self._fastest if (wanted := self.settings.velocity_limits) is None else wanted

    def watch(self) -> bool:
        """Whether the law's torque must not be sent now; call this regularly."""
        self._update()
        return self.reaction not in HARMLESS or self.blind

    @property
    def calm(self) -> Calm | None:
        """What the next state and its torque are compared with; None if that is not simple."""
        gate, settings = self._gate, self.settings
        slack = gate.slack(self._wanted_speeds())
        if (self._source != 'law' or self._fade is not None or self._limit_change is not None
                or settings.effort_limits is not self._wanted or slack is None
                or gate.state.time != self._time or self._tau is None):
            return None
        before, changed, rates = gate.state, gate.changed, settings.effort_rates
        return Calm(
            self._causes.calm_until(settings), before.time, changed.time, settings.period,
            LONGEST_GAP * max(gate.spacing, settings.period),
            (before.q, before.qd, changed.q, changed.qd, self._fastest, slack),
            (self._tau, self._limits, self._any_rate if rates is None else rates))

    def ahead(self, now: float, time: float, q: Array, qd: Array, law: Callable[[], Array]
              ) -> Array | None:
        """
        Return the torque that `torque` will return for a state that comes now.

        It may be sent before the rest of the work. Call `accept_state` and `torque` with the state
        and the law after this in any case; the law is not called twice. None if a closer look at
        the state is necessary, or a torque of the law alone would not be right.

        Parameters
        ----------
        now : float [s]
            Time of its arrival, on `clock`.
        time, q, qd
            As of `accept_state`.
        law : callable
            As of `torque`, for this state.

        """
        self._ahead, settings, dt = (), self.settings, time - self._time
        if (self._source != 'law' or self._fade is not None or self._limit_change is not None
                or settings.effort_limits is not self._wanted or not 0.0 < dt < PATIENCE
                or not self._causes.will_stay_calm(settings, now) and self.watch()
                or not self._gate.is_clear(time, q, qd, settings.period, self._wanted_speeds())):
            return None
        tau = self._law_torque(law, now)
        self._ahead = (tau,)
        return None if tau is None or self._causes.has_tripped and self.watch() else (
            self._bounded(tau, self._limits, dt))

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
        if not self._gate.is_open:
            raise InputError('no joint state was seen: call accept_state(time, q, qd) first')
        found, self._ahead, tau = self._ahead, (), None
        if not self.watch() and law is not None:
            tau = found[0] if found else self._law_torque(law, self.clock())
            if self._causes.has_tripped:  # it was too late, or not finite
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

    def _law_torque(self, law: Callable[[], Array], began: float) -> Array | None:
        """Torque (n,) of the law, whose update began then; None if it fails or is not finite."""
        try:
            tau = law()
        except Exception as error:  # of any kind: the arm needs a torque
            self.trip(NOT_FINITE, f'{type(error).__name__}: {error}')
            return None
        took = self.clock() - began
        if took > self.settings.deadline:
            self.trip(DEADLINE, f'an update took {took:.4f} s')
        # 0 times inf or nan is nan
        if tau.shape != self._rest.shape or not isfinite(tau.dot(self._rest)):
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
        now, state = self.clock(), self._gate.state
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
            is_hasty = not self.blind and not self._response.is_hit and (
                np.abs(state.qd) > self._fastest).any()
            self._fade = TimedFade(self.settings.fade_time * (HASTE if is_hasty else 1.0),
                                   self._tau - wanted)
        self._was_blind = self.blind
        is_answer = state.time != self._time and not self.blind
        self._source, self._time, self._at = source, state.time, now
        if self._fade is not None:
            # by at most one period after a gap, during which the joints had the last torque
            wanted = wanted + self._fade.remaining(min(dt, self.settings.period))
            if self._fade.age >= self._fade.duration:
                self._fade = None
        self._tau = self._bounded(wanted, limits, dt)
        self._prediction.record_torque(now, self._tau)
        if is_answer:
            self._prediction.record(*state, self._tau)
            if self._response.is_brisk(state.qd):
                self._examine(state, limits)
        return self._tau

    def _examine(self, state: State, limits: Array) -> None:
        """Give the arm up if it does not obey, or is too fast and not slowed by a reaction."""
        self._response.examine(self._prediction.answered, limits)
        if self._response.disobedient:
            self._causes.abandon(self._response.disobedient)
            return
        energies, shares = self._energies, np.abs(state.qd) / self._fastest
        i = int(np.argmax(shares))
        if (self.reaction in (*HARMLESS, 'gravity', 'zero') or shares[i] < OVERSPEED_ONCE
                or energies and energies[-1][0] >= state.time):
            energies.clear()
            return
        energies.append((state.time, self._response.kinetic_energy(state.q, state.qd)))
        while len(energies) > 1 and energies[1][0] <= state.time - ESCALATION:
            energies.popleft()
        if energies[0][0] <= state.time - ESCALATION and (
                energies[-1][1] > GROWTH * energies[0][1]):
            self._causes.abandon(
                f"the arm still speeds up {ESCALATION} s after a reaction began to brake it: "
                f"'{self._robot.joint_names[i]}' moves at {abs(state.qd[i]):.3g}")

    def _bounded(self, wanted: Array, limits: Array, dt: float) -> Array:
        """
        Torques (n,) nearest to the wanted ones within limits (n,), and their rates after dt [s].

        dt counts as at most LONGEST_GAP mean intervals of the states' stamps, because no torque
        was sent during a gap.

        """
        tau, rates = np.minimum(np.maximum(wanted, -limits), limits), self.settings.effort_rates
        if rates is None or self._tau is None:
            return tau
        step = rates * min(dt, LONGEST_GAP * max(self._gate.spacing, self.settings.period))
        return np.minimum(np.maximum(tau, self._tau - step), self._tau + step)

    def _predict(self, now: float) -> None:
        """Advance the prediction to now [s] if the supervisor is blind."""
        if not self.blind or self._tau is None:
            return
        if not self._is_predicting:
            self._is_predicting = True
            self._prediction.begin(self._gate.came, self._gate.state.q, self._gate.state.qd,
                                   self.settings.effort_limits)
        self._prediction.advance(now)

    def _stop_state(self) -> tuple[Array, Array]:
        """Positions and velocities (n,) for stopping: the last accepted or the predicted state."""
        if self.blind and self._is_predicting:
            return self._prediction.q, self._prediction.qd
        return self._gate.state.q, self._gate.state.qd

    def _effort_limits(self, dt: float) -> Array:
        """Effort limits (n,) dt [s] after the last call; infinite limits change at once."""
        wanted = self.settings.effort_limits
        if wanted is not self._wanted:
            both = np.isfinite(self._limits) & np.isfinite(wanted)
            away = np.subtract(self._limits, wanted, out=np.zeros(len(wanted)), where=both)
            self._wanted, self._limit_change = wanted, TimedFade(self.settings.blend_time, away)
        if self._limit_change is not None:
            self._limits = wanted + self._limit_change.remaining(dt)
            if self._limit_change.age >= self._limit_change.duration:
                self._limit_change, self._limits = None, wanted
        return self._limits

    def _stop_torque(self, source: str) -> Array:
        """Torque (n,) of a source of `Stopping`; the last torque if it cannot be computed."""
        # without states, add the unmodelled torque that the prediction has estimated
        unmodelled = self._prediction.unmodelled if self.blind else self.load
        q, qd = self._stop_state()
        try:
            if not self.blind and self.cause != CONTACT and self._response.is_brisk(qd):
                self._response.examine(self._prediction.answered, self._limits)
                unmodelled = unmodelled + self._response.resistance(q, qd)
            return self._stopping.torque(source, q, qd, self.settings, self._limits, unmodelled)
        except Exception:  # an absurd state, such as 1e200
            return np.zeros_like(self._rest) if self._tau is None else self._tau

    def _lateness(self, timeout: float) -> float:
        """Age [s] at which a state is missing, for a time-out of stale states [s]."""
        share = LATE_SHARE * timeout if timeout < np.inf else 0.0
        return max(LATE_PERIODS * max(self._gate.interval, self.settings.period), share)

    def _update(self) -> None:
        """Update the causes and `blind`; notify of a change of the cause or the reaction."""
        now, before = self.clock(), (self.cause, self.reaction)
        self._causes.update(self.settings, now)
        fed = self._causes.last_feed(STALE_STATE)
        timeout = np.inf if fed is None else self.settings.watchdogs[STALE_STATE].timeout
        self.blind = (fed is not None and now - fed > timeout
                      or self.settings.bridges and self._gate.is_open
                      and now - self._gate.came > self._lateness(timeout))
        if (self.cause, self.reaction) != before:
            if self.reaction != before[1]:
                self._began, self._rests = now, False
            self._on_change()
