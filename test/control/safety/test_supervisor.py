# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The supervisor: its reactions to faults, checked with MuJoCo and Pinocchio."""

from dataclasses import replace
from functools import cache
import re

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio
import pytest

from arm import Arm, moved, PANDA, PERIOD, READY
from judge import configuration, pinocchio_model, robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.safety.sample import CLOCK_STATES
from osc_ros.control.safety.supervision import (
    DEADLINE,
    DEFAULT_WATCHDOGS,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    REACTIONS,
    STALE_STATE,
    Supervision,
    Watchdog,
)
from osc_ros.control.safety.supervisor import Supervisor
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.errors import InputError
from osc_ros.sim import Plant
from supervised import torque_to_send
from tolerances import GRAVITY_HELD
from variants import first_quick

ROBOT = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
LIMITS = np.array(ROBOT.effort_limits)
FADE = 0.05
STEEPEST = 1.5  # largest rate of a cubic fade, relative to its mean rate
REST = np.zeros(7)


@cache  # not at the import, because it compiles kernels
def model():
    return CommandModel(ROBOT)


class Clock:
    """A clock that the test sets [s]."""

    time = 100.0

    def __call__(self):
        """Return the time [s]."""
        return self.time


def watchdogs(reaction, latched=False):
    """Return a watchdog for every cause, all with the same reaction."""
    return {'told': Watchdog(reaction, latched), JUMP: Watchdog(reaction, latched),
            NOT_FINITE: Watchdog(reaction, latched), DEADLINE: Watchdog(reaction, latched),
            STALE_STATE: Watchdog(reaction, latched, timeout=0.1)}


class Bench:
    """A supervisor of an arm, and the clock that it reads."""

    def __init__(self, reaction='hold', latched=False, **given):
        """Create the supervisor, and pass one joint state to it."""
        self.clock, self.time, self.news = Clock(), 0.0, []
        self.supervisor = Supervisor(
            ROBOT, model(),
            Supervision(watchdogs(reaction, latched), LIMITS, fade_time=FADE, period=PERIOD,
                        deadline=0.01, **given),
            lambda: self.news.append(self.supervisor.reaction), self.clock)
        self.see()

    def see(self, q=READY, qd=REST, after=PERIOD):
        """Advance the clock, and send a state to the supervisor."""
        self.wait(after)
        self.time += after
        self.supervisor.accept_state(self.time, np.array(q), np.array(qd))

    def wait(self, time):
        """Advance the clock."""
        self.clock.time += time

    def settled(self, law):
        """Return the torques after 150 good states."""
        for _ in range(150):
            self.see()
            tau = torque_to_send(self.supervisor, law)
        return tau


def gravity(q):
    """Return the torques that hold the arm at q, by Pinocchio."""
    model, data, _ = pinocchio_model(PANDA.urdf_text, PANDA.base, PANDA.tip, ROBOT.joint_names, {})
    return pinocchio.computeGeneralizedGravity(model, data, configuration(model, q))


def law(tau=0.5 * LIMITS):
    """Return a law that commands the same torques in every call."""
    return lambda: np.array(tau)


def failing():
    """Raise an error in place of a law."""
    raise ZeroDivisionError('nothing to divide by')


def test_torque_of_the_law_is_unchanged_while_no_cause_is_present():
    bench = Bench()
    for share in (0.5, -1.0, 0.3):
        bench.see()
        tau = torque_to_send(bench.supervisor, law(share * LIMITS))
        np.testing.assert_array_equal(tau, share * LIMITS)


def test_states_that_are_rejected_are_not_said_to_be_missing():
    bench, q, qd = Bench(), np.array(READY), np.full(7, 0.5)
    bench.supervisor.settings = replace(bench.supervisor.settings, watchdogs={
        STALE_STATE: Watchdog('hold', timeout=0.1)})
    for _ in range(100):
        q = q + PERIOD * qd
        bench.see(q, qd)
    for _ in range(150):  # the same positions again and again
        bench.see(q, qd)
        bench.supervisor.watch()
    assert bench.supervisor.cause == STALE_STATE
    assert re.match(r'no valid joint states for 0\.2\d+ s \(limit 0\.1 s\): the positions are '
                    'frozen', bench.supervisor.reason)
    for _ in range(100):
        q = q + PERIOD * qd
        bench.see(q, qd)
    bench.wait(0.2)
    bench.supervisor.watch()
    assert bench.supervisor.reason == 'no joint states for 0.200 s (limit 0.1 s)'


