# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Moves the cameras of the browsers after an arm that leaves their pictures."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

MARGIN = 0.92  # the camera keeps the arm within this share of the picture
THICK = 0.1  # radius of the arm, relative to its extent in the present posture
NEAREST = 0.1  # smallest distance of a point before the camera [m]
NARROWEST = 0.3  # width / height of a picture that is followed: others need a far camera
STILL = 1e-4  # two views that differ by less are the same [m, -, rad]
LATE = 30  # number of latest views that a browser may still report


def camera_shift(R: Array, position: Array, points: Array, half: Array, radius: float) -> Array:
    """Return the least shift (3,) of the camera backwards, then sideways, to show all points."""
    # Base frame; R: right, down, ahead; `half` (2,): tangents of half the field of view, sideways
    # and up; `radius` [m]: distance sideways from a point (n, 3) that is to be shown, too.
    local = (points - position) @ R
    ahead = half * local[:, 2:] - radius
    low, high = (local[:, :2] - ahead).max(axis=0), (local[:, :2] + ahead).min(axis=0)
    back = max(0.0, float(((low - high) / (2.0 * half)).max()),
               NEAREST - float(local[:, 2].min()))
    sideways = np.clip(0.0, low - half * back, high + half * back)
    return np.asarray(R @ np.array([*sideways, -back]))


def is_shown(R: Array, position: Array, points: Array, half: Array, radius: float
             ) -> NDArray[np.bool_]:
    """Whether each point is in the picture, (n,); for the arguments see `camera_shift`."""
    local = (points - position) @ R
    return np.asarray((np.abs(local[:, :2]) <= half * local[:, 2:] - radius + STILL).all(axis=1)
                      & (local[:, 2] > 0.0))


class Cameras:
    """Keeps the arm in the picture of each browser."""

    # From the first view on, all points of the arm are kept in the picture. After a user has moved
    # the camera, only those in the picture are, and those that come into it later.

    def __init__(self, server: Any) -> None:
        self._server = server
        self._first = np.array(server.initial_camera.position)
        self._views: dict[int, _View] = {}

    def follow(self, points: Array) -> None:
        """Move every camera whose picture one of these points (n, 3) has left."""
        clients, radius = self._server.get_clients(), THICK * float(np.ptp(points, axis=0).max())
        self._views = {key: view for key, view in self._views.items() if key in clients}
        for key, client in clients.items():
            camera = client.camera
            if camera.aspect < NARROWEST:
                continue
            view = self._views.setdefault(key, _View(self._first))
            up = np.tan(0.5 * camera.fov) * MARGIN
            half = np.array([up * camera.aspect, up])
            R = Rotation.from_quat(np.roll(camera.wxyz, -1)).as_matrix()
            shown = is_shown(R, camera.position, points, half, radius)
            kept = view.kept_points(camera, shown)
            if not shown[kept].all():
                camera.position = camera.position + camera_shift(
                    R, camera.position, points[kept], half, radius)
                view.record(camera)


class _View:
    """The view of one browser: latest states of its camera, and points to keep in the picture."""

    def __init__(self, first: Array) -> None:
        self._first = first
        self._recent: deque[Array] = deque(maxlen=LATE)
        self._kept = np.empty(0, dtype=bool)

    def kept_points(self, camera: Any, shown: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which points to keep in the picture, (n,); `shown` (n,) are those in it."""
        state = _state(camera)
        is_first = np.abs(camera.position - self._first).max() < STILL
        if is_first or len(self._kept) != len(shown):  # or another arm
            self._kept = np.ones(len(shown), dtype=bool)
        # the browser reports late what was set here
        elif not any(np.abs(state - one).max() < STILL for one in self._recent):
            self._kept = shown
            self._recent.clear()
        else:
            self._kept = self._kept | shown
        self.record(camera)
        return self._kept

    def record(self, camera: Any) -> None:
        """Record a state of the camera that is no user's change."""
        state = _state(camera)
        if not self._recent or np.abs(state - self._recent[-1]).max() >= STILL:
            self._recent.append(state)


def _state(camera: Any) -> Array:
    return np.concatenate([camera.position, camera.wxyz, [camera.fov]])
