# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Simulated arms whose joint states or velocities are missing or garbled."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from arm import moved
from blind import Sensed
from judge import robot_cases
from osc_ros import Robot
from osc_ros.compile.compiled import kernel, plain
from osc_ros.control.data import D, M
from osc_ros.control.safety.stopping import forget_directions, predict
from osc_ros.control.safety.supervision import JUMP
from osc_ros.control.safety.velocity_check import LEAST, WINDOW
from osc_ros.control.setpoint.trajectory import figure_of_eight, PoseGoal
from osc_ros.errors import InputError
from osc_ros.loop.velocity import find_velocity, REPEATED, VelocitySource
from variants import first_quick

AWAY = {'panda': (0.0, 0.6, -0.2), 'xarm7': (-0.1, 0.6, 0.1), 'kinova': (0.0, 0.3, 0.1)}
NOTICED = 0.01  # longest time until a gap is detected, at 500 Hz [s]
STOP_RATE = 10.0


class Source:
    """`VelocitySource` of the nodes; the sensor sends velocities only while `sends(time)`."""

    def __init__(self, robot, mode='auto', sends=lambda time: True):
        self.source, self.sends, self.used = VelocitySource(robot, mode), sends, []

    def read(self, time, q, qd):
        """Return the velocities for a state."""
        found = self.source.velocity(time, q, qd if self.sends(time) else None, 'none')
        self.used.append(self.source.used)
        return found

BEGINS = {'panda': 0.5, 'xarm7': 0.2, 'kinova': 0.5}  # start of the gap, in fast motion [s]


def fast(name, begin, gap, after=0.3, **given):
    """Run an arm in fast motion, without states for `gap` from `begin` on [s]; return it."""
    arm = Sensed(name, **given)
    arm.law.follow(PoseGoal(moved(arm.tip(), AWAY[name])), 0.0)
    return arm.run(begin + gap + after, lambda t: not begin - 1e-6 <= t < begin + gap - 1e-6)


def eight(name, mode='auto', sends=lambda time: True, until=1.4, **given):
    """Run an arm along a figure of eight; return it and its distances from the path [mm]."""
    arm = Sensed(name, **given)
    arm.source = Source(arm.robot, mode, sends)
    size = 0.05 if name == 'kinova' else 0.3
    path = figure_of_eight(arm.tip(), size, 0.5 * size, 2.0, 1.0, 0.2)
    arm.law.follow(path, 0.0)
    arm.run(until)
    return arm, 1e3 * arm.errors(path)


@pytest.mark.parametrize('gap', first_quick([0.05, 0.3, 0.02, 0.1], 2))
@pytest.mark.parametrize('name', first_quick(['panda', 'kinova', 'xarm7'], 2))
def test_arm_in_fast_motion_whose_states_stop_is_braked_without_a_step(name, gap):
    begin = BEGINS[name]
    arm = fast(name, begin, gap)
    before = arm.speeds(begin - 0.004, begin).max()
    assert before > 0.8
    assert arm.speeds(begin, begin + gap).max() < max(before + 0.02, 1.0)
    speed = arm.travelled(begin - 0.002, begin) / 0.002
    # at most the earlier speed until the gap is detected and the brake acts, then an exponential
    # decay
    farthest = speed * (min(gap, NOTICED + 0.5 * 0.05 + 0.01) + 1.0 / STOP_RATE)
    assert arm.travelled(begin, begin + gap) < farthest
    if gap >= 0.3:
        assert arm.speeds(begin + gap - 0.004, begin + gap).max() < 0.4 * before
    assert arm.steps(begin, begin + gap + 0.1) < 0.05
    assert arm.speeds(begin + gap).max() < 1.02


