# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A witness of the shared memory of a control loop."""

import os
from pathlib import Path

from osc_ros.loop.process.channel import Channel


def memory_of(process, joints):
    """Return the channel of a loop's process, as a witness."""
    for file in Path(f'/proc/{process}/fd').iterdir():
        if 'memfd:osc_ros' in os.readlink(file):
            return Channel(joints, os.open(file, os.O_RDWR))
    raise AssertionError('the process has no shared memory')
