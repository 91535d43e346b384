# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Operational-space torques for the tensors of learning libraries: Isaac Lab, mjlab, MuJoCo MJX.

Arguments and results are tensors of shape (num_envs, …), in the library's order of quaternions and
twists. CPU tensors share their memory with the kernels if they are float64 and contiguous; GPU
tensors stay on the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
import sys
from typing import Any, NamedTuple

import numpy as np

from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.errors import InputError

CPU = 1  # device type of the CPU in DLPack
SWAP = [3, 4, 5, 0, 1, 2]  # [angular; linear] to [linear; angular], and back


class Conventions(NamedTuple):
    """
    Order of quaternions and twists in a library.

    Attributes
    ----------
    quaternion : 'wxyz' or 'xyzw'
    is_linear_first : bool
        Whether twists, accelerations and rows of Jacobians are [linear; angular].

    """

    quaternion: str
    is_linear_first: bool = True


CONVENTIONS = {
    'isaaclab2': Conventions('wxyz'), 'isaaclab3': Conventions('xyzw'),
    'mjlab': Conventions('wxyz'), 'mjx': Conventions('wxyz', False),
    'osc_ros': Conventions('xyzw', False)}


class Tip(NamedTuple):
    """
    Tips of many robots, in base axes.

    Attributes
    ----------
    pose : (num_envs, 7)
        Position [m] and quaternion.
    twist : (num_envs, 6) [m/s, rad/s]

    """

    pose: Any
    twist: Any


