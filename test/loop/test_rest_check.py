# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The start-up check of efforts, on efforts from MuJoCo with friction and noise."""

from collections import Counter
from dataclasses import replace
import sys
from threading import Event, Thread

import mujoco
import numpy as np
import pytest

from arm import READY
from common import CHECKOUT
from judge import robot_cases
from osc_ros import Robot
from osc_ros.errors import InputError
from osc_ros.loop.rest_check import compare_efforts, SHARE, StartupStatistics, Verdict
from osc_ros.sim import Plant

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
ARMS = ('panda', 'ur5', 'ur10', 'kinova', 'iiwa_like', 'xarm7')
POSES = 12
STICTION = 0.6  # relative to the tolerance: largest friction torque, of either sign
NOISE = 0.1  # relative to the tolerance: standard deviation of an averaged effort
WELL, COMPENSATED, MASS, SIGN_OR_ORDER, GRAVITY, UNEXPLAINED, UNCLEAR = Verdict


class Bench:
    """One arm at rest in MuJoCo; its measured efforts have friction and noise."""

    def __init__(self, name, seed=0):
        case = robot_cases()[name]
        self.case, self.rng = case, np.random.default_rng(seed)
        self.robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
        self.plant = Plant(case.urdf_text, case.base, self.robot.joint_names, locked=case.locked)
        limits = np.array(self.robot.effort_limits)
        self.limits = np.where(np.isfinite(limits), limits, 100.0)
        self.tolerance = SHARE * self.limits

    def pose(self):
        """Return random joint positions in the middle two thirds of the limits."""
        lower, upper = np.clip(self.robot.position_limits.T, -np.pi, np.pi)
        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        return middle + 0.67 * half * self.rng.uniform(-1.0, 1.0, self.robot.n)

    def telling_pose(self):
        """Return random joint positions at which a gravity torque exceeds three tolerances."""
        q = self.pose()
        while not self.telling(q).size:
            q = self.pose()
        return q

    def weight(self, q, mass=0.0, at=(0.0, 0.0, 0.0)):
        """Return the gravity torques, with an additional mass at a point in the tip's frame."""
        plant = self.plant
        plant.reset(np.clip(q, *self.robot.position_limits.T))
        model, data = plant.model, plant._data
        mujoco.mj_forward(model, data)
        held = data.qfrc_bias.copy()
        T = plant.pose(self.case.tip)
        point = np.linalg.inv(plant._T_base_root) @ T @ [*at, 1.0]
        pulled = np.zeros(model.nv)
        mujoco.mj_applyFT(model, data, mass * model.opt.gravity, np.zeros(3), point[:3],
                          plant._links[self.case.tip], pulled)
        return (held - pulled)[plant._at]

    def measured(self, torques):
        """Return the efforts that a driver would report: the torques with friction and noise."""
        return torques + self.tolerance * (
            STICTION * self.rng.uniform(-1.0, 1.0, torques.shape)
            + np.clip(NOISE * self.rng.normal(size=torques.shape), -0.4, 0.4))

    def judged(self, q, efforts):
        return compare_efforts(self.robot, q, efforts, self.tolerance)

    def telling(self, q):
        """Return the indices of joints whose gravity torque exceeds three tolerances."""
        return np.flatnonzero(np.abs(self.weight(q)) > 3.0 * self.tolerance)


def well(bench, q):
    return bench.weight(q)


def compensated(bench, q):
    return np.zeros(bench.robot.n)


def mass(bench, q):
    # a mass whose weight is four tolerances in the joint with the largest effect
    felt = np.abs(bench.weight(q, 1.0) - bench.weight(q)) / bench.tolerance
    return bench.weight(q, 4.0 / felt.max(), bench.rng.uniform(-0.05, 0.05, 3))


def sign(bench, q):
    efforts = bench.weight(q)
    efforts[bench.rng.choice(bench.telling(q))] *= -1.0
    return efforts


def order(bench, q):
    efforts = bench.weight(q)
    one = bench.rng.choice(bench.telling(q))
    far = np.flatnonzero(np.abs(efforts - efforts[one])
                         > 3.0 * np.maximum(bench.tolerance, bench.tolerance[one]))
    other = bench.rng.choice(far)
    efforts[[one, other]] = efforts[[other, one]]
    return efforts


