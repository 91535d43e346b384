# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The compiled kernels: compiled before the first tick, and free of allocations."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import inspect
import math
import os
from pathlib import Path
import shutil
import subprocess
import sys
from threading import Event
from time import sleep

from numba import njit
import numpy as np
import pytest

from common import import_path, PATIENCE
from judge import robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.compile import compilation
from osc_ros.compile import compiled as compiled_module
from osc_ros.compile import kernel_source as source_module
from osc_ros.compile.compilation import _Team, Progress, size_of
from osc_ros.compile.compiled import KERNELS, on_demand, OPERATIONS
from osc_ros.compile.kernel_source import kernel_modules, kernel_source, stored_digests
from osc_ros.control.law import Law
from osc_ros.control.limits.limits import Limits
from osc_ros.control.model_error.disturbance import Compensation
from osc_ros.control.model_error.observer import MomentumObserver
from osc_ros.control.setpoint.posture import Posture
from osc_ros.control.setpoint.trajectory import figure_of_eight, PoseGoal
from osc_ros.control.settings import Settings
from osc_ros.control.tasks.task import ForceControl, Gains, Stiffness, Task
from osc_ros.dynamics.algebra.kinematics import LinkAxes, put_link_axes
from osc_ros.dynamics.algebra.spatial import plus, ZERO
from osc_ros.dynamics.algebra.task_inertia import SingularityDamping, task_inertia
from osc_ros.dynamics.methods import METHODS
from osc_ros.dynamics.segments import roles
from osc_ros.dynamics.trees.momentum import Momentum
from osc_ros.dynamics.trees.tree_layout import pendulum
from osc_ros.loop.process import channel
from osc_ros.ros.messages.serialized_states import JointStateReader

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')


@pytest.fixture(scope='module')
def law():
    case = robot_cases()['panda']
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    for method in METHODS:  # compile the kernels of every method, too
        OperationalSpace(robot, method)
    roles.compile_kernels()
    Momentum(robot)
    MomentumObserver(robot)
    Compensation(robot)
    channel.rehearse()
    JointStateReader(robot.joint_names)
    gains = Gains([20.0] * 6, [1.0] * 6, [2.0, 1.0], [40.0, 20.0])
    return Law(robot, Settings((Task(gains),), Posture(5.0, 1.0),
                               SingularityDamping(0.3, 0.01, 0.05), Limits.of(robot)))


@njit(cache=True)
def allocating(n):
    return np.zeros(n)


def machine_code(compiled):
    """Return numba's cache files of a kernel as bytes: machine code with symbols."""
    folder, name = Path(compiled.stats.cache_path), getattr(
        compiled._cache, 'name', f'*.{compiled.py_func.__name__}-*')
    kept = list(folder.glob(f'{name}.*.nbc'))
    assert kept, f'no compiled {compiled.py_func.__name__} is kept in {folder}'
    return b''.join(file.read_bytes() for file in kept)


def entries():
    """Return the kernels that Python calls; their code includes the kernels that they call."""
    return [compiled for compiled in KERNELS if not compiled._can_compile]


def test_context_that_ends_locks_no_kernel_while_another_thread_is_in_one():
    context = on_demand()
    with ThreadPoolExecutor(1) as other:
        other.submit(context.__enter__).result()
        other.submit(SingularityDamping().conditioning, np.eye(6)).result()
        with on_demand():
            other.submit(context.__exit__, None, None, None).result()
            assert not entries()
    assert any(compiled.py_func.__name__ == '_measure' for compiled in entries())


def test_no_kernel_allocates(law):
    allocating(3)
    assert b'NRT_MemInfo_alloc' in machine_code(allocating)
    for compiled in entries():
        assert b'NRT_MemInfo_alloc' not in machine_code(compiled), compiled


def test_call_of_an_operation_from_python_says_what_to_do(law):
    for operation in OPERATIONS:
        if not operation.targetoptions.get('inline'):  # inlined parts have no compiled entry point
            with pytest.raises(TypeError, match=f'^{operation.__name__} .*Python'):
                operation(*[1.0] * operation.py_func.__code__.co_argcount)
    pair = (1.0, 2.0, 3.0), ZERO
    with pytest.raises(TypeError, match='^plus .*kernels'):
        plus(pair, pair)  # argument types that it is compiled for
    assert njit(lambda a, b: plus(a, b))(pair, pair) == ((2.0, 4.0, 6.0), ZERO)


def test_law_without_compilation_says_which_variable_to_unset():
    code = ('from osc_ros import Law, Robot, shipped_urdf\n'
            "Law(Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp'))")
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          env={**os.environ, 'NUMBA_DISABLE_JIT': '1'}, check=False)
    assert done.returncode == 1
    assert 'OscError: the environment variable NUMBA_DISABLE_JIT is set' in done.stderr


