"""Features of a sentence for the classifier that tells rules, decisions and preferences from other talk.

A sentence has features of two kinds: its words, and its form, in which content words are replaced by their class (`X`,
`VERB`, `NUM`, ...) and function words are kept. "Never push to main" and "never feed the dog" have the form "never VERB
X" in common, so a weight learnt from one of them applies to the other too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from turnfold._lazy_loading import late_pattern

__all__ = ("chinese_features", "english_features", "has_known_word", "is_passing")


_TOKEN = late_pattern(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d[\d.,:/%-]*|[^\w\s]|\x1a+")
_SPELLINGS: dict[str, str] = {}
"""Spelling that is common in chats -> standard spelling."""
for _pair in """
    dont=don't cant=can't wont=won't im=i'm ive=i've id=i'd isnt=isn't doesnt=doesn't didnt=didn't lets=let's
    shouldnt=shouldn't mustnt=mustn't couldnt=couldn't havent=haven't havn't=haven't youre=you're thats=that's
    pls=please plz=please u=you ur=your w=with gonna=going gotta=must evry=every alway=always allways=always
    tmrw=tomorrow tmr=tomorrow b=before thx=thanks ok=okay k=okay favourite=favorite fav=favorite colour=color
    cannot=can't tho=though bc=because cuz=because nd=and nope=no yep=yes yeah=yes theres=there's whats=what's
    arent=aren't wasnt=wasn't wouldnt=wouldn't weve=we've hes=he's shes=she's theyre=they're
    """.split():
    _spelling, _, _word = _pair.partition("=")
    _SPELLINGS[_spelling] = _word
# Function words and other common words, which stay as they are in the form of a sentence.
_SMALL = frozenset(
    """
    i you he she it we they me him her us them my your his its our their mine yours ours this that these those
    i'm i've i'd i'll you're you've you'd you'll he's she's it's it'll it'd we're we've we'd we'll they're they've
    they'll that's there's here's what's who's let's where's how's
    a an the all every each any some no none nothing nobody everything anything something everyone everybody anyone
    anybody someone somebody both either neither another other others one two only just even also too not n't never
    always ever often usually normally generally mostly sometimes still yet already now then later soon again once
    today tonight tomorrow yesterday ago here there everywhere anywhere instead rather else anymore longer more most
    less least fewer much many few little enough very really so such quite pretty absolutely strictly
    am is are was were be been being do does did done doing don't doesn't didn't isn't aren't wasn't weren't have has
    had having haven't hasn't hadn't can can't could couldn't may might must mustn't shall should shouldn't will won't
    would wouldn't ought need needs needed needn't want wants wanted going go goes went gone get gets got getting
    let make makes made making keep keeps kept use uses used using take takes took taken taking put puts give gives
    like likes liked love loves loved hate hates hated prefer prefers preferred preference enjoy enjoys dislike
    know knows knew think thinks thought feel feels felt guess hope hopes wish wonder suppose assume believe mean
    say says said tell tells told ask asks asked hear heard read
    in on at by to from for of off with without within about after before until till during since over under above
    below between through than as if unless when whenever while where wherever whether because though although however
    and or but nor because which who whom whose what why how
    up down out away back into onto near per via except besides
    please thanks thank sorry okay yes no hi hello hey well oh wow haha lol hmm actually maybe perhaps probably
    hopefully honestly btw fyi remember remind reminder forget note notes rule rules decision decided decide chose
    choose chosen pick picked settled agreed final todo due deadline budget plan first next last new old same
    favorite allowed forbidden banned prohibited limits avoid stop skip leave stay stick switch switched changed change
    moved move moving started start renamed forward future otherwise else matter
    must-have ideally preferably possible possibly able sure best better worst worse good great nice happy glad
    """.split()
)
_VERBS = frozenset(
    """
    accept add address adjust adopt aim align allow alphabetize announce annotate anonymise anonymize answer append
    apply approve archive arrange ask assign assume attach attribute audit avoid back backup ban base bear beware bill
    block blur bold book bring bring budget build bump bundle buy cache call cancel cap capitalize capitalise cast
    categorize cc challenge change charge chase check choose cite clarify clean clear close collect color come comment
    commit communicate compare compile compress confirm connect consider consult contact contain continue convert cook
    copy correct count cover create credit crop cross-check cut debug decline deduct default defer define delay
    delegate delete deliver deploy describe design discard disclose discuss display document double double-check draft
    draw drink drive drop eat edit email embed emphasize enable encode encrypt end ensure enter escalate escape
    estimate exclude execute expect explain export expose express extend fetch file fill filter finish fix flag focus
    follow forget format forward freeze front-load gather generate get give go greet group guess handle hand hide
    highlight hire hold host hyphenate identify ignore implement import include increase indent index inform initial
    install integrate introduce invite invoice iterate join justify keep label launch lead learn leave limit link list
    load localize lock log look lose lowercase maintain make mark mask match measure meet mention merge migrate mind
    minimize mirror mock monitor move mute name negotiate note notify number obey offer omit open optimize order
    organize outsource overwrite pack paint paraphrase park pass paste pause pay phrase pick pin ping place plan plot
    plug post postpone practice prefer prefix prepare present preserve press pretend prevent print prioritize
    prioritise process produce promise proofread protect provide publish pull purchase push put query quit quote raise
    rank rate re-use read rebase rebuild recommend record recycle redact redo reduce refactor refer reference refrain
    refuse reject release rely remember remind remove rename render renew repeat rephrase replace reply report request
    require reserve reset resolve respect respond restart restore restrict retain retry return reuse reveal revert
    review revise revisit rewrite ring roll rotate round route run save say scale scan schedule search secure seek
    select sell send separate serve set settle shadow share ship shorten show sign simplify sit skip sleep slow smoke
    solve sort sound spare speak specify spell spend split squash stand start state stay step stick stop store store
    stream stretch structure style submit substitute suffix suggest summarise summarize support suppress swap switch
    sync tag take talk target teach tell test text thank think throw tidy time title toast touch track trade train
    translate travel treat trim trust try turn type underline undo unify unplug update upgrade upload uppercase use
    validate vary verify version visit wait wake walk warn wash watch water wear weigh welcome word work wrap write
    yell zip
    """.split()
)
_CLASSES: dict[str, str] = {}
"""English word -> its class (`VERB`, `NUM`, ...), which replaces the word in the form of a sentence."""
for _name, _members in {
    "DATE": """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays
    saturdays sundays january february march april june july august september october november december jan feb
    mar apr jun jul aug sept sep oct nov dec weekend weekends week weeks month months year years day days hour
    hours morning mornings afternoon afternoons evening evenings night nights noon midnight spring summer autumn
    winter quarter sprint eod am pm weekday weekdays lunchtime christmas easter minute minutes
    """,
    "KIN": """
    wife husband son daughter kid kids child children baby partner mother father mom mum dad parents sister
    brother boyfriend girlfriend family twins grandma grandpa niece nephew roommate flatmate boss manager
    colleague landlord doctor dog cat son's daughter's wife's husband's mom's dad's boss's kids' spouse fiance
    fiancee cousin uncle aunt mother-in-law supervisor lead team company office employer
    """,
    "HEALTH": """
    allergic allergy allergies intolerant intolerance vegan vegetarian pescatarian celiac coeliac diabetic
    diabetes asthma pregnant dyslexic dyslexia adhd autistic epilepsy colorblind blind deaf halal kosher gluten
    lactose dairy nuts peanuts peanut shellfish pork meat beef fish eggs seafood sugar salt alcohol wheat soy
    migraines hypertension insulin medication diet keto wheelchair insomnia arthritis
    """,
    "LANG": """
    english french german spanish italian dutch chinese mandarin japanese korean portuguese russian arabic
    polish turkish swedish hindi british american danish norwegian finnish greek hebrew czech ukrainian
    cantonese
    """,
    "STYLE": """
    short brief concise long detailed formal informal casual simple plain polite professional friendly terse
    bullet bullets markdown emoji emojis tone style format formatting paragraphs sentences words jargon answers
    answer replies reply responses response summary summaries tabs spaces json yaml comments docstrings headings
    tables lowercase uppercase
    """,
    "WORK": """
    code prod production staging branch main master commit commits pr prs tests test ci deploy deploys release
    releases database db schema api endpoint server repo logs config customer customers client clients invoice
    invoices contract report reports email emails meeting meetings ticket tickets docs price prices files data
    passwords keys users team calls call slides
    """,
}.items():
    _CLASSES.update(dict.fromkeys(_members.split(), _name))
_WHO_SAID = (
    r"boss|manager|mom|mum|mother|dad|father|parents?|sister|brother|grandma|grandpa|friends?|colleagues?|coworkers?"
    r"|teacher|coach|neighbou?r|professor|reviewer|he|she|they|people|someone|somebody|experts?|docs?|documentation"
    r"|article|book|guide|manual|tutorial|page|website|readme|policy|law|error|log|sign|president|author|speaker"
)
_ENGLISH_TALK = {
    "reported": re.compile(
        rf"\b(?:{_WHO_SAID})\s+(?:just\s+|always\s+|once\s+|also\s+|keeps?\s+|usually\s+|used\s+to\s+)?(?:said|says?"
        r"|saying|told|tells|thinks?|thought|believes?|asked|asks|suggests?|suggested|recommend(?:s|ed)?|insists?"
        r"|insisted|claims?|claimed|wrote|mentioned|warned|argues?|wants?\s+(?:me|us)|advised|states|requires?|taught"
        r"|shows|decided|made\s+me)\b|^according\s+to\b|\b(?:apparently|supposedly|as\s+the\s+saying\s+goes|they\s+say)\b"
        r"|^i\s+(?:heard|read|saw|learned|told|remember)\b|\bsays?\s+that\b|\bi\s+(?:hear|heard|learned)\b",
        re.IGNORECASE,
    ),
    "hypothetical": re.compile(
        r"^(?:if\s+(?:only|i\s+(?:were|was|had|could|ever|won)|it\s+were|we\s+\w+ed)|what\s+if|suppose|supposing"
        r"|imagine|let's\s+(?:say|assume)|hypothetically|i\s+wish|in\s+theory|maybe|perhaps|i\s+wonder"
        r"|i'm\s+(?:not\s+sure|thinking|considering|wondering|deciding|debating|guessing|assuming)|we\s+might"
        r"|i\s+might|it\s+(?:might|could)|for\s+example|i(?:'ve)?\s+always\s+(?:wanted|dream\w*|hoped|thought|wondered))\b|(?:'d|\bwould)\s+(?:never|always|have|be)\b",
        re.IGNORECASE,
    ),
    "question": re.compile(
        r"\?\s*$|^(?:who|why|how|which|is|are|am|do\s+(?:you|i|we|they)|does|did|was|were|has|had|should|shall|may|might"
        r"|isn't|aren't|doesn't|didn't|where(?!\s+\w+,|\s+possible)|what(?!\s+(?:i|we|matters)\b|'s\s+(?:left|missing"
        r"|still)))\b",
        re.IGNORECASE,
    ),
    "asks": re.compile(
        r"^(?:can|could|would|will)\s+(?:you|u)\b(?=.*\b(?:always|never|only|stop|avoid|remind|from\s+now\s+on|future"
        r"|forward|(?:every|each)\s+time|anymore|make\s+sure|stick|mind|short(?:er)?|brief|keep)\b)",
        re.IGNORECASE,
    ),
    "others": re.compile(
        r"^(?:he|she|they|people|someone|nobody|everyone)(?:'s|'ve|'re)?\b(?!\s+(?:must|has\s+to|needs?\s+to|may)\b)"
        r"|^my\s+(?:friend|neighbou?r|cousin|uncle|aunt|grandpa|grandma)s?\b",
        re.IGNORECASE,
    ),
    "past": re.compile(
        r"^(?:(?:yesterday|last\s+\w+|today|once|then|when\s+i\s+was|back\s+then|at\s+first)\b|(?:so\s+|and\s+)?(?:i|we)\s+"
        r"(?:just\s+|really\s+|finally\s+)?(?:was|were|had|went|saw|got|felt|found|spent|met|watched|tried|loved"
        r"|enjoyed|thought|knew|used\s+to|forgot|lost|missed|played|visited|talked|laughed|didn't|couldn't)\b)",
        re.IGNORECASE,
    ),
    "you": re.compile(r"^you(?:'re|'ve|'ll|'d)?\b", re.IGNORECASE),
    # A request for one thing now: it says "me" or points at a thing, and nothing in it says that it holds for good.
    "once": re.compile(
        r"^(?!.*\b(?:always|never|every|each|all|any|when|whenever|before|from\s+now|by|until|only|must|in\s+future)\b)"
        r"(?:(?:please|pls|just|now|then|ok(?:ay)?|and|so|quickly)\W+)*(?:(?:send|show|give|tell|resend|get|find|read|pull\s+up|print"
        r"|bring|draw|make|write|list)\s+(?:me|us)\b|(?:look\s+up|have\s+a\s+look|take\s+a\s+look|explain|translate|summari[sz]e"
        r"|compare|calculate|convert|search|generate|rewrite|sort|debug|run|check|fix|rename|draft|count)\b)",
        re.IGNORECASE,
    ),
    "progress": re.compile(
        r"^(?:still|currently|(?:so\s+)?(?:i'm|we're|i\s+am|we\s+are|i've\s+been|we've\s+been|been))\s+(?:(?:still|currently|just|also"
        r"|really|finally)\s+)*(?!going\s+(?:with|to)|using|staying|allergic)\w+ing\b",
        re.IGNORECASE,
    ),
    "happens": re.compile(
        r"^(?!\W*(?:if|when|whenever|once|unless)\b).*\b(?:keeps?\s+\w+ing|won't\s+(?:start|load|open|boot|charge|connect|turn)|dies|crash\w*|fail(?:s|ed)|stopped\s+working"
        r"|is\s+(?:broken|stuck|cracked|leaking|missing|down)|doesn't\s+(?:work|start|load|open))\b",
        re.IGNORECASE,
    ),
}
_CHINESE_TALK = {
    "reported": re.compile(
        "(?:他们?|她们?|人家|别人|有人|网上|老板|领导|妈|爸|父母|医生|大夫|老师|朋友|同事|专家|新闻|书上|书里|文章"
        "|文档|说明书|奶奶|爷爷|同学|室友|邻居|教练|教程|攻略|牌子上|作者|政策|法律|总统|报错|提示|README|哥|姐)"
        "[^,，。我你]{0,4}?(?:说|讲|告诉|认为|觉得|表示|建议|劝|让我|叫我|要我|希望我|写着|提到|规定|要求)"
        "|听说|据说|都说|传说|老话|常说|说过|才知道"
    ),
    "hypothetical": re.compile(
        "就好了|假如|假设|倘若|若是|要不是|本来|原本|差点|恨不得|好像|似乎|可能|也许|说不定|大概|估计|万一|早知道"
        "|难怪|怪不得|我在想|我在考虑|不知道|要是"
    ),
    "question": re.compile(
        "[?？]\\s*$|(?:吗|么|呢|没有)[。！!~～\\s]*$|怎么(?!都|也)(?<!不怎么)|怎样|为什么|为啥|多少(?!都)|是否|能不能"
        "|可不可以|要不要|会不会|是不是|有没有|该不该|好不好|如何|难道|几点了|多久|来着"
    ),
    "others": re.compile(
        "^(?:他|她|它|他们|她们|人家|这部|那部|这首|这个演员|导演|主演|那家|这家)"
    ),
    "past": re.compile(
        "^(?:昨天|昨晚|上周|上个?月|去年|刚才?|小时候|以前|有次|当时|那时)|过了?[。！!]?$"
    ),
    "once": re.compile(
        "^(?!.*(?:以后|今后|每|都|一律|统一|必须|务必|一定|不要|别|提醒|记得|只|凡|之前先|前先|默认|尽量|的时候|改[成为到用在]|换[成到为]|[设定调]为))"
        "(?:.*(?:一下|一遍|一次|看看|一份|一版|几[个条]|[一二两三四五]个|呗)(?:[吧啊呀哈]|[。！!，,]|$)|(?:请|麻烦|再|那|你|快)*(?:帮我|给我|替我|把)"
        "|(?:查|翻译|解释|总结|推荐|列|讲|算|写|画|导出|跑|看)(?:一|下|个|出|讲|看|写))"
    ),
    "happens": re.compile(
        "老是|总是.{1,8}(?:退|错|卡|崩|断|掉)|(?:坏|裂|漏水|卡住|死机|闪退|报错|崩|断|掉线|黑屏|丢)了|没反应|打不开|进不去|连不上|没用[。！!]?$"
        "|(?:我|我们)?(?:刚刚?|刚才|已经|昨天|今天|上周).{0,8}[拍寄传发买付签收看试装打交填领取选]|我.{0,3}[拍寄传试装填][了过]"
    ),
    "asks": re.compile(
        "(?:能不能|可不可以|可以|麻烦|请).*(?:以后|今后|每次|都|一直|尽量|不要|别|提醒我|叫我)"
    ),
}


def is_passing(text: str, *, chinese: bool) -> bool:
    """Return True if a sentence has the form of a request for one thing now, of a mishap, or of news about the user."""
    talk = _CHINESE_TALK if chinese else _ENGLISH_TALK
    if talk["once"].search(text) or talk["happens"].search(text):
        return True
    return not chinese and "!" in text and talk["progress"].search(text) is not None


def _tokens(text: str) -> list[str]:
    found: list[str] = _TOKEN.findall(text)
    return found


def _spelled(token: str) -> str:
    word = token.lower()
    return _SPELLINGS.get(word, word)


def has_known_word(text: str) -> bool:
    """Return True if a text has at least one English word that the classifier's word lists contain."""
    return any(
        word in _SMALL or word in _VERBS or word in _CLASSES
        for word in map(_spelled, _tokens(text))
    )


