# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""All methods with multi-DoF joints, massless bodies, side branches and floating bases."""

from dataclasses import replace
from functools import cache

from hypothesis import assume, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from common import naming
from judge import JOINTS, random_tree
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.methods import METHODS
from osc_ros.dynamics.papers.block_tridiagonal import BlockCyclicReduction, BlockLDL
from osc_ros.dynamics.papers.schur import constrained_motion, schur_blocks
from osc_ros.dynamics.trees.tree import Tree
from osc_ros.dynamics.trees.tree_layout import PROPAGATED
from osc_ros.errors import ModelError
from tolerances import AGREEMENT, COMMAND_MET, CONDITION_ROUNDING, WIDE_MASS_AGREEMENT
from variants import first_quick, quick_if

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

STATES = 3
ARM = ['revolute'] * 6

# The joints of the path, and the branches: see judge.random_tree.
DEFINITE = {
    'spherical': (['spherical', 'revolute', 'spherical', 'prismatic'], []),
    'planar': (['planar', 'revolute', 'revolute', 'planar', 'revolute'], []),
    'floating_base': (['floating', *ARM], []),
    'floating_inside': (['revolute', 'floating', 'revolute', 'spherical'], []),
    'floating_alone': (['floating'], []),
    'bare_pairs': (['bare revolute', 'revolute', 'bare prismatic', 'revolute', 'revolute'], []),
    'bare_threes': (['revolute', *['bare revolute', 'bare revolute', 'revolute'] * 2], []),
    'bare_six': (['bare revolute', 'bare prismatic', 'bare spherical', 'revolute', *ARM], []),
    'branches': (ARM, [(1, ['revolute', 'spherical']), (5, ['prismatic', 'bare revolute',
                                                            'revolute'])]),
    'branch_on_ground': (ARM, [(-1, ['revolute', 'revolute']), (-1, ['floating'])]),
    'branch_beyond_tip': (['revolute', 'spherical', 'revolute'], [(2, ['revolute'] * 4)]),
    'second_arm': (['floating', *ARM], [(0, ARM), (0, ['spherical'])]),
    'all': (['planar', 'revolute', 'spherical', 'prismatic', 'bare revolute', 'revolute'],
            [(1, ['revolute', 'spherical']), (3, ['bare revolute', 'prismatic', 'planar'])]),
}
# Robots with singular inertias; 'ldl' and 'bcr' refuse those in REFUSED.
SINGULAR = {
    'points': (['revolute', 'point revolute', 'revolute', 'point prismatic', 'spherical'], []),
    'point_leg': (['point revolute'] * 5 + ['revolute'], []),
    'double_pendulum': (['point revolute', 'point revolute'], []),
    'branch_on_bare': (['revolute', 'bare revolute', *ARM], [(1, ['revolute'])]),
    'point_branch': (ARM, [(2, ['point revolute'])]),
}
REFUSED = SINGULAR.keys() - {'point_branch'}
CASES = DEFINITE | SINGULAR


@cache
def case(name, rotors, built):
    """Return a robot, built in code or from a URDF, and the Pinocchio model to compare it with."""
    kinds, branches = CASES[name]
    tree = random_tree(7, kinds, branches, rotors=rotors)
    if built == 'code':
        return Robot(**tree.description), tree
    robot = Robot.from_urdf(tree.urdf, 'base', tree.tips, free=True)
    tree = tree.ordered(robot.joint_names)
    return replace(robot, rotor_inertia=tree.rotor_inertia), tree


def has_urdf(name):
    return not any('spherical' in kind for branch in (CASES[name][0], *(
        kinds for _, kinds in CASES[name][1])) for kind in branch)


def taken(method, name):
    return method not in ('ldl', 'bcr') or name not in REFUSED


BUILT = [(name, built) for name in CASES for built in ('code', 'urdf')
         if built == 'code' or has_urdf(name)]
each = quick_if(lambda name, built, method: built == 'code' or method == 'sweep', [
    pytest.param(name, built, method, id=f'{name}-{built}-{method}')
    for name, built in BUILT for method in METHODS if taken(method, name)])


def error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def states(tree, count=STATES):
    """Return tuples of random q and qd, their TreeTerms, vectors (4, n) and a vector (6,)."""
    rng, found = np.random.default_rng(3), []
    for _ in range(count):
        q, qd = tree.state(rng)
        found.append((q, qd, tree.terms(q, qd), rng.normal(size=(4, len(qd))),
                      rng.normal(size=6)))
    return found


