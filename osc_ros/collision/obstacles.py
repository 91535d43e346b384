# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Obstacles in the base frame: named solids that may move, in a record for kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.collision.distance import BOX, CYLINDER, HALF_SPACE, POINT, SEGMENT
from osc_ros.compile.record_type import Slot, Table
from osc_ros.dynamics.algebra.arrays import finite_array, float_array
from osc_ros.errors import InputError, require_type

Array = NDArray[np.float64]

MOST_OBSTACLES = 64  # of a law
LARGEST = 1e3  # largest edge, and distance from the base [m]
FASTEST = 20.0  # largest speed [m/s]
# Number of lengths that each kind has: radius; radius, distance of the centres of the ends; three
# edges; radius, length; none.
SHAPES = {'sphere': 1, 'capsule': 2, 'box': 3, 'cylinder': 2, 'half_space': 0}
ABSENT, PRESENT, LEAVING = range(3)  # states of a solid; LEAVING: removed, for a while
NEW = -math.inf  # stamp of an obstacle until the next tick
LONG_SINCE = -1e9  # time from which an obstacle counts that was there before a restart [s]

SOLIDS = Table(  # k solids
    'Solids',
    Slot('state', ('k',), '', 'ABSENT, PRESENT or LEAVING', int),
    Slot('kind', ('k',), '', 'kind of the solid, see `collision.distance`', int),
    Slot('size', ('k', 6), 'm', 'its size'),
    Slot('radius', ('k',), 'm', 'radius that is added to it'),
    Slot('axes', ('k', 9), '', 'rotation of its axes to the base frame'),
    Slot('place', ('k', 3), 'm', 'origin of its axes'),
    Slot('angular_velocity', ('k', 3), 'rad/s', 'angular velocity, base axes'),
    Slot('velocity', ('k', 3), 'm/s', 'velocity of the origin, base axes'),
    Slot('stamp', ('k',), 's', 'time for which the pose is given'),
    Slot('since', ('k',), 's', 'time from which it counts, or leaves'),
    Slot('has_changed', ('k',), '', 'whether it has changed since the last tick', bool),
    Slot('may_be_touched', ('k',), '', 'whether the tips may touch it', bool))


