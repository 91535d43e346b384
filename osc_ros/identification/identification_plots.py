# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plots of an identification."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from osc_ros.identification.fit.regression import described_friction
from osc_ros.identification.identification_results import Identification


def write_plot(path: Path, found: Identification) -> None:
    """Write a picture of the joint torques in the last motion."""
    # Of each joint: measured, by the description, by the estimate; ImportError: no matplotlib.
    from matplotlib.figure import Figure

    motion, robot = found.motions[-1], found.robot
    before = motion.rigid_torque(robot) + motion.friction @ described_friction(robot)
    after = found.estimate.predicted_torque(motion, robot)
    time = motion.samples.filtered(motion.samples.time)
    figure = Figure(figsize=(9.0, 1.5 * robot.n + 0.8), layout='constrained')
    figure.suptitle(f'{robot.name}: torques of a motion that the estimate has not seen'
                    if len(found.motions) > 1 else f'{robot.name}: torques', fontsize='medium')
    axes = figure.subplots(robot.n, sharex=True, squeeze=False)[:, 0]
    for i, (axis, name) in enumerate(zip(axes, robot.joint_names)):
        axis.plot(time, motion.torque[:, i], color='0.6', lw=3.0, label='measured')
        axis.plot(time, before[:, i], color='tab:orange', lw=1.0, label='description')
        axis.plot(time, after[:, i], color='tab:blue', lw=1.0, label='estimate')
        rests = np.flatnonzero(~motion.sliding[:, i])
        axis.plot(time[rests], motion.torque[rests, i], '.', color='k', ms=1.5,
                  label='not used: at rest or reversing')
        axis.set_ylabel(f'{name}\n[N m]', fontsize='small')
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize='small', ncol=4,
                  loc='outside lower center')
    axes[-1].set_xlabel('time [s]')
    figure.savefig(path, dpi=110)
