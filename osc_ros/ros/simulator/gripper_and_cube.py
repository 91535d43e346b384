# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Gripper and graspable cube of osc_simulator: parameters, models and topics."""

from __future__ import annotations

from typing import Any

from geometry_msgs.msg import PoseStamped
import numpy as np
from rclpy.node import Node

from osc_ros.ros.gripper_commands import GripperTopics
from osc_ros.ros.messages import messages
from osc_ros.ros.parameters.parameters import Entry
from osc_ros.sim.hand import Hand, hand_of
from osc_ros.sim.plant import Plant
from osc_ros.sim.pushed_block import Block

ENTRIES = (
    Entry('gripper.joints', (), 'Two prismatic joints of the robot description that open in '
          'opposite directions from 0: then the fingers move and grasp. Empty: no gripper',
          of=str),
    Entry('cube.position', (), 'Centre of a cube that rests on a table, at the start, in the root '
          'of the robot description [m]; empty: no cube, no table', lower=-1e2, upper=1e2, size=3),
    Entry('cube.size', 0.04, 'Length of its edges [m]', lower=1e-3, upper=1.0),
    Entry('cube.mass', 0.1, 'Its mass [kg]', lower=1e-3, upper=1e2),
    Entry('cube.friction', 0.5, 'Coefficient of friction between cube and table', lower=0.0,
          upper=10.0),
)


class GripperAndCube:
    """MuJoCo models of the gripper of the simulated arm, and of a cube that it can grasp."""

    def __init__(self, values: dict[str, Any], text: str) -> None:
        self.hand: Hand | None = hand_of(text, values['gripper.joints'])
        half, place = 0.5 * values['cube.size'], values['cube.position']
        self.cube = Block((half,) * 3, values['cube.mass'], values['cube.friction'],
                          place) if place else None
        self._height = place[2] - half if place else 0.0

    def plant_options(self) -> dict[str, Any]:
        """Return the options `furnish` and `wall` of `Plant` that add gripper, cube and table."""
        added = [thing.add for thing in (self.hand, self.cube) if thing is not None]
        if not added:
            return {}
        table = np.eye(4)
        table[2, 3] = self._height
        return {'furnish': lambda spec: [add(spec) for add in added],
                'wall': None if self.cube is None else table}


class GripperAndCubeTopics:
    """Topics of the gripper and of the cube in osc_simulator; `period` is that of a tick [s]."""

    def __init__(self, node: Node, gripper_and_cube: GripperAndCube, plant: Plant, period: float
                 ) -> None:
        self._plant, self._period = plant, period
        self._hand, self._cube = gripper_and_cube.hand, gripper_and_cube.cube
        if self._cube is not None:
            self._cubes = node.create_publisher(PoseStamped, '~/cube_pose', 10)
        if self._hand is not None:
            self._gripper = GripperTopics(node, self._hand.move)

    def advance(self) -> None:
        """Move the fingers; call this before each tick."""
        if self._hand is not None:
            self._hand.advance(self._plant, self._period)

    def publish(self, stamp: Any, frame: str) -> None:
        """Publish the states of gripper and cube; `frame` is the base frame."""
        if self._hand is not None:
            self._gripper.publish(self._hand.state(self._plant), stamp)
        if self._cube is not None:
            self._cubes.publish(messages.pose_message(
                self._plant.in_base(self._cube.pose(self._plant)), frame, stamp))
