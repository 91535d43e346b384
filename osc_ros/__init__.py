# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Operational-space control of robot arms: dynamics, control law, simulation, and nodes for ROS 2.

How to start: a simulated arm moves its tip by 10 cm. Arm.real_time() controls a real arm without
ROS; Arm.ros() commands an arm over ROS.

    import osc_ros

    with osc_ros.Arm.simulated('panda') as arm:       # needs MuJoCo: pip install mujoco
        arm.move_to(arm.pose(shift=(0.0, 0.0, 0.1)))  # 10 cm up
        print(arm.state().pose)

The same motion with the parts that `Arm` uses, which accept your own settings:

    from osc_ros import Law, Robot, shipped_urdf, Simulation

    urdf = shipped_urdf('panda')                      # or 'arm.urdf'
    law = Law(Robot.from_urdf(urdf, base='panda_link0', tip='panda_hand_tcp'))
    arm = Simulation(urdf, law)
    law.follow(arm.pose(shift=(0.0, 0.0, 0.1)))       # 10 cm up
    arm.run(2.0)                                      # seconds of the simulation
    print(law.error)                                  # of the tip, [angular; linear] [rad, m]

For your own arm, call `law.torque(time, q, qd)` in its control loop: see `help(Law)`.

Arm               commands an arm: in simulation, in a real-time loop, or over ROS
Robot             model of an arm, from a URDF
Law               controller: from joint state to joint torques, within limits
Settings          settings of a law: Task, Posture, SingularityDamping, Limits, Friction, Driver
Task              control of one link: Gains or Stiffness, ForceControl, TargetLimits, LookAt
PoseGoal, Path, TwistGoal   motions of a target: a pose, a path through poses, a twist
Simulation        arm in MuJoCo under its law
JointDrive        gains of motions in the joints
Clearance, Obstacle   the arm keeps clear of itself, of obstacles and of a fence
OperationalSpace  dynamics alone: Λ, J, h, torques of a task acceleration
inverse_kinematics   postures of the joints for a pose of a link
MomentumObserver  estimates external joint torques and wrench from states and torques

The first use of a law compiles kernels, in about two minutes; the cache is ~/.cache/osc_ros.
The documentation is in the folder doc/ of the repository.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from osc_ros.client.arm import Arm
    from osc_ros.collision.link_shapes import shipped_shapes
    from osc_ros.collision.obstacles import Obstacle
    from osc_ros.control.controllers import Controllers
    from osc_ros.control.joint_drive import JointDrive
    from osc_ros.control.law import Law
    from osc_ros.control.limits.clearance import Clearance
    from osc_ros.control.limits.limits import Limits
    from osc_ros.control.model_error.driver import Driver
    from osc_ros.control.model_error.friction import Friction
    from osc_ros.control.model_error.observer import MomentumObserver
    from osc_ros.control.setpoint.chunks import ChunkBlending
    from osc_ros.control.setpoint.posture import Posture
    from osc_ros.control.setpoint.set_point_generator import TwistGoal
    from osc_ros.control.setpoint.trajectory import Path, PoseGoal
    from osc_ros.control.settings import Settings
    from osc_ros.control.tasks.look_at import LookAt
    from osc_ros.control.tasks.task import (
        ForceControl,
        Gains,
        pose,
        Stiffness,
        Target,
        TargetLimits,
        Task,
    )
    from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
    from osc_ros.dynamics.batch.payloads import Payloads
    from osc_ros.dynamics.inverse_kinematics import inverse_kinematics
    from osc_ros.dynamics.operational_space import OperationalSpace
    from osc_ros.errors import (
        ArmError,
        ArmTimeoutError,
        ArmWarning,
        InputError,
        InputWarning,
        ModelError,
        ReachError,
    )
    from osc_ros.model.files import shipped_urdf
    from osc_ros.model.robot import Robot
    from osc_ros.sim.simulation import Simulation

__all__ = [
    'Arm', 'ArmError', 'ArmTimeoutError', 'ArmWarning', 'Clearance', 'Controllers', 'Driver',
    'ForceControl', 'Friction', 'Gains', 'PoseGoal', 'InputError', 'InputWarning', 'ReachError',
    'TwistGoal', 'ChunkBlending', 'JointDrive', 'Law', 'Limits', 'LookAt', 'ModelError',
    'MomentumObserver', 'Obstacle', 'OperationalSpace', 'Path', 'Payloads', 'Posture', 'Robot',
    'Settings', 'inverse_kinematics', 'shipped_shapes', 'shipped_urdf', 'Simulation',
    'SingularityDamping', 'Stiffness', 'Target', 'TargetLimits', 'Task', 'pose',
]

# Imported on first use: numba takes a second, and the simulation needs MuJoCo.
_PLACES = {
    'client.arm': ('Arm',),
    'collision.link_shapes': ('shipped_shapes',),
    'collision.obstacles': ('Obstacle',),
    'control.controllers': ('Controllers',),
    'control.joint_drive': ('JointDrive',),
    'control.law': ('Law',),
    'control.limits.clearance': ('Clearance',),
    'control.limits.limits': ('Limits',),
    'control.model_error.driver': ('Driver',),
    'control.model_error.friction': ('Friction',),
    'control.model_error.observer': ('MomentumObserver',),
    'control.setpoint.chunks': ('ChunkBlending',),
    'control.setpoint.set_point_generator': ('TwistGoal',),
    'control.setpoint.posture': ('Posture',),
    'control.setpoint.trajectory': ('PoseGoal', 'Path'),
    'control.settings': ('Settings',),
    'control.tasks.look_at': ('LookAt',),
    'control.tasks.task': ('ForceControl', 'Gains', 'Stiffness', 'Target', 'TargetLimits', 'Task',
                           'pose'),
    'dynamics.algebra.task_inertia': ('SingularityDamping',),
    'dynamics.batch.payloads': ('Payloads',),
    'dynamics.inverse_kinematics': ('inverse_kinematics',),
    'dynamics.operational_space': ('OperationalSpace',),
    'errors': ('ArmError', 'ArmTimeoutError', 'ArmWarning', 'InputError', 'InputWarning',
               'ModelError', 'ReachError'),
    'model.files': ('shipped_urdf',),
    'model.robot': ('Robot',),
    'sim.simulation': ('Simulation',),
}


def __getattr__(name: str) -> object:
    for place, names in _PLACES.items():
        if name in names:
            try:
                module = import_module(f'{__name__}.{place}')
            except AttributeError as error:  # of a library; `from osc_ros import` would hide it
                raise ImportError(f'{__name__}.{place} cannot be imported: {error}') from error
            found = globals()[name] = getattr(module, name)
            return found
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
