# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Settings with which the arm keeps clear of itself, of obstacles and fences; and the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.collision.distance import HALF_SPACE
from osc_ros.collision.link_shapes import LinkShape, ShapeModel
from osc_ros.collision.obstacles import Obstacles, PRESENT, SOLIDS
from osc_ros.control.limits.near_rows import CLEARANCE
from osc_ros.dynamics.algebra.arrays import finite_array, float_array
from osc_ros.dynamics.algebra.kinematics import are_adjacent, link_frame, placement
from osc_ros.errors import InputError, require_type
from osc_ros.model.assembly import axis_on_z
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

Array = NDArray[np.float64]

LARGEST_MARGIN = 1.0  # [m]
BASE_OUTSIDE = 0.1  # largest distance of a joint at the base beyond a plane of the fence [m]
UNUSED = CLEARANCE.new()
BRAKING = 0.5  # share of the decelerations of the joints with which the arm stops at the margin


class Near(NamedTuple):
    """A pair of which the distance bounds the motion."""

    link: str  # or the name of a thing that it holds
    other: str  # another link or thing, the name of an obstacle, or 'fence'
    distance: float  # between the surfaces [m]
    approach: float  # speed at which the distance shrinks [m/s]
    holds: bool  # whether it changed the torques of the last tick


@dataclass(frozen=True, eq=False)
class Clearance(Group):
    """
    Shapes of an arm that keep clear of each other, of the obstacles of the law, and of a fence.

    Attributes
    ----------
    shapes : tuple of LinkShape
        Capsules of the links; `Clearance.of` takes those of a `ShapeModel`.
        `osc_ros.control.limits.attached` adds the capsules of things that links hold.
    ignored : tuple of (str, str)
        Pairs of links or things that are not compared, in addition to pairs on one body and to
        links of bodies that one joint connects.
    fence : (k, 4)
        Planes, base axes: links stay where x · n ≥ d; each row has n and d [m].
    touching : tuple of str
        Links that may touch obstacles with `touch`; default: those on the body of the tip.

    Raises
    ------
    InputError
        A margin that is not positive, a plane without a direction, numbers that are not finite.

    """

    shapes: tuple[LinkShape, ...]
    ignored: tuple[tuple[str, str], ...] = ()
    margin: float = setting(0.02, 'Distance at which the approach ends [m]', name='', lower=1e-9,
                            upper=LARGEST_MARGIN)
    fence: Array = None  # type: ignore[assignment]
    touching: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for shape in self.shapes:
            require_type('an entry of shapes', shape, LinkShape, 'a LinkShape')
        object.__setattr__(self, 'shapes', tuple(self.shapes))
        object.__setattr__(self, 'ignored', tuple((str(a), str(b)) for a, b in self.ignored))
        object.__setattr__(self, 'touching', tuple(self.touching))
        given = np.zeros((0, 4)) if self.fence is None else self.fence
        planes = float_array('fence', given, np.shape(given))
        if planes.size % 4:
            raise InputError(f'fence of {planes.size} numbers: give rows of four')
        planes = planes.reshape(-1, 4)
        lengths = np.linalg.norm(planes[:, :3], axis=1)
        if not (np.isfinite(planes).all() and (lengths > 1e-6).all()):
            raise InputError(f'fence {planes.tolist()}: give rows of four finite numbers, '
                             'of which the first three are a direction')
        object.__setattr__(self, 'fence', planes / lengths[:, None])

    @classmethod
    def of(cls, model: ShapeModel, margin: float = 0.02, fence: ArrayLike | None = None,
           touching: tuple[str, ...] = ()) -> Clearance:
        """Return a clearance with the shapes and the ignored pairs of a model."""
        pairs = sorted(tuple(sorted(pair)) for pair in model.ignored)
        return cls(model.shapes, tuple((pair[0], pair[-1]) for pair in pairs), margin,
                   fence, touching)  # type: ignore[arg-type]


def fence_box(lower: ArrayLike, upper: ArrayLike) -> Array:
    """Return the planes (6, 4) of `Clearance.fence` for a box from lower to upper (3,) [m]."""
    low, high = finite_array('lower', lower, (3,)), finite_array('upper', upper, (3,))
    if not (low < high).all():
        raise InputError(f'fence from {low.tolist()} to {high.tolist()}: must be lower < '
                         'upper')
    return np.vstack([np.column_stack([np.eye(3), low]), np.column_stack([-np.eye(3), -high])])


def _name(shape: LinkShape) -> str:
    """Name of a link, or of the thing on it that has the shape."""
    return shape.attached or shape.link


def _near_pairs(robot: Robot, clearance: Clearance) -> Iterator[tuple[int, int]]:
    """Yield the pairs of shapes that are compared."""
    bodies = [link_frame(robot, shape.link)[0] for shape in clearance.shapes]
    ignored = {frozenset(pair) for pair in clearance.ignored}
    names = list(map(_name, clearance.shapes))
    for i, j in combinations(range(len(bodies)), 2):
        one, other = clearance.shapes[i], clearance.shapes[j]
        if bodies[i] == bodies[j] or frozenset((names[i], names[j])) in ignored or (
                not (one.attached or other.attached)
                and are_adjacent(robot, one.link, other.link)):
            continue
        yield (i, j) if bodies[i] >= 0 else (j, i)


