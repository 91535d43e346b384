# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Robot arms that the loop of osc_arm drives: the interface, and a module for each kind of arm."""
