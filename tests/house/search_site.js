// Asks a search worker of the site, as a page does. Prints the places found, in their order, as JSON.
// Arguments: the worker, the index, and a file with the questions as a list.
const fs = require("fs");

const [worker, indexFile, questions] = process.argv.slice(2);
const index = JSON.parse(fs.readFileSync(indexFile, "utf8"));

let answered;
globalThis.self = { postMessage: (message) => answered(message) };
eval(fs.readFileSync(worker, "utf8"));
const ask = (message) =>
  new Promise((resolve) => {
    answered = resolve;
    globalThis.self.onmessage({ data: message });
  });

(async () => {
  const ready = await ask({ type: 0, data: index });
  if (ready.type !== 1) throw new Error("the index was not taken");
  const found = {};
  for (const question of JSON.parse(fs.readFileSync(questions, "utf8"))) {
    const answer = await ask({ type: 2, data: { input: question } });
    if (answer.type !== 3) throw new Error(`no answer to ${question}`);
    found[question] = answer.data;
    for (const item of answer.data.items) Object.assign(item, { location: index.items[item.id].location });
  }
  process.stdout.write(JSON.stringify(found));
})();
