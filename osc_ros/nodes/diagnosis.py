# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""Reports of the controller: pose, error, forces, parts of the torque, diagnostics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from osc_ros.errors import InputError
from osc_ros.nodes import commands, messages
from osc_ros.nodes.goals import Goals
from osc_ros.nodes.loop import ACTIVE, IDLE, Loop
from osc_ros.nodes.reaction_log import state_text

Array = NDArray[np.float64]
Pairs = Iterator[tuple[str, object]]

LEAST_GAIN_SHARE = 0.98  # warn below it; smaller reductions are variations of the measured period
DEPTH = 100  # queue depth of ~/commands_stamped, whose messages are sent in bursts
SHOWN_DIRECTION = 0.2  # smallest component of the weakest direction that is reported


class Diagnosis:
    """
    Publishers of a configured controller, except those of the commands and the goals.

    Attributes
    ----------
    finding : str
        Result of the start-up check.

    Parameters
    ----------
    node : Node
        Owns the publishers.
    loop : Loop
    goals : Goals

    """

    def __init__(self, node: Node, loop: Loop, goals: Goals) -> None:
        self._node, self._loop, self._law, self._guard = node, loop, loop.law, loop.guard
        self._goals, self.finding = goals, ''
        self._publishers: list[Any] = []

        def publisher(kind: Any, topic: str, depth: int = 10) -> Any:
            self._publishers.append(node.create_publisher(kind, topic, depth))
            return self._publishers[-1]

        self._pose = publisher(PoseStamped, '~/pose')
        self._pose_error = publisher(TwistStamped, '~/pose_error')
        self._wrench = publisher(WrenchStamped, '~/wrench')
        self._inertia = publisher(Float64MultiArray, '~/inertia')
        self._terms = publisher(Float64MultiArray, '~/terms')
        self._commands = publisher(JointState, '~/commands_stamped', DEPTH)
        self._diagnostics = publisher(DiagnosticArray, '/diagnostics')

    def close(self) -> None:
        """Destroy the publishers; later calls publish nothing."""
        self._loop.listener = None
        for publisher in self._publishers:
            self._node.destroy_publisher(publisher)
        self._publishers = []

    def state(self) -> str:
        """Return a text with the state of the controller, and the reason if a watchdog acts."""
        return state_text(self._guard, 'active') if self._loop.mode != IDLE else 'inactive'

    def publish_tick(self, stamp: Any, pose: Array, error: Array, F: Array) -> None:
        """
        Publish the results of the loop for one joint state, on topics with subscribers.

        Parameters
        ----------
        stamp : Time
        pose : (4, 4)
        error, F : (6,)
            [angular; linear] in the base frame.

        """
        if not self._publishers:
            return
        self._goals.update()
        self._listen_to_commands()
        base = self._law.robot.base
        for publisher, message_of, numbers in ((self._pose, messages.pose_message, pose),
                                               (self._pose_error, messages.twist_message, error),
                                               (self._wrench, messages.wrench_message, F)):
            if publisher.get_subscription_count():
                publisher.publish(message_of(numbers, base, stamp))
        if self._inertia.get_subscription_count():
            with self._loop.lock:
                Lambda = self._law.inertia()
            self._inertia.publish(messages.inertia_message(Lambda, stamp))
        if self._terms.get_subscription_count():
            with self._loop.lock:
                rows = self._torque_rows()
            self._terms.publish(messages.table_message(
                list(rows), self._law.robot.joint_names, np.array(list(rows.values())), stamp))

    def _listen_to_commands(self) -> None:
        """Have the loop record its commands while `~/commands_stamped` has subscribers."""
        self._loop.listener = (self._publish_command if self._commands.get_subscription_count()
                               else None)

    def _publish_command(self, time: Any, tau: Array) -> None:
        """Publish a command (n,); `time` is the stamp of its state, or a time [s] without one."""
        if self._publishers:
            self._commands.publish(commands.command_message(self._loop.joints, tau, time))

    def _torque_rows(self) -> dict[str, Array]:
        """Torques by term (n,), and joint accelerations of the last tick: predicted, measured."""
        rows = self._law.terms()
        try:
            rows['predicted'], rows['met'] = self._law.predicted_and_measured()
        except InputError:  # needs two ticks
            rows['predicted'] = rows['met'] = np.full(self._law.robot.n, np.nan)
        return rows

    def publish_status(self) -> None:
        """Publish the diagnostics."""
        if not self._publishers:
            return
        self._goals.update()
        self._listen_to_commands()
        with self._loop.lock:
            gain_share, weakest = self._law.gain_share(), self._law.priorities.weakest()
        level, text = self._level(gain_share)
        self._diagnostics.publish(messages.diagnostic_message(
            level, f'{self._node.get_fully_qualified_name()[1:]}: control', text,
            self._law.robot.name, (*self._loop_values(), *self._goals.values(),
                                   *self._limit_values(),
                                   *self._law_values(gain_share, weakest)),
            self._node.get_clock().now().to_msg()))

    def _level(self, gain_share: float) -> tuple[bytes, str]:
        """Level and text of the gravest of the present conditions."""
        law, guard = self._law, self._guard
        if self._loop.mode != ACTIVE:
            return DiagnosticStatus.OK, self.state()
        if guard.reaction:
            return (DiagnosticStatus.WARN if guard.reaction == 'report'
                    else DiagnosticStatus.ERROR), self.state()
        for applies, text in (
                (law.saturated.any(), 'torque at its limit'),
                (any(level.guide.waits for level in law.levels.values()),
                 'the target waits for the arm'),
                (law.limiter.sides.any(), 'joints held by their limits'),
                (gain_share < LEAST_GAIN_SHARE, 'gains are reduced: too high for joint states '
                 f'every {1e3 * law.period:.1f} ms, answered {law.delay:.1f} periods after their '
                 'stamps')):
            if applies:
                return DiagnosticStatus.WARN, text
        return DiagnosticStatus.OK, self.state()

    def _loop_values(self) -> Pairs:
        loop = self._loop
        yield 'method', self._law.space.method
        yield 'workers', self._law.space.plan
        yield 'updates', loop.updates.count
        for name, time in zip(('p50', 'p99', 'max'), loop.updates.percentile(50, 99, 100)):
            yield f'update {name} [us]', f'{1e6 * time:.1f}'
        for name, time in zip(('p50', 'p99', 'max'), loop.periods.percentile(50, 99, 100)):
            yield f'period {name} [ms]', f'{1e3 * time:.3f}'
        yield 'missed states', loop.missed
        yield 'refused states', loop.refused
        yield 'last refusal', loop.refusal
        yield 'state age [s]', f'{loop.state_age:.3f}'
        yield 'delay of the states [ms]', f'{1e3 * loop.state_delay:.2f}'
        yield 'largest torque use', f'{np.max(loop.torque_use):.3f}'

    def _limit_values(self) -> Pairs:
        law = self._law
        limiter = law.limiter
        tip = next(iter(law.levels.values())).guide
        yield 'saturated joints', self._joint_names(law.saturated)
        yield 'target', ('waits for the arm' if tip.waits else 'at the edge' if tip.clamped
                         else 'free')
        yield 'joints held by limits', self._joint_names(limiter.sides)
        yield 'task share', f'{limiter.shares[0]:.3f}'
        yield 'posture share', f'{limiter.shares[1]:.3f}'
        yield 'torque rate share', f'{limiter.rate_share:.3f}'
        for name, count in self._guard.counts.items():
            yield f'watchdog {name}', count

    def _law_values(self, gain_share: float, weakest: Array) -> Pairs:
        law = self._law
        solved = law.priorities
        least_share = solved.shares[0].min()
        friction_use = np.abs(law.friction_torque) / law.settings.limits.effort
        yield 'gain share', f'{gain_share:.3f}'
        yield 'start-up check', self.finding
        yield 'friction torque use', f'{float(np.max(friction_use)):.3f}'
        yield 'payload [kg]', self._node.get_parameter('payload.mass').value
        yield 'conditioning', f'{solved.ratios[0].min():.3e}'
        yield 'least controlled share', f'{least_share:.3f}'
        yield 'damping', f'{1.0 - least_share:.3f}'
        yield 'weakest direction', _direction(weakest)

    def _joint_names(self, is_chosen: Any) -> str:
        return ' '.join(name for name, chosen in zip(self._law.robot.joint_names, is_chosen)
                        if chosen)


def _direction(twist: Array) -> str:
    """Return a text with the larger components of a direction (6,), [angular; linear]."""
    names = [f'{kind} {axis}' for kind in ('turn', 'shift') for axis in 'xyz']
    return ', '.join(f'{name} {part:+.2f}' for name, part in zip(names, twist)
                     if abs(part) > SHOWN_DIRECTION)
