# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Texts and numbers that explain a replayed run."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osc_ros.recording.export import versions
from osc_ros.recording.replay import Moment, Run

Array = NDArray[np.float64]

MOST_EVENTS = 12  # number of events that are printed at each end of the list
TERMS = {
    'bias': 'gravity, Coriolis and centrifugal torques', 'posture': 'posture in the nullspace',
    'friction': 'friction compensation', 'disturbance': 'compensation of what the model lacks',
    'driver': 'minus the torque that the driver adds', 'free_drive': 'free drive',
    'limits': 'change by the limits', 'fading': 'rest of the difference after a change',
    'supervisor': 'fade after an intervention'}


class Difference(NamedTuple):
    """Difference of another run's torques from the recorded ones."""

    largest: Array  # (n,) [N·m, N]
    rms: Array  # (n,) root mean square [N·m, N]
    at: Array  # (n,) time of the largest difference, from the beginning [s]


def difference(recorded: Run, other: Run) -> Difference:
    """Return the difference of the torques of `other` from the recorded ones."""
    count = min(len(recorded.moments), len(other.moments))
    begin = recorded.moments[0].time if count else 0.0
    times = np.array([one.time - begin for one in recorded.moments[:count]])
    gap = np.array([two.torque - one.recorded for one, two
                    in zip(recorded.moments[:count], other.moments)])
    if not count:
        none = np.zeros(len(recorded.joints))
        return Difference(none, none, none)
    sizes = np.abs(gap)
    return Difference(sizes.max(axis=0), np.sqrt((gap ** 2).mean(axis=0)),
                      times[sizes.argmax(axis=0)])


def limit_shares(run: Run) -> dict[str, float]:
    """Return for each limit the fraction of the states at which it acted, largest first."""
    found = Counter(limit.partition(' (')[0] for one in run.moments
                    for limit in one.limits)
    return {limit: count / len(run.moments) for limit, count in found.most_common()}


def other_versions(run: Run) -> list[str]:
    """Return the versions of software that differ between the recording and this computer."""
    here = versions()
    return [f'{name} {was or "unknown"} (here {here.get(name) or "unknown"})'
            for name, was in run.facts.get('versions', {}).items() if was != here.get(name)]


def verdict(run: Run) -> str:
    """Return a sentence that says whether the replayed torques equal the recorded ones."""
    if run.is_identical:
        return f'{run.commands} torques computed again: identical to the last bit'
    if not run.commands:
        return 'no torque was sent in this recording'
    text = (f'{run.differing} of {run.commands} torques differ from the recorded ones, by at most '
            f'{run.largest:.3g} N m')
    others = other_versions(run)
    return text + (f"; recorded with {', '.join(others)}" if others else
                   '; the versions are the same, but perhaps not the processor')


def summary(run: Run) -> list[str]:
    """Return the lines of a summary of a run."""
    lines = [f"{run.facts.get('node', '')}: {len(run.moments)} answered states"
             + (f', {run.moments[-1].time - run.moments[0].time:.3f} s' if run.moments else ''),
             verdict(run)]
    if run.moments:
        lines += [f'  {100.0 * share:5.1f} % of the states: {limit}' for limit, share
                  in limit_shares(run).items()] or ['no limit acted']
    begin = run.moments[0].time if run.moments else 0.0
    events = [f'  {one.time - begin:8.3f} s  {one.text}' for one in run.events
              if not one.is_minor]
    reports = Counter(one.text.partition(':')[0] for one in run.events if one.is_minor)
    events += [f'  reported {count} time{"s" * (count > 1)}: {cause}'
               for cause, count in reports.items()]
    if len(events) > 2 * MOST_EVENTS:
        events[MOST_EVENTS:-MOST_EVENTS] = [f'  … {len(events) - 2 * MOST_EVENTS} more …']
    return lines + (['events:', *events] if events else ['no commands, no events'])


def explanation_lines(run: Run, moment: Moment, other: Moment | None = None) -> list[str]:
    """Return lines with the terms of the torque at a moment, and the limits that acted."""
    begin, width = run.moments[0].time, max(10, *map(len, run.joints)) + 2
    lines = [f'at {moment.time - begin:.3f} s (stamp {moment.time:.3f} s): {moment.state}',
             f'{"[N m, N]":14}' + ''.join(f'{joint:>{width}}' for joint in run.joints)]

    def row(name: str, values: Any, note: str = '') -> str:
        cells = (f'{0.0 + round(x, 4):{width}.4f}' for x in values)  # no -0.0000
        return f'{name:14}' + ''.join(cells) + f'  {note}'.rstrip()

    for name, values in moment.terms.items():
        lines.append(row(name, values, TERMS.get(name, 'task')))
    lines.append(row('torque', moment.torque, 'sum, as sent' if moment.terms else
                     'of the supervisor: a watchdog replaces the law'))
    if other is not None:
        lines.append(row('with --set', other.torque))
    if moment.effort is not None:
        lines.append(row('measured', moment.effort, 'efforts of the driver'))
    lines.append('limits: ' + (', '.join(moment.limits) or 'none acted'))
    return lines


def comparison(run: Run, other: Run, changes: dict[str, Any]) -> list[str]:
    """Return lines that compare the run with a replay with other parameters."""
    found = difference(run, other)
    lines = ['with ' + ', '.join(f'{name} = {value}' for name, value in changes.items())
             + ', for the same measured states (the arm itself would have moved otherwise):']
    lines += [f'  {joint}: at most {largest:.4g} N m at {at:.3f} s, rms {rms:.4g} N m'
              for joint, largest, rms, at in zip(run.joints, *found[:2], found.at)]
    before, after = limit_shares(run), limit_shares(other)
    for limit in dict.fromkeys((*before, *after)):
        was, now = before.get(limit, 0.0), after.get(limit, 0.0)
        if abs(was - now) > 1e-4:
            lines.append(f'  {limit}: {100.0 * was:.1f} % of the states, then {100.0 * now:.1f} %')
    texts = [{one.text for one in each.events if not one.is_minor} for each in (run, other)]
    lines += [f'  only recorded: {text}' for text in sorted(texts[0] - texts[1])]
    lines += [f'  only then: {text}' for text in sorted(texts[1] - texts[0])]
    return lines


def as_json(run: Run) -> dict[str, Any]:
    """Return the numbers and events of a run as a dictionary for JSON."""
    begin = run.moments[0].time if run.moments else 0.0
    return {
        'node': run.facts.get('node', ''), 'versions': run.facts.get('versions', {}),
        'joints': list(run.joints), 'states': len(run.moments), 'begin [s]': begin,
        'duration [s]': run.moments[-1].time - begin if run.moments else 0.0,
        'commands': run.commands, 'identical': run.is_identical, 'differing': run.differing,
        'largest difference [N m]': run.largest, 'limits': limit_shares(run),
        'events': [{'time [s]': one.time - begin, 'text': one.text} for one in run.events]}


def moment_as_json(run: Run, moment: Moment) -> dict[str, Any]:
    """Return the terms of the torque at a moment as a dictionary for JSON."""
    return {'time [s]': moment.time - run.moments[0].time, 'state': moment.state,
            'limits': list(moment.limits), 'torque [N m]': moment.torque.tolist(),
            'recorded [N m]': moment.recorded.tolist(),
            'terms [N m]': {name: values.tolist() for name, values in moment.terms.items()}}
