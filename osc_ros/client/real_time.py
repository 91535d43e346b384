# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Backend of `Arm.real_time`: the loop of osc_arm in its own process, without ROS."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from dataclasses import replace
import logging
import os
from threading import Thread
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.client.backend import ArmState
from osc_ros.client.law_backend import LawBackend, LOGGER, REPORTS
from osc_ros.client.robots import clearance_of, law_in_a_loop, model_of, SHIPPED
from osc_ros.collision.obstacles import Obstacle
from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.law import Law
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.safety.supervision import HARMLESS
from osc_ros.control.settings import Settings
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.errors import ArmError, ArmTimeoutError, InputError, OscError
from osc_ros.hardware.contract import Description
from osc_ros.hardware.hardware_table import hardware_class
from osc_ros.loop import requests
from osc_ros.loop.cycle import ACTIVE, IDLE
from osc_ros.loop.process.channel import Record
from osc_ros.loop.process.link import LoopError, LoopProcess
from osc_ros.loop.process.process_start import careful_override, careful_text, Start, System
from osc_ros.loop.process.reaction_log import ReactionLog
from osc_ros.loop.session import Session
from osc_ros.loop.startup import CHECKS, NOTE
from osc_ros.model.files import urdf_text

Array = NDArray[np.float64]

POST_PERIOD = 0.005  # period at which events and states are taken from the loop [s]
RESUMES = 1.0  # time on the arm's clock after which a reaction is an error of a waiting call [s]
SILENCE = 5.0  # longest time between two states [s]
PATIENCE = 1.0  # longest time in which `recover` waits for the end of a cause [s]
SYSTEM = System()


class RealTimeBackend(LawBackend):
    """The process of osc_arm's loop without its node; only this client commands it."""

    # A program that ends normally stops the arm and the process; if it is killed, the loop goes on
    # to the last goal and holds it. `links`: base and tip; for the rest see `Arm.real_time`.

    _loop: LoopProcess

    def __init__(self, robot: str | os.PathLike[str], hardware: str, values: Mapping[str, Any],
                 links: tuple[str, str], settings: Settings | None = None,
                 startup_check: str = 'certain', system: System = SYSTEM,
                 clearance: Clearance | float | bool = False) -> None:
        if startup_check not in CHECKS:
            raise InputError(f"startup_check is '{startup_check}': must be one of "
                             + ', '.join(CHECKS))
        clear = clearance_of(robot, clearance)
        urdf, found = model_of(robot, *links)
        law = law_in_a_loop(found, settings)  # now, because the process has a time limit
        start = Start(hardware, _checked(hardware, robot, law, values), urdf_text(urdf),
                      found, settings, 'sweep', None, system)
        self._loop = LoopProcess(start)
        try:
            settings, guard = start.settings_for(self.description)
            super().__init__(Law(found, settings), self._loop, guard)
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
        self._startup_check = startup_check
        self._process = os.getpid()
        self._reported = np.zeros(6), np.full(3, np.nan)  # error and force of the newest report
        self._read = 0  # number of records of the loop that were read
        self._reactions, self._concluded = ReactionLog(LOGGER, 'active'), monotonic()
        # time at which the present reaction becomes an error, and its text
        self._held: tuple[float, str] = np.inf, ''
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

    # the thread, which reads events and states from the shared memory

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
        else:
            super()._handle(event, *arguments)

    def _end(self) -> str:
        """Return the reason why the process has ended; empty while it runs."""
        if end := self._loop.unexpected_end():
            self._fail('the process of the control loop has ended '
                       f'{end}: the arm has stopped by itself')
        return self._trouble if self._loop.has_ended else ''

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
        if self._end():
            raise ArmError(self._trouble)
        super()._require_control()

    def _require_motion(self) -> None:
        if self._loop.time > self._held[0]:
            self._take_events()  # the reaction may have ended in the meantime
        if not self._trouble and self._loop.time > self._held[0]:
            raise ArmError(self._held[1])
        super()._require_motion()

    def _take_setup(self, setup: CompiledLaw) -> None:
        super()._take_setup(setup)
        self._law.use_setup(setup)

    def _update_obstacles(self, changes: Mapping[str, Obstacle | None], delay: float = 0.0
                          ) -> None:
        super()._update_obstacles(changes, delay)
        self._law.obstacles.update(changes)

    def recover(self) -> str:
        """Release latched watchdogs, or clear an error of the arm; see `LawBackend`."""
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
        self._forget_goal()
        return text

    # time

    def _await_state(self) -> None:
        if self._loop.state_age > SILENCE:
            raise ArmTimeoutError(f'no state for {SILENCE:g} s')
        self._news.wait(0.1)

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
    """Return the values of all settings of a kind of arm: the given values, or defaults."""
    # With 'mujoco', a shipped robot starts by default at its home and has its gripper; another one
    # starts far from limits and singularities. InputError for an unknown setting or a wrong value.
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
