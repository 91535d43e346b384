# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A force on a wall: approach with motion, press with 10 N, slide along it while pressing."""

from matplotlib import pyplot
import numpy as np

from osc_ros import Law, Robot, Settings, shipped_urdf, Simulation, Task

TIP, RADIUS = 'panda_hand_tcp', 0.02  # a ball at the tip touches the wall [m]


def main() -> None:
    """Press, slide, and print the force that the wall feels."""
    urdf = shipped_urdf('panda')
    robot = Robot.from_urdf(urdf, base='panda_link0', tip=TIP)
    law = Law(robot)
    start = Simulation(urdf, law)
    wall = np.eye(4)  # horizontal, 5 cm below the ball
    wall[:3, 3] = start.pose()[:3, 3] - [0.0, 0.0, 0.05 + RADIUS]
    arm = Simulation(urdf, law, start.q, wall=wall, ball=(TIP, RADIUS))

    law.follow(arm.pose(shift=(0.0, 0.0, -0.045)))  # 5 mm above the wall
    arm.run(1.5)
    axes = ('motion',) * 5 + ('force',)  # [angular; linear]: z is controlled by force
    law.change(Settings.of(robot, tasks=(Task(axes=axes),)))
    law.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -10.0])  # by the arm on the wall, [moment; force] [N]
    arm.run(2.0)
    print('pressing [N]:', np.round(arm.plant.contact_force(), 2))

    law.follow(arm.pose(shift=(0.0, 0.1, 0.0)))
    forces: list[np.ndarray] = []
    record = arm.run(2.0, each=lambda: forces.append(arm.plant.contact_force()))
    print('sliding: force along z from', np.min(forces, axis=0)[2].round(2), 'to',
          np.max(forces, axis=0)[2].round(2), 'N; way along y',
          (record.pose[-1, 1, 3] - record.pose[0, 1, 3]).round(3), 'm')
    pyplot.plot(record.pose[:, 1, 3], np.array(forces)[:, 2])
    pyplot.xlabel('position of the tip along y [m]')
    pyplot.ylabel('force on the wall along z [N]')
    pyplot.savefig('force_on_wall.png')


if __name__ == '__main__':
    main()