def _form(word: str, original: str) -> str:
    """Return the placeholder that stands for a word in the form of a sentence: `VERB`, `NUM`, `NAME`, `X` and so on.

    Function words stand for themselves. `word` is in standard spelling; `original`, as the user wrote it, shows
    capitals.
    """
    if word in _SMALL:
        return word
    if word in _CLASSES:
        return _CLASSES[word]
    if word in _VERBS:
        return "VERB"
    if word[0].isdigit():
        return "NUM"
    if not word[0].isalpha():
        return "Q" if word[0] == "\x1a" else word
    if original[:1].isupper():
        return "NAME"
    for ending, name in (("ing", "ING"), ("ed", "ED"), ("ly", "LY")):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return name
    return "X"


def english_features(text: str) -> Iterator[str]:
    """Yield the features of an English sentence, by which the classifier scores it; some occur more than once."""
    originals = _tokens(text)
    words = [_spelled(token) for token in originals]
    form: list[str] = []
    for number, word in enumerate(words):
        # The first word of a sentence is always capitalised, so its capital does not mark a name.
        name = _form(word, originals[number] if number else word)
        if name != "X" or not form or form[-1] != "X":
            form.append(name)
    while form and form[-1] in {".", "!", ")", ","}:
        form.pop()
    yield from (f"w {word}" for word in words if word[0].isalpha())
    yield from (f"b {first} {second}" for first, second in pairwise(words))
    yield from _form_features(form)
    yield from _end_features(text, len(words))
    yield from (f"talk {name}" for name, pattern in _ENGLISH_TALK.items() if pattern.search(text))


