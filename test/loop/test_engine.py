# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The torques of `Engine.update`, from one compiled function, equal those of separate calls."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from numba import njit
import numpy as np
from numpy.testing import assert_array_equal
import pytest

from arm import JUMPS, PANDA, READY
from driven import Driven
from osc_ros import Law, Robot, Settings
from osc_ros.control.model_error.contact import Contact, NOT_TOUCHED, touched
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.safety.answered import Answers
from osc_ros.control.safety.supervision import (
    CONTACT,
    DEADLINE,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    STALE_STATE,
    STALE_TARGET,
    Supervision,
    Watchdog,
)
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.settings import Observation
from osc_ros.control.step.react import answer, judge_load, use_model
from osc_ros.control.tasks.task import Task
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.loop.cycle import Answering
from osc_ros.loop.engine import Engine
from supervised import torque_to_send
from variants import first_quick

PERIOD = 0.002


@njit(error_model='numpy')
def choose_model(controller):
    use_model(controller.law, controller.d)


@njit(error_model='numpy')
def answer_state(controller, now, tau):
    law, d = controller.law, controller.d
    answer(law, controller.m, d, now, tau, d.time != law.d.last_time)


@njit(error_model='numpy')
def compare_loads(controller):
    judge_load(controller.law, controller.m, controller.d)


class Composed(Engine):
    """An engine that composes each torque of calls of the law and its supervisor."""

    def respond(self, time, q, qd, stamp, arrived, effort=None):
        if not self.acts:
            return super().respond(time, q, qd, stamp, arrived, effort)
        if not self.guard.accept_state(time, q, qd):
            if self.guard.watch():
                self._command(torque_to_send(self.guard), stamp)
            return False
        d = self.guard.d  # velocities that do not fit the positions are replaced there
        self._take(d.time, q, d.qd.copy(), stamp, arrived, effort)
        sent, compensates = self.guard.last_torque, self.law.setup.m.compensates
        comes_first = compensates or self.guard.settings.reacts_to_contact
        if comes_first:
            self._observe(sent)
        is_held = self.guard.watch() or d.stopped > 0
        choose_model(self.record)
        self._command(torque_to_send(self.guard, None if is_held else self._law_torque,
                                     partial(answer_state, self.record)), stamp)
        compare_loads(self.record)
        if not comes_first:
            self._observe(sent)
        self._resume()
        self.plan()
        self._leave_if_finished()
        return True

    def _law_torque(self):
        return self.law.torque(self.time, self.q, self.qd, is_observed=True)

    def _observe(self, sent):
        law, touch = self.law, self.touch
        law.observe(self.time, self.q, self.qd, sent, self.effort)
        self.guard.d.load[:] = law.compensation
        touch.record.compensation[:] = law.compensation if law.setup.m.compensates else 0.0
        code = NOT_TOUCHED
        if law.external is not None:
            code = touched(touch.record, law.setup.observer.record)
        if code != NOT_TOUCHED:
            self.guard.report_fault(CONTACT, '')
        law.in_contact = code != NOT_TOUCHED
        if code != NOT_TOUCHED:
            self.guard.set_reason(CONTACT, touch.reason(code, touch.record.value))


