"""What every method of the dynamics answers to, and the door that its arrays come in by."""

from __future__ import annotations

import abc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import os

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.task_inertia import task_inertia
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)  # the one of this machine's byte order

# What `torque` and `outward` report.
DONE, WRONG_SHAPE, NOT_FINITE = 0, 1, 2


class NumpyMethod(abc.ABC):
    """
    A method in numpy, with the contract of `osc_ros.dynamics.chain.sweep.Sweep`.

    Not to be shared between threads. `Lambda_inv` (6, 6), `a0` (6,), `pose` (4, 4) and `twist`
    (6,) are what the last `outward` found, in base axes, [angular; linear]; for m tips they are
    (6 m, 6 m), (6 m,), (m, 4, 4) and (6 m,).

    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.gravity: Array = robot.gravity.copy()
        pose, twist, _, _, _, Lambda_inv, _ = term_shapes(robot)
        self.Lambda_inv: Array = np.zeros(Lambda_inv)
        self.a0: Array = np.zeros(twist)
        self.pose: Array = np.zeros(pose)
        self.twist: Array = np.zeros(twist)

    @np.errstate(over='ignore', invalid='ignore')
    def torque(self, q: Array, qd: Array, u: Array, tau: Array | None, qdd: Array | None,
               out: Array) -> int:
        """Joint torques of the law into out; DONE, WRONG_SHAPE or NOT_FINITE."""
        given = [x for x in (q, qd, u, tau, qdd, out) if x is not None]
        if not all(x.dtype == np.float64 and x.flags.carray for x in given):
            raise TypeError('only contiguous, writeable float64 arrays, as the kernels')
        if u.shape != self.a0.shape or out.shape != (self.robot.n,):
            return WRONG_SHAPE
        status = self.outward(q, qd, tau, qdd)
        if status == DONE:
            self.inward(task_inertia(self.Lambda_inv) @ (u - self.a0), out)
            return DONE if np.isfinite(out).all() else NOT_FINITE
        return status

    @np.errstate(over='ignore', invalid='ignore')
    def outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """Λ⁻¹, a⁰, pose and twist under τ⁰; DONE, WRONG_SHAPE or NOT_FINITE."""
        given = [x for x in (q, qd, tau, qdd) if x is not None]
        if q.shape != (self.robot.nq,) or any(x.shape != (self.robot.n,) for x in given[1:]):
            return WRONG_SHAPE
        if not all(np.isfinite(x).all() for x in given):
            return NOT_FINITE
        try:
            return self._outward(q, qd, tau, qdd)
        except np.linalg.LinAlgError:  # M, or what makes it, is singular
            return NOT_FINITE

    @abc.abstractmethod
    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        """As `outward`, for arrays that fit and are finite; DONE or NOT_FINITE."""

    @abc.abstractmethod
    def inward(self, F: Array, out: Array) -> None:
        """Joint torques τ⁰ + JᵀF into out, for the τ⁰ of the last `outward`."""

    @abc.abstractmethod
    def jacobian(self, out: Array) -> None:
        """J (6 m, n) at the last `outward`, into out."""

    @abc.abstractmethod
    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """M⁻¹(τ + JᵀF) (n,) at the last `outward`, into out [rad/s²]."""

    @abc.abstractmethod
    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques and forces on the tips."""

    @abc.abstractmethod
    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,)."""


def term_shapes(robot: Robot) -> tuple[tuple[int, ...], ...]:
    """Shapes of the pose, twist, J, J̇q̇, h, Λ⁻¹ and Λ of a robot, in this order."""
    tips, n = len(robot.tips), robot.n
    m = 6 * tips
    pose = (4, 4) if tips == 1 else (tips, 4, 4)
    return pose, (m,), (m, n), (m,), (n,), (m, m), (m, m)


def on_all_cores(k: int, part: Callable[[int, int], None]) -> None:
    """
    Call part(first, last) on contiguous parts of k states, a thread for every core.

    The kernels of batches release the GIL, so threads suffice; each needs its own memory.

    """
    cores = min(len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity')
                else os.cpu_count() or 1, max(1, k))
    bounds = np.linspace(0, k, cores + 1).astype(int).tolist()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(part, bounds[:-1], bounds[1:]))


def finite_array(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """
    The values as the kernels take them: contiguous, aligned, writeable float64.

    The array itself if it is one.

    Raises
    ------
    InputError
        Not numbers, another shape (both are told), numbers that are not finite (which one).

    """
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f'{name} is not made of numbers: {error}') from None
    if np.shape(values) != shape:
        raise InputError(f'{name} has shape {np.shape(values)}, accepted is {shape}')
    if not np.isfinite(array).all():
        bad = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        where = ', '.join(map(str, bad))
        raise InputError(f'{name} is not finite: {name}[{where}] = {array[bad]}')
    return ready(array)


def ready(values: Array) -> Array:
    """The values as the kernels take them: the array itself if it is such a one."""
    # the kernels know no read-only and no unaligned arrays
    is_ready = values.dtype is _FLOAT64 and values.flags.carray
    return values if is_ready else np.array(values, dtype=np.float64)