class Frozen:
    """A driver that sends its last positions, with new stamps, for a while."""

    def __init__(self, begin, end, rests):
        self.begin, self.end, self.rests, self.last = begin, end, rests, None

    def read(self, time, q, qd):
        """Return the velocities for a state; may overwrite its positions `q` with older ones."""
        if self.last is not None and self.begin - 1e-6 <= time < self.end - 1e-6:
            q[:] = self.last[0]
            return 0.0 * qd if self.rests else self.last[1].copy()
        self.last = q.copy(), qd.copy()
        return qd


@pytest.mark.parametrize('rests', [False, True])
@pytest.mark.parametrize('name', first_quick(['kinova', 'panda', 'xarm7']))
def test_driver_whose_positions_freeze_in_motion_does_not_drive_the_arm_away(name, rests):
    begin, gap = BEGINS[name], 0.3
    arm = Sensed(name, source=Frozen(begin, begin + gap, rests))
    arm.law.follow(PoseGoal(moved(arm.tip(), AWAY[name])), 0.0)
    arm.run(begin + gap + 1.0)
    # without the brake, xarm7 reached 78 rad/s
    assert 'brake' in arm.sources and JUMP in arm.causes
    # kinova's light wrist (1.6e-4 kg m², limit 0.84 rad/s) gets fast by few ticks with a wrong
    # velocity
    assert arm.speeds(begin).max() < (1.6 if name == 'kinova' else 1.1)
    assert arm.steps(begin) < 0.1


# From 0.6 s on, the torque of the payload acts along the motion of joint 2, as friction would.
BEGINNINGS = pytest.mark.parametrize('begin, fastest', [(0.8, 0.9), (0.6, 0.75)])
# A driver that reports rest makes the law accelerate the arm until that is noticed; if the payload
# were known from then on, the tip would travel 0.059 m.
TRAVEL = {(0.6, True): 0.075}  # [m]; otherwise 0.06 m


@pytest.mark.parametrize('rests', [False, True])
@BEGINNINGS
def test_unknown_payload_does_not_fall_while_positions_are_frozen(rests, begin, fastest):
    gap = 0.3
    arm = Sensed('xarm7', payload=2.0, source=Frozen(begin, begin + gap, rests))
    path = figure_of_eight(arm.tip(), 0.1, 0.05, 2.0, 1.0, 0.2)
    arm.law.follow(path, 0.0)
    arm.run(begin + gap)
    assert arm.speeds(begin).max() < fastest
    assert arm.travelled(begin, begin + gap) < TRAVEL.get((begin, rests), 0.06)


def flickered(bits, rate):
    """Return a supervisor of a Panda at rest, one of whose encoder counts has just changed."""
    arm = Sensed('panda', rate=rate)
    q, count = np.array(arm.q_start), 2.0 * np.pi / 2**bits
    guard, period = arm.guard, 1.0 / rate
    for k in range(round(0.2 * rate)):
        assert guard.accept_state(k * period, q, 0.0 * q)
    q, qd = q.copy(), 0.0 * q
    q[3], qd[3] = q[3] + count, count / period
    assert guard.accept_state(0.2, q, qd)
    return guard, q


@pytest.mark.parametrize('rate', [500.0, 1000.0])
@pytest.mark.parametrize('bits', first_quick([11, 16, 12, 14, 17, 20], 2))
def test_encoder_count_that_changes_at_rest_is_not_taken_for_a_motion(bits, rate):
    # a driver that differentiates reports count / period for one state, and then 0
    guard, q = flickered(bits, rate)
    for k in range(1, round(rate)):
        assert guard.accept_state(0.2 + k / rate, q, 0.0 * q), k
    assert not guard.watch()  # updates the cause
    assert not guard.cause


@pytest.mark.parametrize('counts', first_quick([2**11, 2**16, 2**12, 2**14], 2))
def test_arm_with_coarse_encoders_and_differentiated_velocities_comes_to_rest(counts):
    arm = Sensed('panda', friction=1.0, counts=counts, differentiates=True)
    arm.law.follow(PoseGoal(moved(arm.tip(), (0.0, 0.1, 0.05))), 0.0)
    arm.run(3.0)
    assert set(arm.sources) == {'law'}


