# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Momentum observer: estimates external torques on the joints, and the wrench that causes them.

With the momentum p = M q̇, its rate without torques β = Cᵀq̇ - g, the motor torque τ and the
bandwidth K, the residual r of De Luca and Mattone is

    r = K (p - p(0) - ∫(τ + β + r) dt),    so that ṙ = K (τ_ext - r):

the external torque behind a first-order filter; neither q̈ nor M⁻¹ is needed. Sources: De Luca and
Mattone, "Actuator failure detection and isolation using generalized momenta", ICRA 2003, and
"Sensorless robot collision detection and hybrid force/motion control", ICRA 2005; Haddadin, De
Luca and Albu-Schäffer, "Robot collisions: a survey on detection, isolation, and identification",
IEEE Trans. Robotics 33 (2017).

The discrete form needs no integral. Between two states, dt apart, the mean external torque is

    m = (p₁ - p₀)/dt - τ - (β₀ + β₁)/2,    r ← r + (1 - exp(-K dt)) (m - r).

This is the exact solution for a constant external torque, for any sequence of time steps. At rest
m has no discretization error; in motion its error is of second order in dt. The delay is the time
constant 1/K. White noise of q̇ with the standard deviation σ gives r a standard deviation of about
K σ ‖rows of M‖.

The friction of the model, f_c tanh(q̇/v_s) + f_v q̇, is subtracted. The dry friction of a joint at
rest is unknown, and is part of the estimate, up to f_c.
"""

from __future__ import annotations

from dataclasses import replace
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.compile.compiled import ahead, inlined, kernel, lock, plain
from osc_ros.compile.record_type import FLOATS, INTEGERS, Slot, Table
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import Friction
from osc_ros.dynamics.algebra.arrays import kernel_array
from osc_ros.dynamics.algebra.spatial import all_finite, assign
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.algebra.wrench_fit import put_wrench
from osc_ros.dynamics.contract.method import DONE, NOT_FINITE, WRONG_SHAPE
from osc_ros.dynamics.trees.momentum import put_link_jacobian, put_momentum, WORK_WIDTH
from osc_ros.dynamics.trees.tree_layout import constants_in, packed_robot, pendulum, PROPAGATED
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Largest product of bandwidth and time constant of velocities that are estimated from coarse
# positions: a higher bandwidth takes their errors for external torques.
SLOWER = 0.35
LONGEST_STEP = 0.1  # longest time between two states in which the torque is assumed constant [s]

PLAN = (
    Slot('bandwidth', (), 'rad/s', 'bandwidth K of the estimate'),
    Slot('uses_efforts', (), '', 'whether measured efforts count', bool),
    Slot('adds_driver', (), '', 'whether measured efforts lack the torques of the driver', bool),
    Slot('fit_length', (), 'm', 'characteristic length of the fit of the wrench'),
    Slot('fit_low', (), '', 'threshold of the singular values of the fit'),
    Slot('fit_weights', ('n',), '1, m²', 'weights of the squared errors of the fit'),
    Slot('coulomb', ('n',), 'N·m, N', 'Coulomb friction of the model'),
    Slot('viscous', ('n',), 'N·m·s/rad, N·s/m', 'viscous friction of the model'),
    Slot('sliding', (), 'rad/s, m/s', 'width of the transition of the Coulomb friction'),
    Slot('bounds', ('n',), 'N·m, N', 'largest estimates'))
STATE = (
    Slot('time', (), 's', 'time of the last state'),
    Slot('is_known', (), '', 'whether momentum and rate are those of the last state', bool),
    Slot('momentum', ('n',), 'kg·m²/s, kg·m/s', 'momentum at the last state'),
    Slot('rate', ('n',), 'N·m, N', 'rate of this momentum by the model'),
    Slot('has_driver', (), '', 'whether `driver` is known', bool),
    Slot('driver', ('n',), 'N·m, N', 'torques of the driver at the last state'),
    Slot('missing', (), '', 'share of the estimate that is missing since the start'),
    Slot('torque', ('n',), 'N·m, N', 'estimated torques of external forces'),
    Slot('friction', ('n',), 'N·m, N', 'part of `torque` due to the friction of the model'))
OBSERVER = Table(
    'Observer', *PLAN, *STATE,
    Slot('robot_integers', (), '', 'of the robot, see `trees.tree_layout`', INTEGERS),
    Slot('robot_numbers', (), '', 'of the robot', FLOATS),
    Slot('gravity', (), 'm/s²', 'gravity (3,), a part of `robot_numbers`', FLOATS),
    Slot('memory', (), 's', 'time constant of velocities that are estimates from coarse '
         'positions; otherwise 0'),
    Slot('velocity_error', ('n',), 'rad/s, m/s', 'error of these velocities; otherwise 0'),
    Slot('lagging_qdd', ('n',), 'rad/s², m/s²', 'commanded acceleration, low-pass filtered with '
         'the time constant `memory`'),
    Slot('noise', ('n',), 'N·m, N', 'largest effect of `velocity_error` on `torque`'),
    Slot('wrench', (6,), 'N·m, N', 'wrench on the link, base axes, [moment; force]'),
    Slot('residual', ('n',), 'N·m, N', 'torques that the wrench does not explain'),
    Slot('quality', (), '', 'how far to trust the wrench, 0 to 1'),
    Slot('columns', ('n', 6), '1, m', "columns of the link's Jacobian, base axes"),
    room=(
        Slot('momentum_now', ('n',), 'kg·m²/s, kg·m/s', 'momentum at this state'),
        Slot('rate_now', ('n',), 'N·m, N', 'rate of this momentum by the model'),
        Slot('friction_now', ('n',), 'N·m, N', 'friction of the model'),
        Slot('driver_mean', ('n',), 'N·m, N', 'mean torques of the driver since the last state'),
        Slot('unit', ('n',), 'rad/s, m/s', 'velocity of one joint'),
        Slot('work', ('n', WORK_WIDTH), '', 'memory of the pass over the bodies')))


@inlined
def share(bandwidth, dt):
    """Gain of a first-order low-pass filter for a time step dt [s]."""
    return -np.expm1(-bandwidth * dt)


@inlined
def bandwidth_in_force(o):
    """Bandwidth in use [rad/s]: lower if velocities are estimated from coarse positions."""
    return o.bandwidth if o.memory == 0.0 else min(o.bandwidth, SLOWER / o.memory)


@inlined
def beyond_noise(value, noise):
    """The part of a torque's size that exceeds its noise, 0 or more."""
    return max(np.abs(value) - noise, 0.0)


