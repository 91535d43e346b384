# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Reads, merges and checks the parameter files of the demonstration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from osc_ros.errors import InputError, similar
from osc_ros.ros.parameters.controller_parameters import TASKS, with_tasks
from osc_ros.ros.parameters.parameters import Entry
from osc_ros.ros.simulator.simulator import PARAMETERS as SIMULATOR

Values = dict[str, Any]

ACCEPTED = "for each node, '/**/osc_controller: {ros__parameters: {name: value}}'"
NODES = ('osc_simulator', 'osc_controller', 'osc_demo')
OTHERS = ('osc_relay',)  # other nodes that may have parameters in a file
DEMO = (
    Entry('tracking_position', 0.001, 'Largest RMS position error on the figure of eight [m]',
          lower=0.0),
    Entry('tracking_orientation', 0.0035, 'Largest RMS orientation error on the figure of eight '
          '[rad]', lower=0.0),
    Entry('settled_position', 0.001, 'Largest position error at the end of a step [m]', lower=0.0),
    Entry('settled_orientation', 0.0035, 'Largest orientation error at the end of a step [rad]',
          lower=0.0),
    Entry('scale', 0.0, 'Size of the motions, 1 is the usual one; 0: the largest that the limits '
          'of the joints allow', lower=0.0, upper=1.0),
)


class Parameters:
    """The parameters of all nodes from files; later files override earlier ones."""

    # InputError if a file cannot be read, or if a node, a name or a value in it is not accepted.

    def __init__(self, files: Iterable[Path]) -> None:
        self._given: dict[str, Values] = {name: {} for name in ('', *NODES)}
        for file in files:
            for node, found in _sections(file):
                self._given[node].update(found)
            self._require(file)

    def given(self, node: str) -> Values:
        """Return the checked values of the parameters of a node that the files contain."""
        entries = {entry.name: entry for entry in self._table(node)}
        merged = {**self._given[''], **self._given[node]}
        return {name: entries[name].checked_value(value) for name, value in merged.items()
                if name in entries}

    def values(self, node: str, own: Values) -> Values:
        """Return all values of a node, checked: from `own`, else the files, else the defaults."""
        given = {**self.given(node), **own}
        return {entry.name: entry.checked_value(given.get(entry.name, entry.default))
                for entry in self._table(node)}

    def _table(self, node: str) -> Sequence[Entry]:
        return table_of(node, {**self._given[''], **self._given[node]})

    def _require(self, file: Path) -> None:
        """Raise InputError for unknown names and refused values; `file` is for the message."""
        tables = {node: {entry.name: entry for entry in self._table(node)} for node in NODES}
        everywhere = {name: entry for table in tables.values() for name, entry in table.items()}
        for node, given in self._given.items():
            table = tables.get(node, everywhere)
            for name, value in given.items():
                try:
                    if name not in table:
                        raise InputError(f"parameter '{name}' is unknown" + _nearest(name, table))
                    table[name].checked_value(value)
                except InputError as error:
                    raise InputError(f"config {file}, {node or 'all nodes'}: {error}") from None


def require_targets(values: Values) -> None:
    """Raise InputError if the parameters of osc_controller choose free or joint drive."""
    if values['mode'] in ('free', 'joints'):
        raise InputError(f"mode is '{values['mode']}': give acceleration and impedance, "
                         'because this command makes motions to targets of the tip')


def table_of(node: str, values: Values) -> Sequence[Entry]:
    """Return the parameter table of a node; the controller's depends on its value of 'tasks'."""
    if node == 'osc_controller':
        return with_tasks(TASKS.checked_value(values.get('tasks', ())))
    return SIMULATOR if node == 'osc_simulator' else DEMO


def text_of(parameters: dict[str, Values]) -> str:
    """Return the YAML text of parameters by node; '' stands for all nodes."""
    content = {f'/**/{node}' if node else '/**': {'ros__parameters': {
        name: _plain(value) for name, value in found.items()}}
        for node, found in parameters.items() if found}
    return yaml.safe_dump(content, sort_keys=False, width=96, default_flow_style=None)


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(x) for x in value]
    return float(f'{value:.7g}') if isinstance(value, float) else value


def _sections(file: Path) -> Iterator[tuple[str, Values]]:
    """Yield the node names in a file ('' for all nodes) and their parameters."""
    try:
        content = yaml.safe_load(file.read_text(encoding='utf-8')) or {}
        for key, section in content.items():
            node = str(key).removeprefix('/**').removeprefix('/')
            if node in OTHERS:
                continue
            if node and node not in NODES:
                raise InputError(f"config {file}: '{key}' is not a node of the demonstration"
                                 + _nearest(node, NODES) + f': write, {ACCEPTED}')
            if set(section or {}) - {'ros__parameters'}:
                raise TypeError
            yield node, dict(_flat((section or {}).get('ros__parameters') or {}))
    except InputError:
        raise
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f'config {file} cannot be read: {error}') from None
    except (AttributeError, TypeError, ValueError):
        raise InputError(f'config {file} is no parameter file: write, {ACCEPTED}') from None


def _flat(nested: Values, prefix: str = '') -> Iterator[tuple[str, Any]]:
    """Yield nested parameters with flat names, separated by dots."""
    for name, value in nested.items():
        if isinstance(value, dict):
            yield from _flat(value, f'{prefix}{name}.')
        else:
            yield f'{prefix}{name}', value


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = similar(name, known, 2)
    if near:
        return ': did you mean ' + ' or '.join(f"'{match}'" for match in near) + '?'
    return f": give one of {', '.join(sorted(known))}" if len(known) < 8 else ''