def test_arm_that_was_stopped_abruptly_is_believed_after_a_release():
    arm, period = Sensed('panda'), 0.002
    guard, start, qd = arm.guard, np.array(arm.q_start), np.full(7, 0.5)
    for k in range(100):
        assert guard.accept_state(k * period, start + k * period * qd, qd)
    q, rest = start + 99 * period * qd, np.zeros(7)
    accepted = [guard.accept_state((100 + k) * period, q, rest) for k in range(100)]
    assert not any(accepted[10:])
    assert guard.watch() and guard.cause == JUMP and 'frozen' in guard.reason
    guard.release()
    assert all(guard.accept_state((200 + k) * period, q, rest) for k in range(100))
    for k in range(300, 330):  # it moves again, and then its positions freeze
        q = q + period * qd
        assert guard.accept_state(k * period, q, qd)
    assert not [guard.accept_state(k * period, q, qd) for k in range(330, 430)][-1]


def test_positions_that_stay_the_same_at_rest_or_come_to_rest_are_not_frozen():
    arm = Sensed('panda', friction=1.0, counts=4096)  # coarse encoders
    arm.law.follow(PoseGoal(moved(arm.tip(), (0.0, 0.1, 0.05))), 0.0)
    arm.run(3.0)
    assert set(arm.causes) == {''}
    still = np.diff(np.array([arm.q[-200], arm.q[-1]]), axis=0)
    assert np.abs(still).max() < 1e-3


def test_arm_with_friction_stays_where_it_was_stopped_for_a_second_without_states():
    begin, gap = 0.3, 1.0
    arm = fast('panda', begin, gap, friction=0.5)
    assert arm.speeds(begin, begin + gap).max() < 1.0
    assert arm.speeds(begin + 0.6, begin + gap).max() < 0.05
    assert arm.steps(begin, begin + gap + 0.1) < 0.05


GEARS = 0.03  # dry friction of gears, relative to the effort limits


@pytest.mark.parametrize('has_relay', [False, True])
@pytest.mark.parametrize('seed', first_quick([58, 1]))
def test_arm_whose_gears_rub_rests_after_a_second_without_states_that_began_in_motion(
        seed, has_relay):
    # seed 58: the arm that was predicted without joints that stick reached 6 times its speed limit
    rng, arm = np.random.default_rng(seed), Sensed('xarm7', has_relay=has_relay)
    home, time = arm.tip(), 0.0
    for least, most in ((0.1, 0.6), (0.1, 0.6), (0.15, 0.3)):
        goal = moved(home, rng.uniform(-0.3, 0.3, 3))
        turn = Rotation.from_rotvec(rng.uniform(-1.0, 1.0, 3)).as_matrix()
        goal[:3, :3] = turn @ goal[:3, :3]
        if (least, most) == (0.15, 0.3):
            arm.plant.friction = GEARS * arm.limits.effort
        arm.law.follow(PoseGoal(goal), time)
        time += rng.uniform(least, most)
        arm.run(time)
    arm.run(time + 1.0, lambda now: now < time - 1e-6)
    assert arm.speeds(time - 0.004, time).max() > 0.15
    assert arm.speeds(time).max() < 0.6
    assert arm.speeds(time + 0.6).max() < 0.01
    assert arm.steps(time) < 0.05


