# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Methods for any robot, compiled: trees of bodies with one or several tips."""
