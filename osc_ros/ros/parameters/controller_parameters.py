# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Table of the parameters of osc_controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from osc_ros.control.accepted import FULL_SPEED
from osc_ros.control.limits.limits import Limits, LONGEST_REACTION
from osc_ros.control.model_error.disturbance import Disturbance
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
from osc_ros.control.setpoint.chunks import APPROACHES, ChunkBlending, FAR, LATE
from osc_ros.control.setpoint.streams import Following, STREAMS
from osc_ros.control.settings import EFFORTS, Observation, Settings
from osc_ros.control.tasks.kind_table import KINDS
from osc_ros.control.tasks.task import (
    AXES,
    ForceControl,
    SLOWEST,
    Stiffness,
    TargetLimits,
    TOO_FAST,
)
from osc_ros.dynamics.methods import METHODS
from osc_ros.errors import InputError
from osc_ros.loop.engine import STALE_OBSTACLES
from osc_ros.loop.startup import CHECKS
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.clearance_parameters import CLEARANCE
from osc_ros.ros.parameters.display_parameters import DISPLAY
from osc_ros.ros.parameters.guiding_parameters import GUIDING
from osc_ros.ros.parameters.parameters import Entry
from osc_ros.ros.parameters.state_input import FROM, VELOCITY

OTHER_PUBLISHER = 'other_publisher'
ON_ACTIVATION = f'watchdog.{OTHER_PUBLISHER}.on_activation'
MOTION = ('motion',) * 3
STIFFEST = 1e6  # largest accepted stiffness [N m/rad, N/m]
# Accepted reactions of all watchdogs but that of contacts.
USUAL = tuple(name for name in REACTIONS if name not in ('comply', 'retract'))
# Default values of the parameters, from the classes of the library.
_LAW, _SPRING, _SET_POINT, _FORCE_LOOP = Settings(), Stiffness(), TargetLimits(), ForceControl()
_JOINING, _FOLLOWING = ChunkBlending(), Following()
_GAINS: Any = _LAW.tasks[0].gains
# When to change gains and stiffnesses.
_FIRMNESS = 'the tip gives way too much, or vibrates (`osc_tune` proposes values)'
_YIELDING = 'mode is impedance, and the spring is too hard or too soft'
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


def _parts(vector: Any) -> tuple[Any, Any]:
    """Return the rotation and translation parts of a (6,) as tuples, or of a (2,) as numbers."""
    if len(vector) == 2:
        return float(vector[0]), float(vector[1])
    return tuple(vector[:3].tolist()), tuple(vector[3:].tolist())


def _rotation(vector: Any) -> Any:
    return _parts(vector)[0]


def _translation(vector: Any) -> Any:
    return _parts(vector)[1]


