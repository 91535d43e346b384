# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Keeping clear of obstacles: the law, and an operational-space law with control barrier functions.

The second one is OSCBF (Morton and Pavone 2025) on frax and cbfpy: the torques nearest to those of
an operational-space law, by the accelerations of the task and of the nullspace, for which each
barrier function h of relative degree 2 satisfies ḧ + 20 ḣ + 100 h ≥ 0. Gains, barrier functions
and their rates are those of the example of frax. Both have the same arm in MuJoCo, the same
spheres on its links and as obstacles, the same margin and the same set-points.

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import combinations
import os
from pathlib import Path
import tempfile
from time import perf_counter_ns
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from contenders import _simplified, SWAP
from osc_ros import Clearance, Law, Obstacle, Settings, Simulation
from osc_ros.collision.link_shapes import LinkShape
from osc_ros.control.setpoint.trajectory import figure_of_eight
from osc_ros.model.robot import Robot
from panda import panda, READY

Array = NDArray[np.float64]

FAR = np.array([2.0, 0.0, 0.0])  # way of the obstacles behind the arm [m]
MARGIN, RADIUS = 0.02, 0.08  # of both; of the obstacles [m]
GOALS, EACH, OBSTACLES = 40, 3.0, 4  # random goals, time for each [s], spheres among them
OURS, OTHERS = 'osc_ros', 'OSCBF (frax, cbfpy)'
OFF = ', without obstacles in the controller'


@dataclass(frozen=True)
class Keeper:
    """
    A controller among obstacles.

    Attributes
    ----------
    contacts : int
        Goals on whose way a sphere of the arm touched an obstacle.
    least : float [m]
        Smallest distance.
    error : float [m]
        RMS error of the tip on a path far from obstacles.
    time : float [µs]
        Median of a step with obstacles.

    """

    name: str
    contacts: int
    least: float
    error: float
    time: float


def has_barriers() -> bool:
    """Whether frax and cbfpy are installed."""
    return all(map(find_spec, ('frax', 'jax', 'cbfpy')))


class Barriers:
    """The torques of OSCBF; without obstacles those of its operational-space law."""

    def __init__(self, urdf_text: str, robot: Robot, data: dict[str, Any],
                 obstacles: Array | None) -> None:
        import frax
        import jax
        jax.config.update('jax_enable_x64', True)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'robot.urdf'
            file.write_bytes(ElementTree.tostring(_simplified(urdf_text)))
            arm = frax.Manipulator(str(file), ee_offset=robot.T_body_tip, collision_data=data)
        law = _task_law(arm)
        if obstacles is None:
            self._law = jax.jit(law)
            return
        cbf = _barrier_functions(arm, robot, obstacles)

        def torque(z, p, R, twist, acceleration):
            return cbf.safety_filter(z, law(z, p, R, twist, acceleration))

        self._law = jax.jit(torque)

    def torque(self, q: Array, qd: Array, target: Any) -> Array:
        """Return τ (n,) for a target, see `Law.target`."""
        T = target.pose
        return np.asarray(self._law(np.r_[q, qd], T[:3, 3], T[:3, :3], target.twist[SWAP],
                                    target.acceleration[SWAP]))


def _task_law(arm: Any) -> Any:
    """Return the operational-space law, [linear; angular], with the gains of frax's example."""
    import jax.numpy as jnp
    stiffness, damping = np.repeat([50.0, 20.0], 3), np.repeat([20.0, 10.0], 3)

    def law(z, p, R, twist, acceleration):
        q, qd = z[:7], z[7:]
        T, M = arm.ee_transform(q), arm.mass_matrix(q)
        J, J_dot = arm.ee_jacobian_and_derivative(q, qd)
        turn = 0.5 * jnp.cross(T[:3, :3], R, axis=0).sum(axis=1)
        error = jnp.concatenate([p - T[:3, 3], turn])
        wanted = acceleration + stiffness * error + damping * (twist - J @ qd) - J_dot @ qd
        MiJ = jnp.linalg.solve(M, J.T)
        inertia = jnp.linalg.inv(J @ MiJ)
        own = M @ (10.0 * (READY - q) - 5.0 * qd)
        return (J.T @ (inertia @ wanted) + arm.nonlinear_bias(q, qd)
                + own - J.T @ (inertia @ (MiJ.T @ own)))

    return law


