# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A few capsules on the shipped Panda, and the robot with a clearance."""

from osc_ros.collision.shape_files import shape_model
from osc_ros.control.limits.clearance import Clearance

SHAPES = """
shapes:
  panda_link1: [{ends: [[0, 0, -0.333], [0, 0, -0.05]], radius: 0.06}]
  panda_link2: [{ends: [[0, 0, -0.06], [0, 0, 0.06]], radius: 0.06}]
  panda_link3: [{ends: [[0, 0, -0.22], [0, 0, -0.07]], radius: 0.06}]
  panda_link4: [{ends: [[0, 0, -0.06], [0, 0, 0.06]], radius: 0.06}]
  panda_link5: [{ends: [[0, 0, -0.31], [0, 0, -0.21]], radius: 0.06},
                {ends: [[0, 0.08, -0.2], [0, 0.08, -0.06]], radius: 0.025}]
  panda_link6: [{ends: [[0, 0, -0.07], [0, 0, 0.01]], radius: 0.05}]
  panda_link7: [{ends: [[0, 0, -0.06], [0, 0, 0.08]], radius: 0.04}]
  panda_hand: [{ends: [[0, -0.05, 0.04], [0, 0.05, 0.04]], radius: 0.04},
               {ends: [[0, -0.05, 0.1], [0, 0.05, 0.1]], radius: 0.02}]
ignored:
  - [panda_link1, panda_link3]
  - [panda_link2, panda_link4]
  - [panda_link3, panda_link5]
  - [panda_link4, panda_link6]
  - [panda_link5, panda_link7]
  - [panda_link5, panda_hand]
"""


def shapes_file(folder):
    """Write the capsules to a file in a folder; return its path as text."""
    path = folder / 'panda.shapes.yaml'
    path.write_text(SHAPES, encoding='utf-8')
    return str(path)


def panda_clearance(folder, **options):
    """Return a `Clearance` with the capsules."""
    return Clearance.of(shape_model('panda', shapes_file(folder)), **options)
