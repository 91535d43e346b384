# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Shared parts of the launch files: environment of the nodes, exit status of launch."""

from __future__ import annotations

from collections.abc import Mapping
import os
from pathlib import Path
from typing import Any

from osc_ros.interrupts import LAUNCH_PID
from osc_ros.ros.process.profile import profile_environment
from osc_ros.ros.process.share import share_directory

AUTO, NONE = 'auto', 'none'
PROFILES = {'loopback': 'fastdds.xml', 'shared_memory': 'fastdds_shared_memory.xml'}
# With one of these variables the user chooses the transport, or the machines to communicate with.
CHOICES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE',
           'FASTDDS_BUILTIN_TRANSPORTS', 'ROS_DISCOVERY_SERVER', 'ROS_STATIC_PEERS')
PROFILE_TEXT = (
    'Profile of Fast DDS for the nodes. loopback: this machine only, by UDP; shared_memory: this '
    'machine only, in which all topics can stand still for 333 ms when a node starts; none: what '
    'the environment says, for an arm whose driver is on another machine; or the path of a '
    'profile of your own. auto: loopback, but none if the environment chooses a profile, a '
    'transport, a discovery server, peers, the discovery range SUBNET or another middleware.')
LOOPBACK = (
    'The nodes use Fast DDS on this machine only (profile:=loopback). If the driver of the arm is '
    'on another machine, or another machine is to see their topics: profile:=none, or the path '
    'of a profile of your own')
END_TEXT = (
    'The nodes stop the arm and end when launch has ended, even by SIGKILL. With false they go '
    'on without launch.')


def profile_path(profile: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the Fast DDS profile, '' for none; FileNotFoundError if it is missing."""
    if profile == AUTO:
        profile = NONE if _has_chosen(environment) else 'loopback'
    if profile == NONE:
        return ''
    path = share_directory() / 'config' / PROFILES[profile] if profile in PROFILES else Path(
        profile).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"profile '{profile}' is not a file: give {AUTO}, "
                                f"{', '.join(PROFILES)}, {NONE}, or the path of a profile of "
                                'Fast DDS')
    return str(path.absolute())


def _has_chosen(environment: Mapping[str, str]) -> bool:
    """Whether the environment sets a transport, a discovery scope, or another middleware."""
    return (any(environment.get(name) for name in CHOICES)
            or environment.get('ROS_AUTOMATIC_DISCOVERY_RANGE', '').upper() == 'SUBNET'
            or 'fastrtps' not in (environment.get('RMW_IMPLEMENTATION') or 'rmw_fastrtps_cpp'))


def node_environment(path: str, ends_with_launch: bool) -> dict[str, str]:
    """Return the additional environment of a node; `path` is that of its DDS profile, or ''."""
    return {**(profile_environment(path) if path else {}),
            **({LAUNCH_PID: str(os.getpid())} if ends_with_launch else {})}


def note_failure(event: Any, context: Any) -> None:
    """Make launch end with status 1, not 0, if a process (ProcessExited) failed; for `on_exit`."""
    # launch ends with status 1 after an error in its event loop, so report one there
    if event.returncode and not context.is_shutdown:
        context.asyncio_loop.call_exception_handler({
            'message': f'{event.process_name} ended with status {event.returncode}'})
