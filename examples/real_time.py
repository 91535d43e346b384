# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Control an arm without ROS, in a real-time loop: `python examples/real_time.py [--franka ADDRESS]`.

Without an address it is a simulated FR3. Keep a hand on the user stop of a real arm.

"""

import argparse
from collections.abc import Sequence

import numpy as np

import osc_ros
from osc_ros.loop.process.process_start import System

REALTIME = System(priority=80, lock_memory=True)  # what the system does not grant is not needed


def opened(address: str) -> osc_ros.Arm:
    """Return the arm at an address, or a simulated one."""
    if address:
        return osc_ros.Arm.real_time('fr3', 'franka', {'address': address}, system=REALTIME)
    return osc_ros.Arm.real_time('fr3', 'mujoco')


def main(arguments: Sequence[str] | None = None) -> None:
    """Move the tip up by 5 cm and back, while this program is slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--franka', default='', metavar='ADDRESS', help='of its control unit')
    given = parser.parse_args(arguments)
    with opened(given.franka) as arm, arm.record() as recording:
        begin = arm.pose()
        for height in (0.05, 0.0):
            goal = begin.copy()
            goal[2, 3] += height
            arm.move_to(goal, duration=2.0, wait=False)
            np.linalg.svd(np.ones((500, 500)))  # the torques do not wait for this
            away = arm.wait().pose[:3, 3] - goal[:3, 3]
            print(f'{1e3 * np.linalg.norm(away):.2f} mm from the goal')
    recording.plot('real_time.png')


if __name__ == '__main__':
    main()
