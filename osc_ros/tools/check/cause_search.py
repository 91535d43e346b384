# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Finds why an arm does not follow: repeats the demonstration with other parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import tee
from typing import Any

import numpy as np

from osc_ros.compile.compiled import on_demand
from osc_ros.control.limits.limits import FASTEST
from osc_ros.control.model_error.friction import least_inertia
from osc_ros.errors import OscError
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.node_settings import law_of
from osc_ros.ros.simulator.simulated_arm import plant_of
from osc_ros.tools.check import scenario
from osc_ros.tools.check.demonstration import Demonstration, start_parameters
from osc_ros.tools.check.judgement import Recording, Result, result
from osc_ros.tools.check.parameter_files import table_of
from osc_ros.tools.check.tracing import Tracer

Values = dict[str, Any]
Changes = dict[str, Values]

# Parameters that must be equal in the controller and in the simulated arm.
PAYLOAD = tuple(entry.name for entry in robot_parameters.SIMULATED_PAYLOAD)
EQUAL = ('gravity', 'driver_compensates', 'rotor_inertia')
ROTORS = (0.01, 0.03, 0.1, 0.3)  # assumed rotor inertias [kg m²]
# Observer: fast, because the friction torque of a joint that reverses changes by twice its size.
# No friction feedforward, because its bound for light joints disturbs the observer.
RISE = 0.03  # [s]
OBSERVER = {'disturbance.mode': 'observer', 'disturbance.rise': RISE,
            'friction.from_description': 0.0}
GAINS = ('translation.natural_frequency', 'rotation.natural_frequency')
BINDS = 0.98  # share of a limit that counts as reaching it
BEGIN = 0.2  # start time of the first motion [s]
OTHER_STARTS = (1, 2, 3)  # seeds of the random search for other start positions


@dataclass(frozen=True)
class Cause:
    """Why the arm does not follow, and parameters with which it followed in a trial."""

    text: str
    remedy: str = ''  # text on `changes` that completes 'the arm follows only with ...'
    changes: Changes = field(default_factory=dict)  # by node, '' for all; empty: no success


@dataclass(frozen=True, eq=False)
class Check:
    """Result of a check whether an arm follows the motions of the demonstration."""

    plan: list[scenario.Phase]
    result: Result | None  # with the user's parameters; None if the simulation failed
    cause: Cause | None  # why the arm does not follow; None if it does


@dataclass(frozen=True)
class _Candidate:
    """A possible cause, its remedy, and the parameters of the remedy by node."""

    finding: str
    remedy: str
    changes: Changes

    @property
    def text(self) -> str:
        return f'{self.finding}. With {self.remedy}, the arm follows.'

    def combine(self, other: _Candidate) -> _Candidate:
        """Return a candidate with the cause and remedy of this one and of another one."""
        return _Candidate(f'{self.finding}. {other.finding}', f'{self.remedy}, and {other.remedy}',
                          _merged(self.changes, other.changes))


def recording_of(demonstration: Demonstration, phases: int | None = None,
                 shown: Callable[[float], object] = lambda share: None
                 ) -> tuple[Recording, list[scenario.Phase]]:
    """Simulate the motions in this process, without ROS; return the recording and the phases."""
    # `phases`: the largest number of phases; `shown` receives the completed share. OscError if the
    # parameters do not fit each other or the robot, or the simulation diverges.
    controller, simulator = (demonstration.values[f'osc_{name}']
                             for name in ('controller', 'simulator'))
    _, law = law_of(controller, demonstration.text)
    robot, plan = demonstration.robot, demonstration.phases(BEGIN)[:phases]
    # a parameter file may give the simulator another description than the controller
    plant = plant_of(simulator, robot_parameters.description(simulator), robot)
    law.hold(plant.q)
    for phase in plan:
        law.follow(phase.motion, phase.start)
    recording, ticks = Recording(), 0
    steps = round(1.0 / (simulator['rate'] * simulator['timestep']))
    every = max(1, round(simulator['rate'] / simulator['report_rate']))
    while plant.time < plan[-1].end:
        q, qd, _ = plant.measured()
        tau = law.torque(plant.time, q, qd)
        law.plan()
        if ticks % every == 0:
            recording.pose_times.append(plant.time)
            recording.poses.append(plant.pose(robot.tip))
            shown(plant.time / plan[-1].end)
        recording.add_state(plant.time, q, qd, tau)
        plant.step(tau, steps)
        ticks += 1
    law.close()
    return recording, plan


