# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The 3D scene: arm, set-point, mobility, forces, and handles for the user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
import trimesh

from osc_ros.collision.link_shapes import ShapeModel
from osc_ros.dynamics.algebra.kinematics import link_pose, Placement, placement
from osc_ros.model.robot import Robot
from osc_ros.model.visuals import fingers
from osc_ros.viewer.scene.actions import Actions
from osc_ros.viewer.scene.camera import Cameras
from osc_ros.viewer.scene.handles import Handle
from osc_ros.viewer.scene.obstacle_scene import ObstacleScene
from osc_ros.viewer.scene.push_handle import PushHandle
from osc_ros.viewer.scene.reading import Follower, Reading
from osc_ros.viewer.scene.shapes import body_shapes
from osc_ros.viewer.scene.surroundings import CollisionShapes, Fingers, Objects
from osc_ros.viewer.scene.view_frames import wxyz_of

Array = NDArray[np.float64]

MOBILITY_SCALE = 0.1  # length of a semi-axis of the ellipsoid per mobility [m kg]
LONGEST = 0.3  # longest drawn semi-axis [m]
FORCE_SCALE = 0.005  # length of an arrow per force [m/N]
LEAST_FORCE = 0.5  # smallest drawn force [N]
AHEAD = 0.3  # distance of the first target point of a look_at task [m]
VIOLET, GREEN = (150, 90, 220), (40, 160, 90)
BLUE, ORANGE = (40, 110, 220), (230, 120, 20)


