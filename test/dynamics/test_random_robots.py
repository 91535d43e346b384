# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Every method on random robots: mixed joints, wide ranges of masses, near singularities."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

from hypothesis import assume, given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest

from common import naming
from judge import random_tree
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.methods import METHODS, ONE_TIP
from osc_ros.errors import InputError, ModelError
from tolerances import (
    AGREEMENT,
    BODY_ROUNDING,
    CONDITION_ROUNDING,
    ENERGY_RATE,
    JOINT_ROUNDING,
    MASSLESS_ROUNDING,
)

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
# the number of examples is that of the profile: see conftest.py
SAME_EVERY_TIME = settings(derandomize=True, deadline=None, database=None)
FREEDOMS = {'revolute': 1, 'prismatic': 1, 'spherical': 3, 'planar': 3, 'floating': 6}
PLAIN = [('revolute',), ('prismatic',)]
# Sequences of joints that robots are composed of; each moves some inertia in any configuration.
ROWS = [
    *PLAIN, ('spherical',), ('planar',), ('floating',), ('point revolute',), ('point prismatic',),
    ('bare revolute', 'revolute'), ('bare prismatic', 'revolute'), ('bare planar', 'revolute'),
    ('bare revolute', 'spherical'), ('bare revolute', 'bare prismatic', 'revolute'),
]
IN_URDF = [row for row in ROWS if 'spherical' not in row]
SIZES = st.integers(1, 33)
CONTROLLED = 1e-8  # λ / λ_max of Λ⁻¹ above which the law fully controls a direction
GIVEN_UP = 1e-10  # λ / λ_max of Λ⁻¹ below which the law does not control a direction
SOON = 1e-5  # step of the finite difference [s]
ABOUT_ZERO = 1e-3


# Random robots

@dataclass(frozen=True)
class Drawn:
    """Arguments of judge.random_tree: few, so that hypothesis can print the robot."""

    seed: int
    kinds: tuple
    branches: tuple = ()
    tips: int = 1
    rotors: bool = False
    straight: bool = False
    decades: float = 0.0

    @cached_property
    def tree(self):
        return random_tree(**{field.name: getattr(self, field.name) for field in fields(self)})

    @cached_property
    def robot(self):
        return Robot(**self.tree.description)

    @cached_property
    def state(self):
        """Return q (nq,), qd (n,) and four random vectors (n,)."""
        rng = np.random.default_rng(self.seed)
        return *self.tree.state(rng), *rng.normal(size=(4, self.robot.n))


def spaces(robot):
    """Yield every method that supports the robot, and its OperationalSpace."""
    for method in METHODS:
        if method in ONE_TIP and len(robot.tips) > 1:
            continue
        try:
            osc = OperationalSpace(robot, method)
        except ModelError:  # the factorization of the papers needs invertible inertias
            assert method in ('ldl', 'bcr') and not robot.definite.all()
            continue
        yield method, osc


def freedoms(row):
    return sum(FREEDOMS[kind.split()[-1]] for kind in row)


@st.composite
def paths(draw, n, rows):
    """Draw the joints of a path of n freedoms."""
    kinds = ()
    while n:
        row = draw(st.sampled_from([row for row in rows if freedoms(row) <= n]))
        kinds, n = kinds + row, n - freedoms(row)
    return kinds


@st.composite
def robots(draw, n=SIZES, rows=None, decades=(0.0, 3.0), straight=False):
    """
    Draw a plain chain, a chain of any joints, or a tree with up to three tips.

    Straight arms have no massless bodies: both joints of such a body could have the same effect.

    """
    if rows is None:
        rows = draw(st.sampled_from([PLAIN, [row for row in ROWS if len(row) == 1] if straight
                                     else ROWS]))
    left = draw(n)
    own = draw(st.integers(1, left)) if draw(st.booleans()) else left
    kinds, left, branches = draw(paths(own, rows)), left - own, ()
    while left:
        own = draw(st.integers(1, left))
        host = draw(st.integers(-1, len(kinds) - 1))
        branches, left = (*branches, (host, draw(paths(own, rows)))), left - own
    return Drawn(draw(st.integers(0, 999)), kinds, branches,
                 tips=draw(st.integers(1, min(3, 1 + len(branches)))),
                 rotors=draw(st.booleans()), straight=straight,
                 decades=draw(st.sampled_from(decades)))


