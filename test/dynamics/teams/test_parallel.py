# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""A team of processes compared with one process, also after failures of workers."""

from itertools import product
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from common import import_path, PATIENCE
from osc_ros import OperationalSpace
from osc_ros.dynamics.chain.chain_bodies import FORCE, packed_robot, TIP_WIDTH, WORK_WIDTH
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.contract.method import DONE
from osc_ros.dynamics.contract.plan import Workers
from osc_ros.dynamics.segments import roles, signals
from osc_ros.dynamics.segments.lane_segments import Split
from osc_ros.dynamics.segments.slots import SLOT_WIDTH
from osc_ros.dynamics.teams.costs import Costs
from osc_ros.dynamics.teams.parallel import Parallel
from osc_ros.errors import InputError, WorkerWarning
from team_chains import chain, difference, state, variants
from tolerances import TEAM_AGREEMENT
from variants import quick_if

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')

# Fixed costs, so that each member gets the same number of bodies on every machine.
COSTS = Costs(1e-7, np.full(4, 3e-8), np.full(4, 1e-7), np.array([2.1e-7, 1.6e-7, 2.1e-7, 2e-7]))
# A deadline so long that no worker misses it, even on a busy machine.
PATIENT = Workers(2, deadline=PATIENCE)
SHARED = Path('/dev/shm')


def by_turns(robot, members, q, qd, tau, qdd, F):
    """
    Return the terms at the tip and the torques, by members that run in turn.

    All members run in this thread, and none spins: a member that would have to wait returns, and
    the next one is called.

    """
    variant = (tau is not None) + 2 * (qdd is not None)
    bounds = COSTS.bounds(robot.n, members)[variant]
    links, ends = packed_robot(robot)
    state, work = np.zeros((5, robot.n)), np.zeros((robot.n, WORK_WIDTH))
    exchanged = (np.zeros((members, SLOT_WIDTH)), np.zeros(6),
                 np.zeros(signals.words(members), np.int64))
    progress = np.zeros((members, signals.PROGRESS_WIDTH), np.int64)
    progress[1:, signals.STAGE] = signals.REST
    tip, out = np.zeros(TIP_WIDTH), np.zeros(robot.n)

    def follow(k):
        mine = slice(bounds[k], bounds[k + 1])
        return roles.follow(
            (links[mine], ends, state, work[mine], *exchanged), (k, bounds[k + 1] - bounds[k],
            progress[k], 0), None, state[0, mine], state[1, mine],
            None if tau is None else state[2, mine], None if qdd is None else state[3, mine],
            state[4, mine])

    def finish(leader):
        for _ in range(10 * members):
            if leader() == DONE:
                return
            for k in range(members - 1, 0, -1):
                assert follow(k) == signals.WAITING
        pytest.fail('nobody goes on')

    arrays, place = (links, ends, state, work, *exchanged), (0, bounds[1], progress[0], 0)
    finish(lambda: roles.lead(arrays, place, None, q, qd, tau, qdd, tip))
    finish(lambda: roles.lead_back(arrays, place, None, None if tau is None else state[2],
                                   None if qdd is None else state[3], F, out))
    return tip[:FORCE], out


@pytest.mark.parametrize('n', quick_if(
    lambda n: n in (2, 5, 13, 64), [2, 3, 4, 5, 6, 7, 8, 9, 13, 31, 64, 200]))
@pytest.mark.parametrize('members', [
    1, 2, 3, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 8, 13))])
def test_joined_segments_give_the_results_of_one_process(n, members):
    if members > n:
        pytest.skip('more members than bodies')
    roles.compile_kernels()
    robot = chain(n, n)
    serial = Sweep(robot)
    q, qd, F, tau0, qdd0 = state(robot)
    expected = np.empty(n)
    for tau, qdd in variants(tau0, qdd0):
        assert serial.outward(q, qd, tau, qdd) == DONE
        serial.inward(F, expected)
        tip, out = by_turns(robot, members, q, qd, tau, qdd, F)
        for part, whole in ((tip[:36], serial.Lambda_inv), (tip[36:42], serial.a0),
                            (tip[42:58], serial.pose), (tip[58:64], serial.twist),
                            (out, expected)):
            assert difference(part, whole.ravel()) < TEAM_AGREEMENT


