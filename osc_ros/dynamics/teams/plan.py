"""Number of processes that evaluate the law: what users ask for, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osc_ros.errors import InputError


@dataclass(frozen=True)
class Workers:
    """
    How many processes evaluate the law, and how they wait for each other.

    Attributes
    ----------
    count : int or 'auto'
        With the process that asks; 'auto' measures which number is fastest, call after call.
    spin : float
        How long a process that waits keeps its core before it sleeps [s]. A team that sleeps
        uses no processor, and takes 50 to 250 µs to wake: a loop whose pauses are longer than
        this pays that in every call.
    deadline : float
        A call that takes longer is finished by the process that asked, and the team replaced [s].
        Never less than twenty times what the call takes one process.

    Raises
    ------
    InputError
        A number that cannot be.

    """

    count: int | str = 'auto'
    spin: float = 2e-4
    deadline: float = 0.25

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.count != 'auto' and (type(self.count) is not int or self.count < 1):
            raise InputError(f"workers {self.count!r}: accepted is 1 or more, or 'auto'")
        for name in ('spin', 'deadline'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'workers: {name} {value!r}, accepted is 0 or more [s]')


@dataclass(frozen=True)
class Plan:
    """
    How the law is evaluated, and why.

    Attributes
    ----------
    workers : int
    reason : str
    bodies : tuple of int
        How many each worker has, base first, in a call without posture.
    faults : tuple of str
        What went wrong with a team so far; it is replaced every time.

    """

    workers: int
    reason: str
    bodies: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line."""
        ended = f'; {len(self.faults)} faults, the last: {self.faults[-1]}' if self.faults else ''
        return f"{self.workers} worker{'s' * (self.workers > 1)}: {self.reason}{ended}"
