# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Use of the package from Python alone: help, a first motion, own loops, error messages."""

import ast
from dataclasses import fields, replace
import os
from pathlib import Path as File
import pydoc
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import osc_ros
from osc_ros import (
    Gains,
    InputError,
    Law,
    Limits,
    LookAt,
    OperationalSpace,
    Path,
    PoseGoal,
    Posture,
    Robot,
    Settings,
    shipped_urdf,
    Simulation,
    SingularityDamping,
    Stiffness,
    TargetLimits,
    Task,
    TwistGoal,
)
from osc_ros.sim.simulation import well_conditioned_positions
from texts import blocks, CHECKOUT
from tolerances import PATH_KNOT

URDF = shipped_urdf('panda').read_text()
ROBOT = Robot.from_urdf(URDF, 'panda_link0', 'panda_hand_tcp')


@pytest.fixture(scope='module')
def arm():
    """Return a simulated Panda under a law with default settings; tests reset it before use."""
    return Simulation(URDF, Law(ROBOT))


def examples_of_help():
    """Return the blocks of Python code in the docstring of `osc_ros`."""
    found = re.findall(r'(?:^(?: {4}.*)?\n)+', osc_ros.__doc__, re.MULTILINE)
    return [textwrap.dedent(block).strip('\n') for block in found if block.strip()]


# Help and imports

def test_help_on_the_package_begins_with_how_to_start():
    shown = pydoc.plain(pydoc.render_doc(osc_ros)).splitlines()
    first = next(k for k, line in enumerate(shown) if 'How to start' in line)
    assert first < 20
    for name in osc_ros.__all__:
        assert any(name in line for line in shown), name


def test_lines_of_help_are_those_of_the_readme_and_move_an_arm():
    def statements(text):
        return [line.split('  #')[0].rstrip() for line in text.splitlines() if line.strip()]

    readme = [statements(block.text) for block in blocks('README.md', 'python')]
    examples = examples_of_help()
    assert len(examples) == 2
    for example in examples:
        assert statements(example) in readme
        found = {}
        exec(example.replace('arm.pose(', 'goal := arm.pose('), found)
        simulation = getattr(found['arm'], 'simulation', found['arm'])  # the client is closed
        assert np.abs(simulation.pose() - found['goal']).max() < 1e-3


def test_importing_the_package_is_quick_and_needs_neither_numba_nor_mujoco():
    code = ('import sys, osc_ros\n'
            "for name in ('numba', 'mujoco', 'scipy', 'numpy'):\n"
            '    assert name not in sys.modules, name\n'
            'osc_ros.Robot\n'
            "assert 'mujoco' not in sys.modules\n"
            'assert set(osc_ros.__all__) <= set(dir(osc_ros))\n')
    subprocess.run([sys.executable, '-c', code], check=True, timeout=120)


def test_what_a_user_needs_is_in_the_package_and_tools_see_the_same_names():
    tree = ast.parse(File(osc_ros.__file__).read_text())
    [typed] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = [alias.name for node in typed.body for alias in node.names]
    lazy = [name for names in osc_ros._PLACES.values() for name in names]
    assert sorted(seen) == sorted(lazy) == sorted(osc_ros.__all__)
    for name in osc_ros.__all__:
        assert getattr(osc_ros, name).__doc__, name
    with pytest.raises(AttributeError, match="'osc_ros' .*'Rabot'"):
        osc_ros.Rabot  # noqa: B018


def test_without_mujoco_help_works_and_a_simulation_says_what_to_install():
    code = ('import sys\n'
            "sys.modules['mujoco'] = None\n"
            'import osc_ros, pydoc\n'
            "assert 'Simulation' in pydoc.render_doc(osc_ros)\n"
            "urdf = osc_ros.shipped_urdf('panda')\n"
            "robot = osc_ros.Robot.from_urdf(urdf, 'panda_link0', 'panda_hand_tcp')\n"
            'law = osc_ros.Law(robot)\n'
            'try:\n'
            '    osc_ros.Simulation(urdf, law)\n'
            'except ImportError as error:\n'
            "    assert 'pip install mujoco' in str(error), error\n"
            'else:\n'
            "    sys.exit('no error')\n")
    subprocess.run([sys.executable, '-c', code], check=True, timeout=300)


