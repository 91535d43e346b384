# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Records of the requested number of worker processes, and of the number in use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osc_ros.errors import InputError


@dataclass(frozen=True)
class Workers:
    """
    Number of processes that evaluate the torques of a chain, and how they wait for each other.

    Attributes
    ----------
    count : int or 'auto'
        Number of processes, including the calling process; 'auto' measures which number is fastest
        in a tight loop.
    spin : float
        Duration for which a waiting process spins before it sleeps [s]. A sleeping team uses no
        processor time, and takes 50 to 250 µs to wake: if the pause between two calls is longer
        than `spin`, every call takes 50 to 250 µs longer. If a wait within a call ended in sleep,
        the next such wait spins for 50 µs at most.
    deadline : float
        If a call takes longer than this [s], the calling process finishes the call alone, and the
        team is replaced. The effective deadline is at least twenty times the duration of a call by
        one process.

    Raises
    ------
    InputError
        If a value is out of its range.

    """

    count: int | str = 'auto'
    spin: float = 2e-4
    deadline: float = 0.25

    def __post_init__(self) -> None:
        if self.count != 'auto' and (type(self.count) is not int or self.count < 1):
            raise InputError(f"workers {self.count!r}: must be 1 or more, or 'auto'")
        for name in ('spin', 'deadline'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'workers: {name} {value!r}, must be 0 or more [s]')


@dataclass(frozen=True)
class Plan:
    """
    The number of processes that evaluate the torques, and the reason for it.

    Attributes
    ----------
    workers : int
    reason : str
    bodies : tuple of int
        Number of bodies of each worker, base first, in a call without τ⁰ and posture acceleration.
    faults : tuple of str
        Failures of the team so far; a new team starts after each of them.

    """

    workers: int
    reason: str
    bodies: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        ended = f'; {len(self.faults)} faults, the last: {self.faults[-1]}' if self.faults else ''
        return f"{self.workers} worker{'s' * (self.workers > 1)}: {self.reason}{ended}"