# Tolerance for rounding errors

def rounding(robot, method, M, expected):
    """
    Return a bound of the rounding error of M⁻¹ or Λ⁻¹, the expected matrix, relative to its size.

    M has a relative rounding error; that of its inverse is at least the condition number of M
    times as large, by any method. Methods of articulated bodies lose more digits where bodies
    without mass follow each other: the error of one difference enters the next. Methods that
    eliminate constraint forces add and subtract inverse inertias of bodies, and that of a light
    body with a heavy load is much larger than the result. 'ldl' and 'bcr' also invert the inertia
    of a body together with its branches, even if these are heavy and move freely.

    """
    condition, inertia = np.linalg.cond(M), np.linalg.eigvalsh(robot.inertia)
    lightest = inertia[inertia > CONTROLLED * inertia[:, -1:]].min()
    scale = JOINT_ROUNDING * condition
    if method != 'dense' and not robot.definite.all():
        scale = MASSLESS_ROUNDING * condition
    if method in ('ldl', 'bcr') or method == 'sweep' and robot.serial:
        scale += BODY_ROUNDING / lightest / size(expected)
    beside = robot.parent != np.arange(-1, len(robot.parent) - 1)
    if method in ('ldl', 'bcr') and beside.any():
        scale += JOINT_ROUNDING * (inertia.max() + size(M)) / lightest
    return scale


def error(found, expected):
    """Return the largest difference / max(the largest entry, ABOUT_ZERO)."""
    return np.abs(found - expected).max() / max(np.abs(expected).max(), ABOUT_ZERO)


def size(x):
    return np.linalg.norm(x, 2)


# Comparison with Pinocchio

@pytest.mark.parametrize('n', [
    n if n in (1, 2, 7, 33) else pytest.param(n, marks=pytest.mark.slow)
    for n in range(1, 34)])
@settings(SAME_EVERY_TIME, max_examples=10)
@given(data=st.data())
def test_all_methods_agree_with_pinocchio_and_so_with_each_other(n, data):
    drawn = data.draw(robots(n=st.just(n)))
    q, qd, *_ = drawn.state
    terms = drawn.tree.terms(q, qd)
    for method, osc in spaces(drawn.robot):
        found = osc.evaluate(q, qd)
        for term in ('h', 'J', 'Jdot_qd', 'twist'):
            assert error(getattr(found, term), getattr(terms, term)) < AGREEMENT, (method, term)
        assert error(found.pose.reshape(-1, 4, 4), terms.poses) < AGREEMENT, method
        for term in ('M_inv', 'Lambda_inv'):
            expected = getattr(terms, term)
            allowed = rounding(drawn.robot, method, terms.M, expected) * size(expected)
            assert size(getattr(found, term) - expected) < allowed, (method, term)
        np.testing.assert_array_equal(found.Lambda_inv, found.Lambda_inv.T)
        assert np.linalg.eigvalsh(found.Lambda_inv).min() > -allowed, method
        assert np.linalg.eigvalsh(found.M_inv).min() > 0, method


@SAME_EVERY_TIME
@given(drawn=robots())
def test_task_inertia_undoes_its_inverse(drawn):
    q, qd, *_ = drawn.state
    for method, osc in spaces(drawn.robot):
        found = osc.evaluate(q, qd)
        values = np.linalg.eigvalsh(found.Lambda_inv)
        moves = values > CONTROLLED * values[-1]
        assume((values[~moves] < GIVEN_UP * values[-1]).all())
        both = found.Lambda_inv @ found.Lambda
        spread = values[-1] / values[moves][0]
        assert size(both @ both - both) < CONDITION_ROUNDING * spread, method
        assert abs(np.trace(both) - moves.sum()) < CONDITION_ROUNDING * spread, method
        if moves.all():
            assert size(both - np.eye(len(both))) < CONDITION_ROUNDING * spread, method


