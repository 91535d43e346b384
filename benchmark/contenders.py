# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The law in Pinocchio, MuJoCo and frax, as fast as their Python interfaces allow."""

from __future__ import annotations

import os
from pathlib import Path
import tempfile
from xml.etree import ElementTree

import mujoco
from numba import njit
import numpy as np
import pinocchio as pin
from scipy.linalg.lapack import dposv

from race import difference

SWAP = [3, 4, 5, 0, 1, 2]  # osc_ros has [angular; linear], the contenders [linear; angular]
WORLD_AXES = pin.LOCAL_WORLD_ALIGNED


class Pinocchio:
    """The law in Pinocchio from Python, in several ways; vectors are [linear; angular]."""

    def __init__(self, model, frame):
        self.model, self.data, self.frame = model, model.createData(), frame
        self.rest, self.out = np.zeros(model.nv), np.empty(model.nv)
        tip = model.frames[frame]
        constraint = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_6D, model, tip.parentJoint, tip.placement, pin.LOCAL)
        self.constraints = pin.StdVec_RigidConstraintModel()
        self.constraints.append(constraint)
        self.constraint_data = pin.StdVec_RigidConstraintData()
        self.constraint_data.append(constraint.createData())

    def textbook(self, state):
        """Return τ by computeMinverse, nonLinearEffects, J, J̇ and an inverse: the usual code."""
        model, data, frame, q, qd = self.model, self.data, self.frame, state.q, state.qd
        M_inv = pin.computeMinverse(model, data, q)
        h = pin.nonLinearEffects(model, data, q, qd)
        pin.computeJointJacobiansTimeVariation(model, data, q, qd)
        pin.updateFramePlacement(model, data, frame)
        J = pin.getFrameJacobian(model, data, frame, WORLD_AXES)
        J_dot = pin.getFrameJacobianTimeVariation(model, data, frame, WORLD_AXES)
        J_M_inv = J @ M_inv
        Lambda = np.linalg.inv(J_M_inv @ J.T)
        return J.T @ (Lambda @ (state.u_linear_first + J_M_inv @ h - J_dot @ qd))

    def _bias(self, q, qd, qdd):
        """Return a⁰ and J; data.J must be computed for this q."""
        model, data, frame = self.model, self.data, self.frame
        pin.forwardKinematics(model, data, q, qd, qdd)
        pin.updateFramePlacement(model, data, frame)
        J = pin.getFrameJacobian(model, data, frame, WORLD_AXES)
        return pin.getFrameClassicalAcceleration(model, data, frame, WORLD_AXES).vector, J

    def minverse(self, state):
        """Return τ by ABA with M⁻¹ as its by-product, and Cholesky of Λ⁻¹ in LAPACK."""
        qdd = pin.aba(self.model, self.data, state.q, state.qd, self.rest, pin.Convention.WORLD)
        M_inv = pin.computeMinverse(self.model, self.data)
        a0, J = self._bias(state.q, state.qd, qdd)
        F = dposv(np.dot(np.dot(J, M_inv), J.T), state.u_linear_first - a0)[1]
        return np.dot(F, J)

    def cholesky(self, state):
        """Return τ by composite bodies and Cholesky of M and Λ⁻¹ in LAPACK."""
        M = pin.crba(self.model, self.data, state.q, pin.Convention.WORLD)
        h = pin.nonLinearEffects(self.model, self.data, state.q, state.qd)
        Jdot_qd, J = self._bias(state.q, state.qd, self.rest)
        Y = dposv(M, J.T)[1]
        F = dposv(np.dot(J, Y), state.u_linear_first + np.dot(h, Y) - Jdot_qd)[1]
        return np.dot(F, J)

    def compiled(self, state):
        """Return τ by M⁻¹, h and J of Pinocchio, with the algebra between them compiled."""
        M_inv = pin.computeMinverse(self.model, self.data, state.q)
        h = pin.nonLinearEffects(self.model, self.data, state.q, state.qd)
        Jdot_qd, J = self._bias(state.q, state.qd, self.rest)
        return _algebra(J, M_inv, h, Jdot_qd, state.u_linear_first, self.out)

    def delassus(self, state):
        """Return τ by Pinocchio's Delassus matrix of a fixed tip, which is Λ⁻¹ in tip axes."""
        model, data, frame, q, qd = self.model, self.data, self.frame, state.q, state.qd
        Lambda_inv = pin.computeDelassusMatrix(
            model, data, q, self.constraints, self.constraint_data, 0.0)
        qdd = pin.aba(model, data, q, qd, self.rest)
        pin.forwardKinematics(model, data, q, qd, qdd)
        T = pin.updateFramePlacement(model, data, frame)
        J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL)
        a0 = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL).vector
        u = np.dot(state.u_linear_first.reshape(2, 3), T.rotation).ravel()
        return np.dot(dposv(Lambda_inv, u - a0)[1], J)

    def posture(self, state):
        """Return τ with τ⁰ = ID(q, q̇, q̈_p), M⁻¹ and Cholesky of Λ⁻¹ in LAPACK."""
        model, data = self.model, self.data
        M_inv = pin.computeMinverse(model, data, state.q)
        tau = pin.rnea(model, data, state.q, state.qd, state.qdd)
        a0, J = self._bias(state.q, state.qd, state.qdd)
        F = dposv(np.dot(np.dot(J, M_inv), J.T), state.u_linear_first - a0)[1]
        return tau + np.dot(F, J)

    def compiled_posture(self, state):
        """Return τ with τ⁰ = ID(q, q̇, q̈_p), with the algebra compiled."""
        model, data = self.model, self.data
        M_inv = pin.computeMinverse(model, data, state.q)
        tau = pin.rnea(model, data, state.q, state.qd, state.qdd)
        a0, J = self._bias(state.q, state.qd, state.qdd)
        return tau + _algebra(J, M_inv, self.rest, a0, state.u_linear_first, self.out)

    def forward_dynamics(self, state):
        """Return q̈ by the articulated-body algorithm, for comparison of times."""
        return pin.aba(self.model, self.data, state.q, state.qd, state.qdd)

    def Lambda_inv(self, state):
        """Return Λ⁻¹ (6, 6)."""
        M_inv = pin.computeMinverse(self.model, self.data, state.q)
        J = pin.computeFrameJacobian(self.model, self.data, state.q, self.frame, WORLD_AXES)
        return J @ M_inv @ J.T

    def terms(self, state):
        """Return J, J̇q̇, h, Λ⁻¹ and Λ, as `evaluate` does."""
        M_inv = pin.computeMinverse(self.model, self.data, state.q)
        h = pin.nonLinearEffects(self.model, self.data, state.q, state.qd)
        Jdot_qd, J = self._bias(state.q, state.qd, self.rest)
        Lambda_inv = np.dot(np.dot(J, M_inv), J.T)
        return J, Jdot_qd, h, Lambda_inv, np.linalg.inv(Lambda_inv)

    def residual(self, state, tau):
        """Return the relative difference between the tip acceleration under τ, by ABA, and u."""
        qdd = pin.aba(self.model, self.data, state.q, state.qd, tau)
        return difference(self._bias(state.q, state.qd, qdd)[0], state.u_linear_first)


