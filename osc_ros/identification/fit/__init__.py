# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Regression of inertial parameters, friction and payload from the samples of a motion."""
