# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Node osc_simulator: an arm in MuJoCo with the topics of a hardware driver."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

from geometry_msgs.msg import PoseStamped
import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String

from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.ros.messages import commands, messages
from osc_ros.ros.messages.object_markers import ObjectMarkers
from osc_ros.ros.messages.qos import LATCHED_QOS
from osc_ros.ros.messages.transforms import LinkTransforms, RATE
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.parameters import declare, Entry, refuse_bad_sets, values
from osc_ros.ros.process.node_process import run_and_exit
from osc_ros.ros.simulator.commanded import Commanded
from osc_ros.ros.simulator.gripper_and_cube import ENTRIES as GRIPPER
from osc_ros.ros.simulator.gripper_and_cube import GripperAndCube, GripperAndCubeTopics
from osc_ros.ros.simulator.simulated_arm import plant_of
from osc_ros.ros.simulator.world_topics import ContactTopics
from osc_ros.ros.simulator.world_topics import ENTRIES as WORLD
from osc_ros.sim.plant import Plant, steps_per_period

RELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
RECORDED = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)  # lose no message
CATCH_UP = 5  # largest number of ticks in a row by which a late real-time loop catches up

PARAMETERS = (
    *robot_parameters.ENTRIES,
    *robot_parameters.SIMULATED_PAYLOAD,
    Entry('lockstep', False, 'false: run in real time; true: step when the command for the last '
          'state has arrived, as fast as the machine can, for runs that repeat exactly'),
    Entry('paced', False, 'In lockstep: at most as fast as the wall clock, so that the arm of a '
          'busy machine is slow, and loses no command'),
    Entry('lockstep_timeout', 2.0, 'In lockstep: after this time without a command, the brakes '
          'close and the simulation steps without a command, until they have stopped the arm [s]',
          lower=1e-3, upper=3600.0),
    Entry('brakes', True, 'true: the brakes close when commands end; false: the last torque is '
          'applied for ever, and the arm drifts'),
    Entry('brake_timeout', 0.2, 'In real time: the brakes close after this wall time without a '
          'command [s]', lower=1e-3, upper=3600.0),
    Entry('rate', 500.0, 'Rate of the joint states, in simulated time [Hz]', lower=1.0,
          upper=20000.0),
    Entry('timestep', 0.001, 'Physics step; a period of `rate` must be a whole number of them '
          '[s]', lower=1e-6, upper=0.1),
    Entry('command_topic', 'osc_controller/commands', 'Topic of the torques'),
    Entry('further_command_topics', (), 'One topic for each of further_tips, with the torques of '
          'the joints from the base to it; command_topic then has those from the base to tip. '
          'Empty: command_topic has all', of=str),
    Entry('initial_positions', (), 'Joint positions at the start, base first [rad, m]; empty: 0, '
          'or the nearest limit'),
    Entry('damping', (), "Joint damping, base first [N m s/rad]; empty: the URDF's", lower=0.0),
    Entry('friction', (), "Coulomb friction, base first [N m]; empty: the URDF's", lower=0.0),
    Entry('effort_limits', (), "Torque limits, base first [N m], 0: unlimited; empty: the URDF's",
          lower=0.0),
    Entry('position_noise', 0.0, 'Standard deviation of measured positions [rad, m]', lower=0.0),
    Entry('velocity_noise', 0.0, 'Standard deviation of measured velocities [rad/s, m/s]',
          lower=0.0),
    Entry('seed', 0, 'Seed of the noise', lower=0),
    Entry('viewer', False, 'Show the arm in a window; closing it does not end the simulation'),
    Entry('publish_tf', True, 'Publish the transforms of all links on /tf, unless a '
          'robot_state_publisher does; needs the package tf2_msgs'),
    Entry('report_rate', 100.0, 'Rate of /clock and ~/tip_pose, in simulated time [Hz]',
          lower=0.1, upper=20000.0),
    *GRIPPER,
    *WORLD,
)

LINGER = 1.0  # longest time to wait for the end of the commands before the node ends [s]
SILENT = 0.2  # time without a command after which the commands count as ended [s]
REPEAT = 0.04  # wall time after which an unanswered state is sent again [s]
FRAME = 1.0 / 30.0  # wall time between two frames in the viewer [s]


