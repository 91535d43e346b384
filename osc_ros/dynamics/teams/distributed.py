# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The torques of one chain over MPI, for chains too long for one machine.

The kernels are those of a team on one machine (`roles.py`); this module sends their data as
messages. Rank 0 leads, and every rank has the memory of its own segment only: links, state,
torques. All peers are flagged as asleep, so a kernel returns at every exchange. In a call P ranks
exchange

    after phase 1   motion of each segment          25 numbers, gathered by all
    in phase 2      end and forces of each segment  30 numbers, gathered by all
                    response of each segment        136 numbers, along the tree of joins
                    the tip and the task force F    70 numbers, from the leader to all

and make the inward pass without messages. The joins are a tree, ⌈log₂ P⌉ messages deep, as in a
team. As an alternative, each rank could join all segments itself, P - 1 joins on the critical
path: faster for few ranks on a slow network, but not O(log n).

Calls are collective. If one rank refuses its input, all raise InputError, so that no rank waits
for it; any other exception of a rank ends the job, see `together`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fcntl import ioctl
import os
import platform
import stat
import sys
from termios import FIONREAD
from time import perf_counter, sleep
import traceback
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.chain.chain_bodies import (
    A0,
    FORCE,
    packed_robot,
    POSE,
    TIP_WIDTH,
    TWIST,
    WORK_WIDTH,
)
from osc_ros.dynamics.contract.task_state import Tip
from osc_ros.dynamics.segments import roles
from osc_ros.dynamics.segments.roles import commanded_force, follow, lead, lead_back
from osc_ros.dynamics.segments.signals import (
    COMMAND,
    INWARD,
    JOINED,
    JOINS,
    LAST,
    LINE,
    MOVE,
    MOVED,
    NEXT,
    PROGRESS_WIDTH,
    REST,
    RETURNED,
    STAGE,
    STOP,
    WAITING,
    words,
)
from osc_ros.dynamics.segments.slots import (
    END,
    MOTION,
    OUT,
    Q,
    QD,
    QDD,
    RESPONSE,
    SLOT_WIDTH,
    TAU,
    TOTAL,
)
from osc_ros.dynamics.teams.costs import measured_costs
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

Array = NDArray[np.float64]

_TAG = 600  # MPI tag of the messages along the tree
# With its motion, each rank sends a bit mask of the arguments it was given (τ⁰, q̈ₚ, u); NaN if
# its arguments are invalid.
_GIVES_U = 4
_PLAIN = ('give a plain chain: bodies with mass, one after the other, by revolute and '
          'prismatic joints, the tip on the last')


@contextmanager
def together(comm: Intracomm) -> Iterator[None]:
    """End the MPI job with a message if this rank leaves the context by any exception."""
    # SystemExit counts too. Other ranks may be waiting for this one in a collective call. Without
    # this context, only uncaught exceptions end the job, and only after a `Distributed` was
    # constructed.
    try:
        yield
    except BaseException:
        _end(comm, traceback.format_exc())
        raise


def _end(comm: Intracomm, why: str = '') -> None:
    sys.stderr.write(f'{why}rank {comm.rank} of {comm.size} (process {os.getpid()} on '
                     f'{platform.node()}) ends the job\n')
    sys.stderr.flush()
    _await_reader()
    comm.Abort(1)


def _await_reader() -> None:
    """Wait at most 1 s until stderr has been read: mpiexec drops unread text when the job ends."""
    latest = perf_counter() + 1.0
    with suppress(OSError, ValueError):
        words = sys.stderr.fileno()
        while stat.S_ISFIFO(os.fstat(words).st_mode) and perf_counter() < latest:
            if not any(ioctl(words, FIONREAD, bytes(4))):
                return
            sleep(1e-3)


def _end_job_by_uncaught(comm: Intracomm) -> None:
    """Make uncaught exceptions end the job: MPI's finalization would wait for the other ranks."""
    before = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException,
                   trace: TracebackType | None) -> None:
        before(kind, error, trace)
        _end(comm)

    sys.excepthook = excepthook