# quick: test_progress_of_the_compilation_says_of_how_many and
# test_of_two_processes_one_compiles_a_kernel_and_the_other_loads_it of test_compiled.py
@pytest.mark.slow
def test_first_use_says_that_it_compiles_and_the_second_says_nothing(tmp_path):
    code = ('import numpy as np\n'
            'from osc_ros.dynamics.algebra.task_inertia import task_inertia\n'
            'task_inertia(np.eye(6))\n')
    first, second = (subprocess.run(
        [sys.executable, '-c', code], check=True, capture_output=True, text=True, timeout=300,
        env={**os.environ, 'XDG_CACHE_HOME': str(tmp_path)}).stderr for _ in range(2))
    assert 'compiles its kernels' in first and str(tmp_path) in first
    assert second == ''


@pytest.mark.slow
def test_type_checker_sees_the_types_of_a_users_script(tmp_path):
    pytest.importorskip('mypy', reason="mypy is not installed: pip install '.[lint]'")
    assert File(osc_ros.__file__).with_name('py.typed').exists()
    (tmp_path / 'right.py').write_text('\n'.join(
        block.text for page in ('README.md', 'doc/python.md') for block in blocks(page, 'python')))
    (tmp_path / 'wrong.py').write_text(
        'from osc_ros import Law, Robot, shipped_urdf\n'
        "robot = Robot.from_urdf(shipped_urdf('panda'), 'a', 'b')\n"
        'reveal_type(robot.n)\n'
        'Law(robot).change(robot)\n')
    (tmp_path / 'osc_ros').symlink_to(File(osc_ros.__file__).parent)
    right, wrong = (subprocess.run(
        [sys.executable, '-m', 'mypy', '--strict', '--follow-imports=silent', name],
        cwd=tmp_path, capture_output=True, text=True, timeout=600).stdout
        for name in ('right.py', 'wrong.py'))
    assert 'Success' in right, right
    assert re.search('Revealed type is "(builtins.)?int"', wrong)
    assert 'error: Argument 1 to "change" of "Law" has incompatible type "Robot"' in wrong


# A law with default settings

def test_law_of_a_robot_works_at_once_within_the_limits_of_the_robot(arm):
    arm.reset()
    settings, limits = arm.law.settings, arm.law.settings.limits
    np.testing.assert_array_equal(limits.effort, ROBOT.effort_limits)
    assert np.isfinite(limits.effort_rate).all() and settings.tasks[0].limits.smooth
    goal = arm.pose(shift=(0.1, 0.1, -0.1), turn=(0.0, 0.0, 0.5))
    arm.law.follow(goal)
    record = arm.run(2.5)
    assert np.abs(arm.pose() - goal).max() < 1e-3
    assert (np.abs(record.torque) <= ROBOT.effort_limits).all()
    assert (np.abs(np.diff(record.torque, axis=0)) <= limits.effort_rate * arm.period + 1e-9).all()
    assert (np.abs(record.qd) <= ROBOT.velocity_limits).all()


def test_parts_of_the_settings_are_changed_by_name_and_the_rest_keeps_its_defaults(arm):
    soft = Settings(tasks=(Task(Stiffness()),))
    law = Law(ROBOT, soft)
    assert law.settings.posture.natural_frequency == Posture().natural_frequency == 5.0
    law.change(replace(law.settings, posture=Posture(natural_frequency=2.0)))
    assert law.settings.limits is not None and law.settings.posture.natural_frequency == 2.0
    assert soft.limits is None and 'SingularityDamping(length=0.3' in repr(soft)
    law.change(soft)
    np.testing.assert_array_equal(law.settings.limits.effort, ROBOT.effort_limits)


