"""Data of the token estimate: kinds of characters, tables of frequent words, and prices in tokens (profiles).

Kinds: vocabularies hold whole words of some scripts, syllables of others and only raw UTF-8 bytes of the
rest, so prices are set per script. `CharacterKind` names the groups of characters that cost the same; a code
point in none of them costs its UTF-8 length, which no byte-level tokenizer exceeds. `CJK` is used only by the
documented rule of thumb.

Frequent words: a tokenizer uses one token for a frequent word and several for a rare one, and tokenizers of
different makers agree on which are frequent. The tables hold only entries on which they agree. Seven
vocabularies were compared: o200k_base, llama3, qwen3, deepseek_v3, gemma3, glm4 and kimi_k2.

- A Chinese word is listed when all seven hold it as one token.
- A Chinese character is listed when o200k_base, llama3 and three of the other five hold it: vocabularies
  made in China leave out many traditional characters. `HAN_CORE` are those that cl100k_base holds as well.
- A letter triple is listed when it is among the 3,000 heaviest in the 26,562 space-led Latin words that
  all seven hold, a word weighing 1 / (10 + its place in the order of o200k_base); `^` and `$` are the
  ends of a word.

`bench/fit_estimate.py --tables` derives the tables again and says whether this file agrees.

Profiles: one set of prices per family of vocabularies. A price is at the upper end of the averages measured
with real tokenizers; the margin covers the rest.

- Latin words: frequency lists of 23 languages in Latin script and random letters, against o200k_base;
  the rates are the cheapest for English at which hardly any language is under its true sum.
- `script`: user-interface texts translated into about 100 languages; for each script an expensive language
  was used. Kinds that are not words (emoji, symbols, rules): every character of the block was encoded.
- Chinese: exact by construction for listed words and characters; for the rare ones, every character of
  the unified block was encoded (2.06 tokens in o200k_base, 2.45 in cl100k_base).
- Signs and blanks: source code in Python, JavaScript, HTML, CSS and C, and JSON.
- The margin, and the last digit of the word rates: 50,000 texts of 1 to 20,000 tokens in Chinese and
  English, code and JSON (chats, tool calls and results, news, documentation), chosen so that in hardly
  any class the estimate of 1 text in 100 is too low. All texts were used for fitting; none was held out.
  On 11 other classes of English and simplified Chinese text, which were only checked between the last
  steps, the sums were 10 to 22 % above the true counts, and 0.0 to 1.1 % of the estimates were too low;
  single estimates were up to 31 % too high on average in classes of fragments of about a dozen tokens.
- `ENVELOPE`: the same texts, and translated user-interface texts in 24 languages, against the most expensive of the
  vocabularies in `ENCODINGS` for each text; blanks, signs and emoji by encoding runs and blocks of them.
- `CLAUDE_3`, `CLAUDE_4_7`: the same texts against an independent reconstruction of Claude's counts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from turnfold.errors import InvalidOption

__all__ = (
    "CJK",
    "CL100K_LIKE",
    "CLAUDE_3",
    "CLAUDE_4_7",
    "ENVELOPE",
    "HANGUL_SYLLABLES",
    "HAN_CHARACTERS",
    "HAN_CORE",
    "HAN_WORDS",
    "LATIN",
    "LETTER_TRIPLES",
    "MODERN",
    "PROFILES",
    "SINGLE_DIGITS",
    "CharacterKind",
    "EstimateProfile",
    "kind_of",
)


LATIN: Final = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
"""Latin letters beyond ASCII, as the inside of a character class of a regular expression."""

CJK: Final = re.compile(
    "["
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"  # hangul: jamo, extended jamo, syllables
    "\u2e80-\u303f"  # radicals, description characters, punctuation
    "\u3040-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"  # kana and their extensions
    "\u3100-\u31ef\u3200-\u33ff"  # bopomofo, compatibility jamo, strokes, enclosed, squared
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han: extension A, unified, compatibility
    "\ufe30-\ufe4f\uff00-\uffef"  # vertical, half-width and full-width forms
    "\U00016fe0-\U00018dff"  # ideographic marks, Tangut, Khitan
    "\U0001f200-\U0001f2ff"  # enclosed ideographs
    "\U00020000-\U0003ffff"  # Han: extension B and later, compatibility supplement
    "]+"
)
"""Matches runs of the characters that the documented formula counts as CJK: all that East Asian text is written with.

