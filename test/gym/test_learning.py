# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The adapter for learning libraries: conventions, shared memory, tensors of PyTorch."""

from functools import cache

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from osc_ros import InputError, OperationalSpace, Robot, shipped_urdf
from osc_ros.learning import as_kernel_array, as_library_array, CONVENTIONS, SWAP, TensorSpace, Tip

K = 11


@cache
def panda():
    """Return an OperationalSpace of the shipped Panda."""
    return OperationalSpace(
        Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp'))


def states(k=K):
    """Return q within the limits, q̇ and u of k states."""
    rng = np.random.default_rng(1)
    return (rng.uniform(*panda().robot.position_limits.T, (k, 7)), rng.normal(size=(k, 7)),
            rng.normal(size=(k, 6)))


class Exported:
    """An array of a library that NumPy does not know: it has DLPack and nothing else."""

    def __init__(self, values, device=(1, 0)):
        self._values, self._device = values, device
        self.shape, self.dtype = values.shape, values.dtype

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


@pytest.mark.parametrize('name', CONVENTIONS)
def test_poses_and_twists_are_in_the_order_of_the_library(name):
    q, qd, u = states()
    space, terms = TensorSpace(panda(), name), panda().evaluate_batch(q, qd)
    tip, order = space.tip(q, qd), CONVENTIONS[name]
    scalar_last = tip.pose[:, 3:]
    if order.quaternion == 'wxyz':
        scalar_last = tip.pose[:, [4, 5, 6, 3]]
    np.testing.assert_allclose(Rotation.from_quat(scalar_last).as_matrix(),
                               terms.pose[:, :3, :3], atol=1e-14)
    np.testing.assert_array_equal(tip.pose[:, :3], terms.pose[:, :3, 3])
    swap = SWAP if order.is_linear_first else slice(None)
    np.testing.assert_array_equal(tip.twist, terms.twist[:, swap])
    np.testing.assert_array_equal(space.torque(q, qd, u[:, swap]),
                                  panda().torque_batch(q, qd, u).tau)


@pytest.mark.parametrize('name', ['isaaclab2', 'isaaclab3', 'osc_ros'])
def test_tracking_asks_for_the_error_of_pose_and_twist(name):
    q, qd, u = states()
    rng, space = np.random.default_rng(2), TensorSpace(panda(), name)
    terms = panda().evaluate_batch(q, qd)
    turn = rng.normal(size=(K, 3))
    turn[0], turn[1], turn[2] = 0.0, 1e-12, np.pi * np.array([0.6, 0.0, 0.8]) * (1 - 1e-9)
    shift, twist = rng.normal(size=(2, K, 6))
    goal = Rotation.from_rotvec(turn) * Rotation.from_matrix(terms.pose[:, :3, :3])
    quaternion = goal.as_quat() * rng.choice([-1.0, 1.0], (K, 1))
    order = CONVENTIONS[name]
    swap = SWAP if order.is_linear_first else slice(None)
    if order.quaternion == 'wxyz':
        quaternion = quaternion[:, [3, 0, 1, 2]]
    pose = np.hstack((terms.pose[:, :3, 3] + shift[:, :3], quaternion))
    error = np.hstack((Rotation.from_rotvec(turn).as_rotvec(), shift[:, :3]))
    expected = panda().torque_batch(
        q, qd, 9.0 * error + 4.0 * (twist - terms.twist) + u, posture_acceleration=-qd).tau
    found = space.track(q, qd, Tip(pose, twist[:, swap]), 9.0, 4.0, u[:, swap], -qd)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_joints_are_found_by_name():
    q, qd, u = states()
    names = ['finger', *reversed(panda().robot.joint_names)]
    theirs = [np.hstack((np.full((K, 1), np.nan), values[:, ::-1])) for values in (q, qd)]
    space = TensorSpace(panda(), joint_names=names)
    assert [names[i] for i in space.joint_ids] == list(panda().robot.joint_names)
    np.testing.assert_array_equal(space.torque(*theirs, u), panda().torque_batch(q, qd, u).tau)
    with pytest.raises(InputError, match="joint_names .*'panda_joint1'"):
        TensorSpace(panda(), joint_names=names[:-1])


def test_any_array_with_dlpack_is_read_in_place():
    q, qd, u = states()
    assert np.shares_memory(as_kernel_array(Exported(q)), q)
    np.testing.assert_array_equal(
        TensorSpace(panda()).torque(Exported(q), Exported(qd), Exported(u)),
        panda().torque_batch(q, qd, u).tau)
    single = as_library_array(q, Exported(q.astype(np.float32)))
    assert single.dtype == np.float32 and as_library_array(q, Exported(q)) is q


def test_bad_input_is_refused():
    q, qd, u = states()
    space, robot = TensorSpace(panda()), panda().robot
    for call, message in (
            (lambda: TensorSpace(panda(), 'gym'), "'gym' .*isaaclab2"),
            (lambda: space.torque(q[:, :6], qd, u), r'joint_pos .*\(11, 6\), (give|must be)'),
            (lambda: space.torque(q, qd[0], u), r'joint_vel .*\(7,\), (give|must be)'),
            (lambda: space.torque(q, qd, u[:, :3]), r'acceleration .*\(11, 3\)'),
            (lambda: space.torque(q, qd, u[:3]), r'u .*\(3, 6\).*(give|must be).*\(11, 6'),
            (lambda: space.track(q, qd, Tip(u, u), 1.0, 1.0), r'target.pose .*\(11, 6\)'),
            (lambda: TensorSpace(
                OperationalSpace(robot, 'dense', ['panda_link4', 'panda_link7'])),
             '2 tips.*(give|must be).*one')):
        with pytest.raises(InputError, match=message):
            call()


def test_tensors_of_pytorch_share_their_memory():
    torch = pytest.importorskip('torch')
    q, qd, u = states()
    space, tensors = TensorSpace(panda(), 'isaaclab3'), list(map(torch.from_numpy, (q, qd, u)))
    assert np.shares_memory(as_kernel_array(tensors[0]), q)
    tau = space.torque(*tensors)
    assert isinstance(tau, torch.Tensor) and tau.dtype == torch.float64
    expected = panda().torque_batch(q, qd, u[:, SWAP]).tau
    np.testing.assert_array_equal(tau.numpy(), expected)
    tip = space.tip(*tensors[:2])
    assert tip.pose.shape == (K, 7) and isinstance(tip.twist, torch.Tensor)
    single = space.torque(*(tensor.float() for tensor in tensors))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), expected, atol=1e-3 * np.abs(expected).max())
    still = space.track(*tensors[:2], tip, 100.0, 20.0, posture_acceleration=-tensors[1])
    expected = panda().torque_batch(q, qd, 0.0 * u, posture_acceleration=-qd).tau
    np.testing.assert_allclose(still.numpy(), expected, atol=1e-9 * np.abs(expected).max())
    with pytest.raises(InputError, match='gradient'):
        space.torque(tensors[0].requires_grad_(), *tensors[1:])


def test_arrays_of_jax_come_back_as_arrays_of_jax():
    jax = pytest.importorskip('jax', exc_type=ImportError)
    q, qd, u = states()
    expected = panda().torque_batch(q, qd, u).tau
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(one) for one in (q, qd, u)]
        tau = TensorSpace(panda()).torque(*arrays)
        assert isinstance(tau, jax.Array) and tau.dtype == np.float64
        np.testing.assert_array_equal(np.asarray(tau), expected)
        tip = TensorSpace(panda()).tip(*arrays[:2])
        assert isinstance(tip.pose, jax.Array) and tip.pose.shape == (K, 7)
    single = TensorSpace(panda()).torque(*(jax.numpy.asarray(one) for one in (q, qd, u)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-3 * np.abs(expected).max())
