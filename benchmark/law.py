"""
What an update costs, beside Pinocchio and MuJoCo, in one run.

Every contender computes the whole law, τ = τ⁰ + JᵀΛ(u - a⁰), and is checked against the dense
form in Pinocchio before it is timed. Contenders take turns, so that whatever else the machine
does hits all alike; every call is timed on its own. The report goes to doc/benchmarks.md.

"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
import gc
from importlib.metadata import version
import json
import os
from pathlib import Path
import platform
import sys
from time import perf_counter, perf_counter_ns
from xml.etree import ElementTree

# before numpy: threads of BLAS wait for each other far longer than such small matrices take
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import mujoco
from numba import njit
import numpy as np
import pinocchio as pin
from scipy.linalg.lapack import dposv

from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.operational_space import METHODS
import osc_ros.robots

ROOT = Path(__file__).parents[1]
REPORT = ROOT / 'doc' / 'benchmarks.md'
BASE, TIP = 'panda_link0', 'panda_hand_tcp'
STATES = 32
CHAINS = (7, 16, 50, 100, 300)
LARGEST_RESIDUAL = 1e-5  # relative; an answer further off is no contender
SWAP = [3, 4, 5, 0, 1, 2]  # [angular; linear] is ours, [linear; angular] Pinocchio's


@dataclass(frozen=True, eq=False)
class State:
    """A state and what is asked for; `u_linear_first` for those that want it so."""

    q: np.ndarray
    qd: np.ndarray
    u: np.ndarray
    qdd: np.ndarray
    u_linear_first: np.ndarray


@dataclass(frozen=True)
class Contender:
    """What is timed, `call(state)`, and `answer(state)`, to be judged in its place if given."""

    name: str
    call: Callable
    expected: Callable | None = None
    answer: Callable | None = None


@dataclass(frozen=True)
class Row:
    """Times in µs; the residual is relative to the largest entry."""

    name: str
    median: float
    p99: float
    residual: float


def states(model, rng, spread):
    """Return STATES states, not near a singularity."""
    n, found = model.nv, []
    data, frame = model.createData(), model.nframes - 1
    while len(found) < STATES:
        q = rng.uniform(*spread, n)
        J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
        if np.linalg.cond(J) < 50:
            u = rng.normal(size=6)
            found.append(State(q, rng.normal(size=n), u, rng.normal(size=n), u[SWAP]))
    return found


class Pinocchio:
    """The law in Pinocchio from Python, in several ways; [linear; angular]."""

    def __init__(self, model, frame):
        self.model, self.data, self.frame = model, model.createData(), frame
        self.rest, self.out = np.zeros(model.nv), np.empty(model.nv)
        tip = model.frames[frame]
        constraint = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_6D, model, tip.parentJoint, tip.placement, pin.LOCAL)
        self.constraints = pin.StdVec_RigidConstraintModel()
        self.constraints.append(constraint)
        self.constraint_data = pin.StdVec_RigidConstraintData()
        self.constraint_data.append(constraint.createData())

    def textbook(self, state):
        """Return τ by computeMinverse, nonLinearEffects, J, J̇ and an inverse: the usual way."""
        model, data, frame, q, qd = self.model, self.data, self.frame, state.q, state.qd
        M_inv = pin.computeMinverse(model, data, q)
        h = pin.nonLinearEffects(model, data, q, qd)
        pin.computeJointJacobiansTimeVariation(model, data, q, qd)
        pin.updateFramePlacement(model, data, frame)
        J = pin.getFrameJacobian(model, data, frame, WORLD_AXES)
        J_dot = pin.getFrameJacobianTimeVariation(model, data, frame, WORLD_AXES)
        J_M_inv = J @ M_inv
        Lambda = np.linalg.inv(J_M_inv @ J.T)
        return J.T @ (Lambda @ (state.u_linear_first + J_M_inv @ h - J_dot @ qd))

    def _bias(self, q, qd, qdd):
        """Return a⁰ and J after whatever has filled data.J for this q."""
        model, data, frame = self.model, self.data, self.frame
        pin.forwardKinematics(model, data, q, qd, qdd)
        pin.updateFramePlacement(model, data, frame)
        J = pin.getFrameJacobian(model, data, frame, WORLD_AXES)
        return pin.getFrameClassicalAcceleration(model, data, frame, WORLD_AXES).vector, J

    def minverse(self, state):
        """Return τ by ABA with M⁻¹ as its by-product, and Cholesky of Λ⁻¹ in LAPACK."""
        qdd = pin.aba(self.model, self.data, state.q, state.qd, self.rest, pin.Convention.WORLD)
        M_inv = pin.computeMinverse(self.model, self.data)
        a0, J = self._bias(state.q, state.qd, qdd)
        F = dposv(np.dot(np.dot(J, M_inv), J.T), state.u_linear_first - a0)[1]
        return np.dot(F, J)

    def cholesky(self, state):
        """Return τ by composite bodies and Cholesky of M and Λ⁻¹ in LAPACK."""
        M = pin.crba(self.model, self.data, state.q, pin.Convention.WORLD)
        h = pin.nonLinearEffects(self.model, self.data, state.q, state.qd)
        Jdot_qd, J = self._bias(state.q, state.qd, self.rest)
        Y = dposv(M, J.T)[1]
        F = dposv(np.dot(J, Y), state.u_linear_first + np.dot(h, Y) - Jdot_qd)[1]
        return np.dot(F, J)

    def compiled(self, state):
        """Return τ by M⁻¹, h and J of Pinocchio, with the algebra between them compiled."""
        M_inv = pin.computeMinverse(self.model, self.data, state.q)
        h = pin.nonLinearEffects(self.model, self.data, state.q, state.qd)
        Jdot_qd, J = self._bias(state.q, state.qd, self.rest)
        return _algebra(J, M_inv, h, Jdot_qd, state.u_linear_first, self.out)

    def delassus(self, state):
        """Return τ by the Delassus matrix of a clamp on the tip, which is Λ⁻¹ in tip axes."""
        model, data, frame, q, qd = self.model, self.data, self.frame, state.q, state.qd
        Lambda_inv = pin.computeDelassusMatrix(
            model, data, q, self.constraints, self.constraint_data, 0.0)
        qdd = pin.aba(model, data, q, qd, self.rest)
        pin.forwardKinematics(model, data, q, qd, qdd)
        T = pin.updateFramePlacement(model, data, frame)
        J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL)
        a0 = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL).vector
        u = np.dot(state.u_linear_first.reshape(2, 3), T.rotation).ravel()
        return np.dot(dposv(Lambda_inv, u - a0)[1], J)

    def posture(self, state):
        """Return τ with τ⁰ = ID(q, q̇, q̈_p), M⁻¹ and Cholesky of Λ⁻¹ in LAPACK."""
        model, data = self.model, self.data
        M_inv = pin.computeMinverse(model, data, state.q)
        tau = pin.rnea(model, data, state.q, state.qd, state.qdd)
        a0, J = self._bias(state.q, state.qd, state.qdd)
        F = dposv(np.dot(np.dot(J, M_inv), J.T), state.u_linear_first - a0)[1]
        return tau + np.dot(F, J)

    def compiled_posture(self, state):
        """Return τ with τ⁰ = ID(q, q̇, q̈_p), with the algebra compiled."""
        model, data = self.model, self.data
        M_inv = pin.computeMinverse(model, data, state.q)
        tau = pin.rnea(model, data, state.q, state.qd, state.qdd)
        a0, J = self._bias(state.q, state.qd, state.qdd)
        return tau + _algebra(J, M_inv, self.rest, a0, state.u_linear_first, self.out)

    def forward_dynamics(self, state):
        """Return q̈ by the articulated-body algorithm, as a scale."""
        return pin.aba(self.model, self.data, state.q, state.qd, state.qdd)

    def Lambda_inv(self, state):
        """Return Λ⁻¹ (6, 6)."""
        M_inv = pin.computeMinverse(self.model, self.data, state.q)
        J = pin.computeFrameJacobian(self.model, self.data, state.q, self.frame, WORLD_AXES)
        return J @ M_inv @ J.T

    def task_acceleration(self, state, tau):
        """Return what the torques do to the tip, (6,): a judge of torques on any chain."""
        model, data = self.model, self.data
        qdd = pin.aba(model, data, state.q, state.qd, tau)
        return self._bias(state.q, state.qd, qdd)[0]

    def fastest(self, ways, sample):
        """Return the name and function of the right way that takes least on these states."""
        few = sample[:8]
        right = [way for way in ways if all(
            np.abs(self.task_acceleration(s, way(s)) - s.u_linear_first).max() < LARGEST_RESIDUAL
            for s in few)]
        best = min(right, key=lambda way: np.median(_times(way, few, 10)))
        return best.__name__, best


WORLD_AXES = pin.LOCAL_WORLD_ALIGNED


@njit(cache=True)
def _algebra(J, M_inv, h, Jdot_qd, u, tau):
    """τ = JᵀΛ(u + J M⁻¹ h - J̇q̇), by loops: for few joints faster than calls of BLAS."""
    n = J.shape[1]
    A, F, row = np.empty((6, 6)), np.empty(6), np.empty(n)
    for i in range(6):
        F[i] = u[i] - Jdot_qd[i]
        for k in range(n):
            row[k] = 0.0
            for j in range(n):
                row[k] += J[i, j] * M_inv[k, j]
            F[i] += row[k] * h[k]
        for m in range(i + 1):
            A[i, m] = 0.0
            for k in range(n):
                A[i, m] += row[k] * J[m, k]
    for k in range(6):
        A[k, k] = np.sqrt(A[k, k])
        for i in range(k + 1, 6):
            A[i, k] /= A[k, k]
        for i in range(k + 1, 6):
            for j in range(k + 1, i + 1):
                A[i, j] -= A[i, k] * A[j, k]
    for i in range(6):
        for j in range(i):
            F[i] -= A[i, j] * F[j]
        F[i] /= A[i, i]
    for i in range(5, -1, -1):
        for j in range(i + 1, 6):
            F[i] -= A[j, i] * F[j]
        F[i] /= A[i, i]
    for k in range(n):
        tau[k] = 0.0
        for i in range(6):
            tau[k] += J[i, k] * F[i]
    return tau


class MuJoCo:
    """The law in MuJoCo and numpy: only the stages of mj_forward that it needs."""

    def __init__(self, urdf_text):
        root = ElementTree.fromstring(urdf_text)
        for link in root.iter('link'):
            for looks in link.findall('visual') + link.findall('collision'):
                link.remove(looks)
        for joint in root.iter('joint'):
            if 'finger' in joint.get('name'):
                joint.set('type', 'fixed')
                joint.remove(joint.find('mimic')) if joint.find('mimic') is not None else None
        extension = ElementTree.SubElement(root, 'mujoco')
        ElementTree.SubElement(extension, 'compiler', fusestatic='false')
        self.model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, 'unicode'))
        self.data = mujoco.MjData(self.model)
        self.tip = self.model.body(TIP).id
        n = self.model.nv
        self.J, self.J_dot, self.Y = np.zeros((6, n)), np.zeros((6, n)), np.zeros((6, n))
        self.h = np.zeros(n)

    def torque(self, state):
        model, data, J, J_dot = self.model, self.data, self.J, self.J_dot
        data.qpos[:], data.qvel[:] = state.q, state.qd
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_makeM(model, data)
        mujoco.mj_factorM(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_rne(model, data, 0, self.h)
        mujoco.mj_jacBody(model, data, J[:3], J[3:], self.tip)
        mujoco.mj_jacDot(model, data, J_dot[:3], J_dot[3:], data.xpos[self.tip], self.tip)
        mujoco.mj_solveM(model, data, self.Y, J)
        r = state.u_linear_first + np.dot(self.Y, self.h) - np.dot(J_dot, state.qd)
        return np.dot(dposv(np.dot(J, self.Y.T), r)[1], J)


def _times(call, sample, rounds=1):
    """Return the µs of every call, each timed on its own."""
    times = []
    for _ in range(rounds):
        for state in sample:
            start = perf_counter_ns()
            call(state)
            times.append(perf_counter_ns() - start)
    return np.array(times) / 1e3


def _residual(contender, sample):
    worst = 0.0
    for state in sample:
        expected = contender.expected(state)
        found = (contender.answer or contender.call)(state)
        worst = max(worst, np.abs(found - expected).max() / np.abs(expected).max())
    if not worst < LARGEST_RESIDUAL:
        sys.exit(f'{contender.name}: its answer is off by {worst:.1e}, nothing is timed')
    return worst


def race(contenders, sample, seconds):
    """Return a row a contender: the answer checked first, then timed in turns."""
    residuals = [_residual(contender, sample) if contender.expected else 0.0
                 for contender in contenders]
    for contender in contenders:
        _times(contender.call, sample)
    times = [[] for _ in contenders]
    # each about a millisecond a turn, so that slow ones do not take all the time
    sizes = [int(np.clip(1000.0 / np.median(_times(contender.call, sample)), 1, STATES))
             for contender in contenders]
    end, k = perf_counter() + seconds, 0
    gc.collect()
    gc.disable()
    while perf_counter() < end:
        for contender, kept, size in zip(contenders, times, sizes):
            kept.append(_times(contender.call, np.roll(sample, -k)[:size]))
        k += 1
    gc.enable()
    return [Row(contender.name, float(np.median(np.concatenate(kept))),
                float(np.percentile(np.concatenate(kept), 99)), float(residual))
            for contender, kept, residual in zip(contenders, times, residuals)]


def on_the_panda(seconds):
    """Return the rows of one update on the shipped Panda, and the fastest Pinocchio."""
    urdf_text = (Path(osc_ros.robots.__path__[0]) / 'panda.urdf').read_text()
    robot = Robot.from_urdf(urdf_text, BASE, TIP)
    model = pin.buildModelFromXML(urdf_text)
    fingers = [i for i, name in enumerate(model.names) if 'finger' in name]
    model = pin.buildReducedModel(model, fingers, pin.neutral(model))
    frame = model.getFrameId(TIP)
    sample = states(model, np.random.default_rng(1), robot.position_limits.T)
    sweep = OperationalSpace(robot)
    pinocchio, judge, plant = Pinocchio(model, frame), Pinocchio(model, frame), MuJoCo(urdf_text)
    out = np.empty(7)
    way, fastest = pinocchio.fastest(
        [pinocchio.minverse, pinocchio.cholesky, pinocchio.delassus], sample)
    law, law_posture = judge.textbook, judge.posture
    return race([
        Contender('osc.torque', lambda s: sweep.torque(s.q, s.qd, s.u, out=out), law),
        Contender('osc.torque, with a posture', lambda s: sweep.torque(
            s.q, s.qd, s.u, posture_acceleration=s.qdd, out=out), law_posture),
        Contender('osc.evaluate (all terms)', lambda s: sweep.evaluate(s.q, s.qd),
                  lambda s: np.linalg.inv(judge.Lambda_inv(s)),
                  lambda s: sweep.evaluate(s.q, s.qd).Lambda[np.ix_(SWAP, SWAP)]),
        Contender('osc.torque, from lists', lambda s: sweep.torque(
            s.q.tolist(), s.qd.tolist(), s.u.tolist()), law),
        *(Contender(f"osc.torque, method '{other.method}'",
                    partial(lambda osc, s: osc.torque(s.q, s.qd, s.u, out=out), other), law)
          for other in (OperationalSpace(robot, name) for name in METHODS if name != 'sweep')),
        Contender('Pinocchio, as usually written', pinocchio.textbook, law),
        Contender(f'Pinocchio, tuned ({way})', fastest, law),
        Contender('Pinocchio, tuned, algebra in numba', pinocchio.compiled, law),
        Contender('Pinocchio, tuned, with a posture', pinocchio.posture, law_posture),
        Contender('Pinocchio, algebra in numba, with a posture', pinocchio.compiled_posture,
                  law_posture),
        Contender('MuJoCo and numpy', plant.torque, law),
    ], sample, seconds)


def of_a_batch(count=20_000, repeats=7):
    """Return µs a state of evaluate and of evaluate_batch on the Panda, checked to be equal."""
    urdf_text = (Path(osc_ros.robots.__path__[0]) / 'panda.urdf').read_text()
    osc = OperationalSpace(Robot.from_urdf(urdf_text, BASE, TIP))
    q, qd = np.random.default_rng(3).normal(size=(2, count, 7))
    batch = osc.evaluate_batch(q, qd)
    singly, together = [], []
    for _ in range(repeats):
        started = perf_counter()
        for k in range(1000):
            state = osc.evaluate(q[k], qd[k])
        singly.append((perf_counter() - started) / 1000)
        np.testing.assert_array_equal(state.Lambda, batch.Lambda[999])
        started = perf_counter()
        osc.evaluate_batch(q, qd)
        together.append((perf_counter() - started) / count)
    return 1e6 * np.median(singly), 1e6 * np.median(together)


def chain(n):
    """Return the URDF of n rods of 0.1 m, 0.3 kg, their axes across in turn."""
    rod = ("<inertial><origin xyz='0 0 0.05'/><mass value='0.3'/><inertia ixx='3e-4' iyy='3e-4' "
           "izz='6e-5' ixy='0' ixz='0' iyz='0'/></inertial>")
    parts = ["<link name='link_0'/>"]
    for k in range(1, n + 1):
        axis = ('1 0 0', '0 1 0', '0 0 1')[k % 3]
        parts.append(
            f"<link name='link_{k}'>{rod}</link><joint name='joint_{k}' type='revolute'>"
            f"<parent link='link_{k - 1}'/><child link='link_{k}'/><origin xyz='0 0 0.1'/>"
            f"<axis xyz='{axis}'/><limit lower='-3' upper='3' velocity='3' effort='100'/></joint>")
    return f"<robot name='chain'>{''.join(parts)}</robot>"


def on_a_chain(n, seconds):
    """
    Return the rows of our sweep and block LDLᵀ, Pinocchio's law and its ABA alone.

    Here the acceleration that the torque gives is judged, by ABA: on long chains the dense form,
    where J M⁻¹ h cancels, is less exact than what it would judge.

    """
    urdf_text = chain(n)
    robot = Robot.from_urdf(urdf_text, 'link_0', f'link_{n}')
    model = pin.buildModelFromXML(urdf_text)
    frame = model.getFrameId(f'link_{n}')
    sample = states(model, np.random.default_rng(n), (-0.6, 0.6))
    osc, ldl, out = OperationalSpace(robot), OperationalSpace(robot, 'ldl'), np.empty(n)
    pinocchio, judge = Pinocchio(model, frame), Pinocchio(model, frame)

    def torque(state):
        return osc.torque(state.q, state.qd, state.u, out=out)

    def torque_ldl(state):
        return ldl.torque(state.q, state.qd, state.u, out=out)

    way, fastest = pinocchio.fastest([pinocchio.minverse, pinocchio.cholesky, pinocchio.compiled,
                                      pinocchio.delassus], sample)
    return race([
        Contender('osc.torque', torque, lambda s: s.u_linear_first,
                  lambda s: judge.task_acceleration(s, torque(s))),
        Contender(f'Pinocchio, tuned ({way})', fastest, lambda s: s.u_linear_first,
                  lambda s: judge.task_acceleration(s, fastest(s))),
        Contender('Pinocchio, ABA alone', pinocchio.forward_dynamics,
                  lambda s: osc.forward_dynamics(s.q, s.qd, s.qdd)),
        Contender("osc.torque, method 'ldl'", torque_ldl, lambda s: s.u_linear_first,
                  lambda s: judge.task_acceleration(s, torque_ldl(s))),
    ], sample, seconds)


def of_a_tick(seconds):
    """Return the rows of a controller's tick, whole and by stages; none without the law."""
    try:
        from osc_ros.control.law import Law, Posture, Settings
        from osc_ros.control.limits import scaled_to_limits
        from osc_ros.control.task import Gains, pose_error, Target, task_acceleration
        from osc_ros.dynamics.task_inertia import SingularityDamping
    except ImportError as error:
        print(f'no stages of a tick: {error}', file=sys.stderr)
        return []
    urdf_text = (Path(osc_ros.robots.__path__[0]) / 'panda.urdf').read_text()
    robot = Robot.from_urdf(urdf_text, BASE, TIP)
    gains = Gains([20.0] * 6, [1.0] * 6, [2.5, 1.0], [60.0, 20.0])
    damping = SingularityDamping(0.3, 0.01, 0.05)
    law = Law(robot, Settings(gains, Posture(5.0, 1.0), damping, robot.effort_limits))
    rng = np.random.default_rng(2)
    q = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
    sample = []
    for _ in range(STATES):
        qd, u = 0.1 * rng.normal(size=7), rng.normal(size=6)
        sample.append(State(q + 0.05 * rng.normal(size=7), qd, u, rng.normal(size=7), u[SWAP]))
    law.latch(q)
    space, zeros, J = law.space, np.zeros(7), np.zeros((6, 7))
    tip = space.outward(q, zeros, posture_acceleration=zeros)
    tip = [x.copy() for x in (tip.pose, tip.twist, tip.Lambda_inv, tip.a0)]
    pose, twist, Lambda_inv, a0 = tip
    space.jacobian(out=J)
    target, error, F, out = Target(pose.copy()), np.full(6, 0.01), np.ones(6), np.zeros(7)
    stages = [
        ('whole tick', lambda s: law.torque(0.0, s.q, s.qd)),
        ('outward sweep', lambda s: space.outward(s.q, s.qd, posture_acceleration=s.qdd)),
        ('Jacobian', lambda s: space.jacobian(out=J)),
        ('pose error', lambda s: pose_error(pose, target.pose, out=error)),
        ('commanded acceleration',
         lambda s: task_acceleration(error, twist, target, gains, out=out[:6])),
        ('task force, singularity damping',
         lambda s: damping.force(J, Lambda_inv, a0, s.u, out=F)),
        ('inward sweep', lambda s: space.inward(F)),
        ('torque limits, when hit', lambda s: scaled_to_limits(s.qdd, zeros, 0.1 + zeros)),
    ]
    return race([Contender(name, call) for name, call in stages], sample, seconds)


