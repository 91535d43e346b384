# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Python interface of the compiled supervisor: states, faults and the law in, torques out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.addresses import types
from osc_ros.compile.compiled import entry, plain
from osc_ros.control.data import ANSWERED, D, ESTIMATE, M, MOST, WATCHDOGS
from osc_ros.control.data import FAULTS as FAULT_ROWS
from osc_ros.control.limits.limits import payload_ratio
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.safety import safety, sample, velocity_check
from osc_ros.control.safety.answered import Answered, doubts_clock
from osc_ros.control.safety.causes import (
    ABANDON,
    ABANDONS,
    Acting,
    IS_RUNAWAY,
    IS_STOP,
    RUNAWAY,
    STOP,
)
from osc_ros.control.safety.fault_texts import (
    fault_text,
    runaway_text,
    silence_text,
    velocity_text,
)
from osc_ros.control.safety.safety import PATIENCE
from osc_ros.control.safety.stopping import forget_directions, NONE, SOURCES
from osc_ros.control.safety.supervision import (
    CONTACT,
    DEADLINE,
    HARMLESS,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    PAYLOAD,
    REACTIONS,
    STALE_STATE,
    Supervision,
    TOO_NEAR,
    VELOCITY,
)
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Cause of each fault of a joint state; the index is the fault code of `sample`.
FAULTS = (JUMP, JUMP, NOT_FINITE, JUMP, JUMP, JUMP, JUMP, OVERSPEED, VELOCITY)
# Slots that `Supervisor.begin` does not reset.
KEPT = ('begun', 'load', 'times_given_up', 'given_up', 'given_up_joint', 'given_up_speed',
        *(slot.name for slot in ESTIMATE))


class Model(Protocol):
    """Owner of the model with which the supervisor stops the arm: a law, or the model itself."""

    @property
    def command_model(self) -> CommandModel:
        """The model in force."""


