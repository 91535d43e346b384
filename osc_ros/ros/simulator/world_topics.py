# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0


"""Table, wall, ball and pushes of osc_simulator: parameters and topics."""

from __future__ import annotations

from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PointStamped, WrenchStamped
import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.ros.messages import messages
from osc_ros.ros.parameters.parameters import Entry
from osc_ros.sim.plant import Plant
from osc_ros.sim.world import ball_position, Box, FreeBall, World

# Largest norms of a push [N m, N], so that the simulation does not diverge.
STRONGEST = np.array([200.0, 1000.0])
WRENCHES = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)


def _surface(name: str) -> tuple[Entry, ...]:
    return (
        Entry(f'world.{name}.stiffness', 20000.0, f'Stiffness of contacts with the {name} [N/m]',
              lower=1.0, upper=1e7),
        Entry(f'world.{name}.friction', 0.3, f'Coefficient of friction of the {name}', lower=0.0,
              upper=10.0))


def _box(name: str, position: tuple[float, ...]) -> tuple[Entry, ...]:
    return (
        Entry(f'world.{name}.size', (), f'Lengths of the edges of the {name}, a fixed box along '
              f'the axes of the base [m]; empty: no {name}', of=float, size=3, lower=1e-4,
              upper=100.0),
        Entry(f'world.{name}.position', position, f'Centre of the {name} in the base frame [m]',
              size=3, lower=-100.0, upper=100.0),
        *_surface(name))


ENTRIES = (
    *_box('table', (0.5, 0.0, -0.05)),
    *_box('wall', (0.8, 0.0, 0.5)),
    Entry('world.ball.radius', 0.0, 'Radius of a ball that moves freely [m]; 0: no ball',
          lower=0.0, upper=10.0),
    Entry('world.ball.position', (0.5, 0.2, 0.05), 'Centre of the ball at the start, base frame '
          '[m]', size=3, lower=-100.0, upper=100.0),
    Entry('world.ball.mass', 0.2, 'Mass of the ball [kg]', lower=1e-3, upper=100.0),
    *_surface('ball'),
    Entry('world.touch.links', (), 'Links that touch table, wall and ball, each by a sphere about '
          'its origin; all others pass through. Empty: the tips', of=str),
    Entry('world.touch.radius', 0.01, 'Radius of these spheres [m]', lower=1e-4, upper=1.0),
    Entry('world.sensor_link', '', 'Link at whose origin ~/contact_wrench is measured, in its '
          'axes; empty: the tip'),
    Entry('world.obstacles', False, 'Publish table, wall and ball as obstacles of the controllers '
          'of the command topics, on ~/obstacles beside their ~/commands'),
    Entry('world.push_timeout', 0.2, 'A push on ~/push ends after this simulated time without '
          'another message for the link [s]', lower=1e-3, upper=3600.0),
)


def world_of(values: dict[str, Any], robot: Robot) -> World | None:
    """Return the objects around the arm, None without any; InputError if they cannot be built."""
    objects: dict[str, Any] = {
        name: Box(values[f'world.{name}.position'], values[f'world.{name}.size'],
                  values[f'world.{name}.stiffness'], values[f'world.{name}.friction'])
        for name in ('table', 'wall') if values[f'world.{name}.size']}
    if values['world.ball.radius'] > 0.0:
        objects['ball'] = FreeBall(*(values[f'world.ball.{name}'] for name in (
            'position', 'radius', 'mass', 'stiffness', 'friction')))
    if not objects:
        return None
    return World(robot.base, values['world.touch.links'] or robot.tips,
                 values['world.touch.radius'], **objects)


class ContactTopics:
    """Topics ~/push, ~/contact_wrench and ~/ball_position of osc_simulator."""

    def __init__(self, node: Node, plant: Plant, values: dict[str, Any], robot: Robot) -> None:
        self._node, self._plant, self._robot = node, plant, robot
        self._sensor = values['world.sensor_link'] or robot.tip
        plant.sensor_wrench(self._sensor)  # raises InputError if there is no such link
        self._timeout, self._until = values['world.push_timeout'], dict[str, float]()
        self._ball = (node.create_publisher(PointStamped, '~/ball_position', 10)
                      if values['world.ball.radius'] else None)
        self._measured = node.create_publisher(WrenchStamped, '~/contact_wrench', WRENCHES)
        node.create_subscription(WrenchStamped, '~/push', self._on_push, WRENCHES)

    def _on_push(self, message: WrenchStamped) -> None:
        # A wrench at the origin of the link frame_id, in its axes on arrival: its direction stays
        # constant while the link turns. With the base or an empty frame_id: at the origin of the
        # tip, in base axes. The stamp is ignored.
        frame = message.header.frame_id or self._robot.base
        link = self._robot.tip if frame == self._robot.base else frame
        try:
            wrench = messages.wrench_array(message.wrench).reshape(2, 3)
            if np.any(np.linalg.norm(wrench, axis=1) > STRONGEST):
                raise InputError(f'torque {wrench[0].tolist()}, force {wrench[1].tolist()}: '
                                 f'give norms up to {STRONGEST[0]:g} N m and '
                                 f'{STRONGEST[1]:g} N')
            moment, force = wrench @ self._plant.pose(frame)[:3, :3].T
        except InputError as error:
            self._node.get_logger().error(
                f'~/push refused: {error} (header.frame_id: the link that is pushed, or '
                f"'{self._robot.base}' for the tip, in base axes)", throttle_duration_sec=1.0)
            return
        self._plant.push(link, force, moment)
        self._until[link] = self._plant.time + self._timeout

    def end_old_pushes(self) -> None:
        """End every push that is older than the time-out; call this before every tick."""
        for link in [link for link, until in self._until.items() if self._plant.time >= until]:
            del self._until[link]
            self._plant.push(link, np.zeros(3))

    def publish(self, time: Time) -> None:
        """Publish the contact wrench of the last tick, if the topic has subscribers."""
        if self._measured.get_subscription_count():
            self._measured.publish(messages.wrench_message(
                self._plant.sensor_wrench(self._sensor), self._sensor, time))

    def report(self, time: Time) -> None:
        """Publish the position of the ball, if there is one."""
        if self._ball is not None:
            message = PointStamped()
            message.header.frame_id, message.header.stamp = self._robot.base, time
            place = message.point
            place.x, place.y, place.z = ball_position(self._plant).tolist()
            self._ball.publish(message)
