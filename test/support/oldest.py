# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Imports all modules and runs each mode in simulation, for `make test-oldest`.

    python test/support/oldest.py --imports     # only the imports: a few seconds

"""

from importlib import import_module, metadata
import pkgutil
import sys

import numpy as np

import osc_ros
from osc_ros import (
    ForceControl,
    JointDrive,
    Law,
    Robot,
    Settings,
    shipped_urdf,
    Simulation,
    Stiffness,
    Task,
)
from osc_ros.control.tasks.free import FreeDrive
from osc_ros.errors import OscError

BASE, TIP = 'panda_link0', 'panda_hand_tcp'
TICKS, RATE = 200, 500.0
OPTIONAL = 'dask', 'distributed', 'gymnasium', 'mpi4py', 'pylibfranka', 'numba_cuda'  # of extras
MODES = {
    'acceleration': Settings(),
    'impedance': Settings(tasks=(Task(Stiffness()),)),
    'free': Settings(free=FreeDrive()),
    'joints': Settings(joints=JointDrive()),
    'force': Settings(tasks=(Task(axes=('motion',) * 5 + ('force',), force=ForceControl()),)),
}


def import_all() -> int:
    """Import every module; return their number. Modules of missing extras do not count."""
    count = 0
    for module in pkgutil.walk_packages(osc_ros.__path__, 'osc_ros.'):
        if module.name.startswith('osc_ros.compile.cuda.'):  # needs numba-cuda
            continue
        try:
            import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or '').partition('.')[0] not in OPTIONAL:
                raise
        except OscError as error:
            if 'numba-cuda' not in str(error):
                raise
        else:
            count += 1
    return count


def run_modes() -> None:
    """Move the simulated arm for 200 ticks in each mode; an assertion fails if it does not."""
    urdf = shipped_urdf('panda')
    robot = Robot.from_urdf(urdf, BASE, TIP)
    for name, settings in MODES.items():
        law = Law(robot, settings)
        arm = Simulation(urdf, law, rate=RATE)
        q, height = arm.q.copy(), arm.pose()[2, 3]
        if name == 'joints':
            law.move_joints(q + 0.02, 0.3)
        elif name == 'force':
            law.set_wrench((0.0, 0.0, 0.0, 0.0, 0.0, 2.0))
        elif name != 'free':
            law.follow(arm.pose(shift=(0.0, 0.0, 0.01)))
        record = arm.run(TICKS / RATE)
        limits = law.robot.effort_limits
        assert np.isfinite(record.torque).all() and (np.abs(record.torque) <= limits).all(), name
        moved = float(np.abs(arm.q - q).max()), float(arm.pose()[2, 3] - height)
        print(f'{name}: {len(record.time)} ticks, a joint moved by {moved[0]:.3g} rad, '
              f'the tip by {1e3 * moved[1]:.3g} mm', flush=True)
        if name == 'joints':
            np.testing.assert_allclose(arm.q, q + 0.02, atol=2e-3)
        elif name == 'free':
            assert moved[0] < 1e-3
        else:
            assert moved[1] > 2e-3, name


if __name__ == '__main__':
    print('Python', sys.version.split()[0], *(
        f'{name} {metadata.version(name)}' for name in ('numpy', 'scipy', 'numba', 'PyYAML',
                                                        'ruckig', 'mujoco')))
    print(f'{import_all()} modules imported', flush=True)
    if '--imports' not in sys.argv:
        run_modes()
