# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plots of the last seconds: errors of the tip, torques relative to their limits, terms."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Any

import numpy as np

from osc_ros.viewer.scene.reading import Reading, sliding_joints
from osc_ros.viewer.text import short_names

SPAN = 10.0  # time range of a plot [s]
PERIOD = 0.1  # time between two points [s]
DRAWN = 0.4  # time between two updates of a plot [s]
MARGIN = 0.08  # margin of the vertical axis, as a share of the lines' range
HEIGHT = 118  # height of a plot [px]
AXES = {'x': (22, 17), 'y': (40, 14)}  # size of an axis and of its label [px]
FONT = '11px sans-serif'
COLORS = ('#2b6cb0', '#dd6b20', '#2f855a', '#c53030', '#6b46c1', '#d53f8c', '#00b5d8', '#4a5568',
          '#b7791f', '#9b2c2c', '#276749', '#2c5282')


class Plot:
    """One plot of lines in one unit over time; it is rebuilt if their names or the unit change."""

    def __init__(self, server: Any, title: str, unit: str, least: tuple[float, float]) -> None:
        # least: smallest range of the vertical axis
        self._server, self._title, self._least = server, title, least
        self.unit, self._drawn_unit = unit, unit
        self.folder = server.gui.add_folder(f'{title} [{unit}]')
        self._names: tuple[str, ...] = ()
        self._handle: Any = None
        self._points: deque[tuple[float, ...]] = deque(maxlen=round(SPAN / PERIOD))

    def add(self, time: float, values: dict[str, float]) -> None:
        """Add a point to every line at a time [s]."""
        if tuple(values) != self._names or self.unit != self._drawn_unit:
            self._names, self._drawn_unit = tuple(values), self.unit
            self.folder.label = f'{self._title} [{self.unit}]'
            self._points.clear()
            if self._handle is not None:
                self._handle.remove()
                self._handle = None
        if values:
            self._points.append((time, *values.values()))

    def draw(self, now: float) -> None:
        """Show the points; the time axis ends at `now` [s]."""
        if len(self._points) < 2:
            return
        data = np.array(self._points).T
        data[0] -= now
        columns = tuple(np.ascontiguousarray(row) for row in data)
        low, high = min(self._least[0], data[1:].min()), max(self._least[1], data[1:].max())
        low, high = low - MARGIN * (high - low), high + MARGIN * (high - low)
        scales = {'x': {'time': False, 'range': (-SPAN, 0.0)},
                  'y': {'range': (float(low), float(high))}}
        if self._handle is not None:
            self._handle.data, self._handle.scales = columns, scales
            return
        lines = tuple({'label': name, 'stroke': COLORS[i % len(COLORS)], 'width': 1.5}
                      for i, name in enumerate(self._names))
        axes = tuple({'label': label, 'size': size, 'labelSize': label_size, 'labelGap': 0,
                      'ticks': {'size': 4, 'width': 1}, 'font': FONT, 'labelFont': FONT}
                     for label, (size, label_size) in zip(('s', self.unit), AXES.values()))
        with self.folder:
            self._handle = self._server.gui.add_uplot(
                columns, ({'label': 's'}, *lines), height=HEIGHT, axes=axes,
                scales=scales, legend={'show': len(lines) > 1, 'live': False})


class Plots:
    """The plots, in the container of the page that is open at construction."""

    def __init__(self, server: Any) -> None:
        self._position = Plot(server, 'position error of the tip', 'mm', (0.0, 1.0))
        self._angle = Plot(server, 'rotation error of the tip', '°', (0.0, 0.1))
        self._share = Plot(server, 'torques relative to their limits', '%', (-10.0, 10.0))
        self._terms = Plot(server, 'terms of one torque', 'N m', (-1.0, 1.0))
        with self._terms.folder:
            self._joint = server.gui.add_dropdown('joint', ('none',))
        self._names: tuple[str, ...] = ()
        self._added = self._drawn = -np.inf

    def update(self, reading: Reading) -> None:
        """Add the newest values, at most one point each PERIOD."""
        now = monotonic()
        if reading.robot is None or now - self._added < PERIOD:
            return
        self._added, names = now, reading.robot.joint_names
        if names != self._names:
            self._names = names
            self._joint.options = names
            self._joint.value = names[min(1, len(names) - 1)]  # a shoulder usually carries most
        if reading.control.error is not None:
            angle, distance = (float(np.linalg.norm(part))
                               for part in (reading.control.error[:3], reading.control.error[3:]))
            self._position.add(now, {'position': 1e3 * distance})
            self._angle.add(now, {'rotation': float(np.degrees(angle))})
        shares = reading.torque_shares
        if shares is not None and np.isfinite(shares).all():
            self._share.add(now, dict(zip(short_names(names), (100.0 * shares).tolist())))
        if reading.control.terms:
            joint = names.index(self._joint.value) if self._joint.value in names else 0
            self._terms.unit = 'N' if joint in sliding_joints(reading.robot) else 'N m'
            self._terms.add(now, {name: float(part[joint])
                                  for name, part in reading.control.terms.items()})
        if now - self._drawn > DRAWN:
            self._drawn = now
            for plot in (self._position, self._angle, self._share, self._terms):
                plot.draw(now)
