# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The rules of CONTRIBUTING on imports and names, checked in the source."""

import ast
from collections import Counter
from functools import cache

import pytest

from common import CHECKOUT

PACKAGE = CHECKOUT / 'osc_ros'
MODULES = sorted(PACKAGE.rglob('*.py'))
# Modules that every folder may import.
SHARED = ('', 'errors', 'setting', 'commandline', 'interrupts')
# The folders, and the module control/data. The modules of a folder import only from this folder
# and from those that come before it in this list.
ORDER = (
    'compile', 'compile/cuda', 'model', 'dynamics/algebra', 'dynamics/priority',
    'dynamics/contract', 'dynamics/batch', 'dynamics/papers', 'dynamics/trees', 'dynamics/chain',
    'dynamics/segments', 'dynamics/teams', 'dynamics', 'collision', '', 'control/data',
    'control/tasks', 'control/limits', 'control/model_error', 'control/safety',
    'control/setpoint', 'control/step', 'control', 'loop', 'recording', 'identification/fit',
    'identification', 'sim/mjcf', 'sim', 'hardware',
    'loop/process', 'viewer/scene', 'viewer', 'ros/messages', 'ros/parameters', 'ros/dds',
    'ros/process', 'ros/controller', 'ros', 'ros/crisp',
    'ros/simulator', 'ros/viewer', 'client', 'gym',
    'tools/shapes', 'tools/check', 'tools/demo', 'tools/identify', 'tools/tune',
    'tools/record')
# What a folder does not import although it stands before it.
APART = {
    'model': ('compile',), 'dynamics/papers': ('compile', 'dynamics/batch', 'dynamics/priority'),
    'control/limits': ('control/tasks',), 'control/setpoint': ('control/model_error',),
    'sim': ('loop', 'recording', 'identification'), 'hardware': ('control', 'loop', 'dynamics'),
    'viewer': ('control', 'loop', 'sim', 'hardware'), 'identification': ('loop',),
    'ros': ('identification', 'client'), 'client': ('viewer', 'identification', 'ros/controller'),
    'gym': ('ros', 'loop'), 'tools/shapes': ('ros', 'loop', 'sim', 'client', 'control')}
TESTS = CHECKOUT / 'test'
# Folders of tests that are no folders of the package.
OTHER_TESTS = ('whole', 'benchmark', 'repository')
# External libraries, each with the folders and modules that may import it.
OUTSIDE = {
    'rclpy': ('ros', 'tools', 'client/topics.py', 'client/services.py'),
    'gymnasium': ('gym',),
    'mujoco': ('sim',),
    'pylibfranka': ('hardware/franka.py', 'hardware/franka_gripper.py'),
    'viser': ('viewer',),
    'trimesh': ('viewer', 'collision/urdf_shapes.py'),
    'xml': ('model/urdf.py', 'model/origin.py', 'model/understood.py', 'model/visuals.py',
            'model/srdf.py', 'identification/corrected_urdf.py', 'sim'),
    'multiprocessing': ('dynamics/teams', 'dynamics/segments'),
    'mpi4py': ('dynamics/teams/distributed.py',),
    'numba': ('compile',),
}
def name(module):
    return module.relative_to(PACKAGE).as_posix()


@cache
def tree(module):
    return ast.parse(module.read_text(encoding='utf-8'))


def is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING'


@cache
def imports_of(module):
    """Return the modules that a module imports, at any depth but not under TYPE_CHECKING."""
    return list(imported(tree(module)))


def imported(node):
    """Yield the modules that a syntax node imports."""
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, 'imports are absolute'
            yield child.module
            yield from (f'{child.module}.{alias.name}' for alias in child.names)
        yield from imported(child)


def folder_of(path):
    """Return the folder of a module or a package, from its path in osc_ros."""
    return path if (PACKAGE / path).is_dir() or path in ORDER else path.rpartition('/')[0]


def modules_imported(module):
    """Return the paths of the modules and packages of osc_ros that a module imports."""
    found = set()
    for path in imports_of(module):
        inside = path.removeprefix('osc_ros').replace('.', '/').removeprefix('/')
        if not path.startswith('osc_ros') or inside in SHARED:
            continue
        if (PACKAGE / inside).is_dir() or (PACKAGE / f'{inside}.py').is_file():
            found.add(inside)
    return found


def is_in(folder, other):
    """Return whether a folder is another one, or in it."""
    return folder == other or folder.startswith(f'{other}/')


def test_imports_go_downward():
    for module in MODULES:
        own = folder_of(name(module).removesuffix('/__init__.py').removesuffix('.py'))
        for path in modules_imported(module):
            folder = folder_of(path)
            assert ORDER.index(folder) <= ORDER.index(own), f'{name(module)} imports {path}'
            for one in (one for place, others in APART.items() if is_in(own, place)
                        for one in others):
                assert not is_in(folder, one) or is_in(own, one), f'{name(module)}: {path}'


def test_no_name_of_a_module_occurs_twice():
    names = Counter(module.stem for module in MODULES if module.stem != '__init__')
    assert [one for one, count in names.items() if count > 1] == []


def test_only_the_table_of_methods_imports_the_papers():
    importers = {name(module) for module in MODULES for path in modules_imported(module)
                 if path.startswith('dynamics/papers') and 'papers/' not in name(module)}
    assert importers == {'dynamics/methods.py'}


@pytest.mark.parametrize('outside', OUTSIDE)
def test_only_the_right_modules_know_a_library(outside):
    for module in MODULES:
        if any(path.split('.')[0] == outside for path in imports_of(module)):
            assert name(module).startswith(OUTSIDE[outside]), f'{name(module)}: {outside}'


def test_module_says_what_it_is_for():
    for module in MODULES:
        assert ast.get_docstring(tree(module)), name(module)


def test_every_folder_says_what_it_is_for():
    for folder in ORDER:
        if not (PACKAGE / folder).is_dir():
            continue
        assert ast.get_docstring(tree(PACKAGE / folder / '__init__.py')), folder


def test_folders_of_tests_are_those_of_the_package():
    for file in TESTS.rglob('test_*.py'):
        folder = file.parent.relative_to(TESTS).as_posix()
        assert (PACKAGE / folder).is_dir() or folder in OTHER_TESTS, f'test/{folder}'


def test_no_name_of_a_test_file_occurs_twice():
    found = Counter(file.name for file in TESTS.rglob('*.py') if file.name != 'conftest.py')
    assert not [name for name, count in found.items() if count > 1]
