import * as z from "zod/mini";
import { HoldfastError } from "../../core/error.ts";
import type { Api } from "../api.ts";

/** The project in which issues and merge requests live, and the one that branches are pushed to: the same one unless that is a fork. */
export interface GitlabPlace {
  readonly api: Api;
  readonly host: string;
  /** With its groups: `team/tools/app`. */
  readonly project: string;
  readonly head: string;
}

export function projectPath(project: string): string {
  return `projects/${encodeURIComponent(project)}`;
}

export function locationOf({ host, project }: GitlabPlace): string {
  return `https://${host}/${project}`;
}

/** FORGE_DENIED when it cannot be seen: GitLab does not tell a project that is hidden from one that is not there. */
export async function readProject(place: GitlabPlace, project: string = place.project): Promise<Project> {
  const found = await place.api.read(projectPath(project), PROJECT);
  if (found !== null) return found;
  throw new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitLab shows no project ${project} on ${place.host}`,
    hint: "Check the remote's URL, and that the login may see this project.",
    retry: "ask",
  });
}

/** What is absent in a project that can be seen is not there; in one that cannot be seen, nobody knows. */
export async function absent(place: GitlabPlace): Promise<null> {
  await readProject(place);
  return null;
}

/** A thing that can be read, and of which a write says that it is not there: it may not be written. */
export function hiddenWrite(place: GitlabPlace, what: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_DENIED",
    message: `GitLab does not let us ${what} in ${locationOf(place)}`,
    hint: "Give the login the role of a developer there, and the token the scope `api`.",
    retry: "ask",
  });
}

const PROJECT = z.object({ id: z.number(), default_branch: z.nullish(z.string()) });

type Project = z.infer<typeof PROJECT>;

/** Of descriptions and notes, in characters. */
export const LONGEST_BODY = 1_000_000;