Punctuation and full-width forms belong to it: an input method types them full-width, they take three
bytes like an ideograph, and a tokenizer gives each a token of its own, which a quarter token would not
cover. Emoji, accented Latin, Cyrillic and all other multi-byte characters do not belong to it. (The ranges for
words and sentences, `turnfold.text.cjk_ranges`, are letters only.)"""


class CharacterKind(IntEnum):
    """Groups of characters that cost the same number of tokens. Letters come first, because only they form words."""

    RUSSIAN = 0
    CYRILLIC = 1
    GREEK = 2
    HEBREW = 3
    ARABIC = 4
    ARABIC_EXTENDED = 5
    CAUCASIAN = 6
    DEVANAGARI = 7
    INDIC = 8
    THAI = 9
    KHMER = 10
    KANA = 11
    HANGUL = 12
    SPARSE = 13
    PUNCTUATION = 14
    SYMBOL = 15
    RULE = 16
    EMOJI = 17
    JOINER = 18


_RANGES: Final = (
    (0x00A0, 0x00BF, CharacterKind.PUNCTUATION),  # Latin-1 signs
    (0x00D7, 0x00D7, CharacterKind.PUNCTUATION),
    (0x00F7, 0x00F7, CharacterKind.PUNCTUATION),
    (0x0386, 0x03CE, CharacterKind.GREEK),
    (0x0400, 0x040F, CharacterKind.CYRILLIC),
    (0x0410, 0x044F, CharacterKind.RUSSIAN),
    (0x0450, 0x045F, CharacterKind.CYRILLIC),
    (0x0490, 0x04BB, CharacterKind.CYRILLIC),
    (0x04D8, 0x04D9, CharacterKind.CYRILLIC),  # of Turkic languages and Mongolian; the rest is rare
    (0x04E8, 0x04E9, CharacterKind.CYRILLIC),
    (0x0531, 0x0587, CharacterKind.CAUCASIAN),  # Armenian
    (0x05D0, 0x05EA, CharacterKind.HEBREW),
    (0x060C, 0x060C, CharacterKind.PUNCTUATION),  # Arabic comma
    (0x061B, 0x061F, CharacterKind.PUNCTUATION),
    (0x0621, 0x0652, CharacterKind.ARABIC),
    (0x066E, 0x06D3, CharacterKind.ARABIC_EXTENDED),
    (0x0900, 0x096F, CharacterKind.DEVANAGARI),
    (0x0980, 0x09FF, CharacterKind.DEVANAGARI),  # Bengali, which costs the same
    (0x0A00, 0x0AFF, CharacterKind.INDIC),
    (0x0B00, 0x0B7F, CharacterKind.SPARSE),  # Odia
    (0x0B80, 0x0DDF, CharacterKind.INDIC),
    (0x0E01, 0x0E5B, CharacterKind.THAI),
    (0x0E81, 0x0FDA, CharacterKind.SPARSE),  # Lao, Tibetan
    (0x1000, 0x109F, CharacterKind.KHMER),  # Burmese
    (0x10D0, 0x10FC, CharacterKind.CAUCASIAN),  # Georgian
    (0x1200, 0x139F, CharacterKind.SPARSE),  # Ethiopic
    (0x1780, 0x17EF, CharacterKind.KHMER),
    (0x200B, 0x200F, CharacterKind.JOINER),  # zero-width marks
    (0x2010, 0x2027, CharacterKind.PUNCTUATION),  # dashes, quotation marks, ellipsis
    (0x2030, 0x206F, CharacterKind.SYMBOL),
    (0x20A0, 0x218F, CharacterKind.SYMBOL),  # currency, letter-like, number forms
    (0x2190, 0x2193, CharacterKind.PUNCTUATION),  # the four plain arrows
    (0x2194, 0x22FF, CharacterKind.SYMBOL),  # other arrows, mathematics
    (0x2460, 0x24FF, CharacterKind.SYMBOL),
    (0x2500, 0x259F, CharacterKind.RULE),  # boxes and blocks
    (0x25A0, 0x25FF, CharacterKind.SYMBOL),
    (0x2600, 0x27BF, CharacterKind.EMOJI),
    (0x3000, 0x3011, CharacterKind.PUNCTUATION),
    (0x3012, 0x303F, CharacterKind.SYMBOL),
    (0x3041, 0x30FF, CharacterKind.KANA),
    (0x3105, 0x312F, CharacterKind.SPARSE),  # bopomofo
    (0xAC00, 0xD7A3, CharacterKind.HANGUL),
    (0xFE0F, 0xFE0F, CharacterKind.JOINER),  # emoji presentation
    (0xFF01, 0xFF20, CharacterKind.PUNCTUATION),  # full-width signs and digits
    (0xFF21, 0xFF3A, CharacterKind.SYMBOL),
    (0xFF3B, 0xFF40, CharacterKind.PUNCTUATION),
    (0xFF41, 0xFF5A, CharacterKind.SYMBOL),
    (0xFF5B, 0xFF65, CharacterKind.PUNCTUATION),
    (0xFF66, 0xFF9F, CharacterKind.SYMBOL),  # half-width kana
    (0x1F000, 0x1FA6F, CharacterKind.EMOJI),
)
_FIRST: Final = tuple(first for first, _, _ in _RANGES)


def kind_of(code_point: int) -> CharacterKind | None:
    """Return the kind of a character by its code point; None if it costs its UTF-8 length in tokens."""
    place = bisect_right(_FIRST, code_point) - 1
    if place < 0:
        return None
    _, last, kind = _RANGES[place]
    return kind if code_point <= last else None


_HAN_WORDS: Final = (
    "一下一个一些一定一年一样一次一步一点一直一种一级一般一起万元丈夫三个上传上海上的下来下载不了"
    "不会不到不可不同不好不得不断不是不能不要不足不过专业世界业务东西两个个人中华中国中央中心中文"
    "中的为了主义主人主任主要主题之一之前之后之间也是书记了一了解事件事情事故于是亚洲交易交流交通"
    "产业产品产生京都人人人口人员人才人民人物人的亿元什么今天今年今日介绍他们他的代理代码代表令人"
    "以上以下以前以及以后以来价值价格任何任务企业优势优秀会议传奇但是位置住宅体系体育作为作品作用"
    "作者你的使用例如供应保存保护保持保证保险保障信息信用修改停止健康元素先生免费入口全国全球全部"
    "全面公共公司公告公开公式公里公開共同共和关于关系关键关闭其中其他其实具体具有内容内部农业决定"
    "准备几个出了出去出口出售出来出版出现函数分享分别分析分类分钟列表创建创新删除判断利用到了到底"
    "制作制度制造力量办公办法办理功能加入加工加载动物努力包含包括北京区域医学医疗医院十一十三十二"
    "十五十八十分十四协议单位博士卫生历史原因去了参与参加参数参考发展发布发现发生发行发送取得取消"
    "受到变化句话另一另外只是只有只能可以可是可能各种合作合同同时同步名字名称后的启动告诉周年周期"
    "咨询品牌哪里唯一商品問題喜欢回来回答因为因此固定国产国内国家国际图片土地在线地下地区地址地域"
    "地方地点城市培训基地基本基础基金場合增加增长声明声音处理备注多少大会大全大学大家大小大的大量"
    "大阪天堂天天失败女人女子女性好了好的如下如何如果如此姓名委员娱乐媒体字段字符存在学习学校学生"
    "学院孩子安全安排安装完全完成完整官方官网定义实施实现实际实验审核客户家庭容易密码对于对象导致"
    "小姐小学小时小说少女少年就在就是居民展示属于属性岗位州市工业工作工具工程左右已经市场希望帮助"
    "平台平均平方年代年度年的年龄幸福应用应该建立建筑建议建设开发开始开展开放异常引用当前当然形式"
    "形成影响很多得到心理必要必须快速怎么思想性的性能患者您的情况情報想到意义意味意思意见意识感觉"
    "成为成人成功成员成本成立成绩我们我的或者战争所以所属所有手机才能打开执行找到技术技能投资报名"
    "报告报道担当招聘拥有持续指定指导指数按照按钮排名排序接受控制推荐措施描述提交提供提出提升提示"
    "提高搜索摘要播放操作支付支持收入收益改变改革攻击政府政治政策故事效果教学教师教授教育数字数学"
    "数据数组数量整个文件文化文字文学文章料理新增新的新闻方向方式方案方法方面施工旅游旅行无法日期"
    "日本时代时候时间星期是一是否是在显示時間普通智能更加更多更新最佳最后最大最新最近最高有人有关"
    "有效有限朋友服务期待期间未来机会机关机场机构机械权限材料条件来了来源来的来自来说查看查询标准"
    "标题核心根据格式检查检测植物模型模式次数欧美正在正常正式正确死亡比例比赛比较毕业民主民族水平"
    "永久汽车没有治疗法人法国法律法院注册注意活动测试海外消息消费深圳添加游戏漫画点击然后然而照片"
    "版本特别特殊特色犯罪状态环境现代现在现场現在理由理解理论甚至生产生命生成生活用于用品用户由于"
    "申请电子电影电脑电视电话男人男子男性画像登录的一的人的大的小的是的话监督目前目录目标目的直接"
    "直播相信相关看到看看真正真的知识知道研究确定确认確認社会社区禁止福利科学科技移动程序程度空间"
    "突然符合第一第三第二第四答案简单管理类型精品精神系列系统結果组织终于经济经理经营经过经验结合"
    "结束结构结果统计继续综合编号编辑网址网站网络罗斯美元美国老师考虑考试职业联合联盟联系联网股份"
    "股票背景能力能够能源自动自己自治自然自由自身至少航空艺术节点英国英文英语英雄苹果范围获取获得"
    "营业董事虽然蜘蛛行业行为行动行政表现表示要求观看规划规定规模规范视频觉得角色解决設定计划计算"
    "订单认为认识让我记录论坛论文设备设施设置设计访问证券证明评价评论详情语言说明说道请求课程调整"
    "调查负责责任质量购买费用资产资料资格资源资金起来超过足球距离路径身份身体软件输入输出达到过去"
    "过程运动运行返回还是还有这一这个这么这些这是这样这种这里进入进行连接退出选择通信通常通知通过"
    "速度造成道路那个那么那些那里邮箱部分部门都会都市都是配置酒店采用采购里的里面重大重新重点重要"
    "金融金额铁路银行链接销售错误长度问题阅读阶段附近限制限定除了隐藏集中集合集团需求需要青年非常"
    "面积革命音乐页面项目领域领导风险食品首页香港验证高中高度高校高清高速默认"
)
_HAN_CORE: Final = (
    "一万三上下不与专业东两个中串为主么义之也书了事二于五些交产享京人亿今介从他付代以们件价任份企"
    "优会传但位体何余作你使例供価保信修倍值停像元先入全公共关其具内円册再写出击分列则初利别到制前"
    "力功加务动動包化北区十午华单南即历原去县参及友反发取变口只可台右号司合同名后向否含听启告员周"
    "命和品哈商問器四回因国图土在地场址型城基報場填增声处备复外多大天失头女好如始子字存学安宋完定"
    "实审客家容密对导将小少尔就局展山岁州工左已市布常平年并广序库应店度建开异式引张当录形影径待後"
    "得微心必志态思性总息您情意感成我或户所手打找技投报拉持指按换据排接推提播支收改放政效数整文料"
    "断新方族无日时明易星是時景更最月有服期木未本机权束条来板构析果查标样核格案检模次款止正此步歳"
    "段每比民気水求江汽没治法注活流海消清游源火点無然片版物特率环现球理生用由电男画界番登的监目直"
    "相省看県真知码确示社票私种科秒称移程稍税稿空立站章端笑符第等签简算管箱米类系素索约级线组经结"
    "给络统编网置美老考者而联能自至色节英藏行表装西要見见规视角解言計記話読计认议记论设证评试话询"
    "该详语误说请读调象责败账货购费资起超路身车转软载辑输达过运近还这进连述退送选通速造連道邮部都"
    "配释里重量金钟钮链销错键长開間関门闭问间队阳陆限院除雅集雷需非面音页项预频题额首验高黑"
)
_HAN_OTHER: Final = (
    "丁七丈且世丘丝严並丰临丶丸丹丽举乃久乌乎乐乗乘乙九习乡买乱乳乾予争云互井亚亞亡亦亭亮亲什仁仅"
    "仍仓仔仕仙令仪仲伊伍伏休众伙伝伟伤伦伯估伴伸似低住佐佛佩佳來依侧侯侵便係促俄俊俗俺個們倒候借"
    "値倫债假偏做健側偶偷備储催傳傷働價億優儿允兄充光克免児兒党內兩八六兰兴兵典养兼兽冊冒军农冠冬"
    "冰冲决况冷净准凉凌减凝几凡処凯函刀切刊刑划刘刚创判別刷券刺刻剂則剑剧剩副割創劇办助努励劳効势"
    "勇勒務勝募勢勤匹医區千升半协卒卓協卖単博占卡卢卫印危却卷厂厅压厚參又双収叔受古句另叫召史叶吃"
    "各吉吐吗君吧吨吴吸吹吾呀呈呢味呼咨响員哥哦哪哭哲唐售唯唱啊啦啪善喊喜喝單営嗎嗯嘉嘛嘴团団园困"
    "囲図围固圆圈國園圖團圣圳坂均坊坏坐块坚坛坡坦坪埃域培堂堡塑塔塞境墓増墙墨壁士売変夏夕夜够夢太"
    "夫央奇奈奉奏契奔奖套奥奴奶她妇妈妖妙妮妹妻姆姐姑姓委姿威娘娜婆婚婦婷媒嫌孔孙季孤孩學宁它宅宇"
    "守宏宗官宜宝実宣室宫宮害宽宾宿寄富寒寝察實寫寶寸寺寻対寿封専射將專尊尋對導尖尚尤尺尼尽尾尿层"
    "居届屋屏属履岗岛岡岩岳岸峰島崎川巡巧巨差己巴币师希帖帝带師席帮帯帰帶帽幅幕干幸幻幼広庄庆床底"
    "府废座庫庭康廣延廷弃弄弗弘弟弱張強弹强归彦彩役彻彼往征很律徐徒從御復循徳德徽忆忍忘忙応忠快念"
    "忽怀怎怒怕怖急怪恋恐恒恢恩恶悉悟悠患悪悲惊惑惠想愛愿態慎慢慧懂應戏戒战戦截戰戲戴戶戸房才扎払"
    "托扣执扩扫扬扶批承把抓抗折抜択护抱抵押抽担拍拒拓拔招拜拟拥择括拳拼拿挂挑挥振挺捕损捷授掉掌掛"
    "採探控措描插換握援搜搞搬搭携摄摆摇摘摩摸撃撤撮擊操據擦攝攻故敌敏救敗教敢散敦敬敵數斗斯於施旁"
    "旅旋旗既旦旧早昌映春昨昭显晓晚晨普晴晶智暂暖暗暮暴曜曰曲書曼曾替會朋朗望朝末札术朱杀杂杉李材"
    "村杜杨杯杰東松极林枚枝枪架柄柏某染柔柜柱柳柴査栏树校株根桂桃框桌桑档桥梁梅條梦梨梯械棋棒棚森"
    "植検楚業極楼楽概榜構様樂樓標樣横橋機權欠欢欣欧欲歌歡武歩歲歴歷死殊残殖殺母毎毒毕毛毫氏气氣氧"
    "永汇汉汗池污決沃沈沉沒沖沙沟沢河油沿況泉泊泛泡波泥泰泳泽洁洋洗洛洞津洪洲派浅测济浜浦浩浪浮浴"
    "涉润涨液淡深混添済渐減渡温測港湖湾湿満準溪滑满滿漂漏演漢漫潜潮澳激灣灭灯灰灵炉炎炮炸為烈烟烦"
    "烧热焦焼煙煤照熊熟熱燃燕營爆爱爵父爷爸爽牌牙牛牧犬犯状狂狐狗狠独狼猛猜猪猫献玄玉王玛玩玲珍珠"
    "班現琳琴瑞璃環瓜瓦瓶甘甚甜產産田甲申町留略畫異當疆疑疗疫疲疾病症痛療発發白百皆皇皮益盒盖盗盘"
    "盛盟監盤眉眠眼着睛睡督瞬短石矿砂研破础硬碎碰確碼磁磨礼祖祝神祥祭禁福离秀秋秘租秦积種稱稳積穴"
    "究穿突窗竞竟童競竹笔筆筋筑答策節篇築簡籍粉粒粗精糖紀約紅納純紙級紧紫累細紹終組経結絡給統絶經"
    "続維網総緒線編縮總績繁續红纪纯纳纸练细织终绍绝继绩续维绿缓缘缩缺罗罚罪署羅羊群義羽習翔翻翼耀"
    "耐耗耳聊职聘聚聞聯聲職肃肉肌肖股肥肩肯育胆背胎胜胞胡胶胸脂脑脚脱脸腐腕腰腹腾腿膜臣致臺與興舍"
    "舒舞航般舰船艇良艺艾芝芬芯花芳芸苏苗若苦范茶草荐荒荣药荷莉莎莫莱获菌菜華菲营萨萬落葉著葡董蒂"
    "蒙蓝蕉薄薬藝藤虎虑處虚號虫虽蛇蛋蛛蜜融血術街衛衡衣补袋袖被裁裂裏裕補裝製覆規視覚覧親観觀观览"
    "觉触訂訊討訪設許訳診証評詞試誉認語說説誰課調談請論講謝證識警議護讀變讓订讨让训讯讲许访识诉诊"
    "词译诗诚诺课谁谈谋谓谢谱谷豆豊豪貌負財貨販責買貸費貼資賞質購贝负财质贫贴贵贸赏赖赛赞赢赤赫走"
    "赵赶越趣足跌跑距跟跨跳践踏車軍転軽較載輪輯輸轉轮轻较辅辆辛辞辦辰農边辺込迅迎返远违迪迫迷迹追"
    "适逃逆透逐递途這週進逸遇遊運遍過達違遗遠遣適遭選避還那邦邪郎郑郭酒酸醒醫采野鉄銀錄錯録鐘针钢"
    "钱铁银铺锁锋锦镇镜長門閉關闪闲闻阅阪防阴阵阶阻阿附际陈降险陰陵陶陷険陽隆隊階随隐隔際障难雄雑"
    "雙離難雨雪零電震霍霞露青静靠革鞋韓韩響頁頂頃項順須預領頭頻頼題額顔願類顶顺须顾顿领颜風风飛飞"
    "食飯飲養餐館饭饮饰馆香馬駅験驗马驱驶驾骑骨體鬼魂魔魚鱼鲁鲜鳥鸟鸡鹿麗麦麻麼黃黄黎黒默點鼓鼠鼻"
    "齐龄龍龙"
)
# A group is a pair of letters and every letter that may follow it: "abcd" stands for abc and abd.
_LETTER_TRIPLES: Final = (
    "^aabcdefghijklmnopqrstuvwxyz ^baeilortuy ^caehilmoruy ^dabeioruy ^eacdefgiklmnpqrstuvxy "
    "^faeiloru ^gaeiloruy ^haeiortuy ^ibcdfghklmnoprstz ^jaeiosu ^kaehilnoruw ^laeilouy "
    "^maegiorsuy ^nadeghiopuy ^obcdfghiklmnoprstuvwx ^paehilorsuy ^qu ^raehiou "
    "^sacehiklmnopqrtuvwyz ^taehiorsuwxy ^ubiklmnprst ^vaeiou ^waehioruw ^yaeino ^zaeiouw aanr "
    "ab$abeilorsuy ac$acehikqrtuy ad$adeijlmosuvy ael af$efrt ag$aeginorsu ah$ ai$dglmnrst aj$o "
    "ak$aeit al$abcdefgiklmoprstuvwy am$abeimops an$acdegiknostuy ao$ ap$aehiloprst aqu "
    "ar$abcdegiklmnoprstvy as$acehikopstuy at$acefhilmorstu au$cdfglnrstx av$aeio aw$aens ax$i "
    "ay$beimos az$i ba$bcdgklnrsty be$acdefghilnrsty bi$abdegjlnorst bj$e bl$aeiouy bmi "
    "bo$adlmnorstuvwxy br$aeiou bs$ceiot bt$an bu$cdfgilmnrsty by$t ca$bcdlmnprstu cc$aeiou "
    "ce$abdeilmnprst ch$aeinortu ci$adeflnoprstv ck$aegilnsy cl$aeiou co$acdfgilmnoprstuv cqu "
    "cr$aeiouy cs$ ct$aeilorsu cu$abelmprst cy$c da$bdilmnprstvy db$ dca dd$eilr "
    "de$abcdefglmnoprstuvxz dge dh$ di$abcdefglmnoprstuv dju dleiy dmi dn$e do$cegilmnoprsuw "
    "dr$aeiouy ds$ dt$h du$acelmnrst dv$aei dwai dx$ dy$n ea$cdgklmnprstuv eb$aeorsu "
    "ec$aehiklortu ed$degilorsu ee$dfklmnprst ef$aefilortu eg$aeioruy eh$aeior ei$glnrtv ek$s "
    "el$acdefilopstvy em$abeiops en$acdeghijlnorstuv eo$fnpru ep$aehilorstu eq$u "
    "er$abcdefghiklmnoprstuvwy es$acdehiopstu et$acehiorstuwy eu$emrt ev$aeio ew$aeis ex$acehipt "
    "ey$es ez$e fa$bcilmnrstuv fe$abcdelmnrstw ff$eios fi$cdefglnrstvx fl$aeiouy fo$cilnorsu "
    "fr$aeiou fs$e ft$ew fuelnrst fy$ ga$gilmnrstz ge$abdlmnorstw ggeir gh$belot gi$abceflnorstv "
    "gl$aeioy gme gn$aeios go$adilnortv gr$aeiou gs$ gth gu$aeilmnrsy gy$ ha$bcdilmnprstuvwy hbo "
    "he$acdeilmnorsty hi$bcdegjlmnoprstv hleiy hme hn$io ho$cdeilmnoprstuw hr$eio hs$ ht$est "
    "hu$gmnrs hy$dps ia$bglmnrst ib$eilru ic$aehiklorstuy id$adeginstu ie$cdflnrstvw if$efiotuy "
    "ig$aeghinru ih$r ij$n ik$ei il$adeilmosty im$abeimpsu in$acdefghijklnopstuv io$dlnrsu "
    "ip$aelmpst iqu ir$acdeilmorst is$acefhiklmoprstu it$acehilnostuy ium iv$aeio ix$e iz$ae "
    "ja$chmnv je$cdrstw jn$ jo$bhinrsuy jso ju$dlnrs ka$glmnrst ke$delnprsty kgr kh$ ki$delnt "
    "kl$ey kn$eo ko$mnr kr$ ks$ ku$n kw$ ky$ la$bcdghikmnprstuvwxy lba lcou ld$eirs "
    "le$abcdefgmnrstuvxy lf$ lg$ li$abcdefgkmnopqstvz lk$i ll$aeiosuy lm$eo lne "
    "lo$abcdgmnoprstuvwy lp$h lre ls$eo lt$aehiosuy lu$abcdegimnrstx lve lwa ly$ims "
    "ma$acdgijklnprstxyz mb$aeilor me$acdeghlmnorstwx mfo mg$a mi$cdeglnrstxz ml$ mm$aeiou mn$ "
    "mo$bcdilmnorstuv mp$aehilorstu ms$e mu$clmnrst my$s na$abcdgiklmnprstv nc$ehilortuy "
    "nd$aeilorsuy ne$acdefgilmnorstuvwxy nf$eilor ng$aeilorstu nh$a ni$acefglmnopqstvz nj$ou "
    "nk$eis nleioy nme nn$aeioy no$bcdlmnrstuvw np$u nqu nre ns$acefhiloptuw nt$aefhilorsuy "
    "nu$aeflmrst nv$aeio ny$mot oacdlnrst ob$aeijlorst oc$acehikotu od$adeiosuy oe$s of$efit "
    "og$egilnrsy oh$n oi$cdlnst oje ok$eis ol$adeiklostuvy om$abefimops on$acdefgilmnostuvy "
    "oo$dfgklmnprst op$aehilmoprstuy or$abcdegiklmnoprstwy os$aceiopstu ot$aehiorst "
    "ou$bcdglnprst ov$aei ow$adeilns ox$i oy$aes oz$ pa$cdgiklnprstuy pda pe$acdelnorstu "
    "ph$aeioy pi$cdelnoprst pl$aeiouy pme po$diklnoprstuw pp$aeilory pr$aeioz ps$ey pt$aeiosu "
    "pu$belnrst py$r ql$ qu$aeio ra$bcdfgilmnprstvwyz rb$aio rc$ehiu rd$aeis "
    "re$abcdefghijlmnpqrstvwy rf$aeou rg$aeiosuy ri$abcdefglmnopstvxz rk$eis rl$adeioy rm$aeiosu "
    "rn$aeimos ro$abcdfgijklmnoprstuvwxy rpor rr$aeioy rs$aehiotu rt$aehimnosuy ru$bcegilmnpst "
    "rv$aei rwa ry$iopt sa$bcdfgilmnprstuvy sc$aehiloru sda se$acdeghilmnpqrstuvx sf$eou sg$ "
    "sh$aeio si$abcdeglmnorstvxz sk$eis sl$aeioy sm$aeio sn$ae so$bcdflmnopru sp$aehilor sqlu "
    "src ss$aefiouw st$adeilmorsuy su$abcdefgilmnprs sv$ sw$aeio sy$cmns ta$bcdfgiklmnprstuxy "
    "tba tc$ho td$ te$acdegilmnprsvx tf$o th$adeilorsuy ti$abcdefglmnoprstvz tleiy tmae tn$e "
    "to$bcdegklmnoprstuw tp$su tr$aeiouy ts$i tt$aeilopry tu$abdemnprst tw$aeio tx$ ty$lp "
    "ua$dglnrt ub$bejlmst uc$acehikt ud$degiy ue$dlnrs uf$af ug$aeghu ui$cdlnprst uk$ "
    "ul$adefilty um$abeimnps un$acdefgiklnrst uot up$delopst ur$abcdefgilnoprstvy us$acehilpstu "
    "ut$aehiloprstuy ux$ uy$ va$cilnrstx ve$acdghlmnrsty vi$acdeglnorstv vo$cilnortu vul vy$ "
    "wa$ilnrstvy we$abdeilnrsv wh$aeioy wicdeflnrst wle wn$els wo$mnoru wr$aio ws$e wur ww$w "
    "xacm xc$el xecdrs xhi ximnst xp$aelor xt$eru ya$ln ybe ychl ye$aderst yin yle ym$bep yn$act "
    "yo$nru yp$eit yri ys$eit yteh za$rt ze$dnrs zijn zo$n zu$r zy$"
)

HAN_WORDS: Final = frozenset(_HAN_WORDS[at : at + 2] for at in range(0, len(_HAN_WORDS), 2))
"""Two-character Chinese words that are one token in all vocabularies compared."""

HAN_CORE: Final = frozenset(_HAN_CORE)
"""The most frequent Chinese characters: one token even in vocabularies with little Chinese."""

HAN_CHARACTERS: Final = HAN_CORE | frozenset(_HAN_OTHER)
"""Chinese characters, simplified and traditional, that are one token in most vocabularies compared."""

LETTER_TRIPLES: Final = frozenset(
    group[:2] + last for group in _LETTER_TRIPLES.split() for last in group[2:]
)
"""Lower-case letter triples that frequent words are made of."""

HANGUL_SYLLABLES: Final = frozenset(
    bytes(
        byte for row in range(0xB0, 0xC9) for cell in range(0xA1, 0xFF) for byte in (row, cell)
    ).decode("euc_kr")
)
"""The 2,350 syllables of KS X 1001, which Korean is usually written with; 11,172 exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateProfile:
    """The number of tokens for each class of text, in one family of vocabularies.

    A price is what a piece costs in addition to its first token, unless its comment says "the whole price".
    """

    name: str
    script: tuple[float, ...]
    """Whole price of a character of each `CharacterKind`, in the order of these kinds."""
    han_words: bool
    """True if frequent two-character Chinese words are one token."""
    han_core: float
    han_familiar: float
    han_rare: float
    """Prices of a Chinese character outside such words: in `HAN_CORE`, in `HAN_CHARACTERS`, other; the whole price."""
    hangul_rare: float
    """Price of a syllable that is rare in Korean; the whole price."""
    accent: float
    """Price of each letter after the second of a word with accents."""
    accented_word: float = 0.0
    """Additional price of a word with accents."""
    vietnamese: float = 0.0
    """Additional price of each letter that only Vietnamese has."""
    space_before_han: float = 0.6
    """Price of a space before a Chinese character; in about half of the cases both are one token."""
    digit: float = 0.0
    """Price of each digit after the first of a group of three."""
    spaced_length: float = 0.015
    """Price of each letter after the third of a word that follows a space."""
    spaced_strange: float = 0.55
    """Price of each letter after the first of a word after a space, times the root of its share of strange triples.

    A triple of letters is strange if it is not in `LETTER_TRIPLES`."""
    foreign_ending: float = 0.0
    """Price of a word of four letters or more that ends in a, i, o or u, as few English words do."""
    contraction: float = 0.0
    """Price of the letters after an apostrophe, as in `don't`."""
    bare_length: float = 0.08
    """Price of each letter after the second of a word that follows a line start, a sign or a digit."""
    bare_strange: float = 0.58
    """As `spaced_strange`, but for a word that follows a line start, a sign or a digit."""
    title: float = 0.05
    """Price of a word with at least one capital."""
    capital: float = 0.12
    """Price of each capital letter after the first, if the letter triples of the word are not strange."""
    tight_sign: float = 0.2
    glued_sign: float = 0.42
    loose_sign: float = 1.0
    """Prices of a sign before a word, by how often the sign is one token with the word: `_name`, `-name`, `@name`."""
    sign_change: float = 0.28
    sign_noise: float = 0.4
    """Price of each change of sign in a run after the first; additional price of each change after the fifth."""
    sign_line_end: float = 0.0
    """Price of a line end after signs, as in `{` at the end of a line."""
    ruling_signs: str = "-=_*.#~%+/!:;"
    """Signs of which sixteen in a row are one token; of other signs, two in a row are one."""
    spaces_a_token: int = 64
    blanks_a_token: int = 16
    """Number of spaces in a run that are one token; the same for tabs or line ends."""
    first_blank_change: float = 0.0
    blank_change: float = 0.3
    """Price of the first change of blank in a run (a space before a line end); price of each further change."""
    blank_bytes: bool = False
    """True if a blank beyond ASCII costs its UTF-8 length."""
    word_start: float = 0.25
    """Price of each word of a script other than Latin and Han."""
    spread: float = 1.05
    """Factor of the margin: the margin is this number times the square root of the doubtful tokens."""

    def __post_init__(self) -> None:
        if len(self.script) != len(CharacterKind):
            raise InvalidOption(
                f"profile {self.name!r} prices {len(self.script)} kinds of characters but there are "
                f"{len(CharacterKind)}; give one price for each of {', '.join(kind.name for kind in CharacterKind)}"
            )


