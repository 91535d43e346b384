# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Changes to Numba's compiler that save compile time."""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags


class _OperationLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of an operation, for linking into kernels only."""

    # Each kernel optimizes and translates it as a part of its own code; to do so for the operation
    # alone too would double the time.

    @property
    def codegen(self) -> _OperationLibrary:
        """The object whose `set_env` Numba calls: this library."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing: Python cannot call this code."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, because there is no machine code."""
        self._ensure_finalized()
        return 0

    def finalize(self) -> None:
        """Link the code with that of the operations that it calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalized = True


class OperationCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, with an `_OperationLibrary` for the code."""

    def define_pipelines(self) -> Any:
        """Replace the library for the code, and return Numba's pipelines."""
        name = self.state.func_id.func_qualname
        self.state.library = _OperationLibrary(self.state.targetctx.codegen(), name)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class KnownFlags(Flags):  # type: ignore[misc]
    """Options of a compilation that cache the table of their values."""

    # Numba compares these tables in every look-up of a call that it has compiled before, and would
    # build each table again: a seventh of the compile time.

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        super().__setattr__('table', None)

    def discard(self, name: str) -> None:
        """Set an option to its default."""
        super().discard(name)
        super().__setattr__('table', None)

    def values(self) -> dict[str, object]:
        """Return the table of all options; do not change it."""
        if self.table is None:
            super().__setattr__('table', super().values())
        table: dict[str, object] = self.table
        return table
