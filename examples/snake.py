# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A snake of 200 links: its tip goes up by 20 cm, by two sweeps along the chain."""

from time import perf_counter

from matplotlib import pyplot
import numpy as np
from scipy.spatial.transform import Rotation

from osc_ros import OperationalSpace, Robot

LINKS, PERIOD = 200, 0.002  # links of 5 cm; time between two torques [s]
LINK = """<link name="l{0}"><inertial><origin xyz="0.025 0 0"/><mass value="0.05"/>
<inertia ixx="2e-5" iyy="2e-5" izz="2e-5" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="j{0}" type="revolute"><parent link="l{0}"/><child link="l{1}"/>
<origin xyz="0.05 0 0"/><axis xyz="0 {2} {3}"/>
<limit lower="-3" upper="3" velocity="10" effort="500"/></joint>"""


def snake(links: int) -> Robot:
    """Return a chain whose joints turn about y and z in turn, with small rotors."""
    text = ''.join([LINK.format(i) for i in range(links + 1)] + [
        JOINT.format(i, i + 1, i % 2, 1 - i % 2) for i in range(links)])
    return Robot.from_urdf(f'<robot name="snake">{text}</robot>', 'l0', f'l{links}',
                           rotor_inertia=np.full(links, 1e-3))


def main() -> None:
    """Move the tip, and print its error and the time of an update."""
    robot = snake(LINKS)
    law, arm = OperationalSpace(robot), OperationalSpace(robot)  # the arm is simulated by the same
    q, qd = 0.05 * np.sin(np.arange(LINKS)), np.zeros(LINKS)
    rest, goal = q.copy(), law.outward(q, qd).pose.copy()
    goal[2, 3] += 0.2
    took, distance = np.empty((2, round(2.0 / PERIOD)))
    for k in range(len(took)):
        begun = perf_counter()
        posture = 25.0 * (rest - q) - 10.0 * qd  # joint accelerations, for the nullspace
        tip = law.outward(q, qd, posture_acceleration=posture)
        turn = Rotation.from_matrix(goal[:3, :3] @ tip.pose[:3, :3].T).as_rotvec()
        error = np.concatenate([turn, goal[:3, 3] - tip.pose[:3, 3]])
        u = 25.0 * error - 10.0 * tip.twist  # natural frequency 5 rad/s, damping ratio 1
        tau = law.inward(np.linalg.solve(tip.Lambda_inv, u - tip.a0))
        took[k], distance[k] = perf_counter() - begun, np.linalg.norm(error[3:])
        qd += PERIOD * arm.forward_dynamics(q, qd, tau)
        q += PERIOD * qd
    print(f'{LINKS} links: error of the tip {1e3 * distance[-1]:.2f} mm after 2 s; '
          f'an update takes {1e6 * np.median(took):.0f} µs')
    pyplot.semilogy(PERIOD * np.arange(len(distance)), 1e3 * distance)
    pyplot.xlabel('time [s]')
    pyplot.ylabel('distance of the tip from its goal [mm]')
    pyplot.savefig('snake.png')


if __name__ == '__main__':
    main()
