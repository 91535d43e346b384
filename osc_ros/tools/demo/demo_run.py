# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""One run of the demonstration: starts the nodes, sends the motions, records the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
import os
from pathlib import Path
from re import sub
import signal
import subprocess
import sys
from time import perf_counter, sleep
from typing import Any

from lifecycle_msgs.msg import Transition
import numpy as np
from numpy.typing import NDArray
import rclpy
from rclpy.context import Context
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from osc_ros.commandline import bar
from osc_ros.compile import compilation
from osc_ros.control.tasks.freedoms import Freedoms
from osc_ros.errors import OscError
from osc_ros.interrupts import LAUNCH_PID
from osc_ros.model.robot import Robot
from osc_ros.ros.controller.claims import FOUND
from osc_ros.tools.check import scenario
from osc_ros.tools.check.judgement import last_error, Recording
from osc_ros.tools.check.parameter_files import NODES, text_of
from osc_ros.tools.demo.demo_node import DemoNode

Array = NDArray[np.float64]

# Start of the first motion: START in simulated time; with osc_arm, ARM_START after the
# activation [s]. Targets must be sent within the share SENT of this time, so that the controller
# has them before the motion even on a slow machine, and all runs are equal.
START, ARM_START, SENT = 5.0, 2.5, 0.4
LOST = 20.0  # wall time after which a request without an answer is repeated [s]
IN_FILE = 5.0  # shortest time between two progress lines in a file [s]
SILENT = 2.0  # longer waits than this are shown [s]
# Longest time for which the nodes of a killed demo stay in the domain (the DDS lease in the
# profile of this package, plus a margin); wall time between two checks [s].
LISTED, LOOK_AGAIN = 4.0, 0.1
STALLED = 20.0  # wall time without progress after which a run is aborted [s]
WARNING = ('[WARN]', '[ERROR]', '[FATAL]')  # first words of warnings and errors in a log
CONFIGURED = 180.0  # as STALLED, for the configuration; each compiled kernel is progress [s]
COMPILES = ('osc_controller compiles its own kernels, once: this takes about a minute, several on '
            'a busy machine')
STATES = 10  # joint states before the activation; the start-up check of the efforts needs 5
# Texts in reasons of a refused activation that may change within seconds.
TEMPORARY = ('cannot activate yet', 'joint_states for', "publishes on '")


class DemoError(OscError, RuntimeError):
    """The demonstration could not run."""


class ArmError(DemoError):
    """The arm or its control loop has ended the control."""


class NodeProcess:
    """A node in its own process; the process also ends if the demonstration is killed."""

    def __init__(self, name: str, parameters: dict[str, Any], work: Path, output: Path) -> None:
        # osc_arm replaces osc_controller, and has its node name
        self.name, self.node = name, 'osc_controller' if name == 'osc_arm' else name
        self.log = output / f'{name}.log'
        own = work / f'{name}.yaml'
        own.write_text(text_of({self.node: parameters}) if parameters else '/**: {}\n',
                       encoding='utf-8')
        self._command = [sys.executable, '-m', 'osc_ros.start', name.removeprefix('osc_'),
                         '--ros-args', '--params-file', str(own)]

    def __enter__(self) -> NodeProcess:
        """Start the process."""
        with self.log.open('w') as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True, env={**os.environ, LAUNCH_PID: str(os.getpid())})
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop the process."""
        self.stop()

    def require_running(self) -> None:
        """Raise DemoError with the end of the log if the process has ended."""
        if self._process.poll() is not None:
            code = self._process.returncode
            how = (f'was killed ({signal.Signals(-code).name})' if code < 0
                   else f'ended (exit status {code})')
            raise DemoError(f'{self.name} {how}; the end of its log, {self.log}:\n'
                            + (self.tail() or 'the log is empty'))

    def tail(self) -> str:
        """Return the last lines of the log."""
        return '\n'.join(self.log.read_text(errors='replace').splitlines()[-12:])

    def refusal(self) -> str:
        """Return the last line of the log that reports a failed transition; '' if none."""
        found = self._warning_texts()
        return next((text for text in reversed(found) if text.startswith('cannot ')), '')

    def _warning_texts(self) -> list[str]:
        """Return the warnings and errors of the log, without level, time and node."""
        return [line.split(']: ', 1)[-1]
                for line in self.log.read_text(errors='replace').splitlines()
                if line.startswith(WARNING)]

    def warnings(self) -> list[str]:
        """Return warnings and errors of the log, one of those that differ only in numbers."""
        found: dict[str, list[str]] = {}
        for text in self._warning_texts():
            found.setdefault(sub(r'[0-9.]+', '', text), []).append(text)
        return [f'{self.name} warns: {texts[0]}'
                + (f' ({len(texts)} times)' if len(texts) > 1 else '') for texts in found.values()]

    def stop(self) -> None:
        """Send SIGINT and wait for the end; kill the process after 10 s."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            for patience in (1.0, 9.0):
                try:
                    self._process.wait(timeout=patience)
                    return
                except subprocess.TimeoutExpired:
                    say(f'waiting for {self.name} to end ...')
            self._process.kill()
            self._process.wait()


