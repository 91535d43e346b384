# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Activation of arms whose model is wrong: what is refused, and that a load lets no arm fall."""

from dataclasses import replace

import numpy as np
import pytest

from foreign import ForeignPlant
from judge import _erd, Case, robot_cases
from osc_ros import Law, Robot, Settings
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Observation
from osc_ros.loop import requests
from osc_ros.loop.engine import Engine
from osc_ros.loop.rest_check import compare_efforts, Verdict
from osc_ros.loop.startup import decision, load_of, NOTE, REFUSE, WARN
from variants import first_quick

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
PERIOD = 0.002  # [s]
Z1 = Case(_erd('z1_description/urdf/z1'), 'link00', 'link06')
HOMES = {'z1': (0.0, 1.3, -1.2, -0.1, 0.2, 0.1), 'xarm7': (0.0, -0.3, 0.0, 1.3, 0.0, 1.4, 0.0),
         'kinova': (4.8, 2.9, 1.0, 4.2, 1.4, 1.3),
         'tiago': (0.2, -0.55, 0.25, -0.9, 0.4, 0.7, 0.2, 0.3)}
NOISE = 0.002  # standard deviation of a measured effort, relative to the limit


class Started:
    """A foreign arm that its driver holds at rest, and an engine that has heard its states."""

    def __init__(self, name, payload=0.0, friction=0.0, settings=None, efforts=True):
        case = Z1 if name == 'z1' else robot_cases()[name]
        self.robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
        self.plant = ForeignPlant(case, self.robot.joint_names, friction, payload=payload)
        self.plant.reset(np.clip(HOMES[name], *self.robot.position_limits.T))
        settings = Settings.of(self.robot, observation=Observation()) if settings is None else (
            settings(self.robot))
        self.law = Law(self.robot, settings)
        guard = Supervision.of(self.robot, self.law.settings.limits, PERIOD)
        self.engine = Engine(self.law, guard, PERIOD, self._send, lambda *event: None)
        self.sent, self.tick, self.reports = self.plant.weight(), 0, efforts
        self.rng, self.speeds, self.poses = np.random.default_rng(0), [], [self.plant.pose()]
        self.rest()
        self.finding = requests.finding(self.engine)

    def _send(self, tau, stamp):
        self.sent = tau.copy()

    def _state(self):
        self.tick += 1
        tau = self.sent + NOISE * self.robot.effort_limits * self.rng.normal(size=self.robot.n)
        return (self.tick * PERIOD, self.plant.q.copy(), self.plant.qd.copy(),
                (0, self.tick * 2_000_000), 0.0, tau if self.reports else None)

    def rest(self):
        """Let the engine hear states while the driver holds the arm."""
        for _ in range(20):
            state = self._state()
            assert self.engine.update(*state)
            if state[-1] is not None:
                self.engine.rest.add(state[1], state[-1])

    def activate(self, missing=None):
        """Activate as the nodes do, with the load that the check has found."""
        if missing is None and load_of(self.finding):
            missing, settings = self.finding.missing, self.law.settings
            given = settings.disturbance or Disturbance()
            self.law.change(replace(settings, disturbance=replace(
                given, payload=max(given.payload, load_of(self.finding)))))
        self.engine.activate(missing)

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.engine.update(*self._state())
            self.plant.step(self.sent, PERIOD)
            self.speeds.append(np.abs(self.plant.qd / self.robot.velocity_limits).max())
            self.poses.append(self.plant.pose())
        return self

    def fastest(self):
        """Return the largest joint speed, relative to its limit."""
        return max(self.speeds)

    def sunk(self):
        """Return how far the tip has been from its first pose, and is at the end [m]."""
        away = np.linalg.norm([pose[:3, 3] - self.poses[0][:3, 3] for pose in self.poses], axis=1)
        return away.max(), away[-1]


@pytest.mark.parametrize('name', first_quick(HOMES, 2))
def test_arm_with_a_kilogram_that_the_model_lacks_is_refused_with_the_mass_to_tell(name):
    arm = Started(name, payload=1.0)
    level, text = decision(arm.finding, 'certain', arm.law.settings)
    assert level == REFUSE
    told = float(text.split('Set payload.mass to ')[1].split()[0])
    assert told == pytest.approx(1.0, abs=0.1)
    assert "To activate all the same: startup_check 'warn'" in text
    right = Started(name, payload=1.0, settings=lambda robot: Settings.of(robot))
    found = compare_efforts(right.robot.with_payload(told), right.plant.q, right.plant.weight())
    assert decision(found, 'certain', right.law.settings).level == NOTE


@pytest.mark.parametrize('name, friction', [
    *((name, 0.0) for name in HOMES), pytest.param('kinova', 0.3, marks=pytest.mark.slow)])
