# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Plain chains, compiled: bodies with mass, one after the other, one tip on the last."""
