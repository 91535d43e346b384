# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Settings of a law: tasks, posture, limits, friction, driver, observer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.limits.clearance import Clearance
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.model_error.observer import BANDWIDTH
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.freedoms import freedoms_of
from osc_ros.control.tasks.task import Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.errors import InputError, require_type
from osc_ros.model.robot import Robot
from osc_ros.setting import Group, setting

EFFORTS = 'commanded', 'measured', 'measured without driver'
TASKS, HAND, JOINTS = 'tasks', 'hand', 'joints'


@dataclass(frozen=True)
class Observation(Group, group='external_force'):
    """
    Settings of the observer of external torques, see `osc_ros.control.model_error.observer`.

    Raises
    ------
    InputError
        A bandwidth that is not accepted, another source of torques.

    """

    bandwidth: float = setting(
        BANDWIDTH, 'Bandwidth of the observer of external torques; its delay is the reciprocal '
        '[rad/s]', lower=1e-2, upper=1e4)
    efforts: str = setting(
        'commanded', 'Torques of the motors from which external torques are computed: commanded; '
        'measured, the efforts of joint_states, in N m and with what the driver adds; measured '
        'without driver', choices=EFFORTS)


@dataclass(frozen=True, eq=False)
class Settings(Group):
    """
    All settings of a law; `Law.change` changes them while the law runs.

    All fields have defaults, the same as those of the ROS node. `dataclasses.replace` makes
    changed copies: `law.change(replace(law.settings, posture=Posture(natural_frequency=2.0)))`.

    Attributes
    ----------
    tasks : tuple of Task
        Highest priority first; each task acts in the nullspace of those before it. Usually the
        first task is that of the tip. Default: one task, the pose of the tip.
    posture : Posture
    damping : SingularityDamping
    limits : Limits
        Joint limits. Default: `Limits.of(robot)`, which the law stores in `law.settings`.
    friction : Friction, optional
        Friction to compensate; `Friction.of(robot, 0.5)` is half of the friction in the URDF.
    driver : Driver, optional
        Needed if the driver adds torques of its own: the law subtracts them.
    observation : Observation, optional
        Observer of the external torques, for `Law.external`. Default: no observer, unless
        `disturbance` needs one.
    disturbance : Disturbance, optional
        Compensation of model errors, see `osc_ros.control.model_error.disturbance`.
    free : FreeDrive, optional
        Settings of free drive, in which a person guides the arm: see `FreeDrive.applied_to`.
    joints : JointDrive, optional
        With it the joints follow a set-point of their own, and the tasks apply no forces: see
        `Law.move_joints`. Model errors are compensated, see `JointDrive.friction`.
    clearance : Clearance, optional
        With it the links keep clear of each other, of `Law.obstacles`, and of a fence.

    Raises
    ------
    InputError
        No task, two tasks of the same name, a blend time that is not accepted, a value of another
        type, both `free` and `joints`.

    """

    tasks: tuple[Task, ...] = (Task(),)
    posture: Posture = Posture()
    damping: SingularityDamping = field(default_factory=SingularityDamping)
    limits: Limits = None  # type: ignore[assignment]  # until the law knows the robot
    blend_time: float = setting(
        0.3, 'Time in which changed parameters and target wrenches take effect [s]', lower=1e-3,
        upper=60.0)
    friction: Friction | None = None
    driver: Driver | None = None
    observation: Observation | None = None
    disturbance: Disturbance | None = None
    free: FreeDrive | None = None
    joints: JointDrive | None = None
    clearance: Clearance | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_type('tasks', self.tasks, (tuple, list), 'a tuple of tasks, as in tasks=(Task(),)')
        object.__setattr__(self, 'tasks', tuple(self.tasks))
        for task in self.tasks:
            require_type('an entry of tasks', task, Task, 'a Task')
        for name, kind in (('posture', Posture), ('damping', SingularityDamping),
                           ('limits', Limits), ('friction', Friction), ('driver', Driver),
                           ('observation', Observation), ('disturbance', Disturbance),
                           ('free', FreeDrive), ('joints', JointDrive), ('clearance', Clearance)):
            if getattr(self, name) is not None or name in ('posture', 'damping'):
                require_type(name, getattr(self, name), kind, f'a {kind.__name__}')
        names = [task.name for task in self.tasks]
        if not names or len(set(names)) < len(names):
            raise InputError(f"tasks are named {', '.join(names) or 'nothing'}: give one "
                             'or more, each with a name of its own')
        if self.free is not None and self.joints is not None:
            raise InputError('free and joints are both given: give one of them')

    @classmethod
    def of(cls, robot: Robot, **given: Any) -> Settings:
        """
        Settings for a robot; values given by name take precedence.

        The limits are those of the robot. If it has fewer than six joints, the task has the axes
        of `osc_ros.control.tasks.freedoms.freedoms_of`.

        """
        found: dict[str, Any] = {'limits': Limits.of(robot)}
        if robot.n < 6 and 'tasks' not in given:
            own = freedoms_of(robot)
            found['tasks'] = (Task(axes=own.axes, frame=own.frame),)
        return cls(**{**found, **given})

    @property
    def compensated(self) -> Disturbance | None:
        """Model errors that are compensated: `disturbance`, or those of the joint drive."""
        if self.disturbance is None and self.joints is not None:
            return self.joints.compensated
        return self.disturbance

    @property
    def leader(self) -> str:
        """What the arm follows: TASKS, HAND (free drive) or JOINTS."""
        return HAND if self.free is not None else JOINTS if self.joints is not None else TASKS

    def with_limits_of(self, robot: Robot) -> Settings:
        """Return these settings; if `limits` is None, with the limits of the robot."""
        return self if self.limits is not None else replace(self, limits=Limits.of(robot))


def with_first_task(settings: Settings, **changes: Any) -> Settings:
    """Return settings whose first task has other values, given by name."""
    first, *others = settings.tasks
    return replace(settings, tasks=(replace(first, **changes), *others))
