# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Layout of the data that the members of a team exchange: `slots` and `state`."""

from __future__ import annotations

# Columns of `slots`: motion of the last body relative to the parent of the first body (R, p,
# velocity, acceleration); pose, velocity and acceleration of the last body in the base; first
# joint (the beginning of its row of `links`, with its present placement, and its torque); K, b, C,
# K_a, b_a of the segments joined so far; sum of the Newton-Euler forces of the segment, as one
# force on its last body.
SLOT_MOTION, SLOT_END, SLOT_JOINT, SLOT_K, SLOT_B = 0, 24, 48, 64, 85
SLOT_C, SLOT_KA, SLOT_BA, SLOT_TOTAL, SLOT_WIDTH = 91, 127, 148, 154, 160
MOTION, RESPONSE = slice(SLOT_MOTION, SLOT_END), slice(SLOT_END, SLOT_WIDTH)
END, TOTAL = slice(SLOT_END, SLOT_JOINT), slice(SLOT_TOTAL, SLOT_WIDTH)
JOINT_TAU = 14  # index of the torque in the columns of the first joint
# Rows of `state`: positions, velocities, τ⁰ and q̈ₚ, which the leader fills, and torques.
Q, QD, TAU, QDD, OUT = range(5)
