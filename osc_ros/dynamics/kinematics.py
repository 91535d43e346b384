"""Where a link points, without the rest of the dynamics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osc_ros.dynamics.compiled import kernel
from osc_ros.dynamics.papers.newton_euler import link_pose
from osc_ros.dynamics.spatial import compose, Matrix
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@kernel
def _axes(rotations, turns, places, q, axes):
    R: Matrix = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    for k in range(len(rotations)):
        S = rotations[k]
        R = compose(R, (S[0, 0], S[0, 1], S[0, 2], S[1, 0], S[1, 1], S[1, 2],
                        S[2, 0], S[2, 1], S[2, 2]))
        if turns[k]:
            c, s = np.cos(q[places[k]]), np.sin(q[places[k]])
            R = compose(R, (c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0))
    for i in range(3):
        for j in range(3):
            axes[i, j] = R[3 * i + j]


class LinkAxes:
    """
    The axes of one link in the base frame.

    Parameters
    ----------
    robot : Robot
        All joints on the way to the link have one freedom.
    link : str

    Raises
    ------
    InputError
        If the robot has no such link; the message lists those that it has.

    """

    def __init__(self, robot: Robot, link: str) -> None:
        link_pose(robot, robot.neutral, link)
        body, T_body_link = robot.frames[link]
        path: list[int] = []
        while body >= 0:
            path.insert(0, body)
            body = int(robot.parent[body])
        self._rotations = np.array([*robot.T_parent_body[path, :3, :3], T_body_link[:3, :3]])
        self._turns = np.array([*~robot.prismatic[path], False])
        self._places = np.array([*robot.q_index[path], 0])
        self._axes = np.eye(4)

    def at(self, q: Array) -> Array:
        """Pose (4, 4) at the base's origin with the link's axes, the same array in every call."""
        _axes(self._rotations, self._turns, self._places, q, self._axes)
        return self._axes
