# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Laws and terms of the Panda per second: batches on one core and on all, and single calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
import os
from time import perf_counter
from typing import Any, NamedTuple

import mujoco
from mujoco.rollout import Rollout
import numpy as np
from numpy.typing import NDArray
import pinocchio as pin

from contenders import Frax, MuJoCo, Pinocchio, SWAP
from osc_ros import Controllers, Friction, Law, OperationalSpace, Payloads, Robot, Settings
from osc_ros.compile.parallel_parts import cores
from osc_ros.dynamics.contract.method import EVALUATED, Terms
from panda import FRAX, has_frax, panda, states, TIP
from race import difference

BATCH = 20_000  # states
CONTROLLERS = 4_096
SINGLY = 1_000  # states that are evaluated one after the other
ROUNDS = 9
COPIED = 2 ** 25  # bytes, to measure the memory bandwidth: more than the caches
PINOCCHIO_LAW, PINOCCHIO_TERMS = 'Pinocchio, in a loop', 'Pinocchio, terms in a loop'
LAWS, ALL_TERMS = 'osc.torque_batch', 'osc.evaluate_batch, all terms'
WHOLE = 'Controllers: whole steps, with limits and friction'
LOADED_LAWS, STEPS = f'{LAWS}, payloads and gravities', "a step of MuJoCo's rollout"
STEP = 1e-4  # of MuJoCo's physics [s]
FEW_TERMS, SINGLE_TERMS = 'osc.evaluate_batch, Λ and a⁰', 'osc.evaluate, in a loop'


@dataclass(frozen=True)
class Throughput:
    """
    States a second.

    Attributes
    ----------
    name : str
    cores : int
        Number of cores that it may use.
    rate : float
        Median over ROUNDS [states/s].
    floor : float
        Rate at which the memory would take and give the arguments and results [states/s].
    residual : float, optional
        Largest difference from Pinocchio / the largest entry; None for Pinocchio itself.

    """

    name: str
    cores: int
    rate: float
    floor: float
    residual: float | None


class _Way(NamedTuple):
    name: str
    cores: int
    count: int
    numbers: int  # float64 that go in and out for a state
    call: Callable[[], Any]
    residual: Callable[[Any], float] | None


@contextmanager
def _one_core() -> Iterator[None]:
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def _on_one_core(call: Callable[[], Any]) -> Any:
    with _one_core():
        return call()


