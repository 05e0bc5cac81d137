import { Accounts } from "../forge-server/accounts.ts";
import { Refused } from "../forge-server/exchange.ts";
import type { Route, RoutedCall } from "../forge-server/route.ts";
import { BareRepository } from "../forge-server/bare-repository.ts";

/** Everything that a loopback GitLab knows, open to the tests that set it up and look into it. */
export class Projects extends Accounts {
  readonly all: Project[] = [];
  #notes = 0;

  add(params: { readonly path: string; readonly bare: string }): Project {
    const project: Project = {
      id: this.all.length + 1,
      path: params.path,
      bare: new BareRepository(params.bare),
      issues: [],
      requests: [],
      statuses: [],
      traces: new Map(),
      rules: { fastForward: false, approvals: false },
    };
    this.all.push(project);
    return project;
  }

  require(name: string): Project {
    const found = this.all.find(({ id, path }) => String(id) === name || path.toLowerCase() === name.toLowerCase());
    if (found === undefined) throw new Refused({ status: 404, body: { message: "404 Project Not Found" } });
    return found;
  }

  nextNote(): number {
    this.#notes += 1;
    return this.#notes;
  }
}

export interface Project {
  readonly id: number;
  readonly path: string;
  readonly bare: BareRepository;
  readonly issues: GitlabIssue[];
  /** Numbered apart from issues. */
  readonly requests: GitlabRequest[];
  readonly statuses: GitlabStatus[];
  /** Job → its log. */
  readonly traces: Map<number, string>;
  readonly rules: {
    /** Only a head that contains its base is merged. */
    fastForward: boolean;
    approvals: boolean;
  };
}

export interface GitlabIssue {
  readonly iid: number;
  readonly author: string;
  title: string;
  description: string | null;
  state: "opened" | "closed";
  labels: string[];
  updatedAt: string;
  readonly notes: GitlabNote[];
}

export interface GitlabNote {
  readonly id: number;
  readonly body: string;
  readonly author: { readonly username: string };
  readonly system: boolean;
  readonly created_at: string;
  readonly resolved?: boolean;
  readonly position?: { readonly head_sha: string; readonly new_path: string; readonly new_line: number };
}

export interface GitlabRequest {
  readonly iid: number;
  title: string;
  description: string;
  state: "opened" | "closed" | "merged";
  readonly source: { readonly project: Project; readonly branch: string };
  readonly target: string;
  sha: string;
  labels: string[];
  readonly notes: GitlabNote[];
  /** Whose approval counts. */
  readonly approvers: string[];
  /** Head and base for which it is known whether they merge; anything else is still to be reckoned. */
  reckoned: string | null;
}

export interface GitlabStatus {
  readonly id: number;
  readonly commit: string;
  readonly name: string;
  readonly status: string;
  readonly description: string | null;
  readonly isJob: boolean;
  readonly allowFailure: boolean;
}

export interface ProjectContext {
  readonly projects: Projects;
  readonly project: Project;
  readonly login: string;
}

export type GitlabCall = RoutedCall<ProjectContext>;
/** Its path is what follows `projects/:id/`. */
export type GitlabRoute = Route<ProjectContext>;

export function notFound(what: string): Refused {
  return new Refused({ status: 404, body: { message: `404 ${what} Not Found` } });
}
