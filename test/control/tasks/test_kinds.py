# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Kinds of tasks: contract of every kind, by Pinocchio, and look-at tasks in MuJoCo."""

from dataclasses import replace

import numpy as np
import pinocchio
import pytest

from arm import Arm, JUMPS, moved, PANDA, PERIOD, READY
from judge import configuration, pinocchio_model
from osc_ros.control.law import Law
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator, TwistGoal
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.tasks.feedback import KINDS, Pose
from osc_ros.control.tasks.look_at import BEHIND, LookAt, OFF, ON
from osc_ros.control.tasks.task import (
    Gains,
    NO_ROTATION,
    pose,
    Stiffness,
    Target,
    TargetLimits,
    Task,
)
from osc_ros.errors import InputError
import tolerances
from variants import first_quick

GAINS = Gains([20.0] * 6, [1.0] * 6, [2.5, 1.0], [60.0, 20.0])
# Gains so low that only the feedforward acts.
FEEBLE = Gains([1e-3] * 6, [1e-3] * 6, [2.5, 1.0], [60.0, 20.0])
CASES = {'pose': Pose(), 'look_at': LookAt((0.3, -0.5, 0.8))}
LINK = 'panda_hand'
POSITION = Task(GAINS, axes=('free',) * 3 + ('motion',) * 3)
GAZE = Task(GAINS, 'gaze', LINK, kind=LookAt())
FAST = np.full(7, 100.0)  # velocity limits that no task reaches [rad/s]
STEP = 1e-5  # time step of the difference quotients [s]


def at(point):
    """Return the goal of a look-at task that looks at `point`."""
    return PoseGoal(pose(point, NO_ROTATION))


def angle_between(axis, direction):
    """Return the angle between two directions [rad], precise for small angles and near π."""
    return np.arctan2(np.linalg.norm(np.cross(axis, direction)), axis @ direction)


def still(target, time=0.0):
    """Return a guide with this target, with its twist and acceleration, at a time [s]."""
    guide = SetPointGenerator(target.pose)
    guide._settle(Path([time, time + 1.0], [target.pose] * 2, [target.twist] * 2,
                       [target.acceleration] * 2))
    return guide


class Link:
    """A link of the shipped Panda by Pinocchio: pose, twist and acceleration, base axes."""

    def __init__(self, link=LINK):
        """Choose the link."""
        self._model, self._data, _ = pinocchio_model(
            PANDA.urdf_text, PANDA.base, PANDA.tip, [f'panda_joint{k}' for k in range(1, 8)], {})
        self._frame = self._model.getFrameId(link)

    def at(self, q, qd, qdd):
        """Return pose (4, 4), twist (6,) and acceleration (6,)."""
        model, data, axes = self._model, self._data, pinocchio.LOCAL_WORLD_ALIGNED
        pinocchio.forwardKinematics(model, data, configuration(model, q), qd, qdd)
        pinocchio.updateFramePlacements(model, data)
        v = pinocchio.getFrameVelocity(model, data, self._frame, axes)
        a = pinocchio.getFrameClassicalAcceleration(model, data, self._frame, axes)
        return (data.oMf[self._frame].homogeneous, np.hstack([v.angular, v.linear]),
                np.hstack([a.angular, a.linear]))

    def driven(self, q, qd, tau):
        """Return pose, twist and acceleration under torques."""
        return self.at(q, qd, pinocchio.aba(self._model, self._data,
                                            configuration(self._model, q), qd, tau))


class Motion:
    """A random motion of joints and set-point with constant accelerations, around t = 0."""

    def __init__(self, kind, seed, error):
        """Draw the motion; with `error` 0 the link is at the set-point at t = 0."""
        rng = np.random.default_rng(seed)
        self.q, self.qd, self.qdd = (READY + 0.3 * rng.normal(size=7), 0.5 * rng.normal(size=7),
                                     rng.normal(size=7))
        self.link = Link()
        there = kind.set_point(self.link.at(self.q, self.qd, self.qdd)[0])
        self.target = moved(there, *(error * rng.normal(size=(2, 3))))
        self.twist, self.acceleration = np.zeros((2, 6))
        self.twist[3:], self.acceleration[3:] = rng.normal(size=(2, 3))

    def joints(self, t):
        """Return joint positions and velocities at t."""
        return self.q + t * self.qd + 0.5 * t * t * self.qdd, self.qd + t * self.qdd

    def set_point(self, t):
        """Return the target."""
        return Target(moved(self.target, t * self.twist[3:] + 0.5 * t * t * self.acceleration[3:]),
                      self.twist + t * self.acceleration, self.acceleration)


