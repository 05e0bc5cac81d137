// The page of a checkpoint: its four planes against its parent or any other point, and what going back to it would do.
import type { JSX } from "preact";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { AllowedAction, Changes, CheckpointPage, CheckpointsPage } from "./api.ts";
import { Effects, FileChanges, ValueChanges, diffPath } from "./diff-view.tsx";
import { useKeys } from "./keys.tsx";
import { useQuery } from "./live.ts";
import { Transcript } from "./output-view.tsx";
import { A, Chip, Empty, Icon, PageCommand, ProblemCard, Repository, Skeleton, Tabs, Text, go } from "./parts.tsx";
import { Actions, askPlan } from "./plan-sheet.tsx";
import {
  NO_FILTER,
  PLANES,
  type Plane,
  type Route,
  addressOf,
  checkpointRoute,
  parsePoint,
  runRoute,
} from "./router.ts";
import { JsonText } from "./run-tabs.tsx";
import { bytes, moment, plural } from "./words.ts";

type CheckpointRoute = Extract<Route, { readonly page: "checkpoint" }>;

export default function CheckpointPageView({ here }: { readonly here: CheckpointRoute }): JSX.Element {
  const { run, sequence } = here;
  const { data, problem } = useQuery<CheckpointPage>(
    `/api/runs/${run}/checkpoints/${sequence}`,
    [`run:${run}`],
    (page, event) =>
      event.event === "entry" && event.data.key === run && /tag/.test(event.data.kind) ? "again" : page,
  );
  const list = useQuery<CheckpointsPage>(`/api/runs/${run}/checkpoints?limit=200`, [`run:${run}`], (page, event) =>
    event.event === "entry" && event.data.key === run && event.data.kind === "checkpoint" ? "again" : page,
  );
  const [repository = "", id = ""] = run.split("/");
  const sequences = (list.data?.checkpoints ?? []).map((one) => one.sequence).toSorted((a, b) => a - b);
  const before = sequences.findLast((one) => one < sequence);
  const after = sequences.find((one) => one > sequence);
  const move = (to: number | undefined): void => {
    if (to !== undefined) go({ ...here, sequence: to, file: null });
  };
  // A server that is read-only allows nothing. A tag has no name yet: the sheet asks for it.
  const actions: readonly AllowedAction[] =
    data === null || data.actions.length === 0 || data.actions.some(({ action }) => action.kind === "tag")
      ? (data?.actions ?? [])
      : [...data.actions, { label: "Tag", action: { kind: "tag", run, sequence, name: "" }, why: null, undo: true }];
  const act = (kind: string): void => {
    const found = actions.find(({ action, why }) => action.kind === kind && why === null);
    if (found !== undefined) askPlan(found.action);
  };
  useKeys({
    ArrowLeft: () => move(before),
    ArrowRight: () => move(after),
    r: () => act("restore"),
    f: () => act("fork"),
    t: () => act("tag"),
    d: () => go({ ...runRoute(run, "changes"), between: [before ?? "base", sequence] }),
    Escape: () => go(runRoute(run)),
    ...Object.fromEntries(
      PLANES.map((plane, index) => [String(index + 1), () => go({ ...here, plane, file: null }, "replace")]),
    ),
  });
  return (
    <>
      <div class="run-head">
        <div class="run-title">
          <p class="crumbs meta">
            <A to={{ page: "runs", filter: NO_FILTER }}>Runs</A>
            <span aria-hidden="true">/</span>
            <Repository name={repository} />
            <span aria-hidden="true">/</span>
            <A to={runRoute(run)}>{id}</A>
          </p>
          <div class="checkpoint-title">
            <h1 tabIndex={-1} class="num">
              <Text>{`${id}@${sequence}`}</Text>
            </h1>
            <span class="pager-pair">
              {before === undefined ? null : (
                <A
                  to={{ ...checkpointRoute(run, before), plane: here.plane }}
                  aria-label={`Checkpoint ${before}`}
                  class="button"
                >
                  <Icon name="back" /> @{before}
                </A>
              )}
              {after === undefined ? null : (
                <A
                  to={{ ...checkpointRoute(run, after), plane: here.plane }}
                  aria-label={`Checkpoint ${after}`}
                  class="button"
                >
                  @{after} <Icon name="next" />
                </A>
              )}
            </span>
          </div>
        </div>
        {data === null ? null : <Actions actions={actions} />}
      </div>
      {problem === null ? null : <ProblemCard problem={problem} />}
      {data === null ? (
        problem === null ? (
          <Skeleton rows={8} />
        ) : null
      ) : (
        <Planes here={here} page={data} checkpoints={list.data?.checkpoints ?? []} />
      )}
    </>
  );
}

function Planes(props: {
  readonly here: CheckpointRoute;
  readonly page: CheckpointPage;
  readonly checkpoints: readonly CheckpointSummary[];
}): JSX.Element {
  const { here, page } = props;
  const { checkpoint, files, conversation } = page;
  const against = againstOf(here, page);
  const points = [against, addressOf(here.run, here.sequence)] as const;
  const changes = useQuery<Changes>(diffPath(...points));
  const { data } = changes;
  const counted: Readonly<Record<Plane, { readonly count: number | null; readonly about: string }>> = {
    files: {
      count: data?.files?.length ?? null,
      about: files === null ? "no files" : `tree ${files.tree.slice(0, 10)}`,
    },
    state: { count: data?.values.length ?? null, about: `${bytes(checkpoint.size.logical)} of values` },
    conversation: {
      count: data?.conversation?.messages ?? null,
      about: conversation === null ? "none saved" : `${conversation.agent}, ${bytes(conversation.bytes)}`,
    },
    effects: { count: page.effects.length, about: plural(page.effects.length, "effect") },
  };
  const labels = { files: "Files", state: "State", conversation: "Conversation", effects: "Effects" } as const;
  return (
    <>
      <Facts run={here.run} page={page} />
      <div class="pane-head">
        <Against {...props} />
      </div>
      <Tabs
        label="Planes of the checkpoint"
        class="plane-tabs"
        shown={here.plane}
        onShow={(plane) => go({ ...here, plane, file: null }, "replace")}
        tabs={PLANES.map((key) => ({ key, label: labels[key], ...counted[key] }))}
      >
        {changes.problem === null ? null : <ProblemCard problem={changes.problem} />}
        <PlanePanel here={here} page={page} points={points} changes={data} />
      </Tabs>
      <PageCommand text={page.command} />
    </>
  );
}

