# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Node osc_arm: osc_controller whose control loop is a separate process that accesses the arm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from rclpy.clock import Clock, ClockType
from std_srvs.srv import Trigger

from osc_ros.commandline import require_place
from osc_ros.control.law import Law
from osc_ros.errors import InputError, OscError
from osc_ros.hardware.contract import Hardware, HardwareError, Setting
from osc_ros.hardware.hardware_table import hardware_class, hardware_locations
from osc_ros.loop.process.link import LoopError
from osc_ros.loop.process.process import ArmEngine
from osc_ros.loop.process.process_start import Start, System
from osc_ros.model.gripper_state import HandGoal
from osc_ros.ros.arm_loop import ArmLoop, law_and_loop_of
from osc_ros.ros.controller.claims import NoClaims
from osc_ros.ros.controller.controller import Controller
from osc_ros.ros.controller.diagnosis import ENDED, FAILED
from osc_ros.ros.gripper_commands import GripperTopics
from osc_ros.ros.messages import messages
from osc_ros.ros.parameters.display_parameters import TF
from osc_ros.ros.parameters.node_settings import supervision
from osc_ros.ros.parameters.parameters import Entry, initial_value
from osc_ros.ros.process.node_process import run_and_exit

HARDWARE = Entry('hardware.kind', 'mujoco', 'Kind of the arm: '
                 f"{', '.join(sorted(hardware_locations()))}; read when the node starts",
                 fixed=True)
OWN = (
    HARDWARE,
    Entry('joint_state_rate', 100.0, 'Rate of the joint states that the node publishes [Hz]',
          lower=1.0, upper=20000.0),
    Entry('realtime.cpus', '', "CPUs on which the control loop runs, as in '2' or '2,3'; empty: "
          'all', fixed=True),
    Entry('record_cycles', '', 'File (.npy) for the times of the cycles [ns], written when the '
          "loop ends: read's return, write's call, write's return; empty: none", fixed=True),
)
GRIPPER_PERIOD = 0.02  # period of the gripper's states [s]
RATE = 1000.0  # default of `rate` [Hz]


def entries_of(kind: type[Hardware]) -> list[Entry]:
    """Return the parameters of a kind of arm."""
    return [Entry(**{**vars(one), 'name': f'hardware.{one.name}'}) for one in kind.settings]


