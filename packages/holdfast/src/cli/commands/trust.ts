/** The `trust` command: gives, lists and revokes the user's consent to settings and executed files of a repository. */
import { usageError } from "@holdfast/platform/error";
import { listTrust, revokeTrust, trustKey } from "../../config/trust.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { TrustedItem } from "../consent.ts";
import { QUESTION, blocksText, consentText, countItems, itemDocument, lineText } from "../consent-text.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { escapeText } from "../output/text.ts";

export const spec = {
  name: "trust",
  summary: "review and accept settings that can run programs",
  details: [
    "A repository that you cloned cannot run anything by its settings alone. Settings that run a command, raise an agent's rights, change a prompt, save more files, or name a place to write to or a server need your consent, once for each value. So do scripts that an agent's command names, and project files of agents that can start programs, such as .claude/settings.json. The consent is kept outside the repository, in $XDG_STATE_HOME/holdfast/trust or ~/.local/state/holdfast/trust. When a value or a file changes, you are asked again.",
    "This command shows these settings with file and line, and the first 60 lines of each file and long value, then asks. With RUN it adds what needs consent because of that run: its workflow file, the document that it was imported from, and the files in its worktree that its agents execute. Without a terminal it changes nothing and exits with status 4, unless you pass --yes.",
    "In CI set HOLDFAST_TRUST to the digests that this command prints, separated by commas: the same settings and files are accepted, changed ones are not. HOLDFAST_TRUST=1 accepts everything. Commands that only read never need consent, and --dry-run does not either. docs/trust.md lists every setting.",
  ],
  operands: [
    {
      name: "RUN",
      about: "also what needs consent because of this run",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  flags: {
    yes: { type: "boolean", short: "y", about: "accept everything that is shown" },
    show: { type: "boolean", about: "print whole files and values, not only their first 60 lines" },
    list: { type: "boolean", about: "list the repositories that you have consented to" },
    revoke: { type: "boolean", about: "withdraw every consent for this repository" },
  },
  examples: [
    { line: "holdfast trust", about: "show what needs consent, then ask" },
    { line: "holdfast trust issue-1 --show", about: "also show that run's files, in full" },
    { line: "holdfast trust --list", about: "every repository with a consent, and for what" },
    { line: "holdfast trust --revoke", about: "withdraw every consent, and ask again" },
  ],
  json: '{"repository", "digest", "settings": [{"key", "value", "danger", "file", "line", "digest", "trusted"}], "granted"}; --list: {"repositories": [{"repository", "grants": [{"key", "digest", "at"}]}]}; --revoke: {"repository", "revoked"}.',
} as const satisfies CommandSpec;

type TrustInput = Input<(typeof spec)["flags"]>;

export async function run(shell: Shell, input: TrustInput): Promise<Exit> {
  if (input.on("list") && input.on("revoke"))
    throw usageError("Both --list and --revoke were given", "Leave one of them out.");
  if ((input.on("list") || input.on("revoke")) && input.operand(0) !== undefined)
    throw usageError("A run was given with --list or --revoke", "Both are about repositories: leave the run out.");
  if (input.on("list")) return list(shell);
  if (input.on("revoke")) return revoke(shell);
  return await grant(shell, input);
}

async function grant(shell: Shell, input: TrustInput): Promise<Exit> {
  // Of a file that cannot be read, no setting is known: an empty list would be wrong.
  await shell.consent.stated();
  const found = await shell.consent.items(await itemsOfRun(shell, input.operand(0)));
  const waiting = found.filter(({ trusted }) => !trusted).map(({ item }) => item);
  const digest = await shell.consent.trustValue(found.map(({ item }) => item));
  const may = waiting.length > 0 && (await mayGrant(shell, input, waiting));
  if (may) shell.consent.grant(waiting);
  const repository = trustKey(shell.consent.root);
  shell.print({
    json: () => ({
      repository,
      digest,
      settings: found.map(({ item, trusted }) => ({ ...Object(itemDocument(item)), trusted: trusted || may })),
      granted: may ? waiting.length : 0,
    }),
    text: (page) => {
      const asked = shell.canAsk && !input.on("yes");
      return grantText({ found, may, asked }, shownIn(shell, input), digest, page);
    },
  });
  if (waiting.length === 0 || may) return "done";
  shell.notify(
    shell.canAsk ? "Not accepted; nothing was changed." : "Not a terminal: nothing was accepted. Pass --yes to accept.",
  );
  return "needs_you";
}

async function itemsOfRun(shell: Shell, address: string | undefined): Promise<readonly TrustedItem["item"][]> {
  if (address === undefined) return [];
  const holdfast = await shell.open({ create: false, writes: false });
  const { id } = await holdfast.resolveRun(address);
  const { runItems } = await import("../run-consent.ts");
  return await runItems(shell, holdfast, id);
}

function shownIn({ consent }: Shell, input: TrustInput) {
  return { root: consent.root, lines: input.on("show") ? "all" : "first", run: input.operand(0) } as const;
}

async function mayGrant(shell: Shell, input: TrustInput, waiting: readonly TrustedItem["item"][]): Promise<boolean> {
  if (input.on("yes")) return true;
  if (!shell.canAsk) return false;
  shell.notify(consentText({ items: waiting, ...shownIn(shell, input) }, shell.talk));
  const answer = await shell.confirm(QUESTION);
  return answer === "yes";
}

function grantText(
  state: { readonly found: readonly TrustedItem[]; readonly may: boolean; readonly asked: boolean },
  shown: ReturnType<typeof shownIn>,
  digest: string,
  page: Page,
): string {
  const { found, may } = state;
  if (found.length === 0) return "This repository has no settings that need consent.\n";
  const trusted = found.filter((one) => one.trusted).map(({ item }) => item);
  const waiting = found.filter((one) => !one.trusted).map(({ item }) => item);
  // --show prints whole files, also of items that have consent.
  const known =
    shown.lines === "all"
      ? blocksText({ items: trusted, ...shown }, page)
      : trusted.map((item) => `  ${escapeText(lineText(item, shown.root))}\n`).join("");
  const head = known === "" ? "" : `${paint(page, "bold", "Already accepted:")}\n${known}`;
  const asks = waiting.length === 0 || state.asked ? "" : consentText({ items: waiting, ...shown }, page);
  return `${head}${asks}${may && waiting.length > 0 ? `Accepted ${countItems(waiting)}.\n` : ""}Digest, for HOLDFAST_TRUST: ${digest}\n`;
}

function list(shell: Shell): Exit {
  const repositories = listTrust(shell.env);
  shell.print({
    json: () => ({ repositories }),
    text: (page) =>
      repositories
        .map(({ repository, grants }) => {
          const lines = grants.map(({ key, at }) => `  ${escapeText(key)} (${escapeText(at)})\n`);
          return `${paint(page, "bold", escapeText(repository))}\n${lines.join("")}`;
        })
        .join("") || "You have not consented to the settings of any repository.\n",
  });
  return "done";
}

function revoke(shell: Shell): Exit {
  const repository = trustKey(shell.consent.root);
  const revoked = revokeTrust(shell.env, repository);
  const count = revoked === 1 ? "1 consent" : `${revoked} consents`;
  shell.print({
    json: () => ({ repository, revoked }),
    text: () => `Withdrew ${count} for ${escapeText(repository)}.\n`,
  });
  return "done";
}
