"""What Python and Linux can do for a loop that is not to be late."""

from __future__ import annotations

from contextlib import suppress
import ctypes
import gc
import os
import sys

LOCK_ALL = 3  # MCL_CURRENT | MCL_FUTURE of <sys/mman.h>


# A thread that runs Python code hands the GIL to a waiting thread after this time [s].
SWITCH_INTERVAL = 1e-4


def switch_threads_quickly() -> None:
    """Let a loop's thread wait at most about SWITCH_INTERVAL for another thread's Python code."""
    sys.setswitchinterval(SWITCH_INTERVAL)


def keep_garbage_out() -> None:
    """Let Python look for cycles only when it is told to, and never among what is there now."""
    gc.collect()
    gc.freeze()
    gc.disable()


def collect_garbage() -> None:
    """Look for cycles among what came since then: little, so this is quick."""
    gc.collect()


def collect_garbage_as_usual() -> None:
    """Let Python look for cycles whenever it likes."""
    gc.enable()
    gc.unfreeze()


def prioritize(priority: int) -> str:
    """
    Run all threads of the process under SCHED_FIFO, if permitted.

    All of them, because a state passes through threads of DDS before the loop has it. The calling
    thread, which prepares what takes long, gets a priority one lower, so that it delays none.

    Parameters
    ----------
    priority : int
        Of SCHED_FIFO, 1 to 99.

    Returns
    -------
    str
        What the operating system permitted.

    """
    try:
        for thread in os.listdir('/proc/self/task'):
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(priority))
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(max(1, priority - 1)))
    except (OSError, AttributeError) as error:
        return f'SCHED_FIFO {priority} not permitted ({error}): see rtprio of limits.conf(5)'
    return f'SCHED_FIFO {priority}'


def lock_memory() -> str:
    """
    Keep all memory of the process from being paged out, if that is allowed.

    Returns
    -------
    str
        What came of it.

    """
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, 'mlockall', lambda flags: -1)(LOCK_ALL) != 0:
        reason = os.strerror(ctypes.get_errno())
        return f'memory not locked ({reason}): see memlock of limits.conf(5)'
    return 'memory locked'
