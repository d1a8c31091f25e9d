#!/usr/bin/env python3
"""Writes the tokenizer's goldens: hard lines, a small vocabulary made of them, and what the package `tokenizers` makes
of each.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.23.3 && /tmp/venv/bin/python make.py

Tests need only the results: vocab.txt; lines.txt, a JSON string a line; for each line its tokens as "ID,GAP,BYTES"
(GAP: bytes between the token before and this one), special tokens left out, in uncased.txt, cased.txt, accents.txt
(lower case, accents kept) and mask.txt (uncased, [MASK] found in text; only the lines that hold it, others are "-"); and
pairs.txt: "FIRST SECOND MAX_TOKENS end|start: IDS / TYPE IDS", of the uncased tokenizer, FIRST and SECOND being line
numbers from 0.

Random characters are of kinds that have not changed since Unicode 3.2, so that the goldens hold for any version of ICU.
"""

import json
import pathlib
import random
import re
import unicodedata

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

HERE = pathlib.Path(__file__).resolve().parent
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VARIANTS = {
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "accents": {"lowercase": True, "strip_accents": False},
}
rng = random.Random(20)

SENTENCES = """The quick brown fox jumps over the lazy dog, again and again!
A server that answers quickly is not always a server that answers well.
Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. ẞ STRASSE Straße
Voix ambiguë d’un cœur qui au zéphyr préfère les jattes de kiwis. ÉLÈVE naïve
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío. ¿Añoraba? ¡Sí!
À noite, vovô Kowalsky vê o ímã cair no pé do pinguim queixoso.
Pchnąć w tę łódź jeża lub ośm skrzyń fig. ŁÓDŹ
Příliš žluťoučký kůň úpěl ďábelské ódy. PŘÍLIŠ ŽLUŤOUČKÝ
Pijamalı hasta, yağız şoföre çabucak güvendi. İSTANBUL IĞDIR ısı İi Iı
Höfdum við öll þau svör? Kæmi ný öxi hér, ykist þjófum nú bæði víl og ádrepa.
Jó foxim és don Quijote húszwattos lámpánál ülve egy pár bűvös cipőt készít.
Árvíztűrő tükörfúrógép. Šiaurės vėjas; Glāžšķūņa rūķīši. Ķīļ
Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЛКА Йод
Чуєш їх, доцю, га? Кумедна ж ти, прощайся без ґольфів!
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ ΣΑΣ σας Ά Ϊ ΐ ᾳ ᾼ ὦ
דג סקרן שט בים מאוכזב ולפתע מצא לו חברה. שָׁלוֹם עֲלֵיכֶם
نص حكيم له سر قاطع وذو شأن عظيم. مُحَمَّد، السَّلَامُ؟ ـــ
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश। क़ ख़ ग़ नि
আমি বাংলায় গান গাই। ড় ঢ় য় কো কৌ
யாமறிந்த மொழிகளிலே தமிழ்மொழி போல் இனிதாவது எங்கும் காணோம். கொ கோ கௌ
తెలుగు అక్షరాలు చాలా అందంగా ఉంటాయి. ಕನ್ನಡ ಕೋ ೋ മലയാളം കൊ සිංහල ෝ ෞ
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ฯ ๆ
ພາສາລາວ ບໍ່ຍາກ བོད་སྐད་ ཀྵ དྷ ཱི ཱུ မြန်မာ ဘာသာ၊ ភាសាខ្មែរ។
ქართული ენა უძველესია. Հայերեն լեզուն և գրերը։ ՀԱՅԵՐԵՆ
አማርኛ ቋንቋ፡ ግዕዝ፤ ᏣᎳᎩ ꮳꮃꭹ ᐃᓄᒃᑎᑐᑦ ᚠᚢᚦᚨᚱᚲ ᠮᠣᠩᠭᠣᠯ
視野無限廣，窗外有藍天。天地玄黃，宇宙洪荒；《你好》world 你好。
いろはにほへと ちりぬるを ガギグゲゴ パピプペポ がぎぐげご ヴ ｶﾞ ー々〆
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 각 힣 ㄱㅏ
𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒜𝓁𝓁 𝟘𝟙𝟚 ＦＵＬＬ ｗｉｄｔｈ ﬁ ﬂ ﬀ ﬃ ſt ŉ ǰ ΐ և ẖ ẗ ẘ ẙ ẚ
你𠀀𪛖𪜀𫝀𫠠𬺡好豈更車賈滑﨎﨏﩮丽丸𪘀
don't can't we'll it's «quoted» “double” ‘single’ ‚low‛ „low‟ ‹a› …—–-‐‑ ⁂ ※ § ¶ † ‡
$1,234.56 €9.99 £3 ¥500 50% ½ ² ³ ™ © ® ° ± × ÷ ≠ ≤ ≥ ≮ ≯ ∈ ∉ 10^-3 a+b=c <tag attr="v"/> `x` |y| ~z~ {a} [b] (c) \\d
user@example.com https://example.org/a/b?c=d&e=f#g C:\\path\\file.txt ../x/y.tar.gz 127.0.0.1:8080 foo_bar camelCase
👩‍👩‍👧 👨🏽‍💻 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ☺️ ❤ ❤️‍🔥 ✈︎ 🙂🙂🙂 👍🏿 🧑‍🚀x
[MASK] [CLS] [SEP] [PAD] [UNK] [mask] [ MASK ] [MASK [MASK]] MASK [[MASK]] x[MASK]y [MASK]. ##ing ##
Ａ\u0301 A\u030a \u212b \u00c5 e\u0323\u0302 \u1ec7 q\u0307\u0323 q\u0323\u0307 a\u0315\u0300\u05ae\u0301b \u0344 \u0374 \u037e \u0387 \u1fef \u2000\u2001x
a\u0301\u302eb \u00e9\u302e \u302ea \uac00\u302e\u302f x\u0300\u302e\u0301\u302f \U0001d15e \U0001d160\U0001d165\u302e \U0001d1bb \u0f73 \u0f75\u0f81""".split(
    "\n"
)


