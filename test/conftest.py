# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""ROS settings for the tests (a separate domain on loopback), and fixtures of all tests."""

from collections import Counter
import gc
import os
from pathlib import Path
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import hypothesis
from matplotlib.figure import Figure
import pytest

from changed import changed_files, reaching_tests
from common import CHECKOUT, PATIENCE
from osc_ros.loop.process import realtime
from osc_ros.ros.process.domains import reserved_domain
from osc_ros.ros.process.profile import profile_environment, profile_variable
from processes import Processes

# Set before any module imports rclpy; processes that a test starts inherit the settings.
os.environ['ROS_DOMAIN_ID'] = str(reserved_domain())
os.environ.update(profile_environment(CHECKOUT / 'config' / 'fastdds.xml'))
os.environ.setdefault('AMENT_PREFIX_PATH', sys.prefix)
os.environ.setdefault('MPLBACKEND', 'Agg')
# also for the files of the black box
os.environ['ROS_LOG_DIR'] = str(Path(tempfile.gettempdir(), 'osc_ros_test_logs'))


class Judge:
    """Import finder, asked last: skips a test module that imports Pinocchio if it is missing."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Skip the module if `name` is pinocchio; return None for every other name."""
        if name == 'pinocchio':
            pytest.skip('Pinocchio judges these tests: pip install pin example-robot-data',
                        allow_module_level=True)


sys.meta_path.append(Judge)

REACHED = pytest.StashKey()  # the test files that a change reaches, with --changed
SPENT = Counter()  # time of the tests of each file [s]
FIGURES = []  # the process that computes the figures of the code
SLOWEST = 10  # number of files whose time is printed

# The slowest test files, slowest first. If a slow file started last, the other workers of
# `make test` would be idle while it runs.
LONGEST = ('test_compiled.py', 'test_arm.py', 'test_demo.py', 'test_nodes.py', 'test_ending.py',
           'test_watchdogs.py', 'test_client.py', 'test_relay.py', 'test_batch.py',
           'test_lane_segments.py', 'test_contract.py', 'test_several_controllers.py',
           'test_first_use.py', 'test_served.py', 'test_parallel.py', 'test_recording_ros.py',
           'test_client_processes.py', 'test_operational_space.py', 'test_demo_user.py',
           'test_identification.py')


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """
    Run the suite in several processes, if pytest-xdist is installed and no file is named.

    Compute the figures of the code in another process, if all tests run.

    """
    option, is_worker = config.option, 'PYTEST_XDIST_WORKER' in os.environ
    if (config.args_source is not config.ArgsSource.TESTPATHS or is_worker
            or option.collectonly):
        return
    if not option.keyword:
        FIGURES.append(subprocess.Popen(
            [sys.executable, CHECKOUT / 'test' / 'support' / 'code_figures.py'],
            stdout=subprocess.PIPE, text=True))
    if getattr(option, 'numprocesses', 0) is None:
        option.numprocesses, option.maxprocesses = 'auto', option.maxprocesses or 4
        option.dist, option.loadscopereorder = 'loadfile', False


def pytest_runtest_logreport(report):
    """Add the time of a test to that of its file."""
    SPENT[report.location[0]] += report.duration


def pytest_terminal_summary(terminalreporter):
    """Print the files whose tests take the longest time, and the figures of the code."""
    if len(SPENT) > SLOWEST:
        terminalreporter.section('slowest files')
        for file, seconds in SPENT.most_common(SLOWEST):
            terminalreporter.write_line(f'{seconds:6.1f} s  {file}')
    for process in FIGURES:
        terminalreporter.section('figures of the code')
        terminalreporter.write_line(process.communicate()[0].strip())


def pytest_exception_interact(call):
    """If a client sees no node of its own process, print domain, DDS profile and UDP ports."""
    if 'sees no other node' not in str(call.excinfo.value):
        return
    rclpy = sys.modules['rclpy']
    used = {os.readlink(one) for one in Path('/proc/self/fd').iterdir() if one.is_symlink()
            and one.exists()}
    rows = [row.split() for row in Path('/proc/net/udp').read_text().splitlines()[1:]]
    ports = sorted(int(row[1].split(':')[1], 16) for row in rows if f'socket:[{row[9]}]' in used)
    print(f"domain {os.environ['ROS_DOMAIN_ID']}, of the tests' context "
          f'{rclpy.get_default_context().get_domain_id()}, {profile_variable()} '
          f'{os.environ.get(profile_variable())}, UDP ports of this process: {ports}')


def pytest_configure(config):
    """
    Let hypothesis try the same examples in each run, fewer if the slow tests are left out.

    No example has a deadline, because other processes may slow this one down.

    With --changed, find the test files that a change reaches.

    """
    is_quick = config.option.markexpr == 'not slow'
    hypothesis.settings.register_profile('osc_ros', max_examples=20 if is_quick else 100,
                                         derandomize=True, deadline=None)
    hypothesis.settings.load_profile('osc_ros')
    if config.option.changed is not None:
        changed = changed_files(CHECKOUT, config.option.changed)
        config.stash[REACHED] = reaching_tests(CHECKOUT, changed)


def pytest_report_header(config):
    """With --changed, say which test files run."""
    if (reached := config.stash.get(REACHED, None)) is not None:
        names = ', '.join(file.name for file in reached[:20])
        return f"{len(reached)} test files reach a change: {names}{', …' * (len(reached) > 20)}"