class ArmTopics:
    """Topics of the simulated arm: joint_states in each tick, and most others at lower rates."""

    def __init__(self, node: Node, found: dict[str, Any], robot: Robot, text: str,
                 models: GripperAndCube, plant: Plant) -> None:
        self._plant, self._robot = plant, robot
        self._gripper = GripperAndCubeTopics(node, models, plant, 1.0 / found['rate'])
        self._contacts = ContactTopics(node, plant, found, robot)
        topics = [found['command_topic'], *found['further_command_topics']]
        self._objects = ObjectMarkers(node, plant, robot.base, [
            f"{topic.rpartition('/')[0]}/obstacles" for topic in topics
            if found['world.obstacles']])
        self._report_every = max(1, round(found['rate'] / found['report_rate']))
        self._tf_every = max(1, round(found['rate'] / RATE))
        self._transforms = LinkTransforms(node, plant, text) if found['publish_tf'] else None
        self._states = node.create_publisher(JointState, 'joint_states', RECORDED)
        self._clock = node.create_publisher(ClockMessage, '/clock', RELIABLE)
        self._poses = node.create_publisher(PoseStamped, '~/tip_pose', RECORDED)
        node.create_publisher(String, 'robot_description', LATCHED_QOS).publish(String(data=text))

    def apply_commands(self) -> None:
        """Move the fingers, and end old pushes; call this before each tick."""
        self._gripper.advance()
        self._contacts.end_old_pushes()

    def publish(self, tick: int, state: JointState) -> None:
        """Publish the state after a tick, given by its number."""
        stamp = state.header.stamp
        # published before the state: the controller then has this wrench when it answers it
        self._contacts.publish(stamp)
        if tick % self._report_every == 0:
            self._clock.publish(ClockMessage(clock=stamp))
            self._contacts.report(stamp)
            self._objects.publish_obstacles(stamp)
            self._poses.publish(messages.pose_message(
                self._plant.pose(self._robot.tip), self._robot.base, stamp))
            self._gripper.publish(stamp, self._robot.base)
        if self._transforms is not None and tick % self._tf_every == 0:
            self._transforms.publish(stamp)
        self._states.publish(state)