class Run:
    """Executes a plan with running nodes."""

    # `processes` by node name; `freedoms`: controlled axes, for the displayed error; the first of
    # `signals` ends the run. With `tip_pose_of` (osc_arm, see `DemoNode`), the times of the plan
    # count from the activation, because the clock of osc_arm runs before.

    def __init__(self, robot: Robot, processes: dict[str, NodeProcess],
                 recording: Recording, freedoms: Freedoms = scenario.ALL,
                 signals: Sequence[int] = (), tip_pose_of: Callable[[Array], Array] | None = None
                 ) -> None:
        self._robot, self._processes, self._recording = robot, processes, recording
        self._freedoms, self._signals, self._compiles = freedoms, signals, False
        self._node = DemoNode(recording, robot.base)
        self._tip_pose_of = self._node.tip_pose_of = tip_pose_of
        self._shown = -np.inf
        self._refusal = ''

    def make(self, plan: list[scenario.Phase]) -> None:
        """Activate the controller, execute the plan, record, and stop the controller."""
        # DemoError: a step took too long, a process ended, or a transition was refused. ArmError:
        # the arm has ended its control. SystemExit after SIGINT or SIGTERM.
        try:
            self._start()
            self._follow(plan)
            self._end()
        finally:
            self._node.destroy()

    def _start(self) -> None:
        """Configure and activate the controller."""
        names = ' and '.join(process.name for process in self._processes.values())
        print(f"starting {names} for '{self._robot.name}' ...", flush=True)
        self._wait_for('osc_controller', self._node.sees_controller, 30.0)
        say('configuring ...')
        self._request('configuration', Transition.TRANSITION_CONFIGURE, CONFIGURED)
        show('', last=True)
        self._wait_for('joint states, and subscriptions of targets', self._node.is_heard, 30.0)
        enough = self._node.states + STATES
        self._wait_for('joint states', lambda: self._node.states >= enough, 30.0)
        # the controller refuses until it has received a joint state
        self._request('activation', Transition.TRANSITION_ACTIVATE, 30.0, refusable=True)
        if self._tip_pose_of is not None:
            self._node.restart()

    def _follow(self, plan: list[scenario.Phase]) -> None:
        node, recording = self._node, self._recording
        for phase in plan:
            node.send(phase.motion, phase.start, self._robot.tip)
        begin = plan[0].start
        if node.time > SENT * begin:
            raise DemoError(f'the targets were sent at {node.time} s, later than '
                            f'{SENT * begin:g} s, for {begin} s: this machine is too busy')
        end = plan[-1].end
        target_at = scenario.reference(plan, recording.poses[0])
        begun, first = perf_counter(), len(recording.state_times)
        while node.time < end:
            self._wait_for('the next joint state', partial(node.is_past, node.time), STALLED)
            if self._is_time_to_show(0.2, 2.0):
                distance, angle = last_error(recording, target_at, self._robot, self._freedoms)
                since, lasts = min(node.time, end) - plan[0].start, end - plan[0].start
                show(f't = {since:6.2f} of {lasts:.2f} s   error {1e3 * distance:8.3f} mm '
                     f'{np.degrees(angle):8.3f} deg', share=max(0.0, since / lasts))
        self._wait_for('the last pose of the tip', lambda: recording.pose_times[-1] >= end,
                       STALLED)
        recording.wall_time = perf_counter() - begun
        recording.warnings = [line for node in self._processes.values()
                              for line in node.warnings()]
        recording.drop_states(first)
        show('', last=True)

    def _end(self) -> None:
        before = self._node.diagnoses
        self._processes['osc_controller'].stop()
        deadline = perf_counter() + 2.0  # wait for the last diagnostics
        while perf_counter() < deadline and self._node.diagnoses < before + 2:
            self._node.spin_once(0.05)

    def _wait_for(self, what: str, happened: Callable[[], bool], patience: float) -> None:
        """Spin until `happened()`; raise DemoError after `patience` seconds without progress."""
        began = perf_counter()
        while True:
            self._node.spin_once(0.05)
            if self._signals:
                sys.exit(128 + self._signals[0])
            if self._node.failure:
                raise ArmError(self._node.failure)
            for process in self._processes.values():
                process.require_running()
            if happened():
                return
            if perf_counter() > max(began, self._node.compiled_at) + patience:
                hint = ('; what was compiled is kept: run it again, on a machine with less other '
                        'work' if self._compiles else '')
                raise DemoError(f'{what} did not come in time{hint}\n' + self._logs())
            if self._node.compilation and not self._compiles:
                self._compiles = True
                say(f'{COMPILES} ...')
            if self._node.compilation and self._is_time_to_show(1.0, 5.0):
                show(self._node.compilation)
                self._node.compilation = ''
            elif perf_counter() - began > SILENT and self._is_time_to_show(1.0, 5.0):
                show(f'waiting for {what}, {perf_counter() - began:.0f} s')

    def _request(self, what: str, transition: int, patience: float, refusable: bool = False
                 ) -> None:
        """Request a transition; repeat it without an answer, or if `refusable` and refused."""
        # A refusal is shown, and repeated only if its reason may change within seconds. If not
        # `refusable`, a refused repetition counts as success: the first request was executed, or a
        # later step fails.
        answers: list[Any] = []
        requested = -np.inf

        def is_done() -> bool:
            nonlocal requested
            if any(answer.done() and answer.result().success for answer in answers):
                return True
            refused = any(answer.done() for answer in answers)
            if refused and not refusable and len(answers) > 1:
                return True
            if refused:
                self._show_refusal(what, refusable)
            if perf_counter() - requested > (0.2 if refused else LOST):
                requested = perf_counter()
                answers.append(self._node.change(transition))
            return False

        self._wait_for(f'the {what} of osc_controller', is_done, patience)

    def _show_refusal(self, what: str, refusable: bool) -> None:
        """Show why a transition was refused; raise DemoError if the reason will not change."""
        controller = self._processes['osc_controller']
        reason = controller.refusal()
        if not (refusable and any(text in reason for text in TEMPORARY)):
            raise DemoError(f'osc_controller refused its {what}: ' + (
                f"{reason.partition(': ')[2]}\nIts log: {controller.log}" if reason else
                f'its log has no reason\n{self._logs()}'))
        if reason != self._refusal:
            self._refusal = reason
            say(f'osc_controller: {reason}; trying again ...')

    def _logs(self) -> str:
        return '\n'.join(f'{process.name}:\n{process.tail()}'
                         for process in self._processes.values())

    def _is_time_to_show(self, on_terminal: float, in_file: float) -> bool:
        """Whether the last progress line is older than a period [s]."""
        if perf_counter() - self._shown < (on_terminal if sys.stdout.isatty() else in_file):
            return False
        self._shown = perf_counter()
        return True


