# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Simulated hardware of the soak test: arms, transport of messages, and checks of every tick."""

from collections import Counter, deque
from dataclasses import dataclass, field
import time as wall

from geometry_msgs.msg import PoseStamped, TwistStamped
from lifecycle_msgs.srv import ChangeState
import numpy as np
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory

from arm import PANDA, READY
from foreign import ForeignPlant
from judge import robot_cases
from osc_ros import Robot
from osc_ros.ros.messages import commands, messages
from osc_ros.sim import Plant

PERIOD = 0.002  # [s]
ROUNDED = 1.0 + 1e-9
# The arm is lost, and the test resets it, if a joint is this many times as fast as its limit.
TOO_FAST = 30.0

# Limits that the checks enforce. STEP: largest torque step per tick, relative to the effort limit
# (the default of limits.effort_rate).
STEP = 0.1
LATE = 4  # a torque that is k periods late may step by (k + 1) STEP, at most by LATE · STEP
WINDOW = 250  # ticks before a speed that is too high in which held torques are told
SPEED = 1.5  # largest joint speed, relative to its limit; the watchdog brakes above 1.2
OUTSIDE = 5e-3  # largest distance of a joint beyond its position limit [rad, m]


@dataclass(frozen=True)
class Arm:
    """
    Settings of an arm in the soak test.

    Attributes
    ----------
    name : str
        Key of `judge.robot_cases`.
    home : tuple of float
        Initial joint positions, and centre of the random goals [rad].
    wander : float
        Random goals differ from `home` by at most this angle in each joint [rad].
    tracking : float
        Time within which the tip must reach a new goal [s].
    target : dict
        Parameters `target.…` that fit the arm's velocity limits.
    period : float
        Period of a figure of eight of 10 cm [s].

    """

    name: str
    home: tuple
    wander: float = 0.25
    tracking: float = 2.0
    target: dict = field(default_factory=dict)
    period: float = 3.0


# xarm7: 7 joints, light wrist; kinova: 6 slow joints, three continuous; baxter: 7 joints, one of
# two arms, links heavy relative to the effort limits
ARMS = {arm.name: arm for arm in (
    Arm('xarm7', (0.0, -0.3, 0.0, 1.3, 0.0, 1.4, 0.0)),
    Arm('kinova', (4.8, 2.9, 1.0, 4.2, 1.4, 1.3), 0.15, 4.0,
        {'translation.speed': 0.15, 'translation.acceleration': 1.0, 'translation.jerk': 20.0,
         'rotation.speed': 0.4, 'rotation.acceleration': 3.0, 'rotation.jerk': 60.0}, 12.0),
    Arm('baxter', (-0.55, 0.08, 1.24, 2.06, 0.05, 1.05, -1.38), 0.2, 3.0,
        {'translation.speed': 0.4, 'rotation.speed': 1.0, 'rotation.acceleration': 6.0}, 6.0),
    Arm('panda', tuple(READY.tolist())))}


class Foreign(ForeignPlant):
    """A `ForeignPlant` with position limits."""

    def __init__(self, arm):
        """Put the arm at home, without friction."""
        case = robot_cases()[arm.name]
        robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=dict(case.locked))
        super().__init__(arm.name, robot.joint_names)
        at, turns = self.model.idx_qs[1:], np.array(self.model.nqs[1:]) > 1
        self.lower = np.where(turns, -np.inf, self.model.lowerPositionLimit[at])
        self.upper = np.where(turns, np.inf, self.model.upperPositionLimit[at])
        self.friction[:] = 1.0
        self.step(np.zeros(self.n), PERIOD)  # compile now, not during the test
        self.friction[:] = 0.0
        self.reset(arm.home)


class Shipped:
    """The shipped Panda in MuJoCo, with the interface of `Foreign`."""

    def __init__(self, arm):
        """Put the arm at home, without friction."""
        self.joint_names = tuple(f'panda_joint{i}' for i in range(1, 8))
        self._plant = Plant(PANDA.urdf_text, PANDA.base, self.joint_names, friction=[0.0] * 7,
                            damping=[0.0] * 7)
        self.n = 7
        self.effort = np.array([87.0] * 4 + [12.0] * 3)
        self.velocity = np.array([2.175] * 4 + [2.61] * 3)
        self.lower = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
        self.upper = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
        self.friction = np.zeros(7)  # ignored by this plant
        self.reset(arm.home)

    q = property(lambda self: self._plant.q)
    qd = property(lambda self: self._plant.qd)

    def reset(self, q):
        """Put the arm at q (n,), at rest."""
        self._plant.reset(q)

    def step(self, tau, duration):
        """Apply torques (n,) for a duration [s]."""
        self._plant.step(tau, round(duration / 1e-3))

    def pose(self):
        """Return the pose (4, 4) of the tip in the base frame."""
        return self._plant.pose(PANDA.tip)

    def weight(self):
        """Return the torques (n,) that compensate gravity at the present position."""
        return self._plant.weight


