"""The sections of doc/benchmarks.md: every function returns the lines of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import math

from chains import ABA, ASKED, exponent, LAW, Length, LONGEST, Longest, MUJOCO, SLOW, SPREAD
from contenders import MuJoCo
from depth import Depth
import gaps as of_gaps
from nodes import (
    BUSY,
    Cell,
    CONTROLLER,
    ECHO,
    EVENTS,
    FCI,
    IDLE,
    ON_STATE,
    PRIORITY,
    Section,
)
from osc_ros.dynamics.methods import METHODS
import panda
from panda import row_name
from race import LARGEST_RESIDUAL, Row
from teams import Exchange, FITTED, Model, PREDICTED, Team

# What a method is for, beside what is measured.
PURPOSES = {
    'sweep': 'the default for one tip: control loops, many states at once',
    'ldl': "the papers' factorization, block after block; a little less a link than 'sweep' on "
           'long chains',
    'bcr': 'the same, a whole level of blocks at once, ⌈log₂ n⌉ levels: what a machine with many '
           'cores would run',
    'recursive': 'several tips, floating bases, massless links: mobilities handed on joint by '
                 'joint; least work where tips share a long way',
    'efpa': 'the default for several tips: forces handed on over many joints at once, so that '
            'every further pair of tips costs one product',
    'sfa': 'several tips on short branches; its factors of M serve more right-hand sides; '
           'O(n d²), no long chains',
    'dense': 'the textbook, to read and to check against',
}

# An arm's driver, the states that it sends [Hz], within what a command has to be there [µs], and
# what it does with one that comes later: see doc/drivers.md.
HOLDS = 'the last torque goes on for a period'
DEADLINES = (
    ('Franka, a loop of libfranka itself (FCI)', 1000, FCI,
     'it counts as lost, and 20 lost in a row abort the motion'),
    ('Franka by franka_ros2 and an effort controller', 1000, 1000.0, HOLDS),
    ('the same, its states at half the rate', 500, 2000.0, HOLDS),
    ('UR e-Series, forward_effort_controller', 500, 2000.0, HOLDS),
    ('KUKA iiwa by FRI, 1 ms', 1000, 1000.0, HOLDS),
    ('KUKA iiwa by FRI, 2 ms', 500, 2000.0, HOLDS),
    ('KUKA iiwa by FRI, 4 ms', 250, 4000.0, HOLDS),
    ('Kinova Gen3, low level, a relay of your own', 1000, 1000.0,
     'the relay has to send the last one'),
)
SELDOM = 1e-3  # share of late commands that an arm which holds the last torque hardly feels


def head(where: dict[str, str]) -> list[str]:
    """Return the title, and what all figures have in common."""
    return [
        '# What an update costs', '',
        'Made by `make bench` (`benchmark/`); it overwrites this page. All figures are of one '
        'run, called from Python, each call timed on its own (the clock, about 0.1 µs, is in '
        'them), contenders taking turns; times are medians. None is given a state twice running, '
        'for some keep what they found at the last position. Every answer is checked before it is '
        f'timed, and one that is off by more than {LARGEST_RESIDUAL:.0e} is not. Ours comes as '
        '`osc.torque(q, qd, u, out=out)` where nothing else is said.', '',
        ', '.join(f'{key} {value}' for key, value in where.items()) + '.', '',
    ]


def update(rows: Sequence[Row]) -> list[str]:
    """Return the section of one update on the Panda."""
    time = {row.name: row.median for row in rows}
    ours, tuned = time[panda.TORQUE], time[panda.TUNED]
    lines = [
        '## One update of the law, Panda, 7 joints', '',
        f'`osc.torque` takes {ours / time[panda.TEXTBOOK]:.2f} of Pinocchio as usually written, '
        f'{ours / tuned:.2f} of the fastest of three tuned ways, {ours / time[panda.NUMBA]:.2f} '
        "of that with its 6 × 6 algebra compiled by numba. The residual is from Pinocchio's dense "
        'form, relative to the largest entry, the worst of the states that are timed.', '',
        *_table(['', 'median µs', 'p99 µs', 'ratio to tuned', 'residual'], (
            [_named(row), _us(row.median), _us(row.p99), _ratio(row.median, tuned),
             _residual(row.residual)] for row in rows)), '',
        '"As usually written": computeMinverse, nonLinearEffects, the frame Jacobian and its time '
        'variation, a 6 × 6 inverse. Tuned: the fastest of M⁻¹ as a by-product of ABA (minverse); '
        'composite bodies and LAPACK (cholesky); the Delassus matrix of a clamped tip (delassus). '
        'J̇q̇ is the classical acceleration, Λ⁻¹ is solved by Cholesky. MuJoCo: the faster of its '
        'sparse factorization and of mj_fullM with LAPACK.',
    ]
    if panda.FRAX not in time:
        lines[-1] += ' frax (JAX) is not installed here and left out.'
    return [*lines, '']


def growth(lengths: Sequence[Length]) -> list[str]:
    """Return the section of chains of all lengths."""
    return [
        '## Chains of 2 to 16,384 joints', '',
        '![Time of a call against the number of joints](benchmarks.png)', '',
        *_asked(lengths),
        'One call in µs, and in brackets how far the acceleration that the torque gives the tip '
        'is from the commanded one:', '',
        *_times(lengths), '',
        "Up to 300 joints the residual is by Pinocchio's ABA, relative to the acceleration that "
        "is commanded (ABA's own: q̈ against that of 'recursive'). On longer chains it is by the "
        "forward dynamics of 'recursive' (of 'sweep', where that, 'efpa' and 'sfa' are judged, "
        'which share its articulated bodies or their tree), whose q̈ is carried along the chain, '
        'relative to what cancels in J q̈ + J̇q̇, the largest entry of |J||q̈| + |J̇q̇| + |u|. '
        'Pinocchio stops at 300 joints: its Data has memory that grows as n³, and at 1000 joints '
        '24 GB were not enough. MuJoCo takes no more than '
        f'{MuJoCo.LONGEST} bodies that hang one from another. A method is left out beyond the '
        f'length where a call took more than {SLOW / 1e6:g} s. Laws that invert Λ⁻¹ need six '
        'joints.', '',
        f'The chains are rods of 0.1 m and 0.3 kg, upright at q = 0, every joint bent at random '
        f'by up to {SPREAD} rad, so that long ones are tangled, with velocities of the order of '
        '1/n rad/s, because they add up along the chain. Nothing holds them: they fall under '
        'gravity while the tip is driven, and the joints accelerate as the last table says.', '',
        'How the time grows: slope of log time over log n, fitted over the upper half of the '
        'lengths of each:', '',
        *_exponents(lengths), '',
        'µs a link:', '',
        *_per_link(lengths), '',
        "What else was checked: the largest entry of Λ⁻¹Λ - 1, Λ⁻¹ being the method's and Λ that "
        "of 'recursive' (or 'sweep', as above), and, in a column of its own, the "
        "residual of the torque of 'sweep' as MuJoCo's forward dynamics sees it, relative to the "
        'commanded acceleration. And the largest q̈ [rad/s²] of two of the states:', '',
        *_checks(lengths), '',
    ]


def longest(loading: float, rows: Sequence[Longest]) -> list[str]:
    """Return the section of the longest chain."""
    return [
        f'## A chain of {LONGEST:,} joints', '',
        'Every method that got to the end of the table above. Memory is the peak of what the '
        'method and one call of it allocate, by tracemalloc, without the robot; off is the '
        "largest difference of the tip's acceleration from the commanded one by the judge's "
        'forward dynamics, in rad/s² and m/s², the commanded one being about 1, and relative to '
        'what cancels.', '',
        *_table(['method', 'ms a call', 'µs a link', 'bytes a link', 'judge', 'off', 'relative'], (
            [f"'{row.method}'", f'{1e3 * row.seconds:.1f}', f'{1e6 * row.seconds / LONGEST:.3f}',
             f'{row.memory:.0f}', f"'{row.judge}'", f'{row.off:.0e}', f'{row.relative:.0e}']
            for row in rows)), '',
        "Where a judge's q̈ has lost digits, that is in the residual too: no judge is more exact "
        'than its own forward dynamics.', '',
        f'`Robot.from_urdf` takes {loading:.1f} s for it.', '',
    ]


def trees(robots: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return the section of robots with several tips."""
    lines = [
        '## Several tips', '',
        'One update of the law for all tips together; the ratio is to Pinocchio from Python '
        '(computeMinverse, ABA, frame Jacobians, Cholesky in LAPACK), the residual that of Λ⁻¹ '
        'and a⁰.', '']
    for robot, rows in robots.items():
        judge = rows[-1].median
        lines += [f'{robot}:', '', *_table(
            ['', 'median µs', 'p99 µs', 'ratio', 'residual'],
            ([row.name if row.residual is None else f"'{row.name}'", _us(row.median),
              _us(row.p99), _ratio(row.median, judge), _residual(row.residual)]
             for row in rows)), '']
    return lines