def _barrier_functions(arm: Any, robot: Robot, obstacles: Array) -> Any:
    """Return the filter of cbfpy: joint limits, singularity, spheres against `obstacles`."""
    import cbfpy
    import jax
    import jax.numpy as jnp
    lower, upper = robot.position_limits.T

    class Config(cbfpy.CBFConfig):
        def __init__(self):
            super().__init__(n=14, m=7, u_min=-robot.effort_limits, u_max=robot.effort_limits)

        def f(self, z):
            return jnp.concatenate([z[7:], -jnp.linalg.solve(
                arm.mass_matrix(z[:7]), arm.nonlinear_bias(z[:7], z[7:]))])

        def g(self, z):
            return jnp.vstack([jnp.zeros((7, 7)), jnp.linalg.inv(arm.mass_matrix(z[:7]))])

        def P(self, z, u_des):
            J, Mi = arm.ee_jacobian(z[:7]), jnp.linalg.inv(arm.mass_matrix(z[:7]))
            task = J @ Mi
            null = Mi - Mi @ J.T @ jnp.linalg.solve(task @ J.T, task)
            return task.T @ task + null.T @ null

        def q(self, z, u_des):
            return -self.P(z, u_des) @ u_des

        def h_2(self, z):
            q = z[:7]
            centres, radii = arm.link_collision_data(q)
            gaps = jnp.linalg.norm(centres[:, None] - obstacles[None], axis=2) - (
                radii[:, None] + RADIUS + MARGIN)
            singular = jax.lax.linalg.svd(arm.ee_jacobian(q), compute_uv=False)
            return jnp.concatenate([upper - q, q - lower, jnp.prod(singular)[None] - 1e-3,
                                    gaps.ravel()])

        def alpha(self, h):
            return 10.0 * h

        def alpha_2(self, h_2):
            return 10.0 * h_2

    return cbfpy.CBF.from_config(Config())


def spheres() -> tuple[dict[str, Any], tuple[LinkShape, ...]]:
    """Return the spheres of the Panda in frax: its own data, and as shapes of the links."""
    from frax.robots import franka_panda as shipped
    from frax.utils.collision_utils import bubblify_to_mine
    data = bubblify_to_mine(shipped.collision_model_file, shipped.joint_to_child_mapping,
                            shipped.root_link_name, False, None, verbose=False)
    shapes = [LinkShape(link, np.array([centre, centre]), radius)
              for link, centres, radii in zip(shipped.link_ordering, data['positions'],
                                              data['radii'])
              for centre, radius in zip(centres, radii)]
    return data, tuple(shapes)


class Bench:
    """The arm in MuJoCo, the law, whose set-points both controllers have, and the judge."""

    def __init__(self, shapes: tuple[LinkShape, ...], obstacles: Array, is_on: bool,
                 barriers: Barriers | None) -> None:
        text, robot, _ = panda()
        links = sorted({shape.link for shape in shapes})
        clearance = Clearance(shapes, tuple(combinations(links, 2)), MARGIN)
        settings = Settings.of(robot)
        self.law = Law(robot, replace(settings, clearance=clearance) if is_on else settings)
        self.arm, self.barriers = Simulation(text, self.law, READY), barriers
        for k, place in enumerate(obstacles):
            self.law.obstacles[f'obstacle{k}'] = Obstacle.at('sphere', RADIUS, place)
        self.shapes, self.obstacles, self.times = shapes, obstacles, []

    def run(self, seconds: float) -> tuple[float, Array]:
        """Return the smallest distance to an obstacle [m], errors of the tip (k,) [m]."""
        plant, law, least, errors = self.arm.plant, self.law, np.inf, []
        model, data = plant.model, plant.data
        steps = round(self.arm.period / model.opt.timestep)
        bodies = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, shape.link)
                  for shape in self.shapes]
        local = np.array([shape.ends[0] for shape in self.shapes])
        radii = np.array([shape.radius for shape in self.shapes])
        for _ in range(round(seconds / self.arm.period)):
            q, qd, _ = plant.measured()
            began = perf_counter_ns()
            tau = law.torque(plant.time, q, qd)
            if self.barriers is not None:
                began = perf_counter_ns()
                tau = self.barriers.torque(q, qd, law.target)
            self.times.append((perf_counter_ns() - began) / 1e3)
            errors.append(np.linalg.norm(law.pose[:3, 3] - law.target.pose[:3, 3]))
            plant.step(tau, steps)
            law.plan()
            mujoco.mj_kinematics(model, data)
            centres = data.xpos[bodies] + np.einsum(
                'kij,kj->ki', data.xmat[bodies].reshape(-1, 3, 3), local)
            gaps = np.linalg.norm(centres[:, None] - self.obstacles, axis=2) - radii[:, None]
            least = min(least, float(gaps.min()) - RADIUS)
        return least, np.array(errors)


