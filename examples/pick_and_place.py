# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A cube is picked and placed: `python examples/pick_and_place.py [--ros] [--show]`."""

import argparse
from collections.abc import Sequence

import numpy as np

import osc_ros
from osc_ros.sim.pushed_block import Block

START, GOAL = np.array([0.5, 0.2, 0.02]), np.array([0.4, -0.25, 0.02])  # centre of the cube [m]
SIZE, MASS = 0.04, 0.2  # of the cube [m], [kg]
ABOVE = np.array([0.0, 0.0, 0.12])  # of the cube, where the hand comes from and goes to [m]
DOWN = np.diag([1.0, -1.0, -1.0])  # orientation of a hand that points down
FORCE = 40.0  # of the fingers [N]


def pose(position: np.ndarray) -> np.ndarray:
    """Return the pose (4, 4) of a hand that points down, at a position."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = DOWN, position
    return T


def pick(arm: osc_ros.Arm, place: np.ndarray) -> None:
    """Grasp the cube at a place, and lift it."""
    arm.gripper.move(2.0 * SIZE, wait=False)  # opens while the arm moves
    arm.move_to(pose(place + ABOVE))
    arm.move_to(pose(place), duration=1.0)
    if not arm.gripper.grasp(FORCE).is_holding:
        raise SystemExit('there is no cube')
    arm.payload(MASS)
    arm.move_to(pose(place + ABOVE), duration=1.0)


def put(arm: osc_ros.Arm, place: np.ndarray) -> None:
    """Put the cube down at a place, and go up."""
    arm.move_to(pose(place + ABOVE))
    arm.move_to(pose(place), duration=1.0)
    arm.gripper.move(2.0 * SIZE)
    arm.payload(0.0)
    arm.move_to(pose(place + ABOVE), duration=1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry the cube from START to GOAL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--ros', action='store_true', help='command a running controller')
    parser.add_argument('--show', action='store_true', help='in a window, in real time')
    given = parser.parse_args(arguments)
    cube = Block((SIZE / 2,) * 3, MASS, friction=0.5, position=START)
    table = np.eye(4)
    arm = osc_ros.Arm.ros() if given.ros else osc_ros.Arm.simulated(
        'panda', wall=table, furnish=cube.add, show=given.show)
    with arm, arm.record() as recording:
        pick(arm, START)
        put(arm, GOAL)
        if arm.simulation is not None:
            end = cube.position(arm.simulation.plant)
            print(f'the cube is at {end.round(4)} m, {1e3 * np.linalg.norm(end - GOAL):.1f} mm '
                  'from its goal')
    recording.plot('pick_and_place.png')  # with the weight of the cube as contact force


if __name__ == '__main__':
    main()