@dataclass(frozen=True)
class WatchdogEntry:
    """
    One watchdog of the controller, with its two parameters `watchdog.NAME.…`.

    Attributes
    ----------
    name : str
        Name of the cause in `Supervisor.report_fault` and `Supervisor.reset_timeout`.
    cause : str
        Text after 'Reaction to' in the description of the parameter.
    timeout : str
        Name of the parameter with the time-out of the watchdog [s]; empty if there is none.
    reactions : tuple of str
        Accepted reactions.
    usual : str
        Default reaction of a watchdog that is not in DEFAULT_WATCHDOGS.

    """

    name: str
    cause: str
    timeout: str = ''
    reactions: tuple[str, ...] = USUAL
    usual: str = 'report'

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
    WatchdogEntry(PAYLOAD, 'external torques above contact.torque that are those of the payload, '
                  'upwards, while a joint moves at more than 30 % of its speed limit: the arm '
                  'does not carry it'),
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
    Entry('workers', 1, "Processes that share an update, with 'sweep'; 0 measures which number "
          'is fastest', lower=0, upper=1024, fixed=True),
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
    Entry('idle', 'gravity', 'Last command to an arm that has been stopped for good: the torque '
          'of its weight, or zero', choices=('gravity', 'zero'), live=True),
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
    Entry('stop_rate', 10.0, 'Decay rate of the speed when the arm is stopped [1/s]; at most 0.23 '
          'times `rate`', lower=0.1, upper=100.0, live=True),
    Entry('fade_time', 0.05, 'Time in which the torque changes from one source to another, such '
          'as from the law to a watchdog [s]', lower=1e-3, upper=10.0, live=True),
    Entry('settle_time', 0.1, 'The law resumes when the cause of a reaction has been gone for '
          'this time [s]', lower=1e-3, upper=60.0, live=True),
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
    Entry('translation.natural_frequency', _translation(_GAINS.natural_frequency),
          'Natural frequency of the position '
          'error along x y z of the base [rad/s]; at most 116 at a `rate` of 500 Hz', lower=1e-3,
          upper=1e3, size=3, live=True, when=_FIRMNESS),
    Entry('translation.damping_ratio', _translation(_GAINS.damping_ratio),
          'Damping ratio of the position error; 1 '
          'is critical', lower=1e-3, upper=1e2, size=3, live=True),
    Entry('translation.speed', _translation(_GAINS.speed),
          'Largest speed that the feedback commands [m/s]', lower=1e-6,
          upper=1e3, live=True),
    Entry('translation.acceleration', _translation(_GAINS.acceleration),
          'Largest acceleration that the feedback commands '
          '[m/s²]', lower=1e-6, upper=1e4, live=True),
    Entry('translation.stiffness', _translation(_SPRING.stiffness),
          'Stiffness along x y z of the task '
          'frame [N/m]; mode impedance', lower=1e-3, upper=STIFFEST, size=3, live=True,
          when=_YIELDING),
    Entry('translation.spring_limit', _translation(_SPRING.force),
          'Largest force of the spring [N]; mode impedance',
          lower=1e-6, upper=1e6, live=True),
    Entry('translation.axes', MOTION, 'What is controlled along x y z of the task frame: motion, '
          'force, or free (left to lower tasks and the posture)', of=str, size=3,
          choices=AXES, live=True),
    Entry('rotation.natural_frequency', _rotation(_GAINS.natural_frequency),
          'Natural frequency of the orientation '
          'error about x y z of the base [rad/s]; at most 116 at a `rate` of 500 Hz', lower=1e-3,
          upper=1e3, size=3, live=True, when=_FIRMNESS),
    Entry('rotation.damping_ratio', _rotation(_GAINS.damping_ratio),
          'Damping ratio of the orientation error; 1 '
          'is critical', lower=1e-3, upper=1e2, size=3, live=True),
    Entry('rotation.speed', _rotation(_GAINS.speed),
          'Largest angular speed that the feedback commands [rad/s]',
          lower=1e-6, upper=1e3, live=True),
    Entry('rotation.acceleration', _rotation(_GAINS.acceleration),
          'Largest angular acceleration that the feedback '
          'commands [rad/s²]', lower=1e-6, upper=1e4, live=True),
    Entry('rotation.stiffness', _rotation(_SPRING.stiffness),
          'Stiffness about x y z of the task frame '
          '[N m/rad]; mode impedance', lower=1e-3, upper=STIFFEST, size=3, live=True,
          when=_YIELDING),
    Entry('rotation.spring_limit', _rotation(_SPRING.force),
          'Largest moment of the spring [N m]; mode impedance',
          lower=1e-6, upper=1e6, live=True),
    Entry('rotation.axes', MOTION, 'What is controlled about x y z of the task frame', of=str,
          size=3, choices=AXES, live=True),
    Entry('task.frame', '', 'Link whose axes are those of the task, its gains and its stiffness; '
          'empty: the base', live=True),
    Entry('task.activation', _LAW.tasks[0].activation,
          'Activation of the task of the tip, 0 (off) to 1', lower=0.0,
          upper=1.0, live=True),
)

SPEED = 'speed_override'

