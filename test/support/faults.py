# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Faults of the soak test: each one disturbs the system for a while, then restores it."""

import signal
import time as wall

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension
from std_srvs.srv import Trigger
from trajectory_msgs.msg import MultiDOFJointTrajectory

from hardware import PERIOD
from osc_ros.ros.messages import messages
from soak import ANSWERED, NEAR

EXTREME = (  # gains that are unstable at a rate of 500 Hz
    {'translation.natural_frequency': [1000.0] * 3},
    {'rotation.natural_frequency': [1000.0] * 3},
    {'translation.damping_ratio': [100.0] * 3, 'rotation.damping_ratio': [100.0] * 3},
    {'posture.natural_frequency': 1000.0},
    {'posture.damping': 1000.0},
    {'force.gain': 0.5, 'force.integral_rate': 1000.0})
USUAL = {'translation.natural_frequency': [20.0] * 3, 'rotation.natural_frequency': [20.0] * 3,
         'translation.damping_ratio': [1.0] * 3, 'rotation.damping_ratio': [1.0] * 3,
         'posture.natural_frequency': 5.0, 'posture.damping': 1.0, 'force.gain': 0.0,
         'force.integral_rate': 0.0}
# Payloads that the test sets although the arm carries none [kg]. The controller accepts a heavier
# payload if the arm can hold it, but a light wrist may become unstable: see "Payload" in
# doc/payload.md.
MASSES = (0.0, 0.5, 2.0, 50.0)
GAPS = (0.02, 0.05, 0.1, 0.2, 0.3)  # without joint states [s]
# Longer gaps [s] only with the dry friction of gears (relative to the effort limits): without
# friction the arm is an unstable pendulum that no torque holds without feedback.
LONG_GAPS, GEARS = (0.5, 1.0), 0.03
RETURN = 10.0  # longest time for the return from a position limit [s]
REQUESTS = round(0.01 / PERIOD)  # ticks between two requests: 100 Hz


# faults of the joint states

def _states(kind):
    def fault(system):
        system.hardware.fault = kind
        system.run(0.5)
    return fault


def _move(system, least=0.15):
    """Move towards a random pose, and return while the arm is fast (or after 0.5 s)."""
    target = system.pose()
    system.ask_pose(target)
    begun = system.hardware.time
    plant = system.hardware.plant
    system.until(lambda: system.hardware.time - begun > least
                 and np.abs(plant.qd / plant.velocity).max() > 0.1
                 or system.hardware.time - begun > 0.5, 'for a motion')


def gap_of_states(system):
    """Send no joint states for a while, during a motion."""
    hardware, gap = system.hardware, float(system.rng.choice(GAPS + LONG_GAPS))
    if gap in LONG_GAPS:
        hardware.plant.friction[:] = GEARS * hardware.plant.effort
    _move(system)
    hardware.mute = True
    system.run(gap)
    hardware.mute = False
    system.run(0.2)


def missing_velocities(system):
    """Send joint states without velocities, during a motion."""
    _move(system)
    system.hardware.fault = 'missing velocities'
    system.run(0.5)
    system.ask_pose(system.pose())
    system.run(0.5)


def silence(system):
    """Send no joint states for 0.15 s of wall time."""
    end = wall.perf_counter() + 0.15
    system.hardware.mute = True
    system.until(lambda: wall.perf_counter() > end, 'for time to pass')


# faults of goals and parameters

def bad_targets(system):
    """Send invalid goals."""
    hardware, rng = system.hardware, system.rng
    pose = messages.pose_message(system.pose(), '', messages.stamp(0.0))
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
        hardware.postures.publish(JointState(name=hardware.names[:1], position=[1e9]))
        hardware.paths.publish(MultiDOFJointTrajectory())
    hardware.poses.publish(pose)
    system.run(0.2)


def long_trajectories(system):
    """Send three trajectories of 1000 to 10,000 points, each 0.3 s after the last."""
    for _ in range(3):
        system.hardware.paths.publish(system.paths[int(system.rng.integers(len(system.paths)))])
        system.run(0.3)


