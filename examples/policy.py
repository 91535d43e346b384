# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A policy that sends chunks of 16 poses every 0.8 s: `python examples/policy.py [--ros]`."""

import argparse
from collections.abc import Sequence

import numpy as np

import osc_ros

RATE, HORIZON, EVERY = 10.0, 16, 0.8  # of a chunk: poses a second, poses, and time to the next [s]
DELAY = 0.1  # time that the policy takes [s]
RADIUS, SPEED = 0.1, 0.15  # of the circle that the policy draws [m], [m/s]


def predicted_poses(observed: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """
    Return the next poses (HORIZON, 4, 4) from an observed pose (4, 4).

    This is where a network would be. Here the poses go around a circle in the plane y z.

    """
    y, z = observed[1:3, 3] - centre[1:3]
    begin = np.arctan2(z, y)
    angles = begin + SPEED / RADIUS * np.arange(1, HORIZON + 1) / RATE
    poses = np.repeat(observed[None], HORIZON, axis=0)
    poses[:, 1, 3] = centre[1] + RADIUS * np.cos(angles)
    poses[:, 2, 3] = centre[2] + RADIUS * np.sin(angles)
    return poses


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw a circle in the air."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--ros', action='store_true', help='command a running controller')
    parser.add_argument('--chunks', type=int, default=8)
    given = parser.parse_args(arguments)
    arm = osc_ros.Arm.ros() if given.ros else osc_ros.Arm.simulated('panda')
    with arm, arm.record() as recording:
        begin = arm.pose()
        centre = begin[:3, 3] - [0.0, RADIUS, 0.0]
        for _ in range(given.chunks):
            observed = arm.state()
            poses = predicted_poses(observed.pose, centre)
            arm.sleep(DELAY)  # the policy thinks, and the arm goes on with the chunk before
            print(f'{arm.follow(poses, 1.0 / RATE, observed_at=observed.time)}')
            arm.sleep(EVERY - DELAY)
        arm.wait()
        print('at rest at', arm.pose()[:3, 3].round(3))
    recording.plot('policy.png')


if __name__ == '__main__':
    main()
