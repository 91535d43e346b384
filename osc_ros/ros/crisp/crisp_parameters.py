# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Parameters of CRISP's Cartesian controllers, and those of osc_controller that act alike."""

from __future__ import annotations

from collections.abc import Mapping
import math
from typing import Any

from osc_ros.ros.parameters.parameters import Entry

AXES = 'xyz'
# bounds of parameters of osc_controller
LEAST, LARGEST_RATIO, LARGEST_FORCE = 1e-3, 1e2, 1e6
NOTHING = 'Accepted, no effect: '
# part of osc_controller: part of CRISP, default stiffness, prefix and default of the error bounds
PARTS = {'translation': ('pos', 500.0, '', 0.1), 'rotation': ('rot', 30.0, 'r', 0.5)}


def _task() -> list[Entry]:
    found = []
    for part, (short, stiffness, prefix, clip) in PARTS.items():
        unit = 'N/m' if short == 'pos' else 'N m/rad'
        for axis in AXES:
            found += [
                Entry(f'task.k_{short}_{axis}', stiffness, f'Stiffness of the {part}, {axis} '
                      f'[{unit}]', lower=0.0, upper=5000.0, live=True),
                Entry(f'task.d_{short}_{axis}', -1.0, f'Damping d of the {part}, {axis}: a '
                      'damping ratio of d / (2 sqrt(stiffness)); negative: critical',
                      lower=-1.0, upper=5000.0, live=True),
                Entry(f'task.error_clip.{prefix}{axis}', clip, f'Error of the {part}, {axis}, at '
                      'which the spring has its largest force [m, rad]', lower=0.0, live=True)]
    return found


def _ignored(default: Any, why: str, *names: str) -> list[Entry]:
    return [Entry(name, default, NOTHING + why, live=True) for name in names]


TABLE = (
    *_task(),
    Entry('nullspace.stiffness', 1.0, 'Stiffness k of the joints in the nullspace: a natural '
          'frequency of sqrt(k) [rad/s]', lower=0.0, upper=500.0, live=True),
    Entry('nullspace.damping', -1.0, 'Damping d of the joints in the nullspace: a damping rate of '
          'd [1/s]; negative: critical', lower=-1.0, upper=500.0, live=True),
    Entry('nullspace.projector_type', 'kinematic', NOTHING + 'the projector is the dynamic one. '
          "'none' is refused: joint_trajectory_controller moves the joints",
          choices=('kinematic', 'dynamic'), live=True),
    Entry('use_operational_space', False, 'Forces are weighted by the inertia of the tip: mode '
          'acceleration of osc_controller, with natural frequencies sqrt(stiffness); otherwise '
          'mode impedance', live=True),
    Entry('use_local_jacobian', False, 'Stiffness in the axes of the tip, not of the base',
          live=True),
    Entry('limit_error', True, 'The errors in task.error_clip bound the force of the spring',
          live=True),
    Entry('variable_stiffness.enabled', False, 'Stiffness on target_stiffness is obeyed',
          live=True),
    Entry('stop_commands', False, 'Only false is accepted: deactivate the controller instead',
          live=True),
    *_ignored(True, "set osc_controller's limits.…", 'limit_torques',
              'joint_limit_repulsion.enabled'),
    *_ignored(False, "set osc_controller's friction.… and the driver's gravity", 'use_friction',
              'use_coriolis_compensation', 'use_gravity_compensation', 'log.enabled'),
    *_ignored(0.5, 'as for limit_torques', 'max_delta_tau'),
    *_ignored(5.0, 'as for limit_torques', 'nullspace.max_tau',
              'joint_limit_repulsion.max_torque'),
    *_ignored(0.1, 'as for limit_torques', 'joint_limit_repulsion.safe_range'),
    *_ignored(1e-6, "set osc_controller's singularity.…", 'nullspace.regularization'),
    *_ignored(0.5, 'states and torques are not filtered', 'filter.q', 'filter.dq', 'filter.q_ref',
              'filter.output_torque'),
    *_ignored(0.1, "set osc_controller's target.…", 'filter.target_pose'),
    *_ignored((), "set osc_controller's friction.…", 'friction.fp1', 'friction.fp2',
              'friction.fp3'),
)


def mode(found: Mapping[str, Any]) -> str:
    """Return the mode of osc_controller for CRISP's parameters."""
    return 'acceleration' if found['use_operational_space'] else 'impedance'


def controller_parameters(found: Mapping[str, Any], tip: str) -> dict[str, Any]:
    """Return the parameters of osc_controller, without `mode`, for all parameters of CRISP."""
    k, d = found['nullspace.stiffness'], found['nullspace.damping']
    ours = {'task.frame': tip if found['use_local_jacobian'] else '',
            'posture.natural_frequency': math.sqrt(k), 'posture.damping_ratio': float(d < 0.0),
            'posture.damping': max(d, 0.0)}
    for part, (short, _, prefix, _) in PARTS.items():
        K, D = ([found[f'task.{one}_{short}_{axis}'] for axis in AXES] for one in 'kd')
        ours[f'{part}.damping_ratio'] = [_ratio(*pair) for pair in zip(K, D)]
        if found['use_operational_space']:
            ours[f'{part}.natural_frequency'] = [max(math.sqrt(k), LEAST) for k in K]
            continue
        ours[f'{part}.stiffness'] = [max(k, LEAST) for k in K]
        ours[f'{part}.spring_limit'] = LARGEST_FORCE if not found['limit_error'] else max(
            LEAST, *(k * found[f'task.error_clip.{prefix}{axis}'] for k, axis in zip(K, AXES)))
    return ours


def _ratio(stiffness: float, damping: float) -> float:
    """Return the damping ratio of a unit mass, within the bounds of osc_controller."""
    if damping < 0.0 or stiffness <= 0.0:
        return 1.0
    return min(max(damping / (2.0 * math.sqrt(stiffness)), LEAST), LARGEST_RATIO)
