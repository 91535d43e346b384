# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A handle that pulls the tip of a simulated arm by a spring."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.viewer.scene.actions import Actions

Array = NDArray[np.float64]

BESIDE = np.array([0.0, 0.22, 0.0])  # offset from the tip, beside the target's handle [m]
STIFFNESS = 150.0  # stiffness of the spring [N/m]
STRONGEST = 60.0  # largest force of the spring [N]
RED, GREY = (220, 50, 40), (150, 150, 155)


class PushHandle:
    """A handle beside the tip; dragging it stretches a spring between handle and tip."""

    def __init__(self, server: Any, actions: Actions) -> None:
        self._scene, self._actions = server.scene, actions
        self._controls: Any = None
        self._is_pushing = False
        self._line = self._scene.add_line_segments('/pull', np.zeros((1, 2, 3)), GREY,
                                                   visible=False)

    @property
    def position(self) -> Array:
        """Position (3,) of the handle, base frame [m]."""
        return np.array(self._controls.position)

    @property
    def is_free(self) -> bool:
        """Whether no user drags the handle."""
        return not self._is_pushing

    def update(self, is_offered: bool, tip: Array) -> None:
        """Show the handle beside the tip (3,) if `is_offered`; else remove it, stop pulling."""
        # While the user drags the handle, a spring force pulls the tip towards it.
        self._line.visible = is_offered
        if not is_offered:
            if self._controls is not None:
                self._label.remove()
                self._controls.remove()
                self._controls, self._is_pushing = None, False
            return
        if self._controls is None:
            self._add()
        if not self._is_pushing:
            self._controls.position = tip + BESIDE
        end = self.position
        self._line.points = np.array([[tip, end]], dtype=np.float32)
        color = RED if self._is_pushing else GREY
        self._line.colors = np.full((1, 2, 3), color, dtype=np.uint8)
        if self._is_pushing:
            force = STIFFNESS * (end - BESIDE - tip)
            force *= min(1.0, STRONGEST / max(float(np.linalg.norm(force)), 1e-9))
            self._label.text = f'pull: {np.linalg.norm(force):.0f} N'
            self._actions.push(force)

    def _add(self) -> None:
        self._controls = self._scene.add_transform_controls(
            '/push', scale=0.09, line_width=4.0, disable_rotations=True, disable_sliders=True,
            depth_test=False, opacity=0.8)
        self._label = self._scene.add_label('/push/name', 'pull')
        self._controls.on_update(lambda event: self.hold(event.phase != 'end'))

    def hold(self, is_held: bool) -> None:
        """Begin to pull the tip if `is_held`; otherwise stop pulling."""
        self._is_pushing = is_held
        if not is_held:
            self._label.text = 'pull'
            self._actions.push(None)
