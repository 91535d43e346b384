# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Identification of payload, friction and links, on arms whose truth is known."""

from dataclasses import replace
import json
from pathlib import Path
import re

import numpy as np
import pinocchio as pin
import pytest

from arm import READY
from judge import pinocchio_model, SHIPPED_PANDA
from osc_ros import Robot
from osc_ros.dynamics.algebra.kinematics import link_pose
from osc_ros.errors import InputError
from osc_ros.identification import excitation
from osc_ros.identification.corrected_urdf import corrected_urdf
from osc_ros.identification.drive import Guard
from osc_ros.identification.excitation import MotionLimits, Planner
from osc_ros.identification.fit.base import BaseParameters
from osc_ros.identification.fit.consistent import Bodies
from osc_ros.identification.fit.inertial import (
    inertial_parameters,
    is_consistent,
    parameters_of_pseudo_inertia,
    pseudo_inertia,
    spatial_inertia,
)
from osc_ros.identification.fit.joint_recording import Recording
from osc_ros.identification.fit.plausibility import NotDeterminedError
from osc_ros.identification.fit.regressor import regressor
from osc_ros.identification.identification_results import identification, numbers, parameters
from osc_ros.tools.identify import identify
from variants import first_quick

TEXT = SHIPPED_PANDA.read_text(encoding='utf-8')
BASE, TIP = 'panda_link0', 'panda_hand_tcp'
MASS, CENTER = 1.2, np.array([0.02, -0.015, 0.06])
INERTIA = np.diag([0.004, 0.003, 0.002])
COULOMB = np.array([1.1, 1.4, 0.8, 1.4, 0.12, 0.14, 0.18])
VISCOUS = np.array([1.0, 1.1, 0.65, 1.25, 0.15, 0.12, 0.18])
PERIOD = 4e-3
ROUNDING = 1e-12  # of torques of up to some 10 N m
MASS_ERROR, CENTER_ERROR, FRICTION_ERROR, CUT = 0.02, 5e-3, 0.1, 5.0  # what is claimed
SPEED = 0.5  # at which friction is compared [rad/s]


@pytest.fixture(scope='module')
def panda():
    return Robot.from_urdf(TEXT, BASE, TIP)


@pytest.fixture(scope='module')
def planner(panda):
    tip = link_pose(panda, READY, TIP)[:3, 3]
    limits = MotionLimits.of(panda, READY, 0.5, 0.6, np.array([tip - 0.3, tip + 0.3]))
    return Planner(panda, READY, limits)


@pytest.fixture(scope='module')
def trajectories(planner):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excitation, 'STEPS', 60)
        shown = []
        found = [planner.trajectory(10.0, seed, shown.append) for seed in (0, 1)]
    half = shown[:len(shown) // 2]
    assert half == sorted(half) and half[0] == 0.0 and 0.99 < half[-1] < 1.0
    return found


def pinocchio_recording(trajectory, names, scale=1.0, mass=MASS, seed=0, friction=1.0):
    """Return a recording by Pinocchio's inverse dynamics, with encoder noise and ripple."""
    model, data, tip = pinocchio_model(TEXT, BASE, TIP, names)
    for inertia in model.inertias:
        inertia.mass *= scale
        inertia.inertia *= scale
    if mass:
        frame = model.frames[tip]
        model.appendBodyToJoint(frame.parentJoint, pin.Inertia(mass, CENTER, INERTIA),
                                frame.placement)
    data = model.createData()
    rng = np.random.default_rng(seed)
    time = np.arange(0.0, trajectory.duration, PERIOD)
    q, qd, qdd = trajectory.at(time)
    tau = np.array([pin.rnea(model, data, *row) for row in zip(q, qd, qdd)])
    tau += friction * (COULOMB * np.sign(qd) + VISCOUS * qd)
    effort = np.array([87.0] * 4 + [12.0] * 3)
    tau += 0.003 * effort * (np.sin(100.0 * q) + rng.standard_normal(q.shape))
    return Recording(tuple(names), time, q + 2e-5 * rng.standard_normal(q.shape), tau)


@pytest.fixture(scope='module')
def recordings(trajectories, panda):
    return [pinocchio_recording(trajectory, panda.joint_names, seed=seed)
            for seed, trajectory in enumerate(trajectories)]


def friction_error(friction):
    """Return the largest relative error of the friction at SPEED."""
    true = COULOMB + SPEED * VISCOUS
    return np.abs((friction.coulomb + SPEED * friction.viscous) / true - 1.0).max()


def test_regressor_is_that_of_pinocchio(panda):
    model, data, _ = pinocchio_model(TEXT, BASE, TIP, panda.joint_names)
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 5, 7))
    Y = regressor(panda, q, qd, qdd)
    for k in range(5):
        expected = pin.computeJointTorqueRegressor(model, data, q[k], qd[k], qdd[k])
        assert np.abs(Y[k] - expected).max() < ROUNDING * 10
    torque = Y @ inertial_parameters(panda.inertia).ravel()
    assert np.abs(torque[0] - pin.rnea(model, data, q[0], qd[0], qdd[0])).max() < ROUNDING * 10