def axes_and_map(d, i):
    """Return the rotation of the axes of level i (6, 6), and its map of the link's twist."""
    T = np.kron(np.eye(2), d.level_frame[i].reshape(3, 3))
    return T, d.level_map[i].reshape(6, 6).copy() if d.is_mapped[i] else np.eye(6)


def observed(law, motion, t):
    """Return the law's error, rate in base axes, rate in task axes, S and u at time t."""
    [level], d = law.levels.values(), law.priorities.d
    level.generator = still(motion.set_point(t), t)
    law.torque(t, *motion.joints(t))
    T, S, rate = *axes_and_map(d, 0), d.level_rate[0].copy()
    return level.error.copy(), T @ rate, rate, T.T @ S, T.T @ level.u


def test_every_kind_is_tested():
    assert set(CASES) == set(KINDS)
    assert all(KINDS[name].name == name for name in KINDS)


@pytest.fixture(scope='module')
def laws():
    """Return a law for each kind, with negligible feedback."""
    return {name: Arm(tasks=(Task(FEEBLE, link=LINK, kind=kind),)).law
            for name, kind in CASES.items()}


@pytest.mark.parametrize('name', CASES)
class TestContract:
    """Values that a kind writes, compared with difference quotients along known motions."""

    @pytest.mark.parametrize('seed', range(5))
    def test_error_changes_with_the_rate(self, name, seed, laws):
        motion = Motion(CASES[name], seed, 0.0)
        before, after = (observed(laws[name], motion, t)[0] for t in (-STEP, STEP))
        error, rate, *_ = observed(laws[name], motion, 0.0)
        assert np.abs(error).max() < 1e-12
        np.testing.assert_allclose((after - before) / (2.0 * STEP), rate, atol=1e-6)

    @pytest.mark.parametrize('seed', range(5))
    def test_length_of_the_angular_error_changes_with_the_rate_along_it(self, name, seed, laws):
        motion = Motion(CASES[name], seed, 0.5)
        lengths = [np.linalg.norm(observed(laws[name], motion, t)[0][:3]) for t in (-STEP, STEP)]
        error, rate, *_ = observed(laws[name], motion, 0.0)
        if CASES[name].axes is not None and 'motion' not in CASES[name].axes[:3]:
            assert not error[:3].any()
            return
        along = error[:3] / np.linalg.norm(error[:3])
        assert np.linalg.norm(error[:3]) > 0.05
        np.testing.assert_allclose((lengths[1] - lengths[0]) / (2.0 * STEP), along @ rate[:3],
                                   atol=1e-6)

    @pytest.mark.parametrize('seed', range(5))
    def test_velocity_is_the_map_times_the_twist(self, name, seed, laws):
        motion = Motion(CASES[name], seed, 0.5)
        rate, S = observed(laws[name], motion, 0.0)[2:4]
        _, twist, _ = motion.link.at(motion.q, motion.qd, motion.qdd)
        stands = Motion(CASES[name], seed, 0.5)
        stands.qd, stands.qdd = np.zeros((2, 7))
        moves = np.array(laws[name].settings.tasks[0].axes) == 'motion'
        wanted = observed(laws[name], stands, 0.0)[2]
        np.testing.assert_allclose(rate[moves], (wanted - S @ twist)[moves], atol=1e-12)
        assert not rate[~moves].any()

    @pytest.mark.parametrize('seed', range(5))
    def test_rate_changes_by_the_wanted_acceleration_less_the_acceleration_and_the_drift(
            self, name, seed, laws):
        motion = Motion(CASES[name], seed, 0.5)
        before, after = (observed(laws[name], motion, t)[2] for t in (-STEP, STEP))
        *_, S, u = observed(laws[name], motion, 0.0)
        _, _, acceleration = motion.link.at(motion.q, motion.qd, motion.qdd)
        moves = np.array(laws[name].settings.tasks[0].axes) == 'motion'
        np.testing.assert_allclose(((after - before) / (2.0 * STEP))[moves],
                                   (u - S @ acceleration)[moves], atol=1e-5)

    def test_commanded_acceleration_is_met_alone_and_below_another_task(self, name):
        kind, compared = CASES[name], 0
        above = replace(POSITION, name='above', link='panda_link5',
                        axes=('free',) * 3 + ('free', 'motion', 'motion'))
        for tasks in ((), (above,)):
            axes = kind.axes or ('free',) * 3 + ('motion',) * 3
            arm = Arm(tasks=(*tasks, Task(GAINS, 'one', LINK, axes, kind=kind)), velocity=FAST,
                      effort=np.full(7, 1e3))
            for seed in range(8):
                motion = Motion(kind, seed, 0.05)
                level, d = arm.law.levels['one'], arm.law.priorities.d
                level.generator = still(motion.set_point(0.0))
                tau = arm.law.torque(0.0, motion.q, motion.qd)
                if arm.law.limiter.d.limits_work or arm.law.priorities.shares.min() < 1.0:
                    continue
                compared += 1
                T, S = axes_and_map(d, -1)
                _, _, acceleration = motion.link.driven(motion.q, motion.qd, tau)
                missed = T.T @ (S @ acceleration - level.u)
                assert np.abs(missed[np.array(axes) == 'motion']).max() < (
                    tolerances.COMMAND_MET * 60.0)
        assert compared >= 6


