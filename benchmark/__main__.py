# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Measures the time of an update, compared with Pinocchio and MuJoCo, in one run.

`make bench`, or `python benchmark` with osc_ros and the reference libraries installed. Every
contender computes the whole law, τ = τ⁰ + JᵀΛ(u - a⁰); its result is checked before it is timed.
Writes the report to doc/measurements/benchmarks.md, with plots.

"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
import json
import os
from pathlib import Path
import platform
import subprocess
import sys
import tempfile
from time import perf_counter

# set before importing numpy: for small matrices, BLAS threads synchronize longer than compute
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import barriers
import batch
import chains
import collision
import cycles
import depth
import gaps
import gpu
import kinematics
import latency
import long_chain
import nodes
import operations
from osc_ros.commandline import output_file
from osc_ros.dynamics.methods import METHODS
import page
import panda
import parked
import participants
import plot
import reach
import teams
import trees

DOC = Path(__file__).parents[1] / 'doc' / 'measurements'
FIRST_USE = """
from importlib.resources import files
from time import perf_counter
started = perf_counter()
from osc_ros import OperationalSpace, Robot
text = files('osc_ros').joinpath('robots/panda.urdf').read_text()
OperationalSpace(Robot.from_urdf(text, 'panda_link0', 'panda_hand_tcp'))
print(perf_counter() - started)
"""


def machine() -> dict[str, str]:
    """Return processor and versions that the figures depend on."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
        processor = next(line.split(':', 1)[1].strip() for line in lines
                         if line.startswith('model name'))
    except (OSError, StopIteration):
        pass
    found = {'processor': processor, 'cores': str(os.cpu_count()),
             'python': platform.python_version()}
    for package in ('numpy', 'scipy', 'numba', 'pin', 'mujoco', 'frax', 'jax', 'pin-pink', 'mink',
                    'pytracik'):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = 'not installed'
    return found


def first_use() -> tuple[float, float]:
    """Return the time [s] from import to a ready Panda, without and with compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items()
                       if name != 'NUMBA_CACHE_DIR'} | {'XDG_CACHE_HOME': folder}
        cold, warm = (float(subprocess.run(
            [sys.executable, '-c', FIRST_USE], env=environment, check=True, capture_output=True,
            text=True).stdout) for _ in range(2))
    return cold, warm


