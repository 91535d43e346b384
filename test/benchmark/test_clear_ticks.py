# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The section of the report on ticks that keep clear."""

from dataclasses import replace

import barriers
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


def test_without_cbfpy_the_page_says_so(monkeypatch):
    monkeypatch.setattr(barriers, 'find_spec', lambda name: None)
    assert barriers.section() == []
    assert 'not installed' in '\n'.join(barriers.page([]))


def test_both_controllers_have_rows_that_are_judged_alike():
    row = barriers.Keeper(barriers.OURS, 0, 0.0199, 3e-5, 10.0)
    text = '\n'.join(barriers.page([row, replace(row, name=barriers.OTHERS, contacts=2)]))
    assert f'| {barriers.OURS} | 0 of' in text and f'| {barriers.OTHERS} | 2 of' in text
