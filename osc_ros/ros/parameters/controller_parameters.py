# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Table of the parameters of osc_controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from osc_ros.control.accepted import FULL_SPEED
from osc_ros.control.joint_drive import JointDrive
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.contact import Contact
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.safety.supervision import (
    CONTACT,
    DEADLINE,
    DEFAULT_WATCHDOGS,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    PAYLOAD,
    REACTIONS,
    STALE_STATE,
    STALE_TARGET,
    Supervision,
    TOO_NEAR,
    Watchdog,
)
from osc_ros.control.safety.supervision import (
    VELOCITY as VELOCITY_WATCHDOG,
)
from osc_ros.control.setpoint.chunks import ChunkBlending
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.streams import Following
from osc_ros.control.settings import Observation, Settings
from osc_ros.control.tasks.feedback import KINDS
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.task import (
    AXES,
    ForceControl,
    Gains,
    Stiffness,
    TargetLimits,
    Task,
)
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.methods import METHODS
from osc_ros.errors import InputError
from osc_ros.loop.engine import STALE_OBSTACLES
from osc_ros.loop.startup import CHECKS
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.clearance_parameters import CLEARANCE
from osc_ros.ros.parameters.display_parameters import DISPLAY
from osc_ros.ros.parameters.parameters import entries, Entry
from osc_ros.ros.parameters.state_input import FROM, VELOCITY

OTHER_PUBLISHER = 'other_publisher'
ON_ACTIVATION = f'watchdog.{OTHER_PUBLISHER}.on_activation'
MOTION = ('motion',) * 3
# Accepted reactions of all watchdogs but that of contacts.
USUAL = tuple(name for name in REACTIONS if name not in ('comply', 'retract'))
# The journal of the control loop, and the files that it is written to.
RECORDING = (
    Entry('black_box.duration', 30.0, 'The inputs of the control loop of this time are kept in '
          'memory, and written to a file when a watchdog replaces the law, and for osc_record '
          '[s]; 0: off', lower=0.0, upper=3600.0),
    Entry('black_box.megabytes', 32.0, 'Most memory for that, which shortens the time if '
          'necessary [MB]', lower=2.0, upper=1024.0, fixed=True),
    Entry('black_box.directory', '', 'Folder of these files; empty: osc_black_box in the '
          "folder of ROS's logs", fixed=True),
    Entry('black_box.files', 10, 'Most files of this process, and of ended ones of the same '
          'node name, in that folder; the oldest are removed; 0: none are written',
          lower=0, upper=1000, fixed=True),
)


@dataclass(frozen=True)
class WatchdogEntry:
    """One watchdog of the controller, with its two parameters `watchdog.NAME.…`."""

    name: str  # of the cause in `Supervisor.report_fault` and `Supervisor.reset_timeout`
    cause: str  # text after 'Reaction to' in the description of the parameter
    timeout: str = ''  # name of the parameter with the time-out of the watchdog [s]; '': none
    reactions: tuple[str, ...] = USUAL  # accepted reactions
    usual: str = 'report'  # default reaction, if the watchdog is not in DEFAULT_WATCHDOGS

    @property
    def default(self) -> Watchdog:
        """Default settings of the watchdog."""
        return DEFAULT_WATCHDOGS.get(self.name, Watchdog(self.usual))

    @property
    def entries(self) -> tuple[Entry, Entry]:
        """Parameters `reaction` and `latched` of the watchdog."""
        return (
            Entry(f'watchdog.{self.name}.reaction', self.default.reaction,
                  f'Reaction to {self.cause}', choices=self.reactions, live=True),
            Entry(f'watchdog.{self.name}.latched', self.default.latched, 'true: the reaction '
                  'lasts until ~/release is called; false: until the cause is gone', live=True))


WATCHDOGS = (
    WatchdogEntry(STALE_STATE, 'missing joint states; hold and damp brake the arm along '
                  'a state that the model predicts, then hold its weight there', 'state_timeout',
                  USUAL[1:]),
    WatchdogEntry(STALE_TARGET, 'missing targets', 'target_timeout'),
    WatchdogEntry(NOT_FINITE, 'joint states or torques that are not finite, or cannot be '
                  'computed'),
    WatchdogEntry(JUMP, 'a position step of more than twice what the speed limit allows'),
    WatchdogEntry(OVERSPEED, 'a measured joint speed above 1.2 times limits.velocity in '
                  'two states in a row, or 1.5 times in one'),
    WatchdogEntry(VELOCITY_WATCHDOG, 'measured velocities that do not fit the positions; '
                  'estimates replace them until ~/release or the next activation'),
    WatchdogEntry(OTHER_PUBLISHER, 'another publisher on the command topic, checked '
                  'once a second'),
    WatchdogEntry(STALE_OBSTACLES, 'missing messages on ~/obstacles', 'obstacles.timeout',
                  usual='hold'),
    WatchdogEntry(TOO_NEAR, 'a pair of links, or a link and an obstacle or the fence, that is '
                  'nearer than a quarter of clearance.margin, as when an obstacle is faster than '
                  'the arm can give way. With another reaction than report the arm gives way no '
                  'longer; when it ends, the arm tries again'),
    WatchdogEntry(PAYLOAD, 'the arm moves as without its payload, and a joint at more than 30 % '
                  'of its speed limit: the arm does not carry it'),
    WatchdogEntry(CONTACT, 'external torques above contact.torque, contact.force or '
                  'contact.moment; comply: stop, and give way like a weak spring; retract: go '
                  'back along the way that the arm came', reactions=REACTIONS),
    WatchdogEntry(DEADLINE, 'an update that takes longer than a period of `rate`'),
)

