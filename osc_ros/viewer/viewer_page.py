# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The web server of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
import socket

import viser

from osc_ros.collision.link_shapes import ShapeModel
from osc_ros.errors import InputError, OscError
from osc_ros.viewer.access import Access, guarded
from osc_ros.viewer.joints import Joints
from osc_ros.viewer.panel import Obstacles, Panel, Tip
from osc_ros.viewer.scene.actions import Actions
from osc_ros.viewer.scene.reading import Reading
from osc_ros.viewer.scene.scene import Scene
from osc_ros.viewer.sliders import Sliders
from osc_ros.viewer.viewer_plots import Plots

WIDTH = 320  # width of the plots [px]
CAMERA, LOOK_AT = (1.35, 1.05, 0.8), (0.2, 0.0, 0.42)  # for an arm of about 1 m [m]
FIELD = 0.8  # vertical field of view [rad]


class PageError(OscError, RuntimeError):
    """The page cannot be served."""


class Page:
    """The page of one controller, for any number of browsers; PageError if it cannot be bound."""

    def __init__(self, host: str, port: int, actions: Actions,
                 file_of: Callable[[str], Path | None], origins: Sequence[str] = (),
                 model: ShapeModel | None = None) -> None:
        require_address(host)
        access = Access(host, origins)
        try:
            with redirect_stdout(StringIO()), guarded(access):  # hide viser's banner
                self._server = viser.ViserServer(host=host, port=port, label='osc_ros',
                                                 verbose=False)
        except InputError:
            self._server.stop()
            raise
        self.port: int = self._server.get_port()  # `port`, or the next free one
        # part of the address after the port; empty if the page is for this machine only
        self.query = f'/?token={access.token}' if access.token else ''
        self._server.gui.configure_theme(control_width='large', show_logo=False,
                                         show_share_button=False, brand_color=(43, 108, 176))
        self._server.gui.main_panel.dock_right()
        self._server.initial_camera.position = CAMERA
        self._server.initial_camera.look_at = LOOK_AT
        self._server.initial_camera.fov = FIELD
        self._server.scene.configure_environment_map('studio', environment_intensity=0.25)
        self._actions, self._had_clients = actions, False
        self._scene = Scene(self._server, actions, file_of, model)
        # the page shows these parts from top to bottom in the order in which they are created
        self._parts = (Panel(self._server, actions), Sliders(self._server, actions),
                       Joints(self._server, actions), Tip(self._server),
                       Obstacles(self._server, actions, self._scene.collision_shapes.show))
        curves = self._server.gui.add_panel()
        with curves.add_tab('Plots, last 10 s'):
            self._plots = Plots(self._server)
        curves.dock_left()
        curves.set_width(WIDTH)

    @property
    def browsers(self) -> int:
        """Number of browsers that show the page."""
        return len(self._server.get_clients())

    @property
    def missing_meshes(self) -> list[str]:
        """Meshes of the robot description that could not be loaded."""
        return self._scene.missing

    def update(self, reading: Reading) -> None:
        """Show the latest data of the controller in all browsers."""
        has_clients = self.browsers > 0
        if self._had_clients and not has_clients:
            self._actions.push(None)  # the browser that pushed is gone
        self._had_clients = has_clients
        self._scene.update(reading)
        for part in self._parts:
            part.update(reading)
        self._plots.update(reading)

    def close(self) -> None:
        """Stop the server."""
        self._server.stop()


def require_address(host: str) -> None:
    """Raise PageError unless a server can be bound to this address of this machine."""
    try:
        family = socket.getaddrinfo(host, None)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((host, 0))
    except OSError as error:
        raise PageError(f"host '{host}': {error}: give an address of this machine, such "
                        'as 127.0.0.1, or 0.0.0.0 for all of them') from None