def _in_order(prices: Mapping[CharacterKind, float]) -> tuple[float, ...]:
    return tuple(prices[kind] for kind in CharacterKind)


def _with_prices(
    profile: EstimateProfile, prices: Mapping[CharacterKind, float]
) -> tuple[float, ...]:
    return _in_order(dict(zip(CharacterKind, profile.script, strict=True)) | dict(prices))


MODERN: Final = EstimateProfile(
    name="modern",
    han_words=True,
    han_core=1.0,
    han_familiar=1.0,
    han_rare=2.05,
    hangul_rare=2.4,
    accent=0.30,
    script=_in_order(
        {
            CharacterKind.RUSSIAN: 0.34,
            CharacterKind.CYRILLIC: 1.0,
            CharacterKind.GREEK: 0.42,
            CharacterKind.HEBREW: 0.50,
            CharacterKind.ARABIC: 0.40,
            CharacterKind.ARABIC_EXTENDED: 0.75,
            CharacterKind.CAUCASIAN: 0.45,
            CharacterKind.DEVANAGARI: 0.48,
            CharacterKind.INDIC: 0.62,
            CharacterKind.THAI: 0.45,
            CharacterKind.KHMER: 0.72,
            CharacterKind.KANA: 0.75,
            CharacterKind.HANGUL: 0.75,
            CharacterKind.SPARSE: 1.9,
            CharacterKind.PUNCTUATION: 1.0,
            CharacterKind.SYMBOL: 2.0,
            CharacterKind.RULE: 2.0,
            CharacterKind.EMOJI: 2.5,
            CharacterKind.JOINER: 1.0,
        }
    ),
)
"""Profile for vocabularies of 130,000 entries and more, trained on many languages."""