def predicted(seed, all_at_once):
    """Return the errors of a prediction [rad], and how far the joints have moved meanwhile."""
    rng, arm = np.random.default_rng(seed), Sensed('xarm7')
    plant, robot = arm.plant, arm.robot
    plant.friction = GEARS * arm.limits.effort
    m, d = M.new(n=robot.n), D.new(n=robot.n)
    m.fastest[:], m.effort_limits[:] = robot.velocity_limits, arm.limits.effort
    m.lower[:], m.upper[:] = robot.position_limits.T
    moving = np.where(np.arange(robot.n) < 4, rng.choice([0.0, 1.0], robot.n), 0.0) * rng.uniform(
        -2.0, 2.0, robot.n)
    for k in range(24):  # only the joints that move overcome their friction
        tau = arm.law.inverse_dynamics(plant.q, plant.qd, moving)
        tau += np.sign(moving) * plant.friction
        d.answer_times[k], d.answer_q[k], d.answer_qd[k] = 0.002 * k, plant.q, plant.qd
        d.answer_tau[k] = tau
        plant.step(tau, 0.002)
    d.answers = d.answers_kept = 24
    d.log_count, d.log_tau[0] = 1, tau
    plain(forget_directions)(d)
    begun, now, shoulder = plant.q.copy(), 0.048, np.arange(robot.n) < 4
    d.came, d.q[:], d.qd[:] = now, plant.q, plant.qd
    d.model = arm.law.command_model.record
    predicted_at(m, d, now)
    for k in range(1, 76):
        tau = tau + 0.003 * rng.uniform(-1.0, 1.0, robot.n) * shoulder * arm.limits.effort
        d.log_times[k], d.log_tau[k], d.log_count = now, tau, k + 1
        plant.step(tau, 0.002)
        now += 0.002
        if not all_at_once:
            predicted_at(m, d, now)
    predicted_at(m, d, now)
    return np.abs(d.predicted_q - plant.q), np.abs(plant.q - begun)


@kernel
def predicted_at(m, d, now):
    """Advance the prediction to a time [s]."""
    predict(m, d, now)


@pytest.mark.parametrize('all_at_once', [False, True])
def test_predicted_motion_of_joints_that_rub_and_stick_is_that_of_the_plant(all_at_once):
    for seed in range(6):
        errors, moved_by = predicted(seed, all_at_once)
        assert moved_by.max() > 5e-3, seed
        assert errors.max() < 0.02 * moved_by.max() + 2e-4, seed


@pytest.mark.parametrize('gap', [0.002, 0.004, 0.006])
def test_state_that_is_one_to_three_periods_late_changes_nothing(gap):
    arm = fast('xarm7', 0.15, gap, after=0.1)
    assert 'brake' not in arm.sources
    assert set(arm.causes) == {''}
    # after a gap of three periods, one step may have the torque change of four periods
    assert arm.steps(0.15, 0.25) < 0.04


def test_driver_slower_than_it_was_said_to_be_is_not_braked_at_every_state():
    arm = Sensed('panda')
    arm.law.follow(PoseGoal(moved(arm.tip(), (0.0, 0.1, 0.0))), 0.0)
    arm.run(0.5, lambda t: round(t / arm.period) % 5 == 0)
    assert arm.sources.count('brake') < 10


@BEGINNINGS
def test_unknown_payload_does_not_fall_while_no_states_come(begin, fastest):
    gap = 0.3
    arm = Sensed('xarm7', payload=2.0)
    path = figure_of_eight(arm.tip(), 0.1, 0.05, 2.0, 1.0, 0.2)
    arm.law.follow(path, 0.0)
    arm.run(begin + gap + 0.3, lambda t: not begin - 1e-6 <= t < begin + gap - 1e-6)
    assert arm.speeds(begin, begin + gap).max() < fastest
    assert arm.travelled(begin, begin + gap) < 0.06
    assert arm.steps(begin) < 0.05


@pytest.mark.parametrize('name, rate, counts', first_quick([
    ('xarm7', 500.0, 2**14), ('kinova', 1000.0, 2**16), ('xarm7', 1000.0, 2**16),
    ('kinova', 500.0, 2**14), ('panda', 500.0, 2**16)], 2))
def test_driver_that_sends_no_velocities_follows_nearly_as_well(name, rate, counts):
    _, measured = eight(name, 'measured', rate=rate, counts=counts)
    arm, estimated = eight(name, sends=lambda time: False, rate=rate, counts=counts)
    assert set(arm.source.used[LEAST:]) == {'estimated'}
    assert estimated[50:].max() < 1.5 * measured[50:].max() + 0.1
    assert arm.steps(0.1) < 0.06


