"""Everything at once, at random: targets, parameters, restarts, a wire not to be trusted."""

from collections import Counter
from pathlib import Path
import signal
import time as wall

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from arm import moved, PANDA, READY
from conftest import CHECKOUT

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from geometry_msgs.msg import PoseStamped, TwistStamped  # noqa: E402
from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rcl_interfaces.srv import SetParametersAtomically  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402
from trajectory_msgs.msg import MultiDOFJointTrajectory  # noqa: E402

from osc_ros.control.trajectory import figure_of_eight  # noqa: E402
from osc_ros.nodes import messages  # noqa: E402
from osc_ros.nodes.share import share_directory  # noqa: E402
from osc_ros.sim import Plant  # noqa: E402
from test_nodes import JOINTS  # noqa: E402

PERIOD = 0.002
LIMITS = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
ROUNDED = 1.0 + 1e-9
UNANSWERED = 0.05  # of wall time after which the hardware goes on with its last torque [s]
TRACKING = 2.0  # of simulated time after a fault, until when the arm is on its target again [s]
NEAR, TURNED = 1e-3, 2e-3  # what that means [m, rad]
PATIENCE = 120.0  # of wall time [s]
STATED = ['--ros-args', '--params-file', share_directory() / 'config' / 'panda.yaml']


class Hardware(Node):
    """A simulated Panda at the end of a wire that loses, repeats, delays and garbles states."""

    def __init__(self, rng):
        """Listen to the relay."""
        super().__init__('hardware')
        self.plant = Plant(PANDA.urdf_text, PANDA.base, list(JOINTS), friction=[0.0] * 7,
                           damping=[0.0] * 7)
        self.plant.reset(READY)
        self.home = self.plant.pose('panda_hand_tcp')
        self.rng, self.fault, self.tau, self.label = rng, None, None, None
        self.counts, self.bad, self.largest = Counter(), [], 0.0
        self.create_subscription(Float64MultiArray, 'osc_relay/commands', self._on_command, 10)
        tell = self.create_publisher
        self.states = tell(JointState, 'joint_states', 10)
        self.poses = tell(PoseStamped, 'osc_controller/target_pose', 10)
        self.paths = tell(MultiDOFJointTrajectory, 'osc_controller/target_trajectory', 10)
        self.twists = tell(TwistStamped, 'osc_controller/target_twist', 10)
        self.postures = tell(JointState, 'osc_controller/target_posture', 10)
        self.commands = tell(Float64MultiArray, 'osc_controller/commands', 1)
        self.hold = self.create_client(Trigger, 'osc_controller/hold')
        self.change = self.create_client(ChangeState, 'osc_controller/change_state')
        self.set = self.create_client(
            SetParametersAtomically, 'osc_controller/set_parameters_atomically')
        self._late = []

    @property
    def time(self):
        """Simulated [s]."""
        return self.plant.time

    def _on_command(self, message):
        tau = np.array(message.data)
        self.counts['commands'] += 1
        if tau.shape != (7,) or not np.isfinite(tau).all() or (
                np.abs(tau) > ROUNDED * LIMITS).any():
            self.bad.append((self.time, tau))
            return
        self.largest = max(self.largest, float((np.abs(tau) / LIMITS).max()))
        self.tau, self.label = tau, messages.label(message)

    def tell(self):
        """Send the state, through the wire."""
        q, qd, tau = self.plant.measured()
        message = messages.joint_state(JOINTS, self.time + 1.0, q, qd, tau)
        self.asked = messages.label_of(message.header.stamp)
        kind = self.fault if self.fault and self.rng.random() < 0.3 else None
        if kind == 'dropped states':
            return
        if kind == 'garbled states':
            self._garble(message)
        if kind == 'late states':
            self._late.append(message)
            return
        self.states.publish(message)
        if kind == 'repeated states':
            self.states.publish(message)
        if self._late and self.rng.random() < 0.5:
            self.states.publish(self._late.pop(int(self.rng.integers(len(self._late)))))

    def _garble(self, message):
        how, i = int(self.rng.integers(6)), int(self.rng.integers(7))
        if how == 0:
            message.position[i] = float(self.rng.choice([np.nan, np.inf, 1e300, 1e9]))
        elif how == 1:
            message.velocity[i] = float(self.rng.choice([np.nan, -np.inf, -1e300, 50.0]))
        elif how == 2:
            message.position[i] += 0.7
        elif how == 3:
            message.name = [f'other_{i}' for i in range(7)]
        elif how == 4:
            message.velocity = message.velocity[:4]
        else:
            message.header.stamp = messages.stamp(float(self.rng.choice([0.0, 1e6])))

    def error(self, target):
        """Distance [m] and angle [rad] of the tip from a pose."""
        T = self.plant.pose('panda_hand_tcp')
        return (np.linalg.norm(target[:3, 3] - T[:3, 3]),
                Rotation.from_matrix(target[:3, :3] @ T[:3, :3].T).magnitude())