SINGLE_DIGITS: Final = replace(MODERN, name="single-digits", digit=1.0)
"""Like `MODERN`, for families in which every digit is a token of its own (Qwen, Gemma and Gemini)."""

CL100K_LIKE: Final = EstimateProfile(
    name="cl100k-like",
    han_words=False,
    han_core=1.0,
    han_familiar=2.05,
    han_rare=2.45,
    hangul_rare=2.7,
    accent=0.38,
    spread=1.3,
    script=_in_order(
        {
            CharacterKind.RUSSIAN: 0.52,
            CharacterKind.CYRILLIC: 1.9,
            CharacterKind.GREEK: 1.05,
            CharacterKind.HEBREW: 1.2,
            CharacterKind.ARABIC: 0.90,
            CharacterKind.ARABIC_EXTENDED: 1.4,
            CharacterKind.CAUCASIAN: 2.1,
            CharacterKind.DEVANAGARI: 1.4,
            CharacterKind.INDIC: 2.0,
            CharacterKind.THAI: 0.95,
            CharacterKind.KHMER: 1.95,
            CharacterKind.KANA: 1.1,
            CharacterKind.HANGUL: 1.1,
            CharacterKind.SPARSE: 2.6,
            CharacterKind.PUNCTUATION: 1.05,
            CharacterKind.SYMBOL: 2.5,
            CharacterKind.RULE: 2.0,
            CharacterKind.EMOJI: 2.95,
            CharacterKind.JOINER: 1.3,
        }
    ),
)
"""Profile for vocabularies of about 100,000 entries with little Chinese: about 1.1 tokens per Chinese character."""

