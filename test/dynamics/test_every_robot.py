# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Each method and robot of example-robot-data against Pinocchio: doc/measurements/robots.md."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
import re

import numpy as np
import pinocchio as pin
import pytest

from common import CHECKOUT
from judge import configuration, pinocchio_model
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.algebra.task_inertia import EXACT_HIGH, EXACT_LOW
from osc_ros.dynamics.methods import METHODS
from osc_ros.errors import ModelError
from survey import chains, LEAST, urdf_texts
from tolerances import EVERY_ROBOT

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

STATES = 20
ILL_CONDITIONED = 1e5  # condition number of Λ⁻¹ above which HEAD divides acceleration errors
ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]
# one of each kind: fixed arms, a mobile one, legs, mimic joints, a humanoid, chains without mass
QUICK = ('/panda.urdf', '/ur5_robot.urdf', '/kinova.urdf', '/tiago_no_hand.urdf', '/anymal.urdf',
         '/baxter.urdf', '/icub_reduced.urdf', '/so100.urdf', '/hyq_no_sensors.urdf')
PAGE = CHECKOUT / 'doc' / 'measurements' / 'robots.md'
WRITE = "make test-all ARGS='-k every_robot --write-tables'"

HEAD = f"""\
# Every robot of example-robot-data {version('example-robot-data')}, compared with Pinocchio

**Chains.** From the root of every URDF, and from every link with several branches that have
joints, three chains are tested: to the end that the largest number of joints leads to, to the
last link on this path that has mass or carries mass, and to the next link with several branches.
Chains with less than {LEAST} independent joints are left out. Joints off the chain are locked at
0; a mimic joint on the chain is locked at the position in the column "remark".

**Figures.** Each figure is the largest error over {STATES} random states within the joint limits.
Joint velocities q̇ and accelerations q̈ (u = J q̈ + J̇q̇) are normally distributed, 1 rad/s and 1
rad/s². The errors are

- of the pose, J, J̇q̇, h = C + G and Λ⁻¹, each relative to its largest entry;
- of the tip's acceleration under the torques of the law for u, computed by Pinocchio's
  articulated-body algorithm: difference from u, relative to the larger of u and a⁰ = J̇q̇ - J
  M⁻¹h. Only directions are compared in which the chain can move: eigenvectors of Λ⁻¹ with
  eigenvalues above {EXACT_HIGH:g} of the largest. If the condition number of Λ⁻¹ (over
  eigenvalues above {EXACT_LOW:g} of the largest) exceeds {ILL_CONDITIONED:g}, the error is
  divided by condition number / {ILL_CONDITIONED:g}.

If a method or the URDF reader refuses a chain, the remark has the error message. The tests fail
if a figure reaches {EVERY_ROBOT:g}, or if anything on this page but the figures has changed. To
write it again: `{WRITE}`.
"""


@dataclass(frozen=True, eq=False)
class Found:
    """A state, a command u and the terms by Pinocchio, in base axes, [angular; linear]."""

    q: np.ndarray
    qd: np.ndarray
    u: np.ndarray
    pose: np.ndarray
    J: np.ndarray
    Jdot_qd: np.ndarray
    h: np.ndarray
    Lambda_inv: np.ndarray
    a0: np.ndarray


@cache
def robots(name):
    """Return (chain, Robot) for every chain of a URDF, or (chain, ModelError) if it is refused."""
    text = urdf_texts()[name]

    def robot(chain):
        try:
            return Robot.from_urdf(text, chain.base, chain.tip, locked=chain.held)
        except ModelError as error:
            return error

    return [(chain, robot(chain)) for chain in chains(text)]


def spaces(robot):
    """Return {method: OperationalSpace, or the ModelError if the method refuses the robot}."""
    def space(method):
        try:
            return OperationalSpace(robot, method)
        except ModelError as error:
            return error

    return {method: space(method) for method in METHODS}


@cache
def worst_errors(name):
    """Return the largest errors (chains, methods); NaN where the URDF reader refuses the chain."""
    return np.reshape([
        [np.nan] * len(METHODS) if isinstance(robot, ModelError) else
        errors(urdf_texts()[name], chain, robot, np.random.default_rng([*name.encode(), number]))
        for number, (chain, robot) in enumerate(robots(name))], (-1, len(METHODS)))


