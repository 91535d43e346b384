# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Rows that bound distances: they are the second derivatives of the distances, and no others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from attacked import robot_of
from distance_kernel import put_distances
from osc_ros import Law, Limits, Settings
from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.obstacles import MOST_OBSTACLES, Obstacle, Obstacles
from osc_ros.compile.compiled import kernel
from osc_ros.control.data import LAW_D, LAW_M, MOST_NEAR
from osc_ros.control.limits.bodies import put_bodies
from osc_ros.control.limits.bounds import ceiling
from osc_ros.control.limits.clearance import BRAKING, Clearance, fence_box, KeepingClear
from osc_ros.control.limits.near_rows import (
    LEAST_BRAKING,
    near_rows,
    RETREAT,
)
from osc_ros.dynamics.algebra.kinematics import link_frame, placement
from osc_ros.errors import InputError

ROBOT = robot_of('panda')
TIME = 10.0


@kernel
def put_rows(m, d, clearance):
    return near_rows(m, d, clearance, 0)


@kernel
def put_ceiling(room, approach, deceleration, rate, found):
    found[0] = ceiling(room, approach, np.inf, deceleration, rate, 0.0, 0.0)


def spheres(rng, count=6):
    """Return spheres on random links of the Panda."""
    links = rng.choice(['panda_link0', 'panda_link3', 'panda_link5', 'panda_link7', 'panda_hand'],
                       count)
    return tuple(LinkShape(str(link), np.repeat(rng.uniform(-0.05, 0.05, (1, 3)), 2, axis=0), 0.02)
                 for link in links)


def obstacles(rng):
    """Return an obstacle of each shape, near the arm, which moves."""
    found = {}
    for shape, size in (('sphere', (0.05,)), ('box', (0.1, 0.2, 0.1)), ('cylinder', (0.05, 0.2)),
                        ('capsule', (0.05, 0.2))):
        T = np.eye(4)
        T[:3, :3] = Rotation.random(random_state=int(rng.integers(1 << 30))).as_matrix()
        T[:3, 3] = rng.uniform([0.2, -0.4, 0.2], [0.7, 0.4, 0.8])
        found[shape] = Obstacle(shape, size, T, 0.5 * rng.normal(size=6))
    return found