class Pair:
    """
    Two engines with the same inputs: by one compiled step, and by several calls.

    `at_once` counts the states for which the first one has sent one torque.

    """

    def __init__(self, settings=None, **given):
        self.robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
        self.now, self.k = 10.0, 0
        self.sent, self.at_once = ([], []), 0
        watchdogs = {NOT_FINITE: Watchdog('hold'), STALE_STATE: Watchdog('damp', timeout=0.05),
                     JUMP: Watchdog('hold'), OVERSPEED: Watchdog('damp'),
                     DEADLINE: Watchdog('hold'), STALE_TARGET: Watchdog('report'),
                     CONTACT: Watchdog('report')}
        self.engines = tuple(self._engine(i, settings, watchdogs, given) for i in (0, 1))
        self.q, self.qd = READY.copy(), np.zeros(7)
        for engine in self.engines:
            engine.update(self.now, self.q, self.qd, self._stamp(), self.now)
            engine.activate()

    def _engine(self, i, settings, watchdogs, given):
        engine = (Engine, Composed)[i](Law(self.robot, settings), Supervision(
            watchdogs, self.robot.effort_limits, period=PERIOD, settle_time=0.02,
            fade_time=0.02, deadline=0.01, **given), PERIOD,
            lambda tau, stamp: self._take(i, tau, stamp), lambda *event: None)
        engine.use_clock(lambda: self.now)
        engine.guard.begin()
        return engine

    def _stamp(self):
        return divmod(round(1e9 * self.now), 10**9)

    def state(self):
        """Return positions and velocities of the smooth motion."""
        phase = 2.0 * self.k * PERIOD
        return READY + 0.1 * np.sin(phase), np.full(7, 0.2 * np.cos(phase))

    def _take(self, i, tau, stamp):
        self.sent[i].append(tau.copy())

    def each(self, what, *arguments):
        """Do the same with both engines."""
        for engine in self.engines:
            what(engine, *arguments)
        return self

    def use(self, *given, **supervision):
        """Change settings or robot of both laws, and settings of both supervisors."""
        return self.each(lambda engine: engine.use_setup(
            engine.law.new_setup(*given), replace(engine.guard.settings, **supervision)))

    def step(self, q=None, qd=None, dt=PERIOD):
        """Pass the next state of a smooth motion, or another one; compare what is sent."""
        self.k += 1
        self.now += dt
        if q is None:
            q, qd = self.state()
        for sent in self.sent:
            sent.clear()
        quick, plain = self.engines
        accepted = {engine.update(self.now, q.copy(), qd.copy(), self._stamp(), self.now)
                    for engine in self.engines}
        self.at_once += len(self.sent[0]) == 1
        assert len(accepted) == 1
        for engine in self.engines:
            engine.watch(0.01)
        assert len(self.sent[0]) == len(self.sent[1])
        assert_array_equal(self.sent[0], self.sent[1])
        assert quick.guard.cause == plain.guard.cause
        return self

    def run(self, count):
        """Pass the states of a smooth motion; return for how many one torque was sent."""
        before = self.at_once
        for _ in range(count):
            self.step()
        return self.at_once - before


@pytest.mark.parametrize('settings', [
    pytest.param(Settings(), id='plain'),
    pytest.param(Settings(observation=Observation(), friction=Friction(
        np.full(7, 0.5), np.full(7, 0.2))), id='observer and friction'),
    pytest.param(Settings(disturbance=Disturbance()), id='compensation')])
def test_torques_are_the_same_while_and_after_gains_change(settings):
    pair = Pair(settings)
    pair.run(20)
    _follow(pair, 0.05)
    pair.run(200)
    law = pair.engines[0].law
    task = law.settings.tasks[0]
    softer = replace(law.settings, tasks=(replace(task, gains=replace(
        task.gains, natural_frequency=np.full(6, 9.0))),))
    heavier = pair.robot.with_payload(0.5)
    for given, count in (((softer,), 300), ((law.settings,), 50), ((None, heavier), 400)):
        pair.use(*given)
        assert pair.run(count) == count
    for engine in pair.engines:
        assert_array_equal(engine.law.pose, pair.engines[0].law.pose)
        assert_array_equal(engine.guard.last_torque, pair.engines[0].guard.last_torque)


@pytest.mark.parametrize('settings', [
    pytest.param(Settings(), id='plain'),
    pytest.param(Settings(observation=Observation()), id='observer'),
    pytest.param(Settings(tasks=(
        Task(axes=('free',) * 3 + ('motion',) * 3),
        Task(name='elbow', link='panda_link4'))), id='two tasks'),
    pytest.param(Settings(disturbance=Disturbance(), friction=Friction(
        np.full(7, 0.5), np.full(7, 0.2))), id='compensation and friction'),
    pytest.param(Settings(tasks=(Task(frame='panda_link5'),)), id='frame that turns')])
@pytest.mark.parametrize('rates', first_quick([2000.0, None]))
def test_torques_are_the_same(settings, rates):
    pair = Pair(settings, effort_rates=None if rates is None else np.full(7, rates))
    assert pair.run(110) >= 109
    _follow(pair, 0.05)
    assert pair.run(300) >= 298  # not where Python plans before the target is known