def steady(kind):
    """Characters of this general category today and in Unicode 3.2, and unassigned in neither."""
    old = unicodedata.ucd_3_2_0
    return [
        chr(c)
        for c in range(0x110000)
        if not 0xD800 <= c < 0xE000
        and unicodedata.category(chr(c)).startswith(kind)
        and old.category(chr(c)) == unicodedata.category(chr(c))
    ]


SPACES = [chr(c) for c in [9, 10, 13, 32, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]]
CONTROLS = [
    chr(c)
    for c in [
        0,
        1,
        7,
        8,
        0xB,
        0xC,
        0xE,
        0x1B,
        0x1C,
        0x1F,
        0x7F,
        0x80,
        0x85,
        0x9F,
        0xAD,
        0x200B,
        0x200C,
        0x200D,
        0x200E,
        0x200F,
        0x202A,
        0x202E,
        0x2060,
        0x2064,
        0xFEFF,
        0xFFF9,
        0xFFFD,
        0xE000,
        0xF8FF,
        0x180E,
        0xE0001,
        0xE0041,
        0xF0000,
        0x10FFFD,
    ]
]


def make_lines():
    words = [word for sentence in SENTENCES for word in sentence.split()]
    kinds = {kind: steady(kind) for kind in ("Mn", "Mc", "Me", "P", "S", "N", "Lu", "Ll", "Lo", "Lt", "Lm", "Z")}
    kinds["Lo"] = [
        c
        for c in kinds["Lo"]
        if not "\uac00" < c < "\ud700" and not "\u3410" < c < "\u9f00" and not "\U00020010" < c < "\U0002a6d0"
    ]
    lines = ["", " ", "\n\t", "\u0000", "\u200b", "\ufffd", "a\u00a0b", "a\u0007b", "\ufeffa", "a\u2028b", *SENTENCES]
    lines += [sentence.upper() for sentence in SENTENCES] + [sentence.lower() for sentence in SENTENCES]
    for form in ("NFD", "NFC", "NFKD"):
        lines += [unicodedata.normalize(form, sentence) for sentence in SENTENCES]
    for size in (1, 2, 50, 98, 99, 100, 101, 102, 150, 200, 201):
        lines += [
            unit * size for unit in ("a", "A", "é", "e\u0301", "ß", ".", "你", "x.", "a ", "🙂", "\u0301", "\0", "a\0")
        ]
        lines += ["a" * size + tail for tail in (".", " b", "\u0301", "é", "你", "-" + "b" * size, "\u200bb", "각")]
    lines += ["a" * 5000, "é." * 3 + "你" * 3 + "a" * 1000 + " b", "\u0301" * 3000 + "a"]
    lines += ["각" * size for size in (33, 34, 50, 51)] + ["가" * size for size in (49, 50, 51)]
    for _ in range(260):  # words of all scripts, joined by whatever may stand between words
        lines.append(
            "".join(
                rng.choice(words) + rng.choice(SPACES + CONTROLS + ["", "-", ".", "'", "你"])
                for _ in range(rng.randrange(2, 7))
            )
        )
    for _ in range(280):  # a character of any kind within a word, alone, and after a space
        c = rng.choice(kinds[rng.choice(list(kinds))])
        lines.append(f"a{c}b {c} x{c}{c} {c}Y")
    for _ in range(180):  # marks out of order
        base = rng.choice("aeoÅéñ각ガ\u0915\u05d0\u0644" + "\U0001d157")
        marks = [
            rng.choice(
                rng.choice([kinds["Mn"], kinds["Mc"], ["\u302e", "\u302f", "\U0001d165", "\U0001d16d", "\u0344"]])
            )
            for _ in range(rng.randrange(1, 6))
        ]
        lines.append(base + "".join(marks) + rng.choice(["", "b", " b", ".", "\u0000\u302e"]))
    for _ in range(140):  # runs of punctuation, spaces and controls
        pool = rng.choice(
            [kinds["P"], list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), SPACES, CONTROLS, SPACES + CONTROLS + ["a", "B"]]
        )
        lines.append("".join(rng.choice(pool) for _ in range(rng.randrange(1, 20))))
    for _ in range(200):  # anything at all
        lines.append("".join(rng.choice(kinds[rng.choice(list(kinds))]) for _ in range(rng.randrange(1, 14))))
    for _ in range(70):  # special tokens where they may not be seen
        lines.append(
            "".join(
                rng.choice(
                    [
                        "[MASK]",
                        "[CLS]",
                        "[SEP]",
                        "[UNK]",
                        "[MASK",
                        "MASK]",
                        "[mask]",
                        "[",
                        "]",
                        "a",
                        " ",
                        "é",
                        "\u0301",
                        "\u3000",
                        "你",
                        "\u200b",
                        ".",
                    ]
                )
                for _ in range(rng.randrange(2, 9))
            )
        )
    fillers = sorted(set(words))
    while len(lines) < 2200:
        word = rng.choice(fillers)
        cut = rng.randrange(len(word) + 1)
        lines.append(word[:cut] + rng.choice(CONTROLS + SPACES + [rng.choice(kinds["Mn"])]) + word[cut:])
    return lines


