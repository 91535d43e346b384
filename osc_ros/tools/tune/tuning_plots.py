# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plots of a tuning, each returned as the text of an SVG."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from osc_ros.tools.check.findings import AXES
from osc_ros.tools.tune.measurement import Measurement, NOISE, TORQUE
from osc_ros.tools.tune.robustness import Robustness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY, BLUE, ORANGE, RED = '#8a8f98', '#1f6feb', '#d9730d', '#c0392b'


def svg(draw: Callable[[Figure], object], width: float, height: float) -> str:
    """Return a figure as SVG text. Raise ImportError if matplotlib is not installed."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({'svg.hashsalt': 'osc_tune', 'font.size': 9.0,
                                'axes.spines.top': False, 'axes.spines.right': False,
                                'axes.grid': True, 'grid.alpha': 0.3, 'path.simplify': True}):
        figure = Figure(figsize=(width, height), layout='constrained')
        draw(figure)
        file = StringIO()
        figure.savefig(file, format='svg', metadata={'Date': None})
    return file.getvalue()


def steps(first: Measurement, last: Measurement | None) -> str:
    """Plot the step responses: of the linear system, measured, and measured with the changes."""
    def draw(figure: Figure) -> None:
        axes = figure.subplots(2, 3, squeeze=False).ravel()
        own = {one.axis: one for one in first.steps.axes}
        later = {one.axis: one for one in last.steps.axes} if last else {}
        for axis, place in enumerate(axes):
            if axis not in own:
                place.set_visible(False)
                continue
            one = own[axis]
            place.plot(one.time, one.wanted, color=GREY, alpha=0.5, lw=5.0, label='set')
            place.plot(one.time, np.clip(one.met, -1.0, 3.0), color=BLUE, label='met')
            if axis in later:
                place.plot(later[axis].time, np.clip(later[axis].met, -1.0, 3.0), color=ORANGE,
                           ls='--', label='met with the changes')
            size = f'{1e3 * one.amplitude:.2g} mm' if axis > 2 else (
                f'{np.degrees(one.amplitude):.2g}°')
            place.set_title(f'{AXES[axis]}, step of {size}', fontsize='medium')
            place.set_xlabel('time [s]')
        shown = next(place for place in axes if place.get_visible())
        figure.supylabel('share of the step')
        figure.legend(*shown.get_legend_handles_labels(), ncol=3, loc='outside lower center')
    return svg(draw, 10.0, 5.4)


def spectra(first: Measurement, last: Measurement | None) -> str:
    """Plot the gain from set-point to position over the frequency."""
    from matplotlib.ticker import NullFormatter

    def draw(figure: Figure) -> None:
        axes = figure.subplots(2, 3, squeeze=False, sharey=True).ravel()
        own = {one.axis: one for one in first.spectra}
        later = {one.axis: one for one in last.spectra} if last else {}
        for axis, place in enumerate(axes):
            if axis not in own and axis not in later:
                place.set_visible(False)
                continue
            for found, color, label in ((own, BLUE, 'met'), (later, ORANGE,
                                                             'met with the changes')):
                if axis in found:
                    place.loglog(found[axis].frequency, np.abs(found[axis].met), 'o', ms=4.0,
                                 color=color, label=label)
            one = own.get(axis) or later[axis]
            place.loglog(one.frequency, np.abs(one.wanted), color=GREY, lw=2.0, label='set',
                         zorder=0)
            place.axhline(np.sqrt(0.5), color='0.8', lw=1.0, ls=':')
            place.set_title(AXES[axis], fontsize='medium')
            place.set_xlabel('frequency [rad/s]')
            for side in (place.xaxis, place.yaxis):
                side.set_minor_formatter(NullFormatter())
        shown = [place for place in axes if place.get_visible()]
        figure.supylabel('gain from set-point to position')
        if shown:
            figure.legend(*shown[0].get_legend_handles_labels(), ncol=3,
                          loc='outside lower center')
    return svg(draw, 10.0, 5.4)


def loads(found: Measurement, names: tuple[str, ...]) -> str:
    """Plot the largest shares of torque and speed limits in a motion, and the torque noise."""
    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        places = np.arange(len(names))
        left.barh(places - 0.2, 100.0 * found.motion.torque, 0.38, color=BLUE, label='torque')
        left.barh(places + 0.2, 100.0 * found.motion.speed, 0.38, color=ORANGE, label='speed')
        left.axvline(100.0 * TORQUE, color=RED, lw=1.0, ls='--')
        left.set_title(f'motion of {1e3 * found.motion.distance:.0f} mm: largest share of the '
                       'limits [%]', fontsize='medium')
        left.legend(loc='lower right')
        right.barh(places, 100.0 * found.noise.share, color=BLUE)
        right.axvline(100.0 * NOISE, color=RED, lw=1.0, ls='--')
        right.set_title('noise of the torques, of their limits [%]', fontsize='medium')
        for place in (left, right):
            place.set_yticks(places, names)
            place.invert_yaxis()
    return svg(draw, 10.0, 1.4 + 0.32 * len(names))


def overshoot_map(found: Robustness, delay: float) -> str:
    """Plot the overshoot for various delays and natural frequencies."""
    def draw(figure: Figure) -> None:
        place = figure.subplots()
        place.grid(False)
        shares = 100.0 * np.clip(np.nan_to_num(found.overshoot, nan=1.0, posinf=1.0), 0.0, 1.0)
        place.imshow(shares, cmap='YlOrRd', vmin=0.0, vmax=60.0, aspect='auto')
        for (i, j), share in np.ndenumerate(found.overshoot):
            text = (f'{share:.0%}' if np.isfinite(share) else
                    'refused' if np.isnan(share) else 'not at rest')
            place.text(j, i, text, ha='center', va='center',
                       color='white' if shares[i, j] > 35.0 else 'black')
        place.set_xticks(range(len(found.delays)), [
            f'{1e3 * one:g} ms' + (' (set)' if np.isclose(one, delay) else '')
            for one in found.delays])
        place.set_yticks(range(len(found.factors)), [f'{one:g} x' for one in found.factors])
        place.set_xlabel('time from a state until its torque acts')
        place.set_ylabel('natural frequencies')
    return svg(draw, 10.0, 3.4)
