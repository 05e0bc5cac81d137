// The changes between two points on all four planes: files with their diffs, values, conversation and effects.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { JsonChange } from "@holdfast/core/diff-json";
import type { Json } from "@holdfast/core/json";
import type { AllowedAction, ChangedFile, Changes, EffectRow, FilePatch } from "./api.ts";
import { Chunks } from "./chunks.tsx";
import { type DiffRow, cutTokens, pairsOf, rowsOf } from "./diff-rows.ts";
import type { Piece } from "./highlight.ts";
import { useKeys } from "./keys.tsx";
import { useQuery } from "./live.ts";
import { Age, Box, Chip, Empty, Icon, Loaded, Outside, Text } from "./parts.tsx";
import { Actions, askPlan } from "./plan-sheet.tsx";
import { type Point, parsePoint } from "./router.ts";
import { diffLook, useStore } from "./store.ts";
import { type Tone, plural, stageWord } from "./words.ts";

const SIGNS: Readonly<Record<ChangedFile["status"], string>> = {
  added: "A",
  modified: "M",
  deleted: "D",
  renamed: "R",
  type_changed: "T",
};

export function diffPath(a: string, b: string): string {
  return `/api/diff?${new URLSearchParams({ a, b }).toString()}`;
}

/** Chooses a point to compare with. `none`: what no choice means. */
export function PointSelect(props: {
  readonly checkpoints: readonly CheckpointSummary[];
  readonly value: Point | null;
  readonly start: string | null;
  readonly none?: string;
  readonly label?: string;
  readonly onSet: (point: Point | null) => void;
}): JSX.Element {
  const { checkpoints, none, start, value } = props;
  const isListed = typeof value !== "number" || checkpoints.some(({ sequence }) => sequence === value);
  return (
    <select
      aria-label={props.label}
      value={value === null ? "" : String(value)}
      onChange={(event) => props.onSet(parsePoint(event.currentTarget.value))}
    >
      {none === undefined ? null : <option value="">{none}</option>}
      <option value="worktree">files now</option>
      {checkpoints
        .toSorted((x, y) => y.sequence - x.sequence)
        .map(({ sequence, stage, iteration }) => (
          <option key={sequence} value={String(sequence)}>
            {`@${sequence} ${stageWord(stage, iteration)}`}
          </option>
        ))}
      {isListed ? null : <option value={String(value)}>@{value}</option>}
      {start === null ? null : <option value="base">{start}</option>}
    </select>
  );
}

/** The list of changed files, and the diff of one of them. */
export function FileChanges(props: {
  /** The addresses of the request. */
  readonly points: readonly [string, string];
  readonly changes: Changes;
  readonly file: string | null;
  readonly onFile: (path: string | null) => void;
  /** What may be done with one file. */
  readonly actions?: (file: ChangedFile) => readonly AllowedAction[];
}): JSX.Element {
  const { changes, onFile } = props;
  const files = changes.files ?? [];
  const at = files.findIndex(({ path }) => path === props.file);
  // Where there is room the first file is open; a phone shows the list first.
  const wide = matchMedia("(min-width: 720px)").matches;
  const shown = files[at] ?? (wide ? files[0] : undefined);
  const step = (by: number): void => {
    const next = files[Math.max(0, (shown === undefined ? -1 : files.indexOf(shown)) + by)];
    if (next !== undefined) onFile(next.path);
  };
  const actions = shown === undefined ? [] : (props.actions?.(shown) ?? []);
  useKeys({
    n: () => nextHunk(1) || step(1),
    p: () => nextHunk(-1) || step(-1),
    v: () => diffLook.set(diffLook.get() === "split" ? "unified" : "split"),
    ...(actions[0] === undefined ? {} : { c: () => actions[0] !== undefined && askPlan(actions[0].action) }),
  });
  if (changes.files === null) return <Empty title="One side has no files." />;
  if (files.length === 0)
    return (
      <Empty title="The files are the same.">
        <NotCompared changes={changes} />
      </Empty>
    );
  return (
    <div class={at === -1 ? "files" : "files files-one"}>
      <div class="file-list">
        <p class="meta num">
          {plural(files.length, "file")} <Lines files={files} />
        </p>
        <div role="list" aria-label="Changed files">
          <Chunks items={files} rowHeight={28}>
            {(file) => (
              <div key={file.path} role="listitem">
                <button
                  type="button"
                  class="row-button"
                  aria-current={file === shown ? "true" : undefined}
                  onClick={() => onFile(file.path)}
                >
                  <span class="sign" title={file.status.replace("_", " ")}>
                    <span aria-hidden="true">{SIGNS[file.status]}</span>
                    <span class="sr-only">{file.status.replace("_", " ")}</span>
                  </span>
                  <span class="mono">
                    <FileName path={file.path} />
                  </span>
                  <Lines files={[file]} />
                </button>
              </div>
            )}
          </Chunks>
        </div>
        <NotCompared changes={changes} />
      </div>
      {shown === undefined ? null : (
        <div>
          <button type="button" class="file-back" onClick={() => onFile(null)}>
            <Icon name="back" /> All files
          </button>
          <FileDiff key={shown.path} points={props.points} file={shown} actions={actions} />
        </div>
      )}
    </div>
  );
}

