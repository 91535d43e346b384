"""Any robot, compiled: trees of bodies, with one or several tips."""
