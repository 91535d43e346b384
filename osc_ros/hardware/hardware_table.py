# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Finds the class of a kind of arm by its name: built-in kinds, and kinds of other packages."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from osc_ros.errors import InputError, installation
from osc_ros.hardware.contract import Hardware

GROUP = 'osc_ros.hardware'  # entry points of other packages
# Module and class, and the extra of osc_ros with its dependencies.
BUILT_IN = {
    'franka': ('osc_ros.hardware.franka:FrankaArm', 'franka'),
    'mujoco': ('osc_ros.hardware.mujoco:MujocoArm', 'sim'),
}
MEMBERS = ('settings', 'open', 'start', 'read', 'write', 'stop', 'recover', 'report', 'close')


def hardware_locations() -> dict[str, str]:
    """Return the location 'module:class' of every kind of arm; a built-in kind wins."""
    found = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    return {**found, **{name: place for name, (place, _) in BUILT_IN.items()}}


def hardware_class(name: str) -> type[Hardware]:
    """Return the class for a kind of arm, such as 'mujoco'."""
    # InputError: no kind of arm has this name; its module cannot be imported (the message tells
    # which package to install); or the class lacks a member of `Hardware`
    places = hardware_locations()
    if name not in places:
        raise InputError(f"hardware is '{name}': must be one of {', '.join(sorted(places))} "
                         f'(another package adds one by an entry point of group {GROUP})')
    module, _, attribute = places[name].partition(':')
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError as error:
        extra = BUILT_IN[name][1] if name in BUILT_IN else ''
        remedy = f': {installation(extra)}' if extra else ''
        raise InputError(f"hardware '{name}' cannot be loaded ({error}){remedy}") from error
    missing = [member for member in MEMBERS if not hasattr(found, member)]
    if not isinstance(found, type) or missing:
        raise InputError(f"hardware '{name}': {places[name]} is not a class with "
                         + ', '.join(missing or MEMBERS))
    return found
