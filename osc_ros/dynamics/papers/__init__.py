# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The papers' algorithms in the papers' notation, in numpy: readable references."""
