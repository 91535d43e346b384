# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""MujocoArm: it is Plant, cycle by cycle; brakes, order of calls, pace, wrong settings."""

from time import perf_counter, sleep

from hypothesis import given, settings, strategies
import numpy as np
import pytest

from arm import READY
from osc_ros import InputError, ModelError
from osc_ros.hardware import mujoco
from osc_ros.hardware.contract import HardwareError, Setting, State
from osc_ros.hardware.mujoco import CATCH_UP, MujocoArm
from osc_ros.model.files import shipped_urdf
from osc_ros.ros.simulator.simulator import PARAMETERS
from osc_ros.sim import Plant

TEXT = shipped_urdf('panda').read_text()
NAMES = tuple(f'panda_joint{i}' for i in range(1, 8))
BASE, TIP = 'panda_link0', 'panda_hand_tcp'
# Settings that are the node's own business in osc_simulator, or differ on purpose.
OWN = {'pace', 'base', 'rate', 'payload.link', 'locked_joints', 'identity'}


def arm(names=NAMES, text=TEXT, **changed):
    """Return an arm with some settings changed, '__' for dots; by default it does not wait."""
    values = {setting.name: setting.default for setting in MujocoArm.settings}
    values |= {'pace': 'fast', 'initial_positions': tuple(READY)}
    return MujocoArm(values | {name.replace('__', '.'): value
                               for name, value in changed.items()}, text, names)


def plant(**given):
    found = Plant(TEXT, BASE, NAMES, **given)
    found.reset(READY)
    return found


def opened(**changed):
    found = arm(**changed)
    found.open()
    return found


def same(state, time, measured):
    assert state.time == time
    for found, expected in zip(state[1:], measured):
        np.testing.assert_array_equal(found, expected)


CHANGES = [
    {},
    {'rate': 500.0},
    {'rate': 250.0, 'timestep': 0.0005},
    {'driver_compensates': 'gravity'},
    {'driver_compensates': 'gravity+coriolis', 'position_noise': 1e-4, 'velocity_noise': 1e-3},
    {'gravity': (0.0, 3.0, 9.0), 'seed': 3, 'position_noise': 1e-5},
    {'damping': (2.0,) * 7, 'friction': (1.0,) * 7, 'rotor_inertia': (0.1,) * 7,
     'effort_limits': (20.0,) * 6 + (0.0,)},
]


@pytest.mark.parametrize('changes', CHANGES, ids=lambda changes: ', '.join(changes))
@settings(max_examples=5, deadline=None)
@given(seed=strategies.integers(0, 2**32 - 1), idle=strategies.integers(0, 3),
       omitted=strategies.sets(strategies.integers(0, 29)))
def test_states_are_those_of_a_plant_stepped_by_hand(changes, seed, idle, omitted):
    found = opened(**changes)
    given_to_plant = dict(changes)
    rate = given_to_plant.pop('rate', 1000.0)
    steps = round(1.0 / rate / changes.get('timestep', 0.001))
    if 'driver_compensates' in changes:
        given_to_plant['compensates'] = given_to_plant.pop('driver_compensates')
    by_hand, random = plant(**given_to_plant), np.random.default_rng(seed)
    by_hand.brake(True)
    compensated = 'driver_compensates' in changes
    last = np.zeros(7)
    for cycle in range(idle):  # the brakes carry the arm; sensors measure its weight
        q, qd, tau = by_hand.measured()
        same(found.read(), cycle / rate, (q, qd, tau if compensated else by_hand.weight))
        by_hand.step(last, steps)
    found.start()
    for k in range(30):
        q, qd, tau = by_hand.measured()
        closed = by_hand.braked.any()
        same(found.read(), pytest.approx((idle + k) / rate, abs=1e-12),
             (q, qd, by_hand.weight if closed and not compensated else tau))
        if k not in omitted:  # without an answer the arm goes on with the last torque
            last = 10.0 * random.standard_normal(7)
            if closed:
                by_hand.brake(False)
            found.write(last)
        by_hand.step(last, steps)
    found.read()
    np.testing.assert_array_equal(found.pose(TIP), by_hand.pose(TIP))
    found.close()


def test_a_buffer_that_is_used_again_does_not_change_the_torque():
    one, other = opened(), opened()
    buffer = np.full(7, 5.0)
    for found in (one, other):
        found.start()
        found.read()
        found.write(buffer)
        buffer[:] = 5.0 if found is one else 0.0
    one_state, other_state = (found.read() and found.read() for found in (one, other))
    np.testing.assert_array_equal(one_state.q, other_state.q)


