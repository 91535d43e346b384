# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One control cycle without ROS: a law computes the torque, a supervisor checks it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import SOLIDS
from osc_ros.control.checkpoint import Checkpoint
from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.data import D, LAW_D, LAW_M, M, PLANS, RUN, WAITS
from osc_ros.control.law import Law
from osc_ros.control.limits.near_rows import CLEARANCE
from osc_ros.control.model_error import contact
from osc_ros.control.model_error.contact import ContactSense, NOT_TOUCHED
from osc_ros.control.model_error.disturbance import COMPENSATION
from osc_ros.control.model_error.observer import OBSERVER
from osc_ros.control.safety.answered import (
    Answered,
    answered_stamp,
    Answers,
    is_sent,
    stamp_of,
    UNASKED,
)
from osc_ros.control.safety.safety import HOLDS, REJECTED, STOPPED
from osc_ros.control.safety.sample import CLOCK_STEPS
from osc_ros.control.safety.stopping import LAW, SOURCES
from osc_ros.control.safety.supervision import (
    CONTACT,
    HARMLESS,
    NOT_FINITE,
    PAYLOAD,
    STALE_TARGET,
    Supervision,
    TOO_NEAR,
)
from osc_ros.control.safety.supervisor import Supervisor
from osc_ros.control.setpoint.motion import PLAN, STATE
from osc_ros.control.setpoint.posture import SET_POINT
from osc_ros.control.setpoint.set_point_generator import Draft
from osc_ros.control.setpoint.stamps import OLDEST
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.settings import TASKS
from osc_ros.control.step.places import Copies, load
from osc_ros.dynamics.algebra.arrays import float_array
from osc_ros.errors import InputError, OscError
from osc_ros.loop.cycle import ACTIVE, Cycle, ENDING, IDLE, Stamp
from osc_ros.loop.journal import Journal, journaled
from osc_ros.loop.rest_check import STILL

Array = NDArray[np.float64]
R = TypeVar('R')
# Cause: no update of the obstacles; the time-out starts at each `requests.set_obstacles`.
STALE_OBSTACLES = 'stale_obstacles'
ATTEMPTS = 3  # after this number of plans that were too late, states wait for the next plan
# of a change of settings that came before the last one had ended
WAITS_TEXT = 'a change of settings waits for the end of the one before'
TABLES = [one.digest for one in (M, D, LAW_M, LAW_D, RUN, OBSERVER, COMPENSATION, contact.CONTACT,
                                 SET_POINT, PLAN, STATE, CLEARANCE, SOLIDS)]  # of a checkpoint
# Attributes of an engine that a checkpoint stores in addition to law, supervisor and arrays.
VALUES = 'mode', 'effort', 'q', 'qd', 'time', 'stamp', 'asks', '_left'


