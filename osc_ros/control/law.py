"""The control law as a corridor: joint state in, joint torques out, no ROS."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.bandwidth import largest_push, longest_period
from osc_ros.control.driver import Driver
from osc_ros.control.fade import Fade
from osc_ros.control.friction import (
    feedback_gain,
    Friction,
    FrictionInForce,
    least_inertia,
)
from osc_ros.control.guide import Motion, rehearse, require, STOP
from osc_ros.control.holding import require_holding
from osc_ros.control.level import Level, settling
from osc_ros.control.limits import Limiter, Limits, posture_acceleration
from osc_ros.control.reference import Reference
from osc_ros.control.task import Target, Task
from osc_ros.control.trajectory import Hold, Path
from osc_ros.dynamics.kinematics import LinkAxes
from osc_ros.dynamics.method import finite_array
from osc_ros.dynamics.operational_space import ONE_TIP, OperationalSpace
from osc_ros.dynamics.priority import Priorities
from osc_ros.dynamics.task_inertia import SingularityDamping, task_inertia
from osc_ros.dynamics.trees.tree import Articulated
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

# Most that gravity changes in the model [m/s³]: that of a base that turns at 2 rad/s.
GRAVITY_RATE = 20.0
STANDARD_GRAVITY = 9.81  # [m/s²]
STRONGEST = 1e5  # no arm pushes with more [N·m, N]
ARRIVED = 1e-9  # a posture that is nearer than this to the wanted one [rad, m]
PAUSE = 0.1  # a longer tick is one, and what changed in it has changed [s]
PERIOD_SHARE = 0.125  # of the last tick in the mean period
PERIOD_CHANGE = 0.01  # relative: a smaller change of the mean period leaves the gains as they are


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
    All that may change while the law runs, by `Law.change`.

    Attributes
    ----------
    tasks : tuple of Task
        Highest priority first; each acts in the null space of those before it. Usually the first
        is the tip's.
    posture : Posture
    damping : SingularityDamping
    limits : Limits
        Of the joints.
    blend_time : float
        In which changes come into force [s].
    friction : Friction, optional
        What is compensated; nothing if not given.
    driver : Driver, optional
        What the driver adds to the torques, and is taken off them; nothing if not given.

    Raises
    ------
    InputError
        No task, two of one name, a blend time that is not positive and finite.

    """

    tasks: tuple[Task, ...]
    posture: Posture
    damping: SingularityDamping
    limits: Limits
    blend_time: float = 0.3
    friction: Friction | None = None
    driver: Driver | None = None

    def __post_init__(self) -> None:
        """Refuse what no law can do."""
        object.__setattr__(self, 'tasks', tuple(self.tasks))
        names = [task.name for task in self.tasks]
        if not names or len(set(names)) < len(names):
            raise InputError(f"tasks are named {', '.join(names) or 'nothing'}: accepted are one "
                             'or more, each with a name of its own')
        if not (np.isfinite(self.blend_time) and self.blend_time > 0.0):
            raise InputError(f'blend time {self.blend_time} s: accepted is more than 0')


