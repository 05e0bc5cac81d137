import { maskValue } from "../core/mask.ts";
import type { NewEntry } from "../core/journal/journal.ts";
import { eachForgeQuestion } from "../engine/record/each-question.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import type { Agent } from "../ports/agent.ts";
import type { Branch } from "../ports/branch.ts";
import type { Forge } from "../ports/forge.ts";
import type { Commit, Store } from "../ports/store.ts";
import type { Masking } from "../system/own-secrets.ts";

/**
 * The parts that runs work with, behind one mask: text that comes in (issues, output of commands, diffs) and text that goes out (journal, logs,
 * prompts, commit messages, requests to the forge) has its secrets hidden. Masking twice is masking once, so what came in masked is stored, compared
 * and hashed as it is. Files in checkpoints are bytes, and are not touched.
 */
export function maskedParts(parts: WorkParts, masking: Masking): WorkParts {
  const mask = (text: string): string => masking.mask(text);
  const clean = new WeakSet<object>();
  const hide = <T>(value: T): T => maskValue(value, mask, clean);
  return {
    ...parts,
    masking,
    store: maskedStore(parts.store, hide),
    forge: parts.forge === null ? null : maskedForge(parts.forge, hide),
    agent: (provider) => maskedAgent(parts.agent(provider), hide),
    branches: {
      of: async (worktree) => maskedBranch(await parts.branches.of(worktree), mask),
      asking: (folder) => parts.branches.asking(folder),
    },
    commands: {
      run: async (params) => hide(await parts.commands.run(params)),
      endMarked: (mark) => parts.commands.endMarked(mark),
    },
    agentLog(call) {
      const log = parts.agentLog(call);
      return { path: log.path, append: (line) => log.append(mask(line)), close: () => log.close() };
    },
  };
}

type Hide = <T>(value: T) => T;

function maskedForge(forge: Forge, hide: Hide): Forge {
  return eachForgeQuestion(
    forge,
    (mark) => maskedForge(forge.marked(mark), hide),
    (_method, ask) =>
      async (...args) =>
        hide(await ask(...hide(args))),
  );
}

function maskedAgent(agent: Agent, hide: Hide): Agent {
  return {
    ...agent,
    run: async (task) =>
      hide(
        await agent.run({
          ...task,
          prompt: hide(task.prompt),
          onEvent: (event) => task.onEvent(event.kind === "raw" ? event : hide(event)),
        }),
      ),
  };
}

function maskedBranch(branch: Branch, mask: (text: string) => string): Branch {
  return {
    ...branch,
    commit: (params) => branch.commit({ ...params, message: mask(params.message) }),
    commitResolved: (params) => branch.commitResolved({ ...params, message: mask(params.message) }),
    diffSince: async (params) => {
      const { text, cut } = await branch.diffSince(params);
      return { text: mask(text), cut };
    },
  };
}

function maskedStore(store: Store, hide: Hide): Store {
  const entryOf = (entry: NewEntry): NewEntry => {
    const body = hide(entry.body);
    return body === entry.body ? entry : { ...entry, body };
  };
  const commitOf = (commit: Commit): Commit => {
    const { entries, checkpoint } = commit;
    return {
      ...commit,
      ...(entries === undefined ? {} : { entries: entries.map(entryOf) }),
      ...(checkpoint === undefined ? {} : { checkpoint: { ...checkpoint, planes: planesOf(checkpoint.planes) } }),
    };
  };
  // Of the conversation there is a digest, and its text comes masked. Files are git's, and the config is what a resume starts agents with.
  const planesOf = (planes: NonNullable<Commit["checkpoint"]>["planes"]): typeof planes => ({
    ...planes,
    position: hide(planes.position),
    context: hide(planes.context),
    inputs: hide(planes.inputs),
  });
  return {
    id: store.id,
    location: store.location,
    createRun: (run) =>
      store.createRun({
        ...run,
        work: hide(run.work),
        ...(run.labels === undefined ? {} : { labels: hide(run.labels) }),
      }),
    getRun: (id) => store.getRun(id),
    listRuns: (query) => store.listRuns(query),
    takeLease: (params) =>
      store.takeLease({ ...params, ...(params.birth === undefined ? {} : { birth: hide(params.birth) }) }),
    renewLease: (lease) => store.renewLease(lease),
    releaseLease: (lease) => store.releaseLease(lease),
    getLease: (run) => store.getLease(run),
    listLeases: () => store.listLeases(),
    commit: (commit) => store.commit(commitOf(commit)),
    getCheckpoint: (ref) => store.getCheckpoint(ref),
    latest: (run) => store.latest(run),
    listCheckpoints: (query) => store.listCheckpoints(query),
    readJournal: (query) => store.readJournal(query),
    watch: (query) => store.watch(query),
    listEffects: (run) => store.listEffects(run),
    tag: (params) => store.tag(params),
    untag: (params) => store.untag(params),
    drop: (params) => store.drop(params),
    listTombstones: (run) => store.listTombstones(run),
    sweep: (params) => store.sweep(params),
    verify: (params) => store.verify(params),
    quarantine: (params) => store.quarantine(params),
    stats: () => store.stats(),
    ...(store.makeRoom === undefined ? {} : { makeRoom: () => store.makeRoom?.() ?? Promise.resolve(0) }),
    ...(store.withheld === undefined ? {} : { withheld: () => store.withheld?.() ?? [] }),
    getMeta: (key) => store.getMeta(key),
    setMeta: (key, value) => store.setMeta(key, value),
    close: () => store.close(),
  };
}
