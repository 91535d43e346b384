# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The source of the kernels, run by the interpreter, computes the torques that they compute."""

import os
import subprocess
import sys

import numpy as np
import pytest

from osc_ros.control.safety.supervision import REACTIONS
import plain_ticks
from plain_ticks import MODES, ROBOT, torques_by_name


@pytest.mark.parametrize('names', [
    ('tip', 'hold'), pytest.param((*MODES, *REACTIONS), marks=pytest.mark.slow)], ids=' '.join)
def test_python_alone_computes_the_same_torques_as_the_kernels(names, tmp_path):
    file = tmp_path / 'torques.npz'
    done = subprocess.run([sys.executable, plain_ticks.__file__, str(file), *names], check=False,
                          capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    expected = np.load(file)
    for name, found in torques_by_name(names).items():
        apart = np.abs(found - expected[name]) / ROBOT.effort_limits
        assert apart.max() < 1e-9, name
