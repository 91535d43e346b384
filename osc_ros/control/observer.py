# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Observer of the external joint torques by the generalized momentum, and of their wrench."""

from __future__ import annotations

from dataclasses import replace
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.driver import Driver
from osc_ros.control.friction import Friction
from osc_ros.dynamics.arrays import kernel_array
from osc_ros.dynamics.compiled import ahead, inlined, kernel, plain, view
from osc_ros.dynamics.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.spatial import all_finite
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.dynamics.trees.layout import constants_in, packed_robot, pendulum, PROPAGATED
from osc_ros.dynamics.trees.momentum import put_link_jacobian, put_momentum, WORK_WIDTH
from osc_ros.dynamics.wrench_fit import put_wrench
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

BANDWIDTH = 100.0  # default [rad/s]: a time constant of 10 ms
LONGEST_STEP = 0.1  # longest time between two states over which a torque counts as constant [s]
# Bound of the estimate, relative to the effort limits: a wrong reading of finite size is forgotten
# within some time constants.
LARGEST = 10.0
WITHOUT_LIMIT = 1e6  # bound for a joint without effort limit [N·m, N]
# Entries of `state`: time of the last state; whether p and β of the last state are known; share of
# the estimate that is still missing after a start; quality; bandwidth; width of the friction's
# transition; characteristic length; threshold of the damping.
_TIME, _IS_KNOWN, _MISSING, _QUALITY, _RATE, _WIDTH, _LENGTH, _LOW, _STATE_WIDTH = range(9)
_ROWS = 12  # rows of n numbers


@inlined
def _parts_of(room, b, n):
    """
    Views of the observer's memory.

    Returns
    -------
    state : (_STATE_WIDTH,)
    rows : (_ROWS, n)
        Constants: weights of the fit, Coulomb and viscous friction, bound of the estimate.
        Memory: momentum, and the model's rate of it, at the last state; external torque;
        residual; momentum and its rate at this state; friction of the model at this state, and
        behind the filter of the estimate.
    wrench : (6,)
    columns : (n, 6)
        Columns of the link's Jacobian.
    work : (b, WORK_WIDTH)

    """
    i = _STATE_WIDTH
    rows, i = view(room, i, (_ROWS, n)), i + _ROWS * n
    wrench, i = room[i:i + 6], i + 6
    columns, i = view(room, i, (n, 6)), i + 6 * n
    return room[:_STATE_WIDTH], rows, wrench, columns, view(room, i, (b, WORK_WIDTH))


@inlined
def _advance_estimate(dt, rate, tau, effort, rows, p, rate_of_p):
    """Advance the external torque by dt; return whether the torques that acted are known."""
    n = len(tau)
    before, rate_before, torque, bound = rows[4], rows[5], rows[6], rows[3]
    for k in range(n):
        acting = effort[k] if np.isfinite(effort[k]) else tau[k]
        if not np.isfinite(acting):
            return False
    gain = -np.expm1(-rate * dt)
    for k in range(n):
        acting = effort[k] if np.isfinite(effort[k]) else tau[k]
        mean = (p[k] - before[k]) / dt - acting - 0.5 * (rate_of_p[k] + rate_before[k])
        changed = torque[k] + gain * (mean - torque[k])
        if np.isfinite(changed):  # else dt is almost zero
            torque[k] = min(max(changed, -bound[k]), bound[k])
    return True


