# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands of `Arm`: they check their arguments, and wait for the arm."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from osc_ros.client.backend import ArmState, Backend, timeout_error
from osc_ros.client.inputs import (
    chunk_times,
    finite,
    goal_pose,
    goal_poses,
    LONGEST,
    non_negative,
    positive,
)
from osc_ros.control.accepted import bounded_turn
from osc_ros.control.tasks.task import Stiffness
from osc_ros.dynamics.algebra.arrays import finite_array
from osc_ros.errors import InputError, InputWarning
from osc_ros.model.validation import require_compact

Array = NDArray[np.float64]

TIMEOUT = 30.0  # default time-out [s]
FARTHEST = 3600.0  # from the observation of a chunk to the present state [s]


class Motions:
    """The commands of `osc_ros.Arm`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._has_goal = False  # whether the last command has set a goal

    # state

    def state(self) -> ArmState:
        """
        Return the newest state.

        >>> arm.state().q                                           # doctest: +SKIP
        array([ 0. , -0.785, …])

        """
        return self._backend.state()

    def pose(self, shift: ArrayLike = (0.0, 0.0, 0.0), turn: ArrayLike = (0.0, 0.0, 0.0)) -> Array:
        """
        Return the measured pose (4, 4) of the tip, moved by `shift` and `turn`.

        >>> goal = arm.pose(shift=(0.0, 0.1, 0.0), turn=(0.0, 0.0, 0.5))    # doctest: +SKIP

        Parameters
        ----------
        shift : (3,) [m]
            In base axes.
        turn : (3,) [rad]
            Rotation vector in base axes; beyond a turn, the same orientation is used, with an
            InputWarning.

        """
        T = self.state().pose.copy()
        T[:3, 3] += finite_array('shift', shift, (3,))
        vector, text = bounded_turn(finite_array('turn', turn, (3,)))
        if text:
            warnings.warn(text, InputWarning, stacklevel=2)
        turned = Rotation.from_rotvec(vector).as_matrix()
        T[:3, :3] = turned @ T[:3, :3]
        return T

    # motions

    def move_to(self, pose: ArrayLike, duration: float | None = None, wait: bool = True,
                timeout: float = TIMEOUT) -> ArmState:
        """
        Move the tip to a pose, and return the state there.

        >>> arm.move_to([0.4, 0.1, 0.4], duration=2.0)              # doctest: +SKIP

        Parameters
        ----------
        pose : (4, 4), (7,) or (3,)
            See `Arm`.
        duration : float, optional
            Duration of the motion [s]; if it is not given or too short, the limits of the
            set-point determine it, with an InputWarning if it is too short.
        wait : bool
            Whether to wait until the tip has reached the pose.
        timeout : float
            Longest time to wait for the arrival [s].

        Raises
        ------
        InputError
            The controller refuses the pose; a ReachError, if it is farther away than the arm is
            long: its attributes `distance` and `reach` are in m.
        ArmTimeoutError
            The pose was not reached in time; the arm continues to it. The message and the
            attribute `reasons` name the causes and their remedies.
        ArmError
            The controller has stopped the arm.

        """
        if duration is not None:
            duration = positive('duration', duration, LONGEST)
        timeout = positive('timeout', timeout)
        self._backend.go_to(goal_pose(pose, self.state()), duration)
        self._has_goal = True
        return self.wait(timeout) if wait else self.state()

    def wait(self, timeout: float = TIMEOUT) -> ArmState:
        """
        Wait until the arm has reached the goal of the last command; return the state then.

        >>> arm.move_to(goal, wait=False)                           # doctest: +SKIP
        >>> arm.wait(timeout=5.0)

        Raises
        ------
        InputError
            The last command has no goal: it was `jog` or `hold`, or there was none.
        ArmTimeoutError, ArmError
            See `move_to`.

        """
        timeout = positive('timeout', timeout)
        if not self._has_goal:
            raise InputError('there is no goal to wait for: accepted after move_to and follow '
                             '(after jog and hold, sleep lets time pass)')
        if not self._backend.wait(self._backend.is_at_goal, timeout):
            raise timeout_error(f'the goal was not reached in {timeout:g} s', self._backend)
        return self.state()

    def sleep(self, seconds: float) -> ArmState:
        """
        Let the arm continue for a time on its clock [s]; return the state then.

        >>> arm.sleep(0.1)                                          # doctest: +SKIP

        Raises
        ------
        ArmError
            The controller has stopped the arm.

        """
        self._backend.wait(lambda: False, positive('seconds', seconds))
        return self.state()

    def follow(self, poses: ArrayLike, dt: float, observed_at: float | None = None) -> str:
        """
        Follow a chunk of poses from a policy; return a text on how the arm enters the chunk.

        The set-point moves from its present motion to the chunk without a stop, and slows down at
        the end unless another chunk comes before: see doc/policies.md. This call does not wait.

        >>> observed = arm.state()                                  # doctest: +SKIP
        >>> poses = policy(observed)
        >>> arm.follow(poses, dt=0.1, observed_at=observed.time)
        >>> arm.sleep(0.8)

        Parameters
        ----------
        poses : (m, 4, 4), (m, 7) or (m, 3)
            Pose k is for the time `observed_at` + (k + 1) dt.
        dt : float [s]
        observed_at : float, optional
            Time of the state from which the poses were predicted [s]; default: now.

        Raises
        ------
        InputError
            The controller refuses the chunk: its motion is too fast, it leaves the workspace, or
            its last pose is in the past.

        """
        now = self.state()
        goals = goal_poses(poses, now)
        since = now.time if observed_at is None else finite('observed_at', observed_at)
        if abs(since - now.time) > FARTHEST:
            raise InputError(f'observed_at is {since:g} s, and the clock of the arm is at '
                             f'{now.time:g} s: accepted is the time of one of its last states, '
                             'as of arm.state().time')
        message = self._backend.follow_chunk(chunk_times(dt, len(goals)), goals, since)
        self._has_goal = True
        return message

    def jog(self, twist: ArrayLike) -> None:
        """
        Move the tip with a twist (6,) [rad/s, m/s], until the time-out of twists, 0.2 s.

        A twist beyond the speeds of the set-point is reduced, with an InputWarning.

        >>> while stick.is_held():                                  # doctest: +SKIP
        ...     arm.jog([0.0, 0.0, 0.0, *stick.velocity()])
        ...     arm.sleep(0.05)

        Raises
        ------
        InputError
            The twist is not six finite numbers.

        """
        self._backend.jog(finite_array('twist', twist, (6,)))
        self._has_goal = False

    def set_wrench(self, wrench: ArrayLike) -> None:
        """
        Apply a wrench (6,) to the environment along the force-controlled axes [N·m, N].

        >>> arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -10.0])              # doctest: +SKIP

        The settings of the task (`Task.axes`), or the controller's parameters `translation.axes`
        and `rotation.axes`, select these axes.

        Raises
        ------
        InputError
            The wrench is not six finite numbers, or is not 0 along an axis without force control.

        """
        self._backend.set_wrench(finite_array('wrench', wrench, (6,)))

    def impedance(self, stiffness: ArrayLike | None, damping_ratio: float = 1.0) -> None:
        """
        Give the tip a stiffness (6,) [N·m/rad, N/m]; with None, its original gains again.

        >>> arm.impedance([30.0] * 3 + [500.0, 500.0, 200.0])       # doctest: +SKIP

        Raises
        ------
        InputError
            A number is not positive and finite.

        Warns
        -----
        InputWarning
            The rate of the loop does not allow this stiffness; the message has the stiffness in
            use, which is the largest one.

        """
        if stiffness is None:
            self._backend.use_gains(None)
            return
        self._backend.use_gains(Stiffness(stiffness, [damping_ratio] * 6))

    def payload(self, mass: float, center_of_mass: ArrayLike = (0.0, 0.0, 0.0),
                inertia: ArrayLike | None = None) -> None:
        """
        Set the payload at the tip, in place of the previous one; mass 0 removes the payload.

        >>> arm.payload(0.5)                    # half a kilogram at the tip   # doctest: +SKIP

        The torque changes over 0.1 s or more. Call this when the load is lifted, not while it
        still rests on something.

        Parameters
        ----------
        mass : float [kg]
        center_of_mass : (3,) [m]
            In the frame of the tip.
        inertia : (3, 3), optional
            About the centre of mass, in the axes of the tip [kg m²]; default: a point mass.

        Raises
        ------
        InputError, ModelError
            The payload is physically impossible, or more than the arm can hold.

        """
        mass = non_negative('mass', mass, 'kg')
        moment = np.zeros((3, 3)) if inertia is None else finite_array('inertia', inertia, (3, 3))
        require_compact(mass, moment)
        self._backend.use_payload(
            mass, finite_array('center_of_mass', center_of_mass, (3,)), moment)

    def hold(self) -> None:
        """
        Stop as fast as the limits allow, and hold the pose.

        >>> arm.hold()                                              # doctest: +SKIP

        """
        self._backend.hold()
        self._has_goal = False

    def recover(self) -> str:
        """
        Regain control of the arm after an ArmError; return a text on the action.

        This releases latched reactions of watchdogs whose causes are gone. After an error of the
        arm itself, such as a reflex, it clears the error and activates the controller again. Then
        the arm holds its pose, and needs a new command. A simulation in this process needs no
        recovery.

        >>> try:                                                    # doctest: +SKIP
        ...     arm.move_to(goal)
        ... except osc_ros.ArmError:
        ...     input('Make room, then press Enter')
        ...     arm.recover()

        Raises
        ------
        ArmError
            The cause is still present, or the arm does not recover; the text gives the reason.

        """
        message = self._backend.recover()
        self._has_goal = False
        return message
