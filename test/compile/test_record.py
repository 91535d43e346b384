# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Records of a controller, and the stages of the step that work on them."""

from copy import copy, deepcopy
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from attacked import robot_of
from osc_ros import Driver, Friction, Law, LookAt, Settings, Task
from osc_ros.compile.record_type import HEADER
from osc_ros.control.model_error.disturbance import (
    compensate,
    Disturbance,
    FOLLOWS,
    HELD,
)
from osc_ros.control.safety.supervision import DEFAULT_WATCHDOGS, REACTIONS, Supervision
from osc_ros.control.setpoint import motion
from osc_ros.control.setpoint.set_point_generator import (
    Course,
    SetPointGenerator,
    STOP,
    TwistGoal,
)
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.settings import Observation
from osc_ros.control.step.limit import limit_rate
from osc_ros.control.step.places import Places
from osc_ros.control.step.step import step
from osc_ros.control.tasks import feedback
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.task import ForceControl, Stiffness, TargetLimits
from osc_ros.errors import InputError
from osc_ros.loop import requests
from osc_ros.loop.engine import Engine
from osc_ros.loop.packing import packed, unpacked
from set_points import target_at
from supervised import torque_to_send
from variants import first_quick, quick_if

HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
PERIOD = 0.002


def samples(robot, count, seed):
    """Yield random joint states and their arrivals: of a moving arm, with faults of every kind."""
    rng, n = np.random.default_rng(seed), robot.n
    fastest = np.minimum(robot.velocity_limits, 2.0)
    q, time, now, kind = rng.uniform(-1.0, 1.0, n), 5.0, 1.0, 'moves'
    qd = 0.3 * fastest * rng.normal(size=n)
    frozen = q
    for k in range(count):
        if k % 20 == 0:
            kind = rng.choice(['moves', 'freezes', 'stands', 'jumps', 'is wrong', 'is fast'])
            frozen, began = q, time
        time, now = time + PERIOD, now + PERIOD * rng.uniform(0.8, 1.2)
        q = q + PERIOD * qd
        given, speeds = (frozen if kind == 'freezes' else q).copy(), qd.copy()
        if kind == 'jumps':
            given += rng.normal(size=n)
        elif kind == 'is wrong':
            given[rng.integers(n)] = rng.choice([np.nan, np.inf])
        elif kind == 'is fast':
            speeds *= 10.0
        yield began if kind == 'stands' else time, given, speeds, now


def engine_of(robot, reaction, **settings):
    """Return an engine whose watchdogs all have one reaction; it sends nothing."""
    law = Law(robot, Settings.of(robot, **settings))
    dogs = {cause: replace(dog, reaction=reaction) for cause, dog in DEFAULT_WATCHDOGS.items()}
    settings = replace(Supervision.of(robot, law.settings.limits, 1.0 / PERIOD), watchdogs=dogs)
    return Engine(law, settings, PERIOD, lambda tau, stamp: None, lambda *event: None)


def restored(found):
    """Write a checkpoint to bytes, read it, and return its engine, which sends nothing."""
    return Engine.restored(unpacked(packed(found)), lambda tau, stamp: None, lambda *event: None)


def ticks(guard, given, clock):
    """Pass states to a supervisor, and let it answer; return all that it says."""
    rng, found = np.random.default_rng(3), []
    for time, q, qd, now in given:
        clock[0] = now
        accepted = guard.accept_state(time, q, qd)
        tau = 0.1 * rng.normal(size=len(q))
        if accepted or guard.watch():
            sent = torque_to_send(guard, lambda tau=tau: tau)
            found.append((accepted, sent.tobytes(), guard.cause,
                          guard.reaction, guard.d.words.tobytes()))
    return found


@pytest.mark.parametrize('reaction', first_quick(REACTIONS, 3))
def test_same_state_and_samples_give_the_same_torques_to_the_last_bit(reaction):
    robot, clock = robot_of('panda'), [1.0]
    guard = engine_of(robot, reaction).guard
    guard.clock = lambda: clock[0]
    guard.begin()
    given = list(samples(robot, 1200, 1))
    ticks(guard, given[:200], clock)
    kept, runs = guard.d.words.copy(), []
    for _ in range(2):
        guard.d.words[:] = kept
        runs.append(ticks(guard, given[200:], clock))
    assert runs[0] == runs[1]
    assert {one[2] for one in runs[0]} >= {'jump', 'not_finite', 'overspeed'} or (
        reaction in ('deactivate', 'zero'))


