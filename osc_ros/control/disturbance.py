# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Compensation of the torques that the model lacks: load, wrong masses, dry friction.

The momentum observer's external torque τ_ext contains them, and contacts too. The compensation c
is added to the torque of the law, and follows -τ_ext. A joint that dry friction holds has
τ_ext = -(law's torque + c) + gravity, so c then integrates the torque of the law until the joint
moves: no error remains at rest.

Which part of τ_ext is load and friction, and which is contact, is decided by these rules:

1. What a wrench along yielding axes explains is left out (`yielding_axes`): along an axis of force
   the environment is pushed on purpose, and a spring keeps its stiffness and yields to loads too.
2. Contacts come suddenly, loads and friction are followed. If |τ_ext + c| of one joint, without
   the part of rule 1, exceeds its threshold, the arm touches something: c is held until all joints
   are below half of it. For the time `free` after the start, the arm is taken to touch nothing, so
   that a load which is there from the start is found.
3. c is bounded by the torques that the errors of the model named in `Disturbance` can cause, and
   its rate too: this bounds the force on an obstacle that is touched too slowly for rule 2.
4. c is held while the caller says so (a target waits for the arm), while the observer has not
   settled, and over gaps.
5. The sum with the law's torque satisfies the effort limits; c does not wind up beyond them.

If c is switched off, and on, it changes at `rate` too.

In mode 'integral' c does not follow -τ_ext, but integrates the torque by which the law corrects
the error of the first task, Jᵀ Λ u: integral action. It needs no knowledge of the torques that
act, and leaves friction in motion, and the null space, as they are. It is also held while a limit
acts, because the error then grows. All other rules apply.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
import math

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.observer import ExternalForce, LONGEST_STEP
from osc_ros.control.task import Stiffness, Task
from osc_ros.dynamics.compiled import ahead, kernel
from osc_ros.dynamics.trees.momentum import Momentum
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

MODES = 'observer', 'integral'
SETTLED = 0.95  # share of the observer's estimate that must have settled
# Sudden torque that counts as contact, relative to the friction: the reversal of a joint is twice
# its friction.
REVERSAL = 2.5
MARGIN = 1.25  # of the bound: what is left over overcomes the friction
SLOWER = 4.0  # loads may be followed so many times slower than friction, relative to their size
# Largest product of the shares that observer and compensation follow in one tick. With a delay of
# one more tick, and true inertias of half the model's, the loop through both is then stable at
# 200 Hz and above.
QUICKEST = 0.06
LEVER = 0.1  # largest distance of the unknown payload's centre of mass from the tip [m]
LEAST = 1e-12  # a smaller compensation is zero: denormal numbers are slow [N·m]
_POSITIONS = 64  # sampled for the bounds
# Rows of `limits`: effort limit, bound, rate, threshold of contact.
_EFFORT, _BOUND, _SPEED, _CONTACT = range(4)


@kernel
def _advance(limits, external, kept, feedback, tau, gain, dt, is_held, is_sensing, was_in_contact,
             integrates, c):
    """
    Advance the compensation by dt; return whether the arm touches something.

    Parameters
    ----------
    limits : (4, n)
    external, kept : (n,), (n,) [N·m]
        External torque, and the part of it that is left out.
    feedback : (n,) [N·m]
        Torque that is integrated in mode 'integral'.
    tau : (n,) [N·m]
        Torque of the law.
    gain : float
        Share of the difference to the external torque that is made up in dt; or of `feedback`.
    dt : float [s]
    is_held, is_sensing, was_in_contact, integrates : bool
    c : (n,), changed [N·m]

    """
    worst = 0.0
    for k in range(len(c)):
        worst = max(worst, np.abs(external[k] - kept[k] + c[k]) / limits[_CONTACT, k])
    in_contact = is_sensing and worst > (0.5 if was_in_contact else 1.0)
    for k in range(len(c)):
        effort, bound, most = limits[_EFFORT, k], limits[_BOUND, k], dt * limits[_SPEED, k]
        if not (is_held or in_contact):
            wanted = c[k] + feedback[k] if integrates else kept[k] - external[k]
            wanted = min(max(wanted, -bound), bound)
            c[k] += min(max(gain * (wanted - c[k]), -most), most)
        if np.isfinite(tau[k]):
            c[k] = min(max(c[k], min(-effort - tau[k], 0.0)), max(effort - tau[k], 0.0))
        if np.abs(c[k]) < LEAST:
            c[k] = 0.0
    return in_contact


@dataclass(frozen=True)
class Disturbance:
    """
    Settings of the compensation: its mode, and how wrong the model may be.

    The bound of a joint's compensation is MARGIN times the sum of three torques: of the payload at
    the tip and of the share of the arm's own weight, the largest of many positions, and of the
    friction. A sudden torque is a contact if it exceeds REVERSAL times the friction plus the share
    of the weight.

    Attributes
    ----------
    mode : str
        'observer': c follows the estimate of the external torques; 'integral': see this module.
    payload : float [kg]
        Largest unknown payload; its centre of mass is at most LEVER away from the tip.
    masses : float
        Largest relative error of the masses of the links.
    friction : float [N·m; N for prismatic]
        Largest unknown dry friction of a joint.
    bandwidth : float [rad/s]
        Bandwidth of the low-pass filter behind the observer; less at low rates of the states.
    rise : float [s]
        Least time in which the compensation rises by `friction`; by the load, SLOWER times that.
    free : float [s]
        Time after the start during which every torque counts as load.
    integral_rate : float [1/s]
        Rate of the integral action; keep it below a quarter of the lowest natural frequency.

    Raises
    ------
    InputError
        Another mode; a number that is not finite, or negative; a bandwidth, friction, rise or
        rate of 0.

    """

    mode: str = 'observer'
    payload: float = 1.0
    masses: float = 0.1
    friction: float = 1.0
    bandwidth: float = 200.0
    rise: float = 0.3
    free: float = 1.0
    integral_rate: float = 2.0

    def __post_init__(self) -> None:
        """Validate the mode and the numbers."""
        if self.mode not in MODES:
            raise InputError(f"disturbance mode '{self.mode}': accepted is one of "
                             + ', '.join(MODES))
        for name in (field.name for field in fields(self) if field.name != 'mode'):
            value, may_be_zero = getattr(self, name), name in ('payload', 'masses', 'free')
            if not (math.isfinite(value) and (value > 0.0 or value == 0.0 and may_be_zero)):
                raise InputError(f'disturbance {name} {value}: accepted is a finite number '
                                 + ('of 0 or more' if may_be_zero else 'above 0'))

    def limits(self, robot: Robot) -> Array:
        """Effort limit, bound, rate and threshold of contact of each joint, (4, n)."""
        model = Momentum(robot)
        centred, *shifted = (Momentum(robot.with_payload(self.payload, centre))
                             for centre in np.vstack([np.zeros(3), LEVER * np.eye(3)]))
        rng, rest = np.random.default_rng(0), np.zeros(robot.n)
        weight, load = rest, rest
        for _ in range(_POSITIONS):
            q = random_position(robot, rng)
            own = model.at(q, rest)[1]
            weight = np.maximum(weight, np.abs(own))
            at_tip = centred.at(q, rest)[1]
            turned = np.linalg.norm([one.at(q, rest)[1] - at_tip for one in shifted], axis=0)
            load = np.maximum(load, np.abs(at_tip - own) + turned)
        load = load + self.masses * weight
        return np.array([robot.effort_limits, MARGIN * (load + self.friction),
                         (self.friction + load / SLOWER) / self.rise,
                         REVERSAL * self.friction + self.masses * weight])

    def sudden_torques(self, robot: Robot, with_load: bool) -> Array:
        """
        Torques (n,) above which a sudden external torque is a contact [N·m; N].

        Parameters
        ----------
        robot : Robot
        with_load : bool
            Whether the torque of the load counts as sudden, too.

        """
        limits = self.limits(robot)
        load = limits[_BOUND] / MARGIN - self.friction
        return np.asarray(limits[_CONTACT] + (load if with_load else 0.0))


def random_position(robot: Robot, rng: np.random.Generator) -> Array:
    """Random joint positions (nq,) within the limits, and within half a turn [rad, m]."""
    lower, upper = np.clip(robot.position_limits.T, -np.pi, np.pi)
    found, q = rng.uniform(np.minimum(lower, upper), upper), rng.normal(size=robot.nq)
    single = ~robot.spherical
    q[robot.q_index[single]] = found[robot.v_index[single]]
    return q


class Compensation:
    """
    The torque that makes up for what the model lacks.

    Attributes
    ----------
    torque : (n,) [N·m; N for prismatic]
        The compensation in force; the array stays the same object.
    is_active : bool
        If set to False, the compensation returns to zero at its largest rate.
    in_contact : bool
        Whether the arm touches something, by the rule of this module.
    limits : (4, n)
        See `Disturbance.limits`.

    Parameters
    ----------
    robot : Robot
    settings : Disturbance, optional
    limits : (4, n), optional
        `settings.limits(robot)`, if it is known: it takes as long as many ticks.

    """

    def __init__(self, robot: Robot, settings: Disturbance | None = None,
                 limits: Array | None = None) -> None:
        _compile()
        self.settings = settings = Disturbance() if settings is None else settings
        self.limits: Array = settings.limits(robot) if limits is None else limits
        self.torque, self._none = np.zeros(robot.n), np.zeros(robot.n)
        self._friction, self._delayed = np.zeros(robot.n), np.zeros(robot.n)
        self.is_active = True
        self.forget()

    def forget(self) -> None:
        """Set the compensation to zero at once, for an arm that does not move; start anew."""
        self.torque[:] = self._friction[:] = self._delayed[:] = 0.0
        self.in_contact, self._time, self._free = False, -math.inf, self.settings.free

    def begin_with(self, torque: Array) -> None:
        """Set the compensation to a torque (n,) that holds the arm at rest, within the bound."""
        self.forget()
        self.torque[:] = np.clip(torque, -self.limits[_BOUND], self.limits[_BOUND])

    def go_on_from(self, other: Compensation) -> None:
        """Take over the state of another compensation of the same joints."""
        self.torque[:], self._friction[:] = other.torque, other._friction
        self._delayed[:] = other._delayed
        self.in_contact, self._time, self._free = other.in_contact, other._time, other._free
        if not other.is_active:
            self._free = self.settings.free

    @property
    def takes_all_for_load(self) -> bool:
        """Whether the time `Disturbance.free` after the start is not over."""
        return self._free > 0.0

    def update(self, time: float, external: ExternalForce, tau: Array, is_held: bool = False,
               yielding: Array | None = None, feedback: Array | None = None,
               friction: Array | None = None) -> Array:
        """
        Advance the compensation to a time; return it, the same array every time.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        external : ExternalForce
            The observer's estimate for this state.
        tau : (n,) [N·m, N]
            Torque of the law, to which the compensation will be added.
        is_held : bool
            Whether to hold the compensation: a target waits for the arm, or, in mode 'integral',
            a limit acts.
        yielding : (6, 6), optional
            Projector on the axes that yield, see `yielding_axes`; default: none.
        feedback : (n,), optional [N·m, N]
            In mode 'integral': the torque of the feedback that is integrated.
        friction : (n,), optional [N·m, N]
            Friction compensation that is a part of `tau`. If given, it replaces the friction of
            the observer's model in the external torque.

        """
        dt = time - self._time
        if not dt <= LONGEST_STEP:  # the first state, a gap, or not a number
            dt = 0.0
        dt, self._time = max(dt, 0.0), time if math.isfinite(time) else self._time
        if self.is_active:
            self._free -= dt
            kept = self._none if yielding is None else external.torque_of(
                yielding @ external.wrench)
            given, is_held = external.torque, is_held or external.settled < SETTLED
            if friction is not None:
                self._delayed += _share(external.bandwidth, dt) * (self._friction - self._delayed)
                self._friction[:] = friction
                given = given - external.friction + self._delayed
        else:
            kept = given = self._none
            self._free, is_held = self.settings.free, False
        settings, integrates = self.settings, self.is_active and feedback is not None
        if integrates:
            gain = settings.integral_rate * dt
        else:
            gain = _share(settings.bandwidth, dt)
            if gain > 0.0:
                gain = min(gain, QUICKEST / max(_share(external.bandwidth, dt), QUICKEST))
        self.in_contact = bool(_advance(
            self.limits, given, kept, self._none if feedback is None else feedback, tau, gain, dt,
            is_held, self.is_active and self._free <= 0.0, self.in_contact,
            integrates, self.torque))
        return self.torque


def _share(bandwidth: float, dt: float) -> float:
    """Share of a difference that a low-pass filter follows in dt [s]."""
    return -math.expm1(-bandwidth * dt)


def yielding_axes(task: Task, R: Array) -> Array:
    """
    Projector (6, 6) on the axes along which a task gives way, base axes, [angular; linear].

    Parameters
    ----------
    task : Task
    R : (3, 3)
        Axes of the task's frame, in base axes.

    """
    soft = ('force', 'motion') if isinstance(task.gains, Stiffness) else ('force',)
    of_axes, projector = task.along(*soft), np.zeros((6, 6))
    for k in (0, 3):
        projector[k:k + 3, k:k + 3] = R * of_axes[k:k + 3] @ R.T
    return projector


@ahead
def _compile() -> None:
    """Compile or load the kernel once per process; other argument types then raise TypeError."""
    x = np.zeros(1)
    _advance(np.ones((4, 1)), x, x, x, x, 0.0, 0.0, False, False, False, False, x.copy())
    _advance.disable_compile()
