// Asks the search of a built site, as a page does: its own worker, its own index. Prints the places found, as JSON.
// Arguments: the folder of the site, the languages of the index ("" leaves them), and the questions.
const fs = require("fs");
const path = require("path");

const [site, languages, ...questions] = process.argv.slice(2);
const folder = path.join(site, "assets", "javascripts", "workers");
const worker = fs.readdirSync(folder).find((name) => name.startsWith("search."));
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf8"));
if (languages) index.config.lang = languages.split(",");

let answered;
globalThis.self = { postMessage: (message) => answered(message) };
eval(fs.readFileSync(path.join(folder, worker), "utf8"));
const ask = (message) =>
  new Promise((resolve) => {
    answered = resolve;
    globalThis.self.onmessage({ data: message });
  });

(async () => {
  const ready = await ask({ type: 0, data: index });
  if (ready.type !== 1) throw new Error("the index was not taken");
  const found = {};
  for (const question of questions) {
    const answer = await ask({ type: 2, data: { input: question } });
    found[question] = answer.data.items.map((item) => index.items[item.id].location);
  }
  process.stdout.write(JSON.stringify(found));
})();
