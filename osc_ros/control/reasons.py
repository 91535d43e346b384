# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Reasons why an arm does not reach its goal: RULES, each with its cause and its remedy.

Client, nodes, tools and pages use these rules, and take all texts from here. `figures_of` copies
the figures of a law, which may be in another process; `Case` derives what the rules compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import Obstacle
from osc_ros.control.accepted import FULL_SPEED
from osc_ros.control.law import Law
from osc_ros.control.limits.clearance import Near
from osc_ros.control.model_error.disturbance import Report
from osc_ros.control.tasks.task import ALL_MOTION, AXIS_NAMES, Task
from osc_ros.dynamics.algebra.kinematics import link_frame, placement, point_jacobian, reach
from osc_ros.dynamics.inverse_kinematics import inverse_kinematics
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

WAITS, AT_EDGE, FREE = 'waits for the arm', 'at the edge', 'free'  # states of a target
STANDS = 0.02  # largest joint speed at which torques are those of rest [rad/s, m/s]
CREEPS = 2e-3  # least joint speed of an arm on its way [rad/s, m/s]
UNMOVED = 1e-5  # speed below which a set-point that waits counts as one that stands [rad/s, m/s]
NEAR = 2e-3  # distance from a position limit at which a blocked joint is at it [rad, m]
AHEAD = 0.1, 0.02  # largest distance to a position limit that holds a joint back [rad], [m]
FAST = 0.8  # share of the speed limit from which this limit holds a joint back
WEAK = 0.1  # ratio of singular values below which the joints hardly move a link
LENGTH = 0.5  # an angle times this length compares with a distance [m]
SCALE = np.array([LENGTH] * 3 + [1.0] * 3)  # by which to multiply angles and distances [m; –]
LEAST_PART = 0.5  # least share of the error along weak directions to be the reason
LEAST_GAIN_SHARE = 0.98  # variations of the period reduce gains by less
# least residual: share of the effort limit, added torque [N m, N]
SIGNIFICANT, LEAST_TORQUE = 1e-3, 0.05
FULL = 0.95  # share of the effort limit from which the law holds a loaded joint back
STICKS = 0.1  # dry friction of unknown size is less than this share of the effort limit
UPRIGHT = 0.94  # least cosine between gravity and the force of a payload
SAME = 1e-6  # largest difference of two equal goals
PAIRS = 3  # pairs of links and obstacles that are named
SHOWN = 0.2  # smallest component of a direction that is named
ARRIVED = 5e-3, 1e-3  # an arm this near to its goal needs no reason [rad, m]
KEY = 'reason '  # beginning of the keys of reasons in the diagnostics
SEARCH = ('osc_ros.inverse_kinematics(robot, pose, near=q) says whether a posture reaches the '
          'goal; then arm.move_joints(q) or arm.home()')


class Singularity(NamedTuple):
    """How near a task is to a singular posture."""

    least_share: float  # smallest controlled fraction of a direction
    conditioning: float  # ratio of the smallest to the largest singular value
    weakest: Array  # direction (6,) that the task controls least, [angular; linear]


class GainFigures(NamedTuple):
    """`Law.gain_share`; measured period of the states [s]; `Law.delay` [periods]; payload [kg]."""

    share: float
    period: float
    delay: float
    payload: float


class Surroundings(NamedTuple):
    """What an arm keeps clear of."""

    near: tuple[Near, ...]  # near pairs, nearest first
    obstacles: Mapping[str, Obstacle]
    margin: float  # [m], see `Clearance`; 0 if the arm does not keep clear
    fence: Array  # (k, 4), see `Clearance`; no planes if the arm does not keep clear

    @classmethod
    def of(cls, law: Law) -> Surroundings:
        """Return the surroundings of a law."""
        clear = law.settings.clearance
        return cls(tuple(law.limiter.near), dict(law.obstacles),
                   0.0 if clear is None else clear.margin,
                   np.zeros((0, 4)) if clear is None else clear.fence)

    @property
    def held_off(self) -> list[Near]:
        """Pairs whose distance holds the arm, each once, nearest first."""
        found: dict[tuple[str, str], Near] = {}
        for one in self.near:
            if one.holds:
                found.setdefault((one.link, one.other), one)
        return list(found.values())

    def place(self, point: Array) -> str:
        """Return what contains a point (3,) or is too near to it; empty in free space."""
        depths = {f"in '{name}'": one.depth(point) for name, one in self.obstacles.items()
                  if not one.touch}
        depths.update(('behind the fence', offset - float(np.dot(normal, point)))
                      for *normal, offset in self.fence.tolist())
        deepest = max(depths, key=depths.__getitem__, default='')
        if not self.margin or not deepest or depths[deepest] <= -self.margin:
            return ''
        depth = 1e3 * depths[deepest]
        return f'{depth:.0f} mm deep {deepest}' if depth > 0.0 else (
            f'only {-depth:.0f} mm from being {deepest}, the margin is {1e3 * self.margin:.0f} mm')


