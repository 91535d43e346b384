# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Many controllers give the torques of as many laws, bit by bit."""


from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from osc_ros import (
    Controllers,
    Driver,
    Friction,
    InputError,
    Law,
    LookAt,
    Path,
    Robot,
    Settings,
    shipped_urdf,
    Stiffness,
    TargetLimits,
    Task,
    TwistGoal,
)
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.settings import Observation
from variants import first_quick

HOME = np.array([0.0, -0.785398, 0.0, -2.356194, 0.0, 1.570796, 0.785398])
PERIOD, COUNT = 0.002, 5
PANDA = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
JUMPING = TargetLimits(*(np.full(2, np.inf) for _ in range(3)))
MOST = ('motion',) * 5
CASES = {
    'as it comes': (Task(),),
    'targets that jump': (Task(limits=JUMPING),),
    'a spring': (Task(gains=Stiffness([30.0] * 3 + [600.0] * 3), limits=JUMPING),),
    'axes of force': (Task(axes=MOST + ('force',)),),
    'axes that turn with another link': (Task(frame='panda_link3', axes=MOST + ('free',)),),
    'two tasks': (Task(), Task(name='elbow', link='panda_link4', axes=('free',) * 5 + ('motion',))
                  ),
    'a point to look at': (Task(kind=LookAt([0.0, 0.0, 1.0])),),
}


FRICTION = Friction(np.full(7, 0.5), np.full(7, 0.1))
MORE = {
    'friction, observer and compensation': {
        'friction': FRICTION, 'observation': Observation(), 'disturbance': Disturbance()},
    'a driver that compensates gravity': {'driver': Driver(PANDA, 'gravity')},
    'observer and driver': {'observation': Observation(), 'disturbance': Disturbance(),
                            'driver': Driver(PANDA, 'gravity')},
}
# the observer of a law computes the driver's torques by another function than the compiled step
TOLERANCES = {'observer and driver': 1e-9}


def states(count, ticks, seed):
    """Yield random states of moving arms, near their limits now and then."""
    rng = np.random.default_rng(seed)
    q = HOME + 0.3 * rng.uniform(-1.0, 1.0, (count, 7))
    for k in range(ticks):
        if k % 50 == 0:
            qd = rng.uniform(-0.5, 0.5, (count, 7))
        q = q + PERIOD * qd
        yield 1.0 + PERIOD * k, q, qd


@pytest.mark.parametrize('kind', first_quick([*CASES, *MORE], 3))
def test_torques_are_those_of_as_many_laws_to_the_last_bit(kind):
    given = MORE.get(kind) or {'tasks': CASES[kind]}
    settings, rng = Settings.of(PANDA, **given), np.random.default_rng(1)
    laws = [Law(PANDA, settings) for _ in range(COUNT)]
    many = Controllers(laws[0], COUNT)
    for k, (time, q, qd) in enumerate(states(COUNT, 300, 2)):
        if k == 0:
            many.hold(q)
            for law, one in zip(laws, q):
                law.hold(one)
        if k in (20, 90, 150):
            poses = np.array([law.pose for law in laws])
            poses[:, :3, 3] += rng.uniform(-0.1, 0.1, (COUNT, 3))
            many.follow(poses)
            for law, goal in zip(laws, poses):
                law.follow(goal)
        if k in (60, 200):  # one of them gets commands of its own
            i = k % COUNT
            with many.one(i) as law:
                command(law, time)
            command(laws[i], time)
        if k == 250:
            many.hold(q[1:3], [1, 2])
            laws[1].hold(q[1]), laws[2].hold(q[2])
        found = many.torque(time, q, qd)
        for i, law in enumerate(laws):
            np.testing.assert_allclose(found[i], law.torque(time, q[i], qd[i]), 0.0,
                                       TOLERANCES.get(kind, 0.0), err_msg=f'{k} {i}')
            law.plan()
        np.testing.assert_array_equal(many.poses(), [law.pose for law in laws])


def command(law, time):
    """Command a twist, then a path, and a posture."""
    law.follow(TwistGoal([0.0, 0.0, 0.1, 0.05, 0.0, 0.0], until=time + 0.1))
    law.follow(Path([time + 0.2, time + 1.2], [law.pose, law.pose]), time + 0.1)
    law.set_posture(HOME + 0.1)


