"""Finds secrets and personal data in text, and replaces them with labels before anything is stored.

`find_secrets` is the ready detector: keys and tokens of common services, passwords after a name such as `password=`,
private keys, payment cards, e-mail addresses, Chinese identity numbers and phone numbers. It takes time linear in the
length of the text. Any function of the same shape can be used instead of it, or together with it.

`redact_value` and `redact_message` apply a function to every text of a JSON value or of a message: text, thinking, tool
arguments and results, names, fields that turnfold does not model, and text files in `data:` URLs. Images, audio and
other binary content are not searched.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec

from turnfold.errors import InvalidOption
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)

__all__ = (
    "Detector",
    "Redactor",
    "Secret",
    "find_secrets",
    "highest_numbers",
    "redact_message",
    "redact_value",
    "redacted_text",
)


class Secret(NamedTuple):
    """A secret found in a text: its kind, and the positions where it starts and ends."""

    kind: str
    """Kind of secret, in lower-case words: `email`, `card number`."""
    start: int
    end: int


Detector: TypeAlias = Callable[[str], Iterable[Secret]]
"""Function that returns the secrets in a text. Overlapping secrets are redacted as one, which has the kind of the
secret that starts first (of equal starts, of the longer one)."""

_KIND: Final = re.compile(r"[a-z](?:[a-z -]{0,38}[a-z])?")
_LABEL: Final = re.compile(r"\[redacted: ([a-z][a-z -]{0,39}?)(?: (\d{1,9}))?\]")


# --- detectors -----------------------------------------------------------------------------------

# Patterns are texts: `re` compiles and caches them when they are first used, which most programs never do.
_FULL_WIDTH: Final = {0xFF01 + at: 0x21 + at for at in range(94)}
"""Full-width character (typed with Chinese input methods) -> ASCII character; one for one, so that positions stay the
same."""

_KEY_SHAPES: Final = (
    r"(?<![A-Za-z0-9_])(?:"
    r"sk-ant-[A-Za-z0-9_-]{20,}"  # Anthropic
    r"|sk-(?:proj-|svcacct-|admin-|or-v1-)?[A-Za-z0-9_-]{20,}"  # OpenAI and compatible services
    r"|(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,}|glpat-[A-Za-z0-9_-]{20,}"  # GitHub, GitLab
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}"  # Slack
    r"|https://hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{16,}"
    r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"  # Google
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{24,}"  # Stripe
    r"|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{40,}"
    r"|LTAI[A-Za-z0-9]{12,26}(?![A-Za-z0-9])|AKID[A-Za-z0-9]{13,40}(?![A-Za-z0-9])"  # Alibaba Cloud, Tencent Cloud
    r"|SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{40,}"  # SendGrid
    r")"
)
_JWT: Final = r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"
_BEARER: Final = r"(?i)\bbearer\s{1,3}([A-Za-z0-9._~+/=-]{16,})"
_URL_LOGIN: Final = r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@'\"<>]{0,80}:([^\s/@'\"<>]{3,200})@"
_BEGIN_KEY: Final = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_END_KEY: Final = r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BODY: Final = r"(?:[A-Za-z0-9+/=]{16,}|\s|\\[nr])*"
_ASSIGNED: Final = (
    r"(?i)(?:(?<![A-Za-z0-9])(?P<name>[a-z0-9]{0,20}[_-]?(?:[a-z0-9]{1,20}[_-]){0,4}"
    r"(?:password|passwd|passphrase|passwort|pwd|secret|token|credential|api[_ -]?key|access[_ -]?key|secret[_ -]?key|"
    r"auth[_ -]?key|private[_ -]?key|account[_ -]?key|encryption[_ -]?key|signing[_ -]?key))"
    r"|(?P<chinese>密码|口令|密钥|秘钥|令牌|通行码))"
    r"(?P<joint>[\"'`*]{0,2}\s{0,3}(?:=>|:=|==?|:|\bis\b|是|为)\s{0,3})"
    r"(?:\"(?P<double>[^\"\r\n]{6,200})\"|'(?P<single>[^'\r\n]{6,200})'|`(?P<tick>[^`\r\n]{6,200})`"
    r"|(?P<bare>[^\s\"'`,;，。；、&<>(){}\[\]\u4e00-\u9fff]{6,200}))"
)
_EMAIL: Final = (
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_%+-](?:[A-Za-z0-9._%+-]{0,62}[A-Za-z0-9_%+-])?"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9@_-])"
)
_LONG_NUMBER: Final = r"\d(?:[ ().-]{0,3}\d){6}"
_DIGITS: Final = r"(?<![A-Za-z0-9_])\d(?:[ -]?\d){12,18}(?![A-Za-z0-9_])"
_CHINESE_ID: Final = (
    r"(?<![A-Za-z0-9_.-])[1-8]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]"
    r"(?![A-Za-z0-9_])"
)
_SPACED_ID: Final = (
    r"(?<![A-Za-z0-9_.-])[1-8]\d{5}[ -](?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])[ -]\d{3}[\dXx]"
    r"(?![A-Za-z0-9_])"
)
_MOBILE: Final = (
    r"(?<![A-Za-z0-9_.+/=-])(?:(?:\+|00)?86[ -]?|\(\+?86\) ?)?"
    r"1(?:3\d|4[5-9]|5[0-35-9]|6[2567]|7[0-8]|8\d|9[0-35-9])(?P<sep>[ -]?)\d{4}(?P=sep)\d{4}(?![A-Za-z0-9_]|[.-]\d)"
)
_MOBILE_ABROAD: Final = (
    r"(?<![A-Za-z0-9_.])\+86[ -]?1[3-9]\d(?P<sep>[ -]?)\d{4}(?P=sep)\d{4}(?![A-Za-z0-9_])"
)
_LANDLINE: Final = (
    r"(?<![A-Za-z0-9_.+-])(?:0(?:10|2\d|[3-9]\d{2})-[2-8]\d{6,7}|\(0(?:10|2\d|[3-9]\d{2})\) ?[2-8]\d{6,7})"
    r"(?![A-Za-z0-9_]|[.-]\d)"
)
_INTERNATIONAL: Final = (
    r"(?<![A-Za-z0-9_+.)])\+[1-9]\d{0,2}(?:[ .-]?\(\d{1,4}\))?(?:[ .-]?\d{1,12}+){1,6}"
    r"(?![A-Za-z0-9_])"
)
_NORTH_AMERICAN: Final = (
    r"(?<![A-Za-z0-9_.+/-])(?:\([2-9]\d{2}\) ?|1[ -]?\([2-9]\d{2}\) ?|[2-9]\d{2}-)[2-9]\d{2}-\d{4}"
    r"(?![A-Za-z0-9_]|[.-]\d)"
)

_NOT_PERSONAL: Final = (
    r"(?i)(?:order|invoice|tracking|serial|ticket|shipment|parcel|transaction|txn|sku|isbn|issn|imei|build|version|commit|"
    r"timestamp|offset|hash|checksum|\bid|单号|订单|编号|流水|运单|发票|序列|工单|版本|时间戳|校验|\bNo\b|号码牌|货号|批次|条码|barcode|ean|upc|batch)"
    r"[^\d\r\n]{0,14}$"
)
_PERSONAL: Final = (
    r"(?i)(?:card|visa|master|amex|phone|mobile|tel|call|cell|whatsapp|卡号|卡|电话|手机|联系|致电|身份证)"
    r"[^\d\r\n]{0,14}$"
)
_MARKUP_SUFFIXES: Final = frozenset(
    "png jpg jpeg gif svg webp bmp ico css js jsx mjs ts tsx py json yaml yml toml md txt html xml lock map".split()
)
_PROVINCES: Final = frozenset((71, 81, 82, 83)).union(
    range(11, 16), range(21, 24), range(31, 38), range(41, 47), range(50, 55), range(61, 66)
)
_CALLING_CODES: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("1", "7"), (10, 10)),
    **dict.fromkeys("20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49".split(), (7, 12)),
    **dict.fromkeys("51 52 53 54 55 56 57 58 60 61 62 63 64 65 66".split(), (7, 12)),
    **dict.fromkeys("81 82 84 86 90 91 92 93 94 95 98".split(), (8, 11)),
    **dict.fromkeys(
        "211 212 213 216 218 220 221 233 234 237 251 254 255 256 260 263".split(), (7, 10)
    ),
    **dict.fromkeys("350 351 352 353 354 355 356 357 358 359 370 371 372 373 374".split(), (7, 11)),
    **dict.fromkeys("375 376 377 378 380 381 382 385 386 387 389 420 421 423".split(), (7, 11)),
    **dict.fromkeys("502 503 504 505 506 507 509 591 592 593 595 598 673 852 853".split(), (7, 11)),
    **dict.fromkeys("855 856 880 886 960 961 962 963 964 965 966 967 968 970 971".split(), (7, 11)),
    **dict.fromkeys("972 973 974 975 976 977 992 993 994 995 996 998".split(), (7, 11)),
}
"""Country calling code -> least and most digits that follow the code."""


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets and personal data in a text, in order, without overlaps."""
    plain = text if text.isascii() else text.translate(_FULL_WIDTH)
    found = [*_private_keys(plain)]
    found += (
        Secret("api key", *match.span())
        for match in re.finditer(_KEY_SHAPES, plain)
        if any(map(str.isdigit, match[0]))
    )
    found += (Secret("token", *match.span()) for match in re.finditer(_JWT, plain))
    found += (Secret("token", *match.span(1)) for match in re.finditer(_BEARER, plain))
    known = {each.start for each in found}  # the pattern of a known key finds its end more reliably
    found += (each for each in _passwords(plain) if each.start not in known)
    if "@" in plain:
        found += _emails(plain, [match.span() for match in re.finditer(_URL_LOGIN, plain)])
    if re.search(_LONG_NUMBER, plain):
        found += _numbers(plain)
    return _without_overlaps(found)


