# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Commands of `Arm`: they check their arguments, and wait for the arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from osc_ros.client.backend import (
    ArmState,
    Backend,
    missed_text,
    SharedBackend,
    timeout_error,
    warn,
)
from osc_ros.client.inputs import (
    chunk_times,
    finite,
    finite_numbers,
    floats,
    goal_pose,
    goal_poses,
    joint_goal,
    LONGEST,
    non_negative,
    positive,
    way_time,
)
from osc_ros.control.accepted import require_seconds, require_turn
from osc_ros.control.setpoint.arrival import Stall
from osc_ros.control.tasks.feedback import pose_error
from osc_ros.control.tasks.task import AXES, AXIS_NAMES, Stiffness
from osc_ros.dynamics.inverse_kinematics import inverse_kinematics
from osc_ros.errors import ArmWarning, InputError
from osc_ros.model.validation import require_compact

Array = NDArray[np.float64]

TIMEOUT = 30.0  # default time-out at full speed [s]
SLOWEST = 10.0  # the default time-out gets no longer below this speed override [%]
# Reasons of an arm that can go on through its joints, and of one that must not.
BLOCKING = {'limits', 'singular'}
PASSING = {'moves', 'waits', 'speed override'}  # reasons that say nothing of the cause
HELD = {'obstacle', 'contact', 'torque', 'replaced', 'free drive', 'watchdog'}
CREEPING = 0.2  # largest speed of the joints of a stuck arm [rad/s, m/s]
CLEAR = 0.2  # distance from joint limits that a detour prefers [rad, m]
MOTION = AXES[0]
MOST_DAMPED = 10.0  # largest damping ratio; larger ones are likely in percent
FARTHEST = 3600.0  # from the observation of a chunk to the present state [s]


