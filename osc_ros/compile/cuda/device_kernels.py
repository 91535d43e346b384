# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Compilation of kernels for a GPU by numba-cuda, in float64 or float32, and their launch."""

from __future__ import annotations

from functools import cache
import importlib.util
from typing import Any
import warnings

import numba
from numba import types
import numpy as np

from osc_ros.compile import either
from osc_ros.compile.cuda.twins import Twins
from osc_ros.errors import installation, OscError

config: Any = numba.config
IS_SIMULATED = bool(config.ENABLE_CUDASIM)  # environment variable NUMBA_ENABLE_CUDASIM
if not (IS_SIMULATED or importlib.util.find_spec('numba_cuda')):
    raise OscError('arrays on a GPU need numba-cuda, which is not installed: '
                   + installation('cuda'))

from numba import cuda as numba_cuda  # noqa: E402, after the check

cuda: Any = numba_cuda
# States in a block: with 250 registers per thread, two blocks fill the registers of a
# multiprocessor.
THREADS = 128
# Small batches are legitimate. The text of the warning begins with colour codes.
warnings.filterwarnings('ignore', '.*Grid size .* GPU under-utilization')


def require_gpu() -> None:
    """Raise OscError if there is no GPU that numba-cuda can use."""
    if not cuda.is_available():
        reason = ' '.join(str(cuda.cuda_error()).split())
        raise OscError('there is no GPU that can be used: numba-cuda needs an NVIDIA GPU, its '
                       f'driver, and the compiler of the extra cuda ({reason})')


def number_type(number: Any) -> Any:
    """Numba's type of np.float64 or np.float32."""
    return types.float32 if number is np.float32 else types.float64


def for_device(function: Any) -> Any:
    """Compile a function that GPU kernels call; the simulator uses the Python function."""
    return function if IS_SIMULATED else cuda.jit(device=True, forceinline=True)(function)


def kernel_for_device(function: Any) -> Any:
    """Make a GPU kernel of a function; it is compiled at its first launch."""
    return cuda.jit(function)


@cache
def device_twins(number: Any) -> Twins:
    """Return `Twins` of the kernels for a GPU, for one type of number; the lane width is 1."""
    replaced: dict[str, Any] = {'WIDTH': 1}
    if not IS_SIMULATED:
        from numba.cuda.extending import intrinsic
        from numba.cuda.np import arrayobj

        from osc_ros.compile.cuda import device_functions

        replaced |= {'np': device_functions, 'put': either.put_intrinsic(intrinsic, arrayobj)}
    return Twins(number, for_device, replaced)


def launch(kernel: Any, k: int, stream: Any, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel for k states on a stream of the GPU, without waiting for its end."""
    if k > 0:
        kernel[-(-k // THREADS), THREADS, stream](*arguments)
