# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An arm of Franka Robotics with FCI, through libfranka: `FrankaArm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
import faulthandler
import math
import os
import socket
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
import pylibfranka

from osc_ros.errors import InputError
from osc_ros.hardware.contract import Description, HardwareError, Setting, State
from osc_ros.hardware.franka_errors import explanation
from osc_ros.hardware.franka_gripper import FrankaHand
from osc_ros.hardware.franka_model import FrankaModel, JOINTS, pose_of
from osc_ros.model.gripper_state import GripperState, HandGoal

Array = NDArray[np.float64]

PERIOD = 0.001  # [s]
# Torque limits [N·m] and torque rate [N·m/s]; the arm ends the motion if one is exceeded.
EFFORT_LIMITS = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
EFFORT_RATE = 1000.0
# Largest step between two torques: the arm reports its desired torques as 32-bit numbers. A torque
# that `write` changes by more than ROUNDING counts as limited [N·m].
STEP = (EFFORT_RATE - 0.1) * PERIOD
ROUNDING = 1e-3

# libfranka waits for some answers of the arm without a time limit, with the GIL held. After this
# time the process ends with a traceback [s].
PATIENCE = 15.0
FIRST_CYCLES = 2  # number of cycles that `start` answers
PAUSE = 0.03  # time without a `read` after which the socket may contain old states [s]
PORT = 1337  # of FCI
SLEW = 1e-6  # largest correction of the arm's clock per state [s]

# libfranka's own exceptions, and std::runtime_error and std::invalid_argument.
ERRORS = (pylibfranka.FrankaException, RuntimeError, ValueError)
NO_CONTROL = 'the arm does not accept torques: the control was not started, or has ended. Start it'
MODES = {
    pylibfranka.RobotMode.Reflex: 'stopped by a reflex: current mode ("Reflex")',
    pylibfranka.RobotMode.UserStopped: 'UserStopped',
    pylibfranka.RobotMode.Guiding: 'current mode ("Guiding")',
    pylibfranka.RobotMode.Other: 'current mode ("Other")',
    pylibfranka.RobotMode.Move: 'current mode ("Move")',
    pylibfranka.RobotMode.AutomaticErrorRecovery: 'current mode ("AutomaticErrorRecovery")',
}