def methods(rows: Sequence[Row], lengths: Sequence[Length]) -> list[str]:
    """Return the section that tells which method to take."""
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
        "Not told, `OperationalSpace` takes 'sweep' for one tip and 'efpa' for several.", '',
        *_table(['method', 'µs, Panda', "to 'sweep'", f"to 'sweep', {ASKED} joints",
                 'µs a link, long chains', 'what it is for'], lines), '',
    ]


def batch(rows: Sequence[tuple[str, float, float | None]]) -> list[str]:
    """Return the section of many states."""
    loop = next(rate for name, rate, _ in rows if name.startswith('Pinocchio'))
    return [
        '## Many states', '',
        f'J, J̇q̇, h, Λ⁻¹ and Λ of the Panda at random states, {panda.BATCH:,} of them at once or '
        f'{panda.SINGLY:,} one after another:', '',
        *_table(['', 'states/s', "to Pinocchio's", 'residual'], (
            [name, f'{rate:,.0f}', f'{rate / loop:.2f}', _residual(worst)]
            for name, rate, worst in rows)), '',
    ]


def depth(rows: Sequence[Depth]) -> list[str]:
    """Return the section of cyclic reduction."""
    deeper = [row.n for row in rows if row.reduction != row.expected]
    verdict = 'for every n' if not deeper else f'but not for n = {deeper}'
    return [
        '## Depth of block cyclic reduction', '',
        f'The levels that have to follow one another are ⌈log₂ n⌉ {verdict}. The residual is '
        'that of a solution, |a x - b| relative to |b|.', '',
        *_table(['n blocks', 'levels', '⌈log₂ n⌉', 'steps of block LDLᵀ', 'residual'], (
            [f'{row.n:,}', str(row.reduction), str(row.expected), f'{row.ldl:,}',
             f'{row.residual:.0e}'] for row in rows)), '',
    ]


