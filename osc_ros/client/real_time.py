# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Backend of `Arm.real_time`: the loop of osc_arm in its own process, without ROS."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from dataclasses import replace
import logging
import os
from threading import Condition, Thread
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.client.backend import ArmState, LawBackend, warn
from osc_ros.client.robots import (
    clearance_of,
    JOINT_TOLERANCE,
    model_of,
    SHIPPED,
    TOLERANCE,
)
from osc_ros.collision.obstacles import Obstacle
from osc_ros.compile.compiled import on_demand
from osc_ros.control.accepted import (
    bounded_stiffness,
    checked_override,
    joint_duration_text,
    require_reach,
)
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.law import Law
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.reasons import Reason, reasons, watchdog_reason
from osc_ros.control.safety.supervision import HARMLESS
from osc_ros.control.setpoint.arrival import Arrival
from osc_ros.control.setpoint.chunks import chunk_entry, LEAD
from osc_ros.control.setpoint.set_point_generator import Motion
from osc_ros.control.settings import Settings, with_first_task
from osc_ros.control.tasks.task import Stiffness, Target
from osc_ros.dynamics.algebra.kinematics import link_pose, LinkAxes
from osc_ros.errors import ArmError, ArmTimeoutError, InputError, OscError
from osc_ros.hardware.contract import Description
from osc_ros.hardware.hardware_table import hardware_class
from osc_ros.loop import requests
from osc_ros.loop.engine import ACTIVE, IDLE
from osc_ros.loop.process.channel import Record
from osc_ros.loop.process.link import LoopError, LoopProcess
from osc_ros.loop.process.process import ArmEngine
from osc_ros.loop.process.process_start import careful_override, careful_text, Start, System
from osc_ros.loop.process.reaction_log import ReactionLog
from osc_ros.loop.session import Session
from osc_ros.loop.startup import CHECKS, NOTE
from osc_ros.model.files import urdf_text
from osc_ros.model.gripper_state import GripperState
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

POST_PERIOD = 0.005  # period at which events and states are taken from the loop [s]
REPORTS = 50.0  # rate of the errors of the tip, and of the checks of the distance to the goal [Hz]
RESUMES = 1.0  # time on the arm's clock after which a reaction is an error of a waiting call [s]
SILENCE = 5.0  # longest time between two states [s]
PATIENCE = 1.0  # longest time in which `recover` waits for the end of a cause [s]
SYSTEM = System()
LOGGER = logging.getLogger('osc_ros')