def test_the_base_has_what_the_ratio_says_and_everybody_has_a_body():
    for n, members in product((2, 3, 7, 100, 4096), (2, 3, 5, 64)):
        if members > n:
            continue
        bounds = COSTS.bounds(n, members)
        assert (bounds[:, 0] == 0).all() and (bounds[:, -1] == n).all()
        bodies = np.diff(bounds)
        assert bodies.min() >= 1 and (np.ptp(bodies[:, 1:], axis=1) <= 1).all()
        if n == 4096 and members < 64:
            assert bodies[0, 0] / bodies[0, 1] == pytest.approx(2.1, rel=0.01)


@pytest.fixture(scope='module', params=[
    pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)])
def team(request):
    """Yield a team, perhaps of more processes than cores, and one process for the same chain."""
    robot = chain(1, 40)
    with OperationalSpace(robot, workers=Workers(request.param, deadline=PATIENCE)) as osc:
        yield osc, OperationalSpace(robot)


def test_team_gives_the_results_of_one_process(team):
    osc, alone = team
    q, qd, u, tau, qdd = state(osc.robot)
    for tau_null, posture in variants(tau, qdd):
        given = {'tau_null': tau_null, 'posture_acceleration': posture}
        assert difference(osc.torque(q, qd, u, **given),
                          alone.torque(q, qd, u, **given)) < TEAM_AGREEMENT
        one, other = osc.outward(q, qd, **given), alone.outward(q, qd, **given)
        for name in ('pose', 'twist', 'Lambda_inv', 'a0'):
            assert difference(getattr(one, name), getattr(other, name)) < TEAM_AGREEMENT
        assert difference(osc.jacobian(), alone.jacobian()) < TEAM_AGREEMENT
        assert difference(osc.inward(u), alone.inward(u)) < TEAM_AGREEMENT
    one, other = osc.evaluate(q, qd), alone.evaluate(q, qd)
    for name in ('J', 'Jdot_qd', 'h', 'Lambda', 'M_inv', 'coriolis'):
        assert difference(getattr(one, name), getattr(other, name)) < 1e3 * TEAM_AGREEMENT
    assert np.array_equal(osc.forward_dynamics(q, qd, tau), alone.forward_dynamics(q, qd, tau))
    assert osc.plan.faults == ()


@pytest.mark.slow  # quick: the test above
def test_several_inward_passes_may_follow_one_outward_pass(team):
    osc, alone = team
    q, qd, u, tau, qdd = state(osc.robot)
    for given in variants(tau, qdd):
        osc.outward(q, qd, *given)
        alone.outward(q, qd, *given)
        for F in (u, 2.0 * u, -u):
            assert difference(osc.inward(F), alone.inward(F)) < TEAM_AGREEMENT
    assert osc.plan.faults == ()


@pytest.mark.slow  # quick: test_team_gives_the_results_of_one_process
def test_every_repeat_is_the_same_to_the_last_bit(team):
    osc, _ = team
    q, qd, u, tau, qdd = state(osc.robot)
    for tau_null, posture in variants(tau, qdd):
        found = {osc.torque(q, qd, u, tau_null, posture).tobytes() for _ in range(200)}
        assert len(found) == 1


# quick: test_a_wrong_shape_is_refused_with_both_shapes of test_operational_space.py
@pytest.mark.slow
def test_a_team_refuses_what_one_process_refuses_and_goes_on(team):
    osc, alone = team
    q, qd, u, _, _ = state(osc.robot)
    for bad in ((q[1:], qd, u), (q, qd, u[:5]), (q, np.full_like(qd, np.nan), u),
                (q, qd, 'nothing')):
        with pytest.raises(InputError):
            osc.torque(*bad)
    assert difference(osc.torque(q.tolist(), qd.astype(np.float32).astype(float), u),
                      alone.torque(q, qd.astype(np.float32).astype(float), u)) < TEAM_AGREEMENT
    assert osc.plan.faults == ()


def in_shared_memory():
    return sorted(path.name for path in SHARED.glob('psm_*')) if SHARED.is_dir() else []


def ended(pid):
    """Return whether a process has ended; a zombie counts as ended."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] == 'Z'
    except (FileNotFoundError, ProcessLookupError):  # the process ended before or during reading
        return True


def until(happened):
    """Wait until `happened()` is true; fail after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        os.sched_yield()


