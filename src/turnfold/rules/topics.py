"""Finds the topic terms and the values of a rule, to recognise two rules about the same thing, in English and Chinese.

Words of small closed classes (weekdays, languages, databases, ...) and numbers are values, and their class is a topic
term: "reply in French" and "请用英文回复" share the terms `@reply` and `@language` and differ in the value. Words with
the same meaning in both languages have the same term, such as `=deadline`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.rules.numerals import with_digits
from turnfold.text import RUN, is_cjk, plain_text, terms_of_words

__all__ = ("SOMEWHAT", "Terms", "class_values", "facets", "rule_terms", "without_values")


class Terms(NamedTuple):
    """The topic terms of a sentence and the values that it states, each sorted."""

    scope: tuple[str, ...]
    """Topic words of the sentence; and with `@`, the classes of its values and the attributes of a person that it
    names."""
    value: tuple[str, ...]
    """Values that the sentence gives: numbers and members of a class, such as `monday`."""


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
    moving forward two three four five six seven eight nine ten twelve
    """.split()
)
_SYNONYMS: dict[str, str] = {}
"""Word -> the term that stands for all its synonyms."""
_CLASSES: dict[str, tuple[str, str]] = {}
"""Word -> the class of values it belongs to (`@day`) and the value (`monday`)."""


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
wedding 婚礼
party 聚会 派对
dinner 晚饭 晚餐 吃饭
project 项目
team 团队
logo 标志
rent 房租 租金
timeout 超时
repo repository 仓库
client 客户 customer
update updates 更新
guest guests 客人 宾客
summary 总结 摘要
passport 护照
invoice 发票
slides ppt 幻灯 演示文稿
docs documentation 文档
certificate cert 证书
car 汽车
course 课程 开课
exam 考试
mascot 吉祥物
backup backups 备份
cover 封面
frontend 前端 front-end
backend 后端 back-end
theme 主题
password passwords 密码
table tables 表格
title 标题
code 代码
""")
_classes("""
day monday|mon|周一|每周一|星期一|礼拜一|mondays tuesday|tue|tues|周二|每周二|星期二|礼拜二|tuesdays
day wednesday|wed|周三|每周三|星期三|礼拜三|wednesdays thursday|thu|thurs|周四|每周四|星期四|礼拜四|thursdays
day friday|fri|周五|每周五|星期五|礼拜五|fridays saturday|sat|周六|每周六|星期六|礼拜六|saturdays
day sunday|sun|周日|每周日|周天|星期天|星期日|礼拜天|sundays
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
length short|shorter|brief|concise|terse|简短|简洁|精简|简明|短
length detailed|long|longer|verbose|lengthy|thorough|详细|详尽|长
daytime morning|mornings|早上|上午|早晨 evening|evenings|晚上|傍晚|晚间 afternoon|afternoons|下午 night|nights|夜里
script 简体|简体字 繁体|繁体字
tone formal|正式 casual|informal|friendly|随意|轻松|口语化
format json yaml csv xml markdown html pdf toml word excel
spelling british american
frequency daily|每天|每日 weekly|每周 monthly|每月|按月 yearly|annually|每年|按年 hourly
phone iphone|苹果手机 pixel samsung|三星 android|安卓 华为手机 小米手机
chat slack teams discord 飞书 钉钉 企业微信 微信 telegram whatsapp zoom
ci jenkins github_actions|actions gitlab circleci travis
payment stripe adyen paypal 支付宝 微信支付
editor vim|neovim emacs vscode helix intellij
transport train|trains|rail|火车|高铁|动车
transport plane|fly|flying|flight|flights|飞机|机票|航班 bus|大巴|公交 car|drive|driving|开车|自驾
transport ferry|轮渡 bike|cycling|骑车
carrier ups dhl dpd fedex 顺丰 京东快递 maersk
milk oat_milk|燕麦奶 soy|豆奶 cow's_milk|牛奶
cabin economy|经济舱 business_class|商务舱 first_class|头等舱
seat window|靠窗 aisle|过道
place left|左边 right|右边 top|上面 bottom|底部
drink tea|茶 coffee|咖啡
""")
_ZH_WORDS = sorted(
    (word for word in (*_SYNONYMS, *_CLASSES) if not word.isascii()), key=len, reverse=True
)
_ZH_STOP = late_pattern(
    "从现在开始|从现在起|从今天起|从今以后|今后|以后|以前|之后|之前|每次|总是|一直|永远|千万|绝对"
    "|一定|务必|必须|应该|应当|需要|不要|不能|不许|不准"
    "|不得|不可以|禁止|严禁|避免|切勿|请勿|不用|不再|可以|可不可以|能不能|记得|记住|提醒|别忘了?|决定"
    "|确定|敲定|选择|采用|改成|改为|改到|改用|改在"
    "|换成|换到|换|控制|放宽|提高|降低|以内|之内|左右|一点|一些|定为|定在|定于|取消|算了|还是|喜欢"
    "|偏好|习惯|更|比较|最好|尽量|尽可能|都|全部|所有|任何|统一|一律|只能|只用|只|就|那|这个|那个|这"
    "|请|谢谢|多谢|麻烦|帮我|你们|我们|咱们|他们|大家"
    "|我|你|您|他|她|它|的话|的时候|时候|如果|要是|因为|所以|但是|不过|而且|然后|另外|还有|已经|现在"
    "|目前|最终|最后|完了|搞定|完成|好了|做完"
    "|[的了吧吗呢啊呀嘛着过是在用要别不和与跟给把被让对从为到会能得也又再先很太有没这那定点些于]"
)
_ZH_NUMBER = late_pattern(
    r"[〇零一二两三四五六七八九十百千万半]+(?=[个条字元块天周月年点号次页行万千人岁小分%％页份楼层])"
)
_ZH_LEXICON = late_pattern("|".join(map(re.escape, _ZH_WORDS)))
_OPTION = late_pattern(
    r"(option|plan|version|variant|proposal|方案|选项|版本)\s*([A-Za-z]|\d)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_SIGNS = late_pattern(r"[,\s]")
_DATE_UNITS = frozenset("年月日号")
"""Chinese characters of a date, which do not say what takes place then."""


def _english(word: str) -> tuple[str, str]:
    """Return the topic term and the value term of an English word; either may be empty."""
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
    """Return pairs of topic term and value term of a run of Chinese characters; either may be empty."""
    found: list[tuple[str, str]] = []
    rest = list(run)
    for match in _ZH_LEXICON.finditer(run):
        word = match[0]
        pair = _CLASSES.get(word) or (_SYNONYMS[word].replace("=@", "@"), "")
        found.append(pair)
        rest[match.start() : match.end()] = " " * len(word)
    left = "".join(rest)
    left = _ZH_STOP.sub(" ", _ZH_NUMBER.sub(" ", left))
    for piece in left.split():
        if len(piece) == 1 and piece not in _DATE_UNITS:
            found.append((piece, ""))
        found.extend((first + second, "") for first, second in itertools.pairwise(piece))
    return tuple(found)


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    """Yield pairs of topic term and value term of a sentence; either may be empty."""
    plain = with_digits(plain_text(text))
    for kind, letter in _OPTION.findall(plain):
        yield "@option", f"{kind.lower()}-{letter.lower()}"
    for found in _AMOUNT.finditer(plain):
        if SOMEWHAT.match(plain, found.start()):
            continue
        house = found["unit"] == "号" and _STREET.search(
            plain, max(0, found.start() - 2), found.start()
        )
        kind = "@number" if house else _unit(found)
        if kind not in _UNITS.values() and (name := _VERSIONED.search(plain, 0, found.start())):
            kind = f"@v:{_version_of(name[1].lower())}"
        yield kind, _SIGNS.sub("", found["number"])
    lowered = plain.lower()
    for phrase in _PHRASES:
        if phrase in lowered:
            yield _CLASSES[phrase]
    for run in RUN.findall(plain):
        if is_cjk(run):
            yield from _chinese(run)
        elif not run[0].isdigit():
            yield _english(run.lower())


SOMEWHAT = late_pattern(
    "(?<!午)(?<![早晚]上)(?<!凌晨)(?<![〇零二两三四五六七八九十百千万点周号日])一点(?![钟半前后以到之整开])"
)
"""Matches "a little" in Chinese, which is not one o'clock: 短一点."""
_STREET = late_pattern(r"[路街弄道巷村幢区][ ]?$")
_VERSIONED = late_pattern(
    r"(?<![A-Za-z])(python|java|golang|go|rust|typescript|javascript|kotlin|swift|ruby|php|scala|perl|node(?:\.?js)?|react|vue|angular"
    r"|svelte|django|flask|fastapi|rails|spring|next\.?js|laravel|postgres(?:ql)?|mysql|sqlite|mariadb|mongo(?:db)?|oracle|redis|valkey"
    r"|elasticsearch|kafka|kubernetes|docker|ubuntu|debian|windows|macos|ios|android|jdk|cuda|gcc|chrome)\s*v?$",
    re.IGNORECASE,
)
"""Matches a name before a number that is its version: "Python 3.12"."""