def parallel(rows: Sequence[Team], exchanges: Sequence[Exchange], model: Model) -> list[str]:
    """Return the section of teams of processes."""
    sizes = sorted({row.workers for row in rows})
    crossovers = '; '.join(f'{workers}: {model.crossover(workers):,.0f}' for workers in sizes)
    predicted = [workers for workers in PREDICTED if workers >= 2]
    return [
        '## Teams of processes', '',
        '![Time and speed-up of teams](parallel.png)', '',
        'The same chains by `OperationalSpace(robot, workers=P)`: medians of calls from Python, '
        'one process and the team in turns, nobody asleep; woken: of a team that sleeps before '
        'every call and whenever it waits. The residual is from the torque of one process. '
        'Eliminations: joints that have to be eliminated one after another; the papers have '
        '⌈log₂ n⌉ of them with n processors, and so has this with one body each.', '',
        *_table(['joints', 'P', '1 process µs', 'P µs', 'p99 µs', 'speed-up', 'efficiency',
                 'woken µs', 'residual', 'bodies at the base', 'eliminations', '⌈log₂ n⌉'], (
            [f'{row.n:,}', str(row.workers), _us(row.alone), _us(row.median), _us(row.p99),
             f'{row.speed_up:.2f}', f'{row.speed_up / row.workers:.2f}', _us(row.woken),
             _residual(row.residual), f'{row.bodies:,}', f'{row.eliminations:,}',
             str(math.ceil(math.log2(row.n)))] for row in rows)), '',
        'What workers that are awake spend on each other in a call, measured on chains of '
        f'{max(8, exchanges[0].workers)} joints (of P joints for more workers), where there is '
        'hardly anything else, one process being subtracted: '
        + '; '.join(f'P = {row.workers}: median {row.median:.1f} µs, p99 {row.p99:.1f} µs'
                    for row in exchanges) + '.', '',
        "The papers' block cyclic reduction by the same teams, `OperationalSpace(robot, 'bcr', "
        'workers=P)`. Every joint is eliminated between two neighbours, as the sweep does beyond '
        'the base segment only, and the blocks have to be put together first: it is for '
        'processors in plenty. Levels: ⌈log₂⌉ of the joints of one '
        'member, and of the members. Eliminations: joints that one of so few processors '
        'eliminates one after another; with one for each joint they would be as many as levels.',
        '',
        *_table(['joints', 'P', "'sweep', 1 process µs", "'sweep', P µs", "'bcr', P µs",
                 "to 'sweep' by 1", "to 'sweep' by P", 'residual', 'levels', '⌈log₂ n⌉',
                 'eliminations'], (
            [f'{row.n:,}', str(row.workers), _us(row.alone), _us(row.median), _us(row.reduced),
             _ratio(row.reduced, row.alone), _ratio(row.reduced, row.median),
             _residual(row.reduced_residual), str(row.levels),
             str(math.ceil(math.log2(row.n))),
             f'{row.joints - 1 + math.ceil(math.log2(row.workers)):,}'] for row in rows)), '',
        f'A model, fitted to the chains up to {FITTED:,} joints: T(n, P) = call + link n₀ + '
        '(P > 1)(apart n₀ + exchange ⌈log₂ P⌉ + scan P), with n₀ = n r/(r + P - 1) bodies at the '
        f'base. Here call = {model.call:.1f} µs, link = {model.link:.3f} µs, r = '
        f'{model.ratio:.2f} (what a body costs with two handles over with one), apart = '
        f'{model.apart:.3f} µs (what three phases cost a body more than one sweep), exchange = '
        f'{model.exchange:.1f} µs (all that waiting and telling costs a call, a level), scan = '
        f'{model.scan:.2f} µs (assumed). From so many joints on P workers are faster than one, '
        f'by the model: {crossovers}.', '',
        'What the model predicts for more workers, each on a core of its own. **A prediction: '
        'none of this was measured.** Speed-up:', '',
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
        f'The last {len(stages)} rows are the functions that a plain tick calls, one after '
        f'another: their medians add up to {sum(row.median for row in stages):.1f} µs, '
        f'{sum(row.median for row in stages) / whole.median:.0%} of the whole tick. Nothing here '
        'is checked: the tests do that.', '',
        *arrived(arrivals),
    ]