@dataclass(frozen=True, eq=False)
class Obstacle:
    """
    A solid from which the arm keeps clear.

    Attributes
    ----------
    shape : str
        'sphere', 'capsule', 'box', 'cylinder' or 'half_space' (z ≤ 0 of its axes is solid).
    size : tuple of float [m]
        Sphere: radius. Capsule: radius, and distance of the centres of the two ends. Box: edges
        along x, y, z. Cylinder: radius, length. Half-space: empty. Capsules and cylinders lie
        along their z axis.
    pose : (4, 4)
        Axes and centre in the base frame, or in that of `link`.
    velocity : (6,)
        Angular and linear velocity, base axes [rad/s, m/s].
    touch : bool
        Whether the tips may touch it: the shapes on the links of the tips ignore it.
    link : str
        Link of the arm that holds the solid; empty: none. A held solid moves with the link, and is
        not an obstacle: see `osc_ros.control.limits.attached`.

    Raises
    ------
    InputError
        Another shape, lengths that are not positive and finite, a pose that is not rigid; a link
        with a half-space or with a velocity.

    """

    shape: str
    size: tuple[float, ...]
    pose: Array
    velocity: Array = None  # type: ignore[assignment]
    touch: bool = False
    link: str = ''

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise InputError(f"obstacle of shape '{self.shape}': must be one of "
                             + ', '.join(SHAPES))
        size = np.array(self.size, dtype=np.float64).ravel()
        if len(size) != SHAPES[self.shape] or not ((size > 0.0) & (size <= LARGEST)).all():
            raise InputError(f'size {size.tolist()} of a {self.shape}: give '
                             f'{SHAPES[self.shape]} lengths, more than 0, at most {LARGEST:g}')
        T = finite_array('pose', self.pose, (4, 4)).copy()
        off = np.abs(T[:3, :3] @ T[:3, :3].T - np.eye(3)).max()
        if off > 1e-6 or np.linalg.det(T[:3, :3]) < 0.0 or np.abs(T[3] - (0, 0, 0, 1)).max() > 0:
            raise InputError(f'pose {T.tolist()} of an obstacle: give a rotation and a '
                             'position, with the last row 0 0 0 1')
        if np.abs(T[:3, 3]).max() > LARGEST:
            raise InputError(f'an obstacle at {T[:3, 3].tolist()}: must be at most '
                             f'{LARGEST:g} m from the base')
        V = np.zeros(6) if self.velocity is None else finite_array(
            'velocity', self.velocity, (6,)).copy()
        if np.linalg.norm(V[3:]) > FASTEST:
            raise InputError(f'velocity {V[3:].tolist()} of an obstacle: must be at most '
                             f'{FASTEST:g} m/s')
        if self.link and (self.shape == 'half_space' or V.any()):
            raise InputError(f"a {self.shape} with velocity {V.tolist()} on link '{self.link}': "
                             'give another shape than a half_space, without a velocity')
        for name, value in (('size', tuple(size.tolist())), ('pose', T), ('velocity', V)):
            object.__setattr__(self, name, value)

    @classmethod
    def at(cls, shape: str, size: ArrayLike, position: ArrayLike, touch: bool = False,
           link: str = '') -> Obstacle:
        """Return an obstacle at a position (3,) [m], axes along those of the base or the link."""
        T = np.eye(4)
        T[:3, 3] = finite_array('position', position, (3,))
        lengths = float_array('size', size, np.shape(size))
        return cls(shape, tuple(lengths.ravel().tolist()), T, touch=touch, link=link)

    def depth(self, point: Array) -> float:
        """Depth of a point (3,) in the base frame below the surface [m]; negative outside."""
        T, size = self.pose, self.size
        p = (np.asarray(point) - T[:3, 3]) @ T[:3, :3]
        if self.shape == 'half_space':
            return float(-p[2])
        if self.shape == 'box':
            gaps = np.abs(p) - 0.5 * np.array(size)
        elif self.shape == 'cylinder':
            gaps = np.array([math.hypot(p[0], p[1]) - size[0], abs(p[2]) - 0.5 * size[1]])
        else:
            half = 0.5 * size[1] if self.shape == 'capsule' else 0.0
            p[2] -= np.clip(p[2], -half, half)
            return size[0] - math.sqrt(p @ p)
        outside = np.maximum(gaps, 0.0)
        return -math.sqrt(outside @ outside) - min(float(gaps.max()), 0.0)

    @property
    def solid(self) -> tuple[int, list[float], float]:
        """Kind, size (6,) and added radius, see `osc_ros.collision.distance`."""
        size, kind = self.size, self.shape
        if kind == 'sphere':
            return POINT, [0.0] * 6, size[0]
        if kind == 'capsule':
            h = 0.5 * size[1]
            return SEGMENT, [0.0, 0.0, -h, 0.0, 0.0, h], size[0]
        if kind == 'box':
            return BOX, [*(0.5 * edge for edge in size), 0.0, 0.0, 0.0], 0.0
        if kind == 'cylinder':
            return CYLINDER, [size[0], 0.5 * size[1], 0.0, 0.0, 0.0, 0.0], 0.0
        return HALF_SPACE, [0.0] * 6, 0.0


def require_clear_base(name: str, obstacle: Obstacle, most: float = 0.01) -> None:
    """Raise InputError if an obstacle contains the base, more than `most` below its surface."""
    if (depth := obstacle.depth(np.zeros(3))) > most:
        raise InputError(f"obstacle '{name}' contains the base of the arm, {depth:.3g} m deep: "
                         f'must be at most {most:g} m')


def changed_obstacles(present: Mapping[str, Obstacle], changes: Mapping[str, Obstacle | None]
                      ) -> dict[str, Obstacle]:
    """Return the obstacles after changes; None removes one."""
    # InputError: more than MOST_OBSTACLES without a link, or a new one contains the base.
    for name, one in changes.items():
        require_type('name of an obstacle', name, str, "a str, such as 'box'")
        if one is not None:
            require_type(f"obstacle '{name}'", one, Obstacle, 'an osc_ros.Obstacle')
    after = {name: one for name, one in {**present, **changes}.items() if one is not None}
    if (count := sum(not one.link for one in after.values())) > MOST_OBSTACLES:
        raise InputError(f'{count} obstacles: must be at most {MOST_OBSTACLES}')
    for name, one in after.items():
        if name in changes and not one.link:
            require_clear_base(name, one)
    return after


