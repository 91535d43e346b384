# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""A worker process: member k of a team, until the owner stops it or ends."""

from __future__ import annotations

from collections.abc import Sequence
import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
import os
import signal
import traceback

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.teams import roles, signals
from osc_ros.dynamics.teams.costs import VARIANTS
from osc_ros.dynamics.teams.memory import Shared, shared_arrays
from osc_ros.dynamics.teams.reduction import ROW_WIDTH
from osc_ros.dynamics.teams.roles import follow
from osc_ros.dynamics.teams.signals import LAST, REST, STAGE, STOP
from osc_ros.dynamics.teams.slots import TAU
from osc_ros.dynamics.teams.waiting import Bell, Fault, Member

LOOKS = 512  # reads of a signal before the kernel returns and the clock is read: about 10 µs


def serve(name: str, n: int, k: int, bounds: NDArray[np.intp], bells: Sequence[Bell],
          report: Connection, spin: float, reduced: bool) -> None:
    """Run member k until the owner commands STOP or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C
    memory = SharedMemory(name)
    try:
        _follow(shared_arrays(memory.buf, n, len(bells), reduced), k, bounds, bells, report, spin)
    except (Fault, EOFError, BrokenPipeError):
        pass  # the owner has ended
    except Exception:
        report.send(traceback.format_exc())
    # no clean-up is needed, and a normal exit of Python with LLVM takes 0.1 s
    os._exit(0)


def _follow(shared: Shared, k: int, bounds: NDArray[np.intp], bells: Sequence[Bell],
            report: Connection, spin: float) -> None:
    owner = multiprocessing.parent_process()
    assert owner is not None
    member = Member(shared.flags, k, bells, [owner.sentinel], spin)
    reduced = len(shared.blocks) > 0
    roles.compile_kernels(reduced)
    rows = np.empty((np.diff(bounds)[:, k].max() * reduced, ROW_WIDTH))
    arguments = []
    for variant in VARIANTS:
        first, last = bounds[variant, k:k + 2]
        mine, inside = slice(first, last), slice(first - 1, first)
        q, qd, tau, qdd, out = shared.state[:, mine]
        matrix = (shared.blocks[mine], rows[:last - first], shared.links[first - 1],
                  shared.state[TAU, inside]) if reduced else None
        arguments.append((
            shared.links[mine], shared.ends, q, qd, tau if variant & 1 else None,
            qdd if variant & 2 else None, shared.work[mine], shared.slots, shared.flags,
            shared.force, out, k, member.progress, LOOKS, matrix))
    member.progress[STAGE] = REST
    report.send('ready')
    while True:
        value = int(shared.flags[signals.COMMAND])  # no ordering needed: it only grows
        if value == STOP:
            return
        if value > member.progress[LAST]:
            member.progress[LAST] = value
            member.progress[STAGE] = signals.MOVE
        member.run(follow, *arguments[value % signals.INWARD])
