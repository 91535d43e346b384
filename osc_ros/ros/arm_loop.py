# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Interface of the node osc_arm to its control loop, a separate process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from builtin_interfaces.msg import Time
import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState

from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import Supervision
from osc_ros.loop.cycle import Answering
from osc_ros.loop.process.arm_cycles import compile_cycles
from osc_ros.loop.process.channel import Record
from osc_ros.loop.process.link import LoopProcess
from osc_ros.loop.process.process_start import Start
from osc_ros.loop.statistics import call_handlers
from osc_ros.ros.messages import messages
from osc_ros.ros.parameters.node_settings import law_of, LoadedRobot

Array = NDArray[np.float64]

POST_PERIOD = 0.005  # period at which the node handles events and states of the loop [s]
STATES_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)  # lose no message


def law_and_loop_of(values: Mapping[str, Any], urdf: str) -> tuple[LoadedRobot, Law]:
    """Return the result of `law_of`, and compile the kernels of the loop's process, too."""
    # The process of the loop does not report progress: it finds all kernels in the cache then.
    found = law_of(values, urdf)
    Answering(found[1].robot.n)
    compile_cycles()
    return found


class ArmLoop(LoopProcess):
    """Process of a control loop, with topics for its joint states."""

    # It has those attributes and methods of `osc_ros.ros.dds.ros_loop.Loop` that the node uses.

    def __init__(self, owner: Node, law: Law, start: Start, rate: float,
                 handlers: Mapping[str, Callable[..., None]]) -> None:
        # `law` is the node's copy of the law in the process, and computes no torques. `rate` of
        # joint_states [Hz]. `handlers` run in the owner's thread: for the events of `Engine`;
        # 'lost' (text), if the arm fails; 'ended' (text), if the process has ended on its own.
        # OscError if the arm cannot be opened, or does not fit the robot.
        super().__init__(start)
        self.listener: Callable[..., None] | None = None  # see `Loop.listener`
        self._owner, self._handlers, self._law = owner, handlers, law
        self._read, self._spacing, self._next_state = 0, 1.0 / rate, -np.inf
        self._tolerance = 0.5 * self.description.period
        self._states = owner.create_publisher(JointState, 'joint_states', STATES_QOS)
        self._clock = (owner.create_publisher(ClockMessage, '/clock', 10)
                       if self.is_simulated else None)
        self._poster = owner.create_timer(POST_PERIOD, self.do_posted,
                                          clock=Clock(clock_type=ClockType.STEADY_TIME))

    def close(self) -> None:
        """End the process, after the arm has come to rest or ENDING_TIME has passed."""
        self._owner.destroy_timer(self._poster)
        super().close()
        for publisher in (self._states, self._clock):
            if publisher is not None:
                self._owner.destroy_publisher(publisher)

    @property
    def required(self) -> str:
        """Required content of a state, for messages."""
        return f"positions and velocities of {', '.join(self.joints)}"

    @property
    def refusal(self) -> str:
        """Reason why the last states were not used; empty if it is unknown."""
        return 'the process of the control loop has ended' if self.has_ended else ''

    def lack_of_states(self) -> str:
        """Return the reason why no valid states arrive."""
        return self.refusal or f'{self.description.name} has sent ' + (
            f'the newest {self.state_age:.1f} s ago' if self.count else 'none')

    def use_setup(self, setup: CompiledLaw, supervision: Supervision) -> bool:
        """See `Engine.use_setup`."""
        waits = super().use_setup(setup, supervision)
        self._law.use_setup(setup)
        return waits

    def set_velocity_source(self, mode: str) -> None:
        """Do nothing: the arm measures its velocities."""

    @property
    def is_simulated(self) -> bool:
        """Whether the arm is simulated, as its hardware says."""
        return self.description.is_simulated

    def require_publishers(self) -> None:
        """Do nothing: the states come from the arm, not from a topic."""

    def publisher_names(self, wanted: Iterable[str]) -> tuple[str, str, int]:
        """Return no publishers, see `require_publishers`."""
        return '', '', 0

    def replace_ended_publishers(self) -> str:
        """Return '', see `require_publishers`."""
        return ''

    # events and states for the node

    def do_posted(self) -> None:
        """Publish new states, and call the handlers of events; in the owner's thread."""
        self._publish_states()
        call_handlers(list(iter(self.next_event, None)), self._handlers)
        if end := self.unexpected_end():
            self._handlers['ended'](end)

    def _publish_states(self) -> None:
        self._read, records = self.records(self._read)
        for record in records:
            stamp = messages.time_of(record.stamp)
            time = messages.seconds(stamp)
            late = time - self._next_state + self._tolerance
            if late >= 0.0 or late < -2.0 * self._spacing:
                self._next_state = self._spacing + (
                    self._next_state if 0.0 <= late < self._spacing else time)
                self._publish_state(record, stamp)
            if self.listener is not None and record.sent:
                self.listener(record.command, record.stamp, time, record.q, record.qd)

    def _publish_state(self, record: Record, stamp: Time) -> None:
        message = messages.joint_state(self.joints, 0.0, record.q, record.qd, record.tau)
        message.header.stamp = stamp
        self._states.publish(message)
        if self._clock is not None:
            self._clock.publish(ClockMessage(clock=stamp))
