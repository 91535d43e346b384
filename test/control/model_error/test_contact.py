# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Contacts: detection, reactions, learned thresholds; the law with an observer in an engine."""

from dataclasses import replace
import math
from time import perf_counter

import numpy as np
import pytest

from arm import Arm, PANDA, PERIOD, READY
from driven import Driven
from osc_ros import InputError, Law, Robot, Settings
from osc_ros.compile.compiled import kernel
from osc_ros.control.data import D
from osc_ros.control.model_error.contact import Contact, ContactSense, NOT_TOUCHED, touched
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.safety.stopping import begin_way_back, go_back, record_way
from osc_ros.control.safety.supervision import (
    CONTACT,
    NOT_FINITE,
)
from osc_ros.control.settings import Observation
from osc_ros.dynamics.algebra.spatial import assign
from osc_ros.loop import requests
from osc_ros.sim import Plant
from variants import first_quick


def collision(reaction, stiffness=1e5, seconds=0.8):
    return Driven(reaction, stiffness).run(0.1).go(0.0, 0.0, -0.3).run(seconds)


class TestCollision:
    """A collision with a stiff wall at 0.5 m/s."""

    @pytest.mark.parametrize('reaction, force, height', (
        ('hold', 40.0, 0.001), ('damp', 0.0, 0.1), ('comply', 0.0, 0.1), ('retract', 0.0, 0.06)))
    def test_reaction_within_two_cycles_and_the_time_constant(self, reaction, force, height):
        found = collision(reaction)
        assert found.touched < 1.0
        assert 0.0 <= found.reacted - found.touched <= 2.0 * PERIOD + 0.01
        assert found.engine.guard.reaction == reaction
        assert found.forces[-1] <= force
        assert found.tip[2] - found.floor < height
        steps = np.abs(np.diff(found.commands, axis=0)).max(axis=0)
        assert (steps <= 0.1 * (1.0 + 1e-9) * found.robot.effort_limits).all()

    @pytest.mark.parametrize('stiffness, share', first_quick(((1e5, 1.0), (1e4, 0.95))))
    def test_peak_force_is_lower_than_without_reaction(self, stiffness, share):
        without, found = (max(collision(reaction, stiffness).forces)
                          for reaction in ('report', 'comply'))
        assert without > 100.0
        assert found < share * without

    @pytest.mark.slow  # quick: the tests above
    def test_plot_of_the_reactions(self, drawn):
        found = {name: collision(name, 1e4, 1.2) for name in (
            'report', 'hold', 'comply', 'retract')}
        begin = round((found['report'].touched - 0.1) / PERIOD)
        lines = {'none (report)' if name == 'report' else name: one for name, one in found.items()}
        times = np.arange(begin, len(found['hold'].forces)) * PERIOD
        drawn('contact', 'The tip of the Panda meets a wall of 10 N/mm at 0.5 m/s', times, {
            'force on the wall [N]': {name: one.forces[begin:] for name, one in lines.items()},
            'height over the wall [mm]': {name: 1e3 * (np.array(one.heights[begin:]) - one.floor)
                                          for name, one in lines.items()}},
              {found['report'].touched: 'touch'})
        assert all(max(one.forces) > 100.0 for one in found.values())

    def test_retract_goes_back_along_the_way_and_stays(self):
        found = collision('retract', seconds=1.5)
        assert found.tip[2] - found.floor > 0.02
        assert np.abs(found.plant.qd).max() < 1e-3
        assert found.forces[-1] == 0.0

    def test_release_gives_the_arm_back_to_the_law(self):
        found = collision('retract', seconds=1.5)
        answer = requests.release(found.engine)
        assert answer[0], answer
        requests.hold(found.engine)
        steps = len(found.commands)
        found.run(0.5)
        assert not found.engine.guard.reaction
        assert np.abs(np.diff(found.commands[steps - 1:], axis=0)).max() < 10.0

    @pytest.mark.parametrize('settings', first_quick(
        ({'disturbance': Disturbance()}, {})), ids=str)
    def test_motion_through_free_air_is_no_contact(self, settings):
        found = Driven('hold', wall=False, payload=1.0, **settings).run(1.0)
        for shift in ((0.1, 0.2, 0.1), (-0.2, -0.3, 0.1), (0.1, 0.2, -0.3)):
            found.go(*shift).run(1.0)
        assert found.reacted == math.inf