def forms(drawn, terms):
    """Return the options of a null-space command, each with the τ⁰ that it is equivalent to."""
    _, _, _, tau_null, posture, _ = drawn.state
    inverse_dynamics = terms.M @ posture + terms.h
    return [({}, 0 * tau_null), ({'tau_null': tau_null}, tau_null),
            ({'posture_acceleration': posture}, inverse_dynamics),
            ({'tau_null': tau_null, 'posture_acceleration': posture},
             inverse_dynamics + tau_null)]


def missed(drawn, method, osc, q, qd, u, options, tau_null):
    """Return error / tolerance of u in the directions in which the tips can move."""
    terms = drawn.tree.terms(q, qd)
    tau = osc.torque(q, qd, u, **options)
    assert np.isfinite(tau).all(), method
    qdd = np.linalg.solve(terms.M, tau - terms.h)
    values, directions = np.linalg.eigh(terms.Lambda_inv)
    moves = values > CONTROLLED * values[-1]
    moved = directions[:, moves]
    a0 = terms.J @ np.linalg.solve(terms.M, tau_null - terms.h) + terms.Jdot_qd
    F = moved.T @ (u - a0) / values[moves]
    forces = size(F) * values[-1]
    motion = size(terms.J) * size(np.linalg.solve(terms.M, np.abs(tau_null) + np.abs(terms.h)))
    allowed = rounding(drawn.robot, method, terms.M, terms.Lambda_inv) * (
        forces + motion + size(terms.Jdot_qd) + size(u))
    return size(moved.T @ (terms.J @ qdd + terms.Jdot_qd - u)) / allowed


@SAME_EVERY_TIME
@given(drawn=robots())
def test_commanded_acceleration_is_met(drawn):
    q, qd, a, *_ = drawn.state
    terms = drawn.tree.terms(q, qd)
    u = terms.J @ a + terms.Jdot_qd  # an acceleration that the tips can reach
    for method, osc in spaces(drawn.robot):
        for options, tau_null in forms(drawn, terms):
            assert missed(drawn, method, osc, q, qd, u, options, tau_null) < 1, (
                method, list(options))


@SAME_EVERY_TIME
@given(drawn=robots())
def test_null_space_torque_moves_no_tip(drawn):
    q, qd, _, tau_null, *_ = drawn.state
    terms = drawn.tree.terms(q, qd)
    values = np.linalg.eigvalsh(terms.Lambda_inv)
    assume((values[values < CONTROLLED * values[-1]] < GIVEN_UP * values[-1]).all())
    spread = values[-1] / values[values > CONTROLLED * values[-1]][0]
    for method, osc in spaces(drawn.robot):
        tau = osc.evaluate(q, qd).N.T @ tau_null
        moved = size(terms.J @ np.linalg.solve(terms.M, tau))
        free = size(terms.J) * size(np.linalg.solve(terms.M, tau_null))
        assert moved < spread * rounding(
            drawn.robot, method, terms.M, terms.Lambda_inv) * free, method


# Agreement of the methods with each other

@SAME_EVERY_TIME
@given(drawn=robots())
def test_forward_dynamics_undoes_inverse_dynamics(drawn):
    q, qd, qdd, x, *_ = drawn.state
    terms = drawn.tree.terms(q, qd)
    for method, osc in spaces(drawn.robot):
        allowed = rounding(drawn.robot, method, terms.M, terms.M_inv) * size(terms.M_inv)
        osc.outward(q, qd, posture_acceleration=qdd)
        F = np.cos(np.arange(len(terms.J)))
        tau = osc.inward(F)
        loads = size(tau) + size(terms.h) + size(terms.J.T @ F)
        assert size(osc.forward_dynamics(q, qd, tau, -F) - qdd) < allowed * loads, method
        expected = drawn.tree.forward_dynamics(q, qd, tau, F)
        assert size(osc.forward_dynamics(q, qd, tau, F) - expected) < allowed * loads, method
        assert size(osc.apply_M_inv(q, terms.M @ x) - x) < allowed * size(terms.M @ x), method


