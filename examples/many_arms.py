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

from osc_ros import OperationalSpace, Robot, shipped_urdf
from osc_ros.learning import TensorSpace, Tip
from osc_ros.sim.plant import Plant

PERIOD = 0.002  # time between two torques, and step of the physics [s]
START = np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
STIFFNESS, DAMPING = 400.0, 40.0  # [1/s²], [1/s]


def circles(centre: np.ndarray, radius: np.ndarray, speed: np.ndarray, time: float):
    """Return targets of the tips (k,) on circles in the plane y z, and their accelerations."""
    angle = np.minimum(time, 1.0) ** 2 / 2 + max(time - 1.0, 0.0)  # starts at rest
    rate, change = (time, 1.0) if time < 1.0 else (1.0, 0.0)
    c, s = np.cos(speed * angle), np.sin(speed * angle)
    position, velocity, acceleration = np.zeros((3, len(radius), 3))
    position[:, 1:] = radius[:, None] * np.stack((s, 1.0 - c), axis=1)
    velocity[:, 1:] = (radius * speed * rate)[:, None] * np.stack((c, s), axis=1)
    acceleration[:, 1:] = (radius * speed * change)[:, None] * np.stack((c, s), axis=1)
    acceleration[:, 1:] += (radius * (speed * rate) ** 2)[:, None] * np.stack((-s, c), axis=1)
    pose = centre.copy()
    pose[:, :3] += position
    still = np.zeros_like(position)
    return (Tip(pose, np.concatenate((velocity, still), axis=1)),
            np.concatenate((acceleration, still), axis=1))


def main(arguments: list[str] | None = None) -> None:
    """Simulate the arms, and print the largest error of a tip, and the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=4096, help='number of arms')
    parser.add_argument('--seconds', type=float, default=2.0, help='simulated time')
    options = parser.parse_args(arguments)
    k, rng = options.count, np.random.default_rng(0)
    robot = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
    law = TensorSpace(OperationalSpace(robot), 'mjlab')  # quaternions w x y z, linear part first
    urdf = shipped_urdf('panda').read_text()
    model = Plant(urdf, 'panda_link0', robot.joint_names, timestep=PERIOD).model
    full, applied = mujoco.mjtState.mjSTATE_FULLPHYSICS, mujoco.mjtState.mjSTATE_QFRC_APPLIED
    state = np.zeros((k, mujoco.mj_stateSize(model, full)))  # time, positions, velocities
    state[:, 1:8] = START + rng.uniform(-0.1, 0.1, (k, 7))
    centre = law.tip(state[:, 1:8], state[:, 8:15]).pose
    radius, speed = rng.uniform(0.02, 0.08, k), rng.uniform(1.0, 4.0, k)
    largest, spent, simulated = [], 0.0, 0.0  # error of a tip at each step [m]; times [s]
    datas = [mujoco.MjData(model) for _ in range(cpu_count() or 1)]
    with Rollout(nthread=len(datas)) as arms:
        for step in range(round(options.seconds / PERIOD)):
            begun = perf_counter()
            q, qd = state[:, 1:8], state[:, 8:15]
            target, acceleration = circles(centre, radius, speed, step * PERIOD)
            posture = 25.0 * (START - q) - 10.0 * qd
            tau = law.track(q, qd, target, STIFFNESS, DAMPING, acceleration, posture)
            tip = law.tip(q, qd).pose
            largest.append(np.linalg.norm(tip[:, :3] - target.pose[:, :3], axis=1).max())
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
