# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Evaluation of many states whose arrays are on a GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from osc_ros.compile.cuda.device_kernels import cuda, require_gpu
from osc_ros.dynamics.batch.batches import Torques
from osc_ros.dynamics.batch.device_arrays import device_view, library_of, number_of
from osc_ros.dynamics.contract.method import Method, States, Terms
from osc_ros.errors import InputError


class GpuBatch:
    """Validates k states of a user on one GPU, and evaluates them on the caller's stream."""

    # `m`: number of task accelerations, 6 for each tip. InputError as of `device_view`, and if the
    # method has no kernels for a GPU; OscError if there is no usable GPU.

    def __init__(self, dynamics: Method, states: States, m: int) -> None:
        require_gpu()
        self._robot = dynamics.robot
        self._number = number_of('q', states.q)
        self._library = library_of(states.q)
        self._device = self._library.device
        shape, n = tuple(states.q.shape), self._robot.n
        self.k = shape[0] if len(shape) == 2 else 1
        arguments = (('q', self._robot.nq), ('qd', n), ('gravity', 3), ('u', m), ('tau_null', n),
                     ('posture_acceleration', n))
        with self._on_device():
            self._states = States._make([
                *(None if values is None else self._view(name, values, (self.k, width))
                  for (name, width), values in zip(arguments, states)), None])
            self._method = dynamics.on_gpu(self._number, self._device)

    def torques(self, out: Any, check: bool) -> Torques:
        """Return the torques; see `Batches.torque_batch`."""
        shape = (self.k, self._robot.n)
        with self._on_device():
            found = Torques(self._library.empty(shape, self._number) if out is None else out,
                            self._library.empty(shape[:1], np.bool_))
            valid = self._view('valid', found.valid, shape[:1], np.bool_)
            stream = self._library.stream()
            self._method.torque_batch(self._states, self._view('out', found.tau, shape), valid,
                                      stream)
            self._finish(valid, stream, check)
        return found

    def terms(self, chosen: Collection[str], out: Terms | None, check: bool) -> Terms:
        """Return the terms; see `Batches.evaluate_batch`."""
        shapes = [values.shape for values in Terms.empty(self._robot, 0, chosen)]
        rows = [self.k if name in chosen else 0 for name in Terms._fields[:-1]] + [self.k]
        numbers = [self._number] * len(shapes[:-1]) + [np.bool_]
        full = [(count, *shape[1:]) for count, shape in zip(rows, shapes)]
        if not (out is None or isinstance(out, Terms)):
            raise InputError(f'out is a {type(out).__name__}: give the Terms of an earlier '
                             'call')
        with self._on_device():
            found = Terms._make(map(self._library.empty, full, numbers)) if out is None else out
            views = Terms._make(
                self._view(f'out.{name}', values, shape, number)
                for name, values, shape, number in zip(Terms._fields, found, full, numbers))
            stream = self._library.stream()
            self._method.evaluate_batch(self._states, views, stream)
            self._finish(views.valid, stream, check)
        return found

    def _view(self, name: str, values: Any, shape: tuple[int, ...], number: Any = None) -> Any:
        return device_view(name, values, shape, number or self._number, self._device)

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        with cuda.gpus[self._device]:
            yield

    def _finish(self, valid: Any, stream: Any, check: bool) -> None:
        """Call `Library.finish`; with `check`, raise InputError for a state that is not valid."""
        self._library.finish(stream)
        if not check or self.k == 0:
            return
        is_good = valid.copy_to_host(stream=stream)
        stream.synchronize()
        if not is_good.all():
            raise InputError(f'state {int(np.argmin(is_good))} is not finite, or its result is '
                             'not: the state or u is too large, or M is singular')
