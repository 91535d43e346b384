# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Conversion of parameter values to the settings of a law, without a node."""

from dataclasses import fields, is_dataclass
from pathlib import Path
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')

from osc_ros.control.settings import Observation, Settings
from osc_ros.errors import InputError
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.controller_parameters import PARAMETERS, WATCHDOGS, with_tasks
from osc_ros.ros.parameters.node_settings import law_settings, LoadedRobot, supervision
from osc_ros.setting import field_settings, Group, parameters

PANDA = {'robot_description_file': 'panda', 'base': 'panda_link0', 'tip': 'panda_hand_tcp'}


def values(**changed):
    """Return the default parameters with some values changed; `__` in a name becomes a dot."""
    changed = {name.replace('__', '.'): value for name, value in changed.items()}
    table = with_tasks(changed.get('tasks', ()))
    return {entry.name: entry.default for entry in table} | PANDA | changed


def robot(found):
    """Return the robot that these parameters describe."""
    return robot_parameters.robot(found, robot_parameters.description(found))


def differences(found, expected, name='settings'):
    """Yield the names of the values in which two records differ."""
    if is_dataclass(expected):
        for field in fields(expected):
            yield from differences(getattr(found, field.name), getattr(expected, field.name),
                                   f'{name}.{field.name}')
    elif isinstance(expected, tuple) and not isinstance(expected[0], str):
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f'{name}[{k}]')
    elif hasattr(expected, 'conditioning'):
        yield from differences((found.length, found.low, found.high),
                               (expected.length, expected.low, expected.high), name)
    elif type(found) is not type(expected) or not np.array_equal(found, expected):
        yield name


def test_defaults_of_the_parameters_are_those_of_the_library():
    arm = robot(values())
    library = Settings.of(arm, observation=Observation())  # a node publishes external torques
    assert list(differences(law_settings(values(), arm), library)) == []
    assert Settings.of(arm).friction is None
    stiff = law_settings(values(posture__natural_frequency=6.0, target__too_fast='slow'), arm)
    assert list(differences(stiff, library)) == [
        'settings.tasks[0].limits.too_fast', 'settings.posture.natural_frequency']


def test_rotation_comes_before_translation_in_the_settings():
    found = values(translation__natural_frequency=(1.0, 2.0, 3.0),
                   rotation__axes=('motion', 'free', 'force'), workspace__lower=(0.0, 0.1, 0.2))
    [tip] = law_settings(found, robot(found)).tasks
    np.testing.assert_array_equal(tip.gains.natural_frequency, [20.0] * 3 + [1.0, 2.0, 3.0])
    assert tip.axes == ('motion', 'free', 'force', 'motion', 'motion', 'motion')
    np.testing.assert_array_equal(tip.limits.box, [[0.0, 0.1, 0.2], [np.inf] * 3])


def test_impedance_and_further_tasks_and_friction_reach_the_settings():
    found = values(mode='impedance', tasks=('elbow',), elbow__link='panda_link4',
                   elbow__activation=0.5, friction__coulomb=(0.5,) * 7)
    settings = law_settings(found, robot(found))
    tip, elbow = settings.tasks
    np.testing.assert_array_equal(tip.gains.stiffness, [30.0] * 3 + [500.0] * 3)
    assert (elbow.name, elbow.link, elbow.activation) == ('elbow', 'panda_link4', 0.5)
    np.testing.assert_array_equal(settings.friction.coulomb, [0.5] * 7)
    assert law_settings(values(friction__from_description=0.0), robot(found)).friction is None


def test_effort_rate_is_twice_the_effort_in_the_reaction_time_unless_it_is_given():
    found = values(limits__effort=(10.0,) * 7)
    limits = law_settings(found, robot(found)).limits
    np.testing.assert_allclose(limits.effort_rate, 500.0)
    found = values(limits__effort_rate=(700.0,) * 7)
    np.testing.assert_array_equal(law_settings(found, robot(found)).limits.effort_rate, 700.0)


