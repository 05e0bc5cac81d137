import { HoldfastError } from "../../core/error.ts";
import type { Graph } from "../../core/graph/graph.ts";
import { GraphSchedule } from "../../core/graph/graph-schedule.ts";
import type { GraphView } from "../../core/graph/graph-schedule.ts";
import type { GraphEvent } from "../../core/graph/graph-state.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import type { Json } from "../../core/json.ts";
import { capture } from "../../core/values/index.ts";
import { finishedEntry } from "../stage/step-entries.ts";
import type { StageGraph } from "../stage-context.ts";
import type { Stay } from "../stage/stay.ts";

/** The graph in the position, and the entries that change it. Memory changes in the same turn as the commit is called. */
export function stageGraph(stay: Stay): StageGraph {
  const { writer } = stay;
  const move: StageGraph["moveThen"] = async (events, choose) => {
    // What was brought to its end may still be told while work stops; nothing begins then.
    if (events.length > 0 && events.every(({ kind }) => kind === "complete")) stay.open();
    else stay.check();
    return await commitMoves(stay, { events, choose, also: () => [] });
  };
  return {
    now: () => (writer.graphSet ? (writer.schedule?.graph() ?? null) : null),
    view: () => scheduleOf(stay),
    set: (graph) => setGraph(stay, graph),
    moveThen: move,
    async move(...events) {
      await move(events, () => []);
    },
    async moveOnce(name, ...events) {
      if (stay.claim(name) !== undefined) return;
      await writer.parts.player?.recorded(writer, name, null);
      const also = (): readonly NewEntry[] => {
        writer.steps.set(name, null);
        return [finishedEntry({ result: null, spent: null, step: name, visit: writer.visit })];
      };
      await commitMoves(stay, { events, choose: () => [], also }).catch((error: unknown) => {
        stay.unclaim(name);
        throw error;
      });
    },
  };
}

async function setGraph(stay: Stay, live: Graph): Promise<void> {
  const { writer } = stay;
  stay.check();
  if (writer.graphSet) {
    if (writer.schedule?.graph().id !== live.id) throw anotherGraph(stay, live.id);
    return;
  }
  const captured = capture(live);
  // A capture has the shape of what it was taken from.
  const schedule = new GraphSchedule(captured as unknown as Graph);
  await stay.busy(async () => {
    writer.schedule = schedule;
    writer.graphSet = true;
    await writer.append({ kind: "graph.set", body: { graph: captured, visit: writer.visit } });
  });
}

async function commitMoves(
  stay: Stay,
  params: {
    readonly events: readonly GraphEvent[];
    readonly choose: (view: GraphView) => readonly GraphEvent[];
    readonly also: () => readonly NewEntry[];
  },
): Promise<readonly GraphEvent[]> {
  const { writer } = stay;
  const schedule = scheduleOf(stay);
  const given = params.events.map(captureEvent);
  const chosen = schedule.apply(given, (view) => params.choose(view).map(captureEvent));
  const events = [...given, ...chosen];
  const entries = [...(events.length === 0 ? [] : [movedEntry(events, writer.visit)]), ...params.also()];
  if (entries.length > 0) await stay.busy(() => writer.append(...entries));
  if (writer.listening && events.length > 0) writer.tell({ kind: "graph_moved", events });
  return chosen;
}

function captureEvent(event: GraphEvent): GraphEvent {
  // As above.
  return capture(event) as unknown as GraphEvent;
}

export function movedEntry(events: readonly GraphEvent[], visit: number): NewEntry {
  // Plain data, captured or made by us.
  return { kind: "graph.moved", body: { events: events as unknown as Json[], visit } };
}

function scheduleOf(stay: Stay): GraphSchedule {
  const { schedule, graphSet } = stay.writer;
  if (schedule !== null && graphSet) return schedule;
  throw new HoldfastError({
    code: "USAGE",
    message: `Stage ${stay.stage} moves a graph that it has not set`,
    hint: "Call graph.set first; what an earlier visit left is not this one's.",
    data: { stage: stay.stage },
  });
}

function anotherGraph({ stage, writer }: Stay, id: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Stage ${stage} sets graph ${id}, and this visit has set ${writer.schedule?.graph().id ?? "another"}`,
    hint: "A visit has one graph: add nodes to it, or give the second one a stage of its own.",
    data: { stage },
  });
}
