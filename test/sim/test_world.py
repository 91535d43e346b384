# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Table, wall, ball and hand of the simulator: forces by the balance of forces, and over ROS."""

from pathlib import Path

import numpy as np
import pytest

from arm import READY
from osc_ros import shipped_urdf
from osc_ros.errors import InputError
from osc_ros.sim import Plant
from osc_ros.sim.world import ball_position, Box, FreeBall, World

HAND, BALL_MASS = 'panda_hand_tcp', 0.2
RATE = 250.0  # as few messages in lockstep as the gains allow [Hz]
JOINTS = [f'panda_joint{i}' for i in range(1, 8)]
TABLE = Box((0.45, 0.0, 0.42), (0.6, 0.8, 0.04))  # its top at 0.44 m
TEXT = Path(shipped_urdf('panda')).read_text()


def arm(**objects):
    """Return a Panda in the ready pose, with objects."""
    world = World('panda_link0', (HAND,), **objects)
    plant = Plant(TEXT, 'panda_link0', JOINTS, furnish=world.add)
    plant.reset(READY)
    return plant


def test_sensor_measures_a_push_at_its_origin_in_its_axes_if_it_carries_the_link():
    plant = arm(table=TABLE)
    plant.push(HAND, [1.0, 2.0, -3.0], [0.1, 0.2, 0.3])
    plant.step(plant.weight)
    for link in (HAND, 'panda_link8', 'panda_link3'):
        T, p = plant.pose(link), plant.pose(HAND)[:3, 3]
        moment = [0.1, 0.2, 0.3] + np.cross(p - T[:3, 3], [1.0, 2.0, -3.0])
        expected = -np.hstack([moment @ T[:3, :3], [1.0, 2.0, -3.0] @ T[:3, :3]])
        np.testing.assert_allclose(plant.sensor_wrench(link), expected, atol=1e-3)
    plant.push(HAND, np.zeros(3))
    plant.push('panda_link4', [0.0, 20.0, 0.0])
    plant.step(plant.weight)
    np.testing.assert_array_equal(plant.sensor_wrench(HAND), np.zeros(6))


def test_ball_at_rest_sinks_into_the_table_by_weight_over_stiffness():
    K, radius, top = 2000.0, 0.04, 0.44
    plant = arm(table=Box(TABLE.position, TABLE.size, K),
                ball=FreeBall((0.4, 0.2, top + radius), radius, BALL_MASS))
    plant.brake(True)
    plant.step(np.zeros(7), 2000)
    sunk = top + radius - ball_position(plant)[2]
    assert sunk == pytest.approx(BALL_MASS * 9.81 / K, rel=1e-3)


def test_objects_that_are_not_touched_change_nothing():
    alone, beside = Plant(TEXT, 'panda_link0', JOINTS), arm(table=TABLE)
    alone.reset(READY)
    for plant in (alone, beside):
        plant.step(plant.weight + 0.1, 50)
    np.testing.assert_allclose(beside.q, alone.q, atol=1e-12)


@pytest.mark.parametrize(('objects', 'message'), [
    ({'table': Box((0.0, 0.0), TABLE.size)}, 'position of the table'),
    ({'table': Box(TABLE.position, (0.6, 0.0, 0.1))}, 'table: size (0.6, 0.0, 0.1)'),
    ({'wall': Box(TABLE.position, TABLE.size, friction=-1.0)}, 'friction of the wall is -1.0'),
    ({'table': TABLE, 'radius': 0.0}, 'radius of the touching spheres is 0.0 m'),
    ({'table': Box(TABLE.position, TABLE.size, 1e9)}, 'must be at most'),
])
def test_object_that_cannot_be_is_refused_by_name(objects, message):
    with pytest.raises(InputError) as caught:
        arm(**objects)
    assert message in str(caught.value)


rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PointStamped, TwistStamped, WrenchStamped  # noqa: E402
from rclpy.node import Node  # noqa: E402
from std_srvs.srv import SetBool  # noqa: E402

from node_rig import given, ROBOT, wrench  # noqa: E402
from osc_ros.ros.controller.controller import Controller  # noqa: E402
from osc_ros.ros.messages import messages  # noqa: E402
from osc_ros.ros.simulator.simulator import Simulator  # noqa: E402

WORLD = {'world.table.size': TABLE.size, 'world.table.position': TABLE.position}


