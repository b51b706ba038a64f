"""English statements: patterns of decisions, facts, preferences and open tasks, and of taking them back."""

from __future__ import annotations

import re

from turnfold.rules.english_orders import VERBS_ACTION, first_words
from turnfold.rules.patterns import PatternTable, reads
from turnfold.rules.record import Reading

__all__ = ("STATEMENTS",)


STATEMENTS = PatternTable(re.IGNORECASE | re.VERBOSE)
_add = STATEMENTS.add

_DATE = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|tomorrow|tonight|today|noon|midnight|january"
    r"|february|march|april|may(?=\s+\d)|june|july|august|september|october|november|december|jan\b"
    r"|feb\b|mar\b|apr\b|jun\b|jul\b|aug\b|sept?\b|oct\b|nov\b|dec\b"
    r"|next\s+(?:week|month|year|quarter|sprint|\w+day)|end\s+of\s+(?:the\s+)?(?:day|week|month|year"
    r"|quarter)|eod|eow|q[1-4]\b|\d{1,2}(?::\d\d)?\s*(?:am|pm|a\.m|p\.m|o'clock|h\b)|\d{1,2}(?:st|nd"
    r"|rd|th)|\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}(?:[/.]\d{2,4})?|\d{1,2}:\d\d|the\s+\d)"
)
_ATTRIBUTE = (
    r"deadline|due\s+date|budget|launch|release|go-?live|meeting|stand-?up|demo|retro|port|database|db"
    r"|framework|stack|theme|colou?r|code\s*name|title|venue|pricing|cost|location|address|price|target|limit"
    r"|timeout|version|branch|owner|lead|contact|reviewer|approver"
    r"|currency|time\s?zone|date|start|kick-?off|interview|appointment|flight|hotel|wedding|party"
    r"|schedule|format|style|tone|licen[sc]e|provider|vendor|supplier|host|hosting|region|server|repo"
    r"(?:sitory)?|default|goal|scope|audience|client|customer|stakeholder"
    r"|headcount|rent|salary|password|key|endpoint|url|domain|channel|language|tool|editor|platform"
    r"|model|plan|option|choice|winner|caterer|photographer|destination|trip|train|bus|ride|pickup"
    r"|gate|room|seat|size|layout|font|logo|mascot|slogan|tagline|team|manager|director|coordinator"
    r"|speaker|agenda|topic|quota|rate|discount|fee|deposit|payment|invoice|threshold|interval"
    r"|frequency|retention|capacity|sprint|milestone|cutoff|freeze|window|backup|name|brand|product"
    r"|project|company|app|site|package|module|library|dependency|registry|bucket|cluster|queue|topic"
    r"|index|schema|table|column|field|primary|secondary|fallback|order|delivery|shipment|shipping"
    r"|dinner|lunch|breakfast|menu|dish|cake|gift|dress\s+code|guest\s+list|guests?|number\s+of\s+\w+"
    r"|exam|class|course|lesson|session|workshop|conference|offsite|event|review|call"
)
_ATTRIBUTE_WORDS = frozenset(
    re.findall(r"[a-z]+", re.sub(r"\\s[+*?]?|\(\?:|\)\?", " ", _ATTRIBUTE))
)


def _choice(match: re.Match[str]) -> Reading:
    """Return the decision for what is chosen: "Let's use X for the cache", "We'll host it on Y"."""
    chosen = _CHOSEN.search(match.string)
    return Reading("decision", tags=("@choice",), value=chosen[1] if chosen else "")


_CHOSEN = re.compile(
    r"\b(?:use|using|with|pick|choose|on|to|call\s+(?:it|\w+\s+\w+)|name\s+it|support|adopt|adopting"
    r"|hire|target|at)\s+"
    r"((?:the\s+|a\s+)?[^,;.!]+?)(?=\s+(?:for|as|in|on|at|to|because|since|instead|from|when|after)\b|[,;.!]|$)",
    re.IGNORECASE,
)

# Cancel, done, permit.
_add(
    "forget scratch ignore drop nevermind never disregard cancel cancelled canceled call off undo revert lift skip",
    r"""^(?:please\s+|let's\s+|we\s+(?:can|should|will)\s+|you\s+can\s+|just\s+)?(?:forget|disregard
         |ignore|scratch|never\s?mind|drop|cancel|undo|revert|lift)\s+
         (?:(?:about\s+)?(?:what\s+i\s+said|my\s+(?:earlier|previous|last)\s+\w+)\s+(?:about|on
         |regarding|earlier\s+about)|about\s+(?:the|using|that|all)|all\s+(?:of\s+)?|the|that
         |what\s+i\s+said\s+(?:before\s+)?about)\s+(?P<old>[^,;:]{2,80})""",
    reads("decision", act="cancel"),
)
_add(
    "cancelled canceled scrapped off dead needed applies relevant valid holds necessary dropped need",
    r"""^(?P<old>(?:the|our|my|that|this|all)\s+[\w' -]{2,50}?|[\w' -]{3,40}?)\s*(?:(?<=\s)(?:is|are|was
         |were|has\s+been|have\s+been)|'s|(?=no\s+longer|does))\s*(?:now\s+|all\s+)?(?:cancell?ed
         |scrapped|called\s+off|off\s+the\s+table|dead|dropped|(?:is\s+)?no\s+longer\s+(?:needed
         |necessary|relevant|valid|applies|apply|required|holds|a\s+\w+)|does(?:n't|\s+not)\s+(?:apply
         |hold|matter)\s+any\s?more)\b""",
    reads("decision", act="cancel"),
)
_add(
    "longer anymore",
    r"^i(?:'m|\s+am)\s+(?:no\s+longer|not)\s+(?P<old>(?:an?\s+|in\s+|at\s+|on\s+)?[\w' -]{2,40}?)"
    r"(?:\s+any\s?more)?[.]?$|^i\s+(?:no\s+longer|don't|do\s+not)\s+(?P<old2>(?:eat|drink|work|live"
    r"|use|have|take|drive|prefer|like|want|need|own|study|smoke)\b[\w' -]{2,40}?)"
    r"(?:\s+any\s?more)?[.]?$",
    lambda m: (
        Reading("fact", act="cancel", negative=True, old=m["old"] or m["old2"])
        if re.search(r"any\s?more|no\s+longer", m.string, re.IGNORECASE)
        else None
    ),
)
_add(
    "need anymore more longer",
    r"""^(?:(?:there(?:'s|\s+is)\s+)?no\s+need\s+(?:to|for)|(?:we|i|you)\s+(?:don't|do\s+not
         |no\s+longer)\s+(?:need|have|want)(?:\s+to)?|(?:we|i)(?:'re|'m|\s+are|\s+am)\s+(?:no\s+longer
         |not)\s+(?:using|doing|going\s+with|going\s+to))\s+(?P<old>[^,;]{2,80}?)(?:\s+(?:any\s?more
         |any\s+longer))?(?:[,.;]|$)(?<!\s)""",
    lambda m: (
        Reading("decision", act="cancel", old=m["old"])
        if re.search(r"any\s?more|longer", m.string, re.IGNORECASE)
        else None
    ),
)
_add(
    "done finished completed handled sorted already complete paid sent booked submitted shipped "
    "fixed called bought taken",
    r"""^(?:(?:i|we)(?:'ve|\s+have)?\s+(?:just\s+|already\s+|finally\s+|now\s+)*(?:done|finished
         |completed|handled|sorted(?:\s+out)?|paid|sent|booked|submitted|shipped|fixed|called|bought
         |taken\s+care\s+of|took\s+care\s+of|did|made|wrote|written|ordered|cleaned|renewed|signed|filed
         |emailed|updated|picked\s+up|scheduled|returned|cancelled|canceled|merged|deployed|posted
         |replied|answered|backed\s+up|reviewed|uploaded|migrated|added|removed|deleted|published
         |registered|arranged|confirmed|talked|spoke|met)\s+(?P<old>[^,;]{2,80})
       |(?P<old2>(?:the|my|our|that|this)\s+[\w' -]{2,50}?|[\w' -]{3,40}?)\s+(?:is|are
         |has\s+been|have\s+been|was|were|'s|got)\s+(?:now\s+|all\s+|already\s+|finally\s+)*(?:done
         |finished|completed?|handled|sorted(?:\s+out)?|paid|sent|booked|submitted|shipped|fixed
         |taken\s+care\s+of|bought|renewed|signed|filed|merged|deployed|closed)\b
       |(?:all\s+)?done\s+(?:with\s+)?(?P<old3>[^,;]{2,60})|(?:finished|completed)\s+(?P<old4>[^,;]{2,60}))""",
    lambda m: Reading("task", act="done", old=next(filter(None, m.groupdict().values()), "")),
)
_add(
    "allowed fine ok okay may can again free permitted lifted start",
    r"""^(?:you\s+(?:may|can)\s+(?P<o1>(?:now\s+[^,;]{3,80}|[^,;]{3,80}?\s+(?:again|now|from\s+now\s+on
         |after\s+all)\b))|(?:it's|it\s+is)\s+(?:now\s+)?(?:ok(?:ay)?|fine|allowed|permitted|alright)\s+
         (?:now\s+)?(?:again\s+)?to\s+(?P<o2>[^,;]{3,80}?\s+(?:again|now|from\s+now\s+on|after\s+all)\b|
         (?<=now\sto\s)[^,;]{3,80})
       |(?P<o3>[\w' -]{3,60}?)\s+(?:is|are)\s+(?:now\s+)?(?:ok(?:ay)?|fine|allowed|permitted)\s+
         (?:again|now|after\s+all)|feel\s+free\s+to\s+(?P<o4>[^,;]{3,80}?\s+(?:again|now|from\s+now\s+on)
         \b)|start\s+(?P<o5>\w+ing\s+[^,;]{2,60}\s+again))""",
    lambda m: Reading("rule", act="permit", old=next(filter(None, m.groupdict().values()), "")),
)