@pytest.mark.parametrize('reaction', ['hold', 'comply', 'retract'])
def test_gap_of_the_states_does_not_move_the_pose_that_is_held(reaction):
    bench = Bench(reaction, latched=True, comply_frequency=10.0)
    back, forth = np.array(READY), np.array([0.4, *np.zeros(6)])
    for k in range(150):  # a way to go back, by 0.1 rad
        bench.see(back - (1.0 - k / 149.0) * 0.3 * forth, forth)
    bench.supervisor.report_fault('told', 'a test')
    for _ in range(200):
        bench.see(back)
        torque_to_send(bench.supervisor)
    sagged = back - (0.1 if reaction == 'retract' else 0.0) * np.eye(7)[0]
    sagged[1] += 0.01  # by a load that the model lacks

    def pulled():
        for _ in range(60):
            bench.see(sagged)
            tau = torque_to_send(bench.supervisor)
        return tau

    before = pulled()
    assert np.abs(before - gravity(sagged))[1] > 1.0
    for _ in range(20):
        bench.wait(PERIOD)
        torque_to_send(bench.supervisor)
    assert bench.supervisor.source == 'brake' or bench.supervisor.source == 'weight'
    np.testing.assert_allclose(pulled(), before, atol=1e-6)


def test_limits_that_are_changed_come_into_force_without_a_step():
    bench = Bench()
    sent = [bench.settled(law(0.9 * LIMITS))]
    for share in (0.1, 1.0):
        bench.supervisor.settings = replace(bench.supervisor.settings,
                                            effort_limits=share * LIMITS, blend_time=0.2)
        for _ in range(110):
            bench.see()
            sent.append(torque_to_send(bench.supervisor, law(0.9 * LIMITS)))
        np.testing.assert_allclose(sent[-1], min(share, 0.9) * LIMITS, rtol=1e-12)
    assert (np.abs(np.diff(sent, axis=0)) < 0.02 * LIMITS).all()


@pytest.mark.parametrize('reaction', ['hold', 'damp'])
def test_limits_that_are_changed_while_the_arm_is_braked_come_into_force_without_a_step(reaction):
    bench, q, qd, sent = Bench(reaction), np.array(READY), np.full(7, 1.0), []
    model = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
    space = OperationalSpace(model)
    for k in range(200):
        bench.see(q, qd)
        bench.supervisor.report_fault('told', 'a test')
        if k in (20, 60):
            bench.supervisor.settings = replace(
                bench.supervisor.settings, effort_limits=(0.5 if k == 20 else 1.0) * LIMITS)
        sent.append(torque_to_send(bench.supervisor, law()))
        qdd = space.forward_dynamics(q, qd, sent[-1])
        q, qd = q + PERIOD * qd, qd + PERIOD * qdd
    assert (np.abs(np.diff(sent[5:], axis=0)) < 0.06 * LIMITS).all()


@pytest.mark.parametrize('reaction, torque', [
    ('report', 0.5 * LIMITS), ('hold', gravity(READY)), ('damp', gravity(READY)),
    ('gravity', gravity(READY)), ('zero', REST), ('deactivate', gravity(READY))])
def test_reaction_replaces_the_law_until_the_cause_is_gone(reaction, torque):
    bench = Bench(reaction)
    for _ in range(40):
        bench.see()
        bench.supervisor.report_fault('told', 'for a reason')
        tau = torque_to_send(bench.supervisor, law())
    np.testing.assert_allclose(tau, torque, atol=GRAVITY_HELD)
    assert (bench.supervisor.cause, bench.supervisor.reason) == ('told', 'for a reason')
    assert bench.supervisor.counts['told'] == 1
    if reaction != 'deactivate':
        np.testing.assert_array_equal(bench.settled(law()), 0.5 * LIMITS)
        assert bench.news == [reaction, '']