@pytest.mark.slow  # quick, without the fault: test_team_gives_the_results_of_one_process
@pytest.mark.parametrize('calls', [600, 10_000])
def test_no_answer_is_wrong_while_a_worker_is_killed(calls):
    robot = chain(2, 24)
    alone, before = OperationalSpace(robot), in_shared_memory()
    states = [state(robot, seed) for seed in range(50)]
    expected = [alone.torque(q, qd, u, tau) for q, qd, u, tau, _ in states]
    with OperationalSpace(robot, workers=Workers(3, deadline=PATIENCE)) as osc, \
            pytest.warns(WorkerWarning, match='-9') as said:
        first = osc._dynamics.team.pids
        for call in range(calls):
            if call == calls // 3:
                os.kill(first[1], signal.SIGKILL)
            q, qd, u, tau, _ = states[call % 50]
            found = osc.torque(q, qd, u, tau)
            assert difference(found, expected[call % 50]) < TEAM_AGREEMENT, call
        assert len(said) == len(osc.plan.faults) == 1
        assert 'worker 2' in osc.plan.faults[0] and osc.plan.faults[0] in str(osc.plan)
        until(lambda: osc._dynamics.team is not None)
        second = osc._dynamics.team.pids
        assert not set(first) & set(second) and all(map(ended, first))
        assert difference(osc.torque(*states[0][:4]), expected[0]) < TEAM_AGREEMENT
    assert all(map(ended, second))
    assert in_shared_memory() == before


@pytest.mark.slow  # quick, without the fault: test_team_gives_the_results_of_one_process
def test_a_worker_that_hangs_costs_the_deadline_and_no_answer():
    robot = chain(3, 24)
    alone, before = OperationalSpace(robot), in_shared_memory()
    q, qd, u, tau, qdd = state(robot)
    with OperationalSpace(robot, workers=PATIENT) as osc:
        worker, = osc._dynamics.team.pids
        osc.outward(q, qd, tau)
        osc._dynamics.team.member.deadline = 0.1  # only now: a slow start must not miss it
        os.kill(worker, signal.SIGSTOP)
        with pytest.warns(WorkerWarning, match='no answer within'):
            found = osc.inward(u)  # between the halves: the team has computed `outward`
        alone.outward(q, qd, tau)
        assert difference(found, alone.inward(u)) < TEAM_AGREEMENT
        assert difference(osc.jacobian(), alone.jacobian()) < TEAM_AGREEMENT
        until(lambda: ended(worker))
    assert in_shared_memory() == before


class Mistaken(float):
    """A number in this process; other processes, which unpickle it, get a string."""

    def __reduce__(self):
        """Pickle the number as the string 'long'."""
        return str, ('long',)


@pytest.mark.slow  # quick, without the fault: test_team_gives_the_results_of_one_process
def test_a_worker_that_raises_is_reported_with_its_words_and_costs_no_answer():
    robot = chain(4, 12)
    alone, before = OperationalSpace(robot), in_shared_memory()
    q, qd, u, tau, _ = state(robot)
    expected = alone.torque(q, qd, u, tau)
    # the spin time is no number, so a worker raises the first time that it waits
    team = Parallel(robot, Workers(2, Mistaken(0.0), PATIENCE), Split(COSTS.bounds(12, 2)), 1e-6)
    found = np.empty(12)
    with pytest.warns(WorkerWarning, match='worker 1 .*TypeError'):
        while not team.faults:
            assert team.torque(q, qd, u, tau, None, found) == DONE
            assert difference(found, expected) < TEAM_AGREEMENT
    team.close()
    assert in_shared_memory() == before


OWNER = """
import sys
import numpy as np
from test_parallel import chain, OperationalSpace, PATIENT
if __name__ == '__main__':
    osc = OperationalSpace(chain(5, 16), workers=PATIENT)
    print(*osc._dynamics.team.pids, flush=True)
    x = np.zeros(16)
    while 'busy' in sys.argv:
        osc.torque(x, x, np.ones(6))
    sys.stdin.read()
"""


