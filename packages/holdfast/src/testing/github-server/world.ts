import { Accounts } from "../forge-server/accounts.ts";
import { Refused } from "../forge-server/exchange.ts";
import { BareRepository } from "../forge-server/bare-repository.ts";

/** Everything that a loopback GitHub knows, open to the tests that set it up and look into it. */
export class World extends Accounts {
  readonly repositories = new Map<string, Repository>();

  add(params: {
    readonly owner: string;
    readonly name: string;
    readonly bare: string;
    readonly parent?: Repository;
  }): Repository {
    const repository: Repository = {
      id: this.repositories.size + 1,
      owner: params.owner,
      name: params.name,
      bare: new BareRepository(params.bare),
      parent: params.parent ?? null,
      issues: [],
      pulls: [],
      comments: [],
      reviews: [],
      checkRuns: [],
      statuses: [],
      logs: new Map(),
      rules: { strict: false, approvals: false, drafts: true, methods: ["merge", "squash", "rebase"] },
    };
    this.repositories.set(`${params.owner}/${params.name}`.toLowerCase(), repository);
    return repository;
  }

  require(owner: string, name: string): Repository {
    const found = this.repositories.get(`${owner}/${name}`.toLowerCase());
    if (found === undefined) throw notFound();
    return found;
  }
}

export interface Repository {
  readonly id: number;
  readonly owner: string;
  readonly name: string;
  readonly bare: BareRepository;
  readonly parent: Repository | null;
  readonly issues: Issue[];
  readonly pulls: Pull[];
  readonly comments: Comment[];
  readonly reviews: ReviewRecord[];
  readonly checkRuns: CheckRunRecord[];
  readonly statuses: StatusRecord[];
  /** Job → its log. */
  readonly logs: Map<number, string>;
  readonly rules: {
    /** A head must contain its base before it is merged. */
    strict: boolean;
    /** Somebody must approve first. */
    approvals: boolean;
    drafts: boolean;
    methods: readonly ("merge" | "squash" | "rebase")[];
  };
}

export interface Issue {
  readonly number: number;
  readonly author: string;
  title: string;
  body: string | null;
  state: "open" | "closed";
  labels: string[];
  readonly createdAt: string;
  updatedAt: string;
}

export interface Pull extends Issue {
  draft: boolean;
  readonly head: { readonly repository: Repository; readonly branch: string };
  readonly base: string;
  headCommit: string;
  mergeCommit: string | null;
  /** Head and base for which it is known whether they merge; anything else is still to be reckoned. */
  reckoned: string | null;
}

export interface Comment {
  readonly id: number;
  readonly on: number;
  readonly author: string;
  readonly body: string;
}

export interface ReviewRecord {
  readonly id: number;
  readonly on: number;
  readonly author: string;
  readonly isBot: boolean;
  state: "APPROVED" | "CHANGES_REQUESTED" | "COMMENTED" | "DISMISSED" | "PENDING";
  readonly body: string;
  readonly commit: string;
  readonly at: string;
  readonly remarks: readonly { readonly path: string; readonly line: number; readonly body: string }[];
}

export interface CheckRunRecord {
  readonly id: number;
  readonly commit: string;
  readonly name: string;
  readonly status: string;
  readonly conclusion: string | null;
  readonly summary: string;
  readonly app: string;
}

export interface StatusRecord {
  readonly commit: string;
  readonly context: string;
  readonly state: "success" | "pending" | "failure" | "error";
  readonly description: string;
}

export function nextNumber({ issues, pulls }: Repository): number {
  return Math.max(0, ...issues.map(({ number }) => number), ...pulls.map(({ number }) => number)) + 1;
}

export function notFound(): Refused {
  return new Refused({
    status: 404,
    body: { message: "Not Found", documentation_url: "https://docs.github.com/rest" },
  });
}

export function unprocessable(errors: readonly unknown[]): Refused {
  return new Refused({ status: 422, body: { message: "Validation Failed", errors } });
}
