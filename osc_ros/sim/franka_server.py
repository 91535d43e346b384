# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Simulated FR3 with Franka's network protocol: franka-sim, in its own virtual environment.

The Python of that environment runs this file as the server, which imports nothing of osc_ros:
`.venv-franka-sim/bin/python osc_ros/sim/franka_server.py ADDRESS URDF`. ADDRESS is on the loopback
network; different addresses allow several servers, because libfranka always uses port 1337.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
import os
from pathlib import Path
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, IO

PORT = 1337  # fixed in libfranka
READY = 0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785  # default start positions [rad]
ROTOR_INERTIA = 0.1  # without it the hold between two motions is unstable [kg m²]
PRIORITY = 30  # priority under SCHED_FIFO, if permitted
# Python's thread switch interval, the longest wait for another thread's code; default 5 ms [s].
SWITCH_INTERVAL = 1e-4
PATIENCE = 30.0  # timeout for the start of the server [s]
VARIABLE = 'FRANKA_SIM_PYTHON'
FOLDER = '.venv-franka-sim'  # in the checkout, created by `make`


class ServerError(RuntimeError):
    """The server is not installed, or did not start; the message has its log."""


def python() -> Path:
    """Path of the Python with franka-sim: the value of VARIABLE, by default the one in FOLDER."""
    return Path(os.environ.get(VARIABLE, Path(FOLDER, 'bin', 'python'))).absolute()