class Scene:
    """Draws the latest data of the controller, and turns dragged handles into requests."""

    # `file_of` returns the file of a mesh by its URI in the URDF, or None; `model`: see
    # `CollisionShapes`.

    def __init__(self, server: Any, actions: Actions, file_of: Callable[[str], Path | None],
                 model: ShapeModel | None = None) -> None:
        self._server, self._actions, self._file_of = server, actions, file_of
        self._robot: Robot | None = None
        self._followers: tuple[Follower, ...] = ()
        self._bodies: dict[int, Any] = {}
        self._fingers, self._objects = Fingers(server, {}), Objects(server)
        self.collision_shapes = CollisionShapes(server, model)
        self._marks: dict[int, Any] = {}
        self._handles: dict[str, Handle] = {}
        self._push, self._obstacles = PushHandle(server, actions), ObstacleScene(server, actions)
        self._cameras = Cameras(server)
        self.missing: list[str] = []
        scene = server.scene
        scene.set_up_direction('+z')
        scene.add_grid('/ground', width=4.0, height=4.0, cell_size=0.1, section_size=0.5,
                       cell_color=(215, 218, 222), section_color=(180, 185, 190))
        ball = trimesh.creation.icosphere(subdivisions=3)
        self._ellipsoid = scene.add_mesh_simple(
            '/mobility', ball.vertices, ball.faces, color=VIOLET, opacity=0.4, visible=False,
            cast_shadow=False, receive_shadow=False)
        self._set_point = scene.add_icosphere('/set_point', radius=0.012, color=GREEN,
                                              visible=False)
        self._force, self._external = (
            scene.add_arrows(name, np.zeros((1, 2, 3)), color, shaft_radius=0.006,
                             head_radius=0.015, head_length=0.03, visible=False)
            for name, color in (('/force', BLUE), ('/external_force', ORANGE)))

    def update(self, reading: Reading) -> None:
        """Draw the latest data of the controller."""
        if reading.robot is not self._robot or reading.followers != self._followers:
            self._rebuild(reading)
        robot, q = self._robot, reading.q
        if robot is None or q is None or len(q) != robot.n:
            return
        with self._server.atomic():
            self._objects.update(reading.solids)
            at = placement(robot, q)
            self._draw_arm(robot, at, reading)
            control = reading.control
            tip = link_pose(robot, q, robot.tip) if control.pose is None else control.pose
            self._draw_tip(reading, tip)
            self._handles[''].place(tip, control.goal_errors.get('', (
                np.zeros(6) if control.error is None else control.error)))
            for one in self._followers:
                self._place_follower(one, link_pose(robot, q, one.link), reading)
            self._push.update('push' in reading.offers, tip[:3, 3])
            self._obstacles.update(reading, self.collision_shapes.model)
        # not while a user drags: the handle would run away from the mouse
        if self._push.is_free and self._obstacles.is_free and all(
                one.is_free for one in self._handles.values()):
            self._cameras.follow(np.vstack([np.zeros(3), at.p, tip[:3, 3]]))

    def _rebuild(self, reading: Reading) -> None:
        """Draw another robot, and handles of its tasks."""
        for old in (self._fingers, *self._bodies.values(), *self._marks.values(),
                    *self._handles.values()):
            old.remove()
        self._bodies, self._marks, self._handles = {}, {}, {}
        self._robot, self._followers = reading.robot, reading.followers
        if self._robot is None:
            return
        self._add_shapes(self._robot, reading.urdf_text)
        self._handles[''] = Handle(self._server, '', partial(self._actions.target, ''))
        for one in self._followers:
            self._handles[one.name] = Handle(
                self._server, one.name,
                partial(self._actions.target, one.name), one.is_point)

    def _add_shapes(self, robot: Robot, urdf_text: str) -> None:
        scene, ways = self._server.scene, fingers(urdf_text, robot.joint_names)
        shapes, self.missing = body_shapes(robot, urdf_text, self._file_of, ways)
        movable = {}
        for body, shape in shapes.items():
            if isinstance(body, int):
                self._bodies[body] = scene.add_frame(f'/arm/{body + 1}', show_axes=False)
                scene.add_mesh_trimesh(f'/arm/{body + 1}/shape', shape)
            else:
                carrier, T = robot.frames[body]
                movable[body] = f'/arm/{carrier + 1}', T, ways[body], shape
        self._fingers = Fingers(self._server, movable)
        self.collision_shapes.draw(robot)

    def _draw_arm(self, robot: Robot, at: Placement, reading: Reading) -> None:
        for body, frame in self._bodies.items():
            if body >= 0:
                frame.wxyz, frame.position = wxyz_of(at.R[body]), at.p[body]
        if reading.gripper is not None:
            self._fingers.open(reading.gripper[0])
        near = reading.near_limits()
        for joint in self._marks.keys() - near.keys():
            self._marks.pop(joint).remove()
        for joint, (name, _) in near.items():
            body = int(np.searchsorted(robot.v_index, joint))
            if joint not in self._marks:
                self._marks[joint] = self._server.scene.add_label(
                    f'/limit/{joint}', f'{name}: near its limit')
            self._marks[joint].position = at.p[body]

    def _draw_tip(self, reading: Reading, tip: Array) -> None:
        mobility, place = reading.mobility, tip[:3, 3]
        self._set_point.visible = reading.control.error is not None
        if reading.control.error is not None:
            self._set_point.position = place + reading.control.error[3:]
        self._ellipsoid.visible = mobility is not None
        if mobility is not None:
            values, axes = mobility
            self._ellipsoid.scale = tuple(
                np.clip(MOBILITY_SCALE * values, 1e-3, LONGEST).tolist())
            self._ellipsoid.wxyz = wxyz_of(axes)
        self._ellipsoid.position = place
        for arrow, wrench in ((self._force, reading.control.force),
                              (self._external, reading.control.external)):
            force = np.zeros(3) if wrench is None else wrench[3:]
            arrow.visible = bool(np.linalg.norm(force) > LEAST_FORCE)
            if arrow.visible:
                arrow.points = np.array([[place, place + FORCE_SCALE * force]])

    def _place_follower(self, one: Follower, pose: Array, reading: Reading) -> None:
        """Place the handle of an additional task; `pose` (4, 4) is the pose of the task's link."""
        handle = self._handles[one.name]
        handle.say(reading.parameters.get(f'{one.name}.activation', 1.0))
        if not one.is_point:
            handle.place(pose, reading.control.goal_errors.get(one.name, np.zeros(6)))
        elif not handle.is_placed:
            pose[:3, 3] += AHEAD * pose[:3, :3] @ np.array(one.axis)
            handle.place(pose, np.zeros(6))
