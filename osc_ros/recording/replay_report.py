# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Files on a replayed run: a CSV table, and an HTML page with plots."""

from __future__ import annotations

from base64 import b64encode
import csv
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.recording.bag import required_module
from osc_ros.recording.explanation import comparison, explanation_lines, other_versions, verdict
from osc_ros.recording.replay import Run

Array = NDArray[np.float64]

MOST_POINTS = 3000  # largest number of points of a line in a plot
SMALL = 1e-6  # terms that are always smaller are not plotted [N m, N]
STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:1240px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.6em}img{max-width:100%}
pre{background:#f4f4f2;padding:.8em;overflow-x:auto;font-size:12px}
table{border-collapse:collapse}td{padding:.1em .8em .1em 0;vertical-align:top}
.good{color:#17692f}.bad{color:#a3201c}"""


def write_csv(path: Path, run: Run, other: Run | None = None) -> None:
    """Write a row for each answered state: state, torques, terms, limits, supervisor."""
    names = list(dict.fromkeys(term for one in run.moments for term in one.terms))
    n = len(run.joints)
    nothing = np.full(n, np.nan)

    def columns(what: str) -> list[str]:
        return [f'{what}.{joint}' for joint in run.joints]

    with path.open('w', encoding='utf-8', newline='') as file:
        table = csv.writer(file)
        table.writerow(['time', *columns('position'), *columns('velocity'), *columns('effort'),
                        *columns('torque'), *(c for name in names for c in columns(name)),
                        *(columns('torque_with_set') if other else ()), 'limits', 'state'])
        for k, one in enumerate(run.moments):
            more = (other.moments[k].torque if k < len(other.moments) else nothing) if other else (
                np.zeros(0))
            numbers = np.concatenate([
                one.q, one.qd, nothing if one.effort is None else one.effort, one.torque,
                *(one.terms.get(name, nothing) for name in names), more])
            table.writerow([f'{one.time:.9f}', *(f'{x:.17g}' for x in numbers),
                            '; '.join(one.limits), one.state])


def write_html(path: Path, run: Run, moments: list[float], other: Run | None = None,
               changes: dict[str, Any] | None = None) -> None:
    """Write a self-contained HTML page; InputError if matplotlib is not installed."""
    # `moments`: times since the beginning whose torques are explained [s]; `other`: the run with
    # the parameters `changes`
    plots = _plots(run, other)
    begin = run.moments[0].time if run.moments else 0.0
    good = 'good' if run.is_identical else 'bad'
    parts = [f'<h1>{escape(run.facts.get("node", "") or "controller")}: '
             f'{len(run.moments)} states</h1><p class="{good}">{escape(verdict(run))}</p>']
    if other is not None:
        parts.append('<h2>Other parameters</h2>' + _pre(comparison(run, other, changes or {})))
    for seconds in moments:
        moment = run.at(seconds)
        then = other.at(seconds) if other is not None else None
        parts.append(f'<h2>The torque at {seconds:g} s</h2>'
                     + _pre(explanation_lines(run, moment, then)))
    parts += [f'<h2>{escape(title)}</h2><img alt="{escape(title)}" src="data:image/png;base64,'
              f'{image}">' for title, image in plots]
    rows = ''.join(f'<tr><td>{one.time - begin:.3f} s</td><td>{escape(one.text)}</td></tr>'
                   for one in run.events)
    parts.append(f'<h2>Commands, changes and watchdogs</h2><table>{rows}</table>')
    versions = [f'{name} {value}' for name, value in run.facts.get('versions', {}).items()]
    parts.append('<h2>Recorded with</h2>' + _pre([*versions, *(
        f'different here: {one}' for one in other_versions(run))]))
    path.write_text('<!doctype html><html lang="en"><head><meta charset="utf-8"><title>osc_replay'
                    f'</title><style>{STYLE}</style></head><body>{"".join(parts)}</body></html>\n',
                    encoding='utf-8')


def _pre(lines: list[str]) -> str:
    return f'<pre>{escape(chr(10).join(lines))}</pre>'


def _plots(run: Run, other: Run | None) -> list[tuple[str, str]]:
    if not run.moments:
        return []
    Figure = required_module('matplotlib.figure').Figure
    step = max(1, len(run.moments) // MOST_POINTS)
    shown = run.moments[::step]
    time = np.array([one.time - run.moments[0].time for one in shown])
    found = []
    figure = Figure(figsize=(11, 5.4), layout='constrained')
    top, bottom = figure.subplots(2, sharex=True)
    errors = np.array([one.error for one in shown])
    top.plot(time, 1e3 * np.linalg.norm(errors[:, 3:], axis=1), label='position [mm]')
    top.plot(time, np.degrees(np.linalg.norm(errors[:, :3], axis=1)), label='angle [deg]')
    top.set_ylabel('error of the tip')
    limits = list(dict.fromkeys(limit.partition(' (')[0] for one in shown
                                for limit in one.limits))
    rows = [*limits[:10], 'a watchdog acts']
    for k, limit in enumerate(rows):
        acts = [any(one.startswith(limit) for one in moment.limits) if k < len(rows) - 1
                else not moment.terms for moment in shown]
        bottom.fill_between(time, k - 0.35, k + 0.35, where=acts, step='mid')
    bottom.set_yticks(range(len(rows)), rows)
    bottom.set_ylim(-0.6, len(rows) - 0.4)
    _finish((top, bottom), run)
    found.append(('Error, and the limits that acted', _png(figure)))
    forces = np.array([one.force for one in shown])
    if np.isfinite(forces).any():
        found.append(('Contact force on the tip, as estimated', _png(
            _force(Figure, run, time, forces))))
    found.append(('Torque and its terms', _png(_torques(Figure, run, other, time, step))))
    return found


def _force(Figure: Any, run: Run, time: Array, forces: Array) -> Any:
    figure = Figure(figsize=(11, 2.7), layout='constrained')
    axis = figure.subplots()
    for name, line in zip('xyz', forces.T):
        axis.plot(time, line, label=name)
    _finish([axis], run)
    axis.set(xlabel='time [s]', ylabel='contact force [N]')
    return figure


def _torques(Figure: Any, run: Run, other: Run | None, time: Array, step: int) -> Any:
    shown, n = run.moments[::step], len(run.joints)
    names = list(dict.fromkeys(term for one in shown for term in one.terms))
    nothing = np.full(n, np.nan)
    terms = {name: np.array([one.terms.get(name, nothing) for one in shown]) for name in names}
    figure = Figure(figsize=(11, 1.9 * n + 0.8), layout='constrained')
    axes = figure.subplots(n, sharex=True, squeeze=False)[:, 0]
    for k, (axis, joint) in enumerate(zip(axes, run.joints)):
        axis.plot(time, [one.torque[k] for one in shown], color='black', linewidth=1.6,
                  label='torque')
        if other is not None:
            then = other.moments[::step][:len(time)]
            axis.plot(time[:len(then)], [one.torque[k] for one in then], '--', color='tab:red',
                      label='with --set')
        for name, values in terms.items():
            if np.nanmax(np.abs(values), initial=0.0) > SMALL:
                axis.plot(time, values[:, k], linewidth=0.9, label=name)
        axis.set_ylabel(f'{joint}\n[N m, N]', fontsize='small')
    _finish(axes[:1], run)
    for axis in axes[1:]:
        axis.grid(color='0.9')
    axes[-1].set_xlabel('time [s]')
    return figure


def _finish(axes: Any, run: Run) -> None:
    """Draw grid, legends, and lines at the events."""
    begin = run.moments[0].time
    for axis in axes:
        axis.grid(color='0.9')
        axis.set_xlabel('time [s]' if axis is axes[-1] and len(axes) > 1 else '')
        if axis.get_legend_handles_labels()[1]:
            axis.legend(fontsize='small', loc='center left', bbox_to_anchor=(1.0, 0.5))
    for event in run.events:
        if event.is_minor:
            continue
        axes[0].axvline(event.time - begin, color='0.6', linewidth=0.7, linestyle=':')


def _png(figure: Any) -> str:
    stream = BytesIO()
    figure.savefig(stream, format='png', dpi=90)
    return b64encode(stream.getvalue()).decode()
