# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Users' arrays on a GPU (PyTorch, CuPy, JAX or Numba), read and written without a copy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from osc_ros.compile.cuda.device_kernels import cuda, IS_SIMULATED
from osc_ros.dynamics.algebra.arrays import is_on_gpu
from osc_ros.errors import InputError

# Special stream numbers in `__cuda_array_interface__`, PyTorch and CuPy.
_LEGACY_DEFAULT, _PER_THREAD_DEFAULT = (0, 1), 2


class Library:
    """Allocates memory and names the CUDA stream for arrays of Numba or an unknown library."""

    # New arrays are Numba's, which have `__cuda_array_interface__`. Subclasses: other libraries.

    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def device(self) -> int:
        """Index of the GPU that has the array."""
        return 0 if IS_SIMULATED else int(cuda.get_current_device().id)

    def empty(self, shape: tuple[int, ...], number: Any) -> Any:
        """Return an array on the same GPU, with np.float64, np.float32 or np.bool_ entries."""
        return cuda.device_array(shape, number)

    def stream(self) -> Any:
        """Return the stream of the array, or the default stream if the array names none."""
        own = getattr(self._array, 'stream', None)
        if not isinstance(own, int) and own is not None:
            return own
        return stream_of(getattr(self._array, '__cuda_array_interface__', {}).get('stream') or 0)

    def finish(self, stream: Any) -> None:
        """Wait for the stream if the library could read results before they are written."""


class Torch(Library):
    """PyTorch: memory from its allocator, and its current stream."""

    @property
    def device(self) -> int:
        """Index of the GPU that has the tensor."""
        return int(self._array.device.index)

    def empty(self, shape: tuple[int, ...], number: Any) -> Any:
        """Return a tensor on the same GPU."""
        torch: Any = sys.modules['torch']
        kind = {np.float64: torch.float64, np.float32: torch.float32, np.bool_: torch.bool}
        return torch.empty(shape, dtype=kind[number], device=self._array.device)

    def stream(self) -> Any:
        """Return PyTorch's current stream."""
        torch: Any = sys.modules['torch']
        return stream_of(torch.cuda.current_stream(self._array.device).cuda_stream)


class CuPy(Library):
    """CuPy: memory from its pool, and its current stream."""

    @property
    def device(self) -> int:
        """Index of the GPU that has the array."""
        return int(self._array.device.id)

    def empty(self, shape: tuple[int, ...], number: Any) -> Any:
        """Return an array on the same GPU."""
        with self._array.device:
            return sys.modules['cupy'].empty(shape, number)

    def stream(self) -> Any:
        """Return CuPy's current stream."""
        with self._array.device:
            return stream_of(sys.modules['cupy'].cuda.get_current_stream().ptr)


class Jax(Library):
    """JAX, which exposes no stream: the call waits for the input arrays and for the result."""

    # The result is written to a new array of JAX before this array is returned.

    @property
    def device(self) -> int:
        """Index of the GPU that has the array."""
        return int(next(iter(self._array.devices())).local_hardware_id)

    def empty(self, shape: tuple[int, ...], number: Any) -> Any:
        """Return an array on the same GPU."""
        with sys.modules['jax'].default_device(next(iter(self._array.devices()))):
            return sys.modules['jax'].numpy.empty(shape, number).block_until_ready()

    def stream(self) -> Any:
        """Return the default stream."""
        return stream_of(0)

    def finish(self, stream: Any) -> None:
        """Wait for the stream."""
        stream.synchronize()


_LIBRARIES: dict[str, type[Library]] = {
    'torch': Torch, 'cupy': CuPy, 'jax': Jax, 'jaxlib': Jax}


def library_of(array: Any) -> Library:
    """Return the `Library` of an array."""
    return _LIBRARIES.get(type(array).__module__.partition('.')[0], Library)(array)


def stream_of(pointer: int) -> Any:
    """Return Numba's stream for a CUDA stream; `pointer` is its cudaStream_t as a number."""
    if IS_SIMULATED:
        return cuda.stream()
    if pointer in _LEGACY_DEFAULT:
        return cuda.legacy_default_stream()
    if pointer == _PER_THREAD_DEFAULT:
        return cuda.per_thread_default_stream()
    return cuda.external_stream(pointer)


def number_of(name: str, array: Any) -> Any:
    """Return np.float64 or np.float32, the type of an array; InputError for another type."""
    kind = str(getattr(array, 'dtype', type(array))).removeprefix('torch.')
    if kind not in ('float64', 'float32'):
        raise InputError(f'{name} has dtype {kind}: must be float64 or float32 on a GPU')
    return np.float64 if kind == 'float64' else np.float32


def device_view(name: str, array: Any, shape: tuple[int, ...], number: Any, device: int) -> Any:
    """View of a user's array for a kernel, without a copy; it keeps a reference to the array."""
    # InputError for an array in host memory or on another GPU, not contiguous, requiring a
    # gradient, or of a wrong shape or type; the message has the wrong and the accepted one.
    if not is_on_gpu(array):
        raise InputError(f'{name} is a {type(array).__name__} in the memory of the host: give '
                         'arrays on the GPU only, if one of the arguments is there')
    if tuple(array.shape) != shape:
        raise InputError(f'{name} has shape {tuple(array.shape)}, must be {shape}')
    kind = str(array.dtype).removeprefix('torch.')
    if kind != np.dtype(number).name:
        raise InputError(f'{name} has dtype {kind}, must be {np.dtype(number).name}, as of q')
    if getattr(array, 'requires_grad', False):
        raise InputError(f'{name} requires a gradient, and the law gives none: give '
                         f'{name}.detach()')
    if library_of(array).device != device:
        raise InputError(f'{name} is on GPU {library_of(array).device}: give {device}, '
                         'which has q')
    if 0 in shape:
        return cuda.device_array(shape, number)
    library_ready = getattr(array, 'block_until_ready', None)  # JAX only
    if library_ready is not None:
        library_ready()
    view = array if IS_SIMULATED else cuda.as_cuda_array(array, sync=False)
    if not view.is_c_contiguous():
        raise InputError(f'{name} is not contiguous: its rows must follow each other in memory '
                         '(in PyTorch, contiguous() gives such an array)')
    return view
