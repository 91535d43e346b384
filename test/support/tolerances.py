# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tolerances of the tests, by name, with the reason for each number."""

# Poses composed in another order: a few rounding errors per link, 40 links, lengths in m.
POSE_TOLERANCE = 1e-12
# Lumped and composite inertias, relative to their largest entry.
INERTIA_TOLERANCE = 1e-10
PLANT_ACCELERATION = 1e-11  # relative: MuJoCo against Pinocchio's ABA, away from joint stops
PLANT_POSE = 1e-12  # rad and m: link poses of MuJoCo against Pinocchio
PLANT_STOP = 1e-5  # m, m/s: distance of a pushed joint from its stop; creep in dry friction
PLANT_ENERGY_DRIFT = 2e-2  # relative: Panda in free fall for 1 s; proportional to the step (1 ms)
AGREEMENT = 1e-10  # relative to the largest entry: the law and its terms against Pinocchio's
COMMAND_MET = 1e-9  # relative: the acceleration that a torque causes; condition of Λ up to 1e4
CONDITION_ROUNDING = 1e-13  # times the condition number: rounding error of an inverse
NO_EFFECT = 1e-10  # relative: accelerations that cancel
DAMPED_AGREEMENT = 1e-6  # relative: two methods of pseudo-inversion, eigenvalues down to 1e-6
ENERGY_RATE = 1e-6  # relative to the largest power: a difference quotient of the energy
WIDE_MASS_AGREEMENT = 1e-9  # relative: masses from 1e-3 to 1e3 times the usual in one chain
ROTOR_LIMIT = 1e-7  # relative: rotor inertias of 1e-10 kg m² against no rotors
POSE_ERROR = 1e-13  # rad, m, relative: rotation vectors against scipy's, and sums of six numbers
HALF_TURN = 1e-7  # rad: near a turn by π, the axis has the square root of the rounding error
PATH_KNOT = 1e-10  # rad, m, and their derivatives: a path at the knots that it interpolates
PATH_RATE = 1e-6  # 1/s, 1/s²: derivatives against difference quotients over 2 µs, rounding 1e-10
SINGULAR_VALUE = 1e-12  # of the largest: eigenvalues by Jacobi and singular values against numpy's
TASK_FORCE = 1e-10  # relative: two solvers of 6 × 6 systems, eigenvalues over three decades
BLOCK_ROUNDING = 1e-13  # times the condition number: block tridiagonal solutions against numpy's
FACTORS_AGREE = 1e-12  # times the condition number: one block factorization against another
MOMENTUM_QUOTIENT = 1e-7  # relative: a difference quotient of M q̇ over 20 µs
MOMENTUM_RATE = 1e-7  # of the largest wrench: a difference quotient of bodies' momenta over 20 µs
LONG_CHAIN_COMMAND = 1e-10  # relative to the terms that cancel at the tip: 5000 joints
EVERY_ROBOT = 1e-9  # rounding, scaled as in doc/measurements/robots.md; fingers weigh a few grams
DUAL_ARM_TRACKING = 1e-5  # rad, m: remaining error of a step of 8 cm after 20 time constants
LONGEST_CHAIN_COMMAND = 1e-8  # relative to the command: the tip of 100,000 links
JOINT_ROUNDING = 1e-14  # times the condition number of M: rounding error of its inverse
MASSLESS_ROUNDING = 2e-12  # the same for articulated bodies, some without mass
BODY_ROUNDING = 2e-13  # times the norm of the lightest body's inverse inertia / norm of result
# relative to the largest entry: a chain in segments against one sweep; 0.4e-12 to 1.3e-12,
# depending on which products the processor rounds once
TEAM_AGREEMENT = 3e-12
LANES_AGREEMENT = 1e-12  # relative to the largest entry: products and sums rounded once or twice
LANES_ROUNDING = 1e-17  # times the condition number of Λ, which amplifies it: if that is more
# relative to the largest entry: float32 in place of float64, away from singularities
SINGLE_PRECISION = 1e-4
PERTURBED = 0.05  # relative: errors of the perturbed Panda between machines, same noise
PERTURBED_LEAST = 0.003  # mm, degrees: the same for errors near zero
NEAREST = 1e-9  # times the condition number: accelerations within bounds against scipy's
PRIORITIES = 1e-9  # relative: forces of prioritized tasks against projections by pseudo-inverses
GRAVITY_HELD = 1e-8  # N·m: two computations of the gravity torques of an arm at rest
GUIDE_RATE = 5e-5  # rad/s, m/s: difference quotients over 2 ms at a jerk of 125 rad/s³, m/s³
# the same where a plan is taken over at another rate of time than expected: 1 µrad or µm in a tick
GUIDE_RATE_TAKEN_OVER = 1e-3
GUIDE_LIMIT = 1.15  # relative to a limit: peak rates of a target that gets new goals in motion
GUIDE_LIMIT_MOVING = 1.05  # the same for the rates of translation
SPLINE_IN_PIECES = 1e-9  # rad/s², m/s²: a spline in pieces of 128 knots against one piece
SHOWN_DISTANCE = 1.0  # mm: below the margin, on the page of a simulated arm at rest
