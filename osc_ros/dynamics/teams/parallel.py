"""
A team of processes that evaluates the law of one long chain.

What they compute is in `segments.py`. Here is how they live and wait. The owner of a team is its
member 0 and works too. The others are started once, by 'spawn', and share one block of memory
with it, whose name is gone from the system as soon as all have opened it: nothing is left behind,
whoever dies. In a call nothing is pickled, and nobody enters the operating system unless he has
spun for longer than `Workers.spin`; then he says that he sleeps, looks once more, and waits on a
pipe until he is rung. Since every word is sequentially consistent (`atomic.py`), he sees the word
that he waits for, or whoever wrote it sees that he sleeps.

A member that ends, or is late by more than `Workers.deadline`, costs its team the life: the owner
finishes the call by itself, and a new team is started in the background.

A team can also reduce the papers' block tridiagonal matrix cyclicly (`reduction.py`), to be
compared with what it does otherwise. The same kernels over messages are in `distributed.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import multiprocessing
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory
import os
from selectors import DefaultSelector, EVENT_READ
import signal
import sys
from threading import Thread
from time import perf_counter
import traceback
from typing import Any, NamedTuple
import warnings
import weakref

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.chain.ldl import BLOCK_WIDTH, packed_blocks
from osc_ros.dynamics.chain.sweep import (
    ENDS_WIDTH,
    FORCE,
    jacobian,
    LINK_WIDTH,
    outward,
    packed,
    Sweep,
    TIP_WIDTH,
    WORK_WIDTH,
)
from osc_ros.dynamics.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.teams import segments
from osc_ros.dynamics.teams.reduction import ROW_WIDTH
from osc_ros.dynamics.teams.segments import (
    asleep,
    command,
    commanded_force,
    ELIMINATE,
    FIRST_RUNG,
    follow,
    LAST,
    LAST_RUNG,
    lead,
    lead_back,
    PROGRESS_WIDTH,
    Q,
    QDD,
    REST,
    RING,
    SLOT_WIDTH,
    STAGE,
    START,
    STOP,
    TAU,
    words,
)
from osc_ros.errors import InputError, OscError, WorkerWarning
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]
Words = NDArray[np.int64]

# With τ⁰ or without, with q̈ₚ or without: bit 0 and bit 1.
VARIANTS = range(4)
_LOOKS = 512  # at a word, before the clock is asked: some 10 µs
_PATIENCE = 120.0  # for processes that start, where they have to compile first [s]
_LEAVE = 2.0  # for processes that were told to end [s]
_LATE = 20.0  # times what a call takes alone: no deadline is shorter
_SAMPLE, _REPEATS = 512, 15  # bodies, and times that they are gone over, to know what one costs
_TRIAL = 0.02  # so long 'auto' tries what it has chosen [s]
_SPREAD_EVERY = 5e-3  # how often a team that waits looks whether it shares a core [s]
# 'auto' starts no process where two could not save as much [s]
_LEAST_GAIN = 5e-6

_yielded: Callable[[], object] = getattr(os, 'sched_yield', lambda: None)


@dataclass(frozen=True)
class Workers:
    """
    How many processes evaluate the law, and how they wait for each other.

    Attributes
    ----------
    count : int or 'auto'
        With the process that asks; 'auto' measures which number is fastest, call after call.
    spin : float
        How long a process that waits keeps its core before it sleeps [s]. A team that sleeps
        uses no processor, and takes 50 to 250 µs to wake: a loop whose pauses are longer than
        this pays that in every call.
    deadline : float
        A call that takes longer is finished by the process that asked, and the team replaced [s].
        Never less than twenty times what the call takes one process.

    Raises
    ------
    InputError
        A number that cannot be.

    """

    count: int | str = 'auto'
    spin: float = 2e-4
    deadline: float = 0.25

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.count != 'auto' and (type(self.count) is not int or self.count < 1):
            raise InputError(f"workers {self.count!r}: accepted is 1 or more, or 'auto'")
        for name in ('spin', 'deadline'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'workers: {name} {value!r}, accepted is 0 or more [s]')


@dataclass(frozen=True)
class Plan:
    """
    How the law is evaluated, and why.

    Attributes
    ----------
    workers : int
    reason : str
    bodies : tuple of int
        How many each worker has, base first, in a call without posture.
    faults : tuple of str
        What went wrong with a team so far; it is replaced every time.

    """

    workers: int
    reason: str
    bodies: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line."""
        ended = f'; {len(self.faults)} faults, the last: {self.faults[-1]}' if self.faults else ''
        return f"{self.workers} worker{'s' * (self.workers > 1)}: {self.reason}{ended}"


