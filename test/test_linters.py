# Copyright 2026 The osc_ros maintainers
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""Licence of every file, and ament's linters (copyright, flake8, pep257) if installed."""

from pathlib import Path
import re

import pytest

SOURCE = Path(__file__).resolve().parents[1]
FILES = [path for path in sorted(SOURCE.rglob('*.py'))
         if not any(part in ('build', 'install', 'log') or part.startswith('.')
                    for part in path.relative_to(SOURCE).parts)]
# First lines of every file, as ament_copyright requires them (its template apache2_header.txt).
LICENCE = """\
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""
PLACES = [str(SOURCE / name) for name in ('benchmark', 'launch', 'osc_ros', 'setup.py', 'test')]


def test_every_python_file_has_the_licence():
    assert FILES
    for path in FILES:
        text = re.sub(r'\A#!.*\n', '', path.read_text(encoding='utf-8'))
        copyright, _, licence = text.partition('\n')
        assert re.fullmatch(r'# Copyright \d{4} The osc_ros maintainers', copyright), (
            f'{path} does not begin with "# Copyright YEAR The osc_ros maintainers"')
        assert licence.startswith(LICENCE), f'{path} lacks the licence after its first line'


def test_ament_copyright_finds_nothing():
    ament_copyright = pytest.importorskip(
        'ament_copyright.main', reason='ament_copyright comes with ROS')
    assert ament_copyright.main(argv=[str(SOURCE)]) == 0


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