def test_checkpoint_with_arrays_of_another_length_is_refused():
    found = engine_of(robot_of('panda'), 'hold').checkpoint()
    row = found.row.copy()
    row[-1] += 1
    with pytest.raises(InputError, match='other slots'):  # as of another version of the tables
        restored(found._replace(row=row))
    assert restored(found).checkpoint().row.tobytes() == found.row.tobytes()
    for k in range(len(found.sizes)):
        sizes = found.sizes + (np.arange(len(found.sizes)) == k)
        with pytest.raises(InputError, match='give|must be'):
            restored(found._replace(sizes=sizes))
    for sizes, row in ((found.sizes[:-1], found.row), (found.sizes, found.row[:-1]),
                       (found.sizes, found.row.astype(float))):
        with pytest.raises(InputError, match='give|must be'):
            restored(found._replace(sizes=sizes, row=row))
    for name in ('q', 'qd', 'effort'):
        with pytest.raises(InputError, match=f'{name}.*(give|must be)'):
            restored(found._replace(values={
                **found.values, 'mode': 'active', 'q': HOME, 'qd': HOME, name: np.zeros(5)}))


@pytest.mark.parametrize('count', [90, pytest.param(300, marks=pytest.mark.slow)])
def test_numbers_of_a_checkpoint_never_make_a_kernel_leave_its_arrays(count):
    rng, robot = np.random.default_rng(5), robot_of('panda')
    engine = engine_of(robot, 'hold')
    for time, q, qd, _now in samples(robot, 300, 1):
        if engine.guard.accept_state(time, q, qd):
            torque_to_send(engine.guard, lambda: 0.1 * np.ones(robot.n))
    records = engine.guard.m, engine.guard.d
    used, kept = 0, [record.slots.copy() for record in records]
    for _ in range(count):
        for record, before in zip(records, kept):
            record.slots[:] = before
            wrong = rng.integers(len(before), size=rng.integers(1, 200))
            floats = rng.random(len(wrong)) < 0.5
            record.slots.view(float)[wrong[floats]] = rng.choice(
                [np.nan, np.inf, -1.0, -1e18, 1e18, 3e5, -3e5], floats.sum())
            record.slots[wrong[~floats]] = rng.choice([-1, -2**62, 2**62, 300000, -300000, 5],
                                                      (~floats).sum())
        try:
            guard = restored(engine.checkpoint()).guard
        except InputError:  # an index that is none
            continue
        used += 1
        for time, q, qd, _now in samples(robot, 30, 2):
            if guard.accept_state(time, q, qd) or guard.watch():
                tau = torque_to_send(guard, lambda: 0.1 * np.ones(robot.n))
                assert np.isfinite(tau).all()
    assert used > count // 3


FRICTION = Friction(np.full(7, 0.5), np.full(7, 0.2))
KINDS = {'observer': {'disturbance': Disturbance(free=0.2)},
         'friction': {'disturbance': Disturbance(), 'friction': FRICTION},
         'spring': {'disturbance': Disturbance(), 'tasks': (Task(Stiffness()),)},
         'driver': {'disturbance': Disturbance(), 'observation': Observation(
             efforts='measured without driver'), 'driver': Driver(robot_of('panda'), 'gravity')}}


def unmodelled(kind):
    return Law(robot_of('panda'), Settings.of(robot_of('panda'), **KINDS[kind])).setup


