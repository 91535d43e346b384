# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The law for users: construction, changes of robot, settings and gravity, diagnosis."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.checkpoint import LawRecipe
from osc_ros.control.compiled_law import CompiledLaw, NOTHING_KNOWN, Precomputed
from osc_ros.control.goals import CommandedCycle
from osc_ros.control.limits.holding import (
    require_gradual,
    require_gravity,
    require_holding,
    require_strength,
)
from osc_ros.control.limits.load import Weight
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.setpoint import joint_motion
from osc_ros.control.setpoint.set_point_generator import rehearse, SetPointGenerator
from osc_ros.control.settings import Settings
from osc_ros.control.step.law_memory import PAUSE
from osc_ros.control.step.places import Copies, load, Places
from osc_ros.control.tasks import impedance
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.freedoms import require_single_freedoms
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.dynamics.algebra.kinematics import LinkAxes
from osc_ros.dynamics.algebra.task_inertia import task_inertia
from osc_ros.errors import InputError, require_type
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

STANDARD_GRAVITY = 9.81  # [m/s²]
MOST = 32  # largest number of tasks in a `LawRecipe`


class Law(CommandedCycle):
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

    The posture is part of τ⁰. It acts in the dynamically consistent nullspace of all tasks, and
    also in directions in which a task is singular. After `hold` the arm holds its present pose.
    Attributes describe the last tick: `pose`, `twist`, `error`, `u`, `F`, `target` of the first
    task, `saturated` of the joints.

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
        super().__init__(CompiledLaw(robot, settings.with_limits_of(robot), method, workers), q)
        self.hold(q)
        self._rehearse()
        self._is_placed = False  # until `hold` or the first tick

    @property
    def recipe(self) -> LawRecipe:
        """Data to construct an equal law, see `of_recipe`."""
        setups, generators = self._setups(), self.generators
        waiting = () if self._waiting is None else (self._waiting,)
        return LawRecipe(
            self._method, self._setup.space.plan.workers,
            tuple((one.settings, one.robot, one.precomputed) for one in (*setups, *waiting)),
            tuple(tuple(generators.index(level.generator) for level in one.levels)
                  for one in setups))

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
                CommandedCycle.__init__(law, setup, np.zeros(robot.n))
            else:  # like `_take_over`
                setup.start(np.zeros(robot.n))
                is_same = settings.leader == before.settings.leader
                setup.join(law._run, law._posture)
                law._blending.replace(before, law._posture if is_same else law._leaving, setup)
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
        return self._memory.gravity.copy()

    @gravity.setter
    def gravity(self, gravity: ArrayLike) -> None:
        self.use_gravity(self.checked_gravity(
            gravity, self._memory.q if self._is_placed else None))

    def checked_gravity(self, gravity: ArrayLike, q: Array | None, acts: bool = False) -> Array:
        """
        Check gravity (3,), the slow part of setting it; return an array for `use_gravity`.

        Parameters
        ----------
        gravity : (3,) [m/s²]
        q : (n,), optional
            Present position of the arm, which it must be able to hold; None if it is unknown.
        acts : bool
            Whether the controller is active; a large change is then refused.

        Raises
        ------
        InputError
            The errors of the property `gravity`; and, while the controller is active, another one
            than that in force (`osc_ros.control.limits.holding.require_gradual`).

        """
        wanted = finite_array('gravity', gravity, (3,)).copy()
        require_gravity(wanted)
        if acts:
            require_gradual(self._memory.gravity if self.has_ticked
                            else self._memory.gravity_wanted, wanted)
        if q is not None:
            robot = self.robot
            if self._weight is None or self._weight[0] is not robot:
                self._weight = robot, Weight(robot)  # construction takes as long as many ticks
            require_holding(robot, wanted, q, self.settings.limits.effort,
                            (robot, self._memory.gravity_wanted), self._weight[1])
        return wanted

    def use_gravity(self, gravity: Array) -> None:
        """Set a gravity (3,) from `checked_gravity` [m/s²]."""
        self._memory.gravity_wanted[:] = gravity

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
        setup.settings.damping.conditioning(setup.J[:6])
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

        The payload, and gravity above the standard one, may not be the reason that a joint needs
        more than the share HOLDING of its effort limit. Without a driver that adds torques, no
        joint may need more than its effort limit.

        Raises
        ------
        InputError
            See `require_holding` and `require_strength` of `osc_ros.control.limits.holding`.

        """
        robot, gravity = self.robot, self._memory.gravity_wanted
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
        `osc_ros.control.step.blend.Blend`), every tick computes it with the old and with the new
        settings, each within its limits, and blends the two. Tasks with the same name keep their
        targets. The activation of tasks and of single axes changes to its new value over
        `blend_time`, from 0 for a new task.

        A change that comes before the last one has ended waits for its end, see `waits`.

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
            itself at the present position (`osc_ros.control.limits.holding.require_holding`).

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
        gravity = self._memory.gravity_wanted.copy() if has_same else robot.gravity
        if robot is not before.robot and (q is not None or self._is_placed):
            require_holding(robot, gravity, self._memory.q if q is None else q,
                            settings.limits.effort, (before.robot, self._memory.gravity_wanted))
        return self.same_setup(settings, robot)

    def same_setup(self, settings: Settings, robot: Robot, precomputed: Precomputed = NOTHING_KNOWN
                   ) -> CompiledLaw:
        """
        Rebuild the `CompiledLaw` that `new_setup` made in another process.

        The law must be in the same state as the law there. With `precomputed`, the attribute
        `CompiledLaw.precomputed` of the original, this takes a third of the time.

        """
        return CompiledLaw(robot, settings.with_limits_of(robot), self._method, self._workers,
                           self._setup, precomputed)

    def use_setup(self, following: CompiledLaw, commands: bool = True) -> None:
        """
        Use a `CompiledLaw` from `new_setup`; the torques blend from the torques of the last tick.

        If an earlier change is still in progress, this one waits for its end, which is hastened;
        of several that wait, the last one counts.

        Parameters
        ----------
        following : CompiledLaw
        commands : bool
            Whether the last torque of the law was sent to the arm. If another source commands the
            arm, nothing is blended.

        """
        if not np.array_equal(following.robot.gravity, self.robot.gravity):
            self._memory.gravity_wanted[:] = following.robot.gravity
        if following.settings.leader != self.settings.leader:
            self._deferred = []  # these commands were for the settings that are replaced
        self._waiting = None
        if commands and self.is_blending and self.has_ticked:
            self._waiting = following
            self._blending.hurry(self._setup)
        else:
            self._use(following, commands)

    def go_back_to(self, setup: CompiledLaw) -> None:
        """Use a previous `CompiledLaw` again at once; the caller then sets the state."""
        self._blending.end(setup)
        self._waiting = None
        self._use_now(setup)

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
        'limits' is the change by the limits, 'fading' is the difference of the blend to the torque
        of the new settings.

        Raises
        ------
        InputError
            No tick since `hold`.

        """
        q, qd, tau = self.last_tick()
        setup = self._setup
        to_posture = setup.posture_acceleration(q, qd, self._posture)
        bias = setup.inverse_dynamics(q, qd, self._rest)
        found = {'bias': bias, 'posture': setup.inverse_dynamics(q, qd, to_posture) - bias}
        if setup.settings.joints is not None:
            found['springs'] = setup.springs
        for k, (level, i) in enumerate(zip(setup.levels, setup.at)):
            F = setup.solver.forces[6 * k:6 * k + 6]
            found[level.task.name] = setup.J[6 * i:6 * i + 6].T @ F
        if setup.guidance is not None:
            i = setup.at[0]
            found['free_drive'] = setup.guidance.wrench @ setup.J[6 * i:6 * i + 6]
        if setup.settings.driver is not None:
            found['driver'] = -setup.command_model.driver_torque(q, qd)
        if not self._blending.friction.is_none:
            found['friction'] = self.friction_torque
        found['fading'] = self._blending.difference
        found['limits'] = tau - sum(found.values())
        if self._compensation is not self._rest:
            found['disturbance'] = self._compensation.copy()
            found['limits'] = found['limits'] - self._compensation
        return found

    def last_tick(self) -> tuple[Array, Array, Array]:
        """Return q, qd and the torque (n,) of the last tick; InputError without one."""
        if (last := self._memory.tick()) is None:
            raise InputError('there was no tick: call torque(time, q, qd) first')
        return last[1:]

    def inertia(self) -> Array:
        """
        Λ (6, 6) of the first task's link at the last tick, base axes [kg m², kg m, kg].

        Raises
        ------
        InputError
            No tick since `hold`.

        """
        q, qd, _ = self.last_tick()
        own = slice(6 * self._setup.at[0], 6 * self._setup.at[0] + 6)
        self._setup.dynamics_beside()
        found = self._setup.beside.outward(q, qd, posture_acceleration=self._rest)
        return task_inertia(found.Lambda_inv[own, own].copy())

    def predicted_and_measured(self) -> tuple[Array, Array]:
        """
        Joint accelerations predicted by the model, and measured ones (n,), (n,) [rad/s²].

        They are for the interval between the last two ticks. They differ by unmodelled effects:
        friction, payload, contact.

        Raises
        ------
        InputError
            Fewer than two ticks since `hold`, or no time between them.

        """
        last, before = self._memory.tick(), self._memory.tick(1)
        if last is None or before is None or not last[0] > before[0]:
            raise InputError('there were no two ticks: call torque(time, q, qd) first')
        time, q, qd, tau = before
        measured = (last[2] - qd) / (last[0] - time)
        if self._setup.settings.driver is not None:
            tau = tau + self._setup.command_model.driver_torque(q, qd)
        # use kernels of the tick, because forward dynamics would have to be compiled only for this
        dynamics, no_force = self._setup.dynamics_beside(), np.zeros(len(self._setup.J))
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
