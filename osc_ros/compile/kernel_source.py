# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Digests of the source code of kernels; they name the files of their machine code."""

from __future__ import annotations

import ast
from contextlib import suppress
import hashlib
import json
import os
from pathlib import Path
import tempfile
from time import time

PACKAGE = Path(__file__).parents[1]
KEPT = 86400.0  # [s]


def kernel_source(text: str) -> str:
    """Part of a module's source on which kernels depend: no docstrings, no Python code."""
    # of the classes, it has the fields of named tuples: kernels take them by their position
    return _dumped(ast.parse(text))


def _dumped(module: ast.Module) -> str:
    if any(isinstance(node, ast.ImportFrom) and (node.module or '').startswith('llvmlite')
           for node in module.body):
        return ast.dump(module)  # all of it builds machine code
    kept = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            if not node.decorator_list:
                continue
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
        elif isinstance(node, ast.ClassDef):
            if not any(isinstance(base, ast.Name) and base.id == 'NamedTuple'
                       for base in node.bases):
                continue
            node.body = [one for one in node.body if isinstance(one, ast.AnnAssign)]
        elif not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
            continue
        kept.append(ast.dump(node))
    return '\n'.join(kept)


def _defines_kernels(text: str) -> bool:
    decorators = 'kernel', 'inlined', 'part', 'released', 'stage', 'viewing'
    return any(f'\n@{decorator}' in text for decorator in decorators)


def _imported(module: ast.Module) -> list[str]:
    """Names that a module imports: of modules, and of what it takes from them."""
    names: list[str] = []
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f'{node.module}.{one.name}' for one in node.names)]
        elif isinstance(node, ast.Import):
            names += [one.name for one in node.names]
    return names


def _reached(roots: list[str], parsed: dict[str, ast.Module], sources: dict[str, str]
             ) -> dict[str, ast.Module]:
    """Return `roots`, and all modules of `sources` that they import, directly or indirectly."""
    found: dict[str, ast.Module] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or name not in sources:
            continue
        if name not in parsed:
            parsed[name] = ast.parse(sources[name])
        found[name] = parsed[name]
        waiting += _imported(found[name])
    return found


def kernel_modules(sources: dict[str, str]) -> dict[str, ast.Module]:
    """Return the modules that define kernels, and all that they import, directly or indirectly."""
    return _reached([name for name, text in sources.items() if _defines_kernels(text)], {},
                    sources)


def source_digests(version: str) -> dict[str, str]:
    """Digest, for each module with kernels, of `version` and the source that its kernels use."""
    # That is its own source, that of the modules that it imports, directly or indirectly, and that
    # of `osc_ros.compile`. The name '' has the digest of the source of all kernels.
    sources = {'.'.join([PACKAGE.name, *path.relative_to(PACKAGE).with_suffix('').parts]):
               path.read_text(encoding='utf-8') for path in PACKAGE.rglob('*.py')}
    everywhere = [name for name in sources if name.startswith(f'{PACKAGE.name}.compile.')]
    own = [name for name, text in sources.items() if _defines_kernels(text)]
    parsed: dict[str, ast.Module] = {}
    dumped: dict[str, str] = {}

    def digest(roots: list[str]) -> str:
        found = hashlib.sha256(version.encode())
        for name, module in sorted(_reached(roots + everywhere, parsed, sources).items()):
            if name not in dumped:
                dumped[name] = _dumped(module)
            found.update(f'{name}\n{dumped[name]}'.encode())
        return found.hexdigest()[:16]

    return {'': digest(own), **{name: digest([name]) for name in own}}


def stored_digests(folder: Path, version: str) -> dict[str, str]:
    """`source_digests`, read from a file in `folder` if they were computed before."""
    # To compute them takes more than a second. The name of the file depends on times and sizes of
    # all source files, among them the inode change time: a program cannot set it, so a source file
    # with changed content has another one.
    states = [(str(path), state.st_mtime_ns, state.st_ctime_ns, state.st_size)
              for path in sorted(PACKAGE.rglob('*.py')) for state in [path.stat()]]
    name = hashlib.sha256(repr((version, states)).encode()).hexdigest()[:16]
    file = folder / f'digests-{name}'
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text(encoding='ascii'))
        if isinstance(found, dict) and '' in found:
            os.utime(file)  # for `_remove_unused`
            return found
    digests = source_digests(version)
    _remove_unused(folder, digests)
    with suppress(OSError):  # another process never reads a half-written file
        handle, written = tempfile.mkstemp(dir=folder)
        with open(handle, 'w', encoding='ascii') as new:
            json.dump(digests, new)
        os.replace(written, file)
    return digests


def _remove_unused(folder: Path, digests: dict[str, str]) -> None:
    """Remove machine code of other versions of the source that no process has used for KEPT."""
    kept, oldest = set(digests.values()), time() - KEPT
    for file in folder.glob('digests-*'):
        with suppress(OSError, ValueError):
            if file.stat().st_mtime < oldest:
                file.unlink()
            else:
                kept.update(json.loads(file.read_text(encoding='ascii')).values())
    for file in folder.glob('*-*-*.*'):  # module.kernel-digest-tag.suffix
        with suppress(OSError):
            if file.name.split('-')[1] not in kept and file.stat().st_mtime < oldest:
                file.unlink()