def test_law_that_was_never_latched_holds_the_first_state_and_refuses_commands_before_it():
    law, q = Law(ROBOT), np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
    for command in (lambda: law.follow(np.eye(4)), lambda: law.set_posture(q),
                    lambda: law.set_wrench(np.zeros(6))):
        with pytest.raises(InputError, match=r'where.*\(q\)'):
            command()
    with pytest.raises(InputError, match='not finite'):
        law.torque(0.0, np.full(7, np.nan), np.zeros(7))
    tau = law.torque(0.0, q.tolist(), [0.0] * 7)
    np.testing.assert_allclose(tau, law.bias_torque(q, np.zeros(7)), atol=1e-9)
    assert np.abs(law.error).max() < 1e-9


def test_pose_of_the_law_may_be_changed_and_used_as_a_goal(arm):
    arm.reset()
    goal = arm.law.pose
    goal[2, 3] += 0.05
    assert abs(arm.law.pose[2, 3] - goal[2, 3]) > 0.04
    arm.law.follow(goal)
    goal[2, 3] += 1.0  # a change after `follow` has no effect
    arm.run(1.5)
    assert abs(arm.pose()[2, 3] - goal[2, 3] + 1.0) < 1e-3


def test_point_is_enough_for_a_task_that_looks_at_it_and_no_goal_for_another(arm):
    arm.reset()
    place = Task(axes=('free',) * 3 + ('motion',) * 3)
    gaze = Task(name='gaze', kind=LookAt(axis=(0.0, 0.0, 1.0)))
    law = Law(ROBOT, Settings.of(ROBOT, tasks=(place, gaze)))
    there = Simulation(URDF, law, arm.q)
    T = there.pose()
    point = T[:3, 3] + T[:3, :3] @ [0.1, 0.0, 0.5]
    law.follow(point, task='gaze')
    there.run(2.0)
    wanted = point - there.pose()[:3, 3]
    assert there.pose()[:3, 2] @ wanted > (1.0 - 1e-6) * np.linalg.norm(wanted)
    assert np.abs(there.pose()[:3, 3] - T[:3, 3]).max() < 1e-3
    with pytest.raises(InputError, match=r'pose .*\(3,\).*(give|must be).*\(4, 4\)'):
        law.follow(point)


# Simulation

def test_simulation_runs_resets_and_records(arm):
    arm.reset()
    start, seen = arm.pose(), []
    arm.law.follow(arm.pose(shift=(0.0, 0.0, 0.05)))
    record = arm.run(0.5, each=lambda: seen.append(arm.time))
    k = len(record.time)
    assert k == len(seen) == 250 and abs(arm.time - 0.5) < 1e-9
    assert {field.name: getattr(record, field.name).shape for field in fields(record)} == {
        'time': (k,), 'q': (k, 7), 'qd': (k, 7), 'torque': (k, 7), 'pose': (k, 4, 4),
        'target': (k, 4, 4), 'error': (k, 6)}
    np.testing.assert_allclose(record.time, seen)
    np.testing.assert_allclose(record.pose[0], start, atol=1e-6)
    np.testing.assert_allclose(record.target[:, :3, 3] - record.pose[:, :3, 3],
                               record.error[:, 3:], atol=1e-9)
    arm.reset()
    assert arm.time == 0.0
    np.testing.assert_allclose(arm.pose(), start, atol=1e-12)
    arm.run(0.2)  # the law holds the start pose
    np.testing.assert_allclose(arm.pose(), start, atol=1e-4)


@pytest.mark.parametrize('rate', [200.0, 300.0, 1000.0])
def test_simulation_steps_at_the_rate_that_is_asked_for(rate):
    arm = Simulation(URDF, Law(ROBOT), rate=rate, position_noise=1e-6)
    record = arm.run(0.1)
    np.testing.assert_allclose(np.diff(record.time), 1.0 / rate, atol=1e-12)
    assert record.q.std(axis=0).max() > 1e-7  # recorded positions contain the measurement noise