@pytest.mark.parametrize('settings', [
    pytest.param(Settings(observation=Observation()), id='observer'),
    pytest.param(Settings(disturbance=Disturbance()), id='compensation')])
def test_torques_are_the_same_while_gravity_and_posture_change(settings):
    pair = Pair(settings)
    pair.run(20)
    tilted = np.array([4.0, 0.0, -9.0])
    pair.each(lambda engine: engine.law.use_gravity(tilted))
    pair.each(lambda engine: engine.law.set_posture(READY + 0.2))
    pair.use(replace(pair.engines[0].law.settings, blend_time=0.3))
    assert pair.run(60) >= 58  # not where the blend begins
    assert 0.1 < np.linalg.norm(pair.engines[0].law.gravity - tilted) < 2.0
    assert pair.run(200) >= 199
    for engine in pair.engines:
        assert_array_equal(engine.law.gravity, tilted)
        assert_array_equal(engine.law.command_model.record.gravity, tilted)


def test_torques_are_the_same_for_a_target_that_jumps():
    pair = Pair(Settings(tasks=(Task(limits=JUMPS),)))
    assert pair.run(100) >= 98
    for _ in range(3):
        _follow(pair, 0.002)
        assert pair.run(1) == 1
        assert np.abs(pair.engines[0].law.error[3]) > 1e-3
        assert pair.run(50) == 50


@pytest.mark.parametrize('reaction', ['hold', 'damp', 'comply', 'retract', 'gravity', 'zero'])
def test_torques_of_a_reaction_are_the_same(reaction):
    pair = Pair()
    watched = pair.engines[0].guard.settings
    pair.use(watchdogs={**watched.watchdogs, CONTACT: Watchdog(reaction)})
    pair.run(200)
    _follow(pair, 0.05)
    pair.run(20)
    before = pair.at_once
    for _ in range(50):
        pair.each(lambda engine: engine.guard.report_fault(CONTACT, 'of this test')).step()
        assert {engine.guard.reaction for engine in pair.engines} == {reaction}
    assert pair.at_once == before + 50
    assert pair.run(12) == 12  # until the reaction has ended, and the law goes on
    assert {engine.guard.reaction for engine in pair.engines} == {''}
    assert pair.run(20) == 20


def test_state_that_is_not_plausible_is_answered_once_if_a_reaction_is_in_force():
    pair = Pair()
    pair.run(50)
    quick = pair.engines[0]
    count = []
    for _ in range(3):  # later, torques without a state come, too
        pair.step(np.full(7, np.nan), np.zeros(7))
        count.append(len(pair.sent[0]))
    assert {engine.guard.reaction for engine in pair.engines} == {'hold'}
    assert quick.guard.cause == NOT_FINITE and 'nan' in quick.guard.reason
    assert count == [1] * 3


def test_torques_are_the_same_beside_friction_driver_and_limits():
    robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    pair = Pair()
    pair.run(22)
    rubs = Friction(np.full(7, 0.5), np.full(7, 0.2))
    settings = pair.engines[0].law.settings
    limits = replace(settings.limits, effort=0.5 * settings.limits.effort)
    for changed in (replace(settings, friction=rubs),
                    replace(settings, driver=Driver(robot, 'gravity'), limits=limits)):
        pair.use(changed)
        assert pair.run(1200) > 300  # after the blend of both settings
        assert pair.run(50) == 50


@pytest.mark.parametrize('change', ['efforts', 'rates', 'speeds'])
def test_torques_are_within_the_limits_of_the_supervisor(change):
    pair = Pair()
    pair.run(20)
    tau = np.abs(pair.engines[0].guard.last_torque)
    changed = {'efforts': {'effort_limits': 0.5 * tau + 1e-3},
               'rates': {'effort_rates': np.full(7, 0.01)},
               'speeds': {'velocity_limits': np.full(7, 0.05)}}[change]
    pair.use(blend_time=0.02, **changed)
    pair.run(100)
    for _ in range(50):
        before = pair.engines[0].guard.last_torque
        pair.step()
        if change == 'efforts':
            assert (np.abs(pair.sent[0][-1]) <= 0.5 * tau + 1e-3).all()
        elif change == 'rates':
            assert (np.abs(pair.sent[0][-1] - before) <= 1.001 * 0.01 * PERIOD).all()


