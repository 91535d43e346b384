# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Replay of a recorded run from its inputs, by the engine that controlled the arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import on_demand
from osc_ros.control.checkpoint import Checkpoint
from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.reasons import TITLES
from osc_ros.control.safety.supervision import HARMLESS, Supervision
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.errors import InputError, OscError
from osc_ros.loop import requests
from osc_ros.loop.engine import Engine
from osc_ros.loop.journal import CALL, FACTS, PLAN, ReplayClock, RESPOND, WATCH
from osc_ros.recording.tape import Call, Segment

Array = NDArray[np.float64]

SETTING = 'use_setup'  # name of the call that changes the settings
PARAMETERS = 'parameters'  # key of the values of all parameters in `Journal.facts`
_ENGINE = {'activate', 'deactivate', 'leave', 'use_setup', 'refuse', 'fail', 'lose',
           'learn_contact', 'begin_plans', 'put_plans'}
_REQUESTS = {'hold', 'release', 'set_present', 'follow', 'set_wrench', 'set_impedance',
             'set_measured_wrench', 'set_posture', 'move_joints', 'follow_joints', 'reach_joints',
             'set_gravity', 'set_obstacles', 'set_delay', 'set_speed_override'}
# calls that are not reported as events
SHOWN = {'set_present', 'set_delay', FACTS, 'refuse', 'begin_plans', 'put_plans'}


class Alternative(Protocol):
    """Other settings than the recorded ones for a replay."""

    def setup(self, engine: Engine, values: Mapping[str, Any]) -> tuple[CompiledLaw, Supervision]:
        """Return the `CompiledLaw` and the supervision for recorded parameters, with changes."""


@dataclass(eq=False)
class Moment:
    """One answered state."""

    time: float  # stamp of the state [s]
    q: Array  # (n,)
    qd: Array  # (n,)
    effort: Array | None  # (n,) measured torques
    recorded: Array  # (n,) torque that was sent to the arm [N·m, N]
    torque: Array  # (n,) torque of the replay [N·m, N]
    terms: dict[str, Array]  # parts (n,) of `torque`; empty while a watchdog replaces the law
    state: str  # of the controller in words, see `Engine.state`
    limits: tuple[str, ...]  # limits that acted
    error: Array  # (6,) pose error of the first task, [angular; linear] [rad, m]
    force: Array  # (3,) external, at the tip, base axes; NaN without an observer [N]


class Event(NamedTuple):
    """Time of the newest state [s], a text, and whether the event is only a report."""

    time: float
    text: str
    is_minor: bool = False


@dataclass(eq=False)
class Run:
    """A replayed run."""

    facts: dict[str, Any]  # `Journal.facts` at the beginning
    joints: tuple[str, ...]
    moments: list[Moment] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # commands, parameters, reactions
    commands: int = 0  # number of torques that were sent
    differing: int = 0  # number of those whose replay differs in any bit
    largest: float = 0.0  # largest difference [N·m, N]

    @property
    def is_identical(self) -> bool:
        """Whether every replayed torque equals the recorded one, bit for bit."""
        return self.commands > 0 and not self.differing

    def at(self, seconds: float) -> Moment:
        """Return the moment nearest to a time in the run [s]; InputError if it is outside."""
        if not self.moments:
            raise InputError('the recording has no state that was answered with a torque')
        times = np.array([one.time for one in self.moments]) - self.moments[0].time
        if not -1e-9 <= seconds <= times[-1] + 1e-9:
            raise InputError(f'{seconds:g} s is not in the recording: must be 0 to '
                             f'{times[-1]:.3f} s')
        return self.moments[int(np.argmin(np.abs(times - seconds)))]


class _FailedAgainError(Exception):
    """Raised where the hardware refused a torque in the recording, to take the same branch."""


