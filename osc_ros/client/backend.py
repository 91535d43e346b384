# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Interface between the client and its backends: simulation, real-time loop, ROS topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
import os
from threading import current_thread, local, RLock
from types import MappingProxyType
from typing import Any, Protocol
import warnings

import numpy as np
from numpy.typing import NDArray

from osc_ros.client.robots import TWIST_TIMEOUT
from osc_ros.collision.link_shapes import LinkShape
from osc_ros.collision.obstacles import changed_obstacles, Obstacle
from osc_ros.control.accepted import bounded_twist, duration_text, OUTSIDE, require_reach
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.law import Law
from osc_ros.control.limits.attached import thing_shapes, with_attached
from osc_ros.control.reasons import Reason, TITLES
from osc_ros.control.setpoint.arrival import Arrival, REACHED
from osc_ros.control.setpoint.set_point_generator import Motion, TwistGoal
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.control.settings import Settings, with_first_task
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.task import Stiffness, Target, Task
from osc_ros.errors import ArmError, ArmTimeoutError, InputError, InputWarning
from osc_ros.model.gripper_state import GripperState
from osc_ros.model.robot import Robot

Array = NDArray[np.float64]

NO_CLEARANCE = ('the arm does not keep clear of obstacles: give clearance=0.03 [m] when you open '
                'it; over ROS, set the parameter clearance.margin')
CLOSED = 'this arm was closed: open a new one, such as with osc_ros.Arm.simulated(…) as arm'


OTHER_PROCESS = ('this Arm belongs to another process, which has forked this one: open an Arm in '
                 'this process, or command the arm there')
# Methods of a backend that command a motion, and the commands of an Arm that use them.
MOTIONS = {'go_to': 'move_to', 'follow_chunk': 'follow', 'move_joints': 'move_joints',
           'follow_joints': 'follow_joints', 'jog': 'jog', 'hold': 'hold',
           'set_free_drive': 'free_drive', 'recover': 'recover'}
# Methods that only read, or wait; they may run while another thread commands.
READS = {'wait', 'state', 'is_at_goal', 'distance', 'reasons', 'gripper_state', 'listen'}


def distance_text(angle: float, distance: float) -> str:
    """Return a text on the distance to a goal, given an angle [rad] and a distance [m]."""
    return f'{1e3 * distance:.1f} mm and {np.degrees(angle):.1f}° are left'


def place_text(pose: Array) -> str:
    """Return a text with the position of a pose (4, 4)."""
    return ' '.join(f'{0.0 + round(x, 3):.3f}' for x in pose[:3, 3].tolist()) + ' m'


def joint_text(names: tuple[str, ...], way: Array) -> str:
    """Return a text on the joint that is farthest from its goal; `way` (n,) may have NaN."""
    k = int(np.nanargmax(np.abs(way)))
    return f"joint '{names[k]}' is {way[k]:.3g} from its goal"


def warn(text: str) -> None:
    """Warn that a command was changed, unless the text is empty."""
    if text:
        warnings.warn(text, InputWarning, stacklevel=5)


def timeout_error(text: str, backend: Backend) -> ArmTimeoutError:
    """Return the error of a goal that was not reached, with the reasons."""
    found = backend.reasons()
    return ArmTimeoutError(missed_text(text, backend, found), found)


def missed_text(text: str, backend: Backend, reasons: Sequence[Reason]) -> str:
    """Return a text with the way that is left to the goal, and the reasons."""
    return '; '.join([f'{text}: {backend.distance()}', *map(str, reasons)])


@dataclass(frozen=True, eq=False)
class ArmState:
    """
    State of an arm; poses, errors and twists are in the base frame.

    Attributes
    ----------
    time : float [s]
        Time on the clock of the arm.
    q, qd : (n,) [rad, m and per s]
        Measured joint positions and velocities, in the order of `Arm.joint_names`.
    torque : (n,) [N·m, N]
        Last commanded torques.
    pose : (4, 4)
        Measured pose of the tip.
    error : (6,) [rad, m]
        Error from the tip to its set-point, [angular; linear].
    force : (3,) [N]
        Force of the environment on the tip: exact in the simulation of this process; otherwise
        the controller's estimate, NaN without one.

    """

    def __repr__(self) -> str:
        fastest = float(np.abs(self.qd).max())
        return (f'ArmState at {self.time:.3f} s: tip at {place_text(self.pose)}, '
                f'{1e3 * np.linalg.norm(self.error[3:]):.1f} mm and '
                f'{np.degrees(np.linalg.norm(self.error[:3])):.1f}° from its set-point; '
                f"joints at {' '.join(f'{0.0 + round(x, 3):g}' for x in self.q.tolist())} rad "
                f'(m), up to {fastest:.2g} rad/s (m/s)')

    time: float
    q: Array
    qd: Array
    torque: Array
    pose: Array
    error: Array
    force: Array


