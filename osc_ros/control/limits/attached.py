# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Things that links hold, such as what a gripper has grasped: shapes of a clearance.

A thing moves with its link. It keeps clear of all links on other bodies, also of those on the next
body, of other things, of the obstacles, and of the fence. Links whose shapes overlap with those of
the thing at the moment of grasping are not compared with it, as long as it is held as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.enclosing import MOST
from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.near_pairs import segment_distances
from osc_ros.collision.obstacles import Obstacle
from osc_ros.collision.urdf_shapes import enclosed
from osc_ros.control.limits.clearance import Clearance
from osc_ros.dynamics.algebra.kinematics import link_frame, link_pose
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.model.visuals import Visual

Array = NDArray[np.float64]

MOST_THINGS, MOST_SHAPES = 8, 32  # of a clearance: things, and shapes of all things together


@lru_cache(maxsize=64)
def _capsules(kind: str, size: tuple[float, ...]) -> tuple[LinkShape, ...]:
    """Return capsules around a solid, in its frame."""
    visual = Visual('thing', np.eye(4), kind, size, '', (1.0,) * 4)
    return enclosed(visual, Path(), np.zeros((1, 3)), MOST).shapes


def require_moving(name: str, link: str, robot: Robot) -> None:
    """Raise InputError if the robot has no such link, or if no joint moves it."""
    body, _ = link_frame(robot, link)
    if body < 0:
        raise InputError(f"thing '{name}' on link '{link}', which does not move: give a "
                         'link that a joint moves; or, without a link, an obstacle in '
                         f"'{robot.base}'")


def thing_shapes(name: str, thing: Obstacle, robot: Robot) -> tuple[LinkShape, ...]:
    """Capsules around a solid with a link, in the link's frame; slow. Errors: `require_moving`."""
    require_moving(name, thing.link, robot)
    T = thing.pose
    return tuple(LinkShape(thing.link, one.ends @ T[:3, :3].T + T[:3, 3], one.radius, name)
                 for one in _capsules(thing.shape, thing.size))


def with_attached(clearance: Clearance, shapes: Sequence[LinkShape], robot: Robot, q: Array,
                  before: Clearance | None = None) -> Clearance:
    """Return the clearance with these shapes of things (see `thing_shapes`) instead of its own."""
    # New things are grasped at q (nq,). A thing of which `before`, the clearance in force (default
    # `clearance`), has the same objects stays as grasped. InputError: more than MOST_THINGS things
    # or MOST_SHAPES shapes, or a thing without a name of its own.
    before, things = before or clearance, dict.fromkeys(one.attached for one in shapes)
    if len(things) > MOST_THINGS or len(shapes) > MOST_SHAPES:
        raise InputError(f'{len(things)} things with {len(shapes)} shapes on links: give '
                         f'at most {MOST_THINGS}, with {MOST_SHAPES} shapes')
    for name in things:
        if not name or name in robot.frames:
            raise InputError(f"a thing with the name '{name}': give one that no link has")
    known = {one.attached for one in before.shapes if one.attached}
    same = {name for name in things
            if _named(name, before.shapes) == _named(name, shapes)}  # the same objects
    pairs = [*clearance.ignored, *(pair for pair in before.ignored if not same.isdisjoint(pair))]
    ignored = [pair for pair in pairs if (known - same).isdisjoint(pair)]
    kept = tuple(one for one in clearance.shapes if not one.attached)
    for name in things:
        new = _named(name, shapes)
        if name not in same:
            ignored += [(name, other) for other in _overlapping(robot, q, new, kept)]
        kept += new
    return replace(clearance, shapes=kept, ignored=tuple(dict.fromkeys(ignored)))


def _named(name: str, shapes: Iterable[LinkShape]) -> tuple[LinkShape, ...]:
    return tuple(one for one in shapes if one.attached == name)


def _overlapping(robot: Robot, q: Array, thing: Sequence[LinkShape], others: Sequence[LinkShape]
                 ) -> set[str]:
    """Return the names of links and things on other bodies that overlap with a thing at q."""
    poses = {one.link: link_pose(robot, q, one.link) for one in (*thing, *others)}

    def ends(shapes: Sequence[LinkShape]) -> Array:
        return np.array([one.ends @ poses[one.link][:3, :3].T + poses[one.link][:3, 3]
                         for one in shapes]).reshape(-1, 2, 3)

    gaps = segment_distances(ends(thing)[:, None], ends(others)[None])
    return {b.attached or b.link for a, row in zip(thing, gaps) for b, gap in zip(others, row)
            if gap < a.radius + b.radius
            and robot.frames[a.link][0] != robot.frames[b.link][0]}