@SAME_EVERY_TIME
@given(drawn=robots(decades=[0.0]))
def test_power_of_the_torques_is_the_change_of_energy(drawn):
    tree = drawn.tree
    q, qd, _, tau, *_ = drawn.state
    terms = tree.terms(q, qd)
    for method, osc in spaces(drawn.robot):
        qdd = osc.forward_dynamics(q, qd, tau)
        after, before = (tree.energy(q + t * tree.rate(q, qd), qd + t * qdd)
                         for t in (SOON, -SOON))
        scale = np.abs(qd * terms.h).sum() + np.abs(tau * qd).sum()
        assert abs((after - before) / (2 * SOON) - tau @ qd) < ENERGY_RATE * scale, method


@SAME_EVERY_TIME
@given(drawn=robots(), scale=st.floats(1e-3, 1e3))
def test_forces_are_proportional_to_all_masses(drawn, scale):
    robot, (q, qd, x, *_) = drawn.robot, drawn.state
    heavy = replace(robot, inertia=scale * robot.inertia,
                    rotor_inertia=scale * robot.rotor_inertia)
    terms = drawn.tree.terms(q, qd)
    for (method, osc), (_, other) in zip(spaces(robot), spaces(heavy)):
        allowed = rounding(drawn.robot, method, terms.M, terms.Lambda_inv)
        light, found = osc.evaluate(q, qd), other.evaluate(q, qd)
        assert error(scale * found.Lambda_inv, light.Lambda_inv) < allowed, method
        assert error(found.h / scale, light.h) < AGREEMENT, method
        allowed = rounding(drawn.robot, method, terms.M, terms.M_inv) * size(terms.M_inv)
        assert size(scale * other.apply_M_inv(q, x) - osc.apply_M_inv(q, x)) < (
            allowed * size(x)), method


def renumbered(robot, rng):
    """
    Return the robot with its joints in a random order, parents first, and two index arrays.

    The new robot has the positions q[first] and the velocities qd[second].

    """
    left, done, order = list(robot.joint_names), {-1}, []
    while left:
        ready = [joint for joint in left if robot.parent[robot.joints.index(joint)] in done]
        joint = ready[rng.integers(len(ready))]
        own = [i for i, name in enumerate(robot.joints) if name == joint]
        left.remove(joint)
        order += own
        done |= set(own)
    new = {-1: -1, **{old: k for k, old in enumerate(order)}}
    v, q = (np.concatenate([first[i] + np.arange(wide if robot.spherical[i] else 1)
                            for i in order])
            for first, wide in ((robot.v_index, 3), (robot.q_index, 4)))
    return replace(
        robot, joints=[robot.joints[i] for i in order],
        parent=[new[robot.parent[i]] for i in order],
        frames={link: (new[body], T) for link, (body, T) in robot.frames.items()},
        **{name: getattr(robot, name)[order]
           for name in ('prismatic', 'spherical', 'T_parent_body', 'inertia')},
        **{name: getattr(robot, name)[v]
           for name in ('rotor_inertia', 'position_limits', 'velocity_limits', 'effort_limits')},
    ), q, v


@SAME_EVERY_TIME
@given(drawn=robots(), seed=st.integers(0, 999))
def test_order_of_the_bodies_does_not_change_the_terms(drawn, seed):
    robot, (q, qd, *_) = drawn.robot, drawn.state
    other, to_q, to_v = renumbered(robot, np.random.default_rng(seed))
    terms = drawn.tree.terms(q, qd)
    for (method, osc), (_, osc_there) in zip(spaces(robot), spaces(other)):
        here, there = osc.evaluate(q, qd), osc_there.evaluate(q[to_q], qd[to_v])
        assert error(there.h, here.h[to_v]) < AGREEMENT, method
        assert error(there.J, here.J[:, to_v]) < AGREEMENT, method
        for term, order in (('Lambda_inv', ...), ('M_inv', np.ix_(to_v, to_v))):
            expected = getattr(here, term)[order]
            assert size(getattr(there, term) - expected) < size(expected) * rounding(
                drawn.robot, method, terms.M, expected), (method, term)


