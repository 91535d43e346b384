# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_demo as a process, and in the process of the tests if it refuses."""

import json
import os
from pathlib import Path
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='rclpy is not installed')
from osc_ros.ros.process.domains import reserved_domain

# A separate domain: services of ended lifecycle nodes exist until their process ends (rclpy), and
# the demo must not call those of other tests.
ENVIRONMENT = {**os.environ, 'ROS_DOMAIN_ID': str(reserved_domain())}


def demo(tmp_path, *arguments, code=0):
    """Run osc_demo; return its figures and what it printed."""
    figures = tmp_path / 'figures.json'
    done = subprocess.run(
        [sys.executable, '-m', 'osc_ros.start', 'demo', '--headless', '--output', str(tmp_path),
         '--json', str(figures), *map(str, arguments)],
        capture_output=True, text=True, timeout=1500, check=False, env=ENVIRONMENT)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(figures.read_text()) if figures.exists() else {}, done.stderr + done.stdout


def refusal(monkeypatch, capsys, tmp_path, *arguments):
    """Return what osc_demo prints if it refuses its arguments; it runs in this process."""
    from osc_ros.tools.demo import demo as command
    monkeypatch.setattr('osc_ros.commandline.end_quietly', lambda: None)  # signals of this process
    with pytest.raises(SystemExit) as end:
        command.main(['--headless', '--output', str(tmp_path), *map(str, arguments)])
    printed = ''.join(capsys.readouterr())
    assert end.value.code == 2, printed
    return printed


def processes_with(mark):
    """Return the ids of the processes whose environment variables contain a text."""
    found = []
    for process in Path('/proc').glob('[0-9]*'):
        try:
            if mark.encode() in (process / 'environ').read_bytes():
                found.append(int(process.name))
        except OSError:
            pass  # the process has ended, or belongs to another user
    return found