def test_nothing_is_compiled_once_the_law_is_there(law):
    def compiled_now():
        return {compiled: list(compiled.signatures) for compiled in KERNELS}

    ready = compiled_now()
    assert all(ready[compiled] for compiled in entries())
    q, qd = law.posture, np.full(7, 0.1)
    law.hold(q.tolist())
    law.follow(figure_of_eight(law.pose, 0.3, 0.15, 4.0, 1.0, 1.0), 1.0)
    law.follow(PoseGoal(law.pose), 9.0)
    for time in (0.0, 1.0, 2.5, 8.0, 10.0):
        law.torque(time, q, qd)
    law.change(replace(law.settings, limits=Limits.of(
        law.robot, effort=0.9 * law.robot.effort_limits)))
    law.torque(11.0, q, qd)
    assert compiled_now() == ready
    law.change(replace(law.settings, tasks=(  # the change may compile, the ticks after it not
        Task(Stiffness([50.0] * 3 + [500.0] * 3, [1.0] * 6, [10.0, 50.0]), frame='panda_link5',
             axes=('motion',) * 5 + ('force',), force=ForceControl(gain=0.5)),
        Task(law.settings.tasks[0].gains, 'elbow', 'panda_link4', activation=0.5))))
    ready = compiled_now()
    law.set_wrench([0.0] * 5 + [1.0])
    law.set_measured_wrench(np.ones(6), 11.0)
    for time in (12.0, 12.002):
        law.torque(time, q, qd)
    _ = law.terms(), law.inertia(), law.predicted_and_measured()
    assert compiled_now() == ready
    for method in METHODS:
        osc = OperationalSpace(law.robot, method)
        ready = compiled_now()
        for options in ({}, {'tau_null': qd}, {'posture_acceleration': qd},
                        {'tau_null': qd, 'posture_acceleration': qd}):
            osc.torque(q.tolist(), qd.astype(np.float32), np.ones(6), **options)
            osc.outward(q, qd, **options)
            osc.inward(np.ones(6))
        _ = osc.evaluate(q, qd).N, osc.evaluate(q, qd).coriolis
        osc.forward_dynamics(q, qd, qd, np.ones(6))
        assert compiled_now() == ready, method


def test_edit_of_a_module_without_kernels_compiles_nothing():
    package = Path(compiled_module.__file__).parents[1]
    sources = {'.'.join([package.name, *path.relative_to(package).with_suffix('').parts]):
               path.read_text(encoding='utf-8') for path in package.rglob('*.py')}
    modules = set(kernel_modules(sources))
    assert {one.py_func.__module__ for one in KERNELS
            if one.py_func.__module__.startswith(package.name)} <= modules
    assert not modules & {f'osc_ros.{name}' for name in (
        'control.supervisor', 'control.law', 'nodes.controller', 'nodes.messages', 'sim.plant')}


FIRST_START = """
import numpy as np
from osc_ros import Friction, Law, Limits, Robot, Settings, shipped_urdf
from osc_ros.control.model_error.driver import Driver
from osc_ros.compile.compiled import KERNELS, on_demand

robot = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
with on_demand():
    Law(robot, Settings.of(robot, friction=Friction(*np.full((2, 7), 0.1)),
                           limits=Limits.of(robot), driver=Driver(robot, 'gravity+coriolis')))
print(sorted({one.py_func.__module__ for one in KERNELS if one.overloads}))
"""


def test_first_start_of_a_controller_compiles_one_engine_of_the_dynamics():
    used = subprocess.run([sys.executable, '-c', FIRST_START], capture_output=True, text=True,
                          check=True).stdout
    assert 'osc_ros.dynamics.chain.passes' in used
    assert "'osc_ros.dynamics.trees.tree'" not in used


# Two processes run this script at the same time, with an empty cache.
ONE_KERNEL = """
import sys
import numpy as np
from osc_ros import Robot
from osc_ros.compile import compiled
from osc_ros.dynamics.algebra.kinematics import LinkAxes, put_link_axes
from osc_ros.dynamics.trees.tree_layout import pendulum
from osc_ros.dynamics.trees.momentum import Momentum

compilations = []
compiled.OBSERVERS.append(lambda name, begins: compilations.append(name) if begins else None)
sys.stdin.readline()
LinkAxes(pendulum(), 'tip').at(np.zeros(1))
print(compilations)
"""


def test_of_two_processes_one_compiles_a_kernel_and_the_other_loads_it(tmp_path):
    environment = {**os.environ, 'XDG_CACHE_HOME': str(tmp_path)}
    environment.pop('NUMBA_CACHE_DIR', None)
    processes = [subprocess.Popen([sys.executable, '-c', ONE_KERNEL], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, env=environment)
                 for _ in range(2)]
    for process in processes:
        process.stdin.write('now\n')
        process.stdin.flush()
    found = [process.communicate()[0].strip() for process in processes]
    assert sorted(found) == ["['put_link_axes']", '[]']


