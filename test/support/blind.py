# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Simulated arms with law and supervisor in lockstep; joint states may be missing."""

from functools import partial

import numpy as np

from arm import PANDA, settings
from foreign import ForeignPlant
from judge import robot_cases
from osc_ros import Robot
from osc_ros.control.law import Law
from osc_ros.control.safety.supervision import JUMP, NOT_FINITE, STALE_STATE, Supervision, Watchdog
from osc_ros.control.safety.supervisor import Supervisor
from osc_ros.control.tasks.task import TargetLimits
from osc_ros.sim import Plant
from supervised import torque_to_send

TARGETS = TargetLimits([2.5, 1.0], [12.5, 5.0], [125.0, 50.0], [1.0, 0.2])  # defaults
STARTS = {'panda': [0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4],
          'xarm7': [0.0, 0.3, 0.0, 1.2, 0.0, 0.9, 0.0],
          'kinova': [0.5, 2.6, 1.4, 0.6, 1.8, 0.4]}


class Sensed:
    """
    One simulated arm with simulated sensors, law and supervisor; the test sets the clock.

    Parameters
    ----------
    name : str
        Key of `judge.robot_cases`; MuJoCo simulates 'panda', `ForeignPlant` the other arms.
    rate : float
        Rate of the joint states [Hz].
    friction, payload : float
        Friction [N·m] and payload [kg] of the simulation that the model of the law lacks.
    counts : int, optional
        Encoder counts per turn; positions are exact if not given.
    source : object, optional
        `source.read(time, q, qd)` returns the velocity for the law; `source.reject()` is called
        if the supervisor rejects the state.
    effort_rate : float, optional
        Largest rate of change of a torque, relative to the effort limit [1/s].
    differentiates : bool
        Whether the measured velocities are differences of the measured positions, over a period.
    has_relay : bool
        Whether the torques pass through a second supervisor, as in `osc_relay`, which gets the
        same states and acts only after the time-out.

    """

    def __init__(self, name, rate=500.0, friction=0.0, payload=0.0, counts=None, source=None,
                 reaction='hold',
                 effort_rate=None, differentiates=False, has_relay=False):
        case = robot_cases()[name]
        self.robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
        self.period, n = 1.0 / rate, self.robot.n
        if name == 'panda':
            self.plant = Plant(case.urdf_text, case.base, self.robot.joint_names,
                               friction=[friction] * n, damping=[0.0] * n,
                               **({'ball': payload} if payload else {}))
        else:
            self.plant = ForeignPlant(name, self.robot.joint_names, friction, payload=payload)
        self.is_panda, self.counts, self.source = name == 'panda', counts, source
        self.differentiates, self.measured = differentiates, None
        base = settings(self.robot, limits=TARGETS)
        self.limits = base.limits
        self.law = Law(self.robot, base)
        self.clock = 100.0
        guards = [Supervisor(self.robot, self.law, Supervision(
            {STALE_STATE: Watchdog(reaction, timeout=0.1), JUMP: Watchdog(reaction),
             NOT_FINITE: Watchdog(reaction)}, self.limits.effort, period=self.period,
            effort_rates=effort_rate and effort_rate * np.asarray(self.limits.effort),
            bridges=bridges), clock=lambda: self.clock) for bridges in (True, False)]
        self.guard, self.relay = guards[0], guards[1] if has_relay else None
        self.q_start = STARTS[name]
        q = np.array(self.q_start)
        self.plant.reset(q)
        self.law.hold(q)
        self.guard.accept_state(0.0, q, 0.0 * q)
        self.pose = self.law.pose.copy()
        self.times, self.q, self.qd, self.torques, self.poses = [], [], [], [], []
        self.causes, self.sources = [], []
        self.tau = self.plant.weight if self.is_panda else self.plant.weight()
        self.guard.begin(self.tau)
        if self.relay is not None:
            self.relay.begin(self.tau)

    def tip(self):
        """Return the simulated pose of the tip."""
        return self.plant.pose(PANDA.tip) if self.is_panda else self.plant.pose()

    def sensed(self):
        """Return the measured positions (quantized if `counts` is set) and velocities."""
        q, qd = self.plant.q.copy(), self.plant.qd.copy()
        if self.counts:
            turn = 2.0 * np.pi / self.counts
            q = turn * np.round(q / turn)
        if self.differentiates:
            before, self.measured = q if self.measured is None else self.measured, q
            qd = (q - before) / self.period
        return q.copy(), qd

    def run(self, until, sees=lambda time: True):
        """Simulate up to a time; a state arrives in each period for which `sees(time)` is true."""
        while self.plant.time < until - 0.5 * self.period:
            time, (q, qd) = self.plant.time, self.sensed()
            tau = None
            if sees(time):
                tau = self.answer(time, q, qd)
            elif self.guard.watch():
                tau = torque_to_send(self.guard)
            if self.relay is not None:
                if sees(time):
                    self.relay.accept_state(time, q, qd)
                command = self.tau if tau is None else tau
                tau = torque_to_send(self.relay, partial(np.copy, command))
            self.times.append(time)
            self.q.append(self.plant.q.copy())
            self.qd.append(self.plant.qd.copy())
            self.poses.append(self.tip())
            self.tau = self.tau if tau is None else tau
            self.torques.append(self.tau)
            self.causes.append(self.guard.cause)
            self.sources.append(self.guard.source)
            if self.is_panda:
                self.plant.step(self.tau, round(self.period / 0.001))
            else:
                self.plant.step(self.tau, self.period)
            self.clock += self.period
        return self

    def answer(self, time, q, qd):
        """Return the torque that the controller sends for a state; None if it sends none."""
        if self.source is not None:
            qd = self.source.read(time, q, qd)
            if qd is None:
                return torque_to_send(self.guard) if self.guard.watch() else None
        if not self.guard.accept_state(time, q, qd):
            if hasattr(self.source, 'reject'):
                self.source.reject()
            return torque_to_send(self.guard) if self.guard.watch() else None
        return torque_to_send(self.guard, lambda: self.law.torque(time, q, qd))

    # figures of the recorded motion

    def speeds(self, begin=0.0, end=np.inf):
        """Return, for each time in the interval, the largest joint speed relative to its limit."""
        t = np.array(self.times)
        return (np.abs(self.qd) / self.robot.velocity_limits)[(t >= begin) & (t < end)].max(axis=1)

    def steps(self, begin=0.0, end=np.inf):
        """Return the largest change of a joint torque from tick to tick, relative to its limit."""
        t = np.array(self.times)[1:]
        return (np.abs(np.diff(self.torques, axis=0)) / self.limits.effort)[
            (t >= begin) & (t < end)].max()

    def travelled(self, begin, end):
        """Return the distance between the positions of the tip at two times [m]."""
        a, b = (self.poses[min(int(np.searchsorted(self.times, t - 1e-9)), len(self.poses) - 1)]
                for t in (begin, end))
        return np.linalg.norm(a[:3, 3] - b[:3, 3])

    def errors(self, path):
        """Return the distance of the tip to a path at each recorded time [m]."""
        return np.array([np.linalg.norm(T[:3, 3] - path.at(t).pose[:3, 3])
                         for T, t in zip(self.poses, self.times)])
