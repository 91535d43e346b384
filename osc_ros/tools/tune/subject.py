# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The arm under test: the law, and simulated arms that differ from its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import Supervision
from osc_ros.control.settings import Settings
from osc_ros.model.robot import Robot
from osc_ros.sim.plant import Plant

Array = NDArray[np.float64]
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """Differences of the simulated arm from the configured one."""

    name: str = 'as configured'
    masses: float = 1.0  # factor of all masses and inertias
    # Dry friction of each joint as a share of its torque limit, without damping; None: the
    # configured friction and damping.
    friction: float | None = None
    delay: float | None = None  # as in `Subject` [s]; None: the delay of the subject
    position_noise: float = 0.0  # standard deviation [rad, m]
    velocity_noise: float = 0.0  # standard deviation [rad/s, m/s]


NOMINAL = Variant()


@dataclass(frozen=True, eq=False)
class Subject:
    """The law, its simulated arm, and the conversion of parameters to settings."""

    law: Law  # shared by all experiments, which run one after another
    plant: Callable[[Variant], Plant]  # returns the simulated arm of a variant
    q: Array  # (n,), start positions of every experiment [rad, m]
    period: float  # control period [s]
    step: float  # physics step [s]; a period is a whole number of steps
    delay: float  # from a state until its torque acts [s]
    tolerance: tuple[float, float]  # accepted error at rest [rad, m]
    coulomb: Array  # (n,), friction of the simulated joints [N m, N]
    viscous: Array  # (n,), friction of the simulated joints [N m s/rad, N s/m]
    payload: Values  # parameters payload.* of the simulated arm
    settings: Callable[[Values], tuple[Settings, Supervision, Robot]]  # checks parameter values

    @property
    def encoder_noise(self) -> tuple[float, float]:
        """Noise of the encoder positions [rad], and of velocities as their differences [rad/s]."""
        position = 2.0 * np.pi / 2 ** ENCODER_BITS / np.sqrt(12.0)
        return position, np.sqrt(2.0) * position / self.period


ENCODER_BITS = 17  # resolution of the encoders in the noise test