def tree(seed=0):
    """Return a tree with revolute, prismatic and spherical joints, made of random bodies."""
    rng = np.random.default_rng(seed)
    T = np.tile(np.eye(4), (4, 1, 1))
    T[:3] = [pin.SE3.Random().homogeneous for _ in range(3)]
    T[3, :3, 3] = 0.1, 0.2, 0.3
    P = rng.normal(size=(4, 4, 6))
    inertia = spatial_inertia(parameters_of_pseudo_inertia(P @ P.transpose(0, 2, 1)))
    free = np.full(6, np.inf)
    return Robot(
        name='tree', base='ground', tips=('end', 'hand'), joints=('a', 'b', 'c', 'd'),
        parent=[-1, 0, 1, 1], prismatic=[False, True, False, False],
        spherical=[False, False, False, True], T_parent_body=T, inertia=inertia,
        rotor_inertia=np.zeros(6), position_limits=np.stack([-free, free], axis=1),
        velocity_limits=free, effort_limits=free, gravity=[0.1, -0.2, -9.8],
        frames={'end': (2, np.eye(4)), 'hand': (3, np.eye(4))})


@pytest.mark.slow  # compiles the kernels of a tree
def test_regressor_of_a_tree_with_all_kinds_of_joints_agrees_with_inverse_dynamics():
    from osc_ros.dynamics.methods import default_method
    robot = tree()
    rng = np.random.default_rng(1)
    q, qd, qdd = rng.normal(size=robot.nq), rng.normal(size=robot.n), rng.normal(size=robot.n)
    q[robot.q_index[3]:] /= np.linalg.norm(q[robot.q_index[3]:])
    torque = regressor(robot, q, qd, qdd)[0] @ inertial_parameters(robot.inertia).ravel()
    expected = default_method(robot).inverse_dynamics(q, qd, qdd)
    assert np.abs(torque - expected).max() < 1e-10 * np.abs(expected).max()


def test_base_parameters_give_all_torques_with_as_few_columns(panda):
    base = BaseParameters.of(panda)
    assert len(base.names) == 43  # of the Panda, as in the literature
    q, qd, qdd = np.random.default_rng(2).normal(size=(3, 20, 7))
    Y, given = regressor(panda, q, qd, qdd), inertial_parameters(panda.inertia)
    difference = Y @ given.ravel() - Y[:, :, base.independent] @ base.values(given)
    assert np.abs(difference).max() < 1e-9
    assert np.linalg.matrix_rank(Y.reshape(-1, 70)) == 43


def test_every_log_cholesky_value_is_a_body_and_derivatives_are_right(panda):
    given = inertial_parameters(panda.inertia)
    bodies, rng = Bodies(given), np.random.default_rng(3)
    assert np.abs(bodies.parameters(np.zeros((7, 10))) - given).max() < 1e-5
    x = rng.normal(size=(7, 10))
    assert is_consistent(bodies.parameters(x))
    step = 1e-6 * rng.normal(size=(7, 10))
    change = bodies.parameters(x + step) - bodies.parameters(x - step)
    assert np.allclose(change, 2.0 * np.einsum('bij,bj->bi', bodies.jacobian(x), step),
                       atol=1e-9)
    P, P0 = pseudo_inertia(bodies.parameters(x)), pseudo_inertia(
        bodies.parameters(np.zeros((7, 10))))
    ratio = np.linalg.solve(P0, P)
    divergence = np.trace(ratio, axis1=1, axis2=2) - np.log(np.linalg.det(ratio)) - 4.0
    assert np.allclose((bodies.distances(x)[0] ** 2).sum(axis=1), divergence)