def _follow(pair, x):
    shift = np.eye(4)
    shift[0, 3] = x
    pair.each(lambda engine: requests.follow(
        engine, PoseGoal(engine.law.pose @ shift), 0.0, 'tip'))


def _not_a_number(pair):
    pair.step(np.full(7, np.nan), np.zeros(7))


def _jump(pair):
    pair.step(READY + 1.0, np.zeros(7))


def _too_fast(pair):
    for _ in range(3):
        pair.step(READY, np.full(7, 3.0))


def _gap(pair):
    pair.now += 0.2
    pair.each(lambda engine: engine.watch(0.01))


def _old_stamp(pair):
    pair.step(dt=-0.5 * PERIOD)


def _frozen(pair):
    q, qd = READY + 0.1 * np.sin(2.0 * pair.k * PERIOD), np.full(7, 0.5)
    for _ in range(40):
        pair.step(q, qd)


def _spoiled_law(pair):
    records = [engine.law._setup.d for engine in pair.engines]
    kept = records[0].posture_frequency
    for one in records:
        one.posture_frequency = np.nan
    before = pair.at_once
    pair.step()
    assert pair.at_once == before + 1
    for engine in pair.engines:
        assert engine.guard.reason.startswith('InputError: posture_acceleration is not finite')
    assert {engine.guard.cause for engine in pair.engines} == {NOT_FINITE}
    assert np.isfinite(pair.sent[0]).all()
    for one in records:
        one.posture_frequency = kept


def _lower_limits(pair):
    pair.use(effort_limits=0.1 * pair.engines[0].guard.settings.effort_limits)


def _stop(pair):
    pair.each(lambda engine: engine.deactivate())


@pytest.mark.parametrize('fault', [
    _not_a_number, _jump, _too_fast, _gap, _old_stamp, _frozen, _spoiled_law, _lower_limits,
    _stop], ids=lambda one: one.__name__.strip('_'))
@pytest.mark.parametrize('rates', first_quick([200.0, None]))
def test_after_a_fault_the_torques_are_the_same(fault, rates):
    pair = Pair(effort_rates=None if rates is None else np.full(7, rates))
    pair.run(30)
    fault(pair)
    pair.run(150)
    if fault not in (_stop, _lower_limits):
        assert pair.run(20) == 20


def test_torques_are_the_same_while_a_watchdog_only_reports():
    pair = Pair()
    pair.run(5)
    for _ in range(50):
        pair.each(lambda engine: engine.guard.report_fault(CONTACT, 'of this test')).step()
    assert pair.engines[0].guard.cause == CONTACT


@pytest.mark.parametrize('settings', [
    pytest.param(Settings(observation=Observation()), id='observer'),
    pytest.param(Settings(disturbance=Disturbance()), id='compensation')])
def test_reaction_to_a_contact_is_the_same_and_has_its_reason(settings):
    pair = Pair(settings)
    pair.run(50)
    watched = pair.engines[0].guard.settings
    pair.use(contact=Contact(np.full(7, 1e-3)), watchdogs={
        **watched.watchdogs, CONTACT: Watchdog('hold', latched=True)})
    pair.run(60)
    for engine in pair.engines:
        assert engine.guard.reaction == 'hold' and 'contact.torque' in engine.guard.reason
    pair.use(contact=watched.contact, watchdogs=watched.watchdogs)
    pair.run(50)
    pair.each(lambda engine: engine.guard.release())
    pair.run(200)
    assert pair.run(20) == 20


def test_random_states_and_commands_give_the_same_torques():
    rng = np.random.default_rng(7)
    pair = Pair(effort_rates=np.full(7, 500.0))
    faults = [_not_a_number, _jump, _too_fast, _gap, _old_stamp, _frozen, _spoiled_law]
    for _ in range(60):
        choice = rng.integers(12)
        if choice < len(faults):
            faults[choice](pair)
        elif choice == 7:
            pair.each(lambda engine: engine.guard.release())
        elif choice == 8:
            _follow(pair, rng.uniform(-0.05, 0.05))
        pair.run(int(rng.integers(1, 30)))
    assert pair.at_once > 50


