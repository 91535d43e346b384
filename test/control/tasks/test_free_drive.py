# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Free drive: a hand moves the arm gently, and the arm stays where the hand lets go."""

from dataclasses import replace
from functools import cache
from time import sleep

import numpy as np
import pinocchio as pin
import pytest
from scipy.optimize import linprog

from arm import PANDA, PERIOD, READY
from attacked import home, robot_of
from foreign import FOREIGN, ForeignPlant
from judge import Case, configuration
from osc_ros import Clearance, InputError, Law, Robot, Settings, shipped_shapes
from osc_ros.control.limits.clearance import fence_box
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.safety.supervision import STALE_TARGET, Supervision, Watchdog
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.task import Stiffness, Task
from osc_ros.dynamics.algebra.spatial import CHANGE_RATE
from osc_ros.loop import requests
from osc_ros.loop.engine import Engine
from osc_ros.sim import Plant
from shipped import ends, parameters, urdf
from variants import first_quick

ZEROS, DEFAULT = np.zeros(7), FreeDrive()
POSES = (READY, np.array([0.5, 0.2, -0.3, -1.8, 0.2, 2.2, 0.3]),
         np.array([0.0, 0.6, 0.0, -0.8, 0.0, 1.6, 0.0]))
SIX = [*np.eye(3), *-np.eye(3)]
AT_REST = 0.01  # [m/s]


@cache
def panda():
    return Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)