def test_trajectory_keeps_its_limits_and_is_better_than_a_random_one(planner, trajectories):
    random = planner._candidate(np.random.default_rng(0).standard_normal(
        (7, len(planner._basis) + 1)), 10.0)
    limits = planner.limits
    for trajectory in trajectories:
        assert trajectory.condition < 0.7 * random.condition
        q, qd, qdd = trajectory.at(np.linspace(0.0, 10.0, 2001))
        assert np.abs(np.concatenate([q[[0, -1]] - READY, qd[[0, -1]], qdd[[0, -1]]])).max() < 1e-9
        assert (q >= limits.lower).all() and (q <= limits.upper).all()
        assert (np.abs(qd) <= limits.velocity).all() and (
            np.abs(qdd) <= limits.acceleration).all()
        extent = planner.extent(trajectory)
        assert (extent.box[0] >= limits.box[0] - 5e-3).all()
        assert (extent.box[1] <= limits.box[1] + 5e-3).all()
        assert (extent.torque <= 0.505).all()


def test_payload_and_friction_are_found_in_ten_seconds(panda, recordings):
    found = identification(panda, recordings, 'payload')
    estimate = found.estimate
    assert abs(estimate.mass / MASS - 1.0) < MASS_ERROR
    assert np.linalg.norm(estimate.center - CENTER) < CENTER_ERROR
    assert friction_error(estimate.friction) < FRICTION_ERROR
    assert found.gains[1] > CUT
    given = parameters(found)
    assert given['payload.link'] == TIP and len(given['friction.coulomb']) == 7
    assert json.dumps(numbers(found))


def test_no_payload_is_reported_as_none(panda, trajectories):
    recording = pinocchio_recording(trajectories[0], panda.joint_names, mass=0.0)
    found = identification(panda, [recording], 'payload')
    assert abs(found.estimate.mass) < 0.02


def test_links_are_corrected_and_stay_possible(panda, planner, monkeypatch):
    monkeypatch.setattr(excitation, 'STEPS', 20)
    arm = Planner(panda, READY, planner.limits, 'arm')
    pair = [pinocchio_recording(arm.trajectory(20.0, seed), panda.joint_names, 1.15, 0.0, seed)
            for seed in (0, 1)]
    found = identification(panda, pair, 'arm')
    assert found.gains[1] > CUT
    assert friction_error(found.estimate.friction) < FRICTION_ERROR
    assert is_consistent(found.estimate.parameters)
    text = corrected_urdf(TEXT, panda, found.estimate.parameters)
    again = Robot.from_urdf(text, BASE, TIP)
    assert np.abs(again.inertia - found.estimate.robot.inertia).max() < 1e-6


def changed(recording, **values):
    return replace(recording, **values)


@pytest.mark.parametrize(('change', 'message'), [
    (lambda r: {'torque': 0.0 * r.torque}, 'no torques'),
    (lambda r: {'torque': r.torque * np.r_[1, 1, 0, 1, 1, 1, 1]}, "'panda_joint3' .*torques"),
    (lambda r: {'torque': np.where(np.arange(7) == 2, np.nan, r.torque)},
     "'panda_joint3' .*torques.*(give|must be)"),
    (lambda r: {'position': np.where(r.time[:, None] == r.time[77], np.nan, r.position)},
     'nan at'),
    (lambda r: {'torque': 0.1 * r.torque}, 'motor currents'),
    (lambda r: {'torque': r.torque * np.r_[1, -1, 1, 1, 1, 1, 1]},
     "'panda_joint2' .*sign"),
    (lambda r: {'position': READY + 1e-3 * (r.position - READY)}, 'hardly moves'),
    (lambda r: {'time': r.time[::-1]}, 'give 3 s|increase'),
    (lambda r: {'time': 0.1 * r.time}, 'give 3 s'),
    (lambda r: {'time': np.where(r.time > 5.0, r.time + 1.0, r.time)}, '1.00 s'),
    (lambda r: {'joints': ('a', *r.joints[1:])}, "lacks.*'panda_joint1'"),
])
def test_recording_that_cannot_be_used_is_refused_with_the_reason(
        panda, recordings, change, message):
    bad = changed(recordings[0], **change(recordings[0]))
    with pytest.raises(InputError, match=message):
        identification(panda, [bad], 'payload')


def test_driver_that_compensates_gravity_is_recognized(panda, recordings):
    model, data, _ = pinocchio_model(TEXT, BASE, TIP, panda.joint_names)
    weight = np.array([pin.computeGeneralizedGravity(model, data, q).copy()
                       for q in recordings[0].position])
    bare = changed(recordings[0], torque=recordings[0].torque - weight)
    with pytest.raises(InputError, match='driver.*gravity'):
        identification(panda, [bare], 'payload')


def test_motion_that_does_not_tell_the_links_is_refused(panda, trajectories):
    with pytest.raises(NotDeterminedError, match='give|must be'):
        wrist = (np.arange(7) > 2)[:, None]
        slow = replace(trajectories[0], cosine=trajectories[0].cosine * wrist,
                       sine=trajectories[0].sine * wrist)
        identification(panda, [pinocchio_recording(slow, panda.joint_names)], 'arm')


