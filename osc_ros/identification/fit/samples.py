# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Samples for a regression: derivatives, and the same filter for torques and regressor.

Positions are filtered without phase shift and differentiated. Measured torques and every column of
the regressor then pass the same low-pass filter, which therefore does not bias the estimate. They
are resampled at a lower rate, at which errors of different samples are nearly independent
("parallel filtering": Gautier, "Dynamic identification of robots with power model", ICRA 1997).
"""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.signal import butter, sosfiltfilt

from osc_ros.identification.fit.joint_recording import Recording

Array = NDArray[np.float64]

POSITION_CUTOFF = 20.0  # cut-off frequency of the position filter [Hz]
CUTOFF = 5.0  # cut-off frequency of the filter of torques and columns [Hz]
RATE = 200.0  # smallest rate at which the regressor is computed [Hz]
PER_CUTOFF = 4.0  # samples of the regression per period of CUTOFF
EDGE = 0.3  # excluded time at both ends [s]
DIVISIONS = 4  # order of the filter, which runs forward and backward


@dataclass(frozen=True, eq=False)
class Samples:
    """Filtered motion and torques at a constant rate."""

    time: Array  # (k,) [s]
    q: Array  # (k, n) [rad, m]
    qd: Array  # (k, n) [rad/s, m/s]
    qdd: Array  # (k, n) [rad/s², m/s²]
    torque: Array  # (k, n) [N m, N]
    period: float  # [s]

    def filtered(self, columns: Array) -> Array:
        """Return columns (k, ...) after the low-pass filter, at the rate of the regression."""
        step = max(1, int(1.0 / (PER_CUTOFF * CUTOFF * self.period)))
        edge = math.ceil(EDGE / self.period)
        return low_passed(columns, CUTOFF, self.period)[edge:len(columns) - edge:step]


def low_passed(values: Array, cutoff: float, period: float) -> Array:
    """Return values (k, ...) after a zero-phase Butterworth filter, cut-off in [Hz]."""
    if cutoff >= 0.45 / period:
        return values
    sections = butter(DIVISIONS, 2.0 * cutoff * period, output='sos')
    return np.asarray(sosfiltfilt(sections, values, axis=0))


def samples(recording: Recording) -> Samples:
    """Return the samples of a recording at a constant rate."""
    # InputError if the recording cannot be used, see `Recording.require_usable`
    recording.require_usable()
    time = recording.time - recording.time[0]
    period = float(np.median(np.diff(time)))
    step = max(1, int(1.0 / (RATE * period)))
    even = np.arange(0.0, time[-1], period)
    position = CubicSpline(time, recording.position)(even)
    torque = np.column_stack([np.interp(even, time, column) for column in recording.torque.T])
    q = low_passed(position, POSITION_CUTOFF, period)
    motion = CubicSpline(even, q)
    at = even[::step]
    torque = low_passed(torque, 0.4 / (step * period), period)[::step] if step > 1 else torque
    return Samples(at, motion(at), motion(at, 1), motion(at, 2), torque, step * period)
