# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""What the page shows in three dimensions, and the reading that it shows."""
