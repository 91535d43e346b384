# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Set-points: where targets and posture are at a time, and how they get to a goal."""
