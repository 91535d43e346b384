"""From the joint state of a chain to the torque of posture and tasks, in one compiled call."""

from __future__ import annotations

from functools import cache

import numpy as np

from osc_ros.control.feedback import task_forces, TASK_WIDTH
from osc_ros.control.limits import ZONE
from osc_ros.control.posture import posture_acceleration
from osc_ros.dynamics import priority
from osc_ros.dynamics.chain.layout import (
    A0,
    ENDS_WIDTH,
    FACTOR_WIDTH,
    FORCE,
    LINK_WIDTH,
    POSE,
    TIP_WIDTH,
    TWIST,
    WORK_WIDTH,
)
from osc_ros.dynamics.chain.passes import acceleration_response, inward, jacobian, outward
from osc_ros.dynamics.compiled import kernel
from osc_ros.dynamics.method import DONE


@kernel
def chain_torque(links, ends, work, factor, tip, table, accelerations, integers, numbers, tasks, J,
                 length, low, high, q, qd, posture, wraps, frequency, rate, push, more, tau):
    """
    Torques (n,) of posture and tasks, into tau, and what they do to the joints.

    Every array that a compiled call is handed costs 0.05 to 0.1 µs: one call takes the place of
    six, with the same results.

    Parameters
    ----------
    links, ends, work, factor, tip : `Sweep.arrays`
    table, posture, wraps, frequency, rate, push
        See `osc_ros.control.posture.posture_acceleration`.
    accelerations : (4, n), overwritten
        0: what the tasks and `more` add to the acceleration of the posture; 3: that of the
        posture [rad/s²].
    integers, numbers, tasks, J, length, low, high
        See `osc_ros.control.feedback.task_forces`.
    q, qd : (n,)
    more : (n,) [N·m]
        Torques that act beside those of posture and tasks.
    tau : (n,), written [N·m]

    Returns
    -------
    How many solves were made, or -1 if the motion of the tip is not finite.

    """
    qdd = accelerations[3]
    posture_acceleration(q, qd, posture, wraps, table, frequency, rate, push, qdd)
    if outward(links, ends, q, qd, None, qdd, work, factor, tip) != DONE:
        return -1
    jacobian(links, work, tip, J)
    count = task_forces(
        integers, numbers, tasks, tip[POSE:TWIST].reshape((1, 4, 4)), tip[TWIST:FORCE], J,
        tip[:A0].reshape((6, 6)), tip[A0:POSE], length, low, high)
    F = priority.link_forces(integers, numbers)
    inward(links, ends, None, qdd, F, work, tip, tau)
    acceleration_response(links, ends, more, F, work, factor, tip, accelerations[0])
    return count


@cache
def rehearse_chain() -> None:
    """Compile or load `chain_torque`, once a process, also for a robot that is no chain yet."""
    x, solver = np.ones(1), priority.Priorities([0], 1, 1)
    tasks = -np.ones((1, TASK_WIDTH))  # that turn with no link
    chain_torque(
        np.ones((1, LINK_WIDTH)), np.ones(ENDS_WIDTH), np.ones((1, WORK_WIDTH)),
        np.ones((1, FACTOR_WIDTH)), np.ones(TIP_WIDTH), np.ones((ZONE + 1, 1)), np.ones((4, 1)),
        *solver.arrays, tasks, np.ones((6, 1)), 1.0, 0.1, 0.2, x, x, x,
        np.zeros(1, dtype=np.bool_), 1.0, 1.0, 1.0, x, x.copy())