class Simulator(Node):  # type: ignore[misc]
    """One robot on a fixed base, which MuJoCo builds from the same URDF as its controller."""

    # Simulated time starts when a command has arrived on every command topic.

    def __init__(self, **arguments: Any) -> None:
        super().__init__('osc_simulator', **arguments)
        declare(self, PARAMETERS)
        found = values(self, PARAMETERS)
        text = robot_parameters.description(found)
        robot = robot_parameters.robot(found, text)
        self._steps = steps_per_period(found, "parameter 'timestep'", "'rate'")
        self._period = 1.0 / found['rate']
        gripper_and_cube = GripperAndCube(found, text)
        self._plant = plant_of(found, text, robot, **gripper_and_cube.plant_options())
        self._compensates = found['driver_compensates'] != 'none'
        self._viewer, self._shown = self._window() if found['viewer'] else None, 0.0
        self._lockstep, self._has_brakes = found['lockstep'], found['brakes']
        self._paced, self._is_answered = found['lockstep'] and found['paced'], False
        self._timeout = found['lockstep_timeout' if self._lockstep else 'brake_timeout']
        self._tick = self._unanswered = self._dropped = self._late = 0
        self._commanded = Commanded(_shares(found, robot), robot.n, self._lockstep)
        self._ends = np.inf
        refuse_bad_sets(self, PARAMETERS, lambda: True, lambda *values: None)
        self._topics = ArmTopics(self, found, robot, text, gripper_and_cube, self._plant)
        self._listen()
        self.get_logger().info(
            f"'{robot.name}', {robot.n} joints, {found['rate']:g} Hz, physics at "
            f"{1.0 / found['timestep']:g} Hz, "
            + ('in lockstep with its commands' if self._lockstep else 'in real time')
            + (', at most as fast as the wall clock' if self._paced else '')
            + '; brakes on until the first command')

    def _listen(self) -> None:
        """Subscribe to the commands, and start the timer of the simulation."""
        for topic in self._commanded.shares:
            self.create_subscription(Float64MultiArray, topic,
                                     partial(self._on_command, topic), RELIABLE)
        self._began = self._sent = perf_counter()
        self._measure()
        self.create_timer(0.05 if self._lockstep and not self._paced else self._period,
                          self._wait if self._lockstep else self._run,
                          clock=Clock(clock_type=ClockType.STEADY_TIME))

    def ready_to_stop(self) -> bool:
        """Return whether the commands have ended, or LINGER has passed since the first call."""
        # Ctrl-C interrupts all nodes together, and the controller needs states until the arm is at
        # rest
        now = perf_counter()
        self._ends = min(self._ends, now + LINGER)
        return now > self._ends or self._commanded.silence() > SILENT

    def stop(self) -> None:
        """Close the window, and log the numbers of ticks and commands."""
        if self._viewer is not None:
            self._viewer.close()
        self.get_logger().info(
            f'{self._tick} ticks, {self._tick * self._period:.3f} s simulated, '
            f'{self._unanswered} without a command in time, {self._dropped} commands dropped, '
            f'{self._late} ticks late')

    def _window(self) -> Any:
        try:
            return self._plant.viewer()
        except InputError as error:
            self.get_logger().warning(f'no window, going on without: {error}')
            return None

    def _on_command(self, topic: str, message: Float64MultiArray) -> None:
        tau, commanded = np.asarray(message.data, dtype=np.float64), self._commanded
        newest = messages.label_of(self._state.header.stamp)
        try:
            if not commanded.take(topic, tau, commands.label(message), newest):
                return
        except InputError as error:
            self._dropped += 1
            joints = ', '.join(self._plant.joint_names[i] for i in commanded.shares[topic])
            self.get_logger().error(f'command dropped: {error} for {joints}',
                                    throttle_duration_sec=1.0)
            return
        if topic in commanded.ended:
            commanded.ended.remove(topic)
            self._plant.brake(commanded.braked_joints())
            self.get_logger().info(f'commands on {topic} again: the brakes are open')
        if commanded.missing:
            return
        if commanded.is_held:
            commanded.is_held, self._began = False, perf_counter()
        if self._lockstep:
            self._is_answered = True
            self._advance_when_due()

    def _advance_when_due(self) -> None:
        """In lockstep: step after an answer, if paced not before its time on the wall clock."""
        if self._paced:
            late = perf_counter() - self._began - (self._tick + 1) * self._period
            if late < 0.0:
                return
            self._began += max(0.0, late - CATCH_UP * self._period)  # time that is lost
        self._advance()

    def _wait(self) -> None:
        """In lockstep: publish the state again, or step without a command after the time-out."""
        waited, commanded = perf_counter() - self._answered, self._commanded
        is_stopping = (commanded.missing <= commanded.ended
                       and np.any(self._plant.qd[self._plant.braked]))
        if self._is_answered or is_stopping:
            self._advance_when_due()
            return
        if perf_counter() - self._sent < REPEAT:
            return
        if not commanded.is_held and waited > self._timeout:
            self._unanswered += 1
            self._close_brakes(commanded.missing)
            self.get_logger().warning(
                f'no command for {waited:.1f} s: stepping '
                + ('with the brakes closed' if self._has_brakes else 'with the last one'),
                throttle_duration_sec=10.0)
            self._advance()
        else:
            self._send()

    def _run(self) -> None:
        """In real time: simulate up to the present wall time, at most CATCH_UP ticks."""
        if self._commanded.is_held:
            self._send()
            return
        self._close_brakes(self._commanded.silent_topics(self._timeout))
        due = int((perf_counter() - self._began) / self._period) - self._tick
        if due > CATCH_UP:
            self._late += due - CATCH_UP
            self._began += (due - CATCH_UP) * self._period
        for _ in range(min(due, CATCH_UP)):
            self._advance()

    def _close_brakes(self, silent: set[str]) -> None:
        """Close the brakes of the joints of the silent topics."""
        ended = self._commanded.ended
        if not self._has_brakes or silent <= ended:
            return
        self.get_logger().warning(
            f"no more commands on {', '.join(sorted(silent - ended))}: the brakes close")
        ended |= silent
        self._plant.brake(self._commanded.braked_joints())

    def _advance(self) -> None:
        self._topics.apply_commands()
        self._plant.step(self._commanded.tau, self._steps)
        self._tick, self._is_answered = self._tick + 1, False
        if self._lockstep:
            self._commanded.await_all()
        self._measure()
        if self._viewer is not None and perf_counter() - self._shown > FRAME:
            self._viewer.sync()
            self._shown = perf_counter()

    def _measure(self) -> None:
        q, qd, tau = self._plant.measured()
        if not self._compensates:
            # closed brakes carry the weight, and torque sensors in the joints measure it
            closed = self._commanded.is_held or self._plant.braked
            tau = np.where(closed, self._plant.weight, tau) if np.any(closed) else tau
        self._state = messages.joint_state(
            self._plant.joint_names, self._tick * self._period, q, qd, tau)
        self._answered = perf_counter()
        self._send()

    def _send(self) -> None:
        self._sent = perf_counter()
        self._topics.publish(self._tick, self._state)


def _shares(found: dict[str, Any], robot: Robot) -> dict[str, Any]:
    """Return for each command topic the indices of its joints, base first."""
    topics = [found['command_topic'], *found['further_command_topics']]
    order = robot_parameters.command_order(found, robot)
    if len(topics) == 1:
        return {topics[0]: order}
    if len(topics) != len(robot.tips) or len(set(topics)) < len(topics):
        raise InputError(f"commands come on {', '.join(topics)}, and the tips are "
                         f"{', '.join(robot.tips)}: give as many topics in parameter "
                         "'further_command_topics' as 'further_tips' has links, none twice, "
                         'or none')
    return dict(zip(topics, robot_parameters.command_shares(order, robot)))


def main(arguments: list[str] | None = None) -> None:
    """Run the node until SIGINT or SIGTERM."""
    run_and_exit(Simulator, arguments)


if __name__ == '__main__':
    main()
