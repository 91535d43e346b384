# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Runs osc_arm in the demonstration, with MuJoCo or franka-sim in its loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, ExitStack, suppress
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.accepted import FULL_SPEED
from osc_ros.errors import InputError
from osc_ros.hardware.hardware_table import hardware_class
from osc_ros.model.files import shipped_urdf
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.controller_parameters import SPEED
from osc_ros.ros.simulator.simulated_arm import plant_of
from osc_ros.sim.franka_server import FrankaServer, ROTOR_INERTIA, ServerError
from osc_ros.tools.check.demonstration import Demonstration
from osc_ros.tools.check.parameter_files import Values

Array = NDArray[np.float64]

DDS, MUJOCO, FRANKA_SIM = LOOPS = 'dds', 'mujoco', 'franka-sim'
RATE = 1000.0  # default rate of the loop [Hz]
FRANKA = 'fr3'  # the only robot of franka-sim
EFFORT_RATE = 900.0  # largest torque rate of its joints; the arm accepts 1000 [N·m/s]
PRIORITY = 40  # priority of the loop under SCHED_FIFO, if permitted
FRAME = 1.0 / 30.0  # time between two pictures in the window [s]


class TipPose:
    """Computes the tip pose from measured positions, by MuJoCo; can show the arm in a window."""

    def __init__(self, wanted: Demonstration, has_window: bool) -> None:
        values = wanted.values['osc_simulator']
        self._plant = plant_of(values, robot_parameters.description(values), wanted.robot)
        self._tip, self._viewer, self._shown = wanted.robot.tip, None, -np.inf
        if has_window:
            try:
                self._viewer = self._plant.viewer()
            except InputError as error:
                print(f'note: no window, going on without: {error}', flush=True)

    def pose(self, q: Array) -> Array:
        """Return the pose (4, 4) of the tip in the base frame at positions q (n,) [rad, m]."""
        if self._viewer is not None and perf_counter() - self._shown > FRAME:
            self._shown = perf_counter()
            with suppress(InputError):  # with noise, a measured position may exceed the limits
                self._plant.reset(q)
                self._viewer.sync()
        return self._plant.pose(self._tip, q)

    def close(self) -> None:
        """Close the window."""
        if self._viewer is not None:
            self._viewer.close()


@contextmanager
def arm_parameters(loop: str, wanted: Demonstration, output: Path) -> Iterator[Values]:
    """Yield the parameters of osc_arm for the loop MUJOCO or FRANKA_SIM."""
    # For FRANKA_SIM, the simulator runs within this context, with a log in the folder `output`.
    # InputError if the simulator of an FR3 is not installed, or did not start.
    given = {'rate': RATE, 'realtime.priority': PRIORITY, SPEED: FULL_SPEED,
             **wanted.given('osc_controller'), 'autostart': False}
    given['joint_state_rate'] = given['rate']
    if loop == MUJOCO:
        yield {**given, 'hardware.kind': 'mujoco', **_simulated(wanted, given['rate'])}
        return
    q = wanted.start.q.tolist()
    urdf = shipped_urdf(FRANKA)
    server = FrankaServer(urdf, output / 'franka_sim.log', q)
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
        except ServerError as error:
            raise InputError(str(error)) from None
        yield {'limits.effort_rate': (EFFORT_RATE,) * wanted.robot.n,
               'rotor_inertia': (ROTOR_INERTIA,) * wanted.robot.n, **given,
               'hardware.kind': 'franka', 'driver_compensates': 'gravity',
               'hardware.address': server.address, 'hardware.realtime': 'ignore'}


def _simulated(wanted: Demonstration, rate: float) -> Values:
    """Return the parameters of hardware 'mujoco', with the values of osc_simulator."""
    values = {**wanted.values['osc_simulator'], 'rate': rate}
    values['payload.link'] = values['payload.link'] or wanted.robot.tip
    return {f'hardware.{setting.name}': values[setting.name]
            for setting in hardware_class('mujoco').settings
            if values.get(setting.name, setting.default) != setting.default}