def follow_check(demonstration: Demonstration, shown: Callable[[float, str], object]) -> Check:
    """Simulate the arm in this process, without ROS; return whether it follows, or why not."""
    # The cause is the first candidate with whose remedy the arm follows; friction alone is the
    # cause only if the arm follows without friction. `shown`: completed share of a trial, name of
    # the trial.
    with on_demand():
        plan, found = demonstration.phases(BEGIN), None
        try:
            recording, plan = recording_of(
                demonstration, shown=lambda share: shown(share, 'as it is'))
            found = result(recording, plan, demonstration)
            if not found.failures:
                return Check(plan, found, None)
            limits = _reached_limit(demonstration, recording)
        except OscError as error:
            limits = f'A repetition in this process fails: {error}'
        return Check(plan, found, _cause(demonstration, limits, shown))


def _cause(demonstration: Demonstration, limits: str, shown: Callable[[float, str], object]
           ) -> Cause:
    """Return as cause the first candidate with whose remedy the arm follows."""
    # `limits`: text on the reached limit. If no candidate helps, the cause has no remedy.
    for number, candidate in enumerate(_candidates(demonstration, limits), start=1):
        if _follows(demonstration.with_changes(candidate.changes),
                    partial(_show_trial, shown, number)):
            # keep the start: other start positions might be chosen for the changed arm
            return Cause(candidate.text, candidate.remedy, _merged(
                start_parameters(demonstration.start), candidate.changes))
    return Cause(f'{limits}. Nothing that was tried helps: the same payload, gravity and driver '
                 'for controller and simulator, compensation of all friction, an observer of what '
                 'the model lacks, other gains, smaller motions, other joint positions at the '
                 'start, rotor inertias.')


def _candidates(demonstration: Demonstration, limits: str) -> Iterator[_Candidate]:
    """Yield candidates, the most probable one first."""
    differences = list(_differences(demonstration))
    if not differences:
        yield from _causes_in_motion(demonstration, limits)
        return
    probable, reverse = differences
    yield probable
    equal = demonstration.with_changes(probable.changes)
    yield from map(probable.combine, _causes_in_motion(equal, limits))
    yield reverse


def _differences(demonstration: Demonstration) -> Iterator[_Candidate]:
    """Yield two candidates if the parameters of controller and simulated arm differ, else none."""
    # The first takes the differing values from the node whose values are not the defaults, the
    # second from the other node.
    nodes = 'osc_controller', 'osc_simulator'
    told, simulated = (demonstration.values[node] for node in nodes)
    found = []
    pairs = [((name,), _difference) for name in EQUAL]
    for names, text in ((PAYLOAD, _payload_difference), *pairs):
        different = [name for name in names if told[name] != simulated[name]]
        if different and text(told, simulated, names):
            default = {entry.name: entry.default for entry in table_of(nodes[1], simulated)}
            is_simulated = any(simulated[name] != default[name] for name in different)
            found.append((text(told, simulated, names), names[0].partition('.')[0], different,
                          is_simulated))
    for reverse in (False, True) if found else ():
        candidates = []
        for finding, what, different, is_simulated in found:
            of, to = nodes if is_simulated == reverse else nodes[::-1]
            candidates.append(_Candidate(
                finding, f'the {what} of {of} for {to} too',
                {to: {name: demonstration.values[of][name] for name in different}}))
        yield reduce(_Candidate.combine, candidates)


def _payload_difference(told: Values, simulated: Values, names: Sequence[str]) -> str:
    """Return a text on the difference of the payloads; empty if they have no mass."""
    more = simulated['payload.mass'] - told['payload.mass']
    if more:
        return (f"The arm carries {abs(more):.2f} kg {'more' if more > 0.0 else 'less'} than the "
                f"controller is told (payload.mass is {told['payload.mass']:g} for "
                f"osc_controller, {simulated['payload.mass']:g} for osc_simulator)")
    return ('The arm carries its payload with another centre of mass or inertia, or at another '
            'link, than the controller is told' if told['payload.mass'] else '')