@pytest.mark.parametrize('changed, message', [
    ({'limits__effort': (1.0,)}, "'limits.effort' .*1 .*(give|must be)"),
    ({'singularity__low': 0.5}, '0 < low < high < 1'),
    ({'limits__effort_rate': (1e4,) * 6 + (40.0,)},
     "effort_rate 40 of joint 'panda_joint7'.* at least 48"),
    ({'limits__reaction_time': 10.0}, 'reaction_time 10.* at most 0.5 .s'),
])
def test_values_that_do_not_fit_are_refused(changed, message):
    found = values(**changed)
    with pytest.raises(InputError, match=message):
        law_settings(found, robot(found))


def test_every_watchdog_has_its_parameters_and_its_time_out():
    found = values(state_timeout=0.3, target_timeout=4.0, watchdog__jump__reaction='damp',
                   watchdog__jump__latched=True)
    limits = law_settings(found, robot(found)).limits
    dogs = supervision(found, robot(found), limits).watchdogs
    assert set(dogs) == {entry.name for entry in WATCHDOGS}
    assert {name: dog.timeout for name, dog in dogs.items() if dog.timeout < np.inf} == {
        'stale_state': 0.3, 'stale_target': 4.0}
    assert dogs['jump'].reaction == 'damp' and dogs['jump'].latched


def test_robot_stays_the_same_object_until_its_load_changes():
    found = values()
    loaded = LoadedRobot(robot(found))
    first, driver = loaded.of(found)
    assert driver is None
    assert loaded.of(values(stop_rate=5.0))[0] is first
    assert loaded.of(values(payload__mass=1.0))[0] is not first
    assert loaded.of(values(driver_compensates='gravity'))[1] is not None


def test_table_has_every_parameter_once():
    names = [entry.name for entry in PARAMETERS]
    assert len(set(names)) == len(names)


# In a new process: kernels that other tests have compiled would hide a compilation.
LIVE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
""" + """
import numpy as np
from osc_ros.control.setpoint.trajectory import figure_of_eight, PoseGoal
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.tasks.impedance import Impedance
from osc_ros.control.safety.supervisor import Supervisor
from osc_ros.control.tasks.task import TargetLimits
from osc_ros.control.setpoint.trajectory import path_through
from osc_ros.compile.compiled import KERNELS, on_demand
from osc_ros.ros.parameters import robot_parameters as description
from osc_ros.ros.parameters.node_settings import law_of, law_settings, supervision
from supervised import idle_torque, torque_to_send
from test_settings import values

found = values(tasks=('elbow',), elbow__link='panda_link4')
loaded, law = law_of(found, description.description(found))
guard = Supervisor(law.robot, law,
                   supervision(found, law.robot, law.settings.limits))
q, time = np.array([0.0, -0.8, 0.0, -2.3, 0.0, 1.6, 0.8]), [0.0]
guard.accept_state(0.0, q, np.zeros(7))  # elsewhere, the next state would be a jump
torque_to_send(guard)  # the kernel of the test
ready = {one: list(one.signatures) for one in KERNELS}
assert 10 < sum(map(len, ready.values())) < 60

def tick(count=3):
    for _ in range(count):
        time[0] += 0.002
        guard.accept_state(time[0], q, 0.1 * np.ones(7))
        torque_to_send(guard, lambda: law.torque(time[0], q, 0.1 * np.ones(7)))
        law.plan()
    law.terms(), law.inertia(), law.predicted_and_measured(), law.gain_share()
    law.priorities.weakest()
    idle_torque(guard)

