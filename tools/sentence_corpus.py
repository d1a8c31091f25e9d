"""English sentences from Debian packages, to train and to judge the small sentence encoder.

Each source names its packages and its licence. Nothing is installed: packages are downloaded with `apt-get
download` and unpacked into a folder of the caller's.
"""

import gzip
import html
import lzma
import pathlib
import random
import re
import subprocess
import urllib.request
import zlib

SPLIT = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]?[A-Z])")


def descriptions_address():
    """Where apt's first source, the distribution itself, keeps the descriptions of its packages."""
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                              "Created-By: Packages"], check=True, capture_output=True, text=True).stdout
    site, release, component = targets.splitlines()[0].split()
    return f"{site.rstrip('/')}/dists/{release}/{component}/i18n/Translation-en.xz"


def fetch(package, folder):
    """The folder with the package's files; downloads and unpacks it once."""
    root = folder / "packages" / package
    if not root.exists():
        downloads = folder / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", package], cwd=downloads, check=True)
        archive, = downloads.glob(f"{package}_*.deb")
        root.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    return root


def sentences_of(paragraph):
    return SPLIT.split(" ".join(paragraph.split()))


def wordnet(folder):
    """Glosses (`definition; "example"; "example"`) of every sense."""
    for path in sorted(fetch("wordnet-base", folder).glob("usr/share/wordnet/data.*")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.startswith(" ") and "|" in line:
                gloss = line.split("|", 1)[1].strip()
                yield gloss.split('"', 1)[0].strip(" ;:")
                yield from re.findall(r'"([^"]+)"', gloss)


def dictionary(package, folder):
    """Paragraphs of a dictd dictionary, without headwords, marks and references."""
    path, = fetch(package, folder).glob("usr/share/dictd/*.dict.dz")
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    for paragraph in re.split(r"\n\s*\n|\n(?=\S)|\n(?=\s+\d+\. )", text):
        paragraph = re.sub(r"\[[^]]*\]|--[A-Z][\w .]*|^\s*\d+\.|[{}]|\([^)]*\.\)", " ", paragraph, flags=re.S)
        if "\\" not in paragraph:
            yield from sentences_of(paragraph)


def austen(folder):
    """The novels, which an R package keeps as a vector of lines in compressed blocks."""
    root = fetch("r-cran-janeaustenr", folder)
    data = (root / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    for start in (match.start() for match in re.finditer(rb"\x78[\x01\x5e\x9c\xda]|BZh9|\xfd7zXZ|\x5d\x00\x00", data)):
        block = _inflate(data[start:])
        lines, at = [], 0
        while (at := block.find(b"\x00\x04\x00\x09", at)) >= 0:
            size = int.from_bytes(block[at + 4:at + 8], "big")
            lines.append(block[at + 8:at + 8 + size].decode("utf-8", "replace"))
            at += 8 + size
        for paragraph in "\n".join(lines).split("\n\n"):
            yield from sentences_of(paragraph.replace("--", " - ").replace("_", ""))


def _inflate(data):
    try:
        if data[:1] == b"\x78":
            return zlib.decompressobj().decompress(data)
        if data[:1] in b"\xfd":
            return lzma.LZMADecompressor().decompress(data)
    except (zlib.error, lzma.LZMAError):
        pass
    return b""


def descriptions(folder):
    """What Debian's packages say of themselves."""
    path = folder / "downloads" / "Translation-en.xz"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with urllib.request.urlopen(descriptions_address()) as reply:
            path.write_bytes(reply.read())
    for record in lzma.decompress(path.read_bytes()).decode().split("\n\n"):
        if match := re.search(r"Description-en: (.*)", record, re.S):
            short, *long = match.group(1).split("\n", 1)
            yield short
            for paragraph in re.split(r"\n \.\n|\n (?=[ *-])", long[0] if long else ""):
                yield from sentences_of(paragraph.strip(" *-"))
                yield paragraph  # whole, so that longer texts are met, too


def manual_pages(folder):
    for package in "manpages", "manpages-dev":
        for path in sorted(fetch(package, folder).glob("usr/share/man/man*/*.gz")):
            text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            text = re.sub(r"\\f\(?[A-Z]{1,2}|\\f.|\\[&/,|^%]|\\s[-+]?\d", "", text).replace("\\-", "-")
            text = re.sub(r"^\.(?:B|I|BR|BI|IR|RB|IB|RI) (.*)", r"\1", text, flags=re.M).replace("\\(aq", "'")
            for paragraph in re.split(r"^\..*$", text, flags=re.M):
                yield from sentences_of(paragraph.replace('"', ""))
                yield paragraph


def web_pages(package, folder):
    for path in sorted(fetch(package, folder).rglob("*.html")):
        for paragraph in re.findall(r"<p>(.*?)</p>", path.read_text(errors="replace"), re.S):
            yield from sentences_of(html.unescape(re.sub(r"<[^>]*>", "", paragraph)))


def fortunes(folder):
    """Quotations, jokes and verses: the kind that is held out."""
    for package in "fortunes-min", "fortunes":
        for path in sorted(fetch(package, folder).glob("usr/share/games/fortunes/*")):
            if path.suffix or path.name in ("ascii-art", "translate-me"):
                continue
            for cookie in path.read_text(encoding="utf-8", errors="replace").split("\n%\n"):
                cookie = re.sub(r"\n\s*--.*", "", cookie, flags=re.S)
                yield from sentences_of(cookie)


# The share of each source in a training set says how many sentences are taken, at most.
TRAINING = {"wordnet": (wordnet, 0.38), "gcide": (lambda f: dictionary("dict-gcide", f), 0.20),
            "austen": (austen, 0.12), "descriptions": (descriptions, 0.18), "manual pages": (manual_pages, 0.05),
            "jargon": (lambda f: dictionary("dict-jargon", f), 0.04),
            "devil": (lambda f: dictionary("dict-devil", f), 0.01),
            "postgresql": (lambda f: web_pages("postgresql-doc-15", f), 0.02)}


def is_english(text, shortest, longest):
    words = text.split()
    letters = sum(c.isascii() and c.isalpha() or c == " " for c in text)
    return shortest <= len(words) <= longest and letters >= 0.85 * len(text)


def load(folder, count, seed=0):
    """(training sentences in random order, held-out fortunes in random order), no text twice or in both."""
    folder = pathlib.Path(folder)
    random_ = random.Random(seed)
    seen = set()

    def distinct(texts, longest):
        found = []
        for text in texts:
            text = " ".join(text.split())
            if text.lower() not in seen and is_english(text, 3, longest):
                seen.add(text.lower())
                found.append(text)
        random_.shuffle(found)
        return found

    held_out = distinct(fortunes(folder), 60)
    training = []
    for name, (source, share) in TRAINING.items():
        texts = distinct(source(folder), 150)
        taken = texts[:int(share * count)]
        print(f"{name}: {len(taken)} of {len(texts)} sentences", flush=True)
        training += taken
    random_.shuffle(training)
    return training, held_out
