# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Changes to Numba's compiler that save time: in the code of operations, and in look-ups."""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags


class _OperationLibrary(JITCodeLibrary):  # type: ignore[misc]
    """
    The code of an operation, for linking into kernels only.

    It is optimized and translated as a part of each kernel, and so not on its own, which would
    take as long again.

    """

    @property
    def codegen(self) -> _OperationLibrary:
        """What keeps the environments of functions that Python can call."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing: nobody calls this code."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return that there is no translated code."""
        self._ensure_finalized()
        return 0

    def finalize(self) -> None:
        """Link the code with that of the operations that it calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalized = True


class OperationCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, with an `_OperationLibrary` for the code."""

    def define_pipelines(self) -> Any:
        """Return Numba's own pipelines."""
        name = self.state.func_id.func_qualname
        self.state.library = _OperationLibrary(self.state.targetctx.codegen(), name)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class KnownFlags(Flags):  # type: ignore[misc]
    """
    Options of a compilation that keep the table of their values.

    Numba compares these tables whenever it looks up a call that it has seen before, and makes each
    of them anew: a seventh of the time of a compilation.

    """

    def __setattr__(self, name: str, value: object) -> None:
        """Set an option; the table is made again."""
        super().__setattr__(name, value)
        super().__setattr__('table', None)

    def discard(self, name: str) -> None:
        """Let an option have its default; the table is made again."""
        super().discard(name)
        super().__setattr__('table', None)

    def values(self) -> dict[str, object]:
        """Return a table of all options, which nobody may change."""
        if self.table is None:
            super().__setattr__('table', super().values())
        table: dict[str, object] = self.table
        return table