class Rows:
    """The rows of a Panda with spheres among obstacles, and its distances by Python."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        self.obstacles, self.named = Obstacles(), obstacles(rng)
        for name, one in self.named.items():
            self.obstacles[name] = one
        self.obstacles.record.stamp[:] = TIME
        self.clearance = Clearance(spheres(rng), fence=fence_box([-0.5] * 3, [0.8] * 3))
        self.clear = KeepingClear(ROBOT, self.clearance, self.obstacles)
        self.table = Limits.of(ROBOT).table
        self.q = rng.uniform(*ROBOT.position_limits.T)
        self.qd = rng.uniform(-1.0, 1.0, 7)
        m, d = LAW_M.new(n=7), LAW_D.new(n=7)
        put_bodies(m, ROBOT)
        d.limits[:], d.time, d.q[:], d.qd[:] = self.table, TIME, self.q, self.qd
        self.rows, self.most = d.row_of_q, d.row_most
        self.count = put_rows(m, d, self.clear.record)

    def bias(self, k):
        """Return the second derivative of a distance for q̈ = 0 that a row assumes."""
        deceleration = max(BRAKING * np.abs(self.rows[k]) @ self.table[3], LEAST_BRAKING)
        limit, rate = np.zeros(1), self.table[4].min()
        c = self.clear.record
        room = max(c.near_distance[k] - self.clearance.margin, -RETREAT / rate)
        put_ceiling(room, c.near_approach[k], deceleration, rate, limit)
        return self.most[k] - limit[0]

    def centre(self, i, q):
        shape = self.clearance.shapes[i]
        body, T = link_frame(ROBOT, shape.link)
        at = placement(ROBOT, q)
        R, p = (at.R[body], at.p[body]) if body >= 0 else (np.eye(3), np.zeros(3))
        return p + R @ (T[:3, :3] @ shape.ends[0] + T[:3, 3])

    def distance(self, first, second, q, t):
        """Return the distance of a pair at positions q, t seconds after the state."""
        S, F = len(self.clearance.shapes), len(self.clearance.fence)
        x, radius = self.centre(first, q), self.clearance.shapes[first].radius
        if second < S:
            return (np.linalg.norm(x - self.centre(second, q)) - radius
                    - self.clearance.shapes[second].radius)
        if second < S + F:
            *normal, offset = self.clearance.fence[second - S]
            return x @ normal - offset - radius
        one = self.named[self.obstacles.name_of(second - S - F)]
        turn = Rotation.from_rotvec(one.velocity[:3] * t).as_matrix() @ one.pose[:3, :3]
        local = turn.T @ (x - one.pose[:3, 3] - t * one.velocity[3:])
        kind, size, more = one.solid
        found = np.empty((1, 3))
        put_distances(np.array([kind]), np.array([size]), np.r_[local, local][None], found)
        return found[0, 0] - radius - more


@pytest.mark.parametrize('seed', range(30))
def test_rows_are_the_second_derivatives_of_the_distances(seed):
    own, h = Rows(seed), 1e-4
    accelerations = own.rng.uniform(-3.0, 3.0, 7)
    c = own.clear.record
    for k in range(own.count):
        pair = int(c.near_first[k]), int(c.near_second[k])
        before, here, after = (
            own.distance(*pair, own.q + t * own.qd + 0.5 * t * t * accelerations, t)
            for t in (-h, 0.0, h))
        if here < 0.0:  # within a box the normal is another one
            continue
        assert c.near_distance[k] == pytest.approx(here, abs=1e-9)
        assert c.near_approach[k] == pytest.approx((before - after) / (2.0 * h), abs=1e-4)
        wanted = (after - 2.0 * here + before) / (h * h)
        assert own.bias(k) - own.rows[k] @ accelerations == pytest.approx(
            wanted, abs=1e-3 + 1e-3 * abs(wanted))


def test_all_near_pairs_have_rows_and_the_most_urgent_ones_stay():
    counts = [Rows(seed).count for seed in range(20)]
    assert max(counts) == MOST_NEAR
    assert min(counts) > 0


def test_pairs_that_were_far_are_found_when_they_come_near():
    shapes = LinkShape('panda_hand', np.zeros((2, 3)), 0.05),
    law = Law(ROBOT, replace(Settings.of(ROBOT), clearance=Clearance(shapes)))
    rng, q = np.random.default_rng(0), np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
    law.hold(q)
    body, T = link_frame(ROBOT, 'panda_hand')
    at = placement(ROBOT, q)
    hand = at.p[body] + at.R[body] @ T[:3, 3]
    for k in range(200):
        gap = abs(np.sin(0.05 * k)) * 2.0 + 0.06
        direction = rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        law.obstacles['it'] = Obstacle.at('sphere', 0.05, hand + (0.1 + gap) * direction)
        law.torque(0.002 * k, q, np.zeros(7))
        assert bool(law.limiter.near) == (gap < 0.07), (k, gap)
        if law.limiter.near:
            assert law.limiter.near[0].distance == pytest.approx(gap, abs=1e-9)
            assert law.limiter.near[0][:2] == ('panda_hand', 'it')


def test_pairs_are_compared_wherever_the_arm_starts():
    shapes = (LinkShape('panda_link0', np.zeros((2, 3)), 0.14),
              LinkShape('panda_hand', np.zeros((2, 3)), 0.14))
    law = Law(ROBOT, replace(Settings.of(ROBOT), clearance=Clearance(shapes)))
    for time, q in enumerate(([0.0] * 7, [0.0, 0.5, 0.0, -3.0, 0.0, 0.3, 0.0],
                              [0.0, 1.7, 0.0, -1.0, 0.0, 1.0, 0.0])):
        law.hold(q)
        assert not law.limiter.near
        law.torque(float(time), np.array(q), np.zeros(7))
        assert bool(law.limiter.near) == (time == 1)


def test_obstacle_counts_after_the_clock_is_set_back():
    shapes = LinkShape('panda_hand', np.zeros((2, 3)), 0.05),
    law = Law(ROBOT, replace(Settings.of(ROBOT), clearance=Clearance(shapes)))
    q, found = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]), []
    body, T = link_frame(ROBOT, 'panda_hand')
    at = placement(ROBOT, q)
    hand = at.p[body] + at.R[body] @ T[:3, 3]
    for start in (100.0, 100.0, 0.0):
        law.hold(q)
        law.obstacles['it'] = Obstacle.at('sphere', 0.05, hand + [0.1, 0.0, 0.0])
        for k in range(200):
            tau = law.torque(start + 0.002 * k, q, np.zeros(7))
        found.append(tau)
    np.testing.assert_allclose(found[2], found[1], rtol=0.0, atol=1e-9)
    law.obstacles.update({}, clears=True)
    law.hold(q)
    assert np.abs(law.torque(0.0, q, np.zeros(7)) - found[2]).max() > 0.1


def test_clearance_and_obstacles_are_checked():
    shape = LinkShape('panda_hand', np.zeros((2, 3)), 0.05)
    for wrong, message in (
            (lambda: Clearance((shape,), margin=0.0), 'margin 0.0: must be .*at most 1 .m'),
            (lambda: Clearance((shape,), margin=np.nan), 'margin nan'),
            (lambda: Clearance((shape,), fence=[[0.0, 0.0, 0.0, 1.0]]), 'a direction'),
            (lambda: Clearance(('hand',)), 'a LinkShape'),
            (lambda: Clearance((shape,), margin='x'), "margin 'x': must be"),
            (lambda: Clearance((shape,), fence=[0.0, 1.0, 0.0]), 'fence of 3 numbers'),
            (lambda: Law(ROBOT, replace(Settings.of(ROBOT), clearance=Clearance(
                (shape,), fence=[[0.0, 0.0, 1.0, 1.0]]))), "excludes the joint 'panda_joint1'"),
            (lambda: Obstacle.at('box', 'abc', [0.0] * 3), 'size is not made of numbers'),
            (lambda: Obstacles().update({'a': 1.0}), 'an osc_ros.Obstacle'),
            (lambda: fence_box([0.0] * 3, [1.0, -1.0, 1.0]), 'lower < upper'),
            (lambda: Law(ROBOT, replace(Settings.of(ROBOT), clearance=Clearance(
                (replace(shape, link='arm'),)))), "'arm'"),
            (lambda: Obstacle.at('cone', 0.1, [0.0] * 3), "'cone': must be one of sphere"),
            (lambda: Obstacle.at('box', 0.1, [0.0] * 3), '3 lengths'),
            (lambda: Obstacle.at('sphere', np.nan, [0.0] * 3), 'give 1 lengths'),
            (lambda: Obstacle.at('sphere', 0.1, [np.inf, 0.0, 0.0]), 'position'),
            (lambda: Obstacle('sphere', (0.1,), 2.0 * np.eye(4)), 'a rotation'),
            (lambda: Obstacle('sphere', (0.1,), np.eye(4), [0.0] * 5 + [1e3]), 'at most 20')):
        with pytest.raises(InputError, match=message):
            wrong()
    found = Obstacles()
    for k in range(MOST_OBSTACLES):
        found[f'{k}'] = Obstacle.at('sphere', 0.1, [0.0, 0.0, k])
    with pytest.raises(InputError, match=f"'more': there are {MOST_OBSTACLES} already"):
        found['more'] = Obstacle.at('sphere', 0.1, [0.0] * 3)
    del found['3']
    found['more'] = Obstacle.at('sphere', 0.1, [0.0] * 3)
    assert len(found) == MOST_OBSTACLES