# Tasks.
_add(
    "remind forget todo to-do remember reminder follow list backlog agenda",
    r"""^(?:let's\s+not\s+forget\b|(?:please\s+|can\s+you\s+|could\s+you\s+)?remind\s+me\b(?!\s+(?:of
         |why|how|what|that\s+you|who|again\s+(?:what|how))\b)|(?:don't|do\s+not)\s+(?:let\s+(?:me|us)
         \s+forget|forget\s+(?:to|about|that|the|my|i|we)\b)|(?:i|we)\s+(?:must|should|can)(?:n't|\s?not)
         \s+forget\b|(?:set|add)\s+a\s+reminder\b|(?:remember|reminder)\s*:?\s*(?:to\b|for\s+me\s+to)
         |to-?do\b\s*[:\-]?|to\s+do\s*:|(?:add|put)\s+.{2,60}\s(?:to|on)\s+(?:the|my|our)\s+(?:to-?do|task|shopping
         |grocery|packing|backlog|list|agenda)|follow\s+up\s+(?:with|on)\b)""",
    reads("task", many=True),
)
_add(
    "still point later yet eventually remaining outstanding pending open",
    r"""^(?:(?:i|we|you)\s+(?:still|later|eventually|also\s+still)\s+(?:need|have\s+to|must|want\s+to
         |should|owe|got\s+to)\b|(?:later|afterwards?|eventually|at\s+some\s+point|when\s+i'm\s+back)
         \s*,?\s*(?:on\s*,?\s*)?(?:i|we|you|please)\s+(?:'ll\s+)?(?:need|have|must|should|will|want|can)
         \b|we(?:'ll|\s+will)\s+(?:need\s+to|have\s+to|come\s+back|deal|handle|do)\b.*\blater\b|we\s+
         (?:haven't|have\s+not)\s+\w+\s+.*\byet\b|(?:still|yet)\s+(?:open|to\s+do|to\s+be\s+done|pending
         |outstanding)\b|(?:the\s+)?[\w ]{2,40}\s(?:is|are)\s+still\s+(?:unpaid|unsigned|undone
         |unfinished|due|waiting|to\s+be|open|pending|missing|outstanding|to\s+do|unresolved))""",
    reads("task", many=True),
)
_add(
    "need have must should gotta got",
    rf"""^(?:(?:next|this\s+coming|after|once|before|following)\s+[\w ]{{2,30}}?,?\s+(?:i|we)(?:'ll
         |\s+will)?\s+(?:need|have|must|should|ought)\s+(?:to\s+)?\w+|(?:i|we)\s+(?:should|need\s+to|must
         |have\s+to|will\s+have\s+to)\s+(?:revisit|come\s+back|return\s+to|discuss|look\s+at|deal\s+with
         |handle|do|fix|clean|update|finish|review|check|talk)\b[^,;]*\b(?:later|afterwards?|eventually
         |at\s+some\s+point|soon|another\s+time|after\s+the)\b)|^(?:i|we)\s+(?:really\s+|also\s+)?(?:need
         |have|'ve\s+got|got|gotta|must|should|ought)\s+(?:to\s+)?(?!be\b|say\b|admit\b|have\b|know\b
         |feel\b|get\s+(?:used|over)|keep\s+going)\w+\b[^,;]*\b(?:by|before|until|on|due|this|next
         |tomorrow)\s+(?:the\s+)?(?:{_DATE}|week|weekend|month)\b""",
    reads("task", many=True),
)
_add(
    f"^{first_words(VERBS_ACTION)} please email renew cancel contact submit finish fix write reply answer respond",
    rf"""^(?:please\s+)?(?:{VERBS_ACTION}|email|renew|cancel|prepare|contact|submit|finish|fix|write
         |reply|answer|respond)\s+(?!me\s+(?:more|about))[^,;]*\b(?:by|before|until|on|no\s+later\s+than)
         \s+(?:the\s+)?(?:{_DATE}|(?:end|start)\s+of)\b""",
    lambda m: (
        None
        if re.search(r"\b(?:always|never|every|each|all|any)\b", m.string, re.IGNORECASE)
        else Reading("task", many=True)
    ),
)

