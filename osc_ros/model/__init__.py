"""The robot as data: frozen arrays, and their making from a URDF."""

from osc_ros.model.robot import Robot

__all__ = ['Robot']