class Figures(NamedTuple):
    """Figures of a law at its last tick; NaN without a tick."""

    q: Array  # (n,) joint state
    qd: Array  # (n,)
    torque: Array  # (n,) commanded [N·m, N]
    residual: Array  # (n,) torque minus the model's, for this state without acceleration [N·m, N]
    effort: Array  # (n,) limits of torque
    limits: Array  # (n, 2) limits of position
    speeds: Array  # (n,) limits of speed
    saturated: NDArray[np.bool_]  # (n,) whether the torque of a joint is at its limit
    sides: NDArray[np.int64]  # (n,) -1, 1: acceleration at its lower, upper bound; else 0
    goal: Array | None  # (4, 4) of the first task
    error: Array | None  # (6,) from its link to the goal, see `Approach.error`
    target: str  # of the first task: WAITS, AT_EDGE of the workspace box, or FREE
    waiting: tuple[str, ...]  # tasks whose targets wait for the arm
    begins_in: float  # time until the first task's newest motion begins [s]; 0: it has begun
    gains: GainFigures
    singularity: Singularity  # of the first task
    wrench: Array  # (6,) that the first task must apply along its axes of force, base axes
    external: Report | None  # see `Law.external_report`
    gravity: Array  # (3,) [m/s²]
    compensates_friction: bool
    is_free: bool  # in free drive
    around: Surroundings
    speed_override: float  # [%]
    joint_way: float | None  # in a joint drive, the largest way of a joint to its goal [rad, m]
    is_moving: bool  # whether the set-point of the first task, or of the joints, moves


def figures_of(law: Law) -> Figures:
    """Return the figures of a law."""
    level, solved, settings = law.level(), law.priorities, law.settings
    approach, tip, unknown = level.approach(), level.generator, np.full(law.robot.n, np.nan)
    if settings.joints is not None:  # the joints lead, and the task has no goal
        approach = approach._replace(goal=None)
    else:  # a goal may wait for its settings
        approach = approach._replace(goal=law.deferred_goal(level.task.name, approach.goal))
    q = qd = tau = residual = unknown
    if law.has_ticked:
        q, qd, tau = (one.copy() for one in law.last_tick())
        residual = tau - law.inverse_dynamics(q, qd, np.zeros_like(q))
    joints = law.approach_joints(q)
    return Figures(
        q, qd, tau, residual, settings.limits.effort.copy(), settings.limits.position.copy(),
        settings.limits.velocity.copy(), law.saturated.copy(),
        law.setup.d.acceleration_sides.copy(), approach.goal, approach.error(),
        WAITS if tip.waits else AT_EDGE if tip.clamped else FREE,
        tuple(name for name, one in law.levels.items() if one.generator.waits), tip.begins_in,
        GainFigures(law.gain_share(), law.period, law.delay, law.setup.robot.payload_mass),
        Singularity(float(solved.shares[0].min()), float(solved.ratios[0].min()),
                    solved.weakest()),
        level.wanted_wrench.copy(), law.external_report(), law.gravity,
        settings.friction is not None, settings.free is not None,
        Surroundings.of(law), law.speed_override,
        None if joints is None else float(np.abs(joints.way).max()),
        bool(np.abs(level.target.twist).max() > UNMOVED) if joints is None else joints.moves)


class Reason(NamedTuple):
    """Name of a rule, cause and remedy."""

    name: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f'{self.cause}; remedy: {self.remedy}'

    @classmethod
    def of(cls, name: str, text: str) -> Reason:
        """Return the reason of a name and the text that `str` has made of it."""
        cause, _, remedy = text.partition('; remedy: ')
        return cls(name, cause, remedy)


