// Sends the requests that come as lines of JSON through the client, and writes its answers as lines of JSON.
import { createInterface } from "node:readline";
import { connect, TurnfoldError } from "../dist/index.js";

const memory = connect(process.argv[2], { token: process.argv[3] ?? "", retries: 0 });

for await (const line of createInterface({ input: process.stdin })) {
  const { name, ...request } = JSON.parse(line);
  let answer;
  try {
    answer = { status: 200, body: await memory.call(name, request) };
  } catch (error) {
    if (!(error instanceof TurnfoldError)) throw error;
    const { type, status, message: detail, fields, requestId: request_id } = error;
    answer = { status, body: { type: `urn:turnfold:problem:${type}`, title: type, status, detail, fields, request_id } };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