# errors of look-at tasks, compared with independent definitions

@pytest.mark.parametrize('seed', range(5))
def test_error_turns_the_axis_to_the_point_by_the_smallest_angle(seed, laws):
    kind = CASES['look_at']
    motion = Motion(kind, seed, 0.8)
    error, *_ = observed(laws['look_at'], motion, 0.0)
    T, _, _ = motion.link.at(motion.q, motion.qd, motion.qdd)
    axis = T[:3, :3] @ kind.axis / np.linalg.norm(kind.axis)
    way = motion.target[:3, 3] - T[:3, 3]
    assert np.linalg.norm(error[:3]) == pytest.approx(angle_between(axis, way), abs=1e-12)
    turned = pinocchio.exp3(error[:3]) @ axis
    np.testing.assert_allclose(turned, way / np.linalg.norm(way), atol=1e-12)
    assert abs(error[:3] @ axis) < 1e-12


@pytest.mark.parametrize('name', CASES)
def test_error_from_a_goal_is_the_error_from_a_set_point_there(name, laws):
    motion = Motion(CASES[name], 3, 0.5)
    error, *_ = observed(laws[name], motion, 0.0)
    np.testing.assert_allclose(CASES[name].error(laws[name].pose, motion.target), error,
                               atol=1e-12)


def test_distance_to_the_goal_is_the_angle_to_the_point_and_vanishes_there():
    arm = Arm(velocity=FAST, limits=TargetLimits(), tasks=(POSITION, GAZE))
    point = np.array([0.6, 0.2, 0.0])
    arm.law.follow(at(point), 0.0, 'gaze')
    found, (angles, look) = [], gazes(arm, point)
    arm.run(1.5, lambda: (look(), found.append(arm.law.levels['gaze'].approach().error())))
    lengths = [np.linalg.norm(error[:3]) for error in found[5:]]
    np.testing.assert_allclose(lengths, angles[4:-1], atol=1e-9)
    assert lengths[-1] < 1e-4 and not np.array(found)[5:, 3:].any()


@pytest.mark.parametrize('axis', [(0.0, 0.0, 2.0), (1.0, 0.0, 0.0), (-0.1, 0.2, -5.0)])
def test_axes_of_the_task_are_a_rotation_whose_third_is_the_axis(axis):
    R = LookAt(axis).numbers().reshape(3, 3)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(R) == pytest.approx(1.0)
    np.testing.assert_allclose(R[:, 2], axis / np.linalg.norm(axis), atol=1e-15)