class _Setup:
    """What one robot under one choice of settings needs; the law goes from one to the next."""

    def __init__(self, robot: Robot, settings: Settings, method: str, workers: int | str,
                 before: _Setup | None = None) -> None:
        self.settings = settings
        self.robot = robot
        if len(robot.tips) > 1 and not any(task.link for task in settings.tasks):
            raise InputError('the robot has several tips, ' + ', '.join(robot.tips) + ', and no '
                             'task names a link: accepted are tasks for the others beside '
                             f"'{robot.tip}', which is that of a task without")
        links = [task.link or robot.tip for task in settings.tasks]
        self.links = tuple(dict.fromkeys(links))
        self.at = at = [self.links.index(link) for link in links]
        same = before is not None and before.robot is robot and before.links == self.links
        self.space: OperationalSpace = (
            before.space if before is not None and same else self._space(method, workers))
        self.solver = Priorities(at, len(self.links), robot.n)
        self.dynamics: Articulated = (before.dynamics if before is not None and same else
                                      Articulated(replace(robot, tips=self.links)))
        self.limiter: Limiter = Limiter(self.dynamics, settings.limits, settings.blend_time)
        self.least_inertia: Array | None = None
        if before is not None and before.robot is robot:
            self.least_inertia = before.least_inertia
        if self.least_inertia is None and settings.friction is not None:
            self.least_inertia = least_inertia(robot)
        self.J = np.zeros((6 * len(self.links), robot.n))
        self._frames = [self._frame(task) for task in settings.tasks]
        self.levels: list[Level] = []

    def start(self, q: Array, before: _Setup | None = None) -> None:
        """
        Begin at q (n,), or go on from the state of another setup.

        This is quick, unlike the construction, which may be done in another thread than the ticks.

        """
        poses = self.space.outward(q, np.zeros(len(q))).pose.reshape(-1, 4, 4)
        old = {} if before is None else {level.task.name: level for level in before.levels}
        self.levels = [
            Level(task, self.settings.blend_time, poses[i], old.get(task.name), before is not None)
            for task, i in zip(self.settings.tasks, self.at)]
        # each with its link, the axes of its frame, and its row of the solver
        self.asked = list(zip(self.levels, self.at, self._frames, self.solver.rows))
        self.reference = Reference(self.levels, self.robot.n)
        self._find_bandwidth()
        if before is not None:
            if self.least_inertia is None:  # what was compensated until now has to fade out
                self.least_inertia = before.least_inertia
            self.limiter.go_on_from(before.limiter)
            self._take_tool(before)

    def _find_bandwidth(self) -> None:
        """Find the longest period of the states with which the loops carry their gains [s]."""
        posture, push = self.settings.posture, float(self.settings.limits.repulsion)
        frequency = float(posture.natural_frequency)
        rate = float(max(2.0 * posture.damping_ratio * frequency, posture.damping))
        self._posture_set = self.posture_gains = frequency, rate, push
        self._posture_period = longest_period(frequency, rate)
        self.longest_period: float = min(
            longest_period(frequency, rate, push),
            *(level.longest_period for level in self.levels))
        self.softened_for, self.posture_share = 0.0, 1.0

    def soften(self, period: float) -> None:
        """
        Reduce the gains to those that the loops carry when the states come in this period [s].

        A longer period than stated, or a gain that is too high, costs accuracy instead of
        stability. At `longest_period` and below all gains are as they were set.

        """
        if abs(period - self.softened_for) <= PERIOD_CHANGE * period:
            return
        self.softened_for = period
        for level in self.levels:
            level.soften(period)
        frequency, rate, push = self._posture_set
        self.posture_share = share = min(1.0, self._posture_period / period)
        frequency, rate = share * frequency, share * rate
        self.posture_gains = frequency, rate, min(push, largest_push(rate, frequency, period))
        if push > 0.0:
            self.posture_share = min(share, self.posture_gains[2] / push)

    def _take_tool(self, before: _Setup) -> None:
        """Hold the tip where it was to be, if it is at another point of its body now."""
        old, new = (robot.frames[robot.tip] for robot in (before.robot, self.robot))
        if old[0] == new[0] and not np.array_equal(old[1], new[1]):
            for level in self.levels:
                if not level.task.link:
                    level.carry(np.linalg.inv(old[1]) @ new[1])

    def fall(self, gravity: Array) -> None:
        """Let gravity be (3,)."""
        self.space.gravity = self.dynamics.gravity[:] = gravity
        if self.settings.driver is not None:
            self.settings.driver.gravity = gravity

    def _space(self, method: str, workers: int | str) -> OperationalSpace:
        several = len(self.links) > 1
        return OperationalSpace(self.robot, None if several and method in ONE_TIP else method,
                                tips=self.links, workers=1 if several else workers)

    def _frame(self, task: Task) -> Array | LinkAxes | int:
        """Axes of a task: fixed ones, those of any link, or which link with a task has them."""
        if not task.frame:
            return np.eye(4)
        if task.frame in self.links:
            return self.links.index(task.frame)
        return LinkAxes(self.robot, task.frame)