class Engine(Cycle):
    """Computes torques from joint states by a law; a supervisor checks them."""

    # The caller passes each state to `update`, or to `respond` and later, if `asks`, calls `plan`;
    # it calls `watch` regularly; all calls come from one thread, or under one lock. In ACTIVE and
    # ENDING, one command for each state is sent. When the arm is at rest in ENDING, the idle
    # command is the last one, and the mode becomes IDLE. After a reaction to a contact, the law
    # holds the pose.

    def __init__(self, law: Law, supervision: Supervision, period: float,
                 send: Callable[[Array, Stamp | None], None], post: Callable[..., None]) -> None:
        # period: between states [s]; send: of the torques (n,), and of the stamp of their state or
        # None. post: called with an event and its arguments: 'report' (stamp, pose, error, F,
        # external, twist) every `report_period`, 'change' (cause, reaction, text), 'stopped' ()
        # after the idle command, 'learned' (thresholds, text) or (None, reason), 'dropped' (text[,
        # task[, start]]) for motions, those of a task, or a scheduled one, that ended before their
        # goals, and 'error', 'warning', 'refusal' (text)
        self.law = law
        super().__init__(law.robot, law, supervision, period, send, post)
        self.touch = ContactSense(law.robot.joint_names)  # detects contacts, learns thresholds
        self._copies = Copies()
        self._join()
        self._tables = np.array(TABLES)
        self._left = np.full(law.robot.n, np.nan), np.zeros(law.robot.n)  # last q, compensation
        self.drafts: list[Draft] = []  # from `begin_plans` to `put_plans`
        self._in_vain = 0  # successive plans that came too late

    @property
    def record(self) -> Any:
        """The record CONTROLLER of the law."""
        return self.law.controller

    @property
    def setups(self) -> tuple[Any, ...]:
        """The setups that are replaced, in force, and waiting."""
        return self.law.setups

    def _join(self) -> None:
        controller, guard = self.law.controller, self.guard
        controller.m, controller.d, controller.contact = guard.m, guard.d, self.touch.record
        self.touch.use(guard.settings.contact)

    def attach_journal(self, journal: Journal) -> None:
        """Record all inputs in a journal from now on, so that a replay can repeat the run."""
        self.use_clock(journal.clock)
        self.journal = journal
        journal.begin(self)

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Use a clock [s] for the engine and its supervisor."""
        self.guard.clock = clock

    def checkpoint(self) -> Checkpoint:
        """Copy everything on which the next torques depend; this takes about 10 µs."""
        guard = self.guard
        return Checkpoint(
            self.law.recipe, (guard.robot, guard.settings, guard.texts),
            {name: copy(vars(self)[name]) for name in VALUES}, self.law.remembered,
            *self._copies.of(self.state_arrays()))

    @classmethod
    def restored(cls, found: Checkpoint, send: Callable[[Array, Stamp | None], None],
                 post: Callable[..., None]) -> Engine:
        """Return an engine in the state of a checkpoint; InputError if it cannot be used."""
        robot, supervision, texts = found.guard
        engine = cls(Law.of_recipe(found.law), supervision, 1.0, send, post)
        if robot.joint_names != engine.law.robot.joint_names:
            raise InputError(f"a supervisor of the joints {', '.join(robot.joint_names)}: give"
                             ' those of the law')
        engine.guard = Supervisor(robot, engine.law, supervision, engine._on_change)
        engine._join()
        vars(engine).update({name: found.values[name] for name in VALUES})
        if engine.mode != IDLE or engine.q.size:
            for name in ('q', 'qd', 'effort'):
                if (value := vars(engine)[name]) is not None:
                    vars(engine)[name] = float_array(name, value, (robot.n,))
        for motion, base, _, pending in found.remembered[2]:
            for one in (motion, base, *(scheduled for _, scheduled in pending)):
                if isinstance(one, PoseGoal):
                    float_array('pose', one.pose, (4, 4))
        load(engine.state_arrays(), found.sizes, found.row)
        if engine._tables.tolist() != TABLES:
            raise InputError('a state of records with other slots: give one of this version')
        engine.law.remembered, engine.guard.texts = found.remembered, texts
        return engine

    def state(self) -> str:
        """Return the state of the controller as a text, with the reason of an active watchdog."""
        is_at_work = self.acts or self.guard.runaway
        text = f'active, {WAITS_TEXT}' if self.law.waits else 'active'
        return self.guard.acting().text(text) if is_at_work else 'inactive'

    @journaled
    def activate(self, missing: Array | None = None) -> None:
        """Hold the pose of the newest state, and send a command for every state from now on."""
        # The compensation begins with `missing` (n,), see `Finding.missing`; if None, with its
        # last value if the arm has not moved since it ended. InputError: the supervisor has given
        # up the arm.
        if self.guard.runaway:
            raise InputError(self.state())
        self.counts.reset()
        where, held = (self.q, self.law.compensation) if self.mode == ENDING else self._left
        if missing is None and (np.abs(self.q - where) < STILL).all():
            missing = held.copy()
        self.law.hold(self.q)
        self.law.begin_with(missing)
        self.guard.begin(self.guard.last_torque if self.mode == ENDING else None)
        self.guard.accept_state(self.time, self.q, self.qd)
        self.mode, self.is_last = ACTIVE, False
        self._expect_targets()
        self.expect_obstacles()

    @journaled
    def use_setup(self, setup: CompiledLaw, supervision: Supervision) -> bool:
        """Use a new `CompiledLaw` and watchdogs; return whether it must wait, see `Law.waits`."""
        before, commands = self.law.setup, self.acts and self.guard.source == SOURCES[LAW]
        self.law.use_setup(setup, commands)
        self._report_tool(before)
        if self.acts and not commands:  # the reaction uses the new model, too
            self.guard.fade(setup.added_weight(before, self.q))
        self.use_supervision(supervision)
        self._expect_targets()
        return self.law.waits

    def use_supervision(self, supervision: Supervision) -> None:
        """Use other watchdogs and thresholds of contacts."""
        self.guard.settings = supervision
        self.touch.use(supervision.contact)

    def _report_tool(self, before: CompiledLaw) -> None:
        """Post the tasks whose motions a new tool in the setup in force has ended."""
        if before.robot is self.law.setup.robot:
            return
        old, new = (one.robot.frames[one.robot.tip] for one in (before, self.law.setup))
        if np.array_equal(old[1], new[1]) or before.settings.leader != TASKS:
            return
        for level in before.levels:
            if not level.task.link:
                self._post('dropped', 'the tool was changed: the arm holds its pose',
                           level.task.name)

    def _expect_targets(self) -> None:
        """Unless the tasks lead, let the time-out for missing targets start at the first one."""
        if STALE_TARGET in self.guard.settings.watchdogs and self.law.settings.leader != TASKS:
            self.guard.reset_timeout(STALE_TARGET, math.inf)

    def expect_obstacles(self) -> None:
        """Start the time-out for missing updates of the obstacles; without any, stop it."""
        if STALE_OBSTACLES in self.guard.settings.watchdogs:
            self.guard.reset_timeout(STALE_OBSTACLES, 0.0 if self.law.obstacles else math.inf)

    @journaled
    def deactivate(self) -> None:
        """Begin to stop the arm."""
        if self.mode == ACTIVE:
            self.mode = ENDING
            self.guard.stop()

    @journaled
    def leave(self) -> None:
        """Send the idle command as the last one, and stop sending commands."""
        super().leave()
        self._left = self.q.copy(), self.law.compensation.copy()

    def _take(self, time: float, q: Array, qd: Array, stamp: Stamp, arrived: float,
              effort: Array | None) -> None:
        """Store a plausible state; while the engine acts, `check_sample` sets `time`."""
        before = self.time
        super()._take(time, q, qd, stamp, arrived, effort)
        if self.mode == ACTIVE and time < before + CLOCK_STEPS[0]:
            self._post('dropped', f'time went back from {before:.3f} s to {time:.3f} s: holding '
                       'the present pose')
            self.law.hold(q)
        elif self.mode == ACTIVE and time > before + OLDEST:
            for name, level in self.law.levels.items():
                for start in level.generator.drop_overdue(before, time):
                    self._post('dropped', f'time went on from {before:.3f} s to {time:.3f} s: the '
                               f'motion for {start:.3f} s is too late', name, start)

    def conclude(self, done: Answers, is_plain: bool) -> bool:
        """Finish `respond` for answers of compiled code; return whether one state is plausible."""
        # For `done`, `is_plain` see `Answers.groups`. If not plain, `done` has one state, and
        # torques left to Python are sent now; compiled code must not answer another state
        # meanwhile.
        if is_plain:
            if self.journal is not None:
                self.journal.record_answers(done)
            self.counts.add_torque(np.abs(done.tau).max(axis=0), self.law.settings.limits.effort)
            for i, (time, took) in enumerate(zip(done.accepted[:-1].tolist(),
                                                 (done.done - done.arrived).tolist())):
                self.counts.add_update(time, took)
                if self.counts.begin_report(time):
                    self._report(done[i])
            return self._process_answer(done[-1])
        one = done[0]
        if is_sent(one):
            self._note_command(one.tau, answered_stamp(one))
        if self.journal is None:
            return self._process_answer(one)
        return self.journal.record_answer(one, partial(self._process_answer, one))

    def _process_answer(self, done: Answered) -> bool:
        is_valid = done.code not in (UNASKED, REJECTED)
        if done.fault_count:
            self.guard.explain(done)
        if is_valid:
            self._take(float(done.accepted), done.q, done.qd, stamp_of(done), float(done.arrived),
                       done.effort)
            self._note_touch(done)
        if is_valid and done.code < REJECTED:
            try:
                self.law.require(done.code, done.q, done.qd)
            except Exception as error:  # of any kind, for a method that is not compiled
                self.guard.set_reason(NOT_FINITE, f'{type(error).__name__}: {error}')
        if done.has_changed:
            cause = self.guard.acting(done).cause
            if cause == TOO_NEAR:
                self.guard.set_reason(TOO_NEAR, self.law.limiter.clearance.nearest_text)
            elif cause == PAYLOAD:
                self.guard.set_reason(
                    PAYLOAD, 'the arm does not carry its payload of '
                    f'{self.law.setup.robot.payload_mass:g} kg: it moves as without; set '
                    'payload.mass to what is in the hand')
            self._on_change(done)
        if done.code > STOPPED:
            self.guard.note_duration(done.done - done.now)
        if is_valid and done.asks == WAITS:  # else compiled code may be answering the next state
            self._resume()
            self.plan()
        self.asks = done.asks == PLANS or self.asks and not is_valid
        if is_valid:
            self._note_tick(done)
        if done.asks == WAITS:
            self._leave_if_finished()
        return is_valid

    def state_arrays(self) -> tuple[Array, ...]:
        """Return the arrays on which the next torque depends, see `Law.state_arrays`."""
        return (*self.law.state_arrays(), self.guard.m.slots, self.guard.d.slots,
                self.touch.record.slots, self._tables)

    def _note_tick(self, done: Answered) -> None:
        if self.mode == ACTIVE:
            self.counts.add_update(self.time, done.done - done.arrived)
            if self.counts.begin_report(self.time):
                self._report(done)

    @journaled
    def plan(self) -> None:
        """Plan the targets, and finish a change of the settings whose blend time is over."""
        self._go_on(self.law.plan)

    @journaled
    def begin_plans(self, margin: float) -> list[Draft] | None:
        """Do a part of `plan`; return plans to make before `put_plans`, or None: call it again."""
        # They are for a time `margin` [s] after the last state. Between the parts, and while the
        # plans are made, states may be answered, and other calls made. If the last ATTEMPTS plans
        # were too late, this call makes the plans itself: states wait for it.
        self.drafts = []
        if self._go_on(self.law.advance_change):
            return None
        if self._in_vain == ATTEMPTS:
            self._in_vain = 0
            self.plan()
        else:
            self.drafts, errors = self._go_on(lambda: self.law.drafts(margin)) or ([], [])
            for error in errors:
                self._post_refused(error)
        return self.drafts

    @journaled
    def put_plans(self) -> bool:
        """Let the next states take over the plans; return whether none must be made again."""
        found, self.drafts = self.drafts, []
        is_used = False not in [self._guarded(one.put) for one in found]
        self._in_vain = 0 if is_used else self._in_vain + 1
        return is_used

    def drop_plans(self) -> None:
        """Drop all plans that no state has taken over yet: they are made again."""
        self.drafts, self._in_vain = [], 0
        for generator in self.law.generators:
            generator.drop_next()

    def _go_on(self, what: Callable[[], R]) -> R | None:
        """Call a function that may begin a change that waits, or commands that wait for it."""
        self.asks = False
        before, waited, deferred = self.law.setup, self.law.waits, self.law.defers
        found = self._guarded(what)
        if waited and not self.law.waits:
            self._report_tool(before)
            self.guard.take_payload()
        if (waited or deferred) and not self.law.waits:
            self.renew_target_timeout()
        return found

    def _guarded(self, what: Callable[[], R]) -> R | None:
        """Call `what`; post its InputError; send a safe torque after another error."""
        try:
            return what()
        except OscError as error:
            self._post_refused(error)
        except Exception as error:  # of any kind: the commands must not stop
            self.fail(f'{type(error).__name__}: {error}')
        return None

    def _post_refused(self, error: OscError) -> None:
        self._post('dropped', f'target dropped: {error}')

    def renew_target_timeout(self) -> None:
        """Let the time-out of targets begin at the end of the motions in progress, if any."""
        if (left := self.law.left) > 0.0:
            self.guard.reset_timeout(STALE_TARGET, self.law.lasts(left))

    def _report(self, done: Answered) -> None:
        # in a joint drive the set-point of the tip does not lead
        error = done.error.copy() if self.law.settings.joints is None else 0.0 * done.error
        self._post('report', stamp_of(done), done.pose.copy(), error, done.F.copy(),
                   self.law.external_report(), self.law.twist)

    @journaled
    def lose(self) -> None:
        """Stop sending commands at once, because the arm no longer accepts them."""
        self.mode = IDLE

    @journaled
    def learn_contact(self, duration: float) -> None:
        """Learn contact thresholds for a duration [s]; no contact is detected meanwhile."""
        self.touch.learn(self.time + duration)

    def _note_touch(self, done: Answered) -> None:
        """Set the text of the watchdog 'contact'; end, or abort, the learning of thresholds."""
        if done.touch != NOT_TOUCHED:
            self.guard.set_reason(CONTACT, self.touch.reason(done.touch, done.met))
        if self.touch.record.learns:
            self._learn(self.guard.acting(done).reaction)

    def _learn(self, reaction: str) -> None:
        """Post the learned thresholds when the time is over; abort if a reaction is active."""
        if self.mode != ACTIVE or reaction not in HARMLESS:
            self.touch.record.learns = False
            self._post('learned', None, f'not learned: {self.state()}')
        elif (found := self.touch.learned_thresholds(
                self.time, self.law.settings.limits.effort)) is not None:
            self._post('learned', found, '')

    def _resume(self) -> None:
        """Prepare the law to take over from a reaction that has ended."""
        if (stopped := self.guard.take_stopped()) == HOLDS:  # no return to the contact
            self.law.hold_at(self.q)
            self._post('dropped', 'a reaction has ended the motions: the arm holds its pose')
        elif stopped:  # an old error must cause no jerk
            self.law.rejoin(self.q)
