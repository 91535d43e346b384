"""Everything at once, at random, on arms that the project does not ship, and one fault each."""

import numpy as np
import pytest

from conftest import CHECKOUT, Processes

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed')

from faults import FAULTS  # noqa: E402
from soak import ARMS, MEMORY, resident, STEP, STEPS, System  # noqa: E402

SEED = 7
# these start processes, which takes seconds: in the long soak only
LONG = ('interrupted', 'second controller')


@pytest.fixture(scope='module')
def xarm7(ros, tmp_path_factory):
    """Give one arm and its nodes, in lockstep, for all quick tests."""
    folder = tmp_path_factory.mktemp('xarm7')
    system = System(ARMS['xarm7'], Processes(folder), folder, False, SEED)
    yield system
    system.close()


@pytest.mark.parametrize('kind', [kind for kind in FAULTS if kind not in LONG])
def test_foreign_arm_survives(xarm7, kind):
    xarm7.judge.broken.clear()
    xarm7.suffer(kind, FAULTS[kind])
    assert not xarm7.judge.broken, report(xarm7)
    assert not xarm7.raised()


def report(system):
    """Return what must not be, a line each."""
    return '\n'.join(f'{kind}: {what}: {count} times, first at {first:.3f} s, worst {worst:.3g}'
                     for (kind, what), (count, first, worst) in system.judge.broken.items())
