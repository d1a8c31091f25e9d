#!/usr/bin/env python3
"""Compares encode_lines (tests/acceptance) with the package `tokenizers`: tokenizer.py ENCODE_LINES LINES

First every code point, within a word and beside a mark: those that are not treated alike are printed. Then LINES lines
without those: each must have the same ids, type ids and offsets. Exits 1 if not, or if a code point that differs is as
old as the tables of `tokenizers` and has not changed its category since.
"""

import array
import collections
import glob
import gzip
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SETTINGS = {
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "accents": {"lowercase": True, "strip_accents": False},
}
# Of `tokenizers`: the crate unicode_categories.
TABLES = (8, 0)
# Code points that are older, but whose category has changed since.
CHANGED = set("\u166d\u1734\u1885\u1886\ua9bd\U000111c9")
UNEXPLAINED = "NOT EXPLAINED by Unicode's versions"
END, START = 1, 2
GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tokenizer"


def make_reference(pieces, settings):
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(**settings)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens([AddedToken("[MASK]", special=True, normalized=False)])
    return tokenizer


class Case:
    """A text or two and how to encode them."""

    def __init__(self, first, second=None, special=True, mask=False, truncation=0, max_tokens=0, offsets=True):
        self.first, self.second, self.special, self.mask = first, second, special, mask
        self.truncation, self.max_tokens, self.offsets = truncation, max_tokens, offsets

    def request(self):
        first, second = self.first.encode(), None if self.second is None else self.second.encode()
        return b"".join(
            [
                struct.pack("<6i", self.special, self.mask, self.truncation, self.max_tokens, self.offsets, len(first)),
                first,
                struct.pack("<i", -1 if second is None else len(second)),
                second or b"",
            ]
        )


