"""Linters of ament, where they are installed: flake8 and pep257."""

from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1]
PLACES = [str(SOURCE / name) for name in ('benchmark', 'launch', 'osc_ros', 'setup.py', 'test')]


def test_ament_flake8_finds_nothing():
    ament_flake8 = pytest.importorskip('ament_flake8.main', reason='ament_flake8 comes with ROS')
    code, errors = ament_flake8.main_with_errors(
        argv=['--config', str(SOURCE / 'setup.cfg'), *PLACES])
    assert code == 0, errors


def test_ament_pep257_finds_nothing():
    """A docstring says what comes back, and only of the arguments that need it."""
    ament_pep257 = pytest.importorskip('ament_pep257.main', reason='ament_pep257 comes with ROS')
    assert ament_pep257.main(
        argv=['--add-ignore', 'D401', 'D402', 'D403', 'D417', '--', *PLACES]) == 0
