# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""HTML report of a tuning, with embedded plots."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from html import escape

from osc_ros.tools.check.findings import AXES
from osc_ros.tools.tune import tuning_plots
from osc_ros.tools.tune.advice import Recommendation
from osc_ros.tools.tune.measurement import Measurement, SCORES
from osc_ros.tools.tune.subject import ENCODER_BITS
from osc_ros.tools.tune.tuning_results import (
    bandwidth,
    cells,
    changes_text,
    error_text,
    met_texts,
    Results,
    time_text,
)

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; margin: 2em auto; max-width: 62em;
       padding: 0 1em; }
h1 { font-size: 1.7em; } h2 { font-size: 1.25em; margin-top: 2em; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px;
        font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3em .5em; border-bottom: 1px solid #d8dee4; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; }
.bad { color: #c0392b; font-weight: 600; } .good { color: #1a7f37; font-weight: 600; }
.verdict { padding: .7em 1em; border-radius: 6px; background: #f6f8fa; font-size: 1.1em; }
.card { border-left: 4px solid #1f6feb; background: #f6f8fa; padding: .6em 1em; margin: .8em 0; }
.card.option { border-color: #8a8f98; } .card p { margin: .3em 0; }
pre { background: #f6f8fa; padding: .8em 1em; overflow-x: auto; font-size: 13px; }
code { font-size: 13px; } img { width: 100%; height: auto; } .small { color: #59636e; }
"""


def page(found: Results, parameters: str) -> str:
    """Return the HTML text; `parameters` is the text of the recommended parameter file."""
    # ImportError if matplotlib is not installed.
    first, subject = found.advice.first, found.subject
    last = found.advice.last if found.advice.recommendations else None
    robot = subject.law.robot
    parts = [
        f'<h1>Tuning of {escape(robot.name)}</h1>',
        f'<p class="small">{robot.n} joints from {escape(robot.base)} to {escape(robot.tip)}; '
        f'states every {1e3 * subject.period:g} ms, torques act {1e3 * subject.delay:g} ms after '
        'their states; simulated in MuJoCo with the controller itself. No arm was moved.</p>',
        f'<p class="verdict {"bad" if found.advice.unsolved else "good"}">'
        f'{escape(found.verdict[0].upper() + found.verdict[1:])}.</p>',
        ''.join(f'<p>Note: {escape(note)}</p>' for note in found.notes),
        '<h2>What to change, and why</h2>', _advice(found),
        '<h2>Step responses: set and met</h2>',
        '<p>The set-point of one axis steps; the target has no feedforward. Grey: the linear '
        'system that the gains describe. In the table, ~ marks a response that is not of second '
        'order, because of the delay or of friction.</p>', _image(tuning_plots.steps(first, last)),
        _steps_table(first), *([f'<h3>With the changes</h3>{_steps_table(last)}'] if last else []),
        '<h2>Frequency response: set and met</h2>',
        '<p>All axes are excited at once, each at frequencies of its own.</p>',
        _image(tuning_plots.spectra(first, last)),
        '<h2>Saturation and noise</h2>',
        f'<p>A motion within the limits of the target, and the noise that encoders of '
        f'{ENCODER_BITS} bits cause at rest, with velocities by differences of two positions. '
        'Dashed: what is accepted.</p>',
        _image(tuning_plots.loads(found.advice.last, robot.joint_names)),
        '<h2>Robustness' + (' with the changes' if last else '') + '</h2>', _robustness(found),
        '<h2>Parameters to take over</h2>', f'<pre>{escape(parameters)}</pre>',
        '<h2>What is accepted</h2>', _scores(first, last),
    ]
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<title>Tuning of {escape(robot.name)}</title><style>{STYLE}</style></head>\n'
            f'<body>{"".join(parts)}</body></html>\n')


def _image(text: str) -> str:
    return ('<img alt="" src="data:image/svg+xml;base64,'
            f'{b64encode(text.encode()).decode()}">')


def _table(head: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return an HTML table; each row is a CSS class and its cells."""
    lines = ['<tr>' + ''.join(f'<th>{escape(one)}</th>' for one in head) + '</tr>']
    lines += [f'<tr class="{kind}">' + ''.join(f'<td>{escape(one)}</td>' for one in cells_of_row)
              + '</tr>' for kind, cells_of_row in rows]
    return '<table>' + ''.join(lines) + '</table>'


def _advice(found: Results) -> str:
    given = [*found.advice.recommendations, *found.options]
    cards = [_card(one) for one in given]
    if found.advice.tried:
        cards.append(f'<p class="small">{len(found.advice.tried)} other sets of parameters were '
                     'simulated and did not help.</p>')
    return ''.join(cards) or '<p>Nothing.</p>'


def _card(one: Recommendation) -> str:
    kind = 'card option' if one.is_optional else 'card'
    head = 'Optional' if one.is_optional else 'Change'
    return (f'<div class="{kind}"><p><b>{head}:</b> '
            f'<code>{escape(changes_text(one.candidate.changes))}</code></p>'
            f'<p>Because {escape(one.candidate.reason)}.</p>'
            f'<p class="small">{escape(one.gain)}</p></div>')


def _steps_table(found: Measurement) -> str:
    rows = []
    for one in found.steps.axes:
        want, met = one.wanted_shape, one.shape
        is_well = met.is_stable and met.overshoot <= want.overshoot + 0.1
        rows.append(('' if is_well else 'bad', (
            AXES[one.axis], f'{want.natural_frequency:.1f} / {met_texts(one)[0]}',
            f'{want.damping_ratio:.2f} / {met_texts(one)[1]}',
            f'{bandwidth(found, one.axis, "wanted"):.1f} / '
            f'{bandwidth(found, one.axis, "met"):.1f}',
            f'{want.overshoot:.1%} / {met.overshoot:.1%}',
            f'{time_text(want.settling)} / {time_text(met.settling)}', error_text(one),
            f'{one.torque:.0%}')))
    text = f'<p class="bad">Stopped: {escape(found.steps.failure)}</p>' if (
        found.steps.failure) else ''
    return text + _table(('set / met', 'natural frequency [rad/s]', 'damping ratio',
                          'bandwidth [rad/s]', 'overshoot', 'settling', 'error at rest',
                          'torque'), rows)


def _robustness(found: Results) -> str:
    table = found.robustness
    text = _table(('arm', 'overshoot', 'settling', 'error at rest'), (
        ('' if row.is_stable else 'bad', (row.variant.name, *cells(row))) for row in table.rows))
    if len(table.delays):
        text += ('<p>Overshoot for other delays and natural frequencies of the tip:</p>'
                 + _image(tuning_plots.overshoot_map(table, found.subject.delay)))
    return text


def _scores(first: Measurement, last: Measurement | None) -> str:
    head = ('wanted', 'score', *(['with the changes'] if last else []))
    return ('<p class="small">A score of 1 is just accepted.</p>' + _table(head, (
        ('bad' if (last or first).scores[name] > 1.0 else '', (
            text, f'{first.scores[name]:.2f}', *([f'{last.scores[name]:.2f}'] if last else [])))
        for name, text in SCORES.items())))