def _difference(told: Values, simulated: Values, names: Sequence[str]) -> str:
    """Return a text on the difference of a parameter between the nodes."""
    [name] = names
    a, b = (list(x) if isinstance(x, tuple) else x for x in (told[name], simulated[name]))
    return f'{name} is {a} for osc_controller, but {b} for osc_simulator'


def _causes_in_motion(demonstration: Demonstration, limits: str) -> Iterator[_Candidate]:
    """Yield candidates for friction, reached limits, and combinations of both."""
    # Changes of the controller alone come first, then other motions, then another simulated arm.
    friction = _friction(demonstration)
    is_cause = bool(friction) and _follows(demonstration.with_changes(
        _without_friction(demonstration)))
    finding = friction if is_cause else limits
    if is_cause:
        yield from _compensations(demonstration, friction)
    yield from _controllers(demonstration, finding)
    if is_cause:
        yield from _rotors(demonstration, friction)
        return
    # friction is not the only cause: combine it with others only if none helps alone
    others, again = tee(_other_motions(demonstration, limits))  # slow search for start positions
    yield from others
    for other in list(again)[1::2] if friction else ():
        for one in (*_compensations(demonstration, friction),
                    *list(_rotors(demonstration, friction))[1:5]):
            yield other.combine(one)


def _controllers(demonstration: Demonstration, finding: str) -> Iterator[_Candidate]:
    """Yield candidates that add a disturbance observer to the controller, or change its gains."""
    values = demonstration.values['osc_controller']
    observer = _observer(demonstration)
    words = 'an observer in the controller that compensates what its model lacks ' \
            '(disturbance.mode: observer)'
    yield _Candidate(finding, words, {'osc_controller': observer})
    for factor, kind in ((2.0, 'higher'), (0.5, 'lower')):
        gains = {name: [factor * x for x in values[name]] for name in GAINS}
        text = (f'{kind} gains (natural frequencies of the tip up to '
                f'{max(map(max, gains.values())):g} rad/s)')
        if kind == 'lower':
            yield _Candidate(finding, text, {'osc_controller': gains})
        yield _Candidate(finding, f'{words} and {text}', {'osc_controller': {**observer, **gains}})


def _observer(demonstration: Demonstration) -> Values:
    """Return parameters of a disturbance observer that can compensate all friction."""
    friction = demonstration.robot.coulomb_friction + demonstration.robot.viscous_friction
    values = demonstration.values['osc_controller']
    return {**OBSERVER, 'disturbance.friction': max(values['disturbance.friction'],
                                                    float(friction.max()))}


def _other_motions(demonstration: Demonstration, limits: str) -> Iterator[_Candidate]:
    """Yield candidates with smaller motions, and with other start positions."""
    at = demonstration.start
    for scale in scenario.SCALES:
        if scale < at.scale:
            yield _Candidate(limits, f'motions of {scale:.0%} of the usual size',
                             start_parameters(scenario.Start(at.q, scale)))
    for seed in OTHER_STARTS:
        try:
            robot, freedoms = demonstration.loaded_robot, demonstration.freedoms
            start = scenario.start(Tracer(robot, freedoms), demonstration.duration,
                                   scenario.postures(robot, freedoms, seed))
        except OscError:
            continue
        yield _Candidate(limits, 'other joint positions at the start', start_parameters(start))


def _friction(demonstration: Demonstration) -> str:
    """Return a text on the friction of the simulated joints; empty without friction."""
    simulator, robot = demonstration.values['osc_simulator'], demonstration.robot
    parts = [f'{name} of up to {max(simulator[name] or described):g} {unit}'
             for name, described, unit in (('friction', robot.coulomb_friction, 'N m'),
                                           ('damping', robot.viscous_friction, 'N m s/rad'))
             if any(simulator[name] or described)]
    source = ('of osc_simulator' if simulator['friction'] or simulator['damping']
              else 'in <dynamics> of the robot description')
    return f"The joints have {' and '.join(parts)} ({source})" if parts else ''