def test_velocities_that_are_missing_for_a_second_change_nothing_to_speak_of():
    arm, errors = eight('xarm7', sends=lambda time: not 0.4 <= time < 1.4, until=1.8)
    assert {'measured', 'estimated'} == set(arm.source.used)
    assert errors[50:].max() < 0.3
    assert arm.steps() < 0.02
    assert set(arm.causes) == {''}


KINOVA = robot_cases()['kinova']
# it has continuous joints; not of a Sensed, whose law compiles kernels at the import
ROBOT = Robot.from_urdf(KINOVA.urdf_text, KINOVA.base, KINOVA.tip, locked=KINOVA.locked)


@pytest.mark.parametrize('jitter', [0.0, 0.4])
def test_velocity_of_a_constant_acceleration_is_exact_whatever_the_stamps(jitter):
    rng, source = np.random.default_rng(3), VelocitySource(ROBOT, 'estimated')
    times = 5.0 + 0.002 * (np.arange(60) + jitter * rng.uniform(-1.0, 1.0, 60))
    for time in times:
        q = (3.0 + 0.4 * time + 0.1 * time ** 2) * np.ones(6)
        q[0] = (q[0] + np.pi) % (2.0 * np.pi) - np.pi  # wraps from π to -π
        found = source.velocity(time, q, None), source.velocity(time, q, None)
        np.testing.assert_array_equal(*found)  # the same state again
    np.testing.assert_allclose(found[0], 0.4 + 0.2 * times[-1], rtol=1e-6)


def test_spike_and_gap_leave_no_trace_in_the_velocity():
    source = VelocitySource(ROBOT, 'estimated')
    for k in range(40):
        q = np.full(6, 0.5 * 0.002 * k + (0.7 if k == 35 else 0.0))
        found = source.velocity(0.002 * k, q, None)
        if k > 35:
            np.testing.assert_allclose(found, 0.5, rtol=1e-6)
    assert [source.velocity(0.5 + 0.002 * k, np.zeros(6), None) for k in range(LEAST - 1)] == [
        None] * (LEAST - 1)
    np.testing.assert_allclose(source.velocity(0.5 + 0.002 * LEAST, np.zeros(6), None), 0.0,
                               atol=1e-12)


def test_spike_in_coarse_positions_leaves_no_trace_in_the_velocity():
    step, found = np.radians(0.1), [[], []]
    for spike, to in zip((0.0, 0.7), found):
        source = VelocitySource(ROBOT, 'estimated')
        for k in range(150):
            q = np.full(6, step * np.round(0.25 * 0.002 * k / step))
            q[2] += spike if k == 120 else 0.0
            velocity = source.velocity(0.002 * k, q, None)
            if k > 120:
                to.append(velocity)
    assert np.abs(np.array(found[0]) - 0.25).max() < 0.05
    assert np.abs(np.array(found[0]) - np.array(found[1])).max() < 0.02


def test_noise_of_the_velocity_is_as_stated():
    rng, source, found = np.random.default_rng(0), VelocitySource(ROBOT, 'estimated'), []
    for k in range(400):
        found.append(source.velocity(0.002 * k, 1e-4 * rng.standard_normal(6), None))
    noise = np.std(np.array(found[30:]))
    assert noise < 1.3 * 14.0 * 1e-4 / (WINDOW * np.sqrt(WINDOW / 0.002 + 1))


def test_stamps_that_stand_still_are_refused_by_message():
    source = VelocitySource(ROBOT)
    with pytest.raises(InputError, match=r'stamp.*0\.000 s'):
        for k in range(REPEATED + 2):
            source.velocity(0.0, np.full(6, 1e-4 * k), None)