def _goals(rng: np.random.Generator) -> list[Array]:
    found = []
    for _ in range(GOALS):
        T = np.eye(4)
        T[:3, :3] = (Rotation.from_rotvec(rng.uniform(-0.5, 0.5, 3))
                     * Rotation.from_rotvec([np.pi, 0.0, 0.0])).as_matrix()
        T[:3, 3] = rng.uniform([0.3, -0.4, 0.2], [0.65, 0.4, 0.7])
        found.append(T)
    return found


def _keeper(name: str, shapes: tuple[LinkShape, ...], obstacles: Array, is_on: bool,
            barriers: Sequence[Barriers | None]) -> Keeper:
    """Return the row; `barriers` are among the obstacles, and far from them."""
    bench, distances = Bench(shapes, obstacles, is_on, barriers[0]), []
    for goal in _goals(np.random.default_rng(1)):
        bench.law.follow(goal)
        distances.append(bench.run(EACH)[0])
    path = Bench(shapes, obstacles - FAR, is_on, barriers[1])
    path.run(0.1)
    path.law.follow(figure_of_eight(path.law.pose, 0.1, 0.1, 3.0, 1.0, 0.1), 0.1)
    error = float(np.sqrt(np.mean(path.run(3.0)[1] ** 2)))
    return Keeper(name, int((np.array(distances) < 0.0).sum()), min(distances), error,
                  float(np.median(bench.times)))


def section() -> list[Keeper]:
    """Return a row for each controller; empty if frax or cbfpy is not installed."""
    if not has_barriers():
        return []
    text, robot, _ = panda()
    # the settings that frax recommends for a CPU; jax reads them when it is imported
    os.environ.setdefault('XLA_FLAGS', '--xla_cpu_multi_thread_eigen=false '
                          '--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED')
    os.environ.setdefault('JAX_ENABLE_X64', '1')
    data, shapes = spheres()
    rng = np.random.default_rng(3)
    angles = np.linspace(-1.2, 1.2, OBSTACLES)
    obstacles = np.column_stack([0.55 * np.cos(angles), 0.55 * np.sin(angles),
                                 rng.uniform(0.2, 0.6, OBSTACLES)])
    there, far, none = (Barriers(text, robot, data, places)
                        for places in (obstacles, obstacles - FAR, None))
    return [_keeper(OURS + OFF, shapes, obstacles, False, (None, None)),
            _keeper(OURS, shapes, obstacles, True, (None, None)),
            _keeper(OTHERS + OFF, shapes, obstacles, False, (none, none)),
            _keeper(OTHERS, shapes, obstacles, False, (there, far))]


def page(rows: list[Keeper]) -> list[str]:
    """Return the section."""
    lines = ['## Beside control barrier functions', '']
    if not rows:
        return [*lines, 'cbfpy is not installed here: not measured.', '']
    return [*lines, f'A Panda with the spheres of frax on its links among {OBSTACLES} spheres of '
            f'{RADIUS:g} m, margin {1e3 * MARGIN:g} mm, {GOALS} random goals of {EACH:g} s; '
            'set-points and joint limits are the same, pairs of links are not compared. Errors '
            'are of the tip to the set-point on a figure of eight far from obstacles, RMS.', '',
            '|  | goals with contact | least mm | error mm | median µs |',
            '|---|---:|---:|---:|---:|',
            *(f'| {row.name} | {row.contacts} of {GOALS} | {1e3 * row.least:.1f} | '
              f'{1e3 * row.error:.4f} | {row.time:.1f} |' for row in rows),
            '']
