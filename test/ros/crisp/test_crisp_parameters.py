# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The parameters of CRISP, what osc_controller gets for them, and the package that it needs."""

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros.errors import InputError
from osc_ros.ros.crisp import crisp_node
from osc_ros.ros.crisp.crisp_parameters import controller_parameters, mode, TABLE
from osc_ros.ros.parameters.controller_parameters import with_tasks

DEFAULTS = {entry.name: entry.default for entry in TABLE}
OURS = {entry.name: entry for entry in with_tasks(())}
EXTREMES = {
    'defaults': {},
    'nothing': {name: 0.0 for name in DEFAULTS if name.startswith(('task.', 'nullspace.s'))},
    'most': {entry.name: entry.upper for entry in TABLE if entry.name.startswith('task.k')},
    'most damping': {entry.name: entry.upper for entry in TABLE
                     if entry.name.startswith(('task.d', 'nullspace.d'))}}


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(crisp_node, 'ControllerState', None)
    with pytest.raises(InputError, match='controller_manager_msgs is not installed.*apt install'):
        crisp_node.Crisp()


@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('case', EXTREMES)
def test_accepted_values_of_crisp_are_accepted_values_of_the_controller(case, weighted):
    found = DEFAULTS | EXTREMES[case] | {'use_operational_space': weighted}
    ours = controller_parameters(found, 'tool') | {'mode': mode(found)}
    for name, value in ours.items():
        OURS[name].checked_value(value)


def test_stiffness_damping_and_largest_error_become_those_of_the_spring():
    ours = controller_parameters(DEFAULTS | {
        'task.k_pos_y': 400.0, 'task.d_pos_y': 60.0, 'task.error_clip.y': 0.5,
        'nullspace.stiffness': 9.0}, 'tool')
    assert ours['translation.stiffness'] == [500.0, 400.0, 500.0]
    assert ours['translation.damping_ratio'] == [1.0, 1.5, 1.0]
    assert ours['translation.spring_limit'] == 200.0
    assert (ours['posture.natural_frequency'], ours['posture.damping_ratio']) == (3.0, 1.0)
    assert ours['task.frame'] == ''


def test_weighted_forces_are_accelerations_in_the_axes_of_the_tip():
    found = DEFAULTS | {'use_operational_space': True, 'use_local_jacobian': True,
                        'task.k_rot_z': 100.0}
    ours = controller_parameters(found, 'tool')
    assert mode(found) == 'acceleration' and ours['task.frame'] == 'tool'
    assert ours['rotation.natural_frequency'][2] == 10.0
    assert not any('stiffness' in name for name in ours)