@pytest.mark.parametrize('name, base, tip', [('panda', 'panda_link0', 'panda_hand_tcp'),
                                             ('ur5e', 'base_link', 'tool0')])
def test_start_of_a_simulation_is_far_from_singularities_and_the_arm_can_hold_it(name, base, tip):
    law = Law(Robot.from_urdf(shipped_urdf(name), base, tip))
    q = well_conditioned_positions(law)
    law.hold(q)
    law.space.outward(q, np.zeros(law.robot.n))
    assert SingularityDamping().conditioning(law.space.jacobian()[:6]) > 0.1
    weight = law.bias_torque(q, np.zeros(law.robot.n))
    assert (np.abs(weight) < law.settings.limits.effort).all()
    arm = Simulation(shipped_urdf(name), law)
    goal = arm.pose(shift=(0.0, 0.0, 0.05))
    law.follow(goal)
    arm.run(2.0)
    assert np.abs(arm.pose() - goal).max() < 1e-3


def test_arm_of_five_joints_gets_the_axes_that_it_has_and_reaches_what_it_can():
    law = Law(Robot.from_urdf(URDF, 'panda_link0', 'panda_link5'))
    [task] = law.settings.tasks
    assert task.axes.count('motion') == 5
    arm = Simulation(URDF, law)
    start = arm.q
    arm.reset(start + 0.2)
    goal = arm.pose()
    arm.reset(start)
    law.follow(goal)
    arm.run(2.5)
    assert np.abs(arm.pose()[:3, 3] - goal[:3, 3]).max() < 1e-3


# Error messages

WRONG = {
    'change(robot, settings)': (
        lambda law: law.change(law.robot, law.settings),
        r'settings.*Robot: (give|must be).*change\(settings'),
    'change(settings, settings)': (lambda law: law.change(law.settings, law.settings),
                                   'robot.*Settings'),
    'Law(settings, robot)': (lambda law: Law(law.settings, law.robot),
                             r'robot .*Settings: (give|must be).*Robot'),
    'Law(text)': (lambda law: Law(URDF), 'robot .*str: (give|must be).*Robot'),
    'Law(robot, task)': (lambda law: Law(ROBOT, Task()), 'settings .*Task: (give|must be)'),
    'OperationalSpace(text)': (lambda law: OperationalSpace(URDF), 'robot .*str: (give|must be)'),
    'OperationalSpace(robot, tips)': (lambda law: OperationalSpace(ROBOT, ['panda_link4']),
                                      'method .*list .*tips='),
    'OperationalSpace(robot, settings)': (lambda law: OperationalSpace(ROBOT, law.settings),
                                          'method .*Settings'),
    'Task(name)': (lambda law: Task('elbow'), 'gains .*str: (give|must be).*Gains or Stiff'),
    'Task(limits=Limits)': (lambda law: Task(limits=law.settings.limits),
                            'limits .*Limits: (give|must be).*TargetLimits'),
    'Settings(task)': (lambda law: Settings(Task()), r'type Task: .*tasks=\(Task\(\),\)'),
    'Settings(tasks=(Gains,))': (lambda law: Settings((Gains(),)), 'type Gains: .*Ta'),
    'Settings(posture=…)': (lambda law: Settings(posture=SingularityDamping()),
                            'posture .*SingularityDamping: (give|must be).*Posture'),
    'Settings(limits=…)': (lambda law: Settings(limits=TargetLimits()),
                           'limits .*TargetLimits: (give|must be).*Limits'),
    'Limits.of(settings)': (lambda law: Limits.of(law.settings), 'robot .*Settings'),
    'Simulation(law, text)': (lambda law: Simulation(law, URDF), '(give|must be).*Law'),
    'Simulation(rate=0)': (lambda law: Simulation(URDF, law, rate=0.0), 'rate .*0.0 Hz'),
    'follow(text)': (lambda law: law.follow('up'), 'motion .*str: (give|must be).*PoseGoal'),
    'follow(position)': (lambda law: law.follow(np.zeros(3)), r'pose .*\(3,\), (give|must be)'),
    'follow(PoseGoal(position))': (lambda law: law.follow(PoseGoal(np.zeros(3))),
                                   'pose .*shape'),
    'follow(no rotation)': (lambda law: law.follow(2.0 * np.eye(4)), 'pose .*rotation'),
    'follow(start=nan)': (lambda law: law.follow(np.eye(4), np.nan), 'start is nan'),
    'latch(too few)': (lambda law: law.hold(np.zeros(3)), r'q .*\(3,\).*(give|must be).*\(7'),
    'latch(nan)': (lambda law: law.hold(np.full(7, np.nan)), 'q .*finite'),
    'torque(text)': (lambda law: law.torque(0.0, 'q', 'qd'), 'state .*numbers'),
    'torque(time nan)': (lambda law: law.torque(np.nan, np.zeros(7), np.zeros(7)),
                         'time .*nan: (give|must be)'),
    'torque(time inf)': (lambda law: law.torque(np.inf, np.zeros(7), np.zeros(7)),
                         'time .*inf: (give|must be)'),
    'file name': (lambda law: Robot.from_urdf('arm.urdf', 'a', 'b'),
                  r"'arm\.urdf' cannot be read .*(give|must be)"),
    'name of a robot': (lambda law: Robot.from_urdf('panda', 'a', 'b'), 'shipped_urdf'),
    'shipped_urdf': (lambda law: shipped_urdf('puma'), "'puma' .* panda"),
    'pose(shift of two)': (lambda law: Simulation(URDF, law).pose(shift=(0.0, 1.0)),
                           r'shift .*\(2,\).*(give|must be).*\(3,\)'),
    'pose(shift of text)': (lambda law: Simulation(URDF, law).pose(shift='up'),
                            'shift .*numbers'),
    'law of another arm': (lambda law: Simulation(shipped_urdf('ur5e'), law),
                           "joint 'panda_joint1'"),
    'run(0)': (lambda law: Simulation(URDF, law).run(0.0), 'seconds .*0.0: (give|must be)'),
}