@pytest.mark.parametrize('seed', first_quick(range(20), 5))
def test_velocity_is_that_of_the_best_parabola(seed):
    rng, source = np.random.default_rng(seed), VelocitySource(ROBOT, 'estimated')
    times = np.cumsum(rng.uniform(0.0005, 0.01, 30))
    q = 5e-5 * rng.standard_normal((30, 6)) + np.outer(times, rng.uniform(-1.0, 1.0, 6))
    for k, (time, one) in enumerate(zip(times, q)):
        found = source.velocity(time, one, None)
        if k >= LEAST - 1:
            first = min(np.searchsorted(times, time - WINDOW), k + 1 - LEAST)
            fit = np.polynomial.polynomial.polyfit(times[first:k + 1] - time, q[first:k + 1], 2)
            np.testing.assert_allclose(found, fit[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize('mode', ['auto', 'estimated', 'measured'])
def test_another_call_for_a_state_gives_the_same_velocity(mode):
    """Compiled code leaves a state at which the source changes to Python, which asks again."""
    rng = np.random.default_rng(5)
    once, again = VelocitySource(ROBOT, mode), VelocitySource(ROBOT, mode)
    kinds = np.repeat(rng.integers(3, size=20), 20) if mode != 'measured' else np.full(400, 2)
    for k, kind in enumerate(kinds):
        q = np.full(6, 0.5 * 0.002 * k)
        measured = (None, np.zeros(6), np.full(6, 0.5))[kind]
        for _ in range(3):
            find_velocity(again.record, 0.002 * k, q, q[:0] if measured is None else measured,
                          False, np.empty(6))
        found, other = (one.velocity(0.002 * k, q, measured, 'none') for one in (once, again))
        assert (found is None) == (other is None)
        if found is not None:
            np.testing.assert_array_equal(found, other)
        assert once.used == again.used


def test_missing_velocities_are_refused_where_measured_ones_are_wanted():
    with pytest.raises(InputError, match='there are none'):
        VelocitySource(ROBOT, 'measured').velocity(0.0, np.zeros(6), None, 'there are none')


class Garbled:
    """`VelocitySource` of the nodes, with a driver that garbles three states in ten."""

    def __init__(self, robot, seed):
        self.source, self.rng = VelocitySource(robot), np.random.default_rng(seed)

    def read(self, time, q, qd):
        """Return the velocities for a state; may overwrite elements of `q` with wrong values."""
        rng = self.rng
        if rng.random() < 0.3:
            i, how = rng.integers(len(q)), rng.integers(4)
            if how == 0:
                q[i] = rng.choice([1e300, 1e9, q[i] + 0.7])
            elif how == 1:
                qd = None
            else:
                qd[i] = rng.choice([-1e300, 50.0, -20.0])
        return self.source.velocity(time, q, qd, 'none')

    def reject(self):
        """Discard the last state."""
        self.source.reject()


@pytest.mark.parametrize('name', ['xarm7', 'kinova'])
def test_arm_whose_states_are_garbled_in_motion_is_neither_kicked_nor_lost(name):
    for seed in range(6):
        arm = Sensed(name, effort_rate=50.0)
        arm.source = Garbled(arm.robot, seed)
        arm.law.follow(PoseGoal(moved(arm.tip(), AWAY[name])), 0.0)
        # a velocity of up to twice the limit is plausible: one such state may be accepted
        assert arm.run(0.6).speeds().max() < 2.0
        assert arm.steps() < 0.11


def test_speed_that_the_positions_contradict_is_replaced_however_often_it_comes():
    arm = Sensed('xarm7')
    q, qd = arm.sensed()
    assert arm.guard.accept_state(0.0, q, qd.copy())
    qd[3] = 50.0
    taken = [arm.guard.accept_state(0.002 * k, q, qd) for k in range(1, 20)]
    assert not any(taken[:2]) and all(taken[3:])  # a parabola needs 3 positions
    assert not arm.guard.d.qd.any()
    moving = [arm.guard.accept_state(0.002 * k, q + 0.002 * (k - 20) * qd, qd)
              for k in range(20, 26)]
    assert any(moving)