def test_torque_does_not_step_after_a_reaction_that_was_over_before_a_torque_was_sent():
    bench = Bench(settle_time=0.5 * PERIOD)
    before = bench.settled(law(0.4 * LIMITS))
    bench.supervisor.report_fault('told', 'a test')
    assert bench.supervisor.watch()
    bench.see()
    assert not bench.supervisor.watch()
    sent = [before]
    for _ in range(5):
        bench.see()
        sent.append(torque_to_send(bench.supervisor, law(-0.4 * LIMITS)))
    assert (np.abs(np.diff(sent, axis=0)) <= STEEPEST * 0.8 * PERIOD / FADE * LIMITS).all()


def test_law_goes_on_only_when_the_cause_has_been_gone_for_the_settle_time():
    bench = Bench(settle_time=0.1)
    bench.supervisor.report_fault('told', '')
    bench.see(after=0.09)
    assert bench.supervisor.watch()
    bench.see(after=0.02)
    assert not bench.supervisor.watch()


@pytest.mark.parametrize('reaction, latched', [('gravity', True), ('deactivate', False)])
def test_latched_reaction_stays_until_it_is_released(reaction, latched):
    bench = Bench(reaction, latched)
    bench.supervisor.report_fault('told', '')
    bench.settled(law())
    assert bench.supervisor.watch()
    bench.supervisor.report_fault('told', 'again')
    bench.supervisor.release()
    assert bench.supervisor.watch()
    bench.settled(law())
    bench.supervisor.release()
    assert not bench.supervisor.watch()


@pytest.mark.parametrize('graver, lighter', zip(REACTIONS[1:], REACTIONS))
def test_cause_of_highest_priority_selects_the_reaction(graver, lighter):
    bench = Bench(lighter)
    bench.supervisor.settings = replace(
        bench.supervisor.settings, watchdogs=watchdogs(lighter) | {JUMP: Watchdog(graver)})
    bench.supervisor.report_fault('told', '')
    bench.supervisor.report_fault(JUMP, '')
    bench.supervisor.watch()
    assert (bench.supervisor.cause, bench.supervisor.reaction) == (JUMP, graver)


def test_stale_state_is_answered_by_what_carries_the_arm_where_it_was():
    bench = Bench()
    bench.see()
    torque_to_send(bench.supervisor, law(gravity(READY)))
    bench.wait(0.11)
    assert bench.supervisor.watch() and bench.supervisor.is_stale
    for _ in range(40):
        tau = torque_to_send(bench.supervisor)
        bench.wait(PERIOD)
    np.testing.assert_allclose(tau, gravity(READY), atol=GRAVITY_HELD)
    assert 'no joint states for 0.1' in bench.supervisor.reason


def test_feed_may_be_valid_for_a_given_time():
    bench = Bench()
    bench.supervisor.reset_timeout(STALE_STATE, lasting=5.0)
    bench.wait(5.09)
    assert not bench.supervisor.watch()
    bench.wait(0.02)
    assert bench.supervisor.watch()


@pytest.mark.parametrize('bad', [
    failing, law([np.nan] * 7), law([np.inf] * 7), law([1.0] * 6)])
@pytest.mark.parametrize('reaction', REACTIONS)
def test_law_that_fails_never_reaches_the_joints(bad, reaction):
    bench = Bench(reaction)
    for _ in range(100):
        bench.see()
        tau = torque_to_send(bench.supervisor, bad)
        assert np.isfinite(tau).all()
    assert bench.supervisor.cause == NOT_FINITE
    np.testing.assert_allclose(
        tau, REST if reaction == 'zero' else gravity(READY), atol=GRAVITY_HELD)


@pytest.mark.parametrize('q, qd', [
    ([np.nan, *READY[1:]], REST), (READY, [np.inf] * 7), ([1e200] * 7, [1e200] * 7)])
def test_invalid_state_is_answered_by_torques_within_the_limits(q, qd):
    bench = Bench()
    torque_to_send(bench.supervisor, law())
    bench.see(q, qd)
    tau = torque_to_send(bench.supervisor, law())
    assert (np.abs(tau) <= LIMITS).all()
    assert bench.supervisor.watch()
    np.testing.assert_array_equal(bench.settled(law()), 0.5 * LIMITS)


@pytest.mark.parametrize('factor, trips', [(1.0, False), (1.9, False), (6.0, True)])
def test_jump_is_what_the_velocity_limits_do_not_allow(factor, trips):
    bench = Bench()
    bench.see(READY + factor * PERIOD * ROBOT.velocity_limits)
    assert bench.supervisor.watch() == trips
    assert ("'panda_joint" in bench.supervisor.reason) == trips


