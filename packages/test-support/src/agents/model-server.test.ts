import { describe, expect, onTestFinished, test } from "vitest";
import { asRecord, asRecords } from "@holdfast/core/json";
import type { ModelScript } from "./model-script.ts";
import { startModelServer } from "./model-server.ts";

const TOOL = { name: "write", input: { path: "a", text: "é" } };
const USAGE = { input: 70, cacheRead: 5, cacheWrite: 3, output: 7 };
const SCRIPT: ModelScript = {
  rules: [
    {
      match: /fix it/,
      steps: [
        { text: "Looking.\nNow.", tool: TOOL },
        { text: "Done ✓", usage: USAGE },
      ],
    },
  ],
};

async function serve(script: ModelScript) {
  const server = await startModelServer(script);
  onTestFinished(() => server.close());
  return server;
}

/** The request format of one provider: a first request, and one with a tool call after the user's text. */
const MAKERS = {
  anthropic: {
    path: "/v1/messages",
    body: (used: boolean, text: string) => ({
      model: "m",
      tools: [{ name: "write" }],
      messages: [
        { role: "user", content: [{ type: "text", text: `<system-reminder>fix it</system-reminder>${text}` }] },
        ...(used
          ? [
              { role: "assistant", content: [{ type: "tool_use", id: "t", name: "write", input: {} }] },
              { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "fix it" }] },
            ]
          : []),
      ],
    }),
  },
  responses: {
    path: "/v1/responses",
    body: (used: boolean, text: string) => ({
      model: "m",
      tools: [{ name: "write" }],
      input: [
        { type: "message", role: "user", content: [{ type: "input_text", text }] },
        ...(used
          ? [
              { type: "function_call", call_id: "t", name: "write", arguments: "{}" },
              { type: "function_call_output", call_id: "t", output: "fix it" },
            ]
          : []),
      ],
    }),
  },
  chat: {
    path: "/v1/chat/completions",
    body: (used: boolean, text: string) => ({
      model: "m",
      tools: [{ type: "function", function: { name: "write" } }],
      messages: [
        { role: "system", content: "fix it" },
        { role: "user", content: text },
        ...(used
          ? [
              { role: "assistant", tool_calls: [{ id: "t", function: { name: "write", arguments: "{}" } }] },
              { role: "tool", tool_call_id: "t", content: "fix it" },
            ]
          : []),
      ],
    }),
  },
  gemini: {
    path: "/v1beta/models/m:generateContent",
    body: (used: boolean, text: string) => ({
      tools: [{ functionDeclarations: [{ name: "write" }] }],
      contents: [
        { role: "user", parts: [{ text }] },
        ...(used
          ? [
              { role: "model", parts: [{ functionCall: { name: "write", args: {} } }] },
              { role: "user", parts: [{ functionResponse: { name: "write", response: {} } }] },
            ]
          : []),
      ],
    }),
  },
} as const;

type Maker = keyof typeof MAKERS;
const makers: readonly Maker[] = ["anthropic", "responses", "chat", "gemini"];

function ask(url: string, maker: Maker, params: { used?: boolean; stream?: boolean; text?: string } = {}) {
  const { path, body } = MAKERS[maker];
  const asked = body(params.used ?? false, params.text ?? "please fix it");
  const stream = params.stream ?? false;
  const place = maker === "gemini" && stream ? "/v1beta/models/m:streamGenerateContent?alt=sse" : path;
  return fetch(url + place, { method: "POST", body: JSON.stringify({ ...asked, stream }) });
}

async function dataOf(response: Response): Promise<readonly unknown[]> {
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => line.slice(6)).map((line): unknown => (line === "[DONE]" ? line : JSON.parse(line)));
}

