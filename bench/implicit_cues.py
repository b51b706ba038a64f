"""Invented remarks of a user, each with a later question that depends on it and shares hardly a word with it."""

from __future__ import annotations

__all__ = ("CUES",)

_ENGLISH = """
My throat swells up whenever I eat anything with peanuts in it. | Could you suggest a sauce for the noodles tonight?
I get terribly seasick, even on a calm lake. | What would be a nice way to celebrate our anniversary by the coast?
We just adopted a greyhound who cannot be left alone. | I'm thinking of booking a flight for a week away, any tips?
I sold the car last spring and never looked back. | How should I get to the airport tomorrow at five?
The doctor says my blood pressure is far too high. | Is this ready-made soup a good lunch for me?
Heights make my knees shake, even a balcony does. | Which attractions in Paris should I put on the list?
I have been fasting from dawn to sunset since Monday. | When should we schedule the team lunch?
Our twins are due in November. | Would a two-seater be a sensible buy this year?
I lost most of my hearing in the left ear as a child. | Where should I sit at the concert on Friday?
I'm colour-blind, red and green look the same to me. | Pick a palette for the chart in my presentation.
My grandmother raised me, my parents were never around. | What should I write on a card for Mother's Day?
I stopped drinking two years ago and mean to keep it that way. | What can I bring as a gift for myself from Bordeaux?
The landlord forbids drilling into the walls. | How do I hang up these shelves?
I work nights at the bakery and sleep until noon. | Could you find a yoga class for me?
My laptop has only four gigabytes of memory. | Can I run this language model locally?
I grew up speaking Portuguese at home. | Which colleague could translate the letter from Lisbon?
I broke my wrist skating last week, the cast stays on for a month. | Let's plan my tennis training for the next days.
We keep kosher at home. | Find me a recipe for a Sunday roast.
I'm saving every penny for a deposit on a flat. | Should I get the newest phone?
My sister and I have not spoken since the funeral. | Draw up the guest list for my birthday.
I have a meeting with the bank on the ninth that I cannot miss. | Is the second week of the month fine for the hike?
Pollen makes my eyes water from April to June. | When is the best time for a picnic in the meadows?
I finished my thesis on medieval trade routes in May. | What topic could I give a talk about at the history club?
Crowds give me panic attacks. | Should we go and see the carnival parade?
I switched to a plant-based diet in January. | Which dish would you order at the steakhouse?
My flat is on the fifth floor and there is no lift. | Would the heavy oak wardrobe be a good choice?
I still use a phone with buttons and love it. | How can I pay for parking with this app?
Our router dies whenever it rains. | Is it safe to hold the interview by video in stormy weather?
I gave all my winter clothes to charity when we left Norway. | What do I need to pack for Lapland?
I am left-handed. | Which scissors should I get for the sewing course?
My contract ends in March and they will not extend it. | Can I commit to a two-year loan?
The smell of lavender gives me a headache. | Which candle would suit my bedroom?
"""

_CHINESE = """
我一吃海鲜就浑身起疹子。 | 今晚聚餐点什么菜比较好？
我有恐高症，站在三楼阳台都腿软。 | 去张家界玩哪些景点适合我？
我上个月把驾照弄丢了，还没补办。 | 周末自驾去草原怎么安排？
医生说我血糖偏高，要严格控制。 | 下午茶推荐点什么？
我每天早上五点就要到菜市场摆摊。 | 今晚有场十二点的电影，要不要去看？
我家在六楼，没有电梯。 | 这台钢琴该不该买？
我对猫毛过敏，一碰就打喷嚏。 | 朋友出差让我帮忙照看宠物，合适吗？
我正在攒钱付首付，每一分都要省着花。 | 新出的手机要不要换？
我从小在广州长大，家里都说粤语。 | 香港客户来访，派谁去接待？
我的左耳几乎听不见。 | 看话剧选哪边的座位？
我已经戒酒三年了。 | 去青岛旅游带点什么回来自己享用？
下个月我太太就要生了。 | 公司想派我出国两个月，怎么回复？
我上周打球扭伤了脚踝，医生让静养。 | 帮我制定这周的健身计划。
我是回族，饮食上比较讲究。 | 团建吃什么好？
我家的网络一到晚上就断。 | 视频面试约在几点合适？
我不太会用智能手机，还在用老人机。 | 地铁票怎么买方便？
我和哥哥因为老房子的事好几年没来往了。 | 婚礼请柬都发给谁？
我一坐船就吐得厉害。 | 去舟山群岛怎么玩？
人一多我就心慌喘不过气。 | 国庆去看升旗怎么样？
我去年写的毕业论文是关于敦煌壁画的。 | 读书会让我分享一个题目，讲什么好？
"""


def _pairs(lines: str) -> tuple[tuple[str, str], ...]:
    pairs = [line.split(" | ") for line in lines.strip().splitlines()]
    return tuple((said, asked) for said, asked in pairs)


CUES = {"en": _pairs(_ENGLISH), "zh": _pairs(_CHINESE)}
"""By language: what the user said, and what is asked later."""
