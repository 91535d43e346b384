# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The spatial operators of Kreutz-Delgado, Jain and Rodriguez (paper 002), in the paper's notation.

The dynamics are products of operators on all bodies (φ, ψ, H, M, P, D, G, K, B, E). A product with
φ or ψ is a recursion along the chain:

    φ, ψ     tip to base: z(k) = φ(k, k-1) z(k-1) + y(k), and ψ(k, k-1) in place of φ(k, k-1)
    φ*, ψ*   base to tip: α(k) = φ*(k+1, k) α(k+1) + s(k), and likewise

Recursions compute P, the articulated-body inertias, from tip to base (eq. 37), and Ω from base to
tip (eq. 58), and

    Λ = Ω(0)⁻¹,  Ω(0) = B*ΩB                                          (eq. 61)
    Ω(0) c = B*ψ*[H*D⁻¹Hψ(Pa + b) - a] - a(0)                          (eq. 65)
    Ω(0) g = B*(φ*E* - ψ*W*) a_g                                       (eq. 72)
    T = J*F = HφBF,  F = Λu + c + g                                    (eqs. 4, 39)

Differences from the paper: bodies are numbered 0 to n-1 from base to tip; the paper counts from
the tip, its link k is body n-k. All quantities are in base axes, [angular; linear], each body
about its own origin, which is the paper's reference point on its joint. The linear acceleration of
a body is the time derivative of the velocity of that point. For a revolute joint with the axis h,
H* is (h, 0); for a prismatic joint, (0, h).

A rotor of reflected inertia d affects its own joint only: D = HPH* + d. Then (I - GH)PH* is G d
and not 0, and the inertia transmitted through a joint, ψPφ*, is ψPψ* + φ G d G* φ*: the paper's
recursion and one more term. All identities of its section 3.3 hold unchanged.

For c + g together the paper replaces a by ā = a + E*a_g in eq. 65. That turns -J̇θ̇ into
-J̇θ̇ - B*φ*E*a_g as well, as if the base accelerated the tip; here the last term is added back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.algebra.kinematics import placement
from osc_ros.dynamics.algebra.task_inertia import task_inertia
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE
from osc_ros.dynamics.papers import newton_euler
from osc_ros.dynamics.papers.blocks import product
from osc_ros.dynamics.papers.numpy_method import NumpyMethod
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@np.errstate(over='ignore', invalid='ignore')
def task_coriolis(robot: Robot, q: ArrayLike, qd: ArrayLike) -> Array:
    """
    Task-space Coriolis and centrifugal force c = Λ(J M⁻¹C - J̇q̇) by eqs. 65 to 68.

    Parameters
    ----------
    robot : Robot
    q, qd : (n,) [rad, m], (n,) [rad/s, m/s]

    Returns
    -------
    (6,) at the tip, base axes, [moment; force] [N·m, N]; where the arm is singular to working
    precision, only the part in directions in which the tip can move

    Raises
    ------
    InputError
        If shapes do not fit, numbers are not finite, or the robot is not a chain.

    """
    at = _located(robot, q)
    moving = at.moving(finite_array('qd', qd, (robot.n,)))
    return _finite('coriolis', task_inertia(at.Omega_tip) @ at.bias_rhs(moving.a, moving))


@np.errstate(over='ignore', invalid='ignore')
def task_gravity(robot: Robot, q: ArrayLike) -> Array:
    """
    Task-space gravity force g = Λ J M⁻¹G by eqs. 72 to 74, at q (n,) [rad, m].

    Axes and errors are those of `task_coriolis`.

    """
    at = _located(robot, q)
    alpha, eta = at.phi_star(at.E_star_a_g), at.psi_star(at.W_star_a_g)
    return _finite('gravity', task_inertia(at.Omega_tip) @ at.B_star(alpha - eta))


@np.errstate(over='ignore', invalid='ignore')
def task_bias(robot: Robot, q: ArrayLike, qd: ArrayLike) -> Array:
    """
    Task-space bias force c + g by one pass of eq. 65; parameters and errors: `task_coriolis`.

    The task force is F = Λu + c + g (eq. 4).

    """
    at = _located(robot, q)
    moving = at.moving(finite_array('qd', qd, (robot.n,)))
    lag = at.bias_rhs(moving.a + at.E_star_a_g, moving) + at.a_g
    return _finite('bias', task_inertia(at.Omega_tip) @ lag)


