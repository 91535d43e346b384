# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The command osc_check: whether a simulated arm follows, why it does not, and a remedy."""
