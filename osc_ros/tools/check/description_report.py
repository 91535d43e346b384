# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What the controller makes of an arm, as lines of text and for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from osc_ros.commandline import json_values
from osc_ros.tools.check.findings import AXES, Findings


def report(found: Findings) -> list[str]:
    """Return the lines to print, without notes and problems."""
    robot = found.robot
    lines = [f"'{robot.name}': {robot.n} joints from '{robot.base}' to '{robot.tip}'"]
    for part in (_chain(found), _rest(found), _home_lines(found)):
        lines += ['', *part]
    return [*lines, '']


def _chain(found: Findings) -> list[str]:
    robot = found.robot
    head = (f'{"joint":24} {"type":9} {"position":>17} {"speed":>7} {"torque":>7} {"rotor":>7} '
            f'{"mass":>7}  links that move with it')
    units = f'{"":24} {"":9} {"[rad, m]":>17} {"[1/s]":>7} {"[N m]":>7} {"[kg m²]":>7} {"[kg]":>7}'
    lines = [head, units]
    for body, joint in enumerate(robot.joints):
        k = robot.v_index[body]
        low, high = robot.position_limits[k]
        kind = 'prismatic' if robot.prismatic[body] else 'revolute'
        lines.append(
            f'{joint:24} {kind:9} {f"{low:.3g} … {high:.3g}":>17} {robot.velocity_limits[k]:7.3g} '
            f'{robot.effort_limits[k]:7.3g} {robot.rotor_inertia[k]:7.3g} '
            f'{robot.inertia[body, 5, 5]:7.3g}  {", ".join(found.lumped[joint])}')
    lines.append(f'moving mass {robot.inertia[:, 5, 5].sum():.3f} kg')
    return lines


def _rest(found: Findings) -> list[str]:
    lines = [f"with the base, fixed: {', '.join(found.lumped[''])}"]
    return lines + [f"joint '{joint}': {why}" for joint, why in found.locked.items()]


def _home_lines(found: Findings) -> list[str]:
    robot = found.robot
    lines = [f"home [rad, m]: {', '.join(f'{x:.3f}' for x in found.home)}",
             f'reach: the tip is {found.reach[0]:.2f} to {found.reach[1]:.2f} m from the first '
             'joint (random postures)',
             f'conditioning at home {found.conditioning:.3f} (1 m counts as 1 / 0.3 rad), '
             f'{found.freedoms} freedoms of the tip']
    shares = np.abs(found.weight) / robot.effort_limits
    if np.isfinite(robot.effort_limits).all():
        most = int(np.argmax(shares))
        lines.append(f'weight at home: at most {100.0 * shares[most]:.0f} % of a torque limit '
                     f'({robot.joint_names[most]})')
    lines.append('inertia of the tip at home, along one axis alone (1 / (Λ⁻¹)ᵢᵢ): ' + ', '.join(
        f'{axis} {value:.3g} {"kg m²" if i < 3 else "kg"}'
        for i, (axis, value) in enumerate(zip(AXES, found.effective_mass))))
    lines.append('Λ at home, rows and columns rotation x y z [kg m²], x y z [kg], between them '
                 '[kg m]:')
    lines += ['  ' + ' '.join(f'{x:9.3f}' for x in row) for row in found.Lambda]
    lines.append('singular postures near home, moving one joint alone:')
    lines += [f'  {one.joint} at {one.position:.3f}, {one.distance:.3f} away: loses '
              f'{one.direction}' for one in found.singularities] or ['  none']
    lines.append('largest natural frequency, damping ratio 1, delay of one period: ' + ', '.join(
        f'{omega:.0f} rad/s at {rate:.0f} Hz' for rate, omega in found.frequencies.items()))
    return lines


def as_json(found: Findings) -> dict[str, Any]:
    """Return the findings for JSON; numbers that are not finite become null."""
    robot = found.robot
    return {
        'robot': robot.name, 'base': robot.base, 'tip': robot.tip,
        'joints': [{
            'name': joint, 'type': 'prismatic' if robot.prismatic[i] else 'revolute',
            'position [rad, m]': json_values(robot.position_limits[robot.v_index[i]]),
            'speed [rad/s, m/s]': json_values(robot.velocity_limits[robot.v_index[i]]),
            'torque [N m, N]': json_values(robot.effort_limits[robot.v_index[i]]),
            'rotor inertia [kg m²]': float(robot.rotor_inertia[robot.v_index[i]]),
            'mass [kg]': float(robot.inertia[i, 5, 5]), 'links': found.lumped[joint],
        } for i, joint in enumerate(robot.joints)],
        'fixed links': found.lumped[''], 'locked joints': found.locked,
        'home': found.home.tolist(), 'weight at home [N m, N]': found.weight.tolist(),
        'reach [m]': list(found.reach), 'conditioning': found.conditioning,
        'freedoms': found.freedoms,
        'effective inertia': dict(zip(AXES, json_values(found.effective_mass))),
        'Lambda': found.Lambda.tolist(),
        'singular postures': [vars(one) for one in found.singularities],
        'largest natural frequency [rad/s]': {f'{rate:g} Hz': omega for rate, omega
                                              in found.frequencies.items()},
        'notes': found.notes, 'problems': found.problems, 'controllable': not found.problems}
