# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Log lines about reactions: one when a cause begins, one when it has ended."""

import pytest

from osc_ros.loop.process import reaction_log
from osc_ros.loop.process.reaction_log import ReactionLog


class Logger:
    """Takes the place of a ROS logger, and records the lines."""

    def __init__(self):
        """Start without lines."""
        self.lines = []

    def info(self, text):
        """Record a line of level info."""
        self.lines.append(('info', text))

    def warning(self, text):
        """Record a line of level warning."""
        self.lines.append(('warning', text))

    def error(self, text):
        """Record a line of level error."""
        self.lines.append(('error', text))


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock, and return a list whose first entry is the time [s]."""
    now = [100.0]
    monkeypatch.setattr(reaction_log, 'perf_counter', lambda: now[0])
    return now


def test_cause_that_comes_and_goes_is_two_lines_with_a_count(clock):
    logger = Logger()
    log = ReactionLog(logger, 'active')
    for _ in range(20):
        log.change('deadline', 'report', 'deadline: 3 ms: report')
        clock[0] += 0.1
        log.change('', '', 'active')
        clock[0] += 0.1
        log.conclude()
    assert logger.lines == [('warning', 'deadline: 3 ms: report')]
    clock[0] += 9.0
    log.conclude()
    assert len(logger.lines) == 1  # deadlines missed every few seconds are one episode
    clock[0] += 1.0
    log.conclude()
    log.conclude()
    assert logger.lines[1:] == [('info', 'active: deadline has ended (20 times in 3.90 s)')]
    log.change('deadline', 'report', 'deadline: 4 ms: report')
    assert logger.lines[2:] == [('warning', 'deadline: 4 ms: report')]


def test_graver_cause_is_logged_at_once_and_only_the_last_end_says_that_all_is_well(clock):
    logger = Logger()
    log = ReactionLog(logger, 'active')
    log.change('deadline', 'report', 'late')
    clock[0] += 0.1
    log.change('jump', 'hold', 'jumped')
    assert logger.lines == [('warning', 'late'), ('error', 'jumped')]
    log.change('', '', 'active')
    clock[0] += 2.0
    log.conclude()
    assert logger.lines[2:] == [('info', 'jump has ended (once in 0.00 s)')]
    clock[0] += 9.0
    log.conclude()
    assert logger.lines[3:] == [('info', 'active: deadline has ended (once in 0.10 s)')]


def test_same_cause_with_another_reaction_is_logged(clock):
    logger = Logger()
    log = ReactionLog(logger, 'active')
    log.change('jump', 'report', 'first')
    log.change('jump', 'hold', 'second')
    assert logger.lines == [('warning', 'first'), ('error', 'second')]


def test_stop_on_request_is_not_logged(clock):
    logger = Logger()
    log = ReactionLog(logger, 'active')
    log.change('stop', 'deactivate', 'stop: told to stop: deactivate')
    clock[0] += 2.0
    log.conclude()
    assert logger.lines == []
