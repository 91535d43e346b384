# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Faults of all kinds, one by one and in random order, on arms that osc_ros does not ship."""

from collections import Counter
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from common import CHECKOUT
from processes import Processes

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from faults import FAULTS  # noqa: E402
from hardware import ARMS, Foreign, Judge, LATE, OUTSIDE, SPEED, STEP  # noqa: E402
from soak import resident, SILENCE, SILENT, System  # noqa: E402

SEED = 13  # draws 5 kg too much, 1000 rad/s, 0.2 N·m where friction is 0, and a gap of 0.2 s
PACES = ('lockstep', 'paced')
MEMORY = 4.0  # accepted growth of the relay's memory in a long run [MiB]
# faults that are only in the long soak, because they start processes, which takes seconds
LONG = ('interrupted', 'second controller')
# faults that have a quick test of their own in the file that is named
ELSEWHERE = {
    'dropped states': 'test_watchdogs.py', 'missing velocities': 'test_watchdogs.py',
    'gap of states': 'test_missing_states.py',  # in lockstep, not by the wall clock
    'killed': 'test_relay.py', 'deactivated': 'test_nodes.py',
    'deactivated, brakes': 'test_relay.py', 'too much friction': 'test_wrong_knowledge.py',
    'wrong payload': 'test_wrong_knowledge.py', 'hold in motion': 'test_nodes.py',
    'limits of position': 'test_bounds_reached.py', 'retraction': 'test_bounds_reached.py',
    'bad targets': 'test_nodes.py', 'lifecycle': 'test_nodes.py',
    'repeated states': 'test_out_of_control.py', 'extreme gains': 'test_bandwidth.py',
    'garbled states': 'test_served.py', 'late states': 'test_watchdogs.py',
    'silence': 'test_nodes.py', 'foreign torques': 'test_relay.py',
    'second publisher': 'test_relay.py', 'long trajectories': 'test_nodes.py',
    'flood of requests': 'test_control_loop.py', 'little torque': 'test_bounds_reached.py'}


@pytest.fixture(scope='module')
def xarm7(ros, tmp_path_factory):
    """Yield one arm and its nodes, in lockstep, shared by the tests of one fault each."""
    folder = tmp_path_factory.mktemp('xarm7')
    system = System(ARMS['xarm7'], Processes(folder), folder, False, SEED)
    yield system
    system.close()


@pytest.mark.parametrize('kind', [
    pytest.param(kind, marks=pytest.mark.slow if kind in ELSEWHERE else ())
    for kind in FAULTS if kind not in LONG])
def test_foreign_arm_survives(xarm7, kind):
    xarm7.judge.broken.clear()
    xarm7.draw_from(SEED, list(FAULTS).index(kind))
    xarm7.suffer(kind, FAULTS[kind])
    assert not xarm7.judge.broken, report(xarm7)
    assert not xarm7.raised()


