# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The kernel of the friction compensation, called with arrays."""

from osc_ros.control.data import LAW_D, LAW_M
from osc_ros.control.model_error.friction import put_compensation


def compiled(friction, q, qd, motion, tau, gain, inertia, table):
    """Return the torques (n,) against friction, of the kernel."""
    m, d = LAW_M.new(n=len(q)), LAW_D.new(n=len(q))
    m.friction[:], m.sliding = (friction.coulomb, friction.viscous), friction.velocity
    d.reference_qd[:], d.reference_qdd[:], d.reference_tau[:] = motion
    d.least_inertia[:], d.limits[:] = inertia, table
    d.q[:], d.qd[:], d.tau_limited[:] = q, qd, tau
    put_compensation(m, d, gain)
    return d.tau_friction.copy()