@pytest.mark.parametrize('q, qd, after, third', [
    # the positions contradict the second velocity as soon as there are three of them
    (READY + 0.5, REST, PERIOD, False), (READY, REST + 50.0, PERIOD, True)])
def test_implausible_state_is_accepted_only_if_the_next_one_confirms_it(q, qd, after, third):
    bench = Bench()
    believed = []
    for k in range(4):
        believed.append(bench.supervisor.accept_state(
            bench.time + after, np.array(q), np.array(qd)))
        if k == 0:
            assert bench.supervisor.watch()
            np.testing.assert_array_equal(bench.supervisor.q, READY)
            believed.append(bench.supervisor.accept_state(bench.time + PERIOD, READY, REST))
            bench.time += PERIOD
    assert believed == [False, True, third, True, True]
    np.testing.assert_array_equal(bench.supervisor.q, q)


@pytest.mark.parametrize('other', [-50.0, 1e5])
def test_states_of_two_arms_by_turns_hold_the_first_and_a_reset_clock_is_accepted(other):
    bench, rng = Bench(), np.random.default_rng(5)
    for _ in range(300):
        believed = [bench.supervisor.accept_state(bench.time + other, READY + 0.5, REST)
                    for _ in range(rng.integers(1, CLOCK_STATES + 1))]
        assert not any(believed) and bench.supervisor.watch()
        bench.see()
        np.testing.assert_array_equal(bench.supervisor.q, READY)
        assert bench.supervisor.cause == JUMP and (
            'a simulation was reset' in bench.supervisor.reason)
    believed = [bench.supervisor.accept_state(bench.time + other + k * PERIOD, READY + 0.5, REST)
                for k in range(CLOCK_STATES + 3)]
    assert believed == CLOCK_STATES * [False] + 3 * [True]


def torque_of_a_restart(away):
    """Return pose and first torque of an arm whose clock begins again, away from where it was."""
    bench, q = Bench(), READY + away
    for _ in range(5):
        bench.settled(lambda: gravity(READY))
    bench.supervisor.settings = replace(bench.supervisor.settings, watchdogs={
        STALE_STATE: Watchdog('hold', timeout=0.1), JUMP: Watchdog('hold')})
    for _ in range(200):  # the driver has ended
        bench.wait(PERIOD)
        if bench.supervisor.watch():
            before = torque_to_send(bench.supervisor, law())
    believed = [bench.supervisor.accept_state(k * PERIOD, q, REST)
                for k in range(CLOCK_STATES + 1)]
    assert believed == CLOCK_STATES * [False] + [True]
    bench.supervisor.watch()
    np.testing.assert_allclose(before, gravity(READY), atol=0.1)
    return q, torque_to_send(bench.supervisor, law())


def test_arm_that_is_started_again_elsewhere_gets_the_torque_for_where_it_is_at_once():
    q, tau = torque_of_a_restart(np.array([0.0, 0.6, 0.0, -0.4, 0.0, 0.5, 0.0]))
    assert np.abs(gravity(q) - gravity(READY)).max() > 5.0
    np.testing.assert_allclose(tau, gravity(q), atol=0.1)


def test_arm_that_is_where_it_was_when_its_clock_is_set_back_gets_no_step_of_its_torque():
    _, tau = torque_of_a_restart(np.full(7, 0.01))
    np.testing.assert_allclose(tau, gravity(READY), atol=0.3)


def test_state_that_comes_late_is_of_no_use_and_no_cause():
    bench = Bench()
    bench.see()
    assert not bench.supervisor.accept_state(bench.time - PERIOD, READY + 0.001, REST)
    assert not bench.supervisor.watch()
    np.testing.assert_array_equal(bench.supervisor.q, READY)


def test_turn_of_a_continuous_joint_is_no_jump():
    urdf = PANDA.urdf_text.replace('name="panda_joint7" type="revolute"',
                                   'name="panda_joint7" type="continuous"')
    robot = Robot.from_urdf(urdf, PANDA.base, PANDA.tip)
    assert not np.isfinite(robot.position_limits[6]).any()
    supervisor = Supervisor(robot, model(), Supervision(watchdogs('hold'), LIMITS))
    supervisor.accept_state(0.0, np.array([*READY[:6], np.pi - 1e-3]), REST)
    supervisor.accept_state(0.002, np.array([*READY[:6], 1e-3 - np.pi]), REST)
    assert not supervisor.watch()