describe.each(makers)("%s", (maker) => {
  test("the step depends only on the conversation, however often it is requested", async () => {
    const server = await serve(SCRIPT);
    for (const used of [true, false, false, true]) await ask(server.url, maker, { used });
    expect(server.requests.map(({ place }) => place?.step)).toEqual([1, 0, 0, 1]);
    await ask(server.url, maker, { text: "something else" });
    expect(server.requests.at(-1)).toMatchObject({ place: null, protocol: maker, end: "whole", model: "m" });
  });

  test("whole and streamed answers have the same text, tool call and usage", async () => {
    const server = await serve(SCRIPT);
    const whole = JSON.stringify(await (await ask(server.url, maker)).json());
    const streamed = JSON.stringify(await dataOf(await ask(server.url, maker, { stream: true })));
    for (const text of [whole, streamed]) {
      expect(text).toContain("Now.");
      expect(text).toContain("write");
      expect(text).toContain("é");
    }
    const last = await (await ask(server.url, maker, { used: true })).json();
    expect(totalsIn(last)).toEqual({ input: maker === "anthropic" ? 70 : 78, output: 7, cached: 5 });
    const end = await dataOf(await ask(server.url, maker, { used: true, stream: true }));
    expect(totalsIn(end)).toEqual({ input: maker === "anthropic" ? 70 : 78, output: 7, cached: 5 });
    expect(server.sent()).toEqual({ input: 340, cacheRead: 10, cacheWrite: 6, output: 54 });
  });

  test("a refusal has the provider's format and headers, and comes as often as scripted", async () => {
    const fault = { kind: "status", status: 429, headers: { "retry-after": "7" }, times: 1 } as const;
    const server = await serve({ rules: [{ match: /fix/, steps: [{ text: "ok", fault }] }] });
    const refused = await ask(server.url, maker);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "7"]);
    expect(asRecord(asRecord(await refused.json())["error"])["message"]).toBe("scripted 429");
    expect((await ask(server.url, maker)).status).toBe(200);
    expect(server.requests.map(({ end }) => end)).toEqual(["status", "whole"]);
  });

  test("a cut stream ends in the middle", async () => {
    const server = await serve({
      rules: [{ match: /fix/, steps: [{ text: "a\nb\nc\nd\n", fault: { kind: "cut" } }] }],
    });
    const response = await ask(server.url, maker, { stream: true });
    await expect(response.text()).rejects.toThrow();
    expect(server.requests[0]?.end).toBe("cut");
    // Anthropic reports a first part of the usage when the stream begins.
    expect(server.sent().output).toBe(maker === "anthropic" ? 1 : 0);
  });

  test("a silent stream starts and sends no more; a client that leaves is not waited for", async () => {
    const server = await serve({ rules: [{ match: /fix/, steps: [{ text: "a\nb\n", fault: { kind: "silent" } }] }] });
    const reader = (await ask(server.url, maker, { stream: true })).body?.getReader();
    expect((await reader?.read())?.value?.length).toBeGreaterThan(0);
    expect((await server.until(({ end }) => end === "silent")).place).toEqual({ rule: 0, step: 0 });
    await reader?.cancel();
  });
});

test("a hanging request is recorded, and closing the server ends it", async () => {
  const server = await serve({ rules: [{ match: /fix/, steps: [{ fault: { kind: "hang" } }] }] });
  const asked = ask(server.url, "anthropic").catch(() => "broken");
  await server.until(({ end }) => end === "hang");
  await server.close();
  expect(await asked).toBe("broken");
});

test("text of the user next to a tool's result starts a new count", async () => {
  const server = await serve({ rules: [{ match: /finish it now/, steps: [{ text: "first" }, { text: "second" }] }] });
  const messages = [
    { role: "user", content: "fix it" },
    { role: "assistant", content: [{ type: "tool_use", id: "t", name: "write", input: {} }] },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "t" },
        { type: "text", text: "finish it now" },
      ],
    },
  ];
  await fetch(`${server.url}/v1/messages`, {
    method: "POST",
    body: JSON.stringify({ tools: [{ name: "x" }], messages }),
  });
  expect(server.requests[0]?.place).toEqual({ rule: 0, step: 0 });
});

test("requests without tools take the other step, and other paths are recorded", async () => {
  const server = await serve({ ...SCRIPT, otherwise: { text: "a title" } });
  const body = JSON.stringify({ messages: [{ role: "user", content: "fix it" }] });
  const answered = asRecord(await (await fetch(`${server.url}/v1/messages`, { method: "POST", body })).json());
  expect(asRecords(answered["content"])[0]).toEqual({ type: "text", text: "a title" });
  expect((await fetch(`${server.url}/v1/nothing`)).status).toBe(404);
  expect(server.other).toEqual(["GET /v1/nothing"]);
});

/** The last usage anywhere in the value, whatever the provider calls it. */
function totalsIn(value: unknown): object {
  const numbers: Record<string, number> = {};
  const walk = (node: unknown): void => {
    if (Array.isArray(node)) node.forEach(walk);
    else if (typeof node === "object" && node !== null)
      for (const [key, child] of Object.entries(node)) {
        if (typeof child === "number") numbers[key] = child;
        else walk(child);
      }
  };
  walk(value);
  const first = (...names: string[]) => names.map((name) => numbers[name]).find((number) => number !== undefined);
  return {
    input: first("input_tokens", "prompt_tokens", "promptTokenCount"),
    output: first("output_tokens", "completion_tokens", "candidatesTokenCount"),
    cached: first("cache_read_input_tokens", "cached_tokens", "cachedContentTokenCount"),
  };
}
