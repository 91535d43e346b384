# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Client class `Arm`, and its constructors for simulation, real-time loop and ROS."""

from __future__ import annotations

from collections.abc import Mapping
import logging
import os
from types import TracebackType
from typing import Any, TYPE_CHECKING

from osc_ros.client.backend import ArmObstacles, Backend, place_text
from osc_ros.client.client_recording import Recording
from osc_ros.client.gripper import GRIPPER, Gripper
from osc_ros.client.motions import Motions
from osc_ros.errors import InputError, installation, OscError

if TYPE_CHECKING:
    from osc_ros.sim.simulation import Simulation

LOGGER = logging.getLogger('osc_ros')
SET_ONCE = 'joint_names', 'gripper', 'obstacles', 'simulation'  # attributes of an Arm
ADVICE = {  # for a user who assigns to an attribute of an Arm
    'obstacles': "arm.obstacles is a mapping: set arm.obstacles['NAME'] = osc_ros.Obstacle.at(…)",
    'clearance': 'give clearance=0.03 [m] when you open the arm; over ROS, set the parameter '
                 'clearance.margin'}


class Arm(Motions):
    """
    An arm that is commanded by blocking calls.

    >>> import osc_ros                                                  # doctest: +SKIP
    >>> with osc_ros.Arm.simulated('panda') as arm:
    ...     arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1)))

    `Arm.simulated` simulates the arm in this process, `Arm.real_time` controls an arm by a
    real-time loop without ROS, `Arm.ros` commands a running `osc_controller` or `osc_arm`. Poses
    and twists are of the tip in the base frame, vectors (6,) are [angular; linear]. A pose is
    given in one of these forms:

    - (4, 4): a homogeneous matrix,
    - (7,): position [m], then quaternion x y z w,
    - (3,): a position [m]; the orientation stays as it is.

    Times are on the clock of the arm. In the simulation, time advances only within `wait`, `sleep`
    and methods that wait. If the controller refuses a command, InputError gives its reason, and
    the arm continues its present motion.

    Attributes
    ----------
    joint_names : tuple of str
    gripper : Gripper
    obstacles : ArmObstacles
        Solids from which the arm keeps clear, if its settings have a clearance (over ROS: the
        parameter `clearance.margin`): a mapping of names to `osc_ros.Obstacle`.
    simulation : Simulation or None
        The arm of `Arm.simulated`, for pictures, pushes and objects; None for other arms.

    Parameters
    ----------
    backend : Backend
        See `Arm.simulated`, `Arm.real_time` and `Arm.ros`.

    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.joint_names = backend.joint_names
        self.gripper, self.obstacles = Gripper(self._backend), ArmObstacles(self._backend)
        self.simulation: Simulation | None = getattr(backend, 'arm', None)
        self._recording: Recording | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse an attribute whose assignment would change nothing of the arm."""
        own = getattr(type(self), name, None)
        if not (name.startswith('_') or isinstance(own, property)
                or name in SET_ONCE and name not in self.__dict__):
            raise AttributeError(
                f'arm.{name} is a method: call arm.{name}(…)' if callable(own) else
                ADVICE.get(name, f'arm.{name} cannot be set'))
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        try:
            state = self.state()
        except OscError as error:
            return f'<Arm: {error}>'
        return (f"<Arm with the joints {', '.join(self.joint_names)}; tip at "
                f'{place_text(state.pose)}; speed override {self.speed_override:g} %>')

    @classmethod
    def simulated(cls, robot: str | os.PathLike[str] = 'panda', base: str = '', tip: str = '',
                  **options: Any) -> Arm:
        """
        Return an arm that MuJoCo simulates in this process, without ROS.

        >>> arm = Arm.simulated('ur5e', show=True)                  # doctest: +SKIP

        Parameters
        ----------
        robot : str or path
            Name of a robot that comes with osc_ros; or a URDF, as text or as a `pathlib.Path`.
        base, tip : str
            Names of links; required for a URDF.
        **options
            `q` (n,), the joint positions at the start; `settings` of the law; `clearance`, a
            margin [m] or True for a robot that comes with osc_ros, or an `osc_ros.Clearance`: the
            arm keeps clear of itself and of `obstacles`; `hand`, the names of
            two finger joints (default: those of panda and fr3; (): no gripper); parameters of
            `osc_ros.Simulation`, such as `rate` and `show`, and of `osc_ros.sim.Plant`, such as
            `wall` and `friction`.

        Raises
        ------
        InputError, ModelError
            The arguments are invalid.
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
            Prefix of the gripper's topics, in the namespace of the node: see doc/gripper.md.

        Raises
        ------
        ArmTimeoutError
            No such node answers, or it is not active; the text says which node to start.
        ImportError
            rclpy is not installed.

        """
        try:
            from osc_ros.client.topics import TopicBackend
        except ModuleNotFoundError as error:
            raise ImportError(f'Arm.ros needs ROS 2 ({error}): source its setup.bash, or '
                              + installation('jazzy')) from error
        return cls(TopicBackend(node, timeout, gripper))

    @classmethod
    def real_time(cls, robot: str | os.PathLike[str], hardware: str,
                  values: Mapping[str, Any] | None = None, base: str = '', tip: str = '',
                  **options: Any) -> Arm:
        """
        Return an arm in a real-time control loop, which is a separate process, without ROS.

        >>> arm = Arm.real_time('fr3', 'franka', {'address': '172.16.0.2'})     # doctest: +SKIP

        The process is the loop of osc_arm. This client starts it, is the only one that commands
        it, and ends it by `close`. See doc/arm.md.

        Parameters
        ----------
        robot, base, tip
            See `simulated`.
        hardware : str
            Kind of the arm: 'franka', 'mujoco', or one from another package.
        values : mapping of str to value
            Values of its settings: the parameters `hardware.…` of osc_arm, without 'hardware.'.
        **options
            `settings` of the law (default: `osc_ros.loop.process.process_start.usual_settings`);
            `clearance`, see `simulated`;
            `startup_check`, the reaction if the torques measured at rest do not agree with the
            model: 'certain' (default: refuse an error that is beyond doubt), 'refuse', 'warn' or
            'off'; `system`, an `osc_ros.loop.process.process_start.System`: priority, memory and
            CPUs of the process.

        Raises
        ------
        InputError, ModelError
            The arguments are invalid; the arm cannot be opened, or does not fit the robot.
        ArmTimeoutError
            The arm sends no states.

        """
        from osc_ros.client.real_time import RealTimeBackend
        return cls(RealTimeBackend(robot, hardware, values or {}, (base, tip), **options))

    # recording and end

    def record(self, path: str | os.PathLike[str] | None = None) -> Recording:
        """
        Record all states from now on, for a plot, a NumPy file (.npz) or a bag; see `Recording`.

        >>> with arm.record('run.npz') as recording:                # doctest: +SKIP
        ...     arm.move_to(goal)
        >>> recording.plot('run.png')

        Raises
        ------
        InputError
            The path is not accepted, or a recording is in progress.
        ArmError
            The arm was closed.

        """
        self.state()  # raises if the arm was closed
        if self._recording is not None:
            raise InputError(f"'{self._recording.path or 'the arm'}' is being recorded: call "
                             'its stop() first')
        recording = Recording(path, self.joint_names, self._end_recording)
        self._recording = recording
        self._backend.listen(recording.add)
        return recording

    def _end_recording(self) -> None:
        self._backend.listen(None)
        self._recording = None

    def close(self) -> None:
        """
        End the recording, and the simulation or the connection; a controller over ROS goes on.

        ArmError if the recording cannot be written; the arm is closed all the same.

        >>> arm.close()                                             # doctest: +SKIP

        """
        try:
            if self._recording is not None:
                self._recording.stop()
        finally:
            self._backend.close()

    def __enter__(self) -> Arm:
        """Return the arm; ArmError if it was closed."""
        self.state()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close the arm; after an error in the context, stop it before. The error is raised."""
        try:
            if error is not None:
                self.hold()
        except OscError as second:
            LOGGER.warning('the arm could not be stopped: %s', second)
        finally:
            try:
                self.close()
            except OscError as second:
                if error is None:
                    raise
                LOGGER.warning('%s', second)