@pytest.mark.parametrize('reaction', first_quick(['hold', 'gravity', 'comply']))
@pytest.mark.parametrize('changed', ['payload', 'driver'])
def test_change_of_the_model_during_a_reaction_makes_no_step_of_torque(reaction, changed):
    pair = Pair()
    pair.use(watchdogs={CONTACT: Watchdog(reaction)})
    pair.run(200)

    def step():
        before = [sent[-1] for sent in pair.sent]
        pair.each(lambda engine: engine.guard.report_fault(CONTACT, 'of this test')).step()
        return max(np.abs((sent[-1] - one) / pair.robot.effort_limits).max()
                   for sent, one in zip(pair.sent, before))

    for _ in range(100):
        usual = step()
    robot = pair.robot.with_payload(3.0, [0.0, 0.0, 0.2]) if changed == 'payload' else pair.robot
    driver = Driver(pair.robot, 'gravity') if changed == 'driver' else None
    pair.each(lambda engine: engine.use_setup(engine.law.new_setup(
        replace(engine.law.settings, driver=driver), robot), engine.guard.settings))
    assert max(step() for _ in range(300)) < usual + 0.01
    assert all(engine.guard.reaction == reaction for engine in pair.engines)
    at_once = pair.at_once
    pair.run(300)
    assert not any(engine.guard.reaction for engine in pair.engines)
    assert pair.at_once == at_once + 300


@pytest.mark.parametrize('changed', ['payload', 'driver'])
def test_change_of_the_model_while_no_states_come_makes_no_step_of_torque(changed):
    pair, steps = Pair(), []
    pair.run(200)
    robot = pair.robot.with_payload(3.0, [0.0, 0.0, 0.2]) if changed == 'payload' else pair.robot
    driver = Driver(pair.robot, 'gravity') if changed == 'driver' else None
    for k in range(400):
        before = [sent[-1] for sent in pair.sent]
        pair.now += PERIOD
        if k == 150:
            held = pair.sent[0][-1]
            pair.each(lambda engine: engine.use_setup(engine.law.new_setup(
                replace(engine.law.settings, driver=driver), robot), engine.guard.settings))
        pair.each(lambda engine: engine.watch(0.01))
        steps.append(max(np.abs((sent[-1] - one) / pair.robot.effort_limits).max()
                         for sent, one in zip(pair.sent, before)))
    assert {engine.guard.source for engine in pair.engines} <= {'brake', 'weight'}
    assert max(steps[140:]) < max(steps[:140]) + 0.01
    if changed == 'payload':  # without states, nobody knows that the arm carries more than it did
        assert np.abs((pair.sent[0][-1] - held) / pair.robot.effort_limits).max() < 0.03


def test_reaction_that_begins_after_a_change_of_the_model_is_not_slower():
    pair = Pair(blend_time=0.5)
    pair.use(watchdogs={CONTACT: Watchdog('gravity'), NOT_FINITE: Watchdog('zero')})
    pair.run(50)
    for _ in range(40):
        pair.each(lambda engine: engine.guard.report_fault(CONTACT, 'of this test')).step()
    pair.use(None, pair.robot.with_payload(3.0, [0.0, 0.0, 0.2]))
    for _ in range(12):  # fade_time is 10 states
        pair.each(lambda engine: engine.guard.report_fault(NOT_FINITE, 'of this test')).step()
    assert {engine.guard.reaction for engine in pair.engines} == {'zero'}
    assert_array_equal(pair.sent[0][-1], np.zeros(7))


def test_step_that_takes_longer_than_its_deadline_is_a_fault():
    pair = Pair().step()
    engine = pair.engines[0]
    readings = iter([pair.now])  # before the torques; then after them
    engine.use_clock(lambda: next(readings, pair.now + 0.02))
    engine.update(pair.now + PERIOD, *pair.state(), pair._stamp(), pair.now)
    engine.use_clock(lambda: pair.now)
    engine.guard.watch()
    assert (engine.guard.cause, engine.guard.reaction) == (DEADLINE, 'hold')
    assert engine.guard.reason == 'an update took 0.0200 s'