_TARGET = (
    Entry(SPEED, FULL_SPEED, 'Speed of all motions of the tip, the joints and the posture '
          'relative to their own [%]; also set by ~/speed; 0: the set-points stand; an arm that '
          'is not simulated starts with 0.1 m/s and 0.3 rad/s at most unless this is set',
          lower=0.0, upper=FULL_SPEED, live=True),
    Entry('target.translation.speed', _translation(_SET_POINT.speed),
          'Largest speed of the set-point [m/s]. If this and '
          'the speed, acceleration and jerk of target.translation and target.rotation are all '
          'infinite, the set-point steps to each target', lower=SLOWEST[0], live=True,
          when='motions to a goal are too slow or too fast'),
    Entry('target.translation.acceleration', _translation(_SET_POINT.acceleration),
          'Largest acceleration of the set-point [m/s²]',
          lower=SLOWEST[1], live=True),
    Entry('target.translation.jerk', _translation(_SET_POINT.jerk),
          'Largest jerk of the set-point [m/s³]', lower=SLOWEST[2],
          live=True),
    Entry('target.translation.leash', _translation(_SET_POINT.leash),
          'If the arm lags the set-point by more than this '
          'distance, the set-point pauses [m]', lower=1e-6, live=True),
    Entry('target.rotation.speed', _rotation(_SET_POINT.speed),
          'Largest angular speed of the set-point [rad/s]',
          lower=SLOWEST[0], live=True),
    Entry('target.rotation.acceleration', _rotation(_SET_POINT.acceleration),
          'Largest angular acceleration of the set-point '
          '[rad/s²]', lower=SLOWEST[1], live=True),
    Entry('target.rotation.jerk', _rotation(_SET_POINT.jerk),
          'Largest angular jerk of the set-point [rad/s³]',
          lower=SLOWEST[2], live=True),
    Entry('target.rotation.leash', _rotation(_SET_POINT.leash),
          'If the arm lags the set-point by more than this angle, '
          'the set-point pauses [rad]', lower=1e-6, live=True),
    Entry('target.too_fast', _SET_POINT.too_fast, 'What becomes of a trajectory above these '
          'speeds or accelerations: refuse it, or slow it down, by one factor for all of its '
          'times', choices=TOO_FAST, live=True),
    Entry('target.twist_timeout', 0.2, 'A twist is followed for this time after its stamp [s]',
          lower=1e-3, upper=60.0, live=True),
    Entry('target.stream', _FOLLOWING.mode, 'What the set-point does with poses on target_pose '
          'that come at most 0.5 s apart. stop: go to each one, and stop there unless the next '
          'one comes before; follow: follow their course one period behind; extrapolate: without '
          'lag', choices=STREAMS, live=True),
    Entry('target.stream_horizon', _FOLLOWING.horizon, 'The course is fitted to the poses of this '
          'time, at least to five, and the set-point goes over to it in this time [s]',
          lower=0.05, upper=10.0, live=True),
    Entry('target.chunk_fade', _JOINING.fade, 'Time in which the distance of a new chunk on '
          'target_chunk from the motion in progress fades out [s]', lower=0.02, upper=60.0,
          live=True),
    Entry('target.chunk_late', _JOINING.late, 'Chunk some of whose poses are over when it comes, '
          'while the set-point is at rest: wait, it begins now with its first pose; skip, the '
          'set-point enters it at the present time; refuse. In motion the set-point enters it at '
          'the present time', choices=LATE, live=True),
    Entry('target.chunk_approach', _JOINING.approach, 'Chunk that begins farther than '
          f'{FAR[1]:g} m or {FAR[0]:g} rad from the set-point: go there within '
          'target.chunk_fade or longer, with a warning; or refuse it', choices=APPROACHES,
          live=True),
    Entry('target.slow_down', _JOINING.slow_down, 'Time in which the set-point comes to rest when '
          'the next chunk, or the next pose of a stream, is missing [s]', lower=0.02, upper=60.0,
          live=True),
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
    Entry('force.damping', _FORCE_LOOP.damping,
          'Damping rate of a link along force axes [1/s]; at most half of '
          '`rate`', lower=0.0, upper=1e4, live=True),
    Entry('force.gain', _FORCE_LOOP.gain, 'Proportional gain on the force error, measured by '
          '~/measured_wrench, behind a low-pass filter of half of force.damping; 0 here and for '
          'force.integral_rate: open loop', lower=0.0, upper=0.99, live=True),
    Entry('force.integral_rate', _FORCE_LOOP.integral_rate,
          'Integral gain on the force error [1/s]; at most (1 - '
          'force.gain) times half of force.damping', lower=0.0, upper=1e3, live=True),
    Entry('force.correction', _translation(_FORCE_LOOP.correction),
          'Largest force of the proportional part, and of the integral '
          'part [N]', lower=1e-6, upper=1e6, live=True),
    Entry('force.moment_correction', _rotation(_FORCE_LOOP.correction),
          'Largest moment of the proportional part, and of the '
          'integral part [N m]', lower=1e-6, upper=1e6, live=True),
    Entry('force.measured', 'by_robot', 'Sign of ~/measured_wrench: the wrench by the robot on '
          'its environment, or on the robot', choices=('by_robot', 'on_robot'), live=True),
    Entry('blend_time', _LAW.blend_time,
          'Time in which changed parameters and target wrenches take effect '
          '[s]', lower=1e-3, upper=60.0, live=True),
)

