"""Read English clauses: which of them lay down a rule, prohibition, decision, preference, task or fact.

Most sentences with "never", "must" or "don't" are no rules ("never heard of it", "that must be nice", "don't
worry"), and many rules have none of these words ("Use tabs, not spaces."). So a clause is read by its form: where
the verb stands, who the subject is, what the verb acts on. What leads up to it ("by the way", "from now on", "could
you please") is read first.
"""

from __future__ import annotations

import re

from turnfold.rules.english_orders import ORDERS, STANDING_ONLY
from turnfold.rules.english_statements import STATEMENTS
from turnfold.rules.patterns import labels
from turnfold.rules.record import Reading, RuleKind

__all__ = ("english_change", "is_english_talk", "may_ask_rule", "read_english", "split_english")


_I = re.IGNORECASE | re.VERBOSE
_LEAD = re.compile(
    r"""(?:(?:after\s+(?:some|a|much|long|the|our|all)\s+[\w ]{2,30}?,?(?=\s+(?:we|i|let's)\b)|for\s+context|
        and|but|so|also|oh|ok(?:ay)?|alright|right|well|hey|hi|hello|yes|yeah|yep|nope|sure
         |great|good|perfect|cool|thanks|thank\s+you
      |(?:hi|hey|hello)\s+(?:there|all|everyone|team)|no(?=,)|pls|then|btw|by\s+the\s+way|fyi
         |anyway|first(?:ly)?|second(?:ly)?
      |third(?:ly)?|finally|lastly|next(?=,)|plus|one\s+(?:more|last|other)\s+thing
         |another\s+thing|(?:quick|side|small)\s+note
      |important(?:ly)?|for\s+the\s+record|just\s+so\s+you\s+know|so\s+you\s+know|
         (?:just\s+a\s+)?heads[\s-]up|(?:let\s+me\s+|to\s+)(?:be\s+(?:very\s+
         |perfectly\s+)?clear|stress\s+this|repeat)
      |to\s+clarify|again(?=,)|as\s+(?:a\s+reminder|discussed|agreed|i\s+said|mentioned|before)
         |i\s+(?:think|guess|mean|repeat)
      |for\s+(?:this|the|our|my)\s+\w+(?:\s+\w+)?(?=,)|in\s+(?:this|the|our|my|your)\s+\w+
         (?:\s+\w+)?(?=,)|ps|p\.s\.|honestly|basically
      |since\s+you\s+asked|because\s+of\s+that|because|since|additionally|furthermore|moreover
         |therefore|hence|otherwise
      |to\s+(?:start|begin)(?:\s+with)?|before\s+(?:we|i)\s+(?:start|begin|forget)|while\s+i\s+remember
      |(?:a\s+)?(?:quick\s+)?(?:question|thing)(?=:)|guys|folks|team|look|listen|see(?=,)
         |and\s+yes|(?-i:[A-Z][a-z]+)(?=,\s+(?:please|i|we|my|the|don't|never|always)\b)
    )(?:\s*[,:;.!—–-]+\s*|\s+|$))+""",
    _I,
)
_POLITE = re.compile(
    r"(?:(?:please|kindly|just|simply|really|also|only(?=\s+(?:please|ever))|do(?=\s+(?!not\b|n't)"
    r"(?:please|always|remember|keep|use))"
    r"|(?:could|can|would|will)\s+you\s+(?:please\s+)?(?:mind\s+)?|i(?:'d| would)\s+(?:like|appreciate"
    r"|love)\s+(?:it\s+if\s+you\s+(?:could\s+)?|for\s+you\s+to\s+|you\s+to\s+)"
    r"|i\s+(?:want|need|expect|would\s+like|'d\s+like|ask)\s+you\s+to\s+|i'd\s+like\s+you\s+to\s+"
    r"|it\s+would\s+be\s+(?:great|nice|good)\s+if\s+you\s+(?:could\s+)?"
    r"|you\s+(?:should|must|have\s+to|need\s+to|are\s+to|shall|will|ought\s+to|'re\s+to)(?=\s+"
    r"(?:always|never|not|only|be|use|reply|answer|respond|write|keep|ask|call|avoid|include|speak"
    r"|confirm|check|refer|stick|follow|address|treat|format|remember|cite|explain|stop|run|assume"
    r"|stay))"
    r"|(?:always\s+)?make\s+sure(?:\s+(?:that\s+)?(?:you|to|we|that))?|(?:it's|it\s+is)\s+(?:very\s+"
    r"|really\s+)?(?:important|essential|crucial|critical|vital|imperative)\s+(?:that\s+(?:you\s+)?"
    r"|you\s+)|i\s+insist\s+that\s+(?:you\s+)?|be\s+sure\s+to|ensure(?:\s+that)?(?:\s+you)?|try\s+to"
    r"|remember\s+to|we\s+should|let\s+us|i\s+ask\s+that\s+you)\s*,?\s*)+",
    re.IGNORECASE,
)
_STANDING_LEAD = re.compile(
    r"""(?:from\s+(?:now|here|this\s+point|today)\s+on(?:wards?)?|from\s+today|going\s+forward|moving\s+forward
         |from\s+here\s+on(?:\s+out)?|henceforth|hereafter
      |in\s+(?:the\s+)?future|in\s+general|as\s+a\s+(?:general\s+)?rule(?:\s+of\s+thumb)?
         |by\s+default|as\s+of\s+(?:now|today)|starting\s+(?:now|today|tomorrow|next\s+\w+)
      |at\s+all\s+times|no\s+matter\s+what|under\s+no\s+circumstances?|until\s+further\s+notice
         |for\s+the\s+rest\s+of\s+(?:this|the|our)\s+\w+
      |for\s+(?:all|every|each|any|future)\s+[^,]{2,40}|in\s+(?:all|every|each|any)\s+[^,]{2,40}
         |(?:each|every)\s+(?:single\s+)?time(?=,)|(?:each\s+time|every\s+time|whenever)
         (?!\s+i\s+(?:come|hear|look|step|go\s+back|feel|was|get\b
         |see|think|am|watch|play|listen))[^,]{2,80}
      |when(?:ever)?\s+(?:you|i(?!\s+(?:come|hear|look|step|go|feel|was|get|see|think|need\s+a)
         |'m\s+(?:stressed|overloaded|sad|down|tired|feeling|bored))|we|writing|replying|answering
         |talking|coding|in\s+doubt|asked|something|someone|a|an|the|it)\b[^,]{0,80}
      |if\s+(?!i\s+(?:were|was|had|could)\b|only\b|it\s+were)[^,]{3,100}|once\s+[^,]{3,80}
         |unless\s+[^,]{3,80}|before\s+(?:you\s+\w+|\w+ing|any|each|every)[^,]{0,60}|after\s+(?:each
         |every)[^,]{0,60}|during\s+[^,]{2,40}
      |outside\s+[^,]{2,40}|on\s+(?:all|every|each)\s+[^,]{2,30})(?:\s*[,:;—–]\s*(?:then\s+)?
         |\s+(?=(?:please|always|never|don't|do\s+not|use|reply|answer|respond|write|keep|call|i\b|we\b
         |you\b|all\b|every\b|only\b|no\b|the\b)))""",
    _I,
)
_CHANGE = re.compile(
    r"""(?:^|[\s,;:—–-])(?:actually|on\s+second\s+thoughts?|wait|correction|change\s+of\s+plans?
         |scratch\s+that|instead|i(?:'ve|\s+have)?\s+changed\s+my\s+mind|new\s+plan|sorry|update
      |rather|is\s+now|are\s+now|now\s+(?:is|on|at|in|use|we)|no\s+longer|not\s+\w+\s+any\s?more
         |switch(?:ed|ing)?\s+(?:from|to|over)|chang(?:e|ed|ing)\s+(?:that|it|this|the|my|our|from|to)
         |moved?\s+(?:it|that|to|from|the)
      |postponed|rescheduled|pushed\s+(?:back|to)|brought\s+forward|make\s+(?:it|that)
         |after\s+all|revis(?:e|ed)|replac(?:e|ed|ing)|swap|as\s+of\s+(?:now|today)|from\s+now\s+on
         |(?:scratch|forget|drop|ditch)\s+[^,]{2,40}(?=,)|forget\s+(?:what|about|the|that)
      |not\s+[^,.]{2,60},\s*(?:but|use|rather)|instead\s+of|it's\s+now|new\s+(?:deadline|budget
         |date|plan|time|name|address|rule|decision|target|limit|price))\b""",
    _I,
)
_OLD = re.compile(
    r"""(?:instead\s+of|rather\s+than|no\s+longer|in\s+place\s+of|switch(?:ed|ing)?\s+(?:over\s+)?from
         |chang(?:e|ed|ing)\s+(?:the\s+\w+\s+|it\s+|that\s+)?from|moved?\s+(?:it\s+)?from|replac(?:e|ed
         |ing)|swap(?:ped|ping)?(?:\s+out)?|and\s+not
      |forget\s+(?:about\s+|what\s+i\s+said\s+(?:about|on)\s+|the\s+|my\s+)|drop(?:ping)?
         |scratch|ditch|forget|(?:,|\bnot)\s+not|(?:^|,\s*|actually\s+|\bno,\s+)not|don't\s+use
         |stop\s+using)\s+(?P<old>[^,.;:!?]{2,60}?)
      (?=\s+(?:with|to|by|and\s+use|any\s?more|for|use|but|let's|we)\b|[,.;:!?]|$)""",
    _I,
)
_NOT_OWN = re.compile(
    r"""^(?!if\b|when|once\b|unless\b|before\b|after\b)(?:(?:my|our|the|his|her|their|your|a|an|some
         |one\s+of\s+\w+)\s+)?(?:[\w'-]+\s+){0,2}?(?:boss
         |manager|mom|mum|mother|dad|father|parents?|sister|brother|wife|husband|partner|friends?
         |colleagues?|coworkers?|teacher|doctor|coach|client|customer
      |lawyer|neighbou?r|professor|therapist|he|she|they|people|everyone|everybody|someone
         |somebody|experts?|docs?|documentation|article|book|guide|email|page|website|readme|policy|error
         |log|(?-i:[A-Z][a-z]+))\s+
      (?:just\s+|always\s+|once\s+|also\s+|keeps?\s+|usually\s+|really\s+)?(?:said|says?|saying
         |told|tells|thinks?|thought|believes?|asked|asks|suggests?|suggested|recommend(?:s|ed)?|insists?
         |insisted|claims?|claimed|wrote|writes|mentioned|warned|argues?|reckons|wants\s+(?:me|us)|wanted
         |advised|advises|states|reads)\b
      |^according\s+to\b|^i\s+(?:told|asked|warned|advised)\s+(?:him|her|them|my|the|everyone
         |people)\b|^(?:they|he|she)\s+(?:must|should|never|always|can't|don't|doesn't|have\s+to|has\s+to
         |need)|^i\s+(?:heard|read|saw|learned)\s+that""",
    _I,
)
_QUESTION = re.compile(
    r"^(?:who|what|where|why|how|which|whose|is|are|am|do(?!\s+not|n't|\s+always|\s+please)|does|did"
    r"|was|were|has|have(?!\s+(?:the|all|every))|had|should|shall|may|might|could|can|would|will|won't"
    r"|don't\s+you|isn't|aren't|doesn't|didn't)\b(?!\s+matters)",
    re.IGNORECASE,
)
_ASKED_RULE = re.compile(
    r"^(?:can|could|would|will)\s+(?:you|we)\s+(?:please\s+|maybe\s+|try\s+to\s+)*(?:(?:always|never"
    r"|stop|keep|avoid|only|not"
    r"|refrain|call\s+me|address\s+me|remind|remember\s+(?:that|my|to))\b|\w+\b(?=.*\b(?:always|never"
    r"|only|from\s+now\s+on"
    r"|in\s+(?:the\s+)?future|going\s+forward|every\s+time|each\s+time|anymore|shorter|brief)\b))"
    r"|^would\s+you\s+mind\s+(?:not|using|keeping|calling)",
    re.IGNORECASE,
)
_HYPOTHETICAL = re.compile(
    r"""^(?:explain|tell\s+me|describe|show\s+me)\s+(?:why|how|what|when|whether|if)\b|^(?:if\s+(?:only
         |i\s+(?:were|was|had|could|ever)|it\s+were)|what\s+if|suppose|supposing|imagine|let's\s+say
         |say\s+i|hypothetically|i\s+wish|in\s+theory|maybe|perhaps|i\s+wonder|i'm\s+(?:not\s+sure
         |thinking|considering|wondering)|we\s+(?:might|could)|i\s+(?:might|could)|it\s+(?:might|could)
         |would\s+it|for\s+example|e\.g\.)\b
      |\b(?:i|we|you|he|she|they|it)(?:'d|\s+would)\s+(?:never|always|have|be)\b|\bif\s+you\s+
         (?:ever|get\s+(?:a|the)\s+chance|want|like|can|wanna|feel\s+like|love|haven't)\b|\bwhen\s+you\s+
         (?:get\s+a\s+chance|have\s+(?:a\s+)?(?:time|moment|minute))\b""",
    _I,
)
_TALK = re.compile(
    r"""\b(?:never\s+(?:mind(?!\s+(?:about|the|what))|give\s+up|heard|knew|know|thought|felt|seen|been
         |had|stop(?:s|ped)?\s+(?:learning|believing|dreaming|growing|amazing)|gets?\s+old|fails?|ceases?
         |too\s+late|lose\s+(?:hope|sight)|say\s+never|imagined|expected|ever\s+give)
      |don't\s+(?:worry|mention\s+it|give\s+up|get\s+me\s+wrong|be\s+(?:so|too|afraid|shy|hard
         |sad|silly|sorry|discouraged|scared|nervous|upset)|hesitate|you\b|sweat|stop\s+(?:believing
         |dreaming|now)|lose\s+(?:hope|heart)|let\s+(?:it|that|this|anything|anyone|them|the\s+\w+|fear
         |setbacks|others|go)\s+(?:get|bring|stop|discourage|hold|ruin|bother|fool|define)
         |beat\s+yourself|underestimate\s+yourself|be\s+hard|quit\s+on|doubt\s+yourself|know|think|see
         |remember|understand|care|mind|have|believe|feel|want\s+to\s+(?:miss|lose|forget|bother|sound
         |rush))
      |memories\s+can't|can't\s+be\s+(?:captured|beat|topped|described|helped)|no\s+prob\b
         |can't\s+(?:wait|believe|imagine|help|complain|thank|stress\s+enough|agree\s+more|go\s+wrong|say
         |tell|remember|decide|stop\s+\w+ing|get\s+enough)|cannot\s+wait|must\s+(?:have|'ve|of|be\s+
         (?:nice|great|fun|hard|tough|so|very|really|quite|such|amazing|awesome|exciting|a|an|the|tired
         |proud|feeling|kidding|joking|wonderful|difficult|beautiful|nerve|\w+ing)|feel|admit|say|confess
         |see|watch|mean|know|love|miss|look|take\s+a\s+lot)|must['-](?:ve|see|have|read|try|do|watch)|
         (?:a|the|real|total)\s+must\b
      |keep\s+(?:going|it\s+up|up|at\s+it|on\b|pushing|me\s+(?:posted|updated|going)|in\s+touch
         |fighting|shining|smiling|spreading|doing|chasing|being|growing|dreaming|inspiring|learning
         |exploring|creating|believing|writing|making|working|enjoying|trying|moving|striving|your\s+
         (?:head|chin|spirits)|the\s+(?:faith|good|great|momentum|fire|positiv)|those|that\s+(?:spirit
         |energy|positiv)|having|rocking|crushing|supporting|sharing|following|us\s+(?:posted|updated
         |going))
      |take\s+care|good\s+luck|(?<![\w] )have\s+(?:a\s+(?:great|nice|good|wonderful|lovely|safe
         |blast|fantastic)|fun)|way\s+to\s+go|hang\s+in|stay\s+(?:strong
         |positive|true|safe|tuned|motivated|focused|in\s+touch|connected)|enjoy\b|let\s+me\s+know|be\s+
         (?:yourself|proud|kind\s+to|happy|brave|patient\s+with\s+yourself)|take\s+(?:your\s+time|breaks?
         |it\s+easy|time\s+(?:for|to))|let's\s+(?:catch\s+up|keep\s+(?:in\s+touch|it|going|pushing|each
         |supporting|spreading|being|on\b|the)|do\s+(?:it|this|that)\b|go\b(?!\s+with)|get\b|make\s+(?:a
         |some|this|it\s+(?:happen|a|count)|the\s+most|our|every)|hope|rock|spread|chat|talk|hang|plan\s+
         (?:something|a)|stay|have|create|see|celebrate|start|connect|support)
      |make\s+sure\s+(?:to\s+|you\s+)?(?:take\s+care|have\s+fun|enjoy|get\s+(?:some\s+)?rest
         |take\s+(?:time|breaks?|some)|check\s+it|try|watch|savor|relax|share|look\s+after)
         |remember\s+to\s+(?:find|focus|listen|stay|prepare\s+emotionally|rest|love|live|be|cherish|keep
         |appreciate|take\s+(?:care|breaks?|time|it)|enjoy|have\s+fun|be\s+kind|breathe|relax)
         |don't\s+forget\s+to\s+(?:prepare\s+emotionally|rest|stay|live|keep|appreciate|cherish|take\s+
         (?:care|breaks?|time|it|some)|enjoy|have\s+fun|be|breathe|relax|smile|celebrate|check\s+it)
         |no\s+(?:worries|problem|way|idea|doubt|wonder|thanks|pressure|rush|kidding|big\s+deal
         |offen[sc]e|clue|luck|biggie|one\s+(?:knows|else|cares|is)|need\s+to\s+(?:thank|worry
         |apologi[sz]e|rush)|matter\b|pain|shame|regrets|joke|surprise|hard\s+feelings|chance|longer\s+
         (?:feel|alone|afraid)|such|better|words)
      |don't\s+(?:ever\s+)?(?:quit|limit\s+yourself|be\s+daunted|rush\b)|your\s+comfort\s+zone
         |keep\s+you\s+posted|keep\s+(?:staying|taking)|stay\s+(?:upbeat|patient)|lesson\s+learned
         |never\s+in\s+my\s+life|for\s+(?:the\s+)?first\s+time|haha|lol)\b""",
    _I,
)
_LABELED = labels(
    rule="rule constraint requirement policy guideline convention style instruction",
    prohibition="restriction",
    decision="decision decided agreed final",
    preference="preference",
    task="todo to-do task reminder",
    fact="fact remember",
)
_LABEL = re.compile(
    r"(?:new|my|our|hard|house|ground|general|coding|project|team|final|one|another|\W)*\s*(rules?"
    r"|constraints?|requirements?|polic(?:y|ies)|guidelines?|conventions?|style|instructions?"
    r"|restrictions?|decisions?|decided|agreed|final|preferences?|to-?dos?|tasks?|reminders?|facts?"
    r"|remember)"
    r"(?:\s+(?:decision|answer|call|choice|of\s+the\s+house|for\s+(?:this|the|all)\s+[\w ]{2,30}"
    r"|to\s+follow|#?\d+))?\s*[:：]\s*",
    re.IGNORECASE,
)