class FrankaArm:
    """A Franka Research 3: torques without gravity at 1 kHz, over FCI."""

    # The arm adds the gravity torques, also of its load, and compensates the friction of its
    # motors; it adds no Coriolis torques. `open` and `recover` hold the GIL for up to some
    # seconds, and every other call of libfranka holds it while it runs: no other thread of the
    # process runs meanwhile. If the arm does not answer at all, libfranka waits for ever, so the
    # process ends with a traceback after PATIENCE. `hardware.realtime` is libfranka's check:
    # 'enforce' also gives the calling thread SCHED_FIFO with priority 99, unless it has a
    # real-time priority already. As a last resort, `write` clips torques to the limits of the arm;
    # `report` counts these cycles.

    settings = (
        Setting('address', '', 'IP address or host name of the control unit of the arm',
                fixed=True),
        Setting('realtime', 'enforce',
                'enforce: refuse to run without a real-time kernel and SCHED_FIFO; ignore: run',
                choices=('enforce', 'ignore'), fixed=True),
        Setting('collision.torque', (20.0, 20.0, 18.0, 18.0, 16.0, 14.0, 12.0),
                'External torques of the joints at which the arm stops [N·m]', lower=0.1,
                upper=200.0, size=JOINTS),
        Setting('collision.force', (20.0, 20.0, 20.0, 25.0, 25.0, 25.0),
                'External force and torque at the end effector at which the arm stops [N, N·m]',
                lower=0.1, upper=500.0, size=6),
        Setting('load.mass', 0.0, 'Mass at the flange, besides the end effector of Desk [kg]',
                lower=0.0, upper=20.0),
        Setting('load.center_of_mass', (0.0, 0.0, 0.0),
                'Centre of mass of the load in the frame of the flange [m]', lower=-2.0,
                upper=2.0, size=3),
        Setting('load.inertia', (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
                'xx xy xz yy yz zz of the load about its centre of mass, in the axes of the flange'
                ' [kg m²]', lower=-20.0, upper=20.0, size=6),
        Setting('gripper', False, 'true: the arm has a Franka Hand, which can be commanded'),
        Setting('end_effector', (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
                'Place x y z and roll pitch yaw of the point of collision.force in the '
                'end-effector frame of Desk [m, rad]', lower=-10.0, upper=10.0, size=6),
    )

    def __init__(self, values: Mapping[str, Any], urdf: str, joint_names: tuple[str, ...]) -> None:
        if not values['address']:
            raise InputError('hardware.address is empty: give the IP address or host name '
                             "of the control unit of the arm, for example '172.16.0.2'")
        self._values = dict(values)
        self._name = f"Franka arm at {values['address']}"
        self._joint_names = tuple(joint_names)
        self._model = FrankaModel(urdf, self._joint_names)
        self._robot: pylibfranka.Robot | None = None
        self._control: pylibfranka.ActiveControlBase | None = None
        self._socket: socket.socket | None = None
        self._sent = self._desired = [0.0] * JOINTS  # torques sent last, and received by the arm
        self._hand: FrankaHand | None = None
        self._offset = 0.0  # time.time() minus the clock of the arm, at `open`
        self._wall = time.time() - time.monotonic()
        self._limited = 0
        self._read = 0.0  # time of the last `read` without control
        self._success = 0.0

    def open(self) -> Description:
        """Connect; raise HardwareError if the arm does not match the robot description."""
        state = self._connect()
        end, tool = (np.array(pose).reshape(4, 4).T for pose in (state.O_T_EE, state.F_T_EE))
        difference = self._model.difference(np.array(state.q), end @ np.linalg.inv(tool))
        if difference:
            self._disconnect()
            raise HardwareError(f'{self._name}: {difference}')
        if self._values['gripper']:
            try:
                self._hand = FrankaHand(self._numeric, self._name)
            except HardwareError:
                self._disconnect()
                raise
        rates = np.full(JOINTS, EFFORT_RATE)
        return Description(self._name, self._joint_names, PERIOD, compensates='gravity',
                           effort_limits=np.array(EFFORT_LIMITS), effort_rates=rates)

    def start(self) -> None:
        """Set load and thresholds, start the control, answer the first cycles by zero torques."""
        # the arm carries its weight; it stops on its own if no `write` follows within 20 ms
        robot = self._require_robot()
        if self._control is not None:
            raise HardwareError(f'{self._name}: the control runs already')
        with self._errors('start'), _limited_time():
            _require_mode(self._idle_state(robot))
            self._configure(robot)
            self._sent = self._desired = [0.0] * JOINTS
            self._control = robot.start_torque_control()
            for _ in range(FIRST_CYCLES):
                self._control.readOnce()
                self._control.writeOnce(pylibfranka.Torques(self._sent))

    def read(self) -> State:
        """Return the next state; its torques include the weight of the arm."""
        with self._errors('read'):
            if self._control is None:
                state = self._idle_state(self._require_robot())
            else:
                state, _ = self._control.readOnce()
                self._desired = state.tau_J_d
                self._success = state.control_command_success_rate
        return State(self._wall_time(state.time.to_sec()), np.array(state.q), np.array(state.dq),
                     np.array(state.tau_J))

    def write(self, tau: Array) -> None:
        """Send torques (7,) without gravity, clipped to the limits of the arm [N·m]."""
        # HardwareError: the control has ended, or a torque is not finite, which ends the control
        control = self._control
        if control is None:
            raise HardwareError(f'{self._name}: {NO_CONTROL}')
        wanted = tau.tolist()
        # The arm compares with the last torque that it received. The last torque sent may be lost
        # or on its way, so the torque must be within a step of both.
        torques = [min(max(min(max(torque, sent - STEP), sent + STEP), had - STEP, -limit),
                       had + STEP, limit)
                   for torque, sent, had, limit in zip(wanted, self._sent, self._desired,
                                                       EFFORT_LIMITS)]
        if not math.isfinite(sum(wanted)) and not all(map(math.isfinite, wanted)):
            self._release()
            raise HardwareError(f'{self._name}: torques {wanted} are not finite; the control ends')
        if torques != wanted and max(
                abs(one - other) for one, other in zip(torques, wanted)) > ROUNDING:
            self._limited += 1
        with self._errors('write'):
            control.writeOnce(pylibfranka.Torques(torques))
        self._sent = torques

    def stop(self) -> None:
        """End the control with the last torque; the arm then holds its position on its own."""
        if self._control is not None:
            with self._errors('stop'), _limited_time():
                self._finish()

    def recover(self) -> None:
        """Connect again if the connection was lost, and clear the error of the arm."""
        if self._robot is None:
            self._connect()
        self._release()
        robot = self._require_robot()
        with self._errors('recover'), _limited_time():
            state = self._idle_state(robot)
            if state.robot_mode == pylibfranka.RobotMode.UserStopped:
                raise RuntimeError(MODES[state.robot_mode])
            if state.robot_mode == pylibfranka.RobotMode.Reflex or state.current_errors:
                robot.automatic_error_recovery()

    def move_gripper(self, goal: HandGoal) -> None:
        """Send a command to the Franka Hand; InputError if there is none or it refuses it."""
        self._require_hand().move(goal)

    def gripper_state(self) -> GripperState:
        """Return the newest state of the Franka Hand; InputError if there is none."""
        return self._require_hand().state()

    def _require_hand(self) -> FrankaHand:
        if self._hand is None:
            raise InputError(f"{self._name}: the setting 'gripper' is false: must be true, "
                             'if the arm has a Franka Hand')
        return self._hand

    def close(self) -> None:
        """End the control if it runs, and disconnect."""
        if self._hand is not None:
            self._hand.close()
        self._release()
        self._disconnect()

    def report(self) -> dict[str, float]:
        """Return the cycles in which `write` changed a torque, and the arm's success rate."""
        # success rate: fraction of the last 100 torques in time, as counted by the arm
        return {'limited cycles': self._limited, 'success rate': self._success}

    def _connect(self) -> pylibfranka.RobotState:
        """Connect, without sending the settings; return the state of the arm."""
        address = self._values['address']
        try:
            numeric = self._numeric = socket.gethostbyname(address)
        except OSError as error:
            raise HardwareError(f'{self._name}: the name of hardware.address is not known '
                                f'({error}). Use an IP address') from error
        enforce = self._values['realtime'] == 'enforce'
        config = pylibfranka.RealtimeConfig
        before = set(_sockets())
        with self._errors('connect'), _limited_time(), _scheduling(enforce):
            robot = pylibfranka.Robot(numeric, config.kEnforce if enforce else config.kIgnore)
            self._robot = robot
            self._socket = _connection(before)
            state = robot.read_once()
        self._wall = time.time() - time.monotonic()
        self._offset = self._wall + time.monotonic() - state.time.to_sec()
        return state

    def _configure(self, robot: pylibfranka.Robot) -> None:
        """Send the settings, because an arm keeps those of the previous program."""
        values = self._values
        torque, force = list(values['collision.torque']), list(values['collision.force'])
        robot.set_collision_behavior(torque, torque, force, force)
        xx, xy, xz, yy, yz, zz = values['load.inertia']
        robot.set_load(values['load.mass'], list(values['load.center_of_mass']),
                       [xx, xy, xz, xy, yy, yz, xz, yz, zz])
        robot.set_EE(pose_of(*values['end_effector']).T.ravel().tolist())

    def _idle_state(self, robot: pylibfranka.Robot) -> pylibfranka.RobotState:
        """Return the next state without control; discard old states in the socket."""
        if time.monotonic() - self._read > PAUSE:
            robot.read_once()
        state = robot.read_once()
        self._read = time.monotonic()
        return state

    def _require_robot(self) -> pylibfranka.Robot:
        if self._robot is None:
            raise HardwareError(f'{self._name}: not connected. Recover: this connects again')
        return self._robot

    def _wall_time(self, arm_time: float) -> float:
        """Return the wall-clock time of a state: the arm's clock, slowly corrected for drift."""
        late = self._wall + time.monotonic() - arm_time - self._offset
        self._offset += max(-SLEW, min(SLEW, late))
        return arm_time + self._offset

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Convert errors of libfranka to HardwareError, and end the control."""
        try:
            yield
        except HardwareError:
            raise
        except ERRORS as error:
            lost = isinstance(error, pylibfranka.NetworkException)
            if lost or self._robot is None:
                self._disconnect()
            self._release()
            raise HardwareError(f'{self._name}, {doing}: {explanation(str(error))}') from error

    def _finish(self) -> None:
        """End the control properly; return at once if the arm has ended it already."""
        control, self._control = self._control, None
        if control is not None:
            last = pylibfranka.Torques(self._sent)
            last.motion_finished = True
            try:
                control.writeOnce(last)
            except ERRORS:
                # If the control has not ended, its destructor sends a stop command, waits for the
                # answer without a time limit, and ends the process if the arm refuses.
                try:
                    control.writeOnce(last)  # if the motion is over, only marks its end
                except ERRORS:
                    self._disconnect()  # without a connection, the destructor does nothing
                raise

    def _release(self) -> None:
        """End the control in any state; ignore errors."""
        try:
            with _limited_time():
                self._finish()
        except ERRORS:
            pass  # the first error is reported

    def _disconnect(self) -> None:
        """Close the connection, so that calls of libfranka that wait for it fail at once."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already
            self._socket.close()
        self._socket = self._control = self._robot = None


def _require_mode(state: pylibfranka.RobotState) -> None:
    """Raise RuntimeError if the arm is not ready for a motion."""
    if state.robot_mode != pylibfranka.RobotMode.Idle:
        raise RuntimeError(f'{MODES[state.robot_mode]} {state.current_errors}')


@contextmanager
def _limited_time() -> Iterator[None]:
    """End the process after PATIENCE, also while the GIL is held."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def _scheduling(enforce: bool) -> Iterator[None]:
    """On exit, undo libfranka's change of this thread's scheduling, unless `enforce` needs it."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if not enforce or policy in (os.SCHED_FIFO, os.SCHED_RR):
            os.sched_setscheduler(0, policy, parameters)


def _sockets() -> dict[str, int]:
    """Descriptors of the sockets of this process, by their identifying texts in /proc."""
    found = {}
    for descriptor in os.listdir('/proc/self/fd'):
        try:
            target = os.readlink(f'/proc/self/fd/{descriptor}')
        except OSError:
            continue  # closed meanwhile, such as the descriptor that lists the folder
        if target.startswith('socket:'):
            found[target] = int(descriptor)
    return found


def _connection(before: set[str]) -> socket.socket | None:
    """Duplicate the socket of the connection to FCI, which is not among the earlier sockets."""
    for target, descriptor in _sockets().items():
        if target not in before:
            connection = socket.socket(fileno=os.dup(descriptor))
            if connection.type == socket.SOCK_STREAM and connection.getpeername()[1] == PORT:
                return connection
            connection.close()
    return None
