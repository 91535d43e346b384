# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""A synchronous client of an arm: the same methods over a simulation, a loop, and ROS."""

from __future__ import annotations

from collections.abc import Mapping
import os
from types import TracebackType
from typing import Any, TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from osc_ros.client.backend import ArmState, Backend
from osc_ros.client.gripper import GRIPPER, Gripper
from osc_ros.client.inputs import goal_pose, goal_poses, require_mass, require_positive
from osc_ros.client.recording import Recording
from osc_ros.control.task import Stiffness
from osc_ros.dynamics.arrays import finite_array
from osc_ros.errors import ArmTimeoutError, InputError

if TYPE_CHECKING:
    from osc_ros.sim.simulation import Simulation

Array = NDArray[np.float64]

TIMEOUT = 30.0  # default of time-outs [s]


class Arm:
    """
    An arm that is commanded by blocking calls.

    >>> import osc_ros                                                  # doctest: +SKIP
    >>> with osc_ros.Arm.simulated('panda') as arm:
    ...     arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1)))

    `Arm.simulated` simulates the arm in this process, `Arm.real_time` controls an arm by a
    real-time loop without ROS, `Arm.ros` commands a running `osc_controller` or `osc_arm`. Poses
    and twists are of the tip in the base frame, vectors (6,) are [angular; linear]. Wherever a
    pose is accepted, it may be

    - (4, 4): a homogeneous matrix,
    - (7,): position [m], then quaternion x y z w,
    - (3,): a position [m]; the orientation stays as it is.

    Times are on the clock of the arm. In the simulation, time advances only within `wait`,
    `sleep` and methods that wait. A refused command raises InputError with the reason that the
    controller gives, and the arm goes on with what it did before.

    Attributes
    ----------
    joint_names : tuple of str
    gripper : Gripper
    simulation : Simulation or None
        The arm of `Arm.simulated`: pictures, pushes, bodies beside it; None for others.

    Parameters
    ----------
    backend : Backend
        See `Arm.simulated`, `Arm.real_time` and `Arm.ros`.

    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.joint_names = backend.joint_names
        self.gripper = Gripper(backend)
        self.simulation: Simulation | None = getattr(backend, 'arm', None)
        self._recording: Recording | None = None

    @classmethod
    def simulated(cls, robot: str | os.PathLike[str] = 'panda', base: str = '', tip: str = '',
                  **options: Any) -> Arm:
        """
        Return an arm that MuJoCo simulates in this process, without ROS.

        >>> arm = Arm.simulated('ur5e', show=True)                  # doctest: +SKIP

        Parameters
        ----------
        robot : str or path
            Name of a robot that comes with osc_ros; or the text of a URDF, or its file.
        base, tip : str
            Links; needed for a robot of your own.
        **options
            `q` (n,), the joint positions at the start; `settings` of the law; `hand`, the names
            of two finger joints (default: those of panda and fr3; (): no gripper); parameters of
            `osc_ros.Simulation`, such as `rate` and `show`, and of `osc_ros.sim.Plant`, such as
            `wall` and `friction`.

        Raises
        ------
        InputError, ModelError
            Arguments that cannot be used.
        ImportError
            MuJoCo is not installed.

        """
        from osc_ros.client.simulated import SimulatedBackend
        return cls(SimulatedBackend(robot, base, tip, **options))

    @classmethod
    def ros(cls, node: str = 'osc_controller', timeout: float = 10.0,
            gripper: str = GRIPPER) -> Arm:
        """
        Return the arm of a running controller, osc_controller or osc_arm, over ROS topics.

        >>> arm = Arm.ros('/left/osc_controller')                   # doctest: +SKIP

        Parameters
        ----------
        node : str
            Name of the node, with its namespace.
        timeout : float
            Longest time until the controller answers, is active and has sent its first state [s].
        gripper : str
            Prefix of the topics of the gripper, in the namespace of the node: see doc/gripper.md.

        Raises
        ------
        ArmTimeoutError
            No such node answers, or it is not active; says what to start.
        ImportError
            rclpy is not installed.

        """
        try:
            from osc_ros.client.topics import TopicBackend
        except ModuleNotFoundError as error:
            raise ImportError(f'Arm.ros needs ROS 2 ({error}): source its setup.bash, or '
                              "pip install '.[jazzy]'") from error
        return cls(TopicBackend(node, timeout, gripper))

    @classmethod
    def real_time(cls, robot: str | os.PathLike[str], hardware: str,
                  values: Mapping[str, Any] | None = None, base: str = '', tip: str = '',
                  **options: Any) -> Arm:
        """
        Return an arm in a real-time control loop, which is a process of its own, without ROS.

        >>> arm = Arm.real_time('fr3', 'franka', {'address': '172.16.0.2'})     # doctest: +SKIP

        It is the loop of osc_arm: this client starts it, is the only one that commands it, and
        ends it by `close`. See doc/arm.md.

        Parameters
        ----------
        robot, base, tip
            See `simulated`.
        hardware : str
            Kind of the arm: 'franka', 'mujoco', or one of another package.
        values : mapping of str to value
            Values of its settings: the parameters `hardware.…` of osc_arm, without 'hardware.'.
        **options
            `settings` of the law (default: those of `osc_ros.arm.start.usual_settings`);
            `startup_check`, what to do if the torques that the arm measures at rest do not agree
            with the model: 'refuse' (default), 'warn' or 'off'; `system`, an
            `osc_ros.arm.start.System`: priority, memory and CPUs of the process.

        Raises
        ------
        InputError, ModelError
            Arguments that cannot be used; the arm cannot be opened, or does not fit the robot.
        ArmTimeoutError
            The arm sends no states.

        """
        from osc_ros.client.real_time import RealTimeBackend
        return cls(RealTimeBackend(robot, hardware, values or {}, (base, tip), **options))

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
            Rotation vector in base axes.

        """
        T = self.state().pose.copy()
        T[:3, 3] += finite_array('shift', shift, (3,))
        turned = Rotation.from_rotvec(finite_array('turn', turn, (3,))).as_matrix()
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
            Time of the motion [s]; as short as the limits of the target allow if not given, or if
            it is too short.
        wait : bool
            Whether to wait until the tip has reached the pose.
        timeout : float
            Longest time to wait for it [s].

        Raises
        ------
        InputError
            The controller refuses the pose.
        ArmTimeoutError
            The pose was not reached in time; the arm goes on to it.
        ArmError
            The controller has stopped the arm.

        """
        if duration is not None:
            require_positive('duration', duration)
        require_positive('timeout', timeout)
        self._backend.go_to(goal_pose(pose, self.state()), duration)
        return self.wait(timeout) if wait else self.state()

    def wait(self, timeout: float = TIMEOUT) -> ArmState:
        """
        Wait until the goal of the last command has been reached; return the state then.

        >>> arm.move_to(goal, wait=False)                           # doctest: +SKIP
        >>> arm.wait(timeout=5.0)

        Raises
        ------
        ArmTimeoutError, ArmError
            See `move_to`.

        """
        require_positive('timeout', timeout)
        if not self._backend.wait(self._backend.is_at_goal, timeout):
            raise ArmTimeoutError(f'the goal was not reached in {timeout:g} s: '
                                  + self._backend.situation())
        return self.state()

    def sleep(self, seconds: float) -> ArmState:
        """
        Let the arm go on for a time on its clock [s]; return the state then.

        >>> arm.sleep(0.1)                                          # doctest: +SKIP

        Raises
        ------
        ArmError
            The controller has stopped the arm.

        """
        require_positive('seconds', seconds)
        self._backend.wait(lambda: False, seconds)
        return self.state()

    def follow(self, poses: ArrayLike, dt: float, observed_at: float | None = None) -> str:
        """
        Follow a chunk of poses, such as a policy predicts; return how the arm enters it.

        The target goes over to the chunk from its present motion, without a stop, and slows down
        at its end if no other chunk comes before: see doc/policies.md. This does not wait.

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
            Time of the state from which the poses were predicted [s]; now if not given.

        Raises
        ------
        InputError
            The controller refuses the chunk: too fast, out of the workspace, over.

        """
        require_positive('dt', dt)
        now = self.state()
        goals = goal_poses(poses, now)
        times = dt * np.arange(1.0, len(goals) + 1.0)
        return self._backend.follow_chunk(times, goals, now.time if observed_at is None
                                          else float(observed_at))

    def jog(self, twist: ArrayLike) -> None:
        """
        Move the tip with a twist (6,) [rad/s, m/s], until the time-out of twists, 0.2 s.

        >>> while stick.is_held():                                  # doctest: +SKIP
        ...     arm.jog([0.0, 0.0, 0.0, *stick.velocity()])
        ...     arm.sleep(0.05)

        Raises
        ------
        InputError
            Not six finite numbers.

        """
        self._backend.jog(finite_array('twist', twist, (6,)))

    def push(self, wrench: ArrayLike) -> None:
        """
        Apply a wrench (6,) on the environment along the axes of force [N·m, N].

        >>> arm.push([0.0, 0.0, 0.0, 0.0, 0.0, -10.0])              # doctest: +SKIP

        The axes of force are those of the settings of the task (`Task.axes`), or of the
        controller's parameters `translation.axes` and `rotation.axes`.

        Raises
        ------
        InputError
            Not six finite numbers; a number other than 0 along an axis without force control.

        """
        self._backend.push(finite_array('wrench', wrench, (6,)))

    def impedance(self, stiffness: ArrayLike | None, damping_ratio: float = 1.0) -> None:
        """
        Make the tip a spring with a stiffness (6,) [N·m/rad, N/m]; None: the set gains again.

        >>> arm.impedance([30.0] * 3 + [500.0, 500.0, 200.0])       # doctest: +SKIP

        Raises
        ------
        InputError
            Numbers that are not positive and finite, or that the rate of the loop does not allow.

        """
        if stiffness is None:
            self._backend.use_gains(None)
            return
        self._backend.use_gains(Stiffness(stiffness, [damping_ratio] * 6))

    def payload(self, mass: float, center_of_mass: ArrayLike = (0.0, 0.0, 0.0),
                inertia: ArrayLike | None = None) -> None:
        """
        Tell the controller what the tip carries, in place of what it was told before; 0: nothing.

        >>> arm.payload(0.5)                    # half a kilogram at the tip   # doctest: +SKIP

        The torque changes over 0.1 s or more. Call it when the load is lifted, not while it still
        rests on something.

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
            Not possible physically, or more than the arm can hold.

        """
        require_mass(mass)
        moment = np.zeros((3, 3)) if inertia is None else finite_array('inertia', inertia, (3, 3))
        self._backend.use_payload(
            float(mass), finite_array('center_of_mass', center_of_mass, (3,)), moment)

    def hold(self) -> None:
        """
        Stop as fast as the limits allow, and hold the pose.

        >>> arm.hold()                                              # doctest: +SKIP

        """
        self._backend.hold()

    # records and end

    def record(self, path: str | os.PathLike[str]) -> Recording:
        """
        Record all states from now on in a file of numpy (.npz) or a bag; see `Recording`.

        >>> with arm.record('run.npz'):                             # doctest: +SKIP
        ...     arm.move_to(goal)

        Raises
        ------
        InputError
            Another ending; a recording is in progress.

        """
        if self._recording is not None:
            raise InputError(f"'{self._recording.path}' is being recorded: accepted after its "
                             'stop()')
        recording = Recording(path, self.joint_names, self._end_recording)
        self._recording = recording
        self._backend.listen(recording.add)
        return recording

    def _end_recording(self) -> None:
        self._backend.listen(None)
        self._recording = None

    def close(self) -> None:
        """
        End the recording, and the simulation or the connection; the controller goes on.

        >>> arm.close()                                             # doctest: +SKIP

        """
        if self._recording is not None:
            self._recording.stop()
        self._backend.close()

    def __enter__(self) -> Arm:
        """Return the arm."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close the arm; after an error, stop it before."""
        try:
            if error is not None:
                self.hold()
        finally:
            self.close()