TASKS = Entry('tasks', (), 'Names of further tasks, highest priority first, all below the tip; '
              'each has parameters and topics of its name; read when the node starts', of=str)

_START = (
    *(replace(entry, live=entry.name == 'gravity') for entry in robot_parameters.ENTRIES),
    *robot_parameters.LOAD_ENTRIES,
    Entry('method', 'sweep', f"Method of the dynamics: {', '.join(METHODS)}",
          choices=tuple(METHODS)),
    Entry('workers', 1, "Processes that share the elimination of a plain chain, with 'sweep'; 0 "
          'measures which number is fastest; more than 1 make an update slower (2 with 12, 64, '
          '200 joints: 2.8, 2.1, 1.7 times as long)', lower=0, upper=1024, fixed=True),
    Entry('autostart', True, 'Configure and activate without a lifecycle request'),
    Entry('rate', 500.0, 'Expected rate of the joint states [Hz]; longer gaps count as missed '
          'states, longer updates as missed deadlines; limits the gains', lower=1.0,
          upper=20000.0, when='joint states do not come 500 times a second'),
    VELOCITY,
    FROM,
    Entry('realtime.priority', 0, 'SCHED_FIFO priority of all threads of the process; 0: normal '
          'scheduling', lower=0, upper=99, fixed=True),
    Entry('realtime.lock_memory', False, 'Lock all memory of the process into RAM', fixed=True),
)

_SAFETY = (
    *entries(Supervision, begin='idle'),
    Entry('state_timeout', DEFAULT_WATCHDOGS[STALE_STATE].timeout, 'Joint states are stale after '
          'this time without a valid one; from 5 s on, as with a simulation in lockstep, states '
          'wait for the plans of targets [s]', lower=1e-3, upper=60.0, live=True),
    Entry('target_timeout', np.inf, 'Targets are stale after this time without one, or since the '
          'end of a path [s]', lower=1e-3, live=True),
    *(entry for watchdog in WATCHDOGS for entry in watchdog.entries),
    Entry(ON_ACTIVATION, 'refuse', 'Answer to an activation while another controller is active or '
          'another node publishes on the command topic: refuse, name that node and stay inactive '
          '(with autostart: wait); accept, for example behind osc_relay, which forwards one of '
          'them', choices=('refuse', 'accept'), live=True),
    *entries(Supervision, begin=('stop_rate', 'fade_time', 'settle_time')),
    Entry('startup_check', 'certain', 'If efforts at rest do not agree with the model: certain, '
          'refuse what is beyond doubt (more than 5 % of an effort limit, a sign, gravity), warn '
          'of the rest; refuse; warn, and compensate a load', choices=CHECKS, live=True),
    Entry('report_rate', 50.0, 'Rate of ~/pose, ~/pose_error and ~/goal_error, and of the checks '
          'whether a goal has been reached [Hz]; 0: no reports, and a check once a second',
          lower=0.0, upper=20000.0, live=True),
)

_TIP = (
    Entry('mode', 'acceleration', 'Control of the tip: acceleration, a linear system of given '
          'natural frequency and damping ratio; impedance, a spring of given stiffness and that '
          'damping ratio, with the inertia of the arm; free, a hand guides the arm, see '
          'free.* and ~/free_drive; joints, the joints follow motions of their own, see joints.* '
          'and ~/target_joint', choices=('acceleration', 'impedance', 'free', 'joints'), live=True,
          when='the tip is to yield like a spring (impedance), or to a hand (free)'),
    *entries(Gains, Stiffness, Task, begin='translation'),
    *entries(Gains, Stiffness, Task, begin=('rotation', 'task')),
)

SPEED = 'speed_override'