class Law:
    """
    Operational-space control of an arm: its tip, and other links beside it.

    Every tick goes once through the corridor: state → outward sweep (Λ⁻¹, a⁰, poses, twists) →
    errors → u → forces of the tasks by priority → inward sweep τ → limits → friction → less what
    the driver adds → what a change left over → rate. The posture is part of τ⁰, and so acts in the
    dynamically consistent null space of all tasks, and alone where a singularity takes a direction
    away.

    After `latch` the arm holds the pose that it has. Attributes describe the last tick:
    `pose`, `twist`, `error`, `u`, `F`, `target` of the first task, `saturated` of the joints.

    Parameters
    ----------
    robot : Robot
    settings : Settings
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

    def __init__(self, robot: Robot, settings: Settings, method: str = 'sweep',
                 workers: int | str = 1) -> None:
        for joint, freedoms in Counter(robot.joints).items():
            if freedoms > 1 or robot.spherical[robot.joints.index(joint)]:
                raise InputError(f"joint '{joint}' has several freedoms: the law drives revolute, "
                                 'continuous and prismatic joints (OperationalSpace takes others)')
        self._method, self._workers = method, workers
        self._setup = _Setup(robot, settings, method, workers)
        self._setup.start(np.clip(np.zeros(robot.n), *robot.position_limits.T))
        self._next: _Setup | None = None
        self._wraps = ~(np.isfinite(robot.position_limits).any(axis=1) | robot.prismatic)
        self._rest = np.zeros(robot.n)
        self._fade, self._friction = Fade(), FrictionInForce()
        self._scale: Articulated | None = None
        self._friction_torque = self._rest
        self._gravity = self._wanted_gravity = np.array(robot.gravity)
        self._time, self._period = -math.inf, 0.0
        self._last: tuple[float, Array, Array, Array] | None = None
        self._before: tuple[float, Array, Array, Array] | None = None
        self.latch(np.clip(self._rest, *robot.position_limits.T))
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
        """What keeps the limits: joints that are at one, and what is left of task and posture."""
        return self._setup.limiter

    @property
    def period(self) -> float:
        """Mean time between the last states [s]; 0 before the second one."""
        return self._period

    def gain_share(self) -> float:
        """
        Least share of its set-point that a natural frequency or damping rate has now, 0 to 1.

        1 unless gains are higher than the loop carries at the period of the states: see
        `osc_ros.control.bandwidth`. That of a stiffness depends on the pose.

        """
        setup = self._setup
        share = setup.posture_share
        for level, i, _, row in setup.asked:
            W = self._links.Lambda_inv[6 * i:6 * i + 6, 6 * i:6 * i + 6]
            share = min(share, level.gain_share(W, row))
        return share

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Joints (n,) whose torque of the last tick was brought to its limit."""
        return self._setup.limiter.saturated

    @property
    def friction_torque(self) -> Array:
        """Torques (n,) of the last tick that compensate friction [N·m]."""
        return self._friction_torque

    @property
    def gravity(self) -> Array:
        """
        Gravity (3,) in the base frame, less the base's acceleration, as the model has it [m/s²].

        What it is set to comes into force at GRAVITY_RATE. It may be set at any rate, for a base
        that moves.

        Raises
        ------
        InputError
            If what is set is not three finite numbers, or a gravity in which the arm could not
            hold itself where it is (see `osc_ros.control.holding.require_holding`).

        """
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        wanted = finite_array('gravity', gravity, (3,)).copy()
        if self._is_placed:
            robot = self.robot
            if self._scale is None or self._scale.robot is not robot:
                self._scale = Articulated(robot)  # takes as long as many ticks
            require_holding(robot, wanted, self._q, self.settings.limits.effort,
                            (robot, self._wanted_gravity), self._scale)
        self._wanted_gravity = wanted

    @property
    def pose(self) -> Array:
        """Pose (4, 4) of the first task's link."""
        return self._setup.levels[0].pose

    @property
    def twist(self) -> Array:
        """Twist (6,) of the first task's link, base axes [rad/s, m/s]."""
        return self._setup.levels[0].twist

    @property
    def target(self) -> Target:
        """Target of the first task."""
        return self._setup.levels[0].target

    @property
    def error(self) -> Array:
        """Pose error (6,) of the first task, base axes [rad, m]."""
        return self._setup.levels[0].error

    @property
    def u(self) -> Array:
        """Commanded acceleration (6,) of the first task, base axes [rad/s², m/s²]."""
        return self._setup.levels[0].u

    @property
    def F(self) -> Array:
        """Force (6,) of the first task, base axes [N·m, N]."""
        return self._setup.solver.forces[:6]

    def close(self) -> None:
        """End the processes that share the work, if there are any."""
        for setup in (self._setup, self._next):
            if setup is not None:
                setup.space.close()

    def _rehearse(self) -> None:
        """Use everything once, so that all is compiled and nothing is slow the first time."""
        rehearse()
        for time in (0.0, 10.0 * PAUSE):  # no period of states is to be seen in it
            self.torque(time, self.posture, self._rest)
        self.terms(), self.inertia(), self.predicted_and_met()
        LinkAxes(self.robot, self._setup.links[0]).at(self.posture)
        self.settings.damping.conditioning(self._setup.J[:6])
        self._setup.limiter.rehearse()
        self._advance_reference(20.0 * PAUSE, self.posture, self._rest)
        Friction(self._rest, self._rest).compensation(
            self._rest, self._rest, self._setup.reference.motion, *[self._rest] * 3, 0.0,
            self._rest, self.limiter.table)
        Driver(self.robot, 'gravity')
        if not self.robot.serial:  # a payload may make a plain chain of it
            OperationalSpace(self.robot.with_payload(1.0, inertia=np.eye(3)), self.space.method)
        self.latch(self.posture)
        self._time = -math.inf

    def latch(self, q: ArrayLike) -> None:
        """Make the poses and posture at q (n,) the target, and forget what was planned."""
        setup = self._next or self._setup
        if setup.space is not self._setup.space:
            self._setup.space.close()
        self._setup, self._next = setup, None
        self._fade.forget()
        self._friction.set(setup.settings.friction)
        self._is_placed = True
        setup.fall(self._gravity)
        self._last = self._before = None
        self.posture = self._q = np.array(q, dtype=np.float64)
        self._astray = self._astray_rate = self._rest  # of the posture from what is wanted
        poses = setup.space.outward(self.posture, self._rest).pose.reshape(-1, 4, 4)
        for level, i in zip(setup.levels, setup.at):
            level.latch(poses[i])
        setup.limiter.forget()
        setup.reference.forget()
        self._friction_torque = self._rest

    def require_holding(self, q: ArrayLike) -> None:
        """
        Refuse a payload, or a gravity beyond 9.81 m/s², that the arm cannot hold at q (n,).

        Raises
        ------
        InputError
            See `osc_ros.control.holding.require_holding`.

        """
        robot, gravity = self.robot, self._wanted_gravity
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
                 q: Array | None = None) -> _Setup:
        """
        What `change` wants for these settings and this robot, for `take`.

        This is the slow part of `change`: it leaves the law as it is, and may be done by another
        thread than that of the ticks. It raises what `change` raises.

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
        gravity = (self._wanted_gravity if np.array_equal(robot.gravity, before.robot.gravity)
                   else robot.gravity)
        if robot is not before.robot and (q is not None or self._is_placed):
            require_holding(robot, gravity, self._q if q is None else q, settings.limits.effort,
                            (before.robot, self._wanted_gravity))
        return _Setup(robot, settings, self._method, self._workers, self._setup)

    def take(self, following: _Setup) -> None:
        """Let what was `prepared` work from the next tick on."""
        before = self._next or self._setup
        following.start(self._q, self._setup)
        if not np.array_equal(following.robot.gravity, before.robot.gravity):
            self._wanted_gravity = np.array(following.robot.gravity)
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
        Let a motion take over at `start` [s]; what was to start then or later is dropped.

        The target joins it without a jump, within the task's limits: see `Guide`.

        Parameters
        ----------
        motion : Hold, Path or Jog
        start : float
        task : str, optional
            The first one if not given.

        Returns
        -------
        bool
            False if a pose is outside of the workspace box: the nearest position inside is taken.

        Raises
        ------
        InputError
            A path that is faster or accelerates more than the limits of the task's target allow,
            or that leaves the workspace box; a task that is not there.

        """
        level = self._level(task)
        limits = level.task.limits
        if isinstance(motion, Path):
            require(motion, limits)
        level.guide.add(motion, start)
        return not isinstance(motion, Hold) or limits.inside(motion.pose) is motion.pose

    def stop(self) -> None:
        """Stop all targets with bounded jerk, as soon as may be, and keep the posture as it is."""
        for level in (self._next or self._setup).levels:
            level.guide.add(STOP, -math.inf)
        self._lead_posture(self._q)

    def push(self, wrench: ArrayLike, task: str | None = None) -> None:
        """
        Let a task push with a wrench (6,) along its axes of force, from the next tick on.

        Parameters
        ----------
        wrench : (6,) [N·m, N]
            By the robot on the environment, at the origin of the task's link and in the axes of
            the task's frame, [moment; force]. It comes into force within `blend_time`.
        task : str, optional
            The first one if not given.

        Raises
        ------
        InputError
            Not six finite numbers, or not zero along an axis that has no force; a task that is
            not there.

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
        Take what a link was measured to push with, for a loop of force that is closed.

        Parameters
        ----------
        wrench : (6,) [N·m, N]
            By the robot on the environment, at the origin of the task's link, base axes.
        time : float
            When, on the clock of the states [s]. Integrals wait while it is old.
        task : str, optional
            The first one if not given.

        Raises
        ------
        InputError
            Not six finite numbers; a task that is not there.

        """
        self._level(task).measure(_wrench(wrench), time)

    def take_posture(self, q: ArrayLike) -> None:
        """
        Let the joints come to q (n,) in the null space of the task.

        Nothing jumps: what is wanted goes there within `blend_time`.

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
        self._lead_posture(posture)

    def _lead_posture(self, posture: Array) -> None:
        """Let another posture be wanted, from the one that is in force."""
        away = self.posture + self._astray - posture
        turns = np.round(away / (2.0 * np.pi)) * (2.0 * np.pi)
        self.posture, self._astray = posture, away - self._wraps * turns
        if self._astray_rate is self._rest:
            self._astray_rate = np.zeros(len(posture))

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
        self._require_state(q, qd)
        self._keep_bandwidth(time)
        if self._gravity is not self._wanted_gravity:
            self._fall(time)
        if self._astray is not self._rest:
            self._settle_posture(time)
        if self._next is not None:
            self._take_over(self._next, time, q, qd)
        tau = self._commanded(time, q, qd)
        left = self._fade.advance(time)
        fading = self._rest
        if left is not None:
            fading = left[0]
            tau = tau + fading
        tau = self._limited(time, q, qd, tau, fading)
        tau = self._commandable(time, q, qd, tau, fading)
        if left is not None:
            tau = tau + left[1]
        tau = self._setup.limiter.paced(time, tau)
        _finite(tau)
        self._before, self._last = self._last, (time, q.copy(), qd.copy(), tau)
        self._q, self._time = self._last[1], time
        return tau.copy()

    def plan(self) -> None:
        """
        Plan the motions of the targets that start: to be called when the torque has been sent.

        What was not planned by then is planned by the next `torque`, at its expense; the torques
        are the same.

        Raises
        ------
        InputError
            A target found no motion within its limits; it goes on as it did.

        """
        for level in self._setup.levels:
            level.guide.plan()

    def _keep_bandwidth(self, time: float) -> None:
        """Reduce the gains that are too high for the period in which the states really come."""
        took, period, setup = time - self._time, self._period, self._setup
        if 0.0 < took <= PAUSE:
            # one gap in the states counts as a tick of twice the length
            period += PERIOD_SHARE * (min(took, 2.0 * period) - period) if period else took
            self._period = period
        if period > setup.longest_period or setup.softened_for > setup.longest_period:
            setup.soften(period)

    def _require_state(self, q: Array, qd: Array) -> None:
        if q.shape != self._rest.shape or qd.shape != self._rest.shape:
            raise InputError(f'state has shapes {q.shape} and {qd.shape}, accepted is '
                             f'{self._rest.shape}')

    def terms(self) -> dict[str, Array]:
        """
        What the torque of the last tick is made of: (n,) by name [N·m], which add up to it.

        'bias' is C + G; 'posture' is M q̈ₚ; each task has its own, by its name, which for the upper
        ones includes what makes up for those below; 'friction' is what is compensated, 'driver'
        what is left to the driver, where there are these; 'limits' is what they took away,
        'fading' what a change left over.

        Raises
        ------
        InputError
            If there was no tick since `latch`.

        """
        time, q, qd, tau = self._last_tick()
        setup = self._setup
        bias = self.bias_torque(q, qd)
        to_posture = self._posture_acceleration(q, qd)
        posture = setup.dynamics.inverse_dynamics(q, qd, to_posture) - bias
        terms = {'bias': bias, 'posture': posture}
        for k, (level, i) in enumerate(zip(setup.levels, setup.at)):
            F = setup.solver.forces[6 * k:6 * k + 6]
            terms[level.task.name] = setup.J[6 * i:6 * i + 6].T @ F
        self._add_terms_of_joints(terms, q, qd)
        left = self._fade.left
        terms['fading'] = self._rest if left is None else left.sum(axis=0)
        terms['limits'] = tau - sum(terms.values())
        return terms

    def _last_tick(self) -> tuple[float, Array, Array, Array]:
        if self._last is None:
            raise InputError('there was no tick to tell of: call torque(time, q, qd) first')
        return self._last

    def _add_terms_of_joints(self, terms: dict[str, Array], q: Array, qd: Array) -> None:
        """Add 'friction' and 'driver' to the terms of the bias, the posture and the tasks."""
        driver = self._setup.settings.driver
        if driver is not None:
            terms['driver'] = -driver.torque(q, qd)
        if self._friction_torque is not self._rest:
            terms['friction'] = self._friction_torque

    def inertia(self) -> Array:
        """
        Λ (6, 6) of the first task's link at the last tick, base axes [kg m², kg m, kg].

        Raises
        ------
        InputError
            If there was no tick since `latch`.

        """
        _, q, qd, _ = self._last_tick()
        own = slice(6 * self._setup.at[0], 6 * self._setup.at[0] + 6)
        return task_inertia(self._setup.space.outward(q, qd).Lambda_inv[own, own].copy())

    def predicted_and_met(self) -> tuple[Array, Array]:
        """
        Joint accelerations as the model predicted them, and as they were met (n,), (n,) [rad/s²].

        From the tick before the last one to the last one. Their difference is what the model
        lacks: friction, payload, contact.

        Raises
        ------
        InputError
            If there were no two ticks since `latch`, or no time between them.

        """
        if self._last is None or self._before is None or not self._last[0] > self._before[0]:
            raise InputError('there were no two ticks to tell of')
        time, q, qd, tau = self._before
        met = (self._last[2] - qd) / (self._last[0] - time)
        driver = self._setup.settings.driver
        added = self._rest if driver is None else driver.torque(q, qd)
        return self._setup.space.forward_dynamics(q, qd, tau + added), met

    def _commanded(self, time: float, q: Array, qd: Array) -> Array:
        """Joint torques (n,) of the setup in force, without limits or what a change left over."""
        setup = self._setup
        settings = setup.settings
        self._qdd_posture = self._posture_acceleration(q, qd)
        self._links = links = setup.space.outward(q, qd, posture_acceleration=self._qdd_posture)
        poses, twists = links.pose.reshape(-1, 4, 4), links.twist.reshape(-1, 6)
        is_saturated = setup.limiter.is_at_work
        for level, i, frame, row in setup.asked:
            axes = (poses[frame] if isinstance(frame, int) else
                    frame.at(q) if isinstance(frame, LinkAxes) else frame)
            level.ask(time, poses[i], twists[i], axes, is_saturated, row)
        J = setup.space.jacobian(out=setup.J)
        F = setup.solver.solve(J, links.Lambda_inv, links.a0, settings.damping)
        return setup.space.inward(F)

    def _limited(self, time: float, q: Array, qd: Array, tau: Array, fading: Array) -> Array:
        """Joint torques (n,) within the limits, for those of the last `_commanded`."""
        setup = self._setup
        return setup.limiter.kept(time, q, qd, self._qdd_posture, tau, fading, setup.solver,
                                  setup.settings.damping.length)

    def _commandable(self, time: float, q: Array, qd: Array, tau: Array, fading: Array) -> Array:
        """Torques (n,) to command for tau of the arm: with friction, less the driver's part."""
        setup = self._setup
        friction, driver = self._friction.at(time), setup.settings.driver
        if friction is None:
            self._friction_torque = self._rest
        else:
            self._friction_torque = self._against_friction(time, q, qd, tau, fading, friction)
            tau = tau + self._friction_torque
        return tau if driver is None else tau - driver.torque(q, qd)

    def _against_friction(self, time: float, q: Array, qd: Array, tau: Array, fading: Array,
                          friction: Friction) -> Array:
        """Torques (n,) against friction, beside tau that the law gives after the last setup."""
        self._advance_reference(time, q, qd)
        setup = self._setup
        reference = setup.reference
        return friction.compensation(
            q, qd, reference.motion, reference.model, tau, fading,
            feedback_gain(reference.rate, reference.tick), setup.least_inertia,
            setup.limiter.table)

    def _advance_reference(self, time: float, q: Array, qd: Array) -> None:
        setup = self._setup
        setup.reference.advance(
            time, q, qd, setup.J, self._links.Lambda_inv, setup.solver, setup.dynamics,
            setup.limiter.table, self._posture_now(), self._wraps, setup.posture_gains)

    def _settle_posture(self, time: float) -> None:
        """Bring the posture to where it is wanted, C¹."""
        dt = time - self._time if time > self._time > -math.inf else 0.0
        self._astray, self._astray_rate = settling(
            self._astray, self._astray_rate, self._setup.settings.blend_time, dt)
        if not (np.abs(self._astray) > ARRIVED).any():
            self._astray = self._astray_rate = self._rest

    def _fall(self, time: float) -> None:
        """Bring gravity to where it is wanted, no faster than GRAVITY_RATE."""
        away = self._wanted_gravity - self._gravity
        took = time - self._time
        step = GRAVITY_RATE * max(took, 0.0) if took <= PAUSE else math.inf
        far = float(np.linalg.norm(away))
        self._gravity = (self._wanted_gravity if far <= step
                         else self._gravity + step / far * away)
        self._setup.fall(self._gravity)

    def _take_over(self, following: _Setup, time: float, q: Array, qd: Array) -> None:
        """Let the next setup work, starting from the torque that the present one gives."""
        left = self._fade.advance(time)
        fading = self._rest if left is None else left[0]
        before = self._commanded(time, q, qd) + fading
        sent = self._commandable(time, q, qd, before, fading)
        if left is not None:
            sent = sent + left[1]
        following.reference.go_on_as(self._setup.reference)
        if following.space is not self._setup.space:
            self._setup.space.close()
        self._friction.begin(
            time, following.settings.friction, following.settings.limits.effort,
            np.asarray(following.robot.velocity_limits), following.settings.blend_time)
        self._setup, self._next = following, None
        following.fall(self._gravity)
        if self._period > following.longest_period:
            following.soften(self._period)
        left_over = before - self._commanded(time, q, qd)
        beyond = sent - self._commandable(time, q, qd, before, left_over)
        settings = following.settings
        self._fade.begin(time, np.array([left_over, beyond]), settings.limits.effort,
                         settings.blend_time)

    def bias_torque(self, q: Array, qd: Array) -> Array:
        """C + G (n,) [N·m]: what holds the arm's motion as it is, against its own weight."""
        self._require_state(q, qd)
        return self._setup.dynamics.inverse_dynamics(q, qd, self._rest)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """
        Torques (n,) to command for accelerations, whatever the limits [N·m].

        Raises
        ------
        InputError
            Shapes of the state that do not fit, a torque that is not finite.

        """
        self._require_state(q, qd)
        tau = self._setup.dynamics.inverse_dynamics(q, qd, qdd)
        driver = self._setup.settings.driver
        return _finite(tau if driver is None else tau - driver.torque(q, qd))

    def _posture_acceleration(self, q: Array, qd: Array) -> Array:
        setup = self._setup
        frequency, rate, push = setup.posture_gains
        qdd = np.empty(len(q))
        posture_acceleration(q, qd, self._posture_now(), self._wraps, setup.limiter.table,
                             frequency, rate, push, qdd)
        return qdd

    def _posture_now(self) -> Array:
        """Posture (n,) on its way to the one that is wanted."""
        return self.posture if self._astray is self._rest else self.posture + self._astray


def _finite(tau: Array) -> Array:
    if not all(map(math.isfinite, tau.tolist())):
        raise InputError(f'the torque is not finite: {tau.tolist()}')
    return tau


def _wrench(given: ArrayLike) -> Array:
    wrench = np.array(given, dtype=np.float64)
    if wrench.shape != (6,) or not np.isfinite(wrench).all():
        raise InputError(f'wrench {wrench.tolist()}: accepted are 6 finite numbers')
    if np.abs(wrench).max() > STRONGEST:
        raise InputError(f'wrench {wrench.tolist()}: accepted is at most {STRONGEST:g}')
    return wrench