@njit(cache=True)
def _algebra(J, M_inv, h, Jdot_qd, u, tau):
    """τ = JᵀΛ(u + J M⁻¹ h - J̇q̇), by loops: for few joints faster than calls of BLAS."""
    n = J.shape[1]
    A, F, row = np.empty((6, 6)), np.empty(6), np.empty(n)
    for i in range(6):
        F[i] = u[i] - Jdot_qd[i]
        for k in range(n):
            row[k] = 0.0
            for j in range(n):
                row[k] += J[i, j] * M_inv[k, j]
            F[i] += row[k] * h[k]
        for m in range(i + 1):
            A[i, m] = 0.0
            for k in range(n):
                A[i, m] += row[k] * J[m, k]
    for k in range(6):
        A[k, k] = np.sqrt(A[k, k])
        for i in range(k + 1, 6):
            A[i, k] /= A[k, k]
        for i in range(k + 1, 6):
            for j in range(k + 1, i + 1):
                A[i, j] -= A[i, k] * A[j, k]
    for i in range(6):
        for j in range(i):
            F[i] -= A[i, j] * F[j]
        F[i] /= A[i, i]
    for i in range(5, -1, -1):
        for j in range(i + 1, 6):
            F[i] -= A[j, i] * F[j]
        F[i] /= A[i, i]
    for k in range(n):
        tau[k] = 0.0
        for i in range(6):
            tau[k] += J[i, k] * F[i]
    return tau


