# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Node osc_viewer: a web page that shows a controller and sends commands to it, over ROS."""

from __future__ import annotations

import argparse
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from osc_ros.collision.link_shapes import ShapeModel
from osc_ros.commandline import node_parser, parsed_node, ros_name
from osc_ros.errors import installation, OscError
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.process.node_process import run_and_exit
from osc_ros.ros.viewer.viewer_link import ControllerLink
from osc_ros.ros.viewer.viewer_simulator import tolerant

Array = NDArray[np.float64]

LOCALHOST, PORT = '127.0.0.1', 8080
MESHES = {'.3mf', '.dae', '.glb', '.gltf', '.obj', '.off', '.ply', '.stl'}  # suffixes
LARGEST_MESH = 64e6  # [bytes]
RATE = 30.0  # rate at which the page is updated and requests are sent [Hz]
EXAMPLE = """example:
  osc_viewer --port 8090                                    of the controller in this ROS domain
  osc_viewer --ros-args -r __ns:=/left                      of the controller in a namespace

It prints its address. From another machine: ssh -L 8080:localhost:8080 ROBOT, then open
http://localhost:8080 here. Ctrl-C ends it; the controller goes on. Exit status: 0 after Ctrl-C,
1 if it cannot start, 2 for wrong arguments."""


class Requests:
    """Queue of requests of the page, until the thread of the node sends them."""

    # A new value replaces an older one of the same task, joint, push, obstacle or parameter.

    def __init__(self) -> None:
        self._calls: SimpleQueue[str] = SimpleQueue()
        self._targets: dict[str, Array] = {}
        self._values: dict[str, Any] = {}
        self._pushes: dict[str, Array | None] = {}
        self._joints: dict[str, float] = {}
        self._obstacles: dict[str, Array] = {}

    def target(self, task: str, pose: Array) -> None:
        """Publish a target pose (4, 4) of a task in the base frame."""
        self._targets[task] = pose

    def move_obstacle(self, name: str, position: Array) -> None:
        """Move the obstacle of the page to a position (3,) in the base frame [m]."""
        self._obstacles[name] = position

    def push(self, force: Array | None) -> None:
        """Push the tip of the simulated arm with a force (3,) [N]; None ends the push."""
        self._pushes[''] = force

    def move_joints(self, positions: dict[str, float]) -> None:
        """Move these joints to positions [rad, m]."""
        self._joints.update(positions)

    def set_parameter(self, name: str, value: Any) -> None:
        """Set a parameter of the controller."""
        self._values[name] = value

    def call(self, name: str) -> None:
        """Carry out one of the requests of `Actions.call`."""
        self._calls.put(name)

    def carry_out(self, link: ControllerLink) -> None:
        """Pass all requests to the link; call this in the thread of the node."""
        while not self._calls.empty():
            name = self._calls.get()
            if name in ('start', 'stop', 'recover'):
                getattr(link, name)()
            elif name == 'home':
                link.move_home()
            elif name == 'add obstacle':
                link.obstacles.add()
            elif name == 'delete obstacles':
                self._obstacles.clear()
                link.obstacles.delete()
            elif name.startswith('free_drive'):
                link.set_free_drive(name.endswith(' on'))
            else:
                link.trigger(name)
        for values, use in ((self._targets, link.target), (self._values, link.set_parameter),
                            (self._obstacles, link.obstacles.move)):
            for key in list(values):
                use(key, values.pop(key))
        if self._joints:
            link.move_joints({name: self._joints.pop(name) for name in list(self._joints)})
        if self._pushes:
            force = self._pushes.pop('')
            link.push(np.zeros(3) if force is None else force)


