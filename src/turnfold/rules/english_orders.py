"""English orders: patterns of prohibitions and rules, with the verbs orders begin with."""

from __future__ import annotations

import re

from turnfold.rules.patterns import PatternTable, reads
from turnfold.rules.record import Reading

__all__ = ("ORDERS", "STANDING_ONLY", "VERBS_ACTION", "VERBS_KEEP", "VERBS_STYLE", "first_words")


_I = re.IGNORECASE | re.VERBOSE
ORDERS = PatternTable(_I)
_add = ORDERS.add

VERBS_STYLE = (
    "answer|reply|respond|write|speak|talk|communicate|address|greet|sign|format|phrase|converse|chat"
    "|text|message|title|spell"
)
VERBS_KEEP = (
    "stick|limit|cap|restrict|treat|assume|default|indent|prefix|suffix|wrap|round|cite|capitali[sz]e"
    "|abbreviate|omit|exclude|skip|refrain|default|prioriti[sz]e|favou?r|respect|follow|adhere|obey"
    "|honou?r|prefer|stay|leave|save|store|name|label|tag|log|document|back\\s+up|encrypt|hash|target"
    "|pin|escape|anonymi[sz]e|redact|mask|minimi[sz]e|maximi[sz]e|reserve|pronounce|sort|group|order"
    "|number|separate|split"
)
VERBS_ACTION = (
    "run|test|check|ask|confirm|verify|review|commit|push|deploy|merge|add|include|put|notify|tell"
    "|send|copy|cc|bcc|schedule|book|list|show|give|provide|return|start|end|begin|finish|mark|link"
    "|convert|translate|summari[sz]e|close|open|delete|remove|create|wait|hold|set|charge|ship|bill"
    "|invoice|pay|report|explain|double-check|consult|warn|alert|inform|remind|seek|obtain|request"
    "|require|validate|sanitize|lint|squash|rebase|sign|mention|quote|attach|bring|serve|order|buy"
    "|wear|turn|lock|clean|wash|water|feed|apply|handle|process|escalate|flag|forward|archive|draft"
    "|render|print|cook|plan|pick|choose|recommend|suggest|propose|offer|present|describe|compare"
    "|refuse|reject|accept|approve|deny|block|allow|update|rename|prepare|measure|calculate|compute"
    "|estimate|fill|import|export|generate|record|track|monitor|post|publish|call|switch|repeat|base"
    "|build|install|upgrade|retry|fall\\s+back|guard|protect|hide|disclose|share|state|specify|define"
    "|declare|annotate|type|cover|mock|catch|raise|throw"
)


def first_words(verbs: str) -> str:
    """Return the first words of an alternation of verbs; the spellings of "summari[sz]e" and "favou?r" one by one."""
    plain = verbs.replace("\\s+", " ")
    found = [word.split()[0] for word in plain.split("|")]
    spelled = [
        each
        for word in found
        for each in (
            [word.replace("[sz]", "s"), word.replace("[sz]", "z")] if "[sz]" in word else [word]
        )
    ]
    return " ".join(
        each
        for word in spelled
        for each in ([word.replace("u?", ""), word.replace("u?", "u")] if "u?" in word else [word])
    )