def machine():
    """Return what the figures depend on."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
        processor = next(line.split(':', 1)[1].strip() for line in lines
                         if line.startswith('model name'))
    except (OSError, StopIteration):
        pass
    packages = ('numpy', 'scipy', 'numba', 'pin', 'mujoco')
    return {'processor': processor, 'cores': os.cpu_count(), 'python': platform.python_version(),
            **{package: version(package) for package in packages}}


def table(rows, reference=None):
    """Return the lines of a table; with a reference, ratios to its median, and residuals."""
    if reference is None:
        lines = ['| | median µs | p99 µs |', '|---|---:|---:|']
        return lines + [f'| {row.name} | {row.median:.2f} | {row.p99:.2f} |' for row in rows]
    lines = ['| | median µs | p99 µs | ratio | residual |', '|---|---:|---:|---:|---:|']
    for row in rows:
        residual = f'{row.residual:.0e}' if row.residual else 'the judge'
        lines.append(f'| {row.name} | {row.median:.2f} | {row.p99:.2f} | '
                     f'{row.median / reference.median:.2f} | {residual} |')
    return lines


def report(panda, batch, chains, tick, where):
    """Return the text of doc/benchmarks.md."""
    by_name = {row.name: row for row in panda}
    usual = by_name['Pinocchio, as usually written']
    tuned = next(row for row in panda if row.name.startswith('Pinocchio, tuned ('))
    numba = by_name['Pinocchio, tuned, algebra in numba']
    ours, posture = by_name['osc.torque'], by_name['osc.torque, with a posture']
    lines = [
        '# What an update costs', '',
        'Made by `make bench` (`benchmark/law.py`); it overwrites this page. All figures are of '
        'one run, called from Python, each call timed on its own (the clock, about 0.1 µs, is '
        'in them), contenders taking turns. The residual is the largest difference of the '
        "answer from Pinocchio's dense form, relative, over the states that are timed; on chains, "
        'of the acceleration that the torque gives, by ABA, from the commanded one.', '',
        ', '.join(f'{key} {value}' for key, value in where.items()) + '.', '',
        '## One update of the law, Panda, 7 joints', '',
        f'Ratios are to Pinocchio as tuned in numpy and LAPACK. `osc.torque` takes '
        f'{ours.median / usual.median:.2f} of Pinocchio as usually written, '
        f'{ours.median / tuned.median:.2f} of the fastest of three tuned ways, '
        f'{ours.median / numba.median:.2f} of that with its 6 × 6 algebra compiled by numba.', '',
        *table(panda, tuned), '',
        '"As usually written": computeMinverse, nonLinearEffects, the frame Jacobian and its time '
        'variation, a 6 × 6 inverse. Tuned: the fastest of M⁻¹ as a by-product of ABA; composite '
        'bodies and LAPACK; the Delassus matrix of a clamped tip. J̇q̇ is the classical '
        'acceleration, Λ⁻¹ is solved by Cholesky.', '',
        '## Many states', '',
        f'`osc.evaluate` one after the other {batch[0]:.1f} µs a state, `osc.evaluate_batch` of '
        f'20,000 on all cores {batch[1]:.2f} µs a state: {batch[0] / batch[1]:.0f} times as many.',
        '', '## Long chains', '',
    ]
    for n, rows in chains.items():
        lines += [f"{n} joints, ratio to Pinocchio's law:", '', *table(rows, rows[1]), '']
    first, last = chains[CHAINS[-2]][0], chains[CHAINS[-1]][0]
    slope = (last.median - first.median) / (CHAINS[-1] - CHAINS[-2])
    lines += [f'`osc.torque` costs {slope:.2f} µs a link.', '']
    if tick:
        lines += ["## A controller's tick, Panda", '', *table(tick), '',
                  'The whole tick also looks up the target, finds the posture acceleration and '
                  'checks the torque.', '']
    lines += ['## Where we lose', '']
    for row in panda:
        if row.name.startswith('osc') and row.median > tuned.median:
            times = row.median / tuned.median
            lines.append(f'- `{row.name}`: {times:.1f} times Pinocchio, tuned.')
    for n, rows in chains.items():
        for row in rows[1:-1]:  # the last is ours
            if rows[0].median > row.median:
                lines.append(f'- {n} joints: {rows[0].median / row.median:.2f} times {row.name}.')
    if posture.median > numba.median:
        lines.append('- With a posture, Pinocchio with compiled algebra is faster.')
    lines += ['- The first start on a machine compiles the kernels, some 15 s; later ones load '
              'them in about 0.2 s.', '']
    return '\n'.join(lines)


def main():
    """Time, print, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument('--json', type=Path, metavar='FILE', help='write all figures here too')
    arguments = parser.parse_args()
    panda = on_the_panda(seconds=8.0)
    chains = {n: on_a_chain(n, seconds=1.2) for n in CHAINS}
    tick = of_a_tick(seconds=2.0)
    batch = of_a_batch()
    text = report(panda, batch, chains, tick, machine())
    print(text)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(text, encoding='utf-8')
    if arguments.json:
        figures = {'machine': machine(), 'panda': [asdict(row) for row in panda],
                   'evaluate, evaluate_batch [us a state]': batch,
                   'chains': {n: [asdict(row) for row in rows] for n, rows in chains.items()},
                   'tick': [asdict(row) for row in tick]}
        arguments.json.write_text(json.dumps(figures, indent=1), encoding='utf-8')


if __name__ == '__main__':
    main()