_add(
    "owe need have must should waiting someone somebody needs note ping text call email message "
    "remind there's tonight tomorrow today",
    r"""^(?:i\s+(?:still\s+)?owe\s+(?!you\s+one)\w|(?:i'm|i\s+am|we're|we\s+are)\s+
         (?:still\s+)?waiting\s+(?:for|on)\s+\w
         |(?:someone|somebody|one\s+of\s+us)\s+(?:needs|has|should|must)\s+(?:to\s+)?\w
         |(?:the\s+)?[\w' -]{2,40}?\s+(?:still\s+)?(?:needs|has)\s+to\s+be\s+(?:done|fixed
         |updated|sorted|cleaned|paid|sent|renewed)
         |(?:ping|text|call|email|message|nudge|wake|tell)\s+me\s+(?:again\s+)?(?:tomorrow
         |tonight|later|next|on\s|at\s|in\s+\d|when|before)
         |there(?:'s|\s+is|\s+are)\s+still\s+[^!]{3,80}?\s+to\s+(?:do|fix|sort|write|pay
         |finish|handle|send|clear|resolve|discuss)
         |(?:i|we)\s+(?:really\s+|also\s+)?(?:need|have|'ve\s+got|must|should|ought)\s+
         (?:to\s+)?(?!be\b|say\b|admit\b|go\b|have\b|know\b|get\s+going)
          \w+\b[^,;!]*\b(?:tonight|tomorrow|this\s+(?:afternoon|evening|week)|next\s+(?:week
         |month|\w+day)|(?:before|after)\s+(?:the|we|my|our)\s+\w+)\b)""",
    reads("task", many=True),
)

_add(
    "haven't have later",
    r"^(?:i|we)\s+(?:still\s+)?(?:haven't|have\s+not)\s+(?:yet\s+)?(?:paid|sent|booked|filed|renewed"
    r"|replied|submitted|signed"
    r"|ordered|returned|registered|answered|scheduled|cancell?ed|uploaded|reviewed|tested|merged"
    r"|deployed|documented)\b"
    r"|^later\s*,?\s*(?:please\s+)?(?:also\s+)?(?:translate|add|write|fix|update|check|review|send"
    r"|test|do|clean|handle)\b"
    r"|^(?:i|we)\s+(?:have|need|'ve\s+got|must|should)\s+(?:to\s+)?(?:talk\s+about|discuss|revisit"
    r"|pick\s+up|drop\s+off|call|meet"
    r"|be\s+at|leave|catch)\b[^,;!]*\b(?:next\s+time|at\s+(?:\d|noon)|by\s+\d)",
    reads("task", many=True),
)

_add(
    "changed moved instead rather switch going goes",
    r"^(?:(?P<attribute>(?:the|our|my)\s+[\w' -]{2,30}?)\s+(?:has\s+|have\s+)?(?:changed|moved|been\s+"
    r"(?:moved|changed))\s*[,:;—–-]+"
    r"\s*(?:it's|it\s+is|it\s+will\s+be|to|now)\s+(?:now\s+)?(?P<value>[^,;]{2,50})|"
    r"(?P<value2>[\w' -]{2,30}?)\s+(?:instead\s+of"
    r"|rather\s+than)\s+(?P<old>[\w' -]{2,30})[.]?$|switch\s+(?:back\s+|over\s+)?to\s+(?P<value3>[^,;]{2,40})$)",
    lambda m: (
        None
        if len(m.string.split()) > 14
        or re.match(r"(?:i|we|you|use|using|write|keep|put|send|do)\b", m.string, re.IGNORECASE)
        else Reading(
            "decision",
            act="change",
            tags=("@is",) if m["attribute"] else (),
            attribute=m["attribute"] or "",
            value=m["value"] or m["value2"] or m["value3"] or "",
            old=m["old"] or "",
        )
    ),
)

