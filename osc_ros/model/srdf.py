# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Reads and writes the pairs of links in an SRDF that are not checked for collisions."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from osc_ros.errors import ModelError

ACCEPTED = "<disable_collisions link1='…' link2='…' reason='…'/>"


def disabled_pairs(text: str, where: str = 'the SRDF') -> dict[frozenset[str], str]:
    """Reason for each pair of link names of an SRDF's <disable_collisions> elements."""
    # ModelError, which begins with `where`, if the text is not an SRDF
    if '<!ENTITY' in text:  # a few lines of them can expand to gigabytes
        raise ModelError(f'{where} declares XML entities: give an SRDF without them')
    try:
        root = ElementTree.fromstring(text.lstrip('\ufeff \t\r\n'))
    except ElementTree.ParseError as error:
        raise ModelError(f'{where} does not parse as XML: {error}') from None
    if root.tag != 'robot':
        raise ModelError(f"{where}: the root element is <{root.tag}>, an SRDF's is <robot>")
    found = {}
    for element in root.iter('disable_collisions'):
        pair = frozenset(filter(None, (element.get('link1'), element.get('link2'))))
        if len(pair) != 2:
            raise ModelError(f'{where}: <disable_collisions> has {element.attrib}: give '
                             f'two links, as in {ACCEPTED}')
        found[pair] = element.get('reason', 'User')
    return found


def srdf_of(robot: str, pairs: Mapping[frozenset[str], str]) -> str:
    """Return the text of an SRDF of a robot with the reason for each disabled pair of links."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<robot name={quoteattr(robot)}>']
    for (a, b), reason in sorted((tuple(sorted(pair)), reason) for pair, reason in pairs.items()):
        lines.append(f'  <disable_collisions link1={quoteattr(a)} link2={quoteattr(b)} '
                     f'reason={quoteattr(reason)}/>')
    return '\n'.join([*lines, '</robot>', ''])
