# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The setup of a law: models, state and torques for one robot and one choice of settings."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import Obstacles
from osc_ros.compile.compiled import on_demand, plain
from osc_ros.control.data import LAW_D, LAW_M, RUN
from osc_ros.control.joint_drive import JointDrive, motion_bounds, Springs
from osc_ros.control.limits.clearance import KeepingClear
from osc_ros.control.limits.limits import payload_ratio
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.model_error.disturbance import Compensation, Disturbance, yielding_axes
from osc_ros.control.model_error.friction import least_inertia
from osc_ros.control.model_error.observer import MomentumObserver
from osc_ros.control.setpoint.level import Level
from osc_ros.control.setpoint.motion import put_targets
from osc_ros.control.setpoint.posture import CALM, posture_acceleration
from osc_ros.control.setpoint.set_point_generator import Draft
from osc_ros.control.settings import Observation, Settings
from osc_ros.control.step.entries import entries
from osc_ros.control.step.evaluate import put_axes, put_gravity
from osc_ros.control.step.law_record import LAW, UNCOMPENSATED, UNOBSERVED
from osc_ros.control.step.limit import count_fading, Limiter
from osc_ros.control.step.reference import feedback_rates, put_at_rest
from osc_ros.control.step.stages import use_method
from osc_ros.control.step.step import setup_torque
from osc_ros.control.tasks.bandwidth import (
    largest_repulsion_frequency,
    longest_period,
    PERIOD_CHANGE,
    stretch,
)
from osc_ros.control.tasks.free import limit_dampers, put_free_drive
from osc_ros.control.tasks.task import Task
from osc_ros.dynamics.algebra.kinematics import LinkAxes
from osc_ros.dynamics.contract.method import Method
from osc_ros.dynamics.methods import ONE_TIP
from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.priority.priority import Priorities, put_singularity
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]


class Precomputed(NamedTuple):
    """Parts of a `CompiledLaw` that take as long as many ticks to compute; None: not needed."""

    least_inertia: Array | None = None  # (n,), see `friction.least_inertia`
    compensation: Array | None = None  # (5, n), see `Disturbance.limits`
    fading: Disturbance | None = None  # of a compensation that fades out, if the setup has none


NOTHING_KNOWN = Precomputed()
NO_DRIVE = JointDrive()  # whose numbers bound motions of the joints without a joint drive


