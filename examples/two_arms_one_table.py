# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Two arms of one law cross at a table while a person's hand, a moving sphere, reaches in."""

from dataclasses import replace

from matplotlib import pyplot
import numpy as np

from osc_ros import (
    Clearance,
    Law,
    Obstacle,
    Robot,
    Settings,
    shipped_shapes,
    shipped_urdf,
    Simulation,
    Task,
)
from osc_ros.model.urdf import pair, SIDES

MARGIN = 0.03  # [m]
HANDS = 'left_panda_hand_tcp', 'right_panda_hand_tcp'
START = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]  # of each arm [rad]
TABLE = Obstacle.at('box', (0.6, 1.4, 0.1), (0.65, 0.0, 0.05))  # its top is at z = 0.1 m
# Positions of the left and of the right hand [m]: they cross; they are close to each other and to
# the person's hand; they are below the top of the table.
GOALS = (((0.5, -0.2, 0.25), (0.6, 0.2, 0.25)), ((0.6, 0.1, 0.3), (0.5, -0.1, 0.25)),
         ((0.5, 0.2, 0.05), (0.5, -0.2, 0.05)))
EACH = 3.0  # time for each pair of goals [s]
KINDS = {'arm': 'arm to arm', 'hand': "arm to the person's hand", 'table': 'arm to table'}


def hand_at(time: float) -> Obstacle:
    """Return the person's hand, which reaches in and back with 4 s for each stroke."""
    angle = 0.5 * np.pi * time
    place = 1.0 - 0.25 * (1.0 - np.cos(angle)), 0.0, 0.4
    return replace(Obstacle.at('sphere', 0.07, place),
                   velocity=[0.0, 0.0, 0.0, -0.25 * 0.5 * np.pi * np.sin(angle), 0.0, 0.0])


def main() -> None:
    """Send the goals, move the person's hand, and draw the smallest distances."""
    urdf = pair(shipped_urdf('panda'))
    robot = Robot.from_urdf(urdf, base='pedestal', tip=HANDS)
    shapes = shipped_shapes('panda').repeated(*SIDES)
    tasks = tuple(Task(name=name, link=link) for name, link in zip(('left', 'right'), HANDS))
    law = Law(robot, Settings.of(robot, tasks=tasks, clearance=Clearance.of(shapes, MARGIN)))
    law.obstacles['table'], law.obstacles['hand'] = TABLE, hand_at(0.0)
    arms = Simulation(urdf, law, START + START)
    begin = {task.name: arms.pose(task.link) for task in tasks}
    rows: list[dict[str, float]] = []

    def each() -> None:
        nearest = dict.fromkeys(KINDS, np.nan)  # pairs that are far apart are not compared
        for near in law.limiter.near:
            if near.other in KINDS:
                kind = near.other
            elif near.link[0] != near.other[0]:  # left and right
                kind = 'arm'
            else:
                continue
            nearest[kind] = np.fmin(nearest[kind], near.distance)
        rows.append(nearest)
        law.obstacles['hand'] = hand_at(arms.period * len(rows))

    for goals in GOALS:
        for task, position in zip(tasks, goals):
            goal = begin[task.name].copy()
            goal[:3, 3] = position
            law.follow(goal, task=task.name)
        arms.run(EACH, each=each)
    for kind, label in KINDS.items():
        distances = 1e3 * np.array([row[kind] for row in rows])
        print(f'{label}: at least {np.nanmin(distances):.1f} mm')
        pyplot.plot(arms.period * np.arange(len(rows)), distances, label=label)
    pyplot.axhline(1e3 * MARGIN, color='black', linestyle='--', label='margin')
    pyplot.xlabel('time [s]')
    pyplot.ylabel('smallest distance [mm]')
    pyplot.ylim(bottom=0.0)
    pyplot.legend()
    pyplot.savefig('two_arms_one_table.png')


if __name__ == '__main__':
    main()
