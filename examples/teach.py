# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
A hand guides the arm in free drive; its path, or single poses, are recorded and played back.

    python examples/teach.py record wipe.json            a path, from Enter to Enter
    python examples/teach.py record shelf.json --poses   poses, one for each Enter; q Enter: end
    python examples/teach.py play wipe.json --speed 0.5

The arm is that of a running controller, `--controller NAME`. With `--simulated` it is an arm of
this process, which a push along a bow guides for 3 s. Set the payload before you guide an arm.
"""

import argparse
import json
from pathlib import Path
from threading import Thread

import numpy as np

import osc_ros

PERIOD = 0.02  # time between two recorded states [s]
MEAN = 7  # a point is the mean of this number of states
EVERY = 3  # of so many points one is a point of the path
MOVED = 2e-3  # an arm that moves less is at rest [rad, m]
LEAD = 0.3  # time to the first point of a path, and to the last before the end [s]
TO_START = 0.3  # speed of the joints on the way to the first point [rad/s, m/s]


def entered(arm: osc_ros.Arm, prompt: str) -> str:
    """Return a line of the user; the arm goes on meanwhile."""
    lines: list[str] = []
    reader = Thread(target=lambda: lines.append(input(prompt)), daemon=True)
    reader.start()
    while reader.is_alive():
        arm.sleep(PERIOD)
    return lines[0].strip() if lines else 'q'


def guided_path(arm: osc_ros.Arm, is_over) -> tuple[np.ndarray, np.ndarray]:
    """Return times (m,) and positions (m, n) of the joints while a hand guides the arm."""
    states = [arm.state()]
    while not is_over():
        states.append(arm.sleep(PERIOD))
    times, q = np.array([s.time for s in states]), np.array([s.q for s in states])
    moves = np.flatnonzero((np.abs(q - q[0]) > MOVED).any(axis=1)
                           & (np.abs(q - q[-1]) > MOVED).any(axis=1))
    if len(moves) < MEAN * EVERY:
        raise SystemExit(f'the arm moved for {PERIOD * len(moves):.2f} s: guide it for longer')
    own = slice(max(moves[0] - MEAN, 0), moves[-1] + MEAN)  # without the pauses at the ends
    q = np.vstack([np.tile(q[own][0], (MEAN // 2, 1)), q[own], np.tile(q[own][-1],
                                                                       (MEAN // 2, 1))])
    smooth = np.column_stack([np.convolve(column, np.full(MEAN, 1.0 / MEAN), 'valid')
                              for column in q.T])
    return (times[own] - times[own][0])[::EVERY], smooth[::EVERY]


def guided_poses(arm: osc_ros.Arm) -> tuple[np.ndarray, np.ndarray]:
    """Return times (m,) and positions (m, n) of the joints at each Enter."""
    states = []
    while entered(arm, f'{len(states)} poses; Enter: one more, q Enter: end ') != 'q':
        states.append(arm.state())
    return np.array([s.time for s in states]), np.array([s.q for s in states])


def pushed(arm: osc_ros.Arm):
    """Push a simulated arm along a bow for 3 s; return a function that says when it is over."""
    begun, link = arm.state().time, 'panda_hand'

    def is_over() -> bool:
        time = arm.state().time - begun
        force = 12.0 * np.array([0.0, np.cos(1.5 * time), np.sin(1.5 * time)]) * (time < 2.0)
        arm.simulation.plant.push(link, force)
        return time > 3.0

    return is_over


def record(arm: osc_ros.Arm, file: Path, poses: bool, simulated: bool) -> None:
    """Write a file of what a hand does."""
    if file.exists():
        raise SystemExit(f'{file} exists: give the name of a new file')
    arm.free_drive(True)
    try:
        if poses:
            times, q = guided_poses(arm)
        elif simulated:
            times, q = guided_path(arm, pushed(arm))
        else:
            entered(arm, 'Enter: begin the path ')
            end = Thread(target=input, args=['Enter: end it '], daemon=True)
            end.start()
            times, q = guided_path(arm, lambda: not end.is_alive())
    finally:
        arm.free_drive(False)
    if not len(q):
        raise SystemExit('no pose was recorded')
    file.write_text(json.dumps({'joint_names': arm.joint_names, 'is_path': not poses,
                                'times': times.tolist(), 'positions': q.tolist()}))
    print(f'{file}: {len(q)} points')


def play(arm: osc_ros.Arm, file: Path, speed: float, pause: float) -> None:
    """Move to the first point, and along the path or to the poses."""
    found = json.loads(file.read_text())
    if tuple(found['joint_names']) != tuple(arm.joint_names):
        raise SystemExit(f"{file} is of an arm with the joints {found['joint_names']}")
    q, times = np.array(found['positions']), np.array(found['times'])
    arm.move_joints(q[0], speed=TO_START)
    if found['is_path']:
        arm.follow_joints(np.vstack([q[:1], q]), [0.5 * LEAD, *(LEAD + times / speed)])
        arm.wait()
    else:
        for point in q:
            arm.move_joints(point, speed=TO_START)
            arm.sleep(pause)
    print(f'played; the joints are {np.abs(arm.state().q - q[-1]).max():.4f} rad from the end')


def main(arguments: list[str] | None = None) -> None:
    """Record or play."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('action', choices=('record', 'play'))
    parser.add_argument('file', type=Path)
    parser.add_argument('--poses', action='store_true', help='record poses, not a path')
    parser.add_argument('--speed', type=float, default=1.0, help='factor of the speed of a path')
    parser.add_argument('--pause', type=float, default=1.0, help='at each pose [s]')
    parser.add_argument('--controller', default='osc_controller')
    parser.add_argument('--simulated', action='store_true', help='an arm of this process')
    options = parser.parse_args(arguments)
    with (osc_ros.Arm.simulated('panda') if options.simulated else
          osc_ros.Arm.ros(options.controller)) as arm:
        if options.action == 'record':
            record(arm, options.file, options.poses, options.simulated)
        else:
            play(arm, options.file, options.speed, options.pause)


if __name__ == '__main__':
    main()
