# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Python interface of the compiled supervisor: states, faults and the law in, torques out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import isfinite
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import plain
from osc_ros.control.limits.limits import payload_ratio
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.safety import safety, sample
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
from osc_ros.control.safety.prediction import forget_directions
from osc_ros.control.safety.safety import PATIENCE
from osc_ros.control.safety.stopping import NONE, SOURCES
from osc_ros.control.safety.supervision import (
    CONTACT,
    DEADLINE,
    HARMLESS,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    REACTIONS,
    STALE_STATE,
    Supervision,
    TOO_NEAR,
    VELOCITY,
)
from osc_ros.control.safety.tables import (
    ANSWERED,
    COUNT,
    FED,
    IS_ACTIVE,
    MOST,
    PLAN,
    RESULT,
    SAMPLE,
    SEEN,
    SILENT,
    STATE,
    WATCHDOGS,
)
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

NO_LAW: Array = np.zeros(0)
# Cause of each fault of a joint state; the index is the fault code of `sample`.
FAULTS = (JUMP, JUMP, NOT_FINITE, JUMP, JUMP, JUMP, JUMP, OVERSPEED, VELOCITY)


class Model(Protocol):
    """Owner of the model with which the supervisor stops the arm: a law, or the model itself."""

    @property
    def command_model(self) -> CommandModel:
        """The model in force."""


