# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Variable impedance: the stiffness follows commands, and adds no energy without bound."""

from functools import cache

from hypothesis import given as for_all
from hypothesis import strategies as some
import numpy as np
import pytest

from arm import PANDA, PERIOD, READY
from foreign import ForeignPlant
from osc_ros import InputError, Law, Robot, Settings
from osc_ros.control.data import LAW_D, LAW_M
from osc_ros.control.tasks import impedance
from osc_ros.control.tasks.feedback import put_references
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.control.tasks.impedance import (
    Impedance,
    VariableImpedance,
)
from osc_ros.control.tasks.task import Stiffness, Task
from osc_ros.sim import Plant

SOFT = [10.0] * 3 + [500.0] * 3
ZEROS = np.zeros(7)


@cache
def panda():
    return Robot.from_urdf(PANDA.urdf_text, PANDA.base, PANDA.tip)


def spring_law(tank=1.0, ratio=1.0, change_time=0.05, force=(10.0, 60.0), **task):
    gains = Stiffness(SOFT, [1.0] * 3 + [ratio] * 3, force, change_time, tank)
    law = Law(panda(), Settings.of(panda(), tasks=(Task(gains, **task),)))
    law.hold(READY)
    return law


def of(law):
    return next(iter(law.levels.values())).impedance


def tick(law, count=1, start=0, q=READY):
    """Call the law for an arm at rest at q; return the stiffness (count, 6) in force."""
    rows = []
    for k in range(start, start + count):
        law.torque(k * PERIOD, q, ZEROS)
        rows.append(of(law).now[0].copy())
    return np.array(rows)


def test_stiffness_reaches_the_command_c1_within_the_change_time():
    law = spring_law(change_time=0.2)
    wanted = [20.0] * 3 + [200.0, 800.0, 500.0]
    law.set_impedance(Impedance(wanted))
    rows = tick(law, 150)
    assert rows[100] == pytest.approx(wanted, rel=0.02) and rows[0] == pytest.approx(SOFT)
    rates = np.diff(rows, axis=0) / PERIOD
    # C¹: the rate begins at 0, and changes in a tick by a share of its largest value
    assert np.abs(np.diff(rates, axis=0)).max() < 0.25 * np.abs(rates).max()
    assert np.abs(rates[0]).max() < 0.3 * np.abs(rates).max()


def test_force_of_the_spring_and_damper_follow_the_command():
    law = spring_law()
    law.follow(law.pose, 0.0)
    law.set_impedance(Impedance([10.0] * 3 + [200.0] * 3, [1.0] * 6, [0.0] * 5 + [7.0]))
    plant = Plant(PANDA.urdf_text, PANDA.base, panda().joint_names, friction=ZEROS, damping=ZEROS)
    plant.reset(READY)
    start = plant.pose(PANDA.tip)[2, 3]
    for _ in range(1500):
        plant.step(law.torque(plant.time, plant.q, plant.qd), 2)
        law.plan()
    assert plant.pose(PANDA.tip)[2, 3] - start == pytest.approx(7.0 / 200.0, rel=0.02)


def test_values_never_leave_the_range_of_the_commands():
    random, law = np.random.default_rng(0), spring_law(tank=np.inf)
    for k in range(200):
        wanted = random.uniform(1.0, 900.0, 6) * ([0.05] * 3 + [1.0] * 3)
        law.set_impedance(Impedance(wanted if k % 7 else [1.0] * 6,
                                    random.uniform(0.5, 1.5, 6)))
        row = tick(law, 1, k)[0]
        assert (row >= 0.04).all() and (row <= 900.0).all()
        assert (of(law).now[1] >= 0.5).all() and (of(law).now[1] <= 1.5).all()


class Bench:
    """A mass on a commanded spring: the kernel alone, with a plant of one freedom."""

    def __init__(self, capacity, mass=2.0, ratio=0.1):
        self.mass, self.ratio, self.x, self.v = mass, ratio, 0.0, 0.0
        self.m, self.d = LAW_M.new(k=1, m=1), LAW_D.new(k=1, m=1)
        self.spring = VariableImpedance(self.d, 0)
        self.spring.begin(np.full(6, 500.0), np.full(6, ratio), 0.01, capacity)
        self.d.task_axes[0] = np.eye(3).ravel()
        self.m.moves[0, 3], self.d.task_gain[0], self.m.period_stretch = 1.0, 500.0, 1.0
        self.time, self.W = 0.0, np.eye(6) / mass

    def step(self, stiffness, force=0.0, dt=1e-3):
        self.spring.command(Impedance(np.full(6, stiffness)))
        self.d.gain_period = dt
        self.d.time = self.time
        put_references(self.m, self.d, self.W)
        K = self.d.task_gain[0, 3]
        damper = 2.0 * self.ratio * np.sqrt(K * self.mass)
        self.d.level_spring[0, 3], self.d.level_rate[0, 3] = -K * self.x, -self.v
        self.d.level_weight[0, 3] = np.sqrt(2.0 * self.ratio * K)
        for _ in range(20):  # the spring acts continuously, so the bench alone adds no energy
            self.v += dt / 20 * (force - K * self.x - damper * self.v) / self.mass
            self.x += dt / 20 * self.v
        self.time += dt

    def energy(self):
        return 0.5 * self.mass * self.v**2 + 0.5 * self.d.task_gain[0, 3] * self.x**2


