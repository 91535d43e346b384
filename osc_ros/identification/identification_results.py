# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Result of an identification, with validation; as text, parameter file and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
import yaml

from osc_ros.commandline import json_values
from osc_ros.identification.excitation import ARM
from osc_ros.identification.fit.arm_fit import arm_estimate, ArmEstimate, relative_mass_changes
from osc_ros.identification.fit.joint_recording import Recording
from osc_ros.identification.fit.payload_fit import payload_estimate, PayloadEstimate
from osc_ros.identification.fit.plausibility import require_motion, require_plausible
from osc_ros.identification.fit.regression import described_friction, Motion, total_error
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Identification:
    """An estimate, with the torque errors before and after it."""

    robot: Robot  # as described
    estimate: PayloadEstimate | ArmEstimate
    motions: tuple[Motion, ...]  # for the estimate, and optionally a second one for validation
    # (m, n) RMS torque error in each motion, with the description and its friction [N m]
    before: Array
    after: Array  # (m, n) the same with the estimate [N m]
    notes: tuple[str, ...]  # parameters that the data do not determine, and other warnings

    @property
    def gains(self) -> list[float]:
        """Factors by which the torque error falls, for each motion."""
        return [total_error(b) / total_error(a) for b, a in zip(self.before, self.after)]


def identification(robot: Robot, recordings: list[Recording], wanted: str,
                   link: str | None = None) -> Identification:
    """Return the payload, or the arm's parameters, with the friction, from recordings."""
    # If `wanted` is 'payload', not 'arm', the robot has none; `link` (default: first tip) carries
    # it. A second recording only validates. InputError: a recording cannot be used, or is not
    # plausible; NotDeterminedError: the motion does not determine the parameters.
    motions = tuple(Motion.of(robot, recording) for recording in recordings)
    require_motion(motions[0], robot)
    require_plausible(motions[0], robot)
    estimate: PayloadEstimate | ArmEstimate = (
        arm_estimate(motions[0], robot) if wanted == ARM
        else payload_estimate(motions[0], robot, link))
    described = described_friction(robot)
    before = np.array([motion.error(motion.rigid_torque(robot) + motion.friction @ described)
                       for motion in motions])
    after = np.array([motion.error(estimate.predicted_torque(motion, robot))
                      for motion in motions])
    return Identification(robot, estimate, motions, before, after,
                          tuple(_notes(robot, estimate, before, after)))


def _notes(robot: Robot, estimate: PayloadEstimate | ArmEstimate, before: Array, after: Array
           ) -> list[str]:
    notes = []
    for k, what in enumerate(('Coulomb friction', 'viscous friction', 'offset')):
        joints = [name for name, is_known in zip(robot.joint_names,
                                                 estimate.friction.is_determined[:, k])
                  if not is_known]
        if joints:
            notes.append(f"the data do not tell the {what} of {', '.join(joints)}"
                         + (': 0 is written' if k < 2 else ''))
    if isinstance(estimate, PayloadEstimate):
        if estimate.mass == 0.0:
            notes.append('the arm carries no payload that the data tell from zero')
        elif not estimate.has_inertia:
            notes.append("the data do not tell the payload's inertia: a point mass is written")
    elif not estimate.is_determined.all():
        notes.append(f'{np.count_nonzero(~estimate.is_determined)} of '
                     f'{len(estimate.is_determined)} base parameters do not differ from the '
                     'description by more than their standard deviation')
    if len(after) > 1 and total_error(after[1]) > 2.0 * total_error(after[0]):
        notes.append('the estimate predicts the second motion much worse than the first: do not '
                     'use it')
    if total_error(after[-1]) > 0.8 * total_error(before[-1]):
        notes.append('the estimate hardly predicts the torques better than the description')
    return notes


def parameters(found: Identification) -> dict[str, Any]:
    """Return the osc_controller parameters of payload and friction, by name."""
    estimate, friction = found.estimate, found.estimate.friction
    values: dict[str, Any] = {}
    if isinstance(estimate, PayloadEstimate):
        inertia = estimate.inertia[np.triu_indices(3)]
        values = {'payload.mass': _rounded(estimate.mass),
                  'payload.center_of_mass': _rounded(estimate.center),
                  'payload.inertia': _rounded(inertia), 'payload.link': estimate.link}
    is_determined = friction.is_determined
    return {**values,
            'friction.coulomb': _rounded(np.where(is_determined[:, 0], friction.coulomb, 0.0)),
            'friction.viscous': _rounded(np.where(is_determined[:, 1], friction.viscous, 0.0))}


def _rounded(value: Any) -> Any:
    """Return a number or a list of numbers with five significant digits."""
    if np.ndim(value):
        return [_rounded(x) for x in value]
    return float(f'{float(value):.5g}')


