# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Three figures of the code, which `make test` prints: the way of a torque, and what a gain costs.

As a program: print them. The program runs all kernels as Python functions, so it needs a process
of its own.
"""

import ast
from pathlib import Path
import sys

import numpy as np

import osc_ros
from osc_ros import Law, Robot, Settings, shipped_urdf
from osc_ros.compile.compiled import recorded_uses
from osc_ros.control.safety.supervision import Supervision
from osc_ros.loop.engine import Engine

PACKAGE = Path(osc_ros.__file__).parent
COMPILED = {'kernel', 'inlined', 'viewing', 'stage', 'part', 'released'}
GAIN = 'repulsion'  # a gain that one torque uses, and that is a parameter


class Way:
    """Functions of the package that are called between `start` and `end`, and how deep."""

    def __init__(self):
        self.functions, self._depth, self.deepest = set(), 0, 0

    def __call__(self, frame, event, argument):
        """Note a call or a return; `sys.setprofile` calls this."""
        file = frame.f_code.co_filename
        if event not in ('call', 'return') or not file.startswith(f'{PACKAGE}/'):
            return
        if '/compile/' in file or frame.f_code.co_name.startswith('<'):
            return
        self._depth += 1 if event == 'call' else -1
        if event == 'call':
            self.functions.add((file, frame.f_code.co_qualname if hasattr(
                frame.f_code, 'co_qualname') else frame.f_code.co_name))
            self.deepest = max(self.deepest, self._depth)


def way_of_a_torque():
    """Return the functions that compute one torque of a default arm, from its joint state."""
    found = Way()

    def run():
        robot = Robot.from_urdf(shipped_urdf('panda'), 'panda_link0', 'panda_hand_tcp')
        law = Law(robot, Settings.of(robot))
        engine = Engine(law, Supervision.of(robot, law.settings.limits, 500.0), 0.002,
                        lambda tau, stamp: None, lambda *event: None)
        q = robot.position_limits.mean(axis=1)
        engine.update(1.0, q, 0.0 * q, (1, 0), 1.0)
        engine.activate()
        for k in (1, 2, 3):
            time = 1.0 + 0.002 * k
            if k == 3:
                sys.setprofile(found)
            try:
                engine.update(time, q, 0.0 * q, (1, 2_000_000 * k), time)
            finally:
                sys.setprofile(None)

    with np.errstate(all='ignore'):
        recorded_uses(run)
    return found


def handed_on():
    """Return how many parameters of compiled functions there are, and how many are handed on."""
    total = only = 0
    for module in PACKAGE.rglob('*.py'):
        for node in ast.walk(ast.parse(module.read_text(encoding='utf-8'))):
            if not (isinstance(node, ast.FunctionDef) and COMPILED & {
                    ast.unparse(one) for one in node.decorator_list}):
                continue
            given = {id(argument) for call in ast.walk(node) if isinstance(call, ast.Call)
                     for argument in call.args}
            for parameter in node.args.args:
                uses = [one for one in ast.walk(node)
                        if isinstance(one, ast.Name) and one.id == parameter.arg]
                total += 1
                only += bool(uses) and all(id(one) in given for one in uses)
    return only, total


def places_of_a_gain():
    """Return the functions, classes and tables, and the pages, in which GAIN is written."""
    found = set()
    for module in PACKAGE.rglob('*.py'):
        tree = ast.parse(module.read_text(encoding='utf-8'))
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)):
                continue
            for one in node.body:
                names = {part.attr if isinstance(part, ast.Attribute) else
                         part.id if isinstance(part, ast.Name) else
                         part.value for part in ast.walk(one)
                         if isinstance(part, (ast.Attribute, ast.Name, ast.Constant))}
                if not isinstance(one, (ast.FunctionDef, ast.ClassDef)) and any(
                        isinstance(name, str) and name.split('.')[-1] == GAIN for name in names):
                    found.add((module.name, getattr(node, 'name', '')))
    return found


def text():
    """Return the three figures as lines of text."""
    way, (only, total) = way_of_a_torque(), handed_on()
    files = {file for file, _ in way.functions}
    return (f'files on the way of a torque: {len(files)} ({len(way.functions)} functions, '
            f'{way.deepest} calls deep)\n'
            f'arguments only handed on: {only / total:.0%} of {total} of compiled functions\n'
            f'places in which a gain is written: {len(places_of_a_gain())} (limits.{GAIN})')


if __name__ == '__main__':
    print(text())
