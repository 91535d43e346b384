# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Each test process has a ROS domain of its own."""

import os
import socket
import subprocess
import sys

from osc_ros.ros.process import domains


def reserved_elsewhere(**environment):
    """Return the domain that another process reserves, while this process keeps its own."""
    program = ('import os; os.getpid = lambda: int(os.environ["PRETENDED"]); '
               'from osc_ros.ros.process import domains; print(domains.reserved_domain())')
    return int(subprocess.run(
        [sys.executable, '-c', program], check=True, capture_output=True, text=True,
        env={**os.environ, **environment}).stdout)


def test_two_processes_never_reserve_the_same_domain():
    mine = domains.reserved_domain()
    # the other process begins its search at the domain that this one has
    assert reserved_elsewhere(PRETENDED=str(mine - domains.DOMAINS.start)) != mine


def test_domain_of_a_running_participant_is_left_alone():
    number = 77
    for port in domains.PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as running:
            try:
                running.bind(('127.0.0.1', port + 250 * number))
            except OSError:
                pass  # somebody uses this domain already
            assert reserved_elsewhere(PRETENDED=str(number - domains.DOMAINS.start)) != number
