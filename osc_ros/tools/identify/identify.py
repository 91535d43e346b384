# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command osc_identify: estimates payload, friction and link inertias from a motion."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.commandline import (
    add_json,
    is_agreed,
    make_folder,
    output_folder,
    Parser,
    ProgressBar,
    ros_name,
    run_command,
    STDOUT,
    write_json,
)
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.errors import InputError, installation
from osc_ros.identification.corrected_urdf import corrected_urdf
from osc_ros.identification.drive import announcement, Guard, Mover, StoppedError
from osc_ros.identification.excitation import ARM, MotionLimits, PAYLOAD, Planner
from osc_ros.identification.fit.arm_fit import ArmEstimate
from osc_ros.identification.fit.inertial import inertial_parameters
from osc_ros.identification.fit.joint_recording import Recording
from osc_ros.identification.fit.plausibility import NotDeterminedError
from osc_ros.identification.identification_results import (
    Identification,
    identification,
    numbers,
    parameter_file,
    report,
)
from osc_ros.model.robot import Robot
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.process.share import share_directory
from osc_ros.tools.check.parameter_files import Parameters
from osc_ros.tools.check.robot_options import new_path, write_new

Array = NDArray[np.float64]

EXAMPLE = """examples:
  osc_identify --simulate --yes                  a Panda in MuJoCo with a payload of 1.2 kg
  osc_identify                                   the arm of the running osc_controller
  osc_identify --what arm --duration 20          its links too, without a payload
  osc_identify --robot panda --recording a.npz --validation b.npz
                                                 recordings: no arm is needed

exit status: 0 written; 1 the data do not suffice, or the arm was stopped; 2 bad input;
3 declined"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit; EXAMPLE lists the exit statuses."""
    run_command('osc_identify', _options(arguments), _identify,
                {NotDeterminedError: 1, StoppedError: 1})


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog='osc_identify', epilog=EXAMPLE,
        description='Estimates the payload of an arm and the friction of its joints, or the\n'
        'inertial parameters of its links, from a motion within limits and a box. Says first\n'
        'what it will do, and asks.')
    parser.add_argument('--what', choices=(PAYLOAD, ARM), default=PAYLOAD,
                        help='payload: payload and friction, with the links as described; arm: '
                        'links and friction, without a payload (payload)')
    source = parser.add_mutually_exclusive_group()
    source.add_argument('--simulate', action='store_true', help='an arm in MuJoCo, without ROS')
    source.add_argument('--recording', type=Path, help='.npz or .csv: no arm moves')
    parser.add_argument('--validation', type=Path, help='second recording, to judge the result')
    parser.add_argument('--robot', help='with --recording or --simulate: a robot of this package '
                        '(to simulate: panda)')
    parser.add_argument('--urdf', type=Path, help='with --recording: your own robot, with --base '
                        'and --tip')
    parser.add_argument('--base', help='link that is fixed to the ground')
    parser.add_argument('--tip', help='link at the end')
    parser.add_argument('--link', help='link that carries the payload (the tip)')
    parser.add_argument('--controller', default='osc_controller', type=ros_name,
                        help='name of the running controller (osc_controller)')
    parser.add_argument('--torques', choices=('efforts', 'commands'), default='efforts',
                        help='torques of a running arm: efforts of joint_states, or commands of '
                        'the controller (efforts)')
    parser.add_argument('--duration', type=float, default=10.0, help='of each motion [s] (10)')
    parser.add_argument('--share', type=float, default=0.5, help='of the velocity and torque '
                        'limits (0.5)')
    parser.add_argument('--excursion', type=float, default=0.6, help='of every joint from its '
                        'present position [rad] (0.6)')
    parser.add_argument('--box', type=float, nargs=6, metavar='M', help='lower and upper corner '
                        'of the box that the tip stays in, base frame [m] (0.3 m around the tip)')
    parser.add_argument('--yes', action='store_true', help='do not ask')
    parser.add_argument('--output', type=output_folder, default=Path('osc_identify'),
                        help='folder of results and recordings (osc_identify)')
    add_json(parser)
    options = parser.parse_args(arguments)
    if options.recording and not (options.robot or (options.urdf and options.base
                                                    and options.tip)):
        parser.error('--recording needs --robot, or --urdf with --base and --tip')
    if options.validation and not options.recording:
        parser.error('--validation needs --recording')
    return options


def _identify(options: argparse.Namespace) -> int:
    make_folder(options.output)
    true_parameters: dict[str, Any] = {}
    if options.recording:
        text, robot = _described(options.robot, options)
        files = [file for file in (options.recording, options.validation) if file]
        recordings = [Recording.load(file) for file in files]
    else:
        with closing(_mover(options)) as mover:
            text, robot = mover.text, mover.robot
            recordings = _recordings(options, mover)
            true_parameters = mover.true_parameters()
        if not recordings:
            return 3
    found = identification(robot, recordings, options.what, options.link)
    print(report(found))
    for name, value in true_parameters.items():
        if name != 'parameters':
            print(f'true {name}: {np.round(value, 4).tolist()}')
    _write(options, found, text)
    return 0


