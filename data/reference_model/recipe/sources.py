# SPDX-License-Identifier: Apache-2.0
"""The Debian 12 packages whose text the model learns from, and the licence of that text."""
import dataclasses
import re

# Pages that list names instead of saying something.
INDEX_PAGE = re.compile(
    r"/(genindex[^/]*|bookindex|\w*modindex|keyword_index|doc_\w+crossref|doclist|search|sitemap|allclasses\w*|index-all)\.html$")

SPHINX_PROSE = r"/html/(?!generated/|_modules/|dev/generated/).*\.html$"
OPENSTACK = r"/html/(?!api/|_modules/|contributor/api/).*\.html$"
ALL_HTML = r"\.html$"


@dataclasses.dataclass(frozen=True)
class Source:
    package: str
    licence: str
    form: str     # html, sword, wordnet or dict
    pattern: str  # which of the package's files are read


SOURCES = [Source(*row) for row in (
    ("sword-comm-tdavid", "public domain (1885)", "sword", r"/tdavid/"),
    ("sword-comm-mhcc", "public domain", "sword", r"/mhcc/"),
    ("sword-comm-scofield", "public domain (1917)", "sword", r"/scofield/"),
    ("sword-text-web", "public domain", "sword", r"/engWEB"),
    ("dict-wn", "WordNet 3.0 licence (permissive)", "wordnet", r"/wn\.dict\.dz$"),
    ("dict-devil", "public domain (1911)", "dict", r"/devil\.dict\.dz$"),
    ("dict-jargon", "public domain", "dict", r"/jargon\.dict\.dz$"),
    ("sqlite3-doc", "public domain", "html", ALL_HTML),
    ("python3.11-doc", "PSF-2.0", "html", ALL_HTML),
    ("postgresql-doc-15", "PostgreSQL", "html", ALL_HTML),
    ("python-django-doc", "BSD-3-Clause", "html", ALL_HTML),
    ("python-sqlalchemy-doc", "MIT", "html", ALL_HTML),
    ("python-sklearn-doc", "BSD-3-Clause", "html",
     r"/(modules|tutorial|whats_new|developers|faq|glossary|common_pitfalls|auto_examples)[^/]*.*\.html$"),
    ("twisted-doc", "MIT", "html", r"/html/(?!api/).*\.html$"),
    ("apache2-doc", "Apache-2.0", "html", r"/manual/en/.*\.html$|\.html\.en$"),
    ("tomcat10-docs", "Apache-2.0", "html", ALL_HTML),
    ("erlang-doc", "Apache-2.0", "html", ALL_HTML),
    ("libreoffice-help-en-us", "MPL-2.0", "html", ALL_HTML),
    ("llvm-14-doc", "Apache-2.0 with LLVM exception", "html", r"/html/(?!AMDGPU/).*\.html$"),
    ("clang-15-doc", "Apache-2.0 with LLVM exception", "html", ALL_HTML),
    ("rust-doc", "MIT or Apache-2.0", "html",
     r"/html/(book|reference|nomicon|cargo|rustc|rustdoc|edition-guide|rust-by-example|embedded-book|unstable-book|error-index|"
     r"std/(?!arch|simd))\b.*\.html$"),
    ("nodejs-doc", "MIT", "html", ALL_HTML),
    ("swi-prolog-doc", "BSD-2-Clause", "html", ALL_HTML),
    ("python-pandas-doc", "BSD-3-Clause", "html", SPHINX_PROSE),
    ("python-sympy-doc", "BSD-3-Clause", "html", r"/html/(?!_modules/).*\.html$"),
    ("python-astropy-doc", "BSD-3-Clause", "html", r"/html/(?!_modules/).*\.html$"),
    ("python-statsmodels-doc", "BSD-3-Clause", "html", SPHINX_PROSE),
    ("python-skimage-doc", "BSD-3-Clause", "html", r"/html/(?!_modules/).*\.html$"),
    ("nova-doc", "Apache-2.0", "html", OPENSTACK),
    ("neutron-doc", "Apache-2.0", "html", OPENSTACK),
    ("cinder-doc", "Apache-2.0", "html", OPENSTACK),
    ("keystone-doc", "Apache-2.0", "html", OPENSTACK),
    ("heat-doc", "Apache-2.0", "html", OPENSTACK),
    ("swift-doc", "Apache-2.0", "html", ALL_HTML),
)]


def wanted(source: Source, path: str, root: str) -> bool:
    """Whether the file PATH of the package unpacked at ROOT is one to read."""
    if source.form == "sword":
        return path.endswith("zs") and "sword" in path
    return bool(re.search(source.pattern, path[len(root):])) and not INDEX_PAGE.search(path)
