# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Times on the shipped Panda: one update of the law, a controller's tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
import gc
from importlib.resources import files
from importlib.util import find_spec
import itertools
from time import thread_time_ns
from typing import Any

import numpy as np
import pinocchio as pin
from scipy.spatial.transform import Rotation

from contenders import Frax, MuJoCo, Pinocchio, SWAP
from osc_ros import OperationalSpace, Robot
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.disturbance import Disturbance
from osc_ros.control.model_error.driver import Driver
from osc_ros.control.model_error.friction import Friction
from osc_ros.control.model_error.observer import MomentumObserver
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.set_point_generator import TwistGoal
from osc_ros.control.setpoint.trajectory import figure_of_eight, PoseGoal
from osc_ros.control.settings import Observation, Settings
from osc_ros.control.step.step import setup_torque, torque_for
from osc_ros.control.tasks.task import Gains, Stiffness, Task
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping
from osc_ros.dynamics.methods import METHODS
from race import Contender, difference, fastest, race, Row, State

BASE, TIP = 'panda_link0', 'panda_hand_tcp'
STATES = 32
READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
ARRIVALS = 200  # number of changes of each kind: new targets, settings, payloads
MOVING, AT_REST = 10, 60  # ticks between two changes: the target still moves, or has arrived
PERIOD, LONG_PERIOD = 0.002, 0.02  # period of the ticks before and after changes [s]
PLAIN = 'plain tick, the target moves'
WHOLE = 'whole tick'
ARRIVAL_RATIO = 2.0  # bound of the time of a tick with a change, relative to a plain tick

TORQUE, POSTURE = 'osc.torque', 'osc.torque, with a posture'
TEXTBOOK, NUMBA = 'Pinocchio, as usually written', 'Pinocchio, tuned, algebra in numba'
TUNED, MUJOCO, FRAX = 'Pinocchio, tuned', 'MuJoCo and numpy', 'frax (JAX, compiled)'
NUMBA_POSTURE = 'Pinocchio, algebra in numba, with a posture'


def row_name(method: str) -> str:
    """Return the name of a method's row."""
    return TORQUE if method == 'sweep' else f"{TORQUE}, method '{method}'"


def panda() -> tuple[str, Robot, pin.Model]:
    """Return the URDF of the Panda, its Robot, and its model in Pinocchio, without fingers."""
    text = files('osc_ros').joinpath('robots/panda.urdf').read_text()
    model = pin.buildModelFromXML(text)
    fingers = [i for i, name in enumerate(model.names) if 'finger' in name]
    return (text, Robot.from_urdf(text, BASE, TIP),
            pin.buildReducedModel(model, fingers, pin.neutral(model)))


def states(robot: Robot, model: pin.Model, count: int, rng: np.random.Generator) -> list[State]:
    """Return states within the limits, not near a singularity."""
    data, frame, found = model.createData(), model.getFrameId(TIP), []
    while len(found) < count:
        q = rng.uniform(*robot.position_limits.T)
        J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
        if np.linalg.cond(J) < 50:
            u = rng.normal(size=6)
            found.append(State(q, rng.normal(size=7), u, rng.normal(size=7), u[SWAP]))
    return found


def update(seconds: float) -> list[Row]:
    """Return the rows of one update of the law."""
    text, robot, model = panda()
    frame = model.getFrameId(TIP)
    sample = states(robot, model, STATES, np.random.default_rng(1))
    sweep = OperationalSpace(robot)
    pinocchio, judge, plant = Pinocchio(model, frame), Pinocchio(model, frame), MuJoCo(text, TIP)
    out = np.empty(7)
    ways = [pinocchio.minverse, pinocchio.cholesky, pinocchio.delassus]
    tuned = fastest(ways, sample, judge.residual)
    mujoco = fastest([plant.sparse, plant.dense], sample, judge.residual)

    def law(name, call, note=''):
        return Contender(name, call, lambda s: difference(call(s), judge.textbook(s)), note)

    def posture(name, call):
        return Contender(name, call, lambda s: difference(call(s), judge.posture(s)))

    def torque(space, s):
        return space.torque(s.q, s.qd, s.u, out=out)

    def terms_residual(s):
        Lambda = sweep.evaluate(s.q, s.qd).Lambda[np.ix_(SWAP, SWAP)]
        return difference(Lambda, judge.terms(s)[-1])

    others = [law(FRAX, Frax(text, robot.T_body_tip).torque)] if has_frax() else []
    return race([
        *(law(row_name(method), partial(torque, OperationalSpace(robot, method)))
          for method in METHODS),
        posture(POSTURE, lambda s: sweep.torque(
            s.q, s.qd, s.u, posture_acceleration=s.qdd, out=out)),
        Contender('osc.evaluate (all terms)', lambda s: sweep.evaluate(s.q, s.qd),
                  terms_residual),
        law('osc.torque, from lists', lambda s: sweep.torque(
            s.q.tolist(), s.qd.tolist(), s.u.tolist())),
        Contender(TEXTBOOK, pinocchio.textbook),
        law(TUNED, tuned, tuned.__name__),
        law(NUMBA, pinocchio.compiled),
        Contender('Pinocchio, tuned, with a posture', pinocchio.posture),
        posture(NUMBA_POSTURE, pinocchio.compiled_posture),
        law(MUJOCO, mujoco, mujoco.__name__),
        *others,
    ], sample, seconds)