class Soak:
    """The hardware, a relay, a controller that may be restarted, and what is done to them."""

    def __init__(self, spin, start, seed):
        """Start all."""
        self.rng = np.random.default_rng(seed)
        self.spin, self._start = spin, start
        self.hardware = Hardware(self.rng)
        spin(lambda: True, self.hardware)
        self.relay = start('relay', *STATED, '-p', 'command_timeout:=0.1')
        self.begin()
        self.counts, self.recovered, self.memory = Counter(), {}, []

    def begin(self):
        """Start a controller, and wait until it has the arm."""
        self.controller = self._start('controller', *STATED)
        commands = self.hardware.count_subscribers
        self.until(lambda: commands('joint_states') > 1 and self._is_active(), 'for a controller')

    def _is_active(self):
        return 'active: holding' in self.controller.log.read_text()

    def until(self, happened, why):
        """Step until something is true."""
        deadline = wall.perf_counter() + PATIENCE
        while not happened():
            assert wall.perf_counter() < deadline, (why, self.controller.log.read_text()[-2000:])
            self.step()

    def step(self):
        """One period: the state goes out, a torque comes, or not, and physics go on."""
        hardware = self.hardware
        hardware.tell()
        latest = wall.perf_counter() + UNANSWERED
        self.spin(lambda: hardware.label == hardware.asked or wall.perf_counter() > latest)
        hardware.counts['unanswered'] += hardware.label != hardware.asked
        if hardware.tau is not None:
            hardware.plant.step(hardware.tau, 2)
            hardware.counts['steps'] += 1
        assert not hardware.bad, hardware.bad

    def run(self, duration):
        """Let time pass, simulated [s]."""
        end = self.hardware.time + duration
        self.until(lambda: self.hardware.time >= end, 'for time to pass')

    def answer(self, client, request, why):
        """Ask a service while the arm goes on."""
        self.until(client.service_is_ready, why)
        future = client.call_async(request)
        self.until(future.done, why)
        return future.result()

    # what is asked for

    def pose(self):
        """Return some pose that is well within reach."""
        return moved(self.hardware.home, self.rng.uniform(-0.12, 0.12, 3),
                     self.rng.uniform(-0.4, 0.4, 3))

    def target(self):
        """Ask for something."""
        hardware, rng = self.hardware, self.rng
        kind = str(rng.choice(['pose', 'path', 'twist', 'posture', 'hold', 'parameters']))
        self.counts[f'target: {kind}'] += 1
        if kind == 'pose':
            hardware.poses.publish(messages.pose_message(self.pose(), '', messages.stamp(0.0)))
        elif kind == 'path':
            path = figure_of_eight(hardware.plant.pose('panda_hand_tcp'), 0.1, 0.05, 3.0, 1.0,
                                   hardware.time + 1.5)
            hardware.paths.publish(
                messages.trajectory_message(path, 'panda_link0', 'panda_hand_tcp'))
        elif kind == 'twist':
            hardware.twists.publish(messages.twist_message(
                rng.uniform(-0.2, 0.2, 6), 'panda_hand_tcp', messages.stamp(0.0)))
        elif kind == 'posture':
            hardware.postures.publish(messages.joint_state(
                JOINTS, 0.0, READY + rng.uniform(-0.2, 0.2, 7), np.zeros(7), np.zeros(7)))
        elif kind == 'hold':
            self.answer(hardware.hold, Trigger.Request(), 'for a hold')
        else:
            self.parameters(**self.sets())

    def sets(self):
        """Return a set of parameters, which may be a bad one."""
        rng = self.rng
        frequency = [float(x) for x in rng.uniform(15.0, 25.0, 3)]
        sets = [{'translation.natural_frequency': frequency},
                {'rotation.natural_frequency': frequency, 'mode': 'acceleration'},
                {'posture.natural_frequency': float(rng.uniform(1.0, 8.0))},
                {'limits.effort_rate': [float(x) for x in 50.0 * LIMITS]},
                {'limits.effort_rate': []},
                {'blend_time': float(rng.uniform(0.05, 0.5))},
                {'translation.natural_frequency': [1.0, -1.0, 1.0]},
                {'payload.mass': -1.0, 'blend_time': 0.1}]
        return sets[int(rng.integers(len(sets)))]

    def parameters(self, **values):
        """Set parameters, all or none."""
        request = SetParametersAtomically.Request(parameters=[
            Parameter(name, Parameter.Type.DOUBLE_ARRAY if value == [] else None, value)
            .to_parameter_msg() for name, value in values.items()])
        result = self.answer(self.hardware.set, request, 'for a set').result
        self.counts['sets accepted' if result.successful else 'sets refused'] += 1

    # what goes wrong

    def garbage(self):
        """Ask for what cannot be."""
        hardware, rng = self.hardware, self.rng
        pose = messages.pose_message(self.pose(), '', messages.stamp(0.0))
        how = int(rng.integers(5))
        if how == 0:
            pose.pose.position.x = np.nan
        elif how == 1:
            pose.pose.orientation.w, pose.pose.orientation.x = 0.0, 0.0
            pose.pose.orientation.y = pose.pose.orientation.z = 0.0
        elif how == 2:
            pose.header.frame_id = 'nowhere'
        elif how == 3:
            pose.header.stamp = messages.stamp(1e8)
        else:
            pose.pose.position.x = 1e9
            hardware.postures.publish(JointState(name=['panda_joint1'], position=[1e9]))
            hardware.paths.publish(MultiDOFJointTrajectory())
        hardware.poses.publish(pose)
        self.run(0.2)

    def nonsense(self):
        """Somebody else sends torques."""
        for _ in range(10):
            values = self.rng.choice([np.nan, 1e6, -300.0, 0.0], 7).tolist()
            self.hardware.commands.publish(Float64MultiArray(
                data=values[:int(self.rng.integers(5, 8))]))
            self.step()

    def silence(self):
        """No states for longer than the time-out."""
        end = wall.perf_counter() + 0.15
        self.spin(lambda: wall.perf_counter() > end)

    def restart(self, how):
        """End the controller, and start another one."""
        self.controller.send_signal(how)
        self.until(lambda: self.controller.poll() is not None, 'for the end')
        self.begin()

    def lifecycle(self):
        """Deactivate and activate."""
        for wanted in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_ACTIVATE):
            assert self.answer(self.hardware.change, ChangeState.Request(
                transition=Transition(id=wanted)), 'for a transition').success
            self.run(0.1)

    FAULTS = ('dropped states', 'garbled states', 'late states', 'repeated states',
              'bad targets', 'foreign torques', 'silence', 'killed', 'interrupted', 'lifecycle')

    def go_wrong(self, kind):
        """Let one thing go wrong, and be right again."""
        if kind.endswith('states'):
            self.hardware.fault = kind
            self.run(0.5)
            self.hardware.fault, self.hardware._late = None, []
        else:
            {'bad targets': self.garbage, 'foreign torques': self.nonsense,
             'silence': self.silence, 'killed': lambda: self.restart(signal.SIGKILL),
             'interrupted': lambda: self.restart(signal.SIGINT),
             'lifecycle': self.lifecycle}[kind]()

    def recover(self, kind):
        """Ask for a pose, and wait until the arm is there."""
        begun, target = self.hardware.time, self.pose()
        sent = -np.inf

        def tracks():
            nonlocal sent
            if self.hardware.time - sent > 0.5:  # as a client does whose message may be lost
                sent = self.hardware.time
                self.hardware.poses.publish(
                    messages.pose_message(target, '', messages.stamp(0.0)))
            away, turned = self.hardware.error(target)
            return away < NEAR and turned < TURNED

        self.until(lambda: tracks() or self.hardware.time - begun > 2.0 * TRACKING, kind)
        took = self.hardware.time - begun
        if took >= TRACKING:
            for process in (self.controller, self.relay):
                print(process.log.read_text()[-5000:])
        assert took < TRACKING, (kind, self.hardware.time, self.hardware.error(target))
        self.recovered.setdefault(kind, []).append(took)

    def resident(self, process):
        """Memory of a process [MiB]."""
        pages = Path(f'/proc/{process.pid}/statm').read_text().split()[1]
        return int(pages) * 4096 / 2**20