def _located(robot: Robot, q: ArrayLike) -> _Located:
    _require_chain(robot)
    return _Located(robot, finite_array('q', q, (robot.n,)), robot.gravity)


def _require_chain(robot: Robot) -> None:
    if not robot.chain:
        raise InputError(
            f"robot '{robot.name}' is no chain of revolute and prismatic joints to one tip, as "
            'these recursions are for: OperationalSpace(robot).evaluate(q, qd) has .coriolis and '
            '.gravity of any robot')


class SpatialOperators(NumpyMethod):
    """The recursions of the paper as a method of the dynamics, for chains."""

    # The articulated-body inertias of the last position are reused until q or gravity changes.

    def __init__(self, robot: Robot) -> None:
        _require_chain(robot)
        super().__init__(robot)
        self._key = np.full(robot.n + 3, np.nan)

    def _outward(self, q: Array, qd: Array, tau: Array | None, qdd: Array | None) -> int:
        n = self.robot.n
        at = self._at(q)
        moving = at.moving(qd)
        a_bar = moving.a + at.E_star_a_g
        self._tau = np.zeros(n) if tau is None else tau.copy()
        if qdd is None:
            alpha = at.forward_dynamics(self._tau, a_bar, moving.b)[1]
        else:
            alpha = at.phi_star(at.H_star(qdd) + a_bar)
            f = at.phi(product(at.M, alpha) + moving.b)
            if tau is not None:
                alpha = alpha + at.forward_dynamics(tau, np.zeros((n, 6)), np.zeros((n, 6)))[1]
            self._tau += at.H(f) + self.robot.rotor_inertia * qdd
        self.pose[:] = at.placement.T_tip.copy()
        self.twist[:] = at.B_star(moving.V)
        self.Lambda_inv[:] = at.Omega_tip.copy()
        self.a0[:] = at.B_star(alpha) + moving.a_tip - at.a_g
        return DONE if np.isfinite(self.a0).all() else NOT_FINITE

    def inward(self, F: Array, out: Array) -> None:
        """Write τ⁰ + J*F, with J* and τ⁰ of the last `outward`, to out (n,) (eq. 39)."""
        at = self._located
        out[:] = self._tau + at.H(at.phi(at.B(F)))

    def jacobian(self, out: Array) -> None:
        """Write the Jacobian J of the last `outward` to out (6, n)."""
        out[:] = newton_euler.jacobian(self.robot, self._located.placement)

    def acceleration_response(self, tau: Array, F: Array, out: Array) -> None:
        """Write M⁻¹(τ + JᵀF), with M and J of the last `outward`, to out (n,) [rad/s²]."""
        at = self._located
        out[:] = at.forward_dynamics(tau, np.zeros((len(tau), 6)), -at.B(F))[0]

    @np.errstate(over='ignore', invalid='ignore')
    def forward_dynamics(self, q: Array, qd: Array, tau: Array, F: Array) -> Array:
        """Joint accelerations (n,) under torques (n,) and a force F (6,) on the tip."""
        at = self._at(q)
        moving = at.moving(qd)
        return at.forward_dynamics(tau, moving.a + at.E_star_a_g, moving.b - at.B(F))[0]

    def apply_M_inv(self, q: Array, x: Array) -> Array:
        """M⁻¹ x (n,) = [I - HψK]*D⁻¹[I - HψK] x (eq. 51)."""
        rest = np.zeros((self.robot.n, 6))
        return self._at(q).forward_dynamics(x, rest, rest)[0]

    def _at(self, q: Array) -> _Located:
        key = np.concatenate([q, self.gravity])
        if not np.array_equal(key, self._key):
            self._located = _Located(self.robot, q, self.gravity)
            self._key = key
        return self._located


