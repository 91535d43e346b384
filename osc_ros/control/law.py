"""The control law as a corridor: joint state in, joint torques out, no ROS."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.limits import scaled_to_limits
from osc_ros.control.task import Gains, pose_error, Target, task_acceleration
from osc_ros.control.trajectory import Hold, Path, Schedule
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Posture:
    """
    How the joints come to their posture in the null space of the task.

    Attributes
    ----------
    natural_frequency : float [rad/s]
        0 leaves only the damping.
    damping_ratio : float
    damping : float [1/s]
        What is damped where the natural frequency is low: the rate 2ζω is at least this.

    Raises
    ------
    InputError
        A number that is negative or not finite.

    """

    natural_frequency: float
    damping_ratio: float
    damping: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative and non-finite numbers."""
        for name in ('natural_frequency', 'damping_ratio', 'damping'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f'posture {name} {value}: accepted is 0 or more')


@dataclass(frozen=True, eq=False)
class Settings:
    """
    All that may change while the law runs.

    Attributes
    ----------
    gains : Gains
    posture : Posture
    damping : SingularityDamping
    effort_limits : (n,)
        Largest torque of each joint [N·m]; may be infinite.

    """

    gains: Gains
    posture: Posture
    damping: SingularityDamping
    effort_limits: Array


