# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The sections of doc/measurements/benchmarks.md; each public function returns one's lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import math

from batch import (
    ALL_TERMS,
    BATCH,
    CONTROLLERS,
    FEW_TERMS,
    LAWS,
    PINOCCHIO_LAW,
    PINOCCHIO_TERMS,
    SINGLE_TERMS,
    SINGLY,
    STEPS,
    Throughput,
)
from chains import ABA, ASKED, exponent, LAW, Length, LONGEST, Longest, MUJOCO, SLOW, SPREAD
from contenders import MuJoCo
import cycles as of_cycles
from depth import Depth
import gaps as of_gaps
import latency as of_latency
from long_chain import LongChain, SWEEP
from nodes import (
    BUSY,
    Cell,
    CONTROLLER,
    EVENTS,
    FCI,
    IDLE,
    PRIORITY,
    Section,
)
from osc_ros.dynamics.methods import METHODS
from osc_ros.loop.process.realtime import SWITCH_INTERVAL
import panda
from panda import row_name
from race import LARGEST_RESIDUAL, Row
from teams import Exchange, FITTED, Model, PREDICTED, Team

# Purpose of each method.
PURPOSES = {
    'sweep': 'the default for one tip: control loops, many states at once',
    'ldl': "the papers' factorization, one block after another; on long chains slightly faster "
           "per link than 'sweep'",
    'bcr': 'the same in ⌈log₂ n⌉ levels, the blocks of a level independent of each other; in '
           'NumPy, for reading and for checks',
    'recursive': 'several tips, floating bases, massless links: propagates mobilities joint by '
                 'joint; least work if the paths to the tips share many joints',
    'efpa': 'the default for several tips: propagates forces over many joints at once, so that '
            'each further pair of tips costs one product',
    'sfa': 'several tips on short branches; its factors of M can be reused for more right-hand '
           'sides; O(n d²), not for long chains',
    'dense': 'the textbook formulas, for reading and for checks',
}

# Driver of an arm, rate of its joint states [Hz], deadline of a command [µs], and the effect of a
# command that misses it: see doc/drivers.md.
HOLDS = 'the last torque stays for one more period'
DEADLINES = (
    ('Franka, a control loop inside libfranka (FCI)', 1000, FCI,
     'it counts as lost; 20 lost in a row abort the motion'),
    ('Franka with franka_ros2 and an effort controller', 1000, 1000.0, HOLDS),
    ('the same, joint states at half the rate', 500, 2000.0, HOLDS),
    ('UR e-Series, forward_effort_controller', 500, 2000.0, HOLDS),
    ('KUKA iiwa by FRI, 1 ms', 1000, 1000.0, HOLDS),
    ('KUKA iiwa by FRI, 2 ms', 500, 2000.0, HOLDS),
    ('KUKA iiwa by FRI, 4 ms', 250, 4000.0, HOLDS),
    ('Kinova Gen3, low level, a bridge node of your own', 1000, 1000.0,
     'the bridge must repeat the last one'),
)
SELDOM = 1e-3  # share of late commands that hardly affects an arm that repeats the last torque


def head(where: dict[str, str]) -> list[str]:
    """Return the title and the conditions of all measurements."""
    return [
        '# Time of one update of the law', '',
        '`make bench` (`benchmark/`) writes this page. All figures are of one run, called '
        'from Python. Each call is timed on its own, including about 0.1 µs of the clock; '
        'the contenders take turns; times are medians. No contender gets the same state '
        'twice in a row, because some cache results of the last position. Every result is '
        f'checked before it is timed; a contender whose error exceeds {LARGEST_RESIDUAL:.0e} '
        'is not timed. osc_ros is called as `osc.torque(q, qd, u, out=out)` unless a row '
        'says otherwise.', '',
        ', '.join(f'{key} {value}' for key, value in where.items()) + '.', '',
    ]


def update(rows: Sequence[Row]) -> list[str]:
    """Return the section of one update on the Panda."""
    time = {row.name: row.median for row in rows}
    ours, tuned = time[panda.TORQUE], time[panda.TUNED]
    lines = [
        '## One update of the law, Panda, 7 joints', '',
        f'`osc.torque` takes {ours / time[panda.TEXTBOOK]:.2f} of the time of Pinocchio as '
        f'usually written, {ours / tuned:.2f} of that of the fastest of three tuned ways, '
        f'and {ours / time[panda.NUMBA]:.2f} of that of this way if numba compiles its 6 × 6 '
        "algebra. The residual is the largest difference from Pinocchio's dense formulas "
        'over all timed states, relative to the largest entry.', '',
        *_table(['', 'median µs', 'p99 µs', 'ratio to tuned', 'residual'], (
            [_named(row), _us(row.median), _us(row.p99), _ratio(row.median, tuned),
             _residual(row.residual)] for row in rows)), '',
        '"As usually written": computeMinverse, nonLinearEffects, the frame Jacobian and its '
        'time variation, a 6 × 6 inverse. "Tuned": the fastest of M⁻¹ as a by-product of ABA '
        '(minverse); composite bodies and LAPACK (cholesky); the Delassus matrix of a clamped '
        'tip (delassus); J̇q̇ is the classical acceleration, and Λ⁻¹ is factored by Cholesky. '
        'MuJoCo: the faster of its sparse factorization and of mj_fullM with LAPACK.',
    ]
    if panda.FRAX not in time:
        lines[-1] += ' frax (JAX) is not installed here and therefore left out.'
    return [*lines, '']


