# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The rules of CONTRIBUTING on imports and sizes, checked in the source."""

import ast
from functools import cache
from itertools import chain, dropwhile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / 'osc_ros'
MODULES = sorted(PACKAGE.rglob('*.py'))
# Modules that every folder may import.
SHARED = ('', 'errors', 'commandline', 'interrupts')
# Folders of osc_ros that a folder may import, besides itself and the modules of SHARED.
# For a path in several of these folders, the most specific one applies.
LAYERS = {
    '': ('model', 'dynamics'),
    'model': (),
    'dynamics': ('model', 'dynamics'),
    'dynamics/chain': ('model', 'dynamics'),
    'dynamics/trees': ('model', 'dynamics'),
    'dynamics/teams': ('model', 'dynamics', 'dynamics/chain'),
    'dynamics/papers': ('model', 'dynamics'),
    'control': ('model', 'dynamics', 'dynamics/chain', 'dynamics/trees'),
    'recording': ('model', 'dynamics', 'control'),
    'identification': ('model', 'dynamics', 'control', 'recording'),
    'sim': ('model', 'dynamics', 'control'),
    'hardware': ('model', 'control', 'sim'),
    'arm': ('model', 'dynamics', 'dynamics/teams', 'control', 'hardware'),
    'info': ('model', 'dynamics', 'control'),
    'tuning': ('model', 'dynamics', 'control', 'sim'),
    'viewer': ('model', 'dynamics'),
    'nodes': ('model', 'dynamics', 'dynamics/trees', 'control', 'recording', 'identification',
              'sim', 'hardware', 'arm', 'viewer', 'tuning'),
    'client': ('model', 'dynamics', 'control', 'recording', 'sim', 'hardware', 'arm', 'nodes'),
    'gym': ('model', 'dynamics', 'control', 'sim', 'client'),
    'teach': ('model', 'dynamics', 'control', 'nodes', 'client'),
}
# The only module that imports all methods.
TABLE = 'dynamics/methods.py'
# External libraries, each with the folders and modules that may import it.
OUTSIDE = {
    'rclpy': ('nodes', 'client/topics.py', 'client/services.py'),
    'gymnasium': ('gym',),
    'mujoco': ('sim',),
    'pylibfranka': ('hardware/franka.py', 'hardware/franka_gripper.py'),
    'viser': ('viewer',),
    'trimesh': ('viewer',),
    'xml': ('model/urdf.py', 'model/origin.py', 'model/understood.py', 'model/visuals.py',
            'identification/corrected_urdf.py', 'sim'),
    'multiprocessing': ('dynamics/teams',),
    'mpi4py': ('dynamics/teams/distributed.py',),
    'numba': ('dynamics/addresses.py', 'dynamics/compiled.py', 'dynamics/compiler.py',
              'dynamics/either.py',
              'dynamics/lanes', 'dynamics/teams/atomic.py', 'dynamics/cuda'),
}
LONGEST_MODULE, MOST_PARAMETERS, LONGEST_BODY = 520, 8, 45
# Functions that may have more than MOST_PARAMETERS parameters, with the reason.
MANY_PARAMETERS = {
    'dynamics/batches.py: Batches.torque_batch': 'what states may have, given by name',
    'sim/plant.py: Plant.__init__': 'a constructor whose options are given by name',
}
# Decorators of functions that numba compiles. The rules on sizes exclude these functions: their
# arguments are arrays, and numba inlines the functions that they call.
COMPILED = {'kernel', 'inlined', 'viewing', 'stage', 'part', 'released', 'intrinsic', 'for_device',
            'kernel_for_device'}


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
    """Return the most specific layer that contains a path."""
    return max((layer for layer in LAYERS
                if not layer or path == layer or path.startswith(f'{layer}/')), key=len)


def layers_imported(module):
    """Return (layer, imported path) for every import from osc_ros in a module."""
    found = set()
    for path in imports_of(module):
        inside = path.removeprefix('osc_ros').replace('.', '/').removeprefix('/')
        if not path.startswith('osc_ros') or inside in SHARED:
            continue
        if (PACKAGE / inside).is_dir() or (PACKAGE / f'{inside}.py').is_file():
            found.add((folder_of(inside), inside))
    return found


def test_imports_go_downward():
    for module in MODULES:
        if name(module) == TABLE:
            continue
        own = folder_of(name(module))
        for layer, path in layers_imported(module):
            assert layer == own or layer in LAYERS[own], f'{name(module)} imports {path}'


def test_only_the_table_of_methods_imports_the_papers():
    importers = {name(module) for module in MODULES for _, path in layers_imported(module)
                 if path.startswith('dynamics/papers') and 'papers/' not in name(module)}
    assert importers == {TABLE}


@pytest.mark.parametrize('outside', OUTSIDE)
def test_only_the_right_modules_know_a_library(outside):
    for module in MODULES:
        if any(path.split('.')[0] == outside for path in imports_of(module)):
            assert name(module).startswith(OUTSIDE[outside]), f'{name(module)}: {outside}'


def functions(module):
    """Return the functions of a module that numba does not compile."""
    return [node for node in ast.walk(tree(module))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and not any(isinstance(one, ast.Name) and one.id in COMPILED
                        for one in node.decorator_list)]


def number_of_parameters(function):
    """Return the number of a function's parameters, without self and cls."""
    given = function.args
    count = len([*given.posonlyargs, *given.args, *given.kwonlyargs])
    return count - (bool(given.args) and given.args[0].arg in ('self', 'cls'))


def qualified_names(module):
    """Return the functions of a module, by 'module: Class.function' or 'module: function'."""
    owners = {child: f'{node.name}.' for node in ast.walk(tree(module))
              if isinstance(node, ast.ClassDef) for child in node.body}
    return {f"{name(module)}: {owners.get(function, '')}{function.name}": function
            for function in functions(module)}


def body_length(function):
    """Return the number of lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_module_is_short_and_says_what_it_is_for():
    for module in MODULES:
        lines = module.read_text(encoding='utf-8').splitlines()
        # without the licence header
        lines = len(list(dropwhile(lambda line: line.startswith('#') or not line, lines)))
        assert lines <= LONGEST_MODULE, f'{name(module)}: {lines} lines'
        assert ast.get_docstring(tree(module)), name(module)


def test_functions_have_few_parameters():
    for function, node in chain.from_iterable(qualified_names(one).items() for one in MODULES):
        count = number_of_parameters(node)
        assert (count > MOST_PARAMETERS) == (function in MANY_PARAMETERS), (
            f'{function} has {count} parameters')


def test_exceptions_to_the_number_of_parameters_exist():
    assert MANY_PARAMETERS.keys() <= {
        function for module in MODULES for function in qualified_names(module)}


def test_functions_are_short():
    for function, node in chain.from_iterable(qualified_names(one).items() for one in MODULES):
        lines = body_length(node)
        assert lines <= LONGEST_BODY, f'{function} has a body of {lines} lines'


def test_every_folder_says_what_it_is_for():
    for folder in ('.', *LAYERS):
        assert ast.get_docstring(tree(PACKAGE / folder / '__init__.py')), folder