_JOINTS = (
    Entry('posture.natural_frequency', _LAW.posture.natural_frequency,
          'Natural frequency of the joints in the nullspace '
          '[rad/s]; at most 116 at a `rate` of 500 Hz', lower=0.0, upper=1e3, live=True),
    Entry('posture.damping_ratio', _LAW.posture.damping_ratio,
          'Damping ratio of the joints in the nullspace',
          lower=0.0, upper=1e2, live=True),
    Entry('posture.damping', _LAW.posture.damping, 'Least damping rate in the nullspace, whatever '
          'posture.natural_frequency and posture.damping_ratio [1/s]; at most half of `rate`',
          lower=0.0, upper=1e3, live=True),
    Entry('singularity.length', _LAW.damping.length,
          'Characteristic length of the arm, which scales rotation to '
          'translation [m]', lower=1e-6, upper=1e6, live=True),
    Entry('singularity.low', _LAW.damping.low,
          'A direction is not controlled if its singular value of the '
          'scaled Jacobian, relative to the largest, is below this', lower=1e-12, upper=1.0,
          live=True),
    Entry('singularity.high', _LAW.damping.high,
          'A direction is fully controlled if its relative singular '
          'value is above this', lower=1e-12, upper=1.0, live=True),
    Entry('friction.from_description', 0.0, 'Share of the friction and damping in <dynamics> of '
          'the robot description that is compensated: 0 is none, because many descriptions have '
          'values that nobody measured; 0.5 leaves room for values that are twice too high, 1 is '
          'for measured ones', lower=0.0, upper=1.0, live=True),
    Entry('friction.coulomb', (), 'Coulomb friction of every joint, base first, compensated in '
          'the direction of the commanded motion [N m]; empty: friction.from_description',
          lower=0.0, live=True),
    Entry('friction.viscous', (), 'Viscous friction of every joint, base first [N m s/rad]; '
          'empty: friction.from_description', lower=0.0, live=True),
    Entry('limits.effort', (), 'Largest torque of every joint, base first [N m]; empty: those of '
          'the robot description, which these may exceed', lower=1e-9, live=True),
    Entry('limits.effort_rate', (), 'Largest rate of change of every joint torque, also when a '
          'watchdog takes over [N m/s]; at least twice the effort limit in 0.5 s; empty: twice '
          'the effort limit in limits.reaction_time', lower=1e-6, live=True),
    Entry('limits.velocity', (), 'Largest speed of every joint [rad/s]; empty: those of the robot '
          'description', lower=1e-6, upper=60.0, live=True),
    Entry('limits.deceleration', (), 'Deceleration that every joint can reach in any pose '
          '[rad/s²]; empty: computed from the effort limits in the worst pose, and at most that '
          'of the robot description (URDF 1.2)', lower=1e-3, live=True),
    Entry('limits.reaction_time', Limits.reaction_time,
          'Time in which braking before a limit builds up [s]; '
          'longer is earlier and softer; at least 4 periods of `rate`', lower=1e-3,
          upper=LONGEST_REACTION, live=True),
    Entry('limits.soft_zone', Limits.soft_zone,
          'Share of the range of a joint, at both ends, in which the '
          'posture pushes it back', lower=0.0, upper=0.5, live=True),
    Entry('limits.repulsion', Limits.repulsion,
          'Natural frequency of the push in the soft zone [rad/s]',
          lower=0.0, upper=1e3, live=True),
)

