# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Prevents two processes from controlling one arm: each binds a socket named after its arm."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
import socket
import struct
from typing import Any

from osc_ros.errors import InputError
from osc_ros.hardware.contract import Setting


def reserve(kind: str, settings: tuple[Setting, ...], values: Mapping[str, Any]
            ) -> socket.socket | None:
    """Reserve an arm until the returned socket is closed; None if nothing identifies the arm."""
    # The values of its `fixed` settings identify it; of simulated arms any number can run.
    # InputError: another process controls this arm; it tells which one, and how to end it.
    named = {one.name: values[one.name] for one in settings if one.fixed and values[one.name]}
    if not named:
        return None
    # In Linux's abstract namespace there is no file, and the name is free when the process ends.
    name = b'\0osc_ros/arm/' + sha256(repr((kind, sorted(named.items()))).encode()).digest()
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        ours.bind(name)
    except OSError:
        ours.close()
        named_text = ', '.join(f'hardware.{key} {value}' for key, value in named.items())
        raise InputError(
            f"the arm of hardware '{kind}', {named_text}, is under the control of "
            f'{_holder(name)}. If its osc_arm runs, end that; if it was killed, end the process '
            'with kill: it brings the arm to rest first') from None
    ours.listen()
    return ours


def _holder(name: bytes) -> str:
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.connect(name)
        found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize('3i'))
        return f"process {struct.unpack('3i', found)[0]}"
    return 'another process'
