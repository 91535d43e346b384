# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The command osc_shapes: encloses the links of an arm by capsules."""