@for_all(some.lists(some.tuples(some.floats(1.0, 3000.0), some.integers(1, 60)), min_size=5,
                    max_size=40), some.floats(0.05, 1.0), some.sampled_from((0.05, 0.5, 2.0)))
def test_no_signal_adds_more_energy_than_the_tank_holds(signal, ratio, capacity):
    bench = Bench(capacity, ratio=ratio)
    bench.v = 0.5
    first = bench.energy()
    for stiffness, ticks in signal:
        for _ in range(ticks):
            bench.step(stiffness)
            assert bench.energy() < first + capacity + 0.02
    d = bench.d
    assert -1e-9 <= d.tank_energy[0] <= capacity
    assert d.added_energy[0] <= (
        capacity + d.freed_energy[0] + d.dissipated_energy[0] + 1e-9)


@pytest.mark.parametrize('capacity, grows', ((np.inf, True), (0.5, False)))
def test_stiffness_that_pumps_is_starved(capacity, grows):
    """High while the mass returns, low while it leaves: the worst signal."""
    bench, first = Bench(capacity, ratio=0.05), 0.25
    bench.v = 0.5
    for _ in range(4000):
        bench.step(2000.0 if bench.x * bench.v < 0.0 else 200.0)
    assert (bench.energy() > 20.0 * first) == grows
    assert grows or bench.energy() < first + capacity


class Wall:
    """The Panda against an elastic wall; it makes no loss, so all damping is the law's."""

    def __init__(self, tank, foreign=False, seed=0, stiffness=2e4):
        self.law, self.stiffness = spring_law(tank, 0.3, 0.01, (1e3, 1e3)), stiffness
        self.random, self.foreign = np.random.default_rng(seed), foreign
        self.plant = (ForeignPlant('panda', panda().joint_names) if foreign else Plant(
            PANDA.urdf_text, PANDA.base, panda().joint_names, friction=ZEROS, damping=ZEROS,
            timestep=2.5e-4))
        self.plant.reset(READY)
        self.K = SOFT[5]
        goal = self.law.pose
        self.top = goal[2, 3] - 0.005
        goal[2, 3] -= 0.02
        self.law.follow(goal)

    def step(self, signal, period=1e-3):
        law, plant = self.law, self.plant
        if signal == 'pump':
            self.K = 2000.0 if law.error[5] * law.twist[5] > 0.0 else 100.0
        elif self.random.random() < 0.02:
            self.K = self.random.choice([100.0, 2000.0])
        law.set_impedance(Impedance([*SOFT[:5], self.K]))
        tau = law.torque(plant.time, plant.q, plant.qd)
        law.plan()
        for _ in range(round(period / 2.5e-4)):
            tip = plant.pose() if self.foreign else plant.pose(PANDA.tip)
            force = max(0.0, self.stiffness * (self.top - tip[2, 3]))
            if self.foreign:
                plant.step(tau + force * law.space.evaluate(plant.q, plant.qd).J[5], 2.5e-4)
            else:
                plant.push(PANDA.tip, [0.0, 0.0, force])
                plant.step(tau)
        return force**2 / (2.0 * self.stiffness)

    def energies(self, signal, seconds):
        """Kinetic energy and that of the wall, every 10 ms."""
        found = []
        for k in range(round(1e3 * seconds)):
            wall = self.step(signal)
            if k % 10 == 0:
                M = np.linalg.inv(self.law.space.evaluate(self.plant.q, self.plant.qd).M_inv)
                found.append(wall + 0.5 * self.plant.qd @ M @ self.plant.qd)
        return np.array(found)


@pytest.mark.slow
def test_random_stiffness_on_a_hard_wall_lets_the_energy_decay():
    bounded = Wall(0.5).energies('random', 3.0)
    assert bounded.max() < 1.0 and bounded[-100:].max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize('foreign', (False, True), ids=('mujoco', 'pinocchio'))