def flood_of_requests(system):
    """Send poses, parameter sets and service calls, each at 100 Hz."""
    hardware, rng, futures = system.hardware, system.rng, []
    for client in (hardware.set, hardware.hold):
        system.until(client.service_is_ready, 'for a service', ANSWERED)
    poses = [system.pose() for _ in range(8)]
    for k in range(80):
        system.ask_pose(poses[k % len(poses)])
        futures.append(hardware.set.call_async(system.request(
            **{'translation.natural_frequency': [float(rng.uniform(18.0, 22.0))] * 3})))
        futures.append(hardware.hold.call_async(Trigger.Request()))
        for _ in range(REQUESTS):
            system.step()
    system.run(0.5)
    # DDS keeps ten responses, and drops older ones that a busy client has not taken
    system.counts['requests'] += len(futures)
    system.counts['requests without an answer'] += sum(not future.done() for future in futures)
    for client in (hardware.set, hardware.hold):
        for future in futures:
            client.remove_pending_request(future)
    system.parameters(**{'translation.natural_frequency': [20.0] * 3})


def too_much_friction(system):
    """Set a friction above the real one: 0.2 instead of 0, or 0.6 instead of 0.5 N·m."""
    told, true = ((0.2, 0.0), (0.6, 0.5))[int(system.rng.integers(2))]
    n = system.hardware.plant.n
    system.hardware.plant.friction[:] = true
    system.parameters(**{'friction.coulomb': [told] * n})
    for _ in range(2):
        system.ask_pose(system.pose())
        system.run(0.5)
    system.parameters(**{'friction.coulomb': []})


def wrong_payload(system):
    """Set a payload that the arm does not carry."""
    system.parameters(**{'payload.mass': float(system.rng.choice(MASSES))})
    system.run(0.5)
    system.ask_pose(system.pose())
    system.run(0.5)
    system.parameters(**{'payload.mass': 0.0})
    system.run(0.3)


def extreme_gains(system):
    """Set gains that would be unstable at 500 Hz."""
    system.parameters(**EXTREME[int(system.rng.integers(len(EXTREME)))])
    system.ask_pose(system.pose())
    system.run(0.7)
    system.parameters(**USUAL)


def limits_of_position(system):
    """Send a goal that needs a joint 0.2 rad beyond its limit, then return to the home pose."""
    plant, home = system.hardware.plant, np.array(system.arm.home)
    ends = np.array([plant.lower, plant.upper])
    room = np.abs(ends - home)
    places = np.argsort(room, axis=None)[:4]  # indices of (side, joint): the four nearest limits
    side, i = np.unravel_index(int(system.rng.choice(places)), room.shape)
    way = (-1.0, 1.0)[side]
    beyond, at = home.copy(), home.copy()
    beyond[i], at[i] = ends[side, i] + 0.2 * way, ends[side, i]
    duration = 0.5 + min(2.0 * room[side, i] / plant.velocity[i], 3.0)
    system.ask_posture(at)
    system.ask_pose(system.pose_at(beyond))
    system.run(duration)
    system.ask_posture(home)
    system.ask_pose(system.hardware.home)
    # the straight way home may press other joints against their limits until the posture turns
    # the elbow
    end = system.hardware.time + RETURN
    system.until(lambda: system.hardware.error(system.hardware.home)[0] < NEAR
                 or system.hardware.time > end, 'for the way home')


def retraction(system):
    """Send a goal on the opposite side of the base axis, then return to the home pose."""
    there = system.hardware.home.copy()
    there[:2, 3] *= -0.1
    system.ask_pose(there)
    system.run(1.0)
    system.ask_pose(system.hardware.home)
    system.run(1.0)


def little_torque(system):
    """Set effort limits that hardly suffice for gravity compensation."""
    plant = system.hardware.plant
    least = np.maximum(1.2 * system.heaviest(), 0.15 * plant.effort)
    system.parameters(**{'limits.effort': np.minimum(least, plant.effort).tolist()})
    system.ask_pose(system.pose())
    system.run(0.8)
    system.parameters(**{'limits.effort': []})
    system.run(0.4)


# other nodes that send torques

def _publisher(system):
    publisher = system.hardware.create_publisher(Float64MultiArray, 'osc_controller/commands', 1)
    system.until(lambda: publisher.get_subscription_count() > 0, 'for the relay')
    return publisher