def first_use(cache, package=None, script=ONE_KERNEL):
    """Run a script in a process of its own with a cache; return what it prints, and its log."""
    path = import_path(Path(compiled_module.__file__).parents[2]) if package is None else package
    environment = {**os.environ, 'XDG_CACHE_HOME': str(cache), 'PYTHONPATH': str(path)}
    environment.pop('NUMBA_CACHE_DIR', None)
    done = subprocess.run([sys.executable, '-c', script], input='now\n', capture_output=True,
                          text=True, check=True, env=environment)
    return done.stdout.strip(), done.stderr


def test_the_same_source_in_another_folder_compiles_nothing(tmp_path):
    assert first_use(tmp_path / 'cache')[0] == "['put_link_axes']"
    package = Path(compiled_module.__file__).parents[1]
    shutil.copytree(package, tmp_path / 'other' / package.name)
    assert first_use(tmp_path / 'cache', tmp_path / 'other')[0] == '[]'


def test_damaged_machine_code_is_compiled_again_with_a_word(tmp_path):
    first_use(tmp_path)
    for kind, how in (('nbc', lambda data: data[:-100] + bytes(100)), ('nbi', lambda data: b'x'),
                      ('nbc', lambda data: b'')):
        [file] = tmp_path.rglob(f'*put_link_axes*.{kind}')
        file.write_bytes(how(file.read_bytes()))
        printed, log = first_use(tmp_path)
        assert printed == "['put_link_axes']" or 'damaged' in log
        assert 'Traceback' not in log
        assert first_use(tmp_path) == ('[]', '')
    for file in tmp_path.rglob('*.nbc'):  # removed by hand
        file.unlink()
    assert 'Traceback' not in first_use(tmp_path)[1]


def test_a_change_compiles_only_the_kernels_that_use_it(tmp_path, monkeypatch):
    package = tmp_path / 'osc_ros'
    (package / 'compile').mkdir(parents=True)
    monkeypatch.setattr(source_module, 'PACKAGE', package)
    texts = {'low': 'C = 1\n@inlined\ndef f(x):\n    return x + C\n',
             'high': 'from osc_ros.low import f\n@kernel\ndef g(x):\n    return f(x)\n',
             'other': '\n@kernel\ndef h(x):\n    return x\n',
             'compile/base': 'D = 1\n'}
    found = []
    for name, old, new in ((None, '', ''), ('low', 'C = 1', 'C = 2'),
                           ('other', 'return x', 'pass'), ('compile/base', 'D = 1', 'D = 2')):
        for file, text in texts.items():
            (package / f'{file}.py').write_text(text.replace(old, new) if file == name else text)
        found.append(source_module.source_digests('1'))
    changed = [{name for name in found[0] if one[name] != found[0][name]} for one in found[1:]]
    low, high, other = (f'osc_ros.{name}' for name in ('low', 'high', 'other'))
    assert changed == [{'', low, high}, {'', other}, {'', low, high, other}]


def test_machine_code_of_old_versions_is_removed(tmp_path, monkeypatch):
    (package := tmp_path / 'osc_ros').mkdir()
    monkeypatch.setattr(source_module, 'PACKAGE', package)
    (cache := tmp_path / 'cache').mkdir()

    def kernel_of(constant):
        (package / 'one.py').write_text(f'\n@kernel\ndef f(x):\n    return x + {constant}\n')
        file = cache / f"osc_ros.one.f-{stored_digests(cache, '1')['osc_ros.one']}-tag.1.nbc"
        file.touch()
        return file

    files = [kernel_of(constant) for constant in range(2)]
    assert all(file.exists() for file in files)  # both may be in use
    for file in cache.iterdir():
        os.utime(file, (0, 0))
    last = kernel_of(2)
    assert [*cache.glob('*.nbc')] == [last]


SHARED = """
from time import perf_counter, sleep
from osc_ros.compile import compiled
from osc_ros.compile.compilation import compile_in_parallel
from test_compiled import use_two_kernels

progress = []
with compile_in_parallel(use_two_kernels, tell=progress.append):
    use_two_kernels()
    deadline = perf_counter() + 120.0
    while not (progress and progress[-1].share >= 0.0):
        assert perf_counter() < deadline, progress[-1:]
        sleep(0.01)
assert [use[0].py_func.__name__ for use in compiled.recorded_uses(use_two_kernels)] == []
shares = [one.share for one in progress if one.share >= 0.0]
print(shares == sorted(shares), progress[-1])
"""


def use_two_kernels():
    """Call two kernels."""
    LinkAxes(pendulum(), 'tip').at(np.zeros(1))
    task_inertia(np.eye(6))


