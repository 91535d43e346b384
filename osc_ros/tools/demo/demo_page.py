# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Runs osc_viewer beside the demonstration, and the playground after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, ExitStack
import os
from pathlib import Path
import re
import sys
from time import perf_counter, sleep
from typing import Any

from osc_ros.interrupts import recorded_signals
from osc_ros.tools.check.demonstration import Demonstration
from osc_ros.tools.demo.demo_loops import arm_parameters, DDS, FRANKA_SIM
from osc_ros.tools.demo.demo_run import DemoError, NodeProcess, STALLED

ADDRESS = re.compile(r'open http://[^:]+:(\d+) ')
PATIENCE = 20.0  # longest wait for the address of the page [s]


@contextmanager
def page(work: Path, output: Path) -> Iterator[str]:
    """Run osc_viewer within this context; yield its address, '' if it cannot run."""
    # Prints the address; over SSH also the command that forwards the port.
    with NodeProcess('osc_viewer', {}, work, output) as process:
        port = _port(process)
        if not port:
            print(f'note: no page shows the arm: {process.tail()[-300:]}', flush=True)
            yield ''
            return
        address = f'http://localhost:{port}'
        print(f'\n  open {address} in a browser\n', flush=True)
        server = os.environ.get('SSH_CONNECTION', '').split()
        if len(server) == 4:
            user = os.environ.get('USER', 'USER')
            print(f'  over SSH, first on your machine: ssh -L {port}:localhost:{port} '
                  f'{user}@{server[2]}\n', flush=True)
        yield address


def _port(process: NodeProcess) -> str:
    """Return the port of the page from the log; '' if the process ends or after PATIENCE."""
    latest = perf_counter() + PATIENCE
    while perf_counter() < latest:
        found = ADDRESS.search(process.log.read_text(errors='replace'))
        if found:
            return found[1]
        try:
            process.require_running()
        except DemoError:
            return ''
        sleep(0.05)
    return ''


def has_terminal() -> bool:
    """Whether a user at a terminal can end the playground."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def play(loop: str, wanted: Demonstration, work: Path, output: Path, address: str) -> None:
    """Run the arm, at most in real time, until Ctrl-C: the user can move it on the page."""
    # Does nothing with franka-sim, which needs a core for itself. `work` and `output`: folders of
    # parameter files and of logs.
    if loop == FRANKA_SIM:
        return
    with recorded_signals() as signals, ExitStack() as stack:
        processes = [stack.enter_context(NodeProcess(name, values, work, output))
                     for name, values in _parameters(loop, wanted, output, stack).items()]
        print(f'playground: drag the target on {address}; Ctrl-C ends it', flush=True)
        try:
            while not signals:
                for process in processes:
                    process.require_running()
                sleep(0.1)
        except DemoError as error:
            print(f'the playground ended: {error}', flush=True)
    print(flush=True)


def _parameters(loop: str, wanted: Demonstration, output: Path, stack: ExitStack
                ) -> dict[str, dict[str, Any]]:
    """Return the parameters of the playground's nodes, by process name."""
    if loop != DDS:
        given = stack.enter_context(arm_parameters(loop, wanted, output))
        return {'osc_arm': {**given, 'autostart': True}}
    # in lockstep, so that the arm of a busy machine is slow: not lost, nor stopped by its brakes
    return {'osc_simulator': {**wanted.given('osc_simulator'), 'lockstep': True, 'paced': True,
                              'lockstep_timeout': STALLED},
            'osc_controller': {**wanted.given('osc_controller'), 'autostart': True,
                               'state_timeout': STALLED}}
