# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
A law: joint states in, joint torques out; commands to it, and changes of its settings.

`control/step/step.py` shows how a torque is computed. This class has what people do with a law.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.collision.obstacles import Obstacles
from osc_ros.compile.compiled import on_demand, plain
from osc_ros.control import joint_drive
from osc_ros.control.accepted import bounded_twist, checked_override, require_seconds, require_unit
from osc_ros.control.checkpoint import LawRecipe
from osc_ros.control.compiled_law import CompiledLaw, NOTHING_KNOWN, Precomputed
from osc_ros.control.data import OF_BLEND, RUN
from osc_ros.control.joint_drive import JointDrive, motion_bounds
from osc_ros.control.limits.holding import (
    require_effort,
    require_gradual,
    require_gravity,
    require_holding,
    require_strength,
)
from osc_ros.control.limits.limits import LOWER, UPPER
from osc_ros.control.limits.load import Weight
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.model_error.disturbance import Report
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import duration_of_change
from osc_ros.control.model_error.observer import ExternalForce
from osc_ros.control.setpoint import joint_motion
from osc_ros.control.setpoint.arrival import JointApproach
from osc_ros.control.setpoint.chunks import chunk_entry, ChunkBlending, Entry, JOINING, LEAD
from osc_ros.control.setpoint.joint_motion import (
    joint_path,
    motion_to_goal,
    require_within,
    slowed_to_effort,
    stopping_motion,
)
from osc_ros.control.setpoint.level import Level
from osc_ros.control.setpoint.pieces import Pieces, SHORTEST
from osc_ros.control.setpoint.posture import (
    begin_motion,
    beginning,
    full_speed_state,
    goal_positions,
    hold_joints,
    motion_of,
    nearest_turn,
    refer_to,
    set_point_at,
    stop_joints,
)
from osc_ros.control.setpoint.set_point_generator import (
    Course,
    Draft,
    Motion,
    rehearse,
    SetPointGenerator,
    STOP,
    TwistGoal,
)
from osc_ros.control.setpoint.trajectory import (
    Path,
    path_through,
    path_within,
    PoseGoal,
    require_rigid,
)
from osc_ros.control.settings import Settings
from osc_ros.control.step.blend import begin_blend, hurry
from osc_ros.control.step.evaluate import PAUSE, period_for_gains
from osc_ros.control.step.law_record import CONTROLLER, INFINITE, REFUSED
from osc_ros.control.step.limit import count_fading, Limiter
from osc_ros.control.step.places import Copies, load, Places
from osc_ros.control.step.reference import put_at_rest
from osc_ros.control.step.step import torque_for
from osc_ros.control.tasks import impedance
from osc_ros.control.tasks.bandwidth import DELAY
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.free import forget_walls, REFUSAL
from osc_ros.control.tasks.freedoms import require_single_freedoms
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.task import AXIS_NAMES, NO_ROTATION, pose, Target, Task
from osc_ros.dynamics.algebra.arrays import finite_array, kernel_array
from osc_ros.dynamics.algebra.kinematics import LinkAxes
from osc_ros.dynamics.algebra.task_inertia import task_inertia
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.priority.priority import Priorities
from osc_ros.errors import InputError, require_type
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

STANDARD_GRAVITY = 9.81  # [m/s²]
MOST = 32  # largest number of tasks in a `LawRecipe`
_FLOAT64 = np.dtype(np.float64)
STRONGEST = 1e5  # largest accepted entry of a wrench [N·m, N]
SLOWEST = 1e-4  # least speed of a motion of the joints [rad/s, m/s]
TOO_FAST = 2.0  # a speed of more times the limit is likely in another unit
TOO_SHORT = 'the motion takes at least'  # an error of `follow_joints`
LONGEST = 1e6  # longest accepted duration of a motion of the joints [s]
LOADING = 0.5  # least time for a change of the payload [s/kg]
HALVES_APART = 0.01  # longest time between the two halves of a change; else it starts anew [s]
SETTLING = 1.0  # time after a blend in which bounds still change the torques slowly [s]