# Facts.
_add(
    "name name's call named",
    r"^(?:my\s+(?:full\s+|first\s+|last\s+|real\s+)?name(?:'s|\s+is)|(?:you\s+can\s+|please\s+|just\s+"
    r"|everyone\s+|people\s+)*call(?:s)?\s+me|i(?:'m|\s+am)\s+(?:called|named)|i\s+go\s+by"
    r"|address\s+me\s+as)\s+(?P<value>(?!when\b|if\b|back\b|later\b|at\b|on\b|crazy\b|tomorrow\b"
    r"|anytime\b|maybe\b|old)[\w.'-]+(?:\s+(?-i:[A-Z])[\w.'-]*){0,2})",
    reads("fact", tags=("@name",)),
)
_add(
    "allergic allergy allergies intolerant intolerance coeliac celiac diabetic",
    r"\b(?:i(?:'m|\s+am)|(?:my|our)\s+(?:wife|husband|son|daughter|kids?|child|baby|partner|mother"
    r"|father|mom|mum|dad|sister|brother|boyfriend|girlfriend|guests?|family|boss|roommate)(?:'s|\s+is"
    r"|\s+are)|i\s+have|i've\s+got|i\s+suffer)"
    r"\b[^,;]{0,40}\b(?:allergic\s+to|allergy|allergies|intolerant|intolerance|coeliac|celiac"
    r"|diabetic)\b|^(?:severe\s+|nut\s+|food\s+)*(?:allergic\s+to|allergy\s*:)",
    reads("fact", many=True),
)
_add(
    "vegetarian vegan pescatarian halal kosher gluten-free keto teetotal sober muslim jewish hindu "
    "christian buddhist pork meat alcohol dairy gluten seafood eat drink shellfish nuts",
    r"^(?:i(?:'m|\s+am|'ve\s+been|\s+have\s+been|\s+became)\s+(?:a\s+|an\s+|now\s+|not\s+|strictly\s+"
    r"|strict\s+|mostly\s+|fully\s+)*(?:vegetarian|vegan|pescatarian|teetotal|teetotaller|sober|keto"
    r"|muslim|jewish|hindu|christian|buddhist|lactose|gluten|on\s+a\s+[\w-]+\s+diet)\b|i\s+(?:don't"
    r"|do\s+not|never|can't|cannot|only|no\s+longer)\s+(?:eat|drink|smoke|consume|touch)\b|i\s+(?:eat"
    r"|keep)\s+(?:only\s+)?(?:halal|kosher|vegan|vegetarian|gluten-free)|we(?:'re|\s+are)\s+(?:a\s+)?"
    r"(?:vegetarian|vegan)\b|i\s+(?:eat|drink)\s+(?:only|no)\b)",
    reads("fact", tags=("@diet",), many=True),
)
_add(
    "live lives moved based located reside living relocated home staying",
    r"^(?:(?:i|we)(?:'m|'re|'ve|\s+am|\s+are|\s+have)?\s+(?:currently\s+|now\s+|just\s+|recently\s+"
    r"|both\s+)*(?:live|living|based|located|reside|residing|moved|relocated|settled)\s+(?:here\s+)?"
    r"(?:in|to|near|outside|at|on|just)|my\s+(?:home\s+|current\s+|new\s+)?(?:city|town|home|hometown"
    r"|location|home\s+address|address)\s+is(?:\s+now)?(?:\s+in)?)\s+(?P<value>(?!touch|a\s+better"
    r"|with|my|peace|the\s+moment|fear)[^,;]{2,60})",
    reads("fact", tags=("@home",)),
)
_add(
    "work works working job employed profession occupation engineer",
    r"^(?:i(?:'m|\s+am)?\s+(?:currently\s+|now\s+|just\s+)*(?:work|working|employed|started\s+working)"
    r"\s+(?:full-?time\s+|part-?time\s+|remotely\s+)?(?:as|at|for|in)\s+(?!a\s+(?:new|big|great|few"
    r"|project)|progress|my|the\s+(?:project|same)|it\b|on)|my\s+(?:job|profession|occupation"
    r"|job\s+title|role|day\s+job)\s+is)\s*(?P<value>[^,;]{2,60})",
    reads("fact", tags=("@job",)),
)
_JOB = (
    r"(?:nurse|teacher|engineer|developer|programmer|doctor|lawyer|designer|student|writer|chef|cook"
    r"|pilot|accountant|manager|researcher|scientist|analyst|consultant|architect|journalist"
    r"|photographer|musician|artist|driver|farmer|founder|ceo|cto|freelancer|freelance|contractor"
    r"|surgeon|dentist|pharmacist|therapist|psychologist|librarian|electrician|plumber|carpenter"
    r"|mechanic|translator|editor|professor|lecturer|instructor|trainer|coach|salesperson|salesman"
    r"|barista|waiter|waitress|paramedic|firefighter|soldier|veteran|veterinarian|vet|admin"
    r"(?:istrator)?|assistant|director|producer|economist|statistician|biologist|chemist|physicist"
    r"|mathematician|historian|retiree|pensioner|stay-at-home\s+\w+|single\s+(?:mom|dad|mother|father"
    r"|parent)|widow(?:er)?|night\s+owl|early\s+bird|morning\s+person|native\s+\w+\s+speaker|beginner"
    r"|novice|newbie|citizen|resident|undergraduate|graduate|phd|intern|nanny|tutor|sysadmin|devops"
    r"|sre|dba|product\s+owner|scrum\s+master|entrepreneur|shop\s+owner|business\s+owner|homeowner"
    r"|tailor|baker|butcher|hairdresser|realtor|broker|banker|auditor|actuary|clerk|secretary"
    r"|receptionist|officer|inspector|technician|operator|welder|sailor|captain|priest|pastor|monk"
    r"|judge|politician|diplomat|vegetarian|vegan|muslim|left-?hander|diabetic|colou?r-?blind"
    r"|wheelchair\s+user)"
)
_add(
    "i'm i i've",
    rf"^i(?:'m|\s+am|'ve\s+(?:now\s+)?been|\s+have\s+been)\s+(?:currently\s+|now\s+|actually\s+"
    rf"|working\s+as\s+)?(?:an?\s+|the\s+)(?:[\w-]+\s+){{0,4}}?{_JOB}\b(?!\s+(?:at\s+heart))(?P<value>)",
    lambda m: Reading("fact", tags=("@job",), value=m[0][3:]),
)
_add(
    "i'm i",
    r"^i(?:'m|\s+am)\s+(?:currently\s+|now\s+|also\s+|officially\s+)?(?:\d{1,3}(?:\s+years?\s+old|"
    r"(?=\s*(?:[.,;]|$|and\b)))|(?:from|originally\s+from|native\s+to)\s+(?-i:[A-Z])|left-?handed"
    r"|colou?r-?blind|deaf|blind|dyslexic|pregnant|married|divorced|engaged\s+to|single(?!\s+(?:\w+))"
    r"|retired|unemployed|self-employed|bilingual|autistic|on\s+(?:\w+\s+)?(?:medication|insulin|leave"
    r"|blood|a\s+\w+\s+(?:diet|budget|visa|plan)|(?:pacific|eastern|central|mountain)\s+time)|in\s+"
    r"(?:the\s+)?(?:\w+\s+time\s?zone|(?:cet|gmt|utc|pst|est|ist)\b)|using\s+(?:a\s+)?(?:mac|macos"
    r"|windows|linux|ubuntu|python\s+\d|an?\s+iphone|android)|claustrophobic|afraid\s+of\s+(?:flying"
    r"|heights)|not\s+a\s+(?:native|programmer|developer|morning))",
    reads("fact", tags=("@self",), many=True),
)
_add(
    "birthday anniversary phone number email e-mail address timezone zone age height weight size "
    "blood visa passport wife husband son daughter dog cat partner kids children boss manager team "
    "company wife's husband's dog's cat's son's daughter's pet major employer car laptop native "
    "mother language skin insurance doctor landlord roommate",
    r"^(?:my|our)\s+(?P<attribute>(?:\w+\s+)?(?:birthday|anniversary|phone(?:\s+number)?|number"
    r"|e-?mail(?:\s+address)?|address|time\s?zone|age|height|weight|(?:shoe|shirt|ring|dress)\s+size"
    r"|blood\s+type|visa|passport|wife|husband|son|daughter|dog|cat|partner|kids|children|boss|manager"
    r"|team|company|pet|major|employer|car|laptop|(?:native|mother)\s+(?:language|tongue)|skin\s+type"
    r"|insurance|doctor|landlord|roommate)(?:'s)?(?:\s+name)?)\s*(?:is|are|has|have|was\s+born)\s+"
    r"(?!not\s+sure|so\b|such\b|very\b|really\b|been\b|always\b|amazing|great|awesome|doing|the\s+"
    r"(?:best|cutest)|like\b|\w+ing\b|excited|happy|super|also\b|still\b|just\b|all\b|my\b|a\s+(?:huge"
    r"|big|great|lot|blast))(?P<value>[^,;]{1,60})",
    lambda m: Reading("fact", value=m["value"], attribute=m["attribute"], tags=("@is",)),
)
_add(
    "have has got own drive speak take use run play",
    r"^i(?:'ve\s+got|\s+have|\s+own|\s+drive|\s+speak|\s+take|\s+use|\s+run|\s+suffer\s+from)\s+"
    r"(?:\w+\s+){0,3}?(?:diabetes|asthma|hypertension|high\s+blood\s+pressure|epilepsy|migraines?|adhd"
    r"|arthritis|dyslexia|celiac|a\s+(?:heart|back|knee|bad|\w+\s+condition)\b[\w ]*|anxiety"
    r"|depression|insomnia|(?:one|two|three|four|five|\d+|a)\s+(?:\w+\s+)?(?:kids?|children|sons?"
    r"|daughters?|dogs?|cats?|brothers?|sisters?|siblings?|twins)|tesla|toyota|honda|ford|bmw|audi|car"
    r"|truck|bike|french|spanish|german|chinese|english|mandarin|japanese|italian|portuguese|russian"
    r"|korean|arabic|hindi|metformin|insulin|aspirin|warfarin|ibuprofen|statins?|antidepressants"
    r"|macos?|macbook|mac|windows|linux|ubuntu|vim|emacs|vs\s?code|intellij|iphone|android|a\s+"
    r"(?:small\s+)?(?:business|company|bakery|shop|restaurant|startup|farm))\b",
    reads("fact", many=True),
)
_add(
    "turn person usually work free available unavailable busy away vacation holiday hours",
    r"^i(?:'ll)?\s+(?:turn\s+\d+|(?:usually|normally|generally|typically|only)\s+(?:work|wake|get\s+up"
    r"|go\s+to\s+bed|eat|exercise|train|travel|fly|commute|sleep|start|finish)\b|work\s+(?:from"
    r"|nights?|(?:\w+\s+)?shifts|late|evenings|weekends|remotely|part-time|full-time|shifts)|(?:can"
    r"|could)\s+only\s+\w+)|^i(?:'m|\s+am"
    r"|'ll\s+be|\s+will\s+be)\s+(?:only\s+)?(?:(?:free|available|unavailable|reachable|busy|off|away"
    r"|out\s+of\s+office|on\s+(?:vacation|holiday|leave|parental|maternity))\s+(?:only\s+|from|until"
    r"|on|in|after|before|between|every|the|till|during|\d)|(?:not\s+|more\s+of\s+|really\s+)*an?\s+"
    r"(?:\w+\s+){0,2}person\b)",
    reads("fact", tags=("@self",), many=True),
)
_add(
    "our",
    r"^our\s+(?:company|team|family|office|fiscal|school|store|shop|product|app|customers?|users?"
    r"|clients?|budget|policy|main|head|headquarters|startup|firm|department|household)"
    r"\b[\w' -]{0,30}?\s+(?:is|are|has|have|starts?|ends?|sells?|makes?|opens?|closes?|consists?"
    r"|lives?|uses?|employs?|speaks?)\b(?!\s+(?:so|such|really|very|always|amazing|great|been|doing"
    r"|getting))",
    lambda m: None if m.string.rstrip().endswith("!") else Reading("fact", many=True),
)
_add(
    "born grew",
    r"^i\s+(?:was\s+born|grew\s+up)\s+(?:in|on)\b",
    reads("fact", many=True),
)

