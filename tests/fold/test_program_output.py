"""What a program printed is not taken for the words of the user who passed it on."""

from __future__ import annotations

import pytest

from tests.fold.test_extract import tokens
from turnfold import user
from turnfold.fold import Passage, extract_summary, passages_of
from turnfold.rules import extract_rules
from turnfold.text import is_program_output

LISTING = """[File: /srv/shop/rates.py (240 lines total)]
(117 more lines above)
118:    # Callers must always pass the day, never a range.
119:    if day not in self.table:
120:        raise KeyError(day)
121:
122:    return self.table[day]
(118 more lines below)
(Open file: /srv/shop/rates.py)
(Current directory: /srv/shop)
bash-$"""
FETCHED = """  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current
                                 Dload  Upload   Total   Spent    Left  Speed
100   512    0   512    0     0   1024      0 --:--:-- --:--:-- --:--:--  1024
<html><head><title>登录</title></head>
<body>
<p>You must never share this page.</p>
</body>
(Open file: n/a)
bash-$"""
TASK = """We are solving this issue in our repository: the rates of 29 February are missing.
Please keep the table sorted by day.

Do not change the tests.
(Open file: n/a)
(Current directory: /srv/shop)
bash-$"""
PASTED = """Please mend this, and never touch the old table:
Traceback (most recent call last):
  File "/srv/shop/rates.py", line 120, in rate
  File "/srv/shop/main.py", line 8, in run
KeyError: 29"""
REPORT = """Found 3 matches
/srv/shop/a{0}.py: error: Invalid rate for 2{0} May 2024, total 4,2{0}1 EUR
/srv/shop/b.py:12: KeyError: rate_{0} failed
BUILD-{0}77 failed with 3 errors
12:00:01 ERROR order A-10{0} refused
12:00:02 INFO status 50{0} from api.rates.example.org
12:00:03 ERROR total of 9{0}0.50 EUR
(Open file: /srv/shop/rates.py)
(Current directory: /srv/shop)
bash-$"""
OWN_LIST = "1: Never call before nine.\n2: Answer in French.\n3: Keep it short.\n4: Ask me first."
OWN_LIST_ZH = "1:不要在九点前打电话\n2:用法语回答\n3:尽量简短\n4:先问我"


@pytest.mark.parametrize("text", [LISTING, FETCHED])
def test_output_that_an_agent_passes_on_is_the_voice_of_a_tool(text: str) -> None:
    assert is_program_output(text)
    assert passages_of([user(text)]) == [Passage("tool", text, 0)]
    assert not extract_rules(text, seq=1, trust="user")


@pytest.mark.parametrize(
    "text", [TASK, PASTED, OWN_LIST, OWN_LIST_ZH, "10:30 lunch\n11:30 talk\n12:30 walk", "", "$ 5"]
)
def test_what_people_write_stays_theirs(text: str) -> None:
    assert not is_program_output(text)
    assert [each.speaker for each in passages_of([user(text)])] == ["user"] * bool(text)


def test_the_task_stays_in_the_summary_while_only_programs_answer() -> None:
    summary = ""
    for fold in range(4):
        output = [user(REPORT.format(6 * fold + at)) for at in range(6)]
        messages = [*([user(TASK)] if fold == 0 else []), *output]
        summary = extract_summary(passages_of(messages), limit=80, count=tokens, previous=summary)
        assert "rates of 29 February are missing" in summary
        assert "Do not change the tests." in summary
