# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
From the errors of the tasks to their forces.

Activations and commanded impedances (`put_references`), wrenches (`put_wrenches`), then axes,
kind, error and feedback of each task, and the forces of all tasks (`put_task_forces`).

`put_references` comes before the dynamics of the tick, `put_wrenches` after them, because it
transforms a measured wrench into the task's frame at this tick.

The activation changes by a C² step. The wrench in force approaches the commanded one behind a
critically damped filter, C¹. A closed force loop adds an integral of the force error and its
low-pass filtered value, see `task.ForceControl`. The integral pauses while limits change the
torques or no fresh wrench is measured; the filtered error loses weight as the wrench grows old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from osc_ros.compile.compiled import inlined, kernel, part, view, viewing
from osc_ros.control.tasks.impedance import advance, WRENCH
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.look_at import LookAt, point_on_axis, put_look_at
from osc_ros.dynamics.algebra.spatial import (
    compose,
    damped,
    move_towards,
    rotate,
    rotation_of,
    rotation_vector,
    SETTLED,
    step_share,
    transpose,
    unrotate,
    vector_at,
)
from osc_ros.dynamics.priority import priority


@viewing
def poses_of(law):
    """Poses (m, 4, 4) of the links of a record LAW."""
    return view(law.pose, 0, (law.d.m, 4, 4))


@viewing
def mobility_of(law):
    """Λ⁻¹ (6 m, 6 m) of the links of a record LAW; before the dynamics, of the last tick."""
    return view(law.Lambda_inv, 0, (len(law.a0), len(law.a0)))


@inlined
def axes_of(d, i):
    """Rotation matrix from the axes of task i to base axes, as nine numbers by rows."""
    R = d.task_axes[i]
    return R[0], R[1], R[2], R[3], R[4], R[5], R[6], R[7], R[8]


@inlined
def put_in_axes(R, x, mask, y):
    """Write y = mask · (Rᵀ x), for six numbers [angular; linear]."""
    for half in range(0, 6, 3):
        turned = unrotate(R, (x[half], x[half + 1], x[half + 2]))
        for i in range(3):
            y[half + i] = mask[half + i] * turned[i]


@inlined
def put_in_base(R, x, y):
    """Write y = R x, for six numbers [angular; linear]."""
    for half in range(0, 6, 3):
        y[half], y[half + 1], y[half + 2] = rotate(R, (x[half], x[half + 1], x[half + 2]))


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pose(Kind):
    """
    The default kind: the link follows a pose, along the axes of the task.

    The coordinates are those of the link's twist, so S is the identity. For the error see
    `pose_error`.

    """

    name: ClassVar[str] = 'pose'
    controls: ClassVar[str] = 'position and orientation of the link along chosen axes'

    def set_point(self, pose: Array) -> Array:
        """A copy of the pose (4, 4)."""
        return pose.copy()

    def set_point_twist(self, pose: Array, twist: Array) -> Array:
        """Return the twist (6,) of the link."""
        return twist

    def error(self, pose: Array, goal: Array) -> Array:
        """Pose error (6,) from `pose` to `goal`, see `pose_error`."""
        return pose_error(pose, np.ascontiguousarray(goal))

    def set_point_with_link(self, set_point: Array, T: Array) -> Array:
        """Set-point (4, 4) after the link's frame is moved by T (4, 4) on its body."""
        return set_point @ T


@inlined
def put_error(pose, target, error):
    """Write the rotation vector and the displacement (6,) from a pose (4, 4) to another."""
    turn = rotation_vector(compose(rotation_of(target), transpose(rotation_of(pose))))
    for i in range(3):
        error[i] = turn[i]
        error[3 + i] = target[i, 3] - pose[i, 3]


@inlined
def put_pose(m, d, i):
    """Write the commands of level i for this tick, see `Kind`; return 1."""
    R, moves, error, rate = axes_of(d, i), m.moves[i], d.task_error[i], d.level_rate[i]
    put_error(d.task_pose[i], d.target_pose[i], error)
    for k in range(6):
        rate[k] = d.target_twist[i, k] - d.task_twist[i, k]
    put_in_axes(R, rate, moves, rate)
    put_in_axes(R, error, moves, d.level_spring[i])
    put_in_base(R, d.level_spring[i], d.task_lag[i])
    put_in_axes(R, d.target_acceleration[i], moves, d.level_root[i])
    put_in_axes(R, d.target_twist[i], moves, d.level_velocity[i])
    return 1.0


