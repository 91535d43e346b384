# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Arrays from a reader of serialized messages."""


def found(reader, data):
    """Return (stamp, q, qd, efforts) of a serialized message."""
    q, qd = reader.positions(data), reader.velocities()
    return reader.stamp, q, qd, reader.efforts()