/** Moves to the next change of the diff. False: there is none. */
function nextHunk(by: 1 | -1): boolean {
  const edge = 120;
  const hunks = [...document.querySelectorAll<HTMLElement>(".diff-hunk")];
  const found =
    by === 1
      ? hunks.find((hunk) => hunk.getBoundingClientRect().top > edge + 1)
      : hunks.findLast((hunk) => hunk.getBoundingClientRect().top < edge - 1);
  if (found === undefined) return false;
  scrollBy({ top: found.getBoundingClientRect().top - edge });
  return true;
}

function FileName({ path }: { readonly path: string }): JSX.Element {
  const cut = path.lastIndexOf("/") + 1;
  return (
    <>
      <Text class="score">{path.slice(0, cut)}</Text>
      <Text>{path.slice(cut)}</Text>
    </>
  );
}

function NotCompared({ changes }: { readonly changes: Changes }): JSX.Element | null {
  if (changes.notCompared.length === 0) return null;
  return (
    <p class="meta">
      <Icon name="warning" /> Not compared: <Text>{changes.notCompared.join(", ")}</Text>
    </p>
  );
}

export function Lines(props: { readonly files: readonly Pick<ChangedFile, "added" | "removed">[] }): JSX.Element {
  const { files } = props;
  const sum = (key: "added" | "removed"): number => files.reduce((total, file) => total + (file[key] ?? 0), 0);
  if (files.every(({ added }) => added === null)) return <span class="meta">binary</span>;
  return (
    <span class="lines num">
      {sum("added") > 0 ? <span class="passed">+{sum("added")}</span> : null}{" "}
      {sum("removed") > 0 ? <span class="missed">−{sum("removed")}</span> : null}
    </span>
  );
}

function FileDiff(props: {
  readonly points: readonly [string, string];
  readonly file: ChangedFile;
  readonly actions: readonly AllowedAction[];
}): JSX.Element {
  const { file, actions } = props;
  const [a, b] = props.points;
  const look = useStore(diffLook);
  const other = look === "split" ? "unified" : "split";
  const query = useQuery<FilePatch>(`/api/diff/file?${new URLSearchParams({ a, b, path: file.path }).toString()}`);
  return (
    <>
      <div class="flex diff-title">
        <h2 class="mono strong">
          <Text>{file.from === null ? file.path : `${file.from} → ${file.path}`}</Text> <Lines files={[file]} />
        </h2>
        <button
          type="button"
          class="push split-button"
          aria-keyshortcuts="v"
          title={`Show the diff ${other} (v)`}
          onClick={() => diffLook.set(other)}
        >
          {other === "split" ? "Split" : "Unified"}
        </button>
        {actions.length === 0 ? null : <Actions actions={actions} />}
      </div>
      <Loaded query={query} rows={8}>
        {({ patch, truncated }) => <Patch path={file.path} patch={patch} truncated={truncated} />}
      </Loaded>
    </>
  );
}

const WIDE = typeof matchMedia === "undefined" ? null : matchMedia("(min-width: 1100px)");

/** Whether there is room for two sides. */
function useWide(): boolean {
  const [wide, setWide] = useState(WIDE?.matches ?? false);
  useEffect(() => {
    const update = (): void => setWide(WIDE?.matches ?? false);
    WIDE?.addEventListener("change", update);
    return () => WIDE?.removeEventListener("change", update);
  }, []);
  return wide;
}

export function Patch(props: {
  readonly path: string;
  readonly patch: string;
  readonly truncated: boolean;
  /** Without scripts there are neither colours of the language nor chunks. */
  readonly still?: boolean;
}): JSX.Element {
  const { path, patch, still = false } = props;
  const rows = useMemo(() => rowsOf(patch, props.truncated), [patch]);
  const wide = useWide();
  const split = useStore(diffLook) === "split" && wide;
  const [colors, setColors] = useState<ReadonlyMap<DiffRow, readonly Piece[]> | null>(null);
  useEffect(() => {
    let current = true;
    void import("./highlight.ts").then(({ highlight }) => current && setColors(highlight(path, rows)));
    return () => {
      current = false;
    };
  }, [path, rows]);
  if (rows.length === 0 && !props.truncated) return <p class="meta">Binary, or only its mode or name changed.</p>;
  const one = (row: DiffRow, index: number): JSX.Element => <Row key={index} row={row} pieces={colors?.get(row)} />;
  const two = ([left, right]: readonly [DiffRow | null, DiffRow | null], index: number): JSX.Element =>
    left !== null && left.kind === "hunk" ? (
      one(left, index)
    ) : (
      <div key={index} class="diff-pair">
        <Row row={left} pieces={left === null ? undefined : colors?.get(left)} side="old" />
        <Row row={right} pieces={right === null ? undefined : colors?.get(right)} side="new" />
      </div>
    );
  return (
    <div class="diff mono" role="region" aria-label={`Diff of ${path}`}>
      {still ? (
        rows.map(one)
      ) : split ? (
        <Chunks items={pairsOf(rows)} rowHeight={20}>
          {two}
        </Chunks>
      ) : (
        <Chunks items={rows} rowHeight={20}>
          {one}
        </Chunks>
      )}
      {props.truncated ? <p class="meta">The rest of this diff is left out. The command shows all of it.</p> : null}
    </div>
  );
}

