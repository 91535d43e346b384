# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Agreement of several controllers on one command topic about which of them may be active."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from time import perf_counter, sleep, time_ns
from uuid import uuid4

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from std_msgs.msg import String

from osc_ros.errors import InputError
from osc_ros.ros.dds.inbox import hidden_node, Inbox
from osc_ros.ros.messages.publishers import NAMELESS, publishers
from osc_ros.ros.messages.qos import LATCHED_QOS
from osc_ros.ros.parameters.controller_parameters import ON_ACTIVATION

PERIOD = 0.1  # period of the claims of a controller [s]
# Time without claims after which a controller counts as ended, even if DDS still lists it [s].
SILENCE = 1.0
FOUND = 0.5  # time for a new node to discover the others, with the DDS profile of the package [s]
PATIENCE = 2.5  # longest time until it is decided which controller may be active [s]
# Longest wait for a controller that started earlier and is not ready yet [s]: if two start
# together, either may be configured first.
HEAD_START = 2.0
MOST = 64  # largest number of controllers whose claims are stored
# IS_READY: waits to become active; COMING: will be ready without a request.
ACTIVE, IS_READY, COMING, INACTIVE, ENDED = 'active', 'ready', 'coming', 'inactive', 'ended'


@dataclass(frozen=True)
class Claim:
    """Message of one controller to the others."""

    number: str  # random number that identifies the controller
    turn: str  # how often the controller has become ready so far
    name: str  # full name of its node
    started: int  # start time of the node [ns since 1970]
    state: str  # ACTIVE, IS_READY, COMING, INACTIVE or ENDED
    heard: tuple[str, ...] = ()  # identifiers of ready or active ones that it received

    @classmethod
    def of(cls, text: str) -> Claim | None:
        """Return the claim in a message; None if the message is invalid."""
        words, *heard = text.split()[:4], *text.split()[4:]
        if (len(words) != 4 or not words[2].isdecimal() or len(text) > 4000
                or not all('.' in word for word in heard)):
            return None
        number, _, turn = words[0].partition('.')
        return cls(number, turn, words[1], int(words[2]), words[3], tuple(heard))

    def __str__(self) -> str:
        """Return the text of the message."""
        return ' '.join((self.identifier, self.name, str(self.started), self.state, *self.heard))

    @property
    def identifier(self) -> str:
        """Text 'NUMBER.TURN', which every receiver of this claim lists in its own `heard`."""
        return f'{self.number}.{self.turn}'

    def precedes(self, other: Claim) -> bool:
        """Return whether the node of this claim started before that of the other."""
        # Of two with the same start time, the one with the smaller `number` counts as earlier.
        return (self.started, self.number) < (other.started, other.number)


