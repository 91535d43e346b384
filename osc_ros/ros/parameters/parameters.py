# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Tables of ROS parameters, and their declaration, checks and changes in a node."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
import math
from pathlib import Path
import re
import sys
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter
import yaml

from osc_ros.errors import InputError, OscError, similar
from osc_ros.setting import Group, parameters, Setting

_TYPES = {bool: Parameter.Type.BOOL, int: Parameter.Type.INTEGER, float: Parameter.Type.DOUBLE,
          str: Parameter.Type.STRING}
_LARGEST_INTEGER = 2**31 - 1  # largest number that the sliders of rqt accept
MIXED = 'write every number of a list with a decimal point, as in [10.0, 10.5]'
# Least similarity (`difflib`) at which a known name is suggested. MISSPELT is for names under
# `/**` in a file, which may be parameters of other nodes.
SIMILAR, MISSPELT = 0.6, 0.9
# Groups in which an unknown name is refused, because a node that does not start is safer than a
# setting of the arm without effect. Other unknown names only cause a warning.
REFUSED = ('hardware.',)
SHOWN_NAMES = 4  # number of parameter names that a refusal suggests
# Parameters that decide what stops the arm. Every participant of the network can set them, so
# changes are logged.
PROTECTIONS = re.compile(r'(watchdog|limits|contact|workspace|clearance|obstacles|'
                         r'hardware\.collision)\..+|'
                         '(state|target|command)_timeout|'
                         'startup_check|stop_rate|settle_time|idle|reaction|latched')
_ARRAYS = {float: Parameter.Type.DOUBLE_ARRAY, str: Parameter.Type.STRING_ARRAY}


class Entry(Setting):
    """One ROS parameter of a node: its declaration, description and check."""

    # With an empty array as default, an empty array is accepted whatever `size` is. An integer is
    # accepted for a float.

    @property
    def ros_type(self) -> Parameter.Type:
        """ROS type of the parameter."""
        if isinstance(self.default, tuple):
            return _ARRAYS[self.of]
        return _TYPES[type(self.default)]

    @property
    def descriptor(self) -> ParameterDescriptor:
        """ROS descriptor, with the range of a number or of every number of an array."""
        # dynamic, because ROS would refuse 20 for 20.0; `checked_value` checks the type
        descriptor = ParameterDescriptor(
            type=self.ros_type.value, description=self.description, dynamic_typing=True,
            additional_constraints=self.accepted, read_only=self.fixed)
        kind = self.kind
        if kind is float and (self.lower > -math.inf or self.upper < math.inf):
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=self.lower, to_value=self.upper)]
        if kind is int and (self.lower > -math.inf or self.upper < math.inf):
            descriptor.integer_range = [IntegerRange(
                from_value=int(max(self.lower, -_LARGEST_INTEGER)),
                to_value=int(min(self.upper, _LARGEST_INTEGER)))]
        return descriptor


def entries(*groups: type[Group], begin: str | tuple[str, ...] = '') -> tuple[Entry, ...]:
    """Return the parameters of settings that begin with `begin` or one of it, each once."""
    found = {one.name: Entry(**vars(one)) for group in groups
             for parts in parameters(group).values() for one in parts}
    return tuple(entry for name, entry in found.items() if name.startswith(begin))


def declare(node: Node, table: Sequence[Entry], elsewhere: Container[str] = ()) -> None:
    """Declare every parameter of a table; InputError for an unknown name of a group in REFUSED."""
    # `elsewhere`: names that are accepted without effect
    for entry in table:
        descriptor = entry.descriptor
        default = list(entry.default) if isinstance(entry.default, tuple) else entry.default
        # rclpy cannot infer the type of an empty list, neither of a default nor from a file
        declared = node.declare_parameter(entry.name, default if default != [] else None,
                                          ParameterDescriptor(dynamic_typing=True))
        value = default if declared.type_ == Parameter.Type.NOT_SET else declared.value
        if (value := entry.parsed(value)) is not declared.value:
            node.set_parameters([Parameter(entry.name, entry.ros_type, value)])
        try:
            node.set_descriptor(entry.name, descriptor)
        except ParameterException:  # override out of range: `values` will refuse it
            descriptor.floating_point_range, descriptor.integer_range = [], []
            node.set_descriptor(entry.name, descriptor)
    for text in _unused_files(sys.argv, node.get_name()):
        node.get_logger().warning(text)
    known = [entry.name for entry in table]
    unknown = [name for name in getattr(node, '_parameter_overrides', {})
               if not node.has_parameter(name)]
    for_all = _names_for_all(sys.argv, node.get_name()) if unknown else set()
    for name in unknown:
        group = name.partition('.')[0] + '.'
        accepted = sorted(one for one in known if one.startswith(group))
        if group in REFUSED and accepted and name not in elsewhere:
            raise InputError(f"parameter '{name}' is unknown: give one of {', '.join(accepted)}")
        meant = _meant(name, known, MISSPELT if name in for_all else SIMILAR)
        if meant or name not in for_all:  # else it is taken for a parameter of another node
            node.get_logger().warning(f"parameter '{name}' is unknown and has no effect{meant}")


