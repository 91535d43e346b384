"""Numba decorators of the package, with a cache whose key is the source of all kernels."""

from __future__ import annotations

import ast
from collections.abc import Callable
import hashlib
import os
from pathlib import Path
import tempfile
from typing import Any, TypeVar

import numba
from numba import njit

Function = TypeVar('Function', bound=Callable[..., Any])

config: Any = numba.config

# Every kernel of the package, for tests of signatures.
KERNELS: list[Any] = []

# No 'nnan' or 'ninf': numbers that are not finite must reach the checks for them.
_OPTIONS: dict[str, Any] = {'error_model': 'numpy', 'fastmath': {'contract'}}


def inlined(function: Function) -> Function:
    """Compile a small operation that is inlined into the kernel that calls it."""
    return njit(forceinline=True, **_OPTIONS)(function)  # type: ignore[no-any-return]


def plain(compiled: Any) -> Any:
    """The Python function of an operation or a kernel."""
    return getattr(compiled, 'py_func', compiled)


def kernel(function: Callable[..., Any], nogil: bool = False) -> Any:
    """
    Compile an entry point, and cache the machine code between runs.

    It keeps the GIL: a control loop that releases it for a few microseconds would have to wait
    until another thread returns it. Use `released` for kernels that take long.

    Numba's own cache checks only the file of the entry point, and would miss a change in an
    operation that it calls. So the name of the cache folder contains a digest of the source of all
    kernels (`_kernel_source`). It is in the user's cache, so that a read-only installation works.

    """
    outer, config.CACHE_DIR = config.CACHE_DIR, str(_CACHE or '')
    try:
        compiled = njit(cache=_CACHE is not None, nogil=nogil, **_OPTIONS)(function)
    finally:
        config.CACHE_DIR = outer
    KERNELS.append(compiled)
    return compiled


def released(function: Callable[..., Any]) -> Any:
    """Compile an entry point that releases the GIL: for many states, or a long path."""
    return kernel(function, nogil=True)


def _kernel_source(text: str) -> str:
    """
    Source of the kernels in a module: decorated functions, constants and imports.

    A change of any other code of the module causes no compilation.

    """
    kept = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            if not node.decorator_list:
                continue
        elif not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
            continue
        kept.append(ast.dump(node))
    return '\n'.join(kept)


def _cache_directory() -> Path | None:
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted([*here.rglob('*.py'), *(here.parent / 'control').rglob('*.py')]):
        digest.update(_kernel_source(source.read_text(encoding='utf-8')).encode())
    name = f'osc_ros-{digest.hexdigest()[:16]}'
    home = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    for parent in (config.CACHE_DIR, home, tempfile.gettempdir()):
        if not parent or parent.startswith('~'):
            continue
        folder = Path(parent) / 'osc_ros' / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


_CACHE = _cache_directory()