def put_solid(solids: Any, k: int, obstacle: Obstacle) -> None:
    """Write an obstacle as solid k of a record SOLIDS, except its times."""
    solids.kind[k], solids.size[k], solids.radius[k] = obstacle.solid
    solids.axes[k], solids.place[k] = obstacle.pose[:3, :3].reshape(9), obstacle.pose[:3, 3]
    solids.angular_velocity[k], solids.velocity[k] = obstacle.velocity[:3], obstacle.velocity[3:]
    solids.state[k], solids.has_changed[k] = PRESENT, True
    solids.may_be_touched[k] = obstacle.touch


class Obstacles(Mapping[str, Obstacle]):
    """The obstacles of a law by name, at most MOST_OBSTACLES."""

    def __init__(self) -> None:
        # For each setup that computes torques, (k, MOST_OBSTACLES): the odometer before which its
        # shapes are not near each obstacle. While torques blend there are two, but only the first
        # one sees `has_changed`, so a change of an obstacle clears its column in both.
        self.grids: list[Array] = []
        self.record = SOLIDS.new(k=MOST_OBSTACLES)  # for kernels
        self._found: dict[str, tuple[int, Obstacle]] = {}

    def __getitem__(self, name: str) -> Obstacle:
        return self._found[name][1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __setitem__(self, name: str, obstacle: Obstacle) -> None:
        """Add an obstacle, or move the one of this name; InputError if there are too many."""
        require_type(f"obstacle '{name}'", obstacle, Obstacle, 'an osc_ros.Obstacle')
        if obstacle.link:
            raise InputError(f"obstacle '{name}' is on link '{obstacle.link}': give "
                             '`Law.obstacles` one without; for things that a link holds see '
                             '`osc_ros.control.limits.attached`')
        if name in self._found:
            k, before = self._found[name]
            is_new = before.shape != obstacle.shape or before.size != obstacle.size
        else:
            free = [*np.flatnonzero(self.record.state == ABSENT),
                    *np.flatnonzero(self.record.state == LEAVING)]
            if not free:
                raise InputError(f"obstacle '{name}': there are {MOST_OBSTACLES} already, the "
                                 'largest number: remove one first')
            k, is_new = int(free[0]), True
        put_solid(self.record, k, obstacle)
        self.record.stamp[k] = NEW
        for grid in self.grids:
            grid[:, k] = 0.0
        if is_new:
            self.record.since[k] = NEW
        self._found[name] = k, obstacle

    def __delitem__(self, name: str) -> None:
        k, _ = self._found.pop(name)
        self.record.state[k], self.record.since[k] = LEAVING, NEW

    def update(self, changes: Mapping[str, Obstacle | None], clears: bool = False,
               since: float = NEW) -> None:
        """Add or move the named obstacles, and remove those that are None; all of them or none."""
        # With `clears`, all others are removed, too. New ones come into force at the time `since`
        # [s], by default at the next tick. For errors see `changed_obstacles`.
        after, before = changed_obstacles({} if clears else self, changes), set(self._found)
        for name in before - after.keys():
            del self[name]
        for name in [name for name in after if name in changes]:
            self[name] = after[name]
            if name not in before:
                self.record.since[self._found[name][0]] = since

    def note_restart(self) -> None:
        """Let the obstacles that count already count at all times: the clock may be set back."""
        self.record.since[self.record.since > NEW] = LONG_SINCE

    def name_of(self, k: int) -> str:
        """Name of the obstacle whose solid has the index k."""
        return next((name for name, (at, _) in self._found.items() if at == k), '')

    @property
    def named(self) -> dict[str, tuple[int, Obstacle]]:
        """Index of the solid and obstacle by name, for a checkpoint."""
        return dict(self._found)

    @named.setter
    def named(self, found: dict[str, tuple[int, Obstacle]]) -> None:
        self._found = dict(found)
        for k, obstacle in self._found.values():
            if self.record.state[k] == ABSENT:  # of a law without a clearance
                put_solid(self.record, k, obstacle)
                self.record.stamp[k] = self.record.since[k] = NEW
