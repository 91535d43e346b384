# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The camera of the page follows an arm that leaves the picture."""

from io import BytesIO
import time
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip('viser', reason="viser is not installed: pip install '.[viewer]'")

import browser as chromium
from browser import Asked, free_port, needs_browser
from osc_ros.viewer.scene.camera import camera_shift, Cameras, is_shown
from osc_ros.viewer.viewer_page import CAMERA, Page
from viewer_readings import described_panda, reading_of, READY

UPRIGHT = np.array([0.0, 0.3, 0.0, -0.1, 0.0, 1.571, 0.785])  # higher than the picture
RADIUS = 0.08  # [m]
numbers = st.floats(-2.0, 2.0)


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=8),
       st.tuples(numbers, numbers, numbers), st.floats(0.5, 2.0))
def test_shifted_camera_shows_all_points_and_needs_no_second_shift(points, turn, aspect):
    R, position = Rotation.from_rotvec(turn).as_matrix(), np.array([0.5, -0.2, 1.0])
    points, half = np.array(points), 0.4 * np.array([aspect, 1.0])
    moved = position + camera_shift(R, position, points, half, RADIUS)
    assert is_shown(R, moved, points, half, RADIUS).all()
    assert camera_shift(R, moved, points, half, RADIUS) == pytest.approx(np.zeros(3), abs=1e-9)
    if is_shown(R, position, points, half * 0.99, RADIUS).all() and (
            (points - position) @ R)[:, 2].min() > 0.1:
        assert (moved == position).all()


def test_camera_moves_only_as_far_as_needed():
    R, half = np.eye(3), np.array([0.5, 0.5])  # right, down, ahead are x, y, z
    right = camera_shift(R, np.zeros(3), np.array([[0.7, 0.0, 1.0]]), half, 0.1)
    assert right == pytest.approx([0.3, 0.0, 0.0])
    back = camera_shift(R, np.zeros(3), np.array([[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]), half, 0.1)
    assert back == pytest.approx([0.0, 0.0, -1.2])


def test_camera_does_not_move_back_for_a_picture_that_is_too_narrow():
    camera = SimpleNamespace(position=np.zeros(3), wxyz=np.array([1.0, 0.0, 0.0, 0.0]), fov=0.8,
                             aspect=1.0)
    cameras = Cameras(SimpleNamespace(
        initial_camera=SimpleNamespace(position=np.zeros(3)),
        get_clients=lambda: {0: SimpleNamespace(camera=camera)}))
    points = np.array([[-0.2, 0.0, 1.0], [0.2, 0.0, 1.0]])
    for camera.aspect in (1.0, 0.04, 0.0):  # as while a user makes the window narrow
        cameras.follow(points)
        assert camera.position == pytest.approx(np.zeros(3))
    camera.aspect = 0.4
    cameras.follow(points)
    assert camera.position[2] < 0.0


@needs_browser
def test_camera_follows_the_arm_out_of_the_picture_but_not_against_the_user():
    panda = described_panda()
    page = Page('127.0.0.1', free_port(), Asked(), lambda uri: None)

    def until(happened, q):
        deadline = time.monotonic() + chromium.PATIENCE
        while not happened():
            assert time.monotonic() < deadline, 'waited in vain'
            page.update(reading_of(panda, q=q))
            time.sleep(0.05)

    def camera():
        client, = page._server.get_clients().values()
        return client.camera

    try:
        with chromium.browser() as tab:
            tab.open(f'http://127.0.0.1:{page.port}/', 1100, 600)
            until(lambda: page.browsers == 1, READY)
            first = np.array(CAMERA)  # shows the arm in READY
            until(lambda: camera().position == pytest.approx(first, abs=1e-3), READY)
            tab.wait_for("document.querySelector('canvas') !== null")
            until(lambda: has_arm(tab, 130, 300), READY)
            assert camera().position == pytest.approx(first, abs=1e-3)
            until(lambda: np.linalg.norm(camera().position - first) > 0.02, UPRIGHT)
            assert_shown(panda[1], camera(), UPRIGHT)
            # the browser draws the arm below the upper edge, above its place in READY
            until(lambda: has_arm(tab, 15, 100) and not has_arm(tab, 0, 8), UPRIGHT)
            assert_shown(panda[1], camera(), UPRIGHT)
            # a user who turns the camera away from the arm
            tab.mouse('mouseMoved', 350, 550)
            tab.mouse('mousePressed', 350, 550, button='right', buttons=2, clickCount=1)
            for x in (500, 700):  # the right button shifts the view
                tab.mouse('mouseMoved', x, 550, button='right', buttons=2)
            tab.mouse('mouseReleased', 700, 550, button='right', clickCount=1)
            until(lambda: not shown(panda[1], camera(), UPRIGHT).all(), UPRIGHT)
            for _ in range(10):
                page.update(reading_of(panda, q=UPRIGHT))
                tab.value('0')
            assert not shown(panda[1], camera(), UPRIGHT).all()  # nothing moves it back
            assert tab.errors == []
    finally:
        page.close()


def has_arm(tab, top, bottom):
    """Whether dark pixels, of the arm, are in these rows of the screenshot, between the panels."""
    from PIL import Image
    tab.value(chromium.CLOSE_NOTES)
    picture = Image.open(BytesIO(tab.picture())).convert('L').crop((440, top, 600, bottom))
    return bool((np.asarray(picture) < 215).any())


def shown(robot, camera, q):
    from osc_ros.dynamics.algebra.kinematics import placement
    at = placement(robot, q)
    R = Rotation.from_quat(np.roll(camera.wxyz, -1)).as_matrix()
    up = np.tan(0.5 * camera.fov)
    return is_shown(R, camera.position, np.vstack([at.p, at.T_tips[:, :3, 3]]),
                    np.array([up * camera.aspect, up]), 0.0)


def assert_shown(robot, camera, q):
    assert shown(robot, camera, q).all()
