# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One long chain in segments that are the lanes of one core, compared with one sweep."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest

from common import PATIENCE
from judge import random_urdf
from osc_ros import OperationalSpace, Robot
from osc_ros.compile.lane_arrays import WIDTH
from osc_ros.dynamics.chain.chain_bodies import packed_robot
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.contract.plan import Workers
from osc_ros.dynamics.segments.lane_segments import lane_split
from osc_ros.dynamics.segments.members import ByTurns, compile_for
from osc_ros.dynamics.segments.segmented import Segmented
from osc_ros.dynamics.teams import planning
from osc_ros.dynamics.teams.pace import INWARD, OUTWARD, Pace
from osc_ros.dynamics.teams.parallel import Parallel
from rods import rods
from tolerances import TEAM_AGREEMENT

pytestmark = [pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning'),
              pytest.mark.skipif(WIDTH == 1, reason='the processor has no vector register')]


def chain(seed, n):
    """Return a chain of n revolute joints with random bodies, half of them with rotors."""
    rng = np.random.default_rng(seed)
    rotors = np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0.0, 0.2, n))
    arm = Robot.from_urdf(random_urdf(seed, 16), 'link_0', 'tool')
    some = rng.integers(0, arm.n, n)
    return replace(rods(n), T_parent_body=arm.T_parent_body[some], inertia=arm.inertia[some],
                   rotor_inertia=rotors)


def state(n, seed):
    """Return random q, q̇, u, τ⁰ and q̈ₚ."""
    rng = np.random.default_rng(seed)
    q, qd, tau, qdd = rng.normal(size=(4, n))
    return q, qd / n, rng.normal(size=6), tau, qdd / n


def difference(found, expected):
    """Return the largest difference, relative to the largest entry."""
    return np.abs(found - expected).max() / np.abs(expected).max()


def in_lanes(robot):
    return Segmented(robot, lane_split(packed_robot(robot)[0], 1))


def team_in_lanes(robot, members, deadline=PATIENCE):
    return Parallel(robot, Workers(members, deadline=deadline),
                    lane_split(packed_robot(robot)[0], members), 1e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(WIDTH, 8 * WIDTH), st.integers(0, 10 ** 6), st.booleans(), st.booleans())
def test_lanes_give_the_torques_of_one_sweep(n, seed, with_tau, with_qdd):
    robot = chain(seed % 97, n)
    q, qd, u, tau, qdd = state(n, seed)
    found, expected = np.empty((2, n))
    lanes, sweep = in_lanes(robot), Sweep(robot)
    for gravity in (robot.gravity, np.array([1.0, 2.0, 3.0])):
        lanes.gravity[:] = sweep.gravity[:] = gravity
        for method, out in ((lanes, found), (sweep, expected)):
            assert method.torque(q, qd, u, tau if with_tau else None,
                                 qdd if with_qdd else None, out) == DONE
        rounding = 10.0 * np.finfo(float).eps * np.linalg.cond(sweep.Lambda_inv)
        assert difference(found, expected) < max(TEAM_AGREEMENT, rounding)
        for name in ('Lambda_inv', 'a0', 'pose', 'twist'):
            assert difference(getattr(lanes, name), getattr(sweep, name)) < TEAM_AGREEMENT


