# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Time and memory of the law on chains of 2 to 100,000 joints, for every method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
import tracemalloc

import numpy as np
from numpy.typing import NDArray
import pinocchio as pin

from contenders import MuJoCo, Pinocchio, SWAP
from osc_ros import OperationalSpace, Robot
from osc_ros.dynamics.methods import METHODS
from race import call_times, Contender, difference, fastest, LARGEST_RESIDUAL, race, Row, State

LENGTHS = (2, 4, 8, 16, 32, 64, 128, 200, 256, 300, 512, 1000, 1024, 2048, 4096, 8192, 16384)
ASKED = 200  # number of joints of the chain on which the law's time is compared with ABA's
LONGEST_PINOCCHIO = 300  # joints: the memory of its Data grows as n³ and exceeds 24 GB at 1000
LONGEST = 100_000
SLOW = 0.5e6  # median above which a contender is not run on longer chains [µs]
SPREAD = 0.6  # rad

# Reference methods: 'sweep' (constraint forces) for methods of articulated bodies, 'recursive'
# (articulated bodies) for all others. The two share no step.
JUDGES = ('recursive', 'sweep')
ARTICULATED = ('recursive', 'efpa', 'sfa')
ABA = 'Pinocchio, ABA alone'
LAW = 'Pinocchio, law'
MUJOCO = 'MuJoCo and numpy'


@dataclass(frozen=True)
class Length:
    """
    The measurements on a chain of n joints, and their references.

    Attributes
    ----------
    judge : str
        Reference whose forward dynamics computes the residuals of the rows.
    Lambda : dict of str to float
        Largest entry of Λ⁻¹Λ - 1, with Λ⁻¹ of the method and Λ of its reference.
    by_mujoco : float or None
        Residual of 'sweep' with MuJoCo as reference.
    qdd : float
        Largest acceleration of a joint under the torque [rad/s²].

    """

    n: int
    rows: dict[str, Row]
    judge: str
    Lambda: dict[str, float]
    by_mujoco: float | None
    qdd: float


@dataclass(frozen=True)
class Longest:
    """
    A method on the longest chain.

    Attributes
    ----------
    seconds : float
        Median of three calls of the law, each for another state.
    memory : float
        Peak allocation of the method and one call [bytes per link].
    off, relative : float
        Largest difference of the tip's acceleration from u, by the forward dynamics of `judge`
        [rad/s², m/s²], and this difference relative to the terms that cancel.

    """

    method: str
    seconds: float
    memory: float
    judge: str
    off: float
    relative: float


def urdf(n: int) -> str:
    """Return the URDF of n rods of 0.1 m, 0.3 kg, upright at q = 0, with axes x, y, z in turn."""
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


def states(space: OperationalSpace, count: int) -> list[State]:
    """
    Return states of a chain bent at random, every joint by up to SPREAD, with slow velocities.

    The velocities are of the order of 1/n rad/s, because they add up along the chain: with 1 rad/s
    per joint the end of a long chain would move at many times the speed of sound. u is the tip
    acceleration of some q̈, because fewer than six joints cannot produce every u.

    """
    n = space.robot.n
    rng = np.random.default_rng(n)
    found: list[State] = []
    while len(found) < count:
        q, qd = rng.uniform(-SPREAD, SPREAD, n), rng.normal(size=n) / n
        tip = space.outward(q, qd, posture_acceleration=np.zeros(n))
        J, u = space.jacobian(), rng.normal(size=6)
        if n < 6:
            u = tip.a0 + J @ rng.normal(size=n)
        elif np.linalg.cond(J) > 50 * max(1, n / 16):  # cond(J) in m and rad grows with n
            continue
        found.append(State(q, qd, u, rng.normal(size=n), u[SWAP]))
    return found


