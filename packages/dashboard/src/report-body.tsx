// A run's whole story on one page. It has no links into the page and needs no scripts, so it is also what `holdfast format export --to html` writes.
import type { JSX } from "preact";
import type { Report, Span, Timeline } from "./api.ts";
import { Lines, Patch } from "./diff-view.tsx";
import { Box, Fact, Gauges, Heading, Outside, RowFacts, StatusChip, Table, Text } from "./parts.tsx";
import { whereOf } from "./rows.ts";
import { GraphView, TeamView } from "./team.tsx";
import { costByStage, lengthOf, storyOf, workEnd } from "./timeline.ts";
import { amount, bytes, clock, duration, money, plural, scoreWord, short, stageWord } from "./words.ts";

/** Years and days are part of a document that is read later. */
function when(at: string): string {
  return `${at.slice(0, 10)} ${clock(at, true)}`;
}

export function ReportBody({ report }: { readonly report: Report }): JSX.Element {
  const { page, timeline, checkpoints, effects, files, patches } = report;
  const { row, reasonCard, issueText } = page;
  const end = workEnd(timeline);
  return (
    <article class="report">
      <header>
        <Text as="p" class="meta">
          {`${row.repository} / ${row.run.id}`}
        </Text>
        <Heading>
          <Text>{row.title}</Text>
        </Heading>
        <p class="facts">
          <StatusChip row={row} />
          <Text>{whereOf(row)}</Text>
          <span class="meta">as of {when(page.asOf)}</span>
        </p>
      </header>
      <dl class="run-facts">
        <Fact title="Started">{when(row.run.createdAt)}</Fact>
        <Fact title="Crashes">{row.crashes === 0 ? "none" : `survived ${row.crashes}`}</Fact>
        <Fact title="Checkpoints">{String(row.run.checkpoints)}</Fact>
        <RowFacts row={row} />
      </dl>
      {row.budget === null ? null : <Gauges budget={row.budget} />}
      {reasonCard === null ? null : (
        <section>
          <h2>{reasonCard.title}</h2>
          <Text as="p">{reasonCard.cause}</Text>
          {reasonCard.tail.length === 0 ? null : <Box label="End of the output">{reasonCard.tail.join("\n")}</Box>}
        </section>
      )}
      {issueText === null ? null : (
        <section>
          <h2>Task</h2>
          <Box label="Task">{issueText.before}</Box>
        </section>
      )}
      <section>
        <h2>Story</h2>
        <ol class="report-story">
          {storyOf(timeline).map(({ key, at, text, kind, sequence, span }) => (
            <li key={key} data-kind={kind}>
              <time class="meta num" dateTime={at}>
                {clock(at, true)}
              </time>
              <span>
                {kind === "checkpoint" ? <b class="num">@{sequence} </b> : null}
                {kind === "crash" ? <b>✗ </b> : null}
                <Text>{text}</Text>
                <SpanFacts span={span} gaps={timeline.gaps} end={end} />
              </span>
            </li>
          ))}
        </ol>
      </section>
      <section>
        <h2>Cost</h2>
        <CostTable timeline={timeline} end={end} />
      </section>
      {effects.length === 0 ? null : (
        <section>
          <h2>Effects</h2>
          <ul>
            {effects.map((effect) => (
              <li key={effect.key}>
                <b>{effect.state}</b> <Text>{effect.text}</Text>{" "}
                {effect.link === null ? null : <Outside link={effect.link} />}
                <span class="meta"> {when(effect.at)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {page.graph === null ? null : (
        <section>
          <h2>Task graph</h2>
          <GraphView graph={page.graph} />
        </section>
      )}
      {page.team === null ? null : (
        <section>
          <h2>Team</h2>
          <TeamView team={page.team} />
        </section>
      )}
      <section>
        <h2>Checkpoints</h2>
        <Table
          head={["Checkpoint", "Saved", "Stage", "Score so far", "Added", "Digest"]}
          rows={checkpoints.map(({ sequence, createdAt, stage, iteration, score, size, digest, tags }) => [
            <Text>{`@${sequence} ${tags.join(" ")}`}</Text>,
            clock(createdAt, true),
            stageWord(stage, iteration),
            score === null ? "" : scoreWord(score),
            bytes(size.added),
            <code>{digest.replace(/^sha256:/, "").slice(0, 12)}</code>,
          ])}
        />
      </section>
      {files === null ? null : (
        <section>
          <h2>
            Changes: {plural(files.length, "file")} <Lines files={files} />
          </h2>
          {patches.map(({ path, patch, truncated }) => (
            <section key={path}>
              <h3 class="mono">
                <Text>{path}</Text>
              </h3>
              <Patch path={path} patch={patch} truncated={truncated} still />
            </section>
          ))}
          <LeftOut count={files.length - patches.length} />
        </section>
      )}
      <footer class="meta">
        <Text>{page.command}</Text>
      </footer>
    </article>
  );
}

/** A reader who cannot ask the server must know that there is more. */
function LeftOut({ count }: { readonly count: number }): JSX.Element | null {
  if (count === 0) return null;
  return <p>{`The changes of ${plural(count, "more file")} are left out, because this report would be too long.`}</p>;
}

/** How long a span worked, and what it cost. */
export function SpanFacts(props: {
  readonly span: Span | null;
  readonly gaps: Timeline["gaps"];
  readonly end: number;
}): JSX.Element | null {
  const { span, gaps, end } = props;
  if (span === null) return null;
  const spent = span.spent === null ? "" : amount(span.spent);
  const facts = [duration(lengthOf(span, gaps, end)), spent].filter((fact) => fact !== "" && fact !== "$0");
  return <span class="meta num"> {facts.join(" · ")}</span>;
}

/** What each stage cost. */
export function CostTable(props: { readonly timeline: Timeline; readonly end: number }): JSX.Element {
  return (
    <Table
      head={["Stage", "Times", "Cost", "Tokens", "Time"]}
      right={1}
      rows={costByStage(props.timeline, props.end).map(({ name, times, microUsd, tokens, milliseconds }) => [
        <Text>{name}</Text>,
        times,
        microUsd === null ? "–" : money(microUsd),
        tokens === null ? "–" : short(tokens),
        duration(milliseconds),
      ])}
    />
  );
}