@inlined
def low_pass(value, target, made_up):
    """Advance a low-pass filter from `value` towards `target`; its gain is `made_up`."""
    return value + made_up * (target - value)


@inlined
def _put_driver(o, driver):
    """Write the mean torques (n,) of the driver since the last state."""
    for k in range(len(driver)):
        last = o.driver[k] if o.has_driver else driver[k]
        o.driver[k], o.driver_mean[k] = driver[k], 0.5 * (last + driver[k])
    o.has_driver = len(driver) > 0


@inlined
def _put_model(robot, o, q, qd):
    """Write momentum, its rate and the Jacobian at a state; return whether all are finite."""
    put_momentum(robot, q, qd, o.work, o.momentum_now, o.rate_now)
    for k in range(o.n):
        o.friction_now[k] = o.viscous[k] * qd[k]
        if o.coulomb[k] > 0.0:
            o.friction_now[k] += o.coulomb[k] * np.tanh(qd[k] / o.sliding)
        o.rate_now[k] -= o.friction_now[k]
    put_link_jacobian(robot, o.work, o.columns)
    return all_finite(o.momentum_now) and all_finite(o.rate_now)


@inlined
def _acting(o, tau, effort, k):
    """Torque of a motor since the last state, measured or commanded; NaN if unknown."""
    measured = effort[k] + (o.driver_mean[k] if o.adds_driver else 0.0)
    if o.uses_efforts and np.isfinite(measured):
        return measured
    return tau[k] + o.driver_mean[k]


