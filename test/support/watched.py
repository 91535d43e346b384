# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A controller that reacts to one cause, and a record of its diagnostics."""

import time

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')
from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402

from node_rig import READY, Rig  # noqa: E402


class Watched(Rig):
    """An active controller that reacts to one cause, and a record of its diagnostics."""

    def __init__(self, spin, cause, reaction='zero', **parameters):
        """Subscribe to the diagnostics, then activate the controller."""
        super().__init__(spin, **{f'watchdog__{cause}__reaction': reaction} | parameters)
        self.found, self.sent, self.label = [], -np.inf, ''
        self.hardware.create_subscription(
            DiagnosticArray, '/diagnostics', lambda message: self.found.append(message.status[0]),
            10)
        self.activate()

    def pulse(self):
        """Send a state if the last one is answered or 50 ms old, so that timers can run, too."""
        if self.hardware.answer(self.label) is not None or time.perf_counter() - self.sent > 0.05:
            self.sent, self.label = time.perf_counter(), self.hardware.state()

    def until_commanded(self, tau):
        """Send states until a command has these torques."""
        def commanded():
            self.pulse()
            return self.hardware.commands and np.allclose(
                self.hardware.commands[-1].data, tau, atol=1e-6)

        self.spin(commanded, why=f'for {tau}')

    def until_told(self, level, text, act=lambda: None):
        """Wait for a status of a level whose message begins with `text`; return its values."""
        def told():
            act()
            return any(status.level == level and status.message.startswith(text)
                       for status in self.found)

        self.spin(told, why=f'for a status {text}')
        status = next(s for s in self.found if s.level == level and s.message.startswith(text))
        return {pair.key: pair.value for pair in status.values}


def bad_state(rig):
    """Send a state in which the position of a joint is NaN."""
    rig.hardware.state(q=[np.nan, *READY[1:]])
