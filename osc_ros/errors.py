# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Exceptions and warnings of osc_ros."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches, SequenceMatcher

CLOSE = 0.05  # largest difference of the similarity from the best name


class OscError(Exception):
    """Base class of all errors of osc_ros."""


class ModelError(OscError, ValueError):
    """The robot description is unusable; the message names the joint or link."""


class InputError(OscError, ValueError):
    """A state, target or setting is unusable; the message names the accepted values."""


class ReachError(InputError):
    """
    A goal is farther away than the arm is long.

    Attributes
    ----------
    distance, reach : float
        Distance of the goal from the first joint, and the largest distance of the tip from it [m].

    """

    def __init__(self, message: str, distance: float, reach: float) -> None:
        super().__init__(message, distance, reach)
        self.distance, self.reach = distance, reach

    def __str__(self) -> str:
        return str(self.args[0])


class ArmError(OscError, RuntimeError):
    """The arm does not execute a command; the message has the controller's reason."""


class ArmTimeoutError(ArmError, TimeoutError):
    """
    An event did not happen in time; the message has the state of the arm.

    Attributes
    ----------
    reasons : tuple of osc_ros.control.reasons.Reason
        Why a goal was not reached; empty for other events.

    """

    def __init__(self, message: str, reasons: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class ArmWarning(UserWarning):
    """The arm comes no nearer to its goal; the message has the causes and their remedies."""


class InputWarning(UserWarning):
    """A command was changed to an accepted one; the message has the values in use."""


class ModelWarning(UserWarning):
    """A robot description is usable but physically implausible."""


class UnitWarning(ModelWarning):
    """A robot description has numbers that are probably in another unit, such as kg mm²."""


class WorkerWarning(RuntimeWarning):
    """A worker process has failed; the result is correct, and the team is replaced."""


def installation(extra: str) -> str:
    """Return the command that installs an extra of this package, which is not on PyPI."""
    return f"pip install '.[{extra}]', in the folder that osc_ros was installed from"


def require_type(what: str, given: object, kind: type | tuple[type, ...], accepted: str) -> None:
    """Raise InputError if `given` is not of a type `kind`; `accepted` ends the error message."""
    if not isinstance(given, kind):
        raise InputError(f'{what} is of type {type(given).__name__}: must be {accepted}')


def require_options(what: str, given: Iterable[str], accepted: Iterable[str]) -> None:
    """Raise InputError if one of the given keyword options of `what` is not accepted."""
    known = list(accepted)
    for name in given:
        if name not in known:
            raise InputError(f"{what} has no option '{name}': give one of {', '.join(known)}")


def similar(name: str, known: Iterable[str], most: int = 3, least: float = 0.6) -> list[str]:
    """Return the known name that is most similar to `name`, and names about as similar."""
    # At most `most` names, none with a similarity below `least`.
    found = get_close_matches(name, known := list(known), most, least)
    if not found:
        return []
    best = SequenceMatcher(None, found[0], name).ratio()
    return [one for one in found if SequenceMatcher(None, one, name).ratio() > best - CLOSE]
