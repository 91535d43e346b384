# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Joint limits, and the change of the law's torques that keeps the joints within them."""