def _form_features(form: Sequence[str]) -> Iterator[str]:
    for size in (2, 3, 4):
        yield f"^{' '.join(form[:size])}"
        for start in range(len(form) - size + 1):
            if size < 4:
                yield f"f {' '.join(form[start : start + size])}"
    yield f"^{form[0] if form else ''}"
    yield from {f"h {name}" for name in form if name.isupper()}


def _end_features(text: str, length: int) -> Iterator[str]:
    yield f"n {min(length // 4, 6)}"
    if text[-1:] in "!?！？":
        yield f"e {'!' if text[-1:] in '!！' else '?'}"
    if "!" in text or "！" in text:
        yield "!"


_ZH_SMALL = sorted(
    """
    从现在起 从现在开始 从今天起 以后 今后 往后 之后 之前 以前 每次 每天 每周 每月 每个 所有 任何 一律 统一
    全部 都 总是 一直 永远 从不 从来 不要 不能 不许 不准 不得 不可以 不可 不用 不必 不想 不再 不是 不会 不太
    不怎么 不喜欢 不吃 不喝 禁止 严禁 避免 切勿 请勿 千万 绝对 绝不 别 别忘 别再 必须 务必 一定 应该 应当 需要
    要 得 只 只能 只要 只用 最多 至少 不超过 超过 控制 以内 优先 尽量 最好 默认 先 再 然后 记得 记住 提醒 待办
    还没 还要 还得 还差 还缺 还欠 还有 还剩 还是 还 欠 催 该 快 到期 截止 预算 决定 定了 定在 就定 说定 选了 选
    采用 改成 改为 改到 改用 换成 换 推迟 提前 延到 挪到 取消 算了 不对 我 我们 咱们 咱 我家 我的 我们家 本人
    大家 你 您 你们 他 她 它 他们 她们 谁 这 那 这个 那个 这些 的 了 吗 呢 吧 啊 呀 嘛 着 过 是 在 有 没 没有
    用 把 被 给 跟 和 与 对 为 到 去 来 会 能 可以 可能 也许 大概 好像 听说 据说 觉得 感觉 认为 知道 喜欢 爱
    讨厌 习惯 更 比较 最 偏爱 偏好 倾向 宁愿 宁可 受不了 很 太 真 好 非常 特别 挺 叫 姓 住 搬 家 老婆 老公 儿子
    女儿 孩子 妈 爸 老板 同事 领导 过敏 怀孕 上班 工作 学生 岁 号 点 周一 周二 周三 周四 周五 周六 周日 周末
    星期 月 年 天 今天 明天 昨天 后天 下周 上周 现在 目前 最近 已经 刚 终于 什么 怎么 为什么 哪 多少 几 吗 如果
    要是 假如 假设 但是 不过 因为 所以 而且 请 麻烦 帮我 一下 谢谢 哈哈 说 告诉 问 让 写 发 做 买 订 交 修 回复
    回答 不 没 也 就 才 又 越 比 完 好了 掉 搞定 试试 看看 想 打算 计划 准备 负责 放 走 上线 发布 部署 会议
    报告 代码 客户 数据 文件 邮件 接口 测试 合同
    """.split(),
    key=len,
    reverse=True,
)
_ZH_PART = late_pattern(
    "|".join(map(re.escape, _ZH_SMALL))
    + r"|[A-Za-z][\w.+#-]*|\d[\d.,:/%-]*|[〇零一二两三四五六七八九十百千万半]+|\s+|[\x1a]+|[^\w\s]|\w"
)
_ZH_NUMBER = late_pattern("[〇零一二两三四五六七八九十百千万半]+")
_LATIN = late_pattern(r"[A-Za-z][\w.+#-]*")
_DIGITS = late_pattern(r"\d[\d.,:/%-]*")
_ZH_KNOWN = frozenset(_ZH_SMALL)


def chinese_features(text: str) -> Iterator[str]:
    """Yield the features of a Chinese sentence, by which the classifier scores it; some occur more than once."""
    text = text.strip().rstrip("。.!！~～")
    plain = _DIGITS.sub("0", _LATIN.sub("A", text))
    plain = "".join(plain.split())
    for size in (1, 2, 3):
        for start in range(len(plain) - size + 1):
            yield f"c {plain[start : start + size]}"
    for size in (1, 2, 3, 4):
        yield f"<{plain[:size]}"
        yield f"{plain[-size:]}>"
    form: list[str] = []
    for part in _ZH_PART.findall(text):
        if part in _ZH_KNOWN:
            name = part
        elif part[0].isascii() and part[0].isalpha():
            name = "A"
        elif part[0].isdigit() or _ZH_NUMBER.fullmatch(part):
            name = "N"
        elif part.isspace():
            continue
        else:
            name = part if not part[0].isalpha() else "X"
        if name != "X" or not form or form[-1] != "X":
            form.append(name)
    yield from _form_features(form)
    yield from _end_features(text, len(plain) // 2)
    yield from (f"talk {name}" for name, pattern in _CHINESE_TALK.items() if pattern.search(text))