@pytest.mark.parametrize(('given', 'message'), [
    ({'share': 0.0}, 'share 0.0: (give|must be)'),
    ({'excursion': 9.0}, 'excursion 9.0: (give|must be)'),
    ({'box': np.zeros((2, 3))}, 'the box'),
    ({'share': 0.05}, 'another pose'),
])
def test_limits_that_allow_no_motion_are_refused_before_anything_moves(panda, given, message):
    values = {'share': 0.5, 'excursion': 0.5, 'box': np.array([[-2.0] * 3, [2.0] * 3]), **given}
    with pytest.raises(InputError, match=message):
        Planner(panda, READY, MotionLimits.of(panda, READY, **values))


def test_guard_stops_what_was_not_announced(panda, planner, trajectories):
    guard, rest = Guard(panda, planner.limits, trajectories[0]), np.zeros(7)
    assert guard.stop_reason(0.0, READY, rest) == ''
    assert 'moves at' in guard.stop_reason(0.0, READY, rest + 2.0)
    assert 'away from its planned position' in guard.stop_reason(0.0, READY + 0.5, rest)
    assert 'not finite' in guard.stop_reason(0.0, READY * np.nan, rest)


@pytest.mark.parametrize('name', ['a.npz', pytest.param('a.csv', marks=pytest.mark.slow)])
def test_command_reads_recordings_and_writes_results(
        name, recordings, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    recordings[0].save(Path(name))
    with pytest.raises(SystemExit) as end:
        identify.main(['--robot', 'panda', '--recording', name, '--json', 'found.json'])
    assert end.value.code == 0, capsys.readouterr().err
    mass = json.loads(Path('found.json').read_text())['parameters']['payload.mass']
    assert abs(mass / MASS - 1.0) < MASS_ERROR
    for file in ('parameters.yaml', 'panda_corrected.urdf', 'report.txt', 'torques.png'):
        assert (tmp_path / 'osc_identify' / file).stat().st_size > 100
    friction = Robot.from_urdf(tmp_path / 'osc_identify/panda_corrected.urdf', BASE, TIP)
    assert np.abs(friction.coulomb_friction / COULOMB - 1.0).max() < 0.2


def test_command_says_what_is_wrong_and_exits_with_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for text in 'time,x\n1,2\n', 'time,a.position,a.torque\n1,2\n':
        Path('bad.csv').write_text(text)
        with pytest.raises(SystemExit) as end:
            identify.main(['--robot', 'panda', '--recording', 'bad.csv'])
        assert end.value.code == 2 and 'cannot be read' in capsys.readouterr().err


# gen3: begins near a limit; ur10e, iiwa14: much friction; both and ur5e: light wrists.
@pytest.mark.parametrize('name, what', first_quick([
    ('ur5e', 'payload'), ('panda', 'payload'), ('panda', 'arm'), ('fr3', 'payload'),
    ('gen3', 'payload'), ('iiwa14', 'payload'), ('ur10e', 'payload')]))
def test_simulated_arm_in_mujoco_is_identified(name, what, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        identify.main(['--simulate', '--robot', name, '--what', what, '--yes', '--output',
                       str(tmp_path), '--duration', '10' if what == 'payload' else '20',
                       '--json', str(tmp_path / 'found.json')])
    assert end.value.code == 0, capsys.readouterr().err
    found = json.loads((tmp_path / 'found.json').read_text())
    assert found['error_cut_by'][1] > CUT
    if what == 'payload':
        given = found['parameters']
        assert abs(given['payload.mass'] / 1.2 - 1.0) < MASS_ERROR
        assert np.linalg.norm(np.subtract(given['payload.center_of_mass'],
                                          [0.02, -0.015, 0.06])) < CENTER_ERROR
        true = {kind: json.loads(values) for kind, values in re.findall(
            r'true friction\.(\w+): (.*)', capsys.readouterr().out)}
        expected, found = (np.add(friction['coulomb'], SPEED * np.array(friction['viscous']))
                           for friction in (true, {kind: given[f'friction.{kind}']
                                                   for kind in true}))
        assert np.abs(found / expected - 1.0).max() < FRICTION_ERROR


@pytest.mark.slow
def test_arm_does_not_move_without_consent(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr('builtins.input', lambda question: 'n')
    with pytest.raises(SystemExit) as end:
        identify.main(['--simulate', '--output', str(tmp_path)])
    assert end.value.code == 3 and 'nothing was moved' in capsys.readouterr().out
    assert not list(tmp_path.glob('recording*'))