ENVELOPE: Final = replace(
    CL100K_LIKE,
    name="envelope",
    script=_with_prices(
        CL100K_LIKE,
        {
            CharacterKind.HANGUL: 1.2,
            CharacterKind.PUNCTUATION: 1.1,
            CharacterKind.EMOJI: 3.75,
            CharacterKind.JOINER: 1.5,
        },
    ),
    han_familiar=2.1,
    han_rare=2.6,
    hangul_rare=2.95,
    digit=1.0,
    accent=0.52,
    accented_word=0.5,
    vietnamese=1.7,
    spaced_length=0.06,
    spaced_strange=0.65,
    foreign_ending=1.0,
    contraction=0.9,
    bare_length=0.09,
    bare_strange=0.78,
    capital=0.2,
    tight_sign=0.95,
    glued_sign=1.0,
    sign_change=0.6,
    sign_line_end=1.0,
    ruling_signs="-=_*.#/",
    spaces_a_token=31,
    blanks_a_token=4,
    first_blank_change=1.0,
    blank_change=0.9,
    blank_bytes=True,
    spread=1.2,
)
"""The highest price of all vocabularies in `ENCODINGS` for each class of text: the default, for an unknown model.

Chinese, Korean and the scripts of smaller languages cost as much as in cl100k_base; digits one token each, as in Qwen,
Gemma and Mistral; signs, line ends and contractions as in Gemma, which joins none of them to a word; emoji as in
Mistral, which has only their bytes; words of other European languages as in Kimi. No single vocabulary is that
expensive, so the count is well above each of them; reports of a provider correct it (see `calibration`)."""