class RealTimeBackend(LawBackend):
    """
    The process of osc_arm's loop without its node; only this client commands it.

    A thread reads events and states from the shared memory. When the program ends normally, it
    stops the arm and the process. If the program is killed, the loop continues to the last goal
    and holds it. `links` are base and tip; for the other arguments and the errors see
    `Arm.real_time`.

    Attributes
    ----------
    joint_names : tuple of str
    robot : Robot

    """

    def __init__(self, robot: str | os.PathLike[str], hardware: str, values: Mapping[str, Any],
                 links: tuple[str, str], settings: Settings | None = None,
                 startup_check: str = 'certain', system: System = SYSTEM,
                 clearance: Clearance | float | bool = False) -> None:
        if startup_check not in CHECKS:
            raise InputError(f"startup_check is '{startup_check}': must be one of "
                             + ', '.join(CHECKS))
        clear = clearance_of(robot, clearance)
        urdf, self.robot = model_of(robot, *links)
        self.joint_names: tuple[str, ...] = self.robot.joint_names
        with on_demand():
            law = Law(self.robot, settings)  # compiles now, because the process has a time limit
        start = Start(hardware, _checked(hardware, robot, law, values), urdf_text(urdf),
                      self.robot, settings, 'sweep', None, system)
        self._loop = LoopProcess(start)
        try:
            settings, self._guard = start.settings_for(self.description)
            with on_demand():
                self._planner = Law(self.robot, settings)
            self._original = settings
            self._session = Session(
                self._law, self._loop, self._use_load, lambda level, text: LOGGER.log(
                    logging.INFO if level == NOTE else logging.WARNING, text), 'startup_check={}')
            self._begin(startup_check)
            if clear is not None:
                self._plan(replace(self._law.settings, clearance=clear))
        except BaseException:
            self._loop.close()
            raise

    @property
    def description(self) -> Description:
        """Description that the driver gives of the arm."""
        return self._loop.description

    def _begin(self, startup_check: str) -> None:
        """Activate the loop, and start the thread."""
        self._news, self._startup_check = Condition(), startup_check
        self._process = os.getpid()
        self._reported = np.zeros(6), np.full(3, np.nan)  # error and force of the newest report
        self._arrival, self._checked = Arrival(), -np.inf
        self._trouble, self._dropped, self._read = '', '', 0
        self._reactions, self._concluded = ReactionLog(LOGGER, 'active'), monotonic()
        # time at which the present reaction becomes an error, and its text
        self._held: tuple[float, str] = np.inf, ''
        self._listener: Callable[[ArmState], None] | None = None
        self._loop.request(requests.set_report_period, 1.0 / REPORTS)
        if not self.description.is_simulated:
            careful = careful_override(self._original, self.robot)
            self.set_speed_override(careful)
            LOGGER.warning('%s (arm.speed_override = 100)', careful_text(careful))
        self._activate()
        self._thread = Thread(target=self._spin, name='osc_ros client', daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _activate(self) -> None:
        """Wait for enough states, check them against the model, and activate the loop."""
        deadline = monotonic() + SILENCE
        while not (self._loop.time and self._loop.has_enough_states):
            if monotonic() > deadline:
                raise ArmTimeoutError(f'{self.description.name} sent no state in {SILENCE:g} s')
        self._session.check(self._startup_check)
        self._session.activate()

    def _use_load(self, mass: float) -> None:
        """Compensate an unknown load at the tip [kg]; for 0, use the original settings."""
        given = self._original.disturbance
        if mass > 0.0:
            given = given or Disturbance()
            given = replace(given, payload=max(given.payload, mass))
        self._plan(replace(self._law.settings, disturbance=given))

    # the thread

    def _spin(self) -> None:
        while self._is_open:
            try:
                self._take()
            except LoopError as error:
                self._fail(self._end() or str(error))
            with self._news:
                self._news.notify_all()
                self._news.wait_for(lambda: not self._is_open, POST_PERIOD)

    def _take(self) -> None:
        """Handle events, pass new states to the listener, and check the distance to the goal."""
        self._read, records = self._loop.records(self._read)
        if (listener := self._listener) is not None:
            for record in records:
                listener(self._state_of(record))
        self._take_events()
        if monotonic() - self._concluded > 1.0:
            self._reactions.conclude()
            self._concluded = monotonic()
        if not self._end() and abs(self._loop.time - self._checked) > 1.0 / REPORTS:
            self._check()

    def _take_events(self) -> None:
        with self._news:  # so that `_recovered` misses no event
            while (posted := self._loop.next_event()) is not None:
                event, arguments = posted
                self._handle(event, *arguments)

    def _handle(self, event: str, *arguments: Any) -> None:
        """Handle an event of the loop, see `osc_ros.loop.engine.Engine`."""
        if event == 'report':
            external = arguments[4]
            self._reported = arguments[2], (np.full(3, np.nan) if external is None
                                            else external.wrench[3:])
        elif event == 'change':
            cause, reaction, text = arguments
            is_held = reaction not in HARMLESS
            self._held = (self._loop.time + RESUMES, text) if is_held else (np.inf, '')
            self._reactions.change(cause, reaction, text)
        elif event == 'lost':
            text = f'the arm has failed: {arguments[0]}'
            if self._trouble:
                LOGGER.error(text)  # a consequence of `_trouble`
            else:
                self._fail(text)
        elif event == 'stopped':
            self._fail('the arm was stopped')
        elif event in ('error', 'warning', 'refusal', 'dropped'):
            LOGGER.warning('%s', arguments[0])
            if event == 'dropped':
                self._dropped = arguments[0]

    def _end(self) -> str:
        """Return the reason why the process has ended; empty while it runs."""
        if end := self._loop.unexpected_end():
            self._fail('the process of the control loop has ended '
                       f'{end}: the arm has stopped by itself')
        return self._trouble if self._loop.has_ended else ''

    def _fail(self, text: str) -> None:
        if text != self._trouble:
            LOGGER.error(text)
        self._trouble = text

    def _check(self) -> None:
        """Compare the pose of the tip with the goal."""
        with self._news:
            found = self._loop.request(requests.progress)
            if found is None:
                return
            self._checked = found.time
            if found.joints is not None:
                self._arrival.update(found.time, found.joints.error(), JOINT_TOLERANCE,
                                     found.joints.moves)
            elif found.approaches:
                approach = next(iter(found.approaches.values()))
                self._arrival.update(found.time, approach.error(), TOLERANCE)
            else:
                self._arrival.clear()

    # states

    def _state_of(self, record: Record) -> ArmState:
        seconds, nanoseconds = record.stamp
        pose = link_pose(self.robot, record.q, self.robot.tip)
        return ArmState(seconds + 1e-9 * nanoseconds, record.q, record.qd, record.command, pose,
                        *self._reported)

    def state(self) -> ArmState:
        """Return the newest state; `error` and `force` are from the newest report of the loop."""
        self._require_open()
        _, records = self._loop.records(self._loop.count - 2)
        return self._state_of(records[-1])

    # commands

    def _follow(self, motion: Motion, start: float = 0.0) -> bool:
        """Command a motion of the tip that starts at a time [s]; 0: now. See `requests.follow`."""
        self._lead(None)
        return bool(self._command(requests.follow, motion, start, self._task))

    def _command(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Request a motion, and record that a motion was commanded."""
        with self._news:  # so that the old goal is not checked in between
            answer = self._request(what, *arguments)
            self._dropped = ''
            self._arrival.begin()
            self._check()
        return answer

    def require_active(self) -> None:
        """Raise ArmError if the loop is not active; see `Backend`."""
        self._request(requests.progress)

    def _request(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Request an action of the loop; raise ArmError if the loop is not active."""
        self._require_open()
        self._require_control()
        try:
            return self._loop.request(what, *arguments)
        except LoopError as error:
            raise ArmError(self._end() or str(error)) from error
        except InputError:
            self._take_events()  # an event may have the reason
            self._require_control()  # the answer of the loop has updated its mode
            raise

    def _require_control(self) -> None:
        """Raise ArmError if the arm has failed or was stopped."""
        self._end()
        if self._trouble and self._loop.mode != ACTIVE:
            raise ArmError(self._trouble + ('' if self._loop.has_ended else '; see Arm.recover'))

    @property
    def _task(self) -> str:
        return self._first.name

    @property
    def _law(self) -> Law:
        return self._planner

    @property
    def _time(self) -> float:
        return self._loop.time

    def _set_point(self, time: float | None = None) -> Target:
        """Return the set-point of the tip at a time [s], by default now."""
        found: Target = self._request(requests.predicted_target, self._task,
                                      self._time if time is None else time)
        return found

    def move_joints(self, goal: Array, duration: float | None, speed: float | None) -> None:
        """Move the joints to a goal; see `Backend`."""
        self._require_joint_goal(goal, speed)
        self._lead(JointDrive())
        found = self._command(requests.move_joints, goal, duration, speed)
        if duration is not None and not self._request(requests.status).waits:
            warn(joint_duration_text(duration, found, self.speed_override))

    def follow_joints(self, times: Array, positions: Array) -> None:
        """Move the joints through positions; see `Backend`."""
        if len(times) == 1:
            self._lead(JointDrive())
            self._command(requests.reach_joints, float(times[0]), positions[0])
            return
        state, held = self._request(requests.joint_set_point)
        motion = self._law.joint_path(state, held, times, positions)
        self._lead(JointDrive())
        self._command(requests.follow_joints, motion)

    def follow_chunk(self, times: Array, poses: Array, observed_at: float) -> str:
        """Follow a chunk; see `Backend`."""
        self._lead(None)
        require_reach(self.robot, self._first, poses[:, :3, 3])
        start = self._loop.time + LEAD
        entry = chunk_entry(observed_at + times, poses, observed_at, self._set_point(start),
                            start, self._first.limits,
                            speed=0.01 * self._loop.request(requests.speed_override))
        self._follow(entry.path, start)
        warn(entry.warning)
        return str(entry)

    def set_wrench(self, wrench: Array) -> None:
        """Apply a wrench; see `Backend`."""
        self._lead(None)
        self._request(requests.set_wrench, wrench, self._task)

    def use_gains(self, spring: Stiffness | None) -> None:
        """Set the stiffness of the tip, or reset its gains; see `Backend`."""
        self._require_led()
        if spring is not None and (inertia := self._request(requests.inertia)) is not None:
            status = self._request(requests.status)
            axes = LinkAxes(self.robot, self._first.frame).at(self._loop.q)[:3, :3] if (
                self._first.frame) else np.eye(3)
            spring, text = bounded_stiffness(spring, np.linalg.inv(inertia), axes,
                                             status.figures.gains.period)
            warn(text)
        self._use(with_first_task(
            self._law.settings, gains=self._original.tasks[0].gains if spring is None else spring))

    def _use(self, settings: Settings | None = None, robot: Robot | None = None) -> None:
        """Use other settings or another robot."""
        self.require_active()
        self._plan(settings, robot)

    def _plan(self, settings: Settings | None = None, robot: Robot | None = None) -> None:
        with on_demand():
            setup = self._law.new_setup(settings, robot, self._loop.q)
        self._loop.use_setup(setup, self._guard)
        self._law.use_setup(setup)

    def _update_obstacles(self, changes: Mapping[str, Obstacle | None], delay: float = 0.0
                          ) -> None:
        self._request(requests.set_obstacles, changes, False, True, delay)
        self._law.obstacles.update(changes)

    def move_gripper(self, command: list[float]) -> None:
        """Move the gripper; see `Backend`."""
        self._request(ArmEngine.move_gripper, command)

    def gripper_state(self) -> GripperState:
        """Return the state of the gripper; see `Backend`."""
        state: GripperState = self._request(ArmEngine.gripper_state)
        return state

    @property
    def speed_override(self) -> float:
        """Speed of all motions relative to their own [%]; see `Backend`."""
        self._require_open()
        return float(self._loop.request(requests.speed_override))

    def set_speed_override(self, percent: float) -> None:
        """Set the speed override; see `Backend`."""
        self._require_open()
        self._loop.request(requests.set_speed_override, checked_override(percent))

    def hold(self) -> None:
        """Stop; see `Backend`."""
        self._command(requests.hold)

    def recover(self) -> str:
        """Release latched watchdogs, or clear an error of the arm; see `Backend`."""
        self._require_open()
        with self._news:
            try:
                return self._recovered()
            except OscError as error:
                raise ArmError(self._end() or str(error)) from error

    def _recovered(self) -> str:
        deadline = monotonic() + SILENCE
        self._loop.request(requests.progress)  # updates the mode; a lost arm sends no states
        while self._loop.mode not in (ACTIVE, IDLE) and monotonic() < deadline:  # still stopping
            self._news.wait(POST_PERIOD)
        if self._loop.mode == ACTIVE:
            is_done, text = self._loop.request(requests.release)
            patience = monotonic() + PATIENCE
            while not is_done and monotonic() < patience:  # the cause may be about to end
                self._news.wait(POST_PERIOD)
                is_done, text = self._loop.request(requests.release)
            if not is_done:
                raise ArmError(text)
        else:
            self._loop.request(requests.release)  # an arm that was given up is activated only then
            self._loop.recover()
            self._take_events()  # discards the event of the error, which has been cleared
            self._activate()
            text = 'activated: the law controls the arm, and holds its pose'
        self._trouble, self._held = '', (np.inf, '')
        self._arrival.clear()
        return text

    def reasons(self) -> list[Reason]:
        """Return the reasons why the arm is not at its goal; see `Backend`."""
        status = self._loop.request(requests.status)
        if status.reaction not in HARMLESS:
            return [watchdog_reason(status.text)]
        with on_demand():
            return reasons(self.robot, self._first, status.figures)

    # time

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Wait until a condition holds; see `Backend`."""
        self._require_open()
        end = self._loop.time + timeout
        with self._news:
            while not until():
                if self._loop.time > self._held[0]:
                    self._take_events()  # the reaction may have ended in the meantime
                if self._trouble or self._loop.time > self._held[0]:
                    raise ArmError(self._trouble or self._held[1])
                if self._dropped:
                    raise ArmError(f'the motion has ended before its goal: {self._dropped}')
                if self._loop.state_age > SILENCE:
                    raise ArmTimeoutError(f'no state for {SILENCE:g} s')
                if self._loop.time >= end:
                    return False
                self._news.wait(0.1)
        return True

    def listen(self, listener: Callable[[ArmState], None] | None) -> None:
        """Call a function with every state, in the client's thread; see `Backend`."""
        self._listener = listener

    def close(self) -> None:
        """Bring the arm to rest, and end the process and the thread."""
        if not self._is_open or os.getpid() != self._process:  # a fork must not end the loop
            return
        self._is_open = False
        atexit.unregister(self.close)
        self._thread.join()
        self._loop.close()


def _checked(hardware: str, robot: str | os.PathLike[str], law: Law, values: Mapping[str, Any]
             ) -> dict[str, Any]:
    """
    Return the values of all settings of a kind of arm: the given values, or defaults.

    For 'mujoco', a shipped robot starts by default at its home and has its gripper; another
    robot starts by default at joint positions far from limits and singularities. Raises
    InputError for an unknown setting or a value that is not accepted.

    """
    known = {setting.name: setting for setting in hardware_class(hardware).settings}
    for name in values:
        if name not in known:
            raise InputError(f"hardware '{hardware}' has no setting '{name}': give one of "
                             + ', '.join(known))
    values = {name: value.tolist() if hasattr(value, 'tolist') else value
              for name, value in values.items()}
    own: dict[str, Any] = {}
    if hardware == 'mujoco':
        own['base'] = law.robot.base
        if isinstance(robot, str) and robot in SHIPPED:
            own['initial_positions'] = SHIPPED[robot].home
            from osc_ros.sim.hand import FINGERS
            own['gripper.joints'] = FINGERS.get(robot, ())
        elif 'initial_positions' not in values:
            from osc_ros.sim.simulation import well_conditioned_positions
            own['initial_positions'] = well_conditioned_positions(law).tolist()
    given = {**own, **values}
    return {name: setting.checked_value(given.get(name, setting.default))
            for name, setting in known.items()}
