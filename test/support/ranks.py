# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""MPI ranks of test_distributed.py: `mpiexec -n P python ranks.py FOLDER FUNCTION …`."""

import os
from pathlib import Path
import pickle
import signal
import sys

from mpi4py import MPI
import numpy as np

from osc_ros.dynamics.teams.distributed import Distributed, together
from osc_ros.errors import InputError


def law(comm, cases):
    """Return the results of three ways to distribute the chain, for each case, on rank 0."""
    found = []
    for robot, pieces, state in cases:
        ways = [Distributed(comm, robot, bodies=[piece.n for piece in pieces]),
                Distributed.from_pieces(comm, pieces[comm.rank]), Distributed(comm, robot)]
        found.append([answers(way, *state) for way in ways])
    return found


def answers(space, q, qd, u, tau, qdd):
    """Return [pose, twist, Λ⁻¹, a0, torque, inward] for four variants, computed twice."""
    mine, found = space.mine, []
    for tau0, qdd0 in 2 * [(None, None), (tau, None), (None, qdd), (tau, qdd)]:
        own = [None if x is None else x[mine] for x in (tau0, qdd0)]
        torque = space.torque(q[mine], qd[mine], u, *own)
        tip = space.outward(q[mine], qd[mine], *own)
        known = [x.copy() for x in (tip.pose, tip.twist, tip.Lambda_inv, tip.a0)]
        space.inward(u)
        found.append([*known, *map(space.gather, (torque, space.inward(2.0 * u)))])
    return found


def leaning(comm, cases):
    """Return the first chain, distributed unevenly, and q, qd, u of this rank's bodies."""
    (robot, _, (q, qd, u, *_)), *_ = cases
    space = Distributed(comm, robot, bodies=[robot.n - comm.size + 1] + [1] * (comm.size - 1))
    return space, q[space.mine], qd[space.mine], u


def refusals(comm, cases):
    """Return, on rank 0, the error texts of every rank when the last rank gets invalid input."""
    space, q, qd, u = leaning(comm, cases)
    last = comm.rank == comm.size - 1

    def heard(*given):
        before = space.torque(q, qd, u)
        try:
            space.torque(*given)
        except InputError as error:
            np.testing.assert_array_equal(space.torque(q, qd, u), before)
            return str(error)

    told = [heard(q[1:] if last else q, qd, u), heard(q, np.nan * qd if last else qd, u),
            heard(q, qd, u, qd if last else None), heard(q, 1e300 * qd, u)]
    try:
        space.torque(q, qd, u) if last else space.outward(q, qd)
    except InputError as error:
        told.append(str(error))
    return comm.gather(told)


def constructors(comm, cases):
    """Return, on rank 0, the error texts of every rank for two invalid numbers of bodies."""
    (robot, _, _), *_ = cases
    told = []
    for bodies in ([1] * comm.size, [robot.n, 0] + [0] * (comm.size - 2)):
        try:
            Distributed(comm, robot, bodies)
        except InputError as error:
            told.append(str(error))
    return comm.gather(told)


def fails(comm, cases, how):
    """Call the law in a loop; after 100 calls, the last rank fails by `how()`."""
    space, q, qd, u = leaning(comm, cases)
    calls = 0
    while True:
        if comm.rank == comm.size - 1 and calls == 100:
            how()
        space.torque(q, qd, u)
        calls += 1


def raises(comm, cases):
    """The last rank raises an exception."""
    def how():
        raise RuntimeError('no measurement of joint 7')
    fails(comm, cases, how)


def exits(comm, cases):
    """The last rank exits before its first call, while the others wait for it."""
    with together(comm):
        if comm.rank == comm.size - 1:
            sys.exit('no robot')
        leaning(comm, cases)


def killed(comm, cases):
    """The last rank sends itself SIGKILL."""
    fails(comm, cases, lambda: os.kill(os.getpid(), signal.SIGKILL))


def main(folder, *tasks):
    """Run the named functions on every rank; rank 0 writes the results to a file."""
    comm, cases = MPI.COMM_WORLD, pickle.loads((folder / 'cases').read_bytes())
    found = {task: globals()[task](comm, cases) for task in tasks}
    if comm.rank == 0:
        (folder / 'found').write_bytes(pickle.dumps(found))


if __name__ == '__main__':
    main(Path(sys.argv[1]), *sys.argv[2:])