@dataclass
class Figures:
    """Measurements for one kind of fault (or none), including the recovery after it."""

    times: int = 0
    step: float = 0.0  # largest step between two torques, relative to the effort limit
    speed: float = 0.0  # largest joint speed, relative to the velocity limit
    silence: float = 0.0  # longest wall time without a command of the controller [periods]
    gap: int = 0  # longest simulated time without a new torque [periods]
    drift: float = 0.0  # largest drift rate of a stopped arm [rad/s, m/s]
    took: list = field(default_factory=list)  # times until the tip reached a new goal [s]
    accepted: int = 0  # number of accepted sets of parameters
    refused: int = 0


class Judge:
    """Checks every tick; records measurements and violations for each kind of fault."""

    def __init__(self, plant):
        """Take the limits from the plant."""
        self._plant = plant
        self.kind = 'none'
        self.figures, self.broken = {}, {}
        self.use = 0.0  # largest torque, relative to the limit
        self.last = None

    @property
    def now(self):
        """The measurements made during the present kind of fault."""
        return self.figures.setdefault(self.kind, Figures())

    def object(self, time, what, value, worst=max):
        """Record a violation: count it, and store its first time and its worst value."""
        count, first, most = self.broken.get((self.kind, what), (0, time, value))
        self.broken[self.kind, what] = count + 1, first, worst(most, value)

    def accepts(self, time, tau):
        """Return whether a torque is finite and within limits; record a violation."""
        limits = ROUNDED * self._plant.effort
        if tau.shape != limits.shape or not np.isfinite(tau).all():
            self.object(time, 'torque not finite', 1.0)
            return False
        if (np.abs(tau) > limits).any():
            self.object(time, 'torque beyond its limit', float((np.abs(tau) / limits).max()))
            return False
        return True

    def command(self, time, tau, missed):
        """Check the step of a torque that arrived `missed` periods late."""
        self.use = max(self.use, float((np.abs(tau) / self._plant.effort).max()))
        if self.last is not None:
            step = float((np.abs(tau - self.last) / self._plant.effort).max())
            self.now.step = max(self.now.step, step)
            if step > STEP * min(1 + missed, LATE) + 1e-9:
                self.object(time, 'step of torque', step)
        self.last = tau

    def tick(self, time, held):
        """Check speeds and positions after a period; return False if the arm is lost."""
        plant, now = self._plant, self.now
        speed = float((np.abs(plant.qd) / plant.velocity).max())
        now.speed = max(now.speed, speed)
        if speed > SPEED:
            longest = 1 << (held - 1).bit_length()
            self.object(time, f'speed, torques held for at most {longest} periods', speed)
        outside = float(np.maximum(plant.lower - plant.q, plant.q - plant.upper).max())
        if outside > OUTSIDE:
            self.object(time, 'joint beyond its limit', outside)
        return speed < TOO_FAST  # False for NaN, too


