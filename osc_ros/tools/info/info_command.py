# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_info: prints the analysis of a robot description."""

from __future__ import annotations

import argparse
import json
from math import isnan
import sys
from time import perf_counter
from typing import Any

import numpy as np

from osc_ros.commandline import (
    add_robot,
    colored_text,
    json_values,
    Parser,
    ProgressBar,
    robot_text,
    with_robot,
)
from osc_ros.errors import InputError, ModelError, OscError
from osc_ros.model.ends import ends_of_chains
from osc_ros.model.urdf import named_in
from osc_ros.tools.info.findings import AXES, Findings, findings

EXAMPLE = """examples:
  osc_info --robot panda
  osc_info --urdf arm.urdf --base base_link --tip tool0 --no-timing

Exit status: 0 if the arm can be controlled, 1 if not (it says what to mend), 2 for wrong
arguments or an unreadable file."""
UPDATES = 2000  # number of timed updates
SHARE = 0.5  # accepted 99th percentile of the update time, as a share of the period


def main(arguments: list[str] | None = None) -> None:
    """Print the findings and exit; EXAMPLE lists the exit statuses."""
    options = _options(arguments)
    text, locked = '', dict[str, float]()
    try:
        home, locked = _home(options.home), dict(_position(one) for one in options.lock)
        text = robot_text(options)
        base, tip = _ends(options, text)
        found = findings(text, base, tip, home, locked)
    except ModelError as error:
        asked, known = {*filter(None, (options.base, options.tip)), *locked}, named_in(text)
        if not known or not asked <= known:
            print(f'osc_info: {error}', file=sys.stderr)
            sys.exit(2)
        print(json.dumps({'controllable': False, 'problems': [str(error)]}) if options.json
              else f'CANNOT BE CONTROLLED: {error}')
        sys.exit(1)
    except InputError as error:
        print(f'osc_info: {error}', file=sys.stderr)
        sys.exit(2)
    timing = None if options.no_timing else measured_updates(found)
    print(json.dumps(as_json(found, timing), indent=1) if options.json
          else '\n'.join(report(found, timing)))
    sys.exit(1 if found.problems else 0)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_info', epilog=EXAMPLE,
        description='What the controller makes of a robot description: chain, masses, limits, '
        'singular postures, reach, task inertia, rates.')
    add_robot(parser)
    parser.add_argument('--home', help='joint positions, base first, as 0,-0.8,0,… (the best '
                        'conditioned of random postures)')
    parser.add_argument('--lock', action='append', default=[], metavar='JOINT=POSITION',
                        help='a joint that does not move; repeatable')
    parser.add_argument('--json', action='store_true', help='print JSON')
    parser.add_argument('--no-timing', action='store_true',
                        help='do not measure an update here, which may compile kernels first')
    return with_robot(parser, arguments)


def _ends(options: argparse.Namespace, text: str) -> tuple[str, str]:
    """Return base and tip; defaults: the root, and the end of the longest chain."""
    if options.base and options.tip:
        return options.base, options.tip
    try:
        root, ends = ends_of_chains(text)
    except OscError:
        return options.base or '', options.tip or ''  # `findings` reports the error
    return options.base or root, options.tip or ends[0][0]


def _home(given: str | None) -> Any:
    if given is None:
        return None
    try:
        return np.array([float(x) for x in given.replace(',', ' ').split()])
    except ValueError:
        raise InputError(f"--home '{given}': give numbers, as 0,-0.8,0") from None


def _position(given: str) -> tuple[str, float]:
    name, _, value = given.partition('=')
    try:
        return name, float(value or 0.0)
    except ValueError:
        raise InputError(f"--lock '{given}': give JOINT=POSITION, as wrist=0.5") from None


def measured_updates(found: Findings) -> tuple[float, float]:
    """Return median and 99th percentile of the time of a controller update here [s]."""
    # In this process, without ROS and other load. The first use compiles kernels, as stderr says.
    from osc_ros.compile.compilation import compile_in_parallel
    from osc_ros.compile.compiled import on_demand
    from osc_ros.control.law import Law
    print('measuring an update; the first time, this compiles kernels for a minute ...',
          file=sys.stderr, flush=True)
    times = np.empty(UPDATES)
    with ProgressBar('compiling kernels') as bar, on_demand(), compile_in_parallel(
            Law, found.robot, tell=lambda now: bar.show(
                0.0 if isnan(now.share) else now.share, now.left)):
        law = Law(found.robot)
    try:
        law.hold(found.home)
        still = np.zeros(found.robot.n)
        for k in range(UPDATES):
            begun = perf_counter()
            law.torque(0.001 * k, found.home, still)
            times[k] = perf_counter() - begun
    finally:
        law.close()
    return float(np.median(times)), float(np.percentile(times, 99))


def report(found: Findings, timing: tuple[float, float] | None) -> list[str]:
    """Return the lines to print."""
    robot = found.robot
    lines = [f"'{robot.name}': {robot.n} joints from '{robot.base}' to '{robot.tip}'"]
    for part in (_chain(found), _rest(found), _home_lines(found), _rates(found, timing)):
        lines += ['', *part]
    lines += [''] + [colored_text(f'note: {one}', 'warn') for one in found.notes]
    lines += [colored_text(f'PROBLEM: {one}', 'bad') for one in found.problems]
    lines.append(colored_text('CANNOT BE CONTROLLED as it is', 'bad') if found.problems
                 else colored_text('can be controlled', 'good'))
    return lines


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
    return lines


def _rates(found: Findings, timing: tuple[float, float] | None) -> list[str]:
    lines = ['largest natural frequency, damping ratio 1, delay of one period: ' + ', '.join(
        f'{omega:.0f} rad/s at {rate:.0f} Hz' for rate, omega in found.frequencies.items())]
    if timing is not None:
        lines.append(f'an update takes {1e6 * timing[0]:.0f} µs here (p99 {1e6 * timing[1]:.0f} '
                     f'µs, without ROS): half of a period at {SHARE / timing[1]:.0f} Hz')
    return lines


def as_json(found: Findings, timing: tuple[float, float] | None) -> dict[str, Any]:
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
        'update [s]': None if timing is None else {'p50': timing[0], 'p99': timing[1]},
        'notes': found.notes, 'problems': found.problems, 'controllable': not found.problems}


if __name__ == '__main__':
    main()
