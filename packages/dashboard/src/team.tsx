// A team at work: its task graph by batches, its conflicts with the votes, and its messages.
import type { JSX } from "preact";
import type { TaskGraph, Team, TeamConflict } from "./api.ts";
import { Messages } from "./output-view.tsx";
import { Chip, Empty, Icon, Text } from "./parts.tsx";
import { type Tone, moment } from "./words.ts";

const NODE_TONES: Readonly<Record<TaskGraph["nodes"][number]["state"], Tone>> = {
  complete: "done",
  running: "running",
  interrupted: "crashed",
  failed: "failed",
  unknown: "you",
  skipped: "aborted",
  queued: "queued",
  pending: "queued",
};

/** The task graph by batches: each column can run at the same time. */
export function GraphView({ graph }: { readonly graph: TaskGraph | null }): JSX.Element {
  if (graph === null) return <Empty title="This run has no task graph." />;
  return (
    <ol class="graph">
      {graph.batches.map((batch, index) => (
        <li key={index} class="batch">
          <h2 class="meta">batch {index + 1}</h2>
          <ul>
            {graph.nodes
              .filter(({ id }) => batch.includes(id))
              .map(({ id, agent, action, state, critical, waitsFor, reason }) => (
                <li key={id} class={`node tone-${NODE_TONES[state]} ${critical ? "node-critical" : ""}`}>
                  <span class="apart">
                    <Text as="b">{id}</Text>
                    <span class="node-state">{state}</span>
                  </span>
                  <Text>{`${agent}, ${action}`}</Text>
                  <Text class="meta">{waitsFor.length === 0 ? null : `after ${waitsFor.join(", ")}`}</Text>
                  {reason === null ? null : (
                    <span class="meta">
                      <Icon name="warning" /> <Text>{reason}</Text>
                    </span>
                  )}
                </li>
              ))}
          </ul>
        </li>
      ))}
    </ol>
  );
}

/** Conflicts first: they say why the team decided what it did. */
export function TeamView({ team }: { readonly team: Team | null }): JSX.Element {
  if (team === null) return <Empty title="No agent has sent a message yet." />;
  const { conflicts, messages } = team;
  return (
    <div class="team spaced">
      {conflicts.map((conflict) => (
        <Conflict key={conflict.id} conflict={conflict} />
      ))}
      {messages.length === 0 ? null : (
        <section>
          <h2>Messages</h2>
          <Messages
            messages={messages.map(({ at, from, to, kind, status, text }) => ({
              role: `${moment(at, Date.now())}  ${from} → ${to === "*" ? "all" : to}  ${kind}, ${status}`,
              text,
            }))}
          />
        </section>
      )}
    </div>
  );
}

function Conflict({ conflict }: { readonly conflict: TeamConflict }): JSX.Element {
  const { topic, choices, votes, asks, outcome } = conflict;
  return (
    <section class="card">
      <h2>
        Conflict: <Text>{topic}</Text>
      </h2>
      <p class="facts">
        <Chip tone={outcome !== null ? "done" : asks === null ? "running" : "you"}>
          {outcome !== null ? `settled by ${outcome.how}` : asks === null ? "open" : "asks you"}
        </Chip>
        <Text class="strong">{outcome?.choice ?? asks}</Text>
        {outcome === null ? <Text class="meta">{choices.join(" or ")}</Text> : null}
      </p>
      <Text as="p">{outcome === null || outcome.why === "" ? null : outcome.why}</Text>
      {outcome === null || outcome.against.length === 0 ? null : (
        <p class="meta">
          Against it: <Text>{outcome.against.join("; ")}</Text>
        </p>
      )}
      <Messages
        messages={votes.map(({ round, agent, choice, why, confidence, veto }) => ({
          role: `${agent}, round ${round}, ${confidence} % sure`,
          text: [`Votes for ${choice}.`, veto, why].filter((text) => text !== null && text !== "").join("\n"),
        }))}
      />
    </section>
  );
}
