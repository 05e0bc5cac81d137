/** Asks for and remembers the user's consent to settings of a repository, and loads the settings that may take effect. */
import { basename } from "node:path";
import { AGENT_PROGRAMS, splitAgent } from "@holdfast/core/agent";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { withoutPassword } from "@holdfast/postgres/store-url";
import { BUILT_IN_NAMES } from "@holdfast/workflows/built-in";
import type { CrunchSettings } from "@holdfast/workflows/crunch/settings";
import { agentFileItems, argumentFiles } from "../config/agent-files.ts";
import { type ConsentItem, type Use, agentsNamedBy, overallDigest, ownDigest } from "../config/consent.ts";
import { type EffectiveConfig, mergeConfig } from "../config/effective-config.ts";
import { type LoadParams, type LoadedConfig, findRepositoryRoot, loadConfig } from "../config/load-config.ts";
import { grantTrust, readTrust, trustKey } from "../config/trust.ts";
import type { PromptFile } from "../config/workflow-settings.ts";
import { type Page, paint } from "./output/page.ts";
import { escapeText } from "./output/text.ts";

/**
 * How a command uses the settings of a repository. "reads" never needs consent, and settings without consent keep their
 * defaults. "store" needs it for the location of the store, "saves" also for what is saved and where, "works" for
 * everything that agents use.
 */
export type ConsentScope = "reads" | "store" | "saves" | "works";

export const USES_OF: Readonly<Record<ConsentScope, readonly Use[]>> = {
  reads: [],
  store: ["store"],
  saves: ["store", "save"],
  works: ["store", "save", "work"],
};

export interface ReadSettings {
  readonly config: EffectiveConfig;
  /** The problem of the file, if the defaults replace it; null: the file is valid. */
  readonly broken: HoldfastError | null;
}

interface ConsentRequest {
  readonly uses: readonly Use[];
  /** Keys that flags of this command replace. */
  readonly replaced?: ReadonlySet<string>;
  /** Items that are not settings: files that agents execute or load, a workflow, an imported document. */
  readonly more?: readonly ConsentItem[];
  /** The agents that the run may call. */
  readonly agents?: readonly string[];
  /**
   * `more` has the current files of the run's worktree. Absent: the worktree is created later and checked before the
   * first call.
   */
  readonly hasWorktree?: boolean;
  /** The run that `more` belongs to: `holdfast trust` shows these items only with it. */
  readonly run?: string;
}

export interface Consent {
  /** The settings that may take effect. A setting without consent keeps its default. */
  settings(): Promise<ReadSettings>;
  /** The settings as the file sets them, for display only. */
  stated(): Promise<EffectiveConfig>;
  /**
   * Everything that needs consent in the repository: settings, files of crunch's teams, files that agents execute or
   * load. `more` is added.
   */
  items(more?: readonly ConsentItem[]): Promise<readonly TrustedItem[]>;
  /** The value of HOLDFAST_TRUST that accepts these items: one digest for the whole repository, one for each other item. */
  trustValue(items: readonly ConsentItem[]): Promise<string>;
  isTrusted(item: ConsentItem): boolean;
  /** Asks for missing consent. Throws UNTRUSTED_SETTINGS if the user cannot be asked, or declines. */
  require(request: ConsentRequest): Promise<void>;
  /** Stores the user's consent. */
  grant(items: readonly ConsentItem[]): void;
  /** Stores consent to what the user has just typed or written. A failure to store it is only a warning. */
  remember(items: readonly ConsentItem[]): void;
  /**
   * The settings of crunch's teams: those of the repository, or the defaults under --no-config. Call `require` for
   * "crunch" before.
   */
  crunchSettings(): Promise<CrunchSettings>;
  /** The user's and the repository's own prompt templates; under --no-config only the user's. Call `require` for the workflow before. */
  promptFiles(): Promise<readonly PromptFile[]>;
  /**
   * Why an agent may not be called in a worktree; null: it may. Checked before each call, without a question to the
   * user.
   */
  refuseCall(call: { readonly agent: string; readonly worktree: string }): Promise<string | null>;
  readonly root: string;
  /** Warns once that the store which the file names has no consent, and that another one is read. */
  warnOfStore(): Promise<void>;
}

