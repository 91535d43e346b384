# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The functions of `OperationalSpace` for many states in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.algebra import arrays
from osc_ros.dynamics.algebra.arrays import float_array, require_output, row_count
from osc_ros.dynamics.batch.payloads import Payloads
from osc_ros.dynamics.contract.method import EVALUATED, Method, States, Terms
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

TERMS = (*EVALUATED, 'a0')


class Torques(NamedTuple):
    """
    Torques at k states.

    Attributes
    ----------
    tau : (k, n) [N·m; N for prismatic]
        A row of NaN where not `valid`.
    valid : (k,) bool
        False where a number of the state, or of the torque, is not finite.

    """

    tau: Array
    valid: NDArray[np.bool_]


class Batches:
    """
    The part of `OperationalSpace` that evaluates many states in one call.

    Methods 'sweep' (plain chains), 'recursive', 'efpa' and 'sfa' evaluate several states at once
    in the vector registers of the processor, in a thread for each core; the others evaluate one
    state after the other. The result of a state depends neither on the rest of the batch nor on
    the number of threads. The first call compiles kernels, in up to a minute, or loads them from
    the cache.

    Arrays on a GPU (of PyTorch, CuPy, JAX or Numba; contiguous; all float64 or all float32) are
    evaluated there, with method 'sweep': nothing is copied, the kernels run on the caller's
    stream, and the results are new arrays of the library of `q`. The package extra `cuda` is
    required.

    Attributes
    ----------
    threads : int, optional
        Number of threads of a batch; default: one for each core that the process may use.

    """

    threads: int | None = None
    robot: Robot
    _dynamics: Method
    _task: tuple[int]
    _is_located: bool

    def torque_batch(self, q: ArrayLike, qd: ArrayLike, u: ArrayLike,
                     tau_null: ArrayLike | None = None,
                     posture_acceleration: ArrayLike | None = None, *,
                     gravity: ArrayLike | None = None, payloads: Payloads | None = None,
                     out: Array | None = None, check: bool = False) -> Torques:
        """
        Torques of `torque`, without damping, at k states.

        Parameters
        ----------
        q, qd : (k, nq) [rad, m], (k, n) [rad/s, m/s]
        u : (k, 6 m)
            Accelerations of the tips, base axes, [angular; linear] [rad/s², m/s²].
        tau_null, posture_acceleration : (k, n), optional
            See `torque`.
        gravity : (k, 3), optional
            Gravity of each state in the base frame [m/s²]; default: `gravity` for all.
        payloads : Payloads, optional
            Payload of each state, in addition to the payloads of the robot.
        out : (k, n), optional
            float64 and contiguous; written, and returned as `tau`.
        check : bool, optional
            If True, raise InputError with the index of the first state that is not valid. On a GPU
            the call then waits for the result.

        Raises
        ------
        InputError
            If shapes do not fit, a payload is impossible, or only some arrays are on a GPU; if the
            method accepts no payloads (only 'sweep', 'recursive', 'efpa' and 'sfa' do); on a GPU,
            if payloads are given or the method has no kernels for it; with `check`, if a state is
            not valid.
        OscError
            If arrays are on a GPU, but there is no usable GPU, or numba-cuda is not installed.

        """
        given = States(q, qd, gravity, u, tau_null, posture_acceleration)  # type: ignore[arg-type]
        on_gpu = self._on_gpu(given, payloads)
        if on_gpu is not None:
            found: Torques = on_gpu.torques(out, check)
            return found
        k, n = row_count('q', q), self.robot.n
        states = self._states(k, q, qd, gravity, payloads)._replace(
            u=float_array('u', u, (k, *self._task)),
            tau=None if tau_null is None else float_array('tau_null', tau_null, (k, n)),
            qdd=None if posture_acceleration is None else float_array(
                'posture_acceleration', posture_acceleration, (k, n)))
        if out is None:
            out = np.empty((k, n))
        else:
            require_output(out, (k, n))
        found = Torques(out, np.ones(k, dtype=bool))
        self._dynamics.torque_batch(states, *found, self.threads)
        self._judge(states, found, check)
        return found

    def evaluate_batch(self, q: ArrayLike, qd: ArrayLike, terms: Sequence[str] = EVALUATED, *,
                       gravity: ArrayLike | None = None, payloads: Payloads | None = None,
                       out: Terms | None = None, check: bool | None = None) -> Terms:
        """
        Terms of the operational-space equations at k states.

        Parameters
        ----------
        q, qd : (k, nq), (k, n)
        terms : sequence of str, optional
            Names of attributes of `Terms` to compute; the arrays of the others have no rows. 'a0'
            is the acceleration of the tips under τ⁰ = 0.
        gravity, payloads : optional
            See `torque_batch`.
        out : Terms, optional
            Result of an earlier call for k states and the same terms; written and returned.
        check : bool, optional
            If False, a state that is not finite gives terms that are NaN, and False in `valid`.
            Default: True; on a GPU False, because the call would wait for the result.

        Raises
        ------
        InputError, OscError
            As in `torque_batch`; also InputError for unknown terms.

        """
        chosen = (terms,) if isinstance(terms, str) else tuple(terms)
        for name in chosen:
            if name not in TERMS:
                raise InputError(f"term '{name}' is unknown (known: {', '.join(TERMS)})")
        on_gpu = self._on_gpu(States(q, qd, gravity), payloads)  # type: ignore[arg-type]
        if on_gpu is not None:
            terms_there: Terms = on_gpu.terms(chosen, out, bool(check))
            return terms_there
        k = row_count('q', q)
        states = self._states(k, q, qd, gravity, payloads)
        found = Terms.empty(self.robot, k, chosen)
        if out is not None:
            self._require_terms(out, found)
            found = out
        self._dynamics.evaluate_batch(states, found, self.threads)
        self._judge(states, found, check is not False)
        return found

    def _on_gpu(self, given: States, payloads: Payloads | None) -> Any:
        """The states as a `GpuBatch` if one of the arrays is on a GPU, else None."""
        if not any(map(arrays.is_on_gpu, given)):
            return None
        if not arrays.is_on_gpu(given.q):
            raise InputError('q is in the memory of the host, other arrays are on a GPU: give '
                             'all on one side')
        if payloads is not None:
            raise InputError('payloads: on a GPU give one robot for all states, as of '
                             'Robot.with_payload')
        from osc_ros.dynamics.batch.device_batches import GpuBatch

        self._is_located = False
        return GpuBatch(self._dynamics, given, *self._task)

    @staticmethod
    def _require_terms(out: Terms, found: Terms) -> None:
        if not isinstance(out, Terms):
            raise InputError(f'out is a {type(out).__name__}: give the Terms of an earlier '
                             'call')
        for name, values, given in zip(Terms._fields, found, out):
            if given.shape != values.shape:
                raise InputError(f'out.{name} has shape {given.shape}, must be '
                                 f'{values.shape}, as of an earlier call with these terms')
        for values in out[:-1]:
            require_output(values, values.shape)

    def _states(self, k: int, q: ArrayLike, qd: ArrayLike, gravity: ArrayLike | None,
                payloads: Payloads | None) -> States:
        if not (self.threads is None or isinstance(self.threads, int) and self.threads >= 1):
            raise InputError(f'threads is {self.threads!r}: must be a number from 1 on, or '
                             'None for one on each core')
        if not (payloads is None or isinstance(payloads, Payloads)):
            raise InputError(f'payloads is a {type(payloads).__name__}: give '
                             'osc_ros.Payloads(mass, center_of_mass, inertia)')
        self._is_located = False
        return States(float_array('q', q, (k, self.robot.nq)),
                      float_array('qd', qd, (k, self.robot.n)),
                      None if gravity is None else float_array('gravity', gravity, (k, 3)),
                      payload=None if payloads is None else payloads.rows(k))

    def _judge(self, states: States, found: Torques | Terms, check: bool) -> None:
        """Mark states with bad quaternions; with `check`, raise InputError for invalid states."""
        if check:
            arrays.require_quaternions(self.robot, states.q)
        bad = arrays.bad_quaternions(self.robot, states.q)
        if bad.any():
            found.valid[bad] = False
            for values in found[:-1]:
                values[bad[:len(values)]] = np.nan
        if not check or found.valid.all():
            return
        k = int(np.argmin(found.valid))
        for name, row in zip(states._fields, states.state(k)):
            if row is not None and not np.isfinite(row).all():
                raise InputError(f'{name} is not finite: {name}[{k}] = {row.tolist()}')
        raise InputError(f'state {k}: the result is not finite: the state or u is too large, or '
                         'M is singular')