_ERRORS, _OBSERVER = Disturbance(), Observation()

_EXTERNAL = (
    Entry('external_force.bandwidth', _OBSERVER.bandwidth, 'Bandwidth of the observer of external '
          'torques; its delay is the reciprocal [rad/s]', lower=1e-2, upper=1e4, live=True),
    Entry('external_force.efforts', _OBSERVER.efforts, 'Torques of the motors from which external '
          'torques are computed: commanded; measured, the efforts of joint_states, in N m and '
          'with what the driver adds; measured without driver', choices=EFFORTS, live=True),
    Entry('disturbance.mode', 'none', 'Compensation of what the model lacks (load, wrong masses, '
          'friction): observer, of the external torques; none', choices=('none', 'observer'),
          live=True,
          when='friction or an unknown load keeps the arm off its goals'),
    Entry('disturbance.payload', _ERRORS.payload, 'How wrong the model may be: largest unknown '
          'payload, up to 10 cm beside the tip [kg]. Bounds the compensation, and the torques '
          'that are no contact',
          lower=0.0, upper=1e3, live=True),
    Entry('disturbance.masses', _ERRORS.masses, 'How wrong the model may be: largest relative '
          'error of the masses', lower=0.0, upper=1.0, live=True),
    Entry('disturbance.friction', _ERRORS.friction, 'How wrong the model may be: largest unknown '
          'dry friction of a joint [N m]', lower=1e-6, upper=1e3, live=True),
    Entry('disturbance.rise', _ERRORS.rise, 'Least time in which the compensation rises by '
          'disturbance.friction [s]', lower=1e-3, upper=60.0, live=True),
    Entry('contact.torque', (), 'External torque of every joint, base first, that is a contact '
          '[N m]; empty: what the errors of disturbance.* cannot explain; ~/learn_contact finds '
          'values', lower=1e-6, live=True),
    Entry('contact.force', np.inf, 'External force on the tip that is a contact, where it can be '
          'told from the torques [N]', lower=1e-6, live=True),
    Entry('contact.moment', np.inf, 'External moment on the tip that is a contact [N m]',
          lower=1e-6, live=True),
    Entry('contact.learn_time', 10.0, 'Time in which ~/learn_contact finds values [s]', lower=0.1,
          upper=600.0, live=True),
    Entry('contact.comply_frequency', Supervision.comply_frequency, 'Natural frequency of the '
          'spring of the reaction comply [rad/s]', lower=1e-3, upper=10.0, live=True),
    Entry('contact.retreat', Supervision.retreat, 'Way of the reaction retract, of the joint that '
          'moves most [rad]', lower=1e-3, upper=10.0, live=True),
    Entry('contact.retreat_speed', Supervision.retreat_speed, 'Speed of the reaction retract, of '
          'the joint that moves most [rad/s]', lower=1e-3, upper=10.0, live=True),
)

PARAMETERS = (*_START, *_SAFETY, *_TIP, *GUIDING, *_TARGET, *_FORCE, *_JOINTS, *CLEARANCE,
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
    """
    Return all parameters of a controller that has these further tasks.

    Raises InputError if a name is no identifier, or is the first part of another parameter's name.

    """
    reserved = {entry.name.split('.')[0] for entry in PARAMETERS}
    for name in names:
        if not name.isidentifier() or name in reserved or name == 'tip':
            raise InputError(f"parameter 'tasks' has '{name}': give words other than "
                             f"tip, {', '.join(sorted(reserved))}")
    return (*PARAMETERS, TASKS, *(entry for name in names for entry in task_parameters(name)))