def test_update_that_takes_too_long_has_missed_its_deadline():
    bench = Bench()

    def slow():
        bench.wait(0.011)
        return REST

    torque_to_send(bench.supervisor, slow)
    assert bench.supervisor.cause == DEADLINE
    assert bench.supervisor.reason == 'an update took 0.0110 s'


@pytest.mark.parametrize('other', ('velocity', 'contact', 'too_near', 'stale_target'))
def test_missed_deadlines_hide_no_other_cause_that_is_only_reported(other):
    bench = Bench()
    bench.supervisor.settings = Supervision(
        DEFAULT_WATCHDOGS, LIMITS, fade_time=FADE, period=PERIOD)
    for cause, reason in ((DEADLINE, 'late'), (other, 'of interest'), (DEADLINE, 'late')):
        bench.supervisor.report_fault(cause, reason)
    bench.supervisor.watch()
    assert (bench.supervisor.cause, bench.supervisor.reason) == (other, 'of interest')


@pytest.mark.parametrize('bad, message', [
    (lambda: Watchdog('panic'), "'panic': (give|must be).*report, comply"),
    (lambda: Watchdog('hold', timeout=0.0), '0.0 s: (give|must be).* 0'),
    (lambda: Supervision({}, LIMITS, stop_rate=0.0), 'stop_rate 0.0: (give|must be).* 0'),
])
def test_bad_settings_are_refused_by_message(bad, message):
    with pytest.raises(InputError, match=message):
        bad()


acts = st.lists(st.tuples(
    st.sampled_from(['see', 'see', 'see', 'unanswered', 'jump', 'silence', 'told', 'fail', 'feed',
                     'release', 'hold', 'gravity', 'zero', 'damp', 'deactivate', 'report']),
    st.floats(-1.0, 1.0)), max_size=60)


@settings(max_examples=60, deadline=None)
@given(acts, st.sampled_from([0.5 * PERIOD, 0.1]))
def test_torque_is_without_a_step_whatever_happens_to_an_arm_that_stands(happens, settle_time):
    bench, wanted = Bench(settle_time=settle_time), 0.5 * LIMITS
    last = torque_to_send(bench.supervisor, law())
    for act, share in happens:
        if bench.supervisor.watch():
            wanted = share * LIMITS  # as of another controller, which a relay goes over to
        asked = law(wanted)
        if act == 'told':
            bench.supervisor.report_fault('told', '')
        elif act == 'jump':
            bench.see(READY + 0.1)
        elif act == 'fail':
            asked = failing
        elif act == 'feed':
            bench.supervisor.reset_timeout(STALE_STATE)
        elif act == 'release':
            bench.supervisor.release()
        elif act in REACTIONS:
            bench.supervisor.settings = replace(
                bench.supervisor.settings, watchdogs=watchdogs(act, share > 0.5))
        bench.wait(0.2 if act == 'silence' else 0.0)
        if act != 'silence':
            bench.see()
        if act == 'unanswered':
            continue
        tau = torque_to_send(bench.supervisor, asked)
        assert (np.abs(tau) <= LIMITS).all()
        assert (np.abs(tau - last) <= STEEPEST * PERIOD / FADE * 2.0 * LIMITS).all(), act
        last = tau


@pytest.mark.parametrize('reaction', ['hold', 'damp', 'deactivate'])
def test_arm_at_full_speed_rests_within_a_second_and_within_its_limits(reaction):
    rng = np.random.default_rng(7)
    lower, upper = ROBOT.position_limits.T
    plant = Plant(PANDA.urdf_text, PANDA.base, ROBOT.joint_names, friction=REST, damping=REST)
    for _ in range(12):
        fastest = rng.choice(7)
        qd = rng.uniform(-0.5, 0.5, 7) * ROBOT.velocity_limits
        qd[fastest] = rng.choice([-1.0, 1.0]) * ROBOT.velocity_limits[fastest]
        q = rng.uniform(*(lower + 0.25 * (upper - lower), upper - 0.25 * (upper - lower)))
        plant.reset(q, qd)
        bench = Bench(reaction, latched=True)
        bench.supervisor.begin(np.clip(model().torque(q, qd, REST), -LIMITS, LIMITS))
        bench.supervisor.report_fault('told', '')
        while plant.time < 1.0:
            bench.wait(PERIOD)
            bench.supervisor.accept_state(plant.time, plant.q, plant.qd)
            tau = torque_to_send(bench.supervisor, law())
            assert (np.abs(tau) <= LIMITS).all()
            assert ((plant.q > lower) & (plant.q < upper)).all()
            plant.step(tau, 2)
        assert np.abs(plant.qd).max() < 0.01, (q, qd)
    assert bench.supervisor.is_finished == (reaction == 'deactivate')