def tip_acceleration(space: OperationalSpace, state: State,
                     tau: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return J q̈ + J̇q̇ with q̈ from the forward dynamics, and the size of its terms."""
    qdd = space.forward_dynamics(state.q, state.qd, tau)
    acceleration = space.outward(state.q, state.qd, posture_acceleration=qdd).a0.copy()
    Jdot_qd = space.outward(state.q, state.qd, posture_acceleration=np.zeros_like(qdd)).a0
    scale = np.abs(space.jacobian()) @ np.abs(qdd) + np.abs(Jdot_qd) + np.abs(state.u)
    return acceleration, float(scale.max())


def _residual_by(space: OperationalSpace, state: State, tau: NDArray[np.float64]) -> float:
    acceleration, scale = tip_acceleration(space, state, tau)
    return float(np.abs(acceleration - state.u).max() / scale)


def _judge_of(method: str) -> str:
    """Return the method whose forward dynamics and Λ are the reference for a method."""
    return JUDGES[method in ARTICULATED]


def _residual_of(call: Callable, judge: Callable) -> Callable[[State], float]:
    return lambda state: judge(state, call(state))


def _law(space: OperationalSpace, out: NDArray[np.float64], s: State) -> NDArray[np.float64]:
    return space.torque(s.q, s.qd, s.u, out=out)


def growth(seconds: float) -> list[Length]:
    """Return the rows of all lengths; a slow contender is not run on longer chains."""
    found: list[Length] = []
    slow: set[str] = set()
    for n in LENGTHS:
        found.append(_at_length(n, slow, seconds))
        slow |= {row.name for row in found[-1].rows.values() if row.median > SLOW}
    return found


def _at_length(n: int, slow: set[str], seconds: float) -> Length:
    text = urdf(n)
    robot = Robot.from_urdf(text, 'link_0', f'link_{n}')
    spaces = {method: OperationalSpace(robot, method) for method in METHODS if method not in slow}
    judges = {method: OperationalSpace(robot, method) for method in JUDGES}
    sample = states(judges['sweep'], int(np.clip(2048 // n, 2, 32)))
    out = np.empty(n)
    calls = {method: partial(_law, space, out) for method, space in spaces.items()}
    contenders, judge = [], None
    if n <= LONGEST_PINOCCHIO:
        model = pin.buildModelFromXML(text)
        pinocchio = Pinocchio(model, model.getFrameId(f'link_{n}'))
        judge = pinocchio.residual
        if n >= 6:
            ways = [pinocchio.minverse, pinocchio.cholesky, pinocchio.compiled, pinocchio.delassus]
            way = fastest(ways, sample, judge)
            contenders.append(Contender(LAW, way, _residual_of(way, judge), way.__name__))
        contenders.append(Contender(
            ABA, pinocchio.forward_dynamics,
            lambda s: difference(judges['recursive'].forward_dynamics(s.q, s.qd, s.qdd),
                                 pinocchio.forward_dynamics(s))))
    by = {method: judge or partial(_residual_by, judges[_judge_of(method)])
          for method in spaces}
    by_mujoco = None
    if 6 <= n <= MuJoCo.LONGEST:
        mujoco = MuJoCo(text, f'link_{n}')
        by_mujoco = max(mujoco.residual(s, calls['sweep'](s)) for s in sample)
        if MUJOCO not in slow:
            way = fastest([mujoco.sparse, mujoco.dense], sample, by['sweep'])
            contenders.append(
                Contender(MUJOCO, way, _residual_of(way, by['sweep']), way.__name__))
    ours = [Contender(method, call, _residual_of(call, by[method]))
            for method, call in calls.items()]
    qdd = max(float(np.abs(judges[JUDGES[0]].forward_dynamics(s.q, s.qd, calls['sweep'](s))).max())
              for s in sample[:2])
    rows = race(ours + contenders, sample, seconds)
    return Length(n, {row.name: row for row in rows},
                  'Pinocchio' if judge else JUDGES[0],
                  {} if n < 6 else _products(spaces, judges, sample[:2]), by_mujoco, qdd)


def _products(spaces: dict[str, OperationalSpace], judges: dict[str, OperationalSpace],
              sample: list[State]) -> dict[str, float]:
    """Return the largest entry of Λ⁻¹Λ - 1 for every method."""
    found = dict.fromkeys(spaces, 0.0)
    for state in sample:
        Lambda = {name: space.evaluate(state.q, state.qd).Lambda
                  for name, space in judges.items()}
        for method, space in spaces.items():
            product = space.outward(state.q, state.qd).Lambda_inv @ Lambda[_judge_of(method)]
            found[method] = max(found[method], float(np.abs(product - np.eye(6)).max()))
    return found


def exponent(lengths: list[Length], name: str) -> tuple[float, int, int]:
    """Return the slope of log time over log n for the longer half, and its first and last n."""
    points = [(at.n, at.rows[name].median) for at in lengths
              if name in at.rows and not at.rows[name].is_off]
    n, time = np.array(points[len(points) // 2:]).T
    slope = np.polyfit(np.log(n), np.log(time), 1)[0]
    return float(slope), int(n[0]), int(n[-1])


def longest(methods: list[str]) -> tuple[float, list[Longest]]:
    """Return the time from URDF to Robot [s], and a row for each method, for LONGEST joints."""
    n = LONGEST
    text = urdf(n)
    started = perf_counter()
    robot = Robot.from_urdf(text, 'link_0', f'link_{n}')
    loading = perf_counter() - started
    judges = {name: OperationalSpace(robot, name) for name in JUDGES}
    state, *others = states(judges['sweep'], 4)  # a method may cache results of the last q
    found, out = [], np.empty(n)
    for method in methods:
        tracemalloc.start()
        space = OperationalSpace(robot, method)
        tau = _law(space, out, state).copy()
        memory = tracemalloc.get_traced_memory()[1] / n
        tracemalloc.stop()
        judge = judges[_judge_of(method)]
        acceleration, scale = tip_acceleration(judge, state, tau)
        off = float(np.abs(acceleration - state.u).max())
        if not off / scale < LARGEST_RESIDUAL:
            raise SystemExit(f"'{method}', {n} joints: off by {off:.1e} rad/s², m/s², nothing is "
                             'timed')
        seconds = float(np.median(call_times(partial(_law, space, out), others))) / 1e6
        found.append(Longest(method, seconds, memory, judge.method, off, off / scale))
    return loading, found
