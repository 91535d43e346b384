# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The DDS participant of the clients in this process."""

from __future__ import annotations

import os
from threading import Lock

import rclpy
from rclpy.context import Context
from rclpy.node import Node

_LOCK = Lock()
_nodes: list[Node] = []


def shared_context() -> Context:
    """
    Return a context of rclpy beside its default one; its participant ends with the process.

    A participant that is created again in the same process has the GUID of the one before. Fast
    DDS of a peer that has not noticed the end of that one takes it for the same, and does not send
    again which topics and services it has. A node that nobody sees (its name begins with '_')
    keeps the participant, so that the clients can come and go.

    """
    with _LOCK:
        if not _nodes or not _nodes[-1].context.ok():  # a signal ends all contexts
            context = Context()
            rclpy.init(context=context)
            _nodes.append(rclpy.create_node(
                f'_osc_clients_{os.getpid()}_{len(_nodes)}', context=context, enable_rosout=False,
                use_global_arguments=False, start_parameter_services=False))
        return _nodes[-1].context