@pytest.mark.parametrize('rotors', [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize('name, built, method', each)
def test_every_term_is_pinocchios(name, built, method, rotors):
    robot, tree = case(name, rotors, built)
    osc = OperationalSpace(robot, method)
    for q, qd, terms, (tau, *_), F in states(tree):
        at = osc.evaluate(q, qd)
        for term in ('J', 'Jdot_qd', 'h', 'twist', 'Lambda_inv', 'M_inv'):
            assert error(getattr(at, term), getattr(terms, term)) < AGREEMENT, term
        assert error(at.pose, terms.poses[0]) < AGREEMENT
        assert error(osc.forward_dynamics(q, qd, tau, F),
                     tree.forward_dynamics(q, qd, tau, F)) < AGREEMENT


@pytest.mark.parametrize('rotors', [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize('name, built, method', each)
def test_torque_gives_the_tip_what_is_commanded(name, built, method, rotors):
    robot, tree = case(name, rotors, built)
    osc = OperationalSpace(robot, method)
    for q, qd, terms, (tau, posture, wanted, _), _ in states(tree):
        u = terms.J @ wanted + terms.Jdot_qd
        for options in ({}, {'tau_null': tau}, {'posture_acceleration': posture},
                        {'tau_null': tau, 'posture_acceleration': posture}):
            qdd = tree.forward_dynamics(q, qd, osc.torque(q, qd, u, **options))
            assert error(terms.J @ qdd + terms.Jdot_qd, u) < COMMAND_MET, options


@pytest.mark.parametrize('name, built, method', each)
def test_null_torque_moves_everything_but_the_tip(name, built, method):
    robot, tree = case(name, True, built)
    osc = OperationalSpace(robot, method)
    for q, qd, terms, (tau, posture, _, _), F in states(tree):
        own = terms.M @ posture + terms.h
        for options, tau_null in (({'tau_null': tau}, tau),
                                  ({'posture_acceleration': posture}, own),
                                  ({'tau_null': tau, 'posture_acceleration': posture}, own + tau)):
            tip = osc.outward(q, qd, **options)
            a0 = terms.J @ np.linalg.solve(terms.M, tau_null - terms.h) + terms.Jdot_qd
            assert error(tip.a0, a0) < AGREEMENT
            assert error(osc.inward(F), tau_null + terms.J.T @ F) < AGREEMENT


@pytest.mark.parametrize('factorization', [BlockLDL, BlockCyclicReduction])
@pytest.mark.parametrize('rotors', first_quick([True, False]))
@pytest.mark.parametrize('name', [name for name in CASES if name not in REFUSED])
def test_joint_reactions_are_pinocchios(name, rotors, factorization):
    robot, tree = case(name, rotors, 'code')
    last = {joint: i for i, joint in enumerate(robot.joints)}
    for q, qd, _, (tau, *_), F in states(tree):
        motion = constrained_motion(robot, q, qd, tau, F, factorization)
        expected = tree.joint_forces(q, qd, motion.qdd, F)
        assert error(motion.qdd, tree.forward_dynamics(q, qd, tau, F)) < AGREEMENT
        assert error(np.array([motion.forces[last[joint]] for joint in expected]),
                     np.array([*expected.values()])) < AGREEMENT


@pytest.mark.parametrize('rotors', first_quick([True, False]))
@pytest.mark.parametrize('name', DEFINITE)
def test_schur_complements_are_the_inverse_inertias_of_the_path(name, rotors):
    robot, tree = case(name, rotors, 'code')
    for q, _, terms, _, _ in states(tree):
        blocks = schur_blocks(robot, q)
        on_path = np.flatnonzero([joint in [f'joint_{k}' for k in range(len(CASES[name][0]))]
                                  for joint in np.repeat(robot.joints, np.diff(
                                      [*robot.v_index, robot.n]))])
        M_inv = np.array([blocks.M_inv_times(e) for e in np.eye(len(on_path))])
        assert error(M_inv, terms.M_inv[np.ix_(on_path, on_path)]) < AGREEMENT
        assert error(blocks.Lambda_inv, terms.Lambda_inv) < AGREEMENT
        condition = np.linalg.cond(terms.Lambda_inv)
        if condition < 1 / AGREEMENT:
            assert error(blocks.Lambda, np.linalg.inv(terms.Lambda_inv)) < max(
                AGREEMENT, CONDITION_ROUNDING * condition)


@pytest.mark.parametrize('method', ['ldl', 'bcr'])
@pytest.mark.parametrize('name', sorted(REFUSED))
def test_factorization_refuses_an_inertia_without_inverse_by_its_link(name, method):
    robot, _ = case(name, False, 'code')
    joint = robot.joints[np.flatnonzero(~robot.definite)[0]]
    with pytest.raises(ModelError, match=naming(f"'{joint}_link'", f"'{joint}'", 'inertia')):
        OperationalSpace(robot, method)


@pytest.mark.parametrize('method', ['ldl', 'bcr'])
def test_factorization_refuses_a_seventh_freedom_without_mass_between(method):
    tree = random_tree(0, ['bare revolute'] * 6 + ['revolute'])
    n = tree.model.nv
    robot = Robot(**tree.description | {'rotor_inertia': np.ones(n)})
    with pytest.raises(ModelError, match="'joint_6'.* 7 freedoms"):
        OperationalSpace(robot, method)
    tree = replace(tree, rotors={name: np.ones(1) for name in tree.names})
    q, qd = tree.state(np.random.default_rng(0))
    assert error(OperationalSpace(robot).evaluate(q, qd).Lambda_inv,
                 tree.terms(q, qd).Lambda_inv) < AGREEMENT


@pytest.mark.parametrize('rotors', [False, True])
@pytest.mark.parametrize('n', [1, 2, 7, 33])
def test_tree_agrees_with_the_sweep_on_a_plain_chain(n, rotors):
    tree = random_tree(n, (['revolute', 'prismatic', 'revolute'] * n)[:n], rotors=rotors)
    robot = Robot(**tree.description)
    general, fast = Tree(robot, PROPAGATED), Sweep(robot)
    for q, qd, _, (tau, posture, *_), u in states(tree):
        for options in ((None, None), (tau, None), (None, posture), (tau, posture)):
            for one in general, fast:
                one.outward(q, qd, *options)
            assert error(general.Lambda_inv, fast.Lambda_inv) < AGREEMENT
            assert error(general.a0, fast.a0) < AGREEMENT
            out = np.empty((2, n))
            for one, torques in zip((general, fast), out):
                one.inward(u, torques)
            assert error(*out) < AGREEMENT


@pytest.mark.parametrize('method', METHODS)
def test_length_of_a_quaternion_does_not_matter(method):
    robot, tree = case('floating_base', False, 'code')
    osc = OperationalSpace(robot, method)
    q, qd, *_ = states(tree)[0]
    longer = q.copy()
    longer[3:7] *= -3.7
    for term in ('pose', 'J', 'h', 'Lambda_inv', 'M_inv'):
        assert error(getattr(osc.evaluate(longer, qd), term),
                     getattr(osc.evaluate(q, qd), term)) < AGREEMENT


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('name', first_quick(['branches', 'floating_base', 'bare_threes']))
def test_masses_may_differ_by_a_million(name, method):
    kinds, branches = CASES[name]
    for seed in range(5):
        tree = random_tree(seed, kinds, branches, decades=3)
        osc = OperationalSpace(Robot(**tree.description), method)
        q, qd, terms, *_ = states(tree)[0]
        assert error(osc.evaluate(q, qd).Lambda_inv, terms.Lambda_inv) < WIDE_MASS_AGREEMENT


kinds_drawn = st.lists(st.sampled_from([*JOINTS, 'bare revolute', 'bare prismatic']),
                       min_size=1, max_size=8).map(lambda kinds: [*kinds, 'revolute'])


@settings(deadline=None, derandomize=True)
@given(kinds=kinds_drawn, branch=kinds_drawn, host=st.integers(-1, 8), rotors=st.booleans(),
       seed=st.integers(0, 1000))
def test_any_tree_is_pinocchios(kinds, branch, host, rotors, seed):
    tree = random_tree(seed, kinds, [(min(host, len(kinds) - 1), branch)], rotors=rotors)
    q, qd = tree.state(np.random.default_rng(seed))
    terms = tree.terms(q, qd)
    condition = np.linalg.cond(terms.M)
    assume(condition < 1e7)
    robot, refused = Robot(**tree.description), 0
    for method in METHODS:
        try:
            osc = OperationalSpace(robot, method)
        except ModelError:
            refused += 1
            continue
        at, limit = osc.evaluate(q, qd), max(AGREEMENT, CONDITION_ROUNDING * condition)
        assert error(at.Lambda_inv, terms.Lambda_inv) < limit, method
        assert error(at.M_inv, terms.M_inv) < limit, method
        assert error(at.h, terms.h) < limit, method
    assert refused in (0, 2)
