# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Results of the demonstration as a table, as plots, and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from osc_ros import commandline
from osc_ros.tools.check.demonstration import Demonstration
from osc_ros.tools.check.judgement import begin_of_errors, error_table, Recording, Result
from osc_ros.tools.check.scenario import Phase, reference

CHANGED = 'changed after the first run'  # key of figures, with parameters by node and name


def table(found: Result, plan: list[Phase]) -> str:
    """Return the results of a run as the text of a table."""
    lines = [*error_table(found, plan), '']
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
    """Write the results of a run, and the data `about` the run, as JSON."""
    commandline.write_json(path, {**about, 'followed': not found.failures,
                                  'failures': found.failures, **found.figures})


def write_plots(folder: Path, recording: Recording, plan: list[Phase], found: Result,
                demonstration: Demonstration) -> list[Path]:
    """Write error.png, torque.png and path.png into the folder; return their paths."""
    # The first motion begins at 0 s, as in the printed progress.
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
        figure.savefig(folder / name, dpi=110, bbox_inches='tight')
        pyplot.close(figure)
        written.append(folder / name)
    return written


def _error_plot(pyplot: Any, title: str, plan: list[Phase], found: Result,
                thresholds: dict[str, Any]) -> Any:
    figure, panels = pyplot.subplots(2, 1, figsize=(9, 6), sharex=True, layout='constrained')
    figure.suptitle(f'{title}: distance and angle between the tip, measured by MuJoCo, '
                    'and its target', fontsize='medium')
    zero = _zero(plan)
    for axes, values, what, scale, unit in (
            (panels[0], found.distances, 'position', 1e3, 'mm'),
            (panels[1], found.angles, 'orientation', 180.0 / np.pi, 'deg')):
        axes.plot(found.times - zero, scale * values, lw=1.2, color='C0', label='error')
        heights = [0.0]
        for number, phase in enumerate(plan):
            accepted = scale * thresholds[f"{'settled' if number else 'tracking'}_{what}"]
            begin = begin_of_errors(phase, number)
            axes.plot([begin - zero, phase.end - zero], [accepted] * 2, '--', lw=1.2, color='C3',
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
    times = np.array(recording.state_times)[::every] - _zero(plan)
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
    target_at = reference(plan, recording.poses[0])
    wanted = np.array([target_at(time).pose[:3, 3] for time in found.times])
    measured = np.array([pose[:3, 3] for pose in recording.poses])
    figure, axes = pyplot.subplots(figsize=(7, 5), subplot_kw={'projection': '3d'})
    axes.plot(*wanted.T, lw=5, alpha=0.35, color='C1', label='target', clip_on=False)
    axes.plot(*measured.T, lw=1.2, color='C0', label='tip, measured by MuJoCo', clip_on=False)
    for axis, name in ((axes.xaxis, 'x'), (axes.yaxis, 'y'), (axes.zaxis, 'z')):
        axis.set_major_locator(pyplot.MaxNLocator(3 if name == 'x' else 4))
        axis.set_label_text(f'{name} [m]')
        axis.labelpad = 10
    axes.set_box_aspect([np.ptp(bounds) for bounds in (
        axes.get_xlim(), axes.get_ylim(), axes.get_zlim())], zoom=1.25)  # equal scales
    axes.view_init(elev=18, azim=-25)
    figure.suptitle(f'{title}: path of the tip, figure of eight and step', fontsize='medium')
    figure.legend(loc='lower center', ncols=2, fontsize=9)
    figure.subplots_adjust(left=0.02, right=0.92, top=1.0, bottom=0.06)
    return figure


def _zero(plan: list[Phase]) -> float:
    """Return the time at which the first motion begins [s]."""
    return plan[0].start if plan else 0.0


def _mark(axes: Any, plan: list[Phase], named: bool) -> None:
    axes.grid(alpha=0.3)
    zero = _zero(plan)
    for number, phase in enumerate(plan):
        start = phase.start - zero
        axes.axvspan(start, phase.end - zero, color=f'C{number + 4}', alpha=0.08)
        if named:
            axes.text(start, 1.01, phase.name, fontsize=8, va='bottom',
                      transform=axes.get_xaxis_transform())