def _private_keys(text: str) -> Iterator[Secret]:
    if "PRIVATE KEY" not in text:
        return
    begins, ends, bodies = map(re.compile, (_BEGIN_KEY, _END_KEY, _KEY_BODY))
    at, has_end = 0, True
    while begin := begins.search(text, at):
        end = ends.search(text, begin.end()) if has_end else None
        has_end = end is not None
        if end is not None:
            at = end.end()
        else:  # the end line is missing: take the lines that look like key data
            body = bodies.match(text, begin.end())
            at = max(begin.end(), body.end() if body else 0)
        yield Secret("private key", begin.start(), at)


def _passwords(text: str) -> Iterator[Secret]:
    if "://" in text:
        for match in re.finditer(_URL_LOGIN, text):
            if not _is_placeholder(match[1]):
                yield Secret("password", *match.span(1))
    for match in re.finditer(_ASSIGNED, text):
        group = next(
            name for name in ("double", "single", "tick", "bare") if match[name] is not None
        )
        start, end = match.span(group)
        if group == "bare":
            end = start + len(match[group].rstrip(".:!?*/\\"))
        value = text[start:end]
        by_word = match["joint"].strip(" \"'`*").lower() in ("is", "是", "为", ":")
        if _looks_secret(value, match["name"] or "", cautious=by_word and group == "bare"):
            kind = "password" if _names_password(match) else "api key"
            yield Secret(kind, start, end)