@pytest.mark.parametrize('killed', [0.1, 0.2, 0.35, 0.5])
def test_arm_left_with_its_last_torque_for_50_ms_rests_within_a_second(killed, drawn):
    arm, clock = Arm(), Clock()
    supervisor = Supervisor(ROBOT, model(), Supervision(
        {'silence': Watchdog('hold', timeout=0.05)}, LIMITS, period=PERIOD), clock=clock)
    arm.law.follow(PoseGoal(moved(arm.pose, (0.0, 0.5, -0.2))), 0.0)
    supervisor.reset_timeout('silence')
    times, speeds, torques = [], [], []
    while arm.plant.time < killed + 1.2:
        time, q, qd = arm.plant.time, arm.plant.q, arm.plant.qd
        clock.time += PERIOD
        supervisor.accept_state(time, q, qd)
        if time < killed:
            supervisor.reset_timeout('silence')
            tau = arm.law.torque(time, q, qd)
        if time < killed or supervisor.watch():
            tau = torque_to_send(supervisor, lambda tau=tau: tau)
        assert ((q > ROBOT.position_limits[:, 0]) & (q < ROBOT.position_limits[:, 1])).all()
        times.append(time)
        speeds.append(qd)
        torques.append(tau)
        arm.plant.step(tau, 2)
    speeds, torques, after = np.array(speeds), np.array(torques), np.array(times) >= killed
    assert np.abs(speeds[after][0]).max() > 1.5
    assert np.abs(speeds[np.array(times) >= killed + 1.0]).max() < 0.01
    steps = np.abs(np.diff(torques[after], axis=0)) / LIMITS
    assert steps.max() < STEEPEST * PERIOD / FADE
    if killed == 0.35:
        names = [f'joint {i + 1}' for i in range(7)]
        drawn('relay', 'The controller is killed while the arm moves: osc_relay stops the arm',
              times, {
                  'joint speed [rad/s]': dict(zip(names, speeds.T)),
                  'joint torque [% of limit]': dict(zip(names, (100 * torques / LIMITS).T))},
              {killed: 'controller killed'})


def at_speed(share):
    """Return joint velocities: joint 1 at this share of its limit, the others at rest."""
    return np.array([share * ROBOT.velocity_limits[0], *REST[1:]])


def braking(**given):
    """Return a bench whose only watchdog is the one for overspeed."""
    bench = Bench(**given)
    bench.supervisor.settings = replace(bench.supervisor.settings,
                                        watchdogs={OVERSPEED: Watchdog('hold')})
    bench.supervisor.begin()
    bench.see()
    return bench


def test_one_fast_state_that_comes_twice_is_not_two_fast_states():
    bench = braking()
    bench.see(qd=at_speed(1.3))
    for _ in range(3):  # as at the activation of an arm, or in a simulation that waits
        bench.supervisor.accept_state(bench.time, READY, at_speed(1.3))
    assert not bench.supervisor.watch()
    bench.see(qd=at_speed(1.3))
    assert bench.supervisor.watch() and bench.supervisor.cause == OVERSPEED


def test_joint_beyond_its_speed_limit_is_braked():
    for shares, brakes in (([1.15] * 20, False), ([1.3, 1.0, 1.3, 1.0], False), ([1.3] * 2, True),
                           ([1.6], True)):
        bench = braking()
        for share in shares:
            bench.see(qd=at_speed(share))
        assert bench.supervisor.watch() is brakes
        tau = torque_to_send(bench.supervisor, law())
        assert (bench.supervisor.cause == OVERSPEED) is brakes
        if brakes:
            assert "'panda_joint1' moves at" in bench.supervisor.reason
            for _ in range(40):
                bench.see(qd=at_speed(shares[-1]))
                tau = torque_to_send(bench.supervisor, law())
            assert tau[0] < model().torque(READY, at_speed(shares[-1]), REST)[0]


