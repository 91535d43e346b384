# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The parameters of the journal of the control loop, and of the files that it is written to."""

from __future__ import annotations

from osc_ros.nodes.parameters import Entry

RECORDING = (
    Entry('black_box.duration', 30.0, 'The inputs of the control loop of this time are kept in '
          'memory, and written to a file when a watchdog replaces the law, and for osc_record '
          '[s]; 0: off', lower=0.0, upper=3600.0),
    Entry('black_box.megabytes', 32.0, 'Most memory for that, which shortens the time if '
          'necessary [MB]', lower=2.0, upper=1024.0, fixed=True),
    Entry('black_box.directory', '', 'Folder of these files; empty: osc_black_box in the '
          "folder of ROS's logs", fixed=True),
    Entry('black_box.files', 10, 'Most files of this node in that folder, the oldest are '
          'removed; 0: none are written', lower=0, upper=1000, fixed=True),
)
