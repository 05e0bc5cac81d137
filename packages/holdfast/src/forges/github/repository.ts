import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import type { Api } from "../api.ts";

/** The repository in which issues and pull requests live, and the one that branches are pushed to: the same one unless that is a fork. */
export interface GithubPlace {
  readonly api: Api;
  readonly host: string;
  readonly owner: string;
  readonly name: string;
  readonly head: { readonly owner: string; readonly name: string };
  /** Whose login it is; null where it is nobody's. */
  login(): Promise<string | null>;
}

export function repositoryPath({ owner, name }: GithubPlace): string {
  return `repos/${owner}/${name}`;
}

export function locationOf({ host, owner, name }: GithubPlace): string {
  return `https://${host}/${owner}/${name}`;
}

/** FORGE_DENIED when it cannot be seen: GitHub does not tell a repository that is hidden from one that is not there. */
export async function readRepository(place: GithubPlace): Promise<Repository> {
  const found = await place.api.read(repositoryPath(place), REPOSITORY);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitHub shows no repository ${place.owner}/${place.name} on ${place.host}`,
    hint: "Check the remote's URL, and that the login may see this repository.",
    retry: "ask",
  });
}

/** What is absent in a repository that can be seen is not there; in one that cannot be seen, nobody knows. */
export async function absent(place: GithubPlace): Promise<null> {
  await readRepository(place);
  return null;
}

const REPOSITORY = z.object({
  full_name: z.string(),
  default_branch: z.string(),
  // Told only to those who may push.
  allow_merge_commit: z.optional(z.boolean()),
  allow_squash_merge: z.optional(z.boolean()),
});

type Repository = z.infer<typeof REPOSITORY>;