def _simplified(urdf_text):
    """Return the XML of a URDF without visual and collision elements, with fixed fingers."""
    root = ElementTree.fromstring(urdf_text)
    for link in root.iter('link'):
        for looks in link.findall('visual') + link.findall('collision'):
            link.remove(looks)
    for joint in root.iter('joint'):
        if 'finger' in joint.get('name'):
            joint.set('type', 'fixed')
            for mimic in joint.findall('mimic'):
                joint.remove(mimic)
    return root


class MuJoCo:
    """The law in MuJoCo and numpy: only the stages of mj_forward that it needs."""

    LONGEST = 1022  # joints; above, MuJoCo 4.0.0: 'depth limit exceeded in signature computation'

    def __init__(self, urdf_text, tip):
        root = _simplified(urdf_text)
        extension = ElementTree.SubElement(root, 'mujoco')
        ElementTree.SubElement(extension, 'compiler', fusestatic='false')
        self.model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, 'unicode'))
        self.data = mujoco.MjData(self.model)
        self.tip = self.model.body(tip).id
        n = self.model.nv
        self.J, self.J_dot, self.Y = np.zeros((6, n)), np.zeros((6, n)), np.zeros((6, n))
        self.h, self.M = np.zeros(n), np.zeros((n, n))

    def _terms(self, state):
        """Compute J, J̇ and h; M stays in MuJoCo's sparse form."""
        model, data, J, J_dot = self.model, self.data, self.J, self.J_dot
        data.qpos[:], data.qvel[:] = state.q, state.qd
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_makeM(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_rne(model, data, 0, self.h)
        mujoco.mj_jacBody(model, data, J[:3], J[3:], self.tip)
        mujoco.mj_jacDot(model, data, J_dot[:3], J_dot[3:], data.xpos[self.tip], self.tip)

    def _law(self, state, Y):
        J = self.J
        r = state.u_linear_first + np.dot(Y, self.h) - np.dot(self.J_dot, state.qd)
        return np.dot(dposv(np.dot(J, Y.T), r)[1], J)

    def sparse(self, state):
        """Return τ by MuJoCo's sparse factorization of M."""
        self._terms(state)
        mujoco.mj_factorM(self.model, self.data)
        mujoco.mj_solveM(self.model, self.data, self.Y, self.J)
        return self._law(state, self.Y)

    def dense(self, state):
        """Return τ by the dense M of mj_fullM and LAPACK's Cholesky."""
        self._terms(state)
        mujoco.mj_fullM(self.model, self.data, self.M)
        return self._law(state, dposv(self.M, self.J.T)[1].T)

    def residual(self, state, tau):
        """Return the relative difference between the tip acceleration, by mj_forward, and u."""
        model, data, J, J_dot = self.model, self.data, self.J, self.J_dot
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = state.q, state.qd, tau
        mujoco.mj_forward(model, data)
        mujoco.mj_jacBody(model, data, J[:3], J[3:], self.tip)
        mujoco.mj_jacDot(model, data, J_dot[:3], J_dot[3:], data.xpos[self.tip], self.tip)
        return difference(J @ data.qacc + J_dot @ state.qd, state.u_linear_first)


class Frax:
    """
    The law in frax, compiled by JAX as one function, in double precision.

    Attributes
    ----------
    law : callable
        τ for q, q̇ and u, linear first, not compiled: for `jax.vmap`.

    """

    def __init__(self, urdf_text, T_body_tip):
        # the settings that frax recommends for a CPU; jax reads them when it is imported
        os.environ.setdefault('XLA_FLAGS', '--xla_cpu_multi_thread_eigen=false '
                              '--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED')
        os.environ.setdefault('JAX_ENABLE_X64', '1')
        import frax
        import jax
        from jax.scipy.linalg import cho_factor, cho_solve

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'robot.urdf'
            file.write_bytes(ElementTree.tostring(_simplified(urdf_text)))
            arm = frax.Manipulator(str(file), ee_offset=T_body_tip)

        def law(q, qd, u):
            J, J_dot = arm.ee_jacobian_and_derivative(q, qd)
            Y = cho_solve(cho_factor(arm.mass_matrix(q)), J.T)
            r = u + Y.T @ arm.nonlinear_bias(q, qd) - J_dot @ qd
            return J.T @ cho_solve(cho_factor(J @ Y), r)

        self.law, self._law = law, jax.jit(law)

    def torque(self, state):
        """Return τ as a numpy array, because a caller that sends it needs one."""
        return np.asarray(self._law(state.q, state.qd, state.u_linear_first))