def _described(name: str | None, options: argparse.Namespace) -> tuple[str, Robot]:
    """Return URDF text and robot: a robot of this package by name, otherwise the user's URDF."""
    if name is None:
        values = {'base': options.base, 'tip': options.tip}
        text = robot_parameters.urdf_text(str(options.urdf))
    else:
        if name not in robot_parameters.shipped_robots():
            raise InputError(f"robot '{name}': must be one of "
                             + ', '.join(robot_parameters.shipped_robots()))
        given = Parameters([share_directory() / 'config' / f'{name}.yaml']).given('osc_simulator')
        values = {'base': options.base or given['base'], 'tip': options.tip or given['tip']}
        text = robot_parameters.urdf_text(name)
    return text, Robot.from_urdf(text, values['base'], values['tip'])


def _mover(options: argparse.Namespace) -> Any:
    """Return the running arm, or with --simulate an arm in MuJoCo."""
    if not options.simulate:
        from osc_ros.tools.identify.identify_arm import RunningArm
        return RunningArm(options.controller, options.torques)
    from osc_ros.tools.identify.identify_simulated import SimulatedMover, Truth
    name = options.robot or 'panda'
    text, robot = _described(name, options)
    given = Parameters([share_directory() / 'config' / f'{name}.yaml'])
    q = np.array(given.given('osc_simulator')['initial_positions'])
    truth = Truth() if options.what == PAYLOAD else Truth(mass=0.0, links=0.1)
    return SimulatedMover(text, robot, q, truth)


def _recordings(options: argparse.Namespace, mover: Mover) -> list[Recording]:
    """Plan two motions, ask the user, execute both; return the recordings, [] if declined."""
    robot, q = mover.robot, mover.positions()
    if options.box is None:
        tip = link_pose(robot, q, robot.tip)[:3, 3]
        box = np.array([tip - 0.3, tip + 0.3])
    else:
        box = np.reshape(options.box, (2, 3))
    limits = MotionLimits.of(robot, q, options.share, options.excursion, box)
    planner = Planner(robot, q, limits, options.what, options.link)
    print('looking for a motion that tells the parameters ...', flush=True)
    trajectories = []
    for seed in (0, 1):
        with ProgressBar(f'looking for motion {seed + 1} of 2') as bar:
            trajectories.append(planner.trajectory(options.duration, seed, bar.show))
    extents = [planner.extent(trajectory) for trajectory in trajectories]
    extent = max(extents, key=lambda one: one.tip_speed)
    for trajectory, one in zip(trajectories, extents):
        print(announcement(robot, one, trajectory.duration))
    print(f'largest speed of the tip: {extent.tip_speed:.2f} m/s; box: {np.round(box, 2).tolist()}'
          ' m. No obstacle is known to this program: keep the emergency stop at hand.')
    if not options.yes and not is_agreed('Move the arm?'):
        print('nothing was moved')
        return []
    recordings = []
    for number, trajectory in enumerate(trajectories, 1):
        print(f'motion {number} of 2 ...', flush=True)
        with ProgressBar(f'motion {number} of 2') as bar:
            recording = mover.perform(trajectory, ShownGuard(robot, limits, trajectory, bar))
        path = new_path(options.output / f'recording_{number}.npz')
        recording.save(path)
        print(f'recorded: {path}')
        recordings.append(recording)
    return recordings


@dataclass(frozen=True, eq=False)
class ShownGuard(Guard):
    """A `Guard`, which monitors the motion, and also shows its progress in a progress bar."""

    bar: ProgressBar

    def stop_reason(self, time: float, q: Array, qd: Array) -> str:
        """Show the progress; return the reason to stop the motion, or '' (see `Guard`)."""
        self.bar.show(time / self.trajectory.duration)
        return super().stop_reason(time, q, qd)


def _write(options: argparse.Namespace, found: Identification, text: str) -> None:
    """Write parameter file, corrected URDF, report and plot; with --json also the numbers."""
    friction, robot = found.estimate.friction, found.robot
    written = [write_new(options.output / 'parameters.yaml',
                         parameter_file(found, options.controller)),
               write_new(options.output / 'report.txt', report(found) + '\n')]
    is_determined = friction.is_determined
    values = (found.estimate.parameters if isinstance(found.estimate, ArmEstimate)
              else np.zeros_like(inertial_parameters(robot.inertia)))
    written.append(write_new(
        options.output / f'{robot.name}_corrected.urdf', corrected_urdf(
            text, robot, values, (np.where(is_determined[:, 0], friction.coulomb, 0.0),
                                  np.where(is_determined[:, 1], friction.viscous, 0.0)))))
    try:
        from osc_ros.identification.identification_plots import write_plot
        path = new_path(options.output / 'torques.png')
        write_plot(path, found)
        written.append(path)
    except ImportError:
        print(f"note: the plot needs matplotlib: {installation('demo')}")
    if options.json:
        write_json(options.json, numbers(found))
        written += [options.json] if options.json != STDOUT else []
    print('written: ' + ' '.join(map(str, written)))


if __name__ == '__main__':
    main()
