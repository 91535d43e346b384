"""A simulated arm in place of a real one."""

from osc_ros.sim.plant import Plant

__all__ = ['Plant']
