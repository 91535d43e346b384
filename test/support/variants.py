# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameters of a test of which `make test` tries the first, and `make test-all` all."""

import pytest


def first_quick(values, count=1):
    """
    Return parameters for `pytest.mark.parametrize`, all but the first `count` of them slow.

    A tuple has the values of several arguments. The first values should be the most different
    ones, because only they are tried in `make test`.

    """
    return [value if k < count else _slow(value) for k, value in enumerate(values)]


def quick_if(is_quick, values):
    """Return parameters as `first_quick` does; slow are those for which `is_quick` is false."""
    return [value if is_quick(*_given(value)) else _slow(value) for value in values]


def _given(value):
    return value.values if hasattr(value, 'marks') else value if isinstance(value, tuple) else (
        value,)


def _slow(value):
    marks, name = (value.marks, value.id) if hasattr(value, 'marks') else ((), None)
    return pytest.param(*_given(value), id=name, marks=[*marks, pytest.mark.slow])
