# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Slots of the levels of priority, for the records of `Priorities` and of a law.

There are k levels on m links with n joints. Commands are in the axes of the level's frame if no
other axes are named.
"""

from __future__ import annotations

from osc_ros.compile.record_type import Slot

SOLVES = '6k + 1'  # largest number of solves: of different values of the activations

LEVELS_M = (
    Slot('level_link', ('k',), '', 'index of the link of each level', int),
    Slot('singularity', (3,), 'm; 1; 1', 'length, low and high of `SingularityDamping`'))

LEVELS_D = (
    # commands
    Slot('level_activation', ('k', 6), '', 'share of each axis that is controlled'),
    Slot('level_u', ('k', 6), 'rad/s², m/s²', 'commanded accelerations'),
    Slot('level_spring', ('k', 6), 'N·m, N', 'forces of the springs'),
    Slot('level_root', ('k', 6), '', '√K of the stiffness K'),
    Slot('level_weight', ('k', 6), '', '√(2 ζ K) of each axis, for the damping of a spring with '
         'the damping ratio ζ and the stiffness K'),
    Slot('level_rate', ('k', 6), 'rad/s, m/s', 'velocity errors'),
    Slot('level_wrench', ('k', 6), 'N·m, N', 'additional forces'),
    Slot('level_fastest', ('k',), 'rad²/s²', 'squares of the highest natural frequencies of '
         'spring and mobility'),
    Slot('level_velocity', ('k', 6), 'rad/s, m/s', 'velocities of the targets along the axes of '
         'motion; `solve` does not read them'),
    Slot('is_mapped', ('k',), '', 'whether the velocity of the coordinates of a level is '
         '`level_map` times the twist of its link', bool),
    Slot('level_map', ('k', 36), '', '6 × 6, base axes'),
    Slot('level_frame', ('k', 9), '', 'rotations of the frames to base axes'),
    # results
    Slot('link_F', ('6m',), 'N·m, N', 'forces of the tasks on the links, base axes'),
    Slot('level_F', ('6k',), 'N·m, N', 'forces of the levels, base axes'),
    Slot('level_ratios', ('k', 6), '', 'singular values, relative to the largest'),
    Slot('level_shares', ('k', 6), '', 'controlled share of each singular direction'),
    Slot('level_directions', ('k', 6, 6), '', 'singular directions, in columns'),
    Slot('level_mask', ('k', 6), '', '1 for the axes that the last solve controls'),
    Slot('level_most', ('k',), '', 'largest squared singular value before the elimination'),
    Slot('level_mobility', ('k',), '', 'scaled mobility before the elimination'),
    Slot('level_J', (SOLVES, '6k', 'n'), '', 'of each solve, the Jacobian of each level in the '
         'null space of the higher levels, base axes'))

LEVELS_ROOM = (
    Slot('level_W', (SOLVES, '6k', '6k'), '', 'of each solve, the mobility; Lⱼᵢ in the blocks '
         'below the diagonal'),
    Slot('level_Lambda', (SOLVES, 'k', 6, 6), '', 'of each solve, Λ of the controlled directions, '
         'times the weight of the solve. A joint acceleration q̈ needs the torques Σ JᵢᵀΛᵢJᵢ q̈ '
         'against the tasks'),
    Slot('level_r', ('6k',), '', 'memory for accelerations'),
    Slot('level_parts', ('6k',), '', 'memory for forces'),
    Slot('level_held', ('6k', 'n'), '', 'parts of the Jacobians that higher levels hold'),
    *(Slot(f'work_{one}', (36,), '', 'memory for a matrix')
      for one in ('A', 'B', 'V', 'X', 'Lambda', 'K', 'C', 'D')),
    *(Slot(f'work_{one}', (6,), '', 'memory for a vector') for one in ('x', 'y')))