export interface TrustedItem {
  readonly item: ConsentItem;
  readonly trusted: boolean;
}

interface ConsentParams {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly storeFlag: string | undefined;
  /** --no-config: the repository's files are not read. */
  readonly noConfig: boolean;
  /** --trust */
  readonly trustFlag: boolean;
  /** Continue with the defaults if the file is broken, for commands that only read. */
  readonly lenient: boolean;
  readonly notify: (text: string) => void;
  /** `notify` prints nothing: --quiet or --json. */
  readonly isQuiet: boolean;
  /** Prints a warning, also under --json and --quiet. */
  readonly warn: (text: string, document: unknown) => void;
  readonly page: Page;
  readonly confirm: (question: string) => Promise<"yes" | "no" | "cannot_ask">;
}

export function createConsent(params: ConsentParams): Consent {
  const { cwd, env, page } = params;
  const variable = readVariable(env["HOLDFAST_TRUST"]);
  const root = findRepositoryRoot(cwd) ?? cwd;
  let repository: string | undefined;
  const key = (): string => (repository ??= trustKey(root));
  let granted: Set<string> | undefined;
  const grants = (): Set<string> => (granted ??= new Set(readTrust(env, key()).grants.map(({ digest }) => digest)));
  const whole = variable.all || params.trustFlag;
  /** Digests of the items that a digest in HOLDFAST_TRUST covers. */
  let covered: ReadonlySet<string> = new Set();
  /** By agent: the arguments of its command that were files before its first call. */
  const argumentsOf = new Map<string, ReadonlySet<string>>();
  let loaded: Promise<LoadedConfig> | undefined;
  let warned = false;
  let warnedOfStore = false;

  /**
   * --trust and HOLDFAST_TRUST=1 accept what exists before the first agent call of this command. Later changes may be
   * the agent's own, so only digests accepted by then count.
   */
  const accepted = new Set<string>();
  const called = new Set<string>();
  let hasStarted = false;
  const isAccepted = ({ digest }: ConsentItem): boolean => {
    if (whole && !hasStarted) accepted.add(digest);
    return accepted.has(digest);
  };
  const isTrusted = (item: ConsentItem): boolean =>
    isAccepted(item) ||
    grants().has(item.digest) ||
    covered.has(item.digest) ||
    variable.digests.includes(ownDigest(item));
  const layers = { cwd, env, storeFlag: params.storeFlag };
  const read = (allows: LoadParams["allows"]): Promise<LoadedConfig> =>
    params.noConfig
      ? Promise.resolve({ ok: true, config: mergeConfig({ ...layers, file: null }), consents: [] })
      : loadConfig({ ...layers, allows });
  const load = (): Promise<LoadedConfig> =>
    (loaded ??= (async () => {
      if (!whole && variable.digests.length > 0) {
        const items = await allItems();
        if (variable.digests.includes(overallDigest(items))) covered = new Set(items.map(({ digest }) => digest));
      }
      return await read(isTrusted);
    })());
  const crunchItems = async (): Promise<readonly ConsentItem[]> => {
    if (params.noConfig) return [];
    const { crunchConsents } = await import("../config/workflow-settings.ts");
    return await crunchConsents(cwd);
  };
  const promptItems = async (): Promise<readonly ConsentItem[]> => {
    if (params.noConfig) return [];
    const { promptConsents } = await import("../config/workflow-settings.ts");
    return await promptConsents({ cwd, env });
  };
  const allItems = async (): Promise<readonly ConsentItem[]> => {
    const [{ consents }, team] = [await read(() => false), await crunchItems()];
    const played = team.length === 0 ? [] : await crunchAgents();
    const agents = [...AGENT_PROGRAMS, ...agentsNamedBy(consents), ...played];
    return [...consents, ...team, ...(await promptItems()), ...agentFileItems({ agents, root })];
  };
  /** Agents of crunch's teams. A file that does not parse starts none. */
  const crunchAgents = async (): Promise<readonly string[]> => {
    const settings = await consent.crunchSettings().catch(() => null);
    return Object.values(settings?.agents ?? {}).flatMap(({ agent }) => agent ?? []);
  };
  const isReplaced = (item: ConsentItem, replaced: ReadonlySet<string> | undefined): boolean =>
    replaced?.has(item.key) === true ||
    (item.key === "store" && (params.storeFlag !== undefined || (env["HOLDFAST_STORE"] ?? "") !== ""));

  const consent: Consent = {
    isTrusted,
    async settings() {
      const found = await load();
      if (found.ok) return { config: found.config, broken: null };
      const error = configError(found);
      if (!params.lenient) throw error;
      if (!warned)
        params.notify(
          `${paint(page, "yellow", "warning:")} ${escapeText(basename(found.path))} is broken, so defaults are used: ${page.program} config check`,
        );
      warned = true;
      return { config: found.fallback, broken: error };
    },
    async stated() {
      const found = await read(() => true);
      if (found.ok) return found.config;
      throw configError(found);
    },
    async items(more = []) {
      await load();
      const all = [...(await allItems()), ...more];
      return [...new Map(all.map((item) => [item.digest, { item, trusted: isTrusted(item) }])).values()];
    },
    async trustValue(items) {
      const all = await allItems();
      const known = new Set(all.map(({ digest }) => digest));
      const others = items.filter(({ digest }) => !known.has(digest)).map(ownDigest);
      const needsAll = others.length < items.length || covered.size > 0;
      return [...(needsAll ? [overallDigest(all)] : []), ...new Set(others)].join(",");
    },
    async require({ uses, replaced, more = [], agents = [], hasWorktree = false, run }) {
      const files = [
        ...(uses.includes("crunch") ? await crunchItems() : []),
        ...(BUILT_IN_NAMES.some((name) => uses.includes(name)) ? await promptItems() : []),
      ];
      const settings = [...(await load()).consents, ...files];
      const relevant = [...settings.filter((item) => item.uses.some((use) => uses.includes(use))), ...more];
      const missing = relevant.filter((item) => !isReplaced(item, replaced) && !grants().has(item.digest));
      for (const agent of agents) called.add(agent);
      agentFileItems({ agents, root }).forEach(isAccepted);
      const untrusted = missing.filter((item) => !isTrusted(item));
      // --trust is consent to what is used now, and is stored like any other consent.
      if (params.trustFlag) consent.remember(missing.filter(isAccepted));
      if (hasWorktree) hasStarted = true;
      if (untrusted.length === 0) return;
      const error = await untrustedError(untrusted, relevant, run);
      const { QUESTION, consentText } = await import("./consent-text.ts");
      params.notify(consentText({ items: untrusted, root, run }, page));
      const answer = await params.confirm(QUESTION);
      if (answer !== "yes") throw error;
      consent.grant(untrusted);
    },
    grant(items) {
      const at = new Date().toISOString();
      grantTrust(
        env,
        key(),
        items.map((item) => ({ digest: item.digest, key: item.key, at })),
      );
      for (const { digest } of items) grants().add(digest);
      loaded = undefined;
    },
    remember(items) {
      const fresh = items.filter(({ digest }) => !grants().has(digest));
      // Consent through the environment is not stored.
      if (fresh.length === 0 || variable.all) return;
      try {
        consent.grant(fresh);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        params.notify(`${paint(page, "yellow", "warning:")} The consent cannot be remembered: ${escapeText(why)}`);
      }
    },
    async refuseCall({ agent, worktree }) {
      await load();
      // The worktree of a new run has the files of the base branch, and no agent has changed it yet.
      agentFileItems({ agents: [...called, agent], root, worktree }).forEach(isAccepted);
      hasStarted = true;
      const argumentsAtStart = argumentsOf.get(agent) ?? argumentFiles(agent, worktree);
      argumentsOf.set(agent, argumentsAtStart);
      const items = agentFileItems({ agents: [agent], root, worktree, argumentsAtStart });
      if (params.trustFlag) consent.remember(items.filter(isAccepted));
      const untrusted = items.filter((item) => !isTrusted(item));
      if (untrusted.length === 0) return null;
      const { DANGER_TEXT } = await import("./consent-text.ts");
      const names = untrusted.map(({ key, danger }) => `${key} (${DANGER_TEXT[danger]})`);
      return `${splitAgent(agent).provider} was not started, because files in the run's worktree need your consent: ${names.join(", ")}`;
    },
    async crunchSettings() {
      if (params.noConfig) return (await import("@holdfast/workflows/crunch/default-settings")).defaultCrunchSettings;
      return await (await import("../config/workflow-settings.ts")).loadCrunch(cwd);
    },
    async promptFiles() {
      const { findPromptFiles } = await import("../config/workflow-settings.ts");
      const found = findPromptFiles({ cwd, env });
      return params.noConfig ? found.filter(({ from }) => from === "user") : found;
    },
    root,
    async warnOfStore() {
      if (warnedOfStore) return;
      warnedOfStore = true;
      const item = (await load()).consents.find(({ key: name }) => name === "store");
      if (item === undefined || isTrusted(item) || isReplaced(item, undefined)) return;
      const { itemDocument, placeText } = await import("./consent-text.ts");
      const message = `store: ${withoutPassword(String(item.value))} (${placeText(item, root)}) needs your consent and is not used; this is the default store`;
      params.warn(`${paint(page, "yellow", "warning:")} ${escapeText(message)}. See: ${page.program} trust`, {
        warning: { code: "UNTRUSTED_SETTINGS", message, data: { items: [itemDocument(item)] } },
      });
    },
  };

  const untrustedError = async (
    items: readonly ConsentItem[],
    relevant: readonly ConsentItem[],
    run: string | undefined,
  ): Promise<HoldfastError> => {
    const digest = await consent.trustValue(relevant);
    const { countItems, isImported, itemDocument, lineText } = await import("./consent-text.ts");
    const what = items.every(isImported)
      ? `What ${items.map(({ key: name }) => name).join(" and ")} would execute`
      : `This repository has ${countItems(items)} that`;
    const need = items.length === 1 || items.every(isImported) ? "needs" : "need";
    // The items are on the screen already, unless notes are off.
    const excerpt = params.isQuiet ? { excerpt: items.map((item) => lineText(item, root)).join("\n") } : {};
    return new HoldfastError({
      code: "UNTRUSTED_SETTINGS",
      message: `${what} ${need} your consent; nothing was started`,
      hint: `Read them and accept them with \`holdfast trust${run === undefined ? "" : ` ${run}`}\`, or pass --trust. In CI set HOLDFAST_TRUST=${digest}. Flags that replace a setting need no consent, and --no-config ignores holdfast.config.yaml and .holdfast/. docs/trust.md explains it.`,
      retry: "ask",
      data: { digest, items: items.map(itemDocument), ...excerpt },
    });
  };
  return consent;
}

