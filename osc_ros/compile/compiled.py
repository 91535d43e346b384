# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Numba decorators of the package; the key of their cache is the source of all kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, ExitStack, suppress
import ctypes
from functools import partial
import gc
import hashlib
import logging
import os
from pathlib import Path
import pickle
import sys
import tempfile
from threading import RLock
from typing import Any, TypeVar

import numba
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array, populate_array
import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiler import KnownFlags, OperationCompiler
from osc_ros.compile.kernel_source import PACKAGE, stored_digests
from osc_ros.errors import OscError

try:
    import fcntl
except ImportError:  # not on Windows: processes then compile the same kernels twice
    fcntl = None  # type: ignore[assignment]

Function = TypeVar('Function', bound=Callable[..., Any])
Item = TypeVar('Item', bound=np.generic)

config: Any = numba.config
types: Any = numba.types

# Every kernel of the package, and every operation that is inlined into them.
KERNELS: list[Any] = []
OPERATIONS: list[Any] = []

# Called with the name of a kernel and True when its compilation begins, False when it has ended.
OBSERVERS: list[Callable[[str, bool], None]] = []
_ON_DEMAND: list[bool] = []
# During `recorded_uses`, kernels run as Python functions: maps the numbers that stand for their
# addresses to the kernels; _USES has what `recorded_uses` returns.
_OF_PYTHON: list[dict[int, Any]] = []
_USES: list[dict[tuple[Any, tuple[Any, ...]], None]] = []
# _UNLOCKED: an entry for each open context, in all threads, in which kernels may be compiled.
# _LOCKED: the kernels that are locked when the last of these contexts ends. _GATE guards both.
_UNLOCKED: list[bool] = []
_LOCKED: set[Any] = set()
_GATE = RLock()
_UNSAVED: list[bool] = []  # not empty after the warning that machine code cannot be stored
_ANNOUNCED: list[bool] = []  # not empty after the log message that this process compiles kernels

# fastmath without 'nnan' and 'ninf', which would let the compiler remove checks for NaN and inf.
# '_nrt' False: without reference counts of arrays, which no kernel needs, because none allocates.
_OPTIONS: dict[str, Any] = {'error_model': 'numpy', 'fastmath': {'contract'},
                            'no_cfunc_wrapper': True, '_nrt': False}
# Kernels that loop over the joints of a robot are 5 % faster at LLVM's optimization level 3
# (Numba's default) than at level 2. The other kernels are not faster at level 3, and take 1.3
# times as long to compile.
_OF_JOINTS = tuple(f'{PACKAGE.name}.dynamics.{name}.'
                   for name in ('chain', 'trees', 'segments', 'teams'))


def _compiled(function: Function, **options: Any) -> Any:
    """Compile a function by Numba, with `KnownFlags`."""
    found = njit(**options)(function)
    if not config.DISABLE_JIT:  # else it is a plain function
        found._compiler._customize_flags = KnownFlags
    return found


def inlined(function: Function, **more: bool) -> Function:
    """Compile a small operation that is inlined into the kernel that calls it."""
    # There is no entry point for Python, which would take longer to compile than the operation: a
    # call from Python raises TypeError. For an operation that returns an array use `viewing`.
    options = {'forceinline': True, **_OPTIONS, **more}
    operation = _compiled(function, no_cpython_wrapper=True, pipeline_class=OperationCompiler,
                          **options)

    def refuse(*arguments: Any) -> None:
        raise TypeError(f'{function.__name__} is a part of kernels, and cannot be called from '
                        'Python: call it in a function that numba.njit compiles')

    if not config.DISABLE_JIT:  # else it is a plain function
        # Numba would call an address that is zero
        operation._insert = lambda *entry, **options: None
        operation._compile_for_args = refuse
    OPERATIONS.append(operation)
    return operation  # type: ignore[no-any-return]


def viewing(function: Function) -> Function:
    """Compile as `inlined`, for an operation that returns a view of one of its arguments."""
    return inlined(function, _nrt=True)


def stage(function: Function) -> Function:
    """Compile as `inlined`, but kernels call the operation: it is long, or rarely needed."""
    return inlined(function, forceinline=False)


