import type { Workspace } from "../ports/workspace.ts";
import { performRestore } from "./restore/apply-restore.ts";
import { captureTree, DEFAULT_CAPTURE, type CaptureOptions, type CapturePlace } from "./capture/capture.ts";
import { guardMethods } from "./git/failure-border.ts";
import { healing } from "./objects/heal-objects.ts";
import { prepareRestore } from "./restore/prepare-restore.ts";
import { ensureHome, ensurePrivateGitDir } from "./indexes/private-git-dir.ts";
import { sweepOperations } from "./indexes/private-index.ts";
import type { Checkout, Repository } from "./repository.ts";
import { filesOf, lookAt, takeSnapshot } from "./capture/snapshot.ts";
import { standOn } from "./worktree/stand-on.ts";

export async function openGitWorkspace(repository: Repository, checkout: Checkout): Promise<Workspace> {
  const place = await capturePlaceOf(repository, checkout);
  const workspace: Workspace = {
    root: checkout.root,
    snapshot: (params) => healing(place, () => takeSnapshot(place, params, optionsOf(params))),
    look: (params) => healing(place, () => lookAt(place, { ...params, message: "look\n\n" }, optionsOf(params))),
    currentFiles: (params) => healing(place, async () => filesOf(await captureTree(place, optionsOf(params)))),
    planRestore: (params) => healing(place, () => prepareRestore(place, params)),
    applyRestore: (plan) => performRestore(place, plan),
    standOn: (params) => standOn(place, params),
  };
  return guardMethods(workspace, checkout.root);
}

export async function capturePlaceOf(repository: Repository, checkout: Checkout): Promise<CapturePlace> {
  const home = await ensureHome(checkout.gitDir);
  await sweepOperations(home);
  const privateGitDir = await ensurePrivateGitDir({ home, objectFormat: repository.objectFormat });
  return { repository, home, privateGitDir, root: checkout.root, gitDir: checkout.gitDir };
}

function optionsOf(
  params: { readonly maxUntrackedBytes?: number; readonly includeIgnored?: boolean } = {},
): CaptureOptions {
  return {
    maxUntrackedBytes: params.maxUntrackedBytes ?? DEFAULT_CAPTURE.maxUntrackedBytes,
    includeIgnored: params.includeIgnored ?? DEFAULT_CAPTURE.includeIgnored,
  };
}