class Fault(OscError, RuntimeError):
    """A member that does not answer."""


class Costs(NamedTuple):
    """
    Seconds a body, measured.

    Attributes
    ----------
    serial : float
        By the serial sweep.
    place, base, segment : (4,)
        Phase 1, and phase 2 at the base and elsewhere, of every variant.

    """

    serial: float
    place: Array
    base: Array
    segment: Array

    def bounds(self, n: int, members: int) -> NDArray[np.intp]:
        """(4, members + 1): where the bodies of every member begin, so that all take as long."""
        found = np.zeros((4, members + 1), np.intp)
        ratio = self.segment / self.base
        others = members - 1
        base = np.clip(np.rint(n * ratio / (ratio + others)), 1, n - others).astype(np.intp)
        for variant in VARIANTS:
            first = base[variant]
            found[variant, 1:] = first + np.rint(np.linspace(0, n - first, members))
        return found

    def bodies(self, n: int, members: int) -> tuple[int, ...]:
        """How many every member has in a call without posture."""
        return tuple(int(count) for count in np.diff(self.bounds(n, members)[0]))

    def expected(self, n: int, members: int) -> float:
        """Seconds of a call without posture, by this model, waiting left out."""
        base = self.bounds(n, members)[0, 1]
        return float(base * (self.place[0] + self.base[0]))


class _Memory(NamedTuple):
    """What the members share; see `segments`. Of blocks there are none but for the reduction."""

    links: Array
    ends: Array
    blocks: Array
    state: Array
    work: Array
    slots: Array
    force: Array
    flags: Words


_LINE = 8 * segments.LINE


def _shapes(n: int, members: int, reduced: bool) -> list[tuple[int, ...]]:
    return [(n, LINK_WIDTH), (ENDS_WIDTH,), ((n + 1) * reduced, BLOCK_WIDTH), (5, n),
            (n, WORK_WIDTH), (members, SLOT_WIDTH), (6,), (words(members),)]


