# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Functions that a ROS node or a client calls on an engine between two states.

The first argument of every function is the engine. The other arguments and the results can be
pickled, because the engine may run in another process. Each function takes less than a period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import NEW, Obstacle
from osc_ros.control.reasons import Figures, figures_of
from osc_ros.control.safety.supervision import HARMLESS, STALE_TARGET
from osc_ros.control.setpoint.arrival import Approach, JointApproach
from osc_ros.control.setpoint.pieces import Pieces
from osc_ros.control.setpoint.set_point_generator import Motion, TwistGoal
from osc_ros.control.setpoint.stamps import require_timely, SOON, start_of
from osc_ros.control.setpoint.trajectory import Path, PoseGoal
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.errors import InputError
from osc_ros.loop.cycle import ACTIVE, Stamp
from osc_ros.loop.engine import Engine
from osc_ros.loop.journal import Journal, journaled, Piece
from osc_ros.loop.rest_check import Finding
from osc_ros.loop.statistics import Window

Array = NDArray[np.float64]


class Timing(NamedTuple):
    """Copies of an engine's timing statistics, see `osc_ros.loop.statistics.Counts`."""

    updates: Window
    periods: Window
    ages: Window
    missed: int
    refused: int
    refusal: str
    state_age: float  # [s]
    torque_use: float  # largest of all joints


@dataclass(frozen=True, eq=False)
class Status:
    """State of a law and of its supervisor."""

    mode: str  # IDLE, ACTIVE or ENDING, see `Engine`
    text: str  # see `Engine.state`
    reaction: str  # of the supervisor
    counts: dict[str, int]  # number of times that each cause began
    figures: Figures  # compared by the rules of `osc_ros.control.reasons`
    shares: Array  # (2,) fractions of the accelerations of tasks and posture within the limits
    rate_share: float  # fraction of the change of the torque within the rate limits
    friction_use: float  # largest compensation of friction, relative to the effort limits
    disturbance_use: float  # largest compensation of unmodelled torques, likewise
    impedance: str  # of the first task: 'parameters', or `VariableImpedance.source`
    tank: float  # energy in the tank of a commanded impedance; NaN without a command [J]
    wait: float  # time until the last change of settings comes into force, see `Law.wait` [s]


class Progress(NamedTuple):
    """Time and stamp of the newest state, and the approach of every task to its goal."""

    time: float  # [s]
    stamp: Stamp
    approaches: dict[str, Approach]
    joints: JointApproach | None  # in a joint drive, in which the tasks have no goals


class JointProgress(NamedTuple):
    """State of a joint drive."""

    time: float  # [s]
    q: Array  # (n,) measured positions
    qd: Array  # (n,) measured velocities
    desired: Array  # (3, n): position, velocity and acceleration of the set-point
    wraps: Array  # (n,): 1 for continuous joints
    is_moving: bool  # whether a motion of the set-point is in progress

    def way(self) -> Array:
        """Way (n,) of each joint to its set-point; of a continuous joint, the shorter way."""
        way = self.desired[0] - self.q
        return np.asarray(way - self.wraps * np.round(way / (2.0 * np.pi)) * (2.0 * np.pi))


# modes and causes


def leave(engine: Engine) -> None:
    """Send the idle command as the last one, and stop sending commands."""
    engine.leave()


@journaled
def hold(engine: Engine) -> None:
    """Stop all targets, so that the arm holds its pose."""
    _require_active(engine)
    engine.law.stop()
    engine.guard.reset_timeout(STALE_TARGET, math.inf)


@journaled
def release(engine: Engine) -> tuple[bool, str]:
    """End latched reactions whose causes are gone; return whether all have ended, and a text."""
    guard = engine.guard
    if engine.mode != ACTIVE and guard.runaway:
        guard.release()
        return True, 'released: the next activation is accepted'
    if engine.mode != ACTIVE:
        return False, 'not active: there is nothing to release'
    held_by, had_estimates = '' if guard.reaction in HARMLESS else guard.cause, guard.has_estimates
    guard.release()
    if guard.reaction not in HARMLESS:
        return False, f"not released, the cause is still there: {guard.acting().text('')}"
    if held_by:
        return True, f'released from {held_by}: the law controls the arm again'
    if had_estimates:
        return True, 'released: measured velocities are used again, and checked'
    return True, 'there is nothing to release: the law controls the arm'