def pytest_ignore_collect(collection_path, config):
    """With --changed, leave out the test files that no change reaches."""
    is_test = collection_path.name.startswith('test_') and collection_path.suffix == '.py'
    return is_test and collection_path not in config.stash.get(REACHED, [collection_path]) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests with nodes over DDS; run the slowest test files first."""
    for item in items:
        if {'ros', 'start'} & set(getattr(item, 'fixturenames', ())):
            item.add_marker('ros')
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST
               else len(LONGEST))


def pytest_addoption(parser):
    """Add the options --changed, --write-tables, --hours and --soak to pytest."""
    parser.addoption('--changed', metavar='BASE',
                     help='only test files whose imports reach a file that differs from the merge '
                     'base with BASE (empty: with origin/main; the last commit if that is it)')
    parser.addoption('--write-tables', action='store_true',
                     help='write the tables and plots in doc/ that the tests measure')
    parser.addoption('--hours', type=float, default=1.0, help='length of the run of '
                     'test_recording_ros.py with page, recorder and queries, simulated [h]')
    parser.addoption('--soak', type=float, default=60.0,
                     help='least length of a soak of test_soak.py, per arm, simulated [s]')


@pytest.fixture
def drawn(request):
    """
    Return a function that, with --write-tables, saves measurements as a plot in doc/.

    `drawn(name, title, times, panels, marks)`: `panels` maps the label of an axis to a dict from
    line names to values; `marks` (optional) maps times [s] to the text that labels the event.

    """
    def save(name, title, times, panels, marks=None):
        if not request.config.getoption('--write-tables'):
            return
        figure = Figure(figsize=(9, 2.1 * len(panels) + 0.9), layout='constrained')
        figure.suptitle(title, fontsize='medium')
        axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axis, (label, lines) in zip(axes, panels.items(), strict=True):
            for k, (line, values) in enumerate(lines.items()):
                # different styles, so that lines that coincide remain visible
                style = ('-', '--', ':')[k] if len(lines) <= 3 else '-'
                axis.plot(times, values, style, linewidth=1.4, label=line)
            for instant in marks or ():
                axis.axvline(instant, color='0.4', linewidth=1.0, linestyle='--')
            axis.set_ylabel(label)
            axis.grid(color='0.9')
            # legend beside the axes, so that it covers no line
            axis.legend(fontsize='small', loc='center left', bbox_to_anchor=(1.0, 0.5))
        for instant, text in (marks or {}).items():
            axes[0].text(instant, 1.01, text, fontsize='small', ha='center', va='bottom',
                         transform=axes[0].get_xaxis_transform())
        axes[-1].set_xlabel('time [s]')
        figure.savefig(CHECKOUT / 'doc' / f'{name}.png', dpi=90)

    return save


# What `realtime` calls instead of the module gc in the process of the tests. A collection of all
# objects takes 2 s there (modules, compilers, tests), for each node that is configured.
YOUNG = SimpleNamespace(collect=lambda: gc.collect(1), freeze=lambda: None, unfreeze=lambda: None,
                        disable=gc.disable, enable=gc.enable)


@pytest.fixture(scope='session', autouse=True)
def young_garbage():
    """Let nodes in the process of the tests collect only objects that are new."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(realtime, 'gc', YOUNG)
        yield


@pytest.fixture
def all_garbage(monkeypatch):
    """Let nodes in the process of the tests collect all objects, as in a process of their own."""
    monkeypatch.setattr(realtime, 'gc', gc)


@pytest.fixture(scope='session')
def ros():
    """
    Return rclpy, initialized once per session.

    A node keeps its DDS participant all the time: see `shared_context` of `osc_ros.client.topics`.

    """
    rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')
    rclpy.init(args=[])
    node = rclpy.create_node('_tests', enable_rosout=False, start_parameter_services=False)
    yield rclpy
    node.destroy_node()
    rclpy.try_shutdown()


@pytest.fixture
def spin(ros, capfd):
    """
    Return `spin(happened, *nodes)`: spins nodes in this process until `happened()` is true.

    The nodes are destroyed after the test. `spin.said(text, times)` returns whether `text` has
    been logged so many times (default: once) since the test began.

    """
    from osc_ros.ros.process.node_process import EventsExecutor

    executor, nodes = EventsExecutor(), []

    def until(happened, *more, why=''):
        for node in more:
            if node not in nodes:
                nodes.append(node)
                executor.add_node(node)
        deadline = time.perf_counter() + PATIENCE
        while not happened():
            executor.spin_once(timeout_sec=0.02)
            if time.perf_counter() > deadline:
                there = nodes[0].get_node_names() if nodes else 'no node of the test'
                pytest.fail(f'waited in vain {why}: {heard[-3:]}; in this ROS domain: {there}')

    def said(text, times=1):
        heard.append(capfd.readouterr().err)
        return ''.join(heard).count(text) >= times

    heard = []
    until.said = said
    yield until
    for node in nodes:
        if hasattr(node, 'stop'):
            node.stop()
        executor.remove_node(node)
        node.destroy_node()
    executor.shutdown()


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a command; its processes end with the test."""
    processes = Processes(tmp_path)
    yield processes.start
    status = [process.poll() for process in processes.running]
    processes.end()
    for process, ended in zip(processes.running, status):  # shown if the test has failed
        print(f'{process.log.name}: ended with {ended}' if ended is not None
              else f'{process.log.name}: at work', process.log.read_text()[-4000:], sep='\n')