@contextmanager
def initialized() -> Iterator[None]:
    """Initialize rclpy within this context, without signal handlers."""
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        yield
    finally:
        rclpy.try_shutdown()


def require_free_domain() -> None:
    """Raise DemoError if a node of the ROS domain has one of the names NODES."""
    context, began = Context(), perf_counter()
    rclpy.init(args=[], context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node('_osc_demo', context=context, use_global_arguments=False, enable_rosout=False,
                start_parameter_services=False)
    names, look = NODES, FOUND
    while names and perf_counter() - began < LISTED:
        sleep(look)
        names = sorted(set(NODES) & {
            name for name, space in node.get_node_names_and_namespaces() if space == '/'})
        look = LOOK_AGAIN
    node.destroy_node()
    rclpy.try_shutdown(context=context)
    if names:
        number = os.environ['ROS_DOMAIN_ID']
        raise DemoError(
            f"ROS domain {number} has {' and '.join(names)} already, of another demo or a robot, "
            'and nodes of the demo have the same names: without ROS_DOMAIN_ID the demo uses a '
            f'domain of its own (now ROS_DOMAIN_ID={number})')


class Progress:
    """Shows progress: every line on a terminal; in a file, at most one line per IN_FILE [s]."""

    def __init__(self) -> None:
        self.compiled = False
        self._shown = -np.inf

    def __call__(self, progress: object) -> None:
        """Show a line, or skip it."""
        if isinstance(progress, compilation.Progress) and not self.compiled:
            self.compiled = True
            say('the demo compiles its kernels, once: this takes about half a minute ...')
        if sys.stdout.isatty() or perf_counter() - self._shown > IN_FILE:
            self._shown = perf_counter()
            is_known = isinstance(progress, compilation.Progress) and progress.share >= 0.0
            show(str(progress), share=progress.share if is_known else None)


def say(text: str) -> None:
    """Print a permanent line in place of the progress line."""
    show('', last=True)
    print(text, flush=True)


def show(text: str, last: bool = False, share: float | None = None) -> None:
    """Print a progress line; on a terminal it replaces the last one, with a bar for `share`."""
    if sys.stdout.isatty():
        text = text if share is None else f'{bar(share)} {text}'
        print(f'\r{text:78}', end='\r' if last else '', flush=True)
    elif text:
        print(text, flush=True)
