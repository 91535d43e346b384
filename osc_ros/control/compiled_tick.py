"""Torque of posture and tasks from the joint state, in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.feedback import task_forces
from osc_ros.control.limits import ZONE
from osc_ros.control.posture import posture_acceleration
from osc_ros.control.task_numbers import TASK_WIDTH
from osc_ros.dynamics import priority
from osc_ros.dynamics.chain.layout import A0, FORCE, POSE, TWIST
from osc_ros.dynamics.chain.passes import acceleration_response, inward, jacobian, outward
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.compiled import kernel
from osc_ros.dynamics.method import DONE, Method
from osc_ros.dynamics.trees import tree
from osc_ros.dynamics.trees.layout import EXTENDED, memory_in, pendulum
from osc_ros.dynamics.trees.tree import Tree

Array = NDArray[np.float64]
Kernel: TypeAlias = Callable[..., int]


@kernel
def chain_torque(links, ends, work, factor, tip, table, accelerations, integers, numbers, tasks, J,
                 length, low, high, q, qd, posture, wraps, frequency, rate, push, more, tau):
    """
    Write the torques of posture and tasks, and the accelerations that they cause.

    Every array argument of a compiled call takes 0.05 to 0.1 µs, so this one call replaces six
    calls; the results are the same.

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
        Torques that act in addition to those of posture and tasks.
    tau : (n,), written [N·m]

    Returns
    -------
    int
        Number of solves; -1 if the motion of the tip is not finite.

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


@kernel
def tree_torque(constants, parameters, room, table, accelerations, integers, numbers, tasks, J,
                length, low, high, q, qd, posture, wraps, frequency, rate, push, more, tau):
    """
    `chain_torque` for a tree.

    Parameters
    ----------
    constants, parameters, room : `Tree.arrays`

    """
    qdd = accelerations[3]
    none = qdd[:0]
    posture_acceleration(q, qd, posture, wraps, table, frequency, rate, push, qdd)
    if tree.outward(constants, parameters, room, q, qd, none, qdd) != DONE:
        return -1
    tree.motions(constants, parameters, room, J)
    found = memory_in(constants, room)[1]
    count = task_forces(
        integers, numbers, tasks, found.poses.reshape((len(found.poses), 4, 4)), found.twists, J,
        found.Lambda_inv, found.a0, length, low, high)
    F = priority.link_forces(integers, numbers)
    tree.torques(constants, parameters, room, none, qdd, F, tau)
    tree.acceleration_response(constants, parameters, room, more, F, accelerations[0])
    return count


def _rehearse(tick: Kernel, dynamics: Sweep | Tree) -> Kernel:
    """Compile a kernel, or load it from the cache; return it."""
    x, solver = np.ones(1), priority.Priorities([0], 1, 1)
    tasks = -np.ones((1, TASK_WIDTH))  # TURNS_WITH = -1: the frame turns with no link
    tick(*dynamics.arrays, np.ones((ZONE + 1, 1)), np.ones((4, 1)), *solver.arrays, tasks,
         np.ones((6, 1)), 1.0, 0.1, 0.2, x, x, x, np.zeros(1, dtype=np.bool_), 1.0, 1.0, 1.0, x,
         x.copy())
    return tick


@cache
def _chain_kernel() -> Kernel:
    return _rehearse(chain_torque, Sweep(pendulum()))


@cache
def _tree_kernel() -> Kernel:
    return _rehearse(tree_torque, Tree(pendulum(), EXTENDED))


def compiled_tick(dynamics: Method) -> tuple[Kernel, tuple[Array, ...]] | None:
    """The compiled tick of a method and its first arguments; None if the method has none."""
    if type(dynamics) is Sweep:
        return _chain_kernel(), dynamics.arrays
    if type(dynamics) is Tree:
        return _tree_kernel(), dynamics.arrays
    return None
