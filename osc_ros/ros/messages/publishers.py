# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Publishers of a topic: their names, and the choice of one whose messages are accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rclpy.node import Node

from osc_ros.control.safety.command_check import RELAYED

# replace the unknown GID of one publisher, or of several
UNKNOWN_GID, AMBIGUOUS_GID = bytes(16), b''
NAMELESS = 'a node of unknown name'
SEVERAL = 'several nodes publish commands, and none of them has been the only one'
LOGGED = 1.0  # shortest time between two log messages that name other publishers [s]
KNOWN, NEW, OTHER, UNCLEAR = 'known', 'new', 'other', 'unclear'


def publishers(node: Node, topic: str) -> dict[str, str]:
    """
    Return the full node names of all publishers on a topic by their GID, in hexadecimal digits.

    A GID has 16 bytes here. The call takes 0.2 ms, too long for every command.

    """
    return {bytes(one.endpoint_gid[:16]).hex(): _full_name(one.node_namespace, one.node_name)
            for one in node.get_publishers_info_by_topic(topic)}


class Senders:
    """
    Names of the nodes that publish on topics, for the log and the diagnostics.

    `topics` maps the key of an entry in the diagnostics to the topics that this entry covers.

    """

    def __init__(self, node: Node, topics: Mapping[str, Sequence[str]]) -> None:
        self._node, self._topics = node, topics
        self._names = dict.fromkeys(topics, '')

    def update(self) -> None:
        """
        Log the publishers if they have changed.

        This takes 0.2 ms for each topic with publishers.

        """
        for key, topics in self._topics.items():
            names = ', '.join(sorted({
                name for topic in topics if self._node.count_publishers(topic)
                for name in publishers(self._node, topic).values()}))
            if names != self._names[key]:
                self._names[key] = names
                self._node.get_logger().info(f"{key} {names or 'nobody'}")

    def values(self) -> Iterator[tuple[str, object]]:
        """Yield the keys and values of the diagnostics."""
        yield from self._names.items()


def _full_name(namespace: str, name: str) -> str:
    if name.startswith('_NODE_NAME_UNKNOWN'):
        return NAMELESS
    return f"{namespace.rstrip('/')}/{name}"


class Source:
    """
    Choice of one publisher of a topic by its GID, which the middleware gives with each message.

    The only publisher of a topic is chosen at its first message. Of several publishers, one is
    chosen when no other one has sent messages during the time-out; until then the messages of all
    are refused. Another publisher can replace the chosen one only if the chosen one has been
    silent for the time-out, or has ended.

    Attributes
    ----------
    gid : (2,) int
        GID of the publisher that was chosen last; zeros before the first one.
    has_one : bool
        Whether a publisher is chosen at present; it may be silent.
    names : dict of str to str
        By GID, the name of the node of the chosen publisher. If that is unknown, the names of all
        nodes that may have sent its messages.
    refused : int
        Number of messages of other publishers.
    refused_at : float
        Time of the last message of another publisher [s].

    Parameters
    ----------
    record : record RELAYED, optional
        Gets the GID, and `heard`, the time of the last message of the chosen publisher [s].

    """

    def __init__(self, record: Any = None) -> None:
        self.names, self.refused, self.refused_at = dict[str, str](), 0, -np.inf
        self._record = RELAYED.new() if record is None else record
        self.gid, self._record.heard = self._record.gid, -np.inf
        self.has_one = self._had_one = False
        self._named = -np.inf
        # times of the first and the last message of each other publisher [s]
        self._others: dict[bytes, tuple[float, float]] = {}

    def take_names(self, everybody: dict[str, str]) -> None:
        """
        Set `names`; `everybody` has the names of all publishers by GID.

        If the GID of the chosen publisher is in `everybody`, `names` gets only the name of
        this publisher. Otherwise any of the publishers may be the chosen one, and `names`
        gets all names.

        """
        gid = self.gid.tobytes().hex()
        self.names = {gid: everybody[gid]} if gid in everybody else everybody

    def others(self, everybody: dict[str, str]) -> dict[str, str]:
        """Return the names of all publishers by GID, without the names in `names`."""
        return {gid: name for gid, name in everybody.items() if gid not in self.names}

    def may_name_others(self, now: float) -> bool:
        """Return whether LOGGED has passed since the last True; `now` is the time [s]."""
        if is_due := now - self._named > LOGGED:
            self._named = now
        return is_due

    def refusal(self, where: str, everybody: dict[str, str]) -> str:
        """
        Return the reason for refusing a message.

        `where` is the result of `classify`; `everybody` has the names of all publishers by
        GID.

        """
        if where == UNCLEAR:
            return f'{SEVERAL}: {gids(everybody)}'
        return (f'commands of another publisher than {gids(self.names)}: '
                f'{gids(self.others(everybody))}')

    def classify(self, gid: bytes, count: int, now: float, timeout: float) -> str:
        """
        Decide whether a message comes from the chosen publisher; choose one if possible.

        Parameters
        ----------
        gid : bytes
            GID of the publisher; empty if it is unknown.
        count : int
            Number of publishers that the subscription is matched with.
        now, timeout : float [s]

        Returns
        -------
        str
            KNOWN: the publisher of the message was chosen before. NEW: it is chosen now. OTHER:
            another publisher is chosen. UNCLEAR: there are several publishers, and none is chosen.

        """
        self._others = {other: times for other, times in self._others.items()
                        if now - times[1] <= timeout}
        if not gid and count > 1:
            self._had_one = False
            return self._note(AMBIGUOUS_GID, now, UNCLEAR)
        name = gid or UNKNOWN_GID
        is_last = self._had_one and name == self.gid.tobytes()
        if self.has_one and is_last:
            return self._take(name, now, KNOWN)
        if self.has_one and now - self._record.heard <= timeout:
            return self._note(name, now, OTHER)
        first, _ = self._others.get(name, (now, now))
        may_follow = is_last or self.has_ended
        if self._others.keys() - {name} or not may_follow and count > 1 and now - first < timeout:
            return self._note(name, now, OTHER if self.has_one else UNCLEAR)
        return self._take(name, now, KNOWN if is_last else NEW)

    @property
    def has_ended(self) -> bool:
        """Whether the last message of the chosen publisher has come, as reported by `end`."""
        return bool(self.has_one and self._record.heard == -np.inf)

    def end(self) -> None:
        """
        Record that the chosen publisher has sent its last message.

        Now another publisher may be chosen at once.

        """
        self._record.heard = -np.inf

    def _take(self, name: bytes, now: float, where: str) -> str:
        """Choose the publisher of a message, or accept a message of the chosen publisher."""
        self.has_one = self._had_one = True
        self.gid[:], self._record.heard = np.frombuffer(name, dtype=np.int64), now
        self._others.pop(name, None)
        return where

    def _note(self, name: bytes, now: float, where: str) -> str:
        """Count a message of a publisher that is not chosen."""
        first, _ = self._others.get(name, (now, now))
        self._others[name] = first, now
        self.refused, self.refused_at = self.refused + 1, now
        if where == UNCLEAR:
            self.has_one = False
        return where


def gids(publishers: dict[str, str]) -> str:
    """Return a text with the name and GID of each publisher."""
    return ', '.join(sorted(f'{name} (GID {gid})' for gid, name in publishers.items())) or 'none'
