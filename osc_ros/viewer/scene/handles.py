# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Handles that a user drags in the scene."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from osc_ros.viewer.scene.view_frames import displaced_pose, pose_of, wxyz_of

Array = NDArray[np.float64]

HELD = 1.0  # time after a drag in which the handle does not follow the goal [s]
# A handle follows the goal if this moves by more than MOVED plus the share UNSURE of its distance
# from the tip: pose and error have different times, so the goal seems to move with the arm.
MOVED, UNSURE = 1e-3, 0.1  # [m, rad], [-]


class Handle:
    """A handle for the target of a task (name '': the tip's task), or for an obstacle."""

    # `moved` receives the pose (4, 4) while a user drags the handle; `is_point`: it has only a
    # position; `kind`: first word of its label.

    def __init__(self, server: Any, name: str, moved: Callable[[Array], None],
                 is_point: bool = False, kind: str = 'target') -> None:
        self._controls = server.scene.add_transform_controls(
            f'/{kind}/{name or "tip"}', scale=0.25 if not name else 0.16, line_width=3.0,
            disable_rotations=is_point, depth_test=False, opacity=0.9)
        self._text = f'{kind} {name}'.strip()
        self._label = server.scene.add_label(f'/{kind}/{name or "tip"}/name', self._text)
        self._dragged, self._is_held, self.is_placed = -np.inf, False, False

        @self._controls.on_update
        def _(event: Any) -> None:
            self._is_held = event.phase != 'end'
            self._dragged, self.is_placed = monotonic(), True
            if event.phase == 'update':
                moved(pose_of(event.target))

    @property
    def is_free(self) -> bool:
        """Whether no user has dragged the handle in the last HELD seconds."""
        return not self._is_held and monotonic() - self._dragged > HELD

    def place(self, pose: Array, distance: Array) -> None:
        """Move it, unless a user drags it, to `pose` (4, 4) displaced by `distance` (6,)."""
        if not self.is_free:
            return
        self.is_placed, goal, is_at = True, displaced_pose(pose, distance), pose_of(self._controls)
        angle = np.linalg.norm(Rotation.from_matrix(goal[:3, :3].T @ is_at[:3, :3]).as_rotvec())
        if (np.linalg.norm(is_at[:3, 3] - goal[:3, 3])
                > MOVED + UNSURE * np.linalg.norm(distance[3:])):
            self._controls.position = goal[:3, 3]
        if angle > MOVED + UNSURE * np.linalg.norm(distance[:3]):
            self._controls.wxyz = wxyz_of(goal[:3, :3])

    def say(self, activation: float) -> None:
        """Show in the label of the handle whether the task is off (activation 0)."""
        text = self._text if activation > 0.0 else f'{self._text} (off: activation 0)'
        if self._label.text != text:
            self._label.text = text

    def remove(self) -> None:
        """Remove the handle from the page."""
        self._label.remove()
        self._controls.remove()
