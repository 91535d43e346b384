# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Two arms under one law: a task for each hand, and a constant distance between the hands."""

from matplotlib import pyplot
import numpy as np

from osc_ros import Gains, Law, Robot, Settings, shipped_urdf, Simulation, Task
from osc_ros.model.urdf import pair

HANDS = 'left_panda_hand_tcp', 'right_panda_hand_tcp'
LEFT = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]  # joint positions at the start [rad]
RIGHT = [0.3, -0.5, 0.2, -2.0, 0.1, 1.8, 0.9]


def main() -> None:
    """Move both hands up and down together, and print how their distance changes."""
    urdf = pair(shipped_urdf('panda'))  # two Pandas on a pedestal
    robot = Robot.from_urdf(urdf, base='pedestal', tip=HANDS)
    tasks = [Task(Gains(), name, link) for name, link in zip(('left', 'right'), HANDS)]
    law = Law(robot, Settings.of(robot, tasks=tuple(tasks)))
    arms = Simulation(urdf, law, LEFT + RIGHT)
    begin = {task.name: arms.pose(task.link) for task in tasks}
    distance = np.linalg.norm(begin['left'][:3, 3] - begin['right'][:3, 3])

    times = np.linspace(0.0, 4.0, 41)
    for name, pose in begin.items():
        poses = np.repeat(pose[None], len(times), axis=0)
        poses[:, 2, 3] += 0.1 * np.sin(0.5 * np.pi * times)
        law.follow(law.path(times, poses, task=name), task=name)
    changes: list[float] = []

    def measure() -> None:
        left, right = (arms.pose(link)[:3, 3] for link in HANDS)
        changes.append(np.linalg.norm(left - right) - distance)

    arms.run(4.5, each=measure)
    print(f'largest change of the distance of the hands: {1e6 * np.abs(changes).max():.1f} µm')
    pyplot.plot(arms.period * np.arange(len(changes)), 1e6 * np.array(changes))
    pyplot.xlabel('time [s]')
    pyplot.ylabel('change of the distance of the hands [µm]')
    pyplot.savefig('two_arms.png')


if __name__ == '__main__':
    main()
