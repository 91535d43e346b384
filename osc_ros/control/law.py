"""The control law: its life, changes of robot and settings, and diagnosis."""

from __future__ import annotations

from collections import Counter
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.compiled_tick import compiled_tick
from osc_ros.control.cycle import PAUSE
from osc_ros.control.diagnosis import predicted_and_met, terms, Tick
from osc_ros.control.driver import Driver
from osc_ros.control.feedback import pose_error
from osc_ros.control.friction import Friction
from osc_ros.control.goals import CommandedCycle
from osc_ros.control.guide import rehearse
from osc_ros.control.holding import require_holding
from osc_ros.control.settings import Settings
from osc_ros.control.setup import Setup
from osc_ros.dynamics.arrays import finite_array
from osc_ros.dynamics.kinematics import LinkAxes
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.task_inertia import task_inertia
from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.errors import InputError, require_type
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

STANDARD_GRAVITY = 9.81  # [m/s²]


class Law(CommandedCycle):
    """
    Operational-space control of an arm: its tip, and other links beside it.

    `Law(robot)` works at once: the tip goes to poses, joint limits and friction are the robot's,
    the other settings have defaults. In a control loop:

    >>> law = Law(robot)                                           # doctest: +SKIP
    >>> law.latch(q)                    # hold the pose of these joint positions
    >>> law.follow(goal)                # (4, 4), in the base frame
    >>> while True:
    ...     send(law.torque(time, q, qd))      # 500 times a second or more
    ...     law.plan()                         # after sending: what takes longer

    The posture is part of τ⁰, and so acts in the dynamically consistent null space of all tasks,
    and alone in directions that a singularity takes away. After `latch` the arm holds the pose
    that it has. Attributes describe the last tick: `pose`, `twist`, `error`, `u`, `F`, `target`
    of the first task, `saturated` of the joints.

    Parameters
    ----------
    robot : Robot
    settings : Settings, optional
        Default: `Settings.of(robot)`, for the pose of the tip.
    method : str
        For one link; several take the default for trees where this takes only one.
    workers : int or 'auto'
        See OperationalSpace; with several, the law is to be closed.

    Raises
    ------
    InputError
        A robot with several tips of which none is chosen, or with a floating base, joints with
        several freedoms; an unknown method, workers that it does not take.

    """

    def __init__(self, robot: Robot, settings: Settings | None = None, method: str = 'sweep',
                 workers: int | str = 1) -> None:
        require_type('robot', robot, Robot, 'a Robot, as of Robot.from_urdf, and then Settings: '
                     'Law(robot, settings)')
        settings = Settings.of(robot) if settings is None else settings
        require_type('settings', settings, Settings, 'Settings, as in Law(robot, Settings())')
        for joint, freedoms in Counter(robot.joints).items():
            if freedoms > 1 or robot.spherical[robot.joints.index(joint)]:
                raise InputError(f"joint '{joint}' has several freedoms: the law drives revolute, "
                                 'continuous and prismatic joints (OperationalSpace takes others)')
        self._method, self._workers = method, workers
        self._scale: Articulated | None = None
        q = np.clip(np.zeros(robot.n), *robot.position_limits.T)
        super().__init__(Setup(robot, settings.with_limits_of(robot), method, workers), q)
        self.latch(q)
        self._rehearse()
        self._is_placed = False  # until the next latch

    @property
    def gravity(self) -> Array:
        """
        Gravity (3,) in the base frame, less the base's acceleration, as the model has it [m/s²].

        A new value comes into force at GRAVITY_RATE. It may be set at any rate, for a base that
        moves.

        Raises
        ------
        InputError
            Not three finite numbers, or a gravity in which the arm could not hold itself where it
            is (see `osc_ros.control.holding.require_holding`).

        """
        return self._gravity.now.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        wanted = finite_array('gravity', gravity, (3,)).copy()
        if self._is_placed:
            robot = self.robot
            if self._scale is None or self._scale.robot is not robot:
                self._scale = Articulated(robot)  # takes as long as many ticks
            require_holding(robot, wanted, self._q, self.settings.limits.effort,
                            (robot, self._gravity.wanted), self._scale)
        self._gravity.wanted = wanted

    def close(self) -> None:
        """End the processes that share the work, if there are any."""
        for setup in (self._setup, self._next):
            if setup is not None:
                setup.space.close()

    def _rehearse(self) -> None:
        """Use everything once, so that all is compiled and nothing is slow the first time."""
        rehearse()
        setup, rest = self._setup, self._rest
        for time in (0.0, 10.0 * PAUSE):  # no period of states is to be seen in it
            self.torque(time, self.posture, rest)
        setup.rehearse(self.posture, self._posture)
        self.terms(), self.inertia(), self.predicted_and_met(), pose_error(self.pose, self.pose)
        LinkAxes(self.robot, setup.links[0]).at(self.posture)
        setup.settings.damping.conditioning(setup.J[:6])
        self._advance_reference(20.0 * PAUSE, self.posture, rest)
        Friction(rest, rest).compensation(rest, rest, setup.reference.motion, rest, rest, rest,
                                          0.0, rest, self.limiter.table)
        Driver(self.robot, 'gravity').torque(self.posture, rest)
        if not self.robot.serial:  # a payload may make a plain chain of it
            loaded = self.robot.with_payload(1.0, inertia=np.eye(3))
            compiled_tick(OperationalSpace(loaded, self.space.method).dynamics)
        self.latch(self.posture)
        self._time = -math.inf

    def require_holding(self, q: ArrayLike) -> None:
        """
        Refuse a payload, or a gravity beyond 9.81 m/s², that the arm cannot hold at q (n,).

        Raises
        ------
        InputError
            See `osc_ros.control.holding.require_holding`.

        """
        robot, gravity = self.robot, self._gravity.wanted
        usual = gravity * min(1.0, STANDARD_GRAVITY / max(float(np.linalg.norm(gravity)), 1e-9))
        require_holding(robot, gravity, np.asarray(q, dtype=np.float64),
                        self.settings.limits.effort, (robot.without_payload(), usual))

    def change(self, settings: Settings | None = None, robot: Robot | None = None,
               q: Array | None = None) -> None:
        """
        Let other settings, or another robot with the same joints, work from the next tick on.

        Nothing jumps: that tick computes the torque both ways, and the difference is added and
        faded out in `blend_time`, or later: no torque changes by more than the share CHANGE_RATE
        (see `osc_ros.control.fade`) of its limit a second. Tasks keep their targets by name; their
        activation, and that of single axes, goes to its new value in `blend_time`, from 0 for a
        new task.

        Parameters
        ----------
        settings : Settings, optional
        robot : Robot, optional
        q : (n,), optional
            Where the arm is; that of the last tick or `latch` if not given.

        Raises
        ------
        InputError
            What the constructor refuses; other joints; another robot, where several processes
            evaluate it (its gravity may be set); a robot that could not hold itself where it is
            (`osc_ros.control.holding.require_holding`).

        """
        self.take(self.prepared(settings, robot, q))

    def prepared(self, settings: Settings | None = None, robot: Robot | None = None,
                 q: Array | None = None) -> Setup:
        """
        The setup of `change` for these settings and this robot, for `take`.

        This is the slow part of `change`: it leaves the law as it is, and may be done by another
        thread than that of the ticks. It raises what `change` raises.

        """
        before = self._next or self._setup
        settings = before.settings if settings is None else settings
        robot = before.robot if robot is None else robot
        accepted = 'settings, then a robot: change(settings, robot), or change(robot=robot)'
        require_type('the first argument, settings,', settings, Settings, accepted)
        require_type('the second argument, robot,', robot, Robot, accepted)
        if robot.joint_names != before.robot.joint_names:
            raise InputError(f"the other robot has the joints {', '.join(robot.joint_names)}: "
                             f"accepted are the same, {', '.join(before.robot.joint_names)}")
        if robot is not before.robot and before.space.plan.workers > 1:
            raise InputError(f'{before.space.plan.workers} workers evaluate this robot: another '
                             'one is accepted where one does')
        gravity = (self._gravity.wanted if np.array_equal(robot.gravity, before.robot.gravity)
                   else robot.gravity)
        if robot is not before.robot and (q is not None or self._is_placed):
            require_holding(robot, gravity, self._q if q is None else q, settings.limits.effort,
                            (before.robot, self._gravity.wanted))
        return Setup(robot, settings.with_limits_of(robot), self._method, self._workers,
                     self._setup)

    def take(self, following: Setup) -> None:
        """Let a setup that was `prepared` work from the next tick on."""
        before = self._next or self._setup
        following.start(self._q, self._setup)
        if not np.array_equal(following.robot.gravity, before.robot.gravity):
            self._gravity.wanted = np.array(following.robot.gravity)
        if self._next is not None and self._next.space is not self._setup.space:
            self._next.space.close()
        self._next = following

    def gain_share(self) -> float:
        """
        Least share of its set-point that a natural frequency or damping rate has now, 0 to 1.

        1 unless gains are higher than the loop carries at the period of the states: see
        `osc_ros.control.bandwidth`. That of a stiffness depends on the pose.

        """
        return self._setup.gain_share()

    def terms(self) -> dict[str, Array]:
        """
        Parts (n,) of the torque of the last tick, by name [N·m]; they add up to it.

        'bias' is C + G; 'posture' is M q̈ₚ; each task has its own, by its name, which for the upper
        ones includes the compensation for those below; 'friction' is the compensation of friction,
        'driver' the part left to the driver, where there are these; 'limits' is the change by the
        limits, 'fading' the rest of a change.

        Raises
        ------
        InputError
            If there was no tick since `latch`.

        """
        last = self._last_tick()
        to_posture = self._posture_acceleration(last.q, last.qd)
        friction = None if self._friction_torque is self._rest else self._friction_torque
        return terms(self._setup, last, to_posture, friction, self._fade.left)

    def _posture_acceleration(self, q: Array, qd: Array) -> Array:
        qdd = np.empty(len(q))
        self._setup.put_posture_acceleration(q, qd, self._posture, qdd)
        return qdd

    def _last_tick(self) -> Tick:
        if self._last is None:
            raise InputError('there was no tick to tell of: call torque(time, q, qd) first')
        return Tick(*self._last)

    def inertia(self) -> Array:
        """
        Λ (6, 6) of the first task's link at the last tick, base axes [kg m², kg m, kg].

        Raises
        ------
        InputError
            If there was no tick since `latch`.

        """
        last = self._last_tick()
        own = slice(6 * self._setup.at[0], 6 * self._setup.at[0] + 6)
        return task_inertia(self._setup.space.outward(last.q, last.qd).Lambda_inv[own, own].copy())

    def predicted_and_met(self) -> tuple[Array, Array]:
        """
        Joint accelerations that the model predicted, and the measured ones (n,), (n,) [rad/s²].

        From the tick before the last one to the last one. Their difference is due to what the
        model lacks: friction, payload, contact.

        Raises
        ------
        InputError
            If there were no two ticks since `latch`, or no time between them.

        """
        if self._last is None or self._before is None or not self._last[0] > self._before[0]:
            raise InputError('there were no two ticks to tell of')
        return predicted_and_met(self._setup, Tick(*self._before), Tick(*self._last))

    def bias_torque(self, q: Array, qd: Array) -> Array:
        """C + G (n,) [N·m]: torque that leaves the joints without acceleration."""
        return self._setup.model.inverse_dynamics(*self._joint_arrays(q, qd), self._rest)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """
        Torques (n,) to command for accelerations, whatever the limits [N·m].

        Raises
        ------
        InputError
            Shapes of the state that do not fit, a torque that is not finite.

        """
        q, qd = self._joint_arrays(q, qd)
        tau = self._setup.model.inverse_dynamics(q, qd, qdd)
        driver = self._setup.settings.driver
        if driver is not None:
            tau = tau - driver.torque(q, qd)
        if not math.isfinite(tau.dot(self._rest)):
            raise InputError(f'the torque is not finite: {tau.tolist()}')
        return tau
