# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Signals between the members of a team: words (int64) in the array `flags`, compiled.

Words only grow: the value of a word is the number of a command. `publish` and `has_reached` are
sequentially consistent (`atomic.py`): a member that has read a word can read all data that were
written before the word was published.
"""

from __future__ import annotations

from osc_ros.compile.atomic import exchange, load, pause, store
from osc_ros.compile.compiled import inlined, kernel

# Status in addition to DONE, WRONG_SHAPE and NOT_FINITE. WAITING: the spin limit is reached; RING:
# a sleeping member must be woken.
WAITING, RING = 3, 4
# `flags`: LINE words (two cache lines) for the command, then LINE for the words of each member,
# then LINE for the sleep flag of each member.
LINE = 16
COMMAND, MOVED, JOINED, RETURNED = 0, 0, 1, 2
# A command is its number × 8 + (inward) × 4 + (q̈ₚ given) × 2 + (τ⁰ given).
INWARD, NEXT = 4, 8
STOP = 2 ** 62
# `progress` of a member: stage, members joined, last command, first and last member to wake.
STAGE, JOINS, LAST, FIRST_RUNG, LAST_RUNG = range(5)
PROGRESS_WIDTH = 5
START, MOVE, ELIMINATE, JOIN, REST = range(5)


def words(members: int) -> int:
    """Length of `flags` for a team with this number of members."""
    return LINE * (1 + 2 * members)


@inlined
def word_of(k, which):
    """Index in `flags` of the signal `which` of member k."""
    return LINE * (1 + k) + which


@inlined
def sleep_flag_of(members, k):
    """Index in `flags` of the sleep flag of member k."""
    return LINE * (1 + members + k)


@inlined
def has_reached(flags, place, value, spins):
    """Whether flags[place] >= value; reads it up to `spins` + 1 times."""
    for _ in range(spins):
        if load(flags, place) >= value:
            return True
        pause()
    return load(flags, place) >= value


@inlined
def publish(flags, members, place, value, first, last, progress):
    """Write a value to flags[place]; return whether any of the members first … last - 1 sleeps."""
    store(flags, place, value)
    progress[FIRST_RUNG], progress[LAST_RUNG] = first, last
    for k in range(first, last):
        if load(flags, sleep_flag_of(members, k)) != 0:
            return True
    return False


@kernel
def set_sleep_flag(flags, members, k, value):
    """Set the sleep flag of member k; return its previous value."""
    return exchange(flags, sleep_flag_of(members, k), value)


@kernel
def command(flags, value):
    """Write the command word, which all workers read."""
    store(flags, COMMAND, value)