def test_the_arm_moves_only_from_the_first_torque_to_the_stop():
    found = opened()
    np.testing.assert_array_equal(found.read().q, READY)
    found.start()
    for _ in range(100):  # started, but without a torque
        held = found.read()
    np.testing.assert_array_equal(held.q, READY)
    assert np.abs(held.tau).max() > 5.0  # the weight
    for _ in range(100):
        found.write(np.zeros(7))
        fallen = found.read()
    assert np.abs(fallen.q - READY).max() > 0.01
    found.stop()
    found.stop()
    states = [found.read() for _ in range(300)]
    assert np.abs(states[-1].q - fallen.q).max() < 0.05
    np.testing.assert_array_equal(states[-1].q, states[-2].q)
    np.testing.assert_array_equal(states[-1].qd, np.zeros(7))
    found.start()
    np.testing.assert_array_equal(found.read().q, states[-1].q)


def test_a_payload_is_carried():
    bare, loaded = (opened(**given) for given in (
        {}, {'payload__mass': 2.0, 'payload__center_of_mass': (0.0, 0.0, 0.1)}))
    difference = loaded.read().tau - bare.read().tau
    assert np.abs(difference).max() > 5.0
    at_tip = opened(payload__mass=2.0, payload__link=TIP).read().tau - bare.read().tau
    force = np.array([0.0, 0.0, 2.0 * 9.81])  # of the payload's weight, to be carried
    axis = bare.pose('panda_link2')[:3, 2]
    offset = bare.pose(TIP)[:3, 3] - bare.pose('panda_link2')[:3, 3]
    assert at_tip[0] == pytest.approx(0.0, abs=1e-9)  # the axis is vertical
    assert at_tip[1] == pytest.approx(axis @ np.cross(offset, force), rel=1e-9)


def test_locked_joints_stay_where_they_are_locked():
    names = NAMES[:5]
    found = opened(names=names, locked_joints=('panda_joint6', 'panda_joint7'),
                   locked_positions=(1.5, 0.7), initial_positions=tuple(READY[:5]))
    full = opened(initial_positions=(*READY[:5], 1.5, 0.7))
    np.testing.assert_allclose(found.pose(TIP), full.pose(TIP), atol=1e-12)
    assert found.read().q.shape == (5,)


def test_the_description_is_what_the_arm_does():
    found = arm(rate=500.0, driver_compensates='gravity', effort_limits=(20.0,) * 6 + (0.0,))
    told = found.open()
    assert (told.joint_names, told.period, told.compensates, told.clock) == (
        NAMES, 0.002, 'gravity', 'simulated')
    np.testing.assert_array_equal(told.effort_limits, [20.0] * 6 + [np.inf])
    assert told.effort_rates is None
    found.start()
    found.read()
    found.write(np.full(7, 100.0))
    assert found.read().tau.tolist() == [20.0] * 6 + [100.0]


def test_calls_out_of_order():
    found = arm()
    for call in (found.read, found.start):
        with pytest.raises(HardwareError, match='not open'):
            call()
    found.stop()
    found.open()
    found.read()
    with pytest.raises(HardwareError, match='not started'):
        found.write(np.zeros(7))
    found.start()
    with pytest.raises(HardwareError, match='runs already'):
        found.start()
    found.read()
    found.write(np.zeros(7))
    with pytest.raises(HardwareError, match='second torque'):
        found.write(np.zeros(7))
    found.recover()  # without an error
    found.stop()
    with pytest.raises(HardwareError, match='Start it'):
        found.write(np.zeros(7))
    found.close()
    found.stop()
    with pytest.raises(HardwareError, match='not open'):
        found.read()


@pytest.mark.parametrize('tau', [np.full(7, np.nan), np.full(7, np.inf), np.zeros(6),
                                 np.zeros((7, 1))])
def test_torques_that_are_none_end_the_control_and_the_brakes_hold(tau):
    found = opened()
    found.start()
    before = found.read()
    with pytest.raises(HardwareError, match='7 finite'):
        found.write(tau)
    after = [found.read() for _ in range(10)][-1]
    np.testing.assert_array_equal(after.q, before.q)
    found.start()
    found.read()
    found.write(np.zeros(7))


def test_a_simulation_that_diverges_is_recovered_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for MuJoCo's log
    found = opened(effort_limits=(0.0,) * 7)
    found.start()

    def diverge():
        for _ in range(1000):
            found.read()
            found.write(np.full(7, 1e12))

    with pytest.raises(HardwareError, match='diverged'):
        diverge()
    for call in (found.read, found.start):
        with pytest.raises(HardwareError, match='diverged.*Recover'):
            call()
    found.recover()
    state = found.read()
    np.testing.assert_array_equal(state.q, READY)
    assert state.time > 0.0  # the time goes on
    found.start()
    found.read()
    found.write(np.zeros(7))