class Motions:
    """The commands of `osc_ros.Arm`."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._home = SharedBackend(backend), backend.state().q.copy()

    # state

    def state(self) -> ArmState:
        """
        Return the newest state; ArmError if the arm was closed.

        >>> arm.state().q                                           # doctest: +SKIP
        array([ 0. , -0.785, …])

        """
        state: ArmState = self._backend.state()
        return state

    def pose(self, shift: ArrayLike = (0.0, 0.0, 0.0), turn: ArrayLike = (0.0, 0.0, 0.0)) -> Array:
        """
        Return the measured pose (4, 4) of the tip, moved by `shift` and `turn`.

        >>> goal = arm.pose(shift=(0.0, 0.1, 0.0), turn=(0.0, 0.0, 0.5))    # doctest: +SKIP

        Parameters
        ----------
        shift : (3,) [m]
            In base axes.
        turn : (3,) [rad]
            Rotation vector in base axes.

        Raises
        ------
        InputError
            The rotation is more than half a turn.

        """
        T = self.state().pose.copy()
        T[:3, 3] += finite_numbers('shift', shift, (3,))
        require_turn(vector := finite_numbers('turn', turn, (3,)))
        T[:3, :3] = Rotation.from_rotvec(vector).as_matrix() @ T[:3, :3]
        return T

    @property
    def speed_override(self) -> float:
        """
        Speed of all motions relative to their own, 0 to 100 [%]; 0: the arm holds.

        >>> arm.speed_override = 10                                 # doctest: +SKIP

        It acts at once on every motion, also one in progress, and lasts: see doc/targets.md. A
        real arm starts with one at which the tip has at most 0.1 m/s and 0.3 rad/s.

        Raises
        ------
        InputError
            The number is not 0, or 1 to 100.

        """
        return float(self._backend.speed_override)

    @speed_override.setter
    def speed_override(self, percent: float) -> None:
        self._backend.set_speed_override(percent)

    # motions

    def move_to(self, pose: ArrayLike, duration: float | None = None, wait: bool = True,
                timeout: float | None = None, speed: float | None = None,
                through_joints: bool = True) -> ArmState:
        """
        Move the tip to a pose, and return the state there.

        >>> arm.move_to([0.4, 0.1, 0.4], duration=2.0)              # doctest: +SKIP
        >>> arm.move_to([0.4, 0.1, 0.3], speed=0.05)

        Parameters
        ----------
        pose : (4, 4), (7,) or (3,)
            See `Arm`.
        duration : float, optional
            Duration of the motion [s]; if it is not given or too short, the limits of the
            set-point determine it, with an InputWarning if it is too short.
        wait : bool
            Whether to wait until the tip has reached the pose.
        timeout : float, optional
            Longest time to wait for the arrival [s]; default: 30 s, longer with a speed override.
        speed : float, optional
            Mean speed of the tip [m/s], in place of `duration`; at most the limits' speed. It
            does not slow a rotation about the tip. InputError for three times the limit.
        through_joints : bool
            Whether an arm that is stuck, because joints are at their limits or its posture is
            singular, goes to the pose by a motion of the joints, if a posture there is found; only
            while this call waits.

        Raises
        ------
        InputError
            The controller refuses the pose; a ReachError, if it is farther away than the arm is
            long: its attributes `distance` and `reach` are in m; both `duration` and `speed` are
            given; a duration of more than 10 minutes with which the tip would be slower than
            1 mm/s and 1 mrad/s on average.
        ArmTimeoutError
            The pose was not reached in time, and the arm continues to it; or the arm is stuck. The
            message and the attribute `reasons` name the causes and their remedies.
        ArmError
            The controller has stopped the arm.

        Warns
        -----
        InputWarning
            See `duration`.
        ArmWarning
            The arm comes no nearer to the pose, and this call goes on waiting; the message names
            the causes and their remedies.

        """
        if duration is not None:
            duration = positive('duration', duration, 's', LONGEST)
        timeout = self._timeout(timeout) if wait else TIMEOUT
        goal = goal_pose(pose, now := self.state())
        if speed is not None:
            if duration is not None:
                raise InputError(f'duration is {duration:g} s and speed {speed} m/s: give '
                                 'one of them')
            duration = way_time(now.pose, goal, speed, self._backend.fastest)
        elif duration is not None:
            require_seconds(duration, np.linalg.norm(
                pose_error(now.pose, goal).reshape(2, 3), axis=1))
        self._backend.go_to(goal, duration)
        if not wait:
            return self.state()
        stall, end = Stall(), self.state().time + timeout
        told: list[str] = []

        def is_stuck() -> bool:
            state = self.state()
            if (not stall.update(state.time, pose_error(state.pose, goal), state.error)
                    or (np.abs(state.qd) > CREEPING).any()):
                return False
            reasons = self._backend.reasons()
            names = {one.name for one in reasons}
            if through_joints and names & BLOCKING and not names & HELD:
                return True
            if not told and names - PASSING:
                told.append(missed_text('the arm comes no nearer to its goal',
                                        self._backend.distance(), reasons))
                warn(told[0], ArmWarning)
            return False

        has_ended = self._wait(lambda: self._backend.is_at_goal() or is_stuck(), timeout)
        if has_ended and not self._backend.is_at_goal():
            self._detour(goal, end)
            has_ended = self._wait(self._backend.is_at_goal, _left(end, self.state()))
        return self._arrived(has_ended, timeout)

    def _detour(self, goal: Array, end: float) -> None:
        """Move to a goal (4, 4) by the joints until the time `end` [s], or raise."""
        robot = self._backend.robot  # over ROS, this requests parameters
        q = dict(zip(self._backend.joint_names, self.state().q.tolist()))
        found = inverse_kinematics(robot, goal, near=[q[name] for name in robot.joint_names])
        if not found:
            raise timeout_error('the arm is stuck on the way to the goal', self._backend)
        clear = [one for one in found if one.margin > CLEAR]  # the nearest comes first
        wanted = (clear[0] if clear else max(found, key=lambda one: one.margin)).q
        self.move_joints(dict(zip(robot.joint_names, wanted.tolist())),
                         timeout=_left(end, self.state()))
        self._backend.go_to(goal, None)

    def wait(self, timeout: float | None = None) -> ArmState:
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
        timeout = self._timeout(timeout)
        self._backend.require_newest(self._backend.number())
        if not self._backend.has_goal():
            raise InputError('there is no goal to wait for: accepted after move_to, move_joints '
                             'and follow (after jog and hold, sleep lets time pass)')
        return self._arrived(self._wait(self._backend.is_at_goal, timeout), timeout)

    def _wait(self, until: Callable[[], bool], timeout: float) -> bool:
        """Call `LawBackend.wait`; ArmError if another thread replaces the motion of this one."""
        backend, number = self._backend, self._backend.number()

        def is_over() -> bool:
            backend.require_newest(number)
            return until()

        return bool(backend.wait(is_over, timeout))

    def _timeout(self, given: float | None) -> float:
        """Return a time-out [s]; default: TIMEOUT at full speed."""
        if given is not None:
            return positive('timeout', given, 's')
        return 100.0 * TIMEOUT / max(self.speed_override, SLOWEST)

    def _arrived(self, is_at_goal: bool, timeout: float) -> ArmState:
        """Return the state at the goal; raise if the goal was not reached."""
        if not is_at_goal:
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
        self._backend.wait(lambda: False, positive('seconds', seconds, 's'))
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
            Pose k is for the time `observed_at` + (k + 1) dt. A single pose, (4, 4), (7,) or (3,),
            is a chunk that stays there.
        dt : float [s]
            At most 10 s.
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
                             f'{now.time:g} s: give the time of one of its last states, '
                             'as of arm.state().time')
        message: str = self._backend.follow_chunk(chunk_times(dt, len(goals)), goals, since)
        return message

    def move_joints(self, q: ArrayLike | Mapping[str, float], duration: float | None = None,
                    speed: float | None = None, wait: bool = True, timeout: float | None = None
                    ) -> ArmState:
        """
        Move the joints so that all arrive together, and return the state there.

        >>> arm.move_joints([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])  # doctest: +SKIP
        >>> arm.move_joints({'panda_joint1': 0.5})                  # doctest: +SKIP

        The tip gives no force meanwhile; the next command of the tip takes over without a jump.

        Parameters
        ----------
        q : (n,) or mapping of joint names to positions [rad, m]
            Joints that a mapping does not name hold their positions.
        duration : float, optional
            Duration of the motion [s]; if it is not given or too short, the limits of the joints
            determine it.
        speed : float, optional
            Largest speed of the joints [rad/s, m/s]; default: half of the velocity limits.
        wait, timeout
            See `move_to`.

        Raises
        ------
        InputError
            An unknown joint, a position outside of its limits; for `duration` see `move_to`.
        ArmTimeoutError, ArmError
            See `move_to`.

        """
        if duration is not None:
            duration = positive('duration', duration, 's', LONGEST)
        if speed is not None:
            speed = positive('speed', speed, 'rad/s, m/s')
        timeout = self._timeout(timeout) if wait else TIMEOUT
        goal = joint_goal(q, self._backend.joint_names)
        if duration is not None:
            require_seconds(duration, np.nan_to_num(np.abs(goal - self.state().q)))
        self._backend.move_joints(goal, duration, speed)
        return self.wait(timeout) if wait else self.state()

    def home(self, duration: float | None = None, speed: float | None = None, wait: bool = True,
             timeout: float | None = None) -> ArmState:
        """
        Move the joints to the posture that the arm had when it was opened; see `move_joints`.

        >>> arm.home()                                              # doctest: +SKIP

        This also leads out of postures in which joints at their limits block the tip.

        """
        return self.move_joints(self._home, duration, speed, wait, timeout)

    def follow_joints(self, q: ArrayLike, times: ArrayLike) -> None:
        """
        Move the joints through positions at given times; they stop at the last. Does not wait.

        >>> arm.follow_joints([q1, q2, q3], [1.0, 2.0, 4.0])        # doctest: +SKIP
        >>> arm.wait()

        Parameters
        ----------
        q : (m, n) [rad, m]
        times : (m,)
            Increasing, from now on [s].

        Raises
        ------
        InputError
            Positions outside of the limits, also between the points; a speed above the limits;
            times that do not increase; for long times see `move_to`.

        """
        n, positions = len(self._backend.joint_names), np.atleast_2d(floats(q))
        if positions.shape[1:] != (n,) or not np.isfinite(positions).all():
            raise InputError(f'q of shape {positions.shape}: give rows of {n} finite numbers')
        at = finite_numbers('times', times, (len(positions),))
        require_seconds(at[-1], np.abs(np.diff(
            positions, axis=0, prepend=self.state().q[None])).sum(axis=0))
        self._backend.follow_joints(at, positions)

    def jog(self, twist: ArrayLike) -> None:
        """
        Move the tip with a twist (6,) [rad/s, m/s], until the time-out of twists, 0.2 s.

        A twist beyond the speeds of the set-point is reduced, with an InputWarning. A zero twist
        ends a jog; it does not end a motion to a goal, see `hold`.

        >>> while stick.is_held():                                  # doctest: +SKIP
        ...     arm.jog([0.0, 0.0, 0.0, *stick.velocity()])
        ...     arm.sleep(0.05)

        Raises
        ------
        InputError
            The twist is not six finite numbers, or more than three times too fast (a jog in
            progress ends at its time-out); the controller is not active.

        """
        twist = finite_numbers('twist [angular; linear]', twist, (6,))
        self.state()  # raises if the arm was closed
        if twist.any() or not self._backend.has_goal():
            self._backend.jog(twist)
        else:
            self._backend.require_active()

    def axes(self, x: str = MOTION, y: str = MOTION, z: str = MOTION, rx: str = MOTION,
             ry: str = MOTION, rz: str = MOTION) -> None:
        """
        Control 'motion' or 'force' along the axes x y z and about them, or leave them 'free'.

        >>> arm.axes(z='force')                                     # doctest: +SKIP
        >>> arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -10.0])        # press down with 10 N
        >>> arm.axes()                                              # only motion again

        The axes are those of the base, or of `Task.frame`. Along an axis of force without a
        wrench the arm gives way like a damper.

        Raises
        ------
        InputError
            Another word; free drive.

        """
        given = rx, ry, rz, x, y, z
        for axis, kind in zip(AXIS_NAMES, given):
            if not isinstance(kind, str) or kind not in AXES:
                raise InputError(f"axis {axis} is {kind!r}: must be one of {', '.join(AXES)}")
        self._backend.use_axes(given)

    def free_drive(self, is_on: bool = True) -> None:
        """
        Let a hand guide the arm; with False, the arm holds where it is then.

        >>> arm.free_drive(True)                                    # doctest: +SKIP
        >>> input('guide the arm, then press Enter')
        >>> arm.free_drive(False)

        Raises
        ------
        InputError
            The controller refuses; not True or False.

        """
        if not isinstance(is_on, (bool, np.bool_)):
            raise InputError(f'is_on is {is_on!r}: must be True or False')
        self._backend.set_free_drive(bool(is_on))

    def set_wrench(self, wrench: ArrayLike) -> None:
        """
        Apply a wrench (6,) to the environment along the force-controlled axes [N·m, N].

        >>> arm.set_wrench([0.0, 0.0, 0.0, 0.0, 0.0, -10.0])              # doctest: +SKIP

        `axes` selects these axes, or the settings of the task (`Task.axes`), or the controller's
        parameters `translation.axes` and `rotation.axes`.

        Raises
        ------
        InputError
            The wrench is not six finite numbers, is not 0 along an axis without force control, or
            needs more torque than the limit of a joint.

        """
        self._backend.set_wrench(finite_numbers('wrench [moment; force]', wrench, (6,)))

    def impedance(self, stiffness: ArrayLike | None, damping_ratio: float = 1.0) -> None:
        """
        Give the tip a stiffness (6,) [N·m/rad, N/m]; with None, its original gains again.

        >>> arm.impedance([30.0] * 3 + [500.0, 500.0, 200.0])       # doctest: +SKIP

        Raises
        ------
        InputError
            A number is not positive and finite, a stiffness is a hundred times too high, or the
            damping ratio is more than 10.

        Warns
        -----
        InputWarning
            The rate of the loop does not allow this stiffness; the message has the stiffness in
            use, which is the largest one.

        """
        if stiffness is None:
            self._backend.use_gains(None)
            return
        ratio = positive('damping_ratio', damping_ratio, '1: critical', MOST_DAMPED)
        self._backend.use_gains(Stiffness(finite_numbers(
            'stiffness [angular; linear]', stiffness, (6,)), [ratio] * 6))

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
            The payload is physically impossible, more than the arm can hold, or in another unit:
            a centre of mass more than 2 m away, the inertia of a bar of more than 1.7 m.

        """
        mass = non_negative('mass', mass, 'kg')
        center = finite_numbers('center_of_mass [m]', center_of_mass, (3,))
        moment = np.zeros((3, 3)) if inertia is None else finite_numbers(
            'inertia [kg m²]', inertia, (3, 3))
        require_compact(mass, center, moment)
        self._backend.use_payload(mass, center, moment)

    def hold(self) -> None:
        """
        Stop as fast as the limits allow, and hold the pose.

        >>> arm.hold()                                              # doctest: +SKIP

        """
        self._backend.hold()

    def recover(self) -> str:
        """
        Regain control of the arm after an ArmError; return a text on the action.

        This releases latched reactions of watchdogs whose causes are gone. After an error of the
        arm itself, such as a reflex, it clears the error and activates the controller again. Then
        the arm holds its pose, and needs a new command. A simulation in this process that has
        diverged is set to its start.

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
        message: str = self._backend.recover()
        return message


def _left(end: float, state: ArmState) -> float:
    """Time from a state to `end` [s], at least a millisecond."""
    return max(end - state.time, 1e-3)