class FrankaServer:
    """A server in its own process; use it in a `with` statement."""

    # `address`: to connect to; `urdf`: of an FR3; `log`: receives the output of the server; `q`
    # (7,): start positions [rad]. On entry, ServerError if franka-sim is not installed, or did not
    # start.

    def __init__(self, urdf: Path, log: Path, q: Sequence[float] = READY) -> None:
        pid = os.getpid()
        self.address = f'127.{1 + pid % 199}.{pid // 199 % 250}.7'
        self._urdf, self._log, self._q = urdf, log, q

    def __enter__(self) -> FrankaServer:
        """Start the server, and return when it accepts connections."""
        if not python().exists():
            raise ServerError(f'franka-sim is not installed: there is no {python()}; give '
                              f'the Python of an environment with requirements/franka-sim.txt in '
                              f'the variable {VARIABLE}, as `make demo` and `make test` set it')
        environment = {name: value for name, value in os.environ.items()
                       if name not in ('PYTHONPATH', 'PYTHONHOME', 'PYTHONSAFEPATH')}
        with self._log.open('w') as log:
            self._process = subprocess.Popen(
                [python(), __file__, self.address, self._urdf, *map(str, self._q)], text=True,
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=environment,
                start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while 'Server listening' not in self.log_text():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise ServerError(f'franka-sim did not start:\n{self.log_text()[-2000:]}')
            time.sleep(0.02)
        return self

    def send(self, line: str) -> None:
        """Send a command line to `execute_commands`."""
        print(line, file=self._input, flush=True)

    def log_text(self) -> str:
        """Return the log of the server."""
        return self._log.read_text(errors='replace')

    def signal(self, number: int) -> None:
        """Send a signal to the server, for example SIGSTOP or SIGCONT."""
        self._process.send_signal(number)

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()
        self._input.close()

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin


def _model(urdf: Path, folder: Path) -> Path:
    """Write the arm as MJCF, without meshes and with fixed fingers; return the path."""
    # franka-sim detects collisions between geometries with certain names: here two spheres, on the
    # first and on the last link, that touch before the real links would.
    import mujoco

    text = re.sub(r'<(visual|collision)\b[^>]*?(/>|>.*?</\1>)', '', urdf.read_text(),
                  flags=re.S)
    text = re.sub(r'(<joint name="\w*finger_joint\d" type=)"prismatic"', r'\1"fixed"', text)
    text = text.replace('</robot>', '<mujoco><compiler fusestatic="false"/></mujoco></robot>')
    spec = mujoco.MjSpec.from_string(text)
    for link, radius in (('fr3_link1', 0.15), ('fr3_link7', 0.13)):
        spec.find_body(link).add_geom(name=f'{link}_collision', size=[radius, 0.0, 0.0],
                                      type=mujoco.mjtGeom.mjGEOM_SPHERE, mass=0.0)
    for joint in spec.joints:
        joint.armature = ROTOR_INERTIA
    spec.compile()
    path = folder / 'fr3.xml'
    path.write_text(spec.to_xml())
    return path


def serve(address: str, urdf: Path, q: Sequence[float]) -> None:
    """Run the server until the process ends; execute command lines of the standard input."""
    import logging

    from franka_sim import FrankaSimServer
    from franka_sim.mujoco_franka_sim import ARM_INITIAL_Q

    sys.setswitchinterval(SWITCH_INTERVAL)
    with suppress(OSError):  # as on the dedicated computer of a real arm
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    ARM_INITIAL_Q[:] = q
    logging.basicConfig(level=logging.INFO, format='%(asctime)s %(levelname)s %(message)s')
    with tempfile.TemporaryDirectory() as folder:
        # Without the variable, franka-sim would download a model.
        os.environ['FR3_MJCF'] = str(_model(urdf, Path(folder)))
        server = FrankaSimServer(host=address, port=PORT, enable_gripper=True,
                                 enforce_comm_constraints=True, enforce_motion_limits=True)
        step_with_states(server)
        threading.Thread(target=execute_commands, args=(server,), daemon=True).start()
        server.start()


def step_with_states(server: Any) -> None:
    """Couple the physics to the arm's clock: one physics step for each state that is sent."""
    # franka-sim steps its physics in a separate thread by the wall clock, but counts one period of
    # the arm's clock for each sent state: on a busy computer, which sends only 930 to 960 states
    # per second, the arm seems to move 4 to 7 % faster than its clock. In addition, both threads
    # wait for each other's Python code.
    from franka_sim.robot_state import RobotState  # each connection creates one

    simulation, advance, one = server.physics_sim, RobotState.update, threading.Lock()

    def advance_and_step(state: Any) -> None:
        advance(state)
        with one:  # another thread sends the last state of a motion
            simulation.step()

    def wait() -> None:
        simulation.step()
        while simulation.running:
            time.sleep(0.1)

    RobotState.update, simulation.run_simulation = advance_and_step, wait


def execute_commands(server: Any) -> None:
    """Execute the command lines of the standard input; end the process when the input ends."""
    from franka_sim.franka_protocol import MoveStatus
    from franka_sim.server.constants import RobotMode

    for line in sys.stdin:
        word, value = line.split()
        state = server.robot_state.state
        if word == 'error':  # a reflex; value: index of the error in the protocol
            server._abort_with_error(int(value), 'test')
        elif word == 'mode':
            state['robot_mode'] = RobotMode[value]
        elif word == 'abort':  # ends the motion without a reflex
            motion, server.current_motion_id = server.current_motion_id, 0
            server._engage_idle_hold('test')
            state['motion_generator_mode'], state['controller_mode'] = 0, 3
            state['robot_mode'] = RobotMode.kUserStopped
            server._pending_move_response = motion, MoveStatus[value], server._states_packed
        elif word == 'lost':  # consecutive lost packets that end a motion; default 20
            server.comm._max_consecutive_lost = int(value)
        elif word == 'object':  # width of the object between the fingers [m]; 0: none
            server.gripper_server.backend.set_object_width(float(value) or None)
        elif word == 'connection':
            server.client_socket.shutdown(socket.SHUT_WR)  # half-closed: worst case for a client
    os._exit(0)


if __name__ == '__main__':
    serve(sys.argv[1], Path(sys.argv[2]), [float(value) for value in sys.argv[3:]] or READY)
