# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The time of a path stands while near pairs hold the arm; MuJoCo judges the distances."""

import numpy as np
import pytest

from clear_rig import ClearRig
from osc_ros import Clearance, Gains, Obstacle, Robot, shipped_shapes, shipped_urdf, Task
from osc_ros.control.reasons import figures_of, reasons
from osc_ros.control.setpoint.trajectory import Path
from osc_ros.model.urdf import pair, SIDES
from variants import first_quick

MARGIN = 0.02  # of the clearance [m]
PULL = 3e-3  # distance from arm to set-point of a path that waits, at the default gains [m]
STEP = 0.03  # largest step of a torque, share of the effort limit
READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
BOX = Obstacle.at('box', (0.2, 0.1, 0.5), (0.35, 0.35, 0.5))  # 0.3 m to the left of the tip
TASKS = Task(), Task(name='right', link='right_panda_hand_tcp')


def rig_of(obstacles, count=1, tasks=None, **plant):
    """Return one or two Pandas that have held still among obstacles."""
    text, shapes = shipped_urdf('panda').read_text(), shipped_shapes('panda')
    robot = Robot.from_urdf(text, 'panda_link0', 'panda_hand_tcp')
    if count == 2:
        text, shapes, tasks = pair(text), shapes.repeated(*SIDES), TASKS
        robot = Robot.from_urdf(text, 'pedestal', [f'{side}panda_hand_tcp' for side in SIDES])
    rig = ClearRig(text, robot, Clearance.of(shapes, MARGIN), obstacles, tasks=tasks, **plant)
    rig.simulation.reset(READY * count)
    rig.simulation.run(0.1)
    return rig


def straight(T, shift, start=0.2, duration=2.0):
    """Return a straight path from a pose, at rest at both ends."""
    poses = np.repeat(T[None], 2, axis=0)
    poses[1, :3, 3] += shift
    return Path([start, start + duration], poses)


def distance(rig, path, task=None):
    """Return the distance from a link to the end of a path [m]."""
    return np.linalg.norm(rig.law.level(task).pose[:3, 3] - path.poses[-1, :3, 3])


def pulls(record):
    """Return the distances from the arm to its set-point [m]."""
    return np.linalg.norm(record.error[:, 3:], axis=1)


def steps(rig, *records):
    """Return the largest step of a torque, as a share of the effort limit."""
    torque = np.vstack([record.torque for record in records])[1:]
    return (np.abs(np.diff(torque, axis=0)) / rig.robot.effort_limits).max()


def names(rig):
    """Return the names of the reasons why the arm is not at its goal."""
    law = rig.law
    return [one.name for one in reasons(rig.robot, law.level().task, figures_of(law), None, False)]


@pytest.mark.parametrize('shift', [(0.0, 0.4, 0.0), (0.1, 0.4, 0.1)])
@pytest.mark.parametrize('duration', first_quick([2.0, 1.2, 6.0]))
def test_path_through_a_box_waits_before_it_and_goes_on_without_it(shift, duration):
    rig = rig_of({'box': BOX})
    path = straight(rig.law.pose, shift, 0.2, duration)
    rig.law.follow(path, 0.2)
    held = rig.simulation.run(duration + 3.0)
    print(f'{duration} s: RMS {1e3 * np.sqrt((pulls(held) ** 2).mean()):.1f} mm, largest '
          f'{1e3 * pulls(held).max():.1f} mm')
    assert pulls(held).max() < PULL
    assert np.ptp(held.target[-500:, :3, 3], axis=0).max() < 1e-6
    assert min(rig.distances().values()) == pytest.approx(MARGIN, abs=1e-4)
    assert distance(rig, path) > 0.1
    assert names(rig) == ['obstacle']
    del rig.law.obstacles['box']
    freed = rig.simulation.run(duration + 1.0)
    print(f'without the box: largest step {steps(rig, held, freed):.4f}')
    assert pulls(freed).max() < PULL
    assert distance(rig, path) < 1e-5
    assert steps(rig, held, freed) < STEP


