# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Evaluates a recorded demonstration: errors of the tip, and which of them are too large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osc_ros.control.reasons import KEY
from osc_ros.control.tasks.freedoms import Freedoms
from osc_ros.control.tasks.task import Target
from osc_ros.dynamics.algebra.kinematics import LinkAxes
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot
from osc_ros.tools.check.demonstration import Demonstration
from osc_ros.tools.check.scenario import errors as scenario_errors
from osc_ros.tools.check.scenario import Phase, reference

Array = NDArray[np.float64]

SETTLED = 0.3  # errors of a step are measured in this last fraction of its duration


@dataclass
class Recording:
    """Recorded data of one run."""

    pose_times: list[float] = field(default_factory=list)  # [s]
    poses: list[Array] = field(default_factory=list)  # (4, 4), tip, from the physics engine
    state_times: list[float] = field(default_factory=list)  # [s]
    positions: list[Array] = field(default_factory=list)  # (n,) [rad, m]
    velocities: list[Array] = field(default_factory=list)  # (n,) [rad/s, m/s]
    torques: list[Array] = field(default_factory=list)  # (n,) [N m, N], as applied by the engine
    diagnostics: dict[str, str] = field(default_factory=dict)  # last ones of the controller
    wall_time: float = 0.0  # duration of the run on the wall clock [s]
    warnings: list[str] = field(default_factory=list)  # in the logs of the nodes
    repetitions: int = 0  # runs before this one, not used: torques were late or poses were lost

    def add_state(self, time: float, q: Array, qd: Array, tau: Array) -> None:
        """Append a state: time [s], positions, velocities and torques (n,)."""
        self.state_times.append(time)
        for values, value in ((self.positions, q), (self.velocities, qd), (self.torques, tau)):
            values.append(np.array(value))

    def restart(self) -> None:
        """Keep only the last state and the last pose, and set their times to 0."""
        self.drop_states(len(self.state_times) - 1)
        del self.poses[:-1]
        self.state_times[:], self.pose_times[:] = [0.0], [0.0]

    def drop_states(self, count: int) -> None:
        """Drop the first states."""
        for values in (self.state_times, self.positions, self.velocities, self.torques):
            del values[:count]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Result:
    """Errors of the tip relative to the plan, and their evaluation."""

    times: Array  # (k,) [s]
    distances: Array  # (k,) [m]
    angles: Array  # (k,) [rad]
    figures: dict[str, Any]  # numbers of the printed table
    failures: list[str]  # texts on the errors that are too large


def result(recording: Recording, plan: list[Phase], demonstration: Demonstration) -> Result:
    """Return the errors of the tip relative to the plan, and which exceed their thresholds."""
    # Only errors along the controlled axes count; the thresholds are parameters of osc_demo.
    # InputError if too few poses were recorded.
    robot, freedoms = demonstration.robot, demonstration.freedoms
    thresholds = demonstration.values['osc_demo']
    times = np.array(recording.pose_times)
    target_at = reference(plan, recording.poses[0])
    errors = scenario_errors(
        np.array(recording.poses), np.array([target_at(time).pose for time in times]), freedoms,
        _frames(recording, robot, freedoms.frame))
    figures: dict[str, Any] = {}
    failures = []
    for number, phase in enumerate(plan):
        part = errors[_counts(times, phase, number)]
        kind, norm = ('settled', _largest) if number else ('tracking', _rms)
        if len(part) < 2:
            raise InputError(f'{phase.name}: too few poses were recorded: is this machine too '
                             'busy, or does another simulation use the same ROS_DOMAIN_ID?')
        figures[phase.name] = {
            'position rms [mm]': 1e3 * _rms(part[:, 0]),
            'position max [mm]': 1e3 * _largest(part[:, 0]),
            'orientation rms [deg]': float(np.degrees(_rms(part[:, 1]))),
            'orientation max [deg]': float(np.degrees(_largest(part[:, 1]))),
        }
        for column, what, unit, scale in ((0, 'position', 'mm', 1e3),
                                          (1, 'orientation', '°', 180.0 / np.pi)):
            found, accepted = norm(part[:, column]), thresholds[f'{kind}_{what}']
            if not found <= accepted:
                failures.append(f'{phase.name}: {what} error {scale * found:.3g} {unit}, '
                                f'must be {scale * accepted:.3g} {unit}')
    use = np.abs(np.array(recording.torques)) / demonstration.effort_limits
    values = recording.diagnostics
    if failures:
        failures += [f'the controller says: {value}' for key, value in values.items()
                     if key.startswith(KEY)]
    figures['control'] = {
        **{key: float(value) for key, value in values.items()
           if key.startswith(('update p', 'update max'))},
        **_rates(recording),
        'missed states': int(values.get('missed states', -1)),
        'refused states': int(values.get('refused states', -1)),
        'largest torque [% of limit]': 100.0 * float(use.max()),
        'rms torque [% of limit]': 100.0 * _rms(use.ravel()),
    }
    if recording.repetitions:
        figures['control']['runs before, not judged'] = recording.repetitions
    return Result(times, errors[:, 0], errors[:, 1], figures, failures)


