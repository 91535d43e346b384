# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""The site builds without warnings, and contains every page and every example."""

import json
from pathlib import Path
import re
import runpy
import subprocess
import sys

import pytest

from texts import CHECKOUT, PAGES, read

pytest.importorskip('sphinx', reason="Sphinx is not installed: pip install '.[doc]'")
pytest.importorskip('furo', reason="furo is not installed: pip install '.[doc]'")
pytest.importorskip('myst_parser', reason="MyST is not installed: pip install '.[doc]'")


def build(builder, folder):
    """Build the site as `make docs` does; fail with the warnings."""
    done = subprocess.run(
        [sys.executable, '-m', 'sphinx', '-E', '-W', '--keep-going', '-q', '-b', builder,
         '-c', 'doc', '.', str(folder)], cwd=CHECKOUT, timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow  # quick: test_links_and_anchors_resolve of test_texts.py, and the tests below
def test_site_builds_without_warnings(tmp_path):
    build('dummy', tmp_path)  # reads all pages and resolves all links, and writes nothing


def test_navigation_has_every_page_once():
    sections = runpy.run_path(str(CHECKOUT / 'doc' / 'conf.py'))['sections']()
    assert list(sections) == ['Tutorial', 'How-to', 'Interface', 'How it works', 'Measurements',
                              'Internals']
    named = [page for rows in sections.values() for row in rows for page in row]
    pages = {Path(page).with_suffix('').as_posix() for page in PAGES if page.startswith('doc/')}
    assert sorted(named) == sorted({*pages, 'doc/api'} - {'doc/README'})


SYMPTOMS = 'stuck', 'home', 'oscillates', 'falls', 'slow', 'jumps', 'nothing arrives'


@pytest.mark.parametrize('symptom', SYMPTOMS)
def test_symptom_is_in_a_heading_which_the_search_of_the_site_finds(symptom):
    headings = re.findall(r'^## (.+)$', read('doc/symptoms.md'), re.MULTILINE)
    assert any(symptom in heading.lower() for heading in headings)


def test_texts_by_which_a_symptom_is_recognized_are_in_the_code():
    code = ''.join(file.read_text(encoding='utf-8')
                   for file in (CHECKOUT / 'osc_ros').rglob('*.py'))
    seen = [row.split('|')[1] for row in read('doc/symptoms.md').splitlines()
            if row.startswith('| ') and 'what you see' not in row]
    quoted = re.findall('`([^`]+)`', ''.join(seen))
    assert len(seen) > 25 and len(quoted) > 15
    assert not [text for text in quoted if text not in code]


def test_every_public_name_is_in_the_api_page():
    import osc_ros
    text = (CHECKOUT / 'doc' / 'api.rst').read_text(encoding='utf-8')
    assert sorted(re.findall(r'^\.\. auto\w+:: (\w+)', text, re.MULTILINE)) == sorted(
        osc_ros.__all__)


@pytest.mark.slow
def test_site_shows_examples_formulas_and_docstrings(tmp_path):
    pytest.importorskip('latex2mathml', reason="not installed: pip install '.[doc]'")
    build('html', tmp_path)
    index = (tmp_path / 'searchindex.js').read_text(encoding='utf-8')
    found = json.loads(re.search(r'\((.*)\)', index, re.DOTALL)[1])
    names = found['docnames']
    for word in ('hardwar', 'law', 'code'):
        at = found['terms'].get(word, []), found['titleterms'].get(word, [])
        pages = {names[k] for one in at for k in ([one] if isinstance(one, int) else one)}
        assert 'doc/own_hardware' in pages and not pages & {'CHANGELOG', 'CONTRIBUTING'}, word
    examples = (tmp_path / 'doc' / 'examples.html').read_text(encoding='utf-8')
    for file in (CHECKOUT / 'examples').glob('*.py'):
        definition, *_ = [*re.findall(r'^(?:def|class) (\w+)', file.read_text(), re.MULTILINE),
                          'osc_ros']
        assert f'examples/{file.name}' in examples and f'>{definition}<' in examples, file.name
    derivation = (tmp_path / 'doc' / 'derivation.html').read_text(encoding='utf-8')
    assert derivation.count('</math>') > 50 and 'https://cdn' not in derivation
    api = (tmp_path / 'doc' / 'api.html').read_text(encoding='utf-8')
    assert 'id="osc_ros.Law.torque"' in api and 'Quantities of the tip' in api
    assert 'README.html' in (tmp_path / 'index.html').read_text(encoding='utf-8')
    index = (tmp_path / 'searchindex.js').read_text(encoding='utf-8')
    titles = index.split('"alltitles":')[1].split('"docnames":')[0].lower()
    assert all(symptom in titles for symptom in SYMPTOMS)
