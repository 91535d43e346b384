# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Torques of many identical arms.

The state of each controller is a row of numbers; a law loads one row after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.addresses import address_of
from osc_ros.compile.parallel_parts import cores, in_parallel
from osc_ros.control.law import Law
from osc_ros.control.setpoint.motion import PLAN, STATE
from osc_ros.control.setpoint.trajectory import require_rigid
from osc_ros.control.step.many import put_torques
from osc_ros.control.step.places import Places
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.errors import InputError

Array = NDArray[np.float64]

NAMED = 3  # largest number of controllers that an error message names


def _arrays(law: Law) -> tuple[NDArray[Any], ...]:
    """Arrays of the state of a law, and the references of its motions to their pieces."""
    motions = *(one for level in law.setup.levels for one in level.generator.records), law.joints
    return *law.state_arrays(), *(one.references for one in motions)


class Controllers:
    """
    Many controllers of identical arms. Each computes the same torques as a `Law` of its own.

    Each controller has a row of memory with the numbers on which its next torque depends. A
    compiled function copies the row to a law, computes, and copies it back, for one controller
    after the other, in several threads with a law each. The torques are bit-identical to those of
    a `Law`. For commands to a single controller, `one` gives it as a `Law`.

    >>> controllers = Controllers(law, 4096)
    >>> controllers.hold(q)                          # (4096, n)
    >>> controllers.follow(poses)                     # (4096, 4, 4)
    >>> tau = controllers.torque(time, q, qd)         # (4096, n)

    Attributes
    ----------
    n : int
        Number of joints of an arm.

    Parameters
    ----------
    law : Law
        It is copied. Its method of the dynamics must have a compiled step (one of 'sweep',
        'recursive', 'efpa', 'sfa', in this process), and no change of its settings may be in
        progress.
    count : int
        Number k of controllers.
    threads : int, optional
        Default: one for each core that the process may use.

    Raises
    ------
    InputError
        A law without a compiled step or with a change in progress, or numbers below 1.

    """

    def __init__(self, law: Law, count: int, threads: int | None = None) -> None:
        for name, value in (('count', count), ('threads', 1 if threads is None else threads)):
            if not (isinstance(value, int) and value >= 1):
                raise InputError(f'{name} is {value!r}: must be a number from 1 on')
        if not law.is_settled:
            raise InputError(
                f"the law uses method '{law.space.method}', or its settings are changing: "
                'give a law with a compiled step, and wait for the end of a change')
        self._law = law.copied()
        self._threads, self.n = threads or cores(), law.robot.n
        self._placed, self._inside = np.full(count, self._law.is_placed), False
        if not self._law.is_placed:
            self._law.hold(self._law.posture)
        self._setup = self._law.setup
        places = Places(_arrays(self._law))
        self._memory = np.zeros((count, places.size), dtype=np.int64)
        places.store(self._memory[0])
        self._memory[1:] = self._memory[0]
        self._targets = [[places.of(address_of(one.slots)) for one in level.generator.records]
                         for level in self._setup.levels]
        self._seen = {name: places.of(address_of(pose)) for name, pose in zip(
            self._law.levels, self._setup.d.task_pose)}
        self._remembered = [self._law.remembered] * count
        # laws that compute the torques of one controller after the other, each in a thread
        self._laws = [self._law.copied() for _ in range(self._threads)]
        self._workers = [(one.setup.record, Places(_arrays(one)).spans) for one in self._laws]
        self._jumped = np.zeros((count, len(self._setup.levels)), dtype=bool)
        self._unknown, self._found = np.full(self.n, np.nan), np.zeros((2, count), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._memory)

    def __reduce__(self) -> Any:
        """Raise InputError: a copy, or a pickle, would point into the memory of this object."""
        raise InputError('Controllers cannot be copied or pickled: make others of a law')

    # one controller

    def _load(self, i: int) -> Law:
        """Copy the state of controller i to the law, and return the law."""
        Places(_arrays(self._law)).load(self._memory[i])
        self._law.remembered = self._remembered[i]
        for level, has_jumped in zip(self._setup.levels, self._jumped[i]):
            if has_jumped:
                level.generator.note_hold()
        return self._law

    def _store(self, i: int) -> None:
        """Copy the state of the law to controller i."""
        Places(_arrays(self._law)).store(self._memory[i])
        self._remembered[i], self._jumped[i] = self._law.remembered, False

    @contextmanager
    def one(self, i: int) -> Iterator[Law]:
        """
        Context in which the returned law has the state of controller i.

        Use it for commands, and to read results of the controller. Settings and robot are those of
        all controllers and must not be changed here; for others, construct other
        `Controllers`.

        >>> with controllers.one(7) as law:
        ...     law.follow(TwistGoal([0.0, 0.0, 0.0, 0.1, 0.0, 0.0], until=2.0))

        Raises
        ------
        InputError
            The settings were changed: all changes in the context are then discarded. Or the
            context is inside another one.

        """
        if self._inside:
            raise InputError('one of the controllers is in use: use one at a time')
        law, self._inside = self._load(i), True
        try:
            yield law
        finally:
            self._inside = False
            is_same = law.setup is self._setup and law.is_settled
            if is_same:
                self._store(i)
            else:
                law.go_back_to(self._setup)
        if not is_same:
            raise InputError(f'the settings of controller {i} were changed: give '
                             'only commands; its state is as before')

    # all controllers

    def hold(self, q: ArrayLike, which: ArrayLike | None = None) -> None:
        """
        Set targets and posture of controllers to those at their joint positions q, see `Law.hold`.

        Parameters
        ----------
        q : (k, n)
        which : (k,) int or bool, optional
            Indices or mask of the controllers; default: all.

        Raises
        ------
        InputError
            Shapes that do not fit, or numbers that are not finite.

        """
        chosen = self._chosen(which)
        for i, one in zip(chosen, finite_array('q', q, (len(chosen), self.n))):
            with self.one(i) as law:
                law.hold(one)
        self._placed[chosen] = True

    def follow(self, poses: ArrayLike, task: str | None = None, which: ArrayLike | None = None
               ) -> None:
        """
        Command a goal pose for a task of each controller, see `Law.follow`.

        This is quick if the `TargetLimits` of the task are infinite, so that targets jump. With
        finite limits a motion is planned for each controller.

        Parameters
        ----------
        poses : (k, 4, 4)
        task : str, optional
            Name of the task; default: the first one.
        which : (k,) int or bool, optional
            Indices or mask of the controllers; default: all.

        Raises
        ------
        InputError
            Shapes that do not fit; invalid poses; an unknown task; the arms are in free drive.

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
        _put_holds(self._memory.view(np.float64), self._targets[k], chosen, goals)
        self._jumped[chosen, k] = True

    def torque(self, time: ArrayLike, q: ArrayLike, qd: ArrayLike, out: Array | None = None
               ) -> Array:
        """
        Joint torques (k, n) [N·m] for the states of all controllers, see `Law.torque`.

        The first call does `hold` for the controllers for which it was not called, as `Law.torque`
        does.

        Parameters
        ----------
        time : float or (k,)
            Stamps of the states [s].
        q, qd : (k, n)
        out : (k, n), optional
            Array for the torques.

        Raises
        ------
        InputError
            Shapes that do not fit. Numbers that are not finite: the torques of their controllers
            are NaN; all other controllers have processed the state, and `out` has their torques.

        """
        count = len(self)
        shape = count, self.n
        q, qd = (np.ascontiguousarray(one, dtype=np.float64) for one in (q, qd))
        times = np.ascontiguousarray(np.broadcast_to(
            np.asarray(time, dtype=np.float64), (count,)))
        tau = np.empty(shape) if out is None else out
        for name, one in (('q', q), ('qd', qd), ('out', tau)):
            if one.shape != shape or one.dtype != np.float64 or not one.flags.c_contiguous:
                raise InputError(f'{name} is of {one.dtype}, of shape {one.shape}: give '
                                 f'numbers of shape {shape}, one after the other in memory')
        if np.shares_memory(tau, q) or np.shares_memory(tau, qd):
            raise InputError('out is q or qd: give an array of its own')
        if not np.isfinite(times).all():
            raise InputError('a time is not finite: give finite numbers [s]')
        if not self._placed.all():
            self.hold(q[~self._placed], ~self._placed)
        states = times, q, qd, self._unknown

        def compute(first: int, last: int) -> None:
            worker = self._workers.pop()  # each thread uses another one
            try:
                put_torques(worker, self._memory, states, tau, self._found, first, last)
            finally:
                self._workers.append(worker)

        in_parallel(count, compute, self._threads, 'controllers')
        self._finish(q, qd, tau)
        return tau

    def _finish(self, q: Array, qd: Array, tau: Array) -> None:
        """Plan targets in Python where necessary, and raise for controllers without torques."""
        errors: list[str] = []
        codes, asks = self._found
        for i in np.flatnonzero((codes < 0) | (asks > 0)).tolist():
            with self.one(i) as law:
                for do in law.plan, partial(law.require, int(codes[i]), q[i], qd[i]):
                    try:
                        do()
                    except InputError as error:
                        errors.append(f'controller {i}: {error}')
                if codes[i] < 0:
                    tau[i] = np.nan
        if errors:
            more = len(errors) - NAMED
            raise InputError('; '.join(errors[:NAMED]) + (
                f'; and {more} others' if more > 0 else ''))

    def poses(self, task: str | None = None) -> Array:
        """Poses (k, 4, 4) of the link of a task at the last states; default: of the first task."""
        at = self._seen[self._law.level(task).task.name]
        return self._memory.view(np.float64)[:, at:at + 16].reshape(-1, 4, 4).copy()

    def _chosen(self, which: ArrayLike | None) -> NDArray[np.intp]:
        try:
            return np.atleast_1d(np.arange(len(self))[... if which is None else np.asarray(which)])
        except IndexError as error:
            raise InputError(f'which: {error}; give indices below {len(self)}') from None


def _put_holds(memory: Array, places: list[int], rows: NDArray[np.intp], poses: Array) -> None:
    """Make poses (k, 4, 4) the targets of many set-point generators, from the next tick on."""
    # Written to `memory` (m, …), which has a row for each generator. `places`: columns at which
    # its records PLAN and STATE begin; `rows` (k,): indices of the generators.
    for begin, table, names, value in (
            (places[0], PLAN, ('pose',), poses.reshape(-1, 16)),
            (places[0], PLAN, ('begin', 'event', 'until', 'wakes'), np.inf),
            (places[0], PLAN, ('kind', 'clamped', 'rejoins'), 0.0),  # HOLD and False are 0
            (places[1], STATE, ('late', 'stops', 'is_open', 'went_back'), 0.0)):
        for name in names:
            first, count = table.place_of(name)
            memory[rows, begin + first:begin + first + count] = value
