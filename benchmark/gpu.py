# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Laws of the Panda per second on a GPU, beside the limits of its memory and its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
import math
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros import OperationalSpace
from osc_ros.compile.cuda.twins import Twins
from osc_ros.dynamics.chain.chain_batch import put_law
from osc_ros.dynamics.chain.chain_bodies import Joints, packed_robot, Parts, TIP_WIDTH, WORK_WIDTH
from osc_ros.errors import OscError
from osc_ros.model.robot import Robot
from race import difference

COUNTS = (1_000, 10_000, 100_000, 1_000_000)  # states of a batch
COMPARED = 1_000  # states that are compared with the processor
ROUNDS = 9
COPIED = 2 ** 28  # bytes, to measure the memory bandwidth
CHAINS, STEPS = 8, 4096  # independent multiplications and additions of a thread


@dataclass(frozen=True)
class GpuRow:
    """
    A batch on a GPU.

    Attributes
    ----------
    number : str
        'float64' or 'float32'.
    count : int
        States of a call.
    rate, memory, arithmetic : float
        Laws a second [1/s]: the median over ROUNDS; at the rate at which the card copies memory;
        and at the rate of a kernel that does nothing but multiply and add.
    residual : float
        Largest difference from the processor in float64 / the largest entry of the state.

    """

    number: str
    count: int
    rate: float
    memory: float
    arithmetic: float
    residual: float


class _Counted(float):
    """A number that counts the operations on it."""

    total = 0


def _counting(name: str) -> Any:
    def operation(self: Any, *others: Any) -> Any:
        _Counted.total += 1
        return _Counted(getattr(float, name)(self, *map(float, others)))

    return operation


for _name in ('add', 'sub', 'mul', 'truediv'):
    for _side in ('', 'r'):
        setattr(_Counted, f'__{_side}{_name}__', _counting(f'__{_side}{_name}__'))
_Counted.__neg__ = lambda self: _Counted(-float(self))  # type: ignore[method-assign]


def operations_of_law(robot: Robot) -> int:
    """Number of additions, multiplications, divisions and square roots of a law of a chain."""
    functions = SimpleNamespace(
        nan=math.nan, abs=abs, copysign=math.copysign, log=math.log, cos=math.cos, sin=math.sin,
        sqrt=lambda x: _counting('__abs__')(_Counted(math.sqrt(x))),
        rint=lambda x: _Counted(round(x)), floor=lambda x: _Counted(math.floor(x)))
    twins = Twins(_Counted, lambda function: function, {'np': functions})  # type: ignore[arg-type]
    law = twins.of(put_law)

    def numbers(values: Any) -> NDArray[Any]:
        return np.array([*map(_Counted, np.ravel(values))], dtype=object).reshape(np.shape(values))

    links, ends = map(numbers, packed_robot(robot))
    rng, n = np.random.default_rng(0), robot.n
    q, qd, u = (numbers(rng.uniform(0.2, 1.0, width)) for width in (n, n, 6))
    _Counted.total = 0
    law(Parts(links, ends, numbers(np.zeros((n, WORK_WIDTH))), None, numbers(np.zeros(TIP_WIDTH))),
        Joints(q, qd, None, None), u, numbers(np.zeros(n)))
    return _Counted.total


def _seconds(call: Any) -> float:
    """Median over ROUNDS of the time until the GPU has done a call [s], after one call."""
    from numba import cuda

    times = []
    for _ in range(ROUNDS + 1):
        cuda.synchronize()
        started = perf_counter()
        call()
        cuda.synchronize()
        times.append(perf_counter() - started)
    return float(np.median(times[1:]))


def _bandwidth() -> float:
    """Bytes that the card reads and writes in a second, when it copies memory."""
    from numba import cuda

    source, target = (cuda.to_device(np.zeros(COPIED, np.uint8)) for _ in range(2))
    return 2 * COPIED / _seconds(lambda: target.copy_to_device(source))


