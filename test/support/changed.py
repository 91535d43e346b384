# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Test files whose imports reach a changed file, for `make test-changed`."""

import ast
from functools import cache
from pathlib import Path
import re
import subprocess

# A line of a program that a test passes to a new process as a text.
IMPORT = re.compile(r'^\s*(?:from ([\w.]+) import (.+)|import ([\w.]+))', re.MULTILINE)
FIXTURES = {'ros', 'spin', 'start'}  # with one of them, a test that knows rclpy has nodes
# Files that no module imports: the tests of whole programs read them, those with texts.py pages.
PROGRAM = re.compile(r'(config|launch|libexec|examples)/')
PAGE = re.compile(r'doc/|\w+\.(md|rst)$')


class Imports:
    """The modules of a checkout and their files, by name; which of them a file imports."""

    def __init__(self, root):
        """Find all modules, and what each package imports, also on first use of a name."""
        self.direct, self.modules, self.tests = cache(self.find), {}, root / 'test'
        for file in root.glob('osc_ros/**/*.py'):
            parts = file.relative_to(root).with_suffix('').parts
            self.modules['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = file
        for folder in ('test/support', 'benchmark', 'examples'):
            self.modules |= {file.stem: file for file in root.glob(f'{folder}/*.py')}
        self.lazy = {name: {alias.name: node.module for node in ast.walk(syntax(file))
                            if isinstance(node, ast.ImportFrom) for alias in node.names}
                     for name, file in self.modules.items() if file.name == '__init__.py'}

    def find(self, file, with_fixtures=True):
        """Return the files that a file imports, also in functions and in texts of programs."""
        names, is_test = set(), file.is_relative_to(self.tests)
        has_nodes = with_fixtures and is_test and b'rclpy' in file.read_bytes()
        for node in statements(syntax(file)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                start = f'{node.module}.' if isinstance(node, ast.ImportFrom) else ''
                names |= {start + alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                names |= {f'osc_ros.{node.attr}'} if node.value.id == 'osc_ros' else set()
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= self.named(node.value)
            elif isinstance(node, ast.arg) and has_nodes and node.arg in FIXTURES:
                names |= {'osc_ros.start'} if node.arg == 'start' else set()
                names |= {name for name in self.modules if name.startswith('osc_ros.ros.')}
        if file == self.modules['osc_ros']:
            names -= {*self.lazy['osc_ros'].values()}
        return {found for name in names for found in self.files(name)}

    def named(self, text):
        """Return the modules that a text names: a program, a file, or the place of a class."""
        found, place = set(), text.partition(':')[0]
        for module, names, plain in IMPORT.findall(text) if '\n' in text else ():
            found |= {plain or f'{module}.{name.strip(" (")}' for name in names.split(',')}
        if '.' in place:
            found |= {place.removesuffix('.py'), f'osc_ros.{place}'} & self.modules.keys()
        return found

    def files(self, name):
        """Return the files that `import name` runs; the last part may also be an attribute."""
        package, _, part = name.rpartition('.')
        name = self.lazy.get(package, {}).get(part, name)
        places = ['.'.join(name.split('.')[:k + 1]) for k in range(name.count('.') + 1)]
        return {self.modules[place] for place in places if place in self.modules}

    def reached(self, file):
        """Return a file, and all files that it imports, directly or through others."""
        found, new = set(), {file}
        while new:
            found |= new
            new = set().union(*map(self.direct, new)) - found
        return found


@cache
def syntax(file):
    return ast.parse(file.read_bytes())


def statements(*nodes):
    """Yield the nodes of a syntax tree, without docstrings and imports that only types need."""
    while nodes:
        yield from nodes
        nodes = [child for node in nodes for child in ast.iter_child_nodes(node) if not (
            isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            or isinstance(child, ast.If) and getattr(child.test, 'id', '') == 'TYPE_CHECKING')]


def reaching_tests(root, changed):
    """Return the test files to run after a change of `changed`, paths relative to `root`."""
    imports, tests = Imports(root), sorted(root.glob('test/**/test_*.py'))
    pages, programs = ({*filter(kind.match, changed)} for kind in (PAGE, PROGRAM))
    code = {root / path for path in {*changed} - pages - programs}
    shared = imports.find(root / 'test' / 'conftest.py', with_fixtures=False)
    if any(file.suffix != '.py' or file.name == 'conftest.py' or file.parent == root
           or file in shared for file in code):
        return tests
    code |= {imports.modules['texts']} if pages else set()
    always = ('test/repository/', 'test/whole/')[:bool(changed) + bool(programs)]
    return [test for test in tests if code & imports.reached(test)
            or test.relative_to(root).as_posix().startswith(always)
            or any(Path(path).name.encode() in test.read_bytes() for path in pages | programs)]


def changed_files(root, base=''):
    """Return the files that differ from the merge base with `base`, and those new to git."""
    def git(*words):
        return subprocess.run(['git', *words], cwd=root, text=True, check=True,
                              stdout=subprocess.PIPE).stdout.split('\n')[:-1]

    known = git('for-each-ref', '--format=%(refname)', 'refs/remotes/origin/main')
    since = git('merge-base', base or known[0], 'HEAD') if base or known else []
    if not base and since in ([], git('rev-parse', 'HEAD')):
        since = ['HEAD~1']
    return [*git('diff', '--name-only', '--no-renames', *since),
            *git('ls-files', '--others', '--exclude-standard')]
