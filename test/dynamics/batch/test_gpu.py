# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Batches on a GPU: on a card, by the simulator, compiled for cards, without what they need."""

from functools import cache
import importlib.util
import os
from pathlib import Path
import re
import subprocess
import sys

import numba
from numba import cuda
import numpy as np
import pytest

from common import CHECKOUT
from osc_ros import OperationalSpace, Robot
from osc_ros.compile import either
from osc_ros.compile.cuda.twins import Twins
from osc_ros.dynamics.chain.chain_batch import put_law
from osc_ros.dynamics.chain.chain_bodies import Joints, packed_robot, Parts, TIP_WIDTH, WORK_WIDTH
from osc_ros.errors import OscError
from tolerances import LANES_AGREEMENT, SINGLE_PRECISION

HAS_COMPILER = all(importlib.util.find_spec(name) for name in ('numba_cuda', 'nvidia'))


def has_card():
    """Return whether there is a GPU that numba-cuda can use."""
    return HAS_COMPILER and cuda.is_available()


def ptxas():
    """Return the assembler of the extra `cuda`, or None."""
    for folder in importlib.util.find_spec('nvidia').submodule_search_locations:
        for found in Path(folder).glob('*/bin/ptxas'):
            return found
    return None


@pytest.mark.parametrize('chosen', [
    'panda-given3 or processor[panda] or not_finite or do_not_fit or stream or many_turns',
    pytest.param('', marks=pytest.mark.slow)], ids=['one_arm', 'all'])
def test_simulated_gpu_agrees_with_the_processor(chosen):
    assert_batches_pass({'NUMBA_ENABLE_CUDASIM': '1'}, ['-k', chosen])


@pytest.mark.skipif(not has_card(), reason='no NVIDIA GPU here, or no numba-cuda')
def test_card_agrees_with_the_processor():
    assert_batches_pass({})


def assert_batches_pass(environment, arguments=()):
    run = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '-p', 'no:xdist',
         '-W', 'ignore::RuntimeWarning', *arguments, 'test/support/gpu_batches.py'],
        cwd=CHECKOUT, env={**os.environ, **environment}, text=True, capture_output=True)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert re.search(r'\d\d passed', run.stdout)


COMPILED = r'''
import sys
import numpy as np
from numba import cuda, types
import numba.cuda.dispatcher

number, capability = getattr(np, sys.argv[1]), tuple(map(int, sys.argv[2].split('.')))


class Card:
    """A card that this machine need not have."""

    compute_capability = capability


numba.cuda.dispatcher.get_current_device = Card
from osc_ros.dynamics.chain.gpu import law_kernel, terms_kernel
from osc_ros.dynamics.contract.method import States, Terms

real = types.float64 if number is np.float64 else types.float32
table, row, mask = real[:, ::1], real[::1], types.boolean[::1]
states = types.NamedUniTuple(table, 7, States)
if sys.argv[3] == 'law':
    kernel, arguments = law_kernel(7, number, True, True), [table, row, states, table, mask]
else:
    kernel = terms_kernel(7, number)
    arguments = [table, row, states, row, types.NamedTuple([*8 * [table], mask], Terms)]
print(cuda.compile_ptx(kernel.py_func, tuple(arguments), cc=capability)[0])
'''


@pytest.mark.slow  # quick: test_simulated_gpu_agrees_with_the_processor
@pytest.mark.skipif(not HAS_COMPILER, reason="needs the extra 'cuda'")
@pytest.mark.parametrize('kernel, number, capability, registers, memory, spilled', [
    ('law', 'float64', '9.0', 255, 1200, 0),
    ('law', 'float64', '8.0', 255, 1200, 0),
    ('law', 'float32', '9.0', 160, 640, 0),
    ('terms', 'float64', '9.0', 255, 1400, 200),
    ('terms', 'float32', '9.0', 200, 700, 0)])