def main() -> None:
    """Time, print, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument('--json', type=output_file, metavar='FILE', help='also write all figures '
                                                                         'to this file')
    parser.add_argument('--node-seconds', type=float, default=nodes.SECONDS, metavar='S',
                        help='duration of the measurement for every row of the nodes [s] '
                             '(%(default)s)')
    parser.add_argument('--latency-seconds', type=float, default=latency.SECONDS, metavar='S',
                        help='duration of the measurement for every row of the comparison with an '
                             'empty callback [s] (%(default)s)')
    parser.add_argument('--gap-seconds', type=float, default=gaps.SECONDS, metavar='S',
                        help='duration of the measurement for every row of the longest gaps [s] '
                             '(%(default)s)')
    parser.add_argument('--gap-priority', type=int, metavar='P',
                        help='SCHED_FIFO priority for the longest gaps, 0 for none ('
                             f'{nodes.PRIORITY} if permitted)')
    parser.add_argument('--cycle-seconds', type=float, default=cycles.SECONDS, metavar='S',
                        help='duration of the measurement for every row of the cycles [s] '
                             '(%(default)s)')
    parser.add_argument('--participant-seconds', type=float, default=participants.SECONDS,
                        metavar='S', help='duration for every profile of Fast DDS, with --only '
                                          'participants [s] (%(default)s)')
    parser.add_argument('--only', choices=('batch', 'collision', 'cycles', 'gaps', 'gpu',
                                           'kinematics', 'latency', 'long_chain', 'participants',
                                           'parked', 'reach', 'ticks'),
                        help='measure and print only this section; do not write the page')
    arguments = parser.parse_args()
    started = perf_counter()

    def done(what):
        print(f'{perf_counter() - started:6.0f} s: {what}', file=sys.stderr)

    def write(figures):
        if arguments.json:
            arguments.json.write_text(json.dumps(figures, indent=1), encoding='utf-8')

    if arguments.only == 'cycles':
        in_process = cycles.section(arguments.cycle_seconds, done=done)
        print('\n'.join(page.cycles(in_process)))
        return write({'machine': machine(), 'cycles': in_process and asdict(in_process)})
    if arguments.only == 'gaps':
        between = gaps.section(arguments.gap_seconds, priority=arguments.gap_priority, done=done)
        print('\n'.join(page.gaps(between)))
        return write({'machine': machine(), 'gaps': between and asdict(between)})
    if arguments.only == 'participants':
        joined = participants.section(arguments.participant_seconds, done=done)
        print('\n'.join(participants.page(joined)))
        return write({'machine': machine(), 'participants': joined and [
            asdict(row) for row in joined]})
    if arguments.only == 'latency':
        turns = latency.section(arguments.latency_seconds, done=done)
        print('\n'.join(page.latency(turns)))
        return write({'machine': machine(), 'latency': turns and asdict(turns)})
    if arguments.only == 'collision':
        clear, keepers = collision.section(), barriers.section()
        print('\n'.join([*collision.page(clear), *barriers.page(keepers)]))
        return write({'machine': machine(), 'collision': [asdict(row) for row in clear],
                      'barriers': [asdict(row) for row in keepers]})
    if arguments.only == 'batch':
        many = batch.section()
        print('\n'.join(page.batch(many)))
        return write({'machine': machine(), 'states a second': [asdict(row) for row in many]})
    if arguments.only == 'long_chain':
        segments = long_chain.section()
        print('\n'.join(page.long_chain(segments)))
        return write({'machine': machine(), 'long chain': [asdict(row) for row in segments]})
    if arguments.only == 'gpu':
        there = gpu.section()
        print('\n'.join(gpu.page(there)))
        return write({'machine': machine(), 'GPU': there if isinstance(there, str) else [
            asdict(row) for row in there]})
    if arguments.only == 'kinematics':
        print('\n'.join(kinematics.page(solved := kinematics.section())))
        return write({'machine': machine(), 'kinematics': [asdict(row) for row in solved]})
    if arguments.only == 'parked':
        print('\n'.join(parked.page(times := parked.section())))
        return write({'machine': machine(), 'parked': times})
    if arguments.only == 'reach':
        print('\n'.join(reach.page(passed := reach.section())))
        return write({'reach': [asdict(row) for row in passed]})
    if arguments.only == 'ticks':
        arrived = panda.arrivals()
        print('\n'.join(page.arrived(arrived)))
        return write({'machine': machine(), 'arrivals': [asdict(row) for row in arrived]})
    lengths = chains.growth(seconds=1.5)
    done('chains')
    linear = [name for name in lengths[-1].rows if name in METHODS]
    loading, longest = chains.longest(linear)
    done(f'{chains.LONGEST} joints')
    depths, many, solved = depth.depths(), batch.section(), kinematics.section()
    done('cyclic reduction, many states, inverse kinematics')
    parallel, model = teams.teams(seconds=1.0)
    exchanges = teams.exchanges(seconds=1.0)
    segments = long_chain.section()
    done('teams')
    rows, tick = panda.update(seconds=8.0), panda.tick(seconds=2.0)
    arrived = panda.arrivals()
    done('Panda')
    clear, keepers = collision.section(), barriers.section()
    done('clearance')
    robots = {case: trees.rows(case, seconds=2.0) for case in trees.CASES}
    done('several tips')
    counts = operations.section()
    done('operations on trees')
    over_dds = nodes.section(arguments.node_seconds, done=done)
    turns = latency.section(arguments.latency_seconds, done=done)
    between = gaps.section(arguments.gap_seconds, priority=arguments.gap_priority, done=done)
    in_process = cycles.section(arguments.cycle_seconds, done=done)
    cold, warm = first_use()
    done('first use')
    where = machine()
    text = '\n'.join([
        *page.head(where),
        *page.update(rows),
        *page.growth(lengths),
        *page.longest(loading, longest),
        *page.trees(robots),
        *page.methods(rows, lengths),
        *counts, '',
        *page.batch(many),
        *gpu.page(gpu.section()),
        *kinematics.page(solved),
        *page.depth(depths),
        *page.long_chain(segments),
        *page.parallel(parallel, exchanges, model),
        *page.tick(tick, arrived),
        *collision.page(clear),
        *barriers.page(keepers),
        *reach.page(reach.section()),
        *page.latency(turns),
        *page.nodes(over_dds),
        *page.gaps(between),
        *page.cycles(in_process),
        *page.losses(rows, lengths, many, cold, warm),
    ])
    print(text)
    DOC.mkdir(exist_ok=True)
    (DOC / 'benchmarks.md').write_text(text, encoding='utf-8')
    plot.save(lengths, DOC / 'benchmarks.png')
    teams.save(parallel, model, DOC / 'parallel.png')
    write({
        'machine': where, 'panda': [asdict(row) for row in rows],
        'several tips': {case: [asdict(row) for row in found]
                         for case, found in robots.items()},
        'tick': [asdict(row) for row in tick], 'arrivals': [asdict(row) for row in arrived],
        'collision': [asdict(row) for row in clear],
        'barriers': [asdict(row) for row in keepers],
        'states a second': [asdict(row) for row in many],
        'kinematics': [asdict(row) for row in solved],
        'chains': [asdict(at) for at in lengths], 'longest': [asdict(row) for row in longest],
        'loading the longest [s]': loading, 'depth': [asdict(row) for row in depths],
        'long chain': [asdict(row) for row in segments],
        'teams': [asdict(row) for row in parallel],
        'exchanges of teams': [asdict(row) for row in exchanges],
        'model of teams': asdict(model),
        'latency': turns and asdict(turns),
        'nodes': over_dds and asdict(over_dds), 'gaps': between and asdict(between),
        'cycles': in_process and asdict(in_process),
        'first use, later uses [s]': (cold, warm)})
    wrong = [row.name for row in rows if row.is_off]
    wrong += [f'{row.name}, {case}' for case, found in robots.items() for row in found
              if row.is_off]
    wrong += [f'{row.name}, {at.n} joints' for at in lengths for row in at.rows.values()
              if row.is_off]
    if wrong:
        sys.exit('not timed, because their results are wrong: ' + '; '.join(wrong))


if __name__ == '__main__':
    main()