def _size(shape: tuple[int, ...]) -> int:
    return -(-8 * int(np.prod(shape)) // _LINE) * _LINE


def _memory(buffer: Any, n: int, members: int, reduced: bool) -> _Memory:
    arrays, offset = [], 0
    for shape, kind in zip(_shapes(n, members, reduced), [np.float64] * 7 + [np.int64]):
        arrays.append(np.ndarray(shape, kind, buffer, offset))
        offset += _size(shape)
    return _Memory(*arrays)


class _Bell:
    """
    What wakes a member; `Connection` has its file descriptor, and knows how to send it.

    An eventfd where there is one. A pipe would do, but Linux takes a write to a pipe as a sign
    that the writer is about to sleep, and wakes the reader on the writer's core, which spins.

    """

    def __init__(self) -> None:
        self._counts = hasattr(os, 'eventfd')
        if self._counts:
            self._reader = self._writer = Connection(os.eventfd(0, os.EFD_NONBLOCK))
        else:
            self._reader, self._writer = multiprocessing.Pipe(duplex=False)
            os.set_blocking(self._reader.fileno(), False)
            os.set_blocking(self._writer.fileno(), False)

    def fileno(self) -> int:
        """What becomes readable."""
        return self._reader.fileno()

    def ring(self) -> None:
        """Wake the member; it does no harm if it is awake."""
        try:
            os.write(self._writer.fileno(), (1).to_bytes(8, sys.byteorder))
        except OSError:
            pass  # rung more often than heard, or nobody is left to hear it: others see that

    def hush(self) -> None:
        """Let it not be rung any more."""
        try:
            while os.read(self._reader.fileno(), 8):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give it back."""
        self._reader.close()
        self._writer.close()


class _Member:
    """
    One process's way to wait for the others and to wake them.

    Parameters
    ----------
    flags, k : the words of the team, and the number of this member
    bells : sequence of _Bell
        Of all members.
    guards : sequence
        What becomes ready when waiting has no sense any more.

    """

    def __init__(self, flags: Words, k: int, bells: Sequence[_Bell], guards: Sequence[Any],
                 spin: float) -> None:
        self.progress = np.zeros(PROGRESS_WIDTH, np.int64)
        self.deadline = np.inf
        self.delayed: Callable[[], object] = _yielded  # whom it waits for may be behind it
        self._flags, self._k, self._members = flags, k, len(bells)
        self._bells, self._spin = bells, spin
        self._wakers = DefaultSelector()  # kept, for it takes longer to make one than to wake
        for waker in (bells[k], *guards):
            self._wakers.register(waker, EVENT_READ)

    def run(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """
        Call a kernel of `segments` until it is through.

        Raises
        ------
        Fault
            A guard became ready, or the deadline has passed.

        """
        status = kernel(*arguments)
        return status if status <= NOT_FINITE else self._patiently(status, kernel, arguments)

    def _patiently(self, status: int, kernel: Callable[..., int], arguments: Any) -> int:
        began = since = perf_counter()
        seen, sleepy = b'', False
        while status > NOT_FINITE:
            now = perf_counter()
            if status == RING:
                self.ring(*self.progress[[FIRST_RUNG, LAST_RUNG]])
            elif self.progress.tobytes() != seen:
                seen, since = self.progress.tobytes(), now
            elif now - since < self._spin:
                self.delayed()
            elif not sleepy:
                self.delayed()
                asleep(self._flags, self._members, self._k, 1)
                sleepy = True  # and look once more
            else:
                self._sleep(began + self.deadline - now)
                sleepy, since = False, perf_counter()
            status = kernel(*arguments)
        if sleepy:
            self._wake()
        return status

    def close(self) -> None:
        """Give back what it waits with."""
        self._wakers.close()

    def ring(self, first: int, last: int) -> None:
        """Wake those of the members from first to before last who sleep."""
        for k in range(first, last):
            if asleep(self._flags, self._members, k, 0):
                self._bells[k].ring()

    def _sleep(self, seconds: float) -> None:
        bell = self._bells[self._k]
        ready = self._wakers.select(max(0.0, seconds) if np.isfinite(seconds) else None)
        self._wake()
        if not ready:
            raise Fault(f'no answer within {self.deadline:g} s')
        if any(key.fileobj is not bell for key, _ in ready):
            raise Fault('ended')

    def _wake(self) -> None:
        asleep(self._flags, self._members, self._k, 0)
        self._bells[self._k].hush()  # if it is rung only now, the next sleep is a short one


def _serve(name: str, n: int, k: int, bounds: NDArray[np.intp], bells: Sequence[_Bell],
           report: Connection, spin: float, reduced: bool) -> None:
    """Be member k until the owner says STOP, or has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what it means, the owner decides
    memory = SharedMemory(name)
    try:
        _follow(_memory(memory.buf, n, len(bells), reduced), k, bounds, bells, report, spin)
    except (Fault, EOFError, BrokenPipeError):
        pass  # the owner has ended
    except Exception:
        report.send(traceback.format_exc())
    # nothing is left to be undone, and to take down Python with LLVM takes 0.1 s
    os._exit(0)


def _follow(shared: _Memory, k: int, bounds: NDArray[np.intp], bells: Sequence[_Bell],
            report: Connection, spin: float) -> None:
    owner = multiprocessing.parent_process()
    assert owner is not None
    member = _Member(shared.flags, k, bells, [owner.sentinel], spin)
    reduced = len(shared.blocks) > 0
    segments.compile_kernels(reduced)
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
            shared.force, out, k, member.progress, _LOOKS, matrix))
    member.progress[STAGE] = REST
    report.send('ready')
    while True:
        value = int(shared.flags[segments.COMMAND])  # its order is of no concern: it only grows
        if value == STOP:
            return
        if value > member.progress[LAST]:
            member.progress[LAST] = value
            member.progress[STAGE] = segments.MOVE
        member.run(follow, *arguments[value % segments.INWARD])


def _core(stat: str) -> int:
    """The core that a process or thread was last on, from its file in /proc."""
    with open(stat, 'rb') as file:
        return int(file.read().rsplit(b')', 1)[1].split()[36])


def _spread(processes: Sequence[int]) -> None:
    """
    Move processes that are on this thread's core, or on one another's, to cores without any.

    A scheduler that sees every core busy, or is slow to balance, may leave two on one core, each
    in the other's way, for as long as they run. They may go on from where they are put.

    """
    allowed = os.sched_getaffinity(0)
    taken = {_core('/proc/thread-self/stat')}
    for process in processes:
        core, free = _core(f'/proc/{process}/stat'), allowed - taken
        if core in taken and free:
            core = min(free)
            os.sched_setaffinity(process, {core})
            os.sched_setaffinity(process, allowed)
        taken.add(core)