@inlined
def motion_of_link(d, i):
    """Return `guided_by_link` for a pose: the motion of the link at the last tick."""
    pose, twist = d.task_pose[i], d.task_twist[i]
    return (rotation_of(pose), (pose[0, 3], pose[1, 3], pose[2, 3]), vector_at(twist, 0),
            vector_at(twist, 3), 0.0)


@kernel
def _pose_error(pose, target, error):
    put_error(pose, target, error)


def pose_error(pose: Array, target: Array) -> Array:
    """Pose error (6,) from a pose (4, 4) to a target (4, 4), base axes, [angular; linear]."""
    # Angular: rotation vector from the present orientation to the target's, of length 0 to π
    # [rad]. Linear: difference of the positions [m].
    error = np.empty(6)
    _pose_error(pose, target, error)
    return error


KINDS: dict[str, type[Kind]] = {'pose': Pose, 'look_at': LookAt}


@inlined
def put_kind(m, d, i):
    """Call the compiled part of the kind of task i; return the factor of the activation."""
    return put_look_at(m, d, i) if m.task_kind[i] == 1 else put_pose(m, d, i)


@inlined
def guided_by_link(m, d, i, target):
    """Motion of a set-point that moves with the link of task i: R, x, ω, v; its distance [m]."""
    # At this distance a rotation moves it; 0 for a pose. `target` (4, 4): present set-point.
    return point_on_axis(m, d, i, target) if m.task_kind[i] == 1 else motion_of_link(d, i)


def number_of(kind: Kind) -> int:
    """Index of a kind in KINDS."""
    return list(KINDS).index(kind.name)


FORGETTING = 0.3  # time constant of the decaying weight of an old measured wrench [s]
FRESH = 0.1  # largest age of a fresh measured wrench [s]


@inlined
def _within(x, most):
    return min(max(x, -most), most)


@inlined
def _add_correction(m, d, i, R, time, dt):
    """Add the feedback of the measured wrench to the wrench of level i."""
    age, decay = time - d.measured_time[i], np.exp(-d.force_filter_rate[i] * dt)
    weight = np.exp(min(0.0, FRESH - age) / FORGETTING) * m.force_gain[i]
    x = d.measured_wrench[i]
    for half in range(2):
        first, most = 3 * half, m.force_correction[i, half]
        measured = unrotate(R, (x[first], x[first + 1], x[first + 2]))
        for k in range(3):
            a = first + k
            missing = m.forces[i, a] * (d.wrench[i, a] - measured[k])
            if age <= FRESH and not d.limits_work:
                d.wrench_integral[i, a] = _within(
                    d.wrench_integral[i, a] + d.force_integral_rate[i] * dt * missing, most)
            d.wrench_filtered[i, a] = missing + decay * (d.wrench_filtered[i, a] - missing)
            d.level_wrench[i, a] += d.wrench_integral[i, a] + _within(
                weight * d.wrench_filtered[i, a], most)


@kernel
def put_references(m, d, mobility):
    """Advance changing activations and commanded impedances; for `mobility` see `mobility_of`."""
    for i in range(d.k):
        if d.activation_age[i] <= m.blend_time:
            share = step_share(d.activation_age[i], d.tick, m.blend_time, True)
            d.activation_age[i] += d.tick
            move_towards(d.activation[i], m.wanted_activation[i], share)
        if d.is_commanded[i] != 0:
            advance(m, d, i, mobility)
            for a in range(6):
                d.feedback_rates[i, a] = 2.0 * d.impedance[i, 1, a] * np.sqrt(d.impedance[i, 0, a])


@kernel
def put_wrenches(m, d, poses):
    """Advance the wrenches of the tasks with axes of force; write them to `level_wrench`."""
    # `poses` (m, 4, 4) are those of the links at this tick. While the limits change the torques,
    # the integral of the force error pauses.
    time = d.time
    for i in range(d.k):
        if not m.forces[i].any():
            continue
        dt = time - d.wrench_time[i] if time > d.wrench_time[i] else 0.0
        d.wrench_time[i] = time
        for a in range(6):
            d.wrench[i, a], d.wrench_rate[i, a] = damped(
                d.wrench[i, a], d.wrench_rate[i, a], d.wanted_wrench[i, a],
                m.blend_time / SETTLED, dt)
            d.level_wrench[i, a] = m.forces[i, a] * d.wrench[i, a]
        if m.closes_force[i] != 0:
            source = m.turns_with[i]
            R = rotation_of(poses[source]) if source >= 0 else axes_of(d, i)
            _add_correction(m, d, i, R, time, dt)
        if d.is_commanded[i] != 0:
            for a in range(6):
                d.level_wrench[i, a] += m.moves[i, a] * d.impedance[i, WRENCH, a]


