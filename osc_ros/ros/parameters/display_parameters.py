# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameters of the topics for RViz and Foxglove."""

from __future__ import annotations

from osc_ros.ros.parameters.parameters import Entry

RATE, TF = 'markers.rate', 'publish_tf'

DISPLAY = (
    Entry(RATE, 0.0, 'Rate of ~/markers (target, error, forces, mobility, joints near a limit), '
          'at most report_rate [Hz]; 0: none; needs the package visualization_msgs', lower=0.0,
          upper=100.0, live=True),
    Entry(TF, False, 'Publish the transforms of all links on /tf, 30 times a second, unless '
          'robot_state_publisher or osc_simulator does; needs the package tf2_msgs', live=True),
)