def part(function: Function) -> Function:
    """Compile a long operation as part of the one kernel that calls it, and never on its own."""
    # `inlined` would optimize and translate it twice
    OPERATIONS.append(_compiled(function, inline='always', **_OPTIONS))
    return OPERATIONS[-1]  # type: ignore[no-any-return]


def plain(compiled: Any) -> Any:
    """The Python function of a compiled operation or kernel."""
    return getattr(compiled, 'py_func', compiled)


def kernel(function: Callable[..., Any], nogil: bool = False) -> Any:
    """Compile an entry point, and cache the machine code between runs."""
    # It keeps the GIL, for which a control loop would have to wait after a kernel of microseconds;
    # `released` is for long ones. The cache is in the user's cache folder: installations may be
    # read-only, and share it. A kernel whose source (`stored_digests`) changes is compiled again.
    compiled = _compiled(function, nogil=nogil, **_OPTIONS)
    if config.DISABLE_JIT:  # it is a plain function
        return compiled
    if _CACHE is not None:
        outer, config.CACHE_DIR = config.CACHE_DIR, str(_CACHE)
        try:
            compiled._cache = _KernelCache(function, _CACHE)
        finally:
            config.CACHE_DIR = outer
    compiled.compile = _compile_alone(compiled)
    KERNELS.append(compiled)
    return compiled


def entry(compiled: Any, *kinds: Any) -> Callable[..., Any]:
    """Compile a kernel for these types of arguments, or load it; return a quick callable."""
    if is_recording():
        _USES[-1][compiled, kinds] = None
    if config.DISABLE_JIT or is_recording():
        return compiled  # type: ignore[no-any-return]
    if kinds not in compiled.overloads:
        compiled.compile(kinds)
    return compiled.overloads[kinds].entry_point  # type: ignore[no-any-return]


def released(function: Callable[..., Any]) -> Any:
    """Compile an entry point that releases the GIL: for many states, or a long path."""
    return kernel(function, nogil=True)


def ahead(compile_all: Callable[[], None]) -> Callable[[], None]:
    """Decorate a function that compiles kernels: it runs once, and not within `on_demand`."""
    is_done = False

    def compile_once() -> None:
        nonlocal is_done
        if config.DISABLE_JIT:
            raise OscError('the environment variable NUMBA_DISABLE_JIT is set: osc_ros has only '
                           'compiled kernels; unset it')
        if not (is_done or _ON_DEMAND):
            with unlocked():
                compile_all()
            is_done = True

    return compile_once


@contextmanager
def on_demand(locks: bool = True) -> Iterator[None]:
    """Within this context, compile each kernel at its first call, not all of them in advance."""
    # With `locks`, the kernels that have been used are locked when the last such context of all
    # threads ends: other types of arguments raise TypeError, as after a compilation `ahead`. So
    # call every kernel that a control loop needs once within the context.
    _ON_DEMAND.append(True)
    with unlocked():
        try:
            yield
        finally:
            with _GATE:
                _ON_DEMAND.pop()
                if locks:
                    _LOCKED.update(compiled for compiled in KERNELS if compiled.overloads)


@contextmanager
def unlocked() -> Iterator[None]:
    """Within this context, locked kernels may be compiled for other types of arguments."""
    # they are locked again when the last thread has left such a context
    with _GATE:
        _UNLOCKED.append(True)
        for compiled in KERNELS:
            if not compiled._can_compile:
                _LOCKED.add(compiled)
                compiled.disable_compile(False)
    try:
        yield
    finally:
        with _GATE:
            _UNLOCKED.pop()
            while _LOCKED and not _UNLOCKED:
                _LOCKED.pop().disable_compile()