class Law:
    """
    Operational-space control of one arm's tip.

    Every tick goes once through the corridor: state → outward sweep (Λ⁻¹, a⁰, pose, twist) →
    error → u → F = Λ(u - a⁰) → inward sweep τ → limits. The posture is part of τ⁰, and so acts in
    the dynamically consistent null space, and alone where a singularity takes a direction away.

    After `latch` the arm holds the pose that it has. Attributes describe the last tick:
    `pose`, `twist`, `J`, `error`, `u`, `F`, `target`, `saturated`.

    Parameters
    ----------
    robot : Robot
    settings : Settings
    method : str
    workers : int or 'auto'
        See OperationalSpace; with several, the law is to be closed.

    Raises
    ------
    InputError
        A robot with several tips or a floating base, joints with several freedoms; an unknown
        method, workers that it does not take.

    """

    def __init__(self, robot: Robot, settings: Settings, method: str = 'sweep',
                 workers: int | str = 1) -> None:
        if len(robot.tips) > 1:
            raise InputError(f'the law moves one tip, not {len(robot.tips)}: '
                             f"{', '.join(robot.tips)} (OperationalSpace takes several)")
        for joint, freedoms in Counter(robot.joints).items():
            if freedoms > 1 or robot.spherical[robot.joints.index(joint)]:
                raise InputError(f"joint '{joint}' has several freedoms: the law drives revolute, "
                                 'continuous and prismatic joints (OperationalSpace takes others)')
        self.robot = robot
        self.settings = settings
        self.space = OperationalSpace(robot, method, workers=workers)
        self._wraps = ~(np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)
        self._rest = np.zeros(robot.n)
        self.error, self.u, self.F = np.zeros(6), np.zeros(6), np.zeros(6)
        self.J = np.zeros((6, robot.n))
        self.latch(np.clip(self._rest, *robot.position_limits.T))
        self._rehearse()

    def close(self) -> None:
        """End the processes that share the work, if there are any."""
        self.space.close()

    def _rehearse(self) -> None:
        """Use everything once, so that all is compiled and nothing is slow the first time."""
        path = Path([0.0, 1.0], [self.pose, self.pose], np.zeros((2, 6)), np.zeros((2, 6)))
        self.follow(path, start=0.0)
        self.torque(0.5, self.posture, self._rest)
        self.settings.damping.conditioning(self.J)
        scaled_to_limits(self._rest, self.bias_torque(self.posture, self._rest), self._rest)
        self.latch(self.posture)

    def latch(self, q: ArrayLike) -> None:
        """Make the pose and posture at q (n,) the target, and forget what was planned."""
        self.posture = np.array(q, dtype=np.float64)
        self.pose = self.space.outward(self.posture, self._rest).pose.copy()
        self.twist = np.zeros(6)
        self.target = Target(self.pose)
        self._schedule = Schedule(Hold(self.pose))
        self.saturated = np.zeros(self.robot.n, dtype=bool)

    def follow(self, motion: Hold | Path, start: float) -> None:
        """
        Let a motion take over at `start` [s]; what was to start then or later is dropped.

        Raises
        ------
        InputError
            A path that is faster or accelerates more than the gains allow the feedback to.

        """
        if isinstance(motion, Path):
            self._refuse_too_fast(motion)
        self._schedule.add(motion, start)

    def take_posture(self, q: ArrayLike) -> None:
        """
        Let the joints come to q (n,) in the null space of the task.

        Raises
        ------
        InputError
            A shape that does not fit, or a position outside the joint's limits.

        """
        posture = np.array(q, dtype=np.float64)
        if posture.shape != self._rest.shape or not np.isfinite(posture).all():
            raise InputError(f'posture {posture.tolist()}: accepted are {self.robot.n} finite '
                             'joint positions')
        lower, upper = self.robot.position_limits.T
        for i in np.flatnonzero((posture < lower) | (posture > upper)).tolist():
            raise InputError(f"posture of joint '{self.robot.joint_names[i]}' is {posture[i]:g}: "
                             f'accepted is {lower[i]:g} to {upper[i]:g}')
        self.posture = posture

    def torque(self, time: float, q: Array, qd: Array) -> Array:
        """
        Joint torques (n,) [N·m] for the state at a time [s], within the limits.

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
        settings = self.settings
        if q.shape != self._rest.shape or qd.shape != self._rest.shape:
            raise InputError(f'state has shapes {q.shape} and {qd.shape}, accepted is '
                             f'{self._rest.shape}')
        qdd_posture = self._posture_acceleration(q, qd)
        tip = self.space.outward(q, qd, posture_acceleration=qdd_posture)
        target = self._schedule.at(time)
        pose_error(tip.pose, target.pose, out=self.error)
        task_acceleration(self.error, tip.twist, target, settings.gains, out=self.u)
        J = self.space.jacobian(out=self.J)
        settings.damping.force(J, tip.Lambda_inv, tip.a0, self.u, out=self.F)
        tau = self.space.inward(self.F)
        self.pose, self.twist, self.target = tip.pose, tip.twist, target
        self.saturated = np.abs(tau) > settings.effort_limits
        if self.saturated.any():
            tau = scaled_to_limits(tau, self.bias_torque(q, qd), settings.effort_limits)
        if not np.isfinite(tau).all():
            raise InputError(f'the torque is not finite: {tau.tolist()}')
        return tau

    def bias_torque(self, q: Array, qd: Array) -> Array:
        """C + G (n,) [N·m]: what holds the arm's motion as it is, against its own weight."""
        self.space.outward(q, qd, posture_acceleration=self._rest)
        return self.space.inward(np.zeros(6))

    def _posture_acceleration(self, q: Array, qd: Array) -> Array:
        posture = self.settings.posture
        away = self.posture - q
        # an angle of a continuous joint: the short way round
        away = np.where(self._wraps, np.remainder(away + np.pi, 2.0 * np.pi) - np.pi, away)
        rate = max(2.0 * posture.damping_ratio * posture.natural_frequency, posture.damping)
        if rate == 0.0:
            return np.asarray(posture.natural_frequency ** 2 * away)
        # a far posture is approached at a speed that the joints have
        fastest = self.robot.velocity_limits
        approach = np.clip(posture.natural_frequency ** 2 / rate * away, -fastest, fastest)
        return np.asarray(rate * (approach - qd))

    def _refuse_too_fast(self, path: Path) -> None:
        gains = self.settings.gains
        for found, accepted, units in zip(path.peaks(), (gains.speed, gains.acceleration),
                                          (('rad/s', 'm/s'), ('rad/s²', 'm/s²'))):
            for part in range(2):
                if not found[part] <= accepted[part]:
                    raise InputError(f'the path asks for {found[part]:.3g} {units[part]}: '
                                     f'accepted is at most {accepted[part]:g} {units[part]}')