def test_arm_that_is_activated_with_an_unknown_kilogram_does_not_fall(name, friction):
    arm = Started(name, payload=1.0, friction=friction)
    assert decision(arm.finding, 'warn', arm.law.settings).level == WARN
    arm.activate()
    arm.run(1.0)
    # without the load taken up, kinova reaches 3.2 times its limit, and sinks by 20 cm; the light
    # wrists notice the noise of the efforts
    assert arm.fastest() < 1.2
    assert arm.sunk()[0] < 3e-3
    # the tip carries the load to another place
    pose = arm.plant.pose()
    pose[2, 3] += 0.03
    arm.law.follow(pose)
    arm.run(2.0)
    assert arm.fastest() < 1.2
    np.testing.assert_allclose(arm.plant.pose()[:3, 3], pose[:3, 3], atol=1e-3)


def test_arm_without_measured_efforts_is_held_by_the_last_torques_when_it_is_activated_again():
    def compensating(robot):
        return Settings.of(robot, disturbance=Disturbance())

    arm = Started('xarm7', payload=1.0, settings=compensating, efforts=False)
    assert arm.finding.verdict is Verdict.UNCLEAR
    arm.activate()
    arm.run(2.5)
    arm.engine.deactivate()
    while arm.engine.acts:
        arm.run(PERIOD)
    arm.rest()
    arm.poses, arm.speeds = [arm.plant.pose()], []
    arm.activate()
    arm.run(0.5)
    assert arm.sunk()[0] < 5e-4  # 14 mm at the first activation
    assert arm.fastest() < 0.1


def test_small_load_and_efforts_that_tell_nothing_are_no_reason_to_refuse():
    arm = Started('xarm7', payload=0.3)
    assert decision(arm.finding, 'certain', arm.law.settings).level != REFUSE
    arm = Started('xarm7', payload=1.0, efforts=False)
    level, text = decision(arm.finding, 'certain', arm.law.settings)
    assert (level, 'the driver reports no efforts' in text) == (WARN, True)
    assert decision(arm.finding, 'refuse', arm.law.settings).level == WARN
    none = compare_efforts(arm.robot, arm.plant.q, np.zeros(7))  # brakes hold the arm
    assert decision(none, 'certain', arm.law.settings).level == WARN
    assert decision(none, 'refuse', arm.law.settings).level == REFUSE
    known = replace(arm.law.settings, driver=Driver(arm.robot, 'gravity'))
    assert decision(none, 'refuse', known).level == NOTE


@pytest.mark.parametrize('name', first_quick(('z1', 'kinova', 'xarm7', 'ur10'), 2))
def test_motor_currents_are_no_reason_to_refuse(name):
    case = Z1 if name == 'z1' else robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    plant, rng = ForeignPlant(case, robot.joint_names), np.random.default_rng(0)
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    for _ in range(10):
        plant.reset(0.5 * (lower + upper) + 0.33 * (upper - lower) * rng.uniform(-1, 1, robot.n))
        amperes = rng.uniform(0.05, 0.3) * np.exp(0.5 * rng.normal(size=robot.n))
        found = compare_efforts(robot, plant.q, amperes * plant.weight())
        assert decision(found, 'certain', Settings.of(robot)).level != REFUSE, str(found)


def test_load_that_the_compensation_is_told_to_take_up_is_no_reason_to_refuse():
    def compensating(payload):
        return lambda robot: Settings.of(robot, observation=Observation(),
                                         disturbance=Disturbance(payload=payload))

    for payload, level in ((1.2, WARN), (0.5, REFUSE)):
        arm = Started('z1', payload=1.0, settings=compensating(payload))
        assert decision(arm.finding, 'certain', arm.law.settings).level == level


@pytest.mark.parametrize('name', first_quick(HOMES))
@pytest.mark.parametrize('gravity', ((0.0, 0.0, 9.81), (9.81, 0.0, 0.0)), ids=('reversed', 'wall'))
def test_gravity_that_points_elsewhere_is_refused_with_its_direction(name, gravity):
    arm = Started(name)
    found = compare_efforts(arm.robot.with_gravity(gravity), arm.plant.q, arm.plant.weight())
    level, text = decision(found, 'certain', arm.law.settings)
    assert level == REFUSE
    angle = 180 if gravity[2] else 90
    told = float(text.split('gravity is turned by ')[1].split('°')[0])
    assert abs(told - angle) < 30  # the tolerance leaves other directions possible
    assert 'gravity to [' in text


def test_sign_of_an_effort_is_refused():
    arm = Started('tiago')
    efforts = arm.plant.weight()
    efforts[np.argmax(np.abs(efforts) / arm.robot.effort_limits)] *= -1.0
    found = compare_efforts(arm.robot, arm.plant.q, efforts)
    assert decision(found, 'certain', arm.law.settings).level == REFUSE
    measured = replace(arm.law.settings, observation=Observation(efforts='measured'))
    assert decision(found, 'warn', measured).level == REFUSE
    assert decision(found, 'warn', arm.law.settings).level == WARN
