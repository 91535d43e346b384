# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A slider for each joint: shows its position, and requests joint motions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from osc_ros.model.robot import Robot
from osc_ros.viewer.mirror import Mirror
from osc_ros.viewer.scene.actions import Actions
from osc_ros.viewer.scene.reading import Reading, sliding_joints
from osc_ros.viewer.text import short_names

SETTLED = 1.0  # `settled` of a slider, see `Mirror` [s]
STEP, SHORT_STEP = 0.01, 0.001  # of a rotation [rad] and of a prismatic joint [m]
TURN = 3.14  # end of the slider of a joint without limits [rad, m]


class Joints:
    """A folder with one slider for each joint of the arm."""

    def __init__(self, server: Any, actions: Actions) -> None:
        self._server, self._actions = server, actions
        self._folder = server.gui.add_folder('Joints [rad]', visible=False)
        self._robot: Robot | None = None
        self._sliders: dict[str, Mirror] = {}

    def update(self, reading: Reading) -> None:
        """Show the measured positions, and request the positions that a user has chosen."""
        if reading.robot is not self._robot:
            self._rebuild(reading.robot)
        if self._robot is None or reading.q is None or len(reading.q) != self._robot.n:
            return
        is_offered = 'joints' in reading.offers
        for mirror, q in zip(self._sliders.values(), reading.q.tolist()):
            slider = mirror.handle
            value = round(round(q / slider.step) * slider.step, 3)
            slider.disabled = not is_offered
            slider.min, slider.max = min(slider.min, value), max(slider.max, value)
            mirror.update(value)

    def _rebuild(self, robot: Robot | None) -> None:
        for old in self._sliders.values():
            old.handle.remove()
        self._robot, self._sliders = robot, {}
        self._folder.visible = robot is not None
        if robot is None:
            return
        sliding = sliding_joints(robot)
        self._folder.label = 'Joints [rad, m]' if sliding else 'Joints [rad]'
        with self._folder:
            for k, (name, label) in enumerate(zip(robot.joint_names,
                                                  short_names(robot.joint_names))):
                self._sliders[name] = self._mirror(
                    name, label, SHORT_STEP if k in sliding else STEP, robot.position_limits[k])

    def _mirror(self, name: str, label: str, step: float, limits: Any) -> Mirror:
        """Return a new slider, whose ends are the limits, rounded inwards to whole steps."""
        low, high = (bound if np.isfinite(bound) else end
                     for bound, end in zip(limits.tolist(), (-TURN, TURN)))
        low, high = round(np.ceil(low / step) * step, 3), round(np.floor(high / step) * step, 3)
        return Mirror(
            self._server.gui.add_slider(label, low, max(high, low + step), step, low,
                                        hint=f'{name}: moves this joint'),
            partial(self._request, name), SETTLED)

    def _request(self, name: str, value: float) -> None:
        self._actions.move_joints({name: value})
