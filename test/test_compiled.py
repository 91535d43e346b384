"""The compiled kernels: ready before they are used, and no allocation in them."""

from dataclasses import replace
from pathlib import Path

from numba import njit
import numpy as np
import pytest

from judge import robot_cases
from osc_ros import OperationalSpace, Robot
from osc_ros.control.law import Law
from osc_ros.control.limits import Limits
from osc_ros.control.posture import Posture
from osc_ros.control.settings import Settings
from osc_ros.control.task import ForceControl, Gains, Stiffness, Task
from osc_ros.control.trajectory import figure_of_eight, Hold
from osc_ros.dynamics.compiled import _kernel_source, KERNELS
from osc_ros.dynamics.methods import METHODS
from osc_ros.dynamics.task_inertia import SingularityDamping
from osc_ros.dynamics.teams import roles

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')


@pytest.fixture(scope='module')
def law():
    case = robot_cases()['panda']
    robot = Robot.from_urdf(case.urdf_text, case.base, case.tip, locked=case.locked)
    for method in METHODS:  # their kernels too
        OperationalSpace(robot, method)
    for reduced in (False, True):
        roles.compile_kernels(reduced)
    gains = Gains([20.0] * 6, [1.0] * 6, [2.0, 1.0], [40.0, 20.0])
    return Law(robot, Settings((Task(gains),), Posture(5.0, 1.0),
                               SingularityDamping(0.3, 0.01, 0.05), Limits.of(robot)))


@njit(cache=True)
def allocating(n):
    return np.zeros(n)


def machine_code(compiled):
    """Return the bytes of what numba has kept of a kernel: machine code with its symbols."""
    folder = Path(compiled.stats.cache_path)
    kept = list(folder.glob(f'*.{compiled.py_func.__name__}-*.nbc'))
    if not kept:
        pytest.skip(f'no compiled {compiled.py_func.__name__} is kept in {folder}')
    return b''.join(file.read_bytes() for file in kept)


def entries():
    """Return the kernels that Python calls; what only kernels call is in their machine code."""
    return [compiled for compiled in KERNELS if not compiled._can_compile]


def test_no_kernel_allocates(law):
    allocating(3)
    assert b'NRT_MemInfo_alloc' in machine_code(allocating)
    for compiled in entries():
        assert b'NRT_MemInfo_alloc' not in machine_code(compiled), compiled


def test_nothing_is_compiled_once_the_law_is_there(law):
    ready = {compiled: list(compiled.signatures) for compiled in KERNELS}
    assert all(ready[compiled] for compiled in entries())
    q, qd = law.posture, np.full(7, 0.1)
    law.latch(q.tolist())
    law.follow(figure_of_eight(law.pose, 0.3, 0.15, 4.0, 1.0, 1.0), 1.0)
    law.follow(Hold(law.pose), 9.0)
    for time in (0.0, 1.0, 2.5, 8.0, 10.0):
        law.torque(time, q, qd)
    law.change(replace(law.settings, limits=Limits.of(law.robot, effort=np.full(7, 0.1))))
    law.torque(11.0, q, qd)
    law.change(replace(law.settings, tasks=(
        Task(Stiffness([50.0] * 3 + [500.0] * 3, [1.0] * 6, [10.0, 50.0]), frame='panda_link5',
             axes=('motion',) * 5 + ('force',), force=ForceControl(gain=0.5)),
        Task(law.settings.tasks[0].gains, 'elbow', 'panda_link4', activation=0.5))))
    law.push([0.0] * 5 + [1.0])
    law.measure(np.ones(6), 11.0)
    for time in (12.0, 12.002):
        law.torque(time, q, qd)
    _ = law.terms(), law.inertia(), law.predicted_and_met()
    for method in METHODS:
        osc = OperationalSpace(law.robot, method)
        for options in ({}, {'tau_null': qd}, {'posture_acceleration': qd},
                        {'tau_null': qd, 'posture_acceleration': qd}):
            osc.torque(q.tolist(), qd.astype(np.float32), np.ones(6), **options)
            osc.outward(q, qd, **options)
            osc.inward(np.ones(6))
        _ = osc.evaluate(q, qd).N, osc.evaluate(q, qd).coriolis
        osc.forward_dynamics(q, qd, qd, np.ones(6))
    assert {compiled: list(compiled.signatures) for compiled in KERNELS} == ready


def test_only_a_change_of_what_kernels_are_compiled_from_compiles_them_again():
    source = 'from a import b\nC = 1\n@kernel\ndef f(x):\n    return x + C\n'
    plain = 'def g(x):\n    """Do."""\n    return f(x)\nclass H:\n    k = 2\n'
    kept = _kernel_source(source + plain)
    assert kept == _kernel_source(source + plain.replace('2', '3').replace('f(x)', 'f(2 * x)'))
    for old, new in (('C = 1', 'C = 2'), ('x + C', 'x - C'), ('a import b', 'a import d')):
        assert kept != _kernel_source(source.replace(old, new) + plain)
