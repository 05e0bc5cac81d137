// The live output of agents, and their transcripts.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LogRow, Problem, TextRange } from "./api.ts";
import { get, problemOf } from "./client.ts";
import { useQuery } from "./live.ts";
import { type Message, linesOf, messagesOf, readableLog } from "./output.ts";
import { Age, Empty, ProblemCard, Skeleton, Text } from "./parts.tsx";
import { bytes } from "./words.ts";

const PIECE = 65_536;
/** The end of a log that a tab keeps. */
const KEPT = 400_000;
/** The lines of it that are in the document at first, and how many more the user asks for. */
const LINES = 1000;

interface Shown {
  readonly text: string;
  readonly from: number;
  readonly next: number;
}

/** The output of the newest agent call, as it is written. */
export function LogView({ run }: { readonly run: string }): JSX.Element {
  const path = `/api/runs/${run}/logs`;
  const logs = useQuery<readonly LogRow[]>(path, [`run:${run}`, `log:${run}`], (data, event) => {
    if (event.event === "run" && event.data.key === run) return "again";
    if (event.event !== "log" || event.data.key !== run) return data;
    const { row } = event.data;
    return data.some(({ number }) => number === row.number)
      ? data.map((one) => (one.number === row.number ? row : one))
      : "again";
  });
  const [chosen, setChosen] = useState<number | null>(null);
  const rows = logs.data ?? [];
  const newest = rows.toSorted((a, b) => Date.parse(b.modifiedAt) - Date.parse(a.modifiedAt))[0];
  const number = chosen ?? newest?.number ?? null;
  const row = rows.find((one) => one.number === number);
  if (logs.data === null) return logs.problem === null ? <Skeleton /> : <ProblemCard problem={logs.problem} />;
  if (number === null) return <Empty title="No agent has written anything yet." />;
  return (
    <div>
      <div class="pane-head">
        <label class="check">
          Output of
          <select value={String(number)} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
            {rows.map((row) => (
              <option key={row.number} value={String(row.number)}>
                {`${row.stage === null ? "" : `${row.stage} · `}${row.step}, ${bytes(row.bytes)}`}
              </option>
            ))}
          </select>
        </label>
        {row === undefined ? null : (
          <span class="meta">
            written <Age at={row.modifiedAt} every={1000} ago />
          </span>
        )}
      </div>
      {row === undefined ? (
        <Empty title="This output was removed." />
      ) : (
        <LogText key={`${run} ${row.number}`} run={run} row={row} />
      )}
    </div>
  );
}

function LogText({ run, row }: { readonly run: string; readonly row: LogRow }): JSX.Element {
  const path = `/api/runs/${run}/logs/${row.number}`;
  const [shown, setShown] = useState<Shown | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const [most, setMost] = useState(LINES);
  const newest = useRef(row);
  newest.current = row;
  const reading = useRef(false);
  const next = useRef<number | null>(null);

  const load = async (): Promise<void> => {
    if (reading.current) return;
    reading.current = true;
    const wanted = newest.current;
    const behind = wanted.bytes - (next.current ?? 0);
    // Of a log that grows faster than it can be read, the end is shown.
    const offset = next.current === null || behind < 0 || behind > PIECE ? -PIECE : next.current;
    try {
      const range = await get<TextRange>(`${path}?offset=${offset}&limit=${PIECE}`);
      next.current = range.next;
      setShown((before) => join(before, range));
      setProblem(null);
    } catch (error) {
      setProblem(problemOf(error));
    }
    reading.current = false;
    if (newest.current !== wanted) void load();
  };
  useEffect(() => void load(), [row]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element !== null && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [shown]);

  const lines = useMemo(() => (shown === null ? [] : linesOf(readableLog(shown.text))), [shown]);
  if (problem !== null) return <ProblemCard problem={problem} />;
  if (shown === null) return <Skeleton />;
  const earlier = (): void => {
    atEnd.current = false;
    setMost(most + LINES);
    if (shown.from > 0 && lines.length <= most + LINES)
      earlierOf(path, shown).then(setShown, (error: unknown) => setProblem(problemOf(error)));
  };
  return (
    <>
      {shown.from > 0 || lines.length > most ? (
        <button type="button" onClick={earlier}>
          Show earlier output
        </button>
      ) : null}
      <pre
        ref={box}
        class="box log-text"
        role="log"
        aria-live="off"
        tabIndex={0}
        aria-label="Output of the agent"
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          atEnd.current = scrollHeight - scrollTop - clientHeight < 40;
        }}
      >
        {lines.slice(-most).map((line, index) => (
          <div key={index}>
            {line.map(({ text, style }, part) => (
              <Text key={part} class={style}>
                {text}
              </Text>
            ))}
            {"\n"}
          </div>
        ))}
      </pre>
    </>
  );
}

function join(before: Shown | null, range: TextRange): Shown {
  if (range.offset !== before?.next) return { text: range.text, from: range.offset, next: range.next };
  const text = before.text + range.text;
  const cut = Math.max(0, text.length - KEPT);
  const from = before.from + new TextEncoder().encode(text.slice(0, cut)).length;
  return { text: text.slice(cut), from, next: range.next };
}

/** Puts the part before what is shown in front of it, unless that was cut meanwhile. */
async function earlierOf(path: string, { from }: Shown): Promise<<T extends Shown | null>(now: T) => T> {
  const offset = Math.max(0, from - PIECE);
  const range = await get<TextRange>(`${path}?offset=${offset}&limit=${from - offset}`);
  return (now) => (now?.from === from ? { ...now, text: range.text + now.text, from: range.offset } : now);
}

/** A transcript from its end. Earlier parts are fetched on request. */
export function Transcript({ href, size }: { readonly href: string; readonly size: number }): JSX.Element {
  const [shown, setShown] = useState<Shown>({ text: "", from: size, next: size });
  const [problem, setProblem] = useState<Problem | null>(null);
  const { text, from } = shown;
  const earlier = (): void => {
    earlierOf(href, shown).then(setShown, (error: unknown) => setProblem(problemOf(error)));
  };
  useEffect(earlier, []);
  const messages = useMemo(() => {
    // The first line of a part that begins in the middle is incomplete.
    const start = from > 0 ? text.indexOf("\n") + 1 : 0;
    return messagesOf(text.slice(start));
  }, [text, from]);
  if (problem !== null) return <ProblemCard problem={problem} />;
  if (text === "" && from > 0) return <Skeleton />;
  return (
    <div>
      {from > 0 ? (
        <button type="button" onClick={earlier}>
          Show earlier messages
        </button>
      ) : null}
      <Messages messages={messages} />
    </div>
  );
}

export function Messages({ messages }: { readonly messages: readonly Message[] }): JSX.Element {
  return (
    <ol>
      {messages.map(({ role, text }, index) => (
        <li key={index} class="message" data-role={role}>
          <Text class="meta">{role}</Text>
          <Text class="message-text">
            {text.length > 8000 ? `${text.slice(0, 8000)} … ${text.length - 8000} more characters` : text}
          </Text>
        </li>
      ))}
    </ol>
  );
}