def arrived(rows: Sequence[panda.Arrival]) -> list[str]:
    """Return the ticks in which something new takes effect."""
    plain = rows[0].median
    return [
        f'CPU time of `Law.torque` in the tick after {panda.ARRIVALS} new targets, settings and '
        'payloads of each kind, by the clock of the thread that ticks, and of the call that '
        'passes them to the law (`Law.follow`, `Law.change`), which the tick does not contain. '
        'The ratio is between medians; '
        f'at most {panda.ARRIVAL_RATIO:g} is wanted. From rest, the residual says how far the '
        'target is from the goal when the next goal comes:', '',
        *_table(['', 'median µs', 'p99 µs', 'max µs', 'ratio', 'call before, µs', 'residual'], (
            [row.name, _us(row.median), _us(row.p99), _us(row.longest),
             f'{row.median / plain:.1f}', _us(row.before) if row.before else '',
             '' if row.residual is None else _residual(row.residual)] for row in rows)), '',
    ]


def gaps(found: of_gaps.Section | None) -> list[str]:
    """Return the section of the gaps between commands, while something else arrives."""
    lines = ['## Longest gap between commands', '']
    if found is None:
        return [*lines, 'rclpy is not installed here: not measured.', '']
    lines += [
        'osc_controller runs as users start it, with the Panda, '
        + (f'with `realtime.priority` {found.priority} and `realtime.lock_memory`, as the '
           'publisher of the joint states has it, so that other programs delay neither. '
           if found.priority else 'without real-time priority. ')
        + 'A second process publishes joint states at the rate and notes when each command '
        f'arrives. A third process sends one kind of message or request at {of_gaps.OFTEN:g} Hz '
        f'(trajectories of 10,000 points: {of_gaps.SELDOM:g} Hz), for {found.seconds:g} s a row '
        "(`make bench ARGS='--only gaps --gap-seconds 10'` takes 10 s and measures nothing else). "
        'All gaps are in periods of the joint states: 1 is a command for every state, on time. '
        'A gap that begins while a kind is sent is measured to its end, however late.', '',
        'The rows "nothing" are the noise of the machine, whose load average before was '
        f'{found.load_average[0]:.2f}. "More" is the longest gap less the median of the longest '
        f'gaps of these rows; at most {of_gaps.ALLOWED:g} is wanted. One long gap may be noise, '
        f'many gaps of more than {of_gaps.WIDE:g} periods are not. "States" is the longest gap '
        'between two joint states, which is the delay of the sender itself. "Missed" are states '
        'without a command before the next state; latencies are from a state to its command.', '']
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


