import { findConfig, loadConfig } from "../../../config/load-config.ts";
import { itemDocument } from "../../consent.ts";
import { escapeText } from "../../output/escape-text.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { checkText, settingsText } from "./view.ts";
import { CRUNCH_DIRECTORY } from "../../../config/crunch/crunch-files.ts";
import type { configSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof configSpec)["flags"]>): Promise<Exit> {
  if (input.on("path")) return showPath(shell);
  if (input.on("crunch")) return showCrunch(shell);
  if (input.operand(0) === "check") return check(shell);
  const config = await shell.consent.stated();
  const waiting = (await shell.consent.items()).filter(({ trusted }) => !trusted).map(({ item }) => item);
  shell.print({
    json: () => ({ path: config.path, settings: config.entries, untrusted: waiting.map(itemDocument) }),
    text: (page) => settingsText(config, page),
  });
  if (waiting.length > 0)
    shell.say(
      `Without your consent, and so not in force: ${waiting.map(({ key }) => escapeText(key)).join(", ")}. See: ${shell.talk.program} trust`,
    );
  if (config.path === null) shell.say(`No config file: these are the defaults. ${shell.talk.program} init writes one.`);
  return "done";
}

/** Only finds it: a file that does not parse has a path too. */
async function showPath(shell: Shell): Promise<Exit> {
  const path = findConfig(shell.cwd);
  shell.print({ json: () => ({ path }), text: () => (path === null ? "" : `${path}\n`) });
  if (path !== null) return "done";
  shell.say(`There is no config file; ${shell.talk.program} init writes one.`);
  return "nothing";
}

/** Those in force: what the repository does not say is built in. */
async function showCrunch(shell: Shell): Promise<Exit> {
  const { crunchTemplate } = await import("../../../config/crunch/crunch-template.ts");
  const files = crunchTemplate(await shell.consent.crunchSettings());
  shell.print({
    json: () => ({ directory: CRUNCH_DIRECTORY, files }),
    text: () => files.map(({ path, text }) => `# ==> ${CRUNCH_DIRECTORY}/${path} <==\n${text}`).join("\n"),
  });
  shell.say(
    `Put one of them, changed, at its place below the repository's root; those that are not there stay as they are.`,
  );
  return "done";
}

async function check(shell: Shell): Promise<Exit> {
  const loaded = await loadConfig({ cwd: shell.cwd, env: shell.env, storeFlag: undefined, allows: () => true });
  const path = loaded.ok ? loaded.config.path : loaded.path;
  const problems = loaded.ok ? [] : loaded.problems;
  shell.print({ json: () => ({ path, ok: loaded.ok, problems }), text: (page) => checkText({ path, problems }, page) });
  return loaded.ok ? "done" : "usage";
}
