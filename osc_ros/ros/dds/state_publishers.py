# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Choice of the publishers of joint states: the states of each joint are of one publisher only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node

from osc_ros.compile.addresses import integers_at
from osc_ros.compile.compiled import inlined
from osc_ros.errors import InputError
from osc_ros.ros.dds.rcl_plan import GID, INFO, INFO_SIZE
from osc_ros.ros.messages.publishers import gids, NAMELESS, publishers, UNKNOWN_GID
from osc_ros.ros.parameters.state_input import FROM

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST = 16  # number of publishers that are remembered
RECENT = 1.0  # a publisher whose last state is older has stopped sending [s]
ALIVE = 0.1  # a publisher that discovery does not list (yet) exists if it has sent since [s]
IGNORED, USED, UNKNOWN = 0, 1, -1


class Known(NamedTuple):
    """The known publishers, for compiled code."""

    gid: Integers  # (MOST, 2)
    heard: NDArray[np.float64]  # (MOST,) times of their last messages [s]
    used: Integers  # (MOST,) IGNORED or USED
    ignored: Integers  # (1,) number of ignored messages

    @classmethod
    def empty(cls) -> Known:
        """Return a table without publishers."""
        integers = np.zeros((MOST, 2), dtype=np.int64)
        return cls(integers, np.full(MOST, -np.inf), integers[:, 0].copy(), integers[0, :1].copy())


@inlined
def source_of(plan, known, now):
    """Return whether the message taken last is of a publisher that is USED, IGNORED or UNKNOWN."""
    info = integers_at(plan[INFO], INFO_SIZE)
    for k in range(len(known.heard)):
        if info[GID] == known.gid[k, 0] and info[GID + 1] == known.gid[k, 1]:
            known.heard[k] = now
            if known.used[k] == IGNORED:
                known.ignored[0] += 1
            return known.used[k]
    return UNKNOWN