class Case:
    """What the rules compare: figures, and values that are derived from them; see `reasons`."""

    def __init__(self, robot: Robot, task: Task, figures: Figures, commanded: Array | None,
                 searches: bool) -> None:
        self.robot, self.task, self.figures = robot, task, figures
        self.commanded, self._searches = commanded, searches  # (4, 4): goal of the last command
        self._link = task.link or robot.tip

    @cached_property
    def stands(self) -> bool:
        """Whether the arm stands."""
        return bool((np.abs(self.figures.qd) < STANDS).all())

    @cached_property
    def is_away(self) -> bool:
        """Whether the link is not at its goal."""
        return any(x > least for x, least in zip(self.left, ARRIVED))

    @cached_property
    def loaded(self) -> list[int]:
        """Joints whose torque is at its limit, or that a limit before it holds."""
        found = self.figures
        near = np.abs(found.torque) > FULL * found.effort
        return np.flatnonzero(found.saturated | near & self.is_away).tolist()

    @cached_property
    def at_limits(self) -> list[int]:
        """Joints that a position limit holds back."""
        found = self.figures
        low, high = found.limits.T
        ahead = np.where(found.sides > 0, high - found.q, found.q - low)
        holds = (found.sides != 0) & (ahead < np.where(self.robot.prismatic, *AHEAD[::-1]))
        near = np.abs(found.q[:, None] - found.limits).min(axis=1) < NEAR
        return np.flatnonzero(holds | near & (self.stands and self.is_away)).tolist()

    @cached_property
    def at_speed(self) -> list[int]:
        """Joints that their speed limit holds back."""
        found = self.figures
        is_fast = found.sides * found.qd > FAST * found.speeds
        return [i for i in np.flatnonzero(is_fast).tolist() if i not in self.at_limits]

    @cached_property
    def beyond(self) -> float:
        """Distance by which the goal is beyond the reach of the link [m]; 0 without a goal."""
        if self.figures.goal is None:
            return 0.0
        origin, most = reach(self.robot, self._link)
        return float(np.linalg.norm(self.figures.goal[:3, 3] - origin)) - most

    @cached_property
    def posture(self) -> Array | None:
        """A posture (n,) that reaches the goal; empty if none does, None if it is unknown."""
        found, task = self.figures, self.task
        if not self._searches or found.goal is None or task.axes != ALL_MOTION or (
                'pose' not in task.kind.goals) or not np.isfinite(found.q).all():
            return None
        solutions = inverse_kinematics(self.robot, found.goal, found.q, self._link, most=1)
        return solutions[0].q if solutions else np.empty(0)

    @cached_property
    def left(self) -> tuple[float, float]:
        """Angle [rad] and distance [m] from the link to its goal."""
        error = np.zeros(6) if self.figures.error is None else self.figures.error
        return float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))

    @cached_property
    def jacobian(self) -> Array:
        """Jacobian (6, n) of the link."""
        body, T = link_frame(self.robot, self._link)
        at = placement(self.robot, self.figures.q)
        return point_jacobian(self.robot, at, body, at.p[body] + at.R[body] @ T[:3, 3])

    @cached_property
    def pressed(self) -> tuple[int, float]:
        """Axis of the largest commanded force or moment that moves the link, and speed; or -1."""
        found = self.figures
        if not (found.wrench.any() and np.isfinite(found.qd).all()):
            return -1, 0.0
        along = np.sign(found.wrench) * (self.jacobian @ found.qd)
        axis = int(np.argmax(np.abs(found.wrench) / SCALE))
        return (axis, float(along[axis])) if along[axis] > CREEPS else (-1, 0.0)

    @cached_property
    def weak(self) -> Array:
        """Part (6,) of the error's direction along which the joints hardly move the link."""
        found, scale = self.figures.error, SCALE
        if found is None or not found.any() or not np.isfinite(self.figures.q).all():
            return np.zeros(6)
        U, sizes, _ = np.linalg.svd(self.jacobian * scale[:, None])
        is_weak = np.concatenate([sizes, np.zeros(6 - len(sizes))]) < WEAK * sizes[0]
        error = scale * found
        return np.asarray(U[:, is_weak] @ (U[:, is_weak].T @ error) / float(
            np.linalg.norm(error)))

    @cached_property
    def resisting(self) -> list[int]:
        """Joints of a standing arm whose torque differs from that of the model."""
        found = self.figures
        least = np.minimum(SIGNIFICANT * found.effort, 1e9) + LEAST_TORQUE
        at = np.flatnonzero(np.abs(found.residual) > least)
        return at.tolist() if self.stands else []

    @cached_property
    def wrench(self) -> Array:
        """Wrench (6,) of the environment on the link that balances the residual."""
        return np.asarray(np.linalg.lstsq(self.jacobian.T, -self.figures.residual, rcond=1e-3)[0],
                          dtype=np.float64)

    @cached_property
    def load(self) -> float:
        """Mass at the link that explains the residual [kg]; 0 if the force is not downward."""
        force, gravity = self.wrench[3:], self.figures.gravity
        size, down = float(np.linalg.norm(force)), float(np.linalg.norm(gravity))
        return size / down if force @ gravity > UPRIGHT * size * down > 0.0 else 0.0

    @cached_property
    def missing(self) -> str:
        """What balances the residual: 'contact', 'model', 'friction', or nothing."""
        # At rest the torques alone do not tell these three from each other: a residual that dry
        # friction can balance counts as friction, a larger one as a load or a contact.
        found = self.figures
        if found.external is not None and found.external.in_contact:
            return 'contact'
        if not self.resisting:
            return ''
        usual = 0.0 if found.compensates_friction else STICKS * found.effort
        most = np.maximum(usual, 1.05 * self.robot.coulomb_friction)
        if (np.abs(found.residual) <= most + LEAST_TORQUE).all():
            return 'friction'
        return 'model' if self.load or (
            np.abs(found.residual) <= STICKS * found.effort).all() else 'contact'

    @cached_property
    def inside(self) -> str:
        """`Surroundings.place` of the goal; empty without a goal."""
        goal = self.figures.goal
        return '' if goal is None else self.figures.around.place(goal[:3, 3])

    @cached_property
    def held_off(self) -> list[Near]:
        """Pairs whose distance holds an arm that is not at its goal, or has none."""
        return self.figures.around.held_off if self.is_away or self.figures.goal is None else []

    def joints(self, indices: list[int], text: Callable[[int], str]) -> str:
        """Return the names of joints, each with a text."""
        return ', '.join(f'{self.robot.joint_names[i]} {text(i)}' for i in indices)

    def unit(self, i: int, turning: str, sliding: str) -> str:
        """Return the unit of a joint."""
        return sliding if self.robot.prismatic[i] else turning