def test_arm_survives_what_goes_wrong_at_random_and_tracks_again(spin, start, request):
    soak = Soak(spin, start, seed=7)
    duration = request.config.getoption('--soak')
    kinds, memory = [], []
    while soak.hardware.time < duration:
        if not kinds:
            kinds = [str(kind) for kind in soak.rng.permutation(soak.FAULTS)]
            memory.append((soak.hardware.time, soak.resident(soak.relay)))
        soak.target()
        soak.run(float(soak.rng.uniform(0.1, 0.6)))
        kind = kinds.pop()
        soak.counts[f'fault: {kind}'] += 1
        before = soak.resident(soak.controller)
        soak.go_wrong(kind)
        soak.recover(kind)
        if kind not in ('killed', 'interrupted'):
            soak.memory.append(soak.resident(soak.controller) - before)
    assert soak.relay.poll() is None and soak.controller.poll() is None
    assert soak.hardware.counts['unanswered'] < soak.hardware.counts['steps']
    if duration >= 60.0:  # what is allocated once is not counted
        assert memory[-1][1] - memory[len(memory) // 4][1] < 2.0, memory
    if request.config.getoption('--write-tables'):
        write(soak, memory)


def write(soak, memory):
    """Write the table of doc/soak.md."""
    counts, hardware = soak.counts, soak.hardware
    lines = [
        '# Soak', '',
        f'{hardware.time:.0f} s of simulated time at 500 Hz, {hardware.counts["steps"]} ticks: a '
        'Panda in MuJoCo, `osc_controller` and `osc_relay` in processes of their own, over DDS, '
        'in lockstep. Everything is drawn at random from one seed. Written by',
        "`make test ARGS='-k survives --soak 600 --write-tables'`.", '',
        '| fault | times | on its target again after, median [s] | worst [s] |',
        '|---|---:|---:|---:|']
    for kind in soak.FAULTS:
        took = soak.recovered.get(kind, [])
        if took:
            lines.append(f'| {kind} | {counts[f"fault: {kind}"]} | {np.median(took):.2f} | '
                         f'{max(took):.2f} |')
    lines += ['', '| | |', '|---|---:|']
    lines += [f'| {key} | {count} |' for key, count in sorted(counts.items())
              if not key.startswith('fault')]
    lines += [
        f'| torques received | {hardware.counts["commands"]} |',
        '| not finite, or beyond limits | 0 |',
        f'| largest torque [% of limit] | {100.0 * hardware.largest:.1f} |',
        f'| ticks with the last torque, as no other came | {hardware.counts["unanswered"]} |',
        f'| memory of the relay, first and last [MiB] | {memory[0][1]:.1f}, {memory[-1][1]:.1f} |',
        f'| memory of the controller, mean change in a round [MiB] | {np.mean(soak.memory):.3f} |',
        '', 'On its target: within 1 mm and 2 mrad of a new pose up to 0.2 m away, by MuJoCo, '
        'counted from the end of the fault; after a restart, from when the new process is active.',
        '']
    (CHECKOUT / 'doc' / 'soak.md').write_text('\n'.join(lines))