class ArmNode(Controller):
    """A controller whose loop is a separate process with the driver of the arm."""

    _build = staticmethod(law_and_loop_of)

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._gripper: GripperTopics | None = None
        self.create_service(Trigger, '~/recover', self._on_recover)

    def _entries(self) -> tuple[Entry, ...]:
        """Return the parameters of the node, including those of its kind of arm."""
        kind = hardware_class(initial_value(self, HARDWARE))
        self._settings: tuple[Setting, ...] = kind.settings
        # transforms, because other nodes get the joint states only from this node
        own = {'rate': RATE, TF: True}
        table = [replace(entry, default=own.get(entry.name, entry.default))
                 for entry in super()._entries()]
        return (*table, *OWN, *entries_of(kind))

    def _make_loop(self, law: Law, found: dict[str, Any], urdf: str) -> ArmLoop:
        """Start the process of the loop, and open the connection to the arm."""
        if found['workers'] != 1:
            raise InputError(f"parameter 'workers' is {found['workers']}: must be 1 for osc_arm")
        if found['record_cycles']:
            require_place(Path(found['record_cycles']))
        start = Start(
            found[HARDWARE.name],
            {one.name: found[f'hardware.{one.name}'] for one in self._settings}, urdf, law.robot,
            law.settings, found['method'], supervision(found, law.robot, law.settings.limits),
            System(found['realtime.priority'], found['realtime.lock_memory'],
                   _cpus(found['realtime.cpus']), found['record_cycles']))
        loop = ArmLoop(self, law, start, found['joint_state_rate'], {
            name: self._while_alive(handler) for name, handler in self._handlers().items()})
        self.get_logger().info(f'{loop.description.name} is open'
                               + (f' ({loop.system})' if loop.system else ''))
        self._offer_gripper(loop)
        return loop

    def _ignored_names(self) -> set[str]:
        """Return the settings of all kinds of arms whose packages are installed."""
        found = set[str]()
        for kind in hardware_locations():
            with suppress(InputError):
                found |= {one.name for one in entries_of(hardware_class(kind))}
        return found

    def _offer_gripper(self, loop: ArmLoop) -> None:
        """Create the topics of the gripper, if the arm has one."""
        try:
            loop.request(ArmEngine.gripper_state)
        except OscError:
            return
        if self._gripper is None:
            self._gripper = GripperTopics(self, self._move_gripper)
            self.create_timer(GRIPPER_PERIOD, self._while_alive(self._publish_gripper),
                              clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _move_gripper(self, goal: HandGoal) -> None:
        if self._loop is None:
            raise InputError('the node is not configured: there is no connection to the arm')
        self._loop.request(ArmEngine.move_gripper, list(goal))

    def _publish_gripper(self) -> None:
        if self._loop is not None and not self._loop.has_ended and self._gripper is not None:
            try:
                state = self._loop.request(ArmEngine.gripper_state)
            except HardwareError as error:
                self.get_logger().error(str(error), throttle_duration_sec=1.0)
                return
            self._gripper.publish(state, messages.time_of(self._loop.stamp))

    def _handlers(self) -> dict[str, Callable[..., None]]:
        """Return the callbacks for the loop's events by name; they run in the node's thread."""
        return {**super()._handlers(), 'lost': self._on_lost, 'ended': self._on_ended}

    def _while_alive(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Return a callback that does not raise if the loop's process has ended or hangs."""
        @wraps(callback)
        def called(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except LoopError as error:
                if self._loop is not None and not self._loop.has_ended:
                    self.get_logger().error(str(error), throttle_duration_sec=1.0)
                    self._diagnosis.publish_failure(str(error))
        return called

    def _use_realtime(self, found: dict[str, Any]) -> None:
        """Do nothing: the loop's process uses these settings."""

    def _make_claims(self, is_coming: bool) -> NoClaims:
        """Return claims without other controllers, because only this node commands the arm."""
        return NoClaims()

    def _every_second(self) -> None:
        self._while_alive(self._report_hardware)()
        self._while_alive(super()._every_second)()

    def _report_hardware(self) -> None:
        if self._loop is not None:
            self._diagnosis.more = [(f'hardware {name}', value) for name, value in
                                    self._loop.request(ArmEngine.hardware_report).items()]

    # failures

    def _on_lost(self, reason: str) -> None:
        """Report an error of the arm, and deactivate the node."""
        self._fail(f'{FAILED}: {reason}')

    def _on_ended(self, status: str) -> None:
        """Report the unrequested end of the loop's process; the node becomes unconfigured."""
        self._fail(f'{ENDED} {status}: the arm has stopped by itself; configure to start again')
        self.trigger_cleanup()

    def _fail(self, text: str) -> None:
        self.get_logger().error(text)
        if self._diagnosis is not None:  # before the deactivation, which takes longer
            self._diagnosis.publish_failure(text)
        if self._state_machine.current_state[1] == 'active':
            self.trigger_deactivate()

    def _on_recover(self, request: Trigger.Request, response: Trigger.Response
                    ) -> Trigger.Response:
        try:
            if self._loop is None:
                raise InputError('the node is not configured: there is no connection to the arm')
            self._loop.recover()
        except OscError as error:
            response.message = str(error)
        else:
            response.success, response.message = True, 'the arm has no error: activate it again'
        return response


def _cpus(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(',')) if text else ()
    except ValueError:
        raise InputError(f"parameter 'realtime.cpus' is '{text}': give numbers with "
                         "commas between them, as in '2,3'") from None


def main(arguments: list[str] | None = None) -> None:
    """Run the node until SIGINT or SIGTERM."""
    run_and_exit(ArmNode, arguments)


if __name__ == '__main__':
    main()
