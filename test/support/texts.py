# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The code blocks, shell commands and links of README.md, CONTRIBUTING.md and doc/."""

import ast
from functools import cache
import re
import shlex
from typing import NamedTuple

from common import CHECKOUT

PAGES = ['README.md', 'CONTRIBUTING.md',
         *sorted(str(path.relative_to(CHECKOUT)) for path in CHECKOUT.glob('doc/**/*.md'))]
PROGRAMS = ('make', 'ros2', 'pip', 'colcon', 'rosdep', 'mpiexec', 'python', 'python3', 'git',
            'osc_controller', 'osc_crisp', 'osc_relay', 'osc_simulator', 'osc_demo',
            'osc_identify', 'osc_viewer', 'osc_shapes', 'osc_check',
            'osc_tune', 'osc_record', 'osc_replay')
# ROS nodes and commands of drivers that are not ours; taken from their documentation.
FOREIGN = {
    '/robot_manager': 'kuka_drivers',
    'control': 'ros2 control: ros2controlcli of ros2_control',
    'bag': 'ros2 bag: ros2bag of rosbag2',
    'security': 'ros2 security: sros2 of ros2/sros2',
}


class Block(NamedTuple):
    """A fenced block of a page: its language, its text, and the number of its first line."""

    language: str
    text: str
    line: int


def read(page):
    """Return the text of a page."""
    return (CHECKOUT / page).read_text(encoding='utf-8')


def blocks(page, language=None):
    """Return the fenced blocks of a page, of one language or of all."""
    text = read(page)
    found = [Block(match[1], match[2], text.count('\n', 0, match.start()) + 1)
             for match in re.finditer(r'^```(\S*)\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)]
    return [block for block in found if language in (None, block.language)]


def prose(page):
    """Return a page without its fenced blocks; the lines keep their numbers."""
    return re.sub(r'^```.*?^```$', lambda match: '\n' * match[0].count('\n'), read(page),
                  flags=re.MULTILINE | re.DOTALL)


def spans(page):
    """Return the code spans of the prose, `like this`, each in one line."""
    return [' '.join(span.split()) for part in prose(page).split('\n\n')
            for span in re.findall(r'`([^`]+)`', part)]


def commands(page):
    """Return every shell command of a page as a tuple of words, in the order of the page."""
    lines = [line for block in blocks(page, 'sh')
             for line in block.text.replace('\\\n', ' ').splitlines()]
    lines += [span for span in spans(page) if span.split()[0] in PROGRAMS and ' ' in span]
    found = []
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars='&;')
        lexer.whitespace_split = True
        words = []
        for word in [*lexer, ';']:
            if set(word) <= set('&;'):
                found += [tuple(words)] if words else []
                words = []
            else:
                words.append(word)
    return found


def anchors(page):
    """Return the anchors that GitHub generates for the headings of a page."""
    found = []
    for title in re.findall(r'^#+ (.*)$', prose(page), re.MULTILINE):
        plain = re.sub(r'\[([^]]*)]\([^)]*\)', r'\1', title).lower().strip()
        anchor = re.sub(r'[^\w\- ]', '', plain).replace(' ', '-')
        found.append(anchor if anchor not in found else f'{anchor}-{found.count(anchor)}')
    return found


def links(page):
    """Return the targets of all links and pictures of a page."""
    text = re.sub(r'`[^`\n]*`', '', prose(page))
    return (re.findall(r'\[[^]]*]\(([^)\s]+)\)', text)
            + re.findall(r'^\[[^]]+]: (\S+)$', text, re.MULTILINE))


def launch_arguments(file):
    """Return {pattern of the name: choices or None} for the arguments of a launch file."""
    tree = ast.parse((CHECKOUT / 'launch' / file).read_text(encoding='utf-8'))
    lists = {node.targets[0].id: [element.value for element in node.value.elts]
             for node in ast.walk(tree) if isinstance(node, ast.Assign)
             and isinstance(node.value, ast.List) and isinstance(node.targets[0], ast.Name)
             and all(isinstance(element, ast.Constant) for element in node.value.elts)}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'DeclareLaunchArgument':
            name = node.args[0]
            pattern = name.value if isinstance(name, ast.Constant) else ''.join(
                part.value if isinstance(part, ast.Constant) else '(left|right)'
                for part in name.values)
            choices = next((word.value for word in node.keywords if word.arg == 'choices'), None)
            found[pattern] = (lists[choices.id] if isinstance(choices, ast.Name) else
                              choices and [element.value for element in choices.elts])
    return found


@cache
def names_of_tests():
    """Return a text for every test function, its file and its name, to be searched for a `-k`."""
    found = []
    for path in sorted((CHECKOUT / 'test').rglob('test_*.py')):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith('test_'):
                found.append(f'{path.name} {node.name}')
    return found
