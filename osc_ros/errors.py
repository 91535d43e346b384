"""Exceptions and warnings of osc_ros."""

from __future__ import annotations


class OscError(Exception):
    """Base class of all errors of osc_ros."""


class ModelError(OscError, ValueError):
    """An unusable robot description: names the joint or link, and what is accepted."""


class InputError(OscError, ValueError):
    """An unusable state, target or setting: says what, where, and what is accepted."""


class ModelWarning(UserWarning):
    """A robot description that is usable but physically implausible."""


class WorkerWarning(RuntimeWarning):
    """A process of a team has failed; the result is correct, and the team is replaced."""


def require_type(what: str, given: object, kind: type | tuple[type, ...], accepted: str) -> None:
    """Raise InputError if an argument has another type; `accepted` completes the message."""
    if not isinstance(given, kind):
        raise InputError(f'{what} is of type {type(given).__name__}: accepted is {accepted}')