usual = law.settings
law.hold(q)
law.require_holding(q)
tick()
law.follow(figure_of_eight(law.pose, 0.1, 0.1, 4.0, 1.0, 1.0), 0.1)
tick()
law.follow(PoseGoal(law.pose), time[0])
law.follow(TwistGoal(np.full(6, 0.1), time[0] + 1.0), time[0], 'elbow')
tick(200)
poses = np.repeat(law.pose[None], 9, axis=0)
poses[:, 0, 3] += np.linspace(0.0, 0.4, 9)
law.follow(path_through(time[0] + np.linspace(0.0, 0.5, 9), poses, TargetLimits()), time[0])
tick()
for changed in ({'payload__mass': 1.0}, {'gravity': (0.0, -9.81, 0.0)}, {'mode': 'impedance'},
                {'tool__position': (0.0, 0.0, 0.1)}, {'task__frame': 'panda_link5'},
                {'translation__axes': ('motion', 'motion', 'force'), 'force__gain': 0.2},
                {'friction__coulomb': (0.5,) * 7}, {'limits__effort': (60.0,) * 7},
                {'driver_compensates': 'gravity', 'payload__known_to_driver': True},
                {'mode': 'free', 'friction__coulomb': (0.5,) * 7}):
    other = values(tasks=('elbow',), elbow__link='panda_link4', **changed)
    robot, driver = loaded.of(other)
    with on_demand():
        prepared = law.new_setup(law_settings(other, robot, driver), robot, q)
    assert {one: list(one.signatures) for one in KERNELS} == ready, changed
    law.use_setup(prepared)
    law.set_measured_wrench(np.ones(6), time[0])
    law.gravity = [0.0, 0.0, -9.8]
    if changed.get('mode') == 'impedance':
        law.set_impedance(Impedance(np.full(6, 20.0), np.ones(6), np.zeros(6)))
    tick()
with on_demand():  # as in the node
    law.change(usual)
tick()
law.set_posture(q + 0.1)
tick()
law.stop()
guard.report_fault('not_finite', 'a test')
tick(50)
guard.stop()
tick(500)
assert {one: list(one.signatures) for one in KERNELS} == ready
"""


# quick: the test below, and test_nothing_is_compiled_once_the_law_is_there of test_compiled.py
@pytest.mark.slow
def test_law_of_the_controller_compiles_nothing_in_its_loop():
    done = subprocess.run([sys.executable, '-c', LIVE], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


NODE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
""" + """
import numpy as np
import rclpy
from rclpy.parameter import Parameter
from osc_ros.compile.compiled import KERNELS
from osc_ros.ros.controller.controller import Controller
from test_settings import PANDA

def parameters(**values):
    return [Parameter(name.replace('__', '.'), value=value) for name, value in values.items()]

rclpy.init()
node = Controller(parameter_overrides=parameters(autostart=False, **PANDA))
"""
CONFIGURED = NODE + """
node.trigger_configure()
node._loop.engine.q = np.array([0.0, -0.8, 0.0, -2.3, 0.0, 1.6, 0.8])
node._law.require_holding(node._loop.q)
ready = {one: list(one.signatures) for one in KERNELS}

def require_nothing_new(after):
    new = {one.py_func.__name__: one.signatures for one in KERNELS
           if list(one.signatures) != ready[one]}
    assert not new, (after, new)
"""
LIVE_NODE = CONFIGURED + """
assert 10 < sum(map(len, ready.values())) < 60
for changed in ({'payload__mass': 1.0}, {'payload__inertia': [1e-3, 0.0, 0.0, 1e-3, 0.0, 1e-3]},
                {'payload__mass': 0.0, 'payload__inertia': [0.0] * 6}, {'mode': 'impedance'},
                {'tool__position': [0.0, 0.0, 0.1]}, {'limits__effort': [60.0] * 7},
                {'friction__coulomb': [0.5] * 7}, {'friction__from_description': 0.5},
                {'translation__axes': ['motion', 'motion', 'force']}, {'mode': 'free'},
                {'mode': 'joints'}, {'joints__ramp': 0.2}, {'mode': 'acceleration'}):
    result = node.set_parameters_atomically(parameters(**changed))
    assert result.successful, (changed, result.reason)
    require_nothing_new(changed)
    node._law.torque(0.0, node._loop.q, np.zeros(7))
    if changed.get('mode') == 'joints':
        node._law.move_joints(node._loop.q + 0.1)
        node._law.follow_joints([1.0, 2.0], [node._loop.q + 0.1, node._loop.q])
        require_nothing_new('motions of the joints')
node.trigger_cleanup()
"""