def _frames(recording: Recording, robot: Robot, link: str) -> Array:
    """Return the axes (k, 3, 3) of a link for each pose; if `link` is empty, those of the base."""
    if not link:
        return np.repeat(np.eye(3)[None], len(recording.poses), axis=0)
    axes = LinkAxes(robot, link)
    states = np.searchsorted(recording.state_times, np.array(recording.pose_times) - 1e-9)
    return np.array([axes.at(recording.positions[k])[:3, :3]
                     for k in np.minimum(states, len(recording.positions) - 1)])


def last_error(recording: Recording, target_at: Callable[[float], Target], robot: Robot,
               freedoms: Freedoms) -> tuple[float, float]:
    """Return distance [m] and angle [rad], along the controlled axes, from last pose to target."""
    R = LinkAxes(robot, freedoms.frame).at(recording.positions[-1])[:3, :3] if (
        freedoms.frame) else np.eye(3)
    target = target_at(recording.pose_times[-1]).pose
    [(distance, angle)] = scenario_errors(recording.poses[-1][None], target[None], freedoms,
                                          R[None])
    return float(distance), float(angle)


def error_table(found: Result, plan: list[Phase]) -> list[str]:
    """Return the lines of a table with the errors of all phases."""
    lines = [f'{"":24}{"position error [mm]":>24}{"orientation error [deg]":>28}',
             f'{"":24}{"rms":>12}{"max":>12}{"rms":>16}{"max":>12}']
    for phase in plan:
        figures = found.figures.get(phase.name)
        if figures:
            a, b, c, d = figures.values()
            note = '' if phase is plan[0] else ', settled'
            lines.append(f'{phase.name + note:24}{a:12.3f}{b:12.3f}{c:16.4f}{d:12.4f}')
    return lines


def lacks_poses(recording: Recording, plan: list[Phase]) -> bool:
    """Whether too few poses of a phase were recorded to evaluate the phase."""
    times = np.array(recording.pose_times)
    return any(np.count_nonzero(_counts(times, phase, number)) < 2
               for number, phase in enumerate(plan))


def _counts(times: Array, phase: Phase, number: int) -> NDArray[np.bool_]:
    """Return for each time [s] whether the error at this time counts for the phase."""
    return (times >= begin_of_errors(phase, number)) & (times < phase.end)


def begin_of_errors(phase: Phase, number: int) -> float:
    """Return the time from which the errors of a phase count."""
    # For a path (phase 0) it is the start, for a step it is shortly before the end.
    return phase.end - SETTLED * (phase.end - phase.start) if number else phase.start


def _rates(recording: Recording) -> dict[str, float]:
    """Return the rate of the joint states in simulated time and on the wall clock [Hz]."""
    # From the median interval, because some states may be missing in a recording.
    times, passed = recording.state_times, recording.wall_time
    rate = 1.0 / float(np.median(np.diff(times)))
    return {'rate in simulated time [Hz]': rate, 'rate on the wall clock [Hz]':
            rate * (times[-1] - times[0]) / passed if passed > 0.0 else float('nan')}


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x)))
