# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Arms among obstacles in MuJoCo, whose own distances judge how near the links came."""

from dataclasses import replace
from itertools import combinations

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from osc_ros import Law, Obstacle, Settings, Simulation
from osc_ros.dynamics.algebra.kinematics import link_frame

GEOMS = {'sphere': mujoco.mjtGeom.mjGEOM_SPHERE, 'capsule': mujoco.mjtGeom.mjGEOM_CAPSULE,
         'box': mujoco.mjtGeom.mjGEOM_BOX, 'cylinder': mujoco.mjtGeom.mjGEOM_CYLINDER}


def geom_size(obstacle):
    """Return MuJoCo's size (3,) of the geom of an obstacle."""
    size = obstacle.size
    if obstacle.shape == 'box':
        return 0.5 * np.array(size)
    return np.r_[size[0], 0.5 * size[1] if len(size) > 1 else 0.0, 0.0]

LOOK = 5  # ticks between two looks at the distances


class ClearRig:
    """
    An arm in MuJoCo under a law with a clearance, and obstacles, some of which move.

    Attributes
    ----------
    Torques act `delay` ticks late.

    smallest : dict of (str, str) to float
        Smallest distance of each pair of geoms during `run`, as MuJoCo finds it [m].

    """

    def __init__(self, urdf, robot, clearance, obstacles, is_on=True, delay=0, tasks=None,
                 **plant):
        self.robot, self.clearance, self.obstacles = robot, clearance, dict(obstacles)
        settings = Settings.of(robot, **({} if tasks is None else {'tasks': tasks}))
        self.law = Law(robot, replace(settings, clearance=clearance) if is_on else settings)
        self.simulation = Simulation(urdf, self.law, furnish=self._furnish, **plant)
        self.smallest = {}
        self._sent, self.law.delay = [np.zeros(robot.n)] * delay, float(delay)
        for name, obstacle in self.obstacles.items():
            self.law.obstacles[name] = obstacle
        model = self.simulation.plant.model
        self._data = mujoco.MjData(model)
        self._geoms = {name: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, name)
                       for name in [*self._names, *self.obstacles]}
        self._pairs = list(self._compared())

    def _furnish(self, spec):
        self._names = []
        for k, shape in enumerate(self.clearance.shapes):
            name = f'{shape.link}#{k}'
            self._names.append(name)
            body = spec.body(shape.link)
            is_sphere = np.allclose(*shape.ends)
            options = {'pos': shape.ends[0]} if is_sphere else {'fromto': shape.ends.ravel()}
            body.add_geom(name=name, type=GEOMS['sphere' if is_sphere else 'capsule'],
                          size=[shape.radius, 0.0, 0.0], contype=0, conaffinity=0, mass=0.0,
                          **options)
        for name, one in self.obstacles.items():
            body = spec.worldbody.add_body(name=name, mocap=True, pos=one.pose[:3, 3])
            body.add_geom(name=name, type=GEOMS[one.shape], size=geom_size(one), contype=0,
                          conaffinity=0)

    def _compared(self):
        """Yield the pairs of names that must keep clear."""
        ignored = {frozenset(pair) for pair in self.clearance.ignored}
        bodies = [link_frame(self.robot, one.link)[0] for one in self.clearance.shapes]
        for i, j in combinations(range(len(bodies)), 2):
            shapes = [self.clearance.shapes[k] for k in (i, j)]
            links = frozenset(one.attached or one.link for one in shapes)
            are_things = any(one.attached for one in shapes)
            parents = [int(self.robot.parent[one]) if one >= 0 else -2
                       for one in (bodies[i], bodies[j])]
            if not (bodies[i] == bodies[j] or links in ignored or not are_things and (
                    parents[0] == bodies[j] or parents[1] == bodies[i])):
                yield self._names[i], self._names[j]
        for i, body in enumerate(bodies):
            if body >= 0:
                yield from ((self._names[i], name) for name in self.obstacles)

    def distances(self):
        """Return MuJoCo's distance of each pair at the present state [m]."""
        model, data = self.simulation.plant.model, self.simulation.plant.data
        found = {}
        for pair in self._pairs:
            a, b = (self._geoms[name] for name in pair)
            found[pair] = mujoco.mj_geomDistance(model, data, a, b, 10.0, None)
        return found

    def run(self, duration):
        """Run, and note the smallest distances; return the smallest."""
        period, least = LOOK * self.simulation.period, np.inf
        for _ in range(round(duration / period)):
            if self._sent:
                for _ in range(LOOK):
                    self._late_tick()
            else:
                self.simulation.run(period)
            for pair, distance in self.distances().items():
                self.smallest[pair] = min(self.smallest.get(pair, np.inf), distance)
                least = min(least, distance)
        return least

    def move(self, name, position, velocity):
        """Move an obstacle, in MuJoCo and for the law."""
        one, T = self.obstacles[name], np.eye(4)
        T[:3, 3] = position
        self.law.obstacles[name] = replace(one, pose=T, velocity=np.r_[np.zeros(3), velocity])
        model, data = self.simulation.plant.model, self.simulation.plant.data
        data.mocap_pos[model.body(name).mocapid[0]] = position

    def _late_tick(self):
        """Compute a torque, and apply the one of some ticks ago."""
        plant, law = self.simulation.plant, self.law
        q, qd, _ = plant.measured()
        self._sent.append(law.torque(plant.time, q, qd))
        law.plan()
        plant.step(self._sent.pop(0), round(self.simulation.period / plant.model.opt.timestep))

    def is_clear(self, q, room=0.0):
        """Return whether all pairs are farther apart than the margin and `room` at q (n,)."""
        plant = self.simulation.plant
        kept = plant.data.qpos.copy()
        plant.data.qpos[:len(q)] = q
        mujoco.mj_kinematics(plant.model, plant.data)
        least = min(self.distances().values())
        plant.data.qpos[:] = kept
        mujoco.mj_kinematics(plant.model, plant.data)
        return least > self.clearance.margin + room


