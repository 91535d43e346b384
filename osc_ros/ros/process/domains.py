# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Reservation of a ROS domain that no other program on this machine uses."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
import socket
import tempfile

from osc_ros.errors import InputError

# Domain 0 is where users work; the ports of domains above 101 are ephemeral ports of Linux.
DOMAINS = range(1, 102)
# DDS (RTPS 2.5, 9.6.2): metatraffic of domain d arrives at 7400 + 250 d (multicast) and, for
# the first participant of a host, at 7410 + 250 d (unicast).
PORTS = 7400, 7410

_KEPT: list[int] = []  # open lock files: a domain stays reserved until the process ends


def reserved_domain() -> int:
    """Reserve a free ROS domain for this process; return its number, or raise InputError."""
    first = os.getpid()
    for k in range(len(DOMAINS)):
        number = DOMAINS[(first + k) % len(DOMAINS)]
        lock = _lock(number)
        if lock is not None and all(_is_free(port + 250 * number) for port in PORTS):
            _KEPT.append(lock)
            return number
        if lock is not None:
            os.close(lock)
    raise InputError(f'the ROS domains {DOMAINS.start} to {DOMAINS.stop - 1} are all taken: '
                     'end some of the programs that use them, or set ROS_DOMAIN_ID')


def _lock(number: int) -> int | None:
    """Lock a domain's file; return its descriptor, or None if another process has the lock."""
    path = Path(tempfile.gettempdir(), f'osc_ros_domain_{number}')
    lock: int | None = None
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # already locked, or the file belongs to another user
        if lock is not None:
            os.close(lock)
        return None
    return lock


def _is_free(port: int) -> bool:
    """Return whether no socket of this machine is bound to a UDP port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(('', port))
        except OSError:
            return False
    return True