TRUTHS = {'well': (well, WELL), 'compensated': (compensated, COMPENSATED), 'mass': (mass, MASS),
          'sign': (sign, SIGN_OR_ORDER), 'order': (order, SIGN_OR_ORDER)}


def table(told):
    """Return the text of doc/measurements/startup_check.md."""
    columns = 'robot', 'simulated case', *(verdict.value for verdict in Verdict)
    lines = [f'| {" | ".join(columns)} |', '| - | - |' + ' -: |' * len(Verdict)]
    lines += [f'| {name} | {truth} | '
              + ' | '.join(str(counts[verdict] or '') for verdict in Verdict) + ' |'
              for (name, truth), counts in told.items()]
    return HEAD.format(poses=POSES, share=100 * SHARE) + '\n'.join(lines) + '\n'


HEAD = """# How reliable the start-up check is

The table counts the findings for {poses} random poses of each robot at rest, with efforts from
MuJoCo. In every joint friction carries up to 60 % of the tolerance, with either sign, and the
averaged efforts have noise with a standard deviation of 10 % of the tolerance. The tolerance is
{share:g} % of the joint's effort limit.

Simulated cases:

- well: the model is right; compensated: the efforts do not contain the weight, because the driver
  compensates gravity or because brakes hold the arm, which the check cannot tell apart;
- mass: the arm carries a body at the tip that the model lacks; its weight is four tolerances in
  the joint with the largest effect;
- sign: the effort of one joint has the opposite sign; order: the efforts of two joints are
  swapped. These are joints that carry a weight of more than three tolerances; for other joints
  the check cannot distinguish these cases.

To write this page again: `make test-all ARGS='-k is_told_from --write-tables'`.

"""


@pytest.mark.parametrize('arms', [
    ARMS[:1], pytest.param(ARMS, marks=pytest.mark.slow)], ids=('one', 'all'))
def test_what_is_wrong_is_told_from_what_is_right(request, arms):
    told = {}
    for name in arms:
        bench = Bench(name)
        for truth, (efforts, verdict) in TRUTHS.items():
            found = [bench.judged(q, bench.measured(efforts(bench, q)))
                     for q in (bench.telling_pose() for _ in range(POSES))]
            counts = told[name, truth] = Counter(one.verdict for one in found)
            assert counts[verdict] + counts[UNCLEAR] == POSES, [str(one) for one in found]
            assert counts[UNCLEAR] <= 2
            if truth in ('well', 'compensated'):
                assert counts[verdict] == POSES
    if arms == ARMS and request.config.getoption('--write-tables'):
        (CHECKOUT / 'doc' / 'measurements' / 'startup_check.md').write_text(table(told))


@pytest.mark.parametrize('name', ARMS)
@pytest.mark.parametrize('share', [0.0, 1.0, 6.0])
def test_mass_that_the_model_lacks_is_within_what_is_said(name, share):
    bench = Bench(name, seed=1)
    for _ in range(3):
        q = bench.telling_pose()
        felt = np.abs(bench.weight(q, 1.0) - bench.weight(q)) / bench.tolerance
        true = share / felt.max()
        found = bench.judged(q, bench.measured(bench.weight(q, true, (0.02, 0.0, 0.03))))
        low, high = found.mass
        assert low <= true <= high
        assert high - low < 16.0 / felt.max()


def test_more_poses_tell_the_mass_more_exactly():
    bench = Bench('panda', seed=2)
    poses = [bench.telling_pose() for _ in range(6)]
    efforts = [bench.measured(bench.weight(q, 1.5)) for q in poses]
    one, all_ = bench.judged(poses[0], efforts[0]).mass, bench.judged(poses, efforts).mass
    assert one[0] <= all_[0] <= 1.5 <= all_[1] <= one[1]
    assert all_[1] - all_[0] < 0.5 * (one[1] - one[0])


def test_reason_names_the_joint_and_the_mass():
    bench = Bench('panda')
    weight = bench.weight(READY)
    turned = weight.copy()
    turned[3] *= -1.0
    assert str(bench.judged(READY, turned)) == (
        "the sign or order of joints is wrong: the efforts of 'panda_joint4' have another sign")
    swapped = weight[[0, 3, 2, 1, 4, 5, 6]]
    assert "'panda_joint2', 'panda_joint4' are swapped" in str(bench.judged(READY, swapped))
    heavier = bench.judged(READY, bench.weight(READY, 2.0))
    assert heavier.verdict is MASS
    assert 'at the tip the arm carries ' in heavier.reason
    assert 'kg more than the controller is told' in heavier.reason
    told = Bench('panda').robot.with_payload(3.0)
    lighter = compare_efforts(told, READY, weight)
    assert 'at the tip the arm carries ' in lighter.reason
    assert 'kg less than the controller is told' in lighter.reason
    assert 'between' in bench.judged(READY, weight).reason


