# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The command osc_check: finds whether a simulated arm follows its targets, and if not, why."""
