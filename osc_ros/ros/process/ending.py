# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Ends a process in a bounded time after SIGINT or SIGTERM, even if a callback or ROS hangs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
import faulthandler
import os
import signal
import sys
from threading import Event, Thread
from time import perf_counter, sleep

from osc_ros.interrupts import SIGNALS

NOTICE_TIME = 1.0  # longest callback that is awaited after a signal [s]
STOP_TIME = 3.0  # longest time in which the arm is brought to rest [s]
TEAR_DOWN_TIME = 2.0  # longest tear-down of ROS after that [s]
MARGIN = 0.5  # added to the times above before the process is ended by force [s]
POLL_PERIOD = 0.02  # [s]


class Ending:
    """
    Records SIGINT and SIGTERM, and then ends the process in a bounded time; a context manager.

    A signal raises nothing: on Ctrl-C the terminal and launch both send SIGINT, and an exception
    out of a signal handler would come up in any callback, or in the middle of the tear-down.
    Instead, a thread ends the process if one of the steps takes too long, and says which one:
    the callback that runs when the signal comes, stopping the arm, and the tear-down of ROS.

    Attributes
    ----------
    name : str
        Name of the node, for messages.
    is_requested : bool
        Whether a signal has come.
    stops : callable
        Called by the thread while the main thread is in a long callback: begins to stop the arm,
        and returns whether it is at rest.

    """

    def __init__(self) -> None:
        self.name = 'osc_ros'
        self.stops: Callable[[], bool] = lambda: True
        self._signals: list[int] = []
        self._status = 0
        self._noticed, self._stopped, self._closed = Event(), Event(), Event()

    def __enter__(self) -> Ending:
        """Install the signal handlers, and start the thread."""
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        # C code writes to the pipe at once, even while the main thread is in a long call
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda number, frame: self._signals.append(number))
        self._thread = Thread(target=self._watch, name='ending', daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the time limits, and ignore further signals."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
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
        """End the process if a step takes too long."""
        os.read(self._reading, 1)
        if not self._noticed.wait(NOTICE_TIME):
            self._stop_from_here()
        if not self._stopped.wait(STOP_TIME + MARGIN):
            self._end(1, f'the arm was not stopped within {STOP_TIME:g} s')
        if not self._closed.wait(TEAR_DOWN_TIME):
            self._end(self._status, f'ROS was not shut down within {TEAR_DOWN_TIME:g} s')

    def _stop_from_here(self) -> None:
        """Stop the arm while the main thread is in a callback, and end the process."""
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
    """Let a thread of C end the process after a time [s] even if a hung thread holds the GIL."""
    faulthandler.dump_traceback_later(time + 2.0 * MARGIN, exit=True)  # `Ending._watch` is first
