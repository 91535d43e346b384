# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The installed package is complete, and the tests import it and not the checkout."""

import importlib.metadata
from importlib.resources import files
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tarfile
from xml.etree import ElementTree

import pytest

from common import CHECKOUT
import osc_ros

SOURCE = CHECKOUT.resolve()
SHARE = Path(sys.prefix, 'share', 'osc_ros')
EXECUTABLES = {'osc_arm', 'osc_controller', 'osc_crisp', 'osc_relay', 'osc_simulator',
               'osc_demo', 'osc_identify', 'osc_viewer', 'osc_check',
               'osc_tune', 'osc_record', 'osc_replay', 'osc_shapes'}


def installed_by_pip():
    try:
        place = Path(importlib.metadata.distribution('osc_ros').locate_file(''))
    except importlib.metadata.PackageNotFoundError:
        return False
    return place.is_relative_to(sys.prefix) and SHARE.is_dir()


with_pip = pytest.mark.skipif(
    not installed_by_pip(),
    reason=f'osc_ros is not what pip installed in {sys.prefix}: a checkout, editable, or colcon')


@with_pip
def test_the_installed_package_is_tested_and_not_the_checkout():
    assert Path(osc_ros.__file__).is_relative_to(sys.prefix)


@with_pip
def test_what_ros_looks_for_is_where_it_looks():
    from_source = {
        'share/ament_index/resource_index/packages': ['resource/osc_ros'],
        'share/osc_ros': ['package.xml'],
        'share/osc_ros/config': (SOURCE / 'config').glob('*.*'),
        'share/osc_ros/launch': (SOURCE / 'launch').glob('*.launch.py'),
        'lib/osc_ros': (SOURCE / 'libexec').iterdir(),
    }
    for folder, sources in from_source.items():
        for source in sources:
            installed = Path(sys.prefix, folder, Path(source).name)
            assert installed.read_bytes() == (SOURCE / source).read_bytes(), installed


@with_pip
def test_ros2_run_and_the_command_line_have_the_same_executables():
    scripts = importlib.metadata.distribution('osc_ros').entry_points
    assert {script.name for script in scripts if script.group == 'console_scripts'} == EXECUTABLES
    for folder in ('bin', 'lib/osc_ros'):
        for name in EXECUTABLES:
            assert os.access(Path(sys.prefix, folder, name), os.X_OK), f'{folder}/{name}'


@with_pip
def test_executable_of_ros2_run_uses_the_python_that_it_was_installed_for():
    without_path = {**os.environ, 'PATH': '/usr/bin:/bin'}
    shown = subprocess.run(
        [Path(sys.prefix, 'lib', 'osc_ros', 'osc_demo'), '--help'], env=without_path,
        capture_output=True, text=True, timeout=60, check=True)
    assert '--urdf' in shown.stdout


# quick: test_executable_of_ros2_run_uses_the_python_that_it_was_installed_for
@pytest.mark.slow
def test_demo_starts_from_a_wheel_by_uvx(tmp_path):
    uv = shutil.which('uv', path=os.pathsep.join([f'{sys.prefix}/bin', os.environ['PATH']]))
    if uv is None:
        pytest.skip('no uv')
    source = tmp_path / 'source'
    shutil.copytree(SOURCE, source,
                    ignore=shutil.ignore_patterns('.*', 'build', 'site', '*.egg-info'))
    subprocess.run([uv, 'build', '-q', '--wheel', '-o', tmp_path, source], check=True)
    [wheel] = tmp_path.glob('*.whl')
    shown = subprocess.run(
        [uv, 'tool', 'run', '-q', '-c', SOURCE / 'requirements' / 'constraints.txt',
         '--from', f'{wheel}[demo,jazzy]', 'osc_demo', '--help'],
        env={name: value for name, value in os.environ.items() if name != 'AMENT_PREFIX_PATH'
             and not name.startswith('PYTHON')}, capture_output=True, text=True, check=True)
    assert '--urdf' in shown.stdout


def test_library_needs_no_ros():
    hide_ros = (
        'import sys\n'
        "for name in ('rclpy', 'launch', 'std_msgs', 'ament_index_python', 'mujoco'):\n"
        '    sys.modules[name] = None\n'
        'from osc_ros import OperationalSpace, Robot\n')
    subprocess.run([sys.executable, '-c', hide_ros], timeout=120, check=True)


def test_nodes_beside_a_real_arm_load_no_simulator():
    pytest.importorskip('rclpy')
    run = subprocess.run([sys.executable, '-c', (
        'import sys, osc_ros.ros.arm_node, osc_ros.ros.controller.controller, osc_ros.ros.relay; '
        "sys.exit('mujoco' in sys.modules)")], check=False)
    assert run.returncode == 0


def test_types_and_robots_come_with_the_package():
    assert files('osc_ros').joinpath('py.typed').is_file()  # without it type checkers ignore types
    assert 'robot' in files('osc_ros').joinpath('robots', 'panda.urdf').read_text('utf-8')


@with_pip
def test_version_is_the_same_in_package_xml_and_in_the_distribution():
    version = ElementTree.parse(SOURCE / 'package.xml').findtext('version')
    assert version == importlib.metadata.version('osc_ros')


def test_package_xml_has_what_a_build_farm_asks_for():
    root = ElementTree.parse(SOURCE / 'package.xml').getroot()
    keys = {element.text for element in root if element.tag.endswith('depend')}
    assert not [key for key in keys if key.endswith('-pip')]  # keys that call pip are refused
    assert {'ament_flake8', 'ament_pep257'} <= keys
    setup = (SOURCE / 'setup.py').read_text(encoding='utf-8')
    for tag in ('author', 'maintainer'):
        person = root.find(tag)
        assert f"{tag}='{person.text}'" in setup
        assert f"{tag}_email='{person.get('email')}'" in setup


def test_package_xml_depends_on_every_ros_package_that_is_imported():
    declared = {element.text for element in ElementTree.parse(SOURCE / 'package.xml').getroot()
                if element.tag.endswith('depend')}
    imported = {
        line.split()[1].split('.')[0]
        for source in (SOURCE / 'osc_ros').rglob('*.py')
        for line in source.read_text('utf-8').splitlines()
        if line.startswith(('from ', 'import '))
    }
    ros = {name for name in imported
           if name == 'rclpy' or name.endswith(('_msgs', '_srvs', '_interfaces', '_index_python'))}
    assert ros <= declared


def test_source_distribution_has_every_file_of_the_repository(tmp_path):
    pytest.importorskip('setuptools', reason='setuptools is not installed')
    git = subprocess.run(['git', 'ls-files', '-z'], cwd=SOURCE, capture_output=True, text=True)
    if git.returncode:
        pytest.skip('not in a repository')
    wanted = {name for name in git.stdout.split('\0') if name and (SOURCE / name).is_file()}
    for name in wanted:
        (copy := tmp_path / 'copy' / name).parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((SOURCE / name).read_bytes())
    done = subprocess.run([sys.executable, 'setup.py', '-q', 'sdist', '-d', tmp_path],
                          cwd=tmp_path / 'copy', capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob('*.tar.gz'))) as archive:
        has = {name.partition('/')[2] for name in archive.getnames()}
    assert wanted - has == {'.ci/run', '.gitignore'}