def _bandwidth() -> float:
    """Bytes per second that all cores together could read and write, at least: those of one."""
    source, target = np.ones(COPIED // 8), np.empty(COPIED // 8)
    times = []
    for _ in range(ROUNDS):
        started = perf_counter()
        np.copyto(target, source)
        times.append(perf_counter() - started)
    return 2 * COPIED / min(times)


def _vectorized(frax: Frax, q: NDArray[Any], qd: NDArray[Any], u: NDArray[Any]) -> Any:
    import jax

    law = jax.jit(jax.vmap(frax.law))
    return lambda: np.asarray(law(q, qd, u))


def _steps(model: mujoco.MjModel, pinocchio: pin.Model, q: NDArray[Any], qd: NDArray[Any],
           tau: NDArray[Any]) -> _Way:
    """One step of the physics by MuJoCo on all cores; its residual is that of accelerations."""
    full, applied = mujoco.mjtState.mjSTATE_FULLPHYSICS, mujoco.mjtState.mjSTATE_QFRC_APPLIED
    model.opt.timestep, model.dof_damping[:], model.dof_frictionloss[:] = STEP, 0.0, 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT  # dynamics alone
    datas = [mujoco.MjData(model) for _ in range(cores())]
    state = np.zeros((len(q), mujoco.mj_stateSize(model, full)))
    state[:, 1:8], state[:, 8:15] = q, qd
    arms, data = Rollout(nthread=len(datas)), pinocchio.createData()

    def residual(found):
        return max(difference((found[k, 8:15] - qd[k]) / STEP,
                              pin.aba(pinocchio, data, q[k], qd[k], tau[k]))
                   for k in range(SINGLY))

    return _Way(STEPS, cores(), len(q), 2 * state.shape[1] + 7, lambda: arms.rollout(
        model, datas, state, tau[:, None, :], control_spec=applied)[0][:, -1], residual)


def _laws() -> list[_Way]:
    text, robot, model = panda()
    osc, pinocchio, plant = (OperationalSpace(robot), Pinocchio(model, model.getFrameId(TIP)),
                             MuJoCo(text, TIP))
    sample = states(robot, model, BATCH, np.random.default_rng(3))
    few = sample[:SINGLY]
    q, qd, u = (np.array([getattr(s, name) for s in sample]) for name in ('q', 'qd', 'u'))
    out, expected = np.empty_like(q), [pinocchio.textbook(s).copy() for s in few]

    def residual(found):
        return max(map(difference, found, expected))

    def batch():
        return osc.torque_batch(q, qd, u, out=out).tau

    loads = Payloads(np.zeros(BATCH), np.zeros((BATCH, 3)), np.zeros((BATCH, 3, 3)))
    gravity = np.tile(osc.gravity, (BATCH, 1))

    def loaded():  # payloads of 0 kg: the residual is that of the law
        return osc.torque_batch(q, qd, u, payloads=loads, gravity=gravity, out=out).tau

    def loop(call):
        return lambda: [call(s).copy() for s in few]

    size = 7 + 7 + 6 + 7
    ways = [
        _Way(LAWS, cores(), BATCH, size, batch, residual),
        _Way(LAWS, 1, BATCH, size, partial(_on_one_core, batch), residual),
        _Way(LOADED_LAWS, cores(), BATCH, size + 16, loaded, residual),
        _Way(LOADED_LAWS, 1, BATCH, size + 16, partial(_on_one_core, loaded), residual),
        _Way('osc.torque, in a loop', 1, SINGLY, size,
             loop(lambda s: osc.torque(s.q, s.qd, s.u)), residual),
        _Way(PINOCCHIO_LAW, 1, SINGLY, size, loop(pinocchio.compiled), residual),
        _Way('MuJoCo and numpy, in a loop', 1, SINGLY, size, loop(plant.sparse), residual),
        _steps(plant.model, model, q, qd, batch().copy())]
    ways += _controllers(robot, q[:CONTROLLERS], qd[:CONTROLLERS])
    if has_frax():
        linear_first = np.array([s.u_linear_first for s in sample])
        ways.append(_Way(f'{FRAX}, vmap', cores(), BATCH, size, _vectorized(
            Frax(text, robot.T_body_tip), q, qd, linear_first), residual))
    return ways


def _controllers(robot: Robot, q: NDArray[Any], qd: NDArray[Any]) -> list[_Way]:
    """Whole controllers, with limits and friction; the residual is that from as many laws."""
    friction = Friction(0.01 * robot.effort_limits, np.zeros(robot.n))
    law = Law(robot, Settings.of(robot, friction=friction))
    many, clock, q, qd = Controllers(law, len(q)), count(), 0.5 * q, 0.1 * qd
    many.hold(q)

    def step():
        time = STEP * next(clock)
        return many.torque(time, q + time * qd, qd)

    def residual(found):
        few = range(0, len(q), len(q) // 4)
        laws, some = [Law(robot, law.settings) for _ in few], Controllers(law, len(few))
        some.hold(q[few])
        for one, start in zip(laws, q[few]):
            one.hold(start)
        return max(difference(tau, one.torque(time, start + time * speed, speed))
                   for time in (0.0, STEP, 2.0 * STEP)
                   for tau, one, start, speed in zip(some.torque(
                       time, q[few] + time * qd[few], qd[few]), laws, q[few], qd[few]))

    size = 3 * robot.n
    return [_Way(WHOLE, cores(), len(q), size, step, residual),
            _Way(WHOLE, 1, len(q), size, partial(_on_one_core, step), residual)]


def _terms() -> list[_Way]:
    _, robot, model = panda()
    osc, pinocchio = OperationalSpace(robot), Pinocchio(model, model.getFrameId(TIP))
    sample = states(robot, model, BATCH, np.random.default_rng(4))
    few, q, qd = sample[:SINGLY], *(
        np.array([getattr(s, name) for s in sample]) for name in ('q', 'qd'))
    expected = [tuple(x.copy() for x in pinocchio.terms(s)) for s in few]

    def residual(found):
        worst = 0.0
        for k, (J, Jdot_qd, h, Lambda_inv, Lambda) in enumerate(expected):
            for values, rows, right in (
                    (found.J, SWAP, J), (found.Jdot_qd, SWAP, Jdot_qd), (found.h, slice(None), h),
                    (found.Lambda_inv, np.ix_(SWAP, SWAP), Lambda_inv),
                    (found.Lambda, np.ix_(SWAP, SWAP), Lambda)):
                if len(values):
                    worst = max(worst, difference(values[k][rows], right))
        return worst

    def batch(chosen, given):
        return osc.evaluate_batch(q, qd, chosen, out=given)

    ways = []
    for name, chosen in ((ALL_TERMS, EVALUATED), (FEW_TERMS, ('Lambda', 'a0'))):
        given = osc.evaluate_batch(q, qd, chosen)
        size = 14 + sum(values[0].size for values in given[:-1] if len(values))
        call = partial(batch, chosen, given)
        ways += [_Way(name, cores(), BATCH, size, call, residual),
                 _Way(name, 1, BATCH, size, partial(_on_one_core, call), residual)]
    size = 14 + 16 + 6 + 42 + 6 + 7 + 72
    return [
        *ways,
        _Way(SINGLE_TERMS, 1, SINGLY, size, lambda: [osc.evaluate(s.q, s.qd) for s in few],
             lambda found: residual(Terms(
                 *(np.array([getattr(one, name) for one in found]) for name in EVALUATED),
                 np.empty(0), np.ones(SINGLY, bool)))),
        _Way(PINOCCHIO_TERMS, 1, SINGLY, size, lambda: [pinocchio.terms(s) for s in few], None)]


def section() -> list[Throughput]:
    """
    Return a row for every way; all of them are timed in turns.

    In its turn each way is called twice and the second call timed: threads of the way before may
    still be busy during the first.

    """
    ways = [*_laws(), *_terms()]
    residuals = [way.residual and way.residual(way.call()) for way in ways]
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for way, found in zip(ways, times):
            way.call()
            started = perf_counter()
            way.call()
            found.append((perf_counter() - started) / way.count)
    bandwidth = _bandwidth()
    return [Throughput(way.name, way.cores, 1 / float(np.median(found)),
                       bandwidth / (8 * way.numbers), worst)
            for way, found, worst in zip(ways, times, residuals)]
