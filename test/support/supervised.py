# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Torques of a supervisor for a law in Python, one state at a time."""

from functools import cache

import numpy as np

from osc_ros.compile.addresses import types, VECTOR
from osc_ros.compile.compiled import entry, kernel
from osc_ros.control.data import D, M
from osc_ros.control.safety.safety import put_wanted, send
from osc_ros.control.safety.stopping import NONE
from osc_ros.control.safety.supervision import NOT_FINITE

NO_LAW = np.zeros(0)


@kernel
def _answer(m, d, now, tau):
    source = put_wanted(m, d, now, tau)
    if source != NONE:
        send(m, d, now, source)


@cache
def _answered():
    return entry(_answer, M.numba_type, D.numba_type, types.float64, VECTOR)


def torque_to_send(guard, law=None, answer=None):
    """
    Return the torque (n,) that a supervisor sends now: of a reaction, or else of `law()`.

    A law that raises, or returns numbers that are not finite, is a fault. `answer` writes the
    torque for a time and the torque of the law; default: without the limits of a law.

    """
    tau = NO_LAW if guard.watch() or law is None else _law_torque(guard, law)
    guard.d.model = guard.model.record
    if answer is None:
        _answered()(guard.m, guard.d, guard.clock(), tau)
    else:
        answer(guard.clock(), tau)
    return guard.answer_torque


def idle_torque(guard):
    """Return the last torque (n,) of a deactivation."""
    guard.d.leaves = True
    tau = torque_to_send(guard)
    guard.d.leaves = False
    return tau


def _law_torque(guard, law):
    began = guard.clock()
    try:
        tau = law()
    except Exception as error:
        return _without_law(guard, f'{type(error).__name__}: {error}')
    guard.note_duration(guard.clock() - began)
    guard.watch()
    if tau.shape != (guard.robot.n,) or not np.isfinite(tau).all():
        return _without_law(guard, f'torque {tau.tolist()}')
    return np.ascontiguousarray(tau, dtype=np.float64)


def _without_law(guard, reason):
    guard.report_fault(NOT_FINITE, reason)
    guard.watch()
    return NO_LAW