class StatePublishers:
    """Publishers of the joint states of n joints: all wanted ones; after `fix`, one per joint."""

    def __init__(self, node: Node, joints: Sequence[str], wanted: Iterable[str]) -> None:
        self.topic = node.resolve_topic_name('joint_states')
        # node names by GID, from the last `resolve`; value of the parameter FROM
        self.known, self.everybody, self.wanted = Known.empty(), dict[str, str](), tuple(wanted)
        self._node, self._joints = node, tuple(joints)
        self._sent = np.zeros((MOST, len(self._joints)), dtype=bool)  # the joints that each sends
        self._owners: Integers | None = None  # row of each joint's publisher; None: not fixed
        self._named = dict[str, str]()  # known names by GID, also of remembered ended publishers

    def resolve(self) -> None:
        """Look up the node names of all publishers; this takes 0.3 ms."""
        found = publishers(self._node, self.topic)
        remembered = {*found, *(self._gid(row) for row in range(MOST))}
        self._named = {gid: name for gid, name in {**found, **self._named}.items()
                       if name != NAMELESS and gid in remembered}
        self.everybody = {gid: self._named.get(gid, name) for gid, name in found.items()}

    @property
    def is_fixed(self) -> bool:
        """Whether publishers have been chosen."""
        return self._owners is not None

    @property
    def is_single(self) -> bool:
        """Whether one publisher was chosen for all joints."""
        return self._owners is not None and len(set(self._owners.tolist())) == 1

    def note(self, gid: bytes, now: float) -> int:
        """Return the row of the publisher of a message that came at a time [s]."""
        known, number = self.known, np.frombuffer(gid, dtype=np.int64)
        rows = np.flatnonzero((known.gid == number).all(axis=1))
        if len(rows):
            row = int(rows[0])
        else:
            row = int(np.where(known.used & self.is_fixed, np.inf, known.heard).argmin())
            known.gid[row], known.used[row], self._sent[row] = number, IGNORED, False
        known.heard[row] = now
        if self._owners is None:
            known.used[row] = self._is_wanted(row)
        return row

    def used_joints(self, row: int, joints: Flags) -> Flags:
        """Note that a publisher sends these joints (n,); return which of them are used."""
        self._sent[row] |= joints
        if self._owners is not None:
            return joints & (self._owners == row)
        return joints & bool(self.known.used[row])

    def uses(self, row: int) -> bool:
        """Whether states of this publisher are used."""
        return bool(self.known.used[row])

    def choice(self, now: float) -> Integers:
        """Return the row (n,) of each joint's publisher; InputError if it has several or none."""
        return self._new_choice(now, True) if self._owners is None else self._owners

    def _new_choice(self, now: float, takes_last: bool) -> Integers:
        heard = np.where(self._sent.any(axis=1), self.known.heard, -np.inf)
        last = int(heard.argmax()) if takes_last else -1  # even if a simulation is slow
        sends = [row for row in range(MOST) if self._is_wanted(row)
                 and (row == last or self._sends(row, now))]
        owners = np.zeros(len(self._joints), dtype=np.int64)
        for i, joint in enumerate(self._joints):
            of = [row for row in sends if self._sent[row, i]]
            if not of:
                raise InputError(f"no publisher on '{self.topic}' sends '{joint}'")
            if len(of) > 1:
                raise InputError(
                    f"several publishers on '{self.topic}' send '{joint}': {self._names(of)}: end "
                    f"all but one, or give its node in parameter '{FROM.name}'")
            owners[i] = of[0]
        if self.known.gid[owners[0]].tobytes() == UNKNOWN_GID and len(self.everybody) > 1:
            raise InputError(f"'{self.topic}' has several publishers ({gids(self.everybody)}), "
                             'and the middleware does not tell them apart: end all but one')
        return owners

    def _sends(self, row: int, now: float) -> bool:
        age = now - self.known.heard[row]
        return bool(age <= ALIVE or age <= RECENT and self._gid(row) in self.everybody)

    def fix(self, owners: Integers) -> None:
        """Use from now on only these publishers (n,) of the joints, see `choice`."""
        self._owners = owners
        self.known.used[:] = IGNORED
        self.known.used[owners] = USED

    def free(self) -> None:
        """Use again all wanted publishers."""
        self._owners = None

    def replace_ended(self, now: float, timeout: float) -> str:
        """Choose again if one ended or was silent for `timeout` [s]; return new names, or ''."""
        # For errors see `choice`.
        if self._owners is None or not any(self._has_ended(row, now, timeout)
                                           for row in set(self._owners.tolist())):
            return ''
        if not any(self._sent[row].any() and self._sends(row, now) and not self.uses(row)
                   for row in range(MOST)):
            return ''
        self.fix(self._new_choice(now, False))
        return self.used_names()

    def _has_ended(self, row: int, now: float, timeout: float) -> bool:
        age = now - self.known.heard[row]
        return bool(age > timeout or age > ALIVE and self._gid(row) not in self.everybody)

    # texts

    def used_nodes(self) -> set[str]:
        """Return the full names of the nodes whose states are used; NAMELESS if one is unknown."""
        return {self.everybody.get(self._gid(row), NAMELESS) for row in self._used_rows()}

    def _used_rows(self) -> list[int]:
        return [row for row in range(MOST) if self.known.used[row] and self._sent[row].any()]

    def used_names(self) -> str:
        """Return the names and GIDs of the publishers whose states are used."""
        if self._owners is None:
            return self._names(row for row in self._used_rows()
                               if self._gid(row) in self.everybody)
        return self._names(set(self._owners.tolist()))

    def ignored_names(self, now: float) -> str:
        """Return the names and GIDs of publishers of these joints whose states are ignored."""
        return self._names(row for row in range(MOST) if not self.known.used[row]
                           and self._sent[row].any() and self._sends(row, now))

    def silence(self, now: float) -> str:
        """Return why no states come although another publisher sends them; '' if none does."""
        if self._owners is None or not (others := self.ignored_names(now)):
            return ''
        return (f'the joint states of {self.used_names()} have ended; those of {others} are '
                'ignored until they are released')

    def lack(self) -> str:
        """Return why no publisher is used; '' if one is."""
        if not self.wanted or self.known.used.any():
            return ''
        return (f"'{self.topic}' has no publisher of parameter '{FROM.name}' "
                f"({', '.join(self.wanted)}); it has {gids(self.everybody)}")

    def _is_wanted(self, row: int) -> bool:
        name = self.everybody.get(self._gid(row), '').lstrip('/')
        return not self.wanted or name in [one.lstrip('/') for one in self.wanted]

    def _gid(self, row: int) -> str:
        return self.known.gid[row].tobytes().hex()

    def _names(self, rows: Iterable[int]) -> str:
        found = {self._gid(row): self._named.get(self._gid(row), NAMELESS) for row in rows}
        return gids(found) if found else ''
