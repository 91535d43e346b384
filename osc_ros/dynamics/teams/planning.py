# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Choice of the number of processes for a plain chain, and of SIMD lanes."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np

from osc_ros.compile.lane_arrays import WIDTH
from osc_ros.dynamics.chain.chain_bodies import packed_robot
from osc_ros.dynamics.chain.sweep import Sweep
from osc_ros.dynamics.contract.plan import Plan, Workers
from osc_ros.dynamics.segments.lane_segments import lane_split, Split
from osc_ros.dynamics.segments.segmented import Segmented
from osc_ros.dynamics.teams.costs import Costs, law_call, measured_costs
from osc_ros.dynamics.teams.parallel import Parallel
from osc_ros.model.robot import Robot

_TRIAL = 0.02  # duration for which 'auto' compares one process with a team [s]
_LEAST_GAIN = 5e-6  # 'auto' starts processes only if two processes could save more per call [s]
# Fewest bodies of a member that works in lanes. A cautious choice: only 4096 joints were timed.
LEAST_IN_LANES = 512


def parallel_sweep(robot: Robot, workers: Workers) -> tuple[Sweep, Plan]:
    """Return 'sweep' by the requested or the fastest number of processes, and its plan."""
    if workers.count == 'auto':
        return _fastest(robot, workers)
    return _by_number(robot, workers)


def sweep_alone(robot: Robot) -> Sweep:
    """The method 'sweep' of a plain chain in this process; a long chain is evaluated in lanes."""
    split = _split_in_lanes(robot, 1)
    return Sweep(robot) if split is None else Segmented(robot, split)


def _split_in_lanes(robot: Robot, members: int) -> Split | None:
    """Split of a chain in SIMD lanes; None if the chain is too short for them."""
    if WIDTH < 8 or robot.n < LEAST_IN_LANES * members:
        return None
    return lane_split(packed_robot(robot)[0], members)


def _by_number(robot: Robot, workers: Workers) -> tuple[Sweep, Plan]:
    members = min(int(workers.count), robot.n)
    if members == 1:
        return sweep_alone(robot), Plan(1, 'one body is one segment')
    why = 'as requested' if members == workers.count else 'one for each body'
    split = _split_in_lanes(robot, members)
    if split is not None:
        bodies = tuple(np.diff(split.bounds[0]).tolist())
        return _team_in_lanes(robot, workers, split), Plan(
            members, f'{why}, {bodies[0]} of {robot.n} bodies at the base, each member with '
            f'{WIDTH} segments in vector lanes', bodies)
    costs = measured_costs(robot)
    bodies = costs.bodies(robot.n, members)
    return _team(robot, members, workers, costs), Plan(
        members, why
        + f', {bodies[0]} of {robot.n} bodies at the base, about {bodies[-1]} elsewhere, where '
        f'one takes {costs.segment[0] / costs.base[0]:.2f} times as long', bodies)


def _team(robot: Robot, members: int, workers: Workers, costs: Costs) -> Parallel:
    return Parallel(robot, workers, Split(costs.bounds(robot.n, members)),
                    robot.n * costs.serial)


def _team_in_lanes(robot: Robot, workers: Workers, split: Split) -> Parallel:
    call = law_call(Sweep(robot))
    return Parallel(robot, workers, split, min(call() for _ in range(5)))


def _fastest(robot: Robot, workers: Workers) -> tuple[Sweep, Plan]:
    sweep = sweep_alone(robot)
    call = law_call(sweep)
    alone = min(call() for _ in range(20))
    cores = (len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity')
             else os.cpu_count() or 1)
    most = min(cores, robot.n)
    in_lanes = ', in vector lanes' if isinstance(sweep, Segmented) else ''
    if most == 1:
        return sweep, Plan(1, ('there is one core' if cores == 1 else 'one body is one segment')
                           + in_lanes)
    if alone / 3.0 < _LEAST_GAIN:
        return sweep, Plan(1, f'a call takes {1e6 * alone:.1f} µs: two processes would save a '
                           'third of it at most, which is less than they wait for each other')
    if multiprocessing.current_process().daemon:
        return sweep, Plan(1, 'this is a daemonic process, which must not start processes'
                           + in_lanes)
    team, bodies = _best_team(robot, workers, most)
    calls = [call, law_call(team)]
    times = np.array([[one() for one in calls]
                      for _ in range(int(np.clip(_TRIAL / alone, 5, 50)))])
    one, several = 1e6 * np.median(times, axis=0)
    members = len(bodies)
    found = f'{several:.0f} µs a call, one alone{in_lanes} {one:.0f} µs, on {cores} cores'
    if several < one:
        return team, Plan(members, f'{members} take {found}', bodies)
    team.close()
    return sweep, Plan(1, f'{members} would take {found}')


def _best_team(robot: Robot, workers: Workers, most: int) -> tuple[Parallel, tuple[int, ...]]:
    """Return the team with the shortest predicted call, and each member's number of bodies."""
    # The team has at most `most` processes.
    members = max(2, min(most, robot.n // LEAST_IN_LANES))
    split = _split_in_lanes(robot, members)
    if split is not None:
        return _team_in_lanes(robot, workers, split), tuple(np.diff(split.bounds[0]).tolist())
    costs = measured_costs(robot)
    members = min(range(2, most + 1), key=lambda count: costs.expected(robot.n, count))
    return _team(robot, members, workers, costs), costs.bodies(robot.n, members)