def growth(lengths: Sequence[Length]) -> list[str]:
    """Return the section of chains of all lengths."""
    return [
        '## Chains of 2 to 16,384 joints', '',
        '![Time of a call against the number of joints](benchmarks.png)', '',
        *_asked(lengths),
        'Time of one call [µs]; in brackets the residual, the difference between the tip '
        'acceleration that the torque causes and the commanded one:', '',
        *_times(lengths), '',
        "Up to 300 joints Pinocchio's ABA computes the residual, relative to the commanded "
        "acceleration (for the row of ABA itself: q̈ compared with 'recursive'). For longer "
        "chains the forward dynamics of 'recursive' computes it ('sweep' for the methods "
        "'recursive', 'efpa' and 'sfa', which share articulated bodies or the tree). There "
        'q̈ is propagated along the chain, and the residual is relative to the terms that '
        'cancel in J q̈ + J̇q̇: the largest entry of |J||q̈| + |J̇q̇| + |u|. Pinocchio is '
        'measured up to 300 joints: the memory of its Data grows as n³, and 24 GB were not '
        f'enough for 1000 joints. MuJoCo accepts chains of at most {MuJoCo.LONGEST} bodies. '
        'A method is not measured on chains longer than the first on which a call took more '
        f'than {SLOW / 1000000.0:g} s. Laws that invert Λ⁻¹ need six joints.', '',
        'The chains are rods of 0.1 m and 0.3 kg, upright at q = 0. Every joint is bent at '
        f'random by up to {SPREAD} rad, so that long chains are tangled. Joint velocities '
        'are of the order of 1/n rad/s, because they add up along the chain. The chains fall '
        'under gravity while the law drives the tip; the last table has the joint '
        'accelerations.', '',
        'Growth of the time: slope of log time over log n, fitted over the upper half of '
        "each method's lengths:", '',
        *_exponents(lengths), '',
        'Time per link [µs]:', '',
        *_per_link(lengths), '',
        'Further checks: the largest entry of Λ⁻¹Λ - 1, with Λ⁻¹ of the method and Λ of '
        "'recursive' (or 'sweep', as above); the residual of the torque of 'sweep' with "
        "MuJoCo's forward dynamics, relative to the commanded acceleration; and the largest "
        'q̈ [rad/s²] of two of the states:', '',
        *_checks(lengths), '',
    ]


def longest(loading: float, rows: Sequence[Longest]) -> list[str]:
    """Return the section of the longest chain."""
    return [
        f'## A chain of {LONGEST:,} joints', '',
        'Each method that was measured on the longest chains of the table above. Memory is the '
        'peak allocation of the method and one call, by tracemalloc, without the robot. "Error" '
        "is the largest difference between the tip's acceleration, by the forward dynamics "
        'of the reference, and the commanded one, which is about 1 [rad/s², m/s²]; '
        '"relative error" is relative to the terms that cancel.', '',
        *_table(['method', 'ms a call', 'µs a link', 'bytes a link', 'reference', 'error',
                 'relative error'], (
            [f"'{row.method}'", f'{1e3 * row.seconds:.1f}', f'{1e6 * row.seconds / LONGEST:.3f}',
             f'{row.memory:.0f}', f"'{row.judge}'", f'{row.off:.0e}', f'{row.relative:.0e}']
            for row in rows)), '',
        "The residual includes the rounding errors of the reference's own q̈.", '',
        f'`Robot.from_urdf` takes {loading:.1f} s for this chain.', '',
    ]


