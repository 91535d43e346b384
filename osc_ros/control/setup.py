# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torque of posture and tasks for one robot and one choice of settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.bandwidth import largest_push, longest_period
from osc_ros.control.command_model import CommandModel
from osc_ros.control.compiled_tick import compiled_tick, Kernel, UNBLENDED, UNCHECKED
from osc_ros.control.feedback import task_forces
from osc_ros.control.free import Guidance, guidance_of
from osc_ros.control.friction import least_inertia
from osc_ros.control.level import Level
from osc_ros.control.limiter import Limiter
from osc_ros.control.posture import posture_acceleration, PostureSetPoint
from osc_ros.control.reference import NO_REFERENCE, Reference
from osc_ros.control.settings import Settings
from osc_ros.control.task import Task
from osc_ros.control.task_numbers import TASK_WIDTH, TURNS_WITH
from osc_ros.control.task_reference import PLAN, put_references, put_wrenches, STATE
from osc_ros.control.unmodelled import Unmodelled
from osc_ros.dynamics.kinematics import LinkAxes
from osc_ros.dynamics.method import DONE
from osc_ros.dynamics.methods import ONE_TIP
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.priority import Priorities
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

SOFTENING = 1e-3  # of the mean mobility: bounds the feedback torque near singularities
PERIOD_CHANGE = 0.01  # relative change of the mean period from which gains are computed again


class Precomputed(NamedTuple):
    """
    Parts of a setup that take as long to compute as many ticks; None if they are not needed.

    Attributes
    ----------
    least_inertia : (n,), optional
        See `osc_ros.control.friction.least_inertia`.
    compensation : (4, n), optional
        See `osc_ros.control.disturbance.Disturbance.limits`.

    """

    least_inertia: Array | None = None
    compensation: Array | None = None


NOTHING_KNOWN = Precomputed()


