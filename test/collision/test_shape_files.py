# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Files with shapes of links: read, and refused with what is accepted."""

import pytest

from capsules import shapes_file
from common import naming
from osc_ros import InputError
from osc_ros.collision.link_shapes import shape_model
from osc_ros.errors import OscError


def test_shapes_and_ignored_pairs_of_both_files_are_read(tmp_path):
    srdf = tmp_path / 'panda.srdf'
    srdf.write_text('<robot name="panda"><disable_collisions link1="panda_link1" '
                    'link2="panda_hand" reason="Never"/></robot>')
    own, both = (shape_model('', shapes_file(tmp_path), one) for one in ('', str(srdf)))
    assert {one.link for one in own.shapes} >= {'panda_link1', 'panda_hand'}
    assert all(one.ends.shape == (2, 3) and one.radius > 0.0 for one in own.shapes)
    assert both.ignored - own.ignored == {frozenset(('panda_link1', 'panda_hand'))}


def test_files_that_cannot_be_read_are_named(tmp_path):
    for arguments in (('', str(tmp_path / 'none.yaml')),
                      ('', shapes_file(tmp_path), str(tmp_path / 'none.srdf'))):
        with pytest.raises(OscError, match=naming('none.', 'give the path of a file')):
            shape_model(*arguments)
    (tmp_path / 'bad.srdf').write_text('<no')
    with pytest.raises(OscError, match='XML'):
        shape_model('', shapes_file(tmp_path), str(tmp_path / 'bad.srdf'))
    with pytest.raises(InputError, match=naming("'nobody'", 'give a file with shapes')):
        shape_model('nobody')