def _limits_text(case: Case) -> str:
    found = case.figures

    def place(i: int) -> str:
        low, high = found.limits[i]
        limit = low if found.q[i] - low < high - found.q[i] else high
        return f"at {found.q[i]:.4g} (limit {limit:.4g} {case.unit(i, 'rad', 'm')})"

    return case.joints(case.at_limits, place)


def _speed_text(case: Case) -> str:
    found = case.figures
    return case.joints(case.at_speed, lambda i: (
        f"at {found.qd[i]:.3g} of {found.speeds[i]:.3g} {case.unit(i, 'rad/s', 'm/s')}"))


def _way(case: Case) -> str:
    """Return the remedy for an arm that cannot go on along the straight way to its goal."""
    if case.posture is None:
        return f'move through the joints: {SEARCH}'
    if not len(case.posture):
        return ('choose another goal: osc_ros.inverse_kinematics finds no posture for this one '
                'within the joint limits')
    return ('move through the joints, arm.home() or arm.move_joints(q): a posture that reaches '
            f'the goal is q = {np.round(case.posture, 3).tolist()}')


def _reach_text(case: Case) -> str:
    if case.beyond > 0.0:
        return f'the goal is {case.beyond:.3g} m beyond the sum of the link lengths'
    angle, distance = case.left
    return (f'no posture within the joint limits has the pose of the goal; {1e3 * distance:.1f} '
            f'mm and {np.degrees(angle):.1f}° are left')


def _obstacle_text(case: Case) -> str:
    pairs = [f'{one.link} is {1e3 * one.distance:.0f} mm from '
             + ('the fence' if one.other == 'fence' else f"'{one.other}'")
             for one in case.held_off[:PAIRS]]
    return ', '.join(([f'the goal is {case.inside}'] if case.inside else []) + pairs)


def _torque_text(case: Case) -> str:
    found = case.figures
    return case.joints(case.loaded, lambda i: (
        f"at {found.torque[i]:.3g} of {found.effort[i]:.3g} {case.unit(i, 'N m', 'N')}"))


def _contact_text(case: Case) -> str:
    report = case.figures.external
    force = (case.wrench if report is None else report.wrench)[3:]
    size = float(np.linalg.norm(force))
    return (f'{size:.1f} N push the link along {np.round(force / max(size, 1e-9), 2).tolist()} '
            '(base axes)')