def test_goals_are_begun_by_their_stamps_and_those_that_are_dropped_are_told():
    pair, told = Pair().step(), []
    engine = pair.engines[0]
    engine._post = lambda *event: told.append(event)

    def dropped():
        found = [event[1:] for event in told if event[0] == 'dropped']
        told.clear()
        return found

    pose = PoseGoal(engine.law.target.pose.copy())
    for stamp, text in ((engine.time - 8.0, 'older than'), (engine.time + 4e3, 'another clock')):
        with pytest.raises(InputError, match=text):
            requests.follow(engine, pose, stamp, 'tip')
    with pytest.raises(InputError, match='older than'):
        requests.follow(engine, Path(engine.time - np.array([9.0, 8.0]), [pose.pose] * 2), 1.0,
                        'tip')
    start = engine.time + 10.0
    requests.follow(engine, pose, start, 'tip')
    assert requests.status(engine).figures.begins_in == pytest.approx(10.0, abs=0.1)
    pair.run(2)
    pair.now += 5.0  # a jump of the clock that does not reach it
    pair.run(2)
    assert not dropped() and engine.law.level().generator.begins_in > 4.0
    pair.now += 9.0
    pair.run(2)
    [(text, *goal)] = dropped()
    assert goal == ['tip', start] and 'too late' in text
    requests.follow(engine, pose, engine.time + 10.0, 'tip')
    pair.now -= 5.0
    pair.run(20)  # ten states confirm it
    assert any('went back' in one[0] for one in dropped())
    assert requests.status(engine).figures.begins_in == 0.0


def test_a_fault_that_is_over_before_python_looks_is_told_in_words():
    pair, told = Pair().step(), []
    engine = pair.engines[0]
    engine._send, engine._post = lambda tau, stamp: None, lambda *event: told.append(event)
    answering, controller, rows = Answering(7), engine.controller(), []
    for k in range(14):  # of these, the second is implausible; the reaction ends after 20 ms
        pair.k, pair.now = pair.k + 1, pair.now + PERIOD
        q, qd = pair.state()
        state = pair.now, q + (k == 1), qd, (0, 0), pair.now
        answering.answer(controller, state, None, pair.now)
        answering.finish(controller, pair.now)
        rows.append(answering.taken().words)
    for done, is_plain in Answers(np.array(rows), 7).groups(1.0):
        engine.conclude(done, is_plain)
    [begun, ended] = [event[1:] for event in told if event[0] == 'change']
    assert begun[:2] == (JUMP, 'hold') and "'panda_joint4' went" in begun[2]
    assert ended == ('', '', 'active')


@pytest.mark.parametrize(('slower', 'lost'), [(1, 0), (10, 0), (1.5, 0), (1, 3)])
def test_torques_of_a_reaction_do_not_step(slower, lost):
    """In a simulation `slower` than real time; or `lost` states are missing after each state."""
    run, wall = Driven(wall=False), [0.0]
    effort = run.robot.effort_limits
    run.engine.use_clock(lambda: wall[0])
    run.engine.guard.settings = replace(run.engine.guard.settings, effort_rates=50.0 * effort)
    run.engine.guard.begin()
    sent = []
    for tick in range(600):
        if tick == 50:
            run.go(0.0, 0.3, 0.0)
        if 250 <= tick < 350:  # in motion
            run.engine.guard.report_fault(NOT_FINITE, 'a test')
        if tick < 200 or tick % (lost + 1) == 0:
            run.update()
        for _ in range(2 * round(slower)):
            wall[0] += PERIOD * slower / (2 * round(slower))
            if slower > 1.0 or lost:
                run.engine.watch(0.5 * PERIOD)
        sent.append(run.commands[-1] / effort)
        run.plant.step(run.commands[-1], 2)
    steps = np.abs(np.diff(sent[20:], axis=0)).max(axis=1)
    assert steps.max() < 1.05 * 50.0 * PERIOD
    assert lost or steps[228:].max() < 0.05