def nodes(found: Section | None) -> list[str]:
    """Return the section of the nodes, over DDS."""
    lines = ['## From joint state to command, over DDS', '']
    if found is None:
        return [*lines, 'rclpy is not installed here: not measured.', '']
    fewest = min(cell.states for cell in found.cells)
    late = max(cell.metronome for cell in found.cells)
    said = '; '.join(found.realtime)
    lines += [
        f'The real processes, the Panda, {found.seconds:g} s a row (`make bench '
        "ARGS='--node-seconds 60'` takes 60), which is "
        f'{fewest:,} states at least'
        + (': their 99.9 % is about their maximum' if fewest < 2000 else '')
        + f'; load average of the machine before: {found.load_average[0]:.2f}. A process in the '
        "hardware's place publishes joint states of seven joints at a steady rate, by sleeping "
        'until each is due (one that spins would take a core that the others need; 99 % of the '
        f'states left less than {late:,.0f} µs late in the worst row). A latency begins before '
        'that publishes a state, and ends in its callback with the command that answers it, by '
        'one clock: serialization, DDS twice, two executors, and what is between. "Missed" are '
        'states whose answer was not there before the next state. CPU is of one core, of the '
        "process that answers (and of the relay). `on_timer` has the controller's own period in "
        'it, which is in no step with the states.', '',
        'The empty callback is the floor: it reads nothing, computes nothing and publishes as '
        'many numbers. What the controller takes more is ours.', '']
    for load, words in ((IDLE, 'Nothing else runs:'),
                        (BUSY, 'The last core is kept busy by a process that only counts, and the '
                         'nodes are free to go where they like:')):
        lines += [words, '', *_table(
            ['', 'executor', 'update', 'Hz', 'p50 µs', 'p99 µs', 'p99.9 µs', 'max µs', 'missed',
             'CPU'], (_cell(cell) for cell in found.cells if cell.load == load)), '']
    has_it = any(cell.way.priority for cell in found.cells)
    lines += [f'Real time was asked for here: {said}. '
              + ('In the rows with SCHED_FIFO the nodes have it by `realtime.priority` and '
                 '`realtime.lock_memory`, and what stands for the hardware has it too, as drivers '
                 'do.' if has_it else f'So there are no rows with SCHED_FIFO {PRIORITY}.'), '']
    return lines + _deadlines(found.cells)


def _cell(cell: Cell) -> list[str]:
    way = cell.way
    return [way.name, way.executor, way.update if way.node != ECHO else '', f'{way.rate}',
            *(f'{x:,.0f}' for x in (cell.p50, cell.p99, cell.p999, cell.longest)),
            f'{cell.missed:,} of {cell.states:,}', ' + '.join(f'{x:.0%}' for x in cell.cpu)]


def _deadlines(cells: Sequence[Cell]) -> list[str]:
    """Return which arms this suits, by the rows of events, on_state."""
    at = {(cell.way.rate, cell.way.priority, cell.load): cell for cell in cells
          if (cell.way.node, cell.way.executor, cell.way.update) == (CONTROLLER, EVENTS, ON_STATE)}
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
        'So, with the events executor and on_state, against what the drivers want '
        '([drivers.md](drivers.md)):', '',
        *_table(['', 'Hz', 'within µs', 'idle: p99.9, max', 'busy: p99.9, max', 'late, idle',
                 'late, busy', 'a late command', 'suits'], rows), '',
        f'Of a millisecond of FCI, {FCI:.0f} µs or so are left to a loop: the round trip to the '
        'arm and what that computes are in it too. Such a loop belongs in ros2_control, in C++; '
        'osc_ros on such an arm is behind an effort controller, which meets the deadline by '
        'itself, and what is late is then only old. Nothing here is a guarantee: a kernel that is '
        'not PREEMPT_RT, Python and DDS give none, whatever was measured. And this is the '
        'machine of the first lines of this page: measure your own.', '']