@pytest.mark.slow
@pytest.mark.parametrize('pace', PACES)
@pytest.mark.parametrize('name', ARMS)
def test_arm_survives_all_faults_at_random(ros, tmp_path, request, name, pace):
    duration = request.config.getoption('--soak')
    system = System(ARMS[name], Processes(tmp_path), tmp_path, pace == 'paced', SEED)
    rounds, memory = [], []
    try:
        while system.hardware.time < duration or rounds:  # every fault at least once
            if not rounds:
                rounds = [str(kind) for kind in system.rng.permutation(list(FAULTS))]
                memory.append(resident(system.relay))
            system.wander()
            kind = rounds.pop()
            system.suffer(kind, FAULTS[kind])
        memory.append(resident(system.relay))
        raised = system.raised()
    finally:
        system.close()
    found = measured(system, memory, raised)
    request.config.cache.set(f'soak/{name}-{pace}', found)
    if request.config.getoption('--write-tables'):
        results = {f'{arm}-{way}': request.config.cache.get(f'soak/{arm}-{way}', None)
                   for arm in ARMS for way in PACES}
        (CHECKOUT / 'doc' / 'measurements' / 'soak.md').write_text(page(results))
    assert not (system.judge.broken or raised), '\n'.join([report(system), *raised[:20]])
    # growth is counted after the first quarter, which has the one-time allocations
    if duration >= 300.0:
        assert memory[-1] - memory[len(memory) // 4] < MEMORY, memory


def test_page_has_a_row_for_every_fault_and_run():
    judge = Judge(Foreign(ARMS['xarm7']))
    judge.command(0.002, np.zeros(7), 0)  # begins its figures
    assert judge.now.times == 0
    system = SimpleNamespace(hardware=SimpleNamespace(time=1.0, counts=Counter()), judge=judge,
                             counts=Counter(), memory=[])
    text = page({'xarm7-lockstep': measured(system, [1.0], []), 'kinova-paced': None})
    assert all(f'\n| {kind} |' in text for kind in FAULTS)
    assert '\n| xarm7 | lockstep |' in text and 'kinova | paced' not in text


def measured(system, memory, raised):
    """Return all figures of a run, as values that JSON can store."""
    hardware, judge = system.hardware, system.judge
    return {
        'time': hardware.time, 'commands': hardware.counts['commands'],
        'unanswered': system.counts['unanswered'], 'steps': system.counts['steps'],
        'let go': system.counts['ticks let go'], 'started over': system.counts['started over'],
        'requests': system.counts['requests'],
        'requests without an answer': system.counts['requests without an answer'],
        'use': judge.use, 'raised': len(raised), 'relay': [memory[0], memory[-1]],
        'controller': float(np.nanmean(system.memory or [0.0])),
        'figures': {kind: asdict(figures) for kind, figures in judge.figures.items()},
        'broken': [[kind, what, *numbers] for (kind, what), numbers in judge.broken.items()]}


def report(system):
    """Return the violations of the accepted bounds in a run, one per line."""
    return '\n'.join(f'{kind}: {what}: {count} times, first at {first:.3f} s, worst {worst:.3g}'
                     for (kind, what), (count, first, worst) in system.judge.broken.items())


def page(results):
    """Return the text of the page: a table of faults over all foreign arms, and one of runs."""
    arms = [name for name in ARMS if name != 'panda']
    ran = {key: found for key, found in results.items() if found}
    longest = max(found['time'] for found in ran.values())
    lines = [
        '# Soak', '',
        f"{', '.join(arms)}: arms that the project does not ship, simulated by Pinocchio "
        '(articulated-body algorithm, no friction) in a node that shares no code with '
        'osc_ros. `osc_controller` and `osc_relay` run in separate processes, over DDS, at '
        f'500 Hz. A run takes up to {longest:.0f} s of simulated time. Every few seconds one of '
        f'{len(FAULTS)} kinds of faults ([faults.py](../../test/support/faults.py)) begins; after '
        'it the tip must reach a new random goal. One seed determines all random numbers.', '',
        'In lockstep the plant waits for the command that answers each state, for 20 ms at '
        'most. Paced, it follows the wall clock: if a command is late, the last torque stays.', '',
        '```sh', "make test-all ARGS='-n 0 -k faults_at_random --soak 600 --write-tables'",
        '```', '',
        'All arms together; each cell has the values lockstep / paced:', '',
        '| fault | times | largest step of torque [% of limit] | fastest joint [% of limit] | '
        'longest silence of the controller [periods] | longest time of the plant without a new '
        'torque [periods] | time to the goal after the fault, median [s] | maximum [s] | '
        'parameter sets accepted | refused |',
        '|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|']
    kinds = sorted({kind for found in ran.values() for kind in found['figures']
                    if kind.startswith('target')})
    for kind in (*kinds, *FAULTS):
        cells = [[_cell([found['figures'][kind] for key, found in ran.items()
                               if key.endswith(pace) and key.split('-')[0] in arms
                               and kind in found['figures']])] for pace in PACES]
        lines.append(f'| {kind} | ' + ' | '.join(
            ' / '.join(pair) for pair in zip(*(cell[0] for cell in cells))) + ' |')
    lines += [
        '', f'Accepted are a step of {100.0 * STEP:.0f} % of a limit from one torque to the '
            f'next (after missed periods {100.0 * STEP:.0f} % per period, for at most {LATE} '
            'periods, because the relay needs that time to detect that a controller is '
            f'gone), {100.0 * SPEED:.0f} % of the speed limit, {1000.0 * OUTSIDE:.0f} mrad '
            f'beyond a position limit, and a silence of the controller of {SILENCE:.0f} '
            f"periods during {' or '.join(SILENT)}. The rows `target` are the times between "
            'the faults. The silence of the controller is measured on the wall clock and '
            'includes the start of a new process; time in which these processes waited for a '
            'processor is added to its limit. The goal counts as reached within 1 mm and '
            '2 mrad.', '',
        'In lockstep, time and floods pass faster than on the wall clock; DDS keeps ten requests '
        'and drops older ones. The memory of the controller includes its black box, which fills '
        'for 30 s after each start, by 0.2 MB/s at 500 Hz of the wall clock.', '',
        'Runs:', '',
        '| arm | | simulated [s] | torques received | not finite, or beyond limits | missed '
        'deadlines | ticks skipped by the plant | largest torque [% of limit] | drift when '
        'stopped [mrad/s; mm/s] | requests in floods, of these without an answer | log lines '
        'with an exception | memory of the relay, start and end [MiB] | of the controller, mean '
        'change per fault [MiB] |',
        '|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|']
    for key, found in ran.items():
        name, pace = key.split('-')
        bad = sum(count for _, what, count, *_ in found['broken'] if what.startswith('torque'))
        drift = max(figures['drift'] for figures in found['figures'].values())
        lines.append(
            f'| {name} | {pace} | {found["time"]:.0f} | {found["commands"]} | {bad} | '
            f'{found["unanswered"]} | {found["let go"]} | {100.0 * found["use"]:.1f} | '
            f'{1e3 * drift:.2f} | {found["requests"]}, {found["requests without an answer"]} | '
            f'{found["raised"]} | {found["relay"][0]:.1f}, '
            f'{found["relay"][1]:.1f} | {found["controller"]:.3f} |')
    broken = [[key, *row] for key, found in ran.items() for row in found['broken']]
    if broken:
        lines += ['', 'Violations:', '', '| run | fault | | times | worst |',
                  '|---|---|---|---:|---:|']
        lines += [f'| {key} | {kind} | {what} | {count} | {worst:.3g} |'
                  for key, kind, what, count, _, worst in broken]
    return '\n'.join([*lines, ''])


def _cell(rows):
    """Return the table cells of one kind of fault, over several arms."""
    if not rows:
        return ['–'] * 9
    took = [time for row in rows for time in row['took']]
    most = {name: max(row[name] for row in rows) for name in ('step', 'speed', 'silence', 'gap')}
    return [str(sum(row['times'] for row in rows)),
            f'{100.0 * most["step"]:.1f}', f'{100.0 * most["speed"]:.0f}',
            f'{most["silence"]:.0f}', f'{most["gap"]}',
            *([f'{np.median(took):.2f}', f'{max(took):.2f}'] if took else ['–', '–']),
            *(str(sum(row[name] for row in rows)) for name in ('accepted', 'refused'))]
