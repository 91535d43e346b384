# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""Tolerances of the tests, by name, with the reason for each number."""

# Poses composed in another order: some rounding errors a link, forty links, metres.
POSE_TOLERANCE = 1e-12
# Lumped and composite inertias, relative to their largest entry.
INERTIA_TOLERANCE = 1e-10
PLANT_ACCELERATION = 1e-11  # relative: MuJoCo against Pinocchio's ABA, free of stops
PLANT_POSE = 1e-12  # rad and m: link poses of MuJoCo against Pinocchio's
PLANT_STOP = 1e-5  # m, m/s: how far a pushed joint rests from its stop or creeps in dry friction
PLANT_ENERGY_DRIFT = 2e-2  # relative: the Panda in free fall for 1 s, 1 ms step, first order in it
AGREEMENT = 1e-10  # relative to the largest entry: the law and its terms against Pinocchio's
COMMAND_MET = 1e-9  # relative: the acceleration that a torque gives, Λ of condition up to 1e4
CONDITION_ROUNDING = 1e-13  # times the condition number: what an inverse keeps of rounding
NO_EFFECT = 1e-10  # relative: accelerations that cancel
DAMPED_AGREEMENT = 1e-6  # relative: pseudo-inverses by two ways, eigenvalues down to 1e-6
ENERGY_RATE = 1e-6  # relative to the largest power: a difference quotient of the energy
WIDE_MASS_AGREEMENT = 1e-9  # relative: masses from 1e-3 to 1e3 times the usual in one chain
ROTOR_LIMIT = 1e-7  # relative: rotors of 1e-10 kg m² against none
POSE_ERROR = 1e-13  # rad, m, relative: rotation vectors against scipy's, and sums of six numbers
HALF_TURN = 1e-7  # rad: near half a turn the axis comes from square roots of rounding
PATH_KNOT = 1e-10  # rad, m and per s, s²: a path at its knots, where it is solved to pass through
PATH_RATE = 1e-6  # 1/s, 1/s²: derivatives against difference quotients over 2 µs, rounding 1e-10
SINGULAR_VALUE = 1e-12  # of the largest: eigenvalues by Jacobi and singular values against numpy's
TASK_FORCE = 1e-10  # relative: 6 × 6 systems solved by two ways, eigenvalues over three decades
BLOCK_ROUNDING = 1e-13  # times the condition number: block tridiagonal solutions against numpy's
FACTORS_AGREE = 1e-12  # times the condition number: one block factorization against another
MOMENTUM_RATE = 1e-7  # of the largest wrench: a difference quotient of bodies' momenta over 20 µs
LONG_CHAIN_COMMAND = 1e-10  # of what cancels at the tip: accelerations of 5000 joints
EVERY_ROBOT = 1e-9  # scaled as doc/robots.md says: rounding, down to fingers of a few grams
DUAL_ARM_TRACKING = 1e-5  # rad, m: what is left of a step of 8 cm after 20 time constants
LONGEST_CHAIN_COMMAND = 1e-8  # relative to the command: the tip of 100,000 links
JOINT_ROUNDING = 1e-14  # times the condition number of M: what its inverse keeps of rounding
MASSLESS_ROUNDING = 2e-12  # the same for articulated bodies, some of them without mass
BODY_ROUNDING = 2e-13  # times what the lightest body's inverse inertia is of the answer, in norm
TEAM_AGREEMENT = 1e-12  # relative to the largest entry: a chain cut in segments against one sweep
PERTURBED = 0.05  # relative: errors of the perturbed Panda, its noise the same, on other machines
PERTURBED_LEAST = 0.003  # mm, degrees: the same where it is next to nothing
NEAREST = 1e-9  # times the condition number: accelerations within bounds against scipy's
PRIORITIES = 1e-9  # relative: forces of prioritized tasks against projections by pseudo-inverses
GRAVITY_HELD = 1e-8  # N·m: the weight of an arm that stands, by two ways
GUIDE_RATE = 5e-5  # rad/s, m/s: difference quotients over 2 ms of what has a jerk of 125/s³
GUIDE_LIMIT = 1.15  # of a limit: what a target takes that is sent elsewhere while it turns
GUIDE_LIMIT_MOVING = 1.05  # the same, while it moves
SPLINE_IN_PIECES = 1e-9  # rad/s², m/s²: a spline in pieces of 128 knots against one piece
