// The search of the documentation, in the place of Zensical's own worker: same messages, another ranking. Zensical's shows a
// section only if it holds every word of a query, and puts any title of the generated reference before a text of the guides.
// Here a section is scored by the words it has (BM25), by those of its page, and by what `docs/search_words.yml` says people
// type for that page; the reference counts less, unless the query is one of its names.

const WEIGHT = { title: 4, words: 4, path: 1.5, text: 1 };
const GENERATED = /^(reference|benchmark-tables|documents)\//;
const PAGE_SIZE = 10;
const HAN = /\p{Script=Han}/u;
const TOKEN = /\p{Script=Han}+|(?:(?!\p{Script=Han})[\p{L}\p{N}_])+/gu;
const ENDING = /(?:isations?|ising|ised|ises?|ations?|ings?|ions?|ers?|ies|ied|ed|es|e|s|y)$/;
// Function words and question words: they say nothing about what is looked for. A query of nothing else is searched as it is.
const STOP = new Set(
  (
    "a about actually again all also am an and another any anything are as at be because been before being both but by can cannot could did do does " +
    "done each else ever every everything for from get gets getting go goes going got had happen happens has have having he help her here him his how i " +
    "if in into is it its itself just let lets make makes many may me might mine much must my need needs nothing now of on one or other our out over please " +
    "really shall she should so some someone something still such than that the their them then there these they thing things this those to too " +
    "up us use used uses using very via want wants was way we were what when where whether which while who whom whose why will with without wo would you your " +
    "re ve ll don doesn didn isn aren won wouldn couldn shouldn"
  ).split(" "),
);
const HAN_STOP = new RegExp(
  "(?:怎样|怎么|如何|为什么|为何|为啥|什么时候)(?:会(?!话|员)|要(?!求|点)|能(?!力)|该)|怎么样|怎么办|怎么做|怎样|怎么|如何|为什么|为何|为啥|什么时候|什么|何时|多少|是否|能否|可否|能不能|可不可以|会不会|要不要|是不是|有没有|该不该|" +
    "可以|能够|应该|应当|需要|必须|想要|我们|咱们|你们|他们|它们|自己|请问|到底|究竟|如果|假如|的话|以及|或者|还是|但是|因为|所以|时候|" +
    "[一某这那][个条次句段下些份种样么]|哪[个些里种儿]?|[的吗呢吧啊呀我你它他她谁这那]",
  "g",
);
// Characters that mostly stand between words; a pair with one of them counts if it stands in a title or in the table of words.
const PARTICLES = new Set("会要想能该可用让把被给在从到对和与或是有了过着得地再又也都就还才很时做请吧当而之");

/** A word without its ending, the same in British and American spelling. */
function stem(word) {
  const plain = word.replaceAll("z", "s");
  const short = plain.replace(ENDING, "");
  return short.length >= 3 ? short : plain;
}

/** The terms of a text with their places: words and their parts, and pairs of Chinese characters. */
function terms(text) {
  const found = [];
  const add = (word, start, end) => found.push({ term: HAN.test(word) ? word : stem(word), word, start, end });
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    const lower = token.toLowerCase();
    if (HAN.test(token)) {
      if (token.length === 1) add(token, index, index + 1);
      for (let i = 0; i + 1 < token.length; i++) add(token.slice(i, i + 2), index + i, index + i + 2);
      continue;
    }
    add(lower, index, index + token.length);
    const parts = token.split(/_+|(?<=[a-z0-9])(?=[A-Z])/).filter((part) => part.length > 1);
    if (parts.length > 1) {
      for (const part of parts) add(part.toLowerCase(), index, index + token.length);
    }
  }
  return found;
}

/** A text with its tags blanked, so that places stay the same. */
function visible(html) {
  return html.replace(/<[^>]*>|&[a-z]+;/g, (tag) => " ".repeat(tag.length));
}

const pageOf = (item) => item.location.split("#")[0];

/** How often each term stands in an item, weighed by its field. */
function counts(item) {
  const found = new Map();
  const words = new Map();
  const fields = { title: item.title, words: item.words ?? "", path: (item.path ?? []).slice(0, -1).join(" "), text: item.text };
  let length = 0;
  for (const [field, html] of Object.entries(fields)) {
    for (const { term, word } of terms(visible(html))) {
      words.set(word, term);
      found.set(term, (found.get(term) ?? 0) + WEIGHT[field]);
      length += 1;
    }
  }
  return { found, words, length };
}

