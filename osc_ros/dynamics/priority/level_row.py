# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Columns of `Priorities.rows`, the commands of the tasks."""

# One row per task. Each name is the first column of a part, in the axes of the task's frame if no
# other frame is named here.
# ACTIVATION  share of each axis that is controlled
# U           commanded acceleration
# SPRING      force of the spring
# ROOT        √K of its stiffness K
# WEIGHT      √(2 ζ K), with the damping ratio ζ
# RATE        velocity error
# WRENCH      additional force
# FASTEST     square of the highest natural frequency of spring and mobility
# VELOCITY    velocity of the target along the axes of motion; `solve` does not read it
# MAPPED      1 if the velocity of the task's coordinates is MAP times the twist of the link
# MAP         6 × 6, base axes
# FRAME       rotation of the frame to base axes
# WIDTH       number of columns
ACTIVATION, U, SPRING, ROOT, WEIGHT, RATE, WRENCH, FASTEST = 0, 6, 12, 18, 24, 30, 36, 42
VELOCITY, MAPPED, MAP, FRAME, WIDTH = 43, 49, 50, 86, 95
