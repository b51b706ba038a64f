// The client against a real service, whose address is in TURNFOLD_URL.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { connect, TurnfoldError } from "../dist/index.js";

const memory = connect(process.env.TURNFOLD_URL);
const fresh = () => memory.session(`node/${randomUUID()}`);

for (const [said, asked, word] of [
  ["The ferry leaves from pier nine.", "Which pier?", "pier nine"],
  ["渡轮从九号码头出发。", "哪个码头？", "九号码头"],
]) {
  test(`a turn is stored and sent: ${asked}`, async () => {
    const session = fresh();
    await session.system("Answer in one word. 用一个词回答。");
    await session.user(said);
    await session.assistant("ok");
    await session.user(asked);
    const context = await session.context({ to: "openai_chat" });
    assert.deepEqual(context.messages.map((each) => each.role), ["system", "user", "assistant", "user"]);
    assert.match(JSON.stringify(context.messages), new RegExp(word));
    await session.recordUsage(context.call, { prompt_tokens: 20, completion_tokens: 2 });
    const [found] = await session.recall(word);
    assert.equal(found.message.content, said);
    assert.equal((await memory.search(word))[0].text.includes(word), true);
  });
}

test("a history of several pages is whole and in order", async () => {
  const session = fresh();
  const said = Array.from({ length: 250 }, (_, at) => ({ role: "user", content: `message ${at} 消息` }));
  await session.add(said);
  const found = [];
  for await (const entry of session.history()) found.push(entry.message.content);
  assert.deepEqual(found, said.map((each) => each.content));
});

test("a message that is sent again with its key is stored once", async () => {
  const session = fresh();
  await session.user("once", { key: "k 一" });
  assert.equal((await session.user("once", { key: "k 一" })).repeated, true);
  assert.equal((await session.status()).entries, 1);
});

test("an answer that is lost on the way is asked for again", async () => {
  let sent = 0;
  const fetch = async (...request) => {
    const response = await globalThis.fetch(...request);
    if (sent++ === 0) throw new TypeError("connection reset");
    return response;
  };
  const id = `node/${randomUUID()}`;
  const session = connect(process.env.TURNFOLD_URL, { fetch, backoff: 1 }).session(id);
  assert.equal((await session.user("hello")).repeated, true);
  assert.equal(sent, 2);
  assert.equal((await memory.session(id).status()).entries, 1);
});

test("an error has its kind, its status and its numbers", async () => {
  const session = fresh();
  await session.user("word ".repeat(400));
  const refused = session.context({ budget: { max_tokens: 3 } });
  await assert.rejects(refused, (error) => {
    assert.ok(error instanceof TurnfoldError);
    assert.equal(error.type, "budget-too-small");
    assert.equal(error.status, 422);
    assert.equal(typeof error.fields.needed, "number");
    return true;
  });
  await assert.rejects(connect("http://127.0.0.1:1", { retries: 0 }).session("a").status(), { type: "unreachable" });
  assert.throws(() => connect("http://bob:secret@localhost"), (error) => !error.message.includes("secret"));
});

test("ids of any kind reach the service as they are", async () => {
  for (const id of [`a/b?c#d ${randomUUID()}`, `用户/${randomUUID()}`, "...", "%2e"]) {
    const session = memory.session(id);
    await session.user("hello");
    assert.equal((await session.status()).entries >= 1, true, id);
    await session.delete();
  }
  await assert.rejects(async () => memory.session("..").status(), /relative path/);
});

test("events come as calls are made", async () => {
  const session = fresh();
  await session.user("hello");
  const stop = new AbortController();
  const seen = [];
  const watching = (async () => {
    try {
      for await (const { data } of session.events(stop.signal)) {
        seen.push(data.manifest.call);
        stop.abort();
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    }
  })();
  const made = [];
  while (!stop.signal.aborted) {
    made.push((await session.context()).call);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await watching;
  assert.ok(made.includes(seen[0]));
});