class Viewer(Node):  # type: ignore[misc]
    """Node that serves the page and connects it to a controller; see `options_of`."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__('osc_viewer')
        from osc_ros.viewer.viewer_page import Page
        self._states = Node('_osc_viewer_states', enable_rosout=False,
                            start_parameter_services=False)
        self._requests = Requests()
        self._link = ControllerLink(self, self._states, options.controller, options.simulator)
        self._folder: Path | None = None
        self._page = Page(options.host, options.port, self._requests, self._file_of,
                          options.allow_origin,
                          options.shapes and ShapeModel.of_file(options.shapes))
        self._missing: list[str] = []
        if self._page.port != options.port:
            self.get_logger().warning(f'port {options.port} is taken: using {self._page.port}')
        self._say_address(options.host)
        self._always = options.listen_always
        self.create_timer(1.0 / RATE, tolerant(self._show, self._link.reading),
                          clock=Clock(clock_type=ClockType.STEADY_TIME))

    def stop(self) -> None:
        """Close the page and its connections."""
        self._link.close()
        self._page.close()
        self._states.destroy_node()

    def _say_address(self, host: str) -> None:
        shown = 'localhost' if host == '127.0.0.1' else host
        self.get_logger().info(f'open http://{shown}:{self._page.port}{self._page.query} in a '
                               f'browser (over SSH first: ssh -L {self._page.port}:localhost:'
                               f'{self._page.port} THIS_MACHINE)')
        if self._page.query:
            self.get_logger().warning(
                f'bound to {host}: everybody who has this address with its token, or reads it '
                'on the network, can move the arm')

    def _show(self) -> None:
        """Send the requests of the page, and show the newest messages."""
        self._link.listen(self._always or self._page.browsers > 0)
        self._requests.carry_out(self._link)
        self._link.update()
        self._folder = robot_parameters.folder(
            {'robot_description_file': '', **self._link.reading.parameters})
        self._page.update(self._link.reading)
        if self._page.missing_meshes != self._missing:
            self._missing = self._page.missing_meshes
            self.get_logger().info(f'{len(self._missing)} meshes are not on this machine, so '
                                   f'capsules stand for them: {self._missing[:3]}')

    def _file_of(self, uri: str) -> Path | None:
        return mesh_file(uri, self._folder)


def mesh_file(uri: str, folder: Path | None) -> Path | None:
    """Return the file of a mesh on this machine; None if there is none."""
    # The URI is package://PACKAGE/…, file://… or a path, which may be relative to the `folder` of
    # the URDF. It comes from the network and may name any file, so suffix and size are checked.
    found = urlparse(uri)
    if found.scheme == 'package':
        path = _package(found.netloc, found.path.lstrip('/'))
    elif found.scheme in ('', 'file'):
        path = (folder or Path()) / unquote(found.path)
    else:
        return None
    is_mesh = (path is not None and path.suffix.lower() in MESHES and path.is_file()
               and path.stat().st_size <= LARGEST_MESH)
    return path if is_mesh else None


def _package(name: str, path: str) -> Path | None:
    """Return the path of a file in the share folder of a ROS package; None if there is none."""
    try:
        from ament_index_python.packages import get_package_share_directory
        return Path(get_package_share_directory(name)) / unquote(path)
    except (ImportError, LookupError, ValueError, OSError):
        return None


def options_of(arguments: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of the command line, and the arguments for ROS."""
    parser = node_parser('osc_viewer', epilog=EXAMPLE,
                         description='Show and command osc_controller or osc_arm in a browser.')
    parser.add_argument('--host', default=LOCALHOST,
                        help=f'address that the page is bound to ({LOCALHOST})')
    parser.add_argument('--port', type=int, default=PORT,
                        help=f'of the page; if it is taken, the next one ({PORT})')
    parser.add_argument('--allow-origin', action='append', default=[], metavar='ORIGIN',
                        help='another address under which the page is opened, for example by a '
                        'proxy, as in https://robot.example; may be repeated')
    parser.add_argument('--controller', default='osc_controller', type=ros_name,
                        help='name of the node that is shown (osc_controller)')
    parser.add_argument('--simulator', default='osc_simulator', type=ros_name,
                        help='name of the simulator: its objects, gripper and pushes '
                        '(osc_simulator)')
    parser.add_argument('--shapes', metavar='FILE.yaml', type=Path,
                        help='collision shapes, see osc_shapes (those of the arm, if it is '
                        'shipped)')
    parser.add_argument('--listen-always', action='store_true',
                        help='subscribe to the reports of the controller also while no browser '
                        'is open (a benchmark uses it)')
    options, rest = parsed_node(parser, arguments)
    if not 0 < options.port < 65536:
        parser.error(f'--port {options.port}: must be 1 to 65535')
    return options, rest


def main(arguments: list[str] | None = None) -> None:
    """Run the node until SIGINT or SIGTERM."""
    options, rest = options_of(arguments)

    def node() -> Viewer:
        try:
            return Viewer(options)
        except ModuleNotFoundError as error:
            if error.name not in ('viser', 'trimesh'):
                raise
            raise OscError(f"the page needs {error.name}: {installation('viewer')}") from None

    run_and_exit(node, ['osc_viewer', *rest])


if __name__ == '__main__':
    main()