class Pressed:
    """A simulator with a table and a controller, in lockstep, and a user."""

    def __init__(self, spin, simulator, **controller):
        """Start the nodes; contacts are measured and sent to the controller."""
        self.spin, self.user, self.felt, self.external = spin, Node('user'), [], []
        self.simulator = Simulator(parameter_overrides=given(
            **ROBOT, rate=RATE, initial_positions=READY.tolist(), lockstep=True,
            lockstep_timeout=60.0, publish_tf=False, **simulator))
        self.controller = Controller(
            cli_args=['--ros-args', '-r', '~/measured_wrench:=/osc_simulator/contact_wrench'],
            parameter_overrides=given(**ROBOT, rate=RATE, state_timeout=30.0, **controller))
        self.plant = self.simulator._plant
        user, listen = self.user, self.user.create_subscription
        listen(WrenchStamped, 'osc_simulator/contact_wrench', self.felt.append, 1000)
        listen(WrenchStamped, 'osc_controller/external_wrench', self.external.append, 1000)
        self.wrenches = user.create_publisher(WrenchStamped, 'osc_controller/target_wrench', 10)
        self.twists = user.create_publisher(TwistStamped, 'osc_controller/target_twist', 10)
        self.pushes = user.create_publisher(WrenchStamped, 'osc_simulator/push', 10)
        self.free = user.create_client(SetBool, 'osc_controller/free_drive')
        spin(lambda: self.plant.time > 0.1 and self.felt and all(
            one.get_subscription_count() for one in (self.wrenches, self.twists, self.pushes)),
            self.simulator, self.controller, self.user, why='for the arm to be held')

    def run(self, seconds, each=lambda: None):
        """Advance by a simulated time [s]; call `each` about once in 10 ms."""
        end, due = self.plant.time + seconds, [0.0]

        def over():
            if self.plant.time >= due[0]:
                due[0] = self.plant.time + 0.01
                each()
            return self.plant.time >= end

        self.spin(over, why='for the simulation')

    def tip(self):
        """Return the position of the tip (3,) in the base frame [m]."""
        return self.plant.pose(HAND)[:3, 3].copy()

    def force(self):
        """Return the newest measured force of the arm (3,) in base axes [N]."""
        wrench = messages.wrench_array(self.felt[-1].wrench)
        return self.plant.pose(HAND)[:3, :3] @ wrench[3:]

    def external_force(self):
        """Return the newest force on the arm (3,) that the controller estimates [N]."""
        return messages.wrench_array(self.external[-1].wrench)[3:]

    def slide(self, *velocity):
        """Jog the tip with a velocity [m/s]."""
        twist = TwistStamped()
        twist.twist.linear.x, twist.twist.linear.y, twist.twist.linear.z = velocity
        self.twists.publish(twist)


def test_user_presses_on_the_table_with_10_n_and_slides_along_it(spin):
    rig = Pressed(spin, {**WORLD, 'friction': [0.0] * 7, 'damping': [0.0] * 7},
                  **{'translation.axes': ['motion', 'motion', 'force'], 'force.gain': 0.3,
                     'force.integral_rate': 2.0})
    rig.wrenches.publish(wrench((0.0, 0.0, -10.0)))
    rig.run(2.5)
    assert rig.felt[-1].header.frame_id == HAND
    assert rig.force()[2] == pytest.approx(-10.0, abs=0.2)
    assert rig.plant.pose(HAND)[2, 3] == pytest.approx(0.45, abs=2e-3)  # its sphere on the top
    # the controller estimates the reaction from torques, without the sensor
    np.testing.assert_allclose(rig.external_force(), -rig.force(), atol=0.5)
    begin, forces = rig.tip()[1], []

    def slide():
        rig.slide(0.0, 0.05, 0.0)
        forces.append(rig.force())

    rig.run(1.0, slide)
    assert rig.tip()[1] - begin > 0.03
    np.testing.assert_allclose(np.array(forces)[:, 2], -10.0, atol=1.5)
    # Coulomb friction: the table drags the tip back with 0.3 of the normal force
    assert forces[-1][1] == pytest.approx(TABLE.friction * 10.0, abs=0.5)


@pytest.mark.slow
def test_hand_guides_the_arm_by_messages_until_nobody_repeats_them(spin):
    rig = Pressed(spin, {'friction': [0.0] * 7, 'damping': [0.0] * 7})
    spin(rig.free.service_is_ready, why='for the service')
    done = rig.free.call_async(SetBool.Request(data=True))
    spin(done.done, why='for free drive')
    rig.run(0.3)
    begin = rig.tip()
    rig.run(1.0, lambda: rig.pushes.publish(wrench((0.0, 10.0, 0.0), 'panda_link0')))
    assert 0.05 < rig.tip()[1] - begin[1] < 0.2
    np.testing.assert_allclose(rig.force(), [0.0, -10.0, 0.0], atol=0.05)  # of the arm on the hand
    np.testing.assert_allclose(rig.external_force(), [0.0, 10.0, 0.0], atol=0.5)
    rig.run(0.8)
    there = rig.tip()
    rig.run(0.3)
    np.testing.assert_array_equal(rig.force(), np.zeros(3))
    np.testing.assert_allclose(rig.tip(), there, atol=5e-3)
    # on the elbow, in the axes of the elbow
    elbow = rig.plant.pose('panda_link4')
    message = wrench(elbow[:3, :3].T @ [0.0, 20.0, 0.0], 'panda_link4')
    rig.run(0.5, lambda: rig.pushes.publish(message))
    assert 0.01 < rig.plant.pose('panda_link4')[1, 3] - elbow[1, 3] < 0.3
    np.testing.assert_array_equal(rig.force(), np.zeros(3))  # not beyond the sensor


