"""A simulated arm, to stand where the real one would."""

from osc_ros.sim.plant import Plant

__all__ = ['Plant']
