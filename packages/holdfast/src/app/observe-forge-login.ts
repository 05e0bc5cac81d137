import { pathToFileURL } from "node:url";
import { HoldfastError } from "../core/error.ts";
import type { ObservedForge } from "../engine/diagnosis.ts";
import { tokenVariables } from "../forges/github/github-transport.ts";
import { runProcess } from "../system/subprocess.ts";
import { createGitBranches } from "../workspaces/branch/git-branches.ts";
import { locateForge, type ForgeChoice } from "./find-forge.ts";
import { accessForge } from "./forge-access.ts";

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
        const isIn = way === "token" || (way === "program" && (await isLoggedIn(host, env)));
        const login = way === "token" ? (tokenVariables(host).find((variable) => env[variable]) ?? null) : "gh";
        return { ...at, login, fix: isIn ? null : transport.fix };
      }
    }
  } catch (error) {
    // Not a repository, or a config that does not fit: other checks say so.
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/** gh has the token at hand without the network; only whether it has one is looked at. */
async function isLoggedIn(host: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const result = await runProcess({
    command: "gh",
    args: ["auth", "token", "--hostname", host],
    env,
    timeoutMs: 10_000,
  });
  return result.code === 0;
}