_STANDING = re.compile(
    r"""\b(?:always|never|every|each|all|any|whenever|from\s+(?:now|here|this\s+point)\s+on
         |going\s+forward|moving\s+forward|henceforth|in\s+(?:the\s+)?future|by\s+default
      |only|unless|no\s+matter|as\s+a\s+rule|in\s+general|until\s+(?:further|i)\b|before\s+
         (?:you\b|i\b|we\b|any\b|the\s+\w+\s+is|\w+ing)|after\s+\w+ing|anymore|any\s+more|at\s+(?:most
         |least)
      |no\s+(?:more|less|fewer|later|longer)\s+than|max(?:imum)?|minimum|instead\s+of|(?:scratch
         |forget|drop|ditch)\s+[^,]{2,40}(?=,)|rather\s+than|without|exclusively|strictly|consistently
         |everywhere|anywhere|anything|everything
      |for\s+(?:now\s+on|all|every|each|any|future|the\s+rest)|when(?:ever)?\s+(?:you|i|we|there
         |it|they|someone|something|\w+ing)\b|if\s+(?:you|i|we|there|it|they|someone|something|a|the)\b)""",
    _I,
)
_STANDING_STRONG = re.compile(
    r"\b(?:always|never|every\s+(?:time|single|\w+\s+(?:must|should))|from\s+now\s+on|going\s+forward"
    r"|in\s+future|by\s+default|only|unless|before\s+(?:you|any|\w+ing)|anymore|at\s+(?:most|least)"
    r"|no\s+more\s+than|instead\s+of|rather\s+than)\b",
    re.IGNORECASE,
)
_STANDING_TOPIC = re.compile(
    r"\b(?:amounts?|endpoints?|functions?|dates?|prices?|numbers?|files?|names?|answers?|repl(?:y|ies)"
    r"|responses?|messages?|e-?mails?|commits?|prs?|pull|tests?|requests?|changes?|quer(?:y|ies)"
    r"|orders?|payments?|invoices?|reports?|documents?|passwords?|keys?|users?|customers?|purchases?"
    r"|expenses?|meetings?|classes|methods?|modules?|services?|tables?|columns?|fields?|times?|units?"
    r"|values?|code|data|text|images?|pages?|links?|recipes?|meals?|bookings?|appointments?|releases?"
    r"|deployments?|logs?|errors?|apis?|calls?|tasks?|tickets?|issues?|texts?|strings?|variables?"
    r"|components?|measurements?)\b",
    re.IGNORECASE,
)

