# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Digest of the source code of all kernels; it names the folder of their machine code."""

from __future__ import annotations

import ast
from contextlib import suppress
import hashlib
import os
from pathlib import Path
import tempfile

PACKAGE = Path(__file__).parents[1]


def kernel_source(text: str) -> str:
    """Part of a module's source on which kernels depend: no docstrings, no Python functions."""
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
        elif not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
            continue
        kept.append(ast.dump(node))
    return '\n'.join(kept)


def _defines_kernels(text: str) -> bool:
    decorators = 'kernel', 'inlined', 'part', 'released', 'stage', 'viewing'
    return any(f'\n@{decorator}' in text for decorator in decorators)


def kernel_modules(sources: dict[str, str]) -> dict[str, ast.Module]:
    """Return the modules that define kernels, and all that they import, directly or indirectly."""
    found: dict[str, ast.Module] = {}
    waiting = [name for name, text in sources.items() if _defines_kernels(text)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in sources:
            continue
        found[name] = ast.parse(sources[name])
        for node in found[name].body:
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f'{node.module}.{one.name}' for one in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [one.name for one in node.names]
    return found


def source_digest(version: str) -> str:
    """Digest of `version` and of the source code from which the kernels are compiled."""
    sources = {'.'.join([PACKAGE.name, *path.relative_to(PACKAGE).with_suffix('').parts]):
               path.read_text(encoding='utf-8') for path in PACKAGE.rglob('*.py')}
    digest = hashlib.sha256(version.encode())
    for name, module in sorted(kernel_modules(sources).items()):
        digest.update(f'{name}\n{_dumped(module)}'.encode())
    return digest.hexdigest()[:16]


def stored_digest(folder: Path, version: str) -> str:
    """
    `source_digest`, read from a file in `folder` if it was computed before.

    Computing the digest takes nearly a second, because it parses the source. The name of the file
    depends on the times and sizes of all source files. One of these times is the inode change
    time; a program cannot set it, so a source file with changed content has another time.

    """
    states = [(str(path), state.st_mtime_ns, state.st_ctime_ns, state.st_size)
              for path in sorted(PACKAGE.rglob('*.py')) for state in [path.stat()]]
    name = hashlib.sha256(repr((version, states)).encode()).hexdigest()[:16]
    file = folder / f'digest-{name}'
    with suppress(OSError):
        return file.read_text(encoding='ascii')
    digest = source_digest(version)
    with suppress(OSError):  # another process never reads a half-written file
        handle, written = tempfile.mkstemp(dir=folder)
        with open(handle, 'w', encoding='ascii') as new:
            new.write(digest)
        os.replace(written, file)
    return digest