@pytest.mark.parametrize('given, message', [
    ((0.0, 0.0, 0.0), r'axis \[0.0, 0.0, 0.0\]: (give|must be).*length'),
    ((0.0, np.nan, 1.0), r'axis \[0.0, nan, 1.0\]'),
    ((0.0, np.inf, 1.0), r'axis \[0.0, inf, 1.0\]'),
    ((0.0, 1.0), r'axis \[0.0, 1.0\]: (give|must be).*three'),
    ((1e308, 1e308, 0.0), 'to 1000'),
])
def test_axis_without_a_direction_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        LookAt(given)


@pytest.mark.parametrize('given, message', [
    ({'axes': ('motion',) * 3 + ('free',) * 3},
     "'gaze' .*look_at .*motion, motion, motion, free, .*motion, motion, free, free, "),
    ({'frame': LINK}, "'panda_hand': .*must be none"),
    ({'gains': Stiffness([50.0] * 6, [1.0] * 6, [10.0, 50.0])},
     'Stiffness: .*must be Gains'),
])
def test_task_that_does_not_fit_its_kind_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        replace(GAZE, **{'axes': ('motion',) * 6, **given})


def test_wrench_on_a_look_at_task_is_refused():
    arm = Arm(tasks=(GAZE,))
    with pytest.raises(InputError, match='axis 0.* 0 '):
        arm.law.set_wrench([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 'gaze')


# simulations in MuJoCo

def gazes(arm, point, link=LINK, axis=(0.0, 0.0, 1.0)):
    """Return a list, and a function that appends the simulated angle to the point [rad]."""
    angles = []

    def look():
        T = arm.plant.pose(link)
        angles.append(angle_between(T[:3, :3] @ axis, point - T[:3, 3]))

    return angles, look


def test_hand_keeps_looking_at_a_point_while_the_tip_moves(drawn):
    arm = Arm(velocity=FAST, limits=TargetLimits(), tasks=(POSITION, GAZE))
    point = np.array([0.6, 0.2, 0.0])
    arm.law.follow(at(point), 0.0, 'gaze')
    goal = moved(arm.pose, (0.05, -0.2, 0.05))
    arm.law.follow(PoseGoal(goal), 1.0, 'tip')
    angles, look = gazes(arm, point)
    arm.run(2.5, look)
    times, angles = np.array(arm.times), np.array(angles)
    distances, _ = arm.errors(goal)
    drawn('look_at', 'The hand looks at a point, also while the tip moves', times, {
        'angle [mrad]': {'between axis\nand point': 1e3 * angles},
        'tip [mm]': {'distance from\nits goal': 1e3 * distances}},
          {0.0: 'goal of the gaze', 1.0: 'goal of the tip'})
    assert angles[0] > 0.5
    assert angles[times > 1.0].max() < 1e-3
    assert angles[-1] < 1e-5
    assert distances[-1] < 1e-4
    assert np.abs(np.diff(arm.torques, axis=0)).max() < 2.0


def test_look_at_alone_turns_the_axis_to_the_point_and_leaves_the_rest_to_the_posture():
    axis = np.array([0.6, 0.0, 0.8])
    arm = Arm(velocity=FAST, limits=TargetLimits(), tasks=(replace(GAZE, kind=LookAt(axis)),))
    point = np.array([0.8, -0.3, 0.1])
    arm.law.follow(at(point), 0.0)
    angles, look = gazes(arm, point, axis=axis)
    arm.run(2.5, look)
    assert angles[0] > 0.3
    assert angles[-1] < 1e-6
    assert np.abs(arm.plant.qd).max() < 1e-3


def test_point_that_moves_is_followed():
    arm = Arm(velocity=FAST, limits=TargetLimits(), tasks=(POSITION, GAZE))
    start = arm.law.levels['gaze'].target.pose[:3, 3]
    arm.law.follow(TwistGoal([0.0, 0.0, 0.0, 0.2, 0.1, 0.0], 1.5), 0.0, 'gaze')
    angles = []

    def look():
        T, target = arm.plant.pose(LINK), arm.law.levels['gaze'].target.pose
        angles.append(angle_between(T[:3, 2], target[:3, 3] - T[:3, 3]))

    arm.run(2.0, look)
    went = arm.law.levels['gaze'].target.pose[:3, 3] - start
    assert went[0] > 0.25
    assert max(angles) < 2e-3


def test_lower_look_at_task_leaves_the_upper_task_alone():
    arm = Arm(tasks=(POSITION, GAZE), velocity=FAST, effort=np.full(7, 1e3))
    link, compared = Link(PANDA.tip), 0
    for seed in range(20):
        motion = Motion(GAZE.kind, seed, 0.0)
        found = []
        for away in (0.0, 0.2):
            arm.law.levels['gaze'].generator = still(
                Target(moved(motion.target, (away, 0.0, away))))
            tau = arm.law.torque(0.0, motion.q, motion.qd)
            found.append((tau, link.driven(motion.q, motion.qd, tau)[2][3:],
                          arm.law.limiter.d.limits_work))
        if any(limited for *_, limited in found):
            continue
        compared += 1
        assert np.abs(found[1][0] - found[0][0]).max() > 1e-2
        np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-9)
    assert compared > 5


