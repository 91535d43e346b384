"""The tolerances of the tests, by name: how much two right answers may differ."""

# Poses composed in another order: some rounding errors a link, forty links, metres.
POSE_TOLERANCE = 1e-12
# Lumped and composite inertias, relative to their largest entry.
INERTIA_TOLERANCE = 1e-10
PLANT_ACCELERATION = 1e-11  # relative: MuJoCo against Pinocchio's ABA, free of stops
PLANT_POSE = 1e-12  # rad and m: link poses of MuJoCo against Pinocchio's
PLANT_STOP = 1e-5  # m, m/s: how far a pushed joint rests from its stop or creeps in dry friction
PLANT_ENERGY_DRIFT = 2e-2  # relative: the Panda in free fall for 1 s, 1 ms step, first order in it
