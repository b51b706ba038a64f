/**
 * Client of the HTTP service of turnfold (`turnfold serve`).
 *
 * The operations and their types come from the OpenAPI document of the service. A request that got no answer is sent
 * again with the same idempotency key, so nothing is stored twice.
 */

import type { components, operations } from "./api.js";
import { OPERATIONS } from "./operations.js";

export type { components, operations } from "./api.js";
export { OPERATIONS } from "./operations.js";

/** The name of an operation of the service. */
export type Operation = keyof typeof OPERATIONS & keyof operations;
type Schemas = components["schemas"];
type Given<N extends Operation, K extends "path" | "query"> =
  operations[N] extends { parameters: { [P in K]?: infer Found } } ? NonNullable<Found> : never;
/** The JSON body of an operation. */
export type Body<N extends Operation> = operations[N] extends {
  requestBody?: { content: { "application/json": infer Found } };
}
  ? Found
  : undefined;
/** The JSON answer of an operation; a text for an operation that answers with text. */
export type Answer<N extends Operation> = operations[N] extends {
  responses: { 200: { content: infer Found } };
}
  ? Found extends { "application/json": infer Json }
    ? Json
    : string
  : never;
/** What a request of an operation holds. */
export interface Request<N extends Operation> {
  path?: Given<N, "path"> | undefined;
  query?: Given<N, "query"> | undefined;
  body?: Body<N> | undefined;
  /** The Idempotency-Key; by default a new one for each write. */
  key?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** An error of the service, or no answer from it (`type` "unreachable"). */
export class TurnfoldError extends Error {
  override readonly name = "TurnfoldError";

  constructor(
    /** The kind of problem, such as "conflict" or "budget-too-small"; never changes. */
    readonly type: string,
    /** The HTTP status; 0 without an answer. */
    readonly status: number,
    /** What happened, with the numbers and what to do. */
    detail: string,
    /** The numbers of the message, by name. */
    readonly fields: Readonly<Record<string, unknown>> = {},
    readonly requestId = "",
    options?: ErrorOptions,
  ) {
    super(detail, options);
  }
}

/** How to reach a service. */
export interface Options {
  /** The access token. */
  token?: string;
  /** Milliseconds to wait for an answer. */
  timeout?: number;
  /** How often a request that failed for the moment is sent again. */
  retries?: number;
  /** Milliseconds before the first repetition; doubled each time. */
  backoff?: number;
  fetch?: typeof globalThis.fetch;
}

const PREFIX = "urn:turnfold:problem:";
const LONGEST_PAUSE = 10_000;

/** The memory behind a service. */
export class RemoteMemory {
  readonly #url: string;
  readonly #options: Required<Options>;

  constructor(url: string, options: Options = {}) {
    const parsed = new URL(url);
    if (!/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password) {
      throw new TypeError("use http://HOST:PORT or https://..., and give an access token as { token }");
    }
    this.#url = url.replace(/\/+$/, "");
    this.#options = {
      token: "", timeout: 30_000, retries: 3, backoff: 200, fetch: globalThis.fetch, ...options,
    };
  }

  /** Return the session of a conversation, new or existing. */
  session(id: string): RemoteSession {
    return new RemoteSession(this, id);
  }

  /** Yield the conversations of the token's tenant, ordered by id. */
  async *conversations(after = ""): AsyncGenerator<Schemas["ConversationInfo"]> {
    for (let next: string | null = after; next !== null; ) {
      const page: Answer<"conversations"> = await this.call("conversations", { query: { after: next } });
      yield* page.conversations;
      next = page.next;
    }
  }

  /** Search all conversations; best results first. */
  async search(query: string, options: Omit<Body<"search">, "query"> = {}) {
    return (await this.call("search", { body: { ...options, query } })).found;
  }

  /** Send any operation of the service. */
  async call<N extends Operation>(name: N, request: Request<N> = {}): Promise<Answer<N>> {
    const response = await this.#send(name, request);
    const type = response.headers.get("content-type") ?? "";
    return (type.startsWith("application/json") ? response.json() : response.text()) as Promise<Answer<N>>;
  }