class Replay:
    """Computes a run again with the recorded inputs."""

    # InputError: this version cannot use the first checkpoint

    def __init__(self, segments: list[Segment], alternative: Alternative | None = None,
                 has_terms: bool = True) -> None:
        # segments: without a gap, see `runs_of`; has_terms: compute the parts of every torque
        self._segments, self._alternative, self._has_terms = segments, alternative, has_terms
        self._values: dict[str, Any] = dict(segments[0].facts.get(PARAMETERS, {}))
        with on_demand():
            self.engine = self._restored(segments[0].checkpoint)
        self._clock = ReplayClock()
        self.engine.use_clock(self._clock)
        self.run = Run(segments[0].facts, self.engine.law.robot.joint_names)
        self._sent: list[Array] = []
        self._fails_at, self._acts = -1, self.engine.guard.reaction not in HARMLESS

    def _restored(self, found: Checkpoint) -> Engine:
        try:
            return Engine.restored(found, self._take, self._on_event)
        except Exception as error:  # of any kind: numbers of another version
            raise InputError('the state of the controller cannot be used, give recordings '
                             f'of this version ({type(error).__name__}: {error})') from error

    def compute(self, tell: Callable[[float], object] = lambda share: None) -> Run:
        """Replay the run; call `tell` with the completed fraction, 0 to 1."""
        # InputError: the recording is from another version that this one cannot replay
        try:
            return self._compute(tell)
        except OscError:
            raise
        except Exception as error:  # of any kind: another version has other attributes
            raise InputError('this version cannot compute the recording '
                             f'({type(error).__name__}: {error})') from error

    def _compute(self, tell: Callable[[float], object]) -> Run:
        total, done = max(1, sum(one.length for one in self._segments)), 0
        with on_demand():
            if self._alternative is not None:
                self._use_alternative()
            for segment in self._segments:
                self.engine.drop_plans()  # as the journal has
                for count, call in enumerate(segment.calls()):
                    self._do(call)
                    if count % 200 == 0:
                        tell(min(1.0, (done + 30.0 * count) / total))
                done += segment.length
        tell(1.0)
        return self.run

    def _do(self, call: Call) -> None:
        self._clock.put(call.readings.tolist())
        self._sent = []
        self._fails_at = len(call.sent) - 1 if call.has_failed and call.sent else -1
        try:
            self._repeat(call)
        except (_FailedAgainError, OscError):  # the command was also refused in the recording
            pass
        for k, recorded in enumerate(call.sent):
            self._compare(recorded[2:], self._sent[k] if k < len(self._sent) else None)
        self.run.commands += max(0, len(self._sent) - len(call.sent))
        self.run.differing += max(0, len(self._sent) - len(call.sent))
        if call.kind == RESPOND and call.sent and self._sent:
            self._add_moment(call.sent[-1][2:], self._sent[-1])

    def _repeat(self, call: Call) -> None:
        engine, numbers = self.engine, call.numbers
        if call.kind == RESPOND:
            n = engine.law.robot.n
            time, seconds, nanoseconds, arrived = numbers[:4].tolist()
            q, qd, *effort = (row.copy() for row in numbers[4:].reshape(-1, n))
            # with other settings, plans are due at other states
            respond = engine.respond if self._alternative is None else engine.update
            respond(time, q, qd, (int(seconds), int(nanoseconds)), arrived, *effort)
        elif call.kind == WATCH:
            engine.watch(float(numbers[0]))
        elif call.kind == PLAN:
            engine.plan()
        elif call.kind == CALL:
            self._repeat_named(call.name, call.arguments)

    def _repeat_named(self, name: str, arguments: tuple[Any, ...]) -> None:
        at, text = len(self.run.events), _call_text(name, arguments)
        if name not in SHOWN:
            self.run.events.append(Event(self.engine.time, text))
        try:
            self._call(name, arguments)
        except OscError as error:
            if name not in SHOWN:
                self.run.events[at] = Event(self.run.events[at].time, f'refused: {text}: {error}')
            raise

    def _call(self, name: str, arguments: tuple[Any, ...]) -> None:
        engine = self.engine
        if name == FACTS:
            self._tell(arguments[0])
        elif name == SETTING:
            if self._alternative is not None:
                self._use_alternative()
                return
            (settings, robot, precomputed), supervision = arguments
            engine.use_setup(engine.law.same_setup(settings, robot or engine.law.robot,
                                                   precomputed), supervision)
        elif name in _ENGINE:
            getattr(engine, name)(*arguments)
        elif name in _REQUESTS:
            getattr(requests, name)(engine, *arguments)
        else:
            raise InputError(f"the recording has the call '{name}', which this version lacks")

    def _tell(self, facts: Mapping[str, Any]) -> None:
        values = facts.get(PARAMETERS, {})
        changed = [f'{name}: {_shown(value)}' for name, value in values.items()
                   if self._values.get(name) != value]
        if changed:
            self.run.events.append(Event(self.engine.time, 'parameters ' + ', '.join(changed)))
        self._values.update(values)

    def _use_alternative(self) -> None:
        assert self._alternative is not None
        self.engine.use_setup(*self._alternative.setup(self.engine, self._values))

    # callbacks of the engine

    def _take(self, tau: Array, stamp: object) -> None:
        self._sent.append(tau)
        if len(self._sent) - 1 == self._fails_at:
            raise _FailedAgainError

    def _on_event(self, event: str, *arguments: Any) -> None:
        if event == 'change':
            cause, reaction, text = arguments
            is_over = not reaction and not self._acts
            self._acts = reaction not in HARMLESS
            if not is_over:  # the end of a report
                self.run.events.append(Event(self.engine.time, text if reaction else
                                             'the law controls the arm again',
                                             reaction == 'report'))
        elif event in ('error', 'warning', 'dropped'):
            self.run.events.append(Event(self.engine.time, str(arguments[0])))
        elif event == 'stopped':
            self.run.events.append(Event(self.engine.time, 'the arm is stopped'))

    def _compare(self, recorded: Array, tau: Array | None) -> None:
        run = self.run
        run.commands += 1
        if tau is None:
            run.differing += 1
        elif recorded.tobytes() != np.asarray(tau, dtype=np.float64).tobytes():
            run.differing += 1
            difference = float(np.abs(recorded - tau).max())
            run.largest = max(run.largest, math.inf if math.isnan(difference) else difference)

    def _add_moment(self, recorded: Array, tau: Array) -> None:
        engine, law, external = self.engine, self.engine.law, self.engine.law.external_report()
        is_law = engine.guard.reaction in HARMLESS and not engine.guard.is_stale
        terms: dict[str, Array] = {}
        if is_law and self._has_terms and law.has_ticked:
            terms = law.terms()
            # the supervisor's fades from the law's torque to the command
            terms['supervisor'] = tau - sum(terms.values())
        self.run.moments.append(Moment(
            engine.time, engine.q, engine.qd, engine.effort, recorded.copy(), tau.copy(), terms,
            engine.state(), limits_that_acted(engine) if is_law else (), law.error,
            np.full(3, np.nan) if external is None else external.wrench[3:]))


