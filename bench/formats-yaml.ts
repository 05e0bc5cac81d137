/**
 * Codecs against the plain parser alone, in one interleaved run, in processor time: a crunch checkpoint of 10 MB as YAML and as JSON, and 10 MB of
 * context-store versions. Run: node bench/formats-yaml.ts [rounds] [megabytes]
 * The peer of YAML is the `yaml` library as it comes, but without its own look for repeated keys: that one compares every key
 * with every other, and would make us look several times faster than we are. It is shown once, for what it is.
 */
import { parse, stringify } from "yaml";
import { contextStore, encodeContextStore } from "@holdfast/formats/context-store";
import { crunchYaml, encodeCrunch } from "@holdfast/formats/crunch-yaml";
import type { ExternalCheckpoint, ExternalFile } from "@holdfast/formats/format";
import { printRatio, quantile } from "./report.ts";

const rounds = Number(process.argv[2] ?? 3);
const SIZE = Number(process.argv[3] ?? 10) * 1024 * 1024;
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

// Each as large as the other when it is written: the same tasks take more bytes as JSON.
const crunch = crunchDocument((value) => stringify(value, { lineWidth: 0 }));
const crunchJson = crunchDocument((value) => JSON.stringify(value, null, 4));
const yamlFile = fileOf("CP-big.yaml", stringify(crunch, { lineWidth: 0 }));
const jsonFile = fileOf("CP-big.json", JSON.stringify(crunchJson, null, 2));
const versions = contextVersions();
const contextFile = fileOf("task-1.json", JSON.stringify(versions, null, 2));
const decodedYaml = one(crunchYaml.decode(yamlFile).checkpoints);
const decodedJson = one(crunchYaml.decode(jsonFile).checkpoints);
const decodedContext = contextStore.decode(contextFile).checkpoints;

compare("crunch YAML: decode / yaml.parse", {
  ours: () => crunchYaml.decode(yamlFile),
  peer: () => parse(text(yamlFile.bytes), { schema: "core", uniqueKeys: false }),
});
compare("crunch YAML: encode / yaml.stringify", {
  ours: () => encodeCrunch(decodedYaml),
  peer: () => utf8(stringify(crunch, { lineWidth: 0 })),
});
compare("crunch JSON: decode / JSON.parse", {
  ours: () => crunchYaml.decode(jsonFile),
  peer: () => JSON.parse(text(jsonFile.bytes)),
});
compare("crunch JSON: encode / JSON.stringify", {
  ours: () => encodeCrunch(decodedJson, "json"),
  peer: () => utf8(JSON.stringify(crunchJson, null, 2)),
});
compare("context-store: decode / JSON.parse", {
  ours: () => contextStore.decode(contextFile),
  peer: () => JSON.parse(text(contextFile.bytes)),
});
compare("context-store: encode / JSON.stringify", {
  ours: () => encodeContextStore(decodedContext),
  peer: () => utf8(JSON.stringify(versions, null, 2)),
});
const strict = time(() => parse(text(yamlFile.bytes), { schema: "core" }));
const ours = time(() => crunchYaml.decode(yamlFile));
printRatio({ what: "crunch YAML: decode / yaml.parse with its look at keys", ours, peer: strict, unit: "ms" });

function compare(what: string, sides: { readonly ours: () => unknown; readonly peer: () => unknown }): void {
  const [ours, peer]: [number[], number[]] = [[], []];
  time(sides.ours);
  time(sides.peer);
  for (let round = 0; round < rounds; round += 1) {
    ours.push(time(sides.ours));
    peer.push(time(sides.peer));
  }
  printRatio({ what, ours: quantile(ours, 0.5), peer: quantile(peer, 0.5), unit: "ms", atMost: 1.5 });
}

/** Processor time of this thread, as in formats.ts: there is nothing to wait for here, and what else the machine does must not count. */
function time(act: () => unknown): number {
  const start = process.threadCpuUsage();
  act();
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / 1000;
}

function fileOf(path: string, content: string): ExternalFile {
  return { path, bytes: utf8(content), compression: "none" };
}

function one(checkpoints: readonly ExternalCheckpoint[]): ExternalCheckpoint {
  const [first] = checkpoints;
  if (first === undefined) throw new Error("there is no checkpoint");
  return first;
}

function output(n: number): object {
  return {
    completed_at: "2025-01-14T10:05:00Z",
    output_summary: `Task ${n}: spec created for the refresh token; rotation, revocation: both.\n\n- second line ${n}\n- third line`,
    output_location: `.claude/crunch/42/spec-${n}.md`,
    findings: [
      { id: `F-${n}`, severity: "HIGH", title: "tokens are logged", confidence: n % 100, fixed: n % 2 === 0 },
      { id: `F-${n + 1}`, severity: "LOW", title: "a name: too short", confidence: 50, fixed: null },
    ],
  };
}

function crunchDocument(write: (value: object) => string): object {
  const agents: Record<string, Record<string, object>> = {};
  const document = {
    checkpoint_id: "CP-implementing-20250114-a3f2",
    version: "1.0",
    created_at: "2025-01-14T10:30:00Z",
    issue_number: 42,
    session_id: "s",
    workflow_state: { current_phase: "implementing", current_state_label: "state:implementing", phase_attempt: 1 },
    issue_snapshot: { title: "t", body: "b", labels: ["state:implementing"], assignees: [], branch: "feature/x" },
    team_state: { team_id: "TEAM-1", members: [] },
    execution_graph: { graph_id: "GRAPH-1", completed_batches: [1], current_batch: 2, node_states: {} },
    agent_outputs: agents,
    acp_state: {},
    knowledge_context: {},
    files_modified: [],
    recovery_info: { can_resume: true, resume_from: "batch_2_task_1", prerequisites_met: true, warnings: [] },
  };
  const each = write({ a: output(1000) }).length + 20;
  const perAgent = 40;
  for (let n = 0; n * each < SIZE; n += 1) {
    const agent = `agent-${Math.floor(n / perAgent)}`;
    (agents[agent] ??= {})[`task_${n}`] = output(n);
  }
  return document;
}

function contextVersions(): readonly object[] {
  const each = JSON.stringify(output(1000), null, 2).length + 100;
  const count = 100;
  const per = Math.ceil(SIZE / each / count);
  return Array.from({ length: count }, (_, version) => ({
    task_id: "task-1",
    version: version + 1,
    values: { messages: Array.from({ length: per }, (_item, n) => output(version * per + n)) },
    token_usage: { input_tokens: version * 100, output_tokens: version * 10 },
    metadata: { step: version },
    created_at: "2026-02-01T09:30:00.123456+00:00",
  }));
}
