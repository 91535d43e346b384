# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Lanes: several numbers that the processor treats at once, in kernels with one source."""
