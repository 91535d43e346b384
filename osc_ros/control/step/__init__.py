# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The way of a torque, compiled: `step.py` has its stages in order."""