class CompiledLaw:
    """All objects and memory of a law for one robot and one choice of settings: a setup."""

    @on_demand(locks=False)  # compile what a law calls, and no more
    def __init__(self, robot: Robot, settings: Settings, method: str, workers: int | str,
                 before: CompiledLaw | None = None, precomputed: Precomputed = NOTHING_KNOWN
                 ) -> None:
        self.settings, self.robot, self._rest = settings, robot, np.zeros(robot.n)
        if len(robot.tips) > 1 and not any(task.link for task in settings.tasks):
            raise InputError('the robot has several tips, ' + ', '.join(robot.tips) + ', and no '
                             'task names a link: give tasks for the others beside '
                             f"'{robot.tip}', which is that of a task without")
        links = [task.link or robot.tip for task in settings.tasks]
        self.links = tuple(dict.fromkeys(links))  # of the tasks
        self.at = [self.links.index(link) for link in links]  # of each task's link
        if before is not None and before.robot is robot and before.links == self.links:
            space, beside = before.space, before.beside
        else:
            space, beside = self._space(method, workers), self._space(method, 1)
        self.space: OperationalSpace = space  # dynamics at the links, in the memory of a tick
        self.beside: OperationalSpace = beside  # with memory of its own, for calls beside a tick
        self.command_model, self.bare_model = self._command_models(before)
        sizes = {'n': robot.n, 'k': len(self.at), 'm': len(self.links)}
        self.m, self.d = LAW_M.new(**sizes), LAW_D.new(**sizes)
        self.solver = Priorities(self.at, len(self.links), robot.n, (self.m, self.d))
        obstacles = Obstacles() if before is None else before.limiter.clearance.obstacles
        self.limiter: Limiter = Limiter(
            robot, settings.limits, settings.blend_time,
            self.m, self.d, settings.free is not None,
            settings.joints is not None, KeepingClear(robot, settings.clearance, obstacles))
        put_singularity(self.m, settings.damping)
        self.m.has_force = any('force' in task.axes for task in settings.tasks)
        self._put_least_inertia(before, precomputed)
        if (friction := settings.friction) is not None:
            self.m.compensates_friction, self.m.sliding = True, friction.velocity
            self.m.friction[:] = friction.coulomb, friction.viscous
        self.observation = settings.observation or Observation()
        self.observer, self.compensation = self._model_errors(before, precomputed)
        self.m.observes = self.observer is not None
        self.m.compensates = self.compensation is not None
        frames = [self._frame(task) for task in settings.tasks]
        self.m.turns_with[:] = [one if isinstance(one, int) else -1 for one in frames]
        for i, frame in enumerate(frames):
            if isinstance(frame, LinkAxes):
                count = self.m.frame_count[i] = len(frame.turns)
                self.m.frame_rotations[i, :count] = frame.rotations.reshape(count, 9)
                self.m.frame_turns[i, :count] = frame.turns
                self.m.frame_places[i, :count] = frame.places
        # state of the tasks; `start` initializes them
        self.levels = [Level(task, self.m, self.d, i) for i, task in enumerate(self._tasks)]
        if settings.free is not None:
            put_free_drive(settings.free, robot, settings.tasks[0].limits.box, self.m, self.d)
        self.d.feedback_rates[:] = [feedback_rates(level) for level in self.levels]
        put_at_rest(self.d)
        self._find_bandwidth()
        self._refer()
        for record in self.m, self.d:  # a record makes each view on its first use
            dict(record.items())
        _ = self.joint_bounds, self.precomputed  # now: the loop waits for `start` and what follows

    def _refer(self) -> None:
        """Create the record from which kernels read robot, settings and state of this setup."""
        self.record = law = LAW.new()
        self._of_python = use_method(law, self.space.dynamics)
        law.setup_torque, law.law_torque = entries()
        law.m, law.d, law.model = self.m, self.d, self.command_model.record
        law.bare = self.bare_model.record
        law.clearance = self.limiter.clearance.record
        law.observer = UNOBSERVED if self.observer is None else self.observer.record
        law.compensation = (UNCOMPENSATED if self.compensation is None else
                            self.compensation.record)

    def join(self, run: Any, posture: Any) -> None:
        """Compute with the records RUN and SET_POINT of a law from now on."""
        self.record.run, self.record.posture = run, posture

    @property
    def failure(self) -> BaseException | None:
        """Exception of the method at the last torques, if the method is not compiled."""
        return None if self._of_python is None else self._of_python.failure

    def _put_least_inertia(self, before: CompiledLaw | None, precomputed: Precomputed) -> None:
        """Copy the least inertia from `before`, or compute it for a friction compensation."""
        found = precomputed.least_inertia
        if found is None and before is not None and before.robot is self.robot:
            found = before.least_inertia
        drive = self.settings.joints
        if found is None and (self.settings.friction is not None
                              or drive is not None and drive.stiffness is not None):
            found = least_inertia(self.robot)
        if found is not None:
            self.d.least_inertia[:] = found

    @property
    def _tasks(self) -> tuple[Task, ...]:
        """Tasks of the settings; during a joint drive they give no forces."""
        drive = self.settings.joints
        return self.settings.tasks if drive is None else drive.tasks(self.settings.tasks)

    @property
    def _springs(self) -> Springs | None:
        """Springs of the joints as set; None without them."""
        drive = self.settings.joints
        return None if drive is None else drive.springs(self.d.least_inertia)

    @cached_property
    def joint_bounds(self) -> Array:
        """Bounds (3, n) of planned motions of the joints, see `joint_drive.motion_bounds`."""
        return motion_bounds(self.settings.limits, self.settings.joints or NO_DRIVE)

    def put_leash(self, posture: Any) -> None:
        """Write the lag at which the motion of a record SET_POINT pauses, and `calm`."""
        # A motion never pauses if there is no joint drive. It does not pause for a joint whose
        # motion begins beyond a position limit: the joint cannot follow until the motion is back
        # within the limits, so the motion must go on.
        drive, (lower, upper) = self.settings.joints or NO_DRIVE, self.robot.position_limits.T
        least, most = posture.extremes
        posture.calm, posture.leash[:] = CALM * drive.ramp, np.where(
            (least < lower) | (most > upper) | (drive is NO_DRIVE), 0.0, drive.leash)

    @property
    def least_inertia(self) -> Array | None:
        """Least inertia (n,) of each joint, see `friction.least_inertia`; None: not computed."""
        return self.d.least_inertia.copy() if self.d.least_inertia.any() else None

    @cached_property
    def precomputed(self) -> Precomputed:
        """Results that another `CompiledLaw` of the same robot and settings can use."""
        found = self.compensation
        if found is None:
            return Precomputed(self.least_inertia)
        fades = self.settings.compensated is None
        return Precomputed(self.least_inertia, found.limits, found.settings if fades else None)

    def _command_models(self, before: CompiledLaw | None) -> tuple[CommandModel, CommandModel]:
        """Models with and without the payload: those of `before` if robot and driver are equal."""
        robot, driver = self.robot, self.settings.driver
        if before is not None and (before.robot, before.settings.driver) == (robot, driver):
            return before.command_model, before.bare_model
        model = CommandModel(robot, driver)
        return model, (CommandModel(robot.without_payload(), driver) if robot.payload_mass
                       else model)

    def _model_errors(self, before: CompiledLaw | None, precomputed: Precomputed
                      ) -> tuple[MomentumObserver | None, Compensation | None]:
        """Observer and compensation of external torques; None if not set, and none fades out."""
        settings, robot, wanted = self.settings, self.robot, self.observation
        old = None if before is None else before.compensation
        fades = precomputed.fading or old is not None and old.torque.any()
        if not (settings.observation or settings.compensated or fades):
            return None, None
        observer = MomentumObserver(
            robot, wanted.bandwidth, settings.tasks[0].link or None, settings.friction,
            settings.driver, wanted.efforts == 'measured', settings.damping)
        observer.record.uses_efforts = wanted.efforts != 'commanded'
        others = None if before is None else before.observer
        if others is not None and observer.has_model_of(others):
            observer = others
        chosen = settings.compensated or precomputed.fading or (
            None if old is None else old.settings)
        if chosen is None:
            return observer, None
        is_same = old is not None and others is not None and (
            others.robot is robot and chosen == old.settings)
        found = Compensation(
            robot, chosen, old.limits if old is not None and is_same else precomputed.compensation,
            yielding_axes(settings.tasks[0]),
            settings.friction is not None and settings.free is None)
        found.record.is_active = settings.compensated is not None
        return observer, found

    @property
    def compensating(self) -> Array:
        """Compensation (n,) of model errors in force [N·m, N]."""
        return self._rest if self.compensation is None else self.compensation.torque

    def _space(self, method: str, workers: int | str) -> OperationalSpace:
        several = len(self.links) > 1
        return OperationalSpace(self.robot, None if several and method in ONE_TIP else method,
                                tips=self.links, workers=1 if several else workers)

    def _frame(self, task: Task) -> LinkAxes | int | None:
        """Axes of a task: index in `links`; `LinkAxes` of a link without a task; None: base."""
        if not task.frame:
            return None
        if task.frame in self.links:
            return self.links.index(task.frame)
        return LinkAxes(self.robot, task.frame)

    def start(self, q: Array, qd: Array | None = None, before: CompiledLaw | None = None) -> None:
        """Initialize the tasks at q, qd (n,), or continue from the state of `before`."""
        # This call is quick. The constructor is slow, and may run in another thread than the
        # ticks.
        found = self.space.outward(q, self._rest if qd is None else qd,
                                   posture_acceleration=self._rest)
        poses, twists = found.pose.reshape(-1, 4, 4), found.twist.reshape(-1, 6).copy()
        old = {} if before is None else {level.task.name: level for level in before.levels}
        coasts = before is not None and self.settings.leader != before.settings.leader
        for level, link in zip(self.levels, self.at):
            level.start(poses[link], old.get(level.task.name), before is not None, coasts)
        if before is not None and coasts:
            for level, link in zip(self.levels, self.at):
                level.coast(twists[link], before.d.hand_acceleration, before.levels[0].generator)
        self.limiter.clearance.forget()
        if before is not None:
            self._take_tool(before)

    def poses(self, q: Array) -> Array:
        """Poses (m, 4, 4) of the links at q (n,); valid until the next use of the dynamics."""
        return self.space.outward(q, self._rest, posture_acceleration=self._rest
                                  ).pose.reshape(-1, 4, 4)

    @property
    def _posture_gains(self) -> tuple[float, float, float]:
        """Natural frequency and damping rate of the posture, frequency of the push; as set."""
        drive, push = self.settings.joints, float(self.settings.limits.repulsion)
        posture = self.settings.posture
        if drive is not None:  # a goal in a soft zone is a goal
            posture, push = drive.posture(self.robot), 0.0
        frequency = float(posture.natural_frequency)
        rate = float(max(2.0 * posture.damping_ratio * frequency, posture.damping))
        return frequency, rate, push

    def _find_bandwidth(self) -> None:
        """Compute the longest period of the states at which all gains are stable as set [s]."""
        gains = self._posture_gains
        self.d.posture_frequency, self.d.posture_rate, self.d.push_frequency = gains
        periods = [longest_period(*gains), *(level.longest_period for level in self.levels)]
        if (springs := self._springs) is not None:
            self.d.joint_stiffness[:], self.d.joint_damping[:] = springs.within(0.0)
            periods.append(springs.longest_period)
        self.m.period_stretch = stretch(payload_ratio(self.robot))
        self.m.longest_period = min(periods) / self.m.period_stretch
        self.d.gain_period = 0.0

    def limit_gains(self, period: float) -> None:
        """Reduce the gains to the largest stable ones for this period of the states [s]."""
        # So a longer period than configured, a gain that is too high, or a payload that the arm
        # may not carry, costs accuracy but not stability. Up to `longest_period` all gains stay as
        # set.
        if abs(period - self.d.gain_period) <= PERIOD_CHANGE * period:
            return
        self.d.gain_period = period
        period *= self.m.period_stretch
        for level in self.levels:
            level.limit_gains(period)
        if self.m.is_guided:
            limit_dampers(self.d, period)
        if (springs := self._springs) is not None:
            self.d.joint_stiffness[:], self.d.joint_damping[:] = springs.within(period)
        frequency, rate, push = self._posture_gains
        share = min(1.0, longest_period(frequency, rate) / period)
        frequency, rate = share * frequency, share * rate
        self.d.posture_frequency, self.d.posture_rate, self.d.push_frequency = (
            frequency, rate, min(push, largest_repulsion_frequency(rate, frequency, period)))

    def gain_share(self) -> float:
        """Smallest ratio of a natural frequency or damping rate in force to its set value."""
        W = self.space.dynamics.Lambda_inv
        d = self.d
        in_force = d.posture_frequency, d.posture_rate, d.push_frequency
        shares = [now / wanted for now, wanted in zip(in_force, self._posture_gains)
                  if wanted > 0.0]
        if (springs := self._springs) is not None:
            is_spring = springs.stiffness > 0.0
            shares += np.sqrt(d.joint_stiffness[is_spring] / springs.stiffness[is_spring]
                              ).tolist()
        shares += [level.gain_share(W[6 * i:6 * i + 6, 6 * i:6 * i + 6])
                   for level, i in zip(self.levels, self.at)]
        return float(min(shares))

    def drafts(self, period: float, margin: float) -> list[Draft]:
        """Reduce the gains if the states' period [s] is too long; return motions to plan."""
        # The plans are for a time `margin` [s] after the last tick.
        if max(period, self.d.gain_period) > self.m.longest_period:
            self.limit_gains(period)
        return [one for level in self.levels if (one := level.generator.draft(margin)) is not None]

    def _take_tool(self, before: CompiledLaw) -> None:
        """Move the targets of the tip if a new tool has moved the tip's frame on its body."""
        if before.robot is self.robot:
            return
        old, new = (robot.frames[robot.tip] for robot in (before.robot, self.robot))
        if old[0] == new[0] and not np.array_equal(old[1], new[1]):
            for level in self.levels:
                if not level.task.link:
                    level.carry(np.linalg.inv(old[1]) @ new[1])

    def set_gravity(self, gravity: Array) -> None:
        """Write gravity (3,) [m/s²] to all models of the setup."""
        plain(put_gravity)(self.record, gravity)

    def inverse_dynamics(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Joint torques M q̈ + C + G (n,) [N·m]; NaN where the state is not accepted."""
        return self.dynamics_beside().inverse_dynamics(q, qd, qdd)

    def dynamics_beside(self) -> Method:
        """Dynamics in the present gravity, which a tick does not use; for one call at a time."""
        dynamics = self.beside.dynamics
        dynamics.gravity[:] = self.space.dynamics.gravity
        return dynamics

    def added_weight(self, before: CompiledLaw, q: Array) -> Array:
        """Gravity torques (n,) of this model at q (n,), minus those of `before` [N·m]."""
        rest = self._rest
        if self.robot is before.robot:
            return rest
        return self.inverse_dynamics(q, rest, rest) - before.inverse_dynamics(q, rest, rest)

    def torque(self, time: float, q: Array, qd: Array) -> int:
        """Write the parts of the torque for a state to `d`, within all limits except rates."""
        # The reference motion of friction compensation advances, too. `time` is the stamp of the
        # state [s]. Return COMPUTED, or REFUSED: the state, or the motion of the links, is not
        # finite.
        self.d.time, self.d.q[:], self.d.qd[:] = time, q, qd
        put_targets(self.m, self.d, 1.0)
        put_axes(self.m, self.d)
        return int(setup_torque(self.record))

    @property
    def has_kernel(self) -> bool:
        """Whether one compiled call computes the torques without the interpreter."""
        return self._of_python is None

    def state_arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays with the results of a tick, and with the state for the next tick."""
        of_tips = self.space.dynamics
        return (of_tips.pose, of_tips.twist, of_tips.Lambda_inv, of_tips.a0, self.d.slots,
                *self.limiter.clearance.state_arrays,
                *(record.slots for level in self.levels for record in level.generator.records))

    def rehearse(self, q: Array) -> None:
        """Run the steps of a tick once, to compile their kernels."""
        rest, own, kept = self._rest, self.record.run, self.m.compensates_friction
        self.record.run = RUN.new(n=self.robot.n)
        self.space.dynamics.inverse_mass_matrix(np.empty((self.robot.n, self.robot.n)))
        count_fading(self.d, False)
        if not self.has_kernel:  # to compile the functions for friction, too
            self.m.compensates_friction = True
        self.torque(0.0, q, rest)
        self.record.run, self.m.compensates_friction = own, kept
        put_at_rest(self.d)
        self.limiter.forget()
        self.inverse_dynamics(q, rest, rest)
        _ = self.solver.ratios

    def refuse(self, q: Array, qd: Array) -> None:
        """Raise the error for a state (n,), (n,) for which `torque` returns REFUSED."""
        if self.failure is not None:
            raise self.failure
        # of this state again, because a reaction to the refusal overwrites that of the tick
        posture_acceleration(self.m, self.d, self.record.posture, qd, self.d.qdd_posture)
        self.space.outward(q, qd, posture_acceleration=self.d.qdd_posture)
        raise InputError('the motion of the links is not finite')
