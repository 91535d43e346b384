# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Data of a controller of a Panda, for the tests of the page."""

from dataclasses import fields

import numpy as np

from osc_ros import Robot, shipped_urdf
from osc_ros.viewer.scene.reading import ControlReport, Reading

PANDA = 'panda_link0', 'panda_hand_tcp'
READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
PARAMETERS = {'mode': 'acceleration', 'task.activation': 1.0,
              'translation.natural_frequency': [20.0, 20.0, 10.0],
              'goal.translation.tolerance': 2e-3, 'goal.rotation.tolerance': 1e-2}


def described_panda():
    """Return the text of the URDF, and the robot."""
    text = shipped_urdf('panda').read_text()
    return text, Robot.from_urdf(text, *PANDA)


def reading_of(panda, **values):
    """Return a reading with these fields of `Reading` and `ControlReport`."""
    text, robot = panda
    names = {one.name for one in fields(ControlReport)}
    control = ControlReport(**{name: values.pop(name) for name in names & values.keys()})
    return Reading(**{'control': control, 'robot': robot, 'urdf_text': text, 'q': READY,
                      'lifecycle': 'active', 'parameters': dict(PARAMETERS), **values})
