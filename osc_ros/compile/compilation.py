# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Several processes compile the kernels that a call uses; their progress is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
import json
import math
import os
import pickle
import subprocess
import sys
from threading import Event, Thread
from time import perf_counter
from types import ModuleType
from typing import Any

from osc_ros.compile import compiled
from osc_ros.compile.compiled import plain
from osc_ros.compile.parallel_parts import cores

MOST_HELPERS = 3
TELL_PERIOD = 1.0  # [s]
EARLY = 0.03  # share of the work before which the time that is left is not estimated
MOSTLY, ALMOST = 0.8, 0.99  # largest shares of a kernel, and of the work, that are not ready yet


@dataclass(frozen=True)
class Progress:
    """Progress of the compilation."""

    share: float  # completed share of the work of all processes; NaN while it is unknown
    name: str  # kernel that this process compiles or waits for
    seconds: float  # since the first compilation began [s]

    @property
    def left(self) -> str:
        """How long it takes until the end, as a text; empty while it is unknown."""
        if not self.share >= EARLY:
            return ''
        return f'about {self.seconds * (1.0 / self.share - 1.0):.0f} s left'

    def __str__(self) -> str:
        done = self.name if math.isnan(self.share) else f'{100.0 * self.share:.0f} %'
        parts = done, f'{self.seconds:.0f} s', self.left
        return 'compiling kernels (first start only): ' + ', '.join(filter(None, parts))


class _Work:
    """The kernels that remain to be compiled; their sizes are those of their source."""

    def __init__(self) -> None:
        self._sizes: dict[str, list[int]] = {}
        self._total = self.done = self._reached = 0.0
        self._since = perf_counter()  # when a kernel was last ready

    def plan(self, kernels: Sequence[tuple[str, int]]) -> None:
        """Set the names and sizes of the kernels, unless they are known."""
        if self._total == 0.0:
            for name, size in kernels:
                self._sizes.setdefault(name, []).append(size)
            self._total = float(sum(size for _, size in kernels)) or 1.0
            self.done = 0.0 if kernels else 1.0

    def finish(self, name: str) -> None:
        """Record that a kernel is ready; a name that is not planned is ignored."""
        if sizes := self._sizes.get(name):
            self.done += sizes.pop()
            self._since = perf_counter()

    def share(self, seconds: float) -> float:
        """Completed share after a time [s], which never falls; NaN before `plan`."""
        # Between two kernels it goes on at the mean speed so far, for most of the largest one.
        if self._total == 0.0:
            return math.nan
        waited = perf_counter() - self._since
        speed = self.done / max(seconds - waited, 1.0)
        largest = max((one for sizes in self._sizes.values() for one in sizes), default=0)
        found = self.done + min(speed * waited, MOSTLY * largest)
        self._reached = max(self._reached, min(found / self._total, ALMOST))
        return self._reached


class _Team:
    """Helper processes that compile kernels; they start when a kernel is not in the cache."""

    def __init__(self, job: bytes | None, tell: Callable[[Progress], object]) -> None:
        self._job, self._tell, self._work = job, tell, _Work()
        self._helpers: list[subprocess.Popen[bytes]] = []
        self._began: float | None = None
        self._depth, self._has_told = 0, False
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
            self._work.finish(name)
        else:
            self._name = name

    def close(self) -> None:
        """End the helpers; the last call of `tell`, if there was one, has the share 1."""
        self._has_ended.set()
        if self._teller.is_alive():
            self._teller.join()
        if self._has_told:
            self._tell(Progress(1.0, self._name, perf_counter() - (self._began or 0.0)))
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
                word, _, rest = line.partition(b' ')
                if word == b'plan':
                    self._work.plan(json.loads(rest))
                elif word == b'ready':
                    self._work.finish(rest.decode().strip())

    def _tell_regularly(self) -> None:
        told = 0.0
        while not self._has_ended.wait(TELL_PERIOD):
            seconds = perf_counter() - (self._began or 0.0)
            if self._depth > 0 or self._work.done != told:  # else this call does not compile now
                told, self._has_told = self._work.done, True
                self._tell(Progress(self._work.share(seconds), self._name, seconds))


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
    missing = [one for one in uses if not compiled.is_cached(*one)]
    print('plan', json.dumps([(kernel.py_func.__name__, size_of(kernel.py_func))
                              for kernel, _ in missing]), flush=True)
    for kernel, types in reversed(missing):
        if not (compiled.is_cached(kernel, types) or compiled.is_being_compiled(kernel)):
            kernel.compile(types)
            print('ready', kernel.py_func.__name__, flush=True)


def size_of(function: Any) -> int:
    """Number of source lines of a kernel and of all compiled functions that it calls."""
    found, seen, size = [function], set(), 0
    while found:
        one = found.pop()
        if one in seen:
            continue
        seen.add(one)
        names = one.__code__.co_names
        size += len({line for *_, line in one.__code__.co_lines() if line is not None})
        for value in (one.__globals__.get(name) for name in names):
            inside = [getattr(value, name, None) for name in names] if isinstance(
                value, ModuleType) else [value]
            found += [plain(part) for part in inside if hasattr(part, 'py_func')]
    return size


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == '__main__':
    main()