def owner(tmp_path, *arguments):
    """Start a process that owns a team; return it and the process ids of the workers."""
    script = tmp_path / 'owner.py'
    script.write_text(OWNER)
    process = subprocess.Popen([sys.executable, str(script), *arguments], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={
                                   **os.environ, 'PYTHONPATH': import_path(Path(__file__).parent)})
    return process, [int(pid) for pid in process.stdout.readline().split()]


@pytest.mark.slow  # quick, without the fault: test_team_gives_the_results_of_one_process
@pytest.mark.skipif(not SHARED.is_dir(), reason='processes are looked up in /proc')
@pytest.mark.parametrize('occupation', ['busy', 'idle'])
def test_a_killed_owner_leaves_no_process_and_no_memory(tmp_path, occupation):
    before = in_shared_memory()
    process, team = owner(tmp_path, occupation)
    process.kill()
    process.communicate()
    assert team
    until(lambda: all(map(ended, team)))
    assert in_shared_memory() == before


def processor_time(pid):
    fields = Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.slow  # quick, without a pause: test_team_gives_the_results_of_one_process
def test_an_idle_team_sleeps():
    robot = chain(6, 12)
    q, qd, u, _, _ = state(robot)
    with OperationalSpace(robot, workers=Workers(3, spin=1e-3, deadline=PATIENCE)) as osc:
        osc.torque(q, qd, u)
        team = osc._dynamics.team

        def asleep():
            return [signals.set_sleep_flag(team.shared.flags, 3, k, 1) for k in (1, 2)]

        # a worker sets its own sleep flag; if the test set it, one wake-up would be needless
        until(lambda: asleep() == [1, 1])
        for pid in team.pids:
            until(lambda pid=pid: Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1]
                  .split()[0] == 'S')
        spent = [processor_time(pid) for pid in team.pids]
        signal.sigtimedwait([], 0.3)
        assert [processor_time(pid) for pid in team.pids] == spent
        osc.torque(q, qd, u)
        assert osc.plan.faults == ()


def test_the_plan_says_which_and_why():
    arm = chain(7, 7)
    with OperationalSpace(arm, workers='auto') as osc:
        assert osc.plan.workers == 1 and 'µs' in osc.plan.reason
        assert not isinstance(osc._dynamics, Parallel)
    assert str(OperationalSpace(arm).plan) == '1 worker: as requested'
    for method in ('dense', 'ldl', 'bcr'):
        with pytest.raises(InputError, match=f"'{method}' .*one process"):
            OperationalSpace(arm, method, workers=2)
        osc = OperationalSpace(arm, method, workers='auto')
        assert osc.plan.workers == 1 and method in osc.plan.reason


@pytest.mark.slow  # quick: test_the_plan_says_which_and_why
def test_a_team_has_no_more_workers_than_bodies():
    with OperationalSpace(chain(8, 3), workers=Workers(5, deadline=PATIENCE)) as osc:
        assert osc.plan.workers == 3 and str(osc.plan).startswith('3 workers: one for each body')


@pytest.mark.parametrize('wrong', [0, -1, 1.5, 'many', None, True])
def test_a_number_of_workers_that_cannot_be_is_refused(wrong):
    with pytest.raises(InputError, match='workers'):
        OperationalSpace(chain(7, 7), workers=wrong)


@pytest.mark.slow  # quick: test_after_close_a_method_goes_on of test_contract.py, without teams
def test_after_close_one_process_answers():
    robot = chain(9, 20)
    q, qd, u, tau, _ = state(robot)
    alone = OperationalSpace(robot)
    osc = OperationalSpace(robot, workers=PATIENT)
    pids = osc._dynamics.team.pids
    osc.outward(q, qd, tau)
    osc.close()
    assert all(map(ended, pids))
    alone.outward(q, qd, tau)
    assert difference(osc.inward(u), alone.inward(u)) < TEAM_AGREEMENT
    assert np.array_equal(osc.torque(q, qd, u), alone.torque(q, qd, u))
    osc.close()


@pytest.mark.slow  # quick: test_team_gives_the_results_of_one_process
def test_a_team_that_nobody_refers_to_ends():
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        osc = OperationalSpace(chain(10, 8), workers=PATIENT)
        pids = osc._dynamics.team.pids
        del osc
        until(lambda: all(map(ended, pids)))