def ticks_of(one, kind, count, seed):
    """Return estimates and compensations of random states, with faults."""
    rng, found, time, q = np.random.default_rng(seed), [], 5.0 * seed, np.zeros(7)
    for _ in range(count):
        time += rng.choice([PERIOD, 0.0, -PERIOD, 0.5, -0.5], p=[0.98, *[0.005] * 4])
        q, qd, tau, effort, friction = q + PERIOD, *rng.normal(size=(4, 7))
        if rng.random() < 0.1:
            effort[rng.integers(7)] = np.nan
        one.observer.update(time, q, qd, 10.0 * tau, 10.0 * effort)
        compensate(one.compensation.record, one.observer.record, time, tau, 0.01 * qd,
                   np.eye(3), HELD if rng.random() < 0.01 else FOLLOWS,
                   friction if kind == 'friction' else qd[:0])
        external = one.observer.external
        found.append((external.quality, *(part.tobytes() for part in (
            one.compensation.torque, external.torque, external.wrench, external.residual))))
    return found


@pytest.mark.parametrize('kind', first_quick(KINDS, 2))
def test_estimate_and_compensation_follow_from_their_records_to_the_last_bit(kind):
    one = unmodelled(kind)
    ticks_of(one, kind, 300, 1)
    records = one.observer.record.words, one.compensation.record.words
    before = [record.copy() for record in records]
    first = ticks_of(one, kind, 1000, 2)
    assert any(np.frombuffer(torque).any() for _, torque, *_ in first)
    for record, old in zip(records, before):
        record[:] = old
    assert ticks_of(one, kind, 1000, 2) == first


def pushing_law():
    """Return a law of two tasks with all that the records of tasks have, and its first task."""
    spring = Stiffness([20.0] * 3 + [400.0] * 3, change_time=0.2)
    tip = Task(spring, axes=('motion',) * 5 + ('force',), frame='panda_link6',
               force=ForceControl(gain=0.5, integral_rate=5.0))
    robot = robot_of('panda')
    law = Law(robot, Settings.of(robot, tasks=(tip, Task(name='elbow', link='panda_link4',
                                                         activation=0.5))))
    law.hold(law.posture)
    law.torque(0.0, law.posture, np.zeros(robot.n))
    law.change(Settings.of(robot, tasks=(tip, Task(name='elbow', link='panda_link4')),
                           blend_time=0.3))
    law.torque(0.002, law.posture, np.zeros(robot.n))
    law.set_impedance(Impedance([30.0] * 3 + [600.0] * 3, wrench=[1.0] * 3 + [2.0] * 2 + [0.0]))
    law.set_wrench([0.0] * 5 + [10.0])
    return law, law.levels['tip']


def test_same_records_of_tasks_give_the_same_wrench_and_impedance_to_the_last_bit():
    law, tip = pushing_law()
    setup = law._setup
    m, d, poses = setup.m, setup.d, setup.space.dynamics.pose.reshape(-1, 4, 4)
    kept, runs = d.words.copy(), []
    while len(runs) < 2:
        d.words[:] = kept
        rng, time, found = np.random.default_rng(4), 0.002, []
        for _ in range(1000):
            time += 0.002 if rng.random() < 0.98 else rng.choice([-0.1, 0.0, 0.3])
            if rng.random() < 0.5:
                tip.set_measured_wrench(rng.normal(size=6), time)
            d.time = time
            feedback.put_references(m, d, setup.space.dynamics.Lambda_inv)
            feedback.put_wrenches(m, d, poses)
            for one in (d.level_u, d.level_spring, d.level_root, d.level_weight, d.level_rate):
                one[:] = rng.normal(size=(2, 6))
            found.append(d.words.tobytes())
        runs.append(found)
    assert runs[0] == runs[1]
    assert law.setup.d.wrench[0, 5] == pytest.approx(10.0, rel=1e-3)
    assert (law.levels['elbow'].activation == 1.0).all()
    assert tip.impedance.now[0, 0] == pytest.approx(30.0, rel=1e-2)


def limited_law():
    """Return a law with a payload, whose limits have just become lower."""
    robot = robot_of('panda').with_payload(4.0)
    law = Law(robot)
    law.hold(law.posture)
    law.torque(0.0, law.posture, np.zeros(robot.n))
    limits = law.settings.limits
    law.change(replace(law.settings, limits=replace(
        limits, effort=0.6 * limits.effort, velocity=0.5 * limits.velocity)))
    law.torque(PERIOD, law.posture, np.zeros(robot.n))
    return law