/**
 * `1` trusts everything that exists, for machines whose checkouts are trusted already; a digest trusts only that
 * content.
 */
function readVariable(text: string | undefined): { readonly all: boolean; readonly digests: readonly string[] } {
  const words = (text ?? "").split(",").flatMap((word) => (word.trim() === "" ? [] : [word.trim().toLowerCase()]));
  const wrong = words.find((word) => word !== "0" && word !== "1" && !/^[0-9a-f]{32}$/.test(word));
  if (wrong !== undefined)
    throw usageError(
      `HOLDFAST_TRUST cannot be ${JSON.stringify(wrong)}`,
      "Set it to 1, or to the digest that `holdfast trust` prints.",
    );
  return { all: words.includes("1"), digests: words.filter((word) => word.length === 32) };
}

/** The first problem becomes the message, with its line; all problems are in the data. */
function configError(loaded: Extract<LoadedConfig, { readonly ok: false }>): HoldfastError {
  const [first] = loaded.problems;
  const place = first === undefined ? "" : `:${first.line}:${first.column}`;
  const more = loaded.problems.length > 1 ? ` (and ${loaded.problems.length - 1} more)` : "";
  return new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${basename(loaded.path)}${place}: ${first?.message ?? "it does not parse"}${more}`,
    hint:
      first?.hint ?? "`holdfast config check` shows every problem, `holdfast setup --defaults --dry-run` a valid file.",
    data: { path: loaded.path, problems: loaded.problems, excerpt: first?.excerpt ?? "" },
  });
}
