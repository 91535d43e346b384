# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""osc_teach: records poses and paths of an arm that a hand guides, and plays them back."""
