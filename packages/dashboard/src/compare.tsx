// Two or more runs or checkpoints side by side: the facts of each, the best marked, and nothing summed up. The user chooses.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { AllowedAction, ChangedFile, Changes, ComparePage, ComparedRun, RunRow, RunsPage } from "./api.ts";
import { FileChanges, Lines, diffPath } from "./diff-view.tsx";
import { useQuery } from "./live.ts";
import {
  A,
  Empty,
  Heading,
  Icon,
  IconButton,
  Loaded,
  Outside,
  PageCommand,
  Scores,
  StatusChip,
  Table,
  Text,
  Trail,
  go,
} from "./parts.tsx";
import { Actions } from "./plan-sheet.tsx";
import { type At, checkpointRoute, runRoute } from "./router.ts";
import { marked } from "./store.ts";
import { differenceWord, duration, money, plural, short, stageWord } from "./words.ts";

export default function ComparePageView({ here }: { readonly here: At<"compare"> }): JSX.Element {
  const { runs } = here;
  const enough = runs.length >= 2;
  const query = useQuery<ComparePage>(
    enough ? `/api/compare?${new URLSearchParams({ runs: runs.join(",") }).toString()}` : null,
    ["runs"],
    (page, event) =>
      event.event === "run" &&
      page.rows.some((row) => row.key === event.data.key && row.run.entries !== event.data.run.entries)
        ? "again"
        : page,
  );
  return (
    <>
      <div class="head">
        <Heading>Compare</Heading>
        <Chosen runs={runs} />
      </div>
      {enough ? (
        <Loaded query={query} rows={8}>
          {(page) => <Comparison page={page} runs={runs} />}
        </Loaded>
      ) : (
        <Empty title={runs.length === 0 ? "Choose two runs." : "Choose one more run."}>
          <p>Add them above, or select rows in the list of runs with the key x.</p>
        </Empty>
      )}
      <PageCommand text={query.data?.command ?? "holdfast compare RUN OTHER"} />
    </>
  );
}

/** The compared addresses, and a list of further runs. */
function Chosen({ runs }: { readonly runs: readonly string[] }): JSX.Element {
  const { data } = useQuery<RunsPage>("/api/runs", ["runs"]);
  const set = (next: readonly string[]): void => {
    marked.set(next);
    go({ page: "compare", runs: next }, "replace");
  };
  const others = (data?.rows ?? []).filter(({ key }) => !runs.includes(key));
  return (
    <div class="flex chosen">
      {runs.map((run) => (
        <span key={run} class="chosen-run">
          <Text as="code">{run}</Text>
          <IconButton icon="failed" label={`Remove ${run}`} onClick={() => set(runs.filter((one) => one !== run))} />
        </span>
      ))}
      <select aria-label="Add a run" value="" onChange={(event) => set([...runs, event.currentTarget.value])}>
        <option value="">Add a run</option>
        {others.map(({ key, title }) => (
          <option key={key} value={key}>
            {`${key}  ${title}`.slice(0, 80)}
          </option>
        ))}
      </select>
    </div>
  );
}

/** A line of the table: its title, the dimension of `best`, and the fact of each run. */
interface Fact {
  readonly title: string;
  readonly dimension?: string;
  readonly of: (side: ComparedRun, row: RunRow | undefined) => JSX.Element | string;
}

const FACTS: readonly Fact[] = [
  { title: "Status now", of: (_, row) => (row === undefined ? "–" : <StatusChip row={row} brief />) },
  { title: "Stage", of: ({ stage, iteration }) => (stage === null ? "–" : stageWord(stage, iteration)) },
  {
    title: "Checks",
    dimension: "checks",
    of: ({ checks }) =>
      checks.length === 0 ? (
        "–"
      ) : (
        <span class="compare-checks">
          {checks.map(({ name, trail }) => (
            <span key={name}>
              <Text>{name}</Text> <Trail trail={trail} />
            </span>
          ))}
        </span>
      ),
  },
  {
    title: "Score",
    dimension: "score",
    of: ({ score, scoreTrail }) =>
      score === null ? "–" : <Scores scores={scoreTrail.length === 0 ? [score] : scoreTrail} />,
  },
  {
    title: "Pull request",
    of: ({ pullRequest: pull }) =>
      pull === null ? "–" : <Outside link={{ text: `PR #${pull.number}`, url: pull.url }} />,
  },
  { title: "Code", of: (side) => <Size side={side} /> },
  {
    title: "Cost",
    dimension: "cost",
    of: ({ spent, ownSpent }) => `${cost(spent)}${ownSpent === null ? "" : ` (${cost(ownSpent)} since the fork)`}`,
  },
  {
    title: "Tokens",
    dimension: "tokens",
    of: ({ spent }) => (spent.tokens === null ? "unknown" : short(spent.tokens)),
  },
  { title: "Time at work", dimension: "time", of: ({ time }) => duration(time.work) },
  { title: "Agent calls", of: ({ calls, failures }) => `${calls}${failures > 0 ? `, ${failures} failed` : ""}` },
  { title: "Effects", of: ({ effects }) => (effects.length === 0 ? "none" : String(effects.length)) },
];

function Size({ side: { code, base } }: { readonly side: ComparedRun }): JSX.Element {
  if (code === null) return <>–</>;
  const name = base?.name ?? "";
  const since = name === "" ? "" : ` since ${name.includes("@") ? name : name.slice(0, 10)}`;
  if (code.files === 0) return <Text>{`no changes${since}`}</Text>;
  return (
    <span class="num">
      {plural(code.files, "file")} <Lines files={[code]} />
      <Text class="meta">{since}</Text>
    </span>
  );
}

