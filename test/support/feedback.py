# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The commanded acceleration of a task, by the kernel."""

from numba import njit
import numpy as np

from osc_ros.control.tasks.feedback import put_feedback
from osc_ros.control.tasks.task import Gains


def gains(**changes):
    usual = {'natural_frequency': [20.0, 15.0, 10.0, 12.0, 18.0, 25.0],
             'damping_ratio': [1.0, 0.7, 1.5, 1.0, 0.5, 2.0],
             'speed': [1e6, 1e6], 'acceleration': [1e9, 1e9]}
    return Gains(**usual | changes)


@njit
def put(error, rate, acceleration, frequency, ratio, speed, most, u):
    put_feedback(error, rate, acceleration, frequency, ratio, speed, most, u)


def task_acceleration(error, twist, target, gains):
    """Return the commanded acceleration (6,) of a tip."""
    u = np.empty(6)
    put(error, target.twist - twist, target.acceleration, gains.natural_frequency,
        gains.damping_ratio, gains.speed, gains.acceleration, u)
    return u
