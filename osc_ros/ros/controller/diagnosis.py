# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Report topics of osc_controller: pose, error, forces, parts of the torque, diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.control.law import Law
from osc_ros.control.model_error.disturbance import Report
from osc_ros.control.reasons import (
    direction_text,
    KEY,
    reasons,
    TITLES,
    warnings_of,
)
from osc_ros.control.safety.causes import ABANDON
from osc_ros.control.safety.supervision import HARMLESS
from osc_ros.loop import requests
from osc_ros.loop.cycle import ACTIVE, Stamp
from osc_ros.loop.requests import Status, Timing
from osc_ros.ros.controller.display import Display
from osc_ros.ros.controller.goal_topics import Goals
from osc_ros.ros.dds.ros_loop import Loop
from osc_ros.ros.messages import commands, messages

Array = NDArray[np.float64]
# Beginning of the text of osc_arm's diagnostics when it cannot control the arm any more.
FAILED, ENDED = 'the arm has failed', 'the process of the control loop has ended'
Pairs = Iterator[tuple[str, object]]

DEPTH = 100  # queue depth of ~/commands_stamped, whose messages are sent in bursts
OLDEST = 1.0  # largest plausible median age of states [s]


class Diagnosis:
    """Publishers of a configured controller, except those of the commands and the goals."""

    def __init__(self, node: Node, loop: Loop, law: Law, goals: Goals) -> None:
        self._node, self._loop, self._law = node, loop, law
        self._goals, self.finding = goals, ''  # `finding`: result of the start-up check
        self._error = np.zeros(6)  # from the link to its set-point, at the last report
        self.more: list[tuple[str, object]] = []  # further keys and values of the diagnostics
        self.inputs: Callable[[], Iterable[tuple[str, object]]] = tuple  # those about inputs
        self._publishers: list[Any] = []
        self._display = Display(node, loop, law)

        def publisher(kind: Any, topic: str, depth: int = 10) -> Any:
            self._publishers.append(node.create_publisher(kind, topic, depth))
            return self._publishers[-1]

        self._measured = tuple(publisher(kind, topic) for kind, topic in (
            (PoseStamped, '~/pose'), (TwistStamped, '~/twist'), (TwistStamped, '~/pose_error'),
            (WrenchStamped, '~/wrench')))
        self._inertia = publisher(Float64MultiArray, '~/inertia')
        self._terms = publisher(Float64MultiArray, '~/terms')
        self._torque = publisher(JointState, '~/external_torque')
        self._force = publisher(WrenchStamped, '~/external_wrench')
        self._quality = publisher(Float64MultiArray, '~/external_quality')
        self._commands = publisher(JointState, '~/commands_stamped', DEPTH)
        self._stamped = commands.StampedCommand(loop.joints)
        self._diagnostics = publisher(DiagnosticArray, '/diagnostics')

    def close(self) -> None:
        """Destroy the publishers; later calls publish nothing."""
        self._display.close()
        self._loop.listener = None
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)
        self._publishers = []

    def publish_tick(self, stamp: Stamp, pose: Array, error: Array, F: Array,
                     external: Report | None, twist: Array) -> None:
        """Publish the results of the loop for one joint state, on topics with subscribers."""
        # `pose` (4, 4) of the first task's link; `error` (6,) from this link to its set-point,
        # force `F` (6,) of the task and `twist` (6,) of the link, all [angular; linear] in the
        # base frame
        if not self._publishers:
            return
        self._error = error
        self._goals.follow()
        self._listen_to_commands()
        self._display.publish_markers(stamp, pose, error, F, external)
        base, time = self._law.robot.base, messages.time_of(stamp)
        of_tip = (twist.reshape(2, 3) @ pose[:3, :3]).ravel()
        for publisher, message_of, numbers, frame in zip(self._measured, (
                messages.pose_message, messages.twist_message, messages.twist_message,
                messages.wrench_message), (pose, of_tip, error, F),
                (base, self._law.robot.tip, base, base)):
            if publisher.get_subscription_count():
                publisher.publish(message_of(numbers, frame, time))
        if external is not None:
            self._publish_external(external, time)
        # the results are None or empty if the law has begun to hold a pose since that joint state
        if self._inertia.get_subscription_count() and (
                Lambda := self._loop.read(requests.inertia)) is not None:
            self._inertia.publish(messages.inertia_message(Lambda, time))
        if self._terms.get_subscription_count() and (rows := self._loop.read(requests.terms)):
            self._terms.publish(messages.table_message(
                list(rows), self._law.robot.joint_names, np.array(list(rows.values())), time))

    def _publish_external(self, external: Report, time: Time) -> None:
        """Publish the external torques, the external wrench, and measures of their quality."""
        robot = self._law.robot
        if self._torque.get_subscription_count():
            message = JointState(name=robot.joint_names, effort=external.torque)
            message.header.stamp, message.header.frame_id = time, robot.base
            self._torque.publish(message)
        if self._force.get_subscription_count():
            self._force.publish(messages.wrench_message(external.wrench, robot.base, time))
        if self._quality.get_subscription_count():
            self._quality.publish(messages.table_message(
                ['quality', 'lever', 'settled', 'contact'], ['value'], np.array([
                    [external.quality], [external.lever], [external.settled],
                    [external.in_contact]]), time))

    def _listen_to_commands(self) -> None:
        """Get each command from the loop while `~/commands_stamped` has subscribers."""
        self._loop.listener = (self._publish_command if self._commands.get_subscription_count()
                               else None)

    def _publish_command(self, *command: Any) -> None:
        """Publish a command and the joint state that it answers; see `Loop.listener`."""
        if self._publishers:
            self._commands.publish(self._stamped.fill(*command))

    def publish_status(self, timing: Timing | None = None) -> None:
        """Publish the diagnostics; `timing` is by default the present statistics of the loop."""
        if not self._publishers:
            return
        self._goals.update()
        self._listen_to_commands()
        status = self._loop.read(requests.status)
        timing = timing or self._loop.read(requests.timing)
        level, text = self._level(status)
        self._diagnostics.publish(messages.diagnostic_message(
            level, f'{self._node.get_fully_qualified_name()[1:]}: control', text,
            self._law.robot.name, (*self._loop_values(timing), *self._goals.values(),
                                   *self._limit_values(status), *self._law_values(status),
                                   *self.inputs(), *self.more),
            self._node.get_clock().now().to_msg()))

    def publish_failure(self, text: str) -> None:
        """Publish diagnostics of level ERROR with only this text."""
        if self._publishers:
            self._diagnostics.publish(messages.diagnostic_message(
                DiagnosticStatus.ERROR,
                f'{self._node.get_fully_qualified_name()[1:]}: control', text,
                self._law.robot.name, (), self._node.get_clock().now().to_msg()))

    def _level(self, status: Status) -> tuple[bytes, str]:
        """Return level and text of the diagnostics: those of the most severe present condition."""
        if status.reaction == ABANDON:
            return DiagnosticStatus.ERROR, status.text
        if status.mode != ACTIVE:
            return DiagnosticStatus.OK, status.text
        if status.reaction not in ('', 'report'):
            return DiagnosticStatus.ERROR, status.text
        for reason in warnings_of(self._law.robot, self._law.settings.tasks[0], status.figures):
            return DiagnosticStatus.WARN, reason.cause + (
                f'; {status.text}' if status.reaction else '')
        if status.reaction:
            return DiagnosticStatus.WARN, status.text
        return DiagnosticStatus.OK, (f'{TITLES["free drive"]}: the arm follows the hand'
                                     if status.figures.is_free else status.text)

    def _loop_values(self, timing: Timing) -> Pairs:
        yield 'method', self._law.space.method
        yield 'workers', self._law.space.plan
        yield 'updates', timing.updates.count
        for name, time in zip(('p50', 'p99', 'max'), timing.updates.percentile(50, 99, 100)):
            yield f'update {name} [us]', f'{1e6 * time:.1f}'
        for name, time in zip(('p50', 'p99', 'max'), timing.periods.percentile(50, 99, 100)):
            yield f'period {name} [ms]', f'{1e3 * time:.3f}'
        yield 'missed states', timing.missed
        yield 'refused states', timing.refused
        yield 'last refusal', timing.refusal
        yield 'state age [s]', f'{timing.state_age:.3f}'
        yield 'delay of the states [ms]', f'{1e3 * state_delay(timing):.2f}'
        yield 'largest torque use', f'{timing.torque_use:.3f}'

    def _limit_values(self, status: Status) -> Pairs:
        figures = status.figures
        yield 'saturated joints', self._joint_names(figures.saturated)
        yield 'target', figures.target
        yield 'speed override [%]', f'{figures.speed_override:g}'
        yield 'joints held by limits', self._joint_names(figures.sides)
        for nearest in figures.around.near[:1]:
            yield 'nearest pair', f'{nearest.link} {nearest.other}'
            yield 'nearest distance [mm]', f'{1e3 * nearest.distance:.1f}'
        yield 'held off by', ', '.join(
            f'{one.link} {one.other}' for one in figures.around.held_off)
        yield from self._reasons(status)
        yield 'task share', f'{status.shares[0]:.3f}'
        yield 'posture share', f'{status.shares[1]:.3f}'
        yield 'torque rate share', f'{status.rate_share:.3f}'
        for name, count in status.counts.items():
            yield f'watchdog {name}', count

    def _reasons(self, status: Status) -> Pairs:
        """Yield the reasons why the tip is not at its goal or set-point, while it is not."""
        if (status.mode == ACTIVE and status.reaction in HARMLESS
                and self._goals.is_away(self._error)):
            for reason in reasons(self._law.robot, self._law.settings.tasks[0], status.figures,
                                  searches=False):
                yield KEY + reason.name, reason

    def _law_values(self, status: Status) -> Pairs:
        figures = status.figures
        yield 'gain share', f'{figures.gains.share:.3f}'
        yield 'free drive', 'on' if figures.is_free else 'off'
        yield 'settings', 'wait for the end of the change before' if status.wait else 'in force'
        yield 'impedance', status.impedance
        yield 'energy tank [J]', f'{status.tank:.3f}'
        yield 'start-up check', self.finding
        yield 'friction torque use', f'{status.friction_use:.3f}'
        yield 'disturbance torque use', f'{status.disturbance_use:.3f}'
        if (external := figures.external) is not None:
            yield 'external force [N]', f'{np.linalg.norm(external.wrench[3:]):.2f}'
            yield 'external moment [N m]', f'{np.linalg.norm(external.wrench[:3]):.3f}'
            yield 'external wrench quality', f'{external.quality:.3f}'
        yield 'payload [kg]', self._node.get_parameter('payload.mass').value
        near = figures.singularity
        yield 'conditioning', f'{near.conditioning:.3e}'
        yield 'least controlled share', f'{near.least_share:.3f}'
        yield 'damping', f'{1.0 - near.least_share:.3f}'
        yield 'weakest direction', direction_text(near.weakest)

    def _joint_names(self, is_chosen: Any) -> str:
        return ' '.join(name for name, chosen in zip(self._law.robot.joint_names, is_chosen)
                        if chosen)


def state_delay(timing: Timing) -> float:
    """Return the median time from the stamp of a state to its arrival [s]; 0 if implausible."""
    age = timing.ages.percentile(50)[0]
    # negative or above OLDEST: the stamps are from another clock, as in simulated time
    return age if 0.0 <= age <= OLDEST else 0.0