class Supervisor:
    """
    Checks states and torques, and replaces the law's torque while a cause is active.

    Pass every state to `accept_state`, heartbeats to `reset_timeout`, and faults to
    `report_fault`. `torque` returns the torque to send: finite, within the limits, and continuous
    when its source changes. Errors of the law or the sensors never raise.

    Without states the arm is braked along a predicted state; when the prediction ends, gravity is
    compensated at the predicted position. The methods call the kernels of
    `osc_ros.control.safety.safety`, whose records `osc_ros.control.safety.tables` describes.

    Attributes
    ----------
    robot : Robot
    clock : callable
        Monotonic clock [s].
    silence_reason : callable
        Returns why no states come, for the reason of 'stale_state'; '' if that is unknown.
    states : str
        What is missing in the reason of 'stale_state', such as 'joint states on /joint_states'.

    Parameters
    ----------
    robot : Robot
        Provides the joint limits.
    model : Model
        A law, or a `CommandModel`.
    settings : Supervision
    on_change : callable, optional
        Called when the cause or the reaction has changed.
    clock : callable, optional

    """

    def __init__(self, robot: Robot, model: Model, settings: Supervision,
                 on_change: Callable[[], None] = lambda: None,
                 clock: Callable[[], float] = perf_counter) -> None:
        self.robot, self._model = robot, model
        self._on_change, self.clock = on_change, clock
        self._plan, self._state = PLAN.zeros(robot.n), STATE.zeros(robot.n)
        # reasons by cause; time of the last rejected state, and the reason
        self._texts, self._rejected = dict[str, str](), (-np.inf, '')
        self.silence_reason: Callable[[], str] = str
        self.states = 'joint states'
        self._names: tuple[str, ...] = ()
        self._lasting: dict[str, str] = {}  # causes set by `set_present`, and their reasons
        self._n, self._rest = (n := robot.n), np.zeros(robot.n)
        self._result, self._sample = RESULT.zeros(n), SAMPLE.zeros(n)
        self._wanted, self._at = PLAN.of(self._plan, n), STATE.of(self._state, n)
        self._given, self._found = SAMPLE.of(self._sample, n), RESULT.of(self._result, n)
        self._put_robot()
        self.settings = settings
        self._rehearse()
        self._state[:] = 0.0
        self.begin()

    def _put_robot(self) -> None:
        wanted = self._wanted.robot
        wanted.joints[0], wanted.fastest[:] = self._n, self.robot.velocity_limits
        wanted.lower[:], wanted.upper[:] = self.robot.position_limits.T
        wanted.turns[:] = sample.continuous_joints(self.robot)

    def _rehearse(self) -> None:
        """Compile the kernels now, so that the control loop compiles none."""
        rest, model = np.zeros(self._n), self.model.arrays
        safety.accept(self._plan, self._state, self._sample, self._result)
        safety.update(self._plan, self._state, 0.0)
        safety.watch(self._plan, self._state, 0.0, 0.0)
        safety.answer(*model, self._plan, self._state, self._result, 0.0, rest)

    @property
    def texts(self) -> tuple[Any, ...]:
        """
        Three parts of the state that are not in the records.

        The reason of each cause; time and reason of the last rejection of a state; the causes of
        `set_present`, with their reasons.

        """
        return dict(self._texts), self._rejected, dict(self._lasting)

    @texts.setter
    def texts(self, texts: tuple[Any, ...]) -> None:
        reasons, (when, why), present = texts
        self._texts, self._lasting = dict(reasons), dict(present)
        self._rejected = float(when), why
        self._put_robot()  # the kernels read the number of joints there
        self.settings = self._settings
        causes, output, way = self._at.causes, self._at.output, self._at.stopping
        for number, least, most in (
                (causes.cause[0], IS_RUNAWAY, len(self._names) - 1), (causes.given_up[0], 0, 2),
                (causes.reaction[0], -1, ABANDONS), (causes.given_up[1], 0, self._n - 1),
                (self._at.response.disobeys[0], 0, self._n),
                (self._at.prediction.kept[0], 0, ANSWERED),
                (self._at.velocities.kept[0], 0, MOST),
                (self._at.velocities.newest[0], 0, MOST - 1), (way.next[0], -1, way.positions[0]),
                (output.source[0], 0, len(SOURCES) - 1)):
            if not least <= number <= most:
                raise InputError(f'{STATE.name}: {number} as an index, must be {least} to '
                                 f'{most}')

    @property
    def settings(self) -> Supervision:
        """The settings in force."""
        return self._settings

    @settings.setter
    def settings(self, settings: Supervision) -> None:
        if tuple(settings.watchdogs) != self._names:
            self._take_names(tuple(settings.watchdogs))
        self._settings, wanted = settings, self._wanted
        gate, causes, stopping, output = wanted.gate, wanted.causes, wanted.stopping, wanted.output
        gate.period[0], gate.blend_time[0] = settings.period, settings.blend_time
        gate.limits[:] = (self.robot.velocity_limits if settings.velocity_limits is None
                          else settings.velocity_limits)
        causes.settle_time[0], causes.bridges[0] = settings.settle_time, settings.bridges
        causes.count[0] = len(self._names)
        for row, name in zip(causes.watchdogs, self._names):
            dog = settings.watchdogs[name]
            row[:] = dog.timeout, REACTIONS.index(dog.reaction), dog.latched
        causes.of_fault[:] = [self._number(cause) for cause in FAULTS]
        causes.stale[0], causes.contact[0], causes.too_near[0] = (
            self._number(one) for one in (STALE_STATE, CONTACT, TOO_NEAR))
        stopping.leaves[0] = 0.0
        self.take_payload()
        stopping.frequency[0], stopping.idle[0] = (
            settings.comply_frequency, SOURCES.index(settings.idle))
        stopping.retreat[0], stopping.retreat_speed[0] = settings.retreat, settings.retreat_speed
        output.fade_time[0], output.limits[:] = settings.fade_time, settings.effort_limits
        output.rates[:] = np.inf if settings.effort_rates is None else settings.effort_rates
        self._report_lasting()

    def take_payload(self) -> None:
        """Take over the payload of the model in force: the stop rates depend on it."""
        stopping = self._wanted.stopping
        stopping.rate[0], stopping.hardest[0] = self._settings.rates(
            payload_ratio(self._model.command_model.robot))

    def _take_names(self, names: tuple[str, ...]) -> None:
        """Give every watchdog a row of the state; rows of the same names keep their contents."""
        if len(names) > WATCHDOGS:
            raise InputError(f'{len(names)} watchdogs: must be at most {WATCHDOGS}')
        watches = self._at.causes.watches
        rows = dict(zip(self._names, watches.copy()))
        new = np.array([self.clock(), -np.inf, 0.0, 0.0, 0.0])
        self._names, watches[:len(names)] = names, [rows.get(name, new) for name in names]

    def _number(self, name: str) -> int:
        """Return the index of a watchdog; -1 if there is none."""
        return self._names.index(name) if name in self._names else -1

    def _watch(self, name: str) -> Array:
        return np.asarray(self._at.causes.watches[self._names.index(name)])

    def begin(self, tau: Array | None = None) -> None:
        """
        Reset the supervisor and latched causes; counts and the reason of 'runaway' stay.

        Parameters
        ----------
        tau : (n,), optional
            Present torque of the joints [N·m], from which the first torque continues.

        """
        now, at, wanted = self.clock(), self._at, self._wanted
        causes, gate, output, sent = at.causes, at.gate, at.output, at.prediction
        counts, given_up = causes.watches[:, COUNT].copy(), causes.given_up.copy()
        times_given_up = causes.times_given_up.copy()
        self._state[:] = 0.0
        causes.watches[:, COUNT], causes.given_up[:] = counts, given_up
        causes.times_given_up[:] = times_given_up
        causes.watches[:, FED], causes.watches[:, SEEN] = now, -np.inf
        causes.cause[:] = causes.reaction[:] = -1.0
        causes.began[:] = output.at[:] = now
        output.limits[:] = output.limits_wanted[:] = wanted.output.limits
        gate.came[:] = gate.advanced[:] = gate.limits_time[:] = now
        gate.interval[:] = gate.spacing[:] = wanted.gate.period
        gate.stamp[:] = at.response.last[:] = -np.inf
        gate.limits[:] = wanted.gate.limits
        gate.slack[:] = sample.OVERSPEED_TWICE * gate.limits + sample.OVERSPEED_FLOOR
        at.prediction.is_over[:] = 1.0
        plain(forget_directions)(at.prediction)
        self._texts, self._rejected = {}, (-np.inf, '')
        self._report_lasting()
        if tau is not None:
            output.has_sent[0], output.tau[:] = 1.0, tau
            sent.sent[0], sent.sent_times[0], sent.sent_tau[0] = 1.0, now, tau

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
        number, action = self._in_force() if done is None else done.acting[:2].tolist()
        (cause, reaction), (when, why) = self._named(number, action), self._rejected
        if number < 0.0:
            return Acting(cause, reaction, {
                IS_STOP: 'stop requested', IS_RUNAWAY: self.runaway}.get(int(number), ''))
        silent = (self._at.causes.watches[int(number), SILENT] if done is None
                  else float(done.acting[2]))
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

    def _in_force(self) -> tuple[float, float]:
        return self._at.causes.cause.item(), self._at.causes.reaction.item()

    def _named(self, cause: float, reaction: float) -> tuple[str, str]:
        return (self._names[int(cause)] if cause >= 0.0 else
                {IS_STOP: STOP, IS_RUNAWAY: RUNAWAY}.get(int(cause), ''),
                '' if reaction < 0.0 else
                ABANDON if reaction == ABANDONS else REACTIONS[int(reaction)])

    @property
    def began(self) -> float:
        """Time on `clock` at which the present reaction began [s]."""
        return float(self._at.causes.began[0])

    @property
    def counts(self) -> Counter[str]:
        """Number of times that each cause began."""
        causes = self._at.causes
        numbers = causes.watches[:len(self._names), COUNT].astype(int).tolist()
        return Counter({**dict(zip(self._names, numbers)), RUNAWAY: int(causes.times_given_up[0])})

    @property
    def runaway(self) -> str:
        """Why the controller has given the arm up; empty if it has not, or after `release`."""
        code, joint, speed = self._at.causes.given_up.tolist()
        return runaway_text(code, self.robot.joint_names[int(joint)], speed) if code else ''

    @property
    def is_stale(self) -> bool:
        """Whether the last state is too old for control."""
        return bool(self._at.causes.is_blind[0])

    @property
    def has_estimates(self) -> bool:
        """Whether estimates replace velocities that do not fit the positions."""
        return bool(self._at.velocities.kind.any())

    @property
    def source(self) -> str:
        """Source of the last torque, see `osc_ros.control.safety.stopping`."""
        return SOURCES[int(self._at.output.source[0])]

    @property
    def spacing(self) -> float:
        """Mean time between two states, by their stamps [s]."""
        return float(self._at.gate.spacing[0])

    @property
    def q(self) -> Array:
        """Positions (n,) of the last accepted state."""
        return np.array(self._at.gate.q)

    @property
    def last_torque(self) -> Array | None:
        """Last torque (n,) that was returned [N·m]; None if there is none."""
        return np.array(self._at.output.tau) if self._at.output.has_sent[0] else None

    @property
    def is_finished(self) -> bool:
        """
        Whether commands must end: the arm was given up, or a deactivation is complete.

        A deactivation ends after PATIENCE seconds even if the arm still moves.

        """
        if self.reaction != 'deactivate':
            return self.reaction == ABANDON
        at, output = self._at, self._at.output
        has_stopped = at.prediction.is_used[0] and at.prediction.is_over[0]
        return bool(self.is_stale and (not output.has_sent[0] or has_stopped)
                    or at.causes.rests[0] and not output.fade_duration[0]
                    or self.clock() - at.causes.began[0] > PATIENCE)

    def take_stopped(self) -> int:
        """
        Return and clear how the law must continue after a reaction.

        0: no reaction has ended. REJOINS: the motions go on from the pose of the arm. HOLDS: the
        law holds this pose.

        """
        if self.reaction not in HARMLESS or self.is_stale:
            return 0
        stopped, self._at.causes.stopped[0] = int(self._at.causes.stopped[0]), 0.0
        return stopped

    def is_present(self, name: str) -> bool:
        """Whether a cause was present within the last `settle_time`."""
        return bool(self.clock() - self._watch(name)[SEEN] <= self._settings.settle_time)

    @property
    def doubts_clock(self) -> bool:
        """Whether the last state was rejected because its stamp is from another clock."""
        gate = self._found.gate
        return bool(plain(doubts_clock)(safety.REJECTED, gate.faults, gate.count[0]))

    def last_feed(self, name: str) -> float:
        """Time on `clock` at which the time-out of a cause began [s]."""
        return float(self._watch(name)[FED])

    # inputs

    def release(self) -> None:
        """
        Release latched causes that are no longer present, and clear 'runaway'.

        From now on frozen positions count as an arm at rest until they change, because an arm that
        its brakes stop abruptly looks the same. Measured velocities are used again, and compared
        with the positions anew.

        """
        causes, velocities = self._at.causes, self._at.velocities
        if self.has_estimates:
            velocities.kind[:] = velocities.is_told[:] = velocities.seen[:] = 0.0
            self._at.output.source[0] = NONE  # so that the next torque fades in from the last one
            self._texts.pop(VELOCITY, None)
            if VELOCITY in self._names:
                self._watch(VELOCITY)[SEEN] = -np.inf
        self._at.gate.is_at_rest[0], causes.given_up[0] = 1.0, 0.0
        for name, watch in zip(self._names, causes.watches):
            watch[IS_ACTIVE] = self.is_present(name)
        self._update()

    def stop(self) -> None:
        """Bring the arm to rest and deactivate; `is_finished` becomes true at the end."""
        self._at.causes.stops[0] = 1.0
        self._update()

    def fade(self, weight: Array) -> None:
        """
        Fade the torques to those of a model with an additional weight (n,) [N·m].

        The fade takes `blend_time`.

        """
        self._at.output.was_blind[0] = -1.0
        if self.is_stale:  # the unmodelled torque was estimated with the previous model
            self._at.prediction.unmodelled[:] -= weight

    def reset_timeout(self, name: str, lasting: float = 0.0) -> None:
        """Record a heartbeat of a cause; its time-out starts `lasting` seconds from now."""
        self._watch(name)[FED] = self.clock() + lasting

    def report_fault(self, name: str, reason: str) -> None:
        """Record that a cause is present now; do nothing if the cause has no watchdog."""
        if name in self._names:
            watch, self._texts[name] = self._watch(name), reason
            watch[SEEN], watch[SILENT] = self.clock(), 0.0

    def set_present(self, causes: Mapping[str, str]) -> None:
        """Set the causes that are present until the next call, by name, with their reasons."""
        for name in self._lasting.keys() & set(self._names):
            self.report_fault(name, self._lasting[name])
        self._lasting = dict(causes)
        self._report_lasting()

    def _report_lasting(self) -> None:
        for name in self._lasting.keys() & set(self._names):
            self.report_fault(name, self._lasting[name])
            self._watch(name)[SEEN] = np.inf

    def note_duration(self, took: float) -> bool:
        """Report DEADLINE if the law took longer [s] than its deadline; return whether it did."""
        is_late = took > self._settings.deadline
        if is_late:
            self.report_fault(DEADLINE, f'an update took {took:.4f} s')
        return is_late

    def accept_state(self, time: float, q: Array, qd: Array) -> bool:
        """
        Return whether a state with the stamp `time` [s] is plausible, and use it if it is.

        The checks are those of `osc_ros.control.safety.sample`. While the positions are frozen,
        the arm is braked as without states.

        """
        given = self._given
        given.time[0], given.now[0], given.q[:], given.qd[:] = time, self.clock(), q, qd
        accepted = safety.accept(*self.records)
        self.explain()
        return bool(accepted)

    @property
    def model(self) -> CommandModel:
        """The model in force."""
        return self._model.command_model

    @property
    def records(self) -> tuple[Array, Array, Array, Array]:
        """The arrays of plan, state, sample and result; see `osc_ros.control.safety.tables`."""
        return self._plan, self._state, self._sample, self._result

    def explain(self, done: Answered | None = None) -> None:
        """Store the reasons of the faults of a record, or of the last state."""
        found, given = self._found.gate, self._given
        faults, given, now = (done.faults, done, done.now) if done else (
            found.faults[:int(found.count.item())], given, given.now.item())
        for fault, joint, *numbers in faults.tolist():
            cause = FAULTS[int(fault)]
            if cause == VELOCITY:
                text = velocity_text(self.robot.joint_names, int(joint), *numbers)
                before = self._texts.get(VELOCITY)
                self._texts[VELOCITY] = f'{before}; {text}' if before else text
                continue
            text = fault_text(int(fault), self.robot.joint_names[int(joint)], given, *numbers)
            self._texts[cause] = text
            if cause != OVERSPEED:
                self._rejected = now, text

    def set_reason(self, name: str, reason: str) -> None:
        """Set the reason of a cause that a kernel has recorded."""
        self._texts[name] = reason

    @property
    def answer_torque(self) -> Array:
        """The newest torques to send (n,), of the law or of a reaction [N·m]."""
        return np.array(self._found.torque.tau)

    # torques

    def torque_without_state(self, longest: float) -> Array | None:
        """
        Return the torque (n,) to send although no state has come; None if none is needed [N·m].

        Call it regularly if no state comes; for `longest` [s] see `safety.watch`.

        """
        now = self.clock()
        found = safety.watch(self._plan, self._state, now, longest)
        if found & safety.CHANGED:
            self._on_change()
        return self._answer(NO_LAW, now) if found & safety.NEEDED else None

    def watch(self) -> bool:
        """Find the reaction now, and return whether it replaces the law; call it regularly."""
        self._update()
        return self.reaction not in HARMLESS or self.is_stale

    def _update(self) -> None:
        if safety.update(self._plan, self._state, self.clock()):
            self._on_change()

    def torque(self, law: Callable[[], Array] | None = None) -> Array:
        """
        Return the torque to send now (n,) [N·m].

        Parameters
        ----------
        law : callable, optional
            Returns the law's torque (n,) for the last state; not called if `watch` is true.

        Raises
        ------
        InputError
            No state was ever accepted.

        """
        if not self._at.gate.is_open[0]:
            raise InputError('no joint state was seen: call accept_state(time, q, qd) first')
        tau = NO_LAW if self.watch() or law is None else self._law_torque(law)
        return self._answer(tau, self.clock())

    def _answer(self, tau: Array, now: float) -> Array:
        safety.answer(*self.model.arrays, self._plan, self._state, self._result, now, tau)
        return self.answer_torque

    def idle_torque(self) -> Array:
        """Last torque (n,) of a deactivation, for the last or predicted state [N·m]."""
        self._wanted.stopping.leaves[0] = 1.0
        tau = self._answer(NO_LAW, self.clock())
        self._wanted.stopping.leaves[0] = 0.0
        return tau

    def _law_torque(self, law: Callable[[], Array]) -> Array:
        """Return the torque (n,) of the law; (0,) if it fails or is not finite."""
        began = self.clock()
        try:
            tau = law()
        except Exception as error:  # of any kind: the arm needs a torque
            return self._without_law(NOT_FINITE, f'{type(error).__name__}: {error}')
        if self.note_duration(self.clock() - began):
            self._update()
        if tau.shape != (self._n,) or not isfinite(tau.dot(self._rest)):
            return self._without_law(NOT_FINITE, f'torque {tau.tolist()}')
        return np.ascontiguousarray(tau, dtype=np.float64)

    def _without_law(self, cause: str, reason: str) -> Array:
        self.report_fault(cause, reason)
        self._update()
        return NO_LAW
