# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
A template for a driver of your own arm.

Replace the bodies of the five functions of `YourDriver` by calls of your arm's library; as they
are, they move a simulated Panda. In `OwnArm`, change only the description that `open` returns, and
PERIOD.

"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from osc_ros import shipped_urdf
from osc_ros.hardware.contract import Description, HardwareError, Setting, State
from osc_ros.sim.plant import Plant

PERIOD = 0.001  # between two states [s]


class YourDriver:
    """Replace this class: what your arm's library or bus does."""

    def __init__(self, address: str, joint_names: tuple[str, ...]) -> None:
        """Connect to the arm at `address`."""
        self._plant = Plant(shipped_urdf('panda'), 'panda_link0', joint_names)
        self._plant.reset([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
        self._time, self._tau = 0.0, np.zeros(len(joint_names))

    def read(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Wait for the next state; return time, positions, velocities, torques, base first."""
        self._plant.step(self._tau)
        self._time += PERIOD
        q, qd, tau = self._plant.measured()
        return self._time, q, qd, self._plant.weight if self._is_braked else tau

    def write(self, tau: np.ndarray) -> None:
        """Send torques [N·m]."""
        self._tau = tau.copy()

    def release_brakes(self) -> None:
        """Let the arm follow torques."""
        self._is_braked = False
        self._plant.brake(False)

    def brake(self) -> None:
        """Stop the arm; it holds itself from now on."""
        self._is_braked, self._tau = True, np.zeros_like(self._tau)
        self._plant.brake(True)


class OwnArm:
    """The arm, as osc_arm and `Arm.real_time` call it (osc_ros.hardware.contract.Hardware)."""

    settings = (Setting('address', 'simulation', 'Address of the arm', fixed=True),)

    def __init__(self, values: Mapping[str, Any], urdf: str, joint_names: tuple[str, ...]) -> None:
        self._address, self._joint_names = values['address'], joint_names
        self._driver: YourDriver | None = None

    def open(self) -> Description:
        """Connect. Set `compensates` to 'gravity' if the arm itself adds the gravity torques."""
        self._driver = YourDriver(self._address, self._joint_names)
        self._driver.brake()
        return Description('own arm', self._joint_names, PERIOD, compensates='none',
                           clock='simulated', is_held=False)  # a real arm: 'wall', and True

    def start(self) -> None:
        """Begin to accept torques."""
        self._connected().release_brakes()

    def read(self) -> State:
        """Wait for the next state; torques may be NaN if they are not measured."""
        return State(*self._connected().read())

    def write(self, tau: np.ndarray) -> None:
        """Send torques (n,), which are within all limits."""
        self._connected().write(tau)

    def stop(self) -> None:
        """End the control."""
        if self._driver is not None:
            self._driver.brake()

    def recover(self) -> None:
        """Clear an error of the arm, if it has such a call."""

    def report(self) -> dict[str, float]:
        """Return numbers for the diagnostics."""
        return {}

    def close(self) -> None:
        """Disconnect."""
        self._driver = None

    def _connected(self) -> YourDriver:
        if self._driver is None:
            raise HardwareError('own arm is not open')
        return self._driver
