# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The control cycle of a law: joint state in, joint torques out.

A tick computes in this order: outward pass (Λ⁻¹, a⁰, poses, twists); pose errors; commanded
accelerations u; forces of the tasks by priority; inward pass (τ); limits; friction compensation;
subtraction of the driver's torques; compensation of model errors; limit of the torque rate. The
limits use the factorization of the same outward pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.collision.obstacles import Obstacles
from osc_ros.control.accepted import checked_override
from osc_ros.control.blending import SetupBlending
from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.data import RUN
from osc_ros.control.disturbance_compensation import Report
from osc_ros.control.limits.limiter import Limiter
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.model_error.observer import ExternalForce
from osc_ros.control.setpoint.level import Level
from osc_ros.control.setpoint.posture import PostureSetPoint
from osc_ros.control.setpoint.set_point_generator import SetPointGenerator
from osc_ros.control.settings import Settings
from osc_ros.control.step.law_memory import LawMemory
from osc_ros.control.step.law_record import CONTROLLER, INFINITE, REFUSED
from osc_ros.control.step.step import law_torque
from osc_ros.control.tasks.task import Target
from osc_ros.dynamics.algebra.arrays import finite_array, kernel_array
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.priority.priority import Priorities
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)


class ControlCycle:
    """
    Computes the torque of a law at every tick, keeps its state, and explains the last tick.

    Attributes
    ----------
    controller : record
        CONTROLLER of `osc_ros.control.step.law_record`; `law` is that of the setup in force. An
        engine adds its supervisor.

    Parameters
    ----------
    setup : CompiledLaw
    q : (n,)
        Initial posture.

    """

    def __init__(self, setup: CompiledLaw, q: Array) -> None:
        robot = setup.robot
        self._rest = np.zeros(robot.n)
        self.controller = CONTROLLER.new()
        self._waiting: CompiledLaw | None = None  # accepted during a blend, not yet in force
        # commands that wait with it: kind, task, start, name of the method, arguments
        self._deferred: list[tuple[str, str | None, float, str, tuple[Any, ...]]] = []
        setup.start(q)
        self._run = RUN.new(n=robot.n)
        self._blending, self._compensation = SetupBlending(self._run), self._rest
        self._observed = -math.inf
        self._posture = PostureSetPoint(robot, q)
        self._leaving = PostureSetPoint(robot, q)  # of replaced settings with another leader
        self._is_placed = False  # becomes true in `hold`
        self._memory = LawMemory(self._run, robot.gravity)
        self._memory.hold(q)
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
    def _latest(self) -> CompiledLaw:
        return self._waiting or self._setup

    @property
    def waits(self) -> bool:
        """Whether the last change is not yet in force, because the one before is in progress."""
        return self._waiting is not None

    @property
    def is_blending(self) -> bool:
        """Whether a change of settings is in progress."""
        return self._blending.replaced is not None

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
        return not self.is_blending and self._setup.has_kernel

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
        """Delay from the stamp of a state to its torque [periods]; it bounds the gains."""
        return float(self._run.delay)

    @delay.setter
    def delay(self, delay: float) -> None:
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
        motion in slower time, so the way stays the same. A change takes effect smoothly, also a
        second one before the first has ended. It lasts, also beyond `hold`. A stop is as short as
        at 100 %; targets without limits jump as at 100 %. InputError for another number.

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
        return max([*(generator.left for generator in self.generators), self._posture.left])

    @property
    def posture(self) -> Array:
        """Goal (n,) of the posture, or of the joints during a joint drive."""
        return self._posture.wanted

    @property
    def joints(self) -> PostureSetPoint:
        """Set-point of the joints; only to be read."""
        return self._posture

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Whether each joint's torque was at its limit at the last tick (n,)."""
        return self._setup.limiter.saturated

    @property
    def friction_torque(self) -> Array:
        """Friction compensation (n,) of the last tick [N·m]."""
        return self._setup.friction_torque.copy()

    @property
    def external(self) -> ExternalForce | None:
        """External torques and wrench; None without `Settings.observation` or `disturbance`."""
        found = self._setup.unmodelled
        return None if found is None else found.external

    @property
    def compensation(self) -> Array:
        """Compensation (n,) of model errors at the last tick [N·m]."""
        return self._compensation

    @property
    def compensates(self) -> bool:
        """Whether torques depend on the estimate of external torques."""
        return (self._compensation is not self._rest
                or self._setup.settings.compensated is not None)

    def external_report(self) -> Report | None:
        """Return copies of `external` and `compensation`; None without an observer."""
        found = self._setup.unmodelled
        return None if found is None else found.report()

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
        if self._setup.unmodelled is not None:
            self._setup.unmodelled.forget()
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
        if (missing is not None and self._setup.unmodelled is not None
                and self._setup.settings.compensated is not None):
            self._setup.unmodelled.begin_with(
                finite_array('missing', missing, self._rest.shape))
            self._note_compensation(self._setup.unmodelled.torque)

    def hold_at(self, q: ArrayLike) -> None:
        """
        Like `hold`, but keep the estimate and the compensation of external torques.

        Raises
        ------
        InputError
            Not n finite numbers.

        """
        here = finite_array('q', q, self._rest.shape).copy()
        self._replace_by_waiting()
        self._deferred = []
        setup = self._setup
        self._blending.end(setup)
        setup.set_gravity(self._memory.gravity)
        self._blending.friction.set(setup.settings.friction)
        self._is_placed = True
        self._memory.hold(here)
        self._posture.hold(here)
        poses = setup.poses(here)
        for level, i in zip(setup.levels, setup.at):
            level.hold(poses[i])
        setup.limiter.forget()
        setup.limiter.clearance.forget()
        setup.reference.forget()
        if setup.guidance is not None:
            setup.guidance.forget()
        setup.friction_torque[:] = 0.0

    def rejoin(self, q: Array) -> None:
        """
        Continue the motions of the targets from the poses of the links at q (n,).

        A joint drive holds q.

        """
        self._replace_by_waiting()
        setup = self._setup
        if setup.settings.joints is not None:
            self._posture.hold(q)
        poses = setup.poses(q)
        for level, i in zip(setup.levels, setup.at):
            level.rejoin(poses[i])

    def observe(self, time: float, q: Array, qd: Array, tau: Array | None = None,
                effort: Array | None = None) -> None:
        """
        Advance the estimate of the external torques to a state, if the settings have an observer.

        `torque` does this itself, with its last torque, for a state for which `observe` was not
        called. Call it before `torque` if other torques than those of the law may have been sent,
        if the efforts are measured, or while another source than the law drives the arm.

        Parameters
        ----------
        time : float [s]
        q, qd : (n,)
        tau : (n,), optional [N·m, N]
            Torque sent since the last state; default: the last torque of the law.
        effort : (n,), optional [N·m, N]
            Measured torque, used according to `Observation.efforts`.

        """
        found = self._setup.unmodelled
        if found is not None and time != self._observed:
            self._observed = time
            found.observe(time, q, qd, self._memory.torque if tau is None else tau, effort)

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
                level.jump(time)
        if self._setup.asks or self.waits:
            self.plan()
        tau = np.empty(len(q))
        count = int(law_torque(self._setup.record, time, q, qd, tau))
        self.require(count, q, qd)
        self.note(count)
        self.end_blend()
        return tau

    def require(self, count: int, q: Array, qd: Array) -> None:
        """Raise the error for a state, if `count`, returned by `law_torque`, is an error code."""
        if count == INFINITE:
            raise InputError('the torque is not finite')
        if count == REFUSED:
            failed = [one for one in self._setups() if one.failure is not None]
            (failed or [self._setup])[0].refuse(q, qd)

    @property
    def is_placed(self) -> bool:
        """Whether the position of the arm is known: `hold` was called, or there was a tick."""
        return self._is_placed

    def state_arrays(self) -> tuple[NDArray[Any], ...]:
        """
        Return the arrays on which the next torques depend, beside `remembered`.

        With the same numbers in them, another law of the same settings computes the same torques.

        """
        found, blending = self._setup.unmodelled, self._blending
        arrays = (*self._setup.state_arrays(), self._posture.record.slots,
                  *(() if found is None else found.state_arrays), self._run.slots)
        if blending.replaced is None:
            return arrays
        arrays += *blending.replaced.state_arrays(), blending.posture.record.slots
        return tuple({id(one): one for one in arrays}.values())  # the setups may share some

    @property
    def generators(self) -> list[SetPointGenerator]:
        """
        Set-point generators of all targets, each once.

        During a change of settings, the old and the new settings may share them.

        """
        return list({id(level.generator): level.generator for setup in self._setups()
                     for level in setup.levels}.values())

    @property
    def remembered(self) -> tuple[Any, ...]:
        """State for the next torques that is not in `state_arrays`; set those arrays first."""
        return (self._observed, self._is_placed, self._compensation is not self._rest,
                tuple(generator.motions for generator in self.generators),
                tuple(posture.motion for posture in self._postures()),
                self.obstacles.named, tuple(self._deferred))

    @remembered.setter
    def remembered(self, values: tuple[Any, ...]) -> None:
        (self._observed, self._is_placed, compensates, motions, of_joints, obstacles,
         deferred) = values
        self._deferred = list(deferred)
        self.obstacles.named = obstacles
        for generator, one in zip(self.generators, motions, strict=True):
            generator.motions = one
        for posture, motion in zip(self._postures(), of_joints, strict=True):
            posture.use_motion(motion)
        self._find_compensation(self._setup)
        if not compensates:
            self._compensation = self._rest

    def note(self, solves: int) -> None:
        """Record that torques were computed for a state, and the number of solves."""
        setup = self._setup
        setup.solver.note(solves)
        self._find_compensation(setup)

    def _find_compensation(self, setup: CompiledLaw) -> None:
        found = setup.unmodelled
        self._compensation = (self._rest if found is None or found.compensation is None
                              else found.torque)

    def end_blend(self) -> None:
        """End a change of settings if the torques for the old ones have the weight 0."""
        self._blending.end_if_over(self._setup)

    def plan(self) -> None:
        """Plan the motions of the targets; see `CommandedCycle.plan`."""
        for setup in reversed(self._setups()):
            setup.plan(self._memory.period_for_gains)

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
        """Store the compensation (n,) of this tick; the limits of the next torques include it."""
        self._compensation = torque
        for setup in self._setups():
            setup.limiter.added[:] = torque

    def _setups(self) -> tuple[CompiledLaw, ...]:
        """Return the `CompiledLaw` that is being replaced, if any, and the one in force."""
        replaced = self._blending.replaced
        return (self._setup,) if replaced is None else (replaced, self._setup)

    def _postures(self) -> tuple[PostureSetPoint, ...]:
        """Return the set-points of the joints, in the order of `_setups`."""
        replaced = self._blending.replaced
        return (self._posture,) if replaced is None else (self._blending.posture, self._posture)

    def _hand_over(self, following: CompiledLaw, q: Array) -> None:
        """
        Pass the estimate and the compensation of external torques to the next `CompiledLaw`.

        The next robot model computes a part of the compensation.

        """
        before = self._setup
        if following.unmodelled is not None and before.unmodelled is not None:
            following.unmodelled.go_on_from(before.unmodelled)
            if following.robot is not before.robot:
                following.unmodelled.leave_to_model(following.added_weight(before, q))
        self._find_compensation(following)

    def _prepare(self, following: CompiledLaw, q: Array) -> None:
        """Prepare a `CompiledLaw` to continue from the state of the one in force, at q (n,)."""
        before = self._setup
        following.join(self._run, self._posture)
        following.reference.go_on_as(before.reference)
        following.set_gravity(self._memory.gravity)
        self._hand_over(following, q)
        following.limiter.added[:] = self._compensation
        if self._memory.period_for_gains > following.longest_period:
            following.limit_gains(self._memory.period_for_gains)

    def _replace(self, following: CompiledLaw) -> None:
        """Use a `CompiledLaw` at once, because another source than the law commands the arm."""
        before = self._setup
        self._blending.end(before)
        if following.settings.leader != before.settings.leader:
            self._posture.hold(self._memory.q.copy())
        self._posture.pause_beyond(*following.joint_pausing(self._posture.motion))
        self._prepare(following, self._memory.q)
        self._blending.friction.set(following.settings.friction)
        if following.space is not before.space:
            before.space.close()
        self._use_now(following)

    def _use(self, following: CompiledLaw, commands: bool) -> None:
        """Blend to a `CompiledLaw`; at once, if no torque of the law was sent to the arm."""
        last = self._memory.tick()
        following.start(self._memory.q, None if last is None else last[2], self._setup)
        if last is None or not commands:
            self._replace(following)
        else:
            self._take_over(following, *last)

    def _begin_waiting(self) -> None:
        """Begin the change that waits, if the one before has ended."""
        if self._waiting is not None and not self.is_blending:
            self._use_waiting(self._waiting, True)

    def _replace_by_waiting(self) -> None:
        """Use the settings that wait at once, because another source commands the arm."""
        if self._waiting is not None:
            self._use_waiting(self._waiting, False)

    def _use_waiting(self, following: CompiledLaw, commands: bool) -> None:
        try:  # until the end it waits: other threads read the settings of the last change
            self._use(following, commands)
        finally:
            self._waiting = None

    def _take_over(self, following: CompiledLaw, time: float, q: Array, qd: Array, tau: Array
                   ) -> None:
        """Start to blend from tau (n,), the torques of the last tick, to the torques of a law."""
        before, posture = self._setup, self._posture
        if following.settings.leader != before.settings.leader:
            posture = self._leaving
            posture.take(self._posture)
            if before.settings.joints is not None:
                posture.stop(before.joint_bounds)
            if following.settings.free is None:
                self._posture.start_from(q, qd, following.joint_bounds)
            else:  # a posture in motion would step the torques of free drive
                self._posture.hold(q.copy())
        self._posture.pause_beyond(*following.joint_pausing(self._posture.motion))
        compensation = before.limiter.added.copy()
        self._prepare(following, q)
        now = following.limiter.added
        self._blending.begin(before, posture, following, time, q, qd, tau - now,
                             compensation - now)
        self._use_now(following)
