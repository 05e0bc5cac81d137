// A run's whole story on one page. It has no links into the page and needs no scripts, so it is also what `holdfast format export --to html` writes.
import type { JSX } from "preact";
import type { Report } from "./api.ts";
import { Lines, Patch } from "./diff-view.tsx";
import { Gauges, Outside, Scores, StatusChip, Text, Trail } from "./parts.tsx";
import { whereOf } from "./rows.ts";
import { costByStage, storyOf, workEnd } from "./timeline.ts";
import { bytes, clock, duration, money, plural, short } from "./words.ts";

/** Years and days are part of a document that is read later. */
function when(at: string): string {
  return `${at.slice(0, 10)} ${clock(at, true)}`;
}

export function ReportBody({ report }: { readonly report: Report }): JSX.Element {
  const { page, timeline, checkpoints, effects, changes, patches } = report;
  const { row, reasonCard, issueText } = page;
  const end = workEnd(timeline);
  return (
    <article class="report">
      <header>
        <p class="meta">
          <Text>{`${row.repository} / ${row.run.id}`}</Text>
        </p>
        <h1 tabIndex={-1}>
          <Text>{row.title}</Text>
        </h1>
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
        {row.branch === null ? null : (
          <Fact title="Branch">
            <Text>{row.branch}</Text>
          </Fact>
        )}
        {row.issue === null ? null : (
          <Fact title="Issue">
            <Outside link={row.issue} />
          </Fact>
        )}
        {row.pullRequest === null ? null : (
          <Fact title="Pull request">
            <Outside link={row.pullRequest} />
          </Fact>
        )}
        {row.scores.length === 0 ? null : (
          <Fact title="Scores">
            <Scores scores={row.scores} />
          </Fact>
        )}
        {row.checks.map(({ name, trail }) => (
          <Fact key={name} title={name}>
            <Trail trail={trail} />
          </Fact>
        ))}
      </dl>
      {row.budget === null ? null : <Gauges budget={row.budget} />}
      {reasonCard === null ? null : (
        <section>
          <h2>Why it stopped</h2>
          <p>
            <Text>{reasonCard.cause}</Text>
          </p>
          {reasonCard.tail.length === 0 ? null : (
            <pre class="tail">
              <Text>{reasonCard.tail.join("\n")}</Text>
            </pre>
          )}
        </section>
      )}
      {issueText === null ? null : (
        <section>
          <h2>Task</h2>
          <pre class="task">
            <Text>{issueText.before}</Text>
          </pre>
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
                {span === null ? null : (
                  <span class="meta num">
                    {" "}
                    {duration((span.endedAt === null ? end : Date.parse(span.endedAt)) - Date.parse(span.startedAt))}
                    {span.spent?.microUsd == null || span.spent.microUsd === 0
                      ? ""
                      : ` · ${money(span.spent.microUsd)}`}
                  </span>
                )}
              </span>
            </li>
          ))}
        </ol>
      </section>
      <section>
        <h2>Cost</h2>
        <table class="table">
          <thead>
            <tr>
              {["Stage", "Times", "Cost", "Tokens", "Time"].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {costByStage(timeline.spans, end).map(({ name, times, microUsd, tokens, milliseconds }) => (
              <tr key={name}>
                <th scope="row">
                  <Text>{name}</Text>
                </th>
                <td class="num">{times}</td>
                <td class="num">{microUsd === null ? "–" : money(microUsd)}</td>
                <td class="num">{tokens === null ? "–" : short(tokens)}</td>
                <td class="num">{duration(milliseconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {effects.length === 0 ? null : (
        <section>
          <h2>Effects</h2>
          <ul class="report-effects">
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
      <section>
        <h2>Checkpoints</h2>
        <table class="table">
          <thead>
            <tr>
              {["Checkpoint", "Saved", "In", "Score", "Added", "Digest"].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {checkpoints.map(({ sequence, createdAt, stage, iteration, score, size, digest, tags }) => (
              <tr key={sequence}>
                <th scope="row" class="num">
                  @{sequence} <Text>{tags.join(" ")}</Text>
                </th>
                <td class="num">{clock(createdAt, true)}</td>
                <td>{iteration > 0 ? `${stage} #${iteration}` : stage}</td>
                <td class="num">{score ?? ""}</td>
                <td class="num">{bytes(size.added)}</td>
                <td class="mono">{digest.replace(/^sha256:/, "").slice(0, 12)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {changes?.files == null ? null : (
        <section>
          <h2>
            Changes: {plural(changes.files.length, "file")} <Lines files={changes.files} />
          </h2>
          {patches.map(({ path, patch, truncated }) => (
            <section key={path} class="report-file">
              <h3 class="mono">
                <Text>{path}</Text>
              </h3>
              <Patch path={path} patch={patch} truncated={truncated} still />
            </section>
          ))}
        </section>
      )}
      <footer class="meta">
        <Text>{page.command}</Text>
      </footer>
    </article>
  );
}

function Fact({ title, children }: { readonly title: string; readonly children: JSX.Element | string }): JSX.Element {
  return (
    <div>
      <dt>
        <Text>{title}</Text>
      </dt>
      <dd>{children}</dd>
    </div>
  );
}
