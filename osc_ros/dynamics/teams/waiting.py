"""How the members of a team wait for each other and wake each other."""

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

from osc_ros.dynamics.method import NOT_FINITE
from osc_ros.dynamics.teams.segments import (
    asleep,
    FIRST_RUNG,
    LAST_RUNG,
    PROGRESS_WIDTH,
    RING,
)
from osc_ros.errors import OscError

Words = NDArray[np.int64]

yield_core: Callable[[], object] = getattr(os, 'sched_yield', lambda: None)


class Fault(OscError, RuntimeError):
    """A member that does not answer."""


class Bell:
    """
    What wakes a member; `Connection` has its file descriptor, and knows how to send it.

    An eventfd where there is one. A pipe would do, but Linux takes a write to a pipe as a sign
    that the writer is about to sleep, and wakes the reader on the writer's core, which spins.

    """

    def __init__(self) -> None:
        self._counts = hasattr(os, 'eventfd')
        if self._counts:
            self._reader = self._writer = Connection(os.eventfd(0, os.EFD_NONBLOCK))
        else:
            self._reader, self._writer = multiprocessing.Pipe(duplex=False)
            os.set_blocking(self._reader.fileno(), False)
            os.set_blocking(self._writer.fileno(), False)

    def fileno(self) -> int:
        """What becomes readable."""
        return self._reader.fileno()

    def ring(self) -> None:
        """Wake the member; it does no harm if it is awake."""
        try:
            os.write(self._writer.fileno(), (1).to_bytes(8, sys.byteorder))
        except OSError:
            pass  # rung more often than heard, or nobody is left to hear it: others see that

    def hush(self) -> None:
        """Let it not be rung any more."""
        try:
            while os.read(self._reader.fileno(), 8):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give it back."""
        self._reader.close()
        self._writer.close()


class Member:
    """
    One process's way to wait for the others and to wake them.

    Parameters
    ----------
    flags, k : the words of the team, and the number of this member
    bells : sequence of Bell
        Of all members.
    guards : sequence
        What becomes ready when waiting has no sense any more.

    """

    def __init__(self, flags: Words, k: int, bells: Sequence[Bell], guards: Sequence[Any],
                 spin: float) -> None:
        self.progress = np.zeros(PROGRESS_WIDTH, np.int64)
        self.deadline = np.inf
        self.delayed: Callable[[], object] = yield_core  # whom it waits for may be behind it
        self._flags, self._k, self._members = flags, k, len(bells)
        self._bells, self._spin = bells, spin
        self._wakers = DefaultSelector()  # kept, for it takes longer to make one than to wake
        for waker in (bells[k], *guards):
            self._wakers.register(waker, EVENT_READ)

    def run(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """
        Call a kernel of `segments` until it is through.

        Raises
        ------
        Fault
            A guard became ready, or the deadline has passed.

        """
        status = kernel(*arguments)
        return status if status <= NOT_FINITE else self._patiently(status, kernel, arguments)

    def _patiently(self, status: int, kernel: Callable[..., int], arguments: Any) -> int:
        began = since = perf_counter()
        seen, sleepy = b'', False
        while status > NOT_FINITE:
            now = perf_counter()
            if status == RING:
                self.ring(*self.progress[[FIRST_RUNG, LAST_RUNG]])
            elif self.progress.tobytes() != seen:
                seen, since = self.progress.tobytes(), now
            elif now - since < self._spin:
                self.delayed()
            elif not sleepy:
                self.delayed()
                asleep(self._flags, self._members, self._k, 1)
                sleepy = True  # and look once more
            else:
                self._sleep(began + self.deadline - now)
                sleepy, since = False, perf_counter()
            status = kernel(*arguments)
        if sleepy:
            self._wake()
        return status

    def close(self) -> None:
        """Give back what it waits with."""
        self._wakers.close()

    def ring(self, first: int, last: int) -> None:
        """Wake those of the members from first to before last who sleep."""
        for k in range(first, last):
            if asleep(self._flags, self._members, k, 0):
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
        asleep(self._flags, self._members, self._k, 0)
        self._bells[self._k].hush()  # if it is rung only now, the next sleep is a short one
