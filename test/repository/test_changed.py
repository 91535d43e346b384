# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""`make test-changed`: a change runs the tests whose imports reach it."""

import subprocess

import pytest

from changed import changed_files, Imports, reaching_tests
from common import CHECKOUT

FILES = {
    'osc_ros/__init__.py': """\
        from importlib import import_module
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from osc_ros.law import Law
        PLACES = {'law': 'Law'}
    """,
    'osc_ros/robot.py': '',
    'osc_ros/law.py': """\
        def torque():
            from osc_ros import robot
    """,
    'osc_ros/table.py': "ARMS = {'panda': 'osc_ros.hardware:Panda'}",
    'osc_ros/hardware.py': '',
    'osc_ros/start.py': "MODULES = {'node': 'ros.node'}",
    'osc_ros/ros/__init__.py': '',
    'osc_ros/ros/node.py': 'import osc_ros.table',
    'benchmark/race.py': 'import osc_ros.hardware',
    'test/conftest.py': '',
    'test/support/texts.py': '',
    'test/support/arm.py': 'from osc_ros import Law',
    'test/test_law.py': 'from arm import Law',
    'test/test_race.py': 'import race',
    'test/test_name.py': 'import osc_ros\nosc_ros.Law',
    'test/test_types.py': 'import osc_ros.robot',
    'test/ros/test_spin.py': "import rclpy\ndef test_of_a_node(spin): 'panda.yaml'",
    'test/ros/test_program.py': "PROGRAM = '''\nimport osc_ros.table\n'''",
    'test/repository/test_rules.py': 'import texts',
    'test/whole/test_command.py': "COMMAND = ['-m', 'osc_ros.start']",
}
ALWAYS = {'rules'}
ALL = {'law', 'race', 'name', 'types', 'spin', 'program', 'rules', 'command'}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / 'project' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace('\n        ', '\n').removeprefix('        '))
    return tmp_path / 'project'


@pytest.mark.parametrize('changed, expected', [
    ('osc_ros/robot.py', {'law', 'name', 'types'}),  # in a function, by a package, by an attribute
    ('osc_ros/law.py', {'law', 'name'}),
    ('osc_ros/hardware.py', {'race', 'spin', 'program', 'command'}),  # in a table, in a program
    ('osc_ros/ros/node.py', {'spin', 'command'}),
    ('benchmark/race.py', {'race'}),
    ('test/support/arm.py', {'law'}),
    ('test/test_types.py', {'types'}),
    ('launch/arm.launch.py', {'command'}),
    ('config/panda.yaml', {'command', 'spin'}),  # the test of a node names it
    ('doc/forces.md', set()),  # the tests of the pages are in the folder repository
    ('test/conftest.py', ALL), ('pyproject.toml', ALL), ('osc_ros/robots/panda.urdf', ALL)])
def test_change_runs_the_tests_that_reach_it(project, changed, expected):
    found = {test.stem.removeprefix('test_') for test in reaching_tests(project, [changed])}
    assert found == expected | ALWAYS


def test_no_change_runs_no_test(project):
    assert reaching_tests(project, []) == []


def test_files_changed_since_a_branch_or_in_the_last_commit_or_not_committed(project):
    def git(*words):
        subprocess.run(['git', '-c', 'user.name=n', '-c', 'user.email=e', *words], cwd=project,
                       check=True, capture_output=True)

    def commit(name):
        (project / name).write_text('1\n')
        git('add', '.')
        git('commit', '-m', name)

    git('init', '-b', 'main')
    for name in ('first', 'second'):
        commit(name)
    assert changed_files(project) == ['second']
    git('update-ref', 'refs/remotes/origin/main', 'HEAD')
    assert changed_files(project) == ['second']
    commit('third')
    git('mv', 'first', 'moved')
    (project / 'new').write_text('')
    assert changed_files(project) == ['first', 'moved', 'third', 'new']
    assert changed_files(project, 'main') == ['first', 'moved', 'new']
    with pytest.raises(subprocess.CalledProcessError):
        changed_files(project, 'no_branch')


def test_every_module_is_reached_by_a_test():
    imports = Imports(CHECKOUT)
    reached = set().union(*map(imports.reached, CHECKOUT.glob('test/**/test_*.py')))
    assert not {name for name, file in imports.modules.items()
                if name.startswith('osc_ros') and file not in reached}
