# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The law and its terms at many states, against the calls for one state and against Pinocchio."""

from functools import cache
from importlib.resources import files

import numpy as np
import pinocchio as pin
import pytest

from osc_ros import InputError, OperationalSpace, Payloads, Robot
from osc_ros.compile.lane_arrays import WIDTH
from osc_ros.dynamics.batch.batches import TERMS
from osc_ros.dynamics.contract.method import EVALUATED
from tolerances import AGREEMENT, LANES_AGREEMENT, LANES_ROUNDING

SWAP = [3, 4, 5, 0, 1, 2]  # osc_ros has [angular; linear], Pinocchio has [linear; angular]
COUNTS = (1, WIDTH - 1, WIDTH, WIDTH + 1, 3 * WIDTH + 2)
# lanes of a chain, and of a tree
METHODS = ('sweep', pytest.param('efpa', marks=pytest.mark.slow))


@cache
def panda(method='sweep'):
    """Return an OperationalSpace of the shipped Panda."""
    text = files('osc_ros').joinpath('robots/panda.urdf').read_text()
    return OperationalSpace(Robot.from_urdf(text, 'panda_link0', 'panda_hand_tcp'), method)


def states(robot, k, seed=0):
    """Return q within the limits, q̇, u, τ⁰ and posture accelerations of k states."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(*robot.position_limits.T, (k, robot.nq))
    return q, *(rng.normal(size=(k, width)) for width in (robot.n, 6, robot.n, robot.n))


def far(found, expected):
    """Return the largest difference / the largest entry."""
    return np.abs(found - expected).max() / np.abs(expected).max()


def rounding(osc, q, qd):
    """Return how far lanes may be from the same operations on numbers, near singularities, too."""
    condition = np.linalg.cond(osc.evaluate(q, qd).Lambda)
    return max(LANES_AGREEMENT, LANES_ROUNDING * condition)


@pytest.mark.parametrize('options', [
    (), ('tau_null', 'posture_acceleration'),
    *(pytest.param(one, marks=pytest.mark.slow) for one in (
        ('tau_null',), ('posture_acceleration',)))])
@pytest.mark.parametrize('method', [*METHODS, pytest.param('dense', marks=pytest.mark.slow)])
def test_torques_of_a_batch_are_those_of_single_states(method, options):
    osc = panda(method)
    q, qd, u, tau, qdd = states(osc.robot, 2 * WIDTH + 3)
    given = {name: {'tau_null': tau, 'posture_acceleration': qdd}[name] for name in options}
    found = osc.torque_batch(q, qd, u, **given)
    assert found.valid.all()
    for k in range(len(q)):
        expected = osc.torque(q[k], qd[k], u[k], **{name: x[k] for name, x in given.items()})
        assert far(found.tau[k], expected) < rounding(osc, q[k], qd[k])


def test_torques_and_terms_of_a_batch_are_pinocchios():
    osc = panda()
    model = pin.buildModelFromXML(files('osc_ros').joinpath('robots/panda.urdf').read_text())
    fingers = [i for i, name in enumerate(model.names) if 'finger' in name]
    model = pin.buildReducedModel(model, fingers, pin.neutral(model))
    data, frame = model.createData(), model.getFrameId('panda_hand_tcp')
    q, qd, u, *_ = states(osc.robot, 2 * WIDTH + 1)
    found, terms = osc.torque_batch(q, qd, u), osc.evaluate_batch(q, qd, TERMS)
    for k in range(len(q)):
        M, h = pin.crba(model, data, q[k]).copy(), pin.rnea(model, data, q[k], qd[k], 0.0 * qd[k])
        M = np.triu(M) + np.triu(M, 1).T
        pin.forwardKinematics(model, data, q[k], qd[k], 0.0 * qd[k])
        drift = pin.getFrameClassicalAcceleration(
            model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector[SWAP]
        J = pin.computeFrameJacobian(model, data, q[k], frame, pin.LOCAL_WORLD_ALIGNED)[SWAP]
        M_inv = np.linalg.inv(M)
        Lambda = np.linalg.inv(J @ M_inv @ J.T)
        a0 = drift - J @ M_inv @ h
        assert far(found.tau[k], J.T @ Lambda @ (u[k] - a0)) < AGREEMENT
        for name, expected in (('J', J), ('Jdot_qd', drift), ('h', h), ('Lambda', Lambda),
                               ('a0', a0)):
            assert far(getattr(terms, name)[k], expected) < AGREEMENT, name


@pytest.mark.parametrize('k', COUNTS)
def test_result_of_a_state_does_not_depend_on_the_batch(k):
    osc = panda()
    q, qd, u, *_ = states(osc.robot, COUNTS[-1])
    whole, part = osc.torque_batch(q, qd, u), osc.torque_batch(q[:k], qd[:k], u[:k])
    np.testing.assert_array_equal(part.tau, whole.tau[:k])
    np.testing.assert_array_equal(osc.torque_batch(q[::-1], qd[::-1], u[::-1]).tau[::-1],
                                  whole.tau)
    for one, all_states in zip(osc.evaluate_batch(q[:k], qd[:k]), osc.evaluate_batch(q, qd)):
        np.testing.assert_array_equal(one, all_states[:k])


@pytest.mark.parametrize('method', METHODS)
def test_number_of_threads_does_not_change_a_bit(method):
    osc = panda(method)
    q, qd, u, *_ = states(osc.robot, 1500)
    results = []
    for threads in (1, 2, 3, None):
        osc.threads = threads
        results.append((*osc.torque_batch(q, qd, u), *osc.evaluate_batch(q, qd, TERMS)))
    for other in results[1:]:
        for one, expected in zip(other, results[0]):
            np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize('method', METHODS)
def test_chosen_terms_are_those_of_all_terms(method):
    osc = panda(method)
    q, qd, *_ = states(osc.robot, WIDTH + 1)
    whole = osc.evaluate_batch(q, qd, TERMS)
    for k in range(len(q)):
        most = rounding(osc, q[k], qd[k])
        state, tip = osc.evaluate(q[k], qd[k]), osc.outward(q[k], qd[k])
        for name in EVALUATED:
            assert far(getattr(whole, name)[k], getattr(state, name)) < most, name
        assert far(whole.a0[k], tip.a0) < LANES_AGREEMENT
    for chosen in (('Lambda', 'a0'), ('J',), ('h', 'pose'), ('Jdot_qd',), ()):
        some = osc.evaluate_batch(q, qd, chosen)
        for name in TERMS:
            expected = getattr(whole, name)
            if name not in chosen:
                expected = expected[:0]
            np.testing.assert_array_equal(getattr(some, name), expected, name)


@pytest.mark.parametrize('method', [*METHODS, 'ldl'])
def test_each_state_may_have_its_own_gravity(method):
    osc = panda(method)
    q, qd, u, *_ = states(osc.robot, WIDTH + 2)
    gravity, before = np.random.default_rng(4).normal(size=(len(q), 3)), osc.gravity
    torques = osc.torque_batch(q, qd, u, gravity=gravity).tau
    terms = osc.evaluate_batch(q, qd, ('h', 'a0'), gravity=gravity)
    np.testing.assert_array_equal(osc.gravity, before)
    one = OperationalSpace(osc.robot)
    for k in range(len(q)):
        one.gravity = gravity[k]
        assert far(torques[k], one.torque(q[k], qd[k], u[k])) < AGREEMENT
        assert far(terms.h[k], one.evaluate(q[k], qd[k]).h) < AGREEMENT
        assert far(terms.a0[k], one.outward(q[k], qd[k]).a0) < AGREEMENT


@pytest.mark.parametrize('method', [*METHODS, 'ldl'])
def test_state_that_is_not_finite_gives_nan_there_and_nowhere_else(method):
    osc = panda(method)
    q, qd, u, *_ = states(osc.robot, WIDTH + 3)
    good, terms = osc.torque_batch(q, qd, u), osc.evaluate_batch(q, qd, TERMS)
    q[1, 6], qd[2, 0], u[WIDTH, 5], q[3, 3] = np.nan, np.inf, np.nan, 1e300
    qd[WIDTH + 2, 1] = 1e200  # its square is infinite
    found = osc.torque_batch(q, qd, u)
    bad = np.isin(np.arange(len(q)), (1, 2, WIDTH, WIDTH + 2))
    np.testing.assert_array_equal(found.valid, ~bad)
    assert np.isnan(found.tau[bad]).all()
    same = ~bad & (np.arange(len(q)) != 3)
    np.testing.assert_array_equal(found.tau[same], good.tau[same])
    evaluated = osc.evaluate_batch(q, qd, TERMS, check=False)
    bad[WIDTH] = False  # u is not given
    np.testing.assert_array_equal(evaluated.valid, ~bad)
    same[WIDTH] = True
    for name in TERMS:
        assert np.isnan(getattr(evaluated, name)[bad]).all(), name
        np.testing.assert_array_equal(getattr(evaluated, name)[same], getattr(terms, name)[same])
    with pytest.raises(InputError, match=r'q\[1\] = \[.*nan'):
        osc.torque_batch(q, qd, u, check=True)
    with pytest.raises(InputError, match='state 0.*finite'):
        osc.evaluate_batch(q[-1:], qd[-1:])


@pytest.mark.parametrize('method', METHODS)
def test_singular_state_takes_the_pseudo_inverse_in_its_lane_only(method):
    osc = panda(method)
    q, qd, u, *_ = states(osc.robot, WIDTH)
    q[3] = 0.0  # the arm is stretched
    found, terms = osc.torque_batch(q, qd, u), osc.evaluate_batch(q, qd, ('Lambda',))
    for k in range(len(q)):
        assert far(found.tau[k], osc.torque(q[k], qd[k], u[k])) < AGREEMENT
        assert far(terms.Lambda[k], osc.evaluate(q[k], qd[k]).Lambda) < AGREEMENT


def test_arrays_given_for_the_result_are_written_and_returned():
    osc = panda()
    q, qd, u, *_ = states(osc.robot, 5)
    out = np.empty((5, 7))
    assert osc.torque_batch(q, qd, u, out=out).tau is out
    np.testing.assert_array_equal(out, osc.torque_batch(q, qd, u).tau)
    given = osc.evaluate_batch(q[::-1], qd[::-1], ('J', 'h'))
    assert osc.evaluate_batch(q, qd, ('J', 'h'), out=given) is given
    np.testing.assert_array_equal(given.J, osc.evaluate_batch(q, qd).J)
    with pytest.raises(InputError, match=r'out\.h .*\(5, 7\).*(give|must be).*\(0, 7'):
        osc.evaluate_batch(q, qd, ('J', 'Lambda'), out=given)
    with pytest.raises(InputError, match='out .*tuple.*(give|must be).*Terms'):
        osc.evaluate_batch(q, qd, out=tuple(given))
    with pytest.raises(InputError, match=r'out .*writeable.*\(5, 7\)'):
        osc.evaluate_batch(q, qd, ('J', 'h'), out=given._replace(h=np.empty((7, 5)).T))
    with pytest.raises(InputError, match=r'out .*writeable.*\(5, 7\)'):
        osc.torque_batch(q, qd, u, out=np.empty((4, 7)))


def test_shapes_that_do_not_fit_are_refused_with_both_shapes():
    osc = panda()
    q, qd, u, tau, _ = states(osc.robot, 3)
    for arguments, options, message in (
            ((q[0], qd, u), {}, r'q .*\(7,\).*(give|must be).*\(1, 7\)'),
            ((q[:, :6], qd, u), {}, r'q .*\(3, 6\).*(give|must be).*\(3, 7\)'),
            ((q, qd[:2], u), {}, r'qd .*\(2, 7\).*(give|must be).*\(3, 7\)'),
            ((q, qd, tau), {}, r'u .*\(3, 7\).*(give|must be).*\(3, 6\)'),
            ((q, qd, u), {'tau_null': u}, r'tau_null .*\(3, 6\).*(give|must be).*\(3, 7\)'),
            ((q, qd, u), {'posture_acceleration': tau[0]},
             r'posture_acceleration .*\(7,\).*(give|must be).*\(3, 7\)'),
            ((q, qd, u), {'gravity': np.zeros(3)},
             r'gravity .*\(3,\).*(give|must be).*\(3, 3\)')):
        with pytest.raises(InputError, match=message):
            osc.torque_batch(*arguments, **options)
    with pytest.raises(InputError, match="'lambda'.*Lambda_inv, Lambda, a0"):
        osc.evaluate_batch(q, qd, ('lambda',))


def test_number_of_threads_is_refused_if_it_is_none():
    osc = OperationalSpace(panda().robot)
    for threads in (0, -1, 1.5, 'two'):
        osc.threads = threads
        with pytest.raises(InputError, match=f'threads .*{threads!r}.*(give|must be)'):
            osc.evaluate_batch(np.zeros((2, 7)), np.zeros((2, 7)))


def test_batch_of_no_states_has_no_rows():
    osc = panda()
    found = osc.torque_batch(np.zeros((0, 7)), np.zeros((0, 7)), np.zeros((0, 6)), check=True)
    assert found.tau.shape == (0, 7) and found.valid.shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize('method', ['recursive', 'efpa', 'sfa'])
def test_batch_of_a_tree_with_several_tips_and_quaternions(method):
    text = files('osc_ros').joinpath('robots/panda.urdf').read_text()
    robot = Robot.from_urdf(text, 'panda_link0', ['panda_hand_tcp', 'panda_link3'],
                            floating_base=True)
    osc, rng, k = OperationalSpace(robot, method), np.random.default_rng(5), 2 * WIDTH + 1
    q = robot.neutral + rng.normal(size=(k, robot.nq))
    qd, tau, qdd = rng.normal(size=(3, k, robot.n))
    u = rng.normal(size=(k, 12))
    found = osc.torque_batch(q, qd, u, tau, qdd)
    terms = osc.evaluate_batch(q, qd, TERMS)
    for i in range(k):
        assert far(found.tau[i], osc.torque(q[i], qd[i], u[i], tau[i], qdd[i])) < AGREEMENT
        state = osc.evaluate(q[i], qd[i])
        for name in EVALUATED:
            assert far(getattr(terms, name)[i], getattr(state, name)) < AGREEMENT, name
    first = robot.q_index[robot.spherical][0]
    q[2, first:first + 4] = 0.0
    found = osc.torque_batch(q, qd, u)
    assert np.isnan(found.tau[2]).all() and found.valid.sum() == k - 1 and not found.valid[2]
    with pytest.raises(InputError, match='state 2.*quaternion'):
        osc.torque_batch(q, qd, u, check=True)


def payloads(k, seed=6):
    """Return k payloads: bars in random directions."""
    rng = np.random.default_rng(seed)
    ends = rng.normal(size=(k, 3, 3))
    mass = rng.uniform(0.0, 3.0, k)
    mass[0], ends[0] = 0.0, 0.0
    return Payloads(mass, rng.normal(size=(k, 3)) / 10, 1e-2 * ends @ ends.transpose(0, 2, 1))


def each(loads):
    """Yield the arguments of `Robot.with_payload` for each of many payloads."""
    return zip(*map(np.asarray, loads))


@pytest.mark.parametrize('method', METHODS)
def test_each_state_may_have_its_own_payload(method):
    osc, k = panda(method), WIDTH + 2
    q, qd, u, tau, qdd = states(osc.robot, k)
    gravity, loads = np.random.default_rng(4).normal(size=(k, 3)), payloads(k)
    if method == 'sweep':  # its kernels are compiled for what is given: one of them suffices
        tau = qdd = [None] * k
    given = {} if method == 'sweep' else {'tau_null': tau, 'posture_acceleration': qdd}
    torques = osc.torque_batch(q, qd, u, **given, gravity=gravity, payloads=loads)
    terms = osc.evaluate_batch(q, qd, TERMS, gravity=gravity, payloads=loads)
    assert torques.valid.all() and terms.valid.all()
    for i, load in enumerate(each(loads)):
        one = OperationalSpace(osc.robot.with_payload(*load), method)
        one.gravity = gravity[i]
        assert far(torques.tau[i], one.torque(q[i], qd[i], u[i], tau[i], qdd[i])) < AGREEMENT
        state = one.evaluate(q[i], qd[i])
        for name in EVALUATED:
            assert far(getattr(terms, name)[i], getattr(state, name)) < AGREEMENT, name
        assert far(terms.a0[i], one.outward(q[i], qd[i]).a0) < AGREEMENT
    # and in every other batch
    for some in (slice(0), slice(1), slice(WIDTH - 1), slice(WIDTH), slice(None, None, -1)):
        part = Payloads(*(values[some] for values in loads))
        found = osc.torque_batch(q[some], qd[some], u[some], gravity=gravity[some], payloads=part,
                                 **{name: values[some] for name, values in given.items()})
        np.testing.assert_array_equal(found.tau, torques.tau[some])
    bad = np.array(loads.mass)
    bad[3] = np.nan
    found = osc.torque_batch(q, qd, u, gravity=gravity, payloads=loads._replace(mass=bad), **given)
    np.testing.assert_array_equal(found.valid, np.arange(k) != 3)
    np.testing.assert_array_equal(found.tau[found.valid], torques.tau[found.valid])
    assert np.isnan(found.tau[3]).all()


def test_point_masses_at_the_tip_are_the_default():
    osc = panda()
    q, qd, u, *_ = states(osc.robot, 2)
    found = osc.torque_batch(q, qd, u, payloads=Payloads([0.0, 2.0])).tau
    assert far(found[0], osc.torque(q[0], qd[0], u[0])) < AGREEMENT
    loaded = OperationalSpace(osc.robot.with_payload(2.0))
    assert far(found[1], loaded.torque(q[1], qd[1], u[1])) < AGREEMENT


def test_payloads_that_do_not_fit_are_refused():
    osc = panda()
    q, qd, u, *_ = states(osc.robot, 3)
    one, turned = np.tile(np.eye(3), (3, 1, 1)), np.tile(np.eye(3), (3, 1, 1))
    turned[1, 0, 2], one[2, 0, 0] = 0.1, -1.0
    for loads, message in (
            (Payloads(np.ones(2)), r'payloads.mass .*\(2,\).*(give|must be).*\(3,\)'),
            (Payloads(np.ones(3), np.ones(3)),
             r'payloads.center_of_mass .*\(3,\).*(give|must be).*\(3, 3\)'),
            (Payloads(np.ones(3), None, np.eye(3)),
             r'payloads.inertia .*\(3, 3\).*(give|must be).*\(3, 3, 3\)'),
            (Payloads([1.0, -2.0, 1.0]), r'payloads.mass\[1\] .*-2.0: (give|must be).* 0 '),
            (Payloads(np.ones(3), None, turned), r'payloads.inertia\[1\] is .* symmetric'),
            (Payloads(np.ones(3), None, one), r'payloads.inertia\[2\] is .* semi-definite'),
            (Payloads([1.0, 0.0, 1.0], None, abs(one)),
             r'payloads.inertia\[1\] is .* without mass'),
            ((1.0, 2.0, 3.0), r'payloads .*tuple: (give|must be).*Payloads')):
        with pytest.raises(InputError, match=message):
            osc.torque_batch(q, qd, u, payloads=loads)
        with pytest.raises(InputError, match=message):
            osc.evaluate_batch(q, qd, payloads=loads)
    with pytest.raises(InputError, match="LDL .*'sweep', 'recursive', 'efpa'"):
        panda('ldl').torque_batch(q, qd, u, payloads=Payloads(np.ones(3)))