# Prohibitions.
_add(
    "never",
    r"^(?:passwords?|[\w' -]{3,40}?)\s+(?:is|are)\s+never\s+(?:to\s+(?:be)?|allowed|acceptable|okay"
    r"|ok)\b|^never\s*,\s*ever\b|^not\s+ever\b",
    reads("prohibition", negative=True, many=True),
)
_add(
    "never",
    r"^(?:(?:you|we|it|this|that|the\s+\w+|\w+s)\s+(?:must|should|shall|can|may|will)\s+)?never\s+"
    r"(?:ever\s+|again\s+)?(?!mind\b|(?:been|seen|heard|had|was|were|thought|felt|knew|met|tried|ever"
    r"|quit|underestimate|forget\s+(?:how|that\s+you|who)|in\b|a\b|the\b|again|too|so|really|once)\b)"
    r"(?:\w+(?<!s)(?<!ed)|\w+ss|focus)\b",
    reads("prohibition", negative=True, many=True),
)
_add(
    "never",
    r"^(?:[\w' -]{3,60}?)\s+(?:must|should|shall|can|may|will)\s+never\b",
    reads("prohibition", negative=True, many=True),
)
_add(
    "we",
    r"^(?:in\s+\w+\s+)?we\s+(?:never|don't|do\s+not|won't|will\s+not|can't|cannot|must\s?n't"
    r"|must\s+not|may\s+not|should\s?n't|should\s+not)\s+(?:ever\s+)?(?:use|deploy|ship|accept|allow"
    r"|support|commit|offer|work|merge|push|send|share|store|log|sell|buy|order|eat|serve|discuss"
    r"|mention|call|write|do|hire|pay|refund|negotiate|discount|compromise|charge|ask|sign|lend|store"
    r"|cache|retry|assume|guess|touch|change|modify|break|release|go\s+(?:over|above"
    r"|beyond)|exceed|spend|schedule|book|meet|hold|publish|expose|delete|edit|rely|depend|need\s+to"
    r"|want|mix|hard-?code)\b(?!\s+(?:you|know))",
    reads("prohibition", negative=True, many=True),
)
_add(
    "don't dont do don not you're",
    r"^(?:you(?:'re|\s+are)\s+(?:not|never)\s+(?:allowed|permitted|supposed)\s+to|you\s+(?:must|should"
    r"|shall|may|can|will)\s+not|you\s+(?:mustn't|shouldn't|can't|cannot|may\s+not)|(?:i\s+)?"
    r"(?:do\s+not|don't|dont)(?:\s+want\s+you\s+to)?(?:\s+(?:ever|please))?|not\s+to)\s+(?!you\b|i\b"
    r"|we\b|they\b|worry|know|think\b|see\b|have\s+to|need|like\b|love\b|really|feel\b|even\b|believe"
    r"|get\s+(?:it|why|how|the\s+(?:point|joke))|understand|remember|want\b|recall|care\b|mind\b"
    r"|forget|be\s+late)\w+",
    lambda m: (
        None
        if re.match(r"i\s+(?:do|don)", m[0], re.IGNORECASE) and "want" not in m[0].lower()
        else Reading("prohibition", negative=True, many=True)
    ),
)
_add(
    "want",
    r"^i\s+(?:don't|do\s+not|never)\s+(?:ever\s+)?want\s+(?:you\s+to|to\s+(?:see|hear|receive|get"
    r"(?!\s+my))|any|anyone|anything|people|(?:the\s+|my\s+)[\w ]{2,30}?\s+(?:to\s+be|shared|in\b|on\b"
    r"|mentioned|changed|touched|deleted)|\w+s\s+(?:in|on|with|at|before|after|from|about|that))\b",
    reads("prohibition", negative=True, many=True),
)
_add(
    "no nothing none nobody not",
    r"^(?:(?:absolutely|strictly|definitely|please)\s+)?(?:no|zero)\s+(?:more\s+)?(?!,)"
    r"(?:[\w'-]+\s+){0,2}?[\w'-]+(?:\s+(?:in|on|at|before|after|for|to|with|without|during|longer|over"
    r"|under|above|below|unless|until|from|of|please|whatsoever|allowed|and|or|,)\b[^!?]{0,80})?[.,]?"
    r"(?:\s*please)?[.]?$",
    lambda m: (
        None
        if re.search(
            r"\b(?:i|it|he|she|you|that|this|is|was|are|were|have|had)\b", m[0], re.IGNORECASE
        )
        else Reading("prohibition", negative=True, many=True)
    ),
)
_add(
    "nothing none nobody one must may",
    r"^(?:nothing|nobody|no\s+one|none\s+of\s+(?:the|our|my)\s+[\w ]{2,30}|no\s+[\w -]{2,40}?)\s+"
    r"(?:may|must|should|shall|can|is\s+(?:allowed|permitted)|are\s+(?:allowed|permitted)|is\s+to|goes"
    r"|gets|leaves|without)\b",
    reads("prohibition", negative=True, many=True),
)
_add(
    "not allowed forbidden prohibited banned limits off-limits table permitted acceptable mustn't "
    "shouldn't cannot can't may must should never without confidential secret private touch",
    r"^(?:(?:the|our|my|all|any|this|these|those|your|its|each|every)\s+)?[\w'/.-]+"
    r"(?:\s+[\w'/.-]+){0,8}?\s+(?:(?:is|are)\s+(?:strictly\s+|absolutely\s+|completely\s+|totally\s+)?"
    r"(?:not\s+(?:allowed|permitted|acceptable|an\s+option|to\s+be|up\s+for)|forbidden|prohibited"
    r"|banned|off[\s-]limits|out\s+of\s+(?:bounds|scope|the\s+question)|off\s+the\s+table|confidential"
    r"|secret)|(?:must|should|shall|may)\s+(?:not|n't)|(?:mustn't|shouldn't)|(?:can't|cannot|can\s+not"
    r"|may\s+not)\s+(?:be|exceed|go|have|use|contain|include|take|cost|leave|change|run|depend|access"
    r"|touch))\b",
    lambda m: (
        None
        if re.match(
            r"(?:i|you|he|she|they|it|that|this|we|someone|people|there|who)\b(?!\s+(?:must|should|may)\s+not)",
            m[0],
            re.IGNORECASE,
        )
        or re.match(r"(?:that|it|this|he|she|they)\b", m[0], re.IGNORECASE)
        else Reading("prohibition", negative=True, many=True)
    ),
)
_add(
    "avoid stop refrain quit cease skip leave stay hands exclude omit",
    r"^(?:avoid|refrain\s+from|steer\s+clear\s+of|stay\s+away\s+from|keep\s+away\s+from|stop\s+"
    r"(?:\w+ing\b(?!\s*[.!]*$)|with\s+the|the\s+\w+)|quit\s+\w+ing|cease\s+\w+ing|hands\s+off|leave\s+"
    r"(?:out|off|the\s+[\w ]+?\s+(?:alone|untouched|as\s+is|unchanged)|[\w./ ]+?\s+(?:alone|untouched"
    r"|unchanged))|exclude|omit|skip\s+(?:the|all|any)|do\s+without)\b(?!\s+it\b)",
    reads("prohibition", negative=True, many=True),
)
_add(
    "keep under circumstances",
    r"^(?:under\s+no\s+circumstances?\b|on\s+no\s+account\b|in\s+no\s+case\b|keep\s+[\w' ]{2,40}?\s+"
    r"(?:out\s+of|away\s+from|off)\b)",
    reads("prohibition", negative=True, many=True),
)

