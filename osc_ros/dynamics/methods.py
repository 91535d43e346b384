# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The table of the methods: name, class, and the accepted robots and numbers of workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from osc_ros.dynamics.chain.ldl import LDL
from osc_ros.dynamics.contract.method import Method
from osc_ros.dynamics.contract.plan import Plan, Workers
from osc_ros.dynamics.papers.block_tridiagonal import BlockCyclicReduction, BlockLDL
from osc_ros.dynamics.papers.dense import Dense
from osc_ros.dynamics.papers.schur import Schur
from osc_ros.dynamics.teams.planning import parallel_sweep, sweep_alone
from osc_ros.dynamics.trees.tree import Tree
from osc_ros.dynamics.trees.tree_layout import EXTENDED, FACTORED, PROPAGATED
from osc_ros.errors import InputError
from osc_ros.model.robot import Robot

Construct: TypeAlias = Callable[[Robot], Method]

_PLAIN_CHAIN = ('a team takes a plain chain: bodies with mass, one after the other, by revolute '
                'and prismatic joints, the tip on the last')


class Entry(NamedTuple):
    """A method, and the robots that it accepts."""

    of_robot: Construct  # for any robot that the method accepts
    of_chain: Construct | None = None  # a faster class, for a plain chain (`Robot.serial`)
    one_tip: bool = False  # True: evaluates one path from base to tip, accepts one tip only
    # Method and plan for a plain chain, if `Workers.count` is not 1.
    of_team: Callable[[Robot, Workers], tuple[Method, Plan]] | None = None


METHODS: dict[str, Entry] = {
    'sweep': Entry(partial(Tree, algorithm=PROPAGATED), sweep_alone, one_tip=True,
                   of_team=parallel_sweep),
    'ldl': Entry(partial(Schur, factorization=BlockLDL), LDL, one_tip=True),
    'bcr': Entry(partial(Schur, factorization=BlockCyclicReduction), one_tip=True),
    'recursive': Entry(partial(Tree, algorithm=PROPAGATED)),
    'efpa': Entry(partial(Tree, algorithm=EXTENDED)),
    'sfa': Entry(partial(Tree, algorithm=FACTORED)),
    'dense': Entry(Dense),
}
ONE_TIP = tuple(name for name, entry in METHODS.items() if entry.one_tip)


def default_method(robot: Robot) -> Method:
    """Default method of a robot."""
    return method_of(robot, None, Workers(1))[1]


def method_of(robot: Robot, name: str | None, workers: Workers) -> tuple[str, Method, Plan]:
    """Return name, method and plan; default: 'sweep' for one tip, 'efpa' for several."""
    # 'sweep' becomes 'recursive' for a robot that is not a plain chain. InputError if the method
    # is unknown, or does not accept this number of tips or workers.
    if name is None:
        name = 'sweep' if len(robot.tips) == 1 else 'efpa'
    if not isinstance(name, str) or name not in METHODS:
        known = f"(known: {', '.join(METHODS)})"
        if not isinstance(name, (str, int, float)):
            raise InputError(f'method of type {type(name).__name__} is unknown {known}; links are '
                             'given by name: tips=[…]')
        raise InputError(f"method '{name}' is unknown {known}")
    entry = METHODS[name]
    if entry.one_tip and len(robot.tips) > 1:
        others = ', '.join(other for other in METHODS if other not in ONE_TIP)
        raise InputError(f"method '{name}' takes one tip, not {len(robot.tips)} "
                         f'(these take several: {others})')
    construct = entry.of_chain if robot.serial and entry.of_chain else entry.of_robot
    used = 'recursive' if name == 'sweep' and not robot.serial else name
    if workers.count == 1:
        return used, construct(robot), Plan(1, 'as requested')
    if entry.of_team is None:
        why = f"method '{name}' is evaluated by one process ('sweep' by several)"
    elif robot.serial:
        return used, *entry.of_team(robot, workers)
    else:
        why = _PLAIN_CHAIN
    if workers.count != 'auto':
        raise InputError(f'{workers.count} workers, must be 1: {why}')
    return used, construct(robot), Plan(1, why)
