# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Progress of the compilation of kernels, in a node's log and diagnostics."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node

from osc_ros.compile.compilation import Progress
from osc_ros.ros.messages import messages

NAME = 'kernels'  # suffix of the name of the diagnostic status
LOG_PERIOD = 5.0  # [s]


class CompilationReport:
    """Context manager that publishes the progress while a node compiles its kernels."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> CompilationReport:
        """Create the publisher."""
        self._diagnostics = self._node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        return self

    def __exit__(self, *exception: object) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._diagnostics)

    def tell(self, progress: Progress) -> None:
        """Publish the progress, and log it every LOG_PERIOD seconds."""
        self._node.get_logger().info(str(progress), throttle_duration_sec=LOG_PERIOD)
        self._diagnostics.publish(messages.diagnostic_message(
            DiagnosticStatus.OK, f'{self._node.get_fully_qualified_name()[1:]}: {NAME}',
            str(progress), '', (('share', progress.share), ('kernel', progress.name)),
            self._node.get_clock().now().to_msg()))
