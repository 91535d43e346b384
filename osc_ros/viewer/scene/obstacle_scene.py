# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Draws the obstacles of the controller and the nearest pair; handles move the page's own ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.link_shapes import ShapeModel
from osc_ros.collision.obstacles import Obstacle
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.viewer.scene.actions import Actions
from osc_ros.viewer.scene.handles import Handle
from osc_ros.viewer.scene.reading import Reading, Solid
from osc_ros.viewer.scene.surroundings import Objects

Array = NDArray[np.float64]
Pair = tuple[Array, Array, float]

OWN = 'viewer'  # namespace of the obstacles that the page adds
TEAL, RED = (20, 130, 140), (220, 50, 40)  # of all; of those that bound the motion
GREY = (150, 150, 155)  # of all, while the arm does not keep clear
OPACITY = 0.5
PLATE = 2.0, 2.0, 2e-3  # edges of the part of a half-space's surface that is drawn [m]
POINTS, SEARCHES = 17, 4  # of a segment that are compared; each search divides its range by 8


def is_own(name: str) -> bool:
    """Whether a page has added the obstacle of this name."""
    return name.startswith(f'{OWN}/')


class ObstacleScene:
    """Obstacles, half transparent, and a line between the nearest pair; both red if they hold."""

    def __init__(self, server: Any, actions: Actions) -> None:
        self._server, self._actions = server, actions
        self._objects, self._handles = Objects(server, 'obstacle'), dict[str, Handle]()
        self._line = server.scene.add_line_segments(
            '/nearest', np.zeros((1, 2, 3)), TEAL, thickness=0.006, visible=False)
        self._label = server.scene.add_label('/nearest_distance', '', visible=False)

    @property
    def is_free(self) -> bool:
        """Whether no user has just dragged an obstacle."""
        return all(one.is_free for one in self._handles.values())

    def update(self, reading: Reading, model: ShapeModel | None) -> None:
        """Draw the obstacles, and the nearest pair by the shapes of a model."""
        found, holding = reading.obstacles, reading.control.held_off
        free = TEAL if 'obstacles' in reading.offers else GREY
        self._objects.update({name: (_solid(one, RED if any(
            pair.endswith(f' {name}') for pair in holding) else free), one.pose)
            for name, one in found.items()})
        own = set(filter(is_own, found))
        for name in self._handles.keys() - own:
            self._handles.pop(name).remove()
        for name in own:
            if name not in self._handles:
                self._handles[name] = Handle(self._server, name, partial(self._move, name), True,
                                             'drag')
            self._handles[name].place(found[name].pose, np.zeros(6))
        pair = None if model is None else nearest_points(reading, model)
        self._line.visible = self._label.visible = pair is not None
        if pair is not None:
            a, b, distance = pair
            color = RED if ' '.join(reading.control.nearest or ()) in holding else TEAL
            self._line.points = np.array([[a, b]], dtype=np.float32)
            self._line.colors = np.full((1, 2, 3), color, dtype=np.uint8)
            self._label.position, self._label.text = 0.5 * (a + b), f'{1e3 * distance:.0f} mm'

    def _move(self, name: str, pose: Array) -> None:
        self._actions.move_obstacle(name, pose[:3, 3])


def nearest_points(reading: Reading, model: ShapeModel) -> Pair | None:
    """Return the nearest points (3,) of the pair in the diagnostics, and their distance [m]."""
    # Base frame. None if there is no such pair, or one of the two is not known, such as a fence.
    pair, robot, q = reading.control.nearest, reading.robot, reading.q
    if pair is None or robot is None or q is None:
        return None
    link, other = pair
    capsules = list(_capsules(reading, model, link))
    solids = ([reading.obstacles[other]] if other in reading.obstacles
              else list(_capsules(reading, model, other)))
    found = [_nearest(ends, radius, solid) for ends, radius in capsules for solid in solids]
    return min(found, key=lambda one: one[2], default=None)


def _capsules(reading: Reading, model: ShapeModel, link: str) -> Iterator[tuple[Array, float]]:
    """Yield the ends (2, 3) in the base frame and the radius of each shape of a link."""
    robot, q = reading.robot, reading.q
    if robot is None or q is None or link not in robot.frames:
        return
    T = link_pose(robot, q, link)
    for one in model.shapes:
        if one.link == link:
            yield one.ends @ T[:3, :3].T + T[:3, 3], one.radius


def _nearest(ends: Array, radius: float, other: Obstacle | tuple[Array, float]) -> Pair:
    """Return the nearest points of a capsule and another one or an obstacle, and the distance."""
    low, high, other_radius = 0.0, 1.0, _radius(other)
    for _ in range(SEARCHES):  # the distance is convex along the segment
        s = np.linspace(low, high, POINTS)
        x = ends[0] + s[:, None] * (ends[1] - ends[0])
        c = _core_points(other, x)
        d = np.linalg.norm(c - x, axis=1)
        k = int(np.argmin(d))
        low, high = s[max(k - 1, 0)], s[min(k + 1, POINTS - 1)]
    n = (c[k] - x[k]) / max(d[k], 1e-9)
    return x[k] + radius * n, c[k] - other_radius * n, float(d[k] - radius - other_radius)


def _radius(one: Obstacle | tuple[Array, float]) -> float:
    return one.solid[2] if isinstance(one, Obstacle) else one[1]


def _core_points(one: Obstacle | tuple[Array, float], x: Array) -> Array:
    """Return the points (n, 3) nearest to x (n, 3) of a solid without its added radius."""
    if not isinstance(one, Obstacle):
        (a, b), _ = one
        t = (x - a) @ (b - a) / max(float((b - a) @ (b - a)), 1e-12)
        return np.asarray(a + np.clip(t, 0.0, 1.0)[:, None] * (b - a))
    R, center = one.pose[:3, :3], one.pose[:3, 3]
    p = (x - center) @ R
    if one.shape == 'cylinder':
        around = np.linalg.norm(p[:, :2], axis=1, keepdims=True)
        p[:, :2] *= np.minimum(1.0, one.size[0] / np.maximum(around, 1e-12))
        half = np.array([np.inf, np.inf, 0.5 * one.size[1]])
    elif one.shape == 'half_space':
        return np.asarray(np.minimum(p, [np.inf, np.inf, 0.0]) @ R.T + center)
    else:
        half = 0.5 * np.array({'box': one.size, 'capsule': (0.0, 0.0, one.size[-1])}.get(
            one.shape, (0.0, 0.0, 0.0)))
    return np.asarray(np.clip(p, -half, half) @ R.T + center)


def _solid(one: Obstacle, color: tuple[int, int, int]) -> Solid:
    if one.shape == 'half_space':
        return _solid(replace(one, shape='box', size=PLATE), color)
    size = (one.size if one.shape == 'box' else (2.0 * one.size[0],) * 3 if one.shape == 'sphere'
            else (2.0 * one.size[0], 2.0 * one.size[0], one.size[1]))
    return Solid(one.shape, size, (*(x / 255.0 for x in color), OPACITY))