def test_speed_limit_that_is_lowered_on_the_way_gives_the_arm_time_to_slow_down():
    bench = braking()
    lower = 0.5 * np.array(ROBOT.velocity_limits)
    for _ in range(10):
        bench.see(qd=at_speed(0.9))
    bench.supervisor.settings = replace(bench.supervisor.settings, velocity_limits=lower)
    for k in range(150):
        bench.see(qd=at_speed(0.5 + 0.4 * np.exp(-PERIOD * k / 0.1)))
        assert not bench.supervisor.watch()
    for _ in range(400):
        bench.see(qd=at_speed(0.5))
    assert not bench.supervisor.watch()
    for _ in range(2):
        bench.see(qd=at_speed(0.8))
    assert bench.supervisor.watch()


@pytest.mark.parametrize('seed', range(6))
def test_no_torque_changes_faster_than_its_rate_whatever_the_law_gives_and_whatever_fails(seed):
    rates, rng = 50.0 * LIMITS, np.random.default_rng(seed)
    bench = Bench(str(rng.choice(REACTIONS[1:-1])), settle_time=0.02, effort_rates=rates)
    sent, times = [torque_to_send(bench.supervisor, law(0.0 * LIMITS))], [bench.clock.time]
    for _ in range(400):
        what = rng.integers(8)
        if what == 0:
            bench.supervisor.report_fault('told', 'a test')
        if what == 1:
            bench.wait(float(rng.choice([PERIOD, 0.03, 0.3])))
            tau = torque_to_send(bench.supervisor)
        else:
            bench.see(READY + rng.uniform(-1e-3, 1e-3, 7), rng.uniform(-0.2, 0.2, 7))
            wild = rng.choice([1.0, -1.0, 1e6, np.nan], 7, p=[0.45, 0.45, 0.09, 0.01]) * LIMITS
            tau = torque_to_send(bench.supervisor, law(wild))
        sent.append(tau)
        times.append(bench.clock.time)
    assert np.isfinite(sent).all() and (np.abs(sent) <= LIMITS).all()
    allowed = np.minimum(np.diff(times), 0.1)[:, None] * rates
    assert (np.abs(np.diff(sent, axis=0)) <= allowed * (1.0 + 1e-9) + 1e-9).all()
    assert np.abs(sent).max() > 0.1 * LIMITS.max()


def test_arm_that_is_far_too_fast_is_seen_and_braked_and_not_taken_for_one_that_jumps():
    bench = Bench('hold')
    speed, q = 4.0 * np.array(ROBOT.velocity_limits), np.array(READY)
    for _ in range(20):
        q = q + PERIOD * speed
        bench.see(q, speed)
        torque_to_send(bench.supervisor, law())
    np.testing.assert_array_equal(bench.supervisor.q, q)
    assert bench.supervisor.reaction == 'hold' and not bench.supervisor.is_stale


@pytest.mark.parametrize('name', first_quick(['ur5', 'panda', 'xarm7']))
def test_torques_that_brake_are_continuous_in_the_speed_of_the_arm(name):
    """Where Coriolis torques reached a limit, they jumped by 1.1 of a limit."""
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=dict(case.locked))
    guard = Supervisor(robot, CommandModel(robot), Supervision(
        {'x': Watchdog('damp', latched=True)}, robot.effort_limits), clock=lambda: 5.0)
    for seed in range(4):
        rng, torques = np.random.default_rng(seed), []
        q = rng.uniform(*np.clip(robot.position_limits.T, -2.0, 2.0))
        direction = rng.choice([-1.0, 1.0], robot.n) * rng.uniform(0.3, 1.0, robot.n)
        for speed in np.arange(0.5, 6.0, 0.005):
            guard.begin()
            guard.accept_state(1.0, q, speed * direction * robot.velocity_limits)
            guard.report_fault('x', '')
            torques.append(torque_to_send(guard) / robot.effort_limits)
        assert np.abs(np.diff(torques, axis=0)).max() < 0.3
