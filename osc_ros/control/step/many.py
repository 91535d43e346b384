# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques of many controllers, one after the other, by one law."""

from __future__ import annotations

import numpy as np

from osc_ros.compile.compiled import inlined, released
from osc_ros.control.model_error.command_model import put_driver
from osc_ros.control.model_error.observer import observe
from osc_ros.control.step.places import copy_row
from osc_ros.control.step.step import torque_for


@inlined
def _observe_last(law, time, q, qd, effort, tau):
    """Estimate the external torques at a state, with the last torques of the law."""
    run, driver = law.run, law.d.tau_acting
    for j in range(len(q)):
        tau[j] = run.tick_tau[0, j] if run.ticks > 0 else np.nan
    put_driver(law.model, q, qd, driver)
    observe(law.observer, time, q, qd, tau, effort, driver)


@released
def put_torques(of_law, memory, states, tau, found, first, last):
    """Write torques, and estimates of external torques, of controllers `first` to `last` - 1."""
    # `of_law`: a record LAW that computes for one controller after the other, and `Places.spans`;
    # `memory` (k, …): a row of these numbers for each controller; `states`: stamps (k,) [s], q and
    # q̇ (k, n), NaN (n,) because no effort is measured. Writes `tau` (k, n) and `found` (2, k):
    # result of `law_torque`, and 1 if Python must plan a target before the next state.
    (law, spans), (time, q, qd, unknown) = of_law, states
    m, d = law.m, law.d
    for i in range(first, last):
        copy_row(spans, memory[i], False)
        if m.observes:
            _observe_last(law, time[i], q[i], qd[i], unknown, tau[i])
        found[0, i] = torque_for(law, time[i], q[i], qd[i], tau[i])
        found[1, i] = np.int64(d.plans)
        copy_row(spans, memory[i], True)
