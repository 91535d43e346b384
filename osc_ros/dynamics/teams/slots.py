"""Layout of the data that the members of a team exchange."""

from __future__ import annotations

# Columns of `slots`. The motion of the last body relative to the body inside the first one: R, p,
# velocity, acceleration; pose of the last body in the base, its velocity and acceleration; the
# first joint as the beginning of a row of `links`, with its present placement, and its torque;
# K, b, C, K_a, b_a of the segments joined so far; the sum of the Newton-Euler forces of the
# segment, as one force on its last body. With cyclic reduction: in place of K, b and C the block
# A, r and U of the last joint; in place of K_a and b_a the update of the block of the joint inside
# the first; in place of the joint the acceleration of the last body under its own drive alone.
SLOT_MOTION, SLOT_END, SLOT_JOINT, SLOT_K, SLOT_B = 0, 24, 48, 64, 85
SLOT_C, SLOT_KA, SLOT_BA, SLOT_TOTAL, SLOT_WIDTH = 91, 127, 148, 154, 160
MOTION, RESPONSE = slice(SLOT_MOTION, SLOT_END), slice(SLOT_END, SLOT_WIDTH)
END, TOTAL = slice(SLOT_END, SLOT_JOINT), slice(SLOT_TOTAL, SLOT_WIDTH)
JOINT_TAU = 14  # in the joint, after its placement
# Rows of `state`: positions, velocities, τ⁰ and q̈ₚ, which the leader fills, and torques.
Q, QD, TAU, QDD, OUT = range(5)