class Setup:
    """
    Everything that the law computes with, for one robot and one choice of settings.

    A change of robot or settings needs a new setup.

    Attributes
    ----------
    robot : Robot
    settings : Settings
    links : tuple of str
        Links of the tasks.
    at : list of int
        Index of each task's link in `links`.
    space : OperationalSpace
        Dynamics of the robot at these links; `dynamics` is its method, which the ticks use.
    command_model : CommandModel
        Gives the torques for given joint accelerations.
    solver : Priorities
    limiter : Limiter
    levels : list of Level
        State of the tasks, from `start` on.
    J : (6 m, n)
        Jacobian of the last tick.
    least_inertia : (n,), optional
        See `osc_ros.control.friction.least_inertia`; None without friction.
    unmodelled : Unmodelled, optional
        Observer and compensation of external torques, if the settings have them.
    longest_period : float
        Longest period of the states at which all gains are stable as they are set [s].
    posture_gains : tuple of 3 float
        Gains in force now: natural frequency, rate, repulsion [rad/s, 1/s, rad/s].
    guidance : Guidance, optional
        The free drive, if `settings.free` is given; from `start` on.
    """

    def __init__(self, robot: Robot, settings: Settings, method: str, workers: int | str,
                 before: Setup | None = None, known: Precomputed = NOTHING_KNOWN) -> None:
        self.settings = settings
        self.robot = robot
        if len(robot.tips) > 1 and not any(task.link for task in settings.tasks):
            raise InputError('the robot has several tips, ' + ', '.join(robot.tips) + ', and no '
                             'task names a link: accepted are tasks for the others beside '
                             f"'{robot.tip}', which is that of a task without")
        links = [task.link or robot.tip for task in settings.tasks]
        self.links = tuple(dict.fromkeys(links))
        self.at = [self.links.index(link) for link in links]
        if before is not None and before.robot is robot and before.links == self.links:
            space = before.space
        else:
            space = self._space(method, workers)
        self.space: OperationalSpace = space
        self.dynamics = self.space.dynamics
        self.command_model = self._command_model(before)
        self.solver = Priorities(self.at, len(self.links), robot.n)
        self.limiter = Limiter(self.dynamics, settings.limits, settings.blend_time)
        self.least_inertia = known.least_inertia
        if self.least_inertia is None and before is not None and before.robot is robot:
            self.least_inertia = before.least_inertia
        if self.least_inertia is None and settings.friction is not None:
            self.least_inertia = least_inertia(robot)
        self.unmodelled = self._unmodelled(before, known)
        self.J = np.zeros((6 * len(self.links), robot.n))
        self._frames = [self._frame(task) for task in settings.tasks]
        self._rows, self._plans, self._states = (
            np.zeros((len(settings.tasks), size))
            for size in (TASK_WIDTH, PLAN.size(0), STATE.size(0)))
        self._rest = np.zeros(robot.n)
        self._poses = self.dynamics.pose.reshape(-1, 4, 4)
        damping = settings.damping
        thresholds = damping.length, damping.low, damping.high
        # arguments of the kernels: the arrays stay the same
        self._forces_given = (
            *self.solver.arrays, self._rows, self._poses, self.dynamics.twist, self.J,
            self.dynamics.Lambda_inv, self.dynamics.a0, *thresholds)
        self._kernel: Kernel | None = None
        self._has_force = any('force' in task.axes for task in settings.tasks)
        if not self._has_force and (found := compiled_tick(self.dynamics)) is not None:
            self._kernel, arrays = found
            self._given = (*arrays, *self.limiter.records, self.limiter.buffer,
                           *self.solver.arrays, self._rows, self.J, *thresholds)
        self.levels: list[Level] = []

    @property
    def known(self) -> Precomputed:
        """What another setup of the same robot and settings need not compute again."""
        found = None if self.unmodelled is None else self.unmodelled.compensation
        return Precomputed(self.least_inertia, None if found is None else found.limits)

    def _command_model(self, before: Setup | None) -> CommandModel:
        """The model of another setup, if it is of the same robot and driver, or a new one."""
        robot, driver = self.robot, self.settings.driver
        if before is not None and (before.robot, before.settings.driver) == (robot, driver):
            return before.command_model
        return CommandModel(robot, driver)

    def _unmodelled(self, before: Setup | None, known: Precomputed) -> Unmodelled | None:
        """Observer and compensation; None if the settings have none, and none fades out."""
        settings, old = self.settings, None if before is None else before.unmodelled
        is_fading = old is not None and bool(old.torque.any())
        if settings.observation or settings.disturbance or is_fading:
            return Unmodelled(self.robot, settings, old, known.compensation)
        return None

    def _space(self, method: str, workers: int | str) -> OperationalSpace:
        several = len(self.links) > 1
        return OperationalSpace(self.robot, None if several and method in ONE_TIP else method,
                                tips=self.links, workers=1 if several else workers)

    def _frame(self, task: Task) -> LinkAxes | int | None:
        """Frame of a task: index of a task's link, axes of another link, or None for the base."""
        if not task.frame:
            return None
        if task.frame in self.links:
            return self.links.index(task.frame)
        return LinkAxes(self.robot, task.frame)

    def start(self, q: Array, before: Setup | None = None) -> None:
        """
        Begin at q (n,), or go on from the state of another setup.

        This is quick. The construction is not; it may run in another thread than the ticks.

        """
        poses = self.poses(q)
        self.guidance = guidance_of(self.settings, self.robot)
        old = {} if before is None else {level.task.name: level for level in before.levels}
        self.levels = [
            Level(task, self.settings.blend_time, poses[link], rows, old.get(task.name),
                  before is not None)
            for task, link, rows in zip(self.settings.tasks, self.at,
                                        zip(self._rows, self.solver.rows, self._plans,
                                            self._states))]
        if before is not None and (self.settings.free is None) != (before.settings.free is None):
            for level in self.levels:
                if level.task.name in old:
                    level.coast(old[level.task.name].twist, np.zeros(6)
                                if before.guidance is None else before.guidance.acceleration)
        for level, frame, row in zip(self.levels, self._frames, self._rows):
            level.axes[:] = np.eye(3)
            row[TURNS_WITH] = frame if isinstance(frame, int) else -1
        self._turning = [(level, frame) for level, frame in zip(self.levels, self._frames)
                         if isinstance(frame, LinkAxes)]
        self.reference = Reference(self.levels, self.dynamics, self.solver, self.J,
                                   self.limiter.table, self.inverse_dynamics)
        self._find_bandwidth()
        # no torques are added to those of posture and tasks, which one compiled call computes
        self._is_alone = (
            self._kernel is not None and self.guidance is None and self.settings.driver is None
            and (self.unmodelled is None or self.unmodelled.compensation is None))
        if before is not None:
            if self.least_inertia is None:  # the previous friction compensation fades out
                self.least_inertia = before.least_inertia
            self.limiter.go_on_from(before.limiter)
            self._take_tool(before)

    def poses(self, q: Array) -> Array:
        """Poses (m, 4, 4) of the links at q (n,); valid until the dynamics are used again."""
        return self.space.outward(q, self._rest, posture_acceleration=self._rest
                                  ).pose.reshape(-1, 4, 4)

    def _find_bandwidth(self) -> None:
        """Find the longest period of the states at which all gains are stable as set [s]."""
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
        Reduce the gains to the largest stable ones for this period of the states [s].

        So a period that is longer than configured, or a gain that is too high, costs accuracy and
        not stability. Up to `longest_period` all gains are as they are set.

        """
        if abs(period - self.softened_for) <= PERIOD_CHANGE * period:
            return
        self.softened_for = period
        for level in self.levels:
            level.soften(period)
        if self.guidance is not None:
            self.guidance.soften(period)
        frequency, rate, push = self._posture_set
        self.posture_share = share = min(1.0, self._posture_period / period)
        frequency, rate = share * frequency, share * rate
        self.posture_gains = frequency, rate, min(push, largest_push(rate, frequency, period))
        if push > 0.0:
            self.posture_share = min(share, self.posture_gains[2] / push)

    def gain_share(self) -> float:
        """Smallest ratio of a natural frequency or damping rate in force to its set value."""
        W = self.dynamics.Lambda_inv
        return min(self.posture_share, *(
            level.gain_share(W[6 * i:6 * i + 6, 6 * i:6 * i + 6])
            for level, i in zip(self.levels, self.at)))

    def _take_tool(self, before: Setup) -> None:
        """If the tip's frame has moved on its body (a new tool), move the targets of the tip."""
        old, new = (robot.frames[robot.tip] for robot in (before.robot, self.robot))
        if old[0] == new[0] and not np.array_equal(old[1], new[1]):
            for level in self.levels:
                if not level.task.link:
                    level.carry(np.linalg.inv(old[1]) @ new[1])

    def set_gravity(self, gravity: Array) -> None:
        """Set gravity (3,) [m/s²] in the method; limits and driver's model read it there."""
        self.dynamics.gravity[:] = gravity
        self.command_model.set_gravity(gravity)
        if self.unmodelled is not None:
            self.unmodelled.observer.gravity[:] = gravity

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Joint torques M q̈ + C + G (n,) [N·m]; NaN where the state is not accepted."""
        return self.dynamics.inverse_dynamics(q, qd, qdd)

    def driver_torque(self, q: Array, qd: Array) -> Array:
        """Torques (n,) [N·m] that the driver adds at a state; the settings must have a driver."""
        assert self.settings.driver is not None
        return self.settings.driver.torque(q, qd, self.dynamics.gravity)

    def put_posture_acceleration(self, q: Array, qd: Array, posture: PostureSetPoint,
                                 qdd: Array) -> None:
        """Write the acceleration (n,) towards the posture and out of the soft zones [rad/s²]."""
        posture_acceleration(q, qd, posture.now, posture.wraps, self.limiter.table,
                             *self.posture_gains, qdd)

    def torque(self, time: float, q: Array, qd: Array, posture: PostureSetPoint,
               has_friction: bool = False, other: tuple[float, Array] = UNBLENDED) -> Array:
        """
        Torques (n,) [N·m] of posture and tasks at a state, within all limits except rates.

        With friction compensation, the reference motion advances, too.

        Parameters
        ----------
        time : float
            Stamp of the state [s].
        q, qd : (n,)
        posture : PostureSetPoint
        has_friction : bool
            Whether friction will be compensated.
        other : (float, (n,)), optional
            Weight of the torques of another setup before the limits, and these torques [N·m].

        Raises
        ------
        InputError
            A state that is not finite, or too large.

        """
        self.set_targets(time, q)
        if self.guidance is not None:
            twist = self.J[6 * self.at[0]:6 * self.at[0] + 6] @ qd  # with the last Jacobian
            self.posture_gains = (0.0, self.guidance.damping_rate(qd, twist),
                                  self.posture_gains[2])
        tau = np.empty(len(q))
        reference = self.reference
        dt = reference.since(time)
        is_compiled = self._kernel is not None and self.guidance is None
        if is_compiled:
            solves = self._kernel(  # type: ignore[misc]
                *self._given, reference.numbers if has_friction else NO_REFERENCE, dt,
                posture.now, posture.wraps, *self.posture_gains, *other, *UNCHECKED, time,
                q, qd, tau)
        else:
            solves = self._torque(time, q, qd, posture, tau)
        if solves < 0:
            self._refuse(q, qd)
        if has_friction:
            if not is_compiled:
                reference.advance(dt, solves, q, qd, posture, self.posture_gains)
            reference.note(time)
        self.solver.note(solves, self.settings.damping.length)
        if not is_compiled:
            self._limit(time, q, qd, tau, *other)
        return tau

    @property
    def is_alone(self) -> bool:
        """Whether the next torques will be those of posture and tasks, if no limit is reached."""
        return (self._is_alone and self.limiter.is_out_of_the_way
                and all(level.impedance is None for level in self.levels))

    @property
    def rests(self) -> bool:
        """Whether `set_targets` will change nothing at the next tick."""
        return not self._turning and all(level.rests for level in self.levels)

    def checked_torque(self, posture: PostureSetPoint, known: Array, times: Array
                       ) -> Callable[[float, Array, Array, Array], int]:
        """
        Return a function (time, q, qd, tau) that writes the torques of a state to tau (n,).

        It returns a negative number if state or torques need a closer look. Call it for one state
        of which `is_alone` was true, after `set_targets`; known and times are those of
        `osc_ros.control.compiled_tick.chain_torque`.

        """
        assert self._kernel is not None  # since `is_alone`
        return partial(self._kernel, *self._given, NO_REFERENCE, 0.0, posture.now, posture.wraps,
                       *self.posture_gains, *UNBLENDED, known, times)

    def _torque(self, time: float, q: Array, qd: Array, posture: PostureSetPoint,
                tau: Array) -> int:
        """Compute `torque` in several compiled calls; return the number of solves, or -1."""
        dynamics, accelerations, F = self.dynamics, self.limiter.accelerations, self.solver.F
        self.put_posture_acceleration(q, qd, posture, accelerations[3])
        if dynamics.outward(q, qd, None, accelerations[3]) != DONE:
            return -1
        if self._has_force:
            self._put_wrenches(len(self.levels), time)
        dynamics.jacobian(self.J)
        solves = task_forces(*self._forces_given)
        dynamics.inward(F, tau)
        return int(solves)

    def _guided(self, guidance: Guidance) -> Array:
        """Torques (n,) of damper and walls of a free drive; adds them to `accelerations`."""
        level, dynamics = self.levels[0], self.dynamics
        own = slice(6 * self.at[0], 6 * self.at[0] + 6)
        wrench = guidance.put_wrench(level.pose, level.twist, np.ascontiguousarray(
            dynamics.Lambda_inv[own, own]), level.axes)
        self.solver.F[own] += wrench
        guidance.acceleration = dynamics.a0[own] + dynamics.Lambda_inv[own] @ self.solver.F
        return np.asarray(wrench @ self.J[own])

    def compensation(self, time: float, tau: Array, is_held: bool, friction: Array
                     ) -> Array | None:
        """
        Torques (n,) [N·m] that make up for what the model lacks; None if nothing does.

        Call it after `torque`.

        Parameters
        ----------
        time : float [s]
        tau : (n,) [N·m]
            Torques of the motors without it.
        is_held : bool
            Whether a contact is known; ignored while every torque counts as load.
        friction : (n,)
            Friction compensation in tau [N·m].

        """
        unmodelled = self.unmodelled
        if unmodelled is None or unmodelled.compensation is None:
            return None
        is_held = (is_held and not unmodelled.compensation.takes_all_for_load
                   or unmodelled.integrates and self.limiter.is_at_work
                   or any(level.guide.waits for level in self.levels))
        known = None if self.settings.friction is None or self.guidance is not None else friction
        feedback = self._feedback_torque() if unmodelled.integrates else None
        return unmodelled.advance(time, tau, self.levels[0], is_held, feedback, known)

    def _feedback_torque(self) -> Array:
        """Torques (n,) Jᵀ Λ u of the motion of the first task [N·m]."""
        level, own = self.levels[0], slice(6 * self.at[0], 6 * self.at[0] + 6)
        R, moves = level.axes, level.moves.reshape(2, 3)
        u = ((moves * (level.u.reshape(2, 3) @ R)) @ R.T).ravel()
        W = self.dynamics.Lambda_inv[own, own]
        W = W + SOFTENING * np.trace(W) / 6.0 * np.eye(6)
        return np.asarray(self.J[own].T @ np.linalg.solve(W, u))

    def _limit(self, time: float, q: Array, qd: Array, tau: Array, weight: float, other: Array
               ) -> None:
        """Add a free drive and the torques of another setup to tau (n,), and limit the sum."""
        if self.guidance is not None:
            tau += self._guided(self.guidance)
        more = weight * (other - tau) if weight > 0.0 else self._rest
        self.dynamics.acceleration_response(more, self.solver.F, self.limiter.accelerations[0])
        tau += more
        self.limiter.torque_within(time, q, qd, tau, self.solver, self.settings.damping.length)

    def rehearse(self, q: Array, posture: PostureSetPoint) -> None:
        """Run the steps of a tick once, so that their kernels are compiled."""
        rest = self._rest
        self._put_references(0, 0.0)
        self._put_wrenches(0, 0.0)
        solves = self._torque(0.0, q, rest, posture, rest.copy())
        self.reference.advance(0.0, solves, q, rest, posture, self.posture_gains)
        self.limiter.rehearse()
        self.inverse_dynamics(q, rest, rest)
        self.solver.note(solves, self.settings.damping.length)
        _ = self.solver.ratios

    def set_targets(self, time: float, q: Array) -> None:
        """Advance the targets and frames of the tasks to a time [s], at q (n,)."""
        is_changing = False
        for level in self.levels:
            level.set_target(time)
            is_changing = is_changing or level.is_changing
        if is_changing:
            self._put_references(len(self.levels), time)
        for level, frame in self._turning:
            level.axes[:] = frame.at(q)[:3, :3]

    def _put_references(self, count: int, time: float) -> None:
        """Advance activations and impedances of the first tasks to a time [s]."""
        put_references(self.solver.arrays[0], self._plans[:count], self._states, self._rows,
                       self.solver.rows, self.dynamics.Lambda_inv, self.reference.rates, time,
                       self.softened_for)

    def _put_wrenches(self, count: int, time: float) -> None:
        """Advance the wrenches of the first tasks to a time [s], after `outward`."""
        put_wrenches(self._plans[:count], self._states, self._rows, self.solver.rows, self._poses,
                     time, self.limiter.is_at_work)

    def _refuse(self, q: Array, qd: Array) -> None:
        self.space.outward(q, qd, posture_acceleration=self.limiter.accelerations[3])
        raise InputError('the motion of the links is not finite')