def _require_first_joints_within(robot: Robot, fence: Array) -> None:
    """Raise InputError if a plane of a fence excludes the place of a joint at the base."""
    at = placement(robot, robot.neutral)
    for body in np.flatnonzero(robot.parent < 0):
        for *normal, offset in fence.tolist():
            if (room := float(at.p[body] @ np.array(normal)) - offset) < -BASE_OUTSIDE:
                raise InputError(
                    f"the fence x · {np.round(normal, 3).tolist()} ≥ {offset:g} m excludes the "
                    f"joint '{robot.joint_names[body]}', which is {-room:.3g} m beyond it and "
                    f'cannot leave: give {BASE_OUTSIDE:g} m at most')


class KeepingClear:
    """Memory of a clearance (None: the arm does not keep clear), and report of the last tick."""

    def __init__(self, robot: Robot, clearance: Clearance | None, obstacles: Obstacles) -> None:
        # record: a CLEARANCE; InputError: a link of a shape that the robot does not have
        self.settings, self.obstacles, self.record = clearance, obstacles, UNUSED
        self._shapes: tuple[LinkShape, ...] = ()
        if clearance is not None:
            self._build(robot, clearance)

    @property
    def state_arrays(self) -> tuple[NDArray[Any], ...]:
        """State of clearance and obstacles; none without settings."""
        return () if self.settings is None else (self.record.slots, self.obstacles.record.slots)

    def _build(self, robot: Robot, clearance: Clearance) -> None:
        pairs = list(_near_pairs(robot, clearance))
        S, F = len(clearance.shapes), len(clearance.fence)
        moving = [i for i, shape in enumerate(clearance.shapes)
                  if link_frame(robot, shape.link)[0] >= 0]
        pairs += [(i, S + k) for k in range(F) for i in moving]
        self.record = c = CLEARANCE.new(n=robot.n, k=S, m=F)
        c.margin, c.share, c.nearest, c.pair_count = clearance.margin, BRAKING, np.inf, len(pairs)
        tip = robot.frames[robot.tip][0]
        for i, shape in enumerate(clearance.shapes):
            body, T = link_frame(robot, shape.link)
            c.capsule_body[i], c.capsule_radius[i] = body, shape.radius
            c.capsule_ends[i] = (shape.ends @ T[:3, :3].T + T[:3, 3]).ravel()
            c.may_touch[i] = shape.link in clearance.touching if clearance.touching else (
                body == tip)
        _require_first_joints_within(robot, clearance.fence)
        c.obstacles, c.fence = self.obstacles.record, SOLIDS.new(k=F)
        c.fence.state[:], c.fence.kind[:] = PRESENT, HALF_SPACE
        for k, (*normal, offset) in enumerate(clearance.fence.tolist()):
            c.fence.axes[k] = axis_on_z(np.array(normal))[:3, :3].ravel()
            c.fence.place[k] = offset * np.array(normal)
        if pairs:
            c.pair_first[:len(pairs)], c.pair_second[:len(pairs)] = zip(*pairs)
        self._shapes = clearance.shapes

    def forget(self) -> None:
        """Clear the report before a first tick, which compares all pairs."""
        if (c := self.record) is not UNUSED:
            c.count, c.nearest = 0, np.inf
            grids = [one for one in self.obstacles.grids if one is not c.obstacle_due]
            self.obstacles.grids = [*grids[-1:], c.obstacle_due]
            self.obstacles.note_restart()

    @property
    def nearest(self) -> float:
        """Smallest distance of the pairs that are near [m]; infinite if none is."""
        return np.inf if self.settings is None else float(self.record.nearest)

    @property
    def nearest_text(self) -> str:
        """Which pair is the nearest one, and how near."""
        one = next(iter(self.near(np.zeros(0))), None)
        return '' if one is None or self.settings is None else (
            f"'{one.link}' and '{one.other}' are {1e3 * one.distance:.1f} mm apart: the margin is "
            f'{1e3 * self.settings.margin:g} mm')

    def near(self, held: NDArray[Any]) -> list[Near]:
        """Near pairs, nearest first; `held` (k,): numbers of the witness points at a bound."""
        found: list[Near] = []
        S, F = self.record.k, self.record.m
        c = self.record
        for k in range(c.count):
            second = int(c.near_second[k])
            other = (_name(self._shapes[second]) if second < S
                     else 'fence' if second < S + F
                     else self.obstacles.name_of(second - S - F))
            if other:  # else an obstacle that was removed
                found.append(Near(
                    _name(self._shapes[c.near_first[k]]), other, float(c.near_distance[k]),
                    float(c.near_approach[k]),
                    bool(c.near_number[k] in held)))
        return sorted(found, key=lambda one: one.distance)
