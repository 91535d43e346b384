# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Command-line tools: osc_demo, osc_identify, osc_info, osc_record, osc_teach and osc_tune."""
