# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Exceptions and warnings of osc_ros."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches, SequenceMatcher

CLOSE = 0.05  # names are suggested whose similarity is less than this below the largest one


class OscError(Exception):
    """Base class of all errors of osc_ros."""


class ModelError(OscError, ValueError):
    """An unusable robot description: names the joint or link, and what is accepted."""


class InputError(OscError, ValueError):
    """An unusable state, target or setting: says what, where, and what is accepted."""


class ArmError(OscError, RuntimeError):
    """An arm that does not do what was commanded: says why, in the words of its controller."""


class ArmTimeoutError(ArmError, TimeoutError):
    """Something that did not happen in time: says what, and the state of the arm."""


class ModelWarning(UserWarning):
    """A robot description that is usable but physically implausible."""


class WorkerWarning(RuntimeWarning):
    """A process of a team has failed; the result is correct, and the team is replaced."""


def installation(extra: str) -> str:
    """Return the command that installs an extra of this package, which is not on PyPI."""
    return f"pip install '.[{extra}]', in the folder that osc_ros was installed from"


def require_type(what: str, given: object, kind: type | tuple[type, ...], accepted: str) -> None:
    """Raise InputError if `given` is no `kind`; `accepted` is the end of the error message."""
    if not isinstance(given, kind):
        raise InputError(f'{what} is of type {type(given).__name__}: accepted is {accepted}')


def similar(name: str, known: Iterable[str], most: int = 3, least: float = 0.6) -> list[str]:
    """Return the most similar known names, at most `most`; all about as similar as the first."""
    found = get_close_matches(name, known := list(known), most, least)
    if not found:
        return []
    best = SequenceMatcher(None, found[0], name).ratio()
    return [one for one in found if SequenceMatcher(None, one, name).ratio() > best - CLOSE]