@pytest.mark.parametrize('tasks', [(GAZE,), (POSITION, GAZE)], ids=['alone', 'below a task'])
def test_compiled_tick_gives_the_torques_of_a_method_without_one(tasks):
    compiled = Arm(tasks=tasks).law
    plain = Law(compiled.robot, compiled.settings, 'dense')
    assert compiled.setup.has_kernel and not plain.setup.has_kernel
    for seed in range(5):
        motion, found = Motion(GAZE.kind, seed, 0.1), []
        for law in (compiled, plain):
            law.hold(READY)
            law.levels['gaze'].generator = still(motion.set_point(0.0))
            found.append(law.torque(0.0, motion.q, 0.2 * motion.qd))
        np.testing.assert_allclose(found[0], found[1], atol=1e-7)


def test_reference_of_the_friction_compensation_moves_the_axis_with_the_line_of_sight():
    arm = Arm(tasks=(POSITION, GAZE), velocity=FAST)
    law = arm.law
    law.change(replace(law.settings, friction=Friction(np.full(7, 0.5), np.zeros(7))))
    for seed in range(5):
        law.hold(READY)
        motion = Motion(GAZE.kind, seed, 0.0)
        law.levels['gaze'].generator = still(motion.set_point(0.0))
        law.torque(0.0, motion.q, np.zeros(7))
        _, twist, _ = motion.link.at(motion.q, law._setup.d.reference_qd, np.zeros(7))
        p = motion.link.at(motion.q, np.zeros(7), np.zeros(7))[0]
        way = motion.target[:3, 3] - p[:3, 3]
        # rates of the axis and of the line of sight; link and point both move
        turns = np.cross(twist[:3], p[:3, 2])
        sees = (motion.twist[3:] - twist[3:]) / np.linalg.norm(way)
        sees -= p[:3, 2] * (p[:3, 2] @ sees)
        np.testing.assert_allclose(turns, sees, atol=1e-8)
        assert np.linalg.norm(sees) > 0.1


# set-points near the link and behind it

def torques_on_a_line(arm, begin, end, count):
    """Return the torques for set-points on a line, (count + 1, n)."""
    found = []
    for share in np.linspace(0.0, 1.0, count + 1):
        arm.law.levels['gaze'].generator = still(Target(pose(begin + share * (end - begin),
                                                             NO_ROTATION)))
        arm.law.limiter.forget()
        found.append(arm.law.torque(0.0, READY, 0.1 * np.ones(7)))
        assert np.isfinite(found[-1]).all()
    return np.array(found)


@pytest.mark.parametrize('begin, end', first_quick([
    ((0.0, 0.3, 0.0), (0.0, -0.3, 0.0)),    # through the link's origin
    ((0.0, 0.3, 0.4), (0.0, -0.3, -0.4)),
    ((0.0, 0.2, -0.8), (0.0, -0.2, -0.8)),  # through the opposite direction
    ((0.01, 0.2, -0.8), (0.01, -0.2, -0.8)),
]))
def test_torque_is_continuous_in_the_point_also_near_the_link_and_behind_it(begin, end):
    arm = Arm(tasks=(POSITION, GAZE))
    T, _, _ = Link().at(READY, np.zeros(7), np.zeros(7))
    ends = [T[:3, 3] + T[:3, :3] @ x for x in (begin, end)]
    coarse, fine = (np.abs(np.diff(torques_on_a_line(arm, *ends, count), axis=0)).max()
                    for count in (200, 1200))
    assert coarse > 1e-3
    assert fine < 0.3 * coarse