@pytest.mark.parametrize('wrong, message', WRONG.values(), ids=WRONG)
def test_arguments_in_the_wrong_order_or_of_another_kind_are_refused_by_name(arm, wrong, message):
    arm.reset()
    with pytest.raises(ValueError, match=message):
        wrong(arm.law)
    arm.run(0.01)  # the law still works


def test_robot_and_law_print_as_one_line(arm):
    assert repr(arm.law.robot) == "<Robot 'panda': 7 freedoms, panda_link0 → panda_hand_tcp>"
    assert repr(arm.law) == (f"<Law of {arm.law.robot!r}, method 'sweep', tasks on "
                             'panda_hand_tcp>')


def test_documented_scripts_use_only_what_the_package_exports():
    for page in ('README.md', 'doc/python.md'):
        for block in blocks(page, 'python'):
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.ImportFrom) and node.module == 'osc_ros':
                    assert {alias.name for alias in node.names} <= set(osc_ros.__all__)
    assert (CHECKOUT / 'osc_ros' / 'py.typed').exists()


# Paths of poses without velocities

def line(times, speed, start):
    """Return poses from `start` along y at a constant speed."""
    poses = np.repeat(start[None], len(times), axis=0)
    poses[:, 1, 3] += speed * (np.asarray(times) - times[0])
    return poses


def test_poses_that_are_in_motion_from_the_first_on_are_followed(arm):
    arm.reset()
    times = np.arange(0.0, 0.5001, 0.02)
    poses = line(times, 0.4, arm.pose())
    with pytest.raises(InputError, match='m/s² at point (0|1|24|25) of 26'):
        arm.law.follow(Path(times, poses))
    path = arm.law.path(times, poses)
    arm.law.follow(path)
    record = arm.run(1.5)
    assert np.abs(arm.pose() - poses[-1]).max() < 1e-3
    beyond = (record.target[:, 1, 3] - poses[-1, 1, 3]).max()
    assert beyond < 1e-6  # the target brakes before the last pose and does not overshoot
    speed = np.diff(record.target[:, 1, 3]) / arm.period
    assert np.abs(speed[100:200] - 0.4).max() < 1e-3 and speed.max() < 0.4 + 1e-3
    assert path.times[-1] < times[-1] + 0.24  # to start and to brake take 0.11 s each