@pytest.mark.parametrize('signal', ('random', 'pump'))
def test_without_the_tank_the_wall_throws_the_arm_back_for_ever(foreign, signal, drawn):
    free, bounded = (Wall(tank, foreign).energies(signal, 4.0) for tank in (np.inf, 0.5))
    if signal == 'random' and not foreign:
        drawn('variable_impedance', 'Stiffness jumps at random between 100 and 2000 N/m, damping '
              'ratio 0.3, on an elastic wall of 20 kN/m', 0.01 * np.arange(len(free)),
              {'kinetic and\nwall energy [J]': {'no tank': free, 'tank of 0.5 J': bounded}})
    assert free[-200:].max() > 0.1 and bounded[-100:].max() < 0.02
    assert free[-200:].max() > 20.0 * bounded[-100:].max()


def test_stiffness_that_the_rate_cannot_carry_is_reduced_and_says_so():
    law = spring_law(tank=np.inf)
    law.set_impedance(Impedance([10.0] * 3 + [1e6] * 3))
    tick(law, 60)
    share, now = law._setup.d.carried_share[0], of(law).now[0]
    assert share < 0.1 and now[3:].max() < 1e5 and now[:3] == pytest.approx(10.0, 0.01)
    assert law.gain_share() == pytest.approx(np.sqrt(share)) and law.gain_share() < 0.4
    law.set_impedance(Impedance(SOFT))
    tick(law, 60, 60)
    assert law.gain_share() == 1.0


def test_change_of_other_settings_keeps_the_command_and_latch_ends_it():
    law = spring_law()
    law.set_impedance(Impedance([10.0] * 3 + [300.0] * 3))
    tick(law, 50)
    law.change(Settings.of(panda(), tasks=law.settings.tasks, blend_time=0.2))
    assert tick(law, 3, 50)[-1] == pytest.approx([10.0] * 3 + [300.0] * 3, rel=1e-3)
    task = Task(Stiffness([10.0] * 3 + [700.0] * 3))
    law.change(Settings.of(panda(), tasks=(task,)))
    for k in range(53, 200):  # the change before ends, and this one begins
        law.torque(k * PERIOD, READY, ZEROS)
    assert of(law) is None
    law.set_impedance(Impedance([10.0] * 3 + [300.0] * 3, wrench=[0.0] * 5 + [5.0]))
    tick(law, 50, 200)
    law.hold(READY)
    assert of(law) is None
    np.testing.assert_allclose(law.torque(1.0, READY, ZEROS), law.bias_torque(READY, ZEROS),
                               atol=1e-9)


@pytest.mark.parametrize('given, text', (
    (([1.0] * 5,), r'stiffness \[.*\]: (give|must be).*six'),
    (([1.0] * 5 + [-1.0],), 'stiffness .*: (give|must be).* 0 to 1e'),
    (([1.0] * 5 + [np.nan],), '(give|must be).*six'),
    (([1.0] * 5 + [1e7],), '(give|must be).* 0 to 1e'),
    (([1.0] * 6, [0.0] * 6), 'damping_ratio .*: (give|must be).* 0.01 to 100'),
    (([1.0] * 6, None, [np.inf] * 6), 'wrench .* six')))
def test_wrong_numbers_are_refused(given, text):
    with pytest.raises(InputError, match=text):
        Impedance(*given)


def test_commands_that_do_not_fit_are_refused_and_the_old_one_stays():
    law = spring_law(axes=('motion',) * 5 + ('force',))
    law.set_impedance(Impedance(SOFT, stamp=2.0))
    for wanted, text in ((Impedance(SOFT, None, [0.0] * 5 + [1.0]), 'axis 5 is one of force'),
                         (Impedance(SOFT, None, [0.0] * 3 + [50.0, 50.0, 0.0]),
                          'force 70.7107 of task .*: must be at most 60'),
                         (Impedance(SOFT, None, [11.0] + [0.0] * 5), 'moment 11 of task'),
                         (Impedance([1.0] * 6, stamp=1.0), 'is before that of the last one')):
        with pytest.raises(InputError, match=text):
            law.set_impedance(wanted)
    assert tick(law, 30)[-1] == pytest.approx(SOFT)
    other = Law(panda())
    other.hold(READY)
    with pytest.raises(InputError, match='Gains.*stiffness'):
        other.set_impedance(Impedance(SOFT))
    for values in ({'change_time': 0.0}, {'tank': -1.0}):
        with pytest.raises(InputError, match='must be .*at least'):
            Stiffness(**values)


def test_zero_stiffness_gives_way_and_free_drive_ends_the_commands():
    law = spring_law()
    law.set_impedance(Impedance([10.0] * 3 + [0.0] * 3))
    assert tick(law, 100)[-1][3:] == pytest.approx(impedance.SOFTEST, rel=0.01)
    before = law.settings
    law.change(FreeDrive().applied_to(before))
    law.torque(0.3, READY, ZEROS)
    law.change(before)
    law.torque(0.4, READY, ZEROS)
    assert of(law) is None