_add(
    "forbidden prohibited allowed permitted",
    r"^it(?:'s|\s+is)\s+(?:strictly\s+|absolutely\s+)?(?:forbidden|prohibited|not\s+(?:allowed"
    r"|permitted|ok|okay|acceptable))\s+to\b",
    reads("prohibition", negative=True, many=True),
)

_add(
    "^not",
    rf"^not\s+(?:ever\s+)?(?:{VERBS_ACTION}|{VERBS_STYLE}|{VERBS_KEEP}|use|discuss|edit|change|touch"
    rf"|mix|spend|share)\b",
    reads("prohibition", negative=True, many=True),
)

# Rules.
_add(
    "^speak talk write answer reply respond explain",
    r"^(?:speak|talk|write|answer|reply|respond|explain\s+things)\s+(?:to\s+me\s+)?(?:more\s+|less\s+"
    r"|very\s+)?\w{3,}ly\b",
    reads("rule"),
)
_add(
    "^no at max maximum minimum up not",
    r"^(?:no\s+more\s+than|not\s+more\s+than|at\s+(?:most|least)|max(?:imum)?(?:\s+of)?|minimum"
    r"(?:\s+of)?|up\s+to)\s+(?:\d|one"
    r"|two|three|four|five|six|ten|half|a)\b[^!?]{2,80}$",
    reads("rule"),
)
_add(
    "^double-check double spell-check proofread credit acknowledge",
    r"^(?:double[\s-]check|spell-check|proofread|credit|acknowledge)\s+(?!this|that|it\b)[^!?]*\b\w+s\b",
    reads("rule"),
)
_add(
    "allowed permitted forbidden prohibited",
    r"^(?:you(?:'re|\s+are)\s+only\s+(?:allowed|permitted)\s+to)\b",
    reads("rule"),
)
_add(
    "everything whatever anything go goes belong belongs",
    r"^(?:(?:everything|anything|whatever|what)\s+(?:you|we)\s+\w+\s+(?:should|must|has\s+to"
    r"|needs\s+to|is\s+to|will)\b"
    r"|[\w -]{3,40}?\s+(?:go|goes|belong|belongs)\s+(?:in|into|to|under|before|after|at|on|first|last)"
    r"\b(?!\s+(?:bed|sleep|way)))",
    lambda m: (
        None
        if re.match(r"(?:i|he|she|they|it|that|this|there|time|life|we)\b", m[0], re.IGNORECASE)
        or not (_STANDING_TOPIC.search(m[0]) or m[0].lower().startswith(("every", "any", "what")))
        else Reading("rule")
    ),
)
_add(
    "always",
    rf"^(?:(?:you|we|it|they)\s+(?:must|should|shall|have\s+to|need\s+to|will)\s+|(?:we|you)"
    rf"\s+)?always\s+(?:{VERBS_ACTION}|{VERBS_STYLE}|{VERBS_KEEP}|use|keep|be(?!\s+(?:there|here|a\b"
    rf"|my|your|yourself))|make|avoid|sign|save|double|try|prefer|state|stop|wear|thank|greet|mention)"
    rf"\b(?!\s+(?:that\s+you|in\s+yourself|up\s+for|about\s+you))",
    reads("rule"),
)
_add(
    "must need needs have has should shall required require requires mandatory expected",
    r"""^(?P<subject>(?:(?:the|all|every|each|any|our|my|your|both|only|these|those|no|a|an|new|this)
         \s+)?[\w'/.-]+(?:\s+(?!that\b|which\b|i\b|you\b)[\w'/.-]+){0,7}?)\s+(?:(?:must|shall|has\s+to
         |have\s+to|needs?\s+to|is\s+to|are\s+to|should|ought\s+to)\s+(?:always\s+|only\s+|also\s+
         |either\s+|all\s+)?(?:be\s+(?:(?:at|in|on|under|below|over|above|within|between|by|before|after
         |from|no|less|more|fewer|not|one|two|three|\d|at\s+least|up|out|able|ready|unique|short|brief
         |concise|lowercase|uppercase|readable|available|valid|consistent|private|public|idempotent
         |optional|free|empty|positive|numeric|sorted|secure|formal|informal|polite|simple|small|minimal
         |present|deterministic|compatible|available|reproducible|vegan|vegetarian|gluten-free|halal
         |kosher|quiet|early|on\s+time|identical|explicit|static|async|stateless|open|closed|longer
         |shorter|black|white|blue|red|green|teal|dark|light|yellow|orange|purple|pink|gr[ea]y)\b|
         (?:\w+ly\s+)?\w+(?:ed|en|wn)\b|(?:kept|made|sent|paid|built|put|set|held|read|run|done|left|sold
         |told|bought|brought)\b|a\s+(?:string|number|list|maximum|minimum|valid))|have|use|go|include
         |contain|stay|remain|follow|match|fit|support|run|pass|start|end|carry|cite|cost|take|return
         |respect|comply|work|keep|arrive|finish|happen|sign|approve|review|report|wear|bring|log|accept
         |require|ask|check|reply|answer|respond|exist|mention|appear|cover|wait|avoid|read|write|show
         |land|ship|receive|provide|specify|state|set|add|live|sit|stick|leave|submit|handle|return
         |compile|build|validate|inherit|implement)\b|(?:is|are)\s+(?:mandatory|required|compulsory
         |obligatory|non-negotiable|a\s+must|essential\s+for)|requires?\s+(?:a|an|at|two|three|my
         |approval|sign|prior|the|\d)|needs?\s+(?:a|an|at\s+least|two|three|my|approval|sign|prior|\d
         |\w+\s+approval))""",
    lambda m: (
        None
        if (
            re.match(
                r"(?:i|he|she|they|it|that|this|someone|people|everyone|everybody|there|what|who|life|love|we"
                r"(?=\s+(?:all\s+|both\s+)?(?:need|should|have))|we\s+all|our\s+(?:hearts?|lives)|\w+ing|you)\b",
                m["subject"],
                re.IGNORECASE,
            )
            and not re.search(
                r"(?:^|\s)(?:it|this|everything)\s+(?:must|has\s+to|needs\s+to|should)\s+(?:be\s+(?:in|under|below"
                r"|at|within|between|\w+ed\b)|support|run|fit|work)",
                m[0],
                re.IGNORECASE,
            )
        )
        or m.string.rstrip().endswith("!")
        else Reading("rule")
    ),
)
_add(
    "give cite show express display list quote write",
    r"^(?:give|show|express|display|state|list|quote)\s+(?:me\s+)?(?:all\s+|any\s+)?(?:temperatures"
    r"|prices|dates|times|numbers|amounts|distances|weights|lengths|results|currencies|sources"
    r"|measurements|answers|durations|sizes|percentages|units)\s+(?:in|as|with|to|using|without)\b"
    r"|^cite\s+(?:your\s+|all\s+|the\s+)?sources|^(?:include|provide)\s+(?:sources|references"
    r"|citations|links|examples|tests|type\s+hints|units)\b",
    reads("rule"),
)
_add(
    "stays between",
    r"^(?:this|that|it|what\s+i\s+\w+)\s+(?:stays|remains|is)\s+(?:strictly\s+)?(?:between\s+(?:us"
    r"|you)|confidential|private|secret|off\s+the\s+record)",
    reads("prohibition", negative=True, many=True),
)
_add(
    "require requires needs amounts all every each",
    r"^(?:all|every|each|any)\s+[\w' -]{2,40}?\s+(?:requires?|needs?|goes?|gets?|is|are|has|have"
    r"|comes?|uses?)\s+(?!(?:so|such|great|amazing|good|about|over|here|gone|well|set|done|fine"
    r"|different|beautiful|very|really)\b)\w+",
    lambda m: (
        None
        if m.string.rstrip().endswith("!") or not _STANDING_TOPIC.search(m[0])
        else Reading("rule")
    ),
)
_add(
    "i we",
    r"^(?:i|we)\s+(?:want|need|expect|require|insist\s+on|demand|'d\s+like|would\s+like)\s+(?:all"
    r"|every|each|your\s+(?:answers?|repl(?:y|ies)|responses?|code|output)|(?:the\s+)?(?:answers?|repl"
    r"(?:y|ies)|responses?|code|output|reports?|results?|dates?|prices?|numbers|summar(?:y|ies)"
    r"|emails?|commits?|tests?)|everything|at\s+(?:least|most)|no\s+more\s+than|only|a\s+(?:maximum"
    r"|minimum)|short|brief|concise)\b",
    reads("rule"),
)
_add(
    "keep",
    r"^keep\s+(?!in\s+mind\s*$)(?:(?:your\s+|all\s+|the\s+|my\s+|our\s+|any\s+|each\s+"
    r"|every\s+)?[\w' -]{1,40}?\s+)?(?:short(?:er)?|brief|concise|simple|formal|informal|casual|polite"
    r"|professional|friendly|clean|consistent|minimal|small|lowercase|uppercase|private|secret"
    r"|confidential|separate|under|below|within|between|to\s+(?:a|one|two|three|\d|the|under|at)|at\s+"
    r"(?:most|least|or|\d|a|the)|in\s+(?!touch|mind\s*$)\w+|as\s+\w+|up\s+to\s+date|alphabetical"
    r"|sorted|neutral|intact|unchanged|on\s+(?:one|a|the)\s|free\s+of|above|low|light|tight|strictly"
    r"|focused|factual|technical|readable|together|running|open|closed|alive|synced|backwards?)\b",
    reads("rule"),
)
_add(
    "use using",
    r"^(?:only\s+|always\s+|just\s+|rather\s+)?use\s+(?!(?:this|that|it|these|those|your\s+"
    r"(?:imagination|judge?ment)|the\s+(?:following|above|attached|below|same\s+approach|file|code"
    r"|data|text|table|link|snippet)\b|my\s+(?:file|code|data))\b(?![^.]*\b(?:always|every|each|all"
    r"|instead|only|whenever|from\s+now)\b))(?P<value>[^,;]{1,60}?)(?=\s+(?:for|as|in|when|on|to"
    r"|instead|rather|and\s+not|if|whenever|with|throughout|everywhere|from\s+now)\b|[,.;!]|$)",
    reads("rule"),
)
_add(
    "only",
    r"^only\s+(?!(?:i|you|he|she|it|they|we|then|if|because|time|thing|problem|a|the|one|two|now|that"
    r"|when\s+i)\b)\w+\s+[^?!]{2,80}$",
    reads("rule"),
)
_add(
    f"^{first_words(VERBS_STYLE)}",
    rf"^(?:{VERBS_STYLE})\s+(?!(?:this|that|the\s+following|these|my\s+question|question|a\b|an\b|it\b"
    rf"|some|back\s*$|down|up|out|to\s+(?:him|her|them))\b)(?:(?:to\s+)?(?:me|us|(?-i:[A-Z])\w+|all|every\w*|each|any"
    rf"|your|the|my|our|dates?|numbers?|code|emails?|commits?|messages?|customers?|users?|comments?"
    rf"|names?)\b[^,;]{{0,40}}?)?(?:\s*(?:only\s+)?(?:in|with|using|as|like|by|without|within|briefly"
    rf"|concisely|formally|informally|politely|directly|shortly|only|exclusively|casually|in-line"
    rf"|inline|from|at)\b|\s*(?:short|brief|concise)\b)",
    lambda m: (
        None
        if re.search(
            r"\b(?:in|by|at)\s+(?:the\s+)?(?:meantime|yourself|detail\s+(?:how|why|what)|return)",
            m.string,
            re.IGNORECASE,
        )
        else Reading("rule")
    ),
)
_add(
    "be",
    r"^(?:always\s+)?be\s+(?:more\s+|very\s+|as\s+|extremely\s+|less\s+)?(?:brief|concise|short|polite"
    r"|formal|informal|direct|blunt|honest(?:\s+with)|precise|specific|consistent|neutral|objective"
    r"|critical|professional|friendly|casual|terse|succinct|explicit|conservative|strict|thorough"
    r"|factual|verbose|technical|careful\s+(?:with|not|about|when)|respectful|gentle|straightforward"
    r"|quiet|sarcastic|humorous|skeptical|sceptical|chatty|on\s+time)\b(?!\s+with\s+yourself)",
    reads("rule"),
)
_add(
    "stick limit cap restrict treat assume default refrain follow adhere obey respect prioritize "
    "prioritise favor favour prefer stay leave",
    rf"^(?:{VERBS_KEEP})\s+(?!(?:this|it|me|you|that|up|tuned|strong|safe|your\s+(?:heart|dreams"
    rf"|passion|gut|bliss)|him|her|a\s+(?:message|comment|note|review))\b)(?:to\s+|from\s+|all\s+"
    rf"|any\s+|the\s+|every\s+|each\s+|that\s+)*[\w'-]+",
    reads("rule"),
)
_add(
    f"^{first_words(VERBS_KEEP)}",
    rf"^(?:{VERBS_KEEP})\s+(?!(?:this|it|me|you|that)\b)[\w'\x1a-]+[^?!]*$",
    lambda m: (
        Reading("rule")
        if _STANDING.search(m.string)
        or (
            re.search(r"\b(?:as|in|to|with|under|by|at|after|before|for|on)\s", m.string)
            and re.match(r"\w+\s+(?:\w+\s+)?\w+s\b", m.string)
        )
        else None
    ),
)
_add(
    f"^{first_words(VERBS_ACTION)} {first_words(VERBS_STYLE)} {first_words(VERBS_KEEP)}",
    rf"^(?:{VERBS_ACTION}|{VERBS_STYLE}|{VERBS_KEEP})\b(?!\s+(?:me\s+(?:more|about)|it\s+out))"
    rf"(?=\s+\S)",
    lambda m: (
        Reading("rule")
        if (
            _STANDING_STRONG.search(m.string)
            or (
                _STANDING.search(m.string)
                and not m.string.rstrip().endswith("!")
                and not re.search(
                    r"^\w+\s+(?:me|us|it|him|her|them|lots|yourself)\b", m.string, re.IGNORECASE
                )
            )
        )
        and not re.search(
            r"^(?:explain|describe|write|create|build|generate|draft|define|show|tell|give|list)\s+(?:me\s+"
            r"|us\s+)?(?:why|how|what|when|a\b|an\b|some|the)(?!.*\b(?:always|every\s+time|from\s+now\s+on)\W*$)"
            r"|^(?:check|see|verify|test|tell|ask|confirm)\s+(?:me\s+)?(?:if|whether)\b|^(?:show|list|find"
            r"|print|create"
            r"|generate|display|count|sort|delete|remove|convert|translate)\s+(?:me\s+)?(?:all|any|every|each)"
            r"\b|\byour(?:self|\s+(?:eyes|torso|hand|heart|body"
            r"|breath|knee|dreams|feet|head))|\b(?:this|these|following|above|attached|below)\b|\ball\s+"
            r"(?:the\s+best|this|that|of\s+(?:this|it))|\bevery\s+(?:moment|day|step|second|bit)\b|\bany\s+"
            r"(?:tips|advice|recommendations|plans|luck|ideas|questions)|\beach\s+other",
            m.string,
            re.IGNORECASE,
        )
        else None
    ),
)
_add(
    "i we",
    r"^(?:i|we)\s+(?:always|only|exclusively)\s+(?!turn)(?:use|work|deploy|fly|eat|drink|write|code"
    r"|buy|order|travel|pay|need|want|ship|review|run|take|sit|sleep|shop|accept|reply|test)\b",
    reads("fact", many=True),
)
STANDING_ONLY = re.compile(
    rf"^(?:{VERBS_ACTION}|{VERBS_STYLE}|{VERBS_KEEP}|use|keep|be|don't|never|always|i\s+(?:want"
    rf"|prefer|expect|'d\s+like)\s+(?:you|the|all|it|them|a|an|only|no|short)|you\s+(?:must|should"
    rf"|have\s+to|need\s+to)|all\s+\w+\s+(?:go|are|must|should)|no\s+\w+|only\s+\w+|please|avoid|email"
    rf"|stop)\b(?!\s+(?:me\s+(?:a\s+shout|know|more|all)|it\s+a\s+go))",
    re.IGNORECASE,
)
