# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""An arm in processes with the page of osc_viewer in a browser; its pixels, drags and films."""

import time

import numpy as np

import browser as chromium

READY_TEXT = 'at its '  # goal or set-point
# The camera of the page, to find the pixel of a point.
EYE, AT, FIELD = np.array((1.35, 1.05, 0.8)), np.array((0.2, 0.0, 0.42)), 0.8


def pixel(tab, point):
    """Return the pixel of a point (3,) of the scene."""
    x, y, width, height = tab.value(
        "(() => {const all = [...document.querySelectorAll('canvas')].map("
        'c => c.getBoundingClientRect()); const b = all.reduce((a, b) => '
        'a.width * a.height > b.width * b.height ? a : b);'
        'return [b.x, b.y, b.width, b.height]})()')
    ahead = (AT - EYE) / np.linalg.norm(AT - EYE)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up, d = np.cross(right, ahead), point - EYE
    focal = height / 2.0 / np.tan(FIELD / 2.0)
    return (x + width / 2.0 + focal * (d @ right) / (d @ ahead),
            y + height / 2.0 - focal * (d @ up) / (d @ ahead))


class Arm:
    """Simulator, controller and viewer as processes, and a node that hears them."""

    def __init__(self, spin, start, port, world='', *settings):
        """Start them, with a world in a file of config/, and settings of the controller."""
        from geometry_msgs.msg import PoseStamped
        from rclpy.node import Node

        from osc_ros.ros.process.share import share_directory
        self._spin, self.node, self.tip = spin, Node('test_viewer'), None
        self._settings = settings
        self.file = share_directory() / 'config' / 'panda.yaml'
        self._start = start
        # lockstep: browsers that draw on the CPU must not delay torques
        start('simulator', *self.arguments(), *(
            ('--params-file', self.file.with_name(world)) if world else ()),
            '-p', 'lockstep:=true')
        self.controller = self.start_controller()
        self.viewer = start('viewer', '--port', port)
        self.node.create_subscription(PoseStamped, 'osc_simulator/tip_pose', self._on_pose, 10)
        self.wait(lambda: self.tip is not None, 'the tip')

    def start_controller(self):
        """Start the controller; return its process."""
        return self._start('controller', *self.arguments(), '-p', 'state_timeout:=20.0',
                           '-p', 'watchdog.deadline.reaction:=report', *self._settings)

    def arguments(self):
        """Return the arguments of both nodes."""
        return '--ros-args', '--params-file', self.file

    def _on_pose(self, message):
        p = message.pose.position
        self.tip = np.array([p.x, p.y, p.z])

    def wait(self, happened, why):
        """Spin until `happened()` is true."""
        self._spin(happened, self.node, why=why)

    def rest(self, seconds):
        """Spin for `seconds` while the film takes pictures."""
        until = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > until, 'time')

    def parameter(self, name):
        """Return a parameter of the controller, an array."""
        from rcl_interfaces.srv import GetParameters
        client = self.node.create_client(GetParameters, 'osc_controller/get_parameters')
        self.wait(client.service_is_ready, 'the service')
        future = client.call_async(GetParameters.Request(names=[name]))
        self.wait(future.done, 'the parameter')
        return list(future.result().values[0].double_array_value)


def open_page(arm, port, tab, *others):
    """Open the page in browsers, and wait until the arm is ready and the scene has faded in."""
    for one, size in ((tab, (1440, 900)), *((other, (640, 400)) for other in others)):
        one.open(f'http://127.0.0.1:{port}/', *size)
        deadline = time.monotonic() + 300.0  # the controller may compile
        while READY_TEXT not in one.text():
            assert time.monotonic() < deadline, one.text()
            arm.rest(0.2)
    arm.rest(6.0)
    for one in (tab, *others):
        one.value(chromium.CLOSE_NOTES)


def wait_for_text(arm, tab, text):
    deadline = time.monotonic() + 120.0
    while text not in tab.text():
        assert time.monotonic() < deadline, tab.text()
        arm.rest(0.2)


def drag(tab, arm, start, end, steps=16, each=None):
    """Drag from one point (3,) of the scene to another; call `each` after every second step."""
    a, b = pixel(tab, start), pixel(tab, end)
    tab.mouse('mouseMoved', *a)
    arm.rest(0.5)
    tab.mouse('mouseMoved', a[0] + 0.5, a[1])
    arm.rest(0.3)
    tab.mouse('mousePressed', *a, button='left', buttons=1, clickCount=1)
    for k in range(1, steps + 1):
        tab.mouse('mouseMoved', *(x + (y - x) * k / steps for x, y in zip(a, b)), button='left',
                  buttons=1)
        arm.rest(0.05)
        if each is not None and k % 2:
            each()
    tab.mouse('mouseReleased', *b, button='left', clickCount=1)
    for _ in range(10 if each is not None else 0):
        arm.rest(0.05)
        each()


class Film:
    """Pictures of a page with their times; without `is_wanted` none."""

    def __init__(self, tab, is_wanted):
        """Take pictures of this tab."""
        self._tab, self._is_wanted, self._pictures = tab, is_wanted, []

    def take(self):
        """Take a picture."""
        if self._is_wanted:
            self._pictures.append((time.monotonic(), self._tab.picture()))

    def save(self, path):
        """Write the pictures as an animation of at most 10 s."""
        from io import BytesIO

        from PIL import Image
        if not self._is_wanted:
            return
        times = np.array([moment for moment, _ in self._pictures])
        first, *others = (Image.open(BytesIO(data)).convert('RGB').resize((960, 600))
                          for _, data in self._pictures)
        spans = np.diff(times, append=times[-1] + 1.0)
        spans *= min(1.0, 10.0 / spans.sum())
        first.save(path, save_all=True, append_images=others, loop=0, quality=55,
                   duration=[round(1e3 * span) for span in spans], method=4)
        assert path.stat().st_size < 2.5e6
