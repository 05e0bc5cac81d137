// The output of agents as data: lines with colours, and transcripts as messages. Pure. Nothing in it is trusted.
import Anser from "anser";

export interface Styled {
  readonly text: string;
  /** Class names for colour and weight. */
  readonly style: string;
}

/** What one line may show. A longer one ends with the number of characters that are left out. */
const LONGEST_LINE = 4000;
const ESC = "\u001b";
const BELL = "\u0007";
/** Every escape sequence but colours: titles, links and other commands to the terminal, movements of the cursor, erasing. */
const CONTROLS = new RegExp(
  [
    `${ESC}[\\]PX^_][^${BELL}${ESC}\\n]*(?:${BELL}|${ESC}\\\\)?`,
    `${ESC}\\[[0-?]*[ -/]*[@-ln-~]`,
    `${ESC}(?![[\\]PX^_])[^\\n]?`,
  ].join("|"),
  "g",
);
const COLOURS = /^ansi-(?:bright-)?(?:black|red|green|yellow|blue|magenta|cyan|white)$/;
const DECORATIONS: ReadonlySet<string> = new Set(["bold", "dim", "italic", "underline", "strikethrough"]);

export function linesOf(text: string): readonly (readonly Styled[])[] {
  // Without the look behind, many carriage returns in a row would take the square of their number of steps.
  const plain = text.replaceAll(CONTROLS, "").replaceAll(/(?<!\r)\r+\n/g, "\n");
  const lines: Styled[][] = [[]];
  for (const entry of Anser.ansiToJson(plain, { use_classes: true, json: true, remove_empty: true })) {
    const style = styleOf(entry);
    entry.content.split("\n").forEach((part, index) => {
      if (index > 0) lines.push([]);
      if (part !== "") lines.at(-1)?.push({ text: part, style });
    });
  }
  return lines.map((line) => cut(lastWritten(line)));
}

/** A line that was written again over itself shows what was written last. */
function lastWritten(line: readonly Styled[]): readonly Styled[] {
  let kept: Styled[] = [];
  for (const { text, style } of line) {
    const start = text.lastIndexOf("\r") + 1;
    if (start > 0) kept = [];
    if (start < text.length) kept.push({ text: text.slice(start), style });
  }
  return kept;
}

function styleOf({ fg, decorations }: Anser.AnserJsonEntry): string {
  const names = decorations.filter((name) => DECORATIONS.has(name)).map((name) => `ansi-${name}`);
  return [...(typeof fg === "string" && COLOURS.test(fg) ? [fg] : []), ...names].join(" ");
}

function cut(line: readonly Styled[]): readonly Styled[] {
  const length = line.reduce((sum, { text }) => sum + text.length, 0);
  if (length <= LONGEST_LINE) return line;
  const kept: Styled[] = [];
  let room = LONGEST_LINE;
  for (const { text, style } of line) {
    if (room <= 0) break;
    kept.push({ text: text.slice(0, room), style });
    room -= text.length;
  }
  return [...kept, { text: ` … ${(length - LONGEST_LINE).toLocaleString("en")} more characters`, style: "ansi-dim" }];
}

export interface Message {
  /** `user`, `assistant`, `tool`, or what the agent calls it; empty: a line that is no message. */
  readonly role: string;
  readonly text: string;
}

/** Reads a transcript of JSON lines leniently: a line that is not understood is shown as it is. */
export function messagesOf(transcript: string): readonly Message[] {
  return transcript
    .split("\n")
    .filter((line) => line.trim() !== "")
    .flatMap((line): readonly Message[] => {
      if (!line.startsWith("{")) return [{ role: "", text: line }];
      try {
        const found = readMessage(JSON.parse(line));
        return found === null ? [{ role: "", text: line }] : found.text === "" ? [] : [found];
      } catch {
        return [{ role: "", text: line }];
      }
    });
}

/**
 * A log as a person reads it: the JSON line of a message becomes what it says, and every other line stays. The result of a process in the
 * background is there for programs only: the line before it says the same.
 */
export function readableLog(log: string): string {
  return log.replaceAll(/^\{"kind":"result",.*\n?/gm, "").replaceAll(/^\{.*$/gm, (line) =>
    messagesOf(line)
      .map(({ role, text }) => (role === "" ? text : `${role}: ${text}`))
      .join("\n"),
  );
}

type Fields = Readonly<Record<string, unknown>>;

function readMessage(value: unknown): Message | null {
  if (!isObject(value)) return null;
  const inner = isObject(value["message"]) ? value["message"] : isObject(value["payload"]) ? value["payload"] : value;
  const role = [inner["role"], value["role"], inner["type"], value["type"]].find((one) => typeof one === "string");
  const content = [inner["content"], inner["text"], inner["parts"], inner["message"]].find((one) => one !== undefined);
  if (typeof role !== "string" || content === undefined) return null;
  return { role, text: contentText(content, 0) };
}

function contentText(value: unknown, depth: number): string {
  if (typeof value === "string") return value;
  if (depth > 6) return "";
  if (Array.isArray(value))
    return value
      .map((part) => contentText(part, depth + 1))
      .filter((text) => text !== "")
      .join("\n");
  if (!isObject(value)) return "";
  const { name } = value;
  if (typeof name === "string" && value["input"] !== undefined) return `→ ${name} ${JSON.stringify(value["input"])}`;
  const text = ["text", "thinking", "content", "output"].map((key) => value[key]).find((one) => one !== undefined);
  return contentText(text, depth + 1);
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