@journaled
def set_present(engine: Engine, causes: Mapping[str, str]) -> None:
    """Set the causes that are present from now on, each with its reason."""
    engine.guard.set_present(causes)


def learn_contact(engine: Engine, duration: float) -> None:
    """Learn contact thresholds from the motions of the next `duration` seconds."""
    _require_active(engine)
    if engine.guard.reaction not in HARMLESS:
        raise InputError(f'the law does not control the arm: {engine.state()}')
    if engine.law.external is None:
        raise InputError('there is no observer of external torques')
    if engine.law.settings.free is not None:
        raise InputError('free drive is on, and the hand would count: end it first')
    engine.learn_contact(duration)


# commands


@journaled
def follow(engine: Engine, motion: Motion, stamp: float, task: str) -> bool:
    """Command a motion of a task; return False if a pose was moved into the workspace box."""
    # `stamp`: start time on the clock of the states [s], see `start_of`; a path whose start is
    # past begins now. InputError: `Law.follow` refuses the motion, the stamp is too old or too far
    # ahead, or the engine is not active.
    _require_active(engine)
    now = engine.time
    if isinstance(motion, Path):
        require_timely(float(motion.times[0]), float(motion.times[-1]), now)
        stamp = max(stamp, now)
    start = start_of(stamp, now)
    inside = engine.law.follow(motion, start, task)
    # a time-out of a twist counts in real time, a motion takes longer at a lower speed override
    left = max(0.0, _end_of(motion, start) - now)
    engine.guard.reset_timeout(STALE_TARGET, left if isinstance(motion, TwistGoal)
                               else start - now + engine.law.lasts(left - (start - now)))
    return inside


def predicted_target(engine: Engine, task: str, time: float) -> object:
    """Motion of a task's target at a future time [s]; see `SetPointGenerator.predicted_target`."""
    return engine.law.levels[task].generator.predicted_target(time)


def has_goal(engine: Engine, task: str) -> bool:
    """Whether the target of a task moves to a pose or along a path, or will, or holds its end."""
    law = engine.law
    return law.levels[task].generator.has_goal or law.deferred_goal(task, None) is not None


@journaled
def set_wrench(engine: Engine, wrench: Array, task: str) -> None:
    """Set the wrench (6,) of a task; see `Law.set_wrench`."""
    _require_active(engine)
    engine.law.set_wrench(wrench, task)


@journaled
def set_impedance(engine: Engine, impedance: Impedance, task: str) -> None:
    """Change stiffness, damping ratio and feedforward wrench, see `Law.set_impedance`."""
    # InputError as of that method and of `start_of`, and if the engine is not active
    _require_active(engine)
    start_of(max(impedance.stamp, 0.0), engine.time, SOON)
    engine.law.set_impedance(impedance, task)


@journaled
def set_measured_wrench(engine: Engine, wrench: Array, place: Array, task: str) -> None:
    """Set a wrench (6,), measured just now about the point `place` (3,), both in base axes."""
    if engine.mode != ACTIVE:
        return
    moment, force = wrench.reshape(2, 3)
    moment = moment + np.cross(place - engine.law.levels[task].pose[:3, 3], force)
    engine.law.set_measured_wrench(np.hstack([moment, force]), engine.time, task)


@journaled
def set_posture(engine: Engine, posture: Array) -> None:
    """Set the goal (n,) of the posture; see `Law.set_posture`."""
    _require_active(engine)
    engine.law.set_posture(posture)


@journaled
def move_joints(engine: Engine, goal: Array, duration: float | None, speed: Array | float | None
                ) -> float:
    """Move the joints to a goal (n,); return the duration [s]; see `Law.move_joints`."""
    _require_active(engine)
    found = engine.law.move_joints(goal, duration, speed)
    engine.guard.reset_timeout(STALE_TARGET, found)
    return found


