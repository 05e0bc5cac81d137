// The changes between two points on all four planes: files with their diffs, values, conversation and effects.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { JsonChange } from "@holdfast/core/diff-json";
import type { ChangedFile, Changes, EffectRow, FilePatch } from "./api.ts";
import { Chunks } from "./chunks.tsx";
import { type DiffRow, cutTokens, rowsOf } from "./diff-rows.ts";
import type { Piece } from "./highlight.ts";
import { useKeys } from "./keys.tsx";
import { useQuery } from "./live.ts";
import { Age, Empty, Icon, Outside, ProblemCard, Skeleton, Text } from "./parts.tsx";
import { plural } from "./words.ts";

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

/** The list of changed files, and the diff of one of them. */
export function FileChanges(props: {
  /** The addresses of the request. */
  readonly points: readonly [string, string];
  readonly changes: Changes;
  readonly file: string | null;
  readonly onFile: (path: string | null) => void;
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
  useKeys({ n: () => nextHunk(1) || step(1), p: () => nextHunk(-1) || step(-1) });
  if (changes.files === null) return <Empty title="One side has no files." />;
  if (files.length === 0)
    return (
      <Empty title="The files are the same.">
        <NotCompared changes={changes} />
      </Empty>
    );
  return (
    <div class={props.file === null ? "files" : "files files-one"}>
      <div class="file-list">
        <p class="meta num">
          {plural(files.length, "file")} <Lines files={files} />
        </p>
        <ul>
          {files.map((file) => (
            <li key={file.path}>
              <button type="button" aria-current={file === shown} onClick={() => onFile(file.path)}>
                <span class={`sign sign-${file.status}`} title={file.status.replace("_", " ")}>
                  <span aria-hidden="true">{SIGNS[file.status]}</span>
                  <span class="sr-only">{file.status.replace("_", " ")}</span>
                </span>
                <span class="file-name mono">
                  <FileName path={file.path} />
                </span>
                <Lines files={[file]} />
              </button>
            </li>
          ))}
        </ul>
        <NotCompared changes={changes} />
      </div>
      {shown === undefined ? null : (
        <div class="file-diff">
          <button type="button" class="file-back" onClick={() => onFile(null)}>
            <Icon name="back" /> All files
          </button>
          <FileDiff key={shown.path} points={props.points} file={shown} />
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
      <span class="folder">
        <Text>{path.slice(0, cut)}</Text>
      </span>
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

export function Lines({ files }: { readonly files: readonly ChangedFile[] }): JSX.Element {
  const sum = (key: "added" | "removed"): number => files.reduce((total, file) => total + (file[key] ?? 0), 0);
  if (files.every(({ added }) => added === null)) return <span class="meta">binary</span>;
  return (
    <span class="lines num">
      {sum("added") > 0 ? <span class="passed">+{sum("added")}</span> : null}{" "}
      {sum("removed") > 0 ? <span class="missed">−{sum("removed")}</span> : null}
    </span>
  );
}

function FileDiff(props: { readonly points: readonly [string, string]; readonly file: ChangedFile }): JSX.Element {
  const { file } = props;
  const [a, b] = props.points;
  const { data, problem } = useQuery<FilePatch>(
    `/api/diff/file?${new URLSearchParams({ a, b, path: file.path }).toString()}`,
  );
  return (
    <>
      <h2 class="mono diff-title">
        <Text>{file.from === null ? file.path : `${file.from} → ${file.path}`}</Text> <Lines files={[file]} />
      </h2>
      {problem === null ? null : <ProblemCard problem={problem} />}
      {data === null && problem === null ? <Skeleton rows={8} /> : null}
      {data === null ? null : <Patch path={file.path} patch={data.patch} truncated={data.truncated} />}
    </>
  );
}

export function Patch(props: {
  readonly path: string;
  readonly patch: string;
  readonly truncated: boolean;
  /** Without scripts there are neither colours of the language nor chunks. */
  readonly still?: boolean;
}): JSX.Element {
  const { path, patch, still = false } = props;
  const rows = useMemo(() => rowsOf(patch), [patch]);
  const [colors, setColors] = useState<ReadonlyMap<DiffRow, readonly Piece[]> | null>(null);
  useEffect(() => {
    let current = true;
    void import("./highlight.ts").then(({ highlight }) => current && setColors(highlight(path, rows)));
    return () => {
      current = false;
    };
  }, [path, rows]);
  if (rows.length === 0) return <p class="meta">Binary, or only its mode or name changed.</p>;
  const render = (row: DiffRow, index: number): JSX.Element => <Row key={index} row={row} pieces={colors?.get(row)} />;
  return (
    <div class="diff mono" role="region" aria-label={`Diff of ${path}`}>
      {still ? (
        rows.map(render)
      ) : (
        <Chunks items={rows} rowHeight={20}>
          {render}
        </Chunks>
      )}
      {props.truncated ? <p class="meta">The rest of this diff is left out. The command shows all of it.</p> : null}
    </div>
  );
}

const WORDS = { added: "added: ", removed: "removed: ", same: "", hunk: "", note: "" } as const;

function Row({ row, pieces }: { readonly row: DiffRow; readonly pieces: readonly Piece[] | undefined }): JSX.Element {
  if (row.kind === "hunk") return <div class="diff-hunk">{row.text}</div>;
  const tokens = cutTokens(pieces ?? [{ text: row.text, kind: "" }], row.words);
  return (
    <div class={`diff-row diff-${row.kind}`}>
      <span class="gutter num" aria-hidden="true">
        {row.old}
      </span>
      <span class="gutter num" aria-hidden="true">
        {row.new}
      </span>
      <span class="diff-sign" aria-hidden="true">
        {row.kind === "added" ? "+" : row.kind === "removed" ? "−" : ""}
      </span>
      <code>
        <span class="sr-only">{WORDS[row.kind]}</span>
        {tokens.map(({ text, kind, changed }, index) => (
          <span key={index} class={`${kind === "" ? "" : `token-${kind}`} ${changed ? "word" : ""}`}>
            <Text>{text}</Text>
          </span>
        ))}
      </code>
    </div>
  );
}

/** Values that differ, each with its path. */
export function ValueChanges({ values }: { readonly values: readonly JsonChange[] }): JSX.Element {
  if (values.length === 0) return <Empty title="The state is the same." />;
  return (
    <ul class="values">
      {values.map((change) => (
        <li key={change.path}>
          <code class="value-path">
            <Text>{change.path === "" ? "/" : change.path}</Text>
          </code>
          {change.from === undefined ? null : <Value sign="−" kind="removed" value={change.from} />}
          {change.to === undefined ? null : <Value sign="+" kind="added" value={change.to} />}
        </li>
      ))}
    </ul>
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

const EFFECT_TONES: Readonly<Record<EffectRow["state"], string>> = {
  intended: "tone-running",
  done: "tone-done",
  failed: "tone-failed",
  unknown: "tone-you",
  undone: "tone-aborted",
};

export function Effects({ effects }: { readonly effects: readonly EffectRow[] }): JSX.Element {
  if (effects.length === 0) return <Empty title="Nothing outside the repository was changed." />;
  return (
    <ul class="effects">
      {effects.map((effect) => (
        <li key={effect.key}>
          <span class={`chip ${EFFECT_TONES[effect.state]}`}>
            <span class="chip-word">{effect.state}</span>
          </span>
          <span class="effect-text">
            <Text>{effect.text}</Text>
            {effect.link === null ? null : (
              <>
                {" "}
                <Outside link={effect.link} />
              </>
            )}
          </span>
          <span class="meta">
            <Age at={effect.at} />
          </span>
          {effect.receipt === null ? null : (
            <details>
              <summary>receipt</summary>
              <pre class="json">
                <Text>{JSON.stringify(effect.receipt, null, 2)}</Text>
              </pre>
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}