def test_activation_is_none_near_the_link_and_all_from_afar():
    arm = Arm(tasks=(GAZE,))
    T, _, _ = Link().at(READY, np.zeros(7), np.zeros(7))
    shares = []
    for distance in (0.0, 1e-300, 0.5 * OFF, OFF, 0.5 * (OFF + ON), ON, 1.0, 900.0):
        arm.law.levels['gaze'].generator = still(Target(pose(T[:3, 3] + [0.0, distance, 0.0],
                                                             NO_ROTATION)))
        assert np.isfinite(arm.law.torque(0.0, READY, np.zeros(7))).all()
        shares.append(arm.law.priorities.d.level_activation[0, 0])
    assert shares[:3] == [0.0] * 3 and shares[3] < 1e-6
    assert shares[4] == pytest.approx(0.5, abs=1e-9) and shares[5] == pytest.approx(1.0)
    assert shares[6:] == [1.0] * 2


def test_error_of_half_a_turn_is_half_a_turn_and_asks_for_nothing():
    arm = Arm(tasks=(GAZE,))
    T, _, _ = Link().at(READY, np.zeros(7), np.zeros(7))
    for sine, asks in ((0.0, 0.0), (1e-3, 1e-3 / BEHIND), (2.0 * BEHIND, 1.0)):
        side = np.array([sine, 0.0, -np.sqrt(1.0 - sine * sine)])
        arm.law.levels['gaze'].generator = still(Target(pose(T[:3, 3] + T[:3, :3] @ side,
                                                             NO_ROTATION)))
        arm.law.torque(0.0, READY, np.zeros(7))
        level = arm.law.levels['gaze']
        assert np.linalg.norm(level.error) == pytest.approx(np.pi - np.arcsin(sine), abs=1e-9)
        assert np.linalg.norm(level.u) == pytest.approx(min(
            2.0 * 20.0 * min(10.0 * asks * (np.pi - np.arcsin(sine)), 2.5), 60.0), rel=1e-6)


@pytest.mark.parametrize('offset', [0.0, 1e-3])
def test_point_behind_the_hand_is_turned_to_within_the_limits(offset):
    arm = Arm(tasks=(GAZE,), limits=JUMPS)
    T = arm.plant.pose(LINK)
    point = T[:3, 3] + T[:3, :3] @ [offset, 0.0, -0.5]
    arm.law.follow(at(point), 0.0)
    angles, look = gazes(arm, point)
    arm.run(3.0, look)
    steps = np.abs(np.diff(arm.torques, axis=0)).max(axis=0)
    assert np.isfinite(arm.torques).all()
    assert (steps <= arm.law.settings.limits.effort_rate * PERIOD * (1.0 + 1e-9)).all()
    if offset:
        assert angles[-1] < angles[0] - 1.0
    assert (np.abs(arm.torques) <= arm.law.settings.limits.effort + 1e-9).all()


def test_point_that_goes_through_the_hand_and_behind_it_keeps_torques_within_their_limits():
    arm = Arm(limits=TargetLimits(), tasks=(POSITION, GAZE))
    T = arm.plant.pose(LINK)
    arm.law.follow(at(T[:3, 3] - 0.5 * T[:3, 2]), 0.0, 'gaze')
    arm.run(1.5)
    arm.law.follow(at(T[:3, 3] + 0.5 * T[:3, 2]), 1.5, 'gaze')
    arm.run(4.0)
    rate = np.abs(np.diff(arm.torques, axis=0)) / (arm.law.settings.limits.effort_rate * PERIOD)
    assert rate.max() <= 1.0 + 1e-9
    assert np.abs(arm.errors(arm.pose)[0]).max() < 2e-3