class Distributed:
    """
    Dynamics of a plain chain over MPI: each rank of a communicator has one segment.

    All ranks call the constructor and the methods, with arguments and results of the rank's own
    bodies, `mine`. Results are reproducible to the bit for the same segments, and differ from
    those of `OperationalSpace` by rounding.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Pass a duplicate if other code receives messages of any source or any tag in it.
    robot : Robot
        The whole chain, on every rank. If it is too long for one rank, use `from_pieces`.
    bodies : sequence of int, optional
        Number of bodies of each rank, from the base. By default rank 0 measures the time per body,
        and all ranks take equally long in a call without τ⁰ and posture acceleration.

    Attributes
    ----------
    n : int
        Number of bodies of the whole chain.
    mine : slice
        Bodies of this rank.

    Raises
    ------
    InputError
        On all ranks, if the robot is not a plain chain, or a rank would have no body.

    """

    def __init__(self, comm: Intracomm, robot: Robot, bodies: Sequence[int] | None = None) -> None:
        ranks = comm.size
        if not robot.serial:
            raise InputError(_PLAIN)
        if ranks > robot.n:
            raise InputError(f'{ranks} ranks for {robot.n} bodies: every rank needs one: give '
                             f'1 to {robot.n} ranks')
        if bodies is None:
            bodies = comm.bcast(
                measured_costs(robot).bodies(robot.n, ranks) if comm.rank == 0 else None)
        if len(bodies) != ranks or min(bodies) < 1 or sum(bodies) != robot.n:
            raise InputError(f'bodies {list(bodies)} for {ranks} ranks and {robot.n} bodies: '
                             f'must be {ranks} numbers from 1, {robot.n} in all')
        first = sum(bodies[:comm.rank])
        links, ends = packed_robot(robot)
        self._begin(comm, links[first:first + bodies[comm.rank]].copy(), ends, bodies)

    @classmethod
    def from_pieces(cls, comm: Intracomm, piece: Robot) -> Distributed:
        """
        Create from pieces of the chain, one for each MPI rank.

        The tip of each piece is the base of the piece on the next rank. If the link where two
        pieces meet has branches, the inner piece, whose tip is this link, must contain them.
        Gravity is that of the first piece. Raises InputError as the constructor does.

        """
        pieces = comm.allgather((piece.serial, piece.n, piece.gravity, piece.T_body_tip))
        for rank, (serial, *_) in enumerate(pieces):
            if not serial:
                raise InputError(f'the piece of rank {rank} cannot be taken: {_PLAIN}')
        T_parent_body = piece.T_parent_body.copy()
        if comm.rank > 0:
            T_parent_body[0] = pieces[comm.rank - 1][3] @ T_parent_body[0]
        links, ends = packed_robot(replace(
            piece, T_parent_body=T_parent_body, gravity=pieces[0][2],
            frames={**piece.frames, piece.tip: (piece.n - 1, pieces[-1][3])}))
        self = cls.__new__(cls)
        self._begin(comm, links, ends, [n for _, n, *_ in pieces])
        return self

    def _begin(self, comm: Intracomm, links: Array, ends: Array, bodies: Sequence[int]) -> None:
        if comm.size > 1:
            _end_job_by_uncaught(comm)
        roles.compile_kernels()
        ranks, m, first = comm.size, len(links), sum(bodies[:comm.rank])
        self.n, self.mine = sum(bodies), slice(first, first + m)
        self._comm, self._rank, self._bodies = comm, comm.rank, bodies
        self._state, self._slots = np.zeros((5, m)), np.zeros((ranks, SLOT_WIDTH))
        self._tip = np.zeros(TIP_WIDTH)
        self._motions, self._all_ends = np.zeros((ranks, 25)), np.zeros((ranks, 30))
        self._force = self._tip[FORCE:FORCE + 6]
        self._progress = np.zeros(PROGRESS_WIDTH, np.int64)
        self._flags = np.zeros(words(ranks), np.int64)
        lines = self._flags.reshape(-1, LINE)
        self._words, asleep = lines[1:1 + ranks], lines[1 + ranks:]
        asleep[:] = 1
        self._words[:, RETURNED] = STOP  # the leader does not wait for the torques of others
        self._arrays = (links, ends, self._state, np.zeros((m, WORK_WIDTH)), self._slots,
                        self._force, self._flags)
        self._place = comm.rank, m, self._progress, 0
        self._tau: Array | None = None
        self._qdd: Array | None = None

    def torque(self, q: ArrayLike, qd: ArrayLike, u: ArrayLike,
               tau_null: ArrayLike | None = None,
               posture_acceleration: ArrayLike | None = None) -> Array:
        """
        Joint torques of this rank's bodies that give the tip the acceleration u.

        Parameters
        ----------
        q, qd, tau_null, posture_acceleration : (m,)
            See `OperationalSpace.torque`, for the m bodies of this rank; all ranks must give the
            same optional arguments.
        u : (6,)
            The u of rank 0 is used.

        Returns
        -------
        (m,) [N·m; N for prismatic]

        Raises
        ------
        InputError
            If shapes do not fit or numbers are not finite. All ranks raise it; but if only the
            torques of some ranks are not finite, only these ranks do.

        """
        self._go_outward(q, qd, tau_null, posture_acceleration, u)
        out = self._go_inward()
        if not np.isfinite(out).all():
            raise InputError('the torque is not finite: the state or u is too large')
        return out

    def outward(self, q: ArrayLike, qd: ArrayLike, tau_null: ArrayLike | None = None,
                posture_acceleration: ArrayLike | None = None) -> Tip:
        """First half of `torque`: pose, twist, Λ⁻¹ and a⁰ of the tip under τ⁰, on every rank."""
        self._go_outward(q, qd, tau_null, posture_acceleration, None)
        tip = self._tip
        return Tip(tip[POSE:TWIST].reshape(4, 4), tip[TWIST:FORCE], tip[:A0].reshape(6, 6),
                   tip[A0:POSE])

    def inward(self, F: ArrayLike) -> Array:
        """
        Return τ⁰ + JᵀF (m,) for the bodies of this rank, after `outward`; sends no messages.

        All ranks must give the same F (6,).

        """
        self._force[:] = finite_array('F', F, (6,))
        return self._go_inward()

    def gather(self, own: ArrayLike) -> Array | None:
        """The arrays (m,) of all ranks as one array (n,) on rank 0; None on the others."""
        whole = np.empty(self.n) if self._rank == 0 else None
        self._comm.Gatherv(finite_array('own', own, self._state[Q].shape),
                           None if whole is None else [whole, (self._bodies, None)])
        return whole

    def _go_outward(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike | None,
                    qdd: ArrayLike | None, u: ArrayLike | None) -> None:
        """Make the outward pass of all ranks; if u is given, compute the task force F too."""
        progress, slots, rank, comm = self._progress, self._slots, self._rank, self._comm
        variant = (tau is not None) + 2 * (qdd is not None)
        value = (int(progress[LAST]) // NEXT + 1) * NEXT + variant
        progress[:] = 0
        progress[STAGE], progress[LAST] = MOVE, value
        refused = None
        try:
            u = self._copy_input(q, qd, tau, qdd, u)
        except InputError as error:
            refused = error
        else:
            status = self._run(self._state[OUT])
        gives = np.nan if refused else variant + _GIVES_U * (u is not None)
        self._exchange_motions(gives, refused)
        if len(slots) > 1:
            slots[:, MOTION] = self._motions[:, :24]
            self._words[:, MOVED] = value
            status = self._run(self._state[OUT])
            self._exchange_ends()
            while status == WAITING:
                other = rank + int(progress[JOINS])
                comm.Recv(slots[other, RESPONSE], other, _TAG)
                self._words[other, JOINED] = value
                status = self._run(self._state[OUT])
            if rank > 0:
                comm.Send(slots[rank, RESPONSE], rank & (rank - 1), _TAG)
        if rank == 0 and u is not None:
            commanded_force(u, self._tip, self._force)
        known = self._tip[:FORCE if u is None else FORCE + 6]
        comm.Bcast(known)
        if not np.isfinite(known).all():
            raise InputError('the motion of the tip, or its force, is not finite: the state or u '
                             'is too large')

    def _copy_input(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike | None,
                    qdd: ArrayLike | None, u: ArrayLike | None) -> Array | None:
        """Copy the state to the memory of the kernels; return u as a contiguous array."""
        given = {'q': (Q, q), 'qd': (QD, qd), 'tau_null': (TAU, tau),
                 'posture_acceleration': (QDD, qdd)}
        for name, (row, values) in given.items():
            if values is not None:
                self._state[row] = finite_array(name, values, self._state[Q].shape)
        self._tau = None if tau is None else self._state[TAU]
        self._qdd = None if qdd is None else self._state[QDD]
        return None if u is None else finite_array('u', u, (6,))

    def _exchange_motions(self, gives: float, refused: InputError | None) -> None:
        """Exchange the motions of the segments between all ranks."""
        # InputError if a rank refused its input, or was called with other optional arguments.
        self._comm.Allgather(np.append(self._slots[self._rank, MOTION], gives), self._motions)
        if refused is not None:
            raise refused
        for rank, word in enumerate(self._motions[:, 24]):
            if np.isnan(word):
                raise InputError(f'rank {rank} has refused what it was given, so nothing is done')
            if word != gives:
                other, own = _argument_names(word), _argument_names(gives)
                raise InputError(f'rank {rank} is given {other}, and rank {self._rank} {own}: '
                                 'give the same of them')

    def _exchange_ends(self) -> None:
        """Exchange the ends of the segments and the forces on them."""
        own, found = self._slots[self._rank], self._all_ends
        self._comm.Allgather(np.append(own[END], own[TOTAL]), found)
        self._slots[:, END], self._slots[:, TOTAL] = found[:, :24], found[:, 24:]

    def _run(self, out: Array) -> int:
        """Run the kernel until the next exchange."""
        kernel, result = (follow, out) if self._rank else (lead, self._tip)
        return int(kernel(self._arrays, self._place, None, self._state[Q], self._state[QD],
                          self._tau, self._qdd, result))

    def _go_inward(self) -> Array:
        """Inward pass: torques (m,) of this rank for the task force in `_force`."""
        progress, out = self._progress, np.empty(self._state.shape[1])
        if self._rank == 0:
            progress[STAGE] = MOVE
            lead_back(self._arrays, self._place, None, self._tau, self._qdd, self._force, out)
        else:
            value = int(progress[LAST])
            self._flags[COMMAND] = (value // NEXT + 1) * NEXT + INWARD + value % INWARD
            progress[STAGE] = REST
            self._run(out)
        return out


def _argument_names(word: float) -> str:
    names = ('tau_null', 'posture_acceleration', 'u')
    return ' and '.join(
        name for bit, name in enumerate(names) if int(word) >> bit & 1) or 'none of them'