class TestThresholds:
    """Which torques count as contact."""

    def test_learned_thresholds_are_those_of_the_motion(self):
        found = Driven('hold', wall=False).run(0.1)
        requests.learn_contact(found.engine, 2.0)
        peak = np.zeros(7)
        for shift in ((0.1, 0.2, 0.1), (-0.1, -0.2, -0.1)):
            found.go(*shift)
            for _ in range(round(1.0 / PERIOD)):
                found.step()
                peak = np.maximum(peak, np.abs(found.law.external.torque))
        found.run(0.01)
        [(_, learned, _)] = [event for event in found.events if event[0] == 'learned']
        np.testing.assert_allclose(learned.torque, 1.5 * peak + 0.01 * found.robot.effort_limits,
                                   rtol=1e-6)
        assert 1.0 < learned.force < 10.0
        # with these thresholds the same motion is no contact, and a push of 10 N is one
        contact = Contact(learned.torque, learned.force, learned.moment)
        found.engine.use_supervision(replace(found.engine.guard.settings, contact=contact))
        found.go(0.1, 0.2, 0.1).run(1.0)
        assert found.reacted == math.inf
        found.load = [0.0, 20.0, 0.0]
        found.run(0.2)
        assert found.engine.guard.cause == CONTACT

    def test_nothing_is_learned_while_a_watchdog_acts_or_the_arm_is_idle(self):
        found = Driven('hold', wall=False).run(0.1)
        requests.learn_contact(found.engine, 1.0)
        found.engine.guard.report_fault(NOT_FINITE, 'for the test')
        found.run(0.01)
        assert [event[1] for event in found.events if event[0] == 'learned'] == [None]
        with pytest.raises(InputError, match='not_finite'):
            requests.learn_contact(found.engine, 1.0)
        found.engine.leave()
        with pytest.raises(InputError, match='not active'):
            requests.learn_contact(found.engine, 1.0)

    def test_force_and_moment_have_thresholds_of_their_own(self):
        large = np.full(7, 1e3)
        for contact, text in ((Contact(large, 15.0), 'external force of 20.'),
                              (Contact(large, moment=1e-3), 'external moment of')):
            found = Driven('report', wall=False, contact=contact).run(0.1)
            assert found.reacted == math.inf or contact.moment < 1.0
            found.load = [0.0, 20.0, 0.0]
            found.run(0.1)
            assert found.engine.guard.reason.startswith(text)

    def test_thresholds_that_are_not_positive_are_refused(self):
        for given in ((np.zeros(7),), (np.ones(7), -1.0), (np.ones(7), 1.0, math.nan)):
            with pytest.raises(InputError, match=r'contact\.\w+ .*must be .*at least'):
                Contact(*given)

    def test_estimate_that_has_not_settled_is_no_contact(self):
        sense, law = ContactSense(['a'] * 7), Arm().robot
        found = Driven(wall=False).law.setup.observer.record
        found.torque[:] = 1e3
        sense.use(Contact.of(law, Disturbance(), True))
        assert touched(sense.record, found) == NOT_TOUCHED


@kernel
def way_back(d, line, first, distance, step, found):
    """Record a way, go back along it from one of its positions, and write the positions."""
    for k in range(len(line)):
        record_way(d, distance, line[k])
    begin_way_back(d, distance, line[first])
    for k in range(len(found)):
        go_back(d, step)
        assign(found[k], d.way_at)


class TestRetreat:
    """The way back."""

    def test_it_ends_after_the_distance_or_at_the_oldest_position(self):
        line = np.linspace(0.0, 1.0, 101)[:, None] * [1.0, -0.5]
        found = np.zeros((200, 2))
        way_back(D.new(n=2), line, 100, 0.3, 0.004, found)
        assert np.abs(np.diff(found, axis=0)).max() < 0.004 + 1e-12
        np.testing.assert_allclose(found[-1], [0.7, -0.35])
        way_back(D.new(n=2), line, 100, 5.0, 9.0, found)
        np.testing.assert_allclose(found[0], [0.0, 0.0], atol=1e-12)
        way_back(D.new(n=2), line[:1], 0, 1.0, 1.0, found)
        np.testing.assert_allclose(found[-1], line[0])

    def test_the_longest_way_needs_no_more_positions_than_are_kept(self):
        line, found = np.linspace(0.0, 12.0, 20001)[:, None] * [1.0], np.zeros((1, 1))
        way_back(D.new(n=1), line, 20000, 10.0, 10.0, found)
        np.testing.assert_allclose(found, 2.0, atol=0.03)


