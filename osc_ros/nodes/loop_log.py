# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Log lines on events of the control loop."""

from __future__ import annotations

from typing import Any


class LoopLog:
    """
    Logs events of the control loop; its methods are the handlers of these events.

    rclpy accepts only one severity per source line, so each severity has its own method.

    Parameters
    ----------
    logger : rclpy logger

    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def error(self, text: str) -> None:
        """Log an error."""
        self._logger.error(text)

    def warning(self, text: str) -> None:
        """Log a warning."""
        self._logger.warning(text)

    def refusal(self, reason: str) -> None:
        """Log the refusal of a joint state, once a second."""
        self._logger.error(f'joint state refused: {reason}', throttle_duration_sec=1.0)

    def unrelated(self, text: str) -> None:
        """Log that there are joint states of other joints."""
        self._logger.info(text)

    def velocity(self, text: str) -> None:
        """Log a change of the source of the velocities, once a second."""
        self._logger.warning(text, throttle_duration_sec=1.0)