def has_frax() -> bool:
    """Whether frax is installed."""
    return all(map(find_spec, ('frax', 'jax')))


def _near_targets(rng: np.random.Generator) -> list[State]:
    """Return slow states near READY, in which no limit acts unless a benchmark lowers it."""
    sample = []
    for _ in range(STATES):
        qd, u = 0.02 * rng.normal(size=7), rng.normal(size=6)
        sample.append(State(READY + 0.01 * rng.normal(size=7), qd, u, rng.normal(size=7), u[SWAP]))
    return sample


def tick(seconds: float) -> list[Row]:
    """Return the rows of a controller's tick, whole and by stages, with results not checked."""
    _, robot, _ = panda()
    gains = Gains([20.0] * 6, [1.0] * 6, [2.5, 1.0], [60.0, 20.0])
    spring = Stiffness([50.0] * 3 + [1000.0] * 3, [1.0] * 6, [10.0, 100.0])
    damping = SingularityDamping(0.3, 0.01, 0.05)
    elbow = Task(gains, 'elbow', 'panda_link4', ('free',) * 3 + ('motion',) * 3)
    plain = Settings((Task(gains),), Posture(5.0, 1.0), damping, Limits.of(robot))
    beyond = {'friction': Friction(np.full(7, 0.2), np.full(7, 0.1)),
              'driver': Driver(robot, 'gravity')}
    slow, weak = (Limits.of(robot, **{name: np.full(7, value)})
                  for name, value in (('velocity', 0.05), ('effort', 5.0)))
    q, sample = READY, _near_targets(np.random.default_rng(2))

    def whole(settings, on_the_way=False):
        law, times = Law(robot, settings), itertools.count()
        law.hold(q)
        if on_the_way:
            law.follow(figure_of_eight(law.pose, 0.02, 0.01, 4.0, 200.0, 0.0), 0.0)
        return lambda s: law.torque(0.002 * next(times), s.q, s.qd)

    all_of_it = replace(plain, tasks=(Task(spring, frame='panda_hand_tcp'), elbow), **beyond)
    ticks = [
        (WHOLE, whole(plain)),
        ('… on the way along a path', whole(plain, on_the_way=True)),
        ('… a spring', whole(replace(plain, tasks=(Task(spring),)))),
        ('… a task of the elbow too', whole(replace(plain, tasks=(Task(gains), elbow)))),
        ('… friction, a driver that compensates gravity', whole(replace(plain, **beyond))),
        ('… all of this', whole(all_of_it, on_the_way=True)),
        ('… joints at their limits', whole(replace(plain, limits=slow))),
        ('… torques at their limits', whole(replace(plain, limits=weak))),
        ('… with the observer of external torques', whole(replace(
            plain, observation=Observation()))),
        ('… and the compensation of what the model lacks', whole(replace(
            plain, disturbance=Disturbance()))),
        ('beside a tick: `MomentumObserver.update`', _observer(robot)),
        *_stages(Law(robot, plain)),
    ]
    osc, out = OperationalSpace(robot), np.empty(7)
    return race([Contender(TORQUE, lambda s: osc.torque(s.q, s.qd, s.u, out=out)),
                 *(Contender(name, call) for name, call in ticks)], sample, seconds)


def _observer(robot: Robot) -> Callable[[State], Any]:
    """Return a call of the momentum observer with a new time."""
    observer, tau, clock = MomentumObserver(robot), np.zeros(robot.n), itertools.count()
    return lambda s: observer.update(PERIOD * next(clock), s.q, s.qd, tau)


