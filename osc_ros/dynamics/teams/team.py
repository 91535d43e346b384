# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Start and end of the worker processes of a team."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import multiprocessing
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory
import os
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.segments.lane_segments import Split
from osc_ros.dynamics.segments.members import Leader
from osc_ros.dynamics.segments.signals import command, PROGRESS_WIDTH, STOP
from osc_ros.dynamics.segments.team_memory import shared_arrays, size_in_bytes
from osc_ros.dynamics.teams.waiting import Bell, Member, yield_core
from osc_ros.dynamics.teams.worker import LOOKS, serve
from osc_ros.errors import OscError

Array = NDArray[np.float64]

_START_TIMEOUT = 120.0  # longest start of a worker, which may have to compile first [s]
_END_TIMEOUT = 2.0  # longest time from STOP to the end of a worker [s]
_SPREAD_PERIOD = 5e-3  # period at which a waiting owner checks for shared cores [s]


def _core(stat: str) -> int:
    """The core on which a process or thread last ran; `stat` is the path of its /proc/…/stat."""
    with open(stat, 'rb') as file:
        return int(file.read().rsplit(b')', 1)[1].split()[36])


def _spread(processes: Sequence[int]) -> None:
    """Move processes that share a core with this thread or with each other to free cores."""
    # A scheduler that sees every core busy, or is slow to balance, may leave two spinning
    # processes on one core. The affinity is restored at once, so that the scheduler may move them
    # again.
    allowed = os.sched_getaffinity(0)
    taken = {_core('/proc/thread-self/stat')}
    for process in processes:
        core, free = _core(f'/proc/{process}/stat'), allowed - taken
        if core in taken and free:
            core = min(free)
            os.sched_setaffinity(process, {core})
            os.sched_setaffinity(process, allowed)
        taken.add(core)


class Team(Leader):
    """The worker processes of a team and their shared memory; this process is the leader."""

    # `spin` and `deadline`: of `Workers` [s]. OscError if the workers do not start.

    def __init__(self, links: Array, ends: Array, split: Split, spin: float,
                 deadline: float) -> None:
        n, members = len(links), split.bounds.shape[1] - 1
        context = multiprocessing.get_context('spawn')
        self._block = SharedMemory(create=True, size=size_in_bytes(n, members))
        self._processes: list[BaseProcess] = []
        self._reports: list[Connection] = []
        self._bells: list[Bell] = []
        try:
            shared = shared_arrays(self._block.buf, n, members)
            shared.links[:], shared.ends[:] = links, ends
            shared.flags[:] = 0
            progress = np.zeros(PROGRESS_WIDTH, np.int64)
            super().__init__(shared, split, progress, LOOKS)
            del shared  # so that `close` can release the memory
            self._bells.extend(Bell() for _ in range(members))
            for k in range(1, members):
                report, sender = context.Pipe(duplex=False)
                process = context.Process(
                    target=serve, name=f'osc_ros worker {k}', daemon=True,
                    args=(self._block.name, n, k, split, self._bells, sender, spin))
                process.start()
                sender.close()
                self._processes.append(process)
                self._reports.append(report)
            for report in self._reports:
                self._await_ready(report)
            self._reported = [''] * len(self._processes)
        except BaseException:
            self.close(kill=True)
            raise
        finally:
            self._block.unlink()
        guards = [process.sentinel for process in self._processes]
        self.member = Member(self.shared.flags, 0, self._bells, guards, spin, progress)
        self.member.deadline = deadline
        self.member.delayed = self._delayed
        self._spread = 0.0

    def _await_ready(self, report: Connection) -> None:
        try:
            message = report.recv() if report.poll(_START_TIMEOUT) else 'nothing'
        except EOFError:
            message = ('nothing, and ended (a script that starts a team must be a file, and start '
                       "it under `if __name__ == '__main__':`, because worker processes import "
                       'it)')
        if message != 'ready':
            raise OscError(f'a worker did not start; its report: {message}')

    def _delayed(self) -> None:
        now = perf_counter()
        if now - self._spread > _SPREAD_PERIOD and os.path.exists('/proc/thread-self/stat'):
            self._spread = now
            try:
                _spread(self.pids)
            except OSError:
                pass  # a worker has ended, which its sentinel reports
        else:
            yield_core()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid or 0 for process in self._processes]

    def _run(self, kernel: Callable[..., int], *arguments: Any) -> int:
        return self.member.run(kernel, *arguments)

    def ended_workers(self) -> str:
        """Names of the workers that have ended, with their last report or exit code."""
        found = []
        for k, process in enumerate(self._processes):
            if wait([process.sentinel], 0.0):
                process.join()
                self._reported[k] = self._reported[k] or self._last_report(self._reports[k])
                found.append(f'{process.name} (process {process.pid}) ended with '
                             f'{self._reported[k] or process.exitcode}')
        return '; '.join(found)

    @staticmethod
    def _last_report(report: Connection) -> str:
        try:
            return str(report.recv()).strip().splitlines()[-1] if report.poll() else ''
        except EOFError:
            return ''

    def close(self, kill: bool = False) -> None:
        """End the workers, and release the memory; with `kill`, kill the processes at once."""
        if not kill:
            command(self.shared.flags, STOP)
            self.member.ring(1, len(self._processes) + 1)
        for process in self._processes:
            if not kill:
                process.join(_END_TIMEOUT)
            if process.exitcode is None:
                process.kill()  # works on a suspended process too
            process.join()
            process.close()
        if hasattr(self, 'member'):
            self.member.close()
        for bell in self._bells:
            bell.close()
        for report in self._reports:
            report.close()
        self._processes.clear()
        for name in ('shared', 'member', '_lanes'):
            self.__dict__.pop(name, None)
        try:
            self._block.close()
        except BufferError:
            pass  # the traceback of an exception refers to a view, and releases it later