class Backend(Protocol):
    """
    Interface of an arm for its client.

    A command returns when the controller has accepted it, and raises InputError with the reason if
    the controller refuses it. If a command has to be changed, it warns by InputWarning. Poses are
    (4, 4) in the base frame.

    Attributes
    ----------
    joint_names : tuple of str

    """

    joint_names: tuple[str, ...]

    @property
    def robot(self) -> Robot:
        """Model of the arm."""

    def state(self) -> ArmState:
        """Return the newest state; ArmError if the arm was closed."""

    @property
    def fastest(self) -> float:
        """Largest speed of the set-point of the tip [m/s]."""

    def go_to(self, pose: Array, duration: float | None) -> None:
        """Set a goal, to be reached after `duration` [s], or as early as the limits allow."""

    def follow_chunk(self, times: Array, poses: Array, observed_at: float) -> str:
        """Follow poses (m, 4, 4) at times (m,) after the observation [s]; return a report."""

    def move_joints(self, goal: Array, duration: float | None, speed: float | None) -> None:
        """Move the joints to a goal (n,); NaN: a joint keeps its goal; see `Law.move_joints`."""

    def follow_joints(self, times: Array, positions: Array) -> None:
        """Move the joints through positions (m, n) at times (m,) from now on [s]."""

    def jog(self, twist: Array) -> None:
        """Move the tip with a twist (6,) until the time-out of twists."""

    def require_active(self) -> None:
        """If the controller is not active, raise the error that a command raises then."""

    def set_wrench(self, wrench: Array) -> None:
        """Apply a wrench (6,) along the force-controlled axes."""

    def use_axes(self, axes: tuple[str, ...]) -> None:
        """Control 'motion' or 'force' along six axes of the task, or leave them 'free'."""

    def set_free_drive(self, is_on: bool) -> str | None:
        """Let a hand guide the arm, or hold it again where it is; return the answer of a node."""

    def keeps_clear(self) -> bool:
        """Whether the arm keeps clear of obstacles."""

    def use_gains(self, spring: Stiffness | None) -> None:
        """Give the tip the stiffness of `spring`, or, with None, its original gains again."""

    def use_payload(self, mass: float, center_of_mass: Array, inertia: Array) -> None:
        """
        Set the payload at the tip: mass [kg], centre of mass [m], inertia about this centre.

        The centre of mass (3,) is in the frame of the tip, the inertia (3, 3) in its axes
        [kg m²].

        """

    @property
    def obstacles(self) -> Mapping[str, Obstacle]:
        """Present obstacles, and things on links, by name; over ROS those of this client."""

    def change_obstacles(self, changes: Mapping[str, Obstacle | None]) -> None:
        """
        Add or move the named obstacles, and remove those that are None; all of them or none.

        An obstacle that names a link is held by this link, until it is set again without a link.
        For errors see `changed_obstacles`, `thing_shapes` and `with_attached`.

        """

    def move_gripper(self, command: list[float]) -> None:
        """
        Move the gripper to a width, with a largest force and a speed.

        `command` has these numbers in this order; the gripper uses its default for a
        number that is missing or NaN.

        """

    def gripper_state(self) -> GripperState:
        """Return the newest state of the gripper."""

    @property
    def speed_override(self) -> float:
        """Speed of all motions relative to their own [%]; see `Law.speed_override`."""

    def set_speed_override(self, percent: float) -> None:
        """Set `speed_override`."""

    def hold(self) -> None:
        """Stop as fast as the limits allow, and hold the pose."""

    def recover(self) -> str:
        """Release latched watchdogs, or clear an error of the arm; return a text on the action."""

    def is_at_goal(self) -> bool:
        """Whether the arm has reached the goal of the last command."""

    def distance(self) -> str:
        """Return a text on the distance to the goal; empty without a goal."""

    def reasons(self) -> list[Reason]:
        """Return the reasons why the arm is not at its goal."""

    def wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """
        Wait until a condition holds; return False after the time-out [s] on the arm's clock.

        Raises
        ------
        ArmError
            The controller has stopped the arm.
        ArmTimeoutError
            No states come any more.

        """

    def listen(self, listener: Callable[[ArmState], None] | None) -> None:
        """Call a function with every new state; None ends this."""

    def close(self) -> None:
        """Release the resources of the backend."""


