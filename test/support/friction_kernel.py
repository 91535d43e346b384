# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The kernel of the friction compensation, called with arrays."""

import numpy as np

from osc_ros.control.model_error.friction import (
    put_compensation,
)


def compiled(friction, q, qd, motion, tau, gain, inertia, table):
    """Return the torques (n,) against friction, of the kernel."""
    torque = np.empty(len(q))
    put_compensation(q, qd, motion, tau, gain, np.array([friction.coulomb, friction.viscous]),
                     friction.velocity, inertia, table, torque)
    return torque
