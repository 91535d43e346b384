# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands to a law: goals, paths, twists, wrenches, impedance, measured wrenches, postures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control import joint_drive
from osc_ros.control.accepted import bounded_twist, require_seconds, require_unit
from osc_ros.control.cycle import ControlCycle
from osc_ros.control.joint_drive import JointDrive, motion_bounds
from osc_ros.control.limits.limits import LOWER, UPPER
from osc_ros.control.setpoint.arrival import JointApproach
from osc_ros.control.setpoint.chunks import chunk_entry, ChunkBlending, Entry, JOINING, LEAD
from osc_ros.control.setpoint.joint_motion import (
    joint_path,
    JointMotion,
    require_within,
    SHORTEST,
    slowed_to_effort,
)
from osc_ros.control.setpoint.level import Level
from osc_ros.control.setpoint.posture import goal_positions, nearest_turn
from osc_ros.control.setpoint.set_point_generator import Motion, STOP, TwistGoal
from osc_ros.control.setpoint.trajectory import Path, PoseGoal, require_rigid
from osc_ros.control.setpoint.waypoints import path_through, path_within
from osc_ros.control.tasks.free import REFUSAL
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.tasks.kind import Kind
from osc_ros.control.tasks.task import AXIS_NAMES, NO_ROTATION, pose, Task
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.errors import InputError

Array = NDArray[np.float64]

STRONGEST = 1e5  # largest accepted entry of a wrench [N·m, N]
SLOWEST = 1e-4  # least speed of a motion of the joints [rad/s, m/s]
TOO_FAST = 2.0  # a speed of more times the limit is likely in another unit
TOO_SHORT = 'the motion takes at least'  # an error of `follow_joints`
LONGEST = 1e6  # longest accepted duration of a motion of the joints [s]


class CommandedCycle(ControlCycle):
    """
    Commands to the tasks and the posture of a law.

    A command takes effect at the next tick. Before `hold` or the first tick the position of the
    arm is unknown, and commands raise. While a change of settings waits (`waits`), commands are
    checked for these settings; those that the present settings cannot execute wait, too. If one of
    them turns out to be impossible, `plan` raises.

    """

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
        """
        Execute a command, a call of the method `name`, when the settings that wait are in force.

        It replaces those of the same kind `what` and task that begin at `start` [s] or later.

        """
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
        self._begin_waiting()
        errors = []
        if not self.waits:
            commands, self._deferred = self._deferred, []
            for *_, name, arguments in commands:
                try:
                    getattr(self, name)(*arguments)
                except InputError as error:
                    errors.append(error)
        super().plan()
        if errors:
            raise errors[0]

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
            level.jump()
        return not isinstance(motion, PoseGoal) or limits.inside(motion.pose) is motion.pose

    def path(self, times: ArrayLike, poses: ArrayLike, task: str | None = None) -> Path:
        """
        Return a path through poses for a task, with estimated velocities.

        The path begins with the velocity of the target if the target will be at the first pose at
        the first time. See `osc_ros.control.setpoint.waypoints.path_through`.

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

        The target does not stop before the chunk: see
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
            self._posture.stop(self._setup.joint_bounds)
            self._posture.pause_beyond(*self._setup.joint_pausing(self._posture.motion))
        else:
            last = self._memory.tick()
            moving = np.array([self._memory.q, self._rest if last is None else last[2],
                               self._rest])
            end = JointMotion.to_goal(moving, None, self._setup.joint_bounds).end
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
        see `osc_ros.control.tasks.impedance`. They last until `hold`, or until a change to
        settings with another `Stiffness`.

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
                      ) -> JointMotion:
        """Begin a motion of the set-point of the joints to a goal (n,); return the motion."""
        posture = self._posture
        bounds = self._setup.joint_bounds if bounds is None else bounds
        goal = goal + nearest_turn(goal, posture.now, self.robot)
        start = posture.slowed_state(bounds)
        motion = JointMotion.to_goal(start, goal, bounds, duration)
        settings = self._setup.settings
        if settings.joints is not None:
            motion = slowed_to_effort(motion, start, bounds, settings.limits.effort,
                                      self._setup.inverse_dynamics)
        self._follow_joints(motion, goal)
        return motion

    def _follow_joints(self, motion: JointMotion, goal: Array | None = None) -> None:
        """Begin a motion of the set-point of the joints."""
        self._posture.follow(motion, goal)
        self._posture.pause_beyond(*self._setup.joint_pausing(motion))

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
            Duration [s]; a shorter one than possible is prolonged; for a long one see
            `follow_joints`.
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
            return self._blending.left + self.lasts(JointMotion.to_goal(
                self._at_rest, wanted, bounds, duration or 0.0).duration)
        margins = self._setup.limiter.table[LOWER:UPPER + 1]
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
            At the points; default: those of splines. The last ones must be 0.

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

        It is the state as at full speed. If the joints do not lead yet, it is the measured
        positions, at rest.

        """
        if self._setup.settings.joints is None:
            return self._at_rest, self._memory.q.copy()
        return self._posture.full_speed_state, self._posture.wanted

    def joint_path(self, state: Array, wanted: Array, times: ArrayLike, positions: ArrayLike,
                   velocities: ArrayLike | None = None, accelerations: ArrayLike | None = None
                   ) -> JointMotion:
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

    def follow_joint_path(self, motion: JointMotion) -> float:
        """
        Begin a motion from `joint_path` now, from the state that the set-point has now.

        Return the duration at the present speed override [s]. For errors see `follow_joints`.

        """
        self._require_joints()
        if self._is_early():
            self._defer('joints', -math.inf, None, 'follow_joint_path', motion)
            return self._blending.left + self.lasts(motion.duration)
        posture = self._posture
        start = posture.slowed_state(self._setup.joint_bounds)
        require_within(motion.begin_at(start), self.robot, self.settings.limits.velocity,
                       posture.now)
        self._follow_joints(motion)
        return self.lasts(motion.duration)

    @property
    def _at_rest(self) -> Array:
        """Position, velocity and acceleration (3, n) of an arm that rests at the last state."""
        return np.array([self._memory.q, self._rest, self._rest])

    def reach_joints(self, duration: float, goal: ArrayLike) -> float:
        """Move the joints to a goal (n,) in a duration [s]; raise if that is too short."""
        self._require_joints()
        if not 0.0 < duration <= LONGEST:
            raise InputError(f'times [{duration}]: must be more than 0, at most {LONGEST:g}')
        state, held = self.joint_set_point
        wanted = goal_positions(_held(np.asarray(goal)[None], held)[0], self.robot, 'goal')
        wanted += nearest_turn(wanted, state[0], self.robot)
        bounds = self._latest.joint_bounds
        bounds[0] = self.settings.limits.velocity
        is_early = self._is_early()
        state = state if is_early else self._posture.slowed_state(bounds)
        motion = JointMotion.to_goal(state, wanted, bounds, duration)
        if motion.duration > duration + SHORTEST:
            raise InputError(f'{TOO_SHORT} {motion.duration:.3g} s within the '
                             'limits of speed and acceleration: give that or more, and not '
                             f'{duration:g} s')
        if is_early:
            self._defer('joints', -math.inf, None, 'reach_joints', duration, goal)
            return self._blending.left + self.lasts(motion.duration)
        self._follow_joints(motion)
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
                torque = np.abs(setup.J[6 * i:6 * i + 6].T @ wrench)
                share = torque / setup.settings.limits.effort
                if share[k := int(np.argmax(share))] > 1.0:
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
    """Return a wrench (6,) for a task, see `CommandedCycle.set_wrench`; else raise InputError."""
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
