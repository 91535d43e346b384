"""Robot model: read-only arrays, and their construction from a URDF."""

from osc_ros.model.robot import Robot

__all__ = ['Robot']
