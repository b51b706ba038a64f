"""Terms by which two rules are known to be about the same thing, in English and Chinese.

A rule has a scope (what it is about: "deadline", "report") and, if it gives one value to one attribute, a value
("friday"). Words of small closed classes (weekdays, languages, databases, ...) are values, and their class is part
of the scope, so that "reply in French" and "请用英文回复" meet in `@reply` and `@language`. Words with the same
meaning in both languages have one term.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from turnfold.text import RUN, is_cjk, plain_text, terms_of_words

__all__ = ("Terms", "plain_terms", "scope_terms")


class Terms(NamedTuple):
    """The terms of a sentence, sorted."""

    scope: tuple[str, ...]
    value: tuple[str, ...]


_STOP = frozenset(
    """
    a about above actually after again ahead all allow allowed already also although always am an and any anymore
    anyone anything are around as ask at away back be because been before being better both btw but by can cannot
    cant can't change changed choose chose come could couldn't currently day decide decided decision definitely did
    do does doesn't doesnt doing don don't done dont during each either else end ensure etc even ever every everyone
    everything exactly few final finally finished first fix follow following for forget forward from future fyi get
    give go goes going gonna got great guess had has have haven't having he hello help her here hey hi him his how
    however i i'd i'll i'm i've id if im in instead into is isn't it it's its ive just keep kept kind kindly know
    last later least let let's lets like likely long longer look made mainly make makes many matter may maybe me
    mean might mind mine more most move moved much must my need needed needs never new next no nor not note now of
    off ok okay on once one only onto or other our out over own per perhaps please pls plus prefer preferred put
    quite rather really regarding remain remember remind said same say scratch second see set settle settled shall
    should shouldn't since so some something sorry start stay step stick still stop such sure switch take than thank
    thanks that that's the their them then there these they thing things think this those though through throughout
    time times to too total try turn under unless until up update upon us use used using usually very via wait want
    wanted was way we we'd we'll we're we've well went were what whatever when whenever where whether which while
    who whole whose why will with within without won't wont work would yeah yes yet you you'll you're your yours
    moving forward
    """.split()
)
_SYNONYMS: dict[str, str] = {}
_CLASSES: dict[str, tuple[str, str]] = {}
"""Word to its class and its value."""


def _synonyms(table: str) -> None:
    for line in table.strip().splitlines():
        first, *others = line.split()
        for word in (first, *others):
            _SYNONYMS[word.replace("_", " ")] = f"={first}"


def _classes(table: str) -> None:
    for line in table.strip().splitlines():
        name, *values = line.split()
        for group in values:
            first, *others = group.split("|")
            for word in (first, *others):
                _CLASSES[word.replace("_", " ")] = (f"@{name}", first)


_synonyms("""
deadline due 截止日期 截止时间 截止 期限 交付日期 deadlines due_date
budget 预算 经费 budgets
@reply reply respond answer response speak talk communicate replies answers responses replying responding answering
@reply 回复 回答 回应 答复 作答 回我 交流 沟通 聊天
meeting meet 会议 开会 例会 meetings sync
launch 上线 launching golive go-live
release 发布 发版 releases releasing
deploy 部署 deployment deploying deployments deploys
database db 数据库 databases
port 端口 ports
email e-mail mail 邮件 邮箱 emails mails emailing
emoji emojis emoticons 表情 表情符号
comment comments 注释 commenting
test tests 测试 testing
venue 场地 会场
place location 地点 地址 address
color colour colors colours 颜色 配色
language 语言 languages
name 名字 名称 codename
price 价格 单价 定价 pricing prices
report 报告 报表 周报 reports
commit 提交 commits committing
branch 分支 branches
delete remove 删除 deleting removing deletes
call calls calling 打电话 电话
flight 机票 航班 flights
hotel 酒店 宾馆
contract 合同
supplier vendor 供应商
framework 框架
frontend 前端 front-end
backend 后端 back-end
theme 主题
password passwords 密码
table tables 表格
title 标题
code 代码
""")
_classes("""
day monday|mon|周一|星期一|礼拜一|mondays tuesday|tue|tues|周二|星期二|礼拜二|tuesdays
day wednesday|wed|周三|星期三|礼拜三|wednesdays thursday|thu|thurs|周四|星期四|礼拜四|thursdays
day friday|fri|周五|星期五|礼拜五|fridays saturday|sat|周六|星期六|礼拜六|saturdays
day sunday|sun|周日|周天|星期天|星期日|礼拜天|sundays
month january|jan|一月|1月 february|feb|二月|2月 march|三月|3月 april|apr|四月|4月 june|jun|六月|6月
month july|jul|七月|7月 august|aug|八月|8月 september|sep|sept|九月|9月 october|oct|十月|10月
month november|nov|十一月|11月 december|dec|十二月|12月
language english|英语|英文 chinese|mandarin|中文|汉语|普通话 french|法语|法文 german|德语|德文 spanish|西班牙语
language japanese|日语|日文 korean|韩语|韩文 italian|意大利语 portuguese|葡萄牙语 russian|俄语 arabic|阿拉伯语
language dutch cantonese|粤语|广东话 hindi swedish polish turkish
database postgres|postgresql mysql sqlite mariadb mongodb|mongo oracle dynamodb cockroachdb duckdb clickhouse cassandra
cache redis valkey memcached
code python java golang rust typescript|ts javascript|js kotlin swift ruby php scala c++ c# perl elixir haskell
framework react vue angular svelte django flask fastapi rails spring nextjs|next.js express laravel
cloud aws azure gcp 阿里云 腾讯云 华为云 heroku vercel netlify
indent tabs|tab|制表符 spaces|space|空格
packager npm pnpm yarn pip poetry uv conda bun
theme dark|深色|暗色 light|浅色|亮色
color red|红色 blue|蓝色 green|绿色 yellow|黄色 black|黑色 white|白色 purple|紫色 orange|橙色 pink|粉色
color grey|gray|灰色 brown|棕色 teal navy
unit metric|公制 imperial|英制 celsius|摄氏度|摄氏 fahrenheit|华氏度|华氏
currency dollars|usd|dollar|美元|美金 euros|eur|euro|欧元 yuan|rmb|cny|人民币 pounds|gbp|pound|英镑 yen|jpy|日元
length short|brief|concise|terse|简短|简洁|精简|简明 detailed|long|verbose|lengthy|thorough|详细|详尽
tone formal|正式 casual|informal|friendly|随意|轻松|口语化
format json yaml csv xml markdown html pdf toml word excel
spelling british american
""")
_ZH_WORDS = sorted(
    (word for word in (*_SYNONYMS, *_CLASSES) if not word.isascii()), key=len, reverse=True
)
_ZH_STOP = re.compile(
    "从现在开始|从现在起|从今天起|从今以后|今后|以后|以前|之后|之前|每次|总是|一直|永远|千万|绝对"
    "|一定|务必|必须|应该|应当|需要|不要|不能|不许|不准"
    "|不得|不可以|禁止|严禁|避免|切勿|请勿|不用|不再|可以|可不可以|能不能|记得|记住|提醒|别忘了?|决定"
    "|确定|敲定|选择|采用|改成|改为|改到|改用|改在"
    "|换成|换到|换|控制|放宽|提高|降低|以内|之内|左右|一点|一些|定为|定在|定于|取消|算了|还是|喜欢"
    "|偏好|习惯|更|比较|最好|尽量|尽可能|都|全部|所有|任何|统一|一律|只能|只用|只|就|那|这个|那个|这"
    "|请|麻烦|帮我|你们|我们|咱们|他们|大家"
    "|我|你|您|他|她|它|的话|的时候|时候|如果|要是|因为|所以|但是|不过|而且|然后|另外|还有|已经|现在"
    "|目前|最终|最后|完了|搞定|完成|好了|做完"
    "|[的了吧吗呢啊呀嘛着过是在用要别不和与跟给把被让对从为到会能得也又再先很太有没这那定点些于]"
)
_ZH_NUMBER = re.compile(
    r"[〇零一二两三四五六七八九十百千万半]+(?=[个条字元块天周月年点号次页行万千人岁小分%％页份楼层])"
)
_ZH_LEXICON = re.compile("|".join(map(re.escape, _ZH_WORDS)))
_NUMBER = re.compile(r"\d[\d,.:/-]*\d|\d")
_DIGITS = "〇零一二两三四五六七八九十百千万半"
_LIMIT = re.compile(
    r"\b(?:before|after|until|under|below|above|over|than|least|most|within|max|exceed)\b"
    r"|超过|少于|低于|高于|以内|之前|以前|以后|之后|最多|至少",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"(option|plan|version|variant|proposal|方案|选项|版本)\s*([A-Za-z]|\d)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_SIGNS = re.compile(r"[,\s]")


def _english(word: str) -> tuple[str, str]:
    """Return scope term and value term of an English word; either may be empty."""
    if word in _CLASSES:
        return _CLASSES[word]
    if word in _SYNONYMS:
        return _SYNONYMS[word].replace("=@", "@"), ""
    if word in _STOP or len(word) == 1:
        return "", ""
    made = terms_of_words(word)
    stem = made[-1] if made else word
    if stem in _STOP:
        return "", ""
    return (_SYNONYMS.get(stem, stem).replace("=@", "@"), "")


@lru_cache(maxsize=4096)
def _chinese(run: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of scope term and value term of a run of Chinese characters."""
    found: list[tuple[str, str]] = []
    rest = list(run)
    for match in _ZH_LEXICON.finditer(run):
        word = match[0]
        pair = _CLASSES.get(word) or (_SYNONYMS[word].replace("=@", "@"), "")
        found.append(pair)
        rest[match.start() : match.end()] = " " * len(word)
    left = "".join(rest)
    found.extend(("", number) for number in _ZH_NUMBER.findall(left))
    left = _ZH_STOP.sub(" ", _ZH_NUMBER.sub(" ", left))
    for piece in left.split():
        if len(piece) == 1:
            found.append((piece, ""))
        found.extend((first + second, "") for first, second in itertools.pairwise(piece))
    return tuple(found)


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    plain = plain_text(text)
    for kind, letter in _OPTION.findall(plain):
        yield "@option", f"{kind.lower()}-{letter.lower()}"
    for number in _NUMBER.findall(plain):
        yield "", _SIGNS.sub("", number)
    for run in RUN.findall(plain):
        if is_cjk(run):
            yield from _chinese(run)
        elif not run[0].isdigit():
            yield _english(run.lower())


