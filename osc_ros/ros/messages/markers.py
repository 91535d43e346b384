# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Markers of an arm for RViz and Foxglove: set-point, error, forces, mobility, joint limits."""

from __future__ import annotations

from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Vector3
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from std_msgs.msg import ColorRGBA

from osc_ros.compile.compiled import on_demand
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.model.robot import Robot

try:
    from visualization_msgs.msg import Marker, MarkerArray
except ImportError:  # a separate package
    Marker = MarkerArray = None

Array = NDArray[np.float64]

TARGET, ERROR, FORCE, EXTERNAL, MOBILITY, LIMITS, TEXTS = NAMESPACES = (
    'target', 'error', 'force', 'external_force', 'mobility', 'limits', 'texts')
AXIS = 0.1  # length of the axes of the target [m]
LEAST_ERROR = 1e-3  # shorter error vectors are not drawn [m]
FORCE_SCALE = 0.005  # length of an arrow per force [m/N]
LEAST_FORCE = 0.5  # smaller forces are not drawn [N]
MOBILITY_SCALE = 0.1  # length of a semi-axis of the ellipsoid per mobility [m kg]
LONGEST = 0.3  # longest semi-axis that is drawn [m]
NEAR = 0.05  # fraction of a joint's range, at each end, that counts as near a limit
NEAR_TURN = 0.3  # largest distance from a limit that counts as near [rad, m]
LIFETIME = 1.0  # a marker that is not sent again vanishes after this time [s]
RED, GREEN, BLUE = (0.86, 0.2, 0.16, 1.0), (0.16, 0.63, 0.35, 1.0), (0.16, 0.43, 0.86, 1.0)
ORANGE, VIOLET, WHITE = (0.9, 0.47, 0.08, 1.0), (0.59, 0.35, 0.86, 0.4), (1.0, 1.0, 1.0, 1.0)


class Tick(NamedTuple):
    """Data of one control period for the markers, in the base frame, [angular; linear]."""

    time: Time  # stamp of the state
    q: Array  # (n,)
    pose: Array  # (4, 4) of the first task's link
    error: Array  # (6,) from this link to its set-point
    F: Array  # (6,) force of the first task
    external: Array | None  # (6,) estimated external wrench


