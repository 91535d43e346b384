# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Results of the demonstration: errors and failed phases, as table, JSON and plots."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros import commandline
from osc_ros.control.setpoint.trajectory import Schedule
from osc_ros.control.tasks.freedoms import Freedoms
from osc_ros.dynamics.algebra.kinematics import LinkAxes
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.tools.demo.demonstration import Demonstration
from osc_ros.tools.demo.scenario import errors as scenario_errors
from osc_ros.tools.demo.scenario import Phase, reference

Array = NDArray[np.float64]

CHANGED = 'changed after the first run'  # key of figures, with parameters by node and name
SETTLED = 0.3  # errors of a step count in this last share of its duration


@dataclass
class Recording:
    """
    Recorded data of a run.

    Attributes
    ----------
    pose_times, poses : list of float [s], list of (4, 4)
        Poses of the tip from the physics engine.
    state_times, positions, velocities, torques : lists of float [s], (n,), (n,), (n,) [N m]
        Measured states; torques that the physics engine applied.
    diagnostics : dict of str to str
        Last diagnostics of the controller.
    wall_time : float
        Duration of the run on the wall clock [s].
    warnings : list of str
        Warnings in the logs of the nodes.
    repetitions : int
        Earlier runs that the arm ended because torques were late.

    """

    pose_times: list[float] = field(default_factory=list)
    poses: list[Array] = field(default_factory=list)
    state_times: list[float] = field(default_factory=list)
    positions: list[Array] = field(default_factory=list)
    velocities: list[Array] = field(default_factory=list)
    torques: list[Array] = field(default_factory=list)
    diagnostics: dict[str, str] = field(default_factory=dict)
    wall_time: float = 0.0
    warnings: list[str] = field(default_factory=list)
    repetitions: int = 0

    def add_state(self, time: float, q: Array, qd: Array, tau: Array) -> None:
        """Append a state: time [s], positions, velocities and torques (n,)."""
        self.state_times.append(time)
        for values, value in ((self.positions, q), (self.velocities, qd), (self.torques, tau)):
            values.append(np.array(value))

    def restart(self) -> None:
        """Keep only the last state and the last pose, and set their times to 0."""
        self.drop_states(len(self.state_times) - 1)
        del self.poses[:-1]
        self.state_times[:], self.pose_times[:] = [0.0], [0.0]

    def drop_states(self, count: int) -> None:
        """Drop the first `count` states."""
        for values in (self.state_times, self.positions, self.velocities, self.torques):
            del values[:count]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Result:
    """
    Errors of a run.

    Attributes
    ----------
    times, distances, angles : (k,) [s], [m], [rad]
        Error of the tip at each pose.
    figures : dict
        Numbers of the table.
    failures : list of str
        Errors above their thresholds.

    """

    times: Array
    distances: Array
    angles: Array
    figures: dict[str, Any]
    failures: list[str]


def result(recording: Recording, plan: list[Phase], demonstration: Demonstration) -> Result:
    """
    Return the errors of a recording relative to the plan, and those above their thresholds.

    Errors count along the controlled axes of `demonstration`; the thresholds are parameters of
    osc_demo. Raises InputError if too few poses were recorded.

    """
    robot, freedoms = demonstration.robot, demonstration.freedoms
    thresholds = demonstration.values['osc_demo']
    times = np.array(recording.pose_times)
    schedule = reference(plan, recording.poses[0])
    errors = scenario_errors(
        np.array(recording.poses), np.array([schedule.at(time).pose for time in times]), freedoms,
        _frames(recording, robot, freedoms.frame))
    figures: dict[str, Any] = {}
    failures = []
    for number, phase in enumerate(plan):
        path = number == 0
        begin = _begin_of_errors(phase, number)
        part = errors[(times >= begin) & (times < phase.end)]
        kind, norm = ('tracking', _rms) if path else ('settled', _largest)
        if len(part) < 2:
            raise InputError(f'{phase.name}: too few poses were recorded: is this machine too '
                             'busy, or does another simulation use the same ROS_DOMAIN_ID?')
        figures[phase.name] = {
            'position rms [mm]': 1e3 * _rms(part[:, 0]),
            'position max [mm]': 1e3 * _largest(part[:, 0]),
            'orientation rms [deg]': float(np.degrees(_rms(part[:, 1]))),
            'orientation max [deg]': float(np.degrees(_largest(part[:, 1]))),
        }
        for column, what, unit, scale in ((0, 'position', 'mm', 1e3),
                                          (1, 'orientation', '°', 180.0 / np.pi)):
            found, accepted = norm(part[:, column]), thresholds[f'{kind}_{what}']
            if not found <= accepted:
                failures.append(f'{phase.name}: {what} error {scale * found:.3g} {unit}, '
                                f'accepted is {scale * accepted:.3g} {unit}')
    use = np.abs(np.array(recording.torques)) / demonstration.effort_limits
    values = recording.diagnostics
    figures['control'] = {
        **{key: float(value) for key, value in values.items()
           if key.startswith(('update p', 'update max'))},
        **_rates(recording),
        'missed states': int(values.get('missed states', -1)),
        'refused states': int(values.get('refused states', -1)),
        'largest torque [% of limit]': 100.0 * float(use.max()),
        'rms torque [% of limit]': 100.0 * _rms(use.ravel()),
    }
    if recording.repetitions:
        figures['control']['runs before, ended by the arm'] = recording.repetitions
    return Result(times, errors[:, 0], errors[:, 1], figures, failures)


