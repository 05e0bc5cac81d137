import { basename, relative } from "node:path";
import type { ConsentItem, Use } from "../config/consent.ts";
import type { EffectiveConfig } from "../config/effective-config.ts";
import { mergeConfig } from "../config/effective-config.ts";
import { findRepositoryRoot, loadConfig } from "../config/load-config.ts";
import type { LoadedConfig, LoadParams } from "../config/load-config.ts";
import type { CrunchSettings } from "../core/crunch/settings.ts";
import { HoldfastError } from "../core/error.ts";
import { grantTrust, readTrust, trustKey } from "../system/trust-record.ts";
import { configError } from "./config-error.ts";
import { escapeLines, escapeText } from "./output/escape-text.ts";
import { paint } from "./output/page.ts";
import type { Page } from "./output/page.ts";

/**
 * What a command does with the settings of a repository. "reads" never needs consent, and settings without consent keep their
 * defaults. "store" needs it for the place of the store, "saves" also for what is saved and where, "works" for all that agents use.
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
  /** What is wrong with the file, when the defaults stand in for it. */
  readonly broken: HoldfastError | null;
}

export interface ConsentRequest {
  readonly uses: readonly Use[];
  /** Keys that flags of this command replace. */
  readonly replaced?: ReadonlySet<string>;
  /** Settings from elsewhere than the config: files of crunch's teams, a workflow, an imported document. */
  readonly more?: readonly ConsentItem[];
}

export interface Consent {
  /** The settings that may take effect: what has no consent keeps its default. */
  settings(): Promise<ReadSettings>;
  /** The settings as the file states them, to be shown and not to be used. */
  stated(): Promise<EffectiveConfig>;
  /** All settings of the repository that need consent, with those of crunch's teams. */
  items(): Promise<readonly TrustedItem[]>;
  isTrusted(item: ConsentItem): boolean;
  /** Asks for what has no consent yet. UNTRUSTED_SETTINGS where the user cannot be asked, or says no. */
  require(request: ConsentRequest): Promise<void>;
  /** Remembers the user's consent. */
  grant(items: readonly ConsentItem[]): void;
  /** The same for what the user has just typed or written. That it cannot be remembered is only a warning. */
  remember(items: readonly ConsentItem[]): void;
  /** Of crunch's teams: those of the repository, or the defaults under --no-config. Require "crunch" before. */
  crunchSettings(): Promise<CrunchSettings>;
  readonly root: string;
  /** Says once that the store which the file names has no consent, and that another one is read. */
  warnOfStore(): Promise<void>;
}

export interface TrustedItem {
  readonly item: ConsentItem;
  readonly trusted: boolean;
}

export interface ConsentParams {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly storeFlag: string | undefined;
  /** --no-config: the repository's files are not read. */
  readonly noConfig: boolean;
  /** --trust */
  readonly trustFlag: boolean;
  /** A command that only reads continues with the defaults when the file is broken. */
  readonly lenient: boolean;
  readonly say: (text: string) => void;
  /** For what must be seen under --json and --quiet too. */
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
  let whole = variable.all || params.trustFlag;
  let loaded: Promise<LoadedConfig> | undefined;
  let warned = false;
  let warnedOfStore = false;

  const isTrusted = (item: ConsentItem): boolean => whole || grants().has(item.digest);
  const layers = { cwd, env, storeFlag: params.storeFlag };
  const read = (allows: LoadParams["allows"]): Promise<LoadedConfig> =>
    params.noConfig
      ? Promise.resolve({ ok: true, config: mergeConfig({ ...layers, file: null }), consents: [] })
      : loadConfig({ ...layers, allows });
  const load = (): Promise<LoadedConfig> =>
    (loaded ??= (async () => {
      if (!whole && variable.digests.length > 0) {
        const { overallDigest } = await import("../config/consent.ts");
        whole = variable.digests.includes(overallDigest(await allItems()));
      }
      return await read(isTrusted);
    })());
  const crunchItems = async (): Promise<readonly ConsentItem[]> => {
    if (params.noConfig) return [];
    const { crunchConsents } = await import("../config/crunch/load-crunch.ts");
    return await crunchConsents(cwd);
  };
  const allItems = async (): Promise<readonly ConsentItem[]> => [
    ...(await read(() => false)).consents,
    ...(await crunchItems()),
  ];
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
        params.say(
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
    async items() {
      await load();
      return (await allItems()).map((item) => ({ item, trusted: isTrusted(item) }));
    },
    async require({ uses, replaced, more = [] }) {
      const files = uses.includes("crunch") ? await crunchItems() : [];
      const settings = [...(await load()).consents, ...files];
      const relevant = [...settings.filter((item) => item.uses.some((use) => uses.includes(use))), ...more];
      const missing = relevant.filter((item) => !isReplaced(item, replaced) && !grants().has(item.digest));
      // --trust is consent to what is used now, and remembered like any other.
      if (params.trustFlag) consent.remember(missing);
      const untrusted = missing.filter((item) => !isTrusted(item));
      if (untrusted.length === 0) return;
      const error = await untrustedError(untrusted);
      params.say(consentText(untrusted, root, page));
      const answer = await params.confirm("Use these settings? The answer is remembered until one of them changes.");
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
      // What is trusted by the environment leaves no trace.
      if (fresh.length === 0 || variable.all) return;
      try {
        consent.grant(fresh);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        params.say(`${paint(page, "yellow", "warning:")} The consent cannot be remembered: ${escapeText(why)}`);
      }
    },
    async crunchSettings() {
      if (params.noConfig) return (await import("../core/crunch/default-settings.ts")).defaultCrunchSettings;
      return await (await import("../config/crunch/load-crunch.ts")).loadCrunch(cwd);
    },
    root,
    async warnOfStore() {
      if (warnedOfStore) return;
      warnedOfStore = true;
      const item = (await load()).consents.find(({ key: name }) => name === "store");
      if (item === undefined || isTrusted(item) || isReplaced(item, undefined)) return;
      const message = `store: ${String(item.value)} (${placeText(item, root)}) needs your consent and is not used; this is the default store`;
      params.warn(`${paint(page, "yellow", "warning:")} ${escapeText(message)}. See: ${page.program} trust`, {
        warning: { code: "UNTRUSTED_SETTINGS", message, data: { items: [itemDocument(item)] } },
      });
    },
  };

