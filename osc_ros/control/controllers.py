# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Many controllers of arms of one kind: copies of the arrays of a law, in one array."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.checkpoint import dumped, loaded
from osc_ros.control.guide import put_holds
from osc_ros.control.law import Law
from osc_ros.control.law_step import law_torque, put_torques
from osc_ros.control.places import NUMBER, Places
from osc_ros.control.task_numbers import SEEN
from osc_ros.control.trajectory import require_rigid
from osc_ros.dynamics.addresses import address_of, entry_of
from osc_ros.dynamics.arrays import finite_array
from osc_ros.dynamics.parallel_parts import in_parallel
from osc_ros.errors import InputError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

NAMED = 3  # controllers that an error names


class Controllers:
    """
    Many controllers of arms of one kind. Each computes the same torques as a `Law` of its own.

    Each controller has a copy of the arrays of one law. One compiled function computes the torques
    of all controllers, in several threads; they are those of a `Law` to the last bit. A single
    controller takes the commands of a `Law`, see `one`.

    >>> controllers = Controllers(law, 4096)
    >>> controllers.latch(q)                          # (4096, n)
    >>> controllers.follow(poses)                     # (4096, 4, 4)
    >>> tau = controllers.torque(time, q, qd)         # (4096, n)

    Attributes
    ----------
    n : int
        Number of joints of an arm.

    Parameters
    ----------
    law : Law
        It is copied; its method of the dynamics must have a compiled step ('sweep' or 'tree', in
        this process), and no change of its settings may be in progress.
    count : int
        Number k of controllers.
    threads : int, optional
        Default: one for each core that the process may use.

    Raises
    ------
    InputError
        Such a law, or numbers below 1.

    """

    def __init__(self, law: Law, count: int, threads: int | None = None) -> None:
        for name, value in (('count', count), ('threads', 1 if threads is None else threads)):
            if not (isinstance(value, int) and value >= 1):
                raise InputError(f'{name} is {value!r}: accepted is a number from 1 on')
        if not law.is_settled:
            raise InputError(
                f"the law uses method '{law.space.method}', or its settings are changing: "
                'accepted is a law with a compiled step, after a change and its blend')
        self._law: Law = loaded(dumped(law))
        self._threads, self.n = threads, law.robot.n
        self._placed, self._inside = np.full(count, self._law.has_tick), False
        if not self._law.has_tick:
            self._law.latch(self._law.posture)
        self._setup = self._law.setup
        table = self._law.table()
        self._places = Places([*((start, size) for start, size in table[:-1].tolist()),
                               *((start, 3) for start in self._setup.gravities.tolist())])
        guides = [record for level in self._setup.levels for record in level.guide.records]
        starts = np.cumsum([self._places.size, *map(len, guides)]).tolist()
        self._guides = [slice(*pair) for pair in zip(starts, starts[1:])]
        self._memory = np.zeros((count, starts[-1]), dtype=np.int64)
        self._point(table)
        self._python = [self._objects()] * count
        self._jumped = np.zeros((count, len(self._setup.levels)), dtype=bool)
        self._unknown, self._found = np.full(self.n, np.nan), np.zeros((2, count), dtype=np.int64)
        for i in range(count):
            self._store(i)

    def __len__(self) -> int:
        """Return the number of controllers."""
        return len(self._memory)

    def __reduce__(self) -> Any:
        """Raise: a copy, or a pickle, would point into the memory of this object."""
        raise InputError('Controllers cannot be copied or pickled: accepted is to make others of '
                         'a law')

    def _point(self, table: Integers) -> None:
        """Make the tables of all controllers, and the addresses in their memory."""
        count, width = self._memory.shape
        bases = address_of(self._memory) + NUMBER * width * np.arange(count)
        self._tables = np.repeat(table[None], count, axis=0)
        for k, (start, size) in enumerate(table[:-1].tolist()):
            if size:
                self._tables[:, k, 0] = bases + NUMBER * self._places.of(start)
        # columns of the memory with addresses (of copies of gravity, of records of targets), and
        # the addresses for each controller
        arrays = self._setup.gravities, self._setup.guides
        self._stand = np.concatenate([self._places.of(address_of(one)) + np.arange(one.size)
                                      for one in arrays])
        targets = [*map(self._places.of, arrays[0].tolist()),
                   *(where.start for where in self._guides)]
        self._own = bases[:, None] + NUMBER * np.array(targets)

    # one controller

    def _objects(self) -> list[tuple[Any, dict[str, Any]]]:
        """Copies of the attributes of the objects of the law."""
        return [(one, dict(vars(one))) for one in self._law.objects()]

    def _load(self, i: int) -> Law:
        """Copy the state of a controller to the law, and return the law."""
        for one, attributes in self._python[i]:
            vars(one).clear()
            vars(one).update(attributes)
        gravities, row, where = self._setup.gravities.copy(), self._memory[i], iter(self._guides)
        self._places.load(row)
        self._setup.gravities[:] = gravities
        for level, has_jumped in zip(self._setup.levels, self._jumped[i]):
            for record in level.guide.records:
                record.view(np.int64)[:] = row[next(where)]
            level.guide = level.guide  # writes its addresses
            if has_jumped:
                level.guide.note_hold()
        self._jumped[i] = False
        if self._found[0, i] > 0:
            self._law.note(int(self._found[0, i]))
        return self._law

    def _store(self, i: int) -> None:
        """Copy the state of the law to a controller."""
        row, where = self._memory[i], iter(self._guides)
        self._places.store(row)
        for level in self._setup.levels:
            for record in level.guide.records:
                row[next(where)] = record.view(np.int64)
        row[self._stand] = self._own[i]
        self._python[i] = self._objects()

    @contextmanager
    def one(self, i: int) -> Iterator[Law]:
        """
        Within this context, the law that is returned has the state of controller i.

        Use it for commands, and to read what the controller has computed.

        Its settings and its robot stay those of all; make other `Controllers` for other ones.

        >>> with controllers.one(7) as law:
        ...     law.follow(Jog([0.0, 0.0, 0.0, 0.1, 0.0, 0.0], until=2.0))

        Raises
        ------
        InputError
            The settings were changed: then nothing of what was done in the context remains. Or
            this is within such a context.

        """
        if self._inside:
            raise InputError('one of the controllers is in use: accepted is one at a time')
        law, self._inside = self._load(i), True
        try:
            yield law
        finally:
            self._inside = False
            if law.setup is self._setup and law.is_settled:
                self._store(i)
        if law.setup is not self._setup or not law.is_settled:
            raise InputError(f'the settings of controller {i} were changed: accepted are '
                             'commands; its state is as before')

    # all controllers

    def latch(self, q: ArrayLike, which: ArrayLike | None = None) -> None:
        """
        Set targets and posture of controllers to those at their positions, see `Law.latch`.

        Parameters
        ----------
        q : (k, n)
        which : (k,) int or bool, optional
            Which controllers; all if not given.

        Raises
        ------
        InputError
            Other shapes, numbers that are not finite.

        """
        chosen = self._chosen(which)
        for i, one in zip(chosen, finite_array('q', q, (len(chosen), self.n))):
            with self.one(i) as law:
                law.latch(one)
        self._placed[chosen] = True

    def follow(self, poses: ArrayLike, task: str | None = None, which: ArrayLike | None = None
               ) -> None:
        """
        Give each controller a goal pose for one of its tasks, see `Law.follow`.

        This is quick if the `TargetLimits` of the task are infinite, so that targets jump. With
        finite limits a motion is planned for each controller.

        Parameters
        ----------
        poses : (k, 4, 4)
        task : str, optional
            Name of the task; the first one if not given.
        which : (k,) int or bool, optional
            Which controllers; all if not given.

        Raises
        ------
        InputError
            Other shapes, poses that are none; an unknown task; free drive.

        """
        chosen, level = self._chosen(which), self._law.level(task)
        goals = finite_array('poses', poses, (len(chosen), 4, 4))
        require_rigid('poses', goals)
        k = self._setup.levels.index(level)
        if level.task.limits.smooth or self._setup.settings.free is not None:
            for i, goal in zip(chosen, goals):
                with self.one(i) as law:
                    law.follow(goal, task=task)
            return
        memory = self._memory.view(np.float64)
        put_holds(memory, self._guides[2 * k], self._guides[2 * k + 1], chosen, goals)
        self._jumped[chosen, k] = True

    def torque(self, time: ArrayLike, q: ArrayLike, qd: ArrayLike, out: Array | None = None
               ) -> Array:
        """
        Joint torques (k, n) [N·m] for the states of all controllers, see `Law.torque`.

        The first call latches controllers that have not been latched, as `Law.torque` does.

        Parameters
        ----------
        time : float or (k,)
            Stamps of the states [s].
        q, qd : (k, n)
        out : (k, n), optional
            Gets the torques.

        Raises
        ------
        InputError
            Other shapes. Numbers that are not finite: then the torques of these controllers are
            NaN; the others have taken the state, and their torques are in `out`.

        """
        count = len(self)
        shape = count, self.n
        q, qd = (np.ascontiguousarray(one, dtype=np.float64) for one in (q, qd))
        times = np.ascontiguousarray(np.broadcast_to(
            np.asarray(time, dtype=np.float64), (count,)))
        tau = np.empty(shape) if out is None else out
        for name, one in (('q', q), ('qd', qd), ('out', tau)):
            if one.shape != shape or one.dtype != np.float64 or not one.flags.c_contiguous:
                raise InputError(f'{name} is of {one.dtype}, of shape {one.shape}: accepted are '
                                 f'numbers of shape {shape}, one after the other in memory')
        if np.shares_memory(tau, q) or np.shares_memory(tau, qd):
            raise InputError('out is q or qd: accepted is an array of its own')
        if not np.isfinite(times).all():
            raise InputError('a time is not finite: accepted are finite numbers [s]')
        if not self._placed.all():
            self.latch(q[~self._placed], ~self._placed)
        states = times, q, qd, self._unknown
        in_parallel(count, lambda first, last: put_torques(
            entry_of(law_torque), self._tables, states, tau, self._found, first, last),
            self._threads, 'controllers')
        self._finish(times, q, qd, tau)
        return tau

    def _finish(self, times: Array, q: Array, qd: Array, tau: Array) -> None:
        """Let Python compute the torques that compiled code has left to it, and plan targets."""
        errors: list[str] = []
        codes, asks = self._found
        for i in np.flatnonzero((codes < 0) | (asks > 0)).tolist():
            with self.one(i) as law:
                try:
                    if codes[i] < 0:
                        law.prepare(int(codes[i]))
                        tau[i] = law.torque(float(times[i]), q[i], qd[i])
                    law.plan()
                except InputError as error:
                    errors.append(f'controller {i}: {error}')
                    if codes[i] < 0:
                        tau[i] = np.nan
        if errors:
            more = len(errors) - NAMED
            raise InputError('; '.join(errors[:NAMED]) + (
                f'; and {more} others' if more > 0 else ''))

    def poses(self, task: str | None = None) -> Array:
        """Poses (k, 4, 4) of the link of a task, or of the first one, at the last states."""
        at = self._places.of(address_of(self._law.level(task).numbers)) + SEEN
        return self._memory.view(np.float64)[:, at:at + 16].reshape(-1, 4, 4).copy()

    def _chosen(self, which: ArrayLike | None) -> NDArray[np.intp]:
        try:
            return np.atleast_1d(np.arange(len(self))[... if which is None else np.asarray(which)])
        except IndexError as error:
            raise InputError(f'which: {error}; accepted are indices below {len(self)}') from None
