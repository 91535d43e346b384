# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The engine of osc_arm with an arm whose states and calls are faulty in every way."""

import pickle

import numpy as np
import pytest

from arm import READY
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.safety.supervision import (
    DEADLINE,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    STALE_STATE,
    STALE_TARGET,
    Supervision,
    Watchdog,
)
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.settings import Settings
from osc_ros.hardware.contract import HardwareError
from osc_ros.hardware.mujoco import MujocoArm
from osc_ros.loop import requests
from osc_ros.loop.cycle import ACTIVE, IDLE
from osc_ros.loop.journal import Journal
from osc_ros.loop.process import hardware_engine, process
from osc_ros.loop.process.channel import Channel
from osc_ros.loop.process.process import ArmEngine, EVENT
from osc_ros.loop.process.process_start import System
from osc_ros.model.files import shipped_urdf
from osc_ros.model.robot import Robot

TEXT = shipped_urdf('panda').read_text()
ROBOT = Robot.from_urdf(TEXT, 'panda_link0', 'panda_hand_tcp')
PERIOD, CYCLES = 1e-3, 400
RATE = 20.0 * np.asarray(ROBOT.effort_limits)  # of the torques [N·m/s]
NUMBERS = np.nan, np.inf, -np.inf, 1e300, -1e9, 0.0


class Faulty(MujocoArm):
    """A simulated arm with faults at random; it records what it is told."""

    def __init__(self, rng, share):
        """Set the random numbers, and the share of the cycles that have a fault."""
        values = {setting.name: setting.default for setting in self.settings}
        super().__init__(values | {'pace': 'fast', 'initial_positions': tuple(READY)}, TEXT,
                         ROBOT.joint_names)
        self.rng, self.share, self.calls = rng, share, []

    def read(self):
        """Return a state that may be faulty, or raise."""
        state = super().read()
        self.calls.append('read')
        if self.rng.random() > self.share:
            return state
        kind = self.rng.integers(7)
        if kind == 0:
            state.q[self.rng.integers(7)] = self.rng.choice(NUMBERS)
        elif kind == 1:
            state.qd[self.rng.integers(7)] = self.rng.choice(NUMBERS)
        elif kind == 2:
            state = state._replace(time=float(self.rng.choice(NUMBERS)))
        elif kind == 3:
            state = state._replace(time=state.time + float(self.rng.normal()))
        elif kind == 4:
            state = state._replace(tau=np.full(7, self.rng.choice(NUMBERS)))
        elif kind == 5:
            raise ValueError("a defect of the arm's class")
        elif self.rng.random() < 0.2:
            raise HardwareError('a reflex')
        return state

    def write(self, tau):
        """Record the torques, or raise."""
        self.calls.append(np.array(tau))
        if self.rng.random() < 0.02 * self.share:
            raise HardwareError('communication_constraints_violation')
        super().write(tau)


@pytest.fixture(scope='module')
def law():
    """Return a law whose torques have limited rates."""
    return Law(ROBOT, Settings(limits=Limits.of(ROBOT, effort_rate=RATE)))


def supervision(limits):
    causes = JUMP, NOT_FINITE, DEADLINE, OVERSPEED, STALE_TARGET
    return Supervision(
        {STALE_STATE: Watchdog('hold', False, 0.1), **{
            cause: Watchdog('report' if cause in (DEADLINE, STALE_TARGET) else 'hold', False)
            for cause in causes}},
        limits.effort, 10.0, 0.1, 0.1, 0.1, deadline=PERIOD, period=PERIOD, bridges=True,
        effort_rates=limits.effort_rate, velocity_limits=limits.velocity)


def events(channel):
    """Return the names of the events so far, and forget them."""
    found = []
    while (message := channel.events.take()) is not None:
        kind, name, _ = pickle.loads(message)
        if kind == EVENT:
            found.append(name)
    return found