class Claims:
    """Exchange of claims with the other controllers on a command topic."""

    # A ready controller becomes active when all others have listed its claim in `heard`, no other
    # is active, and no ready one started earlier. Two cannot both become active, however late
    # their claims arrive: the message that lists another controller also reports its own state, so
    # the controller that is listed last knows the state of the other. If two are active all the
    # same, because they discovered each other too late, the one that started later must stop.

    def __init__(self, node: Node, topic: str, started: int, is_active: Callable[[], bool],
                 is_coming: bool, on_stronger: Callable[[str], None]) -> None:
        # Any thread may call `is_active`. `on_stronger` is called in the node's thread, while this
        # controller is active, with the names of active controllers that started earlier. With
        # `accepts_others` this controller may be active at the same time as others.
        self._node, self._topic, self._is_active = node, topic, is_active
        self._is_coming, self._on_stronger, self.accepts_others = is_coming, on_stronger, False
        self._own = Claim(uuid4().hex, '0', node.get_fully_qualified_name(), started, INACTIVE)
        self._heard: dict[str, tuple[Claim, float]] = {}
        self._decision = Lock()  # so that no claim is published that is older than a decision
        self._ready_since = self._ready_until = self._taken_until = -float('inf')
        age = 1e-9 * (time_ns() - started)
        self._earliest = perf_counter() + max(2.0 * PERIOD, FOUND - age)
        self._listed, self._grew = 1, -float('inf')
        # hidden, so that no bag of all topics has claims: played back, they act as a controller
        topic = f'{self._topic}/_claims'
        self._publisher = node.create_publisher(String, topic, LATCHED_QOS)
        self._inbox = Inbox(hidden_node(node, 'claims'), (String, topic, LATCHED_QOS))
        self._timer = node.create_timer(PERIOD, self._yield,
                                        clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._is_closed = Event()
        # so that a long callback of the node does not delay the claims
        self._thread = Thread(target=self._spin, name='claims', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Publish that this controller has ended, and destroy publisher and subscription."""
        if not self._is_closed.is_set():
            self._is_closed.set()
            self._thread.join()
            self._node.destroy_timer(self._timer)
            self._node.destroy_publisher(self._publisher)
            self._inbox.node.destroy_node()

    # claims of this controller

    def _state(self) -> str:
        now = perf_counter()
        if now < self._taken_until or self._is_active():
            return ACTIVE
        return IS_READY if now < self._ready_until else COMING if self._is_coming else INACTIVE

    def _say(self, state: str) -> None:
        heard = tuple(one.identifier for one in self._others() if one.state in (ACTIVE, IS_READY))
        self._publisher.publish(String(data=str(replace(self._own, state=state, heard=heard))))

    def _spin(self) -> None:
        due = last = perf_counter()
        last_state = ''
        with self._inbox.opened():
            while not self._is_closed.is_set() and self._node.context.ok():
                self._inbox.wait(max(0.0, due - perf_counter()))
                now = perf_counter()
                if now - last > 5.0 * PERIOD:  # the process was suspended: its claims are old
                    self._earliest = now + SILENCE
                last = now
                is_new = False
                while (data := self._inbox.take()) is not None:
                    is_new |= self._store_claim(deserialize_message(data, String).data, now)
                with self._decision:
                    if now >= due or is_new or self._state() != last_state:
                        due, last_state = now + PERIOD, self._state()
                        self._say(last_state)
            if self._node.context.ok():
                self._say(ENDED)

    def _store_claim(self, text: str, now: float) -> bool:
        """Store a claim; return whether it is the first one since its controller became ready."""
        claim = Claim.of(text)
        if claim is None or claim.number == self._own.number:
            return False
        before = self._heard.get(claim.number)
        heard = {number: one for number, one in self._heard.items()
                 if now - one[1] <= SILENCE and number != claim.number}
        if claim.state != ENDED and len(heard) < MOST:
            heard[claim.number] = claim, now
        self._heard = heard  # a new object, because other threads read the old one
        return claim.state == IS_READY and (
            before is None or before[0].identifier != claim.identifier)

    # claims of the others

    def _others(self) -> list[Claim]:
        now = perf_counter()
        return [claim for claim, heard in self._heard.values() if now - heard <= SILENCE]

    def _foreign(self) -> tuple[str, ...]:
        """Return the sorted names of publishers of commands that send no claims."""
        # they are not of this package, and count as active as long as DDS lists them
        topic, count = self._topic, self._node.count_publishers
        listed, claiming = count(topic), count(self._publisher.topic_name)
        if claiming > self._listed:
            self._grew = perf_counter()
        self._listed = claiming
        if listed <= max(1, claiming):
            return ()
        names = Counter(publishers(self._node, topic).values())
        names -= Counter(publishers(self._node, self._publisher.topic_name).values())
        return tuple(sorted(names.elements()))[:listed - claiming] or (NAMELESS,)

    def others(self) -> tuple[str, ...]:
        """Return the names of the other nodes that publish commands or claims."""
        return tuple(sorted((*self._foreign(), *(claim.name for claim in self._others()))))

    def _blocking_names(self) -> tuple[list[str], list[str]]:
        """Return the names of active publishers, and of ready controllers that started earlier."""
        claims = self._others()
        return ([*self._foreign(), *(one.name for one in claims if one.state == ACTIVE)],
                [one.name for one in claims if one.state == IS_READY and one.precedes(self._own)])

    def blocking_reason(self) -> str:
        """Return the reason why this controller must not become active now; empty if it may."""
        # If it returns '', this controller then publishes for 5 PERIOD that it is active.
        with self._decision:
            active, earlier = ([], []) if self.accepts_others else self._blocking_names()
            if not active and not earlier:
                self._taken_until = perf_counter() + 5.0 * PERIOD
        if active:
            return (f"{' and '.join(sorted(active))} publishes on '{self._topic}', too, and the "
                    'torques of both would alternate: end that node (a killed one of another '
                    "package stays listed for the lease of DDS, by its default 20 s); accepted "
                    f"with {ON_ACTIVATION} 'accept'")
        return (f"{' and '.join(sorted(earlier))} started earlier, and is about to publish on "
                f"'{self._topic}'" if earlier else '')

    def require(self) -> None:
        """Wait until `blocking_reason` is reliable; raise InputError if there is such a reason."""
        latest = perf_counter() + PATIENCE
        while not self.be_ready() and perf_counter() < latest:
            sleep(0.02)
        while NAMELESS in (text := self.blocking_reason()) and perf_counter() < latest:
            sleep(0.02)
        if text:
            raise InputError(text)

    def be_ready(self) -> bool:
        """Claim that this controller is ready; return whether `blocking_reason` is reliable."""
        # the claim ends 5 PERIOD after the last call
        now = perf_counter()
        with self._decision:
            if now > self._ready_until:
                self._ready_since = now
                self._own = replace(self._own, turn=str(int(self._own.turn) + 1))
            self._ready_until, self._is_coming = now + 5.0 * PERIOD, False
        if self.accepts_others:
            return True
        self._foreign()
        others, own = self._others(), self._own.identifier
        unheard = self._listed - 1 - len(others)
        return now >= max(self._earliest, self._ready_since + SILENCE * any(
                              own not in one.heard for one in others),
                          self._ready_since + HEAD_START * any(
                              one.state == COMING and one.precedes(self._own) for one in others),
                          self._grew + SILENCE if unheard > 0 else -float('inf'))

    def _yield(self) -> None:
        """Call `on_stronger` if this controller and others that started earlier are active."""
        if self._is_closed.is_set() or self.accepts_others or not self._is_active():
            return
        names = sorted(one.name for one in self._others()
                       if one.state == ACTIVE and one.precedes(self._own))
        if names:
            self._on_stronger(' and '.join(names))


class NoClaims:
    """Replacement of `Claims` if only one node can command the arm."""

    accepts_others = True

    def others(self) -> tuple[str, ...]:
        """Return no names."""
        return ()

    def blocking_reason(self) -> str:
        """Return an empty text."""
        return ''

    def be_ready(self) -> bool:
        """Return True."""
        return True

    def require(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
