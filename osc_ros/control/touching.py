# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Comparison of external torques with thresholds, as a compiled function on records."""

from __future__ import annotations

import numpy as np

from osc_ros.control import external
from osc_ros.control.compensation import SETTLED
from osc_ros.control.record import Slot, Table
from osc_ros.dynamics.compiled import kernel

RELIABLE = 0.5  # a wrench of lower quality is not compared with its thresholds
# what `touched` returns, beside the number of a joint
NOT_TOUCHED, FORCE, MOMENT = -1, -2, -3

CONTACT = Table(
    'Contact',
    Slot('watches', (1,), '', '1 if the torques are compared'),
    Slot('comes_first', (1,), '', '1 if torques depend on the external torques at the same state'),
    Slot('learns', (1,), '', '1 if only the largest ones are noted'),
    Slot('thresholds', ('n',), 'N·m, N', 'larger external torques are a contact'),
    Slot('wrench', (2,), 'N, N·m', 'larger force and moment on the link are one, too'),
    Slot('compensation', ('n',), 'N·m, N', 'compensation in force: thresholds hold for the sum of '
         'external torque and compensation'),
    Slot('peaks', ('n',), 'N·m, N', 'largest external torques so far'),
    Slot('peak_wrench', (2,), 'N, N·m', 'largest force and moment so far'),
    Slot('value', (1,), 'N·m, N', 'torque, force or moment of the last contact'))

_views, contact_views = CONTACT.views, CONTACT.only('comes_first', 'compensation')
_state_views = external.STATE.only('missing', 'torque')
_result_views = external.RESULT.only('wrench', 'quality')


@kernel
def touched(contact, forces, estimate, n):
    """
    Index of the joint whose torque exceeds its threshold most; or FORCE, MOMENT, NOT_TOUCHED.

    Parameters
    ----------
    contact : array
        Record of CONTACT.
    forces, estimate : arrays
        Records of `osc_ros.control.external`: STATE and RESULT.
    n : int
        Number of joints.

    """
    at, now, wrench = _views(contact, n), _state_views(forces, n), _result_views(estimate, n)
    if at.watches[0] == 0.0 or 1.0 - now.missing[0] < SETTLED:
        return NOT_TOUCHED
    found, worst, sizes = NOT_TOUCHED, 1.0, at.peak_wrench
    for k in range(n):
        value = now.torque[k] + at.compensation[k]
        at.peaks[k] = max(at.peaks[k], np.abs(value))
        if np.abs(value) > worst * at.thresholds[k]:
            found, worst, at.value[0] = k, np.abs(value) / at.thresholds[k], value
    turning, pushing = 0.0, 0.0
    for k in range(3):
        turning += wrench.wrench[k] * wrench.wrench[k]
        pushing += wrench.wrench[3 + k] * wrench.wrench[3 + k]
    turning, pushing = np.sqrt(turning), np.sqrt(pushing)
    sizes[0], sizes[1] = max(sizes[0], pushing), max(sizes[1], turning)
    if found == NOT_TOUCHED and wrench.quality[0] >= RELIABLE:
        if pushing > at.wrench[0]:
            found, at.value[0] = FORCE, pushing
        elif turning > at.wrench[1]:
            found, at.value[0] = MOMENT, turning
    return NOT_TOUCHED if at.learns[0] > 0.0 else found