def test_kernels_compile_for_cards(tmp_path, kernel, number, capability, registers, memory,
                                   spilled):
    run = subprocess.run([sys.executable, '-c', COMPILED, number, capability, kernel], text=True,
                         capture_output=True)
    assert run.returncode == 0, run.stderr[-3000:]
    architecture = f"sm_{capability.replace('.', '')}"
    assert f'.target {architecture}' in run.stdout
    numbers = '64' if number == 'float64' else '32'
    assert len(re.findall(rf'(?:mul|fma.rn|add|sub)\.f{numbers}', run.stdout)) > 1000
    if number == 'float32':  # sines of angles of more than 8192 rad need float64 in CUDA itself
        assert len(re.findall(r'(?:mul|fma.rn|add|sub|div.rn)\.f64', run.stdout)) < 20
    if ptxas() is None:
        pytest.skip('compiled; no ptxas that would count registers')
    source = tmp_path / 'kernel.ptx'
    source.write_text(run.stdout)
    report = subprocess.run([ptxas(), '-v', f'-arch={architecture}', source, '-o',
                             tmp_path / 'kernel.cubin'], text=True, capture_output=True)
    assert report.returncode == 0, report.stderr
    print(kernel, number, report.stderr)
    counts = [max(map(int, re.findall(pattern, report.stderr))) for pattern in (
        r'Used (\d+) registers', r'(\d+) bytes stack frame', r'(\d+) bytes spill stores')]
    limits = registers, memory, spilled
    assert all(count <= limit for count, limit in zip(counts, limits)), counts


@cache
def panda():
    text = CHECKOUT.joinpath('osc_ros/robots/panda.urdf').read_text()
    return OperationalSpace(Robot.from_urdf(text, 'panda_link0', 'panda_hand_tcp'))


@pytest.mark.slow  # quick: test_float32_goes_in_and_comes_out of gpu_batches.py
def test_float32_has_the_accuracy_of_the_page():
    page = CHECKOUT.joinpath('doc/batches.md').read_text()
    rows = re.findall(r'^\| (\w+) \| (\S+) \| (\S+) \| (\S+) \|$', page, re.MULTILINE)
    by_number = {number: compiled_law(number) for number in (np.float64, np.float32)}
    tips = {'panda': ('panda_link0', 'panda_hand_tcp'), 'gen3': ('base_link', 'end_effector_link'),
            'iiwa14': ('base_link', 'tool0'), 'ur5e': ('base_link', 'tool0')}
    assert [name for name, *_ in rows] == [*tips]
    for name, *figures in rows:
        text = CHECKOUT.joinpath(f'osc_ros/robots/{name}.urdf').read_text()
        robot = Robot.from_urdf(text, *tips[name])
        rng, k, n = np.random.default_rng(0), 20_000, robot.n
        q = rng.uniform(*np.clip(robot.position_limits, -np.pi, np.pi).T, (k, n))
        given = [q, *(rng.normal(size=(k, width)) for width in (n, 6, n))]
        given = [values.astype(np.float32) for values in given]  # the same states for both
        found = {}
        for number, law in by_number.items():
            found[number] = np.empty((k, n), number)
            law(*(values.astype(number) for values in (*packed_robot(robot), *given)),
                found[number])
        right, single = found.values()
        errors = np.abs(single - right).max(axis=1) / np.abs(right).max(axis=1)
        for level, figure in zip((0.5, 0.9, 0.99), figures):
            assert float(figure) / 1.5 < np.quantile(errors, level) < 1.5 * float(figure), name
        assert errors.max() < 20.0


def compiled_law(number):
    """Return the law with constants of this type, for many states, compiled here."""
    def compiled(function):
        return numba.njit(error_model='numpy', fastmath={'contract'})(function)

    law = Twins(number, compiled, {'put': either.put}).of(put_law)

    @numba.njit
    def laws(links, ends, q, qd, u, qdd, out):
        tip = np.empty(TIP_WIDTH, links.dtype)
        work = np.empty((len(links), WORK_WIDTH), links.dtype)
        for i in range(len(q)):
            law(Parts(links, ends, work, None, tip), Joints(q[i], qd[i], None, qdd[i]), u[i],
                out[i])

    return laws