def scope_terms(
    text: str,
    *,
    attribute: str = "",
    value: str = "",
    tags: tuple[str, ...] = (),
    many: bool = False,
) -> Terms:
    """Return scope and value of a sentence.

    `attribute` are the words that name what has the value; without it the whole sentence does. `value` are the
    words of the sentence that give the value, where its pattern knows them; otherwise members of a class and
    numbers are the value. With `many` the attribute can have several values at once: all terms are scope.
    """
    scope: set[str] = set(tags)
    values: set[str] = set()
    named = {term for pair in _pairs(value) for term in pair if term} if value else set[str]()
    if attribute or not _ONE_AT_A_TIME.isdisjoint(tags):
        return _named_attribute(attribute, value, tags)
    for about, given in _pairs(text):
        if given:
            if about:
                scope.add(about)
            values.add(given)
        elif about in named and about:
            values.add(about)
        elif about:
            scope.add(about)
    if many:
        # "Never call before 9" sets a limit, of which there is one at a time; "never touch server 9" names a thing.
        limits = {each for each in values if each[0].isdigit() or each[0] in _DIGITS}
        kept = limits if _LIMIT.search(text) else set[str]()
        return Terms(tuple(sorted(scope | (values - kept))), tuple(sorted(kept)))
    return Terms(tuple(sorted(scope)), tuple(sorted(values)))


