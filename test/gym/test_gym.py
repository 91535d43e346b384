# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The environments of gymnasium: their contract, their seeds, and that their tasks can be done."""

import sys

import numpy as np
import pytest

gymnasium = pytest.importorskip('gymnasium', reason='gymnasium is not installed: pip install '
                                "'.[gym]'")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from osc_ros import inverse_kinematics  # noqa: E402
from osc_ros.errors import InputError  # noqa: E402
import osc_ros.gym  # noqa: E402

NAMES = ('Reach', 'Push', 'Wipe')
STEP = 0.05  # largest change of a joint's goal in a step [rad]
ARRIVED = 2e-3  # of a joint: arrival within 1 mrad, and 1 mrad of margin at a limit [rad]
SPRINGS = [80.0, 80.0, 50.0, 50.0, 20.0, 20.0, 8.0]  # [N m/rad]
CRISP = 'observation.state.cartesian', 'observation.state.joints', 'observation.state.target'


def make(name, **options):
    return gymnasium.make(f'osc_ros/{name}-v0', **options)


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('options', [
    {}, {'control': 'pose', 'variable_impedance': True}, {'control': 'joints'},
    {'control': 'joints', 'stiffness': SPRINGS}])
@pytest.mark.filterwarnings('error')
def test_environment_fulfils_the_contract_of_gymnasium(name, options):
    check_env(make(name, **options).unwrapped, skip_render_check=True)


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('control', ['delta', 'joints'])
def test_episodes_repeat_exactly_by_their_seed(name, control):
    env, runs = make(name, control=control), []
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (10, *env.action_space.shape)).astype(np.float32)
    for seed in (5, 6, 5):
        first, _ = env.reset(seed=seed)
        runs.append([first, *(env.step(action)[0] for action in actions)])
    for one, other in zip(runs[0], runs[2]):
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])
    assert any((runs[0][0][key] != runs[1][0][key]).any() for key in runs[0][0])


@pytest.mark.parametrize('name', NAMES)
def test_observations_have_the_keys_of_crisp_gym(name):
    found = make(name).observation_space
    assert set(CRISP) <= set(found.spaces)
    assert ('observation.state.sensors_force' in found.spaces) == (name == 'Wipe')


@pytest.mark.parametrize('control', ['delta', 'joints'])
def test_vector_of_environments_steps_them_all(control):
    envs = gymnasium.make_vec('osc_ros/Reach-v0', num_envs=3, vectorization_mode='sync',
                              control=control)
    first, _ = envs.reset(seed=1)
    assert first['observation.state.joints'].shape == (3, 7)
    _, rewards, *_ = envs.step(envs.action_space.sample())
    assert rewards.shape == (3,) and (rewards < 0.0).all()
    envs.close()


@pytest.mark.slow
def test_environments_run_in_processes_of_their_own():
    envs = gymnasium.make_vec('osc_ros.gym:osc_ros/Push-v0', num_envs=2,
                              vectorization_mode='async')
    envs.reset(seed=1)
    assert envs.step(envs.action_space.sample())[1].shape == (2,)
    envs.close()


def towards(observation, point):
    """Return the action that moves the goal to a point."""
    action = np.zeros(6, np.float32)
    away = point - observation['observation.state.target'][:3]
    action[:3] = np.clip(away / 0.05, -1.0, 1.0)
    return action


def test_reach_is_done_by_moving_to_the_point():
    env = make('Reach')
    seen, _ = env.reset(seed=2)
    for _ in range(60):
        seen, reward, is_done, _, info = env.step(
            towards(seen, seen['observation.environment_state']))
        if is_done:
            break
    assert is_done and info['is_success'] and reward > 0.9


def test_reach_is_done_through_the_joints():
    env = make('Reach', control='joints')
    seen, _ = env.reset(seed=2)
    goal = env.unwrapped.arm.pose()
    goal[:3, 3] = seen['observation.environment_state']
    near = seen['observation.state.joints'].astype(float)
    there = inverse_kinematics(env.unwrapped.arm.law.robot, goal, near=near)[0].q
    for _ in range(80):
        away = there - seen['observation.state.target']
        seen, reward, is_done, _, info = env.step(
            np.clip(away / STEP, -1.0, 1.0).astype(np.float32))
        if is_done:
            break
    assert is_done and info['is_success'] and reward > 0.9


@pytest.mark.parametrize('drift', [0.0, 1.0, -1.0])
def test_joints_arrive_at_the_sum_of_the_actions_within_their_limits(drift):
    env = make('Reach', control='joints').unwrapped
    robot, rng = env.arm.law.robot, np.random.default_rng(3)
    lower, upper = robot.position_limits.T
    env.reset(seed=3)
    goal = env.arm.q.copy()
    for k in range(220):
        action = np.clip(rng.uniform(-1.0, 1.0, 7) + drift, -1.0, 1.0) * (k < 130)
        goal = np.clip(goal + STEP * action, lower, upper)
        seen, *_ = env.step(action)
        assert all(np.isfinite(one).all() for one in seen.values())
        assert (env.arm.q > lower).all() and (env.arm.q < upper).all()
        assert (np.abs(env.arm.qd) < robot.velocity_limits).all()
        np.testing.assert_allclose(seen['observation.state.target'], goal, atol=ARRIVED)
    np.testing.assert_allclose(env.arm.q, goal, atol=ARRIVED)