  const untrustedError = async (items: readonly ConsentItem[]): Promise<HoldfastError> => {
    const { overallDigest } = await import("../config/consent.ts");
    const digest = overallDigest(await allItems());
    const count = items.length === 1 ? "1 setting" : `${items.length} settings`;
    return new HoldfastError({
      code: "UNTRUSTED_SETTINGS",
      message: `This repository has ${count} that need your consent; nothing was started`,
      hint: `Read them and accept them with \`holdfast trust\`, or pass --trust. In CI set HOLDFAST_TRUST=${digest}. Flags that replace a setting need no consent, and --no-config ignores all of them. docs/trust.md explains it.`,
      retry: "ask",
      data: { digest, items: items.map(itemDocument), excerpt: items.map((item) => lineText(item, root)).join("\n") },
    });
  };
  return consent;
}

/** `1` trusts whatever is there, for machines whose checkouts are trusted already; a digest trusts only that. */
function readVariable(text: string | undefined): { readonly all: boolean; readonly digests: readonly string[] } {
  const words = (text ?? "").split(",").flatMap((word) => (word.trim() === "" ? [] : [word.trim().toLowerCase()]));
  const wrong = words.find((word) => word !== "0" && word !== "1" && !/^[0-9a-f]{32}$/.test(word));
  if (wrong !== undefined)
    throw new HoldfastError({
      code: "USAGE",
      message: `HOLDFAST_TRUST cannot be ${JSON.stringify(wrong)}`,
      hint: "Set it to 1, or to the digest that `holdfast trust` prints.",
    });
  return { all: words.includes("1"), digests: words.filter((word) => word.length === 32) };
}

/** Every setting with its value, place and reason; the text of a file that it refers to under it. */
export function consentText(items: readonly ConsentItem[], root: string, page: Page): string {
  const blocks = items.map((item) => {
    const [head = ""] = [`${lineText(item, root)}: ${DANGER_TEXT[item.danger]}`];
    return [`  ${escapeText(head)}\n`, ...textLines(item).map((line) => `    | ${line}\n`)].join("");
  });
  return `${paint(page, "bold", "These settings of the repository need your consent:")}\n${blocks.join("")}`;
}

const DANGER_TEXT: Readonly<Record<ConsentItem["danger"], string>> = {
  executes: "runs a command or a program",
  rights: "gives an agent more rights",
  prompt: "changes what agents are asked to do",
  captures: "saves more files than the default",
  outside: "names a place to write to",
  sends: "names a server that gets your login",
  spends: "changes what a cost limit counts",
};

export function itemDocument({ key, value, danger, file, line, digest }: ConsentItem): unknown {
  return { key, value, danger, file, line, digest };
}

export function lineText(item: ConsentItem, root: string): string {
  if (item.value === null) return item.key;
  const value = typeof item.value === "string" ? item.value : JSON.stringify(item.value);
  return `${item.key}: ${value} (${placeText(item, root)})`;
}

function placeText({ file, line }: ConsentItem, root: string): string {
  return `${relative(root, file) || file}:${line}`;
}

function textLines({ text }: ConsentItem): readonly string[] {
  if (text === null) return [];
  const lines = escapeLines(text).trimEnd().split("\n");
  return lines.length <= SHOWN_LINES
    ? lines
    : [...lines.slice(0, SHOWN_LINES), `… and ${lines.length - SHOWN_LINES} more lines`];
}

const SHOWN_LINES = 60;