@inlined
def _advance(o, dt, tau, effort):
    """Advance the estimate by dt [s], if the motor torques are known."""
    for k in range(o.n):
        if not np.isfinite(_acting(o, tau, effort, k)):
            return
    made_up = share(bandwidth_in_force(o), dt)
    for k in range(o.n):
        mean = ((o.momentum_now[k] - o.momentum[k]) / dt
                - _acting(o, tau, effort, k) - 0.5 * (o.rate_now[k] + o.rate[k]))
        torque = low_pass(o.torque[k], mean, made_up)
        if np.isfinite(torque):  # else dt is almost zero
            o.torque[k] = min(max(torque, -o.bounds[k]), o.bounds[k])
        o.friction[k] = low_pass(o.friction[k], o.friction_now[k], made_up)
    o.missing *= np.exp(-bandwidth_in_force(o) * dt)


@kernel
def observe(o, time, q, qd, tau, effort, driver):
    """Advance an OBSERVER to a joint state; see `MomentumObserver.update`."""
    # `driver`: torques that the driver adds to the commanded ones (n,) [N·m, N]; (0,) without one.
    # Return DONE; WRONG_SHAPE: nothing was computed; NOT_FINITE: the state is not used.
    robot = constants_in(o.robot_integers, o.robot_numbers)
    b, n = len(robot.tree), len(robot.rotors)
    if (len(q) != b + 3 * (n - b) // 2 or not len(qd) == len(tau) == len(effort) == n
            or len(driver) > 0 and len(driver) != n):
        return WRONG_SHAPE
    _put_driver(o, driver)
    dt = time - o.time
    if -LONGEST_STEP <= dt <= 0.0:
        return DONE  # the state is repeated, or older than the last one
    if not (_put_model(robot, o, q, qd) and np.isfinite(time)):
        o.is_known = False
        return NOT_FINITE
    if dt < -LONGEST_STEP:  # the clock has been set back
        o.missing = 1.0
        o.torque[:] = 0.0
        o.friction[:] = 0.0
    elif o.is_known and dt <= LONGEST_STEP:
        _advance(o, dt, tau, effort)
    assign(o.momentum, o.momentum_now)
    assign(o.rate, o.rate_now)
    o.time, o.is_known = time, True
    o.quality = (1.0 - o.missing) * put_wrench(
        o.columns, o.fit_weights, o.torque, o.fit_length, o.fit_low, o.wrench, o.residual)
    return DONE


@inlined
def put_errors_with_lag(o, errors, commanded, dt):
    """Write `velocity_error`: the sum of `errors` (n,) and of what the lag `memory` causes."""
    # Such a velocity lags behind a change of the acceleration. `commanded` (n,): accelerations by
    # the last torques; `dt`: time since the last state [s].
    keeps = np.exp(-dt / o.memory) if o.memory > 0.0 else 0.0
    for i in range(o.n):
        away = commanded[i] - o.lagging_qdd[i]
        if not np.isfinite(away):
            away = 0.0
        o.velocity_error[i] = errors[i] + (o.memory * np.abs(away) if errors[i] > 0.0 else 0.0)
        o.lagging_qdd[i] += (1.0 - keeps) * away


@kernel
def put_noise(o, q):
    """Write the torques (n,) that errors of the velocities cause in the estimate."""
    robot, rate = constants_in(o.robot_integers, o.robot_numbers), bandwidth_in_force(o)
    rate /= 1.0 + rate * o.memory
    for i in range(o.n):
        o.noise[i] = o.unit[i] = 0.0
    for j in range(o.n):
        if o.velocity_error[j] == 0.0:
            continue
        o.unit[j] = o.velocity_error[j]
        put_momentum(robot, q, o.unit, o.work, o.momentum_now, o.rate_now)
        o.unit[j] = 0.0
        for i in range(o.n):
            o.noise[i] += rate * np.abs(o.momentum_now[i])


BANDWIDTH = 100.0  # default bandwidth [rad/s]; the time constant is 10 ms
# Bound of the estimate, as a multiple of the effort limits, so that the effect of a wrong reading
# decays within some time constants.
LARGEST = 10.0
WITHOUT_LIMIT = 1e6  # bound for a joint without effort limit [N·m, N]


