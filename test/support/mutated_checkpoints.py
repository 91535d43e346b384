# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Read mutations of a checkpoint: `mutated_checkpoints.py FILE COUNT SEED`.

In a process of its own, which may use 2 GB more and 60 s for each 1,000: the limits of its memory
and its time cannot be taken back. Its exit status is 0 if all were read or refused.

"""

import pathlib
import resource
import sys

import numpy as np

from osc_ros.control.checkpoint import Checkpoint
from osc_ros.errors import InputError
from osc_ros.loop.engine import Engine
from osc_ros.loop.packing import unpacked

GIGABYTE = 2**30


def go_on(found):
    """Let the engine of a checkpoint answer some states, if it can be used."""
    try:
        engine = Engine.restored(found, lambda *_: None, lambda *_: None)
    except Exception:  # of any kind, which `Replay` tells as an InputError
        return
    for k in range(5):
        engine.update(20.0 + 0.002 * k, np.full(7, -0.5), np.zeros(7), (0, 0), 0.0)


def read_mutations(data, count, seed):
    """Read mutations of bytes; return how many were refused."""
    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * GIGABYTE,) * 2)
    seconds = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 60 + count * 60 // 1000
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(count):
        mutated = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            at, kind = int(rng.integers(len(mutated))), rng.integers(3)
            if kind == 0:
                mutated[at] = rng.integers(256)
            elif kind == 1:
                del mutated[at:at + int(rng.integers(1, 9))]
            else:
                mutated[at:at] = mutated[at - 8:at]
        try:
            found = unpacked(bytes(mutated))
        except InputError:
            refused += 1
            continue
        if isinstance(found, Checkpoint):
            go_on(found)
    return refused


if __name__ == '__main__':
    COUNT = int(sys.argv[2])
    DATA = pathlib.Path(sys.argv[1]).read_bytes()
    assert read_mutations(DATA, COUNT, int(sys.argv[3])) > COUNT // 10
