# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Waiting and wake-up of the members of a team."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import multiprocessing
from multiprocessing.connection import Connection
import os
from selectors import DefaultSelector, EVENT_READ
import sys
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.contract.method import NOT_FINITE
from osc_ros.dynamics.segments.signals import (
    FIRST_RUNG,
    LAST_RUNG,
    REST,
    RING,
    set_sleep_flag,
    STAGE,
)
from osc_ros.errors import OscError

Words = NDArray[np.int64]

WAKE_UP = 5e-5  # shortest time that a member needs to wake [s]; see `Workers.spin`

yield_core: Callable[[], object] = getattr(os, 'sched_yield', lambda: None)


class Fault(OscError, RuntimeError):
    """A member of the team has ended, or has not answered before the deadline."""


class Bell:
    """An eventfd that wakes a member."""

    # `Connection` can send it to the process of another member. Where the system has none, a pipe:
    # then Linux assumes that the writer is about to sleep, and wakes the reader on the core of the
    # writer, which still spins.

    def __init__(self) -> None:
        self._counts = hasattr(os, 'eventfd')
        if self._counts:
            self._reader = self._writer = Connection(os.eventfd(0, os.EFD_NONBLOCK))
        else:
            self._reader, self._writer = multiprocessing.Pipe(duplex=False)
            os.set_blocking(self._reader.fileno(), False)
            os.set_blocking(self._writer.fileno(), False)

    def fileno(self) -> int:
        """The file descriptor; it becomes readable when the member must wake."""
        return self._reader.fileno()

    def ring(self) -> None:
        """Wake the member; no effect if it is awake."""
        try:
            os.write(self._writer.fileno(), (1).to_bytes(8, sys.byteorder))
        except OSError:
            pass  # the counter is full, or the member has ended, which its sentinel reports

    def clear(self) -> None:
        """Clear all pending signals."""
        try:
            while os.read(self._reader.fileno(), 8):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close the file descriptors."""
        self._reader.close()
        self._writer.close()


class Member:
    """One member of a team, number k: waits for the other members, and wakes them."""

    # flags, progress: words of `signals`. guards: sentinels that become ready when a peer has
    # ended. spin: duration of spinning before sleep [s]; after a sleep within a call, the next
    # wait spins for `WAKE_UP` at most: the awaited member probably has no core.

    def __init__(self, flags: Words, k: int, bells: Sequence[Bell], guards: Sequence[Any],
                 spin: float, progress: Words) -> None:
        self.progress = progress
        self.deadline = np.inf
        self.delayed: Callable[[], object] = yield_core  # the awaited process may need this core
        self._flags, self._k, self._members = flags, k, len(bells)
        self._bells = bells
        self._spin = self._spin_in_call = spin
        self._wakers = DefaultSelector()  # constructed once: it takes longer than a wake-up
        for waker in (bells[k], *guards):
            self._wakers.register(waker, EVENT_READ)

    def run(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """Call a kernel of `roles` until it is done; return its status."""
        # Fault if a process of the team has ended (its guard is ready), or the deadline has
        # passed.
        status = kernel(*arguments)
        return status if status <= NOT_FINITE else self._run_waiting(status, kernel, arguments)

    def _run_waiting(self, status: int, kernel: Callable[..., int], arguments: Any) -> int:
        began = since = perf_counter()
        seen, sleepy, has_slept = b'', False, False
        is_idle = self.progress[STAGE] == REST
        spin = self._spin if is_idle else self._spin_in_call
        while status > NOT_FINITE:
            now = perf_counter()
            if status == RING:
                self.ring(*self.progress[[FIRST_RUNG, LAST_RUNG]])
            elif self.progress.tobytes() != seen:
                seen, since = self.progress.tobytes(), now
            elif now - since < spin:
                self.delayed()
            elif not sleepy:
                self.delayed()
                set_sleep_flag(self._flags, self._members, self._k, 1)
                sleepy = True  # and call the kernel once more before sleeping
            else:
                self._sleep(began + self.deadline - now)
                sleepy, has_slept, since = False, True, perf_counter()
            status = kernel(*arguments)
        if sleepy:
            self._wake()
        if not is_idle:
            self._spin_in_call = min(self._spin, WAKE_UP) if has_slept else self._spin
        return status

    def close(self) -> None:
        """Close the selector."""
        self._wakers.close()

    def ring(self, first: int, last: int) -> None:
        """Wake those of the members first … last - 1 that sleep."""
        for k in range(first, last):
            if set_sleep_flag(self._flags, self._members, k, 0):
                self._bells[k].ring()

    def _sleep(self, seconds: float) -> None:
        bell = self._bells[self._k]
        ready = self._wakers.select(max(0.0, seconds) if np.isfinite(seconds) else None)
        self._wake()
        if not ready:
            raise Fault(f'no answer within {self.deadline:g} s')
        if any(key.fileobj is not bell for key, _ in ready):
            raise Fault('ended')

    def _wake(self) -> None:
        set_sleep_flag(self._flags, self._members, self._k, 0)
        self._bells[self._k].clear()  # a later signal shortens the next sleep