_WORD = re.compile(r"[a-z][a-z'-]*")
_SPLIT = re.compile(
    r"""(?:\s*;\s*|\s*,\s*(?:and|but|so|also|plus|or)?\s*|\s+(?:and|but|so|because|—|–|-)\s+)(?=
         (?:please|(?<=[,;]\s)(?:always|never|don't|do\s+not|use|reply|no|keep)|(?<=[,;]\sand\s)(?:always
         |never|don't|do\s+not|use|reply|no|keep)|call\s+me|i'm|i\s+am|i\s+live|i\s+work|i\s+have
         |i\s+prefer|i\s+hate|i\s+don't|i'd|i've|i\s+want|i\s+need|my|our|we're|we'll|we|let's|the|all
         |every|remind\s+me\s+to|it|instead|switch|forget|you(?!\s+know))\b)""",
    _I,
)


def split_english(text: str) -> list[tuple[int, int]]:
    """Return the spans of the clauses that could each be a rule of their own."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _SPLIT.finditer(text):
        if match.start() > start:
            spans.append((start, match.start()))
            start = match.end()
    spans.append((start, len(text)))
    return spans


def may_ask_rule(text: str) -> bool:
    """Return True if a question may be a polite way of laying something down: "Could you keep answers short?"."""
    return (
        _ASKED_RULE.search(_LEAD.sub("", text, count=1) if _LEAD.match(text) else text) is not None
    )


def is_english_talk(text: str) -> bool:
    """Return True if a sentence cannot lay down anything: a question, a supposition, what others said, small talk."""
    if _NOT_OWN.search(text) or _HYPOTHETICAL.search(text):
        return True
    bare = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    if _NOT_OWN.search(bare):
        return True
    asked = text.endswith("?") or _QUESTION.match(bare) is not None
    return asked and not _ASKED_RULE.search(bare)


def read_english(clause: str) -> Reading | None:
    """Return what a clause lays down, or None."""
    first = _FIRST.match(clause)
    if first is None:
        return None
    leads = first[0].lower() in _LEAD_WORDS or _NAMED.match(clause) is not None
    lead = _LEAD.match(clause) if leads else None
    begin = lead.end() if lead else 0
    at, standing = _after_leads(clause, begin)
    rest = clause[at:].strip()
    noted = _NOTED.match(clause, begin)
    if noted is not None and at < noted.end():
        rest = clause[noted.end() :].strip()
    reading = _read_label(clause) or _read_rest(rest)
    if reading is None and at > begin:
        reading = _read_rest(clause[begin:])
    if reading is None and standing and " " in rest and STANDING_ONLY.match(rest):
        reading = Reading("rule", negative=_NEGATIVE.match(rest) is not None)
    if reading is None and _BARE_VALUE.match(rest) and _CHANGE_LEAD.match(clause, begin):
        reading = Reading("decision", act="change", tags=("@choice",))
    if reading is None and noted is not None and rest.count(" ") >= 1 and not rest.endswith("!"):
        kind = _NOTED_KINDS.get(noted[1].lower()[:4], "fact")
        reading = Reading(kind, many=True, negative=_NEGATIVE.match(rest) is not None)
    if reading is None or _TALK.search(clause):
        return None
    return reading


def english_change(text: str, reading: Reading) -> Reading:
    """Return the reading of a text as a change if its words say so, with what they name as replaced."""
    if reading.act == "state" and _CHANGE.search(text):
        reading = reading._replace(act="change")
    if not reading.old and reading.act == "change" and (old := _OLD.search(text)):
        reading = reading._replace(old=old["old"])
    return reading


def _after_leads(clause: str, at: int) -> tuple[int, bool]:
    """Return where the clause proper begins, and True if what stands before makes it a standing rule."""
    standing = False
    for _ in range(3):
        before = at
        for pattern, words in _LEADS:
            first = _FIRST.match(clause, at)
            if first and first[0].lower() in words and (found := pattern.match(clause, at)):
                at = found.end()
                standing = standing or pattern is _STANDING_LEAD or pattern is _NOTE_LEAD
        if at == before:
            break
    return at, standing


_FIRST = re.compile(r"[A-Za-z']+")
_NAMED = re.compile(r"[A-Z][a-z]+,\s")
_BARE_VALUE = re.compile(
    r"(?:make\s+(?:it|that)\s+|let's\s+say\s+|on\s+|at\s+|to\s+|for\s+)?(?:the\s+|a\s+|an\s+)?(?:"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|\d[\w:.,]*|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|option|plan|version"
    r"|red|blue|green|black|white|first|second|third|other|larger|smaller)\b(?:\s+[\w:.]+){0,3}[.!]?$",
    re.IGNORECASE,
)
"""A value without a verb, as after "sorry, ..."."""
_NOTED = re.compile(
    r"(?:please\s+|also\s+|always\s+|just\s+)*(make\s+sure(?:\s+that)?(?=\s+(?:no|the|all|any|every"
    r"|each|my|our|nobody|nothing|it|there)\b)"
    r"|ensure(?:\s+that)?|note\s+to\s+self|make\s+a\s+note|take\s+a\s+note|write\s+(?:this|that)\s+down"
    r"|(?:remember|keep\s+in\s+mind|bear\s+in\s+mind|note)(?=\s+that|:)|for\s+your\s+information)\s*"
    r"(?:that\b|:|,|—)?\s*",
    re.IGNORECASE,
)
"""What a speaker says to have something kept: whatever follows is."""
_NOTED_KINDS: dict[str, RuleKind] = {"make": "rule", "ensu": "rule", "note": "fact"}
_NEGATIVE = re.compile(r"no\b|never|don't|do\s+not|not\b", re.IGNORECASE)
_LEAD_WORDS = frozenset(
    """
    a additionally after again alright also and another anyway as basically because before btw but by cool finally first
    firstly folks for furthermore fyi good great guys heads hello hence hey hi honestly i important importantly in just
    lastly let listen look moreover next no nope oh ok okay one otherwise p perfect pls plus ps question quick right
    second secondly see side since small so sure team thank thanks then therefore thing third thirdly to well while yeah
    yep yes
    """.split()
)
_CHANGE_LEAD = re.compile(
    r"(?:actually|on\s+second\s+thoughts?|wait|correction|change\s+of\s+plans?|scratch\s+that"
    r"|never\s?mind(?:\s+that)?|(?:i|we)(?:'ve|\s+have)?\s+changed\s+(?:my|our)\s+minds?|new\s+plan|sorry|update"
    r"|instead|rather|hmm+|no)\b(?:\s*[,:;.!—–-]+\s*|\s+)",
    re.IGNORECASE,
)
_NOTE_LEAD = re.compile(
    r"(?:note(?:\s+that)?|(?:please\s+)?(?:remember|keep\s+in\s+mind|bear\s+in\s+mind|be\s+aware"
    r"|be\s+advised|take\s+note)(?:\s+that|\s*[,:]|(?=\s+(?:i|my|we|our|the|all|never|always)\b))"
    r"|important|reminder)\s*[,:;—–-]*\s*",
    re.IGNORECASE,
)


_LEADS = (
    (_CHANGE_LEAD, frozenset(
    "actually on wait correction change scratch never nevermind i i've we we've new sorry update instead "
    "rather hmm no".split())),
    (_STANDING_LEAD, frozenset(
    "from going moving henceforth hereafter in as by starting at no under until for each every "
    "whenever when if once unless before after during outside on".split())),
    (_NOTE_LEAD, frozenset("note please remember keep bear be take important reminder".split())),
    (_POLITE, frozenset(
    "please kindly just simply really also only do could can would will i i'd it it's you make "
    "always be ensure try remember we let".split())),
)  # fmt: skip


def _read_label(clause: str) -> Reading | None:
    label = _LABEL.match(clause)
    if label is None or not clause[label.end() :].strip():
        return None
    word = label[1].lower()
    singular = "policy" if word == "policies" else word.removesuffix("s")
    rest = clause[label.end() :].strip()
    kind = _LABELED.get(singular, "rule")
    found = _read_rest(rest)
    return found if found and found.act != "done" else Reading(kind, many=kind == "task")


def _read_rest(rest: str) -> Reading | None:
    words = _WORD.findall(rest.lower())
    if not words:
        return None
    return STATEMENTS.read(rest, words, first=words[0]) or ORDERS.read(rest, words, first=words[0])
