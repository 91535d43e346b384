# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
A loop of pylibfranka that computes nothing, as a reference for `cycles`.

`python benchmark/empty_loop.py ADDRESS PRIORITY SECONDS FILE`: zero torques at the rate of the
arm, under SCHED_FIFO with this priority, 0 for none. The file gets the times of the cycles [ns],
in the columns of parameter record_cycles of osc_arm.

"""

from __future__ import annotations

import gc
import os
import sys
from time import perf_counter_ns

import numpy as np
import pylibfranka

from osc_ros.loop.process import realtime


def main(address: str, priority: int, seconds: float, file: str) -> None:
    """Run, also if the arm ends the motion; write the file."""
    policy = os.sched_getscheduler(0), os.sched_getparam(0)
    robot = pylibfranka.Robot(address, pylibfranka.RealtimeConfig.kIgnore)
    os.sched_setscheduler(0, *policy)  # libfranka takes SCHED_FIFO even so, if it may
    realtime.wake_on_time()
    if priority:
        realtime.lock_memory()
        realtime.prioritize(priority)
    times = np.zeros((round(1e3 * seconds), 3), dtype=np.int64)
    torques = pylibfranka.Torques([0.0] * 7)
    gc.disable()
    control = robot.start_torque_control()
    try:
        for row in times:
            control.readOnce()
            row[0] = perf_counter_ns()
            row[1] = perf_counter_ns()
            control.writeOnce(torques)
            row[2] = perf_counter_ns()
        torques.motion_finished = True
        control.writeOnce(torques)
    except pylibfranka.FrankaException as error:
        print(error, file=sys.stderr)
    np.save(file, times)


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
