# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""All functions that read from an engine, also beside its ticks; arrays of a read message."""

import inspect

from osc_ros.loop import requests

# Functions of `requests` that change the engine, although no journal records them.
CHANGING = {'leave', 'learn_contact', 'set_report_period', 'begin_journal', 'tell_journal',
            'renew_journal'}
READERS = [
    function for name, function in sorted(vars(requests).items())
    if inspect.isfunction(function) and function.__module__ == requests.__name__
    and not name.startswith('_') and not hasattr(function, '__wrapped__')
    and name not in CHANGING]


def arguments_of(function, engine):
    """Return the arguments of such a function."""
    values = {'engine': engine, 'task': 'tip', 'time': engine.time + 0.1, 'at': None}
    return [values[name] for name in inspect.signature(function).parameters]


def found(reader, data):
    """Return (stamp, q, qd, efforts) of a serialized message."""
    q, qd = reader.positions(data), reader.velocities()
    return reader.stamp, q, qd, reader.efforts()
