import { join } from "node:path";
import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { RestoreResult, SnapshotParams, Workspace, Workspaces } from "../../ports/workspace.ts";
import { userState, type TestRepository } from "./workspace-repository.ts";

/** One workspace under test. Every act is checked to leave all that belongs to the user as it was, byte for byte. */
export interface WorkspaceSession {
  readonly workspaces: Workspaces;
  readonly workspace: Workspace;
  snapshot(params?: Partial<SnapshotParams>): Promise<FilesPlane>;
  /** Snapshot of now, plan, apply. Returns the snapshot of before, which is the way back. */
  restore(to: FilesPlane, paths?: readonly string[]): Promise<RestoreResult & { readonly undo: FilesPlane }>;
  /** Fails when anything of the user's differs after `act`. */
  guard<T>(act: () => Promise<T>): Promise<T>;
}

export async function openWorkspaceSession(params: {
  readonly repository: TestRepository;
  readonly open: (path: string) => Promise<Workspaces>;
  readonly run?: string;
  readonly gitDir?: string;
}): Promise<WorkspaceSession> {
  const { repository, open, run = "test-run" } = params;
  const gitDir = params.gitDir ?? join(repository.root, ".git");
  const workspaces = await open(repository.root);
  const workspace = await workspaces.open(repository.root);
  let sequence = 0;

  const guard = async <T>(act: () => Promise<T>): Promise<T> => {
    const before = userState(gitDir);
    const [outcome] = await Promise.allSettled([act()]);
    const after = userState(gitDir);
    const names = [...Object.keys(before), ...Object.keys(after)].filter((name) => before[name] !== after[name]);
    if (names.length > 0) throw new Error(`touched in ${gitDir}: ${[...new Set(names)].join(", ")}`);
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  };
  const snapshot = (extra: Partial<SnapshotParams> = {}): Promise<FilesPlane> =>
    guard(() =>
      workspace.snapshot({ run, sequence: ++sequence, message: "test", at: "2026-01-02T03:04:05Z", ...extra }),
    );
  return {
    workspaces,
    workspace,
    guard,
    snapshot,
    async restore(to, paths) {
      const undo = await snapshot();
      const plan = await guard(() =>
        workspace.planRestore({ from: undo, to, ...(paths === undefined ? {} : { paths }) }),
      );
      return { ...(await guard(() => workspace.applyRestore(plan))), undo };
    },
  };
}
