// The page of a checkpoint: its four planes against its parent or any other point, and what going back to it would do.
import type { JSX } from "preact";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { Changes, CheckpointPage } from "./api.ts";
import { Effects, FileChanges, JsonText, PointSelect, ValueChanges, diffPath } from "./diff-view.tsx";
import { useKeys } from "./keys.tsx";
import { afterEntry, useCheckpoints, useQuery } from "./live.ts";
import { Transcript } from "./output-view.tsx";
import {
  A,
  Chip,
  Empty,
  Fact,
  Heading,
  Icon,
  IconButton,
  Loaded,
  PageCommand,
  ProblemCard,
  RunHead,
  Skeleton,
  Tabs,
  Text,
  go,
} from "./parts.tsx";
import { Actions, askPlan } from "./plan-sheet.tsx";
import { type At, PLANES, type Plane, addressOf, checkpointRoute, runRoute } from "./router.ts";
import { bytes, moment, plural, scoreWord, stageWord } from "./words.ts";

export default function CheckpointPageView({ here }: { readonly here: At<"checkpoint"> }): JSX.Element {
  const { run, sequence } = here;
  const query = useQuery<CheckpointPage>(
    `/api/runs/${run}/checkpoints/${sequence}`,
    [`run:${run}`],
    afterEntry(run, /tag/),
  );
  const { data } = query;
  const list = useCheckpoints(run, sequence);
  const [repository = "", id = ""] = run.split("/");
  const sequences = list.map((one) => one.sequence).toSorted((a, b) => a - b);
  const before = sequences.findLast((one) => one < sequence);
  const after = sequences.find((one) => one > sequence);
  const move = (to: number | undefined): void => {
    if (to !== undefined) go({ ...here, sequence: to, file: null });
  };
  const actions = data?.actions ?? [];
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
  const neighbour = (to: number | undefined, icon: "back" | "next"): JSX.Element | null =>
    to === undefined ? null : (
      <A to={{ ...checkpointRoute(run, to), plane: here.plane }} aria-label={`Checkpoint ${to}`} class="button">
        {icon === "back" ? <Icon name="back" /> : null} @{to} {icon === "next" ? <Icon name="next" /> : null}
      </A>
    );
  return (
    <>
      <RunHead
        repository={repository}
        run={<A to={runRoute(run)}>{id}</A>}
        title={
          <div class="flex wide-gap">
            <Heading class="num">
              <Text>{`${id}@${sequence}`}</Text>
            </Heading>
            {neighbour(before, "back")}
            {neighbour(after, "next")}
          </div>
        }
        actions={<Actions actions={actions} />}
      />
      <Loaded query={query} rows={8}>
        {(page) => <Planes here={here} page={page} checkpoints={list} />}
      </Loaded>
    </>
  );
}

function Planes(props: {
  readonly here: At<"checkpoint">;
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
        <label class="check">
          Compared with
          <PointSelect
            checkpoints={props.checkpoints.filter(({ sequence }) => sequence !== here.sequence)}
            value={here.against}
            none={checkpoint.parent === null ? "the start of the run" : `its parent, ${checkpoint.parent.id}`}
            start={checkpoint.parent === null ? null : "the start of the run"}
            onSet={(against) => go({ ...here, against, file: null }, "replace")}
          />
        </label>
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
function againstOf(here: At<"checkpoint">, { checkpoint }: CheckpointPage): string {
  if (here.against !== null) return addressOf(here.run, here.against);
  const parent = checkpoint.parent?.id;
  const [repository = ""] = here.run.split("/");
  return parent === undefined ? addressOf(here.run, "base") : `${repository}/${parent}`;
}

function Facts({ run, page }: { readonly run: string; readonly page: CheckpointPage }): JSX.Element {
  const { checkpoint, integrity, files } = page;
  const { stage, iteration, score, createdAt, entry, digest, name, tags, size } = checkpoint;
  const facts: readonly (readonly [string, string])[] = [
    ["Saved", `${moment(createdAt, Date.now())}, ${page.saved}`],
    ["Stage", stageWord(stage, iteration)],
    ...(name === null ? [] : [["Name", name] as const]),
    ...(score === null ? [] : [["Score so far", scoreWord(score)] as const]),
    ["Entry", String(entry)],
    ["Added", bytes(size.added)],
    ["Digest", digest.replace(/^sha256:/, "").slice(0, 12)],
    ...(files?.head == null ? [] : [["Commit", files.head.slice(0, 10)] as const]),
    ...(files?.branch == null ? [] : [["Branch", files.branch] as const]),
  ];
  return (
    <>
      <p class="facts">
        {integrity.whole ? <Chip tone="done">intact</Chip> : <Chip tone="failed">damaged</Chip>}
        {tags.map((tag) => (
          <span key={tag} class="tag">
            <Icon name="tag" />
            <Text>{tag}</Text>
            {page.actions.length === 0 ? null : (
              <IconButton
                icon="failed"
                label={`Remove the tag ${tag}`}
                onClick={() => askPlan({ kind: "untag", run, sequence: checkpoint.sequence, name: tag })}
              />
            )}
          </span>
        ))}
      </p>
      {integrity.problems.length === 0 ? null : (
        <ul class="card problem">
          {integrity.problems.map((text) => (
            <Text as="li" key={text}>
              {text}
            </Text>
          ))}
        </ul>
      )}
      <dl class="run-facts">
        {facts.map(([title, text]) => (
          <Fact key={title} title={title} class={/Digest|Commit|Branch/.test(title) ? "mono" : "num"}>
            <Text>{text}</Text>
          </Fact>
        ))}
      </dl>
    </>
  );
}

function PlanePanel(props: {
  readonly here: At<"checkpoint">;
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
                    <Text as="code">{path}</Text> <Text class="meta">{why}</Text>
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
          {changes === null ? <Skeleton /> : <ValueChanges values={changes.values} more={changes.moreValues} />}
          <details>
            <summary>All values</summary>
            <JsonText value={page.state} />
          </details>
        </>
      );
    case "conversation":
      return page.conversation === null || page.conversation.href === null ? (
        <Empty title="This checkpoint has no conversation." />
      ) : (
        <Transcript key={page.conversation.href} href={page.conversation.href} size={page.conversation.bytes} />
      );
    case "effects":
      return <Effects effects={page.effects} />;
  }
}