def _unused_files(arguments: Sequence[str], node: str) -> Iterator[str]:
    """Yield a warning for each parameter file on a command line that has nothing for this node."""
    for path, names in _names_in_files(arguments):
        near = similar(node, names, 1, MISSPELT)
        if names and node not in names and (near or '*' not in names):
            yield (f"parameter file '{path}' has no section for the node '{node}' (has: "
                   f"{', '.join(names)})" + (
                       f": did you mean '{node}' where it says '{near[0]}'?" if near else ''))


def _names_in_files(arguments: Sequence[str]) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Yield path and parameters by node of each parameter file on a command line."""
    for option, path in pairwise(arguments):
        if option == '--params-file':
            names = dict[str, set[str]]()
            with suppress(OSError, ValueError, yaml.YAMLError):
                _add_names(yaml.safe_load(Path(path).read_text(encoding='utf-8')), '', names)
            yield path, names


def _names_for_all(arguments: Sequence[str], node: str) -> set[str]:
    """Return the parameters that files on a command line set for all nodes, not for this one."""
    found = [names for _, names in _names_in_files(arguments)]
    for_all, own = (set[str]().union(*(names.get(key, ()) for names in found))
                    for key in ('*', node))
    return for_all - own


def _add_names(section: Any, key: str, names: dict[str, set[str]]) -> None:
    """Add the parameters of a section of a file to `names` by node; '*' stands for all nodes."""
    for inner, value in section.items() if isinstance(section, dict) else ():
        if inner == 'ros__parameters':
            node = key.rpartition('/')[2].replace('**', '*')
            names.setdefault(node, set()).update(_full_names(value))
        else:
            _add_names(value, str(inner), names)


def _full_names(values: Any, prefix: str = '') -> Iterator[str]:
    """Yield the full names of parameters that a file nests, as in posture: {damping: 1.0}."""
    for name, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, dict):
            yield from _full_names(value, f'{prefix}{name}.')
        else:
            yield f'{prefix}{name}'


def _meant(name: str, known: Iterable[str], similarity: float = SIMILAR) -> str:
    """Return a text that suggests the most similar known name; empty if none is similar."""
    near = similar(name, known, 1, similarity)
    return f" (did you mean '{near[0]}'?)" if near else ''


def parameter_file_error(error: Exception) -> str:
    """Return rcl's error about a parameter file as readable text."""
    found = re.search(r"params file: '--params-file (.*?)'\. Error: (.*?)(, at /|$)", str(error))
    if found is None:
        return str(error)
    path, text, _ = found.groups()
    line = re.search(r'line(?:_num)? (\d+)', text)
    where = f"parameter file '{path}'" + (f', line {line[1]}' if line else '')
    if 'same type' in text:
        return f'{where}: a list mixes types: {MIXED}'
    return f'{where}: {text}'


def initial_value(node: Node, entry: Entry) -> Any:
    """Return the checked override of a parameter that is not declared yet, or its default."""
    overrides = getattr(node, '_parameter_overrides', {})
    return entry.checked_value(overrides[entry.name].value if entry.name in overrides
                         and overrides[entry.name].value is not None else entry.default)