def _residual_text(case: Case) -> str:
    text = case.joints(case.resisting, lambda i: (
        f"{case.figures.residual[i]:+.2g} {case.unit(i, 'N m', 'N')}"))
    return text + (f' (or {case.load:.2g} kg at the link)' if case.load else '')


def _pressed_text(case: Case) -> str:
    (axis, speed), units = case.pressed, ('N m', 'rad/s') if case.pressed[0] < 3 else ('N', 'm/s')
    return (f'{AXIS_NAMES[axis]} presses with {case.figures.wrench[axis]:.3g} {units[0]}, and the '
            f'link moves at {speed:.2g} {units[1]}')


def _friction_remedy(case: Case) -> str:
    if case.figures.compensates_friction:
        return 'measure the friction again with osc_identify: the law compensates too little'
    return ('compensate it: Settings(friction=Friction(…)), parameters friction.…; osc_identify '
            'measures it')


def direction_text(twist: Array) -> str:
    """Return a text with the larger components of a direction (6,), [angular; linear]."""
    names = [f'{kind} {axis}' for kind in ('turn', 'shift') for axis in 'xyz']
    return ', '.join(f'{name} {part:+.2f}' for name, part in zip(names, twist)
                     if abs(part) > SHOWN)


def _is_replaced(case: Case) -> bool:
    goal = case.figures.goal
    return case.commanded is not None and (
        goal is None or not np.allclose(goal, case.commanded, rtol=0.0, atol=SAME))


class Rule(NamedTuple):
    """A rule: a cause, the condition of its presence, and its remedy."""

    name: str  # for programs
    title: str  # the cause in a few words
    applies: Callable[[Case], Any]  # returns whether the cause is present
    text: Callable[[Case], str]  # returns the figures of the cause
    remedy: Callable[[Case], str]
    is_warning: bool = False  # whether the cause is reported also during a motion