@inlined
def _scale_to(x, start, most):
    """Factor of at most 1 that limits the norm of x[start:start + 3] to `most`."""
    total = 0.0
    for k in range(start, start + 3):
        total += x[k] * x[k]
    return min(1.0, most / np.sqrt(total)) if total > 0.0 else 1.0


@inlined
def put_feedback(error, rate, acceleration, frequency, ratio, speed, most, u):
    """Write u = a_d + 2ζω(v_d - v) + ω² e of a link, (6,) each, in the axes of the arguments."""
    # As a_d + 2ζω(v_d - v + ω/(2ζ) e), `rate` being v_d - v: the approach speed ω/(2ζ) e, then the
    # feedback, are scaled down to `speed` and `most` (see `Gains`) and keep their directions. So
    # the link approaches a far target at a bounded speed without wind-up.
    for half in range(2):
        axes = range(3 * half, 3 * half + 3)
        for k in axes:
            u[k] = frequency[k] / (2.0 * ratio[k]) * error[k]
        slower = _scale_to(u, 3 * half, speed[half])
        for k in axes:
            u[k] = 2.0 * ratio[k] * frequency[k] * (rate[k] + slower * u[k])
        softer = _scale_to(u, 3 * half, most[half])
        for k in axes:
            u[k] = acceleration[k] + softer * u[k]


@inlined
def _put_spring(m, d, i):
    """Write force, root and weight of a spring, see `LEVELS_D`; overwrite the acceleration."""
    u, e, a, bounds = d.level_u[i], d.level_spring[i], d.level_root[i], m.feedback_bounds[i]
    for half in range(2):
        for k in range(3 * half, 3 * half + 3):
            u[k] = a[k]
            e[k] *= d.task_gain[i, k]
            a[k] = np.sqrt(d.task_gain[i, k]) * m.moves[i, k]
            d.level_weight[i, k] = np.sqrt(2.0 * d.task_ratio[i, k]) * a[k]
        softer = _scale_to(e, 3 * half, bounds[half])
        for k in range(3 * half, 3 * half + 3):
            e[k] *= softer


@inlined
def _put_level(m, d, i):
    """Write the commands of level i of `Priorities`, error and command of task i."""
    share, R, twist = put_kind(m, d, i), axes_of(d, i), d.task_twist[i]
    u, e, rate = d.level_u[i], d.level_spring[i], d.level_rate[i]
    for k in range(9):
        d.level_frame[i, k] = R[k]
    for k in range(6):
        d.level_activation[i, k] = share * d.activation[i, k]
    a = d.level_root[i]  # overwritten below
    if m.is_spring[i] != 0:
        _put_spring(m, d, i)
    else:
        bounds = m.feedback_bounds[i]
        put_feedback(e, rate, a, d.task_gain[i], d.task_ratio[i], bounds[:2], bounds[2:], u)
        for k in range(6):
            e[k] = a[k] = 0.0
    for half in range(0, 6, 3):
        v = unrotate(R, (twist[half], twist[half + 1], twist[half + 2]))
        for k in range(3):
            u[half + k] -= d.task_drag[i, half + k] * v[k]
    put_in_base(R, u, d.task_u[i])


@part
def put_task_forces(law):
    """Write the forces of all tasks on their links, by priority."""
    # The caller must have set `level_wrench` and `level_fastest`.
    m, d, poses = law.m, law.d, poses_of(law)
    for i in range(d.k):
        link, source = m.level_link[i], m.turns_with[i]
        if source >= 0:
            for k in range(9):
                d.task_axes[i, k] = poses[source, k // 3, k % 3]
        for k in range(16):
            d.task_pose[i, k // 4, k % 4] = poses[link, k // 4, k % 4]
        for k in range(6):
            d.task_twist[i, k] = law.twist[6 * link + k]
        _put_level(m, d, i)
    priority.put_solution(m, d, d.J, mobility_of(law), law.a0)