def _version_of(name: str) -> str:
    """Return the usual name of software: "postgres" for PostgreSQL."""
    return _CLASSES.get(name, ("", name))[1]


_PHRASES = tuple(word for word in _CLASSES if " " in word)
_AMOUNT = late_pattern(
    r"(?P<before>[$€£¥])?(?P<number>\d[\d,.:/-]*\d|\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b(?=\s+[a-z])|[〇零一二两三四五六七八九十百千万半]+(?=[个条字句元块天周月年点号次页行人岁小分%％份楼层秒排晚名位]))"
    r"\s*(?P<unit>[a-zA-Z%]+|[个条字句元块天周月年点号次页行人岁小分％份楼层秒万千排晚名位])?"
)
_UNITS = {
    unit: name
    for name, units in {
        "@time": "am pm a p h oclock 点",
        "@money": "k m eur euro euros usd dollars gbp pounds bucks rmb 元 块 万 千",
        "@date": "st nd rd th 号 月",
        "@people": "people person guests pax adults players users members 人 名 位",
        "@count": "个 条 份 次 句",
    }.items()
    for unit in units.split()
}


def _unit(found: re.Match[str]) -> str:
    """Return the class of a number (`@money`, `@time`) by the unit or currency next to the number."""
    unit = (found["unit"] or "").lower()
    if found["before"]:
        return "@money"
    if ":" in found["number"]:
        return "@time"
    if unit in _UNITS:
        return _UNITS[unit]
    if found["unit"] == "May":
        return "@date"
    return (
        f"@n:{terms_of_words(unit)[-1]}"
        if unit and unit not in _STOP and terms_of_words(unit)
        else "@number"
    )


_TAGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "@name",
        re.compile(
            r"\bmy\s+name|name's\b|(?<!never )(?<!don't )\bcall\s+me\s+(?!before|after|at\b|on\b|in\b|when|if\b|by\b"
            r"|back|again|later|any|during|until|about|from|to)|\bi\s+go\s+by\b|叫我|喊我|称呼我|我叫|我的名字|^我改名了?[^,，。]{0,4}[,，]?[^,，。]{0,4}叫",
            re.IGNORECASE,
        ),
    ),
    (
        "@home",
        re.compile(
            r"\b(?:i|we)(?:'m|'re|'ve)?\s+(?:just\s+|now\s+|currently\s+)?(?:live|living|based|moved\s+to|relocated)\b(?!\s+(?:on|with|alone|\w+\s+v?\d))"
            r"|^moved\s+to\b(?!\s+\w+\s+v?\d)|我(?:们)?(?:家|现在|上个?月|上周末?|最近|已经|刚)*(?:住在?(?!.{0,3}[楼层])|搬到|搬去|定居)|^(?:上(?:个?月|周末?|半?年)|去年|年初|前阵子|最近|昨天|刚)?(?:刚|就|已经)?搬(?:到|去|来)|(?<!老)家在"
            r"|^我们?(?![^,，。]{0,3}[妈爸女儿姐哥弟妹姑叔婆公同朋老])[^,，。]{0,8}[,，](?:我们?)?(?:现在|目前|已经)*(?:住|搬)(?![院店])|^(?:现在|目前)(?:我们?)?住(?![院店])",
            re.IGNORECASE,
        ),
    ),
    (
        "@job",
        re.compile(
            r"\bi\s+(?:\w+\s+)?work\s+(?:at|for)\b|\bjob\s+at\b|\bi(?:'m|\s+am)\s+at\s+[A-Z]\w+\s+now|\bi\s+(?:left|joined|quit)\s+[A-Z]|\bi(?:'ve|\s+have)?\s+(?:just\s+)?(?:started|got)\s+(?:a\s+)?(?:new\s+)?(?:job\s+|work\s+)?(?:at|with)\s+[A-Z]"
            r"|我.{0,4}在.{1,10}(?:工作|上班|任职)|离职|跳槽|换工作|入职|^我[^,，。]{0,4}(?:调|转|跳)[到去][^,，。]{1,10}(?:工作|上班|任职)",
            re.IGNORECASE,
        ),
    ),
    (
        "@diet",
        re.compile(
            r"\bvegetarian|\bvegan|\beat\s+(?:meat|everything|anything)|pescatarian|吃素|吃肉|素食|都吃",
            re.IGNORECASE,
        ),
    ),
    (
        "@address",
        re.compile(
            r"^(?!.*\b(?:mother|mom|mum|father|dad|parents?|office|work|company|billing|return|his|her|their|e-?mail|ip|web)\b)"
            r"(?:.*\b(?:my|our|new|shipping|delivery|mailing|home|postal)\s+(?:\w+\s+)?address\b"
            r"|.*\baddress\s+(?:has\s+|is\s+|just\s+)*(?:changed|different|new)\b"
            r"|.*\b(?:ship|send|deliver)\s+(?:everything|it\s+all|all\b.{0,30}|(?:my\s+)?(?:orders|parcels|packages))\s+to\b)"
            r"|^(?!.*(?:妈|爸|公司|单位|老家|他|她|退货|邮箱|网))(?!.*地址.{0,4}(?:发|给)我)"
            r".*(?:(?:收货|收件|寄送|家庭|送货|邮寄|我的|我家的?|新|现住)地址|搬家了|(?:包裹|快递|东西)(?:都|一律|全部|统一)?[送寄发]到)",
            re.IGNORECASE,
        ),
    ),
    (
        "@headcount",
        re.compile(
            r"^(?!.*(?:[今明后]天|开会|今晚|明晚|这次|房间|一间|每))(?:.{0,40})(?:一共|总共|共|来的|人数|就|只有|还是|变成)(?:是|有|就|我们|来|去|剩)*[^,，。\d]{0,3}(?:\d+|[两三四五六七八九十]+)\s?个?人(?=[,，。！!了吧]|$)"
            r"|\b(?:we're|we\s+are|we\s+have|there\s+(?:are|will\s+be)|we'll\s+be|it's|it\s+is)\s+(?:now\s+|only\s+|just\s+|down\s+to\s+|up\s+to\s+|about\s+)*"
            r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\s+(?:people|guests|persons|participants|attendees|of\s+us)\b",
            re.IGNORECASE,
        ),
    ),
    ("@favorite", re.compile(r"\bfavou?rite\b|\bfave?\b|最喜欢|最爱", re.IGNORECASE)),
)
"""Attributes of a person that a sentence names by its form, in different words: "I live in Oslo", "I moved to Rome"."""