class TestInTheLaw:
    """The observer and the compensation as parts of a law, in an engine."""

    def test_arm_with_unknown_load_does_not_sag_when_a_watchdog_holds_it(self):
        found = Driven(wall=False, payload=1.0, disturbance=Disturbance()).run(2.0)
        assert found.sag < 1e-4
        for _ in range(500):
            found.engine.guard.report_fault(NOT_FINITE, 'for the test')
            found.step()
        assert found.engine.guard.reaction == 'hold'
        assert found.sag < 1e-3
        found.run(2.0)
        assert found.sag < 1e-4
        bare = Driven(wall=False, payload=1.0).run(2.0)
        assert bare.sag > 5e-3

    @pytest.mark.parametrize('wait', [0.1, 3.0])
    def test_arm_with_unknown_load_does_not_sag_in_a_reaction_after_a_change_of_the_robot(
            self, wait):
        found = Driven(wall=False, payload=1.0, disturbance=Disturbance()).run(2.0)
        found.law.change(robot=replace(found.robot))  # with the same load
        found.run(wait)
        for _ in range(500):
            found.engine.guard.report_fault(NOT_FINITE, 'for the test')
            found.step()
        assert found.engine.guard.reaction == 'hold'
        assert found.sag < 1e-3  # 0.026 before

    def test_load_beyond_the_contact_thresholds_at_the_start_is_no_contact(self):
        found = Driven(wall=False, payload=2.0, disturbance=Disturbance(payload=2.5),
                       contact=Contact(torque=np.full(7, 5.0))).run(0.1)
        assert found.law.in_contact
        found.run(2.0)
        assert found.sag < 1e-4 and not found.law.in_contact

    def test_switched_on_and_off_without_a_bump(self):
        found = Driven(wall=False, payload=0.5).run(1.0)
        law, settings = found.law, found.law.settings
        for disturbance in (Disturbance(), None, Disturbance()):
            begin = len(found.commands)
            law.change(replace(settings, disturbance=disturbance))
            found.run(3.0)
            assert np.abs(np.diff(found.commands[begin - 1:], axis=0)).max() < 0.1
            assert (found.sag < 3e-4) == (disturbance is not None)
            assert law.compensation.any() == (disturbance is not None)
        terms = law.terms()
        np.testing.assert_allclose(sum(terms.values()), found.commands[-1], atol=1e-9)
        assert np.abs(terms['limits']).max() < 1e-9
        np.testing.assert_allclose(terms['disturbance'], law.compensation)

    def test_change_of_the_payload_keeps_the_estimate_and_the_pose(self):
        found = Driven(wall=False, payload=0.5, disturbance=Disturbance()).run(2.0)
        begin = len(found.commands)
        found.law.change(robot=found.robot.with_payload(0.5))
        found.run(2.0)
        assert np.abs(np.diff(found.commands[begin - 1:], axis=0)).max() < 0.5
        assert found.sag < 1e-4
        assert np.abs(found.law.external.torque).max() < 0.02

    @pytest.mark.parametrize('efforts', first_quick(
        ('commanded', 'measured without driver', 'measured'), 2))
    def test_driver_that_compensates_gravity_and_measured_efforts(self, efforts):
        robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
        driver = Driver(robot, 'gravity')
        law = Law(robot, Settings.of(robot, driver=driver, observation=Observation(
            efforts=efforts)))
        plant = Plant(PANDA.urdf_text, PANDA.base, robot.joint_names, friction=[0.0] * 7,
                      damping=[0.0] * 7)
        plant.reset(READY)
        law.hold(READY)
        plant.push(PANDA.tip, [0.0, 10.0, 0.0])
        total = np.zeros(7)
        for _ in range(750):
            q, qd = plant.q.copy(), plant.qd.copy()
            own = driver.torque(q, qd)
            effort = total if efforts == 'measured' else total - own
            law.observe(plant.time, q, qd, None, effort)
            total = law.torque(plant.time, q, qd) + own
            plant.step(total, 2)
        np.testing.assert_allclose(law.external.wrench, [0, 0, 0, 0, 10.0, 0], atol=0.1)

    def test_sum_with_the_compensation_keeps_the_effort_limits(self):
        found = Driven(wall=False, payload=8.0, disturbance=Disturbance(payload=20.0)).run(2.0)
        used = np.abs(found.commands) / found.robot.effort_limits
        assert used.max() <= 1.0

    @pytest.mark.parametrize('seed', first_quick(range(3)))
    def test_garbage_neither_raises_nor_gives_a_wrong_torque(self, seed):
        rng = np.random.default_rng(seed)
        found = Driven(str(rng.choice(['comply', 'retract', 'report'])), latched=False,
                       wall=False, disturbance=Disturbance())
        found.law.change(replace(found.law.settings, observation=Observation(
            efforts=str(rng.choice(['measured', 'measured without driver'])))))
        wild = 0.0, 1e-9, 3.0, -100.0, 1e6, 1e200, math.nan, math.inf
        limits = found.robot.effort_limits
        for _ in range(600):
            effort = rng.choice(wild, 7) if rng.random() < 0.3 else None
            if rng.random() < 0.05:
                q, qd = found.plant.q.copy(), found.plant.qd.copy()
                q[rng.integers(7)] = qd[rng.integers(7)] = rng.choice(wild)
                found.engine.update(found.plant.time, q, qd, (0, 0), perf_counter(), effort)
            else:
                found.update(effort)
            assert np.isfinite(found.commands[-1]).all()
            assert (np.abs(found.commands[-1]) <= limits * (1.0 + 1e-12)).all()
            found.plant.step(found.commands[-1], 2)

    def test_observer_without_settings_is_none_and_costs_nothing(self):
        robot = Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)
        law = Law(robot)
        law.torque(0.0, READY, np.zeros(7))
        assert law.external is None
        assert law.external_report() is None
        assert not law.compensation.any()
        assert 'disturbance' not in law.terms()

    def test_settings_that_cannot_be_used_are_refused(self):
        for bad in ({'bandwidth': 0.0}, {'bandwidth': math.nan}, {'efforts': 'currents'}):
            with pytest.raises(InputError, match='give|must be'):
                Observation(**bad)
        with pytest.raises(InputError, match='(give|must be).*Disturbance'):
            Settings(disturbance='observer')