def limits_that_acted(engine: Engine) -> tuple[str, ...]:
    """Return the limits that changed the torque or the target in the last tick of the law."""
    law, d = engine.law, engine.law.setup.d
    names, generator = law.robot.joint_names, next(iter(law.levels.values())).generator
    found = [f'torque of {name}' for name, at in zip(names, law.saturated) if at]
    wanted, lower, upper = d.qdd_law, d.lowest, d.highest
    is_beyond = (d.acceleration_sides != 0) | (d.shares.min() < 1.0) & (
        (wanted < lower) | (wanted > upper))
    found += [f'position or speed of {name}' for name, at in zip(names, is_beyond) if at]
    found += [f'load of {name}' for name, side in zip(names, d.load_sides) if side]
    found += [f'{one.link} near {one.other}' for one in law.limiter.near if one.holds]
    for applies, text in (
            (d.damping_share > 0.0,
             f'damping replaces the posture ({d.damping_share:.2f})'),
            (d.rate_share < 1.0, f'torque rate ({d.rate_share:.2f} of the change)'),
            (d.shares[0] < 1.0, f'tasks reduced ({d.shares[0]:.2f} left)'),
            (d.shares[1] < 1.0, f'posture reduced ({d.shares[1]:.2f} left)'),
            (generator.waits, TITLES['waits']),
            (generator.clamped, TITLES['workspace']),
            (law.gain_share() < 1.0, f'{TITLES["gains"]} ({law.gain_share():.2f} left)')):
        if applies:
            found.append(text)
    return tuple(found)


def _call_text(name: str, arguments: tuple[Any, ...]) -> str:
    if name == SETTING:
        return 'settings changed'
    return f'{name} {" ".join(_shown(one) for one in arguments)}'.strip()


def _shown(value: Any) -> str:
    if isinstance(value, PoseGoal):
        return f'pose at {_shown(value.pose[:3, 3])}'
    if isinstance(value, Path):
        return f'path of {len(value.times)} poses to {_shown(value.poses[-1, :3, 3])}'
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, separator=', ')
    if isinstance(value, Mapping):  # obstacles; their poses would fill pages
        return ', '.join(f'{name}: {_shown(one)}' for name, one in value.items())
    if hasattr(value, '__dataclass_fields__'):
        return type(value).__name__
    if isinstance(value, float):
        return f'{value:g}'
    return repr(value) if isinstance(value, str) and not value else str(value)