class Law:
    """
    Operational-space control law of an arm, for its tip and for other links.

    `Law(robot)` needs no settings: it controls the pose of the tip, the joint limits are
    the robot's, and all other settings have defaults. In a control loop:

    >>> law = Law(robot)                                           # doctest: +SKIP
    >>> law.hold(q)                    # hold the pose of these joint positions
    >>> law.follow(goal)                # (4, 4), in the base frame
    >>> while True:
    ...     send(law.torque(time, q, qd))      # 500 times a second or more
    ...     law.plan()                         # after sending, because it is slow

    The posture acts in the dynamically consistent nullspace of all tasks, and also in directions
    in which a task is singular. After `hold` the arm holds its present pose. Attributes describe
    the last tick: `pose`, `twist`, `error`, `u`, `F` and `target` of the first task, and
    `saturated` of the joints.

    A command takes effect at the next tick. Before `hold` or the first tick the position of the
    arm is unknown, and commands raise. While a change of settings waits (`waits`), commands are
    checked for the new settings. Commands that the present settings cannot execute wait, too; if
    such a command is impossible when it is due, `plan` raises.

    Attributes
    ----------
    controller : record
        CONTROLLER of `osc_ros.control.step.law_record`; `law` is that of the setup in force. An
        engine adds its supervisor.

    Parameters
    ----------
    robot : Robot
    settings : Settings, optional
        Default: `Settings.of(robot)`, for the pose of the tip.
    method : str
        Method of the dynamics, see `OperationalSpace`. If the tasks are on several links and this
        method accepts only one tip, the default method for trees is used.
    workers : int or 'auto'
        See `OperationalSpace`. A law with several workers must be closed.

    Raises
    ------
    InputError
        The robot has several tips and no task names a link; it has a floating base or joints with
        several degrees of freedom; the method is unknown or does not accept the workers.

    """

    @on_demand(locks=False)  # compile what a law calls, and no more
    def __init__(self, robot: Robot, settings: Settings | None = None, method: str = 'sweep',
                 workers: int | str = 1) -> None:
        require_type('robot', robot, Robot, 'a Robot, as of Robot.from_urdf, and then Settings: '
                     'Law(robot, settings)')
        settings = Settings.of(robot) if settings is None else settings
        require_type('settings', settings, Settings, 'Settings, as in Law(robot, Settings())')
        require_single_freedoms(robot)
        self._method, self._workers = method, workers
        self._weight: tuple[Robot, Weight] | None = None  # of the robot in force
        q = np.clip(np.zeros(robot.n), *robot.position_limits.T)
        self._begin(CompiledLaw(robot, settings.with_limits_of(robot), method, workers), q)
        self.hold(q)
        self._rehearse()
        self._is_placed = False  # until `hold` or the first tick

    @property
    def recipe(self) -> LawRecipe:
        """Data to construct an equal law, see `of_recipe`."""
        setups = self._setups()
        if len(setups) > 1:
            all_of = self.generators
            guides = tuple(tuple(all_of.index(level.generator) for level in one.levels)
                           for one in setups)
        else:
            guides = (tuple(range(len(self._setup.levels))),)
        return LawRecipe(
            self._method, self._setup.space.plan.workers,
            tuple([(one.settings, one.robot, one.precomputed) for one in self.setups]),
            guides)

    @classmethod
    def of_recipe(cls, recipe: LawRecipe) -> Law:
        """
        Construct a law from a recipe; the caller then sets `state_arrays` and `remembered`.

        Raises
        ------
        InputError
            Several workers, more than MOST tasks, old and new settings for different joints; and
            the errors of the constructor.

        """
        if recipe.workers != 1:
            raise InputError(f'{recipe.workers} workers evaluated the law: give one')
        for settings, robot, _ in recipe.setups:
            require_single_freedoms(robot)
            if len(settings.tasks) > MOST or robot.joint_names != recipe.setups[0][1].joint_names:
                raise InputError(f'{len(settings.tasks)} tasks, and the joints '
                                 f"{', '.join(robot.joint_names)}: give {MOST} tasks, and "
                                 'the same joints in both setups')
        law, before, generators = cls.__new__(cls), None, dict[int, SetPointGenerator]()
        law._method, law._workers, law._weight = recipe.method, 1, None
        for (settings, robot, precomputed), own in zip(recipe.setups, recipe.guides):
            setup = CompiledLaw(robot, settings, recipe.method, 1, before, precomputed)
            if before is None:
                law._begin(setup, np.zeros(robot.n))
            else:  # like `_take_over`
                setup.start(np.zeros(robot.n))
                is_same = settings.leader == before.settings.leader
                setup.join(law._run, law._posture)
                law._pair(before, law._posture if is_same else law._posture.copy(), setup)
                law._use_now(setup)
            for level, k in zip(setup.levels, own, strict=True):
                level.generator = generators.setdefault(k, level.generator)
            before = setup
        for settings, robot, precomputed in recipe.setups[len(recipe.guides):]:
            law._waiting = CompiledLaw(robot, settings, recipe.method, 1, before, precomputed)
        return law

    def copied(self) -> Law:
        """Return another law in the same state, with memory of its own."""
        law = self.of_recipe(self.recipe)
        load(law.state_arrays(), *Copies().of(self.state_arrays()))
        law.remembered = self.remembered
        return law

    def __deepcopy__(self, memo: object) -> Law:
        """Return `copied`, because copied tables would have addresses of this law's memory."""
        return self.copied()

    def __reduce__(self) -> tuple[object, ...]:
        """Raise InputError, because a pickle would have addresses of this law's memory."""
        raise InputError('a law cannot be pickled: use law.copied() or copy.deepcopy(law)')

    # a tick

    def _begin(self, setup: CompiledLaw, q: Array) -> None:
        """Hold q (n,) with a setup."""
        robot = setup.robot
        self._rest, self._unknown = np.zeros(robot.n), np.full(robot.n, math.nan)
        self.controller = CONTROLLER.new()
        self._waiting: CompiledLaw | None = None  # accepted during a blend, not yet in force
        # commands that wait with it: kind, task, start, name of the method, arguments
        self._deferred: list[tuple[str, str | None, float, str, tuple[Any, ...]]] = []
        # whose motions have begun, but whose torques are not used yet; stamp of that tick [s]
        self._started: tuple[CompiledLaw | None, float] = None, -math.inf
        setup.start(q)
        self._run = RUN.new(n=robot.n)
        self._replaced: CompiledLaw | None = None  # while a change of settings is in progress
        self._observed = -math.inf
        self._posture = set_point_at(robot, q)
        self._is_placed = False  # becomes true in `hold`
        run = self._run
        run.delay = run.wanted_delay = DELAY
        run.tick_time = run.noted_time = -math.inf
        run.gravity[:] = run.wanted_gravity[:] = robot.gravity
        run.speed_override, run.tick_q[0] = 1.0, q
        setup.join(self._run, self._posture)
        self._use_now(setup)

    def _use_now(self, setup: CompiledLaw) -> None:
        self._setup, self.controller.law = setup, setup.record

    @property
    def robot(self) -> Robot:
        """The robot of the last change; see `waits`."""
        return self._latest.robot

    @property
    def settings(self) -> Settings:
        """The settings of the last change; `limits` are never None; see `waits`."""
        return self._latest.settings

    @property
    def setup(self) -> CompiledLaw:
        """The `CompiledLaw` in force: the law for the present robot and settings."""
        return self._setup

    @property
    def setups(self) -> tuple[CompiledLaw, ...]:
        """The `CompiledLaw` that is being replaced, the one in force, and the one that waits."""
        return *self._setups(), *(() if self._waiting is None else (self._waiting,))

    @property
    def _latest(self) -> CompiledLaw:
        return self._waiting or self._setup

    @property
    def waits(self) -> bool:
        """Whether the last change is not yet in force, because the one before is in progress."""
        return self._waiting is not None

    @property
    def wait(self) -> float:
        """Time until the last change comes into force [s]; 0 if it does not wait."""
        return float(self._run.blend_duration - self._run.blend_age) if self.waits else 0.0

    @property
    def is_blending(self) -> bool:
        """Whether a change of settings is in progress."""
        return self._replaced is not None

    @property
    def obstacles(self) -> Obstacles:
        """
        Obstacles by name, from which the links keep clear if the settings have a clearance.

        >>> law.obstacles['box'] = Obstacle.at('box', (0.2, 0.2, 0.4), (0.5, 0.0, 0.2))
        ... # doctest: +SKIP
        >>> del law.obstacles['box']                                # doctest: +SKIP

        """
        return self._setup.limiter.clearance.obstacles

    @property
    def is_settled(self) -> bool:
        """
        Whether no change of settings is in progress or waits, and torques need no Python.

        Torques need Python if the chosen method of the dynamics is not compiled.

        """
        return not (self.is_blending or self.waits) and self._setup.has_kernel

    @property
    def space(self) -> OperationalSpace:
        """Dynamics of the robot at the links of the tasks."""
        return self._setup.space

    @property
    def command_model(self) -> CommandModel:
        """Model of robot and driver in force, which computes torques for joint accelerations."""
        return self._setup.command_model

    @property
    def levels(self) -> dict[str, Level]:
        """State of the tasks by name, highest priority first."""
        return {level.task.name: level for level in self._setup.levels}

    @property
    def priorities(self) -> Priorities:
        """Result of the last tick for every task: forces, conditioning, lost directions."""
        return self._setup.solver

    @property
    def limiter(self) -> Limiter:
        """Result of the limits at the last tick: joints at a limit, remaining task shares."""
        return self._setup.limiter

    @property
    def has_ticked(self) -> bool:
        """Whether there was a tick since the last `hold`."""
        return bool(self._run.ticks > 0)

    @property
    def period(self) -> float:
        """Mean time between the last states [s]; 0 before the second state."""
        return float(self._run.mean_period)

    @property
    def delay(self) -> float:
        """Delay from the stamp of a state to its torque [periods]; it bounds the gains, slowly."""
        return float(self._run.delay)

    @delay.setter
    def delay(self, delay: float) -> None:
        self._run.wanted_delay = delay
        if not self.has_ticked:
            self._run.delay = delay

    @property
    def in_contact(self) -> bool:
        """Whether the caller knows of a contact; while True, the compensation does not grow."""
        return bool(self._run.in_contact)

    @in_contact.setter
    def in_contact(self, in_contact: bool) -> None:
        self._run.in_contact = in_contact

    @property
    def speed_override(self) -> float:
        """
        Speed of all motions relative to their own, 0 to 100 [%]; 0: the set-points stand.

        Every set-point (poses, paths, chunks, streams, twists, joints, posture) moves along its
        motion in slower time, so the way stays the same. A change takes effect smoothly, even if
        the change before is in progress. `hold` does not reset it. A stop is as short as at
        100 %; targets without limits jump as at 100 %. InputError for another number.

        """
        return 100.0 * float(self._run.speed_override)

    @speed_override.setter
    def speed_override(self, percent: float) -> None:
        self._run.speed_override = 0.01 * checked_override(percent)

    def lasts(self, duration: float) -> float:
        """Duration [s] of a motion that takes `duration` [s] at full speed; inf at 0 %."""
        speed = float(self._run.speed_override)
        return duration / speed if speed > 0.0 else math.inf if duration > 0.0 else 0.0

    @property
    def left(self) -> float:
        """Duration of the rest of the paths and joint motions in progress, at full speed [s]."""
        at = self._posture
        return max([*(generator.left for generator in self.generators),
                    float(at.times[-1] - at.elapsed) if at.is_moving else 0.0])

    @property
    def posture(self) -> Array:
        """Goal (n,) of the posture, or of the joints during a joint drive."""
        return np.array(self._posture.wanted)

    @property
    def joints(self) -> Any:
        """Set-point of the joints, a record SET_POINT; only to be read."""
        return self._posture

    @property
    def _here(self) -> Array:
        """Positions (n,) of the last tick or `hold`."""
        return np.array(self._run.tick_q[0])

    @property
    def _period_for_gains(self) -> float:
        return float(plain(period_for_gains)(self._run))

    def _tick(self, ago: int = 0) -> tuple[float, Array, Array, Array] | None:
        """Stamp, q, qd and tau of the last tick (`ago` 0), or the one before (1); None: none."""
        run = self._run
        if run.ticks <= ago:
            return None
        return (float(run.tick_times[ago]), run.tick_q[ago].copy(), run.tick_qd[ago].copy(),
                run.tick_tau[ago].copy())

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Whether each joint's torque (n,) was at its limit, in free drive also of its rate."""
        return np.asarray(self._setup.d.torque_sides != 0)

    @property
    def friction_torque(self) -> Array:
        """Friction compensation (n,) of the last tick [N·m]."""
        return np.array(self._setup.d.tau_friction)

    @property
    def external(self) -> ExternalForce | None:
        """Estimated external torques and wrench; None if the settings ask for no estimate."""
        return None if (found := self._setup.observer) is None else found.external

    @property
    def compensation(self) -> Array:
        """Compensation (n,) of model errors at the last tick [N·m]."""
        return np.array(self._setup.d.tau_disturbance)

    def external_report(self) -> Report | None:
        """Return copies of `external` and `compensation`; None without an observer."""
        if (found := self.external) is None:
            return None
        return Report(found.torque.copy(), self._setup.compensating.copy(), found.wrench.copy(),
                      found.quality, found.settled, found.lever,
                      bool(self._setup.record.compensation.in_contact))

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
        """Pose error (6,) of the first task, base axes [rad, m]; 0 in a joint drive."""
        if self._setup.settings.joints is not None:  # the set-point of the tip does not lead
            return np.zeros(6)
        return self._setup.levels[0].error.copy()

    @property
    def u(self) -> Array:
        """Commanded acceleration (6,) of the first task, base axes [rad/s², m/s²]."""
        return self._setup.levels[0].u.copy()

    @property
    def F(self) -> Array:
        """Force (6,) of the first task, base axes [N·m, N]."""
        return self._setup.solver.forces[:6].copy()

    def hold(self, q: ArrayLike) -> None:
        """
        Set all targets and the posture to those at q (n,), and drop all motions.

        The estimate and the compensation of external torques are reset.

        Raises
        ------
        InputError
            Not n finite numbers.

        """
        self.hold_at(q)
        for one in self._setup.observer, self._setup.compensation:
            if one is not None:
                one.forget()
        self._note_compensation(self._rest)

    def begin_with(self, missing: ArrayLike | None) -> None:
        """
        Start the compensation, if there is one, from a known torque; call it after `hold`.

        Parameters
        ----------
        missing : (n,), optional [N·m, N]
            Torque that holds the arm at rest, minus that of the model; None: unknown.

        Raises
        ------
        InputError
            Not n finite numbers.

        """
        observer, compensation = self._setup.observer, self._setup.compensation
        if (missing is not None and observer is not None and compensation is not None
                and self._setup.settings.compensated is not None):
            torque = finite_array('missing', missing, self._rest.shape)
            observer.begin_with(-torque)
            compensation.begin_with(torque)
            self._note_compensation(compensation.torque)

    def hold_at(self, q: ArrayLike) -> None:
        """
        Like `hold`, but keep the estimate and the compensation of external torques.

        Raises
        ------
        InputError
            Not n finite numbers.

        """
        here = finite_array('q', q, self._rest.shape).copy()
        self._use_waiting(False)
        self._deferred = []
        setup = self._setup
        self._drop_replaced()
        setup.set_gravity(self._run.gravity)
        self._is_placed = True
        self._run.ticks, self._run.tick_q[0] = 0, here
        hold_joints(self._posture, here)
        poses = setup.poses(here)
        for level, i in zip(setup.levels, setup.at):
            level.hold(poses[i])
        setup.limiter.forget()
        setup.limiter.clearance.forget()
        put_at_rest(setup.d)
        forget_walls(setup.d)
        setup.d.tau_friction[:] = 0.0

    def rejoin(self, q: Array) -> None:
        """
        Continue the motions of the targets from the poses of the links at q (n,).

        A joint drive holds q.

        """
        self._use_waiting(False)
        setup = self._setup
        if setup.settings.joints is not None:
            hold_joints(self._posture, q)
        poses = setup.poses(q)
        for level, i in zip(setup.levels, setup.at):
            level.rejoin(poses[i])

    def observe(self, time: float, q: Array, qd: Array, tau: Array | None = None,
                effort: Array | None = None) -> None:
        """
        Advance the estimate of the external torques to a state, if the settings have an observer.

        `torque` does this itself, with its last torque, for a state for which `observe` was not
        called. Call it before `torque` if torques other than those of the law may have been
        sent, if the efforts are measured, or while another source than the law drives the arm.

        Parameters
        ----------
        time : float [s]
        q, qd : (n,)
        tau : (n,), optional [N·m, N]
            Torque sent since the last state; default: the last torque of the law.
        effort : (n,), optional [N·m, N]
            Measured torque, used according to `Observation.efforts`.

        """
        found = self._setup.observer
        if found is not None and time != self._observed:
            self._observed = time
            last = self._run.tick_tau[0] if self.has_ticked else self._unknown
            found.update(time, q, qd, last if tau is None else tau, effort)

    def torque(self, time: float, q: ArrayLike, qd: ArrayLike, is_observed: bool = False
               ) -> Array:
        """
        Joint torques (n,) [N·m] for the state at a time [s], within the limits.

        The first call does `hold(q)`, unless `hold` was called before.

        Parameters
        ----------
        time : float
            Stamp of the state, on the clock of the motions.
        q, qd : (n,)
        is_observed : bool
            Whether the caller calls `observe` for every state, before this or after it.

        Raises
        ------
        InputError
            Shapes that do not fit; positions, velocities or a time that are not finite.

        """
        if not math.isfinite(time):
            raise InputError(f'the time of the state is {time}: must be a finite number [s]')
        q, qd = self._joint_arrays(q, qd)
        if not self._is_placed:
            self.hold(q)
        if not is_observed:
            self.observe(time, q, qd)
        if not self.has_ticked:
            for level in self._setup.levels:
                level.generator.jump(time)
        if self._setup.d.plans or self.waits:
            self.plan()
        tau = np.empty(len(q))
        self.require(int(torque_for(self._setup.record, time, q, qd, tau)), q, qd)
        self.end_blend()
        return tau

    def require(self, code: int, q: Array, qd: Array) -> None:
        """Raise the error for a state, if `code`, returned by `torque_for`, is that of one."""
        if code == INFINITE:
            raise InputError('the torque is not finite')
        if code == REFUSED:
            failed = [one for one in self._setups() if one.failure is not None]
            (failed or [self._setup])[0].refuse(q, qd)

    @property
    def is_placed(self) -> bool:
        """Whether the position of the arm is known: `hold` was called, or there was a tick."""
        return self._is_placed

    def state_arrays(self) -> tuple[NDArray[Any], ...]:
        """
        Return the arrays on which the next torques depend, in addition to `remembered`.

        With the same numbers in them, another law of the same settings computes the same torques.

        """
        setup, replaced = self._setup, self._replaced
        models = (one.record.slots for one in (setup.observer, setup.compensation)
                  if one is not None)
        arrays = *setup.state_arrays(), self._posture.slots, *models, self._run.slots
        if replaced is None:
            return arrays
        arrays += *replaced.state_arrays(), replaced.record.posture.slots
        return tuple({id(one): one for one in arrays}.values())  # the setups may share some

    @property
    def generators(self) -> list[SetPointGenerator]:
        """
        Set-point generators of all targets, each once.

        During a change of settings, the old and the new settings may share them.

        """
        if self._replaced is None:
            return [level.generator for level in self._setup.levels]
        return list({id(level.generator): level.generator for setup in self._setups()
                     for level in setup.levels}.values())

    @property
    def remembered(self) -> tuple[Any, ...]:
        """The rest of the state of the law; to restore a state, set `state_arrays` before this."""
        return (self._observed, self._is_placed,
                tuple(tuple(generator.course) for generator in self.generators),
                tuple(motion_of(setup.record.posture) for setup in self._setups()),
                self.obstacles.named, tuple(self._deferred))

    @remembered.setter
    def remembered(self, values: tuple[Any, ...]) -> None:
        self._observed, self._is_placed, motions, of_joints, obstacles, deferred = values
        self._deferred = list(deferred)
        self.obstacles.named = obstacles
        for generator, one in zip(self.generators, motions, strict=True):
            generator.course = Course(*one)
        for setup, motion in zip(self._setups(), of_joints, strict=True):
            refer_to(setup.record.posture, motion)
            setup.set_gravity(self._run.gravity)

    def end_blend(self) -> bool:
        """End a change of settings if the old ones have the weight 0; return whether it is so."""
        is_over = self._replaced is not None and bool(self._run.blend_weight == 0.0)
        if is_over:
            self._drop_replaced()
        return is_over

    def _joint_arrays(self, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]:
        """Return the state as contiguous float64 arrays; raise if a shape does not fit."""
        if (type(q) is type(qd) is np.ndarray and q.shape == qd.shape == self._rest.shape
                and q.dtype is qd.dtype is _FLOAT64 and q.flags.carray and qd.flags.carray):
            return q, qd
        try:
            q, qd = np.asarray(q, dtype=np.float64), np.asarray(qd, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f'the state is not made of numbers: {error}') from None
        if q.shape != self._rest.shape or qd.shape != self._rest.shape:
            raise InputError(f'state has shapes {q.shape} and {qd.shape}, must be '
                             f'{self._rest.shape}')
        return kernel_array(q), kernel_array(qd)

    def _note_compensation(self, torque: Array) -> None:
        """Store a compensation (n,), which the limits of the next torques include."""
        for setup in self._setups():
            setup.d.tau_disturbance[:] = torque

    def _setups(self) -> tuple[CompiledLaw, ...]:
        """Return the `CompiledLaw` that is being replaced, if any, and the one in force."""
        return (self._setup,) if self._replaced is None else (self._replaced, self._setup)

    def _hand_over(self, following: CompiledLaw, q: Array) -> None:
        """Pass estimate and compensation of external torques to the next `CompiledLaw`."""
        before = self._setup
        if (one := following.observer) is not None and (old := before.observer) is not None:
            one.bandwidth = following.observation.bandwidth
            if one is not old:
                one.go_on_from(old)
        if (now := following.compensation) is not None and before.compensation is not None:
            now.go_on_from(before.compensation)
        if one is not None and now is not None and following.robot is not before.robot:
            # A payload that was compensated is a part of the model now: it would count twice, and
            # would be taken for a contact.
            one.record.torque[:] += now.leave_to_model(following.added_weight(before, q))
        following.d.tau_disturbance[:] = following.compensating

    def _prepare(self, following: CompiledLaw, q: Array) -> None:
        """Prepare a `CompiledLaw` to continue from the state of the one in force, at q (n,)."""
        before = self._setup
        if following.settings.leader != before.settings.leader:
            for level in before.levels:
                level.generator.add(STOP, -math.inf)
        following.limiter.go_on_from(before.limiter)
        following.join(self._run, self._posture)
        if before.settings.friction is not None:
            following.d.take(before.d, ('reference_qd', 'reference_qdd', 'reference_tau',
                                        'reference_time', 'longest_tick'))
        following.set_gravity(self._run.gravity)
        self._hand_over(following, q)
        if self._period_for_gains > following.m.longest_period:
            following.limit_gains(self._period_for_gains)

    def _replace(self, following: CompiledLaw) -> None:
        """Use a `CompiledLaw` at once, because another source than the law commands the arm."""
        before = self._setup
        self._drop_replaced()
        if following.settings.leader != before.settings.leader:
            hold_joints(self._posture, self._here)
        following.put_leash(self._posture)
        self._prepare(following, self._here)
        if following.space is not before.space:
            before.space.close()
        self._use_now(following)

    def _start(self, following: CompiledLaw) -> None:
        """Begin the motions of a `CompiledLaw` at the last tick: the first half of a change."""
        last = self._tick()
        following.start(self._here, None if last is None else last[2], self._setup)
        self._started = following, -math.inf if last is None else last[0]

    def _use(self, following: CompiledLaw, commands: bool) -> None:
        """Blend to a `CompiledLaw`; at once, if no torque of the law was sent to the arm."""
        last, (one, since) = self._tick(), self._started
        if one is not following or last is None or not 0.0 <= last[0] - since <= HALVES_APART:
            self._start(following)
        self._started = None, -math.inf
        if last is None or not commands:
            self._replace(following)
        else:
            self._take_over(following, *last)

    def _use_waiting(self, commands: bool) -> None:
        """Use the settings that wait, if there are any; `commands` as for `use_setup`."""
        try:  # until the end they wait: other threads read the settings of the last change
            if self._waiting is not None:
                self._use(self._waiting, commands)
        finally:
            self._waiting = None

    def _take_over(self, following: CompiledLaw, time: float, q: Array, qd: Array, tau: Array
                   ) -> None:
        """Start to blend from tau (n,), the torques of the last tick, to the torques of a law."""
        before, posture = self._setup, self._posture
        if following.settings.leader != before.settings.leader:
            posture = self._posture.copy()
            if before.settings.joints is not None:
                stop_joints(posture, before.joint_bounds)
            at = self._posture
            hold_joints(at, q)
            if following.settings.free is None:  # in free drive, a motion would step the torques
                at.velocity[:], at.rate, at.rate_slope = qd, 1.0, 0.0
                stop_joints(at, following.joint_bounds)
        following.put_leash(self._posture)
        self._prepare(following, q)
        run, d, settings = self._run, following.d, following.settings
        tau = tau - d.tau_disturbance  # without the compensation that continues
        carried = before.d.tau_disturbance - d.tau_disturbance  # the rest of it
        before.d.is_blended = d.is_blended = True
        if following.torque(time, q, qd) < 0:
            self._drop_replaced()
            following.refuse(q, qd)
        self._pair(before, posture, following)
        added = d.tau_friction - d.tau_driver
        d.tau_fading[:] = difference = tau - (d.tau_limited + added)
        d.last_limited[:] = d.last_tau - (added + difference)
        count_fading(d, False)
        begin_blend(run, time, difference, settings.limits.effort, max(
            settings.blend_time,
            LOADING * abs(following.robot.payload_mass - before.robot.payload_mass),
            duration_of_change(before.settings.friction, settings.friction,
                               settings.limits.effort,
                               np.asarray(following.robot.velocity_limits))))
        run.tau_carried[:], run.blends_load = carried, following.robot is not before.robot
        if run.blends_load:  # another load counts as carried when the motion shows it
            run.has_other_load = following.added_weight(before, q).any()
            run.residuals[:] = run.scatter[:] = 0.0
        before.d.gentle = d.gentle = run.blend_duration + SETTLING
        self._use_now(following)

    def _pair(self, old: CompiledLaw, posture: Any, new: CompiledLaw) -> None:
        """Let `new` replace `old`, which keeps its set-point of the joints."""
        self._replaced, old.record.posture, new.record.other = old, posture, old.record
        new.record.replaces = True

    def _drop_replaced(self) -> None:
        """End a blend; from now on only the setup in force computes torques."""
        setup, old = self._setup, self._replaced
        setup.d.is_blended = setup.record.replaces = False
        if old is not None and old.space is not setup.space:
            old.space.close()
        self._replaced = None
        self._run.clear(one.name for one in OF_BLEND)

    # commands

    def _commanded(self, task: str | None) -> Level:
        """Return the level of a task in the settings of the last change; raise without it."""
        levels = self._latest.levels
        if task is None:
            return levels[0]
        for level in levels:
            if level.task.name == task:
                return level
        raise InputError(f"there is no task '{task}' (there are: "
                         f"{', '.join(level.task.name for level in levels)})")

    def _is_early(self, task: str | None = None) -> bool:
        """Whether a command for the settings that wait must wait with them."""
        if not self.waits:
            return False
        present, wanted = self._setup.settings, self._commanded(task).task
        # an axis that becomes one of motion stays where it is: it would drop the command
        return present.leader != self.settings.leader or (wanted.name, wanted.axes) not in (
            (one.name, one.axes) for one in present.tasks)

    def _defer(self, what: str, start: float, task: str | None, name: str, *arguments: Any
               ) -> None:
        """Store a call of the method `name` until the settings that wait come into force."""
        # It replaces those of the same kind `what` and task that begin at `start` [s] or later.
        self._deferred = [*(one for one in self._deferred
                            if one[:2] != (what, task) or one[2] < start),
                          (what, task, start, name, arguments)]

    def deferred_goal(self, task: str, goal: Array | None) -> Array | None:
        """Goal (4, 4) of the last motion that waits for its settings; `goal` if there is none."""
        for what, own, _, _, (motion, *_) in reversed(self._deferred):
            if what == 'motion' and own in (None, task):
                return motion.pose if isinstance(motion, PoseGoal) else (
                    motion.poses[-1] if isinstance(motion, Path) else None)
        return goal

    def plan(self) -> None:
        """
        Plan the motions of the targets, and reduce the gains for a longer period of the states.

        If a change of settings waits, and the one before has ended, begin it, with the commands
        that wait for it. Call this when the torque has been sent. Otherwise the next `torque` does
        it first, and takes longer; the torques are the same.

        Raises
        ------
        InputError
            A target has no motion within its limits; its previous motion continues. A command that
            has waited for its settings is impossible.

        """
        while self.advance_change():
            pass
        drafts, errors = self.drafts()
        for one in drafts:
            try:
                one.put()
            except InputError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def drafts(self, margin: float = 0.0) -> tuple[list[Draft], list[InputError]]:
        """Do the rest of `plan` after `advance_change`; return motions to plan, and errors."""
        # The caller makes and puts the plans, which are for a time `margin` [s] after the last
        # tick. First this executes the commands that have waited for a change, if that has begun;
        # the errors are those of the commands.
        errors: list[InputError] = []
        if not self.waits:
            commands, self._deferred = self._deferred, []
            for *_, name, arguments in commands:
                try:
                    getattr(self, name)(*arguments)
                except InputError as error:
                    errors.append(error)
        found = {one.of: one for setup in self._setups()
                 for one in setup.drafts(self._period_for_gains, margin)}
        return list(found.values()), errors

    def advance_change(self) -> bool:
        """End a blend that is over, or begin the change that waits; return whether one was due."""
        if self.end_blend():
            return True
        if self._waiting is None or self.is_blending:
            return False
        if self._started[0] is not self._waiting:  # states may be answered between the halves
            self._start(self._waiting)
        else:
            self._use_waiting(True)
        return True

    @property
    def defers(self) -> bool:
        """Whether commands wait for a change of settings."""
        return bool(self._deferred)

    def level(self, task: str | None = None) -> Level:
        """
        Return the state of a task in force by its name (default: first task).

        Raise for another name.

        """
        name = self._commanded(task).task.name if task is None else task
        return self.levels.get(name) or self._commanded(name)

    def follow(self, motion: Motion | ArrayLike, start: float = -math.inf,
               task: str | None = None) -> bool:
        """
        Command a motion of a task's target; motions scheduled for `start` or later are dropped.

        From `start` on the target moves to the motion without a jump, within the task's limits:
        see `SetPointGenerator`.

        Parameters
        ----------
        motion : PoseGoal, Path, TwistGoal, pose (4, 4), or point (3,)
            Motion in the base frame. A pose is a goal to move to and to hold; so is a point, for a
            task of kind 'look_at'.
        start : float
            Start on the clock of the states [s]; default: the next tick.
        task : str, optional
            Name of the task; default: the first one.

        Returns
        -------
        bool
            False if a pose is outside of the workspace box; the nearest position inside replaces
            it.

        Raises
        ------
        InputError
            A path that exceeds the speed or acceleration limits of the task's target (unless their
            `too_fast` is 'slow': then it takes longer), or leaves the workspace box; a twist of
            more than 3 times these speeds; an invalid pose; an unknown task; the position of the
            arm is unknown (no `hold`, no tick); free drive.

        """
        level = self._commanded(task)
        self._require_ready()
        limits = level.task.limits
        if math.isnan(start):
            raise InputError('start is nan: give a time [s], or none for now')
        if isinstance(motion, Path):
            motion = path_within(motion, limits)
        elif isinstance(motion, TwistGoal):
            bounded_twist(motion.twist, limits)  # refuses another unit
        else:
            motion = _hold(motion, level.task.kind)
        if self._is_early(task):
            self._defer('motion', start, task, 'follow', motion, start, task)
        else:
            level = self.level(task)
            level.generator.add(motion, start)
            level.generator.jump()
        return not isinstance(motion, PoseGoal) or limits.inside(motion.pose) is motion.pose

    def path(self, times: ArrayLike, poses: ArrayLike, task: str | None = None) -> Path:
        """
        Return a path through poses for a task, with estimated velocities.

        The path begins with the velocity of the target if the target will be at the first pose at
        the first time. See `osc_ros.control.setpoint.trajectory.path_through`.

        Parameters
        ----------
        times : (m,)
            Increasing [s], on the clock of the states.
        poses : (m, 4, 4)
            Poses in the base frame.
        task : str, optional
            Name of the task; default: the first one.

        Raises
        ------
        InputError
            See `Path`; or an unknown task.

        """
        level = self.level(task)
        start = float(np.ravel(times)[0]) if np.size(times) else 0.0
        return path_through(times, poses, level.task.limits,
                            level.generator.predicted_target(start))

    def follow_chunk(self, times: ArrayLike, poses: ArrayLike, now: float, observed_at: float,
                     joining: ChunkBlending = JOINING, task: str | None = None) -> Entry:
        """
        Command a chunk of poses of a policy; return how the target joins it.

        The target changes to the chunk without a stop: see
        `osc_ros.control.setpoint.chunks.chunk_entry`.

        Parameters
        ----------
        times : (m,)
            Times of the poses, increasing [s], on the clock of the states.
        poses : (m, 4, 4)
            Poses in the base frame.
        now : float
            Time of the newest state [s].
        observed_at : float
            Time of the observation from which the poses were predicted [s].
        joining : ChunkBlending
        task : str, optional
            Name of the task; default: the first one.

        Raises
        ------
        InputError
            All poses of the chunk are in the past; and see `follow`.

        """
        level, start = self.level(task), now + LEAD
        self._require_ready()
        entry = chunk_entry(times, poses, observed_at, level.generator.predicted_target(start),
                            start, level.task.limits, joining,
                            0.01 * self.speed_override)
        self.follow(entry.path, start, task)
        return entry

    def stop(self) -> None:
        """
        Stop all targets as fast as their limits allow; set the posture to where the joints stop.

        This does not wait; commands that wait are dropped.

        """
        self._deferred = []
        for level in self._setup.levels:
            level.generator.add(STOP, -math.inf)
        if self._setup.settings.joints is not None:
            stop_joints(self._posture, self._setup.joint_bounds)
            self._setup.put_leash(self._posture)
        else:
            last = self._tick()
            moving = np.array([self._here, self._rest if last is None else last[2],
                               self._rest])
            end = stopping_motion(moving, self._setup.joint_bounds).end
            self._move_posture(np.clip(end, *self.robot.position_limits.T))

    def set_wrench(self, wrench: ArrayLike, task: str | None = None) -> None:
        """
        Set the wrench (6,) that a task applies along its axes of force, from the next tick on.

        Parameters
        ----------
        wrench : (6,) [N·m, N]
            Wrench by the robot on the environment, at the origin of the task's link, in the axes
            of the task's frame, [moment; force]. It comes into force within `blend_time`.
        task : str, optional
            Name of the task; default: the first one.

        Raises
        ------
        InputError
            Not six finite numbers; an entry that is not 0 along an axis without force control; a
            wrench in base axes that needs more torque than the limit of a joint; an unknown task;
            the position of the arm is unknown (no `hold`, no tick); free drive.

        """
        level = self._commanded(task)
        self._require_ready()
        wanted = checked_wrench(wrench, level.task)
        self._require_torque(wanted, level.task)
        if self.waits:
            self._defer('wrench', -math.inf, task, 'set_wrench', wanted, task)
        else:
            level.wanted_wrench[:] = wanted

    def set_impedance(self, impedance: Impedance, task: str | None = None) -> None:
        """
        Change stiffness, damping ratio and feedforward wrench of a task that is a spring.

        They may change at every tick. They take effect smoothly within `change_time` of the task's
        `Stiffness`, or later, if the energy that a rising stiffness adds must first be dissipated:
        see `osc_ros.control.tasks.impedance`. They last until `hold`, or until settings with
        another `Stiffness` come into force.

        Parameters
        ----------
        impedance : Impedance
        task : str, optional
            Name of the task; default: the first one.

        Raises
        ------
        InputError
            See `Level.set_impedance`; an unknown task; the position of the arm is unknown (no
            `hold`, no tick); free drive.

        """
        level = self._commanded(task)
        self._require_ready()
        level.require_impedance(impedance)
        if self.waits:
            self._defer('impedance', -math.inf, task, 'set_impedance', impedance, task)
        else:
            level.set_impedance(impedance)

    def set_measured_wrench(self, wrench: ArrayLike, time: float, task: str | None = None) -> None:
        """
        Set the measured wrench of a task, for closed-loop force control.

        Parameters
        ----------
        wrench : (6,) [N·m, N]
            Wrench by the robot on the environment, at the origin of the link, base axes.
        time : float
            Stamp, on the clock of the states [s]. The integral of the force error pauses while
            this stamp is too old.
        task : str, optional
            Name of the task; default: the first one.

        Raises
        ------
        InputError
            Not six finite numbers; an unknown task.

        """
        self.level(task).set_measured_wrench(_wrench(wrench), time)

    def set_posture(self, q: ArrayLike) -> None:
        """
        Set the goal q (n,) of the posture, which acts in the nullspace of the tasks.

        The set-point of the posture moves there smoothly, at most at half of the velocity limits.

        Raises
        ------
        InputError
            A shape that does not fit, a position outside the joint's limits; the position of the
            arm is unknown (no `hold`, no tick); free drive, joint drive.

        """
        self._require_ready()
        goal = goal_positions(q, self.robot)
        if self._is_early():
            self._defer('posture', -math.inf, None, 'set_posture', goal)
        else:
            self._move_posture(goal)

    def _move_posture(self, goal: Array, bounds: Array | None = None, duration: float = 0.0
                      ) -> Pieces:
        """Begin a motion of the set-point of the joints to a goal (n,); return the motion."""
        posture = self._posture
        bounds = self._setup.joint_bounds if bounds is None else bounds
        goal = goal + nearest_turn(goal, posture.now, self.robot)
        start, rate = beginning(posture, bounds)
        motion = motion_to_goal(start, goal, bounds, duration)
        settings = self._setup.settings
        if settings.joints is not None:
            motion = slowed_to_effort(motion, start, bounds, settings.limits.effort,
                                      self._setup.inverse_dynamics)
        self._follow_joints(motion, rate, goal)
        return motion

    def _follow_joints(self, motion: Pieces, rate: float | None, goal: Array | None = None
                       ) -> None:
        """Begin a motion of the set-point of the joints, see `posture.beginning`."""
        begin_motion(self._posture, motion, goal, rate)
        self._setup.put_leash(self._posture)

    def move_joints(self, goal: ArrayLike, duration: float | None = None,
                    speed: ArrayLike | None = None) -> float:
        """
        Move the joints to a goal, so that all arrive together; return the duration [s].

        The duration is that at the present speed override.

        The settings must have a `JointDrive`:
        `law.change(replace(law.settings, joints=JointDrive()))`. Its bounds, and the torque
        limits, determine the shortest duration (Ruckig: jerk-limited). A new goal may come at any
        time, also in motion.

        Parameters
        ----------
        goal : (n,) [rad, m]
            NaN: this joint keeps its last goal.
        duration : float, optional
            Duration [s]. If it is too short, it is prolonged; for a long one see `follow_joints`.
        speed : float or (n,), optional
            Largest speed of the joints [rad/s, m/s]; default, and for NaN: `JointDrive.speed`. The
            velocity limits hold in any case.

        Raises
        ------
        InputError
            A shape that does not fit, a position outside the joint's limits, another number out of
            its range; no joint drive; the position of the arm is unknown.

        """
        drive = self._require_joints()
        if duration is not None and not 0.0 < duration <= LONGEST:
            raise InputError(f'duration {duration}: must be more than 0, at most {LONGEST:g}')
        wanted, fastest = self.require_joint_goal(goal, speed, self._posture.wanted)
        if duration is not None:
            require_seconds(duration, np.abs(wanted - self._posture.wanted))
        bounds = motion_bounds(self.settings.limits, drive, fastest)
        if self._is_early():
            self._defer('joints', -math.inf, None, 'move_joints', np.array(goal), duration, speed)
            return self.wait + self.lasts(motion_to_goal(
                self._at_rest, wanted, bounds, duration or 0.0).duration)
        margins = self._setup.d.limits[LOWER:UPPER + 1]
        return self.lasts(
            self._move_posture(np.clip(wanted, *margins), bounds, duration or 0.0).duration)

    def require_joint_goal(self, goal: ArrayLike, speed: ArrayLike | None, held: Array
                           ) -> tuple[Array, Array]:
        """
        Return a goal (n,), with `held` (n,) in place of NaN, and speeds; NaN without one.

        For errors see `move_joints`. This needs no state of the law.

        """
        wanted, robot = np.array(goal, dtype=np.float64), self.robot
        if wanted.shape == (robot.n,):
            wanted = np.where(np.isnan(wanted), held, wanted)
        wanted = goal_positions(wanted, robot, 'goal')
        fastest = np.array(np.nan if speed is None else speed, dtype=np.float64)
        if fastest.shape not in ((), wanted.shape) or (fastest < SLOWEST).any():
            raise InputError(f'speed {fastest.tolist()}: it must be {SLOWEST:g} or more, one '
                             f'number or {robot.n}, one for each joint')
        most = self.settings.limits.velocity
        for name, given, limit, is_prismatic in zip(
                robot.joint_names, np.broadcast_to(fastest, most.shape).tolist(), most.tolist(),
                robot.prismatic):
            require_unit(f"speed of joint '{name}'", given, limit,
                         'm/s' if is_prismatic else 'rad/s', TOO_FAST)
        return wanted, fastest

    def follow_joints(self, times: ArrayLike, positions: ArrayLike,
                      velocities: ArrayLike | None = None,
                      accelerations: ArrayLike | None = None) -> float:
        """
        Move the joints from the present set-point through points at given times; stop at the last.

        Return the duration [s]. The settings must have a `JointDrive`, see `move_joints`.

        Parameters
        ----------
        times : (m,)
            Increasing, from now on [s]. A first point at the time 0 must be the present set-point.
        positions : (m, n) [rad, m]
            NaN: this joint keeps its last goal.
        velocities, accelerations : (m, n), optional
            At the points; default: those of splines. At the last point they must be 0.

        Raises
        ------
        InputError
            Shapes that do not fit, times that do not increase, numbers that are not finite; more
            than 10 minutes at less than 1 mrad/s and 1 mm/s on average, likely milliseconds; a
            motion that leaves a position limit or exceeds a velocity limit, also between the
            points; no joint drive; the position of the arm is unknown.

        """
        self._require_joints()
        state, wanted = self.joint_set_point
        if np.shape(times) == np.shape(positions)[:1] == (1,) and (
                velocities is accelerations is None):
            [goal], [duration] = np.asarray(positions), np.asarray(times, dtype=np.float64)
            held = goal_positions(_held([goal], wanted)[0], self.robot, 'goal')
            require_seconds(duration, np.abs(held - state[0]))
            return self.reach_joints(float(duration), goal)
        motion = self.joint_path(state, wanted, times, positions, velocities, accelerations)
        require_seconds(motion.duration, np.abs(np.diff(
            _held(positions, wanted), axis=0, prepend=state[:1])).sum(axis=0))
        return self.follow_joint_path(motion)

    @property
    def joint_set_point(self) -> tuple[Array, Array]:
        """
        State (3, n) of the set-point of the joints, and their goals (n,).

        The state is that of a motion at full speed. If the joints do not lead yet, it is rest at
        the measured positions.

        """
        if self._setup.settings.joints is None:
            return self._at_rest, self._here
        return full_speed_state(self._posture), self.posture

    def joint_path(self, state: Array, wanted: Array, times: ArrayLike, positions: ArrayLike,
                   velocities: ArrayLike | None = None, accelerations: ArrayLike | None = None
                   ) -> Pieces:
        """
        Plan the motion of `follow_joints` from a state (3, n), for `follow_joint_path`.

        `wanted` (n,) are the last goals. This needs no state of the law, and any time.

        """
        rows = _held(positions, wanted)
        if rows.ndim == 2 and rows.shape[1:] == wanted.shape and len(rows):
            rows = rows + nearest_turn(rows[0], state[0], self.robot)  # shifts the path as a whole
            lower, upper = self.robot.position_limits.T
            outside = (rows < np.minimum(lower, state[0])) | (rows > np.maximum(upper, state[0]))
            for k in np.flatnonzero(outside.any(axis=1))[:1].tolist():
                goal_positions(rows[k], self.robot, f'point {k}')
        motion = joint_path(state, times, rows, *(
            None if given is None else _held(given, 0.0) for given in (velocities, accelerations)))
        require_within(motion, self.robot, self.settings.limits.velocity, state[0])
        _ = motion.later_extremes  # now, and not between two states
        return motion

    def follow_joint_path(self, motion: Pieces) -> float:
        """
        Start a motion that `joint_path` has planned; it begins at the present set-point.

        Return the duration at the present speed override [s]. For errors see `follow_joints`.

        """
        self._require_joints()
        if self._is_early():
            self._defer('joints', -math.inf, None, 'follow_joint_path', motion)
            return self.wait + self.lasts(motion.duration)
        posture = self._posture
        start, rate = beginning(posture, self._setup.joint_bounds)
        require_within(motion.begin_at(start), self.robot, self.settings.limits.velocity,
                       posture.now)
        self._follow_joints(motion, rate)
        return self.lasts(motion.duration)

    @property
    def _at_rest(self) -> Array:
        """Position, velocity and acceleration (3, n) of an arm that rests at the last state."""
        return np.array([self._here, self._rest, self._rest])

    def reach_joints(self, duration: float, goal: ArrayLike) -> float:
        """Move the joints to a goal (n,) in a duration [s]; raise if that is too short."""
        self._require_joints()
        if not 0.0 < duration <= LONGEST:
            raise InputError(f'times [{duration}]: must be more than 0, at most {LONGEST:g}')
        state, held = self.joint_set_point
        wanted = goal_positions(_held(np.asarray(goal)[None], held)[0], self.robot, 'goal')
        wanted += nearest_turn(wanted, state[0], self.robot)
        bounds = self._latest.joint_bounds.copy()
        bounds[0] = self.settings.limits.velocity
        is_early = self._is_early()
        if not is_early:
            state, rate = beginning(self._posture, bounds)
        motion = motion_to_goal(state, wanted, bounds, duration)
        if motion.duration > duration + SHORTEST:
            raise InputError(f'{TOO_SHORT} {motion.duration:.3g} s within the '
                             'limits of speed and acceleration: give that or more, and not '
                             f'{duration:g} s')
        if is_early:
            self._defer('joints', -math.inf, None, 'reach_joints', duration, goal)
            return self.wait + self.lasts(motion.duration)
        self._follow_joints(motion, rate)
        return self.lasts(motion.duration)

    def approach_joints(self, q: Array) -> JointApproach | None:
        """Way from q (n,) to the goal of the joints; None without a joint drive."""
        if self.settings.joints is None:
            return None
        posture = self._posture
        way = posture.wanted - q
        way -= posture.wraps * np.round(way / (2.0 * np.pi)) * (2.0 * np.pi)
        return JointApproach(way, np.asarray(self.robot.prismatic),
                             posture.is_moving or bool(self._deferred))

    def _require_joints(self) -> JointDrive:
        if (drive := self.settings.joints) is None:
            raise InputError('the settings have no joint drive: accepted after '
                             'law.change(replace(law.settings, joints=JointDrive()))')
        self._require_placed()
        return drive

    def _require_torque(self, wrench: Array, task: Task) -> None:
        """Raise InputError if the last posture needs more than a joint's torque for a wrench."""
        setup = self._setup
        for level, i in zip(setup.levels, setup.at):
            if level.task.name == task.name and not task.frame:
                torque = np.abs(setup.d.J[6 * i:6 * i + 6].T @ wrench)
                share = torque / setup.settings.limits.effort
                if share.max() > 1.0:
                    k = int(np.argmax(share))
                    raise InputError(
                        f'wrench {wrench.tolist()} needs a torque of {torque[k]:.3g} at '
                        f"'{setup.robot.joint_names[k]}', whose limit is "
                        f'{setup.settings.limits.effort[k]:.3g}: give at most '
                        f'{1.0 / share[k]:.2g} of it')

    def _require_ready(self) -> None:
        if self.settings.free is not None:
            raise InputError(REFUSAL)
        if self.settings.joints is not None:
            raise InputError(joint_drive.REFUSAL)
        self._require_placed()

    def _require_placed(self) -> None:
        if not self._is_placed:
            raise InputError('the law does not know where the arm is: call hold(q) before '
                             'commands, with the joint positions q')

    # changes of gravity, settings and robot; explanations of the last tick

    @property
    def gravity(self) -> Array:
        """
        Gravity minus the acceleration of the base (3,), in the base frame, in force now [m/s²].

        Gravity in force approaches a new value at GRAVITY_RATE. For a moving base, set gravity as
        often as necessary.

        Raises
        ------
        InputError
            The value is not three finite numbers, or larger than LARGEST_GRAVITY, or the arm could
            not hold its configuration in this gravity (see
            `osc_ros.control.limits.holding.require_holding`).

        """
        return np.array(self._run.gravity)

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        self.use_gravity(self.checked_gravity(
            gravity, self._here if self._is_placed else None))

    @property
    def wanted_gravity(self) -> Array:
        """Gravity (3,) that was set last, which `gravity` approaches [m/s²]."""
        return np.array(self._run.wanted_gravity)

    def checked_gravity(self, gravity: ArrayLike, q: Array | None, acts: bool = False) -> Array:
        """
        Check gravity (3,), which is slow; return it as an array for `use_gravity`.

        Parameters
        ----------
        gravity : (3,) [m/s²]
        q : (n,), optional
            Present position of the arm, which it must be able to hold; None if it is unknown.
        acts : bool
            Whether the controller is active. If it is, a large change is refused.

        Raises
        ------
        InputError
            The errors of the property `gravity`; and, while the controller is active, a gravity
            too far from the present one (`osc_ros.control.limits.holding.require_gradual`).

        """
        wanted = finite_array('gravity', gravity, (3,)).copy()
        require_gravity(wanted)
        if acts:
            require_gradual(self._run.gravity if self.has_ticked
                            else self._run.wanted_gravity, wanted)
        if q is not None:
            robot = self.robot
            if self._weight is None or self._weight[0] is not robot:
                self._weight = robot, Weight(robot)  # construction takes as long as many ticks
            require_holding(robot, wanted, q, self.settings.limits.effort,
                            (robot, self._run.wanted_gravity), self._weight[1])
        return wanted

    def use_gravity(self, gravity: Array) -> None:
        """Set a gravity (3,) from `checked_gravity` [m/s²]."""
        self._run.wanted_gravity[:] = gravity

    def __repr__(self) -> str:
        links = ', '.join(self._setup.links)
        return f'<Law of {self.robot!r}, method {self._method!r}, tasks on {links}>'

    def close(self) -> None:
        """Terminate the worker processes, if there are any."""
        for setup in self._setups():
            setup.space.close()

    def _rehearse(self) -> None:
        """Call everything once, so that all kernels are compiled before the first tick."""
        rehearse()
        joint_motion.rehearse(self.robot.n)
        impedance.carried()
        setup, rest = self._setup, self._rest
        setup.rehearse(self.posture)
        for time in (0.0, 10.0 * PAUSE):  # a pause, so that the mean period stays unknown
            self.torque(time, self.posture, rest)
        self.terms(), self.inertia(), self.predicted_and_measured()
        pose_error(self.pose, self.pose)
        LinkAxes(self.robot, setup.links[0]).at(self.posture)
        setup.settings.damping.conditioning(setup.d.J[:6])
        setup.command_model.driver_torque(self.posture, rest)
        Driver(self.robot, 'gravity').torque(self.posture, rest)
        if self.is_settled:  # compile the kernels for checkpoints
            places = Places(self.state_arrays())
            places.store(np.empty(places.size, dtype=np.int64))
        self.hold(self.posture)
        self._run.tick_time = self._observed = -math.inf

    def require_holding(self, q: ArrayLike) -> None:
        """
        Raise if the arm cannot hold itself and its payload at q (n,) in the present gravity.

        A joint may need more than the share HOLDING of its effort limit only if it would do so
        without payload and in standard gravity, too. Without a driver that adds torques, no joint
        may need more than its effort limit.

        Raises
        ------
        InputError
            See `require_holding` and `require_strength` of `osc_ros.control.limits.holding`.

        """
        robot, gravity = self.robot, self._run.wanted_gravity
        usual = gravity * min(1.0, STANDARD_GRAVITY / max(float(np.linalg.norm(gravity)), 1e-9))
        q, effort = np.asarray(q, dtype=np.float64), self.settings.limits.effort
        require_holding(robot, gravity, q, effort, (robot.without_payload(), usual))
        if self.settings.driver is None:
            require_strength(robot, gravity, q, effort)

    def change(self, settings: Settings | None = None, robot: Robot | None = None,
               q: Array | None = None) -> None:
        """
        Use other settings, or another robot with the same joints.

        The torque does not jump: for `blend_time`, or longer if the torques differ much (see
        `osc_ros.control.step.blend`), every tick computes it with the old and with the new
        settings, each within its limits, and blends the two. Tasks with the same name keep their
        targets. The activation of tasks and of single axes changes to its new value over
        `blend_time`, from 0 for a new task.

        If the change before is in progress, this one waits for its end: see `waits`.

        Parameters
        ----------
        settings : Settings, optional
        robot : Robot, optional
        q : (n,), optional
            Present position of the arm; default: that of the last tick or `hold`.

        Raises
        ------
        InputError
            The errors of the constructor; other joints; another robot although several processes
            evaluate the dynamics (a change of gravity is possible then); a robot that cannot hold
            itself at the present position, also with lowered effort limits (`require_holding`,
            `require_effort` of `osc_ros.control.limits.holding`).

        """
        self.use_setup(self.new_setup(settings, robot, q))

    def new_setup(self, settings: Settings | None = None, robot: Robot | None = None,
                  q: Array | None = None) -> CompiledLaw:
        """
        Return a `CompiledLaw` for these settings and this robot, for `use_setup`.

        This is the slow part of `change`. It does not change the law, and may run in another
        thread than the ticks. For parameters and errors see `change`.

        """
        before = self._latest
        settings = before.settings if settings is None else settings
        robot = before.robot if robot is None else robot
        accepted = 'settings, then a robot: change(settings, robot), or change(robot=robot)'
        require_type('the first argument, settings,', settings, Settings, accepted)
        require_type('the second argument, robot,', robot, Robot, accepted)
        if robot.joint_names != before.robot.joint_names:
            raise InputError(f"the other robot has the joints {', '.join(robot.joint_names)}: "
                             f"give the same, {', '.join(before.robot.joint_names)}")
        if robot is not before.robot and before.space.plan.workers > 1:
            raise InputError(f'{before.space.plan.workers} workers evaluate this robot: another '
                             'one is accepted where one does')
        has_same = np.array_equal(robot.gravity, before.robot.gravity)
        gravity = self._run.wanted_gravity.copy() if has_same else robot.gravity
        if q is not None or self._is_placed:
            here, settings = self._here if q is None else q, settings.with_limits_of(robot)
            if robot is not before.robot:
                require_holding(robot, gravity, here, settings.limits.effort,
                                (before.robot, self._run.wanted_gravity))
            require_effort(robot, here, settings.limits.effort, before.settings.limits.effort)
        return self.same_setup(settings, robot)

    def same_setup(self, settings: Settings, robot: Robot, precomputed: Precomputed = NOTHING_KNOWN
                   ) -> CompiledLaw:
        """
        Rebuild the `CompiledLaw` that `new_setup` made in another process.

        This law must be in the same state as the law of that process. With `precomputed`, the
        attribute `CompiledLaw.precomputed` of the original, this takes a third of the time.

        """
        return CompiledLaw(robot, settings.with_limits_of(robot), self._method, self._workers,
                           self._setup, precomputed)

    def use_setup(self, following: CompiledLaw, commands: bool = True) -> None:
        """
        Use a `CompiledLaw` from `new_setup`; the torques blend from the torques of the last tick.

        If an earlier change is in progress, it is shortened, and this one waits for its end. Of
        several changes that wait, only the last one is made.

        Parameters
        ----------
        following : CompiledLaw
        commands : bool
            Whether the last torque of the law was sent to the arm. If another source commands the
            arm, nothing is blended.

        """
        if following.robot is not self.robot and not np.array_equal(
                following.robot.gravity, self.robot.gravity):
            self._run.wanted_gravity[:] = following.robot.gravity
        if following.settings.leader != self.settings.leader:
            self._deferred = []  # these commands were for the settings that are replaced
        self._waiting = None
        if commands and self.is_blending and self.has_ticked:
            self._waiting = following
            if not self._run.blends_load:  # a load stays gradual
                hurry(self._run, self._setup.d.tau_fading, self._setup.settings.limits.effort)
        else:
            self._use(following, commands)

    def go_back_to(self, setup: CompiledLaw) -> None:
        """Use a previous `CompiledLaw` again at once; the caller then sets the state."""
        self._use_now(setup)
        self._drop_replaced()
        self._waiting = None

    def gain_share(self) -> float:
        """
        Smallest ratio, 0 to 1, of a natural frequency or damping rate to its set value.

        It is 1 unless a gain exceeds its bound at the measured period and delay of the states: see
        `osc_ros.control.tasks.bandwidth`. For a stiffness the bound depends on the pose.

        """
        return self._setup.gain_share()

    def terms(self) -> dict[str, Array]:
        """
        Parts (n,) of the torque of the last tick, by name [N·m]; their sum is this torque.

        'bias' is C + G; 'posture' is M q̈ₚ; 'springs' are those of a joint drive. Every task has a
        part with its name; the part of a task of higher priority includes the compensation of the
        tasks below it. 'friction' is the friction compensation, 'driver' the negative torque of
        the driver, 'free_drive' the torque of free drive, and 'disturbance' the compensation of
        model errors, if there are any.

        'limits' is the change by the limits, 'fading' the difference between the blend and the
        torque of the new settings. The parts are read from a copy of `data.LAW_D`. The step
        computes bias, posture and tasks in one pass, so this method computes the bias again.

        Raises
        ------
        InputError
            No tick since `hold`.

        """
        q, qd, _ = self.last_tick()
        setup, d = self._setup, self._setup.d.copy()
        of_tasks = {}
        for k, (level, i) in enumerate(zip(setup.levels, setup.at)):
            of_tasks[level.task.name] = d.level_F[6 * k:6 * k + 6] @ d.J[6 * i:6 * i + 6]
        if setup.m.is_guided:
            i = setup.at[0]
            of_tasks['free_drive'] = d.hand_wrench @ d.J[6 * i:6 * i + 6]
        bias = setup.inverse_dynamics(q, qd, self._rest)
        found = {'bias': bias, 'posture': d.tau_motion - bias - sum(of_tasks.values())}
        if setup.settings.joints is not None:
            found['springs'] = d.tau_springs
        found.update(of_tasks)
        if setup.settings.driver is not None:
            found['driver'] = -d.tau_driver
        if setup.settings.friction is not None:
            found['friction'] = d.tau_friction
        if setup.m.compensates:
            found['disturbance'] = d.tau_disturbance
        found['fading'] = d.tau_fading
        found['limits'] = d.tau - sum(found.values())
        return found

    def last_tick(self) -> tuple[Array, Array, Array]:
        """Return q, qd and the torque (n,) of the last tick; InputError without one."""
        if (last := self._tick()) is None:
            raise InputError('there was no tick: call torque(time, q, qd) first')
        return last[1:]

    def inertia(self) -> Array:
        """
        Λ (6, 6) of the first task's link at the last state, base axes [kg m², kg m, kg].

        Raises
        ------
        InputError
            The position of the arm is unknown (no `hold`, no tick).

        """
        self._require_placed()
        own = slice(6 * self._setup.at[0], 6 * self._setup.at[0] + 6)
        self._setup.dynamics_beside()
        found = self._setup.beside.outward(self._here, self._rest, posture_acceleration=self._rest)
        return task_inertia(found.Lambda_inv[own, own].copy())

    def predicted_and_measured(self) -> tuple[Array, Array]:
        """
        Joint accelerations predicted by the model, and measured ones (n,), (n,) [rad/s²].

        Both are for the interval between the last two ticks. They differ by unmodelled effects:
        friction, payload, contact.

        Raises
        ------
        InputError
            Fewer than two ticks since `hold`, or no time between them.

        """
        last, before = self._tick(), self._tick(1)
        if last is None or before is None or not last[0] > before[0]:
            raise InputError('there were no two ticks: call torque(time, q, qd) first')
        time, q, qd, tau = before
        measured = (last[2] - qd) / (last[0] - time)
        if self._setup.settings.driver is not None:
            tau = tau + self._setup.command_model.driver_torque(q, qd)
        # use kernels of the tick, because forward dynamics would have to be compiled only for this
        dynamics, no_force = self._setup.dynamics_beside(), np.zeros(len(self._setup.d.J))
        h, predicted = np.empty_like(tau), np.empty_like(tau)
        dynamics.outward(q, qd, None, self._rest)
        dynamics.inward(no_force, h)
        dynamics.acceleration_response(tau - h, no_force, predicted)
        return predicted, measured

    def bias_torque(self, q: Array, qd: Array) -> Array:
        """Torque C + G (n,) [N·m], for which the joint accelerations are zero."""
        return self._setup.inverse_dynamics(*self._joint_arrays(q, qd), self._rest)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """
        Torques (n,) to command for joint accelerations, minus the driver's, without limits [N·m].

        Raises
        ------
        InputError
            Shapes of the state that do not fit, a torque that is not finite.

        """
        q, qd = self._joint_arrays(q, qd)
        tau = self._setup.inverse_dynamics(q, qd, qdd)
        if self._setup.settings.driver is not None:
            tau = tau - self._setup.command_model.driver_torque(q, qd)
        if not math.isfinite(tau.dot(self._rest)):
            raise InputError(f'the torque is not finite: {tau.tolist()}')
        return tau