const WORDS = { added: "added: ", removed: "removed: ", same: "", hunk: "", note: "" } as const;

/** A line of a diff. `side`: one of two columns, in which a line can be absent. */
function Row(props: {
  readonly row: DiffRow | null;
  readonly pieces: readonly Piece[] | undefined;
  readonly side?: "old" | "new";
}): JSX.Element {
  const { row, side } = props;
  if (row === null) return <div class="diff-row diff-hunk" />;
  if (row.kind === "hunk") return <div class="diff-hunk">{row.text}</div>;
  const tokens = cutTokens(props.pieces ?? [{ text: row.text, kind: "" }], row.words);
  return (
    <div class={`diff-row diff-${row.kind}`}>
      {(side === undefined ? (["old", "new"] as const) : [side]).map((one) => (
        <span key={one} class="gutter num" aria-hidden="true">
          {row[one]}
        </span>
      ))}
      <span class="diff-sign" aria-hidden="true">
        {row.kind === "added" ? "+" : row.kind === "removed" ? "−" : ""}
      </span>
      <code>
        <span class="sr-only">{WORDS[row.kind]}</span>
        {tokens.map(({ text, kind, changed }, index) => (
          <Text key={index} class={`${kind === "" ? "" : `token-${kind}`} ${changed ? "word" : ""}`}>
            {text}
          </Text>
        ))}
      </code>
    </div>
  );
}

/** Values that differ, each with its path. `more`: there are more than these. */
export function ValueChanges(props: { readonly values: readonly JsonChange[]; readonly more: boolean }): JSX.Element {
  const { values, more } = props;
  if (values.length === 0) return <Empty title="The state is the same." />;
  return (
    <>
      <div class="values lined" role="list">
        <Chunks items={values} rowHeight={56}>
          {(change) => (
            <div key={change.path} role="listitem">
              <Text as="code" class="score">
                {change.path === "" ? "/" : change.path}
              </Text>
              {change.from === undefined ? null : <Value sign="−" kind="removed" value={change.from} />}
              {change.to === undefined ? null : <Value sign="+" kind="added" value={change.to} />}
            </div>
          )}
        </Chunks>
      </div>
      {more ? <p class="meta">More values differ than these. The command shows all of them.</p> : null}
    </>
  );
}

function Value(props: {
  readonly sign: string;
  readonly kind: "added" | "removed";
  readonly value: unknown;
}): JSX.Element {
  const text = JSON.stringify(props.value, null, 1).replaceAll(/\n\s*/g, " ");
  return (
    <code class={`value diff-${props.kind}`}>
      <span aria-hidden="true">{props.sign} </span>
      <span class="sr-only">{WORDS[props.kind]}</span>
      <Text>{text.length > 600 ? `${text.slice(0, 600)} …` : text}</Text>
    </code>
  );
}

const EFFECT_TONES: Readonly<Record<EffectRow["state"], Tone>> = {
  intended: "running",
  done: "done",
  failed: "failed",
  unknown: "you",
  undone: "aborted",
};

export function Effects({ effects }: { readonly effects: readonly EffectRow[] }): JSX.Element {
  if (effects.length === 0) return <Empty title="Nothing outside the repository was changed." />;
  return (
    <ul class="effects lined">
      {effects.map(({ key, state, text, link, at, receipt }) => (
        <li key={key}>
          <Chip tone={EFFECT_TONES[state]} plain>
            {state}
          </Chip>
          <span>
            <Text>{text}</Text> {link === null ? null : <Outside link={link} />}
          </span>
          <span class="meta">
            <Age at={at} />
          </span>
          {receipt === null ? null : (
            <details>
              <summary>receipt</summary>
              <JsonText value={receipt} />
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}

export function JsonText({ value }: { readonly value: Json }): JSX.Element {
  const text = JSON.stringify(value, null, 2);
  const more = text.length - 100_000;
  return <Box label="Content">{more > 0 ? `${text.slice(0, 100_000)}\n… ${more} more characters` : text}</Box>;
}
