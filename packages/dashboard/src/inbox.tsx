// The landing page: what waits for the user, why, and the answers.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Action, Evidence, Inbox, InboxItem } from "./api.ts";
import { useKeys } from "./keys.tsx";
import { connection } from "./live.ts";
import {
  A,
  Age,
  Command,
  Empty,
  Heading,
  Icon,
  IconButton,
  PageCommand,
  Repository,
  StatusChip,
  Text,
  UnreadRepositories,
  go,
} from "./parts.tsx";
import { askPlan } from "./plan-sheet.tsx";
import { NO_FILTER, runRoute } from "./router.ts";
import { openItems, parseLater, whereOf } from "./rows.ts";
import { later, useProgram, useStore } from "./store.ts";
import { localTimes } from "./words.ts";

export function InboxPage({ run, inbox }: { readonly run: string | null; readonly inbox: Inbox }): JSX.Element {
  const open = openItems(inbox.items, useStore(later));
  const items = inbox.items.filter((item) => open.includes(item) || item.row.key === run);
  const hiddenCount = inbox.items.length - items.length;
  const at = Math.max(
    0,
    items.findIndex(({ row }) => row.key === run),
  );
  const item = items[at];
  const program = useProgram(item?.row.key ?? "");
  const show = (index: number): void => {
    const next = items[index];
    if (next !== undefined) go({ page: "inbox", run: next.row.key }, "replace");
  };
  useKeys({ j: () => show(at + 1), k: () => show(at - 1), ArrowDown: () => show(at + 1), ArrowUp: () => show(at - 1) });
  return (
    <>
      <div class="head">
        <Heading>Needs you {items.length === 0 ? null : <span class="num score">{items.length}</span>}</Heading>
        {items.length < 2 ? null : (
          <div class="pager">
            <IconButton icon="back" label="Previous" disabled={at === 0} onClick={() => show(at - 1)} />
            <span class="num">
              {at + 1} of {items.length}
            </span>
            <IconButton icon="next" label="Next" disabled={at === items.length - 1} onClick={() => show(at + 1)} />
          </div>
        )}
        {hiddenCount === 0 ? null : (
          <button type="button" class="push" onClick={() => later.set("{}")}>
            Show {hiddenCount} put off
          </button>
        )}
      </div>
      <UnreadRepositories problems={inbox.problems} />
      {item === undefined ? (
        <Empty title="Nothing needs you." commands={[["holdfast list --all-repositories", "all runs"]]}>
          <p>
            <A to={{ page: "runs", filter: NO_FILTER }}>All runs</A>
          </p>
        </Empty>
      ) : (
        <div class="inbox">
          <ul class="inbox-list" aria-label="Runs that need you">
            {items.map((one) => (
              <li key={one.row.key}>
                <A to={{ page: "inbox", run: one.row.key }} quiet aria-current={one === item ? "true" : undefined}>
                  <span class="apart">
                    <StatusChip row={one.row} brief />
                    <span class="meta">
                      <Age at={one.row.updatedAt} />
                    </span>
                  </span>
                  <Text class="strong">{one.row.title}</Text>
                  <span class="meta flex row-sub">
                    <Repository name={one.row.repository} />
                    <Text class="mono">{one.row.run.id}</Text>
                  </span>
                  <Text class="meta row-reason">{localTimes(one.title, Date.now())}</Text>
                </A>
              </li>
            ))}
          </ul>
          <Question key={`${item.row.key} ${item.row.run.entries}`} item={item} />
        </div>
      )}
      <PageCommand text={item === undefined ? "holdfast list --all-repositories" : commandOf(item, program)} />
    </>
  );
}

/** The command that shows what waits, or asks it. */
function commandOf({ kind, row }: InboxItem, program: string): string {
  const asks = row.run.status.kind === "waiting" && row.run.status.question !== null;
  return `${program} ${asks && kind !== "findings" ? "approve" : "status"} ${row.run.id}`;
}

