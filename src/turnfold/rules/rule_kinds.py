"""Gives the kind of a rule where its form or the heading of its list makes the kind certain."""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import Language, kind_of
from turnfold.rules.own_words import OwnSentence
from turnfold.rules.standing_rule import LONGEST_RULE, RuleKind

__all__ = ("FORBIDS", "FORBIDS_OTHERWISE", "kind_by_form", "listed_kind")


FORBIDS = late_pattern(
    "(?:请|千万|绝对|一定|都|以后|今后)*(?:不要|别(?!忘)|不得|不许|不准|禁止|严禁)"
    "|[^,，。我你您]{1,9}\\d[^,，。我你您]{0,6}(?:不能|不要|不得|不许|不准|禁止|严禁)(?!忘|超)"
)
"""Matches a sentence that forbids something, at once or for a thing with a number: 订单4711不能退款."""
FORBIDS_OTHERWISE = late_pattern(
    r"\b(?:off|away|out|alone|secret|private|confidential|only|leave|hands|ban|block|refuse|reject|untouched)\b|保密|只|仅|防止|以外",
    re.IGNORECASE,
)
"""Matches a prohibition without a negative word: "hands off the cable"."""
_KIND_FORMS: dict[Language, tuple[tuple[RuleKind, re.Pattern[str]], ...]] = {
    "en": (
        (
            "task",
            re.compile(
                r"^\W*(?:(?:and|also|please|so|but)\s+)*remind\s+(?:me|us)\b(?!.*\b(?:every|always|each)\b)|^\W*to-?do\s*:",
                re.IGNORECASE,
            ),
        ),
        (
            "fact",
            re.compile(
                r"^\W*(?:(?:and|also|but|hi|so|by\s+the\s+way)\W+)*(?:(?:i|we|he|she|they|my\s+[\w-]+"
                r"|our\s+[\w-]+|[A-Z]\w+)(?:'m|'s|'re|\s+am|\s+is|\s+are|\s+has|\s+have|\s+can't\s+(?:eat|have))\s+)"
                r"(?:(?:very|severely|also|both|a|an|got|type\s+\d|highly)\s+)*(?:allergic|vegetarian|vegan"
                r"|diabetic|diabetes|pregnant|co?eliac|asthma\w*|epilep\w+|gluten|lactose|shellfish"
                r"|high\s+blood\s+pressure)\b"
            ),
        ),
        (
            "fact",
            re.compile(
                r"^\W*(?:my|the|our)\s+(?:booking|order|customer|member\w*|reference|contract|ticket|confirmation)\s+(?:number|reference|code|id|no\.?)\s+is\b",
                re.IGNORECASE,
            ),
        ),
    ),
    "zh": (
        (
            "prohibition",
            re.compile(
                "^[^,，。]{0,12}?(?:不要|不准|不许|别|禁止|不得|不能)(?:再)?(?:超过|高于|多于)"
            ),
        ),
        (
            "task",
            re.compile(
                "^待办[:：]|^(?:对了|另外|还有|也|再|请|记得|麻烦|到时候|还要)*[,，]?提醒我(?!.*(?:每|都|别))|(?:告诉我"
                "|叫我|通知我|跟我说)(?:一声)?[。！!]?$(?<!以后)"
            ),
        ),
        (
            "fact",
            re.compile(
                "^(?:对了|另外|那个|还有|其实|因为)?[,，]?(?:我|咱|他|她|孩子|宝宝|老[公婆人]|爱人|儿子|女儿"
                "|[一两三四五]个|有)[^,，。不别]{0,8}?"
                "(?:(?:过敏|糖尿病|高血[压脂]|血压高|血糖高|痛风|心脏病|心脏不好|癫痫|哮喘|中风|关节炎|肾病"
                "|肝病|胃病|抑郁|自闭症|多动症|色盲|晕车|恐高|怀孕|孕妇|穆斯林|回族|回民|吃素|吃清真|轮椅|腰椎间盘突出)"
                "|(?:乳糖|麸质|酒精)不耐受?|(?:膝盖|腰|腿脚|眼睛|耳朵|胃|肠胃|听力|视力|心脏|身体)不[好便行])"
                "|^[^,，。我你不别]{1,6}(?:我|他|她)(?:用不了|吃不了|不能用|不能吃)|^(?!.*(?:不"
                "|别))(?:(?:我的?|这次的?|那个)?(?:预订|预定|订单|会员|客户|取件|合同|确认|参考|保单|运单"
                "|病历)(?:号码?|编号|码)|身份证号?|护照号?|税号)[是为:： ]*[A-Za-z]{0,4}[- ]?\\d"
                "|^(?:我们?)?[^,，。]{1,6}(?:就|只有)我(?:一个|自己|一个人)(?:人)?(?:[,，。]|$)"
            ),
        ),
        (
            "decision",
            re.compile("^[^不别勿每]*(?:[改挪换调推]|推迟|提前|延期)(?:到|至|成|为)[^不别勿每]*$"),
        ),
    ),
}
"""Patterns of sentences whose kind of rule is certain: a reminder, health, an id, another date."""
_HEADINGS: tuple[tuple[RuleKind, re.Pattern[str]], ...] = (
    ("prohibition", re.compile("don'?ts|restriction|禁忌|忌口", re.IGNORECASE)),
    (
        "rule",
        re.compile(
            "rule|constraint|requirement|guideline|convention|instruction|规则|要求|原则|规范|约定|注意|限制",
            re.IGNORECASE,
        ),
    ),
    ("decision", re.compile("decision|decided|agreed|决定", re.IGNORECASE)),
    ("preference", re.compile("preference|偏好", re.IGNORECASE)),
    ("task", re.compile("to-?do|task|remind|待办|任务", re.IGNORECASE)),
)


def kind_by_form(text: str, language: Language) -> RuleKind:
    """Return the kind of a rule: by its form where that is certain, else the most likely one."""
    for kind, pattern in _KIND_FORMS[language]:
        if pattern.search(text):
            return kind
    return kind_of(text, language)


def listed_kind(sentence: OwnSentence) -> RuleKind | None:
    """Return the kind of rule of a list item by the heading of its list ("Rules:").

    Returns None if the heading names no kind.
    """
    heading, text = sentence.heading, sentence.text
    if not heading or not 4 <= len(text) <= LONGEST_RULE or text == heading or text[-1] in ":：?？":
        return None
    return next((kind for kind, pattern in _HEADINGS if pattern.search(heading)), None)