def lock(compiled: Any) -> None:
    """Make a kernel refuse other types of arguments, after the end of all open contexts."""
    with _GATE:
        _LOCKED.add(compiled)


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Files of Numba that end with the digest of their content."""

    def _dump(self, content: Any) -> bytes:
        data: bytes = super()._dump(content)
        return data + hashlib.sha256(data).digest()

    def _load_data(self, name: str) -> Any:
        data = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(data[:-32]).digest() != data[-32:]:
            raise ValueError(f'{name} is damaged')
        return pickle.loads(data)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """The machine code of one kernel on disk; what cannot be read is compiled again."""

    # Folder and index of Numba's own cache depend on the place of the source, its modification
    # time and line numbers. Here each file name has the digest of the source that the kernel uses.

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        super().__init__(function)
        self.name = f'{function.__module__}.{function.__name__}'
        self.is_own = function.__module__ in DIGESTS
        if self.is_own:
            self.name += f'-{DIGESTS[function.__module__]}-{sys.implementation.cache_tag}'
            self._cache_path = str(folder)
            self._cache_file = _CheckedFiles(self._cache_path, self.name, source_stamp='')
            self._impl.locator.ensure_cache_path = partial(
                folder.mkdir, parents=True, exist_ok=True)

    def has(self, signature: Any, codegen: Any) -> bool:
        """Whether the machine code for these argument types is there."""
        try:
            return self._index_key(signature, codegen) in self._cache_file._load_index()
        except Exception:  # a damaged file: pickle raises errors of many kinds
            return False

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled kernel for these argument types; None if it is to be compiled."""
        try:
            return super().load_overload(signature, target)
        except Exception as error:  # pickle raises errors of many kinds
            _log().warning('the machine code of %s in %s is damaged and is compiled again: %s',
                           self.name, self._cache_path, error)
            with suppress(OSError):
                os.remove(self._cache_file._index_path)
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        """Store a compiled kernel."""
        try:
            super().save_overload(signature, data)
        except OSError as error:
            if not _UNSAVED:
                _UNSAVED.append(True)
                _log().warning('machine code cannot be stored, so the next start compiles it '
                               'again: %s', error)


def _log() -> logging.Logger:
    return logging.getLogger(PACKAGE.name)


def _compile_alone(compiled: Any) -> Callable[[Any], Any]:
    """Return the kernel's method `compile`, restricted to one process at a time."""
    # Another process that needs the same kernel waits, and loads the machine code from the cache.
    # Garbage collection is suspended, because it would take a sixth of the compile time.
    compile_here = compiled.compile

    def compile_alone(signature: Any) -> Any:
        if signature in compiled.overloads:
            return compile_here(signature)
        # the compiler's lock first: a thread that waits for it must not hold a kernel's lock
        with (global_compiler_lock, _locked(compiled), _no_garbage_collection(),
              _optimized(compiled)):
            is_new = not is_cached(compiled, signature)
            _observe(compiled, is_new)
            try:
                return compile_here(signature)
            finally:
                _observe(compiled, is_new, begins=False)

    return compile_alone


def _observe(compiled: Any, is_new: bool, begins: bool = True) -> None:
    if not is_new:
        return
    for observer in tuple(OBSERVERS):  # another thread may remove its own
        observer(compiled.py_func.__name__, begins)
    if not (OBSERVERS or _ANNOUNCED):  # no observer reports why the call takes so long
        _ANNOUNCED.append(True)
        _log().warning(
            'osc_ros compiles its kernels: a minute, once; then they are in %s', _CACHE)


def is_cached(compiled: Any, signature: Any) -> bool:
    """Whether the machine code of a kernel for these argument types is in the cache."""
    cache = compiled._cache
    return isinstance(cache, _KernelCache) and cache.has(signature, compiled.targetctx.codegen())


def is_being_compiled(compiled: Any) -> bool:
    """Whether another process is compiling a kernel now."""
    with _locked(compiled, waits=False) as is_ours:
        return not is_ours


@contextmanager
def _locked(compiled: Any, waits: bool = True) -> Iterator[bool]:
    """Hold the file lock of a kernel; yield False if another process holds it."""
    if fcntl is None or not isinstance(compiled._cache, _KernelCache):
        yield True
        return
    path = Path(compiled._cache.cache_path) / f'{compiled._cache.name}.lock'
    is_ours = True
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open('a'))
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            is_ours = False
        except OSError:  # no such folder any more, or a file system without locks
            pass
        yield is_ours