def trees(robots: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return the section of robots with several tips."""
    lines = [
        '## Several tips', '',
        'One update of the law for all tips together. The ratio is to Pinocchio, called from '
        'Python (computeMinverse, ABA, frame Jacobians, Cholesky in LAPACK); the residual is '
        'that of Λ⁻¹ and a⁰.', '']
    for robot, rows in robots.items():
        judge = rows[-1].median
        lines += [f'{robot}:', '', *_table(
            ['', 'median µs', 'p99 µs', 'ratio', 'residual'],
            ([row.name if row.residual is None else f"'{row.name}'", _us(row.median),
              _us(row.p99), _ratio(row.median, judge), _residual(row.residual)]
             for row in rows)), '']
    return lines


def methods(rows: Sequence[Row], lengths: Sequence[Length]) -> list[str]:
    """Return the section on the choice of the method."""
    time = {row.name: row.median for row in rows}
    asked = _at(lengths, ASKED).rows
    lines = []
    for method in METHODS:
        last = [at for at in lengths if method in at.rows][-1]
        median = time[row_name(method)]
        at_asked = asked[method].median if method in asked else math.nan
        lines.append([
            f"'{method}'", _us(median), _ratio(median, time[row_name('sweep')]),
            _ratio(at_asked, asked['sweep'].median),
            f'{last.rows[method].median / last.n:.3g} at {last.n:,}', PURPOSES.get(method, '')])
    return [
        '## Which method when', '',
        "The default of `OperationalSpace` is 'sweep' for one tip and 'efpa' for several.", '',
        *_table(['method', 'µs, Panda', "to 'sweep'", f"to 'sweep', {ASKED} joints",
                 'µs a link, long chains', 'what it is for'], lines), '',
    ]


def batch(rows: Sequence[Throughput]) -> list[str]:
    """Return the section of many states."""
    rate = {(row.name, row.cores): row.rate for row in rows}
    loops = {row.name: row.rate for row in rows if row.cores == 1}
    everything = max(row.cores for row in rows)

    def reference(row):
        terms = 'evaluate' in row.name or row.name == PINOCCHIO_TERMS
        return row.cores * loops[PINOCCHIO_TERMS if terms else PINOCCHIO_LAW]

    lines = [
        '## Many states', '',
        f'The Panda at random states that are not near a singularity: {BATCH:,} states in a call, '
        f'or {SINGLY:,} calls for one state each. "To Pinocchio\'s": Pinocchio in a loop, on as '
        'many cores. MuJoCo has no law for a batch; its row is forward dynamics and integration. '
        '"Memory": the rate at which one core could copy the arguments and results. '
        'The residual is the largest difference from Pinocchio; of whole controllers, from a Law '
        f'each ({CONTROLLERS:,} of them).', '',
        *_table(['', 'cores', 'states/s', "to Pinocchio's", 'memory, states/s', 'residual'], (
            [row.name, str(row.cores), f'{row.rate:,.0f}',
             '' if row.name == STEPS else f'{row.rate / reference(row):.2f}',
             f'{row.floor:,.0f}', _residual(row.residual)] for row in rows)), '']
    if everything > 1:
        gains = (f'{name} {rate[name, everything] / rate[name, 1]:.2f}'
                 for name in (LAWS, ALL_TERMS, FEW_TERMS))
        lines += [f"{everything} cores to one core: {', '.join(gains)}.", '']
    return lines


def depth(rows: Sequence[Depth]) -> list[str]:
    """Return the section of cyclic reduction."""
    deeper = [row.n for row in rows if row.reduction != row.expected]
    verdict = 'for every n' if not deeper else f'but not for n = {deeper}'
    return [
        '## Depth of block cyclic reduction', '',
        f'The number of sequential levels is ⌈log₂ n⌉ {verdict}. The residual is that of a '
        'solution, |a x - b| relative to |b|.', '',
        *_table(['n blocks', 'levels', '⌈log₂ n⌉', 'steps of block LDLᵀ', 'residual'], (
            [f'{row.n:,}', str(row.reduction), str(row.expected), f'{row.ldl:,}',
             f'{row.residual:.0e}'] for row in rows)), '',
    ]


def long_chain(rows: Sequence[LongChain]) -> list[str]:
    """Return the section of long chains in vector lanes."""
    sweeps = {(row.n, row.busy): row for row in rows if row.name == SWEEP}

    def columns(row: LongChain) -> list[str]:
        sweep = sweeps[row.n, row.busy]
        return [f'{row.n:,}', str(row.busy), row.name, str(row.processes), _us(row.median),
                _us(row.mean), f'{sweep.median / row.median:.2f}', f'{sweep.mean / row.mean:.2f}',
                _residual(row.residual) if row is not sweep else '']

    return [
        '## Long chains in vector lanes', '',
        "The law of one chain of revolute joints by one sweep, by 'sweep' as "
        '`OperationalSpace(robot)` uses it (segments of the chain in the vector lanes of one '
        'core, from 512 joints on), and by processes that do the same with their parts of the '
        'chain. The contenders are timed in turns of 50 ms. "Busy" is the number of other '
        'processes that compute all the time. A ratio is the time of the sweep divided by that '
        'of the row; the mean counts delays by other processes too. The residual is the '
        'difference from the torque of the sweep.', '',
        *_table(['joints', 'busy', 'way', 'processes', 'median µs', 'mean µs',
                 'ratio of medians', 'ratio of means', 'residual'], map(columns, rows)), '',
    ]


def parallel(rows: Sequence[Team], exchanges: Sequence[Exchange], model: Model) -> list[str]:
    """Return the section of teams of processes."""
    sizes = sorted({row.workers for row in rows})
    crossovers = '; '.join(f'{workers}: {model.crossover(workers):,.0f}' for workers in sizes)
    predicted = [workers for workers in PREDICTED if workers >= 2]
    return [
        '## Teams of processes', '',
        '![Time and speed-up of teams](parallel.png)', '',
        'The same chains with `OperationalSpace(robot, workers=P)`, without vector lanes: medians '
        'of calls from Python, one process and the team in turns, with no worker asleep. "Woken": '
        'the workers sleep before every call and whenever they wait. The residual is the '
        'difference from the torque of one process. "Eliminations" is the number of joints '
        'eliminated one after another; the papers need ⌈log₂ n⌉ with n processors, as does '
        'this method with one body per processor.', '',
        *_table(['joints', 'P', '1 process µs', 'P µs', 'p99 µs', 'speed-up', 'efficiency',
                 'woken µs', 'residual', 'bodies at the base', 'eliminations', '⌈log₂ n⌉'], (
            [f'{row.n:,}', str(row.workers), _us(row.alone), _us(row.median), _us(row.p99),
             f'{row.speed_up:.2f}', f'{row.speed_up / row.workers:.2f}', _us(row.woken),
             _residual(row.residual), f'{row.bodies:,}', f'{row.eliminations:,}',
             str(math.ceil(math.log2(row.n)))] for row in rows)), '',
        'Time that the processes of a team spend in each call on waiting for each other, while no '
        'worker sleeps: the time of a call of the team minus that of one process, on chains of '
        f'{max(8, exchanges[0].workers)} joints (of P joints for more workers): '
        + '; '.join(f'P = {row.workers}: median {row.median:.1f} µs, p99 {row.p99:.1f} µs'
                    for row in exchanges) + '.', '',
        f'A model of the time, fitted to the chains up to {FITTED:,} joints: T(n, P) = call '
        '+ link n₀ + (P > 1)(apart n₀ + exchange ⌈log₂ P⌉ + scan P), with n₀ = n r/(r + P - '
        f'1) bodies at the base. Here call = {model.call:.1f} µs, link = {model.link:.3f} '
        f'µs, r = {model.ratio:.2f} (cost of a body in a segment between two others, '
        f'relative to one in the base segment), apart = {model.apart:.3f} µs (extra cost per '
        f'body of three phases compared with one sweep), exchange = {model.exchange:.1f} µs '
        f'(synchronization per call and level), scan = {model.scan:.2f} µs (assumed). By '
        'this model P workers are faster than one from this number of joints on: '
        f'{crossovers}.', '',
        'Speed-up that the model predicts for more workers, each on a core of its own. '
        '**This is a prediction: none of it was measured.**', '',
        *_table(['joints', *map(str, predicted)], (
            [f'{n:,}', *(f'{model.time(n, 1) / model.time(n, workers):.1f}' if workers <= n else ''
                         for workers in predicted)] for n in (256, 1024, 4096, 16384, 65536))),
        '',
    ]


def tick(rows: Sequence[Row], arrivals: Sequence[panda.Arrival]) -> list[str]:
    """Return the section of a controller's tick."""
    [whole] = [row for row in rows if row.name == panda.WHOLE]
    stages = [row for row in rows if row.name.startswith('`')]
    return [
        "## A controller's tick, Panda", '',
        *_table(['', 'median µs', 'p99 µs', f'of `{rows[0].name}`'],
                ([row.name, _us(row.median), _us(row.p99), f'{row.median / rows[0].median:.2f}']
                 for row in rows)), '',
        f'The last {len(stages)} rows are compiled calls: a plain tick is one of `law_torque`, '
        f'which takes {stages[-1].median / whole.median:.0%} of it; `setup_torque` is a part of '
        'that. The torques of these ticks are not checked here, but in the tests.', '',
        *arrived(arrivals),
    ]


def arrived(rows: Sequence[panda.Arrival]) -> list[str]:
    """Return the table of ticks in which a new goal or setting takes effect."""
    plain = rows[0].median
    return [
        f'CPU time of `Law.torque` in the tick after each of {panda.ARRIVALS} new goals, '
        'settings and payloads of each kind, by the clock of the ticking thread; and CPU '
        'time of the call before it that passes them to the law (`Law.follow`, '
        '`Law.change`), which is not part of the tick. The ratio is between medians; the '
        f'bound is {panda.ARRIVAL_RATIO:g}. In the row "from rest", the residual is the '
        'distance between target and goal when the next goal comes:', '',
        *_table(['', 'median µs', 'p99 µs', 'max µs', 'ratio', 'call before, µs', 'residual'], (
            [row.name, _us(row.median), _us(row.p99), _us(row.longest),
             f'{row.median / plain:.1f}', _us(row.before) if row.before else '',
             '' if row.residual is None else _residual(row.residual)] for row in rows)), '',
    ]


def gaps(found: of_gaps.Section | None) -> list[str]:
    """Return the section of the gaps between commands while other messages arrive."""
    lines = ['## Longest gap between commands', '']
    if found is None:
        return [*lines, 'rclpy is not installed here: not measured.', '']
    lines += [
        'osc_controller runs as in normal use, with the Panda, '
        + (f'with `realtime.priority` {found.priority} and `realtime.lock_memory`, and the '
           'publisher of the joint states has the same priority, so that other programs delay '
           'neither. '
           if found.priority else 'without real-time priority. ')
        + 'A second process publishes joint states at the given rate and records when each '
          'command arrives. A third process sends one kind of message or request at '
          f'{of_gaps.OFTEN:g} Hz (trajectories of 10,000 points: {of_gaps.SELDOM:g} Hz), for '
          f"{found.seconds:g} s per row (`make bench ARGS='--only gaps --gap-seconds 10'` "
          'takes 10 s and measures only this section). All gaps are in periods of the joint '
          'states: 1 means a command for every state, on time. A gap that begins while '
          'messages are sent is measured to its end.', '',
        'The rows "nothing" show the noise of the machine, whose load average before was '
        f'{found.load_average[0]:.2f}. "More" is the longest gap minus the median of the '
        f'longest gaps of these rows; the bound is {of_gaps.ALLOWED:g}. A single long gap '
        f'may be noise, many gaps of more than {of_gaps.WIDE:g} periods are not. "States" is '
        'the longest gap between two joint states, the delay of the sender itself. "Missed" '
        'counts states without a command before the next state. Latencies are from a state '
        'to its command.', '']
    for rate in dict.fromkeys(cell.rate for cell in found.cells):
        lines += [f'Joint states at {rate} Hz:', '', *_table(
            ['arrives', 'sent', 'longest', 'more', 'p99.9', f'> {of_gaps.WIDE:g} periods',
             'states', 'missed', 'p50 µs', 'p99 µs', 'CPU'],
            (_gap_cell(cell) for cell in found.cells if cell.rate == rate)), '']
    return lines


def _gap_cell(cell: of_gaps.Cell) -> list[str]:
    return [cell.disturbance.name, f'{cell.sent:,}' if cell.sent else '', f'{cell.longest:,.1f}',
            f'{cell.more:+,.1f}', f'{cell.p999:,.1f}', f'{cell.wide:,}', f'{cell.pause:,.1f}',
            f'{cell.missed:,} of {cell.states:,}', f'{cell.p50:,.0f}', f'{cell.p99:,.0f}',
            f'{cell.cpu:.0%}']


def cycles(found: of_cycles.Section | None) -> list[str]:
    """Return the section of the cycle of osc_arm."""
    lines = ['## From state to torque in the process of osc_arm, at 1 kHz', '']
    if found is None:
        return [*lines, 'rclpy is not installed here: not measured.', '']
    bound = f'{of_cycles.LATE:g}'
    return [
        *lines,
        'osc_arm has the arm in the process of its control loop, so that neither states nor '
        f"torques pass DDS. {found.seconds:g} s per row (`make bench ARGS='--only cycles "
        "--cycle-seconds 5'` takes 5 s and measures only this section); load average of the "
        f'machine before: {found.load_average[0]:.2f}. Rows with SCHED_FIFO have locked memory '
        'too. During each row, but those of the empty loop, another process sends pose targets '
        f'at {of_cycles.TARGETS:g} Hz, changes a parameter every second, and subscribes to '
        'every topic of the node. "Busy": a process without priority keeps one core busy.', '',
        'Latencies of osc_arm and of the empty loop are from the return of `read` to the call '
        'of `write`, recorded in the loop (parameter `record_cycles`); over DDS they are from '
        'just before the publication of the state to the arrival of the command, by a process '
        'in place of the hardware (with the priority of the controller). "Late": commands more '
        f'than {bound} µs after their state was due; "latest": the delay of the latest. States '
        "of hardware 'mujoco' are due once per ms, counted from the earliest one of each "
        'second; over DDS a state is due when it is published. franka-sim is itself late, on a '
        'computer that it shares with the loop, so that no time is known at which a state was '
        f'due. "Wide": gaps between two states (over DDS: commands) of more than 1 ms + {bound} '
        'µs.' + (f' Left out: {found.left_out}.' if found.left_out else ''), '',
        *_table(['loop', 'other core', 'cycles', 'p50 µs', 'p99 µs', 'p99.9 µs', 'longest µs',
                 f'> {bound} µs', 'late', 'latest µs', 'wide', 'unanswered'],
                (_cycle_cell(cell) for cell in found.cells)), '']


def _cycle_cell(cell: of_cycles.Cell) -> list[str]:
    return [cell.way.name, cell.way.load, f'{cell.cycles:,}',
            *(f'{time:,.0f}' for time in (cell.p50, cell.p99, cell.p999, cell.longest)),
            f'{cell.slow:,}', '' if cell.late is None else f'{cell.late:,}',
            '' if cell.latest is None else f'{cell.latest:,.0f}', f'{cell.wide:,}',
            f'{cell.unanswered:,}']


# Work of the threads of osc_controller, by their names in /proc.
THREADS = {
    'main': "the node: parameters, targets, diagnostics and reports. Python; takes the loop's "
            'lock for some µs',
    'control loop': 'joint states, law, supervisor, commands. Compiled code; Python where it must '
                    'decide',
    'plans': "motions of the targets, beside the loop; Python, with the loop's lock for 0.2 ms",
    'python': "sleep until they are needed: a timer thread of the main thread's executor for each "
              "clock, rclpy's signals, the graph of ROS, the flush of the log; no Python, apart "
              'from a thread that waits for SIGINT and SIGTERM',
    'dds.shm': 'receive what others send through shared memory; one wakes the loop',
    'dds.udp': 'receive discovery, and messages of other machines',
    'dds.ev': 'timers of DDS: acknowledgements of reliable topics',
    'dds.asyn': 'would send what is too large for one packet',
    'dds.shm.wdog': 'looks for dead users of the shared memory',
}


def latency(found: of_latency.Section | None) -> list[str]:
    """Return the section that compares osc_controller with an empty callback."""
    lines = ['## osc_controller and an empty callback, over DDS', '']
    if found is None:
        return [*lines, 'rclpy is not installed here: not measured.', '']
    rate = max(row.rate for row in found.rows)
    return [
        *lines,
        f'Latencies as in the next section, without SCHED_FIFO, {found.seconds:g} s per row, in '
        f"{of_latency.TURNS} turns, one contender after the other (`make bench ARGS='--only "
        "latency --latency-seconds 60'` measures only this, 60 s per row); load average of the "
        f'machine before: {found.load_average[0]:.2f}. The empty callbacks read the stamp, '
        'compute nothing, and publish a command with this stamp; their executor is the events '
        'executor of rclpy. In the first row of a rate the messages are Python objects; in the '
        'second they are bytes, as in osc_controller. In the fourth, one client reads all topics '
        'of the controller at their normal rates, and another one sets a parameter each second. '
        '"Changes": others change a gain and the payload 10 times a second, and send a path of '
        '10,000 poses each second. "Busy thread": a thread of the same process runs Python all '
        'the time. In the last row, `osc_viewer` subscribes to all that its page shows. The rows '
        'with "shared '
        'memory" have the profile config/fastdds_shared_memory.xml, the others UDP on the '
        'loopback, config/fastdds.xml; a profile in the environment replaces both. '
        'Ratios are relative to the first row: wanted are at most 1 for p50 and p99, and 1.3 '
        'for p99.9.', '',
        *_table(['', 'Hz', 'p50 µs', 'p99 µs', 'p99.9 µs', 'max µs', 'p50 ratio', 'p99 ratio',
                 'p99.9 ratio', 'unanswered', 'CPU'], (
            [row.name, f'{row.rate}',
             *(f'{x:,.0f}' for x in (row.p50, row.p99, row.p999, row.longest)),
             *(f'{ratio:.2f}' for ratio in row.ratios), f'{row.unanswered} of {row.states:,}',
             f'{row.cpu:.0%}'] for row in found.rows)), '',
        f'All threads of osc_controller, observed for {of_latency.OBSERVED:g} s at {rate} Hz:', '',
        *_table(['', 'threads', 'CPU µs per state', 'goes to sleep, 1/s', 'work'], (
            [row.name, f'{row.count}', f'{row.cpu:.1f}', f'{row.switches:,.0f}',
             next(THREADS[name] for name in sorted(THREADS, key=len, reverse=True)
                  if row.name.startswith(name))]
            for row in sorted(found.threads, key=lambda row: -row.cpu))), '',
        'Only threads that run Python need the GIL, in normal operation the main thread: compiled '
        'code answers the states without it. Where Python answers a state and the main thread '
        'runs Python code, the loop gets the GIL '
        f'after at most {1e6 * SWITCH_INTERVAL:.0f} µs (`sys.setswitchinterval`), unless the main '
        'thread is in a function of C that keeps it. Automatic garbage collection is off: the '
        'main thread collects the few objects made since the start when it publishes '
        'diagnostics, once a second.', '']


def nodes(found: Section | None) -> list[str]:
    """Return the section of the nodes, over DDS."""
    lines = ['## From joint state to command, over DDS', '']
    if found is None:
        return [*lines, 'rclpy is not installed here: not measured.', '']
    fewest = min(cell.states for cell in found.cells)
    late = max(cell.metronome for cell in found.cells)
    said = '; '.join(found.realtime)
    lines += [
        f'Real processes with the Panda, {found.seconds:g} s per row (`make bench '
        f"ARGS='--node-seconds 60'` takes 60 s), at least {fewest:,} states"
        + (': their 99.9th percentile is about their maximum' if fewest < 2000 else '')
        + f'; load average of the machine before: {found.load_average[0]:.2f}. A process in '
          'place of the hardware publishes joint states of seven joints at a steady rate and '
          'sleeps until each is due (a spinning process would occupy a core that the others '
          f'need; in the worst row 99 % of the states were published less than {late:,.0f} '
          'µs late). A latency begins before this process publishes a state, and ends in its '
          'callback with the command that answers this state, by one clock: it includes '
          'serialization and two transfers over DDS. "Missed" counts states '
          'without a command before the next state. CPU is the share of one core used by the '
          'process that answers (and by the relay).', '',
        'The empty callback reads the stamp, computes nothing and publishes the same number of '
        'values. "Executor" is that of the main thread: the loop of osc_controller waits for the '
        'joint states without one, and takes them as bytes.', '']
    for load, words in (
            (IDLE, 'Without other load:'),
            (BUSY,
             'With a process that keeps the last core busy by counting; the nodes may run on '
             'any core:')):
        lines += [words, '', *_table(
            ['', 'executor', 'Hz', 'p50 µs', 'p99 µs', 'p99.9 µs', 'max µs', 'missed',
             'CPU'], (_cell(cell) for cell in found.cells if cell.load == load)), '']
    has_it = any(cell.way.priority for cell in found.cells)
    lines += [f'Real-time settings: {said}. '
              + ('In the rows with SCHED_FIFO the nodes have this priority (`realtime.priority`) '
                 'and locked memory (`realtime.lock_memory`), and so does the process in place of '
                 'the hardware, as drivers do.'
                 if has_it else
                 f'Therefore there are no rows with SCHED_FIFO {PRIORITY}.'), '']
    return lines + _deadlines(found.cells)


def _cell(cell: Cell) -> list[str]:
    way = cell.way
    return [way.name, way.executor, f'{way.rate}',
            *(f'{x:,.0f}' for x in (cell.p50, cell.p99, cell.p999, cell.longest)),
            f'{cell.missed:,} of {cell.states:,}', ' + '.join(f'{x:.0%}' for x in cell.cpu)]


def _deadlines(cells: Sequence[Cell]) -> list[str]:
    """Return the table of drivers and their deadlines."""
    at = {(cell.way.rate, cell.way.priority, cell.load): cell for cell in cells
          if (cell.way.node, cell.way.executor) == (CONTROLLER, EVENTS)}
    rows = []
    for name, rate, budget, then in DEADLINES:
        for priority in sorted({priority for at_rate, priority, _ in at if at_rate == rate}):
            found = [at[rate, priority, load] for load in (IDLE, BUSY)]
            shares = [(cell.late if budget == FCI else cell.missed) / cell.states
                      for cell in found]
            rows.append([f'… with SCHED_FIFO {priority}' if priority else name, f'{rate}',
                         f'{budget:,.0f}',
                         *(f'{cell.p999:,.0f}, {cell.longest:,.0f}' for cell in found),
                         *(f'{share:.2%}' for share in shares), '' if priority else then,
                         _verdict(budget, *shares)])
    return [
        'Comparison with the requirements of the drivers ([drivers.md](../drivers.md)), with '
        'the events executor:', '',
        *_table(['', 'Hz', 'within µs', 'idle: p99.9, max', 'busy: p99.9, max', 'late, idle',
                 'late, busy', 'a late command', 'suits'], rows), '',
        f'FCI leaves about {FCI:.0f} µs of each millisecond to a control loop, because the '
        "round trip to the arm and the arm's own computations need the rest. Such a loop "
        'belongs in ros2_control, in C++. On such an arm osc_ros commands an effort '
        'controller, which meets the deadline by itself; if osc_ros is late, the torque is '
        'only older. These figures are no guarantee: neither a kernel without PREEMPT_RT nor '
        'Python nor DDS guarantees a latency. They hold for the machine at the top of this '
        'page: measure on your own.', '']


def _verdict(budget: float, idle: float, busy: float) -> str:
    worst = max(idle, busy)
    if budget == FCI:
        return '**no**' if worst > 0.0 else 'none was late, but this is not guaranteed'
    if worst < SELDOM:
        return 'yes' + (', seldom late' if worst > 0.0 else '')
    return 'only without other load' if idle < SELDOM else '**no**'


def losses(rows: Sequence[Row], lengths: Sequence[Length],
           many: Sequence[Throughput], cold: float, warm: float) -> list[str]:
    """Return the section of cases in which others are faster."""
    time = {row.name: row.median for row in rows}
    tuned = time[panda.TUNED]
    lines = ['## Where others are faster', '']
    lines += [f'- `{row.name}`: {row.median / tuned:.1f} times the time of Pinocchio, tuned.'
              for row in rows if row.name.startswith('osc') and row.median > tuned]
    if time[panda.POSTURE] > time[panda.NUMBA_POSTURE]:
        lines.append('- With a posture, Pinocchio with compiled algebra is faster.')
    for name in (ABA, LAW, MUJOCO):
        faster = [at for at in lengths if name in at.rows
                  and at.rows['sweep'].median > at.rows[name].median]
        if faster:
            worst = max(at.rows['sweep'].median / at.rows[name].median for at in faster)
            lines.append(f"- Chains of {', '.join(str(at.n) for at in faster)} joints: 'sweep' "
                         f'takes up to {worst:.2f} times the time of {name}.')
    asked = _at(lengths, ASKED).rows
    for name in METHODS:
        if name in asked and asked[name].median > 3 * asked['sweep'].median:
            times = asked[name].median / asked['sweep'].median
            lines.append(f"- '{name}' takes {times:.0f} times the time of 'sweep' on {ASKED} "
                         'joints.')
    rate = {row.name: row.rate for row in many}
    single, loop = rate[SINGLE_TERMS], rate[PINOCCHIO_TERMS]
    if single < loop:
        lines.append(f'- Terms of single states in a loop: Pinocchio computes {loop / single:.1f}'
                     ' times as many per second.')
    lines.append(f'- The first start on a machine compiles the kernels, which takes {cold:.0f} '
                 f's; later starts load them and take {warm:.1f} s from import to a ready Panda.')
    return [*lines, '']


def _asked(lengths: Sequence[Length]) -> list[str]:
    at, ten_thousand = _at(lengths, ASKED), [one for one in lengths if one.n <= 10_000][-1]
    time = {name: row.median for name, row in at.rows.items()}
    links = [f'{one.rows["sweep"].median / one.n:.3f} at {one.n:,}'
             for one in (at, ten_thousand, lengths[-1])]
    others = [f"'{name}' {time[name] / time['sweep']:.1f}" for name in METHODS
              if name in time and name != 'sweep']
    return [
        f"On {ASKED} joints the whole law by 'sweep' takes {time['sweep'] / time[ABA]:.2f} "
        f"of the time of Pinocchio's ABA alone, and {time['sweep'] / time[LAW]:.2f} of that "
        f"of the law in Pinocchio. Its time per link [µs]: {', '.join(links)}. Times of the "
        f"other methods on {ASKED} joints, as multiples of 'sweep': {', '.join(others)}.", '',
    ]


def _times(lengths: Sequence[Length]) -> list[str]:
    names = _names(lengths)
    return _table(['joints', *map(_title, names)], (
        [f'{at.n:,}', *(_time(at, name) for name in names)] for at in lengths))


def _time(at: Length, name: str) -> str:
    """Return the time with its residual, or the reason why it was not measured."""
    if name in at.rows:
        row = at.rows[name]
        return f'{_us(row.median)} ({_residual(row.residual)})'
    if name in (ABA, LAW) and at.n >= 6:
        return 'memory ~ n³'
    if name == MUJOCO and at.n > MuJoCo.LONGEST:
        return 'too deep'
    return '< 6 joints' if at.n < 6 else 'slow'


def _exponents(lengths: Sequence[Length]) -> list[str]:
    lines = []
    for name in _names(lengths):
        slope, first, last = exponent(list(lengths), name)
        each = _at(lengths, last).rows[name].median / last
        lines.append([_title(name), f'{slope:.2f}', f'{first:,} to {last:,}', f'{each:.3g}'])
    return _table(['', 'slope', 'joints', 'µs a link at the last'], lines)


def _per_link(lengths: Sequence[Length]) -> list[str]:
    names = [name for name in _names(lengths) if name in METHODS or name == ABA]
    return _table(['joints', *map(_title, names)], (
        [f'{at.n:,}', *(f'{at.rows[name].median / at.n:.3g}' if name in at.rows else ''
                        for name in names)] for at in lengths))


def _checks(lengths: Sequence[Length]) -> list[str]:
    names = [name for name in _names(lengths) if name in METHODS]
    titles = ['joints', 'largest q̈', "'sweep' by MuJoCo"]
    return _table([*titles, *(f"Λ⁻¹Λ - 1, '{name}'" for name in names)], (
        [f'{at.n:,}', f'{at.qdd:.0f}', '' if at.by_mujoco is None else f'{at.by_mujoco:.0e}',
         *(f'{at.Lambda[name]:.0e}' if name in at.Lambda else '' for name in names)]
        for at in lengths))


def _names(lengths: Sequence[Length]) -> list[str]:
    return list(dict.fromkeys(name for at in lengths for name in at.rows))


def _at(lengths: Sequence[Length], n: int) -> Length:
    return next(at for at in lengths if at.n == n)


def _title(name: str) -> str:
    return f"'{name}'" if name in METHODS else name


def _named(row: Row) -> str:
    return f'{row.name} ({row.note})' if row.note else row.name


def _us(median: float) -> str:
    if math.isnan(median):
        return 'not timed'
    return f'{median:.2f}' if median < 100 else f'{median:,.0f}'


def _ratio(median: float, reference: float) -> str:
    return '' if math.isnan(median) else f'{median / reference:.2f}'


def _residual(residual: float | None) -> str:
    return 'reference' if residual is None else f'{residual:.0e}'


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table with the first column aligned left and all others aligned right."""
    return [f"| {' | '.join(titles)} |", '|---' + '|---:' * (len(titles) - 1) + '|',
            *(f"| {' | '.join(row)} |" for row in rows)]