@SAME_EVERY_TIME
@given(drawn=robots(), turn=st.tuples(*[st.floats(-3, 3)] * 3),
       shift=st.tuples(*[st.floats(-9, 9)] * 3))
def test_where_the_base_frame_is_does_not_matter(drawn, turn, shift):
    robot, (q, qd, *_) = drawn.robot, drawn.state
    R = pin.exp3(np.array(turn))
    T = pin.SE3(R, np.array(shift)).homogeneous
    placements, first = robot.T_parent_body.copy(), robot.parent < 0
    placements[first] = T @ placements[first]
    moved = replace(robot, T_parent_body=placements, gravity=R @ robot.gravity)
    turned = np.kron(np.eye(2 * len(robot.tips)), R)
    terms = drawn.tree.terms(q, qd)
    for (method, osc), (_, other) in zip(spaces(robot), spaces(moved)):
        here, there = osc.evaluate(q, qd), other.evaluate(q, qd)
        assert error(there.pose, T @ here.pose) < AGREEMENT, method
        assert error(there.J, turned @ here.J) < AGREEMENT, method
        assert error(there.h, here.h) < AGREEMENT, method
        assert size(there.Lambda_inv - turned @ here.Lambda_inv @ turned.T) < rounding(
            drawn.robot, method, terms.M, here.Lambda_inv) * size(here.Lambda_inv), method


@SAME_EVERY_TIME
@given(drawn=robots(n=st.integers(2, 33), rows=IN_URDF), data=st.data())
def test_locked_joint_is_left_out_of_the_terms(drawn, data):
    tree = drawn.tree
    free = Robot.from_urdf(tree.urdf, 'base', tree.tips, free=True)
    tree = tree.ordered(free.joint_names)
    # each of these joints can be locked, and every tip keeps at least one joint
    simple = [name for name in tree.names if tree.kinds[name] in ('revolute', 'prismatic')
              and (name.startswith('joint') or drawn.tips == 1)]
    assume(simple and len(drawn.kinds) > 1)
    joint = data.draw(st.sampled_from(simple))
    q, qd = tree.state(np.random.default_rng(drawn.seed))
    body = free.joints.index(joint)
    value = q[free.q_index[body]]
    qd[free.v_index[body]] = 0.0
    robot = Robot.from_urdf(tree.urdf, 'base', tree.tips, free=True, locked={joint: value})
    keep = np.arange(free.n) != free.v_index[body]
    terms = replace(tree, rotors={name: 0 * own for name, own in tree.rotors.items()}).terms(q, qd)
    M, J = terms.M[np.ix_(keep, keep)], terms.J[:, keep]
    Lambda_inv = J @ np.linalg.solve(M, J.T)
    q = np.delete(q, free.q_index[body])
    for method, osc in spaces(robot):
        found = osc.evaluate(q, qd[keep])
        assert error(found.h, terms.h[keep]) < AGREEMENT, method
        assert error(found.J, J) < AGREEMENT, method
        assert error(found.Jdot_qd, terms.Jdot_qd) < AGREEMENT, method
        assert size(found.Lambda_inv - Lambda_inv) < size(Lambda_inv) * rounding(
            robot, method, M, Lambda_inv), method


@SAME_EVERY_TIME
@given(drawn=robots(), heavy=st.floats(0, 10))
def test_rotors_add_to_the_diagonal_of_the_joint_inertia(drawn, heavy):
    robot, (q, qd, x, more, *_) = drawn.robot, drawn.state
    more = heavy * np.abs(more)
    other = replace(robot, rotor_inertia=robot.rotor_inertia + more)
    terms = drawn.tree.terms(q, qd)
    for (method, osc), (_, driven) in zip(spaces(robot), spaces(other)):
        y = driven.apply_M_inv(q, x)
        allowed = rounding(drawn.robot, method, terms.M, terms.M_inv) * size(terms.M_inv)
        assert size(osc.apply_M_inv(q, x - more * y) - y) < (
            allowed * (size(x) + size(more * y))), method
        assert error(driven.evaluate(q, qd).h, osc.evaluate(q, qd).h) < AGREEMENT, method