def _names_password(match: re.Match[str]) -> bool:
    name = (match["name"] or match["chinese"]).lower()
    return any(word in name for word in ("pass", "pwd", "密码", "口令", "通行码"))


_WORD_VALUE: Final = (
    # A word after another begins with a capital or a sign: with neither, there are more ways than can be tried.
    r"[A-Za-z][a-z]+(?:(?:[A-Z]|[_ .-][A-Za-z])[a-z]+)*|[A-Z_]+|[\d.,:/%-]+|[a-z_]+(?:\.[a-z_]+)+"
)
_PLACEHOLDER: Final = (
    r"(?i)^(?:\$|%|<|\{|\[|\*{3}|x{4,}|\.{3}|#|•|env[:.]|os\.|process\.|secrets?\.|vault:|config\.|self\.|settings\.|"
    r"getenv|none\b|null\b|true\b|false\b|undefined\b|https?:/|(?:~|\.{1,2})?(?:/[\w.-]{1,20})+$)|"
    r"(?:your|my|the|some|insert|replace|placeholder|example|dummy|redacted|change[_-]?me)[_-]|^\[redacted|_here$|\(|\$\{"
)


def _is_placeholder(value: str) -> bool:
    return re.search(_PLACEHOLDER, value) is not None or len(set(value)) <= 2


