# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Pictures of a simulated arm, and a window that shows it."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
import os
import struct
import threading
from typing import TYPE_CHECKING
import warnings
import zlib

import mujoco
import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.sim.mjcf.mjcf_description import FLOOR

if TYPE_CHECKING:
    from osc_ros.sim.plant import Plant

Array = NDArray[np.float64]
Image = NDArray[np.uint8]


class Viewer:
    """A window that shows a simulated arm: MuJoCo's passive viewer."""

    # A separate thread draws the state of the last `sync`. Input in the window does not move the
    # arm. InputError: a window is open already (a process has one at most), or there is no OpenGL.

    _open: Viewer | None = None

    def __init__(self, plant: Plant) -> None:
        if Viewer._open is not None:
            if Viewer._open.is_running():
                raise InputError('a window is open already; a process can have one')
            Viewer._open.close()  # the user has closed that window: join its threads
        self._plant = plant
        self._model, self._data = plant.scene()
        with _require_opengl('window', 'give it a display with OpenGL, or run headless'):
            from mujoco.glfw import GLContext
            import mujoco.viewer
            # fail here if no window can be opened, because launch_passive would wait forever
            GLContext(16, 16).free()
            others = set(threading.enumerate())
            self._window = mujoco.viewer.launch_passive(
                self._model, self._data, show_left_ui=False, show_right_ui=False)
        with self._window.lock():
            mujoco.mjv_defaultFreeCamera(self._model, self._window.cam)
        self._threads = [thread for thread in threading.enumerate()
                         if thread.daemon and thread not in others]
        Viewer._open = self
        atexit.register(self.close)

    def sync(self) -> None:
        """Show the present state of the arm; no effect if the window is closed."""
        if self.is_running():
            with self._window.lock():
                self._plant.show_in(self._model, self._data)
            self._window.sync()

    def is_running(self) -> bool:
        """Whether the window is open; the user can close it."""
        return bool(self._window.is_running())

    def close(self) -> None:
        """Close the window; may be called again."""
        self._window.close()
        for thread in self._threads:  # a thread that draws while Python exits would crash it
            thread.join(timeout=5.0)
        atexit.unregister(self.close)


def picture(model: mujoco.MjModel, data: mujoco.MjData, path: str | os.PathLike[str] | None,
            width: int, height: int) -> Image:
    """Return a picture (height, width, 3) RGB of a scene; write it as PNG to `path`, if given."""
    # InputError: OpenGL is not available, or width or height is not positive
    if width < 1 or height < 1:
        raise InputError(f'picture of {width} x {height}; must be 1 x 1 or more')
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    model.stat.extent /= min(1.0, width / height)  # fovy is the vertical field of view
    with _require_opengl('picture', 'set MUJOCO_GL=egl or MUJOCO_GL=osmesa and '
                         'install that library'), mujoco.Renderer(
                             model, height, width) as renderer:
        renderer.update_scene(data)
        image: Image = renderer.render()
    if path is not None:
        with open(path, 'wb') as file:
            file.write(_png(image))
    return image


@contextmanager
def _require_opengl(what: str, accepted: str) -> Iterator[None]:
    """Convert every error of missing OpenGL to one InputError."""
    try:
        with warnings.catch_warnings():
            # GLFW only warns of a missing display and continues.
            warnings.filterwarnings('error', category=UserWarning, module='glfw')
            yield
    except Exception as error:  # GLFW, EGL, OSMesa and MuJoCo raise many types
        reason = ' '.join(str(error).split())
        raise InputError(f'no {what} without OpenGL: {reason}; {accepted}') from error


def shape_names(model: mujoco.MjModel) -> dict[str, int]:
    """Map names in a scene to geom indices in the model, for all geoms but planes."""
    return {f'shape {k}': k for k in range(model.ngeom)
            if model.geom_type[k] != mujoco.mjtGeom.mjGEOM_PLANE}


def add_shapes(spec: mujoco.MjSpec, model: mujoco.MjModel) -> None:
    """Add the shapes of `shape_names` to the root link of a scene's specification."""
    for name, k in shape_names(model).items():
        # not at the origin: MuJoCo would make that pose constant, but it is set later
        spec.worldbody.first_body().add_geom(
            type=mujoco.mjtGeom(model.geom_type[k]), name=name, size=model.geom_size[k],
            rgba=model.geom_rgba[k], pos=[0.0, 0.0, -1.0], quat=[0.6, 0.8, 0.0, 0.0])


def arm_corners(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[Array, Array]:
    """Return lower and upper corner, (3,) each, of a box around the arm [m, scene frame]."""
    arm = slice(FLOOR + 1, None)
    R = data.geom_xmat[arm].reshape(-1, 3, 3)
    middle = data.geom_xpos[arm] + np.einsum('gij,gj->gi', R, model.geom_aabb[arm, :3])
    half = np.einsum('gij,gj->gi', np.abs(R), model.geom_aabb[arm, 3:])
    return (middle - half).min(axis=0), (middle + half).max(axis=0)


def _png(image: Image) -> bytes:
    """Encode (h, w, 3) RGB as a PNG file; each row is its difference from the row above."""
    height, width, _ = image.shape
    rows = np.diff(image.reshape(height, -1), axis=0, prepend=np.uint8(0))  # modulo 256
    filtered = np.insert(rows, 0, 2, axis=1)
    parts = {b'IHDR': struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0),
             b'IDAT': zlib.compress(filtered.tobytes(), 9), b'IEND': b''}
    return b'\x89PNG\r\n\x1a\n' + b''.join(
        struct.pack('>I', len(part)) + kind + part + struct.pack('>I', zlib.crc32(kind + part))
        for kind, part in parts.items())
