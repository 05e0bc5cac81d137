// The live output of agents, and their transcripts.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LogRow, Problem, TextRange } from "./api.ts";
import { get, problemOf } from "./client.ts";
import { subscribe, useQuery } from "./live.ts";
import { linesOf, messagesOf } from "./output.ts";
import { Age, Empty, ProblemCard, Skeleton, Text } from "./parts.tsx";
import { bytes } from "./words.ts";

const PIECE = 65_536;
/** The end of a log that a tab keeps. */
const KEPT = 400_000;
/** The lines of it that are in the document. */
const LINES = 1000;

interface Shown {
  readonly text: string;
  readonly from: number;
  readonly next: number;
}

/** The output of the newest agent call, as it is written. */
export function LogView({ run }: { readonly run: string }): JSX.Element {
  const path = `/api/runs/${run}/logs`;
  const logs = useQuery<readonly LogRow[]>(path, [`run:${run}`], (data, event) =>
    (event.event === "run" && event.data.key === run) ||
    (event.event === "log" && event.data.key === run && !data.some(({ number }) => number === event.data.number))
      ? "again"
      : data,
  );
  const [chosen, setChosen] = useState<number | null>(null);
  const rows = logs.data ?? [];
  const newest = rows.toSorted((a, b) => Date.parse(b.modifiedAt) - Date.parse(a.modifiedAt))[0];
  const number = chosen ?? newest?.number ?? null;
  if (logs.data === null) return logs.problem === null ? <Skeleton /> : <ProblemCard problem={logs.problem} />;
  if (number === null) return <Empty title="No agent has written anything yet." />;
  return (
    <div class="log">
      <div class="pane-head">
        <label class="check">
          Output of
          <select value={String(number)} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
            {rows.map((row) => (
              <option key={row.number} value={String(row.number)}>
                {`${row.step}, ${bytes(row.bytes)}`}
              </option>
            ))}
          </select>
        </label>
        {newest === undefined ? null : (
          <span class="meta">
            written <Age at={newest.modifiedAt} every={1000} /> ago
          </span>
        )}
      </div>
      <LogText key={number} run={run} number={number} />
    </div>
  );
}

function LogText(props: { readonly run: string; readonly number: number }): JSX.Element {
  const { run, number } = props;
  const path = `/api/runs/${run}/logs/${number}`;
  const [shown, setShown] = useState<Shown | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);

  useEffect(() => {
    let current = true;
    let next = 0;
    const show = (update: (before: Shown | null) => Shown): void => {
      if (current) setShown(update);
    };
    const load = (offset: number): Promise<void> =>
      get<TextRange>(`${path}?offset=${offset}&limit=${PIECE}`).then(
        (range) => {
          next = range.next;
          show((before) => join(before, range));
        },
        (error: unknown) => {
          if (current) setProblem(problemOf(error));
        },
      );
    void load(-PIECE);
    const stop = subscribe([`log:${run}`], (event) => {
      // Before the first part has come there is nothing to continue.
      if (event.event === "resync" && next > 0) void load(next);
      if (event.event !== "log" || next === 0 || event.data.key !== run || event.data.number !== number) return;
      const { offset, text } = event.data;
      // A piece that does not continue what is shown means that one was missed.
      if (offset !== next) return void load(next);
      next = offset + new TextEncoder().encode(text).length;
      show((before) => join(before, { offset, text, next, bytes: next }));
    });
    return () => {
      current = false;
      stop();
    };
  }, [path]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element !== null && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [shown]);

  const lines = useMemo(() => (shown === null ? [] : linesOf(shown.text)), [shown]);
  if (problem !== null) return <ProblemCard problem={problem} />;
  if (shown === null) return <Skeleton />;
  const earlier = async (): Promise<void> => {
    const offset = Math.max(0, shown.from - PIECE);
    atEnd.current = false;
    const range = await get<TextRange>(`${path}?offset=${offset}&limit=${shown.from - offset}`);
    setShown({ text: range.text + shown.text, from: range.offset, next: shown.next });
  };
  return (
    <>
      {shown.from > 0 ? (
        <button type="button" onClick={() => void earlier()}>
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
        {lines.slice(-LINES).map((line, index) => (
          <div key={index} class="log-line">
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
  if (before === null || range.offset > before.next) return { text: range.text, from: range.offset, next: range.next };
  // Two requests for the same part were under way.
  if (range.offset < before.next) return before;
  const text = before.text + range.text;
  if (text.length <= KEPT) return { ...before, text, next: range.next };
  const cut = text.indexOf("\n", text.length - KEPT) + 1;
  return {
    text: text.slice(cut),
    from: before.from + new TextEncoder().encode(text.slice(0, cut)).length,
    next: range.next,
  };
}

/** A transcript from its end. Earlier parts are fetched on request. */
export function Transcript({ href, size }: { readonly href: string; readonly size: number }): JSX.Element {
  const [from, setFrom] = useState(Math.max(0, size - PIECE));
  const [pieces, setPieces] = useState<ReadonlyMap<number, string>>(new Map());
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    let current = true;
    get<TextRange>(`${href}?offset=${from}&limit=${PIECE}`).then(
      (range) => current && setPieces((before) => new Map(before).set(range.offset, range.text)),
      (error: unknown) => current && setProblem(problemOf(error)),
    );
    return () => {
      current = false;
    };
  }, [href, from]);
  const text = [...pieces]
    .toSorted(([a], [b]) => a - b)
    .map(([, piece]) => piece)
    .join("");
  const messages = useMemo(() => {
    // The first line of a part that begins in the middle is incomplete.
    const start = from > 0 ? text.indexOf("\n") + 1 : 0;
    return messagesOf(text.slice(start));
  }, [text, from]);
  if (problem !== null) return <ProblemCard problem={problem} />;
  if (pieces.size === 0) return <Skeleton />;
  return (
    <div class="transcript">
      {from > 0 ? (
        <button type="button" onClick={() => setFrom(Math.max(0, from - PIECE))}>
          Show earlier messages
        </button>
      ) : null}
      <ol>
        {messages.map(({ role, text: said }, index) => (
          <li key={index} class="message" data-role={role}>
            <Text class="meta">{role}</Text>
            <Text class="message-text">
              {said.length > 8000 ? `${said.slice(0, 8000)} … ${said.length - 8000} more characters` : said}
            </Text>
          </li>
        ))}
      </ol>
    </div>
  );
}