def _looks_secret(value: str, name: str, *, cautious: bool) -> bool:
    """Return True if a value after a name such as `password` looks like a secret, and not like an ordinary word."""
    if _is_placeholder(value) or re.fullmatch(_WORD_VALUE, value) or len(value) < 6:
        return False
    if not value.isascii() or " " in value.strip():
        return False
    has_digit = any(map(str.isdigit, value))
    has_sign = not all(map(str.isalnum, value))
    classes = sum((has_digit, has_sign, any(map(str.islower, value)), any(map(str.isupper, value))))
    if "token" in name.lower() or "key" in name.lower():
        return len(value) >= 16 and has_digit and classes >= 2
    if cautious and not has_digit:
        return False
    return classes >= 2 and (has_digit or classes >= 3)


def _emails(text: str, logins: Sequence[tuple[int, int]]) -> Iterator[Secret]:
    """Yield e-mail addresses; `logins` are the places of `user:password@` in URLs, which are not addresses."""
    ends = {end for _, end in logins}
    for match in re.finditer(_EMAIL, text):
        if text.index("@", match.start()) + 1 in ends:
            continue
        suffix = match[0].rpartition(".")[2].lower()
        # `git@host:path` is an address of a repository, `icon@2x.png` a file.
        is_remote = text[match.end() : match.end() + 1] == ":" and re.match(
            r":[A-Za-z0-9~_.-]+/", text[match.end() : match.end() + 80]
        )
        if suffix not in _MARKUP_SUFFIXES and not is_remote and not match[0].startswith("git@"):
            yield Secret("email", *match.span())


def _numbers(text: str) -> Iterator[Secret]:
    yield from _phones(text)
    for pattern in (_CHINESE_ID, _SPACED_ID):
        for match in re.finditer(pattern, text):
            if _is_chinese_id(match[0]):
                yield Secret("id number", *match.span())
    for match in re.finditer(_DIGITS, text):
        if _is_card(match[0], text, match.start()):
            yield Secret("card number", *match.span())


def _phones(text: str) -> Iterator[Secret]:
    for pattern in (_MOBILE, _MOBILE_ABROAD, _LANDLINE, _NORTH_AMERICAN):
        for match in re.finditer(pattern, text):
            bare = match[0].isdigit()
            if not bare or not _is_other_number(text, match.start()):
                yield Secret("phone", *match.span())
    if "+" in text:
        for match in re.finditer(_INTERNATIONAL, text):
            if _is_international(match[0]):
                yield Secret("phone", *match.span())


def _is_other_number(text: str, start: int) -> bool:
    """Return True if the words before a number say that it is something else, such as an order number."""
    before = text[max(0, start - 32) : start]
    return re.search(_NOT_PERSONAL, before) is not None and re.search(_PERSONAL, before) is None