def test_lanes_agree_with_pinocchio():
    n = 8 * WIDTH + 5
    robot = rods(n)
    model = pin.Model()
    for i in range(n):
        placement = pin.SE3(robot.T_parent_body[i])
        joint = model.addJoint(i, pin.JointModelRZ(), placement, f'joint_{i}')
        mass, inertia = robot.inertia[i][5, 5], robot.inertia[i]
        centre = np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]]) / mass
        skew = pin.skew(centre)
        model.appendBodyToJoint(joint, pin.Inertia(
            mass, centre, inertia[:3, :3] + mass * skew @ skew), pin.SE3.Identity())
    tip = model.addFrame(pin.Frame('tip', n, 0, pin.SE3(robot.frames['tip'][1]),
                                   pin.FrameType.OP_FRAME))
    data, method = model.createData(), in_lanes(robot)
    q, qd, u, tau, _ = state(n, 3)
    torque = np.empty(n)
    assert method.torque(q, qd, u, tau, None, torque) == DONE
    qdd = pin.aba(model, data, q, qd, torque)
    pin.forwardKinematics(model, data, q, qd, qdd)
    found = pin.getFrameClassicalAcceleration(model, data, tip, pin.LOCAL_WORLD_ALIGNED)
    found = np.concatenate([found.angular, found.linear])
    assert np.abs(found - u).max() < 1e-9 * (1.0 + np.abs(qdd).max())


# The kernels of a team in lanes take half a minute to compile. Quick: the same kernels without a
# team here, and teams that sweep in test_parallel.py.
@pytest.mark.slow
@pytest.mark.parametrize('members', [2, 3])
def test_members_by_turns_give_the_torques_of_one_sweep(members):
    n = 3 * WIDTH * members + 5
    robot = chain(members, n)
    split = lane_split(packed_robot(robot)[0], members)
    compile_for(split)
    team, sweep = ByTurns(*packed_robot(robot), split), Sweep(robot)
    q, qd, u, tau, qdd = state(n, members)
    found, expected = np.empty((2, n))
    for given_tau, given_qdd in ((None, None), (None, qdd), (tau, None), (tau, qdd)):
        for _ in range(2):
            assert team.outward(q, qd, given_tau, given_qdd, sweep._tip.copy()) == DONE
            sweep.outward(q, qd, given_tau, given_qdd)
            for F in (u, -2.0 * u):
                assert team.inward(F, found) == DONE
                sweep.inward(F, expected)
                assert difference(found, expected) < TEAM_AGREEMENT


@pytest.mark.slow  # see test_members_by_turns_give_the_torques_of_one_sweep
def test_a_team_in_lanes_gives_the_bits_of_its_members_by_turns():
    robot = chain(5, 4 * WIDTH + 3)
    q, qd, u, tau, qdd = state(robot.n, 5)
    team = team_in_lanes(robot, 2)
    try:
        for given_tau, given_qdd in ((None, None), (tau, qdd)):
            found = []
            for k in range(40):
                team._pace._pause = k % 2 * 2  # every second call pauses the team
                out = np.empty(robot.n)
                assert team.torque(q, qd, u, given_tau, given_qdd, out) == DONE
                assert isinstance(team._led, ByTurns) == (k % 2 == 1)
                found.append(out.tobytes())
            assert len(set(found)) == 1
            J, expected = np.empty((2, 6, robot.n))
            team.jacobian(J)
            sweep = Sweep(robot)
            sweep.outward(q, qd, given_tau, given_qdd)
            sweep.jacobian(expected)
            assert difference(J, expected) < TEAM_AGREEMENT
        assert team.faults == ()
    finally:
        team.close()
    assert team.torque(q, qd, u, tau, qdd, out) == DONE and out.tobytes() == found[0]


def test_what_is_not_finite_or_does_not_fit_is_reported_and_the_next_call_is_right():
    robot = chain(2, 5 * WIDTH + 1)
    method = in_lanes(robot)
    q, qd, u, tau, _ = state(robot.n, 1)
    first, out = np.empty((2, robot.n))
    assert method.torque(q, qd, u, tau, None, first) == DONE
    for k in (0, 1, WIDTH, robot.n - 1):
        for bad in (np.nan, np.inf, 1e300):
            wrong = qd.copy()
            wrong[k] = bad
            assert method.torque(q, wrong, u, tau, None, out) == NOT_FINITE
    assert method.torque(q[1:], qd, u, tau, None, out) == WRONG_SHAPE
    assert method.torque(q, qd, u[1:], tau, None, out) == WRONG_SHAPE
    assert method.torque(q, qd, u, tau[1:], None, out) == WRONG_SHAPE
    assert method.torque(q, qd, u, tau, None, out) == DONE and np.array_equal(out, first)