def our_answers(program, reference, cases, spent):
    """Adds the bytes encoded and the seconds that took to `spent`."""
    with tempfile.TemporaryDirectory() as folder:
        reference.save(folder + "/tokenizer.json")
        run = subprocess.run(
            [program, folder],
            input=b"".join(case.request() for case in cases),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
    if run.returncode != 0:
        sys.exit("encode_lines: " + run.stderr.decode())
    count, nanoseconds = map(int, run.stderr.split())
    spent[0] += count
    spent[1] += nanoseconds * 1e-9
    values, at, answers = array.array("i", run.stdout), 0, []
    for case in cases:
        size = values[at]
        if size < 0:
            answers.append(None)
            at += 1
            continue
        ends = [at + 2 + size, at + 2 + 2 * size, at + 2 + (4 if case.offsets else 2) * size]
        answers.append((values[at + 1], values[at + 2 : ends[0]], values[ends[0] : ends[1]], values[ends[1] : ends[2]]))
        at = ends[2]
    assert at == len(values)
    return answers


def byte_offsets(text, offsets):
    if text.isascii():
        return offsets
    at = [0]
    for c in text:
        at.append(at[-1] + (1 if c < "\x80" else 2 if c < "\u0800" else 3 if c < "\U00010000" else 4))
    return [(at[first], at[last]) for first, last in offsets]


def expected(case, encoding):
    offsets = array.array("i")
    if case.offsets:
        kinds, pairs = encoding.type_ids, encoding.offsets
        second = kinds.index(1) if case.second is not None and 1 in kinds else len(kinds)
        for text, part in ((case.first, pairs[:second]), (case.second or "", pairs[second:])):
            for pair in byte_offsets(text, part):
                offsets.extend(pair)
    return (
        int(bool(encoding.overflowing)),
        array.array("i", encoding.ids),
        array.array("i", encoding.type_ids),
        offsets,
    )


def reference_answers(reference, cases):
    """Cases of equal options together, as the options are the tokenizer's state."""
    groups = collections.defaultdict(list)
    for i, case in enumerate(cases):
        groups[case.special, case.mask, case.truncation, case.max_tokens].append(i)
    answers = [None] * len(cases)
    for (special, mask, truncation, max_tokens), members in groups.items():
        reference.encode_special_tokens = not mask
        if truncation:
            reference.enable_truncation(
                max_tokens, strategy="longest_first", direction="right" if truncation == END else "left"
            )
        else:
            reference.no_truncation()
        inputs = [cases[i].first if cases[i].second is None else (cases[i].first, cases[i].second) for i in members]
        for i, encoding in zip(members, reference.encode_batch(inputs, add_special_tokens=special)):
            answers[i] = expected(cases[i], encoding)
    return answers


def characters_that_differ(program):
    """Code point to where it differs, found among all within words and beside marks."""
    everything = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    assigned = [c for c in everything if unicodedata.category(c) not in ("Cn", "Co")]
    marks = [
        c
        for c in everything
        if c < "\U00020000"
        and unicodedata.category(c)[0] + "n" in ("Mn", "Cn")
        and unicodedata.category(c) not in ("Cc", "Cf", "Co")
    ]
    differ = collections.defaultdict(set)
    for name, settings in SETTINGS.items():
        normalizer = normalizers.BertNormalizer(**settings)
        pieces = set("xy\u302e\U0001d165")
        for c in assigned:
            pieces.update(c, normalizer.normalize_str(c), unicodedata.normalize("NFD", c), c.lower())
        pieces = sorted(pieces - {" "})
        reference = make_reference(SPECIAL + pieces + ["##" + piece for piece in pieces], settings)
        contexts = [
            (everything if name == "uncased" else assigned, "x{}y"),
            (marks, "x{}\u302ey"),
            (marks, "x\u0301{}\U0001d165y"),
        ]
        for characters, context in contexts:
            cases = [Case(context.format(c)) for c in characters]
            for c, ours, theirs in zip(
                characters, our_answers(program, reference, cases, [0, 0]), reference_answers(reference, cases)
            ):
                if ours != theirs:
                    differ[c].add(name)
    return differ


def ranges(characters):
    """'U+0061, U+0100-0102'."""
    parts, codes = [], sorted(map(ord, characters))
    for i, code in enumerate(codes):
        if i > 0 and code == codes[i - 1] + 1:
            parts[-1][1] = code
        else:
            parts.append([code, code])
    return ", ".join(f"U+{first:04X}" + (f"-{last:04X}" if last > first else "") for first, last in parts)


def check_characters(program):
    """Prints those that differ; they, and whether Unicode's versions explain them all."""
    differ = characters_that_differ(program)
    ages = subprocess.run([program, "--ages"], stdout=subprocess.PIPE, check=True).stdout
    groups = collections.defaultdict(list)
    for c in sorted(differ):
        age = tuple(ages[2 * ord(c) : 2 * ord(c) + 2])
        groups[
            (
                "unassigned in ICU's version"
                if age == (0, 0)
                else (
                    "new in Unicode {}.{}".format(*age)
                    if age > TABLES
                    else "of another category since" if c in CHANGED else UNEXPLAINED
                )
            )
        ].append(c)
    version = max(tuple(ages[i : i + 2]) for i in range(0, len(ages), 2))
    print(
        f"tokenizers {tokenizers.__version__} (general categories of Unicode {TABLES[0]}.{TABLES[1]}), ICU with "
        f"Unicode "
        f"{version[0]}.{version[1]}: {len(differ)} code points of {0x110000 - 2048:,} differ"
    )
    for group in sorted(groups, key=lambda each: (each[:3] != "new", len(each), each)):
        print(f"  {group}: {len(groups[group])}: {ranges(groups[group])}", flush=True)
    return differ, UNEXPLAINED not in groups


def debian_lines():
    """Of the texts that Debian installs; none elsewhere."""
    lines = []
    for name in sorted(
        glob.glob("/usr/share/common-licenses/*")
        + glob.glob("/usr/share/doc/*/changelog*.gz")
        + glob.glob("/usr/share/doc/*/copyright")
    )[:600]:
        try:
            data = gzip.open(name).read() if name.endswith(".gz") else pathlib.Path(name).read_bytes()
        except OSError:
            continue
        lines += [line for line in data.decode("utf-8", "ignore").split("\n") if line.strip()]
    return lines


def make_lines(count, left_out, rng):
    """Mixed lines, deterministic for the same files. Some of a megabyte."""
    golden = [json.loads(line) for line in (GOLDENS / "lines.txt").read_text(encoding="utf-8").split("\n") if line]
    golden = ["".join(c for c in line if c not in left_out) for line in golden]
    words = sorted({word for line in golden for word in line.split() if len(word) < 40})
    text = ["".join(c for c in line if c not in left_out) for line in debian_lines()] or golden
    usable = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and chr(c) not in left_out]
    planes = [
        [c for c in usable if low <= ord(c) < high]
        for low, high in (
            (0, 0x80),
            (0x80, 0x250),
            (0x250, 0x590),
            (0x590, 0x1200),
            (0x1200, 0x2000),
            (0x2000, 0x3100),
            (0x3100, 0xAC00),
            (0xAC00, 0xD800),
            (0xF900, 0x10000),
            (0x10000, 0x20000),
            (0x20000, 0x32000),
            (0, 0x110000),
        )
    ]
    marks = [c for c in usable if unicodedata.combining(c)] + list("\u302e\u302f\U0001d165\U0001d16d\u0344")
    controls = [c for c in usable if unicodedata.category(c) in ("Cc", "Cf", "Zs", "Zl", "Zp")]
    emoji = [
        chr(c)
        for c in [*range(0x1F300, 0x1F650), *range(0x1F680, 0x1F6D0), *range(0x1F900, 0x1F9C0)]
        if chr(c) in usable
    ]

    def mixed(size):
        kind = rng.random()
        if kind < 0.3:
            return rng.choice(text)
        if kind < 0.5:
            return rng.choice([" ", " ", "", "-", "\u00a0", "\u200b"]).join(rng.choices(words, k=size))
        if kind < 0.6:
            return "".join(rng.choices(rng.choice(planes), k=size * 2))
        if kind < 0.68:
            return "".join(rng.choice(rng.choice(planes)) for _ in range(size * 2))
        if kind < 0.76:
            return "".join(
                rng.choice(emoji) + rng.choice(["", "\u200d", "\ufe0f", " ", "\U0001f3ff", "a"]) for _ in range(size)
            )
        if kind < 0.84:
            return "".join(rng.choice(words)[:4] + "".join(rng.choices(marks, k=rng.randrange(4))) for _ in range(size))
        if kind < 0.92:
            return "".join(rng.choice(words) + rng.choice(controls) for _ in range(size))
        if kind < 0.96:
            return "".join(rng.choices(SPECIAL + ["[MASK", "]", "[", " ", "é", "a"], k=size))
        return "".join(rng.choices("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ aB0", k=size * 4))

    megabyte = 1 << 20
    yield from [
        "a" * megabyte,
        "." * megabyte,
        "\u0301" * (megabyte // 2),
        "\u302e" * (megabyte // 3),
        "你" * (megabyte // 3),
        "[MASK]" * (megabyte // 6),
        ("a" * 100 + " ") * (megabyte // 101),
        ("a\u0301\U0001d165\u302e" * 3) * (megabyte // 50),
        "각" * (megabyte // 3),
        " " * megabyte + "a",
        "\0" * megabyte,
        "🙂\u200d" * (megabyte // 7),
    ]
    for i in range(count - 12):
        if i % 100_000 == 50_000:
            parts, size = [], 0
            while size < megabyte:
                parts.append(mixed(8))
                size += len(parts[-1].encode()) + 1
            yield " ".join(parts)
        else:
            yield mixed(rng.randrange(1, 12))


def make_pieces():
    counts = collections.Counter(
        word for line in debian_lines() for word in line.split() if word.isalpha() and len(word) < 30
    )
    common = [word for word, _ in counts.most_common(8000)]
    pieces = (GOLDENS / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    more = [form for word in common for form in (word, word.lower(), "##" + word[len(word) // 2 :].lower())]
    return list(dict.fromkeys(pieces + more))


def case_for(line, before, rng):
    """Most lines alone and whole."""
    kind = rng.random()
    mask, special = rng.random() < 0.5, rng.random() < 0.9
    if kind < 0.7:
        return Case(line, special=special, mask=mask)
    second = before if kind > 0.85 else None
    return Case(
        line,
        second,
        mask=mask,
        truncation=rng.choice([END, START]),
        max_tokens=rng.choice([3, 4, 8, 9, 16, 17, 64, 512]),
    )


def check_lines(program, count, left_out):
    rng = random.Random(1)
    pieces = make_pieces()
    references = {name: make_reference(pieces, settings) for name, settings in SETTINGS.items()}
    spent, done, wrong, size, before = [0, 0], 0, 0, 0, ""
    batches = {name: [] for name in SETTINGS}

    def compare(name):
        nonlocal done, wrong
        cases = batches[name]
        ours = our_answers(program, references[name], cases, spent)
        theirs = reference_answers(references[name], cases)
        for case, mine, right in zip(cases, ours, theirs):
            done += 1
            if mine != right:
                wrong += 1
                if wrong <= 10:
                    print(
                        f"DIFFERS, {name}: {ascii(case.first[:200])} and {ascii((case.second or '')[:200])}, "
                        f"{case.mask=} {case.truncation=} {case.max_tokens=}\n"
                        f"  found    {str(mine)[:300]}\n  expected {str(right)[:300]}"
                    )
        cases.clear()

    for i, line in enumerate(make_lines(count, left_out, rng)):
        name = list(SETTINGS)[i % 3]
        batches[name].append(case_for(line, before, rng))
        size += len(line.encode())
        before = line if len(line) < 10_000 else "a b c"
        if len(batches[name]) == 20_000:
            compare(name)
    for name in SETTINGS:
        compare(name)
    print(
        f"{done:,} lines of {size / 1e6:.0f} MB compared in {', '.join(SETTINGS)}: {wrong} differ; "
        f"{spent[0] / 1e6 / spent[1]:.1f} MB/s with offsets"
    )
    return wrong == 0


def measure(program):
    """English alone, on one core."""
    lines = [line for line in debian_lines() if line.isascii()]
    if not lines:
        return
    text = "\n".join(lines)[:20_000_000]
    pages = [text[i : i + 4096] for i in range(0, len(text), 4096)]
    reference = make_reference(make_pieces(), SETTINGS["uncased"])
    for what, texts in (("lines", lines), ("texts of 4 KiB", pages)):
        for offsets in (False, True):
            spent = [0, 0]
            our_answers(program, reference, [Case(each, offsets=offsets) for each in texts], spent)
            print(
                f"English {what}, {spent[0] / 1e6:.0f} MB, with{'' if offsets else 'out'} offsets: "
                f"{spent[0] / 1e6 / spent[1]:.1f} MB/s"
            )


def main():
    program, count = sys.argv[1], int(sys.argv[2])
    differ, explained = check_characters(program)
    equal = check_lines(program, count, set(differ))
    measure(program)
    sys.exit(0 if explained and equal else 1)


if __name__ == "__main__":
    main()
