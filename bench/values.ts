/**
 * What the value layer costs, in microseconds (best and median of rounds). Run: node bench/values.ts
 * The store adds compression, the SQLite transaction and the sync on top.
 */
import { hash } from "node:crypto";
import { canonicalJson } from "@holdfast/core/values/canonical-json";
import { capture } from "@holdfast/core/values/capture";
import { type Memo, createMemo } from "@holdfast/core/values/memo";
import { decode } from "@holdfast/core/values/decode";
import { type Encoded, encode } from "@holdfast/core/values/encode";
import type { Chunk } from "@holdfast/core/values/chunk";
import type { Json } from "@holdfast/core/json";

const hasher = (data: string | Uint8Array): string => hash("sha256", data);

class BenchStore {
  readonly chunks: Chunk[] = [];
  readonly #ids = new Map<string, number>();
  bytes = 0;
  put(digest: string, bytes: Uint8Array): number {
    const known = this.#ids.get(digest);
    if (known !== undefined) return known;
    const id = this.chunks.push({ digest, bytes }) - 1;
    this.#ids.set(digest, id);
    this.bytes += bytes.length;
    return id;
  }
  get(id: number): Chunk | undefined {
    return this.chunks[id];
  }
}

interface Message {
  role: string;
  content: string;
  id: string;
  usage: { input: number; output: number };
  tool: string | null;
}

const WORDS =
  "the agent reads a file, edits two lines, runs the tests and reports what failed const import return".split(" ");
function message(n: number): Message {
  let content = "";
  for (let i = 0; content.length < 1950; i += 1) content += `${WORDS[(n * 7 + i * i) % WORDS.length]} ${(n * i) % 97} `;
  // Flat, as text that came from a process or the network is; a rope would be flattened on our time.
  content = Buffer.from(content).toString();
  return {
    role: n % 2 === 0 ? "user" : "assistant",
    content,
    id: `msg_${n}`,
    usage: { input: n, output: n * 2 },
    tool: null,
  };
}

function say(name: string, times: readonly number[]): void {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1).padStart(10);
  process.stdout.write(`${name.padEnd(54)} best ${at(0)}  median ${at(0.5)} us\n`);
}

function timed(act: () => void): number {
  const start = process.hrtime.bigint();
  act();
  return Number(process.hrtime.bigint() - start) / 1000;
}

function repeat(name: string, rounds: number, inner: number, act: (n: number) => void): void {
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    times.push(
      timed(() => {
        for (let i = 0; i < inner; i += 1) act(round * inner + i);
      }) / inner,
    );
  }
  say(name, times.slice(rounds >> 2));
}

function small(): void {
  const live = {
    stage: "implement",
    iteration: 0,
    score: null as number | null,
    files: ["src/a.ts", "src/b.ts", "test/a.test.ts"],
    inputs: {
      issue: { number: 42, title: "Crash on empty input", labels: ["bug", "p1"], state: "open" },
      base: "main",
    },
    config: { model: "m-large", temperature: 0.2, tools: ["read", "edit", "bash"], mode: "default" },
    notes: "x".repeat(500),
  };
  repeat("1 KB: canonicalJson (keys unsorted)", 40, 500, () => void canonicalJson(live));
  repeat("1 KB: canonicalJson + digest", 40, 500, () => void hasher(canonicalJson(live)));
  const memo = createMemo();
  const sink = new BenchStore();
  let last = capture(live);
  repeat("1 KB: capture, one field changed", 40, 500, (n) => {
    live.iteration = n;
    last = capture(live, last);
  });
  repeat("1 KB: encode", 40, 500, () => void encode({ value: last, memo, hasher, sink }));
  repeat("1 KB: capture + encode, one field changed", 40, 500, (n) => {
    live.iteration = n;
    last = capture(live, last);
    encode({ value: last, memo, hasher, sink });
  });
}

/** Grows by 1 % a step, and is trimmed at the front when it has doubled. */
function transcript(label: string, count: number, steps: number): void {
  const live = {
    messages: Array.from({ length: count }, (_, n) => message(n)),
    step: 0,
    plan: { goals: ["a", "b"], done: 3 },
  };
  let memo: Memo = createMemo();
  const sink = new BenchStore();
  let last: Json = null;
  const first = timed(() => {
    last = capture(live);
  });
  let encoded: Encoded | undefined;
  const firstEncode = timed(() => {
    encoded = encode({ value: last, memo, hasher, sink });
  });
  say(`${label}: first capture`, [first]);
  say(`${label}: first encode`, [firstEncode]);
  const captures: number[] = [];
  const encodes: number[] = [];
  const edits: number[] = [];
  const added: number[] = [];
  let n = count;
  for (let step = 0; step < steps; step += 1) {
    live.step += 1;
    const growth = Math.max(1, count / 100);
    for (let i = 0; i < growth; i += 1) live.messages.push(message((n += 1)));
    if (live.messages.length > count * 1.2) live.messages.splice(0, live.messages.length - count);
    const before = sink.bytes;
    captures.push(
      timed(() => {
        last = capture(live, last);
      }),
    );
    encodes.push(
      timed(() => {
        encoded = encode({ value: last, memo, hasher, sink });
      }),
    );
    added.push(sink.bytes - before + (encoded?.root.length ?? 0));
    const edited = live.messages[live.messages.length >> 1];
    if (edited !== undefined && step % 4 === 3) {
      edited.content = `${edited.content}!`;
      edits.push(
        timed(() => {
          last = capture(live, last);
          encoded = encode({ value: last, memo, hasher, sink });
        }),
      );
    }
  }
  say(`${label}: capture, +1 %`, captures.slice(steps >> 1));
  say(`${label}: encode, +1 %`, encodes.slice(steps >> 1));
  say(`${label}: both, +1 %`, captures.map((time, i) => time + (encodes[i] ?? 0)).slice(steps >> 1));
  say(`${label}: both, one edit in place`, edits.slice(edits.length >> 1));
  process.stdout.write(`${label}: chunk bytes a step ${Math.round(added.reduce((a, b) => a + b, 0) / added.length)}\n`);
  repeat(`${label}: capture, nothing changed`, 40, 5, () => void capture(live, last));
  const { root, digest } = encoded ?? { root: new Uint8Array(), digest: "" };
  repeat(`${label}: decode, checked`, 8, 1, () => void decode({ root, source: sink, check: { hasher, digest } }));
  repeat(`${label}: decode, unchecked`, 8, 1, () => void decode({ root, source: sink }));
  repeat(`${label}: JSON.parse of the whole, for comparison`, 8, 1, () => void JSON.parse(JSON.stringify(live)));
  memo = createMemo();
  const reread = decode({ root, source: sink, memo, check: { hasher, digest } });
  live.messages.push(message((n += 1)));
  say(`${label}: first capture after reading back`, [
    timed(() => {
      last = capture(live, reread);
    }),
  ]);
  say(`${label}: first encode after reading back`, [
    timed(() => {
      encode({ value: last, memo, hasher, sink });
    }),
  ]);
}

small();
transcript("1 MB", 500, 400);
transcript("10 MB", 5000, 80);