class MarkerMessages:
    """Markers of one robot, from a copy of its dynamics; `damping` is that of the first task."""

    def __init__(self, robot: Robot, damping: SingularityDamping) -> None:
        self.robot, self._rest = robot, np.zeros(robot.n)
        self._damping = SingularityDamping(damping.length, damping.low, damping.high)
        with on_demand():
            self._space = OperationalSpace(robot)
        self._shown: set[tuple[str, int]] = set()

    def message(self, tick: Tick) -> Any:
        """Return a MarkerArray, which also deletes earlier markers that are no longer valid."""
        found = [self._target(tick), *self._arrows(tick), *self._mobility(tick),
                 *self._limits(tick)]
        keys = {(marker.ns, marker.id) for marker in found}
        for ns, number in self._shown - keys:
            marker = self._marker(tick, ns, Marker.CUBE, WHITE, number)
            marker.action = Marker.DELETE
            found.append(marker)
        self._shown = keys
        return MarkerArray(markers=found)

    def _marker(self, tick: Tick, ns: str, kind: int, color: tuple[float, ...], number: int = 0
                ) -> Any:
        return marker_of(self.robot.base, tick.time, ns, kind, color, number)

    def _target(self, tick: Tick) -> Any:
        """Return the axes of the set-point: x red, y green, z blue."""
        marker = self._marker(tick, TARGET, Marker.LINE_LIST, WHITE)
        marker.scale.x = 0.008
        origin = tick.pose[:3, 3] + tick.error[3:]
        R = Rotation.from_rotvec(tick.error[:3]).as_matrix() @ tick.pose[:3, :3]
        for axis, color in zip(R.T, (RED, GREEN, BLUE)):
            marker.points += [point(origin), point(origin + AXIS * axis)]
            marker.colors += [_color(color)] * 2
        return marker

    def _arrows(self, tick: Tick) -> list[Any]:
        """Return arrows of the position error, of the task's force, and of the external force."""
        place = tick.pose[:3, 3]
        external = np.zeros(6) if tick.external is None else tick.external
        found = []
        for ns, vector, least, color in (
                (ERROR, tick.error[3:], LEAST_ERROR, RED),
                (FORCE, FORCE_SCALE * tick.F[3:], FORCE_SCALE * LEAST_FORCE, BLUE),
                (EXTERNAL, FORCE_SCALE * external[3:], FORCE_SCALE * LEAST_FORCE, ORANGE)):
            if np.linalg.norm(vector) > least:
                marker = self._marker(tick, ns, Marker.ARROW, color)
                marker.points = [point(place), point(place + vector)]
                marker.scale = Vector3(x=0.008, y=0.02, z=0.0)  # diameters of shaft and head
                found.append(marker)
        return found

    def _mobility(self, tick: Tick) -> list[Any]:
        """Return the ellipsoid of the link's translational Λ⁻¹, and a text near a singularity."""
        found = self._space.outward(tick.q, self._rest, posture_acceleration=self._rest)
        Lambda_inv = found.Lambda_inv[:6, :6]
        values, axes = np.linalg.eigh(Lambda_inv[3:, 3:])
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        marker = self._marker(tick, MOBILITY, Marker.SPHERE, VIOLET)
        marker.pose.position = point(tick.pose[:3, 3])
        r = marker.pose.orientation
        r.x, r.y, r.z, r.w = Rotation.from_matrix(axes).as_quat().tolist()
        x, y, z = (2.0 * np.clip(MOBILITY_SCALE * values, 1e-3, LONGEST)).tolist()
        marker.scale = Vector3(x=x, y=y, z=z)
        self._damping.conditioning(self._space.jacobian()[:6])
        # of n < 6 joints, 6 - n singular values are always 0; ignore them
        ratio = float(np.sort(self._damping.ratios)[max(0, 6 - self.robot.n)])
        if ratio >= self._damping.high:
            return [marker]
        return [marker, self._text(tick, 1000, tick.pose[:3, 3], f'singular posture: {ratio:.3f}')]

    def _limits(self, tick: Tick) -> list[Any]:
        """Return a sphere and a text at each joint that is near an end of its range."""
        robot, at, found = self.robot, placement(self.robot, tick.q), []
        for body, (name, k) in enumerate(zip(robot.joints, robot.v_index)):
            low, high = robot.position_limits[k]
            left = min(tick.q[k] - low, high - tick.q[k])
            if not left < min(NEAR * (high - low), NEAR_TURN):
                continue
            marker = self._marker(tick, LIMITS, Marker.SPHERE, RED, int(k))
            marker.pose.position = point(at.p[body])
            marker.scale = Vector3(x=0.08, y=0.08, z=0.08)
            found += [marker, self._text(tick, int(k), at.p[body],
                                         f'{name}: {max(left, 0.0):.2f} to its limit')]
        return found

    def _text(self, tick: Tick, number: int, place: Array, text: str) -> Any:
        marker = self._marker(tick, TEXTS, Marker.TEXT_VIEW_FACING, WHITE, number)
        marker.pose.position = point(place + [0.0, 0.0, 0.1])
        marker.scale.z, marker.text = 0.05, text
        return marker


def marker_of(frame: str, time: Time, ns: str, kind: int, color: tuple[float, ...],
              number: int = 0) -> Any:
    """Return a marker at the origin of a frame; it vanishes after LIFETIME."""
    marker = Marker(ns=ns, id=number, type=kind, action=Marker.ADD, color=_color(color))
    marker.header.frame_id, marker.header.stamp = frame, time
    marker.pose.orientation.w = 1.0
    marker.lifetime.sec, marker.lifetime.nanosec = divmod(round(1e9 * LIFETIME), 10**9)
    return marker


def point(p: Array) -> Point:
    x, y, z = p.tolist()
    return Point(x=x, y=y, z=z)


def _color(rgba: tuple[float, ...]) -> ColorRGBA:
    r, g, b, a = rgba
    return ColorRGBA(r=r, g=g, b=b, a=a)