# changes of a look-at task

@pytest.mark.parametrize('change', [
    lambda gaze: replace(gaze, kind=LookAt((1.0, 0.0, 0.0))),
    lambda gaze: Task(GAINS, 'gaze', LINK, ('motion',) * 3 + ('free',) * 3),
    lambda gaze: replace(gaze, activation=0.3),
    lambda gaze: replace(gaze, link='panda_link6'),
], ids=['axis', 'kind', 'activation', 'link'])
def test_torque_has_no_jump_when_a_look_at_task_is_changed_and_changed_back(change):
    arm = Arm(velocity=FAST, limits=TargetLimits(), tasks=(POSITION, GAZE))
    arm.law.follow(at((0.6, 0.3, 0.1)), 0.0, 'gaze')
    arm.run(0.5)
    plain = np.abs(np.diff(arm.torques, axis=0)).max()
    first, usual = arm.law.settings, len(arm.torques)
    tip, gaze = first.tasks
    arm.law.change(replace(first, tasks=(tip, replace(change(gaze), limits=gaze.limits))))
    arm.run(0.6)
    arm.law.change(first)
    arm.run(1.2)
    steps = np.abs(np.diff(arm.torques, axis=0)).max(axis=1)[usual - 1:]
    assert steps.max() < plain + 1.0
    # the torque difference that fades out disturbs the tip, too
    assert np.abs(arm.errors(arm.pose)[0]).max() < 2e-3


def test_changed_axis_or_kind_holds_where_it_points_until_the_next_target():
    arm = Arm(limits=TargetLimits(), tasks=(POSITION, GAZE))
    arm.law.follow(at((0.6, 0.3, 0.1)), 0.0, 'gaze')
    arm.run(2.0)
    tip, gaze = arm.law.settings.tasks
    before = arm.plant.pose(LINK)
    arm.law.change(replace(arm.law.settings, tasks=(
        tip, replace(gaze, kind=LookAt((1.0, 0.0, 0.0))))))
    arm.run(3.0)
    after, target = arm.plant.pose(LINK), arm.law.levels['gaze'].target.pose[:3, 3]
    assert angle_between(before[:3, 0], target - before[:3, 3]) < 1e-3
    assert angle_between(after[:3, 0], target - after[:3, 3]) < 1e-3


@pytest.mark.parametrize('limits', [TargetLimits(), JUMPS], ids=['led', 'jumps'])
def test_no_command_and_no_change_brings_torques_beyond_their_limits_or_rates(limits):
    rng = np.random.default_rng(0)
    arm = Arm(limits=limits, tasks=(POSITION, GAZE))
    tip, gaze = arm.law.settings.tasks

    def disturb():
        if rng.random() < 0.9:
            return
        T, time = arm.plant.pose(LINK), arm.plant.time
        what = rng.integers(6)
        if what < 3:
            x = [np.zeros(3), rng.choice([0.05, 0.15, 1.0, 999.0]) * T[:3, 2],
                 rng.normal(size=3)][what]
            arm.law.follow(at(np.clip(T[:3, 3] + rng.choice([-1.0, 1.0]) * x, -1e3, 1e3)), time,
                           'gaze')
        elif what == 3:
            size = rng.choice([1.0, 1e6]) if limits is JUMPS else 1.0
            arm.law.follow(TwistGoal(size * rng.normal(size=6), time + 0.02), time, 'gaze')
        else:
            kind = LookAt(rng.normal(size=3)) if what == 4 else gaze.kind
            other = replace(gaze, kind=kind, activation=rng.random())
            pose_task = replace(POSITION, name='gaze', link=LINK, limits=limits)
            arm.law.change(replace(arm.law.settings, tasks=(
                tip, other if rng.random() < 0.7 else pose_task)))

    arm.run(1.6, disturb)
    torques, bounds = np.array(arm.torques), arm.law.settings.limits
    assert np.isfinite(torques).all()
    assert (np.abs(torques) <= bounds.effort * (1.0 + 1e-9)).all()
    assert (np.abs(np.diff(torques, axis=0)) <= (1.0 + 1e-9) * PERIOD * bounds.effort_rate).all()