def _matrix(blocks: Array, bodies: int) -> tuple[Array, Array, Array]:
    """As `segments.lead` has it, for so many bodies at the base."""
    return blocks[:-1], np.empty((bodies, ROW_WIDTH)), blocks[-1]


class Team:
    """
    The processes beside this one, and the memory that they share.

    Parameters
    ----------
    links, ends : from `sweep.packed`
    bounds : (4, members + 1)
        Where the bodies of every member begin, in every variant.
    spin, deadline : float
        As `Workers` has them.
    blocks : (n + 1, BLOCK_WIDTH), optional
        From `ldl.packed_blocks`: for cyclic reduction.

    Raises
    ------
    OscError
        If they do not start.

    """

    def __init__(self, links: Array, ends: Array, bounds: NDArray[np.intp], spin: float,
                 deadline: float, blocks: Array | None = None) -> None:
        n, members, reduced = len(links), bounds.shape[1] - 1, blocks is not None
        context = multiprocessing.get_context('spawn')
        self._block = SharedMemory(create=True,
                                   size=sum(map(_size, _shapes(n, members, reduced))))
        self._processes: list[BaseProcess] = []
        self._reports: list[Connection] = []
        self._bells: list[_Bell] = []
        try:
            self.shared = _memory(self._block.buf, n, members, reduced)
            self.shared.links[:], self.shared.ends[:] = links, ends
            if blocks is not None:
                self.shared.blocks[:] = blocks
            self.shared.flags[:] = 0
            self._bells.extend(_Bell() for _ in range(members))
            for k in range(1, members):
                report, said = context.Pipe(duplex=False)
                process = context.Process(
                    target=_serve, name=f'osc_ros worker {k}', daemon=True,
                    args=(self._block.name, n, k, bounds, self._bells, said, spin, reduced))
                process.start()
                said.close()
                self._processes.append(process)
                self._reports.append(report)
            for report in self._reports:
                self._hear_ready(report)
            self._words = [''] * len(self._processes)
        except BaseException:
            self.close(kill=True)
            raise
        finally:
            self._block.unlink()
        guards = [process.sentinel for process in self._processes]
        self.member = _Member(self.shared.flags, 0, self._bells, guards, spin)
        self.member.deadline = deadline
        self.member.delayed = self._delayed
        self._spread = 0.0
        self._bodies = bounds[:, 1].tolist()
        self._matrix = _matrix(self.shared.blocks, max(self._bodies)) if reduced else None
        self._variant = 0

    def _hear_ready(self, report: Connection) -> None:
        try:
            said = report.recv() if report.poll(_PATIENCE) else 'nothing'
        except EOFError:
            said = ('nothing, and ended (a script that makes a team comes from a file, and does '
                    "so under `if __name__ == '__main__':`, for processes read it again)")
        if said != 'ready':
            raise OscError(f'a worker did not start, it said: {said}')

    def _delayed(self) -> None:
        now = perf_counter()
        if now - self._spread > _SPREAD_EVERY and os.path.exists('/proc/thread-self/stat'):
            self._spread = now
            try:
                _spread(self.pids)
            except OSError:
                pass  # one has ended, which the guards will tell
        else:
            _yielded()

    @property
    def pids(self) -> list[int]:
        """Of the processes beside this one."""
        return [process.pid or 0 for process in self._processes]

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None,
                tip: Array) -> int:
        """As `segments.lead`; raises Fault."""
        self._variant = (tau is not None) + 2 * (qdd is not None)
        shared, member = self.shared, self.member
        return member.run(lead, shared.links, shared.ends, q, qd, tau, qdd,
                          self._bodies[self._variant], shared.state, shared.work, shared.slots,
                          shared.flags, tip, member.progress, _LOOKS, self._matrix)

    def inward(self, F: Array, out: Array) -> int:
        """As `segments.lead_back`; raises Fault."""
        shared, member = self.shared, self.member
        tau, qdd = self.torques
        return member.run(lead_back, shared.links, shared.ends, tau, qdd, F,
                          self._bodies[self._variant], shared.state, shared.force, shared.work,
                          shared.slots, shared.flags, member.progress, _LOOKS, out)

    @property
    def torques(self) -> tuple[Array | None, Array | None]:
        """τ⁰ and q̈ₚ of the last `outward`, in shared memory."""
        return (self.shared.state[TAU] if self._variant & 1 else None,
                self.shared.state[QDD] if self._variant & 2 else None)

    def account(self) -> str:
        """Who of the members has ended, and with what words."""
        told = []
        for k, process in enumerate(self._processes):
            if wait([process.sentinel], 0.0):
                process.join()
                self._words[k] = self._words[k] or self._last_word(self._reports[k])
                told.append(f'{process.name} (process {process.pid}) ended with '
                            f'{self._words[k] or process.exitcode}')
        return '; '.join(told)

    @staticmethod
    def _last_word(report: Connection) -> str:
        try:
            return str(report.recv()).strip().splitlines()[-1] if report.poll() else ''
        except EOFError:
            return ''

    def close(self, kill: bool = False) -> None:
        """End the processes, and give the memory back."""
        if not kill:
            command(self.shared.flags, STOP)
            self.member.ring(1, len(self._processes) + 1)
        for process in self._processes:
            if not kill:
                process.join(_LEAVE)
            if process.exitcode is None:
                process.kill()  # one that is stopped too
            process.join()
            process.close()
        if hasattr(self, 'member'):
            self.member.close()
        for bell in self._bells:
            bell.close()
        for report in self._reports:
            report.close()
        self._processes.clear()
        for name in ('shared', 'member', '_matrix'):
            self.__dict__.pop(name, None)
        try:
            self._block.close()
        except BufferError:
            pass  # a frame of an exception still looks into it: it goes with that frame


