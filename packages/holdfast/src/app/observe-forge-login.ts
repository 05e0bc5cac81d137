import { pathToFileURL } from "node:url";
import { HoldfastError } from "../core/error.ts";
import type { ObservedForge } from "../engine/diagnosis.ts";
import { runProcess } from "../system/subprocess.ts";
import { createGitBranches } from "../workspaces/branch/git-branches.ts";
import { locateForge, type ForgeChoice } from "./find-forge.ts";
import { accessForge } from "./forge-access.ts";

export type { ObservedForge };

/** Which forge runs would work with here, and whether there is a login for it. Nothing leaves this machine. */
export async function observeForgeLogin(params: {
  readonly choice: ForgeChoice;
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
}): Promise<ObservedForge | null> {
  const { folder, env } = params;
  try {
    const site = await locateForge({ ...params, asking: await createGitBranches().asking(folder) });
    switch (site.kind) {
      case "none":
        return null;
      case "local":
        return { name: "local", location: pathToFileURL(site.repository).href, login: null, fix: null };
      case "server": {
        const { kind, host, owner, name } = site.forge;
        const at = { name: kind, location: `https://${host}/${owner}/${name}` };
        const { way, transport } = accessForge(site.forge, env);
        const isIn = way !== null && (way.kind === "token" || (await isLoggedIn(way.name, host, env)));
        return { ...at, login: way?.name ?? null, fix: isIn ? null : transport.fix };
      }
    }
  } catch (error) {
    // Not a repository, or a config that does not fit: other checks say so.
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/** The programs know that without the network. What they print is not looked at: it may be the token. */
async function isLoggedIn(program: string, host: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const args = program === "gh" ? ["auth", "token", "--hostname", host] : ["config", "get", "token", "--host", host];
  const { code, stdout } = await runProcess({ command: program, args, env, timeoutMs: 10_000 });
  return code === 0 && stdout.toString("utf8").trim() !== "";
}