@kernel
def _observe(integers, numbers, room, time, q, qd, tau, effort):
    """
    Advance the estimate to a state, and fit the wrench; see `MomentumObserver.update`.

    Parameters
    ----------
    integers, numbers : see `osc_ros.dynamics.trees.layout`
    room : see `_parts_of`
    time : float [s]
    q, qd, tau, effort : (nq,), (n,), (n,), (n,)

    Returns
    -------
    DONE; WRONG_SHAPE, before anything is computed; NOT_FINITE: the state is not used

    """
    robot = constants_in(integers, numbers)
    b, n = len(robot.tree), len(robot.rotors)
    if len(q) != b + 3 * (n - b) // 2 or not len(qd) == len(tau) == len(effort) == n:
        return WRONG_SHAPE
    state, rows, wrench, columns, work = _parts_of(room, b, n)
    dt = time - state[_TIME]
    if -LONGEST_STEP <= dt <= 0.0:
        return DONE  # repeated, or too late
    p, rate_of_p = rows[8], rows[9]
    coulomb, viscous, torque = rows[1], rows[2], rows[6]
    put_momentum(robot, q, qd, work, p, rate_of_p)
    friction, filtered = rows[10], rows[11]
    for k in range(n):
        friction[k] = viscous[k] * qd[k]
        if coulomb[k] > 0.0:
            friction[k] += coulomb[k] * np.tanh(qd[k] / state[_WIDTH])
        rate_of_p[k] -= friction[k]
    put_link_jacobian(robot, work, columns)
    if not (np.isfinite(time) and all_finite(p) and all_finite(rate_of_p)):
        state[_IS_KNOWN] = 0.0
        return NOT_FINITE
    if dt < -LONGEST_STEP:  # the clock has been set back
        state[_MISSING] = 1.0
        for k in range(n):
            torque[k] = filtered[k] = 0.0
    elif state[_IS_KNOWN] > 0.0 and dt <= LONGEST_STEP:
        if _advance_estimate(dt, state[_RATE], tau, effort, rows, p, rate_of_p):
            missing = np.exp(-state[_RATE] * dt)
            state[_MISSING] *= missing
            for k in range(n):
                filtered[k] = friction[k] + missing * (filtered[k] - friction[k])
    for k in range(n):
        rows[4, k], rows[5, k] = p[k], rate_of_p[k]
    state[_TIME], state[_IS_KNOWN] = time, 1.0
    quality = put_wrench(columns, rows[0], torque, state[_LENGTH], state[_LOW], wrench, rows[7])
    state[_QUALITY] = quality * (1.0 - state[_MISSING])
    return DONE