class Pushed(ForeignPlant):
    """The Panda in Pinocchio, with a force on its tip."""

    def __init__(self, **given):
        super().__init__('panda', panda().joint_names, **given)
        self.force = np.zeros(3)

    def push(self, link, force):
        self.force = np.array(force)

    def step(self, tau, duration):
        q = self.q.copy()
        J = pin.computeFrameJacobian(self.model, self.data, q, self.tip,
                                     pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        super().step(tau + J[:3].T @ self.force, duration)


class Hand:
    """An arm under a law, and a hand that pushes its tip."""

    def __init__(self, q=READY, drive=DEFAULT, foreign=False, settings=None, **plant):
        self.base = settings or Settings.of(panda())
        self.law = Law(panda(), drive.applied_to(self.base) if drive else self.base)
        self.plant = Pushed(**plant) if foreign else Plant(
            PANDA.urdf_text, PANDA.base, panda().joint_names,
            **{'friction': ZEROS, 'damping': ZEROS} | plant)
        self.plant.reset(q)
        self.law.hold(q)
        self.places, self.speeds, self.torques = [], [], []

    @property
    def place(self):
        return (self.plant.pose() if isinstance(self.plant, Pushed)
                else self.plant.pose(PANDA.tip))[:3, 3]

    def run(self, seconds, force=(0.0, 0.0, 0.0), link=PANDA.tip):
        self.plant.push(link, force)
        for _ in range(round(seconds / PERIOD)):
            tau = self.law.torque(self.plant.time, self.plant.q, self.plant.qd)
            self.places.append(self.place)
            self.speeds.append(np.linalg.norm(self.law.twist[3:]))
            self.torques.append(tau)
            self.plant.step(tau, PERIOD if isinstance(self.plant, Pushed) else 2)
            self.law.plan()
        return self

    def moved(self):
        return np.linalg.norm(np.array(self.places) - self.places[0], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize('foreign', (False, True), ids=('mujoco', 'pinocchio'))
def test_ten_newton_for_a_second_move_the_tip_by_little_and_it_stops_at_once(foreign):
    for q in POSES[:1] if foreign else POSES:
        for direction in SIX:
            hand = Hand(q, foreign=foreign).run(1.0, 10.0 * direction).run(0.6)
            assert 0.05 < hand.moved()[499] and hand.moved().max() < 0.2
            assert max(hand.speeds[650:]) < AT_REST


def test_without_free_drive_the_same_push_throws_the_tip():
    base = Settings.of(panda(), tasks=(Task(axes=('free',) * 6),))
    slack = replace(base, posture=replace(base.posture, natural_frequency=0.0))
    hand = Hand(drive=None, settings=slack).run(1.0, [0.0, 10.0, 0.0]).run(0.6)
    assert hand.moved()[499] > 0.4 and max(hand.speeds[650:]) > 0.4


def test_push_of_a_second_before_and_now(drawn):
    base = Settings.of(panda(), tasks=(Task(axes=('free',) * 6),))
    slack = replace(base, posture=replace(base.posture, natural_frequency=0.0))
    hands = {'all axes free, no free drive': Hand(drive=None, settings=slack),
             'free drive, default parameters': Hand()}
    for hand in hands.values():
        hand.run(0.2).run(1.0, [0.0, 10.0, 0.0]).run(0.8)
    drawn('hand_guiding', 'A hand pushes the tip of the Panda with 10 N for 1 s',
          PERIOD * np.arange(1000),
          {'distance moved [m]': {name: hand.moved() for name, hand in hands.items()},
           'speed [m/s]': {name: hand.speeds for name, hand in hands.items()}},
          {0.2: 'hand pushes', 1.2: 'lets go'})
    before, now = (hand.moved() for hand in hands.values())
    assert before[600] > 0.4 and before[-1] > before[600] + 0.2
    assert now[600] < 0.17 and now[-1] < now[600] + 0.01


def test_arm_that_nobody_touches_stays():
    for foreign in (False, True):
        assert Hand(foreign=foreign).run(1.0).moved().max() < 1e-6


@pytest.mark.parametrize('foreign', (False, True), ids=('mujoco', 'pinocchio'))
def test_hand_in_free_drive_feels_the_fence_as_a_soft_wall(foreign):
    start = Hand().place
    for axis, force in ((0, 10.0), (0, 60.0), (1, 10.0), (1, 60.0)):
        high = np.full(3, 5.0)
        high[axis] = start[axis] + 0.25
        fence = fence_box([-5.0] * 3, high)
        settings = replace(
            Settings.of(panda()), clearance=Clearance.of(shipped_shapes('panda'), fence=fence))
        hand = Hand(settings=settings, foreign=foreign)
        push = force * np.eye(3)[axis]
        free = Hand(foreign=foreign).run(2.0, push)
        hand.run(2.0, push)
        gap = min(near.distance for near in hand.law.limiter.near if near.other == 'fence')
        assert gap > 0.8 * hand.base.clearance.margin
        assert (start + 0.25 - np.array(hand.places))[:, axis].min() > 0.0
        # it slows down before the wall, and does not bounce back
        along = np.array(hand.places)[:, axis]
        assert (np.maximum.accumulate(along) - along).max() < 5e-3
        assert max(hand.speeds) <= 1.1 * max(free.speeds)
        hand.run(1.0)
        assert max(hand.speeds[-100:]) < 0.02


def test_elbow_gives_way_too():
    hand = Hand()
    q = hand.plant.q
    hand.run(1.0, [0.0, 20.0, 0.0], 'panda_link4')
    assert np.abs(hand.plant.q - q).max() > 0.1


@pytest.mark.parametrize('gains', (None, Stiffness()), ids=('acceleration', 'impedance'))
def test_leaving_holds_where_the_hand_let_go_without_a_jolt(gains):
    base = Settings.of(panda(), **({} if gains is None else {'tasks': (Task(gains),)}))
    rates = []
    for leaves in (False, True):
        hand = Hand(settings=base).run(0.8, [0.0, 10.0, 5.0])
        if leaves:
            hand.law.change(base)
        hand.plant.push(PANDA.tip, [0.0, 0.0, 0.0])
        let_go = hand.place.copy()
        hand.run(1.5)
        rates.append(np.abs(np.diff(hand.torques, axis=0))[395:] / PERIOD
                     / panda().effort_limits)
    away = np.linalg.norm(np.array(hand.places[400:]) - let_go, axis=1)
    assert away.max() < 0.005 and away[-1] < 0.004
    assert max(hand.speeds[550:]) < AT_REST and max(hand.speeds[-100:]) < 1e-3
    # the torque changes as that of an arm that stays in free drive, and by the documented rate
    assert rates[1][:5].max() < 0.1 * CHANGE_RATE
    assert rates[1].max() < rates[0].max() + CHANGE_RATE
    hand.law.follow(hand.law.pose)  # goals are accepted again


def test_entering_while_the_arm_moves_has_no_jolt_and_the_arm_stops():
    hand = Hand(drive=None)
    goal = hand.law.pose
    goal[1, 3] += 0.3
    hand.law.follow(goal)
    hand.run(0.5)
    assert hand.speeds[-1] > 0.2
    hand.law.change(FreeDrive().applied_to(hand.base))
    hand.run(1.0)
    rates = np.abs(np.diff(hand.torques, axis=0))[245:] / PERIOD / panda().effort_limits
    assert rates.max() < CHANGE_RATE + 3.0  # 1.6 before, in the motion
    assert hand.speeds[-1] < AT_REST


@pytest.mark.parametrize('locked, force', first_quick((
    ((3,), (30.0, 10.0, 0.0)), ((5,), (10.0, 0.0, 30.0)), ((0, 1, 2), (10.0, 10.0, 10.0)))))
def test_locked_axes_hold_while_the_others_move(locked, force):
    axes = tuple('locked' if k in locked else 'free' for k in range(6))
    hand = Hand(drive=FreeDrive(axes=axes))
    before = hand.law.pose
    hand.run(1.0, force)
    away = np.concatenate([hand.law.error[:3], hand.place - before[:3, 3]])
    assert np.abs(away[list(locked)]).max() < 0.015  # force / (Λ lock²)
    assert np.abs(away).max() > 0.05


def test_walls_of_the_workspace_are_soft_and_hold():
    first = Settings.of(panda()).tasks[0]
    top = Hand().place[2] + 0.1
    box = np.array([[-np.inf] * 3, [np.inf, np.inf, top]])
    base = Settings.of(panda(), tasks=(replace(first, limits=replace(first.limits, box=box)),))
    hand = Hand(settings=base).run(2.5, [0.0, 0.0, 30.0])
    heights = np.array(hand.places)[:, 2]
    assert heights.max() < top and heights[-1] > top - 0.03
    without = Hand().run(1.0, [0.0, 0.0, 30.0])
    assert without.places[-1][2] > top
    # an arm that begins behind the wall is not pushed in
    box = np.array([[-np.inf] * 3, [np.inf, np.inf, top - 0.2]])
    base = Settings.of(panda(), tasks=(replace(first, limits=replace(first.limits, box=box)),))
    behind = Hand(settings=base).run(0.5)
    assert behind.moved().max() < 1e-3
    behind.run(1.0, [0.0, 0.0, 30.0])
    assert behind.places[-1][2] < top - 0.1 + 0.05


@pytest.mark.slow
def test_joints_feel_their_limits_before_they_are_there():
    hand = Hand().run(7.5, [0.0, 0.0, -30.0])
    robot, q = panda(), hand.plant.q
    lower, upper = robot.position_limits.T
    assert ((q > lower) & (q < upper)).all()
    zone = 0.05 * (upper - lower)
    assert ((q < lower + zone) | (q > upper - zone)).any()
    assert hand.speeds[-1] < 0.1


def test_speed_is_bounded():
    slow, fast = (max(Hand(drive=FreeDrive(speed=(speed, speed))).run(
        0.5, [40.0, 0.0, 0.0]).speeds) for speed in (0.3, 10.0))
    assert slow < 0.4 and fast > 0.55


@pytest.mark.slow
def test_friction_is_carried_and_an_overestimate_does_not_run_away():
    friction = Friction(np.full(7, 1.0), ZEROS)
    reach = []
    for known in (None, friction):
        base = replace(Settings.of(panda()), friction=known)
        hand = Hand(foreign=True, friction=1.0, settings=base).run(1.0, [0.0, 10.0, 0.0]).run(0.6)
        reach.append(hand.moved()[499])
        assert max(hand.speeds[650:]) < AT_REST
    assert reach[1] > 1.4 * reach[0] and reach[1] < 0.2
    base = replace(Settings.of(panda()), friction=Friction(np.full(7, 2.0), ZEROS))
    hand = Hand(settings=base).run(0.5, [0.0, 10.0, 0.0]).run(1.5)
    assert max(hand.speeds) < 0.6


@pytest.mark.slow
def test_hand_gets_back_no_more_energy_than_it_gave():
    random = np.random.default_rng(1)
    hand, given, space = Hand(), 0.0, Law(panda()).space
    for _ in range(60):
        force, before = random.uniform(-40.0, 40.0, 3), len(hand.places)
        hand.run(0.05, force)
        path = np.diff(np.array([*hand.places[before:], hand.place]), axis=0)
        given += float((path @ force).sum())
        M = np.linalg.inv(space.evaluate(hand.plant.q, hand.plant.qd).M_inv)
        assert 0.5 * hand.plant.qd @ M @ hand.plant.qd < given + 0.02


def test_commands_are_refused_in_plain_words():
    law = Hand().run(0.01).law
    for command in (lambda: law.follow(law.pose), lambda: law.set_wrench(np.zeros(6)),
                    lambda: law.set_posture(READY),
                    lambda: law.set_impedance(Impedance([1.0] * 6))):
        with pytest.raises(InputError, match='free drive'):
            command()


@pytest.mark.parametrize('given, text', (
    ({'damping': (1.0, -1.0)}, r'free\.damping'), ({'damping': (1.0,)}, r'\(2,\)'),
    ({'speed': (0.0, 1.0)}, r'free\.speed'), ({'rate': np.nan}, r'free\.rate'),
    ({'friction': 1.5}, 'at least 0, at most 1'), ({'depth': 0.0}, r'free\.depth'),
    ({'wall': np.inf}, r'free\.wall'), ({'axes': ('free',) * 5}, 'array of 6'),
    ({'axes': ('motion',) * 6}, 'free, locked')))
def test_wrong_settings_are_refused(given, text):
    with pytest.raises(InputError, match=text):
        FreeDrive(**given)


def standing(name):
    """Return a robot, shipped or foreign, and its plant where it usually begins."""
    if name in FOREIGN:
        robot = robot_of(name)
        plant, q = ForeignPlant(name, robot.joint_names), home(robot)
    else:
        case = Case(urdf(name), *ends(name))
        robot = Robot.from_urdf(case.urdf_text, case.base, case.tip)
        plant = ForeignPlant(case, robot.joint_names)
        q = parameters(name, '/**/osc_simulator')['initial_positions']
    plant.reset(q)
    return robot, plant


def torque_of(plant, force):
    """Return the joint torques (n,) of a force on the tip."""
    J = pin.computeFrameJacobian(plant.model, plant.data, configuration(plant.model, plant.q),
                                 plant.tip, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    return J[:3].T @ force


def fastest_pushed(name, force, rise, begin=0.0, seconds=3.0):
    """
    Return the joint speed, relative to its limit, of a hand's push.

    The push begins when the arm has stood for `begin`, and rises in the time `rise` [s].

    """
    robot, plant = standing(name)
    law = Law(robot, FreeDrive().applied_to(Settings.of(robot)))
    law.hold(plant.q)
    fastest = 0.0
    for k in range(round(seconds / PERIOD)):
        push = torque_of(plant, np.array(force) * min(1.0, max(k * PERIOD - begin, 0.0) / rise))
        plant.step(law.torque(1.0 + k * PERIOD, plant.q, plant.qd), PERIOD, push)
        law.plan()
        fastest = max(fastest, float((np.abs(plant.qd) / plant.velocity).max()))
    return fastest


AHEAD, EACH, RATE = 12, 0.01, 50.0  # steps of a plan, their duration [s]; effort limits per second


def planned_speed(name, force, rise, seconds=0.6):
    """
    Return the joint speed, relative to its limit, that is left by torques planned for the push.

    A linear program every 10 ms knows the model, the state and the push of the next 0.12 s. Within
    the limits of torques and rates it minimizes the largest speed of a joint.

    """
    _, plant = standing(name)
    n, effort, fastest = plant.n, plant.effort, 0.0
    last, k = plant.weight() / effort, np.arange(AHEAD)
    # unknowns: torques of the steps, largest speed of all steps and of each
    sums = np.kron(np.tril(np.ones((AHEAD, AHEAD))), np.eye(n))
    change = np.eye(AHEAD * n) - np.eye(AHEAD * n, k=-n)
    of_each = np.kron(np.eye(AHEAD), np.ones((n, 1)))
    cost = np.concatenate([np.zeros(AHEAD * n), [1.0], np.full(AHEAD, 0.02 / AHEAD)])
    for time in np.arange(0.0, seconds, EACH):
        q = configuration(plant.model, plant.q)
        M = pin.crba(plant.model, plant.data, q)
        response = EACH * np.linalg.inv(np.triu(M) + np.triu(M, 1).T) / plant.velocity[:, None]
        bias = pin.nonLinearEffects(plant.model, plant.data, q, plant.qd).copy()
        pushes = np.minimum(1.0, (time + (k + 0.5) * EACH) / rise)
        free = (plant.qd / plant.velocity + np.cumsum(
            np.outer(pushes, response @ torque_of(plant, force)) - response @ bias,
            axis=0)).ravel()
        moved = sums @ np.kron(np.eye(AHEAD), response * effort)
        first = np.concatenate([last, np.zeros((AHEAD - 1) * n)])
        none, ones = np.zeros((AHEAD * n, AHEAD)), np.ones((AHEAD * n, 1))
        rows, most = [], []
        for sign in (1.0, -1.0):
            rows += [np.hstack([sign * moved, -ones, none]),
                     np.hstack([sign * moved, 0.0 * ones, -of_each]),
                     np.hstack([sign * change, 0.0 * ones, none])]
            most += [-sign * free, -sign * free, sign * first + RATE * EACH]
        found = linprog(cost, np.vstack(rows), np.concatenate(most),
                        bounds=[(-1.0, 1.0)] * AHEAD * n + [(0.0, None)] * (1 + AHEAD))
        last = found.x[:n]
        for part in np.arange(0.0, EACH - 1e-9, PERIOD):
            plant.step(last * effort, PERIOD, torque_of(
                plant, np.array(force) * min(1.0, (time + part) / rise)))
            fastest = max(fastest, float((np.abs(plant.qd) / plant.velocity).max()))
    return fastest


@pytest.mark.parametrize('name', [
    'panda', *(pytest.param(name, marks=pytest.mark.slow) for name in (
        'gen3', 'fr3', 'baxter', 'tiago', 'xarm7'))])
def test_hand_that_overwhelms_a_joint_drives_it_hardly_faster_than_it_must(name):
    for force in 60.0 * np.array(SIX):
        speed = fastest_pushed(name, force, 0.1, seconds=1.0)
        assert speed <= 1.2 or speed <= 1.2 * planned_speed(name, force, 0.1)


@pytest.mark.parametrize(('force', 'rise', 'begin', 'most'), [
    ((0.0, 30.0, 0.0), 0.1, 0.0, 1.2), ((0.0, 30.0, 0.0), 1e-3, 0.02, 1.05),
    # in the first three ticks the law does not know whether torques from before still act
    pytest.param((0.0, 30.0, 0.0), 1e-3, 0.0, 1.4, marks=pytest.mark.slow),
    *(pytest.param(tuple(30.0 * one), rise, begin, 1.2, marks=pytest.mark.slow)
      for one in SIX for rise, begin in ((0.1, 0.0), (1e-3, 0.02)))], ids=str)
def test_light_wrist_that_a_hand_pushes_in_free_drive_keeps_its_speed_limit(
        force, rise, begin, most):
    assert fastest_pushed('gen3', force, rise, begin) <= most


@pytest.mark.parametrize(('axes', 'seconds'), [
    (('free',) * 3 + ('locked',) * 3, 1.0), (('free',) * 5 + ('locked',), 2.0),
    *(pytest.param(axes, 4.0, marks=pytest.mark.slow) for axes in (
        ('free',) * 3 + ('locked',) * 3, ('locked',) * 6))])
def test_axes_that_are_locked_during_free_drive_stay_where_the_hand_has_led_them(axes, seconds):
    hand = Hand(foreign=True).run(seconds, [-5.0, -10.0, 10.0]).run(0.5)
    before = hand.place
    assert np.linalg.norm(before - hand.places[0]) > 0.05
    hand.speeds, first = [], len(hand.torques) - 1
    hand.law.change(FreeDrive(axes=axes).applied_to(hand.base))
    hand.run(1.0)
    np.testing.assert_allclose(hand.place, before, atol=2e-3)
    assert max(hand.speeds) < 0.02
    assert np.abs(np.diff(hand.torques[first:], axis=0) / panda().effort_limits).max() < 0.01


@pytest.mark.parametrize('pushed', ['force', 'spring'])
def test_tip_is_not_thrown_back_when_axes_of_force_or_a_spring_become_motion(pushed):
    usual = Settings.of(panda())
    soft = replace(usual, tasks=(replace(usual.tasks[0], axes=('motion',) * 3 + ('force',) * 3)
                                 if pushed == 'force' else replace(usual.tasks[0], gains=Stiffness(
                                     [20.0] * 3 + [100.0] * 3)),))
    hand = Hand(drive=None, settings=soft, foreign=True).run(0.5, [0.0, 15.0, 0.0])
    start, before = hand.places[0], hand.place
    assert np.linalg.norm(before - start) > 0.03
    first = len(hand.torques) - 1
    hand.law.change(usual)
    hand.run(3.0)
    limits = usual.tasks[0].limits
    assert max(hand.speeds[first + 100:]) < 1.1 * limits.speed[1]
    assert np.abs(np.diff(hand.torques[first:], axis=0) / panda().effort_limits).max() < 0.03
    if pushed == 'spring':  # its goal stays
        np.testing.assert_allclose(hand.place, start, atol=2e-3)
    else:
        assert np.linalg.norm(hand.place - before) < 0.1


def test_terms_of_the_torque_name_the_free_drive():
    hand = Hand().run(0.3, [0.0, 10.0, 0.0])
    terms = hand.law.terms()
    assert np.abs(terms['free_drive']).max() > 1.0
    np.testing.assert_allclose(sum(terms.values()), hand.torques[-1], atol=1e-9)
    assert np.abs(terms['limits']).max() < 1e-6


class TestWatchdogs:
    """An engine in free drive."""

    def engine(self, **watchdogs):
        limits = panda().effort_limits
        sent = []
        engine = Engine(Law(panda()), Supervision(watchdogs, limits), PERIOD,
                        lambda tau, stamp: sent.append(tau), lambda *event: None)
        engine.update(0.0, READY, ZEROS, (0, 0), 0.0)
        engine.activate()
        return engine, sent

    def use(self, engine, settings):
        engine.use_setup(engine.law.new_setup(settings), engine.guard.settings)

    def test_no_target_is_missed_while_a_hand_guides_the_arm_or_after_it(self):
        watched = {STALE_TARGET: Watchdog('hold', timeout=1e-3)}
        for is_free in (False, True):
            engine, _ = self.engine(**watched)
            base = engine.law.settings
            if is_free:
                self.use(engine, FreeDrive().applied_to(base))
                assert requests.status(engine).figures.is_free
                self.use(engine, base)
                assert not requests.status(engine).figures.is_free
            sleep(0.002)
            engine.watch(1.0)
            assert engine.guard.cause == ('' if is_free else STALE_TARGET)

    def test_state_that_is_not_finite_stops_a_guided_arm(self):
        engine, sent = self.engine(not_finite=Watchdog('hold'))
        self.use(engine, FreeDrive().applied_to(engine.law.settings))
        engine.update(0.0, READY, ZEROS, (0, 0), 0.0)
        engine.update(PERIOD, np.full(7, np.nan), ZEROS, (0, 0), 0.0)
        assert engine.guard.reaction == 'hold' and np.isfinite(sent).all()

    def test_activation_in_free_drive_misses_no_target(self):
        engine, _ = self.engine(**{STALE_TARGET: Watchdog('hold', timeout=1e-3)})
        self.use(engine, FreeDrive().applied_to(engine.law.settings))
        engine.activate()
        sleep(0.002)
        engine.watch(1.0)
        assert engine.guard.reaction == ''