def test_chains_that_do_not_fit_lanes_have_no_split():
    robot = chain(1, 2 * WIDTH)
    links = packed_robot(robot)[0]
    assert lane_split(links, 1).lengths == (2,) and lane_split(links, 2).lengths == (1, 1)
    assert lane_split(links, 3) is None and lane_split(links[:WIDTH - 1], 1) is None
    sliding = robot.prismatic.copy()
    sliding[3] = True
    assert lane_split(packed_robot(replace(robot, prismatic=sliding))[0], 1) is None


@pytest.mark.skipif(WIDTH < 8, reason='lanes are used without being asked for with AVX-512 only')
def test_long_chains_use_lanes_and_short_ones_do_not(monkeypatch):
    robot, short = chain(1, 4 * WIDTH), chain(1, 2 * WIDTH)
    monkeypatch.setattr(planning, 'LEAST_IN_LANES', 4 * WIDTH)
    assert isinstance(OperationalSpace(robot).dynamics, Segmented)
    assert type(OperationalSpace(short).dynamics) is Sweep
    assert type(OperationalSpace(replace(robot, prismatic=~robot.prismatic)).dynamics) is Sweep
    # so that a law has its compiled tick, as with `Sweep`
    assert Segmented.outward is Sweep.outward and Parallel.outward is not Sweep.outward


@pytest.mark.slow  # see test_members_by_turns_give_the_torques_of_one_sweep
@pytest.mark.skipif(WIDTH < 8, reason='lanes are used without being asked for with AVX-512 only')
def test_a_team_of_a_long_chain_may_use_lanes(monkeypatch):
    monkeypatch.setattr(planning, 'LEAST_IN_LANES', 4 * WIDTH)
    with OperationalSpace(chain(1, 4 * WIDTH), workers='auto') as osc:
        assert type(osc.dynamics) in (Segmented, Parallel)


def test_a_team_that_loses_time_pauses_and_tries_again():
    pace, taken, shares = Pace(1e-3, 1e-3), 0.0, []
    for _ in range(20_000):
        pace.begin()
        by_team = not pace.is_pause
        seconds = 5e-3 if by_team else 1e-3  # [s], each of both parts
        for part in (OUTWARD, INWARD):
            pace.add(part, seconds, by_team)
        taken += 2 * seconds
        shares.append(by_team)
    assert taken < 1.06 * 20_000 * 2e-3
    assert 0 < sum(shares[10_000:]) < 300


def test_a_team_that_gains_time_goes_on_in_spite_of_single_delays():
    pace = Pace(1e-3, 1e-3)
    for k in range(10_000):
        pace.begin()
        assert not pace.is_pause
        pace.add(OUTWARD, 2e-2 if k % 50 == 0 else 5e-4, True)
        pace.add(INWARD, 5e-4, True)


@pytest.mark.slow
@pytest.mark.parametrize('workers', [1, 2])
def test_4096_joints_agree_with_one_sweep_and_every_repeat_has_the_same_bits(workers):
    robot = rods(4096)
    q, qd, u, tau, qdd = state(robot.n, 0)
    sweep, expected = Sweep(robot), np.empty(robot.n)
    with OperationalSpace(robot, workers=Workers(workers, deadline=PATIENCE)) as osc:
        for given_tau, given_qdd in ((None, None), (tau, None), (None, qdd), (tau, qdd)):
            sweep.torque(q, qd, u, given_tau, given_qdd, expected)
            found = [osc.torque(q, qd, u, given_tau, given_qdd) for _ in range(200)]
            assert difference(found[0], expected) < TEAM_AGREEMENT
            assert len({torque.tobytes() for torque in found}) == 1
        assert osc.plan.faults == ()