class _Keeper:
    """The team of a Parallel: it outlives neither it nor a fault; a new one comes in its place."""

    def __init__(self, start: Callable[[], Team]) -> None:
        self._start = start
        self._thread: Thread | None = None
        self._next: Team | None = None
        self._closed = False
        self._owner = os.getpid()
        self.faults: tuple[str, ...] = ()
        self.team: Team | None = start()

    def ready(self) -> Team | None:
        """The team, a new one as soon as it is there."""
        if self.team is None:
            self.team, self._next = self._next, None
        return self.team

    def replace(self, fault: str) -> None:
        """End the team, start another one in the background, and say why."""
        self.faults += (fault,)
        warnings.warn(f'{fault}: this call is evaluated by one process, and the team is started '
                      'anew', WorkerWarning, stacklevel=2)
        team, self.team = self.team, None
        self._thread = Thread(target=self._restart, args=(team,), daemon=True,
                              name='osc_ros team')
        self._thread.start()

    def _restart(self, team: Team) -> None:
        team.close(kill=True)
        try:
            found = self._start()
        except Exception as error:
            self.faults += (f'the team could not be started anew: {error}',)
            return
        if self._closed:
            found.close()
        else:
            self._next = found

    def close(self) -> None:
        """End everything; in a process that was forked from the owner, nothing."""
        if os.getpid() != self._owner:
            return
        self._closed = True
        if self._thread is not None:
            self._thread.join()
        for team in (self.team, self._next):
            if team is not None:
                team.close()
        self.team = self._next = None


