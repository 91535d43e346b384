# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A Source chooses one publisher, and recognizes its messages by their GIDs."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros.ros.messages.publishers import KNOWN, NEW, OTHER, Source, UNCLEAR

PERIOD, TIMEOUT = 0.002, 0.05


class Traffic:
    """Simulated publishers; `answers` records (time, publisher, result of `Source.classify`)."""

    def __init__(self):
        """Start at 100 s, without messages."""
        self.source, self.time, self.answers = Source(), 100.0, []

    def send(self, name, count):
        """Deliver a message of a publisher, and return the answer."""
        gid = name.encode().ljust(16) if name else b''
        answer = self.source.classify(gid, count, self.time, TIMEOUT)
        self.answers.append((self.time, name, answer))
        return answer

    def run(self, duration, *names, count=None, each=PERIOD):
        """Let the publishers send in turn for `duration` seconds; return the answers."""
        count = len(names) if count is None else count
        since = len(self.answers)
        for _ in range(round(duration / each)):
            self.time += each
            for k, name in enumerate(names):
                self.time += 1e-5 * (k > 0)
                self.send(name, count)
        return self.answers[since:]


def taken(answers):
    """Return the names of the publishers whose messages were accepted."""
    return {name for _, name, answer in answers if answer in (KNOWN, NEW)}


def test_publisher_that_is_alone_is_taken_from_its_first_message_on():
    traffic = Traffic()
    assert traffic.send('a', 1) == NEW
    assert {answer for *_, answer in traffic.run(0.1, 'a')} == {KNOWN}


def test_publisher_that_comes_second_is_refused_from_its_first_message_on():
    traffic = Traffic()
    traffic.run(0.2, 'a')
    assert taken(traffic.run(1.0, 'a', 'b')) == {'a'}
    assert taken(traffic.run(1.0, 'b', 'a')) == {'a'}


def test_second_publisher_is_taken_when_the_first_has_been_silent_for_the_time_out():
    traffic = Traffic()
    traffic.run(1.0, 'a')
    traffic.run(0.2, 'a', 'b')
    silent = traffic.time
    answers = traffic.run(0.2, 'b', count=2)  # 'a' was killed: DDS lists it until its lease ends
    first = next(time for time, _, answer in answers if answer == NEW)
    assert TIMEOUT - PERIOD < first - silent < TIMEOUT + 2.0 * PERIOD
    assert taken(traffic.run(0.2, 'b', 'a', count=2)) == {'b'}


def test_publisher_that_resumes_after_a_silence_beside_one_that_idles_is_the_same():
    traffic = Traffic()
    traffic.run(0.2, 'a', count=2)
    traffic.time += 2.0 * TIMEOUT
    assert {answer for *_, answer in traffic.run(0.2, 'a', count=2)} == {KNOWN}


def test_publisher_that_resumes_when_another_one_was_taken_is_refused():
    traffic = Traffic()
    traffic.run(0.2, 'a', count=2)
    assert taken(traffic.run(4.0 * TIMEOUT, 'b', count=2)) == {'b'}
    assert taken(traffic.run(0.2, 'a', 'b')) == {'b'}


def test_publisher_that_idles_beside_the_first_changes_nothing():
    traffic = Traffic()
    traffic.run(0.2, 'a')
    assert {answer for *_, answer in traffic.run(0.2, 'a', count=2)} == {KNOWN}


def test_publisher_that_begins_beside_a_silent_one_is_taken_after_the_time_out():
    traffic = Traffic()
    traffic.run(0.2, 'a', count=2)
    traffic.time += 2.0 * TIMEOUT
    since = traffic.time
    answers = traffic.run(0.2, 'b', count=2)
    assert answers[0][2] == OTHER
    first = next(time for time, _, answer in answers if answer == NEW)
    assert TIMEOUT - PERIOD < first - since < TIMEOUT + 2.0 * PERIOD


def test_stall_beside_a_refused_publisher_changes_nothing():
    traffic = Traffic()
    traffic.run(0.2, 'a')
    traffic.run(0.2, 'a', 'b')
    traffic.time += 7.0 * TIMEOUT
    assert traffic.send('b', 2) == OTHER
    assert taken(traffic.run(1.0, 'a', 'b')) == {'a'}
    assert UNCLEAR not in {answer for *_, answer in traffic.answers}


def test_publisher_that_replaces_the_only_one_is_taken_when_that_has_been_silent():
    traffic = Traffic()
    traffic.run(0.2, 'a')
    assert traffic.run(TIMEOUT / 2.0, 'b')[-1][2] == OTHER
    assert taken(traffic.run(TIMEOUT, 'b')) == {'b'}


def test_message_of_a_publisher_that_was_replaced_changes_nothing():
    traffic = Traffic()
    traffic.run(0.2, 'a')
    traffic.run(3.0 * TIMEOUT, 'b')
    assert traffic.send('a', 1) == OTHER  # it was queued
    assert traffic.send('b', 1) == KNOWN


def test_publishers_that_start_at_the_same_time_are_both_refused():
    traffic = Traffic()
    assert taken(traffic.run(0.5, 'a', 'b')) == set()
    assert UNCLEAR in {answer for *_, answer in traffic.answers}
    # then 'a' ends
    assert taken(traffic.run(0.5, 'b', count=2)) == {'b'}


def test_no_publisher_is_taken_while_several_send_and_none_was_first():
    traffic = Traffic()
    assert taken(traffic.run(1.0, 'a', 'b')) == set()


def test_messages_without_gids_are_taken_only_where_there_is_one_publisher():
    traffic = Traffic()
    assert [answer for *_, answer in traffic.run(0.006, None)] == [NEW, KNOWN, KNOWN]
    assert traffic.send(None, 2) == UNCLEAR
    traffic.time += TIMEOUT / 2.0
    assert traffic.send(None, 1) == UNCLEAR
    traffic.time += TIMEOUT
    assert traffic.send(None, 1) == NEW


@pytest.mark.parametrize('seed', range(10))
def test_whatever_two_publishers_do_only_one_is_taken_until_it_is_silent(seed):
    random, traffic = np.random.default_rng(seed), Traffic()
    traffic.run(0.1, 'a')
    rates = dict(zip('ab', random.uniform(100.0, 1500.0, 2)))
    due = {name: traffic.time + 1.0 / rates[name] for name in 'ab'}
    for _ in range(3000):
        name = min(due, key=due.get)
        traffic.time = due[name]
        due[name] += random.uniform(0.5, 1.5) / rates[name]
        if random.random() < 0.01:
            due[name] += random.exponential(0.05)
        traffic.send(name, 2)
    heard = {'a': -np.inf, 'b': -np.inf}
    for time, name, answer in traffic.answers:
        if answer in (KNOWN, NEW):
            other = 'b' if name == 'a' else 'a'
            assert time - heard[other] > TIMEOUT - 1e-9, (time, name)
            heard[name] = time