def _verdict(budget: float, idle: float, busy: float) -> str:
    worst = max(idle, busy)
    if budget == FCI:
        return '**no**' if worst > 0.0 else 'none was late, but nothing ensures it'
    if worst < SELDOM:
        return 'yes' + (', seldom late' if worst > 0.0 else '')
    return 'where nothing else runs' if idle < SELDOM else '**no**'


def losses(rows: Sequence[Row], lengths: Sequence[Length],
           many: Sequence[tuple[str, float, float | None]], cold: float, warm: float) -> list[str]:
    """Return the section of what is faster elsewhere."""
    time = {row.name: row.median for row in rows}
    tuned = time[panda.TUNED]
    lines = ['## Where we lose', '']
    lines += [f'- `{row.name}`: {row.median / tuned:.1f} times Pinocchio, tuned.'
              for row in rows if row.name.startswith('osc') and row.median > tuned]
    if time[panda.POSTURE] > time[panda.NUMBA_POSTURE]:
        lines.append('- With a posture, Pinocchio with compiled algebra is faster.')
    for name in (ABA, LAW, MUJOCO):
        faster = [at for at in lengths if name in at.rows
                  and at.rows['sweep'].median > at.rows[name].median]
        if faster:
            worst = max(at.rows['sweep'].median / at.rows[name].median for at in faster)
            lines.append(f"- Chains of {', '.join(str(at.n) for at in faster)} joints: 'sweep' "
                         f'takes up to {worst:.2f} times {name}.')
    asked = _at(lengths, ASKED).rows
    for name in METHODS:
        if name in asked and asked[name].median > 3 * asked['sweep'].median:
            times = asked[name].median / asked['sweep'].median
            lines.append(f"- '{name}' takes {times:.0f} times 'sweep' on {ASKED} joints.")
    rate = {name: states for name, states, _ in many}
    single, loop = rate['osc.evaluate, in a loop'], rate['Pinocchio, in a loop']
    if single < loop:
        lines.append(f'- Terms one state after another: Pinocchio does {loop / single:.1f} times '
                     'as many.')
    lines.append(f'- The first start on a machine compiles the kernels, {cold:.0f} s; later ones '
                 f'load them, {warm:.1f} s from import to a ready Panda.')
    return [*lines, '']


def _asked(lengths: Sequence[Length]) -> list[str]:
    at, ten_thousand = _at(lengths, ASKED), [one for one in lengths if one.n <= 10_000][-1]
    time = {name: row.median for name, row in at.rows.items()}
    links = [f'{one.rows["sweep"].median / one.n:.3f} at {one.n:,}'
             for one in (at, ten_thousand, lengths[-1])]
    others = [f"'{name}' {time[name] / time['sweep']:.1f}" for name in METHODS
              if name in time and name != 'sweep']
    return [
        f"On {ASKED} joints the whole law by 'sweep' takes {time['sweep'] / time[ABA]:.2f} of "
        f"what Pinocchio's ABA alone takes, and {time['sweep'] / time[LAW]:.2f} of the law in "
        f"Pinocchio. Its µs a link: {', '.join(links)}. The other methods there, as "
        f"multiples of 'sweep': {', '.join(others)}.", '',
    ]


def _times(lengths: Sequence[Length]) -> list[str]:
    names = _names(lengths)
    return _table(['joints', *map(_title, names)], (
        [f'{at.n:,}', *(_time(at, name) for name in names)] for at in lengths))


def _time(at: Length, name: str) -> str:
    """Return the time with its residual, or why there is none."""
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
    return 'the judge' if residual is None else f'{residual:.0e}'


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table, its first column to the left and the others to the right."""
    return [f"| {' | '.join(titles)} |", '|---' + '|---:' * (len(titles) - 1) + '|',
            *(f"| {' | '.join(row)} |" for row in rows)]
