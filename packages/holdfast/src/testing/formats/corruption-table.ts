import { MAX_DOCUMENT_BYTES } from "../../formats/read-text.ts";
import type { ForeignFile } from "../../formats/format.ts";
import type { Corruption } from "./format-harness.ts";
import { FULL } from "./format-harness.ts";
import type { Golden } from "./goldens.ts";

/** The damages that every format meets, made from a whole file, each with the code it must be refused with. */
export function commonCorruptions(golden: Golden): readonly Corruption[] {
  const { file } = golden;
  const { bytes } = file;
  const middle = bytes.length >> 1;
  const damaged = (name: string, broken: Uint8Array): Corruption => ({
    name: `${golden.name}: ${name}`,
    file: { ...file, bytes: broken },
    code: "FORMAT_DAMAGED",
  });
  return [
    damaged("empty", new Uint8Array()),
    damaged("a byte that is never UTF-8", spliced(bytes, middle, [0xff])),
    damaged("an overlong encoding", spliced(bytes, middle, [0xc0, 0xaf])),
    damaged("a surrogate in UTF-8", spliced(bytes, middle, [0xed, 0xa0, 0x80])),
    damaged("half of a character at the end", spliced(bytes, bytes.length, [0xe2, 0x82])),
    damaged("UTF-16", utf16(bytes)),
    damaged("zeros, as a lost block leaves them", new Uint8Array(bytes.length)),
    damaged("larger than anything", new Uint8Array(MAX_DOCUMENT_BYTES + 1)),
  ];
}

/** Damages of JSON. */
export function jsonCorruptions(golden: Golden): readonly Corruption[] {
  const { file } = golden;
  const text = new TextDecoder().decode(file.bytes).trim();
  const make =
    (code: Corruption["code"]) =>
    (name: string, broken: string): Corruption => ({
      name: `${golden.name}: ${name}`,
      file: { ...file, bytes: new TextEncoder().encode(broken) },
      code,
    });
  const damaged = make("FORMAT_DAMAGED");
  const invalid = make("FORMAT_INVALID");
  const inside = (extra: string): string => `${text.slice(0, -1)},${extra}}`;
  const firstKey = /^\{\s*("[^"]*")/.exec(text)?.[1] ?? '""';
  return [
    damaged("a second document behind it", `${text}{}`),
    damaged("a comma too many", `${text.slice(0, -1)},}`),
    damaged("NaN, as Python writes it", inside('"unknown": NaN')),
    damaged("a control character in a text", inside('"unknown": "\u0001"')),
    damaged("deep lists", inside(`"unknown": ${"[".repeat(600)}${"]".repeat(600)}`)),
    damaged("a short pit of brackets", "[".repeat(1_000_000)),
    damaged("a pit of brackets", "[".repeat(13_000_000)),
    damaged("a heap of lists", inside(`"unknown": [${"[],".repeat(4_400_000)}[]]`)),
    invalid("not an object: a list", "[]"),
    invalid("not an object: null", "null"),
    invalid("not an object: a text", '"x"'),
    invalid("its first key twice", inside(`${firstKey}: 1`)),
    invalid("a key twice, spaced", inside(`${firstKey} \n : 1`)),
    invalid("a key twice, escaped otherwise", inside(`"unknow\\u006e": 1, "unknown": 2`)),
    invalid("a key twice, deep in what nobody knows", inside('"unknown": [{"a": {"b": 1, "c": ":", "b": 1}}]')),
    invalid("a number with too many digits", inside('"unknown": 9007199254740993')),
    invalid("a number too large", inside('"unknown": [1e999]')),
    invalid("half of a surrogate pair", inside('"unknown": "\\ud83d"')),
    invalid("half of a surrogate pair as key", inside('"\\uDE00": 1')),
  ];
}

/** Every k-th prefix; every one in a full run. */
export function prefixes(golden: Golden): readonly ForeignFile[] {
  const { bytes } = golden.file;
  const step = FULL ? 1 : Math.max(1, Math.floor(bytes.length / 97));
  const found: ForeignFile[] = [];
  for (let length = 0; length < bytes.length; length += step)
    found.push({ ...golden.file, bytes: bytes.slice(0, length) });
  return found;
}

/** One bit of every k-th byte turned. */
export function bitFlips(golden: Golden): readonly ForeignFile[] {
  const { bytes } = golden.file;
  const step = FULL ? 1 : Math.max(1, Math.floor(bytes.length / 97));
  const found: ForeignFile[] = [];
  for (let at = 0; at < bytes.length; at += step) {
    const broken = Uint8Array.from(bytes);
    broken[at] = (bytes[at] ?? 0) ^ (1 << (at % 8));
    found.push({ ...golden.file, bytes: broken });
  }
  return found;
}

function spliced(bytes: Uint8Array, at: number, extra: readonly number[]): Uint8Array {
  return Uint8Array.from([...bytes.subarray(0, at), ...extra, ...bytes.subarray(at)]);
}

function utf16(bytes: Uint8Array): Uint8Array {
  return Uint8Array.from([0xff, 0xfe, ...[...bytes].flatMap((byte) => [byte, 0])]);
}