_TARGET = (
    Entry(SPEED, FULL_SPEED, 'Speed of all motions of the tip, the joints and the posture '
          'relative to their own [%]; also set by ~/speed; 0: the set-points stand; an arm that '
          'is not simulated starts with 0.1 m/s and 0.3 rad/s at most unless this is set',
          lower=0.0, upper=FULL_SPEED, live=True),
    *entries(TargetLimits, begin='target.translation'),
    *entries(TargetLimits, begin=('target.rotation', 'target.too_fast')),
    Entry('target.twist_timeout', 0.2, 'A twist is followed for this time after its stamp [s]',
          lower=1e-3, upper=60.0, live=True),
    *entries(Following, ChunkBlending, begin=('target.stream', 'target.chunk')),
    *entries(ChunkBlending, begin='target.slow_down'),
    Entry('goal.translation.tolerance', 2e-3, 'Largest distance from a goal that has been reached '
          '[m]', lower=1e-9, upper=1.0, live=True),
    Entry('goal.rotation.tolerance', 1e-2, 'Largest angle to a goal that has been reached [rad]',
          lower=1e-9, upper=3.2, live=True),
    Entry('goal.settle_time', 0.1, 'A goal has been reached when the link has been within both '
          'tolerances for this time [s]', lower=0.0, upper=60.0, live=True),
    Entry('workspace.lower', (), 'Lower bounds of the set-point along x y z of the base; empty: '
          'unbounded [m]', size=3, live=True),
    Entry('workspace.upper', (), 'Upper bounds of the set-point along x y z of the base; empty: '
          'unbounded [m]', size=3, live=True),
)

_FORCE = (
    *entries(ForceControl),
    Entry('force.measured', 'by_robot', 'Sign of ~/measured_wrench: the wrench by the robot on '
          'its environment, or on the robot', choices=('by_robot', 'on_robot'), live=True),
    *entries(Settings),
)

_JOINTS = (
    *entries(Posture, SingularityDamping),
    Entry('friction.from_description', 0.0, 'Share of the friction and damping in <dynamics> of '
          'the robot description that is compensated: 0 is none, because many descriptions have '
          'values that nobody measured; 0.5 leaves room for values that are twice too high, 1 is '
          'for measured ones', lower=0.0, upper=1.0, live=True),
    *entries(Friction, Limits),
)

_EXTERNAL = (
    *entries(Observation),
    Entry('disturbance.mode', 'none', 'Compensation of what the model lacks (load, wrong masses, '
          'friction): observer, of the external torques; none', choices=('none', 'observer'),
          live=True,
          when='friction or an unknown load keeps the arm off its goals'),
    *entries(Disturbance, Contact),
    Entry('contact.learn_time', 10.0, 'Time in which ~/learn_contact finds values [s]', lower=0.1,
          upper=600.0, live=True),
    *entries(Supervision, begin='contact'),
)

PARAMETERS = (*_START, *_SAFETY, *_TIP, *entries(Stiffness, begin='impedance'),
              *entries(JointDrive, FreeDrive), *_TARGET, *_FORCE, *_JOINTS, *CLEARANCE,
              *_EXTERNAL, *RECORDING, *DISPLAY)


def task_parameters(name: str) -> tuple[Entry, ...]:
    """Return the parameters of a further task; its speed limits are those of the tip."""
    return (
        Entry(f'{name}.link', '', 'Link that the task controls; empty: the tip'),
        Entry(f'{name}.kind', 'pose', 'What the task controls: ' + '; '.join(
            f'{kind.name}, {kind.controls}' for kind in KINDS.values()),
              choices=tuple(KINDS), live=True),
        *(Entry(f'{name}.{field.name}', field.default, field.metadata['description'],
                size=len(field.default) if isinstance(field.default, tuple) else None, live=True)
          for kind in KINDS.values() for field in fields(kind)),
        Entry(f'{name}.translation.axes', MOTION, 'What is controlled along x y z of its frame; '
              'kind pose', of=str, size=3, choices=AXES, live=True),
        Entry(f'{name}.rotation.axes', ('free',) * 3, 'What is controlled about x y z of its '
              'frame; kind pose', of=str, size=3, choices=AXES, live=True),
        Entry(f'{name}.frame', '', 'Link whose axes are those of the task; empty: the base; kind '
              'pose', live=True),
        Entry(f'{name}.activation', 1.0, 'Activation of the task, 0 (off) to 1', lower=0.0,
              upper=1.0, live=True),
        Entry(f'{name}.natural_frequency', 10.0, 'Natural frequency of its errors [rad/s]',
              lower=1e-3, upper=1e3, live=True),
        Entry(f'{name}.damping_ratio', 1.0, 'Damping ratio of its errors', lower=1e-3, upper=1e2,
              live=True),
    )


def with_tasks(names: Sequence[str]) -> tuple[Entry, ...]:
    """Return all parameters of a controller that has these further tasks."""
    # InputError if a name is no identifier, or the first part of another parameter's name
    reserved = {entry.name.split('.')[0] for entry in PARAMETERS}
    for name in names:
        if not name.isidentifier() or name in reserved or name == 'tip':
            raise InputError(f"parameter 'tasks' has '{name}': give words other than "
                             f"tip, {', '.join(sorted(reserved))}")
    return (*PARAMETERS, TASKS, *(entry for name in names for entry in task_parameters(name)))