def joint_set_point(engine: Engine) -> tuple[Array, Array]:
    """Return `Law.joint_set_point`."""
    return engine.law.joint_set_point


@journaled
def follow_joints(engine: Engine, motion: Pieces) -> float:
    """Begin a motion from `Law.joint_path`; return its duration [s]."""
    _require_active(engine)
    found = engine.law.follow_joint_path(motion)
    engine.guard.reset_timeout(STALE_TARGET, found)
    return found


@journaled
def reach_joints(engine: Engine, duration: float, goal: Array) -> float:
    """Move the joints to a goal (n,) in a duration [s]; return it; see `Law.reach_joints`."""
    _require_active(engine)
    found = engine.law.reach_joints(duration, goal)
    engine.guard.reset_timeout(STALE_TARGET, found)
    return found


@journaled
def set_gravity(engine: Engine, gravity: Array) -> None:
    """Set gravity (3,) [m/s²], which `Law.checked_gravity` has checked."""
    engine.law.use_gravity(gravity)


@journaled
def set_speed_override(engine: Engine, percent: float) -> None:
    """Set the speed of all motions, 0 to 100 [%]; see `Law.speed_override`."""
    engine.law.speed_override = percent
    engine.renew_target_timeout()


def speed_override(engine: Engine) -> float:
    """Return the speed override [%]."""
    return engine.law.speed_override


# obstacles


@journaled
def set_obstacles(engine: Engine, changes: Mapping[str, Obstacle | None], clears: bool = False,
                  is_news: bool = True, delay: float = 0.0) -> None:
    """Add, move and remove obstacles by name, see `Obstacles.update`."""
    # `is_news`: the source of the obstacles has sent a message, so its time-out starts again;
    # `delay`: time until new obstacles come into force [s]
    engine.law.obstacles.update(changes, clears, engine.time + delay if delay else NEW)
    if is_news:
        engine.expect_obstacles()


# changes of settings


@journaled
def set_delay(engine: Engine, delay: float) -> None:
    """Set the delay of the commands [periods]; see `Law`."""
    engine.law.delay = delay


def set_report_period(engine: Engine, period: float) -> None:
    """Set the time between two reports [s]."""
    engine.counts.report_period = period


# the journal


def begin_journal(engine: Engine, duration: float, most: int, facts: Mapping[str, Any]) -> None:
    """Record the last `duration` seconds of inputs, in at most `most` bytes; see `Journal`."""
    journal = Journal(duration, most)
    journal.facts = dict(facts)
    engine.attach_journal(journal)


def tell_journal(engine: Engine, facts: Mapping[str, Any]) -> None:
    """Call `Journal.update_facts`; without a journal, do nothing."""
    if engine.journal is not None:
        engine.journal.update_facts(facts)


def journal_piece(engine: Engine, at: tuple[int, int, int] | None) -> Piece | None:
    """Return `Journal.piece` at a position; None without a journal."""
    return None if engine.journal is None else engine.journal.piece(at)


def renew_journal(engine: Engine) -> tuple[int, int, int] | None:
    """Begin a new segment of the journal; return its position, or None without a journal."""
    if engine.journal is None:
        return None
    engine.journal.renew()
    return engine.journal.newest


def journal_failure(engine: Engine) -> str:
    """Why the journal has ended; empty while it continues, and without a journal."""
    return '' if engine.journal is None else engine.journal.failure


# reports


def progress(engine: Engine) -> Progress | None:
    """Return the approach of each task to its goal; None while a reaction replaces the law."""
    if engine.mode == ACTIVE and engine.guard.reaction not in HARMLESS:
        return None  # the poses of the law are not updated
    if engine.mode != ACTIVE:
        return Progress(engine.time, engine.stamp, {}, None)
    joints = engine.law.approach_joints(engine.q)
    approaches = {name: level.approach() for name, level in engine.law.levels.items()}
    approaches = {name: one._replace(goal=engine.law.deferred_goal(name, one.goal))
                  for name, one in approaches.items()}
    if joints is not None:
        approaches = {name: one._replace(goal=None) for name, one in approaches.items()}
    return Progress(engine.time, engine.stamp, approaches, joints)


