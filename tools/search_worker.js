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
// Words that say nothing about what is looked for; a query of nothing else is searched as it is.
const STOP = new Set(
  "a an and are as at be by can do does for from get how i in is it my of on or should that the this to use using via what when where which why with you your 怎么 如何 什么 哪个 多少 一个 可以"
    .split(" "),
);

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
  return { items, postings, lengths, mean, written: [...written], phrases };
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
  if (index.postings.has(term)) found.set(term, 1);
  return [...found];
}

/** The terms of a query with what they stand for, and how much each of them tells. */
function readQuery(index, input) {
  const all = terms(input);
  const telling = all.filter(({ word }) => !STOP.has(word));
  const used = telling.length ? telling : all;
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
function saysPhrase(query, phrase) {
  const asked = new Set(query.map(({ term }) => term));
  const told = new Set(phrase);
  return phrase.every((term) => asked.has(term)) || query.every(({ term }) => told.has(term));
}

function search(index, input) {
  const query = readQuery(index, input);
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
    const said = index.phrases[id].some((phrase) => saysPhrase(query, phrase));
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
