# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The kernels of the step, compiled, and their addresses."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from osc_ros.compile.addresses import entry_of
from osc_ros.control.data import D, LAW_D, LAW_M, M, RUN
from osc_ros.control.limits.near_rows import CLEARANCE
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.model_error.contact import CONTACT
from osc_ros.control.setpoint.motion import records_at
from osc_ros.control.setpoint.posture import SET_POINT
from osc_ros.control.step.law_record import CONTROLLER, LAW, UNCOMPENSATED, UNOBSERVED
from osc_ros.control.step.stages import use_method
from osc_ros.control.step.step import (
    law_torque,
    sense,
    setup_torque,
    step,
    torque_for,
    watch,
)
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.trees.tree_layout import pendulum


def entries() -> tuple[int, int]:
    """Addresses of `setup_torque` and `law_torque`; the first call compiles or loads kernels."""
    law = _law_example()
    return law.setup_torque, law.law_torque


@cache
def _law_example() -> Any:
    """Return a record LAW of a pendulum at rest; running its kernels compiles them."""
    x = np.ones(1)
    law, at_rest = LAW.new(), records_at(np.eye(4))
    use_method(law, Sweep(pendulum()))
    law.m, law.d, law.run = (one.new(n=1, k=1, m=1) for one in (LAW_M, LAW_D, RUN))
    law.m.target_records[:], law.m.turns_with[:] = [one.address for one in at_rest], -1
    law.d.level_frame[:] = 1.0
    law.model, law.clearance, law.posture = (
        CommandModel(pendulum()).record, CLEARANCE.new(), SET_POINT.new(n=1))
    law.bare, law.observer, law.compensation = law.model, UNOBSERVED, UNCOMPENSATED
    law.d.q[:] = law.d.qd[:] = 1.0
    setup_torque(law)
    law.setup_torque = entry_of(setup_torque)
    law_torque(law)
    law.law_torque = entry_of(law_torque)
    torque_for(law, 0.0, x, x, x.copy())
    law.kept['targets'] = at_rest  # they must exist as long as the record
    return law


@cache
def example() -> Any:
    """Return a record CONTROLLER of a pendulum at rest; running its kernels compiles them."""
    x = np.ones(1)
    controller = CONTROLLER.new()
    controller.law, controller.contact = _law_example(), CONTACT.new(n=1)
    controller.m, controller.d = M.new(n=1), D.new(n=1)
    step(controller)
    watch(controller, 0.0, np.inf, x[:0])
    sense(controller)
    return controller