@contextmanager
def _optimized(compiled: Any) -> Iterator[None]:
    """Within this context, Numba compiles at the optimization level of this kernel."""
    usual = config.OPT  # an environment variable of Numba sets it
    of_joints = compiled.py_func.__module__.startswith(_OF_JOINTS)
    config.OPT = type(usual)(usual if of_joints else min(usual, 2))
    try:
        yield
    finally:
        config.OPT = usual


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def view(array: NDArray[Item], start: int, shape: tuple[int, ...]) -> NDArray[Item]:
    """View of a contiguous array's entries from index `start` on, with the given shape."""
    # In a kernel, no bounds are checked, and the view holds no reference: its array must be an
    # argument of the kernel, which must not return the view. In compiled code `reshape` takes
    # 20 ns and a multiple of the compile time, and counting references takes 15 ns.
    size = 1
    for length in shape:
        size *= length
    return array.reshape(-1)[start:start + size].reshape(shape)


@overload(view, jit_options={'_nrt': True})
def _compiled_view(array: Any, start: Any, shape: Any) -> Any:
    def implementation(array: Any, start: Any, shape: Any) -> Any:
        return _view(array, start, shape)

    return implementation


@intrinsic
def _view(typing: Any, array: Any, start: Any, shape: Any) -> Any:
    found = array.copy(ndim=len(shape))

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, first, lengths = arguments
        flat, result = make_array(array)(context, builder, given), make_array(found)(
            context, builder)
        stride = context.get_constant(
            types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        item = stride
        shape_of: list[Any] = []
        strides: list[Any] = []
        for i in reversed(range(len(shape))):
            length = builder.extract_value(lengths, i)
            shape_of.insert(0, length)
            strides.insert(0, stride)
            stride = builder.mul(stride, length)
        populate_array(result, data=builder.gep(flat.data, [first]), shape=shape_of,
                       strides=strides, itemsize=item, meminfo=None)
        return result._getvalue()

    integers = types.UniTuple(types.intp, len(shape))
    return found(array, types.intp, integers), build


def is_recording() -> bool:
    """Whether kernels run as Python functions now, see `recorded_uses`."""
    return bool(_OF_PYTHON)


def of_python(compiled: Any) -> int:
    """Return a number that stands for the address of a kernel during `recorded_uses`."""
    _OF_PYTHON[-1][id(compiled)] = compiled
    return id(compiled)


def _called(intrinsic: Any, address: int, given: tuple[Any, ...]) -> int:
    """Python version of an intrinsic that calls a function by its address."""
    found = _OF_PYTHON[-1].get(int(address))
    if found is not None:
        return int(found.py_func(*given))
    return int(ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * len(given))(address)(*given))


def recorded_uses(run: Callable[[], object]) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the kernels that a call uses, with their argument types, in the order of use."""
    # The call runs all kernels as plain Python functions, so nothing is compiled. Use it in a
    # process of its own: argument types that are compiled already are not recorded.
    uses: dict[tuple[Any, tuple[Any, ...]], None] = {}
    depth = 0

    def as_python(compiled: Any) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                return compiled.py_func(*arguments)
            finally:
                depth -= 1

        def resolve(*arguments: Any) -> Callable[..., Any]:
            if depth == 0:
                uses[compiled, tuple(map(compiled.typeof_pyval, arguments))] = None
            return call

        return resolve

    usual = [(compiled, compiled._compile_for_args) for compiled in (*KERNELS, *OPERATIONS)]
    for compiled, _ in usual:
        compiled._compile_for_args = as_python(compiled)
        compiled.disable_compile = lambda value=True: None
    intrinsics: Any = type(_view)  # the class of all intrinsics
    refuse = intrinsics.__call__
    intrinsics.__call__ = _called
    _OF_PYTHON.append({})
    _USES.append(uses)
    try:
        run()
    finally:
        _OF_PYTHON.pop()
        _USES.pop()
        intrinsics.__call__ = refuse
        for compiled, compile_for in usual:
            compiled._compile_for_args = compile_for
            del compiled.disable_compile
    return list(uses)


def _cache_directory() -> tuple[Path | None, dict[str, str]]:
    """Return the folder of the machine code, None if there is none, and `stored_digests`."""
    home = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    for parent in (config.CACHE_DIR, home, tempfile.gettempdir()):
        if not parent or parent.startswith('~'):
            continue
        folder = Path(parent) / 'osc_ros' / f'kernels-{numba.__version__}'
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder, stored_digests(folder, numba.__version__)
    return None, {}


_CACHE, DIGESTS = _cache_directory()
