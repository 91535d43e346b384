# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The section of the report on ticks that keep clear."""

import collision


def test_each_tick_has_the_near_pairs_that_its_name_says():
    rows = collision.section(0.2)
    near = {row.time.name: (row.near, row.holding) for row in rows}
    assert near[collision.NONE] == near[collision.CLEAR] == (0.0, 0.0)
    assert near[collision.SHIPPED][0] > 0.0
    assert near[collision.SOME] == (16.0, 0.0)
    assert near[collision.HELD][0] == 16.0 and near[collision.HELD][1] > 0.0
    text = '\n'.join(collision.page(rows))
    assert all(name in text for name in near)