class _Moving(NamedTuple):
    """Terms of the joint velocities (eqs. 41, 47, 48)."""

    V: Array  # velocities of the bodies (n, 6)
    a: Array  # velocity-dependent accelerations of the bodies relative to their parents (n, 6)
    a_tip: Array  # the same of the tip relative to the last body (6,), the paper's a(0)
    b: Array  # velocity-dependent forces on the bodies (n, 6)


class _Located:
    """The operators at one position."""

    def __init__(self, robot: Robot, q: Array, gravity: Array) -> None:
        n = robot.n
        at = self.placement = placement(robot, q)
        self._prismatic = robot.prismatic
        self._h = at.R[:, :, 2]
        self._axis = np.zeros((n, 6))
        self._axis[~robot.prismatic, :3] = self._h[~robot.prismatic]
        self._axis[robot.prismatic, 3:] = self._h[robot.prismatic]
        self._reach = np.diff(at.p, axis=0, prepend=np.zeros((1, 3)))
        self._reach_tip = at.T_tip[:3, 3] - at.p[-1]
        self._phi = np.array([_force_transform(reach) for reach in self._reach])
        self._phi_tip = _force_transform(self._reach_tip)
        turn = np.zeros((n, 6, 6))
        turn[:, :3, :3] = turn[:, 3:, 3:] = at.R
        self.M = turn @ robot.inertia @ turn.transpose(0, 2, 1)  # spatial inertia (n, 6, 6)
        self._articulate(robot.rotor_inertia)
        self.Omega_tip = self._omega()  # Ω(0) = Λ⁻¹ (6, 6)
        # Minus gravity as a motion (6,): the same for the base, the bodies and the tip; then
        # φ*(n+1, n) a_g and ψ*(n+1, n) a_g (n, 6), at the first body.
        self.a_g = np.concatenate([np.zeros(3), -gravity])
        self.E_star_a_g, self.W_star_a_g = np.zeros((n, 6)), np.zeros((n, 6))
        self.E_star_a_g[0] = self._phi[0].T @ self.a_g
        self.W_star_a_g[0] = self._psi[0].T @ self.a_g

    def _articulate(self, rotor_inertia: Array) -> None:
        """Compute P, D, G and ψ, from the tip to the base (eq. 37)."""
        n = len(rotor_inertia)
        self.P = self.M.copy()  # articulated-body inertia (n, 6, 6)
        # D: P along the joint axis with the rotor inertia; G: PH*D⁻¹.
        self.D, self.G, self._psi = np.empty(n), np.empty((n, 6)), np.empty((n, 6, 6))
        one = np.eye(6)
        for i in reversed(range(n)):
            P, H, d = self.P[i], self._axis[i], rotor_inertia[i]
            PH = P @ H
            self.D[i] = H @ PH + d
            self.G[i] = PH / self.D[i]
            self._psi[i] = psi = self._phi[i] @ (one - self.G[i][:, None] * H)
            if i > 0:
                K = self._phi[i] @ self.G[i]
                passed = psi @ P @ psi.T + d * K[:, None] * K
                self.P[i - 1] += 0.5 * (passed + passed.T)

    def _omega(self) -> Array:
        """Ω(0) = B*ΩB, from the base to the tip (eqs. 58, 60)."""
        Omega = np.zeros((6, 6))
        for psi, H, D in zip(self._psi, self._axis, self.D, strict=True):
            Omega = psi.T @ Omega @ psi + H[:, None] * H / D
        Omega_tip = self._phi_tip.T @ Omega @ self._phi_tip
        return np.asarray(0.5 * (Omega_tip + Omega_tip.T))

    def phi(self, y: Array) -> Array:
        """φy (n, 6): for each body, the sum of the forces y on it and on all outer bodies."""
        return _sum_inward(self._phi, y)

    def psi(self, y: Array) -> Array:
        """ψy (n, 6): as `phi`, but joints can move and transmit only a part of the forces."""
        return _sum_inward(self._psi, y)

    def phi_star(self, s: Array) -> Array:
        """φ*s (n, 6): for each body, the sum of the motions s of it and of all inner bodies."""
        return _sum_outward(self._phi, s)

    def psi_star(self, s: Array) -> Array:
        """ψ*s (n, 6): as `phi_star`, but joints can move and transmit only a part of motions."""
        return _sum_outward(self._psi, s)

    def H(self, f: Array) -> Array:
        """Hf (n,): the component of the force f[i] (n, 6) along the axis of joint i."""
        return np.asarray((self._axis * f).sum(axis=1))

    def H_star(self, s: Array) -> Array:
        """H*s (n, 6): motions along the joint axes at the rates s (n,)."""
        return self._axis * s[:, None]

    def B(self, F: Array) -> Array:
        """BF (n, 6): force on the last body that is equivalent to the force F (6,) on the tip."""
        f = np.zeros((len(self.D), 6))
        f[-1] = self._phi_tip @ F
        return f

    def B_star(self, s: Array) -> Array:
        """B*s (6,): motion of the tip, fixed to the last body, for body motions s (n, 6)."""
        return np.asarray(self._phi_tip.T @ s[-1])

    def moving(self, qd: Array) -> _Moving:
        """Terms of the joint velocities: V by eq. 41, b by eq. 47, a by eq. 48."""
        V = self.phi_star(self.H_star(qd))
        omega = V[:, :3]
        carrier = np.zeros_like(omega)
        carrier[1:] = omega[:-1]
        swept = np.cross(carrier, self._h * qd[:, None])
        sliding = self._prismatic[:, None]
        # the paper has only revolute joints; a prismatic joint adds the Coriolis acceleration
        a = np.hstack([np.where(sliding, 0.0, swept),
                       np.cross(carrier, np.cross(carrier, self._reach))
                       + np.where(sliding, 2.0 * swept, 0.0)])
        a_tip = np.zeros(6)
        a_tip[3:] = np.cross(omega[-1], np.cross(omega[-1], self._reach_tip))
        mp = self.M[:, [2, 0, 1], [4, 5, 3]]
        b = np.hstack([np.cross(omega, product(self.M[:, :3, :3], omega)),
                       np.cross(omega, np.cross(omega, mp))])
        return _Moving(V, a, a_tip, b)

    def bias_rhs(self, a: Array, moving: _Moving) -> Array:
        """B*ψ*[H*D⁻¹Hψ(Pa + b) - a] - a(0), (6,): the right-hand side of eq. 65."""
        z = self.psi(product(self.P, a) + moving.b)
        eta = self.psi_star(self.H_star(self.H(z) / self.D) - a)
        return np.asarray(self.B_star(eta) - moving.a_tip)

    def forward_dynamics(self, T: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """Accelerations of the joints, M⁻¹(T - Hφ(Mφ*a + b)), and of the bodies (eqs. 51, 63)."""
        # ν = D⁻¹(T - Hz) with z = ψ(Pa + b + KT), then α = ψ*(H*ν + a) and θ̈ = ν - K*α: the
        # articulated-body algorithm.
        y = product(self.P, a) + b
        y[:-1] += product(self._phi[1:], self.G[1:] * T[1:, None])
        nu = (T - self.H(self.psi(y))) / self.D
        alpha = self.psi_star(self.H_star(nu) + a)
        qdd = nu.copy()
        qdd[1:] -= (self.G[1:] * product(self._phi[1:].transpose(0, 2, 1), alpha[:-1])).sum(axis=1)
        return qdd, alpha


def _sum_inward(transforms: Array, y: Array) -> Array:
    z = y.copy()
    for i in range(len(z) - 1, 0, -1):
        z[i - 1] += transforms[i] @ z[i]
    return z


def _sum_outward(transforms: Array, s: Array) -> Array:
    alpha = s.copy()
    for i in range(1, len(alpha)):
        alpha[i] += alpha[i - 1] @ transforms[i]
    return alpha


def _force_transform(reach: Array) -> Array:
    """φ (6, 6): moves the reference point of a force by -reach (eq. 18)."""
    phi = np.eye(6)
    phi[:3, 3:] = newton_euler.skew(reach)
    return phi


def _finite(what: str, F: Array) -> Array:
    if not np.isfinite(F).all():
        raise InputError(f'the {what} force of the task is not finite: the state is too large')
    return F