LATER = CONFIGURED + """
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint
from geometry_msgs.msg import Transform, Twist
from osc_ros.control.setpoint.trajectory import PoseGoal
from osc_ros.ros.messages import serialized

loop, law, q = node._loop, node._law, node._loop.engine.q
for k in range(3):  # a driver that sends velocities no longer; a state that is refused
    state = JointState(name=list(law.robot.joint_names), position=q.tolist())
    state.header.stamp.nanosec = (k + 1) * 10 ** 7
    loop._reader.read(serialize_message(state), lambda joints: joints)
    loop._reader.reject()
serialized.trajectory(serialize_message(MultiDOFJointTrajectory(points=[
    MultiDOFJointTrajectoryPoint(transforms=[Transform()], velocities=[Twist()])] * 2)))
law.hold(q)
far = law.pose.copy()
far[:3, 3] += 0.0, 0.3, 0.9
law.follow(PoseGoal(far))
guide = next(iter(law.levels.values())).generator
waited = 0
for k in range(3000):  # the arm does not come: its target waits for it
    law.torque(1.0 + 0.002 * k, q, np.zeros(7))
    law.plan()
    waited += guide.waits
assert waited > 10
require_nothing_new('what a user sends')
node.trigger_cleanup()
"""


@pytest.mark.parametrize('code', (LATER, LATER.replace('velocities=[Twist()]', '')),
                         ids=('velocities', 'poses'))
def test_nothing_that_a_user_sends_is_compiled_in_a_running_controller(code):
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


HELP = NODE + """
from osc_ros.compile.compiled import recorded_uses
from osc_ros.ros.parameters import robot_parameters as description
from osc_ros.ros.controller.controller import values
from osc_ros.ros.parameters.node_settings import law_of

found = values(node, node._table)
urdf = description.description(found, '')
"""
RECORDED = """
for one, _ in recorded_uses(lambda: law_of(found, urdf)):
    print(one.py_func.__name__)
"""
USED = """
law_of(found, urdf)
for one in KERNELS:
    if one.overloads:
        print(one.py_func.__name__)
"""


def test_processes_that_help_to_compile_know_all_kernels_that_the_controller_needs():
    recorded, used = (set(subprocess.run(
        [sys.executable, '-c', HELP + code], capture_output=True, text=True,
        check=True).stdout.split()) for code in (RECORDED, USED))
    assert 30 < len(recorded) < 60 and recorded >= used, used - recorded


def test_parameters_that_are_set_live_compile_nothing():
    done = subprocess.run([sys.executable, '-c', LIVE_NODE], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


GROUPS = [kind for kind in Group.__subclasses__() if kind.__module__.startswith('osc_ros.')
          and parameters(kind)]


@pytest.mark.parametrize('kind', GROUPS, ids=lambda kind: kind.__name__)
def test_library_and_node_refuse_the_same_numbers_with_the_same_text(kind):
    for name, one in field_settings(kind).items():
        parts = parameters(kind).get(name, ())
        if one.kind is not float or len(parts) != 1 or isinstance(one.default, tuple):
            continue
        for bad in ('a', one.lower - 1.0, *(() if one.infinite else (one.upper + 1.0,))):
            texts = []
            for check in (parts[0].checked_value, one.field_value):
                with pytest.raises(InputError) as error:
                    check(bad)
                texts.append(str(error.value))
            assert texts[0] == f"parameter '{one.name}' is{texts[1].removeprefix(one.name)}"
