# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The library without ROS, in 15 lines: dynamics, a law, a simulated arm, a path."""

from matplotlib import pyplot
import numpy as np

from osc_ros import Law, OperationalSpace, Robot, shipped_urdf, Simulation

robot = Robot.from_urdf(shipped_urdf('panda'), base='panda_link0', tip='panda_hand_tcp')
q = np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
print('task inertia along z [kg]:', OperationalSpace(robot).evaluate(q, np.zeros(7)).Lambda[5, 5])

law = Law(robot)
arm = Simulation(shipped_urdf('panda'), law, q)
times = np.linspace(0.0, 4.0, 41)
circle = [arm.pose(shift=(0.0, 0.1 * np.sin(a), 0.1 - 0.1 * np.cos(a))) for a in np.pi * times / 2]
law.follow(law.path(times, circle))
record = arm.run(4.5)
pyplot.plot(record.pose[:, 1, 3], record.pose[:, 2, 3])
pyplot.savefig('library.png')
print('largest error of the tip [mm]:', (1e3 * abs(record.error[:, 3:]).max()).round(2))
