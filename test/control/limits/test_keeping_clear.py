# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Arms among obstacles touch nothing, judged by MuJoCo; free paths do not change."""

from dataclasses import replace

import numpy as np
import pytest

from clear_rig import (
    ClearRig,
    free_start,
    least_distances,
    random_goal,
    random_obstacles,
)
from judge import robot_cases
from osc_ros import (
    Clearance,
    Law,
    Obstacle,
    Robot,
    Settings,
    shipped_shapes,
    shipped_urdf,
    Simulation,
    Task,
)
from osc_ros.client.robots import SHIPPED
from osc_ros.collision.link_shapes import LinkShape, ShapeModel
from osc_ros.collision.near_pairs import pairs_never_near
from osc_ros.control.limits.clearance import fence_box
from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.dynamics.algebra.kinematics import link_frame, placement
from osc_ros.model.urdf import pair, SIDES
from osc_ros.sim.plant_payload import with_payload
from variants import first_quick

MARGIN, LEAST = 0.02, 0.8  # of the clearance [m]; share of it that stays
QUICK, WHOLE = 8, 1000  # random goals of an arm, 3 s each
LOAD = {'payload.mass': 1.0, 'payload.center_of_mass': (0.0, 0.0, 0.0),
        'payload.inertia': (1e-3, 0.0, 0.0, 1e-3, 0.0, 1e-3)}
READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
TASKS = Task(), Task(name='right', link='right_panda_hand_tcp')


def rods(robot, thickness=0.05):
    """Return capsules from joint to joint of a robot, and the pairs that are not compared."""
    at = placement(robot, np.zeros(len(robot.neutral)))
    links = {}
    for link, (body, _) in robot.frames.items():
        links.setdefault(body, link)
    shapes = []
    for body, parent in enumerate(robot.parent.tolist()):
        if parent < 0 or np.linalg.norm(at.p[body] - at.p[parent]) < 0.02:
            continue
        _, T = link_frame(robot, links[parent])
        local = np.array([at.p[parent], at.p[body]]) - at.p[parent]
        ends = (local @ at.R[parent] - T[:3, 3]) @ T[:3, :3]
        shapes.append(LinkShape(links[parent], ends, thickness))
    model = ShapeModel(tuple(shapes))
    return ShapeModel(model.shapes, frozenset(pairs_never_near(robot, model, 1000)))


def arm(name):
    """Return URDF, robot, clearance and tasks: a shipped arm, two Pandas, or a foreign arm."""
    if name == 'two pandas':
        text = pair(shipped_urdf('panda'))
        robot = Robot.from_urdf(text, 'pedestal', ['left_panda_hand_tcp', 'right_panda_hand_tcp'])
        return text, robot, Clearance.of(shipped_shapes('panda').repeated(*SIDES), MARGIN), TASKS
    if name in SHIPPED:
        text = shipped_urdf(name).read_text()
        robot = Robot.from_urdf(text, SHIPPED[name].base, SHIPPED[name].tip)
        return text, robot, Clearance.of(shipped_shapes(name), MARGIN), None
    case = robot_cases()[name]
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=dict(case.locked))
    return case.urdf_text, robot, Clearance.of(rods(robot), MARGIN), None


def driven(name, count, is_on=True, change=lambda text: text, **plant):
    """Return the smallest distances of an arm on the way to random goals."""
    text, robot, clearance, tasks = arm(name)
    rng = np.random.default_rng(0)
    obstacles = random_obstacles(rng) if name != 'two pandas' else {}
    rig = ClearRig(change(text), robot, clearance, obstacles, is_on, tasks=tasks, **plant)
    found = least_distances(rig, rng, count, ('', 'right') if tasks else ('',))
    print(f'{name}, {"on" if is_on else "off"}: {count} goals, {(found < 0.0).sum()} with contact,'
          f' least {1e3 * found.min():.1f} mm, margin {1e3 * MARGIN:g} mm')
    return found


@pytest.mark.parametrize('count', [QUICK, pytest.param(WHOLE, marks=pytest.mark.slow)])
@pytest.mark.parametrize('name', ['panda', 'two pandas', 'ur5e', 'kinova', 'ur5'])
def test_arm_touches_neither_itself_nor_obstacles_on_the_way_to_random_goals(name, count):
    found = driven(name, count)
    assert found.min() >= LEAST * MARGIN


@pytest.mark.parametrize('name', ['panda', 'two pandas', 'ur5e', 'kinova', 'ur5'])
def test_the_same_goals_cause_contacts_without_the_clearance(name):
    assert (driven(name, 2 * QUICK, is_on=False) < 0.0).any()


@pytest.mark.parametrize('count', [QUICK, pytest.param(WHOLE, marks=pytest.mark.slow)])
@pytest.mark.parametrize('what', first_quick(['all', 'friction', 'load', 'delay', 'masses',
                                              'noise']))
def test_margin_stays_with_friction_load_delay_wrong_masses_and_noise(what, count):
    plant = {'friction': [0.5] * 7} if what in ('friction', 'all') else {}
    if what in ('delay', 'all'):
        plant['delay'] = 2
    if what in ('noise', 'all'):
        plant |= {'position_noise': 1e-5, 'velocity_noise': 2e-3}

    def change(text):
        text = heavier(text, 1.2) if what in ('masses', 'all') else text
        return with_payload(text, 'panda_hand_tcp', LOAD) if what in ('load', 'all') else text

    assert driven('panda', count, change=change, **plant).min() >= LEAST * MARGIN