def _arithmetic(number: Any) -> float:
    """Multiplications and additions that the card does in a second, at its best."""
    from numba import cuda

    @cuda.jit
    def chains(out, factor):
        i = cuda.grid(1)
        a = b = c = d = e = f = g = h = out[i]
        for _ in range(STEPS):
            a, b, c, d = a * factor + a, b * factor + b, c * factor + c, d * factor + d
            e, f, g, h = e * factor + e, f * factor + f, g * factor + g, h * factor + h
        out[i] = a + b + c + d + e + f + g + h

    out = cuda.to_device(np.linspace(0.0, 1e-3, 2 ** 20).astype(number))
    time = _seconds(lambda: chains[2 ** 12, 2 ** 8](out, number(1e-6)))
    return 2 * CHAINS * STEPS * out.size / time


def _states(osc: OperationalSpace) -> list[NDArray[np.float64]]:
    """Return q, q̇ and u of COMPARED states within the limits, not near a singularity."""
    rng, robot = np.random.default_rng(3), osc.robot
    q = rng.uniform(*robot.position_limits.T, (4 * COMPARED, robot.n))
    q = q[np.linalg.cond(osc.evaluate_batch(q, np.zeros_like(q), ('J',)).J) < 50][:COMPARED]
    return [q, *(rng.normal(size=(COMPARED, width)) for width in (robot.n, 6))]


def section() -> list[GpuRow] | str:
    """Return a row for each precision and size of a batch, or the reason why there are none."""
    try:
        from osc_ros.compile.cuda.device_kernels import cuda, IS_SIMULATED, require_gpu

        require_gpu()
    except OscError as error:
        return f'no GPU here: {error}'
    if IS_SIMULATED:
        return 'no GPU here: this is the simulator of Numba'
    text = files('osc_ros').joinpath('robots/panda.urdf').read_text()
    robot = Robot.from_urdf(text, 'panda_link0', 'panda_hand_tcp')
    osc = OperationalSpace(robot)
    few = _states(osc)
    expected = osc.torque_batch(*few).tau
    bandwidth, operations = _bandwidth(), operations_of_law(robot)
    rows = []
    for number in (np.float64, np.float32):
        peak = _arithmetic(number)
        for count in COUNTS:
            many = [cuda.to_device(np.resize(values, (count, values.shape[1])).astype(number))
                    for values in few]
            out = cuda.device_array((count, robot.n), number)
            time = _seconds(lambda many=many, out=out: osc.torque_batch(*many, out=out))
            found = out[:COMPARED].copy_to_host().astype(float)
            size = (27 * np.dtype(number).itemsize) + 1  # q, q̇, u, τ and `valid`
            rows.append(GpuRow(np.dtype(number).name, count, count / time, bandwidth / size,
                               peak / operations, max(map(difference, found, expected))))
    return rows


def page(rows: list[GpuRow] | str) -> list[str]:
    """Return the section of the GPU."""
    lines = ['## Many states on a GPU', '']
    if isinstance(rows, str):
        return [*lines, rows, '']
    from numba import cuda

    name = cuda.get_current_device().name
    return [
        *lines, f'The law of the Panda by {name if isinstance(name, str) else name.decode()}, '
        f'arrays in its memory, the median of {ROUNDS} calls until the GPU has ended. "Memory": '
        'the rate at which the card could copy arguments and results. "Arithmetic": the rate at '
        'which it multiplies and adds in a kernel that does nothing else. The residual is the '
        'largest difference from the processor in float64.', '',
        '| | states | laws/s | memory, laws/s | arithmetic, laws/s | residual |',
        '|---|---:|---:|---:|---:|---:|',
        *(f'| {row.number} | {row.count:,} | {row.rate:,.0f} | {row.memory:,.0f} | '
          f'{row.arithmetic:,.0f} | {row.residual:.0e} |' for row in rows), '']