def test_controllers_see_what_they_are_not_told_of_others():
    """Commands, latches and faults of some controllers change nothing of the others."""
    law = Law(PANDA)
    alone, many = Controllers(law, 2), Controllers(law, 4, threads=1)
    for k, (time, q, qd) in enumerate(states(4, 100, 4)):
        if k == 0:
            alone.hold(q[:2]), many.hold(q)
        if k == 30:
            pose = many.poses()[2:]
            pose[:, :3, 3] += 0.05
            many.follow(pose, which=[2, 3])
        if k == 50:
            q, out = q.copy(), np.zeros((4, 7))
            q[3, 2] = np.nan
            with pytest.raises(InputError, match='controller 3: q .*finite'):
                many.torque(time, q, qd, out)
            assert np.isnan(out[3]).all() and np.isfinite(out[:3]).all()
        else:
            out = many.torque(time, q, qd)
        np.testing.assert_array_equal(out[:2], alone.torque(time, q[:2], qd[:2]))


def test_bad_input_of_controllers_is_refused_by_name():
    law = Law(PANDA)
    with pytest.raises(InputError, match='count.* 0.*(give|must be)'):
        Controllers(law, 0)
    with pytest.raises(InputError, match="'dense'.*compiled"):
        Controllers(Law(PANDA, method='dense'), 2)
    many, q = Controllers(law, 3), np.tile(HOME, (3, 1))
    before = many.torque(0.0, q, 0.0 * q)
    for call, words in (
            (lambda: many.torque(0.0, q[:2], q), r'q .*\(2, 7\)'),
            (lambda: many.torque(np.nan, q, q), 'time .*finite'),
            (lambda: many.hold(q[:2]), r'\(2, 7\)'),
            (lambda: many.hold(q[:1], [7]), 'which: .*(give|must be).* 3'),
            (lambda: many.follow(np.zeros((3, 4, 4))), 'poses 0 .*rotation'),
            (lambda: copy(many), 'copied'),
            (lambda: many.follow(many.poses(), 'elbow'), "'elbow'")):
        with pytest.raises(InputError, match=words):
            call()
    with pytest.raises(InputError, match='settings.*controller 1'):
        with many.one(1) as one:
            one.change(replace(one.settings, blend_time=0.5))
    with pytest.raises(InputError, match='one at a time'):
        with many.one(0), many.one(1):
            pass
    np.testing.assert_array_equal(many.torque(0.0, q, 0.0 * q), before)
    with many.one(0) as one:  # after the refused change
        goal = one.pose
        goal[2, 3] += 0.05
        one.follow(goal)
    for k in range(1, 200):
        many.torque(0.002 * k, q, 0.0 * q)
    with many.one(0) as one:
        np.testing.assert_allclose(one.target.pose, goal, atol=1e-9)
    with many.one(2) as one:
        np.testing.assert_allclose(one.target.pose, one.pose, atol=1e-9)


def test_motion_that_was_commanded_before_is_that_of_each_controller():
    law = Law(PANDA)
    law.hold(HOME)
    goal = law.pose
    goal[2, 3] += 0.05
    law.follow(goal, 0.01)
    many, q = Controllers(law, 3), np.tile(HOME, (3, 1))
    for k in range(500):
        found, tau = many.torque(0.002 * k, q, 0.0 * q), law.torque(0.002 * k, HOME, 0.0 * HOME)
        law.plan()
        np.testing.assert_array_equal(found, np.tile(tau, (3, 1)))
    np.testing.assert_allclose(law.target.pose, goal, atol=1e-9)


def test_controllers_that_were_not_latched_hold_where_the_arms_are():
    q = HOME + 0.1 * np.arange(3)[:, None]
    many = Controllers(Law(PANDA), 3)
    found = many.torque(0.0, q, 0.0 * q)
    for one, tau in zip(q, found):
        np.testing.assert_array_equal(tau, Law(PANDA).torque(0.0, one, 0.0 * one))


def test_what_a_controller_says_of_its_last_state_is_what_a_law_says():
    settings = Settings.of(PANDA, friction=FRICTION, observation=Observation(),
                           disturbance=Disturbance())
    law, q, qd = Law(PANDA, settings), np.tile(HOME, (2, 1)), np.full((2, 7), 0.1)
    many = Controllers(law, 2)
    for k in range(50):
        many.torque(0.002 * k, q, qd)
        law.torque(0.002 * k, q[0], qd[0])
    with many.one(1) as one:
        np.testing.assert_array_equal(one.compensation, law.compensation)
        for name, part in law.terms().items():
            np.testing.assert_array_equal(one.terms()[name], part, name)