def heavier(text, factor):
    """Return a URDF whose masses and inertias are multiplied by a factor."""
    from xml.etree import ElementTree
    root = ElementTree.fromstring(text)
    for element in root.iter('mass'):
        element.set('value', repr(factor * float(element.get('value'))))
    for element in root.iter('inertia'):
        for key, value in list(element.attrib.items()):
            element.set(key, repr(factor * float(value)))
    return ElementTree.tostring(root, encoding='unicode')


@pytest.mark.parametrize('speed', [0.25, 1.0])
def test_arm_gives_way_to_a_hand_that_reaches_in(speed):
    text, robot, clearance, _ = arm('panda')
    rng, place = np.random.default_rng(0), np.array([0.6, 0.6, 0.6])
    rig = ClearRig(text, robot, clearance, {'hand': Obstacle.at('sphere', 0.06, place)})
    rig.simulation.reset(free_start(rig, rng))
    rig.simulation.run(0.02)
    least = np.inf
    for _ in range(10):
        goal, T = rng.uniform([0.25, -0.5, 0.1], [0.8, 0.5, 0.9]), rig.law.pose
        T[:3, 3] = rng.uniform([0.3, -0.4, 0.2], [0.7, 0.4, 0.7])
        rig.law.follow(T)
        for _ in range(150):
            way = goal - place
            far = np.linalg.norm(way)
            velocity = speed / far * way if far > speed * 0.01 else 0.0 * way
            rig.move('hand', place, velocity)
            least, place = min(least, rig.run(0.01)), place + 0.01 * velocity
    assert least > 0.5 * MARGIN


def test_links_stay_within_the_fence():
    text, robot, clearance, _ = arm('panda')
    fence = fence_box([-0.4, -0.4, -0.1], [0.55, 0.4, 0.9])
    law = Law(robot, replace(Settings.of(robot), clearance=replace(clearance, fence=fence)))
    simulation, rng = Simulation(text, law, READY), np.random.default_rng(1)
    simulation.run(0.3)
    for k in range(QUICK):
        law.follow(random_goal(rng, k, {}))
        simulation.run(2.0)
        at = placement(robot, simulation.q)
        for shape in clearance.shapes:
            body, T = link_frame(robot, shape.link)
            if body < 0:
                continue
            ends = (shape.ends @ T[:3, :3].T + T[:3, 3]) @ at.R[body].T + at.p[body]
            room = (ends @ fence[:, :3].T - fence[:, 3]).min() - shape.radius
            assert room >= LEAST * MARGIN, (k, shape.link)


def test_free_path_is_the_same_with_and_without_a_clearance():
    text, robot, clearance, _ = arm('panda')
    records = []
    for settings in (Settings.of(robot), Settings.of(robot, clearance=clearance)):
        law = Law(robot, settings)
        simulation = Simulation(text, law, READY)
        law.obstacles['far'] = Obstacle.at('box', [0.3] * 3, [-1.0, 0.0, 0.3])
        simulation.run(0.1)
        law.follow(figure_of_eight(law.pose, 0.1, 0.1, 3.0, 1.0, 0.1), 0.1)
        records.append(simulation.run(3.0))
    np.testing.assert_allclose(records[1].torque, records[0].torque, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(records[1].error, records[0].error, rtol=0.0, atol=1e-9)


def test_obstacle_that_moves_while_settings_blend_is_seen():
    text, robot, clearance, _ = arm('panda')
    law = Law(robot, Settings.of(robot, clearance=clearance))
    simulation = Simulation(text, law, READY)
    law.obstacles['ball'] = Obstacle.at('sphere', 0.05, (0.6, 1.5, 0.5))
    simulation.run(0.3)
    law.change(replace(law.settings, clearance=replace(clearance, margin=0.03)))
    simulation.run(0.05)
    assert law.is_blending
    law.obstacles['ball'] = Obstacle.at('sphere', 0.05, law.pose[:3, 3] + [0.12, 0.0, 0.0])
    simulation.run(1.0)
    assert not law.is_blending
    assert 'ball' in {one.other for one in law.limiter.near}


def test_torques_step_little_where_obstacles_hold_the_arm():
    text, robot, clearance, _ = arm('panda')
    rng = np.random.default_rng(0)
    rig = ClearRig(text, robot, clearance, random_obstacles(rng))
    rig.simulation.reset(free_start(rig, rng))
    rig.simulation.run(0.02)
    largest = []
    for k in range(3 * QUICK):
        rig.law.follow(random_goal(rng, k, rig.obstacles))
        torque = rig.simulation.run(3.0).torque
        largest.append((np.abs(np.diff(torque, axis=0))[1:] / robot.effort_limits).max())
    assert np.quantile(largest, 0.9) < 0.03


def test_tip_may_touch_what_it_may_touch_and_nothing_else_does():
    text, robot, clearance, _ = arm('panda')
    table = Obstacle.at('box', (0.6, 0.6, 0.1), (0.5, 0.0, 0.2))
    for touch in (True, False):
        rig = ClearRig(text, robot, clearance, {'table': replace(table, touch=touch)})
        rig.simulation.reset(READY)
        rig.simulation.run(0.1)
        goal = rig.law.pose
        goal[:3, 3] = 0.45, 0.0, 0.24  # the fingers are below the top
        rig.law.follow(goal)
        rig.run(3.0)
        of_tip = {link for (link, other), d in rig.smallest.items()
                  if other == 'table' and d < 0.5 * MARGIN}
        assert bool(of_tip) == touch
        assert all(robot.frames[name.partition('#')[0]][0] == robot.frames[robot.tip][0]
                   for name in of_tip)
