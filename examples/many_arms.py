# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""4096 Pandas in MuJoCo's batched rollout: each draws its own circle, in one call of the law."""

import argparse
from os import cpu_count
from time import perf_counter

from matplotlib import pyplot
import mujoco
from mujoco.rollout import Rollout
import numpy as np
from scipy.spatial.transform import Rotation

from osc_ros import OperationalSpace, Robot, shipped_urdf
from osc_ros.sim.plant import Plant

PERIOD = 0.002  # time between two torques, and step of the physics [s]
START = np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
STIFFNESS, DAMPING = 400.0, 40.0  # [1/s²], [1/s]


def circles(centre: np.ndarray, radius: np.ndarray, speed: np.ndarray, time: float):
    """Return poses, twists, accelerations of targets (k,) on circles in the plane y z."""
    angle = np.minimum(time, 1.0) ** 2 / 2 + max(time - 1.0, 0.0)  # starts at rest
    rate, change = (time, 1.0) if time < 1.0 else (1.0, 0.0)
    c, s = np.cos(speed * angle), np.sin(speed * angle)
    position, velocity, acceleration = np.zeros((3, len(radius), 3))
    position[:, 1:] = radius[:, None] * np.stack((s, 1.0 - c), axis=1)
    velocity[:, 1:] = (radius * speed * rate)[:, None] * np.stack((c, s), axis=1)
    acceleration[:, 1:] = (radius * speed * change)[:, None] * np.stack((c, s), axis=1)
    acceleration[:, 1:] += (radius * (speed * rate) ** 2)[:, None] * np.stack((-s, c), axis=1)
    pose = centre.copy()
    pose[:, :3, 3] += position
    still = np.zeros_like(position)  # [angular; linear]
    return (pose, np.concatenate((still, velocity), axis=1),
            np.concatenate((still, acceleration), axis=1))


def pose_errors(pose: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return rotation vectors and displacements (k, 6) from poses (k, 4, 4) to targets."""
    turn = Rotation.from_matrix(target[:, :3, :3] @ pose[:, :3, :3].transpose(0, 2, 1))
    return np.concatenate((turn.as_rotvec(), target[:, :3, 3] - pose[:, :3, 3]), axis=1)


def main(arguments: list[str] | None = None) -> None:
    """Simulate the arms, and print the largest error of a tip, and the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=4096, help='number of arms')
    parser.add_argument('--seconds', type=float, default=2.0, help='simulated time')
    options = parser.parse_args(arguments)
    k, rng = options.count, np.random.default_rng(0)
    robot = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
    law = OperationalSpace(robot)
    urdf = shipped_urdf('panda').read_text()
    model = Plant(urdf, 'panda_link0', robot.joint_names, timestep=PERIOD).model
    full, applied = mujoco.mjtState.mjSTATE_FULLPHYSICS, mujoco.mjtState.mjSTATE_QFRC_APPLIED
    state = np.zeros((k, mujoco.mj_stateSize(model, full)))  # time, positions, velocities
    state[:, 1:8] = START + rng.uniform(-0.1, 0.1, (k, 7))
    centre = law.evaluate_batch(state[:, 1:8], state[:, 8:15], ('pose',)).pose
    radius, speed = rng.uniform(0.02, 0.08, k), rng.uniform(1.0, 4.0, k)
    largest, spent, simulated = [], 0.0, 0.0  # error of a tip at each step [m]; times [s]
    datas = [mujoco.MjData(model) for _ in range(cpu_count() or 1)]
    with Rollout(nthread=len(datas)) as arms:
        for step in range(round(options.seconds / PERIOD)):
            begun = perf_counter()
            q, qd = state[:, 1:8], state[:, 8:15]
            target, twist, acceleration = circles(centre, radius, speed, step * PERIOD)
            tip = law.evaluate_batch(q, qd, ('pose', 'twist'))
            error = pose_errors(tip.pose, target)
            u = acceleration + STIFFNESS * error + DAMPING * (twist - tip.twist)
            tau = law.torque_batch(
                q, qd, u, posture_acceleration=25.0 * (START - q) - 10.0 * qd).tau
            largest.append(np.linalg.norm(error[:, 3:], axis=1).max())
            spent += perf_counter() - begun
            begun = perf_counter()
            state = arms.rollout(model, datas, state, tau[:, None, :],
                                 control_spec=applied)[0][:, -1]
            simulated += perf_counter() - begun
    print(f'{k} arms, {options.seconds:g} s: largest error of a tip {1e3 * max(largest):.2f} mm; '
          f'targets and law {spent:.1f} s, MuJoCo {simulated:.1f} s')
    pyplot.plot(PERIOD * np.arange(len(largest)), 1e3 * np.array(largest))
    pyplot.xlabel('time [s]')
    pyplot.ylabel('largest error of a tip [mm]')
    pyplot.savefig('many_arms.png')


if __name__ == '__main__':
    main()
