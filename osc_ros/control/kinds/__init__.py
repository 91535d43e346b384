# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The kinds of tasks: definitions of the error of a task and of its rate of change."""
