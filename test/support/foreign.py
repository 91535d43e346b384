# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Arms that the project does not ship, simulated by Pinocchio's ABA."""

from numba import njit
import numpy as np
import pinocchio as pin

from judge import configuration, pinocchio_model, robot_cases

SUBSTEP = 5e-4  # [s]
SWEEPS = 50  # iterations of projected Gauss-Seidel for the impulses of dry friction
# Keys of `judge.robot_cases`. These arms have light wrists: without friction, a wrong torque
# accelerates them strongly.
FOREIGN = ('xarm7', 'kinova', 'baxter', 'ur5', 'ur10', 'tiago')


class ForeignPlant:
    """
    One arm on a fixed base: torques in, joint states out; no code is shared with osc_ros.

    Forward dynamics by Pinocchio's articulated-body algorithm, integrated by the semi-implicit
    Euler method. Dry friction is an impulse at the end of each substep that stops the joint, or
    slows it if the friction torque is too small to stop it. Joints have no stops.

    Parameters
    ----------
    name : str or judge.Case
        Key of `judge.robot_cases`, or another robot.
    joint_names : sequence of str
        The n joints from base to tip, in this order.
    friction, damping, rotor_inertia : float or (n,)
        Dry [N·m], viscous [N·m·s/rad], reflected [kg·m²].
    payload : float
        Mass at the tip, in addition to the robot description [kg].

    """

    def __init__(self, name, joint_names, friction=0.0, damping=0.0, rotor_inertia=0.0,
                 payload=0.0):
        case = robot_cases()[name] if isinstance(name, str) else name
        self.model, self.data, self.tip = pinocchio_model(
            case.urdf_text, case.base, case.tip, joint_names, case.locked)
        self.n = self.model.nv
        self.joint_names = tuple(joint_names)
        self.friction, self.damping, rotors = (
            np.broadcast_to(np.asarray(x, dtype=float), self.n).copy()
            for x in (friction, damping, rotor_inertia))
        self.model.armature = rotors
        if payload > 0.0:
            frame = self.model.frames[self.tip]
            self.model.appendBodyToJoint(
                frame.parentJoint, pin.Inertia.FromSphere(payload, 0.05), frame.placement)
        self.data = self.model.createData()
        self.effort = np.where(self.model.effortLimit > 0.0, self.model.effortLimit, np.inf)
        self.velocity = np.where(self.model.velocityLimit > 0.0, self.model.velocityLimit, np.inf)
        self.reset(np.zeros(self.n))

    def reset(self, q, qd=None):
        """Put the arm at q (n,), at rest or at qd (n,)."""
        self.time = 0.0
        self.q = np.array(q, dtype=float)
        self.qd = np.zeros(self.n) if qd is None else np.array(qd, dtype=float)

    def step(self, tau, duration, external=0.0):
        """Apply torques (n,) within the effort limits, and external ones (n,), for a time [s]."""
        tau = np.clip(tau, -self.effort, self.effort) + external
        count = max(1, round(duration / SUBSTEP))
        dt = duration / count
        for _ in range(count):
            q = configuration(self.model, self.q)
            acceleration = pin.aba(self.model, self.data, q, self.qd, tau - self.damping * self.qd)
            self.qd = self.qd + dt * acceleration
            if self.friction.any():
                self.qd = self._rubbed(q, dt)
            self.q = self.q + dt * self.qd
        self.time += duration

    def _rubbed(self, q, dt):
        """Return the velocities (n,) after the impulses of dry friction."""
        M_inv = pin.computeMinverse(self.model, self.data, q)
        M_inv = np.triu(M_inv) + np.triu(M_inv, 1).T
        return _after_friction(M_inv, self.qd, dt * self.friction)

    def pose(self):
        """Return the pose (4, 4) of the tip in the base frame."""
        pin.framesForwardKinematics(self.model, self.data, configuration(self.model, self.q))
        return self.data.oMf[self.tip].homogeneous

    def weight(self):
        """Return the torques (n,) that compensate gravity at the present position."""
        return pin.computeGeneralizedGravity(
            self.model, self.data, configuration(self.model, self.q)).copy()


@njit
def _after_friction(M_inv, qd, most):
    """Return velocities (n,) after braking impulses, each limited to `most` (n,) [N·m·s]."""
    impulse, qd = np.zeros(len(qd)), qd.copy()
    for _ in range(SWEEPS):
        for i in range(len(qd)):
            wanted = min(max(impulse[i] - qd[i] / M_inv[i, i], -most[i]), most[i])
            qd += M_inv[:, i] * (wanted - impulse[i])
            impulse[i] = wanted
    return qd