def rubbing(settings, robot):
    return replace(settings, friction=Friction(np.full(7, 0.5), np.full(7, 0.2)),
                   driver=Driver(robot, 'gravity+coriolis'))


def pressing(settings, robot):
    return replace(settings, tasks=(Task(
        axes=('motion',) * 5 + ('force',), force=ForceControl(gain=0.5, integral_rate=1.0)),))


@pytest.mark.parametrize('changed', first_quick([
    lambda settings, robot: FreeDrive().applied_to(rubbing(settings, robot)),
    lambda settings, robot: settings, rubbing, pressing]))
def test_same_numbers_of_a_setup_give_the_same_torques_to_the_last_bit(changed):
    law = limited_law()
    law.change(changed(law.settings, law.robot))
    law.torque(2 * PERIOD, law.posture, np.zeros(law.robot.n))
    setup, n = law._setup, law.robot.n
    records = setup.d.slots, law._run.slots
    kept, runs = [record.copy() for record in records], []
    while len(runs) < 2:
        for record, before in zip(records, kept):
            record[:] = before
        rng, time, found = np.random.default_rng(6), 2 * PERIOD, []
        for _ in range(1000):
            time += PERIOD if rng.random() < 0.98 else rng.choice([0.0, 0.3])
            q = law.posture + 0.3 * rng.normal(size=n)
            qd = rng.choice([0.01, 1.0]) * rng.normal(size=n)
            law.levels['tip'].set_measured_wrench(rng.normal(size=6), time)
            d = setup.d
            assert setup.torque(time, q, qd) > 0
            d.tau[:] = d.tau_limited + (d.tau_friction - d.tau_driver)
            sides = setup.limiter.d.acceleration_sides.any(), setup.limiter.d.load_sides.any()
            assert limit_rate(d, 0.0)
            found.append((d.tau.tobytes(), *sides))
        runs.append(found)
    assert runs[0] == runs[1]
    assert {one[1] for one in found} == {one[2] for one in found} == {True, False}


def test_addresses_and_indices_in_a_checkpoint_are_never_used():
    engine = engine_of(robot_of('panda'), 'hold')
    law = engine.law
    law.hold(law.posture)
    law.follow(Path([1.0, 2.0], [law.pose, law.pose]), 0.0)
    law.torque(PERIOD, law.posture, np.zeros(7))
    guide = law.levels['tip'].generator
    plan, _ = guide.records
    plan.integers[HEADER + len(plan.slots):] = 10**6
    again = restored(engine.checkpoint()).law
    assert len(again.levels['tip'].generator.records[0].times) == 2
    assert np.isfinite(again.torque(2 * PERIOD, law.posture, np.zeros(7))).all()


BOX = TargetLimits(box=[[-0.2] * 3, [0.3] * 3])