_ID_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def _is_chinese_id(number: str) -> bool:
    """Return True if a number is a valid Chinese identity number: province, date of birth, checksum (GB 11643)."""
    number = number.replace(" ", "").replace("-", "")
    if int(number[:2]) not in _PROVINCES:
        return False
    try:
        date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    total = sum(int(digit) * weight for digit, weight in zip(number, _ID_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == number[17].upper()


def _is_card(written: str, text: str, start: int) -> bool:
    """Return True if digits are a valid card number: issuer, length, checksum, and how they are grouped."""
    digits = written.replace(" ", "").replace("-", "")
    if not _is_issued(digits) or not _passes_luhn(digits) or len(set(digits)) < 2:
        return False
    if digits == written:
        return not _is_other_number(text, start)
    groups = [len(group) for group in re.split("[ -]", written)]
    one_mark = not (" " in written and "-" in written)
    return one_mark and (
        groups in ([4, 6, 5], [4, 6, 4], [6, 13])
        or (all(size == 4 for size in groups[:-1]) and 1 <= groups[-1] <= 4)
    )


def _is_issued(digits: str) -> bool:
    size, two, four = len(digits), int(digits[:2]), int(digits[:4])
    return (
        (digits[0] == "4" and size in (13, 16, 19))
        or ((51 <= two <= 55 or 2221 <= four <= 2720) and size == 16)
        or (two in (34, 37) and size == 15)
        or ((two in (36, 38, 39) or 3000 <= four <= 3059) and size == 14)
        or (
            (two in (62, 81) or four == 6011 or two == 65 or 6440 <= four <= 6499)
            and 16 <= size <= 19
        )
        or (3528 <= four <= 3589 and 16 <= size <= 19)
    )


def _passes_luhn(digits: str) -> bool:
    total = 0
    for at, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + at % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _is_international(written: str) -> bool:
    digits = re.sub(r"\D", "", written)
    if not 8 <= len(digits) <= 15:
        return False
    for size in (1, 2, 3):
        shortest, longest = _CALLING_CODES.get(digits[:size], (0, 0))
        if shortest <= len(digits) - size <= longest:
            return True
    return False


def _without_overlaps(found: Iterable[Secret]) -> list[Secret]:
    """Sort secrets by position; overlapping secrets become one, of the kind that starts first."""
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda each: (each.start, -each.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
        elif secret.end > kept[-1].end:  # no character of either may stay readable
            kept[-1] = kept[-1]._replace(end=secret.end)
    return kept


# --- labels --------------------------------------------------------------------------------------

NumberOf: TypeAlias = Callable[[str, str], int]
"""Function that returns the number in the label of a secret, given the secret's kind and value; 0 for no number."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """The function that detects secrets, and the key by which equal secrets get equal labels.

    Equal secrets of a conversation have the same label, such as `[redacted: email 1]`. To recognise a secret that was
    redacted before, the conversation stores a keyed hash of it, never the secret. With `key` (at least 16 bytes, the
    same in every process, kept outside the store) labels are the same in all processes and after restarts. Without it,
    each memory makes a random key and does not store it, so another process gives the same secret a new number.
    """

    detect: Detector = find_secrets
    key: bytes = b""

    def __post_init__(self) -> None:
        if not callable(self.detect):
            raise InvalidOption(
                f"redact={self.detect!r} must be a function from text to the secrets in it, such as "
                "turnfold.redaction.find_secrets"
            )
        if self.key and len(self.key) < 16:
            raise InvalidOption(f"key= has {len(self.key)} bytes: give at least 16 random bytes")

    def secrets(self, text: str) -> list[Secret]:
        """Return the secrets in a text, checked: in order, inside the text, not overlapping."""
        found = list(self.detect(text))
        for kind, start, end in found:
            if not 0 <= start < end <= len(text) or not _KIND.fullmatch(kind):
                raise InvalidOption(
                    f"the detector of redact= returned {(kind, start, end)!r} for a text of {len(text)} characters; "
                    "it must return (kind in lower-case words, start, end)"
                )
        if found and "[redacted: " in text:  # labels of an earlier redaction stay as they are
            labels = [match.span() for match in _LABEL.finditer(text)]
            found = [
                each
                for each in found
                if not any(start < each[2] and each[1] < end for start, end in labels)
            ]
        return _without_overlaps(Secret(*each) for each in found)

    @classmethod
    def of(cls, given: Redactor | Detector) -> Redactor:
        """Return a `Redactor`: the one passed, or a new one for a detector function."""
        return given if isinstance(given, Redactor) else cls(given)


def redacted_text(
    text: str, secrets: Iterable[Secret], number_of: NumberOf, counts: Counter[str]
) -> str:
    """Return a text with labels in place of its secrets; adds the number of secrets by kind to `counts`."""
    parts: list[str] = []
    at = 0
    for kind, start, end in secrets:
        number = number_of(kind, text[start:end])
        parts += (
            text[at:start],
            f"[redacted: {kind} {number}]" if number else f"[redacted: {kind}]",
        )
        counts[kind] += 1
        at = end
    return "".join((*parts, text[at:])) if parts else text


def highest_numbers(text: str) -> dict[str, int]:
    """Return the highest number of the labels in a text by kind: `{"email": 2}` for `[redacted: email 2]`."""
    highest: dict[str, int] = {}
    for match in _LABEL.finditer(text):
        highest[match[1]] = max(highest.get(match[1], 0), int(match[2] or 0))
    return highest


# --- values --------------------------------------------------------------------------------------

Redact: TypeAlias = Callable[[str], str]
"""Function that returns a text with labels in place of its secrets."""


def redact_value(value: object, redact: Redact, *, numbers: bool = True) -> object:
    """Return a JSON value with `redact` applied to every text in it, field names included.

    With `numbers`, integers of ten digits or more are redacted too. If nothing was found, the same object is returned.
    """
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        items = cast("list[object]", value)
        made = [redact_value(item, redact, numbers=numbers) for item in items]
        return made if any(new is not old for new, old in zip(made, items, strict=True)) else items
    if isinstance(value, dict):
        return _redact_object(cast("dict[str, object]", value), redact, numbers=numbers)
    if numbers and isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**9:
        written = str(value)
        made_text = redact(written)
        return value if made_text == written else made_text
    return cast("object", value)


def _redact_object(
    fields: dict[str, object], redact: Redact, *, numbers: bool
) -> dict[str, object]:
    made: dict[str, object] = {}
    changed = False
    for name, value in fields.items():
        new_name = redact(name)
        new = _redact_field(name, value, redact, numbers=numbers)
        changed = changed or new is not value or new_name != name
        while new_name in made:  # two names that became equal by redaction
            new_name += "'"
        made[new_name] = new
    return made if changed else fields


def _redact_field(name: str, value: object, redact: Redact, *, numbers: bool) -> object:
    """Redact the value of a JSON field; if the field's name is like `"password"`, its whole value is a secret."""
    new = redact_value(value, redact, numbers=numbers)
    if isinstance(value, str) and new == value:
        prefix = f'{name}="'
        named = redact(f'{prefix}{value}"')
        if named.startswith(prefix) and named != f'{prefix}{value}"':
            return named[len(prefix) : -1]
    return new


def _redact_json(text: str, redact: Redact) -> str:
    """Redact the strings in JSON text; text that is not JSON is redacted as plain text."""
    if not text:
        return text
    try:
        value = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return redact(text)
    made = redact_value(value, redact)
    if made is value or made == value:
        return text
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def redact_message(message: Message, redact: Redact) -> Message:
    """Return a message with `redact` applied to all its texts; the message itself if nothing was found."""
    parts = tuple(_redact_part(part, redact) for part in message.parts)
    name = None if message.name is None else redact(message.name)
    extra = _redact_json(message.extra, redact)
    labels = _redact_json(message.labels, redact)
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    if same and (name, extra, labels) == (message.name, message.extra, message.labels):
        return message
    # The origin describes the differences from the original bytes, which are not those of this message.
    return Message.of(message.role, parts, name=name, extra=extra, labels=labels)


def _redact_part(part: Part, redact: Redact) -> Part:
    match part:
        case TextPart():
            new = msgspec.structs.replace(
                part, text=redact(part.text), extra=_redact_json(part.extra, redact)
            )
        case ThinkingPart():
            new = msgspec.structs.replace(
                part, text=redact(part.text), extra=_redact_json(part.extra, redact)
            )
            if new.text != part.text:  # its signature is valid for the original text only
                new = msgspec.structs.replace(new, signature="")
        case ToolCall():
            new = msgspec.structs.replace(
                part,
                arguments=_redact_json(part.arguments, redact),
                extra=_redact_json(part.extra, redact),
            )
        case ToolResult():
            content = tuple(_redact_part(each, redact) for each in part.content)
            new = msgspec.structs.replace(
                part, content=content, extra=_redact_json(part.extra, redact)
            )
        case OpaquePart():
            new = msgspec.structs.replace(part, json=_redact_json(part.json, redact))
        case FilePart():
            new = msgspec.structs.replace(
                part,
                url=_redact_url(part.url, redact),
                filename=redact(part.filename),
                extra=_redact_json(part.extra, redact),
            )
        case ImagePart():
            new = msgspec.structs.replace(
                part, url=_redact_url(part.url, redact), extra=_redact_json(part.extra, redact)
            )
        case AudioPart():
            new = msgspec.structs.replace(part, extra=_redact_json(part.extra, redact))
    return part if new == part else new


def _redact_url(url: str, redact: Redact) -> str:
    if not url.startswith("data:"):
        return redact(url)
    head, _, data = url.partition(",")
    is_text = head.startswith(("data:text/", "data:application/json", "data:,", "data:;"))
    if not is_text or not head.endswith(";base64"):
        return redact(url) if is_text else url
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return url
    made = redact(text)
    return url if made == text else f"{head},{base64.b64encode(made.encode()).decode()}"