class Supervisor:
    """Checks states and torques, and replaces the law's torque while a cause is active."""

    # `step` and `watch` of `osc_ros.control.step.step` compute the torques: finite, within the
    # limits, continuous when their source changes; errors of the law or the sensors never raise.
    # Without states the arm is braked along a predicted state; when the prediction ends, gravity
    # is compensated at its last position.

    def __init__(self, robot: Robot, model: Model, settings: Supervision,
                 on_change: Callable[[], None] = lambda: None,
                 clock: Callable[[], float] = perf_counter) -> None:
        self.robot, self._model = robot, model
        # called when cause or reaction have changed; monotonic clock [s]
        self._on_change, self.clock = on_change, clock
        self.m, self.d = M.new(n=robot.n), D.new(n=robot.n)  # settings; state
        # reasons by cause; time of the last rejected state, and the reason
        self._texts, self._rejected = dict[str, str](), (-np.inf, '')
        # for the reason of 'stale_state': returns why no states come, or ''; and what is missing,
        # such as 'joint states on /joint_states'
        self.silence_reason: Callable[[], str] = str
        self.states = 'joint states'
        self._names: tuple[str, ...] = ()
        self._lasting: dict[str, str] = {}  # causes set by `set_present`, and their reasons
        self._n = robot.n
        self._compile()
        self._put_robot()
        self.d.model = self.model.record
        self.settings = settings
        self.begin()

    def _put_robot(self) -> None:
        m = self.m
        m.fastest[:], m.turns[:] = self.robot.velocity_limits, sample.continuous_joints(self.robot)
        m.lower[:], m.upper[:] = self.robot.position_limits.T

    def _compile(self) -> None:
        """Compile the kernels now, so that the control loop compiles none."""
        m, d, number = M.numba_type, D.numba_type, types.float64
        self._accept, self._find = entry(safety.accept, m, d), entry(safety.update, m, d, number)
        self._observe = entry(velocity_check.observe, m, d)

    @property
    def texts(self) -> tuple[Any, ...]:
        """Reasons by cause; time, reason of the last rejected state; causes of `set_present`."""
        return dict(self._texts), self._rejected, dict(self._lasting)

    @texts.setter
    def texts(self, texts: tuple[Any, ...]) -> None:
        reasons, (when, why), present = texts
        self._texts, self._lasting = dict(reasons), dict(present)
        self._rejected = float(when), why
        self._put_robot()  # a checkpoint may have other numbers there
        self.settings = self._settings
        d = self.d
        for name, least, most in (
                ('cause', IS_RUNAWAY, len(self._names) - 1), ('given_up', 0, 2),
                ('reaction', -1, ABANDONS), ('given_up_joint', 0, self._n - 1),
                ('disobeys', 0, self._n), ('answers_kept', 0, ANSWERED), ('fit_count', 0, MOST),
                ('fit_newest', 0, MOST - 1), ('way_next', -1, d.way_count),
                ('fault_count', 0, FAULT_ROWS), ('source', 0, len(SOURCES) - 1)):
            if not least <= getattr(d, name) <= most:
                raise InputError(f'{name} of the state: {getattr(d, name)} as an index, must be '
                                 f'{least} to {most}')

    @property
    def settings(self) -> Supervision:
        """The settings in force."""
        return self._settings

    @settings.setter
    def settings(self, settings: Supervision) -> None:
        if tuple(settings.watchdogs) != self._names:
            self._take_names(tuple(settings.watchdogs))
        self._settings, m = settings, self.m
        settings.put(m)
        m.speed_limits[:] = (self.robot.velocity_limits if settings.velocity_limits is None
                             else settings.velocity_limits)
        m.bridges, m.watchdog_count = settings.bridges, len(self._names)
        own, dogs = slice(len(self._names)), settings.watchdogs.values()
        m.timeout[own] = [dog.timeout for dog in dogs]
        m.watch_reaction[own] = [REACTIONS.index(dog.reaction) for dog in dogs]
        m.is_latched[own] = [dog.latched for dog in dogs]
        # also if no name has changed: a checkpoint may be corrupt
        m.fault_watchdog[:] = [self._number(cause) for cause in FAULTS]
        m.stale_watchdog, m.contact_watchdog, m.too_near_watchdog, m.payload_watchdog = (
            self._number(one) for one in (STALE_STATE, CONTACT, TOO_NEAR, PAYLOAD))
        m.reacts_to_contact = settings.reacts_to_contact
        self.d.leaves = False
        self.take_payload()
        m.idle_source, m.effort_limits[:] = SOURCES.index(settings.idle), settings.effort_limits
        m.effort_rates[:] = np.inf if settings.effort_rates is None else settings.effort_rates
        self._report_lasting()

    def take_payload(self) -> None:
        """Take over the payload of the model in force: the stop rates depend on it."""
        self.m.stop_rate, self.m.hardest_rate = self._settings.rates(
            payload_ratio(self._model.command_model.robot))

    def _take_names(self, names: tuple[str, ...]) -> None:
        """Give every watchdog a row of the state; rows of the same names keep their contents."""
        if len(names) > WATCHDOGS:
            raise InputError(f'{len(names)} watchdogs: must be at most {WATCHDOGS}')
        d = self.d
        rows = [(d.fed, self.clock()), (d.seen, -np.inf), (d.is_active, 0), (d.silent, 0.0),
                (d.begun, 0)]
        for row, new in rows:
            kept = dict(zip(self._names, row.tolist()))
            row[:len(names)] = [kept.get(name, new) for name in names]
        self._names = names

    def _number(self, name: str) -> int:
        """Return the index of a watchdog; -1 if there is none."""
        return self._names.index(name) if name in self._names else -1

    def begin(self, tau: Array | None = None) -> None:
        """Reset state and latched causes; the first torque continues from tau (n,) [N·m]."""
        # Counts and the reason of 'runaway' stay.
        now, m, d = self.clock(), self.m, self.d
        before = d.copy()
        d.clear()
        d.take(before, KEPT)
        d.fed[:], d.seen[:] = now, -np.inf
        d.cause = d.reaction = -1
        d.reaction_began = d.sent_at = d.came = d.advanced = d.speed_time = now
        d.effort_limits[:] = d.effort_wanted[:] = m.effort_limits
        d.interval = d.spacing = m.period
        d.stamp = d.compared_time = d.replaced_at = -np.inf
        d.speed_limits[:] = m.speed_limits
        d.speed_slack[:] = sample.OVERSPEED_TWICE * m.speed_limits + sample.OVERSPEED_FLOOR
        d.is_over = True
        plain(forget_directions)(d)
        self._texts, self._rejected = {}, (-np.inf, '')
        self._report_lasting()
        if tau is not None:
            d.has_sent, d.sent[:] = True, tau
            d.log_count, d.log_times[0], d.log_tau[0] = 1, now, tau

    # status

    @property
    def cause(self) -> str:
        """Active cause whose reaction has the highest priority; empty if there is none."""
        return self._named(*self._in_force())[0]

    @property
    def reaction(self) -> str:
        """Reaction to `cause`; empty if there is none."""
        return self._named(*self._in_force())[1]

    @property
    def reason(self) -> str:
        """Description of `cause`."""
        return self.acting().reason

    def acting(self, done: Answered | None = None) -> Acting:
        """Return cause, reaction and reason that are in force, or were for the record `done`."""
        number, action = self._in_force() if done is None else (
            done.cause, done.reaction)
        (cause, reaction), (when, why) = self._named(number, action), self._rejected
        if number < 0:
            return Acting(cause, reaction, {
                IS_STOP: 'stop requested', IS_RUNAWAY: self.runaway}.get(number, ''))
        silent = float(self.d.silent[number] if done is None else done.silent)
        if not silent > 0.0:
            return Acting(cause, reaction, self._texts.get(cause, ''))
        what = f'{cause.removeprefix("stale_")} message'
        if cause != STALE_STATE:
            why = ''
        elif (self.clock() if done is None else done.now) - when < silent:
            what = f'valid {self.states}'
        else:
            what, why = self.states, self.silence_reason()
        return Acting(cause, reaction, silence_text(
            what, silent, self.settings.watchdogs[cause].timeout, why))

    def _in_force(self) -> tuple[int, int]:
        return self.d.cause, self.d.reaction

    def _named(self, cause: int, reaction: int) -> tuple[str, str]:
        return (self._names[cause] if cause >= 0 else
                {IS_STOP: STOP, IS_RUNAWAY: RUNAWAY}.get(cause, ''),
                '' if reaction < 0 else ABANDON if reaction == ABANDONS else REACTIONS[reaction])

    @property
    def began(self) -> float:
        """Time on `clock` at which the present reaction began [s]."""
        return float(self.d.reaction_began)

    @property
    def counts(self) -> Counter[str]:
        """Number of times that each cause began."""
        return Counter({**dict(zip(self._names, self.d.begun.tolist())),
                        RUNAWAY: self.d.times_given_up})

    @property
    def runaway(self) -> str:
        """Why the controller has given the arm up; empty if it has not, or after `release`."""
        d = self.d
        return '' if d.given_up == 0 else runaway_text(
            d.given_up, self.robot.joint_names[d.given_up_joint], d.given_up_speed)

    @property
    def is_stale(self) -> bool:
        """Whether the last state is too old for control."""
        return bool(self.d.is_blind)

    @property
    def has_estimates(self) -> bool:
        """Whether estimates replace velocities that do not fit the positions."""
        return bool(self.d.velocity_kind.any())

    @property
    def source(self) -> str:
        """Source of the last torque, see `osc_ros.control.safety.stopping`."""
        return SOURCES[self.d.source]

    @property
    def spacing(self) -> float:
        """Mean time between two states, by their stamps [s]."""
        return float(self.d.spacing)

    @property
    def q(self) -> Array:
        """Positions (n,) of the last accepted state."""
        return np.array(self.d.q)

    @property
    def last_torque(self) -> Array | None:
        """Last torque (n,) that was returned [N·m]; None if there is none."""
        return np.array(self.d.sent) if self.d.has_sent else None

    @property
    def is_finished(self) -> bool:
        """Whether commands must end: the arm was given up, or a deactivation is complete."""
        # A deactivation ends after PATIENCE seconds even if the arm still moves.
        if self.reaction != 'deactivate':
            return self.reaction == ABANDON
        d = self.d
        has_stopped = d.predicts and d.is_over
        return bool(d.is_blind and (not d.has_sent or has_stopped)
                    or d.rests and not d.fade_duration
                    or self.clock() - d.reaction_began > PATIENCE)

    def take_stopped(self) -> int:
        """Return and clear how the law goes on after a reaction: REJOINS, HOLDS; 0: none ended."""
        if self.reaction not in HARMLESS or self.is_stale:
            return 0
        stopped, self.d.stopped = self.d.stopped, 0
        return int(stopped)

    def is_present(self, name: str) -> bool:
        """Whether a cause was present within the last `settle_time`."""
        seen = self.d.seen[self._names.index(name)]
        return bool(self.clock() - seen <= self._settings.settle_time)

    @property
    def doubts_clock(self) -> bool:
        """Whether the last state was rejected because its stamp is from another clock."""
        return bool(plain(doubts_clock)(safety.REJECTED, self.d.faults, self.d.fault_count))

    def last_feed(self, name: str) -> float:
        """Time on `clock` at which the time-out of a cause began [s]."""
        return float(self.d.fed[self._names.index(name)])

    # inputs

    def release(self) -> None:
        """Release latched causes that are no longer present, and clear 'runaway'."""
        # From now on frozen positions count as an arm at rest until they change, because an arm
        # that its brakes stop abruptly looks the same. Measured velocities are used again, and
        # compared with the positions anew.
        d = self.d
        if self.has_estimates:
            d.velocity_kind[:], d.is_told[:], d.exceeded[:] = 0, 0, 0
            d.states_seen = d.speed_jumps = 0
            d.source = NONE  # so that the next torque fades in from the last one
            self._texts.pop(VELOCITY, None)
            if VELOCITY in self._names:
                d.seen[self._names.index(VELOCITY)] = -np.inf
        d.is_at_rest, d.given_up = True, 0
        d.is_active[:len(self._names)] = [self.is_present(name) for name in self._names]
        self._update()

    def stop(self) -> None:
        """Bring the arm to rest and deactivate; `is_finished` becomes true at the end."""
        self.d.stops = True
        self._update()

    def fade(self, weight: Array) -> None:
        """Fade the torques in `blend_time` to a model with an additional weight (n,) [N·m]."""
        self.d.was_blind = -1
        if self.is_stale:  # the unmodelled torque was estimated with the previous model
            self.d.predicted_load[:] -= weight

    def reset_timeout(self, name: str, lasting: float = 0.0) -> None:
        """Record a heartbeat of a cause; its time-out starts `lasting` seconds from now."""
        self.d.fed[self._names.index(name)] = self.clock() + lasting

    def report_fault(self, name: str, reason: str) -> None:
        """Record that a cause is present now; do nothing if the cause has no watchdog."""
        if name in self._names:
            i, self._texts[name] = self._names.index(name), reason
            self.d.seen[i], self.d.silent[i] = self.clock(), 0.0

    def set_present(self, causes: Mapping[str, str]) -> None:
        """Set the causes that are present until the next call, by name, with their reasons."""
        for name in self._lasting.keys() & set(self._names):
            self.report_fault(name, self._lasting[name])
        self._lasting = dict(causes)
        self._report_lasting()

    def _report_lasting(self) -> None:
        for name in self._lasting.keys() & set(self._names):
            self.report_fault(name, self._lasting[name])
            self.d.seen[self._names.index(name)] = np.inf

    def note_duration(self, took: float) -> None:
        """Report DEADLINE if the law took longer [s] than its deadline."""
        if took > self._settings.deadline:
            self.report_fault(DEADLINE, f'an update took {took:.4f} s')

    def accept_state(self, time: float, q: Array, qd: Array) -> bool:
        """Return whether a state with the stamp `time` [s] is plausible, and use it if it is."""
        # The checks are those of `sample`. While the positions are frozen, the arm is braked as
        # without states.
        d = self.d
        d.sample_time, d.now, d.sample_q[:], d.sample_qd[:] = time, self.clock(), q, qd
        accepted = self._accept(self.m, d)
        self.explain()
        return bool(accepted)

    def observe(self, time: float, q: Array, qd: Array) -> None:
        """Store a state of an arm that is not controlled, to know the noise of its positions."""
        d = self.d
        d.sample_time, d.sample_q[:], d.sample_qd[:] = time, q, qd
        self._observe(self.m, d)

    @property
    def model(self) -> CommandModel:
        """The model in force."""
        return self._model.command_model

    def explain(self, done: Answered | None = None) -> None:
        """Store the reasons of the faults of a record, or of the last state."""
        d = self.d
        one, q, qd = (d, d.sample_q, d.sample_qd) if done is None else (done, done.q, done.qd)
        for fault, joint, *numbers in one.faults[:one.fault_count].tolist():
            cause = FAULTS[int(fault)]
            if cause == VELOCITY:
                text = velocity_text(self.robot.joint_names, int(joint), *numbers)
                before = self._texts.get(VELOCITY)
                self._texts[VELOCITY] = f'{before}; {text}' if before else text
                continue
            text = fault_text(int(fault), self.robot.joint_names[int(joint)], (q, qd), *numbers)
            self._texts[cause] = text
            if cause != OVERSPEED:
                self._rejected = one.now, text

    def set_reason(self, name: str, reason: str) -> None:
        """Set the reason of a cause that a kernel has recorded."""
        self._texts[name] = reason

    @property
    def answer_torque(self) -> Array:
        """The newest torques to send (n,), of the law or of a reaction [N·m]."""
        return np.array(self.d.tau)

    @property
    def replaces_law(self) -> bool:
        """Whether a reaction, or the age of the last state, replaces the law's torque."""
        return self.reaction not in HARMLESS or self.is_stale

    def watch(self) -> bool:
        """Find the reaction now, and return whether it replaces the law."""
        self._update()
        return self.replaces_law

    def _update(self) -> None:
        if self._find(self.m, self.d, self.clock()):
            self._on_change()
