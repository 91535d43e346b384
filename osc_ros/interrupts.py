# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
SIGINT and SIGTERM in a process that does not command an arm: they end it, or are recorded.

A process that one of our launch files has started also gets SIGTERM when launch has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import os
import select
import signal
import sys
from threading import Thread

SIGNALS = signal.SIGINT, signal.SIGTERM
# Process id of launch, in the environment of the nodes that our launch files start.
LAUNCH_PID = 'OSC_ROS_LAUNCH_PID'
_FIRST_STATUS = 128  # exit status for a signal, as in a shell: this plus the signal number
_ending: list[int] = []  # the pipe to the thread that ends the process, once it runs


def end_quietly() -> None:
    """
    From now on, SIGINT or SIGTERM ends the process at once, with status 128 + signal number.

    An exception from a signal handler would arise in arbitrary code: imports and compilers print
    it with their own stack, or swallow it. Therefore no exception is raised, and a thread ends the
    process; a Python handler would wait for the end of a compiler call, which takes seconds. If
    the environment names the process of launch, the end of launch has the effect of SIGTERM,
    because launch leaves its nodes running if it is killed or gets SIGTERM alone.

    """
    if not _ending:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        _ending.append(writing)
        Thread(target=_end_on_signal, args=[reading], name='interrupts', daemon=True).start()
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: None)
    signal.set_wakeup_fd(_ending[0], warn_on_full_buffer=False)
    # Child processes must not inherit the variable.
    if launch := os.environ.pop(LAUNCH_PID, ''):
        Thread(target=_terminate_after, args=[launch], name='launch', daemon=True).start()


@contextmanager
def recorded_signals() -> Iterator[list[int]]:
    """Within this context, SIGINT and SIGTERM only append their numbers to the yielded list."""
    found: list[int] = []
    descriptor = signal.set_wakeup_fd(-1)
    usual = {number: signal.signal(number, lambda which, frame: found.append(which))
             for number in SIGNALS}
    try:
        yield found
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)


@contextmanager
def raised_signals() -> Iterator[None]:
    """Within this context, SIGINT and SIGTERM raise KeyboardInterrupt, to hold the arm."""
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    descriptor = signal.set_wakeup_fd(-1)
    usual = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)


def _terminate_after(launch: str) -> None:
    """Send SIGTERM to this process when the process with the id `launch` has ended."""
    try:
        # A handle of the process stays valid if the id is reused.
        select.select([os.pidfd_open(int(launch))], [], [])
    except ProcessLookupError:  # launch has ended already
        pass
    except (ValueError, OSError) as error:  # invalid process id, or Linux before 5.3
        print(f'[WARN] {LAUNCH_PID}={launch}: the end of launch cannot be noticed ({error})',
              file=sys.stderr)
        return
    os.kill(os.getpid(), signal.SIGTERM)


def _end_on_signal(reading: int) -> None:
    """Read signal numbers, which C code writes to the pipe, and end the process."""
    while True:
        for number in os.read(reading, 64):
            if number in SIGNALS:
                os._exit(_FIRST_STATUS + number)
