"""A control cycle that takes commands: motions, wrenches, measured wrenches and postures."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osc_ros.control.cycle import ControlCycle
from osc_ros.control.guide import Jog, Motion, STOP
from osc_ros.control.kinds.kind import Kind
from osc_ros.control.level import Level
from osc_ros.control.task import NO_ROTATION, pose
from osc_ros.control.trajectory import Hold, Path, require_rigid
from osc_ros.control.waypoints import path_through, path_within
from osc_ros.dynamics.arrays import finite_array
from osc_ros.errors import InputError

Array = NDArray[np.float64]

STRONGEST = 1e5  # no arm pushes with more [N·m, N]


class CommandedCycle(ControlCycle):
    """
    The control cycle, and the commands to its tasks and its posture.

    They change nothing at once: the next tick takes them. Until `latch`, or the first tick, the
    law does not know where the arm is and refuses them.

    """

    def _level(self, task: str | None) -> Level:
        levels = (self._next or self._setup).levels
        if task is None:
            return levels[0]
        for level in levels:
            if level.task.name == task:
                return level
        raise InputError(f"there is no task '{task}' (there are: "
                         f"{', '.join(level.task.name for level in levels)})")

    def follow(self, motion: Motion | ArrayLike, start: float = -math.inf,
               task: str | None = None) -> bool:
        """
        Let a motion take over at `start` [s]; what was to start then or later is dropped.

        The target joins it without a jump, within the task's limits: see `Guide`.

        Parameters
        ----------
        motion : Hold, Path or Jog, a pose (4, 4), or a point (3,) for a task that looks at one
            In the base frame; a pose is one to go to and to stay at.
        start : float
            On the clock of the states; at the next tick if not given.
        task : str, optional
            The first one if not given.

        Returns
        -------
        bool
            False if a pose is outside of the workspace box: the nearest position inside is taken.

        Raises
        ------
        InputError
            A path that is faster or accelerates more than the limits of the task's target allow
            (unless their `too_fast` is 'slow': then it takes longer), or that leaves the workspace
            box; a pose that is none; a task that is not there; a law
            that does not know where the arm is.

        """
        level = self._level(task)
        self._require_place()
        limits = level.task.limits
        if math.isnan(start):
            raise InputError('start is nan: accepted is a time [s], or none for now')
        if isinstance(motion, Path):
            motion = path_within(motion, limits)
        elif not isinstance(motion, Jog):
            motion = _hold(motion, level.task.kind)
        level.guide.add(motion, start)
        return not isinstance(motion, Hold) or limits.inside(motion.pose) is motion.pose

    def path(self, times: ArrayLike, poses: ArrayLike, task: str | None = None) -> Path:
        """
        Path through poses for a task; its velocities are estimated.

        It begins with the velocity of the target, if that is at the first pose then. See
        `osc_ros.control.waypoints.path_through` for the rest.

        Parameters
        ----------
        times : (m,)
            Increasing [s], on the clock of the states.
        poses : (m, 4, 4)
            In the base frame.
        task : str, optional
            The first one if not given.

        Raises
        ------
        InputError
            What `Path` refuses; a task that is not there.

        """
        level = self._level(task)
        start = float(np.ravel(times)[0]) if np.size(times) else 0.0
        return path_through(times, poses, level.task.limits, level.guide.predicted(start))

    def stop(self) -> None:
        """Stop all targets with bounded jerk, as soon as may be, and keep the posture as it is."""
        for level in (self._next or self._setup).levels:
            level.guide.add(STOP, -math.inf)
        self._posture.lead_to(self._q)

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
            not there; a law that does not know where the arm is.

        """
        level = self._level(task)
        self._require_place()
        wanted = _wrench(wrench)
        for k in np.flatnonzero(wanted * (1.0 - level.task.along('force'))).tolist():
            raise InputError(f"wrench {wanted.tolist()} of task '{level.task.name}': axis {k} is "
                             f"one of {level.task.axes[k]}, accepted there is 0 (its axes are "
                             f"{', '.join(level.task.axes)})")
        level.wanted_wrench = wanted

    def measure(self, wrench: ArrayLike, time: float, task: str | None = None) -> None:
        """
        Take a measured wrench, for a closed loop of force.

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

        Nothing jumps: the set-point goes there within `blend_time`.

        Raises
        ------
        InputError
            A shape that does not fit, a position outside the joint's limits, a law that does not
            know where the arm is.

        """
        self._require_place()
        self._posture.take(q, self.robot)

    def _require_place(self) -> None:
        if not self._is_placed:
            raise InputError('the law does not know where the arm is: call latch(q) before '
                             'commands, with the joint positions q')


def _hold(motion: Hold | ArrayLike, kind: Kind) -> Hold:
    """A pose to stay at; refuses what is neither that nor a pose (4, 4), or a point (3,)."""
    if 'point' in kind.goals and not isinstance(motion, Hold) and np.shape(motion) == (3,):
        return Hold(pose(motion, NO_ROTATION))
    if not isinstance(motion, (Hold, np.ndarray, list, tuple)):
        raise InputError(f'motion is of type {type(motion).__name__}: accepted are Hold, Path, '
                         'Jog, or a pose (4, 4)')
    hold = motion if isinstance(motion, Hold) else Hold(motion)  # type: ignore[arg-type]
    T = finite_array('pose', hold.pose, (4, 4)).copy()
    require_rigid('pose', T[None])
    return Hold(T, hold.arrival)


def _wrench(given: ArrayLike) -> Array:
    wrench = np.array(given, dtype=np.float64)
    if wrench.shape != (6,) or not np.isfinite(wrench).all():
        raise InputError(f'wrench {wrench.tolist()}: accepted are 6 finite numbers')
    if np.abs(wrench).max() > STRONGEST:
        raise InputError(f'wrench {wrench.tolist()}: accepted is at most {STRONGEST:g}')
    return wrench
