"""Write the table from traditional to simplified Chinese characters, `turnfold.text.simplified_chinese`.

    python tools/han_table.py TSCharacters.txt

The source is the character table of OpenCC (Apache-2.0, github.com/BYVoid/OpenCC, data/dictionary/TSCharacters.txt):
on each line a traditional character, a tab, and its simplified forms, the usual one first. Search needs one form per
character, so the usual one is taken; rare characters outside the basic plane are left as they are.
"""

from __future__ import annotations

import argparse
import unicodedata
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "src" / "turnfold" / "text" / "simplified_chinese.py"
PAIRS_ON_A_LINE = 23
HEAD = '''"""Table from traditional to simplified Chinese characters, so that a search in either script finds both.

Search only needs both spellings of a word to become one, so a table of single characters is enough. Written by
tools/han_table.py from the character table of OpenCC (Apache-2.0); not by hand.
"""

from __future__ import annotations

__all__ = ("SIMPLIFIED",)


_PAIRS = """
'''
FOOT = '''""".replace("\\n", "")

SIMPLIFIED = dict(zip(map(ord, _PAIRS[::2]), _PAIRS[1::2], strict=True))
"""Table for `str.translate`: traditional to simplified characters."""
'''


def pairs_of(source: str) -> dict[str, str]:
    """Return the simplified form by traditional character; no form is itself a key, so one lookup is enough."""
    first: dict[str, str] = {}
    for line in source.splitlines():
        traditional, _, forms = line.partition("\t")
        simplified = forms.split(" ")[0]
        single = len(traditional) == len(simplified) == 1 and traditional != simplified
        if single and all(map(_is_plain, (traditional, simplified))):
            first[traditional] = simplified
    return {key: _end(value, first) for key, value in first.items() if _end(value, first) != key}


def _is_plain(character: str) -> bool:
    """Return True if a character is in the basic plane and unchanged by NFKC."""
    return character < "\U00010000" and unicodedata.normalize("NFKC", character) == character


def _end(character: str, table: dict[str, str]) -> str:
    seen = {character}
    while (following := table.get(character, character)) not in seen:
        character = following
        seen.add(character)
    return character


def module_text(source: str) -> str:
    """Return the module with the table, made from the text of OpenCC's table."""
    pairs = pairs_of(source)
    cells = [key + value for key, value in sorted(pairs.items())]
    lines = [
        "".join(cells[at : at + PAIRS_ON_A_LINE]) for at in range(0, len(cells), PAIRS_ON_A_LINE)
    ]
    return HEAD + "\n".join(lines) + "\n" + FOOT


def main() -> None:
    """Read the table named on the command line, write the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    source = parser.parse_args().source.read_text(encoding="utf-8")
    TARGET.write_text(module_text(source), encoding="utf-8")


if __name__ == "__main__":
    main()
