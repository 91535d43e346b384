# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Validation of users' arrays, and their conversion to contiguous float64 arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

FLOAT64 = np.dtype(np.float64)  # the dtype object of this machine's byte order


def number(value: object) -> float:
    """Convert a Python or NumPy number, or a tensor of dimension 0, to float; NaN for others."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value):  # type: ignore[arg-type]
        return np.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan


def finite_array(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return the values as the kernels require them: contiguous, aligned, writeable float64."""
    # An array of this form is returned itself, not copied. InputError: not numbers, another shape
    # (the message has both), or not finite (it has the first such number and its index).
    array = float_array(name, values, shape)
    if not np.isfinite(array).all():
        bad = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        where = ', '.join(map(str, bad))
        raise InputError(f'{name} is not finite: {name}[{where}] = {array[bad]}')
    return array


def float_array(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Like `finite_array`, but accepts numbers that are not finite."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f'{name} is not made of numbers: {error}') from None
    if np.shape(values) != shape:
        raise InputError(f'{name} has shape {np.shape(values)}, must be {shape}')
    return kernel_array(array)


def row_count(name: str, values: ArrayLike) -> int:
    """Return the number of rows of a matrix, 1 for a vector; InputError for unequal rows."""
    try:
        shape = np.shape(values)
    except ValueError as error:
        raise InputError(f'{name} is not made of numbers: {error}') from None
    return shape[0] if len(shape) > 1 else 1


def kernel_array(values: Array) -> Array:
    """Return values as a contiguous, writeable float64 array; no copy if it is one already."""
    # kernels are compiled for writeable and aligned arrays only
    is_ready = values.dtype is FLOAT64 and values.flags.carray
    return values if is_ready else np.array(values, dtype=np.float64, order='C')


def is_on_gpu(values: object) -> bool:
    """Whether an array (of PyTorch, CuPy, JAX, Numba or another library) is in GPU memory."""
    if values is None or isinstance(values, (np.ndarray, list, tuple)):
        return False
    # PyTorch: `is_cuda`, because reading the interface of a tensor that requires a gradient raises
    return bool(getattr(values, 'is_cuda', False) or getattr(values, '__cuda_ndarray__', False)
                or hasattr(values, '__cuda_array_interface__'))


def require_output(out: Array, shape: tuple[int, ...]) -> None:
    """Raise InputError if a kernel cannot write its result into `out`."""
    fits = (isinstance(out, np.ndarray) and out.shape == shape and out.dtype == np.float64
            and out.flags.c_contiguous and out.flags.writeable)
    if not fits:
        raise InputError(f'out is not a writeable contiguous float64 array of shape {shape}')


def require_finite(what: str, values: Array) -> Array:
    """Return the values; raise InputError if one of them is not finite."""
    if not np.isfinite(values).all():
        raise InputError(f'the {what} is not finite: the input is too large, or M is singular')
    return np.asarray(values)


def require_quaternions(robot: Robot, q: Array) -> None:
    """Raise InputError if the squared length of a quaternion in q (k, nq) is 0 or overflows."""
    for first in robot.q_index[robot.spherical].tolist():
        for state in np.flatnonzero(_is_bad(q[:, first:first + 4]))[:1]:
            body = int(np.searchsorted(robot.q_index, first))
            which = f' of state {state}' if len(q) > 1 else ''
            raise InputError(
                f"q[{first}:{first + 4}]{which}, the quaternion x y z w of joint "
                f"'{robot.joints[body]}', is {q[state, first:first + 4].tolist()}: give "
                'any length but zero (no turn is 0 0 0 1; see robot.neutral)')


def bad_quaternions(robot: Robot, q: Array) -> NDArray[np.bool_]:
    """Return, for each of k states q (k, nq), whether `require_quaternions` refuses it, (k,)."""
    bad = np.zeros(len(q), dtype=bool)
    for first in robot.q_index[robot.spherical].tolist():
        bad |= _is_bad(q[:, first:first + 4])
    return bad


def _is_bad(quaternions: Array) -> NDArray[np.bool_]:
    length = np.abs(quaternions).max(axis=1, initial=0.0)
    return np.asarray(~((length > 1e-100) & (length < 1e100)))