_ATTRIBUTE = late_pattern(
    r"^\W*(?:(?:so|ok(?:ay)?|and|also|now|actually|final|new|update)\W+)*(?:(?:the|our|my|its)\s+)?"
    r"(?P<en>[\w' -]{2,30}?)"
    r"(?:\s+(?:is|are|was|will\s+be|has\s+been|becomes?|should\s+be)|'s|\s*[:=])\s+(?:now\s+|going\s+to\s+be\s+|set\s+to\s+|called\s+"
    r"|renamed\s+to\s+)*(?!(?:out|away|off|sick|ill|late|busy|travelling|traveling)\b|on\s+(?:leave|holiday|vacation)\b)(?P<facet>on|at|in|by|with)?\b"
    r"|^\W*(?:那|就|我们?的?|咱们?的?|新的?)*(?P<zh>[^,，。我你他她它这那是叫]{1,8}?)(?:现在|已经|也|就|最终|最后|还是)*"
    r"(?:是|叫|为|定在|定为|定成|设为|[:：])(?!不|否|因)",
    re.IGNORECASE,
)


def _attribute(text: str) -> str:
    """Return the topic term of "X" in a sentence of the form "the X is ..."; "" for other sentences."""
    found = _ATTRIBUTE.match(text)
    if found is None:
        return ""
    named = sorted({about for about, _ in _pairs(found["en"] or found["zh"]) if about})
    return f"@is:{'+'.join(named)}:{(found['facet'] or '').lower()}" if named else ""


