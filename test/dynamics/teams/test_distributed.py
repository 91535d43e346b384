# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The law over MPI compared with one process; no rank waits forever after a failure."""

from contextlib import suppress
from dataclasses import replace
import os
from pathlib import Path
import pickle
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from common import CHECKOUT, PATIENCE
from mpi import FREELY
from osc_ros import OperationalSpace
from osc_ros.dynamics.segments import roles
from osc_ros.dynamics.teams.distributed import Distributed
from osc_ros.errors import InputError
from team_chains import chain, difference, state, variants
from tolerances import TEAM_AGREEMENT

pytest.importorskip('mpi4py', reason="mpi4py is not installed: pip install '.[mpi]'")
MPIEXEC = shutil.which('mpiexec', path=str(Path(sys.executable).parent)) or shutil.which('mpiexec')
if MPIEXEC is None:
    pytest.skip('no mpiexec: pip install mpich, or apt install mpich', allow_module_level=True)

pytestmark = pytest.mark.filterwarnings('ignore::osc_ros.errors.ModelWarning')
RANKS = CHECKOUT / 'test' / 'support' / 'ranks.py'


@pytest.fixture(scope='module')
def job(tmp_path_factory):
    """Return a function that runs ranks.py by mpiexec: it returns status, output and results."""
    roles.compile_kernels()  # so that all ranks find the kernels in the cache
    OperationalSpace(chain(1, 2))

    def run(ranks, cases, *tasks):
        folder = tmp_path_factory.mktemp('job')
        (folder / 'cases').write_bytes(pickle.dumps(cases))
        done = subprocess.run(
            [MPIEXEC, '-n', str(ranks), sys.executable, str(RANKS), str(folder), *tasks],
            env={**os.environ, **FREELY}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        if done.returncode:
            clear_up()
        found = folder / 'found'
        return done.returncode, done.stdout, found.exists() and pickle.loads(found.read_bytes())
    return run


def clear_up():
    """Remove shared memory that MPICH leaves if a rank was killed, unless a process maps it."""
    mapped = []
    for maps in Path('/proc').glob('[0-9]*/maps'):
        with suppress(OSError):
            mapped.append(maps.read_text())
    for path in Path('/dev/shm').glob('mpich_shm_*'):
        if not any(str(path) in text for text in mapped):
            path.unlink(missing_ok=True)


def pieces(robot, count):
    """Split a chain into pieces that end between body frames; the first is the largest."""
    size = max(1, (robot.n - 1) // count)
    bounds = [0, *range(robot.n - size * (count - 1), robot.n + 1, size)]
    found, T_cut = [], np.eye(4)
    for first, end in zip(bounds[:-1], bounds[1:]):
        mine = slice(first, end)
        T_parent_body = robot.T_parent_body[mine].copy()
        T_parent_body[0] = np.linalg.inv(T_cut) @ T_parent_body[0]
        # the frame at the end of this piece differs from every body frame
        T_cut = chain(end, 1).T_parent_body[0] if end < robot.n else robot.T_body_tip
        found.append(replace(
            robot, joints=robot.joints[mine], parent=np.arange(-1, end - first - 1),
            prismatic=robot.prismatic[mine], spherical=robot.spherical[mine],
            T_parent_body=T_parent_body, inertia=robot.inertia[mine],
            rotor_inertia=robot.rotor_inertia[mine], position_limits=robot.position_limits[mine],
            velocity_limits=robot.velocity_limits[mine], effort_limits=robot.effort_limits[mine],
            deceleration_limits=robot.deceleration_limits[mine],
            coulomb_friction=robot.coulomb_friction[mine],
            viscous_friction=robot.viscous_friction[mine],
            gravity=robot.gravity if first == 0 else np.zeros(3),
            frames={robot.tip: (end - first - 1, T_cut)}))
    return found


@pytest.fixture(scope='module', params=[pytest.param(2, marks=pytest.mark.slow), 4])
def found(request, job):
    """Return the number of ranks, the cases, and the results of the ranks."""
    ranks = request.param
    cases = [(robot, pieces(robot, ranks), state(robot))
             for robot in (chain(n, n) for n in (7, 4, 13, 200))]
    status, said, found = job(ranks, cases, 'law', 'refusals', 'constructors')
    assert status == 0, said
    return ranks, cases, found


def test_ranks_give_the_results_of_one_process_from_the_whole_chain_or_a_piece_each(found):
    _, cases, found = found
    for (robot, _, (q, qd, u, tau, qdd)), ways in zip(cases, found['law']):
        alone = OperationalSpace(robot)
        for way in ways:
            for given, got, again in zip(variants(tau, qdd), way[:4], way[4:]):
                torque = alone.torque(q, qd, u, *given)
                tip = alone.outward(q, qd, *given)
                expected = (tip.pose, tip.twist, tip.Lambda_inv, tip.a0, torque,
                            alone.inward(2.0 * u))
                for one, other, repeated in zip(got, expected, again):
                    assert difference(one, other) < TEAM_AGREEMENT
                    np.testing.assert_array_equal(one, repeated)


@pytest.mark.slow  # quick: the test above, in the same job
def test_what_one_rank_refuses_all_refuse_and_go_on(found):
    ranks, _, found = found
    told, last = found['refusals'], ranks - 1
    shape, finite, given, large = (list(one) for one in zip(*(one[:4] for one in told)))
    assert shape[-1] == 'q has shape (0,), must be (1,)'
    assert finite[-1] == 'qd is not finite: qd[0] = nan'
    assert set(shape[:-1] + finite[:-1]) == {
        f'rank {last} has refused what it was given, so nothing is done'}
    assert given == [f'rank {last} is given tau_null and u, and rank {k} u: give the same '
                     'of them' for k in range(last)] + [
        f'rank 0 is given u, and rank {last} tau_null and u: give the same of them']
    assert all('is not finite: the state or u is too large' in one for one in large)
    assert [one[4].split(',')[0] for one in told] == last * [f'rank {last} is given u'] + [
        'rank 0 is given none of them']


@pytest.mark.slow  # quick: test_every_rank_needs_a_body, without MPI
def test_bodies_that_do_not_add_up_are_refused(found):
    ranks, cases, found = found
    accepted = f'{ranks} ranks and 7 bodies: must be {ranks} numbers from 1, 7 in all'
    for told in found['constructors']:
        assert told == [f'bodies {bodies} for {accepted}'
                        for bodies in ([1] * ranks, [7] + [0] * (ranks - 1))]


def test_every_rank_needs_a_body():
    with pytest.raises(InputError, match='4 ranks.*3 bodies.*(give|must be).*1 to 3'):
        Distributed(SimpleNamespace(size=4, rank=0), chain(3, 3))


# quick, without the fault: the tests of `found`
@pytest.mark.slow
@pytest.mark.parametrize('how, why', [
    ('raises', 'RuntimeError: no measurement of joint 7'), ('exits', 'SystemExit: no robot')])
def test_a_rank_that_leaves_ends_the_job_and_says_why(job, how, why):
    robot = chain(3, 20)
    status, said, _ = job(2, [(robot, None, state(robot))], how)
    assert status != 0
    assert 'rank 1 of 2' in said and why in said


@pytest.mark.slow  # quick, without the fault: as above
def test_a_rank_that_is_killed_ends_the_job_with_a_message(job):
    robot = chain(3, 20)
    status, said, _ = job(4, [(robot, None, state(robot))], 'killed')
    assert status != 0
    assert 'KILLED BY SIGNAL: 9' in said or 'signal 9' in said.lower(), said