def _named_attribute(attribute: str, value: str, tags: tuple[str, ...]) -> Terms:
    """Return the terms of a sentence that names an attribute and gives its value."""
    scope = {*tags, *(about for about, given in _pairs(attribute) if about and not given)}
    values: set[str] = set()
    for about, given in _pairs(value):
        values.add(given or about)
        if given and about and attribute:
            scope.add(about)
    facet = _FACET.match(value)
    if attribute and _CLOCK.search(value):
        scope.add("@is:time")
    elif attribute and facet:
        scope.add(f"@is:{facet[0].lower()}")
    return Terms(tuple(sorted(scope)), tuple(sorted(values - {""})))


_FACET = re.compile(r"(?:on|at|in|by|every|with)\b", re.IGNORECASE)
_CLOCK = re.compile(
    r"\d{1,2}:\d\d|\d\s?(?:am|pm)\b|o'clock|[\d一二两三四五六七八九十]点", re.IGNORECASE
)
"""What a value is a value of: "the meeting is on Monday", "at 9:30" and "in Berlin" do not contradict each other."""
_ONE_AT_A_TIME = frozenset({"@name", "@home", "@job"})
"""Attributes named by the form of the sentence, whatever words it uses: "I live in Oslo", "I moved to Rome"."""


def plain_terms(text: str) -> tuple[str, ...]:
    """Return all terms of a text, sorted: values as well as what they are values of."""
    return tuple(
        sorted({term for about, given in _pairs(text) for term in (given or about,) if term})
    )
