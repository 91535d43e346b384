# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
The law and its terms by the kernels for a GPU, on a card or in Numba's simulator.

Run by test_gpu.py in a process of its own: Numba decides at its import whether it simulates. The
judge is the processor.
"""

from functools import cache
from importlib.resources import files
from types import ModuleType, SimpleNamespace

from numba import cuda
import numpy as np
import pytest

from osc_ros import InputError, OperationalSpace, Robot
from osc_ros.dynamics.batch import device_arrays
from osc_ros.dynamics.batch.batches import TERMS
from osc_ros.dynamics.batch.device_arrays import library_of
from tolerances import LANES_AGREEMENT, SINGLE_PRECISION

ARMS = {'panda': ('panda_link0', 'panda_hand_tcp'), 'gen3': ('base_link', 'end_effector_link'),
        'ur5e': ('base_link', 'tool0')}
SLIDE = 'panda with a slide'


@cache
def arm(name='panda'):
    """Return an OperationalSpace of a shipped arm, or of one with a prismatic joint."""
    text = files('osc_ros').joinpath(f"robots/{name.split(' ')[0]}.urdf").read_text()
    if name == SLIDE:
        joint = 'name="panda_joint1" type='
        text = text.replace(f'{joint}"revolute"', f'{joint}"prismatic"')
        assert 'prismatic' in text
    return OperationalSpace(Robot.from_urdf(text, *ARMS[name.split(' ')[0]]))


def states(osc, k=2, seed=0):
    """Return q, q̇, u, τ⁰ and posture accelerations of k states."""
    rng, n = np.random.default_rng(seed), osc.robot.n
    return tuple(rng.uniform(-1.5, 1.5, (k, width)) for width in (n, n, 6, n, n))


def device(values, number=np.float64):
    return cuda.to_device(np.asarray(values, number))


def far(found, expected):
    """Return the largest difference / the largest entry."""
    return (np.abs(found.copy_to_host().astype(float) - expected).max(initial=0.0)
            / np.abs(expected).max(initial=1e-9))


@pytest.mark.parametrize('given', [
    (), ('tau_null',), ('posture_acceleration',), ('tau_null', 'posture_acceleration')])
@pytest.mark.parametrize('name', [*ARMS, SLIDE])
def test_torques_are_those_of_the_processor(name, given):
    osc = arm(name)
    q, qd, u, *both = states(osc)
    more = {key: value for key, value in zip(('tau_null', 'posture_acceleration'), both)
            if key in given}
    found = osc.torque_batch(device(q), device(qd), device(u),
                             **{key: device(value) for key, value in more.items()})
    assert found.valid.copy_to_host().all()
    assert far(found.tau, osc.torque_batch(q, qd, u, **more).tau) < LANES_AGREEMENT


@pytest.mark.parametrize('name', [*ARMS, SLIDE])
def test_terms_are_those_of_the_processor(name):
    osc = arm(name)
    q, qd, *_ = states(osc)
    found = osc.evaluate_batch(device(q), device(qd), TERMS)
    for term, expected in osc.evaluate_batch(q, qd, TERMS)._asdict().items():
        assert far(getattr(found, term), expected) < LANES_AGREEMENT, term


@pytest.mark.parametrize('chosen', [('J',), ('h',), ('Lambda', 'a0'), ('Jdot_qd',)])
def test_terms_that_are_not_chosen_have_no_rows(chosen):
    osc = arm()
    q, qd, *_ = states(osc, 1)
    found, expected = (osc.evaluate_batch(*given, chosen) for given in (
        (device(q), device(qd)), (q, qd)))
    for term, values in expected._asdict().items():
        assert getattr(found, term).shape == values.shape
        assert far(getattr(found, term), values) < LANES_AGREEMENT, term


@pytest.mark.parametrize('name', ['panda', 'gen3', SLIDE])
def test_float32_goes_in_and_comes_out(name):
    osc = arm(name)
    given = [values.astype(np.float32) for values in states(osc)]
    found = osc.torque_batch(*(device(values, np.float32) for values in given))
    assert found.tau.dtype == np.float32
    assert far(found.tau, osc.torque_batch(*given).tau) < SINGLE_PRECISION
    terms = osc.evaluate_batch(*(device(values, np.float32) for values in given[:2]), ('h', 'J'))
    assert terms.h.dtype == terms.J.dtype == np.float32
    assert far(terms.h, osc.evaluate_batch(*given[:2]).h) < SINGLE_PRECISION


@pytest.mark.parametrize('number', [np.float64, np.float32])
def test_angle_of_many_turns_has_its_sine(number):
    osc = arm('ur5e')
    q = np.full((1, 6), 50.5, number)
    found = osc.evaluate_batch(device(q, number), device(0 * q, number), ('pose',)).pose
    tolerance = LANES_AGREEMENT if number is np.float64 else SINGLE_PRECISION
    assert far(found, osc.evaluate_batch(q, 0 * q, ('pose',)).pose) < tolerance


def test_singular_state_has_the_torques_of_the_processor():
    osc = arm('ur5e')
    q, qd, u = np.zeros((1, 6)), np.ones((1, 6)), np.ones((1, 6))
    assert far(osc.torque_batch(device(q), device(qd), device(u)).tau,
               osc.torque_batch(q, qd, u).tau) < 1e-6  # its eigenvalue is rounding only


def test_state_that_is_not_finite_gives_nan_there_and_nowhere_else():
    osc = arm()
    q, qd, u, *_ = states(osc, 5)
    good = osc.torque_batch(q, qd, u).tau
    q[1, 6], qd[2, 0], u[3, 5] = np.nan, np.inf, np.nan
    found = osc.torque_batch(device(q), device(qd), device(u))
    np.testing.assert_array_equal(found.valid.copy_to_host(), [True, False, False, False, True])
    tau = found.tau.copy_to_host()
    assert np.isnan(tau[1:4]).all()
    assert np.abs(tau[[0, 4]] - good[[0, 4]]).max() < LANES_AGREEMENT * np.abs(good).max()
    terms = osc.evaluate_batch(device(q), device(qd), TERMS)
    np.testing.assert_array_equal(terms.valid.copy_to_host(), [True, False, False, True, True])
    for values in terms[:-1]:
        assert np.isnan(values.copy_to_host()[1:3]).all()
        assert np.isfinite(values.copy_to_host()[[0, 3, 4]]).all()
    with pytest.raises(InputError, match='^state 1 .*result'):
        osc.torque_batch(device(q), device(qd), device(u), check=True)
    with pytest.raises(InputError, match='^state 1 .*finite'):
        osc.evaluate_batch(device(q), device(qd), ('h',), check=True)


def test_gravity_of_the_robot_may_change_and_each_state_may_have_its_own():
    osc = OperationalSpace(arm().robot)
    q, qd, u, *_ = states(osc)
    on = [device(values) for values in (q, qd, u)]
    osc.torque_batch(*on)
    osc.gravity = (1.0, 2.0, 3.0)
    assert far(osc.torque_batch(*on).tau, osc.torque_batch(q, qd, u).tau) < LANES_AGREEMENT
    own = np.random.default_rng(2).normal(size=(2, 3))
    assert far(osc.torque_batch(*on, gravity=device(own)).tau,
               osc.torque_batch(q, qd, u, gravity=own).tau) < LANES_AGREEMENT
    assert far(osc.evaluate_batch(*on[:2], 'h', gravity=device(own)).h,
               osc.evaluate_batch(q, qd, 'h', gravity=own).h) < LANES_AGREEMENT


def test_results_are_written_to_out_and_no_states_give_no_rows():
    osc = arm()
    on = [device(values) for values in states(osc)[:3]]
    out = device(np.zeros((2, 7)))
    assert osc.torque_batch(*on, out=out).tau is out
    assert out.copy_to_host().any()
    given = osc.evaluate_batch(*on[:2], ('h',))
    given.h[:] = 0.0
    assert osc.evaluate_batch(*on[:2], ('h',), out=given) is given
    assert given.h.copy_to_host().any()
    none = [device(np.zeros((0, width))) for width in (7, 7, 6)]
    assert osc.torque_batch(*none, check=True).tau.shape == (0, 7)
    assert osc.evaluate_batch(*none[:2]).J.shape == (0, 6, 7)


@pytest.mark.parametrize('change, message', [
    ({'u': device(np.zeros((2, 5)))}, r'u .*\(2, 5\).*(give|must be).*\(2, 6\)'),
    ({'q': device(np.zeros((2, 8)))}, r'q .*\(2, 8\).*(give|must be).*\(2, 7\)'),
    ({'q': device(np.zeros(7))}, r'q .*\(7,\).*(give|must be).*\(1, 7\)'),
    ({'qd': device(np.zeros((3, 7)))}, r'qd .*\(3, 7\).*(give|must be).*\(2, 7\)'),
    ({'u': np.zeros((2, 6))}, 'u .*ndarray.*host'),
    ({'q': np.zeros((2, 7))}, 'q .*host.*GPU'),
    ({'out': np.zeros((2, 7))}, 'out .*ndarray.*host'),
    ({'out': device(np.zeros((2, 6)))}, r'out .*\(2, 6\).*(give|must be).*\(2, 7\)'),
    ({'u': device(np.zeros((2, 6)), np.float32)}, 'u .*float32, (give|must be).*float64'),
    ({'q': device(np.zeros((2, 7)), np.float16)}, 'q .*float16: (give|must be)'),
    ({'u': device(np.zeros((2, 12)))[:, ::2]}, 'u .*contiguous'),
    ({'gravity': device(np.zeros(3))}, r'gravity .*\(3,\).*(give|must be).*\(2, 3\)')])
def test_arrays_that_do_not_fit_are_refused(change, message):
    given = {name: device(np.zeros((2, width))) for name, width in (
        ('q', 7), ('qd', 7), ('u', 6))}
    with pytest.raises(InputError, match=f'^{message}'):
        arm().torque_batch(**(given | change))


def test_methods_without_kernels_for_a_gpu_are_refused():
    osc = OperationalSpace(arm().robot, 'bcr')
    with pytest.raises(InputError, match="GPU.*(give|must be).*'sweep'"):
        osc.torque_batch(*(device(np.zeros((1, width))) for width in (7, 7, 6)))
    q = device(np.zeros((1, 7)))
    with pytest.raises(InputError, match='out .*tuple.*(give|must be).*Terms'):
        arm().evaluate_batch(q, q, out=())
    with pytest.raises(InputError, match=r'out\.J .*\(1, 6, 7\).*(give|must be).*\(0, 6, 7\)'):
        arm().evaluate_batch(q, q, ('h',), out=arm().evaluate_batch(q, q, ('J',)))


class Array:
    """A stand-in for an array of PyTorch or CuPy, which need a GPU: only its attributes."""

    device, dtype = SimpleNamespace(index=3, id=3), 'float64'


def library(name, monkeypatch, **attributes):
    """Install a module with these attributes in place of a library; return one of its arrays."""
    module = ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(__import__('sys').modules, name, module)
    monkeypatch.setattr(device_arrays, 'stream_of', lambda pointer: pointer)
    kind = type('Tensor', (Array,), {'__module__': f'{name}.core'})
    return kind()


def test_pytorch_gives_its_memory_and_its_current_stream(monkeypatch):
    made = []
    tensor = library(
        'torch', monkeypatch, float64='f8', float32='f4', bool='b1',
        empty=lambda shape, dtype, device: made.append((shape, dtype, device)),
        cuda=SimpleNamespace(current_stream=lambda device: SimpleNamespace(
            cuda_stream=70 + device.index)))
    found = library_of(tensor)
    assert found.device == 3
    assert found.stream() == 73
    found.empty((2, 7), np.float32)
    assert made == [((2, 7), 'f4', tensor.device)]


def test_array_that_names_its_stream_gives_it(monkeypatch):
    array = library('other', monkeypatch)
    array.__cuda_array_interface__ = {'stream': 99}
    assert library_of(array).stream() == 99
    del array.__cuda_array_interface__['stream']
    assert library_of(array).stream() == 0