function buildIndex(items) {
  const postings = new Map(); // term -> Map of item id -> weighed count
  const lengths = [];
  const written = new Map(); // word as written -> its term
  items.forEach((item, id) => {
    const { found, words, length } = counts(item);
    lengths.push(length);
    for (const [word, term] of words) written.set(word, term);
    for (const [term, count] of found) {
      if (!postings.has(term)) postings.set(term, new Map());
      postings.get(term).set(id, count);
    }
  });
  const phrases = items.map((item) => (item.words ? item.words.split(";").map((one) => terms(one).map(({ term }) => term)) : []));
  const mean = lengths.reduce((sum, one) => sum + one, 0) / Math.max(1, lengths.length);
  const names = items.map((item) => `${visible(item.title)}; ${item.words ?? ""}`);
  const named = new Set(names.flatMap((name) => terms(name).map(({ term }) => term)));
  return { items, postings, lengths, mean, written: [...written], phrases, named };
}

/** Whether two words differ by one letter left out, added, replaced, or two exchanged. */
function isNear(one, other) {
  if (Math.abs(one.length - other.length) > 1) return false;
  let i = 0;
  while (i < one.length && one[i] === other[i]) i++;
  const [a, b] = [one.slice(i), other.slice(i)];
  return a.slice(1) === b || a === b.slice(1) || a.slice(1) === b.slice(1) || (a[0] === b[1] && a[1] === b[0] && a.slice(2) === b.slice(2));
}

/** The indexed terms that a term of a query stands for: itself, what begins with it while it is typed, or one typing error away. */
function expand(index, { term, word }, isLast) {
  const found = new Map();
  if (!HAN.test(word)) {
    if (isLast && word.length > 1) {
      for (const [one, its] of index.written) if (one.startsWith(word)) found.set(its, 0.5);
    }
    if (!found.size && !index.postings.has(term) && word.length >= 5) {
      for (const [one, its] of index.written) if (isNear(one, word)) found.set(its, 0.5);
    }
  }
  if (HAN.test(word) && word.length === 1) {
    for (const its of index.named) if (its.includes(word) && index.postings.has(its)) found.set(its, 0.5);
  }
  if (index.postings.has(term)) found.set(term, 1);
  return [...found];
}

/** The terms of a query that tell what is looked for: without function words, and without pairs of characters across them. */
function tellingTerms(index, input) {
  const cut = input.replace(HAN_STOP, (word) => " ".repeat(word.length));
  const telling = terms(cut).filter(({ term, word }) => {
    if (!HAN.test(word)) return !STOP.has(word);
    return ![...word].some((one) => PARTICLES.has(one)) || index.named.has(term);
  });
  const inPairs = new Set();
  for (const { term, word, start, end } of telling) {
    if (!HAN.test(word) || !index.postings.has(term)) continue;
    for (let at = start; at < end; at++) inPairs.add(at);
  }
  // A character of no known pair is a word of its own: in "why so dear" (为什么这么贵) or "delete messages" (删消息).
  const alone = [...cut.matchAll(/\p{Script=Han}/gu)]
    .filter(({ 0: one, index: at }) => !inPairs.has(at) && !PARTICLES.has(one))
    .map(({ 0: one, index: at }) => ({ term: one, word: one, start: at, end: at + 1 }));
  return [...telling.filter(({ word }) => !HAN.test(word) || word.length > 1), ...alone];
}

/** The terms of a query with what they stand for, and how much each of them tells. */
function readQuery(index, input) {
  const telling = tellingTerms(index, input);
  const used = telling.length ? telling : terms(input);
  return used
    .map((one, i) => {
      const stands = expand(index, one, i === used.length - 1 && !/\s$/.test(input));
      const holders = new Set(stands.flatMap(([term]) => [...index.postings.get(term).keys()]));
      const rarity = Math.log(1 + (index.items.length - holders.size + 0.5) / (holders.size + 0.5));
      return { ...one, stands, rarity };
    })
    .filter(({ stands }) => stands.length); // a word of no page, or the pair of characters between two Chinese words
}

/** What a generated section counts: little, unless the query is its name as programs write it. */
function weightOfName(item, name) {
  if (!item.location.startsWith("reference/") || !/[_.A-Z]/.test(name)) return 0.1;
  return item.title === name ? 20 : item.title.endsWith(`.${name}`) ? 4 : 0.1;
}