def test_progress_says_how_much_is_done_and_how_long_it_takes_if_that_is_known():
    for given, text in (((0.25, 'f', 3.4), '25 %, 3 s, about 10 s left'),
                        ((0.01, 'f', 3.4), '1 %, 3 s'), ((math.nan, 'f', 3.6), 'f, 4 s'),
                        ((1.0, 'f', 3.6), '100 %, 4 s, about 0 s left')):
        assert str(Progress(*given)) == f'compiling kernels (first start only): {text}'


def test_larger_kernels_count_for_more_of_the_progress_and_it_never_falls(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(compilation, 'perf_counter', lambda: now[0])
    work, shares = compilation._Work(), []
    assert math.isnan(work.share(1.0))
    work.plan([('small', 10), ('large', 80), ('small', 10)])
    for second, name in enumerate(('small', '', 'large', 'other', '', 'small', '')):
        now[0] += 1.0
        if name:
            work.finish(name)
        shares.append(work.share(float(second + 1)))
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.1)
    assert 0.1 < shares[1] <= 0.74  # it goes on between two kernels
    assert shares[2] >= 0.9
    assert shares[-1] == 0.99  # until the end


def test_size_of_a_kernel_has_what_it_calls():
    assert size_of(put_link_axes.py_func) > 20
    assert size_of(put_link_axes.py_func) > len(inspect.getsource(
        put_link_axes.py_func).splitlines())


@pytest.mark.slow  # quick: the test above
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='one core has no helper')
def test_progress_of_the_compilation_says_of_how_many(tmp_path):
    environment = {**os.environ, 'XDG_CACHE_HOME': str(tmp_path), 'PYTHONPATH': import_path(
        Path(__file__).parent)}
    environment.pop('NUMBA_CACHE_DIR', None)
    done = subprocess.run([sys.executable, '-c', SHARED], capture_output=True, text=True,
                          check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('True compiling kernels (first start only): 100 %')


def test_only_a_change_of_what_kernels_are_compiled_from_compiles_them_again():
    source = 'from a import b\nC = 1\n@kernel\ndef f(x):\n    return x + C\n'
    plain = 'def g(x):\n    """Do."""\n    return f(x)\nclass H:\n    k = 2\n'
    kept = kernel_source(source + plain)
    assert kept == kernel_source(source.replace('(x):', '(x):\n    """Do."""') + plain)
    assert kept == kernel_source(source + plain.replace('2', '3').replace('f(x)', 'f(2 * x)'))
    for old, new in (('C = 1', 'C = 2'), ('x + C', 'x - C'), ('a import b', 'a import d')):
        assert kept != kernel_source(source.replace(old, new) + plain)


def test_digest_is_found_again_without_parsing_until_a_source_file_changes(tmp_path, monkeypatch):
    (package := tmp_path / 'osc_ros').mkdir()
    file = package / 'one.py'
    file.write_text('@kernel\ndef f(x):\n    return x + 1\n')
    monkeypatch.setattr(source_module, 'PACKAGE', package)
    parsed, compute = [], source_module.source_digests
    monkeypatch.setattr(source_module, 'source_digests',
                        lambda version: parsed.append(version) or compute(version))
    first = stored_digests(tmp_path, '1')
    assert (stored_digests(tmp_path, '1'), parsed) == (first, ['1'])
    assert stored_digests(tmp_path, '2') != first  # another version of the compiler
    before = file.stat()
    file.write_text('\n@kernel\ndef f(x):\n    return x + 2'.ljust(before.st_size))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size  # and the same time of modification
    assert stored_digests(tmp_path, '1') != first
    assert not list(tmp_path.glob('tmp*'))
    assert stored_digests(tmp_path / 'no folder', '1') == compute('1')


def test_nothing_is_told_after_the_compilation():
    entered, left = Event(), Event()

    def tell(progress):
        entered.set()
        sleep(0.2)
        left.set()

    team = _Team(None, tell)
    team.observe('kernel', begins=True)
    assert entered.wait(PATIENCE)
    team.close()
    assert left.is_set()


class Periods:
    """Takes the place of the event that ends the reports: this number of periods passes."""

    def __init__(self, count):
        """Set the number."""
        self.count = count

    def wait(self, seconds):
        """Return whether all periods have passed."""
        self.count -= 1
        return self.count < 0


@pytest.mark.parametrize(('depth', 'lines'), [(0, 1), (1, 5)])
def test_progress_is_told_again_only_while_something_is_compiled(depth, lines):
    told = []
    team = _Team(None, told.append)
    team._has_ended, team._began, team._depth = Periods(5), 0.0, depth
    team._work.plan([('one', 3), ('other', 4)])
    team._work.finish('one')
    team._tell_regularly()
    assert len(told) == lines
