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
# The publisher of a message was chosen before; is chosen now; another one is chosen; there are
# several publishers, and none is chosen.
KNOWN, NEW, OTHER, UNCLEAR = 'known', 'new', 'other', 'unclear'


def publishers(node: Node, topic: str) -> dict[str, str]:
    """Return the full node names of a topic's publishers by GID (hex); this takes 0.2 ms."""
    return {bytes(one.endpoint_gid[:16]).hex(): _full_name(one.node_namespace, one.node_name)
            for one in node.get_publishers_info_by_topic(topic)}


def sends_whole_states(node: Node, topic: str, names: Sequence[str], joints: Sequence[str]
                       ) -> bool:
    """Return whether a topic has one publisher, which names all joints, and not only some."""
    # `names`: the joints in the last message of the topic. If this is False, take the states from
    # ~/commands_stamped: a controller sends there the states that it has answered, and it knows
    # which publisher they are from.
    return bool(joints) and {*joints} <= {*names} and node.count_publishers(topic) == 1


def log_states_of(node: Node, before: tuple[str, str, int], found: tuple[str, str, int]
                  ) -> tuple[str, str, int]:
    """Return `found`, see `Loop.publisher_names`; log those that are not as `before`."""
    used, ignored = found[:2]
    if used != before[0]:
        node.get_logger().info(f'joint states of {used or "nobody"}')
    if ignored not in ('', before[1]):
        node.get_logger().warning(f'joint states of {ignored} are ignored: used are those of '
                                  f'{used or "nobody"}')
    return found


class Senders:
    """Names of the nodes that publish on topics: for each key of the diagnostics, its topics."""

    def __init__(self, node: Node, topics: Mapping[str, Sequence[str]]) -> None:
        self._node, self._topics = node, topics
        self._names = dict.fromkeys(topics, '')

    def update(self) -> None:
        """Log the publishers if they have changed; takes 0.2 ms per topic with publishers."""
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
    """Choice of one publisher of a topic by its GID, which the middleware gives with a message."""

    def __init__(self, record: Any = None) -> None:
        # by GID the node of the chosen publisher, or all nodes that may have sent its messages;
        # number of messages of other publishers, and time of the last one [s]
        self.names, self.refused, self.refused_at = dict[str, str](), 0, -np.inf
        self._record = RELAYED.new() if record is None else record
        # GID (2,) of the last chosen publisher, or zeros; time of its last message [s]
        self.gid, self._record.heard = self._record.gid, -np.inf
        # whether a publisher is chosen at present, which may be silent; and at the last message
        self.has_one = self._had_one = False
        self._named = -np.inf
        # times of the first and the last message of each other publisher [s]
        self._others: dict[bytes, tuple[float, float]] = {}

    def take_names(self, everybody: dict[str, str]) -> None:
        """Set `names` to the chosen publisher, or to all if its GID is not in `everybody`."""
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
        """Return why a message is refused; `where`: from `classify`, `everybody`: names by GID."""
        if where == UNCLEAR:
            return f'{SEVERAL}: {gids(everybody)}'
        return (f'commands of another publisher than {gids(self.names)}: '
                f'{gids(self.others(everybody))}')

    def classify(self, gid: bytes, count: int, now: float, timeout: float) -> str:
        """Return KNOWN, NEW, OTHER or UNCLEAR for the publisher of a message; it may be chosen."""
        # The only publisher is chosen at once; of several, one when no other one has sent for
        # `timeout` [s]. Another one replaces it only after a silence of `timeout`, or `end`. `gid`
        # is empty if it is unknown; `count` is the number of matched publishers.
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
        """Record the last message of the chosen publisher: now another one may be chosen."""
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