def make_vocabulary(lines):
    """Characters of the words, some left out for unknown words, and some beginnings and endings of words."""
    split = pre_tokenizers.BertPreTokenizer()
    words = set()
    for settings in VARIANTS.values():
        normalizer = normalizers.BertNormalizer(**settings)
        for line in lines:
            words.update(word for word, _ in split.pre_tokenize_str(normalizer.normalize_str(line)))
    words = sorted(word for word in words if len(word) <= 40)
    characters = sorted({c for word in words for c in word})
    pieces = [c for c in characters if rng.random() < 0.93 or c.isascii()]
    pieces += ["##" + c for c in pieces if not unicodedata.category(c).startswith("P")]
    parts = set()
    for word in words:
        if len(word) < 3 or rng.random() < 0.3:
            continue
        cut = rng.randrange(1, len(word))
        parts.update([word[:cut], "##" + word[cut:]] if rng.random() < 0.7 else [word])
    parts = sorted(part for part in parts if re.sub("^##", "", part) and part not in set(pieces))
    return SPECIAL + pieces + rng.sample(parts, min(len(parts), 2400))


def make_tokenizer(vocabulary, settings):
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(**settings)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.encode_special_tokens = True
    return tokenizer


def shown(tokenizer, line):
    encoding = tokenizer.encode(line, add_special_tokens=False)
    at = [0]
    for c in line:
        at.append(at[-1] + len(c.encode()))
    tokens, end = [], 0
    for token, (first, last) in zip(encoding.ids, encoding.offsets):
        tokens.append(f"{token},{at[first] - end},{at[last] - at[first]}")
        end = at[last]
    return " ".join(tokens)


def make_pairs(tokenizer, lines):
    cases = []
    for _ in range(300):
        first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
        most, side = rng.choice([3, 4, 5, 6, 7, 8, 9, 12, 13, 20, 21]), rng.choice(["end", "start"])
        tokenizer.enable_truncation(most, strategy="longest_first", direction={"end": "right", "start": "left"}[side])
        encoding = tokenizer.encode(lines[first], lines[second])
        ids, types = (" ".join(map(str, values)) for values in (encoding.ids, encoding.type_ids))
        cases.append(f"{first} {second} {most} {side}: {ids} / {types}")
    tokenizer.no_truncation()
    return cases


def write(name, rows):
    (HERE / name).write_text("".join(row + "\n" for row in rows), encoding="utf-8", newline="\n")


lines = make_lines()
vocabulary = make_vocabulary(lines)
write("vocab.txt", vocabulary)
write("lines.txt", [json.dumps(line, ensure_ascii=False) for line in lines])
for variant, settings in VARIANTS.items():
    tokenizer = make_tokenizer(vocabulary, settings)
    write(variant + ".txt", [shown(tokenizer, line) for line in lines])
tokenizer = make_tokenizer(vocabulary, VARIANTS["uncased"])
write("pairs.txt", make_pairs(tokenizer, lines))
tokenizer.encode_special_tokens = False
tokenizer.add_special_tokens([AddedToken("[MASK]", special=True, normalized=False)])
write("mask.txt", [shown(tokenizer, line) if "[MASK]" in line else "-" for line in lines])
print(len(lines), "lines,", len(vocabulary), "pieces")
