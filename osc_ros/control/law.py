"""The control law: start, commands, changes of robot and settings, diagnosis."""

from __future__ import annotations

from collections import Counter
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.compiled_tick import compiled_tick
from osc_ros.control.cycle import ControlCycle, PAUSE
from osc_ros.control.driver import Driver
from osc_ros.control.friction import Friction
from osc_ros.control.guide import Motion, rehearse, require, STOP
from osc_ros.control.holding import require_holding
from osc_ros.control.level import Level
from osc_ros.control.settings import Settings
from osc_ros.control.setup import Setup
from osc_ros.control.trajectory import Hold, Path
from osc_ros.dynamics.arrays import finite_array
from osc_ros.dynamics.kinematics import LinkAxes
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.trees.articulated import Articulated
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

STANDARD_GRAVITY = 9.81  # [m/s²]
STRONGEST = 1e5  # largest accepted entry of a wrench [N·m, N]


class Law(ControlCycle):
    """
    Operational-space control law of an arm, for its tip and for other links.

    The posture is part of τ⁰. It acts in the dynamically consistent nullspace of all tasks, and
    also in directions in which a task is singular. After `latch` the arm holds its present pose.
    Attributes describe the last tick: `pose`, `twist`, `error`, `u`, `F`, `target` of the first
    task, `saturated` of the joints.

    Parameters
    ----------
    robot : Robot
    settings : Settings
    method : str
        Method of the dynamics, see `OperationalSpace`. If the tasks are on several links and this
        method has only one tip, the default method of trees is used.
    workers : int or 'auto'
        See `OperationalSpace`. A law with several workers must be closed.

    Raises
    ------
    InputError
        The robot has several tips and no task names a link; it has a floating base or joints with
        several degrees of freedom; the method is unknown or does not accept the workers.

    """

    def __init__(self, robot: Robot, settings: Settings, method: str = 'sweep',
                 workers: int | str = 1) -> None:
        for joint, freedoms in Counter(robot.joints).items():
            if freedoms > 1 or robot.spherical[robot.joints.index(joint)]:
                raise InputError(f"joint '{joint}' has several freedoms: the law drives revolute, "
                                 'continuous and prismatic joints (OperationalSpace takes others)')
        self._method, self._workers = method, workers
        self._scale: Articulated | None = None
        q = np.clip(np.zeros(robot.n), *robot.position_limits.T)
        super().__init__(Setup(robot, settings, method, workers), q)
        self.latch(q)
        self._rehearse()
        self._is_placed = False  # until the next latch

    @property
    def robot(self) -> Robot:
        """The robot in force from the next tick on."""
        return (self._next or self._setup).robot

    @property
    def settings(self) -> Settings:
        """The settings in force from the next tick on."""
        return (self._next or self._setup).settings

    @property
    def gravity(self) -> Array:
        """
        Gravity minus the acceleration of the base (3,), in the base frame, in force now [m/s²].

        A value that is set comes into force at GRAVITY_RATE. For a moving base, set it as often as
        necessary.

        Raises
        ------
        InputError
            The value is not three finite numbers, or the arm could not hold its configuration in
            this gravity (see `osc_ros.control.holding.require_holding`).

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
        """Terminate the worker processes, if there are any."""
        for setup in (self._setup, self._next):
            if setup is not None:
                setup.space.close()

    def _rehearse(self) -> None:
        """Call everything once, so that all kernels are compiled before the first tick."""
        rehearse()
        setup, rest = self._setup, self._rest
        for time in (0.0, 10.0 * PAUSE):  # a pause, so that the mean period stays unknown
            self.torque(time, self.posture, rest)
        setup.rehearse(self.posture, self._posture)
        self.terms(), self.inertia(), self.predicted_and_measured()
        LinkAxes(self.robot, setup.links[0]).at(self.posture)
        setup.settings.damping.conditioning(setup.J[:6])
        self._advance_reference(20.0 * PAUSE, self.posture, rest)
        Friction(rest, rest).compensation(rest, rest, setup.reference.motion, rest, rest, rest,
                                          0.0, rest, self.limiter.table)
        Driver(self.robot, 'gravity').torque(self.posture, rest)
        if not self.robot.serial:  # with a payload the robot may become a serial chain
            loaded = self.robot.with_payload(1.0, inertia=np.eye(3))
            compiled_tick(OperationalSpace(loaded, self.space.method).dynamics)
        self.latch(self.posture)
        self._time = -math.inf

    def latch(self, q: ArrayLike) -> None:
        """Set all targets and the posture to those at q (n,), and drop all motions."""
        setup = self._next or self._setup
        if setup.space is not self._setup.space:
            self._setup.space.close()
        self._setup, self._next = setup, None
        self._fade.forget()
        self._friction.set(setup.settings.friction)
        self._is_placed = True
        setup.set_gravity(self._gravity.now)
        self._last = self._before = None
        self._q = np.array(q, dtype=np.float64)
        self._posture.latch(self._q)
        poses = setup.poses(self._q)
        for level, i in zip(setup.levels, setup.at):
            level.latch(poses[i])
        setup.limiter.forget()
        setup.reference.forget()
        self._friction_torque = self._rest

    def require_holding(self, q: ArrayLike) -> None:
        """
        Raise if the arm cannot hold its payload, or a gravity above 9.81 m/s², at q (n,).

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
        Use other settings, or another robot with the same joints, from the next tick on.

        The torque does not jump: the next tick computes it with the old and the new setup, and
        adds the difference, which fades out over `blend_time` or longer, such that the rate of no
        torque exceeds CHANGE_RATE (see `osc_ros.control.fade`) times its limit per second. Tasks
        with the same name keep their targets. The activation of tasks and of single axes changes
        to its new value over `blend_time`, from 0 for a new task.

        Parameters
        ----------
        settings : Settings, optional
        robot : Robot, optional
        q : (n,), optional
            Present position of the arm; that of the last tick or `latch` if not given.

        Raises
        ------
        InputError
            As of the constructor; other joints; another robot while several processes evaluate
            the dynamics (its gravity may be set); a robot that cannot hold itself at the present
            position (`osc_ros.control.holding.require_holding`).

        """
        self.take(self.prepared(settings, robot, q))

    def prepared(self, settings: Settings | None = None, robot: Robot | None = None,
                 q: Array | None = None) -> Setup:
        """
        Return a setup with these settings and this robot, for `take`.

        This is the slow part of `change`. It does not change the law, and may run in another
        thread than the ticks. Parameters and errors are those of `change`.

        """
        before = self._next or self._setup
        settings = before.settings if settings is None else settings
        robot = before.robot if robot is None else robot
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
        return Setup(robot, settings, self._method, self._workers, self._setup)

    def take(self, following: Setup) -> None:
        """Use a setup from `prepared` from the next tick on."""
        before = self._next or self._setup
        following.start(self._q, self._setup)
        if not np.array_equal(following.robot.gravity, before.robot.gravity):
            self._gravity.wanted = np.array(following.robot.gravity)
        if self._next is not None and self._next.space is not self._setup.space:
            self._next.space.close()
        self._next = following

    def _level(self, task: str | None) -> Level:
        levels = (self._next or self._setup).levels
        if task is None:
            return levels[0]
        for level in levels:
            if level.task.name == task:
                return level
        raise InputError(f"there is no task '{task}' (there are: "
                         f"{', '.join(level.task.name for level in levels)})")

    def follow(self, motion: Motion, start: float, task: str | None = None) -> bool:
        """
        Command a motion of a task's target; motions scheduled for `start` or later are dropped.

        From `start` on the target moves to the motion without a jump, within the task's limits:
        see `Guide`.

        Parameters
        ----------
        motion : Hold, Path or Jog
        start : float
            On the clock of the states [s].
        task : str, optional
            Name of the task; the first one if not given.

        Returns
        -------
        bool
            False if a pose is outside of the workspace box; the nearest position inside replaces
            it.

        Raises
        ------
        InputError
            A path that exceeds the speed or acceleration limits of the task's target, or leaves
            the workspace box; an unknown task.

        """
        level = self._level(task)
        limits = level.task.limits
        if isinstance(motion, Path):
            require(motion, limits)
        level.guide.add(motion, start)
        return not isinstance(motion, Hold) or limits.inside(motion.pose) is motion.pose

    def stop(self) -> None:
        """Stop all targets as fast as the limits allow; set the posture to the present one."""
        for level in (self._next or self._setup).levels:
            level.guide.add(STOP, -math.inf)
        self._posture.lead_to(self._q)

    def push(self, wrench: ArrayLike, task: str | None = None) -> None:
        """
        Set the wrench (6,) that a task applies along its axes of force, from the next tick on.

        Parameters
        ----------
        wrench : (6,) [N·m, N]
            By the robot on the environment, at the origin of the task's link and in the axes of
            the task's frame, [moment; force]. It comes into force within `blend_time`.
        task : str, optional
            Name of the task; the first one if not given.

        Raises
        ------
        InputError
            Not six finite numbers; an entry that is not 0 along an axis without force control; an
            unknown task.

        """
        level = self._level(task)
        wanted = _wrench(wrench)
        for k in np.flatnonzero(wanted * (1.0 - level.task.along('force'))).tolist():
            raise InputError(f"wrench {wanted.tolist()} of task '{level.task.name}': axis {k} is "
                             f"one of {level.task.axes[k]}, accepted there is 0 (its axes are "
                             f"{', '.join(level.task.axes)})")
        level.wanted_wrench = wanted

    def measure(self, wrench: ArrayLike, time: float, task: str | None = None) -> None:
        """
        Set the measured wrench of a task, for closed-loop force control.

        Parameters
        ----------
        wrench : (6,) [N·m, N]
            By the robot on the environment, at the origin of the task's link, base axes.
        time : float
            Stamp, on the clock of the states [s]. The integral pauses while it is too old.
        task : str, optional
            Name of the task; the first one if not given.

        Raises
        ------
        InputError
            Not six finite numbers; an unknown task.

        """
        self._level(task).measure(_wrench(wrench), time)

    def take_posture(self, q: ArrayLike) -> None:
        """
        Set the goal q (n,) of the posture, which acts in the nullspace of the tasks.

        The set-point of the posture moves there smoothly within `blend_time`.

        Raises
        ------
        InputError
            A shape that does not fit, or a position outside the joint's limits.

        """
        self._posture.take(q, self.robot)

    def gain_share(self) -> float:
        """
        Smallest ratio of a natural frequency or damping rate in force to its set value, 0 to 1.

        It is 1 unless a gain exceeds its bound at the measured period and delay of the states: see
        `osc_ros.control.bandwidth`. For a stiffness the bound depends on the pose.

        """
        return self._setup.gain_share()

    def bias_torque(self, q: Array, qd: Array) -> Array:
        """C + G (n,) [N·m]: torque for which the accelerations of the joints are zero."""
        return self._setup.model.inverse_dynamics(*self._joint_arrays(q, qd), self._rest)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """
        Torques (n,) to command for joint accelerations, minus the driver's, without limits [N·m].

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


def _wrench(given: ArrayLike) -> Array:
    """Return a wrench (6,) as an array; raise if it is not finite or too large."""
    wrench = np.array(given, dtype=np.float64)
    if wrench.shape != (6,) or not np.isfinite(wrench).all():
        raise InputError(f'wrench {wrench.tolist()}: accepted are 6 finite numbers')
    if np.abs(wrench).max() > STRONGEST:
        raise InputError(f'wrench {wrench.tolist()}: accepted is at most {STRONGEST:g}')
    return wrench