class Hardware(Node):
    """Node of a simulated arm that can lose, repeat, delay and garble its joint states."""

    def __init__(self, arm, rng):
        """Subscribe to relay and controller; create publishers and clients for the controller."""
        super().__init__('hardware')
        self.plant = (Shipped if arm.name == 'panda' else Foreign)(arm)
        self.judge = Judge(self.plant)
        self.home, self.names = self.plant.pose(), list(self.plant.joint_names)
        self.ticks, self.counts = 0, Counter()
        self.rng, self.fault, self.mute, self.brakes = rng, None, False, False
        self._late, self._heard, self._answered = [], None, 0
        self._held = deque(maxlen=WINDOW)  # for how many periods each tick's torque was held
        self.forget()
        listen, tell = self.create_subscription, self.create_publisher
        listen(Float64MultiArray, 'osc_relay/commands', self._on_command, 10)
        listen(Float64MultiArray, 'osc_controller/commands', self._on_controller, 10)
        self.states = tell(JointState, 'joint_states', 10)
        self.poses = tell(PoseStamped, 'osc_controller/target_pose', 10)
        self.paths = tell(MultiDOFJointTrajectory, 'osc_controller/target_trajectory', 10)
        self.twists = tell(TwistStamped, 'osc_controller/target_twist', 10)
        self.postures = tell(JointState, 'osc_controller/target_posture', 10)
        self.hold = self.create_client(Trigger, 'osc_controller/hold')
        self.change = self.create_client(ChangeState, 'osc_controller/change_state')
        self.set = self.create_client(
            SetParametersAtomically, 'osc_controller/set_parameters_atomically')

    def forget(self):
        """Return to the state before the first command, in which the brakes hold the arm."""
        self.tau, self.label, self.asked = None, None, ''
        self.judge.last = None

    @property
    def time(self):
        """Simulated time [s]."""
        return self.ticks * PERIOD

    @property
    def stamp(self):
        """Stamp of the next joint state."""
        return messages.stamp(self.time + 1.0)

    @property
    def is_answered(self):
        """Whether a torque for the latest state has arrived."""
        return self.label == self.asked

    def _on_command(self, message):
        tau = np.array(message.data)
        self.counts['commands'] += 1
        if not self.judge.accepts(self.time, tau):
            return
        now = self.judge.now
        now.gap = max(now.gap, self.ticks - self._answered)
        self.judge.command(self.time, tau, max(0, self.ticks - self._answered - 1))
        self.tau, self.label = tau, commands.label(message)
        self._answered = self.ticks

    def _on_controller(self, message):
        arrived, before = wall.perf_counter(), self._heard
        self._heard = arrived
        if before is not None:
            now = self.judge.now
            now.silence = max(now.silence, (arrived - before) / PERIOD)

    def tell(self):
        """Send the joint state, changed by the fault; return False if the fault withholds it."""
        if self.mute:
            return False
        plant = self.plant
        tau = plant.weight() if self.tau is None else self.tau
        message = messages.joint_state(self.names, self.time + 1.0, plant.q, plant.qd, tau)
        self.asked = messages.label_of(message.header.stamp)
        kind = self.fault if self.fault and self.rng.random() < 0.3 else None
        if self.fault == 'missing velocities':
            message.velocity = []
        if kind == 'dropped states':
            return False
        if kind == 'garbled states':
            self._garble(message)
        if kind == 'late states':
            self._late.append(message)
            return False
        self.states.publish(message)
        if kind == 'repeated states':
            self.states.publish(message)
        if self._late and self.rng.random() < 0.5:
            self.states.publish(self._late.pop(int(self.rng.integers(len(self._late)))))
        return True

    def repair(self):
        """End the fault of the joint states, and set the friction to 0."""
        self.fault, self.mute, self._late = None, False, []
        self.plant.friction[:] = 0.0

    def _garble(self, message):
        n = self.plant.n
        how, i = int(self.rng.integers(6)), int(self.rng.integers(n))
        if how == 0:
            message.position[i] = float(self.rng.choice([np.nan, np.inf, 1e300, 1e9]))
        elif how == 1:
            message.velocity[i] = float(self.rng.choice([np.nan, -np.inf, -1e300, 50.0]))
        elif how == 2:
            message.position[i] += 0.7
        elif how == 3:
            message.name = [f'other_{i}' for i in range(n)]
        elif how == 4:
            message.velocity = message.velocity[:4]
        else:
            message.header.stamp = messages.stamp(float(self.rng.choice([0.0, 1e6])))

    def advance(self):
        """Simulate a period if a torque has ever arrived; return False if the arm is lost."""
        if self.tau is None:
            return True
        if not self.brakes:
            self.plant.step(self.tau, PERIOD)
        self.ticks += 1
        self._held.append(self.ticks - self._answered)
        return self.judge.tick(self.time, max(self._held))

    def error(self, target):
        """Return distance [m] and angle [rad] of the tip from a pose."""
        T = self.plant.pose()
        return (np.linalg.norm(target[:3, 3] - T[:3, 3]),
                Rotation.from_matrix(target[:3, :3] @ T[:3, :3].T).magnitude())