@pytest.mark.parametrize('options', first_quick([
    {'rate': 100.0}, {'rate': 1000.0}, {'friction': [0.5] * 7}, {'frequency': 8.0},
    {'frequency': 40.0}]))
def test_path_waits_steadily_at_other_rates_gains_and_with_friction(options):
    frequency = options.pop('frequency', 20.0)
    rig = rig_of({'box': BOX}, tasks=(Task(gains=Gains(natural_frequency=[frequency] * 6)),),
                 **options)
    rig.law.follow(straight(rig.law.pose, (0.0, 0.4, 0.0)), 0.2)
    held = rig.simulation.run(5.0)
    friction = 8e-3 if 'friction' in options else 0.0
    assert pulls(held).max() < (20.0 / frequency) ** 2 * PULL + friction
    assert np.ptp(held.target[-100:, :3, 3], axis=0).max() < 1e-5


@pytest.mark.parametrize('override', [50.0, 10.0])
def test_path_at_a_lower_speed_override_is_not_pulled_farther(override):
    rig = rig_of({'box': BOX})
    path = straight(rig.law.pose, (0.0, 0.4, 0.0), 0.2, 1.0)
    rig.law.follow(path, 0.2)
    rig.law.speed_override = override
    slow = rig.simulation.run(150.0 / override)
    rig.law.speed_override = 100.0
    held = rig.simulation.run(1.0)
    assert max(pulls(slow).max(), pulls(held).max()) < PULL
    assert np.ptp(held.target[-100:, :3, 3], axis=0).max() < 1e-6
    del rig.law.obstacles['box']
    freed = rig.simulation.run(2.0)
    assert distance(rig, path) < 1e-5
    assert steps(rig, slow, held, freed) < STEP


def depths():
    """Return a function of a depth [m]: a bar below a path, and how far it reaches in."""
    def bar(top):
        return {'bar': Obstacle.at('box', (0.3, 0.1, 0.1), (0.31, 0.2, top - 0.05))}

    rig = rig_of(bar(0.2))
    rig.law.follow(straight(rig.law.pose, (0.0, 0.4, 0.0)), 0.2)
    rig.run(2.5)
    below = min(least for (link, other), least in rig.smallest.items()
                if other == 'bar' and rig.robot.frames[link.partition('#')[0]][0] == 6)
    return lambda depth: bar(0.2 + below - MARGIN + depth)


def test_path_that_grazes_the_margin_goes_on_and_one_that_leads_into_it_waits():
    bar_at = depths()
    for depth, late, passes in ((-0.001, 0.0, True), (0.002, 1.5, True), (0.04, 3.0, False)):
        rig = rig_of(bar_at(depth))
        path = straight(rig.law.pose, (0.0, 0.4, 0.0))
        rig.law.follow(path, 0.2)
        rig.simulation.run(2.4 + late)
        assert (distance(rig, path) < 1e-3) == passes, depth


def test_path_along_an_obstacle_and_away_from_it_keeps_its_time():
    rig = rig_of({'box': BOX})
    toward = straight(rig.law.pose, (0.0, 0.4, 0.0))
    rig.law.follow(toward, 0.2)
    rig.simulation.run(3.0)
    assert names(rig) == ['obstacle']
    for shift in (0.0, 0.0, -0.15), (0.0, -0.3, 0.1):
        path = straight(rig.law.target.pose, shift, rig.simulation.time)
        rig.law.follow(path)
        rig.simulation.run(2.3)
        assert distance(rig, path) < PULL


@pytest.mark.parametrize('after', [0.7, 0.8, 0.9, 1.0, 1.2])
def test_arm_that_is_about_to_be_held_leaves_on_another_path(after):
    rig = rig_of({'box': BOX})
    rig.law.follow(straight(rig.law.pose, (0.0, 0.4, 0.0), 0.2, 1.5), 0.2)
    before = rig.simulation.run(after)
    path = straight(rig.law.target.pose, (0.0, -0.3, 0.0), rig.simulation.time + 0.05)
    rig.law.follow(path)
    record = rig.simulation.run(2.6)
    assert distance(rig, path) < 1e-4
    assert steps(rig, before, record) < STEP