def random_obstacles(rng, count=4):
    """Return obstacles of all shapes around an arm, at least 0.4 m from its first axis."""
    found = {}
    for k in range(count):
        place = rng.uniform([-0.8, -0.8, 0.0], [0.8, 0.8, 1.0])
        while np.hypot(*place[:2]) < 0.4:
            place = rng.uniform([-0.8, -0.8, 0.0], [0.8, 0.8, 1.0])
        shape = ('sphere', 'box', 'cylinder', 'capsule')[k % 4]
        size = {'sphere': 0.1, 'box': rng.uniform(0.05, 0.3, 3), 'cylinder': (0.07, 0.3),
                'capsule': (0.06, 0.3)}[shape]
        found[f'obstacle{k}'] = Obstacle.at(shape, size, place)
    return found


def free_start(rig, rng):
    """Return positions (n,) at which all pairs are farther apart than the margin and 1 cm."""
    q = rig.simulation.q
    for _ in range(3000):
        if rig.is_clear(q, 0.01):
            return q
        q = rng.uniform(*np.clip(rig.robot.position_limits.T, -3.0, 3.0))
    raise AssertionError('no posture is clear')


def random_goal(rng, k, obstacles):
    """Return a goal (4, 4): every fifth one near the base, every seventh one in an obstacle."""
    place = rng.uniform([-0.8, -0.8, -0.2], [0.8, 0.8, 1.1])
    if k % 5 == 0:
        place = 0.3 * place
    if k % 7 == 3 and obstacles:
        place = list(obstacles.values())[k % len(obstacles)].pose[:3, 3]
    T = np.eye(4)
    T[:3, :3] = Rotation.random(random_state=int(rng.integers(1 << 30))).as_matrix()
    T[:3, 3] = place
    return T


def least_distances(rig, rng, count, tasks=('',), duration=3.0):
    """Return MuJoCo's smallest distance (count,) on the way to each of many random goals [m]."""
    rig.simulation.reset(free_start(rig, rng))
    found = []
    for k in range(count):
        for task in tasks:
            rig.law.follow(random_goal(rng, k, rig.obstacles), task=task or None)
        found.append(rig.run(duration))
    return np.array(found)