class Parallel(Sweep):
    """
    The sweep of one robot by a team, with the contract of `osc_ros.dynamics.chain.sweep.Sweep`.

    The law, `outward`, `inward` and what is made of them is shared; forward dynamics and batches
    are as there. To be closed, or to be left to the garbage collector.

    Parameters
    ----------
    robot : Robot
    members : int
    workers : Workers
    costs : Costs
    blocks : (n + 1, BLOCK_WIDTH), optional
        From `ldl.packed_blocks`, for the team to reduce them cyclicly.

    """

    def __init__(self, robot: Robot, members: int, workers: Workers, costs: Costs,
                 blocks: Array | None = None) -> None:
        super().__init__(robot)
        segments.compile_kernels(blocks is not None)
        bounds = costs.bounds(robot.n, members)
        deadline = max(workers.deadline, _LATE * robot.n * costs.serial)
        links, ends = self._links, self._ends
        self._keeper = _Keeper(lambda: Team(links, ends, bounds, min(workers.spin, deadline),
                                            deadline, blocks))
        self._led: Team | None = None  # by whom the last outward was
        self._is_factored = False  # whether `factored` is of the last outward
        self._tip_again = np.zeros(TIP_WIDTH)
        self._end = weakref.finalize(self, self._keeper.close)

    def close(self) -> None:
        """End the team; from here on this is the serial sweep."""
        self._take_over()
        self._end()

    @property
    def faults(self) -> tuple[str, ...]:
        """What went wrong with a team so far."""
        return self._keeper.faults

    @property
    def team(self) -> Team | None:
        """The present team; None while there is none."""
        return self._keeper.ready()

    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Joint torques of the law into out; DONE, WRONG_SHAPE or NOT_FINITE."""
        if len(u) != 6 or len(out) != self.robot.n:
            return WRONG_SHAPE
        status = self._outward(q, qd, tau, qdd)
        if status == WRONG_SHAPE:
            return status
        F = self._tip[FORCE:FORCE + 6]
        commanded_force(u, self._tip, F)
        return self._inward(F, out)

    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Λ⁻¹, a⁰, pose and twist under τ⁰; DONE, WRONG_SHAPE or NOT_FINITE."""
        return self._outward(q, qd, tau, qdd)

    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF into out, for the τ⁰ of the last `outward`."""
        self._inward(F, out)

    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        self._led, self._is_factored = self._keeper.ready(), False
        if self._led is not None:
            try:
                self._led.shared.ends[:3] = self.gravity
                return self._led.outward(q, qd, tau, qdd, self._tip)
            except BaseException as error:
                team, self._led = self._led, None
                self._judge(team, error)
        self._is_factored = True
        return super().outward(q, qd, tau, qdd)

    def _inward(self, F: Array, out: Array) -> int:
        if self._led is not None:
            try:
                return self._led.inward(F, out)
            except BaseException as error:
                team = self._led
                self._take_over()
                self._judge(team, error)
        super().inward(F, out)
        return DONE if np.isfinite(out).all() else NOT_FINITE

    def _judge(self, team: Team, error: BaseException) -> None:
        """Replace a team that was left in the middle of a call; what is no fault goes on."""
        if isinstance(error, Fault):
            self._keeper.replace(team.account() or str(error))
            return
        if team.member.progress[STAGE] != START:
            self._keeper.replace(f'a call was interrupted by {type(error).__name__}')
        raise error

    def _take_over(self) -> None:
        """Have alone what the last `outward` of the team found."""
        if self._led is not None:
            self._factor_alone()
            self._work[:] = self._led.shared.work
            self._tau, self._qdd = (None if x is None else x.copy() for x in self._led.torques)
            self._led = None

    def jacobian(self, out: Array) -> None:
        """J (6, n) at the last `outward`, into out."""
        work = self._work if self._led is None else self._led.shared.work
        jacobian(self._links, work, self._tip, out)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """
        M⁻¹(τ + JᵀF) (n,) at the last `outward`, into out [rad/s²].

        The members keep no factors: the first call after an `outward` makes a serial pass.

        """
        self._factor_alone()
        super().acceleration_response(tau, F, out)

    def _factor_alone(self) -> None:
        """Factors at the position of the team's last `outward`, by this process."""
        if self._led is not None and not self._is_factored:
            outward(self._links, self._ends, self._led.shared.state[Q], self._rest, None,
                    self._rest, self._work, self.factored, self._tip_again)
            self._is_factored = True

    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and a force on the tip."""
        self._take_over()
        return super().forward_dynamics(q, qd, tau, F)

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""
        self._take_over()
        return super().apply_M_inv(q, x)


def reducing(robot: Robot, workers: Workers) -> tuple[Sweep, Plan]:
    """Cyclic reduction of a plain chain's matrix, by as many processes as asked for."""
    return _asked(robot, workers, packed_blocks(robot))


def planned(robot: Robot, workers: Workers) -> tuple[Sweep, Plan]:
    """The sweep of a plain chain by so many processes, or by as many as are fastest, and why."""
    if workers.count == 'auto':
        return _fastest(robot, workers)
    if workers.count == 1:
        return Sweep(robot), Plan(1, 'as asked')
    return _asked(robot, workers, None)


def _asked(robot: Robot, workers: Workers, blocks: Array | None) -> tuple[Sweep, Plan]:
    members = min(int(workers.count), robot.n)
    if members == 1:
        return Sweep(robot), Plan(1, 'one body is one segment')
    costs = measured(robot, blocks)
    bodies = costs.bodies(robot.n, members)
    return Parallel(robot, members, workers, costs, blocks), Plan(
        members, ('as asked' if members == workers.count else 'one for each body')
        + f', {bodies[0]} of {robot.n} bodies at the base, about {bodies[-1]} elsewhere, where '
        f'one takes {costs.segment[0] / costs.base[0]:.2f} times as long', bodies)