class OnGpu:
    """An array of which only the kind of memory is known."""

    __cuda_array_interface__ = {'shape': (1, 7), 'typestr': '<f8', 'data': (0, False)}
    shape, dtype = (1, 7), np.dtype(float)


def test_arrays_on_a_gpu_without_numba_cuda_are_refused(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    monkeypatch.delitem(sys.modules, 'osc_ros.compile.cuda.device_kernels', raising=False)
    with pytest.raises(OscError, match='numba-cuda.*pip install'):
        panda().torque_batch(OnGpu(), OnGpu(), OnGpu())


@pytest.mark.skipif(not HAS_COMPILER, reason="needs the extra 'cuda'")
def test_arrays_on_a_gpu_without_a_driver_are_refused():
    if has_card():
        pytest.skip('there is a GPU')
    with pytest.raises(OscError, match='GPU.*driver'):
        panda().torque_batch(OnGpu(), OnGpu(), OnGpu())
    with pytest.raises(OscError, match='GPU.*driver'):
        panda().evaluate_batch(OnGpu(), OnGpu())


def states_of(name, number, k=64):
    """Return q, q̇ and u of k states, not near a singularity: on the host, and on a GPU."""
    rng, ready = np.random.default_rng(4), (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)
    given = [rng.uniform(-0.3, 0.3, (k, width)) for width in (7, 7, 6)]
    given[0] += ready
    given = [values.astype(number) for values in given]
    if name == 'torch':
        return given, [library(name).tensor(values, device='cuda') for values in given]
    return given, [library(name).asarray(values) for values in given]


def library(name):
    """Return the module that makes arrays, or skip the test."""
    found = pytest.importorskip(name)
    if name != 'jax':
        return found
    found.config.update('jax_enable_x64', True)
    if found.default_backend() != 'gpu':
        pytest.skip('JAX sees no GPU')
    return found.numpy


def on_host(values):
    """Return an array of any library as one of NumPy."""
    values = values.cpu() if hasattr(values, 'cpu') else values
    return values.get() if hasattr(values, 'get') else np.asarray(values)


@pytest.mark.skipif(not has_card(), reason='no NVIDIA GPU here, or no numba-cuda')
@pytest.mark.parametrize('number, tolerance', [
    (np.float64, LANES_AGREEMENT), (np.float32, SINGLE_PRECISION)])
@pytest.mark.parametrize('name', ['torch', 'cupy', 'jax'])
def test_arrays_of_a_library_go_in_and_come_out(name, number, tolerance):
    host, given = states_of(name, number)
    found = panda().torque_batch(*given)
    assert type(found.tau) is type(given[0])
    assert found.tau.dtype == given[0].dtype
    assert on_host(found.valid).all()
    expected = panda().torque_batch(*host).tau
    assert np.abs(on_host(found.tau) - expected).max() < tolerance * np.abs(expected).max()
    terms = panda().evaluate_batch(*given[:2], ('Lambda', 'J'))
    expected = panda().evaluate_batch(*host[:2], ('J',)).J
    assert np.abs(on_host(terms.J) - expected).max() < tolerance * np.abs(expected).max()


@pytest.mark.skipif(not has_card(), reason='no NVIDIA GPU here, or no numba-cuda')
@pytest.mark.parametrize('name', ['torch', 'cupy'])
def test_work_is_done_in_the_order_of_the_current_stream(name):
    found, (host, given) = library(name), states_of(name, np.float64)
    expected = panda().torque_batch(2 * host[0], *host[1:]).tau
    big = found.ones((4096, 4096), **({'device': 'cuda'} if name == 'torch' else {}))
    stream = found.cuda.Stream(non_blocking=True) if name == 'cupy' else found.cuda.Stream()
    stream.synchronize()
    with found.cuda.stream(stream) if name == 'torch' else stream:
        for _ in range(20):  # milliseconds of work, after which q is written
            big = big @ big / 4096
        given[0] += given[0] * big[0, 0]
        tau = panda().torque_batch(*given).tau
        tau *= 2.0
    stream.synchronize()
    assert np.abs(on_host(tau) - 2 * expected).max() < 1e-9 * np.abs(expected).max()