def foreign_torques(system):
    """Another publisher sends invalid torques."""
    publisher = _publisher(system)
    n = system.hardware.plant.n
    for _ in range(10):
        values = system.rng.choice([np.nan, 1e6, -300.0, 0.0], n).tolist()
        publisher.publish(Float64MultiArray(data=values[:int(system.rng.integers(n - 2, n + 1))]))
        system.step()
    system.hardware.destroy_publisher(publisher)


def second_publisher(system):
    """Another publisher sends valid torques, shortly before the controller does."""
    publisher, hardware = _publisher(system), system.hardware
    offset = system.rng.uniform(-0.15, 0.15, hardware.plant.n) * hardware.plant.effort
    base = hardware.plant.weight()
    for _ in range(150):
        tau = np.clip(base + offset, -hardware.plant.effort, hardware.plant.effort)
        message = Float64MultiArray(data=tau.tolist())
        message.layout.dim = [MultiArrayDimension(
            label=messages.label_of(hardware.stamp))]
        publisher.publish(message)
        system.step()
    hardware.destroy_publisher(publisher)


def second_controller(system):
    """Start a second controller, and end it again."""
    second = system.second_controller()
    system.run(0.5)
    second.send_signal(signal.SIGINT)
    system.until(lambda: second.poll() is not None, 'for the end of the second one')


# lifecycle and hold service of the controller

def _change(system, wanted):
    answer = system.answer(system.hardware.change, ChangeState.Request(
        transition=Transition(id=wanted)), 'for a transition')
    if not answer.success:
        system.judge.object(system.hardware.time, 'transition refused', 1)


def lifecycle(system):
    """Deactivate the controller, and activate it again."""
    for wanted in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_ACTIVATE):
        _change(system, wanted)
        system.run(0.1)


def deactivated(system):
    """Deactivate the controller in motion; the relay stops the arm, which has no brakes."""
    _move(system)
    _change(system, Transition.TRANSITION_DEACTIVATE)
    system.run(1.0)
    system.drift()
    _change(system, Transition.TRANSITION_ACTIVATE)


def deactivated_with_brakes(system):
    """Deactivate the controller in motion; brakes hold the arm until it is active again."""
    _move(system)
    _change(system, Transition.TRANSITION_DEACTIVATE)
    system.run(1.0)
    system.hardware.brakes = True
    system.hardware.plant.reset(system.hardware.plant.q.copy())
    system.run(0.5)
    _change(system, Transition.TRANSITION_ACTIVATE)
    system.hardware.brakes = False
    system.run(0.1)


def hold_in_motion(system):
    """Call the service ~/hold of the controller while the arm moves."""
    _move(system)
    system.answer(system.hardware.hold, Trigger.Request(), 'for a hold')
    system.run(1.0)
    system.drift(joints=False)


def speed_override(system):
    """Change the speed override during a motion, again before a change has ended."""
    _move(system)
    for _ in range(10):
        system.hardware.set.call_async(system.request(
            speed_override=float(system.rng.choice([0.0, 1.0, 10.0, 100.0]))))
        system.run(float(system.rng.choice([0.01, 0.1, 0.3])))
    system.hardware.set.call_async(system.request(speed_override=100.0))
    system.run(0.5)


FAULTS = {
    'dropped states': _states('dropped states'),
    'garbled states': _states('garbled states'),
    'late states': _states('late states'),
    'repeated states': _states('repeated states'),
    'bad targets': bad_targets,
    'foreign torques': foreign_torques,
    'silence': silence,
    'killed': lambda system: system.restart(signal.SIGKILL),
    'interrupted': lambda system: system.restart(signal.SIGINT),
    'lifecycle': lifecycle,
    'long trajectories': long_trajectories,
    'flood of requests': flood_of_requests,
    'too much friction': too_much_friction,
    'wrong payload': wrong_payload,
    'gap of states': gap_of_states,
    'missing velocities': missing_velocities,
    'extreme gains': extreme_gains,
    'second publisher': second_publisher,
    'second controller': second_controller,
    'deactivated': deactivated,
    'deactivated, brakes': deactivated_with_brakes,
    'hold in motion': hold_in_motion,
    'limits of position': limits_of_position,
    'retraction': retraction,
    'little torque': little_torque,
    'speed override': speed_override,
}