def values(node: Node, table: Iterable[Entry],
           replaced: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the checked values of all parameters by name; those in `replaced` take precedence."""
    found = {}
    for entry in table:
        value = (replaced or {}).get(entry.name, node.get_parameter(entry.name).value)
        if value is None:
            value = entry.default
        found[entry.name] = entry.checked_value(value)
    return found


def refuse_bad_sets(node: Node, table: Iterable[Entry], is_configured: Callable[[], bool],
                    apply: Callable[[dict[str, Any], dict[str, Any]], str | None],
                    in_force: Callable[[], Mapping[str, Any]] = dict) -> None:
    """Make a node accept a set of parameters only if all of them are valid."""
    # While `is_configured`, only live parameters can be changed, and `apply` gets all values by
    # name after and before a change. It applies the new ones and returns a remark for the answer,
    # or raises InputError and changes nothing. `in_force`: values that a command on a topic has
    # changed, so that the parameter differs from the value before.
    entries = {entry.name: entry for entry in table}
    remarks: list[str] = []  # rclpy drops the reason of a result that is successful
    _wrap_parameter_services(node, entries, remarks)

    def checked_set(parameters: list[Parameter]) -> SetParametersResult:
        replaced = {p.name: p.value for p in parameters if p.name in entries}
        try:
            found = values(node, entries.values(), replaced)
            if replaced and is_configured():
                before = {**found, **values(node, (entries[name] for name in replaced)),
                          **{name: value for name, value in in_force().items()
                             if name in replaced}}
                fixed = [name for name in replaced
                         if not entries[name].live and found[name] != before[name]]
                if fixed:
                    raise InputError(f"parameter '{fixed[0]}' can be set only while the node is "
                                     'unconfigured' + _settable(fixed[0], entries.values()))
                if found != before:
                    remarks.append(apply(found, before) or '')
        except OscError as error:
            node.get_logger().warning(f'parameters refused, nothing changed: {error}')
            return SetParametersResult(successful=False, reason=str(error))
        changed = [f"'{name}' from {old} to {found[name]}" for name in replaced
                   if PROTECTIONS.fullmatch(name) and found[name] != (old := _present(node, name))]
        if changed:
            node.get_logger().warning(f"what stops the arm was changed: {', '.join(changed)}")
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(checked_set)


def _present(node: Node, name: str) -> Any:
    """Return the present value, valid or not, of a parameter; an array as a tuple."""
    value = node.get_parameter(name).value
    return tuple(value) if hasattr(value, '__len__') and not isinstance(value, str) else value


def _settable(name: str, table: Iterable[Entry]) -> str:
    """Return a text with the live parameters whose names are most similar to `name`."""
    live = [entry.name for entry in table if entry.live]
    near = get_close_matches(name, live, SHOWN_NAMES, 0.5)
    if not live:
        return '; no parameter can be set now'
    return f'; {len(live)} others can be set now' + (
        f", such as {', '.join(near)}" if near else '') + ' (doc/parameters.md)'


def _wrap_parameter_services(node: Node, entries: Mapping[str, Entry], remarks: list[str]
                             ) -> None:
    """Make the services that set parameters convert text, refuse unknown names and deletions."""
    # `remarks`: texts for the answer to a set that is accepted
    # rclpy's error omits the name of an unknown parameter, and rclpy deletes one without a value
    set_all = node.set_parameters_atomically

    def set_declared(parameters: list[Parameter]) -> SetParametersResult:
        parameters = [_parsed_parameter(one, entries) for one in parameters]
        changed = [one for one in parameters if not _keeps_its_value(node, one)]
        for one in changed:
            reason = ''
            if not node.has_parameter(one.name):
                reason = f"parameter '{one.name}' is unknown{_meant(one.name, entries)}"
            elif one.name in entries and one.type_ == Parameter.Type.NOT_SET:
                reason = f"parameter '{one.name}' cannot be deleted; set it to another value"
            elif one.name in entries and entries[one.name].fixed:
                reason = (f"parameter '{one.name}' is fixed when the node starts: set it in the "
                          'parameter file of the node or on its command line')
            elif one.name in entries:  # before rclpy, whose text has no unit
                try:
                    entries[one.name].checked_value(one.value)
                except InputError as error:
                    reason = str(error)
            if reason:
                node.get_logger().warning(f'parameters refused, nothing changed: {reason}')
                return SetParametersResult(successful=False, reason=reason)
        if parameters and not changed:
            return SetParametersResult(successful=True)
        remarks.clear()
        result = set_all(changed)
        if result.successful and remarks:
            result.reason = remarks[-1]
        return result

    node.set_parameters_atomically = set_declared


def _parsed_parameter(parameter: Parameter, entries: Mapping[str, Entry]) -> Parameter:
    """Return a parameter with the numbers that its text contains (`Setting.parsed`)."""
    entry = entries.get(parameter.name)
    value = parameter.value if entry is None else entry.parsed(parameter.value)
    if value is parameter.value:
        return parameter
    return Parameter(parameter.name, entry.ros_type, value)


def _keeps_its_value(node: Node, parameter: Parameter) -> bool:
    # `ros2 param load` sets all that `ros2 param dump` has written, read-only parameters too
    return bool(node.has_parameter(parameter.name)
                and node.describe_parameter(parameter.name).read_only
                and node.get_parameter(parameter.name).value == parameter.value)
