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
    """
    Differences of the simulated arm from the configured one.

    Attributes
    ----------
    name : str
    masses : float
        Factor of all masses and inertias.
    friction : float, optional
        Dry friction of each joint, as a share of its torque limit, without damping; default: the
        configured friction and damping.
    delay : float, optional
        Delay as in `Subject` [s]; default: the delay of the subject.
    position_noise, velocity_noise : float
        Standard deviations of the measured state [rad, m], [rad/s, m/s].

    """

    name: str = 'as configured'
    masses: float = 1.0
    friction: float | None = None
    delay: float | None = None
    position_noise: float = 0.0
    velocity_noise: float = 0.0


NOMINAL = Variant()


@dataclass(frozen=True, eq=False)
class Subject:
    """
    The law, its simulated arm, and the conversion of parameters to settings.

    Attributes
    ----------
    law : Law
        Shared by all experiments, which run one after another.
    plant : callable
        Returns the simulated arm of a variant.
    q : (n,)
        Start positions of every experiment [rad, m].
    period : float [s]
        Control period.
    step : float [s]
        Physics step; a period is a whole number of steps.
    delay : float [s]
        Time from a state until its torque acts.
    tolerance : (2,) [rad, m]
        Accepted error at rest.
    coulomb, viscous : (n,) [N m, N], [N m s/rad, N s/m]
        Friction of the simulated joints.
    payload : mapping of str to value
        Parameters payload.* of the simulated arm.
    settings : callable
        Returns Settings, Supervision and Robot for parameter values.

    """

    law: Law
    plant: Callable[[Variant], Plant]
    q: Array
    period: float
    step: float
    delay: float
    tolerance: tuple[float, float]
    coulomb: Array
    viscous: Array
    payload: Values
    settings: Callable[[Values], tuple[Settings, Supervision, Robot]]

    @property
    def encoder_noise(self) -> tuple[float, float]:
        """Noise of the encoder positions [rad], and of velocities as their differences [rad/s]."""
        position = 2.0 * np.pi / 2 ** ENCODER_BITS / np.sqrt(12.0)
        return position, np.sqrt(2.0) * position / self.period


ENCODER_BITS = 17  # resolution of the encoders in the noise test
