# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Several processes compile the kernels that a call uses; their progress is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
import os
import pickle
import subprocess
import sys
from threading import Event, Thread
from time import perf_counter
from typing import Any

from osc_ros.compile import compiled
from osc_ros.compile.parallel_parts import cores

MOST_HELPERS = 3
TELL_PERIOD = 1.0  # [s]


@dataclass(frozen=True)
class Progress:
    """Progress of the compilation."""

    ready: int  # kernels compiled by all processes; one counts once for every signature
    total: int  # kernels that are used, including those in the cache; 0 while it is unknown
    name: str  # kernel that this process compiles or waits for
    seconds: float  # since the first compilation began [s]

    def __str__(self) -> str:
        of = f' of {self.total}' if self.total else ''
        return f'compiling kernels (first start only): {self.ready}{of}, {self.seconds:.0f} s'


class _Team:
    """Helper processes that compile kernels; they start when a kernel is not in the cache."""

    def __init__(self, job: bytes | None, tell: Callable[[Progress], object]) -> None:
        self._job, self._tell = job, tell
        self._helpers: list[subprocess.Popen[bytes]] = []
        self._began: float | None = None
        self._ready = self._depth = self._total = 0
        self._name = ''
        self._has_ended = Event()
        self._teller = Thread(target=self._tell_regularly, daemon=True)

    def observe(self, name: str, begins: bool) -> None:
        """Record that the compilation of a kernel in this process begins, or has ended."""
        if self._has_ended.is_set():  # another thread compiles
            return
        if self._began is None:
            self._began = perf_counter()
            self._start()
        self._depth += 1 if begins else -1
        if self._depth == 0:
            self._ready += 1
        else:
            self._name = name

    def close(self) -> None:
        """End the helpers; after this, the callback `tell` is not called."""
        self._has_ended.set()
        if self._teller.is_alive():
            self._teller.join()
        for helper in self._helpers:
            helper.kill()
            helper.wait()

    def _start(self) -> None:
        self._teller.start()
        if self._job is None:
            return
        for _ in range(min(cores() - 1, MOST_HELPERS)):
            with suppress(OSError, TypeError):  # without helpers the compilation takes longer
                helper = subprocess.Popen(
                    [sys.executable, '-m', __name__], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self._helpers.append(helper)
                Thread(target=self._listen, args=[helper], daemon=True).start()

    def _listen(self, helper: subprocess.Popen[bytes]) -> None:
        """Send a helper its job, and count the kernels that it reports."""
        with suppress(OSError, ValueError):  # the helper has ended
            assert helper.stdin is not None and helper.stdout is not None
            helper.stdin.write(self._job or b'')
            helper.stdin.flush()  # not closed: the helper ends at the end of its input
            for line in helper.stdout:
                word, _, number = line.partition(b' ')
                if word == b'total':
                    self._total = int(number)
                elif word == b'ready':
                    self._ready += 1

    def _tell_regularly(self) -> None:
        told: tuple[int, int] | None = None
        while not self._has_ended.wait(TELL_PERIOD):
            if self._depth == 0 and (self._ready, self._total) == told:
                continue  # the call is not compiling at present
            told = self._ready, self._total
            ready = min(self._ready, self._total) if self._total else self._ready
            self._tell(Progress(ready, self._total, self._name,
                                perf_counter() - (self._began or 0.0)))


@contextmanager
def compile_in_parallel(function: Callable[..., object], *arguments: Any,
                        tell: Callable[[Progress], object] = lambda progress: None,
                        by_several: bool = True) -> Iterator[None]:
    """Within this context, other processes help to compile the kernels that a call uses."""
    # They start at the first kernel that is not in the cache, call function(*arguments) in plain
    # Python (so a second call must do no harm) to find the kernels, and compile them, the last one
    # first; none start if the call cannot be pickled. Another thread calls `tell` every second.
    job = None
    if by_several:
        with suppress(pickle.PicklingError, TypeError, AttributeError):
            job = pickle.dumps((function, arguments))
    team = _Team(job, tell)
    compiled.OBSERVERS.append(team.observe)
    try:
        yield
    finally:
        compiled.OBSERVERS.remove(team.observe)
        team.close()


def main() -> None:
    """Read a pickled call from standard input; compile its kernels; print the name of each."""
    function, arguments = pickle.load(sys.stdin.buffer)
    Thread(target=_end_with_the_parent, daemon=True).start()
    uses = compiled.recorded_uses(lambda: function(*arguments))
    print('total', len(uses), flush=True)
    for kernel, types in reversed(uses):
        if not (compiled.is_cached(kernel, types) or compiled.is_being_compiled(kernel)):
            kernel.compile(types)
            print('ready', kernel.py_func.__name__, flush=True)


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == '__main__':
    main()
