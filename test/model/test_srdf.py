# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The pairs of an SRDF that are not checked for collisions."""

from hypothesis import given, strategies
import pytest

from common import naming
from osc_ros.errors import ModelError
from osc_ros.model.srdf import disabled_pairs, srdf_of

NAMES = strategies.text('ab<&\'" ü', min_size=1, max_size=6)
PAIRS = strategies.dictionaries(strategies.frozensets(NAMES, min_size=2, max_size=2),
                                strategies.sampled_from(['Adjacent', 'Never', 'User']))


@given(NAMES, PAIRS)
def test_text_returns_the_same_pairs(robot, pairs):
    assert disabled_pairs(srdf_of(robot, pairs)) == pairs


def test_other_elements_are_ignored_and_a_missing_reason_is_the_user():
    text = """<robot name="arm"><group name="all"/>
      <disable_collisions link1="a" link2="b"/></robot>"""
    assert disabled_pairs(text) == {frozenset('ab'): 'User'}


@pytest.mark.parametrize('text, parts', [
    ('<robot', ['XML']), ('<urdf/>', ['<urdf>', '<robot>']),
    ('<robot><disable_collisions link1="a"/></robot>', ["'a'", 'link1', 'link2']),
    ('<robot><disable_collisions link1="a" link2="a"/></robot>', ["'a'", 'two links']),
    ('<!DOCTYPE x [<!ENTITY a "b">]><robot/>', ['entities'])])
def test_wrong_text_is_refused_and_names_the_file(text, parts):
    with pytest.raises(ModelError, match=naming('arm.srdf', *parts)):
        disabled_pairs(text, 'arm.srdf')
