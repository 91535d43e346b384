# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Times of all methods and of Pinocchio for robots with several tips."""

from __future__ import annotations

from functools import partial
from importlib.metadata import files
import warnings

import numpy as np
import pinocchio as pin
from scipy.linalg.lapack import dposv

from contenders import SWAP
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.methods import METHODS, ONE_TIP
from osc_ros.errors import ModelWarning
from race import Contender, difference, race, Row, State

STATES = 16
PINOCCHIO = 'Pinocchio'
CASES = {
    'Baxter, both hands': ('baxter_description/urdf/baxter.urdf', 'base',
                           ('left_gripper', 'right_gripper'), False),
    'TALOS, floating, hands and feet': (
        'talos_data/robots/talos_reduced.urdf', 'base_link',
        ('gripper_left_base_link', 'gripper_right_base_link', 'left_sole_link',
         'right_sole_link'), True),
}


class Pinocchio:
    """The law for several tips in Pinocchio, from Python; base: the root link of the URDF."""

    def __init__(self, text: str, robot: Robot, floats: bool) -> None:
        model = (pin.buildModelFromXML(text, pin.JointModelFreeFlyer()) if floats
                 else pin.buildModelFromXML(text))
        held = [i for i in range(1, model.njoints)
                if model.names[i] not in {*robot.joint_names, 'root_joint'}]
        self.model = pin.buildReducedModel(model, held, pin.neutral(model))
        self.data, self.rest = self.model.createData(), np.zeros(self.model.nv)
        self.tips = [self.model.getFrameId(tip, pin.FrameType.BODY) for tip in robot.tips]
        names = ['floating_base' if name == 'root_joint' else name
                 for name in list(self.model.names)[1:]]
        last = {joint: i for i, joint in enumerate(robot.joints)}
        self.order = np.concatenate([  # indices of q in the order of Pinocchio
            np.arange(7) if name == 'floating_base' else robot.q_index[[last[name]]]
            for name in names])
        self.floats = floats

    def velocity(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Return Pinocchio's v: the linear velocity of a floating base is in its own axes."""
        v = qd[self.order[7:] - 1] if self.floats else qd[self.order]
        if self.floats:
            R = pin.Quaternion(q[3:7]).toRotationMatrix()
            v = np.concatenate([R.T @ qd[:3], qd[3:6], v])
        return v

    def terms(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return J, Λ⁻¹ and a⁰, one tip after another."""
        model, data, world = self.model, self.data, pin.LOCAL_WORLD_ALIGNED
        M_inv = pin.computeMinverse(model, data, q)
        qdd = pin.aba(model, data, q, v, self.rest)
        pin.computeJointJacobians(model, data, q)
        pin.forwardKinematics(model, data, q, v, qdd)
        pin.updateFramePlacements(model, data)
        J = np.vstack([pin.getFrameJacobian(model, data, tip, world) for tip in self.tips])
        a0 = np.concatenate([pin.getFrameClassicalAcceleration(model, data, tip, world).vector
                             for tip in self.tips])
        return J, np.dot(np.dot(J, M_inv), J.T), a0

    def torque(self, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return τ (nv,) for u (6 m,), [linear; angular]."""
        J, Lambda_inv, a0 = self.terms(q, v)
        return np.dot(dposv(Lambda_inv, u - a0)[1], J)


def _text(name: str) -> str:
    place = next(file for file in files('example-robot-data') or ()
                 if str(file).endswith(f'example-robot-data/robots/{name}'))
    return place.locate().read_text()


def rows(case: str, seconds: float) -> list[Row]:
    """Return the rows of a robot; residuals are those of Λ⁻¹ and a⁰, by Pinocchio."""
    urdf, base, tips, floats = CASES[case]
    text = _text(urdf)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', ModelWarning)
        robot = Robot.from_urdf(text, base, tips, floating_base=floats)
    judge = Pinocchio(text, robot, floats)
    swap = np.concatenate([np.array(SWAP) + 6 * k for k in range(len(tips))])
    rng, sample = np.random.default_rng(4), []
    while len(sample) < STATES:
        q, qd = rng.uniform(-1.0, 1.0, robot.nq), rng.normal(size=robot.n)
        if floats:
            q[3:7] /= np.linalg.norm(q[3:7])
        if np.linalg.cond(judge.terms(q[judge.order], judge.velocity(q, qd))[1]) < 1e8:
            u = rng.normal(size=6 * len(tips))
            sample.append(State(q, qd, u, judge.velocity(q, qd), u[swap]))
    out = np.empty(robot.n)

    def ours(method):
        space = OperationalSpace(robot, method)

        def residual(s):
            found = space.outward(s.q, s.qd)
            _, Lambda_inv, a0 = judge.terms(s.q[judge.order], s.qdd)
            return max(difference(found.Lambda_inv[np.ix_(swap, swap)], Lambda_inv),
                       difference(found.a0[swap], a0))

        return Contender(method, partial(_torque, space, out), residual)

    return race([
        *(ours(method) for method in METHODS if method not in ONE_TIP),
        Contender(PINOCCHIO, lambda s: judge.torque(s.q[judge.order], s.qdd, s.u_linear_first)),
    ], sample, seconds)


def _torque(space, out, s):
    return space.torque(s.q, s.qd, s.u, out=out)