def parameter_file(found: Identification, node: str = 'osc_controller') -> str:
    """Return a YAML parameter file for ROS, with standard deviations in comments."""
    estimate, friction = found.estimate, found.estimate.friction
    lines = [f'# Written by osc_identify for robot {found.robot.name}: standard deviations in '
             'comments', f'/**/{node}:', '  ros__parameters:']
    comments = {
        'friction.coulomb': f'± {_rounded(friction.deviations[:, 0])} N m',
        'friction.viscous': f'± {_rounded(friction.deviations[:, 1])} N m s/rad'}
    if isinstance(estimate, PayloadEstimate):
        comments.update({
            'payload.mass': f'± {_rounded(estimate.mass_deviation)} kg',
            'payload.center_of_mass': f'± {_rounded(estimate.center_deviation)} m',
            'payload.inertia': f'± {_rounded(estimate.inertia_deviation)} kg m²'})
    for name, value in parameters(found).items():
        text = yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]
        lines.append(f'    {name}: {text}' + (f'  # {comments[name]}' if name in comments else ''))
    lines.append('# Offset of the torque of each joint, which the controller does not use [N m]: '
                 f'{_rounded(friction.offset)}')
    lines += [f'# {note}' for note in found.notes]
    return '\n'.join(lines) + '\n'


def numbers(found: Identification) -> dict[str, Any]:
    """Return all results for a JSON file."""
    estimate, friction = found.estimate, found.estimate.friction
    values: dict[str, Any] = {
        'robot': found.robot.name, 'joints': list(found.robot.joint_names),
        'parameters': parameters(found), 'condition': _rounded(estimate.fit.condition),
        'friction': {
            'coulomb': _rounded(friction.coulomb), 'viscous': _rounded(friction.viscous),
            'offset': _rounded(friction.offset),
            'coulomb_forward': _rounded(friction.by_direction[:, 0]),
            'coulomb_backward': _rounded(friction.by_direction[:, 1]),
            'viscous_forward': _rounded(friction.by_direction[:, 2]),
            'viscous_backward': _rounded(friction.by_direction[:, 3]),
            'deviations': _rounded(friction.deviations), 'told': friction.is_determined.tolist()},
        'torque_error_before': _rounded(np.nan_to_num(found.before)),
        'torque_error_after': _rounded(np.nan_to_num(found.after)),
        'error_cut_by': _rounded(found.gains), 'notes': list(found.notes)}
    if isinstance(estimate, PayloadEstimate):
        values['payload_deviations'] = {
            'mass': _rounded(estimate.mass_deviation),
            'center_of_mass': json_values(_rounded(estimate.center_deviation)),
            'inertia': json_values(_rounded(estimate.inertia_deviation))}
    else:
        values['base_parameters'] = [
            {'name': name, 'correction': _rounded(c), 'deviation': _rounded(d), 'told': bool(t),
             'consistent_correction': _rounded(p)}
            for name, c, d, t, p in zip(estimate.base.names, estimate.corrections,
                                        estimate.deviations, estimate.is_determined,
                                        estimate.consistent_corrections, strict=True)]
    return values


def report(found: Identification) -> str:
    """Return the results as text with a table."""
    estimate, friction = found.estimate, found.estimate.friction
    lines = []
    if isinstance(estimate, PayloadEstimate):
        lines.append(f'payload at {estimate.link}: {estimate.mass:.3f} ± '
                     f'{estimate.mass_deviation:.3f} kg')
        if estimate.mass:
            center = ', '.join(f'{1e3 * x:.1f} ± {1e3 * d:.1f}' for x, d in zip(
                estimate.center, estimate.center_deviation))
            lines.append(f'  centre of mass: {center} mm')
        if estimate.has_inertia:
            lines.append('  inertia xx yy zz: ' + ', '.join(
                f'{x:.4f} ± {d:.4f}' for x, d in zip(np.diagonal(estimate.inertia),
                                                     estimate.inertia_deviation[[0, 3, 5]]))
                         + ' kg m²')
    else:
        lines.append(f'{len(estimate.base.names)} base parameters, '
                     f'{np.count_nonzero(estimate.is_determined)} of them differ from the '
                     'description')
        lines.append('  masses of the bodies, change: ' + ', '.join(
            f'{100.0 * x:+.0f} %' for x in relative_mass_changes(estimate)))
    lines.append(f"{'joint':24}{'Coulomb [N m]':>18}{'viscous [N m s]':>18}{'offset [N m]':>18}"
                 f"{'error [N m]':>20}")
    for i, name in enumerate(found.robot.joint_names):
        cells = [f'{x[i]:.3f} ± {d:.3f}' for x, d in zip(
            (friction.coulomb, friction.viscous, friction.offset), friction.deviations[i])]
        error = f'{found.before[-1][i]:.3f} → {found.after[-1][i]:.3f}'
        lines.append(f'{name:24}' + ''.join(f'{cell:>18}' for cell in cells) + f'{error:>20}')
    which = ('on the second motion' if len(found.motions) > 1
             else 'on the motion of the estimate (no second motion was given)')
    lines.append(f'error of the torques cut by {found.gains[-1]:.1f} {which}; condition number '
                 f'{estimate.fit.condition:.0f}')
    return '\n'.join(lines + [f'note: {note}' for note in found.notes])