class TensorSpace:
    """
    An `OperationalSpace` for many robots at once, for tensors in a library's conventions.

    Arguments are arrays of PyTorch, JAX, NumPy, or of any library with DLPack; all of one library
    and on one device. Results have the library and precision of `joint_pos`; for other libraries
    they are NumPy arrays. float64 on the CPU is not copied; float32 is converted, and computed in
    float64. Poses and twists are those of the tip in the frame of the base.

    Parameters
    ----------
    osc : OperationalSpace
        With one tip, and without spherical joints.
    conventions : str or Conventions
        A name in CONVENTIONS.
    joint_names : sequence of str, optional
        Names of the columns of `joint_pos` and `joint_vel`; default: those of the robot.

    Attributes
    ----------
    joint_ids : list of int
        Columns of `joint_pos` for the robot's joints; torques have the same order.

    Raises
    ------
    InputError
        The conventions are unknown, joints are missing, or the robot is not supported.

    """

    def __init__(self, osc: OperationalSpace, conventions: str | Conventions = 'osc_ros',
                 joint_names: Sequence[str] | None = None) -> None:
        if isinstance(conventions, str):
            if conventions not in CONVENTIONS:
                raise InputError(f"conventions '{conventions}' are unknown (known: "
                                 f"{', '.join(CONVENTIONS)})")
            conventions = CONVENTIONS[conventions]
        robot = osc.robot
        if conventions.quaternion not in ('wxyz', 'xyzw'):
            raise InputError(f"quaternion is '{conventions.quaternion}': must be 'wxyz' or "
                             "'xyzw'")
        if len(robot.tips) != 1 or robot.nq != robot.n:
            raise InputError(f"robot '{robot.name}' has {len(robot.tips)} tips and {robot.nq} "
                             f'joint positions for {robot.n} velocities: give one tip, '
                             'and no spherical joints')
        names = robot.joint_names if joint_names is None else list(joint_names)
        missing = [name for name in robot.joint_names if name not in names]
        if missing:
            raise InputError(f"joint_names lack '{missing[0]}' of robot '{robot.name}'")
        self.osc, self.conventions = osc, conventions
        self.joint_ids = [names.index(name) for name in robot.joint_names]
        self._width = len(names)

    def torque(self, joint_pos: Any, joint_vel: Any, acceleration: Any,
               posture_acceleration: Any = None) -> Any:
        """
        Return joint torques (num_envs, n), in the order of `joint_ids`; NaN for a bad state.

        Parameters
        ----------
        joint_pos, joint_vel : (num_envs, joints)
        acceleration : (num_envs, 6)
            Acceleration of the tip, in base axes and the library's order.
        posture_acceleration : (num_envs, n), optional
            See `OperationalSpace.torque`; in the order of `joint_ids`.

        """
        q, qd, u, posture = map(
            as_kernel_array, (joint_pos, joint_vel, acceleration, posture_acceleration))
        found = self.osc.torque_batch(*self._state(q, qd), self._ordered('acceleration', u),
                                      posture_acceleration=posture)
        return as_library_array(found.tau, joint_pos)

    def tip(self, joint_pos: Any, joint_vel: Any) -> Tip:
        """Return pose and twist of the tips, in base axes and the library's order."""
        pose, twist = self._tip(*self._state(as_kernel_array(joint_pos),
                                             as_kernel_array(joint_vel)))
        quaternion = _quaternion(pose[:, :3, :3])
        if self.conventions.quaternion == 'wxyz':
            quaternion = quaternion[:, [3, 0, 1, 2]]
        both = _library(pose).concatenate((pose[:, :3, 3], quaternion), axis=1)
        return Tip(as_library_array(both, joint_pos),
                   as_library_array(self._ordered('twist', twist), joint_pos))

    def track(self, joint_pos: Any, joint_vel: Any, target: Tip, stiffness: float,
              damping: float, acceleration: Any = None, posture_acceleration: Any = None) -> Any:
        """
        Return torques (num_envs, n) that move the tips to targets.

        Tip acceleration = target acceleration + stiffness × pose error + damping × twist error.
        The orientation error is a rotation vector.

        Parameters
        ----------
        target : Tip
            Poses and twists of the targets, in the form that `tip` returns.
        stiffness, damping : float [1/s², 1/s]
        acceleration : (num_envs, 6), optional
            Accelerations of the targets; default: 0.
        posture_acceleration : (num_envs, n), optional
            See `torque`.

        """
        q, qd = self._state(as_kernel_array(joint_pos), as_kernel_array(joint_vel))
        goal, velocity = map(as_kernel_array, target)
        if tuple(goal.shape) != (len(q), 7):
            raise InputError(f'target.pose has shape {tuple(goal.shape)}, must be '
                             f'{(len(q), 7)}')
        pose, twist = self._tip(q, qd)
        quaternion = goal[:, 3:]
        if self.conventions.quaternion == 'wxyz':
            quaternion = quaternion[:, [1, 2, 3, 0]]
        turn = _rotation_vector(_times_conjugate(quaternion, _quaternion(pose[:, :3, :3])))
        error = _library(pose).concatenate((turn, goal[:, :3] - pose[:, :3, 3]), axis=1)
        u = stiffness * error + damping * (self._ordered('target.twist', velocity) - twist)
        if acceleration is not None:
            u = u + self._ordered('acceleration', as_kernel_array(acceleration))
        found = self.osc.torque_batch(q, qd, u,
                                      posture_acceleration=as_kernel_array(posture_acceleration))
        return as_library_array(found.tau, joint_pos)

    def _state(self, q: Any, qd: Any) -> tuple[Any, Any]:
        for name, values in (('joint_pos', q), ('joint_vel', qd)):
            if len(values.shape) != 2 or values.shape[1] != self._width:
                raise InputError(f'{name} has shape {tuple(values.shape)}, must be '
                                 f'(num_envs, {self._width})')
        if self.joint_ids == list(range(self._width)):
            return q, qd
        return q[:, self.joint_ids], qd[:, self.joint_ids]

    def _tip(self, q: Any, qd: Any) -> tuple[Any, Any]:
        found = self.osc.evaluate_batch(q, qd, ('pose', 'twist'), check=False)
        return found.pose, found.twist

    def _ordered(self, name: str, values: Any) -> Any:
        """Exchange angular and linear parts if the order in the library differs from osc_ros."""
        if len(values.shape) != 2 or values.shape[1] != 6:
            raise InputError(f'{name} has shape {tuple(values.shape)}, must be (num_envs, 6)')
        return values[:, SWAP] if self.conventions.is_linear_first else values


