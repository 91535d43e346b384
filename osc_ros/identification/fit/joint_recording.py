# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Recordings of joint positions and torques over time: files and checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osc_ros.errors import InputError
from osc_ros.recording.recorded_joints import joint_recording

Array = NDArray[np.float64]

SHORTEST = 3.0  # smallest duration of a recording [s]
SLOWEST = 50.0  # smallest mean rate [Hz]
LONGEST_GAP = 0.1  # largest time between two samples [s]
QUANTITIES = ('position', 'torque')


@dataclass(frozen=True, eq=False)
class Recording:
    """Positions and torques of joints."""

    joints: tuple[str, ...]  # names of the n joints
    time: Array  # (k,) [s]
    position: Array  # (k, n) [rad, m]
    # (k, n) motor torque at the joint side of the gear, including the torque that a driver adds:
    # efforts of the joint states, or commands [N m, N]
    torque: Array

    def of_joints(self, joints: Sequence[str]) -> Recording:
        """Return a recording of these joints, in this order; InputError if one is missing."""
        missing = [name for name in joints if name not in self.joints]
        if missing:
            raise InputError(f"the recording lacks joint '{missing[0]}' (has: "
                             f"{', '.join(self.joints)})")
        order = [self.joints.index(name) for name in joints]
        return Recording(tuple(joints), self.time, self.position[:, order], self.torque[:, order])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording to a file: .npz, or .csv with a header."""
        if Path(path).suffix == '.npz':
            np.savez_compressed(path, joints=np.array(self.joints), time=self.time,
                                position=self.position, torque=self.torque)
            return
        header = ['time', *(f'{name}.{what}' for what in QUANTITIES for name in self.joints)]
        np.savetxt(path, np.column_stack([self.time, self.position, self.torque]),
                   delimiter=',', header=','.join(header), comments='', fmt='%.9g')

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Return the recording of a file: rosbag2 folder, .mcap, .npz or .csv."""
        # rosbag2, .mcap: joint_states with efforts; .npz: arrays joints (n,), time (k,), position
        # and torque (k, n); .csv: header with time, JOINT.position and JOINT.torque. InputError if
        # the file cannot be read, or lacks a column.
        path = Path(path)
        if path.is_dir() or path.suffix == '.mcap':
            return cls(*joint_recording(path))
        try:
            return _from_npz(path) if path.suffix == '.npz' else _from_csv(path)
        except (OSError, KeyError, ValueError) as error:
            raise InputError(f"recording '{path}' cannot be read ({error}): give .npz with "
                             'joints, time, position, torque, or .csv with the columns time, '
                             'JOINT.position, JOINT.torque') from None

    def require_usable(self) -> None:
        """Raise InputError if the recording cannot be used."""
        # Reasons are wrong shapes, numbers that are not finite, torques that are missing or all
        # zero, times that do not increase, gaps, and a duration or a rate that is too low.
        n, k = len(self.joints), len(self.time)
        for name, value in (('position', self.position), ('torque', self.torque)):
            if value.shape != (k, n):
                raise InputError(f'the recording has {name}s of shape {value.shape}: must be '
                                 f'({k}, {n}), a row for each time and a column for each joint')
            self._require_finite(name, value)
        if not np.isfinite(self.time).all():
            raise InputError('the recording has times that are not finite: give numbers')
        if not self.torque.any():
            raise InputError('the recording has no torques (all are zero): the driver reports no '
                             'efforts; record the commands in their place')
        for i in np.flatnonzero(~self.torque.any(axis=0)).tolist():
            raise InputError(f"joint '{self.joints[i]}' has no torques (all are zero): give "
                             'measured or commanded torques')
        if k < 2 or self.time[-1] - self.time[0] < SHORTEST:
            raise InputError(f'the recording has {k} samples: give {SHORTEST:g} s or '
                             'more')
        steps = np.diff(self.time)
        if not (steps > 0.0).all():
            at = float(self.time[int(np.argmax(steps <= 0.0))])
            raise InputError(f'the times of the recording do not increase after {at:g} s')
        if np.mean(steps) > 1.0 / SLOWEST:
            raise InputError(f'the recording has {1.0 / np.mean(steps):.0f} samples per second: '
                             f'give {SLOWEST:g} or more')
        if steps.max() > LONGEST_GAP:
            at = float(self.time[int(np.argmax(steps))])
            raise InputError(f'the recording has a gap of {steps.max():.2f} s at {at:g} s: '
                             f'must be at most {LONGEST_GAP:g} s')

    def _require_finite(self, name: str, value: Array) -> None:
        bad = ~np.isfinite(value)
        if bad.all(axis=0).any():
            joint = self.joints[int(np.argmax(bad.all(axis=0)))]
            raise InputError(f"joint '{joint}' has no {name}s: must be finite numbers")
        if bad.any():
            k, i = np.argwhere(bad)[0].tolist()
            raise InputError(f"{name} of joint '{self.joints[i]}' is {value[k, i]} at "
                             f'{self.time[k]:g} s: must be finite numbers')


def _from_npz(path: Path) -> Recording:
    with np.load(path, allow_pickle=False) as data:
        arrays = [np.asarray(data[name], dtype=np.float64) for name in ('time', *(QUANTITIES))]
        return Recording(tuple(str(name) for name in data['joints']), *arrays)


def _from_csv(path: Path) -> Recording:
    with path.open(encoding='utf-8') as file:
        columns = [name.strip() for name in file.readline().split(',')]
        values = np.loadtxt(file, delimiter=',', ndmin=2)
    joints = tuple(name.removesuffix('.position') for name in columns
                   if name.endswith('.position'))
    if not joints:
        raise ValueError(f"columns {', '.join(columns)}")
    if values.shape[1] != len(columns):
        raise ValueError(f'{len(columns)} columns in the header, {values.shape[1]} in the rows')
    parts = [values[:, [columns.index(f'{joint}.{what}') for joint in joints]]
             for what in QUANTITIES]
    return Recording(joints, values[:, columns.index('time')], *parts)
