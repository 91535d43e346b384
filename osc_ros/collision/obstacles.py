# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Obstacles in the base frame: named solids that may move, in one flat array for kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.collision.distance import BOX, CYLINDER, HALF_SPACE, POINT, SEGMENT
from osc_ros.dynamics.algebra.arrays import finite_array, float_array
from osc_ros.errors import InputError, require_type

Array = NDArray[np.float64]

MOST_OBSTACLES = 32  # of a law
LARGEST = 1e3  # largest edge, and distance from the base [m]
FASTEST = 20.0  # largest speed [m/s]
# Number of lengths that each kind has: radius; radius, distance of the centres of the ends; three
# edges; radius, length; none.
SHAPES = {'sphere': 1, 'capsule': 2, 'box': 3, 'cylinder': 2, 'half_space': 0}
# Columns of the array, a row for each obstacle: 1 if there is one, LEAVING for a while after it
# was removed; kind and size of the solid, see `distance`; radius that is added to it; rotation and
# position of its axes in the base frame; angular velocity, velocity; time for which the pose is
# given; time from which it counts or leaves; 1 if the obstacle has changed since the last tick; 1
# if the tips may touch it.
(USED, KIND, SIZE, RADIUS, AXES, PLACE, SPIN, SPEED, STAMP, SINCE, CHANGED, TOUCH,
 SOLID_WIDTH) = 0, 1, 2, 8, 9, 18, 21, 24, 27, 28, 29, 30, 31
LEAVING = 2.0
NEW = -math.inf  # stamp of an obstacle until the next tick
LONG_SINCE = -1e9  # time from which an obstacle counts that was there before a restart [s]


@dataclass(frozen=True, eq=False)
class Obstacle:
    """
    A solid from which the arm keeps clear.

    Attributes
    ----------
    shape : str
        'sphere', 'capsule', 'box', 'cylinder' or 'half_space' (z ≤ 0 of its axes is solid).
    size : tuple of float [m]
        Radius; radius and distance of the centres of the two ends; edges along x, y, z; radius and
        length; nothing. Capsules and cylinders lie along their z axis.
    pose : (4, 4)
        Axes and centre in the base frame, or in that of `link`.
    velocity : (6,)
        Angular and linear velocity, base axes [rad/s, m/s].
    touch : bool
        Whether the tips may touch it: the shapes on the links of the tips ignore it.
    link : str
        Link of the arm that holds the solid, which is then no obstacle but moves with the link,
        see `osc_ros.control.limits.attached`; empty: none.

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
            return size[0] - float(np.linalg.norm(p))
        return -float(np.linalg.norm(np.maximum(gaps, 0.0)) + min(gaps.max(), 0.0))

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
    """
    Return the obstacles after changes; None removes one.

    Raises
    ------
    InputError
        There are more than MOST_OBSTACLES without a link, or a new one contains the base.

    """
    for name, one in changes.items():
        if one is not None:
            require_type(f"obstacle '{name}'", one, Obstacle, 'an osc_ros.Obstacle')
    after = {name: one for name, one in {**present, **changes}.items() if one is not None}
    if (count := sum(not one.link for one in after.values())) > MOST_OBSTACLES:
        raise InputError(f'{count} obstacles: must be at most {MOST_OBSTACLES}')
    for name, one in after.items():
        if name in changes and not one.link:
            require_clear_base(name, one)
    return after


def put_solid(row: Array, obstacle: Obstacle) -> None:
    """Write an obstacle to its row (SOLID_WIDTH,), except STAMP and SINCE."""
    kind, size, radius = obstacle.solid
    row[USED], row[KIND], row[SIZE:RADIUS], row[RADIUS] = 1.0, kind, size, radius
    row[AXES:PLACE], row[PLACE:SPIN] = obstacle.pose[:3, :3].ravel(), obstacle.pose[:3, 3]
    row[SPIN:STAMP] = obstacle.velocity
    row[CHANGED], row[TOUCH] = 1.0, obstacle.touch


class Obstacles(Mapping[str, Obstacle]):
    """
    The obstacles of a law, at most MOST_OBSTACLES, by name.

    Attributes
    ----------
    record : (MOST_OBSTACLES · SOLID_WIDTH,)
        For kernels, see the columns in this module.
    grids : list of (k, MOST_OBSTACLES)
        For each setup whose torques are computed, the odometer before which its shapes are not
        near each obstacle. While torques blend there are two, but only the first one that is
        computed sees CHANGED, so a change of an obstacle clears its column in both.

    """

    def __init__(self) -> None:
        self.grids: list[Array] = []
        self.record = np.zeros(MOST_OBSTACLES * SOLID_WIDTH)
        self._rows = self.record.reshape(-1, SOLID_WIDTH)
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
            free = [*np.flatnonzero(self._rows[:, USED] == 0.0),
                    *np.flatnonzero(self._rows[:, USED] == LEAVING)]
            if not free:
                raise InputError(f"obstacle '{name}': there are {MOST_OBSTACLES} already, the "
                                 'largest number: remove one first')
            k, is_new = int(free[0]), True
        put_solid(self._rows[k], obstacle)
        self._rows[k, STAMP] = NEW
        for grid in self.grids:
            grid[:, k] = 0.0
        if is_new:
            self._rows[k, SINCE] = NEW
        self._found[name] = k, obstacle

    def __delitem__(self, name: str) -> None:
        k, _ = self._found.pop(name)
        self._rows[k, USED], self._rows[k, SINCE] = LEAVING, NEW

    def update(self, changes: Mapping[str, Obstacle | None], clears: bool = False,
               since: float = NEW) -> None:
        """
        Add or move the named obstacles, and remove those that are None; all of them or none.

        With `clears`, the obstacles that are not named are removed, too. New ones come into force
        from the time `since` on [s], by default from the next tick on. For errors see
        `changed_obstacles`.

        """
        after, before = changed_obstacles({} if clears else self, changes), set(self._found)
        for name in before - after.keys():
            del self[name]
        for name in [name for name in after if name in changes]:
            self[name] = after[name]
            if name not in before:
                self._rows[self._found[name][0], SINCE] = since

    def note_restart(self) -> None:
        """Let the obstacles that count already count at all times: the clock may be set back."""
        self._rows[self._rows[:, SINCE] > NEW, SINCE] = LONG_SINCE

    def name_of(self, k: int) -> str:
        """Name of the obstacle in row k of the record."""
        return next((name for name, (at, _) in self._found.items() if at == k), '')

    @property
    def named(self) -> dict[str, tuple[int, Obstacle]]:
        """Row and obstacle by name, for a checkpoint."""
        return dict(self._found)

    @named.setter
    def named(self, found: dict[str, tuple[int, Obstacle]]) -> None:
        self._found = dict(found)
        for k, obstacle in self._found.values():
            if self._rows[k, USED] == 0.0:  # of a law without a clearance
                put_solid(self._rows[k], obstacle)
                self._rows[k, [STAMP, SINCE]] = NEW