CLAUDE_3: Final = replace(
    ENVELOPE,
    name="claude-3",
    script=_with_prices(
        ENVELOPE,
        {
            CharacterKind.KANA: 0.75,
            CharacterKind.HANGUL: 1.4,
            CharacterKind.SYMBOL: 2.6,
            CharacterKind.PUNCTUATION: 1.15,
        },
    ),
    han_familiar=1.7,
    han_rare=2.35,
    space_before_han=1.3,
    digit=0.3,
    bare_strange=1.0,
    title=0.28,
    loose_sign=1.2,
    sign_change=0.5,
    sign_line_end=0.8,
    spread=1.4,
)
"""Profile for Claude 3 to 4.6, whose vocabulary is not public: fitted to a reconstruction of its counts."""

CLAUDE_4_7: Final = replace(
    CLAUDE_3,
    name="claude-4.7",
    spaced_length=0.25,
    spaced_strange=0.70,
    bare_length=0.24,
    contraction=1.0,
    title=1.2,
    capital=0.45,
    glued_sign=1.5,
    sign_change=1.0,
    sign_line_end=1.4,
    spread=1.9,
)
"""Profile for Claude from Opus 4.7 and Sonnet 5 on: Chinese costs the same, English and code about 50 % more."""

PROFILES: Final = (ENVELOPE, MODERN, SINGLE_DIGITS, CL100K_LIKE, CLAUDE_3, CLAUDE_4_7)
"""All profiles; `counter_named` finds the counter of a stored count among them."""