def _frames(recording: Recording, robot: Robot, link: str) -> Array:
    """Return the axes (k, 3, 3) of a link, or of the base if `link` is '', for every pose."""
    if not link:
        return np.repeat(np.eye(3)[None], len(recording.poses), axis=0)
    axes = LinkAxes(robot, link)
    states = np.searchsorted(recording.state_times, np.array(recording.pose_times) - 1e-9)
    return np.array([axes.at(recording.positions[k])[:3, :3]
                     for k in np.minimum(states, len(recording.positions) - 1)])


def last_error(recording: Recording, schedule: Schedule, robot: Robot, freedoms: Freedoms
               ) -> tuple[float, float]:
    """Return the error of the last pose along the controlled axes: distance [m], angle [rad]."""
    R = LinkAxes(robot, freedoms.frame).at(recording.positions[-1])[:3, :3] if (
        freedoms.frame) else np.eye(3)
    target = schedule.at(recording.pose_times[-1]).pose
    [(distance, angle)] = scenario_errors(recording.poses[-1][None], target[None], freedoms,
                                          R[None])
    return float(distance), float(angle)


def table(found: Result, plan: list[Phase]) -> str:
    """Return the figures as a text table."""
    lines = [f'{"":24}{"position error [mm]":>24}{"orientation error [deg]":>28}',
             f'{"":24}{"rms":>12}{"max":>12}{"rms":>16}{"max":>12}']
    for phase in plan:
        figures = found.figures.get(phase.name)
        if figures:
            a, b, c, d = figures.values()
            note = '' if phase is plan[0] else ', settled'
            lines.append(f'{phase.name + note:24}{a:12.3f}{b:12.3f}{c:16.4f}{d:12.4f}')
    lines.append('')
    lines.extend(f'{name:34}{value:12.1f}' if isinstance(value, float) else
                 f'{name:34}{value:12d}' for name, value in found.figures['control'].items())
    changed = found.figures.get(CHANGED, {})
    if changed:
        lines += ['', f'{CHANGED}:', *(f'{name:46}{_short(value)}'
                                       for name, value in changed.items())]
    return '\n'.join(lines)


def _short(value: Any) -> str:
    """Return a value as text; equal numbers in a list are written once, with their count."""
    if not isinstance(value, (tuple, list)):
        return f'{value:.4g}' if isinstance(value, float) else str(value)
    if len(value) > 1 and len(set(value)) == 1:
        return f'{_short(value[0])} ({len(value)} times)'
    return ', '.join(map(_short, value))


def write_json(path: Path, found: Result, about: dict[str, Any]) -> None:
    """Write the figures of the table as JSON."""
    commandline.write_json(path, {**about, 'followed': not found.failures,
                                  'failures': found.failures, **found.figures})