/** Whether a query says all of a phrase, or is the beginning of one. */
function saysPhrase(asked, query, phrase) {
  const told = new Set(phrase);
  return phrase.every((term) => asked.has(term)) || query.every(({ term }) => told.has(term));
}

function search(index, input) {
  const query = readQuery(index, input);
  const asked = new Set(terms(input).map(({ term }) => term));
  const scores = query.map(() => new Map());
  const ofPage = query.map(() => new Map());
  query.forEach(({ stands, rarity }, q) => {
    for (const [term, share] of stands) {
      for (const [id, count] of index.postings.get(term)) {
        const saturated = (count * 2.2) / (count + 1.2 * (0.4 + (0.6 * index.lengths[id]) / index.mean));
        const score = rarity * share * saturated;
        scores[q].set(id, Math.max(score, scores[q].get(id) ?? 0));
        const page = pageOf(index.items[id]);
        ofPage[q].set(page, Math.max(score, ofPage[q].get(page) ?? 0));
      }
    }
  });
  const rarities = query.reduce((sum, { rarity }) => sum + rarity, 0);
  const name = input.trim().replace(/\(\)$/, "");
  const ranked = [];
  for (const id of new Set(scores.flatMap((one) => [...one.keys()]))) {
    const item = index.items[id];
    const page = pageOf(item);
    const generated = GENERATED.test(item.location);
    let own = 0;
    let around = 0;
    let covered = 0;
    query.forEach(({ rarity }, q) => {
      own += scores[q].get(id) ?? 0;
      if (!generated) around += ofPage[q].get(page) ?? 0;
      if (scores[q].has(id)) covered += rarity;
      else if (!generated && ofPage[q].has(page)) covered += rarity * 0.7;
    });
    const said = index.phrases[id].some((phrase) => saysPhrase(asked, query, phrase));
    const share = Math.max(covered / rarities, said ? 0.7 : 0);
    if (share < 0.3) continue;
    let score = (own + 0.5 * around) * share ** 2 * (said ? 3 : 1);
    if (generated) score *= weightOfName(item, name);
    ranked.push({ id, page, score });
  }
  ranked.sort((a, b) => b.score - a.score || a.id - b.id);
  const shown = new Map(); // further sections of a page give way to other pages
  for (const one of ranked) {
    const before = shown.get(one.page) ?? 0;
    one.score *= 0.6 ** before;
    shown.set(one.page, before + 1);
  }
  ranked.sort((a, b) => b.score - a.score || a.id - b.id);
  return { query, ranked };
}

/** Where the words of a query stand in a field, in the form that the page marks. */
function marks(query, html) {
  const meant = new Set(query.flatMap(({ stands }) => stands.map(([term]) => term)));
  const ranges = [];
  for (const { term, start, end } of terms(visible(html))) {
    const last = ranges.at(-1);
    if (!meant.has(term)) continue;
    if (last && start <= last.end) {
      last.end = Math.max(end, last.end);
      last.value = last.end - last.start;
    } else ranges.push({ start, end, value: end - start });
  }
  return ranges;
}

function answer(index, { input, page }) {
  const { query, ranked } = typeof input === "string" ? search(index, input) : { query: [], ranked: [] };
  const from = page?.from ?? 0;
  const items = ranked.slice(from, from + PAGE_SIZE).map(({ id }) => ({
    id,
    matches: ["title", "text"].map((field) => ({ field, value: { highlight: { ranges: marks(query, index.items[id][field]) } } })),
  }));
  const pagination = { total: ranked.length };
  if (from > 0) pagination.prev = { from: Math.max(0, from - PAGE_SIZE) };
  if (from + PAGE_SIZE < ranked.length) pagination.next = { from: from + PAGE_SIZE };
  return { items, pagination, aggregations: [{ type: "term", data: { field: "tags", value: [] } }] };
}

let index;
self.onmessage = ({ data: message }) => {
  try {
    if (message.type === 0) {
      index = buildIndex(message.data.items);
      self.postMessage({ type: 1 });
    } else if (message.type === 2) {
      self.postMessage({ type: 3, data: answer(index, message.data) });
    }
  } catch {
    self.postMessage({ type: 4 });
  }
};
