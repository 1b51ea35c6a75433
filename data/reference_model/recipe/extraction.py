# SPDX-License-Identifier: Apache-2.0
"""Files of a package to documents: lists of lines, one paragraph each, listings line by line."""
import gzip
import html.parser
import re
import struct
import zlib

BLOCKS = frozenset(
    "p div li ul ol dl dt dd h1 h2 h3 h4 h5 h6 table tr td th pre blockquote section article main body br hr tbody thead figure "
    "figcaption form caption title".split())
VOID = frozenset("br hr img meta link input col area base embed source track wbr".split())
FURNITURE_TAGS = frozenset("script style nav header footer noscript svg button select form head aside".split())
FURNITURE_CLASSES = re.compile(
    r"\b(sphinxsidebar\w*|related|navheader|navfooter|footer|toc|toctree-wrapper|contents|headerlink|nav[-\w]*|sidebar[-\w]*|"
    r"breadcrumb\w*|menu[-\w]*|topsection|bottomlang|toplang|linenos|indextable|genindextable|modindextable|out-of-band|"
    r"sp-accordion\w*|searchbox|fancy_toc|mobile[-\w]*|desktop[-\w]*|source|viewcode-link|anchor|permalink|innertoc|colophon|"
    r"copyright)\b", re.IGNORECASE)
LONGEST_LISTING = 16
DICTIONARY_LINES = 400  # a dictionary has no chapters; so many lines make a document

# Typographic characters to plain ones; marks that mean nothing in running text vanish.
PLAIN = str.maketrans({
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2013": "-", "\u2014": " -- ", "\u00a0": " ", "\u2026": "...",
    "\u2192": "->", "\u00b6": "", "\u200b": "", "\u00ad": "", "\ufffd": "", "\uf0c1": "", "\u00a7": ""})


class PageText(html.parser.HTMLParser):
    """HTML to (line, is_listing) pairs: one line per block element; navigation and other page furniture is skipped."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.lines = []
        self._pending = []
        self._preformatted = 0
        self._skipped_tag, self._skipped_depth = None, 0

    def finish_block(self):
        text, self._pending = "".join(self._pending), []
        if self._preformatted:
            listing = [line.rstrip() for line in text.expandtabs(4).strip("\n").split("\n")]
            if len(listing) <= LONGEST_LISTING:
                self.lines += [(line, True) for line in listing if line.strip()]
        elif text.split():
            self.lines.append((" ".join(text.split()), False))

    def handle_starttag(self, tag, attrs):
        if tag in VOID:
            if tag in ("br", "hr") and not self._skipped_tag:
                if self._preformatted:
                    self._pending.append("\n")
                else:
                    self.finish_block()
            return
        if self._skipped_tag:
            self._skipped_depth += tag == self._skipped_tag
            return
        names = dict(attrs)
        marks = (names.get("class") or "") + " " + (names.get("id") or "")
        whole_page = tag in ("body", "html", "main")
        if tag in FURNITURE_TAGS or (FURNITURE_CLASSES.search(marks) and not whole_page):
            if tag in BLOCKS:
                self.finish_block()
            self._skipped_tag, self._skipped_depth = tag, 1
        elif tag in BLOCKS:
            self.finish_block()
            self._preformatted += tag == "pre"

    def handle_endtag(self, tag):
        if self._skipped_tag:
            self._skipped_depth -= tag == self._skipped_tag
            if self._skipped_depth == 0:
                self._skipped_tag = None
        elif tag in BLOCKS and tag not in VOID:
            self.finish_block()
            if tag == "pre" and self._preformatted:
                self._preformatted -= 1

    def handle_data(self, data):
        if not self._skipped_tag:
            self._pending.append(data)


def read_html(path):
    page = PageText()
    with open(path, encoding="utf-8", errors="replace") as file:
        page.feed(file.read())
    page.finish_block()
    return page.lines


def read_sword(path):
    """A compressed SWORD module. PATH is its block table, (offset, size, unpacked size) of each zlib block in the file beside it."""
    with open(path, "rb") as file:
        table = file.read()
    with open(path[:-1] + "z", "rb") as file:
        blocks = file.read()
    for number in range(len(table) // 12):
        offset, size, _ = struct.unpack_from("<III", table, 12 * number)
        if size == 0:
            continue
        text = zlib.decompress(blocks[offset:offset + size]).decode("utf-8", "replace")
        text = re.sub(r"<note\b.*?</note>", "", text, flags=re.DOTALL)
        text = re.sub(r"<(chapter|title|row|l|lg)\b[^>]*>|</(title|row|l)>|<div\b[^>]*type=\"(x-p|introduction|book)\"[^>]*>", "\n", text)
        text = re.sub(r"<[^>]+>", "", text).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        yield number, [(" ".join(line.split()), False) for line in text.split("\n") if line.strip()]


def read_wordnet(path):
    """WordNet as 'word: definition; "example".' lines; a definition that several words share appears once."""
    lines, seen, word, sense = [], set(), None, []

    def finish_sense():
        text = re.sub(r"^(?:(?:n|v|adj|adv)\b)?\s*\d*:?\s*", "", " ".join(" ".join(sense).split()))
        text = re.sub(r"\s*\[(?:syn|ant|also):[^\]]*\]", "", text).replace("{", "").replace("}", "")
        if word and text and text not in seen:
            seen.add(text)
            lines.append((f"{word}: {text}.", False))
        sense.clear()

    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        for raw in file:
            if not raw.startswith(" "):
                finish_sense()
                word = raw.strip()
                continue
            if re.match(r"\s+(?:(?:n|v|adj|adv)\s)?\s*\d+:|\s+(?:n|v|adj|adv)\s*:", raw):
                finish_sense()
            if word:
                sense.append(raw)
    finish_sense()
    return lines[30:]  # the dictionary's own preface


def read_dict(path):
    """A dictd text: paragraphs parted by blank lines; figures and tables are left out."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        text = file.read()
    for block in re.split(r"\n\s*\n", text):
        block = block.replace("{", "").replace("}", "")
        letters = sum(c.isalpha() or c == " " for c in block)
        if len(block) > 40 and letters > 0.85 * len(block):
            yield " ".join(block.split()), False


def clean(lines):
    """Plain characters; lines that are foreign script, figures or rulers are dropped."""
    for text, listing in lines:
        text = text.translate(PLAIN)
        if not listing:
            text = " ".join(text.split())
        if not text.strip() or sum(ord(c) > 127 for c in text) > 0.1 * len(text):
            continue
        if listing:
            if len(text) > 120 or re.search(r"[-=+_#*]{12,}", text):
                continue
        elif sum(c.isalpha() or c == " " for c in text) < 0.7 * len(text):
            continue
        yield text


def documents(form, path):
    """[(name, lines)] of one file."""
    if form == "html":
        return [(path, list(clean(read_html(path))))]
    if form == "sword":
        return [(f"{path}:{number}", list(clean(lines))) for number, lines in read_sword(path)]
    lines = list(clean(read_wordnet(path) if form == "wordnet" else read_dict(path)))
    return [(f"{path}:{i}", lines[i:i + DICTIONARY_LINES]) for i in range(0, len(lines), DICTIONARY_LINES)]