def errors(urdf_text, chain, robot, rng):
    assert robot.joint_names == tuple(chain.ranges)
    model, data, frame = pinocchio_model(
        urdf_text, chain.base, chain.tip, chain.ranges, chain.held)
    states = [state(model, data, frame, rng.uniform(*np.transpose([*chain.ranges.values()])), rng)
              for _ in range(STATES)]

    def error(space, at):
        terms = space.evaluate(at.q, at.qd)
        tau = space.torque(at.q, at.qd, at.u)
        qdd = pin.aba(model, data, configuration(model, at.q), at.qd, tau)
        return [
            relative(terms.pose, at.pose), relative(terms.J, at.J), relative(terms.h, at.h),
            relative(terms.Jdot_qd, at.Jdot_qd), relative(terms.Lambda_inv, at.Lambda_inv),
            acceleration_error(at, at.J @ qdd + at.Jdot_qd)]

    return [np.nan if isinstance(space, ModelError)
            else np.max([error(space, at) for at in states]) for space in spaces(robot).values()]


def state(model, data, frame, q, rng):
    """Return a random velocity and command at `q`, with the terms by Pinocchio."""
    world = pin.LOCAL_WORLD_ALIGNED
    qd, qdd = rng.normal(size=(2, model.nv))
    full = configuration(model, q)
    # tiago_no_hand (condition of M 5e6): computeMinverse has an error of 4e-11, crba of 1e-15
    M = np.triu(pin.crba(model, data, full))
    M += np.triu(M, 1).T
    h = pin.nonLinearEffects(model, data, full, qd).copy()
    J = pin.computeFrameJacobian(model, data, full, frame, world)[ANGULAR_FIRST]
    pin.forwardKinematics(model, data, full, qd, np.zeros(model.nv))
    pose = pin.updateFramePlacement(model, data, frame).homogeneous
    acceleration = pin.getFrameClassicalAcceleration(model, data, frame, world).vector
    Jdot_qd = acceleration[ANGULAR_FIRST]
    return Found(q=q, qd=qd, u=J @ qdd + Jdot_qd, pose=pose, J=J, Jdot_qd=Jdot_qd, h=h,
                 Lambda_inv=J @ np.linalg.solve(M, J.T), a0=Jdot_qd - J @ np.linalg.solve(M, h))


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def acceleration_error(at, acceleration):
    """Return the scaled error (see HEAD) of an acceleration, in directions the tip can move."""
    values, directions = np.linalg.eigh(at.Lambda_inv)
    share = values / values[-1]
    difference = directions[:, share > EXACT_HIGH].T @ (acceleration - at.u)
    condition = 1 / share[share > EXACT_LOW].min()
    return (np.abs(difference).max() / max(np.abs(at.u).max(), np.abs(at.a0).max())
            / max(1, condition / ILL_CONDITIONED))


@pytest.mark.parametrize('name', [
    name if name.endswith(QUICK) else pytest.param(name, marks=pytest.mark.slow)
    for name in urdf_texts()])
def test_every_method_agrees_with_pinocchio_on_every_chain(name):
    for (chain, robot), found in zip(robots(name), worst_errors(name), strict=True):
        if not isinstance(robot, ModelError):
            worst = dict(zip(METHODS, found, strict=True))
            assert not (found >= EVERY_ROBOT).any(), f'{chain.base} to {chain.tip}: {worst}'


def test_page_lists_every_chain_with_its_reason_if_it_is_refused(request):
    if request.config.getoption('--write-tables'):
        PAGE.write_text(page({name: worst_errors(name) for name in urdf_texts()}))
    committed = re.sub(r'\| \de[+-]\d\d (?=\|)', '|  ', PAGE.read_text())
    assert committed == page({}), f'{WRITE} writes {PAGE.name} again'


def page(figures):
    """Return the page; URDFs that are not in `figures` get blank cells."""
    rows = [row for name in urdf_texts() for row in table_rows(name, figures.get(name))]
    columns = ['robot', 'chain', 'joints', *METHODS, 'remark']
    lines = [columns, ['-'] * len(columns), *rows]
    return f'{HEAD}\n' + ''.join(f"| {' | '.join(line)} |\n" for line in lines)


def table_rows(name, figures):
    blank = [''] * len(METHODS)
    if not robots(name):
        yield [name, '', '', *blank, f'no chain of {LEAST} independent joints']
    for number, (chain, robot) in enumerate(robots(name)):
        path = [name, f'{chain.base} → {chain.tip}', str(len(chain.ranges))]
        held = ', '.join(f'{joint} = {value:g}' for joint, value in chain.held.items())
        if isinstance(robot, ModelError):
            yield [*path, *blank, f'refused: {robot}']
        else:
            refused = {method: space for method, space in spaces(robot).items()
                       if isinstance(space, ModelError)}
            measured = ['refused' if method in refused else '' if figures is None
                        else f'{figures[number][k]:.0e}' for k, method in enumerate(METHODS)]
            remarks = [f'locked: {held}'] if held else []
            remarks += [f"'{method}': {error}" for method, error in refused.items()]
            yield [*path, *measured, '; '.join(remarks)]
