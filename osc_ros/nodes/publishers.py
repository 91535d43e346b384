# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The publishers of a topic: their names, and which of them sent a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from rclpy.node import Node

# Largest difference of the numbers of two successive messages of one publisher. The transport is
# reliable: few messages are lost unless the relay is late.
CLOSE = 10
MEMORY = 20.0  # a silent publisher is forgotten after this time [time-outs]
MOST = 16  # largest number of publishers that are tracked
PATIENCE = 3.0  # longest time to the next message if none was lost [periods]
NAMELESS = 'a node of unknown name'
KNOWN, NEW, OTHER, UNCLEAR = 'known', 'new', 'other', 'unclear'


def with_info(callback: Callable[[Any, dict[str, Any]], None]) -> Callable[..., None]:
    """
    Return a subscription callback for (message, info) that works with every executor.

    rclpy's events executor (Jazzy) passes both as one tuple.

    """
    @wraps(callback)
    def unpack(*given: Any) -> None:
        callback(*(given if len(given) == 2 else given[0]))

    return unpack


def publishers(node: Node, topic: str) -> dict[str, str]:
    """
    Return the full node names of all publishers on a topic, by their GID in hexadecimal digits.

    Takes 0.2 ms, too long for every command.

    """
    return {bytes(one.endpoint_gid).hex(): _full_name(one.node_namespace, one.node_name)
            for one in node.get_publishers_info_by_topic(topic)}


class Senders:
    """
    Names of the nodes that publish on topics, for the log and the diagnostics.

    Parameters
    ----------
    node : Node
    topics : mapping of str to sequence of str
        Topics by the key of their line.

    """

    def __init__(self, node: Node, topics: Mapping[str, Sequence[str]]) -> None:
        self._node, self._topics = node, topics
        self._names = dict.fromkeys(topics, '')

    def update(self) -> None:
        """Look for publishers, and log a change; takes 0.2 ms for each topic that has some."""
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


@dataclass(eq=False)
class _Stream:
    """One publisher: number of its last message, arrival of its last and first message [s]."""

    last: int
    heard: float
    since: float


class Source:
    """
    Chooses one publisher of a topic, and distinguishes its messages from those of others.

    rclpy does not say which publisher sent a message, but every publisher numbers its messages
    1, 2, 3, …, and they arrive in this order. So a message whose number continues that of an
    earlier message is of the same publisher. A publisher is chosen at once if it is alone,
    otherwise when no other publisher has sent a message for the time-out; it stays chosen until
    it has been silent for the time-out, and is chosen again if it is the first to go on. If the
    message numbers of two publishers are so close that a message may be of either, none is chosen
    until only one of them publishes. If the middleware does not number messages, none is chosen
    while there are several publishers.

    Parameters
    ----------
    rate : float [Hz]
        Expected rate of one publisher.

    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._taken: _Stream | None = None
        self._silent: _Stream | None = None  # chosen last, while none is chosen after its silence
        self._doubted: _Stream | None = None
        self._others: list[_Stream] = []
        self._crowded = self._unclear = -float('inf')

    @property
    def has_one(self) -> bool:
        """Whether a publisher is chosen; it may be silent."""
        return self._taken is not None

    def judge(self, number: int | None, count: int, now: float, timeout: float) -> str:
        """
        Return whether a message is of the chosen publisher.

        Parameters
        ----------
        number : int, optional
            `publication_sequence_number` of the message; None if the middleware has none.
        count : int
            Number of publishers that the subscription is matched with.
        now, timeout : float [s]

        Returns
        -------
        str
            KNOWN: of the chosen publisher; NEW: of a publisher that is chosen now; OTHER: of
            a publisher that is not chosen; UNCLEAR: there are several, and none is chosen.

        """
        if count > 1:
            self._crowded = now
        if self._taken is not None and now - self._taken.heard > timeout:
            self._others.append(self._taken)
            self._taken, self._silent = None, self._taken
        self._others = [one for one in self._others[-MOST:]
                        if now - one.heard <= MEMORY * timeout]
        # messages of a publisher that has just gone may still be queued
        is_alone = now - self._crowded > timeout
        if number is None:
            if not is_alone:
                return self._lose(now)
            number = 0 if self._taken is None else self._taken.last + 1
        return self._judge_only(number, now) if is_alone else self._judge(number, now, timeout)

    def _judge_only(self, number: int, now: float) -> str:
        """Return KNOWN or NEW for a message by its number, on a topic with one publisher."""
        self._others, self._doubted, self._silent = [], None, None
        if self._taken is None or number <= self._taken.last:
            self._taken = _Stream(number, now, now)
            return NEW
        self._taken.last, self._taken.heard = number, now
        return KNOWN

    def _judge(self, number: int, now: float, timeout: float) -> str:
        """Return KNOWN, NEW, OTHER or UNCLEAR for a message number, with several publishers."""
        taken, doubted = self._taken, self._doubted
        if doubted is not None and (taken is None or taken.last < number <= doubted.last):
            # the chosen publisher has lost no message: another publisher sent the doubted one
            self._others.append(doubted)
            self._doubted = None
        known = self._others if taken is None else [taken, *self._others]
        found = [one for one in known if 0 < number - one.last <= CLOSE]
        if len(found) > 1:
            return self._lose(now)
        if taken is not None and found == [taken]:
            if number > taken.last + 1 and not self._others:
                # either messages of the chosen publisher were lost, or another one has begun
                self._doubted = self._doubted or _Stream(number, now, now)
                self._doubted.last = number
                if now - self._doubted.since <= PATIENCE / self._rate:
                    return OTHER
            taken.last, taken.heard, self._doubted = number, now, None
            return KNOWN
        if found:
            one = found[0]
            one.last, one.heard = number, now
        else:
            one = _Stream(number, now, now)
            self._others.append(one)
        if taken is not None:
            return OTHER
        if one is self._silent:
            self._others.remove(one)
            self._taken, self._silent = one, None
            return KNOWN
        if sum(now - other.heard <= timeout for other in self._others) > 1:
            self._unclear = now
        if now - self._unclear <= timeout or now - one.since < timeout:
            return UNCLEAR
        self._others.remove(one)
        self._taken, self._silent = one, None
        return NEW

    def _lose(self, now: float) -> str:
        """Refuse all messages until only one publisher publishes; return UNCLEAR."""
        self._others += [one for one in (self._taken, self._doubted) if one is not None]
        self._taken = self._doubted = self._silent = None
        self._unclear = now
        return UNCLEAR