def at(x, angle=0.0):
    """Return the pose at x along the axis x, turned about the axis z."""
    T = np.eye(4)
    T[0, 3], T[:2, :2] = x, [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return T


def coasting():
    before = SetPointGenerator(at(0.0))
    target_at(before, 5.0, BOX)
    return SetPointGenerator.coasting(at(0.0), np.full(6, 0.2), 7.0, before)


def led(kind):
    """Return a guide in the midst of a motion."""
    guide = coasting() if kind == 'coasting' else SetPointGenerator(at(0.0))
    if kind != 'coasting':
        guide.add({'pose': PoseGoal(at(0.25, 1.0)), 'box': PoseGoal(at(0.9)), 'stop': STOP,
                   'twist': TwistGoal([0.0, 0.0, 0.5, 0.2, 0.1, 0.0], 5.5),
                   'path': Path([5.1, 5.6, 6.1], [at(0.1), at(0.2, 0.5), at(0.1)])}[kind], 5.0)
    for k in range(100):
        target_at(guide, 5.0 + PERIOD * k, BOX, np.zeros(6))
        guide.plan()
    return guide


def targets_of(guide, seed):
    """Return the targets of 1,000 ticks with pauses, an arm that lags and a new motion."""
    rng, found, time = np.random.default_rng(seed), [], 5.2
    for k in range(1000):
        time += PERIOD if rng.random() < 0.99 else rng.choice([0.0, 0.5, -0.1, -0.4])
        lag = guide.target.twist * (10.0 if 200 < k < 300 else 0.0)
        if k == 500:
            guide.add(PoseGoal(at(-0.1, 0.3)), time + 0.1)
        target_at(guide, time, BOX, lag)
        guide.plan()
        found.append((guide.waits, guide.clamped, guide.records[1].slots.tobytes()))
    return found


MOTIONS = 'pose', 'box', 'stop', 'twist', 'path', 'coasting'


def copied(guide):
    """Return a guide that goes on from the numbers and motions of another one."""
    again = SetPointGenerator(np.eye(4))
    for record, before in zip(again.records, guide.records):
        record.slots[:] = before.slots
    again.course = Course(*unpacked(packed(tuple(guide.course))))
    return again


@pytest.mark.parametrize('kind', MOTIONS)
def test_target_of_every_motion_goes_on_from_a_copy_to_the_last_bit(kind):
    guide = led(kind)
    kept = copied(guide)
    first = targets_of(guide, 2)
    assert targets_of(kept, 2) == first
    assert len({state for *_, state in first}) > 900


@pytest.mark.parametrize('kind', MOTIONS)
def test_targets_between_two_plans_follow_from_their_records_to_the_last_bit(kind):
    guide, runs = led(kind), []
    plan, state = guide.records
    plan.event = np.inf  # no more plans
    kept = [record.slots.copy() for record in guide.records]
    for _ in range(2):
        for record, before in zip(guide.records, kept):
            record.slots[:] = before
        rng, time, found = np.random.default_rng(3), 5.2, []
        for _ in range(1000):
            time += PERIOD if rng.random() < 0.99 else rng.choice([0.0, 0.5, -0.1])
            state.is_open = False
            motion.put_target(plan, state, np.zeros(6), time, 1.0)
            found.append(state.slots.tobytes())
        runs.append(found)
    assert runs[0] == runs[1]


def test_numbers_of_a_motion_never_make_a_kernel_leave_its_arrays():
    rng, guides, used = np.random.default_rng(5), [led(kind) for kind in MOTIONS], 0
    for _ in range(300):
        guide = copied(guides[rng.integers(len(guides))])
        for record in guide.records:
            wrong = rng.integers(len(record.slots), size=rng.integers(1, 20))
            record.slots.view(float)[wrong] = rng.choice(
                [np.nan, np.inf, -1.0, -1e18, 1e18, 3.0], len(wrong))
        guide = copied(guide)
        plan, state = guide.records
        for k in range(30):
            state.is_open = False
            motion.put_target(plan, state, np.zeros(6), 5.2 + PERIOD * k, 1.0)
            used += np.isfinite(state.pose).all()
    assert used > 1000


LAWS = {
    'as it comes': {},
    'friction, observer and compensation': {
        'friction': Friction(np.ones(7), np.ones(7)), 'observation': Observation(),
        'disturbance': Disturbance()},
    'a driver that compensates gravity': {'driver': Driver(robot_of('panda'), 'gravity')},
    'a spring': {'tasks': (Task(gains=Stiffness([5.0] * 3 + [100.0] * 3)),)},
    'axes of force': {'tasks': (Task(axes=('motion',) * 5 + ('force',)),)},
    'two tasks': {'tasks': (Task(), Task(name='elbow', link='panda_link4',
                                         axes=('free',) * 5 + ('motion',)))},
    'a point to look at': {'tasks': (Task(kind=LookAt([0.0, 0.0, 1.0])),)},
    'free drive': {'free': FreeDrive()},
}


def stepped(engine, given):
    """What compiled code alone answers to samples: codes and torques."""
    controller, d, found = engine.controller(), engine.guard.d, []
    for time, q, qd, now in given:
        d.sample_time, d.now, d.sample_q[:], d.sample_qd[:] = time, now, q, qd
        d.sample_effort[:] = np.nan
        found.append((step(controller), d.tau.tobytes()))
    return found


@pytest.mark.parametrize('kind, reaction', quick_if(
    lambda kind, reaction: reaction == REACTIONS[list(LAWS).index(kind) % len(REACTIONS)],
    [(kind, reaction) for kind in LAWS for reaction in REACTIONS]))
def test_next_torques_depend_on_nothing_but_what_a_controller_keeps(kind, reaction):
    robot = robot_of('panda')
    engine = engine_of(robot, reaction, **LAWS[kind])
    given = list(samples(robot, 1000, 12))
    time, q, _, now = given[0]
    for k in range(-20, 0):
        engine.use_clock(lambda now=now + PERIOD * k: now)
        engine.update(time + PERIOD * k, q, np.zeros(7), (0, 0), now + PERIOD * k)
        if k == -10:
            engine.activate(None)
        if k == -5 and 'free' not in LAWS[kind]:
            requests.follow(engine, TwistGoal([0.1, 0, 0, 0, 0.1, 0], time + 10.0), 0.0,
                            engine.law.settings.tasks[0].name)
    places = Places(engine.state_arrays())
    row = np.empty(places.size, dtype=np.int64)
    places.store(row)
    first = stepped(engine, given)
    assert len({torques for _, torques in first}) > 20
    places.load(row)
    assert stepped(engine, given) == first


def answers(found, time, q, count=300, seed=7):
    """Torques of the engine of a checkpoint for random states after a time [s]."""
    engine, rng, torques = restored(found), np.random.default_rng(seed), []
    for k in range(1, count):
        engine.use_clock(lambda now=time + PERIOD * k: now)
        q = q + 1e-3 * rng.normal(size=7)
        engine.update(time + PERIOD * k, q, 0.1 * rng.normal(size=7), (0, 0), time + PERIOD * k)
        torques.append(engine.guard.last_torque)
    return np.array(torques)


@pytest.mark.parametrize('target', ['rest', 'moves'])
def test_checkpoint_keeps_the_moment_at_which_it_was_made(target):
    engine = engine_of(robot_of('panda'), 'hold', friction=Friction(np.ones(7), np.ones(7)),
                       observation=Observation(), disturbance=Disturbance())
    q, time = HOME, 1.0
    rng = np.random.default_rng(6)
    for k in range(20):
        time += PERIOD
        engine.update(time, q, np.zeros(7), (0, 0), perf_counter())
        if k == 10:
            engine.activate(None)
        if k == 15 and target == 'moves':
            requests.follow(engine, TwistGoal(np.array([0.1, 0, 0, 0, 0.1, 0]), time + 10.0), 0.0,
                            engine.law.settings.tasks[0].name)
    found, controller = engine.checkpoint(), engine.controller()
    first = answers(found, time, q)
    d = engine.guard.d
    for _ in range(5):  # as compiled code answers states
        time += PERIOD
        d.sample_time, d.now = time, perf_counter()
        d.sample_q[:], d.sample_qd[:] = q + 1e-4 * rng.normal(size=7), 1e-3 * rng.normal(size=7)
        assert step(controller) >= 0
    time -= 5 * PERIOD
    assert (answers(engine.checkpoint(), time, q) != first).any()
    np.testing.assert_array_equal(answers(found, time, q), first)


def test_diagnosis_changes_no_torque():
    spring = Task(Stiffness([20.0] * 3 + [400.0] * 3))
    engines = [engine_of(robot_of('panda'), 'hold', tasks=(spring,)) for _ in range(2)]
    rng, q, time = np.random.default_rng(3), HOME, 1.0
    for k in range(200):
        time, q, qd = time + PERIOD, q + 1e-3 * rng.normal(size=7), 0.3 * rng.normal(size=7)
        for engine in engines:
            engine.use_clock(lambda now=time: now)
            engine.update(time, q, qd, (0, 0), time)
            if k == 10:
                engine.activate(None)
            if k > 10 and k % 20 == 0:
                requests.set_impedance(engine, Impedance(
                    [10.0 + k] * 3 + [300.0 + k] * 3), spring.name)
        requests.terms(engines[0]), requests.inertia(engines[0]), requests.status(engines[0])
        if k > 10:
            np.testing.assert_array_equal(*(one.guard.last_torque for one in engines))


def test_settings_that_are_prepared_change_no_torque_before_they_are_used():
    engine = engine_of(robot_of('panda'), 'hold', observation=Observation(bandwidth=50.0))
    observer = engine.law.setup.observer
    other = engine.law.new_setup(replace(engine.law.settings, observation=Observation(20.0)))
    assert observer.bandwidth == 50.0
    engine.law.hold(HOME)
    engine.law.use_setup(other)
    assert engine.law.setup.observer is observer
    assert observer.bandwidth == 20.0


def test_a_copy_of_a_law_has_memory_of_its_own():
    law = limited_law()
    again = deepcopy(law)
    for one in (law, again):
        with pytest.raises(InputError, match='pickled'):
            copy(one)
    first = [law.torque((3 + k) * PERIOD, HOME, np.full(7, 0.1 * k)) for k in range(20)]
    second = [again.torque((3 + k) * PERIOD, HOME, np.full(7, 0.1 * k)) for k in range(20)]
    np.testing.assert_array_equal(first, second)


def other_settings(engine, rng):
    """Return other settings, and another robot or None, of a random kind."""
    now, robot = engine.law.settings, engine.law.robot
    first, kind = now.tasks[0], int(rng.integers(8))
    if kind == 0:
        return FreeDrive().applied_to(now) if now.free is None else Settings.of(robot), None
    if kind == 1:
        return Settings.of(robot), None
    if kind == 2:
        return now, robot.without_payload().with_payload(rng.uniform(0.1, 1.0))
    changes = {
        3: {'disturbance': None if now.disturbance else Disturbance(free=0.2)},
        4: {'friction': None if now.friction else Friction(*rng.uniform(0.0, 1.0, (2, 7)))},
        5: {'driver': None if now.driver else Driver(robot, 'gravity')},
        6: {'tasks': (replace(first, activation=rng.uniform(0.2, 1.0)), Task(
            name='elbow', link='panda_link4', axes=('free',) * 5 + ('motion',)))},
        7: {'tasks': (replace(first, gains=Stiffness(
            [*rng.uniform(5.0, 30.0, 3), *rng.uniform(50.0, 500.0, 3)])),)}}
    return (replace(now, **changes[kind]) if now.free is None else now), None


@pytest.mark.parametrize('seed', first_quick(range(40), 6))
def test_controller_goes_on_from_a_checkpoint_in_the_midst_of_any_change(seed):
    rng, robot = np.random.default_rng(seed), robot_of('panda')
    engine, q, time = engine_of(robot, 'hold'), HOME, 1.0
    for k in range(400):
        time += PERIOD
        engine.use_clock(lambda now=time: now)
        q = q + 2e-4 * rng.normal(size=7)
        engine.update(time, q, 0.1 * rng.normal(size=7), (0, 0), time)
        if k == 10:
            engine.activate(None)
        if k > 10 and rng.random() < 0.02:
            settings, other = other_settings(engine, rng)
            engine.use_setup(engine.law.new_setup(settings, other), engine.guard.settings)
        if k > 10 and rng.random() < 0.02 and engine.law.settings.free is None:
            goal = rng.choice([TwistGoal([0.1, 0, 0, 0, 0.1, 0], time + 0.1),
                               PoseGoal(engine.law.pose),
                               Path([time + 0.1, time + 0.5], [engine.law.pose] * 2)])
            requests.follow(engine, goal, 0.0, engine.law.settings.tasks[0].name)
        if k % 40 == 39:
            found = engine.checkpoint()
            first, states = [], []
            for _ in range(30):
                time += PERIOD
                states.append((time, q + 1e-3 * rng.normal(size=7), 0.1 * rng.normal(size=7)))
            for one in (restored(found), engine):
                for at, where, speed in states:
                    one.use_clock(lambda now=at: now)
                    one.update(at, where, speed, (0, 0), at)
                    first.append(one.guard.last_torque.tobytes())
            assert first[:30] == first[30:]
            q = states[-1][1]
