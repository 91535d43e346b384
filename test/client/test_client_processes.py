# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""`osc_ros.Arm` and the process of its loop: which one ends, and what then happens to the arm."""

import os
from pathlib import Path
import signal
import subprocess
import sys
from time import perf_counter, sleep

import numpy as np
import pytest

from common import PATIENCE
from loops import memory_of
import osc_ros
from osc_ros.control.safety.safety import AT_REST
from osc_ros.errors import ArmError
from osc_ros.loop.cycle import ACTIVE, IDLE, MODES

PROGRAM = """
import sys, osc_ros
arm = osc_ros.Arm.real_time('panda', 'mujoco', {settings})
goal = arm.pose(shift=(0.0, 0.1, 0.0))
arm.move_to(goal, duration=1.0, wait=False)
arm.jog([0.0, 0.0, 0.0, 0.0, 0.02, 0.0])  # the newest command: it ends by itself
print(arm._backend._loop._process.pid, 'rclpy' in sys.modules, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(('is_killed', 'identity'), [
    # quick for (True, 'held'): test_arm.py, where a node is killed
    *(pytest.param(one, 'held', marks=pytest.mark.slow) for one in (True, False)), (True, '')])
def test_loop_of_a_real_arm_holds_it_if_the_program_is_killed_and_else_ends(is_killed, identity):
    identity = identity and f'{identity} {os.getpid()}'
    program = subprocess.Popen([sys.executable, '-c', PROGRAM.format(
        settings={'identity': identity})], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    loop, has_ros = program.stdout.readline().split()
    loop = int(loop)
    witness = memory_of(loop, 7)
    assert has_ros == 'False'
    deadline = perf_counter() + PATIENCE
    if is_killed and not identity:
        program.kill()
        program.wait()
    elif is_killed:
        program.kill()
        program.wait()
        count = witness.count
        while witness.count < count + 1000 or np.abs(
                witness.at(witness.count - 1).qd).max() > 0.1 * AT_REST:
            assert perf_counter() < deadline
            sleep(0.05)
        assert MODES[witness.at(witness.count - 1).mode] == ACTIVE
        os.kill(loop, signal.SIGTERM)
    else:
        program.communicate()  # it ends without `close`
    while Path(f'/proc/{loop}/cmdline').exists() and Path(f'/proc/{loop}/cmdline').read_bytes():
        assert perf_counter() < deadline
        sleep(0.01)
    assert MODES[witness.at(witness.count - 1).mode] == IDLE
    witness.close()
    program.stdin.close()
    program.stdout.close()


def test_loop_that_has_ended_is_an_error_of_every_command():
    with osc_ros.Arm.real_time('panda', 'mujoco') as arm:
        os.kill(arm._backend._loop._process.pid, signal.SIGKILL)
        with pytest.raises(ArmError, match='status -9'):
            arm.sleep(PATIENCE)
        for command in (lambda: arm.move_to(arm.pose(), wait=False),
                        lambda: arm.jog([0.0] * 6), arm.hold, lambda: arm.impedance(None),
                        arm.recover):
            with pytest.raises(ArmError, match='status -9.*itself$'):
                command()
    for command in (arm.hold, arm.recover, lambda: arm.sleep(1.0)):
        with pytest.raises(ArmError, match='closed'):
            command()


def test_client_without_ros_imports_no_rclpy():
    code = ("import sys, osc_ros, osc_ros.client.simulated, osc_ros.client.real_time; "
            "sys.exit('rclpy' in sys.modules)")
    assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0
