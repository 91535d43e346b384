# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics and action of a gripper; that of osc_simulator, and a cube that it can grasp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped
import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.control.gripper_state import FASTEST, goal_of, GripperState, HandGoal
from osc_ros.errors import OscError
from osc_ros.nodes import messages
from osc_ros.nodes.gripper_action import GripperAction
from osc_ros.nodes.parameters import Entry
from osc_ros.sim.block import Block
from osc_ros.sim.hand import Hand, hand_of
from osc_ros.sim.plant import Plant

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


class Things:
    """
    What the simulated arm grasps with, and what it can grasp.

    Attributes
    ----------
    hand : Hand or None
    cube : Block or None

    Parameters
    ----------
    values : dict of str to value
        All parameters of osc_simulator.
    text : str
        The URDF.

    Raises
    ------
    InputError, ModelError
        See `Hand`.

    """

    def __init__(self, values: dict[str, Any], text: str) -> None:
        self.hand: Hand | None = hand_of(text, values['gripper.joints'])
        half, place = 0.5 * values['cube.size'], values['cube.position']
        self.cube = Block((half,) * 3, values['cube.mass'], values['cube.friction'],
                          place) if place else None
        self._height = place[2] - half if place else 0.0

    def plant_options(self) -> dict[str, Any]:
        """Return the options of `Plant` that add them: `furnish`, and the table as the wall."""
        added = [thing.add for thing in (self.hand, self.cube) if thing is not None]
        if not added:
            return {}
        table = np.eye(4)
        table[2, 3] = self._height
        return {'furnish': lambda spec: [add(spec) for add in added],
                'wall': None if self.cube is None else table}


class GripperTopics:
    """
    Topics and action of a gripper.

    A command is std_msgs/Float64MultiArray on `~/gripper/command`: the width, then the largest
    force, then the speed. The label of its dimension comes back in the answer on
    `~/gripper/answers`, with the reason of a refusal. `~/gripper/state` has 'width' first, with
    its rate and the force, then 'goal', with the commanded speed and force.

    Parameters
    ----------
    node : Node
    move : callable
        Commands the gripper; raises OscError if it refuses a goal.

    """

    def __init__(self, node: Node, move: Callable[[HandGoal], None]) -> None:
        self._node, self._send = node, move
        self._time, self._speed = 0.0, FASTEST
        self._states = node.create_publisher(JointState, '~/gripper/state', 10)
        self._answers = node.create_publisher(DiagnosticStatus, '~/gripper/answers', 10)
        node.create_subscription(Float64MultiArray, '~/gripper/command', self._on_command, 10)
        self._action = GripperAction(node, '~/gripper/gripper_cmd', self._move)

    def publish(self, state: GripperState, stamp: Any) -> None:
        """Publish a state, and tell the action."""
        self._time = messages.seconds(stamp)
        message = JointState(name=['width', 'goal'], position=[state.width, state.goal],
                             velocity=[state.rate, self._speed],
                             effort=[state.force, state.commanded_force])
        message.header.stamp = stamp
        self._states.publish(message)
        self._action.update(state)

    def _move(self, goal: HandGoal) -> None:
        self._send(goal)
        self._speed = goal.speed

    def _on_command(self, message: Float64MultiArray) -> None:
        reason = ''
        try:
            self._move(goal_of(message.data))
        except OscError as error:
            reason = str(error)
            self._node.get_logger().error(f'gripper/command refused, the old one stays: {error}',
                                          throttle_duration_sec=1.0)
        label = message.layout.dim[0].label if message.layout.dim else ''
        self._answers.publish(DiagnosticStatus(
            level=DiagnosticStatus.ERROR if reason else DiagnosticStatus.OK,
            name='gripper/command', message=reason, values=[
                KeyValue(key='label', value=label),
                KeyValue(key='time', value=repr(self._time))]))


class ThingTopics:
    """
    Topics of the gripper and of the cube, of a node that simulates them.

    Parameters
    ----------
    node : Node
    things : Things
    plant : Plant
    period : float
        Time from one step to the next [s].

    """

    def __init__(self, node: Node, things: Things, plant: Plant, period: float) -> None:
        self._plant, self._period = plant, period
        self._hand, self._cube = things.hand, things.cube
        if self._cube is not None:
            self._cubes = node.create_publisher(PoseStamped, '~/cube_pose', 10)
        if self._hand is not None:
            self._gripper = GripperTopics(node, self._hand.move)

    def advance(self) -> None:
        """Move the fingers; call it before each step."""
        if self._hand is not None:
            self._hand.advance(self._plant, self._period)

    def publish(self, stamp: Any, frame: str) -> None:
        """Publish the states, after a step; `frame` is the base frame."""
        if self._hand is not None:
            self._gripper.publish(self._hand.state(self._plant), stamp)
        if self._cube is not None:
            self._cubes.publish(messages.pose_message(
                self._plant.in_base(self._cube.pose(self._plant)), frame, stamp))