def test_joints_with_a_stiffness_yield_as_springs():
    env = make('Reach', control='joints', stiffness=SPRINGS).unwrapped
    env.reset(seed=0)
    law, torque, before = env.arm.law, env.arm.law.torque, env.arm.q.copy()
    load = np.array([4.0, -3.0, 2.0, 3.0, 0.5, 0.5, 0.2])
    law.torque = lambda *state: torque(*state) + load  # a hand
    for _ in range(60):
        env.step(np.zeros(7))
    np.testing.assert_allclose(env.arm.q - before, load / SPRINGS, rtol=0.02, atol=1e-3)


def test_push_is_done_by_pushing_from_behind():
    env = make('Push')
    seen, _ = env.reset(seed=2)
    began = seen['observation.environment_state'].copy()
    way = (began[3:5] - began[:2]) / np.linalg.norm(began[3:5] - began[:2])
    behind = np.append(began[:2] - 0.12 * way, 0.35)
    stations = [behind, np.append(behind[:2], 0.19)]
    for _ in range(150):
        block, mark = np.split(seen['observation.environment_state'].astype(float), 2)
        if stations:
            goal = stations[0]
            if np.linalg.norm(seen['observation.state.cartesian'][:3] - goal) < 0.01:
                stations.pop(0)
        else:
            way = (mark[:2] - block[:2]) / np.linalg.norm(mark[:2] - block[:2])
            tip = seen['observation.state.cartesian'][:2]
            side = np.array([-way[1], way[0]])
            goal = np.append(tip + 0.02 * way + 0.5 * ((block[:2] - tip) @ side) * side, 0.19)
        seen, _, is_done, _, _ = env.step(towards(seen, goal))
        if is_done:
            break
    moved = np.linalg.norm(seen['observation.environment_state'][:2] - began[:2])
    assert is_done and moved > 0.02


def test_wipe_is_done_by_a_constant_force_along_the_strip():
    env = make('Wipe')
    seen, _ = env.reset(seed=4)
    centre = seen['observation.environment_state'][:2]
    action = np.zeros(7, np.float32)
    forces = []
    for k in range(190):
        there = np.append(centre + [0.0, np.clip(0.005 * (k - 70), -0.12, 0.12)], 0.4)
        action[:6] = towards(seen, there)
        action[6] = 0.0
        seen, _, is_done, _, _ = env.step(action)
        forces.append(-seen['observation.state.sensors_force'][2])
        if is_done:
            break
    assert is_done
    assert np.median(forces[-40:]) == pytest.approx(10.0, abs=1.0)


@pytest.mark.parametrize('action, text', [
    (np.zeros(5), r'shape \(5,\): give \(6,\)'), (np.full(6, np.nan), 'from -1 to 1'),
    (np.full(6, 2.0), 'from -1 to 1')])
def test_unusable_actions_are_refused_and_the_arm_holds(action, text):
    env = make('Reach').unwrapped
    before, _ = env.reset(seed=0)
    with pytest.raises(InputError, match=text):
        env.step(action)
    after, *_ = env.step(np.zeros(6))
    np.testing.assert_allclose(after['observation.state.cartesian'],
                               before['observation.state.cartesian'], atol=1e-3)


@pytest.mark.parametrize('options, text', [
    ({'control': 'torque'}, 'delta, pose, joints'), ({'robot': 'ur5e'}, 'panda, fr3'),
    ({'stiffness': 10.0}, "'delta'.*stiffness with 'joints'"),
    ({'control': 'joints', 'variable_impedance': True}, "'joints'.*'delta' and 'pose'"),
    ({'control': 'joints', 'stiffness': [10.0, 20.0]}, 'stiffness has 2 numbers.*7')])
def test_unusable_options_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        make('Reach', **options)


def test_step_before_the_first_reset_says_what_is_missing():
    env = make('Reach').unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded, match='first reset'):
        env.step(np.zeros(6))


def test_stiffness_of_an_action_is_in_force():
    env = make('Reach', variable_impedance=True).unwrapped
    env.reset(seed=0)
    env.step(np.array([0.0] * 6 + [-1.0, 1.0]))
    stiffness = env.arm.law.settings.tasks[0].gains.stiffness
    np.testing.assert_allclose(stiffness, [60.0] * 3 + [100.0] * 3)


def test_environments_are_registered_once():
    osc_ros.gym.register()
    assert {f'osc_ros/{name}-v0' for name in NAMES} <= set(gymnasium.registry)
    assert 'osc_ros.gym' in sys.modules
