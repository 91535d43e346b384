# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Effects of SIGINT and SIGTERM on a process.

A process that does not command an arm ends at once (`end_quietly`). Within a context the signals
are recorded, raise KeyboardInterrupt, or let a node stop its arm in bounded time (`Ending`). A
process that one of our launch files has started also gets SIGTERM when launch has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
import faulthandler
import os
import select
import signal
import sys
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Any

SIGNALS = signal.SIGINT, signal.SIGTERM
# Process id of launch, in the environment of the nodes that our launch files start.
LAUNCH_PID = 'OSC_ROS_LAUNCH_PID'
NOTICE_TIME = 1.0  # longest time for the present callback to return after a signal [s]
STOP_TIME = 3.0  # longest time to bring the arm to rest [s]
TEAR_DOWN_TIME = 2.0  # longest time to shut down ROS after that [s]
MARGIN = 0.5  # added to these limits before the process is ended by force [s]
POLL_PERIOD = 0.02  # [s]
_FIRST_STATUS = 128  # exit status for a signal, as in a shell: this plus the signal number
_ending: list[int] = []  # the pipe to the thread that ends the process, once it runs
_statuses: list[int | None] = []  # the last one is its exit status; None: see _FIRST_STATUS


def set_handler(handler: Callable[[int, Any], object] | signal.Handlers) -> dict[int, Any]:
    """Let SIGINT and SIGTERM call a handler; return the previous handlers by signal number."""
    return {number: signal.signal(number, handler) for number in SIGNALS}


def end_quietly(status: int | None = None) -> None:
    """From now on, SIGINT or SIGTERM ends the process at once; default: with 128 + signal."""
    # A thread ends it: imports and compilers print or swallow an exception of a handler, which can
    # also wait seconds for a compiler call. If the environment names the process of launch, its
    # end acts as SIGTERM: launch leaves its nodes running if it is killed or gets SIGTERM alone.
    _statuses.append(status)
    if not _ending:
        reading, writing = _pipe()
        _ending.append(writing)
        Thread(target=_end_on_signal, args=[reading], name='interrupts', daemon=True).start()
    set_handler(lambda number, frame: None)
    signal.set_wakeup_fd(_ending[0], warn_on_full_buffer=False)
    # Child processes must not inherit the variable.
    if launch := os.environ.pop(LAUNCH_PID, ''):
        Thread(target=_terminate_after, args=[launch], name='launch', daemon=True).start()


@contextmanager
def recorded_signals() -> Iterator[list[int]]:
    """Within this context, SIGINT and SIGTERM only append their numbers to the yielded list."""
    found: list[int] = []
    descriptor = signal.set_wakeup_fd(-1)
    usual = set_handler(lambda number, frame: found.append(number))
    try:
        yield found
    finally:
        for number, one in usual.items():
            signal.signal(number, one)
        signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)


def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe; writing into it does not block."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    return reading, writing


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
                status = _statuses[-1]
                os._exit(_FIRST_STATUS + number if status is None else status)


class Ending:
    """Context manager that records SIGINT and SIGTERM and limits the time of the shutdown."""

    # On Ctrl-C, terminal and launch both send SIGINT; an exception could interrupt any callback or
    # the tear-down. So a thread ends the process and logs why, if one of these takes too long: the
    # callback that runs when the signal comes, stopping the arm, or the tear-down of ROS.

    def __init__(self) -> None:
        self.name = 'osc_ros'  # of the node, for messages
        # Begins to stop the arm; returns whether it is at rest. While a callback blocks the main
        # thread, the thread of this object calls it again and again.
        self.stops: Callable[[], bool] = lambda: True
        self._signals: list[int] = []
        self._status = 0
        self._noticed, self._stopped, self._closed = Event(), Event(), Event()

    def __enter__(self) -> Ending:
        """Install the signal handlers, and start the thread."""
        self._reading, self._writing = _pipe()
        # the C signal handler writes to the pipe at once, even while the main thread is blocked
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        set_handler(lambda number, frame: self._signals.append(number))
        self._thread = Thread(target=self._watch, name='ending', daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the time limits, and ignore further signals."""
        set_handler(signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        for event in (self._noticed, self._stopped, self._closed):
            event.set()
        os.write(self._writing, b'.')
        self._thread.join()
        os.close(self._reading)
        os.close(self._writing)
        faulthandler.cancel_dump_traceback_later()

    @property
    def is_requested(self) -> bool:
        """Whether a signal has come."""
        return bool(self._signals)

    def begin_stop(self) -> None:
        """Record that the main thread has left its callbacks and now stops the arm."""
        self._status = 0 if self._signals else 1  # without a signal, the node has failed
        _limit(STOP_TIME)
        self._noticed.set()
        os.write(self._writing, b'.')

    def begin_tear_down(self) -> None:
        """Record that the arm has stopped."""
        _limit(TEAR_DOWN_TIME)
        self._stopped.set()

    def _watch(self) -> None:
        os.read(self._reading, 1)
        if not self._noticed.wait(NOTICE_TIME):
            self._stop_from_here()
        if not self._stopped.wait(STOP_TIME + MARGIN):
            self._end(1, f'the arm was not stopped within {STOP_TIME:g} s')
        if not self._closed.wait(TEAR_DOWN_TIME):
            self._end(self._status, f'ROS was not shut down within {TEAR_DOWN_TIME:g} s')

    def _stop_from_here(self) -> None:
        """Stop the arm and end the process, unless the main thread returns from its callback."""
        latest = perf_counter() + STOP_TIME
        while not self._noticed.is_set():
            if self.stops():
                self._end(0, f'it was in a callback that takes longer than {NOTICE_TIME:g} s, '
                             'such as the compilation of kernels')
            if perf_counter() > latest:
                self._end(1, f'the arm was not stopped within {STOP_TIME:g} s')
            sleep(POLL_PERIOD)

    def _end(self, status: int, reason: str) -> None:
        text = f'[WARN] [{self.name}]: ended at once: {reason}\n'
        with suppress(OSError):
            os.write(sys.stderr.fileno(), text.encode())
        os._exit(status)


def _limit(time: float) -> None:
    """Make a C thread end the process after a time [s], even if a blocked thread holds the GIL."""
    # the margin lets `Ending._watch` end the process first, with its log message
    faulthandler.dump_traceback_later(time + 2.0 * MARGIN, exit=True)
