# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The commands that work without ROS, each imported such that Ctrl-C ends the import quietly."""

from __future__ import annotations

from importlib import import_module
import os
import signal
import sys
from typing import NoReturn

from osc_ros.interrupts import end_quietly

COMMANDS = {'info': 'osc_ros.info.command', 'replay': 'osc_ros.recording.command',
            'teach': 'osc_ros.teach.command'}


def info() -> NoReturn:
    """Run osc_info."""
    _print('info')


def replay() -> NoReturn:
    """Run osc_replay."""
    _print('replay')


def teach() -> NoReturn:
    """Run osc_teach."""
    _run('teach')


def _print(name: str) -> NoReturn:
    """Run a command that only prints and writes files: it ends when its reader does (`| head`)."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        try:
            _run(name)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the parent has blocked the signal, or a library ignores it
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPIPE])
        os.kill(os.getpid(), signal.SIGPIPE)
        raise


def _run(name: str) -> NoReturn:
    end_quietly()  # before the import of NumPy and Numba, which takes seconds
    import_module(COMMANDS[name]).main()
    sys.exit(0)


if __name__ == '__main__':  # python -m osc_ros.start info ...
    globals()[sys.argv.pop(1)]()