class SharedBackend:
    """
    A backend for several threads of the process that has made it: one command at a time.

    It has the methods of the backend, and remembers which thread commanded the newest motion.

    """

    def __init__(self, backend: Backend) -> None:
        self._backend, self._process = backend, os.getpid()
        self._lock = getattr(backend, 'lock', None) or RLock()
        self._newest, self._own = (0, ''), local()

    def __getattr__(self, name: str) -> Any:
        """Return a method of the backend; ArmError in another process."""
        if os.getpid() != self._process:
            raise ArmError(OTHER_PROCESS)
        if name in READS:
            return getattr(self._backend, name)
        with self._lock:
            found = getattr(self._backend, name)
        if not callable(found):
            return found

        @wraps(found)
        def command(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                answer = found(*arguments, **options)
                if name in MOTIONS:
                    self._newest = self._newest[0] + 1, (
                        f"{MOTIONS[name]} in the thread '{current_thread().name}'")
                    self._own.number = self._newest[0]
                return answer
        return command

    def number(self) -> int:
        """Number of the newest motion of this thread; of any thread if this has none."""
        return int(getattr(self._own, 'number', self._newest[0]))

    def require_newest(self, number: int) -> None:
        """Raise ArmError if another motion has replaced that of a number."""
        newest, what = self._newest
        if newest != number:
            self._own.number = newest
            raise ArmError(f"{TITLES['replaced']}: {what}")


class LawBackend(ABC):
    """Commands of a backend that has the law, or the settings of the law in another process."""

    _arrival: Arrival
    _is_open = True
    # what links hold, and its shapes
    _things: Mapping[str, tuple[Obstacle, tuple[LinkShape, ...]]] = MappingProxyType({})

    @property
    @abstractmethod
    def _law(self) -> Law:
        """Law with the present settings."""

    @property
    @abstractmethod
    def _time(self) -> float:
        """Time on the clock of the arm [s]."""

    @abstractmethod
    def _set_point(self) -> Target:
        """Return the present set-point of the tip."""

    @abstractmethod
    def _use(self, settings: Settings | None = None, robot: Robot | None = None) -> None:
        """Use other settings or another robot."""

    @abstractmethod
    def _follow(self, motion: Motion) -> bool:
        """Command a motion of the tip; return whether its goal is in the workspace."""

    @abstractmethod
    def _update_obstacles(self, changes: Mapping[str, Obstacle | None], delay: float = 0.0
                          ) -> None:
        """Change obstacles without links; new ones come into force after a delay [s]."""

    @abstractmethod
    def state(self) -> ArmState:
        """Return the newest state; see `Backend`."""

    _led: Settings | None = None  # settings before free drive

    def keeps_clear(self) -> bool:
        """Whether the arm keeps clear of obstacles; see `Backend`."""
        return self._law.settings.clearance is not None

    def use_axes(self, axes: tuple[str, ...]) -> None:
        """Control motion or force along the axes of the tip; see `Backend`."""
        self._require_led()
        self._use(with_first_task(replace(self._law.settings, joints=None), axes=axes))

    def set_free_drive(self, is_on: bool) -> None:
        """Let a hand guide the arm, or hold it again; see `Backend`."""
        settings = self._law.settings
        if is_on and self._led is None:
            led = replace(settings, joints=None)
            self._use(FreeDrive().applied_to(led))
            self._led = led
        elif not is_on and self._led is not None:
            self._use(replace(self._led, clearance=settings.clearance))
            self._led = None
        self._arrival.clear()

    def _require_led(self) -> None:
        """Raise InputError in free drive, in which the settings are those of guiding."""
        if self._led is not None:
            raise InputError('the arm is in free drive and follows the hand: call '
                             'free_drive(False) first')

    def _require_open(self) -> None:
        if not self._is_open:
            raise ArmError(CLOSED)

    @property
    def _first(self) -> Task:
        return self._law.settings.tasks[0]

    @property
    def fastest(self) -> float:
        """Largest speed of the set-point of the tip [m/s]."""
        return float(self._first.limits.speed[1])

    def _lead(self, joints: JointDrive | None) -> None:
        """Let the joints follow motions of their own, or, with None, the tip its targets."""
        self._require_led()
        settings = self._law.settings
        if (settings.joints is None) != (joints is None):
            self._use(replace(settings, joints=joints))

    def _require_joint_goal(self, goal: Array, speed: float | None) -> None:
        """Raise InputError if the law would refuse the goal or speed; nothing has changed then."""
        law = self._law
        held = np.clip(self.state().q, *law.robot.position_limits.T)
        law.require_joint_goal(goal, speed, held)

    def go_to(self, pose: Array, duration: float | None) -> None:
        """Set a goal; see `Backend`."""
        limits, arrival = self._first.limits, -np.inf
        require_reach(self._law.robot, self._first, pose[None, :3, 3])
        if duration is not None:
            arrival = self._time + duration
            warn(duration_text(duration, self._set_point(), limits.inside(pose), limits))
        if not self._follow(PoseGoal(pose, arrival)):
            warn(OUTSIDE)

    def jog(self, twist: Array) -> None:
        """Move with a twist; see `Backend`."""
        bounded, text = bounded_twist(twist, self._first.limits)
        warn(text)
        self._follow(TwistGoal(bounded, self._time + TWIST_TIMEOUT))

    def require_active(self) -> None:
        """Raise an error if the arm was closed; see `Backend`."""
        self._require_open()

    def use_payload(self, mass: float, center_of_mass: Array, inertia: Array) -> None:
        """Set the payload; see `Backend`."""
        self._use(robot=self._law.robot.without_payload().with_payload(
            mass, center_of_mass, inertia))

    @property
    def obstacles(self) -> Mapping[str, Obstacle]:
        """Present obstacles, and things on links; see `Backend`."""
        self._require_open()
        return {**self._law.obstacles, **{name: one for name, (one, _) in self._things.items()}}

    def change_obstacles(self, changes: Mapping[str, Obstacle | None]) -> None:
        """Change obstacles, and things on links; see `Backend`."""
        changed_obstacles(self.obstacles, changes)
        law, before = self._law, self._things
        things = {name: one for name, one in before.items() if name not in changes} | {
            name: (one, thing_shapes(name, one, law.robot))
            for name, one in changes.items() if one is not None and one.link}
        settings, is_other = law.settings, things != before
        if is_other and settings.clearance is not None:
            settings = replace(settings, clearance=with_attached(settings.clearance, [
                shape for _, shapes in things.values() for shape in shapes], law.robot,
                self.state().q))
        if settings is not law.settings:
            self._use(settings)
        self._things = things
        changes = {name: None if name in things else one for name, one in changes.items()}
        self._update_obstacles({name: changes[name] for name in changes.keys() - before.keys()})
        # while the torques blend, the replaced settings have the thing on its link, too
        self._update_obstacles({name: changes[name] for name in changes.keys() & before.keys()},
                               settings.blend_time)

    def is_at_goal(self) -> bool:
        """Whether the goal has been reached; see `Backend`."""
        return self._arrival.state == REACHED

    def distance(self) -> str:
        """Return a text on the distance to the goal; see `Backend`."""
        return distance_text(self._arrival.angle, self._arrival.distance)


class ArmObstacles(MutableMapping[str, Obstacle]):
    """
    Obstacles of an arm by name: set one to add or move it, `del` removes it.

    >>> arm.obstacles['box'] = osc_ros.Obstacle.at('box', (0.2, 0.2, 0.4), (0.5, 0.3, 0.2))
    ... # doctest: +SKIP
    >>> arm.obstacles.update(box=moved, ball=ball)                  # doctest: +SKIP
    >>> del arm.obstacles['box']                                    # doctest: +SKIP

    An obstacle that names a link is held by this link; its pose is in the frame of the link. The
    link lets it go when it is set again without a link.

    >>> arm.obstacles['box'] = osc_ros.Obstacle.at('box', (0.05, 0.05, 0.1), (0.0, 0.0, 0.1),
    ...                                            link='panda_hand')  # doctest: +SKIP

    `update` and `clear` change all obstacles at once, between two states of the arm. If they raise
    InputError, see `Backend.change_obstacles`, nothing changes.

    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getitem__(self, name: str) -> Obstacle:
        return self._backend.obstacles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._backend.obstacles))

    def __len__(self) -> int:
        return len(self._backend.obstacles)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __setitem__(self, name: str, obstacle: Obstacle) -> None:
        self.update({name: obstacle})

    def __delitem__(self, name: str) -> None:
        self[name]  # raises KeyError
        self._backend.change_obstacles({name: None})

    def update(self, *changes: Mapping[str, Obstacle], **named: Obstacle  # type: ignore[override]
               ) -> None:
        """Add or move several obstacles at once."""
        found = {name: one for given in (*changes, named) for name, one in given.items()}
        self._backend.change_obstacles(found)
        if found and not self._backend.keeps_clear():
            warnings.warn(NO_CLEARANCE, InputWarning, stacklevel=3)

    def clear(self) -> None:
        """Remove all obstacles at once."""
        self._backend.change_obstacles(dict.fromkeys(self))
