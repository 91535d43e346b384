# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Licence of every file, and ament's linters (flake8, pep257) if installed."""

import re

import pytest

from common import CHECKOUT

SOURCE = CHECKOUT.resolve()
FILES = [path for path in sorted(SOURCE.rglob('*.py'))
         if not any(part in ('build', 'install', 'log') or part.startswith('.')
                    for part in path.relative_to(SOURCE).parts)]
# First lines of every file.
LICENCE = (r'# SPDX-FileCopyrightText: \d{4} The osc_ros maintainers\n'
           r'# SPDX-License-Identifier: Apache-2\.0\n')
PLACES = [str(SOURCE / name) for name in ('benchmark', 'launch', 'osc_ros', 'setup.py', 'test')]


def test_every_python_file_has_the_licence():
    assert FILES
    for path in FILES:
        text = re.sub(r'\A#!.*\n', '', path.read_text(encoding='utf-8'))
        assert re.match(LICENCE, text), f'{path} does not begin with the licence'


def test_ament_flake8_finds_nothing():
    ament_flake8 = pytest.importorskip('ament_flake8.main', reason='ament_flake8 comes with ROS')
    code, errors = ament_flake8.main_with_errors(
        argv=['--config', str(SOURCE / 'setup.cfg'), *PLACES])
    assert code == 0, errors


def test_ament_pep257_finds_nothing():
    """Four rules are off, so a docstring may be descriptive and omit arguments."""
    ament_pep257 = pytest.importorskip('ament_pep257.main', reason='ament_pep257 comes with ROS')
    assert ament_pep257.main(
        argv=['--add-ignore', 'D401', 'D402', 'D403', 'D417', '--', *PLACES]) == 0