/** The address that the checkpoint is compared with: its parent, unless the address of the page says otherwise. */
function againstOf(here: CheckpointRoute, { checkpoint }: CheckpointPage): string {
  if (here.against !== null) return addressOf(here.run, here.against);
  const parent = checkpoint.parent?.id;
  const [repository = ""] = here.run.split("/");
  return parent === undefined ? addressOf(here.run, "base") : `${repository}/${parent}`;
}

function Against(props: {
  readonly here: CheckpointRoute;
  readonly page: CheckpointPage;
  readonly checkpoints: readonly CheckpointSummary[];
}): JSX.Element {
  const { here, page } = props;
  const parent = page.checkpoint.parent?.id ?? null;
  return (
    <label class="check">
      Compared with
      <select
        value={here.against === null ? "" : String(here.against)}
        onChange={(event) => go({ ...here, against: parsePoint(event.currentTarget.value), file: null }, "replace")}
      >
        <option value="">{parent === null ? "the start of the run" : `its parent, ${parent}`}</option>
        {parent === null ? null : <option value="base">the start of the run</option>}
        <option value="worktree">the files now</option>
        {props.checkpoints
          .filter(({ sequence }) => sequence !== here.sequence)
          .map(({ sequence, stage, iteration }) => (
            <option key={sequence} value={String(sequence)}>
              {`@${sequence} ${stage}${iteration > 0 ? ` #${iteration}` : ""}`}
            </option>
          ))}
      </select>
    </label>
  );
}

function Facts({ run, page }: { readonly run: string; readonly page: CheckpointPage }): JSX.Element {
  const { checkpoint, integrity, files } = page;
  const { stage, iteration, score, createdAt, entry, digest, trigger, name, tags, size } = checkpoint;
  const where = iteration > 0 ? `${stage} #${iteration}` : stage;
  const facts: readonly (readonly [string, string])[] = [
    ["Saved", moment(createdAt, Date.now())],
    ["In", where],
    ["Because", trigger.replaceAll("_", " ")],
    ...(name === null ? [] : [["Name", name] as const]),
    ...(score === null ? [] : [["Score", String(score)] as const]),
    ["Entry", String(entry)],
    ["Added", bytes(size.added)],
    ["Digest", digest.replace(/^sha256:/, "").slice(0, 12)],
    ...(files?.head == null ? [] : [["Commit", files.head.slice(0, 10)] as const]),
    ...(files?.branch == null ? [] : [["Branch", files.branch] as const]),
  ];
  return (
    <>
      <p class="facts">
        {integrity.whole ? <Chip tone="done">whole</Chip> : <Chip tone="failed">damaged</Chip>}
        {tags.map((tag) => (
          <span key={tag} class="tag">
            <Icon name="tag" />
            <Text>{tag}</Text>
            {page.actions.length === 0 ? null : (
              <button
                type="button"
                class="icon-button"
                aria-label={`Remove the tag ${tag}`}
                onClick={() => askPlan({ kind: "untag", run, sequence: checkpoint.sequence, name: tag })}
              >
                <Icon name="failed" />
              </button>
            )}
          </span>
        ))}
      </p>
      {integrity.problems.length === 0 ? null : (
        <ul class="card problem">
          {integrity.problems.map((text) => (
            <li key={text}>
              <Text>{text}</Text>
            </li>
          ))}
        </ul>
      )}
      <dl class="run-facts">
        {facts.map(([title, text]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd class={/Digest|Commit|Branch/.test(title) ? "mono" : "num"}>
              <Text>{text}</Text>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function PlanePanel(props: {
  readonly here: CheckpointRoute;
  readonly page: CheckpointPage;
  readonly points: readonly [string, string];
  readonly changes: Changes | null;
}): JSX.Element {
  const { here, page, changes } = props;
  switch (here.plane) {
    case "files":
      return (
        <>
          {changes === null ? (
            <Skeleton />
          ) : (
            <FileChanges
              points={props.points}
              changes={changes}
              file={here.file}
              onFile={(file) => go({ ...here, file }, "replace")}
            />
          )}
          {page.files === null || page.files.notSaved.length === 0 ? null : (
            <section class="card">
              <h2>Not saved, so a restore cannot bring it back</h2>
              <ul>
                {page.files.notSaved.map(({ path, why }) => (
                  <li key={path}>
                    <code>
                      <Text>{path}</Text>
                    </code>{" "}
                    <span class="meta">
                      <Text>{why}</Text>
                    </span>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </>
      );
    case "state":
      return (
        <>
          {changes === null ? <Skeleton /> : <ValueChanges values={changes.values} />}
          <details class="whole-state">
            <summary>All values</summary>
            <JsonText value={page.state} />
          </details>
        </>
      );
    case "conversation":
      return page.conversation === null || page.conversation.href === null ? (
        <Empty title="This checkpoint has no conversation." />
      ) : (
        <Transcript href={page.conversation.href} size={page.conversation.bytes} />
      );
    case "effects":
      return <Effects effects={page.effects} />;
  }
}