_add(
    "work fly drive travel wear speak answer check take attend smoke have mornings weekends",
    r"^i\s+(?:(?:don't|do\s+not|never|won't|no\s+longer)\s+(?:work|fly|drive|travel|wear|smoke|take\s+"
    r"(?:calls|meetings"
    r"|sugar|milk)|answer\s+(?:calls|emails|the)|check\s+(?:email|my)|attend|speak\s+(?-i:[A-Z]))\b|"
    r"(?:can't|cannot|can\s+not)"
    r"\s+(?:have\s+(?!fun|enough|it\b)|eat|drink|fly|drive|do\s+(?:mornings|weekends|mondays|fridays)"
    r"|hear\s+well|swim|work"
    r"\s+(?:on|late|weekends)))",
    reads("fact", many=True),
)
_add(
    "have got graduated studied majored studying learning turned works lives studies speaks teaches leaves",
    r"^(?:we(?:\s+have|'ve\s+got)\s+(?:a|an|two|three|four|\d+)\s+(?:\w+\s+)?(?:dogs?|cats?|kids?"
    r"|children|sons?|daughters?"
    r"|cars?|offices?|employees|cows|horses|bab(?:y|ies))\b|i\s+(?:graduated|majored|studied"
    r"|did\s+my\s+(?:phd|degree|master))"
    r"\s+(?:from|in|at)\b|i(?:'m|\s+am)\s+(?:currently\s+|also\s+)?(?:learning\s+(?-i:[A-Z])"
    r"|studying\s+(?:for\s+)?\w+)"
    r"|i\s+(?:just\s+|recently\s+)?turned\s+\d|my\s+(?:wife|husband|partner|son|daughter|brother"
    r"|sister|mother|father|mom|dad"
    r"|boyfriend|girlfriend|roommate)\s+(?:works|lives|studies|speaks|teaches|turns)\b)",
    reads("fact", many=True),
)

_add(
    "worked hearing take into",
    r"^i(?:'ve|\s+have)\s+(?:worked|been\s+working)\s+(?:in|at|for|as)\b[^!]*\b(?:years?|since)\b|^i"
    r"(?:'m|\s+am)\s+(?:hard\s+of"
    r"\s+hearing|short-sighted|near-?sighted|dyslexic|in\s+a\s+wheelchair)|^i\s+take\s+(?:\w+\s+){0,2}"
    r"(?:thinners|pills|medication"
    r"|meds|tablets|antibiotics|supplements|injections)\b",
    reads("fact", many=True),
)

# Preferences.
_add(
    "prefer preference favorite favourite rather fan fond partial dislike hate detest stand enjoy "
    "like love better best easier tend keen",
    r"""^(?:i(?:'d|\s+would)?\s+(?:really\s+|generally\s+|usually\s+|much\s+|personally\s+|always\s+
         |strongly\s+|still\s+|also\s+|typically\s+|actually\s+|definitely\s+)*prefer\b|my\s+(?:strong\s+
         |personal\s+)?preference\s+(?:is|would)|i(?:'d|\s+would)\s+(?:much\s+)?rather\s+(?:you|have
         |not\b(?!\s+(?:say|relive|talk\s+about))|get|use|keep|be(?!\s+safe)|eat|drink|fly|stay|avoid|pay
         |work|meet|see|go\s+with|the|read|sit|travel|take|drive|live|receive|talk)\b|i\s+(?:really\s+
         |absolutely\s+)?(?:dislike|detest|hate|can't\s+stand|cannot\s+stand)\s+(?!to\s+(?:say|admit|be
         |break)|that\s+(?:for|i)|when\s+that|it\s+when\s+(?:that|people)|seeing|how)\w
       |i\s+(?:really\s+)?(?:don't|do\s+not|never)\s+(?:really\s+|particularly\s+)?(?:like|enjoy
         |love|care\s+for|want\s+(?:any|to\s+(?:see|hear|receive)|you|anything|long|emails?|\w+s\b
         (?<!his)))\b(?!\s+(?:it|that|this|them|how|the\s+(?:way|thought|idea|feeling)|to\s+(?:think|brag
         |admit|say))\b)|i(?:'m|\s+am)\s+(?:really\s+|just\s+)?(?:not\s+)?(?:a\s+|much\s+of\s+a\s+)?
         (?:big\s+|huge\s+)?(?:fond\s+of|partial\s+to)\s+(?!it\b|this|that)|i(?:'m|\s+am)\s+not\s+(?:a\s+
         |much\s+of\s+a\s+)?(?:big\s+|huge\s+)?fan\s+of
       |i\s+(?:really\s+|always\s+|usually\s+)?(?:like|love|want|take)\s+my\s+\w+|i\s+
         (?:really\s+)?(?:like|love)\s+(?:it\s+when\s+you\s+(?:use|give|keep|explain|answer|write|reply
         |add|show|list|are)|\w+(?:\s+\w+)?\s+(?:better|more)\s+than)|(?:\w+\s+){1,4}(?:works?|suits?
         |fits?|is|are)\s+(?:best|better|easiest|easier|preferable|ideal)\s+(?:for\s+|with\s+)?me\b|i\s+
         (?:really\s+|usually\s+)?enjoy\s+(?:\w+\s+){1,3}?(?:on|in|at|more|most|every|before|after|with)
         \s+(?:the\s+)?(?:weekends?|the\s+(?:morning|evening)s?|than|weekends|\w+day|coffee|tea|sugar
         |milk|breakfast|dinner|lunch)|i\s+tend\s+to\s+(?:prefer|like|avoid)|i(?:'d|\s+would)\s+(?:like
         |love|appreciate)\s+(?:my|all|your|any|the|short|shorter|longer|more|less|fewer|brief|only|to\s+
         (?:get|receive|have)\s+(?:my|all|your|short))\b)""",
    lambda m: Reading(
        "preference",
        negative=bool(
            re.search(
                r"\b(?:dislike|detest|hate|stand|don't|do\s+not|never|not)\b", m[0], re.IGNORECASE
            )
        ),
    ),
)
_add(
    "favorite favourite fave",
    r"^my\s+(?:all-?time\s+|absolute\s+)?(?:favou?rite|fave)\s+(?P<attribute>[\w ]{2,30}?)\s+(?:is"
    r"|are)\s+(?!when|the\s+one|probably|definitely|how|that|just)(?P<value>[^,;]{2,60})",
    reads("preference", tags=("@favourite",)),
)
_add(
    "like love enjoy",
    r"^i\s+(?:really\s+|do\s+)?(?:like|love)\s+(?!(?:it|that|this|you|your|how|the|them|to|her|him|his"
    r"|their|these|those|what|when|where|all|a|an|my|our|seeing|being|having|hearing|doing|getting"
    r"|making|and|both|\w+ing)\b)(?:[\w-]+\s+){0,3}(?!too\b|much\b|already\b|now\b|here\b|that\b|it\b"
    r"|you\b)[\w-]+[.]?$",
    reads("preference", many=True),
)

