# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The main function of a worker process of a team."""

from __future__ import annotations

from collections.abc import Sequence
import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
import os
import signal
import traceback

import numpy as np

from osc_ros.dynamics.segments import signals
from osc_ros.dynamics.segments.lane_segments import Split
from osc_ros.dynamics.segments.members import begin, compile_for, follower_arguments
from osc_ros.dynamics.segments.roles import follow
from osc_ros.dynamics.segments.signals import LAST, PROGRESS_WIDTH, REST, STAGE, STOP
from osc_ros.dynamics.segments.team_memory import Shared, shared_arrays
from osc_ros.dynamics.teams.waiting import Bell, Fault, Member

LOOKS = 512  # reads of a signal before the kernel returns and the clock is read: about 10 µs


def serve(name: str, n: int, k: int, split: Split, bells: Sequence[Bell],
          report: Connection, spin: float) -> None:
    """Run member k until the owner commands STOP or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C
    memory = SharedMemory(name)
    try:
        _follow(shared_arrays(memory.buf, n, len(bells)), k, split, bells, report, spin)
    except (Fault, EOFError, BrokenPipeError):
        pass  # the owner has ended
    except Exception:
        report.send(traceback.format_exc())
    # no clean-up is needed, and a normal exit of Python with LLVM takes 0.1 s
    os._exit(0)


def _follow(shared: Shared, k: int, split: Split, bells: Sequence[Bell],
            report: Connection, spin: float) -> None:
    owner = multiprocessing.parent_process()
    assert owner is not None
    progress = np.zeros(PROGRESS_WIDTH, np.int64)
    member = Member(shared.flags, k, bells, [owner.sentinel], spin, progress)
    compile_for(split)
    arguments = follower_arguments(shared, split, k, progress, LOOKS)
    progress[STAGE] = REST
    report.send('ready')
    while True:
        value = int(shared.flags[signals.COMMAND])  # no ordering needed: it only grows
        if value == STOP:
            return
        if value > progress[LAST]:
            begin(progress, value)
        member.run(follow, *arguments[value % signals.INWARD])
