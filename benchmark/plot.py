# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plot of the time of a call against the number of joints."""

from __future__ import annotations

from pathlib import Path

from matplotlib import colormaps
from matplotlib.figure import Figure
import numpy as np

from chains import ABA, LAW, Length, MUJOCO

OTHERS = {ABA: ('0.35', ':'), LAW: ('0.35', '--'), MUJOCO: ('0.35', '-.')}
ROW = 0.055  # height of a line of text, relative to the axes


def save(lengths: list[Length], path: Path) -> None:
    """Draw the time of a call against the number of joints, one line for each contender."""
    figure = Figure(figsize=(9, 5.6), layout='constrained')
    axes = figure.subplots()
    names = list(dict.fromkeys(name for at in lengths for name in at.rows))
    labels = []
    colours = iter(colormaps['tab10'].colors)
    for name in names:
        n, time = np.array([(at.n, at.rows[name].median) for at in lengths
                            if name in at.rows and not at.rows[name].is_off]).T
        colour, style = OTHERS[name] if name in OTHERS else (next(colours), '-')
        width = 2.6 if name == 'sweep' else 1.5
        axes.loglog(n, time, style, color=colour, linewidth=width, marker='o', markersize=3)
        labels.append((n[-1], time[-1], name if name in OTHERS else f"'{name}'", colour))
    axes.set_xlabel('joints')
    axes.set_ylabel('one call from Python [µs]')
    axes.set_title('The whole law, τ = τ⁰ + JᵀΛ(u − a⁰), on chains (solid: osc_ros, by method)')
    axes.set_xlim(lengths[0].n * 0.9, lengths[-1].n * 1.15)
    axes.grid(which='major', color='0.9')
    axes.set_axisbelow(True)
    _label(axes, labels)
    figure.savefig(path, dpi=110)


def _label(axes, labels) -> None:
    """Label the lines at the right, from top to bottom, with leaders to their ends."""
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted(((*to_axes.transform((n, time)), name, colour)
                   for n, time, name, colour in labels), key=lambda end: -end[1])
    height = 1.0
    for k, (x, y, name, colour) in enumerate(ends):
        height = min(height, max(y, ROW * (len(ends) - 1 - k)))
        axes.annotate(name, (x, y), (1.03, height), 'axes fraction', 'axes fraction',
                      color=colour, verticalalignment='center', annotation_clip=False,
                      arrowprops={'arrowstyle': '-', 'color': colour, 'linewidth': 0.5,
                                  'shrinkA': 0, 'shrinkB': 2})
        height -= ROW
