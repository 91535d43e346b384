# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The step of a relay: another controller computes the torques, and its commands come on their own.

The kernels have the arguments of those of `step`. A state is checked, and answered only if a
reaction is in force; the command for it goes through `watch_commands`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from osc_ros.compile.compiled import inlined, kernel, view
from osc_ros.control.data import D, LAW_M, M, RUN
from osc_ros.control.model_error.command_model import CommandModel
from osc_ros.control.model_error.contact import CONTACT, NOT_TOUCHED
from osc_ros.control.safety.causes import replaces_law
from osc_ros.control.safety.safety import accept, COMPUTED, REJECTED, STOPPED, update
from osc_ros.control.step.law_record import CONTROLLER, LAW
from osc_ros.control.step.step import watch
from osc_ros.dynamics.trees.tree_layout import pendulum

OF_COMMANDS = SILENCE, NONSENSE, OTHER_PUBLISHER = 'silence', 'nonsense', 'other_publisher'
COUNT = len(OF_COMMANDS)  # a relay has these watchdogs first, in this order


@inlined
def _let_causes_last(d, now):
    """Let a reaction to a fault of the commands last until a good command comes."""
    if d.fed[0] < d.reaction_began and 0 <= d.cause < COUNT:
        d.seen[d.cause] = now


@kernel
def watch_commands(controller, now, longest, command):
    """Do the same as `step.watch`; a good command (n,) ends the silence."""
    m, d, has_changed = controller.m, controller.d, False
    _let_causes_last(d, now)
    if len(command) == d.n:
        has_changed = update(m, d, now)
        d.fed[0] = now
    found = watch(controller, now, longest, command)
    d.has_changed = d.has_changed or has_changed
    return found


@kernel
def check_state(controller):
    """Check the sample of D; write the torques of a reaction, if one is in force, as `step`."""
    d = controller.d
    d.touch = NOT_TOUCHED
    is_accepted = accept(controller.m, d)
    watch_commands(controller, d.now, 0.0, view(d.tau, 0, (0,)))
    if not is_accepted:
        return REJECTED
    return STOPPED if replaces_law(d) else COMPUTED


@kernel
def sense_nothing(controller):
    """Return that there is no contact, in place of `sense`."""
    return NOT_TOUCHED


def relay_record(model: CommandModel, m: Any, d: Any) -> Any:
    """Return a record CONTROLLER without a law; m and d are the records of a supervisor."""
    controller, law = CONTROLLER.new(), LAW.new()
    law.m, law.run = LAW_M.new(n=d.n, k=1, m=1), RUN.new(n=d.n, k=1, m=1)
    law.model = law.bare = model.record
    controller.law, controller.m, controller.d = law, m, d
    controller.contact = CONTACT.new(n=d.n)
    return controller


@cache
def relay_example() -> Any:
    """Run the kernels of the relay once, which compiles them; return the record they used."""
    controller = relay_record(CommandModel(pendulum()), M.new(n=1), D.new(n=1))
    check_state(controller)
    watch_commands(controller, 0.0, np.inf, np.zeros(0))
    sense_nothing(controller)
    return controller