  /** Yield the events of a stream: the calls that are made, as they are made. */
  async *events(name: "watch_session" | "watch_tenant", request: Request<"watch_session"> = {}) {
    const response = await this.#send(name, request as Request<typeof name>, { stream: true });
    let text = "";
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const frames = text.split(/\r?\n\r?\n/);
      text = frames.pop() ?? "";
      for (const frame of frames) {
        const found = eventOf(frame);
        if (found) yield found;
      }
    }
  }

  async #send<N extends Operation>(
    name: N, request: Request<N>, { stream = false } = {},
  ): Promise<Response> {
    const [method, path, keyed] = OPERATIONS[name];
    const headers: Record<string, string> = {};
    if (this.#options.token) headers["authorization"] = `Bearer ${this.#options.token}`;
    if (request.body !== undefined) headers["content-type"] = "application/json";
    const key = request.key ?? (keyed ? crypto.randomUUID() : "");
    if (key) headers["idempotency-key"] = encodeURIComponent(key);
    const body = request.body === undefined ? null : JSON.stringify(request.body);
    const target = `${this.#url}${filled(path, request.path)}${asked(request.query)}`;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#attempt(target, { method, headers, body }, request.signal, stream);
      } catch (error) {
        const pause = error instanceof TurnfoldError ? this.#pause(error, attempt) : undefined;
        if (pause === undefined || attempt >= this.#options.retries || request.signal?.aborted) throw error;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async #attempt(
    target: string, init: RequestInit, signal: AbortSignal | undefined, stream: boolean,
  ): Promise<Response> {
    const signals = [...(signal ? [signal] : []), ...(stream ? [] : [AbortSignal.timeout(this.#options.timeout)])];
    let response: Response;
    try {
      response = await this.#options.fetch(target, { ...init, signal: AbortSignal.any(signals) });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new TurnfoldError("unreachable", 0, "no response from the service", {}, "", { cause: error });
    }
    if (!response.ok) throw problemOf(response.status, await response.text());
    return response;
  }

  /** Return the milliseconds before the next attempt; undefined if another attempt would fail as well. */
  #pause(error: TurnfoldError, attempt: number): number | undefined {
    if (error.type === "limit-exceeded") {
      const again = Number(error.fields["again"] ?? 0) * 1_000;
      return again > 0 && again <= LONGEST_PAUSE ? again : undefined;
    }
    if (error.type !== "unreachable" && error.type !== "store-unavailable") return undefined;
    return Math.min(this.#options.backoff * 2 ** attempt * (0.5 + Math.random()), LONGEST_PAUSE);
  }
}

type SessionOperation = {
  [N in Operation]: (typeof OPERATIONS)[N][1] extends `/v1/sessions/{session}${string}` ? N : never;
}[Operation];
type Content = Body<"say_user">["content"];

/** The session of one conversation. */
export class RemoteSession {
  constructor(
    readonly memory: RemoteMemory,
    readonly id: string,
  ) {}

  /** Send any operation of a session; `path` needs no session. */
  call<N extends SessionOperation>(
    name: N, request: Omit<Request<N>, "path"> & { path?: Record<string, string | number> } = {},
  ): Promise<Answer<N>> {
    const path = { ...request.path, session: this.id };
    return this.memory.call(name, { ...request, path } as unknown as Request<N>);
  }

  /** Set the system message. */
  system(content: Body<"system">["content"]) {
    return this.call("system", { body: { content } });
  }

  /** Append a user message; starts a turn. */
  user(content: Content, options: Omit<Body<"say_user">, "content"> & { key?: string } = {}) {
    const { key, ...rest } = options;
    return this.call("say_user", { body: { ...rest, content }, key });
  }

  /** Append an assistant message with the tool calls it makes. */
  assistant(
    content: Content,
    options: Omit<Body<"say_assistant">, "content"> & { key?: string } = {},
  ) {
    const { key, ...rest } = options;
    return this.call("say_assistant", { body: { ...rest, content }, key });
  }

  /** Append the result of a tool call. */
  tool(
    content: Body<"say_tool">["content"],
    options: Omit<Body<"say_tool">, "content"> & { key?: string },
  ) {
    const { key, ...rest } = options;
    return this.call("say_tool", { body: { ...rest, content }, key });
  }

  /** Append messages as a chat API writes them. */
  add(messages: Body<"add">["messages"], options: { key?: string } = {}) {
    return this.call("add", { body: { messages }, ...options });
  }

  /** Return the context of the next call: the messages to send, with their costs. */
  context(body: Body<"context"> = {}) {
    return this.call("context", { body });
  }

  /** Return the entries that match a query. */
  async recall(query: string, options: Omit<Body<"recall">, "query"> = {}) {
    return (await this.call("recall", { body: { ...options, query } })).recalled;
  }

  /** Store what the provider reported for a call. */
  recordUsage(call: string, usage: Body<"record_usage">["usage"]) {
    return this.call("record_usage", { path: { call }, body: { usage } });
  }

  /** Yield the stored messages, oldest first. */
  async *history(after = 0): AsyncGenerator<Schemas["EntryForm"]> {
    for (let next: number | null = after; next !== null; ) {
      const page: Answer<"history"> = await this.call("history", { query: { after: next } });
      yield* page.entries;
      next = page.next;
    }
  }

  /** Return the numbers of entries, turns and tokens. */
  status() {
    return this.call("status");
  }

  /** Delete the conversation and everything derived from it, permanently. */
  delete() {
    return this.call("delete");
  }

  /** Yield the calls of this session as they are made, until `signal` is aborted. */
  events(signal?: AbortSignal) {
    return this.memory.events("watch_session", { path: { session: this.id }, signal });
  }
}

/** Connect to a service: `connect("http://127.0.0.1:8000", { token })`. */
export function connect(url: string, options: Options = {}): RemoteMemory {
  return new RemoteMemory(url, options);
}

function filled(path: string, names: Record<string, string | number> = {}): string {
  return path.replace(/{(\w+)}/g, (_, name: string) => {
    const value = String(names[name] ?? "");
    if (!value) throw new TypeError(`${name} must have 1 to 512 characters, got 0 characters`);
    if (value === "." || value === "..") {
      throw new TypeError(`${name} is ${JSON.stringify(value)}, which fetch takes for a relative path: use another name`);
    }
    return encodeURIComponent(value);
  });
}

function asked(query: Record<string, unknown> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}

function problemOf(status: number, text: string): TurnfoldError {
  try {
    const { type, detail, fields, request_id } = JSON.parse(text) as Schemas["Problem"];
    return new TurnfoldError(type.replace(PREFIX, ""), status, detail, fields, request_id);
  } catch {
    return new TurnfoldError("unknown", status, `unknown response with status ${status}: ${text.slice(0, 200)}`);
  }
}

function eventOf(frame: string): { event: string; data: Schemas["CallEvent"] } | undefined {
  const fields = new Map<string, string>();
  for (const line of frame.split(/\r?\n/)) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name) fields.set(name, fields.has(name) ? `${fields.get(name)}\n${value}` : (value ?? ""));
  }
  const data = fields.get("data");
  if (data === undefined) return undefined;
  return { event: fields.get("event") ?? "message", data: JSON.parse(data) as Schemas["CallEvent"] };
}