/** A question with its evidence and its answers. Nothing is chosen beforehand: its key has the entries of the run, so that no choice stays for the next question. */
export function Question(props: {
  readonly item: InboxItem;
  /** On the page of the run itself. */
  readonly inRun?: boolean;
  readonly commands?: readonly string[];
}): JSX.Element {
  const { item, inRun = false, commands = [] } = props;
  const { row, options } = item;
  const [chosen, setChosen] = useState<number | null>(null);
  const [resume, setResume] = useState(true);
  const [note, setNote] = useState("");
  const old = useStore(connection).kind === "old";
  const option = chosen === null ? undefined : options[chosen];
  const isAnswer = options.some(({ action }) => action.kind === "answer");
  const answer = (): void => {
    if (option !== undefined) askPlan(complete(option.action, note.trim(), resume));
  };
  useKeys({
    "ctrl+enter": answer,
    ...(inRun ? {} : { e: () => putOff(item) }),
    ...Object.fromEntries(options.slice(0, 9).map((_, index) => [String(index + 1), () => setChosen(index)])),
  });
  return (
    <section class="question card" aria-labelledby="question-title">
      {inRun ? (
        <p class="meta">Why it stopped</p>
      ) : (
        <div class="apart question-head">
          <A to={runRoute(row.key)}>
            <Text>{row.title}</Text>
          </A>
          <span class="meta">
            <Repository name={row.repository} />
            <Text class="mono">{row.run.id}</Text>
            <Text>{whereOf(row)}</Text>
            <Age at={row.updatedAt} />
          </span>
        </div>
      )}
      <h2 id="question-title" class={item.title.length > 100 ? "" : "question-title"}>
        <Text>{localTimes(item.title, Date.now())}</Text>
      </h2>
      <Text as="p">
        {[item.title, ...item.evidence.map(({ lines }) => lines.join("\n"))].includes(row.reason ?? "")
          ? null
          : row.reason}
      </Text>
      {item.evidence.map((evidence, index) => (
        <EvidenceView key={index} evidence={evidence} />
      ))}
      {options.length === 0 ? (
        <p class="meta">This server is read-only: answer in the terminal.</p>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            answer();
          }}
        >
          <fieldset class="options">
            <legend class="sr-only">Answer</legend>
            {options.map(({ label, about, risky }, index) => (
              <label key={label} class="option">
                <input type="radio" name="option" checked={chosen === index} onChange={() => setChosen(index)} />
                {index < 9 ? <kbd aria-hidden="true">{index + 1}</kbd> : null}
                <Text class="strong">{label}</Text>
                <span class="option-about">
                  {risky ? <Icon name="warning" /> : null}
                  <Text>{about}</Text>
                </span>
              </label>
            ))}
          </fieldset>
          {isAnswer ? (
            <label class="field">
              Note, kept in the journal (optional)
              <input
                type="text"
                maxLength={1000}
                value={note}
                onInput={(event) => setNote(event.currentTarget.value)}
              />
            </label>
          ) : null}
          <div class="buttons question-end">
            {isAnswer ? (
              <label class="check">
                <input type="checkbox" checked={resume} onChange={(event) => setResume(event.currentTarget.checked)} />
                resume right away
              </label>
            ) : null}
            {option === undefined ? <span class="meta push">Choose one above.</span> : null}
            <button
              type="submit"
              class={option === undefined ? "primary" : "primary push"}
              disabled={option === undefined || old}
              aria-keyshortcuts="Control+Enter"
            >
              {isAnswer ? "Answer…" : "Show the plan…"}
            </button>
            {inRun ? null : (
              <button
                type="button"
                aria-keyshortcuts="e"
                title="Hide it until the run changes (e)"
                onClick={() => putOff(item)}
              >
                Later
              </button>
            )}
          </div>
        </form>
      )}
      <div class="buttons">
        {item.compare.length === 0 ? null : (
          <A to={{ page: "compare", runs: item.compare }} class="button">
            Compare with {item.compare[0]?.split("/")[1]}
          </A>
        )}
        {commands.map((command) => (
          <Command key={command} text={command} />
        ))}
      </div>
    </section>
  );
}

function complete(action: Action, note: string, resume: boolean): Action {
  return action.kind === "answer" ? { ...action, note: note === "" ? null : note, resume } : action;
}

function putOff({ row }: InboxItem): void {
  later.set(JSON.stringify({ ...parseLater(later.get()), [row.key]: row.run.entries }));
  go({ page: "inbox", run: null }, "replace");
}

function EvidenceView({ evidence }: { readonly evidence: Evidence }): JSX.Element {
  const { title, kind, lines } = evidence;
  return (
    <figure class="evidence">
      <Text as="p" class="meta">
        {title}
      </Text>
      <pre class="box" role="region" tabIndex={0} aria-label={title}>
        {lines.map((line, index) => (
          <Text key={index} class={kind === "diff" ? lineClass(line) : ""}>
            {`${line}\n`}
          </Text>
        ))}
      </pre>
    </figure>
  );
}

function lineClass(line: string): string {
  return line.startsWith("+") ? "diff-added" : line.startsWith("-") ? "diff-removed" : "";
}