def write_plots(folder: Path, recording: Recording, plan: list[Phase], found: Result,
                demonstration: Demonstration) -> list[Path]:
    """Write error.png, torque.png and path.png into the folder; return their paths."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot

    title, written = demonstration.robot.name, []
    for name, draw in (
            ('error.png', lambda: _error_plot(pyplot, title, plan, found,
                                              demonstration.values['osc_demo'])),
            ('torque.png', lambda: _torque_plot(pyplot, title, recording, plan, demonstration)),
            ('path.png', lambda: _path_plot(pyplot, title, recording, plan, found))):
        figure = draw()
        figure.savefig(folder / name, dpi=110)
        pyplot.close(figure)
        written.append(folder / name)
    return written


def _error_plot(pyplot: Any, title: str, plan: list[Phase], found: Result,
                thresholds: dict[str, Any]) -> Any:
    figure, panels = pyplot.subplots(2, 1, figsize=(9, 6), sharex=True, layout='constrained')
    figure.suptitle(f'{title}: distance and angle between the tip, measured by MuJoCo, '
                    'and its target', fontsize='medium')
    for axes, values, what, scale, unit in (
            (panels[0], found.distances, 'position', 1e3, 'mm'),
            (panels[1], found.angles, 'orientation', 180.0 / np.pi, 'deg')):
        axes.plot(found.times, scale * values, lw=1.2, color='C0', label='error')
        heights = [0.0]
        for number, phase in enumerate(plan):
            accepted = scale * thresholds[f"{'settled' if number else 'tracking'}_{what}"]
            begin = _begin_of_errors(phase, number)
            axes.plot([begin, phase.end], [accepted] * 2, '--', lw=1.2, color='C3',
                      label=None if number else 'accepted')
            heights += [accepted, *scale * values[(found.times >= begin)
                                                 & (found.times < phase.end)]]
        axes.set(ylabel=f'{what} error [{unit}]', ylim=(0.0, 1.3 * max(heights)))
        _mark(axes, plan, axes is panels[0])
        axes.legend(fontsize=8, loc='center left', bbox_to_anchor=(1.0, 0.5))
    panels[-1].set(xlabel='simulated time [s]; a step or turn begins with an error of its size, '
                   'off the scale')
    return figure


def _torque_plot(pyplot: Any, title: str, recording: Recording, plan: list[Phase],
                 demonstration: Demonstration) -> Any:
    every = max(1, len(recording.state_times) // 4000)
    figure, axes = pyplot.subplots(figsize=(10, 4.5), layout='constrained')
    times = np.array(recording.state_times)[::every]
    torques = np.array(recording.torques)[::every]
    limits = demonstration.effort_limits
    limited = np.isfinite(limits).all()
    for i, name in enumerate(demonstration.robot.joint_names):
        share = 100.0 * torques[:, i] / limits[i] if limited else torques[:, i]
        axes.plot(times, share, lw=1, label=name,
                  drawstyle='steps-post')  # the driver holds a torque until the next command
    axes.set(ylabel='joint torque [% of limit]' if limited else 'joint torque [N m]',
             xlabel='simulated time [s]')
    figure.suptitle(f'{title}: torques of the joints', fontsize='medium')
    _mark(axes, plan, True)
    axes.legend(fontsize=8, loc='center left', bbox_to_anchor=(1.0, 0.5))
    return figure


def _path_plot(pyplot: Any, title: str, recording: Recording, plan: list[Phase], found: Result
               ) -> Any:
    schedule = reference(plan, recording.poses[0])
    wanted = np.array([schedule.at(time).pose[:3, 3] for time in found.times])
    measured = np.array([pose[:3, 3] for pose in recording.poses])
    figure, axes = pyplot.subplots(figsize=(7, 6), subplot_kw={'projection': '3d'})
    axes.plot(*wanted.T, lw=5, alpha=0.35, color='C1', label='target')
    axes.plot(*measured.T, lw=1.2, color='C0', label='tip, measured by MuJoCo')
    for axis, name in ((axes.xaxis, 'x'), (axes.yaxis, 'y'), (axes.zaxis, 'z')):
        axis.set_major_locator(pyplot.MaxNLocator(4))
        axis.set_label_text(f'{name} [m]')
        axis.labelpad = 10
    axes.set_aspect('equal')
    axes.view_init(elev=18, azim=-25)
    figure.suptitle(f'{title}: path of the tip, figure of eight and step', fontsize='medium')
    figure.legend(loc='lower center', ncols=2, fontsize=9)
    figure.subplots_adjust(left=0.02, right=0.92, top=0.97, bottom=0.08)
    return figure


def _begin_of_errors(phase: Phase, number: int) -> float:
    """Return the time from which errors count: start of a path, late in a step."""
    return phase.end - SETTLED * (phase.end - phase.start) if number else phase.start


def _mark(axes: Any, plan: list[Phase], named: bool) -> None:
    axes.grid(alpha=0.3)
    for number, phase in enumerate(plan):
        axes.axvspan(phase.start, phase.end, color=f'C{number + 4}', alpha=0.08)
        if named:
            axes.text(phase.start, 1.01, phase.name, fontsize=8, va='bottom',
                      transform=axes.get_xaxis_transform())


def _rates(recording: Recording) -> dict[str, float]:
    """Return the rates of the states from the median interval, because states may be missing."""
    times, passed = recording.state_times, recording.wall_time
    rate = 1.0 / float(np.median(np.diff(times)))
    return {'rate in simulated time [Hz]': rate, 'rate on the wall clock [Hz]':
            rate * (times[-1] - times[0]) / passed if passed > 0.0 else float('nan')}


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x)))
