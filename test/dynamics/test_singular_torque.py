# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The law at a singularity without and with damping; the first example of doc/python.md."""

from functools import cache

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from foreign import ForeignPlant
from judge import robot_cases
from osc_ros import OperationalSpace, Robot, shipped_urdf, SingularityDamping
from osc_ros.dynamics.methods import METHODS, ONE_TIP
from osc_ros.errors import InputError
from texts import blocks
from tolerances import AGREEMENT

DAMPING = SingularityDamping(length=0.3, low=0.1, high=0.2)  # as in doc/python.md
BRAKE = 5.0  # damping rate of the joints [1/s], as in doc/python.md
SPEED = 0.2  # speed of the target [m/s], as in doc/python.md
START = {'panda': [0.0, -0.79, 0.0, -2.36, 0.0, 1.57, 0.79],
         'ur5': [0.3, -1.2, 1.6, -1.0, -1.2, 0.4], 'kinova': [0.2, 2.6, 1.8, 0.5, 1.2, 0.4]}
QUICK = ('panda', 'out'), ('kinova', 'up')


@cache
def space(name):
    """Return the OperationalSpace of an arm of robot_cases()."""
    case = robot_cases()[name]
    return OperationalSpace(Robot.from_urdf(case.urdf_text, case.base, case.tip,
                                            locked=case.locked))


def peak_speed(name, direction, duration, **how):
    """Return the largest joint speed / its limit, while the target leaves the workspace."""
    osc = space(name)
    plant = ForeignPlant(name, osc.robot.joint_names)
    plant.reset(START[name])
    pose = plant.pose()
    way = pose[:3, 3] if direction == 'out' else np.array([0.0, 0.0, 1.0])
    v, peak = SPEED * np.hstack([np.zeros(3), way / np.linalg.norm(way)]), 0.0
    while plant.time < duration and peak < 100.0:
        tip = osc.outward(plant.q, plant.qd)
        error = np.hstack([Rotation.from_matrix(pose[:3, :3] @ tip.pose[:3, :3].T).as_rotvec(),
                           pose[:3, 3] + v[3:] * plant.time - tip.pose[:3, 3]])
        u = 100.0 * error + 20.0 * (v - tip.twist)
        u *= min(1.0, 10.0 / np.linalg.norm(u[3:]))
        tau = osc.torque(plant.q, plant.qd, u, posture_acceleration=-BRAKE * plant.qd, **how)
        plant.step(tau, 0.002)
        peak = max(peak, np.abs(plant.qd / plant.velocity).max())
    return peak


@pytest.mark.parametrize('name, direction', [
    pytest.param(name, direction,
                 marks=pytest.mark.slow if (name, direction) not in QUICK else ())
    for name in START for direction in ('out', 'up')])
def test_arm_that_is_pulled_through_a_singularity_exceeds_no_speed_limit_with_damping(
        name, direction):
    # without damping the arm exceeds a speed limit
    assert peak_speed(name, direction, 6.0) > 1.0
    assert peak_speed(name, direction, 5.0, damping=DAMPING) < 1.0


@pytest.mark.parametrize('method', METHODS)
def test_damping_changes_nothing_far_from_singularities(method):
    osc = OperationalSpace(space('panda').robot, method)
    random = np.random.default_rng(0)
    q, qd, u, tau = START['panda'], *(random.standard_normal(k) for k in (7, 6, 7))
    np.testing.assert_allclose(
        osc.torque(q, qd, u, tau, damping=SingularityDamping(0.3, 0.01, 0.02)),
        osc.torque(q, qd, u, tau), rtol=0.0, atol=1e4 * AGREEMENT)


def test_damping_leaves_a_lost_direction_to_the_posture():
    osc, units = space('panda'), np.array([1.0, 1.0, 1.0, 1.0 / 0.3, 1.0 / 0.3, 1.0 / 0.3])
    q, qd = np.array([0.2, 0.3, 0.0, -0.08, 0.0, 0.6, 0.0]), np.zeros(7)  # the arm is stretched
    qdd = np.linspace(-1.0, 1.0, 7)
    s = osc.evaluate(q, qd)
    directions, values, _ = np.linalg.svd(units[:, None] * s.J)
    assert values[-1] < DAMPING.low * values[0]
    met = s.J @ qdd + s.Jdot_qd  # tip acceleration under the posture alone
    asked = met + 5.0 * directions[:, -1] / units
    posture = osc.inverse_dynamics(q, qd, qdd)

    def change(**how):
        return np.abs(osc.torque(q, qd, asked, posture_acceleration=qdd, **how) - posture).max()

    assert change() > 5.0
    assert change(damping=DAMPING) < 1e-9


def test_several_tips_are_damped_each():
    case = robot_cases()['panda']
    robot = Robot.from_urdf(case.urdf_text, case.base, [case.tip, 'panda_link4'])
    random = np.random.default_rng(1)
    u = random.standard_normal(12)
    answers = [OperationalSpace(robot, method).torque(
        START['panda'], np.zeros(7), u, posture_acceleration=np.zeros(7), damping=DAMPING)
        for method in METHODS if method not in ONE_TIP]
    np.testing.assert_allclose(answers, answers[:1] * len(answers), atol=1e-6)
    assert np.isfinite(answers).all() and np.abs(answers).max() < 1e3


@pytest.mark.parametrize('bad, message', [
    ({'damping': 0.1}, 'damping .*float: (give|must be).*SingularityDamping'),
    ({'damping': DAMPING, 'u': np.zeros(5)}, 'u'),
    ({'damping': DAMPING, 'u': np.full(6, np.nan)}, 'u'),
    ({'damping': DAMPING, 'out': np.zeros(3)}, 'out .*writeable'),
])
def test_bad_arguments_are_refused_with_damping_too(bad, message):
    with pytest.raises(InputError, match=message):
        space('panda').torque(START['panda'], np.zeros(7), **{'u': np.zeros(6)} | bad)


def test_first_example_of_the_page_runs_as_it_stands():
    code = next(block.text for block in blocks('doc/python.md', 'python')
                if 'damping=' in block.text)
    robot = Robot.from_urdf(shipped_urdf('panda'), base='panda_link0', tip='panda_hand_tcp')
    found = {'np': np, 'robot': robot}
    exec(compile(code, 'doc/python.md', 'exec'), found)
    assert found['tau'].shape == (7,) and np.isfinite(found['tau']).all()
    assert 'damping=' in code
    assert (f'SingularityDamping(length={DAMPING.length:g}, low={DAMPING.low:g}, '
            f'high={DAMPING.high:g})') in code