RULES = (
    Rule('replaced', 'another command has replaced the goal', _is_replaced,
         lambda case: 'it has no end' if case.figures.goal is None else
         f'the goal is now at {np.round(case.figures.goal[:3, 3], 3).tolist()}',
         lambda case: 'command the arm from one place only'),
    Rule('later', 'the motion has not begun', lambda case: case.figures.begins_in > 0.0,
         lambda case: f'it begins in {case.figures.begins_in:.3g} s',
         lambda case: 'wait, or send the command with the stamp 0 for now'),
    Rule('free drive', 'free drive', lambda case: case.figures.is_free,
         lambda case: 'the arm follows the hand',
         lambda case: 'end it: ~/free_drive with data: false, or the parameter mode'),
    Rule('obstacle', 'an obstacle, the fence or the arm itself is in the way',
         lambda case: case.held_off or case.is_away and case.inside, _obstacle_text,
         lambda case: 'choose a goal in free space, or let the tips touch the obstacle: '
         'Obstacle(touch=True), parameter obstacles.touch' if case.inside else
         f'go around: a path, or other joint positions, {SEARCH}; or make room'),
    Rule('torque', 'torque at its limit', lambda case: case.loaded,
         _torque_text, lambda case: 'a smaller payload, a slower motion, or a higher '
         'limits.effort if the arm permits it', True),
    Rule('limits', 'joints at their position limits', lambda case: case.at_limits, _limits_text,
         _way, True),
    Rule('speed', 'joints at their speed limits', lambda case: case.at_speed, _speed_text,
         lambda case: 'wait, move more slowly, or set a higher limits.velocity if the arm '
         'permits it',
         True),
    Rule('reach', 'out of reach', lambda case: case.stands and (
        case.beyond > 0.0 or case.posture is not None and not len(case.posture)), _reach_text,
        lambda case: 'choose another goal'),
    Rule('singular', 'the posture is singular', lambda case: case.stands and (
        np.linalg.norm(case.weak) > LEAST_PART),
         lambda case: 'the joints hardly move the link along '
         + direction_text(case.weak / np.linalg.norm(case.weak)), _way),
    Rule('contact', 'the arm is in contact', lambda case: case.missing == 'contact',
         _contact_text, lambda case: 'make room, or choose a goal before the obstacle'),
    Rule('model', 'the torque does not fit the model', lambda case: case.missing == 'model',
         _residual_text, lambda case: 'set the payload, arm.payload(mass), or compensate the '
         'difference, Settings(disturbance=Disturbance()); osc_identify measures the arm'),
    Rule('friction', 'dry friction holds the arm', lambda case: case.missing == 'friction',
         _residual_text, _friction_remedy),
    Rule('gains', 'gains are reduced', lambda case: case.figures.gains.share < LEAST_GAIN_SHARE,
         lambda case: f'to {case.figures.gains.share:.0%}, too high for joint states every '
         f'{1e3 * case.figures.gains.period:.1f} ms, answered '
         f'{case.figures.gains.delay:.1f} periods after their stamps'
         + (', or if the arm does not carry its payload of '
            f'{case.figures.gains.payload:g} kg' if case.figures.gains.payload else ''),
         lambda case: 'a smaller stiffness or natural frequency, or more states '
         'per second', True),
    Rule('workspace', 'the target is at the edge of the workspace',
         lambda case: case.figures.target == AT_EDGE,
         lambda case: f'box {case.task.limits.box.tolist()} m',
         lambda case: 'a goal inside, or a larger box (parameters target.box.…)'),
    Rule('waits', 'the target waits for the arm', lambda case: case.figures.waiting,
         lambda case: f"of task {', '.join(case.figures.waiting)}: the arm lags by more than "
         f'{case.task.limits.leash[1]:g} m or {case.task.limits.leash[0]:g} rad',
         lambda case: 'remove the other causes, or, if there are none, move more slowly'
         if case.task.name in case.figures.waiting else
         'the tasks above it and the joint limits leave it no way: move the joints to another '
         'posture, arm.move_joints(q), or give the task a higher priority', True),
    Rule('speed override', 'motions are slowed',
         lambda case: case.figures.speed_override < FULL_SPEED,
         lambda case: f'the speed override is {case.figures.speed_override:g} %',
         lambda case: 'raise it: arm.speed_override = 100, parameter speed_override, or the '
         'page'),
    Rule('presses', 'nothing resists the commanded force', lambda case: case.pressed[0] >= 0,
         _pressed_text, lambda case: 'press where something is: move the tip there first; or end '
         'the force: arm.set_wrench of zeros, arm.axes()'),
    Rule('moves', 'the arm still moves',
         lambda case: np.isfinite(case.figures.qd).all() and case.pressed[0] < 0 and (
             case.figures.is_moving or np.abs(case.figures.qd).max() > CREEPS),
         lambda case: 'joint speeds up to '
         f'{np.abs(case.figures.qd).max():.2g} {case.unit(0, "rad/s", "m/s")}',
         lambda case: 'wait longer: arm.wait(timeout=…)'),
)
TITLES = {rule.name: rule.title for rule in RULES}
SETTLES = Reason('moves', 'the arm is at its goal, but has not rested there long enough',
                 'wait longer: arm.wait(timeout=…)')
UNEXPLAINED = Reason('unexplained', 'no rule names the cause',
                     'record the motion, arm.record(path), and report it')


def watchdog_reason(text: str) -> Reason:
    """Return the reason 'watchdog'; its cause is the state that the controller reports."""
    return Reason('watchdog', text, 'arm.recover(), when the cause is gone')


def reasons(robot: Robot, task: Task, figures: Figures, commanded: Array | None = None,
            searches: bool = True) -> list[Reason]:
    """Return the reasons why a link is not at its goal, the most direct first; at least one."""
    # `task`: the first one of the law; `commanded` (4, 4): goal of the last command, another one
    # is a reason; `searches`: whether to look for a posture that reaches the goal, which takes up
    # to 0.1 s, and two seconds in the first call of a process.
    case = Case(robot, task, figures, commanded, searches)
    if found := _found(case, RULES):
        return found
    has_arrived = (figures.goal is not None and not case.is_away if figures.joint_way is None
                   else figures.joint_way < ARRIVED[1])
    return [SETTLES if has_arrived else UNEXPLAINED]


def warnings_of(robot: Robot, task: Task, figures: Figures) -> list[Reason]:
    """Return the reasons that are worth a warning also while the arm moves; empty if none is."""
    return _found(Case(robot, task, figures, None, False),
                  tuple(rule for rule in RULES if rule.is_warning))


def _found(case: Case, rules: tuple[Rule, ...]) -> list[Reason]:
    return [Reason(rule.name, f'{rule.title}: {rule.text(case)}', rule.remedy(case))
            for rule in rules if rule.applies(case)]