@pytest.mark.slow
def test_arm_rolls_the_ball_over_the_table(spin):
    ball = {'world.ball.radius': 0.04, 'world.ball.position': [0.307, 0.09, 0.48]}
    table = {**WORLD, 'world.table.position': [0.45, 0.0, 0.42]}
    rig = Pressed(spin, {**table, **ball})
    place = []
    rig.user.create_subscription(PointStamped, 'osc_simulator/ball_position', place.append, 10)
    rig.run(0.2)
    assert ball_position(rig.plant)[1] == pytest.approx(0.09, abs=1e-4)
    rig.run(1.5, lambda: rig.slide(0.0, 0.1, 0.0))
    centre = ball_position(rig.plant)
    assert centre[1] > 0.12
    assert centre[2] == pytest.approx(0.48, abs=2e-3)  # it rolls on the table
    np.testing.assert_allclose(messages.vector_array(place[-1].point), centre, atol=5e-3)


def test_page_hears_of_objects_and_gripper_and_forgets_them_when_the_simulator_ends(
        ros, spin, monkeypatch):
    pytest.importorskip('visualization_msgs', reason='visualization_msgs is not installed')
    from osc_ros.ros.viewer import viewer_simulator
    from osc_ros.viewer.scene.reading import Reading
    fingers = ['panda_finger_joint1', 'panda_finger_joint2']
    simulator = Simulator(parameter_overrides=given(
        **ROBOT, **WORLD, initial_positions=READY.tolist(), lockstep=True, publish_tf=False,
        **{'world.ball.radius': 0.04, 'world.ball.position': [0.4, 0.2, 0.48],
           'gripper.joints': fingers, 'cube.position': [0.5, -0.2, 0.02]}))
    reading, node = Reading(), Node('osc_viewer')
    link = viewer_simulator.SimulatorLink(node, 'osc_simulator', reading)
    link.subscribe()
    names = {'table', 'ball', 'cube', 'plane'}

    def come():  # before the first command, so while the simulated time stands still
        return reading.solids.keys() == names and reading.gripper and link.takes_pushes

    spin(come, simulator, node, why='for objects and gripper')
    table, ball, cube, plane = (reading.solids[name] for name in sorted(
        names, key=['table', 'ball', 'cube', 'plane'].index))
    assert table[0].size == pytest.approx(TABLE.size)
    np.testing.assert_allclose(table[1][:3, 3], TABLE.position)
    assert ball[0].shape == 'sphere'
    assert ball[0].size == pytest.approx([0.08] * 3)
    # what has come may be of the step before
    spin(lambda: np.allclose(reading.solids['ball'][1][:3, 3], ball_position(simulator._plant),
                             rtol=1e-7, atol=0.0), simulator, node, why='for the present ball')
    np.testing.assert_allclose(cube[1][:3, 3], [0.5, -0.2, 0.02])
    assert plane[1][2, 3] + 0.5 * plane[0].size[2] == pytest.approx(0.0)  # the cube is on it
    assert reading.gripper[0] == pytest.approx(0.08, abs=1e-3)
    monkeypatch.setattr(viewer_simulator, 'LIFETIME', -1.0)
    link.forget_old()
    assert not reading.solids and reading.gripper is None


def test_push_that_cannot_be_is_refused_and_the_other_push_stays(spin):
    rig = Pressed(spin, {'world.push_timeout': 60.0})
    rig.pushes.publish(wrench((0.0, 5.0, 0.0), ''))
    for bad, message in (
            (wrench((1.0, 0.0, 0.0), 'kitchen'), "'kitchen'"),
            (wrench((np.nan, 0.0, 0.0)), 'must be finite numbers'),
            (wrench((1e5, 0.0, 0.0)), 'give norms up to 200 N m and 1000 N')):
        def heard(message=message, bad=bad):
            rig.pushes.publish(bad)  # again and again: the log is throttled
            return spin.said(message)

        spin(heard, why='for the refusal')
    assert spin.said('~/push refused')
    rig.run(0.02)
    np.testing.assert_allclose(rig.force(), [0.0, -5.0, 0.0], atol=0.05)


@pytest.mark.parametrize(('bad', 'message'), [
    ({'world.table.size': [1.0, 2.0]}, "parameter 'world.table.size'"),
    ({**WORLD, 'world.touch.links': ['kitchen']}, "'kitchen'"),
    ({'world.sensor_link': 'kitchen'}, "'kitchen'"),
    ({**WORLD, 'world.table.stiffness': 1e7}, 'must be at most'),
])
def test_world_that_cannot_be_is_refused(ros, bad, message):
    with pytest.raises(InputError) as caught:
        Simulator(parameter_overrides=given(**ROBOT, **bad))
    assert message in str(caught.value)
