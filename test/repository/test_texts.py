# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Commands, snippets and links of README.md, CONTRIBUTING.md and doc/ are correct.

Every snippet runs unchanged; every command is compared with the program that it calls. Commands
that talk to a node are checked in test_texts_ros.py.

"""

import os
from pathlib import Path
import pydoc
import re
import shlex
import shutil
import subprocess
import sys
from xml.etree import ElementTree

from _pytest.mark.expression import Expression
import numpy as np
import pytest
import yaml

from texts import (
    anchors,
    blocks,
    CHECKOUT,
    commands,
    FOREIGN,
    launch_arguments,
    links,
    names_of_tests,
    PAGES,
    PROGRAMS,
    read,
    spans,
)

# Programs that are not run: they change the machine, need the network, or a ROS installation.
NOT_RUN = {
    'cd': "the folder is the reader's",
    'git': 'the address is not known',
    'python3': 'makes a virtual environment; `make` does the same in every run of the tests',
    'uvx': 'downloads packages; test_demo_starts_from_a_wheel_by_uvx runs it',
    'touch': "makes a file in the reader's workspace",
    '.': "a file of the reader's virtual environment",
    'source': "a file of the reader's workspace",
}
SETUP = (CHECKOUT / 'setup.py').read_text(encoding='utf-8')
MAKEFILE = (CHECKOUT / 'Makefile').read_text(encoding='utf-8')
PACKAGE_XML = ElementTree.parse(CHECKOUT / 'package.xml').getroot()
MPIEXEC = shutil.which('mpiexec', path=str(Path(sys.executable).parent)) or shutil.which('mpiexec')
COMMANDS = [(page, words) for page in PAGES for words in dict.fromkeys(commands(page))]


def ids(value):
    """Return a readable id of a parameter: a page, or a command."""
    return value if isinstance(value, str) else ' '.join(value)


# Pages

def test_readme_is_short_and_says_that_no_real_arm_has_been_tried():
    assert len(read('README.md').splitlines()) <= 150
    safety = read('README.md').split('## Before you stand next to the arm')[1].split('\n## ')[0]
    assert 'No real arm has been tried yet.' in safety


def test_index_names_every_page_once():
    named = [target for target in links('doc/README.md') if target.endswith('.md')]
    pages = {Path(page).relative_to('doc').as_posix() for page in PAGES if page.startswith('doc/')}
    assert sorted(target for target in named if not target.startswith('..')) == sorted(
        pages - {'README.md'})


@pytest.mark.parametrize('page', PAGES)
def test_links_and_anchors_resolve(page):
    for target in links(page):
        if re.match(r'https?://', target):
            continue
        file, _, anchor = target.partition('#')
        path = ((CHECKOUT / page).parent / file).resolve() if file else CHECKOUT / page
        assert path.exists(), f'{page}: {target}'
        if anchor:
            assert anchor in anchors(path.relative_to(CHECKOUT)), f'{page}: {target}'


@pytest.mark.parametrize('page', PAGES)
def test_every_block_names_its_language_and_hides_no_command(page):
    assert read(page).count('\n```') == 2 * len(blocks(page)), 'a fence is not closed'
    for block in blocks(page):
        assert block.language in ('python', 'sh', 'text', 'yaml'), f'{page}:{block.line}'
        if block.language == 'text':
            first = {line.split()[0] for line in block.text.splitlines() if line.strip()}
            assert not first & set(PROGRAMS), f'{page}:{block.line}'
    outside = re.sub(r'^```.*?^```$', '', read(page), flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r'\n\n {4}\S', outside), f'{page}: an indented block has no language'


@pytest.mark.parametrize('page', PAGES)
def test_files_and_names_in_the_prose_exist(page):
    if page == 'doc/franka.md':
        pytest.importorskip('pylibfranka', reason='the page names a module that needs it')
    for span in spans(page):
        name = span.replace('NAME', 'panda')  # NAME stands for any shipped robot
        if re.fullmatch(r'(test|doc|config|launch|requirements|benchmark|osc_ros)/[\w./]+', name):
            assert (CHECKOUT / name).exists(), f'{page}: {span}'
        if re.fullmatch(r'(compile|model|dynamics|control|loop|recording|sim|hardware|ros|client|'
                        r'tools)/[\w./]+', name):
            assert (CHECKOUT / 'osc_ros' / name).exists(), f'{page}: {span}'
        if re.fullmatch(r'test_\w+\.py', span):
            assert any((CHECKOUT / 'test').rglob(span)), f'{page}: {span}'
        if re.fullmatch(r'osc_ros(\.\w+)+', span):
            assert pydoc.locate(span) is not None, f'{page}: {span}'
        if span.startswith('-k '):
            require_tests(shlex.split(span))


# Python snippets

def is_script(block):
    return '__main__' in block.text or block.text.startswith('# mpiexec')


@pytest.mark.parametrize('page', [page for page in PAGES if not all(
    map(is_script, blocks(page, 'python')))])
def test_snippets_run_as_they_stand_in_the_order_of_the_page(page):
    found = {}
    for block in blocks(page, 'python'):
        if not is_script(block):
            code = '\n' * block.line + block.text
            exec(compile(code, str(CHECKOUT / page), 'exec'), found)
    if hasattr(found.get('arm'), 'simulation'):  # a client, which is closed
        assert found['arm'].simulation.time > 1.0
    elif 'arm' in found:  # the simulated arm reaches its goal
        arm = found['arm']
        goal = found['goal'] if 'goal' in found else arm.law.target.pose
        assert np.abs(arm.plant.pose('panda_hand_tcp') - goal).max() < 1e-3 < arm.time


SCRIPTS = [(page, block) for page in PAGES for block in blocks(page, 'python') if is_script(block)]


@pytest.mark.parametrize('page, block', [
    pytest.param(page, block, id=f'{page}:{block.line}',
                 marks=pytest.mark.slow if 'mpiexec' in block.text else ())
    for page, block in SCRIPTS])
def test_scripts_run_as_they_stand(page, block, tmp_path):
    words, extra = [sys.executable, 'script.py'], {}
    runs = [words]
    if block.text.startswith('# mpiexec'):
        pytest.importorskip('mpi4py', reason="mpi4py is not installed: pip install '.[mpi]'")
        if MPIEXEC is None:
            pytest.skip('no mpiexec: pip install mpich, or apt install mpich')
        from mpi import FREELY as extra
        words = shlex.split(block.text.splitlines()[0][2:])
        assert tuple(words) in commands(page), 'the command is in the prose, too'
        words = [MPIEXEC, '-n', words[2], sys.executable, words[4]]
        runs = [[MPIEXEC, '-n', '1', *words[3:]], words]  # one process first, to fill the cache
    (tmp_path / words[-1]).write_text(block.text, encoding='utf-8')
    for run in runs:
        done = subprocess.run(run, cwd=tmp_path, env={**os.environ, **extra}, timeout=300,
                              text=True, capture_output=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), 'the script prints its result'


# Commands

@pytest.mark.parametrize('page, words', COMMANDS, ids=ids)
def test_command_calls_what_there_is(page, words):
    words = words[2:] if words[:3] == ('python3', '-m', 'colcon') else words
    program = words[0]
    if program in CHECKS:
        CHECKS[program](words[1:])
    elif program.startswith('osc_'):
        require_executable(words)
    else:
        assert program in NOT_RUN, f'{page}: nothing checks `{shlex.join(words)}`'


def test_every_command_that_is_not_run_is_in_a_text():
    assert set(NOT_RUN) <= {words[0] for _, words in COMMANDS}
    assert set(FOREIGN) <= {word for _, words in COMMANDS for word in words}


def require_make(words):
    targets = re.findall(r'^([a-z-]+):', MAKEFILE, re.MULTILINE)
    assert words[0] in targets, f'make {words[0]}: the Makefile has {targets}'
    for word in words[1:]:
        name, _, given = word.partition('=')
        if name == 'ARGS' and words[0] in ('test', 'test-all', 'test-changed'):
            require_tests(shlex.split(given))
        elif name == 'BASE':
            assert words[0] == 'test-changed' and given
        elif name == 'ARGS':
            source = {'demo': 'osc_ros/tools/demo/demo.py',
                      'bench': 'benchmark/__main__.py'}[words[0]]
            require_options(shlex.split(given), source)
        else:
            pytest.fail(f'make {words[0]} {word}')


def require_tests(words):
    """Require that a selection of tests, by `-k` or by file, is not empty."""
    options = iter(words)
    for word in options:
        if word == '-k':
            chosen = Expression.compile(next(options))
            assert any(chosen.evaluate(lambda part, name=name: part.lower() in name.lower())
                       for name in names_of_tests()), f'{words} selects no test'
        elif word.startswith('test/'):
            assert (CHECKOUT / word).exists(), word
        elif word in ('-n', '--soak', '--hours'):
            float(next(options))
        else:
            assert word in ('-x', '-s', '--write-tables'), word


def require_options(words, source):
    """Require that a source file defines these options, and that the named robots exist."""
    text = (CHECKOUT / source).read_text(encoding='utf-8')
    for call, place in (('add_json(parser)', 'commandline.py'),
                        ('add_robot_options(parser', 'tools/check/robot_options.py')):
        if call in text:
            text += (CHECKOUT / 'osc_ros' / place).read_text(encoding='utf-8')
    for word, following in zip(words, [*words[1:], '']):
        if word.startswith('--'):
            assert f"add_argument('{word}'" in text, f'{word} is no option of {source}'
        if word == '--robot':
            assert (CHECKOUT / 'config' / f'{following}.yaml').exists()
        if word == '--only':
            assert re.search(rf"'--only', choices=\([^)]*'{following}'", text), following


def require_ros2(words):
    if words == ('launch',):
        return  # the program, in the prose
    if words[0] == 'launch':
        assert words[1] == 'osc_ros'
        if len(words) > 2:
            require_launch(words[2], words[3:])
    elif words[0] == 'lifecycle':
        assert words[1] == 'set' and words[2] in ('/osc_controller', *FOREIGN)
        assert words[3:] in [(change,) for change in ('configure', 'activate', 'deactivate',
                                                      'cleanup', 'shutdown')]
    elif words[0] in ('topic', 'param', 'service'):  # test_texts_ros.py checks the names
        verbs = {'topic': ['pub', 'echo'], 'param': ['set', 'describe', 'dump', 'load'],
                 'service': ['call']}
        assert words[1] in verbs[words[0]], words
    elif words[0] == 'run':
        assert words[1] == 'osc_ros'
    else:
        assert words[0] in FOREIGN, f'ros2 {words[0]}'


def require_launch(file, given):
    declared = launch_arguments(file)
    for word in given:
        name, assigned, value = word.partition(':=')
        [choices] = [choices for pattern, choices in declared.items()
                     if re.fullmatch(pattern, name)] or pytest.fail(f'{file} has no {name}')
        assert assigned and (choices is None or value in choices), word
        if name == 'robot':
            assert (CHECKOUT / 'config' / f'{value}.yaml').exists(), word


def require_pip(words):
    assert words[0] == 'install'
    pins = (CHECKOUT / 'requirements' / 'constraints.txt').read_text(encoding='utf-8')
    for word in words[1:]:
        extra = re.fullmatch(r'\.(?:\[(\w+)])?', word)
        if word == 'setuptools<80':
            continue  # a tool of colcon, not a dependency
        if extra:
            assert not extra[1] or f"'{extra[1]}': " in SETUP, word
        else:
            name = re.match(r'[\w-]+', word)[0]
            assert re.search(rf'^{name}==', pins, re.MULTILINE), f'{name} is not a dependency'
            assert name == word or f"'{word}'" in SETUP, f'setup.py asks for another {name}'


def test_messages_and_pages_tell_one_way_to_install_an_extra_which_exists():
    sources = {path: path.read_text(encoding='utf-8')
               for path in (CHECKOUT / 'osc_ros').rglob('*.py')}
    for name, text in (*sources.items(), *((page, read(page)) for page in PAGES)):
        assert 'osc_ros[' not in text, f'{name}: the package is not on PyPI'
    extras = {extra for text in sources.values()
              for extra in re.findall(r"installation\('(\w+)'\)", text)}
    assert {'record', 'viewer', 'jazzy', 'demo'} <= extras
    for extra in extras:
        assert f"'{extra}': " in SETUP, extra


def require_rosdep(words):
    assert words[0] == 'install' and '--skip-keys' not in words


def require_colcon(words):
    assert words[0] in ('build', 'test')
    assert words[1:] in [(), ('--symlink-install',),
                         ('--packages-select', PACKAGE_XML.findtext('name'))]


def require_executable(words):
    assert f"f'{words[0]} = " in SETUP, f'{words[0]} is no entry point'
    for option, file in zip(words, words[1:]):
        if option == '--params-file':
            assert (CHECKOUT / file).exists(), file


def require_variables(words):
    for word in words:
        name, _, value = word.partition('=')
        installed = value.partition('$VIRTUAL_ENV/share/osc_ros/')[2]
        assert name.startswith('ROS_SECURITY_') or name in MAKEFILE, word
        assert (CHECKOUT / installed).exists(), word


def require_mpi(words):
    assert f'# mpiexec {shlex.join(words)}\n' in ''.join(block.text for _, block in SCRIPTS)


def require_files(words):
    for word in words:
        assert '/' not in word or (CHECKOUT / word).exists(), word


CHECKS = {'make': require_make, 'ros2': require_ros2, 'pip': require_pip,
          'rosdep': require_rosdep, 'colcon': require_colcon, 'export': require_variables,
          'mpiexec': require_mpi, '.venv-franka-sim/bin/python': require_files,
          'python': require_files}


# The demo, with the arguments that the texts give

DEMOS = sorted({words[2].removeprefix('ARGS=') for _, words in COMMANDS
                if words[:2] == ('make', 'demo') and len(words) > 2})


@pytest.mark.slow
@pytest.mark.parametrize('arguments', DEMOS)
def test_demo_runs_as_the_texts_call_it(arguments, tmp_path):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    from demo_process import ENVIRONMENT
    [parameters] = [block.text for block in blocks('doc/demo.md', 'yaml')]
    (tmp_path / 'my.yaml').write_text(parameters)
    urdf = (CHECKOUT / 'osc_ros' / 'robots' / 'ur5e.urdf').read_text(encoding='utf-8')
    (tmp_path / 'arm.urdf').write_text(urdf)
    done = subprocess.run(
        [sys.executable, '-m', 'osc_ros.tools.demo.demo', '--headless', *shlex.split(arguments)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    # my.yaml has friction that is not compensated: doc/demo.md says that the arm does not follow.
    # On the wall clock of a loaded machine the errors have no bound: both codes are accepted.
    is_on_time = '--real-time' in arguments or '--loop' in arguments
    codes = [1] if 'my.yaml' in arguments else [0, 1] if is_on_time else [0]
    assert done.returncode in codes, done.stdout + done.stderr
    assert (tmp_path / 'osc_demo').is_dir()
    assert '--json' not in arguments or (tmp_path / 'out.json').exists()


# Parameter files

FILES = [(page, block) for page in PAGES for block in blocks(page, 'yaml')]


@pytest.mark.parametrize('page, block', FILES, ids=[f'{p}:{b.line}' for p, b in FILES])
def test_parameters_of_yaml_blocks_are_those_of_the_nodes(page, block):
    pytest.importorskip('rclpy', reason='rclpy is not installed')
    from osc_ros.ros.parameters.controller_parameters import with_tasks
    from parameter_calls import TABLES
    for section, parameters in yaml.safe_load(block.text).items():
        node = re.fullmatch(r'/\*\*(?:/osc_(\w+))?', section)[1]
        parameters = parameters['ros__parameters']
        tables = TABLES | {'controller': with_tasks(parameters.get('tasks', ()))}
        for name, value in parameters.items():
            entries = [entry for table in ([tables[node]] if node else tables.values())
                       for entry in table if entry.name == name]
            assert entries, f'{page}:{block.line}: {name}'
            for entry in entries:
                assert type(value) in (type(entry.default), type(list(entry.default))
                                       if isinstance(entry.default, tuple) else None), name
                given = value if isinstance(value, list) else [value]
                assert not entry.choices or set(given) <= set(entry.choices), name


def test_functions_that_the_page_of_the_law_names_are_in_their_files():
    page = (CHECKOUT / 'doc' / 'methods.md').read_text(encoding='utf-8')
    rows = re.findall(r'^\| \d \| `(\w+)` \| (.*) \|$', page, re.MULTILINE)
    named = [(name, file) for name, files in rows for file in re.findall(r'\(\.\./(.*?)\)', files)]
    named += re.findall(r'`(\w+)` in \[.*?\]\(\.\./(.*?\.py)\)', page)
    assert len(named) > len(rows) > 8
    for name, file in named:
        text = (CHECKOUT / file).read_text(encoding='utf-8')
        assert f'\ndef {name}(' in text, f'{name} in {file}'