def _stages(law: Law) -> list[tuple[str, Callable[[State], Any]]]:
    """Return the functions that a plain tick calls, one after another, as it calls them."""
    law.hold(READY)
    law.torque(0.0, READY, np.zeros(7))
    law.torque(PERIOD, READY, np.zeros(7))
    setup, tau = law._setup, np.zeros(7)

    def kernel(s):
        setup.d.time, setup.d.q[:], setup.d.qd[:] = PERIOD, s.q, s.qd
        return setup_torque(setup.record)

    return [
        ('`setup_torque`: posture, sweeps, task forces, limits, friction, driver', kernel),
        ('`law_torque`: this, period of the states, targets, set-points, rates, memory',
         lambda s: torque_for(setup.record, PERIOD, s.q, s.qd, tau)),
    ]


@dataclass(frozen=True)
class Arrival:
    """
    CPU time of the ticking thread in the tick after a change [µs].

    Attributes
    ----------
    name : str
    median, p99, longest : float
        Time of `Law.torque`.
    before : float
        Median time of the call that passes the change to the law, before the tick; 0 if none.
    residual : float or None
        Largest difference between the target in the last tick and the goal, relative to the
        largest entry of the goal; only for targets that arrive before the next change.

    """

    name: str
    median: float
    p99: float
    longest: float
    before: float = 0.0
    residual: float | None = None


def arrivals(count: int = ARRIVALS) -> list[Arrival]:
    """Return the rows of usual ticks, and of ticks after a new target, setting or payload."""
    _, robot, _ = panda()
    settings = [
        Settings((Task(Gains([frequency] * 6, [1.0] * 6, [2.5, 1.0], [60.0, 20.0])),),
                 Posture(5.0, 1.0), SingularityDamping(0.3, 0.01, 0.05), Limits.of(robot))
        for frequency in (20.0, 22.0)]
    loaded = [robot, robot.with_payload(0.5, center_of_mass=(0.0, 0.0, 0.03))]
    states = itertools.cycle(_near_targets(np.random.default_rng(2)))
    law, rng, plain = Law(robot, settings[0]), np.random.default_rng(4), []
    law.hold(READY)
    home, now = law.pose.copy(), 0.0

    def ticked() -> float:
        state = next(states)
        began = thread_time_ns()
        law.torque(now, state.q, state.qd)
        return (thread_time_ns() - began) / 1e3

    def pose() -> np.ndarray:
        goal = home.copy()
        goal[:3, 3] += rng.uniform(-0.03, 0.03, 3)
        goal[:3, :3] = Rotation.from_rotvec(rng.uniform(-0.1, 0.1, 3)).as_matrix() @ goal[:3, :3]
        return goal

    def after(name: str, come: Callable[[int], Any], ticks: int = MOVING, period: float = PERIOD,
              moves: bool = False) -> Arrival:
        """Return the row for changes that `come(k)` makes; a pose that it returns is the goal."""
        nonlocal now
        first, before, residual = [], [], 0.0
        for k in range(count):
            if moves and k % 4 == 0:  # the target moves during the changes
                law.follow(PoseGoal(pose()), now)
                for _ in range(MOVING):
                    now += PERIOD
                    ticked()
            now += period
            began = thread_time_ns()
            goal = come(k)
            before.append((thread_time_ns() - began) / 1e3)
            first.append(ticked())
            for _ in range(ticks - 1):
                now += period
                took = ticked()
                if ticks == MOVING and goal is not None:
                    plain.append(took)
            if ticks == AT_REST:
                residual = max(residual, difference(law.target.pose, goal))
        return _arrival(name, first, float(np.median(before)),
                        residual if ticks == AT_REST else None)

    def follow(_: int) -> np.ndarray:
        goal = pose()
        law.follow(PoseGoal(goal), now)
        return goal

    def jog(_: int) -> None:
        law.follow(TwistGoal(rng.uniform(-0.03, 0.03, 6), now + 0.2), now)

    gc.collect()
    gc.disable()
    try:
        rows = [
            after('a new pose target, from rest', follow, AT_REST, LONG_PERIOD),
            after('a new pose target, the one before still moves', follow),
            after('a new twist, the one before is followed', jog),
            after('a new path of 2 s', lambda k: law.follow(
                figure_of_eight(home, 0.03, 0.03, 2.0, 1.0, now), now) and None, moves=True),
            after('changed gains', lambda k: law.change(settings[(k + 1) % 2]), moves=True),
            after('a changed payload', lambda k: law.change(robot=loaded[(k + 1) % 2]),
                  moves=True)]
    finally:
        gc.enable()
    return [_arrival(PLAIN, plain), *rows]


def _arrival(name: str, times: list[float], before: float = 0.0, residual: float | None = None
             ) -> Arrival:
    median, p99, longest = np.percentile(times, (50, 99, 100)).tolist()
    return Arrival(name, median, p99, longest, before, residual)
