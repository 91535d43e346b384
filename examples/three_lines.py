# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The shortest program: a simulated arm moves its tip by 10 cm."""

import osc_ros

with osc_ros.Arm.simulated('panda') as arm, arm.record() as recording:
    print(arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1))).pose)
recording.plot('three_lines.png')  # needs matplotlib
