# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Recordings of the states of an arm: plots, a NumPy file, or a rosbag2 bag."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from osc_ros.client.backend import ArmState
from osc_ros.errors import ArmError, InputError, require_type
from osc_ros.recording import cdr
from osc_ros.recording.bag import BagWriter, required_module

FIELDS = 'time', 'q', 'qd', 'torque', 'pose', 'error', 'force'
FORCE = 'geometry_msgs/msg/Vector3Stamped'


class Recording:
    """
    Collects states; `stop` writes them to a file, if there is a path; `plot` draws them.

    A file .npz has one array for each field of `ArmState`, with one row for each state, and
    `joint_names`: `numpy.load(path)['q']`. A path without a suffix is the folder of a rosbag2 bag
    in MCAP, for Foxglove and `ros2 bag`, with the topics /joint_states (commanded torques as
    efforts), /pose, /pose_error, and /force if it is known.

    Parameters
    ----------
    path : str or path, optional
        A path with the suffix .npz, or a path without suffix that does not exist yet.
    joint_names : tuple of str
    stopped : callable
        Called when the recording stops.

    Raises
    ------
    InputError
        Another suffix; the parent folder does not exist, or the bag does; the file cannot be
        written; for a bag, the extra 'record' is not installed.

    """

    def __init__(self, path: str | os.PathLike[str] | None, joint_names: tuple[str, ...],
                 stopped: Callable[[], None]) -> None:
        require_type('path', path, (str, os.PathLike, type(None)), 'a str or a path')
        self.path = None if path is None else Path(path)
        if self.path and (self.path.suffix not in ('', '.npz')
                          or not self.path.absolute().parent.is_dir()):
            raise InputError(f"recording '{self.path}': give a file with the ending .npz, "
                             'or a name without ending for a bag, in a folder that exists')
        self._bag = (BagWriter(self.path, _definition) if self.path and not self.path.suffix
                     else None)
        if self.path and self._bag is None:
            _require_writable(self.path)
        self._names, self._stopped = joint_names, stopped
        self._states: list[ArmState] = []
        self._is_open, self._is_written = True, False

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self._states)

    def add(self, state: ArmState) -> None:
        """Add a state, unless the recording has stopped."""
        if self._is_open:
            self._states.append(state)

    def stop(self) -> Path | None:
        """
        Write the file or the bag; return its path, None without one.

        ArmError if it cannot be written: after a change of `path`, another call writes a file
        .npz there.

        """
        if self._is_open:
            self._is_open = False
            self._stopped()
        if self.path is not None and not self._is_written:
            try:
                self.path = self._write(self.path)
            except OSError as error:
                raise ArmError(f"recording '{self.path}' could not be written: {error}") from error
            self._is_written = True
        return self.path

    def _write(self, path: Path) -> Path:
        if self._bag is not None:
            write_states(self._bag, self._names, self._states)
            return self._bag.close()
        np.savez_compressed(path, joint_names=np.array(self._names), **self._columns())
        return path

    def _columns(self) -> dict[str, Any]:
        states = list(self._states)  # another thread may be in `add`
        return {name: np.array([getattr(state, name) for state in states]) for name in FIELDS}

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """
        Return a matplotlib figure of position, distance to the set-point, force and torques.

        >>> recording.plot('run.png')                               # doctest: +SKIP

        Parameters
        ----------
        path : str or path, optional
            File to save the figure in: .png, .svg or .pdf.

        Raises
        ------
        InputError
            There is no state, or matplotlib is not installed.
        ArmError
            The file cannot be written.

        """
        if not self._states:
            raise InputError('there is nothing to plot: no state was recorded')
        figure = drawn(self._columns(), self._names)
        if path is not None:
            try:
                figure.savefig(path, dpi=90)
            except (OSError, ValueError) as error:
                raise ArmError(f"plot '{path}' could not be written: {error}") from error
        return figure

    def __enter__(self) -> Recording:
        """Return the recording."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Write the file."""
        self.stop()


def drawn(columns: dict[str, Any], joints: tuple[str, ...]) -> Any:
    """Return a figure of the fields of states, with a row for each time."""
    position, error = columns['pose'][:, :3, 3], columns['error']
    panels: list[tuple[str, tuple[str, ...], Any]] = [
        ('position of the tip [m]', ('x', 'y', 'z'), position),
        ('distance to the set-point [mm]', ('',),
         1e3 * np.linalg.norm(error[:, 3:], axis=1, keepdims=True)),
        ('contact force [N]', ('x', 'y', 'z'), columns['force']),
        ('torque [N·m, N]', joints, columns['torque'])]
    if np.isnan(columns['force']).all():
        del panels[2]  # nothing estimates it
    figure = required_module('matplotlib.figure').Figure(
        figsize=(9, 2.2 * len(panels)), layout='constrained')
    axes = figure.subplots(len(panels), sharex=True)
    for axis, (label, names, values) in zip(axes, panels, strict=True):
        for name, line in zip(names, values.T, strict=True):
            axis.plot(columns['time'], line, label=name, linewidth=1.2)
        axis.set_ylabel(label, fontsize='small')
        axis.grid(color='0.9')
        if len(names) > 1:
            axis.legend(fontsize='small', loc='center left', bbox_to_anchor=(1.0, 0.5))
    axes[-1].set_xlabel('time [s]')
    return figure


def _definition(kind: str) -> str:
    """Return the definition of the type FORCE, the only one that `cdr` does not know."""
    return cdr.definition('std_msgs/Header header\nVector3 vector\n', **cdr.STAMPED,
                          geometry_msgs__Vector3=cdr.VECTOR)


def _require_writable(path: Path) -> None:
    """Raise InputError if a file cannot be written; a file that exists keeps its content."""
    is_new = not path.exists()
    try:
        with open(path, 'ab'):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise InputError(f"recording '{path}' cannot be written: {error.strerror}: give a "
                         'file in a folder where you may write') from None


def write_states(bag: BagWriter, names: tuple[str, ...], states: list[ArmState]) -> None:
    """Write states to a bag, at the times of the arm's clock."""
    for state in states:
        time = round(1e9 * state.time)
        stamp = divmod(time, 1_000_000_000)
        pose = [*state.pose[:3, 3], *Rotation.from_matrix(state.pose[:3, :3]).as_quat()]
        twist = np.hstack([state.error[3:], state.error[:3]])  # linear, then angular
        bag.write('/joint_states', cdr.STATES, time,
                  cdr.joint_state(stamp, names, state.q, state.qd, state.torque))
        bag.write('/pose', cdr.POSE, time, cdr.stamped_message(stamp, 'base', pose))
        bag.write('/pose_error', cdr.TWIST, time, cdr.stamped_message(stamp, 'base', twist))
        if np.isfinite(state.force).all():
            bag.write('/force', FORCE, time, cdr.stamped_message(stamp, 'base', state.force))