class ExternalForce:
    """
    Estimated external torques, and the wrench that explains them; `MomentumObserver` updates them.

    Attributes
    ----------
    torque : (n,) [N·m; N for prismatic]
        Estimated torques of external forces on the joints.
    wrench : (6,) [N·m, N]
        Wrench of the environment on the link, [moment; force], about the link's origin, base axes:
        the least-squares solution of τ = JᵀF.
    residual : (n,) [N·m; N]
        `torque` minus Jᵀ `wrench`.
    friction : (n,) [N·m; N]
        Part of `torque` due to the observer's friction model: without this model, the estimate
        would be `torque` minus `friction`.

    """

    def __init__(self, o: Any) -> None:
        self._o = o
        self.torque: Array = o.torque
        self.friction: Array = o.friction
        self.wrench: Array = o.wrench
        self.residual: Array = o.residual

    @property
    def quality(self) -> float:
        """
        Reliability of `wrench`, from 0 to 1.

        It is the product of three factors: the observability of the wrench at this pose in the
        worst direction (0 at a singularity, and for fewer than six joints); the share of `torque`
        that the wrench explains, 1 - |residual|²/|torque|²; and `settled`. With 6 joints some
        wrench explains every torque, so look at `lever` too.

        """
        return float(self._o.quality)

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the estimate [rad/s]."""
        return float(self._o.bandwidth)

    @property
    def settled(self) -> float:
        """Share of a constant external torque that the filter has reached since its start."""
        return 1.0 - float(self._o.missing)

    @property
    def lever(self) -> float:
        """
        Distance from the link's origin to the axis of the wrench [m]; infinite without force.

        For a force on the link it is at most the size of the link. A larger lever means that the
        force acts elsewhere on the arm.

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

    The dry friction of a joint at rest is unknown, and is part of the estimate. Equations and
    sources: `osc_ros.control.model_error.observer`.

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
        K. A larger one gives a faster and noisier estimate.
    link : str, optional
        Link on which the wrench acts; default: the robot's first tip.
    friction : Friction, optional
        Friction of the joints; `Friction.of(robot, 1.0)` is that of the robot's description.
    driver : Driver, optional
        Driver that adds torques to the commands. The observer adds them to commanded torques.
    effort_includes_driver : bool
        Whether measured efforts contain the driver's torques; if not, they are added too.
    damping : SingularityDamping, optional
        Provides `length` and `low`, see `osc_ros.dynamics.algebra.wrench_fit`.

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
            raise InputError(f"link '{link}': give a link that joints of the robot move")
        self.robot, self.link, n = robot, link, robot.n
        self.record = OBSERVER.new(n=n)
        packed = packed_robot(replace(robot, tips=(link,)), PROPAGATED)
        self.record.robot_integers, self.record.robot_numbers = packed
        self.gravity: Array = plain(constants_in)(*packed).gravity
        self.record.gravity = self.gravity
        self.external = ExternalForce(self.record)
        self._driver, self._none, self._unknown = driver, np.zeros(0), np.full(n, math.nan)
        self._plan(friction, SingularityDamping() if damping is None else damping,
                   effort_includes_driver)
        self.bandwidth = bandwidth
        self.forget()

    def _plan(self, friction: Friction | None, damping: SingularityDamping,
              effort_includes_driver: bool) -> None:
        robot, o = self.robot, self.record
        o.fit_length, o.fit_low, o.sliding = damping.length, damping.low, 1.0
        o.fit_weights[:], o.uses_efforts = 1.0, True
        o.fit_weights[robot.v_index[robot.prismatic]] = damping.length**2
        if friction is not None:
            if len(friction.coulomb) != robot.n:
                raise InputError(f'friction for {len(friction.coulomb)} joints: give '
                                 f'{robot.n}')
            o.coulomb[:], o.viscous[:] = friction.coulomb, friction.viscous
            o.sliding = friction.velocity
        o.bounds[:] = np.where(np.isfinite(robot.effort_limits), LARGEST * robot.effort_limits,
                               WITHOUT_LIMIT)
        o.adds_driver = not effort_includes_driver

    def has_model_of(self, other: MomentumObserver) -> bool:
        """Return whether another observer differs at most in its bandwidth and its estimate."""
        drivers = [None if one._driver is None else one._driver.compensates
                   for one in (self, other)]
        return (self.robot is other.robot and self.link == other.link and drivers[0] == drivers[1]
                and all(np.array_equal(getattr(self.record, one.name),
                                       getattr(other.record, one.name)) for one in PLAN[1:]))

    @property
    def bandwidth(self) -> float:
        """Bandwidth K [rad/s]; may be set at any time."""
        return self.external.bandwidth

    @bandwidth.setter
    def bandwidth(self, bandwidth: float) -> None:
        if not (math.isfinite(bandwidth) and bandwidth > 0.0):
            raise InputError(f'bandwidth {bandwidth} rad/s: give a positive, finite number')
        self.record.bandwidth = bandwidth

    def forget(self) -> None:
        """Reset the estimate to zero; the observation restarts with the next state."""
        self.record.clear((*(one.name for one in STATE), 'wrench', 'residual', 'quality'))
        self.record.time, self.record.missing = -math.inf, 1.0

    def begin_with(self, torque: Array) -> None:
        """Reset, and start from an external torque (n,) that is already known [N·m, N]."""
        self.forget()
        o = self.record
        o.missing, o.torque[:] = 0.0, np.clip(torque, -o.bounds, o.bounds)

    def go_on_from(self, other: MomentumObserver) -> None:
        """Copy the estimate of another observer of the same joints, without a computation."""
        o = self.record
        o.take(other.record, (one.name for one in STATE))
        o.is_known = o.has_driver = False
        o.torque[:] = np.clip(o.torque, -o.bounds, o.bounds)

    def update(self, time: float, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
               effort: ArrayLike | None = None) -> ExternalForce:
        """
        Advance the estimate to a joint state, and return it; the object is always the same.

        A repeated state, or one up to LONGEST_STEP older than the last, changes nothing. A state
        that is not finite, an unknown torque, and an interval above LONGEST_STEP leave the
        estimate unchanged, and the observation continues from the next valid state. If the clock
        was set back further, the estimate starts at zero.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        q, qd : (nq,), (n,)
        tau : (n,) [N·m, N]
            Torque commanded since the last state, which was computed from the last state.
        effort : (n,), optional [N·m, N]
            Measured torque. A joint whose entry is not finite uses `tau`.

        Raises
        ------
        InputError
            Not one number for each joint.

        """
        effort = self._unknown if effort is None else effort
        try:
            status = observe(self.record, time, q, qd, tau, effort, self._driver_torque(q, qd))
        except TypeError:  # other argument types than the kernel accepts
            q, qd, tau, effort = map(_array, (q, qd, tau, effort))
            status = observe(self.record, float(time), q, qd, tau, effort,
                             self._driver_torque(q, qd))
        if status == WRONG_SHAPE:
            raise InputError(
                f'q, qd, tau, effort have the shapes {np.shape(q)}, {np.shape(qd)}, '
                f'{np.shape(tau)}, {np.shape(effort)}: must be ({self.robot.nq},) and three '
                f'times ({self.robot.n},)')
        return self.external

    def _driver_torque(self, q: ArrayLike, qd: ArrayLike) -> Array:
        """Torques (n,) of the driver at a state [N·m; N]; empty without a driver."""
        if self._driver is None or np.shape(q) != (self.robot.nq,) or np.shape(qd) != (
                self.robot.n,):
            return self._none
        return self._driver.torque(_array(q), _array(qd), self.gravity)


def _array(values: ArrayLike) -> Array:
    """Convert to a contiguous array of float64, as kernels require."""
    try:
        return kernel_array(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f'a state or torque is not made of numbers: {error}') from None


@ahead
def _compile() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    x, o = np.zeros(1), OBSERVER.new(n=1)
    o.robot_integers, o.robot_numbers = packed_robot(pendulum(), PROPAGATED)
    observe(o, 0.0, x, x, x, x, x)
    put_noise(o, x)
    lock(observe)
    lock(put_noise)