_add(
    "appreciate find lean gravitate happiest productive agree",
    r"^(?:i(?:'d|\s+would)\s+(?:really\s+|much\s+)?(?:appreciate|prefer|like|love)\s+it\s+if\s+(?:you"
    r"|we|all)\b|i\s+find\s+"
    r"[\w ]{2,40}?\s+(?:easier|clearer|better|more\s+\w+|harder|too\s+\w+|annoying|confusing"
    r"|distracting|useful|helpful)\b"
    r"|i\s+(?:lean|gravitate|usually\s+lean)\s+towards?\b|i(?:'m|\s+am)\s+(?:happiest"
    r"|most\s+productive|at\s+my\s+best)\b"
    r"|i\s+work\s+best\b|[\w ]{3,30}?\s+(?:doesn't|don't|does\s+not|do\s+not)\s+(?:agree|sit\s+well"
    r"|work)\s+(?:with|for)\s+me\b)",
    reads("preference"),
)

_add(
    "into",
    r"^i(?:'m|\s+am)\s+not\s+(?:really\s+|much\s+)?into\s+(?!it\b|this|that)\w",
    reads("preference", negative=True),
)

# Decisions.
_add(
    "ended wound decided settled agreed chosen picked opted chose committed finalized finalised confirmed "
    "approved selected resolved signed",
    r"""^(?:(?:we|i)(?:'ve|\s+have)?\s+(?:finally\s+|now\s+|all\s+|just\s+|already\s+|officially\s+
         |jointly\s+|both\s+|also\s+)*(?:(?:ended|wound)\s+up\s+(?:going|choosing|picking|using
         |buying|renting|hiring)|decided|settled(?=\s+on|\s+that|:)|agreed(?=\s+(?:on|to|that
         |with\s+\w+\s+(?:on|to)))|chosen|(?<!i\s)(?<!i've\s)picked|opted|(?<!i\s)chose|committed\s+to
         |finali[sz]ed|approved|selected|resolved|signed\s+off|confirmed)\b(?!\s+(?:them|it|that\s+spot
         |this|because))(?!\s+to\s+(?:share|take\s+a|try|start|spend|give|go\s+(?:on|for|to|back)
         |challenge|run\s+for|join|adopt|visit|check|do\s+something|pursue|treat|throw|host))(?:\s+(?:on
         |to|that|with|for|upon))?\s*(?:use\s+|go\s+with\s+|make\s+it\s+)?(?P<value>[^,;]{2,50}?)(?=\s+
         (?:as|for|in|on|to|at|because|since|so)\b|[,.;!]|$)|it(?:'s|\s+is|\s+was|\s+has\s+been)\s+
         (?:been\s+)?(?:decided|settled|agreed|final|official|confirmed)\b|(?:the\s+)?(?:team|committee
         |board|group|family)\s+(?:has\s+)?(?:decided|agreed|settled|chose)\b|decided\s*[:—-]
         |agreed\s*[:—-])""",
    reads("decision"),
)
_add(
    "going go gonna went",
    r"^(?:so\s+|then\s+)?(?:(?:we|i)(?:'re|'m|'ll|\s+are|\s+am|\s+will|'ve|\s+have)?\s+(?:just\s+"
    r"|now\s+|definitely\s+|probably\s+)?(?:going|gonna|go|gone|went)(?:\s+(?:to\s+)?go)?|let's\s+"
    r"(?:just\s+)?go|(?:please\s+)?go)\s+(?:with|for(?=\s+(?:the|option|plan|version|a\s+\w+\s+"
    r"(?:theme|design|layout))\b))\s+(?!my\s+\w+\s+to\b|(?:my|the)\s+(?:family|friends?|gut|flow|kids"
    r"|parents|dog|sister|brother|wife|husband|mom|dad|girlfriend|boyfriend)|it\b"
    r"|you\b|him|her|them|that)(?P<value>[^,;]{2,60}?)(?=\s+(?:as|for|in|on|to|because|since|instead)"
    r"\b|[,.;!]|$)",
    reads("decision", tags=("@choice",)),
)
_add(
    "let's lets let",
    rf"""^let'?s\s+(?:just\s+|please\s+|rather\s+|instead\s+)?(?:use|stick\s+(?:with|to)|pick|choose
         |call\s+(?:it|the|this|our)\b(?!\s+(?:a\s+day|quits))|name\s+(?:it|the|this)|settle\s+(?:on|for)
         |switch\s+(?:to|from|over)|change\s+(?:it|that|the)|move\s+(?:it|that|the|to)|target|aim\s+for
         |agree\s+(?:on|that|to)|limit|cap|avoid|drop|postpone|push\s+(?:it|the|that)|assume|host|deploy
         |ship|launch|build|write|store|keep\s+(?:the|all|it\s+(?:at|to|under|in|simple|short)|our)
         |make\s+(?:it\s+(?:{_DATE}|at\b|on\b|\d|a\s+\w+day)|the\s+\w+\s+\w|{_DATE})|(?:do|say|meet
         |schedule|set|book|plan|have|order|take|get)\s+(?:(?:it|this|that|the\s+[\w ]+?|a\s+[\w ]+?
         |our\s+[\w ]+?|lunch|dinner|coffee)\s+)?(?:(?:for|on|at|by|to|until)\s+)?(?:the\s+)?(?:{_DATE}
         |\d|option\b|version\b|plan\s|blue|red|green|larger|smaller|second|first|third|last))(?!\s+
         (?:our|your)\s+(?:head|chin))""",
    _choice,
)
_add(
    "we'll i'll will we're are",
    rf"^(?:we|i)(?:'ll|\s+will)\s+(?:all\s+)?(?!be\s+there|see|let|try|miss|never)\w+\b[^,;!?]*\b(?:on"
    rf"|at)\s+(?:the\s+)?(?P<value>{_DATE}[^,;!?]*)$"
    r"|^we(?:'re|\s+are)\s+not\s+(?!going\s+to\s+(?:lie|make))(?:hiring|selling|buying|moving|offering"
    r"|taking|accepting|supporting"
    r"|shipping|renewing|doing|inviting|changing|using|going\s+to\s+\w+)\b[^!?]*$",
    lambda m: Reading("decision", value=m["value"] or "", negative=" not " in m[0].lower()),
)
_add(
    "is",
    rf"^(?P<value>(?:{_DATE}|(?:the\s+|option\s+|plan\s+)?(?!i\b|how\b|what\b|that\b|so\b|as\b|and\b"
    rf"|what\b)[\w'-]+(?:\s+[\w'-]+)?))\s+it\s+is(?:\s+then)?\s*[.!]?$",
    reads("decision", tags=("@choice",)),
)
_add(
    "i'll we'll choose pick take choosing picking choice vote will decision verdict option",
    r"^(?:(?:i|we)(?:'ll|\s+will)?\s+(?:just\s+)?(?:choose|pick|take|stick\s+with|use|opt\s+for|keep"
    r"|go)\s+(?:the\s+[\w -]+?\s+(?:one|option|plan|version|design|room|package|variant|model|seat"
    r"|flight|train|table|apartment|offer|job|blue|red|size)|option\s+\w+|number\s+\d|plan\s+\w+|"
    r"(?-i:[A-Z])[\w.+-]+)|my\s+(?:final\s+)?(?:choice|pick|answer|decision|vote)\s+is|(?:the|our)\s+"
    r"(?:final\s+)?(?:choice|decision|verdict|answer)\s+is|final\s+(?:answer|decision|choice)\s*[:—-]"
    r"|option\s+\w+\s*(?:please|it\s+is|then)?\s*[.!]?$)",
    _choice,
)
_add(
    "we we'll we're our",
    r"""^(?:we(?:'ll|'re|\s+will|\s+are)?\s+(?:now\s+|only\s+|always\s+|officially\s+|going\s+to\s+
         |be\s+)*(?:use|using|build|building|deploy|deploying|run|running|host|hosting|ship|shipping
         |launch|launching|release|releasing|support|supporting|target|targeting|switch|switching|migrate
         |migrating|standardi[sz]e|charge|price|call|name|meet|meeting|drop|dropping|move|moving|adopt
         |adopting|keep|postpone|delay|start|open|close|hire|store)\s+(?!forward|you\b|up\b|on\s+to
         |a\s+lot|going)(?:it\s+|the\s+|our\s+|to\s+|on\s+|in\s+|at\s+|with\s+|from\s+)*\w)""",
    lambda m: (
        _choice(m)
        if re.search(
            rf"\b(?:{_DATE}|for|on|at|in|to|\d|with|as|(?-i:[A-Z])\w+)",
            m.string[m.end() - 1 :],
            re.IGNORECASE,
        )
        and not m.string.rstrip().endswith("!")
        else None
    ),
)
_add(
    " ".join(_ATTRIBUTE_WORDS)
    + " timezone standup stand-up codename go-live golive kick-off kickoff color colour license licence",
    rf"""^(?P<attribute>(?:(?:(?:the|our|my|this|that|its|your|new|project|final|[\w-]+'s)\s+)+
         (?:[\w-]+\s+){{0,4}}?|(?:new\s+|final\s+)?)(?:{_ATTRIBUTE})(?:\s+(?:date|time|name|day|limit
         |color|colour|version|number))?(?:\s+(?:for|of|on|in|with|to|at)\s+(?:the\s+|our\s+
         |my\s+)?[\w' -]{{2,40}}?)?)\s*(?:is|are|will\s+be|shall\s+be|=|:|(?:is|has|have|has\s+been|was
         |were|got|gets|will\s+be|have\s+been|is\s+being|'s)?\s*(?:now\s+|been\s+|officially\s+)*(?:moved
         |changed|set|postponed|pushed|rescheduled|delayed|extended|increased|raised|reduced|cut|lowered
         |fixed|capped|brought\s+forward|shifted|bumped|updated|switched|renamed)(?:\s+(?:back|up|down
         |out))?\s+(?:to|for|at|on|by|until|from))\s+(?!(?:off[\s-]limits|forbidden|prohibited
         |banned|confidential|mandatory|required|out\s+of\s+bounds|never|not\s+(?:sure|clear|set)|so|such
         |very|really
         |quite|pretty|too|amazing|awesome|great|good|nice|cool|beautiful|wonderful|perfect|incredible
         |going|coming|a\s+(?:bit|great|lot|good|big|huge|nice|wonderful|amazing|blast|problem|mess)
         |the\s+(?:best|worst|most|same|one|problem)|what|where|how|why|that|like|over|here|there|to\s+
         (?:give|get|make|keep|help|be|inspire|connect|empower|expand|create|share|grow|have|build\s+a)
         |full|special|definitely|indeed|overwhelming|tough|hard|\w+ing|gonna|'s|another|often|usually
         |typically|intentionally|freedom|in\s+transit|to\s+(?:stay|adapt)|my\s+(?:favou?rite)|always
         |just|still|broken|down|full|weird|wrong|failing|slow|fine|ready|done|about|lovely|key|important
         |getting|making|looking|all)\b)(?P<value>[^;]{{1,80}})""",
    lambda m: Reading("decision", value=m["value"], attribute=m["attribute"], tags=("@is",)),
)
_add(
    "final decision official settled decided verdict settles deal",
    r"^(?:(?:so\s+|ok(?:ay)?\s+)*(?:final\s+(?:call|decision|answer|verdict|choice)|decision"
    r"(?:\s+made)?|that\s+settles\s+it"
    r"|it's\s+(?:official|settled|decided|final)|done\s+deal))\s*[,:;—–-]\s*(?P<value>\S[^,;]{2,60})",
    reads("decision"),
)
_add(
    "choosing picking taking opting sticking keeping dropping buying switching cancelling canceling moving launching",
    r"^(?:i|we)(?:'m|'re|\s+am|\s+are)\s+(?:now\s+|definitely\s+|officially\s+)?(?:choosing|picking"
    r"|taking\s+the|opting\s+for"
    r"|sticking\s+(?:with|to)|keeping\s+the|dropping|buying\s+the|switching\s+(?:to|from)|cancell?ing"
    r"|launching|moving\s+to)"
    r"\s*(?!it\b|this\b|that\b)(?P<value>[^,;!]{2,60})$",
    reads("decision", tags=("@choice",)),
)
_add(
    "approved signed confirmed decided agreed chose picked rejected accepted responsible charge "
    "handling leading owns",
    r"^(?:(?:the|our|my)\s+)?(?:client|customer|board|team|management|ceo|committee|boss|manager"
    r"|investors?|landlord|publisher)"
    r"\s+(?:has\s+|have\s+|just\s+|finally\s+)*(?:approved|signed\s+off|confirmed|decided|agreed|chose"
    r"|picked|rejected|accepted)"
    r"\b|^(?:(?:the|our)\s+)?[\w-]+(?:\s+[\w-]+)?\s+(?:is|are|will\s+be)\s+(?:now\s+)?"
    r"(?:responsible\s+for|in\s+charge\s+of"
    r"|on\s+call|taking\s+over|handling\s+the|leading\s+the|the\s+owner\s+of|the\s+point\s+of\s+contact)\b",
    lambda m: (
        None
        if re.match(r"(?:i|you|he|she|they|it|who)\b", m[0], re.IGNORECASE)
        else Reading("decision")
    ),
)
_add(
    "runs listens lives sits goes starts begins ends closes opens leaves departs arrives lands",
    r"^(?P<attribute>(?:the|our|my|this)\s+[\w' -]{2,40}?)\s+(?:runs|listens|lives|sits|is\s+hosted"
    r"|is\s+deployed|goes\s+live|starts|begins|ends|closes|opens|leaves|departs|arrives|lands)\s+(?:on"
    r"|at|in|under|by|to|behind"
    r"|every|from)\s+(?P<value>[^,;!]{1,60})$",
    lambda m: (
        None
        if m.string.rstrip().endswith("!")
        else Reading("decision", value=m["value"], attribute=m["attribute"], tags=("@is",))
    ),
)
_add(
    "will",
    r"^(?:the|our)\s+[\w' -]{2,40}?\s+(?:will|shall)\s+(?:only\s+|always\s+|not\s+)?(?:be\s+(?:\w+ed"
    r"|built|written|sent|done|held|run|sold|made|in|on|at|a|the)|use|support|run|have|cost|ship"
    r"|take\s+place|happen|last|lead|handle|host|report|pay|start|include|cover|replace|stay|remain"
    r"|need|require)\b",
    lambda m: None if m.string.rstrip().endswith("!") else Reading("decision"),
)
_add(
    "minimum maximum default primary deadline target database framework language venue budget limit choice winner "
    "provider vendor contact lead owner codename name pick decision plan reviewer standard baseline manager supplier "
    "caterer photographer host",
    r"^(?P<value>[\w.+-]+(?:\s+[\w.+-]+){0,3}?)\s+(?:is|are)\s+(?:now\s+)?(?:the|our|my)\s+(?:new\s+"
    r"|official\s+|final\s+|main\s+|preferred\s+|only\s+)*(?P<attribute>(?:[\w-]+\s+){0,2}?(?:minimum"
    r"|maximum|default|primary|deadline"
    r"|target|database|framework|language|venue|budget|limit|choice|winner|provider|vendor|contact"
    r"|lead|owner|codename|name|pick|decision|plan|reviewer|standard|baseline|manager|supplier|caterer"
    r"|photographer|host))\b",
    reads("decision", tags=("@is",)),
)
_add(
    "happen happens place due out",
    rf"""^(?P<attribute>(?!(?:i|it|that|this|things?|good|bad|what|they|we|you)\b)[\w' -]{{3,30}}?)\s+
         (?:happen|take\s+place
         |go\s+out|(?:is|are)\s+due)\s+(?:only\s+)?(?:on|at|every|by|in)\s+(?:the\s+)?
         (?P<value>{_DATE}[^,;!]{{0,30}})""",
    reads("decision", tags=("@is",)),
)
_add(
    "is are will be moved falls takes happens starts ends",
    rf"""^(?P<attribute>(?:the|our|my)\s+[\w' -]{{2,40}}?)\s+(?:is|are|will\s+be|falls|takes\s+place
         |happens|starts|ends|begins)\s+(?:now\s+)?(?:scheduled\s+|planned\s+|set\s+|due\s+)?(?:for\s+
         |on\s+|at\s+|by\s+)?(?P<value>(?:the\s+)?(?!today|tomorrow|tonight|next)(?:{_DATE})
         [^,;]{{0,40}})""",
    lambda m: (
        None
        if m.string.rstrip().endswith("!")
        else Reading("decision", value=m["value"], attribute=m["attribute"], tags=("@is",))
    ),
)
_add(
    "move change switch postpone push make rename replace raise lower increase reduce extend "
    "reschedule",
    r"""^(?:please\s+)?replace\s+(?P<old2>[\w' -]{2,30}?)\s+(?:with|by)\s+(?P<value2>[^,;]{2,40})|^
         (?:please\s+|let's\s+|can\s+we\s+|actually\s+)?(?:move|change|switch|postpone|push|rename
         |replace|raise|lower|increase|reduce|extend|reschedule|bump|shift|set)\s+(?P<attribute>(?:the
         |our|my|it|that|all)\b[\w' -]{0,50}?)\s+(?:back\s+|over\s+|from\s+(?P<old>[\w' -]{2,30}?)
         \s+)?(?:to|with|for|until|by|at)\s+(?P<value>[^,;]{1,60})""",
    lambda m: Reading(
        "decision",
        act="change",
        tags=("@is",),
        attribute=m["attribute"] or "",
        value=m["value"] or m["value2"] or "",
        old=m["old"] or m["old2"] or "",
    ),
)
_add(
    "instead",
    r"^instead\s+of\s+(?P<old>[\w' -]{2,40}?),?\s+(?:please\s+|let's\s+|we(?:'ll)?\s+)?(?:use"
    r"|go\s+with|do|take|have|pick|choose|try|call|write|say|meet|send)\s+(?P<value>[^,;]{2,40})",
    reads("decision", act="change"),
)
_add(
    "going will moved changed raised increased reduced cut lowered extended postponed rescheduled pushed "
    "renamed bumped switched migrated went dropped rose rises goes replaced",
    r"""^(?:we|i|they)(?:'ve|\s+have)?\s+(?:just\s+|now\s+|already\s+)*(?:moved|changed|raised|increased
         |reduced|cut|lowered|extended|postponed|rescheduled|pushed|renamed|bumped|set|replaced)\s+
         (?P<attribute>(?:the|our|my)\s+[\w' -]{2,40}?)\s+(?:back\s+|up\s+|down\s+|from\s+
         (?P<old>[\w', -]{1,30}?)\s+)?(?:to|until|with|by|at)\s+(?P<value>[^,;]{1,50})
         |^(?P<attribute2>(?:the|our|my)\s+[\w' -]{2,40}?)\s+(?:(?:went|goes|has\s+gone|(?:is
         |are)\s+going|will\s+go)(?=\s+(?:up|down|back|from)\b)|dropped|rose|moved|moves|changed|changes
         |has\s+dropped|will\s+(?:rise|drop|increase))\s+(?:up\s+|down\s+|back\s+|from\s+
         (?P<old2>[\w', -]{1,30}?)\s+)?to\s+(?P<value2>[^,;]{1,50})
         |^(?:we|i)(?:'ve|'re|\s+have|\s+are)?\s+(?:just\s+|now\s+)?(?:switched|migrated|moved
         |switching|migrating|moving|changed|changing)\s+(?:over\s+)?(?:from\s+(?P<old3>[\w'. -]{2,30}?)
         \s+)to\s+(?P<value3>[^,;]{1,50})""",
    lambda m: Reading(
        "decision",
        act="change",
        tags=("@is",) if m["attribute"] or m["attribute2"] else (),
        attribute=m["attribute"] or m["attribute2"] or "",
        value=m["value"] or m["value2"] or m["value3"] or "",
        old=m["old"] or m["old2"] or m["old3"] or "",
    ),
)
_add(
    "make",
    rf"^(?:please\s+|actually\s+)?make\s+(?:it|that|the\s+[\w ]+?)\s+(?P<value>(?:{_DATE}|\d|(?:a\s+)?"
    rf"(?:blue|red|green|black|white|larger|smaller|shorter|longer))[^,;]{{0,40}})",
    reads("decision", act="change", tags=("@choice",)),
)
