# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Interface between the client and its backends: simulation, real-time loop, ROS topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import wraps
import os
import sys
from threading import current_thread, local, RLock
from typing import Any, TYPE_CHECKING, TypeAlias
import warnings

import numpy as np
from numpy.typing import NDArray

from osc_ros.collision.obstacles import Obstacle
from osc_ros.control.reasons import Reason, TITLES
from osc_ros.errors import ArmError, ArmTimeoutError, InputWarning, require_type

if TYPE_CHECKING:
    from osc_ros.client.law_backend import LawBackend
    from osc_ros.client.topics import TopicBackend

Array = NDArray[np.float64]
Backend: TypeAlias = 'LawBackend | TopicBackend | SharedBackend'  # methods: see `LawBackend`

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
READS = {'wait', 'state', 'has_goal', 'is_at_goal', 'distance', 'reasons', 'gripper_state',
         'listen'}


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


def warn(text: str, kind: type[Warning] = InputWarning) -> None:
    """Warn, at the line of the user's program, unless the text is empty."""
    if not text:
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_globals.get('__name__', '').startswith('osc_ros.') and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def timeout_error(text: str, backend: Backend) -> ArmTimeoutError:
    """Return the error of a goal that was not reached, with the reasons."""
    left = backend.distance()  # before `reasons`, which may wait while the arm moves
    found = backend.reasons()
    return ArmTimeoutError(missed_text(text, left, found), found)


def missed_text(text: str, left: str, reasons: Sequence[Reason]) -> str:
    """Return a text with the way that is left to the goal, and the reasons."""
    return '; '.join([f'{text}: {left}', *map(str, reasons)])


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


class SharedBackend:
    """A backend for several threads: one command at a time; remembers whose motion is newest."""

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
    InputError, see `LawBackend.change_obstacles`, nothing changes.

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
        for one in changes:
            require_type('obstacles', one, Mapping, 'a mapping of names to osc_ros.Obstacle')
        found = {name: one for given in (*changes, named) for name, one in given.items()}
        for name, obstacle in found.items():
            require_type(f"obstacle '{name}'", obstacle, Obstacle, 'an osc_ros.Obstacle')
        self._backend.change_obstacles(found)
        if found and not self._backend.keeps_clear():
            warn(NO_CLEARANCE)

    def clear(self) -> None:
        """Remove all obstacles at once."""
        self._backend.change_obstacles(dict.fromkeys(self))
