"""osc_controller: joint states and targets in, joint torques out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import (
    InertiaStamped,
    PoseStamped,
    TwistStamped,
    Vector3Stamped,
    WrenchStamped,
)
import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory

from osc_ros.control.check import Verdict
from osc_ros.control.driver import Driver
from osc_ros.control.friction import Friction
from osc_ros.control.guide import Motion
from osc_ros.control.holding import require_effort
from osc_ros.control.law import Law
from osc_ros.control.limits import Limits
from osc_ros.control.posture import Posture
from osc_ros.control.settings import Settings
from osc_ros.control.supervisor import (
    DEADLINE,
    JUMP,
    NOT_FINITE,
    OVERSPEED,
    REACTIONS,
    STALE_STATE,
    Supervision,
    Supervisor,
    Watchdog,
)
from osc_ros.control.task import AXES, ForceControl, Gains, Stiffness, TargetLimits, Task
from osc_ros.control.trajectory import Hold, Path
from osc_ros.dynamics.methods import METHODS
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.errors import InputError, OscError
from osc_ros.model.robot import Robot
from osc_ros.nodes import description, messages, realtime
from osc_ros.nodes.frames import Frames
from osc_ros.nodes.gains import DELAY, require_bandwidth
from osc_ros.nodes.loop import ACTIVE, ENDING, IDLE, Loop
from osc_ros.nodes.parameters import declare, Entry, given, refuse_bad_sets, values
from osc_ros.nodes.publishers import other_publishers
from osc_ros.nodes.run import run
from osc_ros.nodes.states import StateInput, VELOCITY

COMMAND_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
LATCHED_QOS = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
FARTHEST_AHEAD = 3600.0  # a stamp beyond it is of another clock [s]
NO_BOX = (-np.inf,) * 3, (np.inf,) * 3
STALE_TARGET, OTHER_PUBLISHER = 'stale_target', 'other_publisher'
LEAST_GAIN_SHARE = 0.98  # below it is a warning; the measured period varies

LINEAR_FIRST = np.array([3, 4, 5, 0, 1, 2])
AXIS_NAMES = ('x', 'y', 'z', 'rx', 'ry', 'rz')

WATCHDOGS = {
    STALE_STATE: ('hold', 'joint states that do not come; hold and damp then brake the arm along '
                  'a state predicted by the model, and carry the weight where it ends'),
    STALE_TARGET: ('report', 'targets that do not come'),
    DEADLINE: ('report', 'an update that takes longer than a period of `rate`'),
    NOT_FINITE: ('hold', 'joint states and torques that are not finite, or not to be had'),
    JUMP: ('hold', 'a position that jumps by more than twice what the speed limit allows'),
    OVERSPEED: ('hold', 'a measured joint speed of more than 1.2 times limits.velocity in two '
                'states, or 1.5 times in one'),
    OTHER_PUBLISHER: ('report', 'another publisher on the command topic, looked for once a '
                      'second'),
}

TASKS = Entry('tasks', (), 'Further tasks, highest priority first, below that of the tip: each '
              'has parameters and topics of its name; read when the node starts', of=str)
MOTION = ('motion',) * 3

PARAMETERS = (
    *(replace(entry, live=entry.name == 'gravity') for entry in description.ENTRIES),
    *description.LOAD_ENTRIES,
    Entry('method', 'sweep', f"How the dynamics are computed: {', '.join(METHODS)}",
          choices=tuple(METHODS)),
    Entry('workers', 1, "Processes that share an update, by 'sweep' or 'bcr'; 0 measures how many "
          'are fastest', lower=0, upper=1024),
    Entry('autostart', True, 'Configure and activate without being told'),
    Entry('rate', 500.0, 'Rate at which joint states are expected [Hz]; longer gaps count as '
          'missed states, longer updates as missed deadlines, and it bounds the gains', lower=1.0,
          upper=20000.0),
    VELOCITY,
    Entry('update', 'on_state', 'When the torque is computed: on_state, in the callback of every '
          'joint state, or on_timer, from the last one at `rate`',
          choices=('on_state', 'on_timer')),
    Entry('realtime.priority', 0, 'Of SCHED_FIFO, for all threads of the process; 0: none',
          lower=0, upper=99),
    Entry('realtime.lock_memory', False, 'Keep all memory from being paged out'),
    Entry('idle', 'gravity', 'The torque that an arm is left with, when it has been stopped for '
          'good: that of its weight, or zero', choices=('gravity', 'zero'), live=True),
    Entry('state_timeout', 0.1, 'Without a good joint state for so long it is stale [s]',
          lower=1e-3, upper=60.0, live=True),
    Entry('target_timeout', np.inf, 'Without a target for so long, or since the end of a path, it '
          'is stale [s]', lower=1e-3, live=True),
    *(entry for name, (reaction, words) in WATCHDOGS.items() for entry in (
        Entry(f'watchdog.{name}.reaction', reaction, f'What is done about {words}',
              choices=REACTIONS[name == STALE_STATE:], live=True),
        Entry(f'watchdog.{name}.latched', False, 'Whether that lasts until ~/release is called, '
              'and not only until the cause is gone', live=True))),
    Entry('stop_rate', 10.0, 'Of the exponential in which the arm is stopped [1/s]; at most 0.23 '
          'of `rate`', lower=0.1,
          upper=100.0, live=True),
    Entry('fade_time', 0.05, 'In which the difference between two sources of torque fades [s]',
          lower=1e-3, upper=10.0, live=True),
    Entry('settle_time', 0.1, 'How long a cause has to be gone before the task goes on [s]',
          lower=1e-3, upper=60.0, live=True),
    Entry('report_rate', 50.0, 'Rate of ~/pose and ~/pose_error [Hz]', lower=0.0, upper=20000.0,
          live=True),
    Entry('translation.natural_frequency', (20.0, 20.0, 20.0), 'Natural frequency of the position '
          'error along x y z of the base [rad/s]; what `rate` carries: 116 at 500 Hz', lower=1e-3,
          upper=1e3, size=3, live=True),
    Entry('translation.damping_ratio', (1.0, 1.0, 1.0), 'Damping ratio of the same; 1 is critical',
          lower=1e-3, upper=1e2, size=3, live=True),
    Entry('translation.speed', 1.0, 'Most speed that feedback asks for [m/s]', lower=1e-6,
          upper=1e3, live=True),
    Entry('translation.acceleration', 20.0, 'Most acceleration that feedback asks for [m/s²]',
          lower=1e-6, upper=1e4, live=True),
    Entry('rotation.natural_frequency', (20.0, 20.0, 20.0), 'Natural frequency of the orientation '
          'error about x y z of the base [rad/s]; what `rate` carries: 116 at 500 Hz', lower=1e-3,
          upper=1e3, size=3, live=True),
    Entry('rotation.damping_ratio', (1.0, 1.0, 1.0), 'Damping ratio of the same; 1 is critical',
          lower=1e-3, upper=1e2, size=3, live=True),
    Entry('rotation.speed', 2.5, 'Most speed that feedback asks for [rad/s]', lower=1e-6,
          upper=1e3, live=True),
    Entry('rotation.acceleration', 60.0, 'Most acceleration that feedback asks for [rad/s²]',
          lower=1e-6, upper=1e4, live=True),
    Entry('target.translation.speed', 1.0, 'Most speed of the target; infinite, with the five '
          'beside it: targets jump [m/s]', lower=1e-6, live=True),
    Entry('target.translation.acceleration', 5.0, 'Most acceleration of the target [m/s²]',
          lower=1e-6, live=True),
    Entry('target.translation.jerk', 50.0, 'Most jerk of the target [m/s³]', lower=1e-6,
          live=True),
    Entry('target.translation.leash', 0.2, 'How far the target may leave the arm behind before it '
          'waits [m]', lower=1e-6, live=True),
    Entry('target.rotation.speed', 2.5, 'Most speed of the target [rad/s]', lower=1e-6, live=True),
    Entry('target.rotation.acceleration', 12.5, 'Most acceleration of the target [rad/s²]',
          lower=1e-6, live=True),
    Entry('target.rotation.jerk', 125.0, 'Most jerk of the target [rad/s³]', lower=1e-6,
          live=True),
    Entry('target.rotation.leash', 1.0, 'How far the target may leave the arm behind before it '
          'waits [rad]', lower=1e-6, live=True),
    Entry('target.twist_timeout', 0.2, 'How long a twist is followed after its stamp [s]',
          lower=1e-3, upper=60.0, live=True),
    Entry('workspace.lower', (), 'Lowest x y z of the target in the base frame; none: no box [m]',
          size=3, live=True),
    Entry('workspace.upper', (), 'Highest x y z of the same [m]', size=3, live=True),
    Entry('mode', 'acceleration', 'How the tip is shaped: as the linear system of natural '
          'frequency and damping ratio, or as a spring (impedance) with that damping ratio and '
          'the inertia of the arm', choices=('acceleration', 'impedance'), live=True),
    Entry('translation.stiffness', (500.0, 500.0, 500.0), 'Of the spring along x y z of the task '
          'frame [N/m]', lower=1e-3, upper=1e6, size=3, live=True),
    Entry('rotation.stiffness', (30.0, 30.0, 30.0), 'Of the spring about x y z of the task frame '
          '[N m/rad]', lower=1e-3, upper=1e6, size=3, live=True),
    Entry('translation.spring_limit', 60.0, 'Most that the spring pulls with [N]', lower=1e-6,
          upper=1e6, live=True),
    Entry('rotation.spring_limit', 10.0, 'Most that the spring turns with [N m]', lower=1e-6,
          upper=1e6, live=True),
    Entry('translation.axes', MOTION, 'What is controlled along x y z of the task frame: motion, '
          'force, or free, which is left to the tasks below and the posture', of=str, size=3,
          choices=AXES, live=True),
    Entry('rotation.axes', MOTION, 'The same about x y z', of=str, size=3, choices=AXES,
          live=True),
    Entry('task.frame', '', 'Link whose axes are those of the task, of its gains and its '
          'stiffness; empty: the base', live=True),
    Entry('task.activation', 1.0, 'How much of the task of the tip is in force', lower=0.0,
          upper=1.0, live=True),
    Entry('force.damping', 50.0, 'How a link is braked along axes of force [1/s]; '
          'at most half of `rate`', lower=0.0,
          upper=1e4, live=True),
    Entry('force.gain', 0.0, 'Of what is missing in ~/measured_wrench, behind a low-pass filter '
          'of half of force.damping; 0 here and below: open loop', lower=0.0, upper=0.99,
          live=True),
    Entry('force.integral_rate', 0.0, 'The same for its integral [1/s]; at most (1 - '
          'force.gain) times half of force.damping', lower=0.0, upper=1e3,
          live=True),
    Entry('force.correction', 20.0, 'Most that either of them adds [N]', lower=1e-6, upper=1e6,
          live=True),
    Entry('force.moment_correction', 5.0, 'Most that either of them adds [N m]', lower=1e-6,
          upper=1e6, live=True),
    Entry('force.measured', 'by_robot', 'Whose force ~/measured_wrench is: by the robot on its '
          'environment, or on the robot', choices=('by_robot', 'on_robot'), live=True),
    Entry('blend_time', 0.3, 'In which changed parameters and wanted wrenches come into force [s]',
          lower=1e-3, upper=60.0, live=True),
    Entry('posture.natural_frequency', 5.0, 'Natural frequency of the joints in the null space '
          '[rad/s]; what `rate` carries: 116 at 500 Hz', lower=0.0, upper=1e3, live=True),
    Entry('posture.damping_ratio', 1.0, 'Damping ratio of the same', lower=0.0, upper=1e2,
          live=True),
    Entry('posture.damping', 1.0, 'Least damping of the null space, whatever the two above [1/s]; '
          'at most half of `rate`',
          lower=0.0, upper=1e3, live=True),
    Entry('singularity.length', 0.3, 'Characteristic length of the arm: 1 rad counts as so much '
          '[m]', lower=1e-6, upper=1e6, live=True),
    Entry('singularity.low', 0.02, 'Singular value of the scaled Jacobian, relative to the '
          'largest, below which a direction is given up', lower=1e-12, upper=1.0, live=True),
    Entry('singularity.high', 0.06, 'The same, above which it is fully controlled', lower=1e-12,
          upper=1.0, live=True),
    Entry('friction.coulomb', (), 'Dry friction of every joint, base first [N m], that is '
          'compensated in the direction of the wanted motion; none: 0', lower=0.0, live=True),
    Entry('friction.viscous', (), 'Viscous friction of the same [N m s/rad]', lower=0.0,
          live=True),
    Entry('friction.velocity', 0.02, 'Width of the change of direction of dry friction [rad/s]',
          lower=1e-6, upper=1e2, live=True),
    Entry('startup_check', 'warn', 'What to do on activation where the efforts that the driver '
          'reports do not agree with the model', choices=('off', 'warn', 'refuse'), live=True),
    Entry('limits.effort', (), 'Largest torque of every joint, base first [N m]; none: those of '
          'the robot description, which these may exceed', lower=1e-9, live=True),
    Entry('limits.effort_rate', (), 'Most that the command of every joint changes, also when a '
          'watchdog takes over [N m/s]; none: from full torque to full torque the other way in '
          'limits.reaction_time', lower=1e-6, live=True),
    Entry('limits.velocity', (), 'Largest speed of every joint [rad/s]; none: those of the robot '
          'description', lower=1e-6, live=True),
    Entry('limits.deceleration', (), 'With which every joint can brake, wherever the arm is '
          '[rad/s²]; none: what its torque gives at worst', lower=1e-3, live=True),
    Entry('limits.reaction_time', 0.04, 'That braking for a limit takes to set in [s]: longer is '
          'earlier and softer; at least 4 periods of `rate`', lower=1e-3, upper=10.0, live=True),
    Entry('limits.soft_zone', 0.05, 'Share of its range, at both ends, that the posture pushes a '
          'joint out of', lower=0.0, upper=0.5, live=True),
    Entry('limits.repulsion', 10.0, 'Natural frequency of that push [rad/s]', lower=0.0,
          upper=1e3, live=True),
)


MODEL = ('gravity', *(entry.name for entry in description.LOAD_ENTRIES))


def task_parameters(name: str) -> tuple[Entry, ...]:
    """Return the parameters of a further task; its bounds of speed are those of the tip."""
    return (
        Entry(f'{name}.link', '', 'Link that the task moves; empty: the tip'),
        Entry(f'{name}.translation.axes', MOTION, 'What is controlled along x y z of its frame',
              of=str, size=3, choices=AXES, live=True),
        Entry(f'{name}.rotation.axes', ('free',) * 3, 'The same about x y z', of=str, size=3,
              choices=AXES, live=True),
        Entry(f'{name}.frame', '', 'Link whose axes are those of the task; empty: the base',
              live=True),
        Entry(f'{name}.activation', 1.0, 'How much of the task is in force', lower=0.0, upper=1.0,
              live=True),
        Entry(f'{name}.natural_frequency', 10.0, 'Natural frequency of its errors [rad/s]',
              lower=1e-3, upper=1e3, live=True),
        Entry(f'{name}.damping_ratio', 1.0, 'Damping ratio of the same', lower=1e-3, upper=1e2,
              live=True),
    )


class Controller(LifecycleNode):  # type: ignore[misc]
    """
    A managed node around one `osc_ros.control.law.Law` and the `Supervisor` that watches it.

    Each joint state is answered by one command, in the thread of a `Loop`, when it comes or on a
    timer. While the node is active there is always a command: if the state is too old, or a state
    or a torque is invalid, or any other watchdog acts, it is the supervisor's. After `deactivate`
    commands go on until the arm rests. Everything else runs in the thread that spins this node:
    it prepares what takes long, and holds the loop's lock only to hand it over.

    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__('osc_controller', **arguments)
        further = given(self, TASKS)
        taken = {entry.name.split('.')[0] for entry in PARAMETERS}
        for name in further:
            if not name.isidentifier() or name in taken or name == 'tip':
                raise InputError(f"parameter 'tasks' has '{name}': accepted are words other than "
                                 f"tip, {', '.join(sorted(taken))}")
        self._table = (*PARAMETERS, TASKS, *(entry for name in further
                                             for entry in task_parameters(name)))
        declare(self, self._table)
        refuse_bad_sets(self, self._table, lambda: self._law is not None, self._apply)
        self._law: Law | None = None
        self._guard: Supervisor | None = None
        self._loop: Loop | None = None
        self._leaves = False
        self._urdf = self._finding = ''
        self._others: tuple[str, ...] = ()
        self._change_state = self._service_change_state.callback
        self._service_change_state.callback = self._on_change_state
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._frames = Frames(self)
        self._entities: list[tuple[Any, Any]] = []
        self.create_subscription(String, 'robot_description', self._on_description, LATCHED_QOS)
        self._starter = self.create_timer(0.05, self._start, clock=self._steady)

    # the life of the node

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read the robot, compile, allocate."""
        return self._transition('configure', self._configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take the present pose as the target, and begin to answer joint states."""
        return self._transition('activate', self._activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to stop the arm: commands go on until it rests."""
        return self._transition('deactivate', self._deactivate)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the robot, as soon as it rests."""
        return self._transition('clean up', self._clean_up)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop as on deactivation, and forget the robot as soon as it rests."""
        was_active = self._active
        self._transition('deactivate', self._deactivate)
        if was_active and self._active:  # that failed
            self._transition('leave the arm', self._leave)
        return self._transition('clean up', self._clean_up)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop as on deactivation, and start again from nothing."""
        return self.on_shutdown(state)

    def ready_to_stop(self) -> bool:
        """Begin to stop the arm; whether it rests."""
        self._starter.cancel()
        if self._active:
            self.trigger_deactivate()
        return not self._ending

    def stop(self) -> None:
        """End, wherever the arm is: what is left behind carries it."""
        self.ready_to_stop()
        if self._ending:
            self._leave()
        if self._loop is not None:
            self._loop.do_posted()
        if self._loop is not None:  # that may have cleaned up
            self._loop.close()
        realtime.collect_garbage_as_usual()

    def _on_change_state(self, request: Any, response: Any) -> Any:
        # rclpy would let one that cannot be made now end the process
        wanted, machine = request.transition, self._state_machine
        accepted = {one[0]: one[1] for one in machine.available_transitions}
        if wanted.id in accepted or wanted.label in accepted.values():
            return self._change_state(request, response)
        self.get_logger().warning(
            f'transition {wanted.label or wanted.id} refused: the node is '
            f"'{machine.current_state[1]}', accepted is one of "
            + ', '.join(f'{label} ({number})' for number, label in accepted.items()))
        response.success = False
        return response

    def _transition(self, name: str, effect: Any) -> TransitionCallbackReturn:
        # rclpy would swallow what is raised here
        try:
            effect()
        except OscError as error:
            self.get_logger().error(f'cannot {name}: {error}')
            return TransitionCallbackReturn.FAILURE
        except Exception as error:
            self.get_logger().error(f'cannot {name}: {type(error).__name__}: {error}')
            return TransitionCallbackReturn.ERROR
        return TransitionCallbackReturn.SUCCESS

    def _configure(self) -> None:
        if self._ending:
            raise InputError('the arm is still being stopped')
        found = values(self, self._table)
        require_bandwidth(found, 1.0 / found['rate'])
        self._bare = description.robot(found, description.description(found, self._urdf))
        robot, driver = self._model(found)
        order = description.command_order(found, robot)
        started = perf_counter()
        law = Law(robot, _settings(found, robot, driver), found['method'],
                  found['workers'] or 'auto')
        took = perf_counter() - started
        self._law = law
        self._period = 1.0 / found['rate']
        self._guard = Supervisor(robot, law.inverse_dynamics, self._supervision(found),
                                 self._on_change)
        self._commands = self.create_publisher(Float64MultiArray, '~/commands', COMMAND_QOS)
        self._loop = Loop(self, law, self._guard,
                          StateInput(robot, found['velocity'], self._on_velocity),
                          self._commands, order, self._period, found['update'] == 'on_timer',
                          self._watch, self._report, self._on_stopped)
        self._apply_times(found)
        self._create_interface()
        realtime.switch_threads_quickly()
        for asked, effect in ((found['realtime.priority'], realtime.prioritize),
                              (found['realtime.lock_memory'], lambda _: realtime.lock_memory())):
            if asked:
                self.get_logger().info(effect(asked))
        realtime.keep_garbage_out()  # now, for it takes long
        self.get_logger().info(
            f"configured '{robot.name}' from '{robot.base}' to "
            f"{' and '.join(map(repr, robot.tips))}, {robot.n} joints, "
            f"method '{law.space.method}', {law.space.plan}; kernels ready in {took:.2f} s")

    def _create_interface(self) -> None:
        publish, subscribe = self.create_publisher, self.create_subscription
        first, *further = self._law.levels
        tasks = ((first, ''), *((name, f'{name}/') for name in further))
        self._pose = publish(PoseStamped, '~/pose', 10)
        self._pose_error = publish(TwistStamped, '~/pose_error', 10)
        self._wrench = publish(WrenchStamped, '~/wrench', 10)
        self._inertia = publish(Float64MultiArray, '~/inertia', 10)
        self._terms = publish(Float64MultiArray, '~/terms', 10)
        self._diagnostics = publish(DiagnosticArray, '/diagnostics', 10)
        self._entities = [
            *((self.destroy_publisher, one) for one in (
                self._pose, self._pose_error, self._wrench, self._inertia,
                self._terms, self._diagnostics)),
            *((self.destroy_subscription, subscribe(kind, topic, callback, qos))
              for kind, topic, callback, qos in (
                  *((kind, f'~/{prefix}{topic}', partial(callback, task, prefix + topic), qos)
                    for kind, topic, callback, qos in (
                        (PoseStamped, 'target_pose', self._on_target_pose, 10),
                        (TwistStamped, 'target_twist', self._on_target_twist, 10),
                        (WrenchStamped, 'target_wrench', self._on_target_wrench, 10),
                        (WrenchStamped, 'measured_wrench', self._on_measured_wrench,
                         qos_profile_sensor_data))
                    for task, prefix in tasks),
                  (JointState, '~/target_posture', self._on_target_posture, 10),
                  (InertiaStamped, '~/payload', self._on_payload, 10),
                  (Vector3Stamped, '~/gravity', self._on_gravity, 10))),
            # serialized: rclpy would make an object of every number, under the GIL
            *((self.destroy_subscription, subscribe(
                MultiDOFJointTrajectory, f'~/{prefix}target_trajectory',
                partial(self._on_target_trajectory, task, f'{prefix}target_trajectory'), 10,
                raw=True)) for task, prefix in tasks),
            *((self.destroy_service, self.create_service(Trigger, name, callback))
              for name, callback in (('~/hold', self._on_hold), ('~/release', self._on_release))),
            (self.destroy_timer, self.create_timer(1.0, self._every_second, clock=self._steady)),
        ]

    @property
    def _active(self) -> bool:
        return self._loop is not None and self._loop.mode == ACTIVE

    @property
    def _ending(self) -> bool:
        return self._loop is not None and self._loop.mode == ENDING

    def _activate(self) -> None:
        loop = self._loop
        if loop.state_age > self._state_timeout:
            names = ', '.join(loop.reader.names)
            raise InputError(f'no good joint_states for {self._state_timeout} s: wanted are '
                             f'positions of {names}'
                             + (', and velocities' if loop.reader.mode == 'measured' else '')
                             + (f' (last refusal: {loop.refusal})' if loop.refusal else ''))
        self._check()
        self._law.require_holding(loop.q)
        loop.activate()
        self.get_logger().info('active: holding the present pose')

    def _check(self) -> None:
        """Compare what the driver reports with the model, as the parameter wants."""
        wanted = self.get_parameter('startup_check').value
        if wanted == 'off':
            self._finding = ''
            return
        friction = self._law.settings.friction
        finding = self._loop.rest.finding(self._law.robot, friction and friction.coulomb)
        self._finding = str(finding)
        told = self.get_parameter('driver_compensates').value != 'none'
        if finding.verdict is Verdict.COMPENSATED and told:
            self.get_logger().info('start-up check: the driver compensates gravity, as told')
        elif finding.verdict in (Verdict.WELL, Verdict.UNCLEAR):
            self.get_logger().info(f'start-up check: {finding}')
        elif wanted == 'warn':
            self.get_logger().warning(f'start-up check: {finding}')
        else:
            raise InputError(f"start-up check: {finding} (accepted with startup_check 'warn')")

    def _deactivate(self) -> None:
        if self._active:
            self._loop.deactivate()
            self._diagnose()
            self.get_logger().info('inactive: stopping the arm')

    def _leave(self) -> None:
        """Leave the arm with the idle command, wherever it is."""
        self._loop.leave()
        self._say_stopped()

    def _on_stopped(self) -> None:
        """Go on after the loop has brought the arm to rest."""
        if self._loop is None or self._loop.mode != IDLE:
            return
        if self._state_machine.current_state[1] == 'active':
            self.trigger_deactivate()
        self._say_stopped()
        if self._leaves:
            self._clean_up()

    def _say_stopped(self) -> None:
        self.get_logger().info('the arm is stopped: the last command '
                               + ('carries the weight here; without brakes or friction the arm '
                                  'drifts from here' if self._guard.settings.idle == 'gravity'
                                  else 'is zero'))

    def _clean_up(self) -> None:
        self._leaves = self._ending
        if self._ending:
            return
        for destroy, entity in self._entities:
            destroy(entity)
        self._entities = []
        if self._loop is not None:
            self._loop.close()
            self.destroy_publisher(self._commands)
        if self._law is not None:
            self._law.close()
        self._law = self._guard = self._loop = None
        self._leaves = False
        realtime.collect_garbage_as_usual()

    def _start(self) -> None:
        """One attempt to configure and activate, if that is wanted."""
        if not self.get_parameter('autostart').value:
            return
        try:
            if self._law is None:
                found = values(self, self._table)
                description.description(found, self._urdf)
        except InputError as error:
            self.get_logger().warning(f'waiting: {error}', throttle_duration_sec=5.0)
            return
        if self._law is None and self.trigger_configure() != TransitionCallbackReturn.SUCCESS:
            self._starter.cancel()
            return
        if self._state_age() <= self._state_timeout and self._loop.rest.is_enough:
            self._starter.cancel()
            self.trigger_activate()
        else:
            reason = self._loop.refusal or 'none has come'
            self.get_logger().info(f'waiting for joint_states ({reason})',
                                   throttle_duration_sec=5.0, skip_first=True)

    def _on_description(self, message: String) -> None:
        self._urdf = message.data
        if self._law is None and self._starter.is_canceled():
            self._starter.reset()

    # settings

    def _apply(self, found: dict[str, Any]) -> None:
        require_bandwidth(found, self._period, self._delay(), values(self, self._table))
        robot, driver = self._model(found)
        q = self._loop.q
        settings = _settings(found, robot, driver)
        if len(q):
            require_effort(robot, q, settings.limits.effort, self._law.settings.limits.effort)
        prepared = self._law.prepared(settings, robot, q if len(q) else None)
        with self._loop.lock:
            self._law.take(prepared)
            self._guard.settings = self._supervision(found)
        self._apply_times(found)

    def _delay(self) -> float:
        """Time from a joint state to its command, as far as it is known [periods]."""
        updates = self._loop.updates
        if updates.count < 100:
            return DELAY
        # the median: a late command now and then is like a lost state, and takes no phase
        return max(DELAY, updates.percentile(50)[0] / self._period)

    def _supervision(self, found: dict[str, Any]) -> Supervision:
        timeouts = {STALE_STATE: found['state_timeout'], STALE_TARGET: found['target_timeout']}
        watchdogs = {name: Watchdog(found[f'watchdog.{name}.reaction'],
                                    found[f'watchdog.{name}.latched'],
                                    timeouts.get(name, np.inf)) for name in WATCHDOGS}
        limits = self._law.settings.limits
        return Supervision(watchdogs, limits.effort, found['stop_rate'],
                           found['fade_time'], found['blend_time'], found['settle_time'],
                           self._period, self._period, found['idle'], bridges=True,
                           velocity_limits=limits.velocity)

    def _model(self, found: dict[str, Any]) -> tuple[Robot, Driver | None]:
        """Return the robot as it is loaded, the same one while nothing changes, and its driver."""
        asked = [found[entry.name] for entry in PARAMETERS if entry.name in MODEL]
        if self._law is None or asked != self._asked:
            self._robot, self._known = description.loaded(found, self._bare)
            self._asked = asked
        compensates = found['driver_compensates']
        return self._robot, None if compensates == 'none' else Driver(self._known, compensates)

    def _apply_times(self, found: dict[str, Any]) -> None:
        self._loop.reader.mode = found['velocity']
        self._state_timeout = found['state_timeout']
        self._twist_timeout = found['target.twist_timeout']
        self._sign = 1.0 if found['force.measured'] == 'by_robot' else -1.0
        self._loop.report_period = 1.0 / found['report_rate'] if found['report_rate'] else np.inf

    # the loop, which calls the first three in its thread

    def _on_velocity(self, text: str) -> None:
        self._loop.post(self._log_velocity, text)

    def _log_velocity(self, text: str) -> None:
        self.get_logger().warning(text, throttle_duration_sec=1.0)

    def _watch(self) -> None:
        if self._others:
            self._guard.trip(OTHER_PUBLISHER, f"{', '.join(self._others)} publishes there too")

    def _on_change(self) -> None:
        """Note what the supervisor does, as soon as that is another thing."""
        self._loop.post(self._say_change, self._guard.reaction, self._state())

    def _say_change(self, reaction: str, state: str) -> None:
        # rclpy takes one severity from one line
        if not reaction:
            self.get_logger().info(state)
        elif reaction == 'report':
            self.get_logger().warning(state)
        else:
            self.get_logger().error(state)
        if self._loop is not None:
            self._diagnose()

    def _state(self) -> str:
        """What the node does, in words."""
        guard = self._guard
        if not (self._active or self._ending):
            return 'inactive'
        if not guard.reaction:
            return 'active'
        return f'{guard.cause}: {guard.reason}: {guard.reaction}'

    def _state_age(self) -> float:
        return np.inf if self._loop is None else self._loop.state_age

    # targets

    def _frame_pose(self, frame: str) -> Any:
        q = self._loop.q
        if not len(q):
            raise InputError(f"frame '{frame}': no joint state has come yet to say where it is")
        return self._frames.pose(self._law.robot, q, frame)

    def _follow(self, task: str, topic: str, plan: Any) -> None:
        """Take a new target, or say why not and keep the old one."""
        if not self._active:
            self.get_logger().warning(f'{topic} ignored: the controller is not active')
            return
        try:
            motion, stamp = plan()
            with self._loop.lock:
                start = self._start_of(stamp)
                inside = self._law.follow(motion, start, task)
                self._guard.feed(STALE_TARGET, max(0.0, _end(motion, start) - self._loop.time))
            if not inside:
                self.get_logger().warning(f'{topic} is outside of the workspace box: the nearest '
                                          'position inside is taken', throttle_duration_sec=1.0)
        except InputError as error:
            self.get_logger().error(f'{topic} refused, the old target stays: {error}')

    def _start_of(self, stamp: float) -> float:
        """When a target of that stamp takes effect [s]; what is past means now."""
        now = self._loop.time
        if stamp > now + FARTHEST_AHEAD:
            raise InputError(f'its stamp, {stamp:.3f} s, is far ahead of the joint states, which '
                             f'are at {now:.3f} s: accepted is 0 for now, or at most '
                             f'{FARTHEST_AHEAD:g} s ahead on their clock')
        return max(stamp, now)

    def _on_target_pose(self, task: str, topic: str, message: PoseStamped) -> None:
        self._follow(task, topic, lambda: (
            Hold(self._frame_pose(message.header.frame_id) @ messages.pose_array(message.pose)),
            messages.seconds(message.header.stamp)))

    def _on_target_trajectory(self, task: str, topic: str, data: bytes) -> None:
        self._follow(task, topic, lambda: messages.path(data, self._loop.time, self._frame_pose))

    def _on_target_twist(self, task: str, topic: str, message: TwistStamped) -> None:
        self._follow(task, topic, lambda: messages.jog(
            message, self._loop.time, self._twist_timeout, self._frame_pose))

    def _on_target_wrench(self, task: str, topic: str, message: WrenchStamped) -> None:
        """Take the axes of the frame; the point is the link's origin, whatever the frame."""
        if not self._active:
            self.get_logger().warning(f'{topic} ignored: the controller is not active')
            return
        try:
            frame = self._law.levels[task].task.frame
            R = (self._frame_pose(frame).T @ self._frame_pose(message.header.frame_id))[:3, :3]
            wrench = np.kron(np.eye(2), R) @ messages.wrench_array(message.wrench)
            # what turning leaves along other axes
            small = np.abs(wrench) < 1e-9 * np.abs(wrench).max()
            with self._loop.lock:
                self._law.push(np.where(small, 0.0, wrench), task)
        except InputError as error:
            self.get_logger().error(f'{topic} refused, the old one stays: {error}')

    def _on_measured_wrench(self, task: str, topic: str, message: WrenchStamped) -> None:
        """Take it to act at the origin of its frame, where the sensor is."""
        if not self._active:
            return
        try:
            T = self._frame_pose(message.header.frame_id)
            moment, force = messages.wrench_array(message.wrench).reshape(2, 3) @ T[:3, :3].T
            moment = moment + np.cross(T[:3, 3] - self._law.levels[task].pose[:3, 3], force)
            with self._loop.lock:
                self._law.measure(self._sign * np.hstack([moment, force]), self._loop.time, task)
        except InputError as error:
            self.get_logger().error(f'{topic} refused: {error}', throttle_duration_sec=1.0)

    def _on_target_posture(self, message: JointState) -> None:
        if not self._active:
            self.get_logger().warning('target_posture ignored: the controller is not active')
            return
        try:
            posture = messages.positions(message, self._law.robot.joint_names)
            with self._loop.lock:
                self._law.take_posture(posture)
        except InputError as error:
            self.get_logger().error(f'target_posture refused, the old one stays: {error}')

    def _on_payload(self, message: InertiaStamped) -> None:
        result = self.set_parameters_atomically([
            Parameter(name, value=value) for name, value in messages.payload(message).items()])
        if not result.successful:
            self.get_logger().error(f'payload refused, the old one stays: {result.reason}')

    def _on_gravity(self, message: Vector3Stamped) -> None:
        try:
            R = self._frame_pose(message.header.frame_id)[:3, :3]
            self._law.gravity = R @ messages.vector_array(message.vector)
        except InputError as error:
            self.get_logger().error(f'gravity refused, the old one stays: {error}',
                                    throttle_duration_sec=1.0)

    def _on_hold(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self._active
        if self._active:
            with self._loop.lock:
                self._law.stop()
                self._guard.feed(STALE_TARGET, np.inf)
        response.message = 'stopping' if self._active else 'not active'
        return response

    def _on_release(self, request: Trigger.Request, response: Trigger.Response
                    ) -> Trigger.Response:
        """Let latched causes go that are gone."""
        if self._active:
            with self._loop.lock:
                self._guard.release()
        response.success = self._active and self._guard.reaction in ('', 'report')
        response.message = self._state()
        return response

    # what it has to say

    def _report(self, stamp: Any, pose: Any, error: Any, F: Any) -> None:
        """Publish what the loop found at a time, where somebody listens."""
        if self._loop is None:
            return
        base = self._law.robot.base
        for publisher, message_of, numbers in ((self._pose, messages.pose_message, pose),
                                               (self._pose_error, messages.twist_message, error),
                                               (self._wrench, messages.wrench_message, F)):
            if publisher.get_subscription_count():
                publisher.publish(message_of(numbers, base, stamp))
        if self._inertia.get_subscription_count():
            with self._loop.lock:
                Lambda = self._law.inertia()
            self._inertia.publish(messages.table_message(
                AXIS_NAMES, AXIS_NAMES, Lambda[np.ix_(LINEAR_FIRST, LINEAR_FIRST)]))
        if self._terms.get_subscription_count():
            with self._loop.lock:
                rows = self._rows()
            self._terms.publish(messages.table_message(
                list(rows), self._law.robot.joint_names, np.array(list(rows.values()))))

    def _rows(self) -> dict[str, Any]:
        """Torques by term, and the acceleration predicted for the last tick and met."""
        rows = self._law.terms()
        try:
            rows['predicted'], rows['met'] = self._law.predicted_and_met()
        except InputError:  # of one tick there is nothing to tell
            rows['predicted'] = rows['met'] = np.full(self._law.robot.n, np.nan)
        return rows

    def _every_second(self) -> None:
        self._others = other_publishers(self, self._commands.topic_name)
        self._diagnose()
        realtime.collect_garbage()

    def _friction_use(self) -> float:
        """Largest share of a joint's effort limit that compensates friction now."""
        law = self._law
        return float(np.max(np.abs(law.friction_torque) / law.settings.limits.effort))

    def _diagnose(self) -> None:
        guard, loop = self._guard, self._loop
        guides = [level.guide for level in self._law.levels.values()]
        solved = self._law.priorities
        with loop.lock:
            gain_share, weakest = self._law.gain_share(), solved.weakest()
        level, text = DiagnosticStatus.OK, self._state()
        if self._active and guard.reaction:
            level = (DiagnosticStatus.WARN if guard.reaction == 'report'
                     else DiagnosticStatus.ERROR)
        elif self._active and self._law.saturated.any():
            level, text = DiagnosticStatus.WARN, 'torque at its limit'
        elif self._active and any(guide.waits for guide in guides):
            level, text = DiagnosticStatus.WARN, 'the target waits for the arm'
        elif self._active and self._law.limiter.sides.any():
            level, text = DiagnosticStatus.WARN, 'joints held by their limits'
        elif self._active and gain_share < LEAST_GAIN_SHARE:
            level, text = DiagnosticStatus.WARN, ('gains are reduced: too high for joint states '
                                                  f'every {1e3 * self._law.period:.1f} ms')
        fastest = [1e6 * x for x in loop.updates.percentile(50, 99, 100)]
        period = [1e3 * x for x in loop.periods.percentile(50, 99, 100)]
        status = DiagnosticStatus(
            level=level, name=f'{self.get_fully_qualified_name()[1:]}: control', message=text,
            hardware_id=self._law.robot.name, values=[
                KeyValue(key=key, value=str(value)) for key, value in (
                    ('method', self._law.space.method),
                    ('workers', self._law.space.plan),
                    ('updates', loop.updates.count),
                    *zip(('update p50 [us]', 'update p99 [us]', 'update max [us]'),
                         (f'{x:.1f}' for x in fastest)),
                    *zip(('period p50 [ms]', 'period p99 [ms]', 'period max [ms]'),
                         (f'{x:.3f}' for x in period)),
                    ('missed states', loop.missed),
                    ('refused states', loop.refused),
                    ('last refusal', loop.refusal),
                    ('state age [s]', f'{loop.state_age:.3f}'),
                    ('largest torque use', f'{np.max(loop.torque_use):.3f}'),
                    ('saturated joints', ' '.join(
                        name for name, at in zip(self._law.robot.joint_names,
                                                 self._law.saturated) if at)),
                    ('target', 'waits for the arm' if guides[0].waits else 'at the edge'
                     if guides[0].clamped else 'free'),
                    ('joints held by limits', ' '.join(
                        name for name, at in zip(self._law.robot.joint_names,
                                                 self._law.limiter.sides) if at)),
                    ('task share', f'{self._law.limiter.shares[0]:.3f}'),
                    ('posture share', f'{self._law.limiter.shares[1]:.3f}'),
                    ('torque rate share', f'{self._law.limiter.rate_share:.3f}'),
                    *((f'watchdog {name}', count) for name, count in guard.counts.items()),
                    ('gain share', f'{gain_share:.3f}'),
                    ('start-up check', self._finding),
                    ('friction torque use', f'{self._friction_use():.3f}'),
                    ('payload [kg]', self.get_parameter('payload.mass').value),
                    ('conditioning', f'{solved.ratios[0].min():.3e}'),
                    ('least controlled share', f'{solved.shares[0].min():.3f}'),
                    ('damping', f'{1.0 - solved.shares[0].min():.3f}'),
                    ('weakest direction', _direction(weakest)),
                )])
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)


def _end(motion: Motion, start: float) -> float:
    """When a motion that begins at `start` asks for nothing new any more [s]."""
    if isinstance(motion, Hold):
        return start
    return float(motion.times[-1]) if isinstance(motion, Path) else motion.until


def _direction(motion: Any) -> str:
    names = [f'{kind} {axis}' for kind in ('turn', 'shift') for axis in 'xyz']
    return ', '.join(f'{name} {part:+.2f}' for name, part in zip(names, motion)
                     if abs(part) > 0.2)


def _settings(found: dict[str, Any], robot: Robot, driver: Driver | None = None) -> Settings:
    def both(name: str) -> Any:
        return np.hstack([found[f'rotation.{name}'], found[f'translation.{name}']])

    def axes(prefix: str = '') -> Any:
        return (*found[f'{prefix}rotation.axes'], *found[f'{prefix}translation.axes'])

    control = ForceControl(found['force.damping'], found['force.gain'],
                           found['force.integral_rate'],
                           [found['force.moment_correction'], found['force.correction']])
    target = _target_limits(found)
    tip = Task(
        Gains(both('natural_frequency'), both('damping_ratio'), both('speed'),
              both('acceleration')) if found['mode'] == 'acceleration'
        else Stiffness(both('stiffness'), both('damping_ratio'), both('spring_limit')),
        'tip', '', axes(), found['task.frame'], found['task.activation'], control, target)
    further = (
        Task(Gains([found[f'{name}.natural_frequency']] * 6, [found[f'{name}.damping_ratio']] * 6,
                   both('speed'), both('acceleration')),
             name, found[f'{name}.link'], axes(f'{name}.'), found[f'{name}.frame'],
             found[f'{name}.activation'], control, replace(target, box=NO_BOX))
        for name in found['tasks'])
    return Settings(
        tasks=(tip, *further),
        posture=Posture(found['posture.natural_frequency'], found['posture.damping_ratio'],
                        found['posture.damping']),
        damping=SingularityDamping(found['singularity.length'], found['singularity.low'],
                                   found['singularity.high']),
        limits=_limits(found, robot), blend_time=found['blend_time'],
        friction=_friction(found, robot), driver=driver)


def _friction(found: dict[str, Any], robot: Robot) -> Friction | None:
    coulomb, viscous = (
        description.per_joint(found, f'friction.{name}', np.zeros(robot.n), robot)
        for name in ('coulomb', 'viscous'))
    if not (coulomb.any() or viscous.any()):
        return None
    return Friction(coulomb, viscous, found['friction.velocity'])


def _target_limits(found: dict[str, Any]) -> TargetLimits:
    both = {name: (found[f'target.rotation.{name}'], found[f'target.translation.{name}'])
            for name in ('speed', 'acceleration', 'jerk', 'leash')}
    return TargetLimits(**both, box=(found['workspace.lower'] or NO_BOX[0],
                                     found['workspace.upper'] or NO_BOX[1]))


def _limits(found: dict[str, Any], robot: Robot) -> Limits:
    given: dict[str, Any] = {name: found[f'limits.{name}'] for name in (
        'reaction_time', 'soft_zone', 'repulsion')}
    for name in ('effort', 'effort_rate', 'velocity', 'deceleration'):
        if found[f'limits.{name}']:
            given[name] = description.per_joint(found, f'limits.{name}', (), robot)
    limits = Limits.of(robot, **given)
    if 'effort_rate' in given:
        return limits
    return replace(limits, effort_rate=2.0 * limits.effort / limits.reaction_time)


def main(arguments: list[str] | None = None) -> None:
    """Run the node until it is told to stop."""
    run(Controller, arguments)


if __name__ == '__main__':
    main()
