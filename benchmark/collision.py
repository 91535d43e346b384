# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Time of a tick that keeps clear of obstacles: without near pairs, with 20, and at bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
import itertools

import numpy as np
from numpy.typing import NDArray

from osc_ros import Clearance, Law, Obstacle, Settings, shipped_shapes
from osc_ros.dynamics.algebra.kinematics import link_frame, placement
from osc_ros.model.robot import Robot
from panda import panda, PERIOD
from race import Contender, race, Row, State

Array = NDArray[np.float64]

POSTURE = np.array([0.0, -0.3, 0.0, -1.8, 0.0, 2.2, 0.785])  # [rad]
STATES, SPEED = 32, 0.03  # states around POSTURE; standard deviation of the joint rates [rad/s]
RADIUS = 0.02  # of the obstacles [m]
NEAR = 20  # pairs
NONE, CLEAR = 'without a clearance', '… with a clearance, no pair near'
SHIPPED = '… with the shipped pairs of links, of which some are near in every posture'
SOME, HELD = f'… {NEAR} near pairs', '… 16 rows, obstacles within the margin'


@dataclass(frozen=True)
class ClearRow:
    """
    A tick.

    Attributes
    ----------
    time : Row
    near, holding : float
        Medians over the states: rows of near pairs; rows at a bound.

    """

    time: Row
    near: float
    holding: float


def capsules(robot: Robot, clearance: Clearance, q: Array) -> tuple[Array, Array]:
    """Return the ends (k, 2, 3) of the capsules that move, in the base frame, and radii (k,)."""
    at, ends, radii = placement(robot, q), [], []
    for shape in clearance.shapes:
        body, T = link_frame(robot, shape.link)
        if body >= 0:
            ends.append((shape.ends @ T[:3, :3].T + T[:3, 3]) @ at.R[body].T + at.p[body])
            radii.append(shape.radius)
    return np.array(ends), np.array(radii)


def gaps(ends: Array, radii: Array, point: Array) -> Array:
    """Return the distances (k,) of capsules to a sphere of RADIUS at a point (3,) [m]."""
    way = ends[:, 1] - ends[:, 0]
    s = np.einsum('ij,ij->i', point - ends[:, 0], way) / np.maximum((way * way).sum(1), 1e-12)
    nearest = ends[:, 0] + np.clip(s, 0.0, 1.0)[:, None] * way
    return np.linalg.norm(point - nearest, axis=1) - radii - RADIUS


def spheres(robot: Robot, clearance: Clearance, gap: float, zone: float) -> dict[str, Obstacle]:
    """Return spheres at a gap [m] from POSTURE, until NEAR pairs are within the zone [m]."""
    ends, radii = capsules(robot, clearance, POSTURE)
    rng, found, count = np.random.default_rng(0), {}, 0
    while count < NEAR:
        k, s, direction = rng.integers(len(ends)), rng.uniform(), rng.normal(size=3)
        way = ends[k, 1] - ends[k, 0]
        direction -= direction @ way / max(way @ way, 1e-12) * way
        point = (ends[k, 0] + s * way
                 + (radii[k] + RADIUS + gap) * direction / np.linalg.norm(direction))
        distances = gaps(ends, radii, point)
        near = int((distances < zone).sum())
        if distances.min() > gap - 1e-6 and count + near <= NEAR:
            found[f'sphere{len(found)}'] = Obstacle.at('sphere', RADIUS, point)
            count += near
    return found


def without_near(robot: Robot, clearance: Clearance, sample: list[State]
                 ) -> tuple[Clearance, float]:
    """
    Return a clearance that ignores the pairs of links that are near at the states, and the zone.

    The zone [m] is the distance at which pairs are near, its median over the states.

    """
    while True:
        law, near, zones = Law(robot, Settings.of(robot, clearance=clearance)), set(), []
        for k, state in enumerate(sample):
            law.torque(PERIOD * k, state.q, state.qd)
            zones.append(law.limiter.clearance.record.zone)
            near |= {(one.link, one.other) for one in law.limiter.near}
        if not near:
            return clearance, float(np.median(zones))
        clearance = replace(clearance, ignored=(*clearance.ignored, *sorted(near)))


def section(seconds: float = 6.0) -> list[ClearRow]:
    """Return the rows, timed in turns."""
    _, robot, _ = panda()
    rng, shipped = np.random.default_rng(2), Clearance.of(shipped_shapes('panda'))
    sample = []
    for _ in range(STATES):
        u = rng.normal(size=6)
        sample.append(State(POSTURE + 0.001 * rng.normal(size=7), SPEED * rng.normal(size=7), u,
                            rng.normal(size=7), u))
    laws, (clearance, zone) = {}, without_near(robot, shipped, sample)
    for name, one, obstacles in (
            (NONE, None, {}), (CLEAR, clearance, {}), (SHIPPED, shipped, {}),
            (SOME, clearance, spheres(robot, clearance, 0.05, zone)),
            (HELD, clearance, spheres(robot, clearance, 0.01, zone))):
        law = laws[name] = Law(robot, Settings.of(robot, clearance=one))
        law.hold(POSTURE)
        law.obstacles.update(obstacles)
    clocks = {name: itertools.count() for name in laws}

    def contender(name):
        law, clock = laws[name], clocks[name]
        return Contender(name, lambda s: law.torque(PERIOD * next(clock), s.q, s.qd))

    rows = race([contender(name) for name in laws], sample, seconds)
    found = []
    for row in rows:
        law, clock, counts = laws[row.name], clocks[row.name], []
        for state in sample:
            law.torque(PERIOD * next(clock), state.q, state.qd)
            near = law.limiter.near
            counts.append((len(near), sum(one.holds for one in near)))
        found.append(ClearRow(row, *np.median(counts, axis=0).tolist()))
    return found


def page(rows: list[ClearRow]) -> list[str]:
    """Return the section."""
    first = rows[0].time.median
    return ['## A tick that keeps clear', '',
            f'`Law.torque` of the Panda with its {len(shipped_shapes("panda").shapes)} capsules, '
            f'at states in motion ({SPEED:g} rad/s). At most 16 rows of near pairs are taken; '
            'rows at a bound change the torques. Medians over the states; the difference is to '
            'the first row. Rows 2, 4 and 5 ignore the pairs of links that are near.', '',
            '|  | median µs | difference µs | ratio | rows | at a bound |',
            '|---|---:|---:|---:|---:|---:|',
            *(f'| {row.time.name} | {row.time.median:.1f} | {row.time.median - first:+.1f} | '
              f'{row.time.median / first:.2f} | {row.near:g} | '
              f'{row.holding:g} |' for row in rows), '']
