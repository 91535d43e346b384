# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shutdown of a node's process in bounded time after SIGINT or SIGTERM."""

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

NOTICE_TIME = 1.0  # longest time for the present callback to return after a signal [s]
STOP_TIME = 3.0  # longest time to bring the arm to rest [s]
TEAR_DOWN_TIME = 2.0  # longest time to shut down ROS after that [s]
MARGIN = 0.5  # added to these limits before the process is ended by force [s]
POLL_PERIOD = 0.02  # [s]


class Ending:
    """
    Context manager that records SIGINT and SIGTERM and limits the time of the shutdown.

    The signal handlers raise no exception: on Ctrl-C the terminal and launch both send SIGINT, and
    an exception could interrupt any callback or the tear-down. Instead, a thread ends the process
    and logs the reason if one of these steps takes too long: the callback that runs when the
    signal comes, stopping the arm, or the tear-down of ROS.

    Attributes
    ----------
    name : str
        Name of the node, for messages.
    stops : callable
        Begins to stop the arm; returns whether it is at rest. Called repeatedly by the thread
        while a callback blocks the main thread.

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
        # the C signal handler writes to the pipe at once, even while the main thread is blocked
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
