# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Goals in frames of tf2, tested with a substitute for tf2_ros, for which no wheel exists."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from arm import READY
from tolerances import AGREEMENT

pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import TransformStamped

from osc_ros import Robot
from osc_ros.errors import InputError
from osc_ros.ros.messages.frames import Frames
from osc_ros.ros.parameters.robot_parameters import urdf_text


class TransformException(Exception):
    """Substitute for tf2_ros.TransformException."""


class Buffer:
    """Substitute for tf2_ros.Buffer with one frame, 'camera'."""

    def lookup_transform(self, base, frame, time):
        """Return the transform of the camera; raise for any other frame."""
        if (base, frame) != ('panda_link0', 'camera'):
            raise TransformException(f'{frame} is not connected with {base}')
        found = TransformStamped()
        found.transform.translation.x, found.transform.rotation.z = 0.5, 1.0
        found.transform.rotation.w = 0.0
        return found


@pytest.fixture
def frames(monkeypatch):
    """Return the Frames of a node, with the substitute installed as tf2_ros."""
    monkeypatch.setitem(sys.modules, 'tf2_ros', SimpleNamespace(
        Buffer=Buffer, TransformListener=lambda buffer, node: None,
        TransformException=TransformException))
    return Frames(None)


def test_user_with_tf2_gives_a_target_in_the_frame_of_a_camera(frames):
    robot = Robot.from_urdf(urdf_text('panda'), 'panda_link0', 'panda_hand_tcp')
    T = np.diag([-1.0, -1.0, 1.0, 1.0])
    T[0, 3] = 0.5
    np.testing.assert_allclose(frames.pose(robot, READY, 'camera'), T, atol=AGREEMENT)


def test_user_with_tf2_names_a_frame_that_nobody_knows(frames):
    robot = Robot.from_urdf(urdf_text('panda'), 'panda_link0', 'panda_hand_tcp')
    with pytest.raises(InputError, match='camra.*tf2'):
        frames.pose(robot, READY, 'camra')