class Clock:
    """Takes the place of the wall clock."""

    def __init__(self):
        """Begin at some time."""
        self.now, self.sleeps = 1000.0, []

    def perf_counter(self):
        """Return the time [s]."""
        return self.now

    def sleep(self, seconds):
        """Wake 70 µs late, as an operating system does."""
        assert seconds > 0.0
        self.sleeps.append(seconds)
        self.now += seconds + 70e-6


@pytest.fixture
def clock(monkeypatch):
    """Return a clock in place of that of the module under test."""
    clock = Clock()
    monkeypatch.setattr(mujoco, 'perf_counter', clock.perf_counter)
    monkeypatch.setattr(mujoco, 'sleep', clock.sleep)
    return clock


def test_the_pace_is_that_of_the_wall_clock_without_drift(clock):
    found = opened(pace='real_time')
    clock.now += 3.0  # whatever happens between open and the first state
    found.read()
    began = clock.now
    for k in range(1, 2000):
        clock.now += 1e-4 * (k % 5)  # work
        found.read()
        assert -1e-9 <= clock.now - began - k * 0.001 <= 71e-6
    assert found.late == 0


@settings(max_examples=50, deadline=None)
@given(delays=strategies.lists(strategies.integers(0, 40), min_size=1, max_size=30))
def test_a_late_caller_catches_up_within_bounds(delays):
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(mujoco, 'perf_counter', clock.perf_counter)
        patch.setattr(mujoco, 'sleep', clock.sleep)
        found, period = opened(pace='real_time'), 0.001
        began, first = clock.now, found.read()
        assert first.time == 0.0
        for delay in delays:
            clock.now += (delay + 0.5) * period  # the loop is late
            at_once = 0
            while True:
                slept = len(clock.sleeps)
                state = found.read()
                if len(clock.sleeps) > slept:
                    break
                at_once += 1
            assert at_once <= CATCH_UP + 1
        # the simulated time is behind by what was not made up for, and by nothing else
        behind = clock.now - began - state.time
        assert found.late * period - 1e-9 <= behind <= found.late * period + 71e-6
        assert found.late >= max(0, max(delays) - CATCH_UP - 1)


def test_states_come_at_their_time():
    found = opened(pace='real_time', rate=200.0, timestep=0.005)
    began = perf_counter() - found.read().time
    sleep(0.02)
    for _ in range(20):
        state = found.read()
        assert perf_counter() - began >= state.time - 1e-4


def test_fast_does_not_wait(clock):
    found = opened(rate=1.0, timestep=0.1)
    assert [found.read().time for _ in range(5)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert clock.sleeps == []


def test_settings_have_names_units_and_bounds_of_the_simulator():
    simulator = {entry.name: entry for entry in PARAMETERS}
    for setting in MujocoArm.settings:
        assert isinstance(setting, Setting)
        if setting.name in OWN:
            continue
        entry = simulator[setting.name]
        for part in ('default', 'lower', 'upper', 'size', 'of', 'choices'):
            assert getattr(setting, part) == getattr(entry, part), (setting.name, part)
    assert isinstance(opened().read(), State)


@pytest.mark.parametrize('changes, message', [
    ({'rate': 300.0}, 'hardware.timestep .*0.001 .*hardware.rate 300.0.*(give|must be)'),
    ({'timestep': 0.003}, 'whole number'),
    ({'base': 'panda_link_0'}, "'panda_link_0'.*panda_link0"),
    ({'base': 'panda_link3'}, "'panda_joint3' .*base"),
    ({'initial_positions': (0.0,) * 6}, 'must be 7'),
    ({'initial_positions': (4.0,) * 7}, "^q .*'panda_joint1' .*4.0; (give|must be)"),
    ({'locked_joints': ('panda_joint9',)}, "'panda_joint9'"),
    ({'locked_joints': ('panda_finger_joint1',), 'locked_positions': (0.0, 0.0)},
     'locked_positions .*2 .*locked_joints 1'),
    ({'payload.mass': 1.0, 'payload.link': 'hand'}, "hardware.payload.link.*'hand'"),
    ({'damping': (1.0,)}, 'damping .*must be 7'),
    ({'friction': (-1.0,) * 7}, "friction .*'panda_joint1' .*-1.0; must be 0"),
])
def test_values_that_do_not_fit_are_refused_when_the_arm_is_made(changes, message):
    with pytest.raises((InputError, ModelError), match=message):
        arm(**{name.replace('.', '__'): value for name, value in changes.items()})


@pytest.mark.parametrize('text, names, message', [
    ('<robot', NAMES, 'XML'),
    (TEXT, (*NAMES[:6], 'panda_joint9'), "'panda_joint9'"),
    (TEXT, NAMES[:6] + NAMES[:1], 'joint once'),
])
def test_a_description_that_does_not_fit_is_refused(text, names, message):
    with pytest.raises((InputError, ModelError), match=message):
        arm(text=text, names=names)