class ExternalForce:
    """
    External torques and the wrench that explains them, updated in place by `MomentumObserver`.

    Attributes
    ----------
    torque : (n,) [N·m; N for prismatic]
        Estimated torques of external forces on the joints.
    wrench : (6,) [N·m, N]
        Wrench of the environment on the link, [moment; force], about the link's origin, base axes:
        the least-squares solution of τ = JᵀF.
    residual : (n,) [N·m; N]
        `torque` less Jᵀ `wrench`.
    friction : (n,) [N·m; N]
        Part of `torque` that comes from the observer's friction model: without that model, the
        estimate would be the difference of the two.

    """

    def __init__(self, torque: Array, wrench: Array, residual: Array, friction: Array,
                 columns: Array, state: Array) -> None:
        self.torque, self.wrench, self.residual = torque, wrench, residual
        self.friction = friction
        self._columns, self._state = columns, state

    @property
    def quality(self) -> float:
        """
        How far to trust `wrench`, from 0 to 1.

        It is the product of three shares: of the wrench that is observable at this pose, in the
        worst direction (0 at a singularity, and for fewer than six joints); of `torque` that the
        wrench explains, 1 - |residual|²/|torque|²; and of the estimate that has settled since the
        start of the observation. With 6 joints every torque is explained by some wrench: look at
        `lever` too.

        """
        return float(self._state[_QUALITY])

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the estimate [rad/s]."""
        return float(self._state[_RATE])

    @property
    def settled(self) -> float:
        """Share of the external torque that the filter lets through since its start, 0 to 1."""
        return 1.0 - float(self._state[_MISSING])

    def torque_of(self, wrench: Array) -> Array:
        """Joint torques (n,) of a wrench (6,) on the link, base axes [N·m; N]."""
        return np.asarray(self._columns @ wrench)

    @property
    def lever(self) -> float:
        """
        Distance from the link's origin to the axis of the wrench [m]; infinite without force.

        A force that acts on the link has a lever not larger than the link. A larger one means that
        the force acts elsewhere on the arm.

        """
        moment, force = self.wrench[:3].tolist(), self.wrench[3:].tolist()
        squared = sum(f * f for f in force)
        if not squared > 0.0:
            return math.inf
        (a, b, c), (x, y, z) = moment, force  # a product of np.cross takes ten times as long
        return math.hypot(b * z - c * y, c * x - a * z, a * y - b * x) / float(squared)


class MomentumObserver:
    """
    Estimates the torques of external forces from joint states and motor torques.

    With the momentum p = M q̇, the model's rate β = Cᵀq̇ - g of it, the motor torque τ and the
    bandwidth K, the residual r of De Luca and Mattone is

        r = K (p - p(0) - ∫(τ + β + r) dt),    so that ṙ = K (τ_ext - r):

    the external torque behind a first-order filter; neither q̈ nor M⁻¹ is needed. Sources: De Luca
    and Mattone, "Actuator failure detection and isolation using generalized momenta", ICRA 2003,
    and "Sensorless robot collision detection and hybrid force/motion control", ICRA 2005;
    Haddadin, De Luca and Albu-Schäffer, "Robot collisions: a survey on detection, isolation, and
    identification", IEEE Trans. Robotics 33 (2017).

    The discrete form needs no integral. Between two states, dt apart, the mean external torque is

        m = (p₁ - p₀)/dt - τ - (β₀ + β₁)/2,    r ← r + (1 - exp(-K dt)) (m - r).

    This is the exact solution for a constant external torque, for any sequence of time steps. At
    rest m has no discretization error; in motion its error is of second order in dt. The delay is
    the time constant 1/K. White noise of q̇ with the standard deviation σ gives r a standard
    deviation of about K σ ‖rows of M‖.

    Friction that the model has is subtracted: f_c tanh(q̇/v_s) + f_v q̇. The dry friction of a joint
    at rest is unknown, and is part of the estimate, up to f_c.

    An instance owns its memory: use one per thread. The construction may compile; `update` does
    not, and allocates no arrays without a driver.

    Attributes
    ----------
    external : ExternalForce
        The estimate; `update` returns this object, always the same.
    gravity : (3,)
        Gravity in the base frame [m/s²]; write to the array to change it.

    Parameters
    ----------
    robot : Robot
        With its payload and tool.
    bandwidth : float [rad/s]
        K. The larger, the faster and the noisier.
    link : str, optional
        Link on which the wrench acts; default: the robot's first tip.
    friction : Friction, optional
        Friction of the joints; `Friction.of(robot, 1.0)` is that of the robot's description.
    driver : Driver, optional
        Driver that adds torques to the commands. The observer adds them to commanded torques.
    effort_includes_driver : bool
        Whether measured efforts contain the driver's torques; if not, they are added too.
    damping : SingularityDamping, optional
        `length` and `low` of it are used, see `osc_ros.dynamics.wrench_fit`.

    Raises
    ------
    InputError
        A bandwidth that is not positive and finite; friction for another number of joints; a link
        that does not exist or does not move.

    """

    def __init__(self, robot: Robot, bandwidth: float = BANDWIDTH, link: str | None = None,
                 friction: Friction | None = None, driver: Driver | None = None,
                 effort_includes_driver: bool = True,
                 damping: SingularityDamping | None = None) -> None:
        _compile()
        link = robot.tip if link is None else link
        if robot.frames.get(link, (-1,))[0] < 0:
            raise InputError(f"link '{link}': accepted is a link that joints of the robot move")
        self.robot, self.link, n = robot, link, robot.n
        self._integers, self._numbers = packed_robot(replace(robot, tips=(link,)), PROPAGATED)
        self._room = _room_for(len(robot.parent), n)
        self._state, rows, wrench, columns, _ = plain(_parts_of)(
            self._room, len(robot.parent), n)
        self._rows = rows
        self.gravity: Array = plain(constants_in)(self._integers, self._numbers).gravity
        self.external = ExternalForce(rows[6], wrench, rows[7], rows[11], columns, self._state)
        damping = SingularityDamping() if damping is None else damping
        rows[0], rows[0, robot.v_index[robot.prismatic]] = 1.0, damping.length**2
        self._state[_LENGTH], self._state[_LOW], self._state[_WIDTH] = (
            damping.length, damping.low, 1.0)
        if friction is not None:
            if len(friction.coulomb) != n:
                raise InputError(f'friction for {len(friction.coulomb)} joints: accepted is {n}')
            rows[1], rows[2] = friction.coulomb, friction.viscous
            self._state[_WIDTH] = friction.velocity
        rows[3] = np.where(np.isfinite(robot.effort_limits), LARGEST * robot.effort_limits,
                           WITHOUT_LIMIT)
        self._driver, self._includes_driver = driver, effort_includes_driver
        self._driver_torque: Array | None = None
        self.bandwidth = bandwidth
        self.forget()

    @property
    def bandwidth(self) -> float:
        """Bandwidth K [rad/s]; may be set at any time."""
        return float(self._state[_RATE])

    @bandwidth.setter
    def bandwidth(self, bandwidth: float) -> None:
        if not (math.isfinite(bandwidth) and bandwidth > 0.0):
            raise InputError(f'bandwidth {bandwidth} rad/s: accepted is a positive, finite number')
        self._state[_RATE] = bandwidth

    def forget(self) -> None:
        """Set the estimate to zero; observe anew from the next state on."""
        self._state[_TIME], self._state[_IS_KNOWN], self._state[_MISSING] = -math.inf, 0.0, 1.0
        self._state[_QUALITY] = 0.0
        self._rows[6:8] = self._rows[11] = 0.0
        self.external.wrench[:] = 0.0
        self._driver_torque = None

    def begin_with(self, torque: Array) -> None:
        """Observe anew, from an external torque (n,) that is known [N·m, N]."""
        self.forget()
        self._state[_MISSING] = 0.0
        self._rows[6] = np.clip(torque, -self._rows[3], self._rows[3])

    def go_on_from(self, other: MomentumObserver) -> None:
        """Take over the estimate of another observer of the same joints; quick."""
        self._state[_TIME], self._state[_MISSING] = other._state[_TIME], other._state[_MISSING]
        self._state[_IS_KNOWN] = 0.0
        self._rows[6] = np.clip(other._rows[6], -self._rows[3], self._rows[3])
        self._rows[11] = other._rows[11]
        self._driver_torque = None

    def update(self, time: float, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
               effort: ArrayLike | None = None) -> ExternalForce:
        """
        Advance the estimate to a joint state, and return it; the object is always the same.

        A repeated state, or one up to LONGEST_STEP older than the last, changes nothing. A state
        that is not finite, a torque that is not known, and an interval above LONGEST_STEP leave
        the estimate as it is, and the observation goes on from the next good state. If the clock
        was set back further, the estimate starts at zero.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        q, qd : (nq,), (n,)
        tau : (n,) [N·m, N]
            Torque commanded since the last state: the one computed from the last state.
        effort : (n,), optional [N·m, N]
            Measured torque. A joint whose entry is not finite uses `tau`.

        Raises
        ------
        InputError
            Not one number for each joint.

        """
        if self._driver is not None:
            tau, effort = self._with_driver(q, qd, tau, effort)
        given = tau if effort is None else effort
        try:
            status = _observe(self._integers, self._numbers, self._room, time, q, qd, tau, given)
        except TypeError:  # not arrays as the kernel takes them
            status = _observe(self._integers, self._numbers, self._room, float(time),
                              *(_array(values) for values in (q, qd, tau, given)))
        if status == WRONG_SHAPE:
            raise InputError(
                f'q, qd, tau, effort have the shapes {np.shape(q)}, {np.shape(qd)}, '
                f'{np.shape(tau)}, {np.shape(given)}: accepted are ({self.robot.nq},) and three '
                f'times ({self.robot.n},)')
        return self.external

    def _with_driver(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike, effort: ArrayLike | None
                     ) -> tuple[Array, Array | None]:
        """Return tau and effort with the mean torque of the driver since the last state."""
        assert self._driver is not None
        now = self._driver.torque(_array(q), _array(qd), self.gravity)
        last = now if self._driver_torque is None else self._driver_torque
        self._driver_torque, mean = now, 0.5 * (last + now)
        measured = None if effort is None else _array(effort)
        if measured is not None and not self._includes_driver:
            measured = measured + mean
        return _array(tau) + mean, measured


def _array(values: ArrayLike) -> Array:
    """The values in the form that kernels take."""
    try:
        return kernel_array(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f'a state or torque is not made of numbers: {error}') from None


def _room_for(b: int, n: int) -> Array:
    """The observer's memory for b bodies and n degrees of freedom, zeros."""
    return np.zeros(_STATE_WIDTH + _ROWS * n + 6 + 6 * n + b * WORK_WIDTH)


@ahead
def _compile() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    integers, numbers = packed_robot(pendulum(), PROPAGATED)
    x = np.zeros(1)
    _observe(integers, numbers, _room_for(1, 1), 0.0, x, x, x, x)
    _observe.disable_compile()