def test_path_that_begins_where_the_target_moves_goes_on_with_its_velocity(arm):
    arm.reset()
    arm.law.follow(TwistGoal([0.0, 0.0, 0.0, 0.0, 0.2, 0.0], until=10.0))
    arm.run(0.5)
    start = arm.law.target.pose.copy()
    times = arm.time + np.array([0.0, 0.6, 1.2])
    path = arm.law.path(times, line(times, 0.2, start))
    assert abs(path.at(times[0]).twist[4] - 0.2) < 1e-6
    assert np.abs(path.at(times[-1]).twist).max() < PATH_KNOT
    arm.law.follow(path)
    record = arm.run(1.0)
    speeds = np.diff(record.target[:, 1, 3]) / arm.period
    assert speeds[:100].min() > 0.15  # the target does not stop before the path begins


def test_sparse_poses_from_rest_start_and_end_at_rest(arm):
    arm.reset()
    times = [0.5, 1.5, 2.5]
    path = arm.law.path(times, line(times, 0.1, arm.pose()))
    for time in (0.5, 2.5):
        assert np.abs(path.at(time).twist).max() < PATH_KNOT
    assert path.peaks[1, 1] <= 5.0


def test_too_fast_path_names_the_point_or_is_slowed_down_as_the_limits_say(arm):
    arm.reset()
    times = np.linspace(0.0, 1.0, 11)
    poses = line(times, 0.0, arm.pose())
    poses[:, 1, 3] += 0.3 * np.sin(2.0 * np.pi * times)  # greatest speed: 1.9 m/s
    with pytest.raises(InputError) as refused:
        arm.law.follow(arm.law.path(times, poses))
    found = re.search(r'asks for (\S+) m/s at point (\d+) of 11, (\S+) s after the first: '
                      'must be at most 1 m/s ', str(refused.value))
    value, point, after = (float(found[k]) for k in (1, 2, 3))
    path = arm.law.path(times, poses)
    assert abs(after - times[int(point)]) <= 0.05 + 1e-9 and value > 1.0
    assert abs(np.linalg.norm(path.at(after).twist[3:]) - value) < 0.05 * value
    arm.law.change(replace(arm.law.settings, tasks=(Task(limits=TargetLimits(too_fast='slow')),)))
    path = arm.law.path(times, poses)
    arm.law.follow(path)
    assert 1.8 < path.times[-1] < 3.5  # 1.9 s for the limit of speed, the rest to start and brake
    record = arm.run(path.times[-1] + 0.7)
    assert np.abs(record.pose[-1] - poses[-1]).max() < 1e-3
    reached = record.target[:, 1, 3] - poses[0, 1, 3]
    assert 0.29 < reached.max() < 0.31 and reached.min() < -0.29  # slower on the same path
    speed = np.abs(np.diff(record.target[:, 1, 3])) / arm.period
    assert 0.5 < speed.max() <= 1.001
    arm.law.change(Settings.of(ROBOT))


def test_path_out_of_the_workspace_names_the_point_even_where_it_may_be_slowed():
    limits = TargetLimits(box=[[-1.0] * 3, [1.0] * 3], too_fast='slow')
    law = Law(ROBOT, Settings(tasks=(Task(limits=limits),)))
    law.hold([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8])
    law.torque(0.0, [0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 0.8], [0.0] * 7)
    times = [0.0, 5.0, 10.0]
    poses = line(times, 0.2, law.pose)
    with pytest.raises(InputError, match='y is 2 m .*point 2 of 3.*10 s'):
        law.follow(law.path(times, poses))
    with pytest.raises(InputError, match='too_fast .*never.*(give|must be).*refuse, slow'):
        TargetLimits(too_fast='never')
