"""
The control cycle of a law: joint state in, joint torques out.

A tick: state → outward pass (Λ⁻¹, a⁰, poses, twists) → errors → u → forces of the tasks by
priority → inward pass τ → limits → friction → less what the driver adds → the rest of a change →
rate of the torque. Limits read the accelerations from what the outward pass left.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.bandwidth import DELAY
from osc_ros.control.fade import Fade
from osc_ros.control.friction import feedback_gain, FrictionInForce
from osc_ros.control.gravity import Gravity
from osc_ros.control.level import Level
from osc_ros.control.limiter import Limiter
from osc_ros.control.posture import PostureSetPoint
from osc_ros.control.settings import Settings
from osc_ros.control.setup import Setup
from osc_ros.control.task import Target
from osc_ros.dynamics.arrays import finite_array, ready
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.priority import Priorities
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

PAUSE = 0.1  # a longer tick is a pause: changes of gravity are complete after it [s]
PERIOD_SHARE = 0.125  # of the last tick in the mean period
_FLOAT64 = np.dtype(np.float64)


class ControlCycle:
    """
    What a law does in every tick, and its memory from one tick to the next.

    Attributes
    ----------
    delay : float [periods]
        From the time of a state to the torque that answers it. Gains that are too high for it are
        reduced; may be set at any time.

    Parameters
    ----------
    setup : Setup
    q : (n,)
        The first posture.

    """

    def __init__(self, setup: Setup, q: Array) -> None:
        robot = setup.robot
        self._rest = np.zeros(robot.n)
        self._setup = setup
        self._setup.start(q)
        self._next: Setup | None = None
        self._fade, self._friction = Fade(), FrictionInForce()
        self._friction_torque = self._rest
        self._gravity = Gravity(robot.gravity)
        self._posture = PostureSetPoint(robot, q)
        self._q = q
        self._is_placed = False  # until `latch`
        self._time, self._period = -math.inf, 0.0
        self.delay = DELAY
        # of the last two ticks: time, q, qd, torque
        self._last: tuple[float, Array, Array, Array] | None = None
        self._before: tuple[float, Array, Array, Array] | None = None

    @property
    def robot(self) -> Robot:
        """The robot in force from the next tick on."""
        return (self._next or self._setup).robot

    @property
    def settings(self) -> Settings:
        """The settings in force from the next tick on, all of them: `limits` too."""
        return (self._next or self._setup).settings

    @property
    def space(self) -> OperationalSpace:
        """Dynamics of the robot as seen from the links of the tasks."""
        return self._setup.space

    @property
    def levels(self) -> dict[str, Level]:
        """The tasks at work by name, highest priority first."""
        return {level.task.name: level for level in self._setup.levels}

    @property
    def priorities(self) -> Priorities:
        """The solve of the last tick: forces, conditioning, lost directions of every task."""
        return self._setup.solver

    @property
    def limiter(self) -> Limiter:
        """The limits: joints that are at one, and the shares that they leave to the tasks."""
        return self._setup.limiter

    @property
    def period(self) -> float:
        """Mean time between the last states [s]; 0 before the second one."""
        return self._period

    @property
    def posture(self) -> Array:
        """The wanted posture (n,) of the joints."""
        return self._posture.wanted

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Joints (n,) whose torque of the last tick was brought to its limit."""
        return self._setup.limiter.saturated

    @property
    def friction_torque(self) -> Array:
        """Torques (n,) of the last tick that compensate friction [N·m]."""
        return self._friction_torque

    @property
    def pose(self) -> Array:
        """Pose (4, 4) of the first task's link."""
        return self._setup.levels[0].pose.copy()

    @property
    def twist(self) -> Array:
        """Twist (6,) of the first task's link, base axes [rad/s, m/s]."""
        return self._setup.levels[0].twist.copy()

    @property
    def target(self) -> Target:
        """Target of the first task."""
        return self._setup.levels[0].target

    @property
    def error(self) -> Array:
        """Pose error (6,) of the first task, base axes [rad, m]."""
        return self._setup.levels[0].error.copy()

    @property
    def u(self) -> Array:
        """Commanded acceleration (6,) of the first task, base axes [rad/s², m/s²]."""
        return self._setup.levels[0].u.copy()

    @property
    def F(self) -> Array:
        """Force (6,) of the first task, base axes [N·m, N]."""
        return self._setup.solver.forces[:6].copy()

    def latch(self, q: ArrayLike) -> None:
        """
        Make the poses and posture at q (n,) the target, and forget what was planned.

        Raises
        ------
        InputError
            Not n finite numbers.

        """
        here = finite_array('q', q, self._rest.shape).copy()
        setup = self._next or self._setup
        if setup.space is not self._setup.space:
            self._setup.space.close()
        self._setup, self._next = setup, None
        self._fade.forget()
        self._friction.set(setup.settings.friction)
        self._is_placed = True
        setup.set_gravity(self._gravity.now)
        self._last = self._before = None
        self._q = here
        self._posture.latch(self._q)
        poses = setup.poses(self._q)
        for level, i in zip(setup.levels, setup.at):
            level.latch(poses[i])
        setup.limiter.forget()
        setup.reference.forget()
        self._friction_torque = self._rest

    def torque(self, time: float, q: ArrayLike, qd: ArrayLike) -> Array:
        """
        Joint torques (n,) [N·m] for the state at a time [s], within the limits.

        The first call latches its q, unless `latch` was called before.

        Parameters
        ----------
        time : float
            Of the state, on the clock of the motions.
        q, qd : (n,)

        Raises
        ------
        InputError
            Shapes that do not fit, numbers that are not finite.

        """
        q, qd = self._enter(time, q, qd)
        if self._next is not None:
            self._take_over(self._next, time, q, qd)
        setup, left = self._setup, self._fade.advance(time)
        fading = self._rest if left is None else left[0]
        tau = setup.torque(time, q, qd, self._posture, None if left is None else fading)
        tau = setup.torque_within(time, q, qd, tau)
        tau = self._command(time, q, qd, tau, fading)
        if left is not None:
            tau = tau + left[1]
        return self._leave(time, q, qd, tau)

    def _enter(self, time: float, q: Any, qd: Any) -> tuple[Array, Array]:
        """The state as the kernels take it; bring gains, gravity and posture to its time."""
        try:
            is_ready = (q.shape == qd.shape == self._rest.shape
                        and q.dtype is qd.dtype is _FLOAT64
                        and q.flags.carray and qd.flags.carray)
        except AttributeError:  # sequences of numbers
            is_ready = False
        if not is_ready:
            q, qd = self._joint_arrays(q, qd)
        if not self._is_placed:
            self.latch(q)
        dt = time - self._time
        self._follow_period(dt)
        if self._gravity.is_moving:
            self._setup.set_gravity(self._gravity.advance(dt if dt <= PAUSE else math.inf))
        if self._posture.is_moving:
            self._posture.advance(dt if 0.0 < dt < math.inf else 0.0,
                                  self._setup.settings.blend_time)
        return q, qd

    def _leave(self, time: float, q: Array, qd: Array, tau: Array) -> Array:
        """The torque (n,) to send, within its rate and finite; remember the tick."""
        tau = self._setup.limiter.torque_at_rate(time, tau)
        if not math.isfinite(tau.dot(self._rest)):  # 0 times inf or nan is nan
            raise InputError(f'the torque is not finite: {tau.tolist()}')
        self._before, self._last = self._last, (time, q.copy(), qd.copy(), tau)
        self._q, self._time = self._last[1], time
        return tau.copy()

    def plan(self) -> None:
        """
        Plan the motions of the targets that start: to be called when the torque has been sent.

        A motion that was not planned by then is planned by the next `torque`, at its expense; the
        torques are the same.

        Raises
        ------
        InputError
            A target found no motion within its limits; it goes on as it did.

        """
        for level in self._setup.levels:
            level.guide.plan()

    def _joint_arrays(self, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]:
        """The state as contiguous float64 arrays; refuses shapes that do not fit."""
        try:
            q, qd = np.asarray(q, dtype=np.float64), np.asarray(qd, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f'the state is not made of numbers: {error}') from None
        if q.shape != self._rest.shape or qd.shape != self._rest.shape:
            raise InputError(f'state has shapes {q.shape} and {qd.shape}, accepted is '
                             f'{self._rest.shape}')
        return ready(q), ready(qd)

    def _follow_period(self, dt: float) -> None:
        """Reduce the gains that are too high for the period in which the states really come."""
        period, setup = self._period, self._setup
        if 0.0 < dt <= PAUSE:
            # one gap in the states counts as a tick of twice the length
            period += PERIOD_SHARE * (min(dt, 2.0 * period) - period) if period else dt
            self._period = period
        period = self._carried_period
        if period > setup.longest_period or setup.softened_for > setup.longest_period:
            setup.soften(period)

    @property
    def _carried_period(self) -> float:
        """
        Period [s] by which gains are bounded.

        The delay takes the phase of half a period, for the sample and hold, and its own: with a
        longer delay the loop carries what it carries at a period that is longer by this ratio.

        """
        return self._period * max(1.0, (0.5 + self.delay) / (0.5 + DELAY))

    def _command(self, time: float, q: Array, qd: Array, tau: Array, fading: Array) -> Array:
        """Torques (n,) to command for tau of the arm: with friction, less the driver's part."""
        setup = self._setup
        friction, driver = self._friction.at(time), setup.settings.driver
        if friction is None:
            self._friction_torque = self._rest
        else:
            self._advance_reference(time, q, qd)
            reference = setup.reference
            self._friction_torque = friction.compensation(
                q, qd, reference.motion, reference.model, tau, fading,
                feedback_gain(reference.rate, reference.tick), setup.least_inertia,
                setup.limiter.table)
            tau = tau + self._friction_torque
        return tau if driver is None else tau - driver.torque(q, qd)

    def _advance_reference(self, time: float, q: Array, qd: Array) -> None:
        self._setup.reference.advance(time, q, qd, self._posture, self._setup.posture_gains)

    def _take_over(self, following: Setup, time: float, q: Array, qd: Array) -> None:
        """Let the next setup work; the difference from the present torques fades out."""
        left = self._fade.advance(time)
        fading = self._rest if left is None else left[0]
        before = self._setup.torque(time, q, qd, self._posture, None if left is None else fading)
        sent = self._command(time, q, qd, before, fading)
        if left is not None:
            sent = sent + left[1]
        following.reference.go_on_as(self._setup.reference)
        if following.space is not self._setup.space:
            self._setup.space.close()
        settings = following.settings
        self._friction.begin(time, settings.friction, settings.limits.effort,
                             np.asarray(following.robot.velocity_limits), settings.blend_time)
        self._setup, self._next = following, None
        following.set_gravity(self._gravity.now)
        if self._carried_period > following.longest_period:
            following.soften(self._carried_period)
        left_over = before - following.torque(time, q, qd, self._posture)
        beyond = sent - self._command(time, q, qd, before, left_over)
        self._fade.begin(time, np.array([left_over, beyond]), settings.limits.effort,
                         settings.blend_time)