@pytest.mark.parametrize('share', [0.02, 0.3], ids=('few', 'many'))
@pytest.mark.parametrize('seed', range(8))
def test_faults_of_an_arm_end_no_loop_and_send_no_wrong_torque(law, monkeypatch, seed, share):
    rng, channel = np.random.default_rng(seed), Channel(7)
    arm = Faulty(rng, 0.0)
    arm.open()
    engine = ArmEngine(law, supervision(law.settings.limits), arm, PERIOD, channel, System())
    now = 0.0  # no time-out depends on how busy this machine is
    engine.guard.clock = lambda: now
    for module in (process, hardware_engine):
        monkeypatch.setattr(module, 'perf_counter', lambda: now)

    def cycle():
        nonlocal now
        now += PERIOD
        engine._try_cycle(1)

    for _ in range(10):
        cycle()
    engine.activate()
    goal = law.pose.copy()
    goal[0, 3] += 0.05
    requests.follow(engine, PoseGoal(goal), 0.0, 'tip')
    arm.share, lost = share, 0
    for _ in range(CYCLES):
        before = len(arm.calls)
        acted = engine.mode == ACTIVE
        cycle()
        new = arm.calls[before:]
        if 'lost' in events(channel):
            lost += 1
            assert engine.mode == IDLE
            engine.recover()
            share_before, arm.share = arm.share, 0.0
            cycle()
            engine.activate()
            arm.share = share_before
        elif acted:  # never silent, and one torque for one state
            assert [one for one in new if isinstance(one, str)] == ['read'] or not new
            assert sum(not isinstance(one, str) for one in new) == 1 or not new
    assert engine.mode == ACTIVE
    sent = [one for one in arm.calls if not isinstance(one, str)]
    assert len(sent) > CYCLES // 2
    assert np.isfinite(sent).all()
    assert (np.abs(sent) <= law.settings.limits.effort * (1.0 + 1e-12)).all()
    if not lost:  # else the torques begin anew
        assert (np.abs(np.diff(sent, axis=0)) <= 2.0 * PERIOD * RATE * (1.0 + 1e-9)).all()
    channel.close()


def said_and_sent(monkeypatch, share, at_once):
    """Run a loop, some cycles at once; return the arm's calls, and counts of causes."""
    rng, channel, law, now = np.random.default_rng(9), Channel(7), Law(ROBOT), 0.0
    arm = Faulty(rng, 0.0)
    arm.open()
    engine = ArmEngine(law, supervision(law.settings.limits), arm, PERIOD, channel, System())
    engine.attach_journal(Journal(1e3, 10**9))
    read = arm.read

    def clocked():
        nonlocal now
        now += PERIOD
        return read()

    arm.read = clocked
    engine.guard.clock = lambda: now
    for module in (process, hardware_engine):
        monkeypatch.setattr(module, 'perf_counter', lambda: now)
    for done in range(at_once, 641, at_once):
        while engine._arm.cycle < done:  # what Python has to do ends a call
            engine._try_cycle(min(at_once, done - engine._arm.cycle))
        if done % 128 == 16 and engine.mode == IDLE:
            engine.activate()
            engine._arm.cycle = done
        if done % 128 == 48 and engine.mode == ACTIVE:
            goal = law.pose.copy()
            goal[:3, 3] += rng.uniform(-0.05, 0.05, 3)
            requests.follow(engine, PoseGoal(goal), 0.0, 'tip')
        if done % 128 == 0:
            arm.share = share
    channel.close()
    return arm.calls, engine.guard.counts


@pytest.mark.parametrize('share', [0.0, 0.02, 0.2])
def test_cycles_in_one_compiled_call_have_the_torques_of_one_call_each(monkeypatch, share):
    (calls, counts), (others, other) = (
        said_and_sent(monkeypatch, share, at_once) for at_once in (16, 1))
    assert counts == other
    assert len(calls) == len(others) > 800
    for given, wanted in zip(calls, others):
        np.testing.assert_array_equal(given, wanted)
