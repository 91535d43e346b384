# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The kernel of the friction compensation, called with arrays."""

import numpy as np

from osc_ros.control.model_error.friction import FrictionInForce, put_compensation


def compiled(friction, q, qd, motion, tau, gain, inertia, table):
    """Return the torques (n,) against friction, of the kernel."""
    torque, in_force = np.empty(len(q)), FrictionInForce(len(q))
    in_force.set(friction)
    put_compensation((q, qd), motion, tau, gain, in_force.record, inertia, table, torque)
    return torque
