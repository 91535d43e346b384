# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Evaluation of a batch of states by several threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
import os
from threading import Lock

from osc_ros.compile.compiled import unlocked

_LEAST, _LARGEST = 256, 8192  # states of a part
_COMPILED: set[Hashable] = set()
_LOCK = Lock()


def cores() -> int:
    """Number of cores that this process may use."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity')
            else os.cpu_count() or 1)


def in_parallel(k: int, part: Callable[[int, int], None], threads: int | None,
                variant: Hashable) -> None:
    """Call part(first, last) for consecutive parts of k states, in threads."""
    # The kernels release the GIL; each call needs its own memory. A thread (default: one per core)
    # gets several parts, in case other processes slow down a core. `variant` names the kernel and
    # its argument types: at its first use, part(0, 0) compiles or loads the kernel.
    with _LOCK:
        if variant not in _COMPILED:
            with unlocked():
                part(0, 0)
            _COMPILED.add(variant)
    count = cores() if threads is None else threads
    size = max(_LEAST, min(_LARGEST, -(-k // (8 * count))))
    parts = [(first, min(first + size, k)) for first in range(0, k, size)]
    rest = iter(parts)  # each thread takes the next part: `next` of a list's iterator is atomic

    def work() -> None:
        for first, last in rest:
            part(first, last)

    others = min(count, len(parts)) - 1
    if others <= 0:
        work()
        return
    with ThreadPoolExecutor(others) as pool:
        ends = [pool.submit(work) for _ in range(others)]
        work()  # the caller is one of the threads
        for end in ends:
            end.result()