def _compensations(demonstration: Demonstration, friction: str) -> Iterator[_Candidate]:
    """Yield a candidate that compensates all friction, if the controller does not do so."""
    changes, share = _whole_friction(demonstration), demonstration.values['osc_controller'][
        'friction.from_description']
    if changes:
        yield _Candidate(f'{friction}, of which the controller compensates only a part '
                         f'(friction.from_description: {share:g})', 'all friction compensated',
                         {'osc_controller': changes})


def _whole_friction(demonstration: Demonstration) -> Values:
    """Return parameters that compensate all friction; {} if the controller does so already."""
    simulator, controller = (demonstration.values[f'osc_{name}']
                             for name in ('simulator', 'controller'))
    robot, changes = demonstration.robot, {}
    for name, ours, described in (('friction', 'coulomb', robot.coulomb_friction),
                                  ('damping', 'viscous', robot.viscous_friction)):
        simulated = np.array(simulator[name] or described)
        compensated = np.array(controller[f'friction.{ours}']
                               or controller['friction.from_description'] * described)
        if (simulated > compensated).any():
            if np.array_equal(simulated, described) and not controller[f'friction.{ours}']:
                changes['friction.from_description'] = 1.0
            else:
                changes[f'friction.{ours}'] = simulated.tolist()
    return changes


def _rotors(demonstration: Demonstration, friction: str) -> Iterator[_Candidate]:
    """Yield candidates with assumed rotor inertias, smallest first; none if any is configured."""
    robot = demonstration.robot
    if any(demonstration.values['osc_controller']['rotor_inertia']):
        return
    inertia = least_inertia(robot)
    i = int(np.argmin(inertia))
    finding = (f"{friction}. That is much for joint '{robot.joint_names[i]}', which moves only "
               f'{inertia[i]:.2g} kg m²: it stops at once, so its compensation is bounded. A '
               'motor and gear with such friction has rotor inertia too, which a URDF cannot tell')
    for rotor in ROTORS:
        words = (f'an assumed rotor inertia of {rotor:g} kg m² at every joint, in controller and '
                 'simulated arm (take the values of your drives)')
        for more, changes in (('all friction compensated', _whole_friction(demonstration)),
                              ('disturbance.mode: observer', _observer(demonstration))):
            yield _Candidate(finding, f'{words}, and {more}',
                             {'': {'rotor_inertia': [rotor] * robot.n}, 'osc_controller': changes})


def _merged(first: Changes, second: Changes) -> Changes:
    return {node: {**first.get(node, {}), **second.get(node, {})} for node in {**first, **second}}


def _without_friction(demonstration: Demonstration) -> Changes:
    none = [0.0] * demonstration.robot.n
    return {'osc_simulator': {'friction': none, 'damping': none},
            'osc_controller': {'friction.coulomb': none, 'friction.viscous': none}}


def _reached_limit(demonstration: Demonstration, recording: Recording) -> str:
    """Return a text on the joint that was at its speed or torque limit for the longest time."""
    robot = demonstration.robot
    found = []
    for values, limits, what, unit in (
            (recording.velocities, FASTEST * robot.velocity_limits, 'speed', 'rad/s'),
            (recording.torques, demonstration.effort_limits, 'torque', 'N m')):
        reached = (np.abs(np.array(values)) >= BINDS * limits).mean(axis=0)
        i = int(np.argmax(reached))
        found.append((reached[i], f"Joint '{robot.joint_names[i]}' is at its limit of {what}, "
                      f'{limits[i]:.3g} {unit}, for {reached[i]:.1%} of the time'))
    share, text = max(found)
    return text if share > 0.0 else 'No joint reaches a limit of speed or torque'


def _show_trial(shown: Callable[[float, str], object], number: int, share: float) -> None:
    shown(share, f'trial {number}')


def _follows(demonstration: Demonstration,
             shown: Callable[[float], object] = lambda share: None) -> bool:
    """Return whether the arm follows; all phases are simulated only if it follows in the first."""
    try:
        return not any(result(*recording_of(demonstration, phases, shown), demonstration).failures
                       for phases in (1, None))
    except OscError:
        return False