# Near singularities

@SAME_EVERY_TIME
@given(drawn=robots(n=st.integers(2, 33), straight=True), decade=st.floats(-8, -2))
def test_a_nearly_straight_arm_does_what_it_can_and_does_not_blow_up(drawn, decade):
    robot, (_, qd, a, direction, *_) = drawn.robot, drawn.state
    q = robot.neutral.copy()
    q[:robot.n] += 10 ** decade * direction
    terms = drawn.tree.terms(q, qd)
    u, none = terms.J @ a + terms.Jdot_qd, np.zeros(robot.n)
    for method, osc in spaces(robot):
        found = osc.evaluate(q, qd)
        uncertain = rounding(drawn.robot, method, terms.M, terms.Lambda_inv)
        assert size(found.Lambda_inv - terms.Lambda_inv) < (
            uncertain * size(terms.Lambda_inv)), method
        assert missed(drawn, method, osc, q, qd, u, {}, none) < 1, method
        # the law's q̈ has the smallest norm (by M) of all that achieve u: at most the norm of a
        effort = osc.torque(q, qd, u, posture_acceleration=none) - terms.h
        more = AGREEMENT if drawn.decades == 0 else uncertain / CONTROLLED
        assert effort @ np.linalg.solve(terms.M, effort) < (1 + more) ** 2 * (
            a @ terms.M @ a), method
        assert np.isfinite(osc.torque(q, qd, np.ones(len(u)))).all(), method


# Invalid arguments

DOORS = {
    'torque': ('q', 'qd', 'u', 'tau_null', 'posture_acceleration'),
    'outward': ('q', 'qd', 'tau_null', 'posture_acceleration'),
    'evaluate': ('q', 'qd'),
    'forward_dynamics': ('q', 'qd', 'tau', 'F_tip'),
    'apply_M_inv': ('q', 'x'),
    'apply_Lambda_inv': ('q', 'f'),
    'apply_Lambda': ('q', 'a'),
}


def right_length(robot, argument):
    if argument in ('u', 'F_tip', 'f', 'a'):
        return 6 * len(robot.tips)
    return robot.nq if argument == 'q' else robot.n


@SAME_EVERY_TIME
@given(drawn=robots(), data=st.data())
def test_every_method_refuses_a_wrong_shape_and_names_both_shapes(drawn, data):
    robot = drawn.robot
    door = data.draw(st.sampled_from(list(DOORS)))
    wrong = data.draw(st.sampled_from(DOORS[door]))
    right = right_length(robot, wrong)
    shape = data.draw(st.one_of(
        st.sampled_from([(), (0,), (right, 1), (1, right), (robot.n,), (robot.nq,)]),
        st.tuples(st.integers(0, 50))).filter(lambda shape: shape != (right,)))
    for _, osc in spaces(robot):
        good = {name: np.ones(right_length(robot, name)) for name in DOORS[door]}
        with pytest.raises(InputError, match=naming(wrong, shape, 'must be', (right,))):
            getattr(osc, door)(**good | {wrong: np.ones(shape)})


@SAME_EVERY_TIME
@given(drawn=robots(), data=st.data(), value=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_every_method_refuses_a_number_that_is_not_finite_and_names_its_index(drawn, data, value):
    robot = drawn.robot
    door = data.draw(st.sampled_from(list(DOORS)))
    wrong = data.draw(st.sampled_from(DOORS[door]))
    place = data.draw(st.integers(0, right_length(robot, wrong) - 1))
    for _, osc in spaces(robot):
        good = {name: np.ones(right_length(robot, name)) for name in DOORS[door]}
        good[wrong][place] = value
        with pytest.raises(InputError, match=naming(f'{wrong}[{place}] = {value}')):
            getattr(osc, door)(**good)


@SAME_EVERY_TIME
@given(drawn=robots(), method=st.text())
def test_an_unknown_method_is_refused_with_those_known(drawn, method):
    assume(method not in METHODS)
    with pytest.raises(InputError, match=naming(f"'{method}'", ', '.join(METHODS))):
        OperationalSpace(drawn.robot, method)