def _fastest(robot: Robot, workers: Workers) -> tuple[Sweep, Plan]:
    sweep = Sweep(robot)
    call = _law_call(sweep)
    alone = min(call() for _ in range(20))
    cores = (len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity')
             else os.cpu_count() or 1)
    most = min(cores, robot.n)
    if most == 1:
        return sweep, Plan(1, 'there is one core' if cores == 1 else 'one body is one segment')
    if alone / 3.0 < _LEAST_GAIN:
        return sweep, Plan(1, f'a call takes {1e6 * alone:.1f} µs, and two processes would save a '
                           'third of it at most, less than they wait for each other')
    if multiprocessing.current_process().daemon:
        return sweep, Plan(1, 'this is a daemonic process, which may not start others')
    costs = measured(robot)
    members = min(range(2, most + 1), key=lambda count: costs.expected(robot.n, count))
    team = Parallel(robot, members, workers, costs)
    calls = [call, _law_call(team)]
    times = np.array([[one() for one in calls]
                      for _ in range(int(np.clip(_TRIAL / alone, 5, 50)))])
    one, several = 1e6 * np.median(times, axis=0)
    found = f'{several:.0f} µs a call, one alone {one:.0f} µs, on {cores} cores'
    if several < one:
        return team, Plan(members, f'{members} take {found}',
                          costs.bodies(robot.n, members))
    team.close()
    return sweep, Plan(1, f'{members} would take {found}')


def _law_call(sweep: Sweep) -> Callable[[], float]:
    """What calls the law once and says how long it took [s]."""
    q, out = np.zeros(sweep.robot.n), np.zeros(sweep.robot.n)
    u = np.zeros(6)

    def call() -> float:
        started = perf_counter()
        sweep.torque(q, q, u, None, None, out)
        return perf_counter() - started

    return call


def measured(robot: Robot, blocks: Array | None = None) -> Costs:
    """
    What a body costs in every phase, on this machine and now, without starting anything.

    With blocks, from `ldl.packed_blocks`, by cyclic reduction.

    """
    segments.compile_kernels(blocks is not None)
    n = min(robot.n, _SAMPLE)
    links, ends = packed(robot)
    links, x = links[:n], np.zeros(n)
    _, _, _, state, work, slots, force, flags = _memory(
        bytearray(sum(map(_size, _shapes(n, 2, False)))), n, 2, False)
    leader = None if blocks is None else _matrix(blocks, n)
    progress, tip = np.zeros(PROGRESS_WIDTH, np.int64), np.zeros(TIP_WIDTH)

    def prepare(stage: int) -> None:
        flags[:], flags[:3 * segments.LINE] = 0, STOP  # nobody sleeps, and nobody waits
        progress[:] = stage, 0, 0, 0, 0

    def leading(variant: int, m: int, stage: int) -> float:
        tau, qdd = x if variant & 1 else None, x if variant & 2 else None
        prepare(stage)
        started = perf_counter()
        lead(links, ends, x, x, tau, qdd, m, state, work, slots, flags, tip, progress, 0,
             leader)
        return perf_counter() - started

    def following(variant: int, m: int) -> float:
        tau, qdd = x[:m] if variant & 1 else None, x[:m] if variant & 2 else None
        follower = None if leader is None else (leader[0][:m], leader[1][:m], links[0], x[:1])
        prepare(ELIMINATE)
        started = perf_counter()
        follow(links[:m], ends, x[:m], x[:m], tau, qdd, work[:m], slots, flags, force, x[:m], 1,
               progress, 0, follower)
        return perf_counter() - started

    sweep = Sweep(robot)
    call = _law_call(sweep)
    serial = min(call() for _ in range(_REPEATS)) / robot.n
    times = np.array([[(leading(variant, n, START), leading(variant, n, ELIMINATE),
                        leading(variant, 1, ELIMINATE), following(variant, n),
                        following(variant, 1)) for variant in VARIANTS]
                      for _ in range(_REPEATS)]).min(axis=0)
    whole, base, base_one, segment, segment_one = times.T / max(1, n - 1)
    return Costs(serial, whole - base, base - base_one, segment - segment_one)
