# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Your own simulator, or your own driver, in a loop with `Law`: replace the class `YourArm`.

The loop reads a joint state, asks the law for torques, sends them, and then lets the law plan.

"""

from matplotlib import pyplot
import numpy as np

from osc_ros import Law, OperationalSpace, Robot, shipped_urdf

PERIOD = 0.002  # between two torques [s]


class YourArm:
    """A stand-in for your simulator: the equations of motion, integrated in steps of 0.5 ms."""

    def __init__(self, robot: Robot, q: np.ndarray) -> None:
        self._dynamics = OperationalSpace(robot)
        self.time, self.q, self.qd = 0.0, q.copy(), np.zeros(robot.n)

    def step(self, tau: np.ndarray) -> None:
        """Apply joint torques (n,) [N·m] for one period."""
        for _ in range(4):
            qdd = self._dynamics.forward_dynamics(self.q, self.qd, tau)
            self.qd += PERIOD / 4.0 * qdd
            self.q += PERIOD / 4.0 * self.qd
        self.time += PERIOD


def main() -> None:
    """Move the tip by 10 cm."""
    robot = Robot.from_urdf(shipped_urdf('panda'), base='panda_link0', tip='panda_hand_tcp')
    arm = YourArm(robot, np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8]))
    law = Law(robot)
    law.hold(arm.q)  # hold the pose of these joint positions
    law.torque(arm.time, arm.q, arm.qd)
    goal = law.levels['tip'].pose.copy()
    goal[2, 3] += 0.1
    law.follow(goal)
    heights = []
    for _ in range(round(2.0 / PERIOD)):
        tau = law.torque(arm.time, arm.q, arm.qd)  # (n,), within all limits
        arm.step(tau)
        law.plan()  # after sending, because planning is slow
        heights.append(law.levels['tip'].pose[2, 3] - goal[2, 3] + 0.1)
    print(f'the tip has moved up by {1e3 * heights[-1]:.1f} mm')
    pyplot.plot(PERIOD * np.arange(len(heights)), heights)
    pyplot.xlabel('time [s]')
    pyplot.ylabel('way of the tip [m]')
    pyplot.savefig('own_loop.png')


if __name__ == '__main__':
    main()
