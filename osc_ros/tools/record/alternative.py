# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Replaces recorded parameters for a replay (osc_replay --set)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from osc_ros.control.compiled_law import CompiledLaw
from osc_ros.control.safety.supervision import Supervision
from osc_ros.errors import InputError, similar
from osc_ros.loop.engine import Engine
from osc_ros.ros.parameters import robot_parameters
from osc_ros.ros.parameters.controller_parameters import with_tasks
from osc_ros.ros.parameters.node_settings import law_settings, LOAD, LoadedRobot, supervision


def changes_of(given: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked values of arguments NAME=VALUE."""
    # InputError if a name is unknown, a value is refused, or it cannot be set at run time.
    if not values:
        raise InputError('the recording has no parameters of the controller: without them '
                         'nothing can be set')
    table, found = {entry.name: entry for entry in with_tasks(values['tasks'])}, {}
    for one in given:
        name, sign, text = one.partition('=')
        if not sign:
            raise InputError(f"--set '{one}': give NAME=VALUE, as "
                             'translation.natural_frequency=[30.0,30.0,30.0]')
        entry = table.get(name)
        if entry is None:
            near = similar(name, table, 1)
            raise InputError(f"parameter '{name}' is unknown"
                             + (f" (did you mean '{near[0]}'?)" if near else ''))
        if not entry.live:
            raise InputError(f"parameter '{name}' cannot be set while the controller runs: "
                             'give those that can')
        try:
            found[name] = entry.checked_value(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise InputError(f"--set '{one}': {error}") from None
    return found


class ChangedParameters:
    """Computes law and supervision from recorded parameters, with some of them replaced."""

    # `values` were recorded at the beginning; `changes`: see `changes_of`.

    def __init__(self, values: Mapping[str, Any], urdf: str, changes: Mapping[str, Any]) -> None:
        self._changes = dict(changes)
        self._loaded = LoadedRobot(robot_parameters.robot(values, urdf))

    def setup(self, engine: Engine, values: Mapping[str, Any]) -> tuple[CompiledLaw, Supervision]:
        """Return the `CompiledLaw` and the supervision for recorded `values` with the changes."""
        # InputError if the changed values do not fit.
        found = {**values, **self._changes}
        robot, driver = self._loaded.of(found)
        if all(found[name] == values[name] for name in LOAD) and (
                robot.joint_names == engine.law.robot.joint_names):
            robot = engine.law.robot  # unchanged: no new model is needed
        settings = law_settings(found, robot, driver)
        setup = engine.law.new_setup(settings, robot, engine.q if len(engine.q) else None)
        return setup, supervision(found, robot, setup.settings.limits)