def test_joints_that_turn_the_other_way_are_named():
    bench = Bench('ur10')
    q = np.array([0.3, -0.8, 0.6, 0.9, 0.4, 0.2])
    sign = np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    found = bench.judged(sign * q, sign * bench.weight(q))
    assert found.verdict is SIGN_OR_ORDER
    assert f"'{bench.robot.joint_names[2]}' turns the other way" in found.reason
    order = [0, 2, 1, 3, 4, 5]
    found = bench.judged(q[order], bench.weight(q)[order])
    assert found.verdict is SIGN_OR_ORDER
    assert "'shoulder_lift_joint', 'elbow_joint' are swapped" in found.reason


def test_mass_of_another_body_is_said_to_be_off():
    bench = Bench('panda')
    heavier = bench.robot.with_payload(4.0, link='panda_link3')
    poses = [bench.telling_pose() for _ in range(4)]
    found = compare_efforts(heavier, poses, [bench.measured(bench.weight(q)) for q in poses])
    assert found.verdict is MASS
    assert "the body that joint 'panda_joint3' moves has " in found.reason
    assert 'kg less than the controller is told' in found.reason


def test_efforts_that_are_no_torques_are_not_explained_away():
    bench = Bench('ur10', seed=3)
    currents = np.array([0.1, 0.12, 0.09, 0.4, 0.35, 0.3])
    q = bench.telling_pose()
    found = bench.judged(q, bench.weight(q) * currents + 20.0 * bench.tolerance
                         * bench.rng.choice([-1.0, 1.0], 6))
    assert found.verdict is UNEXPLAINED
    assert 'N m where its weight asks for' in found.reason


def test_where_the_weight_loads_no_joint_it_says_that_it_cannot_tell():
    bench = Bench('panda')
    upright = np.array([0.0, 0.0, 0.0, -0.07, 0.0, 0.0, 0.0])
    found = compare_efforts(bench.robot.with_gravity((0.0, 0.0, 0.0)), upright, np.zeros(7))
    assert found.verdict is UNCLEAR
    assert 'the weight hardly loads a joint here' in found.reason


def test_robots_without_limits_of_effort_are_checked_too():
    bench = Bench('panda')
    unlimited = replace(bench.robot, effort_limits=np.full(7, np.inf))
    assert compare_efforts(unlimited, READY, bench.weight(READY)).verdict is WELL
    assert compare_efforts(unlimited, READY, np.zeros(7)).verdict is COMPENSATED


def test_friction_that_is_known_widens_what_is_accepted():
    bench = Bench('panda')
    stuck = bench.weight(READY) + 3.0
    assert compare_efforts(bench.robot, READY, stuck).verdict is not WELL
    assert compare_efforts(bench.robot, READY, stuck, friction=np.full(7, 3.0)).verdict is WELL


@pytest.mark.parametrize('given, message', [
    ({'q': np.zeros(6)}, r'^q .*\(1, 6\), (give|must be).*\(1, 7\)'),
    ({'efforts': np.full(7, np.nan)}, 'efforts .*finite'),
    ({'tolerance': np.ones(3)}, r'tolerance .*\(3,\)'),
])
def test_what_cannot_be_compared_is_refused(given, message):
    bench = Bench('panda')
    with pytest.raises(InputError, match=message):
        compare_efforts(bench.robot, **{'q': READY, 'efforts': np.zeros(7)} | given)


def test_an_arm_that_moves_never_has_enough_states_for_another_thread():
    """Another thread asks at any moment, also while the states begin anew."""
    rest, seen, is_over = StartupStatistics(), [], Event()
    rest.add(READY, np.zeros(7))

    def look():
        while not is_over.is_set():
            seen.append(rest.is_enough)

    before, thread = sys.getswitchinterval(), Thread(target=look)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for k in range(20_000):
            rest.add(READY + 0.02 * (k % 11), np.zeros(7))
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(before)
    assert len(seen) > 1000 and not any(seen)