function Comparison({ page, runs }: { readonly page: ComparePage; readonly runs: readonly string[] }): JSX.Element {
  const { comparison, rows } = page;
  const isBest = (dimension: string | undefined, id: string): boolean =>
    comparison.best.some((best) => best.dimension === dimension && best.ids.includes(id));
  const keyOf = (index: number): string => runs[index]?.split("@")[0] ?? "";
  const rowAt = (index: number): RunRow | undefined => rows.find(({ key }) => key === keyOf(index));
  const head = ({ id, sequence }: ComparedRun, index: number): JSX.Element => (
    <>
      <A to={sequence === null ? runRoute(keyOf(index)) : checkpointRoute(keyOf(index), sequence)}>
        <Text>{id}</Text>
      </A>
      {page.chosen.includes(keyOf(index)) ? (
        <span class="tag">
          <Icon name="tag" /> chosen
        </span>
      ) : null}
      <Text class="meta compare-title">{rowAt(index)?.title ?? null}</Text>
    </>
  );
  return (
    <>
      <Diverged page={page} />
      <div class="compare-box" tabIndex={0} role="region" aria-label="Comparison">
        <Table
          class="compare"
          head={["", ...comparison.runs.map(head)]}
          rows={FACTS.map(({ title, dimension, of }) => [
            title,
            ...comparison.runs.map((side, index) => (
              <>
                {of(side, rowAt(index))}
                {isBest(dimension, side.id) ? (
                  <span class="best" title="best">
                    <Icon name="star" />
                    <span class="sr-only"> best</span>
                  </span>
                ) : null}
              </>
            )),
          ])}
        />
      </div>
      {page.choose.length === 0 ? null : <Actions actions={page.choose} class="choose" />}
      {comparison.runs.length === 2 ? <Between page={page} runs={runs} /> : null}
    </>
  );
}

/** Where each two of them diverged. */
function Diverged({ page: { comparison } }: { readonly page: ComparePage }): JSX.Element {
  return (
    <ul class="diverged">
      {comparison.pairs.map((pair) => (
        <li key={`${pair.a} ${pair.b}`}>
          <Icon name="fork" />{" "}
          {comparison.pairs.length === 1 ? null : <Text class="strong">{`${pair.a}, ${pair.b}: `}</Text>}
          <Text>{divergenceOf(pair)}</Text>
        </li>
      ))}
    </ul>
  );
}

function divergenceOf({ diverged: { common, beginning, first } }: Pair): string {
  const from =
    common !== null
      ? `They share checkpoint ${common.run}@${common.sequence}.`
      : beginning === "alike"
        ? "They began alike."
        : "They did different work or began with different files, so their steps are not compared.";
  const then =
    first === null ? "Both did the same." : `After ${plural(first.shared, "equal step")}, ${differenceWord(first)}.`;
  return beginning === "none" ? from : `${from} ${then}`;
}

type Pair = ComparePage["comparison"]["pairs"][number];

/** The files that differ between two sides. One file can be copied into the other run. */
function Between({ page, runs }: { readonly page: ComparePage; readonly runs: readonly string[] }): JSX.Element {
  const [file, setFile] = useState<string | null>(null);
  const sides = page.comparison.runs.map(({ sequence }, index) => ({
    key: runs[index]?.split("@")[0] ?? "",
    sequence,
  }));
  const points = sides.map(({ key, sequence }) => `${key}@${sequence ?? "base"}`);
  const [a = "", b = ""] = points;
  const query = useQuery<Changes>(diffPath(a, b));
  const actions = (changed: ChangedFile): readonly AllowedAction[] =>
    // A server that is read-only allows no choice either.
    page.choose.length === 0
      ? []
      : [
          copyOf(sides[1], sides[0], changed.path, VERBS[changed.status][0]),
          copyOf(sides[0], sides[1], changed.from ?? changed.path, VERBS[changed.status][1]),
        ].flat();
  return (
    <section class="spaced" aria-labelledby="between">
      <h2 id="between">Between them</h2>
      <Loaded query={query}>
        {(changes) => <FileChanges points={[a, b]} changes={changes} file={file} onFile={setFile} actions={actions} />}
      </Loaded>
    </section>
  );
}

interface Side {
  readonly key: string;
  readonly sequence: number | null;
}

/** What a copy does to the file of the first side, and to that of the second, by how the second differs. */
const VERBS: Readonly<Record<ChangedFile["status"], readonly [string, string]>> = {
  added: ["Create this file in", "Delete this file in"],
  modified: ["Copy this file into", "Copy this file into"],
  deleted: ["Delete this file in", "Create this file in"],
  renamed: ["Create this file in", "Create the old file in"],
  type_changed: ["Copy this file into", "Copy this file into"],
};

/** Copies a file of one side into the other run, if both are in one repository. */
function copyOf(from: Side | undefined, into: Side | undefined, path: string, verb: string): readonly AllowedAction[] {
  if (from === undefined || into === undefined || from.sequence === null || from.key === into.key) return [];
  const [repository, run = ""] = into.key.split("/");
  if (from.key.split("/")[0] !== repository) return [];
  const { sequence } = from;
  return [
    {
      label: `${verb} ${run}`,
      action: { kind: "cherry_pick", from: from.key, sequence, into: into.key, paths: [path] },
      why: null,
    },
  ];
}

function cost({ microUsd }: { readonly microUsd: number | null }): string {
  return microUsd === null ? "unknown" : money(microUsd);
}