def _hold(motion: PoseGoal | ArrayLike, kind: Kind) -> PoseGoal:
    """Convert a goal to a `PoseGoal`: a pose (4, 4), or for some kinds of tasks a point (3,)."""
    if 'point' in kind.goals and not isinstance(motion, PoseGoal) and np.shape(motion) == (3,):
        return PoseGoal(pose(motion, NO_ROTATION))
    if not isinstance(motion, (PoseGoal, np.ndarray, list, tuple)):
        raise InputError(f'motion is of type {type(motion).__name__}: give PoseGoal, '
                         'Path, TwistGoal, or a pose (4, 4)')
    hold = motion if isinstance(motion, PoseGoal) else PoseGoal(motion)  # type: ignore[arg-type]
    T = finite_array('pose', hold.pose, (4, 4)).copy()
    require_rigid('pose', T[None])
    return PoseGoal(T, hold.arrival)


def _held(rows: ArrayLike, held: Array | float) -> Array:
    """Return rows as an array, with the values `held` in place of NaN."""
    found = np.array(rows, dtype=np.float64)
    return np.where(np.isnan(found), held, found) if found.ndim == 2 and (
        np.ndim(held) == 0 or found.shape[1] == np.size(held)) else found


def checked_wrench(wrench: ArrayLike, task: Task) -> Array:
    """Return a wrench (6,) for a task, see `Law.set_wrench`; else raise InputError."""
    wanted = _wrench(wrench)
    for k in np.flatnonzero(wanted * (1.0 - task.along('force'))).tolist():
        more = (f": make it one of force, by arm.axes({AXIS_NAMES[k]}='force'), Task.axes, or the "
                f"parameter {'translation' if k > 2 else 'rotation'}.axes"
                if task.kind.axes is None else f' for a task of kind {task.kind.name}')
        raise InputError(f"wrench {wanted.tolist()} of task '{task.name}': axis {k} is one of "
                         f'{task.axes[k]}, where it must be 0{more}')
    return wanted


def _wrench(given: ArrayLike) -> Array:
    """Return a wrench (6,) as an array; raise if it is not finite or too large."""
    wrench = np.array(given, dtype=np.float64)
    if wrench.shape != (6,) or not np.isfinite(wrench).all():
        raise InputError(f'wrench {wrench.tolist()}: must be 6 finite numbers')
    if np.abs(wrench).max() > STRONGEST:
        raise InputError(f'wrench {wrench.tolist()}: must be at most {STRONGEST:g}')
    return wrench
