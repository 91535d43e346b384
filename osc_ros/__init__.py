"""Operational-space control of robot arms, in Python, for ROS 2."""

from osc_ros.dynamics.operational_space import OperationalSpace
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.model.robot import Robot

__all__ = ['OperationalSpace', 'Robot', 'SingularityDamping']