def joint_progress(engine: Engine) -> JointProgress | None:
    """Return the state of the joint drive; None without one, or if a reaction replaces the law."""
    joints = engine.law.joints
    if (engine.mode != ACTIVE or engine.guard.reaction not in HARMLESS
            or engine.law.settings.joints is None):
        return None
    desired = joints.state.copy()
    if engine.law.setup.settings.joints is None:  # the settings for the joints wait
        desired = np.array([engine.q, engine.qd, 0.0 * engine.q])
    return JointProgress(engine.time, engine.q.copy(), engine.qd.copy(), desired,
                         joints.wraps.copy(), joints.is_moving or engine.law.waits)


def inertia(engine: Engine) -> Array | None:
    """Return `Law.inertia` (6, 6) of the first task; None before the first state."""
    try:
        return engine.law.inertia()
    except InputError:
        return None


def period(engine: Engine) -> float:
    """Return the measured period of the states [s]; the expected one before it is known."""
    return float(engine.law.period) or engine.counts.period


def terms(engine: Engine) -> dict[str, Array]:
    """Parts (n,) of the torque, see `Law.terms`; empty between a hold and the next tick."""
    # 'predicted', 'met': predicted and measured joint accelerations between the last two ticks
    try:
        rows = engine.law.terms()
    except InputError:
        return {}
    try:
        rows['predicted'], rows['met'] = engine.law.predicted_and_measured()
    except InputError:  # needs two ticks
        rows['predicted'] = rows['met'] = np.full(engine.law.robot.n, np.nan)
    return rows


def finding(engine: Engine) -> Finding:
    """Return the result of the start-up check, from the states received while idle."""
    friction = engine.law.settings.friction
    return engine.rest.finding(engine.law.robot, None if friction is None else friction.coulomb)


def has_efforts(engine: Engine) -> bool:
    """Whether the newest state has the effort of every joint."""
    return engine.effort is not None and bool(np.isfinite(engine.effort).all())


def timing(engine: Engine) -> Timing:
    """Return copies of the timing statistics."""
    counts = engine.counts
    return Timing(counts.updates.copy(), counts.periods.copy(), counts.ages.copy(), counts.missed,
                  counts.refused, counts.refusal, engine.state_age,
                  float(np.max(counts.torque_use)))


def status(engine: Engine) -> Status:
    """Return the state of the law and of its supervisor."""
    law, guard, limiter = engine.law, engine.guard, engine.law.limiter
    commanded, effort = law.level().impedance, law.settings.limits.effort
    return Status(
        mode=engine.mode, text=engine.state(), reaction=guard.reaction, counts=dict(guard.counts),
        figures=figures_of(law), shares=limiter.d.shares.copy(), rate_share=limiter.d.rate_share,
        friction_use=float(np.max(np.abs(law.friction_torque) / effort)),
        disturbance_use=float(np.max(np.abs(law.compensation) / effort)),
        impedance='parameters' if commanded is None else commanded.source,
        tank=math.nan if commanded is None else commanded.tank, wait=law.wait)


def commanded_values(engine: Engine) -> tuple[Array, Array | None]:
    """Return the gravity (3,) that was set last, and the commanded impedance (3, 6) or None."""
    found = engine.law.level().impedance
    return engine.law.wanted_gravity, None if found is None else found.wanted.copy()


def _require_active(engine: Engine) -> None:
    if engine.mode != ACTIVE:
        raise InputError('the controller is not active')


def _end_of(motion: Motion, start: float) -> float:
    """Time at which a motion begun at `start` has reached its goal or its time-out [s]."""
    if isinstance(motion, PoseGoal):
        return start
    return float(motion.times[-1]) if isinstance(motion, Path) else motion.until