def is_on_host(values: Any) -> bool:
    """Whether an array is in the memory of the CPU."""
    device = getattr(values, '__dlpack_device__', None)
    return device is None or int(device()[0]) == CPU


def as_kernel_array(values: Any) -> Any:
    """Float64 NumPy array of the values, without a copy if possible; on a GPU unchanged."""
    # InputError if a tensor requires a gradient
    if values is None or isinstance(values, np.ndarray):
        return values
    if getattr(values, 'requires_grad', False):
        raise InputError('a tensor requires a gradient, but the law is not differentiated: '
                         'give tensor.detach()')
    if not is_on_host(values):
        return values
    found = np.from_dlpack(values) if hasattr(values, '__dlpack__') else np.asarray(values)
    return np.asarray(found, dtype=np.float64)


def as_library_array(values: Any, like: Any) -> Any:
    """Return a result as an array of the library and precision of `like`, if possible uncopied."""
    if not isinstance(values, np.ndarray):
        return values
    single = str(getattr(like, 'dtype', '')).endswith('float32')
    values = np.ascontiguousarray(values, dtype=np.float32 if single else np.float64)
    library = type(like).__module__.partition('.')[0]
    if library == 'torch':
        return sys.modules['torch'].from_dlpack(values)
    if library in ('jax', 'jaxlib'):
        return sys.modules['jax'].numpy.from_dlpack(values)
    return values


def _library(values: Any) -> Any:
    """Return the module NumPy, or PyTorch if `values` is a GPU tensor."""
    # the functions that are used here are the same in both modules
    return sys.modules[type(values).__module__.partition('.')[0]]


def _quaternion(R: Any) -> Any:
    """Return quaternions x y z w (k, 4) of rotations (k, 3, 3)."""
    # There are four formulas: the one with the largest component is used.
    xp = _library(R)
    trace = R[:, 0, 0] + R[:, 1, 1] + R[:, 2, 2]
    rows = []
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        row: list[Any] = [None] * 4
        row[i] = 1.0 + 2.0 * R[:, i, i] - trace
        row[j], row[k] = R[:, i, j] + R[:, j, i], R[:, i, k] + R[:, k, i]
        row[3] = R[:, k, j] - R[:, j, k]
        rows.append(xp.stack(row, axis=1))
    rows.append(xp.stack((R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0],
                          R[:, 1, 0] - R[:, 0, 1], 1.0 + trace), axis=1))
    found = rows[3]
    size = 1.0 + trace
    for i in range(3):  # each row is the quaternion times 4 times one of its components
        is_larger = rows[i][:, i] > size
        found = xp.where(is_larger[:, None], rows[i], found)
        size = xp.where(is_larger, rows[i][:, i], size)
    return found / xp.sqrt((found * found).sum(axis=1))[:, None]


def _times_conjugate(a: Any, b: Any) -> Any:
    """Return products a b*, for quaternions x y z w (k, 4)."""
    x, y, z, w = (a[:, i] for i in range(4))
    X, Y, Z, W = -b[:, 0], -b[:, 1], -b[:, 2], b[:, 3]
    return _library(a).stack((w * X + x * W + y * Z - z * Y, w * Y - x * Z + y * W + z * X,
                              w * Z + x * Y - y * X + z * W, w * W - x * X - y * Y - z * Z),
                             axis=1)


def _rotation_vector(quaternion: Any) -> Any:
    """Return rotation vectors (k, 3), at most π long, of unnormalized quaternions x y z w."""
    xp = _library(quaternion)
    v, w = quaternion[:, :3], quaternion[:, 3]
    size = xp.sqrt((v * v).sum(axis=1))
    least = np.finfo(np.float32).tiny
    half = xp.arctan2(size, abs(w))
    scale = xp.where(size > least, 2.0 * half / (size + least), 2.0 / (abs(w) + least))
    return (xp.where(w < 0.0, -scale, scale))[:, None] * v
