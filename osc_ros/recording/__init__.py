# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Recordings of a controller: files, and the replay of a run from its inputs."""
