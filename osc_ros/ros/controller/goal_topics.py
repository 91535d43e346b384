# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Topics for the distance of each task to its goal, and for the arrival there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from geometry_msgs.msg import PoseStamped, TwistStamped
import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node

from osc_ros.control.law import Law
from osc_ros.control.setpoint.arrival import Arrival, NO_GOAL, ON_THE_WAY, REACHED, Tolerance
from osc_ros.loop import requests
from osc_ros.ros.dds.ros_loop import Loop
from osc_ros.ros.messages import messages
from osc_ros.ros.messages.qos import LATCHED_QOS

Array = NDArray[np.float64]

JOINTS = Tolerance(1e-3, 1e-3, 0.0)  # of the joints at their goal


def task_prefixes(law: Law) -> dict[str, str]:
    """Return the prefix of each task's topics: '' for the tip, NAME/ for further tasks."""
    return {name: f'{name}/' if i else '' for i, name in enumerate(law.levels)}


class Goals:
    """Publishes ~/goal_error and ~/goal_reached of the tip, ~/NAME/… of each further task."""

    def __init__(self, node: Node, loop: Loop, law: Law) -> None:
        self._node, self._loop, self._base = node, loop, law.robot.base
        prefixes = task_prefixes(law)
        self._arrivals = {name: Arrival() for name in prefixes}
        self._errors = {name: node.create_publisher(TwistStamped, f'~/{prefix}goal_error', 10)
                        for name, prefix in prefixes.items()}
        self._events = {
            name: node.create_publisher(PoseStamped, f'~/{prefix}goal_reached', LATCHED_QOS)
            for name, prefix in prefixes.items()}
        self._tolerance = Tolerance(0.0, 0.0, 0.0)

    def close(self) -> None:
        """Destroy the publishers."""
        for publisher in (*self._errors.values(), *self._events.values()):
            self._node.destroy_publisher(publisher)
        self._errors, self._events, self._arrivals = {}, {}, {}

    def apply(self, values: Mapping[str, Any]) -> None:
        """Set the parameters that concern goals."""
        self._tolerance = Tolerance(values['goal.rotation.tolerance'],
                                    values['goal.translation.tolerance'],
                                    values['goal.settle_time'])

    def begin(self, task: str) -> None:
        """Record that a motion of a task was commanded."""
        self._arrivals[task].begin()
        self.update()

    def is_reached(self, task: str) -> bool:
        """Return whether the newest goal of a task has been reached."""
        return self._arrivals[task].state == REACHED

    def is_away(self, error: Array) -> bool:
        """Whether the first task's link is not at its goal or, without one, at its set-point."""
        # `error` (6,) from the link to its set-point, [angular; linear]
        first = next(iter(self._arrivals.values()))
        left = first.angle, first.distance
        if first.state == NO_GOAL:
            left = np.linalg.norm(error[:3]), np.linalg.norm(error[3:])
        return first.state == ON_THE_WAY or bool(
            left[0] > self._tolerance.rotation or left[1] > self._tolerance.translation)

    def follow(self) -> None:
        """Call `update` if a goal is not reached yet, or the errors have a subscriber."""
        if (any(arrival.state == ON_THE_WAY for arrival in self._arrivals.values())
                or any(one.get_subscription_count() for one in self._errors.values())):
            self.update()

    def update(self) -> None:
        """Publish the errors to the goals, and each goal that has been reached."""
        found = self._loop.read(requests.progress)
        if found is None:
            return
        if not found.approaches:
            for arrival in self._arrivals.values():
                arrival.clear()
            return
        stamp = messages.time_of(found.stamp)
        if found.joints is not None:
            self._update_joints(found, stamp)
            return
        for name, arrival in self._arrivals.items():
            approach = found.approaches[name]
            error = approach.error()
            if error is not None and self._errors[name].get_subscription_count():
                self._errors[name].publish(messages.twist_message(error, self._base, stamp))
            if arrival.update(found.time, error, self._tolerance):
                self._events[name].publish(messages.pose_message(approach.goal, self._base, stamp))

    def _update_joints(self, found: requests.Progress, stamp: Any) -> None:
        """Publish the pose of the tip if the goal of the joints has been reached."""
        name, approach = next(iter(found.approaches.items()))
        if self._arrivals[name].update(found.time, found.joints.error(), JOINTS._replace(
                settle_time=self._tolerance.settle_time), found.joints.moves):
            self._events[name].publish(messages.pose_message(approach.pose, self._base, stamp))

    def values(self) -> Iterator[tuple[str, object]]:
        """Yield the keys and values of the diagnostics."""
        for i, (name, arrival) in enumerate(self._arrivals.items()):
            prefix = f'{name} ' if i else ''
            yield f'{prefix}goal', arrival.state
            yield f'{prefix}goal distance [mm]', f'{1e3 * arrival.distance:.2f}'
            yield f'{prefix}goal angle [deg]', f'{np.degrees(arrival.angle):.2f}'