def test_obstacle_that_comes_pushes_the_target_back_along_its_path():
    place, speed = np.array([0.31, 0.6, 0.45]), 0.0
    rig = rig_of({'ball': Obstacle.at('sphere', 0.08, place)})
    path = straight(rig.law.pose, (0.0, 0.4, 0.0), 0.2, 3.0)
    rig.law.follow(path, 0.2)
    records, least = [], np.inf
    for k in range(900):
        wanted = -0.15 if k < 180 else 0.0 if k < 300 else 0.3 if k < 420 else 0.0
        speed += np.clip(wanted - speed, -0.005, 0.005)
        place = place + [0.0, 0.01 * speed, 0.0]
        rig.move('ball', place, (0.0, speed, 0.0))
        records.append(rig.simulation.run(0.01))
        least = min(least, *rig.distances().values())
    ways = np.array([record.target[-1, 1, 3] for record in records])
    assert ways[:180].max() - ways[250] > 0.03
    assert max(pulls(record).max() for record in records) < 5.0 * PULL
    assert least > 0.8 * MARGIN
    assert distance(rig, path) < 1e-6
    assert steps(rig, *records) < STEP


def test_path_that_only_the_elbow_disturbs_arrives():
    rig = rig_of({'post': Obstacle.at('cylinder', (0.05, 0.6), (0.0, 0.2, 0.8))})
    path = straight(rig.law.pose, (0.0, 0.35, 0.0))
    rig.law.follow(path, 0.2)
    record = rig.simulation.run(6.0)
    assert [one.other for one in rig.law.limiter.near if one.holds] == ['post', 'post']
    assert pulls(record).max() < PULL and distance(rig, path) < 1e-3


@pytest.mark.parametrize('period', [0.1, 0.3, 0.8])
@pytest.mark.parametrize('replans', [False, True])
def test_chunks_wait_before_an_obstacle_as_a_path_does(period, replans):
    rig = rig_of({'box': BOX})
    simulation, T, due = rig.simulation, rig.law.pose, [0.1]

    def send():
        time = simulation.time
        if time < due[0] - 1e-9:
            return
        due[0] += period
        times = time - 0.1 + 0.1 * np.arange(16)
        since, begin = (time - 0.1, rig.law.pose[1, 3] - T[1, 3]) if replans else (0.1, 0.0)
        poses = np.repeat(T[None], 16, axis=0)
        poses[:, 1, 3] += np.clip(begin + 0.15 * (times - since), 0.0, 0.35)
        rig.law.follow_chunk(times, poses, time, time - 0.1)

    held = simulation.run(8.0, send)
    assert pulls(held).max() < 2.0 * PULL
    late = held.time > 5.0
    assert np.ptp(held.target[late, 1, 3]) < 1e-3
    assert min(rig.distances().values()) > 0.99 * MARGIN
    del rig.law.obstacles['box']
    freed = simulation.run(5.0, send)
    assert rig.law.pose[1, 3] - T[1, 3] == pytest.approx(0.35, abs=1e-3)
    assert steps(rig, held, freed) < STEP


@pytest.mark.parametrize('is_one', [True, False])
def test_two_arms_on_one_schedule_wait_together_and_otherwise_alone(is_one):
    rig = rig_of({'lid': Obstacle.at('box', (0.2, 0.2, 0.1), (0.31, 0.3, 0.9))}, 2)
    left = straight(rig.law.pose, (0.0, 0.0, 0.2))
    right = straight(rig.law.level('right').pose, (0.0, 0.0, -0.15), 0.2, 2.0 if is_one else 2.1)
    rig.law.follow(left, 0.2)
    rig.law.follow(right, 0.2, task='right')
    rig.simulation.run(4.0)
    assert distance(rig, left) > 0.1
    assert (distance(rig, right, 'right') > 0.1) == is_one
    del rig.law.obstacles['lid']
    rig.simulation.run(3.0)
    for path, task in ((left, None), (right, 'right')):
        assert distance(rig, path, task) < 1e-6
