# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""
Sphinx configuration of the site: the pages that GitHub shows, with the same links.

The source folder is the root of the repository, so that links between pages are the same in both.
The navigation is that of doc/README.md: each heading with a table is a section, each row a page;
further links of a row are sub-pages. A paragraph that is only a link to a Python file shows this
file, and a link whose text is the name of a page shows the title of the page.

"""

from itertools import chain
from pathlib import Path
import re
from unicodedata import lookup

from docutils.nodes import math_block, SkipNode

ROOT = Path(__file__).parents[1]
INDEX = 'doc/README'

project = 'osc_ros'
default_role = 'code'
author = 'The osc_ros maintainers'
project_copyright = '2026, The osc_ros maintainers'
root_doc = 'README'
include_patterns = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.rst', 'doc/**']
exclude_patterns = ['.*', 'build', 'install', 'log', 'site', 'test', 'osc_ros', 'osc_demo']
extensions = ['myst_parser', 'sphinx.ext.autodoc', 'sphinx.ext.napoleon']

myst_enable_extensions = ['colon_fence', 'dollarmath']
myst_heading_anchors = 4  # the same anchors as GitHub's
html_math_renderer = 'mathml'  # which browsers show by themselves, without a network
napoleon_google_docstring = False
napoleon_use_param = False  # with it, the n of a shape (n, 2) would become a link
napoleon_custom_sections = [('Attributes', 'params_style')]  # 'a, b : int' is one entry
napoleon_use_rtype = False
napoleon_preprocess_types = False
autodoc_member_order = 'bysource'
autodoc_typehints = 'none'  # docstrings give types, with shapes and units
autodoc_class_signature = 'mixed'

html_theme = 'furo'
html_title = 'osc_ros'
html_static_path = ['_static']
html_css_files = ['site.css']
html_show_sphinx = False
html_copy_source = False

LINK = re.compile(r'(?<!!)\[([^]]+)]\(([^)#\s]+)(#[^)\s]*)?\)')


def sections() -> dict[str, list[list[str]]]:
    """Return {heading: rows} of doc/README.md; a row is its pages, by their names in Sphinx."""
    text = (ROOT / f'{INDEX}.md').read_text(encoding='utf-8')
    found = {}
    for part in text.split('\n## ')[1:]:
        rows = [[page_of(f'{INDEX}.md', target) for _, target, _ in LINK.findall(line)]
                for line in part.splitlines() if line.startswith('|')]
        found[part.splitlines()[0]] = [list(filter(None, row)) for row in rows if any(row)]
    return {heading: rows for heading, rows in found.items() if rows}


def page_of(page: str, target: str) -> str | None:
    """Return the name in Sphinx of a link's target in a page; None if it is no page of doc/."""
    path = (ROOT / page).parent.joinpath(target).resolve()
    is_page = path.suffix in ('.md', '.rst') and path.is_relative_to(ROOT / 'doc')
    return str(path.relative_to(ROOT).with_suffix('')) if is_page else None


def toctree(pages: list[str], caption: str = '') -> str:
    """Return a hidden table of contents in MyST."""
    lines = [f':caption: {caption}'] if caption else []
    return '\n'.join(['', ':::{toctree}', ':hidden:', *lines, '', *pages, ':::', ''])


def amend(app, name: str, source: list[str]) -> None:
    """Add navigation, the text of examples and titles of pages; leave out links to folders."""
    if not (ROOT / f'{name}.md').is_file():
        return
    folder = (ROOT / name).parent

    def readable(match: re.Match) -> str:
        label, target, anchor = match[1], match[2], match[3] or ''
        if (folder / target).is_dir():
            return label
        is_name = label in (target, target.rpartition('/')[2])
        return f'[]({target}{anchor})' if is_name and page_of(f'{name}.md', target) else match[0]

    def with_text(match: re.Match) -> str:
        return (f'{match[0]}\n\n:::{{literalinclude}} {match[2]}\n:language: python\n'
                ':start-at: \'"""\'\n:::')

    text = re.sub(rf'(?m)^{LINK.pattern}$', lambda match: with_text(match)
                  if match[2].endswith('.py') else match[0], source[0])
    text = LINK.sub(readable, text)
    found = sections()
    if name == root_doc:
        for caption, rows in found.items():
            text += toctree([f'/{row[0]}' for row in rows], caption)
        text += toctree([f'/{INDEX}', '/CONTRIBUTING', '/CHANGELOG'], 'Project')
    for row in chain.from_iterable(found.values()):
        if name == row[0] and row[1:]:
            text += toctree([f'/{page}' for page in row[1:]])
    source[0] = text


def leave_out_of_search(app, env) -> None:
    """Let the search find pages for users only, and not the changes and the rules of the code."""
    for name in 'CHANGELOG', 'CONTRIBUTING':
        env.metadata[name]['nosearch'] = True


def write_index(app, error: Exception | None) -> None:
    """Write index.html, which leads to the page of README.md."""
    if error is None and app.builder.name == 'html':
        Path(app.outdir, 'index.html').write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">'
            f'<a href="{root_doc}.html">{project}</a>\n', encoding='utf-8')


def script_letter(letter: str) -> str:
    """Return the script form of a capital letter: browsers do not have the variant script."""
    try:
        return lookup(f'MATHEMATICAL SCRIPT CAPITAL {letter}')
    except KeyError:
        return lookup(f'SCRIPT CAPITAL {letter}')  # Unicode had some of them before


def formula(self, node) -> None:
    """Write a formula in MathML."""
    from latex2mathml.converter import convert
    is_block = isinstance(node, math_block)
    text = re.sub(r'<mi mathvariant="script">(\w)</mi>',
                  lambda match: f'<mi>{script_letter(match[1])}</mi>',
                  convert(node.astext(), display='block' if is_block else 'inline'))
    self.body.append(f'<div class="math">{text}</div>' if is_block else text)
    raise SkipNode


def setup(app) -> dict[str, bool]:
    """Register the functions above."""
    app.add_html_math_renderer('mathml', (formula, None), (formula, None))
    app.connect('source-read', amend)
    app.connect('env-updated', leave_out_of_search)
    app.connect('build-finished', write_index)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
