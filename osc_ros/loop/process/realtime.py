# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Settings of Python and Linux that keep a control loop on time."""

from __future__ import annotations

from contextlib import suppress
import ctypes
import gc
import os
import sys
from threading import current_thread
from threading import enumerate as enumerate_threads

LOCK_ALL = 3  # MCL_CURRENT | MCL_FUTURE of <sys/mman.h>
TIMER_SLACK = 29  # PR_SET_TIMERSLACK of <sys/prctl.h>

# A thread that runs Python code hands the GIL to a waiting thread after this time [s].
SWITCH_INTERVAL = 1e-4
SLOW = 'plans',  # names of Python threads that do slow work in the process of a control loop

_owners: set[int] = set()  # ids of the owners passed to `keep_garbage_out`


def switch_threads_quickly() -> None:
    """Limit the time that a thread waits for another thread's Python code to SWITCH_INTERVAL."""
    sys.setswitchinterval(SWITCH_INTERVAL)


def keep_garbage_out(owner: object) -> None:
    """Disable automatic garbage collection, and exclude all present objects from it."""
    # until every owner, such as the node of an arm, has called `collect_garbage_as_usual`
    gc.collect()
    gc.freeze()
    gc.disable()
    _owners.add(id(owner))


def collect_garbage() -> None:
    """Collect garbage among the few objects created since `keep_garbage_out`, which is quick."""
    gc.collect()


def collect_garbage_as_usual(owner: object) -> None:
    """Enable automatic garbage collection of all objects, if no other owner needs it disabled."""
    _owners.discard(id(owner))
    if not _owners:
        gc.enable()
        gc.unfreeze()


def stay_behind() -> None:
    """Run the calling thread after all threads in real time, also after `prioritize`."""
    switch_threads_quickly()
    current_thread().name = SLOW[0]
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def prioritize(priority: int) -> str:
    """Run all threads of the process under SCHED_FIFO, if permitted; return a text for the log."""
    # DDS threads, too: a joint state passes through them. `priority` is 1 to 99; the calling
    # thread and the threads named in SLOW get one less.
    try:
        for thread in os.listdir('/proc/self/task'):
            with suppress(ProcessLookupError):  # the thread has ended
                os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(priority))
        for slow in (0, *(one.native_id for one in enumerate_threads() if one.name in SLOW)):
            os.sched_setscheduler(slow or 0, os.SCHED_FIFO, os.sched_param(max(1, priority - 1)))
    except (OSError, AttributeError) as error:
        return f'SCHED_FIFO {priority} not permitted ({error}): see rtprio of limits.conf(5)'
    return f'SCHED_FIFO {priority}'


def lock_memory() -> str:
    """Lock all memory of the process into RAM, if permitted; return a text for the log."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, 'mlockall', lambda flags: -1)(LOCK_ALL) != 0:
        reason = os.strerror(ctypes.get_errno())
        return f'memory not locked ({reason}): see memlock of limits.conf(5)'
    return 'memory locked'


def run_on(cpus: tuple[int, ...]) -> str:
    """Run all threads of the process only on these CPUs, if possible; return a log text."""
    text = ', '.join(map(str, cpus))
    try:
        for thread in os.listdir('/proc/self/task'):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cpus)
    except (OSError, AttributeError, ValueError) as error:
        return f'not restricted to CPU {text} ({error})'
    return f'CPU {text}'


def wake_on_time() -> str:
    """Set the timer slack of this thread from 50 µs to 1 ns; return '' or an error for the log."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, 'prctl', lambda *_: -1)(TIMER_SLACK, 1, 0, 0, 0) != 0:
        return f'timer slack not set ({os.strerror(ctypes.get_errno())})'
    return ''