@lru_cache(maxsize=1024)
def class_values(text: str) -> dict[str, frozenset[str]]:
    """Return the values that a text names, by class: {"@color": {"red"}}."""
    found: dict[str, set[str]] = {}
    for about, given in _pairs(text):
        if about and given and not given[0].isdigit():
            found.setdefault(about, set()).add(given)
    return {name: frozenset(values) for name, values in found.items()}


def rule_terms(text: str) -> Terms:
    """Return the topic terms of a sentence and the values that it states."""
    scope = {name for name, pattern in _TAGS if pattern.search(text)}
    if attribute := _attribute(text):
        scope.add(attribute)
    values: set[str] = set()
    for about, given in _pairs(text):
        if about:
            scope.add(about)
        if given:
            values.add(given)
    return Terms(tuple(sorted(scope)), tuple(sorted(values)))


_FACETS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "place": r"地址|[寄送发]到|[寄送]往|改[寄送]|送货|收货|上门"
        r"|\b(?:address|ship|deliver\w*|parcels?|goes\s+to)\b|\bsend\b.*\bto\b",
        "color": r"颜色|[红橙黄绿青蓝紫黑白灰棕粉金银米]色"
        r"|\b(?:colou?rs?|finish|shade|red|blue|green|yellow|black|white|purple|pink|gr[ea]y"
        r"|brown)\b",
        "time": r"(?:[时几〇零二两三四五六七八九十\d半]|一(?=点[钟半前后以到之整开]))点(?!击)"
        r"|点(?:前|后|以)|(?:周|星期|礼拜)[一二三四五六日天末]"
        r"|\d+月|月\d+|早上|上午|中午|下午|晚上|时间|日期"
        r"|\d\s*[ap]m\b|\b\d{1,2}:\d\d\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"
        r"|\b(?:morning|evening|afternoon|noon|date)s?\b",
        "phone": r"电话(?:号码)?(?:是|换|改|为|[:：])|手机号|号码|\bphone\s+number|\bmy\s+number\b",
        "money": r"预算|价格|[元块]钱?|退款|退到|付款|支付|\b(?:budget|price|refund|pay|payment|card)\b|[$€£¥]\s?\d",
        "invoice": r"发票|抬头|税号|\binvoices?\b",
    }.items()
}
"""Details of a thing, each of which can change while the other details stay: its destination, its colour, its time."""


@lru_cache(maxsize=1024)
def facets(text: str) -> frozenset[str]:
    """Return the aspects of a thing that a rule is about; an empty result if no known word names one."""
    return frozenset(name for name, pattern in _FACETS.items() if pattern.search(text))


_ZH_VALUES = "|".join(word for word in _ZH_WORDS if word in _CLASSES)
_EN_VALUES = "|".join(re.escape(word) for word in _CLASSES if word.isascii())
_VALUE = late_pattern(
    r"(?:(?:(?<=\s)[A-Z][\w.'-]*|\b(?i:"
    + _EN_VALUES
    + r")\b|[$€£¥]?\d[\w.,:/%-]*(?:\s?(?:[ap]m|号|点|元|块|岁|楼|弄|幢))?)[ ,]*)+(?<![ ,])"
    r"|“[^”]*”|\"[^\"]*\"|(?:"
    + _ZH_VALUES
    + r"|[〇零一二两三四五六七八九十百千万半]+[点号月天周元块楼层个岁次](?:半|钟)?)+"
    r"|[A-Za-z][\w.+#-]*(?=[\u4e00-\u9fff。，])|[\u4e00-\u9fff]{2,12}(?:路|街|大道|弄|公司)"
)
_GIVES = late_pattern(r"(?:用|选了?|开|是|为|放在?|去|订|住在?|要|叫|找|喝|吃)(?=.)")
_GAP = late_pattern(r"…[\s…]*…|…+")


def without_values(text: str, new: str) -> str:
    """Return a rule with "…" in place of each value that the `new` text does not have, which leaves its topic.

    Returns "" if no value of the rule is known.
    """
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    plain = _VALUE.sub(lambda found: found[0] if found[0] in new else "…", text)
    if plain == text and (gives := _GIVES.search(text)):
        plain = text[: gives.end()] + "…"
    plain = _GAP.sub("…", plain)
    return plain if "…" in plain and len(plain.strip("…。.吧的")) > 1 else ""
