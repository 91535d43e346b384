# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques at a million states by Dask: on the cores of this machine, or on a cluster."""

import argparse
from contextlib import nullcontext
from functools import lru_cache
import sys

from matplotlib import pyplot
import numpy as np

from osc_ros import OperationalSpace, Robot, shipped_urdf
from osc_ros.errors import installation

try:
    import dask.array as da
    from dask.distributed import Client, LocalCluster
except ImportError:
    sys.exit(f"this example needs Dask: {installation('dask')}")

# States of a chunk. 27 numbers go in and out for a state of the Panda: a chunk has 14 MB, so that
# the memory of a worker holds many of them. It takes a core about 50 ms: 50 times what Dask's
# scheduler spends on a task.
CHUNK = 2 ** 16


@lru_cache
def space() -> OperationalSpace:
    """Return the operational space of a process: a worker makes it for its first chunk."""
    osc = OperationalSpace(
        Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp'))
    osc.threads = 1  # a worker has one core
    return osc


def laws(q: np.ndarray, qd: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the torques (k, 7) of a chunk: a function of arrays alone."""
    return space().torque_batch(q, qd, u).tau


def torques(q: da.Array, qd: da.Array, u: da.Array) -> da.Array:
    """Return the torques of all chunks, not computed yet; a chunk has whole rows."""
    return da.map_blocks(laws, q, qd, u, chunks=q.chunks, dtype=np.float64)


def main(arguments: list[str] | None = None) -> None:
    """Print the mean of |τ| of each joint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=10 ** 6, help='number of states')
    parser.add_argument('--workers', type=int, default=2, help='processes on this machine')
    parser.add_argument('--scheduler', help="address of a cluster's scheduler, tcp://…")
    options = parser.parse_args(arguments)
    space()  # compiles the kernels, or the workers would all compile them
    rng, k = da.random.default_rng(0), options.count
    q, qd, u = (rng.uniform(-1.0, 1.0, (k, width), chunks=(CHUNK, width)) for width in (7, 7, 6))
    q = q + np.array([0.0, 0.0, 0.0, -1.5, 0.0, 1.5, 0.0])
    machines = nullcontext(options.scheduler) if options.scheduler else LocalCluster(
        n_workers=options.workers, threads_per_worker=1, dashboard_address=':0')
    with machines as cluster, Client(cluster):
        mean = abs(torques(q, qd, u)).mean(axis=0).compute()
    print(f'{k} states in {q.numblocks[0]} chunks, mean |τ| [N m]: {mean.round(2)}')
    pyplot.bar(range(1, 8), mean)
    pyplot.xlabel('joint')
    pyplot.ylabel('mean |τ| [N m]')
    pyplot.savefig('many_machines.png')


if __name__ == '__main__':
    main()
